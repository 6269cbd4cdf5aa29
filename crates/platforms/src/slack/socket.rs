//! Socket Mode: a websocket over which Slack hands out envelopes and waits for receipts.
//!
//! - one envelope at a time, in order; a receipt goes out when the intake has taken what was in it
//! - while the intake cannot take it, the same envelope is tried again here, and its neighbours wait:
//!   unread in the socket beyond a few, and unacknowledged at Slack
//! - when Slack announces that it will hang up, the next connection is opened while this one is finished
//! - a connection that is silent although it was pinged is dead, even if the socket says otherwise

use super::api::{CallBody, SlackFailure, TokenKind};
use super::event::{ChannelKind, SlackApp, SlackEventReader, SlackMessage};
use super::{COURTESY, PLATFORM, Slack};
use crate::adapter::{ListenEnded, StopSignal};
use crate::incoming::{Incoming, Intake, IntakeOutcome, NotNow};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::input::Destination;
use throughline_core::port::Health;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_websockets::{ClientBuilder, Limits, MaybeTlsStream, Message as Frame, WebSocketStream};

/// Slack's events are small; a page of text with a hundred files is far below this.
const FRAME_MAX: usize = 16 << 20;
/// Read ahead while one envelope is being taken. The others stay at Slack.
const AHEAD_MAX: usize = 32;
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long a connection that is left may finish what it has begun. Slack gives ten seconds.
const FAREWELL: Duration = Duration::from_secs(3);
/// Another gateway on the same app may have gone by then.
const CROWDED: Duration = Duration::from_secs(300);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Why there is no connection.
enum NotOpen {
    Refused(String),
    Later { words: String, after: Option<Duration> },
}

/// Why a connection was left.
enum SocketEnd {
    Stopped,
    Refused(String),
    /// Slack asked for a fresh one, which is here if it could be had.
    Refreshed(Option<Socket>),
    Lost(String),
}

struct SocketEnvelope {
    id: String,
    kind: String,
    answerable: bool,
    payload: Value,
}

/// What a frame meant.
enum Meaning {
    Hello { connections: u64 },
    Disconnect { reason: String },
    Envelope(SocketEnvelope),
    Nothing,
}

