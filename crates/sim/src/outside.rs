//! The world outside the gateway: a model, tools, and two chat platforms. Each takes its seeded
//! time, fails as planned, and writes down what it saw. None does anything once power is gone.

use crate::world::Outside;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::SessionId;
use throughline_core::message::{Assistant, Body, Content, Message, ToolCall};
use throughline_core::port::{
    Asked, Delta, Model, ModelError, Outgoing, Platform, Promise, SendError, Tools,
};
use throughline_core::prompt::{Segment, SegmentRole};
use throughline_core::session::FailureKind;
use throughline_core::turn::{Answer, Usage};

/// Answers with what was said since it last spoke, so that a judge can see what it saw.
pub struct SimModel(pub Arc<Outside>);

impl Model for SimModel {
    fn name(&self) -> &str {
        "sim"
    }

    fn is_real(&self) -> bool {
        true
    }

    fn encode(&self, message: &Message) -> Segment {
        let text = message.content().plain();
        let (role, bytes) = match &message.body {
            Body::User(_) => (SegmentRole::User, format!("user:{text}")),
            Body::Assistant(assistant) => {
                let calls: Vec<_> = assistant.calls.iter().map(|call| call.id.as_str()).collect();
                (SegmentRole::Assistant, format!("assistant:{text}|{}", calls.join(",")))
            }
            Body::Result(result) => (SegmentRole::Result, format!("tool:{}={text}", result.call_id)),
            Body::System(_) | Body::Other { .. } => (SegmentRole::System, format!("system:{text}")),
        };
        Segment { role, bytes: bytes.into() }
    }

    fn encode_system(&self, text: &str) -> Segment {
        Segment { role: SegmentRole::System, bytes: format!("system:{text}").into() }
    }

    fn ask<'a>(
        &'a self,
        asked: Asked,
        deltas: &'a (dyn Fn(Delta) + Send + Sync),
    ) -> Promise<'a, Result<Answer, ModelError>> {
        Box::pin(async move {
            let outside = &self.0;
            let session: SessionId = asked.session.parse().expect("the gateway names sessions");
            let prompt: Vec<String> =
                asked.prompt.messages.iter().map(|segment| segment.bytes.to_string()).collect();
            let number = outside.write(|books| {
                books.saw(("asked", asked.session.as_str(), &prompt));
                books.asked.push(crate::books::Question {
                    life: books.life,
                    session,
                    prompt: prompt.clone(),
                    answer: None,
                });
                books.asked.len() - 1
            });
            let plan = outside.plan.model.clone();
            outside.pause(plan.latency_max).await;
            if outside.draw(|seed| seed.below(100)) < plan.failing_percent {
                let kind = match outside.draw(|seed| seed.below(4)) {
                    0 => FailureKind::Broken,
                    1 => FailureKind::Wait { after_seconds: Some(3) },
                    _ => FailureKind::Wait { after_seconds: None },
                };
                return Err(ModelError { kind, message: "the model is out of order".into() });
            }
            let text = reply_to(&prompt);
            deltas(Delta::Text(text.clone()));
            outside.pause(plan.latency_max / 4).await;
            let calls = match outside.draw(|seed| seed.below(100)) < plan.calling_percent {
                true => (0..1 + outside.draw(|seed| seed.below(2))).map(|n| call(number, n)).collect(),
                false => Vec::new(),
            };
            outside.write(|books| {
                books.saw(("answered", number, &text));
                books.asked[number].answer = Some(text.clone());
            });
            let said = Assistant {
                content: Content::Text(text),
                calls,
                finish: Some("stop".into()),
                ..Assistant::default()
            };
            let usage = Usage { input: prompt.len() as u64, output: 1, ..Usage::default() };
            Ok(Answer { said, usage, model: "sim".into() })
        })
    }
}

fn call(question: usize, n: u64) -> ToolCall {
    ToolCall { id: format!("call-{question}-{n}"), name: "count".into(), arguments: "{}".into(), extra: None }
}

/// The words of the user since the model last gave an answer without calls.
fn reply_to(prompt: &[String]) -> String {
    let since =
        prompt.iter().rposition(|segment| segment.starts_with("assistant:") && segment.ends_with('|'));
    let new = &prompt[since.map_or(0, |at| at + 1)..];
    let words: Vec<_> = new.iter().filter_map(|segment| segment.strip_prefix("user:")).collect();
    format!("re {}", words.join(" "))
}

pub struct SimTools(pub Arc<Outside>);

impl Tools for SimTools {
    fn segment(&self, _: &dyn Model) -> Option<Segment> {
        Some(Segment { role: SegmentRole::Tools, bytes: "tools:count".into() })
    }

    fn call<'a>(&'a self, session: &'a SessionId, call: &'a ToolCall) -> Promise<'a, Content> {
        Box::pin(async move {
            self.0.pause(Duration::from_millis(50)).await;
            self.0.write(|books| {
                books.saw(("ran", &call.id));
                books.ran.push((session.clone(), call.id.clone()));
            });
            self.0.pause(Duration::from_millis(500)).await;
            Content::text(format!("ran {}", call.id))
        })
    }
}

/// `keyed` shows a key once however often it is sent; `plain` shows whatever comes.
pub struct SimPlatform {
    pub outside: Arc<Outside>,
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
            outside.pause(Duration::from_millis(300)).await;
            let fate = outside.draw(|seed| seed.below(20));
            if fate == 0 {
                return Err(SendError::Later { after: None, message: "slow down".into() });
            }
            let chat = outgoing.destination.chat.parse().expect("the simulator numbers its chats");
            outside.write(|books| {
                books.saw(("shown", &outgoing.key, &outgoing.text, mark.is_some()));
                let known = books.shown.iter().any(|shown| shown.key == outgoing.key);
                if !(self.keyed && known) {
                    let (key, text) = (outgoing.key.clone(), outgoing.text.clone());
                    books.shown.push(crate::books::Shown { chat, key, text, marked: mark.is_some() });
                }
            });
            outside.pause(Duration::from_millis(300)).await;
            match fate {
                1 => Err(SendError::Unknown { message: "the line went dead".into() }),
                _ => Ok(Some(format!("shown-{}", outgoing.key))),
            }
        })
    }
}
