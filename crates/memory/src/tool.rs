//! The tool `memory`.
//!
//! A call waits for the file's lock off the runtime's threads, and stops waiting when it is dropped.
//! Not repeatable: adding an entry twice is adding it once, but a second replace or remove finds
//! something else, or nothing.

use crate::entry_change::{ChangeRefused, EntryChange};
use crate::entry_history::EntryOrigin;
use crate::memory_edit::{EditOutcome, MemoryEdit};
use crate::memory_text::MemoryText;
use crate::pending_writes::{self, Proposal};
use crate::prompt;
use crate::settings::MemorySettings;
use crate::target::MemoryTarget;
use crate::tool_arguments::{self, MemoryRequest, RequestedChange};
use crate::tool_result;
use crate::write_failures::{FailedTurn, WriteFailures};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use throughline_core::id::SessionId;
use throughline_core::message::JsonText;
use throughline_core::port::Promise;
use throughline_core::tool::{Call, Caller, Kit, Returned, Spec};

pub const NAME: &str = "memory";

/// The memory of one home. Clones share it.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<MemoryShared>,
}

struct MemoryShared {
    settings: MemorySettings,
    failures: Arc<WriteFailures>,
}

impl Memory {
    pub fn new(settings: MemorySettings) -> Self {
        Self { shared: Arc::new(MemoryShared { settings, failures: Arc::default() }) }
    }

    /// The memory that a caller reads and writes: their own notes, where each person has them.
    pub fn of(&self, caller: &Caller) -> Self {
        match self.shared.settings.notes.of(caller) {
            None => self.clone(),
            person => self.with_person(person),
        }
    }

    pub(crate) fn with_person(&self, person: Option<String>) -> Self {
        let settings = MemorySettings { person, ..self.shared.settings.clone() };
        Self { shared: Arc::new(MemoryShared { settings, failures: self.shared.failures.clone() }) }
    }

    /// What the prompt of a session of the owner shows: the notes, then the profile, each if there
    /// is any. Reads the files now (two small ones: off the runtime's threads, please).
    pub fn blocks(&self) -> Vec<String> {
        let targets = MemoryTarget::ALL.into_iter();
        targets.filter_map(|target| prompt::block(target, &self.shared.settings)).collect()
    }

    /// The same, and nothing for those whose memory it is not.
    pub fn blocks_for(&self, caller: &Caller) -> Vec<String> {
        let own = self.of(caller);
        let targets = MemoryTarget::ALL.into_iter().filter(|target| self.is_open_to(*target, caller));
        targets.filter_map(|target| prompt::block(target, &own.shared.settings)).collect()
    }

    pub(crate) fn is_open_to(&self, target: MemoryTarget, caller: &Caller) -> bool {
        match target {
            MemoryTarget::Memory => self.belongs_to(caller),
            // The profile lies in the home's own file, and nowhere else.
            MemoryTarget::User => {
                self.belongs_to(caller)
                    && self.is_about(caller)
                    && self.shared.settings.notes.of(caller).is_none()
            }
        }
    }

    /// Whether this is the person whom the profile is about: the owner.
    pub fn is_about(&self, caller: &Caller) -> bool {
        self.shared.settings.subjects.include(caller)
    }

    pub fn belongs_to(&self, caller: &Caller) -> bool {
        self.shared.settings.owners.include(caller)
    }

    pub(crate) fn settings(&self) -> &MemorySettings {
        &self.shared.settings
    }

    fn is_enabled(&self) -> bool {
        MemoryTarget::ALL.iter().any(|target| target.is_enabled(&self.shared.settings))
    }

