//! From all that a store may hold comes a request that the provider takes.
//!
//! Transcripts are made by chance: calls without results, results without calls, ids that repeat,
//! arguments that are no JSON, rows without a call. They go through the repair that every request goes
//! through (`history::legal`) and both adapters, and a strict reader judges the bytes.
//! `THROUGHLINE_GRAMMAR=1000000` asks for more of them.

use serde_json::Value;
use std::collections::HashSet;
use throughline_core::history::legal;
use throughline_core::message::{Assistant, Body, Content, JsonText, Message, Part, ToolCall, ToolResult};
use throughline_core::port::{Asked, Model};
use throughline_core::prompt::Composition;
use throughline_core::{Message as Row, Time};
use throughline_models::{Anthropic, AnthropicConfig, OpenAi, OpenAiConfig};
use throughline_net::{Client, ClientSettings};

const IN_CI: u64 = 10_000;

/// Chance from a number: the same number, the same transcript.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

const TEXTS: [&str; 7] =
    ["", " \n", "hello", "\",\"content\":\"", "]}{\"role\":\"user\"", "ünï🦀", "{\"a\":1}"];
const IDS: [&str; 8] = ["a", "b", "call_1", "call_2", "fc:3/ü", "fc_3__", "", "toolu_01"];
const ARGUMENTS: [&str; 6] = ["{}", "{\"path\": \"x\"}", "", "{\"a\":", "[1,2]", "null"];
const NAMES: [&str; 4] = ["terminal", "mcp__server__tool", "odd name!", ""];

fn content(chance: &mut Chance) -> Content {
    match chance.below(6) {
        0 => Content::Nothing,
        1 => Content::Parts(vec![
            Part::Text(chance.one_of(&TEXTS).into()),
            Part::Image { url: "data:image/png;base64,AAAA".into(), detail: None },
        ]),
        2 => Content::Parts(Vec::new()),
        3 => Content::Opaque(JsonText::from_valid("{\"odd\":1}")),
        _ => Content::text(chance.one_of(&TEXTS)),
    }
}

fn row(chance: &mut Chance, open: &mut Vec<String>) -> Message {
    let body = match chance.below(12) {
        0..=2 => Body::User(content(chance)),
        3 => Body::Assistant(Assistant { content: content(chance), ..Assistant::default() }),
        4..=6 => {
            let calls: Vec<_> = (0..=chance.below(3))
                .map(|_| ToolCall {
                    id: chance.one_of(&IDS).into(),
                    name: chance.one_of(&NAMES).into(),
                    arguments: chance.one_of(&ARGUMENTS).into(),
                    extra: None,
                })
                .collect();
            *open = calls.iter().map(|call| call.id.clone()).collect();
            Body::Assistant(Assistant { content: content(chance), calls, ..Assistant::default() })
        }
        7..=9 => {
            let known = open.pop().filter(|_| chance.below(5) > 0);
            let call_id = known.unwrap_or_else(|| chance.one_of(&IDS).into());
            Body::Result(ToolResult { call_id, name: None, content: content(chance) })
        }
        10 => Body::System(content(chance)),
        _ => Body::Other { role: "session_meta".into(), content: Content::Nothing },
    };
    let mut message = Row::new(Time(0), body);
    message.observed = chance.below(20) == 0;
    message
}

fn transcript(number: u64) -> Vec<Message> {
    let mut chance = Chance(number);
    let mut open = Vec::new();
    let mut rows: Vec<_> = (0..chance.below(30)).map(|_| row(&mut chance, &mut open)).collect();
    // A request always ends in what is to be answered.
    rows.push(Message::user(Time(0), Content::text("go on")));
    rows
}

fn body(model: &dyn Model, rows: &[Message], bytes: impl Fn(&Asked) -> String) -> Value {
    let system = model.encode_system("You are an agent.");
    let mut composition = Composition::new(model.name(), None, Some(system));
    legal(rows).iter().for_each(|message| composition.push(model.encode(message)));
    let asked = Asked { session: "s".into(), prompt: composition.prompt(), sampling: None };
    serde_json::from_str(&bytes(&asked)).expect("a request is JSON")
}

