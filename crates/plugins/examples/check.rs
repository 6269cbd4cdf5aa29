//! The conformance run by itself: `check <command> …`.

use std::process::ExitCode;
use throughline_plugins::check::check;
use throughline_plugins::{PluginSettings, settings};

#[tokio::main]
async fn main() -> ExitCode {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let directory = std::env::temp_dir().join(format!("plugin-check-{}", std::process::id()));
    let mut settings = PluginSettings {
        environment: settings::environment(std::env::vars(), &[], &Default::default()),
        ..PluginSettings::new("checked", command, directory.clone())
    };
    settings.deadlines.compress = std::time::Duration::from_secs(30);
    let report = check(settings).await;
    println!("{report}");
    let _ = std::fs::remove_dir_all(directory);
    if report.has_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
