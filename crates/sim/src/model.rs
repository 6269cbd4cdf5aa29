//! The model: it answers with what was said since it last answered, so that a judge can see what it
//! saw, and calls tools by chance or by the script.

use crate::engine::expanded;
use crate::mutant::Mutant;
use crate::records::{CallBook, Question};
use crate::remember::RECALLED;
use crate::review;
use crate::world::{Outside, agent_name};
use std::sync::Arc;
use throughline_core::compression::text_tokens;
use throughline_core::message::{Assistant, Body, Content, Message, ToolCall};
use throughline_core::port::{Asked, Delta, Model, ModelError, Promise};
use throughline_core::prompt::{Segment, SegmentRole};
use throughline_core::session::FailureKind;
use throughline_core::turn::{Answer, Usage};

/// No plan has that much to say: an agent that still asks then was not stopped. Of a long plan it is so much for
/// each of its lines.
const ASKED_MAX: usize = 1500;
const ASKED_PER_LINE_MAX: usize = 12;

/// The tool that a client runs itself.
pub const ERRAND: &str = "errand";

#[derive(Clone)]
pub struct SimModel {
    pub outside: Arc<Outside>,
    pub agent: usize,
}

/// An answer without the notice that a client of the API reads with it.
pub fn without_notice(answer: &str) -> &str {
    answer.split("\n\nAgents have been answering each other").next().unwrap_or_default()
}

/// One message as the judges read it: `role:words`, with the ids of calls and of what they answer.
pub fn line(message: &Message) -> String {
    let text = message.content().plain();
    match &message.body {
        Body::User(_) => format!("user:{text}"),
        Body::Assistant(assistant) => {
            let calls: Vec<_> = assistant.calls.iter().map(|call| call.id.as_str()).collect();
            let text = without_notice(&text);
            format!("assistant:{text}|{}", calls.join(","))
        }
        Body::Result(result) => format!("tool:{}={text}", result.call_id),
        Body::System(_) | Body::Other { .. } => format!("system:{text}"),
    }
}

impl Model for SimModel {
    fn name(&self) -> &str {
        "sim"
    }

    fn is_real(&self) -> bool {
        true
    }

    fn encode(&self, message: &Message) -> Segment {
        let role = match &message.body {
            Body::User(_) => SegmentRole::User,
            Body::Assistant(_) => SegmentRole::Assistant,
            Body::Result(_) => SegmentRole::Result,
            Body::System(_) | Body::Other { .. } => SegmentRole::System,
        };
        let mut bytes = line(message);
        if let Some(sent_as) = &message.sent_as {
            bytes.push(RECALLED);
            bytes.push_str(sent_as);
        }
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
            match self.outside.mutant {
                Some(Mutant::AskBeside) => self.ask_beside(asked).await,
                Some(Mutant::AskTwice) => {
                    self.answer(asked.clone(), &|_| {}).await?;
                    self.answer(asked, deltas).await
                }
                _ => self.answer(asked, deltas).await,
            }
        })
    }
}

impl SimModel {
    /// The bug that lets no question go: the session may have gone on.
    async fn ask_beside(&self, asked: Asked) -> Result<Answer, ModelError> {
        let own = self.clone();
        let asking = tokio::spawn(async move { own.answer(asked, &|_| {}).await });
        asking.await.expect("the runtime ends with the world")
    }

