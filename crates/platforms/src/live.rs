//! What people see while a turn runs: "typing …", which tools are called, what has been
//! said so far. One view per session, however many messages share its turn.
//!
//! - all of it is courtesy: it may fail, and neither the turn nor the reply waits for it
//! - a preview has the identity of its reply: it is written down before it is posted, its id after,
//!   and the outbox makes it the reply. Nothing here sends a reply
//! - a person who writes while a turn runs hears what it waits for, at most every half minute
//! - a question that a tool asks leaves through the outbox, with its buttons ([`crate::adapter::ask`]): here only the
//!   typing stops
//!
//! Deliberately absent: the reply, retries of anything, and memory of a view across a start.

#[cfg(test)]
mod linear;
mod progress;

#[cfg(test)]
mod tests;

use crate::adapter::Adapter;
use futures_util::FutureExt as _;
use progress::ProgressLines;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use throughline_core::input::Destination;
use throughline_core::port::{AgentApi, Delta, Drafted, Progress, Receipt, SendError, Settled, Update};
use throughline_core::session::{BusyInput, FailureKind, Outcome, ToolProgress as Chosen};
use throughline_core::{Seq, SessionId};
use throughline_hermes::config::platforms::{Display, Streaming, ToolProgress};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

/// Platforms show "typing …" for about five seconds.
const TYPING_EVERY: Duration = Duration::from_secs(4);
const PROGRESS_EVERY: Duration = Duration::from_millis(1500);
const ACKNOWLEDGED_EVERY: Duration = Duration::from_secs(30);
/// An order that is carried out at once needs no word about waiting.
const ACKNOWLEDGED_AFTER: Duration = Duration::from_millis(1200);
/// Messages of one turn are settled in one commit, and told of one after the other.
const SETTLED_TOGETHER: Duration = Duration::from_millis(500);
/// People do not read along faster.
const GLANCE: Duration = Duration::from_millis(200);

const SEEN: &str = "👀";
const DONE: &str = "✅";
const FAILED: &str = "❌";
const NOTHING: &str = "";

/// One account's views.
pub struct Live {
    api: Arc<dyn AgentApi>,
    adapter: Arc<dyn Adapter>,
    display: Display,
    busy: BusyInput,
    views: Mutex<BTreeMap<SessionId, mpsc::UnboundedSender<Followed>>>,
}

/// A message that was taken, and how it goes on.
pub struct Followed {
    session: SessionId,
    seq: Seq,
    progress: Box<dyn Progress>,
    spot: Spot,
}

/// Where it stands.
struct Spot {
    place: Destination,
    /// The platform's id of it.
    message: Option<String>,
}

impl Followed {
    pub fn new(receipt: Receipt, place: Destination, message: Option<String>) -> Self {
        let Receipt { session, seq, progress, .. } = receipt;
        Self { session, seq, progress, spot: Spot { place, message } }
    }
}

impl Live {
    pub fn new(
        api: Arc<dyn AgentApi>,
        adapter: Arc<dyn Adapter>,
        display: Display,
        busy: BusyInput,
    ) -> Arc<Self> {
        Arc::new(Self { api, adapter, display, busy, views: Mutex::default() })
    }

    /// The same views of what another agent does through this account.
    pub fn beside(&self, api: Arc<dyn AgentApi>) -> Arc<Self> {
        Self::new(api, self.adapter.clone(), self.display.clone(), self.busy)
    }

