//! A context engine in a process of its own.
//!
//! - it is offered only the wishes it has declared; if it refuses one all the same, it is asked once more
//!   without any
//! - it returns the whole conversation; what is left of the old one at both ends stays as it is
//! - a list that no model would take is refused here, and the conversation stays whole
//!
//! While an engine cannot be asked whether it is time, the user's thresholds decide.

use crate::host::{CallError, Host};
use crate::messages::{JoinedMessages, UnusableList, joined, to_wire};
use crate::protocol::{
    self, Close, Compress, Compressed, EngineAbility, HasContent, Options, Part, Scoped, ShouldCompress,
    Text, Usage, code, method,
};
use crate::scope::of_memory;
use crate::tools::{called, specs};
use std::sync::{Arc, Mutex, PoisonError};
use throughline_core::memory::Scope;
use throughline_core::port::{Condensed, ContextUsage, Engine, EngineError, Past, Promise, Takes, Wishes};
use throughline_core::tool::{Call, Done, Returned, Spec};

/// Hermes' name for the tools of an engine, by which users switch them on and off.
const TOOLSET: &str = "context_engine";

/// Whether it is time, where the engine does not say.
pub type Threshold = Arc<dyn Fn(&ContextUsage) -> bool + Send + Sync>;

pub struct PluginEngine {
    host: Host,
    name: String,
    /// The model's, in tokens.
    window: u64,
    threshold: Threshold,
    words: Arc<Mutex<Option<String>>>,
}

