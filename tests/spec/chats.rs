//! Chats with the real binary: a local server speaks the Bot API, another stands in for the model.
//!
//! A message is one turn however often it is delivered, and through every kill; a reply is sent once, or
//! says that it comes again; strangers are not heard.

use crate::gateway::{Client, Gateway, Launch, Place, free_port};
use crate::lifecycle::{hermes_home, looks, watched};
use crate::model::{ModelServer, calls, said, text};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_servers::TelegramServer;
use throughline_servers::telegram::{Chat, TOKEN, User};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

pub struct World {
    pub place: Place,
    pub telegram: TelegramServer,
    pub model: ModelServer,
    pub launch: Launch,
}

const ADA: i64 = 42;
const BACK: &str = "The gateway is back, and this conversation goes on.";

impl World {
    fn new(latency: Duration) -> Self {
        Self::letting_in(latency, &format!("TELEGRAM_ALLOWED_USERS={ADA}"))
    }

    pub fn letting_in(latency: Duration, whom: &str) -> Self {
        Self::on(Place::new(), latency, whom)
    }

    /// Around a home that is there already.
    fn on(place: Place, latency: Duration, whom: &str) -> Self {
        let model = ModelServer::start(latency);
        Self::around(place, model, whom)
    }

    pub fn around(place: Place, model: ModelServer, whom: &str) -> Self {
        let telegram = TelegramServer::start_now();
        place.write(
            "home/config.yaml",
            format!(
                "model: {}\nplatforms: {{telegram: {{extra: {{base_url: '{}/bot'}}}}}}\n\
                 display: {{busy_input_mode: queue}}\n",
                model.setting("test-model"),
                telegram.url()
            ),
        );
        place.write("home/.env", format!("TELEGRAM_BOT_TOKEN={TOKEN}\n{whom}\n"));
        let launch = place.launch();
        Self { place, telegram, model, launch }
    }

    /// What people saw from the bot, but for what was taken away again.
    pub fn shown(&self) -> Vec<String> {
        let sent = self.telegram.sent().into_iter().filter(|sent| !sent.deleted);
        sent.map(|sent| sent.text).collect()
    }

    pub fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        self.telegram.until(PATIENCE, what, |_| holds(self));
    }

    pub fn times_shown(&self, text: &str) -> usize {
        self.shown().iter().filter(|shown| shown.as_str() == text).count()
    }

    /// Whether it was said, perhaps as something that comes again.
    fn has_said(&self, text: &str) -> bool {
        self.shown().iter().any(|shown| shown.ends_with(text))
    }

    /// What the model said, and not a word about who waits for what.
    fn answers(&self) -> usize {
        self.shown().iter().filter(|shown| shown.contains("re: ")).count()
    }

    /// The gateway checks for ends, from beginning to end, at least once from now on.
    fn watch_comes_round(&self, gateway: &Gateway) {
        let before = looks(gateway);
        self.until("the watch has come round", |_| looks(gateway) >= before + 2);
    }
}

fn ada() -> (Chat, User) {
    (Chat::private(ADA, "Ada"), User::new(ADA, "Ada"))
}

#[test]
fn p7_p10_a_message_is_one_turn_and_one_reply_however_often_it_is_delivered() {
    let world = World::new(Duration::ZERO);
    let gateway = world.launch.start();
    let (chat, user) = ada();
    world.telegram.say(&chat, &user, "hello");
    world.until("the reply", |world| world.times_shown("re: hello") == 1);
    let id = world.telegram.sent().len() as i64;
    let message = json!({
        "message_id": 9000 + id, "date": 1_800_000_000, "text": "again",
        "chat": {"id": ADA, "type": "private", "first_name": "Ada"},
        "from": {"id": ADA, "is_bot": false, "first_name": "Ada"},
    });
    for _ in 0..3 {
        world.telegram.push(json!({"message": message}));
    }
    world.until("one reply to three deliveries", |world| world.times_shown("re: again") == 1);
    world.until("all of them are acknowledged", |world| world.telegram.unacknowledged() == 0);
    gateway.kill();
    for _ in 0..3 {
        world.telegram.push(json!({"message": message}));
    }
    let gateway = world.launch.start();
    world.telegram.say(&chat, &user, "and now?");
    world.until("the reply after the start", |world| world.times_shown("re: and now?") == 1);
    assert_eq!(world.times_shown("re: again"), 1, "{:?}", world.shown());
    assert_eq!(world.model.asked(), ["hello", "again", "and now?"]);
    let sessions = world.place.launch().arg("sessions").arg("list").run();
    assert!(sessions.status.success(), "{sessions:?}");
    assert!(gateway.stop().success());
}

