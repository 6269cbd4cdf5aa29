//! What one person says reaches no other person, on any way that memory, search, resume, lists and summaries take.
//!
//! Each message carries a mark that names its sender and its place (`canaryXannXdmX7`). The judge reads what left the
//! gateway: every request to the model, every message on a platform, every answer of the API, every export. It knows
//! for whom each of them was made, and names every mark that this person may not see.
//!
//! Two exceptions, and no other:
//! - people who write in one chat see what was said in that chat, and the notes of that chat
//! - the owner at the machine (the terminal, and the commands there: `sessions`, `mcp serve`) sees everything. The
//!   owner's notes (`MEMORY.md`, `USER.md`) are shown wherever the owner speaks and no other person reads along: in
//!   the owner's private chat, at the terminal, and to the holder of the API key who speaks for no other user

use crate::gateway::{Gateway, Launch, Place, said as request, until};
use crate::model::{ModelServer, calls, said, text};
use crate::wire::{self, Answer};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_servers::slack::{self, SlackServer};
use throughline_servers::telegram::{Chat, TOKEN, TelegramServer, User};
use tokio::runtime::Runtime;

/// What every mark begins with.
const MARK: &str = "canaryX";
/// Words that all of them share, so that a search or a reminder without a scope would find those of each person.
const TOPIC: &str = "zeppelins in the harbour";
/// The platform's id of the chat in which Ann and Bob write.
const GROUP: i64 = -1001;
const SESSION: &str = "X-Hermes-Session-Id";
/// Where the words of a note, and of the owner's profile, are said to come from.
const NOTE: &str = "note";
const PROFILE: &str = "profile";

// ---------------------------------------------------------------------------------------------- marks

/// Who said something, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    person: String,
    place: String,
}

/// All marks in a text, however it is quoted or cut.
fn marks(text: &str) -> BTreeSet<Mark> {
    let words = text.match_indices(MARK).map(|(at, _)| &text[at + MARK.len()..]);
    words
        .map(|rest| {
            let word = rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            let mut parts = word.split('X').map(str::to_owned);
            let mut next = || parts.next().unwrap_or_default();
            Mark { person: next(), place: next() }
        })
        .filter(|mark: &Mark| !mark.person.is_empty()) // a search for the beginning of any mark
        .collect()
}

/// Whether what was made for `viewer` may hold `mark`.
fn may_see(viewer: &Mark, mark: &Mark, notes: Notes) -> bool {
    const OWNER: [&str; 4] = ["ann", "term", "desk", "once"];
    let owns = |person: &str| OWNER.contains(&person);
    // One key, and no other user named: one person, with a session or without.
    let holds_key = |person: &str| ["desk", "once"].contains(&person);
    // A list or a preview may cut a mark: what is left must be the beginning of one that may be seen.
    let is_cut = |place: &&&str| !mark.place.is_empty() && place.starts_with(&mark.place);
    let place = ["group", NOTE, PROFILE].iter().find(is_cut).map_or(mark.place.as_str(), |place| *place);
    match (viewer.place.as_str(), place) {
        ("terminal", _) => true,
        (_, "") => viewer.person.starts_with(&mark.person) || mark.person == "group",
        // What the model wanted to note, and was refused, stands in the conversation it wanted that in.
        ("group", PROFILE) => mark.person == "group",
        (_, PROFILE) => viewer.person == mark.person || owns(&viewer.person) && owns(&mark.person),
        (_, NOTE) if notes == Notes::Shared => true,
        ("group", NOTE) => mark.person == "group",
        ("group", place) => place == "group",
        (_, "group") => ["ann", "bob"].contains(&viewer.person.as_str()),
        (_, NOTE) if mark.person == "group" => ["ann", "bob"].contains(&viewer.person.as_str()),
        (_, NOTE) if owns(&viewer.person) => owns(&mark.person),
        _ => viewer.person == mark.person || holds_key(&viewer.person) && holds_key(&mark.person),
    }
}

/// Whose notes are in whose prompt.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Notes {
    PerPerson,
    Shared,
}

/// What a text shows to a person who may not see it.
fn leaks(viewer: &Mark, text: &str, notes: Notes) -> Vec<Mark> {
    marks(text).into_iter().filter(|mark| !may_see(viewer, mark, notes)).collect()
}

// ---------------------------------------------------------------------------------------------- the model

