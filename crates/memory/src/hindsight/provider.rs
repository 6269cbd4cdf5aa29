//! Hindsight behind the port of memory providers.

use super::api::{DocumentReceipt, HindsightFault, HindsightServer, ServerOperation};
use super::bank::BankSharing;
use super::document::{HindsightDocument, is_of_another, own_tag};
use super::settings::{HindsightSettings, MemoryMode, RecallMethod};
use super::tools;
use crate::person_name;
use serde_json::{Value, json};
use std::time::Duration;
use throughline_core::memory::{Erasure, MemoryError, Naming, Provider, Retention, Scope, Wanted};
use throughline_core::port::Promise;
use throughline_core::tool::Spec;
use tokio::time::{sleep, timeout};

/// A hand-over that takes longer is asked about again later: others are waiting behind it.
const PATIENCE_MAX: Duration = Duration::from_secs(60);
const POLL_FIRST: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(2);
/// Questions in a row about an operation that went unanswered.
const POLL_FAILURES_MAX: usize = 3;
/// A server that forgets a third time what it took in is not asked a fourth time at once.
const SENDS_MAX: usize = 3;
/// A token is rarely longer, so this cuts only what ignores the bound that was asked for.
const CHARACTERS_PER_TOKEN: usize = 8;

/// Pages of documents that are deleted before others have their turn; the rest follows with the next try.
const ERASED_PAGES_MAX: usize = 100;

const HEADER: &str = "# Hindsight Memory (persistent cross-session context)\n\
    Use this to answer questions about the user and prior sessions. \
    Do not call tools to look up information that is already present here.";

/// One configured Hindsight.
pub struct Hindsight {
    settings: HindsightSettings,
    server: HindsightServer,
    patience: Duration,
    is_sole: bool,
}

impl Hindsight {
    /// Connects to nothing yet. An error says what to do.
    pub fn new(settings: HindsightSettings) -> Result<Self, String> {
        let server = HindsightServer::new(&settings)?;
        let patience = settings.timeout.min(PATIENCE_MAX);
        Ok(Self { settings, server, patience, is_sole: false })
    }

    /// Only one person can talk to this agent: all that lies in its banks is theirs, by whichever id they come.
    pub fn of_one_person(self) -> Self {
        Self { is_sole: true, ..self }
    }

    pub fn settings(&self) -> &HindsightSettings {
        &self.settings
    }

    /// Where what is said in `scope` is kept.
    pub fn bank(&self, scope: &Scope) -> String {
        self.settings.bank.of(scope)
    }

    /// Hands it over and waits until it is kept.
    async fn keep(&self, document: &HindsightDocument) -> Result<(), MemoryError> {
        match timeout(self.patience, self.hand_over(document)).await {
            Ok(kept) => kept,
            Err(_) => Err(MemoryError::Unknown(format!(
                "Hindsight at {} has not finished with it after {} s. It is asked again.",
                self.server.host,
                self.patience.as_secs_f64()
            ))),
        }
    }

    async fn hand_over(&self, document: &HindsightDocument) -> Result<(), MemoryError> {
        let mut has_retried = false;
        for attempt in 0..SENDS_MAX {
            sleep(POLL_FIRST * u32::try_from(attempt * attempt * 4).unwrap_or(0)).await;
            let operation = match self.server.retain(document).await? {
                DocumentReceipt::Kept => return Ok(()),
                DocumentReceipt::Queued(operation) => operation,
            };
            if self.watch(document, &operation, &mut has_retried).await? {
                return Ok(());
            }
        }
        Err(MemoryError::Later(format!(
            "Hindsight at {} took it in {SENDS_MAX} times and knows nothing of it. It is sent again.",
            self.server.host
        )))
    }

