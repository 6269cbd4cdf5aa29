//! Chat platforms with the real binary, against local servers that speak their protocols.
//!
//! The process is killed at every step of the way in and out: the outside stands still there until it is
//! dead. The judges are what the platform was told, what Hermes' tables hold, and what people can read.

use crate::gateway::{Gateway, Launch, Place};
use crate::model::{ModelServer, last};
use crate::peers;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use throughline_servers::discord::{Bot, DiscordServer, Failure};
use throughline_servers::slack::{self, Fault, SlackServer};
use throughline_servers::telegram::{self, Chat, TOKEN, TelegramServer, User};
use tokio::runtime::Runtime;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// For servers that want one.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// How many rows of a home there are, while its gateway runs.
fn count(place: &Place, sql: &str, text: &str) -> usize {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let conn = Connection::open_with_flags(place.file("home/state.db"), flags).unwrap();
    conn.busy_timeout(PATIENCE).unwrap();
    conn.query_row(sql, [format!("%{text}%")], |row| row.get::<_, u32>(0)).unwrap() as usize
}

const KEPT: &str = "SELECT count(*) FROM tl_inbox WHERE envelope LIKE ?1 OR EXISTS (
    SELECT 1 FROM messages m WHERE m.id = tl_inbox.message AND m.content LIKE ?1)";
const ASKED: &str = "SELECT count(*) FROM messages WHERE role = 'user' AND content LIKE ?1";
const ANSWERED: &str = "SELECT count(*) FROM messages WHERE role = 'assistant' AND content LIKE ?1";
const UNSETTLED: &str = "SELECT (SELECT count(*) FROM tl_inbox WHERE state < 2 AND envelope LIKE ?1)
    + (SELECT count(*) FROM tl_outbox WHERE state < 2 AND text LIKE ?1)";

// --------------------------------------------------------------------------------- killed at each step

/// A platform that people write on, and a gateway that listens there.
struct World<Server> {
    server: Server,
    place: Place,
    model: ModelServer,
    launch: Launch,
    /// The servers' tasks run here: it goes last.
    _runtime: Runtime,
}

/// What every platform can do.
trait Local: Sized {
    fn begin() -> impl Future<Output = Self>;
    /// `platforms:` in the configuration, and what is in `.env`.
    fn settings(&self) -> (String, String);
    fn is_connected(&self) -> bool;
    /// A person writes to the bot, in a chat of its own. Returns the message's name.
    fn say(&self, text: &str) -> String;
    /// The platform tells of it once more.
    fn tell_again(&self, message: &str);
    fn hold(&self);
    fn release(&self);
    /// Nothing goes wrong any more.
    fn heal(&self);
    fn hung(&self) -> usize;
    /// Everything was acknowledged, where the platform is told so.
    fn is_heard(&self) -> bool;
    fn is_acknowledged(&self, message: &str) -> bool;
    /// What people can read of the bot.
    fn shown(&self) -> Vec<String>;
}

/// Every server can be made to stand still, and tells how often it did, under the same names.
macro_rules! stands_still_with {
    ($server:tt) => {
        fn hold(&self) {
            self.$server.hold();
        }

        fn release(&self) {
            self.$server.release();
        }

        fn heal(&self) {
            self.$server.heal();
        }

        fn hung(&self) -> usize {
            self.$server.hung()
        }
    };
}

/// A step, and how the outside stands still there.
struct Moment<Server> {
    name: &'static str,
    /// It is said while the process is down.
    is_early: bool,
    arm: fn(&World<Server>, &str),
    /// None: before anything was told.
    reached: Option<fn(&World<Server>, &Before) -> bool>,
}

/// How things stood when the outside was armed, and the message that is on its way.
struct Before {
    message: String,
    hung: usize,
    asked: usize,
    answered: usize,
    shown: usize,
}

fn nothing<Server>(_: &World<Server>, _: &str) {}

fn hold_the_model<Server>(world: &World<Server>, _: &str) {
    world.model.hold();
}

fn hangs<Server: Local>(world: &World<Server>, before: &Before) -> bool {
    world.server.hung() > before.hung
}

fn asks<Server>(world: &World<Server>, before: &Before) -> bool {
    world.model.requests().len() > before.asked
}

fn was_answered<Server>(world: &World<Server>, before: &Before) -> bool {
    world.model.answered() > before.answered
}

fn has_replied<Server: Local>(world: &World<Server>, before: &Before) -> bool {
    world.server.shown().len() > before.shown
}

