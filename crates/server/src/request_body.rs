//! A request's body, from bytes to fields, with a sentence for everything that can be wrong.

use crate::error::ApiError;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use throughline_core::prompt::Digest;
use throughline_offload as offload;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// A client that needs longer to send its body has stalled; it must not hold up a stop.
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

/// A body over the limit is read on and thrown away up to here, so that a client which sends first
/// and listens later gets its 413 rather than a reset connection.
const THROWN_AWAY_MAX: usize = 64 << 20;

/// What bodies that are larger than [`LARGE`] may take together, in all agents of this process: while they arrive, and
/// until what they say is taken in. Eight of the largest, or eighty of a megabyte. More of them wait for room, with what
/// the system keeps for a connection.
static IN_FLIGHT: BodyMemory = BodyMemory::of(80 << 10);
/// Smaller ones are many, and cost little.
const LARGE: usize = offload::LONG;
/// It is counted in pieces of so many bytes.
const PIECE: usize = 1 << 10;

struct BodyMemory {
    pieces: u32,
    free: Semaphore,
}

/// A body, and the memory that is set aside for it.
pub struct RequestBody {
    pub bytes: Bytes,
    /// To be kept until what the body says is taken in, and no longer: others may wait for it.
    pub room: BodyPermit,
}

/// Memory for one body. None was asked for if it is small.
#[derive(Debug)]
pub struct BodyPermit(#[allow(dead_code)] Option<SemaphorePermit<'static>>); // it is held, never read

/// How much a body may become. One that says it is too large is thrown away while it is read.
fn expected(headers: &HeaderMap, bytes_max: usize) -> usize {
    let said = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    match said {
        Some(length) if length > bytes_max => 0,
        Some(length) => length,
        None => bytes_max,
    }
}

impl BodyMemory {
    const fn of(pieces: u32) -> Self {
        Self { pieces, free: Semaphore::const_new(pieces as usize) }
    }

    /// Room for so many bytes, as soon as there is some: first come, first served.
    async fn room(&'static self, bytes: usize, patience: Duration) -> Result<BodyPermit, ApiError> {
        if bytes <= LARGE {
            return Ok(BodyPermit(None));
        }
        let pieces = u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX).min(self.pieces);
        match timeout(patience, self.free.acquire_many(pieces)).await {
            Ok(permit) => Ok(BodyPermit(permit.ok())),
            Err(_) => {
                let message = "Too many large requests are on their way at once. Nothing of this one was kept; \
                               send it again.";
                Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message).code("overloaded").after(1))
            }
        }
    }
}

/// All of the body, if it is no longer than `bytes_max`.
pub async fn read(headers: &HeaderMap, body: Body, bytes_max: usize) -> Result<RequestBody, ApiError> {
    let encoding = headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes());
    if encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case(b"identity")) {
        let message = "The body is compressed; send it without Content-Encoding.";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).code("unsupported_encoding"));
    }
    let room = IN_FLIGHT.room(expected(headers, bytes_max), ARRIVES_WITHIN).await?;
    match timeout(ARRIVES_WITHIN, collect(body, bytes_max)).await {
        Ok(result) => result.map(|bytes| RequestBody { bytes, room }),
        Err(_) => {
            let message = format!("The body did not arrive within {} s.", ARRIVES_WITHIN.as_secs());
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, message).code("body_timeout"))
        }
    }
}

async fn collect(mut body: Body, bytes_max: usize) -> Result<Bytes, ApiError> {
    let mut whole = Bytes::new(); // most bodies are one piece, which is not copied
    let mut pieces = Vec::new();
    let mut length = 0;
    let mut pictured = false;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            ApiError::new(StatusCode::BAD_REQUEST, "The body broke off before its end.")
                .code("body_incomplete")
        })?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length > THROWN_AWAY_MAX.max(bytes_max) {
            break;
        }
        if length > bytes_max {
            pictured = pictured || [&whole[..], &pieces, &data].into_iter().any(holds_picture);
            (whole, pieces) = (Bytes::new(), Vec::new());
        } else if whole.is_empty() && pieces.is_empty() {
            whole = data;
        } else {
            if pieces.is_empty() {
                pieces.extend_from_slice(&std::mem::take(&mut whole));
            }
            pieces.extend_from_slice(&data);
        }
    }
    match length > bytes_max {
        true => Err(too_large(bytes_max, pictured)),
        false if pieces.is_empty() => Ok(whole),
        false => Ok(pieces.into()),
    }
}

