//! The failure that this project began with, whole: nine agents in one channel, each with a conversation of
//! about 145,000 tokens, are compressed at the same time, while people and the other agents go on writing to
//! them, and some are killed in the middle of it.
//!
//! The judge is the model: what each agent was asked last holds the summary, and every message that the
//! platform delivered to that agent, once. The real binary, nine processes of it, or nine homes in one.

use crate::gateway::{Client, Gateway, Launch, Place, free_port};
use crate::model::{ModelServer, last, text};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};
use throughline_servers::discord::{Bot, DiscordServer};

const NINE: usize = 9;
/// What Hermes had stored of each conversation: 190 messages of 3,060 characters.
const EARLIER: usize = 190;
const LENGTH: usize = 3_060;
/// Turns that bots may begin after one message of a person.
const CHAIN_TURNS: usize = 12;
/// Part of every request for a summary, and of nothing else.
const ASKS: &str = "Historical Task Snapshot";
const PATIENCE: Duration = Duration::from_secs(180);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// Summaries are asked for and not written until they are let go.
#[derive(Default)]
struct Summaries {
    let_go: Mutex<bool>,
    changed: Condvar,
}

impl Summaries {
    fn wait(&self) {
        drop(self.changed.wait_while(self.let_go.lock().unwrap(), |let_go| !*let_go).unwrap());
    }

    fn let_go(&self) {
        *self.let_go.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

fn is_summary_request(request: &Value) -> bool {
    request["messages"].as_array().is_some_and(|all| all.len() == 1 && text(&all[0]).contains(ASKS))
}

fn code_word(nth: usize) -> String {
    format!("heron-{nth}-7731")
}

struct Member {
    bot: Bot,
    nth: usize,
    home: PathBuf,
    port: u16,
}

impl Member {
    fn rows<T: rusqlite::types::FromSql>(&self, sql: &str) -> Vec<T> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let store = Connection::open_with_flags(self.home.join("state.db"), flags).unwrap();
        store.busy_timeout(PATIENCE).unwrap();
        let mut rows = store.prepare(sql).unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    fn sessions(&self) -> Vec<String> {
        self.rows("SELECT id FROM sessions ORDER BY id")
    }

    /// What Hermes wrote while it had this home: the conversation goes on in rows of its own.
    fn had_talked(&self, session: &str) {
        let store = Connection::open(self.home.join("state.db")).unwrap();
        let add = "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?1, ?2, ?3, 1763000000.0 + ?4)";
        for place in 0..EARLIER {
            let role = if place % 2 == 0 { "user" } else { "assistant" };
            let words = format!("Box {place} of agent {} stands behind the door. ", self.nth);
            let words: String = words.chars().cycle().take(LENGTH).collect();
            store.execute(add, rusqlite::params![session, role, words, place as f64]).unwrap();
        }
    }

    fn is_told(&self, message: &Value) -> bool {
        let id = self.bot.id.to_string();
        let mut mentioned = message["mentions"].as_array().into_iter().flatten();
        message["author"]["id"] != id.as_str() && mentioned.any(|user| user["id"] == id.as_str())
    }

    /// Every post that names it is a row of its conversation. One that a killed agent sent without an entry in the
    /// ledger is held back for three seconds before it is stored: until then it is in no table.
    fn has_heard(&self, said: &[Value]) -> bool {
        // What Hermes had stored is longer than any post.
        let rows: Vec<String> =
            self.rows("SELECT content FROM messages WHERE role = 'user' AND length(content) < 2000");
        let heard: BTreeSet<usize> = rows.iter().filter_map(|words| number(words)).collect();
        let told = said.iter().filter(|message| self.is_told(message));
        told.filter_map(|message| number(message["content"].as_str()?)).all(|number| heard.contains(&number))
    }

    fn is_at_rest(&self) -> bool {
        let open = "SELECT (SELECT count(*) FROM tl_inbox WHERE state < 2) + (SELECT count(*) FROM tl_outbox WHERE state < 2)";
        self.rows::<u32>(open) == [0]
    }

    fn client(&self, gateways: &[Gateway]) -> Client {
        let mut client = gateways[0].client.clone();
        client.address.set_port(self.port);
        client
    }
}

/// How the nine are run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hosting {
    Processes,
    OneProcess,
}

struct Nine {
    server: DiscordServer,
    channel: u64,
    person: u64,
    model: ModelServer,
    members: Vec<Member>,
    place: Place,
    hosting: Hosting,
    /// Every post ends with a number of its own, by which it is told from what quotes it.
    posts: Arc<AtomicUsize>,
    /// The servers' tasks run here: it goes last.
    _runtime: tokio::runtime::Runtime,
}

impl Nine {
    fn new(hosting: Hosting, summaries: Arc<Summaries>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(DiscordServer::start());
        let channel = server.channel(server.guild("home"), "general");
        let person = server.user("ada");
        let others = (1..NINE).map(|nth| server.add_bot(&format!("agent{nth}")));
        let bots: Vec<Bot> = [server.bot()].into_iter().chain(others).collect();
        let ids: Vec<u64> = bots.iter().map(|bot| bot.id).collect();
        let posts = Arc::new(AtomicUsize::new(1000));
        let numbers = posts.clone();
        let model = ModelServer::saying(Duration::ZERO, move |request| {
            let name = request["model"].as_str().unwrap_or_default();
            let nth: usize = name.trim_start_matches("agent-").parse().unwrap();
            if is_summary_request(request) {
                summaries.wait();
                let done = "Boxes were moved and listed. ".repeat(20);
                return format!(
                    "## Goal\nMove the boxes.\n\n## Completed Actions\n{done}\n\n## Critical Context\nThe code word is {}.",
                    code_word(nth)
                );
            }
            let number = numbers.fetch_add(1, Ordering::Relaxed);
            match last(request).contains("a round") || last(request).contains("I wonder") {
                true => format!("I wonder. <@{}>? #{number}", ids[(nth + 1) % NINE]),
                false => format!("So be it. #{number}"),
            }
        });
        let place = Place::new();
        let members: Vec<Member> = bots
            .into_iter()
            .enumerate()
            .map(|(nth, bot)| Member {
                bot,
                nth,
                home: place.file(&format!("agent{nth}")),
                port: free_port(),
            })
            .collect();
        let it = Self { server, channel, person, model, members, place, hosting, posts, _runtime: runtime };
        it.members.iter().for_each(|member| it.configure(member));
        it
    }

