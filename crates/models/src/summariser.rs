//! A model that writes summaries: one message of a user, no system prompt, no tools.

use std::sync::Arc;
use std::time::Duration;
use throughline_core::message::{Content, Message};
use throughline_core::port::{Asked, Model, ModelError, Promise, Summariser, Written};
use throughline_core::prompt::Prompt;
use throughline_core::session::FailureKind;
use throughline_core::time::Time;
use tokio::time::timeout;

/// What providers call an answer that broke off for want of room.
const OUT_OF_ROOM: [&str; 3] = ["length", "max_tokens", "model_context_window_exceeded"];

pub struct ModelSummariser {
    model: Arc<dyn Model>,
    window: u64,
    patience: Duration,
}

impl ModelSummariser {
    pub fn new(model: Arc<dyn Model>, window: u64, patience: Duration) -> Self {
        Self { model, window, patience }
    }
}

impl Summariser for ModelSummariser {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn ask<'a>(&'a self, request: &'a str) -> Promise<'a, Result<Written, ModelError>> {
        Box::pin(async move {
            let question = self.model.encode(&Message::user(Time(0), Content::text(request)));
            let prompt = Prompt { tools: None, system: None, messages: vec![question] };
            let asked = Asked { session: String::new(), prompt, sampling: None };
            let answer = match timeout(self.patience, self.model.ask(asked, &|_| {})).await {
                Ok(answer) => answer?,
                Err(_) => return Err(self.too_slow()),
            };
            let truncated = answer.said.finish.as_deref().is_some_and(|why| OUT_OF_ROOM.contains(&why));
            Ok(Written { text: answer.said.content.plain(), truncated })
        })
    }
}

impl ModelSummariser {
    fn too_slow(&self) -> ModelError {
        let message =
            format!("{} did not finish a summary within {} s.", self.model.name(), self.patience.as_secs());
        ModelError { kind: FailureKind::Wait { after_seconds: None }, message }
    }
}
