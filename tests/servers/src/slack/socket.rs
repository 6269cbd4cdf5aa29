//! Socket mode: what happens, as envelopes that a bot acknowledges.

use super::{APP, Connection, Shared, SocketOrder};
use axum::extract::ws::{Message as Frame, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State as Extracted};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

pub(super) async fn link(
    Extracted(shared): Extracted<Arc<Shared>>,
    Query(query): Query<BTreeMap<String, String>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let admitted = {
        let mut inner = shared.inner();
        let ticket = query.get("ticket").is_some_and(|ticket| inner.tickets.remove(ticket));
        ticket && !inner.no_sockets
    };
    match admitted {
        true => upgrade.on_upgrade(move |socket| attend(shared, socket)),
        false => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

async fn attend(shared: Arc<Shared>, mut socket: WebSocket) {
    let (frames, mut orders) = mpsc::unbounded_channel();
    let (number, hello) = {
        let mut inner = shared.inner();
        inner.clock += 1;
        let number = inner.clock;
        inner.connections.push(Connection { number, frames });
        let count = inner.connections.len() as u64 + inner.crowd;
        let hello = json!({"type": "hello", "num_connections": count, "connection_info": {"app_id": APP}, "debug_info": {"host": "test"}});
        (number, (!inner.silent_hello).then_some(hello))
    };
    if let Some(hello) = hello {
        let _ = socket.send(Frame::text(hello.to_string())).await;
    }
    shared.change();
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(SocketOrder::Text(text)) => {
                    if socket.send(Frame::text(text)).await.is_err() {
                        break;
                    }
                }
                Some(SocketOrder::Freeze) => {
                    // The socket stays open as long as the server, which does not read it.
                    sleep(Duration::from_secs(3600)).await;
                }
                Some(SocketOrder::Close) | None => break,
            },
            frame = socket.recv() => match frame {
                Some(Ok(Frame::Text(text))) => {
                    shared.inner().receive(text.as_str());
                    shared.change();
                }
                Some(Ok(Frame::Close(_)) | Err(_)) | None => break,
                Some(Ok(_)) => {}
            },
        }
    }
    shared.inner().connections.retain(|connection| connection.number != number);
    shared.change();
}
