//! Signed webhooks: other programs deliver events, and each becomes a turn of its own, or is passed on
//! to people as it is (`deliver_only`).
//!
//! - nothing is looked into before its signature is right, and no route is without one
//! - a delivery is answered with 202 when the intake has it on disk, and with 503 when it cannot
//! - a delivery is recognised by what its signature covers, so that one that is sent again, even a year later and
//!   with other headers, is the same: Svix' id, the time and the body, or the body where nothing else is signed.
//!   Ids in headers that are not signed only name it for people
//! - a route without a secret takes nothing that a web page can have sent
//! - where the answer goes is fixed when the event comes in: a chat of another platform, a comment on
//!   a pull request, or only the log
//!
//! Deliberately absent: scripts that rewrite a delivery (a route that has one is off), and any answer
//! to the sender beyond what became of the delivery.

mod filter;
mod github;
#[cfg(test)]
mod linear;
mod route;
pub mod signature;
pub mod template;

use crate::adapter::{Adapter, ListenEnded, StopSignal};
use crate::incoming::{Attachment, DirectDelivery, Incoming, Intake, NotNow};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path as Segments, Request, State as Extracted};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use filter::FilteredDelivery;
use futures_util::StreamExt;
use http::{HeaderMap, StatusCode};
use hyper_util::service::TowerToHyperService;
use route::{Lock, Route, RouteDefaults, WebhookRoutes};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use signature::Scheme;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use throughline_core::Time;
use throughline_core::input::Destination;
use throughline_core::port::{Health, Outgoing, Pending, Platform, Promise, SendError};
use throughline_core::redact::{Secret, redacted};
use throughline_hermes::source::Source;
use throughline_net::excerpt;
use throughline_net::listener::{self, Limits, Visit};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};

const PLATFORM: &str = "webhook";
pub const PORT: u16 = 8644;
const RATE_WINDOW: Duration = Duration::from_secs(60);
/// A sender that takes longer for a megabyte is not one.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// Senders give up after ten seconds or so; what could not be kept by then is sent again.
const RETRY_AFTER: &str = "30";
/// Ids of senders are short; a longer one is kept as its digest.
const ID_MAX: usize = 120;
const SUBSCRIPTIONS_MAX: u64 = 4 << 20;
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// For deliveries that are being answered when everything stops.
const FAREWELL: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct WebhookSettings {
    /// None: loopback only. Hermes' `platforms.webhook.extra.host`.
    pub host: Option<String>,
    pub port: u16,
    /// For routes that name none.
    pub secret: Option<Secret>,
    /// Hermes' `platforms.webhook.extra.routes`, as written.
    pub routes: Value,
    /// `webhook_subscriptions.json` of the agent's home.
    pub subscriptions: Option<PathBuf>,
    /// The agent's home: filters name files below it.
    pub home: PathBuf,
    /// Deliveries per route and minute.
    pub rate_limit: usize,
    pub body_max: usize,
    /// Profiles that `/p/<profile>/webhooks/<route>` may name. Empty: the prefix means nothing.
    pub profiles: BTreeSet<String>,
    pub places: WebhookPlaces,
    pub limits: Limits,
    /// GitHub's command line.
    pub gh: PathBuf,
}

