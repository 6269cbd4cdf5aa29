//! What comes in: long polling, or Telegram calling us.
//!
//! The next offset acknowledges, so it is asked for only after every update of a batch was taken and
//! the new offset is on disk. An intake that cannot take one now is given the whole batch again.
//!
//! The adapter tries again with growing pauses, for ever: a server that is down, a second
//! poller, a lost network. Only a token that Telegram does not know ends it.

use super::api::TelegramFailure;
use super::button::QuestionReference;
use super::update::{self, Pressed, TelegramBot, TelegramUpdateEvent, TelegramUpdateReader, read};
use super::{Bot, UpdateMode};
use crate::adapter::{ListenEnded, StopSignal};
use crate::incoming::{Intake, NotNow, Press};
use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use frankenstein::methods::{
    AnswerCallbackQueryParams, DeleteWebhookParams, GetUpdatesParams, SetWebhookParams,
};
use frankenstein::types::{AllowedUpdate, User};
use http::{Method, StatusCode};
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use throughline_core::Time;
use throughline_core::port::Health;
use throughline_core::redact::Secret;
use throughline_net::listener::{self, Visit};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};

/// As many updates as Telegram gives at once.
const BATCH_MAX: u32 = 100;
/// After a week of silence Telegram numbers anew, from anywhere. An offset older than this could
/// acknowledge what was not seen yet; without one, everything that is open comes, and what is known is
/// recognised.
const OFFSET_AGE_MAX: Duration = Duration::from_secs(5 * 24 * 3600);
/// An empty answer that came sooner than this was not waited for: another server answers in Telegram's place.
const EMPTY_MIN: Duration = Duration::from_millis(300);
/// The word to the person who pressed a button. Telegram shows it for a moment and cuts it there.
const WORD_LENGTH_MAX: usize = 200;
const WORD_PATIENCE: Duration = Duration::from_secs(5);
/// One update. Telegram's longest are some ten thousand bytes.
const UPDATE_BYTES_MAX: usize = 4 << 20;
const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";
/// Where Telegram calls if the address names no path.
const PATH: &str = "/telegram";
/// For calls that are being answered when everything stops.
const FAREWELL: Duration = Duration::from_secs(5);

pub(super) async fn listen(bot: &Arc<Bot>, intake: Arc<dyn Intake>, mut stop: StopSignal) -> ListenEnded {
    let ended = match &bot.settings.mode {
        // What was being taken when it stops was not acknowledged, and comes again.
        UpdateMode::Polling => tokio::select! {
            biased;
            () = stop.rung() => ListenEnded::Stopped,
            ended = poll(bot, intake.as_ref()) => ended,
        },
        UpdateMode::Webhook { url, listen, secret } => webhook(bot, intake, stop, url, *listen, secret).await,
    };
    if let ListenEnded::Refused(why) = &ended {
        bot.is(Health::Refused(why.clone()));
    }
    ended
}

impl Bot {
    fn reader<'a>(&'a self, me: &'a TelegramBot) -> TelegramUpdateReader<'a> {
        let super::TelegramSettings { topics, exclusive_mentions, patience, .. } = &self.settings;
        TelegramUpdateReader { me, topics, exclusive: *exclusive_mentions, patience }
    }
}

/// Pauses that grow while something is in the way.
struct Backoff {
    next: Duration,
    min: Duration,
    max: Duration,
}

impl Backoff {
    fn new(bot: &Bot) -> Self {
        let patience = bot.settings.patience;
        Self { next: patience.again_min, min: patience.again_min, max: patience.again_max }
    }

    fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (self.next * 2).min(self.max);
        pause
    }

    fn reset(&mut self) {
        self.next = self.min;
    }
}

/// Says what is in the way and waits a while. Returns the end if waiting is no use.
async fn wait_out(bot: &Bot, failure: &TelegramFailure, backoff: &mut Backoff) -> Option<ListenEnded> {
    if failure.is_about_the_token() {
        return Some(ListenEnded::Refused(format!(
            "Telegram does not know the token of bot {} ({failure}). Ask @BotFather for a new one, put it into \
             TELEGRAM_BOT_TOKEN and restart.",
            bot.account
        )));
    }
    let words = match failure.code() {
        Some(409) => format!(
            "another program takes the updates of bot {}: {failure}. Stop it, or give it a bot of its own; \
             until then messages may go to either.",
            bot.account
        ),
        _ => failure.to_string(),
    };
    bot.is(Health::Waiting(words));
    let pause = backoff.pause();
    sleep(failure.retry_after().map_or(pause, |wait| wait.max(pause))).await;
    None
}

