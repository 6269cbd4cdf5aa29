//! Where chats lead, by our books and by Hermes', and what is wrong with it.
//!
//! Hermes keeps a route in two places and a session's end in a third, written one after the other. A crash in
//! between leaves a chat that leads to a session that is over or was never begun. On a home that we have run
//! on, our own routes are the truth; Hermes' copy of a route that we dropped stays as a trace, and is no damage.

use super::file::{Editing, EntryEdit};
use super::{Finding, FindingKind, Look, Mended, Remedy, counted};
use crate::fault::StoreFault;
use crate::read::{ACCIDENTAL_ENDS, text};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use throughline_core::time::Time;
use throughline_hermes::entry::{SessionEntry, entry_from_json, entry_json};
use throughline_hermes::local::{LocalTime, system_zone};
use throughline_hermes::sessions_json::Index;

/// Hermes resumes nothing that was interrupted longer ago, unless it was told another time.
const RESUMED_WITHIN_SECONDS: f64 = 3_600.0;

/// As a condition on `s`: a conversation of its own.
const OF_ITS_OWN: &str = "s.source NOT IN ('tool', 'subagent') AND instr(s.id, '.snapshot.') = 0
    AND COALESCE(s.model_config, '') NOT LIKE '%\"_branched_from\"%'
    AND COALESCE(s.model_config, '') NOT LIKE '%\"_delegate_from\"%'";

/// Which rows of `gateway_routing` lead to a session, for one connection alone: without it each repair would read all of
/// them. `tl_led` says where to look; the row itself decides.
pub(super) const LED: &str = "CREATE TEMP TABLE tl_led (scope, chat, session, PRIMARY KEY (scope, chat)) WITHOUT ROWID;
    CREATE INDEX temp.tl_led_session ON tl_led(session);
    INSERT INTO tl_led SELECT scope, session_key, json_extract(entry_json, '$.session_id') FROM gateway_routing
    WHERE json_valid(entry_json)";

/// By chat.
pub(super) type Entries = BTreeMap<String, RouteEntry>;

/// One route.
#[derive(Clone, Debug)]
pub(super) struct RouteEntry {
    pub chat: String,
    pub session: String,
    /// Where it is written.
    pub place: &'static str,
    pub finalised: bool,
    pub platform: String,
    pub chat_type: String,
    /// When something last happened there, by Hermes' count.
    pub active: Time,
    suspended: bool,
    resume_pending: bool,
    marked: Option<Time>,
}

impl RouteEntry {
    fn of(entry: &SessionEntry, place: &'static str) -> Self {
        Self {
            chat: entry.session_key.to_string(),
            session: entry.session_id.to_string(),
            place,
            finalised: entry.expiry_finalized,
            platform: entry.platform.clone().unwrap_or_default(),
            chat_type: entry.chat_type.clone(),
            active: entry.updated_at.at(&system_zone()),
            suspended: entry.suspended,
            resume_pending: entry.resume_pending,
            marked: entry.last_resume_marked_at.map(|at| LocalTime::at(at, &system_zone())),
        }
    }
}

