//! When a conversation is compressed, and what follows from it.
//!
//! Turn and compression go side by side. They meet in one place, `Session::approach`, just before
//! a request: a summary that is ready takes its place there, and a context beyond the hard limit
//! waits there for one. What comes in meanwhile only waits, and is in the request that follows.

use super::{Act, Outcome, Phase, Rules, SessionState};
use crate::command::Command;
use crate::compression::{
    ATTEMPTS_MAX, Cause, Extent, Kind, Operation, PROMOTIONS_MAX, Promoted, Replacement, Stage, estimate,
    estimate_answer,
};
use crate::id::{RowId, Seq, TurnId};
use crate::input::{self, Input};
use crate::message::Body;
use crate::time::Time;
use crate::turn::{Answer, Turn};
use std::sync::Arc;

/// How an operation ended without a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// There was nothing to gain.
    Skipped,
    /// No summary came of it.
    Failed,
    /// The view is not the one it was prepared for.
    Stale,
}

impl End {
    pub fn as_str(self) -> &'static str {
        match self {
            End::Skipped => "skipped",
            End::Failed => "failed",
            End::Stale => "stale",
        }
    }
}

/// What a survey is to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SurveyOrder {
    pub order: Option<Seq>,
    pub focus: Option<String>,
    /// So many exchanges at the end are to stay.
    pub keep: Option<u32>,
    pub force: bool,
    /// Only to tell what would happen.
    pub preview: bool,
}

/// What the next request weighs after this answer to one that weighed `context`. The provider's count is the
/// truth about what was sent; an answer without one is estimated.
pub fn expected_after(context: u64, answer: &Answer) -> u64 {
    match answer.usage.prompt() {
        0 => context + estimate_answer(&answer.said),
        counted => counted + answer.usage.output,
    }
}

impl SessionState {
    /// The request that is out, or is prepared: none while a compression is waited for.
    pub(super) fn request(&self) -> Option<(TurnId, u32)> {
        match &self.phase {
            Phase::Turn(Turn { id, step, group: None, held: false, .. }) => Some((*id, *step)),
            _ => None,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Turn(Turn { held: true, .. }))
    }

    /// Whether the shell should look at the rows: on order, of need, or ahead of time.
    pub fn survey(&self) -> Option<SurveyOrder> {
        if self.halted || matches!(self.phase, Phase::Closed(_)) {
            return None;
        }
        if let Some(order) = self.next_order()
            && let input::Kind::Command(Command::Compress { focus, keep, preview }) = &order.kind
            && (*preview || self.compression.is_none())
        {
            return Some(SurveyOrder {
                order: Some(order.seq),
                focus: focus.clone(),
                keep: *keep,
                force: true,
                preview: *preview,
            });
        }
        if self.compression.is_some() {
            return None;
        }
        let needed = self.is_held();
        (needed || self.upkeep.wanted).then(|| SurveyOrder { force: needed, ..SurveyOrder::default() })
    }

    /// An order to compress passes what waits, but not the end of the conversation.
    fn next_order(&self) -> Option<&Arc<Input>> {
        self.waiting.iter().take_while(|input| !ends(input)).find(|input| is_order(input))
    }

    pub(super) fn count_answer(&mut self, answer: &Answer, full: bool, now: Time) {
        self.upkeep.context = expected_after(self.upkeep.context, answer);
        if let Phase::Turn(turn) = &mut self.phase {
            turn.promotions = 0;
            turn.refused = false;
        }
        if full && self.compression.is_none() && self.upkeep.allows(now) {
            self.upkeep.wanted = true;
        }
    }

    /// What these rows add to the next request.
    pub(super) fn weigh(&mut self, acts: &[Act]) {
        let added = acts.iter().map(|act| match act {
            // What the model said was counted when it said it.
            Act::Append(message) if !matches!(message.body, Body::Assistant(_)) => estimate(message),
            Act::Say(input) => input.left.map_or(0, |left| left.tokens),
            _ => 0,
        });
        self.upkeep.context += added.sum::<u64>();
    }

