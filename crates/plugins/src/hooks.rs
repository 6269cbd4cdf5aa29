//! A plugin that is told of things, and asked whether a call may be.
//!
//! - one that may forbid a call and cannot be asked forbids it, also before it was ever met
//! - one that hears of the end of a session is told once, however often it is waited for: a promise
//!   that was let go of goes on, and is found again
//! - all others are told once at most, and no caller waits for them
//! - the agent's memory provider hears what was written to the built-in memory, as Hermes tells it: likewise

use crate::host::Host;
use crate::protocol::{GUARD, Hook, HookAnswer, HookRun, MemoryWritten, Scope, method};
use crate::scope::{of_caller, of_memory, of_session};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use throughline_core::SessionId;
use throughline_core::memory;
use throughline_core::message::Content;
use throughline_core::port::{Fact, FactName, Happening, Hooks, Occasion, Promise};
use throughline_core::tool::{Call, Done, Returned, Witness};
use throughline_hermes::hook_facts;
use tokio::sync::Semaphore;

/// What is told beside each other and not waited for. More than this is not told at all.
const TOLD_MAX: usize = 256;

/// The tool that writes to the built-in memory, and where it writes if it does not say.
const MEMORY: &str = "memory";

const FORBIDDEN: &str = "Blocked by a plugin.";

/// Finds out on whose behalf a session is, for the plugin that hears of it; with what goes on in its place, where it has ended.
/// None: it is unknown, so that it is told by what is known of the occasion itself.
pub type ScopeOfSession =
    Arc<dyn Fn(SessionId, Option<SessionId>) -> Promise<'static, Option<memory::Scope>> + Send + Sync>;

pub struct PluginHooks {
    host: Host,
    scope_of: ScopeOfSession,
    running: Mutex<HashMap<(String, String), RunningHook>>,
    told: Arc<Semaphore>,
    mirrors: bool,
}

type RunningHook = Shared<BoxFuture<'static, Result<(), String>>>;

impl PluginHooks {
    pub fn new(host: Host, scope_of: ScopeOfSession) -> Self {
        let told = Arc::new(Semaphore::new(TOLD_MAX));
        Self { host, scope_of, running: Mutex::default(), told, mirrors: false }
    }

    /// It is the agent's memory provider: it hears what is written to the built-in memory, if it wants to.
    pub fn mirroring(self) -> Self {
        Self { mirrors: true, ..self }
    }

    fn mirror(&self, call: &Call, returned: &str) {
        let abilities = self.host.abilities().filter(|_| self.mirrors && call.name == MEMORY);
        let provider = abilities.as_ref().and_then(|abilities| abilities.provider.as_ref());
        if !provider.is_some_and(|provider| provider.methods.iter().any(|method| method == "memory_written"))
        {
            return;
        }
        let writes = writes(call, returned);
        if writes.is_empty() {
            return;
        }
        let Ok(permit) = self.told.clone().try_acquire_owned() else {
            tracing::warn!("a plugin is told too much at once; what was written to the memory was not told");
            return;
        };
        let (host, scope_of) = (self.host.clone(), self.scope_of.clone());
        let (session, user) = (call.caller.session.clone(), call.caller.user.clone());
        tokio::spawn(async move {
            let scope = scope_of(session, None).await.map(|scope| of_memory(&scope.on_behalf_of(user)));
            for write in writes {
                let write = MemoryWritten { scope: scope.clone().unwrap_or(write.scope), ..write };
                let told = host.ask::<_, IgnoredAny>(method::MEMORY_WRITTEN, &write, host.deadlines().hook);
                if let Err(error) = told.await {
                    tracing::warn!(%error, "a memory provider was not told what was written to the memory");
                }
            }
            drop(permit);
        });
    }

    fn of(&self, is_meant: impl Fn(&str) -> bool) -> Vec<Hook> {
        let Some(abilities) = self.host.abilities() else { return Vec::new() };
        abilities.hooks.iter().filter(|hook| is_meant(&hook.event)).cloned().collect()
    }

    /// The gateway is up, with these platforms.
    pub fn started(&self, platforms: &[String]) {
        for hook in self.of(|event| event == STARTED) {
            let facts = [("platforms".to_owned(), json!(platforms))].into();
            let (event, name, key) = (hook.event, hook.name, STARTED.to_owned());
            self.tell_later(HookRun { scope: Scope::default(), event, name, key, facts }, None);
        }
    }

