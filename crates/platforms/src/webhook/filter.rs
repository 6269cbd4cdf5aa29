//! Which deliveries a route wants, by what is in them: Hermes' filters.
//!
//! A filter that cannot be read takes its route off; one that cannot be decided (a file that is gone)
//! lets nothing through.

use http::HeaderMap;
use regex::{Regex, RegexBuilder};
use serde_json::Value;
use std::path::{Path, PathBuf};
use throughline_hermes::json;

/// Nested deeper than this, a filter is a mistake.
const DEPTH_MAX: usize = 16;
/// A pattern that compiles to more than this is an attack on memory.
const PATTERN_MAX: usize = 1 << 20;
const FILE_MAX: u64 = 4 << 20;

#[derive(Clone, Debug)]
pub enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    Field { path: String, test: FilterTest },
}

#[derive(Clone, Debug)]
pub enum FilterTest {
    Exists(bool),
    Equals(Value),
    NotEquals(Value),
    Contains(Value),
    In(Vec<Value>),
    /// One of a list in a file, read each time: agents write it.
    InFile(String),
    Matches(Regex),
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

/// What a filter looks at.
pub struct FilteredDelivery<'a> {
    pub payload: &'a Value,
    pub event: &'a str,
    pub headers: &'a HeaderMap,
    /// The agent's home: relative paths begin here.
    pub home: &'a Path,
}

impl Filter {
    pub fn read_all(written: Option<&Value>) -> Result<Vec<Self>, String> {
        match written {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => items.iter().map(|item| Self::read(item, 0)).collect(),
            Some(one) => Ok(vec![Self::read(one, 0)?]),
        }
    }

    fn read(written: &Value, depth: usize) -> Result<Self, String> {
        let fields = written.as_object().filter(|_| depth < DEPTH_MAX).ok_or("a filter is not a mapping")?;
        let several = |items: &Value| {
            let items = items.as_array().ok_or("`all` and `any` take a list of filters")?;
            items.iter().map(|item| Self::read(item, depth + 1)).collect::<Result<Vec<_>, String>>()
        };
        if let Some(items) = fields.get("all") {
            return Ok(Self::All(several(items)?));
        }
        if let Some(items) = fields.get("any") {
            return Ok(Self::Any(several(items)?));
        }
        if let Some(item) = fields.get("not") {
            return Ok(Self::Not(Box::new(Self::read(item, depth + 1)?)));
        }
        let path = fields.get("field").and_then(Value::as_str).unwrap_or_default().trim().to_owned();
        let test = match fields.iter().find_map(|(name, value)| Some((test_name(name)?, value))) {
            Some(("exists", wanted)) => FilterTest::Exists(wanted == &Value::Bool(true)),
            Some(("missing", Value::Bool(true))) => FilterTest::Exists(false),
            Some(("equals", value)) => FilterTest::Equals(value.clone()),
            Some(("not_equals", value)) => FilterTest::NotEquals(value.clone()),
            Some(("contains", value)) => FilterTest::Contains(value.clone()),
            Some(("in", Value::Array(values))) => FilterTest::In(values.clone()),
            Some(("in_file", Value::String(path))) => FilterTest::InFile(path.clone()),
            Some(("regex", pattern)) => {
                let pattern = pattern.as_str().ok_or("a `regex` is not a text")?;
                let built = RegexBuilder::new(pattern).size_limit(PATTERN_MAX).build();
                FilterTest::Matches(built.map_err(|_| format!("the regex {pattern:?} cannot be read"))?)
            }
            _ => return Err("a filter has no test we know".to_owned()),
        };
        Ok(Self::Field { path, test })
    }

    pub fn lets_through(&self, delivery: &FilteredDelivery<'_>) -> bool {
        match self {
            Self::All(filters) => filters.iter().all(|filter| filter.lets_through(delivery)),
            Self::Any(filters) => filters.iter().any(|filter| filter.lets_through(delivery)),
            Self::Not(filter) => !filter.lets_through(delivery),
            Self::Field { path, test } => test.holds(delivery.find(path).as_ref(), delivery.home),
        }
    }
}

fn test_name(name: &str) -> Option<&str> {
    let known = ["exists", "missing", "equals", "not_equals", "contains", "in", "in_file", "regex"];
    known.into_iter().find(|known| *known == name)
}

impl FilterTest {
    fn holds(&self, value: Option<&Value>, home: &Path) -> bool {
        match self {
            FilterTest::Exists(wanted) => value.is_some() == *wanted,
            FilterTest::Equals(other) => value == Some(other),
            FilterTest::NotEquals(other) => value != Some(other),
            FilterTest::Contains(needle) => match value {
                None => false,
                Some(Value::Array(items)) => items.contains(needle),
                Some(Value::Object(fields)) => needle.as_str().is_some_and(|name| fields.contains_key(name)),
                Some(other) => in_words(other).contains(&in_words(needle)),
            },
            FilterTest::In(values) => value.is_some_and(|value| values.contains(value)),
            FilterTest::InFile(path) => value.is_some_and(|value| listed(path, home).contains(value)),
            FilterTest::Matches(pattern) => value.is_some_and(|value| pattern.is_match(&in_words(value))),
        }
    }
}