    /// Just before a request.
    pub(super) fn approach(&mut self, now: Time, rules: &Rules, acts: &mut Vec<Act>) {
        let over = |session: &Self| rules.hard_tokens.is_some_and(|hard| session.upkeep.context >= hard);
        self.promote(now, acts);
        let full = over(self);
        // What freed too little to pay for a break is not tried again before there is more of it: the limit is
        // ours, and the provider has the last word.
        let hopeful = self.upkeep.context >= self.upkeep.unworthy;
        let Phase::Turn(turn) = &mut self.phase else { return };
        if full && (hopeful || turn.refused) && turn.promotions < PROMOTIONS_MAX {
            turn.held = true;
            // An operation under way is what it waits for.
            if let Some(operation) = &mut self.compression
                && operation.cause == Cause::Ahead
            {
                operation.cause = Cause::Need;
            }
        } else if full {
            acts.push(Act::Note { name: "context_over_limit", detail: format!("turn {}", turn.id) });
        }
    }

    /// The provider itself says that the request is too long. True if there is something to be done about it.
    pub(super) fn shorten(&mut self, now: Time, rules: &Rules, acts: &mut Vec<Act>) -> bool {
        let Some(hard) = rules.hard_tokens else { return false };
        let Phase::Turn(turn) = &mut self.phase else { return false };
        if turn.promotions >= PROMOTIONS_MAX {
            return false;
        }
        turn.held = true;
        turn.refused = true;
        self.upkeep.context = self.upkeep.context.max(hard);
        if matches!(self.compression, Some(Operation { stage: Stage::Ready(_), .. })) {
            self.promote(now, acts);
            self.release_held(now, acts);
        }
        true
    }

    /// The shell has looked at the rows.
    pub(super) fn surveyed(&mut self, asked: &SurveyOrder, found: Finding, now: Time, acts: &mut Vec<Act>) {
        if self.survey().as_ref() != Some(asked) {
            return; // of a moment ago: what is implied now is looked at again
        }
        let place = self.waiting.iter().position(|input| Some(input.seq) == asked.order);
        let order = place.and_then(|place| self.waiting.remove(place));
        if let (Some(order), true) = (&order, asked.preview) {
            let said = preview_text(&found);
            return self.settle(order, Outcome::Done { said, successor: None }, acts);
        }
        self.upkeep.wanted = false;
        self.upkeep.operations += 1;
        let extent = match found {
            Finding::Worth(extent) => extent,
            Finding::Nothing => return self.nothing_found(order, None, acts),
            Finding::Unknown(why) => return self.nothing_found(order, Some(why), acts),
        };
        let cause = match (self.is_held(), &order) {
            (true, _) => Cause::Need,
            (false, Some(_)) => Cause::Order,
            (false, None) => Cause::Ahead,
        };
        // Too many attempts within the hour, or an engine that has nothing to offer: what is needed is done without it.
        let spared = cause == Cause::Need && (extent.engine_is_idle || !self.upkeep.has_attempts_left(now));
        if !spared {
            self.upkeep.attempted(now);
        }
        let operation = Operation {
            number: self.upkeep.operations,
            cause,
            focus: asked.focus.clone(),
            base: self.view,
            cut: extent.cut,
            stage: Stage::Preparing,
            attempts: if spared { ATTEMPTS_MAX + 1 } else { 1 },
            began: now,
            messages: extent.messages,
            tokens: extent.tokens,
            orders: order.into_iter().collect(),
        };
        acts.push(Act::Compress(Box::new(operation.clone())));
        self.compression = Some(operation);
        self.attach(acts);
    }

    fn nothing_found(&mut self, order: Option<Arc<Input>>, why: Option<String>, acts: &mut Vec<Act>) {
        let number = self.upkeep.operations;
        let (end, said) = match &why {
            None => (End::Skipped, NOTHING.to_owned()),
            Some(why) => (End::Failed, failed_text(why)),
        };
        let reason = why.unwrap_or_else(|| "there is nothing to compress".to_owned());
        acts.push(Act::Abandon { number, end, reason });
        self.upkeep.not_worth_it();
        if let Some(order) = order {
            self.settle(&order, Outcome::Done { said, successor: None }, acts);
        }
        self.resign();
    }

    /// It is not made shorter. The provider has the last word.
    fn ask_anyway(&mut self) {
        if let Phase::Turn(turn @ Turn { held: true, .. }) = &mut self.phase {
            turn.held = false;
        }
    }

