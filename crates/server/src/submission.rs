//! From a request to a submission: who asks, where it belongs, and by what it is known again.

use crate::App;
use crate::auth::{self, SESSION_KEY};
use crate::client_conversation::{ClientConversation, NewInput};
use crate::client_options::ClientOptions;
use crate::error::ApiError;
use http::{HeaderMap, HeaderName, HeaderValue};
use throughline_core::input::{Birth, ClientTools, DedupeKey, Kind, Request, Sender, Trace};
use throughline_core::message::ToolResult;
use throughline_core::port::{Receipt, Submission};
use throughline_core::prompt::Digest;
use throughline_core::route::Target;
use throughline_core::{Content, JsonText, Message, Seq, SessionId, Time};

const SESSION_ID: HeaderName = HeaderName::from_static("x-hermes-session-id");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// How OpenAI's libraries mark their own retries.
const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");
/// The name under which `throughline why` finds the message.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub const IDEMPOTENCY_KEY_LENGTH_MAX: usize = 255;
/// Who asks is kept with every message and every session of theirs.
const USER_LENGTH_MAX: usize = 512;

/// Who asks, by its headers and its `user` field.
pub struct ApiCaller {
    pub principal: String,
    pub session: Option<SessionId>,
    user: Option<String>,
    session_key: Option<HeaderValue>,
    idempotency_key: Option<String>,
    is_marked_retry: bool,
    pub wishes: ClientOptions,
}

/// What is asked, apart from where it belongs.
pub struct ApiRequest {
    pub endpoint: &'static str,
    pub body: Digest,
    pub sampling: Option<JsonText>,
    pub tools: Option<ClientTools>,
    /// What is said is to be forgotten, as far as that goes: no later turn is reminded of it.
    pub unkept: bool,
}

/// Where an input goes and what it brings along.
pub struct PlacedInput {
    pub target: Target,
    pub system: Option<String>,
    pub imported: Vec<Message>,
    /// What the client's tools returned.
    pub results: Vec<ToolResult>,
    pub content: Content,
    /// The client's view of the conversation, where that is what finds it again.
    pub thread: Option<Digest>,
    pub at: Time,
}

impl ApiCaller {
    pub fn new(app: &App, headers: &HeaderMap, user: Option<String>) -> Result<Self, ApiError> {
        let user = user.filter(|user| !user.is_empty());
        if user.as_ref().is_some_and(|user| user.len() > USER_LENGTH_MAX) {
            let message = format!("user must be at most {USER_LENGTH_MAX} bytes: it names who asks.");
            return Err(ApiError::invalid("user", message));
        }
        let session_key = auth::session_key(headers)?;
        Ok(Self {
            principal: app.guard.principal(user.as_deref(), session_key),
            session: session(headers)?,
            session_key: session_key.and(headers.get(SESSION_KEY)).cloned(),
            idempotency_key: idempotency_key(headers)?,
            is_marked_retry: is_marked_retry(headers),
            wishes: ClientOptions::of(headers)?,
            user,
        })
    }

    /// A request that names neither a session nor a person has no conversation to be reminded of.
    fn is_stateless(&self) -> bool {
        let named = self.session.is_some() || self.session_key.is_some() || self.user.is_some();
        !named && !self.wishes.memory
    }

    /// The turn ends if this client hangs up before its answer is there.
    pub fn stops(&self, app: &App) -> bool {
        self.wishes.stops.unwrap_or(app.options.stop_on_disconnect)
    }

    /// With a session's name, to that session, whose own history wins. Without, to where the
    /// client's copy of the conversation ends, if that can be found.
    pub fn place(&self, app: &App, mut conversation: ClientConversation) -> Result<PlacedInput, ApiError> {
        let at = app.api.now();
        if let Some(session) = &self.session {
            let system = conversation.system.take();
            let NewInput { imported, results, content } = conversation.import_repaired(at);
            let target = Target::Session(session.clone());
            return Ok(PlacedInput { target, system, imported, results, content, thread: None, at });
        }
        let position = conversation.position(&self.principal);
        let target = position.before.map_or(Target::Fresh, |before| Target::Thread { before });
        let system = conversation.system.take();
        let NewInput { imported, results, content } = conversation.import(at)?;
        Ok(PlacedInput { target, system, imported, results, content, thread: Some(position.with_input), at })
    }