impl<Server: Local> World<Server> {
    fn new() -> Self {
        let (place, runtime) = (Place::new(), runtime());
        let server = runtime.block_on(Server::begin());
        let model = ModelServer::start(Duration::ZERO);
        let (platforms, variables) = server.settings();
        let config = format!("model: {}\nplatforms: {platforms}\n", model.setting("test-model"));
        place.write("home/config.yaml", config);
        place.write("home/.env", variables);
        let launch = place.launch();
        Self { server, place, model, launch, _runtime: runtime }
    }

    fn start(&self) -> Gateway {
        let gateway = self.launch.start();
        until("it is connected", || self.server.is_connected());
        gateway
    }

    /// Nothing is left to do.
    fn is_quiet(&self) -> bool {
        count(&self.place, UNSETTLED, "") == 0
    }

    /// What is shown of a reply: plain, and marked as sent again.
    fn replies(&self, text: &str) -> (usize, usize) {
        let shown = self.server.shown().into_iter().filter(|shown| shown.ends_with(text));
        let (marked, plain): (Vec<_>, Vec<_>) = shown.partition(|shown| shown.contains("sent again"));
        (plain.len(), marked.len())
    }

    /// The gateway listens no more, and the platform knows.
    fn kill(&self, gateway: Gateway) {
        gateway.kill();
        until("it is gone", || !self.server.is_connected());
    }

    /// One message through one death. Returns its name and its text.
    fn survives(&self, moment: &Moment<Server>) -> (String, String) {
        let text = format!("killed {}.", moment.name);
        let gateway = (!moment.is_early).then(|| self.start());
        self.server.hold();
        let message = self.server.say(&text);
        (moment.arm)(self, &message);
        let before = Before {
            hung: self.server.hung(),
            asked: self.model.requests().len(),
            answered: self.model.answered(),
            shown: self.server.shown().len(),
            message,
        };
        let gateway = gateway.unwrap_or_else(|| self.launch.spawn());
        if let Some(reached) = moment.reached {
            for _ in 0..2 {
                self.server.tell_again(&before.message);
            }
            self.server.release();
            until(moment.name, || reached(self, &before));
        }
        self.kill(gateway);
        self.server.release();
        self.server.heal();
        self.model.release();

        let gateway = self.start();
        // What is acknowledged does not come again by itself.
        if self.server.is_acknowledged(&before.message) {
            assert!(count(&self.place, KEPT, &text) > 0, "{text} It was acknowledged, and is not stored");
        }
        for _ in 0..3 {
            self.server.tell_again(&before.message);
            until("it is heard", || self.server.is_heard());
        }
        until(&text, || self.replies(&text) != (0, 0) && self.is_quiet());
        self.kill(gateway);
        (before.message, text)
    }
}

/// How often each reply is there, plain and marked, by what it answers.
type Replies = BTreeMap<String, (usize, usize)>;

/// Where it was killed before a reply was begun, nothing is sent again.
fn came_once(replies: &Replies, moments: &[&str]) {
    for moment in moments {
        assert_eq!(replies[&format!("killed {moment}.")], (1, 0), "{moment}: {replies:?}");
    }
}

/// Every moment in a world of its own would be as good, and slower.
fn through<Server: Local>(is_keyed: bool, moments: &[Moment<Server>]) -> Replies {
    let world = World::<Server>::new();
    world.kill(world.start()); // there is something to go on with
    let survivors: Vec<_> = moments.iter().map(|moment| world.survives(moment)).collect();
    let gateway = world.start();
    survivors.iter().for_each(|(message, _)| world.server.tell_again(message));
    // What is told is taken in order: with the last word everything was.
    const LAST: &str = "not killed at all.";
    world.server.say(LAST);
    until("the last reply", || world.replies(LAST) != (0, 0) && world.server.is_heard() && world.is_quiet());
    let mut replies = Replies::new();
    for text in survivors.iter().map(|(_, text)| text.as_str()).chain([LAST]) {
        let in_home = |sql| count(&world.place, sql, text);
        assert_eq!((in_home(ASKED), in_home(ANSWERED)), (1, 1), "{text} It is one turn");
        let (plain, marked) = world.replies(text);
        match is_keyed {
            true => assert_eq!((plain, marked), (1, 0), "{text} {:?}", world.server.shown()),
            false => assert!(plain <= 1 && marked <= 1, "{text} {:?}", world.server.shown()),
        }
        replies.insert(text.to_owned(), (plain, marked));
    }
    assert_eq!(replies[LAST], (1, 0), "no kill hit that one: {:?}", world.server.shown());
    assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
    assert!(gateway.stop().success());
    replies
}

