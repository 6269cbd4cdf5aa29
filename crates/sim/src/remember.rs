//! A memory provider that keeps turns, and recalls. It recognises no key by itself: what the gateway
//! tells it twice it remembers twice. It looks first only where the gateway says that it may have told it before.

use crate::plan::{Plan, RememberPlan};
use crate::records::Records;
use crate::world::{Outside, agent_name};
use std::collections::BTreeMap;
use std::sync::Arc;
use throughline_core::SessionId;
use throughline_core::memory::{
    Ending, Erasure, MemoryError, Naming, PendingRetention, Progress, Provider, REWOUND, Retention, Scope,
};
use throughline_core::port::Promise;

/// Stands before what was recalled, wherever a prompt is written down.
pub const RECALLED: char = '\u{1}';

/// A turn, as it was kept.
#[derive(Clone, Debug)]
pub struct Remembered {
    pub agent: usize,
    pub retention: Retention,
}

pub struct SimProvider {
    pub outside: Arc<Outside>,
    pub agent: usize,
    pub plan: RememberPlan,
}

impl SimProvider {
    /// It is out of order now and then, but not for ever.
    fn fails(&self, percent: u64) -> bool {
        let fails = self.outside.draw(|seed| seed.below(100)) < percent;
        fails
            && self.outside.write(|records| {
                records.forgetful += 1;
                records.forgetful <= self.plan.failures_max
            })
    }
}

impl Provider for SimProvider {
    fn name(&self) -> &str {
        "sim"
    }

    /// A chat is one document for all its sessions; or there is one for everybody.
    fn naming(&self, scope: &Scope) -> Naming {
        let own = || scope.chat.as_ref().map_or_else(|| scope.session.to_string(), ToString::to_string);
        let name = if self.plan.shared { "everybody".to_owned() } else { own() };
        Naming { name, otherwise: None }
    }

    fn every(&self) -> Option<u64> {
        Some(self.plan.every)
    }

    fn recall<'a>(&'a self, scope: &'a Scope, _: &'a str) -> Promise<'a, Result<String, MemoryError>> {
        Box::pin(async move {
            self.outside.pause(self.plan.recall_max).await;
            match self.fails(self.plan.failing_percent) {
                true => Err(MemoryError::Later("the memory is out of order".into())),
                false => Ok(format!("recalled by {} for {}", scope.agent, scope.session)),
            }
        })
    }

    fn follows_sessions(&self) -> bool {
        true
    }

    fn session_ended<'a>(&'a self, scope: &'a Scope, ending: &'a Ending) -> Promise<'a, Result<(), String>> {
        Box::pin(async move {
            let outside = &self.outside;
            outside.pause(self.plan.latency_max).await;
            if self.fails(self.plan.failing_percent) {
                return Err("the memory is out of order".into());
            }
            if ending.reason == REWOUND {
                outside.write(|records| {
                    records.saw(("rewound", self.agent, ending.key.as_str()));
                    if ending.next.as_ref() != Some(&scope.session) || !ending.messages.is_empty() {
                        records.wrong.push(format!("memory: {} goes on as {:?}", ending.key, ending.next));
                    }
                });
                return Ok(()); // nothing has ended
            }
            outside.write(|records| {
                records.saw(("farewell", self.agent, ending.key.as_str()));
                if *scope.agent != *agent_name(self.agent) || !ending.key.starts_with(scope.session.as_str())
                {
                    records.wrong.push(format!("memory: {} ended for {}", ending.key, scope.agent));
                }
                records.farewells.push(ending.key.clone());
            });
            outside.pause(self.plan.latency_max).await; // the process may end before it hears of it
            Ok(())
        })
    }

    fn erase<'a>(&'a self, erasure: &'a Erasure) -> Promise<'a, Result<(), MemoryError>> {
        Box::pin(self.forget(erasure))
    }

    fn retain<'a>(&'a self, retention: &'a Retention) -> Promise<'a, Result<(), MemoryError>> {
        Box::pin(async move {
            let outside = &self.outside;
            let document = (self.agent, retention.document.clone());
            outside.write(|records| {
                records.saw(("retain", self.agent, retention.key.as_str(), retention.tried));
                let life = records.life;
                if records.writing.insert(document.clone(), life) == Some(life) {
                    records.wrong.push(format!("memory: two calls at once on {document:?}"));
                }
            });
            let kept = self.keep(retention).await;
            outside.write(|records| records.writing.remove(&document));
            kept
        })
    }
}

