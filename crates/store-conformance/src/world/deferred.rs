//! Moves: orders for which something is looked up first.

use crate::book::SessionBook;
use crate::sample::id;
use crate::world::{CHILD, StoreWorld};
use throughline_core::command::{Command, DeferredCommand, Found, Past};
use throughline_core::id::{Seq, SessionId};
use throughline_core::input::Kind;
use throughline_core::port::Titling;
use throughline_core::session::{Act, Event, Job, Phase, Preferences, Session, Switch};

impl StoreWorld {
    pub(crate) fn deferred_commands(&mut self, place: u8, what: u8) {
        self.flush_if_busy(place);
        let number = self.number;
        let deferred = match what % 8 {
            0 | 1 => DeferredCommand::Undo { turns: 1 + u32::from(what / 8) % 3 },
            2 => DeferredCommand::Retry,
            3 => DeferredCommand::Title { wanted: Some(format!(" a  title\u{200b} {} ", what / 64)) },
            4 => DeferredCommand::Other { name: "model".into(), argument: "another".into() },
            _ if self.at(place) == CHILD => DeferredCommand::Title { wanted: None },
            5 => DeferredCommand::Branch { successor: id(&format!("b{number}")), name: None },
            6 => DeferredCommand::Resume { wanted: Some("whatever".into()), everywhere: false },
            _ => {
                DeferredCommand::New { successor: id(&format!("n{number}")), title: format!("new {number}") }
            }
        };
        let input = self.input(place, Kind::Command(Command::Deferred(deferred)));
        self.receives(place, input);
    }

    /// The look-up for the first deferred command that is due has a result.
    pub(crate) fn finds(&mut self, place: u8, how: u8) {
        self.flush();
        let state = &self.book(place).state;
        let due = state.jobs().into_iter().find_map(|job| match job {
            Job::Order { seq } => Some(seq),
            _ => None,
        });
        let Some(order) = state.waiting.iter().find(|input| Some(input.seq) == due) else { return };
        let Kind::Command(Command::Deferred(deferred)) = &order.kind else {
            panic!("{order:?} is no errand")
        };
        let (seq, found) = (order.seq, self.found(&state.id, state, deferred, how));
        self.happens(place, Event::Ordered { seq, found });
    }

    pub(crate) fn found(
        &self,
        id: &SessionId,
        state: &Session,
        deferred: &DeferredCommand,
        how: u8,
    ) -> Found {
        let nothing = || Found::Said("Nothing.".into());
        let titled = |title: &str| match self.store.reader().titling(id, title).expect("can be asked") {
            Titling::Free(title) => Ok(title),
            other => Err(format!("{other:?}")),
        };
        match deferred {
            DeferredCommand::Undo { .. } | DeferredCommand::Retry => {
                let live = self.store.reader().history(id).expect("can be read");
                let spoken = self.store.reader().spoken(id).expect("can be asked");
                let turns = if let DeferredCommand::Undo { turns } = deferred { *turns } else { 1 };
                Past::of(&live, &spoken, turns, state.upkeep.context).map_or_else(nothing, Found::Past)
            }
            DeferredCommand::Title { wanted: Some(title) } => Found::Titled(titled(title)),
            DeferredCommand::New { title, .. } => Found::Titled(titled(title)),
            DeferredCommand::Branch { .. } => {
                let rows = self.store.reader().history(id).expect("can be read").len();
                let summary = self.store.reader().session(id).expect("can be asked").expect("it is there");
                let base = summary.title.unwrap_or_else(|| "branch".into());
                let title = self.store.reader().next_title(&base).expect("can be asked");
                Found::Copy { title, rows, messages: rows }
            }
            DeferredCommand::Resume { .. } => {
                let over = self.books.values().filter(|book| matches!(book.state.phase, Phase::Closed(_)));
                let over: Vec<_> = over.filter(|book| book.parent.is_none()).collect();
                let Some(book) = over.get(usize::from(how) % over.len().max(1)) else { return nothing() };
                let earlier =
                    self.store.reader().resumable(&book.state.id).expect("can be asked").expect("is there");
                assert_eq!((&earlier.session, earlier.received), (&book.state.id, book.state.received));
                assert_eq!((earlier.busy, &earlier.chat, earlier.helper), (false, &None, false));
                assert_eq!(earlier.messages as usize, book.view.len(), "{}: what is live", earlier.session);
                let (session, title, messages, received) =
                    (earlier.session, earlier.title, earlier.messages, earlier.received);
                Found::Earlier { session, title, messages, received }
            }
            DeferredCommand::Other { .. } => {
                let model = Some(format!("model {how}"));
                Found::Preferred {
                    preferences: Preferences { model, ..state.preferences.clone() },
                    said: String::new(),
                }
            }
            _ => nothing(),
        }
    }

    pub(crate) fn switches(&mut self, from: &SessionId, old: &SessionBook, act: &Act) -> SessionId {
        let Act::Switch { to, how, moved } = act else { panic!("{act:?} is no switch") };
        let (mut next, first) = match how {
            Switch::Branch { preferences, title, .. } => {
                let found = self.store.reader().session(to).expect("can be asked").expect("a copy is there");
                assert_eq!(found.title.as_ref(), Some(title), "what the copy of {from} is called");
                (old.copy(to, preferences), 1)
            }
            Switch::Resume { received } => {
                let mut next = self.books.remove(to).expect("an earlier session has a book");
                next.edit(|state| {
                    state.epoch = state.epoch.next();
                    state.generation = state.generation.next();
                    state.phase = Phase::Idle;
                    (state.handover, state.finalised) = Default::default();
                    state.halted = false;
                });
                next.expect = next.state.generation;
                (next, received.0 + 1)
            }
        };
        next.edit(|state| {
            state.received = Seq(state.received.0 + moved.len() as u64);
            state.active = self.now;
        });
        next.in_chat = old.in_chat;
        self.arrive(from, &mut next, moved, first);
        self.books.insert(to.clone(), next);
        for place in &mut self.places {
            if place == from {
                place.clone_from(to);
            }
        }
        to.clone()
    }
}
