//! Conversations that compressions have split: chains, forks, and what was left over.

use super::tree::{KeptReason, SettledTree, TreePart};
use super::{Finding, FindingKind, Look, Mended, Remedy, counted};
use crate::fault::StoreFault;
use rusqlite::params;

/// How many parts of a chain are named in its evidence.
const NAMED_MAX: usize = 12;

impl Look<'_> {
    pub(super) fn lineage(&self) -> Result<Vec<Finding>, StoreFault> {
        let mut found = Vec::new();
        for root in self.roots()? {
            let Some(tree) = self.tree(&root)? else { continue };
            self.orphans_in(&tree, &mut found)?;
            let goes_on = tree.children.iter().any(|child| !child.is_orphan());
            match goes_on {
                true => found.push(self.split(&tree)?),
                false if self.is_settled(tree.ended.unwrap_or(0.0)) => found.push(dead_end(&tree)),
                false => {}
            }
        }
        Ok(found)
    }

    fn orphans_in(&self, part: &TreePart, found: &mut Vec<Finding>) -> Result<(), StoreFault> {
        for child in &part.children {
            if child.is_orphan() && self.is_settled(child.started) && !self.is_in_books(&child.id)? {
                found.push(Finding {
                    kind: FindingKind::EmptyOrphan,
                    sessions: vec![child.id.clone(), part.id.clone()],
                    rows: Vec::new(),
                    evidence: vec![format!(
                        "{} was made by a compression of {}; nothing was ever said in it, and no chat leads there",
                        child.id, part.id
                    )],
                    remedy: Remedy::Repair(format!(
                        "{} is removed, as `hermes sessions delete` would; it holds no message",
                        child.id
                    )),
                });
            }
            self.orphans_in(child, found)?;
        }
        Ok(())
    }

    fn split(&self, tree: &TreePart) -> Result<Finding, StoreFault> {
        let settled = tree.settle();
        let parts = tree.all();
        let kind = if tree.is_forked() { FindingKind::ForkedSiblings } else { FindingKind::RotatedChain };
        let messages: usize = parts.iter().map(|part| part.rows.len()).sum();
        let named: Vec<&str> = parts.iter().take(NAMED_MAX).map(|part| part.id.as_str()).collect();
        let more = parts.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let mut evidence = vec![format!(
            "{} under {} ids, {} in all: {}{more}",
            "one conversation",
            parts.len(),
            counted(messages, "message"),
            named.join(" -> ")
        )];
        for entry in self.all_entries()?.values() {
            if parts.iter().any(|part| part.id == entry.session) {
                evidence.push(format!("{} leads to {} ({})", entry.chat, entry.session, entry.place));
            }
        }
        evidence.extend(settled.kept.iter().filter_map(|kept| {
            let says = match kept.why {
                KeptReason::Compressed => return None,
                KeptReason::Contained => "says nothing that its sibling does not say; it is kept as a snapshot",
                KeptReason::Joined => "began when its sibling was over; it is told after it",
                KeptReason::Undecided => {
                    "ran beside its sibling, and neither contains the other: it is kept as a snapshot, undecided"
                }
            };
            Some(format!("{} {says}", kept.session))
        }));
        if !settled.left_behind.is_empty() {
            evidence.push(format!(
                "{} came to a part after it had been compressed, while its continuation went on; kept in a snapshot",
                counted(settled.left_behind.len(), "message")
            ));
        }
        let remedy = match self.in_books(&parts)? {
            _ if tree.is_contested() => Remedy::Advice(
                "different chats lead to parallel parts of it, so it is left as it is: as one session, each chat would \
                 read what was said in the other. Begin a new session (/new) in all of them but one, then repair"
                    .to_owned(),
            ),
            0 | 1 if self.are_being_remembered(&parts[1..])? => Remedy::Advice(
                "something of it is on its way to a memory provider under the id it was said in, so it is left as it is: \
                 start the gateway, let it hand that over (`throughline status` counts it), stop it, then repair"
                    .to_owned(),
            ),
            0 | 1 => Remedy::Repair(sentence(tree, &settled)),
            _ => Remedy::Advice(
                "this gateway has run on several of its parts, so it is left as it is; every part can be read with \
                 `throughline sessions show`"
                    .to_owned(),
            ),
        };
        Ok(Finding {
            kind,
            sessions: parts.iter().map(|part| part.id.clone()).collect(),
            rows: settled.left_behind.iter().copied().take(super::ROWS_MAX).collect(),
            evidence,
            remedy,
        })
    }

    pub(super) fn in_books(&self, parts: &[&TreePart]) -> Result<usize, StoreFault> {
        let mut count = 0;
        for part in parts {
            count += usize::from(self.is_in_books(&part.id)?);
        }
        Ok(count)
    }

    pub(super) fn is_in_books(&self, session: &str) -> Result<bool, StoreFault> {
        let sql = "SELECT 1 FROM tl_session WHERE id = ?1";
        Ok(self.reader.conn.prepare_cached(sql)?.exists([session])?)
    }

    /// Hermes deletes a session with its messages; here there must be none, and no session that came from it.
    pub(super) fn remove_orphan(&self, finding: &Finding) -> Result<Mended, StoreFault> {
        let id = finding.subject();
        if self.is_in_books(id)? || self.routed_sessions()?.contains(id) {
            return Ok(Mended::Unneeded);
        }
        let conn = &self.reader.conn;
        if self.reader.variants.can.has_model_usage {
            // What it cost stays with the conversation.
            self.move_usage(id, finding.sessions.get(1).map_or("", String::as_str))?;
        }
        let sql = "DELETE FROM sessions WHERE id = ?1 AND end_reason IS NOT 'snapshot'
                   AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = ?1)
                   AND NOT EXISTS (SELECT 1 FROM sessions c WHERE c.parent_session_id = ?1)";
        match conn.prepare_cached(sql)?.execute([id])? {
            0 => Ok(Mended::Unneeded),
            _ => Ok(Mended::Done(format!("{id} is gone; it held no message"))),
        }
    }

    /// A conversation that a chat leads to goes on; any other one ended as it would by itself.
    pub(super) fn reopen_dead_end(&self, id: &str) -> Result<Mended, StoreFault> {
        let routed = self.routed_sessions()?.contains(id);
        let sql = match routed {
            true => {
                "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?1 AND end_reason = ?2"
            }
            // Hermes opens such a one again on the next message, and follows nothing.
            false => "UPDATE sessions SET end_reason = 'agent_close' WHERE id = ?1 AND end_reason = ?2",
        };
        match (self.reader.conn.prepare_cached(sql)?.execute(params![id, "compression"])?, routed) {
            (0, _) => Ok(Mended::Unneeded),
            (_, true) => Ok(Mended::Done(format!("{id} goes on"))),
            (_, false) => Ok(Mended::Done(format!("{id} can be resumed"))),
        }
    }
}

fn dead_end(tree: &TreePart) -> Finding {
    let does = match tree.is_routed {
        true => "it is opened again, so that its chat goes on in it",
        false => {
            "it is marked as closed by accident, so that it can be resumed and nothing is looked for behind it"
        }
    };
    Finding {
        kind: FindingKind::DeadEnd,
        sessions: vec![tree.id.clone()],
        rows: Vec::new(),
        evidence: vec![format!(
            "{} with {} was ended by a compression, and no session with anything in it continues it",
            tree.id,
            counted(tree.rows.len(), "message")
        )],
        remedy: Remedy::Repair(does.to_owned()),
    }
}

fn sentence(tree: &TreePart, settled: &SettledTree) -> String {
    let undecided = settled.kept.iter().filter(|kept| kept.why == KeptReason::Undecided).count();
    let undecided = match undecided {
        0 => String::new(),
        count => format!("; {} kept beside it, undecided", counted(count, "parallel part")),
    };
    format!(
        "{} stays and goes on with {}; what lay before becomes {} of it, in order, and its chat leads to it{undecided}",
        tree.id,
        counted(settled.live.len(), "message"),
        counted(settled.kept.len(), "snapshot"),
    )
}
