//! Listening: one connection after the other to Discord's gateway, each going on where the last ended.
//!
//! - events are taken one by one, in order; the cursor follows what was taken, never what was received
//! - while one is being taken, the connection is kept alive and what comes in meanwhile waits here, up
//!   to a bound: it is not acknowledged, and Discord sends it again if this process ends
//! - every connection is begun by us with our own cursor, so there is one way to go on, after a
//!   lost connection as after a restart
//! - what a new session cannot replay is read from the channels ([`super::cursor::MissedSpan`])

use super::channels::DiscordPlace;
use super::cursor::{Cursor, GatewaySession};
use super::event::{Delivered, DiscordEventReader};
use super::payload::{
    DiscordChannel, DiscordMessage, Frame, Guild, GuildMember, Id, Interaction, InteractionChoice, Ready,
    User, WithId, display_name,
};
use super::rest::RestError;
use super::{Discord, NAME, REVOKED, buttons};
use crate::adapter::{ListenEnded, StopSignal};
use crate::incoming::{Incoming, Intake, IntakeOutcome, Press};
use futures_util::StreamExt;
use reqwest::Method;
use serde_json::json;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use throughline_core::port::{Health, Platform, Promise};
use tokio::time::{Instant, sleep, sleep_until};
use twilight_gateway::queue::InMemoryQueue;
use twilight_gateway::{ConfigBuilder, Intents, Message as Item, Shard, ShardId, ShardState};

/// Servers and their channels, what is said there and in direct chats, and what it says. The last is
/// the one that must be switched on in the Developer Portal.
const INTENTS: Intents = Intents::from_bits_truncate(
    Intents::GUILDS.bits()
        | Intents::GUILD_MESSAGES.bits()
        | Intents::DIRECT_MESSAGES.bits()
        | Intents::MESSAGE_CONTENT.bits(),
);

/// From connecting to a session. The queue for new sessions alone takes 5 s.
const SESSION_WAIT_MAX: Duration = Duration::from_secs(45);
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Events that may wait while one is being taken. With more, the connection is left to itself: it
/// breaks, and they come again.
const AHEAD_MAX: usize = 1_000;
/// How long taken events may be missing from the cursor on disk: they would only be sent again.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// How often something is tried that the platform must not hear of before it worked.
const AGAIN_MAX: Duration = Duration::from_secs(15);
/// Missed messages that are read per channel: pages of a hundred, to the end. The bound is against a server that never
/// comes to one; no channel has so much within the days that a gateway is away.
const PAGES_MAX: usize = 1_000;
const PAGE: usize = 100;

/// What a person who may not use a command reads.
const NOT_FOR_YOU: &str = "You are not allowed to use this bot here.";
const EPHEMERAL: u32 = 1 << 6;

/// How a connection ended.
enum GatewayEnd {
    Stopped,
    /// Go on where it was.
    Lost(String),
    /// Discord does not know the session any more.
    Forgotten,
    Refused(String),
}

/// What a handled event means for the connection.
enum Next {
    Go,
    Leave(GatewayEnd),
}

impl Discord {
    pub(super) async fn attend(&self, intake: &dyn Intake, mut stop: StopSignal) -> ListenEnded {
        let me = tokio::select! {
            me = self.introduce() => me,
            () = stop.rung() => return ListenEnded::Stopped,
        };
        let me = match me {
            Ok(me) => me,
            Err(reason) => return self.refuse(reason),
        };
        let kept = intake.cursor(NAME, &self.account).await;
        let mut listener = GatewayListener {
            discord: self,
            intake,
            me,
            cursor: kept.as_deref().map(Cursor::parse).unwrap_or_default(),
            is_kept: true,
            is_up: false,
        };
        let courtesy = async {
            if !self.settings.commands.is_empty() {
                self.register().await;
            }
            std::future::pending::<()>().await
        };
        let ended = tokio::select! {
            ended = listener.stay(stop) => ended,
            () = courtesy => ListenEnded::Stopped,
        };
        match ended {
            ListenEnded::Refused(reason) => self.refuse(reason),
            ListenEnded::Stopped => ended,
        }
    }

