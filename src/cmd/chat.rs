//! `throughline chat`: talk to the agent in a terminal, or ask it once from a script.
//!
//! Standard input that is no terminal is one message: alone, or behind the question that `-q` asks. The gateway of the home is asked over its control API. Where none runs, one is started in this
//! process for as long as the chat lasts, by a function that the caller brings along.

use crate::chat::lines::{Lines, Threaded, Typed};
use crate::chat::{self, Gateway, Manner, Screen, terminal};
use crate::client::{Client, ClientError, Endpoint, Known, Page as Part, Status};
use crate::cmd::sessions::{Choice, choose};
use crate::out::{Checked, Page, unless_reader_gone};
use anyhow::{Context, bail};
use std::io::{self, BufWriter, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use throughline_core::SessionId;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Where conversations begun at a terminal come from, as in Hermes.
const SOURCE: &str = "cli";
/// The most that the gateway gives at once.
const PART: usize = 200;
const HISTORY: &str = "throughline.history";
/// What stands for standard input.
const DASH: &str = "-";
/// Input that takes longer to end may be a terminal's or a service's that was never meant.
const INPUT_PATIENCE: Duration = Duration::from_secs(2);

/// Talk to the agent in this terminal
#[derive(Debug, clap::Args)]
pub struct Chat {
    /// Ask this, print the answer and nothing else, and leave. What is piped in is added to it; `-` asks
    /// what is piped in
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    query: Option<String>,

    /// Continue the latest conversation of the terminal, or the session with this id
    #[arg(short = 'c', long = "continue", value_name = "SESSION", num_args = 0..=1)]
    resume: Option<Option<String>>,
}

impl Chat {
    /// `configured` is where the home's settings say that its gateway listens; None: it has no key
    /// yet, so none can have run. `start` starts one in this process and says where.
    pub async fn run(
        self,
        home: &Path,
        configured: Option<Endpoint>,
        start: impl AsyncFnOnce() -> anyhow::Result<Endpoint>,
    ) -> anyhow::Result<ExitCode> {
        let stdin_is_terminal = io::stdin().is_terminal();
        let message = match Source::of(self.query.as_deref(), stdin_is_terminal) {
            Source::Keyboard => None,
            Source::Argument(query) => Some(query.to_owned()),
            Source::Input { question } => {
                let question = question.map(str::to_owned);
                Some(read(question, &mut Threaded::pipe()?, &mut Checked(io::stderr())).await?)
            }
        };
        if message.as_deref().is_some_and(|message| message.trim().is_empty()) {
            bail!(
                "there is nothing to ask: give -q a text, as in `throughline chat -q \"What is new?\"`, or pipe one in"
            );
        }
        let manner = match message.is_none() && io::stdout().is_terminal() {
            true => Manner::Terminal,
            false => Manner::Plain,
        };
        let is_attended = stdin_is_terminal && io::stderr().is_terminal();
        let page = Page::of(&io::stdout());
        let mut out = BufWriter::new(Checked(io::stdout()));
        let mut notes = Checked(io::stderr());
        let mut lines = Threaded::keyboard(home.join(HISTORY), &page)?;
        let connected = connect(configured, start).await?;
        let _typing = terminal::keep_typing_at_interrupts();
        let screen = Screen { manner, is_attended, page, out: &mut out, notes: &mut notes };
        unless_reader_gone(self.talk(connected, screen, interrupts(), message, &mut lines).await)
    }

    async fn talk(
        self,
        connected: Connected,
        screen: Screen<'_>,
        interrupts: mpsc::UnboundedReceiver<()>,
        message: Option<String>,
        lines: &mut dyn Lines,
    ) -> anyhow::Result<ExitCode> {
        let Connected { client, status, gateway } = connected;
        let resumed = self.resumed(&client).await?;
        if let (Some(None), None) = (&self.resume, &resumed) {
            writeln!(
                screen.notes,
                "There is no open conversation of the terminal to continue; this begins one."
            )?;
        }
        let mut chat = chat::Chat::new(client, status, gateway, interrupts, screen);
        chat.greet(resumed.as_ref())?;
        if let Some(known) = &resumed {
            chat.resume(known);
        }
        match message {
            Some(message) => chat.take(message, lines).await,
            None => chat.converse(lines).await,
        }
    }

    async fn resumed(&self, client: &Client) -> anyhow::Result<Option<Known>> {
        match &self.resume {
            None => Ok(None),
            Some(None) => Ok(latest(client).await?),
            Some(Some(name)) => named(client, name).await.map(Some),
        }
    }
}

/// Where what is said comes from.
#[derive(Debug, PartialEq, Eq)]
enum Source<'a> {
    /// Line by line.
    Keyboard,
    Argument(&'a str),
    /// Standard input, to its end, behind a question if there is one.
    Input {
        question: Option<&'a str>,
    },
}

impl<'a> Source<'a> {
    fn of(query: Option<&'a str>, stdin_is_terminal: bool) -> Self {
        match query {
            Some(DASH) => Self::Input { question: None },
            Some(query) if stdin_is_terminal || stdin_is_device() => Self::Argument(query),
            None if stdin_is_terminal => Self::Keyboard,
            question => Self::Input { question },
        }
    }
}

/// `/dev/null` and its like: what services and schedulers give programs that have no input.
#[cfg(unix)]
fn stdin_is_device() -> bool {
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileTypeExt as _;
    let stdin = io::stdin().as_fd().try_clone_to_owned().map(std::fs::File::from);
    stdin.and_then(|stdin| stdin.metadata()).is_ok_and(|stdin| stdin.file_type().is_char_device())
}

#[cfg(not(unix))]
fn stdin_is_device() -> bool {
    false
}

/// The question, and below it all of the input.
async fn read(
    question: Option<String>,
    input: &mut dyn Lines,
    notes: &mut dyn io::Write,
) -> anyhow::Result<String> {
    let reading = input.next();
    tokio::pin!(reading);
    let typed = tokio::select! {
        typed = &mut reading => typed?,
        () = sleep(INPUT_PATIENCE) => {
            writeln!(notes, "Reading standard input, which has not ended yet. If there is none, add `</dev/null`.")?;
            reading.await?
        }
    };
    let input = match typed {
        Typed::Line(input) => input,
        Typed::Cleared | Typed::End => String::new(),
    };
    Ok(match (question, input.trim().is_empty()) {
        (None, _) => input,
        (Some(question), true) => question,
        (Some(question), false) => format!("{question}\n\n{input}"),
    })
}

/// A gateway that answers.
struct Connected {
    client: Client,
    status: Status,
    gateway: Gateway,
}

async fn connect(
    configured: Option<Endpoint>,
    start: impl AsyncFnOnce() -> anyhow::Result<Endpoint>,
) -> anyhow::Result<Connected> {
    let mut why = "it has no key yet".to_owned();
    if let Some(endpoint) = configured {
        let client = Client::new(endpoint)?;
        match client.status().await {
            Ok(status) => return Ok(Connected { client, status, gateway: Gateway::Running }),
            Err(error @ ClientError::Lost(_)) => why = error.to_string(),
            Err(error) => why = format!("at {}, {error}", client.address()),
        }
    }
    let started = start().await;
    let endpoint = started
        .with_context(|| format!("no gateway of this home answers ({why}), and none could be started"))?;
    let client = Client::new(endpoint)?;
    let status =
        client.status().await.context("the gateway that was started for this chat does not answer")?;
    Ok(Connected { client, status, gateway: Gateway::Own })
}

/// The terminal's conversation that was spoken in last, of those that have not ended.
async fn latest(client: &Client) -> Result<Option<Known>, ClientError> {
    let newest = client.sessions(Some(SOURCE), Part { limit: PART, offset: 0 }).await?;
    Ok(newest.into_iter().find(|known| known.ended.is_none()))
}

async fn named(client: &Client, name: &str) -> anyhow::Result<Known> {
    let id: SessionId = name.parse()?;
    if let Some(known) = client.session(&id).await? {
        return Ok(known);
    }
    let mut all = Vec::new();
    loop {
        let part = client.sessions(None, Part { limit: PART, offset: all.len() }).await?;
        let is_last = part.len() < PART;
        all.extend(part);
        if is_last {
            break;
        }
    }
    let choices = all.iter().map(|known| Choice {
        id: known.id.as_str(),
        about: known.title.as_deref().unwrap_or(&known.preview),
    });
    let index = choose(name, &choices.collect::<Vec<_>>())?;
    Ok(all.swap_remove(index))
}

/// Ctrl-C, from now on. While a line is edited it is a key, and does not come this way.
fn interrupts() -> mpsc::UnboundedReceiver<()> {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move { while tokio::signal::ctrl_c().await.is_ok() && sender.send(()).is_ok() {} });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::fake::{Fake, Piece, Reply};
    use crate::chat::tests::{Typing, answered};
    use crate::out::tests::page;
    use clap::Parser;
    use serde_json::{Value, json};
    use throughline_hermes::config::Secret;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        chat: Chat,
    }

    async fn nobody() -> anyhow::Result<Endpoint> {
        bail!("the home is in use by another Throughline (pid 4711)")
    }

    struct Seen {
        out: String,
        notes: String,
        code: ExitCode,
    }

    async fn chat(fake: &Fake, words: &[&str], typed: &[&str]) -> anyhow::Result<Seen> {
        let chat = Line::try_parse_from([&["chat"], words].concat())?.chat;
        let connected = connect(Some(fake.endpoint()), nobody).await?;
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let screen = Screen {
            manner: Manner::Plain,
            is_attended: false,
            page: page(None),
            out: &mut out,
            notes: &mut notes,
        };
        let (_interrupt, interrupts) = mpsc::unbounded_channel();
        let message = match Source::of(chat.query.as_deref(), typed.is_empty()) {
            Source::Input { question } => {
                let question = question.map(str::to_owned);
                Some(read(question, &mut Typing::lines(typed), &mut Vec::new()).await?)
            }
            Source::Argument(text) => Some(text.to_owned()),
            Source::Keyboard => None,
        };
        let code = chat.talk(connected, screen, interrupts, message, &mut Typing::lines(&[])).await?;
        Ok(Seen { out: String::from_utf8(out)?, notes: String::from_utf8(notes)?, code })
    }

    fn session(id: &str, source: &str, ended: Option<&str>) -> Value {
        json!({"id": id, "source": source, "end_reason": ended, "preview": format!("about {id}"), "message_count": 2})
    }

    fn asked_in(fake: &Fake) -> Vec<Value> {
        fake.lines().iter().map(|line| line["session"].clone()).collect()
    }

    #[tokio::test]
    async fn a_question_prints_its_answer_and_nothing_else() {
        let fake = Fake::start([answered("In the tin.\n")]).await;
        let seen = chat(&fake, &["-q", "Where is the tea?"], &[]).await.unwrap();
        assert_eq!((seen.out.as_str(), seen.notes.as_str()), ("In the tin.\n", ""));
        assert_eq!(seen.code, ExitCode::SUCCESS);
        assert_eq!(fake.lines()[0]["text"], "Where is the tea?");
        assert_eq!(asked_in(&fake), [Value::Null]);
    }

    #[tokio::test]
    async fn a_question_that_fails_is_an_exit_code_and_a_message() {
        let failed = Piece::Event("failed", json!({"message": "The model broke off."}));
        let fake = Fake::start([Reply::Stream(vec![failed])]).await;
        let seen = chat(&fake, &["-q", "Where?"], &[]).await.unwrap();
        assert_eq!((seen.out.as_str(), seen.notes.as_str()), ("", "The model broke off.\n"));
        assert_eq!(seen.code, ExitCode::FAILURE);
    }

    #[tokio::test]
    async fn what_is_piped_in_is_one_message_or_the_rest_of_the_question() {
        let log = "one\n\ntwo\n/three";
        for (words, expected) in [
            (&[][..], log.to_owned()),
            (&["-q", "-"], log.to_owned()),
            (&["-q", "Summarise:"], format!("Summarise:\n\n{log}")),
        ] {
            let mut input = Typing::lines(&[log]);
            let line = Line::try_parse_from([&["chat"], words].concat()).unwrap().chat;
            let question = line.query.as_deref().filter(|query| *query != DASH).map(str::to_owned);
            assert_eq!(read(question, &mut input, &mut Vec::new()).await.unwrap(), expected, "{words:?}");
        }
        let nothing = read(Some("Where?".into()), &mut Typing::lines(&[" "]), &mut Vec::new()).await;
        assert_eq!(nothing.unwrap(), "Where?");
        assert_eq!(Source::of(Some("-"), true), Source::Input { question: None }, "until Ctrl-D");
        assert_eq!(Source::of(Some("x"), true), Source::Argument("x"));
        assert_eq!(Source::of(None, true), Source::Keyboard);
        assert_eq!(Source::of(None, false), Source::Input { question: None });
    }

    #[tokio::test]
    async fn p31_a_question_that_an_owner_elsewhere_can_answer_is_held_and_decided_by_no_program() {
        let asked = || {
            Piece::Event(
                "asked",
                json!({"id": "s1/1/1/0", "kind": "approval", "text": "?", "command": "rm -rf old", "reason": "recursive delete",
                   "patterns": ["recursive delete"]}),
            )
        };
        let answer = |text: &str| Piece::Event("answer", json!({"text": text, "finish": "stop"}));
        let fake = Fake::start([Reply::Stream(vec![asked(), answer("I was not allowed to.")])]).await;
        let seen = chat(&fake, &["-q", "Tidy up"], &[]).await.unwrap();
        assert_eq!((seen.code, seen.out.as_str()), (ExitCode::FAILURE, "I was not allowed to.\n"));
        for words in ["rm -rf old", "No person can answer here", "has asked the owner"] {
            assert!(seen.notes.contains(words), "{words}: {}", seen.notes);
        }
        assert_eq!(fake.decided(), [], "a program says neither yes nor no in a person's name");
        assert_eq!(fake.lines()[0]["answers"], false, "no person is said to be there");

        let granted = Piece::Event("granted", json!({"id": "s1/1/1/0"}));
        let fake = Fake::start([Reply::Stream(vec![asked(), granted, answer("It is tidy.")])]).await;
        let seen = chat(&fake, &["-q", "Tidy up"], &[]).await.unwrap();
        assert_eq!((seen.code, seen.out.as_str()), (ExitCode::SUCCESS, "It is tidy.\n"));
    }

    #[tokio::test]
    async fn p31_what_the_gateway_refuses_for_want_of_a_person_is_told_and_is_a_failure() {
        let calling = json!({"id": "c1", "tool": "terminal", "arguments": "{\"command\": \"rm -rf old\"}"});
        let pieces = vec![
            Piece::Event("calling", calling),
            Piece::Event("unattended", json!({"id": "c1", "tool": "terminal"})),
            Piece::Event("answer", json!({"text": "I was not allowed to.", "finish": "stop"})),
        ];
        let fake = Fake::start([Reply::Stream(pieces)]).await;
        let seen = chat(&fake, &["-q", "Tidy up"], &[]).await.unwrap();
        assert_eq!((seen.code, seen.out.as_str()), (ExitCode::FAILURE, "I was not allowed to.\n"));
        for words in ["rm -rf old", "No person can answer here", "command_allowlist"] {
            assert!(seen.notes.contains(words), "{words}: {}", seen.notes);
        }
    }

    #[tokio::test]
    async fn p1_c_goes_on_in_the_latest_conversation_of_the_terminal_that_has_not_ended() {
        let sessions = [
            session("newest", "api_server", None),
            session("ended", "cli", Some("session_reset")),
            session("mine", "cli", None),
            session("older", "cli", None),
        ];
        let fake = Fake::start([answered("Yes.")]).await.with_sessions(sessions);
        chat(&fake, &["-c", "-q", "Still there?"], &[]).await.unwrap();
        assert_eq!(asked_in(&fake), [json!("mine")]);

        let fake = Fake::start([answered("Yes.")]).await;
        let seen = chat(&fake, &["-c", "-q", "Still there?"], &[]).await.unwrap();
        assert_eq!(asked_in(&fake), [Value::Null]);
        assert_eq!(
            seen.notes,
            "There is no open conversation of the terminal to continue; this begins one.\n"
        );
    }

    #[tokio::test]
    async fn c_with_a_name_takes_that_session_or_the_only_one_that_begins_so() {
        let many = (0..450).map(|number| session(&format!("s{number:03}"), "telegram", None));
        let fake = Fake::start([answered("Yes."), answered("Yes.")]).await.with_sessions(many);
        chat(&fake, &["-c", "s007", "-q", "x"], &[]).await.unwrap();
        chat(&fake, &["--continue", "s449", "-q", "x"], &[]).await.unwrap();
        assert_eq!(asked_in(&fake), [json!("s007"), json!("s449")]);

        let error = chat(&fake, &["-c", "s44", "-q", "x"], &[]).await.err().unwrap().to_string();
        assert!(
            error.starts_with("s44 can be 10 sessions; give more of the id:\n  s440  about s440"),
            "{error}"
        );
        let error = chat(&fake, &["-c", "t449", "-q", "x"], &[]).await.err().unwrap().to_string();
        assert!(error.starts_with("there is no session t449. The nearest are:\n  s449"), "{error}");
        assert_eq!(fake.lines().len(), 2, "nothing was said to a session that was not meant");
    }

    #[tokio::test]
    async fn where_no_gateway_answers_one_is_started() {
        let own = Fake::start([]).await;
        let start = async || Ok(own.endpoint());
        let connected = connect(None, start).await.unwrap();
        assert_eq!((connected.gateway, connected.status.model.as_str()), (Gateway::Own, "gpt-5.2"));

        let gone = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
        let configured =
            Endpoint { url: format!("http://{gone}"), key: Secret::new("k"), home: String::new() };
        let connected = connect(Some(configured.clone()), start).await.unwrap();
        assert_eq!(connected.gateway, Gateway::Own);

        let error = format!("{:#}", connect(Some(configured), nobody).await.err().unwrap());
        assert!(
            error.starts_with("no gateway of this home answers (no connection to the gateway at http://"),
            "{error}"
        );
        assert!(
            error
                .ends_with("and none could be started: the home is in use by another Throughline (pid 4711)"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn p31_a_gateway_of_another_home_is_not_spoken_to() {
        let other = Fake::start([]).await;
        let own = Fake::start([]).await;
        let configured = Endpoint { key: Secret::new("this-homes-key"), ..other.endpoint() };
        let connected = connect(Some(configured.clone()), async || Ok(own.endpoint())).await.unwrap();
        assert_eq!(connected.gateway, Gateway::Own);
        let error = format!("{:#}", connect(Some(configured), nobody).await.err().unwrap());
        assert!(error.contains("does not know this home's key"), "{error}");
        assert!(!error.contains("this-homes-key"), "{error}");
        assert_eq!(other.lines(), Vec::<Value>::new());
    }

    #[tokio::test]
    async fn a_running_gateway_is_used_and_nothing_is_started() {
        let fake = Fake::start([]).await;
        let connected = connect(Some(fake.endpoint()), nobody).await.unwrap();
        assert_eq!(connected.gateway, Gateway::Running);
    }

    #[tokio::test]
    async fn an_empty_question_is_refused_before_anything_is_started() {
        let chat = Line::try_parse_from(["chat", "-q", " "]).unwrap().chat;
        let error = chat.run(Path::new("."), None, nobody).await.unwrap_err().to_string();
        assert!(error.starts_with("there is nothing to ask"), "{error}");
    }
}
