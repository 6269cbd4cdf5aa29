//! Telegram, against a local Bot API: what bad input gets, on the way in and on the way out.

use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use throughline_core::Time;
use throughline_core::id::{Seq, TurnId};
use throughline_core::input::{Destination, Trace};
use throughline_core::port::{CallId, Health, Outgoing, Pending, Promise};
use throughline_core::redact::Secret;
use throughline_core::tool::{Ask, Grant, Question, Verdict};
use throughline_platforms::media::MediaRules;
use throughline_platforms::telegram::{NamedTopic, Replies, TelegramSettings, TelegramTimeouts, UpdateMode};
use throughline_platforms::{
    Adapter, Attachment, Incoming, Intake, IntakeOutcome, ListenEnded, Media, NotNow, Platform, Press,
    SendError, StopSignal, Telegram,
};
use throughline_servers::TelegramServer;
use throughline_servers::telegram::{Chat, Fault, Sent, TOKEN, USERNAME, User};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// An intake that keeps what it is given, once, and can be full.
#[derive(Default)]
struct AgentApi {
    taken: Mutex<Vec<Incoming>>,
    known: Mutex<BTreeSet<Vec<String>>>,
    deliveries: Mutex<usize>,
    pressed: Mutex<Vec<Press>>,
    cursor: Mutex<Option<String>>,
    asking: Mutex<Vec<CallId>>,
    /// How many messages it will refuse.
    full: Mutex<usize>,
}

impl AgentApi {
    fn taken(&self) -> Vec<Incoming> {
        self.taken.lock().unwrap().clone()
    }

    fn texts(&self) -> Vec<String> {
        self.taken().into_iter().map(|incoming| incoming.text).collect()
    }

    fn pressed(&self) -> Vec<Press> {
        self.pressed.lock().unwrap().clone()
    }

    fn is_full(&self) -> bool {
        let mut full = self.full.lock().unwrap();
        let was_full = *full > 0;
        *full = full.saturating_sub(1);
        was_full
    }
}

impl Intake for AgentApi {
    fn take(&self, incoming: Incoming) -> Promise<'_, Result<IntakeOutcome, NotNow>> {
        Box::pin(async move {
            *self.deliveries.lock().unwrap() += 1;
            if self.is_full() {
                return Err(NotNow("the disk is full".to_owned()));
            }
            if self.known.lock().unwrap().insert(incoming.identity.clone()) {
                self.taken.lock().unwrap().push(incoming);
            }
            Ok(IntakeOutcome::Kept)
        })
    }

    fn press(&self, press: Press) -> Promise<'_, Result<String, NotNow>> {
        Box::pin(async move {
            if self.is_full() {
                return Err(NotNow("the disk is full".to_owned()));
            }
            self.pressed.lock().unwrap().push(press);
            Ok("Noted.".to_owned())
        })
    }

    fn asking(&self) -> Promise<'_, Vec<CallId>> {
        Box::pin(async move { self.asking.lock().unwrap().clone() })
    }

    fn cursor<'a>(&'a self, _: &'a str, _: &'a str) -> Promise<'a, Option<String>> {
        Box::pin(async move { self.cursor.lock().unwrap().clone() })
    }

    fn keep<'a>(
        &'a self,
        platform: &'a str,
        account: &'a str,
        cursor: String,
    ) -> Promise<'a, Result<(), NotNow>> {
        assert_eq!((platform, account), ("telegram", "4242"));
        Box::pin(async move {
            *self.cursor.lock().unwrap() = Some(cursor);
            Ok(())
        })
    }

    fn now(&self) -> Time {
        Time(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap())
    }
}

fn settings(server: &TelegramServer) -> TelegramSettings {
    TelegramSettings {
        base_url: Some(format!("{}/bot", server.url())),
        patience: TelegramTimeouts {
            poll: Duration::from_secs(1),
            answer: Duration::from_secs(2),
            upload: Duration::from_secs(10),
            again_min: Duration::from_millis(250),
            again_max: Duration::from_secs(1),
            ..TelegramTimeouts::default()
        },
        ..TelegramSettings::new(Secret::new(TOKEN))
    }
}

fn bot(server: &TelegramServer) -> Telegram {
    Telegram::new(settings(server)).unwrap()
}

struct Listening {
    bot: Telegram,
    rope: watch::Sender<bool>,
    task: JoinHandle<ListenEnded>,
}

impl Listening {
    fn start(bot: Telegram, api: &Arc<AgentApi>) -> Self {
        let (rope, stop) = StopSignal::new();
        let (listener, api) = (bot.clone(), api.clone());
        let task = tokio::spawn(async move { listener.listen(api, stop).await });
        Self { bot, rope, task }
    }

    async fn stop(self) -> ListenEnded {
        self.rope.send(true).unwrap();
        tokio::time::timeout(PATIENCE, self.task).await.expect("it stops").unwrap()
    }

