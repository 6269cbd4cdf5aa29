//! What went wrong, told twice: to the caller by what can be done about it, to the user in a
//! sentence with the provider's own words.

use serde_json::Value;
use std::time::Duration;
use throughline_core::port::ModelError;
use throughline_core::session::FailureKind;
use throughline_net::{Endpoint, HttpRefusal, NetError, excerpt};

#[derive(Debug)]
pub(crate) enum ProviderError {
    Net(NetError),
    /// An error in the middle of an answer that had claimed success.
    Said(Complaint),
    /// The answer is no answer; why.
    Broken(String),
    /// The provider's filter took the answer away.
    Withheld,
}

/// What an answer can lack, in words that end the sentence "it cannot be used: …".
impl ProviderError {
    pub fn empty(finish: &str, thought: bool) -> Self {
        let lacking = match (finish, thought) {
            ("content_filter", _) => return ProviderError::Withheld,
            (_, true) => "it holds thoughts, but no words and no tool call",
            (_, false) => "it is empty: no words, no tool call",
        };
        ProviderError::Broken(format!("{lacking} (finish reason: {finish})"))
    }

    pub fn nameless_call() -> Self {
        ProviderError::Broken("it calls a tool without saying which".to_owned())
    }

    /// Half the arguments of a call must not be acted on.
    pub fn cut_call() -> Self {
        let reason = "it reached its length limit in the middle of a tool call; a higher max_tokens helps";
        ProviderError::Broken(reason.to_owned())
    }

    pub fn rubbish(event: &str) -> Self {
        ProviderError::Broken(format!("one of its events is not JSON: “{}”", excerpt(event)))
    }

    pub fn neither(document: &Value) -> Self {
        let shown = excerpt(&document.to_string());
        ProviderError::Broken(format!("it is neither an answer nor an error: “{shown}”"))
    }
}

impl From<NetError> for ProviderError {
    fn from(error: NetError) -> Self {
        ProviderError::Net(error)
    }
}

/// A provider's complaint, in whichever of the usual shapes it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// What it calls the error: its type, code and status, in small letters.
    pub code: String,
    pub words: String,
}

impl Complaint {
    /// Reads `{"error":{"message":…}}` and its relatives; anything else is taken at its word.
    pub fn from_body(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::from_value(&value),
            Err(_) if body.trim_start().starts_with('<') => Self { code: String::new(), words: title(body) },
            Err(_) => Self { code: String::new(), words: body.to_owned() },
        }
    }

    pub fn from_value(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value); // one provider wraps its error in a list
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let mut code = String::new();
        for name in ["type", "code", "status"] {
            match error.get(name) {
                Some(Value::String(text)) => code.push_str(&format!("{} ", text.to_lowercase())),
                Some(Value::Number(number)) => code.push_str(&format!("{number} ")),
                _ => {}
            }
        }
        Self { code: code.trim_end().to_owned(), words: words(error) }
    }

    fn has(&self, signs: &[&str]) -> bool {
        let words = self.words.to_lowercase();
        signs.iter().any(|sign| self.code.contains(sign) || words.contains(sign))
    }

    /// The status that this error would have had, had it come in time.
    fn status(&self) -> Option<u16> {
        let named = STATUSES.iter().find(|(sign, _)| self.code.contains(sign)).map(|(_, status)| *status);
        let number = self.code.split(' ').find_map(|word| word.parse().ok());
        number.filter(|status| (300..600).contains(status)).or(named)
    }
}

/// Error types of the big providers, and the status each stands for.
const STATUSES: [(&str, u16); 14] = [
    ("overloaded", 529),
    ("rate_limit", 429),
    ("resource_exhausted", 429),
    ("too_many_requests", 429),
    ("authentication", 401),
    ("permission", 403),
    ("billing", 402),
    ("request_too_large", 413),
    ("not_found", 404),
    ("invalid_request", 400),
    ("timeout", 408),
    ("server_error", 500),
    ("api_error", 500),
    ("unavailable", 503),
];

