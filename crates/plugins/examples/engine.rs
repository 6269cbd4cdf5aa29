//! A context engine that keeps the beginning and the end, and has the middle told in a few sentences.
//!
//! `throughline plugin check target/debug/examples/engine` puts it through its paces.

use std::process::ExitCode;
use std::sync::OnceLock;
use throughline_plugins::protocol::{
    AskModel, Compress, Compressed, EngineAbility, HasContent, Initialize, Initialized, method,
};
use throughline_plugins::sdk::{
    HostClient, Plugin, PluginAnswer, PluginFailure, message, role_of, serve, text_of,
};

/// Messages at both ends that stay, unless something else is wished.
const FIRST: usize = 2;
const LAST: usize = 8;

#[derive(Default)]
struct Brief {
    /// Only where the host lets us ask a model.
    model: OnceLock<HostClient>,
}

impl Plugin for Brief {
    async fn begin(&self, asked: Initialize, host: HostClient) -> PluginAnswer<Initialized> {
        if asked.offers.iter().any(|offer| offer == method::ASK_MODEL) {
            let _ = self.model.set(host);
        }
        let engine = EngineAbility {
            name: "brief".into(),
            options: vec!["focus".into(), "keep_last".into()],
            methods: vec!["has_content".into()],
            ..EngineAbility::default()
        };
        Ok(Initialized {
            name: "brief".into(),
            version: "1.0".into(),
            engine: Some(engine),
            ..Initialized::default()
        })
    }

    async fn has_content(&self, asked: Compress) -> PluginAnswer<HasContent> {
        Ok(HasContent { has_content: middle(&asked).is_some() })
    }

    async fn compress(&self, asked: Compress) -> PluginAnswer<Compressed> {
        let (start, end) = middle(&asked).ok_or_else(PluginFailure::nothing)?;
        let focus = asked.options.focus.as_deref().unwrap_or("what was decided and what is still open");
        let told: Vec<String> = asked.messages[start..end]
            .iter()
            .map(|message| format!("{}: {}", role_of(message), text_of(message)))
            .collect();
        let (summary, model) = match self.model.get() {
            Some(host) => {
                let prompt = format!("Summarise this conversation; keep {focus}.\n\n{}", told.join("\n"));
                let said = host.ask_model(AskModel { prompt, max_tokens: Some(1000) }).await?;
                (said.text, Some(said.model))
            }
            None => (first_words(&told), None),
        };
        let mut messages = asked.messages[..start].to_vec();
        messages.push(message("user", format!("[Summary of {} messages]\n{summary}", end - start)));
        messages.extend_from_slice(&asked.messages[end..]);
        Ok(Compressed { messages, model, remark: None })
    }
}

/// What is replaced: both ends of it stand before a message of the user, so that no call is torn from
/// its result.
fn middle(asked: &Compress) -> Option<(usize, usize)> {
    let is_users = |place: &usize| role_of(&asked.messages[*place]) == "user";
    let last = asked.options.keep_last.unwrap_or(LAST);
    let start = (FIRST.min(asked.messages.len())..asked.messages.len()).find(is_users)?;
    let end = match asked.messages.len().checked_sub(last)? {
        all if all == asked.messages.len() => all,
        end => (0..=end).rev().find(is_users)?,
    };
    (end > start + 1).then_some((start, end))
}

fn first_words(told: &[String]) -> String {
    let line = |text: &String| text.chars().take(80).collect::<String>();
    told.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn main() -> ExitCode {
    serve(Brief::default())
}
