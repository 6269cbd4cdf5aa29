//! The Discord adapter, unmodified, against [`DiscordServer`].

use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_core::Time;
use throughline_core::input::{Destination, Trace};
use throughline_core::port::{Health, Outgoing, Pending, Promise, SendError};
use throughline_core::redact::Secret;
use throughline_core::tool::{Ask, Grant, Question, Verdict};
use throughline_platforms::discord::{Discord, DiscordSettings, Slash};
use throughline_platforms::{
    Adapter, Attachment, Incoming, Intake, IntakeOutcome, ListenEnded, Media, NotNow, Platform, Press,
    StopSignal,
};
use throughline_servers::discord::{Bot, DiscordServer, Failure};
use tokio::sync::watch;
use tokio::task::JoinHandle;

// ------------------------------------------------------------------------------------- the stage

/// What an intake keeps: every message once, by its identity, and the cursor.
#[derive(Default)]
struct Book {
    entries: Mutex<Vec<Incoming>>,
    /// Also what was known before.
    offered: AtomicUsize,
    ignored: AtomicUsize,
    presses: Mutex<Vec<Press>>,
    cursor: Mutex<Option<String>>,
    is_full: AtomicBool,
    /// No one is known.
    is_shut: AtomicBool,
}

impl Book {
    fn texts(&self) -> Vec<String> {
        self.entries.lock().unwrap().iter().map(|incoming| incoming.text.clone()).collect()
    }

    fn last(&self) -> Incoming {
        self.entries.lock().unwrap().last().unwrap().clone()
    }

    fn sequence(&self) -> Option<u64> {
        let cursor = self.cursor.lock().unwrap().clone()?;
        serde_json::from_str::<Value>(&cursor).unwrap()["session"]["sequence"].as_u64()
    }
}

impl Intake for Book {
    fn take(&self, incoming: Incoming) -> Promise<'_, Result<IntakeOutcome, NotNow>> {
        Box::pin(async move {
            if self.is_full.load(Ordering::SeqCst) {
                return Err(NotNow("the disk is full".into()));
            }
            if self.is_shut.load(Ordering::SeqCst) {
                self.ignored.fetch_add(1, Ordering::SeqCst);
                return Ok(IntakeOutcome::Ignored);
            }
            self.offered.fetch_add(1, Ordering::SeqCst);
            let mut entries = self.entries.lock().unwrap();
            if !entries.iter().any(|known| known.identity == incoming.identity) {
                entries.push(incoming);
            }
            Ok(IntakeOutcome::Kept)
        })
    }

    fn press(&self, press: Press) -> Promise<'_, Result<String, NotNow>> {
        self.presses.lock().unwrap().push(press);
        Box::pin(async { Ok("Allowed once.".to_owned()) })
    }

    fn cursor<'a>(&'a self, _: &'a str, _: &'a str) -> Promise<'a, Option<String>> {
        Box::pin(async { self.cursor.lock().unwrap().clone() })
    }

    fn keep<'a>(
        &'a self,
        platform: &'a str,
        account: &'a str,
        cursor: String,
    ) -> Promise<'a, Result<(), NotNow>> {
        assert_eq!(platform, "discord");
        assert!(account.parse::<u64>().is_ok());
        *self.cursor.lock().unwrap() = Some(cursor);
        Box::pin(async { Ok(()) })
    }

    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Time(since.as_micros() as i64)
    }
}

/// A process with one bot.
struct Life {
    discord: Arc<Discord>,
    rope: watch::Sender<bool>,
    task: JoinHandle<ListenEnded>,
}

impl Life {
    async fn ends(self) -> ListenEnded {
        tokio::time::timeout(Duration::from_secs(20), self.task).await.expect("it ends by itself").unwrap()
    }

    /// In order.
    async fn stops(self) {
        self.rope.send(true).unwrap();
        assert_eq!(self.ends().await, ListenEnded::Stopped);
    }

    /// As by `kill -9`.
    async fn dies(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

fn settings(server: &DiscordServer, bot: &Bot) -> DiscordSettings {
    DiscordSettings {
        rest_url: Some(server.rest_url()),
        gateway_url: Some(server.gateway_url()),
        patience: Duration::from_millis(600),
        ..DiscordSettings::new(Secret::new(bot.token.clone()))
    }
}

fn adapter(server: &DiscordServer) -> Discord {
    Discord::new(settings(server, &server.bot()))
}

fn begin_with(settings: DiscordSettings, book: &Arc<Book>) -> Life {
    let (rope, stop) = StopSignal::new();
    let discord = Arc::new(Discord::new(settings));
    let (listener, book) = (discord.clone(), book.clone());
    Life { discord, rope, task: tokio::spawn(async move { listener.listen(book, stop).await }) }
}

fn begin(server: &DiscordServer, book: &Arc<Book>) -> Life {
    begin_with(settings(server, &server.bot()), book)
}

async fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..1_500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain: {what}");
}

async fn up(life: &Life) {
    let discord = life.discord.clone();
    until("it is connected", move || discord.health() == Health::Up).await;
}

/// A server, a channel where no threads are begun, and a person who writes.
struct Scene {
    server: DiscordServer,
    book: Arc<Book>,
    guild: u64,
    channel: u64,
    alice: u64,
}

impl Scene {
    async fn set() -> Self {
        let server = DiscordServer::start().await;
        let guild = server.guild("Home");
        let channel = server.channel(guild, "general");
        let alice = server.user("alice");
        Self { server, book: Arc::default(), guild, channel, alice }
    }

