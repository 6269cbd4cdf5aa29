//! A Bot API on loopback, written from the public documentation of Telegram's.
//!
//! It keeps updates until they are acknowledged by an offset (or a 200 of a webhook), ends a poller when
//! a second one comes, checks what it is sent as Telegram does (length after formatting, entities,
//! threads, answered messages, buttons), remembers everything, and fails on request.
//!
//! It runs on a thread of its own, so that a test may block, and so that a gateway in another process
//! can talk to it.

mod http_connection;

use bytes::BytesMut;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// The token of the bot that is there from the start.
pub const TOKEN: &str = "4242:AAlocalTestTokenThatOpensNothing00000";
/// Its name.
pub const USERNAME: &str = "local_test_bot";
const TEXT_UNITS_MAX: usize = 4096;
const CAPTION_UNITS_MAX: usize = 1024;
const DATA_BYTES_MAX: usize = 64;
/// Some of those that the real one takes; a check mark and a cross are not among them.
const REACTIONS: [&str; 6] = ["👀", "👍", "👎", "❤", "🔥", "🎉"];
const DOWNLOAD_BYTES_MAX: usize = 20 << 20;
/// Between two calls of a webhook that did not take an update.
const CALL_AGAIN: Duration = Duration::from_millis(100);

/// How a request is to fail. Each counts for one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// An answer instead of the work.
    Answer { status: u16, body: String },
    /// Words that are none of Telegram's, instead of the work.
    Garbage,
    /// Hangs up instead of doing the work.
    CloseBefore,
    /// Does the work and hangs up.
    CloseAfter,
    /// Takes the request, does nothing, and says nothing more: a half-open connection.
    Silence,
    /// Does the work and never says so.
    SilenceAfter,
    /// Does the work late.
    Delay(Duration),
}

impl Fault {
    /// A refusal in Telegram's form.
    pub fn refusal(code: u16, description: &str) -> Self {
        let body = json!({"ok": false, "error_code": code, "description": description});
        Fault::Answer { status: code, body: body.to_string() }
    }

    pub fn flood(seconds: u64) -> Self {
        let body = json!({
            "ok": false, "error_code": 429, "description": format!("Too Many Requests: retry after {seconds}"),
            "parameters": {"retry_after": seconds},
        });
        Fault::Answer { status: 429, body: body.to_string() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: i64,
    pub first_name: String,
    pub is_bot: bool,
}

impl User {
    pub fn new(id: i64, first_name: &str) -> Self {
        Self { id, first_name: first_name.to_owned(), is_bot: false }
    }

    fn json(&self) -> Value {
        json!({"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name})
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chat {
    pub id: i64,
    /// `private`, `group`, `supergroup` or `channel`.
    pub kind: &'static str,
    pub title: String,
    pub is_forum: bool,
}

impl Chat {
    pub fn private(id: i64, name: &str) -> Self {
        Self { id, kind: "private", title: name.to_owned(), is_forum: false }
    }

    pub fn group(id: i64, title: &str) -> Self {
        Self { id, kind: "group", title: title.to_owned(), is_forum: false }
    }

    pub fn forum(id: i64, title: &str) -> Self {
        Self { id, kind: "supergroup", title: title.to_owned(), is_forum: true }
    }

    pub fn channel(id: i64, title: &str) -> Self {
        Self { id, kind: "channel", title: title.to_owned(), is_forum: false }
    }

    fn json(&self) -> Value {
        let mut chat = json!({"id": self.id, "type": self.kind});
        match self.kind {
            "private" => chat["first_name"] = json!(self.title),
            _ => chat["title"] = json!(self.title),
        }
        if self.is_forum {
            chat["is_forum"] = json!(true);
        }
        chat
    }
}

/// One message that a bot sent, as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub bot: String,
    pub method: String,
    pub chat: i64,
    pub id: i64,
    /// What people see: without markup.
    pub text: String,
    pub thread: Option<i64>,
    pub reply_to: Option<i64>,
    pub file: Option<(String, Vec<u8>)>,
    pub edits: usize,
    pub deleted: bool,
    /// The parameters of the request, and of the last edit.
    pub parameters: Value,
}

impl Sent {
    /// Labels and data of its buttons.
    pub fn buttons(&self) -> Vec<(String, String)> {
        let rows = self.parameters["reply_markup"]["inline_keyboard"].as_array().cloned().unwrap_or_default();
        let buttons = rows.iter().flat_map(|row| row.as_array().cloned().unwrap_or_default());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        buttons.map(|button| (text(&button["text"]), text(&button["callback_data"]))).collect()
    }
}

/// One request, with any outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub bot: String,
    pub method: String,
    pub parameters: Value,
    pub at: Instant,
}

/// A Bot API. It ends with this handle.
pub struct TelegramServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// False: gone. Dropped: over.
    open: watch::Sender<bool>,
}

struct Shared {
    state: Mutex<TelegramState>,
    /// Something has changed for a poll that waits.
    stirred: Notify,
}

#[derive(Default)]
struct TelegramState {
    bots: BTreeMap<String, Bot>,
    chats: HashMap<i64, ChatState>,
    sent: Vec<Sent>,
    calls: Vec<Call>,
    faults: HashMap<String, VecDeque<Fault>>,
    files: HashMap<String, Vec<u8>>,
    /// Where files lie that a server in local mode hands out by their path.
    local: HashMap<String, String>,
    presses: u64,
    /// Requests that wait for an answer that never comes, ever.
    hung: usize,
    /// Nothing is given out.
    held: bool,
    /// Requests for news that are open.
    polls: usize,
    /// Chat and number of messages that were acknowledged.
    acknowledged: BTreeSet<(i64, i64)>,
}

#[derive(Default)]
struct Bot {
    username: String,
    revoked: bool,
    updates: VecDeque<(i64, Value)>,
    last_update: i64,
    /// The newest poller; older ones are sent away.
    poller: u64,
    webhook: Option<Webhook>,
    commands: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Webhook {
    url: String,
    secret: String,
}

struct ChatState {
    chat: Chat,
    last_message: i64,
    messages: HashMap<i64, Value>,
    threads: BTreeSet<i64>,
    /// Why the bot may not write there.
    closed: Option<(u16, String)>,
    moved_to: Option<i64>,
}

/// What a method gives, or code, description and parameters of a refusal.
type Outcome = Result<Value, (u16, String, Value)>;

fn refused<T>(code: u16, description: &str) -> Result<T, (u16, String, Value)> {
    Err((code, description.to_owned(), Value::Null))
}

impl TelegramServer {
    pub async fn start() -> Self {
        Self::start_now()
    }

    /// For tests without a runtime.
    pub fn start_now() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared { state: Mutex::default(), stirred: Notify::new() });
        let (open, door) = watch::channel(true);
        let serving = shared.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be built").block_on(serve(listener, serving, door));
        });
        let server = Self { address, shared, open };
        server.add_bot(TOKEN, USERNAME);
        server
    }

