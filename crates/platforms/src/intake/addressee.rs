//! Whom a message is for: the agent whose bot was written to, or another one of the process, where
//! the message itself names its profile (a webhook's path does), or Hermes' `profile_routes` say so.
//!
//! - a message that is for another agent is never this one's, whether the other one runs or not
//! - it lies in the other agent's store, under the key that Hermes gives to that profile's chats, and is
//!   answered by the bot that was written to
//! - who may speak is decided by the account that was written to
//!
//! Deliberately absent: any order among the rules, which `hermes` knows.

use super::received_files::ReceivedFiles;
use crate::live::Live;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_core::port::AgentApi;
use throughline_hermes::profile::ProfileRoutes;
use throughline_hermes::source::Source;
use tokio::time::Instant;

/// So long messages wait for an agent that starts, or has fallen over. What comes behind them waits,
/// too: after that, their senders are told that they were not read.
const WAITS: Duration = Duration::from_secs(60);

/// The agents of this process, as one of them sees the others.
#[derive(Clone)]
pub struct Neighbours {
    /// What this one is called among them.
    pub name: String,
    /// Which profile it is.
    pub profile: String,
    pub routes: ProfileRoutes,
    /// Finds one by its profile.
    pub find: Arc<dyn Fn(&str) -> Neighbour + Send + Sync>,
}

pub enum Neighbour {
    Here {
        api: Arc<dyn AgentApi>,
        home: PathBuf,
    },
    /// It belongs to this process, and does not run at the moment.
    Away,
    /// It does not belong to this process.
    Elsewhere,
}

/// Who gets a message.
#[derive(Clone)]
pub(super) struct Addressee {
    /// Set if it is another profile than the one that was written to.
    pub profile: Option<String>,
    pub api: Arc<dyn AgentApi>,
    pub live: Arc<Live>,
    pub shelf: Arc<ReceivedFiles>,
}

/// Why the message cannot be delivered to its agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AddresseeAbsent {
    /// It will run in a moment.
    Now { profile: String },
    /// Waiting is of no use.
    Gone { profile: String },
}

pub(super) struct Addressees {
    pub own: Addressee,
    neighbours: Option<Neighbours>,
    bytes_max: Option<u64>,
    others: Mutex<BTreeMap<String, Addressee>>,
    /// Since when a profile is missed.
    missed: Mutex<BTreeMap<String, Instant>>,
}

impl Addressees {
    pub fn new(own: Addressee, neighbours: Option<Neighbours>, bytes_max: Option<u64>) -> Self {
        Self { own, neighbours, bytes_max, others: Mutex::default(), missed: Mutex::default() }
    }

    /// What this agent is called among the others.
    pub fn name(&self) -> &str {
        self.neighbours.as_ref().map_or("", |neighbours| &neighbours.name)
    }

    pub fn of(&self, source: &Source) -> Result<Addressee, AddresseeAbsent> {
        let Some(neighbours) = &self.neighbours else { return Ok(self.own.clone()) };
        let named = source.profile.as_deref().or_else(|| neighbours.routes.profile_of(source));
        match named.filter(|profile| *profile != neighbours.profile) {
            Some(profile) => self.other(neighbours, profile),
            None => Ok(self.own.clone()),
        }
    }

    /// All who may get messages of this account, and run.
    pub fn all(&self) -> Vec<Addressee> {
        let mut all = vec![self.own.clone()];
        let Some(neighbours) = &self.neighbours else { return all };
        let mut profiles: Vec<&str> = neighbours.routes.iter().map(|route| route.profile.as_str()).collect();
        profiles.sort_unstable();
        profiles.dedup();
        profiles.retain(|profile| *profile != neighbours.profile);
        all.extend(profiles.into_iter().filter_map(|profile| self.other(neighbours, profile).ok()));
        all
    }

    fn other(&self, neighbours: &Neighbours, profile: &str) -> Result<Addressee, AddresseeAbsent> {
        let mut missed = self.missed.lock().expect("nothing panics while it holds this");
        let (api, home) = match (neighbours.find)(profile) {
            Neighbour::Here { api, home } => (api, home),
            Neighbour::Away => {
                let since = *missed.entry(profile.to_owned()).or_insert_with(Instant::now);
                let profile = profile.to_owned();
                return Err(match since.elapsed() < WAITS {
                    true => AddresseeAbsent::Now { profile },
                    false => AddresseeAbsent::Gone { profile },
                });
            }
            Neighbour::Elsewhere => return Err(AddresseeAbsent::Gone { profile: profile.to_owned() }),
        };
        missed.remove(profile);
        let mut others = self.others.lock().expect("nothing panics while it holds this");
        let known = others.get(profile).filter(|known| Arc::ptr_eq(&known.api, &api));
        if let Some(known) = known {
            return Ok(known.clone());
        }
        // It has started, or started again.
        let other = Addressee {
            profile: Some(profile.to_owned()),
            live: self.own.live.beside(api.clone()),
            shelf: Arc::new(ReceivedFiles::of(&home, self.bytes_max)),
            api,
        };
        others.insert(profile.to_owned(), other.clone());
        Ok(other)
    }
}