    fn mention(&self) -> String {
        format!("<@{}>", self.server.bot().id)
    }

    fn say(&self, text: &str) -> u64 {
        self.server.say(self.channel, self.alice, text)
    }

    async fn hears(&self, texts: &[&str]) {
        let wanted: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let book = self.book.clone();
        for _ in 0..1_500 {
            if book.texts() == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(self.book.texts(), wanted);
    }
}

fn destination(channel: u64) -> Destination {
    Destination {
        platform: "discord".into(),
        account: "1".into(),
        chat: channel.to_string(),
        thread: None,
        reply_to: None,
    }
}

fn outgoing(key: &str, destination: Destination, text: &str) -> Outgoing {
    Outgoing {
        draft: None,
        question: None,
        key: key.into(),
        session: "s".parse().unwrap(),
        destination,
        text: text.into(),
        trace: Trace::default(),
        attempts: 0,
        attempting: None,
        attempted: None,
        marked: false,
        not_before: Time(0),
    }
}

async fn send(
    discord: &Discord,
    key: &str,
    to: Destination,
    text: &str,
) -> Result<Option<String>, SendError> {
    discord.send(&outgoing(key, to, text), None).await
}

// ------------------------------------------------------------------------------------- listening

#[tokio::test]
async fn what_is_said_is_taken_and_the_cursor_follows() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    let direct = scene.server.direct(&scene.server.bot(), scene.alice);
    scene.server.give_roles(scene.alice, &["77"]);
    scene.say("one");
    scene.server.say(direct, scene.alice, "two");
    scene.hears(&["one", "two"]).await;
    let entries = scene.book.entries.lock().unwrap().clone();
    assert_eq!(entries[0].source.chat_name.as_deref(), Some("Home / #general"));
    assert_eq!(entries[0].source.scope_id, Some(scene.guild.to_string()));
    assert_eq!(entries[0].roles, ["77", "@alice"]);
    assert!(!entries[0].addressed);
    assert_eq!(entries[1].source.chat_type, "dm");
    assert!(entries[1].addressed);
    life.stops().await;
    let sequence = scene.book.sequence().unwrap();
    assert!(sequence >= 4, "READY, the server and two messages, but {sequence}");
}

#[tokio::test]
async fn p3_a_restart_resumes_and_what_was_missed_comes_exactly_once() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    scene.say("before");
    scene.hears(&["before"]).await;
    life.stops().await;
    for text in ["missed 1", "missed 2", "missed 3"] {
        scene.say(text);
    }
    let life = begin(&scene.server, &scene.book);
    scene.hears(&["before", "missed 1", "missed 2", "missed 3"]).await;
    up(&life).await;
    assert_eq!((scene.server.identified(), scene.server.resumed()), (1, 1));
    assert_eq!(scene.book.offered.load(Ordering::SeqCst), 4, "nothing was replayed that had been taken");
    scene.say("after");
    scene.hears(&["before", "missed 1", "missed 2", "missed 3", "after"]).await;
    life.stops().await;
}

#[tokio::test]
async fn p3_after_kill_nothing_is_lost_and_nothing_counts_twice() {
    let scene = Scene::set().await;
    let mut expected = Vec::new();
    for round in 0..5 {
        let life = begin(&scene.server, &scene.book);
        up(&life).await;
        for number in 0..3 {
            let text = format!("{round}.{number}");
            scene.say(&text);
            expected.push(text);
        }
        if round % 2 == 0 {
            let (book, wanted) = (scene.book.clone(), expected.len() - 2);
            until("one of them is taken", move || book.texts().len() >= wanted).await;
        }
        life.dies().await;
    }
    let life = begin(&scene.server, &scene.book);
    scene.hears(&expected.iter().map(String::as_str).collect::<Vec<_>>()).await;
    life.stops().await;
}

#[tokio::test]
async fn p3_after_a_long_stop_the_channels_tell_what_was_missed() {
    let scene = Scene::set().await;
    let server = &scene.server;
    let direct = server.direct(&server.bot(), scene.alice);
    let thread = server.thread(scene.channel, "a thread");
    let quiet = server.channel(scene.guild, "quiet");
    server.give_roles(scene.alice, &["77"]);
    let life = begin(server, &scene.book);
    up(&life).await;
    server.say(direct, scene.alice, "before");
    scene.hears(&["before"]).await;
    life.stops().await;
    server.lose_sessions();
    server.say_unheard(direct, scene.alice, "in private");
    server.say_unheard(scene.channel, scene.alice, "in the channel 1");
    server.say_unheard(thread, scene.alice, "in the thread");
    server.say_unheard(quiet, scene.alice, "where nobody had spoken");
    server.say_unheard(scene.channel, scene.alice, "in the channel 2");
    let life = begin(server, &scene.book);
    let book = scene.book.clone();
    until("all were taken", move || book.texts().len() == 6).await;
    assert_eq!((server.identified(), server.resumed()), (2, 0));
    let texts = scene.book.texts();
    let unique: HashSet<&String> = texts.iter().collect();
    assert_eq!(unique.len(), 6);
    let place = |text: &str| texts.iter().position(|known| known == text).unwrap();
    assert!(place("in the channel 1") < place("in the channel 2"));
    let entries = scene.book.entries.lock().unwrap().clone();
    assert_eq!(entries[place("in the thread")].source.chat_type, "thread");
    assert_eq!(entries[place("in the channel 1")].roles, ["77", "@alice"]);
    assert_eq!(entries[place("in the channel 1")].source.scope_id, Some(scene.guild.to_string()));
    life.stops().await;
}

