//! What the server holds, and what a request does to it.
//!
//! Everything is created when it is first named in a write; nothing recognises a repetition.

use super::filter;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub const MESSAGE_CHARS_MAX: usize = 25_000;
const BATCH_MAX: usize = 100;
const ID_LENGTH_MAX: usize = 512;
const METADATA_KEYS_MAX: usize = 100;
const METADATA_DEPTH_MAX: usize = 5;
const UPLOAD_BYTES_MAX: usize = 5 << 20;

#[derive(Default)]
pub struct HonchoState {
    pub workspaces: BTreeMap<String, Workspace>,
    /// What search, chat and conclusions need is away.
    pub models_down: bool,
    counter: u64,
}

#[derive(Default)]
pub struct Workspace {
    pub peers: BTreeMap<String, Value>,
    pub sessions: BTreeMap<String, Session>,
    pub conclusions: Vec<Value>,
    /// By observer and observed.
    pub cards: BTreeMap<(String, String), Vec<String>>,
    pub representations: BTreeMap<(String, String), String>,
    /// What a chat answers, by who is asked and about whom.
    pub answers: BTreeMap<(String, String), String>,
}

#[derive(Default)]
pub struct Session {
    pub metadata: Value,
    pub configuration: Value,
    /// Who takes part, and what they observe.
    pub peers: BTreeMap<String, Value>,
    pub messages: Vec<Value>,
    pub summary: Option<String>,
}

/// A request as the world sees it.
pub struct StateRequest<'a> {
    pub method: &'a str,
    /// Below the workspace.
    pub path: Vec<&'a str>,
    pub query: BTreeMap<String, String>,
    pub body: Value,
    pub file: Option<Uploaded>,
}

pub struct Uploaded {
    pub kind: String,
    pub bytes: Vec<u8>,
    pub fields: BTreeMap<String, String>,
}

pub type Answer = (u16, Value);

impl HonchoState {
    pub fn perform(&mut self, workspace: &str, asked: &StateRequest<'_>) -> Answer {
        match asked.path.first() {
            Some(&"sessions") => self.of_sessions(workspace, asked),
            Some(&"peers") => self.of_peers(workspace, asked),
            Some(&"conclusions") => self.of_conclusions(workspace, asked),
            _ => self.of_workspace(workspace, asked),
        }
    }

