//! Who follows which input, and what they have been shown.
//!
//! Deltas are a lossy side channel: they go from the job straight to the followers and are never
//! mail, never stored. What settles an input is sent after its commit, so a follower that has seen
//! `Settled` has seen the truth.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use throughline_core::message::ToolCall;
use throughline_core::port::{CallId, Delta, Pending, Progress, Promise, Settled, Update};
use throughline_core::{Seq, TurnId};
use tokio::sync::mpsc;

#[derive(Default)]
pub(crate) struct Feed {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    followers: BTreeMap<Seq, Vec<mpsc::UnboundedSender<Update>>>,
    /// What is being answered, and what has been said so far, for followers that join late.
    running: Option<Running>,
}

struct Running {
    turn: TurnId,
    step: u32,
    inputs: Vec<Seq>,
    /// How much of `shown` belongs to earlier steps.
    settled: usize,
    shown: Vec<Update>,
}

impl Feed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the feed")
    }

    pub fn follow(&self, seq: Seq) -> Box<dyn Progress> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state();
        if let Some(running) = &state.running
            && running.inputs.contains(&seq)
        {
            for update in &running.shown {
                let _ = sender.send(update.clone());
            }
        }
        state.followers.entry(seq).or_default().push(sender);
        Box::new(Following { receiver, settled: None })
    }

    /// The model is being asked for this step. What an earlier attempt at it said is void; what
    /// earlier steps said is not.
    pub fn asking(&self, turn: TurnId, step: u32, inputs: Vec<Seq>) {
        let mut state = self.state();
        let earlier = state.running.take().filter(|running| running.turn == turn);
        let (shown, restarted) = match earlier {
            Some(running) if running.step == step => {
                (running.shown[..running.settled].to_vec(), running.shown.len() > running.settled)
            }
            Some(running) => (running.shown, false),
            None => (Vec::new(), false),
        };
        state.running = Some(Running { turn, step, inputs, settled: shown.len(), shown });
        if restarted {
            state.tell_running(&Update::Restarted);
        }
    }

    pub fn delta(&self, turn: TurnId, step: u32, delta: Delta) {
        self.show(turn, step, Update::Delta(delta));
    }

    /// A tool is called. The turn's followers see that something happens.
    pub fn calling(&self, turn: TurnId, step: u32, call: &ToolCall) {
        let ToolCall { id, name, arguments, .. } = call.clone();
        self.show(turn, step, Update::Calling { id, tool: name, arguments });
    }

    pub fn called(&self, turn: TurnId, step: u32, id: String, tool: String) {
        self.show(turn, step, Update::Called { id, tool });
    }

    /// No approver was there to be asked.
    pub fn unattended(&self, turn: TurnId, step: u32, id: String, tool: String) {
        self.show(turn, step, Update::Unattended { id, tool });
    }

    pub fn granted(&self, call: CallId) {
        self.show(call.turn, call.step, Update::Granted(call));
    }

    pub fn asked(&self, pending: Pending) {
        let (turn, step) = (pending.call.turn, pending.call.step);
        self.show(turn, step, Update::Asked(pending));
    }

    /// The model is asked again. Only present followers are told: the next attempt may be well.
    pub fn troubled(&self, turn: TurnId, step: u32, why: String) {
        let mut state = self.state();
        if state.running.as_ref().is_some_and(|running| running.turn == turn && running.step == step) {
            state.tell_running(&Update::Troubled(why));
        }
    }

    fn show(&self, turn: TurnId, step: u32, update: Update) {
        let mut state = self.state();
        match &mut state.running {
            Some(running) if running.turn == turn && running.step == step => {
                running.shown.push(update.clone())
            }
            _ => return, // a straggler of an attempt that was given up
        }
        state.tell_running(&update);
    }

    pub fn settle(&self, seq: Seq, settled: Arc<Settled>) {
        let mut state = self.state();
        if state.running.as_ref().is_some_and(|running| running.inputs.contains(&seq)) {
            state.running = None;
        }
        for follower in state.followers.remove(&seq).unwrap_or_default() {
            let _ = follower.send(Update::Settled(settled.clone()));
        }
    }
}

impl State {
    fn tell_running(&mut self, update: &Update) {
        let Some(running) = &self.running else { return };
        for seq in &running.inputs {
            if let Some(followers) = self.followers.get_mut(seq) {
                followers.retain(|follower| follower.send(update.clone()).is_ok());
            }
        }
    }
}

struct Following {
    receiver: mpsc::UnboundedReceiver<Update>,
    settled: Option<Arc<Settled>>,
}

impl Progress for Following {
    fn next(&mut self) -> Promise<'_, Update> {
        Box::pin(async move {
            if let Some(settled) = &self.settled {
                return Update::Settled(settled.clone());
            }
            match self.receiver.recv().await {
                Some(Update::Settled(settled)) => {
                    self.settled = Some(settled.clone());
                    Update::Settled(settled)
                }
                Some(update) => update,
                None => Update::Interrupted, // its session's actor is gone, and the input with it to disk
            }
        })
    }
}

/// Follows something that has long ended.
pub(crate) fn ended(settled: Settled) -> Box<dyn Progress> {
    let (_, receiver) = mpsc::unbounded_channel();
    Box::new(Following { receiver, settled: Some(Arc::new(settled)) })
}
