//! Slack, as its documentation describes it: the Web API, and Socket Mode.
//!
//! An event is put into an envelope and handed to one open connection. Without a receipt it is handed
//! out again, in another envelope and perhaps over another connection, with `retry_attempt` counted
//! up, three times. What the app says is checked and remembered.
//!
//! Deliberately simplified: retries come after moments instead of minutes, and a held event waits for
//! a connection however long that takes.

mod api;
mod socket;

use api::{call, download, upload};
use axum::Router;
use axum::routing::{get, post};
use serde_json::{Value, json};
use socket::link;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

pub const BOT_TOKEN: &str = "xoxb-1111-2222-test";
pub const APP_TOKEN: &str = "xapp-1-A0TESTAPP01-3333-test";
pub const APP: &str = "A0TESTAPP01";
pub const BOT_USER: &str = "U0BOT";
pub const BOT: &str = "B0BOT";
pub const TEAM: &str = "T0TEAM";

/// After the first delivery.
const RETRIES_MAX: u32 = 3;
const TEXT_MAX: usize = 40_000;
const UPDATE_MAX: usize = 4000;

/// What a call gets instead of its answer.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing is done, and this is answered.
    Status { status: u16, retry_after: Option<u64>, body: String },
    /// Nothing is done: `{"ok": false, "error": …}`.
    Error(String),
    /// Nothing is done, and the connection is closed without an answer.
    CloseBefore,
    /// It is done, and the connection is closed without an answer.
    CloseAfter,
    /// It is done, and no answer ever comes.
    Silence,
    /// Nothing is done, and no answer ever comes.
    Hang,
}

impl Fault {
    pub fn limited(seconds: u64) -> Self {
        let body = json!({"ok": false, "error": "ratelimited"}).to_string();
        Self::Status { status: 429, retry_after: Some(seconds), body }
    }

    pub fn status(status: u16) -> Self {
        Self::Status { status, retry_after: None, body: "upstream connect error".to_owned() }
    }

    pub fn error(name: &str) -> Self {
        Self::Error(name.to_owned())
    }
}

/// A message, as the workspace shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub channel: String,
    pub ts: String,
    pub text: String,
    pub thread: Option<String>,
    pub blocks: Value,
    pub broadcast: bool,
    /// Names of the files it shows.
    pub files: Vec<String>,
    /// Only this person sees it.
    pub only_for: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub method: String,
    pub arguments: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Direct,
    Circle,
    Channel,
}

impl Kind {
    fn channel_type(self) -> &'static str {
        match self {
            Kind::Direct => "im",
            Kind::Circle => "mpim",
            Kind::Channel => "channel",
        }
    }
}

struct Channel {
    kind: Kind,
    /// What posting there is refused with.
    refusal: Option<String>,
}

struct Delivery {
    /// What the test knows it by.
    name: String,
    kind: &'static str,
    payload: Value,
    attempts: u32,
    sent_at: Option<Instant>,
    done: bool,
}

struct Connection {
    number: u64,
    frames: mpsc::UnboundedSender<SocketOrder>,
}

enum SocketOrder {
    Text(String),
    Close,
    /// Says and hears nothing from now on, and stays open.
    Freeze,
}

struct Upload {
    name: String,
    length: usize,
    bytes: Option<Vec<u8>>,
}

#[derive(Default)]
struct SlackState {
    /// In seconds since 1970: what is written is written now.
    began: u64,
    clock: u64,
    channels: BTreeMap<String, Channel>,
    users: BTreeMap<String, String>,
    messages: Vec<Sent>,
    /// What people wrote.
    said: Vec<Value>,
    calls: Vec<Call>,
    faults: BTreeMap<String, VecDeque<Fault>>,
    reactions: BTreeSet<(String, String, String)>,
    uploads: BTreeMap<String, Upload>,
    files: BTreeMap<String, Vec<u8>>,
    deliveries: Vec<Delivery>,
    /// Envelope to delivery.
    envelopes: BTreeMap<String, usize>,
    receipts: Vec<(String, Value)>,
    connections: Vec<Connection>,
    tickets: BTreeSet<String>,
    revoked: Option<String>,
    no_sockets: bool,
    crowd: u64,
    held: bool,
    /// Calls that were left without an answer.
    hung: usize,
    silent_hello: bool,
}

