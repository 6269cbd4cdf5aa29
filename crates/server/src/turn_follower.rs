//! Follows the turn of an accepted input to its end.

use crate::error::ApiError;
use std::borrow::Cow;
use std::sync::Arc;
use throughline_core::message::ToolCall;
use throughline_core::port::{AgentApi, Progress, Receipt, Refusal, Settled, Update};
use throughline_core::session::Outcome;
use throughline_core::turn::{Answer, Usage};
use throughline_core::{Content, Seq, SessionId};

/// Knows where the input is now: what waited in a session that ended goes on in the next.
pub struct TurnFollower {
    api: Arc<dyn AgentApi>,
    session: SessionId,
    seq: Seq,
    progress: Box<dyn Progress>,
    /// The input was accepted by an earlier request.
    pub is_replay: bool,
}

impl TurnFollower {
    pub fn new(api: Arc<dyn AgentApi>, receipt: Receipt) -> Self {
        let Receipt { session, seq, progress, duplicate } = receipt;
        Self { api, session, seq, progress, is_replay: duplicate }
    }

    /// What happens next, which is never that it moved.
    pub async fn next(&mut self) -> Result<Update, Refusal> {
        loop {
            let update = self.progress.next().await;
            let Update::Settled(settled) = &update else { return Ok(update) };
            let Outcome::Moved { session, seq } = &settled.outcome else { return Ok(update) };
            let receipt = self.api.follow(session.clone(), *seq).await?;
            *self = Self::new(self.api.clone(), receipt);
        }
    }

    /// As [`TurnFollower::next`], as a future that owns what it needs.
    pub async fn step(mut self) -> (Self, Result<Update, Refusal>) {
        let update = self.next().await;
        (self, update)
    }

    pub async fn settled(&mut self) -> Result<Arc<Settled>, ApiError> {
        loop {
            match self.next().await? {
                Update::Delta(_)
                | Update::Restarted
                | Update::Calling { .. }
                | Update::Called { .. }
                | Update::Unattended { .. }
                | Update::Asked(_)
                | Update::Granted(_)
                | Update::Troubled(_) => {}
                Update::Settled(settled) => return Ok(settled),
                Update::Interrupted => return Err(self.interrupted()),
            }
        }
    }

    /// Why the agent no longer works on the input.
    pub fn interrupted(&self) -> ApiError {
        match self.api.status().draining {
            true => ApiError::stopping(),
            false => ApiError::reloading(),
        }
    }

    /// To be told when the answer has left.
    pub fn delivery(&self) -> AnswerDelivery {
        AnswerDelivery { api: self.api.clone(), session: self.session.clone(), seq: self.seq }
    }
}

/// Ends the turn of an input if the client that waits for it goes before it is over.
pub struct StopOnHangUp(Option<(Arc<dyn AgentApi>, SessionId, Seq)>);

impl StopOnHangUp {
    /// `stops`: otherwise nothing happens.
    pub fn of(follower: &TurnFollower, stops: bool) -> Self {
        Self(stops.then(|| (follower.api.clone(), follower.session.clone(), follower.seq)))
    }

    pub fn is_over(&mut self) {
        self.0 = None;
    }
}

impl Drop for StopOnHangUp {
    fn drop(&mut self) {
        if let Some((api, session, seq)) = self.0.take() {
            api.abandon(session, seq);
        }
    }
}

/// One answer on its way to its client.
pub struct AnswerDelivery {
    api: Arc<dyn AgentApi>,
    session: SessionId,
    seq: Seq,
}

impl AnswerDelivery {
    pub fn done(self) {
        self.api.written(self.session, self.seq);
    }
}

/// What a settled turn says to its client.
pub struct ClientReply<'a> {
    pub text: Cow<'a, str>,
    pub reasoning: Option<&'a str>,
    pub finish: FinishReason,
    pub usage: Usage,
    /// What the client is to run.
    pub calls: &'a [ToolCall],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    Stop,
    Length,
    Filtered,
    /// With calls for the client.
    Calls,
}

impl FinishReason {
    /// Each provider has its own words for it.
    fn from_provider(word: Option<&str>) -> Self {
        match word {
            Some("length" | "max_tokens" | "model_context_window_exceeded") => Self::Length,
            Some("content_filter" | "refusal") => Self::Filtered,
            _ => Self::Stop,
        }
    }
}

impl<'a> ClientReply<'a> {
    pub fn of(settled: &'a Settled) -> Result<Self, ApiError> {
        match &settled.outcome {
            Outcome::Answered(_) => {
                settled.answer.as_ref().map(Self::from_answer).ok_or_else(ApiError::unreadable)
            }
            Outcome::Failed(_, failure) => Err(failure.into()),
            Outcome::Done { said, .. } => Ok(Self {
                text: said.into(),
                reasoning: None,
                finish: FinishReason::Stop,
                usage: Usage::default(),
                calls: &[],
            }),
            Outcome::Moved { .. } => Err(ApiError::unreadable()), // a follower goes along
        }
    }

    /// Calls may stand alone; an answer without them says something, were it nothing.
    pub fn has_words(&self) -> bool {
        !self.text.is_empty() || self.calls.is_empty()
    }

    fn from_answer(answer: &'a Answer) -> Self {
        let said = &answer.said;
        let text = match &said.content {
            Content::Text(text) => Cow::Borrowed(text.as_str()),
            other => Cow::Owned(other.plain()),
        };
        let reasoning = said.reasoning.content.as_deref().or(said.reasoning.text.as_deref());
        Self {
            text,
            reasoning: reasoning.filter(|text| !text.is_empty()),
            finish: match said.calls.is_empty() {
                true => FinishReason::from_provider(said.finish.as_deref()),
                false => FinishReason::Calls,
            },
            usage: answer.usage,
            calls: &said.calls,
        }
    }
}
