//! The architecture, checked: which crate may see which, and what the core may not say.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn root() -> PathBuf {
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

pub fn sources(directory: &Path) -> Vec<PathBuf> {
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
        ("complexity", &[] as &[&str]),
        ("core", &[] as &[&str]),
        ("eval", &["core"]),
        ("hermes", &["core"]),
        ("net", &["core"]),
        ("store", &["core", "hermes"]),
        ("store-conformance", &["core"]),
        ("offload", &[]),
        ("private-files", &[]),
        ("gateway", &["core", "offload"]),
        ("mcp", &["core", "net", "private-files"]),
        ("memory", &["core", "hermes", "net", "private-files"]),
        ("models", &["core", "net"]),
        ("platforms", &["core", "hermes", "net", "private-files"]),
        ("plugins", &["core", "hermes", "private-files"]),
        ("tools", &["core", "hermes", "private-files"]),
        ("server", &["core", "net", "offload"]),
        ("home", &["core", "hermes"]),
        (
            "app",
            &[
                "core",
                "gateway",
                "hermes",
                "home",
                "mcp",
                "memory",
                "models",
                "net",
                "platforms",
                "plugins",
                "server",
                "store",
                "tools",
            ],
        ),
        ("upkeep", &["core", "hermes", "home", "memory", "store", "tools"]),
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

/// The binary parses, wires and writes to the terminal. What it decides has a crate: a new module in `src` is a command,
/// or one of these.
#[test]
fn the_binary_holds_commands_wiring_and_the_terminal() {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join("src")).expect("there is a binary") {
        let path = entry.expect("an entry can be read").path();
        names.push(path.file_stem().expect("a file has a name").to_string_lossy().into_owned());
    }
    names.sort();
    names.dedup();
    let known = ["chat", "client", "cmd", "interrupt", "main", "out", "passphrase", "signal", "span", "wire"];
    assert_eq!(names, known);
    for path in sources(&root().join("src/wire")) {
        let lines = fs::read_to_string(&path).expect("a source can be read").lines().count();
        assert!(lines <= 400, "{} has {lines} lines: what decides belongs in a crate", path.display());
    }
}

/// What the program was started with is read once, in `src` and by `Environment`; crates below are told.
#[test]
fn only_the_binary_reads_argv_and_the_environment() {
    for name in ["app", "upkeep"] {
        for path in sources(&root().join("crates").join(name).join("src")) {
            for word in ["env::var", "env::args", "clap::"] {
                assert!(!says(&path, word), "{} names {word}", path.display());
            }
        }
    }
}

#[test]
fn one_place_installs_the_cryptography_and_no_test_does_what_the_program_must_do() {
    let word = ["install", "_default()"].concat(); // not in this file
    let places = ["crates", "src", "tests", "bench"].map(|directory| sources(&root().join(directory)));
    let found: Vec<PathBuf> = places.into_iter().flatten().filter(|path| says(path, &word)).collect();
    assert_eq!(found, [root().join("crates/net/src/tls.rs")]);
    let main = fs::read_to_string(root().join("src/main.rs")).expect("the program has a main");
    let (_, main) = main.split_once("fn main() -> ExitCode {").expect("the program has a main");
    assert!(
        main.trim_start().starts_with("throughline_net::install_tls();"),
        "it is the first thing in main"
    );
}

fn says(path: &Path, word: &str) -> bool {
    fs::read_to_string(path).expect("a source can be read").contains(word)
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

#[test]
fn the_readme_is_one_page_and_the_index_names_every_page() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("a page can be read");
    let lines = read("README.md").lines().count();
    assert!(lines <= 150, "the README has {lines} lines: move details to a page in docs/");
    let index = read("docs/README.md");
    for entry in fs::read_dir(root().join("docs")).expect("there are docs") {
        let name = entry.expect("an entry can be read").file_name().to_string_lossy().into_owned();
        let is_page = name.ends_with(".md") && name != "README.md";
        assert!(!is_page || index.contains(&format!("({name})")), "docs/README.md does not name {name}");
    }
}

/// Sources that are shipped: no tests, no examples.
fn production() -> Vec<(PathBuf, String)> {
    let is_test = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let parts = path.strip_prefix(root()).expect("it lies in the repository").components();
        let mut parts = parts.filter_map(|part| part.as_os_str().to_str());
        name.ends_with("tests.rs") || parts.any(|part| ["tests", "examples", "target"].contains(&part))
    };
    let paths = ["crates", "src"].map(|directory| sources(&root().join(directory))).into_iter().flatten();
    let paths = paths.filter(|path| !is_test(path));
    paths
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a source can be read");
            let shipped = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            (path, shipped)
        })
        .collect()
}

