//! The owner of one session: receive, step, commit, start jobs.
//!
//! All news of the session enters one mailbox, so order is never a matter of luck. What the machine
//! decides is on disk before anything follows from it. When a commit is refused because the state
//! is not what the actor thought, it stops, and the session is loaded again.

use crate::agent::Home;
use crate::alarm::Alarm;
use crate::chain;
use crate::command_jobs;
use crate::committer::CommitError;
use crate::compress::{self, ContextState, Found};
use crate::draft::{self, Preview};
use crate::finalise::{self, Ended};
use crate::gateway_tools::delegate;
use crate::hooks;
use crate::offer::with_client_tools;
use crate::owner;
use crate::review::{self, Reading};
use crate::router;
use crate::stream::{self, Feed};
use crate::turn::{self, Asking};
use recall::Recalled;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use throughline_core::chain::Amount;
use throughline_core::command::{Command, DeferredCommand};
use throughline_core::compression::{Operation, Promoted, Stage, estimate, operation_name, weight_restored};
use throughline_core::history::legal;
use throughline_core::input::{AGENT_PLATFORM, Birth, Destination, Input, Kind, Request, Room, Root, Trace};
use throughline_core::lifecycle::{BACKLOG_AFTER, announcement};
use throughline_core::memory::{Scope, is_private, unfenced};
use throughline_core::message::Body;
use throughline_core::port::{
    Assignment, CallId, Commit, Draft, DraftChange, Model, Outgoing, Pending, Receipt, Refusal, Settled,
    StoreError, Submission,
};
use throughline_core::prompt::{Composition, Digest, Mark};
use throughline_core::session::lifecycle::{Noticed, Run};
use throughline_core::session::review::Review;
use throughline_core::session::{
    Act, Approver, Event, FailureKind, Finalisation, Job, Outcome, Personality, Phase, RESTART, Reply,
    Session, UNATTENDED,
};
use throughline_core::tool::{Ask, Call, Caller, EVERYTHING, Offer, Question, Verdict};
use throughline_core::turn::{Answer, Slot, Turn};
use throughline_core::{Content, Generation, JsonText, Message, RowId, Seq, SessionId, Time, TurnId};
use throughline_offload as offload;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

/// A session nobody has spoken in for this long gives its memory back. It is loaded again in a
/// millisecond or two.
const REST_AFTER: Duration = Duration::from_secs(300);
/// One that never came to be (a duplicate was meant for it) goes sooner.
const UNBORN_AFTER: Duration = Duration::from_secs(1);
/// How long a result waits before it is tried on a full disk again.
const DISK_RETRY: Duration = Duration::from_secs(1);
/// After so many orders a conversation counts as one that has moved on.
const ORDERS_MAX: usize = 32;
/// A request with the same words counts as a client's retry for this long.
const IMPLICIT_KEY_HOLDS: Duration = Duration::from_secs(600);

pub(crate) enum Mail {
    Submit {
        submission: Box<Submission>,
        expected: Expected,
        answer: Answerer,
    },
    Follow {
        seq: Seq,
        answer: Answerer,
    },
    /// A client asks again for a turn that failed.
    Retry {
        turn: TurnId,
        seq: Seq,
        answer: Answerer,
    },
    Event(Event),
    /// A snapshot is to be the view again. Answered when that is on disk.
    Restore {
        snapshot: String,
        answer: oneshot::Sender<Result<(), Refusal>>,
    },
    /// A preview of the answer to this input is about to be posted. Answered when that is on disk.
    Draft {
        seq: Seq,
        answer: oneshot::Sender<Option<Draft>>,
    },
    /// A person answered what a call asked.
    Decide {
        call: CallId,
        verdict: Verdict,
        answer: oneshot::Sender<Result<(), Refusal>>,
    },
    /// A call that runs asks a person.
    Elicit {
        event: Event,
        call: CallId,
        answer: oneshot::Sender<Verdict>,
    },
    /// The operator silences the session. Answered with whether a turn ran, and how much waits.
    Halt {
        order: u64,
        answer: oneshot::Sender<(bool, usize)>,
    },
    /// And lets it go on. Answered when that is on disk.
    Release {
        answer: oneshot::Sender<()>,
    },
    /// The session's time may have come.
    Expire {
        platform: String,
        chat_type: String,
    },
    /// Whoever waited for the answer to this input has gone, and wants its turn to end.
    Abandon(Seq),
    /// The answer to this input reached its client in full.
    Written(Seq),
    /// What the memory provider was reminded of by a turn; empty: of nothing.
    Recalled {
        turn: TurnId,
        text: String,
    },
    /// What came of it after the turn had gone on: for the next one of the same person.
    LateRecall {
        whose: recall::Whose,
        text: String,
    },
    /// Another process wrote to this session.
    Foreign,
    Wake,
}

pub(crate) type Answerer = oneshot::Sender<Result<Receipt, Bounce>>;

/// What whoever mails an input believes about the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Anything,
    /// That nobody has it: its id was made a moment ago.
    Unborn,
    /// That it ends with this turn.
    Tip(TurnId),
}

/// Why a session did not take an input.
pub(crate) enum Bounce {
    /// It has ended: route again.
    Ended,
    /// It is not what the sender believed: another conversation got the same id, or this one went on.
    Unexpected,
    /// Known, over there.
    Elsewhere {
        session: SessionId,
        seq: Seq,
    },
    Refused(Refusal),
}

/// Whether there is anything to load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Fresh,
    Stored,
}

pub(crate) struct Actor {
    home: Arc<Home>,
    id: SessionId,
    origin: Origin,
    inbox: mpsc::UnboundedReceiver<Mail>,
    address: mpsc::WeakUnboundedSender<Mail>,
    state: Session,
    /// The generation on disk: what the next commit expects to find.
    expect: Generation,
    /// There is a row for it.
    born: bool,
    /// What taking the session up asks to be written. It goes with the first commit.
    pending: Vec<Act>,
    ended: bool,
    principal: Option<String>,
    source: String,
    user: Option<String>,
    is_private: bool,
    /// The model that a person has chosen here, by its name.
    chosen: Option<(String, Arc<dyn Model>)>,
    /// What its place adds to a prompt that is frozen here.
    room: Room,
    /// What the composition was begun with.
    offer: Option<Arc<Offer>>,
    system_prompt: Option<Arc<str>>,
    layer: Option<Digest>,
    last_prompt: Option<Mark>,
    composition: Option<Composition>,
    /// Requests that could be repeated without a key of their own, of the last minutes.
    requests: VecDeque<Recent>,
    /// Since when `requests` holds all of them. None: since the session began.
    requests_since: Option<Time>,
    jobs: BTreeMap<Job, AbortHandle>,
    feed: Arc<Feed>,
    alarm: Alarm,
    share: Share,
    /// The operator's orders up to this one are over here: a person has written since.
    spoken: u64,
    /// What was said last while this actor was there, if somebody outside remembers it.
    said: Option<String>,
    /// What a survey of its rows has read.
    found: Found,
    /// The last row, if somebody said it.
    heard: Option<(RowId, Message)>,
    recalled: Option<Recalled>,
    /// The turn that waits for a reminder.
    recalling: Option<(TurnId, u32)>,
    /// A question that its turn no longer waits for: one at a time.
    lingering: Option<AbortHandle>,
    /// Its answer.
    late: Option<(recall::Whose, String)>,
    /// On whose behalf it remembers, once somebody has asked.
    scope: Option<Scope>,
    /// Until then more of what was said last may come: of this message.
    gathers: Option<(Instant, Seq)>,
    /// Inputs whose senders cannot answer what a tool asks.
    unattended: BTreeSet<Seq>,
    /// Calls that run and wait for the answer to a question.
    eliciting: BTreeMap<CallId, oneshot::Sender<Verdict>>,
}

/// Whether something happened as lately as words are taken for a repetition. A date that lies further ahead was written by
/// a clock that has been set back since.
pub(crate) fn is_lately(at: Time, now: Time) -> bool {
    now.since(at) < IMPLICIT_KEY_HOLDS && at.since(now) < IMPLICIT_KEY_HOLDS
}

/// A request by its words, and whether its answer has reached a client.
struct Recent {
    key: Digest,
    seq: Seq,
    at: Time,
    written: bool,
    failed: bool,
}

/// What this session adds to the home's gauges.
#[derive(Default)]
struct Share {
    running: usize,
    asking: usize,
    waiting: usize,
    finalising: usize,
    cached: usize,
}

impl Actor {
    pub fn new(
        home: Arc<Home>,
        id: SessionId,
        origin: Origin,
        inbox: mpsc::UnboundedReceiver<Mail>,
        address: mpsc::WeakUnboundedSender<Mail>,
    ) -> Self {
        Self {
            state: Session::new(id.clone()),
            home,
            id,
            origin,
            inbox,
            address,
            expect: Generation(0),
            born: false,
            pending: Vec::new(),
            ended: false,
            principal: None,
            source: String::new(),
            user: None,
            is_private: true,
            chosen: None,
            room: Room::default(),
            offer: None,
            system_prompt: None,
            layer: None,
            last_prompt: None,
            composition: None,
            requests: VecDeque::new(),
            requests_since: None,
            jobs: BTreeMap::new(),
            feed: Arc::default(),
            alarm: Alarm::default(),
            share: Share::default(),
            spoken: 0,
            said: None,
            found: Found::default(),
            heard: None,
            recalled: None,
            recalling: None,
            lingering: None,
            late: None,
            scope: None,
            gathers: None,
            unattended: BTreeSet::new(),
            eliciting: BTreeMap::new(),
        }
    }