/// Where an agent can write on a platform: asked for each delivery, because `/sethome` may change it.
pub type WebhookPlaces = Arc<dyn Fn(DeliveryAccount<'_>, &str) -> Option<WebhookPlace> + Send + Sync>;

/// By whose bots something leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryAccount<'a> {
    Own,
    Profile(&'a str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookPlace {
    pub account: String,
    /// The home channel, and its thread.
    pub home: Option<(String, Option<String>)>,
}

impl WebhookSettings {
    pub fn new(home: impl Into<PathBuf>) -> Self {
        let home = home.into();
        Self {
            host: None,
            port: PORT,
            secret: None,
            routes: Value::Null,
            subscriptions: Some(home.join("webhook_subscriptions.json")),
            home,
            rate_limit: 30,
            body_max: 1 << 20,
            profiles: BTreeSet::new(),
            places: Arc::new(|_, _| None),
            limits: Limits::default(),
            gh: PathBuf::from("gh"),
        }
    }
}

pub struct Webhook(Arc<WebhookShared>);

struct WebhookShared {
    settings: WebhookSettings,
    state: Mutex<WebhookState>,
}

struct WebhookState {
    health: Health,
    address: Option<SocketAddr>,
    written: WebhookRoutes,
    routes: Arc<WebhookRoutes>,
    /// What the subscriptions file was when it was last read.
    seen: Option<(SystemTime, u64)>,
    /// When each route was last used, within the window.
    hits: BTreeMap<String, VecDeque<Instant>>,
    /// The last id that was made up.
    minted: i64,
}

impl Webhook {
    pub fn new(settings: WebhookSettings) -> Self {
        let common = RouteDefaults { secret: settings.secret.as_ref(), loopback: is_loopback(&settings) };
        let written = WebhookRoutes::read(&settings.routes, common);
        let state = WebhookState {
            health: Health::Starting,
            address: None,
            routes: Arc::new(written.clone()),
            written,
            seen: None,
            hits: BTreeMap::new(),
            minted: 0,
        };
        let inner = WebhookShared { settings, state: Mutex::new(state) };
        inner.reread();
        Self(Arc::new(inner))
    }

    /// Where it listens, once it does.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.state().address
    }

    /// Routes that are off, each with the reason.
    pub fn off(&self) -> BTreeMap<String, String> {
        self.0.state().routes.off.clone()
    }
}

/// Hermes' words for this machine. Nothing said means loopback, too.
fn is_loopback(settings: &WebhookSettings) -> bool {
    match &settings.host {
        None => true,
        Some(host) => matches!(
            host.trim().to_lowercase().as_str(),
            "127.0.0.1" | "localhost" | "::1" | "[::1]" | "ip6-localhost" | "ip6-loopback"
        ),
    }
}

/// An answer to the sender.
struct HttpAnswer {
    status: StatusCode,
    body: Value,
    retry: bool,
}

impl HttpAnswer {
    fn new(status: StatusCode, body: Value) -> Self {
        Self { status, body, retry: false }
    }

    fn error(status: StatusCode, words: impl Into<String>) -> Self {
        Self::new(status, json!({"error": words.into()}))
    }

    fn again(status: StatusCode, words: impl Into<String>) -> Self {
        Self { retry: true, ..Self::error(status, words) }
    }
}

