//! What the store tells, against the books.

use crate::book::{SessionBook, ViewRow};
use crate::sample::chat;
use crate::world::retention::PROVIDER;
use crate::world::{ExpectedReply, StoreWorld};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use throughline_core::command::Command;
use throughline_core::compression::Stage;
use throughline_core::home_status::Running;
use throughline_core::id::{Seq, SessionId};
use throughline_core::input::{Input, Kind};
use throughline_core::memory::Progress;
use throughline_core::message::Message;
use throughline_core::port::{CallId, Pending};
use throughline_core::session::{Outcome, Phase, Session};
use throughline_core::turn::Slot;

impl StoreWorld {
    pub(crate) fn compare_all(&self) {
        self.books.keys().for_each(|session| self.compare(session));
        self.compare_keys();
        self.compare_replies();
        self.compare_unfinished();
        self.compare_asks();
        self.compare_standing();
        let counted: BTreeMap<_, _> =
            self.store.reader().counts().expect("events can be counted").into_iter().collect();
        for (name, count) in &self.notes {
            assert_eq!(counted.get(name), Some(count), "how often {name} happened");
        }
    }

    pub(crate) fn compare(&self, id: &SessionId) {
        let book = &self.books[id];
        let loaded = self.store.reader().load(id).expect("a session can be loaded");
        let Some(loaded) = loaded else {
            assert!(!book.born, "{id} is there");
            return;
        };
        assert_eq!(loaded.session, book.state, "{id} is as the machine left it");
        assert_eq!(loaded.last_prompt, book.last_prompt, "{id}: what the last step asked");
        assert_eq!(loaded.principal, book.principal, "{id}: whose it is");
        assert_eq!(loaded.user, book.user, "{id}: who writes there");
        assert_eq!(loaded.adopted, 0, "{id}: no other process writes here");
        let is_closed = matches!(book.state.phase, Phase::Closed(_));
        assert_eq!(loaded.ended.is_some(), is_closed, "{id}: ended {:?}", loaded.ended);
        if let Some((prompt, layer)) = &book.prompt {
            assert_eq!((loaded.system_prompt.as_ref(), &loaded.layer), (Some(prompt), layer), "{id}");
        }
        if let Some(operation) = &book.state.compression
            && operation.stage != Stage::Promoted
        {
            assert!(
                self.store.reader().intact(id, operation).expect("can be asked"),
                "{id}: no other process was here"
            );
        }
        self.compare_waiting(id, book);
        self.compare_transcript(id, book);
        self.compare_snapshots(id, book);
        self.compare_reviews(id, book);
        for seq in (1..=book.state.received.0).map(Seq) {
            self.compare_outcome(id, book, seq);
        }
        self.compare_tips(id, book);
    }

    /// What waits can be read as it came in, also what waits without its texts.
    pub(crate) fn compare_waiting(&self, id: &SessionId, book: &SessionBook) {
        for waiting in &book.state.waiting {
            let found = self
                .store
                .reader()
                .input(id, waiting.seq)
                .expect("an input can be read")
                .expect("it is there");
            let kind = self.words[&waiting.key].clone();
            let whole = Input { kind, left: None, ..Input::clone(waiting) };
            assert_eq!(*found, whole, "{id}: input {} as it came in", waiting.seq);
        }
        assert_eq!(
            self.store.reader().input(id, book.state.received.next()).expect("can be asked"),
            None,
            "{id}"
        );
    }

    pub(crate) fn compare_transcript(&self, id: &SessionId, book: &SessionBook) {
        let history = self.store.reader().history(id).expect("a transcript can be read");
        let said: Vec<Message> = history.iter().map(|(_, message)| message.clone()).collect();
        assert_eq!(said, self.kept(book.shown(&book.view)), "{id}: the transcript");
        assert!(history.is_sorted_by(|(a, _), (b, _)| a < b), "{id}: rows rise");
        for ((row, _), shown) in history.iter().zip(&book.view) {
            if let ViewRow::Said(nth) = shown
                && book.rows[*nth].0 > 0
            {
                assert_eq!(*row, book.rows[*nth], "{id}: rows are where the commit said");
            }
        }
    }

    pub(crate) fn kept(&self, messages: Vec<Message>) -> Vec<Message> {
        messages.iter().map(|message| self.site.kept(message)).collect()
    }

    /// Every view that was can be read as it was.
    pub(crate) fn compare_snapshots(&self, id: &SessionId, book: &SessionBook) {
        let listed = self.store.reader().snapshots(id).expect("snapshots can be listed");
        let names: Vec<&str> = listed.iter().map(|found| found.name.as_str()).collect();
        let expected: Vec<&str> = book.kept.iter().map(|kept| kept.name.as_str()).collect();
        assert_eq!(names, expected, "{id}: its snapshots, in order");
        for (kept, summary) in book.kept.iter().zip(&listed) {
            let found = self.store.reader().snapshot(&kept.name).expect("can be read").expect("is there");
            assert_eq!((&found.summary, &summary.session), (summary, id), "{}", kept.name);
            assert_eq!(summary.messages, kept.view.len(), "{}", kept.name);
            let rows: Vec<Message> = found.rows.into_iter().map(|(_, message)| message).collect();
            assert_eq!(rows, self.kept(book.shown(&kept.view)), "{}: as it was", kept.name);
        }
    }