    /// What takes the place of `https://api.telegram.org`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn add_bot(&self, token: &str, username: &str) {
        let bot = Bot { username: username.to_owned(), last_update: 1000, ..Bot::default() };
        self.state().bots.insert(token.to_owned(), bot);
    }

    /// From now on the server does not know this token.
    pub fn revoke(&self, token: &str) {
        self.state().bots.get_mut(token).expect("the bot exists").revoked = true;
        self.shared.stirred.notify_waiters();
    }

    pub fn add_chat(&self, chat: &Chat) {
        self.state().known(chat);
    }

    /// A topic of a forum. Returns its number.
    pub fn add_topic(&self, chat: &Chat) -> i64 {
        let mut state = self.state();
        let known = state.known(chat);
        known.last_message += 1;
        known.threads.insert(known.last_message);
        known.last_message
    }

    pub fn remove_topic(&self, chat: &Chat, thread: i64) {
        self.state().known(chat).threads.remove(&thread);
    }

    /// The bot may not write there any more: `403`, `Forbidden: bot was blocked by the user`, say.
    pub fn close_chat(&self, chat: &Chat, code: u16, description: &str) {
        self.state().known(chat).closed = Some((code, description.to_owned()));
    }

    /// The bot may write there again.
    pub fn open_chat(&self, chat: &Chat) {
        self.state().known(chat).closed = None;
    }

    /// The group becomes a supergroup.
    pub fn move_chat(&self, from: &Chat, to: &Chat) {
        let mut state = self.state();
        state.known(to);
        state.known(from).moved_to = Some(to.id);
    }

    /// A person writes. Commands and mentions are marked as Telegram marks them.
    pub fn say(&self, chat: &Chat, user: &User, text: &str) -> i64 {
        self.write(chat, user, json!({"text": text}))
    }

    /// A person writes something with these fields of a message.
    pub fn write(&self, chat: &Chat, user: &User, fields: Value) -> i64 {
        let (id, message) = self.compose(chat, user, fields);
        let kind = if chat.kind == "channel" { "channel_post" } else { "message" };
        self.push(json!({kind: message}));
        id
    }

    /// A person changes a message.
    pub fn rewrite(&self, chat: &Chat, id: i64, text: &str) {
        let mut state = self.state();
        let message = state.known(chat).messages.get_mut(&id).expect("the message exists");
        message["text"] = json!(text);
        message["edit_date"] = json!(now());
        let message = message.clone();
        drop(state);
        self.push(json!({"edited_message": message}));
    }

    /// A person presses a button.
    pub fn press(&self, sent: &Sent, user: &User, data: &str) -> String {
        let mut state = self.state();
        state.presses += 1;
        let id = state.presses.to_string();
        let message = state.chats.get(&sent.chat).and_then(|known| known.messages.get(&sent.id)).cloned();
        let query = json!({
            "id": id, "from": user.json(), "chat_instance": "1", "data": data,
            "message": message.expect("the message exists"),
        });
        drop(state);
        self.push(json!({"callback_query": query}));
        id
    }

    /// An update for every bot, as it is but for its number.
    pub fn push(&self, update: Value) {
        let mut state = self.state();
        for bot in state.bots.values_mut() {
            bot.push(update.clone());
        }
        drop(state);
        self.shared.stirred.notify_waiters();
    }

    /// The same update, number and all, once more for every bot.
    pub fn repeat(&self, number: i64, update: Value) {
        for bot in self.state().bots.values_mut() {
            let mut update = update.clone();
            update["update_id"] = json!(number);
            bot.updates.push_front((number, update));
        }
        self.shared.stirred.notify_waiters();
    }

    /// Tells of a message once more, under another number.
    pub fn tell_again(&self, chat: i64, message: i64) {
        let known = self.state().chats.get(&chat).and_then(|known| known.messages.get(&message)).cloned();
        self.push(json!({"message": known.expect("the message exists")}));
    }

    /// Nothing is given out until it is released.
    pub fn hold(&self) {
        self.state().held = true;
    }

    pub fn release(&self) {
        self.state().held = false;
        self.shared.stirred.notify_waiters();
    }

    /// A file that a person has sent. Returns its id.
    pub fn add_file(&self, content: Vec<u8>) -> String {
        let mut state = self.state();
        let id = format!("file{}", state.files.len() + 1);
        state.files.insert(id.clone(), content);
        id
    }

    /// A file that a server in local mode says lies at this path. Returns its id.
    pub fn add_local_file(&self, path: &str) -> String {
        let id = self.add_file(b"over the network".to_vec());
        self.state().local.insert(id.clone(), path.to_owned());
        id
    }

    /// What the bots have sent, in order.
    pub fn sent(&self) -> Vec<Sent> {
        self.state().sent.clone()
    }

    pub fn calls(&self, method: &str) -> Vec<Call> {
        self.state().calls.iter().filter(|call| call.method == method).cloned().collect()
    }

    /// Updates that no bot has acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.state().bots.values().map(|bot| bot.updates.len()).sum()
    }

    /// Whether a message was given out and acknowledged.
    pub fn is_acknowledged(&self, chat: i64, message: i64) -> bool {
        self.state().acknowledged.contains(&(chat, message))
    }

    /// Whether a bot waits for news.
    pub fn is_polled(&self) -> bool {
        self.state().polls > 0
    }

    /// Requests that were met with silence, ever.
    pub fn hung(&self) -> usize {
        self.state().hung
    }

    pub fn commands(&self, token: &str) -> Value {
        self.state().bots.get(token).expect("the bot exists").commands.clone()
    }

    /// The next request for this method fails; several calls, several requests.
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.state().faults.entry(method.to_owned()).or_default().push_back(fault);
    }

    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Hangs up and listens no more, until [`TelegramServer::come_back`].
    pub fn go_away(&self) {
        let _ = self.open.send(false);
    }

    pub fn come_back(&self) {
        let _ = self.open.send(true);
    }

    /// Waits until this holds; panics after a while. Blocks: for tests whose gateway is another process.
    pub fn until(&self, patience: Duration, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + patience;
        while !holds(self) {
            assert!(Instant::now() < deadline, "waited in vain for {what}; sent: {:?}", self.sent());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn compose(&self, chat: &Chat, user: &User, fields: Value) -> (i64, Value) {
        let mut state = self.state();
        let known = state.known(chat);
        known.last_message += 1;
        let id = known.last_message;
        let mut message = json!({"message_id": id, "date": now(), "chat": chat.json()});
        match chat.kind {
            "channel" => message["sender_chat"] = chat.json(),
            _ => message["from"] = user.json(),
        }
        for (name, value) in fields.as_object().cloned().unwrap_or_default() {
            message[name] = value;
        }
        for (text, entities) in [("text", "entities"), ("caption", "caption_entities")] {
            if let (Some(text), None) = (message[text].as_str(), message.get(entities)) {
                let found = entities_of(text);
                if !found.is_empty() {
                    message[entities] = Value::Array(found);
                }
            }
        }
        if let Some(answered) = message["reply_to_message"].as_i64() {
            message["reply_to_message"] = known.messages.get(&answered).cloned().unwrap_or(Value::Null);
        }
        known.messages.insert(id, message.clone());
        (id, message)
    }

    fn state(&self) -> MutexGuard<'_, TelegramState> {
        self.shared.state()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, TelegramState> {
        self.state.lock().expect("nothing panics while it holds the state")
    }
}

impl Bot {
    fn push(&mut self, mut update: Value) {
        self.last_update += 1;
        update["update_id"] = json!(self.last_update);
        self.updates.push_back((self.last_update, update));
    }
}

impl TelegramState {
    fn known(&mut self, chat: &Chat) -> &mut ChatState {
        let known = self.chats.entry(chat.id).or_insert_with(|| ChatState {
            chat: chat.clone(),
            last_message: i64::from(chat.is_forum), // a forum's first is its General topic
            messages: HashMap::new(),
            threads: BTreeSet::new(),
            closed: None,
            moved_to: None,
        });
        known.chat = chat.clone();
        known
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Commands and mentions.
fn entities_of(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut offset = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end().trim_end_matches([',', ':', '.', '!', '?']);
        let kind = match bare.chars().next() {
            Some('/') if bare.len() > 1 => Some("bot_command"),
            Some('@') if bare.len() > 1 => Some("mention"),
            _ => None,
        };
        if let Some(kind) = kind {
            found.push(json!({"type": kind, "offset": offset, "length": units(bare)}));
        }
        offset += units(word);
    }
    found
}

// -------------------------------------------------------------------------------------- connections

async fn serve(first: std::net::TcpListener, shared: Arc<Shared>, mut door: watch::Receiver<bool>) {
    let address = first.local_addr().expect("a listener has an address");
    first.set_nonblocking(true).expect("a socket can be set to non-blocking");
    let mut listener = Some(TcpListener::from_std(first).expect("a socket can be listened on"));
    loop {
        let is_open = *door.borrow_and_update();
        if !is_open {
            listener = None;
        } else if listener.is_none() {
            listener = TcpListener::bind(address).await.ok();
        }
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await.ok(),
                None if is_open => {
                    tokio::time::sleep(Duration::from_millis(20)).await; // the port is still being freed
                    None
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = door.changed() => if changed.is_err() { return },
            accepted = accepted => if let Some((stream, _)) = accepted {
                let (shared, mut door) = (shared.clone(), door.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = converse(stream, shared) => {}
                        _ = door.wait_for(|open| !open) => {}
                    }
                });
            },
        }
    }
}

