//! Answers of servers as results of tools, in Hermes' words.
//!
//! An answer is read as JSON and not through the types of the protocol: a kind of content that is
//! new to us is one line less in a result, and no reason to lose the others.

use super::media_files::{self, MediaKind};
use super::python_json;
use super::redact::ErrorRedactor;
use super::tool_names::Prefix;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Ten times what fits a context window.
const RESULT_LENGTH_MAX: usize = 1024 * 1024;
/// What is shown of a longer one.
const RESULT_SHOWN: usize = 20_000;

/// Where results are put together: whose they are, and where their files go.
pub struct ResultReader<'a> {
    pub server: &'a str,
    pub prefix: &'a Prefix,
    pub home: &'a Path,
    pub redactor: &'a ErrorRedactor,
}

impl ResultReader<'_> {
    /// What `tools/call` answered. Writes files; not for the async threads.
    pub fn tool(&self, answer: &Value) -> String {
        if answer["isError"] == true {
            return python_json::error(self.redactor.clean(&error_text(answer)));
        }
        let structured = answer.get("structuredContent").filter(|content| !content.is_null());
        if !answer["content"].is_array() && structured.is_none() {
            let server = self.server;
            return python_json::error(format!(
                "MCP call failed: what MCP server '{server}' answered is no result of a tool"
            ));
        }
        let parts: Vec<String> = blocks(answer, "content").filter_map(|block| self.block(block)).collect();
        let text = parts.join("\n");
        let result = match structured {
            Some(content) => match said_once(&text, content) {
                Some(content) => json!({"result": content}),
                None => json!({"result": text, "structuredContent": content}),
            },
            None => json!({"result": text}),
        };
        self.capped(python_json::written(&result))
    }

    /// What `resources/read` answered.
    pub fn resource(&self, answer: &Value) -> String {
        let part = |block: &Value| match block["text"].as_str() {
            Some(text) => Some(text.to_owned()),
            None => block["blob"].as_str().map(|blob| self.blob(block, blob)),
        };
        let parts: Vec<String> = blocks(answer, "contents").filter_map(part).collect();
        self.capped(python_json::written(&json!({"result": parts.join("\n")})))
    }

    /// A result is read by a model and kept in its session; what no model could read becomes a file.
    fn capped(&self, written: String) -> String {
        if written.len() <= RESULT_LENGTH_MAX {
            return written;
        }
        let beginning = &written[..written.floor_char_boundary(RESULT_SHOWN)];
        let rest = match media_files::kept(self.home, MediaKind::Document, "result.json", written.as_bytes())
        {
            Ok(path) => format!(
                "[MCP resource saved to {} (application/json, {} bytes) — read it with read_file or terminal tools]",
                path.display(),
                written.len()
            ),
            Err(error) => {
                tracing::warn!(server = self.server, %error, "a result too large to show could not be kept");
                format!("[cut: the result has {} bytes, and could not be written to a file]", written.len())
            }
        };
        python_json::written(&json!({"result": format!("{beginning}\n{rest}")}))
    }

    fn block(&self, block: &Value) -> Option<String> {
        if let Some(text) = block["text"].as_str().filter(|text| !text.is_empty()) {
            return Some(text.to_owned());
        }
        let kind = plain_kind(&block["mimeType"]);
        let rendered = match block["type"].as_str().unwrap_or_default() {
            "text" => None,
            "image" => self.image(block, &kind),
            "audio" => self.audio(block, &kind),
            "resource_link" => self.link(block),
            "resource" => self.embedded(&block["resource"]),
            other => {
                tracing::warn!(
                    server = self.server,
                    kind = other,
                    "a kind of content that is not known is left out"
                );
                None
            }
        };
        rendered.filter(|text| !text.is_empty())
    }

    fn image(&self, block: &Value, kind: &str) -> Option<String> {
        let bytes = media_files::decoded(block["data"].as_str()?)?;
        let is_image = kind.starts_with("image/") && media_files::is_image(&bytes);
        if !is_image || bytes.len() > media_files::FILE_LENGTH_MAX {
            tracing::warn!(server = self.server, kind, "a picture in a result is none, or too large");
            return None;
        }
        self.kept(MediaKind::Image, media_files::image_extension(kind), &bytes)
    }

    fn audio(&self, block: &Value, kind: &str) -> Option<String> {
        let bytes = media_files::decoded(block["data"].as_str().filter(|_| kind.starts_with("audio/"))?)?;
        if bytes.len() > media_files::FILE_LENGTH_MAX {
            return Some(format!("[MCP audio resource too large to cache: {} bytes]", bytes.len()));
        }
        self.kept(MediaKind::Audio, media_files::audio_extension(kind), &bytes)
    }

    /// The tag by which pictures and sounds find their way to the chat.
    fn kept(&self, kind: MediaKind, suffix: &str, bytes: &[u8]) -> Option<String> {
        match media_files::kept(self.home, kind, suffix, bytes) {
            Ok(path) => Some(format!("MEDIA:{}", path.display())),
            Err(error) => {
                tracing::warn!(server = self.server, %error, "a file out of a result could not be kept");
                None
            }
        }
    }

    fn link(&self, block: &Value) -> Option<String> {
        let mut details = format!("uri={}", block["uri"].as_str().filter(|uri| !uri.is_empty())?);
        for name in ["name", "mimeType"] {
            if let Some(value) = block[name].as_str().filter(|value| !value.is_empty()) {
                details.push_str(&format!(", {name}={value}"));
            }
        }
        let reader = self.prefix.name("read_resource");
        Some(format!("[MCP resource link: {details} — fetch it with {reader}]"))
    }

    fn embedded(&self, resource: &Value) -> Option<String> {
        match (resource["text"].as_str(), resource["blob"].as_str()) {
            (Some(text), _) => Some(text.to_owned()),
            (None, Some(blob)) => Some(self.blob(resource, blob)),
            (None, None) => None,
        }
    }

    fn blob(&self, resource: &Value, blob: &str) -> String {
        let uri = resource["uri"].as_str().unwrap_or_default();
        let kind = resource["mimeType"].as_str().unwrap_or_default();
        let named = if kind.is_empty() { uri } else { kind };
        let Some(bytes) = media_files::decoded(blob) else {
            return format!("[MCP embedded resource could not be decoded: {named}]");
        };
        if bytes.len() > media_files::FILE_LENGTH_MAX {
            return format!("[MCP embedded resource too large to cache: {} bytes, uri={uri}]", bytes.len());
        }
        let name = media_files::document_name(uri, &plain_kind(&resource["mimeType"]));
        match media_files::kept(self.home, MediaKind::Document, &name, &bytes) {
            Ok(path) => format!(
                "[MCP resource saved to {} ({}, {} bytes) — read it with read_file or terminal tools]",
                path.display(),
                if kind.is_empty() { "unknown type" } else { kind },
                bytes.len()
            ),
            Err(error) => {
                tracing::warn!(server = self.server, %error, "a file out of a result could not be kept");
                format!("[MCP embedded resource could not be cached: {named}]")
            }
        }
    }
}

