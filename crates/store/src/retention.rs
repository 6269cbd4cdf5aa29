//! What is to be remembered outside, turn by turn, until its provider has it.
//!
//! - what a row carries is fixed when its turn ends: nothing about it is looked up later
//! - the name a conversation has at its provider is given with its first turn, and kept
//! - what is kept or refused stays so, until a person has a refused one tried again
//! - of what is kept, a session's last few rows stay, without what was said; the rest is the provider's alone

use crate::envelope;
use crate::fault::StoreFault;
use crate::read::{StoreReader, malformed, text, unsigned};
use crate::seen::seen_as;
use crate::write::{CommitWriter, SessionChange};
use rusqlite::{Connection, OptionalExtension, Row, params};
use throughline_core::id::{ChatKey, Generation, SessionId};
use throughline_core::memory::{
    Filing, Naming, PendingRetention, Place, Progress, Retention, RetentionChange, Scope,
};
use throughline_core::session::Kept;
use throughline_core::time::Time;
use throughline_hermes::entry::entry_from_json;

const COLUMNS: &str = "key, provider, document, place, messages, state, attempts, tried, not_before, \
                       created, error, scope, said, replied, erases";

/// Rows of a session whose turn its provider has. A turn is answered again at most while it is the last one.
const KEPT_MAX: i64 = 16;

/// Rows that are looked at together. The hand-over needs the first of each document.
const DUE_MAX: u32 = 1000;

/// What lies buffered in a document before something of this session that is due there.
const BEFORE_DUE: &str = "UPDATE tl_retention SET state = 1, updated = ?2 WHERE number IN (
    SELECT earlier.number
    FROM (SELECT provider, document, MAX(number) AS last FROM tl_retention
          WHERE session = ?1 AND state = 1 GROUP BY provider, document) AS due
    CROSS JOIN tl_retention AS earlier ON earlier.document = due.document AND earlier.number < due.last
        AND earlier.state IN (0, 1) AND earlier.state = 0 AND earlier.provider = due.provider)";