    async fn ended(self) -> ListenEnded {
        tokio::time::timeout(PATIENCE, self.task).await.expect("it ends").unwrap()
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

fn ada() -> (Chat, User) {
    (Chat::private(77, "Ada"), User::new(77, "Ada"))
}

fn place(chat: &Chat) -> Destination {
    Destination {
        platform: "telegram".to_owned(),
        account: "4242".to_owned(),
        chat: chat.id.to_string(),
        thread: None,
        reply_to: None,
    }
}

fn outgoing(destination: Destination, text: &str) -> Outgoing {
    Outgoing {
        attempted: None,
        draft: None,
        question: None,
        key: "s/1/reply".to_owned(),
        session: "s".parse().unwrap(),
        destination,
        text: text.to_owned(),
        trace: Trace::default(),
        attempts: 0,
        attempting: None,
        marked: false,
        not_before: Time(0),
    }
}

fn shown(server: &TelegramServer) -> Vec<String> {
    server.sent().into_iter().map(|sent| sent.text).collect()
}

// ------------------------------------------------------------------------------------------ coming in

#[tokio::test]
async fn p1_a_message_is_acknowledged_only_when_it_was_taken() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    *api.full.lock().unwrap() = 3;
    let (chat, user) = ada();
    for text in ["one", "two", "three"] {
        server.say(&chat, &user, text);
    }
    let listening = Listening::start(bot(&server), &api);
    until(
        "the intake is full",
        || matches!(listening.bot.health(), Health::Waiting(why) if why.contains("disk is full")),
    )
    .await;
    assert_eq!(server.unacknowledged(), 3);
    assert!(api.cursor.lock().unwrap().is_none(), "a cursor was kept before its messages");
    until("all are acknowledged", || server.unacknowledged() == 0).await;
    assert_eq!(api.texts(), ["one", "two", "three"]);
    until("it is up", || listening.bot.health() == Health::Up).await;
    assert_eq!(listening.stop().await, ListenEnded::Stopped);
}

#[tokio::test]
async fn p7_a_message_delivered_three_times_and_after_a_restart_is_one_message() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    let (chat, user) = ada();
    server.say(&chat, &user, "once");
    let first = Listening::start(bot(&server), &api);
    until("it was taken", || server.unacknowledged() == 0).await;
    let update = json!({"message": {
        "message_id": 1, "date": 1, "chat": {"id": 77, "type": "private", "first_name": "Ada"},
        "from": {"id": 77, "is_bot": false, "first_name": "Ada"}, "text": "once",
    }});
    for number in [5000, 5001] {
        let before = *api.deliveries.lock().unwrap();
        server.repeat(number, update.clone());
        until("it came again", || *api.deliveries.lock().unwrap() > before && server.unacknowledged() == 0)
            .await;
    }
    first.stop().await;
    let before = *api.deliveries.lock().unwrap();
    server.repeat(6000, update);
    let second = Listening::start(bot(&server), &api);
    until("it came after the restart", || *api.deliveries.lock().unwrap() > before).await;
    second.stop().await;
    assert_eq!(api.texts(), ["once"]);
}

#[tokio::test]
async fn p1_updates_out_of_order_are_all_taken() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    let (chat, user) = ada();
    server.say(&chat, &user, "one");
    server.say(&chat, &user, "two");
    let early = json!({"message": {
        "message_id": 9, "date": 1, "chat": {"id": 77, "type": "private", "first_name": "Ada"},
        "from": {"id": 77, "is_bot": false, "first_name": "Ada"}, "text": "three",
    }});
    server.repeat(2000, early); // the newest comes first
    let listening = Listening::start(bot(&server), &api);
    until("all is acknowledged", || server.unacknowledged() == 0).await;
    listening.stop().await;
    assert_eq!(api.texts(), ["three", "one", "two"]);
    assert!(api.cursor.lock().unwrap().as_ref().unwrap().starts_with("2001 "));
}

#[tokio::test]
async fn a_restart_goes_on_where_it_was_left_and_an_old_place_is_forgotten() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    let (chat, user) = ada();
    server.say(&chat, &user, "one");
    let first = Listening::start(bot(&server), &api);
    until("it was taken", || api.cursor.lock().unwrap().is_some()).await;
    first.stop().await;
    let second = Listening::start(bot(&server), &api);
    until("it polls again", || second.bot.health() == Health::Up).await;
    second.stop().await;
    let calls = server.calls("getUpdates");
    assert_eq!(calls[0].parameters.get("offset"), None);
    assert_eq!(calls.last().unwrap().parameters["offset"], json!(1002));
    // Telegram numbers anew after a week: what is older than that must acknowledge nothing.
    *api.cursor.lock().unwrap() = Some("1002 1600000000".to_owned());
    let before = server.calls("getUpdates").len();
    let third = Listening::start(bot(&server), &api);
    until("it polls once more", || third.bot.health() == Health::Up).await;
    third.stop().await;
    assert_eq!(server.calls("getUpdates")[before].parameters.get("offset"), None);
}

#[tokio::test]
async fn a_revoked_token_ends_it_with_a_sentence_that_hides_the_token() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    let listening = Listening::start(bot(&server), &api);
    until("it is up", || listening.bot.health() == Health::Up).await;
    server.revoke(TOKEN);
    let adapter = listening.bot.clone();
    let ListenEnded::Refused(why) = listening.ended().await else { panic!("it went on") };
    assert!(why.contains("@BotFather") && why.contains("4242"), "{why}");
    assert!(!why.contains("AAlocal"), "{why}");
    assert_eq!(adapter.health(), Health::Refused(why));
    let calls = server.calls("getUpdates").len();
    sleep(Duration::from_millis(300)).await;
    assert_eq!(server.calls("getUpdates").len(), calls, "it goes on asking");
    // A reply meanwhile is not lost: the token may be renewed.
    let (chat, _) = ada();
    server.add_chat(&chat);
    let error = adapter.send(&outgoing(place(&chat), "hi"), None).await.unwrap_err();
    assert!(matches!(error, SendError::Later { .. }), "{error:?}");
}

#[tokio::test]
async fn an_unknown_token_is_refused_at_once() {
    let server = TelegramServer::start().await;
    for token in ["1:wrong", "4242:"] {
        let settings = TelegramSettings { token: Secret::new(token), ..settings(&server) };
        let listening = Listening::start(Telegram::new(settings).unwrap(), &Arc::new(AgentApi::default()));
        assert!(matches!(listening.ended().await, ListenEnded::Refused(_)));
    }
    server.fail_next("getMe", Fault::refusal(404, "Not Found"));
    let listening = Listening::start(bot(&server), &Arc::new(AgentApi::default()));
    assert!(matches!(listening.ended().await, ListenEnded::Refused(_)));
    for token in ["", "nonsense", "x:y", "12:a b", "12:../x"] {
        assert!(Telegram::new(TelegramSettings::new(Secret::new(token))).is_err(), "{token}");
    }
}