async fn converse(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut held = BytesMut::new();
    let _ = stream.set_nodelay(true);
    while let Ok(Some(request)) = http_connection::receive(&mut stream, &mut held).await {
        if !respond(&mut stream, &request, &shared).await {
            return;
        }
    }
}

/// False: the connection is to be closed.
async fn respond(stream: &mut TcpStream, request: &http_connection::Request, shared: &Arc<Shared>) -> bool {
    if let Some(rest) = request.path.strip_prefix("/file/bot") {
        let (token, path) = rest.split_once('/').unwrap_or_default();
        let content = {
            let state = shared.state();
            let known = state.bots.get(token).is_some_and(|bot| !bot.revoked);
            known.then(|| state.files.get(path.trim_start_matches("files/")).cloned()).flatten()
        };
        return match content {
            Some(content) => {
                http_connection::answer(stream, 200, "application/octet-stream", &content).await.is_ok()
            }
            None => http_connection::answer(
                stream,
                404,
                "application/json",
                b"{\"ok\":false,\"error_code\":404,\"description\":\"Not Found\"}",
            )
            .await
            .is_ok(),
        };
    }
    let rest = request.path.strip_prefix("/bot").unwrap_or_default();
    let (token, method) = rest.split_once('/').unwrap_or_default();
    let (parameters, file) = parameters(request);
    let fault = {
        let mut state = shared.state();
        let call = Call {
            bot: token.to_owned(),
            method: method.to_owned(),
            parameters: parameters.clone(),
            at: Instant::now(),
        };
        state.calls.push(call);
        state.faults.get_mut(method).and_then(VecDeque::pop_front)
    };
    let work = work(shared, token, method, parameters, file);
    let mut ahead = [0];
    let outcome = match fault {
        Some(Fault::Answer { status, body }) => {
            return http_connection::answer(stream, status, "application/json", body.as_bytes())
                .await
                .is_ok();
        }
        Some(Fault::Garbage) => {
            return http_connection::answer(
                stream,
                200,
                "text/html",
                b"<html>Sign in to the wireless network</html>",
            )
            .await
            .is_ok();
        }
        Some(Fault::CloseBefore) => return false,
        Some(Fault::CloseAfter) => {
            let _ = work.await;
            return false;
        }
        Some(Fault::Silence) => return hang(shared).await,
        Some(Fault::SilenceAfter) => {
            let _ = work.await;
            return hang(shared).await;
        }
        Some(Fault::Delay(delay)) => {
            tokio::time::sleep(delay).await;
            work.await
        }
        // A bot that hangs up while it waits is gone, and does not poll any more.
        None => tokio::select! {
            biased;
            outcome = work => outcome,
            _ = stream.peek(&mut ahead) => return false,
        },
    };
    let (status, body) = match outcome {
        Ok(result) => (200, json!({"ok": true, "result": result})),
        Err((code, description, parameters)) => {
            let mut body = json!({"ok": false, "error_code": code, "description": description});
            if !parameters.is_null() {
                body["parameters"] = parameters;
            }
            (code, body)
        }
    };
    http_connection::answer(stream, status, "application/json", body.to_string().as_bytes()).await.is_ok()
}

