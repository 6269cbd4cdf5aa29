//! The books after a commit: what the port says that each act does.

use crate::book::{SessionBook, ViewRow};
use crate::sample::chat;
use crate::world::retention::{EVERY, hand_over};
use crate::world::{ExpectedReply, PlannedCommit, StoreWorld};
use std::collections::BTreeSet;
use std::sync::Arc;
use throughline_core::compression::Promoted;
use throughline_core::id::{RowId, Seq, SessionId};
use throughline_core::input::{Input, Kind, Request};
use throughline_core::lifecycle::Reason;
use throughline_core::port::Committed;
use throughline_core::session::Act;

impl StoreWorld {
    /// The books follow what the port says each act does.
    pub(crate) fn apply(
        &mut self,
        planned: PlannedCommit,
        committed: &Committed,
        touched: &mut BTreeSet<SessionId>,
    ) {
        let id = planned.session.clone();
        let mut rows = committed.rows.iter();
        let mut book = self.books.remove(&id).expect("every session has a book");
        book.born = true;
        book.expect = planned.next.generation;
        for act in &planned.acts {
            match act {
                Act::Open(birth) => {
                    // Imported rows come before all others; their numbers are the store's own business.
                    birth.imported.iter().for_each(|message| book.says(message.clone(), RowId(0)));
                    book.principal.clone_from(&birth.principal);
                    book.user.clone_from(&birth.user);
                    book.parent.clone_from(&birth.parent);
                    book.in_chat = birth.chat.is_some();
                }
                Act::Accept(input) => {
                    self.words.insert(input.key.clone(), input.kind.clone());
                    self.note_seen(&id, input);
                }
                Act::Say(input) => panic!("{id}: the store took input {} without its texts", input.seq),
                Act::Append(message) => {
                    book.says(message.clone(), *rows.next().expect("a row for each message"));
                }
                Act::Step(step) => {
                    book.last_prompt = Some(step.prompt);
                    if let (None, Some(answer)) = (&step.open, &planned.answer) {
                        book.answers.insert(step.turn, answer.clone());
                    }
                }
                Act::Settle { seq, outcome } => {
                    book.outcomes.insert(*seq, outcome.clone());
                }
                Act::Begin { inputs, .. } => inputs.iter().for_each(|seq| {
                    book.outcomes.remove(seq);
                }),
                Act::Tip { turn, thread } => book.tips.push((*thread, *turn, book.transcript.len())),
                Act::Deliver(reply) => self.note_reply(&id, reply),
                Act::Freeze { prompt, layer } => book.prompt = Some((prompt.clone(), *layer)),
                Act::Close { successor, moved, .. } => {
                    self.succeed(&id, &book, successor, moved);
                    touched.insert(successor.clone());
                }
                Act::Rewind { rows, kept_as, .. } => book.rewinds(*rows, kept_as),
                Act::Title { session, title } => {
                    let found =
                        self.store.reader().session(session).expect("can be asked").expect("it is there");
                    assert_eq!(found.title.as_ref(), Some(title), "what {session} is called");
                }
                Act::Switch { .. } => {
                    touched.insert(self.switches(&id, &book, act));
                }
                Act::Expire { reason, had_activity, .. } => {
                    self.expires(&id, &book, *reason, *had_activity);
                }
                Act::Reopen | Act::Hook { .. } | Act::Leave { .. } | Act::Named => {}
                Act::Review(review) => {
                    let view = book.view.clone();
                    let prompt = book.prompt.as_ref().map(|(prompt, _)| prompt.clone());
                    book.reviews.entry(review.number).or_insert((view, prompt, book.last_prompt));
                }
                Act::Reviewed { .. } => {}
                Act::Restart { .. } => *self.notes.entry("restart_ordered".to_owned()).or_default() += 1,
                Act::Note { name, .. } => *self.notes.entry((*name).to_owned()).or_default() += 1,
                Act::Promote { replacement, snapshot, operation } => {
                    let before = book.view.len();
                    book.promotes(replacement, snapshot);
                    let promoted = counted(committed, before, &book);
                    assert_eq!((&promoted.snapshot, promoted.kind), (snapshot, replacement.kind));
                    let known = self.store.reader().promoted(&id, operation.number).expect("can be asked");
                    assert_eq!(known.as_ref(), Some(promoted), "{id}: what was counted is kept");
                }
                Act::Restore { snapshot, kept_as } => {
                    let before = book.view.len();
                    book.restores(snapshot, kept_as);
                    counted(committed, before, &book);
                }
                Act::Abandon { end, .. } => {
                    *self.notes.entry(format!("compression_{}", end.as_str())).or_default() += 1;
                }
                Act::Retain(kept) => {
                    self.kept.push((format!("{id}/{}", kept.turn), id.clone(), false));
                    let waits = |(_, session, due): &&(String, SessionId, bool)| *session == id && !*due;
                    if self.kept.iter().filter(waits).count() >= EVERY {
                        hand_over(&mut self.kept, &id);
                    }
                }
                Act::HandOver => hand_over(&mut self.kept, &id),
                Act::Recall { .. }
                | Act::Result { .. }
                | Act::Ask { .. }
                | Act::Grant { .. }
                | Act::Resume { .. }
                | Act::Compress(_) => {}
            }
        }
        assert_eq!(rows.next(), None, "no more rows than messages");
        book.state = planned.next;
        self.books.insert(id, book);
    }