/// What OpenAI's chat completions refuse.
fn refused_by_openai(request: &Value) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for message in request["messages"].as_array().ok_or("no messages")? {
        let role = message["role"].as_str().ok_or("no role")?;
        match role {
            "tool" => {
                let id = message["tool_call_id"].as_str().ok_or("a result without an id")?;
                let place = open.iter().position(|open| *open == id);
                open.remove(place.ok_or(format!("a result for {id:?}, which nobody called"))?);
            }
            "system" | "user" | "assistant" if !open.is_empty() => {
                return Err(format!("{role} before {open:?} had results"));
            }
            "system" | "user" => {}
            "assistant" => {
                let calls = message["tool_calls"].as_array().map_or(&[] as &[Value], |calls| calls);
                if message["content"].is_null() && calls.is_empty() {
                    return Err("an assistant who says nothing".into());
                }
                for call in calls {
                    let arguments = call["function"]["arguments"].as_str().ok_or("no arguments")?;
                    let parsed: Value = serde_json::from_str(arguments).map_err(|error| error.to_string())?;
                    if !parsed.is_object() {
                        return Err(format!("arguments {arguments}"));
                    }
                    let id = call["id"].as_str().filter(|id| !id.is_empty()).ok_or("a call without an id")?;
                    let name = call["function"]["name"].as_str().unwrap_or_default();
                    if name.is_empty() {
                        return Err("a call without a name".into());
                    }
                    if open.contains(&id) {
                        return Err(format!("two calls {id:?} in one answer"));
                    }
                    open.push(id);
                }
            }
            other => return Err(format!("role {other}")),
        }
        let is_text_or_list = message["content"].is_string() || message["content"].is_array();
        if !is_text_or_list && role != "assistant" {
            return Err(format!("content of {role}: {}", message["content"]));
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} have no results")) }
}

/// What Anthropic's messages refuse.
fn refused_by_anthropic(request: &Value) -> Result<(), String> {
    let mut seen = HashSet::new();
    let mut open: Vec<String> = Vec::new();
    let mut last = "";
    for (number, message) in request["messages"].as_array().ok_or("no messages")?.iter().enumerate() {
        let role = message["role"].as_str().ok_or("no role")?;
        if number == 0 && role != "user" {
            return Err("the first message is not the user's".into());
        }
        if role == last {
            return Err(format!("two messages of {role} in a row"));
        }
        last = role;
        let blocks = message["content"].as_array().ok_or("content is no list")?;
        if blocks.is_empty() {
            return Err("a message without blocks".into());
        }
        let expected = std::mem::take(&mut open);
        let mut results: Vec<String> = Vec::new();
        let mut has_spoken = false;
        for block in blocks {
            match (role, block["type"].as_str().ok_or("a block without a type")?) {
                (_, "text") => {
                    has_spoken = true;
                    if block["text"].as_str().is_none_or(|text| text.trim().is_empty()) {
                        return Err("a blank text".into());
                    }
                }
                ("user", "image") => has_spoken = true,
                ("user", "tool_result") if has_spoken => return Err("a result after words".into()),
                ("user", "tool_result") => {
                    results.push(block["tool_use_id"].as_str().ok_or("a result without an id")?.to_owned());
                }
                ("assistant", "tool_use") => {
                    let id = block["id"].as_str().unwrap_or_default();
                    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    if id.is_empty() || !id.chars().all(plain) {
                        return Err(format!("an id {id:?}"));
                    }
                    if !seen.insert(id.to_owned()) {
                        return Err(format!("the id {id:?} twice"));
                    }
                    let name = block["name"].as_str().unwrap_or_default();
                    if name.is_empty() || !name.chars().all(plain) || !block["input"].is_object() {
                        return Err(format!("the call {block}"));
                    }
                    open.push(id.to_owned());
                }
                (role, kind) => return Err(format!("a block {kind} of {role}")),
            }
        }
        results.sort();
        let mut expected = expected;
        expected.sort();
        if results != expected {
            return Err(format!("results for {results:?} after calls {expected:?}"));
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} have no results")) }
}

#[test]
fn p9_no_history_makes_a_request_that_a_provider_refuses() {
    let count =
        std::env::var("THROUGHLINE_GRAMMAR").ok().and_then(|count| count.parse().ok()).unwrap_or(IN_CI);
    let client = || Client::new(ClientSettings::default());
    let openai = OpenAi::new(OpenAiConfig::new("http://127.0.0.1:1/v1", "m"), client()).unwrap();
    let anthropic = Anthropic::new(AnthropicConfig::new("http://127.0.0.1:1", "m"), client()).unwrap();
    for number in 0..count {
        let rows = transcript(number);
        let request = body(&openai, &rows, |asked| openai.body(asked));
        if let Err(refusal) = refused_by_openai(&request) {
            panic!("transcript {number}: OpenAI refuses {refusal}\n{rows:#?}\n{request:#}");
        }
        let request = body(&anthropic, &rows, |asked| anthropic.body(asked));
        if let Err(refusal) = refused_by_anthropic(&request) {
            panic!("transcript {number}: Anthropic refuses {refusal}\n{rows:#?}\n{request:#}");
        }
    }
}