    /// What the call asks for, if it may. The error is the answer.
    fn admit(&self, call: &Call) -> Result<MemoryRequest, String> {
        if call.name != NAME {
            return Err(tool_result::invalid(&format!("Unknown tool '{}'.", call.name)));
        }
        if !self.is_enabled() {
            return Err(tool_result::invalid(
                "Memory is not available. It may be disabled in config or this environment.",
            ));
        }
        if !self.belongs_to(&call.caller) {
            return Err(tool_result::failed(
                "This memory belongs to the owner of this agent, and this conversation is with someone else. \
                 Nothing was read or saved; answer without it.",
            ));
        }
        let request = tool_arguments::parse(&call.arguments)?;
        if !self.is_open_to(request.target, &call.caller) {
            return Err(tool_result::failed(
                "The user profile is about the owner of this agent, and this conversation is with someone else. \
                 Nothing was read or saved; what is worth keeping of others belongs into 'memory'.",
            ));
        }
        match request.target.is_enabled(&self.shared.settings) {
            true => Ok(request),
            false => Err(switched_off(request.target)),
        }
    }

    async fn answer(&self, call: &Call) -> String {
        let request = match self.admit(call) {
            Ok(request) => request,
            Err(answer) => return answer,
        };
        let waiting = MemoryCallWaiting::default();
        let attempt = MemoryCall {
            shared: self.of(&call.caller).shared,
            turn: FailedTurn::of(&call.caller.session, &call.key),
            origin: EntryOrigin::of(call),
            abandoned: Arc::clone(&waiting.abandoned),
        };
        let work = tokio::task::spawn_blocking(move || attempt.run(request));
        work.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a memory call broke off");
            tool_result::failed("The memory tool broke off. Look at what is saved before trying again.")
        })
    }
}

fn switched_off(target: MemoryTarget) -> String {
    let (key, other) = match target {
        MemoryTarget::Memory => ("memory.memory_enabled", MemoryTarget::User),
        MemoryTarget::User => ("memory.user_profile_enabled", MemoryTarget::Memory),
    };
    tool_result::invalid(&format!(
        "Target '{}' is switched off ({key} is false). Nothing was saved; only '{}' is available.",
        target.name(),
        other.name()
    ))
}

impl Kit for Memory {
    fn specs(&self) -> Vec<Spec> {
        if self.is_enabled() { vec![spec()] } else { Vec::new() }
    }

    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned> {
        Box::pin(async move { Returned::text(self.answer(call).await) })
    }

    fn forget(&self, session: &SessionId) {
        self.shared.failures.forget(session);
    }
}

/// Dropped with the call that waits: tells the thread that no call waits any more.
#[derive(Default)]
struct MemoryCallWaiting {
    abandoned: Arc<AtomicBool>,
}

impl Drop for MemoryCallWaiting {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }
}

/// One call, on a thread that may block.
struct MemoryCall {
    shared: Arc<MemoryShared>,
    turn: FailedTurn,
    origin: EntryOrigin,
    abandoned: Arc<AtomicBool>,
}

impl MemoryCall {
    fn run(&self, request: MemoryRequest) -> String {
        let target = request.target;
        match request.wish {
            RequestedChange::Untargeted { action } => self.inventory(target, &action),
            RequestedChange::Change { proposal, .. } if self.shared.settings.write_approval => {
                self.stage(&proposal)
            }
            RequestedChange::Change { change, .. } => self.change(target, &change),
        }
    }

    fn stage(&self, proposal: &Proposal) -> String {
        let person = self.shared.settings.person.as_deref();
        match pending_writes::stage(&self.shared.settings.home, proposal, &self.origin, person) {
            Ok(id) => tool_result::staged(&id),
            Err(error) => tool_result::failed(&error.to_string()),
        }
    }

    fn inventory(&self, target: MemoryTarget, action: &str) -> String {
        let limit = target.limit(&self.shared.settings);
        match target.file(&self.shared.settings).read() {
            Ok(held) => {
                let document = MemoryText::parse(&held.unwrap_or_default());
                tool_result::missing_old_text(action, document.entries(), limit)
            }
            Err(error) => tool_result::file_error(&error),
        }
    }

