//! Tools that a client brings along: it runs them itself. Here they become what the model is told of, in the common form,
//! whichever API they came by.
//!
//! Deliberately absent: tools that OpenAI runs (`web_search`, `file_search` …). They are refused by name: the agent has
//! its own.

use crate::error::ApiError;
use crate::request_body::{RequestFields, wrong_type};
use serde_json::{Map, Value, json};
use throughline_core::JsonText;
use throughline_core::input::ClientTools;

/// As OpenAI.
const TOOLS_MAX: usize = 128;
const NAME_LENGTH_MAX: usize = 64;

/// How an API spells a tool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ToolFormat {
    /// `{"type": "function", "function": {"name": …}}`
    Chat,
    /// `{"type": "function", "name": …}`
    Responses,
}

/// What a request says about tools.
pub struct RequestTools {
    pub tools: Option<ClientTools>,
    /// Fields for the model.
    pub wishes: Map<String, Value>,
}

/// Takes `tools`, `tool_choice` and `parallel_tool_calls`.
pub fn take(fields: &mut RequestFields, spelling: ToolFormat) -> Result<RequestTools, ApiError> {
    let tools = match fields.take("tools") {
        None => None,
        Some(Value::Array(list)) if list.is_empty() => None,
        Some(Value::Array(list)) => Some(tools(list, spelling)?),
        Some(other) => return Err(wrong_type("tools", "an array of tools", &other)),
    };
    let mut wishes = Map::new();
    if let Some(choice) = fields.take("tool_choice") {
        wishes.insert("tool_choice".into(), choice_of(choice, tools.as_ref(), spelling)?);
    }
    match fields.take("parallel_tool_calls") {
        None => {}
        Some(parallel @ Value::Bool(_)) => {
            wishes.insert("parallel_tool_calls".into(), parallel);
        }
        Some(other) => return Err(wrong_type("parallel_tool_calls", "true or false", &other)),
    }
    Ok(RequestTools { tools, wishes })
}

fn tools(list: Vec<Value>, spelling: ToolFormat) -> Result<ClientTools, ApiError> {
    if list.len() > TOOLS_MAX {
        let message = format!("There are {} tools; {TOOLS_MAX} are the most there can be.", list.len());
        return Err(ApiError::invalid("tools", message).code("array_above_max_length"));
    }
    let mut names: Vec<String> = Vec::with_capacity(list.len());
    let mut common = Vec::with_capacity(list.len());
    for (index, tool) in list.into_iter().enumerate() {
        let at = format!("tools[{index}]");
        let function = function(tool, spelling, &at)?;
        let name = function["name"].as_str().unwrap_or_default().to_owned();
        if names.contains(&name) {
            let message = format!("{at} has the name {name:?} of a tool before it.");
            return Err(ApiError::invalid(at, message).code("duplicate_tool"));
        }
        names.push(name);
        common.push(json!({"type": "function", "function": function}));
    }
    Ok(ClientTools { list: JsonText::from_valid(Value::Array(common).to_string()), names })
}