impl IntoResponse for HttpAnswer {
    fn into_response(self) -> Response {
        let headers = [("content-type", "application/json")];
        let mut response = (self.status, headers, self.body.to_string()).into_response();
        if self.retry {
            response.headers_mut().insert("retry-after", http::HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }
}

impl WebhookShared {
    fn state(&self) -> MutexGuard<'_, WebhookState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the subscriptions if they changed. A file that makes no sense changes nothing: an editor
    /// is writing it.
    fn reread(&self) {
        let Some(path) = &self.settings.subscriptions else { return };
        let data = std::fs::metadata(path).ok().filter(|data| data.len() <= SUBSCRIPTIONS_MAX);
        let seen = data.and_then(|data| Some((data.modified().ok()?, data.len())));
        if self.state().seen == seen {
            return;
        }
        let common =
            RouteDefaults { secret: self.settings.secret.as_ref(), loopback: is_loopback(&self.settings) };
        let subscribed = match seen {
            None => WebhookRoutes::default(),
            Some(_) => {
                let text = std::fs::read_to_string(path).unwrap_or_default();
                match serde_json::from_str::<Value>(&text) {
                    Ok(value @ Value::Object(_)) => WebhookRoutes::read(&value, common),
                    _ => {
                        tracing::warn!(path = %path.display(), "the webhook subscriptions cannot be read; the routes stay as they were");
                        return;
                    }
                }
            }
        };
        let mut state = self.state();
        let routes = state.written.beside(subscribed);
        for (name, reason) in &routes.off {
            tracing::warn!(route = name, reason, "a webhook route is off");
        }
        state.seen = seen;
        state.routes = Arc::new(routes);
    }

    fn is_within_rate(&self, route: &str) -> bool {
        let now = Instant::now();
        let mut state = self.state();
        let hits = state.hits.entry(route.to_owned()).or_default();
        while hits.front().is_some_and(|hit| now.duration_since(*hit) >= RATE_WINDOW) {
            hits.pop_front();
        }
        let within = hits.len() < self.settings.rate_limit;
        if within {
            hits.push_back(now);
        }
        within
    }

    /// Which delivery this is, and what it is called.
    fn delivery(&self, headers: &HeaderMap, body: &[u8], scheme: Option<Scheme>, now: Time) -> NamedDelivery {
        let text =
            |name: &str| headers.get(name)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty());
        let called = |names: &[&str]| names.iter().find_map(|name| text(name)).map(shortened);
        let usual = ["x-github-delivery", "x-request-id", "idempotency-key"];
        let alone = |id: String| NamedDelivery { name: id.clone(), identity: id };
        match scheme {
            Some(Scheme::Svix) => alone(shortened(text("svix-id").unwrap_or_default())),
            Some(Scheme::Generic) => {
                let sent = text("x-webhook-timestamp").unwrap_or_default();
                let identity = digest(&[sent.as_bytes(), b".", body]);
                NamedDelivery { name: called(&usual).unwrap_or_else(|| identity.clone()), identity }
            }
            Some(Scheme::GitHub | Scheme::Bare) => {
                let identity = digest(&[body]);
                NamedDelivery { name: called(&usual).unwrap_or_else(|| identity.clone()), identity }
            }
            // Nothing is signed: a sender with the token, or one that needs none, can send anything. GitLab gives what
            // one webhook sets off by way of another the same id: only with its body it is one.
            Some(Scheme::GitLab) | None => match (called(&usual), text("x-gitlab-event-uuid")) {
                (Some(id), _) => alone(id),
                (None, Some(id)) => alone(digest(&[id.as_bytes(), b".", body])),
                (None, None) => {
                    let mut state = self.state();
                    state.minted = (now.0 / 1000).max(state.minted + 1);
                    alone(state.minted.to_string())
                }
            },
        }
    }

    /// Where what is said goes. The error is a sentence.
    fn place(
        &self,
        route: &Route,
        extra: &Map<String, Value>,
        chat: &str,
        whose: DeliveryAccount<'_>,
    ) -> Result<Destination, String> {
        let text = |name: &str| match extra.get(name) {
            Some(Value::String(text)) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let ours = |chat: String| Destination {
            platform: PLATFORM.to_owned(),
            account: PLATFORM.to_owned(),
            chat,
            thread: None,
            reply_to: None,
        };
        match route.deliver.as_str() {
            "log" => Ok(ours(chat.to_owned())),
            "github_comment" => {
                let target = github::PullRequest::new(text("repo").as_deref(), text("pr_number").as_deref())?;
                Ok(ours(target.to_string()))
            }
            platform => {
                let place = (self.settings.places)(whose, platform).ok_or_else(|| match whose {
                    DeliveryAccount::Own => format!("the platform {platform} is not connected"),
                    DeliveryAccount::Profile(profile) => {
                        format!("the profile {profile} has no platform {platform} to deliver by")
                    }
                })?;
                let thread = text("message_thread_id").or_else(|| text("thread_id"));
                let (chat, home_thread) = match text("chat_id") {
                    Some(chat) => (chat, None),
                    None => place.home.ok_or_else(|| {
                        let of = match whose {
                            DeliveryAccount::Own => String::new(),
                            DeliveryAccount::Profile(profile) => format!(" of the profile {profile}"),
                        };
                        format!(
                            "no chat_id is given and {platform}{of} has no home channel; set one with /sethome"
                        )
                    })?,
                };
                Ok(Destination {
                    platform: platform.to_owned(),
                    account: place.account,
                    chat,
                    thread: thread.or(home_thread),
                    reply_to: None,
                })
            }
        }
    }

    async fn receive(
        &self,
        intake: &dyn Intake,
        profile: Option<&str>,
        name: &str,
        request: Request,
    ) -> HttpAnswer {
        self.reread();
        let routes = self.state().routes.clone();
        let Some(route) = routes.on.get(name) else {
            return match routes.off.contains_key(name) {
                true => HttpAnswer::error(StatusCode::FORBIDDEN, "Route is off; see the gateway's log"),
                false => HttpAnswer::error(StatusCode::NOT_FOUND, "Unknown route"),
            };
        };
        if !route.enabled {
            return HttpAnswer::error(StatusCode::FORBIDDEN, "Route disabled");
        }
        let (parts, body) = request.into_parts();
        let headers = parts.headers;
        if let (Lock::Open, Some(answer)) = (&route.lock, of_a_page(&headers)) {
            return answer;
        }
        let body = match self.body(&headers, body).await {
            Ok(body) => body,
            Err(answer) => return answer,
        };
        let now = intake.now();
        let scheme = match &route.lock {
            Lock::Open => None,
            Lock::Secret(secret) => {
                let scheme = signature::verified(&headers, &body, secret, now.whole_seconds());
                if scheme.is_none() {
                    tracing::warn!(route = name, "a webhook's signature is wrong");
                    return HttpAnswer::error(StatusCode::UNAUTHORIZED, "Invalid signature");
                }
                scheme
            }
        };
        if let Some(visit) = parts.extensions.get::<Visit>() {
            visit.trust();
        }
        // Not before: who may not come in does not learn which profiles there are.
        let profile = match profile.filter(|_| !self.settings.profiles.is_empty()) {
            Some(profile) if !self.settings.profiles.contains(profile) => {
                return HttpAnswer::error(StatusCode::NOT_FOUND, "Unknown or unconfigured profile");
            }
            profile => profile,
        };
        if !self.is_within_rate(name) {
            return HttpAnswer::again(StatusCode::TOO_MANY_REQUESTS, "Rate limit exceeded");
        }
        let Some(payload) = payload(&headers, &body) else {
            return HttpAnswer::error(StatusCode::BAD_REQUEST, "Cannot parse body");
        };
        let event = event_type(&headers, &payload);
        if !route.events.is_empty() && !route.events.contains(&event) {
            return HttpAnswer::new(StatusCode::OK, json!({"status": "ignored", "event": event}));
        }
        let delivery = FilteredDelivery {
            payload: &payload,
            event: &event,
            headers: &headers,
            home: &self.settings.home,
        };
        if !route.filters.iter().all(|filter| filter.lets_through(&delivery)) {
            let body = json!({"status": "ignored", "reason": "filter", "route": name});
            return HttpAnswer::new(StatusCode::OK, body);
        }
        let named = self.delivery(&headers, &body, scheme, now);
        self.hand_in(
            intake,
            WebhookEvent { name, route, profile, payload: &payload, event: &event, named, now },
        )
        .await
    }

    async fn hand_in(&self, intake: &dyn Intake, event: WebhookEvent<'_>) -> HttpAnswer {
        let WebhookEvent { name, route, profile, payload, event, named, now } = event;
        let id = named.name;
        let chat = format!("webhook:{name}:{id}");
        let extra: Map<String, Value> = route
            .extra
            .iter()
            .map(|(key, value)| match value {
                Value::String(template) => {
                    (key.clone(), Value::from(template::filled(template, payload, "")))
                }
                other => (key.clone(), other.clone()),
            })
            .collect();
        // A turn is answered by the bot that its event came in by; what is only passed on leaves by the bots of
        // the agent that it is for.
        let whose = match profile.filter(|_| route.deliver_only) {
            Some(profile) => DeliveryAccount::Profile(profile),
            None => DeliveryAccount::Own,
        };
        let place = match self.place(route, &extra, &chat, whose) {
            Ok(place) => place,
            Err(words) => {
                tracing::warn!(route = name, words, "a webhook's answer would have nowhere to go");
                let body = json!({"status": "error", "error": format!("Delivery failed: {words}"), "delivery_id": id});
                return HttpAnswer::new(StatusCode::BAD_GATEWAY, body);
            }
        };
        let text = template::prompt(&route.prompt, payload, event, name);
        let source = Source {
            chat_name: Some(format!("webhook/{name}")),
            user_id: Some(format!("webhook:{name}")),
            user_name: Some(name.to_owned()),
            message_id: Some(id.clone()),
            profile: profile.map(str::to_owned),
            ..Source::new(PLATFORM, "webhook", chat)
        };
        let identity = vec![name.to_owned(), named.identity];
        let target = route.deliver.as_str();
        let outcome = match route.deliver_only {
            // No conversation: what a route passes on is one stream.
            true => {
                let source = Source { chat_id: format!("webhook:{name}"), ..source };
                intake.deliver(DirectDelivery { source, identity, place, text, at: now }).await
            }
            false => {
                let incoming = Incoming {
                    source,
                    reply_to: place,
                    identity,
                    at: now,
                    text: harmless(name, text),
                    attachments: Vec::new(),
                    quoted: None,
                    from_bot: false,
                    addressed: true,
                    mentioned: false,
                    roles: Vec::new(),
                    edited: false,
                    context: None,
                    skills: route.skills.clone(),
                    gathers: None,
                };
                intake.take(incoming).await
            }
        };
        match outcome {
            Ok(_) => {
                tracing::info!(route = name, event, delivery = id, target, "a webhook was taken in");
                let body = json!({"status": "accepted", "route": name, "event": event, "delivery_id": id});
                HttpAnswer::new(StatusCode::ACCEPTED, body)
            }
            Err(NotNow(words)) => {
                tracing::warn!(route = name, delivery = id, words, "a webhook could not be kept");
                HttpAnswer::again(StatusCode::SERVICE_UNAVAILABLE, "Not now; deliver it again")
            }
        }
    }

    async fn body(&self, headers: &HeaderMap, body: Body) -> Result<Vec<u8>, HttpAnswer> {
        let too_large = || HttpAnswer::error(StatusCode::PAYLOAD_TOO_LARGE, "Payload too large");
        let limit = self.settings.body_max;
        let length = headers.get("content-length").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > limit as u64) {
            return Err(too_large());
        }
        let mut stream = body.into_data_stream();
        let mut bytes = Vec::new();
        let reading = async {
            while let Some(piece) = stream.next().await {
                let piece = piece.map_err(|_| HttpAnswer::error(StatusCode::BAD_REQUEST, "Bad request"))?;
                if bytes.len() + piece.len() > limit {
                    return Err(too_large());
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(())
        };
        let late = |_| Err(HttpAnswer::error(StatusCode::REQUEST_TIMEOUT, "The body took too long"));
        timeout(BODY_PATIENCE, reading).await.unwrap_or_else(late)?;
        Ok(bytes)
    }

    async fn bind(&self) -> std::io::Result<Vec<TcpListener>> {
        let port = self.settings.port;
        let host = self.settings.host.as_deref().map(|host| host.trim().trim_matches(['[', ']']));
        match host.filter(|host| !host.is_empty()) {
            Some(host) => Ok(vec![TcpListener::bind((host, port)).await?]),
            None => {
                let first = TcpListener::bind(("127.0.0.1", port)).await?;
                // A machine without IPv6 has no second loopback to listen on.
                let second = TcpListener::bind(("::1", first.local_addr()?.port())).await.ok();
                Ok(std::iter::once(first).chain(second).collect())
            }
        }
    }
}

struct WebhookEvent<'a> {
    name: &'a str,
    route: &'a Route,
    profile: Option<&'a str>,
    payload: &'a Value,
    event: &'a str,
    named: NamedDelivery,
    now: Time,
}

/// A delivery: by what it is recognised, and what it is called in answers, logs and chats, as in Hermes.
struct NamedDelivery {
    identity: String,
    name: String,
}

fn shortened(id: &str) -> String {
    match id.len() <= ID_MAX && id.chars().all(|letter| letter.is_ascii_graphic()) {
        true => id.to_owned(),
        false => digest(&[id.as_bytes()]),
    }
}

/// Why a web page in a browser may have sent this. A page can send to loopback, but not without saying where it is
/// from, and not JSON, unless the receiver agrees first, which none does here.
fn of_a_page(headers: &HeaderMap) -> Option<HttpAnswer> {
    let value = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if value("origin").is_some() || value("sec-fetch-site").is_some_and(|site| site != "none") {
        return Some(HttpAnswer::error(
            StatusCode::FORBIDDEN,
            "Web pages may not use a route without a secret",
        ));
    }
    let host = value("host").unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    if !name.eq_ignore_ascii_case("localhost") && name.parse::<IpAddr>().is_err() {
        let words = "A route without a secret answers at 127.0.0.1 and localhost only";
        return Some(HttpAnswer::error(StatusCode::FORBIDDEN, words));
    }
    let kind = value("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    (!kind.eq_ignore_ascii_case("application/json")).then(|| {
        let words = "A route without a secret takes JSON only; send `Content-Type: application/json`";
        HttpAnswer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, words)
    })
}

