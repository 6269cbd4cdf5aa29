//! The HTTP API.

use super::state::{Call, DiscordState, Failure, Sent};
use super::{Bot, Shared};
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Multipart, Request};
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

const VERSION: &str = "/api/v10";
/// More than any test sends.
const BODY_BYTES_MAX: usize = 64 << 20;
const CONTENT_CHARACTERS_MAX: usize = 2_000;

/// What is asked, taken apart.
struct Asked {
    method: String,
    path: String,
    query: HashMap<String, String>,
    body: Value,
    files: Vec<(String, Vec<u8>)>,
}

enum Answer {
    Json(u16, Value),
    Bytes(Vec<u8>),
}

pub async fn answer(shared: Arc<Shared>, request: Request) -> Response {
    let method = request.method().to_string();
    let path = request.uri().path().strip_prefix(VERSION).unwrap_or(request.uri().path()).to_owned();
    let query = pairs(request.uri().query().unwrap_or_default());
    let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bot ")).map(str::to_owned);
    let (body, files) = contents(request).await;
    let asked = Asked { method, path, query, body, files };

    let (failure, bot) = {
        let mut world = shared.world();
        let revoked = token.as_ref().is_some_and(|token| world.revoked.contains(token));
        let bot = world.bots.iter().find(|bot| Some(&bot.token) == token.as_ref() && !revoked).cloned();
        let id = bot.as_ref().map(|bot| bot.id);
        world.calls.push(Call { method: asked.method.clone(), path: asked.path.clone(), bot: id });
        let meant = |(method, part, _): &(String, String, Failure)| {
            *method == asked.method && asked.path.contains(part.as_str())
        };
        let place = world.failures.iter().position(meant);
        (place.and_then(|place| world.failures.remove(place)).map(|(_, _, failure)| failure), bot)
    };
    let work = || act(&shared, &asked, bot.as_ref());
    match failure {
        None => response(work()),
        Some(Failure::Answer { status, headers, body }) => {
            let mut response = response(Answer::Json(status, body));
            for (name, value) in headers {
                let name: http::HeaderName = name.parse().expect("a test names a header");
                response.headers_mut().insert(name, value.parse().expect("a test gives it a value"));
            }
            response
        }
        Some(Failure::Close) => hang_up(),
        Some(Failure::DoAndClose) => {
            work();
            hang_up()
        }
        Some(Failure::Hang) => hang(&shared).await,
        Some(Failure::DoAndHang) => {
            work();
            hang(&shared).await
        }
        Some(Failure::DoAndAnswer { status, body }) => {
            work();
            response(Answer::Json(status, body))
        }
    }
}

async fn hang(shared: &Shared) -> Response {
    shared.world().hung += 1;
    std::future::pending().await
}

/// The task of the connection ends here, and the connection with it, without a word to anyone.
fn hang_up() -> Response {
    std::panic::resume_unwind(Box::new("the connection is closed on request"))
}

fn response(answer: Answer) -> Response {
    let (status, kind, bytes) = match answer {
        Answer::Json(204, _) => (204, "application/json", Vec::new()),
        Answer::Json(status, body) => (status, "application/json", body.to_string().into_bytes()),
        Answer::Bytes(bytes) => (200, "application/octet-stream", bytes),
    };
    let builder = Response::builder().status(status).header("content-type", kind);
    builder.body(Body::from(bytes)).expect("status and type are valid")
}

async fn contents(request: Request) -> (Value, Vec<(String, Vec<u8>)>) {
    let kind = request.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("multipart/") {
        let bytes = to_bytes(request.into_body(), BODY_BYTES_MAX).await.unwrap_or_default();
        return (serde_json::from_slice(&bytes).unwrap_or(Value::Null), Vec::new());
    }
    let (mut body, mut files) = (Value::Null, Vec::new());
    let Ok(mut form) = Multipart::from_request(request, &()).await else { return (body, files) };
    while let Ok(Some(field)) = form.next_field().await {
        let name = field.name().unwrap_or_default().to_owned();
        let file = field.file_name().unwrap_or_default().to_owned();
        let bytes = field.bytes().await.unwrap_or_default();
        match name.as_str() {
            "payload_json" => body = serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            _ => files.push((file, bytes.to_vec())),
        }
    }
    (body, files)
}

