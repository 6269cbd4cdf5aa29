//! Slack's Web API: one way to call it, and what its answers mean.
//!
//! Most refusals come as status 200 with a name in the body. Each name ends in one of a few meanings,
//! by what can be done about it. No word of an error carries a token, an address or a message.

use super::SlackSettings;
use crate::SendError;
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;
use std::time::Duration;
use throughline_core::redact::{Secret, redacted};
use throughline_net::excerpt;

/// The longest answers are lists of scopes and profiles.
const ANSWER_MAX: usize = 4 << 20;
/// A reply waits this long for the operator to renew a token before it is tried again.
const RENEWAL: Duration = Duration::from_secs(900);
/// Slack's own hosts: a token goes to no other.
const HOSTS: [&str; 4] = ["slack.com", "slack-files.com", "slack-edge.com", "slack-gov.com"];

/// Whose word a call is.
#[derive(Clone, Copy)]
pub(super) enum TokenKind {
    Bot,
    App,
}

/// How the arguments travel. Methods that read take no JSON.
pub(super) enum CallBody<'a> {
    Form(&'a [(&'a str, &'a str)]),
    Json(Value),
}

/// What became of a call that did not go well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SlackFailure {
    /// It did not reach Slack.
    Unreached(String),
    /// It may have been done.
    Unclear(String),
    /// Too many calls.
    Limited(Option<Duration>),
    /// Slack said no, by name.
    No { error: String, needed: Option<String> },
}

pub(super) struct SlackApi {
    client: reqwest::Client,
    base: Url,
    bot: Secret,
    app: Secret,
    patience: Duration,
}

impl SlackApi {
    pub fn new(settings: &SlackSettings) -> Result<Self, String> {
        throughline_net::install_tls();
        let mut base = settings.base.trim().to_owned();
        if !base.ends_with('/') {
            base.push('/');
        }
        let base = Url::parse(&base)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some())
            .ok_or_else(|| {
                "the address of Slack's API is not one; it should look like https://slack.com/api".to_owned()
            })?;
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("throughline/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none()) // a token must not follow one
            .connect_timeout(settings.patience.min(Duration::from_secs(10)))
            .pool_idle_timeout(Duration::from_secs(50)) // load balancers hang up after 60
            .tcp_nodelay(true);
        if base.scheme() == "http" {
            builder = builder.no_proxy().tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| {
            format!("no safe connection can be made from here: {error}. Install the system's CA certificates (package ca-certificates)")
        })?;
        let SlackSettings { bot_token, app_token, patience, .. } = settings.clone();
        Ok(Self { client, base, bot: bot_token, app: app_token, patience })
    }

    /// Whether what Slack answers may be plain, too: only a server on a plain address says so.
    pub fn is_plain(&self) -> bool {
        self.base.scheme() == "http"
    }

    pub async fn call(
        &self,
        token: TokenKind,
        method: &str,
        body: CallBody<'_>,
    ) -> Result<Value, SlackFailure> {
        self.call_within(self.patience, token, method, body).await
    }

    /// For what is nice to know: `patience` is shorter than usual.
    pub async fn call_within(
        &self,
        patience: Duration,
        token: TokenKind,
        method: &str,
        body: CallBody<'_>,
    ) -> Result<Value, SlackFailure> {
        let url = self
            .base
            .join(method)
            .map_err(|_| SlackFailure::Unreached(format!("{method} makes no address")))?;
        let request = match body {
            CallBody::Form(pairs) => {
                let mut form = self.base.clone();
                form.query_pairs_mut().clear().extend_pairs(pairs);
                self.client
                    .request(Method::POST, url)
                    .header("content-type", "application/x-www-form-urlencoded")
                    .body(form.query().unwrap_or_default().to_owned())
            }
            CallBody::Json(value) => self
                .client
                .request(Method::POST, url)
                .header("content-type", "application/json; charset=utf-8")
                .body(value.to_string()),
        };
        let secret = match token {
            TokenKind::Bot => &self.bot,
            TokenKind::App => &self.app,
        };
        let response = self.send(request.bearer_auth(secret.expose()).timeout(patience)).await?;
        answer(response).await
    }

