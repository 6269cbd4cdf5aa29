//! Ids of calls, told apart. Here every call of a whole conversation needs an id of its own; other
//! providers begin anew with each answer, and their histories come here when a user switches.
//!
//! A later call of a known id gets another, and so does its result. Which, follows from what stands
//! before it, so a conversation that grows keeps the ids it had.

use serde_json::Value;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use throughline_core::prompt::{Segment, SegmentRole};

/// How `encode` begins a call.
const CALL: &str = "{\"type\":\"tool_use\",\"id\":\"";

pub(super) fn told(segments: &[Segment]) -> Cow<'_, [Segment]> {
    let mut seen = HashSet::new();
    let answers = segments.iter().filter(|segment| segment.role == SegmentRole::Assistant);
    let mut ids = answers.flat_map(|segment| ids(&segment.bytes));
    match ids.all(|id| seen.insert(id)) {
        true => Cow::Borrowed(segments),
        false => Cow::Owned(renamed(segments)),
    }
}

/// The ids in an answer, and perhaps more of what looks like one: good enough to ask whether any is
/// there twice.
fn ids(bytes: &str) -> impl Iterator<Item = &str> {
    bytes.match_indices(CALL).filter_map(|(at, _)| bytes[at + CALL.len()..].split('"').next())
}

fn renamed(segments: &[Segment]) -> Vec<Segment> {
    let mut seen = TakenIds::default();
    let mut results = VecDeque::new();
    let rename = |segment: &Segment| match segment.role {
        SegmentRole::Assistant => {
            let (segment, ids) = answer(segment, &mut seen);
            results = ids;
            segment
        }
        SegmentRole::Result => match results.pop_front() {
            Some(id) => with_ids(segment, "tool_result", "tool_use_id", &mut |_| id.clone()),
            None => segment.clone(),
        },
        SegmentRole::Tools | SegmentRole::System | SegmentRole::User => segment.clone(),
    };
    segments.iter().map(rename).collect()
}

/// The answer with ids of its own, and these ids in order: its results follow in the same.
fn answer(segment: &Segment, seen: &mut TakenIds) -> (Segment, VecDeque<String>) {
    let mut ids = VecDeque::new();
    let segment = with_ids(segment, "tool_use", "id", &mut |id| {
        let own = seen.own(id);
        ids.push_back(own.clone());
        own
    });
    (segment, ids)
}

/// The ids that are taken, and for each that was there before, the number to try next: all below it are taken, too.
#[derive(Default)]
struct TakenIds {
    taken: HashSet<String>,
    numbers: HashMap<String, usize>,
}

impl TakenIds {
    fn own(&mut self, id: &str) -> String {
        if self.taken.insert(id.to_owned()) {
            return id.to_owned();
        }
        let number = self.numbers.entry(id.to_owned()).or_insert(2);
        loop {
            let own = format!("{id}_{number}");
            *number += 1;
            if self.taken.insert(own.clone()) {
                return own;
            }
        }
    }
}

/// The blocks of one kind get the ids that `own` makes of theirs.
fn with_ids(segment: &Segment, kind: &str, field: &str, own: &mut dyn FnMut(&str) -> String) -> Segment {
    let Ok(mut message) = serde_json::from_str::<Value>(&segment.bytes) else { return segment.clone() };
    let mut is_other = false;
    for block in message["content"].as_array_mut().into_iter().flatten() {
        if block["type"] != kind {
            continue;
        }
        let id = block[field].as_str().unwrap_or_default().to_owned();
        let own = own(&id);
        is_other |= own != id;
        block[field] = own.into();
    }
    match is_other {
        true => Segment { role: segment.role, bytes: message.to_string().into() },
        false => segment.clone(),
    }
}
