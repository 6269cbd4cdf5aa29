//! The real Hindsight behind the real binary, `kill -9` on either side.
//!
//! People write on a local Bot API. The line between the two is ours and can be held at a moment of a hand-over, so
//! that each kill hits that moment for certain. Judged by what the server has, against the transcripts.

use crate::chats::World;
use crate::gateway::{Client, Place};
use crate::model::ModelServer;
use crate::peers;
use crate::wire::{self, Answer, Request};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use throughline_servers::telegram::{Chat, User};

/// A server that was killed takes most of a minute to come back.
const PATIENCE: Duration = Duration::from_secs(180);
const BANK: &str = "hermes";

/// A server of one's own. Ends with its handle.
pub struct Server {
    directory: tempfile::TempDir,
    pub client: Client,
}

/// A document, as the server has it.
#[derive(Debug)]
pub struct Document {
    pub id: String,
    pub text: String,
    tags: BTreeSet<String>,
    units: u64,
}

impl Server {
    fn script() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/hindsight")
    }

    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let address = Self::run(directory.path());
        Self { directory, client: Client::new(address, "none") }
    }

    /// Starts the parts that do not run, and says where it answers.
    fn run(directory: &Path) -> SocketAddr {
        let output = Command::new(Self::script()).arg("start").arg(directory).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "Hindsight does not start: {told}");
        let url = String::from_utf8(output.stdout).unwrap();
        url.trim().strip_prefix("http://").unwrap().parse().unwrap()
    }

    /// `kill -9`.
    fn kill(&self) {
        let file = self.directory.path().join("server.pid");
        let id = std::fs::read_to_string(&file).unwrap();
        assert!(Command::new("kill").args(["-9", id.trim()]).status().unwrap().success());
        std::fs::remove_file(file).unwrap(); // the dead process may not be collected yet
    }

    fn start_again(&self) {
        assert_eq!(Self::run(self.directory.path()), self.client.address);
    }

    pub fn documents(&self, bank: &str) -> Vec<Document> {
        let bank = format!("/v1/default/banks/{bank}/documents");
        let listed = self.client.get(&format!("{bank}?limit=100")).unwrap();
        if listed.status != 200 {
            return Vec::new(); // the bank is made by the first turn
        }
        let document = |item: &Value| {
            let id = item["id"].as_str().unwrap();
            let path = format!("{bank}/{}", id.replace('/', "%2F"));
            let tags = item["tags"].as_array().unwrap().iter().map(|tag| tag.as_str().unwrap().to_owned());
            Document {
                id: id.to_owned(),
                text: self.client.read(&path)["original_text"].as_str().unwrap_or_default().to_owned(),
                tags: tags.collect(),
                units: item["memory_unit_count"].as_u64().unwrap(),
            }
        };
        listed.json()["items"].as_array().unwrap().iter().map(document).collect()
    }

    fn has(&self, document: &str) -> bool {
        let path = format!("/v1/default/banks/{BANK}/documents/{}", document.replace('/', "%2F"));
        self.client.get(&path).is_ok_and(|found| found.status == 200)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new(Self::script()).arg("stop").arg(self.directory.path()).status();
    }
}

/// How far the hand-over of a turn is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// The gateway has asked, and the server does not know it yet.
    Asked,
    /// The server has taken it in, and the gateway does not know it yet.
    TakenIn,
    /// The server says that it is kept, and the gateway does not know it yet.
    Kept,
}

/// The way to a server. It can be held, and what is held then is lost.
struct Line {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    held: Mutex<Held>,
    cut: Condvar,
    /// Which document an operation is about.
    operations: Mutex<BTreeMap<String, String>>,
}

#[derive(Default)]
struct Held {
    at: Option<Moment>,
    /// The documents that wait there.
    what: Vec<String>,
    /// How often it was cut.
    cuts: u64,
}

impl Line {
    fn to(server: &Server) -> Self {
        let (state, client) = (Arc::new(State::default()), server.client.clone());
        let carrying = state.clone();
        let address = wire::serve(move |request| carrying.carry(&client, request));
        Self { address, state }
    }

