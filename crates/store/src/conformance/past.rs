//! What must hold of deferred_commands: the end of a conversation is taken back, asked again, named, copied, and left
//! for an earlier one.

use super::*;
use throughline_core::command::{DeferredCommand, Found, Past};
use throughline_core::port::Titling;
use throughline_core::session::{Job, Preferences, Switch};

impl Book {
    /// What is taken back is kept, and comes back only with the snapshot that shows it.
    pub(super) fn rewinds(&mut self, rows: usize, kept_as: &str) {
        self.keep(kept_as, self.view.len());
        let end = self.view.len() - rows;
        self.taken_back.extend(self.view[end..].iter().filter_map(|shown| match shown {
            Shown::Said(nth) => Some(*nth),
            Shown::Summary(_) => None,
        }));
        self.view.truncate(end);
        self.live.truncate(end);
        self.tips.clear();
    }

    /// A copy of what is live.
    fn copy(&self, to: &SessionId, preferences: &Preferences) -> Book {
        let mut copy = Book::new(to.clone());
        copy.born = true;
        copy.principal.clone_from(&self.principal);
        copy.user.clone_from(&self.user);
        copy.prompt.clone_from(&self.prompt);
        copy.state.preferences = preferences.clone();
        copy.state.upkeep.context = self.state.upkeep.context;
        for message in self.shown(&self.view) {
            copy.says(message, RowId(0));
        }
        copy
    }
}

impl World {
    pub(super) fn deferred_commands(&mut self, place: u8, what: u8) {
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

    /// Somebody looks something up for the first deferred command that is due.
    pub(super) fn finds(&mut self, place: u8, how: u8) {
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

    fn found(&self, id: &SessionId, state: &Session, deferred: &DeferredCommand, how: u8) -> Found {
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

    pub(super) fn switches(&mut self, from: &SessionId, old: &Book, act: &Act) -> SessionId {
        let Act::Switch { to, how, moved } = act else { panic!("{act:?} is no switch") };
        let (mut next, first) = match how {
            Switch::Branch { preferences, title, .. } => {
                let found = self.store.reader().session(to).expect("can be asked").expect("a copy is there");
                assert_eq!(found.title.as_ref(), Some(title), "what the copy of {from} is called");
                (old.copy(to, preferences), 1)
            }
            Switch::Resume { received } => {
                let mut next = self.books.remove(to).expect("an earlier session has a book");
                next.state.epoch = next.state.epoch.next();
                next.state.generation = next.state.generation.next();
                next.state.phase = Phase::Idle;
                (next.state.handover, next.state.finalised) = Default::default();
                next.state.halted = false;
                next.expect = next.state.generation;
                (next, received.0 + 1)
            }
        };
        next.state.received = Seq(next.state.received.0 + moved.len() as u64);
        next.state.active = self.now;
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

fn deferred_commands(place: u8, what: u8) -> Move {
    Move::DeferredCommands { place, what }
}

fn finds(place: u8) -> Move {
    Move::Finds { place, how: 0 }
}

const UNDO: u8 = 0;
const RETRY: u8 = 2;
const TITLE: u8 = 3;
const MODEL: u8 = 4;
const BRANCH: u8 = 5;
const RESUME: u8 = 6;
const NEW: u8 = 7;

pub(super) fn p4_what_is_taken_back_is_kept_and_can_be_brought_back(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "one"), answers(0, "re one"), says(0, "two"), answers(0, "re two")]);
    world.play(&[deferred_commands(0, UNDO), Move::Reopens, says(0, "three"), finds(0), Move::Reopens]);
    let book = &world.books[&id("s0")];
    let live: Vec<String> = book.shown(&book.view).iter().map(|row| row.content().plain()).collect();
    assert_eq!(live, ["one", "re one", "three"], "what waited goes on where it was taken back");
    let said = |world: &World| -> Vec<String> {
        let said = world.store.reader().said(&id("s0")).expect("can be read");
        said.iter().map(|(_, row)| row.content().plain()).collect()
    };
    assert_eq!(said(&world), ["one", "re one", "three"], "what was taken back is not told at the end");
    let found = world.store.reader().search("two", &SessionFilter::default()).expect("can be searched");
    assert_eq!(found, [], "it is not found among what was said");
    let filter = SessionFilter { snapshot: Some(book.kept[0].name.clone()), ..SessionFilter::default() };
    let found = world.store.reader().search("two", &filter).expect("can be searched");
    assert!(!found.is_empty(), "but where it is kept");
    world.play(&[answers(0, "re three"), Move::Restores { place: 0, which: 0 }, Move::Reopens]);
    let book = &world.books[&id("s0")];
    let live: Vec<String> = book.shown(&book.view).iter().map(|row| row.content().plain()).collect();
    assert_eq!(live, ["one", "re one", "two", "re two", "three", "re three"]);
    // More than there is: all of it.
    world.play(&[
        deferred_commands(0, UNDO + 16),
        finds(0),
        deferred_commands(0, UNDO),
        finds(0),
        deferred_commands(0, UNDO),
        finds(0),
    ]);
    world.play(&[says(0, "afresh"), answers(0, "yes"), Move::Reopens]);
}

pub(super) fn p4_a_message_is_asked_again_and_stands_there_once(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "one"), answers(0, "re one"), deferred_commands(0, RETRY), finds(0), Move::Reopens]);
    world.play(&[Move::Reloads { place: 0 }, answers(0, "better"), Move::Reopens]);
    let book = &world.books[&id("s0")];
    let live: Vec<String> = book.shown(&book.view).iter().map(|row| row.content().plain()).collect();
    assert_eq!(live, ["one", "better"]);
    assert_eq!(book.kept.len(), 1, "the first answer is kept");
    // One that failed, and one of two that shared a turn.
    world.play(&[says(0, "two"), Move::Fails { place: 0, kind: 0 }, deferred_commands(0, RETRY), finds(0)]);
    world.play(&[says(0, "three"), says(0, "four"), answers(0, "re two"), answers(0, "re both")]);
    world.play(&[
        deferred_commands(0, RETRY),
        finds(0),
        answers(0, "once more"),
        deferred_commands(0, UNDO),
        finds(0),
    ]);
    let book = &world.books[&id("s0")];
    let live: Vec<String> = book.shown(&book.view).iter().map(|row| row.content().plain()).collect();
    assert_eq!(live, ["one", "better", "two", "re two"]);
}

