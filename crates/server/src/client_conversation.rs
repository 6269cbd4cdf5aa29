//! A conversation as its client tells it: a system layer, what was said before, and the new input.

use crate::error::ApiError;
use crate::message_content::{self, RequestPosition, needed_text};
use crate::request_body::wrong_type;
use serde_json::{Map, Value};
use std::collections::HashSet;
use throughline_core::Time;
use throughline_core::history::{self, ById};
use throughline_core::message::{Assistant, Body, Content, Message, Part, Reasoning, ToolCall, ToolResult};
use throughline_core::prompt::Digest;
use throughline_core::route::{Thread, with_calls};

#[derive(Debug)]
pub struct ClientConversation {
    pub system: Option<String>,
    earlier: Vec<Message>,
    /// What the client's tools returned since.
    results: Vec<ToolResult>,
    /// Nothing, where results are all that is new.
    pub input: Content,
    /// The first tool group that is not closed, in words.
    broken: Option<ApiError>,
}

/// Where a client's view of a conversation stands, before and with the new input.
pub struct ThreadPosition {
    /// None if nothing was said before.
    pub before: Option<Digest>,
    pub with_input: Digest,
}

impl ClientConversation {
    /// `messages` of a chat completion.
    pub fn from_messages(messages: Option<Value>) -> Result<Self, ApiError> {
        let messages = match messages {
            Some(Value::Array(messages)) if !messages.is_empty() => messages,
            Some(Value::Array(_)) | None => {
                return Err(ApiError::invalid("messages", "messages must not be empty."));
            }
            Some(other) => return Err(wrong_type("messages", "an array of messages", &other)),
        };
        let mut said = ConversationReader::new(messages.len());
        for (index, message) in messages.into_iter().enumerate() {
            let at = RequestPosition { list: "messages", index };
            match message {
                Value::Object(fields) => said.message(at, fields)?,
                other => return Err(wrong_type(&at.to_string(), "an object", &other)),
            }
        }
        said.finish()
    }

    /// The client's copy of the history, to begin a session with. Refused if a tool group is open.
    pub fn import(self, now: Time) -> Result<NewInput, ApiError> {
        match self.broken {
            Some(error) => Err(error),
            None => Ok(NewInput {
                imported: dated(with_results(self.earlier, &self.results), now),
                results: self.results,
                content: self.input,
            }),
        }
    }

    /// The same, for a session that most likely has a history of its own: what is open is closed,
    /// because a client that sends only its last few messages does no wrong there.
    pub fn import_repaired(self, now: Time) -> NewInput {
        let earlier = with_results(self.earlier, &self.results);
        let earlier = match self.broken {
            None => earlier,
            Some(_) => history::legal(&earlier).into_iter().map(|message| message.into_owned()).collect(),
        };
        NewInput { imported: dated(earlier, now), results: self.results, content: self.input }
    }

    pub fn position(&self, principal: &str) -> ThreadPosition {
        let start = Thread::begin(principal, self.system.as_deref());
        let before = self.earlier.iter().fold(start, follow);
        let spoken = self.earlier.iter().any(|message| matches!(message.role(), "user" | "assistant"));
        let with_results =
            self.results.iter().fold(before, |thread, result| thread.then("tool", &result.content));
        let with_input = match &self.input {
            Content::Nothing => with_results,
            input => with_results.then("user", input),
        };
        ThreadPosition { before: spoken.then(|| before.digest()), with_input: with_input.digest() }
    }

    /// All of it as one input, if every message is from the user, or what its tools returned.
    pub fn into_only_input(self) -> Option<(Vec<ToolResult>, Content)> {
        if self.earlier.is_empty() {
            return Some((self.results, self.input));
        }
        if !self.results.is_empty() {
            return None;
        }
        let mut parts = Vec::new();
        for message in self.earlier {
            let Body::User(content) = message.body else { return None };
            parts.extend(into_parts(content));
        }
        parts.extend(into_parts(self.input));
        Some((Vec::new(), Content::Parts(parts)))
    }
}

/// What a client tells, as a session takes it.
#[derive(Debug)]
pub struct NewInput {
    /// For a session that begins with it.
    pub imported: Vec<Message>,
    pub results: Vec<ToolResult>,
    pub content: Content,
}

fn with_results(mut earlier: Vec<Message>, results: &[ToolResult]) -> Vec<Message> {
    earlier.extend(results.iter().cloned().map(|result| Message::new(Time(0), Body::Result(result))));
    earlier
}

fn into_parts(content: Content) -> Vec<Part> {
    match content {
        Content::Nothing => vec![],
        Content::Text(text) => vec![Part::Text(text)],
        Content::Parts(parts) => parts,
        Content::Opaque(json) => vec![Part::Opaque(json)],
    }
}