/// A conversation longer than the model's window, in the words of those who refuse it.
const TOO_LONG: [&str; 15] = [
    "context_length_exceeded",
    "exceed_context_size",
    "context length",
    "context window",
    "context size",
    "context limit",
    "maximum context",
    "max_model_len",
    "prompt is too long",
    "input is too long",
    "input length",
    "reduce the length",
    "maximum number of tokens",
    "max input token",
    "n_ctx",
];

/// One request above the limit of a whole minute: waiting does not help.
const TOO_LARGE_FOR_THE_RATE: [&str; 1] = ["request too large"];

const UNPAID: [&str; 8] = [
    "insufficient_quota",
    "insufficient credits",
    "insufficient_credits",
    "insufficient balance",
    "credit balance is too low",
    "billing_hard_limit",
    "billing_not_active",
    "payment required",
];

const BAD_KEY: [&str; 4] = ["invalid_api_key", "invalid api key", "incorrect api key", "api key not valid"];

/// Forbidden for what was said, not for who said it.
const MODERATED: [&str; 3] = ["moderation", "flagged", "content_policy"];

pub(crate) fn kind(status: Option<u16>, said: &Complaint, retry_after: Option<Duration>) -> FailureKind {
    let wait = FailureKind::Wait { after_seconds: retry_after.map(whole_seconds) };
    match status.or_else(|| said.status()) {
        Some(413) => FailureKind::TooLong,
        Some(400..500) if said.has(&UNPAID) => FailureKind::Credentials,
        Some(429) if said.has(&TOO_LARGE_FOR_THE_RATE) => FailureKind::TooLong,
        Some(408 | 425 | 429) => wait,
        Some(400 | 404 | 422 | 500..600) if said.has(&TOO_LONG) => FailureKind::TooLong,
        Some(500..600) => wait,
        Some(403) if said.has(&MODERATED) => FailureKind::Refused,
        Some(401..=403) => FailureKind::Credentials,
        Some(400) if said.has(&BAD_KEY) => FailureKind::Credentials,
        Some(300..500) => FailureKind::Refused,
        _ if said.has(&TOO_LONG) => FailureKind::TooLong,
        _ => FailureKind::Broken,
    }
}

