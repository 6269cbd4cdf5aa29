use super::*;
use proptest::prelude::*;
use throughline_core::audit::{Audit, Entry, Kind, Place};

const S: &str = "20260528_093510_66bfaec7";

fn report(line: &str) -> Report {
    match read(line) {
        Some((_, News::Compression(report))) => report,
        other => panic!("{line}: {other:?}"),
    }
}

fn expected(context: Option<&str>, session: &str, operation: Option<&str>, step: Step) -> Report {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Report {
        agent: None,
        context: owned(context),
        session: session.into(),
        operation: owned(operation),
        step,
    }
}

#[test]
fn p13_our_own_lines_are_read() {
    let head =
        format!("2026-05-28T09:35:10.123456Z  INFO session{{session={S}}}: throughline_gateway::session:");
    let started = Step::Started { messages: Some(194), tokens: Some(145_948) };
    let snapshot = Some(format!("{S}.snapshot.20260528T093510123456Z"));
    let done = Step::Done { messages: Some(194), left: Some(26), snapshot };
    for (message, step) in [
        ("started: session=SS op=0a1b2c messages=194 tokens=~145948 model=gpt-5.2", started.clone()),
        ("started: session=SS op=0a1b2c messages=194 tokens=~145,948 model=a model with spaces", started),
        (
            "done: session=SS op=0a1b2c messages=194->26 tokens=~41,442 \
             snapshot=SS.snapshot.20260528T093510123456Z ms=812",
            done,
        ),
        ("skipped: session=SS op=0a1b2c reason=it would free op=5 of 7", Step::Skipped),
        ("failed: session=SS op=0a1b2c reason=the summariser said nothing", Step::Failed),
        ("stale: session=SS op=0a1b2c reason=undone", Step::Stale),
    ] {
        let line = format!("{head} [{S}] context compression {}", message.replace("SS", S));
        assert_eq!(report(&line), expected(Some(S), S, Some("0a1b2c"), step), "{line}");
    }
    let (at, _) =
        read(&format!("{head} [{S}] context compression stale: session={S} op=1 reason=x")).unwrap();
    assert_eq!(at, Time(1_779_960_910_123_456));
}

#[test]
fn p13_a_session_may_be_called_anything_without_a_space() {
    for id in ["chat(1)", "a,b,", "\"quoted\"", "x=y"] {
        let head = format!(
            "2026-05-28T09:35:10.123456Z  INFO session{{session={id}}}: throughline_gateway::session:"
        );
        let name = format!("{id}.snapshot.20260528T093510123456Z");
        let line = format!(
            "{head} [{id}] context compression done: session={id} op=1 messages=9->2 tokens=~5 snapshot={name} ms=1"
        );
        let done = Step::Done { messages: Some(9), left: Some(2), snapshot: Some(name) };
        assert_eq!(report(&line), expected(Some(id), id, Some("1"), done), "{line}");
    }
}

#[test]
fn what_stands_before_a_line_does_not_hide_it() {
    let message = format!("[{S}] context compression stale: session={S} op=1 reason=undone");
    for head in [
        "2026-05-28T09:35:10.123456Z  INFO throughline_gateway::session: ",
        "2026-05-28T09:35:10Z DEBUG throughline_gateway::session: ",
        "May 28 09:35:10 host throughline[812]: 2026-05-28T09:35:10.123456Z  INFO t: ",
        "2026-05-28T09:35:10+0200 host throughline[812]: 2026-05-28T09:35:10.123456Z  INFO t: ",
        "gateway-1  | 2026-05-28T09:35:10.123456Z  INFO t: ",
        "2026-05-28T09:35:10.123Z stderr F 2026-05-28T09:35:10.123456Z  INFO t: ",
        "\x1b[2m2026-05-28T09:35:10.123456Z\x1b[0m \x1b[32m INFO\x1b[0m \x1b[1msession\x1b[0m\x1b[1m{\x1b[0m\x1b[3msession\
         \x1b[0m\x1b[2m=\x1b[0m20260528_093510_66bfaec7\x1b[1m}\x1b[0m\x1b[2m:\x1b[0m \x1b[2mt\x1b[0m\x1b[2m:\x1b[0m ",
        "2026-05-28T09:35:10.123456Z  INFO session{session=20260528_093510_66bfaec7}:summarise{op=1 focus=\"a b\"}: t: ",
        "2026-05-28T09:35:10.123456Z  INFO session{session=20260528_093510_66bfaec7}:summarise: t: ",
    ] {
        let line = format!("{head}{message}");
        assert_eq!(report(&line), expected(Some(S), S, Some("1"), Step::Stale), "{line}");
    }
}

