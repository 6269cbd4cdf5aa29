//! A conversation that Hermes' compressions split into parts, and what becomes of it as one.
//!
//! A part continues another if its parent was ended by a compression and nothing says that a person branched
//! it off or that it works for its parent. Hermes 0.14 marks neither: there a part must have begun when its
//! parent had ended, or begin with a summary.
//!
//! Siblings are compared by what their messages say and in which order, never by which looks better:
//!
//! - what one says beyond their parent, the other says, too: the larger one goes on
//! - one was over when the other began, and only the first was compressed again: they are told one after
//!   the other
//! - anything else is undecided: the one that a chat leads to goes on, and the other is kept
//!
//! Where different chats lead to siblings, nothing is joined at all: a person who writes in one chat must not find
//! themselves in what was said in another.
//!
//! The first rows of a part repeat its parent's (the beginning, a summary, the end); what follows is new.

use super::Look;
use super::run::{ItemPlaces, runs};
use crate::fault::StoreFault;
use crate::read::text;
use rusqlite::{OptionalExtension, Row as SqlRow};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use throughline_core::compression::summary::{BEGINNINGS, Earlier, begins_as_summary};

/// Longer than any chain that compression makes; a walk beyond it goes in circles.
const PARTS_MAX: usize = 1_000;

/// As a condition on a row of `sessions` called `c`: nothing says that it is no continuation.
pub(crate) const UNMARKED: &str = "c.source NOT IN ('tool', 'subagent') AND instr(c.id, '.snapshot.') = 0
    AND COALESCE(c.model_config, '') NOT LIKE '%\"_branched_from\"%'
    AND COALESCE(c.model_config, '') NOT LIKE '%\"_delegate_from\"%'";

/// One row of a transcript, as far as its identity goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TreeRow {
    pub id: i64,
    pub said: u128,
    pub at: f64,
    pub is_summary: bool,
    /// The summary was put into a message: `said` is what that said before.
    pub is_merged: bool,
    pub is_user: bool,
}

/// One session of the conversation.
#[derive(Clone, Debug)]
pub(super) struct TreePart {
    pub id: String,
    pub started: f64,
    pub ended: Option<f64>,
    pub end_reason: Option<String>,
    /// What is live in it, in order.
    pub rows: Vec<TreeRow>,
    pub is_routed: bool,
    pub children: Vec<TreePart>,
}

/// What becomes of one part.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KeptPart {
    pub session: String,
    /// Its view, in order.
    pub rows: Vec<i64>,
    /// What took the place of that view, in the next part.
    pub summary: Vec<i64>,
    /// When it was over.
    pub at: f64,
    pub why: KeptReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptReason {
    /// A compression of it goes on.
    Compressed,
    /// Its end was told elsewhere, too.
    Contained,
    /// Its end goes on in the view, after that of a sibling.
    Joined,
    /// It cannot be told which of the two goes on.
    Undecided,
}

/// One conversation again.
#[derive(Clone, Debug)]
pub(super) struct SettledTree {
    /// The view, in order.
    pub live: Vec<i64>,
    /// What is no longer in the view, or was under another id; in order of time.
    pub kept: Vec<KeptPart>,
    /// The part whose state the conversation goes on with.
    pub tip: String,
    /// Messages that were said in a part after it had been compressed, and could not be joined.
    pub left_behind: Vec<i64>,
}

