//! Finding what was said, by us and by Hermes, indexed or not yet.

use crate::home::*;
use throughline_core::RowId;
use throughline_core::input::{Birth, Chat};
use throughline_core::message::JsonText;
use throughline_core::port::{Anchor, BrowseRead, Hit, Order, Scope, SessionFilter, Store};

fn rows(hits: &[Hit]) -> Vec<String> {
    hits.iter().map(|hit| format!("{}: {}", hit.session, hit.snippet)).collect()
}

fn all() -> SessionFilter {
    SessionFilter::default()
}

#[test]
fn a_reader_finds_what_the_writer_has_not_indexed_yet() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", None, "the first heron");
    while store.tend(NOW).unwrap().more {}
    turn(&mut store, "b", None, "the second Heron");
    let reader = home(directory.path()).reader().unwrap();
    let hits = reader.search("heron", &all()).unwrap();
    assert_eq!(
        rows(&hits),
        [
            "b: re: the second >>>Heron<<<",
            "b: the second >>>Heron<<<",
            "a: re: the first >>>heron<<<",
            "a: the first >>>heron<<<"
        ]
    );
    // The writer closes its lag; everybody finds the same.
    assert_eq!(store.reader().search("heron", &all()).unwrap().len(), 4);
    assert_eq!(reader.search("heron", &all()).unwrap().len(), 4);
    whole(&store);
}

#[test]
fn p31_a_row_that_says_it_again_and_again_is_found_as_quickly_as_another() {
    for index in ["w", "www*"] {
        throughline_complexity::assert_linear_in_count("Reader::search", |count| {
            let directory = directory();
            let mut store = writer(directory.path());
            turn(&mut store, "a", None, &(if index == "w" { "w " } else { "w" }).repeat(16 * count));
            while store.tend(NOW).unwrap().more {}
            store.close(NOW).unwrap();
            let reader = home(directory.path()).reader().unwrap();
            move || {
                assert_eq!(reader.search(index, &all()).unwrap().len(), 2);
                drop(directory);
            }
        });
    }
}

#[test]
fn the_index_holds_what_hermes_triggers_would_have_put_there() {
    for directory in [directory(), schema_11()] {
        let mut store = writer(directory.path());
        turn(&mut store, "a", None, "words \u{0}json:odd — 漢字");
        store.close(NOW).unwrap();
        let conn = hermes(directory.path());
        let contents = |table: &str| -> Vec<(i64, String)> {
            let sql = format!("SELECT rowid, content FROM {table} ORDER BY rowid");
            let mut statement = conn.prepare(&sql).unwrap();
            statement
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
                .unwrap()
                .map(Result::unwrap)
                .collect()
        };
        let ours = [contents("messages_fts"), contents("messages_fts_trigram")];
        // An update that changes nothing makes the triggers do it over.
        conn.execute("UPDATE messages SET role = role", []).unwrap();
        assert_eq!(ours, [contents("messages_fts"), contents("messages_fts_trigram")]);
        assert_eq!(ours[0].len(), 2);
    }
}

#[test]
fn what_hermes_touched_before_us_is_not_indexed_twice() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", None, "kingfisher");
    hermes(directory.path()).execute("UPDATE messages SET active = 1", []).unwrap();
    store.close(NOW).unwrap();
    let conn = hermes(directory.path());
    let count: i64 = conn.query_row("SELECT count(*) FROM messages_fts", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 2);
    conn.execute("INSERT INTO messages_fts(messages_fts) VALUES ('integrity-check')", []).unwrap();
    whole(&store);
}

#[test]
fn scripts_without_spaces_and_parts_of_words_are_found() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", None, "去大别山项目看看");
    turn(&mut store, "b", None, "Straßenbahnhaltestelle at 100%_off");
    for (query, sessions) in [
        ("大别山项目", vec!["a", "a"]),
        ("别山", vec!["a", "a"]),
        ("山", vec!["a", "a"]),
        ("haltestelle", vec!["b", "b"]),
        ("100%_off", vec!["b", "b"]),
        ("%", vec![]),
        ("_", vec![]),
        ("zz", vec![]),
    ] {
        let hits = store.reader().search(query, &all()).unwrap();
        let found: Vec<&str> = hits.iter().map(|hit| hit.session.as_str()).collect();
        assert_eq!(found, sessions, "{query}");
    }
}