    /// A review that is due can be run on the view it fell due on, also if the view has changed since.
    pub(crate) fn compare_reviews(&self, id: &SessionId, book: &SessionBook) {
        let open = self.store.reader().reviews().expect("reviews can be listed");
        for (number, (view, prompt, asked)) in &book.reviews {
            let found = self.store.reader().review(id, *number).expect("a review can be read");
            let Some(due) = book.state.reviews.pending.iter().find(|review| review.number == *number) else {
                assert_eq!(found, None, "{id}: review {number} is over");
                continue;
            };
            let found = found.expect("it is due");
            assert_eq!(found.messages, self.kept(book.shown(view)), "{id}: what review {number} is about");
            assert_eq!((found.gone, found.asked), (0, *asked), "{id}: review {number}");
            if prompt.is_some() {
                assert_eq!(&found.system_prompt, prompt, "{id}: review {number}");
            }
            let listed = open.iter().find(|record| (&record.session, record.number) == (id, *number));
            let listed = listed.map(|record| (record.subject, record.due, record.tries, &record.parked));
            assert_eq!(listed, Some((due.subject, due.due, due.tries, &None)), "{id}: review {number}");
        }
    }

    pub(crate) fn compare_outcome(&self, id: &SessionId, book: &SessionBook, seq: Seq) {
        let settled = self.store.reader().outcome(id, seq).expect("an outcome can be read");
        let outcome = settled.as_ref().map(|settled| &settled.outcome);
        assert_eq!(outcome, book.outcomes.get(&seq), "{id}/{seq}: what became of it");
        let answer = settled.and_then(|settled| settled.answer);
        let known = match book.outcomes.get(&seq) {
            Some(Outcome::Answered(turn)) => book.answers.get(turn).cloned(),
            _ => None,
        };
        assert_eq!(answer, known, "{id}/{seq}: its answer");
    }

    pub(crate) fn compare_tips(&self, id: &SessionId, book: &SessionBook) {
        for (digest, turn, length) in &book.tips {
            let matches = self.store.reader().thread("p", digest).expect("a thread can be looked up");
            let theirs: Vec<_> =
                matches.iter().filter(|found| found.session == *id && found.turn == *turn).collect();
            let orders = |input: &Arc<Input>| matches!(&input.kind, Kind::Command(Command::Compress { .. }));
            let is_tip = book.state.waiting.iter().all(orders)
                && book.state.phase == Phase::Idle
                && *length == book.transcript.len();
            assert_eq!(theirs.len(), 1, "{id}: turn {turn} is found by its client's history");
            assert_eq!(theirs[0].is_tip, is_tip, "{id}: whether turn {turn} is the last word");
            assert_eq!(self.store.reader().thread("somebody else", digest).expect("can be looked up"), []);
        }
    }

    pub(crate) fn compare_keys(&self) {
        for (key, (session, seq)) in &self.seen {
            let seen =
                self.store.reader().seen(key).expect("a key can be looked up").expect("it was accepted");
            assert_eq!((&seen.session, &seen.seq), (session, seq), "where {key} is");
        }
        for (key, (session, seq, at, written)) in &self.implicit {
            let found =
                self.store.reader().implicit(key).expect("words can be looked up").expect("they were said");
            assert_eq!((&found.session, found.seq, found.at), (session, *seq, *at), "who said them last");
            assert_eq!(found.written, *written, "whether the answer arrived");
        }
        for place in 0..2 {
            let led = self.store.reader().route(&chat(place).key).expect("a route can be looked up");
            let expected = self.books[&self.places[place]].born.then(|| self.places[place].clone());
            assert_eq!(led, expected, "where chat {place} leads");
        }
    }

    pub(crate) fn compare_replies(&self) {
        let stored = self.store.reader().undelivered().expect("replies can be read");
        let stored: Vec<ExpectedReply> = stored
            .into_iter()
            .map(|outgoing| ExpectedReply {
                key: outgoing.key,
                text: outgoing.text,
                destination: outgoing.destination,
                trace: outgoing.trace,
                session: outgoing.session,
                attempts: outgoing.attempts,
                attempting: outgoing.attempting,
                attempted: outgoing.attempted,
                marked: outgoing.marked,
                not_before: outgoing.not_before,
                over: false,
            })
            .collect();
        let expected: Vec<ExpectedReply> = self.replies.iter().filter(|sent| !sent.over).cloned().collect();
        assert_eq!(stored, expected, "replies that have not left, in order");
    }