impl FilteredDelivery<'_> {
    fn find(&self, path: &str) -> Option<Value> {
        let mut parts = path.split('.').filter(|part| !part.is_empty()).peekable();
        let start = match *parts.peek()? {
            "payload" => self.payload.get("payload").unwrap_or(self.payload).clone(),
            "event" | "event_type" => Value::from(self.event),
            "headers" => {
                parts.next();
                let name = parts.next()?;
                return parts
                    .next()
                    .is_none()
                    .then(|| self.headers.get(name)?.to_str().ok().map(Value::from))?;
            }
            _ => return below(self.payload, parts),
        };
        parts.next();
        below(&start, parts)
    }
}

fn below<'a>(start: &Value, mut parts: impl Iterator<Item = &'a str>) -> Option<Value> {
    let step = |value: &'_ Value, part: &str| match value {
        Value::Object(fields) => fields.get(part).cloned(),
        Value::Array(items) => part.parse::<usize>().ok().and_then(|index| items.get(index).cloned()),
        _ => None,
    };
    parts.try_fold(start.clone(), |value, part| step(&value, part))
}

fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        other => json::dumps(other),
    }
}

/// A file's list: JSON, or one entry a line.
fn listed(path: &str, home: &Path) -> Vec<Value> {
    let place = match path.trim().strip_prefix("~/.hermes/") {
        Some(below) => home.join(below),
        None if Path::new(path.trim()).is_absolute() => PathBuf::from(path.trim()),
        None => home.join(path.trim()),
    };
    let short = std::fs::metadata(&place).is_ok_and(|data| data.is_file() && data.len() <= FILE_MAX);
    let Some(text) = short.then(|| std::fs::read_to_string(&place).ok()).flatten() else {
        tracing::warn!(path, "a webhook's filter file cannot be read: nothing is let through");
        return Vec::new();
    };
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Array(items)) => items,
        Ok(Value::Object(fields)) => fields.into_iter().map(|(name, _)| Value::from(name)).collect(),
        Ok(one) => vec![one],
        Err(_) => text.lines().map(str::trim).filter(|line| !line.is_empty()).map(Value::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn filters_are_those_of_hermes() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("people.txt"), "ann\nbob\n").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("x-kind", "nightly".parse().unwrap());
        let payload = json!({"action": "opened", "user": {"login": "ann"}, "labels": ["bug", "ui"], "count": 3, "draft": false});
        let delivery =
            FilteredDelivery { payload: &payload, event: "issues", headers: &headers, home: home.path() };
        for (written, expected) in [
            (json!({"field": "action", "equals": "opened"}), true),
            (json!({"field": "payload.action", "equals": "opened"}), true),
            (json!({"field": "action", "not_equals": "opened"}), false),
            (json!({"field": "gone", "not_equals": "x"}), true),
            (json!({"field": "gone", "exists": true}), false),
            (json!({"field": "gone", "missing": true}), true),
            (json!({"field": "labels.1", "equals": "ui"}), true),
            (json!({"field": "labels", "contains": "bug"}), true),
            (json!({"field": "user", "contains": "login"}), true),
            (json!({"field": "action", "contains": "pen"}), true),
            (json!({"field": "count", "in": [1, 3]}), true),
            (json!({"field": "user.login", "in_file": "people.txt"}), true),
            (json!({"field": "action", "in_file": "people.txt"}), false),
            (json!({"field": "user.login", "in_file": "gone.txt"}), false),
            (json!({"field": "action", "regex": "^open"}), true),
            (json!({"field": "event", "equals": "issues"}), true),
            (json!({"field": "headers.X-Kind", "equals": "nightly"}), true),
            (json!({"field": "action.deeper", "exists": true}), false),
            (
                json!({"all": [{"field": "count", "equals": 3}, {"not": {"field": "draft", "equals": true}}]}),
                true,
            ),
            (json!({"any": [{"field": "count", "equals": 4}, {"field": "draft", "equals": true}]}), false),
            (json!({"any": []}), false),
            (json!({"all": []}), true),
        ] {
            let filters = Filter::read_all(Some(&written)).unwrap();
            assert_eq!(filters.iter().all(|filter| filter.lets_through(&delivery)), expected, "{written}");
        }
        for broken in [
            json!(7),
            json!([7]),
            json!({"field": "a"}),
            json!({"field": "a", "regex": "("}),
            json!({"all": 1}),
        ] {
            assert!(Filter::read_all(Some(&broken)).is_err(), "{broken}");
        }
    }
}
