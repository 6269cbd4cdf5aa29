//! What goes wrong is the same for every provider: one table, both adapters.

use crate::server::{End, KEY, Say, Server, WAIT, client, failure, whole};
use crate::{anthropic, openai};
use std::time::Duration;
use throughline_core::port::{Model, ModelError};
use throughline_core::session::FailureKind;
use throughline_models::{OpenAi, OpenAiConfig};
use throughline_net::Secret;

/// How both adapters fail against this server.
async fn failures(say: Say) -> [ModelError; 2] {
    let server = Server::start(say).await;
    [failure(&openai::model(&server)).await, failure(&anthropic::model(&server)).await]
}

fn status(status: u16, body: &str) -> Say {
    Say::Status(status, Vec::new(), body.to_owned())
}

/// The key, as a careless provider would repeat it.
fn careless(status_code: u16, words: &str) -> Say {
    let body = format!("{{\"error\":{{\"type\":\"x\",\"message\":\"{words} (you sent Bearer {KEY})\"}}}}");
    status(status_code, &body)
}

#[tokio::test]
async fn p31_every_refusal_has_its_class_and_no_secret() {
    for (say, kind, words) in [
        (careless(400, "tool schema is bad"), FailureKind::Refused, "tool schema is bad (you sent Bearer …"),
        (careless(401, "wrong key"), FailureKind::Credentials, "_API_KEY"),
        (careless(402, "pay"), FailureKind::Credentials, "to be paid"),
        (careless(403, "no"), FailureKind::Credentials, "did not accept"),
        (careless(404, "no such model"), FailureKind::Refused, "/v1"),
        (careless(408, "late"), WAIT, "Try again in a moment"),
        (careless(413, "big"), FailureKind::TooLong, "too long for"),
        (careless(400, "prompt is too long: 9 > 8"), FailureKind::TooLong, "/new"),
        (careless(400, "context_length_exceeded"), FailureKind::TooLong, "too long for"),
        (careless(422, "unprocessable"), FailureKind::Refused, "change it"),
        (careless(429, "slow down"), WAIT, "is limiting requests"),
        (careless(429, "insufficient_quota"), FailureKind::Credentials, "to be paid"),
        (careless(500, "oops"), WAIT, "oops"),
        (careless(502, "oops"), WAIT, "cannot answer"),
        (careless(503, "oops"), WAIT, "503"),
        (careless(529, "Overloaded"), WAIT, "Overloaded"),
        (status(502, "<html><title>Bad gateway</title></html>"), WAIT, "a web page: Bad gateway"),
        (status(418, ""), FailureKind::Refused, "(418). "),
        (
            Say::Status(307, vec![("location", format!("https://elsewhere.example/{KEY}"))], String::new()),
            FailureKind::Refused,
            "https://elsewhere.example",
        ),
    ] {
        for error in failures(say.clone()).await {
            assert_eq!(error.kind, kind, "{}", error.message);
            assert!(error.message.contains(words), "{words}: {}", error.message);
            assert!(error.message.contains("127.0.0.1:"), "names the host: {}", error.message);
        }
    }
}

#[tokio::test]
async fn a_wish_to_be_left_alone_is_passed_on() {
    for (headers, seconds) in [
        (vec![("retry-after", "20".to_owned())], 20),
        (vec![("retry-after-ms", "1500".to_owned())], 2),
        (vec![("retry-after", "86400".to_owned())], 3600),
    ] {
        for status in [429, 503, 529] {
            for error in failures(Say::Status(status, headers.clone(), "{}".to_owned())).await {
                assert_eq!(error.kind, FailureKind::Wait { after_seconds: Some(seconds) });
                assert!(error.message.ends_with(&format!("Try again in {seconds} s.")), "{}", error.message);
            }
        }
    }
}

#[tokio::test]
async fn rubbish_is_broken_and_says_so() {
    let huge = [b"data: ".to_vec(), vec![b'x'; 1 << 17]].concat();
    let endless = format!("data: {}\n\n", "{\"choices\":[]}").repeat(100_000);
    for (say, words) in [
        (whole("<html>hello</html>"), "neither a stream nor JSON: “<html>hello</html>”"),
        (whole("hello"), "neither a stream nor JSON"),
        (whole(""), "it is empty"),
        (whole("data: not json\n\n"), "not JSON: “not json”"),
        (whole(&format!("data: {KEY} is rubbish\n\n")), "… is rubbish"),
        (whole("{\"choices\""), "not valid JSON"),
        (whole("{\"hello\":1}"), "neither an answer nor an error"),
        (whole("[]"), "neither an answer nor an error"),
        (whole("data: 17\n\n"), "broke off"),
        (whole("event: message\n\n"), "broke off"),
        (Say::Pieces(vec![b"data: \xff\xfe\n\n".to_vec()], End::Clean), "not valid UTF-8"),
        (Say::Pieces(vec![b"{\"a\":\"\xff\"}".to_vec()], End::Clean), "not valid UTF-8"),
        (Say::Pieces(vec![huge], End::Clean), "one event of the answer is longer than"),
        (whole(&endless), "the answer is longer than"),
        (Say::Pieces(vec![b"data: {\"cho".to_vec()], End::Broken), "lost in the middle"),
    ] {
        for error in failures(say.clone()).await {
            assert_eq!(error.kind, FailureKind::Broken, "{}", error.message);
            assert!(error.message.contains(words), "{words}: {}", error.message);
        }
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_waited_for_and_no_longer() {
    for say in [
        Say::Nothing,
        Say::Pieces(vec![], End::Hanging),
        Say::Pieces(vec![b": alive\n\n".to_vec()], End::Hanging),
    ] {
        let began = std::time::Instant::now();
        for error in failures(say).await {
            assert_eq!(error.kind, WAIT);
            assert!(error.message.contains("did not answer"), "{}", error.message);
        }
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = OpenAiConfig {
        key: Some(Secret::new(KEY)),
        ..OpenAiConfig::new(format!("http://user:{KEY}@{address}/v1?token={KEY}"), "llama3")
    };
    let model = OpenAi::new(config, client()).unwrap();
    let error = failure(&model as &dyn Model).await;
    assert_eq!(error.kind, FailureKind::Unreachable);
    assert!(
        error.message.starts_with(&format!("llama3 at {address} did not answer: no connection to {address}")),
        "{}",
        error.message
    );
}
