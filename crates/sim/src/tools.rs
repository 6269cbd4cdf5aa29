//! The tools. Each effect is written down when it happens, so that a judge can count.
//!
//! `count` has an effect; `look` only looks, and may be run again; `permit` asks before it has one;
//! `wonder` asks while it runs; `post` has a letter sent; `hang` never ends; `kill` ends the process whenever it is run,
//! `fall` once. The gateway's own come from its real kit.

use crate::elicit;
use crate::mutant::Mutant;
use crate::owner;
use crate::platforms::platform_name;
use crate::records::{Effect, Hanging, Place, Yes};
use crate::review;
use crate::world::Outside;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::input::Destination;
use throughline_core::port::{Promise, SystemPrompt};
use throughline_core::tool::{Asker, Call, Caller, Done, Kit, Letter, Offer, Question, Returned, Tools};
use throughline_core::{Content, JsonText};
use throughline_gateway::GatewayTools;

/// What a lasting yes to `permit` covers.
const PATTERN: &str = "permit";
/// A call that ends the process is parked long before. What goes on is a bug, and must end, too.
const KILLS_MAX: u32 = 12;

pub struct SimTools {
    pub outside: Arc<Outside>,
    pub agent: usize,
    pub gateway_tools: Arc<GatewayTools>,
}

/// Whether a call may simply be run again.
pub fn is_repeatable(tool: &str) -> bool {
    matches!(tool, "look" | "kill" | "clarify" | "delegate_task" | "send_message")
}

impl Tools for SimTools {
    fn offer(&self, caller: &Caller) -> Option<Arc<Offer>> {
        let names: Vec<String> = self.offered(caller).into_iter().map(str::to_owned).collect();
        let tool = |name: &String| format!(r#"{{"type":"function","function":{{"name":"{name}"}}}}"#);
        let list = names.iter().map(tool).collect::<Vec<_>>().join(",");
        Some(Arc::new(Offer { list: JsonText::from_valid(format!("[{list}]")), names }))
    }

    fn is_repeatable(&self, name: &str) -> bool {
        is_repeatable(name) || self.outside.mutant == Some(Mutant::RepeatEverything)
    }

    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned> {
        self.perform(call, None)
    }

    fn call_asking<'a>(&'a self, call: &'a Call, asker: &'a dyn Asker) -> Promise<'a, Returned> {
        self.perform(call, Some(asker))
    }
}