#[test]
fn p8_p9_p10_through_kill_9_at_any_moment_nothing_is_lost_and_a_reply_that_comes_again_says_so() {
    let world = World::new(Duration::from_millis(40));
    let (chat, user) = ada();
    let mut gateway = world.launch.start();
    for round in 0..8 {
        let text = format!("round {round}");
        world.telegram.say(&chat, &user, &text);
        match round % 4 {
            0 => {} // at once
            1 => world.until("it is taken in", |world| world.telegram.unacknowledged() == 0),
            2 => world.until("the model is asked", |world| world.model.asked().contains(&text)),
            _ => world.until("it is answered", |world| world.has_said(&format!("re: {text}"))),
        }
        gateway.kill();
        gateway = world.launch.start();
    }
    // Messages that wait together share a turn, and so a reply.
    world.until("the last reply", |world| world.has_said("re: round 7"));
    let asked = world.model.requests();
    for round in 0..8 {
        let said = format!("round {round}");
        let is_it = |message: &Value| message["role"] == "user" && text(message) == said;
        let last = asked.last().unwrap()["messages"].as_array().unwrap();
        assert_eq!(last.iter().filter(|message| is_it(message)).count(), 1, "{said}: {last:?}");
        let shown = world.shown();
        let reply = format!("re: {said}");
        let plain = shown.iter().filter(|shown| **shown == reply).count();
        let marked = shown.iter().filter(|shown| shown.ends_with(&reply) && **shown != reply).count();
        assert!(plain <= 1 && marked <= 1, "{reply}: {shown:?}");
    }
    assert!(gateway.stop().success());
}

/// Each is committed as it comes; the turn waits for the rest, and a crash makes it wait no longer.
#[test]
fn p9_a_turn_that_goes_on_after_kill_9_shows_the_typing_sign_again() {
    let world = World::new(Duration::ZERO);
    let gateway = world.launch.start();
    let (chat, user) = ada();
    world.model.hold();
    world.telegram.say(&chat, &user, "take your time");
    let typed = |world: &World| world.telegram.calls("sendChatAction").len();
    world.until("it types", |world| typed(world) > 0 && world.model.asked().len() == 1);
    // What is delivered again would be shown for that alone.
    world.until("nothing is delivered again", |world| world.telegram.unacknowledged() == 0);
    gateway.kill();
    let before = typed(&world);
    let gateway = world.launch.start();
    world.until("it types again", |world| typed(world) > before);
    world.model.release();
    world.until("the reply", |world| world.has_said("re: take your time"));
    assert_eq!(world.answers(), 1, "{:?}", world.shown());
    assert!(gateway.stop().success());
}

#[test]
fn p8_an_album_and_a_text_that_was_cut_are_one_turn_also_through_kill_9() {
    let whom = format!(
        "TELEGRAM_ALLOWED_USERS={ADA}\nHERMES_TELEGRAM_MEDIA_BATCH_DELAY_SECONDS=6\n\
         HERMES_TELEGRAM_TEXT_BATCH_SPLIT_DELAY_SECONDS=30"
    );
    let world = World::letting_in(Duration::ZERO, &whom);
    let (chat, user) = ada();
    let picture = |caption: Option<&str>| {
        let file = world.telegram.add_file(vec![7; 64]);
        let mut fields = json!({
            "media_group_id": "album", "photo": [{"file_id": file, "file_unique_id": file, "width": 1, "height": 1}],
        });
        if let Some(caption) = caption {
            fields["caption"] = json!(caption);
        }
        world.telegram.write(&chat, &user, fields);
    };
    let said = |request: &Value| -> Vec<String> {
        let all = request["messages"].as_array().unwrap().clone();
        all.iter().filter(|message| message["role"] == "user").map(text).collect()
    };
    // Before a client asks for news, so that all come at once, however busy the machine is.
    picture(Some("three of these"));
    picture(None);
    picture(Some("and the last"));
    let gateway = world.launch.start();
    // A person who waits as long as here is told so, as well.
    world.until("an answer", |world| world.answers() == 1);
    let asked = world.model.requests();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let told = said(&asked[0]);
    assert_eq!(told.len(), 3, "each as its own message: {told:?}");
    assert!(told[0].contains("three of these") && told[2].contains("and the last"), "{told:?}");

    let (long, rest) = ("a".repeat(4_090), "and that was all");
    world.telegram.say(&chat, &user, &long);
    world.telegram.say(&chat, &user, rest);
    world.until("both are taken in", |world| world.telegram.unacknowledged() == 0);
    gateway.kill();
    let gateway = world.launch.start();
    world.until("an answer to both", |world| world.has_said(&format!("re: {rest}")));
    let asked = world.model.requests();
    let told = said(asked.last().unwrap());
    assert_eq!((told.len(), &told[3], told[4].as_str()), (5, &long, rest));
    assert_eq!(world.answers(), 2, "{:?}", world.shown());
    assert!(gateway.stop().success());
}

