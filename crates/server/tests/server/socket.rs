//! Over a real connection on loopback.

use crate::agent_api::{FakeDesk, Script};
use crate::client::{BODY_MAX, KEY, options};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::prompt::Digest;
use throughline_server::proof::Challenge;
use throughline_server::{Limits, router, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

struct Gateway {
    api: Arc<FakeDesk>,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Gateway {
    async fn start() -> Self {
        let api = FakeDesk::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let router = router(api.clone(), options());
        let limits = Limits { head_patience: Duration::from_secs(3600), connections_max: 8 };
        let serving = tokio::spawn(serve(listener, router, limits, async {
            let _ = stopped.await;
        }));
        Self { api, address, stop, serving }
    }

    /// The whole answer to a request as it is written.
    async fn hears(&self, request: &str) -> String {
        let mut connection = TcpStream::connect(self.address).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        read_all(connection).await
    }

    async fn ask(&self, body: Value) -> TcpStream {
        let mut connection = TcpStream::connect(self.address).await.unwrap();
        connection.write_all(head(body.to_string().len()).as_bytes()).await.unwrap();
        connection.write_all(body.to_string().as_bytes()).await.unwrap();
        connection
    }

    /// Waits for what another task does.
    async fn until(&self, holds: impl Fn(&FakeDesk) -> bool) {
        for _ in 0..500 {
            if holds(&self.api) {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("it did not happen");
    }
}

fn head(length: usize) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n"
    )
}

fn hi(stream: bool) -> Value {
    json!({"messages": [{"role": "user", "content": "hi"}], "stream": stream})
}

async fn read_until(connection: &mut TcpStream, words: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains(words) {
        let read =
            timeout(Duration::from_secs(5), connection.read(&mut buffer)).await.expect("it answers").unwrap();
        assert_ne!(read, 0, "it ended before {words:?}: {text}");
        text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    text
}

async fn read_all(mut connection: TcpStream) -> String {
    let mut text = String::new();
    timeout(Duration::from_secs(5), connection.read_to_string(&mut text)).await.expect("it ends").unwrap();
    text
}

#[tokio::test]
async fn p10_an_answer_counts_as_written_when_the_client_read_to_the_end() {
    let gateway = Gateway::start().await;
    for (stream, last) in [(false, "}"), (true, "data: [DONE]\n\n\r\n0\r\n\r\n")] {
        gateway.api.state().written.clear();
        let text = read_all(gateway.ask(hi(stream)).await).await;
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with(last), "{text}");
        gateway.until(|api| api.state().written.len() == 1).await;
    }
}

#[tokio::test]
async fn p10_a_client_that_hangs_up_stops_nothing_and_was_not_written_to() {
    let gateway = Gateway::start().await;
    for stream in [false, true] {
        let gate = Arc::new(Semaphore::new(0));
        gateway.api.next(Script::says("Hello!").gated(&gate));
        let turns = gateway.api.turns();
        let mut connection = gateway.ask(hi(stream)).await;
        match stream {
            true => drop(read_until(&mut connection, "lo!").await),
            false => gateway.until(|api| api.turns() == turns + 1).await,
        }
        drop(connection);
        sleep(Duration::from_millis(100)).await;
        gate.add_permits(1);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(gateway.api.turns(), turns + 1);
        assert!(gateway.api.state().written.is_empty(), "stream: {stream}");
    }
}

#[tokio::test]
async fn p7_headers_of_a_stream_arrive_while_the_model_thinks() {
    let gateway = Gateway::start().await;
    let gate = Arc::new(Semaphore::new(0));
    gateway.api.next(Script::says("Hello!").after(vec![]).gated(&gate));
    let mut connection = gateway.ask(hi(true)).await;
    let early = read_until(&mut connection, "assistant").await;
    assert!(early.contains("x-hermes-session-id: s2\r\n") && !early.contains("Hello!"), "{early}");
    gate.add_permits(1);
    assert!(read_all(connection).await.contains("[DONE]"));
}

#[tokio::test]
async fn a_client_that_sends_far_too_much_still_hears_why_not() {
    let gateway = Gateway::start().await;
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    let length = BODY_MAX * 50;
    connection.write_all(head(length).as_bytes()).await.unwrap();
    connection.write_all(&vec![b' '; length]).await.unwrap();
    let text = read_all(connection).await;
    assert!(text.starts_with("HTTP/1.1 413") && text.contains("body_too_large"), "{text}");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_message() {
    let gateway = Gateway::start().await;
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    let body = hi(false).to_string();
    connection.write_all(head(body.len() + 1).as_bytes()).await.unwrap();
    connection.write_all(body.as_bytes()).await.unwrap();
    connection.shutdown().await.unwrap();
    let text = read_all(connection).await;
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 400"), "{text}");
    assert_eq!(gateway.api.turns(), 0);
}

#[tokio::test]
async fn a_stop_lets_open_answers_end_and_takes_no_new_ones() {
    let gateway = Gateway::start().await;
    let gate = Arc::new(Semaphore::new(0));
    gateway.api.next(Script::says("Hello!").gated(&gate));
    let mut connection = gateway.ask(hi(true)).await;
    read_until(&mut connection, "lo!").await;
    gateway.stop.send(()).unwrap();
    sleep(Duration::from_millis(50)).await;
    assert!(TcpStream::connect(gateway.address).await.is_err(), "the door is closed");
    assert!(!gateway.serving.is_finished());
    gate.add_permits(1);
    assert!(read_all(connection).await.contains("[DONE]"));
    timeout(Duration::from_secs(5), gateway.serving).await.expect("it ends").unwrap();
}

/// Half-sent requests hold every connection there is, and a client that asks is answered all the same.
#[tokio::test]
async fn p31_strangers_who_send_half_a_request_lock_nobody_out() {
    let gateway = Gateway::start().await;
    let mut held = Vec::new();
    for nth in 0..24 {
        let mut connection = TcpStream::connect(gateway.address).await.unwrap();
        connection.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauth").await.unwrap();
        held.push(connection);
        let text = read_all(gateway.ask(hi(false)).await).await;
        assert!(text.starts_with("HTTP/1.1 200"), "after {nth}: {text}");
    }
}

/// What `/api/prove` says to a nonce at an address of the gateway.
async fn proof(gateway: &Gateway, nonce: [u8; 32], headers: &str) -> (String, String) {
    let body = json!({"nonce": Digest(nonce).to_hex()}).to_string();
    let text = gateway
        .hears(&format!(
            "POST /api/prove HTTP/1.1\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    let said = text.split("\r\n\r\n").nth(1).unwrap_or_default();
    let said: Value = serde_json::from_str(said).unwrap_or_default();
    (text.clone(), said["proof"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn p31_a_gateway_proves_where_it_is_and_whose_before_anybody_tells_it_the_key() {
    let gateway = Gateway::start().await;
    let nonce = [7; 32];
    let (text, said) = proof(&gateway, nonce, "host: 127.0.0.1\r\n").await;
    let asked = Challenge { nonce: &nonce, home: "/home/main", address: gateway.address };
    assert!(asked.is_met_by(&said, KEY), "{text}");
    assert!(!text.contains(KEY));
    // A process that listens elsewhere and passes the question on gets an answer that is good for nothing there.
    let elsewhere = SocketAddr::new(gateway.address.ip(), gateway.address.port() ^ 1);
    assert!(!Challenge { address: elsewhere, ..asked }.is_met_by(&said, KEY));
    assert!(!Challenge { home: "/home/other", ..asked }.is_met_by(&said, KEY));
    assert!(!Challenge { nonce: &[8; 32], ..asked }.is_met_by(&said, KEY));
    let (again, _) = proof(&gateway, nonce, "host: evil.example\r\n").await;
    assert!(again.starts_with("HTTP/1.1 403"), "{again}");
}

#[tokio::test]
async fn p31_what_a_web_page_asks_is_refused_on_every_route_unless_it_has_the_key() {
    let gateway = Gateway::start().await;
    let asks = async |path: &str, headers: &str| {
        let text = gateway.hears(&format!("GET {path} HTTP/1.1\r\n{headers}connection: close\r\n\r\n")).await;
        text.get(9..12).unwrap_or_default().to_owned()
    };
    let page = "host: 127.0.0.1\r\norigin: https://evil.example\r\n";
    let rebound = "host: evil.example:8642\r\n";
    let twice = "host: 127.0.0.1\r\nhost: evil.example\r\n";
    for path in ["/health", "/v1/health", "/health/ready", "/v1/models", "/api/status", "/nowhere"] {
        for headers in [page, rebound, twice] {
            assert_eq!(asks(path, headers).await, "403", "{path} {headers}");
        }
        assert_ne!(asks(path, "host: localhost:8642\r\n").await, "403", "{path}");
    }
    for headers in [page, rebound] {
        let with_key = format!("{headers}authorization: Bearer {KEY}\r\n");
        assert_eq!(asks("/v1/models", &with_key).await, "200", "{headers}");
    }
}