impl CommitWriter<'_> {
    pub(crate) fn retain(&mut self, change: &SessionChange<'_>, kept: &Kept) -> Result<(), StoreFault> {
        let Some(Filing { provider, scope, naming, every }) = &kept.filing else {
            return self.note(Some(change.id()), "retention_without_provider", "", change.at);
        };
        let key = turn_key(self.conn, change.id(), kept.turn.0.0 as i64)?;
        let document = self.document(provider, scope, naming, change.at)?;
        let sql =
            "INSERT INTO tl_retention (key, provider, document, session, place, messages, state, created,
                                             updated, scope, said, replied)
                   VALUES (?1, ?2, ?3, ?4,
                           1 + COALESCE((SELECT MAX(place) FROM tl_retention WHERE session = ?4), 0),
                           ?5 + COALESCE((SELECT message_count FROM sessions WHERE id = ?4), 0),
                           0, ?6, ?6, ?7, ?8, ?9) ON CONFLICT(key) DO NOTHING";
        let added = self.conn.prepare_cached(sql)?.execute(params![
            key,
            provider,
            document,
            change.id(),
            change.messages,
            change.at.0,
            envelope::scope_text(scope),
            envelope::texts_text(&kept.said),
            kept.replied,
        ])?;
        if added == 0 {
            return self.note(Some(change.id()), "turn_already_kept", &key, change.at);
        }
        let sql = "SELECT COUNT(*) FROM tl_retention WHERE session = ?1 AND state = 0";
        let buffered: i64 = self.conn.prepare_cached(sql)?.query_row([change.id()], |row| row.get(0))?;
        if buffered as u64 >= *every {
            self.hand_over_kept(change)?;
        }
        Ok(())
    }

    /// What is kept of a session goes out. A document that several sessions share is first in, first out: what
    /// others still buffer there, and was said before, goes first.
    pub(crate) fn hand_over_kept(&mut self, change: &SessionChange<'_>) -> Result<(), StoreFault> {
        let sql = "UPDATE tl_retention SET state = 1, updated = ?2 WHERE session = ?1 AND state = 0";
        self.conn.prepare_cached(sql)?.execute(params![change.id(), change.at.0])?;
        self.conn.prepare_cached(BEFORE_DUE)?.execute(params![change.id(), change.at.0])?;
        Ok(())
    }

    /// All that waits for more of its kind, of every session.
    pub(crate) fn hand_over_all(&mut self, at: Time) -> Result<(), StoreFault> {
        let sql = "UPDATE tl_retention SET state = 1, updated = ?1 WHERE state = 0";
        self.conn.prepare_cached(sql)?.execute([at.0])?;
        Ok(())
    }

    /// The name that is in use, or the one that is from now on.
    fn document(
        &mut self,
        provider: &str,
        scope: &Scope,
        naming: &Naming,
        at: Time,
    ) -> Result<String, StoreFault> {
        let subject = subject(scope);
        let sql = "SELECT name FROM tl_document WHERE provider = ?1 AND subject = ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        if let Some(name) = statement.query_row([provider, &subject], |row| row.get(0)).optional()? {
            return Ok(name);
        }
        let name = free_name(self.conn, provider, naming)?;
        let sql = "INSERT INTO tl_document (provider, subject, name, own, at) VALUES (?1, ?2, ?3, ?4, ?5)";
        let own = naming.otherwise.is_some();
        self.conn.prepare_cached(sql)?.execute(params![provider, subject, name, own, at.0])?;
        Ok(name)
    }

    pub(crate) fn retention(&mut self, key: &str, to: &RetentionChange, at: Time) -> Result<(), StoreFault> {
        let changed = match to {
            RetentionChange::Attempting => {
                let sql = "UPDATE tl_retention SET attempts = attempts + 1, tried = 1, updated = ?2
                           WHERE key = ?1 AND state = 1";
                self.conn.prepare_cached(sql)?.execute(params![key, at.0])?
            }
            RetentionChange::Kept if self.is_erasure(key)? => {
                let sql = "DELETE FROM tl_retention WHERE key = ?1 AND state = 1";
                self.conn.prepare_cached(sql)?.execute([key])?
            }
            RetentionChange::Kept => {
                let sql = "UPDATE tl_retention SET state = 2, error = NULL, said = NULL, replied = NULL, updated = ?2
                           WHERE key = ?1 AND state = 1";
                let changed = self.conn.prepare_cached(sql)?.execute(params![key, at.0])?;
                self.forget_kept(key)?;
                changed
            }
            RetentionChange::Postponed { until, error, arrived } => {
                let sql = "UPDATE tl_retention SET not_before = ?2, error = ?3, tried = ?4, updated = ?5
                           WHERE key = ?1 AND state = 1";
                self.conn.prepare_cached(sql)?.execute(params![key, until.0, error, arrived, at.0])?
            }
            RetentionChange::Refused { error } => {
                let sql = "UPDATE tl_retention SET state = 3, error = ?2, updated = ?3
                           WHERE key = ?1 AND state = 1";
                self.conn.prepare_cached(sql)?.execute(params![key, error, at.0])?
            }
            RetentionChange::Retried => {
                let sql = "UPDATE tl_retention SET state = 1, not_before = 0, updated = ?2
                           WHERE key = ?1 AND state IN (1, 3)";
                self.conn.prepare_cached(sql)?.execute(params![key, at.0])?
            }
        };
        match (changed, to) {
            (1, _) => Ok(()),
            (_, RetentionChange::Attempting) => {
                Err(StoreFault::Malformed(format!("turn {key} does not wait to be remembered")))
            }
            _ => self.note(None, "late_retention_dropped", key, at),
        }
    }

    /// Whether the provider is to delete something. Nothing of such a row stays once it has.
    fn is_erasure(&self, key: &str) -> Result<bool, StoreFault> {
        let sql = "SELECT 1 FROM tl_retention WHERE key = ?1 AND erases = 1";
        Ok(self.conn.prepare_cached(sql)?.exists([key])?)
    }

    /// Of what a session's provider has, the last few stay: they number the next turn, and recognise one that
    /// comes again.
    fn forget_kept(&mut self, key: &str) -> Result<(), StoreFault> {
        let sql = "DELETE FROM tl_retention WHERE state = 2
                       AND session = (SELECT session FROM tl_retention WHERE key = ?1)
                       AND number <= (SELECT number FROM tl_retention WHERE state = 2
                                      AND session = (SELECT session FROM tl_retention WHERE key = ?1)
                                      ORDER BY number DESC LIMIT 1 OFFSET ?2)";
        self.conn.prepare_cached(sql)?.execute(params![key, KEPT_MAX])?;
        Ok(())
    }

    /// What was recalled stands with its row from now on, where the file has room for it.
    pub(crate) fn recalled(&mut self, row: i64, sent_as: &str) -> Result<(), StoreFault> {
        if self.variants.can.has_api_content {
            let sql = "UPDATE messages SET api_content = ?2 WHERE id = ?1";
            self.conn.prepare_cached(sql)?.execute(params![row, sent_as])?;
        }
        Ok(())
    }
}

