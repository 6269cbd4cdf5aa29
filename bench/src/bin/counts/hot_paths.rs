//! What is counted, and what it works on: the same texts in each run, and no clock.

use anyhow::{Context, Result};
use std::hint::black_box;
use std::sync::Arc;
use throughline_core::history::legal;
use throughline_core::input::{Birth, Chat, DedupeKey, Destination, Input, Kind, Trace};
use throughline_core::message::{Assistant, Body, Content, JsonText, Message, ToolCall, ToolResult};
use throughline_core::port::{Asked, Commit, Model, Store};
use throughline_core::prompt::{Composition, Digest, Head, Mark};
use throughline_core::session::review::Intervals;
use throughline_core::session::{Act, Event, FrozenPrompt, Job, Rules, Session};
use throughline_core::turn::{Answer, Usage};
use throughline_core::{Seq, Time};
use throughline_models::{OpenAi, OpenAiConfig};
use throughline_net::{Client, ClientSettings};
use throughline_store::{FileSystem, Home};

pub struct HotPath {
    pub name: &'static str,
    /// How many are counted.
    pub operations: usize,
    pub counted: Counted,
    /// Prepares the same whatever the number of operations, then does so many.
    pub run: fn(usize) -> Result<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    All,
    /// Where digests are most of it, and would hide what else becomes dearer.
    AllButDigests,
    Digests,
}

pub const HOT_PATHS: [HotPath; 6] = [
    HotPath { name: "step", operations: 1000, counted: Counted::All, run: step },
    HotPath { name: "commit", operations: COMMITTED_TURNS, counted: Counted::All, run: commit },
    HotPath { name: "encode", operations: 100, counted: Counted::AllButDigests, run: encode },
    HotPath { name: "encode-digests", operations: 100, counted: Counted::Digests, run: encode },
    HotPath { name: "request", operations: 1000, counted: Counted::AllButDigests, run: request },
    HotPath { name: "request-digests", operations: 1000, counted: Counted::Digests, run: request },
];

/// So many that the database writes its log back several times, as in the long run.
const COMMITTED_TURNS: usize = 1000;
/// Before anything is counted, so that it is no session's first turn and statements are prepared.
const EARLIER_TURNS: usize = 10;
const MESSAGES: usize = 200;

// ----------------------------------------------------------------------------------------- paths

/// A chat message that an idle session receives, and the model's answer; after each of them, what is to be done next.
fn step(times: usize) -> Result<()> {
    let rules = rules();
    let mut conversation = Conversation::new()?;
    (0..EARLIER_TURNS).for_each(|_| drop(conversation.turn(&rules)));
    let (idle, received) = (conversation.session.clone(), conversation.received());
    let (asking, _) = idle.step(received.clone(), NOW, &rules);
    let answered = answered(&asking);
    for _ in 0..times {
        let (asking, acts) = black_box(&idle).step(received.clone(), NOW, &rules);
        black_box((asking.jobs(), acts));
        let (answered, acts) = asking.step(answered.clone(), NOW, &rules);
        black_box((answered.jobs(), acts));
    }
    Ok(())
}

/// The two commits of such a turn, each as a batch of its own.
fn commit(times: usize) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let home = Home { filesystem: FileSystem::Trusted, ..Home::at(directory.path()) };
    let mut writer = home.writer(NOW)?;
    let rules = rules();
    let mut conversation = Conversation::new()?;
    let turns: Vec<[Commit; 2]> =
        (0..EARLIER_TURNS + COMMITTED_TURNS).map(|_| conversation.turn(&rules)).collect();
    for commit in turns[..EARLIER_TURNS + times].iter().flatten() {
        writer.commit(std::slice::from_ref(commit)).remove(0)?;
    }
    std::mem::forget(writer); // a close would write the log back, and be counted
    Ok(())
}

/// A request with 200 messages, made from the rows of a transcript.
fn encode(times: usize) -> Result<()> {
    let (model, transcript) = (model()?, transcript());
    let (tools, system) = (tools(), system_prompt());
    for _ in 0..times {
        let composition = composed(&model, &tools, &system, black_box(&transcript));
        black_box(asked(&model, &composition));
    }
    Ok(())
}

/// The same request where all but its last message were encoded for the one before.
fn request(times: usize) -> Result<()> {
    let (model, transcript) = (model()?, transcript());
    let mut composition = composed(&model, &tools(), &system_prompt(), &transcript);
    let last = transcript.last().context("there are messages")?;
    for _ in 0..times {
        composition.amend(model.encode(black_box(last)));
        black_box(asked(&model, &composition));
    }
    Ok(())
}

// ---------------------------------------------------------------------------------- conversation

const NOW: Time = Time(1_800_000_000_000_000);

fn rules() -> Rules {
    Rules {
        hard_tokens: Some(100_000),
        agent: "main".into(),
        home: "/home/user/.hermes".into(),
        baseline: Some(Time(1_700_000_000_000_000)),
        review: Intervals { turns: u32::MAX, steps: u32::MAX }, // counted, and none falls due: nothing here would run it
        ..Rules::default()
    }
}

/// One chat with a bot, as its turns follow each other.
struct Conversation {
    session: Session,
    received: u64,
}

impl Conversation {
    fn new() -> Result<Self> {
        // Its prompt was frozen with its first turn: what is counted is what any later turn costs.
        let prompt = Some(FrozenPrompt { text: "persona".into(), layer: None });
        let session = Session::new("20270115_080000_66bfaec7".parse()?);
        let (session, _) = session.step(Event::Stored { prompt, context: 0 }, NOW, &Rules::default());
        Ok(Self { session, received: 0 })
    }