#[test]
fn p13_a_span_that_names_another_session_is_the_context() {
    let line = format!(
        "2026-05-28T09:35:10Z  INFO agent{{agent=ada}}:session{{session=other}}: t: \
         [{S}] context compression stale: session={S} op=1 reason=x"
    );
    let report = report(&line);
    assert_eq!((report.context.as_deref(), report.agent.as_deref()), (Some("other"), Some("ada")));
    let pinned = "2026-05-28T09:35:10Z  INFO session{session=a}: t: context compression stale: session=a op=1 reason=x";
    assert_eq!(self::report(pinned).context.as_deref(), Some("a"), "the span says it alone");
    let bare = "2026-05-28T09:35:10Z  INFO t: context compression stale: session=a op=1 reason=x";
    assert_eq!(self::report(bare).context, None, "ours, but pinned to nothing");
}

#[test]
fn p13_lines_of_both_versions_of_hermes_are_read() {
    let old = "2026-05-28 09:35:10,123 INFO [TAG] run_agent: context compression ".replace("TAG", S);
    let new = "2026-05-28 09:35:10,123 WARNING [TAG] agent.conversation_compression: ".replace("TAG", S);
    let started = Step::Started { messages: Some(41), tokens: Some(91_589) };
    let unknown = Step::Started { messages: Some(41), tokens: None };
    let done = Step::Done { messages: Some(41), left: None, snapshot: None };
    for (line, session, step) in [
        (
            format!("{old}started: session={S} messages=41 tokens=~91,589 model=m focus=None"),
            S,
            started.clone(),
        ),
        (
            format!("{old}started: session={S} messages=41 tokens=~unknown model=m focus='session=x'"),
            S,
            unknown,
        ),
        (format!("{old}done: session=new messages=41->13 tokens=~35,698"), "new", done.clone()),
        (format!("{old}done:    session=new messages=41->13 tokens=~35,698"), "new", done.clone()),
        (
            format!(
                "{new}context compression done: session={S} messages=41->13 rough_tokens=~35,698 awaiting_real_usage=true"
            ),
            S,
            done,
        ),
        (
            format!(
                "{new}compression skipped: another path is compressing session={S} (holder=pid=1:tid=2) — returning \
                 messages unchanged to avoid session fork"
            ),
            S,
            Step::Skipped,
        ),
        (
            format!("{new}compression skipped: session={S} was already rotated by another compression path"),
            S,
            Step::Skipped,
        ),
        (
            format!("{new}Compression made no progress (session={S}) — skipping boundary rewrite."),
            S,
            Step::Skipped,
        ),
        (
            format!(
                "{new}compression lock acquisition raised unexpectedly for session={S} (OperationalError: locked) — \
                 skipping compression this cycle"
            ),
            S,
            Step::Skipped,
        ),
        (
            format!(
                "{new}context compression returned an empty transcript; refusing to rotate session={S} so the parent \
                 remains resumable"
            ),
            S,
            Step::Failed,
        ),
        (
            format!("{new}codex app-server compaction started: session={S} messages=41 tokens=~91,589"),
            S,
            started,
        ),
        (
            format!("{new}codex app-server compaction done: session={S} thread=t turn=u"),
            S,
            Step::Done { messages: None, left: None, snapshot: None },
        ),
        (
            format!(
                "{new}codex app-server compaction skipped: mode=off force=false (session={S} messages=41 tokens=~91,589)"
            ),
            S,
            Step::Skipped,
        ),
    ] {
        assert_eq!(report(&line), expected(Some(S), session, None, step), "{line}");
    }
    let untagged =
        "2026-05-28 09:35:10,123 INFO run_agent: context compression done: session=s messages=2->1 tokens=~1";
    assert_eq!(report(untagged).context, None);
}

#[test]
fn the_beginning_of_a_process_is_read() {
    for line in [
        "2026-05-28 09:35:10,123 INFO gateway.run: Starting Hermes Gateway...",
        "2026-05-28T09:35:10.123456Z  INFO throughline::cmd::run: throughline started version=\"0.1.0\" pid=812",
    ] {
        assert_eq!(read(line).unwrap().1, News::Began, "{line}");
    }
}

#[test]
fn p31_what_somebody_says_about_compression_is_nobodys_report() {
    for line in [
        "",
        "context compression done: session=a",
        "2026-05-28 09:35:10,123 INFO",
        "2026-05-28 09:35:10,123 INFO run_agent: context compression done: messages=2->1",
        "2026-05-28 09:35:10,123 INFO run_agent: context compression started: session=none messages=2",
        "2026-05-28 09:35:10,123 INFO gateway.run: inbound message: msg='context compression done: session=a'",
        "2026-05-28 09:35:10,123 INFO gateway.run: inbound message: Starting Hermes Gateway",
        "2026-05-28 09:35:10,123 INFO run_agent: he said: context compression done: session=a messages=2->1",
        "2026-05-28T09:35:10Z  INFO t: noted name=\"said\" detail=\"[a] context compression stale: session=a op=1 reason=\"",
        "2026-05-28T09:35:10Z  INFO t: [a] context compression done: session=a", // no operation
        "2026-05-28T09:35:10Z  INFO t: [a] context compression became: session=a op=1",
        "2026-13-41T09:35:10Z  INFO t: [a] context compression stale: session=a op=1 reason=x",
    ] {
        assert_eq!(read(line), None, "{line}");
    }
}