/// What a program passes on needs no model, and is on disk before the program hears that it arrived.
#[test]
fn p7_p8_p10_what_a_webhook_only_delivers_is_shown_once_through_kill_9_and_redelivery() {
    let world = World::new(Duration::ZERO);
    let port = free_port();
    world.place.append(
        "home/config.yaml",
        &format!(
            "gateway: {{platforms: {{webhook: {{enabled: true, extra: {{port: {port}, routes: {{alerts: {{secret: INSECURE_NO_AUTH, \
             deliver: telegram, deliver_only: true, deliver_extra: {{chat_id: '{ADA}'}}, prompt: 'Disk full on {{host}}'}}}}}}}}}}}}\n"
        ),
    );
    world.telegram.add_chat(&ada().0);
    let webhook = Client::new(SocketAddr::from(([127, 0, 0, 1], port)), "");
    let event = |id: &str, host: &str| {
        let answer = webhook.post("/webhooks/alerts", &[("x-request-id", id)], &json!({"host": host}));
        answer.map_or(0, |answer| answer.status)
    };
    let mut gateway = world.launch.start();
    for round in 0..6 {
        let (id, host) = (format!("d-{round}"), format!("db-{round}"));
        world.until("the webhook listens", |_| webhook.get("/health").is_ok());
        assert_eq!(event(&id, &host), 202);
        let words = format!("Disk full on {host}");
        if round % 2 == 1 {
            world.until("it is delivered", |world| world.has_said(&words));
        }
        gateway.kill();
        gateway = world.launch.start();
        world.until("it is delivered again", |_| event(&id, &host) == 202);
        world.until("the words", |world| world.has_said(&words));
    }
    let status = || gateway.client.read("/api/control/status");
    world.until("nothing is left to be sent", |_| status()["undelivered"] == 0);
    for round in 0..6 {
        let words = format!("Disk full on db-{round}");
        assert!(world.times_shown(&words) <= 1, "{:?}", world.shown());
        let marked = world.shown().iter().filter(|shown| shown.ends_with(&words) && **shown != words).count();
        assert!(marked <= 1, "{:?}", world.shown());
    }
    assert_eq!(world.model.asked(), [""; 0], "the model was not asked");
    assert!(gateway.stop().success());
}

