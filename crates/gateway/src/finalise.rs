//! The hand-over of an ended session, one step at a time. Each step reports back by mail, and the
//! next begins when that is on disk.
//!
//! - what came to nothing waits until it is its time again: how long is the machine's decision
//! - hooks of the end come first, in their order, then those that hear of the session that goes on
//! - a hook that is no longer written down anywhere has nothing left to do
//!
//! Deliberately absent: any question to a model. What is extracted from a conversation is extracted
//! while it lives.

use crate::agent::Home;
use crate::scope;
use crate::turn::JobContext;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::SessionId;
use throughline_core::id::{Epoch, Generation};
use throughline_core::memory::{Ending, REWOUND, Scope};
use throughline_core::port::{Fact, FactName, Happening, Occasion};
use throughline_core::session::lifecycle::{Handing, Handover};
use throughline_core::session::{BRANCHED, Event, Finalisation, RESUMED};
use tokio::time::{sleep, timeout};

/// How long a provider may work at what has ended.
const PROVIDER_PATIENCE: Duration = Duration::from_secs(75);

/// A session that has ended, as far as its hand-over has come.
#[derive(Clone)]
pub(crate) struct Ended {
    pub session: SessionId,
    pub epoch: Epoch,
    pub generation: Generation,
    pub stage: Finalisation,
    pub handover: Handover,
    pub source: String,
}

impl Ended {
    /// Which hooks are told, of what, in order.
    fn hooks(&self, context: &JobContext) -> Vec<(String, Happening)> {
        let mut occasions = vec![Occasion::Finalised];
        occasions.extend(self.handover.successor.as_ref().map(|_| Occasion::Reset));
        let named = occasions.into_iter().flat_map(|occasion| {
            let names = context.home.hooks.names(occasion);
            names.into_iter().map(move |name| (name, occasion))
        });
        named.map(|(name, occasion)| (name, self.happening(occasion))).collect()
    }

    fn happening(&self, occasion: Occasion) -> Happening {
        let Handover { successor, reason, .. } = &self.handover;
        let reason = match (reason.as_str(), successor) {
            ("session_reset", Some(_)) => "new_session",
            ("session_reset" | "idle" | "daily", None) => "session_expired",
            (BRANCHED, _) => RESUMED, // hooks know the row's word
            (other, _) => other,
        };
        let mut facts = vec![
            (FactName::Platform, Fact::from(self.source.as_str())),
            (FactName::Reason, Fact::from(reason)),
            (FactName::OldSession, Fact::from(&self.session)),
            (FactName::NewSession, successor.as_ref().map_or(Fact::Nothing, Fact::from)),
            (FactName::Epoch, Fact::Number(self.epoch.0)),
        ];
        let session = match (occasion, successor) {
            (Occasion::Reset, Some(successor)) => successor.clone(),
            _ => self.session.clone(),
        };
        let key = format!("{}/{}", self.session, self.epoch);
        facts.push((FactName::Key, Fact::Text(key.clone())));
        Happening { occasion, key, session, source: self.source.clone(), facts }
    }

    /// What this hook was told.
    pub fn told(&self, context: &JobContext, hook: &str) -> Option<Happening> {
        self.hooks(context).into_iter().find(|(name, _)| name == hook).map(|(_, happening)| happening)
    }
}

/// The step that is next.
pub(crate) async fn step(context: JobContext, ended: Ended) {
    sleep(ended.handover.wait(context.home.clock.now())).await;
    let event = match ended.stage {
        Finalisation::Done => return,
        Finalisation::Hooks => hooks(&context, &ended).await,
        stage @ Finalisation::Claimed => Event::Finalised(stage),
        Finalisation::Provider => provider(&context, &ended).await,
        stage @ Finalisation::Evicted => {
            for (hook, told) in ended.hooks(&context) {
                context.home.hooks.forget(&hook, &told); // the process may have ended before it could
            }
            context.home.tools.forget(&ended.session);
            context.home.compressor.tell_end(&context.home, &ended.session, ended.handover.successor.clone());
            Event::Finalised(stage)
        }
    };
    context.report(event);
}