struct Shared {
    inner: Mutex<SlackState>,
    address: SocketAddr,
    changed: watch::Sender<u64>,
    patience: Duration,
}

/// A workspace on a free port. It ends with this handle.
pub struct SlackServer {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for SlackServer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl SlackServer {
    pub async fn start() -> Self {
        Self::start_with(Duration::from_millis(400)).await
    }

    /// With the time it waits for a receipt.
    pub async fn start_with(patience: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut inner = SlackState { began, ..SlackState::default() };
        for (id, kind) in
            [("D1", Kind::Direct), ("G1", Kind::Circle), ("C1", Kind::Channel), ("C2", Kind::Channel)]
        {
            inner.channels.insert(id.to_owned(), Channel { kind, refusal: None });
        }
        for (id, name) in [("U1", "ann"), ("U2", "bob")] {
            inner.users.insert(id.to_owned(), name.to_owned());
        }
        let shared =
            Arc::new(Shared { inner: Mutex::new(inner), address, changed: watch::channel(0).0, patience });
        let router = Router::new()
            .route("/api/{method}", post(call))
            .route("/upload/{file}", post(upload))
            .route("/files/{file}", get(download))
            .route("/link", get(link))
            .with_state(shared.clone());
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        let handing = tokio::spawn(hand_out(shared.clone()));
        Self { shared, tasks: vec![serving, handing] }
    }

