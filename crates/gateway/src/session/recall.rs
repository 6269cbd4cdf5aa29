//! What a session is reminded of before it is asked, and to whom its turns go.
//!
//! A recall belongs to the turn that asked for it: it comes back by mail to the one actor that waits for it, and
//! goes with it. It is shown with the message it was asked for, and from the first answer on it stands with that
//! row for good, so that later requests begin with the same bytes. One that is late is counted as missed, and kept
//! for the next turn of the same session, generation and user, should that one's own be late, too; for nobody else.

use super::{Actor, Mail};
use crate::agent::stopping;
use crate::gateway_tools::search;
use crate::recollect::recollect;
use crate::retention::STOP_PATIENCE;
use crate::scope;
use crate::turn::JobContext;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;
use throughline_core::command::{Command, DeferredCommand, skill};
use throughline_core::input::Kind;
use throughline_core::memory::{Filing, MemoryError, Scope, fenced, unfenced};
use throughline_core::message::{Body, Content};
use throughline_core::port::{self, StoreError};
use throughline_core::session::{Act, Job, Phase};
use throughline_core::{Generation, Message, RowId, Seq, TurnId};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// What was recalled for a turn.
pub(super) struct Recalled {
    turn: TurnId,
    /// The row it stands with, and how that is sent. None: nothing was found.
    shown: Option<(RowId, String)>,
    written: bool,
}

/// To whom what was recalled may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whose {
    generation: Generation,
    user: Option<String>,
}

impl Actor {
    /// A turn has gone on without this; the next one may have it.
    pub(super) fn recall_late(&mut self, whose: Whose, text: String) {
        let is_over = matches!(self.state.phase, Phase::Closed(_)) || self.is_being_left();
        match is_over || whose.generation != self.state.generation {
            true => self.drop_late("it came when nobody could use it"),
            false => {
                self.late = Some((whose, text));
                self.home.note(
                    Some(self.id.clone()),
                    "late_recall_kept",
                    "for the next turn of the same person".to_owned(),
                );
            }
        }
    }

    /// What came too late for the turn before, if it was asked for the same person.
    pub(super) fn take_late(&mut self, reminder: &Reminder) -> Option<String> {
        let (whose, text) = self.late.take()?;
        match reminder {
            Reminder::Provider(scope) if Whose::of(scope) == whose => Some(text),
            _ => {
                self.drop_late("it was somebody else's");
                None
            }
        }
    }

    fn drop_late(&self, why: &str) {
        self.home.note(Some(self.id.clone()), "stale_recall_dropped", why.to_owned());
    }

    /// The words that the running turn would be reminded by; None if it is not to be asked, or was.
    pub(super) fn wants_recall(&self) -> Option<String> {
        let Phase::Turn(turn) = &self.state.phase else { return None };
        let begins = turn.id.0 == Seq(1) && self.home.recollects;
        if self.home.memory.is_none() && !begins {
            return None;
        }
        let asked = self.recalled.as_ref().is_some_and(|recalled| recalled.turn == turn.id);
        if asked || turn.step != turn.first_step || turn.is_aside() || self.is_being_left() {
            return None;
        }
        let (_, heard) = self.heard.as_ref()?;
        let Content::Text(text) = heard.content() else { return None };
        Some(unfenced(skill::written(text))).filter(|text| !text.is_empty() && heard.sent_as.is_none())
    }

    /// Whom the running turn asks.
    pub(super) async fn reminder(&mut self) -> Result<Reminder, StoreError> {
        match (&self.home.memory, &self.state.phase) {
            (None, Phase::Turn(turn)) => Ok(Reminder::Own(search::scope(&self.caller(turn)))),
            _ => {
                let scope = self.scope().await?;
                Ok(Reminder::Provider(scope::to_read(&self.home, scope).await?))
            }
        }
    }

    /// The next row of the transcript. A reminder stands with the last one only: whatever follows what was
    /// said has been answered with a reminder, or without.
    pub(super) fn hear(&mut self, row: RowId, message: &Message) {
        if self.home.memory.is_some() || self.home.recollects {
            self.heard = matches!(message.body, Body::User(_)).then(|| (row, message.clone()));
        }
    }

