//! The status of an agent, and of the other agents of its process.
//!
//! - `GET /api/status`: the agent in full: what waits, what runs, what is stuck and why, each
//!   platform, each MCP server; of the other agents of its process whether they run, and counts, for their key is another
//! - `POST /api/control/restart`: the agent finishes what runs and begins anew; so does the process, if it has no
//!   other agent. With `{"all": true}` the process begins anew once each of its agents that run was asked so, each with
//!   its own key: `others` are those that were not yet. The answer comes before it does; `started` of the status is
//!   another time afterwards, and `instance` another one if the process began anew
//!
//! Times are seconds since 1970, with a fraction.

use crate::App;
use crate::control;
use crate::error::ApiError;
use axum::Json;
use axum::extract::{Request, State};
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use throughline_core::Time;
use throughline_core::home_status::{HomeStatus, Why};
use throughline_core::port::{AgentApi, Health, Question, Reading, Remembering, Status};
use throughline_core::redact::redacted;

/// The process around the agents.
pub trait ProcessHost: Send + Sync {
    /// Another one after every start.
    fn instance(&self) -> String;
    /// Every agent that belongs to the process, running or not, in order.
    fn hosted_agents(&self) -> Vec<HostedAgent>;
    /// Begins to stop, in order to start again, as far as an order for the agent of this home goes. The error is a
    /// sentence.
    fn restart(&self, home: &str, scope: RestartScope) -> Result<RestartOutcome, String>;
}

/// What is to begin anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartScope {
    Agent,
    /// The process with all its agents. It takes an order for each of them.
    Process,
}

/// What becomes of an order to restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartOutcome {
    Agent,
    Process,
    /// Nothing yet: the agents of these homes have to be asked, too.
    Awaits(Vec<String>),
}

/// One agent of the process.
pub struct HostedAgent {
    pub name: String,
    /// The path of its home, as the file system resolves it: which agent it is.
    pub home: String,
    pub condition: AgentCondition,
}

pub enum AgentCondition {
    Running(Arc<dyn AgentApi>),
    Starting,
    /// Why it does not run, since when, and when that is tried again.
    Down {
        why: String,
        since: Time,
        retry_at: Option<Time>,
    },
}

/// A process with one agent that cannot be restarted.
pub struct SingleAgent;

impl ProcessHost for SingleAgent {
    fn instance(&self) -> String {
        String::new()
    }

    fn hosted_agents(&self) -> Vec<HostedAgent> {
        Vec::new()
    }

    fn restart(&self, _home: &str, _scope: RestartScope) -> Result<RestartOutcome, String> {
        Err("this gateway belongs to a command that ends with it; end that one".to_owned())
    }
}

pub async fn status(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let Reading::HomeStatus(home) = app.api.read(Question::HomeStatus).await? else {
        return Err(ApiError::unreadable());
    };
    let status = app.api.status();
    let mut shown = json!({
        "object": "throughline.status",
        "agent": app.options.agent,
        "version": app.options.version,
        "instance": app.options.host.instance(),
        "pid": std::process::id(),
        "started": seconds(app.started),
        "now": seconds(app.api.now()),
        "model": status.model,
        "engine": status.engine,
        "plugins": (app.options.plugins)(),
        "mcp_servers": (app.options.servers)(),
        "memory": status.memory.as_ref().map(provider),
    });
    merge(&mut shown, gauges(&status));
    merge(&mut shown, home_status_json(&home));
    shown["platforms"] = platforms(&status);
    shown["cut_chains"] = app.api.cuts().await.iter().map(crate::control::cut_chain).collect();
    shown["agents"] = app.options.host.hosted_agents().iter().map(member).collect();
    Ok(Json(shown))
}

