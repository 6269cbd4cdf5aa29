use super::*;
use crate::out::tests::page;
use std::io::Cursor;

const LINE: &str = "2026-05-28T09:35:10.123456Z  INFO session{session=a}: t: [a] context compression ";

fn verdict_on(text: impl Into<Vec<u8>>) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::default();
    verdict.read_input(Cursor::new(text.into()))?;
    Ok(verdict)
}

fn told(verdict: &Verdict) -> String {
    let mut out = Vec::new();
    verdict.tell(&page(None), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn p13_a_clean_log_says_so() {
    let verdict = verdict_on(format!(
        "hello\n{LINE}started: session=a op=1 messages=9 tokens=~100 model=m\n{LINE}done: session=a op=1 messages=9->3 \
         tokens=~10 snapshot=a.snapshot.20260528T093510123456Z ms=8\n"
    ))
    .unwrap();
    assert_eq!(verdict.violations(), 0);
    assert_eq!(
        told(&verdict),
        "\
log    standard input: 3 lines, 0 starts of a gateway; 1 compressions begun, 1 done, 0 skipped, 0 failed, 0 stale, \
0 in flight at the end

VIOLATION         COUNT  MEANING
id_changed            0  a compression ended under another session id than it began with
foreign_context       0  the log context named another session than the one that was compressed
overlap               0  two compressions of one session were in flight at once
discontinuity         0  a context was full again within two minutes, with half its messages gone
unpaired              0  a compression began without an end, or ended without a beginning
foreign_snapshot      0  a snapshot is not the session's, or not later than its last one

No violations.
"
    );
}

#[test]
fn p13_violations_are_counted_and_shown_with_their_lines() {
    let verdict = verdict_on(format!(
        "{LINE}started: session=a op=1 messages=9 tokens=~100 model=m\n\n{LINE}done: session=b op=1 messages=9->3 tokens=~10\n"
    ))
    .unwrap();
    assert_eq!(verdict.violations(), 1);
    assert!(told(&verdict).ends_with("id_changed  lines 1 and 3: a compression of a ended as one of b\n"));
    let json = verdict.in_json();
    assert_eq!((&json["violations"], &json["counts"]["id_changed"]), (&json!(1), &json!(1)));
    assert_eq!(json["findings"][0]["sessions"], json!(["a", "b"]));
    assert_eq!(json["findings"][0]["lines"][1], json!({"file": "standard input", "line": 3}));
}

#[test]
fn p31_a_log_cannot_control_the_terminal() {
    let verdict = verdict_on(format!("{LINE}done: session=\x07\x1b]0;x op=1 messages=9->3\n")).unwrap();
    assert_eq!(verdict.violations(), 1);
    assert!(!told(&verdict).contains(['\x07', '\x1b']), "{}", told(&verdict));
}

#[test]
fn what_is_no_log_is_refused_in_clear_words() {
    for (bytes, words) in [
        (b"".to_vec(), "nothing came on standard input"),
        (b"\x1f\x8b\x08\0\0\0".to_vec(), "is compressed with gzip: read it with `zcat"),
        ([b"SQLite format 3\0".to_vec(), vec![0; 4000]].concat(), "is no text"),
    ] {
        let error = verdict_on(bytes).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty.log");
    fs::write(&empty, "").unwrap();
    for (path, words) in [
        (directory.path().join("none.log"), "cannot be read"),
        (directory.path().to_owned(), "is a directory: give a file, or an agent's home"),
        (empty, "is empty: there is nothing to verify"),
    ] {
        let error = Verdict::default().read_file(&path).unwrap_err();
        assert!(format!("{error:#}").contains(words), "{error:#}");
    }
}

#[test]
fn a_line_without_an_end_is_not_kept_in_memory_and_hides_no_other() {
    let long = "x".repeat(3 * LINE_MAX as usize + 5);
    let verdict = verdict_on(format!(
        "{long}\n{LINE}started: session=a op=1 messages=9\n{}\n{LINE}done: session=b op=1 messages=9->3\n{long}",
        "y".repeat(LINE_MAX as usize)
    ))
    .unwrap();
    assert_eq!((verdict.logs[0].lines, verdict.count(Kind::IdChanged)), (5, 1));
}

#[test]
fn rotated_files_are_one_log_in_the_order_they_were_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    file("agent.log.10", "\n");
    file("agent.log.2", &format!("{LINE}started: session=a op=1 messages=9\n"));
    file("agent.log.1", "nothing\n");
    file("agent.log", &format!("\n{LINE}done: session=b op=1 messages=9->3\n"));
    file("agent.log.3.gz", "\x1f\u{8b}");
    fs::write(directory.path().join("agent.log.3.gz"), b"\x1f\x8b\x08").unwrap();
    file("agent.logic", "no");
    let mut verdict = Verdict::default();
    verdict.read_rotated(directory.path(), "agent.log").unwrap();
    assert_eq!(verdict.logs[0].files.len(), 4);
    assert!(verdict.unread[0].contains("agent.log.3.gz is compressed"), "{:?}", verdict.unread);
    assert!(
        told(&verdict).contains("lines agent.log.2:1 and agent.log:2: a compression of a ended as one of b")
    );
}

#[test]
fn p13_what_is_older_is_read_and_not_told() {
    let text = format!(
        "{LINE}started: session=a op=1 messages=9 tokens=~100 model=m\n{LINE}done: session=b op=1 messages=9->3 tokens=~10\n"
    );
    let at = "2026-05-28T09:35:10Z".parse::<jiff::Timestamp>().unwrap().as_microsecond();
    for (since, expected) in [(at, 1), (at + 60_000_000, 0)] {
        let mut verdict = Verdict { since: Some(Time(since)), ..Verdict::default() };
        verdict.read_input(Cursor::new(text.clone())).unwrap();
        assert_eq!(verdict.violations(), expected);
        assert_eq!(verdict.in_json()["promises"]["P1"], expected);
    }
}

#[test]
fn what_only_the_end_of_a_log_shows_is_as_old_as_its_last_line() {
    // The first was followed by a second one, and never ended.
    let log = format!(
        "{LINE}started: session=a op=1 messages=9 tokens=~100 model=m\n{LINE}started: session=a op=2 messages=9 tokens=~100 model=m\n\
         {LINE}done: session=a op=2 messages=9->3 tokens=~10 snapshot=a.snapshot.20260528T093510123456Z ms=8\n"
    );
    let violations = |since: Option<i64>| {
        let mut verdict = Verdict { since: since.map(Time), ..Verdict::default() };
        verdict.read_input(Cursor::new(log.clone())).unwrap();
        verdict.violations()
    };
    let at = 1_779_960_910_000_000; // 2026-05-28T09:35:10Z
    assert!(violations(None) > 0);
    assert_eq!(violations(Some(at)), violations(None));
    assert_eq!(violations(Some(at + 60_000_000)), 0);
}