    /// Somebody has ordered what the running turn holds up.
    fn is_being_left(&self) -> bool {
        let leaves = |command: &Command| {
            command.ends() || matches!(command, Command::Deferred(DeferredCommand::Undo { .. }))
        };
        self.state
            .waiting
            .iter()
            .any(|input| matches!(&input.kind, Kind::Command(command) if leaves(command)))
    }

    /// A switch waits for the turn, but the turn waits no longer for its reminder then.
    pub(super) fn hurry(&mut self) {
        // Whatever joined the turn since has made another step of it, which is asked without: a reminder on its
        // way must not be taken for an answer to that.
        let now = match &self.state.phase {
            Phase::Turn(current) => Some((current.id, current.step)),
            _ => None,
        };
        let overtaken = self.recalling.take_if(|recalling| Some(*recalling) != now);
        if let Some((turn, _)) =
            overtaken.filter(|(turn, _)| now.is_some_and(|(current, _)| current == *turn))
        {
            self.home.note(Some(self.id.clone()), "recall_missed", format!("turn {turn} went on without it"));
        }
        if self.is_being_left() {
            let lingers = self.lingering.take().filter(|lingering| !lingering.is_finished());
            lingers.iter().for_each(AbortHandle::abort);
            if self.late.take().is_some() || lingers.is_some() {
                self.drop_late("the conversation was being left");
            }
        }
        let Some((turn, _)) = self.recalling.filter(|_| self.is_being_left()) else { return };
        self.jobs.retain(|job, handle| {
            let recalls = matches!(job, Job::Ask { turn: asked, .. } if *asked == turn);
            if recalls {
                handle.abort();
            }
            !recalls
        });
        self.home.note(Some(self.id.clone()), "recall_missed", format!("turn {turn} was being left"));
        self.recalling = None;
        self.recall(turn, "");
    }

    /// A reminder has come, or will not.
    pub(super) fn recall(&mut self, turn: TurnId, text: &str) {
        if !matches!(&self.state.phase, Phase::Turn(current) if current.id == turn) {
            return self.home.note(Some(self.id.clone()), "stale_recall_dropped", format!("turn {turn}"));
        }
        let shown = self.heard.as_ref().and_then(|(row, heard)| {
            let Content::Text(said) = heard.content() else { return None };
            Some((*row, fenced(said, text)?))
        });
        self.recalled = Some(Recalled { turn, shown, written: false });
        self.show_recalled();
    }

    fn show_recalled(&mut self) {
        let model = self.model();
        let Some(Recalled { shown: Some((row, sent_as)), .. }) = &self.recalled else { return };
        let Some((_, message)) = self.heard.as_ref().filter(|(heard, _)| heard == row) else { return };
        let message = Message { sent_as: Some(sent_as.clone()), ..message.clone() };
        if let Some(composition) = &mut self.composition {
            composition.amend(model.encode(&message));
        }
    }

    /// How a row is sent, if that is not on disk yet.
    pub(super) fn sent_as(&self, row: RowId) -> Option<String> {
        let Recalled { shown: Some((shown, sent_as)), .. } = self.recalled.as_ref()? else { return None };
        (*shown == row).then(|| sent_as.clone())
    }

    /// What was recalled is written down with whatever is written next.
    pub(super) fn recall_acts(&self) -> Option<Act> {
        let recalled = self.recalled.as_ref().filter(|recalled| !recalled.written)?;
        let (row, sent_as) = recalled.shown.clone()?;
        Some(Act::Recall { row, sent_as })
    }

    pub(super) fn recall_is_written(&mut self) {
        if let Some(recalled) = &mut self.recalled {
            recalled.written = true;
        }
    }

    /// On whose behalf this session remembers. Looked up when it is needed, and again when it may have changed.
    pub(super) async fn scope(&mut self) -> Result<Scope, StoreError> {
        if self.scope.is_none() {
            self.scope = Some(scope::of_session(&self.home, &self.id).await?);
        }
        let scope = self.scope.clone().expect("just looked up");
        let scope = scope.on_behalf_of(self.user.clone());
        Ok(Scope { generation: self.state.generation, ..scope })
    }