/// Without what a memory adds to it.
fn spoken(message: &Value) -> String {
    text(message).split("\n\n<memory-context>").next().unwrap_or_default().to_owned()
}

/// For whom a request is made: for the sender of the last message in it.
fn viewer(request: &Value) -> Option<Mark> {
    let messages = request["messages"].as_array()?;
    let mut spoken = messages.iter().rev().filter(|message| message["role"] == "user").map(spoken);
    spoken.find_map(|said| {
        said.match_indices(MARK).find_map(|(at, _)| marks(said[at..].split_whitespace().next()?).pop_first())
    })
}

fn is_review(request: &Value) -> bool {
    let messages = request["messages"].as_array().into_iter().flatten();
    messages
        .rev()
        .find(|message| message["role"] == "user")
        .is_some_and(|it| text(it).starts_with("[Review]"))
}

fn is_summary(request: &Value) -> bool {
    request["messages"].as_array().is_some_and(|messages| messages.len() == 1)
}

/// A note that the model writes for a person. In a chat of several people it is the chat's.
fn note(viewer: &Mark, place: &str) -> String {
    let person = if viewer.place == "group" { "group" } else { &viewer.person };
    format!("{MARK}{person}X{place} keeps {TOPIC}")
}

/// Does what it is told (`call TOOL {…}`), notes something down when it reviews, and tells what tools returned.
fn answer(request: &Value) -> Value {
    let Some(viewer) = viewer(request) else { return said("re") };
    let messages = request["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    let mark = format!("{MARK}{}X{}", viewer.person, viewer.place);
    let adds = |target: &str, place: &str| {
        let arguments = json!({"action": "add", "target": target, "content": note(&viewer, place)});
        calls(&[("memory", arguments)])
    };
    if is_summary(request) {
        let done = "1. Spoke of zeppelins. ".repeat(20);
        return said(&format!(
            "## Active Task\nNone.\n\n## Goal\n{mark}Xsummary\n\n## Completed Actions\n{done}"
        ));
    }
    let told = spoken(messages.iter().rev().find(|message| message["role"] == "user").unwrap());
    match (last["role"].as_str(), is_review(request)) {
        (Some("user"), true) => adds("memory", NOTE),
        (_, true) => said("Nothing more."),
        (Some("user"), false) if told.contains(" note it") => adds("memory", NOTE),
        (Some("user"), false) if told.contains(" note the profile") => adds("user", PROFILE),
        (Some("user"), false) if told.contains(" call ") => {
            let (_, orders) = told.split_once(" call ").unwrap();
            let orders: Vec<(String, Value)> = serde_json::from_str(orders).unwrap();
            let orders: Vec<_> = orders.iter().map(|(tool, given)| (tool.as_str(), given.clone())).collect();
            calls(&orders)
        }
        (Some("tool"), _) => {
            let returned: String = text(last).chars().take(1000).collect();
            said(&format!("re {} {returned}", first_word(&told)))
        }
        _ => said(&format!("re {}", first_word(&told))),
    }
}

/// A group message begins with the name of its sender.
fn first_word(told: &str) -> String {
    let at = told.find(MARK).unwrap_or(0);
    told[at..].split_whitespace().next().unwrap_or_default().to_owned()
}

// ---------------------------------------------------------------------------------------------- the people

/// Where a person writes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Telegram {
        chat: i64,
        user: i64,
    },
    Slack,
    /// A client of the API. None: it holds the key and speaks for no other user.
    Api {
        user: Option<&'static str>,
    },
    /// The same, without a session.
    Stateless,
    Terminal,
}

#[derive(Clone, Copy, Debug)]
struct Speaker {
    person: &'static str,
    place: &'static str,
    way: Way,
}

const fn speaker(person: &'static str, place: &'static str, way: Way) -> Speaker {
    Speaker { person, place, way }
}

/// Ann is the owner: the first on the list of those who may write.
const ANN: Speaker = speaker("ann", "dm", Way::Telegram { chat: 42, user: 42 });
const BOB: Speaker = speaker("bob", "dm", Way::Telegram { chat: 43, user: 43 });
const ANN_IN_GROUP: Speaker = speaker("ann", "group", Way::Telegram { chat: GROUP, user: 42 });
const BOB_IN_GROUP: Speaker = speaker("bob", "group", Way::Telegram { chat: GROUP, user: 43 });
/// Was paired.
const CID: Speaker = speaker("cid", "dm", Way::Telegram { chat: 44, user: 44 });
const SUE: Speaker = speaker("sue", "slack", Way::Slack);
const KIM: Speaker = speaker("kim", "api", Way::Api { user: Some("kim") });
const LOU: Speaker = speaker("lou", "api", Way::Api { user: Some("lou") });
const DESK: Speaker = speaker("desk", "api", Way::Api { user: None });
const ONCE: Speaker = speaker("once", "stateless", Way::Stateless);
const TERM: Speaker = speaker("term", "terminal", Way::Terminal);

