//! Honcho, asked for real: what is kept, once, and what is shown, to whom.
//!
//! Against the stand-in of this repository, or against a real server before which the same faults
//! stand: `HONCHO_TEST_URL=http://host:port` (and `HONCHO_TEST_KEY`, if it asks for one).

mod migration;
mod recall;
mod sessions;
mod tools;
mod turns;
mod uncertain;

use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use throughline_core::id::{Generation, Seq, TurnId};
use throughline_core::memory::{Place, Retention, Scope, Wanted};
use throughline_core::time::Time;
use throughline_memory::honcho::settings::{SettingsFile, SettingsSources};
use throughline_memory::honcho::{Audience, Honcho, HonchoSettings, HonchoSurroundings};
use throughline_servers::HonchoServer;
use throughline_servers::honcho::Kept;

const SETTLING: Duration = Duration::from_millis(400);
/// Longer than a busy machine takes from a failure to the look that follows it.
const PATIENT: Duration = Duration::from_secs(3);
const CHAT: &str = "agent-main-telegram-dm-42";

struct World {
    server: HonchoServer,
    workspace: String,
}

impl World {
    async fn start() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let server = match std::env::var("HONCHO_TEST_URL") {
            Ok(url) => {
                eprintln!("HONCHO: against the REAL server at {url}");
                HonchoServer::before(&url).await
            }
            Err(_) => {
                eprintln!("HONCHO: against the STAND-IN (set HONCHO_TEST_URL for a real server)");
                HonchoServer::start().await
            }
        };
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { server, workspace: format!("test-{now}-{}-{number}", std::process::id()) }
    }

    /// What a test makes up about people only the stand-in believes.
    async fn made_up() -> Option<Self> {
        let world = Self::start().await;
        match world.server.is_real() {
            true => {
                eprintln!("HONCHO: SKIPPED: a real server cannot be told what it knows");
                None
            }
            false => Some(world),
        }
    }

    fn honcho(&self) -> Honcho {
        self.honcho_with(json!({}), Audience::Many)
    }

    fn honcho_with(&self, more: Value, audience: Audience) -> Honcho {
        let mut text = json!({"baseUrl": self.server.base(), "workspace": self.workspace, "timeout": 1.0});
        text["hosts"] = json!({"hermes": {"apiKey": std::env::var("HONCHO_TEST_KEY").ok()}});
        text["observationMode"] = "directional".into();
        text.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let text = text.to_string();
        let files = [SettingsFile { path: "honcho.json", text: &text }];
        let settings =
            HonchoSettings::parse(&SettingsSources { files: &files, ..SettingsSources::default() }, |_| None)
                .unwrap();
        let surroundings = HonchoSurroundings { directory: "/srv/garden".into(), repository: None, audience };
        Honcho::new(settings, surroundings).settling(SETTLING)
    }

    /// One whose agent works in this directory, which is a repository of that name.
    fn honcho_in(&self, directory: &str, more: Value) -> Honcho {
        let settings = self.honcho_with(more, Audience::One).settings().clone();
        let repository = directory.rsplit('/').next().map(|name| format!("repo-of-{name}"));
        let surroundings =
            HonchoSurroundings { directory: directory.into(), repository, audience: Audience::One };
        Honcho::new(settings, surroundings).settling(SETTLING)
    }

    async fn kept(&self, session: &str) -> Vec<Kept> {
        self.server.messages(&self.workspace, session).await
    }

    /// What lies there: who said what, and in which turn.
    async fn told(&self, session: &str) -> Vec<(String, String, String)> {
        let turn = |kept: &Kept| kept.metadata["turn_id"].as_str().unwrap_or_default().to_owned();
        self.kept(session)
            .await
            .iter()
            .map(|kept| (kept.peer.clone(), kept.content.clone(), turn(kept)))
            .collect()
    }
}

fn scope(user: &str) -> Scope {
    Scope {
        agent: "main".into(),
        chat: Some(format!("agent:main:telegram:dm:{user}").parse().unwrap()),
        session: format!("20260528_093510_{user}").parse().unwrap(),
        generation: Generation(1),
        parent: None,
        platform: "telegram".into(),
        user: Some(user.into()),
        user_name: None,
        place: Place { kind: Some("dm".into()), ..Place::default() },
        title: None,
        document: None,
        meant: None,
    }
}

/// A call of one of its tools.
fn wanted<'a>(name: &'a str, arguments: &'a str) -> Wanted<'a> {
    Wanted { key: "s/1/0/0", name, arguments }
}

fn terminal() -> Scope {
    let place = Place::default();
    Scope { chat: None, user: None, platform: "cli".into(), place, ..scope("0") }
}

fn settled(user: &str) -> Scope {
    Scope { document: Some(format!("agent-main-telegram-dm-{user}")), ..scope(user) }
}

fn turn(number: u64, said: &str, replied: &str) -> Retention {
    let scope = settled("42");
    Retention {
        key: format!("{}/{number}", scope.session.as_str()),
        document: CHAT.into(),
        scope,
        turn: TurnId(Seq(number)),
        index: number,
        message_count: number * 2,
        at: Time(1_779_960_910_000_000),
        said: vec![said.into()],
        replied: replied.into(),
        tried: false,
    }
}

fn again(retention: &Retention) -> Retention {
    Retention { tried: true, ..retention.clone() }
}

fn answer(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
