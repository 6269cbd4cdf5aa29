//! Moves: calls of tools, their questions and their results.

use crate::sample::elsewhere;
use crate::world::StoreWorld;
use std::time::Duration;
use throughline_core::message::{Assistant, Content, ToolCall, ToolResult};
use throughline_core::session::{Approver, Event};
use throughline_core::tool::{Elicitation, Grant, Letter, Question, Verdict};

impl StoreWorld {
    pub(crate) fn asks(&mut self, place: u8, index: u8, kind: u8) {
        self.flush_if_busy(place);
        let Some((turn, step, calls)) = self.open_calls(place) else { return };
        let question = match kind % 4 {
            0 => Question::Approval {
                what: "rm -rf \"ünï\"".into(),
                why: "it deletes".into(),
                patterns: vec!["recursive delete".into()],
            },
            1 => Question::Approval { what: "reboot".into(), why: "it ends".into(), patterns: Vec::new() },
            2 => Question::Clarify { question: "Which one?".into(), choices: vec!["a".into(), "b".into()] },
            _ => {
                let asked = Elicitation {
                    server: "files".into(),
                    question: "Which \"ünï\"?".into(),
                    choices: vec!["a".into()],
                };
                Question::Elicitation { asked, number: u32::from(kind) + 1 }
            }
        };
        let (index, patience) = (usize::from(index) % calls.len(), Duration::from_secs(300));
        self.happens(
            place,
            Event::Asked { turn, step, index, question, patience, approver: Approver::Present },
        );
    }

    pub(crate) fn decides(&mut self, place: u8, index: u8, verdict: u8) {
        self.flush_if_busy(place);
        let Some((turn, step, calls)) = self.open_calls(place) else { return };
        let verdict = match verdict % 7 {
            0 => Verdict::Granted(Grant::Once),
            1 => Verdict::Granted(Grant::Session),
            2 => Verdict::Granted(Grant::Always),
            3 => Verdict::Denied { reason: None },
            4 => Verdict::Denied { reason: Some("not \"that\"".into()) },
            5 => Verdict::Said("2".into()),
            _ => Verdict::Expired,
        };
        let index = usize::from(index) % calls.len();
        self.happens(place, Event::Decided { turn, step, index, verdict });
    }

    pub(crate) fn calls(&mut self, place: u8, calls: u8) {
        self.flush_if_busy(place);
        self.number += 1;
        let call = |nth: u8| ToolCall {
            id: format!("call_{}_{nth}", self.number),
            name: "look".into(),
            arguments: "{\"at\": \"it\"}".into(),
            extra: None,
        };
        let said = Assistant {
            content: Content::Nothing,
            calls: (0..=calls % 3).map(call).collect(),
            finish: Some("tool_calls".into()),
            ..Assistant::default()
        };
        self.answers_with(place, said, 10);
    }

    pub(crate) fn returns(&mut self, place: u8, index: u8, letters: u8) {
        self.flush_if_busy(place);
        let Some((turn, step, calls)) = self.open_calls(place) else { return };
        let index = usize::from(index) % calls.len();
        let call = &calls[index];
        let result = ToolResult {
            call_id: call.id.clone(),
            name: Some(call.name.clone()),
            content: Content::text("found"),
        };
        let sends =
            (0..letters).map(|number| Letter { destination: elsewhere(), text: format!("letter {number}") });
        let sends = sends.collect();
        self.happens(place, Event::Called { turn, step, index, result, sends });
    }
}