impl StoreReader {
    /// What is to be handed over, in order. Of each document that is among it the first is; of all, the one that
    /// was tried longest ago.
    pub(crate) fn due_retentions(&self, provider: &str) -> Result<Vec<PendingRetention>, StoreFault> {
        self.at_once(|| self.due_up_to(DUE_MAX, provider))
    }

    fn due_up_to(&self, max: u32, provider: &str) -> Result<Vec<PendingRetention>, StoreFault> {
        let mut due = self.pending_retentions(&due_sql(), &[&provider, &max])?;
        if due.len() == max as usize {
            // A long backlog of one document hides none of the others.
            due.truncate(max as usize / 2);
            let mut firsts = self.first_retentions(max / 2, provider)?;
            firsts.retain(|first| due.iter().all(|pending| pending.retention.key != first.retention.key));
            due.extend(firsts);
        }
        Ok(due)
    }

    /// Of each document the first that is to be handed over, in order; of very many documents those that were
    /// tried longest ago.
    fn first_retentions(&self, max: u32, provider: &str) -> Result<Vec<PendingRetention>, StoreFault> {
        // From document to document by the index, however much lies in each.
        let sql = format!(
            "WITH RECURSIVE documents(name) AS (
                 SELECT MIN(document) FROM tl_retention WHERE state IN (0, 1)
                 UNION ALL
                 SELECT (SELECT MIN(document) FROM tl_retention WHERE state IN (0, 1) AND document > name)
                 FROM documents WHERE name IS NOT NULL),
             firsts(first) AS (
                 SELECT (SELECT number FROM tl_retention WHERE document = name AND state IN (0, 1)
                         AND state = 1 AND provider = ?1 ORDER BY number LIMIT 1)
                 FROM documents WHERE name IS NOT NULL)
             SELECT {COLUMNS} FROM tl_retention WHERE number IN (
                 SELECT number FROM tl_retention JOIN firsts ON number = first
                 ORDER BY not_before, number LIMIT ?2)
             ORDER BY number"
        );
        self.pending_retentions(&sql, &[&provider, &max])
    }

    /// All that is not kept yet, for any provider, in order.
    pub(crate) fn open_retentions(&self) -> Result<Vec<PendingRetention>, StoreFault> {
        let sql = format!("SELECT {COLUMNS} FROM tl_retention WHERE state <> 2 ORDER BY number");
        self.pending_retentions(&sql, &[])
    }

    fn pending_retentions(
        &self,
        sql: &str,
        given: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<PendingRetention>, StoreFault> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(given)?;
        let mut pending_retentions = Vec::new();
        while let Some(row) = rows.next()? {
            pending_retentions.push(pending(row)?);
        }
        Ok(pending_retentions)
    }

    /// The chat that a session was at home in, though by now that leads elsewhere: as its turns were kept.
    fn former_chat(&self, id: &SessionId) -> Result<Option<ChatKey>, StoreFault> {
        let sql = "SELECT scope FROM tl_retention WHERE session = ?1 ORDER BY number DESC LIMIT 1";
        let mut kept = self.conn.prepare_cached(sql)?;
        let kept: Option<String> = kept.query_row([id.as_str()], |row| row.get(0)).optional()?;
        Ok(kept.and_then(|kept| envelope::scope(&kept).ok()).and_then(|scope| scope.chat))
    }

    /// Where a session is at home, for its memory provider. One that has ended is where it was.
    pub(crate) fn scope_of(&self, id: &SessionId, provider: &str) -> Result<Scope, StoreFault> {
        let sql = "SELECT COALESCE(s.parent_session_id, t.predecessor), s.source, s.user_id, s.title,
                          r.chat, r.entry, t.generation
                   FROM sessions s LEFT JOIN tl_session t ON t.id = s.id
                                   LEFT JOIN tl_route r ON r.session = s.id
                   WHERE s.id = ?1 ORDER BY r.chat LIMIT 1";
        let mut scope = Scope {
            agent: "".into(),
            chat: None,
            session: id.clone(),
            generation: Generation(0),
            parent: None,
            platform: String::new(),
            user: None,
            user_name: None,
            place: Place::default(),
            title: None,
            document: None,
            meant: None,
        };
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([id.as_str()])?;
        if let Some(row) = rows.next()? {
            scope.parent = text(row, 0)?.and_then(|parent| parent.parse().ok());
            scope.generation = Generation(row.get::<_, Option<i64>>(6)?.unwrap_or(0) as u64);
            scope.platform = text(row, 1)?.unwrap_or_default();
            scope.user = text(row, 2)?.filter(|user| !user.is_empty());
            scope.title = text(row, 3)?.filter(|title| !title.is_empty());
            scope.chat = text(row, 4)?.and_then(|chat| chat.parse::<ChatKey>().ok());
            let mut entry = text(row, 5)?;
            if scope.chat.is_none() {
                scope.chat = self.former_chat(id)?;
                let sql = "SELECT entry FROM tl_route WHERE chat = ?1";
                let chat = scope.chat.as_ref().map(ChatKey::as_str);
                entry = self.conn.prepare_cached(sql)?.query_row([chat], |row| row.get(0)).optional()?;
            }
            if let Some(entry) = entry.and_then(|entry| entry_from_json(&entry).ok()) {
                let origin = entry.origin.unwrap_or_default();
                scope.user_name = origin.user_name;
                scope.place = Place {
                    chat: Some(origin.chat_id).filter(|chat| !chat.is_empty()),
                    name: origin.chat_name.or(entry.display_name),
                    kind: Some(entry.chat_type),
                    thread: origin.thread_id,
                };
            }
        }
        let sql = "SELECT name FROM tl_document WHERE provider = ?1 AND subject = ?2";
        let mut named = self.conn.prepare_cached(sql)?;
        scope.document = named.query_row([provider, &subject(&scope)], |row| row.get(0)).optional()?;
        Ok(scope)
    }
}