impl Slack {
    pub(super) async fn attend(&self, intake: Arc<dyn Intake>, mut stop: StopSignal) -> ListenEnded {
        let mut pause = self.settings.pace;
        let mut next = None;
        loop {
            // The connection before it may still be counted.
            let ours = if next.is_some() { 2 } else { 1 };
            let opened = match next.take() {
                Some(socket) => Ok(socket),
                None => tokio::select! {
                    biased;
                    () = stop.rung() => return ListenEnded::Stopped,
                    opened = self.open() => opened,
                },
            };
            let (words, after) = match opened {
                Err(NotOpen::Refused(words)) => return self.refused(words),
                Err(NotOpen::Later { words, after }) => (words, after),
                Ok(socket) => {
                    let began = Instant::now();
                    let left = self.converse(socket, ours, intake.as_ref(), &mut stop).await;
                    // A connection that held for a while was none of the reason for the pause.
                    let held = began.elapsed();
                    if held > self.settings.silence {
                        pause = self.settings.pace;
                    }
                    match left {
                        SocketEnd::Stopped => return ListenEnded::Stopped,
                        SocketEnd::Refused(words) => return self.refused(words),
                        SocketEnd::Refreshed(socket) => {
                            next = socket;
                            if held > self.settings.pace {
                                continue;
                            }
                            ("Slack asks for a fresh connection again and again".to_owned(), None)
                        }
                        SocketEnd::Lost(words) => (words, None),
                    }
                }
            };
            tracing::warn!(account = self.account, words, "Slack is not connected");
            self.is(Health::Waiting(words));
            let wait = after.unwrap_or_default().max(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            tokio::select! {
                biased;
                () = stop.rung() => return ListenEnded::Stopped,
                () = sleep(wait) => {}
            }
        }
    }

    fn refused(&self, words: String) -> ListenEnded {
        self.is(Health::Refused(words.clone()));
        ListenEnded::Refused(words)
    }

    /// Asks who we are and where to connect, and connects.
    async fn open(&self) -> Result<Socket, NotOpen> {
        let who = self.call("auth.test", CallBody::Form(&[])).await.map_err(not_open)?;
        let text = |name: &str| who[name].as_str().map(str::to_owned);
        let Some(user) = text("user_id") else {
            let words = "Slack did not say who we are".to_owned();
            return Err(NotOpen::Later { words, after: None });
        };
        self.state().me = Some(SlackApp { user, bot: text("bot_id"), team: text("team_id") });
        self.connect().await
    }

    async fn connect(&self) -> Result<Socket, NotOpen> {
        let later = |words: &str| NotOpen::Later { words: words.to_owned(), after: None };
        let opened = self.api.call(TokenKind::App, "apps.connections.open", CallBody::Form(&[])).await;
        let answer = opened.map_err(not_open)?;
        // The address carries a ticket: it is never shown.
        let address = answer["url"].as_str().unwrap_or_default();
        let safe = address.starts_with("wss://") || (self.api.is_plain() && address.starts_with("ws://"));
        if !safe {
            return Err(later("Slack named no address to connect to"));
        }
        let limits = Limits::default().max_payload_len(Some(FRAME_MAX));
        let builder =
            ClientBuilder::new().uri(address).map_err(|_| later("Slack named no address to connect to"))?;
        let builder = builder.limits(limits);
        match timeout(self.settings.patience, builder.connect()).await {
            Ok(Ok((socket, _))) => Ok(socket),
            Ok(Err(_)) => Err(later("Slack's websocket refused the connection")),
            Err(_) => Err(later("Slack's websocket did not answer in time")),
        }
    }

    async fn converse(
        &self,
        mut socket: Socket,
        ours: u64,
        intake: &dyn Intake,
        stop: &mut StopSignal,
    ) -> SocketEnd {
        let (work, mut waiting) = mpsc::channel::<SocketEnvelope>(AHEAD_MAX);
        let (receipts, mut written) = mpsc::channel::<String>(AHEAD_MAX);
        let worker = async {
            while let Some(envelope) = waiting.recv().await {
                self.work(envelope, intake, &receipts).await;
            }
        };
        tokio::pin!(worker);
        let mut work = Some(work);
        let mut done = false;
        let mut heard = Instant::now();
        let mut leaving: Option<(SocketEnd, Instant)> = None;
        let mut crowded: Option<Instant> = None;
        let mut greeted = false;
        let mut beat = interval((self.settings.silence / 3).max(Duration::from_millis(10)));
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let left = loop {
            let has_room = work.as_ref().is_some_and(|work| work.capacity() > 0);
            let deadline = leaving.as_ref().map(|(_, deadline)| *deadline);
            tokio::select! {
                biased;
                () = stop.rung(), if !matches!(leaving, Some((SocketEnd::Stopped, _))) => {
                    leaving = Some((SocketEnd::Stopped, Instant::now() + FAREWELL));
                    work = None;
                }
                receipt = written.recv() => {
                    let Some(receipt) = receipt else { continue };
                    let sent = timeout(self.settings.patience, socket.send(Frame::text(receipt))).await;
                    if !matches!(sent, Ok(Ok(()))) {
                        break SocketEnd::Lost("the connection to Slack broke; it is opened again".to_owned());
                    }
                }
                () = &mut worker, if !done => done = true,
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    break leaving.take().map_or(SocketEnd::Stopped, |(left, _)| left);
                }
                frame = socket.next(), if has_room => {
                    heard = Instant::now();
                    let Some(Ok(frame)) = frame else {
                        break SocketEnd::Lost("Slack hung up; it is called again".to_owned());
                    };
                    match meaning(&frame) {
                        Meaning::Hello { connections } => {
                            greeted = true;
                            crowded = (connections > ours).then(|| heard + CROWDED);
                            self.is(match crowded {
                                None => Health::Up,
                                Some(_) => Health::Waiting(format!(
                                    "{connections} connections are open for this Slack app, and each gets a part of its messages. Stop the other gateway that uses the same SLACK_APP_TOKEN"
                                )),
                            });
                        }
                        Meaning::Disconnect { reason } if reason == "link_disabled" => {
                            let off = SlackFailure::No { error: reason, needed: None };
                            break SocketEnd::Refused(off.in_words());
                        }
                        Meaning::Disconnect { reason } if reason == "too_many_websockets" => {
                            break SocketEnd::Lost("too many connections are open for this Slack app; one is tried again".to_owned());
                        }
                        Meaning::Disconnect { .. } => {
                            work = None;
                            leaving = Some((SocketEnd::Refreshed(None), heard + FAREWELL));
                        }
                        Meaning::Envelope(envelope) => {
                            if let Some(work) = &work {
                                let _ = work.try_send(envelope); // there is room, and this is the only sender
                            }
                        }
                        Meaning::Nothing => {}
                    }
                }
                now = beat.tick() => {
                    // What we did not read we cannot hold against it.
                    if !has_room {
                        heard = now;
                    }
                    if now.duration_since(heard) > self.settings.silence {
                        break SocketEnd::Lost("the connection to Slack went silent; it is opened again".to_owned());
                    }
                    if crowded.is_some_and(|until| now > until) && leaving.is_none() {
                        work = None;
                        leaving = Some((SocketEnd::Refreshed(None), now + FAREWELL));
                    }
                    let pinged = timeout(self.settings.patience, socket.send(Frame::ping("throughline"))).await;
                    if !matches!(pinged, Ok(Ok(()))) {
                        break SocketEnd::Lost("the connection to Slack broke; it is opened again".to_owned());
                    }
                }
            }
            if done && leaving.is_some() {
                // All that was begun is done; what it wrote goes out first.
                while let Ok(receipt) = written.try_recv() {
                    let _ = timeout(FAREWELL, socket.send(Frame::text(receipt))).await;
                }
                break leaving.take().map_or(SocketEnd::Stopped, |(left, _)| left);
            }
        };
        let left = match left {
            // The old connection stays until the new one stands: messages may come just now.
            SocketEnd::Refreshed(_) => match self.connect().await {
                Ok(socket) => SocketEnd::Refreshed(Some(socket)),
                Err(NotOpen::Refused(words)) => SocketEnd::Refused(words),
                Err(NotOpen::Later { .. }) => SocketEnd::Refreshed(None),
            },
            SocketEnd::Lost(_) if !greeted => {
                SocketEnd::Lost("Slack's websocket closed before it said hello".to_owned())
            }
            other => other,
        };
        let _ = timeout(Duration::from_secs(1), socket.close()).await;
        left
    }