    async fn answer(
        &self,
        asked: Asked,
        deltas: &(dyn Fn(Delta) + Send + Sync),
    ) -> Result<Answer, ModelError> {
        let outside = &self.outside;
        let sent: Vec<String> =
            asked.prompt.messages.iter().map(|segment| segment.bytes.to_string()).collect();
        let said: Vec<String> =
            sent.iter().map(|row| row.split(RECALLED).next().unwrap_or_default().to_owned()).collect();
        if let Some(place) = review::begins(&sent) {
            return self.look_back(&asked, sent, place).await;
        }
        let prompt = outside.write(|records| expanded(records, &said));
        let weight = sent.iter().map(|segment| 4 + text_tokens(segment)).sum();
        let number = self.hear(&asked, &prompt, sent);
        let _open = Open { outside: outside.clone(), number };
        let plan = &outside.plan.model;
        outside.pause(plan.latency_max).await;
        let lines: usize = outside.plan.chats.iter().map(|chat| chat.lines.len()).sum();
        if number >= ASKED_MAX.max(lines * ASKED_PER_LINE_MAX) {
            outside.write(|records| records.wrong.push("the model is asked without end".into()));
            outside.die(); // and so does the world
            std::future::pending::<()>().await;
        }
        if outside.draw(|seed| seed.below(100)) < plan.failing_percent {
            let kind = match outside.draw(|seed| seed.below(5)) {
                // Providers count on their own.
                4 if outside.plan.compression.is_some() => FailureKind::TooLong,
                0 => FailureKind::Broken,
                1 => FailureKind::Wait { after_seconds: Some(3) },
                2 => FailureKind::Unreachable,
                _ => FailureKind::Wait { after_seconds: None },
            };
            outside.write(|records| records.asked[number].failed = true);
            return Err(ModelError { kind, message: "the model is out of order".into() });
        }
        let calls = self.calls(&asked, &prompt, number);
        let text = match calls.is_empty() {
            true => reply_to(&prompt),
            false => format!("step-{number}"),
        };
        let half = text.len() / 2; // nothing but ASCII is said here
        let (head, tail) = text.split_at_checked(half).unwrap_or((&text, ""));
        for piece in [head, tail] {
            deltas(Delta::Text(piece.to_owned()));
            outside.pause(plan.latency_max / 4).await;
        }
        let now = outside.now();
        outside.write(|records| {
            records.saw(("answered", number, &text));
            records.asked[number].answer = Some(text.clone());
            records.asked[number].answered = Some(now);
            records.asked[number].called = !calls.is_empty();
        });
        let finish = Some(if calls.is_empty() { "stop" } else { "tool_calls" }.into());
        let said = Assistant { content: Content::Text(text), calls, finish, ..Assistant::default() };
        // A provider that counts nothing leaves it to estimates.
        let counted = outside.draw(|seed| seed.chance(3, 4));
        let usage = Usage { input: if counted { weight } else { 0 }, output: 1, ..Usage::default() };
        Ok(Answer { said, usage, model: "sim".into() })
    }
}

/// A question until it is answered, or the gateway gives it up.
struct Open {
    outside: Arc<Outside>,
    number: usize,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.outside.write(|records| records.asked[self.number].open = false);
    }
}

impl SimModel {
    /// Writes down what is asked, and whether it should have been.
    fn hear(&self, asked: &Asked, prompt: &[String], sent: Vec<String>) -> usize {
        let head = asked.prompt.tools.iter().chain(&asked.prompt.system);
        let head = head.map(|segment| segment.bytes.as_ref()).collect::<Vec<_>>().join("\n");
        let at = self.outside.now();
        self.outside.write(|records| {
            records.saw(("asked", asked.session.as_str(), prompt));
            if !records.may_speak(self.agent, &asked.session, prompt) {
                records.wrong.push(format!("{}: the model was asked although it is silenced", asked.session));
            }
            let beside = |question: &&Question| {
                question.open
                    && (question.life, question.agent) == (records.life, self.agent)
                    && question.session.as_str() == asked.session
            };
            if records.asked.iter().any(|question| beside(&question)) {
                records.wrong.push(format!("{}: the model is asked twice at once", asked.session));
            }
            records.asked.push(Question {
                life: records.life,
                open: true,
                failed: false,
                at,
                agent: self.agent,
                session: asked.session.parse().expect("the gateway names sessions"),
                head,
                prompt: prompt.to_vec(),
                sent,
                answer: None,
                answered: None,
                called: false,
            });
            records.asked.len() - 1
        })
    }

    fn calls(&self, asked: &Asked, prompt: &[String], number: usize) -> Vec<ToolCall> {
        let new = since_answered(prompt);
        let untouched = !new.iter().any(|segment| segment.starts_with("assistant:"));
        let tools = match untouched {
            true => self.by_script(new).or_else(|| self.by_habit(new)),
            false => self.by_script(new).filter(|_| self.is_task(new)),
        };
        let offered = asked.prompt.tools.as_ref().map_or("", |segment| &segment.bytes);
        let told = new.iter().filter(|segment| segment.contains("=[not run")).count();
        let stubborn = self.outside.plan.model.stubborn
            && told < 2
            && new.last().is_some_and(|segment| segment.contains("=seen ") || segment.contains("=[not run"));
        let tools = match stubborn {
            true => vec!["look"],
            false => tools.unwrap_or_else(|| self.by_chance(offered)),
        };
        let alike =
            tools.len() > 1 && !tools.contains(&ERRAND) && self.outside.draw(|seed| seed.chance(1, 20));
        let mut calls = Vec::new();
        for (place, tool) in tools.into_iter().enumerate() {
            let id = format!("call-{number}-{place}");
            calls.push(ToolCall {
                // Models give two calls one id now and then.
                id: if alike { format!("call-{number}") } else { id.clone() },
                name: tool.into(),
                arguments: self.arguments(tool, &id),
                extra: None,
            });
            if tool == ERRAND {
                continue; // the client that runs it has its own records
            }
            self.outside.write(|records| {
                let session = asked.session.parse().expect("the gateway names sessions");
                let call = CallBook {
                    question: number,
                    session,
                    tool: tool.into(),
                    begun: 0,
                    returned: None,
                    wanted: None,
                    letters: Vec::new(),
                };
                records.calls.insert(id, call)
            });
        }
        calls
    }