pub(super) fn p4_a_copy_goes_on_and_the_original_stays(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[
        says(0, "one"),
        answers(0, "re one"),
        deferred_commands(0, TITLE),
        finds(0),
        deferred_commands(0, MODEL),
        finds(0),
    ]);
    world.play(&[deferred_commands(0, BRANCH), says(0, "two"), finds(0), Move::Reopens]);
    world.play(&[Move::Reloads { place: 0 }, answers(0, "re two")]);
    let copy = world.places[0].clone();
    let title = |session: &SessionId| {
        world.store.reader().session(session).expect("can be asked").and_then(|it| it.title)
    };
    assert_eq!((title(&id("s0")), title(&copy)), (Some("a title 0".into()), Some("a title 0 #2".into())));
    assert_eq!(world.books[&id("s0")].view.len(), 2, "the original is as it was");
    assert_eq!(world.books[&copy].view.len(), 4);
    assert_eq!(world.books[&copy].state.preferences, world.books[&id("s0")].state.preferences);
    // Back to the original, which takes along what waits, and forth again.
    world.play(&[deferred_commands(0, RESUME), says(0, "three"), finds(0), Move::Reopens]);
    world.play(&[Move::Reloads { place: 0 }, answers(0, "re three")]);
    assert_eq!(world.places[0], id("s0"));
    assert_eq!(world.books[&id("s0")].view.len(), 4);
    world.play(&[
        deferred_commands(0, RESUME),
        finds(0),
        says(0, "four"),
        answers(0, "re four"),
        Move::Reopens,
    ]);
    assert_eq!(world.places[0], copy);
    for _ in 0..6 {
        world.play(&[Move::Finalises { place: 0 }]);
    }
    world.play(&[
        deferred_commands(0, RESUME),
        finds(0),
        Move::Reopens,
        deferred_commands(0, NEW),
        finds(0),
        Move::Reopens,
    ]);
}

pub(super) fn p4_a_switch_is_refused_where_something_has_changed(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "one"), answers(0, "re one"), says(1, "one"), answers(1, "re one")]);
    for (what, found) in [
        // It leads somewhere: another chat is there.
        (RESUME, Found::Earlier { session: id("s1"), title: None, messages: 2, received: Seq(1) }),
        (RESUME, Found::Earlier { session: id("nobody"), title: None, messages: 2, received: Seq(0) }),
        (BRANCH, Found::Copy { title: "x".into(), rows: 7, messages: 7 }),
        (
            UNDO,
            Found::Past(Past {
                from: RowId(1),
                rows: 9,
                exchanges: 1,
                said: Vec::new(),
                remaining: 0,
                context: 0,
                summarised: false,
            }),
        ),
    ] {
        world.play(&[deferred_commands(0, what)]);
        let seq = world.book(0).state.received;
        let planned = world.plan(0, Event::Ordered { seq, found: found.clone() }, Vec::new());
        let (expect, state) = (planned.expect, Box::new(planned.next));
        let commit = Commit::Session { expect, state, acts: planned.acts, at: world.now };
        let result = one(world.store.as_mut(), commit);
        assert!(matches!(result, Err(StoreError::Fenced { .. })), "{found:?}: {result:?}");
        world.compare_all();
        world.happens(0, Event::Ordered { seq, found: Found::Said("Nothing.".into()) });
    }
    world.play(&[says(0, "two"), answers(0, "re two")]);
}