    fn views(&self) -> MutexGuard<'_, BTreeMap<SessionId, mpsc::UnboundedSender<Followed>>> {
        self.views.lock().expect("nothing panics while it holds the views")
    }

    /// Shows how it goes on, until it is settled. Returns at once.
    pub fn follow(self: &Arc<Self>, followed: Followed) {
        let mut views = self.views();
        let session = followed.session.clone();
        let followed = match views.get(&session) {
            Some(view) => match view.send(followed) {
                Ok(()) => return,
                Err(mpsc::error::SendError(followed)) => followed,
            },
            None => followed,
        };
        let (sender, joining) = mpsc::unbounded_channel();
        views.insert(session, sender);
        tokio::spawn(View::new(self.clone(), followed, joining).run());
    }

    /// A view with nothing to show goes. Under the lock no sender can join it, so none is forgotten.
    fn retire(&self, session: &SessionId, joining: &mpsc::UnboundedReceiver<Followed>) -> bool {
        let mut views = self.views();
        if !joining.is_empty() {
            return false;
        }
        views.remove(session);
        true
    }

    async fn react(&self, spot: &Spot, sign: &str) {
        if let (true, Some(message)) = (self.display.reactions, &spot.message) {
            self.adapter.react(&spot.place, message, sign).await;
        }
    }
}

/// A person who wrote while a turn ran.
struct WaitingSender {
    followed: Followed,
    /// From then on a word about it is due.
    acknowledge: Option<Instant>,
    /// It has become part of what runs.
    shares: bool,
}

struct View {
    live: Arc<Live>,
    lead: Followed,
    /// Where everything is shown: the message itself is not pointed at.
    place: Destination,
    joining: mpsc::UnboundedReceiver<Followed>,
    waiting: VecDeque<WaitingSender>,
    began: Instant,
    /// A person is asked: no typing is shown.
    asks: bool,
    typed: Option<Instant>,
    acknowledged: Option<Instant>,
    tool: Option<String>,
    /// What the model has said in this step.
    said: String,
    preview: StreamPreview,
    lines: ProgressLines,
    told: Option<Instant>,
}

/// The message that shows what has been said so far.
#[derive(Default)]
struct StreamPreview {
    posted: Option<(String, String)>,
    /// As it stands there, and when it was put there.
    shown: String,
    at: Option<Instant>,
    /// There is none in this turn, and will be none.
    off: bool,
}

impl View {
    fn new(live: Arc<Live>, lead: Followed, joining: mpsc::UnboundedReceiver<Followed>) -> Self {
        let lines = ProgressLines::new(live.display.tool_progress, live.display.preview_chars);
        Self {
            place: Destination { reply_to: None, ..lead.spot.place.clone() },
            live,
            lead,
            joining,
            waiting: VecDeque::new(),
            began: Instant::now(),
            asks: false,
            typed: None,
            acknowledged: None,
            tool: None,
            said: String::new(),
            preview: StreamPreview::default(),
            lines,
            told: None,
        }
    }

    async fn run(mut self) {
        self.live.react(&self.lead.spot, SEEN).await;
        loop {
            self.show().await;
            let next = self.next_glance();
            tokio::select! {
                biased;
                update = self.lead.progress.next() => match update {
                    Update::Settled(settled) => {
                        if self.is_over(&settled).await {
                            return;
                        }
                    }
                    Update::Interrupted => {
                        if self.live.retire(&self.lead.session, &self.joining) {
                            return;
                        }
                        let Some(followed) = self.joining.recv().await else { return };
                        self.lead(followed);
                    }
                    update => self.hear(update).await,
                },
                Some(followed) = self.joining.recv() => self.join(followed).await,
                () = sleep_until(next) => {}
            }
        }
    }

    async fn hear(&mut self, update: Update) {
        self.asks = matches!(update, Update::Asked(_));
        match update {
            Update::Delta(Delta::Text(text)) => self.said.push_str(&text),
            Update::Restarted => self.said.clear(),
            Update::Calling { id, tool, arguments } => {
                self.leave_what_was_said().await;
                // It may have been changed while the turn runs.
                let chosen = self.live.api.preferences(self.lead.session.clone()).await.tools;
                self.lines.show(chosen.map_or(self.live.display.tool_progress, as_shown));
                self.tool = Some(tool.clone());
                self.lines.add(&id, &tool, &arguments);
            }
            Update::Called { .. } => {
                self.tool = None;
                self.said.clear();
            }
            Update::Delta(Delta::Reasoning(_))
            | Update::Asked(_)
            | Update::Granted(_)
            | Update::Troubled(_)
            | Update::Unattended { .. }
            | Update::Settled(_)
            | Update::Interrupted => {}
        }
    }

