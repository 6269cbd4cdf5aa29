//! The web API, and the addresses for files.

use super::{
    APP, APP_TOKEN, BOT, BOT_TOKEN, BOT_USER, Call, Fault, Kind, Sent, Shared, SlackState, TEAM, TEXT_MAX,
    UPDATE_MAX, Upload,
};
use axum::body::Bytes;
use axum::extract::{Path, State as Extracted};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) async fn call(
    Extracted(shared): Extracted<Arc<Shared>>,
    Path(method): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let arguments = arguments(&headers, &body);
    let fault = shared.inner().faults.get_mut(&method).and_then(VecDeque::pop_front);
    match &fault {
        Some(Fault::CloseBefore) => hang_up(),
        Some(Fault::Status { status, retry_after, body }) => {
            shared.remember(&method, arguments);
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response = (status, body.clone()).into_response();
            if let Some(seconds) = retry_after {
                response.headers_mut().insert("retry-after", (*seconds).into());
            }
            return response;
        }
        Some(Fault::Error(error)) => {
            shared.remember(&method, arguments);
            return answer(Err(error.clone()));
        }
        Some(Fault::Hang) => {
            shared.remember(&method, arguments);
            return shared.hang().await;
        }
        _ => {}
    }
    let outcome = shared.perform(&method, &headers, &arguments);
    shared.remember(&method, arguments);
    match fault {
        Some(Fault::CloseAfter) => hang_up(),
        Some(Fault::Silence) => shared.hang().await,
        _ => answer(outcome),
    }
}

/// Ends the connection's task without an answer, and without a word on the terminal.
fn hang_up() -> ! {
    std::panic::resume_unwind(Box::new("hung up on request"))
}

fn answer(outcome: Result<Value, String>) -> Response {
    let body = match outcome {
        Ok(mut value) => {
            value["ok"] = json!(true);
            value
        }
        Err(error) => {
            let mut body = json!({"ok": false, "error": error});
            if error == "missing_scope" {
                body["needed"] = json!("chat:write");
                body["provided"] = json!("users:read");
            }
            body
        }
    };
    (StatusCode::OK, [("content-type", "application/json; charset=utf-8")], body.to_string()).into_response()
}

/// A form, or JSON. Which it was is kept: some methods do not read JSON.
pub(super) fn arguments(headers: &HeaderMap, body: &[u8]) -> Value {
    let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.starts_with("application/json") {
        return serde_json::from_slice(body).unwrap_or(Value::Null);
    }
    let text = String::from_utf8_lossy(body);
    let mut fields = Map::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        fields.insert(decoded(name), json!(decoded(value)));
    }
    fields.insert("_form".to_owned(), json!(true));
    Value::Object(fields)
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(if bytes[at] == b'+' { b' ' } else { bytes[at] });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

impl Shared {
    async fn hang(&self) -> Response {
        self.inner().hung += 1;
        std::future::pending().await
    }

    fn remember(&self, method: &str, arguments: Value) {
        self.inner().calls.push(Call { method: method.to_owned(), arguments });
        self.change();
    }