    fn change(&self, target: MemoryTarget, change: &EntryChange) -> String {
        let limit = target.limit(&self.shared.settings);
        if let Some(flaw) = change.flaw() {
            return tool_result::refused(&flaw, &[], limit);
        }
        let abandoned = || self.abandoned.load(Ordering::Relaxed);
        match MemoryEdit::new(&self.shared.settings, &self.origin).unless(&abandoned).change(target, change) {
            Ok(EditOutcome::Saved(changed)) => {
                self.shared.failures.forget(self.turn.session());
                tool_result::saved(target, limit, &changed)
            }
            Ok(EditOutcome::Refused { refused, entries }) => self.refused(&refused, &entries, limit),
            Ok(EditOutcome::Drifted { backup }) => tool_result::drifted(target.file_name(), &backup),
            Err(error) => tool_result::file_error(&error),
        }
    }

    /// What does not fit or match is counted: the fourth time in a row ends the attempts of a turn.
    fn refused(&self, refused: &ChangeRefused, entries: &[String], limit: usize) -> String {
        let failures = match refused {
            ChangeRefused::Unmatched(_) | ChangeRefused::Unfit { .. } => {
                self.shared.failures.count(&self.turn)
            }
            ChangeRefused::Plain(_) | ChangeRefused::Ambiguous { .. } => 0,
        };
        match failures > tool_result::FAILURES_MAX {
            true => tool_result::given_up(failures),
            false => tool_result::refused(refused, entries, limit),
        }
    }
}

fn spec() -> Spec {
    let action = json!(["add", "replace", "remove"]);
    let parameters = json!({
        "type": "object",
        "properties": {
            "action": {
                "type": "string",
                "enum": action,
                "description": "What to do, for one change alone. Leave out with 'operations'.",
            },
            "target": {
                "type": "string",
                "enum": ["memory", "user"],
                "description": "'memory': your own notes. 'user': the user's profile.",
            },
            "content": {
                "type": "string",
                "description": "The text of the entry, for 'add' and 'replace' (one change alone).",
            },
            "old_text": {
                "type": "string",
                "description": "For 'replace' and 'remove' (one change alone), required there: a short part \
                                of the entry that occurs in no other.",
            },
            "operations": {
                "type": "array",
                "description": "Several changes at once, all or none; only their end must fit the limit. \
                                Best for more than one change and for making room.",
                "items": {
                    "type": "object",
                    "properties": {
                        "action": {"type": "string", "enum": action},
                        "content": {"type": "string", "description": "The entry, for add and replace."},
                        "old_text": {
                            "type": "string",
                            "description": "A part of the entry that is meant, for replace and remove.",
                        },
                    },
                    "required": ["action"],
                },
            },
        },
        "required": ["target"],
    });
    Spec {
        name: NAME.to_owned(),
        toolset: "memory".to_owned(),
        description: DESCRIPTION.to_owned(),
        parameters: JsonText::from_valid(parameters.to_string()),
        repeatable: false,
    }
}

const DESCRIPTION: &str = "Keep facts that later conversations will need. What is saved is part of every \
future prompt, so entries are short and worth their space.\n\n\
How: put all changes of one moment into one call, as 'operations'. They apply together or not at all, and \
only the end result must fit the limit, so one call can drop or shorten old entries and add new ones. A \
saved call is complete: do not send it again. The fields action, content and old_text are for one change \
alone.\n\n\
When: the user states a preference, corrects you or tells of themselves; you learn something lasting about \
their environment, conventions or way of working. Preferences and corrections come first, then facts, then \
procedures. A good entry saves the user from saying it again.\n\n\
Targets: 'user' is who the user is (name, role, preferences, style), 'memory' is what you noted \
(environment, conventions, quirks of tools, lessons).\n\n\
Full: an add that does not fit is refused and shows the entries. Answer with one call that removes or \
shortens some and adds the new one.\n\n\
Not for: what is obvious or easily found again, raw data, progress of tasks, finished work, to-do lists \
(session_search finds those), or procedures worth repeating (those are skills).";
