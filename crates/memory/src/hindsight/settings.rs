//! What a user can set about Hindsight, by Hermes' names: `hindsight/config.json` in the home, else the
//! shared `~/.hindsight/config.json`, else the environment.
//!
//! The first file that is there counts alone; a few keys that it leaves open are looked up in the environment,
//! as Hermes does. A file that cannot be read as JSON is an error, not an absence: the next one could name
//! another person's bank.

use super::bank::{self, Bank};
use serde_json::{Map, Value, json};
use std::time::Duration;
use throughline_net::{Endpoint, Secret};

const CLOUD: &str = "https://api.hindsight.vectorize.io";
const LOCAL: &str = "http://localhost:8888";
const BANK: &str = "hermes";
/// The server may extract facts with a model before it answers.
const TIMEOUT: u64 = 120;
const CONTEXT: &str = "conversation between Hermes Agent and the User";
const MATCHES: [&str; 5] = ["any", "all", "any_strict", "all_strict", "exact"];

/// What was configured, checked.
#[derive(Clone, Debug)]
pub struct HindsightSettings {
    /// Settings that were not understood and what holds instead, in sentences.
    pub notes: Vec<String>,
    pub url: String,
    pub key: Option<Secret>,
    pub timeout: Duration,
    pub mode: MemoryMode,
    pub(super) bank: Bank,
    pub(super) budget: String,
    pub(super) recall: RecallSettings,
    pub(super) retain: RetainSettings,
}

/// Who asks for memories: the gateway before a turn, the model by itself, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryMode {
    Hybrid,
    Context,
    Tools,
}

/// What is asked before a turn: for memories, or for an answer made of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallMethod {
    Recall,
    Reflect,
}

#[derive(Clone, Debug)]
pub(super) struct RecallSettings {
    pub auto: bool,
    pub method: RecallMethod,
    pub tokens_max: u64,
    /// Of the question, in characters. 0: all of it.
    pub query_max: usize,
    pub types: Vec<String>,
    /// What the user wants memories filtered by. Empty: nothing.
    pub tags: Vec<String>,
    pub tags_match: String,
    /// What stands above the memories, in place of Hermes' words.
    pub preamble: String,
}

#[derive(Clone, Debug)]
pub(super) struct RetainSettings {
    pub auto: bool,
    pub every: u64,
    pub tags: Vec<String>,
    pub context: String,
    pub source: String,
    pub user_prefix: String,
    pub assistant_prefix: String,
    /// In the server's form.
    pub observation_scopes: Option<Value>,
}

impl HindsightSettings {
    /// Takes the texts of the two files, where they are there, and the environment. An error says what to do.
    pub fn read(
        home_file: Option<&str>,
        global_file: Option<&str>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let env = |name: &str| env(name).filter(|value| !value.is_empty());
        let config = match (home_file, global_file) {
            (Some(text), _) => object(text, "hindsight/config.json")?,
            (None, Some(text)) => object(text, "~/.hindsight/config.json")?,
            (None, None) => from_environment(&env),
        };
        let mut reader = HindsightSettingsReader { config: &config, env: &env, notes: Vec::new() };
        let (url, key) = reader.place()?;
        let banks = config.get("banks").and_then(|banks| banks.get("hermes")).cloned().unwrap_or_default();
        let settings = Self {
            url,
            key,
            timeout: Duration::from_secs(reader.timeout()),
            mode: reader.mode(),
            bank: reader.bank(&banks)?,
            budget: reader.budget(&banks),
            recall: reader.recall()?,
            retain: reader.retain()?,
            notes: Vec::new(),
        };
        Ok(Self { notes: reader.notes, ..settings })
    }
}

fn object(text: &str, file: &str) -> Result<Map<String, Value>, String> {
    let broken = |reason: String| {
        format!(
            "Hindsight is off: {file} cannot be read ({reason}). Put it right, or remove it to use the environment."
        )
    };
    match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(broken("it holds no JSON object".to_owned())),
        Err(error) => Err(broken(format!("line {}, column {}", error.line(), error.column()))),
    }
}

