//! What agents say to each other, on this side of the ledger: this module asks for shares, enters the messages that
//! we post, and tells the people of this home which chains were cut.
//!
//! Nothing here decides: the budget is [`throughline_core::chain`]'s, the count the ledger's, and what becomes of
//! a message the session's.

use crate::agent::Home;
use crate::ingress::Ingress;
use crate::turn::JobContext as Job;
use std::sync::{Arc, Weak};
use std::time::Duration;
use throughline_core::chain::{self, Amount, Cut, Share, Shared};
use throughline_core::command::Command;
use throughline_core::input::{AGENT_PLATFORM, Birth, DedupeKey, Destination, Input, Kind, Root, Trace};
use throughline_core::port::{AgentApi, CutChain, Post, Refusal, Submission};
use throughline_core::route::Target;
use throughline_core::session::{Event, SessionState};
use throughline_core::{Seq, SessionId};
use tokio::time::{sleep, timeout};

/// A ledger that cannot be reached is asked again after a second, then more and more seldom.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long a watcher waits for news before it looks whether its home is still there.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// What is asked of the ledger for a message that bots have brought.
pub(crate) fn share_of(
    home: &Home,
    session: &SessionId,
    input: &Input,
    trace: &Trace,
    amount: Amount,
) -> Share {
    let limits = &home.rules.limits.chain;
    let people = input.reply_to.as_ref().filter(|place| place.platform != AGENT_PLATFORM);
    let platform = input.reply_to.as_ref().map_or("", |place| place.platform.as_str());
    Share {
        origin: trace.origin.clone(),
        root: trace.root.clone(),
        hops: trace.hops,
        amount,
        asker: Root { home: home.rules.home.clone(), session: session.clone() },
        place: people.map(place_of),
        hops_max: limits.hops_max,
        turns_max: limits.turns_max(platform),
        calls_max: limits.calls_max(platform),
    }
}

/// A chat as everybody in it knows it, whichever bot and in whichever of its threads they hear it: people who asked in
/// the chat, and are answered in a thread, read of a cut once.
fn place_of(place: &Destination) -> String {
    DedupeKey::of(&[&place.platform, &place.chat]).to_string()
}

/// Asks whether a bot's message may begin a turn.
pub(crate) async fn share(context: Job, seq: Seq, share: Share) {
    let shared = take(&context, share).await;
    context.report(Event::Shared { seq, shared });
}

/// Asks whether a turn that a bot's message began may ask the model once more.
pub(crate) async fn call(context: &Job, share: &Share) -> Result<(), Cut> {
    match take(context, share.clone()).await {
        Shared::Granted => Ok(()),
        Shared::Refused(cut) => Err(cut),
    }
}

/// Waits for a ledger that cannot be reached: it grants nothing, and loses nothing.
async fn take(context: &Job, share: Share) -> Shared {
    for attempt in 0.. {
        match context.home.ledger.take(share.clone()).await {
            Ok(shared) => return shared,
            Err(error) => {
                if attempt == 0 {
                    tracing::error!(%error, "the ledger of chains cannot be reached; a bot's message waits for it");
                    context.home.note(Some(context.session.clone()), "ledger_unreachable", error.to_string());
                }
                sleep(Duration::from_secs(1 << attempt.min(5)).min(RETRY_MAX)).await;
            }
        }
    }
    unreachable!("it is asked until it answers")
}

/// A message of ours is in a chat where other agents may hear it.
pub(crate) fn posted(home: &Home, place: &Destination, message: &str, trace: &Trace) {
    if place.platform == AGENT_PLATFORM {
        return;
    }
    let author = match place.lender() {
        Some(lender) => place.account.strip_suffix(&format!("@{lender}")).unwrap_or(&place.account),
        None => &place.account,
    };
    let post = Post {
        platform: place.platform.clone(),
        chat: place.chat.clone(),
        message: message.to_owned(),
        author: author.to_owned(),
    };
    home.ledger.posted(post, trace.clone());
}

/// Tells the people of this home when a chain that they began was cut, in this process or another.
pub(crate) async fn watch(home: Weak<Home>) {
    loop {
        let Some((ledger, own)) = home.upgrade().map(|home| (home.ledger.clone(), home.rules.home.clone()))
        else {
            return;
        };
        let cut = timeout(LOOK_EVERY, ledger.cut(own)).await;
        let Some(home) = home.upgrade() else { return };
        let Ok(cut) = cut else { continue };
        if !tell(&home, &cut).await {
            sleep(Duration::from_secs(1)).await;
        }
    }
}

/// True: it is on disk, under a key that makes it once.
async fn tell(home: &Arc<Home>, cut: &CutChain) -> bool {
    let ingress = Ingress(home.clone());
    match is_announced_by_another(home, cut).await {
        Some(true) => return home.ledger.told(cut.clone()).await.is_ok(),
        Some(false) => {}
        None => return false,
    }
    let name = chain::notice_name(&cut.origin, cut.number);
    let submission = Submission {
        target: Target::Session(cut.root.session.clone()),
        birth: Birth::default(),
        at: ingress.now(),
        key: SessionState::notice_key(&name),
        kind: Kind::Command(Command::Notice { text: chain::notice(cut.why) }),
        reply_to: None,
        sender: None,
        platform_id: None,
        // No person wrote it: it must not pass for a person's.
        trace: Trace { origin: cut.origin.clone(), root: Some(cut.root.clone()), hops: 1, foreign: None },
        may_be_retry: false,
        can_answer: true,
        gathers: None,
    };
    match ingress.submit(submission).await {
        Ok(_) => {}
        Err(Refusal::Draining | Refusal::Unwritable(_) | Refusal::Internal(_)) => return false,
        Err(refusal) => home.note(Some(cut.root.session.clone()), "notice_refused", refusal.to_string()),
    }
    home.ledger.told(cut.clone()).await.is_ok()
}

/// Whether the chat of these people reads of it from another agent or session. None: not to be known now.
async fn is_announced_by_another(home: &Arc<Home>, cut: &CutChain) -> Option<bool> {
    let session = cut.root.session.clone();
    let loaded = home.library.read(move |store| store.load(&session)).await.ok()?;
    let Some(place) = loaded.and_then(|loaded| loaded.session.place.clone()) else { return Some(false) };
    home.ledger.announces(cut.clone(), place_of(&place)).await.ok().map(|announces| !announces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p6_a_chat_is_one_place_in_whichever_thread_and_through_whichever_bot() {
        let place = |platform: &str, chat: &str, account: &str, thread: Option<&str>| {
            place_of(&Destination {
                platform: platform.into(),
                account: account.into(),
                chat: chat.into(),
                thread: thread.map(str::to_owned),
                reply_to: None,
            })
        };
        let one = place("shop", "1", "bot", None);
        for (account, thread) in [("bot", Some("7")), ("other", None), ("other", Some("8"))] {
            assert_eq!(one, place("shop", "1", account, thread), "{account} {thread:?}");
        }
        assert!(one != place("shop", "2", "bot", None) && one != place("bar", "1", "bot", None));
    }
}
