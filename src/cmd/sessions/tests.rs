//! Each command on a real store, word for word.

use super::fixture::Home;
use super::*;
use crate::out::tests::{page, written};
use clap::Parser;
use throughline_core::port::SessionRead as _;
use throughline_hermes::row::message_from_json;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    sessions: Sessions,
}

fn parsed(words: &[&str]) -> Sessions {
    Line::try_parse_from([&["sessions"], words].concat()).unwrap().sessions
}

fn run(home: &Home, words: &[&str]) -> String {
    written(|out| parsed(words).run(&home.reader(), &page(None), out))
}

fn refused(home: &Home, words: &[&str]) -> String {
    parsed(words).run(&home.reader(), &page(None), &mut Vec::new()).unwrap_err().to_string()
}

/// Two conversations; in the second, a tool is called.
fn two() -> Home {
    let mut home = Home::with_tea();
    home.later(3600);
    home.begins("api_1779957311_aabbccdd", "api_server");
    home.says("api_1779957311_aabbccdd", "What is in\nthe file? 日本語");
    home.calls("api_1779957311_aabbccdd", "terminal", r#"{"cmd": "cat file"}"#, "one\ntwo");
    home.answers("api_1779957311_aabbccdd", "Two lines:\n\none, two.");
    home
}

#[test]
fn a_list_is_a_table_latest_first() {
    let home = two();
    assert_eq!(
        run(&home, &["list"]),
        "\
SESSION                   SOURCE      TITLE                        MESSAGES  LAST ACTIVE
api_1779957311_aabbccdd   api_server  What is in the file? 日本語         4  2026-05-28 10:35
20260528_093510_66bfaec7  cli         Where is the tea?                   2  2026-05-28 09:35
"
    );
    assert_eq!(
        run(&home, &["list", "--source", "cli", "--limit", "1"]),
        "\
SESSION                   SOURCE  TITLE              MESSAGES  LAST ACTIVE
20260528_093510_66bfaec7  cli     Where is the tea?         2  2026-05-28 09:35
"
    );
    let one = run(&home, &["list", "--limit", "1"]);
    assert!(one.ends_with("There are more; show them with --limit 5.\n"), "{one}");
    assert_eq!(run(&home, &["list", "--source", "slack"]), "There are no sessions from slack yet.\n");
    assert_eq!(run(&Home::new(), &["list"]), "There are no sessions yet.\n");
    assert!(Line::try_parse_from(["sessions", "list", "--limit", "0"]).is_err());
}

#[test]
fn a_list_fits_a_narrow_terminal() {
    let home = two();
    let shown = written(|out| parsed(&["list"]).run(&home.reader(), &page(Some(80)), out));
    assert_eq!(
        shown,
        "\
SESSION                   SOURCE      TITLE           MESSAGES  LAST ACTIVE
api_1779957311_aabbccdd   api_server  What is in th…         4  2026-05-28 10:35
20260528_093510_66bfaec7  cli         Where is the …         2  2026-05-28 09:35
"
    );
}

#[test]
fn as_json_a_list_has_the_names_of_the_api() {
    let list: Value = serde_json::from_str(&run(&two(), &["list", "--json"])).unwrap();
    let tea = json!({
        "id": "20260528_093510_66bfaec7", "source": "cli", "title": null, "chat": null, "model": "gpt-5.2",
        "started_at": 1779953710.0, "last_active": 1779953711.0, "end_reason": null, "message_count": 2,
        "tool_call_count": 0, "input_tokens": 12, "output_tokens": 3, "cache_read_tokens": 0,
        "cache_write_tokens": 0, "reasoning_tokens": 0, "preview": "Where is the tea?",
    });
    assert_eq!(list[1], tea);
    assert_eq!(run(&Home::new(), &["list", "--json"]), "[]\n");
}

#[test]
fn a_transcript_shows_who_said_what_and_when() {
    assert_eq!(
        run(&two(), &["show", "api_1779957311_aabbccdd"]),
        "\
What is in the file? 日本語
Session api_1779957311_aabbccdd, from api_server, 4 messages, begun 2026-05-28 10:35, model gpt-5.2

— 2026-05-28 —

10:35:11  user
  What is in
  the file? 日本語

10:35:13  assistant
  → terminal {\"cmd\": \"cat file\"}

10:35:13  tool terminal
  one
  two

10:35:14  assistant
  Two lines:

  one, two.
"
    );
}

#[test]
fn p31_a_transcript_cannot_control_the_terminal() {
    let mut home = Home::new();
    home.begins("hostile", "cli");
    home.says("hostile", "\x1b]0;pwned\x07\x1b[2J");
    let shown = run(&home, &["show", "hostile"]);
    assert!(shown.chars().all(|c| !c.is_control() || c == '\n'), "{shown:?}");
    assert!(shown.contains("␛]0;pwned␇␛[2J"), "{shown}");
}

#[test]
fn a_long_result_is_shortened_on_the_screen_only() {
    let mut home = Home::new();
    let long: Vec<_> = (1..=40).map(|number| format!("line {number}")).collect();
    home.begins("long", "cli");
    home.says("long", "Look.");
    home.calls("long", "terminal", "{}", &long.join("\n"));
    let shown = run(&home, &["show", "long"]);
    assert!(
        shown.contains("  line 12\n  … 28 more lines; `throughline sessions export` has them\n"),
        "{shown}"
    );
    assert!(run(&home, &["export", "long"]).contains("line 40"));
    assert_eq!(shortened("1\n2"), "1\n2");
    let just_over = vec!["x"; RESULT_LINES_MAX + 1].join("\n");
    assert_eq!(shortened(&just_over), just_over, "one line is not replaced by another");
}

#[test]
fn as_json_a_transcript_is_whole() {
    let home = two();
    let text = run(&home, &["show", "api_", "--json"]);
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(shown["session"]["message_count"], 4);
    let history = home.reader().history(&"api_1779957311_aabbccdd".parse().unwrap()).unwrap();
    assert_eq!(shown["messages"].as_array().unwrap().len(), history.len());
    for (row, message) in &history {
        let whole = format!("\n{{\"row\": {row}, \"message\": {}}}", message_to_json(message));
        assert!(text.contains(&whole), "{text}");
    }
}

#[test]
fn a_search_shows_where_and_the_words_around_it() {
    let home = two();
    assert_eq!(
        run(&home, &["search", "tea"]),
        "\
20260528_093510_66bfaec7  2026-05-28 09:35  user  row 2
  Where is the tea?
"
    );
    let mut colourful = page(None);
    colourful.has_colour = true;
    let shown = written(|out| parsed(&["search", "tea"]).run(&home.reader(), &colourful, out));
    assert!(shown.contains("Where is the \x1b[33mtea\x1b[0m?"), "{shown:?}");
    let hits: Value = serde_json::from_str(&run(&home, &["search", "tea", "--json"])).unwrap();
    assert_eq!(hits[0]["snippet"], "Where is the >>>tea<<<?");
    assert_eq!(hits[0]["message_id"], 2);
    assert_eq!(run(&home, &["search", "coffee", "cups"]), "No message matches coffee cups.\n");
    assert_eq!(run(&home, &["search", "tea", "--source", "api_server"]), "No message matches tea.\n");
    assert_eq!(run(&home, &["search", "coffee", "--json"]), "[]\n");
    assert_eq!(refused(&home, &["search", " "]), "there is nothing to search for: give at least one word");
}

#[test]
fn only_pairs_of_marks_are_a_match() {
    let mut colourful = page(None);
    colourful.has_colour = true;
    for (snippet, shown) in [
        (">>>a<<< b >>>c<<<", "\x1b[33ma\x1b[0m b \x1b[33mc\x1b[0m"),
        ("a >>> b", "a >>> b"),
        ("a <<< b", "a <<< b"),
        ("", ""),
    ] {
        assert_eq!(highlighted(snippet, &colourful), shown, "{snippet}");
    }
}

#[test]
fn an_export_is_the_session_and_then_each_message_lossless() {
    let home = two();
    let exported = run(&home, &["export", "api_1779957311"]);
    let mut lines = exported.lines();
    let session: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(session["type"], "session");
    assert_eq!(session["id"], "api_1779957311_aabbccdd");
    let messages: Vec<_> = lines.map(|line| message_from_json(line).unwrap()).collect();
    let history = home.reader().history(&"api_1779957311_aabbccdd".parse().unwrap()).unwrap();
    assert_eq!(messages, history.into_iter().map(|(_, message)| message).collect::<Vec<_>>());
}

#[test]
fn as_markdown_it_can_be_read() {
    assert_eq!(
        run(&two(), &["export", "api_", "--format", "markdown"]),
        "\
# What is in the file? 日本語

Session api_1779957311_aabbccdd, from api_server, 4 messages, begun 2026-05-28 10:35, model gpt-5.2

## user, 2026-05-28 10:35:11

What is in
the file? 日本語

## assistant, 2026-05-28 10:35:13

Calls `terminal`:

```json
{\"cmd\": \"cat file\"}
```

## tool terminal, 2026-05-28 10:35:13

```
one
two
```

## assistant, 2026-05-28 10:35:14

Two lines:

one, two.
"
    );
    assert_eq!(export::fenced("a ```` b", ""), "`````\na ```` b\n`````");
}

#[test]
fn an_export_never_overwrites_unless_told_to() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::with_tea();
    let path = home.path().join("tea.jsonl");
    let shown = path.to_str().unwrap().to_owned();
    let export = ["export", "2026", "-o", &shown];
    assert_eq!(run(&home, &export), "");
    let first = fs::read_to_string(&path).unwrap();
    assert_eq!(first, run(&home, &["export", "2026"]));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    fs::write(&path, "mine").unwrap();
    assert!(
        refused(&home, &export).ends_with(
            "is there already; nothing was written. Name another file, or replace it with --force"
        )
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");

    let link = home.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    run(&home, &["export", "2026", "--force", "-o", link.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&path).unwrap(), first);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());

    let nowhere = home.path().join("none/tea.jsonl");
    let error = refused(&home, &["export", "2026", "-o", nowhere.to_str().unwrap()]);
    assert_eq!(error, format!("could not write {}", nowhere.display()));
    assert_eq!(
        run(&home, &["export", "2026", "-o", "/dev/null"]),
        "",
        "a device is written to, not replaced"
    );
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    assert_eq!(run(&home, &["export", "2026", "-o", "-"]), first);
}

#[test]
fn a_session_goes_by_any_beginning_that_only_it_has() {
    let mut home = two();
    home.begins("20260528_120000_00000000", "cli");
    home.says("20260528_120000_00000000", "Lunch?");
    assert!(run(&home, &["show", "api"]).contains("What is in"));
    assert!(run(&home, &["show", "20260528_12"]).contains("Lunch?"));
    assert_eq!(
        refused(&home, &["show", "20260528"]),
        "20260528 can be 2 sessions; give more of the id:
  20260528_120000_00000000  Lunch?
  20260528_093510_66bfaec7  Where is the tea?"
    );
    assert_eq!(
        refused(&home, &["export", "20260528_093510_66bfaec8"]),
        "there is no session 20260528_093510_66bfaec8. The nearest are:
  20260528_093510_66bfaec7  Where is the tea?
  20260528_120000_00000000  Lunch?
  api_1779957311_aabbccdd  What is in the file? 日本語"
    );
    assert_eq!(
        refused(&Home::new(), &["show", "x"]),
        "there is no session x: nothing has been said in this home yet"
    );
    assert!(refused(&home, &["show", "a/b"]).starts_with("an id must have 1 to 256 printable characters"));
    let snapshot = "20260528_093510_66bfaec7.snapshot.20260528T093510000000Z";
    assert!(refused(&home, &["export", snapshot]).contains("there is no snapshot"));
}

#[test]
fn too_many_choices_are_counted_rather_than_shown() {
    let ids: Vec<_> = (0..10).map(|number| format!("s{number}")).collect();
    let choices: Vec<_> = ids.iter().map(|id| Choice { id, about: "" }).collect();
    let error = choose("s", &choices).unwrap_err().to_string();
    assert!(error.starts_with("s can be 10 sessions") && error.ends_with("\n  s5\n  and 4 more"), "{error}");
    assert_eq!(choose("s3", &choices).unwrap(), 3);
}

#[test]
fn the_distance_of_two_ids_is_counted_in_letters() {
    for (from, to, expected) in [
        ("", "", 0),
        ("a", "", 1),
        ("", "ab", 2),
        ("abc", "abc", 0),
        ("abc", "axc", 1),
        ("kitten", "sitting", 3),
    ] {
        assert_eq!(distance(from, to), expected, "{from} {to}");
        assert_eq!(distance(to, from), expected, "{to} {from}");
    }
}

#[test]
fn p15_a_home_that_only_hermes_has_written_is_read_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let database = rusqlite::Connection::open(directory.path().join("state.db")).unwrap();
    for statement in throughline_hermes::schema::FRESH {
        database.execute_batch(statement).unwrap();
    }
    database
        .execute_batch(
            "UPDATE schema_version SET version = 30;
             INSERT INTO sessions (id, source, started_at, title) VALUES ('old', 'telegram', 1779953710, 'Tea');
             INSERT INTO messages (session_id, role, content, timestamp) VALUES ('old', 'user', 'hello', 1779953710);",
        )
        .unwrap();
    let before = fs::read(directory.path().join("state.db")).unwrap();
    let reader = throughline_store::Home::at(directory.path()).reader().unwrap();
    let shown = written(|out| parsed(&["show", "old"]).run(&reader, &page(None), out));
    assert!(shown.contains("09:35:10  user\n  hello\n"), "{shown}");
    let listed = written(|out| parsed(&["list"]).run(&reader, &page(None), out));
    assert!(listed.contains("old      telegram  Tea"), "{listed}");
    drop(reader);
    assert_eq!(fs::read(directory.path().join("state.db")).unwrap(), before, "reading changes nothing");
}

