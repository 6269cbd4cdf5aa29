//! The owner's private chat: where a question is put that a program at the API cannot answer, and who may answer it there.
//!
//! - it is the newest private conversation of an owner on a platform that is connected
//! - a question put there is answered under its code, by an owner, in private; by no other person and in no group
//!
//! Deliberately absent: what the question is about, and any state. Questions wait in the store.

use crate::agent::Home;
use std::sync::Arc;
use throughline_core::command;
use throughline_core::input::Destination;
use throughline_core::port::{
    AgentApi as _, Health, Pending, Read, Refusal, Scope, SessionFilter, StoreError,
};

/// Who owns the agent, by platform and user, the first one first. Asked each time: people are paired while the gateway runs.
pub type Owners = Arc<dyn Fn() -> Vec<(String, String)> + Send + Sync>;

/// How many of an owner's conversations are looked through for a private one.
const LOOKED_THROUGH_MAX: usize = 16;

/// Where an owner can be asked now. None: in no chat.
pub(crate) async fn chat(home: &Home) -> Option<Destination> {
    for (platform, user) in (home.owners)() {
        let connected = home.platforms.get(&platform).is_some_and(|known| known.health() == Health::Up);
        if !connected {
            continue;
        }
        match home.library.read(move |store| newest(store, platform, user)).await {
            Ok(Some(place)) => return Some(place),
            Ok(None) => {}
            Err(error) => tracing::warn!(error = error.in_full(), "could not look up the owner's chat"),
        }
    }
    None
}

fn newest(store: &dyn Read, platform: String, user: String) -> Result<Option<Destination>, StoreError> {
    let filter = SessionFilter {
        scope: Some(Scope::Person { source: platform.clone(), user: Some(user), chat: None }),
        without_helpers: true,
        limit: LOOKED_THROUGH_MAX,
        ..SessionFilter::default()
    };
    for summary in store.sessions(&filter)? {
        if summary.ended.is_some() || summary.chat.is_none() {
            continue;
        }
        let private = store.load(&summary.id)?.filter(|loaded| loaded.is_private);
        let place = private.and_then(|loaded| loaded.session.place.clone());
        if let Some(place) = place.filter(|place| place.platform == platform && place.lender().is_none()) {
            return Ok(Some(Destination { reply_to: None, ..place }));
        }
    }
    Ok(None)
}

/// `/approve CODE` and `/deny CODE`: answers the question of this code, and says what came of it.
pub(crate) async fn answer(home: &Arc<Home>, name: &str, argument: &str) -> Result<String, StoreError> {
    let Some((code, words)) = command::code(argument) else {
        return Ok(format!("{argument:?} names no question: /{name} and the code that stands under it."));
    };
    let asks = home.library.read(|store| store.asks()).await?;
    let mut named = asks.into_iter().filter(|pending| pending.call.code() == code);
    let (Some(Pending { call, .. }), None) = (named.next(), named.next()) else {
        return Ok(format!(
            "No question with the code {code} waits. It was answered, or it was refused when its time was over."
        ));
    };
    let Some(verdict) = command::verdict(name, words) else {
        return Ok(format!("/{name} {words:?} is neither a yes nor a no."));
    };
    let said = match name {
        "approve" => "Allowed",
        _ => "Refused",
    };
    Ok(match crate::ingress::Ingress(home.clone()).decide(call.clone(), verdict).await {
        Ok(()) => format!("{said}: the question {code} of session {}.", call.session),
        Err(Refusal::Internal(why)) => format!("The answer to {code} was not taken: {why}"),
        Err(_) => format!("The question {code} was answered already."),
    })
}
