//! `throughline status`: which agents there are and how each is doing.
//!
//! Of a gateway that runs, from its control API; of a home at rest, from its store, which is only
//! read. The exit code is 0 where all is well, 1 where something needs a person: an agent that
//! cannot start, a disk that cannot be written, a platform that refuses us, replies that will never
//! leave, a message that will not be taken up.

use crate::client::Client;
use crate::cmd::mcp::{line, needs_a_person};
use crate::out::{Column, Page, Table, Tint, one_line, write_json};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;
use throughline_core::Time;
use throughline_core::home_status::HomeStatus;
use throughline_core::port::BrowseRead as _;
use throughline_home::config::in_a_line;
use throughline_home::home::Home;

/// Show which agents run, what they are at, and what is stuck
#[derive(Debug, clap::Args)]
pub struct Status {
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

/// One home that may have a gateway.
pub struct StatusPlace {
    pub home: Home,
    /// What it would be called if it ran.
    pub name: String,
    pub gateway: Option<Client>,
    /// The process that has the home.
    pub occupied: Option<String>,
    /// What its settings ask for that is not carried.
    pub not_carried: Vec<String>,
}

/// A message that has waited so long, with nothing in its way, is stuck.
const WAITS_MAX: Duration = Duration::from_secs(60);
/// How long a reply that will never arrive is told of.
const REFUSED_TOLD: Duration = Duration::from_secs(7 * 86_400);

impl Status {
    pub async fn run(
        self,
        places: Vec<StatusPlace>,
        now: Time,
        page: &Page,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let mut shown = Vec::new();
        // By home: agents of two processes may have one name.
        let mut told: BTreeMap<String, Value> = BTreeMap::new();
        for place in &places {
            let mut agent = look(place).await;
            agent["home"] = json!(place.home.path().display().to_string());
            agent["not_carried"] = json!(place.not_carried);
            // What the process says of agents that cannot speak for themselves.
            for member in agent["agents"].as_array().into_iter().flatten() {
                if let Some(home) = member["home"].as_str() {
                    told.entry(home.to_owned()).or_insert_with(|| member.clone());
                }
            }
            shown.push(agent);
        }
        for (agent, place) in shown.iter_mut().zip(&places) {
            if matches!(agent["state"].as_str(), Some("at rest" | "unreachable"))
                && let Some(member) =
                    told.get(&place.home.identity()).filter(|member| member["state"] != "running")
            {
                for field in ["state", "why", "since", "retry_at"] {
                    agent[field] = member[field].clone();
                }
            }
            agent["troubles"] = troubles(agent, now).into();
        }
        let well = shown.iter().all(|agent| agent["troubles"].as_array().is_some_and(Vec::is_empty));
        match self.json {
            true => write_json(&json!({"object": "list", "ok": well, "data": shown}), out)?,
            false => show(&shown, now, page, out)?,
        }
        Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// What there is to know of one home.
async fn look(place: &StatusPlace) -> Value {
    let mut unanswered = None;
    if let Some(gateway) = &place.gateway {
        match gateway.home_status().await {
            Ok(mut status) => {
                status["state"] = "running".into();
                return status;
            }
            Err(error) => unanswered = Some(error.to_string()),
        }
    }
    let store = throughline_store::Home::at(place.home.path()).reader();
    let status = match store {
        // No conversation was begun here yet.
        Err(throughline_store::OpenError::Missing(_)) => Ok(HomeStatus::default()),
        store => store.map_err(anyhow::Error::from).and_then(|store| Ok(store.home_status()?)),
    };
    let mut agent = match status {
        Ok(status) => throughline_server::home_status_json(&status),
        Err(error) => json!({ "unreadable": format!("{error:#}") }),
    };
    agent["agent"] = place.name.as_str().into();
    match (&place.occupied, unanswered) {
        (Some(owner), why) => {
            agent["state"] = "unreachable".into();
            agent["why"] = why.map_or_else(|| owner.clone(), |why| format!("{owner}; {why}")).into();
        }
        (None, _) => agent["state"] = "at rest".into(),
    }
    agent
}

/// The memory outside of one home, as [`remembering`] tells of it. `written`: what it is called, or why it is off,
/// where no gateway says so.
pub async fn outside(place: &StatusPlace, written: Result<Option<String>, String>) -> Value {
    let mut agent = look(place).await;
    if agent["memory"].is_null() {
        agent["memory"] = match written {
            Ok(name) => json!({ "provider": name }),
            Err(why) => json!({ "off": why }),
        };
    }
    agent
}

/// What needs a person, in sentences.
fn troubles(agent: &Value, now: Time) -> Vec<String> {
    let mut found = Vec::new();
    let text = |name: &str| agent[name].as_str().map(one_line);
    let count = |name: &str| agent[name].as_u64().unwrap_or(0);
    match agent["state"].as_str() {
        Some("down") => found.push(format!("does not run: {}", text("why").unwrap_or_default())),
        Some("unreachable") => found.push(format!("cannot be asked: {}", text("why").unwrap_or_default())),
        _ => {}
    }
    found.extend(text("unreadable").map(|why| format!("its store cannot be read: {why}")));
    found.extend(text("unwritable").map(|why| format!("cannot write: {why}")));
    found.extend(text("model_trouble").map(|why| format!("the model does not answer: {why}")));
    for platform in agent["platforms"].as_array().into_iter().flatten() {
        if let ("waiting" | "refused", Some(why)) =
            (platform["state"].as_str().unwrap_or_default(), platform["detail"].as_str())
        {
            found.push(format!("{}: {}", platform["name"].as_str().unwrap_or_default(), one_line(why)));
        }
    }
    found.extend(refused(agent, now));
    if count("parked") > 0 {
        found.push(format!(
            "{} set aside after bringing the gateway down",
            counted(count("parked"), "turn", "turns")
        ));
    }
    found.extend(set_aside(agent));
    found.extend(cut_chains(agent));
    for plugin in agent["plugins"].as_array().into_iter().flatten() {
        if matches!(plugin["state"].as_str(), Some("died" | "failed" | "silent" | "unusable")) {
            let why =
                plugin["why"].as_str().or(plugin["last_error"].as_str()).map(one_line).unwrap_or_default();
            let (name, state) =
                (plugin["name"].as_str().unwrap_or_default(), &plugin["state"].as_str().unwrap_or_default());
            found.push(format!(
                "the plugin {name} is {state}: {why}; `throughline plugin logs {name}` shows what it said"
            ));
        }
    }
    for server in agent["mcp_servers"].as_array().into_iter().flatten() {
        if needs_a_person(server) {
            found.push(line(server, now));
        }
    }
    if count("unkept_refused") > 0 {
        found.push(format!(
            "the memory provider refused {}; `throughline memory jobs` shows why",
            counted(count("unkept_refused"), "turn", "turns")
        ));
    }
    if agent["home_halted"] == true {
        found.push("silenced by its operator; `throughline resume` lets it go on".to_owned());
    }
    let waiting = &agent["oldest_waiting"];
    if agent["state"] == "running" && waiting["why"] == "next" && age(waiting, now) > WAITS_MAX {
        found.push(format!("a message has waited for {} and is not taken up", span(age(waiting, now))));
    }
    found
}

/// Replies that will never arrive, the latest by name. What cannot be changed is no trouble for ever.
fn refused(agent: &Value, now: Time) -> Option<String> {
    let latest = agent["latest_refused_replies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named: Vec<String> = latest
        .iter()
        .filter(|reply| age(reply, now) < REFUSED_TOLD)
        .map(|reply| {
            let said = |field: &str| one_line(reply[field].as_str().unwrap_or_default());
            let why = reply["error"].as_str().map_or("no reason is known".to_owned(), one_line);
            format!("{} to {} {} ({why})", said("key"), said("platform"), said("chat"))
        })
        .collect();
    if named.is_empty() {
        return None;
    }
    let count = agent["refused_replies"].as_u64().unwrap_or(0).max(named.len() as u64);
    let latest = if count > named.len() as u64 { "; the latest" } else { "" };
    Some(format!("{} will never arrive{latest}: {}", counted(count, "reply", "replies"), named.join("; ")))
}

/// Ends of conversations that were not heard of everywhere, the latest by name.
fn set_aside(agent: &Value) -> Option<String> {
    let count = agent["handovers_parked"].as_u64().filter(|count| *count > 0)?;
    let latest = agent["latest_handovers_parked"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named: Vec<String> = latest
        .iter()
        .map(|it| {
            let said = |field: &str| one_line(it[field].as_str().unwrap_or_default());
            let tries = counted(it["attempts"].as_u64().unwrap_or(0), "attempt", "attempts");
            format!("of {} at {}, after {tries}", said("session"), said("step"))
        })
        .collect();
    let latest = if count > named.len() as u64 { "; the latest" } else { "" };
    Some(format!(
        "{} set aside{latest}: {}; `throughline resume` tries again",
        counted(count, "hand-over", "hand-overs"),
        named.join("; ")
    ))
}

/// Agents that have used up what one message of a person may cause.
fn cut_chains(agent: &Value) -> Option<String> {
    let cut = agent["cut_chains"].as_array().filter(|cut| !cut.is_empty())?;
    let session = cut[0]["session_id"].as_str().map(one_line).unwrap_or_default();
    let count = counted(cut.len() as u64, "chain", "chains");
    Some(format!(
        "{count} between agents cut, the latest of {session}: no {} left; write there, or /continue, if they should go on",
        one_line(cut[0]["exceeded"].as_str().unwrap_or_default())
    ))
}

// ----------------------------------------------------------------------------------------- showing

fn show(agents: &[Value], now: Time, page: &Page, out: &mut dyn Write) -> io::Result<()> {
    if agents.is_empty() {
        return writeln!(out, "There is no home here; `throughline` begins one, or give it with --home.");
    }
    let mut table = Table::new([
        Column::text("AGENT"),
        Column::text("STATE"),
        Column::number("SESSIONS"),
        Column::number("RUNNING"),
        Column::number("WAITING"),
        Column::number("UNSENT"),
        Column::text("LAST IN"),
        Column::text("LAST OUT"),
        Column::flexible("PLATFORMS"),
    ]);
    for agent in agents {
        let number = |name: &str| agent[name].as_u64().map_or("-".to_owned(), |n| n.to_string());
        let running = agent["running"].as_array().map_or("-".to_owned(), |running| running.len().to_string());
        table.row([
            agent["agent"].as_str().unwrap_or_default().to_owned(),
            state(agent),
            number("open_sessions"),
            running,
            number("waiting"),
            number("pending_replies"),
            latest(agent, "last_received", now),
            latest(agent, "last_delivered", now),
            platforms(agent),
        ]);
    }
    table.write(page, out)?;
    for agent in agents {
        detail(agent, now, page, out)?;
    }
    Ok(())
}

fn state(agent: &Value) -> String {
    let word = agent["state"].as_str().unwrap_or_default();
    match (word, agent["draining"] == true, agent["home_halted"] == true || agent["halted"] == true) {
        ("running", true, _) => "stopping".to_owned(),
        ("running", _, true) => "silenced".to_owned(),
        ("running", ..) if agent["ready"] != true => "not ready".to_owned(),
        _ => word.to_owned(),
    }
}

fn latest(agent: &Value, name: &str, now: Time) -> String {
    let times = agent["places"].as_array().into_iter().flatten().filter_map(|place| place[name].as_f64());
    let latest =
        times.fold(None, |latest: Option<f64>, time| Some(latest.map_or(time, |other| other.max(time))));
    latest.map_or("-".to_owned(), |time| format!("{} ago", span(now.since(Time::from_seconds(time)))))
}

fn platforms(agent: &Value) -> String {
    let shown = agent["platforms"].as_array().into_iter().flatten().filter_map(|platform| {
        let (name, state) = (platform["name"].as_str()?, platform["state"].as_str()?);
        (name != throughline_core::input::AGENT_PLATFORM).then(|| match state {
            "up" => name.to_owned(),
            state => format!("{name} ({state})"),
        })
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Below the table: what is going on, and what is wrong.
fn detail(agent: &Value, now: Time, page: &Page, out: &mut dyn Write) -> io::Result<()> {
    let name = page.paint(Tint::Bold, agent["agent"].as_str().unwrap_or_default()).into_owned();
    let said = |value: &Value, field: &str| one_line(value[field].as_str().unwrap_or_default());
    let mut lines = Vec::new();
    for turn in agent["running"].as_array().into_iter().flatten() {
        let tools: Vec<_> =
            turn["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let doing = match (turn["asking"] == true, tools.is_empty()) {
            (true, _) => format!("waits for a person: {}", tools.join(", ")),
            (_, true) => "asking the model".to_owned(),
            (_, false) => format!("calling {}", tools.join(", ")),
        };
        let (since, step) = (span(age(turn, now)), &turn["step"]);
        lines.push(format!(
            "turn in {} ({}) for {since}, step {step}: {doing}",
            said(turn, "session"),
            said(turn, "source")
        ));
    }
    for one in agent["compressing"].as_array().into_iter().flatten() {
        let state = if one["ready"] == true { "ready" } else { "being written" };
        lines.push(format!("summary of {} {state} for {}", said(one, "session"), span(age(one, now))));
    }
    let count = |name: &str| agent[name].as_u64().unwrap_or(0);
    if count("reviews_due") > 0 {
        lines.push(format!("{} due", counted(count("reviews_due"), "review", "reviews")));
    }
    if count("reviews_parked") > 0 {
        lines.push(format!(
            "{} set aside after failing",
            counted(count("reviews_parked"), "review", "reviews")
        ));
    }
    lines.extend(remembering(agent));
    for server in agent["mcp_servers"].as_array().into_iter().flatten() {
        if !needs_a_person(server) {
            lines.push(line(server, now));
        }
    }
    let waiting = &agent["oldest_waiting"];
    if !waiting.is_null() {
        let why = match waiting["why"].as_str().unwrap_or_default() {
            "halted" => "its session is silenced",
            "asking" => "a tool waits for a person",
            "turn" => "the turn before it runs",
            "compression" => "a compression ends first",
            _ if agent["state"] == "running" => "it is next",
            _ => "no gateway runs",
        };
        let place = format!("{}/{}", said(waiting, "session"), waiting["number"]);
        lines.push(format!("oldest unanswered {place}, for {}: {why}", span(age(waiting, now))));
    }
    let reply = &agent["oldest_undelivered"];
    if !reply.is_null() {
        let why = match reply["error"].as_str() {
            Some(error) => format!("{} attempts, last: {}", reply["attempts"], one_line(error)),
            None if reply["attempts"] == 0 => "not attempted yet".to_owned(),
            None => "being sent".to_owned(),
        };
        let (key, platform) = (said(reply, "key"), said(reply, "platform"));
        lines.push(format!("oldest unsent {key} to {platform}, for {}: {why}", span(age(reply, now))));
    }
    let missing = agent["not_carried"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing: Vec<String> = missing.map(str::to_owned).collect();
    lines.extend(
        in_a_line(&missing)
            .map(|line| format!("not carried: {line}; `throughline config check` has the list")),
    );
    for line in lines {
        writeln!(out, "{name}  {line}")?;
    }
    for trouble in agent["troubles"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        writeln!(out, "{name}  {} {trouble}", page.paint(Tint::Red, "!"))?;
    }
    if let Some(at) = agent["retry_at"].as_f64() {
        writeln!(out, "{name}  tried again in {}", span(Time::from_seconds(at).since(now)))?;
    }
    Ok(())
}

/// The memory outside in a line, as a status tells of it. None: there is none, and nothing waits for one.
pub fn remembering(agent: &Value) -> Option<String> {
    let memory = &agent["memory"];
    let count = |name: &str| agent[name].as_u64().unwrap_or(0);
    let (unkept, refused, missed) = (count("unkept"), count("unkept_refused"), count("recalls_missed"));
    let name = match (memory["provider"].as_str(), unkept + refused) {
        (None, 0) => return None,
        (name, _) => name.unwrap_or_default(),
    };
    let mut parts = Vec::new();
    match memory["failures"].as_u64() {
        Some(0) => parts.push("in use".to_owned()),
        Some(failures) => parts.push(format!("not reached {}", counted(failures, "time", "times in a row"))),
        None => {}
    }
    parts.push(match unkept {
        0 => "has every turn".to_owned(),
        _ => format!("{} to be handed over", counted(unkept, "turn", "turns")),
    });
    parts.extend((refused > 0).then(|| format!("{refused} refused")));
    parts.extend((missed > 0).then(|| format!("{} missed so far", counted(missed, "reminder", "reminders"))));
    let tools: Vec<&str> =
        memory["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    parts.extend((!tools.is_empty()).then(|| format!("tools: {}", tools.join(", "))));
    parts.extend(agent["unkept_error"].as_str().map(|error| format!("last error: {}", one_line(error))));
    Some(format!("memory provider {name}: {}", parts.join("; ")).replace(" : ", ": "))
}

fn age(value: &Value, now: Time) -> Duration {
    value["since"].as_f64().map_or(Duration::ZERO, |since| now.since(Time::from_seconds(since)))
}

/// `5 s`, `12 min`, `3 h`, `4 d`
fn span(length: Duration) -> String {
    match length.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds / 60),
        seconds @ 7_200..=172_799 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::tests::{page, written};

    const NOW: Time = Time(1_000_000_000_000);

    fn agent() -> Value {
        json!({
            "agent": "work", "state": "running", "ready": true, "open_sessions": 3, "waiting": 2,
            "pending_replies": 1, "places": [{"source": "x", "last_received": 999_990.0, "last_delivered": null}],
            "platforms": [{"name": "agent", "state": "up"}, {"name": "x", "state": "waiting", "detail": "429"}],
            "running": [{"session": "S", "source": "x", "since": 999_700.0, "step": 2, "tools": ["terminal"], "asking": false}],
            "oldest_waiting": {"session": "S", "number": 7, "since": 999_000.0, "why": "turn"},
            "memory": {"provider": "hindsight", "state": "away", "failures": 2, "tools": ["recall"]},
            "unkept": 3, "unkept_refused": 0, "recalls_missed": 1, "unkept_error": "it is\naway",
            "oldest_undelivered": {"key": "S/6/reply", "platform": "x", "since": 990_000.0, "attempts": 3, "error": "chat\nnot found"},
        })
    }

    #[test]
    fn what_is_going_on_and_what_is_wrong_is_said_in_full_sentences() {
        let mut agent = agent();
        agent["troubles"] = troubles(&agent, NOW).into();
        let shown = written(|out| {
            show(&[agent], NOW, &page(None), out)?;
            Ok(ExitCode::SUCCESS)
        });
        for line in [
            "AGENT  STATE    SESSIONS  RUNNING  WAITING  UNSENT  LAST IN   LAST OUT  PLATFORMS",
            "work   running         3        1        2       1  10 s ago  -         x (waiting)",
            "work  turn in S (x) for 5 min, step 2: calling terminal",
            "work  memory provider hindsight: not reached 2 times in a row; 3 turns to be handed over; 1 reminder missed so \
             far; tools: recall; last error: it is away",
            "work  oldest unanswered S/7, for 16 min: the turn before it runs",
            "work  oldest unsent S/6/reply to x, for 2 h: 3 attempts, last: chat not found",
            "work  ! x: 429",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "no {line:?} in\n{shown}");
        }
    }

    #[test]
    fn p30_a_reply_that_will_never_arrive_is_named_and_forgiven_after_a_week() {
        let told = |count: u64, since: f64| {
            let reply =
                json!({"key": "S/6", "platform": "x", "chat": "42", "since": since, "error": "chat\ngone"});
            refused(&json!({"refused_replies": count, "latest_refused_replies": [reply]}), NOW)
        };
        assert_eq!(told(1, 999_000.0).unwrap(), "1 reply will never arrive: S/6 to x 42 (chat gone)");
        assert_eq!(
            told(2, 999_000.0).unwrap(),
            "2 replies will never arrive; the latest: S/6 to x 42 (chat gone)"
        );
        assert_eq!(told(2, 300_000.0), None);
    }

    #[test]
    fn p20_a_hand_over_that_was_set_aside_is_named_with_its_step() {
        let told = |count: u64| {
            let latest = json!([{"session": "S", "epoch": 1, "step": "notify.sh: exit\n7", "attempts": 8, "since": 1.0}]);
            set_aside(&json!({"handovers_parked": count, "latest_handovers_parked": latest}))
        };
        assert_eq!(told(0), None);
        assert_eq!(
            told(1).unwrap(),
            "1 hand-over set aside: of S at notify.sh: exit 7, after 8 attempts; `throughline resume` tries again"
        );
        assert!(told(2).unwrap().starts_with("2 hand-overs set aside; the latest: of S at"));
    }

    #[test]
    fn the_exit_code_tells_trouble_and_only_trouble() {
        let well = json!({"state": "running", "platforms": [{"name": "x", "state": "up", "detail": null}]});
        assert_eq!(troubles(&well, NOW), Vec::<String>::new());
        assert_eq!(
            troubles(&json!({"state": "at rest", "oldest_waiting": {"why": "next", "since": 0.0}}), NOW),
            Vec::<String>::new()
        );
        for (field, value) in [
            ("state", json!("down")),
            ("unwritable", json!("no space left")),
            ("model_trouble", json!("gpt at localhost did not answer")),
            ("latest_refused_replies", json!([{"key": "S/6", "since": 999_000.0}])),
            ("parked", json!(2)),
            ("unkept_refused", json!(1)),
            ("handovers_parked", json!(1)),
            ("home_halted", json!(true)),
            ("oldest_waiting", json!({"why": "next", "since": 0.0})),
            ("platforms", json!([{"name": "x", "state": "refused", "detail": "revoked"}])),
        ] {
            let mut agent = well.clone();
            agent[field] = value;
            assert_eq!(troubles(&agent, NOW).len(), 1, "{agent}");
        }
    }
}
