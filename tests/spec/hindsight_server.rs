//! A Hindsight for gateways that are processes of their own. It keeps what it is told at once, knows which
//! calls were open at the same time, and can be made to wait.

use crate::wire::{self, Answer, Request};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

pub struct Bank {
    address: SocketAddr,
    books: Arc<Records>,
}

/// A turn, as it lies there.
#[derive(Clone, Debug)]
pub struct Kept {
    pub document: String,
    pub session: String,
    /// The session it grew out of.
    pub parent: Option<String>,
    pub user: String,
    /// The how-manieth of its session, and how many messages that had then.
    pub index: String,
    pub message_count: String,
    pub text: String,
}

/// What everybody gets instead of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Failing {
    HangingUp,
    With(u16),
}

/// Whose recalls wait.
#[derive(Default)]
enum Held {
    #[default]
    Nobodys,
    Everybodys,
    /// Requests that ask this.
    Of(String),
}

#[derive(Default)]
struct Records {
    kept: Mutex<Vec<Kept>>,
    /// The sessions of the calls that are open.
    open: Mutex<Vec<String>>,
    /// Calls that came while another one of their session was open.
    crossed: Mutex<Vec<String>>,
    asked: Mutex<Vec<String>>,
    held: Mutex<bool>,
    released: Condvar,
    recall_takes: Mutex<Duration>,
    recalls_held: Mutex<Held>,
    recalls_released: Condvar,
    failing: Mutex<Option<Failing>>,
    /// Whose turns are not taken now.
    busy_for: Mutex<Option<String>>,
}

impl Bank {
    pub fn start() -> Self {
        let books = Arc::new(Records::default());
        let keeping = books.clone();
        let address = wire::serve(move |request| {
            let failing = *keeping.failing.lock().unwrap();
            let (status, answer) = match failing {
                Some(Failing::HangingUp) => return None,
                Some(Failing::With(status)) => (status, json!({"detail": "not now"})),
                None => keeping.answer(request),
            };
            Some(Answer { status, kind: "application/json", content: answer.to_string() })
        });
        Self { address, books }
    }

    /// For `hindsight/config.json`.
    pub fn settings(&self, every: u64) -> String {
        let url = format!("http://{}", self.address);
        json!({"mode": "local_external", "api_url": url, "memory_mode": "context", "retain_every_n_turns": every,
               "timeout": 60})
        .to_string()
    }

    pub fn kept(&self) -> Vec<Kept> {
        self.books.kept.lock().unwrap().clone()
    }

    pub fn kept_of(&self, user: i64) -> Vec<Kept> {
        self.kept().into_iter().filter(|kept| kept.user == user.to_string()).collect()
    }

    /// How many turns are being handed over.
    pub fn open(&self) -> usize {
        self.books.open.lock().unwrap().len()
    }

    pub fn crossed(&self) -> Vec<String> {
        self.books.crossed.lock().unwrap().clone()
    }

    /// The queries of all recalls, in order.
    pub fn asked(&self) -> Vec<String> {
        self.books.asked.lock().unwrap().clone()
    }

    /// Turns that are handed over from now on wait …
    pub fn hold(&self) {
        *self.books.held.lock().unwrap() = true;
    }

    /// … until this.
    pub fn release(&self) {
        *self.books.held.lock().unwrap() = false;
        self.books.released.notify_all();
    }

    /// Requests from now on wait …
    pub fn hold_recalls(&self) {
        *self.books.recalls_held.lock().unwrap() = Held::Everybodys;
    }

    /// Only requests that ask this wait, …
    pub fn hold_recall_of(&self, query: &str) {
        *self.books.recalls_held.lock().unwrap() = Held::Of(query.to_owned());
    }

    /// … until this.
    pub fn release_recalls(&self) {
        *self.books.recalls_held.lock().unwrap() = Held::Nobodys;
        self.books.recalls_released.notify_all();
    }

    /// What belongs to this session is not taken: 503.
    pub fn is_busy_for(&self, session: Option<&str>) {
        *self.books.busy_for.lock().unwrap() = session.map(str::to_owned);
    }

    /// All requests from now on, until it is told to work again.
    pub fn fails(&self, how: Option<Failing>) {
        *self.books.failing.lock().unwrap() = how;
    }

    pub fn recall_takes(&self, time: Duration) {
        *self.books.recall_takes.lock().unwrap() = time;
    }
}

/// What is recalled says what it was asked by.
pub fn recalled(query: &str) -> String {
    format!("known about {query}")
}

impl Records {
    fn answer(&self, request: &Request) -> (u16, Value) {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        match request.line.as_str() {
            line if line.ends_with("/memories") => self.keep(&body),
            line if line.ends_with("/memories/recall") => {
                let query = body["query"].as_str().unwrap().to_owned();
                self.asked.lock().unwrap().push(query.clone());
                let time = *self.recall_takes.lock().unwrap();
                thread::sleep(time);
                let waits = |held: &mut Held| match held {
                    Held::Nobodys => false,
                    Held::Everybodys => true,
                    Held::Of(held) => *held == query,
                };
                drop(self.recalls_released.wait_while(self.recalls_held.lock().unwrap(), waits).unwrap());
                (200, json!({"results": [{"text": recalled(&query)}]}))
            }
            _ => (200, json!({})),
        }
    }

    fn keep(&self, body: &Value) -> (u16, Value) {
        let items = body["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "a turn is a document");
        let item = &items[0];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tags: Vec<String> = item["tags"].as_array().unwrap().iter().map(text).collect();
        let kept = Kept {
            document: text(&item["document_id"]),
            session: text(&item["metadata"]["session_id"]),
            parent: tags.iter().find_map(|tag| tag.strip_prefix("parent:")).map(str::to_owned),
            user: text(&item["metadata"]["user_id"]),
            index: text(&item["metadata"]["turn_index"]),
            message_count: text(&item["metadata"]["message_count"]),
            text: text(&item["content"]),
        };
        if self.busy_for.lock().unwrap().as_ref() == Some(&kept.session) {
            return (503, json!({"detail": "too much to do"}));
        }
        {
            let mut open = self.open.lock().unwrap();
            if open.contains(&kept.session) {
                self.crossed.lock().unwrap().push(kept.document.clone());
            }
            open.push(kept.session.clone());
        }
        drop(self.released.wait_while(self.held.lock().unwrap(), |held| *held).unwrap());
        let mut open = self.open.lock().unwrap();
        let place = open.iter().position(|session| *session == kept.session).unwrap();
        open.remove(place);
        self.kept.lock().unwrap().push(kept);
        (200, json!({"success": true, "async": false, "items_count": 1}))
    }
}