    fn of_call(hook: &Hook, call: &Call, extra: Map<String, Value>) -> (HookRun, HookSubject) {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let turn = call.key.rsplit('/').nth(2).unwrap_or_default();
        let mut facts: BTreeMap<String, Value> = extra.into_iter().collect();
        let args = if arguments.is_object() { arguments } else { json!({}) };
        for (name, value) in [
            ("tool_name", json!(call.name)),
            ("args", args),
            ("session_id", json!(call.caller.session.as_str())),
            ("task_id", json!(call.caller.session.as_str())),
            ("tool_call_id", json!(call.key)),
            ("turn_id", json!(turn)),
            ("user_id", json!(call.caller.user)),
            ("api_request_id", json!("")),
            ("middleware_trace", json!([])),
        ] {
            facts.insert(name.to_owned(), value);
        }
        let key = format!("{}/{}", call.key, hook.event);
        let (event, name) = (hook.event.clone(), hook.name.clone());
        let about = HookSubject { session: call.caller.session.clone(), successor: None };
        (HookRun { scope: of_caller(&call.caller), event, name, key, facts }, about)
    }

    /// `about`: none where no session is meant.
    fn tell_later(&self, run: HookRun, about: Option<HookSubject>) {
        let Ok(permit) = self.told.clone().try_acquire_owned() else {
            tracing::warn!(hook = run.name, "a plugin is told too much at once; this hook was not told");
            return;
        };
        let (host, scope_of) = (self.host.clone(), self.scope_of.clone());
        tokio::spawn(async move {
            let run = match about {
                Some(about) => scoped(&scope_of, run, about).await,
                None => run,
            };
            if let Err(error) = told(&host, &run).await {
                tracing::warn!(hook = run.name, error, "a hook that was told something came to nothing");
            }
            drop(permit);
        });
    }

    fn named(&self, name: &str, occasion: Occasion) -> Option<Hook> {
        self.of(|event| hears(event, occasion)).into_iter().find(|hook| named(&self.host, hook) == name)
    }
}

/// What a hook is told of.
#[derive(Clone)]
struct HookSubject {
    session: SessionId,
    /// What goes on in its place, if it has ended.
    successor: Option<SessionId>,
}

/// The same, with all that is known of the session; and, by Hermes' names, among the facts, as far as the occasion did not
/// know better.
async fn scoped(scope_of: &ScopeOfSession, mut run: HookRun, about: HookSubject) -> HookRun {
    if let Some(scope) = scope_of(about.session, about.successor).await {
        // The caller is known better than the person who began the session.
        run.scope = of_memory(&scope.on_behalf_of(run.scope.user.take()));
    }
    let Scope { chat_key, chat, user, .. } = &run.scope;
    let text = |value: &Option<String>| json!(value.as_deref().unwrap_or_default());
    for (name, value) in [
        ("session_key", text(chat_key)),
        ("chat_id", text(&chat.id)),
        ("chat_type", text(&chat.kind)),
        ("thread_id", text(&chat.thread)),
        ("user_id", json!(user)),
    ] {
        let known = run.facts.entry(name.to_owned()).or_insert(Value::Null);
        if known.is_null() {
            *known = value;
        }
    }
    run
}

/// What a call has changed in the built-in memory, going by what it asked for and that it was done.
fn writes(call: &Call, returned: &str) -> Vec<MemoryWritten> {
    let (asked, done): (Value, Value) = (
        serde_json::from_str(&call.arguments).unwrap_or_default(),
        serde_json::from_str(returned).unwrap_or_default(),
    );
    // What waits for a person's consent is not written yet.
    if done["success"] != json!(true) || done["staged"] == json!(true) {
        return Vec::new();
    }
    let target = asked["target"].as_str().filter(|target| !target.is_empty()).unwrap_or(MEMORY);
    let several = asked["operations"].as_array().filter(|several| !several.is_empty());
    let all = several.map_or(std::slice::from_ref(&asked), Vec::as_slice);
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let written = all.iter().enumerate().map(|(nth, one)| MemoryWritten {
        scope: of_caller(&call.caller),
        key: format!("{}/{nth}", call.key),
        action: text(one, "action"),
        target: target.to_owned(),
        content: text(one, "content"),
        old_text: Some(text(one, "old_text")).filter(|old| !old.is_empty()),
    });
    written.filter(|one| ["add", "replace", "remove"].contains(&one.action.as_str())).collect()
}

