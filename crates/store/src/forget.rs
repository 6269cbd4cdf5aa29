//! Forgetting a person, a chat or a session: what belongs to it, and how it goes.
//!
//! - [`StoreReader::plan`] only looks. [`StoreWriter::forget`] deletes in one transaction everything that the database has, and in
//!   the same transaction records what is still to be done outside of it (`tl_forgetting.work`) and what memory
//!   providers are to delete (rows of `tl_retention`). A process that is killed at any point leaves a record that says
//!   how far it came, and every step can be done twice
//! - whole sessions go as when Hermes deletes them, with the sessions that worked for them and with their snapshots
//! - in a conversation that several people share, rows stay in their places: what the person wrote is replaced by
//!   [`REMOVED`], and so is all that follows in a turn that this person alone began. Rows of others stay as they are
//! - [`StoreWriter::scrub`] rewrites the index and the file, so that nothing is left in free pages or in the log
//!
//! - what was made of a person's words there and is not in place yet (a summary, a title) goes and is made again
//!
//! Deliberately absent: files, and what a summary in place in a shared conversation says. The caller names those.

mod decisions;
mod plan;
mod provider;
mod removal;
mod subject;
#[cfg(test)]
mod tests;

pub use plan::{ForgetPlan, FoundSession};
pub use subject::{ForgetSubject, NotFound, SubjectKind};

use crate::commit::{StoreWriter, run, transact};
use crate::fault::{StoreFault, While};
use crate::read::StoreReader;
use decisions::{DECISIONS, Fate};
use removal::{blank, delete_by_chat, delete_topics, drop_derived, unlink};
use rusqlite::config::DbConfig;
use rusqlite::params;
use serde_json::json;
use std::collections::BTreeMap;
use throughline_core::port::StoreError;
use throughline_core::time::Time;

/// What stands where a person's words stood in a conversation that goes on.
pub(crate) const REMOVED: &str = "[This message was removed because its sender was forgotten.]";
/// The session of keys whose own is gone.
const NOWHERE: &str = "forgotten";

/// A record of something that was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub number: i64,
    pub at: Time,
    pub kind: String,
    /// The digest of its name.
    pub subject: String,
    pub done: Option<Time>,
    /// As JSON.
    pub counts: String,
}

/// Something that was forgotten in the database, and not yet everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgetting {
    pub number: i64,
    /// What is to be done outside. None: that is done.
    pub work: Option<String>,
}

impl StoreReader {
    /// Everything that was ever forgotten, the last first.
    pub fn receipts(&self) -> Result<Vec<Receipt>, StoreError> {
        let look = || -> Result<Vec<Receipt>, StoreFault> {
            if !self.conn.table_exists(None, "tl_forgetting")? {
                return Ok(Vec::new());
            }
            let sql =
                "SELECT number, at, kind, subject, done, counts FROM tl_forgetting ORDER BY number DESC";
            let mut statement = self.conn.prepare(sql)?;
            let receipts = statement.query_map([], |row| {
                Ok(Receipt {
                    number: row.get(0)?,
                    at: Time(row.get(1)?),
                    kind: row.get(2)?,
                    subject: row.get(3)?,
                    done: row.get::<_, Option<i64>>(4)?.map(Time),
                    counts: row.get(5)?,
                })
            })?;
            Ok(receipts.collect::<rusqlite::Result<_>>()?)
        };
        look().while_doing("read the receipts")
    }

    /// What was begun and is not done, in order.
    pub fn unfinished_forgettings(&self) -> Result<Vec<Forgetting>, StoreError> {
        let look = || -> Result<Vec<Forgetting>, StoreFault> {
            if !self.conn.table_exists(None, "tl_forgetting")? {
                return Ok(Vec::new()); // a home that no version with this table has opened yet
            }
            let sql = "SELECT number, work FROM tl_forgetting WHERE state < 2 ORDER BY number";
            let mut statement = self.conn.prepare(sql)?;
            let open =
                statement.query_map([], |row| Ok(Forgetting { number: row.get(0)?, work: row.get(1)? }))?;
            Ok(open.collect::<rusqlite::Result<_>>()?)
        };
        look().while_doing("look for what is not forgotten everywhere")
    }
}

/// What a forgetting is recorded with.
pub struct ForgetOrder<'a> {
    pub now: Time,
    /// What is to be done outside of the database afterwards.
    pub work: &'a str,
    /// Counts of that, for the receipt.
    pub outside: &'a BTreeMap<&'static str, u64>,
    /// The memory provider that the home has, if it has one: it may have notes of sessions of which no turn was kept.
    pub provider: Option<&'a str>,
    /// What the agent of this home is called there.
    pub agent: &'a str,
}

impl StoreWriter {
    /// Deletes it all, in one transaction with the record of what is still to be done. Returns the record's number.
    pub fn forget(&mut self, plan: &ForgetPlan, order: &ForgetOrder<'_>) -> Result<i64, StoreError> {
        let trigger = DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER;
        let conn = &self.reader.conn;
        let had_triggers =
            conn.db_config(trigger).map_err(StoreFault::from).while_doing("read the store's settings")?;
        // Hermes' own triggers take its rows out of the search index.
        conn.set_db_config(trigger, true)
            .map_err(StoreFault::from)
            .while_doing("prepare the search index")?;
        let forgotten = self.forget_all(plan, order).while_doing("delete what is to be forgotten");
        let restored = self.reader.conn.set_db_config(trigger, had_triggers).map_err(StoreFault::from);
        restored.while_doing("go on without indexing")?;
        self.projection.dirty = true;
        forgotten
    }

