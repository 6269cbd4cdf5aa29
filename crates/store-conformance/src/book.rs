//! What a store must tell of one session, kept as plain lists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use throughline_core::compression::Replacement;
use throughline_core::id::{Generation, RowId, Seq, SessionId, TurnId};
use throughline_core::message::Message;
use throughline_core::prompt::{Digest, Mark};
use throughline_core::session::{Outcome, Phase, Preferences, Session, SessionState};
use throughline_core::turn::Answer;

/// What a review is about: the rows, the prompt, and how far the last request went.
pub(crate) type ReviewBook = (Vec<ViewRow>, Option<Arc<str>>, Option<Mark>);

/// What the books say about one session.
#[derive(Clone, Debug)]
pub(crate) struct SessionBook {
    pub(crate) state: Session,
    pub(crate) expect: Generation,
    pub(crate) born: bool,
    /// All that was ever said, and the row that each became.
    pub(crate) transcript: Vec<Message>,
    pub(crate) rows: Vec<RowId>,
    /// What took the place of some of it.
    pub(crate) summaries: Vec<Message>,
    /// What is live, in order, and where it stands.
    pub(crate) view: Vec<ViewRow>,
    pub(crate) live: Vec<RowId>,
    pub(crate) kept: Vec<BookSnapshot>,
    /// What was taken back, and is not live again.
    pub(crate) taken_back: BTreeSet<usize>,
    pub(crate) last_prompt: Option<Mark>,
    pub(crate) answers: BTreeMap<TurnId, Answer>,
    pub(crate) outcomes: BTreeMap<Seq, Outcome>,
    pub(crate) prompt: Option<(Arc<str>, Option<Digest>)>,
    pub(crate) principal: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) parent: Option<SessionId>,
    pub(crate) in_chat: bool,
    /// The view that each review fell due on, the prompt then, and what was asked.
    pub(crate) reviews: BTreeMap<u64, ReviewBook>,
    /// The client's view after each turn.
    pub(crate) tips: Vec<(Digest, TurnId, usize)>,
}

/// What stands in a view: something that was said, or something that stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViewRow {
    Said(usize),
    Summary(usize),
}

/// A view that was, as far as a compression changed it, and how much had been said by then.
#[derive(Clone, Debug)]
pub(crate) struct BookSnapshot {
    pub(crate) name: String,
    pub(crate) view: Vec<ViewRow>,
    pub(crate) said: usize,
}

impl SessionBook {
    pub(crate) fn new(id: SessionId) -> Self {
        Self {
            state: Session::new(id),
            expect: Generation(0),
            born: false,
            transcript: Vec::new(),
            rows: Vec::new(),
            summaries: Vec::new(),
            view: Vec::new(),
            live: Vec::new(),
            kept: Vec::new(),
            taken_back: BTreeSet::new(),
            last_prompt: None,
            answers: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            prompt: None,
            principal: None,
            user: None,
            parent: None,
            in_chat: false,
            reviews: BTreeMap::new(),
            tips: Vec::new(),
        }
    }

    pub(crate) fn says(&mut self, message: Message, row: RowId) {
        self.view.push(ViewRow::Said(self.transcript.len()));
        self.live.push(row);
        self.transcript.push(message);
        self.rows.push(row);
    }

    pub(crate) fn shown(&self, view: &[ViewRow]) -> Vec<Message> {
        let message = |shown: &ViewRow| match shown {
            ViewRow::Said(nth) => self.transcript[*nth].clone(),
            ViewRow::Summary(nth) => self.summaries[*nth].clone(),
        };
        view.iter().map(message).collect()
    }

    /// How many rows of the view are not above this one.
    pub(crate) fn upto(&self, row: RowId) -> usize {
        self.live.partition_point(|live| *live <= row)
    }

    pub(crate) fn promotes(&mut self, replacement: &Replacement, snapshot: &str) {
        let after = replacement.after.map_or(0, |row| self.upto(row));
        let cut = self.upto(replacement.cut);
        assert_eq!(cut - after, replacement.replaced, "the machine knows its rows");
        // What stands behind an older summary is as it was said.
        let last_summary = self.view.iter().rposition(|shown| matches!(shown, ViewRow::Summary(_)));
        let end = cut.max(last_summary.map_or(0, |nth| nth + 1));
        self.keep(snapshot, end);
        let tail = self.view.split_off(cut);
        let tail_rows = self.live.split_off(cut);
        // It is no later than what it stands for.
        let latest = self.shown(&self.view[cut - 1..cut])[0].at;
        self.view.truncate(after);
        self.live.truncate(after);
        for message in &replacement.rows {
            self.view.push(ViewRow::Summary(self.summaries.len()));
            self.live.push(RowId(0));
            self.summaries.push(Message { at: message.at.min(latest), ..message.clone() });
        }
        self.view.extend(tail);
        self.live.extend(tail_rows);
    }

    pub(crate) fn keep(&mut self, name: &str, end: usize) {
        let said = match self.view.get(end) {
            Some(ViewRow::Said(nth)) => *nth,
            _ => self.transcript.len(),
        };
        self.kept.push(BookSnapshot { name: name.to_owned(), view: self.view[..end].to_vec(), said });
    }

    pub(crate) fn restores(&mut self, snapshot: &str, kept_as: &str) {
        let kept =
            self.kept.iter().find(|kept| kept.name == snapshot).expect("a snapshot that is there").clone();
        self.keep(kept_as, self.view.len());
        let since = (kept.said..self.transcript.len()).filter(|nth| !self.taken_back.contains(nth));
        let since: Vec<_> = since.map(ViewRow::Said).filter(|shown| !kept.view.contains(shown)).collect();
        self.view = kept.view;
        self.view.extend(since);
        for shown in &self.view {
            if let ViewRow::Said(nth) = shown {
                self.taken_back.remove(nth);
            }
        }
        self.live = vec![RowId(0); self.view.len()];
    }

    pub(crate) fn turn(&self) -> Option<(TurnId, u32)> {
        match &self.state.phase {
            Phase::Turn(turn) => Some((turn.id, turn.step)),
            Phase::Idle | Phase::Closed(_) => None,
        }
    }

    /// What is taken back is kept, and comes back only with the snapshot that shows it.
    pub(crate) fn rewinds(&mut self, rows: usize, kept_as: &str) {
        self.keep(kept_as, self.view.len());
        let end = self.view.len() - rows;
        self.taken_back.extend(self.view[end..].iter().filter_map(|shown| match shown {
            ViewRow::Said(nth) => Some(*nth),
            ViewRow::Summary(_) => None,
        }));
        self.view.truncate(end);
        self.live.truncate(end);
        self.tips.clear();
    }

    /// What the store does to a session that its owner has no part in.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut SessionState)) {
        let mut state = self.state.clone().into_state();
        change(&mut state);
        self.state = Session::restored(state);
    }

    /// A copy of what is live.
    pub(crate) fn copy(&self, to: &SessionId, preferences: &Preferences) -> SessionBook {
        let mut copy = SessionBook::new(to.clone());
        copy.born = true;
        copy.principal.clone_from(&self.principal);
        copy.user.clone_from(&self.user);
        copy.prompt.clone_from(&self.prompt);
        copy.edit(|state| {
            state.preferences = preferences.clone();
            state.upkeep.context = self.state.upkeep.context;
        });
        for message in self.shown(&self.view) {
            copy.says(message, RowId(0));
        }
        copy
    }
}
