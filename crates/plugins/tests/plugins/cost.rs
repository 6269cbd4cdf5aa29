//! What a call costs on our side: time of the processor, which a busy machine does not change much.
//!
//! `cargo nextest run --workspace --cargo-profile ci --no-capture -E 'test(cost::)'` prints the figures.

use crate::world::{Plugin, scope};
use throughline_core::memory::Provider;

const CALLS: u64 = 5_000;
/// In seconds of a processor.
const TARGET: f64 = 0.000_3;

/// What this thread has spent, in seconds: all that the host does, it does here.
fn spent() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    ticks as f64 / 100.0
}

#[tokio::test]
async fn a_recall_costs_less_than_its_target_and_an_idle_plugin_nothing() {
    let plugin = Plugin::start(&["chaos"]).await;
    plugin.provider.recall(&scope(), "warm").await.unwrap();
    let before = spent();
    let began = std::time::Instant::now();
    for _ in 0..CALLS {
        plugin.provider.recall(&scope(), "what do I like to drink in the morning?").await.unwrap();
    }
    let each = (spent() - before) / CALLS as f64;
    println!(
        "{:.1} µs of CPU, {:.1} µs of time",
        each * 1e6,
        began.elapsed().as_secs_f64() * 1e6 / CALLS as f64
    );
    assert!(each <= TARGET, "{:.1} µs", each * 1e6);
    let before = spent();
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(spent() - before < 0.011, "{} s", spent() - before); // no tick, or one that was due anyway
}
