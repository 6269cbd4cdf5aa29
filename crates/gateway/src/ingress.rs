//! The ingress: platform event → durable, deduplicated message → its session.
//!
//! A submission returns when it is on disk. The same key never makes two turns; a retry is led to
//! the turn that exists. What moved meanwhile (a session that ended, a tip that is no longer
//! one) is routed again.

use crate::agent::Home;
use crate::committer::CommitError;
use crate::draft;
use crate::retention;
use crate::router;
use crate::session::{Bounce, Mail, Origin};
use futures_util::future::join_all;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use throughline_core::command::{self, Command, DeferredCommand};
use throughline_core::input::{Kind, Trace};
use throughline_core::memory::is_private;
use throughline_core::port::{
    AgentApi, Assignment, CallId, Commit, CutChain, Draft, Drafted, Expansion, Halted, Hold, Post, Progress,
    Promise, Question, Reading, Receipt, Refusal, Running, Status, StoreError, Submission, Update,
};
use throughline_core::prompt::Digest;
use throughline_core::route::{Continuation, Target, continuation};
use throughline_core::session::admit::Expected;
use throughline_core::session::retries::is_lately;
use throughline_core::session::{Outcome, Preferences};
use throughline_core::tool::Verdict;
use throughline_core::{Content, Seq, SessionId, Time, TurnId};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

/// A session that ends, moves or falls over while it is written to is tried again this often.
const ROUTES_MAX: u32 = 5;

/// A session that has not answered by then has ended what it ran, and only has to write it down.
const HALT_PATIENCE: Duration = Duration::from_millis(800);

/// The door of one agent, for every surface.
#[derive(Clone)]
pub(crate) struct Ingress(pub Arc<Home>);

/// Where a submission is mailed.
struct Place {
    session: SessionId,
    origin: Origin,
    expected: Expected,
}

/// Where orders come from that the holder of the home's own key gives.
const TERMINAL: &str = "cli";

