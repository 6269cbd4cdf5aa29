//! What was forgotten is in no byte of the home, and nothing else is missing.

use crate::gateway::{Ended, Place};
use crate::model::{ModelServer, calls, last, said};
use crate::peers;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A word that nothing else has.
const CANARY: &str = "quokkanary-7731";
/// What stands in its place.
const REMOVED: &str = "[This message was removed because its sender was forgotten.]";

fn throughline(place: &Place, words: &[&str]) -> Ended {
    words.iter().fold(place.launch(), |launch, word| launch.arg(*word)).run()
}

fn succeeds(place: &Place, words: &[&str]) -> String {
    let ended = throughline(place, words);
    assert!(ended.status.success(), "{words:?}: {ended:?}");
    ended.stdout
}

fn fails(place: &Place, words: &[&str]) -> String {
    let ended = throughline(place, words);
    assert_eq!(ended.status.code(), Some(1), "{words:?}: {ended:?}");
    ended.stderr
}

fn database(place: &Place) -> rusqlite::Connection {
    rusqlite::Connection::open(place.file("home/state.db")).unwrap()
}

fn number(place: &Place, sql: &str) -> i64 {
    database(place).query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Every file below that holds the word.
fn holders(directory: &Path, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holders(&path, word));
        } else if fs::read(&path).is_ok_and(|bytes| bytes.windows(word.len()).any(|at| at == word.as_bytes()))
        {
            found.push(path.display().to_string());
        }
    }
    found
}

/// All rows of a session, as they are.
fn rows_of(place: &Place, session: &str) -> Vec<String> {
    let database = database(place);
    let mut rows = Vec::new();
    for (table, column) in
        [("messages", "session_id"), ("tl_inbox", "session"), ("tl_step", "session"), ("sessions", "id")]
    {
        if !database.table_exists(None, table).unwrap() {
            continue; // a home that only Hermes has opened
        }
        let sql = format!("SELECT * FROM {table} WHERE {column} = ?1 ORDER BY 1, 2");
        let mut statement = database.prepare(&sql).unwrap();
        let columns = statement.column_count();
        let found = statement.query_map([session], |row| {
            (0..columns)
                .map(|at| Ok(format!("{:?}", row.get::<_, rusqlite::types::Value>(at)?)))
                .collect::<rusqlite::Result<Vec<_>>>()
        });
        rows.extend(found.unwrap().map(|row| format!("{table}: {}", row.unwrap().join("|"))));
    }
    rows
}

/// A model that repeats, and remembers when it is told to.
fn model() -> ModelServer {
    ModelServer::answering(Duration::ZERO, |request| match last(request) {
        text if text.starts_with("remember") => {
            calls(&[("memory", json!({"action": "add", "target": "memory", "content": text}))])
        }
        text => said(&format!("re: {text}")),
    })
}

/// A home in which `ann` said the word in every way that this program has, and `bob` said something else.
fn lived_in(place: &Place) {
    let model = model();
    place.write("home/config.yaml", format!("model: {}\n", model.setting("m")));
    let gateway = place.launch().start();
    let client = &gateway.client;
    assert_eq!(client.say("bob", "I like tea").status, 200);
    assert_eq!(client.say("ann", &format!("the word is {CANARY}")).status, 200);
    assert_eq!(client.say("ann", &format!("remember {CANARY}")).status, 200);
    assert_eq!(client.say("bob", "remember tea").status, 200);
    let long = format!("{} {CANARY}", "grey and heavy ".repeat(400));
    assert_eq!(client.say("ann", &long).status, 200);
    // What is taken back lies in a snapshot.
    assert_eq!(client.say("ann", &format!("taken back {CANARY}")).status, 200);
    let undone = client.post("/api/sessions/ann/commands", &[], &json!({"command": "/undo"})).unwrap();
    assert_eq!(undone.status, 200, "{}", undone.text());
    assert_eq!(client.say("ann", "see image_cache/img_ann.png").status, 200);
    let busy = throughline(place, &["forget", "session", "ann", "--yes"]);
    assert!(!busy.status.success() && busy.stderr.contains("Stop the gateway"), "{busy:?}");
    let looked = succeeds(place, &["forget", "session", "ann"]);
    assert!(looked.contains("Nothing was deleted"), "looking is allowed beside a gateway: {looked}");
    assert!(gateway.stop().success());
    place.write("home/sessions/ann.jsonl", CANARY);
    place.write("home/sessions/bob.jsonl", "tea");
    place.write("home/image_cache/img_ann.png", CANARY);
    place.write("home/image_cache/img_bob.png", "tea");
    place.write("home/logs/agent.log.1", format!("session=ann said {CANARY}\nsession=bob said tea\n"));
    place.write("home/throughline/tool-results/ann/1.txt", CANARY);
    place.write("home/throughline/todo/ann.json", CANARY);
}