    /// There is no way to make it shorter, even if the provider refuses it.
    fn resign(&mut self) {
        if let Phase::Turn(turn @ Turn { held: true, .. }) = &mut self.phase {
            turn.promotions = PROMOTIONS_MAX;
        }
        self.ask_anyway();
    }

    /// A user who orders what is under way anyway hears of it when it is done.
    pub(super) fn attach(&mut self, acts: &mut Vec<Act>) {
        let Some(operation) = &mut self.compression else { return };
        if operation.stage == Stage::Promoted {
            return;
        }
        let focus = operation.focus.clone();
        let wants_the_same = |input: &Arc<Input>| {
            let input::Kind::Command(Command::Compress { focus: other, keep, preview }) = &input.kind else {
                return false;
            };
            *other == focus && keep.is_none() && !preview
        };
        let reach = self.waiting.iter().take_while(|input| !ends(input)).count();
        let beyond = self.waiting.split_off(reach);
        let (same, others): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(wants_the_same);
        self.waiting.extend(others);
        self.waiting.extend(beyond);
        if !same.is_empty() {
            operation.orders.extend(same);
            acts.push(Act::Compress(Box::new(operation.clone())));
        }
    }

    pub(super) fn summarised(
        &mut self,
        number: u64,
        summary: Result<Arc<Replacement>, NoSummary>,
        digest: Option<Arc<Replacement>>,
        now: Time,
        acts: &mut Vec<Act>,
    ) {
        let held = self.is_held();
        let refused = matches!(self.phase, Phase::Turn(Turn { refused: true, .. }));
        let context = self.upkeep.context;
        let Some(operation) = self.compression.as_mut().filter(|it| it.number == number && it.is_preparing())
        else {
            return acts.push(Act::Note { name: "late_result_dropped", detail: format!("summary {number}") });
        };
        // A break in the prompt has to pay, also at our own limit: what frees next to nothing would be done again with
        // every message. After an order, or a refusal by the provider, any gain is taken.
        let against = if refused || !operation.orders.is_empty() { 0 } else { context };
        let why = match summary {
            Ok(replacement) if replacement.is_worth_it(against) => {
                operation.stage = Stage::Ready(replacement);
                acts.push(Act::Compress(Box::new(operation.clone())));
                return self.promote_if_due(now, acts);
            }
            Ok(_) => NoSummary {
                end: End::Skipped,
                reason: "the summary is hardly shorter than what it stands for".into(),
            },
            Err(why) => why,
        };
        match why.end {
            End::Skipped => self.upkeep.not_worth_it(),
            End::Failed | End::Stale => self.upkeep.failed(now),
        }
        match digest.filter(|digest| held && digest.is_worth_it(against)) {
            Some(digest) => {
                let Some(operation) = &mut self.compression else { return };
                operation.stage = Stage::Ready(digest);
                acts.push(Act::Compress(Box::new(operation.clone())));
                acts.push(Act::Note { name: "compression_degraded", detail: why.reason });
                self.promote(now, acts);
                self.release_held(now, acts);
            }
            None => {
                self.abandon(why.end, why.reason, acts);
                match (held, refused) {
                    (true, true) => self.resign(),
                    (true, false) => {
                        self.upkeep.not_worth_it(); // or the turn would be held again at once
                        self.ask_anyway();
                    }
                    (false, _) => {}
                }
            }
        }
    }

    /// A turn that waits for it gets it now.
    fn promote_if_due(&mut self, now: Time, acts: &mut Vec<Act>) {
        if self.is_held() {
            self.promote(now, acts);
            self.release_held(now, acts);
        }
    }

    /// What a user ordered takes effect as soon as nothing runs, and so does what an order has to follow.
    pub(super) fn promote_ordered(&mut self, now: Time, acts: &mut Vec<Act>) {
        let ordered = self.compression.as_ref().is_some_and(|operation| !operation.orders.is_empty());
        let followed = self.next_order().is_some_and(|order| !is_preview(order));
        if (ordered || followed) && self.phase == Phase::Idle {
            self.promote(now, acts);
        }
    }

