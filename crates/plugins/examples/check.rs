//! The conformance run by itself: `check <command> …`.

use std::process::ExitCode;
use throughline_plugins::conformance::check;
use throughline_plugins::{PluginSettings, settings};

#[tokio::main]
async fn main() -> ExitCode {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let directory = std::env::temp_dir().join(format!("plugin-check-{}", std::process::id()));
    let settings = PluginSettings {
        environment: settings::environment(std::env::vars(), &[], &Default::default()),
        ..PluginSettings::new("checked", command, directory.clone())
    };
    let report = check(settings, std::time::Duration::from_secs(30)).await;
    println!("{report}");
    let _ = std::fs::remove_dir_all(directory);
    if report.has_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