    /// For the app's setting.
    pub fn base(&self) -> String {
        format!("http://{}/api", self.shared.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    fn inner(&self) -> MutexGuard<'_, SlackState> {
        self.shared.inner()
    }

    // ---------------------------------------------------------------------------- what people do

    /// A person writes. Returns the message's timestamp.
    pub fn say(&self, channel: &str, user: &str, text: &str) -> String {
        self.say_more(channel, user, text, json!({}))
    }

    pub fn say_in(&self, channel: &str, thread: &str, user: &str, text: &str) -> String {
        self.say_more(channel, user, text, json!({"thread_ts": thread}))
    }

    /// With more fields: files, a subtype, `parent_user_id` …
    pub fn say_more(&self, channel: &str, user: &str, text: &str, more: Value) -> String {
        let (ts, kind) = {
            let mut inner = self.inner();
            (inner.stamp(), inner.channels.get(channel).map_or(Kind::Channel, |channel| channel.kind))
        };
        let mut event = json!({
            "type": "message", "channel": channel, "channel_type": kind.channel_type(), "user": user,
            "text": text, "ts": ts, "event_ts": ts, "team": TEAM,
        });
        if let (Some(event), Some(more)) = (event.as_object_mut(), more.as_object()) {
            event.extend(more.clone());
        }
        self.inner().said.push(event.clone());
        self.happen(&ts, event);
        ts
    }

    /// An event of the Events API, as it is. `name` is what receipts show.
    pub fn happen(&self, name: &str, event: Value) {
        let payload = {
            let mut inner = self.inner();
            let stamp = inner.stamp();
            json!({
                "token": "unused", "team_id": TEAM, "api_app_id": APP, "event": event, "type": "event_callback",
                "event_id": format!("Ev{stamp}"), "event_time": 1,
            })
        };
        self.envelope(name, "events_api", payload);
    }

    pub fn command(&self, channel: &str, user: &str, command: &str, text: &str) -> String {
        let trigger = format!("trigger.{}", self.inner().stamp());
        let payload = json!({
            "command": command, "text": text, "channel_id": channel, "user_id": user, "user_name": "ann",
            "team_id": TEAM, "trigger_id": trigger, "response_url": format!("http://{}/respond", self.shared.address),
        });
        self.envelope(&trigger, "slash_commands", payload);
        trigger
    }

    /// A person presses a button of a message.
    pub fn press(&self, channel: &str, user: &str, message: &Sent, action: &str, value: &str) -> String {
        let name = format!("press.{}", self.inner().stamp());
        let payload = json!({
            "type": "block_actions", "user": {"id": user, "username": "ann"}, "team": {"id": TEAM},
            "channel": {"id": channel}, "message": {"ts": message.ts, "thread_ts": message.thread},
            "actions": [{"action_id": action, "value": value, "type": "button"}],
        });
        self.envelope(&name, "interactive", payload);
        name
    }

    pub fn envelope(&self, name: &str, kind: &'static str, payload: Value) {
        let delivery =
            Delivery { name: name.to_owned(), kind, payload, attempts: 0, sent_at: None, done: false };
        self.inner().deliveries.push(delivery);
        self.shared.change();
    }

    /// Everything that was ever delivered, once more.
    pub fn deliver_all_again(&self) {
        for delivery in &mut self.inner().deliveries {
            (delivery.done, delivery.sent_at, delivery.attempts) = (false, None, 0);
        }
        self.shared.change();
    }

    /// What was delivered under this name, once more.
    pub fn deliver_again(&self, name: &str) {
        for delivery in self.inner().deliveries.iter_mut().filter(|delivery| delivery.name == name) {
            (delivery.done, delivery.sent_at, delivery.attempts) = (false, None, 0);
        }
        self.shared.change();
    }

    /// Nothing is handed out until it is released, in order or the last first.
    pub fn hold(&self) {
        self.inner().held = true;
    }

    pub fn release(&self) {
        self.inner().held = false;
        self.shared.change();
    }

    pub fn release_backwards(&self) {
        let mut inner = self.inner();
        inner.held = false;
        inner.deliveries.reverse();
        inner.envelopes.clear();
        drop(inner);
        self.shared.change();
    }

    // ------------------------------------------------------------------------------ what is seen

    pub fn sent(&self) -> Vec<Sent> {
        self.inner().messages.clone()
    }

    pub fn calls(&self, method: &str) -> Vec<Value> {
        let inner = self.inner();
        inner.calls.iter().filter(|call| call.method == method).map(|call| call.arguments.clone()).collect()
    }

    /// What was acknowledged, by name, with the receipt; once for each receipt.
    pub fn receipts(&self) -> Vec<(String, Value)> {
        self.inner().receipts.clone()
    }

    pub fn is_acknowledged(&self, name: &str) -> bool {
        self.inner().receipts.iter().any(|(acknowledged, _)| acknowledged == name)
    }

    /// What the bot has not acknowledged.
    pub fn undelivered(&self) -> usize {
        self.inner().deliveries.iter().filter(|delivery| !delivery.done).count()
    }

    /// How often something was handed out.
    pub fn attempts(&self, name: &str) -> u32 {
        self.inner()
            .deliveries
            .iter()
            .find(|delivery| delivery.name == name)
            .map_or(0, |delivery| delivery.attempts)
    }

    pub fn connections(&self) -> usize {
        self.inner().connections.len()
    }

    pub fn reactions(&self) -> Vec<(String, String, String)> {
        self.inner().reactions.iter().cloned().collect()
    }

    /// What was uploaded under a name.
    pub fn uploaded(&self, name: &str) -> Option<Vec<u8>> {
        self.inner()
            .uploads
            .values()
            .filter(|upload| upload.name == name)
            .find_map(|upload| upload.bytes.clone())
    }

    /// Waits until `condition` holds, and says whether it did within ten seconds.
    pub async fn wait(&self, condition: impl Fn(&Self) -> bool) -> bool {
        let mut changed = self.shared.changed.subscribe();
        let holds = async {
            while !condition(self) {
                // What is asked may depend on more than we know of.
                let _ = timeout(Duration::from_millis(50), changed.changed()).await;
            }
        };
        timeout(Duration::from_secs(10), holds).await.is_ok()
    }

    pub async fn wait_connected(&self) -> bool {
        self.wait(|server| server.connections() > 0).await
    }

    // -------------------------------------------------------------------------- what goes wrong

    /// The next call of a method fails so. Several are used up in order.
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.inner().faults.entry(method.to_owned()).or_default().push_back(fault);
    }

    /// Nothing is to fail any more.
    pub fn heal(&self) {
        self.inner().faults.clear();
    }

    /// How many calls were left without an answer so far.
    pub fn hung(&self) -> usize {
        self.inner().hung
    }

    /// Every call is refused by this name from now on; `None` ends it.
    pub fn refuse_all(&self, error: Option<&str>) {
        self.inner().revoked = error.map(str::to_owned);
    }