    // ------------------------------------------------------------------------------ what is shown

    async fn show(&mut self) {
        let now = Instant::now();
        self.look_at_the_waiting(now).await;
        if self.live.display.typing && !self.asks && is_due(self.typed, TYPING_EVERY, now) {
            self.typed = Some(now);
            self.live.adapter.typing(&self.place).await;
        }
        if self.lines.has_news() && is_due(self.told, PROGRESS_EVERY, now) {
            self.told = Some(now);
            self.tell_tools().await;
        }
        if let Some(streaming) = self.live.display.streaming.clone() {
            self.stream(&streaming, now).await;
        }
    }

    fn next_glance(&self) -> Instant {
        let now = Instant::now();
        let busy = self.lines.has_news() || !self.waiting.is_empty() || !self.said.is_empty();
        now + if busy { GLANCE } else { TYPING_EVERY / 4 }
    }

    async fn tell_tools(&mut self) {
        let live = self.live.clone();
        let (adapter, apart) = (&live.adapter, live.display.progress_apart);
        for shown in self.lines.news(apart || !adapter.can_edit()) {
            let posted = match &shown.id {
                Some(id) => adapter.edit(&self.place, id, &shown.text).await.map(|()| None),
                None => adapter.post(&self.place, &shown.text).await.map(Some),
            };
            match posted {
                Ok(Some(id)) => self.lines.is_posted(id),
                Ok(None) => {}
                Err(SendError::Later { after, .. }) => {
                    self.told = Some(Instant::now() + after.unwrap_or(PROGRESS_EVERY));
                    self.lines.again();
                    return;
                }
                Err(_) => self.lines.give_up(),
            }
        }
    }

    /// As much as stands in the first piece of the reply, as it is so far.
    fn so_far(&self) -> String {
        let words: Vec<&str> =
            self.said.lines().filter(|line| !line.trim_start().starts_with("MEDIA:")).collect();
        let words = words.join("\n");
        match words.trim().is_empty() {
            true => String::new(),
            false => self.live.adapter.parts(words.trim_end()).into_iter().next().unwrap_or_default(),
        }
    }

    async fn stream(&mut self, streaming: &Streaming, now: Instant) {
        let text = self.so_far();
        let new = text.chars().count().saturating_sub(self.preview.shown.chars().count());
        let due = match self.preview.at {
            None => new >= streaming.buffer_chars.max(1),
            Some(at) => text != self.preview.shown && now.duration_since(at) >= streaming.edit_interval,
        };
        if text.is_empty() || !due || self.preview.off || !self.live.adapter.can_edit() {
            return;
        }
        let shown = format!("{text}{}", streaming.cursor);
        let put = match self.preview.posted.clone() {
            Some((key, id)) => self.change(&key, &id, &shown).await,
            None => self.begin(&shown).await,
        };
        match put {
            Ok(()) => (self.preview.at, self.preview.shown) = (Some(Instant::now()), text),
            Err(patience) => self.preview.at = Some(Instant::now() + patience),
        }
    }

    /// Posts it: on disk that it will be, posted, on disk under which id.
    async fn begin(&mut self, text: &str) -> Result<(), Duration> {
        let live = self.live.clone();
        let Some(draft) = live.api.draft(self.lead.session.clone(), self.lead.seq).await else {
            self.preview.off = true;
            return Ok(());
        };
        if let Some(id) = draft.id {
            // Shown before a start, or by another view: it is the same reply.
            self.preview.posted = Some((draft.key.clone(), id.clone()));
            drop(draft.hold);
            return self.change(&draft.key, &id, text).await;
        }
        let change = match live.adapter.post(&self.lead.spot.place, text).await {
            Ok(id) => {
                self.preview.posted = Some((draft.key.clone(), id.clone()));
                Drafted::Posted { id }
            }
            Err(SendError::Unknown { .. }) => Drafted::Lost,
            Err(SendError::Later { .. } | SendError::Never { .. }) => Drafted::Left,
        };
        self.preview.off = self.preview.posted.is_none();
        live.api.drafted(draft.key, change).await;
        drop(draft.hold); // not before: the reply waits until the id is known
        Ok(())
    }

