//! Where processes are heard that outlive the turn they were started in. What they say comes in as a
//! message like any other: durable, once, and never as a person's.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use throughline_core::Content;
use throughline_core::input::{Birth, DedupeKey, Kind};
use throughline_core::port::{AgentApi, Refusal, Submission};
use throughline_core::route::Target;
use throughline_tools::terminal::{NoticeSink, ProcessNotice};

#[derive(Default)]
pub struct ProcessNotices {
    api: OnceLock<Arc<dyn AgentApi>>,
    /// What was said before there was a door to say it through.
    early: Mutex<Vec<ProcessNotice>>,
}

/// A door that is closed for the moment is tried again for about as long as a drain takes.
const RINGS_MAX: u32 = 60;
const RING_PAUSE: Duration = Duration::from_secs(1);

impl ProcessNotices {
    pub fn rings(self: Arc<Self>) -> NoticeSink {
        let runtime = tokio::runtime::Handle::current();
        Arc::new(move |notice| match self.api.get().cloned() {
            Some(api) => drop(runtime.spawn(ring(api, notice))),
            None => self.early.lock().expect("nothing panics while it holds this").push(notice),
        })
    }

    pub fn opens(&self, api: Arc<dyn AgentApi>) {
        let _ = self.api.set(api.clone());
        let early = std::mem::take(&mut *self.early.lock().expect("nothing panics while it holds this"));
        early.into_iter().for_each(|notice| drop(tokio::spawn(ring(api.clone(), notice))));
    }
}

async fn ring(api: Arc<dyn AgentApi>, notice: ProcessNotice) {
    for _ in 0..RINGS_MAX {
        match api.submit(told(api.as_ref(), notice.clone())).await {
            Ok(_) => return,
            Err(Refusal::Draining | Refusal::Unwritable(_) | Refusal::Internal(_)) => {
                tokio::time::sleep(RING_PAUSE).await;
            }
            Err(refusal) => {
                tracing::warn!(session = %notice.session, %refusal, "the notice of a process could not be delivered");
                return;
            }
        }
    }
}

fn told(api: &dyn AgentApi, notice: ProcessNotice) -> Submission {
    Submission {
        target: Target::Session(notice.session),
        birth: Birth::default(),
        at: api.now(),
        key: DedupeKey::of(&["process", &notice.key]),
        kind: Kind::Chat(Content::text(notice.text)),
        reply_to: None,
        sender: None,
        platform_id: None,
        trace: notice.trace,
        may_be_retry: false,
        can_answer: true,
        gathers: None,
    }
}
