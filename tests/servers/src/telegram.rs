//! A Bot API on loopback, written from the public documentation of Telegram's.
//!
//! It keeps updates until they are acknowledged by an offset (or a 200 of a webhook), ends a poller when
//! a second one comes, checks what it is sent as Telegram does (length after formatting, entities,
//! threads, answered messages, buttons), remembers everything, and fails on request.
//!
//! It runs on a thread of its own, so that a test may block, and so that a gateway in another process
//! can talk to it.

mod connections;
mod http_connection;
mod markup;
mod methods;
mod updates;

use connections::serve;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, watch};
use updates::{get_updates, set_webhook};

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
        let (open, is_open) = watch::channel(true);
        let serving = shared.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be built").block_on(serve(listener, serving, is_open));
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