/// Name, description, parameters and strictness of a tool.
fn function(tool: Value, spelling: ToolFormat, at: &str) -> Result<Map<String, Value>, ApiError> {
    let Value::Object(mut tool) = tool else { return Err(wrong_type(at, "an object", &tool)) };
    match tool.get("type").and_then(Value::as_str) {
        Some("function") => {}
        kind => {
            let message = format!(
                "{at} is of type {:?}. Only tools of type function can be brought along; the agent has its own beside them.",
                kind.unwrap_or_default()
            );
            return Err(ApiError::invalid(format!("{at}.type"), message).code("unsupported_tool"));
        }
    }
    let (mut written, at) = match (spelling, tool.remove("function")) {
        (ToolFormat::Chat, Some(Value::Object(function))) => (function, format!("{at}.function")),
        (ToolFormat::Chat, _) => return Err(ApiError::invalid(at, format!("{at} needs a function."))),
        (ToolFormat::Responses, _) => (tool, at.to_owned()),
    };
    let mut function = Map::new();
    let name = match written.remove("name") {
        Some(Value::String(name)) => name,
        _ => return Err(ApiError::invalid(at.clone(), format!("{at} needs a name."))),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > NAME_LENGTH_MAX || !name.chars().all(plain) {
        let message =
            format!("{at}.name must be 1 to {NAME_LENGTH_MAX} letters, digits, underscores or dashes.");
        return Err(ApiError::invalid(format!("{at}.name"), message).code("invalid_tool_name"));
    }
    function.insert("name".into(), name.into());
    match written.remove("description") {
        None | Some(Value::Null) => {}
        Some(text @ Value::String(_)) => {
            function.insert("description".into(), text);
        }
        Some(other) => return Err(wrong_type(&format!("{at}.description"), "a string", &other)),
    }
    let parameters = match written.remove("parameters") {
        None | Some(Value::Null) => json!({"type": "object", "properties": {}}),
        Some(schema @ Value::Object(_)) => schema,
        Some(other) => return Err(wrong_type(&format!("{at}.parameters"), "an object", &other)),
    };
    function.insert("parameters".into(), parameters);
    if let Some(strict @ Value::Bool(_)) = written.remove("strict") {
        function.insert("strict".into(), strict);
    }
    Ok(function)
}

fn choice_of(choice: Value, tools: Option<&ClientTools>, spelling: ToolFormat) -> Result<Value, ApiError> {
    let names = tools.map_or(&[] as &[String], |tools| &tools.names);
    match &choice {
        Value::String(word) if word == "auto" || word == "none" => return Ok(choice),
        Value::String(word) if word == "required" && !names.is_empty() => return Ok(choice),
        Value::String(word) if word == "required" => {
            let message = "tool_choice is required, and the request brings no tools along.";
            return Err(ApiError::invalid("tool_choice", message).code("invalid_value"));
        }
        _ => {}
    }
    let name = match (spelling, choice.get("type").and_then(Value::as_str)) {
        (ToolFormat::Chat, Some("function")) => choice["function"]["name"].as_str(),
        (ToolFormat::Responses, Some("function")) => choice["name"].as_str(),
        _ => {
            let message = "tool_choice can be none, auto, required, or the name of one tool.";
            return Err(ApiError::invalid("tool_choice", message).code("unsupported_value"));
        }
    };
    match name.filter(|name| names.iter().any(|known| known == name)) {
        Some(name) => Ok(json!({"type": "function", "function": {"name": name}})),
        None => {
            let message = format!(
                "tool_choice names {:?}, which is none of the request's tools.",
                name.unwrap_or_default()
            );
            Err(ApiError::invalid("tool_choice", message).code("invalid_value"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_body::parse;

    fn taken(body: &Value, spelling: ToolFormat) -> Result<RequestTools, ApiError> {
        take(&mut parse(body.to_string().as_bytes()).unwrap_or_else(|_| panic!()), spelling)
    }

    #[test]
    fn tools_of_both_apis_are_told_to_the_model_alike() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let chat = json!({
            "tools": [{"type": "function", "function": {"name": "weather", "description": "d", "parameters": schema, "strict": true}}],
            "tool_choice": {"type": "function", "function": {"name": "weather"}},
        });
        let responses = json!({
            "tools": [{"type": "function", "name": "weather", "description": "d", "parameters": schema, "strict": true}],
            "tool_choice": {"type": "function", "name": "weather"}, "parallel_tool_calls": false,
        });
        let (chat, responses) =
            (taken(&chat, ToolFormat::Chat).unwrap(), taken(&responses, ToolFormat::Responses).unwrap());
        assert_eq!(chat.tools, responses.tools);
        assert_eq!(chat.wishes["tool_choice"], responses.wishes["tool_choice"]);
        assert_eq!(responses.wishes["parallel_tool_calls"], false);
        assert_eq!(chat.tools.unwrap().names, ["weather"]);
        let bare =
            json!({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"});
        let bare = taken(&bare, ToolFormat::Chat).unwrap().tools.unwrap();
        assert!(
            bare.list.as_str().contains(r#""parameters":{"type":"object","properties":{}}"#),
            "{}",
            bare.list
        );
        assert!(
            taken(&json!({"tools": [], "tool_choice": "none"}), ToolFormat::Chat).unwrap().tools.is_none()
        );
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name() {
        let f = json!({"type": "function", "function": {"name": "f"}});
        for (body, param) in [
            (json!({"tools": {}}), "tools must be an array"),
            (json!({"tools": [1]}), "tools[0] must be an object"),
            (json!({"tools": [{"type": "web_search"}]}), "tools[0] is of type \"web_search\""),
            (json!({"tools": [{"type": "function"}]}), "tools[0] needs a function."),
            (
                json!({"tools": [{"type": "function", "function": {"name": "a b"}}]}),
                "tools[0].function.name must be",
            ),
            (json!({"tools": [f, f]}), "tools[1] has the name \"f\""),
            (
                json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": 1}}]}),
                "tools[0].function.parameters",
            ),
            (json!({"tools": [f], "tool_choice": "always"}), "tool_choice can be"),
            (json!({"tool_choice": "required"}), "tool_choice is required"),
            (
                json!({"tools": [f], "tool_choice": {"type": "function", "function": {"name": "g"}}}),
                "tool_choice names \"g\"",
            ),
            (json!({"parallel_tool_calls": 1}), "parallel_tool_calls must be"),
            (json!({"tools": vec![f.clone(); TOOLS_MAX + 1]}), "There are 129 tools"),
        ] {
            let error = taken(&body, ToolFormat::Chat).err().unwrap_or_else(|| panic!("{body}"));
            assert!(error.message().starts_with(param), "{body}: {}", error.message());
        }
    }
}