/// What a provider is to keep it gets while a session lives, as acts of its own; here it hears of the end, if it
/// wants to, with all that was said: what summaries stand for included.
async fn provider(context: &JobContext, ended: &Ended) -> Event {
    let stage = Finalisation::Provider;
    let follows = context.home.memory.as_ref().filter(|memory| memory.provider.follows_sessions());
    let Some(memory) = follows else { return Event::Finalised(stage) };
    let telling = async {
        let session = ended.session.clone();
        let scope = scope::of_ended(&context.home, &session, ended.handover.successor.as_ref()).await;
        let scope = scope.map_err(|error| error.in_full())?;
        let scope = Scope { generation: ended.generation, ..scope };
        let rows = context.home.library.read(move |store| store.said(&session)).await;
        let rows = rows.map_err(|error| error.in_full())?;
        let ending = Ending {
            key: format!("{}/{}", ended.session, ended.epoch),
            reason: ended.handover.reason.clone(),
            next: ended.handover.successor.clone(),
            messages: rows.into_iter().map(|(_, message)| message).collect(),
        };
        memory.provider.session_ended(&scope, &ending).await
    };
    let told = timeout(PROVIDER_PATIENCE, AssertUnwindSafe(telling).catch_unwind()).await;
    let failed = |why: String| {
        let step = format!("memory provider {}", memory.provider.name());
        tracing::warn!(step, why, "a provider was not told of an ended session; it is tried again");
        Event::Handing(Handing::Failed { stage, step, why })
    };
    match told {
        Ok(Ok(Ok(()))) => Event::Finalised(stage),
        Ok(Ok(Err(why))) => failed(why),
        Ok(Err(_)) => failed("it failed inside the gateway, whose log has more".to_owned()),
        Err(_) => failed(format!("it took longer than {} s", PROVIDER_PATIENCE.as_secs())),
    }
}

/// The end of a conversation was taken back, and it goes on. A provider that keeps things in mind about it is told, once,
/// and no turn waits for that: what it keeps in mind ends with its process, and that with ours, so a crash loses nothing.
pub(crate) fn rewound(home: &Arc<Home>, session: &SessionId, generation: Generation) {
    let follows = home.memory.clone().filter(|memory| memory.provider.follows_sessions());
    let Some(memory) = follows else { return };
    let (home, session) = (home.clone(), session.clone());
    tokio::spawn(async move {
        let telling = async {
            let scope = scope::of_session(&home, &session).await.map_err(|error| error.in_full())?;
            let scope = Scope { generation, ..scope.on_behalf_of(None) };
            let ending = Ending {
                key: format!("{session}/rewound/{}", generation.0),
                reason: REWOUND.to_owned(),
                next: Some(session.clone()),
                messages: Vec::new(),
            };
            memory.provider.session_ended(&scope, &ending).await
        };
        let told = timeout(PROVIDER_PATIENCE, AssertUnwindSafe(telling).catch_unwind()).await;
        if !matches!(told, Ok(Ok(Ok(())))) {
            tracing::warn!(%session, "a provider was not told that something was taken back");
        }
    });
}

async fn hooks(context: &JobContext, ended: &Ended) -> Event {
    let stage = Finalisation::Hooks;
    let hooks = ended.hooks(context);
    let Some(hook) = ended.handover.running.clone() else {
        let next = hooks.into_iter().find(|(name, _)| !ended.handover.done.contains(name));
        return match next {
            Some((hook, _)) => Event::Handing(Handing::Began { hook }),
            None => Event::Finalised(stage),
        };
    };
    let Some((_, happening)) = hooks.iter().find(|(name, _)| *name == hook) else {
        context.home.note(Some(ended.session.clone()), "hook_gone", hook.clone());
        return Event::Handing(Handing::Done { hook });
    };
    let running = async { context.home.hooks.run(&hook, happening).await };
    let ran = AssertUnwindSafe(running).catch_unwind().await;
    match ran.unwrap_or_else(|_| Err("it failed inside the gateway, whose log has more".to_owned())) {
        Ok(()) => Event::Handing(Handing::Done { hook }),
        Err(why) => {
            tracing::warn!(hook, why, "a hook of an ended session came to nothing; it is tried again");
            Event::Handing(Handing::Failed { stage, step: hook, why })
        }
    }
}
