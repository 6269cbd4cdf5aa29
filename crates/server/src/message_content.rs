//! What one message says, from JSON to [`Content`], by the rules of either of OpenAI's APIs.
//!
//! Text and pictures are understood. Anything else is refused by name: a part that no model can
//! read would make every later turn of its session fail.

use crate::error::ApiError;
use crate::request_body::wrong_type;
use serde_json::{Map, Value};
use std::fmt;
use throughline_core::message::{Content, Part};

/// A place in a request, for the one who reads an error: `messages[3]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPosition {
    pub list: &'static str,
    pub index: usize,
}

impl RequestPosition {
    pub fn field(self, name: &str) -> String {
        format!("{self}.{name}")
    }
}

impl fmt::Display for RequestPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}[{}]", self.list, self.index)
    }
}

/// Takes the text field `name`, which must be there.
pub fn needed_text(
    fields: &mut Map<String, Value>,
    name: &str,
    at: RequestPosition,
) -> Result<String, ApiError> {
    match fields.remove(name) {
        Some(Value::String(text)) => Ok(text),
        None | Some(Value::Null) => Err(ApiError::invalid(at.field(name), format!("{at} needs a {name}."))),
        Some(other) => Err(wrong_type(&at.field(name), "a string", &other)),
    }
}

/// Absent and null content is [`Content::Nothing`]; whether that may be is the role's to say.
pub fn parse(value: Option<Value>, field: &str, at: RequestPosition) -> Result<Content, ApiError> {
    match value {
        None | Some(Value::Null) => Ok(Content::Nothing),
        Some(Value::String(text)) => Ok(Content::Text(text)),
        Some(Value::Array(items)) => {
            let mut parts = Vec::with_capacity(items.len());
            for (index, item) in items.into_iter().enumerate() {
                parts.push(part(item, || format!("{at}.{field}[{index}]"))?);
            }
            Ok(match parts.len() {
                0 => Content::Nothing,
                1 => match parts.remove(0) {
                    Part::Text(text) => Content::Text(text), // the same to every reader
                    other => Content::Parts(vec![other]),
                },
                _ => Content::Parts(parts),
            })
        }
        Some(other) => Err(wrong_type(&at.field(field), "a string or an array of parts", &other)),
    }
}

/// As [`parse`], where a picture cannot be: the text of it.
pub fn text_only(value: Option<Value>, field: &str, at: RequestPosition) -> Result<String, ApiError> {
    let content = parse(value, field, at)?;
    let pictured =
        matches!(&content, Content::Parts(parts) if parts.iter().any(|part| !matches!(part, Part::Text(_))));
    match pictured {
        false => Ok(content.plain()),
        true => Err(ApiError::invalid(at.field(field), format!("{at} may hold text only."))
            .code("unsupported_content_type")),
    }
}

fn part(item: Value, place: impl Fn() -> String) -> Result<Part, ApiError> {
    let mut fields = match item {
        Value::String(text) => return Ok(Part::Text(text)),
        Value::Object(fields) => fields,
        other => return Err(wrong_type(&place(), "an object with a type", &other)),
    };
    let kind = match fields.remove("type") {
        Some(Value::String(kind)) => kind,
        _ => {
            return Err(
                ApiError::invalid(place(), format!("{} needs a type.", place())).code("invalid_content_part")
            );
        }
    };
    let text = |fields: &mut Map<String, Value>, name: &str| match fields.remove(name) {
        Some(Value::String(text)) => Ok(Part::Text(text)),
        _ => Err(ApiError::invalid(place(), format!("{} needs a {name}, as a string.", place()))
            .code("invalid_content_part")),
    };
    match kind.as_str() {
        "text" | "input_text" | "output_text" => text(&mut fields, "text"),
        "refusal" => text(&mut fields, "refusal"),
        "image_url" | "input_image" => image(fields, place),
        _ => Err(ApiError::invalid(
            place(),
            format!("{} is of type {kind:?}; only text and images can be understood.", place()),
        )
        .code("unsupported_content_type")),
    }
}

/// Chat completions nest the address (`{"url": …, "detail": …}`), responses do not.
fn image(mut fields: Map<String, Value>, place: impl Fn() -> String) -> Result<Part, ApiError> {
    let mut detail = fields.remove("detail");
    let url = match fields.remove("image_url") {
        Some(Value::Object(mut nested)) => {
            detail = nested.remove("detail").or(detail);
            nested.remove("url")
        }
        other => other,
    };
    let is_address = |url: &str| {
        let starts =
            |prefix: &str| url.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        starts("https://") || starts("http://") || (starts("data:image/") && url.contains(','))
    };
    let detail = match detail {
        None | Some(Value::Null) => None,
        Some(Value::String(detail)) => Some(detail),
        Some(other) => return Err(wrong_type(&format!("{}.detail", place()), "a string", &other)),
    };
    match url {
        Some(Value::String(url)) if is_address(&url) => Ok(Part::Image { url, detail }),
        _ => Err(ApiError::invalid(
            place(),
            format!("{} needs the address of an image: http, https or data:image/….", place()),
        )
        .code("invalid_image_url")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const AT: RequestPosition = RequestPosition { list: "messages", index: 2 };

    #[test]
    fn text_and_pictures_are_understood_in_both_spellings() {
        let image = |detail: Option<&str>| Part::Image {
            url: "https://x/y.png".into(),
            detail: detail.map(Into::into),
        };
        let text = |text: &str| Part::Text(text.into());
        for (value, content) in [
            (json!("hi"), Content::text("hi")),
            (json!(null), Content::Nothing),
            (json!([]), Content::Nothing),
            (json!([{"type": "text", "text": "hi"}]), Content::text("hi")),
            (json!(["a", {"type": "input_text", "text": "b"}]), Content::Parts(vec![text("a"), text("b")])),
            (
                json!([{"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}}]),
                Content::Parts(vec![image(Some("low"))]),
            ),
            (
                json!([{"type": "input_image", "image_url": "https://x/y.png"}]),
                Content::Parts(vec![image(None)]),
            ),
        ] {
            assert_eq!(parse(Some(value.clone()), "content", AT), Ok(content), "{value}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        for (value, words) in [
            (json!(7), "messages[2].content must be a string or an array of parts, not a number."),
            (json!([7]), "messages[2].content[0] must be an object with a type, not a number."),
            (json!(["a", {}]), "messages[2].content[1] needs a type."),
            (json!([{"type": "text"}]), "messages[2].content[0] needs a text, as a string."),
            (
                json!([{"type": "input_audio"}]),
                "messages[2].content[0] is of type \"input_audio\"; only text and images can be understood.",
            ),
            (
                json!([{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]),
                "messages[2].content[0] needs the address of an image: http, https or data:image/….",
            ),
        ] {
            let error = parse(Some(value.clone()), "content", AT).unwrap_err();
            assert_eq!(error.message(), words, "{value}");
        }
        let picture = json!([{"type": "input_image", "image_url": "https://x"}, "a"]);
        assert!(text_only(Some(picture), "content", AT).is_err());
    }
}
