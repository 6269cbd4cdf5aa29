//! Moves: hand-overs of ended sessions, and sessions that are taken up again.

use crate::sample::taken_up;
use crate::world::StoreWorld;
use throughline_core::id::SessionId;
use throughline_core::session::lifecycle::Handing;
use throughline_core::session::{Event, Finalisation, Phase};

impl StoreWorld {
    /// Of sessions that have ended in this place, the first whose hand-over is under way.
    pub(crate) fn finalises(&mut self, place: u8) {
        self.flush();
        let closed = self.books.values().filter_map(|book| match book.state.phase {
            Phase::Closed(stage) if stage != Finalisation::Done => Some((book.state.id.clone(), stage)),
            _ => None,
        });
        let closed: Vec<_> = closed.collect();
        if let Some((session, stage)) = closed.get(usize::from(place) % closed.len().max(1)) {
            let planned = self.plan_for(session, Event::Finalised(*stage), Vec::new());
            self.enqueue(planned);
        }
    }

    /// Of hand-overs that are under way, one.
    pub(crate) fn hands_over(&mut self, place: u8, how: u8) {
        self.flush();
        let closed = self.books.values().filter(|book| matches!(book.state.phase, Phase::Closed(_)));
        let closed: Vec<_> = closed.map(|book| book.state.clone()).collect();
        let Some(state) = closed.get(usize::from(place) % closed.len().max(1)) else { return };
        let hook = ["on_session_finalize: ünï", "on_session_finalize: b", "on_session_reset: b"]
            [usize::from(how / 8) % 3]
            .to_owned();
        let running = state.handover.running.clone().unwrap_or(hook.clone());
        let Phase::Closed(stage) = state.phase else { return };
        let event = match how % 8 {
            0 | 1 => Event::Handing(Handing::Began { hook }),
            2 => Event::Handing(Handing::Done { hook: running }),
            3 => Event::Released,
            4 => taken_up(),
            _ => Event::Handing(Handing::Failed { stage, step: running, why: "exit \"1\"".into() }),
        };
        let planned = self.plan_for(&state.id.clone(), event, Vec::new());
        self.enqueue(planned);
    }

    /// Of sessions that have ended, one. Where its chat leads by then is another's business.
    pub(crate) fn revives(&mut self, place: u8) {
        self.flush();
        let closed = self.books.values().filter(|book| matches!(book.state.phase, Phase::Closed(_)));
        let closed: Vec<_> = closed.map(|book| book.state.id.clone()).collect();
        let api = |id: &&SessionId| !self.books[*id].in_chat;
        let closed: Vec<_> = closed.iter().filter(api).cloned().collect();
        if let Some(session) = closed.get(usize::from(place) % closed.len().max(1)) {
            let planned = self.plan_for(session, Event::Reopened, Vec::new());
            self.enqueue(planned);
        }
    }
}
