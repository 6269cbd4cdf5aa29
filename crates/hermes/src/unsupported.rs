//! What a Hermes home may be set up for that has no counterpart here, by name.
//!
//! `throughline adopt` names it before anything is changed: a platform whose people would get
//! no answer, a job that would not run. Names only: what is switched on is read from the same places in
//! which Hermes looks.
//!
//! Deliberately absent: files, and any opinion on whether it matters.

use crate::config::platforms::Platforms;
use crate::config::support::{Support, VARIABLES, is_given};
use serde_json::Value;

/// Chat platforms that are ours, too.
pub const CARRIED: [&str; 5] = ["telegram", "discord", "slack", "webhook", "api_server"];

/// Platforms that are switched on and are not ours.
pub fn platforms(written: &Platforms, variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let off = |name: &str| written.all.iter().any(|platform| platform.name == name && !platform.enabled);
    let by_file =
        written.all.iter().filter(|platform| platform.enabled).map(|platform| platform.name.as_str());
    let by_variable =
        VARIABLES.iter().filter(|line| line.support == Support::Named && is_given(line, variable));
    let by_variable = by_variable.filter_map(|line| line.platform).filter(|platform| !off(platform));
    let mut found: Vec<String> =
        by_file.chain(by_variable).filter(|name| !CARRIED.contains(name)).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    found
}

/// The scheduled jobs in the text of `cron/jobs.json` that are not switched off: name and schedule.
/// None: it cannot be read.
pub fn jobs(text: &str) -> Option<Vec<String>> {
    let read: Value = serde_json::from_str(text).ok()?;
    let list = read.as_array().or_else(|| read.get("jobs")?.as_array())?;
    let on = list.iter().filter(|job| job["enabled"].as_bool() != Some(false) && job["state"] != "completed");
    let told = on.map(|job| {
        let of = |name: &str| job[name].as_str().filter(|text| !text.is_empty());
        let name = of("name").or_else(|| of("id")).unwrap_or("a job without a name");
        let when =
            of("schedule_display").or_else(|| job["schedule"]["display"].as_str()).or_else(|| of("schedule"));
        match when {
            Some(when) => format!("{name} ({when})"),
            None => name.to_owned(),
        }
    });
    Some(told.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn found(config: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let config = Config::parse(config, &variable).unwrap();
        let (written, _) = Platforms::read(&config.root, None, &variable);
        platforms(&written, &variable)
    }

    #[test]
    fn a_platform_that_is_not_ours_is_named_wherever_it_was_switched_on() {
        let both = [("SIGNAL_HTTP_URL", "http://127.0.0.1:1"), ("SIGNAL_ACCOUNT", "+1")];
        assert_eq!(found("", &both), ["signal"]);
        assert_eq!(found("", &both[..1]), [""; 0], "half of what it needs switches nothing on");
        assert_eq!(found("platforms: {signal: {enabled: false}}\n", &both), [""; 0]);
        assert_eq!(found("platforms: {matrix: {enabled: true}}\n", &[("MATRIX_PASSWORD", "x")]), ["matrix"]);
        assert_eq!(found("", &[("WHATSAPP_ENABLED", "false")]), [""; 0]);
        assert_eq!(found("", &[("TELEGRAM_BOT_TOKEN", "1:x"), ("HASS_TOKEN", "x")]), ["homeassistant"]);
    }

    #[test]
    fn jobs_are_named_with_when_they_run() {
        let text = r#"{"jobs": [
            {"id": "a1", "name": "news", "schedule": {"kind": "cron", "display": "0 8 * * *"}, "enabled": true},
            {"id": "b2", "schedule_display": "every 2h"},
            {"id": "c3", "name": "old", "enabled": false}]}"#;
        assert_eq!(jobs(text).unwrap(), ["news (0 8 * * *)", "b2 (every 2h)"]);
        assert_eq!(jobs("[]").unwrap(), [""; 0]);
        assert_eq!(jobs("{"), None);
        assert_eq!(jobs("{\"jobs\": 3}"), None);
    }
}
