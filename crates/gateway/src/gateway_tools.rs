//! Tools that act on the gateway itself: ask the user, write to another chat or agent, have another
//! session do a task, look through what was said.
//!
//! None of them repeats anything: what is to be sent leaves with the commit of the result, a task
//! is a message with a key, and asking and looking change nothing. So each may be run again after a
//! crash, and goes on where it was.
//!
//! Deliberately absent: writing into another session. A session hears of things through its inbox.

mod clarify;
pub(crate) mod delegate;
pub(crate) mod search;
mod send;

use crate::agent::Home;
use crate::bridge::Agents;
use crate::scope;
use serde_json::{Map, Value, json};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use throughline_core::memory::Scope;
use throughline_core::port::Promise;
use throughline_core::tool::{Call, Caller, Kit, Returned, Spec};
use throughline_core::{JsonText, SessionId};

/// The chat that a platform's messages without a chat go to, and its thread: asked each time, because `/sethome`
/// may change it.
pub type HomeChannels = Arc<dyn Fn(&str) -> Option<(String, Option<String>)> + Send + Sync>;

/// The chats that are known by name, as far as a caller may know of them.
pub trait AddressBook: Send + Sync {
    /// All of them, as the model reads them. None: there is none.
    fn list(&self, caller: &Caller) -> Option<String>;
    /// The id of a chat, or `chat:thread`.
    fn find(&self, caller: &Caller, platform: &str, name: &str) -> Option<String>;
}

#[derive(Clone, Debug)]
pub struct HandsSettings {
    /// How long a question to the user waits for its answer.
    pub clarify_patience: Duration,
    pub delegation: Delegation,
}

#[derive(Clone, Debug)]
pub struct Delegation {
    pub steps_max: u32,
    /// How many tasks one call may begin.
    pub children_max: usize,
    /// How deep tasks may nest. 1: a child has none of its own.
    pub depth_max: u32,
}

impl Default for HandsSettings {
    fn default() -> Self {
        Self { clarify_patience: Duration::from_secs(3600), delegation: Delegation::default() }
    }
}

impl Default for Delegation {
    fn default() -> Self {
        Self { steps_max: 50, children_max: 3, depth_max: 1 }
    }
}

#[derive(Default)]
pub struct GatewayTools {
    home: OnceLock<Weak<Home>>,
    pub(crate) agents: Arc<Agents>,
    settings: HandsSettings,
    home_channels: Option<HomeChannels>,
    addresses: Option<Arc<dyn AddressBook>>,
}

impl GatewayTools {
    pub fn new(settings: HandsSettings, agents: Arc<Agents>) -> Self {
        Self { home: OnceLock::new(), agents, settings, home_channels: None, addresses: None }
    }

    /// With chats that messages go to which name none.
    pub fn at_home(self, home_channels: HomeChannels) -> Self {
        Self { home_channels: Some(home_channels), ..self }
    }

    pub fn knowing(self, addresses: Arc<dyn AddressBook>) -> Self {
        Self { addresses: Some(addresses), ..self }
    }

    pub(crate) fn belong_to(&self, home: &Arc<Home>) {
        let _ = self.home.set(Arc::downgrade(home));
    }

    /// On whose behalf a call is made, for tools that act elsewhere. An error is what the model reads.
    pub async fn scope_of(&self, caller: &Caller) -> Result<Scope, Returned> {
        let Some(home) = self.home.get().and_then(Weak::upgrade) else {
            return Err(error("The gateway is stopping."));
        };
        scope::of_caller(&home, caller).await.map_err(|why| {
            tracing::warn!(%why, "could not find out on whose behalf a tool is called");
            error("The store cannot be read. Try again later.")
        })
    }

    /// The same of a session, for a listener that hears of it. `successor`: what goes on in its place, if it has ended.
    pub async fn scope_of_session(
        &self,
        session: &SessionId,
        successor: Option<&SessionId>,
    ) -> Option<Scope> {
        let home = self.home.get().and_then(Weak::upgrade)?;
        scope::of_ended(&home, session, successor)
            .await
            .inspect_err(|why| tracing::warn!(%why, "could not find out on whose behalf a hook is told"))
            .ok()
    }

    async fn run(&self, call: &Call) -> Returned {
        let Some(home) = self.home.get().and_then(Weak::upgrade) else {
            return error("The gateway is stopping.");
        };
        let arguments = match serde_json::from_str(&call.arguments) {
            Ok(Value::Object(arguments)) => arguments,
            Ok(_) => return error("The arguments must be a JSON object."),
            Err(_) if call.arguments.trim().is_empty() => Map::new(),
            Err(why) => return error(&format!("The arguments are not JSON: {why}")),
        };
        match call.name.as_str() {
            clarify::NAME => clarify::run(&self.settings, &arguments),
            send::NAME => {
                let home_channel = |platform: &str| self.home_channels.as_ref()?(platform);
                let around = send::Around {
                    home: &home,
                    agents: &self.agents,
                    home_channel: &home_channel,
                    addresses: self.addresses.as_deref(),
                };
                around.run(call, &arguments).await
            }
            delegate::NAME => delegate::run(&home, &self.settings.delegation, call, &arguments).await,
            search::NAME => search::run(&home, call, &arguments).await,
            other => error(&format!("Unknown tool: {other}")),
        }
    }
}

impl Kit for GatewayTools {
    fn specs(&self) -> Vec<Spec> {
        vec![search::spec(), clarify::spec(), send::spec(), delegate::spec(&self.settings.delegation)]
    }

    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned> {
        Box::pin(self.run(call))
    }
}

fn spec(name: &str, toolset: &str, description: &str, parameters: Value) -> Spec {
    Spec {
        name: name.to_owned(),
        toolset: toolset.to_owned(),
        description: description.to_owned(),
        parameters: JsonText::from_valid(parameters.to_string()),
        repeatable: true,
    }
}

fn error(message: &str) -> Returned {
    Returned::text(json!({ "error": message }).to_string())
}

/// A text argument; an empty one counts as none.
fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}