impl AgentApi for Ingress {
    fn submit(&self, submission: Submission) -> Promise<'_, Result<Receipt, Refusal>> {
        Box::pin(self.submit_(submission))
    }

    fn follow(&self, session: SessionId, seq: Seq) -> Promise<'_, Result<Receipt, Refusal>> {
        Box::pin(self.follow_(session, seq))
    }

    fn written(&self, session: SessionId, seq: Seq) {
        self.0.router.mail_if_awake(&session, Mail::Written(seq));
        self.0.library.commit_unawaited(Commit::Written { session, seq });
    }

    fn owner_is_here(&self) {
        *self.0.owner_seen.lock().expect("nothing panics while it holds the time") = Some(Instant::now());
    }

    fn abandon(&self, session: SessionId, seq: Seq) {
        self.0.router.mail_if_awake(&session, Mail::Abandon(seq));
    }

    fn decide(&self, call: CallId, verdict: Verdict) -> Promise<'_, Result<(), Refusal>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let session = call.session.clone();
            router::mail(&self.0, &session, Origin::Stored, Mail::Decide { call, verdict, answer });
            let lost = || Refusal::Internal("the session could not be reached; answer again".into());
            answered.await.map_err(|_| lost())?
        })
    }

    fn preferences(&self, session: SessionId) -> Promise<'_, Preferences> {
        Box::pin(async move {
            let loaded = self.0.library.read(move |store| store.load(&session)).await;
            loaded.ok().flatten().map(|loaded| loaded.session.preferences.clone()).unwrap_or_default()
        })
    }

    fn restore(&self, session: SessionId, snapshot: String) -> Promise<'_, Result<(), Refusal>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            router::mail(&self.0, &session, Origin::Stored, Mail::Restore { snapshot, answer });
            let lost = || Refusal::Internal("the session could not be reached; try again".into());
            answered.await.map_err(|_| lost())?
        })
    }

    fn retry_memory(&self, turn: Option<String>) -> Promise<'_, Result<usize, Refusal>> {
        Box::pin(async move { retention::retry(&self.0, turn).await })
    }

    fn halt(&self) -> Promise<'_, Result<Halted, StoreError>> {
        Box::pin(self.halt_())
    }

    fn release(&self) -> Promise<'_, Result<(), StoreError>> {
        Box::pin(self.release_())
    }

    fn cursor(&self, platform: String, account: String) -> Promise<'_, Result<Option<String>, StoreError>> {
        Box::pin(self.0.library.read(move |store| store.cursor(&platform, &account)))
    }

    fn keep_cursor(
        &self,
        platform: String,
        account: String,
        value: String,
    ) -> Promise<'_, Result<(), StoreError>> {
        Box::pin(async move {
            match self.0.library.commit(Commit::Cursor { platform, account, value }).await {
                Ok(_) => Ok(()),
                Err(CommitError::Refused(error)) => Err(error),
                Err(CommitError::Unknown) => Err(StoreError::Busy),
            }
        })
    }

    fn draft(&self, session: SessionId, seq: Seq) -> Promise<'_, Option<Draft>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.0.router.mail_if_awake(&session, Mail::Draft { seq, answer });
            answered.await.ok().flatten()
        })
    }

    fn drafted(&self, key: String, change: Drafted) -> Promise<'_, ()> {
        Box::pin(draft::drafted(&self.0, key, change))
    }

    fn hold(&self, key: &str) -> Option<Hold> {
        draft::hold(&self.0, key)
    }

    fn mint(&self, source: &str) -> SessionId {
        (self.0.mint)(self.0.clock.now(), self.0.clock.chance(), source)
    }

    fn unique(&self) -> String {
        format!("{:016x}{:016x}", self.0.clock.chance(), self.0.clock.chance())
    }

    fn note(&self, session: Option<SessionId>, name: &'static str, detail: String) {
        self.0.note(session, name, detail);
    }

    fn read(&self, question: Question) -> Promise<'_, Result<Reading, StoreError>> {
        Box::pin(self.0.library.read(move |store| {
            Ok(match question {
                Question::Sessions(filter) => Reading::Sessions(store.sessions(&filter)?),
                Question::Session(id) => Reading::Session(store.session(&id)?),
                Question::History(id) => Reading::History(store.history(&id)?),
                Question::Search { query, filter } => Reading::Hits(store.search(&query, &filter)?),
                Question::Trace(name) => Reading::Traces(store.trace(&name)?),
                Question::Counts => Reading::Counts(store.counts()?),
                Question::Asks => Reading::Asks(store.asks()?),
                Question::Running => {
                    let mut running = Vec::new();
                    for session in store.unfinished()? {
                        let loaded = store.load(&session)?;
                        running.extend(loaded.iter().flat_map(|loaded| Running::of(&loaded.session)));
                    }
                    Reading::Running(running)
                }
                Question::HomeStatus => Reading::HomeStatus(Box::new(store.home_status()?)),
                Question::Routes => Reading::Routes(store.routes()?),
                Question::Backlog => Reading::Backlog(store.backlog()?),
                Question::Parked => Reading::Parked(store.parked()?),
                Question::Check => Reading::Violations(store.check()?),
            })
        }))
    }

    fn carries_out<'a>(&'a self, name: &'a str, argument: &'a str) -> Promise<'a, bool> {
        Box::pin(async move {
            let asked = Assignment {
                key: String::new(),
                name: name.to_owned(),
                argument: argument.to_owned(),
                session: None,
                source: TERMINAL.to_owned(),
                user: None,
                is_private: true,
                principal: None,
                place: None,
                preferences: Preferences::default(),
            };
            matches!(self.0.host_commands.expand(&asked).await, Some(Expansion::HostCommand))
        })
    }

    fn status(&self) -> Status {
        let home = &self.0;
        let unwritable = home.unwritable();
        let draining = home.draining.load(Ordering::Relaxed);
        Status {
            ready: home.recovered.load(Ordering::Relaxed) && !draining && unwritable.is_none(),
            draining,
            unwritable,
            model: home.model.name().to_owned(),
            model_trouble: home.model_trouble(),
            active_sessions: home.router.live(),
            running_turns: home.gauges.running.load(Ordering::Relaxed),
            waiting_inputs: home.gauges.waiting.load(Ordering::Relaxed),
            undelivered: home.outbox.pending(),
            finalising: home.gauges.finalising.load(Ordering::Relaxed),
            halted: home.is_halted(),
            commits: home.library.meter.commits.load(Ordering::Relaxed),
            batches: home.library.meter.batches.load(Ordering::Relaxed),
            tended: home.library.meter.tended.load(Ordering::Relaxed),
            engine: home.compressor.status(),
            memory: home.memory.as_ref().map(|memory| memory.remembering(home)),
            platforms: home
                .platforms
                .iter()
                .map(|(name, platform)| (name.clone(), platform.health()))
                .collect(),
            writer_rounds: home.library.meter.rounds.load(Ordering::Relaxed),
            writer_gone: home.library.is_gone(),
        }
    }

    fn now(&self) -> Time {
        self.0.clock.now()
    }

    fn introduce(&self, platform: &str, account: &str) {
        self.0.ledger.introduce(platform, account);
    }

    fn recognise(&self, post: Post) -> Promise<'_, Option<Trace>> {
        self.0.ledger.recognise(post)
    }

    fn cuts(&self) -> Promise<'_, Vec<CutChain>> {
        Box::pin(async { self.0.ledger.cuts(self.0.rules.home.clone()).await.unwrap_or_default() })
    }
}

