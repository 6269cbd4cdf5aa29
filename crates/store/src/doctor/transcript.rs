//! What is wrong inside one transcript: rows twice, out of order, calls without results, and what a compression
//! archived without having seen it.
//!
//! One session is looked at after the other, so that the largest one bounds what is kept in memory.

use super::collapse::SnapshotRecord;
use super::run::runs;
use super::tree::{TreeRow, beginning, holds_summary, identity};
use super::{Finding, FindingKind, Look, Mended, ROWS_MAX, Remedy, Watch, counted};
use crate::fault::StoreFault;
use crate::read::{malformed, text};
use crate::transcript::NextRow;
use rusqlite::params;
use std::collections::{HashMap, HashSet};
use throughline_core::Message;
use throughline_core::history::{self, Violation};
use throughline_core::time::Time;
use throughline_hermes::row::{MessageRow, decode};

/// Clocks are set, and processes wait for each other. Beyond this it is another order.
const CLOCK_SLACK_SECONDS: f64 = 60.0;
/// How often the watcher is told.
const TOLD_EVERY: u64 = 64;

/// What is read of every row of every session.
struct Glance {
    id: i64,
    at: f64,
    is_live: bool,
    is_compacted: bool,
    is_summary: bool,
    /// Present where it is part of a tool group.
    call: Option<Message>,
    /// Whether a group ends before it.
    speaks: bool,
}

