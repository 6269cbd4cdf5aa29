//! The built-in engine: cuts, prunes, asks a summariser, and checks what it wrote.
//!
//! - a past that fits the summariser's window costs exactly one call; a longer one is read in pieces, and
//!   each piece brings the summary up to date
//! - the window counts as what it is: a request may take all of it but the room that the answer needs
//! - a summariser that fails is not asked again: the next one gets the request; after the last one there is
//!   no summary, and the past stays as it was
//!
//! It keeps nothing between two calls: an earlier summary is found in the messages themselves.

use super::boundary::{Boundary, Settings, Tail, boundary};
use super::deeds::Pairs;
use super::prune::shown;
use super::quotes::Quotes;
use super::request::{self, Brief};
use super::summary::{self, Earlier, Record, is_summary};
use super::text::within_tokens;
use super::{Plan, digest, estimate, quotes, text_tokens};
use crate::memory::Scope;
use crate::message::Message;
use crate::port::{
    Condensed, ContextUsage, Engine, EngineError, ModelError, Past, Promise, Summariser, Takes, Wishes,
    Written,
};
use crate::redact::redacted;
use std::sync::Arc;

/// Below this a piece is not worth a call of its own.
const PIECE_MIN: u64 = 256;
/// So many calls for one summary. Beyond, the summariser is too small for this past.
const CALLS_MAX: usize = 6;
/// The lines around a memory context, in tokens.
const MEMORY_FRAME: u64 = 40;
/// The room that an answer needs is at most this part of a summariser's window.
const ANSWER_PART: u64 = 4;
/// What the record of deeds may add to a summary, in tokens.
const RECORD_TOKENS: (u64, u64) = (300, 2_000);
/// What a digest may weigh, in tokens.
const DIGEST_TOKENS: (u64, u64) = (400, 12_000);

pub struct Builtin {
    settings: Settings,
    /// The first is asked; the others stand in for it, in order.
    summarisers: Vec<Arc<dyn Summariser>>,
}

impl Builtin {
    pub fn new(settings: Settings, summarisers: Vec<Arc<dyn Summariser>>) -> Self {
        Self { settings, summarisers }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn boundary(&self, past: &Past, wishes: &Wishes) -> Option<Boundary> {
        let tail = wishes.keep_last.map_or(Tail::Settings, Tail::Messages);
        boundary(&past.messages, &self.settings, tail)
    }
}

/// Whether a context has reached the size from which it is worth compressing ahead of time.
pub fn is_full(settings: &Settings, usage: &ContextUsage) -> bool {
    let expected = match usage.expected {
        0 => usage.prompt + usage.completion,
        expected => expected,
    };
    expected >= settings.thresholds().soft
}

impl Engine for Builtin {
    fn name(&self) -> &str {
        "compressor"
    }

    fn should_compress<'a>(&'a self, _: &'a Scope, usage: &'a ContextUsage) -> Promise<'a, bool> {
        let is_full = is_full(&self.settings, usage);
        Box::pin(async move { is_full })
    }

    fn compress<'a>(
        &'a self,
        past: &'a Past,
        wishes: &'a Wishes,
    ) -> Promise<'a, Result<Condensed, EngineError>> {
        Box::pin(async move {
            let boundary = self.boundary(past, wishes).ok_or(EngineError::Nothing)?;
            let work = Work::new(&past.messages, boundary, wishes, &self.settings);
            if work.turns.is_empty() {
                return Err(EngineError::Nothing);
            }
            let mut chain = SummariserChain { summarisers: &self.summarisers, at: 0, troubles: Vec::new() };
            let body = chain.summarise(&work).await?;
            Ok(chain.condensed(&work, past, &body))
        })
    }

    fn takes(&self) -> Takes {
        Takes { focus: true, force: true, memory_context: true, keep_last: true }
    }

    fn has_content_to_compress<'a>(&'a self, past: &'a Past, wishes: &'a Wishes) -> Promise<'a, bool> {
        Box::pin(async move { self.boundary(past, wishes).is_some() })
    }

    fn plan<'a>(&'a self, past: &'a Past, wishes: &'a Wishes) -> Promise<'a, Option<Plan>> {
        Box::pin(async move { Some(self.boundary(past, wishes)?.plan(past.messages.len())) })
    }

    fn status(&self) -> Option<String> {
        let names: Vec<_> = self.summarisers.iter().map(|summariser| summariser.name()).collect();
        let limits = self.settings.thresholds();
        Some(format!("compresses at {} tokens, summaries by {}", limits.soft, names.join(", then ")))
    }
}