    fn configure(&self, member: &Member) {
        let (rest, gateway) = (self.server.rest_url(), self.server.gateway_url());
        let model = self.model.setting(&format!("agent-{}", member.nth));
        let model = model.replace("api_key: none", "api_key: none, context_length: 200000");
        let config = format!(
            "model: {model}\ncompression: {{threshold: 0.5}}\ngroup_sessions_per_user: false\n\
             platforms: {{discord: {{extra: {{base_url: '{rest}', gateway_url: '{gateway}'}}}}}}\n\
             memory: {{nudge_interval: 0}}\n\
             throughline: {{chain_platforms: {{discord: {{turns_max: {CHAIN_TURNS}}}}}}}\n",
        );
        let variables = format!(
            "DISCORD_BOT_TOKEN={}\nDISCORD_ALLOWED_USERS={}\nDISCORD_ALLOW_BOTS=mentions\nAPI_SERVER_PORT={}\n\
             DISCORD_AUTO_THREAD=false\nDISCORD_HISTORY_BACKFILL=false\n",
            member.bot.token, self.person, member.port
        );
        self.place.write(&format!("agent{}/config.yaml", member.nth), config);
        self.place.write(&format!("agent{}/.env", member.nth), variables);
    }

    fn launch(&self, members: &[&Member]) -> Launch {
        let homes: Vec<_> = members.iter().map(|member| member.home.as_path()).collect();
        Launch::on(&self.place, &homes)
            .without("API_SERVER_PORT")
            .at_port(members[0].port)
            .env("XDG_STATE_HOME", self.place.file("state"))
    }

