//! `throughline why`: what happened to a message, a reply, a session or in a compression, in order; and why a reply
//! was late.

use crate::out::{Page, Tint, indented, one_line, visible, write_json};
use anyhow::bail;
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use throughline_core::port::{Read, SessionFilter, StoreError, Trace};
use throughline_core::{Seq, SessionId};
use throughline_server::{ResponseId, completion_id};

/// Tell what happened to a message, a reply, a session or in a compression, and why it was late
#[derive(Debug, clap::Args)]
pub struct Why {
    /// A platform's id, an idempotency key, an answer's id (chatcmpl-…, resp_…), `SESSION/NUMBER`,
    /// the number of a row; a session's id; a reply's key; a compression's operation or snapshot
    message: String,

    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Why {
    pub fn run(self, store: &dyn Read, page: &Page, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let asked = self.message.trim();
        let traces = match asked {
            "" => Vec::new(),
            asked => store.trace(&name(asked, store)?)?,
        };
        if traces.is_empty() {
            bail!(
                "no message is known as {asked:?}. A message goes by any of these names:\n  \
                 the id that its platform gave it\n  \
                 the Idempotency-Key that it was sent with\n  \
                 the id of its answer, chatcmpl-… or resp_…\n  \
                 <session>/<number>, as in the header X-Request-Id of its answer\n  \
                 the number of its row, as in `throughline sessions search`\n\
                 Or give the id of a session, or a compression's operation (op=… in the log) or snapshot"
            );
        }
        match self.json {
            true => write_json(&traces.iter().map(in_json).collect(), out)?,
            false => tell(&traces, store, page, out)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The name under which the store knows what an answer's id stands for.
fn name(asked: &str, store: &dyn Read) -> Result<String, StoreError> {
    let place = match ResponseId::read(asked) {
        Some(ResponseId { session, seq }) => Some((session, seq)),
        None if asked.starts_with("chatcmpl-") => answered_as(asked, store)?,
        None => None,
    };
    Ok(place.map_or_else(|| asked.to_owned(), |(session, seq)| format!("{session}/{seq}")))
}

/// An answer of the chat API is called by a digest of its place, so every place is tried.
fn answered_as(id: &str, store: &dyn Read) -> Result<Option<(SessionId, Seq)>, StoreError> {
    let all = SessionFilter { limit: usize::MAX, ..SessionFilter::default() };
    for summary in store.sessions(&all)? {
        let received = store.load(&summary.id)?.map_or(0, |loaded| loaded.session.received.0);
        let is_meant = |seq: &u64| completion_id(&summary.id, Seq(*seq)) == id;
        if let Some(seq) = (1..=received).find(is_meant) {
            return Ok(Some((summary.id, Seq(seq))));
        }
    }
    Ok(None)
}

/// By the names that the control API has for it.
fn in_json(trace: &Trace) -> Value {
    json!({
        "at": trace.at.as_seconds(),
        "session_id": trace.session.as_str(),
        "name": trace.name,
        "detail": trace.detail,
    })
}

/// A paragraph for each session it was in: `/new` takes along what waits, and platforms number the
/// messages of each chat from one.
fn tell(traces: &[Trace], store: &dyn Read, page: &Page, out: &mut dyn Write) -> anyhow::Result<()> {
    let names = traces.iter().map(|trace| trace.name.chars().count()).max().unwrap_or(0);
    let mut sessions: Vec<&SessionId> = Vec::new();
    for trace in traces {
        if !sessions.contains(&&trace.session) {
            sessions.push(&trace.session);
        }
    }
    for (i, session) in sessions.into_iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        let about = store.session(session)?.map(|known| known.title.unwrap_or(known.preview));
        let heading = format!("Session {session}  {}", one_line(&about.unwrap_or_default()));
        writeln!(out, "{}", page.paint(Tint::Bold, heading.trim_end()))?;
        let mut day = String::new();
        for trace in traces.iter().filter(|trace| trace.session == *session) {
            let today = page.day(trace.at);
            if today != day {
                writeln!(out, "{}", page.paint(Tint::Dim, &today))?;
                day = today;
            }
            writeln!(out, "{}", line(trace, names, page))?;
        }
    }
    Ok(())
}

fn line(trace: &Trace, names: usize, page: &Page) -> String {
    let time = page.clock_ms(trace.at);
    let name = format!("{:names$}", one_line(&trace.name));
    let margin = " ".repeat(time.len() + names + 4);
    let detail = indented(visible(&trace.detail).trim_end(), &margin);
    let line =
        format!("{}  {}  {}", page.paint(Tint::Dim, &time), page.paint(Tint::Cyan, &name), detail.trim());
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::sessions::fixture::Home;
    use crate::out::tests::{page, written};
    use throughline_core::prompt::Digest;

    fn why(home: &Home, message: &str) -> String {
        let why = Why { message: message.to_owned(), json: false };
        written(|out| why.run(&home.reader(), &page(None), out))
    }

    const STORY: &str = "\
Session 20260528_093510_66bfaec7  Where is the tea?
2026-05-28
09:35:10.000  received           a chat message, key cli|20260528_093510_66bfaec7|1
09:35:10.000  turn_began         turn 1, row 2 of the transcript
09:35:11.000  answered           by turn 1
09:35:11.000  answered_by_model  step 1 by gpt-5.2: 12 tokens read, 3 written; row 4 of the transcript
";

    #[test]
    fn p30_a_message_is_found_by_each_of_its_names() {
        let home = Home::with_tea();
        let place = Digest::of(&[b"20260528_093510_66bfaec7", &1u64.to_le_bytes()]).to_hex();
        let ticket: String = "20260528_093510_66bfaec7".bytes().map(|byte| format!("{byte:02x}")).collect();
        for name in [
            "20260528_093510_66bfaec7/1",
            " 20260528_093510_66bfaec7/1 ",
            "cli|20260528_093510_66bfaec7|1",
            "2",
            "4",
            &format!("chatcmpl-{}", &place[..24]),
            &format!("resp_{}1x{ticket}", "0".repeat(24)),
        ] {
            assert_eq!(why(&home, name), STORY, "{name}");
        }
    }

    #[test]
    fn p30_what_waited_is_followed_into_the_next_session() {
        let mut home = Home::with_tea();
        home.says("20260528_093510_66bfaec7", "And the milk?"); // a turn begins
        home.orders_new("20260528_093510_66bfaec7", "next");
        home.says("20260528_093510_66bfaec7", "Are you there?"); // waits behind it
        home.answers("20260528_093510_66bfaec7", "In the fridge.");
        assert_eq!(
            why(&home, "20260528_093510_66bfaec7/4"),
            "\
Session 20260528_093510_66bfaec7  Where is the tea?
2026-05-28
09:35:11.000  received       a chat message, key cli|20260528_093510_66bfaec7|4
09:35:12.000  moved          to number 1 of session next
09:35:12.000  session_ended  session_reset; hand-over: claimed

Session next
2026-05-28
09:35:11.000  received       a chat message, key cli|20260528_093510_66bfaec7|4
09:35:11.000  waiting        for the turn before it
"
        );
    }

    const TEA: &str = "20260528_093510_66bfaec7";

    #[test]
    fn p30_a_late_reply_says_where_its_time_went() {
        let mut home = Home::with_tea();
        home.says(TEA, "And the milk?");
        home.says(TEA, "And the sugar?"); // waits behind it
        home.later(30);
        home.answers(TEA, "In the fridge.");
        home.later(2);
        home.answers(TEA, "Next to it.");
        let told = why(&home, &format!("{TEA}/3"));
        assert!(told.contains("queued             number 3 of its session, behind number 2\n"), "{told}");
        let last = told.lines().last().unwrap();
        assert_eq!(
            last,
            format!(
                "09:35:45.000  late               34 s from its arrival until it was answered: it waited 31 s behind \
                 message {TEA}/2; the model and its tools took 3.0 s"
            )
        );
        assert!(!why(&home, &format!("{TEA}/1")).contains("late"), "a second is not late");
    }

    #[test]
    fn p30_a_session_and_its_compressions_are_told_in_order() {
        let mut home = Home::with_tea();
        home.says(TEA, "And the sugar?");
        home.answers(TEA, "Next to it.");
        let snapshot = home.compresses(TEA, 2, "[SUMMARY] Tea is in the tin.");
        let told = why(&home, TEA);
        let names: Vec<&str> =
            told.lines().skip(2).filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(names, ["began", "turn", "turn", "compression_began", "compression_done"], "{told}");
        assert!(told.contains(&format!(
            "turn               1, of {TEA}/1: over after 1.0 s; 1 steps, 12 tokens read"
        )));
        assert!(told.contains("on order: 4 messages") && told.contains(&snapshot), "{told}");
        let operation = told.split("operation ").nth(1).unwrap().split([',', ' ']).next().unwrap();
        for name in [snapshot.as_str(), operation] {
            let told = why(&home, name);
            let names: Vec<&str> =
                told.lines().skip(2).filter_map(|line| line.split_whitespace().nth(1)).collect();
            assert_eq!(names, ["compression_began", "compression_done"], "{name}: {told}");
        }
    }

    #[test]
    fn p30_a_row_that_hermes_wrote_is_told_as_far_as_it_is_known() {
        let home = Home::with_tea();
        let conn = rusqlite::Connection::open(home.path().join("state.db")).unwrap();
        conn.execute_batch(
            "INSERT INTO sessions (id, source, started_at, ended_at, end_reason) VALUES ('theirs', 'telegram', 1779950000, 1779950100, 'compression');
             INSERT INTO sessions (id, source, started_at, parent_session_id) VALUES ('onward', 'telegram', 1779950100, 'theirs');
             INSERT INTO messages (id, session_id, role, content, timestamp) VALUES (100, 'theirs', 'user', 'Where?', 1779950001),
                 (101, 'theirs', 'assistant', 'Here.', 1779950004), (102, 'theirs', 'user', 'And now?', 1779950005)",
        )
        .unwrap();
        let names = |told: &str| -> Vec<String> {
            let lines = told.lines().skip(2).filter_map(|line| line.split_whitespace().nth(1));
            lines.map(str::to_owned).collect()
        };
        let told = why(&home, "100");
        assert_eq!(names(&told), ["session_began", "written", "answered", "session_ended"], "{told}");
        assert!(told.contains("by a person, 6 characters; Hermes wrote it"), "{told}");
        assert!(told.contains("by row 101, 3.0 s after it"), "{told}");
        assert!(told.contains("compression; it goes on as onward"), "{told}");
        assert!(why(&home, "101").contains("row 100, which was written 3.0 s before it"));
        assert!(why(&home, "102").contains("nothing follows it in its session"));
        let told = why(&home, "theirs");
        assert_eq!(names(&told), ["began", "last_said", "ended"], "{told}");
        assert!(told.contains("3 messages, rows 100 to 102, by Hermes"), "{told}");
    }

    #[test]
    fn a_name_that_nobody_has_gets_the_list_of_kinds_of_names() {
        let home = Home::with_tea();
        for name in ["nobody", "", "chatcmpl-", "chatcmpl-ffff", "20260528_093510_66bfaec7/99"] {
            let why = Why { message: name.to_owned(), json: false };
            let error = why.run(&home.reader(), &page(None), &mut Vec::new()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("no message is known as {name:?}")), "{error}");
            assert!(error.contains("Idempotency-Key") && error.contains("<session>/<number>"), "{error}");
        }
    }

    #[test]
    fn as_json_it_has_the_names_of_the_api() {
        let home = Home::with_tea();
        let why = Why { message: "2".into(), json: true };
        let told = written(|out| why.run(&home.reader(), &page(None), out));
        let told: Value = serde_json::from_str(&told).unwrap();
        let first = json!({
            "at": 1779953710.0,
            "session_id": "20260528_093510_66bfaec7",
            "name": "received",
            "detail": "a chat message, key cli|20260528_093510_66bfaec7|1",
        });
        assert_eq!(told[0], first);
    }

    #[test]
    fn p31_a_story_cannot_control_the_terminal_and_keeps_its_columns() {
        let trace = Trace {
            at: throughline_core::Time(1_779_953_710_000_000),
            session: "s".parse().unwrap(),
            name: "failed".into(),
            detail: "first\nsecond \x1b[2J\n".into(),
        };
        let told = line(&trace, 8, &page(None));
        assert_eq!(told, "09:35:10.000  failed    first\n                        second ␛[2J");
    }
}