    async fn change(&mut self, key: &str, id: &str, text: &str) -> Result<(), Duration> {
        let Some(_hold) = self.live.api.hold(key) else {
            self.preview = StreamPreview { off: true, ..StreamPreview::default() };
            return Ok(()); // it is the reply by now
        };
        match self.live.adapter.edit(&self.place, id, text).await {
            Err(SendError::Later { after, .. }) => Err(after.unwrap_or(Duration::from_secs(2))),
            Err(SendError::Never { .. }) => {
                self.preview.off = true; // it stays as it is until the reply comes
                Ok(())
            }
            Ok(()) | Err(SendError::Unknown { .. }) => Ok(()),
        }
    }

    /// What the model said before it called a tool is no part of the reply.
    async fn leave_what_was_said(&mut self) {
        let text = self.so_far();
        self.said.clear();
        let was_shown = self.preview.posted.is_some();
        self.leave_preview(&text).await;
        let said_aside = !was_shown && self.live.display.interim && !text.is_empty();
        if said_aside {
            let _ = self.live.adapter.post(&self.place, &text).await;
        }
        if said_aside || was_shown {
            self.lines.break_off(); // later lines stand below it
        }
    }

    /// Takes the cursor away, and lets the message be a message of its own.
    async fn leave_preview(&mut self, text: &str) {
        let Some((key, id)) = std::mem::take(&mut self.preview).posted else { return };
        let Some(hold) = self.live.api.hold(&key) else { return };
        let _ = self.live.adapter.edit(&self.place, &id, text).await;
        self.live.api.drafted(key, Drafted::Left).await;
        drop(hold);
    }

    // ------------------------------------------------------------------------------ who else waits

    async fn join(&mut self, followed: Followed) {
        self.live.react(&followed.spot, SEEN).await;
        let acknowledge = self.live.display.busy_ack.then(|| Instant::now() + ACKNOWLEDGED_AFTER);
        self.waiting.push_back(WaitingSender { followed, acknowledge, shares: false });
    }

    /// What they hear is what the first one hears, until theirs is settled.
    async fn look_at_the_waiting(&mut self, now: Instant) {
        let mut settled = Vec::new();
        let mut place = 0;
        while place < self.waiting.len() {
            let waiting = &mut self.waiting[place];
            match waiting.followed.progress.next().now_or_never() {
                Some(Update::Settled(outcome)) => {
                    let waiting = self.waiting.remove(place).expect("it was just looked at");
                    settled.push((waiting.followed, outcome));
                }
                Some(Update::Interrupted) => drop(self.waiting.remove(place)),
                Some(_) => waiting.shares = true,
                None => place += 1,
            }
        }
        for (followed, outcome) in settled {
            self.live.react(&followed.spot, sign(&outcome)).await;
        }
        let due =
            |waiting: &WaitingSender| !waiting.shares && waiting.acknowledge.is_some_and(|at| at <= now);
        if self.waiting.iter().any(due) {
            self.waiting
                .iter_mut()
                .filter(|waiting| due(waiting))
                .for_each(|waiting| waiting.acknowledge = None);
            self.acknowledge(now).await;
        }
    }

    async fn acknowledge(&mut self, now: Instant) {
        if !is_due(self.acknowledged, ACKNOWLEDGED_EVERY, now) {
            return;
        }
        self.acknowledged = Some(now);
        let text = self.busy_with(now);
        let _ = self.live.adapter.post(&self.place, &text).await;
    }