fn act(shared: &Shared, asked: &Asked, bot: Option<&Bot>) -> Answer {
    let segments: Vec<&str> = asked.path.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut world = shared.world();
    // What needs no token.
    match (asked.method.as_str(), segments.as_slice()) {
        ("GET", ["attachments", name]) => {
            return match world.files.get(*name) {
                Some(bytes) => Answer::Bytes(bytes.clone()),
                None => refused(404, 0, "404: Not Found"),
            };
        }
        ("POST", ["interactions", id, _, "callback"]) => {
            let id: u64 = id.parse().unwrap_or_default();
            if world.callbacks.contains_key(&id) {
                return refused(400, 40060, "Interaction has already been acknowledged.");
            }
            world.callbacks.insert(id, asked.body.clone());
            return Answer::Json(204, Value::Null);
        }
        ("DELETE", ["webhooks", _, _, "messages", "@original"]) => return Answer::Json(204, Value::Null),
        _ => {}
    }
    let Some(bot) = bot else { return refused(401, 0, "401: Unauthorized") };
    match (asked.method.as_str(), segments.as_slice()) {
        ("GET", ["users", "@me"]) => Answer::Json(200, world.users[&bot.id].clone()),
        ("GET", ["applications", "@me"]) => {
            Answer::Json(200, json!({"id": bot.id.to_string(), "name": bot.name, "flags": 1 << 19}))
        }
        ("GET", ["gateway", "bot"]) => Answer::Json(
            200,
            json!({
                "url": format!("ws://{}", shared.address), "shards": 1,
                "session_start_limit": {"total": 1000, "remaining": 999, "reset_after": 86_400_000, "max_concurrency": 1},
            }),
        ),
        ("GET", ["applications", _, "commands"]) => {
            Answer::Json(200, json!(world.commands.get(&bot.id).cloned().unwrap_or_default()))
        }
        ("PUT", ["applications", _, "commands"]) => {
            let mut commands = asked.body.as_array().cloned().unwrap_or_default();
            for command in &mut commands {
                command["id"] = json!(world.snowflake().to_string());
                command["application_id"] = json!(bot.id.to_string());
            }
            world.commands.insert(bot.id, commands.clone());
            Answer::Json(200, json!(commands))
        }
        ("GET", ["guilds", guild]) => match world.guilds.get(&id(guild)) {
            Some(guild) => Answer::Json(200, guild.clone()),
            None => refused(404, 10004, "Unknown Guild"),
        },
        ("GET", ["guilds", _, "members", user]) => match world.users.get(&id(user)) {
            Some(found) => {
                let roles = world.roles.get(&id(user)).cloned().unwrap_or_default();
                Answer::Json(200, json!({"user": found, "nick": null, "roles": roles}))
            }
            None => refused(404, 10007, "Unknown Member"),
        },
        ("POST", ["attachments", "refresh-urls"]) => {
            let urls = asked.body["attachment_urls"].as_array().cloned().unwrap_or_default();
            let fresh = |url: &Value| {
                let plain = url.as_str().unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
                json!({"original": url, "refreshed": plain.replace("/expired-", "/")})
            };
            Answer::Json(200, json!({"refreshed_urls": urls.iter().map(fresh).collect::<Vec<_>>()}))
        }
        (method, ["channels", channel, rest @ ..]) => {
            let channel = id(channel);
            match world.channels.contains_key(&channel) {
                true => in_channel(&mut world, bot, channel, (method, rest), asked),
                false => refused(404, 10003, "Unknown Channel"),
            }
        }
        _ => refused(404, 0, "404: Not Found"),
    }
}

fn in_channel(
    world: &mut DiscordState,
    bot: &Bot,
    channel: u64,
    call: (&str, &[&str]),
    asked: &Asked,
) -> Answer {
    match call {
        ("GET", []) => Answer::Json(200, world.channels[&channel].clone()),
        ("POST", ["typing"]) => Answer::Json(204, Value::Null),
        ("GET", ["messages"]) => Answer::Json(200, json!(listed(world, channel, &asked.query))),
        ("POST", ["messages"]) => create(world, bot, channel, asked),
        ("GET", ["messages", message]) => match world.find(channel, id(message)) {
            Some(message) => Answer::Json(200, message.clone()),
            None => refused(404, 10008, "Unknown Message"),
        },
        ("PATCH", ["messages", message]) => {
            let text = asked.body["content"].as_str().unwrap_or_default().to_owned();
            if text.chars().count() > CONTENT_CHARACTERS_MAX {
                return too_long();
            }
            let stamp = world.stamp();
            let Some(found) = world.find(channel, id(message)) else {
                return refused(404, 10008, "Unknown Message");
            };
            found["content"] = json!(text);
            found["edited_timestamp"] = json!(stamp);
            found["components"] = asked.body["components"].clone();
            let data = found.clone();
            world.dispatch("MESSAGE_UPDATE", &data);
            Answer::Json(200, data)
        }
        ("DELETE", ["messages", message]) => {
            if world.find(channel, id(message)).is_none() {
                return refused(404, 10008, "Unknown Message");
            }
            let name = json!(id(message).to_string());
            world.messages.entry(channel).or_default().retain(|message| message["id"] != name);
            Answer::Json(204, Value::Null)
        }
        ("POST", ["messages", message, "threads"]) => begin_thread(world, bot, channel, id(message), asked),
        (method, ["messages", message, "reactions", sign, "@me"]) => {
            if world.find(channel, id(message)).is_none() {
                return refused(404, 10008, "Unknown Message");
            }
            let sign = decoded(sign);
            let signs = world.reactions.entry(id(message)).or_default();
            signs.retain(|there| *there != sign);
            if method == "PUT" {
                signs.push(sign);
            }
            Answer::Json(204, Value::Null)
        }
        _ => refused(404, 0, "404: Not Found"),
    }
}