impl Ingress {
    /// Everyone at once: a session that is slow to answer does not hold up the others.
    async fn halt_(&self) -> Result<Halted, StoreError> {
        let home = &self.0;
        // The flag is up at once, even if the disk refuses: no session starts anything from here on.
        let (order, written) = home.silence().await;
        let sessions = home.library.read(|store| store.unfinished()).await.unwrap_or_default();
        let mut halted = Halted::default();
        let told = timeout(HALT_PATIENCE, self.tell(sessions, |answer| Mail::Halt { order, answer })).await;
        for (ran, waiting) in told.unwrap_or_else(|_| Ok(Vec::new()))? {
            halted.turns += usize::from(ran);
            halted.waiting += waiting;
        }
        written.map(|()| halted)
    }

    /// These sessions, and all that are awake. Each has it on disk when this returns: a start in
    /// between must not undo it for some.
    async fn tell<T>(
        &self,
        mut sessions: Vec<SessionId>,
        mail: impl Fn(oneshot::Sender<T>) -> Mail,
    ) -> Result<Vec<T>, StoreError> {
        sessions.extend(self.0.router.awake());
        sessions.sort();
        sessions.dedup();
        let mut answers = Vec::new();
        for _ in 0..ROUTES_MAX {
            let told = sessions.iter().map(|session| {
                let (answer, answered) = oneshot::channel();
                router::mail(&self.0, session, Origin::Stored, mail(answer));
                answered
            });
            let told = join_all(told.collect::<Vec<_>>()).await;
            let mut fallen = Vec::new();
            for (session, answer) in sessions.into_iter().zip(told) {
                match answer {
                    Ok(answer) => answers.push(answer),
                    Err(_) => fallen.push(session), // its actor fell over; the next one is told
                }
            }
            if fallen.is_empty() {
                return Ok(answers);
            }
            sessions = fallen;
            sleep(Duration::from_millis(50)).await;
        }
        Err(StoreError::Busy)
    }

