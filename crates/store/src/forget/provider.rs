//! What memory providers are to delete: a row for each, recorded with the forgetting.

use super::ForgetOrder;
use super::plan::ForgetPlan;
use crate::envelope;
use crate::fault::StoreFault;
use crate::read::{StoreReader, session_id};
use crate::retention::turn_key;
use rusqlite::{OptionalExtension, params};
use std::collections::BTreeMap;

impl StoreReader {
    /// Jobs for memory providers: each is to delete what it has of a session, or of some turns of it.
    pub(super) fn erase_outside(
        &self,
        plan: &ForgetPlan,
        order: &ForgetOrder<'_>,
    ) -> Result<u64, StoreFault> {
        let mut jobs: BTreeMap<(String, String), ProviderDeletion> = BTreeMap::new();
        for found in &plan.sessions {
            let id = found.session.as_str();
            for (provider, document, key) in self.kept_turns(id, None)? {
                let job =
                    jobs.entry((provider, id.to_owned())).or_insert_with(|| ProviderDeletion::of(document));
                job.turns.push(key);
            }
            if let Some(provider) = order.provider {
                let document = self.scope_of(&found.session, provider)?.document;
                let document = document.unwrap_or_else(|| id.to_owned());
                jobs.entry((provider.to_owned(), id.to_owned()))
                    .or_insert_with(|| ProviderDeletion::of(document));
            }
        }
        for ((provider, _), job) in &mut jobs {
            if !self.is_shared_document(provider, &job.document)? {
                job.turns.clear(); // all of it goes
            }
        }
        for shared in &plan.shared {
            let (Some(turn), session) = (shared.turn, &shared.session) else { continue };
            let mut kept = self.kept_turns(session, Some(turn))?;
            if let (true, Some(provider)) = (kept.is_empty(), order.provider) {
                // Of turns that were kept long ago no row is left; the provider knows them by the same key.
                kept.push((provider.to_owned(), session.clone(), turn_key(&self.conn, session, turn)?));
            }
            for (provider, document, key) in kept {
                let job =
                    jobs.entry((provider, session.clone())).or_insert_with(|| ProviderDeletion::of(document));
                if !job.turns.contains(&key) {
                    job.turns.push(key);
                }
            }
        }
        for ((provider, session), job) in &jobs {
            self.record_job(provider, session, job, order)?;
        }
        for shared in &plan.shared {
            let Some(turn) = shared.turn else { continue };
            let key = turn_key(&self.conn, &shared.session, turn)?;
            let sql = "DELETE FROM tl_retention WHERE key = ?1 AND erases = 0";
            self.conn.prepare_cached(sql)?.execute([key])?;
        }
        Ok(jobs.len() as u64)
    }

    /// Turns that a provider has or is to have, as provider, document and key.
    fn kept_turns(
        &self,
        session: &str,
        turn: Option<i64>,
    ) -> Result<Vec<(String, String, String)>, StoreFault> {
        let key = turn.map(|turn| turn_key(&self.conn, session, turn)).transpose()?;
        let sql = "SELECT provider, document, key FROM tl_retention
                   WHERE session = ?1 AND erases = 0 AND (?2 IS NULL OR key = ?2) ORDER BY number";
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows =
            statement.query_map(params![session, key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Whether a conversation that stays lies in it, too.
    fn is_shared_document(&self, provider: &str, document: &str) -> Result<bool, StoreFault> {
        let sql = "SELECT 1 FROM tl_document WHERE provider = ?1 AND name = ?2
                     AND subject NOT IN (SELECT key FROM temp.gone_chat)
                     AND subject NOT IN (SELECT 'session:' || id FROM temp.gone)
                   UNION ALL SELECT 1 FROM tl_retention WHERE provider = ?1 AND document = ?2 AND erases = 0
                     AND session NOT IN (SELECT id FROM temp.gone)";
        Ok(self.conn.prepare_cached(sql)?.exists([provider, document])?)
    }

    fn record_job(
        &self,
        provider: &str,
        session: &str,
        job: &ProviderDeletion,
        order: &ForgetOrder<'_>,
    ) -> Result<(), StoreFault> {
        let sql = "SELECT scope FROM tl_retention WHERE session = ?1 AND provider = ?2 AND erases = 0
                   ORDER BY number DESC LIMIT 1";
        let kept: Option<String> =
            self.conn.prepare_cached(sql)?.query_row([session, provider], |row| row.get(0)).optional()?;
        let mut scope = match kept.and_then(|kept| envelope::scope(&kept).ok()) {
            Some(scope) => scope,
            None => self.scope_of(&session_id(session)?, provider)?,
        };
        if scope.agent.is_empty() {
            scope.agent = order.agent.into();
        }
        // A provider finds it by ids; names and titles are not needed for that.
        (scope.title, scope.user_name, scope.place.name) = (None, None, None);
        let key = format!("{session}/erase/{provider}");
        self.conn.execute("DELETE FROM tl_retention WHERE key = ?1", [&key])?;
        let sql =
            "INSERT INTO tl_retention (key, provider, document, session, place, messages, state, created,
                                             updated, scope, said, replied, erases)
                   VALUES (?1, ?2, ?3, ?4, 0, 0, 1, ?5, ?5, ?6, ?7, '', 1)";
        let (scope, turns) = (envelope::scope_text(&scope), envelope::texts_text(&job.turns));
        self.conn.execute(sql, params![key, provider, job.document, session, order.now.0, scope, turns])?;
        Ok(())
    }
}

/// What a provider is to delete of a session.
struct ProviderDeletion {
    document: String,
    /// Empty: everything.
    turns: Vec<String>,
}

impl ProviderDeletion {
    fn of(document: String) -> Self {
        Self { document, turns: Vec::new() }
    }
}