#[tokio::test]
async fn p8_a_busy_channel_is_caught_up_with_to_the_end() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    life.dies().await;
    scene.server.lose_sessions();
    for number in 0..1_050 {
        scene.server.say_unheard(scene.channel, scene.alice, &format!("missed {number}"));
    }
    let life = begin(&scene.server, &scene.book);
    let book = scene.book.clone();
    until("all were taken", move || book.texts().len() == 1_050).await;
    assert_eq!(scene.book.texts().last().map(String::as_str), Some("missed 1049"));
    life.stops().await;
}

#[tokio::test]
async fn p3_a_long_stop_right_after_the_first_start_misses_nothing_either() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    life.dies().await; // no message has come yet
    scene.server.lose_sessions();
    scene.server.say_unheard(scene.channel, scene.alice, "missed");
    let life = begin(&scene.server, &scene.book);
    scene.hears(&["missed"]).await;
    life.stops().await;
}

#[tokio::test]
async fn a_crash_while_catching_up_forgets_nothing() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    scene.say("before");
    scene.hears(&["before"]).await;
    life.stops().await;
    scene.server.lose_sessions();
    scene.server.say_unheard(scene.channel, scene.alice, "missed 1");
    scene.server.say_unheard(scene.channel, scene.alice, "missed 2");
    scene.book.is_full.store(true, Ordering::SeqCst);
    let life = begin(&scene.server, &scene.book);
    let server = &scene.server;
    until("the channel was read", || server.count("GET", "/messages") > 0).await;
    life.dies().await;
    // This time the session can be resumed, and the debt is still known.
    scene.book.is_full.store(false, Ordering::SeqCst);
    let life = begin(&scene.server, &scene.book);
    scene.hears(&["before", "missed 1", "missed 2"]).await;
    life.stops().await;
}

#[tokio::test]
async fn what_cannot_be_kept_waits_in_order_and_the_cursor_with_it() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    scene.say("one");
    scene.hears(&["one"]).await;
    let book = scene.book.clone();
    until("the cursor is kept", move || book.sequence().is_some_and(|sequence| sequence >= 3)).await;
    let before = scene.book.sequence();
    scene.book.is_full.store(true, Ordering::SeqCst);
    scene.say("two");
    scene.say("three");
    let discord = life.discord.clone();
    until(
        "status says so",
        move || matches!(discord.health(), Health::Waiting(reason) if reason.contains("the disk is full")),
    )
    .await;
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    assert_eq!(scene.book.sequence(), before);
    scene.book.is_full.store(false, Ordering::SeqCst);
    scene.hears(&["one", "two", "three"]).await;
    up(&life).await;
    life.stops().await;
}

#[tokio::test]
async fn a_revoked_token_is_refused_with_what_to_do() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    scene.server.revoke(&scene.server.bot());
    scene.server.close_all(4004);
    let discord = life.discord.clone();
    let ListenEnded::Refused(reason) = life.ends().await else { panic!("it went on") };
    assert!(reason.contains("DISCORD_BOT_TOKEN") && !reason.contains(&scene.server.bot().token));
    assert_eq!(discord.health(), Health::Refused(reason.clone()));
    // And at the start.
    assert_eq!(begin(&scene.server, &scene.book).ends().await, ListenEnded::Refused(reason));
}

#[tokio::test]
async fn an_intent_that_is_not_switched_on_is_refused_with_what_to_do() {
    for code in [4013, 4014] {
        let scene = Scene::set().await;
        scene.server.refuse_sessions(Some(code));
        let ListenEnded::Refused(reason) = begin(&scene.server, &scene.book).ends().await else {
            panic!("it went on")
        };
        assert!(reason.contains("Message Content Intent"), "{reason}");
    }
}

#[tokio::test]
async fn a_lost_connection_is_named_and_resumed() {
    for lose in [
        (|server| server.cut_all()) as fn(&DiscordServer),
        |server| server.close_all(4000),
        |server| server.ask_to_reconnect(),
        |server| server.send_bytes(b"no compression of ours\0\0\xff\xff"),
    ] {
        let scene = Scene::set().await;
        let life = begin(&scene.server, &scene.book);
        up(&life).await;
        lose(&scene.server);
        let discord = life.discord.clone();
        until("it is waiting", move || matches!(discord.health(), Health::Waiting(_))).await;
        scene.say("meanwhile");
        scene.hears(&["meanwhile"]).await;
        up(&life).await;
        assert_eq!((scene.server.identified(), scene.server.resumed()), (1, 1));
        life.stops().await;
    }
}

