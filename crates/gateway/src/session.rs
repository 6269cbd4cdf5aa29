//! The owner of one session: receive, admit or step, commit, start jobs.
//!
//! All news of the session enters one mailbox, so order is never a matter of luck. What the machine decides is on disk
//! before anything follows from it. When a commit is refused because the state is not what the owner thought, the owner
//! stops, and the session is loaded again.
//!
//! Deliberately absent: decisions. They are in [`throughline_core::session`], which is asked with what was looked up.

use crate::agent::Home;
use crate::alarm::Alarm;
use crate::committer::CommitError;
use crate::compress::Found as Surveyed;
use crate::gateway_tools::delegate;
use crate::stream::Feed;
use jobs::Jobs;
pub(crate) use mail::{Bounce, Mail, Origin};
use observe::{Done, Share, Told};
use prompting::Prompting;
use questions::Questions;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::input::Room;
use throughline_core::memory::Scope;
use throughline_core::port::{Commit, StoreError};
use throughline_core::prompt::Mark;
use throughline_core::session::admit::Profile;
use throughline_core::session::propose::{Found, as_written};
use throughline_core::session::retries::RecentRequests;
use throughline_core::session::{Act, Event, FrozenPrompt, Proposal, Session};
use throughline_core::turn::Answer;
use throughline_core::{Generation, RowId, SessionId, Time, TurnId};
use tokio::sync::mpsc;
use tokio::time::sleep;

mod admission;
mod answers;
mod jobs;
mod lookup;
mod mail;
mod observe;
mod prompting;
mod questions;
mod recall;

/// A session in which no one has written for this long gives its memory back. It is loaded again in a millisecond or two.
const REST_AFTER: Duration = Duration::from_secs(300);
/// One that never came to be (a duplicate was meant for it) goes sooner.
const UNBORN_AFTER: Duration = Duration::from_secs(1);
/// How long a result waits before it is tried on a full disk again.
const DISK_RETRY: Duration = Duration::from_secs(1);

pub(crate) struct Actor {
    home: Arc<Home>,
    id: SessionId,
    origin: Origin,
    inbox: mpsc::UnboundedReceiver<Mail>,
    address: mpsc::WeakUnboundedSender<Mail>,
    state: Session,
    /// The generation on disk: what the next commit expects to find.
    expect: Generation,
    profile: Profile,
    /// What taking the session up asks to be written. It goes with the first commit.
    taken_over: Vec<Act>,
    /// What its place adds to a prompt that is frozen here.
    room: Room,
    prompting: Prompting,
    recent: RecentRequests,
    questions: Questions,
    jobs: Jobs,
    feed: Arc<Feed>,
    alarm: Alarm,
    share: Share,
    /// The operator's orders up to this one are over here: a person has written since.
    spoken: u64,
    /// What a survey of its rows has read.
    surveyed: Surveyed,
    /// On whose behalf it remembers, once that was asked.
    scope: Option<Scope>,
}

/// Why nothing was committed.
enum CommitFailure {
    Store(StoreError),
    /// The writer went away in the middle. The next owner sees how it ended.
    Unknown,
}

impl From<CommitFailure> for StoreError {
    fn from(failure: CommitFailure) -> Self {
        match failure {
            CommitFailure::Store(error) => error,
            CommitFailure::Unknown => StoreError::Broken {
                doing: "learn how a commit ended",
                source: "the writer stopped in the middle".into(),
            },
        }
    }
}

