//! P5: many agents in one process. What goes wrong with one is that one's matter, everybody
//! can see it, and a restart loses nothing.

use crate::gateway::{Client, Gateway, KEY, Launch, Place, said, until};
use crate::model::ModelServer;
use crate::peers;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// The profiles of a root, the root itself first.
const PROFILES: [&str; 13] = [
    "default", "ada", "babbage", "curie", "darwin", "euler", "faraday", "gauss", "hopper", "ibn", "joule",
    "kepler", "lovelace",
];

struct Root {
    place: Place,
}

impl Root {
    fn new() -> Self {
        let root = Self { place: Place::new() };
        for name in PROFILES {
            fs::create_dir_all(root.home(name)).unwrap();
        }
        root
    }

    fn home(&self, name: &str) -> PathBuf {
        match name {
            "default" => self.place.home(),
            name => self.place.home().join("profiles").join(name),
        }
    }

    fn launch(&self, script: &Value) -> Launch {
        self.place.rehearsing(script).arg("--all-profiles")
    }

    /// Returns when every agent has started, or failed to.
    fn start(&self) -> Gateway {
        let gateway = self.launch(&json!({})).start();
        until("all have been tried", || gateway.log().contains("ready   after"));
        gateway
    }

    /// `throughline status --json` from outside: its exit code, and each agent.
    fn status(&self) -> (i32, BTreeMap<String, Value>) {
        let home = self.place.home();
        let ended = Launch::on(&self.place, &[&home]).arg("--all-profiles").arg("status").arg("--json").run();
        let told: Value = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", ended.stdout, ended.stderr));
        let agents = told["data"].as_array().unwrap().iter();
        let named = agents.map(|agent| (agent["agent"].as_str().unwrap().to_owned(), agent.clone()));
        (ended.status.code().unwrap(), named.collect())
    }
}

/// One message to an agent through the listener that all share.
fn say(client: &Client, agent: &str, session: &str, key: &str, text: &str) -> std::io::Result<(u16, String)> {
    let path = format!("/p/{agent}/v1/chat/completions");
    let headers = [("X-Hermes-Session-Id", session), ("Idempotency-Key", key)];
    let reply = client.post(&path, &headers, &said(text))?;
    let told = match reply.status {
        200 => reply.said(),
        _ => reply.text(),
    };
    Ok((reply.status, told))
}

#[test]
fn p5_an_agent_that_cannot_start_is_named_and_tried_again_and_the_others_answer() {
    let root = Root::new();
    fs::write(root.home("babbage").join("config.yaml"), "model: [\n").unwrap();
    fs::write(root.home("curie").join("state.db"), "no database at all").unwrap();
    // Where the lock should be is a directory: unlike permissions, that binds root, too.
    fs::create_dir(root.home("darwin").join("gateway.lock")).unwrap();
    let lock = fs::File::create(root.home("euler").join("gateway.lock")).unwrap();
    lock.lock().unwrap();
    let failing = ["babbage", "curie", "darwin", "euler"];

    let gateway = root.start();
    for agent in PROFILES.iter().filter(|agent| !failing.contains(agent)) {
        let (status, told) = say(&gateway.client, agent, "s", "k", &format!("hello {agent}")).unwrap();
        assert!(status == 200 && told.contains(agent), "{agent}: {status} {told}");
    }
    for agent in &failing {
        assert_eq!(say(&gateway.client, agent, "s", "k", "hello").unwrap().0, 503, "{agent}");
    }
    let (code, agents) = root.status();
    assert_eq!(code, 1, "trouble has an exit code");
    for name in PROFILES {
        let state = if failing.contains(&name) { "down" } else { "running" };
        assert_eq!(agents[name]["state"], state, "{name}: {}", agents[name]);
    }
    let why = |name: &str| agents[name]["why"].as_str().unwrap().to_owned();
    assert!(why("babbage").contains("config.yaml:1"), "{}", why("babbage"));
    assert!(why("curie").contains("state.db"), "{}", why("curie"));
    assert!(why("darwin").contains("gateway.lock"), "{}", why("darwin"));
    assert!(why("euler").contains("gateway.lock"), "{}", why("euler"));
    assert_eq!(fs::read_to_string(root.home("curie").join("state.db")).unwrap(), "no database at all");
    let log = gateway.log();
    assert!(failing.iter().all(|name| log.contains(&format!("down    {name}"))), "{log}");

    // The obstacles go, and the agents start by themselves.
    fs::write(root.home("babbage").join("config.yaml"), "").unwrap();
    drop(lock);
    until("both run", || {
        ["babbage", "euler"].iter().all(|agent| {
            say(&gateway.client, agent, "s", "k", "here again").is_ok_and(|(status, _)| status == 200)
        })
    });
    assert_eq!(gateway.stop().code(), Some(0));
    let (_, agents) = root.status();
    assert_eq!(agents["ada"]["state"], "at rest");
    assert_eq!(agents["ada"]["sessions"], 1, "a home at rest is read from its store");
}

