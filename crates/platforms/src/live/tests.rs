use super::*;
use crate::test_doubles::{NOW, TestAdapter, TestDesk, direct, session};
use throughline_core::TurnId;
use throughline_core::port::{CallId, Outgoing, Pending};
use throughline_core::session::Failure;
use throughline_core::tool::{Ask, Question};
use throughline_hermes::config::platforms::ToolProgress;

struct World {
    api: Arc<TestDesk>,
    adapter: Arc<TestAdapter>,
    live: Arc<Live>,
}

fn quiet() -> Display {
    Display {
        typing: false,
        typing_text: None,
        tool_progress: ToolProgress::Off,
        progress_apart: false,
        preview_chars: 40,
        interim: false,
        busy_ack: false,
        busy_ack_detail: false,
        cleanup_progress: false,
        reactions: false,
        streaming: None,
    }
}

fn streaming() -> Option<Streaming> {
    Some(Streaming { edit_interval: Duration::from_millis(800), buffer_chars: 5, cursor: "|".into() })
}

fn world(display: Display) -> World {
    let (api, adapter) = (Arc::new(TestDesk::default()), Arc::new(TestAdapter::default()));
    let live = Live::new(api.clone(), adapter.clone(), display, BusyInput::Queue);
    World { api, adapter, live }
}

impl World {
    fn follows(&self, seq: u64) {
        let followed =
            Followed::new(self.api.receipt(seq), direct(seq, "").reply_to, Some(format!("m{seq}")));
        self.live.follow(followed);
    }