fn from_environment(env: &dyn Fn(&str) -> Option<String>) -> Map<String, Value> {
    let mut config = Map::new();
    let mut bank = Map::new();
    for (name, key) in [("HINDSIGHT_MODE", "mode"), ("HINDSIGHT_API_KEY", "apiKey")] {
        config.extend(env(name).map(|value| (key.to_owned(), json!(value))));
    }
    for (name, key) in [("HINDSIGHT_BANK_ID", "bankId"), ("HINDSIGHT_BUDGET", "budget")] {
        bank.extend(env(name).map(|value| (key.to_owned(), json!(value))));
    }
    config.insert("banks".to_owned(), json!({ "hermes": bank }));
    config
}

struct HindsightSettingsReader<'a> {
    config: &'a Map<String, Value>,
    env: &'a dyn Fn(&str) -> Option<String>,
    notes: Vec<String>,
}

impl HindsightSettingsReader<'_> {
    /// The first of these keys that says something.
    fn given(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().filter_map(|key| self.config.get(*key)).find(|value| is_said(value))
    }

    fn text(&self, keys: &[&str]) -> Option<String> {
        self.given(keys).and_then(plain)
    }

    fn note(&mut self, sentence: String) {
        self.notes.push(sentence);
    }

    fn place(&self) -> Result<(String, Option<Secret>), String> {
        let mode = self.text(&["mode"]).unwrap_or_else(|| "cloud".to_owned());
        let default = match mode.as_str() {
            "cloud" => CLOUD,
            "local_external" => LOCAL,
            "local_embedded" | "local" => {
                return Err(format!(
                    "Hindsight is off: mode {mode:?} means a server inside Hermes, which cannot be started from here. \
                     Run a Hindsight server and set \"mode\": \"local_external\" and \"api_url\" in hindsight/config.json, or use \"cloud\"."
                ));
            }
            _ => {
                return Err(format!(
                    "Hindsight is off: its mode {mode:?} is not known. Set it to \"cloud\" or \"local_external\" in hindsight/config.json."
                ));
            }
        };
        let url = self.text(&["api_url"]).or_else(|| (self.env)("HINDSIGHT_API_URL"));
        let key = self.text(&["apiKey", "api_key"]).or_else(|| (self.env)("HINDSIGHT_API_KEY"));
        if mode == "cloud" && url.is_none() && key.is_none() {
            return Err("Hindsight is off: its cloud needs an API key. Set HINDSIGHT_API_KEY, or \"mode\": \"local_external\" \
                        in hindsight/config.json for a server of your own."
                .to_owned());
        }
        let url = url.unwrap_or_else(|| default.to_owned());
        let key = key.map(Secret::new);
        let endpoint = Endpoint::new(&url, "").and_then(|endpoint| match &key {
            Some(key) => endpoint.secret_header("authorization", "Bearer ", key),
            None => Ok(endpoint),
        });
        match endpoint {
            Ok(_) => Ok((url, key)),
            Err(error) => Err(format!("Hindsight is off: {error}. Check its api_url and API key.")),
        }
    }

    fn timeout(&mut self) -> u64 {
        let given =
            self.given(&["timeout"]).cloned().or_else(|| (self.env)("HINDSIGHT_TIMEOUT").map(Value::from));
        match given.as_ref().map(|value| (whole(value), value)) {
            None => TIMEOUT,
            Some((Some(seconds), _)) if seconds > 0 => seconds,
            Some((_, value)) => {
                self.note(format!("Hindsight's timeout {value} is no number of seconds; {TIMEOUT} is used."));
                TIMEOUT
            }
        }
    }

    fn mode(&mut self) -> MemoryMode {
        let given = self.text(&["memory_mode"]);
        match given.as_deref() {
            None | Some("hybrid") => MemoryMode::Hybrid,
            Some("context") => MemoryMode::Context,
            Some("tools") => MemoryMode::Tools,
            Some(other) => {
                let note = format!(
                    "Hindsight's memory_mode {other:?} is not known (hybrid, context, tools); hybrid is used."
                );
                self.note(note);
                MemoryMode::Hybrid
            }
        }
    }

    fn bank(&mut self, banks: &Value) -> Result<Bank, String> {
        let name = self
            .text(&["bank_id"])
            .or_else(|| banks.get("bankId").filter(|value| is_said(value)).and_then(plain));
        let name = name.unwrap_or_else(|| BANK.to_owned());
        if !bank::is_usable(&name) || name.len() > bank::LENGTH_MAX {
            return Err(format!(
                "Hindsight is off: bank_id {name:?} cannot be the name of a bank. Use at most {} characters, and letters among them.",
                bank::LENGTH_MAX
            ));
        }
        let Some(template) = self.text(&["bank_id_template"]) else { return Ok(Bank::named(&name)) };
        Bank::templated(&name, &template).or_else(|reason| {
            self.note(format!(
                "Hindsight's bank_id_template {template:?} is not used: {reason} (profile, workspace, platform, user, session are). Everything goes to the bank {name:?}."
            ));
            Ok(Bank::named(&name))
        })
    }

    fn budget(&mut self, banks: &Value) -> String {
        let given = self.text(&["recall_budget", "budget"]);
        let given = given.or_else(|| banks.get("budget").and_then(plain)).filter(|text| !text.is_empty());
        match given {
            None => "mid".to_owned(),
            Some(budget) if matches!(budget.as_str(), "low" | "mid" | "high") => budget,
            Some(other) => {
                self.note(format!(
                    "Hindsight's recall_budget {other:?} is not known (low, mid, high); mid is used."
                ));
                "mid".to_owned()
            }
        }
    }

    fn recall(&mut self) -> Result<RecallSettings, String> {
        let method = match self.text(&["recall_prefetch_method", "prefetch_method"]).as_deref() {
            None | Some("recall") => RecallMethod::Recall,
            Some("reflect") => RecallMethod::Reflect,
            Some(other) => {
                let note = format!(
                    "Hindsight's recall_prefetch_method {other:?} is not known (recall, reflect); recall is used."
                );
                self.note(note);
                RecallMethod::Recall
            }
        };
        let types = match self.config.get("recall_types") {
            None | Some(Value::Null) => vec!["observation".to_owned()],
            Some(Value::Array(list)) if list.is_empty() => vec!["observation".to_owned()],
            Some(value) => tags(value),
        };
        let tags_match = match self.text(&["recall_tags_match"]) {
            None => "any".to_owned(),
            Some(given) if MATCHES.contains(&given.as_str()) => given,
            Some(other) => {
                // The narrowest, since it is unknown what was meant to be kept apart.
                self.note(format!(
                    "Hindsight's recall_tags_match {other:?} is not known ({}); all_strict is used.",
                    MATCHES.join(", ")
                ));
                "all_strict".to_owned()
            }
        };
        Ok(RecallSettings {
            auto: self.switch("auto_recall"),
            method,
            tokens_max: self.number("recall_max_tokens", 4096)?.max(1),
            query_max: usize::try_from(self.number("recall_max_input_chars", 800)?).unwrap_or(usize::MAX),
            types,
            tags: self.given(&["recall_tags"]).map(tags).unwrap_or_default(),
            tags_match,
            preamble: self.text(&["recall_prompt_preamble"]).unwrap_or_default(),
        })
    }

    fn retain(&mut self) -> Result<RetainSettings, String> {
        let or_env = |keys: &[&str], name: &str| {
            self.given(keys).cloned().or_else(|| (self.env)(name).map(Value::from))
        };
        let worded = |key: &str, name: &str| {
            or_env(&[key], name)
                .as_ref()
                .and_then(plain)
                .map(|text| text.trim().to_owned())
                .unwrap_or_default()
        };
        let prefix = |key: &str, name: &str, default: &str| match worded(key, name) {
            text if text.is_empty() => default.to_owned(),
            text => text,
        };
        let scopes = or_env(&["observation_scopes"], "HINDSIGHT_RETAIN_OBSERVATION_SCOPES");
        let observation_scopes = scopes.as_ref().and_then(observation_scopes);
        let retain = RetainSettings {
            auto: self.switch("auto_retain"),
            every: self.number("retain_every_n_turns", 1)?.max(1),
            tags: or_env(&["retain_tags"], "HINDSIGHT_RETAIN_TAGS").as_ref().map(tags).unwrap_or_default(),
            // An empty one is meant: no context.
            context: self.config.get("retain_context").and_then(plain).unwrap_or_else(|| CONTEXT.to_owned()),
            source: worded("retain_source", "HINDSIGHT_RETAIN_SOURCE"),
            user_prefix: prefix("retain_user_prefix", "HINDSIGHT_RETAIN_USER_PREFIX", "User"),
            assistant_prefix: prefix(
                "retain_assistant_prefix",
                "HINDSIGHT_RETAIN_ASSISTANT_PREFIX",
                "Assistant",
            ),
            observation_scopes,
        };
        if let (Some(given), None) = (&scopes, &retain.observation_scopes) {
            self.notes.push(format!("Hindsight's observation_scopes {given} is not known (per_tag, combined, all_combinations, or lists of tags); the server's own is used."));
        }
        Ok(retain)
    }

    /// On unless it is said to be off, in any spelling.
    fn switch(&self, key: &str) -> bool {
        match self.config.get(key) {
            None | Some(Value::Null) => true,
            Some(Value::Bool(on)) => *on,
            Some(Value::String(text)) => {
                !matches!(text.trim().to_ascii_lowercase().as_str(), "" | "false" | "no" | "off" | "0")
            }
            Some(Value::Number(number)) => number.as_f64() != Some(0.0),
            Some(Value::Array(_) | Value::Object(_)) => true,
        }
    }

    fn number(&self, key: &str, default: u64) -> Result<u64, String> {
        match self.config.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => whole(value).ok_or_else(|| {
                format!("Hindsight is off: its setting {key} is {value}, which is no whole number. Put it right in hindsight/config.json.")
            }),
        }
    }
}