    fn of_sessions(&mut self, workspace: &str, asked: &StateRequest<'_>) -> Answer {
        let body = &asked.body;
        match (asked.method, asked.path.as_slice()) {
            ("POST", ["sessions"]) => self.named(workspace, body, |space, id| space.session(id, body)),
            ("PUT", ["sessions", session]) => {
                let found = self.space(workspace).sessions.entry((*session).to_owned()).or_default();
                found.metadata = body["metadata"].clone(); // replaced, not merged
                (200, described(session, found))
            }
            ("DELETE", ["sessions", session]) => match self.space(workspace).sessions.remove(*session) {
                Some(_) => (202, json!({"message": "Session deletion in progress"})),
                None => missing(),
            },
            ("POST", ["sessions", "list"]) => {
                let space = self.space(workspace);
                let sessions = space.sessions.iter().map(|(id, session)| described(id, session)).collect();
                page(sessions, &asked.query)
            }
            ("POST", ["sessions", session, "messages"]) => self.post(workspace, session, body),
            ("POST", ["sessions", session, "messages", "upload"]) => self.upload(workspace, session, asked),
            ("POST", ["sessions", session, "messages", "list"]) => {
                let filters = &body["filters"];
                if let Err(words) = filter::check(filters) {
                    return invalid(&words, filters);
                }
                let messages =
                    self.read(workspace, session).map(|session| session.messages.clone()).unwrap_or_default();
                page(
                    messages.into_iter().filter(|message| filter::matches(filters, message)).collect(),
                    &asked.query,
                )
            }
            ("GET" | "PUT", ["sessions", session, "messages", id]) => {
                let found = self.space(workspace).sessions.get_mut(*session);
                let found =
                    found.and_then(|found| found.messages.iter_mut().find(|message| message["id"] == **id));
                let Some(message) = found else { return missing() };
                if asked.method == "PUT" {
                    message["metadata"] = body["metadata"].clone();
                }
                (200, message.clone())
            }
            (_, ["sessions", _, "messages", _]) => (405, json!({"detail": "Method Not Allowed"})),
            ("GET", ["sessions", session, "context"]) => self.session_context(workspace, session, asked),
            ("GET", ["sessions", session, "summaries"]) => {
                let summary = self.read(workspace, session).and_then(|session| session.summary.clone());
                (200, json!({"id": session, "short_summary": summary.map(summarised), "long_summary": null}))
            }
            ("POST" | "PUT", ["sessions", session, "peers"]) => {
                let peers: Vec<(String, Value)> = body
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                let space = self.space(workspace);
                let found = space.sessions.entry((*session).to_owned()).or_default();
                for (peer, config) in peers {
                    space.peers.entry(peer.clone()).or_insert_with(|| json!({}));
                    found.peers.insert(peer, config);
                }
                (200, described(session, found))
            }
            ("GET", ["sessions", session, "peers"]) => {
                let peers = self
                    .read(workspace, session)
                    .map(|session| session.peers.keys().cloned().collect::<Vec<_>>());
                let items: Vec<Value> =
                    peers.unwrap_or_default().into_iter().map(|id| json!({"id": id})).collect();
                page(items, &asked.query)
            }
            ("DELETE", ["sessions", session, "peers"]) => {
                let gone: Vec<&str> =
                    body.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                if let Some(found) = self.space(workspace).sessions.get_mut(*session) {
                    found.peers.retain(|peer, _| !gone.contains(&peer.as_str()));
                }
                (200, Value::Null)
            }
            ("GET", ["sessions", session, "peers", peer, "config"]) => {
                let found =
                    self.read(workspace, session).and_then(|session| session.peers.get(*peer).cloned());
                (200, found.unwrap_or_else(|| json!({"observe_me": null, "observe_others": null})))
            }
            ("PUT", ["sessions", session, "peers", peer, "config"]) => {
                let found = self.space(workspace).sessions.entry((*session).to_owned()).or_default();
                found.peers.insert((*peer).to_owned(), body.clone());
                (200, body.clone())
            }
            ("POST", ["sessions", session, "search"]) => {
                self.search(workspace, body, |place, _, _| place == *session)
            }
            _ => missing(),
        }
    }

    fn of_peers(&mut self, workspace: &str, asked: &StateRequest<'_>) -> Answer {
        let query = |name: &str| asked.query.get(name).map(String::as_str);
        let body = &asked.body;
        match (asked.method, asked.path.as_slice()) {
            ("POST", ["peers"]) => self.named(workspace, body, |space, id| space.peer(id, body)),
            ("POST", ["peers", "list"]) => {
                let space = self.space(workspace);
                page(space.peers.keys().map(|id| json!({"id": id})).collect(), &asked.query)
            }
            ("POST", ["peers", peer, "sessions"]) => {
                let space = self.space(workspace);
                let taking_part =
                    space.sessions.iter().filter(|(_, session)| session.peers.contains_key(*peer));
                page(taking_part.map(|(id, session)| described(id, session)).collect(), &asked.query)
            }
            ("POST", ["peers", peer, "search"]) => {
                self.search(workspace, body, |_, _, message| message["peer_id"] == **peer)
            }
            ("POST", ["peers", peer, "chat"]) => {
                let length = body["query"].as_str().unwrap_or_default().chars().count();
                if !(1..=10_000).contains(&length) {
                    return invalid("String should have at most 10000 characters", &body["query"]);
                }
                if self.models_down {
                    return broken();
                }
                let target = body["target"].as_str().unwrap_or(peer).to_owned();
                let answer = self
                    .view(workspace)
                    .and_then(|space| space.answers.get(&((*peer).to_owned(), target)).cloned());
                (200, json!({"content": answer}))
            }
            ("POST", ["peers", peer, "representation"]) => {
                let target = body["target"].as_str().unwrap_or(peer);
                let is_searching = self.models_down && body.get("search_query").is_some();
                let text = self.representation(workspace, peer, target).filter(|_| !is_searching);
                (200, json!({"representation": text.unwrap_or_default()}))
            }
            ("GET", ["peers", peer, "context"]) => {
                let target = query("target").unwrap_or(peer);
                let text = self.representation(workspace, peer, target).unwrap_or_default();
                let card = self.card(workspace, peer, target);
                (
                    200,
                    json!({"peer_id": peer, "target_id": target, "representation": text, "peer_card": card}),
                )
            }
            ("GET", ["peers", peer, "card"]) => {
                (200, json!({"peer_card": self.card(workspace, peer, query("target").unwrap_or(peer))}))
            }
            ("PUT", ["peers", peer, "card"]) => {
                let target = query("target").unwrap_or(peer).to_owned();
                let items = body["peer_card"].as_array().into_iter().flatten();
                let card: Vec<String> = items.filter_map(Value::as_str).map(str::to_owned).collect();
                let space = self.space(workspace);
                for id in [*peer, target.as_str()] {
                    space.peers.entry(id.to_owned()).or_insert_with(|| json!({}));
                }
                space.cards.insert(((*peer).to_owned(), target), card.clone());
                (200, json!({"peer_card": card}))
            }
            _ => missing(),
        }
    }

