//! The model, asked whether a command is harmless. One question, no history, no tools.

use std::sync::Arc;
use throughline_core::port::{Asked, Model, Promise};
use throughline_core::prompt::Prompt;
use throughline_core::{Content, Message, Time};
use throughline_tools::approval::Assessor;

pub struct Asking(pub Arc<dyn Model>);

impl Assessor for Asking {
    fn assess<'a>(&'a self, prompt: &'a str) -> Promise<'a, Result<String, String>> {
        Box::pin(async move {
            let question = self.0.encode(&Message::user(Time(0), Content::text(prompt)));
            let prompt = Prompt { tools: None, system: None, messages: vec![question] };
            let asked = Asked { session: String::new(), prompt, sampling: None };
            let answer = self.0.ask(asked, &|_| {}).await.map_err(|error| error.message)?;
            Ok(answer.said.content.plain())
        })
    }
}
