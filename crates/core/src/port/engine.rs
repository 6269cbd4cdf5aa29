//! A context engine: decides when a view is compressed, and how.

use super::Promise;
use crate::memory;
use crate::message::Message;

/// Decides when a context is too full and what a summary of it says. The built-in one is
/// in [`crate::compression`]; a plugin is another. All that crosses this trait is plain data,
/// so that it can cross a process boundary, too; no caller reaches past it.
pub trait Engine: Send + Sync {
    fn name(&self) -> &str;
    /// Asked after each answer, with what the provider counted. An engine that takes too long has said no.
    fn should_compress<'a>(&'a self, scope: &'a memory::Scope, usage: &'a ContextUsage) -> Promise<'a, bool>;
    /// What may stand in place of these messages. The last of them is the last that may be replaced;
    /// no tool group is open in them.
    fn compress<'a>(
        &'a self,
        past: &'a Past,
        wishes: &'a Wishes,
    ) -> Promise<'a, Result<Condensed, EngineError>>;

    // What follows is optional: an engine without it works everywhere.

    /// Which wishes it knows. Others are not even offered to it.
    fn takes(&self) -> Takes {
        Takes::default()
    }
    /// Whether there is anything in these messages that it would replace.
    fn has_content_to_compress<'a>(&'a self, past: &'a Past, wishes: &'a Wishes) -> Promise<'a, bool> {
        let _ = (past, wishes);
        Box::pin(async { true })
    }
    /// What it would do with them, without doing it.
    fn plan<'a>(
        &'a self,
        past: &'a Past,
        wishes: &'a Wishes,
    ) -> Promise<'a, Option<crate::compression::Plan>> {
        let _ = (past, wishes);
        Box::pin(async { None })
    }
    /// Whether it wants to know of sessions that begin and end.
    fn follows_sessions(&self) -> bool {
        false
    }
    fn session_began(&self, scope: &memory::Scope) {
        let _ = scope;
    }
    fn session_ended(&self, scope: &memory::Scope) {
        let _ = scope;
    }
    /// Tools it brings along, in the common form of a tool.
    fn tools(&self) -> Vec<crate::tool::Spec> {
        Vec::new()
    }
    fn call<'a>(
        &'a self,
        scope: &'a memory::Scope,
        call: &'a crate::tool::Call,
    ) -> Promise<'a, crate::tool::Returned> {
        let _ = scope;
        let answer = format!("The context engine has no tool named {:?}.", call.name);
        Box::pin(async move { crate::tool::Returned::text(answer) })
    }
    /// A few words about how it is doing, as far as they are at hand.
    fn status(&self) -> Option<String> {
        None
    }
    /// A few words for `/status`, about one session and as it is now.
    fn status_of<'a>(&'a self, scope: &'a memory::Scope) -> Promise<'a, Option<String>> {
        let _ = scope;
        Box::pin(async { None })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextUsage {
    /// What the model read and wrote in its last answer.
    pub prompt: u64,
    pub completion: u64,
    /// What the next request is expected to weigh.
    pub expected: u64,
}

/// What an engine is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    pub scope: memory::Scope,
    pub messages: Vec<Message>,
    /// What the whole context weighs, as the provider counted it or as it is estimated.
    pub tokens: u64,
}

/// What is wished of a summary, beyond that there be one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// What should be kept in favour of the rest.
    pub focus: Option<String>,
    /// Even if the engine would rather not.
    pub force: bool,
    /// What the memory provider wants remembered, as data.
    pub memory_context: String,
    /// So many messages at the end are to stay as they are, rather than as many as the engine likes.
    pub keep_last: Option<usize>,
}

/// Which wishes an engine knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    pub focus: bool,
    pub force: bool,
    pub memory_context: bool,
    pub keep_last: bool,
}

/// What an engine made of the past: so many messages at both ends stay as they are, and these stand
/// in place of the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Condensed {
    pub keep_first: usize,
    pub messages: Vec<Message>,
    pub keep_last: usize,
    /// Which model wrote it, if one did.
    pub model: String,
    /// Something the user should know, in a sentence.
    pub remark: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// There is nothing that it would replace.
    #[error("there is nothing to compress")]
    Nothing,
    /// It does not know one of the wishes after all: it is asked once more without them.
    #[error("the engine does not know {0}")]
    Unknown(String),
    /// No summary came of it. In a sentence, free of secrets.
    #[error("{0}")]
    Failed(String),
}