/// What others wrote must not be taken for a command of ours.
fn harmless(route: &str, text: String) -> String {
    match text.trim_start().starts_with('/') {
        true => format!("[webhook {route}] {text}"),
        false => text,
    }
}

fn digest(pieces: &[&[u8]]) -> String {
    let mut sha = Sha256::new();
    pieces.iter().for_each(|piece| sha.update(piece));
    sha.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The body as a mapping: JSON, or a form where it says so.
fn payload(headers: &HeaderMap, body: &[u8]) -> Option<Value> {
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        return value.is_object().then_some(value);
    }
    let kind = headers.get("content-type")?.to_str().ok()?;
    if !kind.starts_with("application/x-www-form-urlencoded") {
        return None;
    }
    let text = std::str::from_utf8(body).ok()?;
    let mut form = reqwest::Url::parse("form:").ok()?;
    form.set_query(Some(text));
    let pairs = form.query_pairs().filter(|(_, value)| !value.is_empty());
    Some(Value::Object(
        pairs.map(|(name, value)| (name.into_owned(), Value::from(value.into_owned()))).collect(),
    ))
}

fn event_type(headers: &HeaderMap, payload: &Value) -> String {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let candidates = [
        header("x-github-event"),
        header("x-gitlab-event"),
        payload["event_type"].as_str(),
        payload["type"].as_str(),
    ];
    candidates.into_iter().flatten().find(|event| !event.is_empty()).unwrap_or("unknown").to_owned()
}

