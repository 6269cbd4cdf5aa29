//! P16: `throughline doctor` finds what the old behaviour did to a home, and repairs it without losing a word.
//!
//! The damage is real: Hermes 0.14.0 and 0.19.0 do it by themselves, against a local model, and Hermes 0.19.0 is the
//! judge of what is left.

use crate::gateway::{Ended, Launch, Place};
#[cfg(target_os = "linux")]
use crate::killed;
use crate::peers;
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use throughline_core::port::SessionFilter;
use throughline_core::port::{BrowseRead as _, SessionRead as _};
use throughline_store::{FileSystem, Home};

const TALK: &str = "20260528_093510_66bfaec7";

fn doctor(place: &Place, arguments: &[&str]) -> Ended {
    let launch = Launch::on(place, &[&place.home()]).arg("doctor");
    arguments.iter().fold(launch, |launch, argument| launch.arg(*argument)).run()
}

/// What it says as JSON, and whether its exit code agrees.
fn findings(place: &Place) -> Vec<Value> {
    let ended = doctor(place, &["--json"]);
    let told: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr));
    let found = told["findings"].as_array().unwrap().clone();
    assert_eq!(ended.status.code(), Some(if found.is_empty() { 0 } else { 2 }), "{told}");
    found
}

/// But for what the logs of a Hermes hold, which is not at stake here.
fn kinds(findings: &[Value]) -> BTreeSet<String> {
    let kinds = findings.iter().map(|finding| finding["kind"].as_str().unwrap().to_owned());
    kinds.filter(|kind| kind != "secret_in_log").collect()
}

fn found<'a>(findings: &'a [Value], kind: &str) -> &'a Value {
    findings
        .iter()
        .find(|finding| finding["kind"] == kind)
        .unwrap_or_else(|| panic!("no {kind}: {}", json!(findings)))
}

fn repair(place: &Place) {
    let ended = doctor(place, &["--repair", "--yes"]);
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(matches!(ended.status.code(), Some(0 | 2)), "{said}");
    assert!(!said.contains("failed") && !said.contains("is still there"), "{said}");
    let left = findings(place);
    assert!(left.iter().all(|finding| finding["repairable"] == false), "{}", json!(left));
}