const CHATTING: [Speaker; 6] = [ANN, ANN_IN_GROUP, BOB, BOB_IN_GROUP, CID, SUE];
const CLIENTS: [Speaker; 3] = [KIM, LOU, DESK];

impl Speaker {
    fn viewer(&self) -> Mark {
        Mark { person: self.person.to_owned(), place: self.place.to_owned() }
    }
}

/// People around one agent.
struct Town {
    place: Place,
    telegram: TelegramServer,
    slack: SlackServer,
    model: ModelServer,
    launch: Launch,
    notes: Notes,
    said: AtomicUsize,
    /// The conversation that a client of the API is in.
    rounds: AtomicUsize,
    /// What clients and commands were told.
    heard: Mutex<Vec<(Mark, String)>>,
    /// The servers' tasks run here: it goes last.
    _runtime: Runtime,
}

impl Town {
    fn around(place: Place, notes: Notes, config: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (telegram, slack) = (TelegramServer::start_now(), runtime.block_on(SlackServer::start()));
        let model = ModelServer::answering(Duration::ZERO, answer);
        place.write(
            "home/config.yaml",
            format!(
                "model: {}\nplatforms: {{telegram: {{extra: {{base_url: '{}/bot', unauthorized_dm_behavior: pair}}}}, slack: {{extra: {{base_url: '{}'}}}}}}\n\
                 display: {{busy_input_mode: queue}}\n{config}",
                model.setting("m").replace("api_key: none", "api_key: none, context_length: 40000"),
                telegram.url(),
                slack.base()
            ),
        );
        place.write(
            "home/.env",
            format!(
                "TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_ALLOWED_USERS=42,43\nSLACK_BOT_TOKEN={}\nSLACK_APP_TOKEN={}\n\
                 SLACK_ALLOWED_USERS=U1,U2\n",
                slack::BOT_TOKEN,
                slack::APP_TOKEN
            ),
        );
        let launch = place.launch();
        Self {
            place,
            telegram,
            slack,
            model,
            launch,
            notes,
            said: AtomicUsize::new(0),
            rounds: AtomicUsize::new(0),
            heard: Mutex::default(),
            _runtime: runtime,
        }
    }

    /// Says it without waiting for the reply. Returns the mark that the reply has.
    fn says(&self, gateway: &Gateway, speaker: Speaker, words: &str) -> String {
        let number = self.said.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{MARK}{}X{}X{number}", speaker.person, speaker.place);
        let text = format!("{mark} {words}");
        let round = self.rounds.load(Ordering::Relaxed);
        match speaker.way {
            Way::Telegram { chat, user } => {
                let place = if chat < 0 { Chat::group(chat, "Friends") } else { Chat::private(chat, "P") };
                self.telegram.say(&place, &User::new(user, "P"), &text);
            }
            Way::Slack => drop(self.slack.say("D1", "U2", &text)),
            Way::Api { user } => {
                let mut body = request(&text);
                user.into_iter().for_each(|user| body["user"] = json!(user));
                let session = format!("{}-{round}", speaker.person);
                let answer = gateway.client.chat(&[(SESSION, &session)], &body).unwrap();
                assert_eq!(answer.status, 200, "{}", answer.text());
                self.hear(speaker, answer.text());
            }
            Way::Stateless => {
                let answer = gateway.client.chat(&[], &request(&text)).unwrap();
                assert_eq!(answer.status, 200, "{}", answer.text());
                self.hear(speaker, answer.text());
            }
            Way::Terminal => {
                let ended = self.launch.clone().arg("chat").arg("-q").arg(text).run();
                assert!(ended.status.success(), "{ended:?}");
                self.hear(speaker, ended.stdout);
            }
        }
        mark
    }

    fn hear(&self, speaker: Speaker, text: String) {
        self.heard.lock().unwrap().push((speaker.viewer(), text));
    }

