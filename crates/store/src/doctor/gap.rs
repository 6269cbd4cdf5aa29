//! What files still hold of transcripts that were rewritten.
//!
//! Hermes 0.14 compresses a long transcript before a turn, outside of it, and replaces every row by what is left.
//! The files that it keeps beside the database may be older than that. A message that such a file tells and no row
//! of the conversation does is a gap. Only plain words of people and of the agent are compared: results of tools,
//! pictures and summaries are written in different forms in different places.

use super::collapse::SnapshotRecord;
use super::{Finding, FindingKind, Look, Mended, Remedy, Transcript, Watch, counted};
use crate::fault::StoreFault;
use crate::read::{session_id, text};
use crate::transcript::NextRow;
use crate::write::{CommitWriter, ForeignNews};
use rusqlite::{OptionalExtension, params};
use std::collections::HashMap;
use throughline_core::Message;
use throughline_core::compression::summary;
use throughline_core::message::{Body, Content};
use throughline_core::time::Time;

/// What a memory provider adds to a message on its way to the model; the row holds what was said.
const INJECTED: &str = "<memory-context>";

impl Look<'_> {
    pub(super) fn gaps(
        &self,
        transcripts: &mut dyn Iterator<Item = Transcript>,
        watch: Watch<'_>,
    ) -> Result<Vec<Finding>, StoreFault> {
        let total = transcripts.size_hint().1.unwrap_or(0) as u64;
        let mut found = Vec::new();
        for (nth, transcript) in (0..).zip(transcripts) {
            watch("comparing files", nth, total.max(nth + 1));
            let Some((owner, missing)) = self.missing(&transcript)? else { continue };
            if missing.is_empty() {
                continue;
            }
            found.push(Finding {
                kind: FindingKind::TranscriptGap,
                evidence: vec![format!(
                    "{} tells {} that no row of {owner} does",
                    transcript.file,
                    counted(missing.len(), "message")
                )],
                rows: Vec::new(),
                remedy: Remedy::Repair(format!(
                    "they become rows again, as a snapshot of {owner}: readable and findable, and not in its view"
                )),
                sessions: vec![owner, transcript.file],
            });
        }
        Ok(found)
    }

    /// The conversation that a file is about, and what it tells that is in no row of it. None: it is not ours to
    /// judge, because the user has deleted the session, or the database never had it.
    fn missing<'t>(
        &self,
        transcript: &'t Transcript,
    ) -> Result<Option<(String, Vec<&'t Message>)>, StoreFault> {
        let Some(owner) = self.owner_now(&transcript.session)? else { return Ok(None) };
        let said: Vec<(&Message, String)> =
            transcript.messages.iter().filter_map(|message| Some((message, words(message)?))).collect();
        if said.is_empty() {
            return Ok(None);
        }
        let mut known = self.told_by(&owner)?;
        let mut missing = Vec::new();
        for (message, words) in said {
            match known.get_mut(&words) {
                Some(count) if *count > 0 => *count -= 1,
                // Said more often in the file than in the rows: a copy, not a loss.
                Some(_) => {}
                None => missing.push(message),
            }
        }
        Ok(Some((owner, missing)))
    }

    fn owner_now(&self, session: &str) -> Result<Option<String>, StoreFault> {
        let conn = &self.reader.conn;
        if conn.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?.exists([session])? {
            return Ok(Some(session.to_owned()));
        }
        // A part of a conversation that was mended.
        let sql = "SELECT session FROM tl_event WHERE name = 'conversation_mended'
                   AND instr(' ' || detail || ' ', ' ' || ?1 || ' ') > 0 ORDER BY id DESC LIMIT 1";
        Ok(conn.prepare_cached(sql)?.query_row([session], |row| row.get(0)).optional()?)
    }

    /// How often each thing was said in the conversation, under whichever of its ids.
    fn told_by(&self, session: &str) -> Result<HashMap<String, usize>, StoreFault> {
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut related = match session_id(session) {
            Ok(id) => self.reader.relatives(&id)?,
            Err(_) => std::collections::HashSet::new(),
        };
        related.insert(session.to_owned());
        for id in related {
            let sql = "SELECT content FROM messages WHERE session_id = ?1 AND content IS NOT NULL";
            let mut statement = self.reader.conn.prepare_cached(sql)?;
            let mut rows = statement.query([id])?;
            while let Some(row) = rows.next()? {
                let said = crate::list::content_of(text(row, 0)?).plain();
                *known.entry(normal(&said)).or_default() += 1;
            }
        }
        Ok(known)
    }

    pub(super) fn close_gap(
        &self,
        finding: &Finding,
        transcript: Option<&Transcript>,
    ) -> Result<Mended, StoreFault> {
        let Some(transcript) = transcript else {
            return Ok(Mended::Left("the file is gone".to_owned()));
        };
        let Some((owner, missing)) = self.missing(transcript)? else { return Ok(Mended::Unneeded) };
        if missing.is_empty() {
            return Ok(Mended::Unneeded);
        }
        let conn = &self.reader.conn;
        let sql = "SELECT started_at FROM sessions WHERE id = ?1";
        let began: f64 = conn.prepare_cached(sql)?.query_row([&owner], |row| row.get(0))?;
        let mut next = NextRow::default();
        let mut rows = Vec::new();
        for message in &missing {
            let id = next.take(conn)?;
            let at = if message.at.0 > 0 { message.at } else { Time::from_seconds(began) };
            let mut ids = NextRow::default();
            let scribe =
                CommitWriter::new(conn, &self.reader.variants, self.home, &mut ids, ForeignNews::None);
            scribe.insert_row(id, &owner, &Message { at, ..(*message).clone() })?;
            conn.prepare_cached("DELETE FROM tl_unindexed WHERE id = ?1")?.execute([id])?; // the triggers did it
            rows.push(id);
        }
        let (name, view) = self.free_name(&owner, self.now, &mut Time(0))?;
        self.set_aside(&owner, &name, &rows, self.now.as_seconds())?;
        let remark = format!("Recovered from {}.", transcript.file);
        self.record_snapshot(&SnapshotRecord {
            name: &name,
            session: &owner,
            view,
            at: self.now,
            rows: &rows,
            summary: &rows,
            messages_after: 0,
            tokens: 0,
            remark: &remark,
        })?;
        self.recount(&owner)?;
        let sql = "UPDATE tl_session SET adopted = adopted + ?2, last_row = max(last_row, ?3) WHERE id = ?1";
        let last = rows.last().copied().unwrap_or(0);
        conn.prepare_cached(sql)?.execute(params![owner, rows.len() as i64, last])?;
        let _ = finding;
        Ok(Mended::Done(format!("{} of {owner} recovered as {name}", counted(rows.len(), "message"))))
    }
}

/// What people and the agent said in plain words.
fn words(message: &Message) -> Option<String> {
    let content = match &message.body {
        Body::User(content) => content,
        Body::Assistant(assistant) => &assistant.content,
        Body::System(_) | Body::Result(_) | Body::Other { .. } => return None,
    };
    let Content::Text(text) = content else { return None };
    let said = normal(text);
    (!said.is_empty() && !said.contains(INJECTED) && !summary::is_summary(message)).then_some(said)
}

/// Hermes trims and folds white space in places.
fn normal(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