    fn of_conclusions(&mut self, workspace: &str, asked: &StateRequest<'_>) -> Answer {
        let body = &asked.body;
        match (asked.method, asked.path.as_slice()) {
            ("POST", ["conclusions"]) => self.conclude(workspace, body),
            ("POST", ["conclusions", "list"]) => {
                if let Err(words) = filter::check(&body["filters"]) {
                    return invalid(&words, &body["filters"]);
                }
                let conclusions =
                    self.view(workspace).map(|space| space.conclusions.clone()).unwrap_or_default();
                page(
                    conclusions.into_iter().filter(|one| filter::matches(&body["filters"], one)).collect(),
                    &asked.query,
                )
            }
            ("POST", ["conclusions", "query"]) => {
                if self.models_down {
                    return broken();
                }
                let wanted = body["query"].as_str().unwrap_or_default().to_lowercase();
                let all = self.view(workspace).map(|space| space.conclusions.clone()).unwrap_or_default();
                let found = all
                    .into_iter()
                    .filter(|one| filter::matches(&body["filters"], one) && says(one, &wanted));
                (200, Value::Array(found.take(body["top_k"].as_u64().unwrap_or(10) as usize).collect()))
            }
            ("DELETE", ["conclusions", id]) => {
                let conclusions = &mut self.space(workspace).conclusions;
                match conclusions.iter().position(|one| one["id"] == **id) {
                    Some(at) => {
                        conclusions.remove(at);
                        (204, Value::Null)
                    }
                    None => missing(),
                }
            }
            _ => missing(),
        }
    }

    fn of_workspace(&mut self, workspace: &str, asked: &StateRequest<'_>) -> Answer {
        let body = &asked.body;
        match (asked.method, asked.path.as_slice()) {
            ("POST", ["search"]) => {
                let whose = body["filters"]["peer_perspective"].as_str().map(str::to_owned);
                self.search(workspace, body, |_, session, _| {
                    whose.as_ref().is_none_or(|whose| session.peers.contains_key(whose))
                })
            }
            ("GET", ["queue", "status"]) => (
                200,
                json!({"total_work_units": 0, "completed_work_units": 0, "in_progress_work_units": 0, "pending_work_units": 0}),
            ),
            _ => missing(),
        }
    }

    pub fn workspace(&mut self, body: &Value) -> Answer {
        match body["id"].as_str().filter(|id| is_id(id)) {
            Some(id) => {
                let status = if self.workspaces.contains_key(id) { 200 } else { 201 };
                self.space(id);
                (status, json!({"id": id, "metadata": {}, "configuration": {}, "created_at": now()}))
            }
            None => invalid("String should match pattern '^[a-zA-Z0-9_-]+$'", &body["id"]),
        }
    }

