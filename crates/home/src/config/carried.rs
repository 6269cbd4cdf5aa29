//! What a home asks for that is not carried, by the one table of `throughline_hermes::config::support`.

use super::{JOBS_FILE, Written};
use throughline_hermes::config::platforms::Platforms;
use throughline_hermes::config::support::{self, Key, Set, Support, VARIABLES};
use throughline_hermes::unsupported;

/// So many features are named in one line; the rest is counted.
const NAMED_MAX: usize = 12;

/// The feature that Hermes' scheduled jobs are.
const JOBS: &str = "scheduled jobs";

impl Written {
    /// The keys that say something else than Hermes' default, in the order of the file.
    pub fn set_keys(&self) -> Vec<Set> {
        support::set(&self.config.root)
    }

    /// Features, each once: jobs, platforms, then what the file and the variables ask for.
    pub(super) fn not_carried(&self, platforms: &Platforms) -> Vec<String> {
        let mut named = Vec::new();
        let mut name = |feature: &str| {
            let is_known = named.iter().any(|known: &String| {
                known == feature || known.strip_prefix(feature).is_some_and(|rest| rest.starts_with(" ("))
            });
            if !is_known {
                named.push(feature.to_owned());
            }
        };
        match self.jobs.as_deref().map(unsupported::jobs) {
            Some(Some(jobs)) if !jobs.is_empty() => name(&format!("{JOBS} ({} in {JOBS_FILE})", jobs.len())),
            Some(None) => name(&format!("{JOBS} ({JOBS_FILE} cannot be read)")),
            _ => {}
        }
        let variable = |name: &str| self.variable(name).map(|found| found.value.expose().to_owned());
        for platform in unsupported::platforms(platforms, &variable) {
            let known = VARIABLES.iter().find(|line| line.platform == Some(platform.as_str()));
            name(known.map_or(platform.as_str(), |known| known.feature));
        }
        for set in self.set_keys().iter().filter(|set| set.key.support == Support::Named) {
            name(set.key.feature);
        }
        for line in VARIABLES.iter().filter(|line| line.support == Support::Named && line.platform.is_none())
        {
            if support::is_given(line, &variable) {
                name(line.feature);
            }
        }
        named
    }
}

/// The features in one line, for the start and a status. None: there are none.
pub fn in_a_line(named: &[String]) -> Option<String> {
    let (first, rest) = named.split_at(named.len().min(NAMED_MAX));
    let mut line = first.join(", ");
    if !rest.is_empty() {
        line.push_str(&format!(" and {} more", rest.len()));
    }
    (!named.is_empty()).then_some(line)
}

/// What becomes of a key, for the table of `config check`.
pub fn becomes(key: &Key) -> String {
    match key.support {
        Support::Refused => {
            format!("refused, these tools are off: {}: {}", key.feature.replace(' ', ", "), key.why)
        }
        support if key.why.is_empty() => support.words().to_owned(),
        support => format!("{}: {}", support.words(), key.why),
    }
}