impl SimTools {
    fn perform<'a>(&'a self, call: &'a Call, asker: Option<&'a dyn Asker>) -> Promise<'a, Returned> {
        Box::pin(async move {
            let outside = &self.outside;
            outside.pause(Duration::from_millis(50)).await;
            review::refuse_other_tools(outside, call);
            let id = id_in(&call.arguments);
            outside.write(|records| {
                records.saw(("call", &call.key, &call.name));
                if let Some(book) = id.as_ref().and_then(|id| records.calls.get_mut(id)) {
                    book.begun += 1;
                }
            });
            let returned = self.run(call, id.as_deref().unwrap_or_default(), asker).await;
            outside.live_or_never().await;
            if let Returned::Done(done) = &returned {
                let text = done.content.plain();
                outside.write(|records| {
                    records.saw(("returned", &call.key, &text));
                    if let Some(book) = id.as_ref().and_then(|id| records.calls.get_mut(id)) {
                        book.returned = Some(text);
                    }
                });
            }
            returned
        })
    }

    fn offered(&self, caller: &Caller) -> Vec<&'static str> {
        let mut names = vec!["count", "look", "permit"];
        if self.outside.plan.elicits() {
            names.push(elicit::TOOL);
        }
        if self.outside.plan.reviews.is_some() {
            names.extend(["memory", "skill_manage"]);
        }
        let with_people = caller.source != "api_server" && caller.source != "agent";
        if self.agent == 0 && !self.outside.plan.chats.is_empty() {
            names.push("post");
        }
        if with_people {
            names.push("hang"); // a person is there to end it
        }
        if caller.task.is_none() {
            names.extend(["kill", "fall", "delegate_task"]);
            if with_people {
                names.push("clarify");
            }
            // An answer would come as a message, and move a client's conversation on.
            if self.outside.plan.agents > 1 && caller.source != "api_server" {
                names.push("send_message");
            }
        }
        names
    }

    async fn run(&self, call: &Call, id: &str, asker: Option<&dyn Asker>) -> Returned {
        let outside = &self.outside;
        if !self.offered(&call.caller).contains(&call.name.as_str()) {
            return Returned::text(format!("there is no {} here", call.name));
        }
        match call.name.as_str() {
            "count" => {
                self.effect(call, id);
                outside.pause(Duration::from_millis(500)).await;
                Returned::text(format!("counted {id}"))
            }
            "look" => {
                outside.pause(Duration::from_millis(500)).await;
                Returned::text(format!("seen {id}"))
            }
            "permit" => self.permit(call, id).await,
            elicit::TOOL => elicit::wonder(outside, call, id, asker).await,
            "post" => self.post(call, id).await,
            "hang" => self.hang(call).await,
            "kill" | "fall" => self.kill(call, id).await,
            "memory" | "skill_manage" => review::write(outside, call).await,
            _ => self.gateway_tools.call(call).await,
        }
    }

    fn effect(&self, call: &Call, id: &str) {
        self.outside.write(|records| {
            records.saw(("effect", &call.key, id));
            let (tool, key) = (call.name.clone(), call.key.clone());
            records.effects.push(Effect { tool, chat: chat_of(call), key, id: id.to_owned() });
        });
    }

    async fn permit(&self, call: &Call, id: &str) -> Returned {
        let outside = &self.outside;
        let chat = chat_of(call);
        let place = chat.map_or(Place::Session(call.caller.session.clone()), Place::Chat);
        let lasting = outside.plan.people.yes_percent > 50 && !id.ends_with('1');
        let known = lasting && call.caller.allowed.iter().any(|pattern| pattern == PATTERN);
        if call.grant.is_none() && !known {
            outside.write(|records| {
                let now = records.tick();
                if let Some(book) = records.calls.get_mut(id) {
                    book.wanted.get_or_insert((now, chat));
                }
            });
            let patterns = if lasting { vec![PATTERN.to_owned()] } else { Vec::new() };
            let question = Question::Approval { what: id.to_owned(), why: "it counts".into(), patterns };
            return Returned::Ask { question, patience: outside.plan.people.patience };
        }
        outside.write(|records| {
            owner::permits(&outside.plan, records, &call.caller.session, id);
            let wanted = records.calls.get(id).and_then(|book| book.wanted).map(|(at, _)| at);
            // Where another agent asked for the turn, the people of its session are asked.
            let asked_by_agent = chat.is_none() && call.caller.reply_to.is_some();
            let question = |key: &str| {
                let mut parts = key.split('/');
                parts.next() == Some(call.caller.session.as_str()) && parts.next_back() == Some("asked")
            };
            let shown = records.shown.iter().filter(|shown| asked_by_agent && question(&shown.key));
            let chats: BTreeSet<_> = shown.map(|shown| shown.chat).collect();
            let heard =
                |from: &Place| *from == place || matches!(from, Place::Chat(chat) if chats.contains(chat));
            let mut given = records.yes.iter_mut().filter(|yes| heard(&yes.place));
            let allowed = match wanted {
                Some(asked) => given.find(|yes| yes.at > asked && (!yes.used || yes.all)),
                None => given.find(|yes| yes.lasting),
            };
            match allowed {
                Some(yes) => yes.used = true,
                None => records.wrong.push(format!("{}: {id} was run without a yes", call.key)),
            }
        });
        self.effect(call, id);
        outside.pause(Duration::from_millis(500)).await;
        Returned::text(format!("permitted {id}"))
    }

    /// A word for each chat but the one it comes from.
    async fn post(&self, call: &Call, id: &str) -> Returned {
        let outside = &self.outside;
        let here = chat_of(call);
        let others = (0..outside.plan.chats.len()).filter(|chat| Some(*chat) != here);
        let letters: Vec<_> = others.map(|chat| (chat, format!("letter-{id}-{chat}"))).collect();
        self.effect(call, id);
        outside.write(|records| {
            if let Some(book) = records.calls.get_mut(id) {
                book.letters.clone_from(&letters);
            }
        });
        outside.pause(Duration::from_millis(200)).await;
        let letter = |(chat, text): &(usize, String)| Letter {
            destination: Destination {
                platform: platform_name(outside.plan.chats[*chat].keyed).into(),
                account: "bot".into(),
                chat: chat.to_string(),
                thread: None,
                reply_to: None,
            },
            text: text.clone(),
        };
        let sends = letters.iter().map(letter).collect();
        Returned::Done(Done { content: Content::text(format!("posted {id}")), sends })
    }

    async fn hang(&self, call: &Call) -> Returned {
        let outside = &self.outside;
        let patience = Duration::from_millis(1000 + outside.draw(|seed| seed.below(12_000)));
        let until = outside.now() + patience;
        let chat = chat_of(call).or_else(|| {
            outside.write(|records| records.chat_of(call.caller.task.as_ref().map(|task| &task.parent)?))
        });
        let Some(chat) = chat else { return Returned::text("nobody would end it") };
        let number = outside.write(|records| {
            let number = records.tick();
            records.hanging.insert(number, Hanging { chat, until });
            number
        });
        let _guard = Hangs { outside: outside.clone(), number };
        std::future::pending().await
    }

    async fn kill(&self, call: &Call, id: &str) -> Returned {
        let outside = &self.outside;
        self.effect(call, id);
        outside.pause(Duration::from_millis(400)).await;
        let kills = outside.write(|records| {
            records.kills += 1;
            records.kills
        });
        if kills > KILLS_MAX {
            return Returned::text(format!("killed {id}"));
        }
        outside.kill();
        std::future::pending().await
    }
}