    /// A turn that is kept goes to whom it concerns now, whatever changes later.
    pub(super) async fn file(&mut self, acts: &mut [Act]) -> Result<(), StoreError> {
        for act in acts {
            let Act::Retain(kept) = act else { continue };
            let Some(memory) = self.home.memory.clone() else { continue };
            let scope = self.scope().await?;
            if kept.said.is_empty() {
                let said = self.said.as_deref().map(skill::written);
                kept.said.extend(said.filter(|said| !said.is_empty()).map(str::to_owned));
            }
            let provider = memory.provider.name().to_owned();
            let every = memory.provider.every().unwrap_or(1);
            kept.filing = Some(Filing { provider, naming: memory.provider.naming(&scope), scope, every });
        }
        Ok(())
    }
}

/// Who is asked what bears on a turn.
pub(super) enum Reminder {
    Provider(Scope),
    /// The home's own conversations, as far as the caller may see them.
    Own(port::Scope),
}

async fn asked(context: &JobContext, reminder: Reminder, query: &str) -> Result<String, MemoryError> {
    match (reminder, &context.home.memory) {
        (Reminder::Provider(scope), Some(memory)) => memory.provider.recall(&scope, query).await,
        (Reminder::Provider(_), None) => Ok(String::new()),
        (Reminder::Own(scope), _) => recollect(&context.home, context.session.clone(), scope, query).await,
    }
}

/// How long a turn waits for its own store.
const PATIENCE: Duration = Duration::from_millis(300);

/// How long an answer that its turn did not wait for is worth having.
const LATE_MAX: Duration = Duration::from_secs(8);

impl Whose {
    fn of(scope: &Scope) -> Self {
        Self { generation: scope.generation, user: scope.user.clone() }
    }
}

/// Asks, but not for long: nobody waits for a memory that does not come, and a gateway that stops even less. What
/// comes later goes to the next turn; `earlier` is what came so from the turn before.
pub(super) async fn remind(
    context: JobContext,
    turn: TurnId,
    reminder: Reminder,
    query: String,
    earlier: Option<String>,
) {
    let patience = context.home.memory.as_ref().map_or(PATIENCE, |memory| memory.patience);
    let whose = match &reminder {
        Reminder::Provider(scope) => Some(Whose::of(scope)),
        Reminder::Own(_) => None,
    };
    let mut asking = pin!(AssertUnwindSafe(asked(&context, reminder, &query)).catch_unwind());
    let stopped = async {
        stopping(&context.home).await;
        sleep(STOP_PATIENCE).await;
    };
    let asked = tokio::select! {
        biased; // a simulation must not depend on luck
        asked = timeout(patience, &mut asking) => asked.ok(),
        () = stopped => None,
    };
    let whose = whose.filter(|_| asked.is_none());
    let (text, missed) = match asked {
        Some(Ok(Ok(text))) => (text, None),
        Some(Ok(Err(error))) => (String::new(), Some(("recall_failed", error.to_string()))),
        Some(Err(_)) => {
            (String::new(), Some(("recall_failed", "the provider failed inside the gateway".into())))
        }
        None => (
            String::new(),
            Some(("recall_missed", format!("nothing within {patience:?}, or before the stop"))),
        ),
    };
    let text = if missed.is_some() { earlier.unwrap_or_default() } else { text };
    if let Some((name, why)) = missed {
        tracing::warn!(why, "the turn goes on without what its memory knows");
        context.home.note(Some(context.session.clone()), name, why);
    }
    if let Some(mail) = context.mail.upgrade() {
        let _ = mail.send(Mail::Recalled { turn, text }); // the actor is gone, and the reminder with it
    }
    let Some(whose) = whose else { return };
    let late = tokio::select! {
        biased; // a simulation must not depend on luck
        late = timeout(LATE_MAX, asking) => late,
        () = stopping(&context.home) => return,
    };
    let Ok(Ok(Ok(text))) = late else { return };
    if let Some(mail) = context.mail.upgrade().filter(|_| !text.is_empty()) {
        let _ = mail.send(Mail::LateRecall { whose, text }); // as above
    }
}