async fn hang(shared: &Shared) -> bool {
    shared.state().hung += 1;
    std::future::pending().await
}

/// From JSON or from a form, where numbers and objects come as text.
fn parameters(request: &http_connection::Request) -> (Value, Option<(String, Vec<u8>)>) {
    let kind = request.header("content-type");
    if !kind.starts_with("multipart/form-data") {
        return (serde_json::from_slice(&request.body).unwrap_or_else(|_| json!({})), None);
    }
    let mut fields = Map::new();
    let mut file = None;
    for field in http_connection::form(kind, &request.body) {
        match field.file {
            Some(name) => {
                fields.insert(field.name, json!(format!("attach://{name}")));
                file = Some((name, field.content));
            }
            None => {
                let text = String::from_utf8_lossy(&field.content).into_owned();
                let is_structured =
                    matches!(field.name.as_str(), "chat_id" | "message_thread_id" | "reply_parameters");
                let value = is_structured.then(|| serde_json::from_str(&text).ok()).flatten();
                fields.insert(field.name, value.unwrap_or(Value::String(text)));
            }
        }
    }
    (Value::Object(fields), file)
}

// ------------------------------------------------------------------------------------------ methods

async fn work(
    shared: &Arc<Shared>,
    token: &str,
    method: &str,
    parameters: Value,
    file: Option<(String, Vec<u8>)>,
) -> Outcome {
    check_token(&shared.state(), token)?;
    match method {
        "getUpdates" => get_updates(shared, token, &parameters).await,
        "setWebhook" => set_webhook(shared, token, &parameters),
        _ => {
            let mut state = shared.state();
            let outcome = state.method(token, method, parameters, file);
            drop(state);
            shared.stirred.notify_waiters();
            outcome
        }
    }
}

