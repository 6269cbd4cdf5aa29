//! Reviews, from outside: a model that looks back slowly and tries what it must not, what it writes, and
//! the judges of that.

use crate::engine::expanded;
use crate::model::SimModel;
use crate::plan::{Crash, Plan};
use crate::records::{Due, Looked, Over, Records};
use crate::world::Outside;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::SessionId;
use throughline_core::message::{Assistant, Content, ToolCall};
use throughline_core::port::{Asked, ModelError, Read, StoreError};
use throughline_core::session::FailureKind;
use throughline_core::session::review::Intervals;
use throughline_core::tool::{Call, Returned};
use throughline_core::turn::{Answer, Usage};

/// How a review's question begins, as the model reads it.
const MARK: &str = "user:[Review]";
/// A claim that must not be kept.
const CLAIM: &str = "Some earlier messages in this conversation are missing.";
/// No review takes longer than this, with every try.
const REST_MAX: u32 = 1500;
/// A line is asked about within this time of being taken, where nothing but a review could hold it up.
const PROMPT: Duration = Duration::from_secs(15);

/// Where a review adds to a conversation. None: it is none.
pub fn begins(sent: &[String]) -> Option<usize> {
    let place = sent.iter().rposition(|segment| segment.starts_with("user:"))?;
    sent[place].starts_with(MARK).then_some(place)
}

pub fn intervals(outside: &Outside) -> Intervals {
    let plan = outside.plan.reviews.as_ref();
    plan.map_or(Intervals::default(), |plan| Intervals { turns: plan.turns, steps: plan.steps })
}

