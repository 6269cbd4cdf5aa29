//! One batch, one transaction, one fsync.
//!
//! Each commit has a savepoint of its own: one that is refused is rolled back to it, and its
//! neighbours stand. A disk that cannot be written, or a lock that is not given, fails every
//! member, because none of them is on disk; the connection stays usable for the next try.
//! So does a file that is no longer in its place ([`crate::place`]).

use crate::fault::{StoreFault, While};
use crate::foreign::{ForeignNotice, ForeignWrites};
use crate::index;
use crate::open::Home;
use crate::place::{FileId, OpenFiles};
use crate::projection::Projection;
use crate::read::StoreReader;
use crate::transcript::NextRow;
use crate::write::{CommitWriter, ForeignNews};
use rusqlite::Connection;
use throughline_core::id::Boot;
use throughline_core::port::{Closed, Commit, Committed, Read, Store, StoreError, Tended};
use throughline_core::time::Time;

/// The one connection of a home that writes.
pub struct StoreWriter {
    pub(crate) reader: StoreReader,
    pub(crate) home: Home,
    pub(crate) foreign: ForeignWrites,
    pub(crate) projection: Projection,
    files: OpenFiles,
    /// A batch was written, and then its file was not in its place: whether it stands is not known, so this connection
    /// writes no more. Why.
    given_up: Option<String>,
    /// What a log held that was deleted is in the database.
    rescued: bool,
}

/// What a batch did beside the tables, once it is on disk.
#[derive(Default)]
pub(crate) struct Effects {
    pub rows: Vec<i64>,
    /// Rows that were put between others.
    pub between: Vec<i64>,
    pub routes: bool,
}

impl StoreWriter {
    pub(crate) fn new(reader: StoreReader, home: Home) -> Self {
        let files = OpenFiles::of(&reader.conn, &home);
        let (foreign, projection) = (ForeignWrites::default(), Projection::default());
        Self { reader, home, foreign, projection, files, given_up: None, rescued: false }
    }

    /// Takes over what Hermes wrote while we were away.
    pub(crate) fn adopted(mut self, now: Time) -> Result<Self, StoreError> {
        self.begin_watching().while_doing("look for what Hermes wrote")?;
        self.adopt_routes(now).while_doing("take over where chats lead")?;
        self.forget_handovers().while_doing("forget sessions that are gone")?;
        self.projection.dirty = true; // we may have been killed before the file could follow
        Ok(self)
    }

    /// The file that is being written, to tell it from another one of its name. None: it cannot be told.
    pub fn file(&self) -> Option<FileId> {
        self.files.database()
    }

    /// Whether what is written now could be found again.
    fn in_place(&self) -> Result<(), StoreFault> {
        if let Some(why) = &self.given_up {
            return Err(StoreError::Unwritable(why.clone()).into());
        }
        let Some(displaced) = self.files.displaced(&self.reader.conn) else { return Ok(()) };
        Err(displaced.told().into())
    }

    /// A log that was deleted is still open here, and only here: what it holds goes to the database, before the process
    /// ends without being asked.
    fn rescue_log(&mut self) {
        let log_alone = self.files.displaced(&self.reader.conn).is_some_and(|it| !it.is_database());
        if log_alone && !self.rescued {
            let sql = "PRAGMA wal_checkpoint(PASSIVE)";
            self.rescued = self.reader.conn.query_row(sql, [], |_| Ok(())).is_ok();
        }
    }

    fn batch(&mut self, batch: &[Commit]) -> Result<Vec<Result<Committed, StoreError>>, StoreFault> {
        let results = self.written(batch)?;
        // Deleted just now: it may have been before the commit.
        if let Err(fault) = self.in_place() {
            if let StoreFault::Refused(StoreError::Unwritable(why)) = &fault {
                self.given_up = Some(why.clone());
            }
            return Err(fault);
        }
        Ok(results)
    }

    fn written(&mut self, batch: &[Commit]) -> Result<Vec<Result<Committed, StoreError>>, StoreFault> {
        let mut effects = Effects::default();
        let (results, notice) = transact(&self.reader.conn, |conn| {
            let notice = self.notice()?;
            let mut rows = NextRow::default();
            let mut results = Vec::with_capacity(batch.len());
            for commit in batch {
                let news = self.is_news_to(commit, notice.as_ref());
                results.push(self.alone(conn, commit, news, &mut rows, &mut effects)?);
            }
            self.in_place()?;
            Ok((results, notice))
        })?;
        if let Some(notice) = notice {
            self.foreign.noticed(notice);
        }
        self.foreign.wrote(&effects.rows);
        self.foreign.put_between(&effects.between);
        for (commit, result) in batch.iter().zip(&results) {
            if let (Commit::Session { state, .. }, Ok(_)) = (commit, result) {
                self.foreign.touched(&state.id);
                self.foreign.read(&state.id);
            }
        }
        self.projection.dirty |= effects.routes;
        Ok(results)
    }

    /// Whether others wrote to the session of this commit, and its owner does not know.
    fn is_news_to(&self, commit: &Commit, notice: Option<&ForeignNotice>) -> ForeignNews {
        let Commit::Session { state, .. } = commit else { return ForeignNews::None };
        let found = notice.is_some_and(|notice| notice.concerns(&state.id));
        if found || self.foreign.is_unread(&state.id) { ForeignNews::Foreign } else { ForeignNews::None }
    }