impl TreePart {
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.children.iter().all(TreePart::is_empty)
    }

    /// Nothing was ever said in it and no chat leads there.
    pub fn is_orphan(&self) -> bool {
        self.rows.is_empty() && self.children.is_empty() && !self.is_routed
    }

    pub fn has_route(&self) -> bool {
        self.is_routed || self.children.iter().any(TreePart::has_route)
    }

    /// Every session of the tree, this one first.
    pub fn all(&self) -> Vec<&TreePart> {
        let mut found = vec![self];
        for child in &self.children {
            found.extend(child.all());
        }
        found
    }

    /// Whether somewhere in it two parts with something in them continue one.
    pub fn is_forked(&self) -> bool {
        self.speaking().len() > 1 || self.children.iter().any(TreePart::is_forked)
    }

    /// Whether different chats lead into different continuations of one part: as one conversation, each would
    /// read what was said to the other.
    pub fn is_contested(&self) -> bool {
        self.children.iter().filter(|child| child.has_route()).count() > 1
            || self.children.iter().any(TreePart::is_contested)
    }

    pub fn speaking(&self) -> Vec<&TreePart> {
        self.children.iter().filter(|child| !child.is_empty()).collect()
    }

    fn every_row(&self) -> Vec<TreeRow> {
        self.all().into_iter().flat_map(|part| part.rows.iter().copied()).collect()
    }

    fn over(&self) -> f64 {
        let said = self.rows.last().map(|row| row.at);
        self.ended.or(said).unwrap_or(self.started).max(self.started)
    }

    /// Rows that were said here before the first row of any continuation; and those since, left behind.
    fn split_late(&self) -> (&[TreeRow], &[TreeRow]) {
        let first = self.speaking().iter().flat_map(|child| child.every_row()).map(|row| row.id).min();
        let end = first.map_or(self.rows.len(), |first| self.rows.partition_point(|row| row.id < first));
        self.rows.split_at(end)
    }

    /// How many rows of a continuation only repeat this part.
    fn repeated_in(&self, child: &TreePart) -> usize {
        let (before, _) = self.split_late();
        let after_summary = child.rows.iter().rposition(|row| row.is_summary).map_or(0, |place| place + 1);
        let rest = &child.rows[after_summary..];
        let said = |rows: &[TreeRow]| rows.iter().map(|row| row.said).collect::<Vec<_>>();
        let (before, rest) = (said(before), said(rest));
        let tail = runs(&rest, &before).into_iter().enumerate();
        let mut to_the_end = tail.filter(|(place, run)| *run > 0 && place + run == before.len());
        if let Some((_, count)) = to_the_end.next() {
            return after_summary + count;
        }
        // Results that were cut short are not found; what stands behind them is.
        let places = ItemPlaces::of(before);
        let (mut looked, mut end) = (0, after_summary);
        for (place, said) in rest.iter().enumerate() {
            if let Some(found) = places.next(said, looked) {
                looked = found + 1;
                end = after_summary + place + 1;
            }
        }
        end
    }

    pub fn settle(&self) -> SettledTree {
        let mut speaking = self.speaking();
        if speaking.is_empty() {
            return SettledTree {
                live: self.rows.iter().map(|row| row.id).collect(),
                kept: Vec::new(),
                tip: self.id.clone(),
                left_behind: Vec::new(),
            };
        }
        speaking.sort_by(|one, other| self.first_said(one).total_cmp(&self.first_said(other)));
        let (winners, mut kept) = self.choose(speaking);
        let (first, joined) = winners.split_first().expect("of several, one goes on at least");
        let prefix = self.repeated_in(first);
        let mut settled = first.settle();
        let (_, late) = self.split_late();
        for part in joined {
            let new = &part.rows[self.repeated_in(part)..];
            settled.live.extend(new.iter().map(|row| row.id));
            settled.kept.push(part.as_kept(KeptReason::Joined, Vec::new()));
            settled.tip.clone_from(&part.id);
        }
        let summary: Vec<i64> = first.rows[..prefix].iter().map(|row| row.id).collect();
        let mut own = self.as_kept(KeptReason::Compressed, summary);
        let says_nothing_new = joined.is_empty() && first.children.is_empty() && prefix == first.rows.len();
        if !late.is_empty() && says_nothing_new {
            // The conversation went on here as if nothing had been compressed.
            kept.push(first.as_kept(KeptReason::Contained, Vec::new()));
            settled.live = self.rows.iter().map(|row| row.id).collect();
            settled.tip.clone_from(&self.id);
            own.rows.clear();
        } else if let Some(since) = late.first() {
            match settled.live.iter().all(|row| *row < since.id) {
                true => {
                    settled.live.extend(late.iter().map(|row| row.id));
                    own.rows.retain(|row| *row < since.id);
                }
                false => settled.left_behind.extend(late.iter().map(|row| row.id)),
            }
        }
        settled.kept.append(&mut kept);
        settled.kept.push(own);
        settled.kept.retain(|kept| !kept.rows.is_empty());
        settled.kept.sort_by(|one, other| one.at.total_cmp(&other.at));
        settled
    }

    fn as_kept(&self, why: KeptReason, summary: Vec<i64>) -> KeptPart {
        let rows = self.rows.iter().map(|row| row.id).collect();
        KeptPart { session: self.id.clone(), rows, summary, at: self.over(), why }
    }

    fn first_said(&self, child: &TreePart) -> f64 {
        child.rows.get(self.repeated_in(child)).or(child.rows.first()).map_or(child.started, |row| row.at)
    }

    /// Of its continuations, in order of time, those that go on, and what becomes of the others.
    fn choose<'a>(&self, speaking: Vec<&'a TreePart>) -> (Vec<&'a TreePart>, Vec<KeptPart>) {
        let mut kept = Vec::new();
        let mut left: Vec<&TreePart> = Vec::new();
        for (nth, part) in speaking.iter().enumerate() {
            let told_elsewhere = speaking.iter().enumerate().any(|(other_nth, other)| {
                // Of two that say the same, the later one goes on.
                nth != other_nth
                    && self.is_told_in(part, other)
                    && (nth < other_nth || !self.is_told_in(other, part))
            });
            match told_elsewhere {
                true => kept.extend(
                    part.all().into_iter().map(|part| part.as_kept(KeptReason::Contained, Vec::new())),
                ),
                false => left.push(part),
            }
        }
        let follow_each_other = left.windows(2).all(|pair| self.follows(pair[0], pair[1]));
        if left.len() > 1 && !follow_each_other {
            let routed = left.iter().position(|part| part.has_route());
            let latest = || {
                let last = |part: &&TreePart| part.every_row().iter().map(|row| row.at).fold(0.0, f64::max);
                (0..left.len()).max_by(|one, other| last(&left[*one]).total_cmp(&last(&left[*other])))
            };
            let goes_on = left.remove(routed.or_else(latest).unwrap_or(0));
            for part in left {
                kept.extend(
                    part.all().into_iter().map(|part| part.as_kept(KeptReason::Undecided, Vec::new())),
                );
            }
            left = vec![goes_on];
        }
        (left, kept)
    }

    /// Whether all that this continuation says beyond us is told by the other one, in the same order.
    fn is_told_in(&self, part: &TreePart, other: &TreePart) -> bool {
        if !part.children.is_empty() {
            return false;
        }
        let told = other.every_row();
        let mut rest = told.iter();
        part.rows[self.repeated_in(part)..]
            .iter()
            .filter(|row| !row.is_summary)
            .all(|row| rest.any(|known| known.said == row.said))
    }

    /// Whether a continuation was over when another began, which was not compressed since.
    fn follows(&self, earlier: &TreePart, later: &TreePart) -> bool {
        let new = &later.rows[self.repeated_in(later)..];
        let Some(first) = new.first() else { return false };
        let before = earlier.every_row();
        later.children.iter().all(TreePart::is_orphan)
            && before.iter().all(|row| row.id < first.id && row.at <= first.at)
    }
}