fn create(world: &mut DiscordState, bot: &Bot, channel: u64, asked: &Asked) -> Answer {
    let body = &asked.body;
    let text = body["content"].as_str().unwrap_or_default().to_owned();
    if text.trim().is_empty() && asked.files.is_empty() {
        return refused(400, 50006, "Cannot send an empty message");
    }
    if text.chars().count() > CONTENT_CHARACTERS_MAX {
        return too_long();
    }
    let nonce = body["nonce"].as_str().map(str::to_owned);
    if nonce.as_ref().is_some_and(|nonce| nonce.chars().count() > 25) {
        return refused(400, 50035, "Invalid Form Body");
    }
    let enforced =
        nonce.clone().filter(|_| body["enforce_nonce"] == true).map(|nonce| (bot.id, channel, nonce));
    if let Some((message, at)) = enforced.as_ref().and_then(|key| world.nonces.get(key)).copied()
        && at.elapsed() < world.nonce_memory
        && let Some(message) = world.find(channel, message)
    {
        return Answer::Json(200, message.clone());
    }
    let answered = body["message_reference"]["message_id"].as_str().map(id);
    let is_there = answered.is_some_and(|answered| world.find(channel, answered).is_some());
    let mut fields = json!({"content": text, "nonce": nonce});
    if is_there {
        fields["message_reference"] = body["message_reference"].clone();
        // The author of the answered message is mentioned by that, unless the answer says otherwise.
        if body["allowed_mentions"]["replied_user"] != false {
            let author =
                answered.and_then(|answered| world.find(channel, answered)).map(|it| it["author"].clone());
            let mut mentioned = world.mentioned(&text);
            mentioned.extend(author.filter(|author| !mentioned.contains(author)));
            fields["mentions"] = mentioned.into();
        }
    } else if answered.is_some() && body["message_reference"]["fail_if_not_exists"] != false {
        return refused(400, 50035, "Invalid Form Body");
    }
    if !body["components"].is_null() {
        fields["components"] = body["components"].clone();
    }
    let message = world.say(channel, bot.id, fields);
    if let Some(key) = enforced {
        world.nonces.insert(key, (message, Instant::now()));
    }
    world.sent.push(Sent {
        id: message,
        channel,
        bot: bot.id,
        text,
        reply_to: answered.filter(|_| is_there),
        nonce,
        body: body.clone(),
        files: asked.files.clone(),
    });
    Answer::Json(200, world.find(channel, message).cloned().unwrap_or_default())
}

fn begin_thread(world: &mut DiscordState, bot: &Bot, channel: u64, message: u64, asked: &Asked) -> Answer {
    if world.channels.contains_key(&message) {
        return refused(400, 160_004, "A thread has already been created for this message");
    }
    let Some(found) = world.find(channel, message) else { return refused(404, 10008, "Unknown Message") };
    found["flags"] = json!(found["flags"].as_u64().unwrap_or(0) | 1 << 5);
    let guild = world.channels[&channel]["guild_id"].clone();
    world.channel(json!({
        "id": message.to_string(), "type": 11, "guild_id": guild, "parent_id": channel.to_string(),
        "owner_id": bot.id.to_string(), "name": asked.body["name"],
    }));
    Answer::Json(201, world.channels[&message].clone())
}

/// Newest first, as Discord does, whichever end was asked for.
fn listed(world: &DiscordState, channel: u64, query: &HashMap<String, String>) -> Vec<Value> {
    let number = |name: &str| query.get(name).map(|text| id(text));
    let limit = number("limit").unwrap_or(50).clamp(1, 100) as usize;
    let of = |message: &Value| id(message["id"].as_str().unwrap_or_default());
    let all = world.messages.get(&channel).into_iter().flatten();
    let mut found: Vec<Value> = all
        .filter(|message| number("after").is_none_or(|after| of(message) > after))
        .filter(|message| number("before").is_none_or(|before| of(message) < before))
        .cloned()
        .collect();
    found.sort_by_key(of);
    match number("after") {
        Some(_) => found.truncate(limit),
        None => drop(found.drain(..found.len().saturating_sub(limit))),
    }
    found.reverse();
    found
}

fn too_long() -> Answer {
    let errors = json!({"content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 2000 or fewer in length."}]}});
    Answer::Json(400, json!({"message": "Invalid Form Body", "code": 50035, "errors": errors}))
}

fn refused(status: u16, code: u64, message: &str) -> Answer {
    Answer::Json(status, json!({"message": message, "code": code}))
}

fn id(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}

fn pairs(query: &str) -> HashMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = |digit: Option<u8>| digit.and_then(|digit| (digit as char).to_digit(16)).unwrap_or(0) as u8;
        match byte {
            b'%' => bytes.push(hex(rest.next()) << 4 | hex(rest.next())),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