    /// Outer: the batch goes on or ends. Inner: this commit holds or was refused.
    fn alone(
        &self,
        conn: &Connection,
        commit: &Commit,
        news: ForeignNews,
        rows: &mut NextRow,
        effects: &mut Effects,
    ) -> Result<Result<Committed, StoreError>, StoreFault> {
        run(conn, "SAVEPOINT alone")?;
        let mut scribe = CommitWriter::new(conn, &self.reader.variants, &self.home, rows, news);
        match scribe.write(commit) {
            Ok(committed) => {
                effects.rows.append(&mut scribe.effects.rows);
                effects.between.append(&mut scribe.effects.between);
                effects.routes |= scribe.effects.routes;
                run(conn, "RELEASE alone")?;
                Ok(Ok(committed))
            }
            // SQLite itself may have rolled everything back: then nothing is left to go on with.
            Err(fault) if fault.ends_the_batch() || conn.is_autocommit() => Err(fault),
            Err(fault) => {
                run(conn, "ROLLBACK TO alone")?;
                run(conn, "RELEASE alone")?;
                Ok(Err(fault.while_doing("commit")))
            }
        }
    }

    fn next_boot(&self) -> Result<Boot, StoreFault> {
        let sql = "INSERT INTO tl_meta (key, value) VALUES ('boot', '1')
                   ON CONFLICT(key) DO UPDATE SET value = CAST(value AS INTEGER) + 1
                   RETURNING CAST(value AS INTEGER)";
        let boot: i64 = transact(&self.reader.conn, |conn| Ok(conn.query_row(sql, [], |row| row.get(0))?))?;
        Ok(Boot(boot as u64))
    }

    fn close_all(&mut self, now: Time, go_on: &mut dyn FnMut() -> bool) -> Result<Closed, StoreFault> {
        self.project_now(now)?;
        let mut more = true;
        while more && go_on() {
            more = index::slice(&self.reader, index::CLOSING)?;
        }
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        self.reader.conn.query_row(sql, [], |_| Ok(()))?; // busy readers keep the log: it is whole all the same
        let unindexed = "SELECT count(*) FROM tl_unindexed";
        let unindexed: i64 = self.reader.conn.query_row(unindexed, [], |row| row.get(0))?;
        Ok(Closed { unindexed: unindexed.unsigned_abs() })
    }
}

pub(crate) fn run(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(drop)
}

/// All of `work`, or nothing of it.
pub(crate) fn transact<T>(
    conn: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreFault>,
) -> Result<T, StoreFault> {
    run(conn, "BEGIN IMMEDIATE")?;
    let worked = work(conn).and_then(|done| {
        run(conn, "COMMIT")?;
        Ok(done)
    });
    if worked.is_err() && !conn.is_autocommit() {
        run(conn, "ROLLBACK")?;
    }
    worked
}

/// The same failure for every member of a batch.
fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Busy => StoreError::Busy,
        StoreError::Unwritable(why) => StoreError::Unwritable(why.clone()),
        other => StoreError::Broken { doing: "commit", source: other.to_string().into() },
    }
}

impl Store for StoreWriter {
    fn commit(&mut self, batch: &[Commit]) -> Vec<Result<Committed, StoreError>> {
        if batch.is_empty() {
            return Vec::new();
        }
        match self.batch(batch) {
            Ok(results) => results,
            Err(fault) => {
                self.rescue_log();
                let error = fault.of(&self.home.database).while_doing("commit");
                batch.iter().map(|_| Err(again(&error))).collect()
            }
        }
    }

    fn boot(&mut self, _now: Time) -> Result<Boot, StoreError> {
        self.next_boot().map_err(|fault| fault.of(&self.home.database)).while_doing("count this start")
    }

    fn rest(&mut self) {
        self.reader.conn.flush_prepared_statement_cache();
        let _ = self.reader.conn.release_memory(); // pages that could not be given back are in use
    }

    fn tend(&mut self, now: Time) -> Result<Tended, StoreError> {
        if let Err(fault) = self.in_place() {
            self.rescue_log();
            return Err(fault.while_doing("look for the files of the store"));
        }
        let looked = self.look_around(now).map_err(|fault| fault.of(&self.home.database));
        let mut tended = looked.while_doing("look for what Hermes wrote")?;
        // Each on its own: an index that is damaged must not keep the news, or sessions.json, back.
        let indexed = index::extent(&self.reader).and_then(|extent| index::slice(&self.reader, extent));
        match indexed.while_doing("index messages") {
            Ok(more) => tended.more = more,
            Err(error) => tended.trouble.push(error.in_full()),
        }
        let rest = [
            self.forget_old_events().while_doing("let old events go"),
            self.project(now).while_doing("write sessions.json"),
        ];
        tended.trouble.extend(rest.into_iter().filter_map(Result::err).map(|error| error.in_full()));
        Ok(tended)
    }

    fn close_while(&mut self, now: Time, go_on: &mut dyn FnMut() -> bool) -> Result<Closed, StoreError> {
        if let Some(displaced) = self.files.displaced(&self.reader.conn)
            && displaced.is_database()
        {
            return Err(displaced.told());
        }
        self.close_all(now, go_on).while_doing("close the store")
    }

    fn reader(&self) -> &dyn Read {
        &self.reader
    }
}

#[cfg(test)]
mod tests;
