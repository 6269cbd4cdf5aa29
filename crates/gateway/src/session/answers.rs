//! What clients and operators ask of a session beside its messages: to follow, to try again, to restore, to be silent.

use super::Actor;
use super::mail::{Answerer, Bounce};
use crate::draft::{self, Preview};
use crate::stream;
use throughline_core::compression::weight_restored;
use throughline_core::input::AGENT_PLATFORM;
use throughline_core::port::{Draft, DraftChange, Read, Receipt, Refusal, StoreError};
use throughline_core::session::{Event, Phase};
use throughline_core::{Seq, TurnId};

impl Actor {
    pub(super) async fn follow(&mut self, seq: Seq, answer: Answerer) -> Result<(), StoreError> {
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

    pub(super) async fn retry(&mut self, turn: TurnId, seq: Seq, answer: Answerer) -> Result<(), StoreError> {
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
        self.persist(Event::Retried { inputs, began: self.home.clock.now() }).await?;
        let _ = answer.send(Ok(Receipt { session: self.id.clone(), seq, duplicate: true, progress }));
        Ok(())
    }

    pub(super) async fn restore(&mut self, name: String) -> Result<Result<(), Refusal>, StoreError> {
        let unknown = |why: String| Ok(Err(Refusal::Unknown(why)));
        let wanted = name.clone();
        let snapshot = self.home.library.read(move |store| store.snapshot(&wanted)).await?;
        let Some(snapshot) = snapshot.filter(|snapshot| snapshot.summary.session == self.id) else {
            return unknown(format!("session {} has no snapshot {name}", self.id));
        };
        if self.profile.ended || matches!(self.state.phase, Phase::Closed(_)) {
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
        let (id, wanted) = (self.id.clone(), name.clone());
        let reading = move |store: &dyn Read| Ok((store.history(&id)?, store.kept_since(&id, &wanted)?));
        let (live, later) = self.home.library.read(reading).await?;
        let context = weight_restored(self.state.upkeep.context, &live, &snapshot.rows, &later);
        self.persist(Event::Restored { snapshot: name, context }).await?;
        Ok(Ok(()))
    }

    /// The operator silences the session. Returns whether a turn ran, and how much waits.
    pub(super) async fn halt(&mut self, order: u64) -> Result<(bool, usize), StoreError> {
        let before = (matches!(self.state.phase, Phase::Turn(_)), self.state.waiting.len());
        // Else it was over for this session before it got here. That a person wrote elsewhere is no reason to go on.
        if self.spoken < order && !self.home.silence.is_resumed(order) {
            // It ends now, also where the disk is full and nothing can be written about it.
            self.jobs.abort_all();
            self.obey(Event::Halted).await?;
            if !self.home.is_halted() && self.profile.source == AGENT_PLATFORM {
                self.obey(Event::Released).await?; // see `router::release`, which may have been here
            }
        }
        Ok(before)
    }

    /// An order of the operator. A session in which nothing was said yet has no row to keep it in.
    pub(super) async fn obey(&mut self, order: Event) -> Result<(), StoreError> {
        if self.profile.born {
            return self.persist(order).await;
        }
        let now = self.home.clock.now();
        self.state = self.state.propose(order, now, &self.home.rules).unwritten();
        Ok(())
    }

    /// The reply that a preview is of will have the key of the running turn.
    pub(super) async fn draft(&self, seq: Seq) -> Option<Draft> {
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
            Some(Preview::Unknown) => return None, // there may be one, and it cannot be found
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
}