#[tokio::test]
async fn two_pollers_are_named_and_do_not_spin() {
    let server = TelegramServer::start().await;
    let (one, two) = (Arc::new(AgentApi::default()), Arc::new(AgentApi::default()));
    let first = Listening::start(bot(&server), &one);
    until("the first is up", || first.bot.health() == Health::Up).await;
    let second = Listening::start(bot(&server), &two);
    let named = |health: Health| matches!(health, Health::Waiting(why) if why.contains("another program"));
    until("a conflict is named", || named(first.bot.health()) || named(second.bot.health())).await;
    let before = server.calls("getUpdates").len();
    sleep(Duration::from_secs(1)).await;
    let calls = server.calls("getUpdates").len() - before;
    assert!(calls < 60, "{calls} calls in a second");
    second.stop().await;
    until("the first is up again", || first.bot.health() == Health::Up).await;
    let (chat, user) = ada();
    server.say(&chat, &user, "still there?");
    until("it hears", || one.texts().contains(&"still there?".to_owned())).await;
    first.stop().await;
}

#[tokio::test]
async fn a_webhook_that_somebody_set_is_taken_down_again() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    server.fail_next(
        "getUpdates",
        Fault::refusal(409, "Conflict: can't use getUpdates method while webhook is active"),
    );
    let listening = Listening::start(bot(&server), &api);
    until("it is up", || listening.bot.health() == Health::Up).await;
    assert_eq!(server.calls("deleteWebhook").len(), 2);
    listening.stop().await;
}

#[tokio::test]
async fn every_trouble_of_polling_is_waited_out_and_named() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    let (chat, user) = ada();
    let listening = Listening::start(bot(&server), &api);
    until("it is up", || listening.bot.health() == Health::Up).await;
    for (number, fault) in [
        Fault::refusal(500, "Internal Server Error"),
        Fault::Answer { status: 502, body: "<html>Bad Gateway</html>".to_owned() },
        Fault::Answer { status: 403, body: "blocked by the company".to_owned() },
        Fault::Garbage,
        Fault::Answer { status: 200, body: "{\"ok\":true}".to_owned() },
        Fault::Answer { status: 200, body: "{\"ok\":true,\"result\":{}}".to_owned() },
        Fault::CloseBefore,
        Fault::CloseAfter,
        Fault::Silence,
        Fault::flood(1),
    ]
    .into_iter()
    .enumerate()
    {
        server.fail_next("getUpdates", fault.clone());
        let waits = || matches!(listening.bot.health(), Health::Waiting(why) if !why.contains("AAlocal"));
        until(&format!("{fault:?} is named"), waits).await;
        let text = format!("message {number}");
        server.say(&chat, &user, &text);
        until(&format!("a message comes after {fault:?}"), || api.texts().contains(&text)).await;
        until(&format!("it is up after {fault:?}"), || listening.bot.health() == Health::Up).await;
    }
    assert_eq!(api.texts().len(), 10);
    listening.stop().await;
}

#[tokio::test]
async fn a_server_that_goes_away_is_found_again() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    let listening = Listening::start(bot(&server), &api);
    until("it is up", || listening.bot.health() == Health::Up).await;
    server.go_away();
    until("it waits", || matches!(listening.bot.health(), Health::Waiting(_))).await;
    let (chat, user) = ada();
    server.say(&chat, &user, "while away");
    server.come_back();
    until("it hears", || api.texts() == ["while away"]).await;
    listening.stop().await;
}

#[tokio::test]
async fn a_server_that_answers_nothing_at_once_is_not_asked_all_the_time() {
    let server = TelegramServer::start().await;
    for _ in 0..1000 {
        server.fail_next(
            "getUpdates",
            Fault::Answer { status: 200, body: "{\"ok\":true,\"result\":[]}".to_owned() },
        );
    }
    let listening = Listening::start(bot(&server), &Arc::new(AgentApi::default()));
    until("it is up", || listening.bot.health() == Health::Up).await;
    sleep(Duration::from_secs(1)).await;
    assert!(server.calls("getUpdates").len() < 40, "{} calls", server.calls("getUpdates").len());
    listening.stop().await;
}

#[tokio::test]
async fn what_cannot_be_read_is_passed_over_and_blocks_nothing() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    let (chat, user) = ada();
    for update in [
        json!({"something_new": {"x": 1}}),
        json!({"message": "not an object"}),
        json!({"message": {"message_id": "x"}}),
        json!({"message": {"chat": {"id": 1, "type": "hologram"}, "message_id": 1, "date": 1, "text": "x"}}),
        json!({"callback_query": {"id": "1"}}),
        json!({}),
    ] {
        server.push(update);
    }
    server.write(&chat, &user, json!({"new_chat_title": "a service message"}));
    // New beside what we read: it is read all the same.
    server.write(
        &chat,
        &user,
        json!({"text": "novel", "gift": {"of": "a later year"}, "forward_origin": {"type": "oracle"}}),
    );
    server.say(&chat, &user, "after all that");
    let listening = Listening::start(bot(&server), &api);
    until("all is acknowledged", || server.unacknowledged() == 0).await;
    assert_eq!(api.texts(), ["novel", "after all that"]);
    listening.stop().await;
}

