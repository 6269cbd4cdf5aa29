//! What Hermes, crashes and other programs have done to homes, one kind at a time.

use crate::Named;
use crate::world::{Schema, World};
use rusqlite::params;
use throughline_core::message::{Body, Content};
use throughline_core::{Message, Time};
use throughline_store::doctor::{FindingKind, Transcript};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    Rotated,
    RotatedAndLeft,
    ForkInOrder,
    ForkContained,
    ForkUndecided,
    Orphan,
    DeadEnd,
    RouteToEnded,
    RouteToMissing,
    TwoLive,
    DeadResume,
    FinalisedAlive,
    EndedNotFinalised,
    Copies,
    Disorder,
    BrokenGroup,
    LostUpdate,
    Lock,
    Index,
    Gap,
    NoSession,
    SharedRouteToEnded,
    ForkOfTwoChats,
}

use Damage::*;

const ALL: [Damage; 23] = [
    Rotated,
    RotatedAndLeft,
    ForkInOrder,
    ForkContained,
    ForkUndecided,
    Orphan,
    DeadEnd,
    RouteToEnded,
    RouteToMissing,
    TwoLive,
    DeadResume,
    FinalisedAlive,
    EndedNotFinalised,
    Copies,
    Disorder,
    BrokenGroup,
    LostUpdate,
    Lock,
    Index,
    Gap,
    NoSession,
    SharedRouteToEnded,
    ForkOfTwoChats,
];

/// What changes nothing about which session a chat has.
const INSIDE: [Damage; 6] = [Copies, Disorder, BrokenGroup, Lock, Index, Gap];
/// What does.
const AROUND: [Damage; 9] = [
    Rotated,
    RotatedAndLeft,
    ForkInOrder,
    ForkContained,
    ForkUndecided,
    Orphan,
    DeadEnd,
    RouteToEnded,
    TwoLive,
];

pub const SUMMARY: &str = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted.\n## Goal\n";

/// In an entry of a chat that is used today.
pub const WENT_ON: &str = ", \"updated_at\": \"2025-11-16T12:00:00\"";

impl Damage {
    pub fn is_only_reported(kind: FindingKind) -> bool {
        matches!(
            kind,
            FindingKind::BrokenToolGroup | FindingKind::RowsOutOfOrder | FindingKind::EndedNotFinalised
        )
    }

    /// What is told and left where our own books count rows.
    pub fn is_left_in_our_books(kind: FindingKind) -> bool {
        kind == FindingKind::DuplicatedRows
    }

    /// One to five kinds, each to a chat of its own. What was done, as it is to be named.
    pub fn several(world: &mut World) -> Named {
        let mut named = Named::new();
        let count = 1 + world.chance.below(5);
        for nth in 0..count {
            let damage = ALL[world.chance.below(ALL.len() as u64) as usize];
            if world.chance.one_in(3) {
                let session = world.chats[nth as usize].session.clone();
                world.lead_another(nth as usize, &session);
            }
            named.extend(damage.done_to(world, nth as usize));
        }
        world.write_routes();
        named
    }

    /// Two kinds to one chat: what was written into its transcript or beside it, then what became of its session.
    pub fn two_to_one(world: &mut World) -> Named {
        let (first, second) = (
            INSIDE[world.chance.below(INSIDE.len() as u64) as usize],
            AROUND[world.chance.below(AROUND.len() as u64) as usize],
        );
        let mut named: Named = first.done_to(world, 0).into_iter().collect();
        named.extend(second.done_to(world, 0));
        world.write_routes();
        named
    }

    fn needs_22(self) -> bool {
        matches!(self, TwoLive | EndedNotFinalised | LostUpdate | Lock)
    }

