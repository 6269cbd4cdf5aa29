//! A plugin that misbehaves in every way, in everything it is asked, behind the real gateway: one agent for each,
//! all of them at once. Every turn is answered in its time, nothing is lost, and what was to be kept is kept once.

use super::*;
use crate::gateway::{Client, Gateway, Launch, free_port};
use std::collections::BTreeMap;

const HOW: [&str; 7] = ["hang", "crash", "garbage", "long", "drip", "wrong", "late"];
const METHODS: [&str; 6] = [
    "provider/recall",
    "provider/retain",
    "engine/should_compress",
    "engine/compress",
    "tool/call",
    "hook/run",
];

/// Every call of the plugin has one second. A turn waits for a few of them at most; the rest is for a machine on which
/// all these agents work at once.
const IN_TIME: Duration = Duration::from_secs(12);

const LINES: [&str; 6] = ["one", "use it", "two", "three", "use it again", "four"];

fn chaos() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples/chaos");
    assert!(program.exists(), "{} is built with the workspace's examples", program.display());
    program
}

struct Agent {
    name: String,
    port: u16,
}

/// One agent whose provider, engine, tool and guard is a plugin that fails in this way, the first time.
fn agent(place: &Place, how: &str, method: &str) -> Agent {
    let agent = Agent { name: format!("{how}-{}", method.replace('/', "-")), port: free_port() };
    let command = json!([chaos(), how, method, "1"]);
    place.write(
        &format!("{}/config.yaml", agent.name),
        format!(
            "model: {{default: rehearsal, context_length: 32000}}\nmemory: {{provider: chaos, nudge_interval: 0}}\n\
             context: {{engine: chaos}}\nthroughline: {{plugins: {{chaos: {{command: {command}, call_seconds: 1}}}}}}\n"
        ),
    );
    place.write(&format!("{}/.env", agent.name), format!("API_SERVER_PORT={}\n", agent.port));
    agent
}

impl Agent {
    fn client(&self, gateway: &Gateway) -> Client {
        let mut client = gateway.client.clone();
        client.address.set_port(self.port);
        client
    }

    /// What the plugin was asked to keep: each time, whether that was said to be another try, and whether it was
    /// answered.
    fn kept(&self, place: &Place) -> BTreeMap<String, Vec<(bool, bool)>> {
        let path = place.file(&self.name).join("throughline.plugins/chaos/kept");
        let mut kept: BTreeMap<String, Vec<(bool, bool)>> = BTreeMap::new();
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            let Ok(note) = serde_json::from_str::<Value>(line) else { continue };
            let key = note["key"].as_str().unwrap().to_owned();
            kept.entry(key).or_default().push((note["tried"] == true, note["well"] == true));
        }
        kept
    }

    fn lives_through_it(&self, place: &Place, gateway: &Gateway) {
        let (name, client) = (&self.name, self.client(gateway));
        let in_time = |what: &str, began: Instant| {
            let took = began.elapsed();
            assert!(took < IN_TIME, "{name}: {what} took {took:?}");
        };
        let words =
            |line: &str| format!("{line}: {}", "we look at the map again ".repeat(20)).trim_end().to_owned();
        for line in LINES {
            let began = Instant::now();
            let answer = client.say("talk", &words(line));
            assert_eq!(answer.status, 200, "{name}: {line}: {}", answer.text());
            in_time(line, began);
        }
        let began = Instant::now();
        let order = json!({"command": "/compress"});
        let answer = client.post("/api/sessions/talk/commands", &[], &order).unwrap();
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        in_time("/compress", began);
        assert_eq!(client.say("talk", &words("five")).status, 200, "{name}");

        let began = Instant::now();
        let is_kept = |tries: &Vec<(bool, bool)>| tries.last().is_some_and(|(_, well)| *well);
        while self.kept(place).values().filter(|tries| is_kept(tries)).count() < LINES.len() + 1 {
            assert!(began.elapsed() < PATIENCE, "{name}: {:?}", self.kept(place));
            thread::sleep(Duration::from_millis(100));
        }
        for (key, tries) in self.kept(place) {
            // One that stood in line behind another's late answer may have been kept without our knowing: whoever
            // recognises keys keeps it once, and whoever does not is warned.
            assert!(
                tries[1..].iter().all(|(tried, _)| *tried),
                "{name}: {key}: a second try says so: {tries:?}"
            );
        }
        let database = rusqlite::Connection::open(place.file(name).join("state.db")).unwrap();
        for line in LINES.into_iter().chain(["five"]) {
            let count = "SELECT count(*) FROM messages WHERE role = 'user' AND content = ?";
            let rows: i64 = database.query_row(count, [words(line)], |row| row.get(0)).unwrap();
            assert!(rows >= 1, "{name}: {line} is gone");
        }
        let check = client.read("/api/control/check");
        assert_eq!(check["data"], json!([]), "{name}: {check}");
    }
}

#[test]
fn p18_p24_whatever_a_plugin_does_turns_are_answered_in_time_and_nothing_is_lost() {
    let place = Place::new();
    let pairs = HOW.iter().flat_map(|how| METHODS.iter().map(move |method| (how, method)));
    let agents: Vec<Agent> = pairs.map(|(how, method)| agent(&place, how, method)).collect();
    let rules = json!({"rules": [
        {"when": {"contains": "use it", "result": false}, "call": [{"name": "a", "arguments": {"x": 1}}]},
        {"when": {"contains": "use it", "result": true}, "say": "It was used."},
    ]});
    let script = place.write("script.json", rules.to_string());
    let homes: Vec<PathBuf> = agents.iter().map(|agent| place.file(&agent.name)).collect();
    let homes: Vec<&Path> = homes.iter().map(PathBuf::as_path).collect();
    let launch = Launch::on(&place, &homes)
        .env("THROUGHLINE_REHEARSAL", &script)
        .without("API_SERVER_PORT")
        .at_port(agents[0].port);
    let gateway = launch.start();
    let all_ready = || agents.iter().all(|agent| agent.client(&gateway).is_ready());
    let began = Instant::now();
    while !all_ready() {
        assert!(began.elapsed() < PATIENCE, "all are there: {}", gateway.log());
        thread::sleep(Duration::from_millis(50));
    }
    thread::scope(|scope| {
        for agent in &agents {
            scope.spawn(|| agent.lives_through_it(&place, &gateway));
        }
    });
    let log = place.write("audited.log", gateway.log());
    let audit = Launch::on(&place, &[]).arg("audit").arg("--log").arg(log.display().to_string()).run();
    assert!(audit.status.success(), "{}\n{}", audit.stdout, audit.stderr);
    assert!(gateway.stop().success());
}