/// What a person complained about, as it was.
const EVIDENCE: &str = "\
2026-05-28 16:12:31 INFO [20260528_155201_68dc5996] agent.conversation_compression: context compression started: session=20260528_155201_68dc5996 messages=156 tokens=~145,003 model=m
2026-05-28 16:13:18 INFO [20260528_155201_68dc5996] agent.conversation_compression: context compression done:    session=20260528_155201_68dc5996 messages=156->8 tokens=~29,548
2026-05-28 16:14:01 INFO [20260528_093510_66bfaec7] agent.conversation_compression: context compression started: session=20260528_155201_68dc5996 messages=39 tokens=~143,661 model=m
2026-05-28 16:14:29 INFO [20260528_093510_66bfaec7] agent.conversation_compression: context compression done:    session=20260528_155201_68dc5996 messages=39->13 tokens=~9,501
2026-05-28 16:15:40 INFO [20260528_093510_66bfaec7] agent.conversation_compression: context compression started: session=20260528_093510_66bfaec7 messages=194 tokens=~145,948 model=m
2026-05-28 16:16:35 INFO [20260528_093510_66bfaec7] agent.conversation_compression: context compression done:    session=20260528_161635_bb86b1 messages=194->26 tokens=~41,442
";

#[test]
fn p13_the_log_that_was_complained_about_shows_all_that_it_was_complained_about_for() {
    let mut audit = Audit::default();
    let mut found = Vec::new();
    for (line, text) in (1..).zip(EVIDENCE.lines()) {
        let (at, news) = read(text).unwrap();
        let findings = audit.read(&Entry { place: Place { file: 0, line }, at: Some(at), news });
        found.extend(findings.into_iter().map(|finding| {
            (finding.kind, finding.places.iter().map(|place| place.line).collect::<Vec<_>>())
        }));
    }
    assert_eq!(
        found,
        [(Kind::ForeignContext, vec![3]), (Kind::Discontinuity, vec![2, 3]), (Kind::IdChanged, vec![5, 6])]
    );
    assert_eq!(audit.finish().0, []);
}

#[test]
fn what_we_write_to_a_home_s_log_is_read_as_what_it_was() {
    let zone = TimeZone::UTC;
    let at = Time(1_779_953_710_123_456);
    let told = |level, session, module: &str, message: &str| {
        line(&Said { at, level, session, module, message }, &zone)
    };
    let hosted = told(Level::Info, None, "throughline_app::host", "throughline started version=\"1\" pid=7");
    assert!(hosted.contains(" INFO gateway.run: throughline started"), "{hosted}");
    let began = told(Level::Info, None, "throughline::cmd::run", "throughline started version=\"1\" pid=7");
    assert_eq!(began, "2026-05-28 07:35:10,123 INFO gateway.run: throughline started version=\"1\" pid=7");
    assert_eq!(read(&began).unwrap().1, News::Began);
    let message = format!("[{S}] context compression done: session={S} op=0a messages=194->26 snapshot=x");
    let done = told(Level::Info, Some(S), "throughline_gateway::session", &message);
    assert!(
        done.starts_with(&format!("2026-05-28 07:35:10,123 INFO [{S}] gateway.session: context")),
        "{done}"
    );
    let News::Compression(report) = read(&done).unwrap().1 else { panic!("{done}") };
    assert_eq!((report.session.as_str(), report.context.as_deref()), (S, Some(S)));
    assert_eq!(report.operation.as_deref(), Some("0a"));
    // No text of a person begins a line of its own.
    let forged = told(
        Level::Warning,
        None,
        "hyper::proto",
        "said\n2026-05-28 07:35:10,123 INFO gateway.run: throughline started",
    );
    assert_eq!(forged.lines().count(), 1);
    assert_eq!(read(&forged), None);
}

proptest! {
    #[test]
    fn whatever_a_line_is_reading_it_does_not_fail(line in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read(&line);
        read(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_torn_or_damaged_line_does_not_fail(
        nth in 0..6usize, ours in any::<bool>(), cut in any::<prop::sample::Index>(), inserted in "\\PC{0,3}", colour in any::<bool>()
    ) {
        let line = match ours {
            true => format!(
                "2026-05-28T09:35:10.123456Z  INFO session{{session={S}}}: t: [{S}] context compression done: session={S} \
                 op=0a messages=194->26 tokens=~41,442 snapshot=ü ms=812"
            ),
            false => EVIDENCE.lines().nth(nth).unwrap().to_owned(),
        };
        let mut cut = cut.index(line.len() + 1);
        while !line.is_char_boundary(cut) { cut -= 1 }
        let colour = if colour { "\x1b[" } else { "" };
        read(&line[..cut]);
        read(&line[cut..]);
        read(&format!("{}{colour}{inserted}{}", &line[..cut], &line[cut..]));
        let pair = format!("{}{}", &line[..cut], line);
        read(&pair);
    }
}