/// What people said in a home, each thing once.
fn said_by_people(home: &Path) -> BTreeSet<String> {
    let conn = Connection::open(home.join("state.db")).unwrap();
    let sql = "SELECT DISTINCT content FROM messages WHERE role = 'user' AND content NOT LIKE '[CONTEXT %'";
    let mut statement = conn.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// The same as our readers tell it: what is live in a session, and what its snapshots show.
fn readable(home: &Path, session: &str) -> BTreeSet<String> {
    let reader = Home { filesystem: FileSystem::Trusted, ..Home::at(home) }.reader().unwrap();
    let id = session.parse().unwrap();
    let live = reader.history(&id).unwrap();
    let snapshots = reader.snapshots(&id).unwrap();
    assert!(snapshots.windows(2).all(|pair| pair[0].name < pair[1].name));
    let kept = snapshots.iter().flat_map(|snapshot| reader.snapshot(&snapshot.name).unwrap().unwrap().rows);
    live.into_iter().chain(kept).map(|(_, message)| message.content().plain()).collect()
}

fn finds(home: &Path, words: &str) -> bool {
    let reader = Home { filesystem: FileSystem::Trusted, ..Home::at(home) }.reader().unwrap();
    !reader.search(words, &SessionFilter { limit: 5, ..SessionFilter::default() }).unwrap().is_empty()
}

fn live(home: &Path, session: &str) -> Vec<String> {
    let reader = Home { filesystem: FileSystem::Trusted, ..Home::at(home) }.reader().unwrap();
    let history = reader.history(&session.parse().unwrap()).unwrap();
    history.iter().map(|(_, message)| message.content().plain()).collect()
}

/// What Hermes 0.19.0 lists and reads there.
fn judged_by_hermes(home: &Path, session: &str) -> (Vec<Value>, Vec<Value>) {
    let hermes = peers::one_hermes("0.19.0").expect("it made the home");
    let told = hermes.does(
        home,
        &[
            json!(["list_sessions_rich", [], {"limit": 50}]),
            json!(["get_messages_as_conversation", [session], {}]),
            json!(["check", [], {}]),
        ],
    );
    assert_eq!(told[2], json!(["ok"]), "the file is whole");
    (told[0].as_array().unwrap().clone(), told[1].as_array().unwrap().clone())
}

/// A long session, and two requests on it during one slow summary; then one more.
fn talk() -> Value {
    json!({
        "config": {
            "model": {"context_length": 131_072},
            "compression": {"enabled": true, "threshold": 0.5},
            "gateway": {"api_server": {"max_concurrent_runs": 0}},
        },
        "session": TALK, "messages": 48, "characters": 8_000, "summary_seconds": 3, "pause": 1,
        "rounds": [["first meanwhile", "second meanwhile"], ["third, alone"]],
    })
}

#[test]
fn p16_what_hermes_0_14_0_forks_is_one_conversation_again() {
    let Some(hermes) = peers::one_hermes("0.14.0") else { return };
    let place = Place::new();
    hermes.answers(&place.home(), &talk());
    let before = said_by_people(&place.home());
    assert!(before.contains("first meanwhile") && before.contains("third, alone"));
    let untouched = std::fs::read(place.file("home/state.db")).unwrap();
    let told = findings(&place);
    assert_eq!(kinds(&told), BTreeSet::from(["forked_siblings".to_owned()]), "{}", json!(told));
    let forked = found(&told, "forked_siblings");
    assert_eq!(forked["sessions"][0], TALK);
    assert_eq!(forked["sessions"].as_array().unwrap().len(), 4, "itself and three continuations: {forked}");
    assert_eq!(std::fs::read(place.file("home/state.db")).unwrap(), untouched, "to look is not to touch");

    repair(&place);
    let told: BTreeSet<String> = readable(&place.home(), TALK);
    assert!(before.iter().all(|text| told.contains(text)), "every word of every part");
    assert!(finds(&place.home(), "\"second meanwhile\"") && finds(&place.home(), "\"first meanwhile\""));
    let (listed, said) = judged_by_hermes(&place.home(), TALK);
    let ids: Vec<&str> = listed.iter().map(|session| session["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [TALK], "one session");
    assert!(
        said.iter().any(|message| message["content"] == "third, alone"),
        "it goes on where it was: {said:?}"
    );
    let again = doctor(&place, &["--repair", "--yes"]);
    assert!(again.stdout.contains("there is nothing to repair"), "{}", again.stdout);
}

#[test]
fn p16_what_hermes_0_19_0_archives_unseen_comes_back() {
    archived_unseen(&talk(), "[CONTEXT COMPACTION —");
}

/// Where neither role would fit between what it keeps before and behind, Hermes puts the summary into a message that it keeps.
#[test]
fn p16_what_hermes_0_19_0_archives_unseen_behind_a_summary_in_a_message_comes_back() {
    let mut talk = talk();
    talk["config"]["compression"]["protect_first_n"] = json!(2);
    archived_unseen(&talk, "[PRIOR CONTEXT —");
}

fn archived_unseen(talk: &Value, summary: &str) {
    let Some(hermes) = peers::one_hermes("0.19.0") else { return };
    let place = Place::new();
    hermes.answers(&place.home(), talk);
    let before = live(&place.home(), TALK);
    assert!(
        before.iter().any(|text| text.starts_with(summary)),
        "Hermes writes its summary otherwise: {before:?}"
    );
    let meanwhile = ["first meanwhile", "second meanwhile"];
    let lost: Vec<&str> =
        meanwhile.into_iter().filter(|text| !before.iter().any(|known| known == text)).collect();
    assert_eq!(lost.len(), 1, "one of them is out of sight: {before:?}");
    let told = findings(&place);
    assert_eq!(kinds(&told), BTreeSet::from(["archived_unsummarised".to_owned()]), "{}", json!(told));
    repair(&place);
    let after = live(&place.home(), TALK);
    let place_of = |text: &str| after.iter().position(|known| known == text).unwrap();
    assert!(place_of(lost[0]) < place_of("third, alone"), "in its place: {after:?}");
    assert_eq!(after.len(), before.len() + 2, "with its answer");
    let (_, said) = judged_by_hermes(&place.home(), TALK);
    assert!(said.iter().any(|message| message["content"] == lost[0]), "Hermes tells it again");
}

#[test]
fn p16_what_hermes_0_14_0_rotates_in_a_chat_leads_to_one_session() {
    let Some(hermes) = peers::one_hermes("0.14.0") else { return };
    let place = Place::new();
    let number = "+15550000001";
    hermes.serves(
        &place.home(),
        &json!({
            "config": {"model": {"context_length": 131_072}, "compression": {"enabled": true, "threshold": 0.5}},
            "chats": [{"number": number, "messages": 40, "characters": 8_000, "turns": 4}],
        }),
    );
    let before = said_by_people(&place.home());
    let told = findings(&place);
    let chain = found(&told, "rotated_chain");
    let first = chain["sessions"][0].as_str().unwrap().to_owned();
    let evidence = chain["evidence"].to_string();
    assert!(evidence.contains(&format!("dm:{number} leads to")), "{evidence}");
    assert!(evidence.contains("logs/agent.log:"), "the lines that show it: {evidence}");
    repair(&place);
    let told = readable(&place.home(), &first);
    assert!(before.iter().all(|text| told.contains(text)), "every word of every part");
    let routes: Value =
        serde_json::from_str(&std::fs::read_to_string(place.file("home/sessions/sessions.json")).unwrap())
            .unwrap();
    let led: Vec<&Value> = routes.as_object().unwrap().values().map(|entry| &entry["session_id"]).collect();
    assert_eq!(led, [&json!(first)]);
    let (listed, _) = judged_by_hermes(&place.home(), &first);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["id"], first);

    // And back: the home is what Hermes left.
    let undone = doctor(&place, &["--undo", "--yes"]);
    assert!(undone.status.success(), "{}{}", undone.stdout, undone.stderr);
    assert!(kinds(&findings(&place)).contains("rotated_chain"));
    assert_eq!(said_by_people(&place.home()), before);
}

/// Anomaly B: Hermes' gateway compresses a chat for its length before its turn, with an agent that has no database, and
/// writes what is left over the transcript. What an earlier turn was shown still lies in a file beside it.
#[test]
fn p16_what_hermes_0_14_0_wrote_over_a_transcript_is_readable_again() {
    let Some(hermes) = peers::one_hermes("0.14.0") else { return };
    let place = Place::new();
    let chat = |number: &str, messages: u32, characters: u32, turns: u32| json!({"number": number, "messages": messages, "characters": characters, "turns": turns});
    hermes.serves(
        &place.home(),
        &json!({
            "config": {
                "model": {"context_length": 131_072},
                "compression": {"enabled": true, "threshold": 0.5, "hygiene_hard_message_limit": 60},
            },
            // The second chat is shown to the model, then the first leaves its mark on every thread, then the second is compressed.
            "chats": [
                chat("+15550000002", 58, 400, 1),
                chat("+15550000001", 40, 8_000, 4),
                chat("+15550000002", 0, 0, 1),
            ],
        }),
    );
    let told = findings(&place);
    let gap = found(&told, "transcript_gap");
    let session = gap["sessions"][0].as_str().unwrap().to_owned();
    // Across sessions: the thread on which that happened had worked for the first chat before, and says so.
    let chain = found(&told, "rotated_chain");
    let others: Vec<&str> =
        chain["sessions"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert!(!others.contains(&session.as_str()), "{}", json!(told));
    let log = std::fs::read_to_string(place.file("home/logs/agent.log")).unwrap();
    let foreign = log.lines().position(|line| {
        line.contains(&format!("compression started: session={session}"))
            && others.iter().any(|other| line.contains(&format!("[{other}]")))
    });
    let line =
        foreign.unwrap_or_else(|| panic!("no line of {session} in the name of {others:?}:\n{log}")) + 1;
    let evidence = gap["evidence"].to_string();
    assert!(evidence.contains(&format!("agent.log:{line}")), "line {line} is evidence: {evidence}");
    let is_told = |texts: &BTreeSet<String>, nth: u32| {
        texts.iter().any(|text| text.starts_with(&format!("{nth}: all work")))
    };
    let before = readable(&place.home(), &session);
    assert!(!is_told(&before, 30), "Hermes has lost it: {before:?}");
    repair(&place);
    let after = readable(&place.home(), &session);
    for nth in 0..58 {
        assert!(is_told(&after, nth), "{nth} can be read again");
    }
    assert!(before.is_subset(&after));
    let (_, said) = judged_by_hermes(&place.home(), &session);
    assert!(
        said.iter().any(|message| message["content"] == "Understood."),
        "and Hermes goes on with it: {said:?}"
    );
}

/// `/resume` opens a session again that had been handed over when it ended, and leaves the mark of its row: it would never
/// be handed over again.
#[test]
fn p20_what_hermes_0_19_0_takes_up_again_is_handed_over_when_it_ends() {
    let Some(hermes) = peers::one_hermes("0.19.0") else { return };
    let place = Place::new();
    let chat = "agent:main:telegram:dm:7";
    hermes.does(
        &place.home(),
        &[
            json!(["create_session", ["talk", "telegram"], {}]),
            json!(["append_message", ["talk", "user"], {"content": "Where is the map?"}]),
            json!(["set_expiry_finalized", ["talk"], {}]),
            json!(["end_session", ["talk", "session_reset"], {}]),
        ],
    );
    let entry = |marked: bool| {
        let entry = json!({
            "session_key": chat, "session_id": "talk", "created_at": "2025-11-14T21:17:00",
            "updated_at": "2025-11-14T21:18:03.120456", "platform": "telegram", "chat_type": "dm", "expiry_finalized": marked,
        });
        place.write("home/sessions/sessions.json", json!({chat: entry}).to_string());
    };
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(place.home(), std::fs::Permissions::from_mode(0o700)).unwrap(); // as Hermes' setup does
    hermes.does(&place.home(), &[json!(["reopen_session", ["talk"], {}])]);
    // The state after an end by itself, until the next message: both are marked, and that is right.
    entry(true);
    assert_eq!(kinds(&findings(&place)), BTreeSet::new());
    // As `/resume` leaves it.
    entry(false);
    assert_eq!(kinds(&findings(&place)), BTreeSet::from(["finalised_alive".to_owned()]));
    repair(&place);
    let sql = "SELECT expiry_finalized FROM sessions WHERE id = 'talk'";
    let conn = Connection::open(place.file("home/state.db")).unwrap();
    let marked: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(marked, 0);
}

// ------------------------------------------------------------------------------------------ by hand

/// A home with so many conversations that were rotated twice.
fn rotated(place: &Place, count: usize) -> i64 {
    std::fs::create_dir_all(place.home()).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(place.home(), std::fs::Permissions::from_mode(0o700)).unwrap(); // as Hermes does
    }
    let conn = Connection::open(place.file("home/state.db")).unwrap();
    conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; BEGIN").unwrap();
    throughline_hermes::schema::FRESH.iter().for_each(|text| conn.execute_batch(text).unwrap());
    let mut at = 1_763_000_000.0;
    for nth in 0..count {
        let mut parent: Option<String> = None;
        for part in 0..3 {
            at += 60.0;
            let id = format!("20251113_{nth:06}_{part:08x}");
            let over = (part < 2).then_some(at + 50.0);
            let reason = (part < 2).then_some("compression");
            let sql = "INSERT INTO sessions (id, source, parent_session_id, started_at, ended_at, end_reason, message_count)
                       VALUES (?1, 'cli', ?2, ?3, ?4, ?5, 4)";
            conn.execute(sql, params![id, parent, at, over, reason]).unwrap();
            for line in 0..4 {
                let role = if line % 2 == 0 { "user" } else { "assistant" };
                let text = format!("talk {nth}, part {part}, line {line}");
                let sql =
                    "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?1, ?2, ?3, ?4)";
                conn.execute(sql, params![id, role, text, at + f64::from(line)]).unwrap();
            }
            parent = Some(id);
        }
    }
    conn.execute_batch("COMMIT").unwrap();
    conn.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap()
}

fn messages(place: &Place) -> i64 {
    let conn = Connection::open(place.file("home/state.db")).unwrap();
    let opinion: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(opinion, "ok");
    conn.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap()
}

/// Rows that are about one conversation of [`rotated`], in every session that keeps them now; nothing about when it was repaired.
#[cfg(target_os = "linux")]
fn rows_of(home: &Path, nth: usize) -> Vec<String> {
    let of = |column: &str| format!("{column} LIKE '20251113_{nth:06}_%'");
    let (id, session_id, session) = (of("id"), of("session_id"), of("session"));
    let tables =
        [("sessions", &*id), ("messages", &*session_id), ("tl_snapshot", &*session), ("tl_route", &*session)];
    crate::gateway::rows(home, &tables)
}

/// A home with three rotated conversations, two of which a chat leads to, one of them waiting to be resumed.
#[cfg(target_os = "linux")]
fn with_chats(place: &Place) {
    rotated(place, TALKS);
    let entry = |nth: usize, pending: bool| {
        let chat = format!("agent:main:telegram:dm:{nth}");
        let entry = json!({
            "session_key": chat, "session_id": format!("20251113_{nth:06}_00000002"),
            "created_at": "2025-11-14T21:17:00", "updated_at": "2025-11-14T21:18:03.120456",
            "platform": "telegram", "chat_type": "dm", "resume_pending": pending,
            "resume_reason": pending.then_some("restart_timeout"),
            "last_resume_marked_at": pending.then_some("2025-11-01T10:00:00"),
        });
        (chat, entry)
    };
    let file: serde_json::Map<String, Value> = [entry(0, false), entry(1, true)].into_iter().collect();
    place.write("home/sessions/sessions.json", Value::Object(file).to_string());
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(place.file("home/sessions/sessions.json"), private).unwrap();
}

#[cfg(target_os = "linux")]
const TALKS: usize = 3;

/// Where the file leads the first chats to.
#[cfg(target_os = "linux")]
fn led(home: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(home.join("sessions/sessions.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    file.as_object().unwrap().values().map(|entry| entry["session_id"].as_str().unwrap().to_owned()).collect()
}

/// The home as it was when the test kept it.
#[cfg(target_os = "linux")]
fn put(place: &Place, from: &str, to: &str) {
    let _ = std::fs::remove_dir_all(place.file(to));
    let copied =
        std::process::Command::new("cp").arg("-a").arg(place.file(from)).arg(place.file(to)).status();
    assert!(copied.unwrap().success());
}

#[test]
#[cfg(target_os = "linux")]
fn p16_a_repair_killed_at_any_commit_leaves_each_conversation_as_before_or_as_after() {
    let place = Place::new();
    with_chats(&place);
    put(&place, "home", "kept");
    let told = |home: &Path| (0..TALKS).map(|nth| rows_of(home, nth)).collect::<Vec<_>>();
    let before = told(&place.home());
    let launch = place.launch().arg("doctor").arg("--repair").arg("--yes");
    let Some(moments) = killed::moments(&launch, &place) else { return };
    let after = told(&place.home());
    let (file_before, file_after) = (led(&place.file("kept")), led(&place.home()));
    assert!((0..TALKS).all(|nth| before[nth] != after[nth]), "every conversation was repaired");
    let mut seen = BTreeSet::new();
    for moment in moments {
        put(&place, "kept", "home");
        assert!(moment.kills(&launch), "{moment:?}");
        let about = findings(&place);
        let now = told(&place.home());
        let is_after: Vec<bool> = (0..TALKS).map(|nth| now[nth] == after[nth]).collect();
        for nth in 0..TALKS {
            assert!(is_after[nth] || now[nth] == before[nth], "{moment:?}: {:#?}", now[nth]);
            let root = format!("20251113_{nth:06}_00000000");
            let split =
                |finding: &&Value| finding["kind"] == "rotated_chain" && finding["sessions"][0] == *root;
            assert_eq!(
                about.iter().any(|finding| split(&finding)),
                !is_after[nth],
                "{moment:?}: {}",
                json!(about)
            );
        }
        // The file follows the database; it never leads where nothing is.
        for (chat, to) in led(&place.home()).into_iter().enumerate() {
            assert!(to == file_before[chat] || to == file_after[chat] && is_after[chat], "{moment:?}: {to}");
        }
        let led_nowhere = about.iter().any(|finding| finding["kind"] == "route_to_missing");
        assert!(!led_nowhere, "{moment:?}: {}", json!(about));
        seen.insert(is_after);
        repair(&place);
        assert_eq!(
            (told(&place.home()), led(&place.home())),
            (after.clone(), file_after.clone()),
            "{moment:?}"
        );
    }
    assert_eq!(seen.len(), TALKS + 1, "none, one, two and all of them: {seen:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn p16_an_undo_killed_at_any_commit_leaves_what_it_found_or_what_it_puts_back() {
    let place = Place::new();
    with_chats(&place);
    let told = |home: &Path| (0..TALKS).map(|nth| rows_of(home, nth)).collect::<Vec<_>>();
    let (before, file_before) = (told(&place.home()), led(&place.home()));
    repair(&place);
    put(&place, "home", "kept");
    let (repaired, file_repaired) = (told(&place.home()), led(&place.home()));
    let launch = place.launch().arg("doctor").arg("--undo").arg("--yes");
    let Some(moments) = killed::moments(&launch, &place) else { return };
    assert_eq!((told(&place.home()), led(&place.home())), (before.clone(), file_before.clone()));
    let mut seen = BTreeSet::new();
    for moment in moments {
        put(&place, "kept", "home");
        assert!(moment.kills(&launch), "{moment:?}");
        let (now, file) = (told(&place.home()), led(&place.home()));
        let is_back = now == before;
        assert!(is_back || now == repaired, "{moment:?}: all of it, or nothing: {now:#?}");
        assert!(file == file_repaired || is_back && file == file_before, "{moment:?}: {file:?}");
        seen.insert((is_back, file == file_before));
        // After a kill it is run again.
        let again = launch.run();
        let is_over = again.stderr.contains("has no repair that could be undone");
        assert!(again.status.success() || is_over, "{moment:?}: {}{}", again.stdout, again.stderr);
        assert_eq!(
            (told(&place.home()), led(&place.home())),
            (before.clone(), file_before.clone()),
            "{moment:?}"
        );
    }
    assert_eq!(seen.len(), 3, "nothing, the database, both: {seen:?}");
}

#[test]
fn p16_a_repair_that_is_interrupted_says_how_to_go_on() {
    const MANY: usize = 1500;
    let place = Place::new();
    let all = rotated(&place, MANY);
    // A backup that an interruption left without its end.
    place.write("home/backups/doctor-20251101T000000000000Z/state.db", "half");
    let repaired = || {
        let is_begun = std::fs::read_dir(place.file("home/backups")).is_ok_and(|mut entries| {
            entries.any(|entry| entry.is_ok_and(|entry| entry.path().join("manifest.json").exists()))
        });
        let count = || {
            let conn = Connection::open(place.file("home/state.db")).ok()?;
            conn.query_row("SELECT count(DISTINCT session) FROM tl_snapshot", [], |row| row.get(0)).ok()
        };
        if is_begun { count().unwrap_or(0) } else { 0i64 }
    };
    let launch = place.launch().arg("doctor").arg("--repair").arg("--yes");
    let ended = launch.ended_by("INT", "something is repaired", || repaired() > 0);
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    for word in ["doctor --repair", "doctor --undo", "goes on"] {
        assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
    }
    let done = usize::try_from(repaired()).unwrap();
    assert!((1..MANY).contains(&done), "in the middle: {done}");
    assert_eq!((messages(&place), findings(&place).len()), (all, MANY - done));
    repair(&place);
    assert_eq!((messages(&place), repaired()), (all, MANY as i64));
    assert!(!place.file("home/backups/doctor-20251101T000000000000Z").exists(), "half a backup is none");
}

#[test]
fn p16_a_home_in_use_is_examined_and_not_repaired() {
    let place = Place::new();
    rotated(&place, 2);
    let gateway = place.rehearsing(&json!({"rules": [{"when": {}, "say": "yes"}]})).start();
    assert_eq!(kinds(&findings(&place)), BTreeSet::from(["rotated_chain".to_owned()]));
    let refused = doctor(&place, &["--repair", "--yes"]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("pid") && refused.stderr.contains("stop it"), "{}", refused.stderr);
    drop(gateway);
    repair(&place);
}

#[test]
fn p16_what_a_repair_brings_to_light_is_repaired_and_what_it_says_is_true() {
    let place = Place::new();
    rotated(&place, 1);
    // The chat waits to be resumed in a part that will be none any more.
    place.write(
        "home/sessions/sessions.json",
        r#"{"agent:main:telegram:dm:1": {"session_key": "agent:main:telegram:dm:1",
            "session_id": "20251113_000000_00000002", "created_at": "2025-11-14T21:17:00",
            "updated_at": "2025-11-14T21:18:03.120456", "platform": "telegram", "chat_type": "dm",
            "resume_pending": true, "resume_reason": "restart_timeout",
            "last_resume_marked_at": "2025-11-01T10:00:00"}}"#,
    );
    let told: Value = serde_json::from_str(&doctor(&place, &["--repair", "--yes", "--json"]).stdout).unwrap();
    assert_eq!(told["findings"], json!([]), "{told}");
    let outcomes: Vec<&str> = told["repairs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|repair| repair["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["done", "gone", "done"], "{told}");
    assert_eq!(findings(&place), Vec::<Value>::new());
}

#[test]
fn p16_a_repair_asks_first_and_says_what_it_does() {
    let place = Place::new();
    let all = rotated(&place, 2);
    let asked = doctor(&place, &["--repair"]);
    assert_eq!(asked.status.code(), Some(1));
    assert!(asked.stderr.contains("say --yes"), "{}", asked.stderr);
    assert!(asked.stdout.contains("The plan:"), "{}", asked.stdout);
    let backups = || std::fs::read_dir(place.file("home/backups")).map_or(0, Iterator::count);
    assert_eq!(backups(), 0, "a repair that was declined leaves no backup");
    assert_eq!(findings(&place).len(), 2, "nothing was changed");

    let only = doctor(&place, &["--repair", "--yes", "--session", "20251113_000001_00000000"]);
    assert!(only.stdout.contains("1 of 1 repaired"), "{}{}", only.stdout, only.stderr);
    assert!(only.stdout.contains("Backup of 24 messages"), "{}", only.stdout);
    assert_eq!(backups(), 1);
    let other = doctor(&place, &["--repair", "--yes", "--only", "duplicated_rows"]);
    assert!(other.stdout.contains("there is nothing to repair"), "{}{}", other.stdout, other.stderr);
    assert_eq!((findings(&place).len(), backups()), (1, 1), "another kind is not touched");
    let unknown = doctor(&place, &["--only", "nonsense"]);
    assert!(unknown.stderr.contains("nonsense"), "{}", unknown.stderr);
    let missing = doctor(&place, &["--session", "missing"]);
    assert!(missing.stderr.contains("has no session missing"), "{}{}", missing.stdout, missing.stderr);
    let open = Connection::open(place.file("home/state.db")).unwrap();
    messages(&place);
    open.query_row("SELECT count(*) FROM messages", [], |row| row.get::<_, i64>(0)).unwrap();
    let refused = doctor(&place, &["--repair", "--yes"]);
    assert!(refused.stderr.contains("is open in"), "{}{}", refused.stdout, refused.stderr);
    drop(open);
    assert_eq!(findings(&place).len(), 1);

    // A person writes; an undo says so, and keeps what was said.
    let conn = Connection::open(place.file("home/state.db")).unwrap();
    let sql = "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('20251113_000001_00000000', 'user', 'since then', 1763200000.0)";
    conn.execute(sql, []).unwrap();
    drop(conn);
    let refused = doctor(&place, &["--undo"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("1 messages came in since"), "{}", refused.stderr);
    let undone = doctor(&place, &["--undo", "--yes"]);
    assert!(undone.status.success(), "{}", undone.stderr);
    assert_eq!((messages(&place), findings(&place).len()), (all, 2));
    let kept = undone.stdout.split("is kept in ").nth(1).unwrap().trim().trim_end_matches('.');
    let conn = Connection::open(Path::new(kept).join("state.db")).unwrap();
    let said: i64 = conn
        .query_row("SELECT count(*) FROM messages WHERE content = 'since then'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(said, 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(Path::new(kept)), mode(&Path::new(kept).join("state.db"))), (0o700, 0o600));
    }
}
