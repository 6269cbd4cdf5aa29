//! Words with holes, filled from what was delivered. Pure.
//!
//! `{pull_request.title}` is looked up in the payload, `{__raw__}` is all of it and `{event_type}` what
//! happened, as Hermes has it. A hole that nothing fits stays as it is written.

use serde_json::Value;
use throughline_hermes::json;

/// All of a payload, and one part of it, in characters.
const RAW_MAX: usize = 4000;
const PART_MAX: usize = 2000;

/// `template` filled in; what an empty one says is that something happened, and what.
pub fn prompt(template: &str, payload: &Value, event: &str, route: &str) -> String {
    match template.is_empty() {
        true => format!(
            "Webhook event '{event}' on route '{route}':\n\n```json\n{}\n```",
            json::dumps_indented_within(payload, RAW_MAX)
        ),
        false => filled(template, payload, event),
    }
}

pub fn filled(template: &str, payload: &Value, event: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        match name(rest) {
            Some(name) => {
                fill(name, payload, event, &mut out);
                rest = &rest[name.len() + 2..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// What stands between the braces that `text` begins with, if that is a name.
fn name(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('{')?;
    let rest = inside
        .trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.'));
    let name = &inside[..inside.len() - rest.len()];
    (!name.is_empty() && rest.starts_with('}')).then_some(name)
}

fn fill(name: &str, payload: &Value, event: &str, out: &mut String) {
    match name {
        "__raw__" => out.push_str(&json::dumps_indented_within(payload, RAW_MAX)),
        "event_type" => out.push_str(event),
        name => match name.split('.').try_fold(payload, |value, part| value.as_object()?.get(part)) {
            None => {
                out.push('{');
                out.push_str(name);
                out.push('}');
            }
            Some(value) => out.push_str(&in_words(value)),
        },
    }
}

/// As Python would print it: templates were written against that.
fn in_words(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(_) => json::dumps(value),
        Value::Array(_) | Value::Object(_) => json::dumps_indented_within(value, PART_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn holes_are_filled_as_hermes_fills_them() {
        let payload = json!({
            "action": "opened", "draft": false, "number": 7, "nothing": null, "ratio": 1.0,
            "pull_request": {"title": "Fix {action}", "labels": ["a", "ü"], "user": {"login": "ann"}},
        });
        for (template, expected) in [
            ("{action} #{number}: {pull_request.title}", "opened #7: Fix {action}"),
            ("{pull_request.user.login} {draft} {nothing} {ratio}", "ann False None 1.0"),
            (
                "{pull_request.missing} {missing.deep} {action.deep}",
                "{pull_request.missing} {missing.deep} {action.deep}",
            ),
            ("{event_type}!", "pull_request!"),
            ("{pull_request.labels}", "[\n  \"a\",\n  \"\\u00fc\"\n]"),
            ("{ action } {} {a b} {{action}}", "{ action } {} {a b} {opened}"),
            ("{action", "{action"),
            ("}{", "}{"),
        ] {
            assert_eq!(filled(template, &payload, "pull_request"), expected, "{template}");
        }
        assert!(filled("{__raw__}", &payload, "").starts_with("{\n  \"action\": \"opened\","));
        assert_eq!(
            prompt("", &json!({"a": 1}), "ping", "ci"),
            "Webhook event 'ping' on route 'ci':\n\n```json\n{\n  \"a\": 1\n}\n```"
        );
        let long = json!({"text": "x".repeat(10_000), "list": vec!["y".repeat(100); 100]});
        assert_eq!(filled("{__raw__}", &long, "").chars().count(), 4000);
        assert_eq!(filled("{list}", &long, "").chars().count(), 2000);
        assert_eq!(filled("{text}", &long, "").chars().count(), 10_000);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(|number| json!(number)),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c.{}]{1,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_template_never_breaks(template in "(\\{|\\}|[a-c]|\\.|__raw__|event_type|ü|.){0,40}", payload in value(), event in ".{0,8}") {
            let _ = prompt(&template, &payload, &event, "route");
        }

        #[test]
        fn words_without_holes_stay(template in "[^{}]{0,80}", payload in value()) {
            prop_assert_eq!(filled(&template, &payload, "x"), template);
        }
    }
}
