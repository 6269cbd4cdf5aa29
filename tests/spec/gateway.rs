//! The real binary on a home of its own, and a small client for it.
//!
//! Nothing of the machine shines through: the environment is empty, `$HOME` is a directory of the
//! test, the port is one that no other test picks. A gateway ends with its [`Gateway`], killed if need
//! be, and what it logged is shown when the test fails.

use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The key of every gateway here that is not given another. Must never turn up in what it says.
pub const KEY: &str = "tl-spec-canary-b5c1f20e9d";

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for what a test wants to see, and says what never came.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// A directory with a home in it, gone when the test is over.
pub struct Place {
    directory: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { directory: tempfile::Builder::new().prefix("tl-spec-").tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn home(&self) -> PathBuf {
        self.file("home")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file, below `home/` or beside it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub fn append(&self, name: &str, content: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.file(name)).unwrap();
        file.write_all(content.as_bytes()).unwrap();
    }

    /// A launch on this place's one home, with this script for the rehearsal model.
    pub fn rehearsing(&self, script: &Value) -> Launch {
        let script = self.write("script.json", script.to_string());
        self.launch()
            .env("THROUGHLINE_REHEARSAL", &script)
            .env("THROUGHLINE_REHEARSAL_LOG", self.file("model.log"))
    }

    pub fn launch(&self) -> Launch {
        Launch::on(self, &[&self.home()])
    }

    /// What the rehearsal model was asked, request by request.
    pub fn asked(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.file("model.log")).unwrap_or_default();
        // What a kill cut short was never answered.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// A command line, before it is run. It can be run again.
#[derive(Clone)]
pub struct Launch {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    port: u16,
    key: String,
    logs: PathBuf,
    home: PathBuf,
    wrapper: Vec<String>,
}

/// What a program left that ended by itself.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Launch {
    pub fn on(place: &Place, homes: &[&Path]) -> Self {
        let port = free_port();
        let mut arguments = Vec::new();
        for home in homes {
            arguments.extend(["--home".to_owned(), home.display().to_string()]);
        }
        let user = place.file("user");
        fs::create_dir_all(&user).unwrap();
        let launch = Self {
            arguments,
            environment: Vec::new(),
            port,
            key: KEY.to_owned(),
            logs: place.file("logs"),
            home: homes.first().map_or_else(|| user.clone(), |home| home.to_path_buf()),
            wrapper: Vec::new(),
        };
        launch.env("HOME", user).env("API_SERVER_PORT", port.to_string()).env("API_SERVER_KEY", KEY)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self = self.without(name);
        self.environment.push((name.to_owned(), value.as_ref().to_str().unwrap().to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self
    }

    /// The port where the gateway is to be found, if something else than the environment says it.
    pub fn at_port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Run through another program, which gets the gateway's command line as its last arguments.
    pub fn through(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// As it would be run, without input.
    pub fn command(&self) -> Command {
        let binary = env!("CARGO_BIN_EXE_throughline").to_owned();
        let mut words = self.wrapper.iter().chain([&binary]).chain(&self.arguments);
        let mut command = Command::new(words.next().expect("there is always the binary"));
        command.args(words).env_clear().env("PATH", "/usr/bin:/bin").env("RUST_BACKTRACE", "1");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        command
    }

    /// Starts it, and waits until it takes messages.
    pub fn start(&self) -> Gateway {
        let mut gateway = self.spawn();
        gateway.wait_until_ready();
        gateway
    }

    /// Starts it, and does not wait.
    pub fn spawn(&self) -> Gateway {
        fs::create_dir_all(&self.logs).unwrap();
        let log = |name: &str| -> File {
            OpenOptions::new().create(true).append(true).open(self.logs.join(name)).unwrap()
        };
        let child = self.command().stdout(log("stdout")).stderr(log("stderr")).spawn().unwrap();
        Gateway {
            child,
            client: Client::new(SocketAddr::from(([127, 0, 0, 1], self.port)), &self.key),
            logs: self.logs.clone(),
            home: self.home.clone(),
        }
    }

    /// Runs it to its end, which must come soon.
    pub fn run(&self) -> Ended {
        let mut child = self.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = drain(child.stdout.take().unwrap());
        let stderr = drain(child.stderr.take().unwrap());
        let status = wait(&mut child, PATIENCE);
        if status.is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
        let status =
            status.unwrap_or_else(|| panic!("it goes on, and should have refused:\n{stdout}{stderr}"));
        Ended { status, stdout, stderr }
    }

    /// Runs it until this holds, and ends it then: by `KILL`, or by `INT` as Ctrl-C does.
    pub fn ended_by(&self, signal: &str, what: &str, mut holds: impl FnMut() -> bool) -> Ended {
        let mut child = self.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = drain(child.stdout.take().unwrap());
        let stderr = drain(child.stderr.take().unwrap());
        let deadline = Instant::now() + PATIENCE;
        let mut is_there = holds();
        while !is_there && Instant::now() < deadline && child.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(2));
            is_there = holds();
        }
        let is_sent = match signal {
            "KILL" => child.kill().is_ok(), // at once: a program that kills takes its time to start
            _ => sends(child.id(), signal),
        };
        let status = wait(&mut child, PATIENCE);
        if status.is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
        assert!(is_there && is_sent, "never came true: {what}\n{stdout}{stderr}");
        let status = status.unwrap_or_else(|| panic!("{signal} does not end it:\n{stdout}{stderr}"));
        Ended { status, stdout, stderr }
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Sends a signal by its name. False: there is no such process.
fn sends(pid: u32, signal: &str) -> bool {
    Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap().success()
}

fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + patience;
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return Some(status),
            None if Instant::now() > deadline => return None,
            None => sleep(Duration::from_millis(2)),
        }
    }
}

/// A gateway that runs.
pub struct Gateway {
    child: Child,
    pub client: Client,
    pub home: PathBuf,
    logs: PathBuf,
}

impl Gateway {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn wait_until_ready(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.client.is_ready() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the gateway did not start ({status}):\n{}", self.log());
            }
            assert!(Instant::now() < deadline, "the gateway is not ready:\n{}", self.log());
            sleep(Duration::from_millis(2));
        }
    }

    /// Sends a signal by its name: `TERM`, `INT`, `STOP` …
    pub fn signal(&self, name: &str) {
        assert!(sends(self.pid(), name), "kill -{name}");
    }

    /// `kill -9`, and away.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop, and waits until it has.
    pub fn stop(self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    /// Waits for its end, which must come soon.
    pub fn wait(mut self) -> ExitStatus {
        let status = wait(&mut self.child, PATIENCE);
        status.unwrap_or_else(|| panic!("the gateway does not stop:\n{}", self.log()))
    }

    /// Everything it and its predecessors on this place have said.
    pub fn log(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.logs.join(name)).unwrap_or_default();
        format!("{}{}", read("stdout"), read("stderr"))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            eprintln!("what the gateway said last:\n{}", lines[lines.len().saturating_sub(60)..].join("\n"));
        }
    }
}

