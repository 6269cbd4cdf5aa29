//! Discord: the HTTP API, version 10, and the gateway's websocket, for any number of bots.
//!
//! Written from Discord's developer documentation. A session of the gateway has a number for every
//! event and keeps all of them, so it can be resumed from any; messages with an enforced nonce are one
//! for as long as it is told to remember. What goes wrong goes wrong on request:
//! [`DiscordServer::fail_next`] for the API, and the methods that end, mute or confuse the gateway's
//! connections.
//!
//! Deliberately absent: permissions (a refusal is asked for by its code), shards, voice, and the
//! compression of the gateway, which a server may leave out.

mod gateway;
mod rest;
mod state;

use axum::extract::FromRequestParts;
use axum::extract::ws::WebSocketUpgrade;
use axum::response::{IntoResponse, Response};
use axum::{Router, extract::Request};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
pub use state::{Call, Failure, Sent};
use state::{DiscordState, Frame};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A bot, as its operator knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bot {
    pub id: u64,
    pub name: String,
    pub token: String,
}

/// Ends when it is dropped.
pub struct DiscordServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

pub(crate) struct Shared {
    world: Mutex<DiscordState>,
    address: SocketAddr,
}

impl Shared {
    pub(crate) fn world(&self) -> MutexGuard<'_, DiscordState> {
        self.world.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl DiscordServer {
    /// With one bot, which is in no server yet.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("it was just bound");
        let shared = Arc::new(Shared { world: Mutex::new(DiscordState::new()), address });
        let handler = shared.clone();
        let router = Router::new().fallback(move |request: Request| answer(handler.clone(), request));
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        let server = Self { shared, address, task };
        server.add_bot("hermes");
        server
    }

    pub fn rest_url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn gateway_url(&self) -> String {
        format!("ws://{}", self.address)
    }

    // ------------------------------------------------------------------------------ who is there

    pub fn add_bot(&self, name: &str) -> Bot {
        let mut world = self.world();
        let id = world.user(name, true);
        let token =
            format!("{}.G{id:x}.local-test-token-{id}", BASE64_URL_SAFE_NO_PAD.encode(id.to_string()));
        let bot = Bot { id, name: name.to_owned(), token };
        world.bots.push(bot.clone());
        bot
    }

    /// The one it started with.
    pub fn bot(&self) -> Bot {
        self.world().bots[0].clone()
    }

    /// The token means nothing from now on, to the API and to the gateway.
    pub fn revoke(&self, bot: &Bot) {
        self.world().revoked.insert(bot.token.clone());
    }

    pub fn user(&self, name: &str) -> u64 {
        self.world().user(name, false)
    }

    pub fn guild(&self, name: &str) -> u64 {
        self.world().guild(name)
    }

    /// A text channel.
    pub fn channel(&self, guild: u64, name: &str) -> u64 {
        self.world().channel(json!({"type": 0, "guild_id": guild.to_string(), "name": name, "topic": null}))
    }

    /// A channel of any kind, with the fields given.
    pub fn channel_of(&self, fields: Value) -> u64 {
        self.world().channel(fields)
    }

    /// The direct chat of a user and a bot.
    pub fn direct(&self, bot: &Bot, user: u64) -> u64 {
        let mut world = self.world();
        let recipient = world.users[&user].clone();
        let channel = world.channel(json!({"type": 1, "recipients": [recipient]}));
        world.direct.insert(channel, bot.id);
        channel
    }

    pub fn thread(&self, parent: u64, name: &str) -> u64 {
        let mut world = self.world();
        let guild = world.channels[&parent]["guild_id"].clone();
        let parent = parent.to_string();
        world.channel(
            json!({"type": 11, "guild_id": guild, "parent_id": parent, "name": name, "owner_id": "1"}),
        )
    }

    pub fn rename(&self, channel: u64, name: &str) {
        let mut world = self.world();
        world.channels.get_mut(&channel).expect("the channel is there")["name"] = json!(name);
        let data = world.channels[&channel].clone();
        world.dispatch("CHANNEL_UPDATE", &data);
    }

    /// The channel is no more, and neither is what was said there.
    pub fn delete_channel(&self, channel: u64) {
        let mut world = self.world();
        let data = world.channels.remove(&channel).unwrap_or_default();
        world.messages.remove(&channel);
        world.dispatch("CHANNEL_DELETE", &data);
    }

