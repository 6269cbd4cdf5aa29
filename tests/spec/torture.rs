//! The real binary, real files, real `kill -9`, while clients of five kinds talk to it.
//!
//! Every client knows what it sent, what was acknowledged and what it was told. The judge compares
//! that with the transcripts, with the file itself, and with what the model was asked; the
//! gateway's own books count for nothing until they have been found to agree.
//!
//! Twelve kills by default, `THROUGHLINE_TORTURE=100` for the full run. The moments come from a seed
//! that is printed and can be given back as `THROUGHLINE_TORTURE_SEED`.

use crate::gateway::{Client, Gateway, Place, said};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime};

const KILLS: u64 = 12;
/// One session each.
const LOYAL: usize = 16;
/// Pairs of clients that share a session.
const PAIRS: usize = 2;
/// Send their whole conversation every time and name no session.
const THREADS: usize = 2;
/// Go on from one response to the next by its id, without a stream.
const CHAINS: usize = 2;
/// Wait for the acknowledgement only, and never ask again.
const HASTY: usize = 2;
/// A client that has not been answered for this long has been forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

#[test]
fn p7_p8_p9_kill_9_at_random_moments_loses_doubles_and_reorders_nothing() {
    let kills = number("THROUGHLINE_TORTURE").unwrap_or(KILLS);
    let seed = number("THROUGHLINE_TORTURE_SEED").unwrap_or_else(by_the_clock);
    println!("{kills} kills; again with THROUGHLINE_TORTURE={kills} THROUGHLINE_TORTURE_SEED={seed}");
    let mut chance = Chance(seed);

    let place = Place::new();
    let launch = place.rehearsing(&json!({"latency_ms": 12, "rules": [
        {"when": {"contains": "slowly"}, "latency_ms": 90},
        {"when": {"contains": "at once"}, "latency_ms": 0},
    ]}));
    let began = Instant::now();
    let mut gateway = launch.start();
    let stop = AtomicBool::new(false);
    let client = gateway.client.clone();
    let (mut gateway, told): (Gateway, Vec<Told>) = thread::scope(|scope| {
        let clients: Vec<_> = manners()
            .into_iter()
            .enumerate()
            .map(|(number, manner)| {
                let chance = Chance(chance.next());
                let (history, previous) = (Vec::new(), Value::Null);
                let talk =
                    Talk { number, manner, client: client.clone(), chance, stop: &stop, history, previous };
                scope.spawn(move || talk.run())
            })
            .collect();
        for _ in 0..kills {
            // One in four hits the start itself: recovery must survive its own death. The others hit the talk.
            let moment = match chance.below(4) {
                0 => chance.below(40),
                _ => {
                    gateway.wait_until_ready();
                    chance.below(400)
                }
            };
            sleep(Duration::from_millis(moment));
            gateway.kill();
            place.append("model.log", "\n{\"killed\": true}\n");
            gateway = launch.spawn();
        }
        stop.store(true, Ordering::Relaxed);
        let joined = clients.into_iter().map(|client| client.join());
        let told = joined.map(|told| told.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        (gateway, told.collect())
    });
    let talked = began.elapsed();

    let sent = sent_in_each_session(&told);
    judge_the_surface(&mut gateway, &sent);
    assert_eq!(gateway.stop().code(), Some(0));
    judge_the_file(&place, &sent);
    let gateway = launch.start();
    judge_a_replay(&gateway, &told);
    assert_eq!(gateway.stop().code(), Some(0));
    judge_the_file(&place, &sent);
    judge_the_model(&place, &sent);
    let accepted: usize = told.iter().map(|told| told.texts.len()).sum();
    let retries: u64 = told.iter().map(|told| told.retries).sum();
    let replays: u64 = told.iter().map(|told| told.replays).sum();
    let cut_short = place.asked().iter().filter(|asked| asked["session"].is_string()).count() - accepted;
    assert!(cut_short > 0 && retries > 0, "no kill hit a turn: {accepted} accepted, {retries} retries");
    println!(
        "{accepted} messages accepted in {} sessions, {cut_short} answers cut short, {retries} retries, \
         {replays} replays, {kills} kills, {:.1} s",
        sent.len(),
        talked.as_secs_f64()
    );
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

fn by_the_clock() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos().into()
}

// ------------------------------------------------------------------------------------------ clients

#[derive(Clone, PartialEq)]
enum Manner {
    /// Alone or in company, in a session that it names.
    Named(String),
    Thread,
    Chain,
    Hasty(String),
}

fn manners() -> Vec<Manner> {
    let loyal = (0..LOYAL).map(|nth| Manner::Named(format!("loyal-{nth}")));
    let pairs = (0..PAIRS * 2).map(|nth| Manner::Named(format!("shared-{}", nth / 2)));
    let threads = (0..THREADS).map(|_| Manner::Thread);
    let chains = (0..CHAINS).map(|_| Manner::Chain);
    let hasty = (0..HASTY).map(|nth| Manner::Hasty(format!("hasty-{nth}")));
    loyal.chain(pairs).chain(threads).chain(chains).chain(hasty).collect()
}

/// What one client did and saw.
#[derive(Default)]
struct Told {
    session: String,
    /// In the order in which it was sent.
    texts: Vec<String>,
    /// The last request, and what it got.
    last: Option<(Request, Answer)>,
    retries: u64,
    replays: u64,
}

struct Talk<'a> {
    number: usize,
    manner: Manner,
    client: Client,
    chance: Chance,
    stop: &'a AtomicBool,
    /// What the client keeps of the conversation: all of it, or the id of the last response.
    history: Vec<Value>,
    previous: Value,
}

