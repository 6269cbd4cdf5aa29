//! Two chat platforms. `keyed` shows a key once however often it is sent; `plain` shows all that
//! comes. Each takes its seeded time, fails as planned, and shows nothing once power is gone.

use crate::mutant::Mutant;
use crate::owner;
use crate::plan::Trouble;
use crate::records::{AgentLetter, Preview, Reaction, Records, Shown, Stage};
use crate::world::{Outside, agent_name};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::Seq;
use throughline_core::input::{Destination, Trace};
use throughline_core::port::{Outgoing, Pending, Platform, Promise, SendError};
use throughline_gateway::Bridge;
use throughline_hermes::config::platforms::{Display, Streaming, ToolProgress};
use throughline_platforms::{Adapter, Attachment, Intake, ListenEnded, StopSignal};

/// Stands behind what is said so far.
const CURSOR: &str = "▉";

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

    fn parts(&self, text: &str) -> Vec<String> {
        let Some(chars) = self.outside.plan.platforms.piece_chars else { return vec![text.to_owned()] };
        let mut pieces = vec![String::new()];
        for word in text.split_inclusive(' ') {
            let last = pieces.last_mut().expect("there is always one");
            match last.chars().count() + word.chars().count() > chars && !last.is_empty() {
                true => pieces.push(word.to_owned()),
                false => last.push_str(word),
            }
        }
        pieces
    }

    fn send<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>> {
        Box::pin(async move {
            let outside = &self.outside;
            outside.write(|records| {
                if let Some(Some(silence)) = records.silences.get(self.agent)
                    && silence.holds
                    && !silence.lifted
                {
                    let key = &outgoing.key;
                    records.wrong.push(format!("{key}: was sent although its agent is silenced"));
                }
            });
            outside.pause(Duration::from_millis(300)).await;
            let trouble = self.trouble();
            let fate = match (trouble, outside.draw(|seed| seed.below(20))) {
                (Some(Trouble::Later), _) => 0,
                (Some(Trouble::Unknown), _) => 1,
                (Some(Trouble::Gone), _) => 2,
                (None, fate) => fate,
            };
            if fate == 0 {
                return Err(SendError::Later { after: None, message: "slow down".into() });
            }
            let draft = outgoing.draft.as_ref().filter(|_| outside.mutant != Some(Mutant::SendAnew));
            if let Some(id) = draft {
                if outside.draw(|seed| seed.chance(1, 40)) && trouble.is_none()
                    || trouble == Some(Trouble::Gone)
                {
                    outside.write(|records| preview(records, id).stage = Stage::Over); // a person takes it away
                    return Err(SendError::Never { message: "there is no such message".into() });
                }
                self.replace(id, outgoing, mark.is_some());
            } else {
                self.show(outgoing, mark.is_some());
            }
            outside.pause(Duration::from_millis(300)).await;
            match fate {
                1 => Err(SendError::Unknown { message: "the line went dead".into() }),
                _ => Ok(Some(format!("shown-{}", outgoing.key))),
            }
        })
    }
}

fn preview<'a>(records: &'a mut Records, id: &str) -> &'a mut Preview {
    let number: usize = id.strip_prefix("preview-").and_then(|id| id.parse().ok()).expect("one of ours");
    &mut records.previews[number]
}

/// Only what is said so far is posted: see `life_of`.
impl Adapter for SimPlatform {
    fn account(&self) -> &str {
        "bot"
    }

