//! What `throughline plugin new` writes is a plugin that works; and all that is ours keeps to the protocol.

use super::*;
use crate::gateway::Ended;
use throughline_plugins::conformance::check;
use throughline_plugins::{Deadlines, PluginSettings, settings};

/// What failed, but for answers that came late: how busy this machine is says nothing about a plugin.
fn failures(checked: &Ended) -> Vec<&str> {
    let lines = checked.stdout.lines().filter(|line| line.trim_start().starts_with("FAILED"));
    lines.filter(|line| !line.contains("is answered within its deadline")).collect()
}

#[test]
fn a_plugin_that_was_just_written_keeps_to_the_protocol() {
    let place = Place::new();
    place.write("home/config.yaml", "");
    for kind in ["engine", "provider"] {
        let directory = place.file(&format!("my-{kind}"));
        let written = place
            .launch()
            .arg("plugin")
            .arg("new")
            .arg(directory.display().to_string())
            .arg("--kind")
            .arg(kind)
            .run();
        assert!(written.status.success(), "{written:?}");
        let script = directory.join("plugin.py");
        let checked =
            place.launch().arg("plugin").arg("check").arg("python3").arg(script.display().to_string()).run();
        let is_called = checked.stdout.contains(&format!("  ok      {kind}/"));
        assert!(is_called && failures(&checked).is_empty(), "{kind}: {checked:?}");
        let text = fs::read_to_string(&script).unwrap();
        assert!(text.contains(&format!("\"my-{kind}\"")) && !text.contains("sys.path"), "{text}");
    }
}

#[test]
fn our_own_examples_pass_the_check_like_any_plugin() {
    let place = Place::new();
    place.write("home/config.yaml", "");
    let example = |name: &str| vec![chaos::program().with_file_name(name).display().to_string()];
    let script = |name: &str| {
        vec!["python3".to_owned(), root().join("plugins/examples").join(name).display().to_string()]
    };
    for command in [example("engine"), example("provider"), script("engine.py"), script("provider.py")] {
        let launch = place.launch().arg("plugin").arg("check");
        let checked = command.iter().fold(launch, |launch, word| launch.arg(word)).run();
        let is_called =
            ["engine", "provider"].iter().any(|kind| checked.stdout.contains(&format!("  ok      {kind}/")));
        assert!(is_called && failures(&checked).is_empty(), "{command:?}: {checked:?}");
    }
    // And one that is too slow for a turn does not.
    let slow =
        [chaos::program().display().to_string(), "late".to_owned(), "engine/should_compress".to_owned()];
    let launch = place.launch().arg("plugin").arg("check");
    let checked = slow.iter().fold(launch, |launch, word| launch.arg(word)).run();
    assert!(!checked.status.success(), "{checked:?}");
    assert!(
        checked.stdout.contains("FAILED  engine/should_compress is answered within its deadline"),
        "{checked:?}"
    );
}

#[test]
fn what_runs_hermes_python_passes_the_check() {
    let Some(python) = peers::hermes_python("0.19.0") else { return };
    let model = summarising();
    let place = Place::new();
    let endpoint = format!("provider: custom, base_url: 'http://{}/v1', api_key: none", model.address);
    place.write(
        "home/config.yaml",
        format!(
            "model: {{default: tiny, {endpoint}, context_length: 131072}}\n\
             auxiliary: {{compression: {{model: tiny, {endpoint}}}}}\n\
             compression: {{protect_last_n: 4, protect_first_n: 2}}\napprovals: {{mode: 'off'}}\n"
        ),
    );
    place.write("home/hooks/scribe/HOOK.yaml", "name: scribe\nevents: [agent:end]\n");
    place.write("home/hooks/scribe/handler.py", "def handle(event_type, context):\n    pass\n");
    let given = [("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned())].into();
    let command = [python, root().join("plugins/hermes-host/hermes_host")];
    let wanted = json!({
        "provider": "holographic", "engine": "compressor", "tools": ["code_execution"], "hooks": true, "plugins": [],
    });
    let patience = PATIENCE;
    let settings = PluginSettings {
        environment: settings::environment(std::env::vars(), &[], &given),
        settings: wanted,
        home: place.home(),
        confined: false, // as the gateway starts it: it is at home in the home
        // Half of the world is imported, and some of it by the first question.
        deadlines: Deadlines { start: patience, decide: Duration::from_secs(20), ..Deadlines::default() },
        command: command.map(|path| path.display().to_string()).to_vec(),
        ..PluginSettings::new("checked", Vec::new(), place.file("checked"))
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let report = runtime.block_on(check(settings, patience));
    assert!(report.has_passed(), "{report}");
    for part in ["engine/compress returns", "provider/retain", "tool/call answers", "hook/run", "scope/close"]
    {
        assert!(report.findings.iter().any(|finding| finding.what.contains(part)), "{part}: {report}");
    }
}

#[test]
fn a_plugin_in_rust_is_not_written_without_the_crate_that_it_needs() {
    let place = Place::new();
    let directory = place.file("mine");
    for sdk in [None, Some(place.file("nowhere"))] {
        let launch = place
            .launch()
            .arg("plugin")
            .arg("new")
            .arg(directory.display().to_string())
            .arg("--lang")
            .arg("rust");
        let written = match sdk {
            Some(sdk) => launch.arg("--sdk").arg(sdk.display().to_string()).run(),
            None => launch.run(),
        };
        assert!(!written.status.success() && written.stderr.contains("--sdk"), "{written:?}");
        assert!(!directory.exists(), "nothing that cannot be built is left behind");
    }
}