    #[tracing::instrument(name = "session", skip_all, fields(session = %self.id, agent = %self.home.rules.agent))]
    pub async fn run(mut self) -> Result<(), StoreError> {
        self.load().await?;
        if !self.pending.is_empty() || !self.state.jobs().is_empty() {
            self.persist(None).await?;
        }
        self.start_jobs().await?;
        loop {
            self.alarm.set(if self.born { REST_AFTER } else { UNBORN_AFTER });
            tokio::select! {
                biased;
                mail = self.inbox.recv() => match mail {
                    Some(mail) => self.open(mail).await?,
                    None => return Ok(()), // dismissed
                },
                () = self.alarm.rings() => {
                    if self.state.is_quiet() && self.home.router.retire(&self.id, &self.inbox) {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn load(&mut self) -> Result<(), StoreError> {
        self.room = self.home.inherited(&self.id);
        if self.origin == Origin::Stored {
            let id = self.id.clone();
            if let Some(loaded) = self.home.library.read(move |store| store.load(&id)).await? {
                self.born = true;
                self.requests_since = Some(self.home.clock.now());
                self.expect = loaded.session.generation;
                self.state = loaded.session;
                self.ended = loaded.ended.is_some();
                self.principal = loaded.principal;
                self.source = loaded.source;
                self.user = loaded.user;
                self.is_private = loaded.is_private;
                self.system_prompt = loaded.system_prompt;
                self.layer = loaded.layer;
                self.last_prompt = loaded.last_prompt;
            }
        }
        if let Some(call) = delegate::asked_by(&self.state) {
            // Whoever it works for may have been stopped when the process ended.
            tokio::spawn(delegate::end_unless_waited_for(self.home.clone(), call, self.id.clone()));
        }
        let mut events = vec![Event::Loaded { repeatable: self.repeatable() }];
        if self.home.is_halted() {
            events.insert(0, Event::Halted); // whoever was not there when it was ordered is silent, too
        }
        if !self.is_intact().await? {
            events.insert(0, Event::Rewritten { from: RowId(0) });
        }
        for event in events {
            let now = self.home.clock.now();
            let (state, acts) = self.state.step(event, now, &self.home.rules);
            self.state = state;
            self.pending.extend(acts);
        }
        if let Some(operation) = self.state.compression.as_ref().filter(|it| it.stage != Stage::Promoted) {
            self.log_started(operation); // once more: what the last process logged may be lost
        }
        if self.born && !self.ended {
            self.home.compressor.tell_beginning(&self.home, &self.id);
        }
        self.show_questions();
        Ok(())
    }

    /// Whether the rows that a compression stands for are still those it was prepared from: another
    /// process may have changed them.
    async fn is_intact(&self) -> Result<bool, StoreError> {
        match self.state.compression.clone().filter(|operation| operation.stage != Stage::Promoted) {
            Some(operation) => {
                let id = self.id.clone();
                self.home.library.read(move |store| store.intact(&id, &operation)).await
            }
            None => Ok(true),
        }
    }

    /// Whoever comes back after a restart sees what is still asked.
    fn show_questions(&self) {
        let Phase::Turn(turn) = &self.state.phase else { return };
        let Some(group) = &turn.group else { return };
        let inputs = turn.inputs.iter().map(|input| input.seq).collect();
        self.feed.asking(turn.id, turn.step, inputs);
        for (index, slot) in group.slots.iter().enumerate() {
            if let Slot::Asking(ask) = slot {
                self.tell_asked(turn.id, turn.step, index, ask.clone());
            }
        }
    }

    /// Which calls of the open group may simply be run again.
    fn repeatable(&self) -> Vec<usize> {
        let Phase::Turn(Turn { group: Some(group), .. }) = &self.state.phase else { return Vec::new() };
        let calls = group.answer.calls.iter().enumerate();
        calls.filter(|(_, call)| self.home.tools.is_repeatable(&call.name)).map(|(index, _)| index).collect()
    }

    async fn open(&mut self, mail: Mail) -> Result<(), StoreError> {
        match mail {
            Mail::Submit { submission, expected, answer } => self.submit(*submission, expected, answer).await,
            Mail::Follow { seq, answer } => self.follow(seq, answer).await,
            Mail::Retry { turn, seq, answer } => self.retry(turn, seq, answer).await,
            Mail::Event(event) => {
                let event = self.known_who_answers(event).await;
                self.is_over(&event);
                self.persist(Some(event)).await?;
                self.start_jobs().await
            }
            Mail::Restore { snapshot, answer } => {
                let restored = self.restore(snapshot).await?;
                let _ = answer.send(restored);
                self.start_jobs().await
            }
            Mail::Draft { seq, answer } => {
                let _ = answer.send(self.draft(seq).await);
                Ok(())
            }
            Mail::Decide { call, verdict, answer } => self.decide(call, verdict, answer).await,
            Mail::Elicit { event, call, answer } => {
                self.eliciting.insert(call, answer);
                let event = self.known_who_answers(event).await;
                self.persist(Some(event)).await?;
                self.start_jobs().await
            }
            Mail::Halt { order, answer } => {
                let before = (matches!(self.state.phase, Phase::Turn(_)), self.state.waiting.len());
                // Else it was over for this session before it got here. That somebody wrote elsewhere
                // is no reason to go on.
                if self.spoken < order && !self.home.is_resumed(order) {
                    // It ends now, also where the disk is full and nothing can be written about it.
                    std::mem::take(&mut self.jobs).values().for_each(AbortHandle::abort);
                    self.obey(Event::Halted).await?;
                    if !self.home.is_halted() && self.source == AGENT_PLATFORM {
                        self.obey(Event::Released).await?; // see `router::release`, which may have been here
                    }
                }
                let _ = answer.send(before);
                self.start_jobs().await
            }
            Mail::Release { answer } => {
                self.obey(Event::Released).await?;
                let _ = answer.send(());
                self.start_jobs().await
            }
            Mail::Expire { platform, chat_type } => {
                self.expire(&platform, &chat_type, Noticed::Watch).await?;
                self.start_jobs().await
            }
            Mail::Written(seq) => {
                self.requests
                    .iter_mut()
                    .filter(|request| request.seq == seq)
                    .for_each(|request| request.written = true);
                Ok(())
            }
            Mail::Abandon(seq) => {
                self.persist(Some(Event::Abandoned { seq })).await?;
                self.start_jobs().await
            }
            Mail::Recalled { turn, text } => {
                if self.recalling.take_if(|(recalling, _)| *recalling == turn).is_none() {
                    return Ok(()); // nobody waited for it any more
                }
                self.recall(turn, &text);
                let lingering = &mut self.lingering;
                self.jobs.retain(|job, handle| {
                    let is_over = matches!(job, Job::Ask { turn: asked, .. } if *asked == turn);
                    if is_over && let Some(before) = lingering.replace(handle.clone()) {
                        before.abort();
                    }
                    !is_over
                });
                self.start_jobs().await
            }
            Mail::LateRecall { whose, text } => {
                self.recall_late(whose, text);
                Ok(())
            }
            Mail::Foreign => self.look_again().await,
            Mail::Wake => Ok(()),
        }
    }

    /// A job that has reported is over: if the state implies it again, it is begun again.
    fn is_over(&mut self, event: &Event) {
        let (turn, step) = match event {
            Event::Answered { turn, step, .. } | Event::Failed { turn, step, .. } => (*turn, *step),
            Event::Surveyed { asked, .. } => {
                self.jobs.remove(&Job::Survey { order: asked.order, force: asked.force });
                return;
            }
            Event::Ordered { seq, .. } => {
                self.jobs.remove(&Job::Order { seq: *seq });
                return;
            }
            _ => return,
        };
        self.jobs.remove(&Job::Ask { turn, step });
    }

    async fn restore(&mut self, name: String) -> Result<Result<(), Refusal>, StoreError> {
        let unknown = |why: String| Ok(Err(Refusal::Unknown(why)));
        let wanted = name.clone();
        let snapshot = self.home.library.read(move |store| store.snapshot(&wanted)).await?;
        let Some(snapshot) = snapshot.filter(|snapshot| snapshot.summary.session == self.id) else {
            return unknown(format!("session {} has no snapshot {name}", self.id));
        };
        if self.ended || matches!(self.state.phase, Phase::Closed(_)) {
            return unknown(format!("session {} has ended", self.id));
        }
        if self.state.phase != Phase::Idle {
            return Ok(Err(Refusal::Busy(self.id.clone())));
        }
        if snapshot.rows.len() < snapshot.summary.messages {
            let gone = snapshot.summary.messages - snapshot.rows.len();
            return unknown(format!(
                "{gone} messages of {name} were deleted by another program: it cannot be restored"
            ));
        }
        let id = self.id.clone();
        let wanted = name.clone();
        let reading = move |store: &dyn throughline_core::port::Read| {
            Ok((store.history(&id)?, store.kept_since(&id, &wanted)?))
        };
        let (live, later) = self.home.library.read(reading).await?;
        let context = weight_restored(self.state.upkeep.context, &live, &snapshot.rows, &later);
        self.persist(Some(Event::Restored { snapshot: name, context })).await?;
        Ok(Ok(()))
    }

    /// An order of the operator. A session that nobody has spoken in yet has no row to keep it in.
    async fn obey(&mut self, order: Event) -> Result<(), StoreError> {
        match self.born {
            true => self.persist(Some(order)).await,
            false => {
                let now = self.home.clock.now();
                self.state = self.state.step(order, now, &self.home.rules).0;
                Ok(())
            }
        }
    }

    async fn submit(
        &mut self,
        submission: Submission,
        expected: Expected,
        answer: Answerer,
    ) -> Result<(), StoreError> {
        match self.accept(submission, expected).await {
            Ok(receipt) => {
                let _ = answer.send(Ok(receipt)); // whoever handed it in may have hung up: it is on disk all the same
                self.start_jobs().await
            }
            Err(Stop::Bounce(bounce)) => {
                let _ = answer.send(Err(bounce));
                Ok(())
            }
            Err(Stop::Reload(error)) => Err(error),
        }
    }

    async fn accept(&mut self, submission: Submission, expected: Expected) -> Result<Receipt, Stop> {
        if self.ended {
            self.look_again().await.map_err(Stop::Reload)?; // Hermes may have opened it again a moment ago
        }
        // Whose conversation has ended can still be told something: where they last wrote.
        let is_notice = matches!(submission.kind, Kind::Command(Command::Notice { .. }));
        if !is_notice && (self.ended || matches!(self.state.phase, Phase::Closed(_))) {
            return Err(Stop::Bounce(Bounce::Ended));
        }
        let theirs = match (&self.principal, &submission.birth.principal) {
            (Some(owner), Some(caller)) => owner == caller,
            (None, Some(_)) => !(self.born && submission.birth.one_of_many),
            (_, None) => true,
        };
        if !theirs {
            return Err(Stop::Bounce(Bounce::Refused(Refusal::NotYours(self.id.clone()))));
        }
        if let Some(seq) = self.retried(&submission).await.map_err(Stop::Reload)? {
            return Err(Stop::Bounce(Bounce::Elsewhere { session: self.id.clone(), seq }));
        }
        let as_expected = match expected {
            Expected::Anything => true,
            Expected::Unborn => !self.born,
            Expected::Tip(turn) => self.is_tip(turn).await.map_err(Stop::Reload)?,
        };
        if !as_expected {
            return Err(Stop::Bounce(Bounce::Unexpected));
        }
        if let Kind::Request(request) = &submission.kind
            && let Some(why) = self.refuses_results(request, &submission.birth)
            && !self.is_known(&submission).await?
        {
            return Err(Stop::Bounce(Bounce::Refused(Refusal::Results(why))));
        }
        // What a platform delivers from before our time is nobody who writes now.
        let baseline = self.home.rules.baseline_at(self.home.clock.now()).unwrap_or_default();
        let speaks = is_said_by_a_person(&submission) && submission.at.plus(BACKLOG_AFTER) >= baseline;
        if let Some(chat) = submission.birth.chat.as_ref().filter(|_| speaks)
            && self.expire(&chat.platform, &chat.chat_type, Noticed::Message).await.map_err(Stop::Reload)?
        {
            self.start_jobs().await.map_err(Stop::Reload)?;
            return Err(Stop::Bounce(Bounce::Ended)); // it begins the next conversation
        }
        let lifts = self.home.is_halted() && speaks;
        let lifts = lifts && !self.is_known(&submission).await?;
        let spoken = speaks.then(|| self.home.silences());
        if self.home.is_halted() && !lifts && !self.state.halted {
            self.obey(Event::Halted).await.map_err(Stop::Reload)?; // it slept when the others were told
        }
        if lifts {
            let unwritable = |error: StoreError| Refusal::Unwritable(error.to_string());
            let lifted = self.home.lift().await.map_err(unwritable);
            lifted.map_err(|refusal| Stop::Bounce(Bounce::Refused(refusal)))?;
            router::release(&self.home); // somebody is there again
        }
        let seq = self.state.received.next();
        let (gathers, can_answer) = (submission.gathers, submission.can_answer);
        let Submission { mut birth, at, key, kind, reply_to, sender, platform_id, trace, .. } = submission;
        let trace = self.traced(trace, key.as_str(), at);
        if matches!(kind, Kind::Command(Command::Continue)) {
            self.reopen_chains().await;
        }
        let reply_to = self.state.answer_to(&trace, &self.home.rules.home, reply_to);
        let input = Arc::new(Input { seq, at, key, kind, reply_to, sender, platform_id, trace, left: None });
        if !self.born {
            self.source.clone_from(&birth.source);
            self.user.clone_from(&birth.user);
            self.is_private = is_private(birth.chat.as_ref().map(|chat| chat.chat_type.as_str()));
            self.principal.clone_from(&birth.principal);
        }
        // What comes by another way than the chat (a letter, a task) knows nothing of the place.
        if !birth.room.is_plain() {
            self.room.clone_from(&birth.room);
        }
        let announced =
            self.after_a_reset(&mut birth, input.reply_to.as_ref()).await.map_err(Stop::Reload)?;
        let first = self.birth_act(birth).into_iter().chain(announced).collect();
        let progress = self.feed.follow(seq); // before the commit, so that nothing is missed
        if !can_answer {
            self.unattended.insert(seq);
        }
        match self.commit(Some(Event::Received(input)), first).await {
            Ok(()) => {
                self.spoken = spoken.unwrap_or(self.spoken);
                self.gather(seq, gathers).await.map_err(Stop::Reload)?;
                Ok(Receipt { session: self.id.clone(), seq, duplicate: false, progress })
            }
            Err(CommitError::Refused(StoreError::Duplicate { session, seq, same_body: true })) => {
                Err(Stop::Bounce(Bounce::Elsewhere { session, seq }))
            }
            Err(CommitError::Refused(StoreError::Duplicate { same_body: false, .. })) => {
                Err(Stop::Bounce(Bounce::Refused(Refusal::OtherBody)))
            }
            Err(CommitError::Refused(error @ (StoreError::Unwritable(_) | StoreError::Busy))) => {
                Err(Stop::Bounce(Bounce::Refused(Refusal::Unwritable(error.to_string()))))
            }
            Err(CommitError::Refused(error)) => Err(Stop::Reload(error)),
            Err(CommitError::Unknown) => Err(Stop::Reload(lost())),
        }
    }

    /// Why what a client's tools returned cannot be taken. Beside new words it is only left out.
    fn refuses_results(&self, request: &Request, birth: &Birth) -> Option<String> {
        if request.results.is_empty() || request.content != Content::Nothing {
            return None;
        }
        match &self.state.client_calls {
            Some(calls) => calls.take(&request.results).err(),
            // A session that begins takes over the client's copy, with the calls in it.
            None if !self.born
                && matches!(birth.imported.last(), Some(Message { body: Body::Result(_), .. })) =>
            {
                None
            }
            None => Some("no call waits for a result here; the conversation has moved on".into()),
        }
    }

    /// A question is held only where a person can answer it.
    async fn known_who_answers(&self, event: Event) -> Event {
        let Event::Asked { turn, step, index, question, patience, .. } = event else { return event };
        let approver = match !self.is_unattended() || self.home.has_owner() {
            true => Approver::Present,
            false => owner::chat(&self.home).await.map_or(Approver::Absent, Approver::OwnerChat),
        };
        Event::Asked { turn, step, index, question, patience, approver }
    }

    /// Nobody who asked for the running turn can answer what its tools ask.
    fn is_unattended(&self) -> bool {
        matches!(&self.state.phase, Phase::Turn(turn)
            if turn.inputs.iter().all(|input| self.unattended.contains(&input.seq)))
    }

    /// A message was taken in. While more of the one before it was expected, it is taken for that.
    /// Where that waits for its turn, both wait: no other turn is disturbed.
    async fn gather(&mut self, seq: Seq, more: Option<Duration>) -> Result<(), StoreError> {
        let now = Instant::now();
        let before = self.gathers.filter(|(until, _)| now < *until).map(|(_, part)| part);
        self.gathers = match (more, self.gathers) {
            (Some(more), _) => Some((now + more, seq)),
            (None, Some((until, _))) if before.is_some() => Some((until, seq)),
            (None, _) => None,
        };
        let asks_about = |part: Seq| match &self.state.phase {
            Phase::Turn(turn) => turn.inputs.iter().any(|input| input.seq == part),
            _ => false,
        };
        match before.is_some_and(asks_about) && !self.state.waiting.is_empty() {
            true => self.persist(Some(Event::Continued)).await,
            false => Ok(()),
        }
    }

    /// Ends the conversation if its time has come and nothing goes on in it. True: it has ended.
    async fn expire(
        &mut self,
        platform: &str,
        chat_type: &str,
        noticed: Noticed,
    ) -> Result<bool, StoreError> {
        let home = self.home.clone();
        let Some(policy) = home.lifecycle.policy(platform, chat_type) else { return Ok(false) };
        if !self.born || self.ended || home.is_halted() || !self.state.may_expire() {
            return Ok(false);
        }
        // What was there before our time counts from then on.
        let now = home.clock.now();
        let active = self.state.active.max(home.rules.baseline_at(now).unwrap_or_default());
        let active = home.reckoned(now, |reckoning| reckoning.active(active, now));
        let Some(reason) = home.lifecycle.due(policy, active, now) else { return Ok(false) };
        if home.tools.is_busy(&self.id, policy.process_age_max) || self.has_undelivered().await? {
            return Ok(false);
        }
        self.persist(Some(Event::Expired { reason, noticed })).await?;
        Ok(matches!(self.state.phase, Phase::Closed(_)))
    }

    async fn has_undelivered(&self) -> Result<bool, StoreError> {
        let id = self.id.clone();
        let found = self
            .home
            .library
            .read(move |store| Ok(store.undelivered()?.iter().any(|outgoing| outgoing.session == id)));
        found.await
    }

    /// The conversation before this one may have ended by itself: then it is known, and its people are
    /// told where they write next.
    async fn after_a_reset(
        &self,
        birth: &mut Birth,
        reply_to: Option<&Destination>,
    ) -> Result<Option<Act>, StoreError> {
        let Some(chat) = birth.chat.as_ref().filter(|_| !self.born) else { return Ok(None) };
        let key = chat.key.clone();
        let Some(reset) = self.home.library.read(move |store| store.reset(&key)).await? else {
            return Ok(None);
        };
        let policy = self.home.lifecycle.policies.of(&chat.platform, &chat.chat_type);
        let text = announcement(policy, &chat.platform, reset.reason, reset.had_activity);
        birth.predecessor.get_or_insert(reset.session);
        let told = text.zip(reply_to.cloned()).map(|(text, destination)| {
            let (key, trace) = (format!("{}/reset", self.id), Trace::default());
            Act::Deliver(Reply { key, destination, text, trace })
        });
        Ok(told)
    }

    /// A platform that delivers an old message again is nobody.
    async fn is_known(&self, submission: &Submission) -> Result<bool, Stop> {
        let key = submission.key.clone();
        let seen = self.home.library.read(move |store| store.seen(&key)).await;
        Ok(seen.map_err(Stop::Reload)?.is_some())
    }

    /// The request this one repeats, if its answer never reached a client. What this actor has seen
    /// itself it knows; only after a start does the store have to be asked.
    async fn retried(&mut self, submission: &Submission) -> Result<Option<Seq>, StoreError> {
        let Kind::Request(request) = &submission.kind else { return Ok(None) };
        let (true, true, Some(key)) = (submission.may_be_retry, self.born, request.implicit_key) else {
            return Ok(None);
        };
        let now = self.home.clock.now();
        self.forget_old_requests(now);
        if let Some(known) = self.requests.iter().rev().find(|request| request.key == key) {
            let over = known.written || (known.failed && self.state.failed != Some(TurnId(known.seq)));
            return Ok((!over).then_some(known.seq));
        }
        if self.requests_since.is_none_or(|since| now.since(since) >= IMPLICIT_KEY_HOLDS) {
            return Ok(None);
        }
        let found = self.home.library.read(move |store| store.implicit(&key)).await?;
        let found = found
            .filter(|found| found.session == self.id && !found.written)
            .filter(|found| is_lately(found.at, now));
        let Some(seq) = found.map(|found| found.seq) else { return Ok(None) };
        let id = self.id.clone();
        let settled = self.home.library.read(move |store| store.outcome(&id, seq)).await?;
        // One that failed is repeated only while nothing has been said since; later the same words are new.
        let over = match settled.map(|settled| settled.outcome) {
            Some(Outcome::Failed(turn, _)) => self.state.failed != Some(turn),
            _ => false,
        };
        Ok((!over).then_some(seq))
    }

    /// Whether nothing was said since this turn. Orders say nothing.
    async fn is_tip(&self, turn: TurnId) -> Result<bool, StoreError> {
        if self.state.phase != Phase::Idle || self.state.waiting.iter().any(|input| !is_order(input)) {
            return Ok(false);
        }
        let (id, later) = (self.id.clone(), turn.0.0 + 1..=self.state.received.0);
        if later.clone().count() > ORDERS_MAX {
            return Ok(false);
        }
        let said = self.home.library.read(move |store| {
            for seq in later {
                match store.outcome(&id, Seq(seq))?.map(|settled| settled.outcome) {
                    None | Some(Outcome::Done { .. }) => {}
                    Some(Outcome::Answered(other)) if other == turn => {}
                    Some(_) => return Ok(true),
                }
            }
            Ok(false)
        });
        Ok(!said.await?)
    }

    fn here(&self) -> Root {
        Root { home: self.home.rules.home.clone(), session: self.id.clone() }
    }

    fn traced(&self, trace: Trace, key: &str, at: Time) -> Trace {
        let foreign = match &trace.foreign {
            Some(heard) => self.state.foreign.after(heard, at, self.home.rules.limits.chain.quiet),
            None => self.state.foreign.clone(),
        };
        trace.rooted(key, self.here(), &foreign)
    }

    /// A person orders that agents go on. Whoever cannot be asked now is asked again by the next such order.
    async fn reopen_chains(&self) {
        if let Err(error) = self.home.ledger.reopen(self.here()).await {
            tracing::warn!(%error, "the chains of this conversation could not be opened again; try /continue again");
        }
    }

    /// The session itself, if this input is its first.
    fn birth_act(&self, mut birth: Birth) -> Option<Act> {
        birth.model.get_or_insert_with(|| self.home.model.name().to_owned());
        (!self.born).then(|| Act::Open(Box::new(birth)))
    }

    /// A turn that begins brings its client's layer of the system prompt along; the first one of a
    /// session freezes the prompt.
    async fn prompt_acts(&self, next: &Session) -> Vec<Act> {
        let Phase::Turn(turn) = &next.phase else { return Vec::new() };
        let runs_already = matches!(&self.state.phase, Phase::Turn(current) if current.id == turn.id);
        let unprompted = self.system_prompt.is_none();
        if runs_already && !unprompted {
            return Vec::new();
        }
        let layer = turn.inputs.first().and_then(|input| match &input.kind {
            Kind::Request(request) => request.system.as_deref(),
            Kind::Chat(_) | Kind::Command(_) => None,
        });
        let digest = layer.map(|layer| Digest::of(&[layer.as_bytes()]));
        let another = digest.is_some() && digest != self.layer;
        if !unprompted && !another {
            return Vec::new();
        }
        let caller = self.caller(turn);
        let offer = self.home.tools.offer(&caller);
        let names = offer.as_ref().map_or(&[] as &[String], |offer| &offer.names);
        let brief = match self.room.is_plain() {
            true => self.home.prompts.assemble(&caller, names).await,
            false => self.home.prompts.assemble_in(&caller, names, &self.room).await,
        };
        let personality = next.preferences.personality.as_ref();
        let prompt = with_personality(&compose(&brief, layer), personality);
        let mut acts = vec![Act::Freeze { prompt, layer: digest }];
        if !unprompted {
            let detail = "the client changed its system prompt".to_owned();
            acts.push(Act::Note { name: "cache_break", detail });
        }
        acts
    }

    /// Whoever wants the agent to speak otherwise gets a system prompt that says so, at the price of a break.
    fn personality_acts(&self, next: &Session) -> Vec<Act> {
        let personality = &next.preferences.personality;
        let (true, Some(prompt)) = (*personality != self.state.preferences.personality, &self.system_prompt)
        else {
            return Vec::new();
        };
        let prompt = with_personality(prompt, personality.as_ref());
        let detail = "another personality was chosen".to_owned();
        vec![Act::Freeze { prompt, layer: self.layer }, Act::Note { name: "cache_break", detail }]
    }

    /// The model that answers here.
    fn model(&mut self) -> Arc<dyn Model> {
        let Some(name) = &self.state.preferences.model else {
            self.chosen = None;
            return self.home.model.clone();
        };
        if let Some((chosen, model)) = &self.chosen
            && chosen == name
        {
            return model.clone();
        }
        let model = self.home.models.choose(name).unwrap_or_else(|why| {
            Arc::new(command_jobs::Gone { name: name.clone(), why, like: self.home.model.clone() })
        });
        self.chosen = Some((name.clone(), model.clone()));
        model
    }

    /// On whose behalf the tools of a turn act.
    fn caller(&self, turn: &Turn) -> Caller {
        Caller {
            session: self.id.clone(),
            source: turn.task().map_or(&self.source, |task| &task.source).clone(),
            principal: self.principal.clone(),
            user: self.user.clone(),
            is_private: self.is_private,
            reply_to: turn.inputs.last().and_then(|input| input.reply_to.clone()),
            trace: turn.trace(),
            task: turn.task().cloned(),
            allowed: self.allowed(),
            tokens_left: turn.tokens_left(&self.home.rules.limits),
            now: self.home.clock.now(),
        }
    }

    /// How much the model is to think here.
    fn reasoning(&self) -> Option<&str> {
        self.state.preferences.reasoning.as_deref().or(self.home.reasoning.as_deref())
    }

    fn allowed(&self) -> Vec<String> {
        let everything = self.state.preferences.yolo.then(|| EVERYTHING.to_owned());
        self.state.allowed.iter().cloned().chain(everything).collect()
    }

    fn asked_by(&self, call: &CallId) -> Option<&Question> {
        match &self.state.phase {
            Phase::Turn(Turn { id, step, group: Some(group), .. })
                if (*id, *step) == (call.turn, call.step) =>
            {
                match group.slots.get(call.index) {
                    Some(Slot::Asking(ask)) if ask.question.number() == call.question => Some(&ask.question),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    async fn decide(
        &mut self,
        call: CallId,
        verdict: Verdict,
        answer: oneshot::Sender<Result<(), Refusal>>,
    ) -> Result<(), StoreError> {
        let refusal = match (self.asked_by(&call), &verdict) {
            (None, _) => {
                Some(format!("nothing is asked by {call} any more: it was answered, stopped or timed out"))
            }
            (Some(Question::Approval { .. }), Verdict::Said(_)) => {
                Some(format!("{call} asks for a decision: approve or deny"))
            }
            (Some(Question::Clarify { .. } | Question::Elicitation { .. }), Verdict::Granted(_)) => {
                Some(format!("{call} asks for an answer in words"))
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            let _ = answer.send(Err(Refusal::Unknown(refusal)));
            return Ok(());
        }
        let CallId { turn, step, index, .. } = call;
        self.persist(Some(Event::Decided { turn, step, index, verdict })).await?;
        let _ = answer.send(Ok(()));
        self.start_jobs().await
    }

    async fn follow(&mut self, seq: Seq, answer: Answerer) -> Result<(), StoreError> {
        let id = self.id.clone();
        let outcome = self.home.library.read(move |store| store.outcome(&id, seq)).await?;
        let progress = match outcome {
            Some(settled) => stream::ended(settled),
            None if (1..=self.state.received.0).contains(&seq.0) => self.feed.follow(seq),
            None => {
                let unknown = format!("session {} has no message number {seq}", self.id);
                let _ = answer.send(Err(Bounce::Refused(Refusal::Unknown(unknown))));
                return Ok(());
            }
        };
        let _ = answer.send(Ok(Receipt { session: self.id.clone(), seq, duplicate: true, progress }));
        Ok(())
    }

    async fn retry(&mut self, turn: TurnId, seq: Seq, answer: Answerer) -> Result<(), StoreError> {
        let still_failed = self.state.failed == Some(turn) && self.state.phase == Phase::Idle;
        if !still_failed {
            let running = matches!(&self.state.phase, Phase::Turn(current) if current.id == turn);
            if running {
                return self.follow(seq, answer).await; // another client was quicker: share its turn
            }
            let _ = answer.send(Err(Bounce::Refused(Refusal::MovedOn)));
            return Ok(());
        }
        let id = self.id.clone();
        let inputs = self.home.library.read(move |store| store.turn_inputs(&id, turn)).await?;
        let progress = self.feed.follow(seq);
        self.persist(Some(Event::Retried { inputs, began: self.home.clock.now() })).await?;
        let _ = answer.send(Ok(Receipt { session: self.id.clone(), seq, duplicate: true, progress }));
        self.start_jobs().await
    }

    /// Hermes wrote to this session: what we remember of its rows is no longer all of them.
    async fn look_again(&mut self) -> Result<(), StoreError> {
        self.forget_composition();
        let id = self.id.clone();
        if let Some(loaded) = self.home.library.read(move |store| store.load(&id)).await? {
            if loaded.session.generation != self.expect {
                return Err(StoreError::Fenced {
                    session: self.id.clone(),
                    current: loaded.session.generation,
                });
            }
            self.ended = loaded.ended.is_some();
            self.system_prompt = loaded.system_prompt;
            // What another process has added weighs something, too.
            let context = &mut self.state.upkeep.context;
            *context = loaded.session.upkeep.context.max(*context);
        }
        if !self.is_intact().await? {
            self.persist(Some(Event::Rewritten { from: RowId(0) })).await?;
            self.start_jobs().await?;
        }
        Ok(())
    }

    /// Commits what an internal event leads to. It cannot be refused to anyone, so a disk that is
    /// full is waited for.
    async fn persist(&mut self, event: Option<Event>) -> Result<(), StoreError> {
        loop {
            match self.commit(event.clone(), Vec::new()).await {
                Ok(()) => return Ok(()),
                Err(CommitError::Refused(StoreError::Unwritable(_) | StoreError::Busy)) => {
                    sleep(DISK_RETRY).await
                }
                Err(CommitError::Refused(error)) => return Err(error),
                Err(CommitError::Unknown) => return Err(lost()),
            }
        }
    }

    /// Steps and commits; without an event, what taking the session up asked for. A refused commit
    /// leaves the actor as it was.
    async fn commit(&mut self, event: Option<Event>, first: Vec<Act>) -> Result<(), CommitError> {
        let now = self.home.clock.now();
        let answered = match &event {
            Some(Event::Answered { answer, prompt, .. }) => Some((answer.clone(), *prompt)),
            _ => None,
        };
        let mut before = self.state.clone();
        if let Some(Act::Open(birth)) = first.first() {
            before.upkeep.context += birth.imported.iter().map(estimate).sum::<u64>();
        }
        let asks_for_status = matches!(&event, Some(Event::Received(input))
            if matches!(input.kind, Kind::Command(Command::Status)));
        let (mut next, mut acts) = match event {
            Some(event) => before.step(event, now, &self.home.rules),
            None => (before, Vec::new()),
        };
        if asks_for_status {
            self.add_engine_words(&mut acts).await;
        }
        let answered = answered.map(|(answer, mark)| (as_written(answer, &acts), mark));
        let mut acts: Vec<Act> = self.pending.iter().cloned().chain(acts).collect();
        self.read_texts(&mut next, &mut acts).await.map_err(CommitError::Refused)?;
        let mut all = self.prompt_acts(&next).await;
        all.extend(self.personality_acts(&next));
        all.extend(first);
        all.extend(acts);
        self.divide(&mut all);
        self.file(&mut all).await.map_err(CommitError::Refused)?;
        if !all.is_empty() {
            all.extend(self.recall_acts());
        }
        let unchanged = next == self.state && self.expect == next.generation;
        if unchanged && all.is_empty() {
            return Ok(());
        }
        let commit = Commit::Session {
            expect: self.expect,
            state: Box::new(next.clone()),
            acts: all.clone(),
            at: now,
        };
        let committed = self.home.library.commit(commit).await?;
        self.home.stands(&self.id);
        self.pending.clear();
        self.expect = next.generation;
        let left = match (&self.state.client_calls, &next.client_calls) {
            (None, Some(calls)) => self.answer_of(calls.turn).await.map_err(CommitError::Refused)?,
            _ => None,
        };
        let before = std::mem::replace(&mut self.state, next);
        let appended = all.iter().filter_map(|act| match act {
            Act::Append(message) => Some(message),
            _ => None,
        });
        for (message, row) in appended.zip(&committed.rows) {
            if let (Body::User(content), true) = (&message.body, self.home.memory.is_some()) {
                let said = content.plain();
                self.said = Some(offload::run(said.len(), || unfenced(&said)));
            }
            self.hear(*row, message);
        }
        self.log_compression(&before, &all, committed.promoted.as_ref(), now);
        self.take_effect(&before, all, Told { answered, left }, now);
        self.born = true;
        if committed.foreign {
            self.forget_composition(); // rows that we do not remember stand before those we just wrote
        }
        Ok(())
    }

    /// What a step takes up is committed whole. Texts that were on disk only are read for that: they are of this very
    /// step, or in a row that only this actor settles.
    async fn read_texts(&self, next: &mut Session, acts: &mut [Act]) -> Result<(), StoreError> {
        let mut unread = next.unread(acts);
        if unread.is_empty() {
            return Ok(());
        }
        let mut read = BTreeMap::new();
        for input in acts.iter().filter_map(accepted).filter(|input| unread.remove(&input.seq)) {
            read.insert(input.seq, input.clone());
        }
        for seq in unread {
            read.insert(seq, self.whole(seq).await?);
        }
        next.take_in_whole(&read, acts);
        Ok(())
    }

    /// An input that waits, with all its texts.
    async fn whole(&self, seq: Seq) -> Result<Arc<Input>, StoreError> {
        let id = self.id.clone();
        let found = self.home.library.read(move |store| store.input(&id, seq)).await?;
        found.ok_or_else(|| StoreError::Broken {
            doing: "read a message that waits",
            source: format!("session {} has no message number {seq} any more", self.id).into(),
        })
    }

    /// What a turn was answered with whose calls are the client's now.
    async fn answer_of(&self, turn: TurnId) -> Result<Option<Answer>, StoreError> {
        let id = self.id.clone();
        let settled = self.home.library.read(move |store| store.outcome(&id, turn.0)).await?;
        Ok(settled.and_then(|settled| settled.answer))
    }

    /// The machine knows how the conversation stands; what its context engine makes of it only that one knows.
    async fn add_engine_words(&self, acts: &mut [Act]) {
        let report = acts.iter().find_map(|act| match act {
            Act::Settle { outcome: Outcome::Done { said, .. }, .. } => Some(said.clone()),
            _ => None,
        });
        let Some(report) = report.filter(|_| self.born) else { return };
        let Some(words) = self.home.compressor.words_about(&self.home, &self.id).await else { return };
        for act in acts {
            match act {
                Act::Settle { outcome: Outcome::Done { said: text, .. }, .. }
                | Act::Deliver(Reply { text, .. })
                    if *text == report =>
                {
                    *text = format!("{report}\n{words}");
                }
                _ => {}
            }
        }
    }

    /// Each piece of a reply is a row of its own: what has arrived of it is not sent again.
    fn divide(&self, acts: &mut Vec<Act>) {
        let divided = acts.drain(..).flat_map(|act| match act {
            // A question is one thing, with its buttons under it.
            Act::Deliver(reply) if Outgoing::asked_by(&reply.key).is_none() => self.pieces(reply),
            act => vec![act],
        });
        *acts = divided.collect();
    }

    fn pieces(&self, reply: Reply) -> Vec<Act> {
        let platform = self.home.platform(&reply.destination).found();
        let texts = platform.map(|platform| platform.parts(&reply.text)).unwrap_or_default();
        match texts.len() {
            0 | 1 => {
                let text = texts.into_iter().next().unwrap_or(reply.text);
                vec![Act::Deliver(Reply { text, ..reply })]
            }
            _ => {
                let pieces = texts.into_iter().enumerate().map(|(place, text)| {
                    let key = Outgoing::piece_key(&reply.key, place);
                    Act::Deliver(Reply { key, text, ..reply.clone() })
                });
                pieces.collect()
            }
        }
    }

    /// The reply that a preview is of will have the key of the running turn.
    async fn draft(&self, seq: Seq) -> Option<Draft> {
        let Phase::Turn(turn) = &self.state.phase else { return None };
        let destination = turn.inputs.last()?.reply_to.clone()?;
        let shown = self.home.platform(&destination).found().is_some();
        let shown = shown && destination.platform != AGENT_PLATFORM && !self.home.is_halted();
        if !shown || !turn.inputs.iter().any(|input| input.seq == seq) {
            return None;
        }
        let key = format!("{}/{}", self.id, turn.id);
        let id = match self.home.drafts.get(&key) {
            Some(Preview::Posted(id)) => Some(id),
            Some(Preview::Unknown) => return None, // there may be one, and nobody can find it
            None => {
                let place = destination.clone();
                let intended = DraftChange::Intended { session: self.id.clone(), destination };
                draft::put(&self.home, key.clone(), intended).await.ok()?;
                self.home.drafts.begin(&key, place, turn.trace().onward());
                None
            }
        };
        let hold = draft::hold(&self.home, &key)?;
        Some(Draft { key, id, hold })
    }

    /// What follows from a commit, now that it is on disk.
    fn take_effect(&mut self, before: &Session, acts: Vec<Act>, told: Told, now: Time) {
        let Told { answered, left } = told;
        if let Some((_, prompt)) = &answered {
            self.last_prompt = Some(*prompt);
        }
        hooks::tell(&self.home, &self.source, before, &self.state, &acts, now);
        let began = match (&before.phase, &self.state.phase) {
            (Phase::Turn(turn), _) | (_, Phase::Turn(turn)) => turn.began,
            _ => now,
        };
        let questions: Vec<Pending> = acts.iter().filter_map(|act| self.question_of(act)).collect();
        let unattended = acts.iter().any(|act| matches!(act, Act::Note { name: UNATTENDED, .. }));
        for act in acts {
            match act {
                // A session that begins here has no rows but those of this commit, and its prompt
                // is frozen before the first of them: there is nothing to read back.
                Act::Freeze { prompt, layer } => {
                    self.system_prompt = Some(prompt);
                    self.layer = layer;
                    self.composition = (!self.born).then(|| self.begin_composition()).flatten();
                }
                Act::Open(birth) => {
                    self.home.compressor.tell_beginning(&self.home, &self.id);
                    self.principal.clone_from(&birth.principal);
                    birth.imported.iter().for_each(|message| self.append(message));
                    self.scope = None;
                }
                Act::Append(message) => self.append(&message),
                Act::Settle { seq, outcome } => {
                    let answer = match &outcome {
                        Outcome::Answered(_) if left.is_some() => left.clone(),
                        Outcome::Answered(_) => answered.as_ref().map(|(answer, _)| answer.clone()),
                        _ => None,
                    };
                    self.unattended.remove(&seq);
                    self.home.set_unattended(&self.id, false);
                    let failed = matches!(outcome, Outcome::Failed(..));
                    if matches!(&outcome, Outcome::Failed(_, failure) if failure.kind == FailureKind::Parked)
                    {
                        tokio::spawn(delegate::end_children(self.home.clone(), self.id.clone()));
                    }
                    self.requests
                        .iter_mut()
                        .filter(|request| request.seq == seq)
                        .for_each(|request| request.failed = failed);
                    self.feed.settle(seq, Arc::new(Settled { outcome, began, answer }));
                }
                Act::Deliver(reply) => self.home.outbox.send(Outgoing {
                    question: Outgoing::asked_by(&reply.key)
                        .and_then(|call| questions.iter().find(|pending| pending.call == call).cloned()),
                    draft: None,
                    key: reply.key,
                    session: self.id.clone(),
                    destination: reply.destination,
                    text: reply.text,
                    trace: reply.trace,
                    attempts: 0,
                    attempting: None,
                    attempted: None,
                    marked: false,
                    not_before: now,
                }),
                Act::Expire { .. } => self.home.router.forget(&self.id),
                Act::Hook { hook, run: Run::Done } => {
                    if let Some(told) = self.ended().told(&self.job_context(), &hook) {
                        self.home.hooks.forget(&hook, &told);
                    }
                }
                Act::Close { successor, .. } => {
                    self.home.router.forget(&self.id);
                    self.home.bequeath(&successor, self.room.clone());
                    router::mail(&self.home, &successor, Origin::Stored, Mail::Wake);
                }
                Act::Switch { to, .. } => {
                    // The hand-over tells the engine; where Hermes has seen to that, nobody else does.
                    if !self.is_finalising() {
                        self.home.compressor.tell_end(&self.home, &self.id, Some(to.clone()));
                    }
                    self.home.tools.forget(&self.id);
                    self.home.router.forget(&self.id);
                    self.home.router.dismiss_one(&to); // whoever owned it knows of an earlier life only
                    router::mail(&self.home, &to, Origin::Stored, Mail::Wake);
                }
                Act::Rewind { .. } => {
                    finalise::rewound(&self.home, &self.id, self.state.generation);
                    self.forget_composition();
                    if self.last_prompt.take().is_some() {
                        let detail = "something was taken back".into();
                        self.home.note(Some(self.id.clone()), "cache_break", detail);
                    }
                }
                Act::Note { name: RESTART, .. } => self.home.host_commands.restart(),
                Act::Result { turn, step, result, .. } => {
                    if unattended {
                        let (id, tool) = (result.call_id.clone(), result.name.clone().unwrap_or_default());
                        self.feed.unattended(turn, step, id, tool);
                    }
                    self.feed.called(turn, step, result.call_id, result.name.unwrap_or_default());
                }
                Act::Ask { turn, step, index, ask } => self.tell_asked(turn, step, index, ask),
                Act::Grant { turn, step, index, .. } => {
                    self.feed.granted(CallId { session: self.id.clone(), turn, step, index, question: 0 });
                }
                Act::Resume { turn, step, index, verdict } => {
                    let waits = |call: &CallId| (call.turn, call.step, call.index) == (turn, step, index);
                    for (_, answer) in self.eliciting.extract_if(.., |call, _| waits(call)) {
                        let _ = answer.send(verdict.clone()); // its call may be over by now
                    }
                }
                Act::Note { name, detail } => {
                    if name == "cache_break" {
                        self.last_prompt = None; // it has its name: the next request does not give it another
                    }
                    tracing::info!(name, detail, "noted");
                }
                Act::Accept(input) => self.remember(&input),
                Act::Promote { .. } | Act::Restore { .. } => {
                    self.forget_composition();
                    if self.last_prompt.take().is_some() {
                        self.home.note(Some(self.id.clone()), "cache_break", "the view has changed".into());
                    }
                }
                Act::Title { .. } => self.scope = None,
                Act::Retain(_) => {
                    self.scope = self.scope.take().filter(|scope| scope.document.is_some()); // else it has one now
                    self.home.retaining.wake();
                }
                Act::HandOver => self.home.retaining.wake(),
                Act::Recall { .. } => self.recall_is_written(),
                Act::Begin { .. }
                | Act::Say(_)
                | Act::Step(_)
                | Act::Leave { .. }
                | Act::Named
                | Act::Tip { .. }
                | Act::Compress(_)
                | Act::Reopen
                | Act::Hook { .. }
                | Act::Review(_)
                | Act::Reviewed { .. }
                | Act::Abandon { .. } => {}
            }
        }
        self.report();
    }

    /// What became of a compression, now that it is on disk. The lines stand in the span of this session,
    /// whatever thread writes them.
    fn log_compression(&self, before: &Session, acts: &[Act], promoted: Option<&Promoted>, now: Time) {
        let id = &self.id;
        for act in acts {
            match act {
                Act::Compress(operation) if before.compression.is_none() && operation.is_preparing() => {
                    self.log_started(operation);
                }
                Act::Promote { operation, .. } => {
                    let Some(Promoted {
                        snapshot, messages_before, messages_after, tokens_after, kind, ..
                    }) = promoted
                    else {
                        continue;
                    };
                    let (op, ms) = (operation.name(id), now.since(operation.began).as_millis());
                    tracing::info!(
                        "[{id}] context compression done: session={id} op={op} messages={messages_before}->{messages_after} \
                         tokens=~{tokens_after} snapshot={snapshot} ms={ms} kind={kind}"
                    );
                }
                Act::Abandon { number, end, reason } => {
                    let (op, end) = (operation_name(id, *number), end.as_str());
                    tracing::info!("[{id}] context compression {end}: session={id} op={op} reason={reason}");
                }
                _ => {}
            }
        }
    }

    fn log_started(&self, operation: &Operation) {
        let (id, op, model) = (&self.id, operation.name(&self.id), &self.home.compressor.model);
        let Operation { messages, tokens, .. } = operation;
        tracing::info!(
            "[{id}] context compression started: session={id} op={op} messages={messages} tokens=~{tokens} model={model}"
        );
    }

    fn tell_asked(&self, turn: TurnId, step: u32, index: usize, ask: Ask) {
        if let Some(pending) = self.question_of(&Act::Ask { turn, step, index, ask }) {
            self.feed.asked(pending);
        }
    }

    fn question_of(&self, act: &Act) -> Option<Pending> {
        let Act::Ask { turn, step, index, ask } = act else { return None };
        let Phase::Turn(Turn { group: Some(group), .. }) = &self.state.phase else { return None };
        let tool = group.answer.calls.get(*index).map(|call| call.name.clone()).unwrap_or_default();
        let question = ask.question.number();
        let call = CallId { session: self.id.clone(), turn: *turn, step: *step, index: *index, question };
        Some(Pending { call, tool, ask: ask.clone() })
    }

    fn forget_old_requests(&mut self, now: Time) {
        while self.requests.pop_front_if(|request| now.since(request.at) >= IMPLICIT_KEY_HOLDS).is_some() {}
    }

    fn remember(&mut self, input: &Input) {
        if let Kind::Request(request) = &input.kind
            && let Some(key) = request.implicit_key
        {
            let at = self.home.clock.now();
            self.forget_old_requests(at);
            self.requests.push_back(Recent { key, seq: input.seq, at, written: false, failed: false });
        }
    }

    fn append(&mut self, message: &Message) {
        let model = self.model();
        if let Some(composition) = &mut self.composition {
            composition.push(model.encode(message));
        }
    }

    fn forget_composition(&mut self) {
        self.composition = None;
    }

    /// The home's gauges follow what this session does.
    fn report(&mut self) {
        let ordered = self.state.compression.as_ref().map_or(0, |operation| operation.orders.len());
        let share = Share {
            running: usize::from(matches!(self.state.phase, Phase::Turn(_))),
            asking: usize::from(matches!(self.state.phase, Phase::Turn(_)) && !self.state.is_running()),
            // What is held by the operator's silence is on disk, and nobody waits for it to end.
            waiting: if self.state.halted { 0 } else { self.state.waiting.len() + ordered },
            finalising: usize::from(self.is_finalising()),
            cached: self.composition.as_ref().map_or(0, Composition::bytes),
        };
        let gauges = &self.home.gauges;
        gauges.running.fetch_add(share.running.wrapping_sub(self.share.running), Ordering::Relaxed);
        gauges.asking.fetch_add(share.asking.wrapping_sub(self.share.asking), Ordering::Relaxed);
        gauges.waiting.fetch_add(share.waiting.wrapping_sub(self.share.waiting), Ordering::Relaxed);
        gauges.finalising.fetch_add(share.finalising.wrapping_sub(self.share.finalising), Ordering::Relaxed);
        gauges.cached.fetch_add(share.cached.wrapping_sub(self.share.cached), Ordering::Relaxed);
        self.share = share;
        self.home.stirred.notify_waiters();
    }

    /// Starts what the state implies and is not running; ends what it no longer implies.
    async fn start_jobs(&mut self) -> Result<(), StoreError> {
        let implied = self.state.jobs();
        self.hurry();
        // Whoever waits for the answer to a question that is not asked any more hears that by the end of the channel.
        let over: Vec<CallId> =
            self.eliciting.keys().filter(|call| self.asked_by(call).is_none()).cloned().collect();
        over.iter().for_each(|call| drop(self.eliciting.remove(call)));
        self.jobs.retain(|job, handle| {
            let keep = implied.contains(job);
            if !keep {
                handle.abort();
            }
            keep
        });
        for job in implied {
            if !self.jobs.contains_key(&job) && !self.home.is_halted() {
                let handle = self.start(&job).await?;
                self.jobs.insert(job, handle);
            }
        }
        if self.jobs.is_empty() && self.home.is_cache_full() {
            self.forget_composition();
            self.report();
        }
        Ok(())
    }

    async fn start(&mut self, job: &Job) -> Result<AbortHandle, StoreError> {
        let context = self.job_context();
        match (job, &self.state.compression) {
            (Job::Survey { .. }, _) => {
                let asked = self.state.survey().expect("a survey is implied by what it is to look at");
                return Ok(context.start(compress::survey(
                    context.clone(),
                    asked,
                    self.context_state().await?,
                )));
            }
            (Job::Summarise { .. }, Some(operation)) => {
                let operation = operation.clone();
                let summary = compress::summarise(context.clone(), operation, self.context_state().await?);
                return Ok(context.start(summary));
            }
            (Job::Order { seq }, _) => {
                let order = self.order(*seq).await?.expect("a deferred command is implied by what waits");
                return Ok(context.start(command_jobs::carry_out(context.clone(), order)));
            }
            (Job::Review { .. }, _) => {
                let review =
                    self.state.reviews.pending.front().expect("a review is implied by one that is due");
                let (review, reading) = (review.clone(), self.reading(review));
                return Ok(context.start(review::run(context.clone(), review, reading)));
            }
            (Job::Share { seq }, _) => {
                let waits = |input: &&Arc<Input>| input.seq == *seq;
                let input = self.state.waiting.iter().find(waits).expect("a share is implied by what waits");
                let share = chain::share_of(&self.home, &self.id, input, &input.trace, Amount::Turn);
                return Ok(context.start(chain::share(context.clone(), *seq, share)));
            }
            (Job::Report { operation }, _) => {
                return Ok(context.start(compress::report(context.clone(), *operation)));
            }
            _ => {}
        }
        Ok(match (job, &self.state.phase) {
            (Job::Ask { turn, step }, Phase::Turn(current)) => {
                let sampling = current.inputs.last().and_then(|input| match &input.kind {
                    Kind::Request(request) => request.sampling.clone(),
                    Kind::Chat(_) | Kind::Command(_) => None,
                });
                // Whoever insists on a call gets none from a turn that may make no more.
                let sampling = if current.exhausted { without_choice(sampling) } else { sampling };
                let sampling = with_reasoning(sampling, self.reasoning());
                let inputs = current.inputs.iter().map(|input| input.seq).collect();
                let (prompt, mark) = self.composed().await?;
                if let Some(query) = self.wants_recall() {
                    let reminder = self.reminder().await?;
                    let earlier = self.take_late(&reminder);
                    self.recalling = Some((*turn, *step));
                    return Ok(context.start(recall::remind(
                        context.clone(),
                        *turn,
                        reminder,
                        query,
                        earlier,
                    )));
                }
                let feed = self.feed.clone();
                let model = self.model();
                let context_state = self.context_state().await?;
                let Phase::Turn(current) = &self.state.phase else { unreachable!("it was one above") };
                let (trace, last) = (current.trace(), current.inputs.last());
                let share = last
                    .filter(|_| !trace.is_human())
                    .map(|last| chain::share_of(&self.home, &self.id, last, &trace, Amount::Call));
                let (turn, step, recipient) = (*turn, *step, current.recipient());
                let asking = Asking {
                    turn,
                    step,
                    inputs,
                    prompt,
                    mark,
                    sampling,
                    model,
                    context_state,
                    share,
                    recipient,
                };
                let (asked, gathers_until) =
                    (turn::ask(context.clone(), feed, asking), self.gathers.map(|(until, _)| until));
                context.start(async move {
                    if let Some(until) = gathers_until {
                        sleep_until(until).await;
                    }
                    asked.await;
                })
            }
            (Job::Call { turn, step, index }, Phase::Turn(current)) => {
                let group = current.group.as_ref().expect("a call is implied by an open group");
                let asked = &group.answer.calls[*index];
                let grant = match group.slots[*index] {
                    Slot::Open(grant) => grant,
                    Slot::Asking(_) | Slot::Client | Slot::Done(_) => None,
                };
                let session = self.id.clone();
                let place = CallId { session, turn: *turn, step: *step, index: *index, question: 0 };
                self.home.set_unattended(&self.id, self.is_unattended());
                let call = Call {
                    key: place.to_string(),
                    name: asked.name.clone(),
                    arguments: asked.arguments.clone(),
                    caller: self.caller(current),
                    grant,
                };
                self.feed.calling(*turn, *step, asked);
                context.start(turn::call(context.clone(), place, asked.id.clone(), call))
            }
            (Job::Await { turn, step, index }, Phase::Turn(current)) => {
                let group = current.group.as_ref().expect("a question is implied by an open group");
                let Slot::Asking(ask) = &group.slots[*index] else {
                    unreachable!("a question is implied by a call that asks")
                };
                let session = self.id.clone();
                let place = CallId { session, turn: *turn, step: *step, index: *index, question: 0 };
                context.start(turn::wait(context.clone(), place, ask.clone()))
            }
            (Job::Finalise { .. }, Phase::Closed(_)) => {
                context.start(finalise::step(context.clone(), self.ended()))
            }
            (job, _) => unreachable!("{job:?} is not implied by this phase"),
        })
    }

    /// What is asked of a host command, and by whom.
    async fn order(&self, seq: Seq) -> Result<Option<command_jobs::Order>, StoreError> {
        let waiting = self.state.waiting.iter().find(|input| input.seq == seq).cloned();
        let input = match waiting {
            Some(input) if input.left.is_some() => self.whole(seq).await?,
            Some(input) => input,
            None => return Ok(None),
        };
        let Kind::Command(Command::Deferred(deferred)) = &input.kind else { return Ok(None) };
        let argument = match deferred {
            DeferredCommand::Other { argument, .. } => argument.clone(),
            _ => String::new(),
        };
        let asked = Assignment {
            key: format!("{}/{seq}", self.id),
            name: deferred.name().to_owned(),
            argument,
            session: Some(self.id.clone()),
            source: self.source.clone(),
            user: self.user.clone(),
            is_private: self.is_private,
            principal: self.principal.clone(),
            place: input.reply_to.clone(),
            preferences: self.state.preferences.clone(),
        };
        let context = self.state.upkeep.context;
        Ok(Some(command_jobs::Order {
            seq,
            session: self.id.clone(),
            deferred: deferred.clone(),
            asked,
            context,
        }))
    }

    /// What a review needs of this session, on whose behalf it acts.
    fn reading(&self, review: &Review) -> Reading {
        let home = &self.home;
        let chosen = review.model.as_ref().and_then(|name| home.models.choose(name).ok());
        let caller = Caller {
            session: self.id.clone(),
            source: self.source.clone(),
            principal: self.principal.clone(),
            user: self.user.clone(),
            is_private: self.is_private,
            reply_to: review.place.clone(),
            trace: Trace::default(),
            task: None,
            allowed: Vec::new(), // what needs a person is not done
            tokens_left: None,
            now: home.clock.now(),
        };
        let sampling = with_reasoning(None, self.reasoning());
        Reading { model: chosen.unwrap_or_else(|| home.model.clone()), caller, sampling }
    }

    fn job_context(&self) -> turn::JobContext {
        turn::JobContext { home: self.home.clone(), session: self.id.clone(), mail: self.address.clone() }
    }

    /// How far the hand-over has come; only an ended session has one.
    fn ended(&self) -> Ended {
        let stage = match self.state.phase {
            Phase::Closed(stage) => stage,
            Phase::Idle | Phase::Turn(_) => Finalisation::Done,
        };
        Ended {
            session: self.id.clone(),
            epoch: self.state.epoch,
            generation: self.state.generation,
            stage,
            handover: self.state.handover.clone(),
            source: self.source.clone(),
        }
    }

    fn is_finalising(&self) -> bool {
        matches!(self.state.phase, Phase::Closed(stage) if stage != Finalisation::Done)
            && self.state.handover.parked.is_none()
    }

    async fn context_state(&mut self) -> Result<ContextState, StoreError> {
        let scope = self.scope().await?;
        Ok(ContextState {
            context: self.state.upkeep.context,
            scope,
            view: self.state.view,
            found: self.found.clone(),
        })
    }

    /// Tools and system prompt of the running turn; None while none runs.
    fn begin_composition(&mut self) -> Option<Composition> {
        let Phase::Turn(turn) = &self.state.phase else { return None };
        self.offer = self.offer_to(turn);
        let model = self.model();
        let tools = self.offer.as_ref().map(|offer| model.encode_tools(&offer.list));
        let system = self.system_prompt.as_ref().map(|prompt| model.encode_system(prompt));
        Some(Composition::new(model.name(), tools, system))
    }

    /// What the model may call in this turn: the agent's tools, and those that its client runs.
    fn offer_to(&self, turn: &Turn) -> Option<Arc<Offer>> {
        let own = self.home.tools.offer(&self.caller(turn));
        match turn.client_tools() {
            Some(theirs) => Some(Arc::new(with_client_tools(own.as_deref(), theirs))),
            None => own,
        }
    }

    /// The prompt as it stands, and a word in the log if it does not begin as the last one did.
    async fn composed(&mut self) -> Result<(throughline_core::prompt::Prompt, Mark), StoreError> {
        self.notice_other_tools();
        if self.composition.is_none() {
            let id = self.id.clone();
            let history = self.home.library.read(move |store| store.history(&id)).await?;
            for (row, message) in &history {
                self.hear(*row, message);
            }
            let shown = history.into_iter().map(|(row, message)| match self.sent_as(row) {
                Some(sent_as) => Message { sent_as: Some(sent_as), ..message },
                None => message,
            });
            let messages: Vec<Message> = shown.collect();
            let mut composition = self.begin_composition().expect("only a turn is composed for");
            let model = self.model();
            legal(&messages).iter().for_each(|message| composition.push(model.encode(message)));
            self.composition = Some(composition);
            self.report();
        }
        let composition = self.composition.as_ref().expect("just composed");
        if let Some(why) = self.last_prompt.and_then(|last| composition.breaks(&last)) {
            self.home.note(Some(self.id.clone()), "cache_break", why.to_string());
            self.last_prompt = None;
        }
        Ok((composition.prompt(), composition.mark()))
    }

    /// A server may have changed its tools, or a setting who may use them.
    fn notice_other_tools(&mut self) {
        let Phase::Turn(turn) = &self.state.phase else { return };
        let offer = self.offer_to(turn);
        let same = match (&offer, &self.offer) {
            (Some(now), Some(then)) => Arc::ptr_eq(now, then) || now.list == then.list,
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.forget_composition();
        }
    }
}

mod recall;

impl Drop for Actor {
    fn drop(&mut self) {
        self.jobs.values().for_each(AbortHandle::abort);
        let gauges = &self.home.gauges;
        gauges.running.fetch_sub(self.share.running, Ordering::Relaxed);
        gauges.asking.fetch_sub(self.share.asking, Ordering::Relaxed);
        gauges.waiting.fetch_sub(self.share.waiting, Ordering::Relaxed);
        gauges.finalising.fetch_sub(self.share.finalising, Ordering::Relaxed);
        gauges.cached.fetch_sub(self.share.cached, Ordering::Relaxed);
    }
}

fn accepted(act: &Act) -> Option<&Arc<Input>> {
    match act {
        Act::Accept(input) => Some(input),
        _ => None,
    }
}

/// What those who wait are told.
struct Told {
    answered: Option<(Answer, Mark)>,
    /// An answer whose calls are the client's to run.
    left: Option<Answer>,
}

enum Stop {
    Bounce(Bounce),
    Reload(StoreError),
}

fn is_order(input: &Input) -> bool {
    matches!(&input.kind, Kind::Command(command) if command.words().is_none())
}

/// Words of a person, rather than an order or what a program says.
fn is_said_by_a_person(submission: &Submission) -> bool {
    let words = match &submission.kind {
        Kind::Command(command) => command.wakes(),
        Kind::Chat(_) | Kind::Request(_) => true,
    };
    words && submission.trace.is_human()
}

/// The persona of the agent, and what a client adds to it.
fn compose(persona: &str, layer: Option<&str>) -> Arc<str> {
    match layer {
        Some(layer) if !layer.is_empty() && !persona.is_empty() => format!("{persona}\n\n{layer}").into(),
        Some(layer) if persona.is_empty() => layer.into(),
        _ => persona.into(),
    }
}

/// What stands between a system prompt and how the agent is to speak.
const PERSONALITY: &str = "\n\n[How to speak, as chosen for this conversation: ";

/// The same prompt with this personality at its end, and no other.
fn with_personality(prompt: &str, personality: Option<&Personality>) -> Arc<str> {
    let bare = prompt.rfind(PERSONALITY).map_or(prompt, |end| &prompt[..end]);
    match personality {
        Some(Personality { name, prompt }) => format!("{bare}{PERSONALITY}{name}]\n{prompt}").into(),
        None => bare.into(),
    }
}

/// What a client asks for itself counts for more than what was chosen for the conversation.
fn with_reasoning(sampling: Option<JsonText>, level: Option<&str>) -> Option<JsonText> {
    let Some(level) = level else { return sampling };
    let fields = sampling.as_ref().map_or("{}", JsonText::as_str);
    let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(fields) else { return sampling };
    fields.entry("reasoning_effort").or_insert_with(|| level.into());
    Some(JsonText::from_valid(Value::Object(fields).to_string()))
}

fn without_choice(sampling: Option<JsonText>) -> Option<JsonText> {
    let fields = sampling.as_ref()?;
    let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(fields.as_str()) else {
        return sampling;
    };
    fields.remove("tool_choice");
    Some(JsonText::from_valid(Value::Object(fields).to_string()))
}

fn lost() -> StoreError {
    StoreError::Broken {
        doing: "learn how a commit ended",
        source: "the writer stopped in the middle".into(),
    }
}

/// An answer as it stands in the transcript, which is what its client gets: a notice may have joined it.
fn as_written(answer: Answer, acts: &[Act]) -> Answer {
    let said = acts.iter().find_map(|act| match act {
        Act::Append(Message { body: Body::Assistant(said), .. }) if said.calls.is_empty() => {
            Some(said.clone())
        }
        _ => None,
    });
    Answer { said: said.unwrap_or_else(|| answer.said.clone()), ..answer }
}
