//! Moves: compressions, restored views and reviews.

use crate::world::StoreWorld;
use std::sync::Arc;
use throughline_core::compression::{Extent, Kind as Replaced, Operation, Plan, Replacement, Stage};
use throughline_core::message::{Assistant, Body, Content, Message};
use throughline_core::session::Event;
use throughline_core::session::compress::{End, NoSummary};
use throughline_core::session::review::Report;

impl StoreWorld {
    pub(crate) fn surveys(&mut self, place: u8, how: u8) {
        self.flush_if_busy(place);
        let book = self.book(place);
        let Some(asked) = book.state.survey().filter(|_| book.born) else { return };
        let nth = usize::from(how) % (book.live.len() + 1);
        let found = book.live.get(nth).map(|cut| Extent {
            cut: *cut,
            messages: book.live.len(),
            tokens: 1_000,
            plan: how.is_multiple_of(2).then_some(Plan { keep_first: 0, replaced: nth + 1, keep_last: 1 }),
            engine_is_idle: false,
        });
        self.happens(place, Event::Surveyed { asked, found: found.into() });
    }

    pub(crate) fn summarises(&mut self, place: u8, how: u8) {
        self.flush_if_busy(place);
        let book = self.book(place);
        let Some(operation) = &book.state.compression else { return };
        let number = operation.number;
        let cut = book.upto(operation.cut);
        let replace = |kind, first: usize, rows: usize, after_tokens| {
            let first = first.min(cut.saturating_sub(1));
            let said = |nth| {
                let text = Content::text(format!("[SUMMARY {number} {kind}, part {nth} — ünï]"));
                match nth {
                    0 => Message::user(self.now, text),
                    _ => Message::new(
                        self.now,
                        Body::Assistant(Assistant { content: text, ..Assistant::default() }),
                    ),
                }
            };
            Arc::new(Replacement {
                after: first.checked_sub(1).map(|nth| book.live[nth]),
                cut: operation.cut,
                replaced: cut - first,
                rows: (0..rows.min(cut - first)).map(said).collect(),
                kind,
                before: 2_000,
                after_tokens,
                model: "summariser".into(),
                remark: how.is_multiple_of(2).then(|| "Without \"focus\".".to_owned()),
            })
        };
        let summary = match how % 8 {
            0 => Err(NoSummary { end: End::Failed, reason: "no answer.".into() }),
            1 => Ok(replace(Replaced::Summary, 0, 1, 1_999)), // not worth it
            2 => Ok(replace(Replaced::Summary, 1, 2, 10)),
            3 => Ok(replace(Replaced::Summary, 0, 3, 10)),
            _ => Ok(replace(Replaced::Summary, usize::from(how / 8) % 3, 1, 10)),
        };
        let digest = how.is_multiple_of(3).then(|| replace(Replaced::Digest, 0, 1, 100));
        self.happens(place, Event::Summarised { operation: number, summary, digest });
    }

    pub(crate) fn reports(&mut self, place: u8) {
        self.flush_if_busy(place);
        let state = &self.book(place).state;
        let Some(Operation { number, stage: Stage::Promoted, .. }) = &state.compression else { return };
        let operation = *number;
        let promoted = self
            .store
            .reader()
            .promoted(&state.id, operation)
            .expect("can be asked")
            .expect("it is in place");
        self.happens(place, Event::Reported { operation, promoted });
    }

    pub(crate) fn restores(&mut self, place: u8, which: u8) {
        self.flush_if_busy(place);
        let book = self.book(place);
        let Some(kept) = book.kept.get(usize::from(which) % book.kept.len().max(1)) else { return };
        let snapshot = kept.name.clone();
        self.happens(place, Event::Restored { snapshot, context: 0 });
    }

    pub(crate) fn reviews(&mut self, place: u8, how: u8) {
        self.flush();
        let due = self.books.values().filter_map(|book| {
            let review = book.state.reviews.pending.front()?;
            Some((book.state.id.clone(), review.number))
        });
        let due: Vec<_> = due.collect();
        let Some((session, number)) = due.get(usize::from(place) % due.len().max(1)).cloned() else { return };
        let told: Vec<String> = (0..how % 3).map(|nth| format!("Memory \"ünï\" {nth}")).collect();
        let report = Report { changes: told.clone(), told, asked: 2, model: "m".into(), ..Report::default() };
        let result = if how % 4 == 3 { Err("no answer.".to_owned()) } else { Ok(report) };
        let planned = self.plan_for(&session, Event::Reviewed { number, result }, Vec::new());
        self.enqueue(planned);
    }
}
