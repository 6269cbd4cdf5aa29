//! The architecture, checked: which crate may see which, and what the core may not say.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The workspace crates that a manifest names among its ordinary dependencies.
fn edges(manifest: &Path) -> Vec<String> {
    let text = fs::read_to_string(manifest).expect("every crate has a manifest");
    let section = text.split("[dependencies]").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let names = section.lines().filter_map(|line| line.strip_prefix("throughline-"));
    names.map(|rest| rest.split(['.', ' ', '=']).next().unwrap_or_default().to_owned()).collect()
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a source directory can be listed") {
        let path = entry.expect("an entry can be read").path();
        match path.is_dir() {
            true => found.extend(sources(&path)),
            false if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}

#[test]
fn dependencies_point_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("core", &[] as &[&str]),
        ("eval", &["core"]),
        ("hermes", &["core"]),
        ("net", &["core"]),
        ("store", &["core", "hermes"]),
        ("gateway", &["core"]),
        ("mcp", &["core", "net"]),
        ("memory", &["core", "hermes", "net"]),
        ("models", &["core", "net"]),
        ("platforms", &["core", "hermes", "net"]),
        ("plugins", &["core", "hermes"]),
        ("tools", &["core", "hermes"]),
        ("server", &["core"]),
        ("sim", &["core", "hermes", "store", "gateway", "platforms"]),
    ]);
    for entry in fs::read_dir(root().join("crates")).expect("there are crates") {
        let path = entry.expect("an entry can be read").path();
        let name = path.file_name().expect("a crate has a name").to_string_lossy().into_owned();
        let allowed =
            allowed.get(name.as_str()).unwrap_or_else(|| panic!("crate {name} is not in the table above"));
        for edge in edges(&path.join("Cargo.toml")) {
            assert!(allowed.contains(&edge.as_str()), "{name} must not see {edge}");
        }
    }
}

#[test]
fn the_core_reads_no_clock_no_disk_and_no_chance() {
    let forbidden = [
        "SystemTime",
        "Instant",
        "std::fs",
        "std::net",
        "std::thread",
        "std::env",
        "std::process",
        "tokio",
        "serde",
        "rusqlite",
        "rand::",
        "async fn",
        "println!",
        "eprintln!",
        "static mut",
        "thread_local",
        "OnceLock",
        "Mutex",
    ];
    // `rand::` is chance, `Errand::` is none.
    let has = |line: &str, word: &str| {
        line.match_indices(word).any(|(at, _)| !line[..at].ends_with(char::is_alphanumeric))
    };
    for path in sources(&root().join("crates/core/src")) {
        let text = fs::read_to_string(&path).expect("a source file can be read");
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for (number, line) in code.enumerate() {
            for word in forbidden {
                assert!(!has(line, word), "{}: {word} near line {}", path.display(), number + 1);
            }
        }
    }
}

#[test]
fn the_core_names_no_vendor() {
    for path in sources(&root().join("crates/core/src")) {
        let text = fs::read_to_string(&path).expect("a source file can be read");
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let body: String =
            code.take_while(|line| !line.contains("#[cfg(test)]")).collect::<Vec<_>>().join("\n");
        for word in ["telegram", "discord", "slack", "openai", "anthropic", "sqlite"] {
            assert!(!body.to_lowercase().contains(word), "{} names {word}", path.display());
        }
    }
}

#[test]
fn every_module_says_what_it_is() {
    for directory in ["crates", "src", "bench/src"] {
        for path in sources(&root().join(directory)) {
            if path.components().any(|part| {
                matches!(part.as_os_str().to_str(), Some("target" | "tests" | "tests.rs" | "examples"))
            }) {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source file can be read");
            let first =
                text.lines().find(|line| !line.starts_with("#!") && !line.is_empty()).unwrap_or_default();
            assert!(first.starts_with("//!"), "{} has no module doc", path.display());
        }
    }
}

#[test]
fn nothing_of_the_machine_it_was_written_on_is_left_behind() {
    for directory in ["crates", "src", "tests", "docs", "bench/src"] {
        for path in sources(&root().join(directory)) {
            if path.ends_with("tidy.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source file can be read");
            for word in ["/work/main", "/work/shared", "/tmp/tl", "/root/.cargo", "/root/.rustup"] {
                assert!(!text.contains(word), "{} names {word}", path.display());
            }
        }
    }
}
