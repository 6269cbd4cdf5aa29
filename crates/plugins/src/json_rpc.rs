//! JSON-RPC 2.0, one message a line, over any pair of pipes.
//!
//! - a line is never held beyond its [longest](super::protocol::LINE_MAX): a sender of more is cut off
//! - what is no message is a [`Nonsense`], to be counted and passed over; it never harms its neighbours
//! - a batch is nonsense: each message has a line of its own
//!
//! Deliberately absent: who waits for which answer, and for how long.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::io;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// What is taken from a pipe at once.
const CHUNK: usize = 64 << 10;
/// A buffer that one long message has widened is given back.
const KEPT: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum WireError {
    #[error("it sent a message of more than {} MB", .0 >> 20)]
    TooLong(usize),
    #[error("its output could not be read: {0}")]
    Broken(#[from] io::Error),
}

/// Cuts a stream into lines.
pub struct LineReader<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    is_whole: bool,
    length_max: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub fn new(from: R, length_max: usize) -> Self {
        let from = BufReader::with_capacity(CHUNK, from);
        Self { from, line: Vec::new(), is_whole: false, length_max }
    }

    /// The next line that is not blank, without its end. None: there are no more. Dropping the promise
    /// loses nothing.
    pub async fn next(&mut self) -> Result<Option<&[u8]>, WireError> {
        loop {
            if std::mem::take(&mut self.is_whole) {
                self.line.clear();
                self.line.shrink_to(KEPT);
            }
            let chunk = self.from.fill_buf().await?;
            if chunk.is_empty() {
                self.is_whole = true;
                let rest = self.line.trim_ascii();
                return Ok((!rest.is_empty()).then_some(rest));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            if self.line.len() + part.len() > self.length_max {
                return Err(WireError::TooLong(self.length_max));
            }
            self.line.extend_from_slice(part);
            let taken = part.len() + usize::from(end.is_some());
            self.from.consume(taken);
            if end.is_some() {
                self.is_whole = true;
                if !self.line.trim_ascii().is_empty() {
                    break;
                }
            }
        }
        Ok(Some(self.line.trim_ascii()))
    }
}

/// An error as it crosses the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcError {
    pub code: i64,
    #[serde(default)]
    pub message: String,
}

/// One message, taken apart as far as its envelope.
#[derive(Debug)]
pub enum RpcIncoming {
    Answer { id: u64, said: Result<Box<RawValue>, RpcError> },
    Asked { id: Box<RawValue>, method: String, params: Option<Box<RawValue>> },
    Told { method: String, params: Option<Box<RawValue>> },
}

/// Why a line is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nonsense {
    #[error("it is not UTF-8")]
    NotText,
    #[error("it is not JSON")]
    NotJson,
    #[error("it is a batch: each message has a line of its own")]
    Batch,
    #[error("it is not JSON-RPC 2.0")]
    NotRpc,
}

#[derive(Deserialize)]
struct RpcEnvelope<'a> {
    #[serde(default)]
    jsonrpc: Option<String>,
    #[serde(default, borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default, borrow, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<RpcError>,
}

/// A field that says `null` says something: it is an answer like any other.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

pub fn read(line: &[u8]) -> Result<RpcIncoming, Nonsense> {
    let text = std::str::from_utf8(line).map_err(|_| Nonsense::NotText)?;
    match text.trim_start().chars().next() {
        Some('{') => {}
        Some('[') => return Err(Nonsense::Batch),
        _ => return Err(Nonsense::NotJson),
    }
    let envelope: RpcEnvelope<'_> = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Nonsense::NotRpc,
        _ => Nonsense::NotJson,
    })?;
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return Err(Nonsense::NotRpc);
    }
    let params = envelope.params.map(ToOwned::to_owned);
    match (envelope.method, envelope.id, envelope.result, envelope.error) {
        (Some(method), Some(id), None, None) => Ok(RpcIncoming::Asked { id: id.to_owned(), method, params }),
        (Some(method), None, None, None) => Ok(RpcIncoming::Told { method, params }),
        (None, Some(id), Some(result), None) => {
            Ok(RpcIncoming::Answer { id: number(id)?, said: Ok(result.to_owned()) })
        }
        (None, Some(id), None, Some(fault)) => Ok(RpcIncoming::Answer { id: number(id)?, said: Err(fault) }),
        _ => Err(Nonsense::NotRpc),
    }
}

/// Our ids are numbers. An answer under another id belongs to no question.
fn number(id: &RawValue) -> Result<u64, Nonsense> {
    id.get().parse().map_err(|_| Nonsense::NotRpc)
}

#[derive(Serialize)]
struct RpcMessage<'a, T> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RpcError>,
}

fn line<T: Serialize>(outgoing: &RpcMessage<'_, T>) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(outgoing)?;
    line.push(b'\n');
    Ok(line)
}

fn empty<'a, T>() -> RpcMessage<'a, T> {
    RpcMessage { jsonrpc: "2.0", id: None, method: None, params: None, result: None, error: None }
}