    /// The next message of its person.
    fn received(&self) -> Event {
        let number = self.received + 1;
        let destination = Destination {
            platform: "telegram".into(),
            account: "bot".into(),
            chat: "42".into(),
            thread: None,
            reply_to: None,
        };
        Event::Received(Arc::new(Input {
            seq: Seq(number),
            at: NOW,
            key: DedupeKey::of(&["telegram", "bot", "42", &number.to_string()]),
            kind: Kind::Chat(Content::text(text(number as usize, 120))),
            reply_to: Some(destination),
            sender: None,
            platform_id: Some(number.to_string()),
            trace: Trace::default(),
            left: None,
        }))
    }

    /// What is written when its next message comes in, and when that is answered.
    fn turn(&mut self, rules: &Rules) -> [Commit; 2] {
        let first = (self.received == 0).then(birth);
        let asking = self.next(self.received(), first, rules);
        self.received += 1;
        [asking, self.next(answered(&self.session), None, rules)]
    }

    fn next(&mut self, event: Event, first: Option<Act>, rules: &Rules) -> Commit {
        let (next, acts) = self.session.step(event, NOW, rules);
        let expect = self.session.generation;
        self.session = next.clone();
        let acts = first.into_iter().chain(acts).collect();
        Commit::Session { expect, state: Box::new(next), acts, at: NOW }
    }
}

fn birth() -> Act {
    let chat = Chat {
        key: "agent:main:telegram:dm:42".parse().expect("a plain key"),
        platform: "telegram".into(),
        chat_type: "dm".into(),
        display_name: None,
        origin: None,
    };
    Act::Open(Box::new(Birth { source: "telegram".into(), chat: Some(chat), ..Birth::default() }))
}

/// The model's answer to what this session asks.
fn answered(session: &Session) -> Event {
    let ask = session.jobs().into_iter().find_map(|job| match job {
        Job::Ask { turn, step } => Some((turn, step)),
        _ => None,
    });
    let (turn, step) = ask.expect("a message was received: the model is to be asked");
    let said = Assistant { content: Content::text(text(7, 400)), ..Assistant::default() };
    let usage = Usage { input: 1_000, output: 100, ..Usage::default() };
    let head = Head { model: 1, tools: 2, system: 3 };
    Event::Answered {
        turn,
        step,
        answer: Answer { said, usage, model: "m".into() },
        prompt: Mark { chain: Digest::of(&[b"chain"]), messages: 1, head },
        full: false,
    }
}

// --------------------------------------------------------------------------------------- request

fn model() -> Result<OpenAi> {
    Ok(OpenAi::new(OpenAiConfig::new("http://127.0.0.1:1/v1", "m"), Client::new(ClientSettings::default()))?)
}

fn composed(model: &OpenAi, tools: &JsonText, system: &str, transcript: &[Message]) -> Composition {
    let (tools, system) = (model.encode_tools(tools), model.encode_system(system));
    let mut composition = Composition::new(model.name(), Some(tools), Some(system));
    legal(transcript).iter().for_each(|message| composition.push(model.encode(message)));
    composition
}

/// The bytes of its body, and the mark that is stored with the answer.
fn asked(model: &OpenAi, composition: &Composition) -> (String, Mark) {
    let asked = Asked { session: "s".into(), prompt: composition.prompt(), sampling: None };
    (model.body(&asked), composition.mark())
}

/// Of four messages each: a question, a call, its result, an answer. They end with a question.
fn transcript() -> Vec<Message> {
    let assistant = |assistant| Message::new(NOW, Body::Assistant(assistant));
    let message = |nth: usize| match nth % 4 {
        0 => {
            let call = ToolCall {
                id: format!("call_{nth}"),
                name: "read_file".into(),
                arguments: format!(r#"{{"path":"notes/{nth}.md","offset":1,"limit":500}}"#),
                extra: None,
            };
            assistant(Assistant { calls: vec![call], ..Assistant::default() })
        }
        1 => {
            let content = Content::text(text(nth, 1_500));
            let call_id = format!("call_{}", nth - 1);
            Message::new(NOW, Body::Result(ToolResult { call_id, name: Some("read_file".into()), content }))
        }
        2 => assistant(Assistant { content: Content::text(text(nth, 400)), ..Assistant::default() }),
        _ => Message::user(NOW, Content::text(text(nth, 120))),
    };
    (0..MESSAGES).map(message).collect()
}

fn system_prompt() -> String {
    text(3, 6_000)
}

fn tools() -> JsonText {
    let tool = |nth: usize| {
        let words = text(nth, 400).replace(['"', '\n'], " ");
        format!(
            r#"{{"type":"function","function":{{"name":"tool_{nth}","description":"{words}","parameters":{{"type":"object","properties":{{"path":{{"type":"string"}}}},"required":["path"]}}}}}}"#
        )
    };
    let tools: Vec<String> = (0..30).map(tool).collect();
    JsonText::from_valid(format!("[{}]", tools.join(",")))
}

/// Words with what has to be escaped now and then; another text for each number.
fn text(number: usize, bytes: usize) -> String {
    const WORDS: [&str; 8] =
        ["the ", "session ", "answers\n", "at ", "\"once\" ", "and ", "größer ", "nothing is lost. "];
    let mut text = format!("{number} ");
    for nth in number.. {
        text.push_str(WORDS[(nth * (nth + 1) / 2 + number) % WORDS.len()]);
        if text.len() >= bytes {
            break;
        }
    }
    text
}
