//! How far a move has come, kept in the home that is moved: `throughline.adoption`.
//!
//! Written before each step is taken, so that what a crash leaves can be gone on with or taken back.

use super::unit::HermesUnit;
use anyhow::Context;
use serde_json::{Value, json};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use throughline_home::home::{self, Home};

const FILE: &str = "throughline.adoption";

/// The steps of a move, in order. Each names what is being done, or was when the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveStep {
    BackingUp,
    Silencing,
    Starting,
    Done,
}

const STEPS: [(MoveStep, &str); 4] = [
    (MoveStep::BackingUp, "backing_up"),
    (MoveStep::Silencing, "silencing"),
    (MoveStep::Starting, "starting"),
    (MoveStep::Done, "done"),
];

/// Who keeps our gateway running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayKeeper {
    /// A unit of this name.
    Unit { name: String, system: bool },
    /// Nothing: it was started once.
    None,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveRecord {
    pub step: MoveStep,
    /// When it began, as text for people.
    pub began: String,
    /// The homes that moved together, in order.
    pub homes: Vec<PathBuf>,
    /// How Hermes' units were before.
    pub units: Vec<HermesUnit>,
    /// Homes whose Hermes ran without a unit: it is not started again by itself.
    pub by_hand: Vec<PathBuf>,
    pub backups: Vec<PathBuf>,
    pub keeper: GatewayKeeper,
    /// How many messages there were, in all of the homes.
    pub messages: u64,
}

impl MoveRecord {
    /// None: this home was not moved.
    pub fn of(home: &Home) -> anyhow::Result<Option<Self>> {
        let path = home.path().join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("could not read {}", path.display())),
        };
        let parsed = serde_json::from_str(&text).ok().and_then(|value: Value| Self::parse(&value));
        parsed.map(Some).with_context(|| {
            format!("{} is damaged, so it cannot be told how far the move came; look into it, and delete it if no move is under way", path.display())
        })
    }

    /// On disk when this returns.
    pub fn keep(&self, home: &Home) -> anyhow::Result<()> {
        let path = home.path().join(FILE);
        home::replace(&path, &format!("{:#}\n", self.emit()))
            .with_context(|| format!("could not write {}", path.display()))
    }

    pub fn forget(home: &Home) -> anyhow::Result<()> {
        let path = home.path().join(FILE);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("could not remove {}", path.display()))
            }
            _ => Ok(()),
        }
    }

    fn emit(&self) -> Value {
        let paths =
            |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        let step = STEPS.iter().find(|(step, _)| *step == self.step).map(|(_, word)| *word);
        json!({
            "step": step,
            "began": self.began,
            "homes": paths(&self.homes),
            "hermes_units": self.units.iter().map(HermesUnit::emit).collect::<Vec<_>>(),
            "hermes_by_hand": paths(&self.by_hand),
            "backups": paths(&self.backups),
            "unit": match &self.keeper {
                GatewayKeeper::Unit { name, system } => json!({"name": name, "system": system}),
                GatewayKeeper::None => Value::Null,
            },
            "messages": self.messages,
        })
    }

    fn parse(value: &Value) -> Option<Self> {
        let paths = |name: &str| -> Option<Vec<PathBuf>> {
            value[name].as_array()?.iter().map(|path| path.as_str().map(PathBuf::from)).collect()
        };
        let keeper = match &value["unit"] {
            Value::Null => GatewayKeeper::None,
            unit => GatewayKeeper::Unit {
                name: unit["name"].as_str()?.to_owned(),
                system: unit["system"].as_bool()?,
            },
        };
        Some(Self {
            step: STEPS.iter().find(|(_, word)| value["step"] == *word)?.0,
            began: value["began"].as_str()?.to_owned(),
            homes: paths("homes")?,
            units: value["hermes_units"].as_array()?.iter().map(HermesUnit::parse).collect::<Option<_>>()?,
            by_hand: paths("hermes_by_hand")?,
            backups: paths("backups")?,
            keeper,
            messages: value["messages"].as_u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_home::home::ChosenBy;

    #[test]
    fn a_record_is_read_as_it_was_written_and_a_damaged_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path(), ChosenBy::CommandLine);
        assert_eq!(MoveRecord::of(&home).unwrap(), None);
        let unit = HermesUnit { name: "h.service".into(), system: false, is_enabled: true, is_active: false };
        let record = MoveRecord {
            step: MoveStep::Silencing,
            began: "2026-05-28".into(),
            homes: vec![directory.path().to_owned()],
            units: vec![unit],
            by_hand: Vec::new(),
            backups: vec!["/b".into()],
            keeper: GatewayKeeper::Unit { name: "throughline".into(), system: false },
            messages: 7,
        };
        record.keep(&home).unwrap();
        assert_eq!(MoveRecord::of(&home).unwrap(), Some(record));
        fs::write(directory.path().join(FILE), "{\"step\": \"dancing\"}").unwrap();
        assert!(MoveRecord::of(&home).unwrap_err().to_string().contains("is damaged"));
        MoveRecord::forget(&home).unwrap();
        assert_eq!(MoveRecord::of(&home).unwrap(), None);
    }
}
