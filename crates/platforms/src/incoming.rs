//! What people write, as every platform says it, and who takes it.

use std::time::Duration;
use throughline_core::Time;
use throughline_core::input::Destination;
use throughline_core::port::{CallId, Promise};
use throughline_core::tool::Verdict;
use throughline_hermes::source::Source;

/// One message of a person or a bot. Deliveries of the same message are equal in what names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming {
    /// Where it was written and by whom, in Hermes' form: chat keys are made of it.
    pub source: Source,
    /// Where an answer goes.
    pub reply_to: Destination,
    /// What makes two deliveries the same message, beside platform and account: ids of the platform,
    /// such as chat and message. Never empty.
    pub identity: Vec<String>,
    /// When it was written, by the platform's clock.
    pub at: Time,
    /// As the person wrote it, without a leading mention of us.
    pub text: String,
    pub attachments: Vec<Attachment>,
    pub quoted: Option<Quoted>,
    /// A program wrote it.
    pub from_bot: bool,
    /// It is meant for us: a direct message, a mention, an answer to something we said, a command.
    pub addressed: bool,
    /// We are named in it.
    pub mentioned: bool,
    /// Roles its author has, where the platform has roles.
    pub roles: Vec<String>,
    /// A change of an earlier message, which has its own identity.
    pub edited: bool,
    /// For the model: what was said around it that the session has not seen, a template's text …
    pub context: Option<String>,
    /// Skills that are loaded with it.
    pub skills: Vec<String>,
    /// One of several that were sent as one: the others come within this time.
    pub gathers: Option<Duration>,
}

/// The message that is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted {
    pub id: String,
    pub text: Option<String>,
    pub author: Option<String>,
    /// We said it.
    pub ours: bool,
}

/// A file that came along. Fetched when it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub media: Media,
    /// What its adapter finds it by: a file id or an address. Not for people.
    pub handle: String,
    pub name: Option<String>,
    pub mime: Option<String>,
    pub bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Image,
    Voice,
    Audio,
    Video,
    Document,
}

/// A button under one of our questions was pressed.
#[derive(Clone, Debug, PartialEq)]
pub struct Press {
    /// Who pressed it, and where.
    pub source: Source,
    pub call: CallId,
    pub verdict: Verdict,
}

/// Something to deliver as it is: no turn, no answer.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectDelivery {
    /// Who brought it, in Hermes' form.
    pub source: Source,
    /// As in [`Incoming::identity`]: the same letter twice is delivered once.
    pub identity: Vec<String>,
    pub place: Destination,
    pub text: String,
    pub at: Time,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntakeOutcome {
    /// It is on disk, now or since an earlier delivery.
    Kept,
    /// It is not wanted, and will not be: a stranger, talk among others, an empty message.
    Ignored,
}

/// It could not be kept. The platform must not hear that it arrived; try again in a moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotNow(pub String);

/// The way in. What it has taken is on disk.
pub trait Intake: Send + Sync {
    fn take(&self, incoming: Incoming) -> Promise<'_, Result<IntakeOutcome, NotNow>>;
    /// Returns what to tell the one who pressed, in a few words.
    fn press(&self, press: Press) -> Promise<'_, Result<String, NotNow>>;
    /// The questions that wait for a person now, for buttons that have no room for a call's name.
    fn asking(&self) -> Promise<'_, Vec<CallId>> {
        Box::pin(async { Vec::new() })
    }
    /// Puts a letter into the outbox, in the parts in which its platform takes it. It is there when
    /// this returns, now or since an earlier delivery.
    fn deliver(&self, letter: DirectDelivery) -> Promise<'_, Result<IntakeOutcome, NotNow>> {
        let platform = letter.place.platform;
        Box::pin(async move { Err(NotNow(format!("nothing here delivers to {platform} without a turn"))) })
    }
    /// Where this account's stream of events was left, as [`Intake::keep`] last heard.
    fn cursor<'a>(&'a self, platform: &'a str, account: &'a str) -> Promise<'a, Option<String>>;
    /// All before this has been taken. Returns when that is on disk.
    fn keep<'a>(
        &'a self,
        platform: &'a str,
        account: &'a str,
        cursor: String,
    ) -> Promise<'a, Result<(), NotNow>>;
    fn now(&self) -> Time;
}