    /// Roles that a user has, everywhere.
    pub fn give_roles(&self, user: u64, roles: &[&str]) {
        self.world().roles.insert(user, roles.iter().map(|role| (*role).to_owned()).collect());
    }

    // ------------------------------------------------------------------------------ what is said

    pub fn say(&self, channel: u64, user: u64, text: &str) -> u64 {
        self.say_with(channel, user, json!({"content": text}))
    }

    /// With any fields of a message, over those that it has anyway.
    pub fn say_with(&self, channel: u64, user: u64, fields: Value) -> u64 {
        self.world().say(channel, user, fields)
    }

    /// It is written, and no gateway tells anyone: as while everything was down.
    pub fn say_unheard(&self, channel: u64, user: u64, text: &str) -> u64 {
        let mut world = self.world();
        let message = world.message(channel, user, json!({"content": text}));
        world.remember(channel, message)
    }

    pub fn edit(&self, channel: u64, message: u64, text: &str) {
        let mut world = self.world();
        let stamp = world.stamp();
        let Some(found) = world.find(channel, message) else { return };
        found["content"] = json!(text);
        found["edited_timestamp"] = json!(stamp);
        let data = found.clone();
        world.dispatch("MESSAGE_UPDATE", &data);
    }

    /// The same message once more, as a new event.
    pub fn redeliver(&self, channel: u64, message: u64) {
        let mut world = self.world();
        let data = world.find(channel, message).cloned().expect("the message is there");
        let data = world.told(data);
        world.dispatch("MESSAGE_CREATE", &data);
    }

    /// A slash command. Returns the interaction's id.
    pub fn command(&self, channel: u64, user: u64, name: &str, args: Option<&str>) -> u64 {
        let options: Vec<Value> =
            args.into_iter().map(|args| json!({"type": 3, "name": "args", "value": args})).collect();
        self.interact(channel, user, 2, json!({"type": 1, "name": name, "options": options}))
    }

    /// A button is pressed. Returns the interaction's id.
    pub fn press(&self, channel: u64, user: u64, custom_id: &str) -> u64 {
        self.interact(channel, user, 3, json!({"component_type": 2, "custom_id": custom_id}))
    }

    fn interact(&self, channel: u64, user: u64, kind: u8, data: Value) -> u64 {
        self.world().interact(channel, user, kind, data)
    }

    /// An event of any name.
    pub fn dispatch(&self, name: &str, data: Value) {
        self.world().dispatch(name, &data);
    }

    /// A file that can be fetched; returns its address. One whose name begins with `expired-` is to be
    /// had only after its address was refreshed.
    pub fn attachment(&self, name: &str, bytes: &[u8]) -> String {
        self.world().files.insert(name.trim_start_matches("expired-").to_owned(), bytes.to_vec());
        format!("http://{}/attachments/{name}", self.address)
    }

    // --------------------------------------------------------------------------- what it was told

    /// What bots have written, in order, as it stands now.
    pub fn sent(&self) -> Vec<Sent> {
        self.world().sent()
    }

