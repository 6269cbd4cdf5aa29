//! A model that answers rubbish, breaks off, refuses its key or never answers: the conversation
//! stays whole, the client learns what to do, and the same request later is the same turn.

use super::{MODEL_KEY, discreet, says};
use crate::gateway::{Place, Whole, said};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Well,
    /// A web page, as from a proxy that lost its server.
    WebPage,
    /// Events that are no events.
    Rubbish,
    CutOff,
    /// Repeats the key it was given, as some servers do.
    Unauthorised,
    Silent,
}

/// A server that speaks OpenAI's protocol as well as its mood allows.
struct Provider {
    address: SocketAddr,
    mood: Arc<Mutex<Mood>>,
    heard: Arc<Mutex<Vec<Value>>>,
}

impl Provider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let provider = Self {
            address: listener.local_addr().unwrap(),
            mood: Arc::new(Mutex::new(Mood::Well)),
            heard: Arc::default(),
        };
        let (mood, heard) = (provider.mood.clone(), provider.heard.clone());
        // Ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mood, heard) = (mood.clone(), heard.clone());
                thread::spawn(move || answer(stream.unwrap(), &mood, &heard));
            }
        });
        provider
    }

    fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// How many messages each request held, the system prompt apart.
    fn heard(&self) -> Vec<usize> {
        let heard = self.heard.lock().unwrap();
        let said = |message: &&Value| message["role"] != "system";
        heard.iter().map(|body| body["messages"].as_array().unwrap().iter().filter(said).count()).collect()
    }
}

fn answer(mut stream: TcpStream, mood: &Mutex<Mood>, heard: &Mutex<Vec<Value>>) {
    let Some(body) = request(&mut stream) else { return };
    heard.lock().unwrap().push(body);
    let mood = *mood.lock().unwrap();
    let event = |text: &str| {
        let chunk = json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
                           "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
        format!("data: {chunk}\n\n")
    };
    let end =
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let (status, kind, body) = match mood {
        Mood::Well => ("200 OK", "text/event-stream", event("All is well.") + end),
        Mood::WebPage => ("200 OK", "text/html", "<html>It works!</html>".to_owned()),
        Mood::Rubbish => {
            ("200 OK", "text/event-stream", "data: {\"choices\": 7, }\n\ndata: [DONE]\n\n".to_owned())
        }
        Mood::CutOff => ("200 OK", "text/event-stream", event("All is")),
        Mood::Unauthorised => (
            "401 Unauthorized",
            "application/json",
            json!({"error": {"message": format!("Incorrect key: {MODEL_KEY}")}}).to_string(),
        ),
        Mood::Silent => {
            thread::sleep(Duration::from_secs(600));
            return;
        }
    };
    // Without a length, so that only the protocol says where the answer ends.
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n{body}");
}

fn request(stream: &mut TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

fn place(provider: &Provider) -> Place {
    let place = Place::new();
    let yaml = format!(
        "model:\n  provider: custom\n  base_url: http://{}/v1\n  default: some-model\n  api_key: {MODEL_KEY}\n\
         agent:\n  restart_drain_timeout: 1\n",
        provider.address
    );
    place.write("home/config.yaml", yaml);
    place
}

fn ask(client: &crate::gateway::Client, key: &str) -> Whole {
    client
        .chat(
            &[("X-Hermes-Session-Id", "steady"), ("Idempotency-Key", key)],
            &said(&format!("how is {key}?")),
        )
        .unwrap()
}

#[test]
fn p9_a_model_that_answers_rubbish_costs_its_turn_and_nothing_else() {
    let provider = Provider::start();
    let place = place(&provider);
    let gateway = place.launch().start();
    let mut heard = Vec::new();
    for (nth, mood) in (0..).zip([Mood::WebPage, Mood::Rubbish, Mood::CutOff, Mood::Unauthorised]) {
        provider.is(mood);
        let key = format!("k{nth}");
        let reply = ask(&gateway.client, &key);
        let (code, message) = reply.error();
        println!("{code}: {message}");
        discreet(&reply.text());
        match mood {
            Mood::Unauthorised => {
                assert_eq!((reply.status, code.as_str()), (502, "model_credentials"));
                says(&message, &["key", "model.api_key"]);
            }
            _ => {
                assert_eq!((reply.status, code.as_str()), (502, "model_broken"));
                says(&message, &["some-model"]);
            }
        }
        provider.is(Mood::Well);
        assert_eq!(
            ask(&gateway.client, &key).said(),
            "All is well.",
            "the same request, once the model is well"
        );
        let asked = if mood == Mood::Unauthorised { 2 } else { 3 }; // what is broken is asked for again at once
        heard.extend(vec![nth * 2 + 1; asked]);
    }
    assert_eq!(provider.heard(), heard, "what the model saw grew by one message and its answer each time");
    let rows = gateway.client.transcript("steady");
    let users: Vec<_> = rows.iter().step_by(2).map(|(_, text)| text.as_str()).collect();
    assert_eq!(users, ["how is k0?", "how is k1?", "how is k2?", "how is k3?"]);
    assert!(rows.iter().skip(1).step_by(2).all(|(role, text)| role == "assistant" && text == "All is well."));
    discreet(&gateway.log());
    assert_eq!(gateway.stop().code(), Some(0));
}

/// How long an answer is waited for is long, on purpose. A stop waits less.
#[test]
fn p9_a_model_that_never_answers_holds_up_neither_others_nor_a_stop() {
    let provider = Provider::start();
    let place = place(&provider);
    let gateway = place.launch().start();
    provider.is(Mood::Silent);
    let client = gateway.client.clone();
    let waiting = thread::spawn(move || ask(&client, "k1"));
    let deadline = Instant::now() + Duration::from_secs(120);
    while provider.heard().is_empty() {
        assert!(Instant::now() < deadline, "the model was never asked");
        thread::sleep(Duration::from_millis(5));
    }
    provider.is(Mood::Well);
    assert_eq!(gateway.client.say("another", "and you?").said(), "All is well.");
    assert_eq!(gateway.stop().code(), Some(0));
    let reply = waiting.join().unwrap();
    assert_eq!((reply.status, reply.error().0.as_str()), (503, "interrupted"));
    says(&reply.error().1, &["is stopping", "kept", "send the same request again"]);

    let gateway = place.launch().start();
    assert_eq!(ask(&gateway.client, "k1").said(), "All is well.");
    assert_eq!(gateway.client.transcript("steady").len(), 2);
    discreet(&gateway.log());
}
