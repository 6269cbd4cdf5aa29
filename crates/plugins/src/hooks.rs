//! A plugin that is told of things, and asked whether a call may be.
//!
//! - one that may forbid a call and cannot be asked forbids it, also before it was ever met
//! - one that hears of the end of a session is told once, however often somebody waits for it: a promise
//!   that was let go of goes on, and is found again
//! - all others are told once at most, and nobody waits for them

use crate::host::Host;
use crate::protocol::{Hook, HookAnswer, HookRun, Scope, method};
use crate::scope::{of_caller, of_session};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use throughline_core::message::Content;
use throughline_core::port::{Fact, Happening, Hooks, Occasion, Promise};
use throughline_core::tool::{Call, Done, Returned, Witness};
use tokio::sync::Semaphore;

/// What is told beside each other and waited for by nobody. More than this is not told at all.
const TOLD_MAX: usize = 256;

const FORBIDDEN: &str = "Blocked by a plugin.";

pub struct PluginHooks {
    host: Host,
    running: Mutex<HashMap<(String, String), Running>>,
    told: Arc<Semaphore>,
}

type Running = Shared<BoxFuture<'static, Result<(), String>>>;

impl PluginHooks {
    pub fn new(host: Host) -> Self {
        Self { host, running: Mutex::default(), told: Arc::new(Semaphore::new(TOLD_MAX)) }
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
            self.tell_later(HookRun { scope: Scope::default(), event, name, key, facts });
        }
    }

    fn of_call(&self, hook: &Hook, call: &Call, extra: Map<String, Value>) -> HookRun {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let turn = call.key.rsplit('/').nth(2).unwrap_or_default();
        let mut facts: BTreeMap<String, Value> = extra.into_iter().collect();
        let args = if arguments.is_object() { arguments } else { json!({}) };
        for (name, value) in [
            ("tool_name", json!(call.name)),
            ("args", args),
            ("session_id", json!(call.caller.session.as_str())),
            ("task_id", json!("")),
            ("tool_call_id", json!(call.key)),
            ("turn_id", json!(turn)),
        ] {
            facts.insert(name.to_owned(), value);
        }
        let key = format!("{}/{}", call.key, hook.event);
        HookRun {
            scope: of_caller(&call.caller),
            event: hook.event.clone(),
            name: hook.name.clone(),
            key,
            facts,
        }
    }

    fn tell_later(&self, run: HookRun) {
        let Ok(permit) = self.told.clone().try_acquire_owned() else {
            tracing::warn!(hook = run.name, "a plugin is told too much at once; this hook was not told");
            return;
        };
        let host = self.host.clone();
        tokio::spawn(async move {
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
    ["pre_tool_call", "post_tool_call", STARTED].contains(&event)
        || all.into_iter().any(|occasion| hears(event, occasion))
}

/// What it is called where it happened: an order has a name of its own.
fn event_of(hook: &Hook, happening: &Happening) -> Option<String> {
    let fact = |wanted: &str| happening.facts.iter().find(|(name, _)| *name == wanted).map(|(_, fact)| fact);
    match (happening.occasion, hook.event.as_str()) {
        (Occasion::Ordered, wanted) => {
            let Some(Fact::Text(name)) = fact("command") else { return None };
            let event = format!("{ORDERED}{name}");
            (wanted == event || wanted == "command:*").then_some(event)
        }
        // Hermes tells it of answers only.
        (Occasion::TurnEnded, AFTER_MODEL) if fact("completed") != Some(&Fact::Flag(true)) => None,
        (_, event) => Some(event.to_owned()),
    }
}

fn named(host: &Host, hook: &Hook) -> String {
    format!("plugin {}: {}: {}", host.name(), hook.event, hook.name)
}

/// None: this one is not for it.
fn run_of(hook: &Hook, happening: &Happening) -> Option<HookRun> {
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
    Some(HookRun {
        scope: Scope { platform: happening.source.clone(), ..of_session(&happening.session) },
        event: event_of(hook, happening)?,
        name: hook.name.clone(),
        key: happening.key.clone(),
        facts: [("session_id", json!(happening.session.as_str())), ("platform", json!(happening.source))]
            .into_iter()
            .chain(absent.iter().map(|name| (*name, json!([]))))
            .chain(happening.facts.iter().map(|(name, fact)| (*name, value(fact))))
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    })
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
            for hook in self.of(|event| event == "pre_tool_call") {
                let run = self.of_call(&hook, call, Map::new());
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
            self.tell_later(self.of_call(&hook, call, extra.clone()));
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
            let Some(run) = hook.and_then(|hook| run_of(&hook, happening)) else {
                return Ok(()); // nobody wants to know any more
            };
            let place = (name.to_owned(), happening.key.clone());
            let running = {
                let mut all = self.running.lock().unwrap_or_else(PoisonError::into_inner);
                let begin = || {
                    let host = self.host.clone();
                    let task = tokio::spawn(async move { told(&host, &run).await });
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
        hooks.iter().filter_map(|hook| run_of(hook, &happening)).for_each(|run| self.tell_later(run));
    }
}
