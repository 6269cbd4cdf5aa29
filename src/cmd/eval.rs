//! `throughline eval compression`: how much of long conversations an engine leaves answerable.
//!
//! Runs on conversations that come with the program, never on a home. Without a model nothing leaves
//! the machine: summaries are scripted, and answers are looked up.

use crate::out::write_json;
use anyhow::{Context, bail};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use throughline_core::port::{Asked, Model, ModelError, Promise, Summariser, Written};
use throughline_core::prompt::Prompt;
use throughline_core::{Content, Message, Time};
use throughline_eval::judge::judge;
use throughline_eval::{Case, Measured, Report, Scripted, cases};

/// What a model that is configured can read, if nobody says more: every current one can.
const WINDOW_LEAST: u64 = 128_000;

#[derive(Debug, clap::Subcommand)]
pub enum Eval {
    Compression(Compression),
}

/// Ask about long conversations after their compression
#[derive(Debug, clap::Args)]
pub struct Compression {
    /// What is measured; given twice, both are compared
    #[arg(long = "engine", value_name = "ENGINE", value_enum, default_values = ["builtin"])]
    engines: Vec<EngineName>,

    /// Who writes the summaries: a script, always the same, or the configured model
    #[arg(long, value_enum, default_value = "scripted")]
    summariser: SummariserName,

    /// Who answers the questions: a search in what is left, or the configured model
    #[arg(long, value_enum, default_value = "view")]
    judge: JudgeName,

    /// Show the results in this file instead of measuring
    #[arg(long, value_name = "FILE", conflicts_with_all = ["engines", "summariser", "judge", "case"])]
    results: Option<PathBuf>,

    /// Compare with the results in this file, as written with --json
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,

    /// Only this conversation
    #[arg(long, value_name = "NAME")]
    case: Option<String>,