/// Asks until there is an answer.
async fn insist<R: serde::de::DeserializeOwned>(
    bot: &Bot,
    method: &str,
    parameters: &impl serde::Serialize,
    backoff: &mut Backoff,
) -> Result<R, ListenEnded> {
    loop {
        match bot.ask(method, parameters).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => {
                if let Some(ended) = wait_out(bot, &failure, backoff).await {
                    return Err(ended);
                }
            }
        }
    }
}

async fn introduced(bot: &Bot, backoff: &mut Backoff) -> Result<TelegramBot, ListenEnded> {
    let user: User = insist(bot, "getMe", &serde_json::json!({}), backoff).await?;
    Ok(TelegramBot { id: user.id, username: user.username.unwrap_or_default().to_lowercase() })
}

fn wanted() -> Vec<AllowedUpdate> {
    vec![
        AllowedUpdate::Message,
        AllowedUpdate::EditedMessage,
        AllowedUpdate::ChannelPost,
        AllowedUpdate::EditedChannelPost,
        AllowedUpdate::CallbackQuery,
    ]
}

// ---------------------------------------------------------------------------------------- polling

/// The next update that has not been taken, and since when we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UpdateCursor {
    offset: i64,
    at: Time,
}

impl UpdateCursor {
    fn read(cursor: &str) -> Option<Self> {
        let (offset, at) = cursor.split_once(' ')?;
        Some(Self { offset: offset.parse().ok()?, at: Time(at.parse::<i64>().ok()?.checked_mul(1_000_000)?) })
    }

    fn cursor(self) -> String {
        format!("{} {}", self.offset, self.at.whole_seconds())
    }

    fn is_good(self, now: Time) -> bool {
        now.since(self.at) < OFFSET_AGE_MAX
    }
}

async fn poll(bot: &Bot, intake: &dyn Intake) -> ListenEnded {
    let mut backoff = Backoff::new(bot);
    match polling(bot, intake, &mut backoff).await {
        Err(ended) => ended,
        Ok(never) => match never {},
    }
}

async fn polling(
    bot: &Bot,
    intake: &dyn Intake,
    backoff: &mut Backoff,
) -> Result<std::convert::Infallible, ListenEnded> {
    let me = introduced(bot, backoff).await?;
    let reader = bot.reader(&me);
    let no_webhook = DeleteWebhookParams::builder().drop_pending_updates(false).build();
    insist::<bool>(bot, "deleteWebhook", &no_webhook, backoff).await?;
    let cursor = intake.cursor(update::PLATFORM, &bot.account).await;
    let mut place = cursor.as_deref().and_then(UpdateCursor::read);
    let mut limit = BATCH_MAX;
    // The first answer comes at once, so that we know that all is well. So does the first after trouble.
    let mut hurry = true;
    loop {
        place = place.filter(|place| place.is_good(intake.now()));
        let asked = Instant::now();
        let batch = match updates(bot, place, limit, hurry).await {
            Ok(batch) => batch,
            Err(TelegramFailure::TooLong) if limit > 1 => {
                limit = 1; // one at a time is less at a time
                continue;
            }
            Err(failure) => {
                if let Some(ended) = wait_out(bot, &failure, backoff).await {
                    return Err(ended);
                }
                if failure.says("webhook") {
                    insist::<bool>(bot, "deleteWebhook", &no_webhook, backoff).await?;
                }
                // A poll that comes early ends what the other poller waits for.
                hurry = failure.code() != Some(409);
                continue;
            }
        };
        match take(bot, &batch, place, reader, intake).await {
            Ok(next) => {
                place = next;
                limit = BATCH_MAX;
                backoff.reset();
                bot.is(Health::Up);
                // Nothing was acknowledged, and nothing was waited for: it must not be asked at once.
                let idle = !batch.iter().any(|update| update::number(update).is_some());
                if idle && !hurry && asked.elapsed() < EMPTY_MIN {
                    sleep(bot.settings.patience.again_min).await;
                }
                hurry = false;
            }
            Err(NotNow(why)) => {
                bot.is(Health::Waiting(format!("a message could not be taken in: {why}")));
                sleep(backoff.pause()).await;
                hurry = true;
            }
        }
    }
}