    fn refuse(&self, reason: String) -> ListenEnded {
        self.feels(Health::Refused(reason.clone()));
        ListenEnded::Refused(reason)
    }

    /// Who we are, which a resumed session does not say.
    async fn introduce(&self) -> Result<Id, String> {
        let mut pause = BACKOFF_MIN;
        loop {
            match self.rest.get::<User>("/users/@me").await {
                Ok(user) => return Ok(user.id),
                Err(fault) if fault.is_unauthorized() => return Err(REVOKED.to_owned()),
                Err(fault) => self.feels(Health::Waiting(fault.to_string())),
            }
            sleep(pause).await;
            pause = (pause * 2).min(BACKOFF_MAX);
        }
    }
}

struct GatewayListener<'a> {
    discord: &'a Discord,
    intake: &'a dyn Intake,
    me: Id,
    cursor: Cursor,
    /// The cursor on disk is this one.
    is_kept: bool,
    /// This connection has a session.
    is_up: bool,
}

impl GatewayListener<'_> {
    /// Connects again and again.
    async fn stay(&mut self, mut stop: StopSignal) -> ListenEnded {
        let queue = InMemoryQueue::default();
        let mut pause = BACKOFF_MIN;
        loop {
            let mut shard = self.shard(&queue);
            let left = self.converse(&mut shard, &mut stop).await;
            drop(shard); // without a farewell, which would end the session
            self.keep().await;
            match left {
                GatewayEnd::Stopped => return ListenEnded::Stopped,
                GatewayEnd::Refused(reason) => return ListenEnded::Refused(reason),
                GatewayEnd::Forgotten => {
                    self.cursor.session = None;
                    let reason = "Discord has forgotten the session; a new one is begun".to_owned();
                    self.discord.feels(Health::Waiting(reason));
                }
                GatewayEnd::Lost(reason) => {
                    match (self.is_up, &mut self.cursor.session) {
                        (true, _) => pause = BACKOFF_MIN,
                        // The host it was to be resumed at may be gone: any other resumes it, too.
                        (false, Some(session)) => session.resume_url.clear(),
                        (false, None) => {}
                    }
                    tracing::info!(reason, "the connection to Discord was lost");
                    self.discord.feels(Health::Waiting(reason));
                }
            }
            tokio::select! {
                () = sleep(pause) => pause = (pause * 2).min(BACKOFF_MAX),
                () = stop.rung() => return ListenEnded::Stopped,
            }
        }
    }

    fn shard(&self, queue: &InMemoryQueue) -> Shard {
        let settings = &self.discord.settings;
        throughline_net::install_tls();
        let token = settings.token.expose().to_owned();
        let mut config = ConfigBuilder::new(token, INTENTS).queue(queue.clone());
        if let Some(url) = &settings.gateway_url {
            config = config.proxy_url(url.trim_end_matches('/').to_owned());
        }
        if let Some(session) = &self.cursor.session {
            config = config.session(twilight_gateway::Session::new(session.sequence, session.id.clone()));
            // The token goes where this leads, and the cursor has been on disk.
            if let Some(origin) = self.discord.gateway_at(&session.resume_url) {
                config = config.resume_url(origin);
            }
        }
        Shard::with_config(ShardId::ONE, config.build())
    }

    /// Takes what comes until the connection ends.
    async fn converse(&mut self, shard: &mut Shard, stop: &mut StopSignal) -> GatewayEnd {
        let deadline = Instant::now() + SESSION_WAIT_MAX;
        let mut ahead: VecDeque<GatewayArrival> = VecDeque::new();
        let mut keep_at = Instant::now() + KEEP_EVERY;
        let mut is_open = true;
        self.is_up = false;
        loop {
            let arrived = match ahead.pop_front() {
                Some(arrived) => arrived,
                None => tokio::select! {
                    biased;
                    () = stop.rung() => return GatewayEnd::Stopped,
                    arrived = next(shard) => arrived,
                    () = sleep_until(deadline), if !self.is_up => {
                        return GatewayEnd::Lost("Discord does not open a session".to_owned());
                    }
                    () = sleep_until(keep_at), if !self.is_kept => {
                        self.keep().await;
                        keep_at = Instant::now() + KEEP_EVERY;
                        continue;
                    }
                },
            };
            let mut taking = pin!(self.take(arrived));
            let followed = loop {
                tokio::select! {
                    biased;
                    () = stop.rung() => return GatewayEnd::Stopped, // it was not acknowledged, and comes again
                    followed = &mut taking => break followed,
                    arrived = next(shard), if is_open && ahead.len() < AHEAD_MAX => {
                        is_open = !matches!(arrived, GatewayArrival::End(_));
                        ahead.push_back(arrived);
                    }
                }
            };
            if let Next::Leave(left) = followed {
                return left;
            }
        }
    }

    async fn take(&mut self, arrived: GatewayArrival) -> Next {
        match arrived {
            GatewayArrival::End(left) => Next::Leave(left),
            GatewayArrival::Nonsense => Next::Go,
            GatewayArrival::Text(text) => match serde_json::from_str::<Frame<'_>>(&text) {
                Ok(frame) => {
                    let next = self.event(&frame).await;
                    if matches!(next, Next::Go) && frame.op == 0 {
                        self.cursor.advance(frame.s);
                        self.is_kept = false;
                    }
                    next
                }
                Err(error) => {
                    tracing::warn!(%error, "Discord sent a frame that cannot be read; it is left out");
                    Next::Go
                }
            },
        }
    }

    async fn event(&mut self, frame: &Frame<'_>) -> Next {
        match (frame.op, frame.t.as_deref()) {
            (0, Some("READY")) => self.ready(frame).await,
            (0, Some("RESUMED")) => {
                self.goes_well();
                self.catch_up_direct().await // where an earlier start left off
            }
            (0, Some("MESSAGE_CREATE")) => match self.parsed(frame) {
                Some(message) => self.message(message, Delivered::Written).await,
                None => Next::Go,
            },
            (0, Some("MESSAGE_UPDATE")) => match frame.data() {
                Ok(message) => self.message(message, Delivered::Changed).await,
                Err(_) => Next::Go, // a preview of a link has no author
            },
            (0, Some("INTERACTION_CREATE")) => match self.parsed(frame) {
                Some(interaction) => self.interaction(interaction).await,
                None => Next::Go,
            },
            (0, Some("GUILD_CREATE")) => match self.parsed::<Guild>(frame) {
                Some(guild) => self.guild(guild).await,
                None => Next::Go,
            },
            (0, Some("GUILD_UPDATE" | "GUILD_DELETE")) => {
                if let Ok(guild) = frame.data::<WithId>() {
                    self.discord.places.forget_guild(guild.id);
                    let is_gone = frame.t.as_deref() == Some("GUILD_DELETE") && !is_outage(frame);
                    is_gone.then(|| self.cursor.settle(guild.id));
                }
                Next::Go
            }
            (0, Some("CHANNEL_UPDATE" | "CHANNEL_DELETE" | "THREAD_UPDATE" | "THREAD_DELETE")) => {
                if let Ok(channel) = frame.data::<WithId>() {
                    self.discord.places.forget(channel.id);
                }
                Next::Go
            }
            (7, _) => Next::Leave(GatewayEnd::Lost("Discord asked to connect again".to_owned())),
            (9, _) => Next::Leave(match frame.data::<bool>() {
                Ok(true) => GatewayEnd::Lost("Discord asked to resume".to_owned()),
                _ => GatewayEnd::Forgotten,
            }),
            _ => Next::Go,
        }
    }

    fn parsed<T: serde::de::DeserializeOwned>(&self, frame: &Frame<'_>) -> Option<T> {
        let parsed = frame.data();
        if let Err(error) = &parsed {
            let id = frame.data::<WithId>().map(|named| named.id.to_string()).unwrap_or_default();
            tracing::warn!(event = frame.t, id, %error, "Discord sent an event that cannot be read; it is left out");
        }
        parsed.ok()
    }

    async fn ready(&mut self, frame: &Frame<'_>) -> Next {
        let Some(ready) = self.parsed::<Ready>(frame) else {
            return Next::Leave(GatewayEnd::Lost("Discord's greeting cannot be read".to_owned()));
        };
        let session = GatewaySession {
            id: ready.session_id,
            resume_url: ready.resume_gateway_url,
            sequence: frame.s.unwrap_or(0),
        };
        let guilds = ready.guilds.iter().map(|guild| guild.id).collect();
        self.cursor.begin(session, guilds, Id::made_at(self.intake.now()));
        // What is owed is on disk before anything can be taken that would hide it.
        self.is_kept = false;
        self.keep().await;
        self.goes_well();
        self.catch_up_direct().await
    }

    /// What was missed in direct chats: Discord does not list them.
    async fn catch_up_direct(&mut self) -> Next {
        let Some(gap) = self.cursor.gap.clone().filter(|gap| gap.direct) else { return Next::Go };
        for channel in self.cursor.direct.clone() {
            if let Next::Leave(left) = self.catch_up(channel, None, gap.after).await {
                return Next::Leave(left);
            }
        }
        self.cursor.settle_direct();
        Next::Go
    }

    /// A server is there. If the bot was away for a while, its channels say what was missed.
    async fn guild(&mut self, guild: Guild) -> Next {
        if let Some(name) = &guild.name {
            self.discord.places.name_guild(guild.id, name);
        }
        let Some(gap) = self.cursor.gap.clone().filter(|gap| gap.guilds.contains(&guild.id)) else {
            return Next::Go;
        };
        let missed = |channel: &&DiscordChannel| channel.last_message_id > Some(gap.after);
        for channel in guild.channels.iter().chain(&guild.threads).filter(missed) {
            if let Next::Leave(left) = self.catch_up(channel.id, Some(guild.id), gap.after).await {
                return Next::Leave(left);
            }
        }
        self.cursor.settle(guild.id);
        Next::Go
    }

    /// What was written in a channel after `after`, oldest first.
    async fn catch_up(&mut self, channel: Id, guild: Option<Id>, mut after: Id) -> Next {
        for _ in 0..PAGES_MAX {
            let path = format!("/channels/{channel}/messages?after={after}&limit={PAGE}");
            let rest = &self.discord.rest;
            let page = self.insist(|| Box::pin(rest.get::<Vec<serde_json::Value>>(&path))).await;
            let page = match page {
                Ok(page) => page,
                Err(HandlingError::Gone(fault)) => {
                    tracing::info!(%channel, %fault, "what was missed in a channel cannot be read");
                    return Next::Go;
                }
                Err(HandlingError::Leave(left)) => return Next::Leave(left),
            };
            let full = page.len() >= PAGE;
            let mut messages: Vec<DiscordMessage> =
                page.into_iter().filter_map(|message| serde_json::from_value(message).ok()).collect();
            messages.sort_by_key(|message| message.id);
            let Some(last) = messages.last().map(|message| message.id) else { return Next::Go };
            for mut message in messages {
                message.guild_id = message.guild_id.or(guild);
                if let Next::Leave(left) = self.message(message, Delivered::Written).await {
                    return Next::Leave(left);
                }
            }
            match full {
                true => after = last,
                false => return Next::Go,
            }
        }
        tracing::error!(%channel, "more than {} messages were missed in a channel; the rest is left out", PAGES_MAX * PAGE);
        Next::Go
    }

    async fn message(&mut self, mut message: DiscordMessage, told: Delivered) -> Next {
        let (id, channel) = (message.id, message.channel_id);
        if message.author.id == self.me {
            return Next::Go;
        }
        let place = match self.place(&message).await {
            Ok(place) => place,
            Err(HandlingError::Leave(left)) => return Next::Leave(left),
            Err(HandlingError::Gone(fault)) => {
                tracing::warn!(message = %id, %channel, %fault, "a message came from a channel that cannot be seen; it is left out");
                return Next::Go;
            }
        };
        let read = self.reader().read(&message, &place, told);
        if let Some(read) = read {
            let context = match self.reader().has_history(&read, &place) && told == Delivered::Written {
                true => self.context(channel, id).await,
                false => None,
            };
            let mut incoming = Incoming { context, ..read.incoming };
            if message.member.is_none()
                && let Some(guild) = message.guild_id.filter(|_| !incoming.from_bot)
            {
                // A message that was looked up does not say what its author is in the server.
                message.member = self.member(guild, message.author.id).await;
                incoming.roles = super::event::roles(&message.author, message.member.as_ref());
            }
            let taken = self.kept(incoming).await;
            if let (IntakeOutcome::Kept, Some(thread)) = (taken, read.thread) {
                // Should this fail, the reply begins the thread.
                let _ = self.discord.begin_thread(&thread).await;
            }
        }
        if told == Delivered::Written {
            self.cursor.saw(id);
        }
        if place.is_direct() {
            self.cursor.saw_direct(channel);
        }
        Next::Go
    }

    /// What was said before it. It is done without where it is not to be had at once.
    async fn context(&self, channel: Id, message: Id) -> Option<String> {
        let settings = &self.discord.settings;
        let path = format!("/channels/{channel}/messages?before={message}&limit={}", settings.history);
        let page: Vec<serde_json::Value> = self.discord.rest.get(&path).await.ok()?;
        let messages: Vec<DiscordMessage> =
            page.into_iter().filter_map(|message| serde_json::from_value(message).ok()).collect();
        super::history::context(&messages, self.me, settings.history_with_bots)
    }

    /// A command, or a button.
    async fn interaction(&mut self, interaction: Interaction) -> Next {
        let Some((chosen, user, place)) = self.scene(&interaction) else { return Next::Go };
        let name = display_name(&user, interaction.member.as_ref());
        let reader = self.reader();
        let mut source = reader.source_of(&place, &user, name);
        source.scope_id = interaction.guild_id.map(|guild| guild.to_string());
        match interaction.kind {
            2 => {
                let reply_to = reader.destination(&source, None);
                let incoming = Incoming {
                    source,
                    reply_to,
                    identity: vec![interaction.id.to_string()],
                    at: interaction.id.at(),
                    text: typed(chosen),
                    attachments: Vec::new(),
                    quoted: None,
                    from_bot: user.bot,
                    addressed: true,
                    mentioned: true,
                    roles: super::event::roles(&user, interaction.member.as_ref()),
                    edited: false,
                    context: None,
                    skills: Vec::new(),
                    gathers: None,
                };
                let taken = self.kept(incoming).await;
                self.acknowledge(&interaction, &taken).await;
            }
            3 => match buttons::pressed(&chosen.custom_id) {
                Some((call, verdict)) => {
                    let press = Press { source, call, verdict };
                    let said = match self.intake.press(press).await {
                        Ok(said) => said,
                        Err(not_now) => {
                            format!("That could not be kept: {not_now}. Press it again in a moment.")
                        }
                    };
                    self.whisper(&interaction, &said).await;
                }
                None => tracing::debug!("a button that is not ours was pressed"),
            },
            _ => {}
        }
        Next::Go
    }

    fn scene<'i>(&self, interaction: &'i Interaction) -> Option<(&'i InteractionChoice, User, DiscordPlace)> {
        let member = interaction.member.as_ref();
        let user = member.and_then(|member| member.user.clone()).or_else(|| interaction.user.clone())?;
        let id = interaction.channel_id.or(interaction.channel.as_ref().map(|channel| channel.id))?;
        let told = interaction.channel.clone().unwrap_or_else(|| DiscordChannel {
            id,
            kind: if interaction.guild_id.is_some() { 0 } else { 1 },
            guild_id: interaction.guild_id,
            parent_id: None,
            owner_id: None,
            name: None,
            topic: None,
            last_message_id: None,
        });
        // Three seconds are left to answer in: no time to ask around.
        let place = self.discord.places.at_hand(told, interaction.guild_id);
        Some((interaction.data.as_ref()?, user, place))
    }

    /// Tells the person who typed a command that it was heard. The answer comes like any other.
    async fn acknowledge(&self, interaction: &Interaction, taken: &IntakeOutcome) {
        if *taken == IntakeOutcome::Ignored {
            return self.whisper(interaction, NOT_FOR_YOU).await;
        }
        let deferred = json!({"type": 5, "data": {"flags": EPHEMERAL}});
        if self.respond(interaction, deferred).await.is_ok() {
            // People should not look at "thinking …" for a quarter of an hour.
            let path =
                format!("/webhooks/{}/{}/messages/@original", interaction.application_id, interaction.token);
            let _ = self.discord.rest.ask(Method::DELETE, &path, super::rest::RestBody::Nothing).await;
        }
    }

    /// A few words that only the one who typed or pressed can see.
    async fn whisper(&self, interaction: &Interaction, text: &str) {
        let content = super::split::shortened(text);
        let _ = self
            .respond(interaction, json!({"type": 4, "data": {"content": content, "flags": EPHEMERAL}}))
            .await;
    }

    async fn respond(&self, interaction: &Interaction, body: serde_json::Value) -> Result<(), RestError> {
        let path = format!("/interactions/{}/{}/callback", interaction.id, interaction.token);
        let answered = self.discord.rest.post(&path, body).await;
        if let Err(fault) = &answered {
            tracing::info!(%fault, "an interaction could not be acknowledged; it was taken all the same");
        }
        answered.map(|_| ())
    }

    /// Hands it in until it is taken.
    async fn kept(&mut self, incoming: Incoming) -> IntakeOutcome {
        let mut pause = Duration::from_millis(100);
        loop {
            match self.intake.take(incoming.clone()).await {
                Ok(taken) => {
                    if matches!(self.discord.health(), Health::Waiting(_)) {
                        self.discord.feels(Health::Up);
                    }
                    return taken;
                }
                Err(not_now) => {
                    let reason = format!("a message waits to be kept: {not_now}");
                    self.discord.feels(Health::Waiting(reason));
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(AGAIN_MAX);
        }
    }

    async fn place(&mut self, message: &DiscordMessage) -> Result<DiscordPlace, HandlingError> {
        let (channel, guild) = (message.channel_id, message.guild_id);
        let Discord { places, rest, .. } = self.discord;
        self.insist(|| Box::pin(places.look_up(rest, channel, guild))).await
    }

    async fn member(&self, guild: Id, user: Id) -> Option<GuildMember> {
        let path = format!("/guilds/{guild}/members/{user}");
        let rest = &self.discord.rest;
        self.insist(|| Box::pin(rest.get::<GuildMember>(&path))).await.ok()
    }

    /// Asks until there is an answer.
    async fn insist<'p, T>(
        &self,
        ask: impl Fn() -> Promise<'p, Result<T, RestError>> + Send + Sync,
    ) -> Result<T, HandlingError> {
        let mut pause = Duration::from_millis(500);
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                // The next connection will say so, too.
                Err(fault) if fault.is_unauthorized() => {
                    return Err(HandlingError::Leave(GatewayEnd::Lost(fault.to_string())));
                }
                Err(RestError::Limited(wait)) => sleep(wait).await,
                Err(fault) if fault.will_pass() => sleep(pause).await,
                Err(fault) => return Err(HandlingError::Gone(fault)),
            }
            pause = (pause * 2).min(AGAIN_MAX);
        }
    }

    fn goes_well(&mut self) {
        self.is_up = true;
        self.discord.feels(Health::Up);
    }

    fn reader(&self) -> DiscordEventReader<'_> {
        DiscordEventReader { settings: &self.discord.settings, account: &self.discord.account, me: self.me }
    }

    async fn keep(&mut self) {
        if self.is_kept {
            return;
        }
        let kept = self.intake.keep(NAME, &self.discord.account, self.cursor.text()).await;
        match kept {
            Ok(()) => self.is_kept = true,
            Err(not_now) => tracing::warn!(%not_now, "the place in Discord's events could not be kept"),
        }
    }
}