#[test]
fn p5_profiles_share_a_listener_and_nothing_else() {
    let root = Root::new();
    for (name, key) in [("ada", "tl-spec-ada-5b1f20e9d0aa"), ("gauss", "tl-spec-gauss-5b1f20e9d0aa")] {
        fs::write(root.home(name).join(".env"), format!("API_SERVER_KEY={key}\n")).unwrap();
    }
    let gateway = root.start();
    let own = |key: &str| Client::new(gateway.client.address, key);
    let (ada, gauss) = (own("tl-spec-ada-5b1f20e9d0aa"), own("tl-spec-gauss-5b1f20e9d0aa"));
    for (client, agent) in [(&ada, "ada"), (&gauss, "gauss")] {
        assert_eq!(say(client, agent, "mine", "k", "hello").unwrap().0, 200);
        assert_eq!(say(client, agent, &format!("talk-of-{agent}"), "k2", "hello").unwrap().0, 200);
    }
    for (client, agent) in [(&ada, "gauss"), (&gauss, "ada"), (&ada, "default"), (&gateway.client, "ada")] {
        assert_eq!(say(client, agent, "mine", "k", "hello").unwrap().0, 401, "{agent}");
        assert_eq!(client.get(&format!("/p/{agent}/api/status")).unwrap().status, 401, "{agent}");
    }
    assert_eq!(ada.get("/v1/models").unwrap().status, 401, "the root is the default agent's");
    assert_eq!(gateway.client.get("/p/missing/v1/models").unwrap().status, 401);
    let seen = ada.read("/p/ada/api/status");
    assert_eq!(seen["agents"].as_array().unwrap().len(), PROFILES.len());
    assert!(!seen.to_string().contains("talk-of-gauss"), "no word of another's sessions: {seen}");
    let listed = ada.read("/p/ada/api/sessions").to_string();
    assert!(listed.contains("talk-of-ada") && !listed.contains("talk-of-gauss"), "{listed}");
    assert_eq!(gateway.stop().code(), Some(0));
    for name in ["agent.log", "gateway.log"] {
        let log = fs::read_to_string(root.home("ada").join("logs").join(name)).unwrap();
        assert!(log.contains(" INFO gateway.run: throughline started"), "{log}");
        let mode = fs::metadata(root.home("ada").join("logs").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

/// By agent and session, in order.
type Said = BTreeMap<(String, String), Vec<String>>;

/// Talks to every agent in turn, again and again, until it is told to stop. A message that got no
/// answer is sent again under its key, as any client would.
struct Traffic {
    stop: Arc<AtomicBool>,
    sent: Arc<Mutex<Said>>,
    answered: Arc<AtomicUsize>,
    people: Vec<thread::JoinHandle<()>>,
}

impl Traffic {
    fn begin(client: &Client, people: usize) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let sent: Arc<Mutex<Said>> = Arc::default();
        let person = |nth: usize| {
            let (client, stop, sent, answered) =
                (client.clone(), stop.clone(), sent.clone(), answered.clone());
            thread::spawn(move || {
                let agent = PROFILES[nth % PROFILES.len()];
                let session = format!("person-{nth}");
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let text = format!("message {number} of {session}");
                    let key = format!("{session}-{number}");
                    let deadline = Instant::now() + Duration::from_secs(60);
                    while !say(&client, agent, &session, &key, &text)
                        .is_ok_and(|(status, told)| status == 200 && told.contains(&text))
                    {
                        assert!(Instant::now() < deadline, "{text} is never answered");
                        sleep(Duration::from_millis(20));
                    }
                    answered.fetch_add(1, Ordering::Relaxed);
                    let chat = (agent.to_owned(), session.clone());
                    sent.lock().unwrap().entry(chat).or_default().push(text);
                }
            })
        };
        let people = (0..people).map(person).collect();
        Self { stop, sent, answered, people }
    }

    fn goes_on(&self, messages: usize) {
        let before = self.answered.load(Ordering::Relaxed);
        until("people are answered", || self.answered.load(Ordering::Relaxed) >= before + messages);
    }

    /// Every message is in its conversation once, in order.
    fn judge(self, client: &Client) {
        self.stop.store(true, Ordering::Relaxed);
        self.people.into_iter().for_each(|person| person.join().unwrap());
        for ((agent, session), texts) in self.sent.lock().unwrap().iter() {
            let rows = client.read(&format!("/p/{agent}/api/sessions/{session}/messages"));
            let rows = rows["data"].as_array().unwrap();
            let users: Vec<_> = rows
                .iter()
                .filter(|row| row["role"] == "user")
                .map(|row| row["content"].as_str().unwrap())
                .collect();
            assert_eq!(users, *texts, "{agent}/{session}");
            assert_eq!(rows.len(), 2 * texts.len(), "{agent}/{session}");
        }
    }
}

#[test]
fn p7_p8_p9_restarts_and_kills_under_load_lose_and_double_nothing() {
    let root = Root::new();
    let launch = root.launch(&json!({"latency_ms": 30}));
    let mut gateway = launch.start();
    let traffic = Traffic::begin(&gateway.client, 26);
    traffic.goes_on(30);
    for round in 0..3 {
        let before = gateway.client.read("/api/status")["instance"].clone();
        let restarted = Launch::on(&root.place, &[&root.place.home()]).arg("restart").run();
        assert!(restarted.status.success(), "{}{}", restarted.stdout, restarted.stderr);
        assert!(restarted.stdout.contains("is back after"), "{}", restarted.stdout);
        assert_ne!(gateway.client.read("/api/status")["instance"], before, "round {round}");
        assert!(gateway.is_running(), "it began anew in its own place");
        traffic.goes_on(20);
        gateway.kill();
        gateway = launch.start();
        traffic.goes_on(20);
    }
    traffic.judge(&gateway.client);
    assert_eq!(gateway.stop().code(), Some(0));
}

#[test]
fn under_a_supervisor_a_restart_is_an_exit_code() {
    let place = Place::new();
    let gateway = place.rehearsing(&json!({})).env("THROUGHLINE_SUPERVISED", "1").start();
    let asked = gateway.client.post("/api/control/restart", &[], &json!({})).unwrap();
    assert_eq!(asked.status, 200, "{}", asked.text());
    assert_eq!(gateway.wait().code(), Some(75));
    let state: Value = json_file(&place.home().join("gateway_state.json"));
    assert_eq!((&state["gateway_state"], &state["restart_requested"]), (&json!("stopped"), &json!(true)));
}

#[test]
fn systemd_hears_when_it_is_ready_that_it_lives_and_when_it_stops() {
    let place = Place::new();
    let path = place.file("notify");
    let listener = UnixDatagram::bind(&path).unwrap();
    listener.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut gateway =
        place.rehearsing(&json!({})).env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "3000000").spawn();
    let mut heard = Vec::new();
    let hears = |heard: &mut Vec<String>, what: &str| {
        while !heard.iter().any(|word| word == what) {
            let mut buffer = [0; 256];
            let length =
                listener.recv(&mut buffer).unwrap_or_else(|error| panic!("no {what}: {error}, {heard:?}"));
            heard.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
    };
    hears(&mut heard, "READY=1");
    assert!(gateway.client.is_ready(), "ready means that messages are taken");
    heard.clear();
    hears(&mut heard, "WATCHDOG=1");
    assert!(gateway.is_running());
    gateway.signal("TERM");
    hears(&mut heard, "STOPPING=1");
    assert_eq!(gateway.wait().code(), Some(0));
}

fn json_file(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn p15_hermes_own_tools_see_who_runs_and_how_far_it_is() {
    for hermes in peers::hermes() {
        let place = Place::new();
        place.write("home/channel_directory.json", "{\"platforms\": {\"telegram\": [{\"id\": \"1\"}]}}");
        place.write("home/channel_aliases.json", "{\"telegram\": {\"42\": \"Ada\"}}");
        let model = ModelServer::start(Duration::ZERO);
        place.write("home/config.yaml", format!("model: {}\n", model.setting("m")));
        let gateway = place.launch().start();
        let seen = |what: &str| hermes.sees(&place.home(), what);
        let told = seen("running");
        assert_eq!(told["running_pid"], gateway.pid(), "{}: {told}", hermes.version);
        assert_eq!(told["state"]["gateway_state"], "running", "{told}");
        assert_eq!(told["state"]["platforms"]["api_server"]["state"], "connected", "{told}");
        let names: Vec<_> =
            told["channels"]["platforms"]["telegram"].as_array().into_iter().flatten().collect();
        assert_eq!(names.len(), 1, "a platform that is not served lists only what its owner named: {told}");
        assert_eq!(names[0]["name"], "Ada");
        // Hermes 0.14.0 does not know that yet.
        let knows = told.get("pid_by_state").is_some();
        assert_eq!(knows, hermes.version != "0.14.0", "{}: {told}", hermes.version);
        if knows {
            assert_eq!(told["pid_by_state"], gateway.pid());
            assert_eq!(told["busy"], false);
            model.hold();
            let client = gateway.client.clone();
            let turn = thread::spawn(move || client.say("s", "a long one").said());
            until("Hermes sees that it is busy", || seen("busy")["busy"] == true);
            model.release();
            turn.join().unwrap();
        }
        let mode = fs::metadata(place.file("home/gateway_state.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(gateway.stop().code(), Some(0));
        let told = seen("stopped");
        assert_eq!(
            (&told["running_pid"], &told["state"]["gateway_state"]),
            (&Value::Null, &json!("stopped"))
        );
    }
}

#[test]
fn p31_no_key_is_in_a_log_or_a_state_file() {
    let place = Place::new();
    let gateway = place.rehearsing(&json!({})).arg("--log-level").arg("debug").start();
    gateway.client.say("s", &format!("my key is {KEY}")).said();
    assert_eq!(gateway.stop().code(), Some(0));
    for name in ["logs/agent.log", "logs/gateway.log", "logs/errors.log", "gateway_state.json"] {
        let text = fs::read_to_string(place.home().join(name));
        // Where nothing went wrong there may be no log of errors.
        let text = if name == "logs/errors.log" { text.unwrap_or_default() } else { text.unwrap() };
        assert!(!text.contains(KEY), "{name}");
    }
    let log = fs::read_to_string(place.file("home/logs/agent.log")).unwrap();
    assert!(log.contains("throughline started"), "{log}");
    for name in ["logs/stdout", "logs/stderr"] {
        assert!(!fs::read_to_string(place.file(name)).unwrap().contains(KEY), "{name}");
    }
}
