//! The real binary, real files, real `kill -9`, while clients of four kinds talk to it.
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
                let talk = Talk { number, manner, client: client.clone(), chance, stop: &stop };
                scope.spawn(move || talk.run())
            })
            .collect();
        for _ in 0..kills {
            // One in four hits the start itself: recovery must survive its own death.
            let moment = if chance.below(4) == 0 { chance.below(40) } else { 40 + chance.below(400) };
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
    judge_the_model(&place, &sent);
    let accepted: usize = told.iter().map(|told| told.texts.len()).sum();
    let retries: u64 = told.iter().map(|told| told.retries).sum();
    let replays: u64 = told.iter().map(|told| told.replays).sum();
    println!(
        "{accepted} messages accepted in {} sessions, {retries} retries, {replays} replays, {kills} kills, {:.1} s",
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
    Hasty(String),
}

fn manners() -> Vec<Manner> {
    let loyal = (0..LOYAL).map(|nth| Manner::Named(format!("loyal-{nth}")));
    let pairs = (0..PAIRS * 2).map(|nth| Manner::Named(format!("shared-{}", nth / 2)));
    let threads = (0..THREADS).map(|_| Manner::Thread);
    let hasty = (0..HASTY).map(|nth| Manner::Hasty(format!("hasty-{nth}")));
    loyal.chain(pairs).chain(threads).chain(hasty).collect()
}

/// What one client did and saw.
struct Told {
    session: String,
    /// In the order in which it was sent.
    texts: Vec<String>,
    retries: u64,
    replays: u64,
}

struct Talk<'a> {
    number: usize,
    manner: Manner,
    client: Client,
    chance: Chance,
    stop: &'a AtomicBool,
}

/// What a request came to.
struct Answer {
    session: String,
    /// The message's name, which no retry may change.
    id: String,
    /// None for those who do not wait for it.
    text: Option<String>,
    retries: u64,
}

impl Talk<'_> {
    fn run(mut self) -> Told {
        let mut told = Told { session: String::new(), texts: Vec::new(), retries: 0, replays: 0 };
        let mut history: Vec<Value> = Vec::new();
        while !self.stop.load(Ordering::Relaxed) || told.texts.is_empty() {
            let pace = ["", " slowly", " at once"][self.chance.below(3) as usize];
            let text =
                format!("word{:02}x{:04} of client {}{pace}", self.number, told.texts.len(), self.number);
            let mut body = said(&text);
            body["stream"] = json!(true);
            if self.manner == Manner::Thread {
                history.push(body["messages"][0].clone());
                body["messages"] = history.clone().into();
            }
            let key = format!("client {} message {}", self.number, told.texts.len());
            let answer = self.ask(&key, &body);
            told.retries += answer.retries;
            assert!(
                told.session.is_empty() || told.session == answer.session,
                "a conversation changed its session"
            );
            told.session.clone_from(&answer.session);
            if let Some(heard) = &answer.text {
                assert_eq!(*heard, echo(&text), "the answer to another message");
                history.push(json!({"role": "assistant", "content": heard}));
                if self.chance.below(8) == 0 {
                    let again = self.ask(&key, &body);
                    assert_eq!((&again.id, &again.text), (&answer.id, &answer.text), "a replay differs");
                    told.replays += 1;
                }
            }
            told.texts.push(text);
            if let Manner::Hasty(_) = self.manner {
                sleep(Duration::from_millis(self.chance.below(60))); // as fast as the model, on average
            }
        }
        told
    }

    /// Tries one request until it has all it wants of it.
    fn ask(&self, key: &str, body: &Value) -> Answer {
        let began = Instant::now();
        let mut id: Option<String> = None;
        for retries in 0.. {
            match self.attempt(key, body) {
                Ok((session, known, text)) => {
                    let first = id.get_or_insert_with(|| known.clone());
                    assert_eq!(*first, known, "an acknowledged message got another name");
                    if text.is_some() || matches!(self.manner, Manner::Hasty(_)) {
                        return Answer { session, id: known, text, retries };
                    }
                }
                Err(_) => sleep(Duration::from_millis(5)), // it is down, or was while it read this
            }
            assert!(began.elapsed() < FORGOTTEN_AFTER, "nobody answers {key:?}: {body}");
        }
        unreachable!("the loop above has no end")
    }

    /// The session and the name it got, and the whole answer if it came.
    fn attempt(&self, key: &str, body: &Value) -> io::Result<(String, String, Option<String>)> {
        let mut headers = vec![("Idempotency-Key", key)];
        if let Manner::Named(session) | Manner::Hasty(session) = &self.manner {
            headers.push(("X-Hermes-Session-Id", session));
        }
        let reply =
            self.client.send("POST", "/v1/chat/completions", &headers, body.to_string().as_bytes())?;
        if reply.status != 200 {
            let status = reply.status;
            panic!("refused with {status}: {}", reply.whole()?.text());
        }
        let session = reply.header("x-hermes-session-id").to_owned();
        let id = reply.header("x-request-id").to_owned();
        if let Manner::Hasty(_) = self.manner {
            return Ok((session, id, None));
        }
        Ok((session, id, reply.streamed().ok()))
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
    assert_eq!(sent.len(), LOYAL + PAIRS + THREADS + HASTY, "conversations that share a session by mistake");
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
    assert_eq!(users.len(), clients.iter().map(Vec::len).sum::<usize>(), "something nobody said");
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
    assert_eq!(listed, sent.keys().map(String::as_str).collect(), "sessions that nobody began");
    for (session, clients) in sent {
        judge_the_rows(&client.transcript(session), clients);
        let word = clients[0].last().unwrap().split(' ').next().unwrap();
        let hits = client.read(&format!("/api/sessions/search?q={word}"));
        let hits = hits["data"].as_array().unwrap();
        assert!(!hits.is_empty() && hits.iter().all(|hit| hit["session_id"] == *session), "{word}: {hits:?}");
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
