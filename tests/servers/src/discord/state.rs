//! Everything the server knows.

use super::Bot;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::UnboundedSender;

/// A request that the API has seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub method: String,
    /// After the version, without the query.
    pub path: String,
    pub bot: Option<u64>,
}

/// What a request gets instead of its answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// This, and nothing is done.
    Answer { status: u16, headers: Vec<(String, String)>, body: Value },
    /// Nothing is done, and the connection is closed.
    Close,
    /// Nothing is done, and the server never says so.
    Hang,
    /// It is done, and the connection is closed without an answer.
    DoAndClose,
    /// It is done, and the server never says so.
    DoAndHang,
    /// It is done, and the answer is this status.
    DoAndAnswer { status: u16, body: Value },
}

impl Failure {
    /// A refusal in Discord's form.
    pub fn code(status: u16, code: u64, message: &str) -> Self {
        Self::Answer { status, headers: Vec::new(), body: json!({"message": message, "code": code}) }
    }

    pub fn limited(seconds: f64) -> Self {
        let body = json!({"message": "You are being rate limited.", "retry_after": seconds, "global": false});
        Self::Answer { status: 429, headers: vec![("retry-after".into(), seconds.ceil().to_string())], body }
    }
}

/// A message of a bot.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub id: u64,
    pub channel: u64,
    pub bot: u64,
    pub text: String,
    pub reply_to: Option<u64>,
    pub nonce: Option<String>,
    /// The body it was created with.
    pub body: Value,
    pub files: Vec<(String, Vec<u8>)>,
}

/// What goes over a connection of the gateway.
#[derive(Clone, Debug)]
pub enum Frame {
    Text(String),
    Bytes(Vec<u8>),
    Close(u16),
    Cut,
    Mute,
}

pub struct Session {
    pub id: String,
    pub bot: u64,
    pub sequence: u64,
    /// Every event, from the first.
    pub log: Vec<(u64, String)>,
    pub line: Option<UnboundedSender<Frame>>,
}

pub struct DiscordState {
    pub bots: Vec<Bot>,
    pub revoked: HashSet<String>,
    pub users: BTreeMap<u64, Value>,
    pub roles: HashMap<u64, Vec<String>>,
    pub guilds: BTreeMap<u64, Value>,
    pub channels: BTreeMap<u64, Value>,
    /// Of a direct chat: which bot it is with.
    pub direct: HashMap<u64, u64>,
    pub messages: BTreeMap<u64, Vec<Value>>,
    pub sent: Vec<Sent>,
    pub nonces: HashMap<(u64, u64, String), (u64, Instant)>,
    pub nonce_memory: Duration,
    pub reactions: HashMap<u64, Vec<String>>,
    pub callbacks: HashMap<u64, Value>,
    pub commands: HashMap<u64, Vec<Value>>,
    pub files: HashMap<String, Vec<u8>>,
    pub calls: Vec<Call>,
    pub failures: VecDeque<(String, String, Failure)>,
    /// Requests that were left without an answer.
    pub hung: usize,
    pub sessions: Vec<Session>,
    pub held: Option<Vec<(String, String)>>,
    pub heartbeat: Duration,
    pub refusal: Option<u16>,
    pub identified: usize,
    pub resumed: usize,
    /// Messages up to which a bot resumed: they are not told again.
    pub acknowledged: BTreeSet<u64>,
    last: u64,
}

/// 2015, where snowflakes begin to count.
const EPOCH_MS: u64 = 1_420_070_400_000;

impl DiscordState {
    pub fn new() -> Self {
        Self {
            bots: Vec::new(),
            revoked: HashSet::new(),
            users: BTreeMap::new(),
            roles: HashMap::new(),
            guilds: BTreeMap::new(),
            channels: BTreeMap::new(),
            direct: HashMap::new(),
            messages: BTreeMap::new(),
            sent: Vec::new(),
            nonces: HashMap::new(),
            nonce_memory: Duration::from_secs(180),
            reactions: HashMap::new(),
            callbacks: HashMap::new(),
            commands: HashMap::new(),
            files: HashMap::new(),
            calls: Vec::new(),
            failures: VecDeque::new(),
            hung: 0,
            sessions: Vec::new(),
            held: None,
            heartbeat: Duration::from_millis(41_250),
            refusal: None,
            identified: 0,
            resumed: 0,
            acknowledged: BTreeSet::new(),
            last: 0,
        }
    }