    /// What was sent to a speaker's chat.
    fn shown(&self, speaker: Speaker) -> Vec<String> {
        match speaker.way {
            Way::Telegram { chat, .. } => self
                .telegram
                .sent()
                .into_iter()
                .filter(|sent| sent.chat == chat)
                .map(|sent| sent.text)
                .collect(),
            Way::Slack => self.slack.sent().into_iter().map(|sent| sent.text).collect(),
            _ => Vec::new(),
        }
    }

    /// All of them say it at once, and wait for their replies.
    fn say(&self, gateway: &Gateway, speakers: &[Speaker], words: &str) {
        self.say_each(gateway, speakers, |_| words.to_owned());
    }

    fn say_each(&self, gateway: &Gateway, speakers: &[Speaker], words: impl Fn(Speaker) -> String) {
        let said = speakers.iter().map(|speaker| (*speaker, self.says(gateway, *speaker, &words(*speaker))));
        for (speaker, mark) in said.collect::<Vec<_>>() {
            if matches!(speaker.way, Way::Telegram { .. } | Way::Slack) {
                let reply = format!("re {mark}");
                until(&reply, || self.shown(speaker).iter().any(|shown| shown.contains(&reply)));
            }
        }
    }

    /// Each of them orders it in their chat. What follows in the chat is answered after it.
    fn order(&self, speakers: &[Speaker], order: &str) {
        for speaker in speakers {
            match speaker.way {
                Way::Telegram { chat, user } => {
                    let place =
                        if chat < 0 { Chat::group(chat, "Friends") } else { Chat::private(chat, "P") };
                    self.telegram.say(&place, &User::new(user, "P"), order);
                }
                Way::Slack => {
                    let (name, words) = order.split_once(' ').unwrap_or((order, ""));
                    self.slack.command("D1", "U2", name, words);
                }
                _ => unreachable!("clients order through the API"),
            }
        }
    }

    /// Clients that speak for one user order something in the conversation that they are in.
    fn order_by_api(&self, gateway: &Gateway, speaker: Speaker, session: &str, order: &str) -> u16 {
        let user = match speaker.way {
            Way::Api { user: Some(user) } => format!("?user={user}"),
            _ => String::new(),
        };
        let path = format!("/api/sessions/{session}/commands{user}");
        let answer = gateway.client.post(&path, &[], &json!({"command": order})).unwrap();
        self.hear(speaker, answer.text());
        answer.status
    }

    fn session_of(&self, speaker: Speaker) -> String {
        format!("{}-{}", speaker.person, self.rounds.load(Ordering::Relaxed))
    }

    /// Lets a person in who wrote without being on a list.
    fn pairs(&self, gateway: &Gateway, speaker: Speaker) {
        self.says(gateway, speaker, "let me in");
        let is_code = |word: &&str| {
            word.len() == 8 && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        };
        let code = || {
            let shown = self.shown(speaker).join(" ");
            shown.split(|c: char| !c.is_ascii_alphanumeric()).find(is_code).map(str::to_owned)
        };
        until("a code", || code().is_some());
        let approving =
            self.launch.clone().arg("pairing").arg("approve").arg("telegram").arg(code().unwrap());
        assert!(approving.run().status.success());
    }

