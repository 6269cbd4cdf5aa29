//! What an agent compresses with: the built-in engine or a plugin's, and who writes its summaries.

use super::plugins::Plugins;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::compression::engine;
use throughline_core::port::{Engine, Model, Past, Summariser, Wishes};
use throughline_gateway::Compressor;
use throughline_hermes::config::context_window;
use throughline_home::config::{Endpoint, ModelChoice, Settings};
use throughline_models::ModelSummariser;

/// An engine asks about so often for one summary; one that needs longer than this hangs.
const PATIENCE_FACTOR: u32 = 6;

/// Who writes summaries: the first is asked, the others stand in for it.
pub fn summarisers(
    settings: &Settings,
    model: &Arc<dyn Model>,
    other: Option<Arc<dyn Model>>,
) -> Vec<Arc<dyn Summariser>> {
    let compression = &settings.compression;
    let timeout = compression.timeout.value;
    let mut summarisers: Vec<Arc<dyn Summariser>> = Vec::new();
    if let (Some(other), Some(choice)) = (other, &compression.summariser) {
        summarisers.push(Arc::new(ModelSummariser::new(other, window_of(choice), timeout)));
    }
    summarisers.push(Arc::new(ModelSummariser::new(model.clone(), compression.window.value, timeout)));
    summarisers
}

/// The engine, and the size from which a request waits for it; None if it never does.
pub fn compressor(
    settings: &Settings,
    summarisers: Vec<Arc<dyn Summariser>>,
    plugins: &Plugins,
) -> (Compressor, Option<u64>) {
    let compression = &settings.compression;
    let shares = compression.shares(Some(&settings.model));
    let timeout = compression.timeout.value;
    let name = summarisers[0].name().to_owned();
    let hard = compression.enabled.value.then_some(shares.thresholds().hard);
    let digests = shares.clone();
    let (engine, model) = match plugins.engine(&shares) {
        Some(engine) => {
            let name = engine.name().to_owned();
            (engine, name)
        }
        None => (Arc::new(engine::Builtin::new(shares, summarisers)) as Arc<dyn Engine>, name),
    };
    let compressor = Compressor {
        engine,
        model,
        automatic: compression.enabled.value,
        digest: Arc::new(move |past: &Past, _: &Wishes| {
            Some(engine::digest(past, &digests)).filter(|condensed| !condensed.messages.is_empty())
        }),
        memory: None,
        patience: timeout.saturating_mul(PATIENCE_FACTOR).min(Duration::from_secs(3600)),
    };
    (compressor, hard)
}

fn window_of(model: &ModelChoice) -> u64 {
    let Some(endpoint) = endpoint(model) else { return context_window::UNKNOWN };
    let said = endpoint.context_length.as_ref().map(|length| length.value);
    said.unwrap_or_else(|| context_window::assumed(&endpoint.model.value))
}

fn endpoint(model: &ModelChoice) -> Option<&Endpoint> {
    match model {
        ModelChoice::OpenAi(endpoint) | ModelChoice::Anthropic(endpoint) => Some(endpoint),
        ModelChoice::Rehearsal => None,
    }
}