/// How a picture within a body begins.
const PICTURE: &[u8] = b"data:image/";

fn holds_picture(bytes: &[u8]) -> bool {
    bytes.windows(PICTURE.len()).any(|window| window == PICTURE)
}

fn too_large(bytes_max: usize, pictured: bool) -> ApiError {
    let advice = match pictured {
        true => {
            "It holds a picture, which takes a third more room in a body than as a file: send a smaller one, or its \
             https address. If pictures of earlier messages are in it, name the session in X-Hermes-Session-Id and send \
             only the new message: the history is kept here. The owner can raise the limit \
             (throughline.body_limit_bytes in config.yaml)."
        }
        false => {
            "Name the session in X-Hermes-Session-Id and send only the new message: the history is kept here."
        }
    };
    let message = format!("The body is larger than {bytes_max} bytes. {advice}");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message).code("body_too_large")
}

/// The fields of a JSON object, however large.
pub fn fields(bytes: &[u8]) -> Result<RequestFields, ApiError> {
    offload::run(bytes.len(), || parse(bytes))
}

/// The fields of a JSON object.
pub fn parse(bytes: &[u8]) -> Result<RequestFields, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let message = format!("The body is not valid UTF-8: the byte at offset {at} cannot stand there.");
        ApiError::new(StatusCode::BAD_REQUEST, message).code("invalid_utf8")
    })?;
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(RequestFields(map)),
        Ok(_) => {
            Err(ApiError::new(StatusCode::BAD_REQUEST, "The body must be a JSON object.")
                .code("invalid_json"))
        }
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            let reason = error.to_string();
            let reason = reason.split(" at line ").next().unwrap_or_default();
            let message = format!("The body is not valid JSON: {reason}, at line {line}, column {column}.");
            Err(ApiError::new(StatusCode::BAD_REQUEST, message).code("invalid_json"))
        }
    }
}

/// As much of a field's name as an error repeats.
const NAME_CHARS_MAX: usize = 64;

/// What a client sent, to be taken out field by field. Null is the same as absent.
pub struct RequestFields(Map<String, Value>);

impl RequestFields {
    /// The same for every spelling of the same body: spaces and the order of fields do not count.
    pub fn digest(&self) -> Digest {
        let mut hasher = Sha256::new();
        hash_object(&self.0, &mut hasher);
        Digest(hasher.finalize().into())
    }

    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    pub fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(name, "a string", &other)),
        }
    }

    pub fn flag(&mut self, name: &str) -> Result<bool, ApiError> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(wrong_type(name, "true or false", &other)),
        }
    }

    /// Drops fields that change nothing in an answer, without a look at their values.
    pub fn pass_over(&mut self, names: &[&str]) {
        for name in names {
            self.0.remove(*name);
        }
    }

    /// Refuses fields that no reader took: otherwise the client would not learn that it asked in vain.
    pub fn refuse_rest(self) -> Result<(), ApiError> {
        let Some((name, _)) = self.0.into_iter().find(|(_, value)| !value.is_null()) else { return Ok(()) };
        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
        let message =
            format!("Unrecognized or unsupported request argument supplied: {name:?}. Leave it out.");
        Err(ApiError::invalid(name, message).code("unknown_parameter"))
    }
}

