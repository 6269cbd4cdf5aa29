//! The list of tools that a request to the model carries: the agent's own, and those that the client of its API runs.
//!
//! A turn and the review that begins with its bytes make the list here, so that it is the same list.

use serde_json::Value;
use throughline_core::JsonText;
use throughline_core::input::ClientTools;
use throughline_core::tool::Offer;

/// Of two tools with one name the client's counts.
pub(crate) fn with_client_tools(own: Option<&Offer>, theirs: &ClientTools) -> Offer {
    let list = |text: &str| match serde_json::from_str(text) {
        Ok(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let is_theirs = |name: &str| theirs.names.iter().any(|theirs| theirs == name);
    let mut all = own.map(|own| list(own.list.as_str())).unwrap_or_default();
    all.retain(|tool| !tool["function"]["name"].as_str().is_some_and(is_theirs));
    all.extend(list(theirs.list.as_str()));
    let own = own.iter().flat_map(|own| &own.names).filter(|name| !is_theirs(name));
    Offer {
        list: JsonText::from_valid(Value::Array(all).to_string()),
        names: own.chain(&theirs.names).cloned().collect(),
    }
}