    fn by_script(&self, new: &[String]) -> Option<Vec<&'static str>> {
        let begins = |said: &str, word: &str| said == word || (word.ends_with('-') && said.starts_with(word));
        let said = |word: &str| {
            new.iter().filter_map(|segment| segment.strip_prefix("user:")).any(|said| begins(said, word))
        };
        let script = &self.outside.plan.model.script;
        script.iter().find(|(word, _)| said(word)).map(|(_, tools)| tools.clone())
    }

    /// A helper that does a task by the script goes on as it began.
    fn is_task(&self, new: &[String]) -> bool {
        new.first().is_some_and(|segment| segment.starts_with("user:task-"))
    }

    /// An agent that must have the last word. The next one answers by itself.
    fn by_habit(&self, new: &[String]) -> Option<Vec<&'static str>> {
        let heard = new.iter().any(|segment| segment.starts_with("user:["));
        (self.outside.plan.model.talkative && self.agent.is_multiple_of(2) && heard)
            .then(|| vec!["send_message"])
    }

    fn by_chance(&self, offered: &str) -> Vec<&'static str> {
        let outside = &self.outside;
        let plan = &outside.plan.model;
        if outside.draw(|seed| seed.below(100)) >= plan.calling_percent {
            return Vec::new();
        }
        let mut tools: Vec<&'static str> = Vec::new();
        for _ in 0..=outside.draw(|seed| seed.below(plan.parallel_max)) {
            let drawn = plan.tools[outside.draw(|seed| seed.below(plan.tools.len() as u64)) as usize];
            let there = drawn == "nothing" || offered.contains(&format!("\"{drawn}\""));
            let once = matches!(drawn, "permit" | "clarify" | "hang" | "kill" | "fall");
            let made =
                outside.write(|records| records.calls.values().filter(|call| call.tool == drawn).count());
            let spent = match drawn {
                "kill" => made >= plan.kills,
                "fall" => made >= plan.falls,
                _ => false,
            };
            tools.push(if there && !spent && !(once && tools.contains(&drawn)) { drawn } else { "count" });
        }
        tools
    }

    fn arguments(&self, tool: &str, id: &str) -> String {
        let fate = self.outside.draw(|seed| seed.below(12));
        let number = id.strip_prefix("call-").expect("it begins so");
        match (tool, fate) {
            ("look", _) if self.outside.plan.model.stubborn => "{}".into(),
            ("look", 0..6) => "{}".into(), // the same again, and it leads nowhere
            ("clarify", 0..6) => format!(r#"{{"question": "which {id}?", "choices": ["red", "blue"]}}"#),
            ("clarify", _) => format!(r#"{{"question": "which {id}?"}}"#),
            ("delegate_task", 0) => "{".into(),
            ("delegate_task", 1..4) => {
                format!(r#"{{"tasks": [{{"goal": "task-{number}-0"}}, {{"goal": "task-{number}-1"}}]}}"#)
            }
            ("delegate_task", _) => format!(r#"{{"goal": "task-{number}"}}"#),
            ("send_message", _) => {
                let next = agent_name((self.agent + 1) % self.outside.disks.len());
                format!(r#"{{"target": "agent:{next}", "message": "hop-{number}"}}"#)
            }
            _ => format!(r#"{{"id": "{id}"}}"#),
        }
    }
}

/// What came after the last answer without calls.
fn since_answered(prompt: &[String]) -> &[String] {
    let is_answer = |segment: &String| segment.starts_with("assistant:") && segment.ends_with('|');
    &prompt[prompt.iter().rposition(is_answer).map_or(0, |at| at + 1)..]
}

fn reply_to(prompt: &[String]) -> String {
    let words: Vec<_> = since_answered(prompt).iter().filter_map(|segment| said_in(segment)).collect();
    format!("re {}", words.join(" "))
}

/// What a person, or another agent, says in a segment.
pub fn said_in(segment: &str) -> Option<&str> {
    match segment.strip_prefix("user:") {
        Some(said) if said.starts_with('[') => said.rsplit(' ').next(),
        Some(said) => Some(said),
        None if segment.starts_with("tool:") => clarified(segment),
        None => None,
    }
}

/// The person's words in the result of a question.
pub fn clarified(text: &str) -> Option<&str> {
    let said = text.split_once("\"user_response\": \"")?.1.split_once('"')?.0;
    (!said.is_empty() && !said.starts_with('[')).then_some(said)
}
