//! One case, one engine.

use crate::case::EvalCase;
use crate::score::{QuestionScore, score};
use throughline_core::SessionId;
use throughline_core::compression::estimate;
use throughline_core::memory::Scope;
use throughline_core::message::Message;
use throughline_core::port::{Condensed, ContextUsage, Engine, EngineError, Past, Wishes};

/// A view that weighs more than this part of the conversation has not been compressed: it answers
/// nothing, however much it says. Half leaves room for the tail, which takes about a quarter, and a
/// summary of the same size.
pub const LEFT_PERCENT_MAX: u64 = 55;

/// What an engine made of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseOutcome {
    pub case: String,
    /// The one it had before, too.
    pub session: SessionId,
    pub engine: String,
    /// What the model sees from then on.
    pub messages: Vec<Message>,
    pub messages_before: usize,
    pub tokens_before: u64,
    pub tokens_after: u64,
    pub verdicts: Vec<QuestionScore>,
    /// Why there is nothing to score.
    pub failure: Option<String>,
}

/// Has `engine` condense `case`, and looks for the answers in what is left.
pub async fn run_case(engine: &dyn Engine, case: &EvalCase) -> CaseOutcome {
    let past = past(case);
    let usage = ContextUsage { prompt: past.tokens, completion: 0, expected: past.tokens };
    if !engine.should_compress(&past.scope, &usage).await {
        return outcome_of(engine.name(), case, Err("sees no need to compress".to_owned()));
    }
    let view = match engine.compress(&past, &Wishes::default()).await {
        Ok(condensed) => joined(case, condensed),
        Err(EngineError::Nothing) => Err("found nothing to compress".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    outcome_of(engine.name(), case, view)
}

/// What an engine is shown of a case.
pub fn past(case: &EvalCase) -> Past {
    Past { scope: Scope::of(case.session.clone()), messages: case.messages.clone(), tokens: case.tokens() }
}

/// The view that the gateway would make of it.
fn joined(case: &EvalCase, condensed: Condensed) -> Result<Vec<Message>, String> {
    let count = case.messages.len();
    if condensed.keep_first + condensed.keep_last > count {
        return Err("keeps more messages than there are".to_owned());
    }
    let mut view = case.messages[..condensed.keep_first].to_vec();
    view.extend(condensed.messages);
    view.extend_from_slice(&case.messages[count - condensed.keep_last..]);
    Ok(view)
}

/// The same for a view that came from elsewhere.
pub fn outcome_of(engine: &str, case: &EvalCase, view: Result<Vec<Message>, String>) -> CaseOutcome {
    let (messages, failure) = match view {
        Ok(view) => (view, None),
        Err(failure) => (Vec::new(), Some(failure)),
    };
    let tokens_before = case.tokens();
    let tokens_after: u64 = messages.iter().map(estimate).sum();
    let too_large = tokens_after * 100 > tokens_before * LEFT_PERCENT_MAX;
    let failure = failure.or_else(|| too_large.then(|| "hardly compressed it".to_owned()));
    let verdicts = match &failure {
        None => score(&case.questions, &messages),
        Some(failure) => unanswered(case, failure),
    };
    CaseOutcome {
        case: case.name.clone(),
        session: case.session.clone(),
        engine: engine.to_owned(),
        messages,
        messages_before: case.messages.len(),
        tokens_before,
        tokens_after,
        verdicts,
        failure,
    }
}

fn unanswered(case: &EvalCase, because: &str) -> Vec<QuestionScore> {
    let verdict = |question: &crate::CaseQuestion| QuestionScore {
        question: question.clone(),
        passed: false,
        because: Some(because.to_owned()),
    };
    case.questions.iter().map(verdict).collect()
}