/// One message under one key, to be sent until it is answered.
#[derive(Clone)]
struct Request {
    path: &'static str,
    key: String,
    session: Option<String>,
    body: Value,
}

/// What a request came to.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    session: String,
    /// The message's name, which no retry may change.
    id: String,
    /// None for those who do not wait for it.
    text: Option<String>,
    /// By which the next one goes on.
    response: Value,
}

impl Talk<'_> {
    fn run(mut self) -> Told {
        let mut told = Told::default();
        while !self.stop.load(Ordering::Relaxed) || told.texts.is_empty() {
            let pace = ["", " slowly", " at once"][self.chance.below(3) as usize];
            let nth = told.texts.len();
            let text = format!("word{:02}x{nth:04} of client {}{pace}", self.number, self.number);
            let request = self.request(nth, &text);
            let answer = self.ask(&request, &mut told.retries);
            let same = told.session.is_empty() || told.session == answer.session;
            assert!(same, "a conversation went from {} to {}", told.session, answer.session);
            told.session.clone_from(&answer.session);
            if let Some(heard) = &answer.text {
                assert_eq!(*heard, echo(&text), "the answer to another message");
                self.history.push(json!({"role": "assistant", "content": heard}));
                self.previous.clone_from(&answer.response);
                if self.chance.below(8) == 0 {
                    assert_eq!(self.ask(&request, &mut told.retries), answer, "a replay differs");
                    told.replays += 1;
                }
            } else {
                sleep(Duration::from_millis(self.chance.below(60))); // as fast as the model, on average
            }
            told.texts.push(text);
            told.last = Some((request, answer));
        }
        told
    }

    fn request(&mut self, nth: usize, text: &str) -> Request {
        let key = format!("client {} message {nth}", self.number);
        let mut body = said(text);
        body["stream"] = json!(true);
        self.history.push(body["messages"][0].clone());
        let (path, session) = match &self.manner {
            Manner::Named(session) | Manner::Hasty(session) => {
                ("/v1/chat/completions", Some(session.clone()))
            }
            Manner::Thread => {
                body["messages"] = self.history.clone().into();
                ("/v1/chat/completions", None)
            }
            Manner::Chain => {
                body = json!({"input": text, "previous_response_id": self.previous});
                ("/v1/responses", None)
            }
        };
        Request { path, key, session, body }
    }

    /// Tries one request until it has all it wants of it.
    fn ask(&mut self, request: &Request, retries: &mut u64) -> Answer {
        let began = Instant::now();
        let mut id: Option<String> = None;
        while began.elapsed() < FORGOTTEN_AFTER {
            // One in ten hangs up as soon as it knows that it was heard, and asks again.
            let patience = match self.manner {
                Manner::Hasty(_) => Patience::Acknowledgement,
                _ if self.chance.below(10) == 0 => Patience::Acknowledgement,
                _ => Patience::Answer,
            };
            match request.attempt(&self.client, patience) {
                Ok(answer) => {
                    let first = id.get_or_insert_with(|| answer.id.clone());
                    assert_eq!(*first, answer.id, "an acknowledged message got another name");
                    if answer.text.is_some() || matches!(self.manner, Manner::Hasty(_)) {
                        return answer;
                    }
                }
                Err(_) => sleep(Duration::from_millis(5)), // it is down, or was while it read this
            }
            *retries += 1;
        }
        panic!("no answer to {:?}: {}", request.key, request.body)
    }
}