/// By the bots and to the home channel of the profile that the path names, or not at all.
#[test]
fn p10_what_a_webhook_delivers_for_another_profile_leaves_by_that_ones_bot() {
    const WORKS: &str = "4343:AAlocalTestTokenOfTheProfileWork00000";
    let world = World::letting_in(Duration::ZERO, "TELEGRAM_ALLOWED_USERS=42\nTELEGRAM_HOME_CHANNEL=42");
    world.telegram.add_bot(WORKS, "works_bot");
    [42, 77].iter().for_each(|id| world.telegram.add_chat(&Chat::private(*id, "P")));
    let port = free_port();
    world.place.append(
        "home/config.yaml",
        &format!(
            "gateway: {{platforms: {{webhook: {{enabled: true, extra: {{port: {port}, routes: {{alerts: {{secret: INSECURE_NO_AUTH, \
             deliver: telegram, deliver_only: true, prompt: 'Disk full on {{host}}'}}}}}}}}}}}}\n"
        ),
    );
    let model = format!("model: {}\n", world.model.setting("test-model"));
    let telegram =
        format!("platforms: {{telegram: {{extra: {{base_url: '{}/bot'}}}}}}\n", world.telegram.url());
    world.place.write("home/profiles/work/config.yaml", format!("{model}{telegram}"));
    world.place.write(
        "home/profiles/work/.env",
        format!("TELEGRAM_BOT_TOKEN={WORKS}\nTELEGRAM_ALLOWED_USERS=77\nTELEGRAM_HOME_CHANNEL=77\n"),
    );
    world.place.write("home/profiles/mute/config.yaml", &model);
    let gateway = world.launch.clone().arg("--all-profiles").start();
    let webhook = Client::new(SocketAddr::from(([127, 0, 0, 1], port)), "");
    world.until("the webhook listens", |_| webhook.get("/health").is_ok());
    let deliver = |path: &str, host: &str| {
        let body = json!({"host": host});
        let answer =
            webhook.post(&format!("{path}/webhooks/alerts"), &[("x-request-id", host)], &body).unwrap();
        (answer.status, answer.json()["error"].to_string())
    };
    // An agent that still starts is waited for.
    for (path, host) in [("", "a"), ("/p/default", "b"), ("/p/work", "c")] {
        world.until("it is taken in", |_| deliver(path, host).0 == 202);
        world.until("it is delivered", |world| world.has_said(&format!("Disk full on {host}")));
    }
    let (status, words) = deliver("/p/mute", "d");
    assert_eq!(status, 502, "{words}");
    assert!(words.contains("the profile mute has no platform telegram"), "{words}");
    assert_eq!(deliver("/p/missing", "e").0, 404);
    let sent: Vec<_> = world.telegram.sent().into_iter().map(|sent| (sent.bot, sent.chat)).collect();
    let own = (TOKEN.to_owned(), 42);
    assert_eq!(sent, [own.clone(), own, (WORKS.to_owned(), 77)]);
    assert!(gateway.stop().success());
}

#[test]
fn p31_a_stranger_is_not_heard_until_the_owner_lets_them_in() {
    let world = World::letting_in(Duration::ZERO, "");
    let gateway = world.launch.start();
    let (chat, user) = (Chat::private(7, "Eve"), User::new(7, "Eve"));
    world.telegram.say(&chat, &user, "let me in");
    world.until("a code", |world| world.shown().iter().any(|shown| shown.contains("pairing")));
    assert_eq!(world.model.asked(), [""; 0], "the model was not asked");
    let shown = world.shown();
    let is_code =
        |word: &&str| word.len() == 8 && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    let words = shown[0].split(|c: char| !c.is_ascii_alphanumeric());
    let code = words.into_iter().find(is_code).unwrap_or_else(|| panic!("{shown:?}")).to_owned();
    let approved =
        world.place.launch().arg("pairing").arg("approve").arg("telegram").arg(code.as_str()).run();
    assert!(approved.status.success(), "{approved:?}");
    world.telegram.say(&chat, &user, "and now?");
    world.until("an answer", |world| world.times_shown("re: and now?") == 1);
    assert!(gateway.stop().success());
}

#[test]
fn p4_commands_answer_in_the_chat_and_a_new_session_follows_new() {
    let world = World::new(Duration::ZERO);
    let gateway = world.launch.start();
    let (chat, user) = ada();
    world.telegram.say(&chat, &user, "first");
    world.until("the first reply", |world| world.times_shown("re: first") == 1);
    world.telegram.say(&chat, &user, "/new");
    let says = |world: &World, words: &str| world.shown().iter().any(|shown| shown.contains(words));
    world.until("an answer to /new", |world| says(world, "A new conversation has begun"));
    world.telegram.say(&chat, &user, "second");
    world.until("the second reply", |world| world.times_shown("re: second") == 1);
    let asked = world.model.requests();
    assert!(!asked[1]["messages"].to_string().contains("re: first"), "{}", asked[1]);
    world.telegram.say(&chat, &user, "/moa");
    world.until("a word about a command that is Hermes'", |world| says(world, "no command /moa"));
    assert_eq!(world.model.asked().len(), 2);
    assert!(gateway.stop().success());
}

/// What people see or hear of: everything but asking for news and settling the menu.
fn sends(world: &World) -> usize {
    let methods = ["sendMessage", "sendChatAction", "editMessageText", "setMessageReaction", "sendPhoto"];
    methods.iter().map(|method| world.telegram.calls(method).len()).sum()
}

