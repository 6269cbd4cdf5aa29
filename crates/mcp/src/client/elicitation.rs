//! What a server asks of people while one of its tools runs (elicitation), and whose question it is.
//!
//! - a question goes to the person of the call in which it was asked. The protocol does not say which call that is, so it is only known
//!   where all calls that may be meant are of one session: anything else is declined
//! - a call that was given up counts as well, until the connection ends: its server may still work at it
//! - one call asks one thing at a time, and each answer is checked before it leaves
//!
//! Deliberately absent: who is there to answer. [`Asker`] knows.

use super::form::{self, FilledForm, FormField, MESSAGE_MAX, plain};
use super::redact::ErrorRedactor;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ProgressToken};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use throughline_core::tool::{Asker, Elicitation, Verdict};
use tokio::sync::{mpsc, oneshot};

/// How long a person may take for one answer, as with approvals.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a call may keep a person busy in all. Its own time does not run meanwhile.
pub const ASKING_MAX: Duration = Duration::from_secs(600);
/// How often a field is asked for.
const TRIES_MAX: u32 = 3;
/// How often a whole form is begun.
const ROUNDS_MAX: u32 = 3;
const URL_MAX: usize = 2_000;
/// What a call has not heard yet. Progress that finds no room is no news: there is some already.
const NEWS_MAX: usize = 16;

/// What reaches a call that is under way.
pub enum CallNews {
    Progress,
    Asked(Box<ElicitRequestParams>, oneshot::Sender<ElicitResult>),
}

/// The calls of one server that are under way, or may be.
#[derive(Default)]
pub struct ServerCalls(Mutex<KnownCalls>);

#[derive(Default)]
struct KnownCalls {
    begun: u64,
    open: Vec<OpenCall>,
    /// The sessions of calls that were given up on this connection. Two are as many as a thousand.
    given_up: Vec<String>,
}

struct OpenCall {
    number: u64,
    session: String,
    asks: bool,
    token: Option<ProgressToken>,
    news: mpsc::Sender<CallNews>,
}

/// One call, for as long as it is under way.
pub struct CallNewsReceiver {
    calls: Arc<ServerCalls>,
    number: u64,
    pub news: mpsc::Receiver<CallNews>,
}

impl ServerCalls {
    fn known(&self) -> MutexGuard<'_, KnownCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `session`: whose person can be asked, if `asks`.
    pub fn begin(self: &Arc<Self>, session: &str, asks: bool) -> CallNewsReceiver {
        let (sender, news) = mpsc::channel(NEWS_MAX);
        let mut known = self.known();
        known.begun += 1;
        let number = known.begun;
        known.open.push(OpenCall { number, session: session.to_owned(), asks, token: None, news: sender });
        CallNewsReceiver { calls: self.clone(), number, news }
    }

    /// A new connection knows nothing of the calls of an earlier one.
    pub fn renewed(&self) {
        self.known().given_up.clear();
    }

    pub fn progress(&self, token: &ProgressToken) {
        let known = self.known();
        if let Some(open) = known.open.iter().find(|open| open.token.as_ref() == Some(token)) {
            let _ = open.news.try_send(CallNews::Progress);
        }
    }

    /// Passes a question on to the one call that it can be about. None: there is none, or there are several.
    pub fn ask(&self, params: ElicitRequestParams) -> Option<oneshot::Receiver<ElicitResult>> {
        let known = self.known();
        let first = known.open.first()?;
        let is_of_one = known.open.iter().all(|open| open.session == first.session)
            && known.given_up.iter().all(|session| *session == first.session);
        let open = known.open.iter().find(|open| open.asks).filter(|_| is_of_one)?;
        let (answer, answered) = oneshot::channel();
        open.news.try_send(CallNews::Asked(Box::new(params), answer)).ok()?;
        Some(answered)
    }
}

