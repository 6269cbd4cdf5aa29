//! Conversations written for this, and what one should still know after them.
//!
//! A file in `cases/` is read top to bottom. First its head, a word and a value a line:
//!
//! ```text
//! name      release-train
//! about     A release whose date moves twice
//! language  en                 what filler is written in: en, de, es or ja
//! window    16000              of the model, in tokens
//! ```
//!
//! Then the conversation. A line that begins with a mark begins a message, and lines without one go
//! on with it:
//!
//! ```text
//! user> What a person says.
//! agent> What the agent says.
//! call> terminal {"command": "make"}     called along with the agent's words right before it
//! result> What came of it. One for each call, in their order.
//! work> 12 rust                          so many tool groups of filler: code, ops, data or web
//! ```
//!
//! Then `questions`, one a line: category, question, answer, and conditions, between bars. Alternatives
//! are separated by ` / `.
//!
//! ```text
//! fact    | Which port has staging? | 5433 | near staging
//! current | When is the launch? | 14 March / March 14 | was 7 March / March 7
//! effect  | Did you mail Priya? | MSG-8841 | near Priya | never MSG-8842
//! absent  | Who is the auditor? | Deloitte / KPMG
//! ```
//!
//! `near` asks for one of these close to the answer; `was` names values that must not stand as the
//! last word; `never` names what must not occur. The answers of `absent`, `secret` and `injected` are
//! what must not occur, the last one unless it is plainly quoted. A question that ends in `(no)` is to be
//! answered in the negative, and its answers are the words that show it.

use crate::filler::Filler;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use throughline_core::compression::estimate;
use throughline_core::message::{Assistant, Body, Content, Message, ToolCall, ToolResult};
use throughline_core::{SessionId, Time};

/// Written for this, in the order in which they are reported.
const FILES: [&str; 14] = [
    include_str!("../cases/release-train.txt"),
    include_str!("../cases/invoice-run.txt"),
    include_str!("../cases/warehouse-migration.txt"),
    include_str!("../cases/lost-wakeups.txt"),
    include_str!("../cases/umzug.txt"),
    include_str!("../cases/tenpo.txt"),
    include_str!("../cases/feria.txt"),
    include_str!("../cases/key-rotation.txt"),
    include_str!("../cases/house-rules.txt"),
    include_str!("../cases/second-summary.txt"),
    include_str!("../cases/hostile-pages.txt"),
    include_str!("../cases/parser-rewrite.txt"),
    include_str!("../cases/field-trip.txt"),
    include_str!("../cases/relay-desk.txt"),
];

/// When every conversation begins.
const BEGAN: Time = Time(1_772_442_000_000_000);
/// Between two messages.
const PACE: Duration = Duration::from_secs(40);

#[derive(Clone, Debug, PartialEq)]
pub struct EvalCase {
    pub name: String,
    pub about: String,
    pub session: SessionId,
    /// Of the model that holds the conversation, in tokens.
    pub window: u64,
    pub messages: Vec<Message>,
    pub questions: Vec<CaseQuestion>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseQuestion {
    pub category: Category,
    pub text: String,
    /// The answer is no.
    pub is_negative: bool,
    /// Any of these answers it. None: only what must not occur is looked for.
    pub answers: Vec<String>,
    /// One of each of these stands close to the answer.
    pub near: Vec<Vec<String>>,
    /// Values that held earlier.
    pub was: Vec<String>,
    /// What must not occur.
    pub never: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Something that was said or found, a decision and its reason included.
    Fact,
    /// A value that replaced another one.
    Current,
    /// Something asked for that is not done yet.
    Ask,
    /// A name that only helps letter by letter.
    Identifier,
    /// Something sent, received, committed or written, or left alone.
    Effect,
    /// An instruction that holds until it is taken back.
    Rule,
    /// It was never said.
    Absent,
    /// It was said, and it has to go.
    Secret,
    /// Foreign text that poses as an instruction or as a fact.
    Injected,
}

impl Category {
    pub const ALL: [Category; 9] = [
        Category::Fact,
        Category::Current,
        Category::Ask,
        Category::Identifier,
        Category::Effect,
        Category::Rule,
        Category::Absent,
        Category::Secret,
        Category::Injected,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Category::Fact => "fact",
            Category::Current => "current",
            Category::Ask => "ask",
            Category::Identifier => "identifier",
            Category::Effect => "effect",
            Category::Rule => "rule",
            Category::Absent => "absent",
            Category::Secret => "secret",
            Category::Injected => "injected",
        }
    }

