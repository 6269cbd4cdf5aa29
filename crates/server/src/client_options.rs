//! What a client can ask for beyond OpenAI's API, by headers of ours. A client that sends none of them gets OpenAI's API
//! and nothing else.
//!
//! - `X-Throughline-Events: tools`: a stream also tells of tools (`event: hermes.tool.progress`), and the last chunk
//!   holds the answer alone. `"stream_options": {"throughline_events": true}` asks for the same
//! - `X-Throughline-Approvals: ask`: the client answers what tools ask (see [`crate::approvals`]), so questions are held
//! - `X-Throughline-Memory: recall`: a request without session, session key and `user` is reminded of other
//!   conversations, and others of it, as one that has any of these
//! - `X-Throughline-On-Disconnect: stop`: the turn ends when the client hangs up (`continue`: it goes on)

use crate::error::ApiError;
use http::{HeaderMap, HeaderName};
use serde_json::{Map, Value};

const EVENTS: HeaderName = HeaderName::from_static("x-throughline-events");
const APPROVALS: HeaderName = HeaderName::from_static("x-throughline-approvals");
const MEMORY: HeaderName = HeaderName::from_static("x-throughline-memory");
const ON_DISCONNECT: HeaderName = HeaderName::from_static("x-throughline-on-disconnect");

/// The same as the header, in `stream_options`.
const EVENTS_OPTION: &str = "throughline_events";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions {
    pub events: bool,
    pub approvals: bool,
    pub memory: bool,
    /// None: as the operator set it.
    pub stops: Option<bool>,
}

impl ClientOptions {
    pub fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let is = |name: HeaderName, word: &'static str| match one(headers, &name, &[word, "off"])? {
            None => Ok(false),
            Some(said) => Ok::<_, ApiError>(said == word),
        };
        let stops = one(headers, &ON_DISCONNECT, &["stop", "continue"])?.map(|word| word == "stop");
        Ok(Self {
            events: is(EVENTS, "tools")?,
            approvals: is(APPROVALS, "ask")?,
            memory: is(MEMORY, "recall")?,
            stops,
        })
    }

    /// With what `stream_options` say.
    pub fn with_options(self, options: Option<&Map<String, Value>>) -> Self {
        let asked = options.and_then(|options| options.get(EVENTS_OPTION)) == Some(&Value::Bool(true));
        Self { events: self.events || asked, ..self }
    }
}

/// What a header says, if it is one of these words.
fn one(
    headers: &HeaderMap,
    name: &HeaderName,
    words: &[&'static str],
) -> Result<Option<&'static str>, ApiError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim().to_ascii_lowercase();
    if text.is_empty() {
        return Ok(None);
    }
    let known = words.iter().find(|word| **word == text).copied();
    known.map(Some).ok_or_else(|| {
        ApiError::invalid(name.as_str(), format!("{name} can be {}.", words.join(" or ")))
            .code("invalid_value")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_wished_for_that_was_not_said() {
        let headers = |pairs: &[(HeaderName, &'static str)]| {
            pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect::<HeaderMap>()
        };
        assert_eq!(ClientOptions::of(&HeaderMap::new()).unwrap(), ClientOptions::default());
        let all =
            headers(&[(EVENTS, "tools"), (APPROVALS, "Ask"), (MEMORY, "recall"), (ON_DISCONNECT, "stop")]);
        let wishes = ClientOptions { events: true, approvals: true, memory: true, stops: Some(true) };
        assert_eq!(ClientOptions::of(&all).unwrap(), wishes);
        assert_eq!(
            ClientOptions::of(&headers(&[(EVENTS, "off"), (MEMORY, "")])).unwrap(),
            ClientOptions::default()
        );
        let error = ClientOptions::of(&headers(&[(ON_DISCONNECT, "maybe")])).unwrap_err();
        assert_eq!(error.message(), "x-throughline-on-disconnect can be stop or continue.");
    }
}
