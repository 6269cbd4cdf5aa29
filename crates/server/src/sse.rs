//! A turn as a stream of events.
//!
//! The stream begins when the input is on disk, follows the turn, and ends when it has settled. It
//! carries all that is ready in one piece, so an answer that is there at once is one write. A quiet
//! stream says so every few seconds, in a comment. Dropping it stops nothing but itself, unless its client wants that.

use crate::error::ApiError;
use crate::json_views::AskView;
use crate::submission::ResponseStamp;
use crate::turn_follower::{AnswerDelivery, StopOnHangUp, TurnFollower};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderName, HeaderValue, header};
use serde::Serialize;
use serde_json::json;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use throughline_core::Time;
use throughline_core::port::{CallId, Delta, Pending, Promise, Refusal, Settled, Update};
use tokio::time::{Instant, Sleep, sleep};

/// A piece is sent when it has grown to this, even if more is ready.
const PIECE_BYTES: usize = 16 << 10;

/// Speaks one API's dialect of a turn.
pub trait StreamFormat: Send + Unpin + 'static {
    /// Before anything else. `began` is known where the turn is already over.
    fn begin(&mut self, began: Option<Time>, out: &mut Vec<u8>);
    fn delta(&mut self, delta: &Delta, out: &mut Vec<u8>);
    fn restarted(&mut self, out: &mut Vec<u8>);
    /// A tool is called or has its result, or waits for a person. What was said so far was a remark
    /// on the way, and the answer is yet to come.
    fn working(&mut self, work: &ToolEvent<'_>, out: &mut Vec<u8>);
    /// The model does not answer, and is asked again. Dialects of others have no event for it; a person who looks at the
    /// stream reads the comment.
    fn troubled(&mut self, why: &str, out: &mut Vec<u8>) {
        comment(why, out);
    }
    /// Whether that was an answer.
    fn settled(&mut self, settled: &Settled, out: &mut Vec<u8>) -> bool;
    /// The turn goes on, but this stream cannot.
    fn broken(&mut self, error: ApiError, out: &mut Vec<u8>);
}