    pub fn delete(&mut self, workspace: &str) -> Answer {
        match self.workspaces.get(workspace).map(|space| space.sessions.is_empty()) {
            None => missing(),
            Some(false) => (409, json!({"detail": "Workspace has active sessions"})),
            Some(true) => {
                self.workspaces.remove(workspace);
                (202, json!({"message": "Workspace deletion in progress"}))
            }
        }
    }

    pub fn space(&mut self, workspace: &str) -> &mut Workspace {
        self.workspaces.entry(workspace.to_owned()).or_default()
    }

    fn view(&self, workspace: &str) -> Option<&Workspace> {
        self.workspaces.get(workspace)
    }

    fn read(&self, workspace: &str, session: &str) -> Option<&Session> {
        self.view(workspace)?.sessions.get(session)
    }

    fn named(
        &mut self,
        workspace: &str,
        body: &Value,
        act: impl FnOnce(&mut Workspace, &str) -> Answer,
    ) -> Answer {
        match body["id"].as_str().filter(|id| is_id(id)) {
            Some(id) => act(self.space(workspace), id),
            None => invalid("String should match pattern '^[a-zA-Z0-9_-]+$'", &body["id"]),
        }
    }

    fn post(&mut self, workspace: &str, session: &str, body: &Value) -> Answer {
        if !is_id(session) {
            return broken(); // not a complaint: the server has not thought of it
        }
        let Some(messages) = body["messages"].as_array() else { return invalid("Field required", body) };
        if !(1..=BATCH_MAX).contains(&messages.len()) {
            return invalid("List should have at least 1 and at most 100 items", body);
        }
        for message in messages {
            let Some(content) = message["content"].as_str() else {
                return invalid("Field required", message);
            };
            if content.chars().count() > MESSAGE_CHARS_MAX {
                return invalid("String should have at most 25000 characters", message);
            }
            if !message["peer_id"].as_str().is_some_and(is_id) {
                return invalid("String should match pattern '^[a-zA-Z0-9_-]+$'", message);
            }
            if let Some(metadata) = message["metadata"].as_object()
                && (metadata.len() > METADATA_KEYS_MAX || depth(&message["metadata"]) > METADATA_DEPTH_MAX)
            {
                return invalid("Metadata is too large", message);
            }
        }
        let kept = messages.iter().map(|message| self.keep(workspace, session, message)).collect();
        (201, Value::Array(kept))
    }

    fn keep(&mut self, workspace: &str, session: &str, message: &Value) -> Value {
        self.counter += 1;
        let id = format!("msg{:08}", self.counter);
        let content = message["content"].as_str().unwrap_or_default().replace('\0', "");
        let peer = message["peer_id"].as_str().unwrap_or_default().to_owned();
        let metadata = if message["metadata"].is_object() { message["metadata"].clone() } else { json!({}) };
        let created = message["created_at"].as_str().map_or_else(now, str::to_owned);
        let kept = json!({
            "id": id, "content": content, "peer_id": peer, "session_id": session, "workspace_id": workspace,
            "metadata": metadata, "created_at": created, "token_count": content.len() / 4,
        });
        let space = self.space(workspace);
        space.peers.entry(peer.clone()).or_insert_with(|| json!({}));
        let found = space.sessions.entry(session.to_owned()).or_default();
        found.peers.entry(peer).or_insert_with(|| json!({}));
        found.messages.push(kept.clone());
        kept
    }

