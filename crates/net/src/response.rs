//! An answer as it comes in: bounded in size, in silence and in length of time.

use crate::client::ClientSettings;
use crate::endpoint::{Endpoint, root_cause};
use crate::error::{NetError, NetStage, UnreadableEvent};
use crate::server_sent_event::{Parser, ServerSentEvent};
use bytes::{Bytes, BytesMut};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The words of a complaint come with it, or are not worth waiting for.
const COMPLAINT_WAIT: Duration = Duration::from_secs(2);

/// What an answer looks like, by its first byte: servers often mislabel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyShape {
    Json,
    Events,
    /// A page, a plain text, or nothing at all.
    Unknown,
}

/// A successful answer whose body is still to come. Dropping it abandons the request.
pub struct HttpReply {
    response: reqwest::Response,
    endpoint: Endpoint,
    settings: ClientSettings,
    /// No answer goes on for longer than this, however lively.
    deadline: Instant,
    /// Read, and not yet handed out.
    ahead: BytesMut,
    received: usize,
}

impl HttpReply {
    pub(crate) fn new(
        response: reqwest::Response,
        endpoint: Endpoint,
        settings: ClientSettings,
        deadline: Instant,
    ) -> Self {
        Self { response, endpoint, settings, deadline, ahead: BytesMut::new(), received: 0 }
    }

    /// Looks ahead to the first byte that is not blank. Takes nothing away.
    pub async fn shape(&mut self) -> Result<BodyShape, NetError> {
        loop {
            let text = self.ahead.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&self.ahead);
            match text.trim_ascii_start().first() {
                Some(b'{' | b'[') => return Ok(BodyShape::Json),
                Some(b':' | b'd' | b'e' | b'i' | b'r') => return Ok(BodyShape::Events),
                Some(0xEF) if self.ahead.len() < 3 => {}
                Some(_) => return Ok(BodyShape::Unknown),
                None => {}
            }
            match self.receive().await? {
                Some(chunk) => self.ahead.extend_from_slice(&chunk),
                None => return Ok(BodyShape::Unknown),
            }
        }
    }

    /// All of it.
    pub async fn text(mut self) -> Result<String, NetError> {
        while let Some(chunk) = self.receive().await? {
            self.ahead.extend_from_slice(&chunk);
        }
        let text = self.ahead.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&self.ahead);
        String::from_utf8(text.to_vec()).map_err(|_| NetError::Unreadable(UnreadableEvent::NotUtf8))
    }

    /// The beginning of it, however broken: for a complaint.
    pub async fn beginning(mut self, length: usize) -> String {
        let reading = async {
            while self.ahead.len() < length {
                match self.receive().await {
                    Ok(Some(chunk)) => self.ahead.extend_from_slice(&chunk),
                    Ok(None) | Err(_) => break,
                }
            }
        };
        let _ = timeout(COMPLAINT_WAIT, reading).await; // what is there by then will do
        self.ahead.truncate(length);
        self.endpoint.clean(&String::from_utf8_lossy(&self.ahead))
    }

    pub fn events(self) -> EventStream {
        let parser = Parser::new(self.settings.limits.event);
        EventStream { reply: self, parser, ended: false }
    }

    async fn next_bytes(&mut self) -> Result<Option<Bytes>, NetError> {
        match self.ahead.is_empty() {
            true => self.receive().await,
            false => Ok(Some(self.ahead.split().freeze())),
        }
    }

    async fn receive(&mut self) -> Result<Option<Bytes>, NetError> {
        let (stage, limit) = self.patience();
        let chunk = timeout(limit, self.response.chunk())
            .await
            .map_err(|_| NetError::TimedOut { stage, limit: self.limit_of(stage) })?
            .map_err(|error| NetError::Lost(self.endpoint.clean(&root_cause(&error))))?;
        self.received += chunk.as_ref().map_or(0, Bytes::len);
        if self.received > self.settings.limits.body {
            return Err(NetError::Unreadable(UnreadableEvent::TooLong { limit: self.settings.limits.body }));
        }
        Ok(chunk)
    }

    /// How long the next bytes may take, and what it is called if they take longer.
    fn patience(&self) -> (NetStage, Duration) {
        let stage = if self.received == 0 { NetStage::FirstByte } else { NetStage::Silence };
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.limit_of(stage) {
            limit if limit <= left => (stage, limit),
            _ => (NetStage::Whole, left),
        }
    }

    fn limit_of(&self, stage: NetStage) -> Duration {
        let timeouts = &self.settings.timeouts;
        match stage {
            NetStage::Connecting => timeouts.connect,
            NetStage::FirstByte => timeouts.first_byte,
            NetStage::Silence => timeouts.silence,
            NetStage::Whole => timeouts.whole,
        }
    }
}

/// The events of an answer, in order.
pub struct EventStream {
    reply: HttpReply,
    parser: Parser,
    ended: bool,
}

impl EventStream {
    /// None once the answer has ended as it should.
    pub async fn next(&mut self) -> Result<Option<ServerSentEvent>, NetError> {
        loop {
            if let Some(event) = self.parser.pop() {
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            let parsed = match self.reply.next_bytes().await? {
                Some(bytes) => self.parser.push(&bytes),
                None => {
                    self.ended = true;
                    self.parser.finish()
                }
            };
            parsed.map_err(NetError::Unreadable)?;
        }
    }
}