enum HandlingError {
    Gone(RestError),
    Leave(GatewayEnd),
}

/// What came over a connection.
enum GatewayArrival {
    Text(String),
    Nonsense,
    End(GatewayEnd),
}

async fn next(shard: &mut Shard) -> GatewayArrival {
    let item = poll_fn(|context| {
        let was_connected = !matches!(shard.state(), ShardState::Disconnected { .. });
        match shard.poll_next_unpin(context) {
            Poll::Ready(item) => Poll::Ready(Ok(item)),
            // It would connect again by itself, unnoticed.
            Poll::Pending if was_connected && matches!(shard.state(), ShardState::Disconnected { .. }) => {
                Poll::Ready(Err(GatewayEnd::Lost("the connection to Discord broke".to_owned())))
            }
            Poll::Pending => Poll::Pending,
        }
    });
    let item = match item.await {
        Ok(item) => item,
        Err(left) => return GatewayArrival::End(left),
    };
    match item {
        Some(Ok(Item::Text(text))) => GatewayArrival::Text(text),
        Some(Ok(Item::Close(frame))) => GatewayArrival::End(farewell(frame.map(|frame| frame.code))),
        Some(Err(error)) => match error.kind() {
            // It says what it could not read, which may be anything.
            twilight_gateway::error::ReceiveMessageErrorType::Deserializing { .. } => {
                tracing::warn!("Discord sent a frame that is not one; it is left out");
                GatewayArrival::Nonsense
            }
            _ => {
                GatewayArrival::End(GatewayEnd::Lost(format!("Discord's gateway cannot be reached: {error}")))
            }
        },
        None => GatewayArrival::End(GatewayEnd::Lost("Discord closed the connection".to_owned())),
    }
}