#[tokio::test]
async fn a_connection_that_is_only_half_there_is_noticed() {
    let scene = Scene::set().await;
    scene.server.beat_every(Duration::from_millis(300));
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    scene.server.mute();
    scene.say("into the void");
    scene.hears(&["into the void"]).await;
    assert_eq!(scene.server.resumed(), 1);
    life.stops().await;
}

#[tokio::test]
async fn a_session_that_is_over_is_begun_anew() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    scene.say("before");
    scene.hears(&["before"]).await;
    scene.server.forget_sessions();
    scene.server.say_unheard(scene.channel, scene.alice, "between");
    scene.hears(&["before", "between"]).await;
    scene.say("after");
    scene.hears(&["before", "between", "after"]).await;
    assert_eq!((scene.server.identified(), scene.server.resumed()), (2, 0));
    life.stops().await;
}

#[tokio::test]
async fn an_api_that_is_down_at_the_start_is_waited_for() {
    let scene = Scene::set().await;
    scene.server.fail_next("GET", "/users/@me", Failure::code(503, 0, "upstream"));
    scene.server.fail_next("GET", "/users/@me", Failure::Close);
    let life = begin(&scene.server, &scene.book);
    let discord = life.discord.clone();
    until("status says so", move || matches!(discord.health(), Health::Waiting(_))).await;
    up(&life).await;
    // A channel that cannot be looked up just now is looked up again.
    scene.server.fail_next("GET", "/channels/", Failure::code(500, 0, "oops"));
    scene.server.fail_next("GET", "/channels/", Failure::limited(0.1));
    scene.say("one");
    scene.hears(&["one"]).await;
    life.stops().await;
}

#[tokio::test]
async fn nonsense_and_news_from_the_future_change_nothing() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    for frame in ["", "{", "no json", "[]", "{\"op\":0}", "{\"op\":250,\"d\":{}}", "null", "{\"op\":\"x\"}"] {
        scene.server.send_raw(frame);
    }
    scene.server.dispatch("SOMETHING_NEW", json!({"id": "1"}));
    scene.server.dispatch("MESSAGE_CREATE", json!({"id": "not an id"}));
    scene.server.dispatch("MESSAGE_CREATE", json!(null));
    scene.server.dispatch("MESSAGE_CREATE", json!([1, 2]));
    scene.server.dispatch("INTERACTION_CREATE", json!({"id": "5"}));
    scene.server.dispatch("GUILD_CREATE", json!({"unavailable": true}));
    scene.server.say_with(
        scene.channel,
        scene.alice,
        json!({"content": "odd", "attachments": "none", "mentions": {}, "member": 7, "sticker_items": [{}], "flags": 0}),
    );
    scene.say("plain");
    scene.hears(&["odd", "plain"]).await;
    assert_eq!((scene.server.identified(), scene.server.resumed()), (1, 0));
    life.stops().await;
}

#[tokio::test]
async fn deliveries_that_come_twice_or_out_of_order_are_the_same_messages() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    scene.server.hold();
    let first = scene.say("first");
    scene.say("second");
    scene.server.release_reversed();
    for _ in 0..3 {
        scene.server.redeliver(scene.channel, first);
    }
    let book = scene.book.clone();
    until("all deliveries were taken", move || book.offered.load(Ordering::SeqCst) == 5).await;
    assert_eq!(scene.book.texts(), ["second", "first"]);
    life.stops().await;
    let life = begin(&scene.server, &scene.book);
    scene.server.redeliver(scene.channel, first);
    let book = scene.book.clone();
    until("the redelivery was taken", move || book.offered.load(Ordering::SeqCst) >= 6).await;
    assert_eq!(scene.book.texts().len(), 2);
    life.stops().await;
}

#[tokio::test]
async fn a_gigantic_message_arrives_whole_and_edits_and_bots_are_told_apart() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    let long = "ß".repeat(500_000);
    let id = scene.say(&long);
    scene.hears(&[&long]).await;
    scene.server.edit(scene.channel, id, "shorter");
    scene.hears(&[&long, "shorter"]).await;
    assert!(scene.book.last().edited);
    let other = scene.server.add_bot("other");
    scene.server.say(scene.channel, other.id, "beep");
    scene.hears(&[&long, "shorter", "beep"]).await;
    assert!(scene.book.last().from_bot);
    let answer = json!({"content": "why?", "message_reference": {"message_id": id.to_string()}});
    scene.server.say_with(scene.channel, scene.alice, answer);
    scene.hears(&[&long, "shorter", "beep", "why?"]).await;
    assert_eq!(scene.book.last().quoted.unwrap().text.as_deref(), Some("shorter"));
    life.stops().await;
}

