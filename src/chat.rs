//! The terminal client: a client of the control API, like any other.
//!
//! - each line has a key of its own; if the connection breaks, it is sent again under that key, so that
//!   nothing is said twice and nothing is lost
//! - words appear as they come, and the whole answer is always the end of what was printed
//! - questions of tools are shown one after the other. Only what is typed after a question was shown answers it,
//!   and only a whole word allows something
//! - where no person can answer, a question is refused at once, and the exit code says so
//! - Ctrl-C stops the turn, a second one leaves without waiting for its end
//! - without a terminal only answers are printed, whole
//!
//! Deliberately absent: the store, the gateway's insides, and what orders mean: those are the
//! server's.

#[cfg(not(unix))]
pub mod console;
#[cfg(test)]
pub mod fake;
pub mod lines;
mod question;
mod shown;
#[cfg(unix)]
pub mod terminal;
#[cfg(test)]
pub mod tests;

#[cfg(not(unix))]
pub use console as terminal;

use crate::client::{Asked, Client, ClientError, Event, Known, Line, Saying, Status};
use crate::out::{Page, Tint, one_line, visible};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use lines::{Lines, Typed};
use question::Understood;
use shown::Shown;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;
use throughline_app::host_commands::lists::COPY;
use throughline_core::SessionId;
use throughline_core::command::Command;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep};

