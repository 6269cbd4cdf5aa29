//! What moving an agent over would mean for it, found out by looking only.
//!
//! - reads files and the database beside whatever runs there; nothing is created, locked or changed
//! - what is not carried over is named, one by one: nobody should miss a platform or a job a week later
//! - a home that would not start says so here, not after Hermes was stopped

use super::unit::{self, HermesUnit};
use crate::config::{Environment, ModelChoice, Overrides, Settings, Written};
use crate::equip::plugins;
use crate::home::Home;
use crate::out::{Page, Tint};
use anyhow::Context;
use serde_json::{Map, Value, json};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use throughline_core::command;
use throughline_hermes::config::support::{Set, Support};
use throughline_hermes::schema::{Verdict, verdict};
use throughline_hermes::unsupported;
use throughline_store::{HomeTotals, OpenError};

/// What a survey says, under these headings and in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Found,
    Works,
    Beside,
    LeftBehind,
    Differs,
    Damage,
    AtStart,
    Obstacles,
}

const PARTS: [(Part, &str, &str); 8] = [
    (Part::Found, "found", "What was found"),
    (Part::Works, "works", "What works as before"),
    (Part::Beside, "beside", "What runs beside us, in a process of its own"),
    (Part::LeftBehind, "left_behind", "What is not carried over"),
    (Part::Differs, "differs", "What differs"),
    (Part::Damage, "damage", "What is damaged"),
    (Part::AtStart, "at_start", "What happens at the start"),
    (Part::Obstacles, "obstacles", "What is in the way"),
];

/// What is damaged in a home.
#[derive(Debug, Default)]
pub struct Damage {
    pub lines: Vec<String>,
    /// With which no gateway would start.
    pub in_the_way: Vec<String>,
}

/// One agent, as it would move.
pub struct Survey {
    pub name: String,
    pub home: Home,
    pub totals: Option<HomeTotals>,
    pub units: Vec<HermesUnit>,
    lines: Vec<(Part, String)>,
}

impl Survey {
    pub fn of(
        name: &str,
        home: &Home,
        environment: &Environment,
        damage: &dyn Fn(&Home) -> anyhow::Result<Damage>,
        page: &Page,
    ) -> anyhow::Result<Self> {
        let path = home.path();
        if !path.is_dir() {
            anyhow::bail!("{} is no directory; give the home that Hermes lives in", path.display());
        }
        let variable = |name: &str| environment.get(name);
        let usual = variable("HOME").map(|user| PathBuf::from(user).join(".hermes"));
        let totals = throughline_store::Home::at(path).totals();
        // A damaged database is in the way, and no reason to say nothing of the rest.
        let (totals, unreadable) = match totals {
            Err(error @ OpenError::Damaged { .. }) => (None, Some(error.to_string())),
            totals => (totals.with_context(|| format!("could not look into {}", path.display()))?, None),
        };
        let shelves = unit::shelves(&variable);
        let units = unit::of_home(path, usual.as_deref(), &shelves);
        let programs = unit::programs(&units, &shelves);
        let mut survey = Self { name: name.to_owned(), home: home.clone(), totals, units, lines: Vec::new() };
        survey.find(page, unreadable.is_some());
        let mut known = None;
        match Written::read(home, environment, Overrides::default())? {
            Err(report) => survey.say_all(Part::Obstacles, report.errors.iter()),
            Ok(written) => {
                let report = written.report();
                survey.say_all(Part::Obstacles, report.errors.iter());
                survey.say_all(Part::Differs, report.warnings.iter());
                survey.keys(&written.set_keys());
                if let Some(settings) = &report.settings {
                    survey.compare(settings);
                    known = plugins::hermes_version(home, Some(settings), &programs);
                }
            }
        }
        let version = known.or_else(|| plugins::hermes_version(home, None, &programs));
        survey.say(
            Part::Found,
            match version {
                Some(version) => format!("Hermes {version}"),
                None => {
                    "Hermes of an unknown version: what its unit runs was not found, nor its own environment"
                        .to_owned()
                }
            },
        );
        survey.jobs();
        survey.differ();
        if let Some(totals) = &survey.totals {
            let verdict = verdict(totals.schema);
            if verdict != Verdict::Open {
                survey.say(Part::Obstacles, verdict.to_string());
            }
        }
        match unreadable {
            Some(why) => survey.say(Part::Obstacles, why),
            None => {
                let damage = damage(home)?;
                survey.say_all(Part::Damage, damage.lines.iter());
                survey.say_all(Part::Obstacles, damage.in_the_way.iter());
            }
        }
        survey.foresee();
        Ok(survey)
    }

