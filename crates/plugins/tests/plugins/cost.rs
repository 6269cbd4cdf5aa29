//! What a call costs on our side. `cargo nextest run -p throughline-plugins --run-ignored all -E 'test(cost)'`

use crate::world::{Plugin, scope, spent};
use throughline_core::memory::Provider;

const CALLS: u64 = 20_000;
/// In seconds of CPU.
const TARGET: f64 = 0.000_3;

#[tokio::test]
#[ignore = "a measurement"]
async fn the_cost_of_a_recall_is_within_its_target() {
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
    // An idle plugin adds no work.
    let before = spent();
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(spent() - before < 0.011, "{} s", spent() - before);
}
