//! The terminal client: a client of the control API, like any other.
//!
//! - each line has a key of its own; whatever breaks, it is sent again under that key, so that
//!   nothing is said twice and nothing is lost
//! - words appear as they come, and the whole answer is always the end of what was printed
//! - Ctrl-C stops the waiting, never the turn: what was accepted is answered
//! - without a terminal only answers are printed, whole
//!
//! Deliberately absent: the store, the gateway's insides, and what orders mean: those are the
//! server's.

#[cfg(test)]
pub mod fake;
pub mod lines;
mod shown;
#[cfg(test)]
pub mod tests;

use crate::client::{Asked, Client, ClientError, Event, Known, Line, Status};
use crate::out::{Page, Tint, one_line, visible};
use lines::{Lines, Typed};
use shown::Shown;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;
use throughline_core::SessionId;
use throughline_core::command::Command;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};

/// A gateway that restarts is back within seconds. Whoever waits longer wants to know.
const PATIENCE: Duration = Duration::from_secs(60);
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// As for a program that was ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// What is printed beside the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// For a person: a greeting, and words as they come.
    Terminal,
    /// For a program: answers, whole.
    Plain,
}

/// Whose process the gateway is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gateway {
    Running,
    /// It was started for this chat and ends with it.
    Own,
}

/// Where things are printed: answers here, all else there.
pub struct Screen<'a> {
    pub manner: Manner,
    pub page: Page,
    pub out: &'a mut dyn Write,
    pub notes: &'a mut dyn Write,
}

/// One conversation after the other, with one gateway.
pub struct Chat<'a> {
    client: Client,
    status: Status,
    gateway: Gateway,
    session: Option<SessionId>,
    /// Something has been said in `session`, so that it can be found again.
    has_spoken: bool,
    keys: Keys,
    /// Ctrl-C, while nobody edits a line.
    interrupts: UnboundedReceiver<()>,
    screen: Screen<'a>,
    /// The last line was accepted, and nobody waited for its answer.
    left_behind: bool,
}

/// How a line ended, for the one who wrote it.
#[derive(Debug)]
enum Ended {
    Answered {
        text: String,
        finish: String,
    },
    Done {
        said: String,
        successor: Option<SessionId>,
    },
    Failed {
        message: String,
        code: String,
    },
    /// Ctrl-C.
    Left,
}

impl<'a> Chat<'a> {
    pub fn new(
        client: Client,
        status: Status,
        gateway: Gateway,
        interrupts: UnboundedReceiver<()>,
        screen: Screen<'a>,
    ) -> Self {
        Self {
            client,
            status,
            gateway,
            session: None,
            has_spoken: false,
            keys: Keys::new(),
            interrupts,
            screen,
            left_behind: false,
        }
    }

    /// Goes on where `known` stopped.
    pub fn resume(&mut self, known: &Known) {
        self.session = Some(known.id.clone());
        self.has_spoken = true;
    }

    /// Who answers, which conversation, and how to leave.
    pub fn greet(&mut self, resumed: Option<&Known>) -> io::Result<()> {
        let Screen { manner, page, out, notes } = &mut self.screen;
        if self.status.is_rehearsal() {
            let warning = "These answers are a rehearsal: no model is set up, and nothing here understands you. \
                           Put a key into the home's .env and name a model in its config.yaml.";
            writeln!(notes, "{}", page.paint(Tint::Yellow, warning))?;
        }
        if *manner == Manner::Plain {
            return Ok(());
        }
        let Status { agent, version, model, .. } = &self.status;
        let who = format!("{} answers as {}", one_line(agent), one_line(model));
        let at = format!("Throughline {version} at {}", self.client.address());
        writeln!(out, "{}  {}", page.paint(Tint::Bold, &who), page.paint(Tint::Dim, &at))?;
        if self.gateway == Gateway::Own {
            writeln!(out, "No gateway was running: this one was started for the chat, and ends with it.")?;
        }
        match resumed {
            None => writeln!(out, "A new conversation begins with your first line.")?,
            Some(known) => {
                let about = one_line(known.title.as_deref().unwrap_or(&known.preview));
                let when = page.minute(known.last_active);
                writeln!(out, "Continuing {} of {when}  {about}", known.id)?;
            }
        }
        writeln!(out, "{}\n", page.paint(Tint::Dim, "/help lists the orders, Ctrl-D leaves."))?;
        out.flush()
    }

