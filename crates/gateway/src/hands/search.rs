//! `session_search`: what was said before, in the caller's own conversations.

use super::{error, spec as of};
use crate::agent::Home;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use throughline_core::tool::{Call, Returned, Spec};

pub const NAME: &str = "session_search";

pub fn spec() -> Spec {
    of(
        NAME,
        "session_search",
        "Look through earlier conversations.",
        json!({"type": "object", "properties": {}, "required": []}),
    )
}

pub async fn run(_home: &Arc<Home>, _call: &Call, _arguments: &Map<String, Value>) -> Returned {
    error("not yet")
}