    fn listen<'a>(&'a self, _: Arc<dyn Intake>, _: StopSignal) -> Promise<'a, ListenEnded> {
        Box::pin(async { ListenEnded::Stopped })
    }

    fn post<'a>(&'a self, place: &'a Destination, text: &'a str) -> Promise<'a, Result<String, SendError>> {
        Box::pin(async move {
            let outside = &self.outside;
            outside.pause(Duration::from_millis(300)).await;
            let fate = outside.draw(|seed| seed.below(20));
            if fate == 0 {
                return Err(SendError::Later { after: None, message: "slow down".into() });
            }
            let chat = place.chat.parse().expect("the simulator numbers its chats");
            let number = outside.write(|records| {
                records.saw(("preview", chat, text));
                records.previews.push(Preview { chat, text: text.to_owned(), stage: Stage::Open });
                records.previews.len() - 1
            });
            outside.pause(Duration::from_millis(300)).await;
            match fate {
                1 => Err(SendError::Unknown { message: "the line went dead".into() }),
                _ => Ok(format!("preview-{number}")),
            }
        })
    }

    fn edit<'a>(
        &'a self,
        _: &'a Destination,
        id: &'a str,
        text: &'a str,
    ) -> Promise<'a, Result<(), SendError>> {
        Box::pin(async move {
            let outside = &self.outside;
            outside.pause(Duration::from_millis(300)).await;
            outside.write(|records| {
                records.saw(("changed", id, text));
                let life = records.life;
                let preview = preview(records, id);
                if preview.stage == Stage::Over || preview.stage == Stage::Left(life) {
                    let wrong =
                        format!("{id}: {text:?} took the place of {:?}, which was to stay", preview.text);
                    records.wrong.push(wrong);
                    return;
                }
                preview.text = text.to_owned();
                preview.stage = if text.ends_with(CURSOR) { Stage::Open } else { Stage::Left(life) };
            });
            outside.pause(Duration::from_millis(300)).await;
            Ok(())
        })
    }

    fn remove<'a>(&'a self, _: &'a Destination, id: &'a str) -> Promise<'a, Result<(), SendError>> {
        Box::pin(async move {
            self.outside.write(|records| preview(records, id).stage = Stage::Over);
            Ok(())
        })
    }

    fn put<'a>(&'a self, _: &'a Destination, _: &'a Pending) -> Promise<'a, Result<String, SendError>> {
        Box::pin(async { Err(SendError::Never { message: "there are no buttons".into() }) })
    }

    fn fetch<'a>(&'a self, _: &'a Attachment, _: usize) -> Promise<'a, Result<Vec<u8>, String>> {
        Box::pin(async { Err("there are no files".to_owned()) })
    }
}

/// What people see of a turn here: only what is said so far.
pub fn display(streams: bool) -> Display {
    Display {
        typing: false,
        typing_text: None,
        tool_progress: ToolProgress::Off,
        progress_apart: false,
        preview_chars: 0,
        interim: false,
        busy_ack: false,
        busy_ack_detail: false,
        cleanup_progress: false,
        reactions: false,
        streaming: streams.then(|| Streaming {
            edit_interval: Duration::from_millis(20),
            buffer_chars: 1,
            cursor: CURSOR.to_owned(),
        }),
    }
}

impl SimPlatform {
    /// What is planned for the next attempt to send.
    fn trouble(&self) -> Option<Trouble> {
        let number = self.outside.write(|records| {
            records.sends += 1;
            records.sends - 1
        });
        self.outside.plan.platforms.troubles.get(number).copied()
    }

    /// The preview is the reply from here on. The same twice is the same.
    fn replace(&self, id: &str, outgoing: &Outgoing, marked: bool) {
        let known = self.outside.write(|records| {
            let preview = preview(records, id);
            (preview.stage, preview.text) = (Stage::Over, outgoing.text.clone());
            records.shown.iter().any(|shown| shown.key == outgoing.key && !shown.marked)
        });
        if !known {
            self.show(outgoing, marked);
        }
    }

    fn show(&self, outgoing: &Outgoing, marked: bool) {
        let outside = &self.outside;
        let chat: usize = outgoing.destination.chat.parse().expect("the simulator numbers its chats");
        let (key, text) = (outgoing.key.clone(), outgoing.text.clone());
        let put = owner::put(&text);
        let reactions = match &put {
            Some(put) => owner::reactions(outside, put),
            None => self.reaction(chat, &text).map(|reaction| (chat, reaction)).into_iter().collect(),
        };
        outside.write(|records| {
            records.saw(("shown", &key, &text, marked));
            let known = records.shown.iter().any(|shown| shown.key == key);
            if let Some(put) = put {
                owner::shown(records, chat, put);
            }
            for (chat, reaction) in reactions.into_iter().filter(|_| !known) {
                records.chats[chat].questions.push(reaction);
            }
            if !(self.keyed && known) {
                let at = records.tick();
                records.shown.push(Shown { at, chat, key, text, marked });
            }
        });
    }

    /// What a person will say to this, and when; if it is a question, and they say anything.
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
                let number = outside.write(|records| records.tick());
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
        self.outside.write(|records| {
            let from = (self.agent, outgoing.session.clone());
            if records.letters.iter().any(|letter| letter.key == outgoing.key && letter.from == from) {
                return; // a receipt that was lost on the way
            }
            let at = records.tick();
            records.letters.push(AgentLetter {
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
