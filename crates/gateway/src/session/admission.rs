//! How a message comes in: the machine judges it, the store is asked what it wants to know, and the commit takes it in.

use super::mail::{Answerer, Bounce};
use super::{Actor, CommitFailure};
use crate::router;
use throughline_core::input::{Kind, Root};
use throughline_core::lifecycle::{Policy, Reason};
use throughline_core::port::{Read, Receipt, Refusal, Reset, StoreError, Submission};
use throughline_core::session::admit::{
    Accepted, Admission, Expected, Known, LookUp, Profile, Refused, admit, last_active, may_be_over,
};
use throughline_core::session::lifecycle::Noticed;
use throughline_core::session::retries::{Repeats, repeated};
use throughline_core::session::{Event, Outcome, Phase};
use throughline_core::{ChatKey, Seq, TurnId};

/// After so many orders a conversation counts as one that has moved on.
const ORDERS_MAX: usize = 32;

/// Why a message was not taken in.
enum NotTaken {
    Bounced(Bounce),
    /// What the owner knows does not hold any more.
    Reload(StoreError),
}

impl From<StoreError> for NotTaken {
    fn from(error: StoreError) -> Self {
        Self::Reload(error)
    }
}

fn refused(refusal: Refusal) -> NotTaken {
    NotTaken::Bounced(Bounce::Refused(refusal))
}

impl Actor {
    pub(super) async fn submit(
        &mut self,
        mut submission: Submission,
        expected: Expected,
        answer: Answerer,
    ) -> Result<(), StoreError> {
        submission.birth.model.get_or_insert_with(|| self.home.model.name().to_owned());
        let answered = match self.take_in(&submission, expected).await {
            Ok(receipt) => Ok(receipt),
            Err(NotTaken::Bounced(bounce)) => Err(bounce),
            Err(NotTaken::Reload(error)) => return Err(error),
        };
        let _ = answer.send(answered); // the sender may have hung up: what was taken in is on disk all the same
        Ok(())
    }

    async fn take_in(&mut self, submission: &Submission, expected: Expected) -> Result<Receipt, NotTaken> {
        let mut known = Known::default();
        loop {
            known.halted = self.home.is_halted();
            let (now, rules) = (self.home.clock.now(), &self.home.rules);
            match admit(&self.state, &self.profile, submission, expected, &known, now, rules) {
                Admission::LookUp(what) => self.look_up(what, submission, &mut known).await?,
                Admission::Refused(why) => return Err(self.bounced(why)),
                Admission::Expires(reason) => {
                    let expired = Event::Expired { reason, noticed: Noticed::Message };
                    self.persist(expired).await?;
                    match self.state.phase {
                        Phase::Closed(_) => return Err(NotTaken::Bounced(Bounce::Ended)), // it begins the next one
                        Phase::Idle | Phase::Turn(_) => known.due = Some(None),
                    }
                }
                Admission::Silence => self.obey(Event::Halted).await?,
                Admission::LiftSilence => {
                    let lifted = self.home.lift().await;
                    lifted.map_err(|error| refused(Refusal::Unwritable(error.to_string())))?;
                    router::release(&self.home); // a person is there again
                }
                Admission::Accepted(accepted) => return self.commit_accepted(*accepted).await,
            }
        }
    }

    fn bounced(&self, why: Refused) -> NotTaken {
        NotTaken::Bounced(match why {
            Refused::Ended => Bounce::Ended,
            Refused::Unexpected => Bounce::Unexpected,
            Refused::NotYours => Bounce::Refused(Refusal::NotYours(self.id.clone())),
            Refused::Results(why) => Bounce::Refused(Refusal::Results(why)),
            Refused::Repeats(seq) => Bounce::Known { session: self.id.clone(), seq },
        })
    }

    async fn commit_accepted(&mut self, accepted: Accepted) -> Result<Receipt, NotTaken> {
        let seq = accepted.seq();
        if accepted.reopens_chains() {
            self.reopen_chains().await;
        }
        if let Some(room) = &accepted.room {
            self.room.clone_from(room);
        }
        if let Some(profile) = accepted.profile() {
            self.profile = Profile { born: false, ..profile };
        }
        if !accepted.can_answer {
            self.questions.cannot_answer(seq);
        }
        let progress = self.feed.follow(seq); // before the commit, so that nothing is missed
        let spoken = accepted.speaks.then(|| self.home.silence.given());
        let now = self.home.clock.now();
        let proposal = accepted.propose(&self.state, now, &self.home.rules);
        match self.commit(proposal).await {
            Ok(()) => {
                self.spoken = spoken.unwrap_or(self.spoken);
                Ok(Receipt { session: self.id.clone(), seq, duplicate: false, progress })
            }
            Err(CommitFailure::Store(StoreError::Duplicate { session, seq, same_body: true })) => {
                Err(NotTaken::Bounced(Bounce::Known { session, seq }))
            }
            Err(CommitFailure::Store(StoreError::Duplicate { same_body: false, .. })) => {
                Err(refused(Refusal::OtherBody))
            }
            Err(CommitFailure::Store(error @ (StoreError::Unwritable(_) | StoreError::Busy))) => {
                Err(refused(Refusal::Unwritable(error.to_string())))
            }
            Err(failure) => Err(NotTaken::Reload(failure.into())),
        }
    }