async fn updates(
    bot: &Bot,
    place: Option<UpdateCursor>,
    limit: u32,
    hurry: bool,
) -> Result<Vec<Value>, TelegramFailure> {
    let patience = bot.settings.patience;
    let held = if hurry { Duration::ZERO } else { patience.poll };
    let parameters = GetUpdatesParams::builder()
        .maybe_offset(place.map(|place| place.offset))
        .limit(limit)
        .timeout(u32::try_from(held.as_secs()).unwrap_or(0))
        .allowed_updates(wanted())
        .build();
    bot.api.call("getUpdates", &parameters, held + patience.answer).await
}

/// Takes a batch. Returns from where to go on, which is on disk.
async fn take(
    bot: &Bot,
    batch: &[Value],
    place: Option<UpdateCursor>,
    reader: TelegramUpdateReader<'_>,
    intake: &dyn Intake,
) -> Result<Option<UpdateCursor>, NotNow> {
    let Some(last) = batch.iter().filter_map(update::number).max() else { return Ok(place) };
    for update in batch {
        hand_over(bot, update, reader, intake).await?;
    }
    let next = UpdateCursor { offset: last + 1, at: intake.now() };
    intake.keep(update::PLATFORM, &bot.account, next.cursor()).await?;
    Ok(Some(next))
}

async fn hand_over(
    bot: &Bot,
    update: &Value,
    reader: TelegramUpdateReader<'_>,
    intake: &dyn Intake,
) -> Result<(), NotNow> {
    match read(update, reader) {
        TelegramUpdateEvent::Message(incoming) => intake.take(*incoming).await.map(|_| ()),
        TelegramUpdateEvent::Pressed(pressed) => press(bot, *pressed, intake).await,
        TelegramUpdateEvent::Nothing(why) => {
            tracing::info!(account = bot.account, update = ?update::number(update), why, "skipped an update");
            Ok(())
        }
    }
}

async fn press(bot: &Bot, pressed: Pressed, intake: &dyn Intake) -> Result<(), NotNow> {
    let call = match pressed.reference {
        Some(QuestionReference::Call(call)) => Some(call),
        Some(digest) => match bot.remembered(&digest) {
            Some(call) => Some(call),
            None => intake.asking().await.into_iter().find(|call| digest.is(call)),
        },
        None => None,
    };
    let word = match call {
        Some(call) => intake.press(Press { source: pressed.source, call, verdict: pressed.verdict }).await?,
        None => "This question is no longer open.".to_owned(),
    };
    let word: String = word.chars().take(WORD_LENGTH_MAX).collect();
    let parameters = AnswerCallbackQueryParams::builder().callback_query_id(pressed.query).text(word).build();
    // A courtesy: the person sees the outcome in the chat as well.
    if let Err(failure) = bot.api.call::<bool>("answerCallbackQuery", &parameters, WORD_PATIENCE).await {
        tracing::debug!(%failure, "could not answer a press");
    }
    Ok(())
}

// ---------------------------------------------------------------------------------------- webhook

#[derive(Clone)]
struct Called {
    bot: Arc<Bot>,
    me: Arc<TelegramBot>,
    intake: Arc<dyn Intake>,
    secret: Secret,
    path: Arc<str>,
}