    fn rows<T: rusqlite::types::FromSql>(&self, sql: &str) -> Vec<T> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let conn = Connection::open_with_flags(self.place.file("home/state.db"), flags).unwrap();
        conn.busy_timeout(Duration::from_secs(60)).unwrap();
        let mut statement = conn.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Everything that left the gateway, and for whom it was made.
    fn judged(&self) -> Vec<String> {
        let mut found = BTreeSet::new();
        let mut judge = |way: &str, viewer: &Mark, text: &str| {
            let leaked = leaks(viewer, text, self.notes);
            if !leaked.is_empty() {
                let at = text.find(&format!("{MARK}{}X{}", leaked[0].person, leaked[0].place)).unwrap_or(0);
                let from =
                    (0..=at.saturating_sub(200)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                let around: String = text[from..].chars().take(400).collect();
                found.insert(format!("{way} for {viewer:?} shows {leaked:?}: …{around}…"));
            }
        };
        for request in self.model.requests() {
            let way = match (is_review(&request), is_summary(&request)) {
                (true, _) => "a review",
                (_, true) => "a summary",
                _ => "a request",
            };
            match viewer(&request) {
                Some(viewer) => judge(way, &viewer, &request.to_string()),
                None => assert!(marks(&request.to_string()).is_empty(), "whose is {request}?"),
            }
        }
        for speaker in CHATTING {
            for shown in self.shown(speaker) {
                judge("a message", &speaker.viewer(), &shown);
            }
        }
        for (viewer, text) in self.heard.lock().unwrap().iter() {
            judge("an answer", viewer, text);
        }
        found.into_iter().collect()
    }
}

/// A person's words in what the gateway added to a request, not in what was said in it.
fn added(request: &Value, role: &str) -> String {
    let messages = request["messages"].as_array().into_iter().flatten();
    let texts = messages.filter(|message| message["role"] == role).map(text);
    match role {
        "user" => texts.filter_map(|text| Some(text.split_once("<memory-context>")?.1.to_owned())).collect(),
        _ => texts.collect(),
    }
}

/// Asserts that a way was used at all: each of them has seen their own words on it.
fn is_shown_to(requests: &[Value], speaker: Speaker, role: &str, own: &str) {
    let shows = |request: &&Value| {
        viewer(request).as_ref() == Some(&speaker.viewer()) && added(request, role).contains(own)
    };
    assert!(requests.iter().any(|request| shows(&request)), "{} never saw {own} ({role})", speaker.person);
}

/// A review after each second turn.
const REVIEWS: &str = "memory: {nudge_interval: 2}\n";
const SHARED_GROUP: &str = "group_sessions_per_user: false\n";

/// Searches of every shape, for what others said: `theirs` are sessions of others, each with one of its rows.
fn searches(theirs: &[(String, i64)]) -> String {
    let mut orders = vec![
        json!(["session_search", {"query": "zeppelins", "limit": 10}]),
        json!(["session_search", {"query": "zeppelins", "role_filter": "user,assistant,tool", "sort": "oldest"}]),
        json!(["session_search", {"query": "canaryX*"}]),
        json!(["session_search", {"limit": 10}]),
    ];
    for (session, row) in theirs {
        orders.push(json!(["session_search", {"session_id": session}]));
        orders.push(json!(["session_search", {"session_id": session, "around_message_id": row}]));
    }
    format!("call {}", Value::Array(orders))
}

/// One person after the other goes all ways there are.
fn goes_all_ways(town: &Town) {
    let gateway = town.launch.start();
    until("Slack is connected", || town.slack.connections() > 0);
    town.pairs(&gateway, CID);
    let all: Vec<Speaker> = CHATTING.into_iter().chain(CLIENTS).chain([ONCE, TERM]).collect();
    town.say(&gateway, &all, &format!("I keep {TOPIC}"));
    // Telegram takes 20 messages a minute in a group: from here on Ann only begins conversations there.
    let most: Vec<Speaker> =
        all.iter().copied().filter(|it| (it.person, it.place) != ("ann", "group")).collect();
    town.say(&gateway, &most, "note it");
    town.say(&gateway, &most, "note the profile");
    for speaker in [ANN, BOB, BOB_IN_GROUP, CID, SUE] {
        town.order(&[speaker], &format!("/title {MARK}{}X{}Xtitle", speaker.person, speaker.place));
    }
    for speaker in CLIENTS {
        let title = format!("/title {MARK}{}X{}Xtitle", speaker.person, speaker.place);
        assert_eq!(town.order_by_api(&gateway, speaker, &town.session_of(speaker), &title), 200);
    }

    // Another conversation, which is reminded of the earlier ones and shows notes from its beginning.
    town.order(&[ANN, BOB, BOB_IN_GROUP, CID, SUE], "/new");
    town.rounds.fetch_add(1, Ordering::Relaxed);
    town.say(&gateway, &all, &format!("What did I say of {TOPIC}?"));

    // Every session is asked for by people who have no part in it.
    let firsts = "SELECT session_id || ' ' || min(id) FROM messages WHERE session_id NOT LIKE '%.snapshot.%' GROUP BY session_id";
    let sessions: Vec<(String, i64)> = (town.rows::<String>(firsts).iter())
        .map(|row| row.split_once(' ').unwrap())
        .map(|(session, row)| (session.to_owned(), row.parse().unwrap()))
        .collect();
    assert!(sessions.len() > all.len(), "{sessions:?}");
    // Lists and copies.
    let alone = [ANN, BOB, CID, SUE];
    for order in ["/save", "/history", "/resume", "/memory show"] {
        town.order(&alone, order);
    }
    town.order(&[BOB_IN_GROUP], "/resume");
    town.order(&[BOB_IN_GROUP], "/memory show");
    let theirs = |speaker: Speaker| -> Vec<(String, i64)> {
        let theirs = sessions.iter().filter(|(session, _)| !town.belongs_to(session, speaker));
        theirs.take(4).cloned().collect()
    };
    for speaker in alone {
        town.order(&[speaker], &format!("/resume {}", theirs(speaker)[0].0));
    }

    // Searches, also by helpers, and what a summary makes of them.
    town.say_each(&gateway, &most, |speaker| searches(&theirs(speaker)));
    town.say_each(&gateway, &most, |speaker| {
        let goal = format!("{MARK}{}X{}Xtask {}", speaker.person, speaker.place, searches(&theirs(speaker)));
        format!("call {}", json!([["delegate_task", {"goal": goal}]]))
    });
    town.order(&alone, "/branch");
    town.order(&alone, "/compress");
    town.say(&gateway, &alone, "and after the summary?");
    for speaker in CLIENTS {
        let own = town.session_of(speaker);
        for order in ["/history", "/sessions", "/resume", "/compress"] {
            assert_eq!(town.order_by_api(&gateway, speaker, &own, order), 200, "{order}");
        }
        let Way::Api { user: Some(user) } = speaker.way else { continue };
        for path in ["/api/sessions?", "/api/search?q=zeppelins&", "/api/sessions/search?q=canaryX*&"] {
            let answer = gateway.client.get(&format!("{path}user={user}")).unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(answer.text().contains(&own), "{path}: {}", answer.text());
            town.hear(speaker, answer.text());
        }
        for (session, _) in sessions.iter().filter(|(session, _)| !session.starts_with(user)) {
            for path in [format!("/api/sessions/{session}"), format!("/api/sessions/{session}/messages")] {
                let answer = gateway.client.get(&format!("{path}?user={user}")).unwrap();
                assert_eq!(answer.status, 404, "{path} for {user}: {}", answer.text());
            }
            let mut body = request("what was said here?");
            body["user"] = json!(user);
            let answer = gateway.client.chat(&[(SESSION, session)], &body).unwrap();
            // One that has ended is refused to each of them, for that reason.
            assert!([403, 409].contains(&answer.status), "{session} for {user}: {}", answer.text());
            assert_eq!(
                town.order_by_api(&gateway, speaker, session, "/history"),
                404,
                "{session} for {user}"
            );
        }
    }
    until("every review is over", || {
        town.rows::<i64>("SELECT count(*) FROM tl_review WHERE state = 0") == [0]
    });
    assert!(gateway.stop().success());
}

impl Town {
    /// Whether a person said something in a session, by its rows.
    fn belongs_to(&self, session: &str, speaker: Speaker) -> bool {
        let sql = format!(
            "SELECT content FROM messages WHERE session_id = '{session}' AND role = 'user' AND content IS NOT NULL"
        );
        let said = self.rows::<String>(&sql).join(" ");
        marks(&said).iter().any(|mark| may_see(&speaker.viewer(), mark, Notes::PerPerson))
    }

