//! The `input` of a response: a text, or a list of items in which calls and results stand alone.

use crate::client_conversation::{ClientConversation, ConversationReader};
use crate::error::ApiError;
use crate::message_content::{RequestPosition, needed_text, text_only};
use crate::request_body::wrong_type;
use serde_json::{Map, Value};
use throughline_core::message::{Content, ToolCall, ToolResult};

/// `instructions` are a system layer before all others.
pub fn conversation(
    input: Option<Value>,
    instructions: Option<String>,
) -> Result<ClientConversation, ApiError> {
    let mut said = ConversationReader::new(1);
    if let Some(instructions) = instructions {
        said.system(instructions)?;
    }
    match input {
        None => return Err(ApiError::invalid("input", "input must not be empty.")),
        Some(Value::String(text)) => said.user(RequestPosition { list: "input", index: 0 }, text),
        Some(Value::Array(items)) => {
            for (index, item) in items.into_iter().enumerate() {
                take(&mut said, RequestPosition { list: "input", index }, item)?;
            }
        }
        Some(other) => return Err(wrong_type("input", "a string or an array of items", &other)),
    }
    said.finish()
}

fn take(said: &mut ConversationReader, at: RequestPosition, item: Value) -> Result<(), ApiError> {
    let mut fields = match item {
        Value::String(text) => {
            said.user(at, text);
            return Ok(());
        }
        Value::Object(fields) => fields,
        other => return Err(wrong_type(&at.to_string(), "an item", &other)),
    };
    match fields.get("type").and_then(Value::as_str) {
        None | Some("message") => said.message(at, fields),
        Some("function_call") => {
            said.call(at, call(&mut fields, at)?);
            Ok(())
        }
        Some("function_call_output") => {
            let call_id = needed_text(&mut fields, "call_id", at)?;
            let content = Content::Text(text_only(fields.remove("output"), "output", at)?);
            said.result(at, ToolResult { call_id, name: None, content });
            Ok(())
        }
        Some("reasoning") => Ok(()), // the model's own notes: a client hands them back, and they are not needed
        Some(other) => {
            let message = format!(
                "{at} is an item of type {other:?}; message, function_call, function_call_output and reasoning \
                 can be understood."
            );
            Err(ApiError::invalid(at.field("type"), message).code("unsupported_item"))
        }
    }
}

fn call(fields: &mut Map<String, Value>, at: RequestPosition) -> Result<ToolCall, ApiError> {
    Ok(ToolCall {
        id: needed_text(fields, "call_id", at)?,
        name: needed_text(fields, "name", at)?,
        arguments: needed_text(fields, "arguments", at)?,
        extra: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use throughline_core::Time;
    use throughline_core::message::Message;

    #[test]
    fn a_responses_own_output_is_good_input() {
        let input = json!([
            {"role": "user", "content": "hi"},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "1"},
            {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "2"}]},
            {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
             "content": [{"type": "output_text", "text": "Hello!", "annotations": []}]},
            "and now?",
        ]);
        let conversation = conversation(Some(input), Some("Be brief.".into())).unwrap();
        assert_eq!(conversation.system.as_deref(), Some("Be brief."));
        let crate::client_conversation::NewInput { imported: earlier, content: input, .. } =
            conversation.import(Time(0)).unwrap();
        assert_eq!(input, Content::text("and now?"));
        let roles: Vec<_> = earlier.iter().map(Message::role).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant"]);
        assert_eq!(earlier[1].calls().len(), 2);
    }

    #[test]
    fn items_nobody_understands_are_named() {
        for (input, words) in [
            (json!(null), "input must not be empty."),
            (json!(4), "input must be a string or an array of items, not a number."),
            (json!([4]), "input[0] must be an item, not a number."),
            (json!([]), "There is no message from the user."),
            (
                json!([{"type": "item_reference", "id": "x"}]),
                "input[0] is an item of type \"item_reference\"",
            ),
            (json!([{"type": "function_call", "call_id": "a"}]), "input[0] needs a name."),
        ] {
            let input = Some(input).filter(|input| !input.is_null());
            let error = conversation(input, None).unwrap_err();
            assert!(error.message().starts_with(words), "{}", error.message());
        }
    }
}