fn check_token(state: &TelegramState, token: &str) -> Result<(), (u16, String, Value)> {
    match state.bots.get(token) {
        Some(bot) if !bot.revoked => Ok(()),
        Some(_) => refused(401, "Unauthorized"),
        None if token.contains(':') => refused(401, "Unauthorized"),
        None => refused(404, "Not Found"),
    }
}

async fn get_updates(shared: &Arc<Shared>, token: &str, parameters: &Value) -> Outcome {
    let offset = parameters["offset"].as_i64();
    let limit = parameters["limit"].as_u64().unwrap_or(100).clamp(1, 100) as usize;
    let patience = Duration::from_secs(parameters["timeout"].as_u64().unwrap_or(0));
    let wanted: Option<Vec<String>> = parameters["allowed_updates"]
        .as_array()
        .map(|kinds| kinds.iter().filter_map(|kind| kind.as_str().map(str::to_owned)).collect());
    let deadline = tokio::time::Instant::now() + patience;
    let mine = {
        let mut state = shared.state();
        let bot = state.bots.get_mut(token).expect("the token was checked");
        if bot.webhook.is_some() {
            return refused(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
            );
        }
        bot.poller += 1;
        let mut acknowledged = Vec::new();
        if let Some(offset) = offset {
            let known = bot.updates.iter().filter(|(number, _)| *number < offset);
            acknowledged.extend(known.filter_map(|(_, update)| told_of(update)));
            bot.updates.retain(|(number, _)| *number >= offset);
        }
        // Kinds that the bot did not ask for are never kept.
        bot.updates.retain(|(_, update)| is_wanted(update, wanted.as_deref()));
        let poller = bot.poller;
        state.acknowledged.extend(acknowledged);
        poller
    };
    shared.stirred.notify_waiters();
    let _poll = Poll::begin(shared);
    loop {
        let stirred = shared.stirred.notified();
        tokio::pin!(stirred);
        stirred.as_mut().enable();
        {
            let state = shared.state();
            check_token(&state, token)?;
            let bot = state.bots.get(token).expect("the token was checked");
            if bot.poller != mine {
                return refused(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
                );
            }
            let batch: Vec<Value> = bot
                .updates
                .iter()
                .filter(|(_, update)| !state.held && is_wanted(update, wanted.as_deref()))
                .map(|(_, update)| update.clone())
                .take(limit)
                .collect();
            if !batch.is_empty() || tokio::time::Instant::now() >= deadline {
                return Ok(Value::Array(batch));
            }
        }
        let _ = tokio::time::timeout_at(deadline, stirred).await;
    }
}