    /// What is taken out of the home of one session is about the people of that session.
    fn exports_are_apart(&self) {
        let sessions: Vec<String> = self.rows("SELECT id FROM sessions WHERE id NOT LIKE '%.snapshot.%'");
        let run = |words: &[&str]| {
            let ended = words.iter().fold(self.launch.clone(), |launch, word| launch.arg(*word)).run();
            assert!(ended.status.success(), "{words:?}: {ended:?}");
            ended.stdout
        };
        for session in &sessions {
            let exported = run(&["sessions", "export", session, "--with-snapshots"]);
            let lines = exported.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let rows: Vec<Value> = lines.filter(|row| row["role"] == "user").collect();
            let Some(viewer) = viewer(&json!({ "messages": rows })) else { continue };
            assert_eq!(leaks(&viewer, &exported, self.notes), [], "the export of {session}");
        }
        let saved = self.place.file("home/sessions/saved");
        assert!(!saved.exists(), "/save is about the machine, and none of these people ordered it there");
        // The owner at the machine sees everything: that is the one exception.
        let found = run(&["sessions", "search", "zeppelins", "--limit", "100"]);
        let found: BTreeSet<String> = marks(&found).into_iter().map(|mark| mark.person).collect();
        assert!(
            ["ann", "bob", "cid", "sue", "kim", "lou"].iter().all(|person| found.contains(*person)),
            "{found:?}"
        );
    }

