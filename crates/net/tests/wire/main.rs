//! The client against servers that misbehave, byte by byte: each answers with what it is given.

#![allow(clippy::unwrap_used)]

use std::time::Duration;
use throughline_net::{
    BodyShape, Client, ClientSettings, Endpoint, HttpReply, Limits, NetError, NetStage, Secret, Timeouts,
    UnreadableEvent,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const KEY: &str = "canary-0123456789";

/// What a server does after it has read a request.
#[derive(Clone)]
enum Step {
    Send(Vec<u8>),
    Pause,
    HoldForEver,
}

struct Server {
    base: String,
    requests: mpsc::UnboundedReceiver<String>,
}

async fn server(steps: Vec<Step>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, steps.clone(), sender.clone()));
        }
    });
    Server { base, requests }
}

async fn serve(mut stream: TcpStream, steps: Vec<Step>, sender: mpsc::UnboundedSender<String>) {
    let mut request = Vec::new();
    while !request.ends_with(b"{}") {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let _ = sender.send(String::from_utf8_lossy(&request).into_owned());
    for step in steps {
        match step {
            Step::Send(bytes) => {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.flush().await;
            }
            Step::Pause => tokio::time::sleep(Duration::from_millis(30)).await,
            Step::HoldForEver => std::future::pending().await,
        }
    }
}

fn say(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

fn whole(status: &str, headers: &str, body: &str) -> Vec<Step> {
    vec![say(&format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len()))]
}

const STREAMED: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";

fn quick() -> ClientSettings {
    let timeouts = Timeouts {
        connect: Duration::from_millis(500),
        first_byte: Duration::from_millis(200),
        silence: Duration::from_millis(500),
        whole: Duration::from_millis(1500),
    };
    ClientSettings { timeouts, limits: Limits { body: 100_000, event: 10_000, refusal: 1000 } }
}

async fn ask(base: &str) -> Result<HttpReply, NetError> {
    let endpoint = Endpoint::new(base, "v1/x").unwrap();
    let endpoint = endpoint.secret_header("authorization", "Bearer ", &Secret::new(KEY)).unwrap();
    Client::new(quick()).post(&endpoint, "{}").await
}

async fn answered(steps: Vec<Step>) -> Result<HttpReply, NetError> {
    ask(&server(steps).await.base).await
}

/// All events, joined.
async fn events(steps: Vec<Step>) -> Result<String, NetError> {
    let mut events = answered(steps).await?.events();
    let mut seen = String::new();
    while let Some(event) = events.next().await? {
        seen.push_str(&event.data);
        seen.push('|');
    }
    Ok(seen)
}

#[tokio::test]
async fn a_plain_answer_is_read() {
    let mut server = server(whole("200 OK", "", "{\"ok\":true}")).await;
    let mut reply = ask(&server.base).await.unwrap();
    assert_eq!(reply.shape().await.unwrap(), BodyShape::Json);
    assert_eq!(reply.text().await.unwrap(), "{\"ok\":true}");
    let request = server.requests.recv().await.unwrap();
    assert!(request.starts_with("POST /v1/x HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("content-type: application/json\r\n"), "{request}");
    assert!(request.contains(&format!("authorization: Bearer {KEY}\r\n")), "{request}");
}

#[tokio::test]
async fn the_shape_is_told_by_what_comes_not_by_its_label() {
    for (body, shape) in [
        ("  \r\n{\"a\":1}", BodyShape::Json),
        ("\u{feff}[1]", BodyShape::Json),
        ("data: x\n\n", BodyShape::Events),
        (": hello\n\n", BodyShape::Events),
        ("\n\nevent: a\n", BodyShape::Events),
        ("<html>", BodyShape::Unknown),
        ("", BodyShape::Unknown),
    ] {
        let mut steps = vec![say(STREAMED)];
        steps.extend(body.bytes().map(|byte| Step::Send(vec![byte])));
        let mut reply = answered(steps).await.unwrap();
        assert_eq!(reply.shape().await.unwrap(), shape, "{body:?}");
        assert_eq!(reply.text().await.unwrap(), body.trim_start_matches('\u{feff}'), "nothing is taken away");
    }
}

#[tokio::test]
async fn events_arrive_whatever_the_pieces() {
    let steps = vec![
        say(STREAMED),
        say("data: gr"),
        Step::Send(vec![0xc3]),
        Step::Pause,
        Step::Send(vec![0xbc]),
        say("n\r"),
        Step::Pause,
        say("\n\r\ndata: 2\n\n"),
    ];
    assert_eq!(events(steps).await.unwrap(), "grün|2|");
}

#[tokio::test]
async fn nobody_there_is_a_reason_to_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    match ask(&base).await.err() {
        Some(NetError::Unreachable(words)) => assert!(words.contains("refused"), "{words}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn hanging_up_without_a_word_is_a_reason_to_wait() {
    assert!(matches!(answered(vec![]).await.err(), Some(NetError::HungUp(_))));
}

#[tokio::test]
async fn each_wait_has_its_own_limit() {
    let stage = |result: Result<String, NetError>| match result {
        Err(NetError::TimedOut { stage, .. }) => stage,
        other => panic!("{other:?}"),
    };
    let headers = "HTTP/1.1 200 OK\r\n\r\n";
    assert_eq!(stage(events(vec![Step::HoldForEver]).await), NetStage::FirstByte);
    assert_eq!(stage(events(vec![say(headers), Step::HoldForEver]).await), NetStage::FirstByte);
    assert_eq!(
        stage(events(vec![say(headers), say("data: a\n"), Step::HoldForEver]).await),
        NetStage::Silence
    );
    let mut lively = vec![say(headers)];
    lively.extend((0..200).flat_map(|_| [say(": alive\n\n"), Step::Pause]));
    assert_eq!(stage(events(lively).await), NetStage::Whole);
}

#[tokio::test]
async fn a_cut_answer_is_lost_and_a_short_one_is_not() {
    let headers = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n";
    assert!(matches!(events(vec![say(headers), say("data: a\n\n")]).await, Err(NetError::Lost(_))));
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n";
    assert!(matches!(events(vec![say(chunked)]).await, Err(NetError::Lost(_))));
    assert_eq!(events(vec![say(chunked), say("0\r\n\r\n")]).await.unwrap(), "a|");
    assert_eq!(events(vec![say(STREAMED), say("data: a\n\ndata: b")]).await.unwrap(), "a|b|");
}

#[tokio::test]
async fn what_is_held_is_bounded() {
    let line = vec![b'x'; 20_000];
    let huge = events(vec![say(STREAMED), say("data: "), Step::Send(line)]).await;
    assert!(matches!(huge, Err(NetError::Unreadable(UnreadableEvent::EventTooLong { .. }))), "{huge:?}");
    let event = format!("data: {}\n\n", "x".repeat(5000));
    let endless = events(vec![say(STREAMED), say(&event.repeat(30))]).await;
    assert!(matches!(endless, Err(NetError::Unreadable(UnreadableEvent::TooLong { .. }))), "{endless:?}");
    let reply = answered(vec![say(STREAMED), Step::Send(vec![b'{'; 200_000])]).await.unwrap();
    let text = reply.text().await;
    assert!(matches!(text, Err(NetError::Unreadable(UnreadableEvent::TooLong { .. }))), "{text:?}");
}

#[tokio::test]
async fn invalid_utf8_is_an_error_and_not_a_panic() {
    let stream = events(vec![say(STREAMED), Step::Send(b"data: \xf0\x28\n\n".to_vec())]).await;
    assert!(matches!(stream, Err(NetError::Unreadable(UnreadableEvent::NotUtf8))), "{stream:?}");
    let reply = answered(vec![say(STREAMED), Step::Send(b"{\"\xff\"}".to_vec())]).await.unwrap();
    let text = reply.text().await;
    assert!(matches!(text, Err(NetError::Unreadable(UnreadableEvent::NotUtf8))), "{text:?}");
}

#[tokio::test]
async fn a_refusal_says_why_and_for_how_long() {
    let steps = whole("429 Too Many Requests", "retry-after: 7\r\n", "{\"error\":\"slow down\"}");
    let Some(NetError::Status(refusal)) = answered(steps).await.err() else { panic!("refused") };
    assert_eq!((refusal.status, refusal.retry_after), (429, Some(Duration::from_secs(7))));
    assert_eq!(refusal.body, "{\"error\":\"slow down\"}");
    let long = whole("500 Oops", "", &"no ".repeat(50_000));
    let Some(NetError::Status(refusal)) = answered(long).await.err() else { panic!("refused") };
    assert_eq!(refusal.body.len(), 1000);
}

#[tokio::test]
async fn a_refusal_is_not_waited_for_to_its_last_word() {
    let headers = "HTTP/1.1 503 Busy\r\ncontent-length: 100\r\n\r\nnot now";
    let server = server(vec![say(headers), Step::HoldForEver]).await;
    let patient = Client::new(ClientSettings::default());
    let endpoint = Endpoint::new(&server.base, "").unwrap();
    let asking = patient.post(&endpoint, "{}");
    let answer = tokio::time::timeout(Duration::from_secs(10), asking).await.expect("minutes are not waited");
    let Some(NetError::Status(refusal)) = answer.err() else { panic!("refused") };
    assert_eq!((refusal.status, refusal.body.as_str()), (503, "not now"));
}

#[tokio::test]
async fn p31_a_server_that_repeats_the_key_is_not_repeated() {
    let steps = whole("401 Unauthorized", "", &format!("bad key {KEY}, also sk-abcdefghijklmnopqrst"));
    let error = answered(steps).await.err().unwrap();
    let (shown, debugged) = (error.to_string(), format!("{error:?}"));
    assert!(shown.contains("bad key …, also sk-…"), "{shown}");
    assert!(!debugged.contains("canary"), "{debugged}");
}

#[tokio::test]
async fn p31_a_key_does_not_follow_a_redirect() {
    let mut target = server(whole("200 OK", "", "{}")).await;
    let location = format!("location: {}/v1/x?token=canary-token\r\n", target.base);
    let steps = whole("307 Temporary Redirect", &location, "");
    let Some(NetError::Status(refusal)) = answered(steps).await.err() else { panic!("refused") };
    assert_eq!(refusal.status, 307);
    assert_eq!(refusal.redirect.as_deref(), Some("http://127.0.0.1"));
    assert!(target.requests.try_recv().is_err(), "the target was never asked");
}

#[tokio::test]
async fn tls_to_a_server_without_it_is_named() {
    let server = server(vec![]).await;
    let error = ask(&server.base.replace("http://", "https://")).await.err();
    match error {
        // A server that waits for the rest of what it takes for a request never speaks at all.
        Some(NetError::Unreachable(_) | NetError::HungUp(_) | NetError::TimedOut { .. }) => {}
        other => panic!("{other:?}"),
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        std::future::pending::<()>().await;
    });
    match ask(&base).await.err() {
        Some(NetError::Unusable(words)) => assert!(words.contains("http://"), "{words}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn gzip_is_unpacked_and_its_size_is_counted_unpacked() {
    let body = gzip(b"data: packed\n\n");
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", body.len());
    assert_eq!(events(vec![say(&head), Step::Send(body)]).await.unwrap(), "packed|");
    let rubbish = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello";
    assert!(matches!(events(vec![say(rubbish)]).await, Err(NetError::Lost(_))));
}

/// A proxy in the environment is for the world. The test runs itself again with one set, because
/// the environment of a running process is not ours to change.
#[tokio::test]
async fn a_proxy_never_stands_before_this_machine() {
    const INSIDE: &str = "THROUGHLINE_TEST_BEHIND_PROXY";
    if std::env::var_os(INSIDE).is_some() {
        let reply = answered(whole("200 OK", "", "{\"direct\":1}")).await.unwrap();
        assert_eq!(reply.text().await.unwrap(), "{\"direct\":1}");
        return;
    }
    let proxy = "http://127.0.0.1:9"; // nobody listens on the discard port
    let status = tokio::task::spawn_blocking(move || {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_proxy_never_stands_before_this_machine"]).env(INSIDE, "1");
        for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env(name, proxy);
        }
        command.env_remove("no_proxy").env_remove("NO_PROXY").output().unwrap()
    });
    let output = status.await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the inner test ran");
}

/// A gzip file with its content as it is: the format allows it.
fn gzip(content: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    let length = u16::try_from(content.len()).unwrap();
    file.extend(length.to_le_bytes());
    file.extend((!length).to_le_bytes());
    file.extend(content);
    file.extend(crc32(content).to_le_bytes());
    file.extend(u32::from(length).to_le_bytes());
    file
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}
