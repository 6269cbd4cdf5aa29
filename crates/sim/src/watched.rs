//! The store as the simulator sees it: it counts transactions, ends the life when it is time, and
//! is where deliberate bugs are put in.

use crate::disk::Disk;
use crate::mutant::{Mutant, archive_all};
use crate::records::{Due, Over};
use crate::world::Outside;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use throughline_core::id::Boot;
use throughline_core::input::Input;
use throughline_core::message::Body;
use throughline_core::port::{Closed, Commit, Committed, Read, Store, StoreError, Tended};
use throughline_core::session::lifecycle::Run;
use throughline_core::session::{Act, review};
use throughline_core::{Content, RowId, Seq, SessionId, Time};
use throughline_store::{Durability, FileSystem, Home, StoreWriter};

/// Opens the real store on a simulated disk.
pub fn open_on(disk: &Disk, mutant: Option<Mutant>, now: Time) -> Result<Box<dyn Store>, StoreError> {
    Ok(Box::new(writer_on(disk, mutant, now)?))
}

/// The same, for a command that does what no gateway does.
pub fn writer_on(disk: &Disk, mutant: Option<Mutant>, now: Time) -> Result<StoreWriter, StoreError> {
    let home = Home {
        database: "state.db".into(),
        sessions: None,
        scope: "simulated".into(),
        filesystem: FileSystem::Trusted,
        vfs: Some(disk.vfs_name().into()),
        durability: if mutant == Some(Mutant::NoSync) { Durability::Relaxed } else { Durability::Full },
    };
    let broken = |error| StoreError::Broken { doing: "open the store", source: Box::new(error) };
    home.writer(now).map_err(broken)
}

pub struct Watched {
    store: Box<dyn Store>,
    outside: Arc<Outside>,
    /// For the bug that acknowledges too early: what was promised and is not written yet.
    promised: Vec<Commit>,
}

impl Watched {
    pub fn new(store: Box<dyn Store>, outside: Arc<Outside>) -> Self {
        Self { store, outside, promised: Vec::new() }
    }

    /// One owner at a time, each with a higher generation than the last life's.
    fn note_owners(&self, batch: &[Commit], results: &[Result<Committed, StoreError>]) {
        self.outside.write(|records| {
            let life = records.life;
            for (commit, result) in batch.iter().zip(results) {
                let (Commit::Session { state, .. }, Ok(_)) = (commit, result) else { continue };
                let known = records.owners.insert(state.id.clone(), (life, state.generation));
                if let Some((lived, generation)) = known
                    && lived < life
                    && state.generation <= generation
                {
                    records.wrong.push(format!(
                        "{}: generation {} was used in an earlier life",
                        state.id, state.generation
                    ));
                }
            }
        });
    }

    /// What the gateway may rely on from here on. With power gone in the middle, that is nothing.
    fn note_calls(&self, batch: &[Commit], results: &[Result<Committed, StoreError>]) {
        if self.outside.has_struck() {
            return;
        }
        self.outside.write(|records| {
            for (commit, result) in batch.iter().zip(results) {
                let (Commit::Session { state, acts, .. }, Ok(_)) = (commit, result) else { continue };
                for act in acts {
                    match act {
                        Act::Result { result, .. } => {
                            let call = (state.id.clone(), result.call_id.clone());
                            records.committed.insert(call, result.content.plain());
                        }
                        Act::Hook { hook, run: Run::Done } => {
                            records.told.insert((state.id.clone(), state.epoch.0, hook.clone()));
                        }
                        Act::Review(review) => {
                            let key = (state.id.clone(), review.number);
                            let due = Due { turn: review.turn.0, in_chat: review.place.is_some() };
                            records.due.entry(key).or_insert(due);
                        }
                        Act::Reviewed { number, outcome } => {
                            let at = records.tick();
                            let review = (state.id.clone(), *number);
                            let (done, told) = match outcome {
                                review::Outcome::Done(report) => (true, !report.told.is_empty()),
                                review::Outcome::Parked(_) => (false, false),
                            };
                            records.over.push(Over { at, review, done, told });
                        }
                        Act::Step(step) => records.steps.extend(step.open.as_ref().and_then(|said| {
                            said.content.plain().strip_prefix("step-")?.parse::<usize>().ok()
                        })),
                        _ => {}
                    }
                }
            }
        });
    }

    /// The bug that runs calls before they are on disk: those commits are only promised.
    fn commit_late(&mut self, batch: &[Commit]) -> Vec<Result<Committed, StoreError>> {
        let due = std::mem::take(&mut self.promised);
        if !due.is_empty() {
            self.store.commit(&due);
        }
        let opens = |commit: &Commit| match commit {
            Commit::Session { acts, .. } => {
                acts.iter().any(|act| matches!(act, Act::Step(step) if step.open.is_some()))
            }
            _ => false,
        };
        let mut results = Vec::new();
        for commit in batch {
            match opens(commit) {
                true => {
                    self.promised.push(commit.clone());
                    results.push(Ok(Committed::default()));
                }
                false => results.extend(self.store.commit(std::slice::from_ref(commit))),
            }
        }
        results
    }

