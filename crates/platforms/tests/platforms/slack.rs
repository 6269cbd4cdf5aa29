//! Slack: what comes in is kept before it is acknowledged, what goes out ends in a named state.

use crate::letterbox::{self, Letterbox};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::Time;
use throughline_core::input::Destination;
use throughline_core::port::{Health, Outgoing, Pending};
use throughline_core::tool::{Ask, Grant, Question, Verdict};
use throughline_platforms::slack::{Slack, SlackOptions, SlackSettings};
use throughline_platforms::{Adapter, Attachment, ListenEnded, Media, Platform, SendError, StopSignal};
use throughline_servers::slack::{APP, APP_TOKEN, BOT_TOKEN, BOT_USER, Fault, SlackServer, TEAM};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

struct World {
    server: SlackServer,
    slack: Arc<Slack>,
    intake: Arc<Letterbox>,
}

struct Listening {
    rope: watch::Sender<bool>,
    task: JoinHandle<ListenEnded>,
}

impl Listening {
    async fn stop(self) -> ListenEnded {
        self.rope.send(true).unwrap();
        self.ended().await
    }

    async fn ended(self) -> ListenEnded {
        timeout(10 * SECOND, self.task).await.expect("it ends").unwrap()
    }
}

impl World {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut SlackSettings)) -> Self {
        Self::on(SlackServer::start().await, change)
    }

    fn on(server: SlackServer, change: impl FnOnce(&mut SlackSettings)) -> Self {
        let mut settings = settings(&server);
        change(&mut settings);
        let slack = Arc::new(Slack::new(settings).unwrap());
        Self { server, slack, intake: Arc::default() }
    }

    fn listen(&self) -> Listening {
        let (rope, stop) = StopSignal::new();
        let (slack, intake) = (self.slack.clone(), self.intake.clone());
        Listening { rope, task: tokio::spawn(async move { slack.listen(intake, stop).await }) }
    }

    async fn listening() -> (Self, Listening) {
        let world = Self::new().await;
        let listening = world.listen();
        assert!(world.server.wait_connected().await);
        (world, listening)
    }

    async fn is(&self, wanted: impl Fn(&Health) -> bool) {
        let holds = async {
            while !wanted(&self.slack.health()) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(timeout(10 * SECOND, holds).await.is_ok(), "it is {:?}", self.slack.health());
    }

    async fn send(&self, chat: &str, text: &str) -> Result<Option<String>, SendError> {
        self.slack.send(&outgoing(chat, text), None).await
    }
}

fn settings(server: &SlackServer) -> SlackSettings {
    SlackSettings {
        base: server.base(),
        patience: 2 * SECOND,
        silence: 3 * SECOND,
        pace: Duration::from_millis(20),
        ..SlackSettings::new(BOT_TOKEN, APP_TOKEN)
    }
}

fn slack_on(server: &SlackServer) -> Slack {
    Slack::new(settings(server)).unwrap()
}

fn place(chat: &str) -> Destination {
    Destination {
        platform: "slack".to_owned(),
        account: APP.to_owned(),
        chat: chat.to_owned(),
        thread: None,
        reply_to: None,
    }
}

fn outgoing(chat: &str, text: &str) -> Outgoing {
    letterbox::outgoing(place(chat), text)
}

// ------------------------------------------------------------------------------------ coming in

#[tokio::test]
async fn p7_a_message_is_acknowledged_when_it_is_kept_and_not_before() {
    let (world, listening) = World::listening().await;
    world.intake.refuse(2);
    let ts = world.server.say("D1", "U1", "hello &amp; <https://x.y|welcome>");
    let kept = world.intake.wait(1).await;
    assert_eq!(kept[0].text, "hello & welcome (https://x.y)");
    assert_eq!(kept[0].source.user_name.as_deref(), Some("ann"));
    assert_eq!(kept[0].source.scope_id.as_deref(), Some(TEAM));
    assert_eq!(
        kept[0].reply_to,
        Destination { thread: Some(ts.clone()), reply_to: Some(ts.clone()), ..place("D1") }
    );
    assert!(world.server.wait(|server| server.is_acknowledged(&ts)).await);
    assert!(world.intake.offered() >= 3, "refused twice, and taken");
    assert_eq!(listening.stop().await, ListenEnded::Stopped);
}

