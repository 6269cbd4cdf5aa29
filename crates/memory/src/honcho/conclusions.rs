//! What the agent adds to the owner's profile becomes a conclusion about them, as under Hermes: each once.
//!
//! The additions are those of the journal beside `USER.md`, which is on disk before the file changes; how far they have
//! come is in the [`MigrationLedger`]. So one that a crash or a server cut short is made up for with the next turn. A conclusion
//! has no key, so one that may have arrived is looked for by its words.

use super::api::{HonchoFailure, HonchoRequest, RequestEffect};
use super::migration_ledger::{MigratedFile, MigrationLedger, MigrationStatus};
use super::peer::{SessionPeers, peers};
use super::provider::HonchoShared;
use super::session_name;
use super::{Honcho, settings::HonchoSettings};
use crate::entry_history::EntryEvent;
use crate::entry_journal::MemoryJournal;
use crate::target::MemoryTarget;
use reqwest::Method;
use serde_json::json;
use std::path::Path;
use throughline_core::id::SessionId;
use throughline_core::memory::{MemoryError, Retention};

/// Where the ledger has it from.
const JOURNAL: &str = "user.jsonl";
/// With one turn: what is beyond this waits for the next.
const AT_ONCE_MAX: usize = 20;
/// Pages of 100 in which one is looked for.
const PAGES_MAX: u64 = 50;

/// An entry that was added to the owner's profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileAddition {
    /// Of the journal, which names it for good.
    pub line: u64,
    pub entry: String,
    pub session: Option<SessionId>,
}

/// What was added by the agent, in order. What is told of, but not in the file, was never added or is gone again.
pub fn additions(memories: &Path) -> std::io::Result<Vec<ProfileAddition>> {
    let told = MemoryJournal::of(memories, MemoryTarget::User).read()?;
    let file = std::fs::read_to_string(memories.join("USER.md")).unwrap_or_default();
    let added = told.records.into_iter().filter(|(_, record)| record.what == EntryEvent::Added);
    let there = added.filter(|(_, record)| file.contains(&record.entry));
    let addition = |(line, record): (u64, crate::entry_history::EntryRecord)| ProfileAddition {
        line,
        entry: record.entry,
        session: record.origin.session,
    };
    Ok(there.map(addition).collect())
}

impl Honcho {
    /// Brings what was added since the home first talked to this peer. `retention` is the turn behind which that
    /// happens; it is there. An error says what is made up for with the next one.
    pub async fn mirror(
        &self,
        retention: &Retention,
        additions: &[ProfileAddition],
        ledger: &MigrationLedger,
    ) -> Result<(), MemoryError> {
        let shared = &self.shared;
        let session = session_name::valid(&retention.document);
        let peers = peers(&shared.settings, &retention.scope, &session);
        let parcel = |file: String| parcel(shared, &shared.settings, &peers, file);
        let mut known = ledger.known.lock().await;
        let start = parcel(JOURNAL.to_owned());
        let from: u64 = match ledger.stand(&mut known, &start)? {
            Some(MigrationStatus::Over { how }) => how.parse().unwrap_or(0),
            _ => {
                // What was there before is in the file that was brought, or in no turn that goes there.
                let before =
                    additions.iter().filter(|one| one.session.as_ref() != Some(&retention.scope.session));
                let last = before.map(|one| one.line).max().unwrap_or(0);
                ledger.write(&mut known, &start, MigrationStatus::Over { how: last.to_string() })?;
                last
            }
        };
        let new = additions.iter().filter(|one| one.line > from);
        let mut brought = 0;
        for ProfileAddition { line, entry, .. } in new {
            let parcel = parcel(format!("{JOURNAL}:{line}"));
            let may_be_there = match ledger.stand(&mut known, &parcel)? {
                Some(MigrationStatus::Over { .. }) => continue,
                Some(MigrationStatus::Begun { .. }) => true,
                None => false,
            };
            if brought == AT_ONCE_MAX {
                break;
            }
            brought += 1;
            if !may_be_there {
                ledger.write(&mut known, &parcel, MigrationStatus::Begun { session: session.clone() })?;
            }
            let how = match shared.concluded(&peers, &session, entry, may_be_there).await {
                Ok(()) => "there".to_owned(),
                Err(MemoryError::Refused(words)) => format!("refused: {words}"),
                Err(error) => return Err(error),
            };
            ledger.write(&mut known, &parcel, MigrationStatus::Over { how })?;
        }
        Ok(())
    }
}

fn parcel(
    shared: &HonchoShared,
    settings: &HonchoSettings,
    peers: &SessionPeers,
    file: String,
) -> MigratedFile {
    MigratedFile {
        server: shared.wire.host().to_owned(),
        workspace: settings.workspace.clone(),
        peer: peers.user.clone(),
        file,
    }
}

impl HonchoShared {
    /// One conclusion about the user, unless it is there.
    async fn concluded(
        &self,
        peers: &SessionPeers,
        session: &str,
        entry: &str,
        may_be_there: bool,
    ) -> Result<(), MemoryError> {
        let (observer, observed) = self.observer(peers, &peers.user);
        let observed = observed.unwrap_or(observer);
        if may_be_there {
            self.let_settle(&format!("conclusion/{entry}")).await;
            if self.has_concluded(observer, observed, entry).await? {
                return Ok(());
            }
        }
        let conclusion = json!({
            "content": entry, "observer_id": observer, "observed_id": observed, "session_id": session,
        });
        let body = json!({"conclusions": [conclusion]});
        let outcome = match self.wire.post("conclusions".to_owned(), body, RequestEffect::Write).await {
            Ok(answer) if answer.as_array().map(Vec::len) == Some(1) => Ok(()),
            Ok(_) => Err(HonchoFailure::Lost("the answer does not show what was kept".to_owned())),
            Err(failure) => Err(failure),
        };
        let outcome = outcome.map_err(|failure| failure.of_write("a conclusion"));
        if let Err(MemoryError::Unknown(_)) = &outcome {
            self.doubts(&format!("conclusion/{entry}"));
        }
        outcome
    }

    async fn has_concluded(&self, observer: &str, observed: &str, entry: &str) -> Result<bool, MemoryError> {
        for page in 1..=PAGES_MAX {
            let number = page.to_string();
            let request = HonchoRequest {
                method: Method::POST,
                path: "conclusions/list".to_owned(),
                query: &[("page", &number), ("size", "100")],
                body: Some(json!({"filters": {"observer_id": observer, "observed_id": observed}})),
                effect: RequestEffect::None,
            };
            let answer = match self.wire.ask(request).await {
                Err(failure) if failure.is_missing() => return Ok(false),
                answer => answer.map_err(|failure| failure.of_read("the question for conclusions"))?,
            };
            let Some(items) = answer["items"].as_array() else {
                return Err(HonchoFailure::Lost("the list cannot be read".to_owned())
                    .of_read("the question for conclusions"));
            };
            if items.iter().any(|item| item["content"] == *entry) {
                return Ok(true);
            }
            if answer["pages"].as_u64().unwrap_or(0) <= page {
                break;
            }
        }
        Ok(false)
    }
}
