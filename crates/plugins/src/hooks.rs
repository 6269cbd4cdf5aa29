//! A plugin that is told of things, and asked whether a call may be.
//!
//! - one that may forbid a call and cannot be asked forbids it
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
use throughline_hermes::config::hooks::event_of;
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

    fn of_events(&self, events: &[&str]) -> Vec<Hook> {
        let Some(abilities) = self.host.abilities() else { return Vec::new() };
        abilities.hooks.iter().filter(|hook| events.contains(&hook.event.as_str())).cloned().collect()
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
        self.of_events(&events_of(occasion)).into_iter().find(|hook| named(&self.host, hook) == name)
    }
}

async fn told(host: &Host, run: &HookRun) -> Result<(), String> {
    let told = host.ask::<_, IgnoredAny>(method::HOOK, run, host.deadlines().hook).await;
    told.map(drop).map_err(|error| error.to_string())
}

/// What Hermes calls an occasion: to its plugins, and to the hooks of its gateway.
fn events_of(occasion: Occasion) -> [&'static str; 2] {
    let gateway = match occasion {
        Occasion::Begun => "session:start",
        Occasion::TurnBegan => "agent:start",
        Occasion::TurnEnded => "agent:end",
        Occasion::Finalised => "session:end",
        Occasion::Reset => "session:reset",
        Occasion::HelperStopped => "subagent_stop",
    };
    [event_of(occasion), gateway]
}

/// Whether anything of that name ever happens here.
pub fn happens(event: &str) -> bool {
    let all = [
        Occasion::Begun,
        Occasion::TurnBegan,
        Occasion::TurnEnded,
        Occasion::Finalised,
        Occasion::Reset,
        Occasion::HelperStopped,
    ];
    ["pre_tool_call", "post_tool_call"].contains(&event)
        || all.into_iter().flat_map(events_of).any(|known| known == event)
}

fn named(host: &Host, hook: &Hook) -> String {
    format!("plugin {}: {}: {}", host.name(), hook.event, hook.name)
}

fn run_of(hook: &Hook, happening: &Happening) -> HookRun {
    let value = |fact: &Fact| match fact {
        Fact::Text(text) => json!(text),
        Fact::Number(number) => json!(number),
        Fact::Flag(flag) => json!(flag),
        Fact::Nothing => Value::Null,
    };
    HookRun {
        scope: Scope { platform: happening.source.clone(), ..of_session(&happening.session) },
        event: hook.event.clone(),
        name: hook.name.clone(),
        key: happening.key.clone(),
        facts: [("session_id", json!(happening.session.as_str())), ("platform", json!(happening.source))]
            .into_iter()
            .chain(happening.facts.iter().map(|(name, fact)| (*name, value(fact))))
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }
}

impl Witness for PluginHooks {
    fn forbids<'a>(&'a self, call: &'a Call) -> Promise<'a, Option<String>> {
        Box::pin(async move {
            for hook in self.of_events(&["pre_tool_call"]) {
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
        let hooks = self.of_events(&["post_tool_call"]);
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
        self.of_events(&events_of(occasion)).iter().map(|hook| named(&self.host, hook)).collect()
    }

    fn run<'a>(&'a self, name: &'a str, happening: &'a Happening) -> Promise<'a, Result<(), String>> {
        Box::pin(async move {
            let Some(hook) = self.named(name, happening.occasion) else {
                return Ok(()); // nobody wants to know any more
            };
            let place = (name.to_owned(), happening.key.clone());
            let running = {
                let mut all = self.running.lock().unwrap_or_else(PoisonError::into_inner);
                let begin = || {
                    let (host, run) = (self.host.clone(), run_of(&hook, happening));
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
        for hook in self.of_events(&events_of(happening.occasion)) {
            self.tell_later(run_of(&hook, &happening));
        }
    }
}
