//! Connections: how a request is answered, and how an answer fails.

use super::{Call, Fault, Shared, http_connection, work};
use bytes::BytesMut;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(super) async fn serve(
    first: std::net::TcpListener,
    shared: Arc<Shared>,
    mut is_open: watch::Receiver<bool>,
) {
    let address = first.local_addr().expect("a listener has an address");
    first.set_nonblocking(true).expect("a socket can be set to non-blocking");
    let mut listener = Some(TcpListener::from_std(first).expect("a socket can be listened on"));
    loop {
        let is_listening = *is_open.borrow_and_update();
        if !is_listening {
            listener = None;
        } else if listener.is_none() {
            listener = TcpListener::bind(address).await.ok();
        }
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await.ok(),
                None if is_listening => {
                    tokio::time::sleep(Duration::from_millis(20)).await; // the port is still being freed
                    None
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = is_open.changed() => if changed.is_err() { return },
            accepted = accepted => if let Some((stream, _)) = accepted {
                let (shared, mut is_open) = (shared.clone(), is_open.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = converse(stream, shared) => {}
                        _ = is_open.wait_for(|open| !open) => {}
                    }
                });
            },
        }
    }
}

async fn converse(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut held = BytesMut::new();
    let _ = stream.set_nodelay(true);
    while let Ok(Some(request)) = http_connection::receive(&mut stream, &mut held).await {
        if !respond(&mut stream, &request, &shared).await {
            return;
        }
    }
}

/// False: the connection is to be closed.
async fn respond(stream: &mut TcpStream, request: &http_connection::Request, shared: &Arc<Shared>) -> bool {
    if let Some(rest) = request.path.strip_prefix("/file/bot") {
        let (token, path) = rest.split_once('/').unwrap_or_default();
        let content = {
            let state = shared.state();
            let known = state.bots.get(token).is_some_and(|bot| !bot.revoked);
            known.then(|| state.files.get(path.trim_start_matches("files/")).cloned()).flatten()
        };
        return match content {
            Some(content) => {
                http_connection::answer(stream, 200, "application/octet-stream", &content).await.is_ok()
            }
            None => http_connection::answer(
                stream,
                404,
                "application/json",
                b"{\"ok\":false,\"error_code\":404,\"description\":\"Not Found\"}",
            )
            .await
            .is_ok(),
        };
    }
    let rest = request.path.strip_prefix("/bot").unwrap_or_default();
    let (token, method) = rest.split_once('/').unwrap_or_default();
    let (parameters, file) = parameters(request);
    let fault = {
        let mut state = shared.state();
        let call = Call {
            bot: token.to_owned(),
            method: method.to_owned(),
            parameters: parameters.clone(),
            at: Instant::now(),
        };
        state.calls.push(call);
        state.faults.get_mut(method).and_then(VecDeque::pop_front)
    };
    let work = work(shared, token, method, parameters, file);
    let mut ahead = [0];
    let outcome = match fault {
        Some(Fault::Answer { status, body }) => {
            return http_connection::answer(stream, status, "application/json", body.as_bytes())
                .await
                .is_ok();
        }
        Some(Fault::Garbage) => {
            return http_connection::answer(
                stream,
                200,
                "text/html",
                b"<html>Sign in to the wireless network</html>",
            )
            .await
            .is_ok();
        }
        Some(Fault::CloseBefore) => return false,
        Some(Fault::CloseAfter) => {
            let _ = work.await;
            return false;
        }
        Some(Fault::Silence) => return hang(shared).await,
        Some(Fault::SilenceAfter) => {
            let _ = work.await;
            return hang(shared).await;
        }
        Some(Fault::Delay(delay)) => {
            tokio::time::sleep(delay).await;
            work.await
        }
        // A bot that hangs up while it waits is gone, and does not poll any more.
        None => tokio::select! {
            biased;
            outcome = work => outcome,
            _ = stream.peek(&mut ahead) => return false,
        },
    };
    let (status, body) = match outcome {
        Ok(result) => (200, json!({"ok": true, "result": result})),
        Err((code, description, parameters)) => {
            let mut body = json!({"ok": false, "error_code": code, "description": description});
            if !parameters.is_null() {
                body["parameters"] = parameters;
            }
            (code, body)
        }
    };
    http_connection::answer(stream, status, "application/json", body.to_string().as_bytes()).await.is_ok()
}

async fn hang(shared: &Shared) -> bool {
    shared.state().hung += 1;
    std::future::pending().await
}

/// From JSON or from a form, where numbers and objects come as text.
pub(super) fn parameters(request: &http_connection::Request) -> (Value, Option<(String, Vec<u8>)>) {
    let kind = request.header("content-type");
    if !kind.starts_with("multipart/form-data") {
        return (serde_json::from_slice(&request.body).unwrap_or_else(|_| json!({})), None);
    }
    let mut fields = Map::new();
    let mut file = None;
    for field in http_connection::form(kind, &request.body) {
        match field.file {
            Some(name) => {
                fields.insert(field.name, json!(format!("attach://{name}")));
                file = Some((name, field.content));
            }
            None => {
                let text = String::from_utf8_lossy(&field.content).into_owned();
                let is_structured =
                    matches!(field.name.as_str(), "chat_id" | "message_thread_id" | "reply_parameters");
                let value = is_structured.then(|| serde_json::from_str(&text).ok()).flatten();
                fields.insert(field.name, value.unwrap_or(Value::String(text)));
            }
        }
    }
    (Value::Object(fields), file)
}