#[test]
fn p31_what_a_forgotten_session_said_is_in_no_byte_of_the_home() {
    let place = Place::new();
    lived_in(&place);
    assert!(holders(&place.home(), CANARY).len() > 5, "the word is everywhere");
    let others = rows_of(&place, "bob");
    let looked = succeeds(&place, &["forget", "session", "ann", "--dry-run"]);
    for told in
        ["session ann", "would go: ", "memory entries", "out of reach:", "Backups", "Nothing was deleted"]
    {
        assert!(looked.contains(told), "{told}: {looked}");
    }
    assert!(holders(&place.home(), CANARY).len() > 5, "looking deletes nothing");

    let gone = succeeds(&place, &["forget", "session", "ann", "--yes"]);
    assert!(gone.contains("gone: "), "{gone}");
    assert_eq!(holders(&place.home(), CANARY), [""; 0]);
    assert_eq!(rows_of(&place, "bob"), others, "what others said stays to the byte");
    assert!(
        place.file("home/sessions/bob.jsonl").exists() && place.file("home/image_cache/img_bob.png").exists()
    );
    let memory = fs::read_to_string(place.file("home/memories/MEMORY.md")).unwrap();
    assert_eq!(memory.trim(), "remember tea");
    let log = fs::read_to_string(place.file("home/logs/agent.log.1")).unwrap();
    assert_eq!(log, "session=bob said tea\n");
    let sound: String = database(&place).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    assert!(throughline(&place, &["audit"]).status.success());
    assert!(succeeds(&place, &["sessions", "search", "tea"]).contains("bob"));

    let receipts: Value =
        serde_json::from_str(&succeeds(&place, &["forget", "--receipts", "--json"])).unwrap();
    let receipt = &receipts["receipts"][0];
    assert_eq!(receipt["kind"], "session");
    assert!(receipt["done_at"].is_number() && receipt["counts"]["sessions"] == 1, "{receipt}");
    assert!(!receipts.to_string().contains("ann"), "{receipts}");
    let seen = number(&place, "SELECT count(*) FROM tl_seen WHERE length(key) <> 64");
    assert_eq!(seen, 0, "keys are digests");
    assert!(number(&place, "SELECT count(*) FROM tl_seen WHERE session = 'forgotten' AND seq = 0") > 0);
    for hermes in peers::hermes() {
        let called = [json!(["get_messages", ["bob"], {}]), json!(["check", [], {}])];
        let told = hermes.does(&place.home(), &called);
        assert!(told[0].to_string().contains("tea"), "Hermes {}: {told:?}", hermes.version);
        assert_eq!(told[1], json!(["ok"]), "Hermes {}: {told:?}", hermes.version);
    }
    let model = model();
    place.write("home/config.yaml", format!("model: {}\n", model.setting("m")));
    let gateway = place.launch().start();
    assert_eq!(gateway.client.say("bob", "and milk").status, 200);
    assert_eq!(gateway.client.say("ann", "hello again").status, 200);
    assert!(gateway.stop().success());
    assert!(throughline(&place, &["audit"]).status.success());
}