// --------------------------------------------------------------------------------------------- Discord

struct Discord {
    server: DiscordServer,
    channel: u64,
    person: u64,
}

impl Discord {
    fn fails(world: &World<Self>, method: &str, path: &str, failure: Failure) {
        world.server.server.fail_next(method, path, failure);
    }
}

impl Local for Discord {
    async fn begin() -> Self {
        let server = DiscordServer::start().await;
        let guild = server.guild("home");
        let (channel, person) = (server.channel(guild, "general"), server.user("ada"));
        Self { server, channel, person }
    }

    fn settings(&self) -> (String, String) {
        let (rest, gateway) = (self.server.rest_url(), self.server.gateway_url());
        let platforms = format!("{{discord: {{extra: {{base_url: '{rest}', gateway_url: '{gateway}'}}}}}}");
        let token = self.server.bot().token;
        (platforms, format!("DISCORD_BOT_TOKEN={token}\nDISCORD_ALLOWED_USERS=Ada\n"))
    }

    fn is_connected(&self) -> bool {
        self.server.connections() > 0
    }

    /// A person who names the bot gets a thread, and so a session.
    fn say(&self, text: &str) -> String {
        let text = format!("<@{}> {text}", self.server.bot().id);
        self.server.say(self.channel, self.person, &text).to_string()
    }

    fn tell_again(&self, message: &str) {
        self.server.redeliver(self.channel, message.parse().unwrap());
    }

    stands_still_with!(server);

    fn is_heard(&self) -> bool {
        true // without a sign
    }

    fn is_acknowledged(&self, message: &str) -> bool {
        self.server.acknowledged().contains(&message.parse().unwrap())
    }

    fn shown(&self) -> Vec<String> {
        self.server.sent().into_iter().map(|sent| sent.text).collect()
    }
}

#[test]
fn p7_p8_on_discord_kill_9_at_any_step_of_the_way_in_loses_and_doubles_nothing() {
    through::<Discord>(
        true,
        &[
            Moment { name: "before anything was told", is_early: false, arm: nothing, reached: None },
            Moment {
                name: "while its channel was looked up",
                is_early: false,
                arm: |world, _| Discord::fails(world, "GET", "/channels/", Failure::Hang),
                reached: Some(hangs),
            },
            Moment {
                name: "before its thread was begun",
                is_early: false,
                arm: |world, id| Discord::fails(world, "POST", &format!("{id}/threads"), Failure::Hang),
                reached: Some(hangs),
            },
            Moment {
                name: "when its thread was begun",
                is_early: false,
                arm: |world, id| Discord::fails(world, "POST", &format!("{id}/threads"), Failure::DoAndHang),
                reached: Some(hangs),
            },
            Moment {
                name: "while the bot learned who it is",
                is_early: true,
                arm: |world, _| Discord::fails(world, "GET", "/users/@me", Failure::Hang),
                reached: Some(hangs),
            },
            Moment {
                name: "when its session went on",
                is_early: true,
                arm: nothing,
                reached: Some(|world, _| world.server.is_connected()),
            },
        ],
    );
}

#[test]
fn p8_p10_on_discord_kill_9_at_any_step_of_the_way_out_and_every_reply_comes_once() {
    through::<Discord>(
        true,
        &[
            Moment {
                name: "while the model thought",
                is_early: false,
                arm: hold_the_model,
                reached: Some(asks),
            },
            Moment {
                name: "when the model had answered",
                is_early: false,
                arm: nothing,
                reached: Some(was_answered),
            },
            Moment {
                name: "while it put a sign on it",
                is_early: false,
                arm: |world, id| Discord::fails(world, "PUT", &format!("{id}/reactions"), Failure::Hang),
                reached: Some(hangs),
            },
            Moment {
                name: "before the reply was there",
                is_early: false,
                arm: |world, id| {
                    Discord::fails(world, "POST", &format!("/channels/{id}/messages"), Failure::Hang);
                },
                reached: Some(hangs),
            },
            Moment {
                name: "when the reply was there",
                is_early: false,
                arm: |world, id| {
                    Discord::fails(world, "POST", &format!("/channels/{id}/messages"), Failure::DoAndHang);
                },
                reached: Some(hangs),
            },
            Moment {
                name: "when it heard of that",
                is_early: false,
                arm: nothing,
                reached: Some(has_replied),
            },
        ],
    );
}

// ----------------------------------------------------------------------------------------------- Slack

struct Slack(SlackServer);

impl Slack {
    fn fails(world: &World<Self>, method: &str, fault: Fault) {
        world.server.0.fail_next(method, fault);
    }
}