impl From<StoreError> for CommitFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<CommitError> for CommitFailure {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Refused(error) => Self::Store(error),
            CommitError::Unknown => Self::Unknown,
        }
    }
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
            room: home.inherited(&id),
            home,
            id,
            origin,
            inbox,
            address,
            expect: Generation(0),
            profile: Profile { is_private: true, ..Profile::default() },
            taken_over: Vec::new(),
            prompting: Prompting::default(),
            recent: RecentRequests::default(),
            questions: Questions::default(),
            jobs: Jobs::default(),
            feed: Arc::default(),
            alarm: Alarm::default(),
            share: Share::default(),
            spoken: 0,
            surveyed: Surveyed::default(),
            scope: None,
        }
    }

    #[tracing::instrument(name = "session", skip_all, fields(session = %self.id, agent = %self.home.rules.agent))]
    pub async fn run(mut self) -> Result<(), StoreError> {
        self.load().await?;
        if !self.taken_over.is_empty() || !self.state.jobs().is_empty() {
            self.persist_proposal(Proposal::unchanged).await?;
        }
        loop {
            self.start_jobs().await?;
            self.alarm.set(if self.profile.born { REST_AFTER } else { UNBORN_AFTER });
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
        let (id, now) = (self.id.clone(), self.home.clock.now());
        let loaded = match self.origin {
            Origin::Stored => self.home.library.read(move |store| store.load(&id)).await?,
            Origin::Fresh => None,
        };
        let mut prompt = None;
        if let Some(loaded) = loaded {
            self.recent = RecentRequests::since(now);
            self.expect = loaded.session.generation;
            prompt = loaded.system_prompt.map(|text| FrozenPrompt { text, layer: loaded.layer });
            self.prompting.last = loaded.last_prompt;
            self.profile = Profile {
                born: true,
                ended: loaded.ended.is_some(),
                principal: loaded.principal,
                source: loaded.source,
                user: loaded.user,
                is_private: loaded.is_private,
            };
            self.state = loaded.session;
        }
        if let Some(call) = delegate::asked_by(&self.state) {
            // The call that it works for may have been stopped when the process ended.
            tokio::spawn(delegate::end_unless_waited_for(self.home.clone(), call, self.id.clone()));
        }
        let found = Found {
            prompt,
            repeatable: self.repeatable(&self.state.phase),
            intact: self.is_intact().await?,
            halted: self.home.is_halted(),
            session: self.state.clone(),
        };
        (self.state, self.taken_over) = Session::take_over(found, now, &self.home.rules).into_parts();
        if let Some(operation) = self.state.unsettled_compression() {
            self.log_started(operation); // once more: what the last process logged may be lost
        }
        if self.profile.born && !self.profile.ended {
            self.home.compressor.tell_beginning(&self.home, &self.id);
        }
        self.show_questions();
        Ok(())
    }

    async fn open(&mut self, mail: Mail) -> Result<(), StoreError> {
        match mail {
            Mail::Submit { submission, expected, answer } => self.submit(*submission, expected, answer).await,
            Mail::Follow { seq, answer } => self.follow(seq, answer).await,
            Mail::Retry { turn, seq, answer } => self.retry(turn, seq, answer).await,
            Mail::Event(event) => self.happened(event).await,
            Mail::Elicit { event, call, answer } => {
                self.questions.elicits(call, answer);
                self.happened(event).await
            }
            Mail::Restore { snapshot, answer } => {
                let _ = answer.send(self.restore(snapshot).await?);
                Ok(())
            }
            Mail::Draft { seq, answer } => {
                let _ = answer.send(self.draft(seq).await);
                Ok(())
            }
            Mail::Decide { call, verdict, answer } => self.decide(call, verdict, answer).await,
            Mail::Halt { order, answer } => {
                let _ = answer.send(self.halt(order).await?);
                Ok(())
            }
            Mail::Release { answer } => {
                self.obey(Event::Released).await?;
                let _ = answer.send(());
                Ok(())
            }
            Mail::Expire { platform, chat_type } => self.expire(&platform, &chat_type).await,
            Mail::Abandon(seq) => self.persist(Event::Abandoned { seq }).await,
            Mail::Written(seq) => {
                self.recent.written(seq);
                Ok(())
            }
            Mail::Foreign => self.look_again().await,
            Mail::Wake => Ok(()),
        }
    }

    /// A job reports.
    async fn happened(&mut self, event: Event) -> Result<(), StoreError> {
        let event = self.known_who_answers(event).await;
        self.jobs.reported(&event);
        self.suffer_defect(&event);
        self.persist(event).await
    }

    /// Another process wrote to this session: what we remember of its rows is no longer all of them.
    async fn look_again(&mut self) -> Result<(), StoreError> {
        self.prompting.forget();
        let id = self.id.clone();
        if let Some(loaded) = self.home.library.read(move |store| store.load(&id)).await? {
            let current = loaded.session.generation;
            if current != self.expect {
                return Err(StoreError::Fenced { session: self.id.clone(), current });
            }
            self.profile.ended = loaded.ended.is_some();
            let prompt = loaded.system_prompt.map(|text| FrozenPrompt { text, layer: loaded.layer });
            // What another process has added weighs something, too.
            self.persist(Event::Stored { prompt, context: loaded.session.upkeep.context }).await?;
        }
        if !self.is_intact().await? {
            self.persist(Event::Rewritten { from: RowId(0) }).await?;
        }
        Ok(())
    }

    /// Whether the rows that a compression stands for are still those it was prepared from: another process may have
    /// changed them.
    async fn is_intact(&self) -> Result<bool, StoreError> {
        let Some(operation) = self.state.unsettled_compression().cloned() else { return Ok(true) };
        let id = self.id.clone();
        self.home.library.read(move |store| store.intact(&id, &operation)).await
    }

    async fn persist(&mut self, event: Event) -> Result<(), StoreError> {
        let home = self.home.clone();
        self.persist_proposal(|state, now| state.propose(event.clone(), now, &home.rules)).await
    }

    /// Commits what an internal event leads to. It cannot be refused to anyone, so it waits while the disk is full.
    async fn persist_proposal(
        &mut self,
        propose: impl Fn(&Session, Time) -> Proposal,
    ) -> Result<(), StoreError> {
        loop {
            let proposal = propose(&self.state, self.home.clock.now());
            match self.commit(proposal).await {
                Ok(()) => return Ok(()),
                Err(CommitFailure::Store(StoreError::Unwritable(_) | StoreError::Busy)) => {
                    sleep(DISK_RETRY).await
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// A refused commit leaves the owner as it was.
    async fn commit(&mut self, proposal: Proposal) -> Result<(), CommitFailure> {
        let mut proposal = proposal.behind(self.taken_over.clone());
        self.complete(&mut proposal).await?;
        let (answered, at) = (proposal.answered(), proposal.at());
        if proposal.changes_nothing(&self.state, self.expect) {
            self.state = proposal.unwritten(); // nothing of it is stored
            self.show_reminder();
            return Ok(());
        }
        let home = self.home.clone();
        let (next, acts) = proposal.finish(|reply| {
            let platform = home.platform(&reply.destination).found();
            platform.map(|platform| platform.parts(&reply.text)).unwrap_or_default()
        });
        let commit =
            Commit::Session { expect: self.expect, state: Box::new(next.clone()), acts: acts.clone(), at };
        let committed = self.home.library.commit(commit).await?;
        self.home.stands(&self.id);
        self.taken_over.clear();
        self.expect = next.generation;
        let told = self.told(answered, &next, &acts).await?;
        let before = std::mem::replace(&mut self.state, next);
        self.observe(&Done { before, acts, committed, told, at });
        self.profile.born = true;
        self.show_reminder();
        Ok(())
    }

    /// What clients that wait for this commit are told.
    async fn told(
        &self,
        answered: Option<(Answer, Mark)>,
        next: &Session,
        acts: &[Act],
    ) -> Result<Told, StoreError> {
        let left = match (&self.state.client_calls, &next.client_calls) {
            (None, Some(calls)) => self.answer_of(calls.turn).await?,
            _ => None,
        };
        let answered = answered.map(|(answer, mark)| (as_written(answer, acts), mark));
        Ok(Told { answered, left })
    }

    /// What a turn was answered with whose calls are the client's now.
    async fn answer_of(&self, turn: TurnId) -> Result<Option<Answer>, StoreError> {
        let id = self.id.clone();
        let settled = self.home.library.read(move |store| store.outcome(&id, turn.0)).await?;
        Ok(settled.and_then(|settled| settled.answer))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.count(Share::default());
    }
}
