//! Honcho's reasoning about a person: what it is asked, how hard it thinks, and when enough is known.
//!
//! One to three questions (`dialecticDepth`), each built on the answer before it; a full answer ends
//! them early. A longer message makes it think harder, up to `reasoningLevelCap`.

use super::api::{HonchoFailure, RequestEffect};
use super::peer::SessionPeers;
use super::provider::HonchoShared;
use super::settings::{HonchoSettings, ReasoningLevel};
use crate::python_text::{chars, head};
use serde_json::json;

/// A message of so many characters asks for one level more, and one of so many for two.
const LONG_CHARS: [usize; 2] = [120, 400];
/// Below this an answer says too little, and above the other it needs no structure to say enough.
const ANSWER_CHARS: [usize; 2] = [100, 300];

/// What is known already when the questions begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningStart {
    /// Nothing was recalled.
    Cold,
    Warm,
}

impl HonchoShared {
    /// What Honcho makes of the person, in a few sentences; empty if nothing.
    pub async fn reflect(
        &self,
        peers: &SessionPeers,
        query: &str,
        start: ReasoningStart,
    ) -> Result<String, HonchoFailure> {
        let mut answers: Vec<String> = Vec::new();
        for pass in 0..self.settings.dialectic_depth {
            if answers.last().is_some_and(|answer| says_enough(answer)) {
                break;
            }
            let question = question(&answers, start);
            let level = level(&self.settings, pass, query);
            let answer = self.chat(peers, &peers.user, &question, level).await?;
            if !answer.trim().is_empty() {
                answers.push(answer);
            }
        }
        let answer = answers.pop().unwrap_or_default();
        Ok(shortened(&answer, self.settings.dialectic_max_chars))
    }

    /// One question about `target`, asked by the peer that has watched them.
    pub async fn chat(
        &self,
        peers: &SessionPeers,
        target: &str,
        question: &str,
        level: ReasoningLevel,
    ) -> Result<String, HonchoFailure> {
        let question = within(question, self.settings.dialectic_max_input_chars);
        let mut body = json!({"query": question, "reasoning_level": level.as_str(), "stream": false});
        let watches = self.settings.observation.agent.observe_others;
        let asked = if watches { &peers.agent } else { target };
        if asked != target {
            body["target"] = target.into();
        }
        let answer = self.wire.post(format!("peers/{asked}/chat"), body, RequestEffect::None).await?;
        Ok(answer["content"].as_str().unwrap_or_default().to_owned())
    }
}

fn question(answers: &[String], start: ReasoningStart) -> String {
    match (answers, start) {
        ([], ReasoningStart::Cold) => {
            "What is known about this person that would help an assistant right away: \
             preferences, goals, how they like to work? Facts only."
                .to_owned()
        }
        ([], ReasoningStart::Warm) => "What about this person bears on the conversation as it stands now? \
             What is going on comes before who they are."
            .to_owned(),
        ([first], _) => format!(
            "This is what you said about the person:\n\n{first}\n\nWhat is missing? Say what you really know of \
             their situation and of what they need next, from what was said lately."
        ),
        ([first, .., last], _) => format!(
            "You said this about the person:\n\n{first}\n\nand then this:\n\n{last}\n\nWhere the two disagree, \
             say which holds, and put what matters most now into a few sentences."
        ),
    }
}

/// Without a list of levels the first of several questions is an easy one, and so is a third.
fn level(settings: &HonchoSettings, pass: usize, query: &str) -> ReasoningLevel {
    if let Some(level) = settings.dialectic_depth_levels.as_ref().and_then(|levels| levels.get(pass)) {
        return *level;
    }
    match (settings.dialectic_depth, pass) {
        (2 | 3, 0) => ReasoningLevel::Minimal,
        (3, 2) => ReasoningLevel::Low,
        _ if !settings.reasoning_heuristic => settings.dialectic_level,
        _ => {
            let more = LONG_CHARS.iter().filter(|long| chars(query) >= **long).count();
            let base =
                ReasoningLevel::ALL.iter().position(|level| *level == settings.dialectic_level).unwrap_or(0);
            let raised = ReasoningLevel::ALL[(base + more).min(ReasoningLevel::ALL.len() - 1)];
            raised.min(settings.reasoning_level_cap)
        }
    }
}

fn says_enough(answer: &str) -> bool {
    let length = chars(answer.trim());
    let is_item = |line: &str| {
        let line = line.trim_start();
        let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
        line.starts_with("##")
            || line.starts_with(['•', '*', '-'])
            || (numbered.len() < line.len() && numbered.starts_with(". "))
    };
    let is_structured = answer.contains('\n') && answer.lines().any(is_item);
    length >= ANSWER_CHARS[0] && (is_structured || length > ANSWER_CHARS[1])
}

/// Up to the last word that fits, with a sign that there was more. 0 is no limit.
pub fn shortened(text: &str, chars_max: usize) -> String {
    match chars_max == 0 || chars(text) <= chars_max {
        true => text.to_owned(),
        false => format!("{} …", within(text, chars_max)),
    }
}

fn within(text: &str, chars_max: usize) -> &str {
    let piece = head(text, chars_max);
    match piece.len() == text.len() {
        true => piece,
        false => piece.rsplit_once(' ').map_or(piece, |(words, _)| words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::honcho::settings::tests::settings;

    #[test]
    fn a_longer_message_is_thought_about_harder_up_to_the_cap() {
        let long = "x".repeat(500);
        for (configured, pass, query, expected) in [
            ("{}", 0, "short", ReasoningLevel::Low),
            ("{}", 0, &long[..120], ReasoningLevel::Medium),
            ("{}", 0, &long, ReasoningLevel::High),
            (r#"{"reasoningLevelCap": "medium"}"#, 0, &long, ReasoningLevel::Medium),
            (r#"{"reasoningHeuristic": false}"#, 0, &long, ReasoningLevel::Low),
            (r#"{"dialecticReasoningLevel": "max"}"#, 0, "short", ReasoningLevel::High),
            (r#"{"dialecticDepth": 3}"#, 0, &long, ReasoningLevel::Minimal),
            (r#"{"dialecticDepth": 3}"#, 1, &long, ReasoningLevel::High),
            (r#"{"dialecticDepth": 3}"#, 2, &long, ReasoningLevel::Low),
            (r#"{"dialecticDepth": 2, "dialecticDepthLevels": ["max"]}"#, 0, "", ReasoningLevel::Max),
            (r#"{"dialecticDepth": 2, "dialecticDepthLevels": ["max"]}"#, 1, "", ReasoningLevel::Low),
        ] {
            assert_eq!(level(&settings(configured), pass, query), expected, "{configured} {pass}");
        }
    }

    #[test]
    fn a_full_answer_ends_the_questions() {
        assert!(!says_enough("- likes tea\n- likes cake"));
        assert!(says_enough(&format!("About them:\n- {}", "tea ".repeat(40))));
        assert!(!says_enough(&"tea ".repeat(40)));
        assert!(says_enough(&"tea ".repeat(80)));
    }

    #[test]
    fn what_is_too_long_ends_with_a_word() {
        assert_eq!(shortened("one two three", 9), "one two …");
        assert_eq!(shortened("one two", 9), "one two");
        assert_eq!(shortened("one two", 0), "one two");
    }
}