/// Chat and number of the message in an update.
fn told_of(update: &Value) -> Option<(i64, i64)> {
    let message = &update["message"];
    Some((message["chat"]["id"].as_i64()?, message["message_id"].as_i64()?))
}

/// A request for news, while it is open.
struct Poll<'a>(&'a Shared);

impl<'a> Poll<'a> {
    fn begin(shared: &'a Shared) -> Self {
        shared.state().polls += 1;
        Self(shared)
    }
}

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        self.0.state().polls -= 1;
    }
}

/// Kinds that no documentation knows are always given out: they are there to be stumbled over.
fn is_wanted(update: &Value, wanted: Option<&[String]>) -> bool {
    const OPTIONAL: [&str; 8] = [
        "message",
        "edited_message",
        "channel_post",
        "edited_channel_post",
        "callback_query",
        "message_reaction",
        "poll",
        "my_chat_member",
    ];
    let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else { return true };
    let kind =
        update.as_object().and_then(|fields| fields.keys().find(|name| OPTIONAL.contains(&name.as_str())));
    kind.is_none_or(|kind| wanted.contains(kind))
}

fn set_webhook(shared: &Arc<Shared>, token: &str, parameters: &Value) -> Outcome {
    let url = parameters["url"].as_str().unwrap_or_default().to_owned();
    let secret = parameters["secret_token"].as_str().unwrap_or_default().to_owned();
    if !url.starts_with("http") {
        return refused(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook");
    }
    let webhook = Webhook { url, secret };
    shared.state().bots.get_mut(token).expect("the token was checked").webhook = Some(webhook.clone());
    tokio::spawn(call_webhook(shared.clone(), token.to_owned(), webhook));
    Ok(json!(true))
}

/// One update after another, each until it is taken.
async fn call_webhook(shared: Arc<Shared>, token: String, webhook: Webhook) {
    loop {
        let stirred = shared.stirred.notified();
        tokio::pin!(stirred);
        stirred.as_mut().enable();
        let next = {
            let state = shared.state();
            let Some(bot) = state.bots.get(&token).filter(|bot| bot.webhook.as_ref() == Some(&webhook))
            else {
                return;
            };
            bot.updates.front().cloned()
        };
        let Some((number, update)) = next else {
            stirred.await;
            continue;
        };
        let header = ("x-telegram-bot-api-secret-token", webhook.secret.as_str());
        match http_connection::post(&webhook.url, header, update.to_string().as_bytes()).await {
            Ok(200) => {
                let mut state = shared.state();
                if let Some(bot) = state.bots.get_mut(&token) {
                    bot.updates.retain(|(known, _)| *known != number);
                }
            }
            _ => tokio::time::sleep(CALL_AGAIN).await,
        }
    }
}

impl TelegramState {
    fn method(
        &mut self,
        token: &str,
        method: &str,
        parameters: Value,
        file: Option<(String, Vec<u8>)>,
    ) -> Outcome {
        match method {
            "getMe" => {
                let username = &self.bots[token].username;
                let id: i64 = token.split(':').next().and_then(|id| id.parse().ok()).unwrap_or(0);
                Ok(json!({"id": id, "is_bot": true, "first_name": username, "username": username}))
            }
            "deleteWebhook" => {
                self.bots.get_mut(token).expect("the token was checked").webhook = None;
                Ok(json!(true))
            }
            "sendMessage" => self.send(token, method, parameters, None),
            "sendPhoto" | "sendDocument" | "sendVoice" | "sendVideo" | "sendAudio" | "sendAnimation" => {
                match file {
                    Some((_, content)) if content.is_empty() => {
                        refused(400, "Bad Request: file must be non-empty")
                    }
                    Some(file) => self.send(token, method, parameters, Some(file)),
                    None => refused(400, "Bad Request: there is no file in the request"),
                }
            }
            "editMessageText" => self.edit(&parameters),
            "deleteMessage" => self.delete(&parameters),
            "sendChatAction" => {
                chat(&mut self.chats, &parameters)?;
                Ok(json!(true))
            }
            "setMessageReaction" => {
                let id = parameters["message_id"].as_i64().unwrap_or_default();
                let signs = parameters["reaction"].as_array().cloned().unwrap_or_default();
                let is_known =
                    |sign: &Value| sign["emoji"].as_str().is_some_and(|sign| REACTIONS.contains(&sign));
                match chat(&mut self.chats, &parameters)?.messages.contains_key(&id) {
                    true if !signs.iter().all(is_known) => refused(400, "Bad Request: REACTION_INVALID"),
                    true => Ok(json!(true)),
                    false => refused(400, "Bad Request: message to react not found"),
                }
            }
            "answerCallbackQuery" => Ok(json!(true)),
            "setMyCommands" => {
                let commands = parameters["commands"].as_array().cloned().unwrap_or_default();
                let is_command = |name: &str| {
                    (1..=32).contains(&name.len())
                        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
                };
                let valid =
                    commands.iter().all(|command| command["command"].as_str().is_some_and(is_command));
                if !valid || commands.len() > 100 {
                    return refused(400, "Bad Request: BOT_COMMAND_INVALID");
                }
                self.bots.get_mut(token).expect("the token was checked").commands = Value::Array(commands);
                Ok(json!(true))
            }
            "getFile" => {
                let id = parameters["file_id"].as_str().unwrap_or_default();
                match self.files.get(id) {
                    None => refused(400, "Bad Request: invalid file_id"),
                    Some(content) if content.len() > DOWNLOAD_BYTES_MAX => {
                        refused(400, "Bad Request: file is too big")
                    }
                    Some(content) => Ok(json!({
                        "file_id": id, "file_unique_id": id, "file_size": content.len(),
                        "file_path": self.local.get(id).cloned().unwrap_or_else(|| format!("files/{id}")),
                    })),
                }
            }
            _ => refused(404, "Not Found: method not found"),
        }
    }

    fn send(
        &mut self,
        token: &str,
        method: &str,
        parameters: Value,
        file: Option<(String, Vec<u8>)>,
    ) -> Outcome {
        let text = shown(&parameters, if file.is_some() { "caption" } else { "text" })?;
        let most = if file.is_some() { CAPTION_UNITS_MAX } else { TEXT_UNITS_MAX };
        check_buttons(&parameters)?;
        if file.is_none() && text.trim().is_empty() {
            return refused(400, "Bad Request: message text is empty");
        }
        if units(&text) > most {
            return refused(400, "Bad Request: message is too long");
        }
        let known = chat(&mut self.chats, &parameters)?;
        let thread = parameters["message_thread_id"].as_i64();
        if thread.is_some_and(|thread| !known.threads.contains(&thread)) {
            return refused(400, "Bad Request: message thread not found");
        }
        let answer = &parameters["reply_parameters"];
        let reply_to = answer["message_id"].as_i64();
        let is_there = reply_to.is_some_and(|id| known.messages.contains_key(&id));
        if reply_to.is_some() && !is_there && answer["allow_sending_without_reply"] != json!(true) {
            return refused(400, "Bad Request: message to be replied not found");
        }
        known.last_message += 1;
        let id = known.last_message;
        let bot: i64 = token.split(':').next().and_then(|id| id.parse().ok()).unwrap_or(0);
        let mut message = json!({
            "message_id": id, "date": now(), "chat": known.chat.json(),
            "from": {"id": bot, "is_bot": true, "first_name": "Bot"},
        });
        message[if file.is_some() { "caption" } else { "text" }] = json!(text.trim());
        if let Some(thread) = thread {
            message["message_thread_id"] = json!(thread);
            message["is_topic_message"] = json!(true);
        }
        known.messages.insert(id, message.clone());
        let chat = known.chat.id;
        self.sent.push(Sent {
            bot: token.to_owned(),
            method: method.to_owned(),
            chat,
            id,
            text: text.trim().to_owned(),
            thread,
            reply_to: reply_to.filter(|_| is_there),
            file,
            edits: 0,
            deleted: false,
            parameters,
        });
        Ok(message)
    }

    fn edit(&mut self, parameters: &Value) -> Outcome {
        let text = shown(parameters, "text")?;
        check_buttons(parameters)?;
        if text.trim().is_empty() {
            return refused(400, "Bad Request: message text is empty");
        }
        if units(&text) > TEXT_UNITS_MAX {
            return refused(400, "Bad Request: message is too long");
        }
        let known = chat(&mut self.chats, parameters)?;
        let (chat, id) = (known.chat.id, parameters["message_id"].as_i64().unwrap_or_default());
        let Some(message) = known.messages.get_mut(&id) else {
            return refused(400, "Bad Request: message to edit not found");
        };
        let sent = self.sent.iter_mut().find(|sent| (sent.chat, sent.id, sent.deleted) == (chat, id, false));
        let Some(sent) = sent else { return refused(400, "Bad Request: message can't be edited") };
        if sent.text == text.trim() && sent.parameters["reply_markup"] == parameters["reply_markup"] {
            return refused(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message",
            );
        }
        message["text"] = json!(text.trim());
        sent.text = text.trim().to_owned();
        sent.edits += 1;
        sent.parameters = parameters.clone();
        Ok(message.clone())
    }

    fn delete(&mut self, parameters: &Value) -> Outcome {
        let known = chat(&mut self.chats, parameters)?;
        let (chat, id) = (known.chat.id, parameters["message_id"].as_i64().unwrap_or_default());
        if known.messages.remove(&id).is_none() {
            return refused(400, "Bad Request: message to delete not found");
        }
        for sent in self.sent.iter_mut().filter(|sent| (sent.chat, sent.id) == (chat, id)) {
            sent.deleted = true;
        }
        Ok(json!(true))
    }
}

/// Where a bot may write.
fn chat<'a>(
    chats: &'a mut HashMap<i64, ChatState>,
    parameters: &Value,
) -> Result<&'a mut ChatState, (u16, String, Value)> {
    let id = parameters["chat_id"].as_i64().unwrap_or_default();
    let Some(known) = chats.get_mut(&id) else { return refused(400, "Bad Request: chat not found") };
    if let Some((code, description)) = &known.closed {
        return refused(*code, description);
    }
    if let Some(to) = known.moved_to {
        let moved = json!({"migrate_to_chat_id": to});
        return Err((400, "Bad Request: group chat was upgraded to a supergroup chat".to_owned(), moved));
    }
    Ok(known)
}