    /// The session has ended by itself, and the next message in its place begins another.
    fn expires(&mut self, id: &SessionId, book: &SessionBook, reason: Reason, had_activity: bool) {
        let place = self.places.iter().position(|place| place == id);
        let place = place.expect("only what is open expires");
        if book.in_chat {
            let reset = self.store.reader().reset(&chat(place).key).expect("can be asked");
            let reset = reset.expect("it is known how it ended");
            let known = (&reset.session, reset.reason, reset.had_activity);
            assert_eq!(known, (id, reason, had_activity));
            assert_eq!(self.store.reader().route(&chat(place).key).expect("can be asked"), None);
        }
        self.number += 1;
        let next = crate::sample::id(&format!("e{}", self.number));
        self.books.insert(next.clone(), SessionBook::new(next.clone()));
        self.places[place] = next;
    }

    /// Where a summary stands is the store's own business.
    pub(crate) fn learn(&mut self, id: &SessionId) {
        let history = self.store.reader().history(id).expect("a transcript can be read");
        let book = self.books.get_mut(id).expect("every session has a book");
        book.live = history.iter().map(|(row, _)| *row).collect();
        for (shown, row) in book.view.iter().zip(&book.live) {
            if let ViewRow::Said(nth) = shown {
                book.rows[*nth] = *row;
            }
        }
    }

    pub(crate) fn note_seen(&mut self, session: &SessionId, input: &Input) {
        self.seen.insert(input.key.clone(), (session.clone(), input.seq));
        if let Kind::Request(Request { implicit_key: Some(key), .. }) = &input.kind {
            self.implicit.insert(*key, (session.clone(), input.seq, input.at, false));
        }
    }

    pub(crate) fn note_reply(&mut self, session: &SessionId, reply: &throughline_core::session::Reply) {
        if self.replies.iter().all(|sent| sent.key != reply.key) {
            self.replies.push(ExpectedReply {
                key: reply.key.clone(),
                text: reply.text.clone(),
                destination: reply.destination.clone(),
                trace: reply.trace.clone(),
                session: session.clone(),
                attempts: 0,
                attempting: None,
                attempted: None,
                marked: false,
                not_before: self.now,
                over: false,
            });
        }
    }

    pub(crate) fn succeed(
        &mut self,
        from: &SessionId,
        old: &SessionBook,
        successor: &SessionId,
        moved: &[Arc<Input>],
    ) {
        let mut next = SessionBook::new(successor.clone());
        next.born = true;
        next.principal.clone_from(&old.principal);
        next.user.clone_from(&old.user);
        next.parent.clone_from(&old.parent);
        next.edit(|state| {
            state.received = Seq(moved.len() as u64);
            state.active = self.now;
        });
        next.in_chat = old.in_chat;
        self.arrive(from, &mut next, moved, 1);
        self.books.insert(successor.clone(), next);
        for place in &mut self.places {
            if place == from {
                place.clone_from(successor);
            }
        }
    }

    /// What waited elsewhere waits here, from this number on.
    pub(crate) fn arrive(
        &mut self,
        from: &SessionId,
        next: &mut SessionBook,
        moved: &[Arc<Input>],
        first: u64,
    ) {
        let to = next.state.id.clone();
        for (input, seq) in moved.iter().zip(first..) {
            let mut input = Input::clone(input);
            input.seq = Seq(seq);
            self.seen.insert(input.key.clone(), (to.clone(), input.seq));
            if let Kind::Request(Request { implicit_key: Some(key), .. }) = &input.kind
                && let Some(known) = self.implicit.get_mut(key)
                && known.0 == *from
                && known.2 == input.at
            {
                *known = (to.clone(), input.seq, input.at, false);
            }
            next.edit(|state| state.waiting.push_back(Arc::new(input)));
        }
    }
}

/// What the store counted of a change of the view, compared with the book.
fn counted<'a>(committed: &'a Committed, before: usize, book: &SessionBook) -> &'a Promoted {
    let promoted = committed.promoted.as_ref().expect("a change of the view is counted");
    let counted = (promoted.messages_before, promoted.messages_after);
    assert_eq!(counted, (before, book.view.len()), "{}: messages before and after", book.state.id);
    promoted
}
