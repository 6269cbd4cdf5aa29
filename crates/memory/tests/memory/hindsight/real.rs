//! The real server, from PyPI, behind a line that loses requests and answers, and killed in the middle.
//!
//! `tests/peers/hindsight install` makes it; with `THROUGHLINE_PEERS=skip` the test says so and passes.

use super::raw_http::request;
use super::{provider, scope, turn, wanted};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use throughline_core::memory::{MemoryError, Provider, Retention, Scope};
use throughline_memory::hindsight::Hindsight;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

const SEED: u64 = 20_260_528;
const TURNS: u64 = 15; // of each of the two sessions

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn script() -> PathBuf {
    root().join("tests/peers/hindsight")
}

/// A server of one's own. Ends with its handle.
struct Server {
    directory: tempfile::TempDir,
    address: String,
}

impl Server {
    /// None if peers are to be left out.
    fn start() -> Option<Self> {
        if std::env::var("THROUGHLINE_PEERS").is_ok_and(|value| value == "skip") {
            println!("skipped: hindsight (THROUGHLINE_PEERS=skip)");
            return None;
        }
        let installed = root().join(".cache/peers/hindsight/.complete");
        assert!(
            installed.exists(),
            "hindsight is not installed: run `tests/peers/install hindsight` (THROUGHLINE_PEERS=skip leaves this out)"
        );
        let mut server = Self { directory: tempfile::tempdir().unwrap(), address: String::new() };
        server.address = server.run();
        Some(server)
    }

    /// Starts the parts of it that do not run, and says where it answers.
    fn run(&self) -> String {
        let began = Instant::now();
        let output = Command::new(script()).arg("start").arg(self.directory.path()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "Hindsight does not start: {told}");
        println!("hindsight answered after {:.1} s. {told}", began.elapsed().as_secs_f64());
        let url = String::from_utf8(output.stdout).unwrap();
        url.trim().strip_prefix("http://").unwrap().to_owned()
    }

    /// `server`, or the `embeddings` that it depends on.
    fn kill(&self, name: &str) {
        let file = self.directory.path().join(format!("{name}.pid"));
        let id = std::fs::read_to_string(&file).unwrap();
        assert!(Command::new("kill").args(["-9", id.trim()]).status().unwrap().success());
        std::fs::remove_file(file).unwrap(); // the dead process may not have been collected yet
        println!("{name} was killed");
    }

    async fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let head = format!(
            "GET /v1/default/banks/hermes{path} HTTP/1.1\r\nhost: hindsight\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        serde_json::from_str(body).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new(script()).arg("stop").arg(self.directory.path()).status();
    }
}

/// What happened to requests, by the kind of loss.
#[derive(Default)]
struct Losses {
    passed: AtomicUsize,
    requests: AtomicUsize,
    halves: AtomicUsize,
    answers: AtomicUsize,
}

/// A line to `server` that loses half of what goes over it: whole requests, their second halves, and answers.
async fn lossy(server: String) -> (String, Arc<Losses>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let losses = Arc::new(Losses::default());
    let (counts, chance) = (Arc::clone(&losses), AtomicU64::new(SEED));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let next = |state: u64| {
                state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
            };
            let state = next(chance.load(Ordering::Relaxed));
            chance.store(state, Ordering::Relaxed);
            tokio::spawn(carry(stream, server.clone(), (state >> 33) % 8, Arc::clone(&counts)));
        }
    });
    (url, losses)
}

