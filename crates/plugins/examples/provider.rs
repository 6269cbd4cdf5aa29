//! A memory provider that keeps each turn in a file, and recalls those that share words with a question.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};
use throughline_plugins::protocol::{
    Initialize, Initialized, ProviderAbility, Recall, Retain, Text, Tool, ToolCall, ToolResult,
};
use throughline_plugins::sdk::{HostClient, Plugin, PluginAnswer, PluginFailure, serve};

/// At most so many turns are recalled.
const RECALLED_MAX: usize = 5;

#[derive(Default)]
struct Notebook {
    directory: OnceLock<PathBuf>,
    /// One turn is written at a time.
    writing: Mutex<()>,
}

impl Notebook {
    fn path(&self) -> PluginAnswer<PathBuf> {
        let directory = self.directory.get().ok_or_else(|| PluginFailure::failed("it has not begun"))?;
        Ok(directory.join("turns.jsonl"))
    }

    fn turns(&self) -> PluginAnswer<Vec<Retain>> {
        let text = fs::read_to_string(self.path()?).unwrap_or_default();
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    fn found(&self, user: Option<&str>, query: &str) -> PluginAnswer<String> {
        let asked = words(query);
        let mut turns = self.turns()?;
        turns.retain(|turn| turn.scope.user.as_deref() == user);
        turns.sort_by_key(|turn| std::cmp::Reverse(words(&turn.said.join(" ")).intersection(&asked).count()));
        turns.retain(|turn| !words(&turn.said.join(" ")).is_disjoint(&asked));
        let told = turns.iter().take(RECALLED_MAX).map(|turn| format!("- {}", turn.said.join(" ")));
        Ok(told.collect::<Vec<_>>().join("\n"))
    }
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 3);
    words.map(str::to_lowercase).collect()
}

impl Plugin for Notebook {
    async fn begin(&self, asked: Initialize, _: HostClient) -> PluginAnswer<Initialized> {
        let _ = self.directory.set(PathBuf::from(asked.directory));
        let search = Tool {
            name: "notebook_search".into(),
            description: "Search what was said in earlier conversations.".into(),
            parameters: serde_json::json!({"type": "object", "properties": {"query": {"type": "string"}}}),
            toolset: None,
            repeatable: true,
            calls_tools: false,
        };
        let provider = ProviderAbility {
            name: "notebook".into(),
            methods: vec!["recall".into(), "retain".into()],
            tools: vec![search],
            ..ProviderAbility::default()
        };
        let (name, version) = ("notebook".into(), "1.0".into());
        Ok(Initialized { name, version, provider: Some(provider), ..Initialized::default() })
    }

    async fn recall(&self, asked: Recall) -> PluginAnswer<Text> {
        Ok(Text { text: self.found(asked.scope.user.as_deref(), &asked.query)? })
    }

    async fn retain(&self, asked: Retain) -> PluginAnswer<()> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.turns()?.iter().any(|turn| turn.key == asked.key) {
            return Ok(()); // it had arrived
        }
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.path()?)?;
        writeln!(file, "{}", serde_json::to_string(&asked).map_err(PluginFailure::failed)?)?;
        Ok(file.sync_all()?)
    }

    async fn tool(&self, asked: ToolCall) -> PluginAnswer<ToolResult> {
        let query = asked.arguments["query"].as_str().unwrap_or_default();
        let content = self.found(asked.scope.user.as_deref(), query)?.into();
        Ok(ToolResult { content, ..ToolResult::default() })
    }
}

fn main() -> ExitCode {
    serve(Notebook::default())
}
