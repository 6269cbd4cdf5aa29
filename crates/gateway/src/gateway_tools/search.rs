//! `session_search`: what was said before, in the caller's own conversations.
//!
//! Four shapes, told apart by what is given: words to look for, a place to read around, a session to
//! read, or nothing, which lists the latest. Callers see only what is theirs: the scope is made here,
//! from who calls, and the model has no say in it.

use super::{spec as of, text};
use crate::agent::Home;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use throughline_core::message::{Body, Content};
use throughline_core::port::{
    Anchor, Excerpt, Hit, Order, Read, Scope, SessionFilter, SessionSummary, StoreError,
};
use throughline_core::tool::{Call, Caller, Returned, Spec};
use throughline_core::{Message, RowId, SessionId, Time};

pub const NAME: &str = "session_search";

const LIMIT: u64 = 3;
const LIMIT_MAX: u64 = 10;
const WINDOW: u64 = 5;
const WINDOW_MAX: u64 = 20;
/// Rows at each end of a conversation that show how it began and how it ended.
const ENDS: usize = 3;
/// A session that is read as a whole shows this much of each end; the rest is scrolled to.
const HEAD: usize = 20;
const TAIL: usize = 10;
/// Scheduled jobs say the same every day, and would bury what people said.
const DEMOTED: [&str; 1] = ["cron"];

pub fn spec() -> Spec {
    let parameters = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words to look for. All must occur; OR, NOT, \"a phrase\" and prefix* work."},
            "limit": {"type": "integer", "description": "How many sessions at most: 1 to 10.", "default": LIMIT},
            "sort": {"type": "string", "enum": ["newest", "oldest"], "description": "By time instead of by relevance."},
            "session_id": {"type": "string", "description": "With around_message_id: read around that message. Alone: read that session."},
            "around_message_id": {"type": "integer", "description": "The message in the middle. To read on, give the last id you got; to read back, the first."},
            "window": {"type": "integer", "description": "Messages on each side: 1 to 20.", "default": WINDOW},
            "role_filter": {"type": "string", "description": "Roles to look in, separated by commas: user,assistant unless given; tool for what tools returned."},
            "profile": {"type": "string", "description": "Another profile's sessions. Not available here."}
        },
        "required": []
    });
    of(
        NAME,
        "session_search",
        "Look through earlier conversations, also what has been compressed since. With a query: the \
         sessions where it was said, each with the words around it, how it began and how it ended. With \
         session_id and around_message_id: the messages there. With session_id alone: that session. With \
         nothing: the latest sessions. It knows what was said, not how things are now: look at a file, a \
         page or a system itself where you can.",
        parameters,
    )
}

pub async fn run(home: &Arc<Home>, call: &Call, arguments: &Map<String, Value>) -> Returned {
    if text(arguments, "profile").is_some() {
        return failed("profile: sessions of other profiles cannot be read from here");
    }
    let asked = Asked::of(&call.caller, arguments);
    let answer = home.library.read(move |store| asked.answer(store)).await;
    match answer {
        Ok(Ok(found)) => Returned::text(found.to_string()),
        Ok(Err(message)) => failed(&message),
        Err(error) => failed(&format!("Search failed: {error}")),
    }
}

fn failed(message: &str) -> Returned {
    Returned::text(json!({"error": message, "success": false}).to_string())
}

/// One question, in one of its shapes.
struct Asked {
    scope: Scope,
    current: SessionId,
    shape: Shape,
}

enum Shape {
    Discover { query: String, roles: Vec<String>, limit: usize, order: Order },
    Scroll { session: String, row: u64, window: usize },
    Read { session: String },
    Browse { limit: usize },
}

type Answer = Result<Value, String>;

impl Asked {
    fn of(caller: &Caller, arguments: &Map<String, Value>) -> Self {
        let number = |name: &str| arguments.get(name).and_then(Value::as_u64);
        let bounded = |name: &str, usual: u64, max: u64| {
            usize::try_from(number(name).unwrap_or(usual).clamp(1, max)).unwrap_or(1)
        };
        // A link to a session may bring its profile along: `profile/id`.
        let session = text(arguments, "session_id").map(|id| id.rsplit('/').next().unwrap_or(id).to_owned());
        let limit = bounded("limit", LIMIT, LIMIT_MAX);
        let shape = match (session, number("around_message_id"), text(arguments, "query")) {
            (Some(session), Some(row), _) => {
                Shape::Scroll { session, row, window: bounded("window", WINDOW, WINDOW_MAX) }
            }
            (Some(session), None, _) => Shape::Read { session },
            (None, _, None) => Shape::Browse { limit },
            (None, _, Some(query)) => {
                let roles = text(arguments, "role_filter").unwrap_or("user,assistant").split(',');
                let order = match text(arguments, "sort") {
                    Some("newest") => Order::Newest,
                    Some("oldest") => Order::Oldest,
                    _ => Order::Best,
                };
                let roles = roles.map(|role| role.trim().to_owned()).filter(|role| !role.is_empty());
                Shape::Discover { query: query.to_owned(), roles: roles.collect(), limit, order }
            }
        };
        Self { scope: scope(caller), current: caller.session.clone(), shape }
    }