    /// Until it is kept (true) or forgotten (false).
    async fn watch(
        &self,
        document: &HindsightDocument,
        operation: &str,
        has_retried: &mut bool,
    ) -> Result<bool, MemoryError> {
        let mut pause = POLL_FIRST;
        let mut failures = 0;
        loop {
            match self.server.operation(&document.bank, operation).await {
                Ok(ServerOperation::Done) => return Ok(true),
                // A server that clears its books may have kept it all the same.
                Ok(ServerOperation::Absent) => return Ok(self.server.holds(document).await?),
                Ok(ServerOperation::Working) => failures = 0,
                Ok(ServerOperation::Failed(reason)) if *has_retried => {
                    return Err(MemoryError::Later(format!(
                        "Hindsight at {} could not keep it: “{reason}”. It is tried again.",
                        self.server.host
                    )));
                }
                // Sent again it would be answered with success, and not be kept: it has to be asked for.
                Ok(ServerOperation::Failed(_)) => match self.server.retry(&document.bank, operation).await {
                    Ok(()) => *has_retried = true,
                    Err(HindsightFault::Conflict(_)) => {} // it is at work again
                    Err(fault) => return Err(fault.into()),
                },
                Err(fault) => {
                    failures += 1;
                    if failures == POLL_FAILURES_MAX {
                        let reason = MemoryError::from(fault);
                        return Err(MemoryError::Unknown(format!("It was taken in, and then: {reason}")));
                    }
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(POLL_MAX);
        }
    }

    /// The memories that bear on `query`, best first.
    pub(super) async fn search(&self, scope: &Scope, query: &str) -> Result<Vec<String>, MemoryError> {
        let recall = &self.settings.recall;
        let mut question = json!({
            "query": query,
            "budget": self.settings.budget,
            "max_tokens": recall.tokens_max,
        });
        if !recall.types.is_empty() {
            question["types"] = json!(recall.types);
        }
        self.narrow(scope, &mut question);
        let found = self.server.recall(&self.bank(scope), &question).await?;
        // What the server was asked to leave out it has left out; this is for a bank that two ids share.
        let foreign = |memory: &Value| match (person_name::of(scope), recall.tags.is_empty() && !self.is_sole)
        {
            (Some(user), true) => is_of_another(memory.get("tags"), &user),
            _ => false,
        };
        let own = found.unwrap_or_default().into_iter().filter(|memory| !foreign(memory));
        let texts = own.filter_map(|memory| Some(memory.get("text")?.as_str()?.to_owned()));
        let mut room =
            usize::try_from(recall.tokens_max).unwrap_or(usize::MAX).saturating_mul(CHARACTERS_PER_TOKEN);
        Ok(texts
            .filter(|text| !text.is_empty())
            .map_while(|text| {
                let text: String = text.chars().take(room).collect();
                room -= text.chars().count();
                (!text.is_empty()).then_some(text)
            })
            .collect())
    }

    /// An answer to `query` made of memories; empty if there are none.
    pub(super) async fn reflect(&self, scope: &Scope, query: &str) -> Result<String, MemoryError> {
        let mut question = json!({ "query": query, "budget": self.settings.budget });
        self.narrow(scope, &mut question);
        let answer = self.server.reflect(&self.bank(scope), &question).await?;
        let room = usize::try_from(self.settings.recall.tokens_max).unwrap_or(usize::MAX);
        Ok(answer.unwrap_or_default().chars().take(room.saturating_mul(CHARACTERS_PER_TOKEN)).collect())
    }

    pub(super) async fn note(
        &self,
        scope: &Scope,
        content: &str,
        context: &str,
        tags: &[String],
    ) -> Result<(), MemoryError> {
        self.keep(&HindsightDocument::of_note(&self.settings, scope, content, context, tags)).await
    }

    /// A user who sets tags to recall by has decided who shares what. Otherwise those who share a bank each get
    /// their own.
    fn narrow(&self, scope: &Scope, question: &mut Value) {
        let recall = &self.settings.recall;
        let is_alone = self.is_sole || self.settings.bank.sharing(scope) == BankSharing::Own;
        let (tags, how) = match (recall.tags.is_empty(), own_tag(scope)) {
            (false, _) => (recall.tags.clone(), recall.tags_match.as_str()),
            (true, Some(own)) if !is_alone => (vec![own], "all_strict"),
            (true, _) => return,
        };
        question["tags"] = json!(tags);
        question["tags_match"] = json!(how);
    }
}

impl Provider for Hindsight {
    fn name(&self) -> &str {
        "hindsight"
    }

    /// Documents are named by session and turn; what keeps their order is the session.
    fn naming(&self, scope: &Scope) -> Naming {
        Naming { name: scope.session.to_string(), otherwise: None }
    }

    fn every(&self) -> Option<u64> {
        self.settings.retain.auto.then_some(self.settings.retain.every)
    }

    fn recall<'a>(&'a self, scope: &'a Scope, query: &'a str) -> Promise<'a, Result<String, MemoryError>> {
        Box::pin(async move {
            let recall = &self.settings.recall;
            if self.settings.mode == MemoryMode::Tools || !recall.auto || query.trim().is_empty() {
                return Ok(String::new());
            }
            let query: String = match recall.query_max {
                0 => query.to_owned(),
                characters => query.chars().take(characters).collect(),
            };
            let text = match recall.method {
                RecallMethod::Reflect => self.reflect(scope, &query).await?,
                RecallMethod::Recall => {
                    let found = self.search(scope, &query).await?;
                    found.iter().map(|text| format!("- {text}")).collect::<Vec<_>>().join("\n")
                }
            };
            let header = if recall.preamble.is_empty() { HEADER } else { &recall.preamble };
            Ok(match text.is_empty() {
                true => text,
                false => format!("{header}\n\n{text}"),
            })
        })
    }

    fn retain<'a>(&'a self, retention: &'a Retention) -> Promise<'a, Result<(), MemoryError>> {
        Box::pin(async move {
            match HindsightDocument::of_turn(&self.settings, retention) {
                Some(document) => self.keep(&document).await,
                None => Ok(()),
            }
        })
    }

    fn erase<'a>(&'a self, erasure: &'a Erasure) -> Promise<'a, Result<(), MemoryError>> {
        Box::pin(async move {
            let bank = self.bank(&erasure.scope);
            for turn in &erasure.turns {
                self.server.delete(&bank, turn).await?;
            }
            if !erasure.turns.is_empty() {
                return Ok(());
            }
            // What is deleted leaves the list, so the first page is always the next one.
            for _ in 0..ERASED_PAGES_MAX {
                let documents = self.server.documents(&bank, erasure.scope.session.as_str()).await?;
                if documents.is_empty() {
                    return Ok(());
                }
                for document in &documents {
                    self.server.delete(&bank, document).await?;
                }
            }
            Err(MemoryError::Later(format!(
                "Hindsight at {} still lists documents of session {}. It is asked again.",
                self.server.host, erasure.scope.session
            )))
        })
    }

    fn prompt(&self) -> Option<String> {
        Some(tools::prompt(self.settings.mode).to_owned())
    }

    fn tools(&self) -> Vec<Spec> {
        match self.settings.mode {
            MemoryMode::Context => Vec::new(),
            MemoryMode::Hybrid | MemoryMode::Tools => tools::specs(),
        }
    }

    fn call<'a>(&'a self, scope: &'a Scope, wanted: Wanted<'a>) -> Promise<'a, String> {
        Box::pin(tools::call(self, scope, wanted.name, wanted.arguments))
    }
}