#[test]
#[cfg(target_os = "linux")]
fn p31_a_forgetting_killed_at_any_step_is_finished_by_the_next() {
    let place = Place::new();
    lived_in(&place);
    let others = rows_of(&place, "bob");
    let copy = |from: &str, to: &str| {
        let _ = fs::remove_dir_all(place.file(to));
        let (from, to) = (place.file(from), place.file(to));
        assert!(std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    };
    copy("home", "kept");
    let words = ["forget", "session", "ann", "--yes"];
    let launch = words.iter().fold(place.launch(), |launch, word| launch.arg(*word));
    let Some(moments) = crate::killed::moments(&launch, &place) else { return };
    assert_eq!(holders(&place.home(), CANARY), [""; 0]);
    let (mut begun, mut unbegun) = (0, 0);
    // Every third is enough: the steps between them are the same few.
    for moment in moments.into_iter().step_by(3) {
        copy("kept", "home");
        assert!(moment.kills(&launch), "{moment:?}");
        let is_there = || number(&place, "SELECT count(*) FROM sessions WHERE id = 'ann'") == 1;
        match is_there() {
            true => {
                unbegun += 1;
                succeeds(&place, &words);
            }
            false => {
                begun += 1;
                succeeds(&place, &["forget", "--resume"]);
            }
        }
        assert_eq!(holders(&place.home(), CANARY), [""; 0], "{moment:?}");
        assert_eq!(rows_of(&place, "bob"), others, "{moment:?}");
        assert_eq!(number(&place, "SELECT count(*) FROM tl_forgetting WHERE state <> 2"), 0, "{moment:?}");
    }
    assert!(begun > 0 && unbegun > 0, "{begun} were killed after the commit, {unbegun} before");
}

#[test]
fn p31_a_forgotten_person_is_gone_from_shared_chats_and_others_stay() {
    let place = Place::new();
    fs::create_dir_all(place.home()).unwrap();
    drop(throughline_store::Home::at(&place.home()).writer(throughline_core::Time(1)).unwrap());
    let envelope = |key: &str, text: &str, id: &str, name: &str| {
        json!({"key": key, "chat": text, "reply_to": {"platform": "telegram", "account": "bot", "chat": "-100"},
               "sender": [id, name]})
        .to_string()
    };
    let database = database(&place);
    database
        .execute_batch(&format!(
            "INSERT INTO sessions (id, source, user_id, session_key, chat_id, chat_type, display_name, started_at,
                                   message_count, origin_json)
             VALUES ('dm', 'telegram', '4242424', 'agent:main:telegram:dm:4242424', '4242424', 'dm', 'Ann {CANARY}', 1, 2, NULL),
                    ('group', 'telegram', '4242424', 'agent:main:telegram:group:-100', '-100', 'group', 'Club', 1, 4,
                     '{{\"platform\": \"telegram\", \"user_id\": \"4242424\", \"user_name\": \"Ann {CANARY}\"}}');
             INSERT INTO messages (id, session_id, role, content, timestamp) VALUES
                (1, 'dm', 'user', 'secret {CANARY}', 1), (2, 'dm', 'assistant', 're: {CANARY}', 1),
                (3, 'group', 'user', 'all hear {CANARY}', 1), (4, 'group', 'assistant', 're: {CANARY}', 1),
                (5, 'group', 'user', 'bob here', 1), (6, 'group', 'assistant', 're: bob', 1);
             INSERT INTO tl_route VALUES ('agent:main:telegram:dm:4242424', 'dm', '{{}}');
             INSERT INTO tl_session (id, generation, epoch, view, received, answered, phase, unfinished, steps, last_row,
                                     adopted, touched) VALUES
                ('dm', 1, 1, 1, 0, 0, 0, 0, 0, 2, 0, 1), ('group', 1, 1, 1, 2, 2, 0, 0, 2, 6, 0, 1);
             INSERT INTO tl_step (session, number, turn, step, at, model, input, output, cache_read, cache_write,
                                  reasoning, chain, messages, calls, message) VALUES
                ('group', 1, 1, 0, 1, 'm', 0, 0, 0, 0, 0, x'00', 1, 0, 4),
                ('group', 2, 2, 0, 1, 'm', 0, 0, 0, 0, 0, x'00', 1, 0, 6);"
        ))
        .unwrap();
    for (seq, message, text, id, name) in [
        (1, 3, format!("all hear {CANARY}"), "4242424", format!("Ann {CANARY}")),
        (2, 5, "bob here".into(), "77", "Bob".into()),
    ] {
        database
            .execute(
                "INSERT INTO tl_inbox (session, seq, at, state, turn, message, step, written, envelope)
                 VALUES ('group', ?1, 1, 2, ?1, ?2, ?1, 0, ?3)",
                rusqlite::params![seq, message, envelope(&format!("k{seq}"), &text, id, &name)],
            )
            .unwrap();
    }
    drop(database);
    let nearest = fails(&place, &["forget", "person", "telegram:4242425"]);
    assert!(nearest.contains("The nearest are: telegram:4242424"), "{nearest}");
    assert!(fails(&place, &["forget", "person", " "]).contains("is empty"));
    assert!(fails(&place, &["forget", "chat", "telegram:-1"]).contains("The nearest are: telegram:-100"));
    let looked = succeeds(&place, &["forget", "person", "telegram:4242424"]);
    assert!(looked.contains("1 sessions") && looked.contains("1 shared messages"), "{looked}");
    succeeds(&place, &["forget", "person", "telegram:4242424", "--yes"]);
    assert_eq!(holders(&place.home(), CANARY), [""; 0]);
    assert_eq!(holders(&place.home(), "4242424"), [""; 0], "nor is who it was");
    let rows = rows_of(&place, "group").join("\n");
    assert_eq!(rows.matches(REMOVED).count(), 3, "the message, its answer, and what came in: {rows}");
    assert!(rows.contains("bob here") && rows.contains("re: bob"), "{rows}");
    assert_eq!(number(&place, "SELECT count(*) FROM messages WHERE session_id = 'group'"), 4);
    assert_eq!(number(&place, "SELECT count(*) FROM sessions"), 1);
}

