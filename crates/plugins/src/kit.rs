//! The tools of a plugin, among the agent's others.
//!
//! - they are listed in the order in which the plugin names them
//! - what goes wrong is a result like any other, for the model to read: `{"error": …}`
//!
//! Deliberately absent: who may call what, and which of two tools of one name counts.

use crate::host::Host;
use crate::protocol::{Scope, Tool, ToolCall, ToolResult, method};
use crate::scope::of_memory;
use serde_json::{Value, json};
use std::sync::Arc;
use throughline_core::memory;
use throughline_core::message::{Content, JsonText};
use throughline_core::port::Promise;
use throughline_core::tool::{Call, Caller, Done, Kit, Returned, Spec};
use throughline_hermes::row::content_from_json;
use throughline_hermes::toolset::{MCP, is_toolset};

/// Finds out on whose behalf a call is made. An error is what the model reads.
pub type ScopeOf = Arc<dyn Fn(&Caller) -> Promise<'static, Result<memory::Scope, Returned>> + Send + Sync>;

pub struct PluginKit {
    host: Host,
    scope_of: ScopeOf,
}

impl PluginKit {
    pub fn new(host: Host, scope_of: ScopeOf) -> Self {
        Self { host, scope_of }
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
            let content = called(&self.host, scope, &call.key, &call.name, &call.arguments).await;
            Returned::Done(Done { content, sends: Vec::new() })
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
    let arguments = match serde_json::from_str::<Value>(arguments) {
        Ok(object @ Value::Object(_)) => object,
        _ if arguments.trim().is_empty() => json!({}),
        _ => Value::String(arguments.to_owned()),
    };
    let call = ToolCall { scope, key: key.to_owned(), name: name.to_owned(), arguments };
    match host.ask::<_, ToolResult>(method::TOOL, &call, host.deadlines().tool).await {
        Ok(result) => content(result.content),
        Err(error) => Content::text(json!({"error": error.to_string()}).to_string()),
    }
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