    fn answer(&self, store: &dyn Read) -> Result<Answer, StoreError> {
        match &self.shape {
            Shape::Discover { query, roles, limit, order } => {
                self.discover(store, query, roles, *limit, *order)
            }
            Shape::Scroll { session, row, window } => self.scroll(store, session, *row, *window),
            Shape::Read { session } => self.read(store, session),
            Shape::Browse { limit } => self.browse(store, *limit),
        }
    }

    fn filter(&self, limit: usize) -> SessionFilter {
        SessionFilter {
            scope: Some(self.scope.clone()),
            exclude: Some(self.current.clone()),
            without_helpers: true,
            limit,
            ..SessionFilter::default()
        }
    }

    fn discover(
        &self,
        store: &dyn Read,
        query: &str,
        roles: &[String],
        limit: usize,
        order: Order,
    ) -> Result<Answer, StoreError> {
        let filter = SessionFilter {
            roles: roles.to_vec(),
            order,
            demoted: DEMOTED.map(str::to_owned).to_vec(),
            one_each: true,
            ..self.filter(limit)
        };
        let mut results: Vec<Value> = Vec::new();
        let title =
            SessionFilter { title: Some(query.trim_matches(['`', '\'', '"']).to_owned()), ..self.filter(1) };
        for summary in store.sessions(&title)? {
            results.extend(self.titled(store, &summary)?);
        }
        for hit in store.search(query, &filter)? {
            let known = results.iter().any(|result| result["session_id"] == hit.session.as_str());
            if !known && results.len() < limit {
                results.extend(self.found(store, &hit)?);
            }
        }
        let mut found = json!({
            "success": true,
            "mode": "discover",
            "query": query,
            "results": results,
            "count": results.len(),
        });
        match results.is_empty() {
            true => found["message"] = "No matching sessions found.".into(),
            false => found["sessions_searched"] = results.len().into(),
        }
        Ok(Ok(found))
    }

    fn found(&self, store: &dyn Read, hit: &Hit) -> Result<Option<Value>, StoreError> {
        let Some(passage) = store.around(&self.anchor(&hit.session, hit.row, 5, ENDS))? else {
            return Ok(None);
        };
        let Some(summary) = store.session(&passage.root)? else { return Ok(None) };
        Ok(Some(result(&summary, &passage, hit.row, &hit.role, &hit.snippet)))
    }

    /// A session whose title was asked for, from its beginning.
    fn titled(&self, store: &dyn Read, summary: &SessionSummary) -> Result<Option<Value>, StoreError> {
        let history = store.history(&summary.id)?;
        let Some((row, _)) = history.first() else { return Ok(None) };
        let Some(passage) = store.around(&self.anchor(&summary.id, *row, 5, ENDS))? else { return Ok(None) };
        let title = summary.title.as_deref().unwrap_or_default();
        Ok(Some(result(summary, &passage, *row, "session_title", &format!("Session title matched: {title}"))))
    }

    fn anchor(&self, session: &SessionId, row: RowId, window: usize, ends: usize) -> Anchor {
        Anchor { session: session.clone(), row, window, ends, scope: Some(self.scope.clone()) }
    }

    /// The session by its name, if it is the caller's to see.
    fn known(&self, store: &dyn Read, name: &str) -> Result<Result<SessionSummary, String>, StoreError> {
        let not_found = || format!("session_id not found: {name}");
        let Ok(id) = name.parse::<SessionId>() else { return Ok(Err(not_found())) };
        let filter = SessionFilter {
            session: Some(id),
            scope: Some(self.scope.clone()),
            limit: 1,
            ..SessionFilter::default()
        };
        Ok(store.sessions(&filter)?.into_iter().next().ok_or_else(not_found))
    }

    fn scroll(&self, store: &dyn Read, session: &str, row: u64, window: usize) -> Result<Answer, StoreError> {
        let summary = match self.known(store, session)? {
            Ok(summary) => summary,
            Err(message) => return Ok(Err(message)),
        };
        let Some(passage) = store.around(&self.anchor(&summary.id, RowId(row), window, 0))? else {
            return Ok(Err(format!("around_message_id {row} not in session_id {session}")));
        };
        if passage.root == self.current || passage.session == self.current {
            return Ok(Err(
                "scroll rejected: anchor lives in the current session lineage (already in your active context)"
                    .into(),
            ));
        }
        let place = passage.rows.iter().position(|(id, _)| id.0 == row).unwrap_or(0);
        let after = passage.rows.len() - place - 1;
        Ok(Ok(json!({
            "success": true,
            "mode": "scroll",
            "session_id": passage.session.as_str(),
            "around_message_id": row,
            "session_meta": meta(&summary),
            "window": window,
            "messages": passage.rows.iter().map(|said| message(said, Some(row))).collect::<Vec<_>>(),
            "messages_before": place,
            "messages_after": after,
        })))
    }