impl SimProvider {
    async fn forget(&self, erasure: &Erasure) -> Result<(), MemoryError> {
        let outside = &self.outside;
        outside.pause(self.plan.latency_max).await;
        if self.fails(self.plan.failing_percent) {
            return Err(MemoryError::Later("the memory is out of order".into()));
        }
        outside.write(|records| {
            records.saw(("erase", self.agent, erasure.scope.session.as_str()));
            let goes = |it: &Remembered| {
                let retention = &it.retention;
                let is_meant = erasure.turns.is_empty() || erasure.turns.contains(&retention.key);
                it.agent == self.agent && retention.scope.session == erasure.scope.session && is_meant
            };
            records.retained.retain(|it| !goes(it));
        });
        outside.pause(self.plan.latency_max).await;
        if self.fails(self.plan.failing_percent) {
            return Err(MemoryError::Unknown("the answer was lost".into()));
        }
        outside.write(|records| {
            let done = (erasure.scope.session.clone(), records.life);
            // A process that ended before it could write that down asks again.
            if records.erased.contains(&done) {
                records.wrong.push(format!("memory: {} is to be deleted again", done.0));
            }
            records.erased.push(done);
        });
        Ok(())
    }

    async fn keep(&self, retention: &Retention) -> Result<(), MemoryError> {
        let outside = &self.outside;
        outside.pause(self.plan.latency_max).await;
        if self.fails(self.plan.failing_percent) {
            return Err(MemoryError::Later("the memory is out of order".into()));
        }
        outside.write(|records| {
            let known = records
                .retained
                .iter()
                .any(|it| it.agent == self.agent && it.retention.key == retention.key && retention.tried);
            if !known {
                let (agent, retention) = (self.agent, retention.clone());
                records.retained.push(Remembered { agent, retention });
            }
        });
        outside.pause(self.plan.latency_max).await;
        match self.fails(self.plan.failing_percent) {
            true => Err(MemoryError::Unknown("the answer was lost".into())),
            false => Ok(()),
        }
    }
}

/// P24, P26: each turn that was answered in a chat is remembered once or waits to be, in order, as what was said
/// in its session; and nothing else is. P25: no session is reminded of what another session asked for.
pub fn verdict(plan: &Plan, records: &Records, agent: usize, unkept: &[PendingRetention]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut last: BTreeMap<&SessionId, u64> = BTreeMap::new();
    let mut newest: BTreeMap<&str, &Retention> = BTreeMap::new();
    let remembered = records.retained.iter().filter(|it| it.agent == agent).map(|it| &it.retention);
    for retention in remembered.clone() {
        let Retention { key, scope, said, .. } = retention;
        if last.insert(&scope.session, retention.index).is_some_and(|before| before >= retention.index) {
            wrong.push(format!("memory: {key} was kept out of turn, or twice"));
        }
        if let Some(before) = newest.insert(&retention.document, retention)
            && before.at > retention.at
            && plan.clock.only_rises()
        // dates say nothing about the order otherwise
        {
            wrong.push(format!("memory: {} was kept before {key}, which is older", before.key));
        }
        let named = key.split('/').next() == Some(scope.session.as_str());
        if !named || *scope.agent != *agent_name(agent) {
            wrong.push(format!("memory: {key} was kept as {}'s, for {}", scope.session, scope.agent));
        }
        let heard = |line: &String| {
            let row = format!("user:{line}");
            let asked = records.asked.iter().filter(|asked| asked.session == scope.session);
            // What answered a question of a tool is that tool's result.
            asked.clone().filter(|asked| asked.agent == agent).any(|asked| {
                asked
                    .prompt
                    .iter()
                    .any(|it| *it == row || it.starts_with("tool:") && it.contains(line.as_str()))
            })
        };
        wrong.extend(
            said.iter().filter(|line| !heard(line)).map(|line| format!("memory: {key} holds {line:?}")),
        );
    }
    for shown in &records.shown {
        let (key, _) = shown.key.split_once('+').unwrap_or((&shown.key, ""));
        let is_answer = key.split_once('/').is_some_and(|(_, turn)| turn.parse::<u64>().is_ok());
        let mine = records.chats[shown.chat].agent == agent;
        let known = remembered.clone().map(|it| &it.key).chain(unkept.iter().map(|it| &it.retention.key));
        if is_answer && mine && !known.clone().any(|known| known == key) {
            wrong.push(format!("memory: {key} was answered, and is not remembered"));
        }
    }
    let silent = records.silences.get(agent).is_some_and(Option::is_some);
    let due = unkept.iter().filter(|it| it.progress == Progress::Due && !silent);
    wrong.extend(
        due.filter(|it| it.attempts > 0).map(|it| format!("memory: {} never arrived", it.retention.key)),
    );
    if plan.past {
        return wrong; // a copy of a conversation remembers what the original was reminded of
    }
    for asked in records.asked.iter().filter(|asked| asked.agent == agent) {
        let expected = format!("recalled by {} for {}", agent_name(agent), asked.session);
        for row in &asked.sent {
            if row.split_once(RECALLED).is_some_and(|(_, recalled)| !recalled.contains(&expected)) {
                wrong.push(format!("memory: {} was reminded of {row:?}", asked.session));
            }
        }
    }
    wrong
}
