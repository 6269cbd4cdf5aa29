//! Why a server cannot be reached or does not answer, in a sentence for people.
//!
//! Errors of the libraries repeat each other, name Rust types, and keep the cause at the end of a chain along which `source`
//! does not always lead. Here the cause is named alone, with the host and the port that were asked: the rest of an address may
//! hold a key.

use super::sse::SseError;
use reqwest::Url;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use std::error::Error;
use std::io;
use throughline_net::tls_reason;

type HttpError = StreamableHttpError<reqwest::Error>;

/// The innermost cause of an error.
pub fn of(error: &(dyn Error + 'static)) -> String {
    let mut asked = FailedRequest::default();
    let mut cause = error;
    loop {
        if let Some(error) = cause.downcast_ref::<reqwest::Error>() {
            asked.note(error);
        }
        if let Some(told) = of_the_protocol(cause) {
            return told;
        }
        match inner(cause) {
            Some(next) => cause = next,
            None => return asked.told(cause),
        }
    }
}

/// What is known of the request that came to nothing.
#[derive(Default)]
struct FailedRequest {
    /// Host and port.
    place: Option<String>,
    is_late: bool,
    /// What is wrong with the certificate, or that there is none.
    insecure: Option<&'static str>,
}

impl FailedRequest {
    fn note(&mut self, error: &reqwest::Error) {
        self.place = error.url().and_then(place).or(self.place.take());
        self.is_late |= error.is_timeout();
        self.insecure = tls_reason(error).or(self.insecure);
    }

    fn told(&self, cause: &(dyn Error + 'static)) -> String {
        let server = self.place.as_deref().unwrap_or("it");
        if let Some(reason) = self.insecure {
            return format!("no safe connection to {server}: {reason}");
        }
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        match (kind, &self.place) {
            (Some(io::ErrorKind::ConnectionRefused), Some(place)) => {
                format!("connection refused at {place}: no program listens there")
            }
            (Some(io::ErrorKind::TimedOut), _) => format!("{server} did not answer in time"),
            _ if self.is_late => format!("{server} did not answer in time"),
            (
                Some(
                    io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof,
                ),
                _,
            ) => format!("{server} closed the connection"),
            (_, Some(place)) => format!("{place} cannot be reached: {}", without_number(&cause.to_string())),
            (_, None) => without_number(&cause.to_string()).to_owned(),
        }
    }
}

fn place(url: &Url) -> Option<String> {
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    Some(format!("{host}:{port}"))
}

/// The system's words for an error, without its number.
fn without_number(text: &str) -> &str {
    text.split(" (os error").next().unwrap_or(text)
}

/// The next cause, also where the library does not name it as one.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<ClientInitializeError>() {
        Some(ClientInitializeError::TransportError { error, .. }) => return Some(error.error.as_ref()),
        Some(ClientInitializeError::LegacyFallbackFailed { fallback, .. }) => return Some(fallback.as_ref()),
        _ => {}
    }
    if let Some(ServiceError::TransportSend(error)) = error.downcast_ref::<ServiceError>() {
        return Some(error.error.as_ref());
    }
    match error.downcast_ref::<HttpError>() {
        Some(StreamableHttpError::Client(error)) => Some(error),
        Some(StreamableHttpError::Io(error)) => Some(error),
        _ => error.source(),
    }
}

/// What a server did that the protocol does not allow, or its own refusal.
fn of_the_protocol(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<SseError>() {
        return Some(error.to_string()); // written for people
    }
    if let Some(error) = error.downcast_ref::<HttpError>() {
        return match error {
            StreamableHttpError::UnexpectedServerResponse(what) => Some(what.to_string()),
            StreamableHttpError::UnexpectedContentType(kind) => {
                let kind = kind.as_deref().filter(|kind| !kind.is_empty()).unwrap_or("no type of content");
                Some(format!("it answered with {kind}, which is no message of MCP; check its url"))
            }
            StreamableHttpError::SessionExpired => Some("it has ended the session".to_owned()),
            StreamableHttpError::UnexpectedEndOfStream => Some("its answer broke off".to_owned()),
            _ => None,
        };
    }
    match error.downcast_ref::<ClientInitializeError>()? {
        ClientInitializeError::JsonRpcError(refusal) => {
            Some(format!("it refused the handshake: {}", refusal.message))
        }
        ClientInitializeError::ConnectionClosed(_) => {
            Some("it closed the connection during the handshake".to_owned())
        }
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::ConflictInitResponseId(..)
        | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
            Some("it did not answer the handshake as the protocol asks".to_owned())
        }
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<String> = server_supported.iter().map(ToString::to_string).collect();
            Some(format!(
                "it speaks only versions of the protocol that are not known here: {}",
                versions.join(", ")
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::ErrorData;

    #[test]
    fn p30_a_cause_is_told_without_the_words_of_programmers() {
        let refused = ErrorData::invalid_request("no such tenant", None);
        let unexpected: HttpError = StreamableHttpError::UnexpectedContentType(Some("text/html".into()));
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        let denied = io::Error::from_raw_os_error(13);
        for (error, expected) in [
            (
                &ClientInitializeError::JsonRpcError(refused) as &(dyn Error + 'static),
                "it refused the handshake: no such tenant",
            ),
            (
                &ClientInitializeError::ExpectedInitResult(None),
                "it did not answer the handshake as the protocol asks",
            ),
            (&unexpected, "it answered with text/html, which is no message of MCP; check its url"),
            (&broken, "it closed the connection"),
            (&denied, "Permission denied"),
        ] {
            assert_eq!(of(error), expected);
        }
    }
}