    pub fn snowflake(&mut self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        self.last = (self.last + 1).max((now - EPOCH_MS) << 22);
        self.last
    }

    /// In Discord's form. Two are never equal.
    pub fn stamp(&mut self) -> String {
        let micros = self.snowflake() % 1_000_000;
        format!("2026-11-16T10:00:00.{micros:06}+00:00")
    }

    pub fn user(&mut self, name: &str, bot: bool) -> u64 {
        let id = self.snowflake();
        let user = json!({
            "id": id.to_string(), "username": name, "global_name": null, "discriminator": "0", "avatar": null, "bot": bot,
        });
        self.users.insert(id, user);
        id
    }

    pub fn guild(&mut self, name: &str) -> u64 {
        let id = self.snowflake();
        self.guilds.insert(id, json!({"id": id.to_string(), "name": name}));
        let data = self.full_guild(id);
        self.dispatch("GUILD_CREATE", &data);
        id
    }

    pub fn channel(&mut self, mut fields: Value) -> u64 {
        let id = match fields["id"].as_str().and_then(|id| id.parse().ok()) {
            Some(id) => id,
            None => self.snowflake(),
        };
        fields["id"] = json!(id.to_string());
        fields["last_message_id"] = Value::Null;
        self.channels.insert(id, fields.clone());
        self.messages.entry(id).or_default();
        let name = match fields["type"].as_u64() {
            Some(10..=12) => "THREAD_CREATE",
            Some(1) => return id,
            _ => "CHANNEL_CREATE",
        };
        self.dispatch(name, &fields);
        id
    }

    pub fn full_guild(&self, id: u64) -> Value {
        let within = |threads: bool| -> Vec<Value> {
            let guild = json!(id.to_string());
            let channels = self.channels.values().filter(|channel| channel["guild_id"] == guild);
            channels
                .filter(|channel| matches!(channel["type"].as_u64(), Some(10..=12)) == threads)
                .cloned()
                .collect()
        };
        let mut guild = self.guilds[&id].clone();
        guild["channels"] = json!(within(false));
        guild["threads"] = json!(within(true));
        guild["unavailable"] = json!(false);
        guild["member_count"] = json!(self.users.len());
        guild
    }

    pub fn say(&mut self, channel: u64, user: u64, fields: Value) -> u64 {
        let message = self.message(channel, user, fields);
        let id = self.remember(channel, message.clone());
        let data = self.told(message);
        self.dispatch("MESSAGE_CREATE", &data);
        id
    }

    pub fn message(&mut self, channel: u64, user: u64, fields: Value) -> Value {
        let id = self.snowflake();
        let stamp = self.stamp();
        let mut message = json!({
            "id": id.to_string(), "channel_id": channel.to_string(), "author": self.users[&user], "content": "",
            "timestamp": stamp, "edited_timestamp": null, "tts": false, "mention_everyone": false,
            "mentions": [], "mention_roles": [], "attachments": [], "embeds": [], "pinned": false, "type": 0, "flags": 0,
        });
        let text = fields["content"].as_str().unwrap_or_default();
        message["mentions"] = self.mentioned(text).into();
        for (name, value) in fields.as_object().cloned().unwrap_or_default() {
            message[name.as_str()] = value;
        }
        if let Some(answered) =
            message["message_reference"]["message_id"].as_str().and_then(|id| id.parse().ok())
        {
            message["type"] = json!(19);
            message["referenced_message"] = self.find(channel, answered).cloned().unwrap_or(Value::Null);
        }
        message
    }

    pub fn mentioned(&self, text: &str) -> Vec<Value> {
        let named = |id: &u64| text.contains(&format!("<@{id}>")) || text.contains(&format!("<@!{id}>"));
        self.users.iter().filter(|(id, _)| named(id)).map(|(_, user)| user.clone()).collect()
    }