    /// It may ask now, unless [`Self::approach`] finds it still too long. A turn that waited with its
    /// first request begins as if it had only now: with all that has come in meanwhile.
    fn release_held(&mut self, now: Time, acts: &mut Vec<Act>) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        turn.held = false;
        if turn.steps() == 1 {
            self.join_waiting(now, acts);
        }
    }

    /// A summary that is ready takes the place of what it stands for, if the view is still the one
    /// that it was made for.
    pub(super) fn promote(&mut self, now: Time, acts: &mut Vec<Act>) {
        let Some(operation) = &self.compression else { return };
        let Stage::Ready(replacement) = &operation.stage else { return };
        if operation.base != self.view {
            return self.abandon(End::Stale, "the view has changed".into(), acts);
        }
        let replacement = replacement.clone();
        let operation = operation.clone();
        self.view = self.view.next();
        self.upkeep.context = self.upkeep.context.saturating_sub(replacement.freed());
        self.upkeep.wanted = false;
        self.upkeep.unworthy = 0;
        if replacement.kind == Kind::Summary {
            self.upkeep.succeeded();
        }
        let snapshot = self.upkeep.name_snapshot(&self.id, now);
        if let Phase::Turn(turn) = &mut self.phase {
            turn.promotions += 1;
        }
        self.compression =
            (!operation.orders.is_empty()).then(|| Operation { stage: Stage::Promoted, ..operation.clone() });
        acts.push(Act::Promote { operation: Box::new(operation), replacement, snapshot });
    }

    /// The operation ends, and the view stays as it is.
    pub(super) fn abandon(&mut self, end: End, reason: String, acts: &mut Vec<Act>) {
        let Some(operation) = self.compression.take() else { return };
        let said = match end {
            End::Skipped => format!("Nothing was compressed: {reason}. The conversation is as it was."),
            End::Failed => failed_text(&reason),
            End::Stale => {
                format!("Nothing was compressed: {reason} meanwhile. The conversation is as it is.")
            }
        };
        acts.push(Act::Abandon { number: operation.number, end, reason });
        for order in &operation.orders {
            self.settle(order, Outcome::Done { said: said.clone(), successor: None }, acts);
        }
    }

    /// Rows from this one on are not what they were: undone, tried again, or changed by another hand.
    pub(super) fn rewritten(&mut self, from: RowId, acts: &mut Vec<Act>) {
        let touched = self
            .compression
            .as_ref()
            .is_some_and(|operation| from <= operation.cut && operation.stage != Stage::Promoted);
        if touched {
            self.abandon(End::Stale, "the conversation was changed".into(), acts);
        }
    }

    /// A snapshot becomes the view again: what it was, and all that was said since.
    pub(super) fn restore(&mut self, snapshot: String, context: u64, now: Time, acts: &mut Vec<Act>) {
        if self.phase != Phase::Idle {
            return; // the caller looks before it asks, and tells the user
        }
        self.close_client_calls(&[], now, acts);
        self.rewritten(RowId(0), acts);
        self.generation = self.generation.next();
        self.view = self.view.next();
        self.failed = None;
        let kept_as = self.upkeep.name_snapshot(&self.id, now);
        self.upkeep.unworthy = 0;
        self.upkeep.context = context;
        acts.push(Act::Restore { snapshot, kept_as });
    }

    /// Those who ordered it hear what the store has counted.
    pub(super) fn reported(&mut self, number: u64, promoted: &Promoted, acts: &mut Vec<Act>) {
        let Some(operation) =
            self.compression.take_if(|it| it.number == number && it.stage == Stage::Promoted)
        else {
            return;
        };
        for order in &operation.orders {
            self.settle(order, Outcome::Done { said: done_text(promoted), successor: None }, acts);
        }
    }

    /// How full it is and what is done about it, for `/status`. Empty before anything was counted.
    pub(super) fn context_in_words(&self) -> String {
        let doing = match (&self.compression, self.is_held()) {
            (Some(Operation { stage: Stage::Preparing, .. }), true) => "; the turn waits for a summary",
            (Some(Operation { stage: Stage::Preparing, .. }), false) => "; a summary is being written",
            (Some(Operation { stage: Stage::Ready(_), .. }), _) => "; a summary is ready",
            (Some(Operation { stage: Stage::Promoted, .. }), _) | (None, _) => "",
        };
        match self.upkeep.context {
            0 => String::new(),
            tokens => format!("\nabout {} tokens in context{doing}", thousands(tokens)),
        }
    }

    /// After a start: it goes on where it was, under the new owner.
    pub(super) fn take_up_compression(&mut self, acts: &mut Vec<Act>) {
        if let Some(operation) = self.compression.as_mut().filter(|operation| operation.is_preparing()) {
            operation.attempts += 1;
            acts.push(Act::Compress(Box::new(operation.clone())));
        }
    }

    /// Compression is off from now on: what was begun without an order ends.
    pub(super) fn switch_off(&mut self, acts: &mut Vec<Act>) {
        self.upkeep.wanted = false;
        let unordered = |it: &Operation| it.orders.is_empty() && it.stage != Stage::Promoted;
        if self.compression.as_ref().is_some_and(unordered) {
            self.abandon(End::Stale, "compression is switched off".into(), acts);
        }
        self.ask_anyway();
    }

    /// The conversation ends: an order that it did not come to has nothing left to do.
    pub(super) fn forget_orders(&mut self, ended_by: Seq, acts: &mut Vec<Act>) {
        if let Some(done) = self.compression.take_if(|operation| operation.stage == Stage::Promoted) {
            for order in &done.orders {
                let said = "Compressed; the conversation has ended since.".to_owned();
                self.settle(order, Outcome::Done { said, successor: None }, acts);
            }
        }
        self.abandon(End::Stale, "the conversation has ended".into(), acts);
        let (orders, rest): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|input| is_order(input) && input.seq < ended_by);
        self.waiting = rest.into();
        for order in orders {
            let said = "Nothing was compressed: the conversation ended first.".to_owned();
            self.settle(&order, Outcome::Done { said, successor: None }, acts);
        }
    }
}