    /// A call that reaches this moment stays there …
    fn hold(&self, moment: Moment) {
        self.state.held.lock().unwrap().at = Some(moment);
    }

    fn held(&self) -> Vec<String> {
        self.state.held.lock().unwrap().what.clone()
    }

    /// … until this: then it is lost, and the line is free again.
    fn cut(&self) {
        let mut held = self.state.held.lock().unwrap();
        *held = Held { cuts: held.cuts + 1, ..Held::default() };
        self.state.cut.notify_all();
    }
}

impl State {
    fn carry(&self, server: &Client, request: &Request) -> Option<Answer> {
        let (method, path) = request.line.split_once(' ')?;
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let document = match path.ends_with("/memories") {
            true => body["items"][0]["document_id"].as_str(),
            false => None,
        };
        if let Some(document) = document {
            let operation = body["operation_id"].as_str().unwrap_or_default().to_owned();
            self.operations.lock().unwrap().insert(operation, document.to_owned());
            self.passes(Moment::Asked, document)?;
        }
        let answer = server.send(method, path, &[], &request.body).ok()?.whole().ok()?;
        if let Some(document) = document {
            self.passes(Moment::TakenIn, document)?;
        }
        if let (Some((_, operation)), true) =
            (path.rsplit_once("/operations/"), answer.text().contains("\"completed\""))
        {
            let document = self.operations.lock().unwrap().get(operation).cloned();
            self.passes(Moment::Kept, &document.unwrap_or_default())?;
        }
        Some(Answer { status: answer.status, kind: "application/json", content: answer.text() })
    }

    /// None: it was held here, and is lost.
    fn passes(&self, moment: Moment, what: &str) -> Option<()> {
        let mut held = self.held.lock().unwrap();
        if held.at != Some(moment) {
            return Some(());
        }
        held.what.push(what.to_owned());
        let cuts = held.cuts;
        drop(self.cut.wait_while(held, |held| held.cuts == cuts).unwrap());
        None
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited for {what}");
        thread::sleep(Duration::from_millis(150));
    }
}

/// Says it, and reads the reply: also one that comes again.
fn hears(world: &World, who: i64, text: &str) {
    world.telegram.say(&Chat::private(who, "P"), &User::new(who, "P"), text);
    let reply = format!("re: {text}");
    world.until(&reply, |world| world.shown().iter().any(|shown| shown.ends_with(&reply)));
}

fn begins_anew(world: &World, who: i64) {
    let sent = |world: &World| world.telegram.sent().iter().filter(|sent| sent.chat == who).count();
    let before = sent(world);
    world.telegram.say(&Chat::private(who, "P"), &User::new(who, "P"), "/new");
    world.until("/new", |world| sent(world) > before);
}

/// The one session that the transcripts have these words in.
fn session_of(home: &Path, words: &str) -> String {
    let database = Connection::open(home.join("state.db")).unwrap();
    let sql = "SELECT DISTINCT session_id FROM messages WHERE role = 'user' AND content = ?";
    let mut rows = database.prepare(sql).unwrap();
    let found = rows.query_map([words], |row| row.get(0)).unwrap();
    let mut found: Vec<String> = found.map(Result::unwrap).collect();
    assert_eq!(found.len(), 1, "{words}: {found:?}");
    found.remove(0)
}

const PEOPLE: [i64; 2] = [42, 43];