fn check_buttons(parameters: &Value) -> Result<(), (u16, String, Value)> {
    let rows = parameters["reply_markup"]["inline_keyboard"].as_array().cloned().unwrap_or_default();
    let buttons = rows.iter().flat_map(|row| row.as_array().cloned().unwrap_or_default());
    for button in buttons {
        let data = button["callback_data"].as_str().unwrap_or_default();
        if data.is_empty() || data.len() > DATA_BYTES_MAX {
            return refused(400, "Bad Request: BUTTON_DATA_INVALID");
        }
    }
    Ok(())
}

/// What people will see of a text, if its markup can be read.
fn shown(parameters: &Value, field: &str) -> Result<String, (u16, String, Value)> {
    let text = parameters[field].as_str().unwrap_or_default();
    match parameters["parse_mode"].as_str() {
        Some("HTML") => html_shown(text),
        Some("MarkdownV2") => markdown_shown(text),
        _ => Ok(text.to_owned()),
    }
}

fn html_shown(text: &str) -> Result<String, (u16, String, Value)> {
    const TAGS: [&str; 15] = [
        "b",
        "strong",
        "i",
        "em",
        "u",
        "ins",
        "s",
        "strike",
        "del",
        "code",
        "pre",
        "a",
        "tg-spoiler",
        "blockquote",
        "span",
    ];
    let unreadable = |why: String| refused(400, &format!("Bad Request: can't parse entities: {why}"));
    let mut open: Vec<&str> = Vec::new();
    let mut shown = String::new();
    let mut rest = text;
    while let Some(place) = rest.find(['<', '&']) {
        shown.push_str(&rest[..place]);
        let offset = text.len() - rest.len() + place;
        if rest[place..].starts_with('&') {
            let known = [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&'), ("&quot;", '"')];
            let entity = known.iter().find(|(entity, _)| rest[place..].starts_with(entity));
            shown.push(entity.map_or('&', |(_, c)| *c));
            rest = &rest[place + entity.map_or(1, |(entity, _)| entity.len())..];
            continue;
        }
        let Some(end) = rest[place..].find('>') else {
            return unreadable(format!("Unclosed start tag at byte offset {offset}"));
        };
        let tag = &rest[place + 1..place + end];
        rest = &rest[place + end + 1..];
        match tag.strip_prefix('/') {
            Some(name) if open.pop() == Some(name) => {}
            Some(name) => {
                return unreadable(format!("Unexpected end tag \"{name}\" at byte offset {offset}"));
            }
            None => {
                let name = tag.split(' ').next().unwrap_or_default();
                if !TAGS.contains(&name) {
                    return unreadable(format!("Unsupported start tag \"{name}\" at byte offset {offset}"));
                }
                open.push(name);
            }
        }
    }
    shown.push_str(rest);
    match open.last() {
        Some(name) => unreadable(format!("Can't find end tag corresponding to start tag \"{name}\"")),
        None => Ok(shown),
    }
}

/// Roughly: every mark has a partner, and what has no meaning is escaped.
fn markdown_shown(text: &str) -> Result<String, (u16, String, Value)> {
    let mut shown = String::new();
    let mut marks: BTreeMap<char, usize> = BTreeMap::new();
    let mut escaped = false;
    for c in text.chars() {
        match c {
            c if escaped => {
                shown.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '*' | '_' | '~' | '`' => *marks.entry(c).or_default() += 1,
            '.' | '!' | '-' | '+' | '=' | '{' | '}' | '#' => {
                return refused(
                    400,
                    &format!(
                        "Bad Request: can't parse entities: Character '{c}' is reserved and must be escaped with the preceding '\\'"
                    ),
                );
            }
            c => shown.push(c),
        }
    }
    match marks.iter().find(|(_, count)| *count % 2 == 1) {
        Some((mark, _)) => {
            refused(400, &format!("Bad Request: can't parse entities: Can't find end of the entity '{mark}'"))
        }
        None => Ok(shown),
    }
}
