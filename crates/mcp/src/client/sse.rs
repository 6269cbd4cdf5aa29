//! A server behind the older transport: one event stream, which names first the address that takes our
//! messages (`endpoint`) and then carries all of the server's (`message`).
//!
//! The library no longer speaks it; many servers still do. The address must lie where the stream
//! came from: our headers go there.

use super::MESSAGE_LENGTH_MAX;
use super::error_cause;
use super::stdio::{DisconnectReason, note};
use reqwest::header::{ACCEPT, CACHE_CONTROL};
use reqwest::{Client, Response, StatusCode, Url};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use throughline_net::{Parser, ServerSentEvent};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Messages that came and were not yet taken; the stream waits when it is full.
const WAITING_MAX: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum SseError {
    #[error("the event stream could not be opened: {0}")]
    Closed(String),
    /// 401 or 403.
    #[error("Auth required")]
    Unauthorised,
    #[error("the event stream ended before it named an endpoint")]
    NoEndpoint,
    #[error("the endpoint it named ({0}) is not at the same place as its stream")]
    Elsewhere(String),
    #[error("a message was not taken: {0}")]
    NotTaken(String),
}

pub struct Stream {
    client: Client,
    endpoint: Url,
    messages: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    reader: JoinHandle<()>,
}

impl Stream {
    pub async fn open(client: Client, url: Url, obituary: DisconnectReason) -> Result<Self, SseError> {
        let request =
            client.get(url.clone()).header(ACCEPT, "text/event-stream").header(CACHE_CONTROL, "no-store");
        let response = request.send().await.map_err(|error| SseError::Closed(error_cause::of(&error)))?;
        match response.status() {
            status if status.is_success() => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(SseError::Unauthorised),
            status => return Err(SseError::Closed(format!("it answered HTTP {status}"))),
        }
        let mut events = EventStream { response, parser: Parser::new(MESSAGE_LENGTH_MAX) };
        let endpoint = loop {
            match events.next().await.map_err(SseError::Closed)? {
                Some(event) if event.name.as_deref() == Some("endpoint") => {
                    break resolved(&url, &event.data)?;
                }
                Some(_) => {}
                None => return Err(SseError::NoEndpoint),
            }
        };
        let (sender, messages) = mpsc::channel(WAITING_MAX);
        let reader = tokio::spawn(carry(events, sender, obituary));
        Ok(Self { client, endpoint, messages, reader })
    }
}

fn resolved(url: &Url, endpoint: &str) -> Result<Url, SseError> {
    let elsewhere = || SseError::Elsewhere(endpoint.chars().take(200).collect());
    let endpoint = url.join(endpoint.trim()).map_err(|_| elsewhere())?;
    if endpoint.origin() == url.origin() { Ok(endpoint) } else { Err(elsewhere()) }
}

async fn carry(
    mut events: EventStream,
    sender: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    obituary: DisconnectReason,
) {
    loop {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => return note(&obituary, "its event stream ended".to_owned()),
            Err(error) => return note(&obituary, format!("its event stream broke off: {error}")),
        };
        if !matches!(event.name.as_deref(), None | Some("message")) {
            continue;
        }
        let message = match serde_json::from_str(&event.data) {
            Ok(message) => message,
            Err(error) => {
                tracing::debug!(%error, "an event that is no message is passed over");
                continue;
            }
        };
        if sender.send(message).await.is_err() {
            return;
        }
    }
}

struct EventStream {
    response: Response,
    parser: Parser,
}

impl EventStream {
    async fn next(&mut self) -> Result<Option<ServerSentEvent>, String> {
        loop {
            if let Some(event) = self.parser.pop() {
                return Ok(Some(event));
            }
            match self.response.chunk().await.map_err(|error| error_cause::of(&error))? {
                Some(chunk) => self.parser.push(&chunk).map_err(|error| error.to_string())?,
                None => return Ok(None),
            }
        }
    }
}

impl Transport<RoleClient> for Stream {
    type Error = SseError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let request = self.client.post(self.endpoint.clone()).json(&item);
        async move {
            let response =
                request.send().await.map_err(|error| SseError::NotTaken(error_cause::of(&error)))?;
            match response.status() {
                status if status.is_success() => Ok(()),
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(SseError::Unauthorised),
                status => Err(SseError::NotTaken(format!("it answered HTTP {status}"))),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.reader.abort();
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