async fn webhook(
    bot: &Arc<Bot>,
    intake: Arc<dyn Intake>,
    mut stop: StopSignal,
    url: &str,
    listen: SocketAddr,
    secret: &Secret,
) -> ListenEnded {
    let begin = async {
        let mut backoff = Backoff::new(bot);
        let me = introduced(bot, &mut backoff).await?;
        let listener = loop {
            match TcpListener::bind(listen).await {
                Ok(listener) => break listener,
                Err(error) => {
                    bot.is(Health::Waiting(format!(
                        "{listen}, where Telegram is to call, cannot be listened on: {error}. Free it, or set \
                         TELEGRAM_WEBHOOK_PORT to another port."
                    )));
                    sleep(backoff.pause()).await;
                }
            }
        };
        Ok::<_, ListenEnded>((me, listener))
    };
    let (me, listener) = tokio::select! {
        biased;
        () = stop.rung() => return ListenEnded::Stopped,
        begun = begin => match begun {
            Ok(begun) => begun,
            Err(ended) => return ended,
        },
    };
    let path = reqwest::Url::parse(url).map(|url| url.path().to_owned()).unwrap_or_default();
    let path = if path.len() > 1 { path } else { PATH.to_owned() };
    let called =
        Called { bot: bot.clone(), me: Arc::new(me), intake, secret: secret.clone(), path: path.into() };
    // Not a route: a path may hold what a route takes for a pattern.
    let router = Router::new().fallback(call).with_state(called);
    let mut bell = stop.clone();
    let mut serving = std::pin::pin!(listener::serve(
        listener,
        TowerToHyperService::new(router),
        listener::Limits::default(),
        async move { bell.rung().await }
    ));
    let mut registered = std::pin::pin!(register(bot, url, secret));
    // Telegram may call before it has answered us, so both at once.
    tokio::select! {
        biased;
        ended = &mut registered => if let Err(ended) = ended { return ended },
        () = &mut serving => return ListenEnded::Stopped,
    }
    tokio::select! {
        () = &mut serving => {}
        // The call that is being answered may finish; a caller who says nothing is not waited for.
        () = async { stop.rung().await; sleep(FAREWELL).await } => {}
    }
    ListenEnded::Stopped
}

/// Tells Telegram where to call. One call at a time: order is worth more than speed.
async fn register(bot: &Bot, url: &str, secret: &Secret) -> Result<(), ListenEnded> {
    let mut backoff = Backoff::new(bot);
    let parameters = SetWebhookParams::builder()
        .url(url)
        .secret_token(secret.expose())
        .max_connections(1)
        .allowed_updates(wanted())
        .drop_pending_updates(false)
        .build();
    loop {
        match bot.ask::<bool>("setWebhook", &parameters).await {
            Ok(_) => {
                bot.is(Health::Up);
                return Ok(());
            }
            Err(failure) if failure.code() == Some(400) => {
                return Err(ListenEnded::Refused(format!(
                    "Telegram will not call {url}: {failure}. Put another address into TELEGRAM_WEBHOOK_URL, or \
                     remove it to poll instead."
                )));
            }
            Err(failure) => {
                if let Some(ended) = wait_out(bot, &failure, &mut backoff).await {
                    return Err(ended);
                }
            }
        }
    }
}

/// One update. A caller without the secret learns nothing. What is answered with 200 is on disk.
async fn call(State(called): State<Called>, request: Request) -> StatusCode {
    if request.method() != Method::POST || request.uri().path() != &*called.path {
        return StatusCode::NOT_FOUND;
    }
    let given = request.headers().get(SECRET_HEADER).map(|value| value.as_bytes()).unwrap_or_default();
    if !bool::from(given.ct_eq(called.secret.expose().as_bytes())) {
        return StatusCode::UNAUTHORIZED;
    }
    if let Some(visit) = request.extensions().get::<Visit>() {
        visit.trust();
    }
    let Ok(Ok(body)) = timeout(FAREWELL, to_bytes(request.into_body(), UPDATE_BYTES_MAX)).await else {
        return StatusCode::PAYLOAD_TOO_LARGE;
    };
    let Ok(update) = serde_json::from_slice::<Value>(&body) else {
        tracing::warn!(account = called.bot.account, "Telegram sent something that is no update; skipped");
        return StatusCode::OK;
    };
    let bot = &called.bot;
    match hand_over(bot, &update, bot.reader(&called.me), called.intake.as_ref()).await {
        Ok(()) => {
            bot.is(Health::Up);
            StatusCode::OK
        }
        Err(NotNow(why)) => {
            bot.is(Health::Waiting(format!("a message could not be taken in: {why}")));
            StatusCode::SERVICE_UNAVAILABLE // it is called again
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_kept_and_grows_old() {
        let place = UpdateCursor { offset: 7, at: Time(5_000_000) };
        assert_eq!(UpdateCursor::read(&place.cursor()), Some(place));
        assert!(place.is_good(Time(6_000_000)));
        assert!(!place.is_good(place.at.plus(OFFSET_AGE_MAX)));
        for broken in ["", "7", "x 1", "7 y", "7 9223372036854775807"] {
            assert_eq!(UpdateCursor::read(broken), None, "{broken}");
        }
    }
}