    /// The bug that lets a summary take the place of more than it stands for.
    fn archiving_later(&self, mut batch: Vec<Commit>) -> Vec<Commit> {
        for commit in &mut batch {
            let Commit::Session { state, .. } = commit else { continue };
            let live = self.store.reader().history(&state.id).unwrap_or_default();
            let live: Vec<RowId> = live.into_iter().map(|(row, _)| row).collect();
            archive_all(commit, &live);
        }
        batch
    }

    /// What waited with its texts on disk is taken up: its row says what the inbox has. Two bugs say something else.
    fn note_texts(&self, batch: &mut [Commit]) {
        for commit in batch {
            let Commit::Session { state, acts, .. } = commit else { continue };
            let came_in: Vec<Seq> = acts.iter().filter_map(accepted).collect();
            let begun = acts.iter().filter_map(|act| match act {
                Act::Begin { inputs, .. } => Some(inputs.clone()),
                _ => None,
            });
            for seq in begun.flatten().filter(|seq| !came_in.contains(seq)).collect::<Vec<_>>() {
                let Some(whole) = self.waits_on_disk(&state.id, seq) else { continue };
                self.outside.write(|records| records.texts_read += 1);
                let said = match self.outside.mutant {
                    Some(Mutant::ForgetTexts) => Some(Content::Nothing),
                    Some(Mutant::SwapTexts) => self.other_texts(&state.id, seq),
                    _ => None,
                };
                let row = whole.row();
                let its_row = |act: &&mut Act| matches!((act, &row), (Act::Append(one), Some(row)) if one.body == row.body);
                if let (Some(said), Some(Act::Append(message))) = (said, acts.iter_mut().find(its_row)) {
                    message.body = Body::User(said);
                }
            }
        }
    }

    fn waits_on_disk(&self, session: &SessionId, seq: Seq) -> Option<Arc<Input>> {
        let whole = self.store.reader().input(session, seq).ok()??;
        whole.light().left.is_some().then_some(whole)
    }

    fn other_texts(&self, session: &SessionId, seq: Seq) -> Option<Content> {
        let loaded = self.store.reader().load(session).ok()??;
        let waiting = &loaded.session.waiting;
        let other = waiting.iter().find(|input| input.seq != seq && input.left.is_some())?;
        let row = self.store.reader().input(session, other.seq).ok()??.row()?;
        Some(row.content().clone())
    }

    fn look_at_the_clock(&self) {
        if self.outside.has_struck() {
            self.outside.die();
        }
    }
}

impl Store for Watched {
    fn commit(&mut self, batch: &[Commit]) -> Vec<Result<Committed, StoreError>> {
        // A task that still runs when the life is over writes nothing more, and hears of nothing.
        let unheard = || batch.iter().map(|_| Err(StoreError::Busy)).collect();
        if self.outside.is_dead() {
            return unheard();
        }
        let nonce = self.outside.commits.fetch_add(1, Ordering::Relaxed) + 1;
        let tampered: Vec<Commit> = match self.outside.mutant {
            Some(mutant) => batch
                .iter()
                .zip(0..)
                .map(|(commit, place)| mutant.tamper(commit, nonce * 1000 + place))
                .collect(),
            None => batch.to_vec(),
        };
        let mut tampered = match self.outside.mutant {
            Some(Mutant::ArchiveLater) => self.archiving_later(tampered),
            _ => tampered,
        };
        self.note_texts(&mut tampered);
        let results = match self.outside.mutant {
            Some(Mutant::AcknowledgeBeforeCommit) => {
                let due = std::mem::replace(&mut self.promised, tampered.clone());
                if !due.is_empty() {
                    self.store.commit(&due);
                }
                batch.iter().map(|_| Ok(Committed::default())).collect()
            }
            Some(Mutant::RunBeforeCommit) => self.commit_late(&tampered),
            _ => self.store.commit(&tampered),
        };
        self.note_calls(batch, &results);
        self.note_owners(&tampered, &results);
        self.look_at_the_clock();
        if nonce >= self.outside.commits_max.load(Ordering::Relaxed) {
            self.outside.die();
            return unheard();
        }
        results
    }

    fn boot(&mut self, now: Time) -> Result<Boot, StoreError> {
        let boot = self.store.boot(now);
        self.look_at_the_clock();
        boot
    }

    fn tend(&mut self, now: Time) -> Result<Tended, StoreError> {
        if !self.promised.is_empty() {
            let due = std::mem::take(&mut self.promised);
            self.store.commit(&due);
        }
        let tended = self.store.tend(now);
        self.look_at_the_clock();
        tended
    }

    fn close_while(&mut self, now: Time, go_on: &mut dyn FnMut() -> bool) -> Result<Closed, StoreError> {
        let closed = self.store.close_while(now, go_on);
        self.look_at_the_clock();
        closed
    }

    fn reader(&self) -> &dyn Read {
        self.store.reader()
    }
}

fn accepted(act: &Act) -> Option<Seq> {
    match act {
        Act::Accept(input) => Some(input.seq),
        _ => None,
    }
}