/// Three chats as Hermes left them; in one of them the word was said, indexed and routed.
fn adopted(place: &Place) {
    crate::lifecycle::hermes_home(place, 3);
    let database = database(place);
    let session = "20251001_101010_00000001";
    database
        .execute_batch(&format!(
            "UPDATE messages SET content = 'secret {CANARY}' WHERE session_id = '{session}' AND role = 'user';
             UPDATE sessions SET title = 'about {CANARY}' WHERE id = '{session}';
             INSERT INTO messages (session_id, role, content, tool_calls, timestamp) VALUES
                ('{session}', 'assistant', '', '[{{\"id\":\"c\",\"type\":\"function\",\"function\":{{\"name\":\"t\",\"arguments\":\"{CANARY}\"}}}}]', 1),
                ('{session}', 'tool', 'found {CANARY}', NULL, 1);"
        ))
        .unwrap();
    drop(database);
    place.write(&format!("home/sessions/{session}.jsonl"), CANARY);
    place.write("home/logs/gateway.log", format!("{session} said {CANARY}\nanother line\n"));
}

#[test]
fn p31_a_person_is_forgotten_in_a_home_that_hermes_had() {
    let place = Place::new();
    adopted(&place);
    // A home that this program has not opened yet, and one that it has run on.
    for has_run in [false, true] {
        if has_run {
            let _ = fs::remove_dir_all(place.home());
            adopted(&place);
            let model = model();
            place.write("home/config.yaml", format!("model: {}\n", model.setting("m")));
            let gateway = place.launch().start();
            assert_eq!(gateway.client.say("bob", "I like tea").status, 200);
            assert!(gateway.client.read(&format!("/api/search?q={CANARY}")).to_string().contains("00000001"));
            assert!(gateway.stop().success());
        }
        assert!(holders(&place.home(), CANARY).len() >= 3, "{:?}", holders(&place.home(), CANARY));
        let others = ["20251001_101010_00000000", "20251001_101010_00000002"];
        let before = others.map(|session| rows_of(&place, session));
        let looked = succeeds(&place, &["forget", "person", "telegram:1"]);
        assert!(looked.contains("1 sessions") && looked.contains("Nothing was deleted"), "{looked}");
        succeeds(&place, &["forget", "person", "telegram:1", "--yes"]);
        assert_eq!(holders(&place.home(), CANARY), [""; 0], "has run: {has_run}");
        assert_eq!(holders(&place.home(), "20251001_101010_00000001"), [""; 0], "has run: {has_run}");
        assert_eq!(others.map(|session| rows_of(&place, session)), before, "others stay to the byte");
        assert_eq!(number(&place, "SELECT count(*) FROM sessions WHERE user_id = '1'"), 0);
        assert!(throughline(&place, &["audit"]).status.success());
    }
}