    /// What the API was asked, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.world().calls.clone()
    }

    pub fn count(&self, method: &str, path_part: &str) -> usize {
        self.calls().iter().filter(|call| call.method == method && call.path.contains(path_part)).count()
    }

    /// Signs that bots have put on a message.
    pub fn reactions(&self, message: u64) -> Vec<String> {
        self.world().reactions.get(&message).cloned().unwrap_or_default()
    }

    /// What bots answered to an interaction: the body of the callback.
    pub fn callback(&self, interaction: u64) -> Option<Value> {
        self.world().callbacks.get(&interaction).cloned()
    }

    pub fn commands(&self, bot: &Bot) -> Vec<Value> {
        self.world().commands.get(&bot.id).cloned().unwrap_or_default()
    }

    /// Threads that were begun at a message: how often each was asked for is in [`Self::calls`].
    pub fn threads(&self) -> Vec<u64> {
        let world = self.world();
        let threads = world.channels.iter().filter(|(_, channel)| channel["type"] == 11);
        threads.map(|(id, _)| *id).collect()
    }

    /// How often the gateway was greeted with a new session, and with an old one.
    pub fn identified(&self) -> usize {
        self.world().identified
    }

    pub fn resumed(&self) -> usize {
        self.world().resumed
    }

    /// Messages that the resumed bot said to have: they are not told again.
    pub fn acknowledged(&self) -> BTreeSet<u64> {
        self.world().acknowledged.clone()
    }

    /// Everything that was written in a channel, by whomever, as it stands now.
    pub fn messages(&self, channel: u64) -> Vec<Value> {
        self.world().messages.get(&channel).cloned().unwrap_or_default()
    }

    pub fn connections(&self) -> usize {
        self.world().sessions.iter().filter(|session| session.line.is_some()).count()
    }

    // ---------------------------------------------------------------------------- what goes wrong

    /// What the next request gets whose method and path are these. Several are worked off in order.
    pub fn fail_next(&self, method: &str, path_part: &str, failure: Failure) {
        self.world().failures.push_back((method.to_owned(), path_part.to_owned(), failure));
    }

    /// Nothing is to fail any more.
    pub fn heal(&self) {
        self.world().failures.clear();
    }

    /// How many requests were left without an answer so far.
    pub fn hung(&self) -> usize {
        self.world().hung
    }

    /// How long a nonce is remembered.
    pub fn remember_nonces_for(&self, time: Duration) {
        self.world().nonce_memory = time;
    }

    pub fn beat_every(&self, interval: Duration) {
        self.world().heartbeat = interval;
    }

    /// Every connection of the gateway is closed with this code.
    pub fn close_all(&self, code: u16) {
        self.world().frame_all(Frame::Close(code));
    }

    /// Every connection is cut without a word.
    pub fn cut_all(&self) {
        self.world().frame_all(Frame::Cut);
    }

    /// A bot that wants a session gets this code instead. None: a session.
    pub fn refuse_sessions(&self, code: Option<u16>) {
        self.world().refusal = code;
    }

    /// No session can be resumed; those who are connected are told.
    pub fn forget_sessions(&self) {
        let mut world = self.world();
        world.frame_all(Frame::Text(json!({"op": 9, "d": false, "s": null, "t": null}).to_string()));
        world.sessions.clear();
    }

    /// Silently: a bot that resumes finds out.
    pub fn lose_sessions(&self) {
        let mut world = self.world();
        world.frame_all(Frame::Cut);
        world.sessions.clear();
    }

    pub fn ask_to_reconnect(&self) {
        self.world().frame_all(Frame::Text(json!({"op": 7, "d": null, "s": null, "t": null}).to_string()));
    }

    /// Connections stay open and nothing is said over them any more, not even that they live.
    pub fn mute(&self) {
        self.world().frame_all(Frame::Mute);
    }

    /// A frame of any text.
    pub fn send_raw(&self, text: &str) {
        self.world().frame_all(Frame::Text(text.to_owned()));
    }

    pub fn send_bytes(&self, bytes: &[u8]) {
        self.world().frame_all(Frame::Bytes(bytes.to_vec()));
    }

    /// Events are numbered but held back …
    pub fn hold(&self) {
        self.world().held = Some(Vec::new());
    }

    /// … and told …
    pub fn release(&self) {
        self.release_as(|held| held);
    }

    /// … or told in the wrong order.
    pub fn release_reversed(&self) {
        self.release_as(|held| held.into_iter().rev().collect());
    }

    fn release_as(&self, order: impl Fn(Vec<(String, String)>) -> Vec<(String, String)>) {
        let mut world = self.world();
        let held = order(world.held.take().unwrap_or_default());
        held.into_iter().for_each(|(session, text)| world.tell(&session, text));
    }

    fn world(&self) -> MutexGuard<'_, DiscordState> {
        self.shared.world()
    }
}

impl Drop for DiscordServer {
    fn drop(&mut self) {
        self.task.abort();
        self.world().frame_all(Frame::Cut);
    }
}

async fn answer(shared: Arc<Shared>, request: Request) -> Response {
    if request.uri().path() == "/" {
        let (mut parts, _) = request.into_parts();
        return match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
            Ok(upgrade) => upgrade.on_upgrade(move |socket| gateway::serve(shared, socket)),
            Err(refusal) => refusal.into_response(),
        };
    }
    rest::answer(shared, request).await
}