#[tokio::test]
async fn a_gigantic_message_and_a_gigantic_batch_come_through() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    let (chat, user) = ada();
    // Together more than is held of one answer.
    for _ in 0..5 {
        server.say(&chat, &user, &"x".repeat(4 << 20));
    }
    let slow = TelegramTimeouts { answer: Duration::from_secs(20), ..settings(&server).patience };
    let listening = Listening::start(
        Telegram::new(TelegramSettings { patience: slow, ..settings(&server) }).unwrap(),
        &api,
    );
    until("all is acknowledged", || server.unacknowledged() == 0).await;
    assert_eq!(api.taken().len(), 5);
    listening.stop().await;
}

#[tokio::test]
async fn an_edit_is_a_message_of_its_own_and_keeps_its_place() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    let (chat, user) = ada();
    let id = server.say(&chat, &user, "helo");
    server.rewrite(&chat, id, "hello");
    let listening = Listening::start(bot(&server), &api);
    until("both came", || api.taken().len() == 2).await;
    listening.stop().await;
    let [first, second] = &api.taken()[..] else { panic!("two messages") };
    assert_eq!((first.text.as_str(), first.edited), ("helo", false));
    assert_eq!((second.text.as_str(), second.edited), ("hello", true));
    assert_eq!(first.reply_to, second.reply_to);
    assert_ne!(first.identity, second.identity);
}

#[tokio::test]
async fn a_webhook_takes_what_telegram_sends_and_nobody_else() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    *api.full.lock().unwrap() = 2;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{port}/hook/telegram");
    let mode = UpdateMode::Webhook { url: url.clone(), listen: port, secret: Secret::new("s3cret") };
    let listening =
        Listening::start(Telegram::new(TelegramSettings { mode, ..settings(&server) }).unwrap(), &api);
    until("it is up", || listening.bot.health() == Health::Up).await;
    let (chat, user) = ada();
    server.say(&chat, &user, "one");
    server.push(json!({"message": "nonsense"}));
    server.say(&chat, &user, "two");
    until("all is taken", || server.unacknowledged() == 0).await;
    assert_eq!(api.texts(), ["one", "two"]);
    let forged = json!({"update_id": 1, "message": {
        "message_id": 99, "date": 1, "chat": {"id": 1, "type": "private"},
        "from": {"id": 1, "is_bot": false, "first_name": "Eve"}, "text": "forged"}});
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    for secret in [None, Some(""), Some("s3cre"), Some("s3crett")] {
        let mut request = http.post(&url).json(&forged);
        if let Some(secret) = secret {
            request = request.header("x-telegram-bot-api-secret-token", secret);
        }
        assert_eq!(request.send().await.unwrap().status().as_u16(), 401);
    }
    assert_eq!(api.texts(), ["one", "two"]);
    assert_eq!(listening.stop().await, ListenEnded::Stopped);
    // Without a secret anyone could write: that is no webhook.
    let mode = UpdateMode::Webhook { url, listen: port, secret: Secret::new("") };
    assert!(Telegram::new(TelegramSettings { mode, ..settings(&server) }).is_err());
}

#[tokio::test]
async fn media_topics_answers_and_commands_come_as_they_are() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    let (group, user) = (Chat::forum(-1001, "Lab"), User::new(77, "Ada"));
    let topic = server.add_topic(&group);
    let bot = Telegram::new(TelegramSettings {
        topics: vec![NamedTopic {
            chat: "-1001".to_owned(),
            thread: topic.to_string(),
            name: Some("Chemistry".to_owned()),
            skill: Some("lab".to_owned()),
        }],
        ..settings(&server)
    })
    .unwrap();
    let mut there = place(&group);
    there.thread = Some(topic.to_string());
    let ours = bot.send(&outgoing(there, "our words"), None).await.unwrap().unwrap();
    let listening = Listening::start(bot, &api);
    let in_topic = json!({"message_thread_id": topic, "is_topic_message": true});
    let with = |fields: serde_json::Value| {
        let mut all = in_topic.clone();
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        all
    };
    server.write(&group, &user, with(json!({"text": format!("/status@{USERNAME} now")})));
    server.write(&group, &user, with(json!({"text": "/status@other_bot"})));
    server.write(
        &group,
        &user,
        with(json!({"text": "I agree", "reply_to_message": ours.parse::<i64>().unwrap()})),
    );
    server.write(&group, &user, json!({"text": format!("@{USERNAME}: in General")}));
    server.write(
        &group,
        &user,
        with(json!({
            "caption": "look", "photo": [
                {"file_id": "small", "file_unique_id": "s", "width": 90, "height": 90},
                {"file_id": "large", "file_unique_id": "l", "width": 900, "height": 900, "file_size": 5},
            ],
        })),
    );
    server.write(
        &group,
        &user,
        with(json!({"voice": {"file_id": "v", "file_unique_id": "v", "duration": 3}})),
    );
    server.write(
        &group,
        &user,
        with(json!({"document": {
        "file_id": "d", "file_unique_id": "d", "file_name": "a.pdf", "mime_type": "application/pdf"}})),
    );
    server.write(&group, &user, with(json!({"sticker": {
        "file_id": "k", "file_unique_id": "k", "type": "regular", "width": 1, "height": 1, "is_animated": false,
        "is_video": false, "emoji": "😀"}})));
    server.write(&group, &user, with(json!({"location": {"latitude": 1.5, "longitude": 2.5}})));
    until("all came", || api.taken().len() == 8).await;
    listening.stop().await;
    let taken = api.taken();
    let [command, answer, general, photo, voice, document, sticker, location] = &taken[..] else { panic!() };
    assert_eq!((command.text.as_str(), command.mentioned, command.addressed), ("/status now", true, true));
    assert_eq!(command.source.chat_topic.as_deref(), Some("Chemistry"));
    assert_eq!(command.skills, ["lab"]);
    assert_eq!((answer.mentioned, answer.addressed), (false, true));
    let quoted = answer.quoted.as_ref().unwrap();
    assert_eq!((quoted.text.as_deref(), quoted.ours, &quoted.id), (Some("our words"), true, &ours));
    assert_eq!((general.text.as_str(), general.source.thread_id.as_deref()), ("in General", Some("1")));
    assert_eq!((photo.text.as_str(), photo.addressed), ("look", false));
    assert_eq!((photo.attachments[0].media, photo.attachments[0].handle.as_str()), (Media::Image, "large"));
    assert_eq!(voice.attachments[0].media, Media::Voice);
    assert_eq!(document.attachments[0].name.as_deref(), Some("a.pdf"));
    assert_eq!((sticker.text.as_str(), sticker.attachments[0].media), ("[A sticker 😀]", Media::Image));
    assert!(location.text.contains("latitude 1.5"));
    assert!(taken.iter().all(|incoming| incoming.source.chat_id == "-1001" && !incoming.identity.is_empty()));
}

