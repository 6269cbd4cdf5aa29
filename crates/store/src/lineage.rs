//! Which sessions belong together, and whose they are.
//!
//! Hermes splits a conversation when it compresses, branches or delegates, and links the parts to
//! where they came from. A search shows one conversation. Whose it is decides the
//! session itself, never a part of its name.

use crate::fault::StoreFault;
use crate::read::{StoreReader, session_id};
use rusqlite::{Params, params};
use std::collections::HashSet;
use throughline_core::id::{SNAPSHOT_INFIX, SessionId};
use throughline_core::port::Scope;

/// Longer than any lineage that compression makes; a walk beyond it goes in circles.
const GENERATIONS_MAX: i64 = 1_000;

/// As a condition on `s`: it works for another session, or for a program.
pub(crate) const HELPER: &str =
    "(s.source IN ('tool', 'subagent') OR COALESCE(s.model_config, '') LIKE '%\"_delegate_from\"%')";

/// As a condition on `s`: no other conversation is reminded of it.
pub(crate) const UNFINDABLE: &str = "(COALESCE(s.model_config, '') LIKE '%\"_stateless\"%')";

/// The session that a name belongs to, even if it is a snapshot's.
pub(crate) fn owner(session: &str) -> &str {
    session.split_once(SNAPSHOT_INFIX).map_or(session, |(owner, _)| owner)
}

impl StoreReader {
    /// Where a conversation began.
    pub(crate) fn root_of(&self, session: &str) -> Result<SessionId, StoreFault> {
        let sql = "WITH RECURSIVE up(id, depth) AS (
                       SELECT ?1, 0
                       UNION SELECT s.parent_session_id, depth + 1 FROM up JOIN sessions s ON s.id = up.id
                       WHERE s.parent_session_id IS NOT NULL AND depth < ?2)
                   SELECT id FROM up ORDER BY depth DESC LIMIT 1";
        let mut statement = self.conn.prepare_cached(sql)?;
        let root: String = statement.query_row(params![session, GENERATIONS_MAX], |row| row.get(0))?;
        session_id(owner(&root))
    }

    /// Every session that shares its ancestors with this one, itself included.
    pub(crate) fn relatives(&self, session: &SessionId) -> Result<HashSet<String>, StoreFault> {
        let root = self.root_of(session.as_str())?;
        let sql = "WITH RECURSIVE down(id) AS (
                       SELECT ?1 UNION SELECT s.id FROM down JOIN sessions s ON s.parent_session_id = down.id)
                   SELECT id FROM down";
        self.set_of(sql, [root.as_str()])
    }

    /// The sessions a caller may see. None: all.
    pub(crate) fn visible(&self, scope: Option<&Scope>) -> Result<Option<HashSet<String>>, StoreFault> {
        match scope {
            None | Some(Scope::Owner) => Ok(None),
            Some(Scope::Principal(principal)) => self.of_principal(principal).map(Some),
            Some(Scope::Person { source, user, chat: None }) => {
                let sql = "SELECT id FROM sessions WHERE source = ?1 AND user_id = ?2";
                self.set_of(sql, params![source, user]).map(Some)
            }
            Some(Scope::Person { source, user, chat: Some(chat) }) => {
                self.of_chat(source, user.as_deref(), chat).map(Some)
            }
        }
    }

    pub(crate) fn of_principal(&self, principal: &str) -> Result<HashSet<String>, StoreFault> {
        self.set_of("SELECT id FROM tl_session WHERE principal = ?1", [principal])
    }

    /// What a chat shares has a key that ends in the chat, or its thread; where each member has a
    /// session of their own it ends in the member. A home without these columns knows only where its
    /// chats lead now.
    fn of_chat(&self, source: &str, user: Option<&str>, chat: &str) -> Result<HashSet<String>, StoreFault> {
        let can = &self.variants.can;
        let sql = match can.has_chat_id && can.has_session_key && can.has_thread_id {
            true => {
                "SELECT id FROM (SELECT id, user_id, session_key,
                             ':' || chat_id || COALESCE(':' || NULLIF(thread_id, ''), '') AS ending
                      FROM sessions WHERE source = ?1 AND chat_id = ?3)
                 WHERE user_id = ?2 OR substr(session_key, -length(ending)) = ending"
            }
            false => {
                "SELECT id FROM (SELECT s.id, s.user_id, r.chat,
                             ':' || json_extract(r.entry, '$.origin.chat_id')
                             || COALESCE(':' || NULLIF(json_extract(r.entry, '$.origin.thread_id'), ''), '') AS ending
                      FROM tl_route r JOIN sessions s ON s.id = r.session
                      WHERE s.source = ?1 AND json_extract(r.entry, '$.origin.chat_id') = ?3)
                 WHERE user_id = ?2 OR substr(chat, -length(ending)) = ending"
            }
        };
        self.set_of(sql, params![source, user, chat])
    }

    fn set_of(&self, sql: &str, values: impl Params) -> Result<HashSet<String>, StoreFault> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let ids = statement.query_map(values, |row| row.get(0))?;
        Ok(ids.collect::<rusqlite::Result<_>>()?)
    }
}