/// How much of a response is waited for.
#[derive(Clone, Copy, PartialEq)]
enum Patience {
    Acknowledgement,
    Answer,
}

impl Request {
    fn attempt(&self, client: &Client, patience: Patience) -> io::Result<Answer> {
        let mut headers = vec![("Idempotency-Key", self.key.as_str())];
        headers.extend(self.session.as_deref().map(|session| ("X-Hermes-Session-Id", session)));
        let reply = client.send("POST", self.path, &headers, self.body.to_string().as_bytes())?;
        if reply.status != 200 {
            let status = reply.status;
            panic!("refused with {status}: {}", reply.whole()?.text());
        }
        let header = |name| reply.header(name).to_owned();
        let (session, id) = (header("x-hermes-session-id"), header("x-request-id"));
        let mut answer = Answer { session, id, text: None, response: Value::Null };
        if patience == Patience::Acknowledgement {
            return Ok(answer);
        }
        if self.body["stream"] == true {
            answer.text = reply.streamed().ok();
        } else if let Ok(whole) = reply.whole() {
            let response = whole.json();
            let text = &response["output"][0]["content"][0]["text"];
            answer.text = Some(text.as_str().unwrap_or_else(|| panic!("{response}")).to_owned());
            answer.response = response["id"].clone();
        }
        Ok(answer)
    }
}

/// What the model says to a message.
fn echo(text: &str) -> String {
    format!(
        "This is the rehearsal model: it answers offline, and only repeats what it heard. You said: “{text}”"
    )
}

// -------------------------------------------------------------------------------------------- judges

/// What was sent in one session: by each of its clients, in order.
type Sent = BTreeMap<String, Vec<Vec<String>>>;

fn sent_in_each_session(told: &[Told]) -> Sent {
    let mut sent = Sent::new();
    for told in told {
        sent.entry(told.session.clone()).or_default().push(told.texts.clone());
    }
    assert_eq!(
        sent.len(),
        LOYAL + PAIRS + THREADS + CHAINS + HASTY,
        "conversations that share a session by mistake"
    );
    sent
}

/// Every message stands there once, each client's in its order, each with its answer right after it.
fn judge_the_rows(rows: &[(String, String)], clients: &[Vec<String>]) {
    let mut users = Vec::new();
    for pair in rows.chunks(2) {
        let [(user, text), (assistant, answer)] = pair else {
            panic!("the last message has no answer: {pair:?}")
        };
        assert_eq!((user.as_str(), assistant.as_str()), ("user", "assistant"), "around {text:?}");
        assert_eq!(*answer, echo(text));
        users.push(text);
    }
    for texts in clients {
        let own: Vec<&String> = users.iter().filter(|text| texts.contains(text)).copied().collect();
        assert_eq!(own, texts.iter().collect::<Vec<_>>(), "lost, doubled or out of order");
    }
    assert_eq!(users.len(), clients.iter().map(Vec::len).sum::<usize>(), "words that no client sent");
}

fn judge_the_surface(gateway: &mut Gateway, sent: &Sent) {
    gateway.wait_until_ready();
    let client = &gateway.client;
    let deadline = Instant::now() + FORGOTTEN_AFTER;
    loop {
        let status = client.read("/api/control/status");
        let is_quiet =
            ["running_turns", "waiting_inputs", "undelivered"].iter().all(|name| status[name] == 0);
        if is_quiet && status["tended"] == true {
            break;
        }
        assert!(Instant::now() < deadline, "it never comes to rest: {status}");
        sleep(Duration::from_millis(20));
    }
    assert_eq!(client.read("/api/control/check")["data"], json!([]));
    let listed = client.read("/api/sessions?limit=200");
    let listed = listed["data"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap());
    let listed: BTreeSet<&str> = listed.collect();
    assert_eq!(listed, sent.keys().map(String::as_str).collect(), "sessions that no client began");
    for (session, clients) in sent {
        judge_the_rows(&client.transcript(session), clients);
        let word = clients[0].last().unwrap().split(' ').next().unwrap();
        let hits = client.read(&format!("/api/sessions/search?q={word}"));
        let hits = hits["data"].as_array().unwrap();
        assert!(!hits.is_empty() && hits.iter().all(|hit| hit["session_id"] == *session), "{word}: {hits:?}");
    }
}

/// A client that asks again, however late, gets what there was.
fn judge_a_replay(gateway: &Gateway, told: &[Told]) {
    for (request, answer) in told.iter().filter_map(|told| told.last.as_ref()) {
        let again = request.attempt(&gateway.client, Patience::Answer).unwrap();
        assert_eq!((&again.session, &again.id), (&answer.session, &answer.id));
        assert!(answer.text.is_none() || again == *answer, "{again:?} is not {answer:?}");
    }
}