impl PluginEngine {
    /// None: the plugin, as it introduced itself, is no engine.
    pub fn new(host: Host, window: u64, threshold: Threshold) -> Option<Self> {
        let name = host.abilities()?.engine.as_ref()?.name.clone();
        Some(Self { host, name, window, threshold, words: Arc::default() })
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    fn ability(&self) -> Option<EngineAbility> {
        self.host.abilities()?.engine.clone()
    }

    fn has(&self, method: &str) -> bool {
        self.ability().is_some_and(|ability| ability.methods.iter().any(|known| known == method))
    }

    /// Whether the engine finds that it is time. If it does not say within its time, the thresholds do.
    pub async fn is_time(&self, scope: protocol::Scope, usage: &ContextUsage) -> bool {
        if !self.has("should_compress") {
            return (self.threshold)(usage);
        }
        let asked = ShouldCompress {
            scope,
            usage: Usage {
                prompt_tokens: usage.prompt,
                completion_tokens: usage.completion,
                expected_tokens: usage.expected,
            },
            window: self.window,
        };
        let time = self.host.deadlines().decide;
        match self.host.ask::<_, protocol::Verdict>(method::SHOULD_COMPRESS, &asked, time).await {
            Ok(verdict) => verdict.compress,
            Err(error) => {
                tracing::warn!(engine = self.name, %error, "the context engine was not heard; thresholds decide");
                (self.threshold)(usage)
            }
        }
    }

    fn question(&self, past: &Past, wishes: &Wishes) -> Result<Compress, String> {
        let takes = self.takes();
        let options = Options {
            focus: wishes.focus.clone().filter(|_| takes.focus),
            force: wishes.force && takes.force,
            memory_context: if takes.memory_context { wishes.memory_context.clone() } else { String::new() },
            keep_last: wishes.keep_last.filter(|_| takes.keep_last),
        };
        Ok(Compress {
            scope: of_memory(&past.scope),
            messages: to_wire(&past.messages)?,
            tokens: past.tokens,
            window: self.window,
            options,
        })
    }

    async fn condensed(&self, past: &Past, wishes: &Wishes) -> Result<Condensed, EngineError> {
        let question = self.question(past, wishes).map_err(EngineError::Failed)?;
        let time = self.host.deadlines().compress;
        let said = self.host.ask::<_, Compressed>(method::COMPRESS, &question, time).await;
        let Compressed { messages, model, remark } = said.map_err(|error| match error.code() {
            Some(code::UNKNOWN_PARAMETERS) => EngineError::Unknown(named(&question.options)),
            Some(code::NOTHING) => EngineError::Nothing,
            _ => EngineError::Failed(error.to_string()),
        })?;
        let kept =
            joined(&past.messages, &question.messages, &messages).map_err(|unusable| match unusable {
                UnusableList::Same => EngineError::Nothing,
                UnusableList::Malformed(why) => EngineError::Failed(why),
            })?;
        self.look_later(question.scope);
        let JoinedMessages { first, messages, last } = kept;
        let model = model.unwrap_or_default();
        Ok(Condensed { keep_first: first, messages, keep_last: last, model, remark })
    }

    /// Fetches its words in the background, for the next request of the agent's status.
    fn look_later(&self, scope: protocol::Scope) {
        if !self.has("status") {
            return;
        }
        let (host, words) = (self.host.clone(), self.words.clone());
        tokio::spawn(async move {
            let time = host.deadlines().look;
            if let Ok(said) = host.ask::<_, Text>(method::STATUS, &Scoped { scope }, time).await {
                *words.lock().unwrap_or_else(PoisonError::into_inner) = Some(said.text);
            }
        });
    }
}

fn named(options: &Options) -> String {
    let all = [
        ("focus", options.focus.is_some()),
        ("force", options.force),
        ("memory_context", !options.memory_context.is_empty()),
        ("keep_last", options.keep_last.is_some()),
    ];
    let given: Vec<&str> = all.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    match given.is_empty() {
        true => "how it is asked".to_owned(),
        false => given.join(", "),
    }
}

impl Engine for PluginEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn should_compress<'a>(&'a self, scope: &'a Scope, usage: &'a ContextUsage) -> Promise<'a, bool> {
        Box::pin(self.is_time(of_memory(scope), usage))
    }

    fn compress<'a>(
        &'a self,
        past: &'a Past,
        wishes: &'a Wishes,
    ) -> Promise<'a, Result<Condensed, EngineError>> {
        Box::pin(self.condensed(past, wishes))
    }

    fn takes(&self) -> Takes {
        let options = self.ability().map(|ability| ability.options).unwrap_or_default();
        let takes = |name: &str| options.iter().any(|option| option == name);
        Takes {
            focus: takes("focus"),
            force: takes("force"),
            memory_context: takes("memory_context"),
            keep_last: takes("keep_last"),
        }
    }

    fn has_content_to_compress<'a>(&'a self, past: &'a Past, wishes: &'a Wishes) -> Promise<'a, bool> {
        Box::pin(async move {
            if !self.has("has_content") {
                return true;
            }
            let Ok(question) = self.question(past, wishes) else { return false };
            let time = self.host.deadlines().look;
            let said = self.host.ask::<_, HasContent>(method::HAS_CONTENT, &question, time).await;
            let said = match said {
                Err(CallError::Refused { code: code::UNKNOWN_PARAMETERS, .. })
                    if !question.options.is_empty() =>
                {
                    let plain = Compress { options: Options::default(), ..question };
                    self.host.ask::<_, HasContent>(method::HAS_CONTENT, &plain, time).await
                }
                said => said,
            };
            // An engine that cannot say it is asked to do it, and then says why not.
            said.map_or(true, |said| said.has_content)
        })
    }

    fn follows_sessions(&self) -> bool {
        self.has("scope")
    }

    fn session_began(&self, scope: &Scope) {
        self.host.opened(of_memory(scope));
    }

    fn session_ended(&self, scope: &Scope) {
        let close = Close { scope: of_memory(scope), part: Some(Part::Engine), ..Close::default() };
        let host = self.host.clone();
        tokio::spawn(async move {
            if let Err(error) = host.close(&close).await {
                tracing::warn!(%error, "a context engine was not told that a session is over");
            }
        });
    }

    fn tools(&self) -> Vec<Spec> {
        let tools = self.ability().map(|ability| specs(&self.host, &ability.tools)).unwrap_or_default();
        tools.into_iter().map(|tool| Spec { toolset: TOOLSET.to_owned(), ..tool }).collect()
    }

    fn call<'a>(&'a self, scope: &'a Scope, call: &'a Call) -> Promise<'a, Returned> {
        Box::pin(async move {
            let content = called(&self.host, of_memory(scope), &call.key, &call.name, &call.arguments).await;
            Returned::Done(Done { content, sends: Vec::new() })
        })
    }

    fn status_of<'a>(&'a self, scope: &'a Scope) -> Promise<'a, Option<String>> {
        Box::pin(async move {
            if !self.has("status") {
                return None;
            }
            let (asked, time) = (Scoped { scope: of_memory(scope) }, self.host.deadlines().look);
            let said = self.host.ask::<_, Option<Text>>(method::STATUS, &asked, time).await;
            said.ok().flatten().map(|said| said.text).filter(|text| !text.trim().is_empty())
        })
    }

    fn status(&self) -> Option<String> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