    /// Takes what is in an envelope, and writes its receipt.
    async fn work(&self, envelope: SocketEnvelope, intake: &dyn Intake, receipts: &mpsc::Sender<String>) {
        let me = self.state().me.clone().unwrap_or_default();
        let reader = SlackEventReader { me: &me, account: &self.account, options: &self.settings.options };
        let mut receipt = json!({"envelope_id": envelope.id});
        let mut aside = None;
        match envelope.kind.as_str() {
            "events_api" => {
                if let Some(message) = SlackMessage::read(&envelope.payload, &me) {
                    let kind = self.kind_of(message.channel, message.kind).await;
                    let name = match message.user {
                        Some(user) => Some(self.name_of(user).await),
                        None => None,
                    };
                    let mut incoming = reader.message(&message, kind, name);
                    if let Some((thread, ts)) = message.joined_thread(&me) {
                        let asked =
                            timeout(COURTESY, self.said_before(message.channel, thread, ts, &me)).await;
                        let told = [asked.ok().flatten(), incoming.context.take()];
                        let told: Vec<String> = told.into_iter().flatten().collect();
                        incoming.context = (!told.is_empty()).then(|| told.join("\n\n"));
                    }
                    let taken = self.insist(incoming, intake).await;
                    if let (IntakeOutcome::Kept, Some(thread)) = (taken, message.thread()) {
                        self.has_heard(message.channel, thread, message.ts());
                    }
                }
                self.heed_event(&envelope.payload["event"]);
            }
            "slash_commands" => {
                if let Some(incoming) = reader.slash(&envelope.payload, intake.now()) {
                    if envelope.answerable {
                        let words =
                            format!("Running `{}` …", incoming.text.split_whitespace().next().unwrap_or("/"));
                        receipt["payload"] = json!({"response_type": "ephemeral", "text": words});
                    }
                    // Slack does not deliver a command again: without a receipt its author is told so.
                    if let Err(NotNow(words)) = intake.take(incoming).await {
                        tracing::warn!(account = self.account, words, "a command could not be kept");
                        return;
                    }
                }
            }
            "interactive" => {
                if let Some(mut press) = reader.press(&envelope.payload) {
                    // A circle looks like a channel by its id, and has another key.
                    let chat = &press.source.chat_id;
                    let said = chat.starts_with('D').then_some(ChannelKind::Direct);
                    press.source.chat_type = self.kind_of(chat, said).await.chat_type().to_owned();
                    let place = Destination {
                        platform: PLATFORM.to_owned(),
                        account: self.account.clone(),
                        chat: press.source.chat_id.clone(),
                        thread: press.source.thread_id.clone(),
                        reply_to: None,
                    };
                    let user = press.source.user_id.clone().unwrap_or_default();
                    match intake.press(press).await {
                        Ok(words) => aside = Some((place, user, words)),
                        Err(NotNow(words)) => {
                            tracing::warn!(account = self.account, words, "an answer could not be kept");
                            return;
                        }
                    }
                }
            }
            other => tracing::debug!(account = self.account, kind = other, "an envelope of an unknown kind"),
        }
        let _ = receipts.send(receipt.to_string()).await;
        if let Some((place, user, words)) = aside.filter(|(.., words)| !words.is_empty()) {
            self.whisper(&place, &user, &words).await;
        }
    }

