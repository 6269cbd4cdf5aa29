//! Programs of other people that the tests talk to, each in an environment of its own that
//! `tests/peers/install` makes below `.cache/peers`.
//!
//! With `THROUGHLINE_PEERS=skip` a test that needs one says so and passes; in every other case a
//! peer that is not there is a failure.

use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The versions of Hermes that are tested with, unless `THROUGHLINE_HERMES` names others
/// (`THROUGHLINE_HERMES=0.16.0,0.18.2`, after `tests/peers/install hermes-0.16.0` and so on).
const HERMES: &str = "0.14.0,0.19.0";

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether tests that need this are to be left out; says so if they are.
pub fn skips(what: &str) -> bool {
    let skips = std::env::var("THROUGHLINE_PEERS").is_ok_and(|value| value == "skip");
    if skips {
        println!("skipped: {what} (THROUGHLINE_PEERS=skip)");
    }
    skips
}

/// The Python of a peer's environment; None if peers are to be skipped.
fn python(peer: &str) -> Option<PathBuf> {
    if skips(peer) {
        return None;
    }
    let environment = root().join(".cache/peers").join(peer);
    assert!(
        environment.join(".complete").exists(),
        "{peer} is not installed: run `tests/peers/install`, or `tests/peers/install {peer}` for another version \
         (THROUGHLINE_PEERS=skip leaves these tests out)"
    );
    Some(environment.join("bin/python"))
}

/// The program of one of MCP's reference servers; None if peers are to be skipped.
pub fn mcp_server(name: &str) -> Option<PathBuf> {
    python("mcp")?; // says what is missing
    let package = root().join(".cache/peers/mcp/node_modules/@modelcontextprotocol").join(name);
    Some(package.join("dist/index.js"))
}

/// The program of one who checks what MCP asks of clients and servers; None if peers are to be skipped.
pub fn mcp_checker(program: &str) -> Option<PathBuf> {
    python("mcp-conformance")?; // says what is missing
    Some(root().join(".cache/peers/mcp-conformance/node_modules/@modelcontextprotocol").join(program))
}

/// Where Node is, on the machine as it is.
pub fn node() -> String {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|path| path.join("node")).find(|path| path.is_file());
    found.expect("the reference servers need Node").display().to_string()
}

/// A script below `tests/peers`, with pipes to speak through and nothing else in its environment.
fn script(python: &Path, name: &str) -> Command {
    let mut command = Command::new(python);
    command.arg("-B").arg(root().join("tests/peers").join(name)).env_clear();
    command.env("PYTHONUTF8", "1").env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// The official SDK, about to hold the conversations that its script writes down.
pub fn openai_sdk(port: u16, key: &str) -> Option<Child> {
    let mut command = script(&python("openai")?, "openai_sdk.py");
    command.env("OPENAI_BASE_URL", format!("http://127.0.0.1:{port}/v1")).env("OPENAI_API_KEY", key);
    Some(command.spawn().expect("Python can be started"))
}

/// A script below `tests/peers/clients` with the library it is about, which speaks to this gateway.
pub fn api_client(name: &str, port: u16, key: &str) -> Option<Child> {
    let name = format!("clients/{name}");
    let mut command = match name.ends_with(".mjs") {
        false => script(&python("clients")?, &name),
        true => {
            python("clients-node")?; // says what is missing
            let mut command = Command::new(node());
            command.arg(root().join("tests/peers").join(&name)).env_clear();
            command.env("PEER", root().join(".cache/peers/clients-node"));
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            command
        }
    };
    command.env("OPENAI_BASE_URL", format!("http://127.0.0.1:{port}/v1")).env("OPENAI_API_KEY", key);
    command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True"); // nothing here asks the network
    Some(command.spawn().expect("the client can be started"))
}

/// A real Hermes. Each [`Hermes::does`] is a process of its own, as its command line would be.
pub struct Hermes {
    pub version: String,
    python: PathBuf,
}

/// Every Hermes that is to be tested with.
pub fn hermes() -> Vec<Hermes> {
    let versions = std::env::var("THROUGHLINE_HERMES").unwrap_or_else(|_| HERMES.to_owned());
    versions.split(',').filter_map(|version| one_hermes(version.trim())).collect()
}

/// The Python of one version; None if peers are to be skipped.
pub fn hermes_python(version: &str) -> Option<PathBuf> {
    python(&format!("hermes-{version}"))
}

/// Whether the real Hindsight is there to be started; false if peers are to be skipped.
pub fn hindsight() -> bool {
    python("hindsight").is_some()
}

/// The Python of a Hermes that has Hindsight's client, where a Hindsight is there to be started, too.
pub fn hermes_with_hindsight() -> Option<PathBuf> {
    python("hindsight")?; // says what is missing
    python("hermes-hindsight")
}

pub fn one_hermes(version: &str) -> Option<Hermes> {
    let python = python(&format!("hermes-{version}"))?;
    Some(Hermes { version: version.to_owned(), python })
}

impl Hermes {
    /// Runs calls on Hermes' own classes on this home, one after the other, and returns what each
    /// returned. See `tests/peers/hermes_store.py`.
    pub fn does(&self, home: &Path, calls: &[Value]) -> Vec<Value> {
        let told = self.runs("hermes_store.py", home, &json!(calls));
        serde_json::from_slice(&told).expect("the script answers in JSON")
    }

    /// Runs Hermes' gateway on this home until every chat was answered, and returns what was said. See
    /// `tests/peers/hermes_gateway.py`.
    pub fn serves(&self, home: &Path, told: &Value) -> Value {
        let said = self.runs("hermes_gateway.py", home, told);
        serde_json::from_slice(&said).expect("the script answers in JSON")
    }

    /// Runs its gateway behind its API server, asked several things at once on one session. See
    /// `tests/peers/hermes_api.py`.
    pub fn answers(&self, home: &Path, told: &Value) -> Value {
        let said = self.runs("hermes_api.py", home, told);
        serde_json::from_slice(&said).expect("the script answers in JSON")
    }

    /// What its status module makes of the gateway that runs on this home. See `tests/peers/hermes_status.py`.
    pub fn sees(&self, home: &Path, why: &str) -> Value {
        let told = self.runs("hermes_status.py", home, &json!({ "why": why }));
        serde_json::from_slice(&told).expect("the script answers in JSON")
    }

    fn runs(&self, name: &str, home: &Path, told: &Value) -> Vec<u8> {
        let mut command = script(&self.python, name);
        command.env("HERMES_HOME", home).env("HOME", home.with_file_name("user"));
        let mut child = command.spawn().expect("Python can be started");
        let told = told.to_string();
        child
            .stdin
            .take()
            .expect("it is piped")
            .write_all(told.as_bytes())
            .expect("the script reads what it is told");
        let output = child.wait_with_output().expect("the script ends");
        assert!(output.status.success(), "Hermes {} failed at {told}", self.version);
        output.stdout
    }

    /// Its compressor, about to be shown conversations; see `tests/peers/compress.py`.
    pub fn compressor(&self, home: &Path) -> Command {
        let mut command = script(&self.python, "compress.py");
        command.env("HERMES_HOME", home).env("HOME", home.with_file_name("user"));
        command
    }

    /// [`Hermes::does`] for a single call.
    pub fn did(&self, home: &Path, call: Value) -> Value {
        self.does(home, &[call]).remove(0)
    }
}