impl Look<'_> {
    pub(super) fn transcripts(&self, watch: Watch<'_>) -> Result<Vec<Finding>, StoreFault> {
        let conn = &self.reader.conn;
        let sql = "SELECT id, end_reason FROM sessions WHERE instr(id, '.snapshot.') = 0 ORDER BY id";
        let mut statement = conn.prepare_cached(sql)?;
        let sessions = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, text(row, 1)?)))?;
        let sessions = sessions.collect::<rusqlite::Result<Vec<_>>>()?;
        let total = sessions.len() as u64;
        let mut found = Vec::new();
        for (nth, (session, end_reason)) in (0..).zip(&sessions) {
            if nth % TOLD_EVERY == 0 {
                watch("reading transcripts", nth, total);
            }
            let rows = self.glance(session)?;
            found.extend(self.copies(session, &rows)?);
            found.extend(disorder(session, &rows));
            found.extend(self.broken_groups(session, end_reason.as_deref(), &rows));
            found.extend(self.unseen(session, &rows)?);
        }
        watch("reading transcripts", total, total);
        Ok(found)
    }

    fn glance(&self, session: &str) -> Result<Vec<Glance>, StoreFault> {
        let can = &self.reader.variants.can;
        let sql = format!(
            "SELECT id, timestamp, role, {}, tool_call_id, tool_calls, {}, {} FROM messages
             WHERE session_id = ?1 ORDER BY id",
            beginning("content"),
            if can.has_active { "active IS NOT 0" } else { "1" },
            if can.has_compacted { "compacted IS 1" } else { "0" },
        );
        let mut statement = self.reader.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([session])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let role = text(row, 2)?.unwrap_or_default();
            let begins = row.get::<_, Option<Vec<u8>>>(3)?.unwrap_or_default();
            let calls = text(row, 5)?.filter(|calls| !calls.is_empty());
            let in_group = role == "tool" || calls.is_some();
            let speaks = matches!(role.as_str(), "user" | "assistant" | "system");
            let call = in_group.then(|| -> rusqlite::Result<Message> {
                let tool_call_id = text(row, 4)?;
                Ok(decode(MessageRow { role, tool_call_id, tool_calls: calls, ..MessageRow::default() }))
            });
            found.push(Glance {
                id: row.get(0)?,
                at: row.get::<_, Option<f64>>(1)?.unwrap_or(0.0),
                is_live: row.get(6)?,
                is_compacted: row.get(7)?,
                is_summary: holds_summary(&begins),
                call: call.transpose()?,
                speaks,
            });
        }
        Ok(found)
    }

    // ------------------------------------------------------------------------------------------ twice

    /// The same words at the same moment are one message.
    fn copies(&self, session: &str, rows: &[Glance]) -> Result<Option<Finding>, StoreFault> {
        let mut moments = HashSet::new();
        let again = |row: &&Glance| row.is_live && !moments.insert(row.at.to_bits());
        if rows.iter().filter(again).count() == 0 {
            return Ok(None);
        }
        let copies = copies_among(&self.identities(session)?);
        if copies.is_empty() {
            return Ok(None);
        }
        let remedy = match self.is_in_books(session)? {
            false => Remedy::Repair(format!(
                "the second of each leaves the view; {} kept as a snapshot of {session}",
                if copies.len() == 1 { "it is" } else { "they are" }
            )),
            true => {
                Remedy::Advice("this gateway has run on it, and refers to its rows; they are left".to_owned())
            }
        };
        Ok(Some(Finding {
            kind: FindingKind::DuplicatedRows,
            sessions: vec![session.to_owned()],
            evidence: vec![format!(
                "{} in {session} stand there twice, word for word and to the microsecond",
                counted(copies.len(), "message")
            )],
            rows: copies.into_iter().take(ROWS_MAX).collect(),
            remedy,
        }))
    }

    pub(super) fn set_copies_aside(&self, finding: &Finding) -> Result<Mended, StoreFault> {
        let session = finding.subject();
        let all = self.identities(session)?;
        let copies = copies_among(&all);
        if copies.is_empty() || self.is_in_books(session)? {
            return Ok(Mended::Unneeded);
        }
        let (name, view) = self.free_name(session, self.now, &mut Time(0))?;
        self.set_aside(session, &name, &copies, self.now.as_seconds())?;
        self.record_snapshot(&SnapshotRecord {
            name: &name,
            session,
            view,
            at: self.now,
            rows: &copies,
            summary: &[],
            messages_after: all.len() - copies.len(),
            tokens: 0,
            remark: "They stood in the transcript twice.",
        })?;
        self.recount(session)?;
        Ok(Mended::Done(format!(
            "{} of {session} kept as {name}",
            match copies.len() {
                1 => "1 second copy".to_owned(),
                many => format!("{many} second copies"),
            }
        )))
    }

    pub(super) fn recount(&self, session: &str) -> Result<(), StoreFault> {
        self.reader.conn.prepare_cached(&self.reader.variants.recount)?.execute(params![session, 0, 0])?;
        Ok(())
    }

    // ----------------------------------------------------------------------------------------- groups

    fn broken_groups(&self, session: &str, end_reason: Option<&str>, rows: &[Glance]) -> Option<Finding> {
        let live: Vec<&Glance> = rows.iter().filter(|row| row.is_live).collect();
        if live.iter().all(|row| row.call.is_none()) {
            return None;
        }
        let plain = decode(MessageRow { role: "user".to_owned(), ..MessageRow::default() });
        let said = live.iter().filter_map(|row| match (&row.call, row.speaks) {
            (Some(call), _) => Some(call),
            (None, true) => Some(&plain),
            (None, false) => None,
        });
        let mut broken = history::violations(said);
        let last = live.last().map_or(0.0, |row| row.at);
        if end_reason == Some("compression") || !self.is_settled(last) {
            // The results of its last calls stand in the part that continues it, or are yet to come.
            let open = open_at_end(&live);
            broken.retain(
                |violation| !matches!(violation, Violation::Open { call } if open.contains(call.as_str())),
            );
        }
        if broken.is_empty() {
            return None;
        }
        let evidence = broken.iter().take(ROWS_MAX).map(|violation| match violation {
            Violation::Open { call } => format!("the call {call} of {session} has no result behind it"),
            Violation::Orphan { call } => format!("the result of {call} in {session} has no call before it"),
        });
        Some(Finding {
            kind: FindingKind::BrokenToolGroup,
            sessions: vec![session.to_owned()],
            rows: Vec::new(),
            evidence: evidence.collect(),
            remedy: Remedy::Advice(
                "nothing has to be done: a model is shown a result that says that the outcome is unknown, and no result \
                 without its call"
                    .to_owned(),
            ),
        })
    }

    // --------------------------------------------------------------------------------- never summarised

    fn unseen(&self, session: &str, rows: &[Glance]) -> Result<Option<Finding>, StoreFault> {
        let compacted = rows.iter().any(|row| row.is_compacted && !row.is_live);
        if !compacted || !rows.iter().any(|row| row.is_live && row.is_summary) {
            return Ok(None);
        }
        let Some(lost) = self.lost_update(session)? else { return Ok(None) };
        let remedy = match self.is_in_books(session)? {
            false => Remedy::Repair(format!(
                "{} back into the view of {session}, where they were said",
                if lost.rows.len() == 1 { "it comes" } else { "they come" }
            )),
            true => Remedy::Repair(format!(
                "this gateway has run on it, so its view stays; {} a snapshot of {session}",
                if lost.rows.len() == 1 { "it becomes" } else { "they become" }
            )),
        };
        Ok(Some(Finding {
            kind: FindingKind::ArchivedUnsummarised,
            sessions: vec![session.to_owned()],
            evidence: vec![format!(
                "{} of {session} came in while a summary was written, and left the view with what it stands for",
                counted(lost.rows.len(), "message")
            )],
            rows: lost.rows.into_iter().take(ROWS_MAX).collect(),
            remedy,
        }))
    }

    /// What the last compaction archived behind the last row that it had seen. It saw what it repeats after its
    /// summary; if that cannot be told, nothing is claimed.
    fn lost_update(&self, session: &str) -> Result<Option<Lost>, StoreFault> {
        let sql =
            "SELECT id, timestamp, role, content, tool_call_id, tool_calls, active IS NOT 0 FROM messages
                   WHERE session_id = ?1 AND (active IS NOT 0 OR compacted IS 1) ORDER BY id";
        let mut statement = self.reader.conn.prepare_cached(sql)?;
        let mut found = statement.query([session])?;
        let (mut live, mut archived): (Vec<TreeRow>, Vec<TreeRow>) = (Vec::new(), Vec::new());
        while let Some(row) = found.next()? {
            match row.get(6)? {
                true => live.push(identity(row)?),
                false => archived.push(identity(row)?),
            }
        }
        let Some(summary) = live.iter().rposition(|row| row.is_summary) else { return Ok(None) };
        archived.retain(|row| row.id < live[summary].id);
        // A summary that was put into a message stands in the first of those that are repeated.
        let first = if live[summary].is_merged { summary } else { summary + 1 };
        let repeated = &live[first..];
        let Some((count, end)) = longest_run(repeated, &archived) else { return Ok(None) };
        let unseen = &archived[end..];
        // What is repeated keeps its moment, even if it was cut short.
        let moments: HashSet<u64> = repeated.iter().map(|row| row.at.to_bits()).collect();
        let is_lost = unseen.iter().any(|row| row.is_user)
            && unseen.iter().all(|row| !moments.contains(&row.at.to_bits()));
        let listed = self.listed(session)?;
        if !is_lost || unseen.iter().any(|row| row.is_summary || listed.contains(&row.id)) {
            return Ok(None);
        }
        Ok(Some(Lost {
            rows: unseen.iter().map(|row| row.id).collect(),
            behind: repeated[count..].iter().map(|row| row.id).collect(),
        }))
    }

    /// Rows that some snapshot of the session lists.
    fn listed(&self, session: &str) -> Result<HashSet<i64>, StoreFault> {
        let sql = "SELECT rows FROM tl_snapshot WHERE session = ?1";
        let mut statement = self.reader.conn.prepare_cached(sql)?;
        let lists = statement.query_map([session], |row| row.get::<_, String>(0))?;
        let mut listed = HashSet::new();
        for list in lists {
            listed.extend(crate::envelope::numbers(&list?).map_err(malformed("a snapshot"))?);
        }
        Ok(listed)
    }

    /// Rows are told in the order of their numbers: what was lost, and what stands behind it, get new ones. Where our books
    /// refer to rows by their numbers, what was lost is kept as a snapshot instead, as it lies there.
    pub(super) fn bring_back(&self, finding: &Finding) -> Result<Mended, StoreFault> {
        let session = finding.subject();
        if !self.reader.variants.can.has_compacted {
            return Ok(Mended::Unneeded);
        }
        let Some(lost) = self.lost_update(session)? else { return Ok(Mended::Unneeded) };
        let conn = &self.reader.conn;
        if self.is_in_books(session)? {
            let (name, view) = self.free_name(session, self.now, &mut Time(0))?;
            self.record_snapshot(&SnapshotRecord {
                name: &name,
                session,
                view,
                at: self.now,
                rows: &lost.rows,
                summary: &[],
                messages_after: 0,
                tokens: 0,
                remark: "Hermes archived them before it had summarised them.",
            })?;
            return Ok(Mended::Done(format!(
                "{} of {session} kept as {name}",
                counted(lost.rows.len(), "message")
            )));
        }
        let mut next = NextRow::default();
        for row in lost.rows.iter().chain(&lost.behind) {
            let to = next.take(conn)?;
            let sql = "UPDATE messages SET id = ?2, active = 1, compacted = 0 WHERE id = ?1";
            conn.prepare_cached(sql)?.execute([*row, to])?;
        }
        self.recount(session)?;
        Ok(Mended::Done(format!("{} in the view of {session} again", counted(lost.rows.len(), "message"))))
    }
}