/// One message further. Calls count too: they are part of what the client saw.
fn follow(thread: Thread, message: &Message) -> Thread {
    with_calls(thread.then(message.role(), message.content()), message.calls().iter())
}

/// The client does not say when a message was said; it was before now, and in this order.
fn dated(mut earlier: Vec<Message>, now: Time) -> Vec<Message> {
    let count = i64::try_from(earlier.len()).unwrap_or(i64::MAX);
    for (message, place) in earlier.iter_mut().zip(0..) {
        message.at = Time(now.0.saturating_sub(count - place));
    }
    earlier
}

/// Takes a conversation down, message by message.
pub struct ConversationReader {
    system: Option<String>,
    rows: Vec<(RequestPosition, Body)>,
}

impl ConversationReader {
    pub fn new(capacity: usize) -> Self {
        Self { system: None, rows: Vec::with_capacity(capacity) }
    }

    /// One message with a role, as both APIs spell it.
    pub fn message(&mut self, at: RequestPosition, mut fields: Map<String, Value>) -> Result<(), ApiError> {
        let role = needed_text(&mut fields, "role", at)?;
        let content = fields.remove("content");
        let body = match role.as_str() {
            "system" | "developer" => {
                return self.system(message_content::text_only(content, "content", at)?);
            }
            "user" => Body::User(spoken(content, at)?),
            "assistant" => Body::Assistant(assistant(content, fields, at)?),
            "tool" => Body::Result(ToolResult {
                call_id: needed_text(&mut fields, "tool_call_id", at)?,
                name: None,
                content: Content::Text(message_content::text_only(content, "content", at)?),
            }),
            _ => {
                let message = format!(
                    "{at} has the role {role:?}; roles are system, developer, user, assistant and tool."
                );
                return Err(ApiError::invalid(at.field("role"), message).code("invalid_role"));
            }
        };
        self.rows.push((at, body));
        Ok(())
    }

    /// Several layers are one, a line each, as in Hermes.
    pub fn system(&mut self, text: String) -> Result<(), ApiError> {
        match &mut self.system {
            Some(system) => {
                system.push('\n');
                system.push_str(&text);
            }
            None => self.system = Some(text),
        }
        Ok(())
    }

    pub fn user(&mut self, at: RequestPosition, text: String) {
        self.rows.push((at, Body::User(Content::Text(text))));
    }

    /// A call that stands alone joins the calls directly before it.
    pub fn call(&mut self, at: RequestPosition, call: ToolCall) {
        match self.rows.last_mut() {
            Some((_, Body::Assistant(assistant))) if !assistant.calls.is_empty() => {
                assistant.calls.push(call)
            }
            _ => {
                self.rows.push((at, Body::Assistant(Assistant { calls: vec![call], ..Assistant::default() })))
            }
        }
    }

    pub fn result(&mut self, at: RequestPosition, result: ToolResult) {
        self.rows.push((at, Body::Result(result)));
    }

    pub fn finish(mut self) -> Result<ClientConversation, ApiError> {
        let broken = self.broken_group();
        let (input, at) = match self.rows.pop() {
            Some((at, Body::User(content))) => (content, at),
            Some(last @ (at, Body::Result(_))) => {
                self.rows.push(last);
                (Content::Nothing, at)
            }
            Some((at, _)) => return Err(from_the_assistant(at)),
            None => return Err(ApiError::invalid("messages", "There is no message from the user.")),
        };
        let mut results = Vec::new();
        while let Some((_, body)) = self.rows.pop_if(|(_, body)| matches!(body, Body::Result(_))) {
            results.extend(match body {
                Body::Result(result) => Some(result),
                _ => None,
            });
        }
        results.reverse();
        let is_silent = results.is_empty() || input != Content::Nothing;
        let says_nothing =
            input.is_empty() || matches!(&input, Content::Text(text) if text.trim().is_empty());
        if is_silent && says_nothing {
            return Err(ApiError::invalid(
                at.field("content"),
                format!("{at} is the new message, and says nothing."),
            ));
        }
        let earlier = self.rows.into_iter().map(|(_, body)| Message::new(Time(0), body)).collect();
        Ok(ClientConversation { system: self.system, earlier, results, input, broken })
    }