impl CallNewsReceiver {
    /// How the server names it when it reports progress.
    pub fn is_called(&self, token: &ProgressToken) {
        let mut known = self.calls.known();
        if let Some(open) = known.open.iter_mut().find(|open| open.number == self.number) {
            open.token = Some(token.clone());
        }
    }

    /// The server has answered: it asks nothing more for this call.
    pub fn ended(self) {
        self.calls.known().open.retain(|open| open.number != self.number);
    }
}

impl Drop for CallNewsReceiver {
    fn drop(&mut self) {
        let mut known = self.calls.known();
        let Some(place) = known.open.iter().position(|open| open.number == self.number) else { return };
        let open = known.open.remove(place);
        if !known.given_up.contains(&open.session) && known.given_up.len() < 2 {
            known.given_up.push(open.session);
        }
    }
}

pub fn declined() -> ElicitResult {
    ElicitResult::new(ElicitationAction::Decline)
}

/// A person who is asked on behalf of one server.
pub struct Interview<'a> {
    pub server: &'a str,
    pub redactor: &'a ErrorRedactor,
    pub asker: &'a dyn Asker,
}

/// The person does not want to.
enum ElicitationRefused {
    Declined,
    Cancelled,
}

impl Interview<'_> {
    /// What the server is told. It is withdrawn when the server no longer waits.
    pub async fn hold(
        &self,
        params: ElicitRequestParams,
        mut answer: oneshot::Sender<ElicitResult>,
        left: Duration,
    ) {
        let asked = async {
            match params {
                ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                    match form::fields(&requested_schema) {
                        Ok(fields) => self.form(&self.said(&message), &fields).await,
                        Err(why) => {
                            tracing::warn!(
                                server = self.server,
                                "a question of an MCP server is declined: {why}"
                            );
                            Err(ElicitationRefused::Declined)
                        }
                    }
                }
                ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                    self.address(&self.said(&message), &url).await.map(|()| None)
                }
                _ => Err(ElicitationRefused::Declined),
            }
        };
        let outcome = tokio::select! {
            outcome = tokio::time::timeout(left, asked) => outcome.unwrap_or(Err(ElicitationRefused::Cancelled)),
            () = answer.closed() => return,
        };
        let (result, how) = match outcome {
            Ok(content) => {
                let result = ElicitResult::new(ElicitationAction::Accept);
                let result = match content {
                    Some(content) => result.with_content(Value::Object(content)),
                    None => result,
                };
                (result, "accepted")
            }
            Err(ElicitationRefused::Declined) => (declined(), "declined"),
            Err(ElicitationRefused::Cancelled) => (ElicitResult::new(ElicitationAction::Cancel), "cancelled"),
        };
        // What was answered is the server's business: it is not logged.
        tracing::info!(server = self.server, "a question of an MCP server was {how}");
        let _ = answer.send(result); // it has gone meanwhile
    }

    /// The server's words, each line marked as such.
    fn said(&self, message: &str) -> String {
        let text = plain(&self.redactor.clean(message), MESSAGE_MAX);
        text.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
    }

    async fn ask(&self, question: String, choices: Vec<String>) -> Result<String, ElicitationRefused> {
        let asked = Elicitation { server: plain(self.server, 100), question, choices };
        match self.asker.ask(asked, PATIENCE).await {
            Verdict::Said(said) => Ok(said.trim().to_owned()),
            Verdict::Granted(_) => Ok(String::new()),
            Verdict::Denied { .. } | Verdict::Unattended => Err(ElicitationRefused::Declined),
            Verdict::Expired => Err(ElicitationRefused::Cancelled),
        }
    }

    async fn form(
        &self,
        message: &str,
        fields: &[FormField],
    ) -> Result<Option<Map<String, Value>>, ElicitationRefused> {
        if fields.is_empty() {
            self.agreed(&format!("{message}\n\nDo you agree?"), &["accept"]).await?;
            return Ok(Some(Map::new()));
        }
        for _ in 0..ROUNDS_MAX {
            let mut content = Map::new();
            for (place, field) in fields.iter().enumerate() {
                let which = match fields.len() {
                    1 => String::new(),
                    all => format!("({} of {all}) ", place + 1),
                };
                let question = format!("{message}\n\n{which}{}", field.question());
                if let Some(value) = self.filled(&question, field).await? {
                    content.insert(field.name.clone(), value);
                }
            }
            if fields.len() == 1 || self.reviewed(message, fields, &content).await? {
                return Ok(Some(content));
            }
        }
        Err(ElicitationRefused::Cancelled)
    }

    async fn filled(&self, question: &str, field: &FormField) -> Result<Option<Value>, ElicitationRefused> {
        let mut remark = String::new();
        for _ in 0..TRIES_MAX {
            let said = self.ask(format!("{remark}{question}"), field.choices()).await?;
            if !field.names(&said) {
                refusal(&said)?;
            }
            match field.read(&said) {
                FilledForm::With(value) => return Ok(Some(value)),
                FilledForm::LeftOut => return Ok(None),
                FilledForm::Unclear(why) => remark = format!("{why}\n\n"),
            }
        }
        Err(ElicitationRefused::Cancelled)
    }

    /// What was filled in is seen once more before it leaves.
    async fn reviewed(
        &self,
        message: &str,
        fields: &[FormField],
        content: &Map<String, Value>,
    ) -> Result<bool, ElicitationRefused> {
        let mut question = format!("{message}\n\nYour answers:");
        for field in fields {
            let value = content.get(&field.name).map_or("left out".to_owned(), |value| field.shown(value));
            question.push_str(&format!("\n- {}: {value}", field.title()));
        }
        question.push_str("\n\nMay the server have them?");
        Ok(self.agreed(&question, &["send", "change"]).await? != 1)
    }

    async fn address(&self, message: &str, url: &str) -> Result<(), ElicitationRefused> {
        let Some(url) = reqwest::Url::parse(url).ok().filter(is_shown) else {
            tracing::warn!(
                server = self.server,
                "an MCP server wanted an address opened that is not safe to show"
            );
            return Err(ElicitationRefused::Declined);
        };
        let host = url.host_str().unwrap_or_default();
        let question = format!(
            "{message}\n\nIt wants you to open this address, which leads to {host}:\n{url}\n\nOpen it only if you expected \
             this and trust {host}. Nothing opens it for you. Write done when you have, or decline."
        );
        self.agreed(&question, &["done"]).await.map(|_| ())
    }

    /// Which of the words was said.
    async fn agreed(&self, question: &str, words: &[&str]) -> Result<usize, ElicitationRefused> {
        let choices: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let mut remark = String::new();
        for _ in 0..TRIES_MAX {
            let said = self.ask(format!("{remark}{question}"), choices.clone()).await?;
            refusal(&said)?;
            let number = said.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let named = words.iter().position(|word| said.eq_ignore_ascii_case(word));
            if let Some(place) = number.filter(|place| *place < words.len()).or(named) {
                return Ok(place);
            }
            remark = format!("That is not clear. Write {} or decline.\n\n", words.join(", "));
        }
        Err(ElicitationRefused::Cancelled)
    }
}

fn refusal(said: &str) -> Result<(), ElicitationRefused> {
    match said.to_lowercase().as_str() {
        "decline" | "deny" | "/deny" => Err(ElicitationRefused::Declined),
        "cancel" => Err(ElicitationRefused::Cancelled),
        _ => Ok(()),
    }
}

/// An address that a person can judge by what is shown of it.
fn is_shown(url: &reqwest::Url) -> bool {
    let is_near = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_near);
    let is_plain = url.username().is_empty() && url.password().is_none() && url.host_str().is_some();
    is_safe && is_plain && url.as_str().len() <= URL_MAX
}
