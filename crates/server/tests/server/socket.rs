//! Over a real connection on loopback.

use crate::client::{BODY_MAX, KEY, options};
use crate::desk::{FakeDesk, Script};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use throughline_server::{router, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

struct Gateway {
    desk: Arc<FakeDesk>,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Gateway {
    async fn start() -> Self {
        let desk = FakeDesk::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let router = router(desk.clone(), options());
        let serving = tokio::spawn(serve(listener, router, async {
            let _ = stopped.await;
        }));
        Self { desk, address, stop, serving }
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
            if holds(&self.desk) {
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
        gateway.desk.state().written.clear();
        let text = read_all(gateway.ask(hi(stream)).await).await;
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with(last), "{text}");
        gateway.until(|desk| desk.state().written.len() == 1).await;
    }
}

#[tokio::test]
async fn p10_a_client_that_hangs_up_stops_nothing_and_was_not_written_to() {
    let gateway = Gateway::start().await;
    for stream in [false, true] {
        let gate = Arc::new(Semaphore::new(0));
        gateway.desk.next(Script::says("Hello!").gated(&gate));
        let turns = gateway.desk.turns();
        let mut connection = gateway.ask(hi(stream)).await;
        match stream {
            true => drop(read_until(&mut connection, "lo!").await),
            false => gateway.until(|desk| desk.turns() == turns + 1).await,
        }
        drop(connection);
        sleep(Duration::from_millis(100)).await;
        gate.add_permits(1);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(gateway.desk.turns(), turns + 1);
        assert!(gateway.desk.state().written.is_empty(), "stream: {stream}");
    }
}

#[tokio::test]
async fn p7_headers_of_a_stream_arrive_while_the_model_thinks() {
    let gateway = Gateway::start().await;
    let gate = Arc::new(Semaphore::new(0));
    gateway.desk.next(Script::says("Hello!").after(vec![]).gated(&gate));
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
    assert_eq!(gateway.desk.turns(), 0);
}

#[tokio::test]
async fn a_stop_lets_open_answers_end_and_takes_no_new_ones() {
    let gateway = Gateway::start().await;
    let gate = Arc::new(Semaphore::new(0));
    gateway.desk.next(Script::says("Hello!").gated(&gate));
    let mut connection = gateway.ask(hi(true)).await;
    read_until(&mut connection, "lo!").await;
    gateway.stop.send(()).unwrap();
    sleep(Duration::from_millis(50)).await;
    assert!(TcpStream::connect(gateway.address).await.is_err(), "the door is closed");
    assert!(!gateway.serving.is_finished());
    gate.add_permits(1);
    assert!(read_all(connection).await.contains("[DONE]"));
    timeout(Duration::from_secs(5), gateway.serving).await.expect("it ends").unwrap().unwrap();
}