// ------------------------------------------------------------------------------------------ going out

#[tokio::test]
async fn a_reply_arrives_formatted_where_it_belongs() {
    let server = TelegramServer::start().await;
    let forum = Chat::forum(-1001, "Lab");
    let topic = server.add_topic(&forum);
    let asked = server.say(&forum, &User::new(1, "A"), "?");
    let bot = bot(&server);
    let mut there = place(&forum);
    (there.thread, there.reply_to) = (Some(topic.to_string()), Some(asked.to_string()));
    let id = bot.send(&outgoing(there.clone(), "**Hi** <you> & `me`"), None).await.unwrap().unwrap();
    let sent = &server.sent()[0];
    assert_eq!((sent.text.as_str(), sent.thread, sent.reply_to), ("Hi <you> & me", Some(topic), Some(asked)));
    assert_eq!(sent.parameters["parse_mode"], json!("HTML"));
    assert_eq!(sent.id.to_string(), id);
    // Only the first part shows what it answers, and a repeated one says that it is.
    let mut second = outgoing(there.clone(), "more");
    second.key.push_str("+2");
    bot.send(&second, Some("♻️ (sent again)")).await.unwrap();
    let sent = &server.sent()[1];
    assert_eq!((sent.text.as_str(), sent.reply_to), ("♻️ (sent again)\n\nmore", None));
    // The General topic is written to without its number, and typed in with it.
    there.thread = Some("1".to_owned());
    bot.typing(&there).await;
    bot.send(&outgoing(there, "in General"), None).await.unwrap();
    assert_eq!(server.sent()[2].thread, None);
    assert_eq!(server.calls("sendChatAction")[0].parameters["message_thread_id"], json!(1));
}

#[tokio::test]
async fn what_telegram_objects_to_is_left_out_and_the_rest_arrives() {
    let server = TelegramServer::start().await;
    let forum = Chat::forum(-1001, "Lab");
    let topic = server.add_topic(&forum);
    server.remove_topic(&forum, topic);
    let bot = bot(&server);
    let mut there = place(&forum);
    there.thread = Some(topic.to_string());
    bot.send(&outgoing(there, "the topic is gone"), None).await.unwrap();
    assert_eq!(server.sent()[0].thread, None);

    let (chat, _) = ada();
    server.add_chat(&chat);
    server.fail_next("sendMessage", Fault::refusal(400, "Bad Request: message to be replied not found"));
    let mut there = place(&chat);
    there.reply_to = Some("12345".to_owned());
    bot.send(&outgoing(there, "no question"), None).await.unwrap();
    server
        .fail_next("sendMessage", Fault::refusal(400, "Bad Request: can't parse entities: at byte offset 3"));
    bot.send(&outgoing(place(&chat), "**plain** then"), None).await.unwrap();
    let last = server.sent().last().unwrap().clone();
    assert_eq!((last.text.as_str(), last.parameters.get("parse_mode")), ("**plain** then", None));

    let (old, new) = (Chat::group(-5, "Old"), Chat::forum(-1005, "New"));
    server.move_chat(&old, &new);
    bot.send(&outgoing(place(&old), "you have moved"), None).await.unwrap();
    assert_eq!(server.sent().last().unwrap().chat, -1005);
}