/// How many words may stand in shipped sources that hide who acts.
const ELLIPTIC_MAX: usize = 200;

#[test]
fn sentences_name_who_acts() {
    let words = ["somebody", "nobody", "whoever", "whatever", "anybody"];
    let count = |text: &str| {
        let text = text.to_lowercase();
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| words.contains(word)).count()
    };
    let mut found: Vec<(usize, PathBuf)> =
        production().into_iter().map(|(path, text)| (count(&text), path)).collect();
    found.sort();
    let total: usize = found.iter().map(|(count, _)| count).sum();
    let most = &found[found.len() - 10..];
    assert!(total <= ELLIPTIC_MAX, "{total} of {words:?}, and {ELLIPTIC_MAX} may be; most in {most:?}");
}

/// How many names may belong to more than one type.
const SHARED_NAMES_MAX: usize = 170;

#[test]
fn type_names_are_unique() {
    let mut homes: BTreeMap<String, usize> = BTreeMap::new();
    for (_, text) in production() {
        for line in text.lines() {
            let item = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            let mut words =
                item.trim_start_matches("pub(super) ").split(|c: char| !c.is_alphanumeric() && c != '_');
            let is_type = match words.next() {
                Some("struct" | "enum" | "trait") => true,
                other => other == Some("type") && !line.starts_with(' '), // else an associated one
            };
            if let Some(name) = words.next().filter(|name| is_type && name.starts_with(char::is_uppercase)) {
                *homes.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
    let shared: Vec<_> = homes.iter().filter(|(_, count)| **count > 1).collect();
    assert!(shared.len() <= SHARED_NAMES_MAX, "{} names of several types: {shared:?}", shared.len());
}

/// How many files may be called `wire.rs`.
const WIRES_MAX: usize = 1;

#[test]
fn one_file_name_means_one_thing() {
    let wires: Vec<PathBuf> =
        production().into_iter().map(|(path, _)| path).filter(|path| path.ends_with("wire.rs")).collect();
    assert!(wires.len() <= WIRES_MAX, "several files are called wire.rs: {wires:?}");
}

#[test]
fn only_the_core_changes_a_session() {
    let path = root().join("crates/core/src/session.rs");
    let text = fs::read_to_string(path).expect("a source can be read");
    assert!(text.contains("\npub struct Session(SessionState);\n"), "the state of a session is private");
    for (path, text) in production() {
        assert!(!text.contains("DerefMut for Session"), "{} lets a session be changed", path.display());
    }
}

/// What is written with a state is decided where the state is.
#[test]
fn only_the_core_makes_acts() {
    let makes = |line: &str| {
        let named = line.match_indices("Act::").any(|(at, _)| {
            let name = line[at + 5..].trim_start_matches(char::is_alphanumeric);
            line[at + 5..].starts_with(char::is_uppercase)
                && (name.starts_with('(') || name.starts_with(" {"))
        });
        let is_pattern = ["=>", "matches!(", "let Act::", "if let", "| Act::", "(Act::"]
            .iter()
            .any(|pattern| line.contains(pattern));
        named && !is_pattern && !line.trim_start().starts_with("//")
    };
    for (path, text) in production() {
        let crates = ["crates/core", "crates/sim", "crates/store-conformance"];
        let may = crates.iter().any(|it| path.starts_with(root().join(it)));
        // Tests of a command write a session as a gateway would.
        if may || path.ends_with("fixture.rs") {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for number in (0..lines.len()).filter(|number| makes(lines[*number])) {
            // A pattern that goes on over lines ends with an arrow or a guard.
            let goes_on =
                lines[number..].iter().take(40).any(|line| line.contains("=>") || line.contains(" if "));
            assert!(goes_on, "{}:{} makes an act", path.display(), number + 1);
        }
    }
}

#[test]
fn pages_are_at_most_100_columns_wide() {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(|page| root().join(page)).into();
    for directory in ["docs", "docs/decisions"] {
        let entries = fs::read_dir(root().join(directory)).expect("there are docs");
        let paths = entries.map(|entry| entry.expect("an entry can be read").path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page can be read");
        for (number, line) in text.lines().enumerate() {
            // A table's row cannot be broken, and a list of files changes with each move.
            let is_exempt = line.starts_with('|') || line.contains(".rs`");
            let columns = line.chars().count();
            assert!(is_exempt || columns <= 100, "{}:{}: {columns} columns", page.display(), number + 1);
        }
    }
}

/// The lists of `deny.toml`, for machines without cargo-deny.
fn listed(key: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("deny.toml")).expect("there is a deny.toml");
    let (_, rest) = text.split_once(&format!("\n{key} = [")).expect("deny.toml has the list");
    rest.split(']').next().unwrap_or_default().split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether a licence expression holds, if these may be chosen.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let split = |operator: &str| {
        let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
        for (at, letter) in expression.char_indices() {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            if depth == 0 && at >= start && expression[at..].starts_with(operator) {
                parts.push(&expression[start..at]);
                start = at + operator.len();
            }
        }
        parts.push(&expression[start..]);
        parts
    };
    match (split(" OR "), split(" AND ")) {
        (choices, _) if choices.len() > 1 => choices.iter().any(|choice| is_allowed(choice, allowed)),
        (_, all) if all.len() > 1 => all.iter().all(|part| is_allowed(part, allowed)),
        _ => match expression.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
            Some(inner) => is_allowed(inner, allowed),
            None => allowed.iter().any(|licence| licence == expression),
        },
    }
}

#[test]
fn a_licence_expression_is_read_by_its_operators() {
    let allowed = ["MIT".to_owned(), "ISC".to_owned()];
    for yes in ["MIT", "GPL-3.0 OR MIT", "(GPL-3.0 OR MIT) AND ISC", "GPL-3.0 AND X OR ISC"] {
        assert!(is_allowed(yes, &allowed), "{yes}");
    }
    for no in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", ""] {
        assert!(!is_allowed(no, &allowed), "{no}");
    }
}

#[test]
fn each_dependency_comes_from_the_registry_under_an_allowed_licence() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--locked", "--offline"]).current_dir(root());
    // The platform that was built for: others' packages need not be there. The workflow's cargo-deny sees those.
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let said = cargo.args(["--filter-platform", &host]).output().expect("cargo can be run");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let packages: Value = serde_json::from_slice(&said.stdout).expect("cargo prints JSON");
    let (licences, banned) = (listed("allow"), listed("deny"));
    let mut packages: Vec<&Value> =
        packages["packages"].as_array().expect("there are packages").iter().collect();
    packages.retain(|package| !package["source"].is_null()); // ours
    assert!(packages.len() > 100, "only {} packages", packages.len());
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let licence =
            package["license"].as_str().unwrap_or_default().replace(" / ", "/").replace('/', " OR ");
        assert!(is_allowed(&licence, &licences), "{name}: the licence {licence:?} is not in deny.toml");
        assert!(!banned.iter().any(|other| other == name), "{name} is banned by deny.toml");
        let source = package["source"].as_str().unwrap_or_default();
        assert_eq!(source, "registry+https://github.com/rust-lang/crates.io-index", "{name}");
    }
}

