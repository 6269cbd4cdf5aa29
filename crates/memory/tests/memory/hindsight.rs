//! Hindsight, as a client of it sees it: a stand-in that fails in every way there is, and the real server behind
//! a line that loses things.

mod faults;
mod raw_http;
mod real;

use serde_json::{Value, json};
use throughline_core::id::{Generation, Seq, TurnId};
use throughline_core::memory::{Place, Retention, Scope, Wanted};
use throughline_core::time::Time;
use throughline_memory::hindsight::{Hindsight, HindsightSettings};

/// A Hindsight that is asked at `url`.
fn provider(url: &str, config: Value) -> Hindsight {
    let mut all = json!({
        "mode": "local_external", "api_url": url, "timeout": 3, "recall_types": "world,experience,observation",
    });
    all.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    Hindsight::new(HindsightSettings::read(Some(&all.to_string()), None, &|_| None).unwrap()).unwrap()
}

/// A call of one of its tools.
fn wanted<'a>(name: &'a str, arguments: &'a str) -> Wanted<'a> {
    Wanted { key: "s/1/0/0", name, arguments }
}

fn scope(session: &str, user: Option<&str>) -> Scope {
    Scope {
        agent: "default".into(),
        chat: None,
        session: session.parse().unwrap(),
        generation: Generation(1),
        parent: Some(format!("{session}-before").parse().unwrap()),
        platform: "telegram".to_owned(),
        user: user.map(str::to_owned),
        user_name: None,
        place: Place { chat: user.map(|user| format!("chat-{user}")), ..Place::default() },
        title: None,
        document: None,
        meant: None,
    }
}

fn turn(scope: &Scope, index: u64, said: &str, replied: &str) -> Retention {
    Retention {
        key: format!("{}/{index}", scope.session),
        document: scope.session.to_string(),
        scope: scope.clone(),
        turn: TurnId(Seq(index)),
        index,
        message_count: index * 2,
        at: Time(1_779_960_910_000_000 + i64::try_from(index).unwrap() * 60_000_000),
        said: vec![said.to_owned()],
        replied: replied.to_owned(),
        tried: false,
    }
}
