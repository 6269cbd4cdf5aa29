//! JSON as text: pieces are written once and joined, never parsed to be written again.

use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;

pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push_str(&string(text));
}

pub(crate) fn string(text: &str) -> String {
    serde_json::to_string(text).expect("a text is always JSON")
}

/// `,"name":value`, or without the comma where the object has just begun.
pub(crate) fn push_field(out: &mut String, name: &str, value: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    push_string(out, name);
    out.push(':');
    out.push_str(value);
}

/// The fields of an object in their order, each value as it was written. None if it is not one.
pub(crate) fn fields(object: &str) -> Option<Vec<(String, Box<RawValue>)>> {
    struct JsonFields(Vec<Option<(String, Box<RawValue>)>>);

    impl<'de> serde::Deserialize<'de> for JsonFields {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(JsonFields(Vec::new()))
        }
    }

    impl<'de> serde::de::Visitor<'de> for JsonFields {
        type Value = JsonFields;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(mut self, mut map: A) -> Result<JsonFields, A::Error> {
            let mut places = HashMap::new();
            while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                if let Some(earlier) = places.insert(name.clone(), self.0.len()) {
                    self.0[earlier] = None; // the last one counts
                }
                self.0.push(Some((name, value)));
            }
            Ok(self)
        }
    }

    serde_json::from_str::<JsonFields>(object).ok().map(|fields| fields.0.into_iter().flatten().collect())
}

/// The elements of an array, each as it was written. None if it is not one.
pub(crate) fn elements(array: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(array).ok()
}

/// The field `type` of an object.
pub(crate) fn kind(object: &str) -> Option<String> {
    let value: Value = serde_json::from_str(object).ok()?;
    value.get("type")?.as_str().map(str::to_owned)
}

/// The arguments of a call as an object that every server takes. What the model wrote is not
/// always JSON, and one such call would otherwise make a server refuse the conversation for ever.
pub(crate) fn arguments(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(_)) => text.to_owned(),
        _ if text.trim().is_empty() => "{}".to_owned(),
        _ => format!("{{\"unreadable\":{}}}", string(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_their_bytes() {
        let read = |text| {
            let fields: Option<Vec<_>> = fields(text);
            fields.map(|fields| {
                fields.iter().map(|(name, value)| format!("{name}={}", value.get())).collect::<Vec<_>>()
            })
        };
        assert_eq!(read(r#" {"b": 1.50, "a": {"x" :1}, "b": 2e3} "#).unwrap(), ["a={\"x\" :1}", "b=2e3"]);
        assert_eq!(read("{}").unwrap(), Vec::<String>::new());
        assert_eq!(read("[1]"), None);
        assert_eq!(read("{"), None);
    }

    #[test]
    fn arguments_are_always_an_object() {
        for (text, sent) in [
            ("{\"a\": 1}", "{\"a\": 1}"),
            ("", "{}"),
            (" \n", "{}"),
            ("{\"a\":", "{\"unreadable\":\"{\\\"a\\\":\"}"),
            ("[1]", "{\"unreadable\":\"[1]\"}"),
        ] {
            assert_eq!(arguments(text), sent);
        }
    }
}
