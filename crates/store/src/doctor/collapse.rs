//! One conversation under its first id again.
//!
//! The view becomes what its last part showed; every other part becomes a snapshot, in order of time. Rows keep
//! their numbers, so all that refers to a message still finds it, and the search index stays as it is.

use super::references::COUNTS;
use super::route::Chats;
use super::tree::{KeptPart, KeptReason, TreePart};
use super::{Look, Mended, counted};
use crate::envelope;
use crate::fault::StoreFault;
use crate::snapshot::{names_of, weigh};
use crate::write::note;
use rusqlite::{OptionalExtension, params};
use std::collections::HashSet;
use throughline_core::compression::Kind as Replaced;
use throughline_core::id::SNAPSHOT_INFIX;
use throughline_core::time::Time;

/// Ends of a part that are no ends of its conversation.
const ACCIDENTAL: [&str; 4] = ["compression", "orphaned_compression", "agent_close", "ws_orphan_reap"];

impl Look<'_> {
    pub(super) fn collapse(&self, root: &str) -> Result<Mended, StoreFault> {
        let Some(tree) = self.tree(root)? else { return Ok(Mended::Unneeded) };
        if tree.end_reason.as_deref() != Some("compression") || tree.children.iter().all(TreePart::is_orphan)
        {
            return Ok(Mended::Unneeded);
        }
        let parts = tree.all();
        if self.in_books(&parts)? > 1 {
            return Ok(Mended::Left(format!("{root}: several of its parts are in our own books")));
        }
        if self.are_being_remembered(&parts[1..])? {
            return Ok(Mended::Left(format!("{root}: something of it is on its way to a memory provider")));
        }
        if tree.is_contested() {
            return Ok(Mended::Left(format!("{root}: different chats lead to parallel parts of it")));
        }
        let settled = tree.settle();
        let conn = &self.reader.conn;
        crate::commit::run(conn, "PRAGMA defer_foreign_keys = ON")?;
        let before = weigh(conn, &self.reader.variants.weight, &settled.tip)?;
        let live: HashSet<i64> = settled.live.iter().copied().collect();
        let mut names = self.name_snapshots(root, &settled.kept)?;
        for part in parts.iter().skip(1) {
            self.rename_references(&part.id, root)?;
        }
        // What the other parts said counts as foreign to its owner.
        let said: usize = parts.iter().map(|part| part.rows.len()).sum();
        let sql = "UPDATE tl_session SET adopted = adopted + ?2 WHERE id = ?1";
        conn.prepare_cached(sql)?.execute(params![root, said as i64])?;
        for (kept, (name, view)) in settled.kept.iter().zip(names.drain(..)) {
            let leaving: Vec<i64> = kept.rows.iter().copied().filter(|row| !live.contains(row)).collect();
            self.set_aside(root, &name, &leaving, kept.at)?;
            self.record_part(root, &name, view, kept, before, settled.live.len())?;
        }
        for part in parts.iter().skip(1) {
            let sql = "UPDATE messages SET session_id = ?2 WHERE session_id = ?1";
            conn.prepare_cached(sql)?.execute([&part.id, root])?;
        }
        self.become_one(&tree, &settled.tip)?;
        for part in parts.iter().skip(1) {
            self.lead_in_tables(Chats::All, &part.id, root)?;
            self.dissolve(&part.id, root)?;
        }
        let undecided = settled.kept.iter().filter(|kept| kept.why == KeptReason::Undecided).count();
        let ids: Vec<&str> = parts.iter().skip(1).map(|part| part.id.as_str()).collect();
        note(conn, Some(root), "conversation_mended", &ids.join(" "), self.now)?;
        let undecided = match undecided {
            0 => String::new(),
            count => format!("; {} kept as a snapshot, undecided", counted(count, "parallel part")),
        };
        Ok(Mended::Done(format!(
            "{root} is one conversation again: {} live, {}{undecided}",
            counted(settled.live.len(), "message"),
            counted(settled.kept.len(), "snapshot"),
        )))
    }

    /// A name and a view for each, later each time, and told apart from what is there.
    fn name_snapshots(&self, root: &str, kept: &[KeptPart]) -> Result<Vec<(String, i64)>, StoreFault> {
        let mut named = Vec::new();
        let mut last = Time(0);
        for kept in kept {
            let wanted = Time::from_seconds(kept.at).min(self.now);
            let (name, view) = self.free_name(root, wanted.max(Time(last.0 + 1)), &mut last)?;
            named.push((name, view));
        }
        Ok(named)
    }

    /// The first name from this time on that is free, and the view of the one before it.
    pub(super) fn free_name(
        &self,
        root: &str,
        from: Time,
        at: &mut Time,
    ) -> Result<(String, i64), StoreFault> {
        let conn = &self.reader.conn;
        let mut time = from;
        loop {
            let name = format!("{root}{SNAPSHOT_INFIX}{}", time.compact());
            let sql =
                "SELECT 1 FROM tl_snapshot WHERE name = ?1 UNION ALL SELECT 1 FROM sessions WHERE id = ?1";
            if !conn.prepare_cached(sql)?.exists([&name])? {
                *at = time;
                let (below, _) = names_of(root);
                let sql = "SELECT max(view) FROM tl_snapshot WHERE name > ?1 AND name < ?2";
                let view: Option<i64> =
                    conn.prepare_cached(sql)?.query_row([&below, &name], |row| row.get(0))?;
                return Ok((name, view.unwrap_or(0)));
            }
            time = Time(time.0 + 1);
        }
    }

    /// Rows leave the view, under a snapshot's name.
    pub(super) fn set_aside(&self, root: &str, name: &str, rows: &[i64], at: f64) -> Result<(), StoreFault> {
        if rows.is_empty() {
            return Ok(());
        }
        let conn = &self.reader.conn;
        if self.reader.variants.can.has_compacted {
            let sql = "UPDATE messages SET active = 0, compacted = 1 WHERE id = ?1";
            let mut statement = conn.prepare_cached(sql)?;
            return rows.iter().try_for_each(|row| Ok(statement.execute([row]).map(drop)?));
        }
        let sql = "INSERT INTO sessions (id, source, parent_session_id, started_at, ended_at, end_reason, message_count)
                   VALUES (?1, 'tool', ?2, ?3, ?3, 'snapshot', ?4)";
        conn.prepare_cached(sql)?.execute(params![name, root, at, rows.len() as i64])?;
        let mut statement = conn.prepare_cached("UPDATE messages SET session_id = ?2 WHERE id = ?1")?;
        rows.iter().try_for_each(|row| Ok(statement.execute(params![row, name]).map(drop)?))
    }

    fn record_part(
        &self,
        root: &str,
        name: &str,
        view: i64,
        kept: &KeptPart,
        tokens: u64,
        live: usize,
    ) -> Result<(), StoreFault> {
        let was = match kept.why {
            KeptReason::Compressed => "went on under another id",
            KeptReason::Contained => "said nothing that was not said beside it",
            KeptReason::Joined => "is told after what was said beside it",
            KeptReason::Undecided => "ran beside what goes on; it could not be told which of the two does",
        };
        let remark = format!("It was {} and {was}.", kept.session);
        self.record_snapshot(&SnapshotRecord {
            name,
            session: root,
            view,
            at: Time::from_seconds(kept.at),
            rows: &kept.rows,
            summary: &kept.summary,
            messages_after: live,
            tokens,
            remark: &remark,
        })
    }

    pub(super) fn record_snapshot(&self, record: &SnapshotRecord<'_>) -> Result<(), StoreFault> {
        let last = record.rows.iter().copied().max().unwrap_or(0);
        let sql =
            "INSERT INTO tl_snapshot (name, session, view, operation, at, after, cut, upto, rows, summary,
                          kind, messages_before, messages_after, tokens_before, tokens_after, remark)
                   VALUES (?1, ?2, ?3, NULL, ?4, 0, ?5, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?12)";
        self.reader.conn.prepare_cached(sql)?.execute(params![
            record.name,
            record.session,
            record.view,
            record.at.0,
            last,
            envelope::numbers_text(record.rows.iter().copied()),
            envelope::numbers_text(record.summary.iter().copied()),
            Replaced::Mended.to_string(),
            record.rows.len() as i64,
            record.messages_after as i64,
            record.tokens as i64,
            record.remark,
        ])?;
        Ok(())
    }

    /// The first part's row says what the last one's said: its prompt, its model, whether it is over.
    fn become_one(&self, tree: &TreePart, tip: &str) -> Result<(), StoreFault> {
        let conn = &self.reader.conn;
        let can = &self.reader.variants.can;
        let parts = tree.all();
        let title = self.title_of(&parts, tip)?;
        conn.prepare_cached("UPDATE sessions SET title = NULL WHERE id = ?1")?.execute([tip])?;
        let mut counts = COUNTS.to_vec();
        if conn.column_exists(None, "sessions", "estimated_cost_usd")? {
            counts.push("estimated_cost_usd");
        }
        let all = "SELECT value FROM json_each(?4)";
        let sums: String = counts
            .iter()
            .map(|column| {
                format!(", {column} = (SELECT sum(c.{column}) FROM sessions c WHERE c.id IN ({all}))")
            })
            .collect();
        let mut chat: String = self
            .reader
            .variants
            .chat_columns()
            .map(|column| format!(", {column} = COALESCE(r.{column}, t.{column})"))
            .collect();
        if can.has_expiry_finalized {
            chat += ", expiry_finalized = t.expiry_finalized";
        }
        let live = parts.iter().find(|part| part.id == tip).is_none_or(|part| {
            let reason = part.end_reason.as_deref().unwrap_or_default();
            part.ended.is_none() || ACCIDENTAL.contains(&reason)
        });
        let ending = match live || self.leads_to_live(&parts)? {
            true => "ended_at = NULL, end_reason = NULL",
            false => "ended_at = t.ended_at, end_reason = t.end_reason",
        };
        let all = serde_json::Value::from_iter(parts.iter().map(|part| part.id.as_str())).to_string();
        let sql = format!(
            "UPDATE sessions AS r SET {ending}, title = ?3, system_prompt = COALESCE(t.system_prompt, r.system_prompt),
                    model = COALESCE(t.model, r.model), user_id = COALESCE(r.user_id, t.user_id){sums}{chat}
             FROM sessions t WHERE r.id = ?1 AND t.id = ?2"
        );
        conn.prepare_cached(&sql)?.execute(params![tree.id, tip, title, all])?;
        conn.prepare_cached(&self.reader.variants.recount)?.execute(params![tree.id, 0, 0])?;
        Ok(())
    }

    fn title_of(&self, parts: &[&TreePart], tip: &str) -> Result<Option<String>, StoreFault> {
        let sql = "SELECT title FROM sessions WHERE id = ?1 AND title IS NOT NULL";
        let first = parts.first().map(|part| part.id.as_str());
        for id in first.into_iter().chain([tip]).chain(parts.iter().map(|part| part.id.as_str())) {
            let title = self.reader.conn.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?;
            if title.is_some() {
                return Ok(title);
            }
        }
        Ok(None)
    }

    /// Whether a chat leads to it that was not handed over.
    fn leads_to_live(&self, parts: &[&TreePart]) -> Result<bool, StoreFault> {
        let entries = self.all_entries()?;
        Ok(entries
            .values()
            .any(|entry| !entry.finalised && parts.iter().any(|part| part.id == entry.session)))
    }
}

/// A snapshot that a repair leaves.
pub(super) struct SnapshotRecord<'a> {
    pub name: &'a str,
    pub session: &'a str,
    pub view: i64,
    pub at: Time,
    pub rows: &'a [i64],
    pub summary: &'a [i64],
    pub messages_after: usize,
    pub tokens: u64,
    pub remark: &'a str,
}