    /// Every provider refuses a call without its result right after it, and a result without its call.
    fn broken_group(&self) -> Option<ApiError> {
        let mut open = ById::default();
        for (at, body) in &self.rows {
            if let Body::Result(result) = body {
                if open.take(&result.call_id).is_none() {
                    let message = format!(
                        "{at} is the result of the call {:?}, which no message directly before it makes.",
                        result.call_id
                    );
                    return Some(
                        ApiError::invalid(at.field("tool_call_id"), message).code("broken_tool_pair"),
                    );
                }
                continue;
            }
            if !open.is_empty() {
                break;
            }
            if let Body::Assistant(assistant) = body {
                assistant.calls.iter().for_each(|call| open.add(&call.id, *at));
            }
        }
        open.into_order().first().map(|(id, at)| {
            let message = format!(
                "{at} makes the call {id:?}, and the messages directly after it hold no result of it."
            );
            ApiError::invalid(at.field("tool_calls"), message).code("broken_tool_pair")
        })
    }
}

fn from_the_assistant(at: RequestPosition) -> ApiError {
    let message =
        format!("The last message must be from the user, or a tool's result; {at} is from the assistant.");
    ApiError::invalid(at.field("role"), message).code("invalid_last_message")
}

fn spoken(content: Option<Value>, at: RequestPosition) -> Result<Content, ApiError> {
    match message_content::parse(content, "content", at)? {
        Content::Nothing => Err(ApiError::invalid(at.field("content"), format!("{at} needs content."))),
        content => Ok(content),
    }
}

fn assistant(
    content: Option<Value>,
    mut fields: Map<String, Value>,
    at: RequestPosition,
) -> Result<Assistant, ApiError> {
    let mut content = message_content::parse(content, "content", at)?;
    if let (Content::Nothing, Some(Value::String(refusal))) = (&content, fields.remove("refusal")) {
        content = Content::Text(refusal);
    }
    let thought = match fields.remove("reasoning_content") {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    Ok(Assistant {
        content,
        calls: calls(fields.remove("tool_calls"), at)?,
        finish: None,
        reasoning: Reasoning { content: thought, ..Reasoning::default() },
    })
}

fn calls(value: Option<Value>, at: RequestPosition) -> Result<Vec<ToolCall>, ApiError> {
    let items = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(wrong_type(&at.field("tool_calls"), "an array of calls", &other)),
    };
    let mut calls: Vec<ToolCall> = Vec::with_capacity(items.len());
    let mut ids = HashSet::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let broken = |what: &str| {
            let param = format!("{at}.tool_calls[{index}]");
            ApiError::invalid(param.clone(), format!("{param} {what}.")).code("broken_tool_call")
        };
        let call =
            call(item).ok_or_else(|| broken("must have an id and a function with name and arguments"))?;
        if !ids.insert(call.id.clone()) {
            return Err(broken("has the id of a call before it"));
        }
        calls.push(call);
    }
    Ok(calls)
}

