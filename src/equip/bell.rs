//! Where processes are heard that outlive the turn they were started in. What they say comes in as a
//! message like any other: durable, once, and never as a person's.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use throughline_core::Content;
use throughline_core::input::{Birth, DedupeKey, Kind};
use throughline_core::port::{Desk, Refusal, Submission};
use throughline_core::route::Target;
use throughline_tools::terminal::{Notice, Notices};

#[derive(Default)]
pub struct Bell {
    desk: OnceLock<Arc<dyn Desk>>,
    /// What was said before there was a door to say it through.
    early: Mutex<Vec<Notice>>,
}

/// A door that is closed for the moment is tried again for about as long as a drain takes.
const RINGS_MAX: u32 = 60;
const RING_PAUSE: Duration = Duration::from_secs(1);

impl Bell {
    pub fn rings(self: Arc<Self>) -> Notices {
        let runtime = tokio::runtime::Handle::current();
        Arc::new(move |notice| match self.desk.get().cloned() {
            Some(desk) => drop(runtime.spawn(ring(desk, notice))),
            None => self.early.lock().expect("nothing panics while it holds this").push(notice),
        })
    }

    pub fn opens(&self, desk: Arc<dyn Desk>) {
        let _ = self.desk.set(desk.clone());
        let early = std::mem::take(&mut *self.early.lock().expect("nothing panics while it holds this"));
        early.into_iter().for_each(|notice| drop(tokio::spawn(ring(desk.clone(), notice))));
    }
}

async fn ring(desk: Arc<dyn Desk>, notice: Notice) {
    for _ in 0..RINGS_MAX {
        match desk.submit(told(desk.as_ref(), notice.clone())).await {
            Ok(_) => return,
            Err(Refusal::Draining | Refusal::Unwritable(_) | Refusal::Internal(_)) => {
                tokio::time::sleep(RING_PAUSE).await;
            }
            Err(refusal) => {
                tracing::warn!(session = %notice.session, %refusal, "a process had something to say, and nobody hears it");
                return;
            }
        }
    }
}

fn told(desk: &dyn Desk, notice: Notice) -> Submission {
    Submission {
        target: Target::Session(notice.session),
        birth: Birth::default(),
        at: desk.now(),
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