    /// Until there are no more lines. Where a program writes them, the first failure ends it: the
    /// lines after it would speak to somebody who has not heard the one before.
    pub async fn converse(&mut self, lines: &mut dyn Lines) -> anyhow::Result<ExitCode> {
        loop {
            self.forget_interrupts();
            let typed = tokio::select! {
                biased;
                typed = lines.next() => typed?,
                Some(()) = self.interrupts.recv() => return Ok(ExitCode::from(INTERRUPTED)),
            };
            let text = match typed {
                Typed::End => break,
                Typed::Cleared => continue,
                Typed::Line(text) => text,
            };
            match text.trim() {
                "" => continue,
                "/exit" | "/quit" => break,
                _ => {}
            }
            let code = self.take(text, Some(lines)).await?;
            if self.screen.manner == Manner::Plain && code != ExitCode::SUCCESS {
                return Ok(code);
            }
        }
        self.part()?;
        Ok(ExitCode::SUCCESS)
    }

    /// One line, and what came of it. Questions on the way are answered from `lines`.
    pub async fn take(&mut self, text: String, lines: Option<&mut dyn Lines>) -> anyhow::Result<ExitCode> {
        let order = Command::parse(&text, |_| "next".parse().expect("four letters are an id"));
        self.left_behind = false;
        let ended = self.ask(text, lines).await?;
        let is_told = matches!(ended, Ended::Answered { .. } | Ended::Done { .. });
        match ended {
            Ended::Answered { text, finish } => self.answered(&text, &finish)?,
            Ended::Done { said, successor } => self.done(order, &said, successor).await?,
            Ended::Failed { message, code } => self.failed(&message, &code)?,
            Ended::Left => {
                self.left()?;
                return Ok(ExitCode::from(INTERRUPTED));
            }
        }
        Ok(if is_told { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Sends the line under its key until it has come to an end, or Ctrl-C.
    async fn ask(&mut self, text: String, mut lines: Option<&mut dyn Lines>) -> anyhow::Result<Ended> {
        self.forget_interrupts();
        let can_answer = self.screen.manner == Manner::Terminal && lines.is_some();
        let line = Line { text, session: self.session.clone(), key: self.keys.next(), can_answer };
        let mut patience = Patience::default();
        let mut telling = Telling { shown: Shown::default(), is_thinking: false };
        loop {
            let Self { client, session, has_spoken, screen, left_behind: accepted, interrupts, .. } = self;
            let (telling, patience) = (&mut telling, &mut patience);
            let can_answer = screen.manner == Manner::Terminal;
            let (asking, asked) = unbounded_channel();
            let mut following =
                Following { session, has_spoken, screen, telling, patience, accepted, asking };
            let answering = async {
                match &mut lines {
                    Some(lines) if can_answer => answer(client, asked, *lines).await,
                    _ => std::future::pending().await, // nobody is there to ask; the gateway gives up in time
                }
            };
            let trouble = tokio::select! {
                biased;
                Some(()) = interrupts.recv() => return Ok(Ended::Left),
                ended = following.follow(client, &line) => match ended? {
                    Ok(ended) => return Ok(ended),
                    Err(trouble) => trouble,
                },
                trouble = answering => return Err(trouble),
            };
            following.break_off()?;
            let wait = match patience.wait(&trouble) {
                Wait::For(wait) => wait,
                Wait::NoMore(failed) => return Ok(failed),
            };
            if patience.is_first() {
                self.say_that_it_is_tried_again(&trouble)?;
            }
            tokio::select! {
                biased;
                Some(()) = self.interrupts.recv() => return Ok(Ended::Left),
                () = sleep(wait) => {}
            }
        }
    }

    /// Those that have come were meant for something that is over.
    fn forget_interrupts(&mut self) {
        while self.interrupts.try_recv().is_ok() {}
    }

    // ------------------------------------------------------------------------------- what is said

    fn answered(&mut self, text: &str, finish: &str) -> io::Result<()> {
        let Screen { manner, page, out, .. } = &mut self.screen;
        if *manner == Manner::Plain {
            let is_terminal = page.width.is_some();
            let text = if is_terminal { visible(text) } else { text.into() };
            writeln!(out, "{}", text.strip_suffix('\n').unwrap_or(&text))?;
            out.flush()?;
        }
        match finish {
            "length" => self.note(Tint::Yellow, "The answer was cut off: it reached the model's limit."),
            "content_filter" => {
                self.note(Tint::Yellow, "The answer was cut off by the model's content filter.")
            }
            _ => Ok(()),
        }
    }

    async fn done(
        &mut self,
        order: Option<Command>,
        said: &str,
        successor: Option<SessionId>,
    ) -> io::Result<()> {
        if successor.is_some() {
            self.session = successor;
            self.has_spoken = false;
        }
        let more = match order {
            Some(Command::Help) => Some(KEYS.to_owned()),
            Some(Command::Status) => Some(self.standing().await),
            _ => None,
        };
        let Screen { manner, out, .. } = &mut self.screen;
        writeln!(out, "{}", visible(said))?;
        if let Some(more) = more {
            writeln!(out, "{more}")?;
        }
        if *manner == Manner::Terminal {
            writeln!(out)?;
        }
        out.flush()
    }

    /// Where the gateway stands, beside what the session says of itself.
    async fn standing(&mut self) -> String {
        match self.client.status().await {
            Ok(status) => self.status = status,
            Err(error) => return format!("The gateway's own state is not known: {error}."),
        }
        let Status { version, model, waiting, .. } = &self.status;
        let rehearsal = if self.status.is_rehearsal() { ", offline: no model is set up" } else { "" };
        let whose = match self.gateway {
            Gateway::Running => "",
            Gateway::Own => ", of this chat",
        };
        format!(
            "Model {}{rehearsal}\nGateway {} (Throughline {version}{whose}); {waiting} waiting in all sessions",
            one_line(model),
            self.client.address(),
        )
    }

    fn failed(&mut self, message: &str, code: &str) -> io::Result<()> {
        self.note(Tint::Red, &visible(message))?;
        if code == "session_ended" && self.screen.manner == Manner::Terminal {
            self.session = None;
            self.note(Tint::Dim, "Your next line begins a new conversation.")?;
        }
        Ok(())
    }

    fn left(&mut self) -> io::Result<()> {
        let note = match &self.session {
            Some(session) if self.left_behind => format!(
                "No longer waiting. The turn goes on: /status says where it stands, and the answer will be in \
                 `throughline sessions show {session}`."
            ),
            _ => "No longer waiting. The gateway has not said whether it took the message; \
                  `throughline sessions list` will show it if it did."
                .to_owned(),
        };
        writeln!(self.screen.notes)?; // after the ^C that the terminal shows
        self.note(Tint::Yellow, &note)
    }

    fn part(&mut self) -> io::Result<()> {
        if self.screen.manner == Manner::Plain {
            return Ok(());
        }
        if self.left_behind && self.gateway == Gateway::Own {
            self.note(
                Tint::Yellow,
                "The gateway of this chat finishes what it has begun, and ends. Ctrl-C ends it at once; \
                 the rest goes on at the next start.",
            )?;
        }
        let Some(session) = self.session.as_ref().filter(|_| self.has_spoken) else { return Ok(()) };
        let Screen { page, out, .. } = &mut self.screen;
        let farewell = format!("`throughline chat -c {session}` goes on from here.");
        writeln!(out, "{}", page.paint(Tint::Dim, &farewell))?;
        out.flush()
    }

    fn say_that_it_is_tried_again(&mut self, trouble: &ClientError) -> io::Result<()> {
        let note = format!(
            "{} Trying again for {} s with the same key, so nothing is said twice.",
            sentence(&trouble.to_string()),
            PATIENCE.as_secs()
        );
        self.note(Tint::Yellow, &visible(&note))
    }

    fn note(&mut self, tint: Tint, text: &str) -> io::Result<()> {
        self.screen.note(tint, text)
    }
}

/// What the server cannot know of.
const KEYS: &str = "\
Ctrl-C   while an answer comes: stop waiting for it; the turn goes on, /stop ends it
Ctrl-D   leave, as /exit does
Several lines that are pasted at once are one message.";

impl Screen<'_> {
    fn note(&mut self, tint: Tint, text: &str) -> io::Result<()> {
        self.out.flush()?;
        writeln!(self.notes, "{}", self.page.paint(tint, text))?;
        self.notes.flush()
    }
}

// ---------------------------------------------------------------------------------------- a line

/// What has been printed for a line, over all attempts.
struct Telling {
    shown: Shown,
    is_thinking: bool,
}

/// One attempt to have a line answered.
struct Following<'a, 'b> {
    session: &'a mut Option<SessionId>,
    has_spoken: &'a mut bool,
    screen: &'a mut Screen<'b>,
    telling: &'a mut Telling,
    patience: &'a mut Patience,
    accepted: &'a mut bool,
    asking: UnboundedSender<Asked>,
}

impl Following<'_, '_> {
    /// An error outside is one of writing; inside, it is what the gateway is the reason for.
    async fn follow(&mut self, client: &Client, line: &Line) -> io::Result<Result<Ended, ClientError>> {
        let mut saying = match client.say(line).await {
            Ok(saying) => saying,
            Err(error) => return Ok(Err(error)),
        };
        loop {
            let event = match saying.next().await {
                Ok(event) => event,
                Err(error) => return Ok(Err(error)),
            };
            match event {
                Event::Accepted { session } => self.accept(session)?,
                Event::Delta(words) => {
                    let words = self.telling.shown.delta(&words);
                    self.print(&words)?;
                }
                Event::Reasoning(_) => self.think()?,
                Event::Restarted => self.telling.shown.restart(),
                Event::Calling { tool, arguments } => self.call(&tool, &arguments)?,
                Event::Asked(asked) => {
                    self.remark()?;
                    let how =
                        if asked.is_open { "" } else { "\n[y]es, for this [s]ession, [a]lways, or [n]o" };
                    self.screen.note(Tint::Yellow, &visible(&format!("{}{how}", asked.text)))?;
                    let _ = self.asking.send(asked); // nobody answers in a pipe
                }
                Event::Answer { text, finish } => {
                    let rest = self.telling.shown.finish(&text);
                    self.print(&(rest + "\n\n"))?;
                    *self.accepted = false;
                    return Ok(Ok(Ended::Answered { text, finish }));
                }
                Event::Done { said, successor } => {
                    *self.accepted = false;
                    return Ok(Ok(Ended::Done { said, successor }));
                }
                Event::Failed { message } => {
                    self.end_line()?;
                    *self.accepted = false;
                    return Ok(Ok(Ended::Failed { message, code: String::new() }));
                }
                Event::Interrupted { message } => {
                    return Ok(Err(ClientError::Later { after: RETRY_FIRST, message }));
                }
            }
        }
    }

    fn accept(&mut self, session: SessionId) -> io::Result<()> {
        if self.patience.succeed() {
            self.screen.note(Tint::Dim, "Connected again.")?;
        }
        *self.session = Some(session);
        *self.has_spoken = true;
        *self.accepted = true;
        Ok(())
    }

    /// A sign of life before the first words.
    fn think(&mut self) -> io::Result<()> {
        if self.telling.is_thinking || !self.telling.shown.is_empty() {
            return Ok(());
        }
        self.telling.is_thinking = true;
        let thinking = self.screen.page.paint(Tint::Dim, "thinking …\n").into_owned();
        self.write(&thinking)
    }

    /// What a tool is called with, on one line.
    fn call(&mut self, tool: &str, arguments: &str) -> io::Result<()> {
        self.remark()?;
        let line = one_line(&format!("{tool} {arguments}"));
        let width = self.screen.page.width.unwrap_or(100).saturating_sub(4);
        let line: String = line.chars().take(width).collect();
        let line = self.screen.page.paint(Tint::Dim, &format!("┊ {line}\n")).into_owned();
        self.write(&line)
    }

    /// What was said so far was a remark on the way; the answer is yet to come.
    fn remark(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.telling.shown).is_empty() {
            true => Ok(()),
            false => self.write("\n"),
        }
    }

    fn print(&mut self, words: &str) -> io::Result<()> {
        self.write(&visible(words))
    }

    fn end_line(&mut self) -> io::Result<()> {
        if self.telling.shown.is_empty() { Ok(()) } else { self.write("\n") }
    }

    /// A note comes next, and after it the words come again from the beginning.
    fn break_off(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.telling.shown).is_empty() {
            self.write("…\n")?;
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if self.screen.manner == Manner::Plain || text.is_empty() {
            return Ok(()); // the answer is printed when it is whole
        }
        self.screen.out.write_all(text.as_bytes())?;
        self.screen.out.flush()
    }
}

/// Answers the questions of tools with what is typed. Ends only if nothing can be typed any more.
async fn answer(
    client: &Client,
    mut asked: UnboundedReceiver<Asked>,
    lines: &mut dyn Lines,
) -> anyhow::Error {
    while let Some(question) = asked.recv().await {
        loop {
            let text = match lines.next().await {
                Ok(Typed::Line(text)) => text,
                Ok(Typed::Cleared) => continue,
                Ok(Typed::End) => "n".to_owned(),
                Err(error) => return error,
            };
            let Some(verdict) = verdict(question.is_open, text.trim()) else { continue };
            match client.decide(&question.id, &verdict).await {
                Err(ClientError::Refused { .. }) | Ok(()) => break, // too late is too late
                Err(_) => {}                                        // it is asked for again
            }
        }
    }
    std::future::pending().await
}

fn verdict(is_open: bool, typed: &str) -> Option<serde_json::Value> {
    let approve = |scope: &str| serde_json::json!({"decision": "approve", "scope": scope});
    if typed.is_empty() {
        return None;
    }
    if is_open {
        return Some(serde_json::json!({ "answer": typed }));
    }
    Some(match typed.to_ascii_lowercase().as_str() {
        "y" | "yes" | "o" | "once" | "/approve" => approve("once"),
        "s" | "session" | "/approve session" => approve("session"),
        "a" | "always" | "/approve always" => approve("always"),
        "n" | "no" | "/deny" => serde_json::json!({"decision": "deny"}),
        _ => serde_json::json!({"decision": "deny", "reason": typed}), // words that are no yes are a no, with a reason
    })
}

/// How long a gateway that does not answer is asked again.
#[derive(Debug, Default)]
struct Patience {
    since: Option<Instant>,
    tries: u32,
}

enum Wait {
    For(Duration),
    NoMore(Ended),
}

impl Patience {
    fn wait(&mut self, trouble: &ClientError) -> Wait {
        let after = match trouble {
            ClientError::Lost(_) => (RETRY_FIRST * 2u32.pow(self.tries.min(5))).min(RETRY_MAX),
            ClientError::Later { after, .. } => *after,
            ClientError::Refused { code, message } => {
                return Wait::NoMore(Ended::Failed { message: message.clone(), code: code.clone() });
            }
            ClientError::WrongKey | ClientError::Foreign(_) => {
                return Wait::NoMore(Ended::Failed {
                    message: sentence(&trouble.to_string()),
                    code: String::new(),
                });
            }
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        self.tries += 1;
        if since.elapsed() + after > PATIENCE {
            let message = format!(
                "{} Given up after {} s. If the message was accepted it will be answered when the gateway runs; \
                 `throughline sessions list` shows it.",
                sentence(&trouble.to_string()),
                since.elapsed().as_secs()
            );
            return Wait::NoMore(Ended::Failed { message, code: String::new() });
        }
        Wait::For(after)
    }

    fn is_first(&self) -> bool {
        self.tries == 1
    }

    /// Whether there was trouble before.
    fn succeed(&mut self) -> bool {
        std::mem::take(self).since.is_some()
    }
}

/// Names for lines that no other line of any chat has.
struct Keys {
    chat: String,
    count: u64,
}

impl Keys {
    fn new() -> Self {
        Self { chat: Line::unique(), count: 0 }
    }

    fn next(&mut self) -> String {
        self.count += 1;
        format!("{}-{}", self.chat, self.count)
    }
}

/// Messages of the client begin small and end open, to stand within a sentence.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}