    fn busy_with(&self, now: Instant) -> String {
        let mut details = Vec::new();
        if self.live.display.busy_ack_detail {
            let minutes = now.duration_since(self.began).as_secs() / 60;
            if minutes > 0 {
                details.push(format!("{minutes} min"));
            }
            details.extend(self.tool.as_ref().map(|tool| format!("running {tool}")));
        }
        let detail = match details.is_empty() {
            true => String::new(),
            false => format!(" ({})", details.join(", ")),
        };
        match (self.asks, self.live.busy) {
            (true, _) => {
                format!("⏳ I am waiting for your answer to the question above{detail}; this comes after it.")
            }
            (false, BusyInput::Queue) => {
                format!("⏳ I am still at work{detail}. Yours is next; /stop ends what runs.")
            }
            (false, BusyInput::Steer) => {
                format!("⏩ I am still at work{detail}. Yours joins after the next step.")
            }
            (false, BusyInput::Interrupt) => {
                format!("⚡ I am still at work{detail}. Yours joins as soon as it can.")
            }
        }
    }

    // ---------------------------------------------------------------------------------- the end

    /// The first message is settled: the sender who waits is next. True: none does.
    async fn is_over(&mut self, settled: &Settled) -> bool {
        let was_stopped =
            matches!(&settled.outcome, Outcome::Failed(_, failure) if failure.kind == FailureKind::Stopped);
        if was_stopped {
            let text = self.so_far();
            self.leave_preview(&text).await;
        }
        if self.lines.has_news() {
            self.tell_tools().await;
        }
        if self.live.display.cleanup_progress && matches!(settled.outcome, Outcome::Answered(_)) {
            for id in self.lines.posted() {
                let _ = self.live.adapter.remove(&self.place, &id).await;
            }
        }
        self.live.react(&self.lead.spot, sign(settled)).await;
        self.settle_those_that_shared().await;
        loop {
            if let Some(next) = self.waiting.pop_front() {
                self.lead(next.followed);
                return false;
            }
            if self.live.retire(&self.lead.session, &self.joining) {
                return true;
            }
            if let Ok(followed) = self.joining.try_recv() {
                self.live.react(&followed.spot, SEEN).await;
                self.lead(followed);
                return false;
            }
        }
    }

    async fn settle_those_that_shared(&mut self) {
        let (shared, rest): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiting| waiting.shares);
        self.waiting = rest;
        for WaitingSender { mut followed, .. } in shared {
            let settled = async {
                loop {
                    match followed.progress.next().await {
                        Update::Settled(settled) => return Some(settled),
                        Update::Interrupted => return None,
                        _ => {}
                    }
                }
            };
            if let Ok(Some(settled)) = timeout(SETTLED_TOGETHER, settled).await {
                self.live.react(&followed.spot, sign(&settled)).await;
            }
        }
    }

    fn lead(&mut self, next: Followed) {
        self.place = Destination { reply_to: None, ..next.spot.place.clone() };
        self.lead = next;
        self.began = Instant::now();
        self.asks = false;
        self.typed = None;
        self.tool = None;
        self.said.clear();
        self.preview = StreamPreview::default();
        self.lines.end();
    }
}

/// What a person chose, in the words of the configuration.
fn as_shown(chosen: Chosen) -> ToolProgress {
    match chosen {
        Chosen::Off => ToolProgress::Off,
        Chosen::New => ToolProgress::New,
        Chosen::All => ToolProgress::All,
        Chosen::Verbose => ToolProgress::Verbose,
    }
}

fn is_due(last: Option<Instant>, every: Duration, now: Instant) -> bool {
    last.is_none_or(|last| now.saturating_duration_since(last) >= every)
}

fn sign(settled: &Settled) -> &'static str {
    match &settled.outcome {
        Outcome::Answered(_) => DONE,
        Outcome::Failed(_, failure) if failure.kind != FailureKind::Stopped => FAILED,
        Outcome::Failed(..) | Outcome::Done { .. } | Outcome::Moved { .. } => NOTHING,
    }
}