pub fn wrong_type(param: &str, wanted: &str, found: &Value) -> ApiError {
    ApiError::invalid(param, format!("{param} must be {wanted}, not {}.", type_name(found)))
        .code("invalid_type")
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn hash(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::Null => hasher.update(b"0"),
        Value::Bool(flag) => hasher.update(if *flag { b"t" } else { b"f" }),
        Value::Number(number) => hash_text(b'n', &number.to_string(), hasher),
        Value::String(text) => hash_text(b's', text, hasher),
        Value::Array(items) => {
            hasher.update(b"a");
            hasher.update((items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| hash(item, hasher));
        }
        Value::Object(map) => hash_object(map, hasher),
    }
}

fn hash_object(map: &Map<String, Value>, hasher: &mut Sha256) {
    let mut fields: Vec<_> = map.iter().collect();
    fields.sort_unstable_by_key(|(name, _)| name.as_str());
    hasher.update(b"o");
    hasher.update((fields.len() as u64).to_le_bytes());
    for (name, value) in fields {
        hash_text(b'k', name, hasher);
        hash(value, hasher);
    }
}

fn hash_text(tag: u8, text: &str, hasher: &mut Sha256) {
    hasher.update([tag]);
    hasher.update((text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Digest {
        parse(text.as_bytes()).unwrap_or_else(|error| panic!("{}", error.message())).digest()
    }

    #[test]
    fn p7_a_body_is_the_same_however_it_is_spelled() {
        let one = digest(r#"{"a":1,"b":["x",{"c":null,"d":true}]}"#);
        assert_eq!(one, digest("{ \"b\": [\"x\", {\"d\":true, \"c\":null}],\n \"a\": 1 }"));
        for other in [
            r#"{"a":2,"b":["x",{"c":null,"d":true}]}"#,
            r#"{"a":"1","b":["x",{"c":null,"d":true}]}"#,
            r#"{"a":1,"b":[{"c":null,"d":true},"x"]}"#,
            r#"{"a":1,"b":["x",{"d":true}]}"#,
            r#"{"ab":1,"":["x",{"c":null,"d":true}]}"#,
        ] {
            assert_ne!(one, digest(other), "{other}");
        }
    }

    #[test]
    fn a_body_asks_for_as_much_room_as_it_may_take() {
        let of = |length: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(length) = length {
                headers.insert(header::CONTENT_LENGTH, length.parse().unwrap());
            }
            expected(&headers, 1000)
        };
        assert_eq!((of(Some("7")), of(Some("1000")), of(None), of(Some("x"))), (7, 1000, 1000, 1000));
        assert_eq!(of(Some("1001")), 0, "it is thrown away while it is read");
    }

    /// A process would hold as many as it has connections, otherwise: four thousand of ten megabytes.
    #[tokio::test]
    async fn p31_large_bodies_wait_for_room_and_small_ones_do_not() {
        static ALL: BodyMemory = BodyMemory::of(1 << 10);
        const MOST: usize = (1 << 10) * PIECE;
        let long = Duration::from_secs(3600);
        let first = ALL.room(MOST - LARGE, long).await.unwrap();
        let mut second = std::pin::pin!(ALL.room(LARGE + 1, long));
        tokio::select! {
            biased;
            _ = &mut second => panic!("there is none left for it"),
            () = tokio::task::yield_now() => {}
        }
        let small = ALL.room(LARGE, Duration::ZERO).await.unwrap();
        assert!(small.0.is_none(), "which takes next to nothing");
        drop(first);
        drop(second.await.unwrap());
        let all = ALL.room(MOST, long).await.unwrap();
        let refused = ALL.room(MOST, Duration::ZERO).await.unwrap_err();
        assert_eq!(refused.code_or(""), "overloaded", "no request waits for ever");
        drop(all);
        drop(ALL.room(2 * MOST, Duration::ZERO).await.expect("and alone everything has room"));
    }

    #[test]
    fn a_malformed_body_is_shown_where_it_breaks() {
        let message =
            |bytes: &[u8]| parse(bytes).err().map(|error| error.message().to_owned()).unwrap_or_default();
        assert_eq!(
            message(b"{\"a\": 1,\n \"b\": }"),
            "The body is not valid JSON: expected value, at line 2, column 7."
        );
        assert!(message(b"{\"a\": \"\xff\"}").contains("offset 7"));
        assert!(message(b"[]").contains("JSON object"));
        assert!(message(b"").contains("line 1"));
        assert!(message("[".repeat(100_000).as_bytes()).contains("recursion"));
    }
}
