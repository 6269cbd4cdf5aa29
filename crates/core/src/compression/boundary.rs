//! Where a past is cut: what stays at its beginning, what stays at its end, and what a summary stands for.
//!
//! - a tool group (an answer with calls, and their results) is never cut in two
//! - what stays at the end begins no later than the last message of the user and the last reply, unless
//!   they lie so far back that keeping everything since would leave nothing to gain; then they are quoted
//!   in the summary
//! - once there is a summary, the beginning has no privilege any more: else it would stay for ever
//!
//! Each message is weighed once; everything else is sums.

use super::summary::{is_request, is_summary};
use super::{Plan, estimate};
use crate::message::{Body, Message};

/// How much context there is, and how it is shared out. Built from the configuration of a home.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What the model can read and write in all, in tokens.
    pub window: u64,
    /// How much of it is kept free for an answer. 0: the provider decides.
    pub output_reserve: u64,
    /// At which part of the window compression is wanted.
    pub threshold: f64,
    /// Which part of the threshold stays at the end as it is.
    pub target_ratio: f64,
    /// So many messages at the beginning stay, and at least so many at the end (eight are enough).
    pub protect_first: usize,
    pub protect_last: usize,
    /// A threshold is not lower than this where the window allows for it.
    pub floor: u64,
}

/// The usual floor. A window below it works like any other.
pub const FLOOR: u64 = 64_000;
/// In windows below this a threshold of half the window would be reached again at once.
const SMALL_WINDOW: u64 = 512_000;
const SMALL_WINDOW_THRESHOLD: f64 = 0.75;
/// Where a floor does not fit into the window.
const FULL: f64 = 0.85;
/// Soft is at most this part of hard: there has to be room to run ahead.
const AHEAD: f64 = 0.75;
const TARGET_RATIO: (f64, f64) = (0.10, 0.80);
/// So many messages at the end are enough, however large `protect_last` is: more of them, with the output of
/// tools in them, could leave nothing to compress.
const TAIL_MESSAGES_MAX: usize = 8;
const TAIL_MESSAGES_MIN: usize = 3;
/// What is replaced has to weigh more than an empty summary does.
const REPLACED_MIN: u64 = 150;

impl Settings {
    /// The usual shares of a window.
    pub fn of_window(window: u64) -> Self {
        Self {
            window,
            output_reserve: 0,
            threshold: 0.50,
            target_ratio: 0.20,
            protect_first: 3,
            protect_last: 20,
            floor: FLOOR,
        }
    }

    pub fn thresholds(&self) -> Thresholds {
        let hard = part(self.window, FULL).min(self.input());
        let soft = self.wanted().min(part(hard, AHEAD)).max(1);
        Thresholds { soft, hard }
    }

    /// What a request may weigh. A reserve that leaves nothing is taken for a mistake.
    fn input(&self) -> u64 {
        match self.window.checked_sub(self.output_reserve) {
            Some(0) | None => self.window,
            Some(input) => input,
        }
    }

    fn wanted(&self) -> u64 {
        let threshold = match self.window < SMALL_WINDOW {
            true => self.threshold.max(SMALL_WINDOW_THRESHOLD),
            false => self.threshold,
        };
        let wanted = part(self.input(), threshold).max(self.floor);
        match wanted < self.input() {
            true => wanted,
            false => part(self.input(), FULL),
        }
    }

    /// What should stay at the end, in tokens.
    pub fn tail_tokens(&self) -> u64 {
        let (least, most) = TARGET_RATIO;
        part(self.thresholds().soft, self.target_ratio.clamp(least, most))
    }

    /// What may stay at the end where there is a reason for more.
    fn tail_tokens_max(&self) -> u64 {
        (self.thresholds().soft / 2).max(self.tail_tokens() * 3 / 2)
    }
}

fn part(tokens: u64, share: f64) -> u64 {
    (tokens as f64 * share) as u64
}

/// From where on compression is wanted, and from where on nothing else will do. In tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    pub soft: u64,
    pub hard: u64,
}

/// The messages `from..to` are replaced; the others stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    pub from: usize,
    pub to: usize,
}

impl Boundary {
    pub fn plan(self, messages: usize) -> Plan {
        Plan { keep_first: self.from, replaced: self.to - self.from, keep_last: messages - self.to }
    }
}

/// What the end of the past is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// As much as the settings say.
    Settings,
    /// So many messages, of any weight.
    Messages(usize),
    /// As little as there can be.
    Least,
}

/// Where to cut, or None if there is nothing that a summary would be better than.
pub fn boundary(messages: &[Message], settings: &Settings, tail: Tail) -> Option<Boundary> {
    let past = Weighed::of(messages);
    let from = past.head(settings);
    let to = match tail {
        Tail::Settings => past.tail(from, settings),
        Tail::Messages(count) => past.cut_at_or_before(messages.len().saturating_sub(count)),
        Tail::Least => past.cut_at_or_before(messages.len().saturating_sub(1)),
    };
    past.is_worthwhile(from, to).then_some(Boundary { from, to })
}

