//! What another process writes beside us: Hermes' command line, most likely.
//!
//! SQLite counts the commits of others (`data_version`). When the count moves, rows above the last
//! one we looked at that are not ours name the sessions they were added to. A change that left no
//! new row (an `/undo`, say) could be in any session: then every session we lately wrote to is
//! named, because to look again costs little and to miss it would break the thread. Where rows were added
//! as well, Hermes' own count says in which session something was taken back.
//!
//! Every batch looks, inside its transaction, so that a session's owner learns with its commit of
//! all that stands before its own rows. The others are told when the store is tended.

use crate::commit::StoreWriter;
use crate::fault::StoreFault;
use crate::read::session_id;
use rusqlite::OptionalExtension;
use std::collections::{BTreeSet, HashMap};
use throughline_core::id::SessionId;
use throughline_core::port::Tended;
use throughline_core::time::Time;

/// More than are ever awake at once on a busy home; beyond that a session loads afresh anyway.
const RECENT_MAX: usize = 1_024;

#[derive(Default)]
pub(crate) struct ForeignWrites {
    data_version: i64,
    /// Rows up to here have been looked at.
    looked: i64,
    /// Rows above `looked` that are ours, as first and last of runs one stride apart.
    ours: Vec<(i64, i64)>,
    /// And those that we put between others.
    between: BTreeSet<i64>,
    recent: HashMap<SessionId, u64>,
    clock: u64,
    /// Sessions that others wrote to, until a commit of their owner has said so.
    unread: BTreeSet<SessionId>,
    /// What batches came upon since the store was last tended.
    unannounced: Option<BTreeSet<SessionId>>,
    /// How often something was taken back in a session we lately wrote to, as far as we have looked.
    rewinds: HashMap<SessionId, i64>,
}

/// Others have written since we last looked.
pub(crate) struct ForeignNotice {
    data_version: i64,
    /// The last row that there is.
    last: i64,
    /// Where rows were added. Nowhere: the change was of another kind, and could be anywhere.
    sessions: BTreeSet<SessionId>,
    /// Counts that are not those we knew.
    rewinds: Vec<(SessionId, i64)>,
}

impl ForeignNotice {
    pub fn concerns(&self, session: &SessionId) -> bool {
        self.sessions.is_empty() || self.sessions.contains(session)
    }
}

impl ForeignWrites {
    /// In order, and above all before them.
    pub fn wrote(&mut self, rows: &[i64]) {
        for &row in rows {
            match self.ours.last_mut() {
                Some((_, last)) if *last + crate::transcript::STRIDE == row => *last = row,
                _ => self.ours.push((row, row)),
            }
        }
    }

    pub fn put_between(&mut self, rows: &[i64]) {
        self.between.extend(rows.iter().filter(|row| **row > self.looked));
    }

    pub fn touched(&mut self, session: &SessionId) {
        self.clock += 1;
        self.recent.insert(session.clone(), self.clock);
        if self.recent.len() > 2 * RECENT_MAX {
            let oldest = self.clock.saturating_sub(RECENT_MAX as u64);
            self.recent.retain(|_, when| *when > oldest);
            self.rewinds.retain(|session, _| self.recent.contains_key(session));
        }
    }

    /// Whether the owner of this session has yet to learn that others wrote to it.
    pub fn is_unread(&self, session: &SessionId) -> bool {
        self.unread.contains(session)
    }

    pub fn read(&mut self, session: &SessionId) {
        self.unread.remove(session);
    }

    /// What was found is kept for those whom it concerns.
    pub fn noticed(&mut self, notice: ForeignNotice) {
        self.data_version = notice.data_version;
        self.looked_up_to(notice.last);
        match notice.sessions.is_empty() {
            true => self.unread.extend(self.recent.keys().cloned()),
            false => self.unread.extend(notice.sessions.iter().cloned()),
        }
        self.unannounced.get_or_insert_default().extend(notice.sessions);
        self.rewinds.extend(notice.rewinds);
    }