#[tokio::test]
async fn p7_what_cannot_be_kept_is_never_acknowledged_and_comes_again_after_a_restart() {
    let world = World::on(SlackServer::start_with(2 * SECOND).await, |_| {});
    let listening = world.listen();
    assert!(world.server.wait_connected().await);
    world.intake.refuse(usize::MAX);
    let ts = world.server.say("D1", "U1", "hello");
    assert!(world.server.wait(|server| server.attempts(&ts) > 0).await);
    world.is(|health| matches!(health, Health::Waiting(words) if words.contains("disk is full"))).await;
    assert!(!world.server.is_acknowledged(&ts));
    listening.stop().await;
    assert!(!world.server.is_acknowledged(&ts));
    // The next connection gets it.
    world.intake.refuse(0);
    let listening = world.listen();
    assert_eq!(world.intake.wait(1).await.len(), 1);
    assert!(world.server.wait(|server| server.is_acknowledged(&ts)).await);
    listening.stop().await;
}

#[tokio::test]
async fn p7_deliveries_of_one_message_are_equal_in_what_names_them() {
    let (world, listening) = World::listening().await;
    let ts = world.server.say("C1", "U1", &format!("<@{BOT_USER}> hi"));
    let mention = json!({"type": "app_mention", "channel": "C1", "user": "U1", "ts": ts, "text": format!("<@{BOT_USER}> hi")});
    world.server.happen("mention", mention);
    assert!(world.server.wait(|server| server.is_acknowledged("mention")).await);
    for _ in 0..3 {
        let receipts = world.server.receipts().len();
        world.server.deliver_all_again();
        assert!(world.server.wait(|server| server.receipts().len() >= receipts + 2).await);
    }
    listening.stop().await;
    let listening = world.listen();
    world.server.deliver_all_again();
    assert!(world.server.wait(|server| server.receipts().len() >= 10).await);
    assert!(world.intake.offered() >= 10);
    assert_eq!(world.intake.texts(), ["hi"]);
    listening.stop().await;
}

#[tokio::test]
async fn a_mention_in_a_circle_leads_where_its_message_leads() {
    let (world, listening) = World::listening().await;
    // A mention does not say what kind of place it was written in.
    world.server.happen(
        "mention",
        json!({"type": "app_mention", "channel": "G1", "user": "U1", "ts": "1700000000.9", "text": "hi"}),
    );
    let kept = world.intake.wait(1).await;
    assert_eq!((kept[0].source.chat_type.as_str(), kept[0].source.chat_id.as_str()), ("dm", "G1"));
    assert_eq!(world.server.calls("conversations.info").len(), 1);
    listening.stop().await;
}