#[derive(Clone)]
struct Counter {
    inner: Arc<WebhookShared>,
    intake: Arc<dyn Intake>,
}

async fn deliver(
    Extracted(counter): Extracted<Counter>,
    Segments(route): Segments<String>,
    request: Request,
) -> HttpAnswer {
    counter.inner.receive(counter.intake.as_ref(), None, &route, request).await
}

async fn deliver_to(
    Extracted(counter): Extracted<Counter>,
    Segments((profile, route)): Segments<(String, String)>,
    request: Request,
) -> HttpAnswer {
    counter.inner.receive(counter.intake.as_ref(), Some(&profile), &route, request).await
}

async fn is_well() -> HttpAnswer {
    HttpAnswer::new(StatusCode::OK, json!({"status": "ok", "platform": PLATFORM}))
}

impl Platform for Webhook {
    fn name(&self) -> &str {
        PLATFORM
    }

    fn is_idempotent(&self) -> bool {
        false
    }

    fn health(&self) -> Health {
        self.0.state().health.clone()
    }

    fn send<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>> {
        Box::pin(async move {
            let chat = &outgoing.destination.chat;
            match chat.parse::<github::PullRequest>() {
                Ok(target) => {
                    let text = match mark {
                        Some(mark) => format!("{mark}\n\n{}", outgoing.text),
                        None => outgoing.text.clone(),
                    };
                    target.comment(&self.0.settings.gh, &text).await.map(|()| None)
                }
                Err(_) => {
                    let said = excerpt(&redacted(&outgoing.text));
                    tracing::info!(chat, said, "the answer to a webhook");
                    Ok(None)
                }
            }
        })
    }
}