/// What the shell has found in the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    Worth(Extent),
    Nothing,
    /// The engine did not say, and why.
    Unknown(String),
}

impl From<Option<Extent>> for Finding {
    fn from(extent: Option<Extent>) -> Self {
        extent.map_or(Self::Nothing, Self::Worth)
    }
}

/// Why there is no summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSummary {
    pub end: End,
    /// In words, free of secrets.
    pub reason: String,
}

const NOTHING: &str = "There is nothing to compress yet: the conversation is no longer than what is always kept. Nothing was changed.";

fn failed_text(reason: &str) -> String {
    format!("The compression failed. {reason} The conversation is as it was; try again later.")
}

fn is_preview(input: &Input) -> bool {
    matches!(&input.kind, input::Kind::Command(Command::Compress { preview: true, .. }))
}

pub(super) fn is_order(input: &Input) -> bool {
    matches!(&input.kind, input::Kind::Command(Command::Compress { .. }))
}

/// Ends the conversation: what comes after it belongs to the next.
pub(super) fn ends(input: &Input) -> bool {
    matches!(&input.kind, input::Kind::Command(command) if command.ends())
}

fn preview_text(found: &Finding) -> String {
    let Extent { messages, tokens, plan, .. } = match found {
        Finding::Worth(extent) => extent,
        Finding::Nothing => return NOTHING.into(),
        Finding::Unknown(why) => return format!("{why} Nothing was changed."),
    };
    let tokens = thousands(*tokens);
    match plan {
        Some(plan) => format!(
            "A summary would stand for {} of {messages} messages (about {tokens} tokens in all); the first {} and the last {} would stay. Nothing was changed.",
            plan.replaced, plan.keep_first, plan.keep_last
        ),
        None => format!(
            "{messages} messages, about {tokens} tokens, would be handed to the context engine; it does not say in advance what stays. Nothing was changed."
        ),
    }
}

fn done_text(promoted: &Promoted) -> String {
    let Promoted { snapshot, messages_before, messages_after, tokens_before, tokens_after, kind, remark } =
        promoted;
    let what = match kind {
        Kind::Digest => "Compressed without a model",
        Kind::Summary | Kind::Restored | Kind::Undone | Kind::Mended => "Compressed",
    };
    let (before, after) = (thousands(*tokens_before), thousands(*tokens_after));
    let mut text = format!(
        "{what}: {messages_before} messages are {messages_after} now, about {before} tokens are {after}. What was there before is kept as {snapshot}."
    );
    if let Some(remark) = remark {
        text.push(' ');
        text.push_str(remark);
    }
    text
}

/// `146000` as `146,000`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
pub(super) mod tests;