#[tokio::test]
async fn whoever_is_called_into_a_thread_is_told_what_was_said_there_once() {
    let (world, listening) = World::listening().await;
    let root = world.server.say("C1", "U1", "The build is red");
    world.server.say_in("C1", &root, "U2", "since &lt;noon&gt;");
    world.intake.wait(2).await;
    world.server.say_in("C1", &root, "U1", &format!("<@{BOT_USER}> why?"));
    let kept = world.intake.wait(3).await;
    // The letterbox keeps everything, so the last of it is what the session has heard.
    assert_eq!((kept[2].text.as_str(), &kept[2].context), ("why?", &None));
    let root = world.server.say("C1", "U1", "The tests are red, too");
    world.intake.wait(4).await;
    let fresh = Arc::new(Letterbox::default());
    listening.stop().await;
    // Another start has heard nothing; an answer of ours shows up to where it was told.
    let world = World { intake: fresh, slack: Arc::new(slack_on(&world.server)), ..world };
    let listening = world.listen();
    assert!(world.server.wait_connected().await);
    world.server.say_in("C1", &root, "U1", &format!("<@{BOT_USER}> and this?"));
    let told = world.intake.wait(1).await[0].context.clone().unwrap();
    assert_eq!(told, "Said before in this thread:\n[ann] The tests are red, too");
    let answer = Destination { thread: Some(root.clone()), ..place("C1") };
    world.slack.send(&letterbox::outgoing(answer, "I look"), None).await.unwrap();
    listening.stop().await;
    let world = World { intake: Arc::default(), slack: Arc::new(slack_on(&world.server)), ..world };
    let listening = world.listen();
    assert!(world.server.wait_connected().await);
    world.server.fail_next("conversations.replies", Fault::error("missing_scope"));
    world.server.say_in("C1", &root, "U2", &format!("<@{BOT_USER}> thanks"));
    world.server.say_in("C1", &root, "U2", &format!("<@{BOT_USER}> really"));
    let kept = world.intake.wait(2).await;
    assert_eq!((&kept[0].context, &kept[1].context), (&None, &None), "nothing is told twice");
    listening.stop().await;
}

#[tokio::test]
async fn order_is_kept_and_what_comes_out_of_order_is_kept_all_the_same() {
    let (world, listening) = World::listening().await;
    let texts: Vec<String> = (0..40).map(|number| format!("message {number}")).collect();
    texts.iter().for_each(|text| {
        world.server.say("D1", "U1", text);
    });
    world.intake.wait(40).await;
    assert_eq!(world.intake.texts(), texts);
    world.server.hold();
    for text in ["a", "b", "c"] {
        world.server.say("D1", "U1", text);
    }
    world.server.release_backwards();
    world.intake.wait(43).await;
    assert_eq!(world.intake.texts()[40..], ["c", "b", "a"]);
    let times: Vec<_> = world.intake.kept()[40..].iter().map(|incoming| incoming.at).collect();
    assert!(times.is_sorted_by(|a, b| a > b), "the platform's clock says so: {times:?}");
    listening.stop().await;
}

#[tokio::test]
async fn malformed_and_unknown_events_are_acknowledged_and_change_nothing() {
    let (world, listening) = World::listening().await;
    for garbage in ["", "{", "[]", "7", "\"text\"", "{\"type\":\"later\"}", "{\"envelope_id\":7}", "\u{0}"] {
        world.server.frame(garbage);
    }
    world.server.envelope("odd", "of_a_later_slack", json!({"x": 1}));
    world.server.envelope("empty", "events_api", Value::Null);
    world.server.envelope("press", "interactive", json!({"type": "view_submission"}));
    world.server.envelope("command", "slash_commands", json!({"command": 7}));
    world.server.happen("reaction", json!({"type": "reaction_added", "user": "U1"}));
    world.server.happen("broken", json!({"type": "message", "channel": [], "ts": {}}));
    world.server.happen(
        "join",
        json!({"type": "message", "subtype": "channel_join", "channel": "C1", "ts": "1.0", "user": "U1"}),
    );
    for name in ["odd", "empty", "press", "command", "reaction", "broken", "join"] {
        assert!(world.server.wait(|server| server.is_acknowledged(name)).await, "{name}");
    }
    assert_eq!(world.intake.offered(), 0);
    let gigantic = "x".repeat(3 << 20);
    world.server.say("D1", "U1", &gigantic);
    assert_eq!(world.intake.wait(1).await[0].text.len(), 3 << 20);
    assert_eq!(world.slack.health(), Health::Up);
    listening.stop().await;
}

