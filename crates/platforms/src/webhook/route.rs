//! Routes: what is delivered where, from the configuration and from the file that agents write.
//!
//! A route without a secret is no route, and one that asks for something we do not do (a script, an
//! unknown filter) is off by name rather than open without it.

use super::filter::Filter;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use throughline_core::redact::Secret;

/// Stands for "no secret", where it cannot be reached from outside.
const INSECURE: &str = "INSECURE_NO_AUTH";

#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    pub lock: Lock,
    pub enabled: bool,
    /// Empty: all.
    pub events: Vec<String>,
    pub filters: Vec<Filter>,
    pub prompt: String,
    pub skills: Vec<String>,
    /// `log`, `github_comment`, or a platform.
    pub deliver: String,
    pub extra: Map<String, Value>,
    /// What is delivered is the message: no turn.
    pub deliver_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lock {
    Secret(Secret),
    /// For tests, on loopback.
    Open,
}

/// Routes by name, and those that are off with the reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebhookRoutes {
    pub on: BTreeMap<String, Route>,
    pub off: BTreeMap<String, String>,
}

/// What holds for all routes.
#[derive(Clone, Copy)]
pub struct RouteDefaults<'a> {
    pub secret: Option<&'a Secret>,
    pub loopback: bool,
}

impl WebhookRoutes {
    /// From Hermes' `routes`, or from `webhook_subscriptions.json`.
    pub fn read(written: &Value, common: RouteDefaults<'_>) -> Self {
        let mut routes = Self::default();
        for (name, value) in written.as_object().into_iter().flatten() {
            match Route::read(value, common) {
                Ok(route) => {
                    routes.on.insert(name.clone(), route);
                }
                Err(reason) => {
                    routes.off.insert(name.clone(), reason);
                }
            }
        }
        routes
    }

    /// What the configuration says wins over what an agent wrote.
    pub fn beside(&self, others: WebhookRoutes) -> Self {
        let is_ours = |name: &String| self.on.contains_key(name) || self.off.contains_key(name);
        let mut all = self.clone();
        all.on.extend(others.on.into_iter().filter(|(name, _)| !is_ours(name)));
        all.off.extend(others.off.into_iter().filter(|(name, _)| !is_ours(name)));
        all
    }
}

impl Route {
    fn read(value: &Value, common: RouteDefaults<'_>) -> Result<Self, String> {
        let fields = value.as_object().ok_or("it is not a mapping")?;
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let secret = match fields.get("secret") {
            None => common.secret.map(|secret| secret.expose().to_owned()).unwrap_or_default(),
            Some(secret) => secret.as_str().unwrap_or_default().to_owned(),
        };
        let lock = match secret.as_str() {
            "" => return Err("it has no secret; set `secret` for the route or for all".to_owned()),
            INSECURE if common.loopback => Lock::Open,
            INSECURE => return Err(format!("{INSECURE} is for tests on loopback; set a secret")),
            _ => Lock::Secret(Secret::new(secret)),
        };
        let deliver = match text("deliver") {
            "" => "log".to_owned(),
            deliver => deliver.to_owned(),
        };
        let deliver_only = fields.get("deliver_only").is_some_and(is_true);
        if deliver_only && deliver == "log" {
            return Err("deliver_only needs a `deliver` that somebody reads".to_owned());
        }
        if fields.get("script").is_some_and(|script| !script.is_null() && script != "") {
            return Err(
                "it has a `script`, and scripts for webhooks are not run here; use `filters`".to_owned()
            );
        }
        Ok(Self {
            lock,
            enabled: fields.get("enabled") != Some(&Value::Bool(false)),
            events: list(fields.get("events")),
            filters: Filter::read_all(fields.get("filters"))?,
            prompt: text("prompt").to_owned(),
            skills: list(fields.get("skills")),
            deliver,
            extra: fields.get("deliver_extra").and_then(Value::as_object).cloned().unwrap_or_default(),
            deliver_only,
        })
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(value) => *value,
        Value::String(text) => matches!(text.to_lowercase().as_str(), "true" | "yes" | "on" | "1"),
        _ => false,
    }
}

fn list(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(text)) => {
            text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_route_that_would_be_weaker_than_it_says_is_off_by_name() {
        let written = json!({
            "good": {"secret": "s", "events": ["push"], "skills": "a, b", "deliver_only": true, "deliver": "telegram"},
            "plain": {},
            "empty": {"secret": ""},
            "open": {"secret": "INSECURE_NO_AUTH"},
            "mute": {"secret": "s", "deliver_only": true},
            "scripted": {"secret": "s", "script": "x.py"},
            "filtered": {"secret": "s", "filters": [{"field": "a", "of_a_later_hermes": 1}]},
            "rubbish": 7,
        });
        let secret = Secret::new("common");
        let outside = WebhookRoutes::read(&written, RouteDefaults { secret: None, loopback: false });
        assert_eq!(outside.on.keys().collect::<Vec<_>>(), ["good"]);
        assert_eq!(outside.off.len(), 7);
        assert_eq!(outside.on["good"].skills, ["a", "b"]);
        let inside = WebhookRoutes::read(&written, RouteDefaults { secret: Some(&secret), loopback: true });
        assert_eq!(inside.on.keys().collect::<Vec<_>>(), ["good", "open", "plain"]);
        assert_eq!(inside.on["plain"].lock, Lock::Secret(secret));
        assert_eq!(inside.on["open"].lock, Lock::Open);
        assert!(inside.off["empty"].contains("secret"), "an empty secret is not the common one");
    }

    #[test]
    fn the_configuration_wins_even_where_it_is_off() {
        let common = RouteDefaults { secret: None, loopback: false };
        let ours = WebhookRoutes::read(&json!({"a": {"secret": "1"}, "b": {}}), common);
        let theirs = WebhookRoutes::read(
            &json!({"a": {"secret": "2"}, "b": {"secret": "2"}, "c": {"secret": "2"}}),
            common,
        );
        let all = ours.beside(theirs);
        assert_eq!(all.on["a"].lock, Lock::Secret(Secret::new("1")));
        assert!(!all.on.contains_key("b") && all.on.contains_key("c"));
    }
}