/// What stands for a past when there is no summary of it: put together without a model, with the same
/// boundaries, or narrower ones if those leave nothing to replace. Where nothing can be replaced at all,
/// there are no messages in it and everything is kept.
pub fn digest(past: &Past, settings: &Settings) -> Condensed {
    let messages = &past.messages;
    let found = boundary(messages, settings, Tail::Settings)
        .or_else(|| boundary(messages, &Settings { protect_first: 0, ..settings.clone() }, Tail::Least));
    let Some(boundary) = found else {
        let keep_first = messages.len();
        return Condensed {
            keep_first,
            messages: Vec::new(),
            keep_last: 0,
            model: String::new(),
            remark: None,
        };
    };
    let (least, most) = DIGEST_TOKENS;
    let tokens_max = (settings.thresholds().soft / 4).clamp(least, most);
    let frame = text_tokens(&summary::text(""));
    let body = digest::body(messages, boundary, tokens_max.saturating_sub(frame));
    let remark = "No summary could be had, so a digest without a model stands in for the older messages; \
                  they can be restored from the snapshot.";
    condensed(messages, boundary, &body, String::new(), Some(remark.to_owned()))
}

fn condensed(
    messages: &[Message],
    boundary: Boundary,
    body: &str,
    model: String,
    remark: Option<String>,
) -> Condensed {
    let before = boundary.from.checked_sub(1).and_then(|place| messages.get(place));
    let after = messages.get(boundary.to);
    let at = messages[boundary.to - 1].at;
    Condensed {
        keep_first: boundary.from,
        messages: vec![summary::message(body, at, before, after)],
        keep_last: messages.len() - boundary.to,
        model,
        remark,
    }
}

/// One turn as a summariser is shown it.
struct Turn {
    text: String,
    tokens: u64,
}

impl Turn {
    fn of(text: String) -> Self {
        Self { tokens: text_tokens(&text) + 1, text }
    }

    fn cut_to(&self, tokens: u64) -> Self {
        Self::of(within_tokens(&self.text, tokens - 1).into_owned())
    }
}

/// All that is known before a model is asked.
struct Work<'a> {
    boundary: Boundary,
    turns: Vec<Turn>,
    earlier: Option<String>,
    record: Record,
    focus: Option<String>,
    memory: String,
    budget: u64,
    /// What quotes may weigh beside it.
    quotes_max: u64,
    settings: &'a Settings,
    until: crate::time::Time,
}

impl<'a> Work<'a> {
    fn new(messages: &[Message], boundary: Boundary, wishes: &Wishes, settings: &'a Settings) -> Self {
        let replaced = &messages[boundary.from..boundary.to];
        let pairs = Pairs::of(replaced);
        let recent = messages.len().saturating_sub(settings.protect_last).saturating_sub(boundary.from);
        let texts = shown(replaced, &pairs, recent);
        let turns: Vec<Turn> = texts.into_iter().map(Turn::of).collect();
        let earlier = replaced.iter().rfind(|message| is_summary(message)).and_then(Earlier::of);
        let earlier = earlier.map(|earlier| redacted(&earlier.body)).filter(|body| !body.is_empty());
        let content = sum(&turns) + earlier.as_deref().map_or(0, text_tokens);
        Self {
            boundary,
            record: Record::of(messages, boundary, &pairs, earlier.as_deref()),
            turns,
            earlier,
            focus: request::focus(wishes.focus.as_deref()),
            memory: request::memory(&wishes.memory_context),
            budget: request::budget(content, settings),
            quotes_max: quotes::budget(replaced.iter().map(estimate).sum(), settings),
            settings,
            until: replaced.last().map(|message| message.at).unwrap_or_default(),
        }
    }

    /// What can be quoted of what is replaced.
    fn quotes<'b>(&'b self, messages: &'b [Message]) -> Quotes<'b> {
        let quotes = Quotes::of(&messages[self.boundary.from..self.boundary.to], self.earlier.as_deref());
        match self.record.request.is_some() {
            true => quotes.without_last_request(),
            false => quotes,
        }
    }

    fn brief<'b>(&'b self, previous: Option<&'b str>, memory: &'b str) -> Brief<'b> {
        let focus = self.focus.as_deref();
        Brief { previous, focus, memory, budget: self.budget, until: self.until }
    }

    /// The request for as many of these turns as a window holds, and how many they are.
    ///
    /// The arithmetic: request + answer ≤ window. The answer's room is the budget of the summary, at most a
    /// quarter of the window; nothing else is taken off.
    fn piece(&self, window: u64, previous: Option<&str>, turns: &[Turn]) -> Result<Piece, String> {
        let room = window - self.budget.min(window / ANSWER_PART);
        let whole = self.brief(previous, &self.memory);
        if text_tokens(&whole.text([])) + sum(turns) <= room {
            return Ok(Piece::of(&whole, turns));
        }
        let part = self.brief(previous, "");
        let frame = text_tokens(&part.text([]));
        let room = room.checked_sub(frame).filter(|room| *room >= PIECE_MIN).ok_or_else(|| {
            format!("has a window of {window} tokens, and the request without a single turn takes {frame}")
        })?;
        if sum(turns) / room >= CALLS_MAX as u64 {
            let all = sum(turns);
            return Err(format!("has a window of {window} tokens, too small for a past of {all}"));
        }
        let mut used = 0;
        let fits = |turn: &&Turn| {
            used += turn.tokens;
            used <= room
        };
        match turns.iter().take_while(fits).count() {
            0 => Ok(Piece::of(&part, &[turns[0].cut_to(room)])),
            // Everything fits, only the memory context does not fit beside it: as much of it as there is room for.
            all if all == turns.len() => {
                let left = (room - sum(turns)).saturating_sub(MEMORY_FRAME);
                let memory = within_tokens(&self.memory, left);
                Ok(Piece::of(&self.brief(previous, &memory), turns))
            }
            some => Ok(Piece::of(&part, &turns[..some])),
        }
    }
}