#[test]
fn p24_p26_kill_9_of_the_gateway_or_both_at_any_moment_of_a_hand_over_keeps_each_turn_once_under_its_lineage()
{
    if !peers::hindsight() {
        return;
    }
    let server = Server::start();
    let line = Line::to(&server);
    let world =
        World::around(Place::new(), ModelServer::start(Duration::ZERO), "TELEGRAM_ALLOWED_USERS=42,43");
    world.place.append("home/config.yaml", "memory: {provider: hindsight, nudge_interval: 0}\n");
    let settings = json!({
        "mode": "local_external", "api_url": format!("http://{}", line.address), "memory_mode": "context",
        "retain_every_n_turns": 2, "timeout": 60,
    });
    world.place.write("home/hindsight/config.json", settings.to_string());

    let jobs = || {
        let _ = world.place.launch().arg("memory").arg("retry").run(); // without the pause
        world.place.launch().arg("memory").arg("jobs").arg("--json").run().stdout
    };
    let mut said: Vec<(i64, String)> = Vec::new();
    let mut says = |who: i64, text: String| {
        hears(&world, who, &text);
        said.push((who, text));
    };
    let mut gateway = world.launch.start();
    let kills = [
        (Moment::Asked, false),
        (Moment::TakenIn, false),
        (Moment::Kept, false),
        (Moment::TakenIn, true),
        (Moment::Asked, true),
    ];
    for (round, (moment, and_the_server)) in kills.into_iter().enumerate() {
        line.hold(moment);
        for who in PEOPLE {
            says(who, format!("first of {who} in round {round}."));
            says(who, format!("second of {who} in round {round}."));
        }
        // Each has one session until then, and a document that is asked for again is no other's.
        let sessions = || -> BTreeSet<String> {
            line.held().iter().filter_map(|held| Some(held.rsplit_once('/')?.0.to_owned())).collect()
        };
        until("a turn of each", || sessions().len() >= PEOPLE.len());
        // What is left while it is on its way stays what it was; the next one is said in another session.
        for who in PEOPLE.into_iter().skip(round % 2) {
            begins_anew(&world, who);
            says(who, format!("third of {who} in round {round}."));
        }
        let held = line.held();
        // What the server has been asked it may have stored by now; of what it has answered that is certain.
        if moment != Moment::Asked && !and_the_server {
            held.iter().for_each(|held| until("it is stored", || server.has(held)));
        }
        println!("round {round}: killed with {} on their way, {moment:?}: {held:?}", held.len());
        gateway.kill();
        if and_the_server {
            server.kill();
        }
        line.cut();
        gateway = world.launch.start();
        if and_the_server {
            // Only those who look notice.
            PEOPLE
                .into_iter()
                .for_each(|who| says(who, format!("{who} writes while round {round} is down.")));
            server.start_again();
        }
        // The next round is about other turns.
        until("what was lost is handed over", || {
            let jobs = jobs();
            held.iter().all(|held| !jobs.contains(&format!("\"{held}\"")))
        });
    }
    assert!(gateway.stop().success()); // what waits for more of its kind is due
    let gateway = world.launch.start();
    until("nothing waits", || {
        serde_json::from_str::<Value>(&jobs()).is_ok_and(|told| told["jobs"] == json!([]))
    });
    assert!(gateway.stop().success());

    let kept = server.documents(BANK);
    for who in PEOPLE {
        let mut before: Option<String> = None;
        let mut here = String::new();
        for (_, text) in said.iter().filter(|(by, _)| *by == who) {
            let session = session_of(&world.place.home(), text);
            if session != here {
                before = Some(std::mem::replace(&mut here, session)).filter(|before| !before.is_empty());
            }
            // The question and the answer that repeats it, in one document of one unit.
            let those: Vec<_> = kept.iter().filter(|kept| kept.text.contains(text)).collect();
            let [document] = &those[..] else { panic!("{text}: {those:#?}") };
            assert_eq!((document.text.matches(text).count(), document.units), (2, 1), "{document:?}");
            assert!(document.id.starts_with(&format!("{here}/")), "{text}: {document:?}");
            let mut lineage =
                BTreeSet::from([format!("session:{here}"), format!("user:{who}"), format!("chat:{who}")]);
            lineage.extend(before.as_ref().map(|before| format!("parent:{before}")));
            assert_eq!(document.tags, lineage, "{text}");
        }
    }
    assert_eq!(kept.len(), said.len(), "{kept:#?}");
    println!("{} turns through {} kills, each once", said.len(), kills.len());
}