fn call(item: Value) -> Option<ToolCall> {
    let Value::Object(mut fields) = item else { return None };
    let Some(Value::String(id)) = fields.remove("id") else { return None };
    let Some(Value::Object(mut function)) = fields.remove("function") else { return None };
    let Some(Value::String(name)) = function.remove("name") else { return None };
    let Some(Value::String(arguments)) = function.remove("arguments") else { return None };
    Some(ToolCall { id, name, arguments, extra: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use throughline_core::route::resume;

    fn parse(messages: Value) -> Result<ClientConversation, ApiError> {
        ClientConversation::from_messages(Some(messages))
    }

    fn group(ids: &[&str]) -> Value {
        let calls: Vec<_> = ids
            .iter()
            .map(|id| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}))
            .collect();
        json!({"role": "assistant", "content": null, "tool_calls": calls})
    }

    fn result(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": "done"})
    }

    #[test]
    fn a_conversation_is_a_layer_a_history_and_an_input() {
        let conversation = parse(json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
            group(&["a", "b"]),
            result("b"),
            result("a"),
            {"role": "assistant", "content": "Hello!", "reasoning_content": "greet"},
            {"role": "developer", "content": [{"type": "text", "text": "In English."}]},
            {"role": "user", "content": "bye"},
        ]))
        .unwrap();
        assert_eq!(conversation.system.as_deref(), Some("Be brief.\nIn English."));
        let NewInput { imported: earlier, content: input, results } = conversation.import(Time(100)).unwrap();
        assert!(results.is_empty());
        assert_eq!(input, Content::text("bye"));
        let roles: Vec<_> = earlier.iter().map(Message::role).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant"]);
        let times: Vec<_> = earlier.iter().map(|message| message.at.0).collect();
        assert_eq!(times, [95, 96, 97, 98, 99]);
    }

    #[test]
    fn whatever_is_wrong_is_named_by_its_place() {
        let user = json!({"role": "user", "content": "x"});
        for (messages, words) in [
            (json!([]), "messages must not be empty."),
            (json!("hi"), "messages must be an array of messages, not a string."),
            (json!(["hi"]), "messages[0] must be an object, not a string."),
            (json!([{"content": "x"}]), "messages[0] needs a role."),
            (json!([{"role": 1}]), "messages[0].role must be a string, not a number."),
            (
                json!([{"role": "narrator", "content": "x"}]),
                "messages[0] has the role \"narrator\"; roles are system, developer, user, assistant and tool.",
            ),
            (json!([{"role": "system", "content": "x"}]), "There is no message from the user."),
            (json!([{"role": "user"}]), "messages[0] needs content."),
            (
                json!([{"role": "user", "content": " \n"}]),
                "messages[0] is the new message, and says nothing.",
            ),
            (
                json!([user, {"role": "assistant", "content": "y"}]),
                "The last message must be from the user, or a tool's result; messages[1] is from the assistant.",
            ),
            (json!([user, {"role": "tool", "content": "y"}, user]), "messages[1] needs a tool_call_id."),
            (
                json!([user, {"role": "assistant", "tool_calls": [{"id": "a"}]}, user]),
                "messages[1].tool_calls[0] must have an id and a function with name and arguments.",
            ),
            (
                json!([user, group(&["a", "a"]), user]),
                "messages[1].tool_calls[1] has the id of a call before it.",
            ),
            (
                json!([user, {"role": "assistant", "tool_calls": {}}, user]),
                "messages[1].tool_calls must be an array of calls, not an object.",
            ),
        ] {
            assert_eq!(parse(messages.clone()).unwrap_err().message(), words, "{messages}");
        }
    }

    #[test]
    fn p13_what_a_clients_tools_returned_goes_on_where_the_calls_were_made() {
        let user = json!({"role": "user", "content": "x"});
        let asked = parse(json!([user])).unwrap().position("p").with_input;
        let seen = resume(asked, "assistant", &Content::Nothing);
        let call =
            |id: &str| ToolCall { id: id.into(), name: "f".into(), arguments: "{ }".into(), extra: None };
        let tip = with_calls(seen, [call("a"), call("b")].iter()).digest();
        for last in [None, Some(json!({"role": "user", "content": "and?"}))] {
            let mut messages = vec![user.clone(), group(&["a", "b"]), result("b"), result("a")];
            messages.extend(last.clone());
            let conversation = parse(json!(messages)).unwrap();
            assert_eq!(conversation.position("p").before, Some(tip));
            let told = conversation.import(Time(9)).unwrap();
            let ids: Vec<_> = told.results.iter().map(|result| result.call_id.as_str()).collect();
            assert_eq!(ids, ["b", "a"]);
            assert_eq!(told.content == Content::Nothing, last.is_none());
            assert_eq!(told.imported.len(), 4, "a session that begins with it has all of it");
        }
    }

    #[test]
    fn an_open_tool_group_is_refused_as_history_and_closed_where_history_is_kept() {
        let user = json!({"role": "user", "content": "x"});
        for (messages, words) in [
            (json!([user, group(&["a"]), user]), "messages[1] makes the call \"a\""),
            (json!([user, group(&["a", "b"]), result("a"), user]), "messages[1] makes the call \"b\""),
            (json!([user, result("a"), user]), "messages[1] is the result of the call \"a\""),
            (
                json!([user, group(&["a"]), result("a"), result("a"), user]),
                "messages[3] is the result of the call \"a\"",
            ),
            (json!([group(&["a"]), user, result("a"), user]), "messages[0] makes the call \"a\""),
        ] {
            let error = parse(messages.clone()).unwrap().import(Time(0)).unwrap_err();
            assert!(error.message().starts_with(words), "{messages}: {}", error.message());
            let told = parse(messages.clone()).unwrap().import_repaired(Time(0));
            assert_eq!(history::violations(&told.imported), [], "{messages}");
        }
    }

    #[test]
    fn what_the_client_saw_finds_the_turn_it_continues() {
        let first = parse(json!([{"role": "user", "content": "hi"}])).unwrap().position("p");
        assert!(first.before.is_none());
        let tip =
            throughline_core::route::resume(first.with_input, "assistant", &Content::text("Hello!")).digest();
        let next = |middle: Value| {
            parse(json!([{"role": "user", "content": [{"type": "text", "text": "hi"}]}, middle, {"role": "user", "content": "go on"}]))
                .unwrap()
                .position("p")
                .before
        };
        assert_eq!(next(json!({"role": "assistant", "content": "Hello!"})), Some(tip));
        assert_ne!(next(json!({"role": "assistant", "content": "Hello"})), Some(tip));
        let called = |id: &str| next_called(id);
        assert_ne!(called("a"), called("b"));
    }

    fn next_called(id: &str) -> Option<Digest> {
        let user = json!({"role": "user", "content": "x"});
        parse(json!([user, group(&[id]), {"role": "tool", "tool_call_id": id, "content": ""}, user]))
            .unwrap()
            .position("p")
            .before
    }
}
