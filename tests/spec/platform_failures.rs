//! A platform in trouble, with the real binary: for each of its answers the trouble has a name that `status`
//! and `why` tell, and every other chat and platform goes on.

use crate::gateway::{Client, Ended, Gateway, Launch, Place};
use crate::model::ModelServer;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};
use throughline_servers::slack::{self, SlackServer};
use throughline_servers::telegram::{Chat, Fault, TOKEN, TelegramServer, User};
use tokio::runtime::Runtime;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// More than are asked for while a trouble is looked at.
const EVERY_TIME: usize = 200;
const SPARE_TOKEN: &str = "4343:AAanotherTestTokenThatOpensNothing000";

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// The same for something that is there for a while only: it is looked at once, and what it was then is returned.
fn when<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let mut seen = None;
    until(what, || {
        seen = found();
        seen.is_some()
    });
    seen.expect("it came true")
}

/// One agent that people reach on Telegram and on Slack.
struct World {
    telegram: TelegramServer,
    slack: SlackServer,
    model: ModelServer,
    place: Place,
    launch: Launch,
    /// Slack's tasks run here: it goes last.
    _runtime: Runtime,
}

impl World {
    fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (telegram, slack) =
            (TelegramServer::start_now(), runtime.block_on(SlackServer::start_with(PATIENCE)));
        let (place, model) = (Place::new(), ModelServer::start(Duration::ZERO));
        let config = format!(
            "model: {}\nplatforms:\n  telegram: {{extra: {{base_url: '{}/bot'}}}}\n  slack: {{extra: {{base_url: '{}'}}}}\n",
            model.setting("test-model"),
            telegram.url(),
            slack.base()
        );
        place.write("home/config.yaml", config);
        let (bot, app) = (slack::BOT_TOKEN, slack::APP_TOKEN);
        let variables = format!(
            "TELEGRAM_BOT_TOKEN={TOKEN}\nSLACK_BOT_TOKEN={bot}\nSLACK_APP_TOKEN={app}\nGATEWAY_ALLOW_ALL_USERS=true\n"
        );
        place.write("home/.env", variables);
        let launch = place.launch();
        Self { telegram, slack, model, place, launch, _runtime: runtime }
    }

    fn start(&self) -> Gateway {
        let gateway = self.launch.start();
        self.until_it_is("telegram", "up", "");
        self.until_it_is("slack", "up", "");
        gateway
    }

    fn asked(&self, words: &[&str]) -> Ended {
        let launch = words.iter().fold(self.place.launch(), |launch, word| launch.arg(*word));
        let ended = launch.run();
        let told = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!told.contains("AAlocal"), "a token is in the text: {told}");
        ended
    }

    /// Of the one agent, as programs read it.
    fn status(&self) -> Value {
        let told: Value = serde_json::from_str(&self.asked(&["status", "--json"]).stdout).unwrap();
        told["data"][0].clone()
    }

    /// What `status` says to people, and whether it finds that all is well.
    fn said(&self) -> (String, bool) {
        let ended = self.asked(&["status"]);
        (ended.stdout, ended.status.success())
    }

    fn why(&self, name: &str) -> String {
        self.asked(&["why", name]).stdout
    }

    /// A platform has come into this state, and says why.
    fn until_it_is(&self, platform: &str, state: &str, why: &str) {
        until(&format!("{platform} is {state}: {why}"), || {
            let status = self.status();
            let mut platforms = status["platforms"].as_array().into_iter().flatten();
            platforms.any(|it| {
                (it["name"] == platform && it["state"] == state)
                    && it["detail"].as_str().unwrap_or_default().contains(why)
            })
        });
    }

    /// The name of the reply that waits longest to be sent, if that is why.
    fn unsent(&self, error: &str) -> Option<String> {
        let unsent = self.status()["oldest_undelivered"].clone();
        let said = unsent["error"].as_str().unwrap_or_default();
        said.contains(error).then(|| unsent["key"].as_str().unwrap().to_owned())
    }

    fn says_on_telegram(&self, chat: &Chat, text: &str) {
        self.telegram.say(chat, &User::new(chat.id, "Ada"), text);
    }

    fn is_answered_on_telegram(&self, chat: &Chat, text: &str) -> bool {
        let text = format!("re: {text}");
        self.telegram.sent().iter().any(|sent| sent.chat == chat.id && sent.text.ends_with(&text))
    }

    /// A person writes on the other platform, and gets an answer.
    fn slack_goes_on(&self, during: &str) {
        let text = format!("on Slack during {during}");
        self.slack.say("D1", "U1", &text);
        until(&text, || self.slack.sent().iter().any(|sent| sent.text.ends_with(&format!("re: {text}"))));
    }

    /// A person writes in another chat of the same bot, and gets an answer.
    fn another_chat_goes_on(&self, during: &str) {
        let (chat, text) = (Chat::private(77, "Bob"), format!("elsewhere during {during}"));
        self.says_on_telegram(&chat, &text);
        until(&text, || self.is_answered_on_telegram(&chat, &text));
    }
}