/// What a turn of a session is called where it is remembered. If one of the same name was deleted before it, its turns
/// count anew: neither what still waits of the earlier one nor what the provider has of it may be taken for them, so
/// they are told apart by when it was born. One life has one kind of keys, also if the clock is set back.
pub(crate) fn turn_key(conn: &Connection, session: &str, turn: i64) -> Result<String, StoreFault> {
    // The second condition is for what earlier versions began, which recorded no deletion.
    let sql = "SELECT birth FROM (SELECT CAST(started_at * 1000000 AS INTEGER) AS birth FROM sessions WHERE id = ?1)
               WHERE EXISTS (SELECT 1 FROM tl_meta WHERE key = ?2)
                  OR EXISTS (SELECT 1 FROM tl_retention WHERE session = ?1 AND instr(key, ?1 || '/' || birth || '/') = 1)";
    let mut statement = conn.prepare_cached(sql)?;
    let birth =
        statement.query_row([session, &deletion_of(session)], |row| row.get::<_, i64>(0)).optional()?;
    Ok(match birth {
        Some(birth) => format!("{session}/{birth}/{turn}"),
        None => format!("{session}/{turn}"),
    })
}

/// Under which `tl_meta` records that a session of this name was deleted: it does not tell which.
fn deletion_of(session: &str) -> String {
    format!("deleted {}", seen_as(session))
}

/// Called when a session is deleted, and before one begins: what is there of one of its name is of an earlier life.
/// That is recorded now because dates do not tell later: clocks are set back.
pub(crate) fn record_earlier_life(conn: &Connection, session: &str) -> Result<(), StoreFault> {
    let sql = "INSERT OR IGNORE INTO tl_meta (key, value)
               SELECT ?2, '' WHERE EXISTS (SELECT 1 FROM tl_session WHERE id = ?1)
                                OR EXISTS (SELECT 1 FROM tl_retention WHERE session = ?1)";
    conn.prepare_cached(sql)?.execute([session, &deletion_of(session)])?;
    Ok(())
}

fn due_sql() -> String {
    format!("SELECT {COLUMNS} FROM tl_retention WHERE state = 1 AND provider = ?1 ORDER BY number LIMIT ?2")
}

