//! The invariants, as queries. Each has a name and a sentence, and finds what breaks it.
//!
//! What only we write must always hold. Where Hermes may have written, too (rows it added, sessions
//! it deleted or ended), a query looks away from what Hermes can do by itself.

/// Sessions of which every row is ours: Hermes has had no hand in them.
macro_rules! only_ours {
    () => {
        "(SELECT t.id FROM tl_session t JOIN sessions s ON s.id = t.id WHERE t.adopted = 0 AND NOT EXISTS
          (SELECT 1 FROM messages m WHERE m.session_id = t.id AND m.id > t.last_row))"
    };
}

/// As a condition on `m`: in the transcript of this session, or in one of its snapshots.
macro_rules! in_session {
    ($session:literal) => {
        concat!(
            "(m.session_id = ",
            $session,
            " OR m.session_id IN (SELECT n.name FROM tl_snapshot n WHERE n.session = ",
            $session,
            "))"
        )
    };
}

mod conversation;
mod record;
mod view;

use crate::call;
use crate::column_variants::ColumnVariants;
use crate::envelope;
use crate::fault::{StoreFault, While};
use crate::read::{StoreReader, session_id};
use conversation::CONVERSATIONS;
use record::RECORDS;
use rusqlite::{Connection, ErrorCode, OptionalExtension};
use throughline_core::history;
use throughline_core::port::StoreError;
use throughline_core::session::SessionState;
use throughline_core::time::Time;
use throughline_hermes::schema::Capabilities;
use view::VIEWS;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The promise that it breaks.
    pub promise: &'static str,
    pub name: &'static str,
    /// What should hold.
    pub says: &'static str,
    /// For what it does not: messages as `session/number` or `row 7`, sessions, chats.
    pub found: Vec<String>,
}

impl Breach {
    fn new(name: &'static str, says: &'static str, found: Vec<String>) -> Option<Self> {
        (!found.is_empty()).then(|| Self { promise: promise(name), name, says, found })
    }

    pub(crate) fn in_words(&self) -> String {
        let Self { name, says, found, .. } = self;
        let first = found.first().map_or("", String::as_str);
        let more = match found.len() {
            0 | 1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        format!("{name}: it should hold that {says}; it does not for {first}{more}")
    }
}

/// What the contract calls it.
fn promise(name: &str) -> &'static str {
    match name {
        "route_live" | "route_one_id" | "one_live_session_per_chat" | "compression_ends_nothing" => "P1",
        "compression_fenced" | "generations_rise" => "P3",
        "seen_and_kept" | "inbox_owned" => "P7",
        "positions"
        | "inbox_numbered"
        | "settled_prefix"
        | "turn_inputs"
        | "outcome_iff_settled"
        | "answer_kept"
        | "said_once"
        | "said_in_order"
        | "unfinished" => "P8",
        "open_calls" | "asked_in_a_turn" | "results_kept" | "groups_closed" => "P9",
        "outbox" | "drafts" => "P10",
        "snapshot_of_promotion"
        | "snapshot_named"
        | "snapshot_whole"
        | "snapshot_unrouted"
        | "replaced_not_live"
        | "archived_kept"
        | "moved_kept"
        | "live_in_place"
        | "taken_back_kept"
        | "taken_back_hidden"
        | "stride" => "P11",
        "one_compression" | "orders_wait" | "snapshot_of_its_own" => "P12",
        "finalised_once"
        | "hooks_in_a_hand_over"
        | "parked_at_a_step"
        | "reset_remembered"
        | "closed_ended" => "P20",
        "reviews_counted" => "P22",
        "nothing_kept_back" | "kept_in_order" | "kept_as_its_own" | "kept_once" => "P24",
        _ => "P15",
    }
}

struct InvariantCheck {
    name: &'static str,
    /// What holds.
    says: &'static str,
    /// One column of text per breach.
    sql: &'static str,
    applies: fn(&Capabilities) -> bool,
}

fn always(_: &Capabilities) -> bool {
    true
}

fn checks() -> impl Iterator<Item = &'static InvariantCheck> {
    [CONVERSATIONS, VIEWS, RECORDS].into_iter().flatten()
}

const FOREIGN_KEYS: InvariantCheck = InvariantCheck {
    name: "foreign_keys",
    says: "every reference between tables leads somewhere",
    sql: "SELECT \"table\" || ' refers to ' || parent FROM pragma_foreign_key_check",
    applies: always,
};