    /// Why it cannot move as it is.
    pub fn obstacles(&self) -> impl Iterator<Item = &str> {
        self.under(Part::Obstacles)
    }

    fn under(&self, part: Part) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(move |(of, _)| *of == part).map(|(_, line)| line.as_str())
    }

    fn say(&mut self, part: Part, line: impl Into<String>) {
        self.lines.push((part, line.into()));
    }

    fn say_all(&mut self, part: Part, lines: impl Iterator<Item = impl ToString>) {
        lines.for_each(|line| self.say(part, line.to_string()));
    }

    fn find(&mut self, page: &Page, is_unreadable: bool) {
        match self.totals.clone() {
            None if is_unreadable => self.say(Part::Found, "a state.db that cannot be read"),
            None => self.say(Part::Found, "no conversations yet: there is no state.db"),
            Some(totals) => {
                let HomeTotals { schema, sessions, messages, newest, bytes } = totals;
                let megabytes = bytes as f64 / (1 << 20) as f64;
                self.say(
                    Part::Found,
                    format!("{sessions} sessions with {messages} messages, {megabytes:.1} MB, tables of version {schema}"),
                );
                if let Some(newest) = newest {
                    self.say(Part::Found, format!("the last message is of {}", page.minute(newest)));
                }
            }
        }
        for unit in self.units.clone() {
            let kept = match (unit.is_enabled, unit.is_active) {
                (true, true) => "is enabled and runs",
                (true, false) => "is enabled and does not run",
                (false, true) => "runs and is not enabled",
                (false, false) => "is switched off",
            };
            self.say(Part::Found, format!("the unit {} {kept}", unit.name));
        }
        if let Some(owner) = self.home.owner().and_then(|occupied| occupied.owner) {
            let who = if owner.throughline.is_some() { "a Throughline" } else { "a Hermes gateway" };
            self.say(Part::Found, format!("{who} runs here (pid {})", owner.pid));
        }
    }

    fn compare(&mut self, settings: &Settings) {
        let model = match &settings.model {
            ModelChoice::Rehearsal => {
                self.say(
                    Part::Obstacles,
                    "no model is configured that we can reach: set model and its key in config.yaml or .env",
                );
                return;
            }
            ModelChoice::OpenAi(endpoint) | ModelChoice::Anthropic(endpoint) => {
                format!("the model {} at {}", endpoint.model.value, endpoint.base_url.value)
            }
        };
        self.say(Part::Works, model);
        let ours = settings.platforms.all.iter().filter(|platform| platform.enabled);
        let ours: Vec<_> =
            ours.filter(|platform| unsupported::CARRIED.contains(&platform.name.as_str())).collect();
        for platform in ours {
            self.say(Part::Works, format!("{}: every chat keeps its session", platform.name));
        }
        let (plugins, off) = plugins::configured(&self.home, settings);
        for [name, is, from] in plugins {
            self.say(Part::Beside, format!("{name}: {is} ({from})"));
        }
        self.say_all(Part::LeftBehind, off.iter());
        if let Some((toolsets, why)) = plugins::without_python(&self.home, settings) {
            let names = toolsets.join(", ");
            self.say(Part::LeftBehind, format!("toolsets that are Hermes' own, {names}: {why}"));
        }
        let variable = |name: &str| settings.variable(name);
        for platform in unsupported::platforms(&settings.platforms, &variable) {
            self.say(Part::LeftBehind, format!("the platform {platform}: nobody answers there while we run"));
        }
        for off in &settings.tools.switches.off {
            self.say(Part::LeftBehind, format!("the toolset {}: {}", off.toolset, off.why));
        }
        let provider = settings.tools.memory.provider.as_ref().map_or("", |provider| provider.value.trim());
        match provider {
            "" => self.say(Part::Works, "memory in MEMORY.md and USER.md"),
            provider => {
                self.say(Part::Works, format!("memory in MEMORY.md and USER.md, and with {provider}"))
            }
        }
    }

    /// What becomes of what the file sets, by feature.
    fn keys(&mut self, keys: &[Set]) {
        let mut features: Vec<(&str, &str, Vec<&str>)> = Vec::new();
        for set in keys {
            match set.key.support {
                Support::Named => match features.iter_mut().find(|(feature, ..)| *feature == set.key.feature)
                {
                    Some((.., paths)) => paths.push(&set.path),
                    None => features.push((set.key.feature, set.key.why, vec![&set.path])),
                },
                Support::Differs => self.say(Part::Differs, format!("`{}`: {}", set.path, set.key.why)),
                // A refusal is a warning, and its tools are named with those that are off.
                Support::Honoured | Support::Python | Support::Harmless | Support::Refused => {}
            }
        }
        for (feature, why, paths) in features {
            let paths: Vec<String> = paths.into_iter().map(|path| format!("`{path}`")).collect();
            let why = if why.is_empty() { "it has no effect" } else { why };
            let line = match paths.as_slice() {
                [path] if path.trim_matches('`') == feature => format!("{path}: {why}"),
                paths => format!("{feature} ({}): {why}", paths.join(", ")),
            };
            self.say(Part::LeftBehind, line);
        }
    }

    fn jobs(&mut self) {
        let path = self.home.path().join("cron/jobs.json");
        let Ok(text) = fs::read_to_string(&path) else { return };
        match unsupported::jobs(&text) {
            Some(jobs) => jobs.iter().for_each(|job| {
                self.say(Part::LeftBehind, format!("the scheduled job {job}: it does not run while we do"));
            }),
            None => self.say(Part::LeftBehind, format!("scheduled jobs: {} cannot be read", shown(&path))),
        }
    }

    /// What is so for everybody who moves.
    fn differ(&mut self) {
        for line in [
            "a session keeps its id through compressions; what was before is a snapshot of it",
            "messages that come while the agent is busy wait on disk and are answered",
            "memory is reviewed in the background, and nothing is flushed at /new, at exit or when a session ends",
        ] {
            self.say(Part::Differs, line);
        }
        let missing: Vec<String> = command::elsewhere().into_iter().map(|name| format!("/{name}")).collect();
        self.say(
            Part::LeftBehind,
            format!("commands, each of which says what to do instead: {}", missing.join(" ")),
        );
    }

    fn foresee(&mut self) {
        self.say(Part::AtStart, "no model is asked, and nothing is written to a memory provider");
        self.say(Part::AtStart, "what Hermes left unanswered stays so: only new messages are answered");
        self.say(
            Part::AtStart,
            "sessions that have been idle stay as they are until somebody writes in them",
        );
    }

    // ------------------------------------------------------------------------------------------ shown

    pub fn write(&self, page: &Page, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{}",
            page.paint(Tint::Bold, &format!("{} in {}", self.name, shown(self.home.path())))
        )?;
        for (part, _, heading) in PARTS {
            let lines: Vec<&str> = self.under(part).collect();
            if lines.is_empty() {
                continue;
            }
            writeln!(out, "\n  {heading}")?;
            for line in lines {
                writeln!(out, "  - {}", line.replace('\n', "\n    "))?;
            }
        }
        Ok(())
    }

    pub fn to_json(&self) -> Value {
        let parts = PARTS
            .iter()
            .map(|(part, word, _)| ((*word).to_owned(), json!(self.under(*part).collect::<Vec<_>>())));
        let mut told: Map<String, Value> = parts.collect();
        told.insert("agent".into(), json!(self.name));
        told.insert("home".into(), json!(shown(self.home.path())));
        told.insert("units".into(), self.units.iter().map(HermesUnit::emit).collect());
        if let Some(HomeTotals { schema, sessions, messages, bytes, .. }) = self.totals {
            told.insert(
                "census".into(),
                json!({"schema": schema, "sessions": sessions, "messages": messages, "bytes": bytes}),
            );
        }
        Value::Object(told)
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