// -------------------------------------------------------------------------------------- snapshots

const TEA: &str = "20260528_093510_66bfaec7";

/// A conversation whose first exchange was summarised.
fn compressed() -> (Home, String) {
    let mut home = Home::with_tea();
    home.says(TEA, "And the sugar?");
    home.answers(TEA, "Next to it.");
    let snapshot = home.compresses(TEA, 2, "[SUMMARY] Tea is in the tin.");
    (home, snapshot)
}

#[test]
fn p11_snapshots_are_listed_shown_and_searched_by_name() {
    let (home, snapshot) = compressed();
    assert!(snapshot.starts_with(&format!("{TEA}.snapshot.20260528T")), "{snapshot}");
    let list = run(&home, &["snapshots", "20260528"]);
    assert!(list.contains(&snapshot) && list.contains("a summary: 4 messages became 3"), "{list}");
    let json: Value = serde_json::from_str(&run(&home, &["snapshots", TEA, "--json"])).unwrap();
    assert_eq!(json[0]["name"], snapshot.as_str());
    assert_eq!((&json[0]["message_count"], &json[0]["followed_by"]), (&json!(2), &json!("summary")));
    let shown = run(&home, &["show", &snapshot]);
    for part in ["Where is the tea?", "In the tin.", TEA, "2 messages"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(!shown.contains("sugar") && !shown.contains("SUMMARY"), "{shown}");
    let json: Value = serde_json::from_str(&run(&home, &["show", &snapshot, "--json"])).unwrap();
    assert_eq!(json["messages"].as_array().unwrap().len(), 2);
    let now = run(&home, &["show", TEA]);
    assert!(now.contains("[SUMMARY]") && now.contains("sugar") && !now.contains("In the tin."), "{now}");
    assert_eq!(run(&home, &["search", "tin"]).lines().count(), 4, "in the summary and in what it stands for");
    assert!(run(&home, &["search", "--snapshot", &snapshot, "Where"]).contains("Where is the tea?"));
    assert_eq!(run(&home, &["search", "--snapshot", &snapshot, "sugar"]), "No message matches sugar.\n");
    assert_eq!(
        run(&Home::with_tea(), &["snapshots", TEA]),
        format!("{TEA} has no snapshots: it was never compressed.\n")
    );
}

#[test]
fn p11_a_name_that_is_no_snapshot_is_answered_with_what_there_is() {
    let (home, snapshot) = compressed();
    let other = format!("{TEA}.snapshot.20200101T000000000000Z");
    let says = refused(&home, &["show", &other]);
    assert!(says.contains(&format!("there is no snapshot {other}")) && says.contains(&snapshot), "{says}");
    let says = refused(&home, &["search", "--snapshot", TEA, "tea"]);
    assert!(says.contains("is a session, not a snapshot"), "{says}");
    let says = refused(&home, &["show", "nobody.snapshot.20200101T000000000000Z"]);
    assert!(says.contains("there is no session nobody"), "{says}");
    let says = refused(&Home::with_tea(), &["show", &other]);
    assert!(says.contains("was never compressed"), "{says}");
}

fn restore(home: &std::path::Path, name: &str) -> anyhow::Result<String> {
    let Sessions::Restore(command) = parsed(&["restore", name]) else { panic!("a restore") };
    let now = throughline_core::Time(1_779_960_000_000_000);
    let mut store = throughline_store::Home::at(home).writer(now).unwrap();
    let mut out = Vec::new();
    command.here(&mut store, now, &mut out)?;
    assert_eq!(throughline_core::port::Store::reader(&store).check().unwrap(), [] as [String; 0]);
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn p11_a_restore_can_be_undone_by_another() {
    let (home, snapshot) = compressed();
    let before = run(&home, &["show", TEA]);
    let directory = home.left();
    let said = restore(directory.path(), &snapshot).unwrap();
    assert!(said.contains("3 messages are 4 now"), "{said}");
    let kept = said.split("is kept as ").nth(1).unwrap().split(';').next().unwrap();
    let read = |words: &[&str]| {
        let store = throughline_store::Home::at(directory.path()).reader().unwrap();
        written(|out| parsed(words).run(&store, &page(None), out))
    };
    let now = read(&["show", TEA]);
    for part in ["Where is the tea?", "In the tin.", "And the sugar?", "Next to it."] {
        assert!(now.contains(part), "{part} in {now}");
    }
    assert!(!now.contains("SUMMARY"), "{now}");
    restore(directory.path(), kept).unwrap();
    assert_eq!(read(&["show", TEA]), before);
}

#[test]
fn p11_a_restore_waits_for_no_turn_and_breaks_none() {
    let (mut home, snapshot) = compressed();
    home.says(TEA, "And milk?");
    let directory = home.left();
    let says = restore(directory.path(), &snapshot).unwrap_err().to_string();
    assert!(says.contains("a turn is under way") && says.contains("nothing was changed"), "{says}");
    let says = restore(directory.path(), TEA).unwrap_err().to_string();
    assert!(says.contains("is a session, not a snapshot"), "{says}");
}