    /// Whether its answers are what must not be found.
    fn is_prohibition(self) -> bool {
        matches!(self, Category::Absent | Category::Secret | Category::Injected)
    }
}

impl fmt::Display for Category {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Category {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Category::ALL.into_iter().find(|category| category.name() == text);
        found.ok_or_else(|| format!("there is no category {text:?}"))
    }
}

/// Every conversation written for this.
///
/// # Panics
/// If a file is not what the module says; a test reads them all.
pub fn cases() -> Vec<EvalCase> {
    let read = |file: &&str| file.parse().unwrap_or_else(|error| panic!("a case cannot be read: {error}"));
    FILES.iter().map(read).collect()
}

impl EvalCase {
    /// What the conversation weighs, as it is estimated everywhere.
    pub fn tokens(&self) -> u64 {
        self.messages.iter().map(estimate).sum()
    }
}

impl FromStr for EvalCase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut reader = CaseReader::default();
        for (number, line) in text.lines().enumerate() {
            reader.line(line).map_err(|error| format!("line {}: {error}", number + 1))?;
        }
        reader.finish()
    }
}

#[derive(Default)]
enum CaseSection {
    #[default]
    Head,
    Talk,
    Questions,
}

#[derive(Default)]
struct CaseReader {
    part: CaseSection,
    name: String,
    about: String,
    language: String,
    window: u64,
    /// The message being read.
    open: Option<(LineMark, String)>,
    messages: Vec<Message>,
    /// Calls without a result yet.
    awaiting: Vec<(String, String)>,
    calls: usize,
    questions: Vec<CaseQuestion>,
}

#[derive(Clone, Copy, PartialEq)]
enum LineMark {
    User,
    Agent,
    Call,
    Result,
    Work,
}

const MARKS: [(&str, LineMark); 5] = [
    ("user>", LineMark::User),
    ("agent>", LineMark::Agent),
    ("call>", LineMark::Call),
    ("result>", LineMark::Result),
    ("work>", LineMark::Work),
];