    /// Posting to a channel is refused by this name.
    pub fn refuse(&self, channel: &str, error: &str) {
        if let Some(channel) = self.inner().channels.get_mut(channel) {
            channel.refusal = Some(error.to_owned());
        }
    }

    pub fn delete_channel(&self, channel: &str) {
        self.inner().channels.remove(channel);
    }

    pub fn add_file(&self, id: &str, bytes: &[u8]) -> String {
        self.inner().files.insert(id.to_owned(), bytes.to_vec());
        format!("http://{}/files/{id}", self.shared.address)
    }

    /// A frame of any kind, over every open connection.
    pub fn frame(&self, text: &str) {
        for connection in &self.inner().connections {
            let _ = connection.frames.send(SocketOrder::Text(text.to_owned()));
        }
    }

    /// Slack announces that it will hang up: `warning`, `refresh_requested`, `link_disabled` …
    pub fn disconnect(&self, reason: &str) {
        self.frame(
            &json!({"type": "disconnect", "reason": reason, "debug_info": {"host": "test"}}).to_string(),
        );
    }

    /// Hangs up at once, without a word.
    pub fn cut(&self) {
        for connection in self.inner().connections.drain(..) {
            let _ = connection.frames.send(SocketOrder::Close);
        }
    }

    /// Open connections go silent and stay open.
    pub fn freeze(&self) {
        for connection in self.inner().connections.drain(..) {
            let _ = connection.frames.send(SocketOrder::Freeze);
        }
    }

    pub fn refuse_sockets(&self, refuse: bool) {
        self.inner().no_sockets = refuse;
    }

    /// So many connections of others are counted beside ours.
    pub fn crowd(&self, others: u64) {
        self.inner().crowd = others;
    }
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, SlackState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

impl SlackState {
    /// Slack's timestamps name messages: strictly rising.
    fn stamp(&mut self) -> String {
        self.clock += 1;
        format!("{}.{:06}", self.began, self.clock)
    }

    /// Puts what is due into envelopes. Order is that of arrival.
    fn hand_out(&mut self, patience: Duration) {
        let now = Instant::now();
        let Some(connection) = self.connections.last().map(|connection| connection.frames.clone()) else {
            return;
        };
        if self.held {
            return;
        }
        let clock = self.clock;
        for (index, delivery) in self.deliveries.iter_mut().enumerate() {
            let is_due = delivery.sent_at.is_none_or(|sent| now.duration_since(sent) >= patience);
            if delivery.done || !is_due || delivery.attempts > RETRIES_MAX {
                continue;
            }
            let id = format!("envelope-{index}-{}-{clock}", delivery.attempts);
            let mut envelope = json!({
                "envelope_id": id, "type": delivery.kind, "payload": delivery.payload,
                "accepts_response_payload": delivery.kind != "events_api",
            });
            if delivery.kind == "events_api" {
                envelope["retry_attempt"] = json!(delivery.attempts);
                envelope["retry_reason"] = json!(if delivery.attempts == 0 { "" } else { "timeout" });
            }
            if connection.send(SocketOrder::Text(envelope.to_string())).is_err() {
                return;
            }
            self.envelopes.insert(id, index);
            delivery.attempts += 1;
            delivery.sent_at = Some(now);
            // Only events are delivered again; a person is told about the rest.
            if delivery.kind != "events_api" {
                delivery.attempts = RETRIES_MAX + 1;
            }
        }
    }

    fn receive(&mut self, frame: &str) {
        let Ok(receipt) = serde_json::from_str::<Value>(frame) else { return };
        let id = receipt["envelope_id"].as_str().unwrap_or_default();
        if let Some(delivery) = self.envelopes.get(id).and_then(|index| self.deliveries.get_mut(*index)) {
            delivery.done = true;
            let name = delivery.name.clone();
            self.receipts.push((name, receipt));
        }
    }
}

async fn hand_out(shared: Arc<Shared>) {
    let mut changed = shared.changed.subscribe();
    loop {
        shared.inner().hand_out(shared.patience);
        let _ = timeout(shared.patience / 4, changed.changed()).await;
    }
}
