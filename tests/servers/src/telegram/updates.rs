//! How a bot hears of updates: `getUpdates`, or a webhook.

use super::{CALL_AGAIN, Outcome, Shared, Webhook, check_token, http_connection, refused};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn get_updates(shared: &Arc<Shared>, token: &str, parameters: &Value) -> Outcome {
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

pub(super) fn set_webhook(shared: &Arc<Shared>, token: &str, parameters: &Value) -> Outcome {
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