impl Local for Slack {
    async fn begin() -> Self {
        // Slack gives up after four deliveries: with time for each, nothing depends on how busy we are.
        Self(SlackServer::start_with(Duration::from_secs(20)).await)
    }

    fn settings(&self) -> (String, String) {
        let platforms = format!("{{slack: {{extra: {{base_url: '{}'}}}}}}", self.0.base());
        let (bot, app) = (slack::BOT_TOKEN, slack::APP_TOKEN);
        let variables = format!("SLACK_BOT_TOKEN={bot}\nSLACK_APP_TOKEN={app}\nSLACK_ALLOWED_USERS=U1\n");
        (platforms, variables)
    }

    fn is_connected(&self) -> bool {
        self.0.connections() > 0
    }

    fn say(&self, text: &str) -> String {
        self.0.say("C1", "U1", &format!("<@{}> {text}", slack::BOT_USER))
    }

    fn tell_again(&self, message: &str) {
        self.0.deliver_again(message);
    }

    stands_still_with!(0);

    fn is_heard(&self) -> bool {
        self.0.undelivered() == 0
    }

    fn is_acknowledged(&self, message: &str) -> bool {
        self.0.is_acknowledged(message)
    }

    fn shown(&self) -> Vec<String> {
        self.0.sent().into_iter().map(|sent| sent.text).collect()
    }
}

#[test]
fn p7_p8_on_slack_kill_9_at_any_step_of_the_way_in_loses_and_doubles_nothing() {
    let replies = through::<Slack>(
        false,
        &[
            Moment { name: "before anything was told", is_early: false, arm: nothing, reached: None },
            Moment {
                name: "when it was told",
                is_early: false,
                arm: nothing,
                reached: Some(|world, before| world.server.0.attempts(&before.message) > 0),
            },
            Moment {
                name: "while its author was looked up",
                is_early: false,
                arm: |world, _| Slack::fails(world, "users.info", Fault::Hang),
                reached: Some(hangs),
            },
            Moment {
                name: "when it was acknowledged",
                is_early: false,
                arm: nothing,
                reached: Some(|world, before| world.server.is_acknowledged(&before.message)),
            },
            Moment {
                name: "while the bot learned who it is",
                is_early: true,
                arm: |world, _| Slack::fails(world, "auth.test", Fault::Hang),
                reached: Some(hangs),
            },
            Moment {
                name: "while it asked where to connect",
                is_early: true,
                arm: |world, _| Slack::fails(world, "apps.connections.open", Fault::Hang),
                reached: Some(hangs),
            },
        ],
    );
    came_once(
        &replies,
        &[
            "before anything was told",
            "while its author was looked up",
            "while the bot learned who it is",
            "while it asked where to connect",
        ],
    );
}

#[test]
fn p8_p10_on_slack_kill_9_at_any_step_of_the_way_out_and_what_comes_again_says_so() {
    let replies = through::<Slack>(
        false,
        &[
            Moment {
                name: "while the model thought",
                is_early: false,
                arm: hold_the_model,
                reached: Some(asks),
            },
            Moment {
                name: "when the model had answered",
                is_early: false,
                arm: nothing,
                reached: Some(was_answered),
            },
            Moment {
                name: "while it put a sign on it",
                is_early: false,
                arm: |world, _| Slack::fails(world, "reactions.add", Fault::Hang),
                reached: Some(hangs),
            },
            Moment {
                name: "before the reply was there",
                is_early: false,
                arm: |world, _| Slack::fails(world, "chat.postMessage", Fault::Hang),
                reached: Some(hangs),
            },
            Moment {
                name: "when the reply was there",
                is_early: false,
                arm: |world, _| Slack::fails(world, "chat.postMessage", Fault::Silence),
                reached: Some(hangs),
            },
            Moment {
                name: "when it heard of that",
                is_early: false,
                arm: nothing,
                reached: Some(has_replied),
            },
        ],
    );
    // The gateway cannot know which of the two it was: both come again, and only one of them twice.
    assert_eq!(replies["killed before the reply was there."], (0, 1));
    assert_eq!(replies["killed when the reply was there."], (1, 1));
    assert_eq!(replies["killed while the model thought."], (1, 0));
}

// -------------------------------------------------------------------------------------------- Telegram

/// Each person has a chat of their own.
struct Telegram {
    server: TelegramServer,
    people: AtomicI64,
}

impl Telegram {
    fn fails(world: &World<Self>, method: &str, fault: telegram::Fault) {
        world.server.server.fail_next(method, fault);
    }