fn judge_the_file(place: &Place, sent: &Sent) {
    let file = place.file("home/state.db");
    let conn = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let text = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(text("PRAGMA integrity_check"), "ok");
    assert_eq!(count("SELECT count(*) FROM tl_unindexed"), 0);
    assert_eq!(count("SELECT count(*) FROM sessions"), i64::try_from(sent.len()).unwrap());
    let mut rows = conn
        .prepare("SELECT role, content FROM messages WHERE session_id = ?1 AND active = 1 ORDER BY id")
        .unwrap();
    let mut found = conn
        .prepare("SELECT count(*) FROM messages_fts WHERE messages_fts MATCH '\"' || ?1 || '\"'")
        .unwrap();
    for (session, clients) in sent {
        let rows: Vec<(String, String)> = rows
            .query_map([session], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        judge_the_rows(&rows, clients);
        for text in clients.iter().flatten() {
            let word = text.split(' ').next().unwrap();
            let found: i64 = found.query_row([word], |row| row.get(0)).unwrap();
            assert_eq!(found, 2, "{word} is in a message and in its answer");
        }
    }
}

/// What the model saw is what was said, as far as it had been said; a message is asked about once in
/// each life of the gateway, and never again once a later one was.
fn judge_the_model(place: &Place, sent: &Sent) {
    let mut latest: BTreeMap<String, usize> = BTreeMap::new();
    let mut in_this_life = BTreeSet::new();
    for request in place.asked() {
        let Some(session) = request["session"].as_str() else {
            in_this_life.clear(); // a kill
            continue;
        };
        let messages = request["messages"].as_array().unwrap();
        let messages = messages.iter().filter(|message| message["role"] != "system");
        let text = |message: &Value, field: &str| message[field].as_str().unwrap().to_owned();
        let mut rows: Vec<_> =
            messages.map(|message| (text(message, "role"), text(message, "content"))).collect();
        let asked = rows.pop().unwrap().1;
        let heard: Vec<Vec<String>> = heard_of(&sent[session], &rows);
        judge_the_rows(&rows, &heard);
        assert!(!rows.iter().any(|(_, text)| *text == asked), "{asked:?} twice in one prompt");
        assert!(in_this_life.insert((session.to_owned(), asked.clone())), "{asked:?} was asked about twice");
        let before = latest.insert(session.to_owned(), rows.len());
        assert!(before.is_none_or(|before| before <= rows.len()), "the model is asked again about {asked:?}");
    }
}

/// Of what each client sent, as much as these rows hold.
fn heard_of(clients: &[Vec<String>], rows: &[(String, String)]) -> Vec<Vec<String>> {
    let heard = |text: &&String| rows.iter().any(|(_, row)| row == *text);
    clients.iter().map(|texts| texts.iter().take_while(heard).cloned().collect()).collect()
}

/// A judge that would not notice is no judge.
#[test]
fn the_judge_notices_what_is_lost_doubled_reordered_or_made_up() {
    let row = |role: &str, text: &str| (role.to_owned(), text.to_owned());
    let turn = |text: &str| [row("user", text), row("assistant", &echo(text))];
    let [a1, a2, b1] = ["a1", "a2", "b1"].map(turn);
    let clients = [vec!["a1".to_owned(), "a2".to_owned()], vec!["b1".to_owned()]];
    judge_the_rows(&[a1.clone(), b1.clone(), a2.clone()].concat(), &clients);
    for (wrong, rows) in [
        ("lost", [a1.clone(), a2.clone()].concat()),
        ("doubled", [a1.clone(), a1.clone(), a2.clone(), b1.clone()].concat()),
        ("reordered", [a2.clone(), a1.clone(), b1.clone()].concat()),
        ("made up", [a1.clone(), a2.clone(), b1.clone(), turn("c1")].concat()),
        ("unanswered", [&a1[..], &b1[..], &a2[..1]].concat()),
        ("answered twice", [&a1[..], &a1[1..], &b1[..], &a2[..]].concat()),
        ("answered late", [&a1[..1], &b1[..1], &a1[1..], &b1[1..], &a2[..]].concat()),
    ] {
        let noticed = std::panic::catch_unwind(|| judge_the_rows(&rows, &clients)).is_err();
        assert!(noticed, "no check noticed what was {wrong}");
    }
}

// -------------------------------------------------------------------------------------------- chance

/// SplitMix64: small, and the same everywhere.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
