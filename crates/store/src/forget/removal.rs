//! What is deleted, unlinked or blanked within the transaction, beside whole sessions.

use super::REMOVED;
use super::plan::{ForgetPlan, SharedMessage};
use super::subject::ForgetSubject;
use crate::commit::run;
use crate::fault::StoreFault;
use crate::read::StoreReader;
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use throughline_core::time::Time;

/// What goes by the name of a chat rather than by that of a session.
pub(super) fn delete_by_chat(reader: &StoreReader, plan: &ForgetPlan) -> Result<(), StoreFault> {
    let conn = &reader.conn;
    let mut statements = vec![
        "DELETE FROM tl_route WHERE chat IN (SELECT key FROM temp.gone_chat)",
        "DELETE FROM tl_reset WHERE chat IN (SELECT key FROM temp.gone_chat)",
        "DELETE FROM tl_event WHERE detail IN (SELECT key FROM temp.gone_chat)",
        "DELETE FROM tl_document WHERE subject IN (SELECT key FROM temp.gone_chat)
            OR subject IN (SELECT 'session:' || id FROM temp.gone)",
    ];
    if conn.table_exists(None, "gateway_routing")? {
        statements.push("DELETE FROM gateway_routing WHERE session_key IN (SELECT key FROM temp.gone_chat)");
    }
    if conn.table_exists(None, "async_delegations")? {
        statements.push(
            "DELETE FROM async_delegations WHERE origin_session IN (SELECT key FROM temp.gone_chat)
                OR origin_session IN (SELECT id FROM temp.gone)",
        );
    }
    for sql in statements {
        run(conn, sql)?;
    }
    let sql = "DELETE FROM tl_outbox WHERE json_extract(destination, '$.platform') = ?1
                 AND json_extract(destination, '$.chat') = ?2";
    for (platform, chat) in &plan.places {
        conn.execute(sql, [platform, chat])?;
    }
    Ok(())
}

/// Hermes' topics in private chats of Telegram.
pub(super) fn delete_topics(conn: &Connection, plan: &ForgetPlan) -> Result<(), StoreFault> {
    for table in ["telegram_dm_topic_bindings", "telegram_dm_topic_mode"] {
        if !conn.table_exists(None, table)? {
            continue;
        }
        if let ForgetSubject::Person { platform, user } = &plan.subject
            && platform == "telegram"
        {
            conn.execute(&format!("DELETE FROM {table} WHERE user_id = ?1"), [user])?;
        }
        for (_, chat) in plan.places.iter().filter(|(platform, _)| platform == "telegram") {
            conn.execute(&format!("DELETE FROM {table} WHERE chat_id = ?1"), [chat])?;
        }
    }
    Ok(())
}

/// What stays no longer refers to what goes; and a shared conversation that the person began has no owner.
pub(super) fn unlink(reader: &StoreReader, plan: &ForgetPlan) -> Result<(), StoreFault> {
    let conn = &reader.conn;
    for sql in [
        // As Hermes does it: a session that came from it comes from nowhere now.
        "UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id IN (SELECT id FROM temp.gone)",
        "UPDATE tl_session SET parent = NULL WHERE parent IN (SELECT id FROM temp.gone)",
        "UPDATE tl_session SET predecessor = NULL WHERE predecessor IN (SELECT id FROM temp.gone)",
        "UPDATE tl_finalisation SET successor = NULL WHERE successor IN (SELECT id FROM temp.gone)",
    ] {
        run(conn, sql)?;
    }
    let ForgetSubject::Person { platform, user } = &plan.subject else { return Ok(()) };
    let stays = "id NOT IN (SELECT id FROM temp.gone)";
    if reader.variants.can.has_origin_json {
        let sql = format!(
            "UPDATE sessions SET origin_json = json_set(origin_json, '$.user_id', NULL, '$.user_name', NULL)
             WHERE source = ?1 AND json_valid(origin_json) AND json_extract(origin_json, '$.user_id') = ?2 AND {stays}"
        );
        conn.execute(&sql, [platform, user])?;
    }
    conn.execute(
        &format!("UPDATE sessions SET user_id = NULL WHERE source = ?1 AND user_id = ?2 AND {stays}"),
        [platform, user],
    )?;
    let mut entries = vec![("tl_route", "entry")];
    if reader.variants.can.has_gateway_routing {
        entries.push(("gateway_routing", "entry_json"));
    }
    for (table, column) in entries {
        let sql = format!(
            "UPDATE {table} SET {column} = json_set({column}, '$.origin.user_id', NULL, '$.origin.user_name', NULL)
             WHERE json_valid({column}) AND json_extract({column}, '$.origin.user_id') = ?2
               AND json_extract({column}, '$.platform') = ?1"
        );
        conn.execute(&sql, [platform, user])?;
    }
    Ok(())
}