/// Every invariant that does not hold, in words. Where the file is too damaged for a question, that
/// is the finding.
pub(crate) fn violations(conn: &Connection, variants: &ColumnVariants) -> Result<Vec<Breach>, StoreFault> {
    let (mut found, unreadable) = broken(conn, variants, checks().chain([&FOREIGN_KEYS]))?;
    let damage = match damage(conn, variants) {
        Ok(damage) if damage.is_empty() => unreadable,
        Ok(damage) => damage,
        Err(fault) => vec![as_damage(fault)?],
    };
    found.extend(Breach::new("integrity", "the file is whole", damage));
    Ok(found)
}

/// Of the invariants of what only we write, those that do not hold, but for these; and what was too damaged
/// to be asked.
pub(crate) fn of_ours(
    conn: &Connection,
    variants: &ColumnVariants,
    but: &[&str],
) -> Result<(Vec<String>, Vec<String>), StoreFault> {
    let (found, unreadable) = broken(conn, variants, checks().filter(|check| !but.contains(&check.name)))?;
    Ok((found.iter().map(Breach::in_words).collect(), unreadable))
}

fn broken<'a>(
    conn: &Connection,
    variants: &ColumnVariants,
    checks: impl Iterator<Item = &'a InvariantCheck>,
) -> Result<(Vec<Breach>, Vec<String>), StoreFault> {
    let mut found = Vec::new();
    let mut unreadable = Vec::new();
    for check in checks.filter(|check| (check.applies)(&variants.can)) {
        match texts(conn, check.sql) {
            Ok(breaches) => found.extend(Breach::new(check.name, check.says, breaches)),
            Err(fault) => unreadable.push(as_damage(fault)?),
        }
    }
    Ok((found, unreadable))
}

/// What SQLite says about the damage it met, if that is what it met.
pub(crate) fn as_damage(fault: StoreFault) -> Result<String, StoreFault> {
    match &fault {
        StoreFault::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            Ok(error.to_string())
        }
        _ => Err(fault),
    }
}

/// SQLite's own findings. Its older releases, which Hermes may run on, cut a text short at a NUL when
/// they index its trigrams; newer ones call the index malformed for that. No word is lost by it.
pub(crate) fn damage(conn: &Connection, variants: &ColumnVariants) -> Result<Vec<String>, StoreFault> {
    for index in variants.indexes() {
        // Its own check goes by what this connection last saw of the index, unless it is asked something first.
        texts(conn, &format!("SELECT rowid FROM {index} LIMIT 1"))?;
    }
    let mut faults = texts(conn, "PRAGMA integrity_check(10)")?;
    faults.retain(|fault| fault != "ok");
    let of_trigrams = |fault: &String| fault.contains("messages_fts_trigram");
    if faults.iter().any(of_trigrams) {
        let sql = "SELECT 1 FROM messages WHERE instr(CAST(content AS BLOB), x'00') > 0 LIMIT 1";
        if conn.prepare(sql)?.exists([])? {
            faults.retain(|fault| !of_trigrams(fault));
        }
    }
    Ok(faults)
}

impl StoreReader {
    /// Every invariant that does not hold, with everything that it does not hold for. With a time, only for what is
    /// not known to be older.
    pub fn breaches(&self, since: Option<Time>) -> Result<Vec<Breach>, StoreError> {
        let look = || -> Result<Vec<Breach>, StoreFault> {
            let mut breaches = self.broken()?;
            if let Some(since) = since {
                for breach in &mut breaches {
                    let mut recent = Vec::new();
                    for found in std::mem::take(&mut breach.found) {
                        if self.time_of(&found)?.is_none_or(|at| at >= since) {
                            recent.push(found);
                        }
                    }
                    breach.found = recent;
                }
                breaches.retain(|breach| !breach.found.is_empty());
            }
            Ok(breaches)
        };
        self.at_once(look).while_doing("check the store")
    }

    /// How often a compression of Hermes gave a conversation another id, since then. None of our promises is broken by
    /// it, and a store does not tell whose they were: what became of those conversations is the doctor's.
    pub fn rotations(&self, since: Option<Time>) -> Result<u64, StoreError> {
        let sql = format!(
            "SELECT count(*) FROM sessions p WHERE p.end_reason = 'compression' AND instr(p.id, '.snapshot.') = 0
               AND COALESCE(p.ended_at, 0) >= ?1
               AND EXISTS (SELECT 1 FROM sessions c WHERE c.parent_session_id = p.id AND c.id <> p.id AND {})",
            crate::doctor::UNMARKED
        );
        let since = since.map_or(f64::MIN, Time::as_seconds);
        let count = || -> Result<u64, StoreFault> {
            Ok(self.conn.prepare_cached(&sql)?.query_row([since], |row| row.get::<_, i64>(0))? as u64)
        };
        count().while_doing("look for split conversations")
    }