/// What Windows does not have. Where one of these is compiled there, nothing is.
const OF_UNIX: [&str; 24] = [
    "std::os::unix",
    "std::os::fd",
    "std::os::linux",
    "libc::",
    "rustix::",
    "landlock::",
    "signal::unix",
    "net::unix",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "ProcessGroup",
    ".process_group(",
    ".custom_flags(libc",
    ".mode(0o",
    "permissions().mode()",
    "from_mode(",
    ".dev()",
    ".ino()",
    ".nlink()",
    ".mtime()",
    "as_raw_fd",
    "OwnedFd",
    "mkfifo",
];

/// No system's compiler is needed for this: what stands under a `cfg` that does not hold on Windows is
/// taken away, with all that follows from it, and what is left must not name anything of Unix. It is
/// read as text: a name that a `use` brings in under another one is not found out, the `use` is.
#[test]
fn nothing_of_unix_is_compiled_on_windows() {
    let mut roots = vec![root().join("src/main.rs")];
    for entry in fs::read_dir(root().join("crates")).expect("there are crates") {
        let path = entry.expect("an entry can be read").path();
        let names = ["src/lib.rs", "src/main.rs"].iter();
        roots.extend(names.map(|name| path.join(name)).filter(|file| file.exists()));
        let manifest = fs::read_to_string(path.join("Cargo.toml")).expect("every crate has a manifest");
        let section = manifest.split("[dependencies]").nth(1).unwrap_or_default();
        let everywhere = section.split("\n[").next().unwrap_or_default();
        for line in everywhere.lines() {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            assert!(
                !["landlock", "rustix", "nix"].contains(&name),
                "{}: {name} belongs below [target.'cfg(unix)'.dependencies]",
                path.display()
            );
        }
    }
    let mut found = Vec::new();
    let mut files = 0;
    while let Some(path) = roots.pop() {
        files += 1;
        let text = fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; a `mod` names it, and `#[path]` is not understood here", path.display())
        });
        let left = windows::left(&text);
        roots.extend(windows::modules(&left).iter().map(|name| windows::file_of(&path, name)));
        for (number, line) in left.lines().enumerate() {
            let names = OF_UNIX.iter().filter(|name| line.contains(**name));
            found.extend(names.map(|name| format!("{}:{}: {name}", path.display(), number + 1)));
            if line.contains("File::open(") && line.contains(".sync_all()") {
                found.push(format!("{}:{}: a directory is opened as a file", path.display(), number + 1));
            }
        }
    }
    assert!(files > 300, "only {files} files were looked at");
    assert!(
        found.is_empty(),
        "this is compiled on Windows, too, and is of Unix:\n  {}\nPut `#[cfg(unix)]` (or `cfg(target_os = \"linux\")`) \
         before the item or the `mod`, and give other systems a version of their own where it is called. Private \
         files and directories: see `crates/private-files`. What is off there is named by `crates/app/src/equip.rs`.",
        found.join("\n  ")
    );
}

