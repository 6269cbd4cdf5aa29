//! The context engine: its summaries stand for rows that the records keep, so that a judge can read a
//! compressed prompt as if nothing had been compressed. It fails, hangs and returns rubbish as planned.

use crate::model::line;
use crate::plan::CompressionPlan;
use crate::records::{Compressing, Records};
use crate::world::Outside;
use std::sync::Arc;
use throughline_core::Message;
use throughline_core::memory::Scope;
use throughline_core::message::{Body, Content};
use throughline_core::port::{Condensed, ContextUsage, Engine, EngineError, Past, Promise, Takes, Wishes};

/// How a row that stands for others begins.
const SUMMARY: &str = "user:summary-";

/// Fewer rows are not worth the trouble.
const ROWS_MIN: usize = 3;

pub struct SimEngine {
    pub outside: Arc<Outside>,
    pub agent: usize,
    pub plan: CompressionPlan,
}

/// What these rows say, with every summary taken for what it stands for.
pub fn expanded(records: &Records, rows: &[String]) -> Vec<String> {
    let stands_for =
        |row: &String| match row.strip_prefix(SUMMARY).and_then(|number| number.parse::<usize>().ok()) {
            Some(number) => records.summaries.get(number).cloned().unwrap_or_else(|| vec![row.clone()]),
            None => vec![row.clone()],
        };
    rows.iter().flat_map(stands_for).collect()
}

impl SimEngine {
    /// A message that stands for these, outside of everything that can crash.
    fn stand_for(outside: &Outside, replaced: &[Message]) -> Message {
        let rows: Vec<String> = replaced.iter().map(line).collect();
        let number = outside.write(|records| {
            let rows = expanded(records, &rows);
            records.saw(("summarised", &rows));
            records.summaries.push(rows);
            records.summaries.len() - 1
        });
        let at = replaced.last().map(|message| message.at).unwrap_or_default();
        Message::user(at, Content::text(format!("summary-{number}")))
    }

    fn note(&self, past: &Past, wishes: &Wishes) -> usize {
        let began = self.outside.now();
        let rows: Vec<String> = past.messages.iter().map(line).collect();
        self.outside.write(|records| {
            records.compressing.push(Compressing {
                life: records.life,
                agent: self.agent,
                session: past.scope.session.clone(),
                rows: expanded(records, &rows),
                memory: wishes.memory_context.clone(),
                began,
                ended: None,
            });
            records.compressing.len() - 1
        })
    }

    /// All but the last rows. A tool group stays whole.
    pub fn condense(outside: &Outside, past: &Past, keep_last: usize) -> Option<Condensed> {
        let messages = &past.messages;
        let mut end = messages.len().checked_sub(keep_last)?;
        while end > 0 && messages.get(end).is_some_and(|next| matches!(next.body, Body::Result(_))) {
            end -= 1; // the answer that made the calls stays with them
        }
        if end < ROWS_MIN {
            return None;
        }
        let summary = Self::stand_for(outside, &messages[..end]);
        Some(Condensed {
            keep_first: 0,
            messages: vec![summary],
            keep_last: messages.len() - end,
            model: "sim".into(),
            remark: None,
        })
    }
}

impl Engine for SimEngine {
    fn name(&self) -> &str {
        "sim"
    }

    fn should_compress<'a>(&'a self, _: &'a Scope, usage: &'a ContextUsage) -> Promise<'a, bool> {
        let is_full = usage.expected >= self.plan.soft;
        Box::pin(async move { is_full })
    }

    fn compress<'a>(
        &'a self,
        past: &'a Past,
        wishes: &'a Wishes,
    ) -> Promise<'a, Result<Condensed, EngineError>> {
        Box::pin(async move {
            let outside = &self.outside;
            let number = self.note(past, wishes);
            outside.pause_between(self.plan.latency_min, self.plan.latency_max).await;
            let now = outside.now();
            outside.write(|records| records.compressing[number].ended = Some(now));
            let keep_last = wishes.keep_last.unwrap_or(self.plan.keep_last);
            let fate = match outside.draw(|seed| seed.below(100)) < self.plan.failing_percent {
                true => outside.draw(|seed| seed.below(6)),
                false => u64::MAX,
            };
            let failed = |why: &str| Err(EngineError::Failed(why.to_owned()));
            match fate {
                0 | 1 => failed("the summariser is out of order."),
                2 => std::future::pending().await, // it hangs
                3 => Err(EngineError::Unknown("what it is asked".into())),
                // Rubbish: nothing, and what tears a group from its call.
                4 => Ok(Condensed {
                    keep_first: 0,
                    messages: Vec::new(),
                    keep_last: 0,
                    model: String::new(),
                    remark: None,
                }),
                5 => {
                    let last = past.messages.len().saturating_sub(1);
                    let messages = vec![Message::user(Default::default(), Content::text("rubbish"))];
                    Ok(Condensed {
                        keep_first: last,
                        messages,
                        keep_last: 5,
                        model: String::new(),
                        remark: None,
                    })
                }
                _ => Self::condense(outside, past, keep_last).ok_or(EngineError::Nothing),
            }
        })
    }

    fn takes(&self) -> Takes {
        match self.plan.plain {
            true => Takes::default(),
            false => Takes { focus: true, force: true, memory_context: true, keep_last: true },
        }
    }

    fn has_content_to_compress<'a>(&'a self, past: &'a Past, wishes: &'a Wishes) -> Promise<'a, bool> {
        let keep_last = wishes.keep_last.unwrap_or(self.plan.keep_last);
        Box::pin(async move {
            self.outside.pause(self.plan.latency_max / 8).await;
            past.messages.len() >= keep_last + ROWS_MIN
        })
    }
}