pub async fn restart(State(app): State<Arc<App>>, request: Request) -> Result<Json<Value>, ApiError> {
    let order = control::order(&app, request).await?;
    if !order.is_ours {
        let message = "This key restarts its own agent and no other; ask with the key of that one's home.";
        return Err(ApiError::new(StatusCode::FORBIDDEN, message).code("not_this_agent"));
    }
    let instance = app.options.host.instance();
    let scope = if order.all { RestartScope::Process } else { RestartScope::Agent };
    match app.options.host.restart(&app.options.home, scope) {
        Ok(restart) => {
            let (scope, others) = match restart {
                RestartOutcome::Agent => ("agent", Vec::new()),
                RestartOutcome::Process => ("process", Vec::new()),
                RestartOutcome::Awaits(homes) => ("none", homes),
            };
            let others: Vec<Value> = others.into_iter().map(|home| json!({"home": home})).collect();
            Ok(Json(json!({
                "object": "throughline.restarting", "instance": instance, "scope": scope, "others": others,
            })))
        }
        Err(why) => {
            let message = format!("The gateway cannot be restarted from here: {why}.");
            Err(ApiError::new(StatusCode::CONFLICT, message).code("cannot_restart"))
        }
    }
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

fn gauges(status: &Status) -> Value {
    json!({
        "ready": status.ready,
        "draining": status.draining,
        "unwritable": status.unwritable.as_deref().map(redacted),
        "model_trouble": status.model_trouble.as_deref().map(redacted),
        "halted": status.halted,
        "active_sessions": status.active_sessions,
        "running_turns": status.running_turns,
        "waiting_inputs": status.waiting_inputs,
        "undelivered": status.undelivered,
    })
}

fn provider(memory: &Remembering) -> Value {
    json!({
        "provider": memory.provider,
        "state": if memory.failures == 0 { "up" } else { "away" },
        "failures": memory.failures,
        "tools": memory.tools,
    })
}

/// The memory outside, and where the home stands: what `/memory` tells of it.
pub fn remembering_json(memory: &Remembering, status: &HomeStatus) -> Value {
    let mut shown = home_status_json(status);
    shown["memory"] = provider(memory);
    shown
}

fn platforms(status: &Status) -> Value {
    let shown = status.platforms.iter().map(|(name, health)| {
        let (state, detail) = match health {
            Health::Starting => ("starting", None),
            Health::Up => ("up", None),
            Health::Waiting(why) => ("waiting", Some(redacted(why))),
            Health::Refused(why) => ("refused", Some(redacted(why))),
        };
        json!({"name": name, "state": state, "detail": detail})
    });
    shown.collect()
}

fn member(member: &HostedAgent) -> Value {
    let mut shown = json!({"agent": member.name, "home": member.home});
    match &member.condition {
        AgentCondition::Running(api) => {
            shown["state"] = "running".into();
            let status = api.status();
            merge(&mut shown, gauges(&status));
            let troubled =
                |(_, health): &&(String, Health)| matches!(health, Health::Waiting(_) | Health::Refused(_));
            shown["platforms_troubled"] = status.platforms.iter().filter(troubled).count().into();
        }
        AgentCondition::Starting => shown["state"] = "starting".into(),
        AgentCondition::Down { why, since, retry_at } => {
            shown["state"] = "down".into();
            shown["why"] = redacted(why).into();
            shown["since"] = seconds(*since);
            shown["retry_at"] = retry_at.map(seconds).unwrap_or_default();
        }
    }
    shown
}

/// A home as its store shows it: the same for a gateway that runs and for one that does not.
pub fn home_status_json(status: &HomeStatus) -> Value {
    json!({
        "sessions": status.sessions,
        "open_sessions": status.open_sessions,
        "places": places(status),
        "waiting": status.waiting,
        "oldest_waiting": oldest_waiting(status),
        "pending_replies": status.undelivered,
        "oldest_undelivered": oldest_undelivered(status),
        "refused_replies": status.refused,
        "latest_refused_replies": latest_refused(status),
        "running": running(status),
        "compressing": compressing(status),
        "handing_over": status.handing_over,
        "handovers_parked": status.handovers_parked,
        "latest_handovers_parked": latest_handovers_parked(status),
        "reviews_due": status.reviews_due,
        "reviews_parked": status.reviews_parked,
        "unkept": status.unkept,
        "unkept_refused": status.unkept_refused,
        "unkept_error": status.unkept_error.as_deref().map(redacted),
        "recalls_missed": status.recalls_missed,
        "halted_sessions": status.halted_sessions,
        "home_halted": status.halted,
        "parked": status.parked,
    })
}

fn places(status: &HomeStatus) -> Value {
    let places = status.places.iter().map(|place| {
        json!({
            "source": place.source,
            "last_received": place.last_received.map(seconds),
            "last_delivered": place.last_delivered.map(seconds),
        })
    });
    places.collect()
}

fn oldest_waiting(status: &HomeStatus) -> Option<Value> {
    let waiting = status.oldest_waiting.as_ref()?;
    let why = match waiting.why {
        Why::Halted => "halted",
        Why::Asking => "asking",
        Why::Turn => "turn",
        Why::Compression => "compression",
        Why::Next => "next",
    };
    Some(json!({
        "session": waiting.session.as_str(),
        "number": waiting.seq.0,
        "since": seconds(waiting.since),
        "why": why,
    }))
}

fn oldest_undelivered(status: &HomeStatus) -> Option<Value> {
    let reply = status.oldest_undelivered.as_ref()?;
    Some(json!({
        "key": reply.key,
        "session": reply.session.as_str(),
        "platform": reply.platform,
        "since": seconds(reply.since),
        "attempts": reply.attempts,
        "error": reply.error.as_deref().map(redacted),
        "not_before": seconds(reply.not_before),
    }))
}

fn latest_refused(status: &HomeStatus) -> Value {
    let refused = status.latest_refused.iter().map(|reply| {
        json!({
            "key": reply.key,
            "platform": reply.platform,
            "chat": reply.chat,
            "since": seconds(reply.since),
            "error": reply.error.as_deref().map(redacted),
        })
    });
    refused.collect()
}

fn running(status: &HomeStatus) -> Value {
    let running = status.running.iter().map(|turn| {
        json!({
            "session": turn.session.as_str(),
            "source": turn.source,
            "since": seconds(turn.since),
            "step": turn.step,
            "tools": turn.tools,
            "asking": turn.asking,
        })
    });
    running.collect()
}

fn compressing(status: &HomeStatus) -> Value {
    let compressing = status.compressing.iter().map(|compression| {
        json!({
            "session": compression.session.as_str(),
            "since": seconds(compression.since),
            "attempts": compression.attempts,
            "ready": compression.ready,
        })
    });
    compressing.collect()
}

fn latest_handovers_parked(status: &HomeStatus) -> Value {
    let parked = status.latest_handovers_parked.iter().map(|handover| {
        json!({
            "session": handover.session.as_str(),
            "epoch": handover.epoch.0,
            "step": redacted(&handover.why),
            "attempts": handover.attempts,
            "since": seconds(handover.at),
        })
    });
    parked.collect()
}

fn seconds(time: Time) -> Value {
    json!(time.0 as f64 / 1e6)
}