fn sum(turns: &[Turn]) -> u64 {
    turns.iter().map(|turn| turn.tokens).sum()
}

struct Piece {
    request: String,
    taken: usize,
    /// What the answer stands for, in tokens.
    content: u64,
}

impl Piece {
    fn of(brief: &Brief<'_>, turns: &[Turn]) -> Self {
        let request = brief.text(turns.iter().map(|turn| turn.text.as_str()));
        Self { request, taken: turns.len(), content: sum(turns) }
    }
}

/// Who is asked next, and what went wrong so far.
struct SummariserChain<'a> {
    summarisers: &'a [Arc<dyn Summariser>],
    at: usize,
    troubles: Vec<String>,
}

impl SummariserChain<'_> {
    fn summarise<'d>(&'d mut self, work: &'d Work<'_>) -> Promise<'d, Result<String, EngineError>> {
        Box::pin(async move {
            let mut body = work.earlier.clone();
            let mut turns = work.turns.as_slice();
            for _ in 0..CALLS_MAX + self.summarisers.len() {
                let Some(summariser) = self.summarisers.get(self.at) else { break };
                match self.ask(summariser.as_ref(), work, body.as_deref(), turns).await {
                    Ok((text, taken)) => {
                        turns = &turns[taken..];
                        body = Some(text);
                    }
                    Err(trouble) => {
                        self.troubles.push(format!("{} {trouble}", summariser.name()));
                        self.at += 1;
                    }
                }
                if turns.is_empty() {
                    return Ok(body.unwrap_or_default());
                }
            }
            Err(EngineError::Failed(self.failure()))
        })
    }

    fn ask<'d>(
        &'d self,
        summariser: &'d dyn Summariser,
        work: &'d Work<'_>,
        previous: Option<&'d str>,
        turns: &'d [Turn],
    ) -> Promise<'d, Result<(String, usize), String>> {
        Box::pin(async move {
            let piece = work.piece(summariser.window(), previous, turns)?;
            let written = summariser.ask(&piece.request).await;
            Ok((checked(written, &piece)?, piece.taken))
        })
    }

    fn failure(&self) -> String {
        match self.troubles.is_empty() {
            true => {
                "No summary was written: there is no model to write one. Set auxiliary.compression or the \
                     main model."
                    .to_owned()
            }
            false => format!("No summary was written: {}.", self.troubles.join("; ")),
        }
    }

    fn condensed(&self, work: &Work<'_>, past: &Past, body: &str) -> Condensed {
        let (least, most) = RECORD_TOKENS;
        let most = (work.settings.window / 16).clamp(least, most);
        // What the author copied of an earlier record gives way to ours, which continues it.
        let mut body = summary::without_sections(body, &[summary::RECORD_HEADING, quotes::HEADING]);
        let record = work.record.section(&body, most);
        let known = format!("{body}\n{}", record.as_deref().unwrap_or_default());
        let quotes = work.quotes(&past.messages).section(&known, work.quotes_max);
        for section in [record, quotes].into_iter().flatten() {
            body.push_str(&format!("\n\n{section}"));
        }
        let model = self.summarisers[self.at].name().to_owned();
        let remark = (!self.troubles.is_empty())
            .then(|| format!("The summary was written by {model}, because {}.", self.troubles.join("; ")));
        condensed(&past.messages, work.boundary, &body, model, remark)
    }
}

/// The summary, or in words what is wrong with it.
fn checked(written: Result<Written, ModelError>, piece: &Piece) -> Result<String, String> {
    let written =
        written.map_err(|error| format!("failed ({})", redacted(error.message.trim_end_matches('.'))))?;
    if written.truncated {
        return Err("broke off before the end of its summary".to_owned());
    }
    let text = summary::tidied(&written.text);
    match request::fault(&text, piece.content, &piece.request) {
        Some(fault) => Err(fault.to_owned()),
        None => Ok(text),
    }
}