/// What happens between the words of a turn.
pub enum ToolEvent<'a> {
    Calling {
        id: &'a str,
        tool: &'a str,
        arguments: &'a str,
    },
    Called {
        id: &'a str,
        tool: &'a str,
    },
    /// The tool would have had to ask, and no person was there.
    Unattended {
        id: &'a str,
        tool: &'a str,
    },
    Asked(&'a Pending),
    Granted(&'a CallId),
}

/// The progress of a tool, as Hermes tells it beside OpenAI's events. Only for clients that ask for it: OpenAI's own
/// libraries, and others, take every event for a chunk of the answer.
pub fn progress(work: &ToolEvent<'_>, out: &mut Vec<u8>) {
    let value = match work {
        ToolEvent::Calling { id, tool, arguments } => {
            let label: String = arguments.chars().take(LABEL_CHARS).collect();
            json!({"tool": tool, "label": label, "toolCallId": id, "status": "running"})
        }
        ToolEvent::Called { id, tool } => json!({"tool": tool, "toolCallId": id, "status": "completed"}),
        ToolEvent::Unattended { id, tool } => {
            json!({"tool": tool, "toolCallId": id, "status": "unattended"})
        }
        ToolEvent::Granted(call) => json!({"id": call.to_string(), "status": "granted"}),
        ToolEvent::Asked(pending) => {
            let mut value = json!(AskView::from(*pending));
            value["status"] = "waiting".into();
            value
        }
    };
    event("hermes.tool.progress", &value, out);
}

/// Enough of a call's arguments to see what it is about.
const LABEL_CHARS: usize = 120;

/// The response that carries `voice`.
pub fn stream(
    voice: impl StreamFormat,
    follower: TurnFollower,
    leaving: StopOnHangUp,
    stamp: &ResponseStamp,
    keep_alive: Duration,
) -> Response {
    let mut response =
        Response::new(Body::from_stream(AnswerStream::new(voice, follower, leaving, keep_alive)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that gather a response before they pass it on would make a stream pointless.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    stamp.put(headers);
    response
}

/// Writes what every client passes over. A line break would begin a field.
fn comment(text: &str, out: &mut Vec<u8>) {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    out.extend_from_slice(format!(": {line}\n\n").as_bytes());
}

/// Writes one event without a name.
pub fn data(value: &impl Serialize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    serde_json::to_writer(&mut *out, value).expect("events are plain structures, and memory takes all");
    out.extend_from_slice(b"\n\n");
}

/// Writes one event with a name.
pub fn event(name: &str, value: &impl Serialize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    data(value, out);
}

struct AnswerStream<V> {
    voice: V,
    has_begun: bool,
    step: Option<Promise<'static, (TurnFollower, Result<Update, Refusal>)>>,
    out: Vec<u8>,
    keep_alive: Duration,
    quiet: Option<Pin<Box<Sleep>>>,
    /// Set in the poll that hands out the last words of an answer. See `json_response`.
    delivery: Option<AnswerDelivery>,
    leaving: StopOnHangUp,
}

impl<V: StreamFormat> AnswerStream<V> {
    /// A replay waits for its first news, which says when the turn began.
    fn new(mut voice: V, follower: TurnFollower, leaving: StopOnHangUp, keep_alive: Duration) -> Self {
        let mut out = Vec::new();
        let has_begun = !follower.is_replay;
        if has_begun {
            voice.begin(None, &mut out);
        }
        let step: Promise<'static, _> = Box::pin(follower.step());
        Self { voice, has_begun, step: Some(step), out, keep_alive, quiet: None, delivery: None, leaving }
    }

    /// Takes in all that is ready.
    fn gather(&mut self, context: &mut Context<'_>) {
        while self.out.len() < PIECE_BYTES
            && let Some(step) = &mut self.step
            && let Poll::Ready((follower, update)) = step.as_mut().poll(context)
        {
            self.step = None;
            self.take(follower, update);
        }
    }

    fn take(&mut self, follower: TurnFollower, update: Result<Update, Refusal>) {
        if !self.has_begun {
            self.has_begun = true;
            let began = match &update {
                Ok(Update::Settled(settled)) => Some(settled.began),
                _ => None,
            };
            self.voice.begin(began, &mut self.out);
        }
        match update {
            Ok(Update::Delta(delta)) => self.voice.delta(&delta, &mut self.out),
            Ok(Update::Restarted) => self.voice.restarted(&mut self.out),
            Ok(Update::Calling { id, tool, arguments }) => {
                let work = ToolEvent::Calling { id: &id, tool: &tool, arguments: &arguments };
                self.voice.working(&work, &mut self.out);
            }
            Ok(Update::Called { id, tool }) => {
                self.voice.working(&ToolEvent::Called { id: &id, tool: &tool }, &mut self.out);
            }
            Ok(Update::Unattended { id, tool }) => {
                self.voice.working(&ToolEvent::Unattended { id: &id, tool: &tool }, &mut self.out);
            }
            Ok(Update::Granted(call)) => self.voice.working(&ToolEvent::Granted(&call), &mut self.out),
            Ok(Update::Asked(pending)) => self.voice.working(&ToolEvent::Asked(&pending), &mut self.out),
            Ok(Update::Troubled(why)) => self.voice.troubled(&why, &mut self.out),
            Ok(Update::Settled(settled)) => {
                self.leaving.is_over();
                if self.voice.settled(&settled, &mut self.out) {
                    self.delivery = Some(follower.delivery());
                }
                return;
            }
            Ok(Update::Interrupted) => return self.voice.broken(follower.interrupted(), &mut self.out),
            Err(refusal) => return self.voice.broken(refusal.into(), &mut self.out),
        }
        self.step = Some(Box::pin(follower.step()));
    }

    /// Ready when nothing has been said for long enough.
    fn poll_quiet(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let keep_alive = self.keep_alive;
        let quiet = self.quiet.get_or_insert_with(|| Box::pin(sleep(keep_alive)));
        ready!(quiet.as_mut().poll(context));
        quiet.as_mut().reset(Instant::now() + keep_alive);
        Poll::Ready(())
    }
}

impl<V: StreamFormat> Stream for AnswerStream<V> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        this.gather(context);
        if !this.out.is_empty() {
            if let Some(quiet) = &mut this.quiet {
                quiet.as_mut().reset(Instant::now() + this.keep_alive);
            }
            let piece = std::mem::take(&mut this.out);
            return Poll::Ready(Some(Ok(piece.into())));
        }
        if this.step.is_none() {
            return Poll::Ready(None);
        }
        ready!(this.poll_quiet(context));
        Poll::Ready(Some(Ok(Bytes::from_static(b": keep-alive\n\n"))))
    }
}

impl<V> Drop for AnswerStream<V> {
    fn drop(&mut self) {
        if let Some(delivery) = self.delivery.take() {
            delivery.done();
        }
    }
}