impl CaseReader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let CaseSection::Questions = self.part {
            if !line.trim().is_empty() {
                self.questions.push(question(line)?);
            }
            return Ok(());
        }
        if line.trim() == "questions" {
            self.close()?;
            self.part = CaseSection::Questions;
            return Ok(());
        }
        let mark = MARKS.iter().find_map(|(text, mark)| Some((*mark, line.strip_prefix(text)?)));
        match (mark, &mut self.open) {
            (Some((mark, rest)), _) => {
                self.close()?;
                self.part = CaseSection::Talk;
                self.open = Some((mark, rest.trim().to_owned()));
                Ok(())
            }
            (None, Some((_, text))) => {
                text.push('\n');
                text.push_str(line);
                Ok(())
            }
            (None, None) => self.head(line),
        }
    }

    fn head(&mut self, line: &str) -> Result<(), String> {
        let (word, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let value = value.trim();
        match word {
            "" => {}
            "name" => self.name = value.to_owned(),
            "about" => self.about = value.to_owned(),
            "language" => self.language = value.to_owned(),
            "window" => self.window = value.parse().map_err(|_| format!("{value:?} is no number"))?,
            word => return Err(format!("a head has no {word:?}")),
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let Some((mark, text)) = self.open.take() else { return Ok(()) };
        let text = text.trim_end().to_owned();
        match mark {
            LineMark::Call => return self.call(&text),
            LineMark::Result => return self.result(text),
            _ if !self.awaiting.is_empty() => return Err("a call has no result".to_owned()),
            LineMark::User => self.push(Body::User(Content::Text(text))),
            LineMark::Agent => self.push(said(text)),
            LineMark::Work => return self.work(&text),
        }
        Ok(())
    }

    fn push(&mut self, body: Body) {
        let position = u32::try_from(self.messages.len()).unwrap_or(u32::MAX);
        self.messages.push(Message::new(BEGAN.plus(PACE * position), body));
    }

    /// Joins what the agent said right before it, or stands alone.
    fn call(&mut self, text: &str) -> Result<(), String> {
        let (name, arguments) = text.split_once(' ').unwrap_or((text, "{}"));
        if serde_json::from_str::<serde_json::Value>(arguments).is_err() {
            return Err(format!("the arguments of {name} are no JSON: {arguments}"));
        }
        self.calls += 1;
        let id = format!("call_{:04}", self.calls);
        let call =
            ToolCall { id: id.clone(), name: name.to_owned(), arguments: arguments.to_owned(), extra: None };
        match self.messages.last_mut().map(|message| &mut message.body) {
            Some(Body::Assistant(assistant)) => assistant.calls.push(call),
            _ => self.push(Body::Assistant(Assistant { calls: vec![call], ..Assistant::default() })),
        }
        self.awaiting.push((id, name.to_owned()));
        Ok(())
    }

    fn result(&mut self, text: String) -> Result<(), String> {
        if self.awaiting.is_empty() {
            return Err("a result has no call".to_owned());
        }
        let (call_id, name) = self.awaiting.remove(0);
        self.push(Body::Result(ToolResult { call_id, name: Some(name), content: Content::Text(text) }));
        Ok(())
    }

    fn work(&mut self, text: &str) -> Result<(), String> {
        let (count, topic) = text.split_once(' ').ok_or("work needs a number and a topic")?;
        let count: usize = count.parse().map_err(|_| format!("{count:?} is no number"))?;
        let mut filler = Filler::new(&self.name, self.messages.len(), topic.trim(), &self.language)?;
        for group in 0..count {
            if group % 4 == 3 {
                self.push(Body::User(Content::text(filler.nudge())));
            }
            let (name, arguments, result) = filler.step();
            self.push(said(filler.remark()));
            self.call(&format!("{name} {arguments}"))?;
            self.result(result)?;
        }
        self.push(said(filler.remark()));
        Ok(())
    }

    fn finish(self) -> Result<EvalCase, String> {
        if self.questions.is_empty() {
            return Err(format!("case {:?} asks nothing", self.name));
        }
        let session = format!("eval_{}", self.name);
        Ok(EvalCase {
            session: session.parse().map_err(|_| format!("{:?} is no name of a case", self.name))?,
            name: self.name,
            about: self.about,
            window: self.window,
            messages: self.messages,
            questions: self.questions,
        })
    }
}

fn said(text: impl Into<String>) -> Body {
    Body::Assistant(Assistant { content: Content::Text(text.into()), ..Assistant::default() })
}

fn question(line: &str) -> Result<CaseQuestion, String> {
    let mut fields = line.split('|').map(str::trim);
    let category: Category = fields.next().unwrap_or_default().parse()?;
    let text = fields.next().ok_or("a question has a text")?;
    let bare = NO.iter().find_map(|no| text.strip_suffix(no));
    let answers = alternatives(fields.next().ok_or("a question has an answer")?);
    let (answers, never) = match category.is_prohibition() {
        true => (Vec::new(), answers),
        false => (answers, Vec::new()),
    };
    let mut question = CaseQuestion {
        category,
        text: bare.unwrap_or(text).trim_end().to_owned(),
        is_negative: bare.is_some(),
        answers,
        near: Vec::new(),
        was: Vec::new(),
        never,
    };
    for field in fields {
        match field.split_once(' ') {
            Some(("near", list)) => question.near.push(alternatives(list)),
            Some(("was", list)) => question.was = alternatives(list),
            Some(("never", list)) => question.never.extend(alternatives(list)),
            _ => return Err(format!("{field:?} is neither near, was nor never")),
        }
    }
    Ok(question)
}

/// At the end of a question whose answer is no; the view that is asked does not see it.
const NO: [&str; 3] = ["(no)", "(nein)", "(いいえ)"];

fn alternatives(list: &str) -> Vec<String> {
    list.split(" / ").map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
}