    async fn release_(&self) -> Result<(), StoreError> {
        self.0.resume().await?;
        let sessions = self.0.library.read(|store| {
            let parked = store.parked()?.into_iter().map(|parked| parked.session);
            Ok(store.halted()?.into_iter().chain(parked).collect())
        });
        let sessions = sessions.await?;
        self.tell(sessions, |answer| Mail::Release { answer }).await?;
        Ok(())
    }

    async fn submit_(&self, mut submission: Submission) -> Result<Receipt, Refusal> {
        // Only people give orders. What another agent says is talk, even if it begins like an order.
        if submission.trace.is_human()
            && let Kind::Chat(Content::Text(text)) = &submission.kind
        {
            submission.kind = self.meant(&submission, text).await;
        }
        let implicit = match &submission.kind {
            Kind::Request(request) => request.implicit_key,
            Kind::Chat(_) | Kind::Command(_) => None,
        };
        let _turn = match implicit {
            Some(key) => Some(InFlight::enter(&self.0, key, submission.may_be_retry).await),
            None => None,
        };
        for _ in 0..ROUTES_MAX {
            self.refuse_if_closed()?;
            let place = self.place(&submission).await?;
            if let Some((session, seq)) = self.retried(&submission).await? {
                match self.existing(session, seq, &submission.kind).await {
                    Err(Refusal::MovedOn) => {} // it failed, and much has been said since: the same words are new
                    found => return found,
                }
            }
            let (answer, answered) = oneshot::channel();
            let mail =
                Mail::Submit { submission: Box::new(submission.clone()), expected: place.expected, answer };
            router::mail(&self.0, &place.session, place.origin, mail);
            match answered.await {
                Ok(Ok(receipt)) => return Ok(self.tracked(receipt)),
                Ok(Err(Bounce::Refused(refusal))) => return Err(refusal),
                Ok(Err(Bounce::Known { session, seq })) => {
                    self.0.note(Some(session.clone()), "duplicate_dropped", submission.key.to_string());
                    return self.existing(session, seq, &submission.kind).await;
                }
                Ok(Err(Bounce::Unexpected)) => match &submission.target {
                    Target::Chat(_) => self.0.router.forget(&place.session),
                    Target::After { .. } => return Err(Refusal::MovedOn),
                    Target::Session(_) | Target::Thread { .. } | Target::Fresh => {
                        submission.target = Target::Fresh
                    }
                },
                Ok(Err(Bounce::Ended)) => match &submission.target {
                    Target::Chat(_) => self.0.router.forget(&place.session),
                    Target::Session(_) | Target::After { .. } => {
                        return match self.known(&submission).await? {
                            Some((session, seq)) => self.existing(session, seq, &submission.kind).await,
                            None => Err(Refusal::Ended(place.session)),
                        };
                    }
                    Target::Thread { .. } | Target::Fresh => submission.target = Target::Fresh,
                },
                Err(_) => sleep(Duration::from_millis(50)).await, // the actor fell over; the key makes trying again safe
            }
        }
        Err(Refusal::Internal(
            "the session could not be reached; the message was not accepted, send it again".into(),
        ))
    }

    /// What a person wrote: an order, or talk. A name that the user has given to something stands for it.
    async fn meant(&self, submission: &Submission, text: &str) -> Kind {
        let source = &submission.birth.source;
        let parsed = |text: &str| Command::parse(text, |what| self.mint(what.source(source)));
        let Some(command) = parsed(text) else { return Kind::Chat(Content::text(text)) };
        let (Command::Unknown { name }, Some((_, argument))) = (&command, command::split(text)) else {
            return Kind::Command(command);
        };
        let asked = Assignment {
            key: submission.key.to_string(),
            name: name.clone(),
            argument: argument.to_owned(),
            session: None,
            source: source.clone(),
            user: submission.birth.user.clone(),
            is_private: is_private(submission.birth.chat.as_ref().map(|chat| chat.chat_type.as_str())),
            principal: submission.birth.principal.clone(),
            place: submission.reply_to.clone(),
            preferences: Preferences::default(),
        };
        match self.0.host_commands.expand(&asked).await {
            Some(Expansion::Words(words)) => Kind::Chat(Content::text(words)),
            Some(Expansion::Typed(text)) => {
                parsed(&text).map_or_else(|| Kind::Chat(Content::text(&text)), Kind::Command)
            }
            Some(Expansion::HostCommand) => {
                let Assignment { name, argument, .. } = asked;
                Kind::Command(Command::Deferred(DeferredCommand::Other { name, argument }))
            }
            None => Kind::Command(command),
        }
    }