    async fn hears(&self, seq: u64, update: Update) {
        self.api.tell(seq, update);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    fn said(&self) -> Vec<String> {
        self.adapter.said()
    }

    fn is_empty(&self) -> bool {
        self.live.views().is_empty()
    }
}

fn text(text: &str) -> Update {
    Update::Delta(Delta::Text(text.into()))
}

fn settled(outcome: Outcome) -> Update {
    Update::Settled(Arc::new(Settled { outcome, began: NOW, answer: None }))
}

fn answered() -> Update {
    settled(Outcome::Answered(TurnId(Seq(1))))
}

fn failed(kind: FailureKind) -> Update {
    settled(Outcome::Failed(TurnId(Seq(1)), Failure { kind, message: "no".into() }))
}

fn calling(id: &str, tool: &str, arguments: &str) -> Update {
    Update::Calling { id: id.into(), tool: tool.into(), arguments: arguments.into() }
}

fn called(id: &str) -> Update {
    Update::Called { id: id.into(), tool: "terminal".into() }
}

#[tokio::test(start_paused = true)]
async fn p10_a_preview_is_written_down_posted_and_written_down_again() {
    let world = world(Display { streaming: streaming(), ..quiet() });
    world.follows(1);
    world.hears(1, text("hello ")).await;
    world.hears(1, text("world")).await;
    world.hears(1, answered()).await;
    assert_eq!(world.said(), ["post 1 hello|", "edit 1 hello world|"]);
    assert_eq!(
        *world.api.drafts.lock().unwrap(),
        ["intended", "held", "posted 1", "given back", "held", "given back"],
        "its reply waits while it is posted and while it is changed"
    );
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn p10_nothing_changes_a_preview_that_is_the_reply() {
    let world = world(Display { streaming: streaming(), ..quiet() });
    world.follows(1);
    world.hears(1, text("hello ")).await;
    *world.api.replied.lock().unwrap() = true;
    world.hears(1, text("again and again")).await;
    world.hears(1, answered()).await;
    assert_eq!(world.said(), ["post 1 hello|"]);
}

#[tokio::test(start_paused = true)]
async fn p10_a_preview_that_may_be_there_is_not_tried_twice() {
    for (error, word) in [
        (SendError::Unknown { message: "timeout".into() }, "lost"),
        (SendError::Later { after: None, message: "429".into() }, "left"),
        (SendError::Never { message: "403".into() }, "left"),
    ] {
        let world = world(Display { streaming: streaming(), ..quiet() });
        world.adapter.errors.lock().unwrap().push(error);
        world.follows(1);
        world.hears(1, text("hello ")).await;
        world.hears(1, text("world, and so on")).await;
        assert_eq!(world.said(), ["failed to post hello|"]);
        assert_eq!(*world.api.drafts.lock().unwrap(), ["intended", "held", word, "given back"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_between_calls_stays_a_message_of_its_own() {
    let world = world(Display { streaming: streaming(), ..quiet() });
    world.follows(1);
    world.hears(1, text("let me look")).await;
    world.hears(1, calling("a", "terminal", "{}")).await;
    world.hears(1, called("a")).await;
    world.hears(1, text("it is 42")).await;
    world.hears(1, answered()).await;
    assert_eq!(world.said(), ["post 1 let me look|", "edit 1 let me look", "post 2 it is 42|"]);
    assert!(world.api.drafts.lock().unwrap().contains(&"left".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn without_streaming_what_is_said_between_calls_is_told_aside() {
    let world = world(Display { interim: true, ..quiet() });
    world.follows(1);
    world.hears(1, text("let me look")).await;
    world.hears(1, calling("a", "terminal", "{}")).await;
    world.hears(1, called("a")).await;
    world.hears(1, text("it is 42")).await;
    world.hears(1, answered()).await;
    assert_eq!(world.said(), ["post 1 let me look"]);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_turn_loses_its_cursor_and_files_are_not_previewed() {
    let world = world(Display { streaming: streaming(), ..quiet() });
    world.follows(1);
    world.hears(1, text("MEDIA:/tmp/a.png\n")).await;
    assert_eq!(world.said(), Vec::<String>::new());
    world.hears(1, text("here it is")).await;
    world.hears(1, failed(FailureKind::Stopped)).await;
    assert_eq!(world.said(), ["post 1 here it is|", "edit 1 here it is"]);
}

#[tokio::test(start_paused = true)]
async fn somebody_types_until_a_person_is_asked() {
    let world = world(Display { typing: true, ..quiet() });
    world.follows(1);
    tokio::time::sleep(Duration::from_secs(9)).await;
    let typed = || world.adapter.done().iter().filter(|line| *line == "typing").count();
    assert_eq!(typed(), 3, "at once, and every four seconds");
    let call = CallId { session: session(), turn: TurnId(Seq(1)), step: 1, index: 0, question: 0 };
    let question = Question::Clarify { question: "which?".into(), choices: vec![] };
    let ask = Ask { question, asked: NOW, until: NOW };
    world.hears(1, Update::Asked(Pending { call, tool: "clarify".into(), ask })).await;
    let then = typed();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(typed(), then, "it waits, and so does the sign");
    world.hears(1, called("a")).await;
    assert_eq!(typed(), then + 1);
}

#[tokio::test(start_paused = true)]
async fn tools_are_told_in_one_message_that_grows() {
    let world = world(Display { tool_progress: ToolProgress::All, ..quiet() });
    world.follows(1);
    for (id, tool, arguments) in [
        ("a", "terminal", r#"{"command": "ls -la"}"#),
        ("b", "terminal", r#"{"command": "ls -la"}"#),
        ("c", "read_file", r#"{"path": "a-very-long-path-that-goes-on-and-on-and-on.txt"}"#),
    ] {
        world.hears(1, calling(id, tool, arguments)).await;
        world.hears(1, called(id)).await;
    }
    world.hears(1, answered()).await;
    let said = world.said();
    assert_eq!(said[0], "post 1 💻 terminal: \"ls -la\"");
    assert!(said[1..].iter().all(|line| line.starts_with("edit 1 ")), "{said:?}");
    let last =
        "edit 1 💻 terminal: \"ls -la\" (×2)\n📖 read_file: \"a-very-long-path-that-goes-on-and-on-...\"";
    assert_eq!(said.last().unwrap(), last);
}

#[tokio::test(start_paused = true)]
async fn p4_what_a_person_chose_with_verbose_counts_at_once_and_in_this_conversation() {
    let world = world(Display { tool_progress: ToolProgress::All, ..quiet() });
    world.follows(1);
    for (id, level) in
        [("a", Some(Chosen::Off)), ("b", None), ("c", Some(Chosen::Verbose)), ("d", Some(Chosen::Off))]
    {
        world.api.preferences.lock().unwrap().tools = level;
        world.hears(1, calling(id, "terminal", &format!(r#"{{"command": "echo {id}"}}"#))).await;
        world.hears(1, called(id)).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let said = world.said().join("\n");
    assert!(!said.contains("echo a") && !said.contains("echo d"), "{said}");
    assert!(said.contains("terminal: \"echo b\"") && said.contains("echo c"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn secrets_in_calls_are_not_told() {
    let world = world(Display { tool_progress: ToolProgress::Verbose, ..quiet() });
    world.follows(1);
    let key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD";
    world
        .hears(1, calling("a", "terminal", &format!(r#"{{"command": "export OPENAI_API_KEY={key}"}}"#)))
        .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let said = world.said().join("\n");
    assert!(said.contains("terminal") && !said.contains(key), "{said}");
}

#[tokio::test(start_paused = true)]
async fn p8_whoever_writes_meanwhile_is_told_once_in_half_a_minute() {
    let world = world(Display { busy_ack: true, busy_ack_detail: true, ..quiet() });
    world.follows(1);
    world.hears(1, calling("a", "terminal", "{}")).await;
    for seq in 2..5 {
        world.follows(seq);
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    assert_eq!(
        world.said(),
        ["post 1 ⏳ I am still at work (running terminal). Yours is next; /stop ends what runs."]
    );
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.follows(5);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.said().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_order_that_is_carried_out_at_once_is_not_told_to_wait() {
    let world = world(Display { busy_ack: true, reactions: true, ..quiet() });
    world.follows(1);
    world.follows(2);
    world.hears(2, settled(Outcome::Done { said: "idle".into(), successor: None })).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.adapter.done(), ["react m1 👀", "react m2 👀", "react m2 "]);
}

#[tokio::test(start_paused = true)]
async fn messages_that_share_a_turn_share_a_view() {
    let world = world(Display { streaming: streaming(), reactions: true, ..quiet() });
    world.follows(1);
    world.hears(1, text("hello ")).await;
    world.follows(2);
    for seq in [1, 2] {
        world.api.tell(seq, text("you two"));
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    for seq in [1, 2] {
        world.api.tell(seq, answered());
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.said(), ["post 1 hello|", "edit 1 hello you two|"]);
    let signs: Vec<_> = world.adapter.done().into_iter().filter(|line| line.contains('✅')).collect();
    assert_eq!(signs, ["react m1 ✅", "react m2 ✅"]);
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_next_message_gets_the_view_when_its_turn_comes() {
    let world = world(Display { streaming: streaming(), reactions: true, ..quiet() });
    world.follows(1);
    world.follows(2);
    world.hears(1, text("first")).await;
    world.hears(1, failed(FailureKind::Broken)).await;
    world.hears(2, text("second")).await;
    world.hears(2, answered()).await;
    assert_eq!(world.said(), ["post 1 first|", "post 2 second|"]);
    let signs: Vec<_> = world.adapter.done().into_iter().filter(|line| line.starts_with("react")).collect();
    assert_eq!(signs, ["react m1 👀", "react m2 👀", "react m1 ❌", "react m2 ✅"]);
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_question_leaves_with_buttons_or_in_words_that_say_it_comes_again() {
    let adapter = Arc::new(TestAdapter::default());
    let call = CallId { session: session(), turn: TurnId(Seq(1)), step: 1, index: 0, question: 0 };
    let question = Question::Approval { what: "rm".into(), why: "because".into(), patterns: vec![] };
    let ask = Ask { question, asked: NOW, until: NOW };
    let pending = Pending { call: call.clone(), tool: "terminal".into(), ask };
    let outgoing = Outgoing {
        attempted: None,
        key: format!("{call}/asked"),
        session: session(),
        destination: direct(1, "").reply_to,
        text: "May I?".into(),
        trace: throughline_core::input::Trace::default(),
        attempts: 0,
        attempting: None,
        marked: false,
        not_before: NOW,
        draft: None,
        question: Some(pending.clone()),
    };
    assert_eq!(Outgoing::asked_by(&outgoing.key), Some(call));
    let asked = async |mark| crate::adapter::ask(adapter.as_ref(), &outgoing, &pending, mark).await;
    asked(None).await.unwrap();
    asked(Some("again")).await.unwrap();
    assert_eq!(adapter.done(), ["put s/1/1/0", "send marked May I?"]);
}