/// Never earlier than asked for.
fn whole_seconds(wait: Duration) -> u32 {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// Who was asked, for the sentence.
#[derive(Clone, Debug)]
pub(crate) struct AskedEndpoint {
    pub model: String,
    pub endpoint: Endpoint,
    /// What the user calls the key.
    pub key_name: String,
}

impl AskedEndpoint {
    pub fn explain(&self, fault: ProviderError) -> ModelError {
        let (model, host) = (&self.model, self.endpoint.host());
        match fault {
            ProviderError::Net(NetError::Status(refusal)) => self.refused(&refusal),
            ProviderError::Net(error @ (NetError::Unreachable(_) | NetError::HungUp(_) | NetError::TimedOut { .. })) => ModelError {
                kind: match error {
                    NetError::Unreachable(_) => FailureKind::Unreachable,
                    _ => FailureKind::Wait { after_seconds: None },
                },
                message: self.clean(format!(
                    "{model} at {host} did not answer: {error}. Check that the server is up and can be reached from here; then try again."
                )),
            },
            ProviderError::Net(NetError::Unusable(reason)) => ModelError {
                kind: FailureKind::Refused,
                message: self.clean(format!("{model} at {host} cannot be asked: {reason}.")),
            },
            ProviderError::Net(error @ (NetError::Lost(_) | NetError::Unreadable(_))) => self.broken(&error.to_string()),
            ProviderError::Broken(reason) => self.broken(&reason),
            ProviderError::Withheld => ModelError {
                kind: FailureKind::Refused,
                message: format!(
                    "The content filter of {host} withheld the answer of {model}. Put the request in other words."
                ),
            },
            ProviderError::Said(said) => {
                let kind = kind(None, &said, None);
                ModelError { kind, message: self.sentence(kind, None, &said) }
            }
        }
    }

    fn refused(&self, refusal: &HttpRefusal) -> ModelError {
        let said = Complaint::from_body(&refusal.body);
        let kind = kind(Some(refusal.status), &said, refusal.retry_after);
        let message = match &refusal.redirect {
            Some(target) if kind == FailureKind::Refused && refusal.status < 400 => self.clean(format!(
                "{} at {} is somewhere else: it sends us to {target} ({}). Correct base_url: a key is not sent after a redirect.",
                self.model,
                self.endpoint.host(),
                refusal.status
            )),
            _ => self.sentence(kind, Some(refusal.status), &said),
        };
        ModelError { kind, message }
    }

    fn broken(&self, reason: &str) -> ModelError {
        let message = format!(
            "The answer of {} at {} cannot be used: {reason}. Try again.",
            self.model,
            self.endpoint.host()
        );
        ModelError { kind: FailureKind::Broken, message: self.clean(message) }
    }

    /// What happened, in the provider's words, and what to do.
    fn sentence(&self, kind: FailureKind, status: Option<u16>, said: &Complaint) -> String {
        let (model, host, key) = (&self.model, self.endpoint.host(), &self.key_name);
        let happened = match kind {
            FailureKind::Wait { .. } if status == Some(429) => {
                format!("{host} is limiting requests to {model}")
            }
            FailureKind::Wait { .. } | FailureKind::Unreachable => {
                format!("{host} cannot answer for {model} at the moment")
            }
            FailureKind::TooLong => format!("The conversation is too long for {model} at {host}"),
            FailureKind::Credentials if said.has(&UNPAID) || status == Some(402) => {
                format!("{host} wants the account of {key} to be paid before {model} answers")
            }
            FailureKind::Credentials => format!("{host} did not accept {key} for {model}"),
            FailureKind::Refused if status == Some(404) => {
                format!("{host} does not know {model}, or not at this address")
            }
            FailureKind::Refused => format!("{host} refused the request to {model}"),
            FailureKind::Broken | FailureKind::Parked | FailureKind::Exhausted | FailureKind::Stopped => {
                format!("{model} at {host} broke off with an error")
            }
        };
        let remedy = match kind {
            FailureKind::Wait { after_seconds: Some(seconds) } => format!("Try again in {seconds} s."),
            FailureKind::Wait { after_seconds: None } | FailureKind::Unreachable => {
                "Try again in a moment.".to_owned()
            }
            FailureKind::TooLong => {
                "Begin a new one with /new, or choose a model with a larger context window.".to_owned()
            }
            FailureKind::Credentials => format!("Check {key} and its account with the provider."),
            FailureKind::Refused if status == Some(404) => {
                "Check the name of the model, and base_url, which usually ends in /v1.".to_owned()
            }
            FailureKind::Refused => {
                "The same request will be refused again: change it, or the model's settings.".to_owned()
            }
            FailureKind::Broken | FailureKind::Parked | FailureKind::Exhausted | FailureKind::Stopped => {
                "Try again.".to_owned()
            }
        };
        let status = status.map(|status| format!(" ({status})")).unwrap_or_default();
        let words = match said.words.trim() {
            "" => String::new(),
            words => format!(": “{}”", excerpt(&self.endpoint.clean(words)).trim_end_matches('.')),
        };
        self.clean(format!("{happened}{status}{words}. {remedy}"))
    }

    fn clean(&self, sentence: String) -> String {
        self.endpoint.clean(&sentence)
    }
}

/// The human part of an error object.
fn words(error: &Value) -> String {
    let spoken = [
        error.get("message"),
        error.get("detail"),
        error.get("error_description"),
        error.get("msg"),
        Some(error),
    ];
    let message = spoken.into_iter().flatten().find_map(spoken_text).unwrap_or_default();
    // A router's own message only says that someone behind it failed; the reason is here.
    match error.pointer("/metadata/raw").and_then(Value::as_str) {
        Some(raw) if !raw.is_empty() => {
            let behind = serde_json::from_str::<Value>(raw).map(|value| Complaint::from_value(&value).words);
            let behind = behind.ok().filter(|words| !words.is_empty()).unwrap_or_else(|| raw.to_owned());
            format!("{message}: {behind}")
        }
        _ => message,
    }
}

fn spoken_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Array(list) => list.first().map(words).filter(|text| !text.is_empty()),
        _ => None,
    }
}