#[tokio::test]
async fn commands_and_buttons_come_in() {
    let (world, listening) = World::listening().await;
    let name = world.server.command("C1", "U1", "/stop", "now");
    assert!(world.server.wait(|server| server.is_acknowledged(&name)).await);
    assert_eq!(world.intake.texts(), ["/stop now"]);
    let receipt = world.server.receipts().pop().unwrap().1;
    assert_eq!(receipt["payload"]["response_type"], "ephemeral");

    let call = "20260528_093510_66bfaec7/3/1/0";
    let ask = |question| Ask { question, asked: Time(0), until: Time(9) };
    let what = "rm -rf /tmp/x && echo <done>".to_owned();
    let question = Question::Approval { what, why: "it deletes".to_owned(), patterns: vec!["rm".to_owned()] };
    let pending = Pending { call: call.parse().unwrap(), tool: "terminal".to_owned(), ask: ask(question) };
    let spot = Destination { thread: Some("1.0".to_owned()), ..place("C1") };
    let id = world.slack.put(&spot, &pending).await.unwrap();
    let shown = world.server.sent().pop().unwrap();
    assert_eq!((shown.ts.as_str(), shown.thread.as_deref()), (id.as_str(), Some("1.0")));
    let buttons = shown.blocks[1]["elements"].as_array().unwrap().clone();
    let actions: Vec<_> = buttons.iter().map(|button| button["action_id"].as_str().unwrap()).collect();
    assert_eq!(
        actions,
        ["throughline:once", "throughline:session", "throughline:always", "throughline:deny"]
    );
    assert!(shown.blocks[0]["text"]["text"].as_str().unwrap().contains("&amp;&amp; echo &lt;done&gt;"));

    // It could not be kept: Slack tells the one who pressed.
    world.intake.refuse(1);
    let lost = world.server.press("C1", "U1", &shown, actions[1], buttons[1]["value"].as_str().unwrap());
    let name = world.server.press("C1", "U1", &shown, actions[1], buttons[1]["value"].as_str().unwrap());
    assert!(world.server.wait(|server| server.is_acknowledged(&name)).await);
    assert!(!world.server.is_acknowledged(&lost));
    let press = world.intake.presses().pop().unwrap();
    assert_eq!((press.call.to_string().as_str(), press.verdict), (call, Verdict::Granted(Grant::Session)));
    assert_eq!(
        (press.source.user_id.as_deref(), press.source.thread_id.as_deref()),
        (Some("U1"), Some("1.0"))
    );
    assert!(
        world
            .server
            .wait(|server| server.sent().iter().any(|sent| sent.only_for.as_deref() == Some("U1")))
            .await
    );
    let circle = world.server.press("G1", "U1", &shown, actions[0], buttons[0]["value"].as_str().unwrap());
    assert!(world.server.wait(|server| server.is_acknowledged(&circle)).await);
    assert_eq!(world.intake.presses().pop().unwrap().source.chat_type, "dm");
    let whispers = |server: &SlackServer| server.sent().iter().filter(|sent| sent.only_for.is_some()).count();
    assert!(world.server.wait(|server| whispers(server) == 2).await);
    // The question loses its buttons with its answer.
    world.slack.edit(&spot, &id, "✅ Allowed").await.unwrap();
    let answered = world.server.sent().into_iter().find(|sent| sent.ts == id).unwrap();
    assert_eq!((answered.text.as_str(), answered.blocks), ("✅ Allowed", json!([])));

    let choices = vec!["the red one".to_owned(), "y".repeat(3000)];
    let question = Question::Clarify { question: "Which?".to_owned(), choices };
    let pending = Pending { call: call.parse().unwrap(), tool: "clarify".to_owned(), ask: ask(question) };
    world.slack.put(&place("C1"), &pending).await.unwrap();
    let shown = world.server.sent().pop().unwrap();
    let buttons = shown.blocks[1]["elements"].as_array().unwrap().clone();
    assert_eq!(buttons.len(), 1, "what fits on no button is answered in words");
    let (action, value) = (buttons[0]["action_id"].as_str().unwrap(), buttons[0]["value"].as_str().unwrap());
    let name = world.server.press("C1", "U1", &shown, action, value);
    assert!(world.server.wait(|server| server.is_acknowledged(&name)).await);
    assert_eq!(world.intake.presses().pop().unwrap().verdict, Verdict::Said("the red one".to_owned()));
    listening.stop().await;
}

