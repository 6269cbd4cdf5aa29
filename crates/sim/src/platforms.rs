//! Two chat platforms. `keyed` shows a key once however often it is sent; `plain` shows whatever
//! comes. Each takes its seeded time, fails as planned, and shows nothing once power is gone.

use crate::books::{AgentLetter, Reaction, Shown};
use crate::world::{Outside, agent_name};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::Seq;
use throughline_core::input::{NOTICE_THREAD, Trace};
use throughline_core::port::{Outgoing, Platform, Promise, SendError};
use throughline_gateway::Bridge;

pub struct SimPlatform {
    pub outside: Arc<Outside>,
    pub agent: usize,
    pub keyed: bool,
}

pub fn platform_name(keyed: bool) -> &'static str {
    if keyed { "keyed" } else { "plain" }
}

impl Platform for SimPlatform {
    fn name(&self) -> &str {
        platform_name(self.keyed)
    }

    fn is_idempotent(&self) -> bool {
        self.keyed
    }

    fn send<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>> {
        Box::pin(async move {
            let outside = &self.outside;
            outside.write(|books| {
                if let Some(Some(silence)) = books.silences.get(self.agent)
                    && silence.holds
                    && !silence.lifted
                {
                    let key = &outgoing.key;
                    books.wrong.push(format!("{key}: was sent although its agent is silenced"));
                }
            });
            outside.pause(Duration::from_millis(300)).await;
            let fate = outside.draw(|seed| seed.below(20));
            if fate == 0 {
                return Err(SendError::Later { after: None, message: "slow down".into() });
            }
            self.show(outgoing, mark.is_some());
            outside.pause(Duration::from_millis(300)).await;
            match fate {
                1 => Err(SendError::Unknown { message: "the line went dead".into() }),
                _ => Ok(Some(format!("shown-{}", outgoing.key))),
            }
        })
    }
}

impl SimPlatform {
    fn show(&self, outgoing: &Outgoing, marked: bool) {
        let outside = &self.outside;
        let chat: usize = outgoing.destination.chat.parse().expect("the simulator numbers its chats");
        let (key, text) = (outgoing.key.clone(), outgoing.text.clone());
        let reaction = self.reaction(chat, &text);
        outside.write(|books| {
            books.saw(("shown", &key, &text, marked));
            let known = books.shown.iter().any(|shown| shown.key == key);
            if !known {
                books.chats[chat].questions.extend(reaction);
            }
            if !(self.keyed && known) {
                let at = books.tick();
                books.shown.push(Shown { at, chat, key, text, marked });
            }
        });
    }

    /// What somebody will say to this, and when; if it is a question, and they say anything.
    fn reaction(&self, chat: usize, text: &str) -> Option<Reaction> {
        let outside = &self.outside;
        let plan = &outside.plan.people;
        let (approval, clarify) = (text.starts_with("⚠️ May I"), text.starts_with('❓'));
        if !approval && !clarify {
            return None;
        }
        let (fate, kind) = outside.draw(|seed| (seed.below(100), seed.below(6)));
        let text = match () {
            () if clarify && fate < plan.yes_percent => {
                let number = outside.write(|books| books.tick());
                format!("c{chat}.q{number}")
            }
            () if clarify => return None,
            () if fate < plan.yes_percent => match kind {
                0 => "/approve session".into(),
                1 => "/approve all".into(),
                _ => "/approve".into(),
            },
            () if fate < plan.yes_percent + plan.no_percent => match kind {
                0 => "/deny because".into(),
                _ => "/deny".into(),
            },
            () => return None,
        };
        let micros = u64::try_from(plan.reaction_max.as_micros()).unwrap_or(u64::MAX);
        let after = Duration::from_micros(outside.draw(|seed| seed.below(micros.max(1))));
        Some(Reaction { at: outside.now() + after, text })
    }
}

/// The way between agents, with the bug that every message seems to be a human's.
pub struct Forgetful(pub Bridge);

impl Platform for Forgetful {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn is_idempotent(&self) -> bool {
        self.0.is_idempotent()
    }

    fn key_memory(&self) -> Option<Duration> {
        self.0.key_memory()
    }

    fn send<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>> {
        Box::pin(async move {
            let outgoing = Outgoing { trace: Trace::default(), ..outgoing.clone() };
            self.0.send(&outgoing, mark).await
        })
    }
}

/// The way between agents. What has arrived is written down.
pub struct Post {
    pub way: Arc<dyn Platform>,
    pub outside: Arc<Outside>,
    pub agent: usize,
}

impl Platform for Post {
    fn name(&self) -> &str {
        self.way.name()
    }

    fn is_idempotent(&self) -> bool {
        self.way.is_idempotent()
    }

    fn key_memory(&self) -> Option<Duration> {
        self.way.key_memory()
    }

    fn send<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>> {
        Box::pin(async move {
            let sent = self.way.send(outgoing, mark).await;
            if let Ok(Some(arrived)) = &sent
                && !self.outside.is_dead()
                && outgoing.destination.thread.as_deref() != Some(NOTICE_THREAD)
            {
                self.write_down(outgoing, arrived);
            }
            sent
        })
    }
}

impl Post {
    fn write_down(&self, outgoing: &Outgoing, arrived: &str) {
        let (session, seq) = arrived.rsplit_once('/').expect("the bridge says where it arrived");
        let session = session.parse().expect("that is a session");
        let seq = Seq(seq.parse().expect("and a place in it"));
        self.outside.write(|books| {
            let from = (self.agent, outgoing.session.clone());
            if books.letters.iter().any(|letter| letter.key == outgoing.key && letter.from == from) {
                return; // a receipt that was lost on the way
            }
            let at = books.tick();
            books.letters.push(AgentLetter {
                key: outgoing.key.clone(),
                from,
                to: outgoing.destination.account.clone(),
                is_reply: !outgoing.destination.chat.is_empty(),
                origin: outgoing.trace.origin.to_string(),
                hops: outgoing.trace.hops,
                text: format!("[{}] {}", agent_name(self.agent), outgoing.text),
                arrived: (session, seq),
                at,
            });
        });
    }
}