/// What a page for people calls itself.
fn title(page: &str) -> String {
    let lower = page.to_ascii_lowercase();
    let inside = lower.find("<title>").map(|at| at + "<title>".len());
    let title = inside.and_then(|start| {
        let length = lower[start..].find("</title>")?;
        page.get(start..start + length)
    });
    title.map_or_else(|| "a web page".to_owned(), |title| format!("a web page: {}", title.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: FailureKind = FailureKind::Wait { after_seconds: None };

    #[test]
    fn errors_are_told_by_what_can_be_done() {
        use FailureKind::{Broken, Credentials, Refused, TooLong};
        for (status, body, expected) in [
            (
                429,
                r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#,
                WAIT,
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                Credentials,
            ),
            (
                429,
                r#"[{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 23s","status":"RESOURCE_EXHAUSTED"}}]"#,
                WAIT,
            ),
            (
                429,
                r#"{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000"}}"#,
                TooLong,
            ),
            (408, "", WAIT),
            (500, "<html>", WAIT),
            (502, "", WAIT),
            (503, "", WAIT),
            (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, WAIT),
            (500, r#"{"error":{"message":"the request exceeds the available context size"}}"#, TooLong),
            (413, "", TooLong),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}"#,
                TooLong,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
                TooLong,
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096","type":"BadRequestError","code":400}"#,
                TooLong,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#,
                Credentials,
            ),
            (400, r#"{"error":{"message":"API key not valid. Please pass a valid API key."}}"#, Credentials),
            (401, "", Credentials),
            (402, r#"{"error":{"message":"Insufficient credits","code":402}}"#, Credentials),
            (403, "", Credentials),
            (403, r#"{"error":{"message":"Your input was flagged","code":403}}"#, Refused),
            (404, r#"{"error":{"message":"model not found"}}"#, Refused),
            (422, r#"{"detail":[{"msg":"field required","loc":["body"]}]}"#, Refused),
            (400, r#"{"error":"bad tool schema"}"#, Refused),
            (307, "", Refused),
        ] {
            assert_eq!(kind(Some(status), &Complaint::from_body(body), None), expected, "{status} {body}");
        }
        for (body, expected) in [
            (r#"{"error":{"code":502,"message":"Provider disconnected"}}"#, WAIT),
            (r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#, WAIT),
            (r#"{"error":{"type":"rate_limit_error","message":"slow"}}"#, WAIT),
            (r#"{"error":{"type":"authentication_error","message":"x"}}"#, Credentials),
            (r#"{"error":{"type":"invalid_request_error","message":"prompt is too long"}}"#, TooLong),
            (r#"{"error":{"type":"invalid_request_error","message":"no"}}"#, Refused),
            (r#"{"error":{"message":"something strange"}}"#, Broken),
        ] {
            assert_eq!(kind(None, &Complaint::from_body(body), None), expected, "{body}");
        }
    }

    #[test]
    fn the_providers_own_words_are_found_in_every_usual_shape() {
        for (body, words) in [
            (r#"{"error":{"message":"a"}}"#, "a"),
            (r#"{"error":"b"}"#, "b"),
            (r#"{"message":"c"}"#, "c"),
            (r#"{"detail":"d"}"#, "d"),
            (r#"{"detail":[{"msg":"e"}]}"#, "e"),
            (r#"[{"error":{"message":"f"}}]"#, "f"),
            (
                r#"{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"g\"}}"}}}"#,
                "Provider returned error: g",
            ),
            (
                r#"{"error":{"message":"Provider returned error","metadata":{"raw":"h"}}}"#,
                "Provider returned error: h",
            ),
            ("<html><head><TITLE> 502 Bad Gateway </TITLE>", "a web page: 502 Bad Gateway"),
            ("<html>", "a web page"),
            ("plain words", "plain words"),
            ("{}", ""),
            ("null", ""),
        ] {
            assert_eq!(Complaint::from_body(body).words, words, "{body}");
        }
    }

    #[test]
    fn a_wait_is_never_shorter_than_asked() {
        assert_eq!(whole_seconds(Duration::from_millis(1001)), 2);
        assert_eq!(whole_seconds(Duration::from_secs(7)), 7);
    }
}