    pub fn done_to(self, world: &mut World, nth: usize) -> Vec<(FindingKind, String)> {
        if self.needs_22() && world.schema == Schema::Eleven {
            return Vec::new();
        }
        let chat = world.chats[nth].clone();
        let (key, session) = (chat.key.as_str(), chat.session.as_str());
        let one = |kind| vec![(kind, session.to_owned())];
        match self {
            Rotated => {
                let mut tip = session.to_owned();
                for _ in 0..1 + world.chance.below(3) {
                    tip = rotate(world, &tip, 2);
                }
                world.lead(key, &tip, "");
                one(FindingKind::RotatedChain)
            }
            RotatedAndLeft => {
                // Killed before the route could follow; the next message came to the old id.
                rotate(world, session, 1);
                world.talk(session, 1);
                one(FindingKind::RotatedChain)
            }
            ForkInOrder => {
                let first = rotate(world, session, 2);
                let other = sibling(world, session, 2);
                let led = if world.chance.one_in(2) { &first } else { &other };
                world.lead(key, led, "");
                one(FindingKind::ForkedSiblings)
            }
            ForkContained => {
                let first = rotate(world, session, 2);
                let small = world.begin("telegram", Some(session));
                let told = world.view(&first);
                for (role, text) in &told[..told.len() - 1] {
                    world.row(&small, role, text);
                }
                world.lead(key, &first, "");
                one(FindingKind::ForkedSiblings)
            }
            ForkUndecided => {
                let first = rotate(world, session, 1);
                let other = sibling(world, session, 1);
                world.talk(&first, 1); // both go on
                world.talk(&other, 1);
                world.lead(key, &first, "");
                one(FindingKind::ForkedSiblings)
            }
            ForkOfTwoChats => {
                let first = rotate(world, session, 1);
                let other = sibling(world, session, 1);
                world.talk(&first, 1);
                world.lead(key, &first, "");
                world.lead_another(nth, &other);
                world.reported.insert(session.to_owned());
                one(FindingKind::ForkedSiblings)
            }
            SharedRouteToEnded => {
                world.lead_another(nth, session);
                let other = world.begin("telegram", None);
                world.same_key(&other, key);
                world.talk(&other, 1);
                world.end(session, "session_reset");
                one(FindingKind::RouteToEnded)
            }
            Orphan => {
                let tip = rotate(world, session, 1);
                let orphan = world.begin("telegram", Some(session));
                world.lead(key, &tip, "");
                vec![(FindingKind::RotatedChain, session.to_owned()), (FindingKind::EmptyOrphan, orphan)]
            }
            DeadEnd => {
                world.end(session, "compression");
                one(FindingKind::DeadEnd)
            }
            RouteToEnded => {
                world.end(session, "session_reset");
                one(FindingKind::RouteToEnded)
            }
            RouteToMissing => {
                let missing = format!("20250101_000000_{nth:08x}");
                world.lead(key, &missing, "");
                vec![(FindingKind::RouteToMissing, missing)]
            }
            TwoLive => {
                let other = world.begin("telegram", None);
                world.same_key(&other, key);
                world.talk(&other, 1);
                one(FindingKind::TwoLiveSessions)
            }
            DeadResume => {
                let more = ", \"resume_pending\": true, \"resume_reason\": \"restart_timeout\", \
                            \"last_resume_marked_at\": \"2025-11-01T10:00:00\"";
                world.lead(key, session, more);
                one(FindingKind::DeadResumeFlag)
            }
            FinalisedAlive => {
                let has_row = world.schema == Schema::TwentyTwo;
                // `/resume` of Hermes 0.19 leaves the mark of the row. Or it was handed over, and went on.
                let is_reopened = has_row && world.chance.one_in(2);
                if has_row {
                    let sql = "UPDATE sessions SET expiry_finalized = 1 WHERE id = ?1";
                    world.conn.execute(sql, [session]).unwrap();
                }
                if !is_reopened {
                    let mark = if world.chance.one_in(2) { "expiry_finalized" } else { "memory_flushed" };
                    world.lead(key, session, &format!(", \"{mark}\": true{WENT_ON}"));
                }
                one(FindingKind::FinalisedAlive)
            }
            EndedNotFinalised => {
                let old = world.begin("telegram", None);
                world.talk(&old, 1);
                world.end(&old, "idle");
                let all = "SELECT min(id) FROM sessions WHERE end_reason = 'idle'";
                let first: String = world.conn.query_row(all, [], |row| row.get(0)).unwrap();
                // They are told together: only the first is the subject.
                vec![(FindingKind::EndedNotFinalised, first)]
            }
            Copies => {
                let sql = "INSERT INTO messages (session_id, role, content, timestamp)
                           SELECT session_id, role, content, timestamp FROM messages
                           WHERE session_id = ?1 ORDER BY id DESC LIMIT 1";
                world.conn.execute(sql, [session]).unwrap();
                one(FindingKind::DuplicatedRows)
            }
            Disorder => {
                let text = world.text("comes late");
                let at: f64 = world.tick() - 90_000.0;
                world.row_at(session, "user", &text, at);
                one(FindingKind::RowsOutOfOrder)
            }
            BrokenGroup => {
                world.call(session, 900 + nth as u64, false);
                let text = world.text("follows");
                world.row(session, "user", &text);
                one(FindingKind::BrokenToolGroup)
            }
            LostUpdate => {
                for role in ["user", "assistant", "user", "assistant"] {
                    let text = world.text("is seen");
                    world.row(session, role, &text);
                }
                let view = world.view(session);
                let lost = world.text("is lost");
                world.row(session, "user", &lost);
                let sql = "UPDATE messages SET active = 0, compacted = 1 WHERE session_id = ?1";
                world.conn.execute(sql, [session]).unwrap();
                world.told.retain(|text| *text == lost || !view.iter().any(|(_, known)| known == text));
                world.row(session, "user", &format!("{SUMMARY}archived"));
                for (role, text) in &view[view.len() - 2..] {
                    world.row(session, role, text);
                }
                world.talk(session, 1);
                one(FindingKind::ArchivedUnsummarised)
            }
            Lock => {
                let sql = "INSERT INTO compression_locks VALUES (?1, 'pid=1:tid=2:agent=3:nonce=4', 1763100000.0, 1763100300.0)";
                world.conn.execute(sql, [session]).unwrap();
                one(FindingKind::StaleCompressionLock)
            }
            Index => {
                let sql =
                    "DELETE FROM messages_fts WHERE rowid IN (SELECT id FROM messages WHERE session_id = ?1)";
                world.conn.execute(sql, [session]).unwrap();
                vec![(FindingKind::IndexOutOfStep, String::new())]
            }
            Gap => {
                let mut messages = Vec::new();
                for (role, text) in world.view(session) {
                    messages.push(message(&role, &text));
                }
                let gone = world.text("was rewritten");
                messages.insert(0, message("user", &gone));
                let file = format!("sessions/session_{session}.json");
                world.transcripts.push(Transcript { session: session.to_owned(), file, messages });
                one(FindingKind::TranscriptGap)
            }
            NoSession => {
                let lost = format!("20250202_000000_{nth:08x}");
                let text = world.text("has no session");
                world.conn.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
                world.row(&lost, "user", &text);
                world.conn.execute_batch("PRAGMA foreign_keys = ON").unwrap();
                vec![(FindingKind::RowsWithoutSession, lost)]
            }
        }
    }
}

fn message(role: &str, text: &str) -> Message {
    let content = Content::text(text);
    let body = match role {
        "user" => Body::User(content),
        _ => Body::Assistant(throughline_core::message::Assistant { content, ..Default::default() }),
    };
    Message::new(Time(0), body)
}

/// Hermes 0.14: the session ends, and another one begins with a part of it.
pub fn rotate(world: &mut World, session: &str, turns: u64) -> String {
    world.end(session, "compression");
    sibling(world, session, turns)
}

/// Another continuation of a session that a compression has ended.
fn sibling(world: &mut World, session: &str, turns: u64) -> String {
    let view = world.view(session);
    let child = world.begin("telegram", Some(session));
    if view.len() > 2 {
        world.row(&child, &view[0].0, &view[0].1);
    }
    let text = world.text("is summarised");
    world.told.pop();
    world.row(&child, "user", &format!("{SUMMARY}{text}"));
    for (role, text) in &view[view.len().saturating_sub(2)..] {
        world.row(&child, role, text);
    }
    world.talk(&child, turns);
    let sql = "UPDATE sessions SET title = ?2 WHERE id = ?1";
    world.conn.execute(sql, params![child, format!("Talk {child}")]).unwrap();
    child
}