    fn start(&self) -> Vec<Gateway> {
        let all: Vec<&Member> = self.members.iter().collect();
        let gateways = match self.hosting {
            Hosting::Processes => all.iter().map(|member| self.launch(&[member]).spawn()).collect(),
            Hosting::OneProcess => vec![self.launch(&all).spawn()],
        };
        until("all are connected", || self.server.connections() == NINE);
        gateways
    }

    /// A person writes to all of them.
    fn says(&self, words: &str) {
        let all: String = self.members.iter().map(|member| format!("<@{}> ", member.bot.id)).collect();
        let number = self.posts.fetch_add(1, Ordering::Relaxed);
        self.server.say(self.channel, self.person, &format!("{all} {words} #{number}"));
    }

    /// Everyone has stored what was said to them, none of it waits for an answer, and no answer waits to be sent.
    fn is_quiet(&self) -> bool {
        let said = self.server.messages(self.channel);
        self.members.iter().all(|member| member.has_heard(&said) && member.is_at_rest())
            && self.server.messages(self.channel).len() == said.len()
    }

    /// Each has posted something since there were so many messages, and nothing more is to come.
    fn all_have_answered(&self, messages: usize) {
        let has_posted = |member: &Member| {
            let id = member.bot.id.to_string();
            self.server.messages(self.channel)[messages..].iter().any(|it| {
                it["author"]["id"] == id.as_str()
                    && it["content"].as_str().is_some_and(|said| said.starts_with("So be it"))
            })
        };
        until("all have answered", || self.members.iter().all(has_posted) && self.is_quiet());
    }

    fn asked_for_summaries(&self) -> Vec<usize> {
        let requests = self.model.requests();
        let of = |nth: usize| {
            let name = format!("agent-{nth}");
            requests.iter().filter(|it| it["model"] == name.as_str() && is_summary_request(it)).count()
        };
        (0..NINE).map(of).collect()
    }