async fn told(host: &Host, run: &HookRun) -> Result<(), String> {
    let told = host.ask::<_, IgnoredAny>(method::HOOK, run, host.deadlines().hook).await;
    told.map(drop).map_err(|error| error.to_string())
}

const STARTED: &str = "gateway:startup";
/// Before the name of an order, or a star for any of them.
const ORDERED: &str = "command:";
/// Around all that a turn asks of the model.
const BEFORE_MODEL: &str = "pre_llm_call";
const AFTER_MODEL: &str = "post_llm_call";

/// What Hermes calls an occasion: to its plugins, and to the hooks of its gateway.
fn events_of(occasion: Occasion) -> &'static [&'static str] {
    match occasion {
        Occasion::Begun => &["on_session_start", "session:start"],
        Occasion::Ordered => &[], // by the order's name
        Occasion::TurnBegan => &[BEFORE_MODEL, "agent:start"],
        Occasion::Stepped => &["agent:step"],
        Occasion::TurnEnded => &["on_session_end", "agent:end", AFTER_MODEL],
        Occasion::Finalised => &["on_session_finalize", "session:end"],
        Occasion::Reset => &["on_session_reset", "session:reset"],
        Occasion::HelperStopped => &["subagent_stop"],
    }
}

fn hears(event: &str, occasion: Occasion) -> bool {
    match occasion {
        Occasion::Ordered => event.starts_with(ORDERED),
        occasion => events_of(occasion).contains(&event),
    }
}

/// Whether anything of that name ever happens here.
pub fn happens(event: &str) -> bool {
    let all = [
        Occasion::Begun,
        Occasion::Ordered,
        Occasion::TurnBegan,
        Occasion::Stepped,
        Occasion::TurnEnded,
        Occasion::Finalised,
        Occasion::Reset,
        Occasion::HelperStopped,
    ];
    [GUARD, "post_tool_call", STARTED].contains(&event)
        || all.into_iter().any(|occasion| hears(event, occasion))
}

/// What it is called where it happened: an order has a name of its own.
fn event_of(hook: &Hook, happening: &Happening) -> Option<String> {
    let fact =
        |wanted: FactName| happening.facts.iter().find(|(name, _)| *name == wanted).map(|(_, fact)| fact);
    match (happening.occasion, hook.event.as_str()) {
        (Occasion::Ordered, wanted) => {
            let Some(Fact::Text(name)) = fact(FactName::Command) else { return None };
            let event = format!("{ORDERED}{name}");
            (wanted == event || wanted == "command:*").then_some(event)
        }
        // Hermes tells it of answers only.
        (Occasion::TurnEnded, AFTER_MODEL) if fact(FactName::Completed) != Some(&Fact::Flag(true)) => None,
        (_, event) => Some(event.to_owned()),
    }
}

fn named(host: &Host, hook: &Hook) -> String {
    format!("plugin {}: {}: {}", host.name(), hook.event, hook.name)
}

/// None: this one is not for it.
fn run_of(hook: &Hook, happening: &Happening) -> Option<(HookRun, HookSubject)> {
    let value = |fact: &Fact| match fact {
        Fact::Text(text) => json!(text),
        Fact::Number(number) => json!(number),
        Fact::Flag(flag) => json!(flag),
        Fact::Names(names) => json!(names),
        Fact::Nothing => Value::Null,
    };
    // Hermes' plugins name them among what they take, so they are there, though empty.
    let absent: &[&str] = match [BEFORE_MODEL, AFTER_MODEL].contains(&hook.event.as_str()) {
        true => &["conversation_history"],
        false => &[],
    };
    let successor = happening.facts.iter().find_map(|(name, fact)| match fact {
        Fact::Text(text) if *name == FactName::NewSession => text.parse().ok(),
        _ => None,
    });
    let successor = successor.filter(|successor| *successor != happening.session);
    let about = HookSubject { session: happening.session.clone(), successor };
    let run = HookRun {
        scope: Scope { platform: happening.source.clone(), ..of_session(&happening.session) },
        event: event_of(hook, happening)?,
        name: hook.name.clone(),
        key: happening.key.clone(),
        facts: [("session_id", json!(happening.session.as_str())), ("platform", json!(happening.source))]
            .into_iter()
            .chain(absent.iter().map(|name| (*name, json!([]))))
            .chain(hook_facts::fields(&happening.facts).map(|(name, fact)| (name, value(fact))))
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    };
    Some((run, about))
}