    pub fn remember(&mut self, channel: u64, message: Value) -> u64 {
        let id: u64 = message["id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_default();
        if let Some(known) = self.channels.get_mut(&channel) {
            known["last_message_id"] = json!(id.to_string());
        }
        self.messages.entry(channel).or_default().push(message);
        id
    }

    /// As an event tells it: with its server, and who the author is there.
    pub fn told(&self, mut message: Value) -> Value {
        let channel =
            message["channel_id"].as_str().and_then(|id| id.parse::<u64>().ok()).unwrap_or_default();
        let guild =
            self.channels.get(&channel).map(|channel| channel["guild_id"].clone()).unwrap_or_default();
        if !guild.is_null() {
            let author =
                message["author"]["id"].as_str().and_then(|id| id.parse::<u64>().ok()).unwrap_or_default();
            let roles = self.roles.get(&author).cloned().unwrap_or_default();
            message["guild_id"] = guild;
            message["member"] =
                json!({"nick": null, "roles": roles, "joined_at": null, "deaf": false, "mute": false});
        }
        message
    }

    pub fn find(&mut self, channel: u64, message: u64) -> Option<&mut Value> {
        let id = json!(message.to_string());
        self.messages.get_mut(&channel)?.iter_mut().find(|message| message["id"] == id)
    }

    pub fn interact(&mut self, channel: u64, user: u64, kind: u8, data: Value) -> u64 {
        let id = self.snowflake();
        let place = self.channels[&channel].clone();
        let bot = self.direct.get(&channel).copied().unwrap_or(self.bots[0].id);
        let mut interaction = json!({
            "id": id.to_string(), "application_id": bot.to_string(), "type": kind, "token": format!("interaction-{id}"),
            "version": 1, "channel_id": channel.to_string(), "channel": place, "data": data,
        });
        match place["guild_id"].is_null() {
            true => interaction["user"] = self.users[&user].clone(),
            false => {
                let roles = self.roles.get(&user).cloned().unwrap_or_default();
                interaction["guild_id"] = place["guild_id"].clone();
                interaction["member"] = json!({"user": self.users[&user], "nick": null, "roles": roles});
            }
        }
        self.dispatch_to("INTERACTION_CREATE", &interaction, |session| session.bot == bot);
        id
    }

    /// To every session of a bot that can see it.
    pub fn dispatch(&mut self, name: &str, data: &Value) {
        let channel =
            data["channel_id"].as_str().or(data["id"].as_str()).and_then(|id| id.parse::<u64>().ok());
        let only = channel.and_then(|channel| self.direct.get(&channel).copied());
        self.dispatch_to(name, data, |session| only.is_none_or(|bot| bot == session.bot));
    }

    fn dispatch_to(&mut self, name: &str, data: &Value, wanted: impl Fn(&Session) -> bool) {
        let mut told = Vec::new();
        for session in self.sessions.iter_mut().filter(|session| wanted(session)) {
            session.sequence += 1;
            let text = json!({"op": 0, "t": name, "s": session.sequence, "d": data}).to_string();
            session.log.push((session.sequence, text.clone()));
            told.push((session.id.clone(), text));
        }
        match &mut self.held {
            Some(held) => held.extend(told),
            None => told.into_iter().for_each(|(session, text)| self.tell(&session, text)),
        }
    }

    pub fn tell(&mut self, session: &str, text: String) {
        let session = self.sessions.iter().find(|known| known.id == session);
        if let Some(line) = session.and_then(|session| session.line.as_ref()) {
            let _ = line.send(Frame::Text(text));
        }
    }

    pub fn frame_all(&mut self, frame: Frame) {
        for line in self.sessions.iter().filter_map(|session| session.line.as_ref()) {
            let _ = line.send(frame.clone());
        }
    }

    pub fn sent(&self) -> Vec<Sent> {
        let current = |sent: &Sent| {
            let id = json!(sent.id.to_string());
            let message = self.messages.get(&sent.channel)?.iter().find(|message| message["id"] == id)?;
            Some(Sent { text: message["content"].as_str().unwrap_or_default().to_owned(), ..sent.clone() })
        };
        self.sent.iter().filter_map(current).collect()
    }
}
