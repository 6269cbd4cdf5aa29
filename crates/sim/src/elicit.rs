//! Calls that ask a person while they run: a tool that wants to know two things, a person who answers each once, twice,
//! with a no or not at all, and the judge of it.

use crate::plan::{ModelPlan, Plan, chat};
use crate::records::Records;
use crate::world::Outside;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::port::{AgentApi, Question, Reading};
use throughline_core::tool::{self, Asker, Call, Elicitation, Returned, Verdict};

pub const TOOL: &str = "wonder";

/// What was answered, and what reached the calls that had asked. By the question: `session/turn/step/position~number`.
#[derive(Default)]
pub struct Elicited {
    /// Answers that the gateway has taken, or may have.
    given: BTreeMap<String, Vec<String>>,
    taken: BTreeMap<String, u32>,
    heard: BTreeMap<String, Vec<Verdict>>,
}

impl Plan {
    /// Servers ask in two chats and for a client, two things each, beside other calls of the same turn. Nothing else is
    /// said in these chats: it would be taken for an answer.
    pub fn interview() -> Self {
        let script = Self::script();
        let model = ModelPlan {
            calling_percent: 0,
            falls: 0,
            script: vec![("c0.1", vec![TOOL, "count"]), ("c1.1", vec![TOOL, "look"]), ("a0.1", vec![TOOL])],
            ..script.model.clone()
        };
        let chats = vec![chat(true, &[("c0.1", 0)]), chat(false, &[("c1.1", 5)])];
        Self { model, chats, ..script }
    }

    pub fn elicits(&self) -> bool {
        self.model.script.iter().any(|(_, tools)| tools.contains(&TOOL))
    }
}

pub async fn wonder(outside: &Outside, call: &Call, id: &str, asker: Option<&dyn Asker>) -> Returned {
    let Some(asker) = asker else { return Returned::text("nobody can be asked") };
    let mut said = Vec::new();
    for number in 1..=2_u32 {
        let question = format!("{id} number {number}");
        let asked = Elicitation { server: "sim".into(), question, choices: Vec::new() };
        let verdict = asker.ask(asked, outside.plan.people.patience).await;
        outside.live_or_never().await;
        said.push(format!("{verdict:?}"));
        outside.write(|records| {
            let key = format!("{}~{number}", call.key);
            records.saw(("heard", &key, &said[number as usize - 1]));
            records.elicited.heard.entry(key).or_default().push(verdict);
        });
    }
    Returned::text(format!("wondered {id}: {}", said.join(", ")))
}

/// Looks at what is asked, and answers some of it.
pub async fn answer(outside: Arc<Outside>, api: Arc<dyn AgentApi>) {
    if !outside.plan.elicits() {
        return;
    }
    loop {
        outside.wait(Duration::from_millis(200)).await;
        let Ok(Reading::Asks(asks)) = api.read(Question::Asks).await else { continue };
        for ask in asks {
            let tool::Question::Elicitation { .. } = &ask.ask.question else { continue };
            let key = ask.call.to_string();
            let fate = outside.draw(|seed| seed.below(10));
            outside.pause(outside.plan.people.reaction_max).await;
            // One of three is answered twice in a row: the second answer must not reach the next question.
            let verdicts = match fate {
                0..4 => vec![Verdict::Said(format!("yes {key}"))],
                4..7 => vec![Verdict::Said(format!("one {key}")), Verdict::Said(format!("two {key}"))],
                7 => vec![Verdict::Denied { reason: None }],
                _ => continue,
            };
            for verdict in verdicts {
                outside.write(|records| {
                    let given = records.elicited.given.entry(key.clone()).or_default();
                    given.push(format!("{verdict:?}"));
                });
                let decided = api.decide(ask.call.clone(), verdict).await;
                outside.live_or_never().await;
                if decided.is_ok() {
                    outside.write(|records| *records.elicited.taken.entry(key.clone()).or_default() += 1);
                }
            }
        }
    }
}

/// P9, P31: each question is answered once at most, with what was said to this very question.
pub fn answers_reach_their_question(records: &Records) -> Vec<String> {
    let mut wrong = Vec::new();
    let Elicited { given, taken, heard } = &records.elicited;
    for (key, times) in taken.iter().filter(|(_, times)| **times > 1) {
        wrong.push(format!("{key} was answered {times} times"));
    }
    for (key, verdicts) in heard {
        if verdicts.len() > 1 {
            wrong.push(format!("{key} heard {verdicts:?}"));
        }
        for verdict in verdicts.iter().filter(|verdict| **verdict != Verdict::Expired) {
            if !given.get(key).is_some_and(|given| given.contains(&format!("{verdict:?}"))) {
                wrong.push(format!("{key} heard {verdict:?}, and was given {:?}", given.get(key)));
            }
        }
    }
    wrong
}

/// How many questions got an answer.
pub fn answered(records: &Records) -> usize {
    let heard = records.elicited.heard.values().flatten();
    heard.filter(|verdict| matches!(verdict, Verdict::Said(_))).count()
}
