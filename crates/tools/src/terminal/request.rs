//! The arguments of `terminal` and `process`, parsed.

use serde_json::{Map, Value};

/// The arguments of `terminal`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TerminalRequest {
    pub command: String,
    pub background: bool,
    pub timeout_seconds: Option<u64>,
    pub workdir: Option<String>,
    pub pty: bool,
    pub notify_on_complete: bool,
    pub watch_patterns: Vec<String>,
}

/// An argument of a type that cannot be read as the right one.
#[derive(Debug, PartialEq, Eq)]
pub enum InvalidRequest {
    Json(String),
    Command(&'static str),
    Argument(String),
}

impl InvalidRequest {
    pub fn sentence(&self) -> String {
        match self {
            Self::Json(why) => {
                format!("Invalid JSON arguments: {why}. Please retry with a valid JSON object.")
            }
            Self::Command(kind) => format!("Invalid command: expected string, got {kind}"),
            Self::Argument(why) => why.clone(),
        }
    }
}

pub fn object(arguments: &str) -> Result<Map<String, Value>, InvalidRequest> {
    if arguments.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(arguments) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(InvalidRequest::Json(format!("expected an object, got {}", kind(&other)))),
        Err(error) => Err(InvalidRequest::Json(error.to_string())),
    }
}

impl TerminalRequest {
    pub fn read(arguments: &str) -> Result<Self, InvalidRequest> {
        let object = object(arguments)?;
        let command = match object.get("command") {
            Some(Value::String(command)) => command.clone(),
            other => return Err(InvalidRequest::Command(other.map_or("NoneType", kind))),
        };
        if command.trim().is_empty() {
            return Err(InvalidRequest::Argument(
                "Invalid command: it is empty. Pass the shell command to run.".to_owned(),
            ));
        }
        if command.contains('\0') {
            return Err(InvalidRequest::Argument("Invalid command: it contains a NUL character.".to_owned()));
        }
        Ok(Self {
            command,
            background: flag(&object, "background")?,
            timeout_seconds: positive(&object, "timeout")?,
            workdir: text(&object, "workdir")?.filter(|workdir| !workdir.is_empty()),
            pty: flag(&object, "pty")?,
            notify_on_complete: flag(&object, "notify_on_complete")?,
            watch_patterns: patterns(&object)?,
        })
    }
}

/// A Python name, because Hermes' texts have it.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

fn wrong(name: &str, expected: &str, value: &Value) -> InvalidRequest {
    InvalidRequest::Argument(format!("Invalid {name}: expected {expected}, got {}", kind(value)))
}

/// Models write booleans as words now and then.
pub fn flag(object: &Map<String, Value>, name: &str) -> Result<bool, InvalidRequest> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::String(word)) if word.eq_ignore_ascii_case("true") => Ok(true),
        Some(Value::String(word)) if word.is_empty() || word.eq_ignore_ascii_case("false") => Ok(false),
        Some(other) => Err(wrong(name, "boolean", other)),
    }
}

/// …and numbers as strings, or with a point.
pub fn integer(object: &Map<String, Value>, name: &str) -> Result<Option<i64>, InvalidRequest> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value @ Value::Number(number)) => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e15);
            let read = number.as_i64().or(whole.map(|float| float as i64));
            read.map(Some).ok_or_else(|| wrong(name, "integer", value))
        }
        Some(value @ Value::String(word)) => {
            word.trim().parse().map(Some).map_err(|_| wrong(name, "integer", value))
        }
        Some(other) => Err(wrong(name, "integer", other)),
    }
}

/// Zero means not given, as in Hermes.
pub fn positive(object: &Map<String, Value>, name: &str) -> Result<Option<u64>, InvalidRequest> {
    match integer(object, name)? {
        None | Some(0) => Ok(None),
        Some(number) => match u64::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => {
                Err(InvalidRequest::Argument(format!("Invalid {name}: must be at least 1, got {number}")))
            }
        },
    }
}

fn text(object: &Map<String, Value>, name: &str) -> Result<Option<String>, InvalidRequest> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(wrong(name, "string", other)),
    }
}

/// One pattern may stand without its list. Empty ones would match every line.
fn patterns(object: &Map<String, Value>) -> Result<Vec<String>, InvalidRequest> {
    let name = "watch_patterns";
    let list = match object.get(name) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(one)) => match serde_json::from_str::<Value>(one) {
            Ok(Value::Array(list)) => list,
            _ => vec![Value::String(one.clone())],
        },
        Some(Value::Array(list)) => list.clone(),
        Some(other) => return Err(wrong(name, "array of strings", other)),
    };
    let mut patterns = Vec::new();
    for entry in list {
        match entry {
            Value::String(pattern) if pattern.is_empty() => {}
            Value::String(pattern) => patterns.push(pattern),
            other => return Err(wrong(name, "array of strings", &other)),
        }
    }
    Ok(patterns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_models_write_is_read_and_what_cannot_be_is_named() {
        let read = TerminalRequest::read(
            r#"{"command":"ls","background":"true","timeout":"30","watch_patterns":"ready"}"#,
        );
        let expected = TerminalRequest {
            command: "ls".into(),
            background: true,
            timeout_seconds: Some(30),
            watch_patterns: vec!["ready".into()],
            ..TerminalRequest::default()
        };
        assert_eq!(read, Ok(expected));
        for (arguments, sentence) in [
            (r#"{"command":["ls"]}"#, "Invalid command: expected string, got list"),
            (r#"{}"#, "Invalid command: expected string, got NoneType"),
            (r#"{"command":"ls","timeout":"soon"}"#, "Invalid timeout: expected integer, got str"),
            (r#"{"command":"ls","timeout":-1}"#, "Invalid timeout: must be at least 1, got -1"),
            (r#"{"command":"ls","background":3}"#, "Invalid background: expected boolean, got int"),
            (
                r#"{"command":"ls","watch_patterns":[1]}"#,
                "Invalid watch_patterns: expected array of strings, got int",
            ),
        ] {
            assert_eq!(
                TerminalRequest::read(arguments).map_err(|wrong| wrong.sentence()),
                Err(sentence.to_owned()),
                "{arguments}"
            );
        }
        assert!(matches!(TerminalRequest::read("[1]"), Err(InvalidRequest::Json(_))));
        assert!(matches!(TerminalRequest::read("{\"command\": \"ls"), Err(InvalidRequest::Json(_))));
    }

    proptest! {
        #[test]
        fn no_arguments_make_it_panic(arguments in "\\PC{0,80}") {
            let _ = TerminalRequest::read(&arguments);
        }
    }
}