    /// Chat and number of a message.
    fn place(message: &str) -> (i64, i64) {
        let (chat, number) = message.split_once('/').unwrap();
        (chat.parse().unwrap(), number.parse().unwrap())
    }
}

impl Local for Telegram {
    async fn begin() -> Self {
        Self { server: TelegramServer::start_now(), people: AtomicI64::new(1000) }
    }

    fn settings(&self) -> (String, String) {
        let platforms = format!("{{telegram: {{extra: {{base_url: '{}/bot'}}}}}}", self.server.url());
        (platforms, format!("TELEGRAM_BOT_TOKEN={TOKEN}\nGATEWAY_ALLOW_ALL_USERS=true\n"))
    }

    fn is_connected(&self) -> bool {
        self.server.is_polled()
    }

    fn say(&self, text: &str) -> String {
        let person = self.people.fetch_add(1, Ordering::Relaxed);
        let number = self.server.say(&Chat::private(person, "Ada"), &User::new(person, "Ada"), text);
        format!("{person}/{number}")
    }

    fn tell_again(&self, message: &str) {
        let (chat, number) = Self::place(message);
        self.server.tell_again(chat, number);
    }

    stands_still_with!(server);

    fn is_heard(&self) -> bool {
        self.server.unacknowledged() == 0
    }

    fn is_acknowledged(&self, message: &str) -> bool {
        let (chat, number) = Self::place(message);
        self.server.is_acknowledged(chat, number)
    }

    fn shown(&self) -> Vec<String> {
        let sent = self.server.sent().into_iter().filter(|sent| !sent.deleted);
        sent.map(|sent| sent.text).collect()
    }
}

#[test]
fn p7_p8_on_telegram_kill_9_at_any_step_of_the_way_in_loses_and_doubles_nothing() {
    let replies = through::<Telegram>(
        false,
        &[
            Moment { name: "before anything was told", is_early: false, arm: nothing, reached: None },
            Moment {
                name: "when it was taken in and not acknowledged",
                is_early: false,
                // The question that is open gives it out; the next one would acknowledge it.
                arm: |world, _| Telegram::fails(world, "getUpdates", telegram::Fault::Silence),
                reached: Some(hangs),
            },
            Moment {
                name: "when it was acknowledged",
                is_early: false,
                arm: nothing,
                reached: Some(|world, before| world.server.is_acknowledged(&before.message)),
            },
            Moment {
                name: "while the bot learned who it is",
                is_early: true,
                arm: |world, _| Telegram::fails(world, "getMe", telegram::Fault::Silence),
                reached: Some(hangs),
            },
            Moment {
                name: "while it made sure that no other account is called",
                is_early: true,
                arm: |world, _| Telegram::fails(world, "deleteWebhook", telegram::Fault::Silence),
                reached: Some(hangs),
            },
            Moment {
                name: "when it first asked for news",
                is_early: true,
                arm: |world, _| Telegram::fails(world, "getUpdates", telegram::Fault::Silence),
                reached: Some(hangs),
            },
            Moment {
                name: "when the news were on their way",
                is_early: true,
                arm: |world, _| Telegram::fails(world, "getUpdates", telegram::Fault::SilenceAfter),
                reached: Some(hangs),
            },
        ],
    );
    came_once(
        &replies,
        &[
            "before anything was told",
            "while the bot learned who it is",
            "while it made sure that no other account is called",
            "when it first asked for news",
            "when the news were on their way",
        ],
    );
}

#[test]
fn p8_p10_on_telegram_kill_9_at_any_step_of_the_way_out_and_what_comes_again_says_so() {
    let replies = through::<Telegram>(
        false,
        &[
            Moment {
                name: "while the model thought",
                is_early: false,
                arm: hold_the_model,
                reached: Some(asks),
            },
            Moment {
                name: "when the model had answered",
                is_early: false,
                arm: nothing,
                reached: Some(was_answered),
            },
            Moment {
                name: "while it showed that it writes",
                is_early: false,
                arm: |world, _| {
                    world.model.hold();
                    Telegram::fails(world, "sendChatAction", telegram::Fault::Silence);
                },
                reached: Some(hangs),
            },
            Moment {
                name: "before the reply was there",
                is_early: false,
                arm: |world, _| Telegram::fails(world, "sendMessage", telegram::Fault::Silence),
                reached: Some(hangs),
            },
            Moment {
                name: "when the reply was there",
                is_early: false,
                arm: |world, _| Telegram::fails(world, "sendMessage", telegram::Fault::SilenceAfter),
                reached: Some(hangs),
            },
            Moment {
                name: "when it heard of that",
                is_early: false,
                arm: nothing,
                reached: Some(has_replied),
            },
        ],
    );
    // The gateway cannot know which of the two it was: both come again, and only one of them twice.
    assert_eq!(replies["killed before the reply was there."], (0, 1));
    assert_eq!(replies["killed when the reply was there."], (1, 1));
    assert_eq!(replies["killed while the model thought."], (1, 0));
}

