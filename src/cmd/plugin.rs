//! `throughline plugin`: which plugins an agent has and how they are doing, and what an author of one needs.
//!
//! `list` asks the running gateway and is content with the configuration where none runs; `enable` and `disable`
//! change one word in `config.yaml`; `new` needs no home at all, and `check` works on a copy of one.

use crate::out::{Column, Page, Table, Tint, write_json};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use throughline_app::equip::plugins::{DIRECTORY, HERMES};
use throughline_core::redact::redacted;
use throughline_hermes::config::edit::{self, Scalar};
use throughline_hermes::config::plugins::{Plugin as Written, Plugins};
use throughline_home::home::Home;
use throughline_plugins::conformance::{Finding, Outcome, check};
use throughline_plugins::{LOG_FILE, PluginSettings, settings};

#[derive(clap::Subcommand)]
pub enum Plugin {
    List(List),
    Enable(Enable),
    Disable(Disable),
    Logs(Logs),
    Check(Check),
    New(New),
}

/// Show the plugins of an agent, and how they are doing
#[derive(clap::Args)]
pub struct List {
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Let a plugin run from the next start on
#[derive(clap::Args)]
pub struct Enable {
    name: String,
}

/// Keep a plugin from running from the next start on
#[derive(clap::Args)]
pub struct Disable {
    name: String,
}

/// Show what a plugin has logged
#[derive(clap::Args)]
pub struct Logs {
    name: String,
    /// So many lines, from the end
    #[arg(short = 'n', long, default_value_t = 50)]
    lines: usize,
}

/// Put a plugin through its paces: whether it keeps to the protocol, also when things go wrong. It runs in a copy of what the
/// home of --home has for its plugins, or in an empty home
#[derive(clap::Args)]
pub struct Check {
    /// After how long no answer is expected any more, in seconds; one that comes later than its deadline fails anyway
    #[arg(long, default_value_t = 30)]
    patience: u64,
    /// What it is told as its settings, as JSON
    #[arg(long, value_name = "JSON")]
    settings: Option<String>,
    /// The name of a plugin in that home's config.yaml (`hermes`: all that Hermes' Python carries), or a program and its
    /// arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Write a plugin that works, to begin with
#[derive(clap::Args)]
pub struct New {
    /// Of the plugin and its directory
    name: String,
    #[arg(long, value_enum, default_value_t = Language::Python)]
    lang: Language,
    #[arg(long, value_enum, default_value_t = Kind::Engine)]
    kind: Kind,
    /// Where the crate throughline-plugins lies (crates/plugins of Throughline's sources); Rust needs it
    #[arg(long, value_name = "DIRECTORY")]
    sdk: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Language {
    Rust,
    Python,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    Engine,
    Provider,
}

/// What `list` shows: the configuration, and what the gateway says if one runs.
pub struct KnownPlugins {
    pub plugins: Plugins,
    pub running: Option<Value>,
}

impl List {
    pub fn run(&self, known: &KnownPlugins, page: &Page, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let rows = rows(known);
        if self.json {
            write_json(&json!({"object": "list", "data": rows}), out)?;
            return Ok(ExitCode::SUCCESS);
        }
        if rows.is_empty() {
            writeln!(out, "There are no plugins. docs/plugins.md tells how to add one.")?;
            return Ok(ExitCode::SUCCESS);
        }
        let columns = [
            Column::text("NAME"),
            Column::text("STATE"),
            Column::number("CALLS"),
            Column::number("FAILED"),
            Column::flexible("WHAT IT IS"),
        ];
        let mut table = Table::new(columns);
        for row in &rows {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let count = |name: &str| row[name].as_u64().map_or("-".to_owned(), |count| count.to_string());
            table.row([text("name"), text("state"), count("calls"), count("failures"), text("what")]);
        }
        table.write(page, out)?;
        for row in &rows {
            for note in row["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                writeln!(out, "{}  {note}", page.paint(Tint::Dim, row["name"].as_str().unwrap_or_default()))?;
            }
            if let Some(error) = row["last_error"].as_str() {
                writeln!(
                    out,
                    "{}  last error: {error}",
                    page.paint(Tint::Dim, row["name"].as_str().unwrap_or_default())
                )?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What is configured and what runs, each once.
fn rows(known: &KnownPlugins) -> Vec<Value> {
    let running = known.running.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
    let mut rows: Vec<Value> = Vec::new();
    for Written { name, enabled, command, .. } in &known.plugins.list {
        let state = match (enabled, &known.running) {
            (false, _) => "disabled",
            (true, None) => "configured",
            (true, Some(_)) => "after the next start",
        };
        let live = running.iter().find(|plugin| plugin["name"] == name.as_str());
        let mut row = live.cloned().unwrap_or_else(|| json!({"name": name, "state": state}));
        if row["what"].as_str().is_none_or(str::is_empty) {
            row["what"] = redacted(&command.join(" ")).into();
        }
        rows.push(row);
    }
    let others = running
        .into_iter()
        .filter(|plugin| !known.plugins.list.iter().any(|written| plugin["name"] == written.name.as_str()));
    rows.extend(others);
    rows
}

/// Changes one word of `config.yaml`.
pub fn switch(
    home: &Home,
    plugins: &Plugins,
    name: &str,
    on: bool,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let (verb, word) = if on { ("enable", "on") } else { ("disable", "off") };
    let key = match name {
        HERMES => "throughline.hermes.enabled".to_owned(),
        name if plugins.list.iter().any(|plugin| plugin.name == name) => {
            format!("throughline.plugins.{name}.enabled")
        }
        name => bail!(
            "config.yaml has no plugin {name:?} under throughline.plugins. A plugin of Hermes is switched by \
             `hermes plugins {verb} {name}`; all of them together by `throughline plugin {verb} {HERMES}`."
        ),
    };
    let file = home.path().join("config.yaml");
    let text = fs::read_to_string(&file).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(String::new()),
        _ => Err(error),
    });
    let text = text.with_context(|| format!("could not read {}", file.display()))?;
    let text = edit::set(&text, &key, Scalar::Bool(on))
        .with_context(|| format!("could not change {}", file.display()))?;
    throughline_app::host_commands::replace(&file, &text).map_err(anyhow::Error::msg)?;
    writeln!(out, "{name} is {word} from the next start on ({key}).")?;
    Ok(ExitCode::SUCCESS)
}

impl Enable {
    pub fn run(&self, home: &Home, plugins: &Plugins, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        switch(home, plugins, &self.name, true, out)
    }
}

impl Disable {
    pub fn run(&self, home: &Home, plugins: &Plugins, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        switch(home, plugins, &self.name, false, out)
    }
}

impl Logs {
    pub fn run(&self, home: &Home, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if self.name.is_empty() || !self.name.chars().all(is_plain) {
            bail!("{:?} is no name of a plugin.", self.name);
        }
        let file = home.path().join(DIRECTORY).join(&self.name).join(LOG_FILE);
        let text = match fs::read(&file) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                bail!("{} has logged nothing yet: there is no {}.", self.name, file.display())
            }
            Err(error) => return Err(error).with_context(|| format!("could not read {}", file.display())),
        };
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(self.lines)..] {
            writeln!(out, "{line}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What a check is run with: in a home that it may do with what it likes.
pub struct Checked {
    pub settings: PluginSettings,
    /// What it has to bring, because the home's configuration counts on it.
    pub engine: Option<String>,
    pub provider: Option<String>,
    /// What was left out, for the reader of the report.
    pub untried: Option<String>,
}

impl Check {
    /// The words that may be a plugin's name rather than a program.
    pub fn name(&self) -> Option<&str> {
        match &self.command[..] {
            [name] if !name.contains(['/', '.']) => Some(name),
            _ => None,
        }
    }

    /// A program in a home: see [`copied`].
    pub fn command(&self, home: &Path, foreign: Vec<PathBuf>) -> Checked {
        let directory = home.join(DIRECTORY).join("checked");
        let environment = settings::environment(std::env::vars(), &[], &Default::default());
        let settings = PluginSettings {
            environment: settings::at_home(environment, &[], home, &directory),
            home: home.to_owned(),
            foreign,
            command: self.command.iter().map(|word| from_here(word)).collect(),
            ..PluginSettings::new("checked", Vec::new(), directory)
        };
        Checked { settings, engine: None, provider: None, untried: None }
    }

    pub fn run(self, checked: Checked, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let told = self.settings.as_deref().map(serde_json::from_str).transpose();
        let mut settings = checked.settings;
        if let Some(told) = told.context("--settings is no JSON")? {
            settings.settings = told;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let patience = Duration::from_secs(self.patience.clamp(1, 600));
        let mut report = runtime.block_on(check(settings, patience));
        for (what, name) in [("a context engine", checked.engine), ("a memory provider", checked.provider)] {
            let is_absent = |finding: &Finding| finding.what == what && finding.outcome == Outcome::Absent;
            if let Some(name) = name.filter(|_| report.findings.iter().any(is_absent)) {
                let why = format!("config.yaml counts on {name}, and the plugin brings none");
                let finding = Finding { what: what.to_owned(), outcome: Outcome::Failed(why) };
                report.findings.push(finding);
            }
        }
        if let Some(untried) = checked.untried {
            let outcome = Outcome::Untried("the check runs in a copy, so that it damages nothing".to_owned());
            report.findings.push(Finding { what: untried, outcome });
        }
        writeln!(out, "{report}")?;
        Ok(if report.has_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// What of a home its plugins are made of and told. The rest (conversations, databases, what a plugin keeps) stays where
/// it is: a check writes, and that must not turn up in a conversation.
const COPIED: [&str; 9] = [
    "config.yaml",
    ".env",
    "auth.json",
    "SOUL.md",
    "honcho.json",
    "hindsight",
    "plugins",
    "hooks",
    "memories",
];
/// Of a directory what is not needed to run it.
const LEFT: [&str; 4] = [".git", "__pycache__", "node_modules", ".throughline"];
/// Plugins are text. What is larger holds something else, and a check is not worth the disk.
const COPIED_BYTES_MAX: u64 = 256 << 20;

/// A copy of a home for a check, below `place`. A home that is not there leaves an empty one.
pub fn copied(home: &Path, place: &Path) -> anyhow::Result<PathBuf> {
    let copy = place.join("home");
    throughline_home::home::private_directory().create(&copy)?;
    let mut left = COPIED_BYTES_MAX;
    for name in COPIED {
        let from = home.join(name);
        if from.exists() {
            copy_tree(&from, &copy.join(name), &mut left)
                .with_context(|| format!("could not copy {} for the check", from.display()))?;
        }
    }
    Ok(copy)
}

fn copy_tree(from: &Path, to: &Path, left: &mut u64) -> anyhow::Result<()> {
    let metadata = fs::symlink_metadata(from)?;
    if metadata.is_symlink() {
        // A plugin that is a link to where it is written: it is run from there, and not written to.
        #[cfg(unix)]
        std::os::unix::fs::symlink(fs::canonicalize(from)?, to)?;
        return Ok(());
    }
    if metadata.is_file() {
        *left = left.checked_sub(metadata.len()).with_context(|| {
            format!(
                "there are more than {} MB; name its command instead, without --home",
                COPIED_BYTES_MAX >> 20
            )
        })?;
        fs::copy(from, to)?;
    } else if metadata.is_dir() {
        throughline_home::home::private_directory().create(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            if !LEFT.iter().any(|name| entry.file_name() == *name) {
                copy_tree(&entry.path(), &to.join(entry.file_name()), left)?;
            }
        }
    }
    Ok(())
}

/// It is run in a directory of its own: a file that is meant from here is named in full.
fn from_here(word: &str) -> String {
    let path = Path::new(word);
    match path.is_relative() && path.is_file() {
        true => std::path::absolute(path).map_or_else(|_| word.to_owned(), |path| path.display().to_string()),
        false => word.to_owned(),
    }
}

const PYTHON_SDK: &str = include_str!("../../plugins/sdk/python/throughline_plugin.py");
const PYTHON_ENGINE: &str = include_str!("../../plugins/examples/engine.py");
const PYTHON_PROVIDER: &str = include_str!("../../plugins/examples/provider.py");
const RUST_ENGINE: &str = include_str!("../../crates/plugins/examples/engine.rs");
const RUST_PROVIDER: &str = include_str!("../../crates/plugins/examples/provider.rs");

/// The files of a plugin, and the command that starts it.
type Project = (Vec<(&'static str, String)>, Vec<&'static str>);

impl New {
    pub fn run(&self, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let directory = Path::new(&self.name);
        let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if name.is_empty() || !name.chars().all(is_plain) {
            bail!("a plugin's name has letters, digits, `-` and `_`: {name:?} has something else");
        }
        if directory.exists() {
            bail!("{} is there already. Nothing was written.", directory.display());
        }
        let (files, command) = match self.lang {
            Language::Python => self.python(),
            Language::Rust => self.rust(name)?,
        };
        for (file, text) in files {
            let file = directory.join(file);
            let parent = file.parent().expect("a file in a directory has one");
            fs::create_dir_all(parent).with_context(|| format!("could not make {}", parent.display()))?;
            fs::write(&file, text).with_context(|| format!("could not write {}", file.display()))?;
        }
        let place = std::path::absolute(directory)?;
        let command: Vec<String> =
            command.iter().map(|word| word.replace("{}", &place.display().to_string())).collect();
        let key = match self.kind {
            Kind::Engine => format!("context:\n  engine: {name}\n"),
            Kind::Provider => format!("memory:\n  provider: {name}\n"),
        };
        writeln!(out, "{} is written. See that it keeps to the protocol:\n", directory.display())?;
        writeln!(out, "  throughline plugin check {}\n\nand use it, in config.yaml:\n", command.join(" "))?;
        writeln!(out, "throughline:\n  plugins:\n    {name}:\n      command: {}", json!(command))?;
        write!(out, "{key}")?;
        Ok(ExitCode::SUCCESS)
    }

    fn python(&self) -> Project {
        let example = match self.kind {
            Kind::Engine => PYTHON_ENGINE,
            Kind::Provider => PYTHON_PROVIDER,
        };
        let name = Path::new(&self.name).file_name().unwrap_or_default().to_string_lossy().into_owned();
        // In the repository the SDK lies elsewhere; here it lies beside. What was imported to say so goes with it,
        // unless the example has another use for it.
        let own: Vec<&str> = example
            .lines()
            .filter(|line| !line.starts_with("sys.path.append"))
            .map(|line| line.split("  # noqa: E402").next().unwrap_or(line))
            .collect();
        let is_used = |module: &str| {
            let meant = format!("{module}.");
            own.iter().any(|line| line.contains(&meant))
        };
        let is_kept = |line: &&str| match line.strip_prefix("import ") {
            Some(module @ ("os" | "sys")) => is_used(module),
            _ => true,
        };
        let own = own.iter().copied().filter(is_kept).collect::<Vec<_>>().join("\n");
        let own = own.replace("\n\n\nimport throughline_plugin", "\n\nimport throughline_plugin");
        let own = named(&own, &name) + "\n";
        (
            vec![("plugin.py", own), ("throughline_plugin.py", PYTHON_SDK.to_owned())],
            vec!["python3", "{}/plugin.py"],
        )
    }

    fn rust(&self, name: &str) -> anyhow::Result<Project> {
        // The crate is in no registry: a manifest without its place would build nowhere.
        let Some(sdk) = &self.sdk else {
            bail!(
                "a plugin in Rust needs the crate throughline-plugins, which lies in Throughline's sources. Nothing was \
                 written. Say where it is: `throughline plugin new {} --lang rust --sdk <sources>/crates/plugins`",
                self.name
            );
        };
        if !sdk.join("Cargo.toml").is_file() {
            bail!(
                "there is no Cargo.toml in {}. Nothing was written. `--sdk` names the directory crates/plugins of \
                 Throughline's sources",
                sdk.display()
            );
        }
        let sdk = std::path::absolute(sdk)?;
        let example = match self.kind {
            Kind::Engine => RUST_ENGINE,
            Kind::Provider => RUST_PROVIDER,
        };
        let sdk = format!("{{ path = {} }}", json!(sdk.display().to_string()));
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[[bin]]\nname = \"plugin\"\npath = \
             \"src/main.rs\"\n\n[dependencies]\n# crates/plugins of \
             Throughline.\nthroughline-plugins = {sdk}\nserde_json = \"1\"\ntokio = {{ version = \"1\", features = [\"full\"] \
             }}\n\n[workspace]\n"
        );
        let files = vec![("Cargo.toml", manifest), ("src/main.rs", named(example, name))];
        Ok((files, vec!["{}/target/release/plugin"]))
    }
}

/// The example under its own name: as its author will call it.
fn named(example: &str, name: &str) -> String {
    ["digest", "diary", "brief", "notebook"]
        .iter()
        .fold(example.to_owned(), |text, known| text.replace(&format!("\"{known}\""), &format!("\"{name}\"")))
}