async fn carry(mut near: TcpStream, server: String, fate: u64, losses: Arc<Losses>) -> Option<()> {
    let request = request(&mut near).await?;
    if fate == 0 {
        losses.requests.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    let mut far = TcpStream::connect(server).await.ok()?;
    let (line, rest) = request.head.split_once("\r\n")?;
    let mut bytes = format!("{line}\r\nconnection: close\r\n{rest}").into_bytes();
    bytes.extend_from_slice(&request.body);
    if fate == 1 {
        losses.halves.fetch_add(1, Ordering::Relaxed);
        far.write_all(&bytes[..bytes.len() - request.body.len() / 2 - 1]).await.ok()?;
        return None;
    }
    far.write_all(&bytes).await.ok()?;
    if fate == 2 {
        losses.answers.fetch_add(1, Ordering::Relaxed);
        // Some of those who lose the answer have hung up before the server was done.
        sleep(Duration::from_millis(request.body.len() as u64 % 40)).await;
        return None;
    }
    let mut answer = Vec::new();
    far.read_to_end(&mut answer).await.ok()?;
    if fate == 3 {
        losses.answers.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    losses.passed.fetch_add(1, Ordering::Relaxed);
    near.write_all(&answer).await.ok()
}

/// One lane of the outbox: in order, each until it is kept. Returns how often it was tried in vain.
async fn hand_over(hindsight: &Hindsight, turns: Vec<Retention>, kept: &AtomicUsize) -> usize {
    let mut waiting = VecDeque::from(turns);
    let mut vain = 0;
    while let Some(turn) = waiting.front_mut() {
        match hindsight.retain(turn).await {
            Ok(()) => {
                kept.fetch_add(1, Ordering::Relaxed);
                waiting.pop_front();
            }
            Err(MemoryError::Refused(sentence)) => panic!("{}: {sentence}", turn.key),
            Err(MemoryError::Later(_) | MemoryError::Busy { .. } | MemoryError::Unknown(_)) => {
                vain += 1;
                turn.tried = true;
                sleep(Duration::from_millis(200)).await;
            }
        }
    }
    vain
}

fn turns(session: &str, user: &str) -> Vec<Retention> {
    let scope = scope(session, Some(user));
    (1..=TURNS)
        .map(|index| {
            let said =
                format!("note {index} of {session}: the harbour of user {user} has ship number {index}");
            turn(&scope, index, &said, &format!("Ship {index} it is."))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p26_on_the_real_server_each_turn_is_kept_exactly_once_under_its_own_lineage() {
    let Some(server) = tokio::task::spawn_blocking(Server::start).await.unwrap() else { return };
    let server = Arc::new(server);
    let (url, losses) = lossy(server.address.clone()).await;
    let hindsight = provider(&url, json!({ "timeout": 30 }));
    let kept = AtomicUsize::new(0);
    let (first, second) = (turns("first", "1"), turns("second", "2"));
    let kills = async {
        while kept.load(Ordering::Relaxed) < 12 {
            sleep(Duration::from_millis(5)).await;
        }
        sleep(Duration::from_millis(150)).await; // into the middle of the next ones
        let server = Arc::clone(&server);
        tokio::task::spawn_blocking(move || {
            server.kill("server");
            assert_eq!(server.run(), server.address);
        })
        .await
        .unwrap();
    };
    let began = Instant::now();
    let (in_vain, also_in_vain, ()) = tokio::join!(
        hand_over(&hindsight, first.clone(), &kept),
        hand_over(&hindsight, second.clone(), &kept),
        kills
    );
    println!(
        "30 turns in {:.1} s: {} tries in vain, {} requests lost, {} cut in half, {} answers lost, {} passed",
        began.elapsed().as_secs_f64(),
        in_vain + also_in_vain,
        losses.requests.load(Ordering::Relaxed),
        losses.halves.load(Ordering::Relaxed),
        losses.answers.load(Ordering::Relaxed),
        losses.passed.load(Ordering::Relaxed),
    );
    assert!(losses.requests.load(Ordering::Relaxed) > 0 && losses.answers.load(Ordering::Relaxed) > 0);
    let all: Vec<Retention> = first.into_iter().chain(second).collect();
    kept_once(&server, &all).await;

    // A crash of ours that forgot every acknowledgement: all of it is handed over again.
    let direct = provider(&format!("http://{}", server.address), json!({ "timeout": 60 }));
    for turn in &all {
        assert_eq!(direct.retain(&Retention { tried: true, ..turn.clone() }).await, Ok(()), "{}", turn.key);
    }
    kept_once(&server, &all).await;

    // What the model keeps twice is there once, too.
    let user = scope("first", Some("1"));
    for _ in 0..2 {
        let answer = direct
            .call(&user, wanted("hindsight_retain", r#"{"content":"The harbour master is called Ines."}"#))
            .await;
        assert_eq!(answer, r#"{"result": "Memory stored successfully."}"#);
    }
    assert_eq!(server.get("/documents?limit=100").await["total"], json!(all.len() + 1));

    // An operation that failed is answered with success when it is sent again, and kept by asking for another try.
    server.kill("embeddings");
    let late = turn(&user, 99, "the last ship sails at dawn", "Noted.");
    let (_, ()) = tokio::join!(hand_over(&direct, vec![late.clone()], &kept), async {
        while server.get("/operations?status=failed").await["total"] == json!(0) {
            sleep(Duration::from_millis(500)).await;
        }
        let server = Arc::clone(&server);
        tokio::task::spawn_blocking(move || server.run()).await.unwrap();
    });
    let held = server.get("/documents/first%2F99").await;
    assert!(held["original_text"].as_str().unwrap().contains("sails at dawn"), "{held}");
    assert_eq!(server.get("/documents?limit=100").await["total"], json!(all.len() + 2));

    // Each is shown their own, and the owner all of it.
    let query = "which ship number is in the harbour of user 1 and user 2";
    let owner = Scope { platform: "cli".to_owned(), ..scope("third", None) };
    for (who, shows_first, shows_second) in [
        (scope("third", Some("1")), true, false),
        (scope("third", Some("2")), false, true),
        (owner, true, true),
    ] {
        let told = direct.recall(&who, query).await.unwrap();
        assert_eq!(told.contains("harbour of user 1"), shows_first, "{:?}: {told}", who.user);
        assert_eq!(told.contains("harbour of user 2"), shows_second, "{:?}: {told}", who.user);
    }
    assert_eq!(direct.recall(&scope("third", Some("3")), query).await, Ok(String::new()));
    let elsewhere = provider(&format!("http://{}", server.address), json!({ "bank_id": "never-used" }));
    assert_eq!(elsewhere.recall(&scope("third", Some("1")), query).await, Ok(String::new()));
}

/// Every turn is one document of one unit with its own words and its own tags, and there is nothing else.
async fn kept_once(server: &Server, turns: &[Retention]) {
    let documents = server.get("/documents?limit=100").await;
    let units = server.get("/memories/list?limit=100").await;
    let (documents, units) = (documents["items"].as_array().unwrap(), units["items"].as_array().unwrap());
    for turn in turns {
        let found: Vec<&Value> = documents.iter().filter(|one| one["id"] == json!(turn.key)).collect();
        assert_eq!(found.len(), 1, "{}", turn.key);
        assert_eq!(found[0]["memory_unit_count"], 1, "{}", turn.key);
        let user = turn.scope.user.as_deref().unwrap();
        let lineage = [
            format!("session:{}", turn.scope.session),
            format!("parent:{}-before", turn.scope.session),
            format!("user:{user}"),
            format!("chat:chat-{user}"),
        ];
        let found: Vec<&Value> = units.iter().filter(|unit| unit["document_id"] == json!(turn.key)).collect();
        assert_eq!(found.len(), 1, "{}", turn.key);
        let mut tags: Vec<&str> =
            found[0]["tags"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        tags.sort_by_key(|tag| lineage.iter().position(|one| one == tag));
        assert_eq!(tags, lineage, "{}", turn.key);
        let text = found[0]["text"].as_str().unwrap();
        assert_eq!(text.matches(&turn.said[0]).count(), 1, "{text}");
        assert_eq!(found[0]["metadata"]["turn_index"], turn.index.to_string());
    }
    assert_eq!((documents.len(), units.len()), (turns.len(), turns.len()));
}