impl Witness for PluginHooks {
    fn forbids<'a>(&'a self, call: &'a Call) -> Promise<'a, Option<String>> {
        Box::pin(async move {
            if self.host.is_unheard_guard()
                && let Err(error) = self.host.start().await
            {
                let name = self.host.name();
                tracing::warn!(plugin = name, %error, "a plugin that decides about tools does not start: the call is not run");
                return Some(format!(
                    "The plugin {name} decides about tools and has not been heard yet ({error}), so the tool was not run. \
                     `throughline plugin logs {name}` shows why."
                ));
            }
            for hook in self.of(|event| event == GUARD) {
                let (run, about) = Self::of_call(&hook, call, Map::new());
                let run = scoped(&self.scope_of, run, about).await;
                let asked = self
                    .host
                    .ask::<_, Option<HookAnswer>>(method::HOOK, &run, self.host.deadlines().hook)
                    .await;
                match asked.map(Option::unwrap_or_default) {
                    Ok(HookAnswer { block: None }) => {}
                    Ok(HookAnswer { block: Some(why) }) if why.trim().is_empty() => {
                        return Some(FORBIDDEN.to_owned());
                    }
                    Ok(HookAnswer { block: Some(why) }) => return Some(why),
                    Err(error) => {
                        tracing::warn!(
                            hook = hook.name,
                            %error,
                            "a hook that may forbid a call could not be asked: the call is not run"
                        );
                        return Some(format!(
                            "The hook {} of the plugin {} decides about this tool and could not be asked ({error}), so \
                             the tool was not run.",
                            hook.name,
                            self.host.name()
                        ));
                    }
                }
            }
            None
        })
    }

    fn called(&self, call: &Call, returned: &Returned, took: Duration, forbidden: Option<&str>) {
        let Returned::Done(Done { content, .. }) = returned else { return };
        if forbidden.is_none()
            && let Content::Text(text) = content
        {
            self.mirror(call, text);
        }
        let hooks = self.of(|event| event == "post_tool_call");
        if hooks.is_empty() {
            return;
        }
        let text = match content {
            Content::Text(text) => text.clone(),
            other => other.plain(),
        };
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let mut extra = Map::new();
        extra.insert("result".into(), json!(text));
        extra.insert("status".into(), json!(if forbidden.is_some() { "blocked" } else { "ok" }));
        extra.insert("error_type".into(), json!(forbidden.map(|_| "plugin_block")));
        extra.insert("error_message".into(), json!(forbidden));
        extra.insert("duration_ms".into(), json!(milliseconds));
        for hook in hooks {
            let (run, about) = Self::of_call(&hook, call, extra.clone());
            self.tell_later(run, Some(about));
        }
    }
}

impl Hooks for PluginHooks {
    fn names(&self, occasion: Occasion) -> Vec<String> {
        self.of(|event| hears(event, occasion)).iter().map(|hook| named(&self.host, hook)).collect()
    }

    fn run<'a>(&'a self, name: &'a str, happening: &'a Happening) -> Promise<'a, Result<(), String>> {
        Box::pin(async move {
            let hook = self.named(name, happening.occasion);
            let Some((run, about)) = hook.and_then(|hook| run_of(&hook, happening)) else {
                return Ok(()); // no caller waits any more
            };
            let place = (name.to_owned(), happening.key.clone());
            let running = {
                let mut all = self.running.lock().unwrap_or_else(PoisonError::into_inner);
                let begin = || {
                    let (host, scope_of) = (self.host.clone(), self.scope_of.clone());
                    let task = tokio::spawn(async move {
                        let run = scoped(&scope_of, run, about).await;
                        told(&host, &run).await
                    });
                    let gone = || Err("the hook failed inside the gateway".to_owned());
                    async move { task.await.unwrap_or_else(|_| gone()) }.boxed().shared()
                };
                all.entry(place.clone()).or_insert_with(begin).clone()
            };
            let ended = running.await;
            if ended.is_err() {
                self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
            }
            ended
        })
    }

    fn forget(&self, name: &str, happening: &Happening) {
        let place = (name.to_owned(), happening.key.clone());
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
    }

    fn tell(&self, happening: Happening) {
        let hooks = self.of(|event| hears(event, happening.occasion));
        let runs = hooks.iter().filter_map(|hook| run_of(hook, &happening));
        runs.for_each(|(run, about)| self.tell_later(run, Some(about)));
    }
}
