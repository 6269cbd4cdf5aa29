//! The models that a configuration can name, and how long each is waited for.

use anyhow::Context;
use std::fs;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_core::port::Model;
use throughline_home::config::{Endpoint, Environment, ModelChoice, ModelTimeouts, Sourced};
use throughline_models::{Anthropic, AnthropicConfig, OpenAi, OpenAiConfig, Rehearsal, RehearsalScript};
use throughline_net::{Client, Timeouts};

/// The way to models, which agents of one process share.
pub fn http() -> Client {
    Client::new(throughline_net::ClientSettings::default())
}

pub fn model(
    choice: &ModelChoice,
    environment: &Environment,
    http: &Client,
) -> anyhow::Result<Arc<dyn Model>> {
    let client = match choice {
        ModelChoice::Rehearsal => http.clone(),
        ModelChoice::OpenAi(endpoint) | ModelChoice::Anthropic(endpoint) => {
            http.waiting(patience(http.timeouts(), &endpoint.timeouts))
        }
    };
    let headers = |endpoint: &Endpoint| {
        endpoint.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect()
    };
    let key = |endpoint: &Endpoint| endpoint.key.as_ref().map(|key| key.value.clone());
    let max_tokens =
        |endpoint: &Endpoint| endpoint.max_tokens.as_ref().and_then(|max| u32::try_from(max.value).ok());
    Ok(match choice {
        ModelChoice::Rehearsal => Arc::new(rehearsal(environment)?),
        ModelChoice::OpenAi(endpoint) => Arc::new(OpenAi::new(
            OpenAiConfig {
                key: key(endpoint),
                key_name: endpoint.key_name.clone(),
                headers: headers(endpoint),
                max_tokens: max_tokens(endpoint),
                ..OpenAiConfig::new(&endpoint.base_url.value, &endpoint.model.value)
            },
            client,
        )?),
        ModelChoice::Anthropic(endpoint) => {
            let usual = AnthropicConfig::new(&endpoint.base_url.value, &endpoint.model.value);
            let max_tokens = max_tokens(endpoint).unwrap_or(usual.max_tokens);
            let config = AnthropicConfig {
                key: key(endpoint),
                key_name: endpoint.key_name.clone(),
                headers: headers(endpoint),
                max_tokens,
                ..usual
            };
            Arc::new(Anthropic::new(config, client)?)
        }
    })
}

/// As long as the user has said, and for a piece of an answer no longer than for the whole.
fn patience(usual: Timeouts, written: &ModelTimeouts) -> Timeouts {
    // A day is as good as for ever, and no number of seconds is too large for a clock.
    let seconds = |written: &Sourced<f64>| Duration::from_secs_f64(written.value.clamp(1.0, 86_400.0));
    let whole = written.request.as_ref().map(seconds);
    let piece = written.stale.as_ref().map(seconds);
    let whole = whole.unwrap_or(usual.whole.max(piece.unwrap_or_default()));
    Timeouts {
        whole,
        first_byte: piece.unwrap_or(usual.first_byte).min(whole),
        silence: piece.unwrap_or(usual.silence).min(whole),
        ..usual
    }
}

/// The offline model. Tests of the whole binary script it with `THROUGHLINE_REHEARSAL` (a file, see
/// `throughline_models::rehearsal`), and read what it was asked from `THROUGHLINE_REHEARSAL_LOG`.
fn rehearsal(environment: &Environment) -> anyhow::Result<Rehearsal> {
    let rehearsal = match environment.get("THROUGHLINE_REHEARSAL") {
        Some(path) => {
            let text = fs::read_to_string(&path).with_context(|| format!("could not read {path}"))?;
            Rehearsal::scripted(RehearsalScript::from_json(&text).context(path)?)
        }
        None => Rehearsal::new(),
    };
    let Some(path) = environment.get("THROUGHLINE_REHEARSAL_LOG") else { return Ok(rehearsal) };
    let log = fs::OpenOptions::new().create(true).append(true).open(&path);
    let log = Mutex::new(log.with_context(|| format!("could not write {path}"))?);
    Ok(rehearsal.watched_by(move |request| {
        let line = format!("{}\n", request.to_json());
        let _ = log.lock().map(|mut log| log.write_all(line.as_bytes()));
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_home::config::Origin;

    #[test]
    fn a_piece_of_an_answer_is_awaited_no_longer_than_the_whole_answer() {
        let usual = Timeouts::default();
        let waited = |request: Option<f64>, stale: Option<f64>| {
            let written = |seconds: f64| Sourced { value: seconds, origin: Origin::Environment };
            let timeouts = ModelTimeouts { request: request.map(written), stale: stale.map(written) };
            let Timeouts { first_byte, silence, whole, .. } = patience(usual, &timeouts);
            [first_byte, silence, whole].map(|time| time.as_secs())
        };
        assert_eq!(waited(None, None), [600, 300, 3600]);
        assert_eq!(waited(Some(60.0), None), [60, 60, 60]);
        assert_eq!(waited(Some(900.0), Some(20.0)), [20, 20, 900]);
        assert_eq!(waited(None, Some(7200.0)), [7200, 7200, 7200]);
        assert_eq!(waited(Some(1e300), Some(0.001)), [1, 1, 86_400]);
    }
}
