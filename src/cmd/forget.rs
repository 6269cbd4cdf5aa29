//! `throughline forget`: a person, a chat or a session, everywhere in a home.
//!
//! Without `--yes` it only tells what would go, and always what is out of reach. A gateway that runs owns its home:
//! forgetting waits until it does not, so that no session in flight writes back what was just forgotten.

use crate::interrupt;
use crate::out::{Page, write_json};
use anyhow::{bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use throughline_core::Time;
use throughline_core::port::Store;
use throughline_memory::Memory;
use throughline_store::{ForgetOrder, ForgetPlan, NotFound, StoreReader, StoreWriter, SubjectKind};
use throughline_upkeep::forget::{FileWork, finish, out_of_reach};

/// Names that are shown where there is no such name, or several.
const SHOWN_MAX: usize = 6;

/// Forget a person, a chat or a session everywhere in the home: first look, then say --yes
#[derive(Debug, clap::Args)]
pub struct Forget {
    /// What NAME names
    #[arg(required_unless_present_any = ["receipts", "resume"])]
    kind: Option<What>,
    /// A person as telegram:12345 (or only the id or the name), a chat as telegram:-100123 or as its key, a session by
    /// its id
    #[arg(required_unless_present_any = ["receipts", "resume"])]
    name: Option<String>,
    /// Only tell what would go; so without --yes
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Delete it. There is no way back
    #[arg(long)]
    yes: bool,
    /// Finish what was interrupted; the next start of the gateway does that, too
    #[arg(long, conflicts_with_all = ["kind", "yes", "dry_run", "receipts"])]
    resume: bool,
    /// Show what was forgotten, without content
    #[arg(long, conflicts_with_all = ["kind", "yes", "dry_run"])]
    receipts: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum What {
    /// What they said and what is known of them, in their own and in shared conversations
    Person,
    /// Every conversation that was led in it
    Chat,
    /// One conversation
    Session,
}

/// What would go, and what would not.
pub struct FoundToForget {
    plan: ForgetPlan,
    work: FileWork,
    outside: BTreeMap<&'static str, u64>,
    stays: Vec<String>,
}

/// Where it happens.
pub struct Site<'a> {
    pub home: &'a Path,
    pub memory: &'a Memory,
    pub provider: Option<&'a str>,
    pub agent: &'a str,
    pub now: Time,
}

impl Forget {
    /// Whether anything is to be deleted, and not only told.
    pub fn deletes(&self) -> bool {
        self.yes || self.resume
    }

    pub fn wants_receipts(&self) -> bool {
        self.receipts
    }

    /// None: only what was interrupted is to be finished.
    pub fn look(&self, site: &Site<'_>, store: &StoreReader) -> anyhow::Result<Option<FoundToForget>> {
        let (Some(what), Some(name)) = (self.kind, &self.name) else { return Ok(None) };
        let (kind, name) = (
            match what {
                What::Person => SubjectKind::Person,
                What::Chat => SubjectKind::Chat,
                What::Session => SubjectKind::Session,
            },
            name.trim(),
        );
        ensure!(!name.is_empty(), "the name of the {} is empty. Nothing was deleted", kind.name());
        let subject = store.subject(kind, name).or_else(|error| match error {
            NotFound::Store(error) => Err(error.into()),
            NotFound::Unknown(known) if known.is_empty() => {
                bail!("there is no {} {name}: this home knows none. Nothing was deleted", kind.name())
            }
            NotFound::Unknown(mut known) => {
                known.sort_by_key(|known| super::sessions::distance(name, known));
                known.truncate(3);
                bail!(
                    "there is no {} {name}. The nearest are: {}. Nothing was deleted",
                    kind.name(),
                    known.join(", ")
                )
            }
            NotFound::Ambiguous(mut several) => {
                let count = several.len();
                several.truncate(SHOWN_MAX);
                bail!(
                    "{name} can be {count} {}s: {}. Nothing was deleted; give the whole name",
                    kind.name(),
                    several.join(", ")
                )
            }
        })?;
        let plan = store.plan(&subject)?;
        let work = FileWork::of(site.home, &plan, store)?;
        let outside = work.counts(site.home, site.memory)?;
        let stays = out_of_reach(site.home, &plan);
        Ok(Some(FoundToForget { plan, work, outside, stays }))
    }

    /// Tells what would go.
    pub fn tell(&self, found: &FoundToForget, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        if self.json {
            write_json(&found.in_json(false), out)?;
            return Ok(ExitCode::SUCCESS);
        }
        found.write("would go", out)?;
        if !found.plan.busy.is_empty() {
            writeln!(out, "{}", found.waits())?;
        }
        writeln!(out, "Nothing was deleted. Do it with --yes; there is no way back.")?;
        Ok(ExitCode::SUCCESS)
    }

    pub fn show_receipts(
        &self,
        store: &StoreReader,
        page: &Page,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let receipts = store.receipts()?;
        if self.json {
            let shown: Vec<Value> = receipts
                .iter()
                .map(|receipt| {
                    json!({
                        "number": receipt.number, "at": receipt.at.as_seconds(), "kind": receipt.kind,
                        "subject_sha256": receipt.subject, "done_at": receipt.done.map(Time::as_seconds),
                        "counts": serde_json::from_str::<Value>(&receipt.counts).unwrap_or_default(),
                    })
                })
                .collect();
            write_json(&json!({ "receipts": shown }), out)?;
            return Ok(ExitCode::SUCCESS);
        }
        if receipts.is_empty() {
            writeln!(out, "Nothing was forgotten in this home.")?;
        }
        for receipt in receipts {
            let state = if receipt.done.is_some() { "done" } else { "not finished" };
            writeln!(
                out,
                "{}  {}  {}  {}  {state}",
                receipt.number,
                page.minute(receipt.at),
                receipt.kind,
                &receipt.subject.get(..16).unwrap_or_default()
            )?;
            writeln!(out, "   {}", in_words(&counts_of(&receipt.counts)))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Deletes it, and tells what went. What an earlier run left is finished with it.
    pub fn run(
        &self,
        found: Option<FoundToForget>,
        site: &Site<'_>,
        store: &mut StoreWriter,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        interrupt::explain(
            "What went is gone. The rest goes with `throughline forget --resume` or with the next start of the gateway.",
        );
        if let Some(found) = &found {
            ensure!(found.plan.busy.is_empty(), "{} Nothing was deleted", found.waits());
            let order = ForgetOrder {
                now: site.now,
                work: &found.work.text(),
                outside: &found.outside,
                provider: site.provider,
                agent: site.agent,
            };
            store.forget(&found.plan, &order)?;
        }
        let finished = finish(site.home, site.memory, store, site.now)?;
        store.close(site.now)?;
        match (&found, self.json) {
            (Some(found), true) => write_json(&found.in_json(true), out)?,
            (Some(found), false) => {
                found.write("gone", out)?;
                writeln!(out, "`throughline forget --receipts` shows the receipt, which has no content.")?;
            }
            (None, true) => write_json(&json!({ "finished": finished }), out)?,
            (None, false) => writeln!(out, "{finished} interrupted forgettings are finished.")?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl FoundToForget {
    fn waits(&self) -> String {
        format!(
            "Messages of this person wait or are being answered in shared conversations ({}). Start the gateway, let it \
             finish them, stop it, and run this again.",
            self.plan.busy.join(", ")
        )
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let counts = self.plan.counts.iter().chain(&self.outside);
        counts.map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn write(&self, verb: &str, out: &mut dyn Write) -> anyhow::Result<()> {
        let subject = &self.plan.subject;
        writeln!(out, "{} {subject}", subject.kind().name())?;
        writeln!(out, "{verb}: {}", in_words(&self.counts()))?;
        for found in &self.plan.sessions {
            writeln!(out, "  session {} ({})", found.session, found.source)?;
        }
        writeln!(out, "out of reach:")?;
        for sentence in &self.stays {
            writeln!(out, "  {sentence}")?;
        }
        writeln!(
            out,
            "What a memory provider has of it is deleted there by the gateway once it runs; `throughline memory jobs` \
             shows what is left."
        )?;
        Ok(())
    }

    fn in_json(&self, is_gone: bool) -> Value {
        json!({
            "kind": self.plan.subject.kind().name(),
            "subject": self.plan.subject.to_string(),
            "gone": is_gone,
            "sessions": self.plan.sessions.iter().map(|found| found.session.as_str()).collect::<Vec<_>>(),
            "counts": self.counts(),
            "out_of_reach": self.stays,
            "busy": self.plan.busy,
        })
    }
}

fn counts_of(text: &str) -> BTreeMap<String, u64> {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let counts = value.as_object().into_iter().flatten();
    counts.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect()
}

fn in_words(counts: &BTreeMap<String, u64>) -> String {
    let some: Vec<String> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| format!("{count} {}", name.replace('_', " ")))
        .collect();
    if some.is_empty() { "nothing".to_owned() } else { some.join(", ") }
}