#[test]
fn p30_each_trouble_of_telegram_is_named_and_slack_goes_on() {
    let world = World::new();
    let gateway = world.start();
    let chat = Chat::private(42, "Ada");
    let page = |status| Fault::Answer { status, body: "<html>Out of order</html>".to_owned() };
    for (name, fault, named) in [
        ("a 500", Fault::refusal(500, "Internal Server Error"), "Telegram answered 500"),
        ("a 502 of something between", page(502), "with status 502, is not one of Telegram's"),
        ("a 403 of something between", page(403), "something on the way answered getUpdates with status 403"),
        ("a flood", Fault::flood(1), "Telegram answered 429: Too Many Requests: retry after 1"),
        ("a lost connection", Fault::CloseBefore, "the connection to Telegram was lost during getUpdates"),
        ("garbage", Fault::Garbage, "is not one of Telegram's"),
    ] {
        for _ in 0..EVERY_TIME {
            world.telegram.fail_next("getUpdates", fault.clone());
        }
        // A poll that runs waits for news; the next one meets the trouble.
        world.says_on_telegram(&chat, &format!("before {name}"));
        world.until_it_is("telegram", "waiting", named);
        let (said, is_well) =
            when("people are told so", || Some(world.said()).filter(|(said, _)| said.contains(named)));
        assert!(!is_well && said.contains("telegram (waiting)") && said.contains("! telegram: "), "{said}");
        world.slack_goes_on(name);
        let text = format!("during {name}");
        world.says_on_telegram(&chat, &text);
        world.telegram.heal();
        until(&text, || world.is_answered_on_telegram(&chat, &text));
        world.until_it_is("telegram", "up", "");
    }
    until("all is well", || world.said().1);
    assert!(gateway.stop().success());
}

#[test]
fn p30_a_second_poller_is_named_and_so_is_a_token_that_was_revoked() {
    let world = World::new();
    let gateway = world.start();
    let chat = Chat::private(42, "Ada");
    let address: SocketAddr = world.telegram.url().trim_start_matches("http://").parse().unwrap();
    let rival = Client::new(address, "");
    // Each of its questions ends ours; it takes nothing away.
    until("the other poller is named", || {
        rival.post(&format!("/bot{TOKEN}/getUpdates"), &[], &json!({"timeout": 0})).unwrap();
        world.said().0.contains("! telegram: another program takes the updates of bot 4242")
    });
    world.slack_goes_on("a second poller");
    world.says_on_telegram(&chat, "after the rival");
    until("it is gone", || world.is_answered_on_telegram(&chat, "after the rival"));
    world.until_it_is("telegram", "up", "");

    // A reply is under way when the token goes.
    world.model.hold();
    world.says_on_telegram(&chat, "are you still there?");
    until("it is at work", || world.model.asked().iter().any(|asked| asked == "are you still there?"));
    until("it is acknowledged", || world.telegram.unacknowledged() == 0);
    world.telegram.revoke(TOKEN);
    world.model.release();
    world.until_it_is("telegram", "refused", "Ask @BotFather for a new one");
    let key = when("the reply waits", || world.unsent("renew TELEGRAM_BOT_TOKEN"));
    let last = "last: Telegram does not accept the bot's token (Unauthorized)";
    let (said, is_well) =
        when("people are told why", || Some(world.said()).filter(|(said, _)| said.contains(last)));
    assert!(!is_well && said.contains("telegram (refused)"), "{said}");
    assert!(said.contains("to telegram, for"), "{said}");
    let told = world.why(&key);
    assert!(told.contains("reply_postponed") && told.contains("Unauthorized"), "{told}");
    world.slack_goes_on("a revoked token");

    // With another bot in its place people are heard again.
    gateway.kill();
    world.telegram.add_bot(SPARE_TOKEN, "spare_bot");
    let variables = std::fs::read_to_string(world.place.file("home/.env")).unwrap();
    world.place.write("home/.env", variables.replace(TOKEN, SPARE_TOKEN));
    let gateway = world.start();
    world.says_on_telegram(&chat, "and now?");
    until("the new bot answers", || world.is_answered_on_telegram(&chat, "and now?"));
    drop(gateway);
}