#[test]
fn what_was_summarised_is_found_and_what_was_taken_back_is_not() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", None, "plover one");
    turn(&mut store, "b", None, "plover two");
    let conn = hermes(directory.path());
    conn.execute("UPDATE messages SET active = 0, compacted = 1 WHERE session_id = 'a'", []).unwrap();
    conn.execute("UPDATE messages SET active = 0 WHERE session_id = 'b'", []).unwrap();
    let hits = store.reader().search("plover", &all()).unwrap();
    assert!(hits.iter().all(|hit| hit.session == id("a")) && hits.len() == 2, "{hits:?}");
}

#[test]
fn p11_a_hit_in_a_snapshot_belongs_to_its_session() {
    let directory = schema_11();
    let mut store = writer(directory.path());
    turn(&mut store, "a", None, "now");
    let conn = hermes(directory.path());
    let snapshot = "a.snapshot.20260528T093510000000Z";
    hermes_begins(&conn, snapshot);
    hermes_says(&conn, snapshot, "user", "avocet then");
    for filter in [all(), SessionFilter { session: Some(id("a")), ..all() }] {
        let hits = store.reader().search("avocet", &filter).unwrap();
        assert_eq!(rows(&hits), ["a: >>>avocet<<< then"]);
    }
    let listed = store.reader().sessions(&all()).unwrap();
    assert_eq!(listed.len(), 1, "a snapshot is no session");
}

#[test]
fn the_best_of_the_newest_come_newest_first() {
    let directory = directory();
    let mut store = writer(directory.path());
    for number in 0..30 {
        let text = match number {
            3 => "ruff ruff ruff".to_owned(),
            _ => format!("ruff among many other words about something else, number {number}"),
        };
        let sql = "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('a', 'user', ?1, 1.0)";
        let conn = hermes(directory.path());
        if number == 0 {
            hermes_begins(&conn, "a");
        }
        conn.execute(sql, [text]).unwrap();
    }
    let hits = store.reader().search("ruff", &SessionFilter { limit: 5, ..all() }).unwrap();
    assert_eq!(hits.len(), 5);
    assert!(hits.iter().any(|hit| hit.snippet.contains(">>>ruff<<< >>>ruff<<<")), "the best is among them");
    assert!(hits.is_sorted_by(|a, b| a.row > b.row));
    let next = store.reader().search("ruff", &SessionFilter { limit: 5, offset: 5, ..all() }).unwrap();
    assert!(next.iter().all(|hit| !hits.contains(hit)), "the next page has others");
    store.close(NOW).unwrap();
}

#[test]
fn sessions_are_listed_latest_first_without_what_hermes_hides() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", Some(chat(1)), "hello   there\nfriend");
    let conn = hermes(directory.path());
    for session in ["root", "tip", "helper", "archived"] {
        hermes_begins(&conn, session);
    }
    conn.execute_batch(
        "UPDATE sessions SET parent_session_id = 'root', title = 'The tip' WHERE id = 'tip';
         UPDATE sessions SET ended_at = 1.0, end_reason = 'compression' WHERE id = 'root';
         UPDATE sessions SET model_config = '{\"_delegate_from\": \"root\"}' WHERE id = 'helper';
         UPDATE sessions SET archived = 1 WHERE id = 'archived'",
    )
    .unwrap();
    let listed = store.reader().sessions(&all()).unwrap();
    let ids: Vec<&str> = listed.iter().map(|summary| summary.id.as_str()).collect();
    assert_eq!(ids, ["a", "tip"]);
    assert_eq!(listed[0].preview, "hello there friend");
    assert_eq!(listed[0].chat.as_deref(), Some("agent:main:telegram:dm:1"));
    assert_eq!((listed[0].messages, listed[0].usage.input, listed[0].usage.output), (2, 100, 10));
    assert_eq!(listed[0].model.as_deref(), Some("model-1"));
    assert!(store.reader().session(&id("archived")).unwrap().is_some(), "by its name it is found");
    let telegram = SessionFilter { source: Some("telegram".into()), ..all() };
    assert_eq!(store.reader().sessions(&telegram).unwrap().len(), 1);
    let page = SessionFilter { limit: 1, offset: 1, ..all() };
    assert_eq!(store.reader().sessions(&page).unwrap()[0].id, id("tip"));
}