    /// A judge that saw nothing would find nothing: each person saw their own words on each way.
    fn is_complete(&self) {
        let requests = self.model.requests();
        let own = |speaker: Speaker| match speaker.place {
            "group" => "XgroupX".to_owned(),
            place => format!("{MARK}{}X{place}", speaker.person),
        };
        let alone = [ANN, BOB, CID, SUE];
        for speaker in alone.into_iter().chain(CLIENTS) {
            is_shown_to(&requests, speaker, "user", &own(speaker));
            is_shown_to(&requests, speaker, "tool", &own(speaker));
            let reviewed = |request: &Value| is_review(request) && viewer(request) == Some(speaker.viewer());
            // On Slack each message begins a thread, and so a conversation: too short for a review.
            let is_short = speaker.way == Way::Slack;
            assert!(is_short || requests.iter().any(reviewed), "{} was never reviewed", speaker.person);
        }
        let reminded: String = requests.iter().map(|request| added(request, "user")).collect();
        assert!(!reminded.contains(&own(ONCE)), "no conversation is reminded of a request without a session");
        is_shown_to(&requests, ANN_IN_GROUP, "user", &own(ANN_IN_GROUP));
        is_shown_to(&requests, BOB_IN_GROUP, "tool", &own(BOB_IN_GROUP));
        for (speaker, note) in
            [(ANN, "ann"), (BOB, "bob"), (CID, "cid"), (SUE, "sue"), (ANN_IN_GROUP, "group"), (DESK, "ann")]
        {
            is_shown_to(&requests, speaker, "system", &format!("{MARK}{note}X{NOTE}"));
        }
        is_shown_to(&requests, ANN, "system", &format!("{MARK}annX{PROFILE}"));
        let summaries: BTreeSet<Mark> =
            requests.iter().filter(|it| is_summary(it)).filter_map(viewer).collect();
        assert!(summaries.len() >= 4, "{summaries:?}");
        for speaker in alone {
            let shown = self.shown(speaker).join("\n");
            // Once when it was given, and once in the list.
            let times = shown.matches(&format!("{}Xtitle", own(speaker))).count();
            assert!(times >= 2, "/resume lists what is {}'s: {shown}", speaker.person);
        }
    }
}

#[test]
fn p31_a_canary_of_one_person_reaches_no_other_person_on_any_way() {
    let town = Town::around(Place::new(), Notes::PerPerson, &format!("{REVIEWS}{SHARED_GROUP}"));
    goes_all_ways(&town);
    assert_eq!(town.judged(), [""; 0]);
    town.is_complete();
    town.exports_are_apart();
}

/// What is there before the first start is taken for Hermes'.
fn adopted() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.home()).unwrap();
    drop(throughline_store::Home::at(&place.home()).writer(throughline_core::Time(1)).unwrap());
    place
}

#[test]
fn p31_the_notes_of_an_adopted_home_are_shared_and_each_start_says_so_until_a_setting_keeps_them_apart() {
    let apart = "throughline: {memory_per_person: true}\n";
    for (notes, setting) in [(Notes::Shared, ""), (Notes::PerPerson, apart)] {
        let town = Town::around(adopted(), notes, &format!("{REVIEWS}{setting}"));
        let people = [ANN, BOB, ANN_IN_GROUP, BOB_IN_GROUP, SUE, DESK, KIM];
        for _ in 0..2 {
            let gateway = town.launch.start();
            until("Slack is connected", || town.slack.connections() > 0);
            for words in ["note it", "note the profile", TOPIC] {
                town.say(&gateway, &people, words);
            }
            town.order(&[ANN, BOB, ANN_IN_GROUP, BOB_IN_GROUP, SUE], "/new");
            town.rounds.fetch_add(1, Ordering::Relaxed);
            town.say(&gateway, &people, &format!("What did I say of {TOPIC}?"));
            until("every review is over", || {
                town.rows::<i64>("SELECT count(*) FROM tl_review WHERE state = 0") == [0]
            });
            assert!(gateway.stop().success());
        }
        assert_eq!(town.judged(), [""; 0], "{notes:?}");
        let told = fs::read_to_string(town.place.file("logs/stdout")).unwrap();
        let times = told.matches("`throughline.memory_per_person: true` keeps it apart").count();
        assert_eq!(times, if notes == Notes::Shared { 2 } else { 0 }, "{told}");
        let requests = town.model.requests();
        let anns_or_own = if notes == Notes::Shared { "ann" } else { "bob" };
        is_shown_to(&requests, BOB, "system", &format!("{MARK}{anns_or_own}X{NOTE}"));
        is_shown_to(&requests, ANN, "system", &format!("{MARK}annX{PROFILE}"));
    }
}