#[tokio::test]
async fn files_are_fetched_from_slack_and_from_nowhere_else() {
    let world = World::new().await;
    let address = world.server.add_file("F1", b"picture");
    let file = |handle: &str| Attachment {
        media: Media::Image,
        handle: handle.to_owned(),
        name: None,
        mime: None,
        bytes: None,
    };
    assert_eq!(world.slack.fetch(&file(&address), 100).await.unwrap(), b"picture");
    assert_eq!(world.slack.fetch(&file("file:F1"), 100).await.unwrap(), b"picture");
    assert!(world.slack.fetch(&file(&address), 3).await.unwrap_err().contains("larger than 3"));
    assert!(world.slack.fetch(&file("file:F9"), 9).await.unwrap_err().contains("file_not_found"));
    assert!(world.slack.fetch(&file("http://127.0.0.1:1/x"), 9).await.unwrap_err().contains("not Slack"));
    let stranger =
        World::with(|settings| settings.bot_token = throughline_core::redact::Secret::new("xoxb-wrong"))
            .await;
    let address = stranger.server.add_file("F1", b"picture");
    assert!(stranger.slack.fetch(&file(&address), 100).await.unwrap_err().contains("files:read"));
}

// ----------------------------------------------------------------------------------- connection

#[tokio::test]
async fn p7_nothing_is_lost_between_two_connections() {
    let (world, listening) = World::listening().await;
    for (number, reason) in ["warning", "refresh_requested", "warning"].into_iter().enumerate() {
        world.server.say("D1", "U1", &format!("before {number}"));
        world.server.disconnect(reason);
        world.server.say("D1", "U1", &format!("after {number}"));
        assert_eq!(world.intake.wait(2 * number + 2).await.len(), 2 * number + 2);
        sleep(Duration::from_millis(50)).await;
    }
    assert!(world.server.calls("apps.connections.open").len() >= 4);
    world.is(|health| *health == Health::Up).await;
    world.server.cut();
    world.server.say("D1", "U1", "after the cut");
    assert_eq!(world.intake.wait(7).await.len(), 7);
    assert!(world.server.wait(|server| server.receipts().len() >= 7).await);
    listening.stop().await;
}

#[tokio::test]
async fn a_connection_that_goes_silent_is_opened_again() {
    let world = World::with(|settings| settings.silence = Duration::from_millis(300)).await;
    let listening = world.listen();
    assert!(world.server.wait_connected().await);
    world.server.freeze();
    world.server.say("D1", "U1", "is anybody there?");
    assert_eq!(world.intake.wait(1).await.len(), 1);
    listening.stop().await;
}

#[tokio::test]
async fn a_network_that_fails_is_waited_for() {
    let world = World::new().await;
    world.server.fail_next("auth.test", Fault::CloseBefore);
    world.server.fail_next("auth.test", Fault::status(503));
    world.server.fail_next("apps.connections.open", Fault::status(500));
    world.server.fail_next(
        "apps.connections.open",
        Fault::Status { status: 200, retry_after: None, body: "<html>".to_owned() },
    );
    world.server.refuse_sockets(true);
    let listening = world.listen();
    world.is(|health| matches!(health, Health::Waiting(_))).await;
    world.is(|health| matches!(health, Health::Waiting(words) if words.contains("websocket"))).await;
    world.server.refuse_sockets(false);
    world.is(|health| *health == Health::Up).await;
    listening.stop().await;
    let nowhere = World::with(|settings| settings.base = "http://127.0.0.1:1/api".to_owned()).await;
    let listening = nowhere.listen();
    nowhere
        .is(|health| matches!(health, Health::Waiting(words) if words.contains("cannot be reached")))
        .await;
    assert_eq!(listening.stop().await, ListenEnded::Stopped);
}