#[test]
fn p20_a_first_start_on_a_home_of_hermes_does_nothing_by_itself_and_a_days_backlog_waits_for_a_word() {
    let place = Place::new();
    hermes_home(&place, 400);
    let people = [105, 106, 107, 108, 900]; // two whose turn was cut off, two at rest, and a new one
    let later = [109, 110, 111, 112, 113]; // who write when all is over, of whom one was cut off
    let list: Vec<String> = people.iter().chain(&later).map(i64::to_string).collect();
    let whom = format!("TELEGRAM_ALLOWED_USERS={}", list.join(","));
    let mut world = World::on(place, Duration::ZERO, &whom);
    world.launch = watched(world.launch);
    // By this rule everything was over a month ago: it holds from the first start on.
    let hook =
        world.place.write("hook.sh", format!("#!/bin/sh\ncat >> {}/ends\n", world.place.path().display()));
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.place.append(
        "home/config.yaml",
        &format!(
            "session_reset: {{mode: idle, idle_minutes: 1440}}\nhooks_auto_accept: true\n\
             hooks: {{on_session_finalize: [{{command: {}}}]}}\nthroughline: {{expiry_watch_seconds: 1}}\n",
            hook.display()
        ),
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut written = Vec::new();
    for (nth, hours_ago) in [26, 25, 20, 14, 13, 9, 8, 5, 4, 3, 2, 1].into_iter().enumerate() {
        let who = people[nth % people.len()];
        let (chat, user) = (Chat::private(who, "Ada"), User::new(who, "Ada"));
        let text = format!("written {hours_ago} hours ago");
        world.telegram.write(&chat, &user, json!({"text": text, "date": now - hours_ago * 3600}));
        written.push((who, text));
    }

    for _ in 0..2 {
        let gateway = world.launch.start();
        world.until("the backlog is taken in", |world| world.telegram.unacknowledged() == 0);
        world.watch_comes_round(&gateway); // and nothing happens
        assert_eq!((world.model.asked().len(), sends(&world)), (0, 0), "{:?}", world.shown());
        let status = world.place.launch().arg("status").run();
        assert!(status.stdout.contains("for 26 h"), "{}{}", status.stdout, status.stderr);
        let told = world.place.launch().arg("status").arg("--json").run();
        let told: Value = serde_json::from_str(&told.stdout).unwrap();
        assert_eq!(told["data"][0]["waiting"], written.len(), "{told}");
        gateway.kill();
    }

    let gateway = world.launch.start();
    let resumed = world.place.launch().arg("resume").run();
    assert!(resumed.status.success(), "{resumed:?}");
    world.until("everybody is answered", |world| world.answers() == people.len());
    assert_eq!(world.model.asked().len(), people.len(), "what waits together is one turn");
    world.until("nothing waits", |_| gateway.client.read("/api/control/status")["waiting_inputs"] == 0);
    for who in later {
        let text = format!("written now by {who}");
        world.telegram.say(&Chat::private(who, "Ada"), &User::new(who, "Ada"), &text);
        written.push((who, text));
    }
    let all = people.len() + later.len();
    world.until("they are answered, too", |world| world.answers() == all);
    world.watch_comes_round(&gateway);
    let conn = rusqlite::Connection::open(world.place.file("home/state.db")).unwrap();
    for (who, text) in &written {
        let sql = "SELECT session_id FROM messages WHERE role = 'user' AND content = ?1";
        let mut rows = conn.prepare(sql).unwrap();
        let sessions: Vec<String> =
            rows.query_map([text], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(sessions.len(), 1, "{text}");
        let is_known = *who < 400;
        assert_eq!(
            sessions[0] == format!("20251001_101010_{who:08x}"),
            is_known,
            "{text} is in {sessions:?}"
        );
    }
    let ended: i64 = conn
        .query_row(
            "SELECT (SELECT count(*) FROM tl_finalisation) + (SELECT count(*) FROM tl_reset)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(ended, 0, "nothing has ended");
    assert!(gateway.stop().success());
    assert!(!world.place.file("ends").exists(), "and no hook was told that anything had");
    assert_eq!((world.model.asked().len(), world.answers()), (all, all));

    // Two days later: those who spoke with us are silent since then, and the watch ends what they said. It would
    // have ended more before, had it been due.
    let two_days = "UPDATE tl_session SET active = active - 172800000000 WHERE active > 0;
        UPDATE tl_meta SET value = value - 172800000000 WHERE key = 'baseline'";
    conn.execute_batch(two_days).unwrap();
    let gateway = world.launch.start();
    let ends = || {
        let sql = "SELECT count(*) FROM tl_finalisation";
        conn.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap() as usize
    };
    world.until("they have ended", |_| {
        ends() >= all && gateway.client.read("/api/control/status")["finalising"] == 0
    });
    world.watch_comes_round(&gateway);
    assert_eq!(ends(), all, "and no others");
    assert!(gateway.stop().success());
    let told = std::fs::read_to_string(world.place.file("ends")).unwrap();
    let told = serde_json::Deserializer::from_str(&told).into_iter::<Value>();
    let mut heard: Vec<String> = told.map(|told| told.unwrap()["session_id"].to_string()).collect();
    assert_eq!(heard.len(), all, "those who went on, by a word or by `resume`: {heard:?}");
    heard.sort();
    assert!(heard.is_sorted_by(|one, other| one < other), "each once: {heard:?}");
    assert_eq!(world.model.asked().len(), all, "no model is asked at an end");
}

#[test]
fn p4_p7_restart_in_a_chat_begins_anew_once_loses_nothing_and_is_not_ordered_by_a_redelivery() {
    let world = World::new(Duration::from_millis(300));
    let mut gateway = world.launch.start();
    let client = gateway.client.clone();
    let instance = || client.get("/api/status").ok().map(|answer| answer.json()["instance"].to_string());
    let first = instance().unwrap();
    let (chat, user) = ada();
    let order = json!({
        "message_id": 9000, "date": 1_800_000_000, "text": "/restart",
        "chat": {"id": ADA, "type": "private", "first_name": "Ada"},
        "from": {"id": ADA, "is_bot": false, "first_name": "Ada"},
    });
    world.telegram.say(&chat, &user, "before");
    world.until("it is at work", |world| !world.model.asked().is_empty());
    world.telegram.push(json!({"message": order}));
    world.telegram.say(&chat, &user, "meanwhile");
    world.until("another instance", |_| instance().is_some_and(|instance| instance != first));
    let second = instance().unwrap();
    for text in ["re: before", "re: meanwhile", BACK] {
        world.until(text, |world| world.times_shown(text) == 1);
    }
    for _ in 0..3 {
        world.telegram.push(json!({"message": order}));
    }
    world.telegram.say(&chat, &user, "after");
    world.until("the reply after it", |world| world.times_shown("re: after") == 1);
    // It was told behind the three orders.
    assert_eq!(instance().unwrap(), second, "what was delivered again ordered nothing");
    let answers = world.shown().iter().filter(|shown| shown.contains("starts again")).count();
    assert_eq!((answers, world.times_shown(BACK)), (1, 1), "{:?}", world.shown());
    assert!(gateway.is_running() && gateway.stop().success());
    let gateway = world.launch.start();
    world.telegram.say(&chat, &user, "and once more");
    world.until("the reply after another start", |world| world.times_shown("re: and once more") == 1);
    assert_eq!(world.times_shown(BACK), 1, "that one was not asked for: {:?}", world.shown());
    assert!(gateway.stop().success());
}

#[test]
fn no_restart_notice_is_sent_where_it_is_turned_off() {
    let world = World::new(Duration::ZERO);
    world.place.append("home/config.yaml", "telegram: {gateway_restart_notification: false}\n");
    let gateway = world.launch.start();
    let client = gateway.client.clone();
    let instance = || client.get("/api/status").ok().map(|answer| answer.json()["instance"].to_string());
    let first = instance().unwrap();
    let (chat, user) = ada();
    world.telegram.say(&chat, &user, "/restart");
    world.until("another instance", |_| instance().is_some_and(|instance| instance != first));
    world.telegram.say(&chat, &user, "after");
    // What is said in a chat is said in order, so that word would have been there by now.
    world.until("the reply after it", |world| world.times_shown("re: after") == 1);
    assert_eq!(world.times_shown(BACK), 0, "{:?}", world.shown());
    assert!(gateway.stop().success());
}

/// What an administrator may go on with in a private chat is what was said there and at the terminal; what others said
/// is not shown.
#[test]
fn p31_resume_all_shows_an_administrator_the_terminal_and_no_person_what_another_said() {
    let world = World::letting_in(Duration::ZERO, "TELEGRAM_ALLOWED_USERS=42,43");
    world.place.append(
        "home/config.yaml",
        "telegram: {allow_admin_from: ['42'], user_allowed_commands: [resume, title]}\n",
    );
    let gateway = world.launch.start();
    let ada = ada();
    let bob = (Chat::private(43, "Bob"), User::new(43, "Bob"));
    let says = |who: &(Chat, User), text: &str, until: &str| {
        let before = world.shown().len();
        world.telegram.say(&who.0, &who.1, text);
        world.until(until, |world| world.shown()[before..].iter().any(|shown| shown.contains(until)));
        world.shown()[before..].join("\n")
    };
    for text in ["a word at the terminal", "/title the desk"] {
        let line = json!({"session": "at-the-desk", "text": text});
        let said = gateway.client.post("/api/control/chat", &[], &line).unwrap();
        assert_eq!(said.status, 200);
        said.text(); // to its end
    }
    for (who, title) in [(&ada, "of Ada"), (&bob, "of Bob")] {
        says(who, &format!("a word {title}"), &format!("re: a word {title}"));
        says(who, &format!("/title {title}"), "is called");
    }
    says(&ada, "/new", "A new conversation");
    let told = says(&ada, "/resume", "goes on with it");
    assert!(told.contains("of Ada") && !told.contains("the desk") && !told.contains("of Bob"), "{told}");
    let told = says(&ada, "/resume --all", "goes on with it");
    assert!(told.contains("of Ada") && told.contains("the desk") && !told.contains("of Bob"), "{told}");
    let told = says(&ada, "/resume of Bob --all", "No conversation of yours");
    assert!(!told.contains("a word"), "{told}");
    let told = says(&bob, "/resume --all", "--all adds nothing for you");
    assert!(!told.contains("the desk") && !told.contains("of Ada"), "{told}");
    says(&bob, "/resume at-the-desk --all", "No conversation of yours");
    says(&ada, "/resume at-the-desk", "No conversation of yours");
    let told = says(&ada, "/resume the desk --all", "Going on with");
    assert!(told.contains("at-the-desk"), "{told}");
    says(&ada, "what did I say?", "re: what did I say?");
    let asked = world.model.requests().pop().unwrap()["messages"].to_string();
    assert!(asked.contains("a word at the terminal"), "{asked}");
    assert!(gateway.stop().success());
}

#[test]
fn p2_p31_one_bot_serves_several_profiles_and_no_profile_answers_for_another() {
    let world = World::letting_in(Duration::ZERO, "TELEGRAM_ALLOWED_USERS=42,43,44");
    world.place.append(
        "home/config.yaml",
        "profile_routes:\n- {name: w, platform: telegram, chat_id: '42', profile: work}\n\
         - {name: g, platform: telegram, chat_id: '44', profile: gone}\n",
    );
    world.place.write(
        "home/profiles/work/config.yaml",
        format!(
            "model: {{default: work-model, provider: custom, base_url: 'http://{}/v1', api_key: none}}\n",
            world.model.address
        ),
    );
    let launch = world.launch.clone().arg("--all-profiles");
    let mut gateway = launch.start();
    let people = [42, 43, 44].map(|id| (Chat::private(id, "P"), User::new(id, "P")));
    for round in 0..3 {
        for (nth, (chat, user)) in people.iter().enumerate() {
            world.telegram.say(chat, user, &format!("{nth} in round {round}"));
        }
        if round > 0 {
            gateway.kill();
            gateway = launch.start();
        }
        for nth in 0..2 {
            let reply = format!("re: {nth} in round {round}");
            world.until(&reply, |world| world.shown().iter().any(|shown| shown.ends_with(&reply)));
        }
    }
    world.until("a word to those who get no answer", |world| {
        world.shown().iter().any(|shown| shown.contains("for the agent gone"))
    });
    let asked = world.model.requests();
    for request in &asked {
        let said = text(request["messages"].as_array().unwrap().last().unwrap());
        let model = if said.starts_with('0') { "work-model" } else { "test-model" };
        assert_eq!(request["model"], model, "{said}");
        assert!(!said.starts_with('2'), "{said}");
    }
    let home = world.place.home().join("profiles/work");
    let listed = Launch::on(&world.place, &[&home]).arg("sessions").arg("list").run();
    assert!(listed.stdout.contains("0 in round 0"), "{listed:?}");
    assert!(gateway.stop().success());
    let said = std::fs::read_to_string(world.place.file("logs/stdout")).unwrap();
    assert!(said.contains("the profile gone does not run in this process"), "{said}");
}

#[test]
fn p31_the_offline_model_answers_on_no_platform() {
    let (place, telegram) = (Place::new(), TelegramServer::start_now());
    place.write(
        "home/config.yaml",
        format!("platforms: {{telegram: {{extra: {{base_url: '{}/bot'}}}}}}\n", telegram.url()),
    );
    place.write("home/.env", format!("TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_ALLOWED_USERS={ADA}\n"));
    let gateway = place.launch().start();
    let (chat, user) = ada();
    telegram.say(&chat, &user, "hello");
    let said = || std::fs::read_to_string(place.file("logs/stdout")).unwrap();
    let refusal = "telegram: the offline model answers on no chat platform";
    telegram.until(PATIENCE, refusal, |_| said().contains(refusal));
    assert!(gateway.stop().success());
    assert!(telegram.calls("getUpdates").is_empty() && telegram.calls("getMe").is_empty());
}

/// Whom an agent can write to is asked for by name, and what others say to it in private is not among it.
#[test]
fn p10_p31_a_chat_is_written_to_by_its_name_and_private_ones_are_shown_to_the_owner_only() {
    let model = ModelServer::answering(Duration::ZERO, |request| {
        let messages = request["messages"].as_array().unwrap();
        let told =
            messages.iter().rev().find(|message| message["role"] == "user").map(text).unwrap_or_default();
        let result = messages.last().filter(|message| message["role"] == "tool").map(text);
        match (result, told.as_str()) {
            (Some(result), _) => said(&result),
            (None, asked) if asked.ends_with("who?") => calls(&[("send_message", json!({"action": "list"}))]),
            (None, asked) if asked.contains(" -> ") => {
                let (message, target) = asked.rsplit_once(" -> ").unwrap();
                calls(&[("send_message", json!({"target": target, "message": message}))])
            }
            (None, asked) => said(&format!("re: {asked}")),
        }
    });
    let world = World::around(Place::new(), model, "TELEGRAM_ALLOWED_USERS=42,43");
    let gateway = world.launch.start();
    let (friends, user) = (Chat::group(-1001, "Friends"), User::new(ADA, "Ada"));
    world.telegram.say(&friends, &user, "/status");
    for (id, name) in [(42, "Ada"), (43, "Bob")] {
        world.telegram.say(&Chat::private(id, name), &User::new(id, name), "hello");
    }
    world.until("everybody is answered", |world| world.telegram.sent().len() >= 3);
    assert!(gateway.stop().success());
    // The list of chats is made at the start, and now and then.
    let gateway = world.launch.start();
    let directory =
        || std::fs::read_to_string(world.place.file("home/channel_directory.json")).unwrap_or_default();
    world.until("the chats are listed", |_| {
        let listed = directory();
        ["Friends", "Ada", "Bob"].iter().all(|name| listed.contains(name))
    });
    let asks = |id: i64, name: &str, words: &str, until: &str| {
        let before = world.telegram.sent().len();
        world.telegram.say(&Chat::private(id, name), &User::new(id, name), words);
        let to_them = || {
            let sent = world.telegram.sent().into_iter().skip(before);
            sent.filter(|sent| sent.chat == id).map(|sent| sent.text).collect::<Vec<_>>().join("\n")
        };
        world.until(words, |_| to_them().contains(until));
        to_them()
    };
    let told = asks(42, "Ada", "who?", "targets");
    assert!(told.contains("telegram:Friends (group)") && told.contains("telegram:Bob (dm)"), "{told}");
    let told = asks(43, "Bob", "who?", "targets");
    assert!(told.contains("telegram:Friends (group)") && told.contains("telegram:Bob (dm)"), "{told}");
    assert!(!told.contains("Ada"), "{told}");
    asks(43, "Bob", "psst -> telegram:Ada", "Could not resolve 'Ada' on telegram");
    asks(43, "Bob", "hello, friends -> telegram:#friends", "outbox");
    world.until("the friends hear", |world| {
        world.telegram.sent().iter().any(|sent| sent.chat == -1001 && sent.text == "hello, friends")
    });
    assert!(gateway.stop().success());
}