impl SimModel {
    /// Remembers one thing, claims another, calls what it must not, and is content.
    pub async fn look_back(
        &self,
        asked: &Asked,
        sent: Vec<String>,
        place: usize,
    ) -> Result<Answer, ModelError> {
        let outside = &self.outside;
        let head = asked.prompt.tools.iter().chain(&asked.prompt.system);
        let head = head.map(|segment| segment.bytes.as_ref()).collect::<Vec<_>>().join("\n");
        let (before, behind) = (sent[..place].to_vec(), sent[place + 1..].to_vec());
        let number = outside.write(|records| {
            records.saw(("looks back", asked.session.as_str(), &sent[place..]));
            let whole = expanded(records, &before);
            if !records.may_speak(self.agent, &asked.session, &whole) {
                records
                    .wrong
                    .push(format!("{}: somebody looked back although it is silenced", asked.session));
            }
            let session = asked.session.parse().expect("the gateway names sessions");
            let (at, behind, agent) = (records.tick(), behind.len(), self.agent);
            records.reviewed.push(Looked { at, agent, session, head, before, behind, answered: false });
            records.reviewed.len() - 1
        });
        let plan = outside.plan.reviews.clone().expect("nobody looks back without a plan");
        outside.pause_between(plan.latency_min, plan.latency_max).await;
        if outside.draw(|seed| seed.below(100)) < plan.failing_percent {
            return Err(ModelError {
                kind: FailureKind::Refused,
                message: "nothing to look back with".into(),
            });
        }
        let calls = match behind.is_empty() {
            true => {
                let call = |place: usize, name: &str, arguments: String| ToolCall {
                    id: format!("back-{number}-{place}"),
                    name: name.into(),
                    arguments,
                    extra: None,
                };
                let note = note(&asked.session, &sent[..place]);
                vec![
                    call(0, "memory", format!(r#"{{"action":"add","content":"{note}"}}"#)),
                    call(1, "count", format!(r#"{{"id":"back-{number}"}}"#)),
                    call(2, "memory", format!(r#"{{"action":"add","content":"{CLAIM}"}}"#)),
                ]
            }
            false => Vec::new(),
        };
        outside.write(|records| {
            records.saw(("looked back", number));
            records.reviewed[number].answered = true;
        });
        let said = Assistant { content: Content::text("that is all"), calls, ..Assistant::default() };
        Ok(Answer { said, usage: Usage { input: 1, output: 1, ..Usage::default() }, model: "sim".into() })
    }
}

/// What is worth remembering of a conversation: enough to know which one it was, and how far it went.
fn note(session: &str, rows: &[String]) -> String {
    format!("{session} had {} rows, the last {}", rows.len(), rows.last().map_or("", |row| row))
}

/// What a review calls is decided at dispatch, not by the list it was shown.
pub fn refuse_other_tools(outside: &Outside, call: &Call) {
    if call.key.contains("/review-") && !["memory", "skill_manage"].contains(&call.name.as_str()) {
        outside.write(|records| records.wrong.push(format!("{}: a review ran {}", call.key, call.name)));
    }
}

/// Writing the same thing twice is writing it once.
pub async fn write(outside: &Arc<Outside>, call: &Call) -> Returned {
    let content = call.arguments.split("\"content\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let content = content.unwrap_or_default().to_owned();
    outside.write(|records| {
        records.saw(("remembers", &call.key, &content));
        if content == CLAIM {
            records.wrong.push(format!("{}: {content:?} was kept", call.key));
        }
        records.remembered.push((call.key.clone(), content));
    });
    Returned::text(r#"{"success": true, "target": "memory", "message": "Entry added."}"#)
}

/// A process that stops does not wait for reviews: a world that wants to see them all waits before.
pub async fn rest(outside: &Outside) {
    for _ in 0..REST_MAX {
        let open = outside.write(|records| {
            let over: BTreeSet<_> = records.over.iter().map(|over| &over.review).collect();
            records.due.keys().any(|review| !over.contains(review))
        });
        if !open {
            return outside.wait(Duration::from_secs(60)).await; // a review that is run again would show
        }
        outside.wait(Duration::from_secs(1)).await;
    }
}

/// Those that are not over, but for sessions that the operator has silenced.
pub fn open_in(store: &dyn Read) -> Result<Vec<(SessionId, u64)>, StoreError> {
    let silenced = store.halted()?;
    let due = store.reviews()?.into_iter().filter(|review| review.parked.is_none());
    Ok(due.map(|review| (review.session, review.number)).filter(|(id, _)| !silenced.contains(id)).collect())
}

pub fn verdict(
    plan: &Plan,
    records: &Records,
    transcripts: &BTreeMap<SessionId, Vec<String>>,
    open: &[(SessionId, u64)],
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (session, number) in open {
        wrong.push(format!("{session}: review {number} is still due"));
    }
    wrong.extend(each_is_over_once(plan, records));
    wrong.extend(each_continues_what_was_asked(records));
    wrong.extend(nobody_else_reads_of_it(records, transcripts));
    wrong.extend(people_hear_once(records));
    wrong.extend(nobody_waits_for_it(plan, records));
    wrong
}

/// P22: what fell due is done or set aside, once, by asking; and then no review covers it again.
fn each_is_over_once(plan: &Plan, records: &Records) -> Vec<String> {
    let mut wrong = Vec::new();
    // Where power fails in the middle of a write, what was told is unknown.
    let unsure = plan.crashes.iter().any(|crash| matches!(crash, Crash::AtOperation(_)));
    for ((session, number), Due { turn, .. }) in &records.due {
        let over: Vec<&Over> =
            records.over.iter().filter(|over| over.review == (session.clone(), *number)).collect();
        if over.len() > 1 || (over.is_empty() && !unsure && plan.halts.is_empty()) {
            wrong.push(format!("{session}: review {number} of turn {turn} was over {} times", over.len()));
        }
        let Some(over) = over.first() else { continue };
        let key = format!("{session}/review-{number}/");
        let kept = records.remembered.iter().filter(|(call, _)| call.starts_with(&key));
        let Some((_, content)) = kept.clone().next() else {
            if over.done {
                wrong.push(format!("{key}: it is done, and nothing was kept"));
            }
            continue;
        };
        if kept.clone().any(|(_, other)| other != content) {
            wrong.push(format!("{key}: {:?} was kept", kept.collect::<Vec<_>>()));
        }
        let same = |looked: &&Looked| {
            looked.session == *session && *content == note(session.as_str(), &looked.before)
        };
        if let Some(again) = records.reviewed.iter().filter(same).find(|looked| looked.at > over.at) {
            wrong.push(format!("{key}: it was over at {}, and run again at {}", over.at, again.at));
        }
    }
    wrong
}

/// P22: what a review is shown is what a turn was asked, byte by byte, and what it answered.
fn each_continues_what_was_asked(records: &Records) -> Vec<String> {
    let mut wrong = Vec::new();
    for looked in &records.reviewed {
        let continues = records.asked.iter().any(|asked| {
            let answer = asked.answer.as_ref().map(|answer| format!("assistant:{answer}|"));
            asked.session == looked.session
                && asked.head == looked.head
                && looked.before.strip_prefix(asked.sent.as_slice()) == Some(answer.as_slice())
        });
        if !continues {
            wrong.push(format!(
                "{}: a review is not about what was asked: {:?}",
                looked.session, looked.before
            ));
        }
    }
    wrong
}

/// P22: it leaves nothing in a transcript, and so in no request.
fn nobody_else_reads_of_it(records: &Records, transcripts: &BTreeMap<SessionId, Vec<String>>) -> Vec<String> {
    let aloud =
        |rows: &Vec<String>| rows.iter().any(|row| row.contains("[Review]") || row.contains("that is all"));
    let kept = transcripts.iter().filter(|(_, rows)| aloud(rows));
    let kept = kept.map(|(session, _)| format!("{session}: a review is in the transcript"));
    let asked = records.asked.iter().filter(|asked| aloud(&asked.sent));
    let asked = asked.map(|asked| format!("{}: a review is in a request", asked.session));
    kept.chain(asked).collect()
}

fn people_hear_once(records: &Records) -> Vec<String> {
    let mut wrong = Vec::new();
    for over in records.over.iter().filter(|over| over.done && over.told) {
        let (session, number) = &over.review;
        if !records.due.get(&over.review).is_some_and(|due| due.in_chat) {
            continue;
        }
        let key = format!("{session}/review-{number}");
        let times =
            |marked| records.shown.iter().filter(|shown| shown.key == key && shown.marked == marked).count();
        let (plain, marked) = (times(false), times(true));
        if plain > 1 || (plain + marked == 0 && records.halts.is_empty()) {
            wrong.push(format!("{key}: people heard of it {plain} times, and {marked} times marked"));
        }
    }
    wrong
}

/// P22: a line is asked about as soon as without reviews. Judged where nothing else takes long.
fn nobody_waits_for_it(plan: &Plan, records: &Records) -> Vec<String> {
    let Some(reviews) = &plan.reviews else { return Vec::new() };
    let calm = plan.compression.is_none()
        && plan.halts.is_empty()
        && plan.disk.full.is_none()
        && plan.model.failing_percent == 0
        && plan.model.calling_percent == 0
        && plan.model.falls + plan.model.kills == 0
        && plan.agents == 1
        && reviews.latency_min > PROMPT;
    let mut wrong = Vec::new();
    for said in records.chats.iter().flat_map(|chat| &chat.said).filter(|_| calm) {
        let Some((_, taken)) = said.taken.filter(|_| !said.text.starts_with('/')) else { continue };
        let row = format!("user:{}", said.text);
        let asked = records.asked.iter().find(|asked| asked.prompt.contains(&row)).map(|asked| asked.at);
        if asked.is_some_and(|asked| asked > taken + PROMPT) {
            wrong.push(format!("{} was taken at {taken:?} and asked about at {asked:?}", said.text));
        }
    }
    wrong
}