#[tokio::test]
async fn too_many_calls_are_followed_by_the_pause_slack_asks_for() {
    let world = World::new().await;
    world.server.fail_next("apps.connections.open", Fault::limited(1));
    let begun = tokio::time::Instant::now();
    let listening = world.listen();
    assert!(world.server.wait_connected().await);
    assert!(begun.elapsed() >= SECOND);
    listening.stop().await;
}

#[tokio::test]
async fn a_token_that_is_no_good_ends_it_by_name() {
    for error in ["invalid_auth", "token_revoked", "account_inactive", "missing_scope"] {
        let world = World::new().await;
        world.server.refuse_all(Some(error));
        let ListenEnded::Refused(words) = world.listen().ended().await else { panic!("{error}") };
        assert!(words.contains(error), "{words}");
        assert!(!words.contains("xoxb-1111") && !words.contains("xapp-1-A"), "{words}");
        assert_eq!(world.slack.health(), Health::Refused(words));
    }
    let swapped =
        World::with(|settings| settings.app_token = throughline_core::redact::Secret::new(BOT_TOKEN)).await;
    let ListenEnded::Refused(words) = swapped.listen().ended().await else {
        panic!("a bot token is no app token")
    };
    assert!(words.contains("not_allowed_token_type") && words.contains("SLACK_APP_TOKEN"));
}

#[tokio::test]
async fn a_token_revoked_while_connected_ends_it_by_name() {
    let (world, listening) = World::listening().await;
    world.server.refuse_all(Some("token_revoked"));
    world.server.cut();
    let ListenEnded::Refused(words) = listening.ended().await else { panic!("it goes on") };
    assert!(words.contains("token_revoked") && words.contains("SLACK_BOT_TOKEN"));

    let (world, listening) = World::listening().await;
    world.server.disconnect("link_disabled");
    let ListenEnded::Refused(words) = listening.ended().await else { panic!("it goes on") };
    assert!(words.contains("Socket Mode"));
}

#[tokio::test]
async fn another_gateway_on_the_same_app_is_named() {
    let world = World::new().await;
    world.server.crowd(1);
    let listening = world.listen();
    world.is(|health| matches!(health, Health::Waiting(words) if words.contains("SLACK_APP_TOKEN"))).await;
    world.server.say("D1", "U1", "still heard");
    assert_eq!(world.intake.wait(1).await.len(), 1);
    listening.stop().await;
}

// ------------------------------------------------------------------------------------ going out

#[tokio::test]
async fn a_reply_arrives_in_its_thread_as_slack_writes_it() {
    let world = World::with(|settings| {
        settings.options = SlackOptions { reply_broadcast: true, ..SlackOptions::default() };
    })
    .await;
    let mut reply = outgoing("C1", "**Done** & [here](https://x.y)");
    reply.destination.thread = Some("1.0".to_owned());
    let id = world.slack.send(&reply, None).await.unwrap().unwrap();
    reply.key = "reply/1+2".to_owned();
    world.slack.send(&reply, Some("♻️ (sent again)")).await.unwrap();
    let sent = world.server.sent();
    assert_eq!(
        (sent[0].text.as_str(), sent[0].ts.as_str()),
        ("*Done* &amp; <https://x.y|here>", id.as_str())
    );
    assert_eq!((sent[0].thread.as_deref(), sent[0].broadcast), (Some("1.0"), true));
    assert_eq!(
        (sent[1].text.as_str(), sent[1].broadcast),
        ("♻️ (sent again)\n\n*Done* &amp; <https://x.y|here>", false)
    );
    assert!(!world.slack.is_idempotent());
}