/// What an answer holds whose text and structure say the same, as the protocol recommends to servers: the structure,
/// without the `result` that libraries put around a value which is no object. None: the text says something else.
fn said_once<'a>(text: &str, structured: &'a Value) -> Option<&'a Value> {
    let bare = match structured {
        Value::Object(fields) if fields.len() == 1 => fields.get("result").unwrap_or(structured),
        _ => structured,
    };
    if text.is_empty() || bare.as_str() == Some(text) {
        return Some(bare);
    }
    let said: Value = serde_json::from_str(text).ok()?;
    (said == *bare || said == *structured).then_some(bare)
}

/// What the pages of `resources/list` held.
pub fn resources(listed: &[Value]) -> String {
    let entry = |resource: &Value| {
        let mut entry = Map::new();
        copy(&mut entry, resource, "uri", Empty::Stays);
        copy(&mut entry, resource, "name", Empty::Stays);
        copy(&mut entry, resource, "description", Empty::Goes);
        copy(&mut entry, resource, "mimeType", Empty::Goes);
        Value::Object(entry)
    };
    python_json::written(&json!({"resources": listed.iter().map(entry).collect::<Vec<_>>()}))
}

/// What the pages of `prompts/list` held.
pub fn prompts(listed: &[Value]) -> String {
    let argument = |argument: &Value| {
        let mut entry = Map::new();
        copy(&mut entry, argument, "name", Empty::Stays);
        copy(&mut entry, argument, "description", Empty::Goes);
        entry.insert("required".to_owned(), argument["required"].clone());
        Value::Object(entry)
    };
    let entry = |prompt: &Value| {
        let mut entry = Map::new();
        copy(&mut entry, prompt, "name", Empty::Stays);
        copy(&mut entry, prompt, "description", Empty::Goes);
        if let Some(arguments) = prompt["arguments"].as_array().filter(|arguments| !arguments.is_empty()) {
            entry.insert("arguments".to_owned(), arguments.iter().map(argument).collect());
        }
        Value::Object(entry)
    };
    python_json::written(&json!({"prompts": listed.iter().map(entry).collect::<Vec<_>>()}))
}