impl Look<'_> {
    /// Every route that counts, by chat.
    pub(super) fn all_entries(&self) -> Result<&Entries, StoreFault> {
        if let Some(known) = self.entries.get() {
            return Ok(known);
        }
        let found = self.read_entries()?;
        Ok(self.entries.get_or_init(|| found))
    }

    /// Whether a chat that we know nothing of is led there when we start: not to a session that is over. What we have let
    /// go of stays in Hermes' table, and leads no chat.
    fn is_taken_over(&self, entry: &SessionEntry) -> Result<bool, StoreFault> {
        let conn = &self.reader.conn;
        let known = "SELECT 1 FROM tl_route WHERE chat = ?1";
        let over = "SELECT 1 FROM sessions WHERE id = ?1 AND ended_at IS NOT NULL
                    AND COALESCE(end_reason, '') NOT IN ('compression', 'agent_close', 'ws_orphan_reap')";
        Ok(conn.prepare_cached(known)?.exists([entry.session_key.as_str()])?
            || !conn.prepare_cached(over)?.exists([entry.session_id.as_str()])?)
    }

    /// The route of one chat as it is now, by the rules of [`Look::all_entries`]. `sessions_file`: what the file says of it, if
    /// a chat is led by it.
    pub(super) fn entry_of(
        &self,
        chat: &str,
        sessions_file: Option<&Value>,
    ) -> Result<Option<RouteEntry>, StoreFault> {
        let conn = &self.reader.conn;
        let is_ours = is_ours(conn)?;
        let leads = |entry: &SessionEntry| Ok::<_, StoreFault>(!is_ours || self.is_taken_over(entry)?);
        if self.reader.variants.can.has_gateway_routing {
            let sql = "SELECT entry_json FROM gateway_routing WHERE scope = ?1 AND session_key = ?2";
            let row = conn.prepare_cached(sql)?.query_row(params![self.home.scope, chat], |row| text(row, 0));
            if let Some(Ok(entry)) = row.optional()?.flatten().map(|text| entry_from_json(&text))
                && leads(&entry)?
            {
                return Ok(Some(RouteEntry::of(&entry, "gateway_routing")));
            }
        }
        if let Some(Ok(entry)) = sessions_file.map(SessionEntry::from_json)
            && leads(&entry)?
        {
            return Ok(Some(RouteEntry::of(&entry, "sessions.json")));
        }
        let sql = "SELECT entry FROM tl_route WHERE chat = ?1";
        let row = conn.prepare_cached(sql)?.query_row([chat], |row| row.get::<_, String>(0)).optional()?;
        let entry = row.and_then(|text| entry_from_json(&text).ok());
        Ok(entry.map(|entry| RouteEntry::of(&entry, "our routes")))
    }

    fn read_entries(&self) -> Result<Entries, StoreFault> {
        let conn = &self.reader.conn;
        let mut found = BTreeMap::new();
        let is_ours = is_ours(conn)?;
        let leads = |entry: &SessionEntry| Ok::<_, StoreFault>(!is_ours || self.is_taken_over(entry)?);
        // As we wrote it, or as Hermes changed it since: what a start of ours would take over.
        if let Some(text) = self.leading_file().unwrap_or_default() {
            let index = Index::parse(&text).unwrap_or_default(); // told on its own, see `unreadable_file`
            for (chat, entry) in &index.entries {
                if leads(entry)? {
                    found.insert(chat.to_string(), RouteEntry::of(entry, "sessions.json"));
                }
            }
        }
        if self.reader.variants.can.has_gateway_routing {
            let sql = "SELECT entry_json FROM gateway_routing WHERE scope = ?1";
            let mut statement = conn.prepare_cached(sql)?;
            let mut rows = statement.query([&self.home.scope])?;
            while let Some(row) = rows.next()? {
                let Some(Ok(entry)) = text(row, 0)?.map(|text| entry_from_json(&text)) else { continue };
                if !leads(&entry)? {
                    continue;
                }
                found.insert(entry.session_key.to_string(), RouteEntry::of(&entry, "gateway_routing"));
            }
        }
        let mut statement = conn.prepare_cached("SELECT entry FROM tl_route")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let Ok(entry) = entry_from_json(&row.get::<_, String>(0)?) else { continue };
            found
                .entry(entry.session_key.to_string())
                .or_insert_with(|| RouteEntry::of(&entry, "our routes"));
        }
        Ok(found)
    }

    pub(super) fn routes(&self) -> Result<Vec<Finding>, StoreFault> {
        let mut ended: BTreeMap<String, Vec<RouteEntry>> = BTreeMap::new();
        let mut missing: BTreeMap<String, Vec<RouteEntry>> = BTreeMap::new();
        let mut found = Vec::new();
        for entry in self.all_entries()?.values() {
            let sql = "SELECT ended_at IS NOT NULL, end_reason FROM sessions WHERE id = ?1";
            let row = self.reader.conn.prepare_cached(sql)?.query_row([&entry.session], |row| {
                Ok((row.get::<_, bool>(0)?, text(row, 1)?.unwrap_or_default()))
            });
            found.extend(self.dead_resume(entry));
            match row.optional()? {
                None => missing.entry(entry.session.clone()).or_default().push(entry.clone()),
                // Where a compression was the end, the conversation is judged as a whole.
                Some((true, reason))
                    if !entry.finalised
                        && !entry.suspended
                        && reason != "compression"
                        && !ACCIDENTAL_ENDS.contains(&reason.as_str()) =>
                {
                    ended.entry(entry.session.clone()).or_default().push(entry.clone());
                }
                Some(_) => {}
            }
        }
        for (session, entries) in ended {
            found.push(self.misled(FindingKind::RouteToEnded, &session, &entries)?);
        }
        for (session, entries) in missing {
            found.push(self.misled(FindingKind::RouteToMissing, &session, &entries)?);
        }
        found.extend(self.two_live()?);
        found.extend(self.unreadable_file()?);
        Ok(found)
    }

    /// Where the chats of an unreadable file lead is unknown: that is not the same as nothing wrong.
    fn unreadable_file(&self) -> Result<Option<Finding>, StoreFault> {
        let why = match self.sessions_file() {
            Ok(None) => return Ok(None),
            Ok(Some(text)) => match Index::parse(&text) {
                Ok(_) => return Ok(None),
                Err(error) => error.to_string(),
            },
            Err(StoreFault::Malformed(why)) => why,
            Err(error) => return Err(error),
        };
        let advice = match self.reader.variants.can.has_gateway_routing {
            true => "state.db keeps the routes, too: move the file away, and it is written anew from there",
            false => {
                "it is the only copy of where chats lead: mend it by hand or put it back from a backup. Without it every \
                 chat begins a new session, and the old ones can be resumed"
            }
        };
        Ok(Some(Finding {
            kind: FindingKind::UnreadableRoutes,
            sessions: vec!["sessions/sessions.json".to_owned()],
            rows: Vec::new(),
            evidence: vec![why],
            remedy: Remedy::Advice(advice.to_owned()),
        }))
    }

    fn misled(
        &self,
        kind: FindingKind,
        session: &str,
        entries: &[RouteEntry],
    ) -> Result<Finding, StoreFault> {
        let mut evidence: Vec<String> = entries
            .iter()
            .map(|entry| format!("{} leads to {session} ({})", entry.chat, entry.place))
            .collect();
        let sql = "SELECT end_reason, message_count FROM sessions WHERE id = ?1";
        let about = self.reader.conn.prepare_cached(sql)?.query_row([session], |row| {
            Ok((text(row, 0)?.unwrap_or_default(), row.get::<_, Option<i64>>(1)?.unwrap_or(0)))
        });
        if let Some((reason, messages)) = about.optional()? {
            evidence.push(format!("{session} ended by {reason:?}, with {messages} messages"));
        }
        let mut does = Vec::new();
        for entry in entries {
            does.push(match self.live_session_of(&entry.chat, session)? {
                Some(other) => {
                    format!("{} leads to {other}, its latest session that is not over", entry.chat)
                }
                None => {
                    format!("the route of {} is removed; the next message there begins a session", entry.chat)
                }
            });
        }
        let remedy = Remedy::Repair(does.join("; "));
        Ok(Finding { kind, sessions: vec![session.to_owned()], rows: Vec::new(), evidence, remedy })
    }

    /// The chat's newest session that is not over and has something in it, as Hermes looks for it.
    fn live_session_of(&self, chat: &str, but: &str) -> Result<Option<String>, StoreFault> {
        if !self.reader.variants.can.has_session_key {
            return Ok(None);
        }
        let [one, other] = ACCIDENTAL_ENDS;
        let sql = format!(
            "SELECT s.id FROM sessions s WHERE s.session_key = ?1 AND s.id <> ?2 AND {OF_ITS_OWN}
               AND (s.ended_at IS NULL OR s.end_reason IN (?3, ?4))
               AND EXISTS (SELECT 1 FROM messages m WHERE m.session_id = s.id)
             ORDER BY s.started_at DESC, s.id DESC LIMIT 1"
        );
        let mut statement = self.reader.conn.prepare_cached(&sql)?;
        Ok(statement.query_row([chat, but, one, other], |row| row.get(0)).optional()?)
    }

    fn dead_resume(&self, entry: &RouteEntry) -> Option<Finding> {
        let marked = entry.marked.map_or(0.0, Time::as_seconds);
        let age = self.now.as_seconds() - marked;
        if !entry.resume_pending || age < RESUMED_WITHIN_SECONDS {
            return None;
        }
        let when = match entry.marked {
            Some(_) => format!("{} hours ago", (age / 3_600.0).round() as i64),
            None => "at an unknown time".to_owned(),
        };
        Some(Finding {
            kind: FindingKind::DeadResumeFlag,
            sessions: vec![entry.session.clone()],
            rows: Vec::new(),
            evidence: vec![format!("{} was to be resumed, marked {when} ({})", entry.chat, entry.place)],
            remedy: Remedy::Repair("the mark is taken off; the conversation stays as it is".to_owned()),
        })
    }

    fn two_live(&self) -> Result<Vec<Finding>, StoreFault> {
        if !self.reader.variants.can.has_session_key {
            return Ok(Vec::new()); // an older home does not keep which chat a session was begun in
        }
        let sql = format!(
            "SELECT s.session_key, json_group_array(s.id) FROM sessions s
             WHERE s.session_key IS NOT NULL AND s.session_key <> '' AND s.ended_at IS NULL AND {OF_ITS_OWN}
             GROUP BY s.session_key HAVING count(*) > 1"
        );
        let mut statement = self.reader.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let (chat, list): (String, String) = (row.get(0)?, row.get(1)?);
            let ids: Vec<String> = serde_json::from_str(&list).unwrap_or_default();
            let mut ids = self.led_first(&chat, ids)?;
            // A chat may lead to a session that another chat was begun in.
            let routed = self.routed_sessions()?;
            let first = ids.remove(0);
            ids.retain(|id| !routed.contains(id));
            if ids.is_empty() {
                continue;
            }
            let evidence = vec![format!("{chat}: {first} and {} are not over", ids.join(", "))];
            let does = format!(
                "{first} goes on; {} ended as left for another, with every message in place, and can be resumed",
                if ids.len() == 1 { format!("{} is", ids[0]) } else { format!("{} others are", ids.len()) }
            );
            let sessions = std::iter::once(first).chain(ids).collect();
            let kind = FindingKind::TwoLiveSessions;
            found.push(Finding { kind, sessions, rows: Vec::new(), evidence, remedy: Remedy::Repair(does) });
        }
        Ok(found)
    }

    /// The one that the chat leads to, else the one that was last spoken in; then the others.
    fn led_first(&self, chat: &str, ids: Vec<String>) -> Result<Vec<String>, StoreFault> {
        let led = self.all_entries()?.get(chat).map(|entry| entry.session.clone());
        let mut dated = Vec::new();
        for id in ids {
            let sql = "SELECT COALESCE((SELECT max(timestamp) FROM messages WHERE session_id = ?1), 0.0)";
            let last: f64 = self.reader.conn.prepare_cached(sql)?.query_row([&id], |row| row.get(0))?;
            dated.push((Some(&id) != led.as_ref(), -last, id));
        }
        dated.sort_by(|one, other| {
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)).then(one.2.cmp(&other.2))
        });
        Ok(dated.into_iter().map(|(_, _, id)| id).collect())
    }

    // ------------------------------------------------------------------------------------------ repair

    /// How `sessions.json` has to change for this repair; None: not at all.
    pub(super) fn leads(&self, finding: &Finding) -> Result<Option<Editing>, StoreFault> {
        let mut led: HashMap<String, Option<String>> = HashMap::new();
        match finding.kind {
            FindingKind::ForkedSiblings | FindingKind::RotatedChain => {
                led = self.leads_of(finding.subject())?
            }
            FindingKind::RouteToEnded | FindingKind::RouteToMissing => {
                let mut by_chat = HashMap::new();
                for entry in self.leading_to(finding.subject())? {
                    let to = self.live_session_of(&entry.chat, &entry.session)?;
                    by_chat.insert(entry.chat, to);
                }
                let from = finding.subject().to_owned();
                return Ok(Some(Box::new(move |chat, entry| match (session_in(entry), by_chat.get(chat)) {
                    (Some(session), Some(to)) if session == from => led_to(entry, to.as_deref()),
                    _ => EntryEdit::Same,
                })));
            }
            FindingKind::DeadResumeFlag => {
                let of = finding.subject().to_owned();
                return Ok(Some(Box::new(move |_, entry| {
                    if session_in(entry) != Some(&of)
                        || entry.get("resume_pending") != Some(&Value::Bool(true))
                    {
                        return EntryEdit::Same;
                    }
                    let mut entry = entry.clone();
                    entry.insert("resume_pending".to_owned(), Value::Bool(false));
                    entry.insert("resume_reason".to_owned(), Value::Null);
                    entry.insert("last_resume_marked_at".to_owned(), Value::Null);
                    EntryEdit::Changed(entry)
                })));
            }
            FindingKind::FinalisedAlive => {
                let of = finding.subject().to_owned();
                return Ok(Some(Box::new(move |_, entry| {
                    // Hermes 0.14 knows it by its older name.
                    let marks = ["expiry_finalized", "memory_flushed"];
                    let set =
                        |mark: &&&str| entry.get(**mark).is_some_and(|value| *value == Value::Bool(true));
                    let marked: Vec<&str> = marks.iter().filter(set).copied().collect();
                    if session_in(entry) != Some(&of) || marked.is_empty() {
                        return EntryEdit::Same;
                    }
                    let mut entry = entry.clone();
                    for mark in marked {
                        entry.insert(mark.to_owned(), Value::Bool(false));
                    }
                    EntryEdit::Changed(entry)
                })));
            }
            _ => {}
        }
        if led.is_empty() {
            return Ok(None);
        }
        Ok(Some(Box::new(move |_, entry| {
            match session_in(entry).and_then(|session| led.get(session)).cloned() {
                Some(to) => led_to(entry, to.as_deref()),
                None => EntryEdit::Same,
            }
        })))
    }

    /// What leads to one session leads to another, in our table and in Hermes'.
    pub(super) fn lead_in_tables(&self, chats: Chats<'_>, from: &str, to: &str) -> Result<usize, StoreFault> {
        let to: throughline_core::SessionId = crate::read::session_id(to)?;
        self.change_entries(chats, from, &|entry| entry.session_id.clone_from(&to))
    }

    /// How many entries were changed.
    fn change_entries(
        &self,
        chats: Chats<'_>,
        session: &str,
        change: &dyn Fn(&mut SessionEntry),
    ) -> Result<usize, StoreFault> {
        let conn = &self.reader.conn;
        let mut count = 0;
        let mut statement = conn.prepare_cached("SELECT chat, entry FROM tl_route WHERE session = ?1")?;
        let rows =
            statement.query_map([session], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
        for (chat, text) in rows.collect::<rusqlite::Result<Vec<_>>>()? {
            let Ok(mut entry) = entry_from_json(&text) else { continue };
            if !chats.include(&chat) {
                continue;
            }
            let before = entry_json(&entry);
            change(&mut entry);
            if entry_json(&entry) == before {
                continue;
            }
            count += 1;
            self.touched.borrow_mut().push(chat.clone());
            let sql = "UPDATE tl_route SET session = ?2, entry = ?3 WHERE chat = ?1";
            conn.prepare_cached(sql)?.execute([&chat, entry.session_id.as_str(), &entry_json(&entry)])?;
            crate::write::note(conn, Some(entry.session_id.as_str()), "route_bound", &chat, self.now)?;
        }
        if !self.reader.variants.can.has_gateway_routing {
            return Ok(count);
        }
        let sql = "SELECT g.scope, g.session_key, g.entry_json
                   FROM tl_led l JOIN gateway_routing g ON g.scope = l.scope AND g.session_key = l.chat
                   WHERE l.session = ?1 AND json_valid(g.entry_json)
                     AND json_extract(g.entry_json, '$.session_id') = ?1";
        let mut statement = conn.prepare_cached(sql)?;
        let rows = statement.query_map([session], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        })?;
        for (scope, chat, text) in rows.collect::<rusqlite::Result<Vec<_>>>()? {
            let Ok(mut entry) = entry_from_json(&text) else { continue };
            if !chats.include(&chat) {
                continue;
            }
            let before = entry_json(&entry);
            change(&mut entry);
            if entry_json(&entry) == before {
                continue;
            }
            let sql = "UPDATE gateway_routing SET entry_json = ?3 WHERE scope = ?1 AND session_key = ?2";
            count += conn.prepare_cached(sql)?.execute([&scope, &chat, &entry_json(&entry)])?;
            let sql = "UPDATE tl_led SET session = ?3 WHERE scope = ?1 AND chat = ?2";
            conn.prepare_cached(sql)?.execute([&scope, &chat, entry.session_id.as_str()])?;
            self.touched.borrow_mut().push(chat);
        }
        Ok(count)
    }

    fn leading_to(&self, session: &str) -> Result<Vec<RouteEntry>, StoreFault> {
        Ok(self.all_entries()?.values().filter(|entry| entry.session == session).cloned().collect())
    }

    pub(super) fn lead_on(&self, finding: &Finding) -> Result<Mended, StoreFault> {
        let conn = &self.reader.conn;
        let from = finding.subject();
        let mut done = Vec::new();
        for entry in self.leading_to(from)? {
            self.touched.borrow_mut().push(entry.chat.clone());
            match self.live_session_of(&entry.chat, from)? {
                Some(to) => {
                    // Other chats that lead here were begun by other people: each goes where it belongs.
                    self.lead_in_tables(Chats::Only(&entry.chat), from, &to)?;
                    done.push(format!("{} leads to {to}", entry.chat));
                }
                None => {
                    conn.prepare_cached("DELETE FROM tl_route WHERE chat = ?1")?.execute([&entry.chat])?;
                    if self.reader.variants.can.has_gateway_routing {
                        let sql =
                            "DELETE FROM gateway_routing WHERE session_key = ?1 AND json_valid(entry_json)
                                   AND json_extract(entry_json, '$.session_id') = ?2";
                        conn.prepare_cached(sql)?.execute([&entry.chat, from])?;
                    }
                    crate::write::note(conn, None, "route_dropped", &entry.chat, self.now)?;
                    done.push(format!("{} begins afresh", entry.chat));
                }
            }
        }
        Ok(if done.is_empty() { Mended::Unneeded } else { Mended::Done(done.join("; ")) })
    }

    pub(super) fn end_others(&self, finding: &Finding) -> Result<Mended, StoreFault> {
        let routed = self.routed_sessions()?;
        let mut count = 0;
        for id in finding.sessions.iter().skip(1).filter(|id| !routed.contains(*id)) {
            let sql = "UPDATE sessions SET ended_at = ?2, end_reason = 'session_switch'
                       WHERE id = ?1 AND ended_at IS NULL";
            let now = self.now.as_seconds();
            count += self.reader.conn.prepare_cached(sql)?.execute(params![id, now])?;
        }
        Ok(match count {
            0 => Mended::Unneeded,
            _ => Mended::Done(format!("{} goes on; {} ended", finding.subject(), counted(count, "other"))),
        })
    }

    pub(super) fn clear_resume_flag(
        &self,
        finding: &Finding,
        changes_file: bool,
    ) -> Result<Mended, StoreFault> {
        let count = self.change_entries(Chats::All, finding.subject(), &|entry| {
            entry.resume_pending = false;
            entry.resume_reason = None;
            entry.last_resume_marked_at = None;
        })?;
        if count == 0 && !changes_file {
            return Ok(Mended::Unneeded);
        }
        Ok(Mended::Done(format!("{} no longer waits to be resumed", finding.subject())))
    }

    pub(super) fn unfinalise(&self, finding: &Finding, changes_file: bool) -> Result<Mended, StoreFault> {
        let conn = &self.reader.conn;
        let sql = "SELECT 1 FROM sessions WHERE id = ?1 AND ended_at IS NULL";
        if !conn.prepare_cached(sql)?.exists([finding.subject()])? {
            return Ok(Mended::Unneeded);
        }
        let mut count =
            self.change_entries(Chats::All, finding.subject(), &|entry| entry.expiry_finalized = false)?;
        if self.reader.variants.can.has_expiry_finalized {
            let sql = "UPDATE sessions SET expiry_finalized = 0 WHERE id = ?1 AND expiry_finalized = 1";
            count += conn.prepare_cached(sql)?.execute([finding.subject()])?;
        }
        if count == 0 && !changes_file {
            return Ok(Mended::Unneeded);
        }
        Ok(Mended::Done(format!("{} is handed over when it ends", finding.subject())))
    }
}

/// Whether our own routes are the truth, but for what Hermes has changed since.
pub(super) fn is_ours(conn: &Connection) -> Result<bool, StoreFault> {
    let sql = "SELECT 1 FROM tl_route UNION ALL SELECT 1 FROM tl_meta WHERE key = 'boot'";
    Ok(conn.prepare_cached(sql)?.exists([])?)
}

/// Whose routes are changed.
#[derive(Clone, Copy)]
pub(super) enum Chats<'a> {
    All,
    Only(&'a str),
}

impl Chats<'_> {
    fn include(self, chat: &str) -> bool {
        match self {
            Chats::All => true,
            Chats::Only(one) => one == chat,
        }
    }
}

fn session_in(entry: &Map<String, Value>) -> Option<&str> {
    entry.get("session_id").and_then(Value::as_str)
}

fn led_to(entry: &Map<String, Value>, to: Option<&str>) -> EntryEdit {
    let Some(to) = to else { return EntryEdit::Gone };
    let mut entry = entry.clone();
    entry.insert("session_id".to_owned(), Value::from(to));
    EntryEdit::Changed(entry)
}