    fn last_asked(&self, member: &Member) -> Value {
        let name = format!("agent-{}", member.nth);
        let requests = self.model.requests();
        let asked = requests.into_iter().rfind(|it| it["model"] == name.as_str() && !is_summary_request(it));
        asked.unwrap_or_else(|| panic!("{name} was never asked"))
    }
}

/// The number that a post ends with.
fn number(words: &str) -> Option<usize> {
    words.trim_end().rsplit_once('#')?.1.parse().ok()
}

fn nine_are_compressed_at_once(hosting: Hosting) {
    let summaries = Arc::new(Summaries::default());
    let nine = Nine::new(hosting, summaries.clone());
    let gateways = nine.start();
    nine.says("good morning");
    nine.all_have_answered(0);
    assert_eq!(nine.server.sent().len(), NINE);
    gateways.into_iter().for_each(|gateway| assert!(gateway.stop().success()));
    let before: Vec<Vec<String>> = nine.members.iter().map(Member::sessions).collect();
    for (member, sessions) in nine.members.iter().zip(&before) {
        assert_eq!(sessions.len(), 1, "agent {}: {sessions:?}", member.nth);
        member.had_talked(&sessions[0]);
    }

    let mut gateways = nine.start();
    let earlier = nine.server.messages(nine.channel).len();
    nine.says("this is a round");
    until("all nine are being summarised", || nine.asked_for_summaries() == [1; NINE]);
    // Not one summary is there: these are answered meanwhile, or wait.
    nine.says("this is a round while you think");
    until("they talk", || nine.server.messages(nine.channel).len() > earlier + 2 * NINE);
    match hosting {
        Hosting::Processes => {
            for nth in [1, 4, 7] {
                gateways.remove(nth).kill();
                until("its connection is gone", || nine.server.connections() == NINE - 1);
                gateways.insert(nth, nine.launch(&[&nine.members[nth]]).spawn());
                until("it is connected again", || nine.server.connections() == NINE);
            }
        }
        Hosting::OneProcess => {
            gateways.remove(0).kill();
            until("their connections are gone", || nine.server.connections() == 0);
            gateways = nine.start();
        }
    }
    nine.says("this is a round after the kills");
    let killed: Vec<usize> = if hosting == Hosting::Processes { vec![1, 4, 7] } else { (0..NINE).collect() };
    let expected: Vec<usize> = (0..NINE).map(|nth| if killed.contains(&nth) { 2 } else { 1 }).collect();
    until("those that were killed are summarised again", || nine.asked_for_summaries() == expected);
    until("they come to rest", || nine.is_quiet());
    summaries.let_go();
    for (member, sessions) in nine.members.iter().zip(&before) {
        let client = member.client(&gateways);
        until("the summary is ready", || {
            let order = json!({"command": "/status"});
            let path = format!("/api/sessions/{}/commands", sessions[0]);
            let answer = client.post(&path, &[], &order).unwrap();
            answer.status == 200 && answer.text().contains("a summary is ready")
        });
    }

    let before_the_last = nine.server.messages(nine.channel).len();
    nine.says("the last word");
    nine.all_have_answered(before_the_last);
    let posts = nine.server.sent().len() - NINE;
    let said = nine.server.messages(nine.channel);
    for (member, sessions) in nine.members.iter().zip(&before) {
        let asked = nine.last_asked(member);
        let messages = asked["messages"].as_array().unwrap();
        let whole = asked.to_string();
        assert!(whole.contains(&code_word(member.nth)), "agent {} knows what was summarised", member.nth);
        let others = (0..NINE).filter(|nth| *nth != member.nth && whole.contains(&code_word(*nth)));
        assert_eq!(others.count(), 0, "agent {}: the summary of another", member.nth);
        assert!(messages.len() < EARLIER, "agent {}: {} messages", member.nth, messages.len());
        let users = messages.iter().filter(|message| message["role"] == "user");
        let seen: Vec<usize> = users.filter_map(|message| number(&text(message))).collect();
        for message in said[earlier..].iter().filter(|message| member.is_told(message)) {
            let Some(number) = number(message["content"].as_str().unwrap()) else { continue };
            let times = seen.iter().filter(|seen| **seen == number).count();
            assert_eq!(times, 1, "agent {}: {message} in {seen:?}", member.nth);
        }
        assert_eq!(member.sessions(), *sessions, "agent {}: one id for life", member.nth);
        let parents = "SELECT DISTINCT session_id FROM messages";
        assert_eq!(member.rows::<String>(parents), *sessions, "agent {}", member.nth);
        let client = member.client(&gateways);
        assert_eq!(client.read("/api/control/check")["data"], json!([]), "agent {}", member.nth);
    }
    // Three messages of a person, nine answers to each, the turns that bots began, and a notice for each chain.
    let most = 3 * (NINE + CHAIN_TURNS + 2 * NINE);
    assert!(posts - NINE <= most, "{posts} posts");
    let posted: BTreeSet<usize> =
        said.iter().filter_map(|message| number(message["content"].as_str().unwrap())).collect();
    let numbered =
        said.iter().filter(|message| number(message["content"].as_str().unwrap()).is_some()).count();
    assert_eq!(posted.len(), numbered, "nothing was posted twice");
    let log = nine.place.write("audited.log", gateways[0].log());
    let audit = Launch::on(&nine.place, &[]).arg("audit").arg("--log").arg(log.display().to_string()).run();
    assert!(audit.status.success(), "{}\n{}", audit.stdout, audit.stderr);
    gateways.into_iter().for_each(|gateway| assert!(gateway.stop().success()));
}

#[test]
fn p1_p8_p12_nine_processes_that_compress_at_once_lose_no_message_through_three_kills() {
    nine_are_compressed_at_once(Hosting::Processes);
}

#[test]
fn p1_p5_p8_p12_nine_agents_of_one_process_that_compress_at_once_lose_no_message_through_a_kill() {
    nine_are_compressed_at_once(Hosting::OneProcess);
}
