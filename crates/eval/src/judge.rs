//! The same questions, put to a language model that sees nothing but the view.
//!
//! One request per case. Its answers are compared as [`mod@crate::score`] compares; a model that writes
//! something else than numbered answers has answered nothing.

use crate::case::EvalCase;
use crate::run::CaseOutcome;
use crate::score::{readable, score_answer};
use throughline_core::port::Summariser;

/// Replaces the verdicts by looking with verdicts by asking. An error is the model's, in a sentence.
pub async fn judge(model: &dyn Summariser, case: &EvalCase, outcome: &mut CaseOutcome) -> Result<(), String> {
    if outcome.failure.is_some() {
        return Ok(());
    }
    let request = request(case, outcome);
    let written = model.ask(&request).await.map_err(|error| error.message)?;
    let answers = answers(&written.text, case.questions.len());
    let judged = case.questions.iter().zip(&answers);
    outcome.verdicts = judged.map(|(question, answer)| score_answer(question, answer)).collect();
    Ok(())
}

fn request(case: &EvalCase, outcome: &CaseOutcome) -> String {
    let mut text = "Below is all that is left of a conversation between a user and you, the assistant. Answer \
         the numbered questions from it alone, one line each, as `number. answer`. Quote names, numbers and \
         paths letter by letter. Give only what holds now, not what held before. If the conversation does not \
         say, write `unknown`.\n\n<conversation>\n"
        .to_owned();
    for message in &outcome.messages {
        text.push_str(&format!("[{}] {}\n", message.role(), readable(message)));
    }
    text.push_str("</conversation>\n\n");
    for (number, question) in case.questions.iter().enumerate() {
        text.push_str(&format!("{}. {}\n", number + 1, question.text));
    }
    text
}

/// The answers by number; an empty one where none was given.
fn answers(text: &str, count: usize) -> Vec<String> {
    let mut answers = vec![String::new(); count];
    for line in text.lines() {
        let line = line.trim().trim_start_matches(['*', '-', ' ']);
        let digits = line.chars().take_while(char::is_ascii_digit).count();
        let number: usize = line[..digits].parse().unwrap_or(0);
        let answer = line[digits..].trim_start_matches(['.', ')', ':', '*', ' ']);
        if let Some(slot) = number.checked_sub(1).and_then(|place| answers.get_mut(place)) {
            answer.clone_into(slot);
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_go_by_their_number() {
        let text = "Here you are:\n2. five\n**1.** MSG-8841\n9. x\n3) unknown";
        assert_eq!(answers(text, 3), ["MSG-8841", "five", "unknown"]);
        assert_eq!(answers("I cannot say.", 2), ["", ""]);
    }
}