#[tokio::test]
async fn what_became_of_a_reply_is_never_guessed() {
    let server = TelegramServer::start().await;
    let bot = bot(&server);
    let never = |error: &SendError| matches!(error, SendError::Never { .. });
    let unknown = |error: &SendError| matches!(error, SendError::Unknown { .. });
    let later = |error: &SendError| matches!(error, SendError::Later { .. });
    let gateway = Fault::Answer { status: 502, body: "<html>Bad Gateway</html>".to_owned() };
    let proxy = Fault::Answer { status: 407, body: "who are you?".to_owned() };
    type Judge<'a> = &'a dyn Fn(&SendError) -> bool;
    let cases: [(Fault, Judge<'_>, usize); 12] = [
        (Fault::refusal(403, "Forbidden: bot was blocked by the user"), &never, 0),
        (Fault::refusal(403, "Forbidden: bot was kicked from the group chat"), &never, 0),
        (Fault::refusal(400, "Bad Request: chat not found"), &never, 0),
        (Fault::refusal(400, "Bad Request: message is too long"), &never, 0),
        (Fault::refusal(401, "Unauthorized"), &later, 0),
        (proxy, &later, 0),
        (Fault::refusal(500, "Internal Server Error"), &unknown, 0),
        (gateway, &unknown, 0),
        (Fault::Garbage, &unknown, 0),
        (Fault::CloseBefore, &unknown, 0),
        (Fault::CloseAfter, &unknown, 1),
        (Fault::SilenceAfter, &unknown, 1),
    ];
    let mut arrived = 0;
    for (number, (fault, expected, arrives)) in cases.into_iter().enumerate() {
        let chat = Chat::private(1000 + number as i64, "Somebody");
        server.add_chat(&chat);
        server.fail_next("sendMessage", fault.clone());
        let error = bot.send(&outgoing(place(&chat), "hi"), None).await.unwrap_err();
        assert!(expected(&error), "{fault:?} gave {error:?}");
        assert!(!error.to_string().contains("AAlocal"), "{error}");
        arrived += arrives;
        assert_eq!(server.sent().len(), arrived, "{fault:?}");
        // The chat beside it does not notice.
        let other = Chat::private(2000 + number as i64, "Other");
        server.add_chat(&other);
        bot.send(&outgoing(place(&other), "hi"), None).await.unwrap();
        arrived += 1;
    }
    let stranger = Chat::private(9, "Nobody");
    assert!(never(&bot.send(&outgoing(place(&stranger), "hi"), None).await.unwrap_err()));
    let deleted = Chat::group(-9, "Deleted");
    server.close_chat(&deleted, 403, "Forbidden: the group chat was deleted");
    let error = bot.send(&outgoing(place(&deleted), "hi"), None).await.unwrap_err();
    assert!(never(&error) && error.to_string().contains("chat -9"), "{error}");
    server.go_away();
    let address = server.url().trim_start_matches("http://").to_owned();
    until("nobody listens", || std::net::TcpStream::connect(&address).is_err()).await;
    sleep(Duration::from_millis(300)).await; // so that no connection is left that only seems open
    let (chat, _) = ada();
    let error = bot.send(&outgoing(place(&chat), "hi"), None).await.unwrap_err();
    assert!(later(&error), "{error:?}");
}

#[tokio::test]
async fn who_is_asked_to_wait_waits_as_long_as_asked_and_only_there() {
    let server = TelegramServer::start().await;
    let (chat, _) = ada();
    let other = Chat::private(78, "Bob");
    server.add_chat(&chat);
    server.add_chat(&other);
    let bot = bot(&server);
    server.fail_next("sendMessage", Fault::flood(37));
    let error = bot.send(&outgoing(place(&chat), "hi"), None).await.unwrap_err();
    assert!(
        matches!(error, SendError::Later { after: Some(wait), .. } if wait == Duration::from_secs(37)),
        "{error:?}"
    );
    // Within that time nothing is even tried there: not a reply, not a sign of life.
    let error = bot.send(&outgoing(place(&chat), "hi"), None).await.unwrap_err();
    assert!(
        matches!(error, SendError::Later { after: Some(wait), .. } if wait > Duration::from_secs(30)),
        "{error:?}"
    );
    bot.typing(&place(&chat)).await;
    assert_eq!((server.calls("sendMessage").len(), server.calls("sendChatAction").len()), (1, 0));
    bot.send(&outgoing(place(&other), "hi"), None).await.unwrap();
}

#[tokio::test]
async fn a_chat_gets_about_one_message_a_second() {
    let server = TelegramServer::start().await;
    let (chat, _) = ada();
    server.add_chat(&chat);
    let bot = bot(&server);
    for number in 0..3 {
        bot.send(&outgoing(place(&chat), &number.to_string()), None).await.unwrap();
    }
    let calls = server.calls("sendMessage");
    assert!(calls[2].at - calls[0].at >= Duration::from_millis(1900), "{:?}", calls[2].at - calls[0].at);
}

#[tokio::test]
async fn a_gigantic_reply_leaves_in_parts_that_all_arrive() {
    let server = TelegramServer::start().await;
    let bot = bot(&server);
    let code = "if a < b && c > d { println!(\"&\"); }\n".repeat(400);
    let text = format!(
        "Intro with **bold**.\n\n```rust\n{code}```\n\n{}\nThe end.",
        "Words 😀 and more. ".repeat(900)
    );
    let parts = bot.parts(&text);
    assert_eq!(parts, bot.parts(&text));
    assert!(parts.len() > 5);
    for (number, part) in parts.iter().enumerate() {
        // Each in a chat of its own: the pace is not what is looked at.
        let chat = Chat::private(100 + number as i64, "Reader");
        server.add_chat(&chat);
        bot.send(&outgoing(place(&chat), part), Some("♻️ (sent again; you may have seen this)"))
            .await
            .unwrap();
    }
    assert!(server.sent().iter().all(|sent| sent.parameters["parse_mode"] == json!("HTML")));
    let all: String = shown(&server).concat();
    assert_eq!(all.matches("println!").count(), 400);
    assert_eq!(all.matches("😀").count(), 900);
    assert!(all.ends_with("The end."));
    // Unsplit, it is refused rather than cut.
    let (chat, _) = ada();
    server.add_chat(&chat);
    let error = bot.send(&outgoing(place(&chat), &text), None).await.unwrap_err();
    assert!(matches!(&error, SendError::Never { message } if message.contains("too long")), "{error:?}");
}

#[tokio::test]
async fn files_leave_as_what_they_are() {
    let server = TelegramServer::start().await;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let bot = Telegram::new(TelegramSettings {
        media: MediaRules::default(),
        replies: Replies::Off,
        ..settings(&server)
    })
    .unwrap();
    for (number, (name, method)) in [
        ("a.png", "sendPhoto"),
        ("a.ogg", "sendVoice"),
        ("a.mp3", "sendAudio"),
        ("a.mp4", "sendVideo"),
        ("a.gif", "sendAnimation"),
        ("a b.pdf", "sendDocument"),
    ]
    .into_iter()
    .enumerate()
    {
        let chat = Chat::private(300 + number as i64, "Reader");
        server.add_chat(&chat);
        std::fs::write(path(name), name).unwrap();
        let text = format!("Here:\nMEDIA:{}\n", path(name));
        let parts = bot.parts(&text);
        assert_eq!(parts, ["Here:\n".to_owned(), format!("MEDIA:{}", path(name))]);
        bot.send(&outgoing(place(&chat), &parts[1]), None).await.unwrap();
        let sent = server.sent().last().unwrap().clone();
        assert_eq!((sent.method.as_str(), sent.chat), (method, chat.id));
        assert_eq!(sent.file, Some((name.to_owned(), name.as_bytes().to_vec())));
    }
    // A picture that is none goes as a document.
    let chat = Chat::private(400, "Reader");
    server.add_chat(&chat);
    server.fail_next("sendPhoto", Fault::refusal(400, "Bad Request: IMAGE_PROCESS_FAILED"));
    bot.send(&outgoing(place(&chat), &format!("MEDIA:{}", path("a.png"))), None).await.unwrap();
    assert_eq!(server.sent().last().unwrap().method, "sendDocument");
    // What is not there, not a file, empty or secret is said in words.
    std::fs::write(path("empty.txt"), "").unwrap();
    for (path, words) in [
        (path("none.png"), "cannot be sent"),
        (path("empty.txt"), "is empty"),
        ("/etc/passwd".to_owned(), "may not leave"),
        (directory.path().to_string_lossy().into_owned(), "not a file"),
    ] {
        let error = bot.send(&outgoing(place(&chat), &format!("MEDIA:{path}")), None).await.unwrap_err();
        assert!(matches!(&error, SendError::Never { message } if message.contains(words)), "{error:?}");
    }
    // An upload of unknown outcome is one.
    let chat = Chat::private(401, "Reader");
    server.add_chat(&chat);
    server.fail_next("sendDocument", Fault::CloseAfter);
    let error =
        bot.send(&outgoing(place(&chat), &format!("MEDIA:{}", path("a b.pdf"))), None).await.unwrap_err();
    assert!(matches!(error, SendError::Unknown { .. }), "{error:?}");
    assert!(Path::new(&path("a b.pdf")).exists());
}

#[tokio::test]
async fn a_preview_becomes_the_reply_and_there_is_only_one() {
    let server = TelegramServer::start().await;
    let (chat, _) = ada();
    server.add_chat(&chat);
    let bot = bot(&server);
    let draft = bot.post(&place(&chat), "Thinking about **it").await.unwrap();
    // At once is too soon for a courtesy.
    assert!(matches!(bot.edit(&place(&chat), &draft, "more").await, Err(SendError::Later { .. })));
    sleep(Duration::from_millis(1100)).await;
    bot.edit(&place(&chat), &draft, "Thinking about **it** more").await.unwrap();
    // Lost on the way back: made again, not doubled.
    server.fail_next("editMessageText", Fault::CloseAfter);
    let reply = outgoing(place(&chat), "**Done**");
    assert!(matches!(bot.finish(&reply, &draft).await, Err(SendError::Later { .. })));
    assert_eq!(bot.finish(&reply, &draft).await.unwrap(), Some(draft.clone()));
    assert_eq!(shown(&server), ["Done"]);
    // A person deleted it: a message of its own.
    sleep(Duration::from_millis(1100)).await;
    bot.remove(&place(&chat), &draft).await.unwrap();
    bot.remove(&place(&chat), &draft).await.unwrap();
    let new = bot.finish(&reply, &draft).await.unwrap().unwrap();
    assert_ne!(new, draft);
    let there: Vec<Sent> = server.sent().into_iter().filter(|sent| !sent.deleted).collect();
    assert_eq!(there.len(), 1);
}

#[tokio::test]
async fn signs_and_commands_are_shown() {
    let server = TelegramServer::start().await;
    let (chat, user) = ada();
    let id = server.say(&chat, &user, "hi");
    let bot = bot(&server);
    bot.react(&place(&chat), &id.to_string(), "👀").await;
    bot.react(&place(&chat), &id.to_string(), "").await;
    bot.react(&place(&chat), &id.to_string(), "✅").await;
    bot.react(&place(&chat), &id.to_string(), "❌").await;
    let calls = server.calls("setMessageReaction");
    assert_eq!(calls[2].parameters["reaction"], json!([{"type": "emoji", "emoji": "👍"}]));
    assert_eq!(calls[3].parameters["reaction"], json!([{"type": "emoji", "emoji": "👎"}]));
    assert_eq!(calls[0].parameters["reaction"], json!([{"type": "emoji", "emoji": "👀"}]));
    assert_eq!(calls[1].parameters["reaction"], json!([]));
    let commands =
        [("new", "Begin anew"), ("reload-mcp", "Load servers again"), ("Ümlaut", "no"), ("new", "twice")];
    let commands: Vec<_> =
        commands.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    bot.publish(&commands).await.unwrap();
    let shown = server.commands(TOKEN);
    assert_eq!(shown[1], json!({"command": "reload_mcp", "description": "Load servers again"}));
    assert_eq!(shown.as_array().unwrap().len(), 2);
}

// ------------------------------------------------------------------------------------------ questions

fn pending(session: &str, question: Question) -> Pending {
    let call =
        CallId { session: session.parse().unwrap(), turn: TurnId(Seq(3)), step: 1, index: 0, question: 0 };
    let ask = Ask { question, asked: Time(0), until: Time(1) };
    Pending { call, tool: "terminal".to_owned(), ask }
}

#[tokio::test]
async fn buttons_answer_their_question_even_after_a_restart() {
    let server = TelegramServer::start().await;
    let api = Arc::new(AgentApi::default());
    let (chat, user) = ada();
    server.add_chat(&chat);
    let approval = |patterns: &[&str]| Question::Approval {
        what: "rm -rf `x` <y> && echo \"```\"".to_owned(),
        why: "it *deletes*".to_owned(),
        patterns: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
    };
    let long = "a_session_with_a_name_that_does_not_fit_on_any_button_of_telegrams";
    let clarify = Question::Clarify {
        question: "Which?".to_owned(),
        choices: vec!["Red".to_owned(), "Blue".to_owned()],
    };
    let questions = [
        pending("20260528_093510_66bfaec7", approval(&["rm"])),
        pending(long, approval(&[])),
        pending("20260528_093510_66bfaec7", clarify),
    ];
    {
        let bot = bot(&server);
        for question in &questions {
            bot.put(&place(&chat), question).await.unwrap();
        }
    }
    let sent = server.sent();
    assert!(sent[0].text.contains("rm -rf `x` <y> && echo \"```\""), "{}", sent[0].text);
    assert!(sent[0].text.contains("it *deletes*"));
    let labels = |sent: &Sent| sent.buttons().into_iter().map(|(label, _)| label).collect::<Vec<_>>();
    assert_eq!(labels(&sent[0]), ["✅ Once", "✅ This session", "✅ Always", "❌ Deny"]);
    assert_eq!(labels(&sent[1]), ["✅ Once", "❌ Deny"]);
    assert_eq!(labels(&sent[2]), ["1. Red", "2. Blue"]);
    // Another start: nothing is remembered but what is asked.
    api.asking.lock().unwrap().extend(questions.iter().map(|question| question.call.clone()));
    *api.full.lock().unwrap() = 1; // and the first press comes at a bad time
    let listening = Listening::start(bot(&server), &api);
    for (sent, button) in [(&sent[0], 1), (&sent[0], 3), (&sent[1], 0), (&sent[2], 1)] {
        server.press(sent, &user, &sent.buttons()[button].1);
    }
    server.press(&sent[0], &user, "mp:somebody else's");
    until("all are acknowledged", || server.unacknowledged() == 0).await;
    let pressed = api.pressed();
    let verdicts: Vec<_> = pressed.iter().map(|press| press.verdict.clone()).collect();
    assert_eq!(
        verdicts,
        [
            Verdict::Granted(Grant::Session),
            Verdict::Denied { reason: None },
            Verdict::Granted(Grant::Once),
            Verdict::Said("2".to_owned())
        ]
    );
    assert_eq!(pressed[2].call, questions[1].call);
    assert_eq!(pressed[0].source.user_id.as_deref(), Some("77"));
    until("every press is answered", || server.calls("answerCallbackQuery").len() == 5).await;
    let words = server.calls("answerCallbackQuery");
    assert_eq!(words[0].parameters["text"], json!("Noted."));
    assert!(words.last().unwrap().parameters["text"].as_str().unwrap().contains("no longer open"));
    listening.stop().await;
}

// --------------------------------------------------------------------------------------------- files

#[tokio::test]
async fn a_file_is_fetched_within_its_limit_or_explained() {
    let server = TelegramServer::start().await;
    let bot = bot(&server);
    let attachment = |handle: String, bytes| Attachment {
        media: Media::Document,
        handle,
        name: Some("notes.txt".to_owned()),
        mime: None,
        bytes,
    };
    let small = server.add_file(b"hello".to_vec());
    assert_eq!(bot.fetch(&attachment(small.clone(), Some(5)), 1000).await.unwrap(), b"hello");
    assert!(bot.fetch(&attachment(small.clone(), Some(5)), 4).await.unwrap_err().contains("notes.txt"));
    assert!(bot.fetch(&attachment(small.clone(), None), 4).await.is_err());
    let large = server.add_file(vec![0; 21 << 20]);
    assert!(bot.fetch(&attachment(large, None), 1 << 30).await.unwrap_err().contains("20 MB"));
    assert!(
        bot.fetch(&attachment("gone".to_owned(), None), 9).await.unwrap_err().contains("does not give out")
    );
    server.fail_next("getFile", Fault::Silence);
    let error = bot.fetch(&attachment(small, None), 1000).await.unwrap_err();
    assert!(!error.contains("AAlocal"), "{error}");
}

#[tokio::test]
async fn p31_a_local_server_hands_out_files_of_its_own_directory_and_no_others() {
    let server = TelegramServer::start().await;
    let directory = tempfile::tempdir().unwrap();
    let write = |path: &str| {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "words").unwrap();
        path.display().to_string()
    };
    let own = write(&format!("server/{TOKEN}/documents/file_0.txt"));
    let elsewhere = write("elsewhere/file_0.txt");
    let at_home = write(&format!("home/{TOKEN}/file_0.txt"));
    let bot = |local_directory| {
        let media = throughline_platforms::media::MediaRules {
            homes: vec![directory.path().join("home")],
            ..Default::default()
        };
        let settings = TelegramSettings { local_files: true, local_directory, media, ..settings(&server) };
        Telegram::new(settings).unwrap()
    };
    let attachment = |path: &str| Attachment {
        media: Media::Document,
        handle: server.add_local_file(path),
        name: Some("notes.txt".to_owned()),
        mime: None,
        bytes: None,
    };
    let by_token = bot(None);
    assert_eq!(by_token.fetch(&attachment(&own), 1000).await.unwrap(), b"words");
    let named = bot(Some(directory.path().join("elsewhere")));
    assert_eq!(named.fetch(&attachment(&elsewhere), 1000).await.unwrap(), b"words");
    for (bot, path, says) in [
        (&by_token, &elsewhere, "local_files_dir"),
        (&by_token, &"/etc/hostname".to_owned(), "local_files_dir"),
        (&by_token, &at_home, "an agent's home"),
        (&named, &own, "local_files_dir"),
    ] {
        let error = bot.fetch(&attachment(path), 1000).await.unwrap_err();
        assert!(error.contains(says) && error.contains("notes.txt"), "{path}: {error}");
        assert!(!error.contains(TOKEN), "the path of a file has the token in it: {error}");
    }
    assert!(by_token.fetch(&attachment(&own), 3).await.unwrap_err().contains("notes.txt"));
}
