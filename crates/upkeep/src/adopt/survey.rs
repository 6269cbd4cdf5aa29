//! What moving an agent over would mean for it, found out by looking only.
//!
//! - reads files and the database beside a gateway that runs there; nothing is created, locked or changed
//! - what is not carried over is named, one by one: so that no platform or job is missed a week later
//! - a home that would not start says so here, not after Hermes was stopped

use super::unit::{self, HermesUnit};
use anyhow::Context;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use throughline_core::Time;
use throughline_core::command;
use throughline_hermes::config::support::{Set, Support};
use throughline_hermes::schema::{Verdict, verdict};
use throughline_hermes::unsupported;
use throughline_home::config::{Environment, ModelChoice, Overrides, Settings, Written};
use throughline_home::home::Home;
use throughline_store::{HomeTotals, OpenError};

/// What a survey says, under these headings and in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurveySection {
    Found,
    Works,
    Beside,
    LeftBehind,
    Differs,
    Damage,
    AtStart,
    Obstacles,
}

const SECTIONS: [(SurveySection, &str, &str); 8] = [
    (SurveySection::Found, "found", "What was found"),
    (SurveySection::Works, "works", "What works as before"),
    (SurveySection::Beside, "beside", "What runs beside us, in a process of its own"),
    (SurveySection::LeftBehind, "left_behind", "What is not carried over"),
    (SurveySection::Differs, "differs", "What differs"),
    (SurveySection::Damage, "damage", "What is damaged"),
    (SurveySection::AtStart, "at_start", "What happens at the start"),
    (SurveySection::Obstacles, "obstacles", "What is in the way"),
];

/// What is damaged in a home.
#[derive(Debug, Default)]
pub struct Damage {
    pub lines: Vec<String>,
    /// With which no gateway would start.
    pub in_the_way: Vec<String>,
}

/// What the program knows of plugins, and of Hermes' own Python.
pub trait PluginLookup {
    /// Name, kind and origin of each plugin that would run, and why others would not.
    fn configured(&self, home: &Home, settings: &Settings) -> (Vec<[String; 3]>, Vec<String>);
    /// Toolsets that are Hermes' own and would be lost, and why. None: none would be.
    fn without_python(&self, home: &Home, settings: &Settings) -> Option<(Vec<String>, String)>;
    /// What these programs say of their version, or else what the settings name.
    fn hermes_version(
        &self,
        home: &Home,
        settings: Option<&Settings>,
        programs: &[PathBuf],
    ) -> Option<String>;
}

/// What a survey asks others.
pub struct Surveyor<'a> {
    pub environment: &'a Environment,
    pub damage: &'a dyn Fn(&Home) -> anyhow::Result<Damage>,
    pub plugins: &'a dyn PluginLookup,
    /// A time as people read it, to the minute.
    pub minute: &'a dyn Fn(Time) -> String,
}

/// One agent, as it would move.
pub struct Survey {
    pub name: String,
    pub home: Home,
    pub totals: Option<HomeTotals>,
    pub units: Vec<HermesUnit>,
    lines: Vec<(SurveySection, String)>,
}