impl Adapter for Webhook {
    fn account(&self) -> &str {
        PLATFORM
    }

    fn listen<'a>(&'a self, intake: Arc<dyn Intake>, mut stop: StopSignal) -> Promise<'a, ListenEnded> {
        Box::pin(async move {
            let mut pause = Duration::from_secs(1);
            let listeners = loop {
                let words = match self.0.bind().await {
                    Ok(listeners) => break listeners,
                    Err(error) => {
                        let port = self.0.settings.port;
                        let todo = "Set another host or port under platforms.webhook.extra";
                        match error.kind() {
                            ErrorKind::AddrInUse => {
                                format!("port {port} is in use by another program. {todo}, or stop it")
                            }
                            _ => {
                                let words = format!("port {port} cannot be opened: {error}. {todo}");
                                self.0.state().health = Health::Refused(words.clone());
                                return ListenEnded::Refused(words);
                            }
                        }
                    }
                };
                self.0.state().health = Health::Waiting(words);
                tokio::select! {
                    () = stop.rung() => return ListenEnded::Stopped,
                    () = sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
                }
            };
            let router = Router::new()
                .route("/health", get(is_well))
                .route("/webhooks/{route}", post(deliver))
                .route("/p/{profile}/webhooks/{route}", post(deliver_to))
                .with_state(Counter { inner: self.0.clone(), intake });
            let address = listeners.first().and_then(|listener| listener.local_addr().ok());
            {
                let mut state = self.0.state();
                (state.address, state.health) = (address, Health::Up);
            }
            let bell = stop.clone();
            let serve = |listener| {
                let (service, mut bell) = (TowerToHyperService::new(router.clone()), bell.clone());
                listener::serve(listener, service, self.0.settings.limits, async move { bell.rung().await })
            };
            let serving = listeners.into_iter().map(serve);
            tokio::select! {
                _ = futures_util::future::join_all(serving) => {}
                // What is being answered may finish; a sender who says nothing more is not waited for.
                () = async { stop.rung().await; sleep(FAREWELL).await } => {}
            }
            self.0.state().address = None;
            ListenEnded::Stopped
        })
    }

    fn post<'a>(&'a self, place: &'a Destination, _text: &'a str) -> Promise<'a, Result<String, SendError>> {
        Box::pin(async move { Err(nobody(place)) })
    }

    fn edit<'a>(
        &'a self,
        place: &'a Destination,
        _id: &'a str,
        _text: &'a str,
    ) -> Promise<'a, Result<(), SendError>> {
        Box::pin(async move { Err(nobody(place)) })
    }

    fn can_edit(&self) -> bool {
        false
    }

    fn remove<'a>(&'a self, place: &'a Destination, _id: &'a str) -> Promise<'a, Result<(), SendError>> {
        Box::pin(async move { Err(nobody(place)) })
    }

    fn put<'a>(
        &'a self,
        place: &'a Destination,
        _question: &'a Pending,
    ) -> Promise<'a, Result<String, SendError>> {
        Box::pin(async move { Err(nobody(place)) })
    }

    fn fetch<'a>(
        &'a self,
        _attachment: &'a Attachment,
        _limit: usize,
    ) -> Promise<'a, Result<Vec<u8>, String>> {
        Box::pin(async { Err("a webhook brings no files".to_owned()) })
    }
}

/// Behind a webhook is a program: it sees no passing messages and answers no questions.
fn nobody(place: &Destination) -> SendError {
    SendError::Never { message: format!("nobody reads along at {}", place.chat) }
}