#[tokio::test]
async fn a_channel_that_was_renamed_is_the_same_chat() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    scene.say("one");
    scene.hears(&["one"]).await;
    scene.server.rename(scene.channel, "offtopic");
    scene.say("two");
    scene.hears(&["one", "two"]).await;
    let entries = scene.book.entries.lock().unwrap().clone();
    assert_eq!(entries[1].source.chat_name.as_deref(), Some("Home / #offtopic"));
    let key = |incoming: &Incoming| {
        throughline_hermes::key::chat_key(&incoming.source, &Default::default()).unwrap()
    };
    assert_eq!(key(&entries[0]), key(&entries[1]));
    life.stops().await;
}

#[tokio::test]
async fn a_mention_brings_along_what_was_said_before_it() {
    let scene = Scene::set().await;
    let plain = DiscordSettings { auto_thread: false, ..settings(&scene.server, &scene.server.bot()) };
    let life = begin_with(plain, &scene.book);
    up(&life).await;
    let bob = scene.server.user("bob");
    send(&life.discord, "k", destination(scene.channel), "my last word").await.unwrap();
    scene.say("shall we?");
    scene.server.say(scene.channel, bob, "why not");
    scene.say(&format!("{} what do you think?", scene.mention()));
    scene.hears(&["shall we?", "why not", "what do you think?"]).await;
    let context = scene.book.last().context.unwrap();
    assert!(context.ends_with("[alice] shall we?\n[bob] why not"), "{context}");
    assert_eq!(scene.book.entries.lock().unwrap()[0].context, None);
    scene.server.fail_next("GET", "/messages", Failure::code(403, 50001, "Missing Access"));
    scene.say(&format!("{} well?", scene.mention()));
    scene.hears(&["shall we?", "why not", "what do you think?", "well?"]).await;
    assert_eq!(scene.book.last().context, None);
    life.stops().await;
}

// --------------------------------------------------------------------------------------- threads

#[tokio::test]
async fn a_mention_gets_one_thread_also_across_restarts() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    let message = scene.say(&format!("{} fix the build", scene.mention()));
    let server = &scene.server;
    until("the thread is there", || server.threads() == [message]).await;
    scene.server.redeliver(scene.channel, message);
    let incoming = scene.book.last();
    assert_eq!(incoming.text, "fix the build");
    send(&life.discord, "k", incoming.reply_to.clone(), "done").await.unwrap();
    assert_eq!(scene.server.sent()[0].channel, message);
    life.stops().await;
    scene.server.redeliver(scene.channel, message);
    let life = begin(&scene.server, &scene.book);
    scene.server.say(message, scene.alice, "thanks");
    scene.hears(&["fix the build", "thanks"]).await;
    let follow_up = scene.book.last();
    assert!(follow_up.addressed, "the thread is ours");
    assert_eq!(follow_up.source.chat_id, incoming.source.chat_id);
    assert_eq!(follow_up.source.thread_id, incoming.source.thread_id);
    assert!(follow_up.reply_to.is_same_place(&incoming.reply_to));
    assert_eq!(scene.server.threads(), [message]);
    life.stops().await;
}

#[tokio::test]
async fn a_stranger_gets_no_thread() {
    let scene = Scene::set().await;
    scene.book.is_shut.store(true, Ordering::SeqCst);
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    scene.say(&format!("{} hello", scene.mention()));
    let book = scene.book.clone();
    until("it was turned away", move || book.ignored.load(Ordering::SeqCst) == 1).await;
    scene.book.is_shut.store(false, Ordering::SeqCst);
    scene.say("something else");
    scene.hears(&["something else"]).await;
    assert_eq!(scene.server.count("POST", "/threads"), 0);
    life.stops().await;
}

#[tokio::test]
async fn a_reply_begins_the_thread_that_is_missing_or_goes_where_it_was_asked() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    for _ in 0..3 {
        scene.server.fail_next("POST", "/threads", Failure::code(500, 0, "oops"));
    }
    let first = scene.say(&format!("{} one", scene.mention()));
    scene.hears(&["one"]).await;
    let server = &scene.server;
    until("it was tried", || server.count("POST", "/threads") == 3).await;
    assert!(scene.server.threads().is_empty());
    send(&life.discord, "k1", scene.book.last().reply_to, "answer one").await.unwrap();
    assert_eq!(scene.server.threads(), [first]);
    assert_eq!(scene.server.sent()[0].channel, first);

    for _ in 0..2 {
        scene.server.fail_next("POST", "/threads", Failure::code(403, 50013, "Missing Permissions"));
    }
    let second = scene.say(&format!("{} two", scene.mention()));
    scene.hears(&["one", "two"]).await;
    send(&life.discord, "k2", scene.book.last().reply_to, "answer two").await.unwrap();
    let sent = scene.server.sent()[1].clone();
    assert_eq!((sent.channel, sent.reply_to), (scene.channel, Some(second)));
    life.stops().await;
}

// ------------------------------------------------------------------------ commands and questions

