//! What `throughline plugin new` writes is a plugin that works.

use crate::gateway::Place;
use std::fs;

#[test]
fn a_plugin_that_was_just_written_keeps_to_the_protocol() {
    let place = Place::new();
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
        assert!(checked.status.success(), "{kind}: {checked:?}");
        let text = fs::read_to_string(&script).unwrap();
        assert!(text.contains(&format!("\"my-{kind}\"")) && !text.contains("sys.path"), "{text}");
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