    pub(crate) fn broken(&self) -> Result<Vec<Breach>, StoreFault> {
        let mut found = violations(&self.conn, &self.variants)?;
        found.extend(self.open_groups()?);
        found.extend(self.unreadable()?);
        Ok(found)
    }

    /// When a message came that is named `… row 7` or `session/number`.
    fn time_of(&self, found: &str) -> Result<Option<Time>, StoreFault> {
        if let Some(row) = found.rsplit_once("row ").and_then(|(_, row)| row.parse::<i64>().ok()) {
            let sql = "SELECT timestamp FROM messages WHERE id = ?1";
            let at: Option<f64> =
                self.conn.prepare_cached(sql)?.query_row([row], |row| row.get(0)).optional()?;
            return Ok(at.map(Time::from_seconds));
        }
        let Some((session, number)) = found.rsplit_once('/') else { return Ok(None) };
        let Ok(number) = number.parse::<i64>() else { return Ok(None) };
        let sql = "SELECT at FROM tl_inbox WHERE session = ?1 AND seq = ?2";
        let at: Option<i64> = self
            .conn
            .prepare_cached(sql)?
            .query_row(rusqlite::params![session, number], |row| row.get(0))
            .optional()?;
        Ok(at.map(Time))
    }

    /// Groups in the transcript are closed: what we wrote, any provider accepts.
    pub(crate) fn open_groups(&self) -> Result<Vec<Breach>, StoreFault> {
        // What is too damaged to be read has been found by then.
        self.readable_open_groups().or_else(|fault| as_damage(fault).map(|_| Vec::new()))
    }

    fn readable_open_groups(&self) -> Result<Vec<Breach>, StoreFault> {
        let sql = concat!(
            "SELECT DISTINCT session FROM tl_step WHERE calls > 0 AND message IS NOT NULL AND session IN ",
            only_ours!()
        );
        let mut open = Vec::new();
        for session in texts(&self.conn, sql)? {
            let rows = self.live_rows(&session_id(&session)?)?;
            let broken = history::violations(rows.iter().map(|(_, message)| message));
            open.extend(broken.iter().map(|violation| format!("{session}: {violation:?}")));
        }
        let says = "every tool call in the transcript is followed by its result";
        Ok(Breach::new("groups_closed", says, open).into_iter().collect())
    }
}

impl StoreReader {
    /// Our own columns of JSON read as what they hold.
    pub(crate) fn unreadable(&self) -> Result<Vec<Breach>, StoreFault> {
        self.readable_columns().or_else(|fault| as_damage(fault).map(|_| Vec::new()))
    }

    fn readable_columns(&self) -> Result<Vec<Breach>, StoreFault> {
        let traces = "SELECT key, trace FROM tl_outbox WHERE trace IS NOT NULL";
        let rests = "SELECT id, rest FROM tl_session WHERE rest IS NOT NULL";
        let upkeeps = "SELECT id, upkeep FROM tl_session WHERE upkeep IS NOT NULL";
        let summaries =
            "SELECT session || ': a summary', summary FROM tl_compression WHERE summary IS NOT NULL";
        let mut state = SessionState::new(session_id("none")?);
        let mut broken = self.misread(traces, |text| envelope::trace(Some(text)).is_ok())?;
        broken.extend(self.misread(rests, |text| envelope::restore_rest(&mut state, text).is_ok())?);
        broken.extend(self.misread(upkeeps, |text| envelope::upkeep(text).is_ok())?);
        broken.extend(self.misread(summaries, |text| envelope::replacement(text).is_ok())?);
        for (number, what) in [(0, "a grant"), (1, "a question"), (2, "a result")] {
            let calls = format!("SELECT session || ': {what}', detail FROM tl_call WHERE state = {number}");
            broken.extend(self.misread(&calls, |text| call::slot(number, text).is_ok())?);
        }
        Ok(Breach::new("readable", "what we wrote as JSON can be read back", broken).into_iter().collect())
    }

    /// The names of rows whose text does not read.
    fn misread(&self, sql: &str, mut reads: impl FnMut(&str) -> bool) -> Result<Vec<String>, StoreFault> {
        let mut statement = self.conn.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut broken = Vec::new();
        while let Some(row) = rows.next()? {
            let text = crate::read::text(row, 1)?.unwrap_or_default();
            if !reads(&text) {
                broken.push(row.get(0)?);
            }
        }
        Ok(broken)
    }
}

fn texts(conn: &Connection, sql: &str) -> Result<Vec<String>, StoreFault> {
    let mut statement = conn.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok(crate::read::text(row, 0)?.unwrap_or_default()))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
