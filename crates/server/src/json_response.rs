//! A JSON answer in one piece, which notices when the connection has taken all of it.
//!
//! The agent is told that an answer was written when the connection has taken its last byte and let
//! go of the body. A client that hung up before has closed the connection, and the body is dropped
//! with bytes still in it. What cannot be seen from here: whether those last bytes, now in the
//! hands of the server and the kernel, ever arrive. So `written` means "do not take the same words
//! for a retry any more", and nothing that must be certain hangs on it.

use crate::submission::ResponseStamp;
use crate::turn_follower::AnswerDelivery;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderValue, header};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A JSON answer in one piece.
pub fn whole(json: Vec<u8>, stamp: &ResponseStamp, delivery: Option<AnswerDelivery>) -> Response {
    let length = json.len();
    let body = JsonBody { bytes: Some(json.into()), delivery };
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    stamp.put(headers);
    response
}

struct JsonBody {
    bytes: Option<Bytes>,
    delivery: Option<AnswerDelivery>,
}

impl Stream for JsonBody {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.bytes.take().map(Ok))
    }
}

impl Drop for JsonBody {
    /// With the length known, a connection lets go of the body without asking for its end.
    fn drop(&mut self) {
        if self.bytes.is_none()
            && let Some(delivery) = self.delivery.take()
        {
            delivery.done();
        }
    }
}