#[tokio::test]
async fn commands_are_registered_once_and_acknowledged_after_they_are_kept() {
    let scene = Scene::set().await;
    let commands = vec![
        Slash { name: "status".into(), description: "Where it stands".into(), takes_text: false },
        Slash { name: "model".into(), description: "Show or change the model".into(), takes_text: true },
    ];
    let bot = scene.server.bot();
    let with = DiscordSettings { commands: commands.clone(), ..settings(&scene.server, &bot) };
    let life = begin_with(with.clone(), &scene.book);
    up(&life).await;
    let server = &scene.server;
    until("they are listed", || server.commands(&bot).len() == 2).await;

    scene.book.is_full.store(true, Ordering::SeqCst);
    let typed = scene.server.command(scene.channel, scene.alice, "model", Some("gpt-5"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(scene.server.callback(typed), None);
    scene.book.is_full.store(false, Ordering::SeqCst);
    until("it is acknowledged", || server.callback(typed).is_some()).await;
    assert_eq!(scene.server.callback(typed).unwrap()["type"], 5);
    let incoming = scene.book.last();
    assert_eq!(incoming.text, "/model gpt-5");
    assert_eq!(incoming.identity, [typed.to_string()]);
    assert_eq!(incoming.source.chat_type, "group");
    assert_eq!(incoming.source.user_id, Some(scene.alice.to_string()));
    assert!(incoming.addressed);
    send(&life.discord, "k", incoming.reply_to, "done").await.unwrap();
    assert_eq!(scene.server.sent()[0].channel, scene.channel);

    scene.book.is_shut.store(true, Ordering::SeqCst);
    let refused = scene.server.command(scene.channel, scene.alice, "status", None);
    until("it is turned away", || server.callback(refused).is_some()).await;
    assert_eq!(scene.server.callback(refused).unwrap()["type"], 4);
    life.stops().await;

    let life = begin_with(with.clone(), &scene.book);
    until("they were looked at", || server.count("GET", "/commands") == 2).await;
    up(&life).await;
    assert_eq!(scene.server.count("PUT", "/commands"), 1, "they had not changed");
    life.stops().await;
    let life = begin_with(DiscordSettings { commands: commands[..1].to_vec(), ..with }, &scene.book);
    until("they are listed anew", || server.commands(&bot).len() == 1).await;
    life.stops().await;
}

#[tokio::test]
async fn a_question_has_buttons_and_a_pressed_one_comes_back() {
    let scene = Scene::set().await;
    let life = begin(&scene.server, &scene.book);
    up(&life).await;
    let approval = Question::Approval { what: "rm -r x".into(), why: "it deletes".into(), patterns: vec![] };
    let ask = Ask { question: approval, asked: Time(0), until: Time(1) };
    let call = "20260528_093510_66bfaec7/3/1/0".parse().unwrap();
    let question = Pending { call, tool: "terminal".into(), ask };
    let place = destination(scene.channel);
    let id = life.discord.put(&place, &question).await.unwrap();
    assert_eq!(
        life.discord.put(&place, &question).await.unwrap(),
        id,
        "after a restart it is the same question"
    );
    let asked = outgoing("s/3/asked", place, "May I?");
    let again = life.discord.inquire(&asked, &question, None).await.unwrap();
    assert_eq!(life.discord.inquire(&asked, &question, None).await.unwrap(), again);
    assert_eq!(scene.server.sent().len(), 2);
    let buttons = scene.server.sent()[1].body["components"][0]["components"].clone();
    let custom_id = buttons[0]["custom_id"].as_str().unwrap();
    let pressed = scene.server.press(scene.channel, scene.alice, custom_id);
    let server = &scene.server;
    until("it is answered", || server.callback(pressed).is_some()).await;
    assert_eq!(scene.server.callback(pressed).unwrap()["data"]["content"], "Allowed once.");
    let press = scene.book.presses.lock().unwrap()[0].clone();
    assert_eq!((press.call, press.verdict), (question.call, Verdict::Granted(Grant::Once)));
    assert_eq!(press.source.user_id, Some(scene.alice.to_string()));
    scene.server.press(scene.channel, scene.alice, "somebody else's");
    life.stops().await;
}

// --------------------------------------------------------------------------------------- sending

#[tokio::test]
async fn p4_the_same_key_twice_is_one_message_whatever_happened_to_the_answer() {
    let server = DiscordServer::start().await;
    let channel = server.channel(server.guild("Home"), "general");
    let discord = adapter(&server);
    let broken = json!({"message": "upstream", "code": 0});
    let failures =
        [Failure::DoAndClose, Failure::DoAndHang, Failure::DoAndAnswer { status: 502, body: broken }];
    for (number, failure) in failures.into_iter().enumerate() {
        server.fail_next("POST", "/messages", failure.clone());
        let key = format!("s/{number}");
        let lost = send(&discord, &key, destination(channel), &key).await;
        assert!(matches!(lost, Err(SendError::Unknown { .. })), "{failure:?}: {lost:?}");
        let id = send(&discord, &key, destination(channel), &key).await.unwrap().unwrap();
        assert_eq!(server.sent().len(), number + 1);
        assert_eq!(server.sent()[number].id.to_string(), id);
    }
    let sent = server.sent();
    assert!(sent.iter().all(|sent| sent.body["enforce_nonce"] == true));
    assert!(discord.is_idempotent());
    // And for no longer than Discord remembers.
    assert!(discord.key_memory().unwrap() <= Duration::from_secs(180));
    server.remember_nonces_for(Duration::ZERO);
    send(&discord, "s/0", destination(channel), "s/0").await.unwrap();
    assert_eq!(server.sent().len(), 4);
}

#[tokio::test]
async fn p4_a_reply_takes_the_place_of_its_preview_once() {
    let server = DiscordServer::start().await;
    let channel = server.channel(server.guild("Home"), "general");
    let discord = adapter(&server);
    let place = destination(channel);
    let preview = discord.post(&place, "thinking …").await.unwrap();
    let reply = outgoing("k", place.clone(), "the answer");
    server.fail_next("PATCH", "/messages", Failure::DoAndClose);
    let lost = discord.become_reply(&reply, &preview, None).await;
    assert!(matches!(lost, Err(SendError::Unknown { .. })));
    assert_eq!(discord.become_reply(&reply, &preview, None).await.unwrap(), Some(preview.clone()));
    assert_eq!(server.sent().iter().map(|sent| sent.text.as_str()).collect::<Vec<_>>(), ["the answer"]);
    discord.remove(&place, &preview).await.unwrap();
    let gone = discord.become_reply(&reply, &preview, None).await;
    assert!(matches!(gone, Err(SendError::Never { .. })));
}

#[tokio::test]
async fn a_limit_is_named_with_its_end_and_kept_without_asking_again() {
    let server = DiscordServer::start().await;
    let guild = server.guild("Home");
    let (channel, other) = (server.channel(guild, "general"), server.channel(guild, "other"));
    let discord = adapter(&server);
    server.fail_next("POST", "/messages", Failure::limited(0.3));
    let limited = send(&discord, "a", destination(channel), "a").await;
    let Err(SendError::Later { after: Some(after), .. }) = limited else { panic!("{limited:?}") };
    assert_eq!(after, Duration::from_millis(300));
    send(&discord, "a", destination(channel), "a").await.unwrap(); // waits for it

    server.fail_next("POST", "/messages", Failure::limited(40.0));
    send(&discord, "b", destination(channel), "b").await.unwrap_err();
    let asked = server.count("POST", "/messages");
    let again = send(&discord, "b", destination(channel), "b").await;
    assert!(
        matches!(&again, Err(SendError::Later { after: Some(after), .. }) if after.as_secs() > 30),
        "{again:?}"
    );
    assert_eq!(server.count("POST", "/messages"), asked);
    // Other chats do not notice.
    send(&discord, "c", destination(other), "c").await.unwrap();
}

#[tokio::test]
async fn refusals_are_for_good_and_for_their_chat_only() {
    let server = DiscordServer::start().await;
    let guild = server.guild("Home");
    let (channel, deleted) = (server.channel(guild, "general"), server.channel(guild, "gone"));
    let discord = adapter(&server);
    for (status, code) in [(403, 50001), (403, 50007), (403, 50013), (404, 10003), (400, 50035), (413, 40005)]
    {
        server.fail_next("POST", "/messages", Failure::code(status, code, "No"));
        let refused = send(&discord, "k", destination(channel), "hello").await;
        let Err(SendError::Never { message }) = refused else { panic!("{status} {code}: {refused:?}") };
        assert!(message.contains(&code.to_string()) && message.contains(&channel.to_string()), "{message}");
    }
    server.delete_channel(deleted);
    let gone = send(&discord, "k", destination(deleted), "hello").await;
    assert!(matches!(gone, Err(SendError::Never { .. })));
    for (status, code) in [(401, 0), (403, 0), (409, 0)] {
        server.fail_next("POST", "/messages", Failure::code(status, code, "Not now"));
        let later = send(&discord, "k", destination(channel), "hello").await;
        assert!(matches!(later, Err(SendError::Later { .. })), "{status}: {later:?}");
    }
    send(&discord, "k", destination(channel), "hello").await.unwrap();
    let address = server.rest_url();
    drop(server);
    let nobody =
        Discord::new(DiscordSettings { rest_url: Some(address), ..DiscordSettings::new(Secret::new("t")) });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let unreachable = send(&nobody, "k", destination(channel), "hello").await;
    assert!(matches!(unreachable, Err(SendError::Later { .. })), "{unreachable:?}");
}

#[tokio::test]
async fn a_reply_shows_what_it_answers_and_rings_for_nobody_else() {
    let scene = Scene::set().await;
    let discord = adapter(&scene.server);
    let question = scene.say("question");
    let to = |message: u64| Destination { reply_to: Some(message.to_string()), ..destination(scene.channel) };
    send(&discord, "k", to(question), "@everyone look").await.unwrap();
    send(&discord, "k+2", to(question), "second part").await.unwrap();
    scene.server.fail_next("POST", "/messages", Failure::code(404, 10008, "Unknown Message"));
    send(&discord, "l", to(question), "what it answered is gone").await.unwrap();
    send(&discord, "m", to(12345), "what it answers never was").await.unwrap();
    let sent = scene.server.sent();
    assert_eq!(sent.iter().map(|sent| sent.reply_to).collect::<Vec<_>>(), [Some(question), None, None, None]);
    assert_eq!(sent[0].body["allowed_mentions"], json!({"parse": ["users"], "replied_user": true}));
    assert!(sent[0].body.get("flags").is_none());
}

#[tokio::test]
async fn a_gigantic_reply_leaves_in_parts_and_a_marked_one_still_fits() {
    let server = DiscordServer::start().await;
    let channel = server.channel(server.guild("Home"), "general");
    let discord = adapter(&server);
    let text = format!("Look:\n```python\n{}```\nand {}", "print('ß😀')\n".repeat(1_000), "x".repeat(5_000));
    let parts = discord.parts(&text);
    assert!(parts.len() > 9);
    for (number, part) in parts.iter().enumerate() {
        let outgoing = outgoing(&format!("k+{}", number + 2), destination(channel), part);
        discord.send(&outgoing, Some("♻️ (sent again; you may have seen this)")).await.unwrap();
    }
    assert_eq!(server.sent().len(), parts.len());
}

#[tokio::test]
async fn files_leave_and_come_in() {
    let server = DiscordServer::start().await;
    let channel = server.channel(server.guild("Home"), "general");
    let discord = adapter(&server);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plot.png");
    std::fs::write(&path, b"pixels").unwrap();
    let part = format!("MEDIA:{}", path.display());
    assert_eq!(discord.parts(&format!("Here it is.\n{part}")), ["Here it is.\n", part.as_str()]);
    server.fail_next("POST", "/messages", Failure::DoAndClose);
    let lost = send(&discord, "k", destination(channel), &part).await;
    assert!(matches!(lost, Err(SendError::Unknown { .. })));
    send(&discord, "k", destination(channel), &part).await.unwrap();
    assert_eq!(server.sent().len(), 1);
    assert_eq!(server.sent()[0].files, [("plot.png".to_owned(), b"pixels".to_vec())]);
    let gone = send(&discord, "l", destination(channel), "MEDIA:/nowhere/at/all.png").await;
    assert!(matches!(gone, Err(SendError::Never { .. })));

    let file = |url: String| Attachment {
        media: Media::Image,
        handle: url,
        name: Some("a.png".into()),
        mime: None,
        bytes: None,
    };
    let at_hand = file(server.attachment("a.png", b"0123456789"));
    assert_eq!(discord.fetch(&at_hand, 100).await.unwrap(), b"0123456789");
    assert!(discord.fetch(&at_hand, 5).await.is_err());
    let expired = file(server.attachment("expired-b.png", b"late"));
    assert_eq!(discord.fetch(&expired, 100).await.unwrap(), b"late");
    assert!(discord.fetch(&file("http://127.0.0.1:1/a.png".into()), 100).await.is_err());
}

#[tokio::test]
async fn courtesies_work_and_their_failures_are_nobodys_problem() {
    let scene = Scene::set().await;
    let discord = adapter(&scene.server);
    let message = scene.say("hello");
    let place = destination(scene.channel);
    discord.typing(&place).await;
    assert_eq!(scene.server.count("POST", "/typing"), 1);
    discord.react(&place, &message.to_string(), "👀").await;
    assert_eq!(scene.server.reactions(message), ["👀"]);
    discord.react(&place, &message.to_string(), "✅").await;
    assert_eq!(scene.server.reactions(message), ["✅"]);
    discord.react(&place, &message.to_string(), "").await;
    assert!(scene.server.reactions(message).is_empty());
    let draft = discord.post(&place, "thinking").await.unwrap();
    discord.edit(&place, &draft, &"long ".repeat(1_000)).await.unwrap();
    assert!(scene.server.sent()[0].text.starts_with("long long"));
    discord.remove(&place, &draft).await.unwrap();
    discord.remove(&place, &draft).await.unwrap();
    assert!(scene.server.sent().is_empty());
    assert!(matches!(discord.edit(&place, &draft, "x").await, Err(SendError::Never { .. })));
    scene.server.fail_next("POST", "/typing", Failure::DoAndClose);
    discord.typing(&place).await;
    discord.react(&place, "nonsense", "👀").await;
}

#[tokio::test]
async fn nine_bots_in_one_channel_hear_each_other_and_themselves_never() {
    let scene = Scene::set().await;
    let bots: Vec<Bot> = (0..9)
        .map(|number| if number == 0 { scene.server.bot() } else { scene.server.add_bot("bot") })
        .collect();
    let mut lives = Vec::new();
    for bot in &bots {
        let book = Arc::new(Book::default());
        let life = begin_with(settings(&scene.server, bot), &book);
        up(&life).await;
        lives.push((life, book));
    }
    for (number, (life, _)) in lives.iter().enumerate() {
        send(&life.discord, &format!("k{number}"), destination(scene.channel), &format!("I am {number}"))
            .await
            .unwrap();
    }
    for (number, (life, book)) in lives.into_iter().enumerate() {
        let heard = book.clone();
        until("all others were heard", move || heard.texts().len() == 8).await;
        assert!(!book.texts().contains(&format!("I am {number}")));
        assert!(book.entries.lock().unwrap().iter().all(|incoming| incoming.from_bot));
        life.stops().await;
    }
}
