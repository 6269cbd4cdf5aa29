//! One pool of connections for everything that is asked.

use crate::endpoint::{Endpoint, root_cause};
use crate::error::{HttpRefusal, NetError, NetStage};
use crate::response::HttpReply;
use crate::retry::retry_after;
use bytes::Bytes;
use reqwest::Method;
use reqwest::header::LOCATION;
use reqwest::redirect::Policy;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientSettings {
    pub timeouts: Timeouts,
    pub limits: Limits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// From the end of the request to the headers, and again from there to the first of the body.
    pub first_byte: Duration,
    /// Between two pieces of the body. A comment that keeps a stream alive is one.
    pub silence: Duration,
    /// All of it. A stream that only says it is alive ends here.
    pub whole: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            // A host across the world with one packet lost needs 4 s; more means it is not there.
            connect: Duration::from_secs(10),
            // A local server loads its model from disk and reads a long prompt before it says a word.
            first_byte: Duration::from_secs(600),
            // Reasoning models think in silence after their first byte; the longest thoughts seen are minutes.
            silence: Duration::from_secs(300),
            // Longer than any answer a person waits for, shorter than for ever.
            whole: Duration::from_secs(3600),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of the body as it is read, after decompression.
    pub body: usize,
    pub event: usize,
    /// What is read of an answer other than success.
    pub refusal: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // The longest answers are some hundred thousand tokens: 4 MB, and 30 times that as a
            // stream of one event per token would still be unheard of.
            body: 64 << 20,
            // One event may carry a whole tool call or a picture.
            event: 8 << 20,
            // The reason stands at the beginning.
            refusal: 16 << 10,
        }
    }
}

/// Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    settings: ClientSettings,
    /// By road: see [`Client::road`]. Built when first needed: reading the system's certificates
    /// takes longer than everything else at start, and a machine without any can still ask its own.
    roads: Arc<[OnceLock<reqwest::Client>; 4]>,
}

impl Client {
    pub fn new(settings: ClientSettings) -> Self {
        Self { settings, roads: Arc::default() }
    }

    pub fn timeouts(&self) -> Timeouts {
        self.settings.timeouts
    }

    /// The same connections, with other patience. How long a connection may take is the same for all who share them.
    pub fn waiting(&self, timeouts: Timeouts) -> Self {
        let timeouts = Timeouts { connect: self.settings.timeouts.connect, ..timeouts };
        Self { settings: ClientSettings { timeouts, ..self.settings }, roads: self.roads.clone() }
    }

    /// Sends `body` as JSON. Returns when the headers of a success are there.
    pub async fn post(&self, endpoint: &Endpoint, body: impl Into<Bytes>) -> Result<HttpReply, NetError> {
        self.ask(Method::POST, endpoint, Some(body.into())).await
    }

    /// Reads what is there. Returns when the headers of a success are.
    pub async fn get(&self, endpoint: &Endpoint) -> Result<HttpReply, NetError> {
        self.ask(Method::GET, endpoint, None).await
    }

    /// Has something deleted. Returns when the headers of a success are there.
    pub async fn delete(&self, endpoint: &Endpoint) -> Result<HttpReply, NetError> {
        self.ask(Method::DELETE, endpoint, None).await
    }

    async fn ask(
        &self,
        method: Method,
        endpoint: &Endpoint,
        body: Option<Bytes>,
    ) -> Result<HttpReply, NetError> {
        let ClientSettings { timeouts, limits } = self.settings;
        let deadline = Instant::now() + timeouts.whole;
        let road = self.road(endpoint).await?;
        let mut request = road.request(method, endpoint.url().clone());
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let request = request.headers(endpoint.headers().clone());
        let response = timeout(timeouts.first_byte, request.send())
            .await
            .map_err(|_| NetError::TimedOut { stage: NetStage::FirstByte, limit: timeouts.first_byte })?
            .map_err(|error| endpoint.failure(error, timeouts.connect))?;
        let status = response.status();
        tracing::debug!(host = endpoint.host(), status = status.as_u16(), "answered");
        let wait = retry_after(response.headers());
        let redirect =
            response.headers().get(LOCATION).and_then(|value| elsewhere(endpoint, value.to_str().ok()?));
        let reply = HttpReply::new(response, endpoint.clone(), self.settings, deadline);
        if status.is_success() {
            return Ok(reply);
        }
        let body = reply.beginning(limits.refusal).await;
        let refusal = HttpRefusal { status: status.as_u16(), retry_after: wait, body, redirect };
        Err(NetError::Status(Box::new(refusal)))
    }

    /// The client for this kind of destination: a proxy from the environment may stand before the
    /// world, never before this machine; certificates are needed only where they are checked.
    async fn road(&self, endpoint: &Endpoint) -> Result<&reqwest::Client, NetError> {
        let road = Road { secure: endpoint.is_secure(), loopback: endpoint.is_loopback() };
        let slot = &self.roads[usize::from(road.secure) * 2 + usize::from(road.loopback)];
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let connect = self.settings.timeouts.connect;
        let built = spawn_blocking(move || road.build(connect)).await; // reads files
        let client = built
            .map_err(|panic| panic.to_string())
            .and_then(|built| built.map_err(|error| root_cause(&error)));
        let client = client.map_err(|reason| {
            NetError::Unusable(format!(
                "no safe connection can be made from here: {reason}. Install the system's CA certificates (package ca-certificates)"
            ))
        })?;
        Ok(slot.get_or_init(|| client))
    }
}

#[derive(Clone, Copy)]
struct Road {
    secure: bool,
    loopback: bool,
}

impl Road {
    fn build(self, connect: Duration) -> reqwest::Result<reqwest::Client> {
        crate::install_tls();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("throughline/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .referer(false)
            .connect_timeout(connect)
            .http2_keep_alive_interval(Duration::from_secs(30)) // a dead connection shows while a model thinks
            .http2_keep_alive_timeout(Duration::from_secs(20))
            .pool_idle_timeout(Duration::from_secs(50)) // load balancers hang up after 60
            .tcp_nodelay(true);
        if self.loopback {
            builder = builder.no_proxy();
        }
        if !self.secure {
            builder = builder.tls_certs_only([]);
        }
        builder.build()
    }
}

/// Scheme and host of where a redirect leads: the rest could carry a secret.
fn elsewhere(endpoint: &Endpoint, location: &str) -> Option<String> {
    let url = endpoint.url().join(location).ok()?;
    Some(format!("{}://{}", url.scheme(), url.host_str()?))
}
