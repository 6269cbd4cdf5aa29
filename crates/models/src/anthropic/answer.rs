//! An answer out of its events. Blocks come one after another, each in pieces.

use crate::exchange::{AnswerAssembly, AnswerStage, Deltas};
use crate::provider_error::{Complaint, ProviderError};
use serde_json::{Value, json};
use std::collections::HashMap;
use throughline_core::message::{Assistant, Content, JsonText, Reasoning, ToolCall};
use throughline_core::port::Delta;
use throughline_core::turn::{Answer, Usage};
use throughline_net::ServerSentEvent;

#[derive(Default)]
pub(super) struct AnthropicDraft {
    blocks: Vec<AnswerBlock>,
    /// The last block of each index.
    by_index: HashMap<u64, usize>,
    stop: Option<String>,
    usage: Usage,
    model: Option<String>,
    closed: bool,
}

enum AnswerBlock {
    Text(String),
    Thinking {
        thinking: String,
        signature: String,
    },
    /// A thought that only its maker can read.
    Redacted(Value),
    Call {
        id: String,
        name: String,
        input: Value,
        json: String,
    },
    /// Something the provider did by itself.
    Other,
}

impl AnswerAssembly for AnthropicDraft {
    fn event(&mut self, event: &ServerSentEvent, deltas: Deltas<'_>) -> Result<(), ProviderError> {
        if event.data.trim().is_empty() {
            return Ok(());
        }
        let data: Value =
            serde_json::from_str(&event.data).map_err(|_| ProviderError::rubbish(&event.data))?;
        let kind = text(&data, "type").or(event.name.as_deref()).unwrap_or_default();
        let index = data.get("index").and_then(Value::as_u64).unwrap_or(0);
        match kind {
            "message_start" => self.begin(data.get("message").unwrap_or(&Value::Null)),
            "content_block_start" => {
                self.open(index, data.get("content_block").unwrap_or(&Value::Null), deltas)
            }
            "content_block_delta" => self.piece(index, data.get("delta").unwrap_or(&Value::Null), deltas),
            "message_delta" => {
                self.count(data.get("usage"));
                self.stop_at(data.pointer("/delta/stop_reason"));
            }
            "message_stop" => self.closed = true,
            "error" => return Err(ProviderError::Said(Complaint::from_value(&data))),
            _ => {} // `ping`, `content_block_stop`, and later kinds
        }
        Ok(())
    }

    fn whole(&mut self, document: &Value, deltas: Deltas<'_>) -> Result<(), ProviderError> {
        if text(document, "type") == Some("error")
            || document.get("error").is_some_and(|error| !error.is_null())
        {
            return Err(ProviderError::Said(Complaint::from_value(document)));
        }
        let Some(content) = document.get("content").and_then(Value::as_array) else {
            return Err(ProviderError::neither(document));
        };
        self.begin(document);
        self.stop = Some("end_turn".to_owned()); // a document is whole by being there
        self.stop_at(document.get("stop_reason"));
        for (index, block) in (0..).zip(content) {
            self.open(index, block, deltas);
        }
        self.closed = true;
        Ok(())
    }

    fn stage(&self) -> AnswerStage {
        match (self.closed, &self.stop) {
            (true, Some(_)) => AnswerStage::Closed,
            (false, Some(_)) => AnswerStage::Finished,
            // A stop without a reason: let the end of the stream decide that it was cut.
            (_, None) => AnswerStage::Open,
        }
    }
}

impl AnthropicDraft {
    fn begin(&mut self, message: &Value) {
        self.model = text(message, "model").filter(|model| !model.is_empty()).map(str::to_owned);
        self.count(message.get("usage"));
    }

    /// Later counts replace earlier ones; what is not counted again still holds.
    fn count(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let count =
            |slot: &mut u64, name: &str| *slot = usage.get(name).and_then(Value::as_u64).unwrap_or(*slot);
        count(&mut self.usage.input, "input_tokens");
        count(&mut self.usage.output, "output_tokens");
        count(&mut self.usage.cache_read, "cache_read_input_tokens");
        count(&mut self.usage.cache_write, "cache_creation_input_tokens");
    }

    fn stop_at(&mut self, reason: Option<&Value>) {
        if let Some(reason) = reason.and_then(Value::as_str) {
            self.stop = Some(reason.to_owned());
        }
    }

    fn open(&mut self, index: u64, block: &Value, deltas: Deltas<'_>) {
        let owned = |name: &str| text(block, name).unwrap_or_default().to_owned();
        let opened = match text(block, "type") {
            Some("text") => AnswerBlock::Text(String::new()),
            Some("thinking") => {
                AnswerBlock::Thinking { thinking: String::new(), signature: owned("signature") }
            }
            Some("redacted_thinking") => AnswerBlock::Redacted(block.clone()),
            Some("tool_use") => AnswerBlock::Call {
                id: owned("id"),
                name: owned("name"),
                input: block.get("input").cloned().unwrap_or(Value::Null),
                json: String::new(),
            },
            _ => AnswerBlock::Other,
        };
        self.by_index.insert(index, self.blocks.len());
        self.blocks.push(opened);
        self.say(index, &owned("text"), deltas);
        self.think(index, &owned("thinking"), deltas);
    }