    /// List the questions without an answer, too
    #[arg(long)]
    missed: bool,

    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum EngineName {
    /// The built-in engine
    Builtin,
    /// What stands in when there is no summary
    Digest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SummariserName {
    Scripted,
    Model,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum JudgeName {
    View,
    Model,
}

/// Finds the configured model, where one is needed.
pub type Configured<'a> = &'a dyn Fn() -> anyhow::Result<Arc<dyn Model>>;

impl Eval {
    pub async fn run(self, configured: Configured<'_>, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        match self {
            Eval::Compression(compression) => compression.run(configured, out).await,
        }
    }
}

impl Compression {
    async fn run(self, configured: Configured<'_>, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let against = self.against.as_deref().map(read).transpose()?;
        let mut reports = match &self.results {
            Some(path) => vec![read(path)?],
            None => self.measure(configured).await?,
        };
        reports.extend(against);
        let [first, rest @ ..] = reports.as_slice() else { bail!("nothing was measured") };
        if rest.len() > 1 {
            bail!(
                "two results can be compared, not {}; give --engine once, or leave out --against",
                reports.len()
            );
        }
        match (self.json, rest.first()) {
            (true, None) => write_json(&json!(first), out)?,
            (true, Some(other)) => {
                let lower = first.lower_than(other);
                write_json(&json!({"results": [first, other], "lower_in": lower}), out)?;
            }
            (false, other) => {
                write!(out, "{}", first.beside(other))?;
                if self.missed {
                    write!(out, "\n{}", first.missed())?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn measure(&self, configured: Configured<'_>) -> anyhow::Result<Vec<Report>> {
        let cases = chosen(self.case.as_deref())?;
        let wants_model = self.summariser == SummariserName::Model || self.judge == JudgeName::Model;
        let model = wants_model.then(|| asking(configured)).transpose()?;
        let asked = model.clone().filter(|_| self.judge == JudgeName::Model);
        let writer = model.filter(|_| self.summariser == SummariserName::Model);
        let mut reports = Vec::new();
        for engine in &self.engines {
            let runs = runs(*engine, writer.as_ref(), asked.is_some());
            let mut outcomes = Vec::new();
            for measured in &runs {
                outcomes.extend(measured.run(&cases).await);
            }
            if let Some(model) = &asked {
                for (case, outcome) in cases.iter().cycle().zip(&mut outcomes) {
                    let judged = judge(model.as_ref(), case, outcome).await.map_err(anyhow::Error::msg);
                    judged.with_context(|| format!("the model did not answer about {}", case.name))?;
                }
            }
            let judge = asked.as_ref().map_or("view", |_| "model");
            reports.push(runs[0].report(judge, &outcomes));
        }
        Ok(reports)
    }
}

/// What is run for one engine, at least once. The script is tried in all its moods, unless each costs
/// requests to a model.
fn runs(engine: EngineName, writer: Option<&Arc<Asking>>, is_costly: bool) -> Vec<Measured> {
    match (engine, writer) {
        (EngineName::Digest, _) => vec![Measured::Digest],
        (EngineName::Builtin, Some(model)) => vec![Measured::Builtin(model.clone())],
        (EngineName::Builtin, None) if is_costly => vec![Measured::Builtin(Arc::new(Scripted::default()))],
        (EngineName::Builtin, None) => {
            Scripted::moods().map(|scripted| Measured::Builtin(Arc::new(scripted))).collect()
        }
    }
}

fn chosen(name: Option<&str>) -> anyhow::Result<Vec<Case>> {
    let mut cases = cases();
    let Some(name) = name else { return Ok(cases) };
    let names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    cases.retain(|case| case.name == name);
    if cases.is_empty() {
        bail!("there is no conversation named {name:?}; there are {}", names.join(", "));
    }
    Ok(cases)
}

fn read(path: &Path) -> anyhow::Result<Report> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} holds no results; write some with --json", path.display()))
}

/// The offline model rehearses gateways; what it says about a conversation measures nothing.
fn asking(configured: Configured<'_>) -> anyhow::Result<Arc<Asking>> {
    let model = configured()?;
    if !model.is_real() {
        bail!(
            "no model is configured that could be asked; set one in config.yaml, or use the scripted summariser"
        );
    }
    Ok(Arc::new(Asking(model)))
}

/// One question, no history, no tools.
struct Asking(Arc<dyn Model>);

impl Summariser for Asking {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn window(&self) -> u64 {
        WINDOW_LEAST
    }

    fn ask<'a>(&'a self, request: &'a str) -> Promise<'a, Result<Written, ModelError>> {
        Box::pin(async move {
            let question = self.0.encode(&Message::user(Time(0), Content::text(request)));
            let prompt = Prompt { tools: None, system: None, messages: vec![question] };
            let asked = Asked { session: String::new(), prompt, sampling: None };
            let answer = self.0.ask(asked, &|_| {}).await?;
            let truncated = answer.said.finish.as_deref() == Some("length");
            Ok(Written { text: answer.said.content.plain(), truncated })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Line {
        #[command(subcommand)]
        eval: Eval,
    }

    fn run(arguments: &[&str]) -> anyhow::Result<String> {
        let line = ["eval", "compression"].iter().chain(arguments);
        let eval = Line::try_parse_from(line)?.eval;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let mut out = Vec::new();
        runtime.block_on(eval.run(&|| bail!("no home"), &mut out))?;
        Ok(String::from_utf8(out)?)
    }

    #[test]
    fn results_are_a_table_or_json_and_are_compared_with_others() {
        let table = run(&["--case", "relay-desk", "--engine", "digest"]).unwrap();
        assert!(table.contains("digest/none") && table.contains("relay-desk"), "{table}");
        let json = run(&["--case", "relay-desk", "--engine", "digest", "--json"]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("digest.json");
        fs::write(&path, json).unwrap();
        let path = path.to_str().unwrap();
        let both = run(&["--case", "relay-desk", "--against", path]).unwrap();
        assert!(both.contains("builtin/scripted") && both.contains("digest/none"), "{both}");
        let same = run(&["--results", path, "--against", path, "--json"]).unwrap();
        let same: serde_json::Value = serde_json::from_str(&same).unwrap();
        assert_eq!(same["lower_in"], json!([]));
    }

    #[test]
    fn what_cannot_be_measured_is_said() {
        let unknown = run(&["--case", "tea"]).unwrap_err().to_string();
        assert!(unknown.contains("\"tea\"") && unknown.contains("relay-desk"), "{unknown}");
        let missing = run(&["--against", "nowhere.json"]).unwrap_err().to_string();
        assert!(missing.contains("nowhere.json"), "{missing}");
        assert_eq!(run(&["--judge", "model"]).unwrap_err().to_string(), "no home");
    }
}