    fn perform(&self, method: &str, headers: &HeaderMap, arguments: &Value) -> Result<Value, String> {
        let token =
            headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let wanted = if method == "apps.connections.open" { APP_TOKEN } else { BOT_TOKEN };
        let mut inner = self.inner();
        if let Some(error) = &inner.revoked {
            return Err(error.clone());
        }
        match token {
            None => return Err("not_authed".to_owned()),
            Some(token) if token == wanted => {}
            Some(token) if token == APP_TOKEN || token == BOT_TOKEN => {
                return Err("not_allowed_token_type".to_owned());
            }
            Some(_) => return Err("invalid_auth".to_owned()),
        }
        let text = |name: &str| arguments[name].as_str().filter(|text| !text.is_empty());
        let is_form = arguments["_form"] == true;
        let reads = [
            "users.info",
            "conversations.info",
            "conversations.replies",
            "files.getUploadURLExternal",
            "files.info",
        ];
        if reads.contains(&method) && !is_form {
            return Err("invalid_arguments".to_owned());
        }
        match method {
            "auth.test" => Ok(json!({
                "url": "https://test.slack.com/", "team": "test", "user": "bot", "team_id": TEAM, "user_id": BOT_USER, "bot_id": BOT,
            })),
            "apps.connections.open" => {
                let ticket = inner.stamp();
                inner.tickets.insert(ticket.clone());
                Ok(json!({"url": format!("ws://{}/link?ticket={ticket}&app_id={APP}", self.address)}))
            }
            "chat.postMessage" | "chat.postEphemeral" => inner.post(method, arguments),
            "chat.update" => {
                let words = text("text").ok_or("no_text")?;
                if words.chars().count() > UPDATE_MAX {
                    return Err("msg_too_long".to_owned());
                }
                let blocks = arguments["blocks"].clone();
                let message = inner.message(arguments).ok_or("message_not_found")?;
                message.text = words.to_owned();
                if !blocks.is_null() {
                    message.blocks = blocks;
                }
                Ok(json!({"ts": message.ts, "channel": message.channel}))
            }
            "chat.delete" => {
                let ts = inner.message(arguments).ok_or("message_not_found")?.ts.clone();
                inner.messages.retain(|message| message.ts != ts);
                Ok(json!({"ts": ts}))
            }
            "reactions.add" | "reactions.remove" => {
                let (Some(channel), Some(ts), Some(name)) =
                    (text("channel"), text("timestamp"), text("name"))
                else {
                    return Err("no_item_specified".to_owned());
                };
                let sign = (channel.to_owned(), ts.to_owned(), name.to_owned());
                match (method, inner.reactions.contains(&sign)) {
                    ("reactions.add", true) => Err("already_reacted".to_owned()),
                    ("reactions.add", false) => {
                        inner.reactions.insert(sign);
                        Ok(json!({}))
                    }
                    (_, true) => {
                        inner.reactions.remove(&sign);
                        Ok(json!({}))
                    }
                    (_, false) => Err("no_reaction".to_owned()),
                }
            }
            "conversations.info" => {
                let id = text("channel").unwrap_or_default();
                let channel = inner.channels.get(id).ok_or("channel_not_found")?;
                let (im, mpim) = (channel.kind == Kind::Direct, channel.kind == Kind::Circle);
                Ok(json!({"channel": {"id": id, "name": id.to_lowercase(), "is_im": im, "is_mpim": mpim}}))
            }
            "conversations.replies" => {
                let (channel, thread) = (text("channel").unwrap_or_default(), text("ts").unwrap_or_default());
                let limit = text("limit").and_then(|limit| limit.parse().ok()).unwrap_or(1000);
                inner.channels.get(channel).ok_or("channel_not_found")?;
                let ours = inner.messages.iter().map(|sent| {
                    json!({"type": "message", "user": BOT_USER, "bot_id": BOT, "text": sent.text, "ts": sent.ts, "thread_ts": sent.thread, "channel": sent.channel})
                });
                let mut replies: Vec<Value> = inner.said.iter().cloned().chain(ours).collect();
                let stamp = |value: &Value| value["ts"].as_str().unwrap_or_default().to_owned();
                replies.retain(|reply| {
                    let ts = stamp(reply);
                    let within = text("oldest").is_none_or(|oldest| *oldest < *ts)
                        && text("latest").is_none_or(|latest| *ts < *latest);
                    reply["channel"] == channel
                        && (reply["thread_ts"] == thread || (ts == thread))
                        && (within || ts == thread)
                });
                replies.sort_by_key(stamp);
                replies.truncate(limit);
                Ok(json!({"messages": replies, "has_more": false}))
            }
            "users.info" => {
                let id = text("user").unwrap_or_default();
                let name = inner.users.get(id).ok_or("user_not_found")?;
                Ok(
                    json!({"user": {"id": id, "name": name, "profile": {"display_name": name, "real_name": name}}}),
                )
            }
            "files.getUploadURLExternal" => {
                let name = text("filename").ok_or("invalid_arguments")?.to_owned();
                let length =
                    text("length").and_then(|length| length.parse().ok()).ok_or("invalid_arguments")?;
                let id = format!("F{}", inner.stamp().replace('.', ""));
                inner.uploads.insert(id.clone(), Upload { name, length, bytes: None });
                Ok(json!({"upload_url": format!("http://{}/upload/{id}", self.address), "file_id": id}))
            }
            "files.completeUploadExternal" => inner.complete(arguments),
            "files.info" => {
                let id = text("file").unwrap_or_default();
                let size = inner.files.get(id).ok_or("file_not_found")?.len();
                let address = format!("http://{}/files/{id}", self.address);
                Ok(
                    json!({"file": {"id": id, "name": id, "size": size, "url_private": address, "url_private_download": address}}),
                )
            }
            "assistant.threads.setStatus" => match (text("channel_id"), text("thread_ts")) {
                (Some(_), Some(_)) => Ok(json!({})),
                _ => Err("invalid_arguments".to_owned()),
            },
            _ => Err("unknown_method".to_owned()),
        }
    }
}