/// What `prompts/get` answered.
pub fn prompt(answer: &Value) -> String {
    let message = |message: &Value| {
        let content = match &message["content"] {
            Value::String(text) => text.clone(),
            content => match content["text"].as_str() {
                Some(text) => text.to_owned(),
                None => python_json::written(content),
            },
        };
        json!({"role": message["role"], "content": content})
    };
    let mut result = Map::new();
    result.insert("messages".to_owned(), blocks(answer, "messages").map(message).collect());
    copy(&mut result, answer, "description", Empty::Goes);
    python_json::written(&Value::Object(result))
}

#[derive(Clone, Copy)]
enum Empty {
    Stays,
    Goes,
}

fn copy(into: &mut Map<String, Value>, from: &Value, key: &str, empty: Empty) {
    let Some(value) = from.get(key).filter(|value| !value.is_null()) else { return };
    if matches!(empty, Empty::Stays) || value.as_str() != Some("") {
        into.insert(key.to_owned(), value.clone());
    }
}

fn blocks<'a>(answer: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    answer[key].as_array().into_iter().flatten()
}

fn error_text(answer: &Value) -> String {
    let text = |block: &Value| {
        let own = block["text"].as_str().filter(|text| !text.is_empty());
        own.or(block["resource"]["text"].as_str()).unwrap_or_default().to_owned()
    };
    let text: String = blocks(answer, "content").map(text).collect();
    if text.is_empty() { "MCP tool returned an error".to_owned() } else { text }
}