#[tokio::test]
async fn a_gigantic_reply_leaves_in_parts_that_can_still_be_changed() {
    let world = World::new().await;
    let text = format!("Start\n```rust\n{}```\nEnd", "let x = a < b && c;\n".repeat(2000));
    let parts = world.slack.parts(&text);
    assert!(parts.len() > 10);
    for part in &parts {
        let id = world.send("C1", part).await.unwrap().unwrap();
        world.slack.edit(&place("C1"), &id, part).await.unwrap();
    }
    let code: usize = world
        .server
        .sent()
        .iter()
        .map(|sent| sent.text.matches("let x = a &lt; b &amp;&amp; c;").count())
        .sum();
    assert_eq!(code, 2000);
    assert!(world.server.sent().iter().all(|sent| sent.text.matches("```").count() % 2 == 0));
}

#[tokio::test]
async fn p10_each_failure_says_whether_it_may_have_arrived() {
    let world = World::new().await;
    let method = "chat.postMessage";
    let later = |error: &SendError| matches!(error, SendError::Later { .. });
    let unknown = |error: &SendError| matches!(error, SendError::Unknown { .. });
    let page = Fault::Status { status: 200, retry_after: None, body: "<html>".to_owned() };
    let redirect = Fault::Status { status: 302, retry_after: None, body: String::new() };
    type Judge<'a> = &'a dyn Fn(&SendError) -> bool;
    for (fault, judge) in [
        (Fault::limited(7), &later as Judge),
        (Fault::error("ratelimited"), &later),
        (Fault::error("service_unavailable"), &later),
        (redirect, &later),
        (Fault::error("token_revoked"), &later),
        (Fault::error("internal_error"), &unknown),
        (Fault::error("fatal_error"), &unknown),
        (Fault::status(500), &unknown),
        (Fault::status(503), &unknown),
        (page, &unknown),
        (Fault::CloseAfter, &unknown),
        (Fault::Silence, &unknown),
    ] {
        world.server.fail_next(method, fault.clone());
        let error = world.send("C1", "hi").await.unwrap_err();
        assert!(judge(&error), "{fault:?}: {error}");
    }
    assert_eq!(world.server.sent().len(), 2, "only what was done before the answer got lost");
    world.server.fail_next(method, Fault::limited(7));
    let Err(SendError::Later { after, .. }) = world.send("C1", "hi").await else { panic!("it is later") };
    assert_eq!(after, Some(7 * SECOND));
    let nowhere = World::with(|settings| settings.base = "http://127.0.0.1:1/api".to_owned()).await;
    assert!(later(&nowhere.send("C1", "hi").await.unwrap_err()));
    // Nothing of it stays: the next one arrives.
    assert!(world.send("C1", "hi").await.is_ok());
}

#[tokio::test]
async fn a_chat_that_is_gone_ends_its_message_and_no_other() {
    let world = World::new().await;
    world.server.delete_channel("C1");
    for error in ["channel_not_found", "is_archived", "not_in_channel", "restricted_action"] {
        if error != "channel_not_found" {
            world.server.refuse("C2", error);
        }
        let chat = if error == "channel_not_found" { "C1" } else { "C2" };
        let Err(SendError::Never { message }) = world.send(chat, "hi").await else { panic!("{error}") };
        assert!(message.contains(error) && message.contains(chat), "{message}");
        assert!(!matches!(world.slack.health(), Health::Refused(_)));
    }
    assert!(world.send("D1", "hi").await.is_ok());
}

#[tokio::test]
async fn a_refused_account_is_named_until_it_works_again() {
    let world = World::new().await;
    world.server.fail_next("chat.postMessage", Fault::error("missing_scope"));
    let Err(SendError::Later { message, .. }) = world.send("C1", "hi").await else {
        panic!("a token can be renewed")
    };
    assert!(message.contains("chat:write"), "{message}");
    assert_eq!(world.slack.health(), Health::Refused(message));
    world.send("C1", "hi").await.unwrap();
    assert_eq!(world.slack.health(), Health::Starting);
}

