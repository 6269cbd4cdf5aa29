//! The server's HTTP API, as far as it is used: every answer is one of the few things a caller can act on.
//!
//! Deliberately absent: retries, waiting, and what the answers mean for a turn.

use super::document::HindsightDocument;
use super::settings::HindsightSettings;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;
use throughline_core::memory::MemoryError;
use throughline_net::{Client, Endpoint, HttpRefusal, Limits, NetError, NetStage, Secret, Timeouts, excerpt};

/// The longest answer is a recall of some ten thousand tokens, or a document of one turn.
const BODY_MAX: usize = 8 << 20;
/// Of the server's own words in a sentence for a person.
const WORDS_MAX: usize = 200;

/// Documents that are listed at once.
const PAGE: usize = 100;

pub(super) struct HindsightServer {
    client: Client,
    base: String,
    key: Option<Secret>,
    pub host: String,
}

/// How a document was received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DocumentReceipt {
    /// It is kept already: a server that does not put off its work.
    Kept,
    /// It will be, once this operation is done.
    Queued(String),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServerOperation {
    Working,
    Done,
    /// It stays so until it is asked to try again. In the server's words.
    Failed(String),
    /// The server knows nothing of it.
    Absent,
}

#[derive(Debug)]
pub(super) enum HindsightFault {
    /// What was asked for is not there.
    Absent(String),
    /// It is in another state than was thought.
    Conflict(String),
    Other(MemoryError),
}

impl From<HindsightFault> for MemoryError {
    fn from(fault: HindsightFault) -> Self {
        match fault {
            HindsightFault::Absent(sentence) | HindsightFault::Conflict(sentence) => Self::Later(sentence),
            HindsightFault::Other(error) => error,
        }
    }
}

impl HindsightServer {
    pub fn new(settings: &HindsightSettings) -> Result<Self, String> {
        let timeouts = Timeouts {
            connect: Duration::from_secs(10).min(settings.timeout),
            first_byte: settings.timeout,
            silence: settings.timeout,
            whole: settings.timeout,
        };
        let limits = Limits { body: BODY_MAX, ..Limits::default() };
        let endpoint = Endpoint::new(&settings.url, "").map_err(|error| error.to_string())?;
        Ok(Self {
            client: Client::new(throughline_net::ClientSettings { timeouts, limits }),
            base: settings.url.clone(),
            key: settings.key.clone(),
            host: endpoint.host().to_owned(),
        })
    }

    pub async fn retain(&self, document: &HindsightDocument) -> Result<DocumentReceipt, HindsightFault> {
        let answer = self.post(&document.bank, "/memories", document.body()).await?;
        let operation = answer.get("operation_id").and_then(Value::as_str);
        match (answer.get("success"), answer.get("async"), operation) {
            (Some(Value::Bool(true)), Some(Value::Bool(true)), Some(operation)) => {
                Ok(DocumentReceipt::Queued(operation.to_owned()))
            }
            (Some(Value::Bool(true)), Some(Value::Bool(false)), _) => Ok(DocumentReceipt::Kept),
            _ => Err(self.nonsense(&answer)),
        }
    }

    pub async fn operation(&self, bank: &str, operation: &str) -> Result<ServerOperation, HindsightFault> {
        let path = format!("/operations/{}", encoded(operation));
        let answer = match self.get(bank, &path).await {
            Err(HindsightFault::Absent(_)) => return Ok(ServerOperation::Absent),
            other => other?,
        };
        let words = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
        match words("status") {
            "completed" => Ok(ServerOperation::Done),
            "failed" | "cancelled" => Ok(ServerOperation::Failed(shortened(words("error_message")))),
            "not_found" => Ok(ServerOperation::Absent),
            "" => Err(self.nonsense(&answer)),
            _ => Ok(ServerOperation::Working), // pending, processing, or what a later version calls it
        }
    }

    /// Has a failed operation tried again.
    pub async fn retry(&self, bank: &str, operation: &str) -> Result<(), HindsightFault> {
        let path = format!("/operations/{}/retry", encoded(operation));
        self.post(bank, &path, b"{}".to_vec()).await.map(drop)
    }

