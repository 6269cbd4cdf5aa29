//! One connection to the gateway.

use super::Shared;
use super::state::{Frame, Session};
use axum::extract::ws::{CloseFrame, Message, WebSocket};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub async fn serve(shared: Arc<Shared>, mut socket: WebSocket) {
    let interval = shared.world().heartbeat.as_millis() as u64;
    let hello = json!({"op": 10, "s": null, "t": null, "d": {"heartbeat_interval": interval}});
    if socket.send(Message::Text(hello.to_string().into())).await.is_err() {
        return;
    }
    let (line, mut frames) = unbounded_channel();
    converse(&shared, &mut socket, &line, &mut frames).await;
    hang_up(&shared, &line);
}

type Line = UnboundedSender<Frame>;

async fn converse(
    shared: &Shared,
    socket: &mut WebSocket,
    line: &Line,
    frames: &mut UnboundedReceiver<Frame>,
) {
    let mut is_mute = false;
    loop {
        tokio::select! {
            frame = frames.recv() => match frame {
                Some(Frame::Mute) => is_mute = true,
                Some(Frame::Cut) | None => return,
                Some(Frame::Close(code)) => return close(socket, code).await,
                Some(_) if is_mute => {}
                Some(Frame::Text(text)) => {
                    if socket.send(Message::Text(text.into())).await.is_err() {
                        return;
                    }
                }
                Some(Frame::Bytes(bytes)) => {
                    let _ = socket.send(Message::Binary(bytes.into())).await;
                }
            },
            heard = socket.recv() => {
                let Some(Ok(message)) = heard else { return };
                let Message::Text(text) = message else { continue };
                let Ok(frame) = serde_json::from_str::<Value>(&text) else {
                    return close(socket, 4002).await;
                };
                let answers = match frame["op"].as_u64() {
                    Some(1) if is_mute => Vec::new(),
                    Some(1) => vec![Frame::Text(json!({"op": 11, "d": null, "s": null, "t": null}).to_string())],
                    Some(2) => identify(shared, &frame["d"], line),
                    Some(6) => resume(shared, &frame["d"], line),
                    _ => Vec::new(),
                };
                answers.into_iter().for_each(|answer| { let _ = line.send(answer); });
            }
        }
    }
}

fn identify(shared: &Shared, wish: &Value, line: &Line) -> Vec<Frame> {
    let mut world = shared.world();
    if let Some(code) = world.refusal {
        return vec![Frame::Close(code)];
    }
    let Some(bot) = known(&world, wish) else { return vec![Frame::Close(4004)] };
    world.identified += 1;
    let id = format!("session-{}", world.snowflake());
    let guilds: Vec<u64> = world.guilds.keys().copied().collect();
    let unavailable: Vec<Value> =
        guilds.iter().map(|guild| json!({"id": guild.to_string(), "unavailable": true})).collect();
    let ready = json!({
        "v": 10, "user": world.users[&bot], "guilds": unavailable, "session_id": id,
        "resume_gateway_url": format!("ws://{}", shared.address),
        "application": {"id": bot.to_string(), "flags": 0},
    });
    let mut session = Session { id, bot, sequence: 0, log: Vec::new(), line: Some(line.clone()) };
    let mut events = vec![("READY", ready)];
    events.extend(guilds.iter().map(|guild| ("GUILD_CREATE", world.full_guild(*guild))));
    for (name, data) in events {
        session.sequence += 1;
        let text = json!({"op": 0, "t": name, "s": session.sequence, "d": data}).to_string();
        session.log.push((session.sequence, text));
    }
    // Into the line under the lock, so that no later event overtakes them.
    session.log.iter().for_each(|(_, text)| {
        let _ = line.send(Frame::Text(text.clone()));
    });
    world.sessions.push(session);
    Vec::new()
}

fn resume(shared: &Shared, wish: &Value, line: &Line) -> Vec<Frame> {
    let mut world = shared.world();
    let Some(bot) = known(&world, wish) else { return vec![Frame::Close(4004)] };
    let sequence = wish["seq"].as_u64().unwrap_or(0);
    let Some(session) =
        world.sessions.iter_mut().find(|session| session.id == wish["session_id"] && session.bot == bot)
    else {
        return vec![Frame::Text(json!({"op": 9, "d": false, "s": null, "t": null}).to_string())];
    };
    if sequence > session.sequence {
        return vec![Frame::Close(4007)];
    }
    session.line = Some(line.clone());
    let known = session.log.iter().filter(|(number, _)| *number <= sequence);
    let known: Vec<u64> = known.filter_map(|(_, text)| message_told(text)).collect();
    for (_, text) in session.log.iter().filter(|(number, _)| *number > sequence) {
        let _ = line.send(Frame::Text(text.clone()));
    }
    session.sequence += 1;
    let resumed = json!({"op": 0, "t": "RESUMED", "s": session.sequence, "d": {}}).to_string();
    session.log.push((session.sequence, resumed.clone()));
    let _ = line.send(Frame::Text(resumed));
    world.acknowledged.extend(known);
    world.resumed += 1;
    Vec::new()
}

/// The message that an event tells of.
fn message_told(event: &str) -> Option<u64> {
    let event: Value = serde_json::from_str(event).ok()?;
    let id = event["d"]["id"].as_str().filter(|_| event["t"] == "MESSAGE_CREATE")?;
    id.parse().ok()
}

fn known(world: &super::DiscordState, wish: &Value) -> Option<u64> {
    let token = wish["token"].as_str()?.trim_start_matches("Bot ");
    let bot = world.bots.iter().find(|bot| bot.token == token && !world.revoked.contains(token));
    bot.map(|bot| bot.id)
}

async fn close(socket: &mut WebSocket, code: u16) {
    let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: "".into() }))).await;
    // The bot that hears it answers.
    while let Some(Ok(_)) = socket.recv().await {}
}

/// The session stays; no bot is connected.
fn hang_up(shared: &Shared, line: &Line) {
    for session in &mut shared.world().sessions {
        session.line = session.line.take().filter(|other| !other.same_channel(line));
    }
}