    fn refuse_if_closed(&self) -> Result<(), Refusal> {
        if self.0.draining.load(Ordering::Relaxed) {
            return Err(Refusal::Draining);
        }
        self.0.unwritable().map_or(Ok(()), |why| Err(Refusal::Unwritable(why)))
    }

    async fn place(&self, submission: &Submission) -> Result<Place, Refusal> {
        let source = &submission.birth.source;
        let fresh =
            || Place { session: self.mint(source), origin: Origin::Fresh, expected: Expected::Unborn };
        let stored = |session| Place { session, origin: Origin::Stored, expected: Expected::Anything };
        Ok(match &submission.target {
            Target::Fresh => fresh(),
            Target::Session(session) => stored(session.clone()),
            Target::After { session, seq } => {
                Place { expected: Expected::Tip(TurnId(*seq)), ..stored(session.clone()) }
            }
            Target::Thread { before } => {
                let principal = submission.birth.principal.clone().unwrap_or_default();
                let end = *before;
                let matches =
                    self.0.library.read(move |store| store.thread(&principal, &end)).await.map_err(broken)?;
                match continuation(&matches) {
                    Continuation::Append(session) => {
                        let expected =
                            matches.first().map_or(Expected::Anything, |found| Expected::Tip(found.turn));
                        Place { expected, ..stored(session) }
                    }
                    Continuation::Import => fresh(),
                }
            }
            Target::Chat(chat) => {
                if let Some(session) = self.0.router.known(&chat.key) {
                    return Ok(stored(session));
                }
                let _alone = self.0.router.resolving.lock().await;
                if let Some(session) = self.0.router.known(&chat.key) {
                    return Ok(stored(session));
                }
                let (key, epoch) = (chat.key.clone(), self.0.router.epoch());
                let led = self.0.library.read(move |store| store.route(&key)).await.map_err(broken)?;
                let place = led.map_or_else(fresh, stored);
                self.0.router.remember(chat.key.clone(), place.session.clone(), epoch);
                place
            }
        })
    }

    /// A client's retry that carries no key, of a request in any session.
    async fn retried(&self, submission: &Submission) -> Result<Option<(SessionId, Seq)>, Refusal> {
        match submission.target {
            Target::Session(_) => Ok(None), // its actor knows
            _ => self.repeated(submission).await,
        }
    }

    async fn repeated(&self, submission: &Submission) -> Result<Option<(SessionId, Seq)>, Refusal> {
        let Kind::Request(request) = &submission.kind else { return Ok(None) };
        let (true, Some(key)) = (submission.may_be_retry, request.implicit_key) else { return Ok(None) };
        let found = self.0.library.read(move |store| store.implicit(&key)).await.map_err(broken)?;
        Ok(found
            .filter(|found| !found.written && is_lately(found.at, self.now()))
            .map(|found| (found.session, found.seq)))
    }

    /// Where this very message was taken, under its key or by its words, no matter what its session has
    /// become since.
    async fn known(&self, submission: &Submission) -> Result<Option<(SessionId, Seq)>, Refusal> {
        let key = submission.key.clone();
        let seen = self.0.library.read(move |store| store.seen(&key)).await.map_err(broken)?;
        let body = match &submission.kind {
            Kind::Request(request) => request.body,
            Kind::Chat(_) | Kind::Command(_) => None,
        };
        match seen {
            Some(seen) if seen.body == body => Ok(Some((seen.session, seen.seq))),
            Some(_) => Err(Refusal::OtherBody),
            None => self.repeated(submission).await,
        }
    }

