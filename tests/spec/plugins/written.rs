//! What `throughline plugin new` writes is a plugin that works.

use crate::gateway::{Launch, Place};
use std::fs;

#[test]
fn p18_a_plugin_that_was_just_written_keeps_to_the_protocol() {
    let place = Place::new();
    for kind in ["engine", "provider"] {
        let directory = place.file(&format!("my-{kind}"));
        let written = Launch::on(&place, &[])
            .arg("plugin")
            .arg("new")
            .arg(directory.display().to_string())
            .arg("--kind")
            .arg(kind)
            .run();
        assert!(written.status.success(), "{}{}", written.stdout, written.stderr);
        let script = directory.join("plugin.py");
        let checked = Launch::on(&place, &[])
            .arg("plugin")
            .arg("check")
            .arg("python3")
            .arg(script.display().to_string())
            .run();
        assert!(checked.status.success(), "{kind}: {}{}", checked.stdout, checked.stderr);
        let text = fs::read_to_string(&script).unwrap();
        assert!(text.contains(&format!("\"my-{kind}\"")) && !text.contains("sys.path"), "{text}");
    }
}

#[test]
fn p18_a_plugin_in_rust_is_not_written_without_the_crate_that_it_needs() {
    let place = Place::new();
    let directory = place.file("mine");
    for sdk in [None, Some(place.file("nowhere"))] {
        let launch = Launch::on(&place, &[])
            .arg("plugin")
            .arg("new")
            .arg(directory.display().to_string())
            .arg("--lang")
            .arg("rust");
        let written = match sdk {
            Some(sdk) => launch.arg("--sdk").arg(sdk.display().to_string()).run(),
            None => launch.run(),
        };
        assert!(
            !written.status.success() && written.stderr.contains("--sdk"),
            "{}{}",
            written.stdout,
            written.stderr
        );
        assert!(!directory.exists(), "nothing that cannot be built is left behind");
    }
}