impl Look<'_> {
    /// Sessions that a compression ended and that continue none themselves.
    pub(super) fn roots(&self) -> Result<Vec<String>, StoreFault> {
        let sql =
            "SELECT c.id FROM sessions c WHERE c.end_reason = 'compression' AND instr(c.id, '.snapshot.') = 0
                   ORDER BY c.started_at, c.id";
        let mut statement = self.reader.conn.prepare_cached(sql)?;
        let ids = statement.query_map([], |row| row.get(0))?;
        let ids = ids.collect::<rusqlite::Result<Vec<String>>>()?;
        let mut roots = Vec::new();
        for id in ids {
            if self.continued_by(&id)?.is_none() {
                roots.push(id);
            }
        }
        Ok(roots)
    }

    /// The session that this one continues.
    fn continued_by(&self, id: &str) -> Result<Option<String>, StoreFault> {
        let sql = "SELECT parent_session_id FROM sessions WHERE id = ?1 AND parent_session_id IS NOT NULL";
        let parent: Option<String> =
            self.reader.conn.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?;
        let Some(parent) = parent else { return Ok(None) };
        Ok(self.continuations(&parent)?.iter().any(|child| child.0 == id).then_some(parent))
    }

    /// The whole conversation that began with this session.
    pub(super) fn tree(&self, root: &str) -> Result<Option<TreePart>, StoreFault> {
        let sql = "SELECT started_at, ended_at, end_reason FROM sessions WHERE id = ?1";
        let found = self.reader.conn.prepare_cached(sql)?.query_row([root], |row| {
            Ok((row.get::<_, f64>(0)?, row.get::<_, Option<f64>>(1)?, text(row, 2)?))
        });
        let Some((started, ended, end_reason)) = found.optional()? else { return Ok(None) };
        let routed = self.routed_sessions()?;
        let mut known = HashSet::new();
        self.part(root.to_owned(), started, ended, end_reason, routed, &mut known)
    }

    fn part(
        &self,
        id: String,
        started: f64,
        ended: Option<f64>,
        end_reason: Option<String>,
        routed: &HashSet<String>,
        known: &mut HashSet<String>,
    ) -> Result<Option<TreePart>, StoreFault> {
        if known.len() >= PARTS_MAX || !known.insert(id.clone()) {
            return Ok(None); // Hermes has made a circle of it; each part is told once
        }
        let mut children = Vec::new();
        if end_reason.as_deref() == Some("compression") {
            for (child, started, ended, end_reason) in self.continuations(&id)? {
                children.extend(self.part(child, started, ended, end_reason, routed, known)?);
            }
        }
        let rows = self.identities(&id)?;
        let is_routed = routed.contains(&id);
        Ok(Some(TreePart { id, started, ended, end_reason, rows, is_routed, children }))
    }

    /// What goes on after a session that a compression ended: id, begin, end, why.
    #[allow(clippy::type_complexity)]
    fn continuations(
        &self,
        parent: &str,
    ) -> Result<Vec<(String, f64, Option<f64>, Option<String>)>, StoreFault> {
        let sql = format!(
            "SELECT c.id, c.started_at, c.ended_at, c.end_reason, c.started_at >= p.ended_at
             FROM sessions c JOIN sessions p ON p.id = c.parent_session_id
             WHERE p.id = ?1 AND p.end_reason = 'compression' AND c.id <> p.id AND {UNMARKED}
             ORDER BY c.started_at, c.id"
        );
        let mut statement = self.reader.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([parent])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let id: String = row.get(0)?;
            if row.get::<_, Option<bool>>(4)?.unwrap_or(true) || self.begins_with_summary(&id)? {
                found.push((id, row.get(1)?, row.get(2)?, text(row, 3)?));
            }
        }
        Ok(found)
    }

    fn begins_with_summary(&self, session: &str) -> Result<bool, StoreFault> {
        let sql = format!(
            "SELECT {} FROM messages WHERE session_id = ?1 ORDER BY id LIMIT 8",
            beginning("content")
        );
        let mut statement = self.reader.conn.prepare_cached(&sql)?;
        let beginnings = statement.query_map([session], |row| row.get::<_, Option<Vec<u8>>>(0))?;
        let beginnings = beginnings.collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(beginnings.iter().flatten().any(|beginning| holds_summary(beginning)))
    }

    /// What is live in a session, as far as its identity goes.
    pub(super) fn identities(&self, session: &str) -> Result<Vec<TreeRow>, StoreFault> {
        let live = if self.reader.variants.can.has_active { "AND active IS NOT 0" } else { "" };
        let sql = format!(
            "SELECT id, timestamp, role, content, tool_call_id, tool_calls FROM messages
             WHERE session_id = ?1 {live} ORDER BY id"
        );
        let mut statement = self.reader.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([session])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(identity(row)?);
        }
        Ok(found)
    }

    /// Every session that a chat leads to, by our books and by Hermes'.
    pub(super) fn routed_sessions(&self) -> Result<&HashSet<String>, StoreFault> {
        if let Some(known) = self.routed.get() {
            return Ok(known);
        }
        let found = self.all_entries()?.values().map(|route| route.session.clone()).collect();
        Ok(self.routed.get_or_init(|| found))
    }

    /// Which sessions became part of which, for routes.
    pub(super) fn leads_of(&self, root: &str) -> Result<HashMap<String, Option<String>>, StoreFault> {
        let Some(tree) = self.tree(root)? else { return Ok(HashMap::new()) };
        let parts = tree.all().into_iter().skip(1);
        Ok(parts.map(|part| (part.id.clone(), Some(root.to_owned()))).collect())
    }
}

