//! Where to ask, and with which secrets. Parsed once; nothing of it can be printed by accident.

use crate::error::NetError;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::net::IpAddr;
use throughline_core::redact::{Secret, redacted};

/// Shorter ones are words (`none`, `ollama`): cutting them out would only garble the text.
const SECRET_LENGTH_MIN: usize = 8;

/// What a header or a query field is called when its value is secret.
const SECRET_NAMES: [&str; 7] = ["key", "token", "auth", "secret", "cookie", "password", "signature"];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    #[error("{address:?} is not an address: {reason}. It should look like https://host/v1")]
    Address { address: String, reason: String },
    #[error("{name:?} cannot be the name of an HTTP header")]
    HeaderName { name: String },
    /// The value is not shown: it may be a secret.
    #[error("the value of header {name} has a line break or another character that cannot be sent")]
    HeaderValue { name: String },
}

/// One address with the headers that go with it.
#[derive(Clone)]
pub struct Endpoint {
    url: Url,
    headers: HeaderMap,
    secrets: Vec<String>,
    host: String,
}

impl Endpoint {
    /// `path` below `base`. A query in `base` stays: some servers want a version there.
    pub fn new(base: &str, path: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = |reason: &str| InvalidEndpoint::Address {
            address: without_secrets(base),
            reason: reason.to_owned(),
        };
        let mut url = Url::parse(base.trim()).map_err(|error| invalid(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("only http and https can be asked"));
        }
        let name = url.host_str().ok_or_else(|| invalid("it names no host"))?.to_owned();
        let host = url.port().map_or_else(|| name.clone(), |port| format!("{name}:{port}"));
        let below = format!("{}/{}", url.path().trim_end_matches('/'), path.trim_start_matches('/'));
        url.set_path(below.trim_end_matches('/'));
        url.set_fragment(None);
        let mut secrets: Vec<String> = url.password().map(str::to_owned).into_iter().collect();
        let fields = url.query_pairs().filter(|(name, _)| is_secret_name(name));
        secrets.extend(fields.map(|(_, value)| value.into_owned()));
        Ok(Self { url, headers: HeaderMap::new(), secrets, host })
    }

    /// A header that the user or the provider wants. Its value is secret if its name says so.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, InvalidEndpoint> {
        if is_secret_name(name) {
            return self.secret_header(name, "", &Secret::new(value));
        }
        let (name, value) = parsed(name, value)?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// A header whose value is `scheme` (`"Bearer "`, or nothing) and then a secret.
    pub fn secret_header(
        mut self,
        name: &str,
        scheme: &str,
        secret: &Secret,
    ) -> Result<Self, InvalidEndpoint> {
        let (name, mut value) = parsed(name, &format!("{scheme}{}", secret.expose()))?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        self.secrets.push(secret.expose().to_owned());
        Ok(self)
    }

    /// Host and port, as they may be shown: no user, no path, no query.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// `text` without anything this endpoint was asked with, and without what looks like a key.
    pub fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.secrets.iter().filter(|secret| secret.len() >= SECRET_LENGTH_MIN) {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), "…");
            }
        }
        redacted(&text)
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// On this machine: no proxy may stand between.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        match host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => host == "localhost" || host.ends_with(".localhost"),
        }
    }

    /// What a failed attempt to ask means. The address is never part of the words.
    pub(crate) fn failure(&self, error: reqwest::Error, connect: std::time::Duration) -> NetError {
        let words = self.clean(&root_cause(&error));
        if let Some(reason) = tls_reason(&error) {
            return NetError::Unusable(format!("no safe connection to {}: {reason}", self.host));
        }
        if error.is_connect() && error.is_timeout() {
            return NetError::TimedOut { stage: crate::NetStage::Connecting, limit: connect };
        }
        if error.is_builder() {
            return NetError::Unusable(format!("the request cannot be made: {words}"));
        }
        match error.is_connect() {
            true => NetError::Unreachable(format!("no connection to {}: {words}", self.host)),
            false => NetError::HungUp(format!("{} hung up before it answered: {words}", self.host)),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Endpoint({})", self.host)
    }
}

fn parsed(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), InvalidEndpoint> {
    let header = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| InvalidEndpoint::HeaderName { name: name.to_owned() })?;
    let value =
        HeaderValue::from_str(value).map_err(|_| InvalidEndpoint::HeaderValue { name: name.to_owned() })?;
    Ok((header, value))
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|word| name.contains(word))
}