    /// Until it is on disk. A stop ends this, and Slack delivers it again.
    async fn insist(&self, incoming: Incoming, intake: &dyn Intake) -> IntakeOutcome {
        let mut pause = self.settings.pace;
        let mut troubled = None;
        let taken = loop {
            match intake.take(incoming.clone()).await {
                Ok(taken) => break taken,
                Err(NotNow(words)) => {
                    tracing::warn!(
                        account = self.account,
                        words,
                        "a message could not be kept; trying again"
                    );
                    if troubled.is_none() {
                        troubled = Some(self.state().link.clone());
                    }
                    self.is(Health::Waiting(format!("messages cannot be kept: {words}")));
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        };
        if let Some(before) = troubled {
            self.is(before);
        }
        taken
    }

    fn heed_event(&self, event: &Value) {
        let words = match event["type"].as_str() {
            Some("app_uninstalled") => {
                "the Slack app was uninstalled. Install it again, and put the new token into SLACK_BOT_TOKEN"
            }
            Some("tokens_revoked") => {
                "Slack revoked tokens of this app (tokens_revoked). Reinstall it, and put the new token into SLACK_BOT_TOKEN"
            }
            _ => return,
        };
        self.state().refusal = Some(words.to_owned());
    }
}

fn not_open(failure: SlackFailure) -> NotOpen {
    match (failure.refusal(), &failure) {
        (Some(words), _) => NotOpen::Refused(words),
        (None, SlackFailure::Limited(after)) => NotOpen::Later { words: failure.in_words(), after: *after },
        (None, _) => NotOpen::Later { words: failure.in_words(), after: None },
    }
}

/// What does not make sense means nothing: the next frame may.
fn meaning(frame: &Frame) -> Meaning {
    let Some(mut value) = frame.as_text().and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return Meaning::Nothing;
    };
    let kind = value["type"].as_str().unwrap_or_default().to_owned();
    match (kind.as_str(), value["envelope_id"].as_str().map(str::to_owned)) {
        ("hello", _) => Meaning::Hello { connections: value["num_connections"].as_u64().unwrap_or(1) },
        ("disconnect", _) => {
            Meaning::Disconnect { reason: value["reason"].as_str().unwrap_or_default().to_owned() }
        }
        (_, Some(id)) => Meaning::Envelope(SocketEnvelope {
            id,
            kind,
            answerable: value["accepts_response_payload"] == true,
            payload: value["payload"].take(),
        }),
        (_, None) => Meaning::Nothing,
    }
}
