//! Questions of a call that runs: how a tool asks the person of its session, and how the answer comes back.
//!
//! The question is committed with the call before a person sees it, and its answer before the call gets it. Both live
//! as long as the call: after a crash the call is of unknown outcome, and the question is over.

use crate::session::Mail;
use crate::turn::JobContext;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use throughline_core::port::{CallId, Promise};
use throughline_core::session::{Approver, Event};
use throughline_core::tool::{Asker, Elicitation, Question, Verdict};
use tokio::sync::oneshot;

/// Asks the person of one call.
pub(crate) struct CallAsker {
    context: JobContext,
    call: CallId,
    asked: AtomicU32,
}

impl CallAsker {
    pub fn new(context: JobContext, call: CallId) -> Self {
        Self { context, call, asked: AtomicU32::new(0) }
    }
}

impl Asker for CallAsker {
    fn ask(&self, elicitation: Elicitation, patience: Duration) -> Promise<'_, Verdict> {
        Box::pin(async move {
            let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
            let call = CallId { question: number, ..self.call.clone() };
            let question = Question::Elicitation { asked: elicitation, number };
            let (turn, step, index) = (call.turn, call.step, call.index);
            // Only the actor knows whether there is an approver.
            let event = Event::Asked { turn, step, index, question, patience, approver: Approver::Absent };
            let (answer, answered) = oneshot::channel();
            let Some(mail) = self.context.mail.upgrade() else { return Verdict::Expired };
            let mut open = Withdrawal { context: &self.context, call: Some(call.clone()) };
            let _ = mail.send(Mail::Elicit { event, call, answer });
            drop(mail); // a call that waits keeps no actor
            let verdict = answered.await.unwrap_or(Verdict::Expired); // its turn is over
            open.call = None;
            verdict
        })
    }
}

/// A question that is open. Dropped while it is: the server no longer wants to know.
struct Withdrawal<'a> {
    context: &'a JobContext,
    call: Option<CallId>,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        let (Some(call), Some(mail)) = (self.call.take(), self.context.mail.upgrade()) else { return };
        let (answer, _) = oneshot::channel();
        let _ = mail.send(Mail::Decide { call, verdict: Verdict::Expired, answer });
    }
}
