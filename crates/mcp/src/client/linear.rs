//! What a server says is foreign text: each function of it is linear.

use super::offer::{ServerListing, ServerTool, offered};
use super::redact::ErrorRedactor;
use super::result::{ResultReader, prompt, prompts, resources};
use super::tool_names::{Prefix, sanitised};
use super::{media_files, python_json, suspicious_commands, tool_schema};
use crate::settings::{RemoteSettings, ServerReach, ServerSettings};
use serde_json::{Map, Value, json};
use std::hint::black_box;
use std::path::Path;
use throughline_complexity::{assert_linear, assert_linear_in_count};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// Where a directory is that cannot be written to: what would become a file does not.
const NOWHERE: &str = "/dev/null/home";

fn tool(answer: &Value) {
    let redactor = ErrorRedactor::default();
    let prefix = Prefix::new("s");
    let reader = ResultReader { server: "s", prefix: &prefix, home: Path::new(NOWHERE), redactor: &redactor };
    _ = (reader.tool(answer), reader.resource(answer));
}

fn settings() -> ServerSettings {
    ServerSettings::new("s", ServerReach::Http(RemoteSettings::new("http://127.0.0.1/")))
}

fn listing(tools: Vec<ServerTool>) -> ServerListing {
    ServerListing { tools, ..ServerListing::default() }
}

fn listed(name: &str, description: &str, input_schema: Map<String, Value>) -> ServerTool {
    ServerTool {
        name: name.to_owned(),
        description: Some(description.to_owned()),
        input_schema,
        annotations: None,
    }
}

fn normalised(schema: &Value) {
    _ = schema.as_object().map(tool_schema::normalised);
}

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("name::Prefix::name", |text| _ = (Prefix::new(text).name(text), sanitised(text))),
        ("name::Prefix::distinct", |text| _ = Prefix::distinct(text.split(' '))),
        ("offer::offered of a tool", |text| {
            _ = offered(&settings(), &Prefix::new("s"), &listing(vec![listed(text, text, Map::new())]));
        }),
        ("offer::offered of many", |text| {
            let tools = text.split(' ').map(|name| listed(name, name, Map::new()));
            _ = offered(&settings(), &Prefix::new("s"), &listing(tools.collect()));
        }),
        ("schema::normalised", |text| normalised(&parsed(text))),
        ("schema::normalised of a list", |text| normalised(&parsed(&format!("{{\"anyOf\":[{text}1]}}")))),
        ("schema::normalised of names", |text| {
            let names: Vec<_> = text.split(' ').collect();
            let properties: Map<_, _> =
                names.iter().map(|name| ((*name).to_owned(), json!({"$ref": name}))).collect();
            normalised(&json!({"properties": properties, "required": names}));
        }),
        ("schema::normalised of unions", |text| {
            let unions = text.split(' ').map(|name| json!({"anyOf": [{"title": name}, {"type": "null"}]}));
            normalised(&json!({"allOf": unions.collect::<Vec<_>>()}));
        }),
        ("result::ResultReader::tool", |text| tool(&parsed(text))),
        ("result::ResultReader::tool of a text", |text| {
            tool(&json!({"content": [{"type": "text", "text": text}]}))
        }),
        ("result::ResultReader::tool of blocks", |text| {
            let blocks =
                text.split(' ').map(|text| json!({"type": "resource_link", "uri": text, "name": text}));
            tool(&json!({"content": blocks.collect::<Vec<_>>(), "structuredContent": text}));
        }),
        ("result::ResultReader::tool of an error", |text| {
            tool(&json!({"isError": true, "content": [{"type": "text", "text": text}]}));
        }),
        ("result::ResultReader::resource of a file", |text| {
            tool(&json!({"contents": [{"uri": text, "mimeType": text, "blob": "aGVsbG8="}]}));
        }),
        ("result::prompt", |text| {
            let messages = text.split(' ').map(|text| json!({"role": "user", "content": [text]}));
            _ = prompt(&json!({"messages": messages.collect::<Vec<_>>()}));
        }),
        ("result::resources", |text| {
            let listed: Vec<_> =
                text.split(' ').map(|name| json!({"uri": name, "arguments": [{"name": name}]})).collect();
            _ = (resources(&listed), prompts(&listed));
        }),
        ("python_json::written", |text| _ = python_json::written(&json!([text, parsed(text)]))),
        ("media::decoded", |text| _ = media_files::decoded(text)),
        ("media::document_name", |text| {
            _ = (
                media_files::document_name(text, text),
                media_files::document_name(&format!("a://b/{text}"), ""),
            );
        }),
        ("redact::Redactor::clean", |text| _ = ErrorRedactor::default().clean(text)),
        ("suspicion::of", |text| _ = black_box(suspicious_commands::of("bash", &[text.to_owned()]))),
    ]);
}

/// Unions in unions, as deep as JSON may be, each with something beside it.
#[test]
fn p31_unions_in_unions_cost_what_they_should() {
    assert_linear_in_count("schema::normalised", |count| {
        let leaf: Vec<_> = (0..count).map(|number| json!({"title": number})).collect();
        let nested = (0..20).fold(
            json!({"allOf": leaf}),
            |inner, _| json!({"anyOf": [{"properties": {"a": inner}}, {"type": "null"}], "title": "x"}),
        );
        move || normalised(&nested)
    });
}