    pub fn submission(&self, app: &App, ask: &ApiRequest, placed: PlacedInput) -> Submission {
        let named = self.session.as_ref().map_or("", |session| session.as_str());
        let body = Digest::of(&[ask.endpoint.as_bytes(), named.as_bytes(), &ask.body.0]);
        // A client that names its request has said all there is to say about retries.
        let (key, implicit_key) = match &self.idempotency_key {
            Some(key) => (DedupeKey::of(&["api", &self.principal, key]), None),
            None => {
                let implicit = Digest::of(&[b"implicit", self.principal.as_bytes(), &body.0]);
                (DedupeKey::of(&["api", "", &app.api.unique()]), Some(implicit))
            }
        };
        let PlacedInput { target, system, imported, results, content, thread, at } = placed;
        let sampling = ask.sampling.clone();
        Submission {
            target,
            birth: Birth {
                source: "api_server".to_owned(),
                user: self.user.clone(),
                principal: Some(self.principal.clone()),
                one_of_many: self.user.is_some() || self.session_key.is_some(),
                imported,
                ..Birth::default()
            },
            at,
            key,
            kind: Kind::Request(Request {
                content,
                body: Some(body),
                thread,
                implicit_key,
                system,
                sampling,
                task: None,
                tools: ask.tools.clone(),
                results,
                stateless: self.is_stateless() || ask.unkept,
            }),
            reply_to: None,
            sender: self.user.clone().map(|id| Sender { id, name: None }),
            platform_id: None,
            trace: Trace::default(),
            can_answer: self.wishes.approvals,
            may_be_retry: implicit_key.is_some() && (self.is_marked_retry || self.session.is_some()),
            gathers: None,
        }
    }

    /// What every response to an accepted request carries.
    pub fn stamp(&self, receipt: &Receipt) -> ResponseStamp {
        ResponseStamp {
            session: receipt.session.clone(),
            seq: receipt.seq,
            session_key: self.session_key.clone(),
        }
    }
}

fn session(headers: &HeaderMap) -> Result<Option<SessionId>, ApiError> {
    let Some(value) = headers.get(SESSION_ID) else { return Ok(None) };
    let text = String::from_utf8_lossy(value.as_bytes());
    match text.trim() {
        "" => Ok(None),
        text => named_session(text, SESSION_ID.as_str()).map(Some),
    }
}

/// What the ids of the chat API begin with.
pub const COMPLETION: &str = "chatcmpl-";

/// A session by the name a client wrote.
pub fn named_session(text: &str, param: &str) -> Result<SessionId, ApiError> {
    text.parse().map_err(|error| {
        ApiError::invalid(param, format!("This cannot be a session to write to: {error}."))
            .code("invalid_session")
    })
}

fn is_marked_retry(headers: &HeaderMap) -> bool {
    let count = headers.get(RETRY_COUNT).and_then(|count| count.to_str().ok());
    count.and_then(|count| count.trim().parse::<u32>().ok()).is_some_and(|count| count > 0)
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match value.to_str().map(str::trim) {
        Ok("") => Ok(None),
        Ok(key) if key.len() <= IDEMPOTENCY_KEY_LENGTH_MAX => Ok(Some(key.to_owned())),
        _ => Err(ApiError::invalid(
            IDEMPOTENCY_KEY.as_str(),
            format!(
                "An Idempotency-Key must be at most {IDEMPOTENCY_KEY_LENGTH_MAX} printable ASCII characters."
            ),
        )),
    }
}

/// Which turn a response belongs to, in its headers.
pub struct ResponseStamp {
    pub session: SessionId,
    pub seq: Seq,
    session_key: Option<HeaderValue>,
}

impl ResponseStamp {
    /// Of a request that says nothing about its caller.
    pub fn plain(receipt: &Receipt) -> Self {
        Self { session: receipt.session.clone(), seq: receipt.seq, session_key: None }
    }

    pub fn put(&self, headers: &mut HeaderMap) {
        // A session's id may hold any printable character; a header carries those as bytes.
        let mut put = |name, text: &str| {
            if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
                headers.insert(name, value);
            }
        };
        put(SESSION_ID, self.session.as_str());
        put(REQUEST_ID, &format!("{}/{}", self.session, self.seq));
        if let Some(session_key) = &self.session_key {
            headers.insert(SESSION_KEY, session_key.clone());
        }
    }

    /// A name for this turn that is the same whenever it is asked for.
    pub fn name(&self, prefix: &str) -> String {
        name(prefix, &self.session, self.seq)
    }
}

/// What the chat API calls the answer to this input.
pub fn completion_id(session: &SessionId, seq: Seq) -> String {
    name(COMPLETION, session, seq)
}

fn name(prefix: &str, session: &SessionId, seq: Seq) -> String {
    let mut name = Digest::of(&[session.as_str().as_bytes(), &seq.0.to_le_bytes()]).to_hex();
    name.truncate(24);
    name.insert_str(0, prefix);
    name
}