// ----------------------------------------------------------------------------------- nine in one channel

/// One of nine, each a process with a home and a bot of its own.
struct Member {
    bot: Bot,
    place: Place,
    launch: Launch,
}

impl Member {
    /// All are of one user, and keep their ledger in `state`.
    fn new(
        server: &DiscordServer,
        model: &ModelServer,
        bot: Bot,
        (nth, turns): (usize, usize),
        person: u64,
        state: &Place,
    ) -> Self {
        let place = Place::new();
        let (rest, gateway) = (server.rest_url(), server.gateway_url());
        let config = format!(
            "model: {}\nplatforms: {{discord: {{extra: {{base_url: '{rest}', gateway_url: '{gateway}'}}}}}}\n\
             throughline: {{chain_platforms: {{discord: {{turns_max: {turns}}}}}}}\n",
            model.setting(&format!("agent-{nth}"))
        );
        place.write("home/config.yaml", config);
        let variables = format!(
            "DISCORD_BOT_TOKEN={}\nDISCORD_ALLOWED_USERS={person}\nDISCORD_ALLOW_BOTS=mentions\n\
             DISCORD_AUTO_THREAD=false\nDISCORD_HISTORY_BACKFILL=false\n",
            bot.token
        );
        place.write("home/.env", variables);
        let launch = place.launch().env("XDG_STATE_HOME", state.file("state"));
        Self { bot, place, launch }
    }

    fn is_told(&self, message: &Value) -> bool {
        let id = self.bot.id.to_string();
        let mut mentioned = message["mentions"].as_array().into_iter().flatten();
        message["author"]["id"] != id.as_str() && mentioned.any(|user| user["id"] == id.as_str())
    }

    /// What of the channel was said to this one: each is in its inbox, once, and settled.
    fn has_settled(&self, channel: &[Value]) -> bool {
        let told = channel.iter().filter(|message| self.is_told(message)).count();
        // That a chain was cut comes in as a notice, and was not said in the channel.
        let settled = "SELECT count(*) FROM tl_inbox WHERE state = 2 AND envelope LIKE ?1
                       AND envelope NOT LIKE '%\"notice\":%'";
        let settled = count(&self.place, settled, "");
        told == settled && count(&self.place, UNSETTLED, "") == 0
    }
}