/// What Python takes for true: Hermes looks further where it is not.
fn is_said(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) => true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(object) => !object.is_empty(),
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// As Python's `int`, and nothing below zero.
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let float = number.as_f64().filter(|float| (0.0..1e15).contains(float))?;
            Some(float as u64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A list, a list written as text, or words with commas between; each once.
pub(super) fn tags(value: &Value) -> Vec<String> {
    let listed = match value {
        Value::Array(list) => list.iter().filter_map(plain).collect(),
        Value::String(text) => match serde_json::from_str::<Value>(text.trim()) {
            Ok(Value::Array(list)) => list.iter().filter_map(plain).collect(),
            _ => text.split(',').map(str::to_owned).collect::<Vec<_>>(),
        },
        other => plain(other).into_iter().collect(),
    };
    let mut kept: Vec<String> = Vec::new();
    for tag in listed {
        let tag = tag.trim();
        if !tag.is_empty() && !kept.iter().any(|other| other == tag) {
            kept.push(tag.to_owned());
        }
    }
    kept
}

/// A word the server knows, or lists of tags. A flat list of tags is one scope.
fn observation_scopes(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => match text.trim() {
            word @ ("per_tag" | "combined" | "all_combinations") => Some(json!(word)),
            list if list.starts_with('[') => observation_scopes(&serde_json::from_str(list).ok()?),
            _ => None,
        },
        Value::Array(list) => {
            let scopes: Vec<Vec<String>> = match list.iter().all(Value::is_string) {
                true => vec![tags(value)],
                false => list.iter().map(tags).collect(),
            };
            let scopes: Vec<Vec<String>> = scopes.into_iter().filter(|scope| !scope.is_empty()).collect();
            (!scopes.is_empty()).then(|| json!(scopes))
        }
        _ => None,
    }
}