/// What was made of the person's words in conversations that go on, and can be made again from what is left:
///
/// - a summary that is ready, but not in place, is prepared again. One in preparation is begun anew at the next start
///   in any case, and reads the rows as they are then. So does a review that is due
/// - a topic of `/compress` and a title go if the person gave them. A title that no recorded `/title` gave is Hermes',
///   made of the first message: it goes if that was this person's
/// - what a review changed is told in no record any more, if the person had spoken before it
pub(super) fn drop_derived(conn: &Connection, plan: &ForgetPlan, now: Time) -> Result<(), StoreFault> {
    let ForgetSubject::Person { platform, user } = &plan.subject else { return Ok(()) };
    let sessions: BTreeSet<&str> = plan.shared.iter().map(|shared| shared.session.as_str()).collect();
    let theirs = "i.session = ?1 AND json_extract(i.envelope, '$.sender[0]') = ?2";
    // A title is stored without the spaces around it.
    let gave_the_title = "json_extract(i.envelope, '$.command.errand') = 'title'
                          AND instr(json_extract(i.envelope, '$.command.text'), title) > 0";
    for session in sessions {
        let first = "SELECT min(message), min(turn) FROM tl_inbox i WHERE ";
        let (row, turn): (Option<i64>, Option<i64>) = conn
            .prepare_cached(&format!("{first}{theirs}"))?
            .query_row(params![session, user], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let sql = "UPDATE tl_compression SET state = 0, attempts = 0, at = ?3, summary = NULL
                   WHERE session = ?1 AND state = 1 AND cut >= ?2";
        if conn.prepare_cached(sql)?.execute(params![session, row, now.0])? > 0 {
            conn.prepare_cached("UPDATE tl_session SET unfinished = 1 WHERE id = ?1")?.execute([session])?;
        }
        let sql = format!(
            "UPDATE tl_compression SET focus = NULL WHERE session = ?1 AND focus IN
                 (SELECT json_extract(i.envelope, '$.command.compress') FROM tl_inbox i WHERE {theirs})"
        );
        conn.prepare_cached(&sql)?.execute(params![session, user])?;
        let sql = "UPDATE tl_review SET outcome = NULL WHERE session = ?1 AND state = 1 AND turn >= ?2";
        conn.prepare_cached(sql)?.execute(params![session, turn])?;
        let sql = format!(
            "UPDATE sessions SET title = NULL WHERE id = ?1 AND title IS NOT NULL
               AND (EXISTS (SELECT 1 FROM tl_inbox i WHERE {theirs} AND {gave_the_title})
                    OR (source = ?3 AND user_id = ?2
                        AND NOT EXISTS (SELECT 1 FROM tl_inbox i WHERE i.session = ?1 AND {gave_the_title})))"
        );
        conn.prepare_cached(&sql)?.execute(params![session, user, platform])?;
    }
    Ok(())
}

/// What the person wrote in conversations that go on, and what followed from that alone.
pub(super) fn blank(reader: &StoreReader, plan: &ForgetPlan) -> Result<(), StoreFault> {
    let conn = &reader.conn;
    for shared in &plan.shared {
        let SharedMessage { session, seq, turn, is_alone } = shared;
        let sql = "SELECT message, envelope FROM tl_inbox WHERE session = ?1 AND seq = ?2";
        let (message, envelope): (Option<i64>, String) = conn
            .prepare_cached(sql)?
            .query_row(params![session, seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let sql = "UPDATE tl_inbox SET envelope = ?3, implicit = NULL WHERE session = ?1 AND seq = ?2";
        conn.prepare_cached(sql)?.execute(params![session, seq, blank_envelope(&envelope)?])?;
        if let Some(message) = message {
            blank_rows(reader, session, message, message)?;
        }
        let Some(turn) = turn.filter(|_| *is_alone) else { continue };
        let sql =
            "SELECT message, calls FROM tl_step WHERE session = ?1 AND turn = ?2 AND message IS NOT NULL";
        let mut statement = conn.prepare_cached(sql)?;
        let steps = statement
            .query_map(params![session, turn], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        for (first, calls) in steps.collect::<rusqlite::Result<Vec<_>>>()? {
            blank_rows(reader, session, first, first.saturating_add(calls.saturating_mul(2)))?;
        }
        let sql = "UPDATE tl_outbox SET text = ?3, error = NULL WHERE session = ?1
                     AND (key = ?1 || '/' || ?2 OR key GLOB ?1 || '/' || ?2 || '[/+]*')";
        conn.prepare_cached(sql)?.execute(params![session, turn, REMOVED])?;
    }
    Ok(())
}

/// The rows from `first` to `last`, wherever they are by now: a summary may have taken the place of one.
fn blank_rows(reader: &StoreReader, session: &str, first: i64, last: i64) -> Result<(), StoreFault> {
    let conn = &reader.conn;
    let sql = "SELECT m.id, m.content, m.tool_calls FROM messages m
               LEFT JOIN tl_place p ON p.id = m.id AND p.session = ?1
               WHERE COALESCE(p.place, m.id) BETWEEN ?2 AND ?3
                 AND (m.session_id = ?1 OR m.session_id IN (SELECT name FROM tl_snapshot WHERE session = ?1))
                 AND (p.id IS NOT NULL OR m.id NOT IN (SELECT place FROM tl_place WHERE session = ?1))";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(params![session, first, last], |row| {
        let has_content = row.get_ref(1)?.as_bytes_or_null()?.is_some_and(|content| !content.is_empty());
        Ok((row.get::<_, i64>(0)?, has_content, row.get::<_, Option<String>>(2)?))
    })?;
    for (row, has_content, calls) in rows.collect::<rusqlite::Result<Vec<_>>>()? {
        let sent = if reader.variants.can.has_api_content { ", api_content = NULL" } else { "" };
        let sql = format!(
            "UPDATE messages SET content = CASE WHEN ?2 THEN ?3 ELSE content END, tool_calls = ?4, reasoning = NULL,
                    reasoning_content = NULL, reasoning_details = NULL, codex_reasoning_items = NULL,
                    codex_message_items = NULL{sent} WHERE id = ?1"
        );
        conn.prepare_cached(&sql)?.execute(params![
            row,
            has_content,
            REMOVED,
            calls.map(|calls| blank_calls(&calls))
        ])?;
    }
    Ok(())
}

/// The same calls, of nothing.
fn blank_calls(calls: &str) -> String {
    let Ok(Value::Array(mut calls)) = serde_json::from_str(calls) else { return "[]".to_owned() };
    for call in &mut calls {
        let id = call["id"].take();
        let name = call["function"]["name"].take();
        let kind = call["type"].take();
        *call = json!({"id": id, "type": kind, "function": {"name": name, "arguments": "{}"}});
    }
    Value::Array(calls).to_string()
}

/// The same message, without words and without its sender.
fn blank_envelope(envelope: &str) -> Result<String, StoreFault> {
    let unreadable = || StoreFault::Malformed("an input cannot be read".to_owned());
    let mut value: Value = serde_json::from_str(envelope).map_err(|_| unreadable())?;
    let object = value.as_object_mut().ok_or_else(unreadable)?;
    object.remove("sender");
    for (kind, blank) in
        [("chat", json!(REMOVED)), ("request", json!({"content": REMOVED})), ("command", json!("status"))]
    {
        if let Some(said) = object.get_mut(kind) {
            *said = blank;
        }
    }
    Ok(value.to_string())
}