    fn read(&self, store: &dyn Read, session: &str) -> Result<Answer, StoreError> {
        let summary = match self.known(store, session)? {
            Ok(summary) => summary,
            Err(message) => return Ok(Err(message)),
        };
        let history = store.history(&summary.id)?;
        let total = history.len();
        let is_cut = total > HEAD + TAIL;
        let shown: Vec<_> = match is_cut {
            true => history[..HEAD].iter().chain(&history[total - TAIL..]).collect(),
            false => history.iter().collect(),
        };
        let mut found = json!({
            "success": true,
            "mode": "read",
            "session_id": summary.id.as_str(),
            "session_meta": meta(&summary),
            "message_count": total,
            "truncated": is_cut,
            "messages": shown.into_iter().map(|said| message(said, None)).collect::<Vec<_>>(),
        });
        if is_cut {
            found["message"] = format!(
                "Session has {total} messages; showing first {HEAD} + last {TAIL}. Pass around_message_id (any id above) to scroll the middle."
            )
            .into();
        }
        Ok(Ok(found))
    }

    fn browse(&self, store: &dyn Read, limit: usize) -> Result<Answer, StoreError> {
        let sessions = store.sessions(&self.filter(limit))?;
        let results: Vec<_> = sessions
            .iter()
            .map(|session| {
                json!({
                    "session_id": session.id.as_str(),
                    "title": session.title,
                    "source": session.source,
                    "started_at": session.started.as_seconds(),
                    "last_active": session.last_active.as_seconds(),
                    "message_count": session.messages,
                    "preview": session.preview,
                })
            })
            .collect();
        let count = results.len();
        Ok(Ok(json!({
            "success": true,
            "mode": "browse",
            "results": results,
            "count": count,
            "message": format!("Showing {count} most recent sessions. Pass a query= to search, or session_id+around_message_id to scroll."),
        })))
    }
}

/// What the caller may see: the owner everything, a client what is its own, a person on a platform
/// their own, and in a group what was said in it.
pub(crate) fn scope(caller: &Caller) -> Scope {
    if caller.source == "cli" {
        return Scope::Owner;
    }
    match &caller.principal {
        Some(principal) => Scope::Principal(principal.clone()),
        None => Scope::Person {
            source: caller.source.clone(),
            user: caller.user.clone(),
            chat: caller.reply_to.as_ref().map(|place| place.chat.clone()),
        },
    }
}

fn result(summary: &SessionSummary, passage: &Excerpt, anchor: RowId, role: &str, snippet: &str) -> Value {
    let rows = |rows: &[(RowId, Message)], anchor: Option<u64>| -> Vec<Value> {
        rows.iter().map(|said| message(said, anchor)).collect()
    };
    let place = passage.rows.iter().position(|(id, _)| *id == anchor).unwrap_or(0);
    let mut result = json!({
        "session_id": passage.session.as_str(),
        "when": when(summary.started),
        "source": summary.source,
        "model": summary.model.as_deref().unwrap_or("unknown"),
        "title": summary.title,
        "matched_role": role,
        "match_message_id": anchor.0,
        "snippet": snippet,
        "bookend_start": rows(&passage.first, None),
        "messages": rows(&passage.rows, Some(anchor.0)),
        "bookend_end": rows(&passage.last, None),
        "messages_before": place,
        "messages_after": passage.rows.len().saturating_sub(place + 1),
    });
    if passage.root != passage.session {
        result["parent_session_id"] = passage.root.as_str().into();
    }
    result
}

fn meta(summary: &SessionSummary) -> Value {
    json!({
        "when": when(summary.started),
        "source": summary.source,
        "model": summary.model,
        "title": summary.title,
    })
}

fn message((id, said): &(RowId, Message), anchor: Option<u64>) -> Value {
    let content = match said.content() {
        Content::Nothing => Value::Null,
        Content::Opaque(json) => json.as_str().into(),
        content => content.plain().into(),
    };
    let mut entry = json!({
        "id": id.0,
        "role": said.role(),
        "content": content,
        "timestamp": said.at.as_seconds(),
    });
    match &said.body {
        Body::Result(result) => {
            if let Some(name) = &result.name {
                entry["tool_name"] = name.as_str().into();
            }
            entry["tool_call_id"] = result.call_id.as_str().into();
        }
        Body::Assistant(assistant) if !assistant.calls.is_empty() => {
            let calls = assistant.calls.iter().map(|call| {
                json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
            });
            entry["tool_calls"] = calls.collect();
        }
        _ => {}
    }
    if anchor == Some(id.0) {
        entry["anchor"] = true.into();
    }
    entry
}

/// `May 16, 2026 at 09:35 AM`, by the clock of this machine.
pub(crate) fn when(at: Time) -> String {
    match Timestamp::from_microsecond(at.0) {
        Ok(at) => at.to_zoned(TimeZone::system()).strftime("%B %d, %Y at %I:%M %p").to_string(),
        Err(_) => "unknown".into(),
    }
}