    /// What became of an input that was accepted before. A request whose turn failed runs again, as
    /// the same turn.
    async fn existing(&self, session: SessionId, seq: Seq, kind: &Kind) -> Result<Receipt, Refusal> {
        let mut receipt = self.follow_(session.clone(), seq).await?;
        if !matches!(kind, Kind::Request(_)) {
            return Ok(receipt);
        }
        let id = session.clone();
        let settled = self.0.library.read(move |store| store.outcome(&id, seq)).await.map_err(broken)?;
        if let Some(Outcome::Failed(turn, _)) = settled.map(|settled| settled.outcome) {
            self.refuse_if_closed()?;
            let (answer, answered) = oneshot::channel();
            router::mail(&self.0, &session, Origin::Stored, Mail::Retry { turn, seq, answer });
            receipt = self.answered(answered).await?;
        }
        Ok(receipt)
    }

    async fn follow_(&self, session: SessionId, seq: Seq) -> Result<Receipt, Refusal> {
        let (answer, answered) = oneshot::channel();
        router::mail(&self.0, &session, Origin::Stored, Mail::Follow { seq, answer });
        self.answered(answered).await
    }

    async fn answered(
        &self,
        answered: oneshot::Receiver<Result<Receipt, Bounce>>,
    ) -> Result<Receipt, Refusal> {
        match answered.await {
            Ok(Ok(receipt)) => Ok(self.tracked(receipt)),
            Ok(Err(Bounce::Refused(refusal))) => Err(refusal),
            Ok(Err(_)) | Err(_) => {
                Err(Refusal::Internal("the session could not be reached; ask again in a moment".into()))
            }
        }
    }

    /// Follows an input into the session it was moved to, too.
    fn tracked(&self, receipt: Receipt) -> Receipt {
        let progress = Box::new(Tracked { ingress: self.clone(), progress: receipt.progress });
        Receipt { progress, ..receipt }
    }
}

struct Tracked {
    ingress: Ingress,
    progress: Box<dyn Progress>,
}

impl Progress for Tracked {
    fn next(&mut self) -> Promise<'_, Update> {
        Box::pin(async move {
            loop {
                let update = self.progress.next().await;
                let Update::Settled(settled) = &update else { return update };
                let Outcome::Moved { session, seq } = &settled.outcome else { return update };
                match self.ingress.follow_(session.clone(), *seq).await {
                    Ok(receipt) => self.progress = receipt.progress,
                    Err(_) => return Update::Interrupted,
                }
            }
        })
    }
}

/// One request with these words is on its way to disk. Its retry waits until it is there, and then
/// finds it.
struct InFlight {
    home: Arc<Home>,
    key: Digest,
}

impl InFlight {
    async fn enter(home: &Arc<Home>, key: Digest, may_be_retry: bool) -> Self {
        loop {
            let left = home.in_flight_left.notified();
            {
                let mut keys = home.in_flight.lock().expect("nothing panics while it holds the keys");
                let count = keys.entry(key).or_insert(0);
                if *count == 0 || !may_be_retry {
                    *count += 1;
                    return Self { home: home.clone(), key };
                }
            }
            left.await;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut keys = self.home.in_flight.lock().expect("nothing panics while it holds the keys");
        if let Some(count) = keys.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                keys.remove(&self.key);
            }
        }
        drop(keys);
        self.home.in_flight_left.notify_waiters();
    }
}

fn broken(error: StoreError) -> Refusal {
    match error {
        StoreError::Unwritable(why) => Refusal::Unwritable(why),
        StoreError::Busy => Refusal::Unwritable(error.to_string()),
        error => Refusal::Internal(error.in_full()),
    }
}