/// Rows of a home's database, table by table, each with a condition. One that is not there has none; what is there
/// is sound.
pub fn rows(home: &Path, tables: &[(&str, &str)]) -> Vec<String> {
    let database = rusqlite::Connection::open(home.join("state.db")).unwrap();
    let opinion: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(opinion, "ok");
    let mut told = Vec::new();
    for (table, condition) in tables {
        if !database.table_exists(None, *table).unwrap() {
            continue;
        }
        let sql = format!("SELECT * FROM {table} WHERE {condition} ORDER BY 1");
        let mut statement = database.prepare(&sql).unwrap();
        let width = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let row: Vec<String> = (0..width).map(|nth| format!("{:?}", row.get_ref(nth).unwrap())).collect();
            told.push(format!("{table}: {}", row.join(", ")));
        }
    }
    told
}

/// One without a listener, below the range from which the kernel takes the ports of clients: those
/// could take it while a gateway is down.
pub fn free_port() -> u16 {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    for _ in 0..COUNT {
        let nth = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let port = FIRST + (std::process::id().wrapping_mul(61) + nth) % COUNT;
        let port = u16::try_from(port).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

// --------------------------------------------------------------------------------------- the client

/// Speaks HTTP/1.1, one connection per request, as little as needed.
#[derive(Clone)]
pub struct Client {
    pub address: SocketAddr,
    pub key: String,
}

/// The head of a response, and a body that is still to come.
pub struct Reply {
    pub status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

/// A whole response.
#[derive(Debug)]
pub struct Whole {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    pub fn new(address: SocketAddr, key: &str) -> Self {
        Self { address, key: key.to_owned() }
    }

    pub fn is_ready(&self) -> bool {
        self.get("/health/ready").is_ok_and(|reply| reply.status == 200)
    }

    pub fn get(&self, path: &str) -> io::Result<Whole> {
        self.send("GET", path, &[], b"")?.whole()
    }

    /// What is found at `path`, which must be there.
    pub fn read(&self, path: &str) -> Value {
        let reply = self.get(path).unwrap();
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }

    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> io::Result<Whole> {
        self.send("POST", path, headers, body.to_string().as_bytes())?.whole()
    }

    pub fn chat(&self, headers: &[(&str, &str)], body: &Value) -> io::Result<Whole> {
        self.post("/v1/chat/completions", headers, body)
    }

    /// One message to a session, and the whole answer.
    pub fn say(&self, session: &str, text: &str) -> Whole {
        self.chat(&[("X-Hermes-Session-Id", session)], &said(text)).unwrap()
    }

    /// Sends a request and reads the head of its response.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Reply> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            head += &format!("Authorization: Bearer {}\r\n", self.key);
        }
        if method != "GET" {
            head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        stream.write_all(&[head.as_bytes(), body].concat())?;
        Reply::read(BufReader::new(stream))
    }

    /// The texts of a session's transcript, with their roles.
    pub fn transcript(&self, session: &str) -> Vec<(String, String)> {
        let rows = self.read(&format!("/api/sessions/{session}/messages"));
        let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let rows = rows["data"].as_array().unwrap().iter();
        rows.map(|row| (text(row, "role"), text(row, "content"))).collect()
    }
}

/// A chat completion with one message.
pub fn said(text: &str) -> Value {
    json!({"model": "agent", "messages": [{"role": "user", "content": text}]})
}

impl Reply {
    fn read(mut stream: BufReader<TcpStream>) -> io::Result<Self> {
        let status = line(&mut stream)?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "no status line"))?;
        let mut headers = Vec::new();
        loop {
            let line = line(&mut stream)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let chunked = header(&headers, "transfer-encoding") == "chunked";
        let left = match header(&headers, "content-length").parse() {
            Ok(length) => Left::Bytes(length),
            Err(_) if chunked => Left::Chunk(0),
            Err(_) => Left::UntilClosed,
        };
        Ok(Self { status, headers, body: Body { stream, left } })
    }

    pub fn header(&self, name: &str) -> &str {
        header(&self.headers, name)
    }

    /// Reads to the end. A body that breaks off is an error.
    pub fn whole(mut self) -> io::Result<Whole> {
        let mut body = Vec::new();
        self.body.read_to_end(&mut body)?;
        Ok(Whole { status: self.status, headers: self.headers, body })
    }

    /// The events of a stream, as they come.
    pub fn events(self) -> Events {
        Events { lines: BufReader::new(self.body) }
    }

    /// All pieces of a streamed chat completion, joined; an error if it breaks off before `[DONE]`.
    pub fn streamed(self) -> io::Result<String> {
        let mut text = String::new();
        for event in self.events() {
            let data = event?.data;
            if data == "[DONE]" {
                return Ok(text);
            }
            let chunk: Value = serde_json::from_str(&data)?;
            if !chunk["error"].is_null() {
                return Err(io::Error::other(data));
            }
            text += chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
            if let Some(alone) = chunk["throughline"]["content"].as_str() {
                text = alone.to_owned(); // the model was asked again in the middle
            }
        }
        Err(ErrorKind::UnexpectedEof.into())
    }
}

impl Whole {
    pub fn header(&self, name: &str) -> &str {
        header(&self.headers, name)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// What the assistant said in a chat completion, which must be one.
    pub fn said(&self) -> String {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    }

    /// The code and the message of an error, which must be one in OpenAI's shape.
    pub fn error(&self) -> (String, String) {
        let error = &self.json()["error"];
        assert!(error["type"].is_string() && error.get("param").is_some(), "{}", self.text());
        assert_eq!(self.header("content-type"), "application/json");
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (text("code"), text("message"))
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    let found = headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map_or("", |(_, value)| value)
}

/// One event of a stream.
#[derive(Debug)]
pub struct StreamEvent {
    pub name: String,
    pub data: String,
}

pub struct Events {
    lines: BufReader<Body>,
}

impl Iterator for Events {
    type Item = io::Result<StreamEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut event = StreamEvent { name: String::new(), data: String::new() };
        loop {
            let mut line = String::new();
            match self.lines.read_line(&mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
            let line = line.trim_end();
            if let Some(data) = line.strip_prefix("data: ") {
                event.data += data;
            } else if let Some(name) = line.strip_prefix("event: ") {
                event.name = name.to_owned();
            } else if line.is_empty() && !event.data.is_empty() {
                return Some(Ok(event));
            }
        }
    }
}

enum Left {
    Bytes(usize),
    /// Of the current chunk.
    Chunk(usize),
    UntilClosed,
}

/// A body without its framing. What ends before its framing says so is an error.
struct Body {
    stream: BufReader<TcpStream>,
    left: Left,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Left::Chunk(0) = self.left {
            let size = line(&mut self.stream)?;
            let size = if size.is_empty() { line(&mut self.stream)? } else { size };
            let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            self.left = if size == 0 { Left::Bytes(0) } else { Left::Chunk(size) };
        }
        match &mut self.left {
            Left::UntilClosed => self.stream.read(buffer),
            Left::Bytes(0) => Ok(0),
            Left::Bytes(left) | Left::Chunk(left) => {
                let wanted = buffer.len().min(*left);
                let count = self.stream.read(&mut buffer[..wanted])?;
                if count == 0 && wanted > 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                *left -= count;
                Ok(count)
            }
        }
    }
}

fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map_err(io::Error::other)
}
