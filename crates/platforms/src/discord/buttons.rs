//! A tool's question as buttons, and what a pressed one says.
//!
//! A button carries all that is needed to answer: nothing has to be remembered, so a question can be
//! answered after a restart.

use serde_json::{Value, json};
use throughline_core::port::{CallId, Pending};
use throughline_core::tool::{Grant, Question, Verdict};

/// What Discord gives back of a button, at most.
const CUSTOM_ID_MAX: usize = 100;
const LABEL_CHARACTERS_MAX: usize = 80;
const ROW: usize = 5;
/// Five rows of five.
const BUTTONS_MAX: usize = 25;
/// Whose buttons these are.
const PREFIX: &str = "tl";

const GREEN: u8 = 3;
const GREY: u8 = 2;
const RED: u8 = 4;

/// The rows under a question. None where a button could not say which call it answers: then the
/// question's own words say how.
pub fn rows(pending: &Pending) -> Option<Value> {
    let buttons: Option<Vec<Value>> = labels(&pending.ask.question)
        .into_iter()
        .take(BUTTONS_MAX)
        .map(|(sign, label, style)| {
            let custom_id = format!("{PREFIX}:{sign}:{}", pending.call);
            let label: String = label.chars().take(LABEL_CHARACTERS_MAX).collect();
            let fits = custom_id.len() <= CUSTOM_ID_MAX && !label.trim().is_empty();
            fits.then(|| json!({"type": 2, "style": style, "label": label, "custom_id": custom_id}))
        })
        .collect();
    let buttons = buttons.filter(|buttons| !buttons.is_empty())?;
    let rows = buttons.chunks(ROW).map(|row| json!({"type": 1, "components": row}));
    Some(rows.collect())
}

fn labels(question: &Question) -> Vec<(String, String, u8)> {
    let button = |sign: &str, label: &str, style| (sign.to_owned(), label.to_owned(), style);
    match question {
        Question::Approval { patterns, .. } => {
            let mut buttons = vec![button("once", "Allow once", GREEN)];
            if !patterns.is_empty() {
                buttons.push(button("session", "Allow in this session", GREY));
                buttons.push(button("always", "Always allow", GREY));
            }
            buttons.push(button("deny", "Deny", RED));
            buttons
        }
        Question::Clarify { choices, .. } => {
            let numbered = choices.iter().enumerate();
            numbered.map(|(place, choice)| (format!("{}", place + 1), choice.clone(), GREY)).collect()
        }
        Question::Elicitation { asked, .. } => {
            let numbered = asked.choices.iter().take(BUTTONS_MAX - 1).enumerate();
            let choices = numbered.map(|(place, choice)| (format!("{}", place + 1), choice.clone(), GREY));
            choices.chain([button("deny", "Decline", RED)]).collect()
        }
    }
}

/// Which call is answered, and how. None: it is not one of our buttons.
pub fn pressed(custom_id: &str) -> Option<(CallId, Verdict)> {
    let mut fields = custom_id.splitn(3, ':');
    let (prefix, sign, call) = (fields.next()?, fields.next()?, fields.next()?);
    let verdict = match sign {
        "once" => Verdict::Granted(Grant::Once),
        "session" => Verdict::Granted(Grant::Session),
        "always" => Verdict::Granted(Grant::Always),
        "deny" => Verdict::Denied { reason: None },
        number => Verdict::Said(number.parse::<u8>().ok()?.to_string()),
    };
    (prefix == PREFIX).then_some(())?;
    Some((call.parse().ok()?, verdict))
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_core::Time;
    use throughline_core::tool::Ask;

    fn pending(session: &str, question: Question) -> Pending {
        let call = format!("{session}/3/1/0").parse().unwrap();
        let ask = Ask { question, asked: Time(0), until: Time(1) };
        Pending { call, tool: "terminal".into(), ask }
    }

    fn ids(rows: &Value) -> Vec<String> {
        let buttons = rows.as_array().unwrap().iter().flat_map(|row| row["components"].as_array().unwrap());
        buttons.map(|button| button["custom_id"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_button_says_which_call_it_answers_and_how() {
        let approval =
            Question::Approval { what: "rm x".into(), why: "deletes".into(), patterns: vec!["rm".into()] };
        let pending = pending("20260528_093510_66bfaec7", approval);
        let verdicts: Vec<Verdict> = ids(&rows(&pending).unwrap())
            .iter()
            .map(|id| pressed(id).unwrap())
            .map(|(call, verdict)| {
                assert_eq!(call, pending.call);
                verdict
            })
            .collect();
        assert_eq!(
            verdicts,
            [
                Verdict::Granted(Grant::Once),
                Verdict::Granted(Grant::Session),
                Verdict::Granted(Grant::Always),
                Verdict::Denied { reason: None },
            ]
        );
    }

    #[test]
    fn a_choice_is_given_back_by_its_number() {
        let choices: Vec<String> =
            (0..30).map(|number| format!("choice {number} {}", "x".repeat(100))).collect();
        let rows = rows(&pending("s", Question::Clarify { question: "which?".into(), choices })).unwrap();
        assert_eq!(rows.as_array().unwrap().len(), 5);
        let ids = ids(&rows);
        assert_eq!(pressed(&ids[24]).unwrap().1, Verdict::Said("25".into()));
    }

    #[test]
    fn a_call_that_fits_no_button_gets_none() {
        let question = Question::Approval { what: "x".into(), why: "y".into(), patterns: vec![] };
        assert_eq!(rows(&pending(&"s".repeat(200), question)), None);
        let open = Question::Clarify { question: "what?".into(), choices: vec![] };
        assert_eq!(rows(&pending("s", open)), None);
    }

    #[test]
    fn other_peoples_buttons_say_nothing() {
        for custom_id in ["", "tl", "tl:once", "tl:once:x", "xx:once:s/1/1/0", "tl:maybe:s/1/1/0"] {
            assert!(pressed(custom_id).is_none(), "{custom_id}");
        }
    }
}
