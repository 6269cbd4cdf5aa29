//! What both kinds of remote servers have in common: the client, its headers and certificates.

use crate::settings::{RemoteSettings, ServerSettings, VerifyTls};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, StatusCode, Url};
use std::time::Duration;

/// A stream that says nothing for so long is gone; pings come more often.
const SILENCE_MAX: Duration = Duration::from_secs(300);
const REDIRECTS_MAX: usize = 10;
/// Larger certificates and token files are something else.
const FILE_LENGTH_MAX: u64 = 1024 * 1024;

pub fn address(server: &str, url: &str) -> Result<Url, String> {
    let invalid = |reason: &str| format!("Invalid MCP URL for '{server}': {reason}");
    let url = url.trim();
    if url.is_empty() {
        return Err(invalid("empty url"));
    }
    let parsed = Url::parse(url).map_err(|error| invalid(&error.to_string()))?;
    match (parsed.scheme(), parsed.host_str()) {
        ("http" | "https", Some(host)) if !host.is_empty() => Ok(parsed),
        ("http" | "https", _) => Err(invalid("missing host")),
        (scheme, _) => Err(invalid(&format!("scheme must be http or https, got '{scheme}'"))),
    }
}

/// A client that carries what the user wrote for this server, and to no other server.
pub fn client(
    settings: &ServerSettings,
    remote: &RemoteSettings,
    token: Option<&str>,
) -> Result<Client, String> {
    throughline_net::install_tls();
    let mut headers = headers(remote)?;
    if let Some(token) = token {
        let mut value: HeaderValue = format!("Bearer {token}")
            .parse()
            .map_err(|_| "the token of its login has characters that headers cannot have".to_owned())?;
        value.set_sensitive(true);
        headers.insert("authorization", value);
    }
    let builder = Client::builder()
        .connect_timeout(settings.connect_timeout)
        .read_timeout(SILENCE_MAX.max(settings.timeout + Duration::from_secs(30)))
        .pool_max_idle_per_host(0)
        .redirect(same_origin())
        .default_headers(headers);
    secured(builder, remote)?.build().map_err(|error| format!("no HTTP client can be made: {error}"))
}

/// The same for its authorization server: with the certificates, without the headers.
pub fn bare(remote: &RemoteSettings) -> Result<Client, String> {
    let builder = Client::builder().redirect(Policy::none()).pool_max_idle_per_host(0);
    secured(builder, remote)?.build().map_err(|error| format!("no HTTP client can be made: {error}"))
}

/// Certificates, ours and theirs.
fn secured(mut builder: ClientBuilder, remote: &RemoteSettings) -> Result<ClientBuilder, String> {
    builder = match &remote.verify {
        VerifyTls::Roots => builder,
        VerifyTls::Nothing => builder.tls_danger_accept_invalid_certs(true),
        VerifyTls::Bundle(path) => {
            let unreadable = |error: &dyn std::fmt::Display| {
                format!("the certificates for ssl_verify in {} cannot be used: {error}", path.display())
            };
            let pem = bounded_file(path).map_err(|error| unreadable(&error))?;
            let roots = Certificate::from_pem_bundle(&pem).map_err(|error| unreadable(&error))?;
            builder.tls_certs_only(roots)
        }
    };
    if let Some(identity) = &remote.identity {
        let mut pem = Vec::new();
        for (path, label) in [(Some(&identity.cert), "client_cert"), (identity.key.as_ref(), "client_key")] {
            let Some(path) = path else { continue };
            let part = bounded_file(path)
                .map_err(|error| format!("{label} {} cannot be read: {error}", path.display()))?;
            pem.extend(part);
            pem.push(b'\n');
        }
        let identity = reqwest::Identity::from_pem(&pem)
            .map_err(|error| format!("client_cert and client_key cannot be used: {error}"))?;
        builder = builder.identity(identity);
    }
    Ok(builder)
}

fn headers(remote: &RemoteSettings) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &remote.headers {
        let name: HeaderName =
            name.parse().map_err(|_| format!("'{name}' below headers is not the name of a header"))?;
        let mut value: HeaderValue = value
            .expose()
            .parse()
            .map_err(|_| format!("the value of the header {name} has characters that headers cannot have"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

pub fn bounded_file(path: &std::path::Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_LENGTH_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Only to the same place, and only in the ways that keep the message: headers hold secrets.
fn same_origin() -> Policy {
    Policy::custom(|attempt| {
        let keeps_body =
            matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let is_same =
            attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if !keeps_body || !is_same {
            attempt.stop()
        } else if attempt.previous().len() > REDIRECTS_MAX {
            attempt.error("too many redirects")
        } else {
            attempt.follow()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_none_is_named() {
        for (url, expected) in [
            ("", "Invalid MCP URL for 's': empty url"),
            ("ws://host/mcp", "Invalid MCP URL for 's': scheme must be http or https, got 'ws'"),
            ("host/mcp", "Invalid MCP URL for 's': relative URL without a base"),
        ] {
            assert_eq!(address("s", url), Err(expected.to_owned()));
        }
        assert!(address("s", " https://host:8443/mcp?x=1 ").is_ok());
    }
}
