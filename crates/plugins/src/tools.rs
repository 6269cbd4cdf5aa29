//! The tools of a plugin, among the agent's others.
//!
//! - they are listed in the order in which the plugin names them
//! - what goes wrong is a result like any other, for the model to read: `{"error": …}`
//! - a call that a person must agree to is made again once one has, and has done nothing before
//! - what can call tools by itself is not run while a guard of tools exists that would not hear of it
//!
//! Deliberately absent: who may call what, and which of two tools of one name counts.

use crate::host::Host;
use crate::protocol::{Consent, Scope, Tool, ToolCall, ToolResult, method};
use crate::scope::of_memory;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::memory;
use throughline_core::message::{Content, JsonText};
use throughline_core::port::Promise;
use throughline_core::tool::{Call, Caller, Done, Kit, Question, Returned, Spec};
use throughline_hermes::row::content_from_json;
use throughline_hermes::toolset::{MCP, is_toolset};

/// Finds out on whose behalf a call is made. An error is what the model reads.
pub type ScopeOf = Arc<dyn Fn(&Caller) -> Promise<'static, Result<memory::Scope, Returned>> + Send + Sync>;

/// What becomes of a call that a plugin wants a person to agree to.
pub enum Leave {
    /// A person has agreed, or the call needs no consent.
    Given,
    Ask {
        question: Question,
        patience: Duration,
    },
    /// What the model reads instead.
    Refused(String),
}

pub type Judge = Arc<dyn Fn(&Call, &Consent) -> Leave + Send + Sync>;

/// Who decides about tools and would not hear of those that this plugin's tools call by themselves: in a few words.
pub type Guard = Arc<dyn Fn() -> Option<String> + Send + Sync>;

pub struct PluginKit {
    host: Host,
    scope_of: ScopeOf,
    judge: Option<Judge>,
    guard: Option<Guard>,
}

impl PluginKit {
    pub fn new(host: Host, scope_of: ScopeOf) -> Self {
        Self { host, scope_of, judge: None, guard: None }
    }

    /// Without one, no person can be asked, and the plugin's own words are the result.
    #[must_use]
    pub fn judged_by(self, judge: Option<Judge>) -> Self {
        Self { judge, ..self }
    }

    #[must_use]
    pub fn guarded_by(self, guard: Guard) -> Self {
        Self { guard: Some(guard), ..self }
    }

    fn calls_tools(&self, name: &str) -> bool {
        let abilities = self.host.abilities();
        abilities.is_some_and(|known| known.tools.iter().any(|tool| tool.name == name && tool.calls_tools))
    }

    /// Asks the plugin, and the person whom it wants asked.
    async fn run(&self, scope: Scope, call: &Call) -> Returned {
        let done = |content| Returned::Done(Done { content, sends: Vec::new() });
        let question = question(scope, &call.key, &call.name, &call.arguments);
        let result = match answered(&self.host, &question).await {
            Ok(result) => result,
            Err(content) => return done(content),
        };
        let (Some(asked), Some(judge)) = (&result.ask, &self.judge) else {
            return done(content(result.content));
        };
        match judge(call, asked) {
            Leave::Given => {
                let agreed = ToolCall { consent: true, ..question };
                done(match answered(&self.host, &agreed).await {
                    Ok(result) => content(result.content),
                    Err(content) => content,
                })
            }
            Leave::Ask { question, patience } => Returned::Ask { question, patience },
            Leave::Refused(words) => Returned::text(words),
        }
    }
}

impl Kit for PluginKit {
    fn specs(&self) -> Vec<Spec> {
        self.host.abilities().map(|abilities| specs(&self.host, &abilities.tools)).unwrap_or_default()
    }

    fn revision(&self) -> u64 {
        self.host.revision()
    }

    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned> {
        Box::pin(async move {
            let scope = match (self.scope_of)(&call.caller).await {
                Ok(scope) => of_memory(&scope),
                Err(returned) => return returned,
            };
            let guard = self.guard.as_ref().filter(|_| self.calls_tools(&call.name));
            if let Some(who) = guard.and_then(|guard| guard()) {
                let name = &call.name;
                let error = format!(
                    "{name} was not run. What it runs can call other tools by itself, and {who}, which decides about \
                     tools, would not be asked about them. Call the tools themselves instead."
                );
                return Returned::text(json!({"error": error}).to_string());
            }
            self.run(scope, call).await
        })
    }
}

/// The name by which users switch a tool on and off: the plugin's own, unless it says otherwise.
pub fn toolset_of(host: &Host, tool: &Tool) -> String {
    tool.toolset.clone().unwrap_or_else(|| host.name().to_owned())
}

/// A toolset that Hermes knows is that one; any other is on where servers of the Model Context Protocol are.
fn group(toolset: &str) -> String {
    match is_toolset(toolset) {
        true => toolset.to_owned(),
        false => format!("{MCP}{toolset}"),
    }
}

pub(crate) fn specs(host: &Host, tools: &[Tool]) -> Vec<Spec> {
    let spec = |tool: &Tool| Spec {
        name: tool.name.clone(),
        toolset: group(&toolset_of(host, tool)),
        description: tool.description.clone(),
        parameters: JsonText::from_valid(match tool.parameters.is_object() {
            true => tool.parameters.to_string(),
            false => json!({"type": "object", "properties": {}}).to_string(),
        }),
        repeatable: tool.repeatable,
    };
    tools.iter().map(spec).collect()
}

pub(crate) async fn called(host: &Host, scope: Scope, key: &str, name: &str, arguments: &str) -> Content {
    match answered(host, &question(scope, key, name, arguments)).await {
        Ok(result) => content(result.content),
        Err(content) => content,
    }
}

fn question(scope: Scope, key: &str, name: &str, arguments: &str) -> ToolCall {
    let arguments = match serde_json::from_str::<Value>(arguments) {
        Ok(object @ Value::Object(_)) => object,
        _ if arguments.trim().is_empty() => json!({}),
        _ => Value::String(arguments.to_owned()),
    };
    ToolCall { scope, key: key.to_owned(), name: name.to_owned(), arguments, consent: false }
}

/// Or what the model reads instead.
async fn answered(host: &Host, call: &ToolCall) -> Result<ToolResult, Content> {
    let said = host.ask::<_, ToolResult>(method::TOOL, call, host.deadlines().tool).await;
    said.map_err(|error| Content::text(json!({"error": error.to_string()}).to_string()))
}

/// What a tool returned, as a result holds it.
fn content(value: Value) -> Content {
    match value {
        Value::String(text) => Content::Text(text),
        Value::Null => Content::text(""),
        list @ Value::Array(_) => content_from_json(&list.to_string()).unwrap_or_default(),
        other => Content::text(other.to_string()),
    }
}
