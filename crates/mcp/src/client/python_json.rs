//! JSON as Python's `json.dumps(…, ensure_ascii=False)` writes it: a space after every comma and
//! colon. Results of tools reach the model as Hermes wrote them, and it wrote them so.

use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

pub fn written(value: &Value) -> String {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, PythonFormatter);
    serde::Serialize::serialize(value, &mut serializer).expect("a value can be written to memory");
    String::from_utf8(out).expect("serde_json writes UTF-8")
}

/// `{"error": …}`, the form of everything that went wrong.
pub fn error(message: impl Into<String>) -> String {
    written(&serde_json::json!({ "error": message.into() }))
}

struct PythonFormatter;

impl Formatter for PythonFormatter {
    fn begin_array_value<W: Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_is_spaced_as_python_spaces_it() {
        let value = json!({"a": [1, "zwei: , ü"], "b": {}, "c": [], "d": null});
        assert_eq!(written(&value), r#"{"a": [1, "zwei: , ü"], "b": {}, "c": [], "d": null}"#);
    }
}