#[test]
fn triggers_that_we_do_not_know_keep_doing_their_work() {
    let directory = directory();
    drop(writer(directory.path()));
    hermes(directory.path())
        .execute_batch(
            "DROP TRIGGER messages_fts_insert;
             CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
                 INSERT INTO messages_fts(rowid, content) VALUES (new.id, 'as a later Hermes would: ' || new.content);
             END",
        )
        .unwrap();
    let mut store = writer(directory.path());
    turn(&mut store, "a", None, "sandpiper");
    let conn = hermes(directory.path());
    let count = |sql: &str| -> i64 { conn.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!(count("SELECT count(*) FROM tl_unindexed"), 0);
    assert_eq!(count("SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'later sandpiper'"), 2);
    assert_eq!(count("SELECT count(*) FROM messages_fts_trigram"), 2);
    whole(&store);
}

/// A group in which each member has a session of their own, or all share one.
fn group_chat(chat: &str, member: Option<&str>) -> Chat {
    let ending = member.map_or(String::new(), |member| format!(":{member}"));
    Chat {
        key: format!("agent:main:telegram:group:{chat}{ending}").parse().unwrap(),
        platform: "telegram".into(),
        chat_type: "group".into(),
        display_name: None,
        origin: Some(JsonText::from_valid(format!(
            "{{\"platform\": \"telegram\", \"chat_id\": \"{chat}\"}}"
        ))),
    }
}

#[test]
fn p31_in_a_group_nobody_sees_what_was_said_elsewhere() {
    for directory in [directory(), schema_11()] {
        let mut store = writer(directory.path());
        for (session, user, chat) in [
            ("shared", "ada", group_chat("-5", None)),
            ("adas", "ada", group_chat("-5", Some("ada"))),
            ("bobs", "bob", group_chat("-5", Some("bob"))),
            ("other", "ada", group_chat("-15", None)),
            ("private", "ada", chat(1)),
        ] {
            let birth = Birth {
                source: "telegram".into(),
                user: Some(user.into()),
                chat: Some(chat),
                ..Birth::default()
            };
            begin(&mut store, session, birth);
        }
        let sees = |user: &str, chat: Option<&str>| -> Vec<String> {
            let scope = Scope::Person {
                source: "telegram".into(),
                user: Some(user.into()),
                chat: chat.map(str::to_owned),
            };
            let filter = SessionFilter { scope: Some(scope), ..all() };
            let mut found: Vec<_> = store
                .reader()
                .search("begin", &filter)
                .unwrap()
                .iter()
                .map(|hit| hit.session.to_string())
                .collect();
            found.sort();
            found
        };
        assert_eq!(sees("ada", Some("-5")), ["adas", "shared"], "not what was said in private");
        assert_eq!(sees("bob", Some("-5")), ["bobs", "shared"]);
        assert_eq!(sees("eve", Some("-5")), ["shared"]);
        assert_eq!(sees("ada", None), ["adas", "other", "private", "shared"]);
        assert_eq!(sees("eve", None), [] as [&str; 0]);
    }
}

/// A conversation that Hermes has split by a compression, and a snapshot of ours.
fn split(store: &mut dyn Store, directory: &std::path::Path) -> [i64; 3] {
    turn(store, "a", None, "now");
    let conn = hermes(directory);
    let snapshot = "a.snapshot.20260528T093510000000Z";
    for session in ["root", "tip", snapshot] {
        hermes_begins(&conn, session);
    }
    conn.execute_batch(
        "UPDATE sessions SET parent_session_id = 'root' WHERE id = 'tip';
         UPDATE sessions SET ended_at = 1.0, end_reason = 'compression' WHERE id = 'root'",
    )
    .unwrap();
    ["root", "tip", snapshot].map(|session| {
        hermes_says(&conn, session, "user", "before");
        let row = hermes_says(&conn, session, "assistant", "godwit");
        hermes_says(&conn, session, "user", "after");
        row
    })
}

fn anchor(session: &str, row: i64) -> Anchor {
    Anchor { session: id(session), row: RowId(row as u64), window: 5, ends: 3, scope: None }
}

#[test]
fn p11_a_passage_is_found_wherever_its_conversation_went() {
    let directory = directory();
    let mut store = writer(directory.path());
    let [in_root, in_tip, in_snapshot] = split(&mut store, directory.path());
    for (asked, row, session, root) in [
        ("root", in_root, "root", "root"),
        ("root", in_tip, "tip", "root"),
        ("tip", in_root, "root", "root"),
        ("a", in_snapshot, "a", "a"),
    ] {
        let passage = store.reader().around(&anchor(asked, row)).unwrap().unwrap();
        assert_eq!((passage.session.as_str(), passage.root.as_str()), (session, root));
        let said: Vec<_> = passage.rows.iter().map(|(_, message)| message.content().plain()).collect();
        assert_eq!(said, ["before", "godwit", "after"], "only of that part");
    }
    assert_eq!(store.reader().around(&anchor("a", in_root)).unwrap(), None, "another conversation");
    let one_each = SessionFilter { one_each: true, order: Order::Best, ..all() };
    let hits = store.reader().search("godwit", &one_each).unwrap();
    assert_eq!(hits.len(), 2, "{hits:?}");
    let without = SessionFilter { exclude: Some(id("tip")), ..all() };
    assert!(store.reader().search("godwit", &without).unwrap().iter().all(|hit| hit.session == id("a")));
    assert_eq!(
        store.reader().sessions(&SessionFilter { exclude: Some(id("tip")), ..all() }).unwrap().len(),
        1
    );
}

#[test]
fn what_was_summarised_stands_around_a_row_and_what_was_taken_back_does_not() {
    let directory = directory();
    let mut store = writer(directory.path());
    let [row, ..] = split(&mut store, directory.path());
    let conn = hermes(directory.path());
    conn.execute(
        "UPDATE messages SET active = 0, compacted = 1 WHERE id <= ?1 AND session_id = 'root'",
        [row],
    )
    .unwrap();
    conn.execute("UPDATE messages SET active = 0 WHERE id > ?1 AND session_id = 'root'", [row]).unwrap();
    let passage = store.reader().around(&anchor("root", row)).unwrap().unwrap();
    let said: Vec<_> = passage.rows.iter().map(|(_, message)| message.content().plain()).collect();
    assert_eq!(said, ["before", "godwit"]);
    assert_eq!(store.reader().around(&anchor("root", row + 1)).unwrap(), None);
}

#[test]
fn automation_comes_after_people_and_titles_are_found() {
    let directory = directory();
    let mut store = writer(directory.path());
    let conn = hermes(directory.path());
    for (session, source, text) in
        [("cron", "cron", "dunlin dunlin dunlin"), ("talk", "cli", "a dunlin among many other words")]
    {
        hermes_begins(&conn, session);
        conn.execute("UPDATE sessions SET source = ?2 WHERE id = ?1", [session, source]).unwrap();
        hermes_says(&conn, session, "user", text);
    }
    turn(&mut store, "later", None, "unrelated");
    let order = |demoted: &[&str]| -> Vec<String> {
        let demoted = demoted.iter().map(|&source| source.to_owned()).collect();
        let filter = SessionFilter { order: Order::Best, demoted, ..all() };
        store.reader().search("dunlin", &filter).unwrap().iter().map(|hit| hit.session.to_string()).collect()
    };
    assert_eq!(order(&[]), ["cron", "talk"]);
    assert_eq!(order(&["cron"]), ["talk", "cron"]);
    conn.execute_batch(
        "UPDATE sessions SET title = 'Wading 100%' WHERE id = 'cron';
         UPDATE sessions SET title = 'Wading 100% #2' WHERE id = 'talk';
         UPDATE sessions SET title = 'Wading 1000 #2' WHERE id = 'later'",
    )
    .unwrap();
    let filter = SessionFilter { title: Some("Wading 100%".into()), ..all() };
    let mut titled: Vec<_> =
        store.reader().sessions(&filter).unwrap().iter().map(|summary| summary.id.to_string()).collect();
    titled.sort();
    assert_eq!(titled, ["cron", "talk"]);
}

/// What Hermes 0.14 delegated has a parent and no marker.
#[test]
fn helpers_of_an_older_hermes_are_not_listed_and_branches_are() {
    let directory = schema_11();
    let store = writer(directory.path());
    let conn = hermes(directory.path());
    for session in ["root", "helper", "branch"] {
        hermes_begins(&conn, session);
    }
    conn.execute_batch(
        "UPDATE sessions SET parent_session_id = 'root' WHERE id <> 'root';
         UPDATE sessions SET model_config = '{\"_branched_from\": \"root\"}' WHERE id = 'branch'",
    )
    .unwrap();
    let mut listed: Vec<_> =
        store.reader().sessions(&all()).unwrap().iter().map(|it| it.id.to_string()).collect();
    listed.sort();
    assert_eq!(listed, ["branch", "root"]);
}