#[tokio::test]
async fn files_are_uploaded_and_shown_in_the_thread() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.pdf");
    std::fs::write(&path, b"%PDF").unwrap();
    let world = World::new().await;
    let mut reply = outgoing("C1", &format!("MEDIA:{}", path.display()));
    reply.destination.thread = Some("1.0".to_owned());
    // Nothing is shown before the last step, so all before it can be tried again.
    world.server.fail_next("files.getUploadURLExternal", Fault::Silence);
    world.server.fail_next("upload", Fault::status(500));
    for _ in 0..2 {
        assert!(matches!(world.slack.send(&reply, None).await, Err(SendError::Later { .. })));
    }
    world.server.fail_next("files.completeUploadExternal", Fault::CloseAfter);
    assert!(matches!(world.slack.send(&reply, None).await, Err(SendError::Unknown { .. })));
    world.slack.send(&reply, Some("again")).await.unwrap();
    let sent = world.server.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(
        (sent[1].files.as_slice(), sent[1].thread.as_deref()),
        (["report.pdf".to_owned()].as_slice(), Some("1.0"))
    );
    assert_eq!(sent[1].text, "again");
    assert_eq!(world.server.uploaded("report.pdf").unwrap(), b"%PDF");
    for path in ["MEDIA:/etc/passwd", "MEDIA:/nowhere/at/all.png"] {
        assert!(matches!(world.send("C1", path).await, Err(SendError::Never { .. })), "{path}");
    }
}

#[tokio::test]
async fn courtesies_are_shown_and_their_failures_are_nobodys_business() {
    let world = World::new().await;
    let spot = Destination { thread: Some("1.0".to_owned()), ..place("C1") };
    world.slack.typing(&spot).await;
    world.slack.typing(&place("C1")).await;
    let statuses = world.server.calls("assistant.threads.setStatus");
    assert_eq!(statuses.len(), 1, "there is a status in threads only");
    assert_eq!(
        (&statuses[0]["status"], &statuses[0]["thread_ts"]),
        (&json!("is thinking..."), &json!("1.0"))
    );
    world.server.fail_next("assistant.threads.setStatus", Fault::error("missing_scope"));
    for _ in 0..3 {
        world.slack.typing(&spot).await;
    }
    assert_eq!(world.server.calls("assistant.threads.setStatus").len(), 2, "asked once more, and no more");

    world.slack.react(&spot, "5.0", "👀").await;
    world.slack.react(&spot, "5.0", "✅").await;
    let sign = |name: &str| ("C1".to_owned(), "5.0".to_owned(), name.to_owned());
    assert_eq!(world.server.reactions(), [sign("white_check_mark")]);
    world.slack.react(&spot, "5.0", "").await;
    assert!(world.server.reactions().is_empty());

    let id = world.slack.post(&spot, "working …").await.unwrap();
    world.slack.edit(&spot, &id, &"long & ".repeat(4000)).await.unwrap();
    world.slack.remove(&spot, &id).await.unwrap();
    world.slack.remove(&spot, &id).await.unwrap();
    assert!(world.server.sent().is_empty());
    assert!(matches!(world.slack.edit(&spot, &id, "x").await, Err(SendError::Never { .. })));
}

#[tokio::test]
async fn the_account_is_the_apps_id_and_the_first_workspace_counts() {
    let tokens = format!("{BOT_TOKEN}, xoxb-another");
    let world =
        World::with(|settings| settings.bot_token = throughline_core::redact::Secret::new(tokens)).await;
    assert!(world.send("C1", "hi").await.is_ok());
    assert_eq!((world.slack.name(), world.slack.account()), ("slack", APP));
}
