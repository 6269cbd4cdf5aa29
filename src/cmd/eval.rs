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
use throughline_core::compression::boundary;
use throughline_core::compression::engine::is_full;
use throughline_core::port::{Promise, Summariser};
use throughline_eval::judge::judge;
use throughline_eval::{EngineReport, EvalCase, Measured, ScriptedSummariser, cases};
use throughline_plugins::{Host, PluginEngine};

#[derive(Debug, clap::Subcommand)]
pub enum Eval {
    Compression(Compression),
}

/// Ask about long conversations after their compression
#[derive(Debug, clap::Args)]
pub struct Compression {
    /// What is measured: `builtin`, `digest` (what stands in when there is no summary), a plugin of
    /// `throughline.plugins` by its name, or an engine of Hermes such as `hermes:compressor`; given twice, both are
    /// compared
    #[arg(long = "engine", value_name = "ENGINE", value_parser = EngineName::parse, default_values = ["builtin"])]
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

#[derive(Clone, Debug, PartialEq, Eq)]
enum EngineName {
    Builtin,
    Digest,
    Plugin(String),
}

impl EngineName {
    /// Whether it lets others write its summaries. Hermes' engines ask the models of its configuration themselves.
    fn asks(&self) -> bool {
        match self {
            EngineName::Builtin => true,
            EngineName::Digest => false,
            EngineName::Plugin(name) => !name.starts_with("hermes:"),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Err("an engine has a name".to_owned()),
            "builtin" => Ok(Self::Builtin),
            "digest" => Ok(Self::Digest),
            name => Ok(Self::Plugin(name.to_owned())),
        }
    }
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

/// What of a home takes part, where it is asked for.
pub trait Surroundings {
    /// What writes its summaries.
    fn writer(&self) -> anyhow::Result<Arc<dyn Summariser>>;

    /// The plugin that is this engine, started, with `writer` to answer what it asks of a model.
    fn plugin<'a>(
        &'a self,
        engine: &'a str,
        writer: Arc<dyn Summariser>,
    ) -> Promise<'a, anyhow::Result<Host>>;
}

impl Eval {
    pub async fn run(self, home: &dyn Surroundings, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        match self {
            Eval::Compression(compression) => compression.run(home, out).await,
        }
    }
}

impl Compression {
    async fn run(self, home: &dyn Surroundings, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let against = self.against.as_deref().map(read).transpose()?;
        let mut reports = match &self.results {
            Some(path) => vec![read(path)?],
            None => self.measure(home).await?,
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

    async fn measure(&self, home: &dyn Surroundings) -> anyhow::Result<Vec<EngineReport>> {
        let cases = chosen(self.case.as_deref())?;
        let wants_model = self.summariser == SummariserName::Model || self.judge == JudgeName::Model;
        let model = wants_model.then(|| home.writer()).transpose()?;
        let asked = model.clone().filter(|_| self.judge == JudgeName::Model);
        let writer = model.filter(|_| self.summariser == SummariserName::Model);
        let mut reports = Vec::new();
        for engine in &self.engines {
            let mut outcomes = Vec::new();
            let mut names = None;
            for writer in writers(engine, writer.as_ref(), asked.is_some()) {
                let (measured, guest) = measured(engine, writer, home).await?;
                outcomes.extend(measured.run(&cases).await);
                if let Some(host) = guest {
                    host.stop().await;
                }
                names.get_or_insert((measured.name().to_owned(), measured.summariser().to_owned()));
            }
            if let Some(model) = &asked {
                for (case, outcome) in cases.iter().cycle().zip(&mut outcomes) {
                    let judged = judge(model.as_ref(), case, outcome).await.map_err(anyhow::Error::msg);
                    judged.with_context(|| format!("the model did not answer about {}", case.name))?;
                }
            }
            let judge = asked.as_ref().map_or("view", |_| "model");
            let (engine, summariser) = names.context("no summaries were written")?;
            reports.push(EngineReport::new(&engine, &summariser, judge, &outcomes));
        }
        Ok(reports)
    }
}

/// Whose summaries are tried, at least one. The script is tried in all its moods, unless each costs requests to a
/// model.
fn writers(
    engine: &EngineName,
    model: Option<&Arc<dyn Summariser>>,
    is_costly: bool,
) -> Vec<Arc<dyn Summariser>> {
    match model {
        Some(model) => vec![model.clone()],
        None if is_costly || !engine.asks() => vec![Arc::new(ScriptedSummariser::default())],
        None => {
            ScriptedSummariser::moods().map(|scripted| Arc::new(scripted) as Arc<dyn Summariser>).collect()
        }
    }
}

/// A plugin is started anew for each writer: what it remembers of a conversation would help it with the next one.
async fn measured(
    engine: &EngineName,
    writer: Arc<dyn Summariser>,
    home: &dyn Surroundings,
) -> anyhow::Result<(Measured, Option<Host>)> {
    let name = match engine {
        EngineName::Builtin => return Ok((Measured::Builtin(writer), None)),
        EngineName::Digest => return Ok((Measured::Digest, None)),
        EngineName::Plugin(name) => name.clone(),
    };
    let summariser = if engine.asks() { writer.name() } else { "its own" }.to_owned();
    let host = home.plugin(&name, writer).await?;
    let at = host.clone();
    let engine = Arc::new(move |window| {
        let shares = boundary::Settings::of_window(window);
        let threshold = Arc::new(move |usage: &_| is_full(&shares, usage));
        let engine = PluginEngine::new(at.clone(), window, threshold).expect("it has said that it is one");
        Box::new(engine) as Box<_>
    });
    Ok((Measured::Other { name, summariser, engine }, Some(host)))
}

fn chosen(name: Option<&str>) -> anyhow::Result<Vec<EvalCase>> {
    let mut cases = cases();
    let Some(name) = name else { return Ok(cases) };
    let names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    cases.retain(|case| case.name == name);
    if cases.is_empty() {
        bail!("there is no conversation named {name:?}; there are {}", names.join(", "));
    }
    Ok(cases)
}

fn read(path: &Path) -> anyhow::Result<EngineReport> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} holds no results; write some with --json", path.display()))
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

    struct Nowhere;

    impl Surroundings for Nowhere {
        fn writer(&self) -> anyhow::Result<Arc<dyn Summariser>> {
            bail!("no home")
        }

        fn plugin<'a>(
            &'a self,
            engine: &'a str,
            _: Arc<dyn Summariser>,
        ) -> Promise<'a, anyhow::Result<Host>> {
            Box::pin(async move { bail!("no plugin {engine}") })
        }
    }

    fn run(arguments: &[&str]) -> anyhow::Result<String> {
        let line = ["eval", "compression"].iter().chain(arguments);
        let eval = Line::try_parse_from(line)?.eval;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let mut out = Vec::new();
        runtime.block_on(eval.run(&Nowhere, &mut out))?;
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
        assert_eq!(run(&["--engine", "lcm"]).unwrap_err().to_string(), "no plugin lcm");
    }
}
