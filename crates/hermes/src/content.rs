//! What was said, as JSON and as a column.
//!
//! A list of parts has OpenAI's shape. Parts of a kind not known here, and content that is neither
//! text nor a list, are carried as they are written and come out the same.

use crate::json;
use throughline_core::message::{Content, JsonText, Part};

/// Marks a `content` column that holds JSON rather than text: NUL does not occur in what people write.
const JSON_PREFIX: &str = "\0json:";

pub fn content_to_json(content: &Content) -> JsonText {
    let text = match content {
        Content::Nothing => "null".to_owned(),
        Content::Text(text) => json::quote(text),
        Content::Parts(parts) => {
            format!("[{}]", parts.iter().map(part_to_text).collect::<Vec<_>>().join(", "))
        }
        Content::Opaque(json) => return json.clone(),
    };
    JsonText::from_valid(text)
}

/// None if `text` is not JSON.
pub fn content_from_json(text: &str) -> Option<Content> {
    let text = &*json::read(text)?;
    if let Some(parts) = json::items(text) {
        return Some(Content::Parts(parts.into_iter().map(part_from_text).collect()));
    }
    Some(match serde_json::from_str::<Option<String>>(text) {
        Ok(Some(said)) => Content::Text(said),
        Ok(None) => Content::Nothing,
        Err(_) => Content::Opaque(JsonText::from_valid(text)),
    })
}

/// As the column `content` holds it.
pub(crate) fn encode(content: &Content) -> Option<String> {
    match content {
        Content::Nothing => None,
        // Words that would be taken for our own mark are wrapped once more, so that they stay words.
        Content::Text(text) if !text.starts_with(JSON_PREFIX) || is_unreadable(text) => Some(text.clone()),
        Content::Text(_) | Content::Parts(_) | Content::Opaque(_) => {
            Some(format!("{JSON_PREFIX}{}", content_to_json(content)))
        }
    }
}

/// Marked JSON that does not parse is text, mark and all, as Hermes takes it.
pub(crate) fn decode(column: Option<String>) -> Content {
    let Some(text) = column else { return Content::Nothing };
    match text.strip_prefix(JSON_PREFIX).and_then(content_from_json) {
        Some(content) => content,
        None => Content::Text(text),
    }
}

fn is_unreadable(text: &str) -> bool {
    text.strip_prefix(JSON_PREFIX).is_some_and(|rest| json::read(rest).is_none())
}

fn part_to_text(part: &Part) -> String {
    match part {
        Part::Text(text) => format!(r#"{{"type": "text", "text": {}}}"#, json::quote(text)),
        Part::Image { url, detail } => {
            let url = json::quote(url);
            let detail = detail.as_ref().map(|detail| format!(r#", "detail": {}"#, json::quote(detail)));
            let detail = detail.unwrap_or_default();
            format!(r#"{{"type": "image_url", "image_url": {{"url": {url}{detail}}}}}"#)
        }
        Part::Opaque(json) => json.to_string(),
    }
}

/// A part is known only if every field of it is: what we would not write again stays opaque.
fn part_from_text(text: &str) -> Part {
    known_part(text).unwrap_or_else(|| Part::Opaque(JsonText::from_valid(text)))
}

fn known_part(text: &str) -> Option<Part> {
    let fields = ExactFields::of(text, &["type", "text", "image_url"])?;
    match (fields.text("type")?.as_str(), fields.get("text"), fields.get("image_url")) {
        ("text", Some(said), None) => Some(Part::Text(serde_json::from_str(said).ok()?)),
        ("image_url", None, Some(image)) => {
            let image = ExactFields::of(image, &["url", "detail"])?;
            let detail = image.get("detail").map_or(Ok(None), serde_json::from_str).ok()?;
            Some(Part::Image { url: image.text("url")?, detail })
        }
        _ => None,
    }
}

/// The members of an object that has no others than those named, each at most once.
struct ExactFields<'a>(Vec<(String, &'a str)>);

impl<'a> ExactFields<'a> {
    fn of(text: &'a str, names: &[&str]) -> Option<Self> {
        let members = json::members(text)?;
        let known = members.iter().all(|(name, _)| names.contains(&name.as_str()));
        let once =
            members.iter().enumerate().all(|(nth, (name, _))| members[..nth].iter().all(|(n, _)| n != name));
        (known && once).then_some(Self(members))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| *value)
    }

    fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }
}