    fn is_ours(&self, row: i64) -> bool {
        let run = self.ours.partition_point(|(first, _)| *first <= row);
        let Some((first, last)) = run.checked_sub(1).map(|run| self.ours[run]) else { return false };
        row <= last && (row - first) % crate::transcript::STRIDE == 0
    }

    fn is_known(&self, row: i64) -> bool {
        self.is_ours(row) || self.between.contains(&row)
    }

    fn looked_up_to(&mut self, row: i64) {
        self.looked = self.looked.max(row);
        self.ours.clear();
        self.between.clear();
    }
}

impl StoreWriter {
    pub(crate) fn begin_watching(&mut self) -> Result<(), StoreFault> {
        self.foreign.data_version = self.data_version()?;
        self.foreign.looked =
            self.reader.conn.query_row("SELECT COALESCE(max(id), 0) FROM messages", [], |row| row.get(0))?;
        Ok(())
    }

    pub(crate) fn look_around(&mut self, now: Time) -> Result<Tended, StoreFault> {
        match self.notice()? {
            Some(notice) => self.foreign.noticed(notice),
            None => {
                if let Some((_, last)) = self.foreign.ours.last().copied() {
                    self.foreign.looked_up_to(last);
                }
            }
        }
        let Some(mut foreign) = self.foreign.unannounced.clone() else { return Ok(Tended::default()) };
        let routes = self.adopt_routes(now)?; // if it cannot be done now, nothing is forgotten
        self.foreign.unannounced = None;
        if foreign.is_empty() && !routes {
            foreign = self.foreign.recent.keys().cloned().collect();
        }
        Ok(Tended { foreign: foreign.into_iter().collect(), routes, ..Tended::default() })
    }

    /// What others have committed since we last looked; None if nothing. Inside a transaction that
    /// writes, no other process can add to it until that ends.
    pub(crate) fn notice(&self) -> Result<Option<ForeignNotice>, StoreFault> {
        let data_version = self.data_version()?;
        if data_version == self.foreign.data_version {
            return Ok(None);
        }
        let mut sessions = BTreeSet::new();
        let mut last = 0;
        let sql = "SELECT id, session_id FROM messages WHERE id > ?1 ORDER BY id";
        let mut statement = self.reader.conn.prepare_cached(sql)?;
        let mut rows = statement.query([self.foreign.looked])?;
        while let Some(row) = rows.next()? {
            last = row.get(0)?;
            if !self.foreign.is_known(last) {
                sessions.extend(session_id(&row.get::<_, String>(1)?)); // a snapshot's rows are no news
            }
        }
        let rewinds = self.rewinds()?;
        if !sessions.is_empty() {
            sessions.extend(rewinds.iter().map(|(session, _)| session.clone()));
        }
        Ok(Some(ForeignNotice { data_version, last, sessions, rewinds }))
    }

    /// Where something was taken back since we last looked. Of a session that we have not looked at, that is any count:
    /// it may have been ours.
    fn rewinds(&self) -> Result<Vec<(SessionId, i64)>, StoreFault> {
        if !self.reader.variants.can.has_rewind_count {
            return Ok(Vec::new());
        }
        let sql = "SELECT COALESCE(rewind_count, 0) FROM sessions WHERE id = ?1";
        let mut statement = self.reader.conn.prepare_cached(sql)?;
        let mut found = Vec::new();
        for session in self.foreign.recent.keys() {
            let count = statement.query_row([session.as_str()], |row| row.get::<_, i64>(0)).optional()?;
            let known = self.foreign.rewinds.get(session).copied().unwrap_or(0);
            found.extend(count.filter(|count| *count != known).map(|count| (session.clone(), count)));
        }
        Ok(found)
    }

    fn data_version(&self) -> Result<i64, StoreFault> {
        Ok(self.reader.conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_ours_are_told_from_those_in_between() {
        let mut foreign = ForeignWrites::default();
        foreign.wrote(&[102, 104]);
        foreign.wrote(&[106, 109, 111]);
        let ours: Vec<i64> = (100..115).filter(|row| foreign.is_ours(*row)).collect();
        assert_eq!(ours, [102, 104, 106, 109, 111]);
        assert_eq!(foreign.ours, [(102, 106), (109, 111)]);
    }
}