impl Survey {
    pub fn of(name: &str, home: &Home, surveyor: &Surveyor<'_>) -> anyhow::Result<Self> {
        let Surveyor { environment, damage, plugins, minute } = *surveyor;
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
        let unit_directories = unit::unit_directories(&variable);
        let units = unit::of_home(path, usual.as_deref(), &unit_directories);
        let programs = unit::programs(&units, &unit_directories);
        let mut survey = Self { name: name.to_owned(), home: home.clone(), totals, units, lines: Vec::new() };
        survey.find(minute, unreadable.is_some());
        let mut known = None;
        match Written::read(home, environment, Overrides::default())? {
            Err(report) => survey.say_all(SurveySection::Obstacles, report.errors.iter()),
            Ok(written) => {
                let report = written.report();
                survey.say_all(SurveySection::Obstacles, report.errors.iter());
                survey.say_all(SurveySection::Differs, report.warnings.iter());
                survey.keys(&written.set_keys());
                if let Some(settings) = &report.settings {
                    survey.compare(settings, plugins);
                    known = plugins.hermes_version(home, Some(settings), &programs);
                }
            }
        }
        let version = known.or_else(|| plugins.hermes_version(home, None, &programs));
        survey.say(
            SurveySection::Found,
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
                survey.say(SurveySection::Obstacles, verdict.to_string());
            }
        }
        match unreadable {
            Some(why) => survey.say(SurveySection::Obstacles, why),
            None => {
                let damage = damage(home)?;
                survey.say_all(SurveySection::Damage, damage.lines.iter());
                survey.say_all(SurveySection::Obstacles, damage.in_the_way.iter());
            }
        }
        survey.foresee();
        Ok(survey)
    }

    /// Why it cannot move as it is.
    pub fn obstacles(&self) -> impl Iterator<Item = &str> {
        self.under(SurveySection::Obstacles)
    }

    fn under(&self, section: SurveySection) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(move |(of, _)| *of == section).map(|(_, line)| line.as_str())
    }

    fn say(&mut self, section: SurveySection, line: impl Into<String>) {
        self.lines.push((section, line.into()));
    }

    fn say_all(&mut self, section: SurveySection, lines: impl Iterator<Item = impl ToString>) {
        lines.for_each(|line| self.say(section, line.to_string()));
    }

    fn find(&mut self, minute: &dyn Fn(Time) -> String, is_unreadable: bool) {
        match self.totals.clone() {
            None if is_unreadable => self.say(SurveySection::Found, "a state.db that cannot be read"),
            None => self.say(SurveySection::Found, "no conversations yet: there is no state.db"),
            Some(totals) => {
                let HomeTotals { schema, sessions, messages, newest, bytes } = totals;
                let megabytes = bytes as f64 / (1 << 20) as f64;
                self.say(
                    SurveySection::Found,
                    format!("{sessions} sessions with {messages} messages, {megabytes:.1} MB, tables of version {schema}"),
                );
                if let Some(newest) = newest {
                    self.say(SurveySection::Found, format!("the last message is of {}", minute(newest)));
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
            self.say(SurveySection::Found, format!("the unit {} {kept}", unit.name));
        }
        if let Some(owner) = self.home.owner().and_then(|occupied| occupied.owner) {
            let who = if owner.throughline.is_some() { "a Throughline" } else { "a Hermes gateway" };
            self.say(SurveySection::Found, format!("{who} runs here (pid {})", owner.pid));
        }
    }

    fn compare(&mut self, settings: &Settings, plugins: &dyn PluginLookup) {
        let model = match &settings.model {
            ModelChoice::Rehearsal => {
                self.say(
                    SurveySection::Obstacles,
                    "no model is configured that we can reach: set model and its key in config.yaml or .env",
                );
                return;
            }
            ModelChoice::OpenAi(endpoint) | ModelChoice::Anthropic(endpoint) => {
                format!("the model {} at {}", endpoint.model.value, endpoint.base_url.value)
            }
        };
        self.say(SurveySection::Works, model);
        let ours = settings.platforms.all.iter().filter(|platform| platform.enabled);
        let ours: Vec<_> =
            ours.filter(|platform| unsupported::CARRIED.contains(&platform.name.as_str())).collect();
        for platform in ours {
            self.say(SurveySection::Works, format!("{}: every chat keeps its session", platform.name));
        }
        let (beside, off) = plugins.configured(&self.home, settings);
        for [name, is, from] in beside {
            self.say(SurveySection::Beside, format!("{name}: {is} ({from})"));
        }
        self.say_all(SurveySection::LeftBehind, off.iter());
        if let Some((toolsets, why)) = plugins.without_python(&self.home, settings) {
            let names = toolsets.join(", ");
            self.say(SurveySection::LeftBehind, format!("toolsets that are Hermes' own, {names}: {why}"));
        }
        let variable = |name: &str| settings.variable(name);
        for platform in unsupported::platforms(&settings.platforms, &variable) {
            self.say(
                SurveySection::LeftBehind,
                format!("the platform {platform}: it is not answered while we run"),
            );
        }
        for off in &settings.tools.switches.off {
            self.say(SurveySection::LeftBehind, format!("the toolset {}: {}", off.toolset, off.why));
        }
        let provider = settings.tools.memory.provider.as_ref().map_or("", |provider| provider.value.trim());
        match provider {
            "" => self.say(SurveySection::Works, "memory in MEMORY.md and USER.md"),
            provider => self
                .say(SurveySection::Works, format!("memory in MEMORY.md and USER.md, and with {provider}")),
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
                Support::Differs => {
                    self.say(SurveySection::Differs, format!("`{}`: {}", set.path, set.key.why))
                }
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
            self.say(SurveySection::LeftBehind, line);
        }
    }

    fn jobs(&mut self) {
        let path = self.home.path().join("cron/jobs.json");
        let Ok(text) = fs::read_to_string(&path) else { return };
        match unsupported::jobs(&text) {
            Some(jobs) => jobs.iter().for_each(|job| {
                self.say(
                    SurveySection::LeftBehind,
                    format!("the scheduled job {job}: it does not run while we do"),
                );
            }),
            None => self
                .say(SurveySection::LeftBehind, format!("scheduled jobs: {} cannot be read", shown(&path))),
        }
    }

    /// What is so for everybody who moves.
    fn differ(&mut self) {
        for line in [
            "a session keeps its id through compressions; what was before is a snapshot of it",
            "messages that come while the agent is busy wait on disk and are answered",
            "memory is reviewed in the background, and nothing is flushed at /new, at exit or when a session ends",
        ] {
            self.say(SurveySection::Differs, line);
        }
        let missing: Vec<String> = command::elsewhere().into_iter().map(|name| format!("/{name}")).collect();
        self.say(
            SurveySection::LeftBehind,
            format!("commands, each of which says what to do instead: {}", missing.join(" ")),
        );
    }

    fn foresee(&mut self) {
        self.say(SurveySection::AtStart, "no model is asked, and nothing is written to a memory provider");
        self.say(
            SurveySection::AtStart,
            "what Hermes left unanswered stays so: only new messages are answered",
        );
        self.say(
            SurveySection::AtStart,
            "sessions that have been idle stay as they are until a person writes in them",
        );
    }

    // ------------------------------------------------------------------------------------------ shown

    /// What is to be said, by heading and in order.
    pub fn headings(&self) -> impl Iterator<Item = (&'static str, Vec<&str>)> {
        let sections =
            SECTIONS.iter().map(|(section, _, heading)| (*heading, self.under(*section).collect()));
        sections.filter(|(_, lines): &(_, Vec<&str>)| !lines.is_empty())
    }

    pub fn to_json(&self) -> Value {
        let parts = SECTIONS
            .iter()
            .map(|(section, word, _)| ((*word).to_owned(), json!(self.under(*section).collect::<Vec<_>>())));
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