/// A past, and what follows from one look at each of its messages.
struct Weighed<'a> {
    messages: &'a [Message],
    /// What all messages before this one weigh.
    before: Vec<u64>,
    /// Whether a cut right before this message leaves every group whole. One longer than the messages.
    cuts: Vec<bool>,
    /// Where the last summary stands.
    summary: Option<usize>,
}

impl<'a> Weighed<'a> {
    fn of(messages: &'a [Message]) -> Self {
        let mut before = Vec::with_capacity(messages.len() + 1);
        before.push(0);
        for message in messages {
            before.push(before[before.len() - 1] + weight(message));
        }
        Self { messages, before, cuts: cuts(messages), summary: messages.iter().rposition(is_summary) }
    }

    fn tokens(&self, from: usize, to: usize) -> u64 {
        self.before[to] - self.before[from]
    }

    fn cut_at_or_before(&self, place: usize) -> usize {
        (0..=place).rev().find(|at| self.cuts[*at]).unwrap_or(0)
    }

    fn cut_at_or_after(&self, place: usize) -> usize {
        (place..self.messages.len()).find(|at| self.cuts[*at]).unwrap_or(self.messages.len())
    }

    /// How many messages stay at the beginning. A system message there always does.
    fn head(&self, settings: &Settings) -> usize {
        let system =
            usize::from(matches!(self.messages.first(), Some(Message { body: Body::System(_), .. })));
        let wanted = match self.summary {
            Some(_) => system,
            None => (system + settings.protect_first).min(self.messages.len()),
        };
        let mut head = self.cut_at_or_after(wanted);
        // A beginning heavier than the end would stay for the rest of its life.
        while head > system && self.tokens(system, head) > settings.tail_tokens() {
            head = self.cut_at_or_before(head - 1).max(system);
        }
        head
    }

    /// Where the end begins.
    fn tail(&self, head: usize, settings: &Settings) -> usize {
        let count = self.messages.len();
        let budget = settings.tail_tokens();
        let least = least_messages(count, head, settings);
        let mut start = self.walk_back(head, budget * 3 / 2, least);
        if start <= head {
            start = self.walk_back(head, budget, least); // the whole past fits: cut it nevertheless
        }
        if start <= head {
            start = (count - least).max(head + 1).min(count);
        }
        let last_group = self.cut_at_or_before(count.saturating_sub(1));
        let mut start = self.cut_at_or_before(start).min(last_group.max(head));
        while self.tokens(start, count) > settings.tail_tokens_max() {
            match self.cut_at_or_after(start + 1) {
                later if later < count => start = later,
                _ => break, // the last group stays, at any weight
            }
        }
        for anchor in [self.last_request(), self.last_reply()].into_iter().flatten() {
            let place = self.cut_at_or_before(anchor);
            let affordable = self.tokens(place, count) <= settings.tail_tokens_max();
            if place > head && place < start && affordable {
                start = place;
            }
        }
        match start <= head {
            true => self.cut_at_or_after(head + 1),
            false => start,
        }
    }

    fn walk_back(&self, head: usize, tokens: u64, least: usize) -> usize {
        let count = self.messages.len();
        let fits = |start: &usize| self.tokens(*start, count) <= tokens || count - start <= least;
        (head..count).rev().take_while(fits).last().unwrap_or(count)
    }

    fn last_request(&self) -> Option<usize> {
        self.messages.iter().rposition(is_request)
    }

    fn last_reply(&self) -> Option<usize> {
        self.messages.iter().rposition(is_reply)
    }

    /// There is something to say about what would be replaced, and a summary in it if there is one at
    /// all: to condense the two messages before a summary is no gain.
    fn is_worthwhile(&self, from: usize, to: usize) -> bool {
        if from >= to || self.summary.is_some_and(|place| place >= to) {
            return false;
        }
        let known = match self.summary {
            Some(place) if place >= from => self.tokens(place, place + 1),
            _ => 0,
        };
        self.tokens(from, to) - known >= REPLACED_MIN
    }
}

/// So many messages at the end stay if they can, leaving two in the middle where there are few.
fn least_messages(count: usize, head: usize, settings: &Settings) -> usize {
    let available = count.saturating_sub(head + 1);
    let wanted = settings.protect_last.clamp(TAIL_MESSAGES_MIN, TAIL_MESSAGES_MAX);
    match available {
        0 | 1 => 0,
        _ => wanted.min(available.saturating_sub(2).max(TAIL_MESSAGES_MIN)).min(available),
    }
}

/// What a model never sees weighs nothing.
fn weight(message: &Message) -> u64 {
    match message.body {
        Body::Other { .. } => 0,
        _ => estimate(message),
    }
}

/// An answer in words, summaries not among them.
pub fn is_reply(message: &Message) -> bool {
    matches!(&message.body, Body::Assistant(assistant) if !assistant.content.is_empty())
        && !is_summary(message)
}

/// A cut is legal where what follows does not begin with results. Rows that no model sees are looked past.
fn cuts(messages: &[Message]) -> Vec<bool> {
    let mut cuts = vec![true; messages.len() + 1];
    for (at, message) in messages.iter().enumerate().rev() {
        cuts[at] = match message.body {
            Body::Result(_) => at == 0,
            Body::Other { .. } => cuts[at + 1] || at == 0,
            _ => true,
        };
    }
    cuts
}