/// Every answer names the next of them, and an answer mentions whom it answers: left to themselves they would
/// never stop.
#[test]
fn p6_p8_nine_processes_in_one_channel_come_to_rest_and_nothing_is_lost() {
    const NINE: usize = 9;
    const CHAIN_TURNS: usize = 40;
    let state = Place::new();
    let runtime = runtime();
    let server = runtime.block_on(DiscordServer::start());
    let guild = server.guild("home");
    let (channel, person) = (server.channel(guild, "general"), server.user("ada"));
    let others = (1..NINE).map(|nth| server.add_bot(&format!("agent{nth}")));
    let bots: Vec<Bot> = [server.bot()].into_iter().chain(others).collect();
    let ids: Vec<u64> = bots.iter().map(|bot| bot.id).collect();
    let next = ids.clone();
    let model = ModelServer::saying(Duration::ZERO, move |request| {
        let name = request["model"].as_str().unwrap_or_default();
        let nth: usize = name.trim_start_matches("agent-").parse().unwrap();
        match last(request).contains("enough") {
            true => "So be it.".to_owned(),
            false => format!("I wonder. <@{}>?", next[(nth + 1) % NINE]),
        }
    });
    let members: Vec<Member> = bots
        .into_iter()
        .enumerate()
        .map(|(nth, bot)| Member::new(&server, &model, bot, (nth, CHAIN_TURNS), person, &state))
        .collect();
    let mut gateways: Vec<Gateway> = members.iter().map(|member| member.launch.spawn()).collect();
    until("all are connected", || server.connections() == NINE);

    let is_quiet = || {
        let before = server.messages(channel);
        members.iter().all(|member| member.has_settled(&before)) && server.messages(channel) == before
    };
    let all: String = ids.iter().map(|id| format!("<@{id}> ")).collect();
    let question = server.say(channel, person, &format!("{all} what is this?"));
    until("they talk", || server.sent().len() > 2 * NINE);
    gateways.remove(4).kill();
    gateways.insert(4, members[4].launch.spawn());
    until("they come to rest", is_quiet);

    let sent = server.sent();
    for (nth, id) in ids.iter().enumerate() {
        let mine = || sent.iter().filter(|sent| sent.bot == *id);
        let answers =
            mine().filter(|sent| sent.reply_to == Some(question) && sent.text.contains("I wonder."));
        assert_eq!(answers.count(), 1, "agent {nth}: {sent:?}");
        assert!(mine().count() >= 2, "agent {nth} wrote {} times", mine().count());
    }
    // All of it follows from one message, and is one budget for all nine: a turn of each for the person, those that
    // bots have begun, one notice of the agent that cut it, and one of the agent that the chain began at. If the kill
    // came between a post and its entry in the ledger, the origin of that post is unknown: then it begins a
    // second chain.
    assert!(sent.len() <= NINE + 2 * (CHAIN_TURNS + 2), "{} messages from one", sent.len());
    let notices = sent.iter().filter(|sent| sent.text.contains("Agents have been answering each other"));
    assert!((1..=4).contains(&notices.count()), "{sent:?}");
    // Each answer asks the next one: only what is cut is the end, and it is kept.
    let cut = "SELECT count(*) FROM tl_inbox WHERE outcome LIKE '%used up the turns%' AND envelope LIKE ?1";
    assert!(members.iter().any(|member| count(&member.place, cut, "") > 0));
    let rows = "SELECT count(*) FROM messages WHERE role = 'user' AND content LIKE ?1";
    let wondered: Vec<Value> = server.messages(channel);
    for member in &members {
        let told =
            wondered.iter().filter(|message| message["content"].as_str().unwrap().contains("I wonder."));
        let told = told.filter(|message| member.is_told(message)).count();
        // A row may quote another one.
        assert!(count(&member.place, rows, "I wonder.") >= told, "each is a row, answered or not");
    }

    // And each agent still hears.
    let end = server.say(channel, person, &format!("{all} that is enough."));
    until("they come to rest again", is_quiet);
    let sent: Vec<_> = server.sent().into_iter().skip(sent.len()).collect();
    assert_eq!(sent.len(), NINE, "{sent:?}");
    assert!(sent.iter().all(|sent| sent.text == "So be it." && sent.reply_to == Some(end)), "{sent:?}");
    for gateway in gateways {
        assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
        assert!(gateway.stop().success());
    }
}

// ------------------------------------------------------------------------------------ and Hermes afterwards

/// A person wrote there. What Hermes' own adapters would say about where that was is written down here by
/// hand, as they build it.
struct Spoken {
    text: &'static str,
    source: Value,
}

fn spoken(text: &'static str, source: Value) -> Spoken {
    Spoken { text, source }
}

/// A person writes in every kind of chat.
fn speak_everywhere(telegram: &TelegramServer, discord: &DiscordServer, slack: &SlackServer) -> Vec<Spoken> {
    let user = User::new(42, "Ada");
    let (group, forum) = (Chat::group(-1001, "Friends"), Chat::forum(-1002, "Forum"));
    let topic = telegram.add_topic(&forum);
    telegram.say(&Chat::private(42, "Ada"), &user, "to you alone");
    telegram.say(&group, &user, "in a group");
    telegram.write(
        &forum,
        &user,
        json!({"text": "in a topic", "message_thread_id": topic, "is_topic_message": true}),
    );
    let (bot, ada) = (discord.bot().id, discord.user("ada"));
    let guild = discord.guild("home");
    let (hall, room) = (discord.channel(guild, "hall"), discord.channel(guild, "general"));
    let direct = discord.direct(&discord.bot(), ada);
    discord.say(hall, ada, &format!("<@{bot}> in a channel"));
    let thread = discord.say(room, ada, &format!("<@{bot}> in a thread"));
    discord.say(direct, ada, "face to face");
    let begun = slack.say("C1", "U1", &format!("<@{}> in a thread of Slack", slack::BOT_USER));
    let alone = slack.say("D1", "U1", "a word in private");
    let (ada, hall, room, thread) = (ada.to_string(), hall.to_string(), room.to_string(), thread.to_string());
    let topic = topic.to_string();
    vec![
        spoken(
            "to you alone",
            json!({"platform": "telegram", "chat_type": "dm", "chat_id": "42", "user_id": "42"}),
        ),
        spoken(
            "in a group",
            json!({"platform": "telegram", "chat_type": "group", "chat_id": "-1001", "user_id": "42"}),
        ),
        spoken(
            "in a topic",
            json!({
                "platform": "telegram", "chat_type": "group", "chat_id": "-1002", "user_id": "42", "thread_id": topic,
            }),
        ),
        spoken(
            "in a channel",
            json!({"platform": "discord", "chat_type": "group", "chat_id": hall, "user_id": ada}),
        ),
        spoken(
            "in a thread",
            json!({
                "platform": "discord", "chat_type": "thread", "chat_id": thread, "thread_id": thread,
                "parent_chat_id": room, "user_id": ada, "auto_thread_created": true,
            }),
        ),
        spoken(
            "face to face",
            json!({"platform": "discord", "chat_type": "dm", "chat_id": direct.to_string(), "user_id": ada}),
        ),
        spoken(
            "in a thread of Slack",
            json!({
                "platform": "slack", "chat_type": "group", "chat_id": "C1", "user_id": "U1", "thread_id": begun,
                "scope_id": slack::TEAM,
            }),
        ),
        spoken(
            "a word in private",
            json!({
                "platform": "slack", "chat_type": "dm", "chat_id": "D1", "user_id": "U1", "thread_id": alone,
                "scope_id": slack::TEAM,
            }),
        ),
    ]
}