    async fn look_up(
        &mut self,
        what: LookUp,
        submission: &Submission,
        known: &mut Known,
    ) -> Result<(), StoreError> {
        match what {
            LookUp::WhetherOpenedAgain => {
                self.look_again().await?;
                known.looked_again = true;
            }
            LookUp::Repeated => known.repeats = Some(self.repeated(submission).await?),
            LookUp::Tip(turn) => known.is_tip = Some(self.is_tip(turn).await?),
            LookUp::Seen => {
                let key = submission.key.clone();
                let seen = self.home.library.read(move |store| store.seen(&key)).await?;
                known.seen = Some(seen.is_some());
            }
            LookUp::Due { platform, chat_type } => {
                known.due = Some(self.due(&platform, &chat_type).await?);
            }
            LookUp::Reset(chat) => known.reset = Some(self.last_reset(chat, submission).await?),
        }
        Ok(())
    }

    async fn last_reset(
        &self,
        chat: ChatKey,
        submission: &Submission,
    ) -> Result<Option<(Reset, Policy)>, StoreError> {
        let reset = self.home.library.read(move |store| store.reset(&chat)).await?;
        let policy = submission
            .birth
            .chat
            .as_ref()
            .map(|chat| self.home.lifecycle.policies.of(&chat.platform, &chat.chat_type).clone());
        Ok(reset.zip(policy))
    }

    /// The request that this one repeats, if its answer never reached a client.
    async fn repeated(&mut self, submission: &Submission) -> Result<Option<Seq>, StoreError> {
        let Kind::Request(request) = &submission.kind else { return Ok(None) };
        let Some(key) = request.implicit_key else { return Ok(None) };
        let now = self.home.clock.now();
        match self.recent.find(key, self.state.failed, now) {
            Repeats::Nothing => return Ok(None),
            Repeats::This(seq) => return Ok(Some(seq)),
            Repeats::Unknown => {}
        }
        let id = self.id.clone();
        let found = self.home.library.read(move |store| {
            let Some(found) = store.implicit(&key)?.filter(|found| found.session == id) else {
                return Ok(None);
            };
            let settled = store.outcome(&id, found.seq)?;
            Ok(Some((found, settled)))
        });
        let Some((found, settled)) = found.await? else { return Ok(None) };
        let outcome = settled.map(|settled| settled.outcome);
        Ok(repeated(&found, outcome.as_ref(), self.state.failed, now))
    }

    /// Whether nothing was said since this turn. Orders say nothing.
    async fn is_tip(&self, turn: TurnId) -> Result<bool, StoreError> {
        let (id, later) = (self.id.clone(), turn.0.0 + 1..=self.state.received.0);
        if !self.state.only_orders_wait() || later.clone().count() > ORDERS_MAX {
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

    /// Ends the conversation if its time has come. A message that came first has kept it alive.
    pub(super) async fn expire(&mut self, platform: &str, chat_type: &str) -> Result<(), StoreError> {
        if may_be_over(&self.state, &self.profile, self.home.is_halted())
            && let Some(reason) = self.due(platform, chat_type).await?
        {
            self.persist(Event::Expired { reason, noticed: Noticed::Watch }).await?;
        }
        Ok(())
    }

    /// Why the conversation is over by its policy, as far as clock, tools and outbox know.
    async fn due(&self, platform: &str, chat_type: &str) -> Result<Option<Reason>, StoreError> {
        let home = &self.home;
        let Some(policy) = home.lifecycle.policy(platform, chat_type) else { return Ok(None) };
        let now = home.clock.now();
        let active = last_active(&self.state, &home.rules, now);
        let active = home.reckoned(now, |reckoning| reckoning.active(active, now));
        let due = home.lifecycle.due(policy, active, now);
        if due.is_none() || home.tools.is_busy(&self.id, policy.process_age_max) {
            return Ok(None);
        }
        let id = self.id.clone();
        let waits =
            move |store: &dyn Read| Ok(store.undelivered()?.iter().any(|outgoing| outgoing.session == id));
        let undelivered = home.library.read(waits).await?;
        Ok(due.filter(|_| !undelivered))
    }

    /// A person orders that agents go on. Chains that cannot be opened now are opened by the next such order.
    async fn reopen_chains(&self) {
        let here = Root { home: self.home.rules.home.clone(), session: self.id.clone() };
        if let Err(error) = self.home.ledger.reopen(here).await {
            tracing::warn!(%error, "the chains of this conversation could not be opened again; try /continue again");
        }
    }
}