/// What a closing code means.
fn farewell(code: Option<u16>) -> GatewayEnd {
    match code {
        Some(4004) => GatewayEnd::Refused(REVOKED.to_owned()),
        Some(4013 | 4014) => GatewayEnd::Refused(
            "Discord does not let the bot read messages: open its page in the Discord Developer Portal, switch on \
             Message Content Intent under Bot, and restart the gateway."
                .to_owned(),
        ),
        Some(4010..=4012) => GatewayEnd::Refused(format!(
            "Discord closed the connection for good ({}): the bot is in too many servers for one connection, or this \
             version is too old. Update Throughline.",
            code.unwrap_or_default()
        )),
        // Out of step, or too late: only a new session helps.
        Some(4003 | 4007 | 4009) => GatewayEnd::Forgotten,
        Some(4008) => GatewayEnd::Lost("Discord says that it was asked too often".to_owned()),
        Some(code) => GatewayEnd::Lost(format!("Discord closed the connection ({code})")),
        None => GatewayEnd::Lost("Discord closed the connection".to_owned()),
    }
}

/// A server that is only out of order for a while.
fn is_outage(frame: &Frame<'_>) -> bool {
    frame.data::<serde_json::Value>().is_ok_and(|guild| guild["unavailable"] == true)
}

/// A command as if it had been written.
fn typed(chosen: &InteractionChoice) -> String {
    let words = chosen.options.iter().map(|option| match &option.value {
        serde_json::Value::String(text) => text.trim().to_owned(),
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    });
    let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    format!("/{} {}", chosen.name, words.join(" ")).trim_end().to_owned()
}