#[test]
fn what_windows_compiles_is_known_by_its_cfg() {
    let text = r#"
        use std::os::unix::a; // kept
        #[cfg(unix)]
        use std::os::unix::{b, c};
        #[cfg(all(test, unix))]
        mod tests { fn d() { "}"; } }
        #[cfg(unix)]
        pub mod gone;
        pub mod stays;
        struct S { #[cfg(unix)] e: Vec<u8>, f: u8 }
        fn g() -> u8 { #[cfg(not(unix))] h(); #[cfg(target_os = "linux")] i('{'); j() }
        #[cfg(any(unix, windows))]
        fn k() {}
        #[cfg(unix)]
        #[allow(unused)]
        fn l<A, B>(m: [u8; 2]) -> u8 { let n = "}"; 1 } fn o() {}
    "#;
    let left = windows::left(text);
    for kept in ["unix::a", "stays", "f:", "h()", "j()", "fn k", "fn o"] {
        assert!(left.contains(kept), "{kept} is missing from {left}");
    }
    for gone in ["kept", "{b, c}", "fn d", "gone", "e:", "i(", "fn l", "let n"] {
        assert!(!left.contains(gone), "{gone} is left in {left}");
    }
    assert_eq!(windows::modules(&left), ["stays"]);
    assert_eq!(left.len(), text.len(), "every line keeps its number");
}

/// What of a source file is compiled on Windows.
mod windows {
    use std::path::{Path, PathBuf};

    /// The code alone, without what a `cfg` takes away there. All else is blank.
    pub fn left(text: &str) -> String {
        let source = text.as_bytes();
        let mut code = bare(source);
        let mut at = 0;
        while let Some(found) = find(&code, b"#[cfg(", at) {
            let end = closing(&code, found + 1); // of the attribute
            let predicate = String::from_utf8_lossy(&source[found + 6..end - 1]).into_owned();
            at = end + 1;
            if !holds(predicate.trim().trim_end_matches(',')) {
                let end = item_end(&code, at);
                blank(&mut code[found..end]);
                at = end;
            }
        }
        String::from_utf8_lossy(&code).into_owned()
    }

    /// `mod name;` in code.
    pub fn modules(code: &str) -> Vec<String> {
        let words: Vec<&str> = code.split_whitespace().collect();
        let named = words.windows(2).filter(|pair| pair[0] == "mod");
        named.filter_map(|pair| pair[1].strip_suffix(';')).map(str::to_owned).collect()
    }

    pub fn file_of(parent: &Path, name: &str) -> PathBuf {
        let stem = parent.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let directory = match stem {
            "lib" | "main" | "mod" => parent.parent().unwrap_or(parent).to_owned(),
            _ => parent.with_extension(""),
        };
        let nested = directory.join(name).join("mod.rs");
        if nested.exists() { nested } else { directory.join(format!("{name}.rs")) }
    }

    /// Whether a predicate holds on Windows, outside tests. What it says of anything else may hold.
    fn holds(predicate: &str) -> bool {
        let inside = |name: &str| {
            let rest = predicate.strip_prefix(name)?.trim_start();
            rest.strip_prefix('(')?.strip_suffix(')')
        };
        if let Some(rest) = inside("not") {
            return !holds(rest.trim());
        }
        if let Some(rest) = inside("all") {
            return parts(rest).iter().all(|part| holds(part));
        }
        if let Some(rest) = inside("any") {
            return parts(rest).iter().any(|part| holds(part));
        }
        match predicate {
            "unix" | "test" => false,
            other if other.starts_with("target_os") => other.contains("\"windows\""),
            _ => true,
        }
    }

    /// What stands between the outer commas.
    fn parts(list: &str) -> Vec<&str> {
        let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
        for (at, letter) in list.char_indices() {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                ',' if depth == 0 => {
                    parts.push(list[start..at].trim());
                    start = at + 1;
                }
                _ => {}
            }
        }
        parts.push(list[start..].trim());
        parts.into_iter().filter(|part| !part.is_empty()).collect()
    }

    /// Where the item, statement, field or arm that begins here ends.
    fn item_end(code: &[u8], start: usize) -> usize {
        let mut at = start;
        loop {
            at += code[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            match code[at..].starts_with(b"#[") {
                true => at = closing(code, at + 1) + 1, // another attribute
                false => break,
            }
        }
        let first = |words: &[&str]| words.iter().any(|word| code[at..].starts_with(word.as_bytes()));
        let ends_with_a_semicolon = first(&["use ", "pub use ", "let ", "const ", "static ", "type "]);
        let has_a_body =
            first(&["fn ", "pub", "async ", "unsafe ", "impl", "struct ", "enum ", "trait ", "mod "]);
        while at < code.len() {
            match code[at] {
                b';' => return at + 1,
                b',' if !ends_with_a_semicolon && !has_a_body => return at + 1,
                b'{' if !ends_with_a_semicolon => return closing(code, at) + 1,
                b'(' | b'[' | b'{' => at = closing(code, at) + 1,
                b')' | b']' | b'}' => return at, // of what it stands in
                _ => at += 1,
            }
        }
        at
    }

    /// The bracket that closes the one at `open`.
    fn closing(code: &[u8], open: usize) -> usize {
        let mut depth = 0;
        for (at, byte) in code.iter().enumerate().skip(open) {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        code.len() - 1
    }

    fn find(code: &[u8], what: &[u8], from: usize) -> Option<usize> {
        code.get(from..)?.windows(what.len()).position(|window| window == what).map(|at| at + from)
    }

    fn blank(bytes: &mut [u8]) {
        bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }

    /// Without comments and without what stands in quotes.
    fn bare(source: &[u8]) -> Vec<u8> {
        let mut code = source.to_vec();
        let mut at = 0;
        while at < source.len() {
            let rest = &source[at..];
            let end = match rest {
                [b'/', b'/', ..] => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
                [b'/', b'*', ..] => find(rest, b"*/", 2).map_or(rest.len(), |end| end + 2),
                [b'"', ..] => quoted(rest),
                [b'r', b'"' | b'#', ..] if !is_word(source, at) => raw(rest),
                [b'\'', b'\\', ..] => {
                    rest[2..].iter().skip(1).position(|byte| *byte == b'\'').map_or(1, |end| end + 4)
                }
                [b'\'', _, b'\'', ..] => 3,
                _ => 0,
            };
            blank(&mut code[at..at + end]);
            at += end.max(1);
        }
        code
    }

    /// Whether the letter here goes on with a word; `br"…"` does, and begins a text all the same.
    fn is_word(source: &[u8], at: usize) -> bool {
        let before = |back: usize| at.checked_sub(back).map_or(b' ', |at| source[at]);
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        is_letter(before(1)) && (before(1) != b'b' || is_letter(before(2)))
    }

    fn quoted(text: &[u8]) -> usize {
        let mut at = 1;
        while at < text.len() {
            match text[at] {
                b'\\' => at += 2,
                b'"' => return at + 1,
                _ => at += 1,
            }
        }
        text.len()
    }

    /// `r"…"` and `r#"…"#`; none for `r#name`.
    fn raw(text: &[u8]) -> usize {
        let hashes = text[1..].iter().take_while(|byte| **byte == b'#').count();
        if text.get(1 + hashes) != Some(&b'"') {
            return 0;
        }
        let end = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
        find(text, &end, 2 + hashes).map_or(text.len(), |at| at + end.len())
    }
}
