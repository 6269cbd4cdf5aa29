//! An answer out of its chunks, as servers really send them: names in pieces or again and again,
//! ids missing or twice, thoughts in three fields, usage wherever it pleases.

use crate::exchange::{AnswerAssembly, AnswerStage, Deltas};
use crate::provider_error::{Complaint, ProviderError};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use throughline_core::message::{Assistant, Content, JsonText, Reasoning, ToolCall};
use throughline_core::port::Delta;
use throughline_core::turn::{Answer, Usage};
use throughline_net::ServerSentEvent;

#[derive(Default)]
pub(super) struct OpenAiDraft {
    text: String,
    /// The model's own words for why it will not.
    refusal: String,
    reasoning: String,
    /// The same, where it came under the name `reasoning_content`.
    reasoning_content: String,
    details: Vec<Value>,
    calls: Vec<CallDraft>,
    /// The last call of each index and of each id.
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
    finish: Option<String>,
    usage: Usage,
    model: Option<String>,
    closed: bool,
}

#[derive(Default)]
struct CallDraft {
    id: String,
    name: String,
    arguments: String,
    extra: Map<String, Value>,
}

impl AnswerAssembly for OpenAiDraft {
    fn event(&mut self, event: &ServerSentEvent, deltas: Deltas<'_>) -> Result<(), ProviderError> {
        match event.data.trim() {
            "" => return Ok(()),
            "[DONE]" => {
                self.closed = true;
                return Ok(());
            }
            _ => {}
        }
        let chunk: Value =
            serde_json::from_str(&event.data).map_err(|_| ProviderError::rubbish(&event.data))?;
        if event.name.as_deref() == Some("error") {
            return Err(ProviderError::Said(Complaint::from_value(&chunk)));
        }
        self.take(&chunk, deltas)
    }

    fn whole(&mut self, document: &Value, deltas: Deltas<'_>) -> Result<(), ProviderError> {
        self.take(document, deltas)?;
        if document.get("choices").and_then(Value::as_array).is_none() {
            return Err(ProviderError::neither(document));
        }
        self.closed = true;
        Ok(())
    }

    fn stage(&self) -> AnswerStage {
        match (self.closed, &self.finish) {
            (true, _) => AnswerStage::Closed,
            (false, Some(_)) => AnswerStage::Finished,
            (false, None) => AnswerStage::Open,
        }
    }
}

impl OpenAiDraft {
    fn take(&mut self, chunk: &Value, deltas: Deltas<'_>) -> Result<(), ProviderError> {
        let is_error = chunk.get("error").is_some_and(|error| !error.is_null());
        if is_error || chunk.get("object").and_then(Value::as_str) == Some("error") {
            return Err(ProviderError::Said(Complaint::from_value(chunk)));
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = usage_of(usage);
        }
        if let Some(model) = text(chunk, "model").filter(|model| !model.is_empty()) {
            self.model = Some(model.to_owned());
        }
        let Some(choice) = chunk.pointer("/choices/0") else { return Ok(()) };
        let said =
            [choice.get("delta"), choice.get("message")].into_iter().flatten().find(|said| said.is_object());
        if let Some(said) = said {
            self.hear(said, deltas);
        }
        if let Some(finish) = text(choice, "finish_reason").filter(|finish| !finish.is_empty()) {
            self.finish = Some(finish.to_owned());
        }
        Ok(())
    }