    /// A file to the address that Slack gave for it. Nothing is shown before the upload is completed.
    pub async fn upload(&self, address: &str, bytes: Vec<u8>) -> Result<(), SlackFailure> {
        let url = self.trusted(address).map_err(SlackFailure::Unreached)?;
        // As long as a slow line needs for the largest file, and not for ever.
        let patience = self.patience + Duration::from_secs(bytes.len() as u64 / 100_000);
        let request = self.client.post(url).header("content-type", "application/octet-stream");
        let response = self.send(request.body(bytes).timeout(patience)).await?;
        match response.status() {
            status if status.is_success() => Ok(()),
            StatusCode::TOO_MANY_REQUESTS => Err(SlackFailure::Limited(retry_after(&response))),
            status => Err(SlackFailure::Unreached(format!("the upload was answered with status {status}"))),
        }
    }

    /// What lies at an address of Slack's, up to `limit` bytes. The error is a sentence.
    pub async fn download(&self, address: &str, limit: usize) -> Result<Vec<u8>, String> {
        let url = self.trusted(address)?;
        let request = self.client.get(url).bearer_auth(self.bot.expose()).timeout(self.patience);
        let response = self.send(request).await.map_err(|failure| failure.in_words())?;
        let status = response.status();
        let kind = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        let is_page = kind.is_some_and(|kind| kind.starts_with("text/html"));
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                return Err("the file is no longer in Slack".to_owned());
            }
            status if !status.is_success() || is_page => {
                return Err(
                    "Slack does not let this app read the file. Give it the scope files:read and reinstall it"
                        .to_owned(),
                );
            }
            _ => {}
        }
        collect(response, limit).await.map_err(|error| match error {
            Overflow::TooLong => format!("the file is larger than {limit} bytes"),
            Overflow::Lost(words) => format!("the file broke off: {words}"),
        })
    }

    /// A token, or a file, goes to Slack's hosts and to the configured server, and nowhere else.
    fn trusted(&self, address: &str) -> Result<Url, String> {
        let url = Url::parse(address).map_err(|_| "Slack named no address for the file".to_owned())?;
        let host = url.host_str().unwrap_or_default();
        let ours = url.scheme() == "https"
            && HOSTS.iter().any(|known| host == *known || host.ends_with(&format!(".{known}")));
        let same = (url.scheme(), host, url.port_or_known_default())
            == (
                self.base.scheme(),
                self.base.host_str().unwrap_or_default(),
                self.base.port_or_known_default(),
            );
        match ours || same {
            true => Ok(url),
            false => Err(format!("the file lies at {host}, which is not Slack; it is not fetched")),
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, SlackFailure> {
        request.send().await.map_err(|error| {
            let words = redacted(&cause(&error));
            match error.is_connect() || error.is_builder() {
                true => SlackFailure::Unreached(format!("Slack cannot be reached: {words}")),
                false if error.is_timeout() => {
                    SlackFailure::Unclear("Slack did not answer in time".to_owned())
                }
                false => SlackFailure::Unclear(format!("Slack hung up before it answered: {words}")),
            }
        })
    }
}

/// The innermost reason: the outer ones only repeat the address.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

async fn answer(response: Response) -> Result<Value, SlackFailure> {
    let status = response.status();
    if status == StatusCode::TOO_MANY_REQUESTS {
        return Err(SlackFailure::Limited(retry_after(&response)));
    }
    if status.is_redirection() {
        return Err(SlackFailure::Unreached("something before Slack answers with a redirect".to_owned()));
    }
    if status.is_server_error() {
        return Err(SlackFailure::Unclear(format!("Slack answered with status {}", status.as_u16())));
    }
    let wait = retry_after(&response);
    let body = collect(response, ANSWER_MAX).await.map_err(|error| {
        SlackFailure::Unclear(match error {
            Overflow::TooLong => "Slack's answer has no end".to_owned(),
            Overflow::Lost(words) => format!("Slack's answer broke off: {words}"),
        })
    })?;
    let Ok(value) = serde_json::from_slice::<Value>(&body) else {
        return Err(match status.is_success() {
            true => SlackFailure::Unclear("Slack's answer cannot be read".to_owned()),
            false => SlackFailure::No { error: format!("status_{}", status.as_u16()), needed: None },
        });
    };
    if value["ok"] == true {
        return Ok(value);
    }
    let error = match value["error"].as_str() {
        Some(error) => excerpt(&redacted(error)),
        None => format!("status_{}", status.as_u16()),
    };
    Err(match error.as_str() {
        "ratelimited" | "rate_limited" => SlackFailure::Limited(wait),
        "internal_error" | "fatal_error" => SlackFailure::Unclear(format!("Slack answered {error}")),
        "service_unavailable" | "request_timeout" | "team_added_to_org" => {
            SlackFailure::Unreached(format!("Slack answered {error}"))
        }
        _ => SlackFailure::No { needed: value["needed"].as_str().map(excerpt), error },
    })
}

enum Overflow {
    TooLong,
    Lost(String),
}

async fn collect(mut response: Response, limit: usize) -> Result<Vec<u8>, Overflow> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| Overflow::Lost(cause(&error)))? {
        if body.len() + piece.len() > limit {
            return Err(Overflow::TooLong);
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// Slack counts in whole seconds. An hour is the most that a reply waits without another look.
fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get("retry-after")?.to_str().ok()?;
    text.trim().parse::<u64>().ok().map(|seconds| Duration::from_secs(seconds.min(3600)))
}

impl SlackFailure {
    /// What the operator has to do before anything works again, if so.
    pub fn refusal(&self) -> Option<String> {
        let SlackFailure::No { error, needed } = self else { return None };
        let todo = match error.as_str() {
            "invalid_auth" | "not_authed" | "status_401" => {
                "Slack does not know the token. Put the current one into SLACK_BOT_TOKEN (xoxb-…) or SLACK_APP_TOKEN (xapp-…)"
            }
            "token_revoked" | "token_expired" => {
                "the token was revoked or has expired. Reinstall the app, and put the new token into SLACK_BOT_TOKEN"
            }
            "account_inactive" => {
                "the bot's account was deactivated. Reinstall the app to the workspace, and put the new token into SLACK_BOT_TOKEN"
            }
            "not_allowed_token_type" | "no_permission" => {
                "the token is of the wrong kind: SLACK_BOT_TOKEN begins with xoxb-, SLACK_APP_TOKEN with xapp-"
            }
            "missing_scope" => {
                let needed = needed.as_deref().unwrap_or("(not named)");
                return Some(format!(
                    "Slack refused with missing_scope: the app lacks the scope {needed}. Add it under OAuth & Permissions and reinstall the app"
                ));
            }
            "org_login_required"
            | "ekm_access_denied"
            | "team_access_not_granted"
            | "access_denied"
            | "accesslimited"
            | "enterprise_is_restricted"
            | "two_factor_setup_required" => {
                "the workspace does not let this app in. Ask an administrator of the workspace"
            }
            "link_disabled" | "socket_mode_disabled" | "connections_disabled" => {
                "Socket Mode is off for this app. Turn it on under Settings > Socket Mode"
            }
            _ => return None,
        };
        Some(format!("Slack refused with {error}: {todo}"))
    }

    /// What to make of a message to `chat` that failed so.
    pub fn of_message(self, chat: &str) -> SendError {
        if let Some(message) = self.refusal() {
            // It is the account, not the message: a renewed token delivers it.
            return SendError::Later { after: Some(RENEWAL), message };
        }
        match self {
            SlackFailure::Unreached(message) => SendError::Later { after: None, message },
            SlackFailure::Limited(after) => {
                SendError::Later { after, message: "Slack asks for patience (ratelimited)".to_owned() }
            }
            SlackFailure::Unclear(message) => SendError::Unknown { message },
            SlackFailure::No { error, .. } => SendError::Never { message: chat_words(&error, chat) },
        }
    }

    pub fn in_words(&self) -> String {
        self.refusal().unwrap_or_else(|| match self {
            SlackFailure::Unreached(words) | SlackFailure::Unclear(words) => words.clone(),
            SlackFailure::Limited(_) => "Slack asks for patience (ratelimited)".to_owned(),
            SlackFailure::No { error, .. } => format!("Slack refused with {error}"),
        })
    }

    pub fn is(&self, name: &str) -> bool {
        matches!(self, SlackFailure::No { error, .. } if error == name)
    }
}

fn chat_words(error: &str, chat: &str) -> String {
    let todo = match error {
        "channel_not_found" => {
            "the chat was deleted, or the bot cannot see it. If it still exists, invite the bot"
        }
        "is_archived" => "the channel is archived. Unarchive it to go on",
        "not_in_channel" => "the bot is not a member. Invite it with /invite",
        "restricted_action"
        | "restricted_action_read_only_channel"
        | "restricted_action_thread_only_channel" => {
            "the channel does not let the bot post. Ask whoever manages it"
        }
        "user_not_found" | "users_not_found" | "user_disabled" | "cannot_dm_bot" => {
            "nobody is there to read it"
        }
        "msg_too_long" => "the message is too long",
        "no_text" => "the message is empty",
        "message_not_found" | "thread_not_found" => "the message it belongs to was deleted",
        _ => "nothing can be done about it from here",
    };
    format!("Slack refused a message to {chat} with {error}: {todo}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no(error: &str) -> SlackFailure {
        SlackFailure::No { error: error.to_owned(), needed: None }
    }

    #[test]
    fn a_refusal_concerns_the_account_or_the_chat() {
        for error in ["invalid_auth", "token_revoked", "account_inactive", "missing_scope"] {
            assert!(no(error).refusal().is_some_and(|words| words.contains(error)), "{error}");
            let later = no(error).of_message("C1");
            assert!(matches!(later, SendError::Later { after: Some(_), .. }), "{error}");
        }
        for error in
            ["channel_not_found", "is_archived", "not_in_channel", "msg_too_long", "of_a_later_slack"]
        {
            assert_eq!(no(error).refusal(), None);
            let SendError::Never { message } = no(error).of_message("C1") else { panic!("{error}") };
            assert!(message.contains(error) && message.contains("C1"), "{message}");
        }
    }

    #[test]
    fn a_token_goes_to_slack_and_nowhere_else() {
        let api = |base: &str| {
            let settings = SlackSettings { base: base.to_owned(), ..SlackSettings::new("xoxb-1", "xapp-1") };
            SlackApi::new(&settings).unwrap()
        };
        let slack = api("http://127.0.0.1:9/api");
        for (address, trusted) in [
            ("https://files.slack.com/files-pri/T1-F1/a.png", true),
            ("https://slack.com/x", true),
            ("http://127.0.0.1:9/files/1", true),
            ("http://127.0.0.1:10/files/1", false),
            ("http://files.slack.com/x", false),
            ("https://slack.com.evil.example/x", false),
            ("https://evilslack.com/x", false),
            ("https://evil.example/?slack.com", false),
            ("file:///etc/passwd", false),
            ("", false),
        ] {
            assert_eq!(slack.trusted(address).is_ok(), trusted, "{address}");
        }
        assert!(
            SlackApi::new(&SlackSettings { base: "ftp://x".to_owned(), ..SlackSettings::new("a", "b") })
                .is_err()
        );
    }
}