/// From the columns id, timestamp, role, content, tool_call_id, tool_calls.
pub(super) fn identity(row: &SqlRow<'_>) -> rusqlite::Result<TreeRow> {
    let role = text(row, 2)?.unwrap_or_default();
    let content = text(row, 3)?.unwrap_or_default();
    let is_summary = holds_summary(content.as_bytes());
    let earlier = is_summary.then(|| Earlier::read(&content)).flatten();
    let merged = earlier.and_then(|earlier| earlier.beside);
    let mut hash = Sha256::new();
    // Hermes trims what it repeats.
    for part in [
        role.as_str(),
        merged.as_deref().unwrap_or(&content).trim(),
        &text(row, 4)?.unwrap_or_default(),
        &text(row, 5)?.unwrap_or_default(),
    ] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let bytes: [u8; 16] = hash.finalize()[..16].try_into().expect("a digest of 32 octets has 16");
    Ok(TreeRow {
        id: row.get(0)?,
        said: u128::from_le_bytes(bytes),
        at: row.get::<_, Option<f64>>(1)?.unwrap_or(0.0),
        is_summary,
        is_merged: merged.is_some(),
        is_user: role == "user",
    })
}

/// More than any beginning of a summary takes, with what stands before it in a list of parts.
const BEGINNING_BYTES: usize = 256;
/// How Hermes stores content that is no plain text.
const PARTS: &str = "\0json:";

/// As SQL: so much of a column as [`holds_summary`] wants, in bytes, because what follows a zero is no text to SQLite.
pub(super) fn beginning(column: &str) -> String {
    format!("substr(CAST({column} AS BLOB), 1, {BEGINNING_BYTES})")
}

/// Whether the message that begins like this holds a summary, by any author and in any form.
pub(super) fn holds_summary(content: &[u8]) -> bool {
    let begins = String::from_utf8_lossy(&content[..content.len().min(BEGINNING_BYTES)]);
    match begins.starts_with(PARTS) {
        false => begins_as_summary(&begins),
        // The first part is the text that was put before the others.
        true => {
            let begins = begins.replace("\\u2014", "—");
            BEGINNINGS.iter().any(|beginning| begins.contains(&format!("\"{beginning}")))
        }
    }
}
