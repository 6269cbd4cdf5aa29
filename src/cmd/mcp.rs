//! `throughline mcp serve`: the conversations of this home for any program that speaks the Model
//! Context Protocol on its standard streams. It is a client of the running gateway, as the terminal is.

use crate::client::{Client, ClientError, Event, Line};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::{SessionId, Time};
use throughline_mcp::serve::{
    self, Answer, Conversation, Decision, Found, OpenQuestion, Reply, Said, Speaker, Surface, SurfaceError,
};
use tokio::time::timeout;

/// As many conversations as a program looks through.
const CONVERSATIONS_MAX: usize = 200;

#[derive(Debug, clap::Subcommand)]
pub enum Mcp {
    /// Offer sessions, search and sending as a server on standard input and output
    Serve,
}

impl Mcp {
    pub async fn run(self, client: Client) -> anyhow::Result<ExitCode> {
        let Mcp::Serve = self;
        serve::serve(Arc::new(Gateway(client))).await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The running gateway, as the server sees it.
struct Gateway(Client);

impl Gateway {
    async fn list(&self) -> Result<Vec<Conversation>, SurfaceError> {
        let list = self.0.session_list(CONVERSATIONS_MAX).await.map_err(because)?;
        let open = list.iter().filter(|session| session["end_reason"].is_null());
        Ok(open.map(conversation).collect())
    }

    /// A conversation is named by the key of its chat, or by its session.
    async fn session(&self, key: &str) -> Result<SessionId, SurfaceError> {
        let known = self.list().await?;
        let found = known.iter().find(|one| one.session_key == key || one.session_id == key);
        let id = found.map_or(key, |one| one.session_id.as_str());
        let unknown = || SurfaceError::NotFound(format!("Conversation not found: {key}"));
        let id: SessionId = id.parse().map_err(|_| unknown())?;
        match self.0.session(&id).await.map_err(because)? {
            Some(_) => Ok(id),
            None => Err(unknown()),
        }
    }

    async fn follow(&self, line: &Line, session: &mut Option<SessionId>) -> Result<String, SurfaceError> {
        let mut saying = self.0.say(line).await.map_err(because)?;
        loop {
            match saying.next().await.map_err(because)? {
                Event::Accepted { session: taken } => *session = Some(taken),
                Event::Answer { text, .. } => return Ok(text),
                Event::Done { said, .. } => return Ok(said),
                Event::Failed { message } => return Err(SurfaceError::Refused(message)),
                Event::Interrupted { message } => return Err(SurfaceError::Unavailable(message)),
                _ => {}
            }
        }
    }
}

impl Surface for Gateway {
    fn conversations(&self) -> Answer<'_, Vec<Conversation>> {
        Box::pin(self.list())
    }

    fn said<'a>(&'a self, session_key: &'a str) -> Answer<'a, Vec<Said>> {
        Box::pin(async move {
            let session = self.session(session_key).await?;
            let messages = self.0.messages(&session).await.map_err(because)?;
            Ok(messages.iter().filter_map(said).collect())
        })
    }

    fn search<'a>(&'a self, query: &'a str, limit: usize) -> Answer<'a, Vec<Found>> {
        Box::pin(async move {
            let hits = self.0.search(query, limit).await.map_err(because)?;
            Ok(hits.iter().map(found).collect())
        })
    }

    fn say<'a>(
        &'a self,
        session_key: Option<&'a str>,
        text: &'a str,
        once: Option<&'a str>,
        patience: Duration,
    ) -> Answer<'a, Reply> {
        Box::pin(async move {
            let mut session = match session_key {
                Some(key) => Some(self.session(key).await?),
                None => None,
            };
            let key = once.map_or_else(Line::unique, |once| format!("mcp-{once}"));
            let line = Line { text: text.to_owned(), session: session.clone(), key, can_answer: true };
            let answered = timeout(patience, self.follow(&line, &mut session)).await;
            let id = session.map(|session| session.to_string()).unwrap_or_default();
            let session_key = session_key.map_or_else(|| id.clone(), str::to_owned);
            match answered {
                Ok(text) => Ok(Reply::Answered { session_key, session_id: id, text: text? }),
                Err(_) if !id.is_empty() => Ok(Reply::Working { session_key, session_id: id }),
                Err(_) => Err(SurfaceError::Unavailable(
                    "the gateway has not said whether it took the message; give it a name and send it again"
                        .into(),
                )),
            }
        })
    }

    fn questions(&self) -> Answer<'_, Vec<OpenQuestion>> {
        Box::pin(async move {
            let asks = self.0.asks().await.map_err(because)?;
            Ok(asks.iter().map(question).collect())
        })
    }

    fn decide<'a>(&'a self, question: &'a str, decision: Decision) -> Answer<'a, ()> {
        let body = match decision {
            Decision::AllowOnce => json!({"decision": "approve", "scope": "once"}),
            Decision::AllowAlways => json!({"decision": "approve", "scope": "always"}),
            Decision::Deny => json!({"decision": "deny"}),
        };
        Box::pin(async move { self.0.decide(question, &body).await.map_err(because) })
    }
}

fn because(error: ClientError) -> SurfaceError {
    match error {
        ClientError::Refused { code, message } if code.ends_with("not_found") => {
            SurfaceError::NotFound(message)
        }
        ClientError::Refused { message, .. } => SurfaceError::Refused(message),
        error => SurfaceError::Unavailable(error.to_string()),
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn time(value: &Value, name: &str) -> Time {
    Time::from_seconds(value[name].as_f64().unwrap_or(0.0))
}

fn conversation(session: &Value) -> Conversation {
    let id = text(session, "id");
    let chat = text(session, "chat");
    Conversation {
        session_key: if chat.is_empty() { id.clone() } else { chat },
        session_id: id,
        platform: text(session, "source"),
        display_name: session["title"].as_str().map_or_else(|| text(session, "preview"), str::to_owned),
        created_at: time(session, "started_at"),
        updated_at: time(session, "last_active"),
        input_tokens: session["input_tokens"].as_u64().unwrap_or(0),
        output_tokens: session["output_tokens"].as_u64().unwrap_or(0),
        ..Conversation::default()
    }
}

fn speaker(role: &str) -> Option<Speaker> {
    match role {
        "user" => Some(Speaker::User),
        "assistant" => Some(Speaker::Assistant),
        _ => None,
    }
}

fn said(message: &Value) -> Option<Said> {
    let words = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    Some(Said {
        id: message["id"].to_string(),
        speaker: speaker(message["role"].as_str()?)?,
        text: words,
        at: time(message, "timestamp"),
        attachments: Vec::new(),
    })
    .filter(|said| !said.text.is_empty())
}

fn found(hit: &Value) -> Found {
    let session = text(hit, "session_id");
    Found {
        session_key: session.clone(),
        session_id: session,
        message_id: hit["message_id"].to_string(),
        speaker: speaker(hit["role"].as_str().unwrap_or_default()).unwrap_or_default(),
        excerpt: text(hit, "snippet"),
        at: time(hit, "timestamp"),
        ..Found::default()
    }
}

fn question(ask: &Value) -> OpenQuestion {
    let what = ask["command"].as_str().or(ask["question"].as_str()).unwrap_or_default();
    OpenQuestion {
        id: text(ask, "id"),
        session_key: text(ask, "session"),
        what: what.to_owned(),
        why: text(ask, "reason"),
        asked: time(ask, "asked_at"),
        until: time(ask, "expires_at"),
    }
}