/// The name that a conversation without one gets now.
pub(crate) fn free_name(conn: &Connection, provider: &str, naming: &Naming) -> Result<String, StoreFault> {
    let sql = "SELECT 1 FROM tl_document WHERE provider = ?1 AND name = ?2 AND own >= ?3";
    let mut statement = conn.prepare_cached(sql)?;
    let mut is_taken = |name: &str, own: bool| statement.exists(params![provider, name, own]);
    Ok(match &naming.otherwise {
        Some(otherwise) if is_taken(&naming.name, false)? => otherwise.clone(),
        Some(_) => naming.name.clone(),
        // Those who share a name do not get one that belongs to a single conversation; they meet under another.
        None => {
            let mut name = naming.name.clone();
            for number in 1.. {
                if !is_taken(&name, true)? {
                    break;
                }
                name = match number {
                    1 => format!("{}-shared", naming.name),
                    _ => format!("{}-shared-{number}", naming.name),
                };
            }
            name
        }
    })
}

/// What a name belongs to.
fn subject(scope: &Scope) -> String {
    match &scope.chat {
        Some(chat) => chat.to_string(),
        None => format!("session:{}", scope.session),
    }
}

fn pending(row: &Row<'_>) -> Result<PendingRetention, StoreFault> {
    let key: String = row.get(0)?;
    let scope: String = row.get(11)?;
    let scope = envelope::scope(&scope).map_err(malformed("whom a turn concerns"))?;
    let said = match text(row, 12)? {
        Some(said) => envelope::texts(&said).map_err(malformed("what was said in a turn"))?,
        None => Vec::new(),
    };
    let turn = key.rsplit('/').next().and_then(|turn| turn.parse().ok()).unwrap_or_default();
    let retention = Retention {
        document: row.get(2)?,
        turn: throughline_core::TurnId(throughline_core::Seq(turn)),
        index: unsigned(row, 3)?,
        message_count: unsigned(row, 4)?,
        at: Time(row.get(9)?),
        said,
        replied: text(row, 13)?.unwrap_or_default(),
        tried: row.get(7)?,
        scope,
        key,
    };
    Ok(PendingRetention {
        retention,
        erases: row.get(14)?,
        provider: row.get(1)?,
        progress: match row.get::<_, i64>(5)? {
            0 => Progress::Buffered,
            1 => Progress::Due,
            _ => Progress::Refused,
        },
        attempts: unsigned(row, 6)? as u32,
        not_before: Time(row.get(8)?),
        error: text(row, 10)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::{FileSystem, Home};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    const NOW: Time = Time(1_763_240_000_000_000);

    /// A row as a test has it: its number is its place in a list, from 1.
    #[derive(Clone, Debug)]
    struct Lies {
        document: u8,
        provider: &'static str,
        state: i64,
        not_before: i64,
    }

    struct World {
        reader: StoreReader,
        writer: Connection,
        _directory: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let home = Home { filesystem: FileSystem::Trusted, ..Home::at(directory.path()) };
            drop(home.writer(NOW).unwrap());
            let writer = Connection::open(directory.path().join("state.db")).unwrap();
            writer.execute_batch("PRAGMA synchronous = OFF").unwrap();
            Self { reader: home.reader().unwrap(), writer, _directory: directory }
        }

        fn lay(&self, rows: &[Lies]) {
            self.writer.execute_batch("BEGIN; DELETE FROM tl_retention").unwrap();
            let sql =
                "INSERT INTO tl_retention (number, key, provider, document, session, place, messages, state,
                                           not_before, created, updated, scope)
                       VALUES (?1, 's/' || ?1, ?2, ?3, 's', ?1, 0, ?4, ?5, 0, 0, ?6)";
            let scope = envelope::scope_text(&Scope::of("s".parse().unwrap()));
            let mut statement = self.writer.prepare_cached(sql).unwrap();
            for (row, number) in rows.iter().zip(1i64..) {
                let document = format!("d{}", row.document);
                statement
                    .execute(params![number, row.provider, document, row.state, row.not_before, scope])
                    .unwrap();
            }
            self.writer.execute_batch("COMMIT").unwrap();
        }

        /// Documents and numbers.
        fn due(&self, max: usize) -> Vec<(u8, usize)> {
            let due = self.reader.due_up_to(max as u32, "p").unwrap();
            due.iter()
                .map(|pending| {
                    let retention = &pending.retention;
                    (retention.document[1..].parse().unwrap(), retention.key[2..].parse().unwrap())
                })
                .collect()
        }
    }

    fn rows(documents: u8) -> impl Strategy<Value = Vec<Lies>> {
        let provider = prop::sample::select(vec!["p", "p", "p", "another"]);
        let row =
            (0..documents, provider, prop::sample::select(vec![0, 1, 1, 1, 1, 2, 3]), 0..4i64).prop_map(
                |(document, provider, state, not_before)| Lies { document, provider, state, not_before },
            );
        prop::collection::vec(row, 0..60)
    }

    fn first_of_each(due: &[(u8, usize)]) -> BTreeMap<u8, usize> {
        due.iter().rev().copied().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn p26_of_what_is_due_each_document_shows_its_first_and_the_longest_waiting_are_there(
            rows in rows(12), max in prop::sample::select(vec![2usize, 4, 8, 16, 100]),
        ) {
            thread_local!(static WORLD: World = World::new());
            let found = WORLD.with(|world| {
                world.lay(&rows);
                world.due(max)
            });
            let is_due = |row: &Lies| row.state == 1 && row.provider == "p";
            let all: Vec<(u8, usize)> =
                rows.iter().zip(1..).filter(|(row, _)| is_due(row)).map(|(row, number)| (row.document, number)).collect();
            if all.len() < max {
                prop_assert_eq!(found, all);
                return Ok(());
            }
            prop_assert!(found.len() <= max);
            prop_assert!(found.windows(2).all(|pair| pair[0].1 < pair[1].1), "{found:?}");
            prop_assert!(found.iter().all(|one| all.contains(one)), "{found:?}");
            let (firsts, shown) = (first_of_each(&all), first_of_each(&found));
            prop_assert!(shown.iter().all(|(document, first)| firsts[document] == *first), "{found:?}");
            let mut longest: Vec<usize> = firsts.into_values().collect();
            longest.sort_by_key(|number| (rows[number - 1].not_before, *number));
            let numbers: BTreeSet<usize> = found.iter().map(|(_, number)| *number).collect();
            prop_assert!(longest.iter().take(max / 2).all(|number| numbers.contains(number)), "{found:?}");
        }

        /// Always taking the one that waited longest gives everything in order, also if one is never taken.
        #[test]
        fn p26_whatever_a_provider_never_takes_everything_else_is_handed_over_in_order(
            rows in rows(9), max in prop::sample::select(vec![2usize, 4, 100]), bad in prop::collection::btree_set(0..9u8, 0..7),
        ) {
            thread_local!(static WORLD: World = World::new());
            let mut rows = rows;
            let left = |rows: &[Lies]| {
                let good = |row: &&Lies| row.state == 1 && row.provider == "p" && !bad.contains(&row.document);
                rows.iter().filter(good).count()
            };
            let mut last = BTreeMap::new();
            for now in 10.. {
                if left(&rows) == 0 {
                    break;
                }
                prop_assert!(now < 1000, "{} are never handed over", left(&rows));
                let due = WORLD.with(|world| {
                    world.lay(&rows);
                    world.due(max)
                });
                let firsts = first_of_each(&due);
                let next = firsts.iter().min_by_key(|(_, number)| (rows[*number - 1].not_before, **number));
                let (document, number) = next.expect("something is due");
                let row = &mut rows[number - 1];
                match bad.contains(document) {
                    true => row.not_before = now,
                    false => {
                        row.state = 2;
                        let before = last.insert(*document, *number);
                        prop_assert!(before < Some(*number), "{document}: {number} behind {before:?}");
                    }
                }
            }
        }
    }

    /// Each answer looks it up, beside all that was ever kept.
    #[test]
    fn what_is_due_is_not_looked_for_among_what_is_kept() {
        let world = World::new();
        let mut plan = world.reader.conn.prepare(&format!("EXPLAIN QUERY PLAN {}", due_sql())).unwrap();
        let steps = plan.query_map(params!["p", 10], |row| row.get::<_, String>(3)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        assert_eq!(steps, ["SEARCH tl_retention USING INDEX tl_retention_due (provider=?)"]);
    }
}