#[test]
fn p30_a_reply_that_telegram_does_not_take_is_named_with_its_chat_and_the_others_arrive() {
    let world = World::new();
    let gateway = world.start();
    for (id, code, description) in [
        (501, 403, "Forbidden: bot was blocked by the user"),
        (-502, 403, "Forbidden: the group chat was deleted"),
        (503, 400, "Bad Request: chat not found"),
    ] {
        let chat = if id < 0 { Chat::group(id, "Friends") } else { Chat::private(id, "Ada") };
        let text = format!("asked in {id}");
        world.telegram.close_chat(&chat, code, description);
        world.telegram.say(&chat, &User::new(id.abs(), "Ada"), &text);
        let latest = || world.status()["latest_refused_replies"][0].clone();
        let place = id.to_string();
        until(&text, || latest()["chat"].as_str() == Some(&place));
        let (said, is_well) = world.said();
        assert!(!is_well && said.contains("will never arrive"), "{said}");
        assert!(said.contains(&format!("to telegram {id} (")) && said.contains(description), "{said}");
        let told = world.why(latest()["key"].as_str().unwrap());
        assert!(told.contains("reply_refused") && told.contains(description), "{told}");
        world.another_chat_goes_on(description);
        world.slack_goes_on(description);
    }

    // The gateway cannot know whether it is there: it comes again, and says so.
    let chat = Chat::private(504, "Ada");
    world.telegram.close_chat(&chat, 500, "Internal Server Error");
    world.says_on_telegram(&chat, "asked in 504");
    let key = when("the 500 is named", || world.unsent("Telegram answered 500"));
    let last = "last: Telegram answered 500: Internal Server Error";
    until("people are told of the 500", || world.said().0.contains(last));
    let told = world.why(&key);
    assert!(told.contains("reply_attempting") && told.contains("Telegram answered 500"), "{told}");
    world.another_chat_goes_on("a 500");
    world.telegram.open_chat(&chat);
    until("it arrives", || world.is_answered_on_telegram(&chat, "asked in 504"));
    let again = world.telegram.sent().into_iter().find(|sent| sent.chat == 504).unwrap();
    assert!(again.text.contains("sent again"), "{again:?}");

    // The gateway waits for an hour there, as asked.
    let chat = Chat::private(505, "Ada");
    world.telegram.fail_next("sendMessage", Fault::flood(3600));
    world.says_on_telegram(&chat, "asked in 505");
    let key = when("the flood is named", || world.unsent("retry after 3600"));
    let last = "last: Telegram asks for patience with chat 505";
    until("people are told of the flood", || world.said().0.contains(last));
    let told = world.why(&key);
    assert!(told.contains("reply_postponed") && told.contains("retry after 3600"), "{told}");
    world.another_chat_goes_on("a flood");
    world.slack_goes_on("a flood");
    drop(gateway);
}