/// A gateway that restarts is back within seconds. A person who waits longer wants to know.
const PATIENCE: Duration = Duration::from_secs(60);
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// A person who sees nothing for so long is told what is waited for.
const QUIET_MAX: Duration = Duration::from_millis(1_500);
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
    /// A person sees the notes, and can type.
    pub is_attended: bool,
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
    /// Ctrl-C, while no line is edited.
    interrupts: UnboundedReceiver<()>,
    screen: Screen<'a>,
    /// The last line was accepted, and its answer was not waited for.
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
    /// Ctrl-C ended the turn.
    Stopped,
    /// Ctrl-C, before the gateway said that it took the line.
    Unheard,
    /// Ctrl-C, twice.
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
        let Screen { manner, page, out, notes, .. } = &mut self.screen;
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

    /// Until there are no more lines.
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
            if self.screen.manner == Manner::Terminal
                && text.trim() == "/clear"
                && self.screen.page.width.is_some()
            {
                write!(self.screen.out, "\x1b[2J\x1b[H")?;
            }
            let code = self.take(text, lines).await?;
            if self.left_behind && code == ExitCode::from(INTERRUPTED) {
                self.part()?;
                return Ok(code);
            }
        }
        self.part()?;
        Ok(ExitCode::SUCCESS)
    }

    /// One line, and what came of it. Questions on the way are answered from `lines`, where a person can.
    pub async fn take(&mut self, text: String, lines: &mut dyn Lines) -> anyhow::Result<ExitCode> {
        let order = Command::parse(&text, |_| "next".parse().expect("four letters are an id"));
        self.left_behind = false;
        let (ended, was_refused) = self.ask(text, lines).await?;
        let mut code = if was_refused { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        match ended {
            Ended::Answered { text, finish } => self.answered(&text, &finish)?,
            Ended::Done { said, successor } => self.done(order, &said, successor).await?,
            Ended::Failed { message, code: kind } => {
                self.failed(&message, &kind)?;
                code = ExitCode::FAILURE;
            }
            Ended::Stopped => {
                self.note(Tint::Yellow, "Stopped.")?;
                code = ExitCode::from(INTERRUPTED);
            }
            Ended::Unheard | Ended::Left => {
                self.left()?;
                code = ExitCode::from(INTERRUPTED);
            }
        }
        Ok(code)
    }

    /// Sends the line under its key until it has come to an end, or Ctrl-C. Whether a question was refused
    /// because no person could answer.
    async fn ask(&mut self, text: String, lines: &mut dyn Lines) -> anyhow::Result<(Ended, bool)> {
        self.forget_interrupts();
        let line = Line {
            text,
            session: self.session.clone(),
            key: self.keys.next(),
            is_attended: self.screen.is_attended,
        };
        let mut patience = Patience::default();
        let mut telling = Telling::default();
        loop {
            let Self { client, session, has_spoken, screen, left_behind: accepted, interrupts, .. } = self;
            let (telling_now, patience_now) = (&mut telling, &mut patience);
            let mut following = Following {
                client,
                session,
                has_spoken,
                screen,
                telling: telling_now,
                patience: patience_now,
                accepted,
                questions: VecDeque::new(),
                is_stopping: false,
            };
            let trouble = match following.follow(&line, lines, interrupts).await? {
                Ok(ended) => return Ok((ended, telling.is_refused())),
                Err(trouble) => trouble,
            };
            following.break_off()?;
            let wait = match patience.wait(&trouble) {
                Wait::For(wait) => wait,
                Wait::NoMore(failed) => return Ok((failed, telling.is_refused())),
            };
            if patience.is_first() {
                self.say_that_it_is_tried_again(&trouble)?;
            }
            tokio::select! {
                biased;
                Some(()) = self.interrupts.recv() => {
                    let ended = if self.left_behind { Ended::Left } else { Ended::Unheard };
                    return Ok((ended, telling.is_refused()));
                }
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
        let more = match &order {
            Some(Command::Help) => Some(KEYS.to_owned()),
            Some(Command::Status) => Some(self.standing().await),
            _ => None,
        };
        let Screen { manner, out, page, .. } = &mut self.screen;
        let is_terminal = *manner == Manner::Terminal && page.width.is_some();
        let copied = said.strip_prefix(COPY).and_then(|rest| rest.split_once(":\n\n"));
        match (&order, copied) {
            (Some(Command::Deferred(deferred)), Some((number, text)))
                if is_terminal && deferred.name() == "copy" =>
            {
                // The terminal's own order for its clipboard, which works from another machine, too.
                write!(out, "\x1b]52;c;{}\x07", BASE64.encode(text))?;
                writeln!(out, "Copied assistant response #{number} to clipboard")?;
            }
            _ => writeln!(out, "{}", visible(said))?,
        }
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
                "No longer waiting. What the turn still says will be in `throughline sessions show {session}`."
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
Ctrl-C   while an answer comes: end the turn; twice: leave without waiting for its end
Ctrl-D   leave, as /exit does
Up       what you typed before, also what was not sent
Several lines that are pasted at once are one message.";

impl Screen<'_> {
    fn note(&mut self, tint: Tint, text: &str) -> io::Result<()> {
        self.out.flush()?;
        writeln!(self.notes, "{}", self.page.paint(tint, text))?;
        self.notes.flush()
    }

    /// A line is typed next.
    fn prompt(&mut self, text: &str) -> io::Result<()> {
        self.out.flush()?;
        write!(self.notes, "{}", self.page.paint(Tint::Green, text))?;
        self.notes.flush()
    }
}

// ---------------------------------------------------------------------------------------- a line

/// What has been printed for a line, over all attempts.
#[derive(Default)]
struct Telling {
    shown: Shown,
    is_thinking: bool,
    /// The latest trouble that was told, so that it is told once.
    trouble: String,
    /// A tool asked, and the gateway said no because no person could answer.
    was_refused: bool,
    /// What tools asked where no person can answer here, and no other person has allowed.
    held: BTreeSet<String>,
    /// The arguments of the calls so far, by their ids.
    calls: BTreeMap<String, String>,
}

impl Telling {
    /// A call was not run, because no person allowed it.
    fn is_refused(&self) -> bool {
        self.was_refused || !self.held.is_empty()
    }
}

/// One attempt to have a line answered.
struct Following<'a, 'b> {
    client: &'a Client,
    session: &'a mut Option<SessionId>,
    has_spoken: &'a mut bool,
    screen: &'a mut Screen<'b>,
    telling: &'a mut Telling,
    patience: &'a mut Patience,
    accepted: &'a mut bool,
    /// What tools ask. The first is on the screen, the others are shown when it is answered.
    questions: VecDeque<Asked>,
    is_stopping: bool,
}

impl Following<'_, '_> {
    /// An error inside is what the gateway is the reason for; any other is one of this end.
    async fn follow(
        &mut self,
        line: &Line,
        lines: &mut dyn Lines,
        interrupts: &mut UnboundedReceiver<()>,
    ) -> anyhow::Result<Result<Ended, ClientError>> {
        let saying = tokio::select! {
            biased;
            Some(()) = interrupts.recv() => return Ok(Ok(Ended::Unheard)),
            saying = self.client.say(line) => saying,
        };
        let mut saying: Saying = match saying {
            Ok(saying) => saying,
            Err(error) => return Ok(Err(error)),
        };
        let quiet = sleep(QUIET_MAX);
        tokio::pin!(quiet);
        let mut is_quiet = self.screen.manner == Manner::Terminal;
        loop {
            let is_asked = self.screen.is_attended && !self.questions.is_empty();
            tokio::select! {
                biased;
                Some(()) = interrupts.recv() => {
                    is_quiet = false;
                    if let Some(ended) = self.interrupt()? {
                        return Ok(Ok(ended));
                    }
                }
                event = saying.next() => match event {
                    Err(error) => return Ok(Err(error)),
                    Ok(Event::Interrupted { message }) => {
                        return Ok(Err(ClientError::Later { after: RETRY_FIRST, message }));
                    }
                    Ok(Event::Asked(asked)) => {
                        is_quiet = false;
                        self.asked(asked, lines).await?;
                    }
                    Ok(event) => {
                        is_quiet &= matches!(event, Event::Accepted { .. });
                        if let Some(ended) = self.tell(event)? {
                            return Ok(Ok(ended));
                        }
                    }
                },
                () = &mut quiet, if is_quiet => {
                    is_quiet = false;
                    let waiting = self.screen.page.paint(Tint::Dim, "waiting for the model …\n").into_owned();
                    self.write(&waiting)?;
                }
                typed = lines.answer(), if is_asked => self.typed(typed?, lines).await?,
            }
        }
    }

    /// What the gateway says. The end of the line, if that was it.
    fn tell(&mut self, event: Event) -> io::Result<Option<Ended>> {
        match event {
            Event::Accepted { session } => self.accept(session)?,
            Event::Delta(words) => {
                self.over()?;
                let words = self.telling.shown.delta(&words);
                self.print(&words)?;
            }
            Event::Reasoning(_) => {
                self.over()?;
                self.think()?;
            }
            Event::Restarted => self.telling.shown.restart(),
            Event::Troubled { message } => self.troubled(message)?,
            Event::Calling { id, tool, arguments } => {
                self.call(&tool, &arguments)?;
                self.telling.calls.insert(id, arguments);
            }
            Event::Unattended { id, tool } => self.unattended(&id, &tool)?,
            Event::Granted(id) => {
                self.telling.held.remove(&id);
            }
            Event::Answer { text, finish } => {
                self.over()?;
                let rest = self.telling.shown.finish(&text);
                self.print(&(rest + "\n\n"))?;
                *self.accepted = false;
                return Ok(Some(Ended::Answered { text, finish }));
            }
            Event::Done { said, successor } => {
                self.over()?;
                *self.accepted = false;
                return Ok(Some(Ended::Done { said, successor }));
            }
            Event::Failed { message } => {
                self.over()?;
                self.end_line()?;
                *self.accepted = false;
                return Ok(Some(match self.is_stopping {
                    true => Ended::Stopped,
                    false => Ended::Failed { message, code: String::new() },
                }));
            }
            Event::Asked(_) | Event::Interrupted { .. } => {} // taken care of where they come in
        }
        Ok(None)
    }

    /// Ctrl-C. Once, it ends the turn; twice, the waiting for its end.
    fn interrupt(&mut self) -> io::Result<Option<Ended>> {
        let Some(session) = self.session.clone().filter(|_| *self.accepted) else {
            return Ok(Some(Ended::Unheard));
        };
        if std::mem::replace(&mut self.is_stopping, true) {
            return Ok(Some(Ended::Left));
        }
        let client = self.client.clone();
        // How it ends is told by the turn itself. If this does not arrive, there is the second Ctrl-C.
        tokio::spawn(async move { client.order(&session, "/stop").await });
        self.questions.clear();
        writeln!(self.screen.notes)?; // after the ^C that the terminal shows
        self.screen.note(Tint::Dim, "Ending the turn. Ctrl-C again leaves without waiting for its end.")?;
        Ok(None)
    }

    // -------------------------------------------------------------------------------- questions

    async fn asked(&mut self, asked: Asked, lines: &mut dyn Lines) -> anyhow::Result<()> {
        if self.is_stopping || self.questions.iter().any(|known| known.id == asked.id) {
            return Ok(());
        }
        if !self.screen.is_attended {
            return Ok(self.hold(&asked)?);
        }
        self.questions.push_back(asked);
        if self.questions.len() == 1 {
            self.show_question(lines)?;
        }
        Ok(())
    }

    /// Shows the first of what is asked. What was typed until now does not answer it.
    fn show_question(&mut self, lines: &mut dyn Lines) -> anyhow::Result<()> {
        let Some(asked) = self.questions.front() else { return Ok(()) };
        let (words, how) = (question::words(asked), question::how(asked));
        self.remark()?;
        self.screen.note(Tint::Yellow, &visible(&format!("{words}\n{how}")))?;
        if lines.set_aside()? {
            let note = "What you typed before the question does not answer it; Up brings it back at the next prompt.";
            self.screen.note(Tint::Dim, note)?;
        }
        self.screen.prompt(question::PROMPT)?;
        Ok(())
    }

    async fn typed(&mut self, typed: Typed, lines: &mut dyn Lines) -> anyhow::Result<()> {
        let Some(asked) = self.questions.front() else { return Ok(()) };
        let text = match typed {
            Typed::Line(text) => text,
            Typed::Cleared => String::new(),
            Typed::End => {
                writeln!(self.screen.notes)?;
                "no".to_owned()
            }
        };
        let verdict = match question::understand(asked, &text) {
            Understood::Verdict(verdict) => verdict,
            Understood::Unclear(why) => {
                self.screen.note(Tint::Yellow, &why)?;
                self.screen.prompt(question::PROMPT)?;
                return Ok(());
            }
        };
        match self.client.decide(&asked.id, &verdict).await {
            Ok(()) => {}
            Err(ClientError::Refused { message, .. }) => {
                self.screen.note(Tint::Yellow, &visible(&format!("This came too late. {message}")))?;
            }
            Err(error) => {
                // It is asked again as soon as the gateway can be reached.
                let note = format!("{} The question is still open.", sentence(&error.to_string()));
                self.screen.note(Tint::Yellow, &visible(&note))?;
                self.screen.prompt(question::PROMPT)?;
                return Ok(());
            }
        }
        self.questions.pop_front();
        self.show_question(lines)
    }

    /// No person can answer here. The gateway holds the question, so it knows of an owner who can: elsewhere.
    fn hold(&mut self, asked: &Asked) -> io::Result<()> {
        if !self.telling.held.insert(asked.id.clone()) {
            return Ok(());
        }
        self.end_line()?;
        let note = format!("{}\n{}", question::words(asked), question::HELD);
        self.screen.note(Tint::Yellow, &visible(&note))
    }

    /// The gateway has refused a call, because nothing said that a person can answer.
    fn unattended(&mut self, id: &str, tool: &str) -> io::Result<()> {
        self.telling.was_refused = true;
        let arguments = self.telling.calls.get(id).map_or("", String::as_str);
        let note = format!("{tool} {arguments}\n{}", question::UNATTENDED);
        self.screen.note(Tint::Yellow, &visible(&note))
    }

    /// The model goes on, so nothing is asked any more.
    fn over(&mut self) -> io::Result<()> {
        if self.questions.is_empty() {
            return Ok(());
        }
        self.questions.clear();
        writeln!(self.screen.notes)?; // after the prompt
        self.screen.note(Tint::Dim, "The question is no longer open.")
    }

    fn troubled(&mut self, message: String) -> io::Result<()> {
        if self.telling.trouble == message {
            return Ok(());
        }
        self.end_line()?;
        self.screen.note(Tint::Yellow, &visible(&message))?;
        self.telling.trouble = message;
        Ok(())
    }

    // ------------------------------------------------------------------------------ what is said

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