/// The chat whose people are told.
fn chat_of(call: &Call) -> Option<usize> {
    let here = call.caller.reply_to.as_ref().filter(|here| here.platform != "agent");
    here.map(|here| here.chat.parse().expect("the simulator numbers its chats"))
}

struct Hangs {
    outside: Arc<Outside>,
    number: u64,
}

impl Drop for Hangs {
    fn drop(&mut self) {
        self.outside.write(|records| records.hanging.remove(&self.number));
    }
}

/// The name that the model gave a call, or its question, or its task.
fn id_in(arguments: &str) -> Option<String> {
    for (before, after, prefix) in [
        (r#""id": ""#, '"', ""),
        (r#""question": "which "#, '?', ""),
        (r#"{"tasks": [{"goal": "task-"#, '"', "call-"),
        (r#"{"goal": "task-"#, '"', "call-"),
        (r#""message": "hop-"#, '"', "call-"),
    ] {
        if let Some((_, rest)) = arguments.split_once(before) {
            let id = rest.split(after).next().unwrap_or_default();
            let id = id.strip_suffix("-0").filter(|_| before.contains("tasks")).unwrap_or(id);
            return Some(format!("{prefix}{id}"));
        }
    }
    None
}

/// A yes that is on its way, as far as it may reach.
pub fn yes(text: &str, at: u64, place: Place) -> Option<Yes> {
    let argument = text.strip_prefix("/approve")?;
    let lasting = argument.contains("session") || argument.contains("always");
    Some(Yes { at, place, all: argument.contains("all"), lasting, used: false })
}

/// Says something else in every life: what was frozen with a session must stay.
pub struct SimBriefing(pub Arc<Outside>);

impl SystemPrompt for SimBriefing {
    fn assemble<'a>(&'a self, _: &'a Caller, tools: &'a [String]) -> Promise<'a, String> {
        Box::pin(async move {
            self.0.pause(Duration::from_millis(20)).await;
            format!(
                "You are simulated, {} times, with {} tools.",
                self.0.write(|records| records.life),
                tools.len()
            )
        })
    }
}