/// An address that did not parse, up to where a password or a query could begin.
fn without_secrets(address: &str) -> String {
    let shown = address.split(['?', '#']).next().unwrap_or_default();
    match shown.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => redacted(shown),
    }
}

/// The innermost reason: the layers above it only say that something below failed.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Set where the handshake failed for a reason that stays the same however often one tries.
pub fn tls_reason(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let mut cause = Some(error);
    while let Some(current) = cause {
        // An `io::Error` does not name what it wraps as its source.
        let wrapped = current.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let tls = current
            .downcast_ref::<rustls::Error>()
            .or_else(|| wrapped.and_then(|inner| inner.downcast_ref::<rustls::Error>()));
        match tls {
            Some(rustls::Error::InvalidCertificate(_)) => {
                return Some(
                    "its certificate is not trusted here. Install the authority that signed it, or check the address",
                );
            }
            Some(rustls::Error::InvalidMessage(_)) => {
                return Some("it does not speak TLS. Did you mean http://?");
            }
            _ => {}
        }
        cause = match wrapped {
            Some(inner) => Some(inner as &(dyn std::error::Error + 'static)),
            None => current.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_and_queries_stay() {
        for (base, path, url, host) in [
            (
                "https://api.example.com/v1",
                "chat/completions",
                "https://api.example.com/v1/chat/completions",
                "api.example.com",
            ),
            (
                "http://127.0.0.1:11434/v1/",
                "/chat/completions",
                "http://127.0.0.1:11434/v1/chat/completions",
                "127.0.0.1:11434",
            ),
            ("https://x.example/a?api-version=2", "b", "https://x.example/a/b?api-version=2", "x.example"),
            (" https://x.example/a/b#c ", "", "https://x.example/a/b", "x.example"),
            ("https://user:geheimnis@x.example", "v1", "https://user:geheimnis@x.example/v1", "x.example"),
        ] {
            let endpoint = Endpoint::new(base, path).unwrap();
            assert_eq!(endpoint.url().as_str(), url);
            assert_eq!(endpoint.host(), host);
        }
    }

    #[test]
    fn bad_addresses_and_headers_are_named_without_secrets() {
        let message = Endpoint::new("user:canary-password@host", "v1").unwrap_err().to_string();
        assert!(!message.contains("canary"), "{message}");
        let message = Endpoint::new("ftp://host/x?key=canary-key-value", "v1").unwrap_err().to_string();
        assert!(message.contains("only http and https") && !message.contains("canary"), "{message}");
        let endpoint = Endpoint::new("http://host", "").unwrap();
        let secret = Secret::new("canary\nkey-value");
        let message =
            endpoint.clone().secret_header("authorization", "Bearer ", &secret).unwrap_err().to_string();
        assert!(message.contains("authorization") && !message.contains("canary"), "{message}");
        assert!(endpoint.header("bad name", "x").is_err());
    }

    #[test]
    fn p31_its_own_secrets_are_cut_from_any_text() {
        let endpoint =
            Endpoint::new("https://me:pass-canary-1@host/x?api_key=query-canary-2&v=visible-value", "y")
                .unwrap()
                .secret_header("authorization", "Bearer ", &Secret::new("header-canary-3"))
                .unwrap()
                .header("X-Access-Token", "extra-canary-4")
                .unwrap()
                .header("X-Title", "visible-title")
                .unwrap();
        let text = "pass-canary-1 query-canary-2 header-canary-3 extra-canary-4 visible-title visible-value";
        assert_eq!(endpoint.clean(text), "… … … … visible-title visible-value");
        assert!(!format!("{endpoint:?}").contains("canary"));
        assert_eq!(format!("{:?}", Secret::new("canary")), "Secret(set, 6 characters)");
    }

    #[test]
    fn loopback_is_told_from_the_world() {
        for (base, loopback) in [
            ("http://localhost:1/v1", true),
            ("http://127.9.9.9/", true),
            ("http://[::1]:8080/", true),
            ("http://ollama.localhost/", true),
            ("http://192.168.1.2/", false),
            ("https://localhost.example.com/", false),
        ] {
            assert_eq!(Endpoint::new(base, "").unwrap().is_loopback(), loopback, "{base}");
        }
    }

    #[test]
    fn an_untrusted_certificate_is_no_passing_trouble() {
        let untrusted = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let wrapped = std::io::Error::new(std::io::ErrorKind::InvalidData, untrusted);
        assert!(tls_reason(&wrapped).unwrap().contains("certificate"));
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(tls_reason(&refused), None);
    }
}