pub fn request<T: Serialize>(id: u64, method: &str, params: &T) -> serde_json::Result<Vec<u8>> {
    let id = RawValue::from_string(id.to_string())?;
    line(&RpcMessage { id: Some(&id), method: Some(method), params: Some(params), ..empty() })
}

pub fn notification<T: Serialize>(method: &str, params: &T) -> serde_json::Result<Vec<u8>> {
    line(&RpcMessage { method: Some(method), params: Some(params), ..empty() })
}

pub fn answer<T: Serialize>(id: &RawValue, result: &T) -> serde_json::Result<Vec<u8>> {
    line(&RpcMessage { id: Some(id), result: Some(result), ..empty() })
}

pub fn fault(id: &RawValue, fault: &RpcError) -> serde_json::Result<Vec<u8>> {
    line(&RpcMessage::<'_, ()> { id: Some(id), error: Some(fault), ..empty() })
}

/// How fast a plugin may talk unasked. Its store is spent first; then it waits.
pub struct RateLimiter {
    store: f64,
    store_max: f64,
    per_second: f64,
    at: Instant,
}

impl RateLimiter {
    pub fn new(store_max: u32, per_second: u32) -> Self {
        let store = f64::from(store_max);
        Self { store, store_max: store, per_second: f64::from(per_second), at: Instant::now() }
    }

    /// Takes so much, and says how long to wait for it.
    pub fn spend(&mut self, amount: u32, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.store = (self.store + passed * self.per_second).min(self.store_max) - f64::from(amount);
        (self.store < 0.0).then(|| Duration::from_secs_f64(-self.store / self.per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(text: &[u8], length_max: usize) -> Vec<Result<String, String>> {
        let mut lines = LineReader::new(text, length_max);
        let mut found = Vec::new();
        loop {
            match lines.next().await {
                Ok(Some(line)) => found.push(Ok(String::from_utf8_lossy(line).into_owned())),
                Ok(None) => return found,
                Err(error) => {
                    found.push(Err(error.to_string()));
                    return found;
                }
            }
        }
    }

    #[tokio::test]
    async fn lines_are_cut_at_their_ends_and_blank_ones_passed_over() {
        let found = all(b"one\r\n\n  \ntwo\nthree", 100).await;
        assert_eq!(found, [Ok("one".into()), Ok("two".into()), Ok("three".into())]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_ends_it_without_being_held() {
        let text = [b"ok\n".as_slice(), &vec![b'x'; 5 << 20]].concat();
        let mut lines = LineReader::new(text.as_slice(), 1 << 20);
        assert_eq!(lines.next().await.unwrap(), Some(b"ok".as_slice()));
        assert!(matches!(lines.next().await, Err(WireError::TooLong(_))));
        assert!(lines.line.capacity() <= 2 << 20, "{}", lines.line.capacity());
    }

    #[test]
    fn what_is_no_message_is_told_apart() {
        for (line, why) in [
            (b"\xff\xfe".as_slice(), Nonsense::NotText),
            (b"Traceback (most recent call last):", Nonsense::NotJson),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,", Nonsense::NotJson),
            (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}]", Nonsense::Batch),
            (b"{}", Nonsense::NotRpc),
            (b"{\"id\":1,\"result\":1}", Nonsense::NotRpc),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1}", Nonsense::NotRpc),
            (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":1}", Nonsense::NotRpc),
            (b"{\"jsonrpc\":\"2.0\",\"id\":-1,\"result\":1}", Nonsense::NotRpc),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":\"no\"}", Nonsense::NotRpc),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":{\"code\":1}}", Nonsense::NotRpc),
        ] {
            assert_eq!(read(line).unwrap_err(), why, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn an_answer_may_be_null_and_hold_what_is_not_known() {
        let line = br#"{"jsonrpc":"2.0","id":7,"result":null,"trace":"x"}"#;
        let Ok(RpcIncoming::Answer { id: 7, said: Ok(said) }) = read(line) else { panic!("an answer") };
        assert_eq!(said.get(), "null");
    }

    #[test]
    fn what_is_written_is_read_again() {
        let written = request(7, "ping", &serde_json::json!({})).unwrap();
        assert_eq!(written, b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":{}}\n");
        let Ok(RpcIncoming::Asked { id, .. }) = read(&written) else { panic!("a request") };
        let said = RpcError { code: -32601, message: "no".into() };
        let Ok(RpcIncoming::Answer { id: 7, said: Err(read_again) }) = read(&fault(&id, &said).unwrap())
        else {
            panic!("an answer")
        };
        assert_eq!(read_again, said);
    }

    #[test]
    fn whoever_talks_too_much_waits() {
        let mut pace = RateLimiter::new(2, 10);
        let now = Instant::now();
        assert_eq!(pace.spend(1, now), None);
        assert_eq!(pace.spend(1, now), None);
        let wait = pace.spend(1, now).expect("the store is spent");
        assert!(wait > Duration::from_millis(90) && wait < Duration::from_millis(110), "{wait:?}");
        assert_eq!(pace.spend(1, now + Duration::from_secs(1)), None);
    }
}