    fn piece(&mut self, index: u64, delta: &Value, deltas: Deltas<'_>) {
        let piece = |name: &str| text(delta, name).unwrap_or_default();
        match text(delta, "type") {
            Some("text_delta") => self.say(index, piece("text"), deltas),
            Some("thinking_delta") => self.think(index, piece("thinking"), deltas),
            Some("signature_delta") => {
                if let Some(AnswerBlock::Thinking { signature, .. }) = self.block(index) {
                    signature.push_str(piece("signature"));
                }
            }
            Some("input_json_delta") => {
                if let Some(AnswerBlock::Call { json, .. }) = self.block(index) {
                    json.push_str(piece("partial_json"));
                }
            }
            _ => {}
        }
    }

    fn block(&mut self, index: u64) -> Option<&mut AnswerBlock> {
        self.by_index.get(&index).map(|place| &mut self.blocks[*place])
    }

    fn say(&mut self, index: u64, words: &str, deltas: Deltas<'_>) {
        if let Some(AnswerBlock::Text(text)) = self.block(index)
            && !words.is_empty()
        {
            text.push_str(words);
            deltas(Delta::Text(words.to_owned()));
        }
    }

    fn think(&mut self, index: u64, thought: &str, deltas: Deltas<'_>) {
        if let Some(AnswerBlock::Thinking { thinking, .. }) = self.block(index)
            && !thought.is_empty()
        {
            thinking.push_str(thought);
            deltas(Delta::Reasoning(thought.to_owned()));
        }
    }

    pub fn finish(self, asked: &str) -> Result<Answer, ProviderError> {
        let finish = finish_of(self.stop.as_deref().unwrap_or_default());
        let details = details(&self.blocks);
        let (mut words, mut thoughts, mut calls) = (String::new(), Vec::new(), Vec::new());
        for block in self.blocks {
            match block {
                AnswerBlock::Text(text) => words.push_str(&text),
                AnswerBlock::Thinking { thinking, .. } if !thinking.is_empty() => thoughts.push(thinking),
                AnswerBlock::Call { id, name, input, json } => {
                    calls.push(finished_call(id, name, &input, json, finish)?)
                }
                AnswerBlock::Thinking { .. } | AnswerBlock::Redacted(_) | AnswerBlock::Other => {}
            }
        }
        if calls.is_empty() && words.trim().is_empty() {
            return Err(ProviderError::empty(finish, details.is_some()));
        }
        let thoughts = thoughts.join("\n\n");
        let reasoning = Reasoning {
            text: Some(thoughts).filter(|text| !text.is_empty()),
            details,
            ..Reasoning::default()
        };
        let content = if words.is_empty() { Content::Nothing } else { Content::Text(words) };
        let said = Assistant { content, calls, finish: Some(finish.to_owned()), reasoning };
        Ok(Answer { said, usage: self.usage, model: self.model.unwrap_or_else(|| asked.to_owned()) })
    }
}

/// The thoughts as they must go back. Where the model thought again after it had spoken, places
/// are kept for its words and calls, so that the order can be restored.
fn details(blocks: &[AnswerBlock]) -> Option<JsonText> {
    let is_thought =
        |block: &AnswerBlock| matches!(block, AnswerBlock::Thinking { .. } | AnswerBlock::Redacted(_));
    let last_thought = blocks.iter().rposition(is_thought)?;
    let is_divided = blocks[..last_thought]
        .iter()
        .any(|block| matches!(block, AnswerBlock::Text(_) | AnswerBlock::Call { .. }));
    let mut details = Vec::new();
    for block in &blocks[..=last_thought] {
        match block {
            AnswerBlock::Thinking { thinking, signature } => {
                let mut thought = json!({"type": "thinking", "thinking": thinking});
                if !signature.is_empty() {
                    thought["signature"] = json!(signature);
                }
                details.push(thought);
            }
            AnswerBlock::Redacted(block) => details.push(block.clone()),
            AnswerBlock::Text(text) if is_divided => {
                details.push(json!({"type": "text_here", "length": text.len()}))
            }
            AnswerBlock::Call { .. } if is_divided => details.push(json!({"type": "call_here"})),
            AnswerBlock::Text(_) | AnswerBlock::Call { .. } | AnswerBlock::Other => {}
        }
    }
    Some(JsonText::from_valid(Value::Array(details).to_string()))
}

fn finished_call(
    id: String,
    name: String,
    input: &Value,
    json: String,
    finish: &str,
) -> Result<ToolCall, ProviderError> {
    if name.is_empty() || id.is_empty() {
        return Err(ProviderError::nameless_call());
    }
    if finish == "length" && !json.is_empty() && serde_json::from_str::<Value>(&json).is_err() {
        return Err(ProviderError::cut_call());
    }
    let arguments = match (json.trim().is_empty(), input) {
        (false, _) => json,
        (true, Value::Object(_)) => input.to_string(),
        (true, _) => "{}".to_owned(),
    };
    Ok(ToolCall { id, name, arguments, extra: None })
}

/// OpenAI's names, because transcripts hold those.
fn finish_of(stop: &str) -> &str {
    match stop {
        "" | "end_turn" | "stop_sequence" => "stop",
        "tool_use" => "tool_calls",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "refusal" => "content_filter",
        other => other,
    }
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}