#[test]
fn p31_a_forgotten_chat_is_gone_by_its_place_or_by_its_key_and_other_chats_stay() {
    use throughline_servers::telegram::{Chat, User};
    let world = crate::chats::World::around(Place::new(), model(), "TELEGRAM_ALLOWED_USERS=42,43");
    world.place.append("home/config.yaml", "group_sessions_per_user: false\n");
    let says = |world: &crate::chats::World, chat: &Chat, who: i64, text: &str| {
        world.telegram.say(chat, &User::new(who, "P"), text);
        let reply = if text.starts_with("remember") { "re: {" } else { text };
        world.until(text, |world| world.shown().iter().any(|shown| shown.contains(reply)));
    };
    let (group, alone) = (Chat::group(-1009, "Club"), Chat::private(42, "P"));
    let gateway = world.launch.start();
    says(&world, &group, 42, &format!("one {CANARY}"));
    says(&world, &alone, 42, "tea for one");
    says(&world, &group, 43, &format!("two {CANARY}"));
    world.telegram.say(&group, &User::new(43, "P"), "/new");
    says(&world, &group, 43, &format!("three {CANARY}"));
    assert!(gateway.stop().success());
    let place = &world.place;
    let own = database(place).query_row("SELECT id FROM sessions WHERE chat_id = '42'", [], |row| row.get(0));
    let own: String = own.unwrap();
    let others = rows_of(place, &own);
    let looked = succeeds(place, &["forget", "chat", "telegram:-1009"]);
    assert!(looked.contains("2 sessions"), "both conversations of the chat: {looked}");
    let key = "SELECT session_key FROM sessions WHERE chat_id = '-1009' LIMIT 1";
    let key: String = database(place).query_row(key, [], |row| row.get(0)).unwrap();
    assert!(succeeds(place, &["forget", "chat", &key]).contains("2 sessions"), "{key} names the same");
    succeeds(place, &["forget", "chat", "telegram:-1009", "--yes"]);
    assert_eq!(holders(&place.home(), CANARY), [""; 0]);
    assert_eq!(holders(&place.home(), "-1009"), [""; 0], "nor is where it was");
    assert_eq!(rows_of(place, &own), others, "what was said elsewhere stays to the byte");
    assert!(fails(place, &["forget", "chat", "telegram:-1009", "--yes"]).contains("telegram:42"));

    // The chat begins anew, and the agent knows nothing of before.
    let gateway = world.launch.start();
    let asked = world.model.requests().len();
    says(&world, &group, 43, "four and no word of before");
    assert!(!world.model.requests()[asked..].iter().any(|request| request.to_string().contains(CANARY)));
    assert!(gateway.stop().success());
    assert!(throughline(place, &["audit"]).status.success());
}