struct Lost {
    rows: Vec<i64>,
    /// Live rows that were said after them.
    behind: Vec<i64>,
}

/// The longest beginning of one list that stands somewhere in the other: its length, and where it ends there.
fn longest_run(repeated: &[TreeRow], archived: &[TreeRow]) -> Option<(usize, usize)> {
    let said = |rows: &[TreeRow]| rows.iter().map(|row| row.said).collect::<Vec<_>>();
    let found = runs(&said(repeated), &said(archived));
    let ends = found.into_iter().enumerate().map(|(begin, run)| (run, begin + run));
    ends.filter(|(run, _)| *run > 0).max()
}

/// The later ones of rows that say the same at the same moment.
fn copies_among(rows: &[TreeRow]) -> Vec<i64> {
    let mut first: HashMap<(u128, u64), i64> = HashMap::new();
    let mut copies = Vec::new();
    for row in rows {
        if first.insert((row.said, row.at.to_bits()), row.id).is_some() {
            copies.push(row.id);
        }
    }
    copies
}

fn disorder(session: &str, rows: &[Glance]) -> Option<Finding> {
    let live: Vec<&Glance> = rows.iter().filter(|row| row.is_live).collect();
    let backwards = |pair: &&[&Glance]| !pair[0].is_summary && pair[1].at < pair[0].at - CLOCK_SLACK_SECONDS;
    let found: Vec<i64> = live.windows(2).filter(backwards).map(|pair| pair[1].id).collect();
    if found.is_empty() {
        return None;
    }
    Some(Finding {
        kind: FindingKind::RowsOutOfOrder,
        sessions: vec![session.to_owned()],
        evidence: vec![format!(
            "{} of {session}: the clock says that they were said before the one above them",
            counted(found.len(), "message")
        )],
        rows: found.into_iter().take(ROWS_MAX).collect(),
        remedy: Remedy::Advice(
            "nothing has to be done: Hermes and Throughline go by the order in which messages were stored"
                .to_owned(),
        ),
    })
}

/// The calls of the last group, if nothing was said behind it.
fn open_at_end<'a>(live: &[&'a Glance]) -> HashSet<&'a str> {
    let calls = |row: &'a Glance| row.call.as_ref().map_or(&[][..], |message| message.calls());
    let last = live.iter().rposition(|row| !calls(row).is_empty());
    let open = last.filter(|place| live[place + 1..].iter().all(|row| !row.speaks));
    open.into_iter().flat_map(|place| calls(live[place])).map(|call| call.id.as_str()).collect()
}