    pub(crate) fn compare_unfinished(&self) {
        let stored: BTreeSet<_> =
            self.store.reader().unfinished().expect("can be asked").into_iter().collect();
        let busy = self.books.values().filter(|book| book.born && !book.state.is_quiet());
        let expected: BTreeSet<_> = busy.map(|book| book.state.id.clone()).collect();
        assert_eq!(stored, expected, "what a start has to take up");
        let stored: BTreeSet<_> = self.store.reader().halted().expect("can be asked").into_iter().collect();
        let silenced = self.books.values().filter(|book| book.born && book.state.halted);
        let expected: BTreeSet<_> = silenced.map(|book| book.state.id.clone()).collect();
        assert_eq!(stored, expected, "what is silenced");
    }

    pub(crate) fn compare_standing(&self) {
        let status = self.store.reader().home_status().expect("can be asked");
        let born: Vec<&Session> =
            self.books.values().filter(|book| book.born).map(|book| &book.state).collect();
        let held = |state: &Session| state.compression.as_ref().map_or(0, |operation| operation.orders.len());
        let waiting: usize = born.iter().map(|state| state.waiting.len() + held(state)).sum();
        assert_eq!(status.waiting, waiting as u64, "messages that wait");
        let first = born.iter().flat_map(|state| state.waiting.iter().map(|input| input.at)).min();
        if let (Some(first), Some(oldest)) = (first, &status.oldest_waiting) {
            assert!(oldest.since <= first, "{oldest:?} is the oldest, and one waits since {first}");
        }
        let mut running: Vec<_> = born
            .iter()
            .filter_map(|state| {
                let Phase::Turn(turn) = &state.phase else { return None };
                let slots = turn.group.iter().flat_map(|group| group.slots.iter().zip(&group.answer.calls));
                let open: Vec<_> = slots.filter(|(slot, _)| !matches!(slot, Slot::Done(_))).collect();
                Some(Running {
                    session: state.id.clone(),
                    source: String::new(), // not the machine's business
                    since: turn.began,
                    step: turn.step,
                    asking: open.iter().any(|(slot, _)| matches!(slot, Slot::Asking(_))),
                    tools: open.iter().map(|(_, call)| call.name.clone()).collect(),
                })
            })
            .collect();
        running.sort_by_key(|turn| (turn.since, turn.session.clone()));
        let told: Vec<_> =
            status.running.into_iter().map(|turn| Running { source: String::new(), ..turn }).collect();
        assert_eq!(told, running, "turns that run");
        let pending = self.replies.iter().filter(|sent| !sent.over);
        assert_eq!(status.undelivered, pending.clone().count() as u64, "replies that have not left");
        let oldest = status.oldest_undelivered.map(|reply| reply.key);
        assert_eq!(oldest.as_deref(), pending.map(|sent| sent.key.as_str()).next());
        let halted = born.iter().filter(|state| state.halted).count();
        assert_eq!(status.halted_sessions, halted as u64, "silenced");
    }

    pub(crate) fn compare_kept(&self) {
        let unkept = self.store.reader().unkept().expect("can be asked");
        let stored: Vec<_> = unkept
            .iter()
            .map(|it| {
                let due = it.progress == Progress::Due;
                (it.retention.key.clone(), it.retention.scope.session.clone(), due)
            })
            .collect();
        assert_eq!(stored, self.kept, "what no provider remembers yet");
        let due = self.store.reader().retentions(PROVIDER).expect("can be asked");
        let expected: Vec<_> = self.kept.iter().filter(|it| it.2).map(|it| it.0.clone()).take(1000).collect();
        assert_eq!(due.iter().map(|it| it.retention.key.clone()).collect::<Vec<_>>(), expected);
    }

    pub(crate) fn compare_asks(&self) {
        let mut expected = Vec::new();
        for book in self.books.values() {
            let Phase::Turn(turn) = &book.state.phase else { continue };
            let Some(group) = &turn.group else { continue };
            for (index, slot) in group.slots.iter().enumerate() {
                if let Slot::Asking(ask) = slot {
                    let session = book.state.id.clone();
                    let question = ask.question.number();
                    let call = CallId { session, turn: turn.id, step: turn.step, index, question };
                    let tool = group.answer.calls[index].name.clone();
                    expected.push(Pending { call, tool, ask: ask.clone() });
                }
            }
        }
        expected.sort_by_key(|pending| (pending.ask.asked, pending.call.clone()));
        assert_eq!(self.store.reader().asks().expect("can be asked"), expected, "what waits for a person");
        for parent in self.books.keys() {
            let stored: BTreeSet<_> =
                self.store.reader().children(parent).expect("can be asked").into_iter().collect();
            let theirs = self.books.values().filter(|book| book.parent.as_ref() == Some(parent));
            let theirs: BTreeSet<_> = theirs.map(|book| book.state.id.clone()).collect();
            assert_eq!(stored, theirs, "who works for {parent}");
        }
    }
}