    fn forget_all(&mut self, plan: &ForgetPlan, order: &ForgetOrder<'_>) -> Result<i64, StoreFault> {
        let reader = &self.reader;
        // In memory (temp_store), and gone with the connection.
        reader.conn.execute_batch(
            "PRAGMA secure_delete = ON;
             CREATE TEMP TABLE IF NOT EXISTS gone (id TEXT PRIMARY KEY) WITHOUT ROWID;
             CREATE TEMP TABLE IF NOT EXISTS gone_chat (key TEXT PRIMARY KEY) WITHOUT ROWID;",
        )?;
        transact(&reader.conn, |conn| {
            run(conn, "DELETE FROM temp.gone")?;
            run(conn, "DELETE FROM temp.gone_chat")?;
            for found in &plan.sessions {
                conn.prepare_cached("INSERT OR IGNORE INTO temp.gone VALUES (?1)")?
                    .execute([found.session.as_str()])?;
            }
            for chat in &plan.chats {
                conn.prepare_cached("INSERT OR IGNORE INTO temp.gone_chat VALUES (?1)")?.execute([chat])?;
            }
            let erasures = reader.erase_outside(plan, order)?;
            drop_derived(conn, plan, order.now)?; // it compares with what `blank` takes away
            blank(reader, plan)?;
            run(
                conn,
                "INSERT OR IGNORE INTO temp.gone
                 SELECT name FROM tl_snapshot WHERE session IN (SELECT id FROM temp.gone)",
            )?;
            delete_by_chat(reader, plan)?;
            delete_topics(conn, plan)?;
            unlink(reader, plan)?;
            for decision in DECISIONS {
                let (Fate::Goes(column) | Fate::GoesWith(column, _)) = decision.fate else { continue };
                // What a provider is to delete is a row of the same table, and stays until it has.
                let kept = if decision.table == "tl_retention" { " AND erases = 0" } else { "" };
                if column != "NULL" && conn.table_exists(None, decision.table)? {
                    let sql = format!(
                        "DELETE FROM {} WHERE {column} IN (SELECT id FROM temp.gone){kept}",
                        decision.table
                    );
                    run(conn, &sql)?;
                }
            }
            let sql = "UPDATE tl_seen SET session = ?1, seq = 0 WHERE session IN (SELECT id FROM temp.gone)";
            conn.execute(sql, [NOWHERE])?;
            run(conn, "DELETE FROM tl_unindexed WHERE id NOT IN (SELECT id FROM messages)")?;
            let mut counts: BTreeMap<&str, u64> = plan.counts.clone();
            counts.insert("provider_jobs", erasures);
            counts.extend(order.outside.iter().map(|(name, count)| (*name, *count)));
            let sql = "INSERT INTO tl_forgetting (at, kind, subject, state, counts, work) VALUES (?1, ?2, ?3, 0, ?4, ?5)";
            conn.execute(
                sql,
                params![
                    order.now.0,
                    plan.subject.kind().name(),
                    plan.subject.digest(),
                    json!(counts).to_string(),
                    order.work
                ],
            )?;
            Ok(conn.last_insert_rowid())
        })
    }

    /// What was to be done outside is done: of what it was about nothing stays.
    pub fn forgotten_outside(&mut self, number: i64) -> Result<(), StoreError> {
        let conn = &self.reader.conn;
        let done = conn.execute_batch("PRAGMA secure_delete = ON").map_err(StoreFault::from).and_then(|()| {
            let sql = "UPDATE tl_forgetting SET state = 1, work = NULL WHERE number = ?1 AND state = 0";
            transact(conn, |conn| Ok(conn.execute(sql, [number])?))
        });
        done.map(drop).while_doing("record that files are gone")
    }

    /// Rewrites the search index, `sessions.json`, the file and its log: what was deleted is in none of them.
    pub fn scrub(&mut self, now: Time) -> Result<(), StoreError> {
        self.rewrite(now).while_doing("rewrite the database without what was deleted")
    }

    fn rewrite(&mut self, now: Time) -> Result<(), StoreFault> {
        self.projection.dirty = true;
        self.project_now(now)?;
        let conn = &self.reader.conn;
        conn.flush_prepared_statement_cache();
        for index in self.reader.variants.indexes() {
            conn.execute(&format!("INSERT INTO {index}({index}) VALUES ('optimize')"), [])?;
        }
        conn.execute_batch("VACUUM")?;
        // A reader that holds an older state keeps the log, with what was deleted in it.
        let is_busy: bool = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if is_busy { Err(StoreError::Busy.into()) } else { Ok(()) }
    }

    /// It is forgotten everywhere that this program reaches.
    pub fn forgotten(&mut self, number: i64, now: Time) -> Result<(), StoreError> {
        let sql = "UPDATE tl_forgetting SET state = 2, done = ?2 WHERE number = ?1";
        let done = transact(&self.reader.conn, |conn| Ok(conn.execute(sql, params![number, now.0])?));
        done.map(drop).while_doing("record that it is forgotten")
    }

    pub fn as_reader(&self) -> &StoreReader {
        &self.reader
    }
}