impl SlackState {
    fn place(&self, arguments: &Value, name: &str) -> Result<String, String> {
        let id = arguments[name].as_str().unwrap_or_default();
        let channel = self.channels.get(id).ok_or("channel_not_found")?;
        match &channel.refusal {
            Some(error) => Err(error.clone()),
            None => Ok(id.to_owned()),
        }
    }

    fn post(&mut self, method: &str, arguments: &Value) -> Result<Value, String> {
        let channel = self.place(arguments, "channel")?;
        let text = arguments["text"].as_str().unwrap_or_default();
        let blocks = arguments["blocks"].clone();
        if text.is_empty() && blocks.is_null() {
            return Err("no_text".to_owned());
        }
        if text.chars().count() > TEXT_MAX {
            return Err("msg_too_long".to_owned());
        }
        let long =
            |block: &Value| block["text"]["text"].as_str().is_some_and(|text| text.chars().count() > 3000);
        if blocks.as_array().is_some_and(|blocks| blocks.iter().any(long)) {
            return Err("invalid_blocks".to_owned());
        }
        let only_for = match method {
            "chat.postEphemeral" => Some(arguments["user"].as_str().ok_or("invalid_arguments")?.to_owned()),
            _ => None,
        };
        let ts = self.stamp();
        self.messages.push(Sent {
            channel: channel.clone(),
            ts: ts.clone(),
            text: text.to_owned(),
            thread: arguments["thread_ts"].as_str().map(str::to_owned),
            blocks,
            broadcast: arguments["reply_broadcast"] == true,
            files: Vec::new(),
            only_for,
        });
        Ok(json!({"channel": channel, "ts": ts, "message": {"text": text, "ts": ts}}))
    }

    fn message(&mut self, arguments: &Value) -> Option<&mut Sent> {
        let (channel, ts) = (arguments["channel"].as_str()?, arguments["ts"].as_str()?);
        self.messages.iter_mut().find(|message| message.channel == channel && message.ts == ts)
    }

    fn complete(&mut self, arguments: &Value) -> Result<Value, String> {
        let channel = self.place(arguments, "channel_id")?;
        let files =
            arguments["files"].as_array().filter(|files| !files.is_empty()).ok_or("invalid_arguments")?;
        let mut names = Vec::new();
        for file in files {
            let upload = self.uploads.get(file["id"].as_str().unwrap_or_default()).ok_or("file_not_found")?;
            match &upload.bytes {
                Some(bytes) if bytes.len() == upload.length => names.push(upload.name.clone()),
                _ => return Err("file_update_failed".to_owned()),
            }
        }
        let ts = self.stamp();
        self.messages.push(Sent {
            channel,
            ts,
            text: arguments["initial_comment"].as_str().unwrap_or_default().to_owned(),
            thread: arguments["thread_ts"].as_str().map(str::to_owned),
            blocks: Value::Null,
            broadcast: false,
            files: names,
            only_for: None,
        });
        Ok(json!({"files": files}))
    }
}

pub(super) async fn upload(
    Extracted(shared): Extracted<Arc<Shared>>,
    Path(file): Path<String>,
    body: Bytes,
) -> Response {
    let fault = shared.inner().faults.get_mut("upload").and_then(VecDeque::pop_front);
    if let Some(Fault::Status { status, body, .. }) = fault {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return (status, body).into_response();
    }
    let mut inner = shared.inner();
    match inner.uploads.get_mut(&file) {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(upload) => {
            let words = format!("OK - {}", body.len());
            upload.bytes = Some(body.to_vec());
            words.into_response()
        }
    }
}

pub(super) async fn download(
    Extracted(shared): Extracted<Arc<Shared>>,
    Path(file): Path<String>,
    headers: HeaderMap,
) -> Response {
    let known = headers.get("authorization").and_then(|value| value.to_str().ok())
        == Some(&format!("Bearer {BOT_TOKEN}"));
    match (known, shared.inner().files.get(&file)) {
        // Slack shows a page to log in.
        (false, _) => {
            (StatusCode::OK, [("content-type", "text/html")], "<html>Sign in</html>").into_response()
        }
        (true, None) => StatusCode::NOT_FOUND.into_response(),
        (true, Some(bytes)) => {
            (StatusCode::OK, [("content-type", "application/octet-stream")], bytes.clone()).into_response()
        }
    }
}