    fn hear(&mut self, said: &Value, deltas: Deltas<'_>) {
        self.think(said, deltas);
        for piece in texts(said.get("content")) {
            self.text.push_str(&piece);
            deltas(Delta::Text(piece));
        }
        self.refusal.push_str(text(said, "refusal").unwrap_or_default());
        for call in said.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(call);
        }
    }

    /// Routers send one thought under two names at once: it is heard once.
    fn think(&mut self, said: &Value, deltas: Deltas<'_>) {
        let content = text(said, "reasoning_content").unwrap_or_default();
        let plain = text(said, "reasoning").filter(|text| !text.is_empty());
        let details =
            said.get("reasoning_details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let detailed: String =
            details.iter().filter_map(|detail| text(detail, "text").or(text(detail, "summary"))).collect();
        self.reasoning_content.push_str(content);
        details.iter().for_each(|detail| self.detail(detail));
        let thought = plain.or(Some(content).filter(|text| !text.is_empty())).unwrap_or(&detailed);
        if !thought.is_empty() {
            self.reasoning.push_str(thought);
            deltas(Delta::Reasoning(thought.to_owned()));
        }
    }

    /// A piece of the block before it, or a block of its own.
    fn detail(&mut self, piece: &Value) {
        let is_text = matches!(text(piece, "type"), Some("reasoning.text" | "reasoning.summary"));
        let continues = |last: &Value| {
            is_text
                && last.get("type") == piece.get("type")
                && last.get("index") == piece.get("index")
                && last.get("signature").is_none_or(Value::is_null)
        };
        match self.details.last_mut() {
            Some(last) if continues(last) => join(last, piece),
            _ => self.details.push(piece.clone()),
        }
    }

    fn call(&mut self, piece: &Value) {
        let id = match piece.get("id") {
            Some(Value::String(id)) => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            _ => String::new(),
        };
        let function = piece.get("function").unwrap_or(&Value::Null);
        let name = text(function, "name").unwrap_or_default();
        let place = self.place(piece.get("index").and_then(Value::as_u64), &id, name);
        let call = &mut self.calls[place];
        if !id.is_empty() {
            let last = self.by_id.entry(id.clone()).or_insert(place);
            *last = place.max(*last);
            call.id = id;
        }
        // In pieces, or whole with every piece of the arguments.
        match name.strip_prefix(call.name.as_str()) {
            Some(_) => call.name = name.to_owned(),
            None => call.name.push_str(name),
        }
        match function.get("arguments") {
            Some(Value::String(arguments)) => call.arguments.push_str(arguments),
            Some(arguments @ Value::Object(_)) => call.arguments = arguments.to_string(),
            _ => {}
        }
        let beside = piece.as_object().into_iter().flatten();
        for (name, value) in
            beside.filter(|(name, _)| !matches!(name.as_str(), "id" | "type" | "function" | "index"))
        {
            call.extra.insert(name.clone(), value.clone());
        }
    }

    /// The call that a piece belongs to. An index may be missing, or the same for every call.
    fn place(&mut self, index: Option<u64>, id: &str, name: &str) -> usize {
        let is_other = |call: &CallDraft| !id.is_empty() && !call.id.is_empty() && call.id != id;
        let known = match (index, id) {
            (Some(index), _) => {
                self.by_index.get(&index).copied().filter(|place| !is_other(&self.calls[*place]))
            }
            (None, "") if name.is_empty() => self.calls.len().checked_sub(1),
            (None, "") => None,
            (None, id) => self.by_id.get(id).copied(),
        };
        known.unwrap_or_else(|| {
            if let Some(index) = index {
                self.by_index.insert(index, self.calls.len());
            }
            self.calls.push(CallDraft::default());
            self.calls.len() - 1
        })
    }

    /// `made_id` names the calls that the server did not.
    pub fn finish(self, asked: &str, made_id: impl Fn(usize) -> String) -> Result<Answer, ProviderError> {
        let finish = self.finish.as_deref().unwrap_or("stop");
        let text = if self.text.trim().is_empty() { self.refusal } else { self.text };
        if self.calls.is_empty() && text.trim().is_empty() {
            return Err(ProviderError::empty(finish, !self.reasoning.is_empty()));
        }
        let calls = finished_calls(self.calls, finish, made_id)?;
        let finish = if calls.is_empty() || finish == "length" { finish } else { "tool_calls" };
        let details =
            (!self.details.is_empty()).then(|| JsonText::from_valid(Value::Array(self.details).to_string()));
        let reasoning = Reasoning {
            text: Some(self.reasoning).filter(|text| !text.is_empty()),
            content: Some(self.reasoning_content).filter(|text| !text.is_empty()),
            details,
            ..Reasoning::default()
        };
        let content = if text.is_empty() { Content::Nothing } else { Content::Text(text) };
        let said = Assistant { content, calls, finish: Some(finish.to_owned()), reasoning };
        Ok(Answer { said, usage: self.usage, model: self.model.unwrap_or_else(|| asked.to_owned()) })
    }
}

fn finished_calls(
    calls: Vec<CallDraft>,
    finish: &str,
    made_id: impl Fn(usize) -> String,
) -> Result<Vec<ToolCall>, ProviderError> {
    let mut finished: Vec<ToolCall> = Vec::with_capacity(calls.len());
    let mut taken = HashSet::new();
    for (index, call) in calls.into_iter().enumerate() {
        if call.name.is_empty() {
            return Err(ProviderError::nameless_call());
        }
        if finish == "length" && serde_json::from_str::<Value>(&call.arguments).is_err() {
            return Err(ProviderError::cut_call());
        }
        let is_taken = call.id.is_empty() || taken.contains(&call.id);
        let id = if is_taken { made_id(index) } else { call.id };
        taken.insert(id.clone());
        let extra =
            (!call.extra.is_empty()).then(|| JsonText::from_valid(Value::Object(call.extra).to_string()));
        finished.push(ToolCall { id, name: call.name, arguments: call.arguments, extra });
    }
    Ok(finished)
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

/// A content is a text, or a list of parts of which some are texts.
fn texts(content: Option<&Value>) -> Vec<String> {
    let found: Vec<String> = match content {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| text(part, "text").map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    };
    found.into_iter().filter(|text| !text.is_empty()).collect()
}

/// Texts are continued; of everything else the latest word counts.
fn join(last: &mut Value, piece: &Value) {
    let (Some(last), Some(piece)) = (last.as_object_mut(), piece.as_object()) else { return };
    for (name, value) in piece {
        match (last.get_mut(name), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more))
                if matches!(name.as_str(), "text" | "summary") =>
            {
                text.push_str(more);
            }
            _ => {
                last.insert(name.clone(), value.clone());
            }
        }
    }
}

/// Providers count what was read from a cache into the prompt; we count it apart.
fn usage_of(usage: &Value) -> Usage {
    let count = |names: &[&str]| names.iter().find_map(|name| usage.pointer(name)?.as_u64()).unwrap_or(0);
    let prompt = count(&["/prompt_tokens"]);
    let cache_read =
        count(&["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cached_tokens"])
            .min(prompt);
    let cache_write = count(&["/prompt_tokens_details/cache_write_tokens"]).min(prompt - cache_read);
    Usage {
        input: prompt - cache_read - cache_write,
        output: count(&["/completion_tokens"]),
        cache_read,
        cache_write,
        reasoning: count(&["/completion_tokens_details/reasoning_tokens"]),
    }
}
