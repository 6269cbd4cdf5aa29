//! P13: `throughline audit` finds what breaks a thread, in logs that the real Hermes wrote and in logs
//! of ours that were tampered with, and nothing where nothing is wrong.

use crate::gateway::{Ended, Launch, Place};
use crate::peers;
use serde_json::{Value, json};
use std::path::Path;

const A: &str = "20260528_093510_66bfaec7";
const B: &str = "20260528_155201_68dc5996";

fn audit(place: &Place, homes: &[&Path], arguments: &[&str]) -> Ended {
    let launch = Launch::on(place, homes).arg("audit");
    arguments.iter().fold(launch, |launch, argument| launch.arg(*argument)).run()
}

/// What it says as JSON, and whether its exit code agrees.
fn verdict(place: &Place, homes: &[&Path], arguments: &[&str]) -> Value {
    let ended = audit(place, homes, &[arguments, &["--json"]].concat());
    let told: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr));
    let code = if told["violations"] == 0 { 0 } else { 2 };
    assert_eq!(ended.status.code(), Some(code), "{told}");
    told
}

fn verdict_on(log: &str) -> Value {
    let place = Place::new();
    let file = place.write("gateway.log", log);
    verdict(&place, &[], &["--log", file.to_str().unwrap()])
}

/// How often each kind was found that was found at all.
fn counts(verdict: &Value) -> Vec<(String, u64)> {
    let counts = verdict["counts"].as_object().unwrap();
    let counts = counts.iter().map(|(kind, count)| (kind.clone(), count.as_u64().unwrap()));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn lines_of(finding: &Value) -> Vec<u64> {
    finding["lines"].as_array().unwrap().iter().map(|line| line["line"].as_u64().unwrap()).collect()
}

// ----------------------------------------------------------------------------------- real Hermes

/// Chats that are there already, and what they make Hermes' gateway do.
fn chat(number: &str, messages: u32, characters: u32, turns: u32) -> Value {
    json!({"number": number, "messages": messages, "characters": characters, "turns": turns})
}

#[test]
fn p13_the_real_hermes_0_14_0_shows_both_anomalies() {
    let Some(hermes) = peers::one_hermes("0.14.0") else { return };
    let place = Place::new();
    // The first chat is over the threshold of a turn. Its turns leave their mark on the threads of the
    // pool, on one of which the second chat is then compressed before its turn, for its length. Eight of
    // them: a busy machine spreads the turns over more threads, and each has to be marked.
    hermes.serves(
        &place.home(),
        &json!({
            "config": {
                "model": {"context_length": 131_072},
                "compression": {"enabled": true, "threshold": 0.5, "hygiene_hard_message_limit": 60},
            },
            "chats": [chat("+15550000001", 40, 8_000, 8), chat("+15550000002", 80, 400, 1)],
        }),
    );
    let verdict = verdict(&place, &[&place.home()], &[]);
    let found = |kind: &str| {
        let findings = verdict["findings"].as_array().unwrap();
        findings
            .iter()
            .find(|finding| finding["kind"] == kind)
            .unwrap_or_else(|| panic!("no {kind}: {verdict}"))
    };
    let changed = found("id_changed");
    assert_eq!(lines_of(changed).len(), 2, "where it began and where it ended: {changed}");
    assert_ne!(changed["sessions"][0], changed["sessions"][1]);
    let foreign = found("foreign_context");
    let log = std::fs::read_to_string(place.file("home/logs/agent.log")).unwrap();
    let line = log.lines().nth(lines_of(foreign)[0] as usize - 1).unwrap();
    assert!(line.contains(&format!("[{}]", foreign["sessions"][1].as_str().unwrap())), "{line}");
    assert!(line.contains(&format!("session={}", foreign["sessions"][0].as_str().unwrap())), "{line}");
    assert_eq!(counts(&verdict), [("id_changed".to_owned(), 1), ("foreign_context".to_owned(), 1)]);
    assert_eq!((&verdict["logs"][0]["started"], &verdict["logs"][0]["done"]), (&json!(2), &json!(2)));

    let told = audit(&place, &[&place.home()], &[]);
    assert!(told.stdout.contains("id_changed            1  "), "{}", told.stdout);
}

#[test]
fn p13_a_clean_log_of_the_real_hermes_0_19_0_is_clean() {
    let Some(hermes) = peers::one_hermes("0.19.0") else { return };
    let place = Place::new();
    hermes.serves(
        &place.home(),
        &json!({
            "config": {"model": {"context_length": 131_072}, "compression": {"enabled": true, "threshold": 0.5}},
            "chats": [chat("+15550000001", 48, 8_000, 1)],
        }),
    );
    let log = place.file("home/logs/agent.log");
    let verdict = verdict(&place, &[], &["--log", log.to_str().unwrap()]);
    assert_eq!(counts(&verdict), []);
    assert_eq!(
        (&verdict["logs"][0]["started"], &verdict["logs"][0]["done"]),
        (&json!(1), &json!(1)),
        "{verdict}"
    );
}

// ------------------------------------------------------------------------------------------ ours

/// A log as our gateway writes it.
struct Log(Vec<String>);

impl Log {
    fn line(&mut self, message: &str) {
        let second = self.0.len();
        self.0.push(format!("2026-05-28T09:{:02}:{:02}.000000Z  INFO {message}", second / 60, second % 60));
    }

    fn says(&mut self, session: &str, words: &str) {
        self.line(&format!(
            "session{{session={session}}}: throughline_gateway::session: [{session}] context compression {words}"
        ));
    }

    fn compression(&mut self, session: &str, operation: &str) {
        self.says(
            session,
            &format!("started: session={session} op={operation} messages=200 tokens=~98304 model=m"),
        );
        let snapshot = format!("{session}.snapshot.20260528T0935{:08}Z", self.0.len());
        self.says(
            session,
            &format!("done: session={session} op={operation} messages=210->31 tokens=~20100 snapshot={snapshot} ms=812"),
        );
    }

    fn text(&self) -> String {
        self.0.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// Two sessions, three compressions of the first and two of the second, and a skip.
fn clean() -> Log {
    let mut log = Log(Vec::new());
    log.line("throughline::cmd::run: throughline started version=\"0.1.0\" pid=812");
    log.compression(A, "a1"); // lines 2 and 3
    log.compression(B, "b1"); // 4 and 5
    log.compression(A, "a2"); // 6 and 7
    log.says(B, &format!("skipped: session={B} op=b2 reason=it would free too little"));
    log.compression(B, "b3"); // 9 and 10
    log.compression(A, "a3"); // 11 and 12
    log
}

#[test]
fn p13_a_clean_log_of_ours_is_clean_and_each_mutant_of_it_is_caught() {
    assert_eq!(counts(&verdict_on(&clean().text())), []);
    type Mutation = fn(&mut Vec<String>);
    let mutants: [(&str, Mutation, &str, &[u64]); 9] = [
        (
            "the id rotates",
            |log| log[6] = log[6].replace(&format!("session={A} op"), "session=new op"),
            "id_changed",
            &[6, 7],
        ),
        (
            "the id rotates everywhere at once",
            |log| log[6] = log[6].replace(A, "new").replace("op=a2", "op=n1"),
            "id_changed",
            &[7],
        ),
        (
            "another session is named by the bracket",
            |log| log[5] = log[5].replace(&format!("[{A}]"), &format!("[{B}]")),
            "foreign_context",
            &[6],
        ),
        (
            "the span is another session's",
            |log| log[5] = log[5].replace(&format!("{{session={A}}}"), &format!("{{session={B}}}")),
            "foreign_context",
            &[6],
        ),
        ("a done is dropped", |log| log[6] = String::new(), "unpaired", &[6, 11]),
        ("a start is dropped", |log| log[5] = String::new(), "unpaired", &[7]),
        ("one begins before the last has ended", |log| log.swap(6, 10), "overlap", &[6, 7, 11]),
        (
            "the snapshot is another session's",
            |log| log[6] = log[6].replace(&format!("snapshot={A}"), &format!("snapshot={B}")),
            "foreign_snapshot",
            &[7],
        ),
        (
            "it is full again at once, with fewer messages than were left",
            |log| log[10] = log[10].replace("messages=200", "messages=29"),
            "discontinuity",
            &[7, 11],
        ),
    ];
    for (name, mutate, kind, lines) in mutants {
        let mut log = clean();
        mutate(&mut log.0);
        let verdict = verdict_on(&log.text());
        let findings = verdict["findings"].as_array().unwrap();
        let is_it = |finding: &Value| finding["kind"] == kind && lines_of(finding) == lines;
        assert!(findings.iter().any(is_it), "{name}: {verdict}");
    }
}

#[test]
fn p13_what_a_crash_leaves_in_a_log_is_clean() {
    let log = clean();
    for crash in 2..log.0.len() {
        // The last line before it may be lost; the next process says that it began and what it takes up.
        for is_lost in [false, true] {
            let mut lines = log.0.clone();
            let again = lines[crash - 1].clone();
            lines.insert(crash, lines[0].clone());
            if again.contains("started:") {
                lines.insert(crash + 1, again);
            }
            if is_lost {
                lines.remove(crash - 1);
            }
            assert_eq!(counts(&verdict_on(&Log(lines).text())), [], "after line {crash}, lost: {is_lost}");
        }
    }
}

#[test]
fn what_cannot_be_audited_is_refused_in_clear_words() {
    let place = Place::new();
    let home = place.home();
    std::fs::create_dir_all(&home).unwrap();
    let zipped = place.write("agent.log.gz", b"\x1f\x8b\x08\0\0\0\0\0");
    let empty = place.write("empty.log", "");
    let database = place.write("state.db", [b"SQLite format 3\0".to_vec(), vec![0; 4_096]].concat());
    let missing = place.file("none.log");
    for (file, words) in [
        (&zipped, "is compressed with gzip: read it with `zcat"),
        (&empty, "is empty: there is nothing to verify"),
        (&database, "is no text"),
        (&missing, "cannot be read"),
        (&home, "is a directory: give a file"),
    ] {
        let ended = audit(&place, &[], &["--log", file.to_str().unwrap()]);
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        assert!(
            ended.stderr.contains(words) && ended.stderr.contains(file.to_str().unwrap()),
            "{}",
            ended.stderr
        );
    }
    let ended = audit(&place, &[&home], &[]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("there is nothing to verify in"), "{}", ended.stderr);
}

/// The lines of a busy gateway: one in fifty is about compression.
fn long_log(place: &Place, bytes: usize) -> std::path::PathBuf {
    let mut log = String::with_capacity(bytes + 1_000);
    let mut nth = 0u64;
    while log.len() < bytes {
        nth += 1;
        let (second, micros) = (nth / 1_000 % 60, nth % 1_000);
        let head = format!(
            "2026-05-28T09:{:02}:{second:02}.{micros:03}000Z  INFO session{{session=s{}}}: ",
            nth / 60_000 % 60,
            nth % 500
        );
        log += &match nth % 50 {
            0 => format!(
                "{head}throughline_gateway::session: [s{0}] context compression started: session=s{0} op={nth:012x} messages=200 tokens=~26000 model=m\n{head}throughline_gateway::session: [s{0}] context compression done: session=s{0} op={nth:012x} messages=200->24 tokens=~3000 snapshot=s{0}.snapshot.20260528T09{1:016}Z ms=8 kind=summary\n",
                nth % 500,
                nth
            ),
            _ => format!(
                "{head}throughline_gateway::turn: step {nth} by gpt-5.2 answered: 1234 tokens read, 56 written, nothing of it is about anything else\n"
            ),
        };
    }
    place.write("long.log", log)
}

/// Run by hand, on a quiet machine: the figure is in docs/benchmarks.md.
#[test]
#[ignore = "a measurement"]
fn a_log_of_100_mb_is_audited_within_two_seconds() {
    let place = Place::new();
    let log = long_log(&place, 100_000_000);
    let began = std::time::Instant::now();
    let verdict = verdict(&place, &[], &["--log", log.to_str().unwrap()]);
    let took = began.elapsed();
    println!("100 MB, {} lines: {took:?}", verdict["logs"][0]["lines"]);
    assert_eq!(verdict["violations"], 0, "{verdict}");
    assert!(took < std::time::Duration::from_secs(2), "{took:?}");
}