#[test]
fn p2_p15_the_real_hermes_leads_every_chat_to_the_session_it_had_with_us() {
    let Some(hermes) = peers::one_hermes("0.19.0") else { return };
    let (place, runtime) = (Place::new(), runtime());
    let telegram = TelegramServer::start_now();
    let discord = runtime.block_on(DiscordServer::start());
    let slack = runtime.block_on(SlackServer::start_with(PATIENCE));
    let model = ModelServer::start(Duration::ZERO);
    let config = format!(
        "model: {}\nplatforms:\n  telegram: {{extra: {{base_url: '{}/bot'}}}}\n  \
         discord: {{extra: {{base_url: '{}', gateway_url: '{}'}}}}\n  slack: {{extra: {{base_url: '{}'}}}}\n",
        model.setting("test-model"),
        telegram.url(),
        discord.rest_url(),
        discord.gateway_url(),
        slack.base()
    );
    place.write("home/config.yaml", config);
    let variables = format!(
        "TELEGRAM_BOT_TOKEN={TOKEN}\nDISCORD_BOT_TOKEN={}\nDISCORD_NO_THREAD_CHANNELS=hall\nSLACK_BOT_TOKEN={}\n\
         SLACK_APP_TOKEN={}\nGATEWAY_ALLOW_ALL_USERS=true\n",
        discord.bot().token,
        slack::BOT_TOKEN,
        slack::APP_TOKEN
    );
    place.write("home/.env", variables);
    let gateway = place.launch().start();
    until("all are connected", || discord.connections() > 0 && slack.connections() > 0);
    let chats = speak_everywhere(&telegram, &discord, &slack);
    let said = || {
        let telegram = telegram.sent().into_iter().map(|sent| sent.text);
        let discord = discord.sent().into_iter().map(|sent| sent.text);
        telegram.chain(discord).chain(slack.sent().into_iter().map(|sent| sent.text)).collect::<Vec<_>>()
    };
    until("everybody is answered", || {
        let said = said();
        chats.iter().all(|chat| said.iter().any(|said| said.contains("re: ") && said.ends_with(chat.text)))
    });
    assert!(gateway.stop().success());

    let call = |method: &str, arguments: Value| json!([method, arguments, {}]);
    let mut calls = vec![call("session_count", json!([]))];
    calls.extend(chats.iter().map(|chat| call("resolve", json!([chat.source]))));
    calls.push(call("session_count", json!([])));
    let told = hermes.does(&place.home(), &calls);
    assert_eq!(told[0], chats.len());
    assert_eq!(told[0], told[chats.len() + 1], "Hermes begins nothing of its own");
    let sessions: Vec<&str> =
        told[1..=chats.len()].iter().map(|entry| entry["session_id"].as_str().unwrap()).collect();
    let calls: Vec<Value> =
        sessions.iter().map(|session| call("gateway.load_transcript", json!([session]))).collect();
    for (chat, transcript) in chats.iter().zip(hermes.does(&place.home(), &calls)) {
        let said: Vec<&str> =
            transcript.as_array().unwrap().iter().map(|row| row["content"].as_str().unwrap()).collect();
        assert!(said.len() == 2 && said[0].ends_with(chat.text), "{}: {said:?}", chat.text);
    }
}