/// A Hindsight that keeps what it is told with its tags, and reminds of all that has the tags it is asked for.
fn bank() -> (SocketAddr, Arc<Mutex<Vec<Value>>>) {
    let kept = Arc::<Mutex<Vec<Value>>>::default();
    let keeping = kept.clone();
    let address = wire::serve(move |asked| {
        let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
        let mut kept = keeping.lock().unwrap();
        let content = match asked.line.as_str() {
            line if line.ends_with("/memories") => {
                kept.extend(body["items"].as_array().unwrap().clone());
                json!({"success": true, "async": false, "items_count": 1})
            }
            line if line.ends_with("/memories/recall") => {
                let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
                let (wanted, how) = (list(&body["tags"]), body["tags_match"].as_str().unwrap_or("any"));
                let has = |item: &&Value| {
                    let tags = list(&item["tags"]);
                    let is_loose = tags.is_empty() && !how.ends_with("strict");
                    match how.starts_with("all") {
                        _ if wanted.is_empty() || is_loose => true,
                        true => wanted.iter().all(|tag| tags.contains(tag)),
                        false => wanted.iter().any(|tag| tags.contains(tag)),
                    }
                };
                let found = kept.iter().filter(has);
                let found = found.map(|item| json!({"text": item["content"], "tags": item["tags"]}));
                json!({ "results": found.collect::<Vec<_>>() })
            }
            _ => json!({}),
        };
        Some(Answer { status: 200, kind: "application/json", content: content.to_string() })
    });
    (address, kept)
}

/// The holder of the API key who names no user is not among them: docs/limits.md says what that one is reminded of.
#[test]
fn p31_a_provider_reminds_each_person_of_their_own_words_only() {
    let (address, kept) = bank();
    let memory =
        "memory: {provider: hindsight, nudge_interval: 2}\nthroughline: {recall_patience_ms: 30000}\n";
    let town = Town::around(Place::new(), Notes::PerPerson, &format!("{memory}{SHARED_GROUP}"));
    let settings = json!({"mode": "local_external", "api_url": format!("http://{address}"), "memory_mode": "context",
                          "retain_every_n_turns": 1, "timeout": 60});
    town.place.write("home/hindsight/config.json", settings.to_string());
    let gateway = town.launch.start();
    until("Slack is connected", || town.slack.connections() > 0);
    let people = [ANN, BOB, ANN_IN_GROUP, BOB_IN_GROUP, SUE, KIM, LOU];
    town.say(&gateway, &people, &format!("I keep {TOPIC}"));
    town.order(&[ANN, BOB, BOB_IN_GROUP, SUE], "/new");
    town.rounds.fetch_add(1, Ordering::Relaxed);
    until("every turn is kept", || kept.lock().unwrap().len() == people.len());
    town.say(&gateway, &people, &format!("What did I say of {TOPIC}?"));
    assert!(gateway.stop().success());
    assert_eq!(town.judged(), [""; 0]);
    let requests = town.model.requests();
    for speaker in people {
        is_shown_to(&requests, speaker, "user", &format!("{MARK}{}X{}", speaker.person, speaker.place));
    }
}

#[test]
fn p31_a_group_that_the_owner_began_shows_nothing_of_the_owners_notes() {
    let town = Town::around(Place::new(), Notes::PerPerson, SHARED_GROUP);
    let gateway = town.launch.start();
    town.say(&gateway, &[ANN], "note it");
    town.say(&gateway, &[ANN], "note the profile");
    town.say(&gateway, &[ANN_IN_GROUP], TOPIC);
    town.order(&[BOB_IN_GROUP], "/memory show");
    town.say(&gateway, &[BOB_IN_GROUP], "note the profile");
    assert!(gateway.stop().success());
    let kept = |file: &str| fs::read_to_string(town.place.file("home/memories").join(file)).unwrap();
    assert!(kept("MEMORY.md").contains(&format!("{MARK}annX{NOTE}")), "{}", kept("MEMORY.md"));
    assert!(!kept("USER.md").contains("group"), "Bob changed the owner's profile: {}", kept("USER.md"));
    assert_eq!(town.judged(), [""; 0]);
}