    fn upload(&mut self, workspace: &str, session: &str, asked: &StateRequest<'_>) -> Answer {
        let Some(file) = &asked.file else { return invalid("Field required", &Value::Null) };
        if file.bytes.len() > UPLOAD_BYTES_MAX {
            return (413, json!({"detail": "File too large"}));
        }
        if !(file.kind.starts_with("text/")
            || file.kind == "application/json"
            || file.kind == "application/pdf")
        {
            return (415, json!({"detail": "Unsupported file type"}));
        }
        let metadata = file.fields.get("metadata").and_then(|text| serde_json::from_str::<Value>(text).ok());
        let peer = file.fields.get("peer_id").cloned().unwrap_or_default();
        if !is_id(&peer) {
            return invalid("Field required", &Value::Null);
        }
        let text: Vec<char> = String::from_utf8_lossy(&file.bytes).chars().collect();
        let pieces: Vec<String> = match text.is_empty() {
            true => vec![String::new()],
            false => text.chunks(MESSAGE_CHARS_MAX).map(|piece| piece.iter().collect()).collect(),
        };
        let kept = pieces.into_iter().map(|content| {
            let message = json!({"content": content, "peer_id": peer, "metadata": metadata});
            self.keep(workspace, session, &message)
        });
        let kept: Vec<Value> = kept.collect();
        (201, Value::Array(kept))
    }

    fn session_context(&self, workspace: &str, session: &str, asked: &StateRequest<'_>) -> Answer {
        let query = |name: &str| asked.query.get(name).map(String::as_str);
        if query("tokens").is_some_and(|tokens| tokens.parse().map_or(true, |tokens: u64| tokens > 100_000)) {
            return invalid("Input should be less than or equal to 100000", &Value::Null);
        }
        let found = self.read(workspace, session);
        let target = query("peer_target");
        let observer = query("peer_perspective").or(target);
        let pair = observer.zip(target);
        let text = pair.and_then(|(observer, target)| self.representation(workspace, observer, target));
        let card = pair.and_then(|(observer, target)| self.card(workspace, observer, target));
        (
            200,
            json!({
                "id": session,
                "messages": found.map(|found| found.messages.clone()).unwrap_or_default(),
                "summary": found.and_then(|found| found.summary.clone()).map(summarised),
                "peer_representation": text, "peer_card": card,
            }),
        )
    }

    fn representation(&self, workspace: &str, observer: &str, observed: &str) -> Option<String> {
        self.view(workspace)?.representations.get(&(observer.to_owned(), observed.to_owned())).cloned()
    }

    fn card(&self, workspace: &str, observer: &str, observed: &str) -> Option<Vec<String>> {
        self.view(workspace)?.cards.get(&(observer.to_owned(), observed.to_owned())).cloned()
    }

    fn search(
        &self,
        workspace: &str,
        body: &Value,
        is_in: impl Fn(&str, &Session, &Value) -> bool,
    ) -> Answer {
        if self.models_down {
            return broken();
        }
        if let Err(words) = filter::check(&body["filters"]) {
            return invalid(&words, body);
        }
        let wanted = body["query"].as_str().unwrap_or_default().to_lowercase();
        let limit = body["limit"].as_u64().unwrap_or(10) as usize;
        if !(1..=100).contains(&limit) {
            return invalid("Input should be less than or equal to 100", &body["limit"]);
        }
        let mut found = Vec::new();
        for (place, session) in self.view(workspace).map(|space| &space.sessions).into_iter().flatten() {
            let fitting = session
                .messages
                .iter()
                .filter(|message| is_in(place, session, message) && says(message, &wanted));
            found.extend(fitting.cloned());
        }
        found.truncate(limit);
        (200, Value::Array(found))
    }

    fn conclude(&mut self, workspace: &str, body: &Value) -> Answer {
        let Some(conclusions) = body["conclusions"].as_array() else {
            return invalid("Field required", body);
        };
        if !(1..=BATCH_MAX).contains(&conclusions.len()) {
            return invalid("List should have at most 100 items", body);
        }
        let is_fine = |one: &Value| {
            let length = one["content"].as_str().unwrap_or_default().chars().count();
            (1..=65_535).contains(&length)
                && ["observer_id", "observed_id"].iter().all(|key| one[*key].as_str().is_some_and(is_id))
        };
        if let Some(wrong) = conclusions.iter().find(|one| !is_fine(one)) {
            return invalid("Value error", wrong);
        }
        if self.models_down {
            return broken();
        }
        let mut kept = Vec::new();
        for one in conclusions {
            self.counter += 1;
            let mut conclusion = Map::new();
            conclusion.insert("id".into(), format!("con{:08}", self.counter).into());
            for key in ["content", "observer_id", "observed_id", "session_id"] {
                conclusion.insert(key.into(), one[key].clone());
            }
            conclusion.insert("level".into(), "explicit".into());
            conclusion.insert("created_at".into(), now().into());
            let space = self.space(workspace);
            for key in ["observer_id", "observed_id"] {
                space
                    .peers
                    .entry(one[key].as_str().unwrap_or_default().to_owned())
                    .or_insert_with(|| json!({}));
            }
            if let Some(session) = one["session_id"].as_str() {
                space.sessions.entry(session.to_owned()).or_default();
            }
            space.conclusions.push(Value::Object(conclusion.clone()));
            kept.push(Value::Object(conclusion));
        }
        (201, Value::Array(kept))
    }
}