    /// Whether the document is there, with these words and no others.
    pub async fn holds(&self, document: &HindsightDocument) -> Result<bool, HindsightFault> {
        match self.get(&document.bank, &format!("/documents/{}", encoded(&document.id))).await {
            Ok(found) => {
                let held = found.get("original_text").and_then(Value::as_str).unwrap_or_default();
                Ok(held == document.content.replace('\0', "")) // which the database cannot keep
            }
            Err(HindsightFault::Absent(_)) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// None: the bank is not there, so nothing was ever kept.
    pub async fn recall(&self, bank: &str, question: &Value) -> Result<Option<Vec<Value>>, HindsightFault> {
        let asked = self.post(bank, "/memories/recall", question.to_string().into_bytes()).await;
        match asked {
            Ok(mut answer) => match answer.get_mut("results").map(Value::take) {
                Some(Value::Array(results)) => Ok(Some(results)),
                Some(Value::Null) => Ok(Some(Vec::new())),
                _ => Err(self.nonsense(&answer)),
            },
            Err(HindsightFault::Absent(_)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    pub async fn reflect(&self, bank: &str, question: &Value) -> Result<Option<String>, HindsightFault> {
        let asked = self.post(bank, "/reflect", question.to_string().into_bytes()).await;
        match asked {
            Ok(answer) => match answer.get("text") {
                Some(Value::String(text)) => Ok(Some(text.clone())),
                Some(Value::Null) => Ok(None),
                _ => Err(self.nonsense(&answer)),
            },
            Err(HindsightFault::Absent(_)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Documents that were kept of a session, as many as one page has. None: the bank is not there.
    pub async fn documents(&self, bank: &str, session: &str) -> Result<Vec<String>, HindsightFault> {
        let tag = format!("session:{session}");
        let path = format!("/documents?tags={}&tags_match=all_strict&limit={PAGE}&offset=0", encoded(&tag));
        let answer = match self.get(bank, &path).await {
            Err(HindsightFault::Absent(_)) => return Ok(Vec::new()),
            other => other?,
        };
        let Some(items) = answer.get("items").and_then(Value::as_array) else {
            return Err(self.nonsense(&answer));
        };
        // A server that does not know this question answers with everything: what is not of the session stays.
        let is_of_session = |item: &&Value| {
            let tags = item.get("tags").and_then(Value::as_array);
            tags.is_some_and(|tags| tags.iter().any(|known| known.as_str() == Some(&tag)))
        };
        let ids = items.iter().filter(is_of_session).filter_map(|item| item.get("id")?.as_str());
        Ok(ids.map(str::to_owned).collect())
    }

    /// Deletes a document with all that was made of it. One that is not there is gone.
    pub async fn delete(&self, bank: &str, document: &str) -> Result<(), HindsightFault> {
        let endpoint = self.endpoint(bank, &format!("/documents/{}", encoded(document)))?;
        let reply = self.client.delete(&endpoint).await;
        match reply.map_err(|error| self.fault(error)) {
            Ok(_) | Err(HindsightFault::Absent(_)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    async fn post(&self, bank: &str, path: &str, body: Vec<u8>) -> Result<Value, HindsightFault> {
        let endpoint = self.endpoint(bank, path)?;
        let reply = self.client.post(&endpoint, body).await;
        self.read(reply.map_err(|error| self.fault(error))?).await
    }

    async fn get(&self, bank: &str, path: &str) -> Result<Value, HindsightFault> {
        let endpoint = self.endpoint(bank, path)?;
        let reply = self.client.get(&endpoint).await;
        self.read(reply.map_err(|error| self.fault(error))?).await
    }

    async fn read(&self, reply: throughline_net::HttpReply) -> Result<Value, HindsightFault> {
        let text = reply.text().await.map_err(|error| self.fault(error))?;
        serde_json::from_str(&text).map_err(|_| self.nonsense(&json!(null)))
    }

    fn endpoint(&self, bank: &str, path: &str) -> Result<Endpoint, HindsightFault> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let path = format!("/v1/default/banks/{}{path}", encoded(bank));
        // An endpoint keeps the query of its base.
        let base = match query {
            "" => self.base.clone(),
            query => format!("{}{}{query}", self.base, if self.base.contains('?') { '&' } else { '?' }),
        };
        let endpoint = Endpoint::new(&base, &path).and_then(|endpoint| match &self.key {
            Some(key) => endpoint.secret_header("authorization", "Bearer ", key),
            None => Ok(endpoint),
        });
        endpoint.map_err(|error| {
            HindsightFault::Other(MemoryError::Later(format!("Hindsight cannot be asked: {error}.")))
        })
    }

    fn nonsense(&self, answer: &Value) -> HindsightFault {
        let detail = answer.get("detail").map(|detail| format!(" (“{}”)", words(detail))).unwrap_or_default();
        HindsightFault::Other(MemoryError::Unknown(format!(
            "{} answered, but not as Hindsight does{detail}. Check its api_url.",
            self.host
        )))
    }

    fn fault(&self, error: NetError) -> HindsightFault {
        let host = &self.host;
        let later = |sentence: String| HindsightFault::Other(MemoryError::Later(sentence));
        let unknown = |sentence: String| HindsightFault::Other(MemoryError::Unknown(sentence));
        match error {
            NetError::Status(refusal) => self.refused(&refusal),
            NetError::Unreachable(reason) => later(format!(
                "Hindsight cannot be reached: {reason}. Check that it runs and that its api_url is right."
            )),
            error @ NetError::TimedOut { stage: NetStage::Connecting, .. } => {
                later(format!("Hindsight at {host} cannot be reached: {error}."))
            }
            NetError::Unusable(reason) => later(format!("Hindsight at {host} cannot be asked: {reason}.")),
            NetError::HungUp(reason) => unknown(format!("Hindsight gave no answer: {reason}.")),
            error @ (NetError::TimedOut { .. } | NetError::Lost(_) | NetError::Unreadable(_)) => {
                unknown(format!("Hindsight at {host} did not answer properly: {error}."))
            }
        }
    }

    /// What can never succeed as it is was refused; a key, an address or a server that is not well can be put
    /// right, so it is tried again.
    fn refused(&self, refusal: &HttpRefusal) -> HindsightFault {
        let host = &self.host;
        let said = match serde_json::from_str::<Value>(&refusal.body) {
            Ok(answer) => answer.get("detail").map(words).unwrap_or_default(),
            Err(_) => String::new(), // a page of a proxy before it
        };
        let said = if said.is_empty() { said } else { format!(" It said: “{said}”.") };
        let wait = match refusal.retry_after {
            Some(wait) => format!(" It asks to be left alone for {} s.", wait.as_secs()),
            None => String::new(),
        };
        let status = refusal.status;
        match status {
            404 => HindsightFault::Absent(format!(
                "{host} has no Hindsight API at this address (404).{said} Check its api_url."
            )),
            409 => HindsightFault::Conflict(format!(
                "Hindsight at {host} is busy with the same thing (409).{said}"
            )),
            401 | 403 => HindsightFault::Other(MemoryError::Later(format!(
                "Hindsight at {host} does not accept the API key ({status}).{said} Check HINDSIGHT_API_KEY."
            ))),
            413 => HindsightFault::Other(MemoryError::Refused(format!(
                "It is too large for Hindsight at {host} (413).{said} Raise the limit there, then retry."
            ))),
            400 | 422 => HindsightFault::Other(MemoryError::Refused(format!(
                "Hindsight at {host} does not take it as it is ({status}).{said}"
            ))),
            429 | 503 => {
                let words = format!("Hindsight at {host} has too much to do ({status}).{said}{wait}");
                HindsightFault::Other(match refusal.retry_after {
                    Some(after) => MemoryError::Busy { words, after },
                    None => MemoryError::Later(words),
                })
            }
            500.. => HindsightFault::Other(MemoryError::Unknown(format!(
                "Hindsight at {host} failed ({status}).{said}"
            ))),
            300..400 => HindsightFault::Other(MemoryError::Later(format!(
                "{host} points elsewhere ({status}{}). Set Hindsight's api_url to where it is.",
                refusal.redirect.as_deref().map(|to| format!(", to {to}")).unwrap_or_default()
            ))),
            _ => HindsightFault::Other(MemoryError::Later(format!(
                "Hindsight at {host} answered with status {status}.{said}"
            ))),
        }
    }
}

/// What the server complains about. A list of complaints repeats the request in other fields: those are left out.
fn words(detail: &Value) -> String {
    match detail {
        Value::String(text) => shortened(text),
        Value::Array(list) => {
            let complaints = list.iter().filter_map(|one| one.get("msg").and_then(Value::as_str));
            shortened(&complaints.collect::<Vec<_>>().join("; "))
        }
        _ => String::new(),
    }
}

fn shortened(text: &str) -> String {
    let mut line = excerpt(text);
    if line.len() > WORDS_MAX {
        line.truncate(line.floor_char_boundary(WORDS_MAX));
        line.push('…');
    }
    line
}

/// As one segment of a path.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            true => out.push(char::from(byte)),
            false => {
                let _ = write!(out, "%{byte:02X}"); // a string takes everything
            }
        }
    }
    out
}