fn plain_kind(kind: &Value) -> String {
    let kind = kind.as_str().unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(answer: Value) -> String {
        let home = tempfile::tempdir().unwrap();
        let prefix = Prefix::new("s");
        ResultReader { server: "s", prefix: &prefix, home: home.path(), redactor: &ErrorRedactor::default() }
            .tool(&answer)
    }

    #[test]
    fn results_read_as_hermes_writes_them_and_nothing_is_said_twice() {
        for (answer, expected) in [
            (
                json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
                r#"{"result": "a\nb"}"#,
            ),
            (json!({"content": []}), r#"{"result": ""}"#),
            (
                json!({"content": [{"type": "text", "text": "a"}], "structuredContent": {"x": 1}}),
                r#"{"result": "a", "structuredContent": {"x": 1}}"#,
            ),
            (json!({"content": [], "structuredContent": {"x": 1}}), r#"{"result": {"x": 1}}"#),
            (
                json!({"content": [{"type": "text", "text": "{\"x\": 1}"}], "structuredContent": {"x": 1}}),
                r#"{"result": {"x": 1}}"#,
            ),
            (
                json!({"content": [{"type": "text", "text": "hi"}], "structuredContent": {"result": "hi"}}),
                r#"{"result": "hi"}"#,
            ),
            (
                json!({"content": [{"type": "text", "text": "42"}], "structuredContent": {"result": 42}}),
                r#"{"result": 42}"#,
            ),
            (json!({"content": [], "structuredContent": {"result": [1]}}), r#"{"result": [1]}"#),
            (
                json!({"content": [{"type": "text", "text": "more"}], "structuredContent": {"result": 42}}),
                r#"{"result": "more", "structuredContent": {"result": 42}}"#,
            ),
            (
                json!({"isError": true, "content": [{"type": "text", "text": "no token=abc"}]}),
                r#"{"error": "no [REDACTED]"}"#,
            ),
            (json!({"isError": true, "content": []}), r#"{"error": "MCP tool returned an error"}"#),
            (
                json!("nonsense"),
                r#"{"error": "MCP call failed: what MCP server 's' answered is no result of a tool"}"#,
            ),
            (
                json!({"content": [{"type": "resource_link", "uri": "u://1", "name": "n"}]}),
                r#"{"result": "[MCP resource link: uri=u://1, name=n — fetch it with mcp__s__read_resource]"}"#,
            ),
            (
                json!({"content": [{"type": "resource", "resource": {"uri": "u://1", "text": "t"}}, {"type": "hologram"}]}),
                r#"{"result": "t"}"#,
            ),
            (
                json!({"content": [{"type": "image", "mimeType": "image/png", "data": "aGVsbG8gd29ybGQ="}]}),
                r#"{"result": ""}"#,
            ),
        ] {
            assert_eq!(tool(answer.clone()), expected, "from {answer}");
        }
    }

    #[test]
    fn pictures_and_documents_become_files() {
        let home = tempfile::tempdir().unwrap();
        let redactor = ErrorRedactor::default();
        let prefix = Prefix::new("s");
        let reader = ResultReader { server: "s", prefix: &prefix, home: home.path(), redactor: &redactor };
        let png = "iVBORw0KGgoAAAANSUhEUg==";
        let answer = json!({"content": [
            {"type": "image", "mimeType": "image/png", "data": png},
            {"type": "resource", "resource": {"uri": "u://x/a.pdf", "mimeType": "application/pdf", "blob": "aGVsbG8="}},
        ]});
        let result: Value = serde_json::from_str(&reader.tool(&answer)).unwrap();
        let text = result["result"].as_str().unwrap();
        let (picture, document) = text.split_once('\n').unwrap();
        assert!(std::fs::read(picture.strip_prefix("MEDIA:").unwrap()).unwrap().starts_with(b"\x89PNG"));
        assert!(document.starts_with("[MCP resource saved to "), "{document}");
        assert!(
            document
                .ends_with("_a.pdf (application/pdf, 5 bytes) — read it with read_file or terminal tools]"),
            "{document}"
        );
    }

    #[test]
    fn a_result_that_no_model_could_read_becomes_a_file() {
        let home = tempfile::tempdir().unwrap();
        let redactor = ErrorRedactor::default();
        let prefix = Prefix::new("s");
        let reader = ResultReader { server: "s", prefix: &prefix, home: home.path(), redactor: &redactor };
        let answer = json!({"content": [{"type": "text", "text": "ä".repeat(2_000_000)}]});
        let result = reader.tool(&answer);
        assert!(result.len() < 50_000);
        let (_, path) = result.split_once("[MCP resource saved to ").unwrap();
        let (path, _) = path.split_once(" (application/json").unwrap();
        assert!(std::fs::metadata(path).unwrap().len() > 4_000_000);
    }

    #[test]
    fn lists_and_prompts_read_as_hermes_writes_them() {
        let listed =
            [json!({"uri": "u", "name": "n", "description": "", "mimeType": "text/plain", "size": 3})];
        assert_eq!(
            resources(&listed),
            r#"{"resources": [{"uri": "u", "name": "n", "mimeType": "text/plain"}]}"#
        );
        let listed = [json!({"name": "p", "arguments": [{"name": "a", "required": true}, {"name": "b"}]})];
        assert_eq!(
            prompts(&listed),
            r#"{"prompts": [{"name": "p", "arguments": [{"name": "a", "required": true}, {"name": "b", "required": null}]}]}"#
        );
        let answer = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "description": "d"});
        assert_eq!(
            prompt(&answer),
            r#"{"messages": [{"role": "user", "content": "hi"}], "description": "d"}"#
        );
    }
}