impl Workspace {
    fn peer(&mut self, id: &str, body: &Value) -> Answer {
        let status = if self.peers.contains_key(id) { 200 } else { 201 };
        let peer = self.peers.entry(id.to_owned()).or_insert_with(|| json!({}));
        if body["metadata"].is_object() {
            *peer = body["metadata"].clone();
        }
        (status, json!({"id": id, "metadata": peer, "configuration": {}, "created_at": now()}))
    }

    fn session(&mut self, id: &str, body: &Value) -> Answer {
        let status = if self.sessions.contains_key(id) { 200 } else { 201 };
        let peers: Vec<(String, Value)> = body["peers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(peer, config)| (peer.clone(), config.clone()))
            .collect();
        let wrong = peers.iter().find(|(peer, _)| !is_id(peer));
        if let Some((peer, _)) = wrong {
            return invalid("String should match pattern", &json!(peer));
        }
        let session = self.sessions.entry(id.to_owned()).or_default();
        if body["metadata"].is_object() {
            session.metadata = body["metadata"].clone();
        }
        for (peer, config) in peers {
            self.peers.entry(peer.clone()).or_insert_with(|| json!({}));
            session.peers.insert(peer, config);
        }
        (status, described(id, session))
    }
}

pub fn is_id(text: &str) -> bool {
    (1..=ID_LENGTH_MAX).contains(&text.len())
        && text.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '_' | '-'))
}

/// A complaint. It repeats everything that was sent.
pub fn invalid(words: &str, input: &Value) -> Answer {
    (422, json!({"detail": [{"type": "value_error", "loc": ["body"], "msg": words, "input": input}]}))
}

pub fn broken() -> Answer {
    (500, json!({"detail": "An unexpected error occurred"}))
}

fn missing() -> Answer {
    (404, json!({"detail": "Not Found"}))
}

fn says(item: &Value, wanted: &str) -> bool {
    let content = item["content"].as_str().unwrap_or_default().to_lowercase();
    wanted.split_whitespace().any(|word| content.contains(word))
}

fn described(id: &str, session: &Session) -> Value {
    json!({
        "id": id, "is_active": true, "metadata": session.metadata, "configuration": session.configuration, "created_at": now(),
    })
}

fn summarised(content: String) -> Value {
    json!({"content": content, "message_id": "msg00000001", "summary_type": "short", "created_at": now(), "token_count": 1})
}

fn page(mut items: Vec<Value>, query: &BTreeMap<String, String>) -> Answer {
    let number = |name: &str, default: usize| query.get(name).map_or(Some(default), |text| text.parse().ok());
    let (Some(page), Some(size)) = (number("page", 1), number("size", 50)) else {
        return invalid("Input should be a valid integer", &Value::Null);
    };
    if page == 0 || !(1..=100).contains(&size) {
        return invalid("Input should be less than or equal to 100", &Value::Null);
    }
    if query.get("reverse").is_some_and(|reverse| reverse == "true") {
        items.reverse();
    }
    let total = items.len();
    let shown: Vec<Value> = items.into_iter().skip((page - 1) * size).take(size).collect();
    (200, json!({"items": shown, "total": total, "page": page, "size": size, "pages": total.div_ceil(size)}))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// No code here looks at the clock.
fn now() -> String {
    "2026-01-01T00:00:00Z".to_owned()
}
