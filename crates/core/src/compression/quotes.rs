//! What was said, beside what a summary made of it.
//!
//! A summary may leave out or misread what the user asked for and was told, and no other source is left
//! afterwards. So messages are quoted in the order in which they came, as far as there is room: the user's
//! own words before all, and of the replies what names something that would otherwise be gone.
//!
//! - word for word; what is shortened is shortened in its middle, and shows it
//! - the newest that say something definite come first, the others after them; the oldest are shortened first
//! - what an earlier summary quoted counts like the messages it was taken from
//! - no secrets, and hardly any work for what is not quoted: a long past costs a look at each message

use super::boundary::{Settings, is_reply};
use super::deeds::said;
use super::identifiers::{Found, is_definite, may_name, words};
use super::summary::{is_request, recorded_request, requested, section, without_marks};
use super::text::{both_ends, ends_within_tokens, one_line, sentences, without_media, without_thinking};
use super::text_tokens;
use crate::message::Message;
use crate::redact::redacted;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

pub const HEADING: &str = "## What Was Said";
const INTRODUCTION: &str = "Word for word, oldest first; a later line counts where two differ. What they ask \
for may long be done:";
const USER: &str = "- User: ";
const REPLY: &str = "- Assistant: ";

/// What all quotes weigh together, in tokens: at most these parts of the window and of what is replaced.
const TOKENS: (u64, u64) = (300, 2_000);
const WINDOW_PART: u64 = 20;
const REPLACED_PART: u64 = 20;
/// In hundredths: what replies may take of it in any case, if there are any. The rest goes to the user first.
const SHARE_REPLIES: u64 = 25;
/// One message, at most: a pasted file is no reason to lose the rest.
const REQUEST_TOKENS_MAX: u64 = 200;
const REPLY_TOKENS_MAX: u64 = 80;
/// Less of a message is not worth its line.
const EACH_TOKENS_MIN: u64 = 16;
/// `Go on.`, `Yes, please.`: says nothing without what it was an answer to.
const TRIVIAL_TOKENS: u64 = 5;
/// The same where it was said more than once.
const REPEATED_TOKENS: u64 = 12;
/// A message of this length says something definite, in any script.
const LONG_TOKENS: u64 = 24;
/// The dash, the speaker and a line's end, rounded up; the heading and the lines around.
const LINE: u64 = 4;
const FRAME: u64 = 50;
/// So many replies are looked through, the newest: room for their quotes is gone long before.
const REPLIES_MAX: usize = 400;
/// Enough of an enormous message that a secret in what is shown of it is found whole.
const SEARCHED: (usize, usize) = (12_000, 4_000);

/// What quotes from messages of so many tokens may weigh. In the smallest windows less than the least.
pub fn budget(replaced: u64, settings: &Settings) -> u64 {
    let (least, most) = TOKENS;
    let wanted = (settings.window / WINDOW_PART).min(replaced / REPLACED_PART);
    wanted.clamp(least, most).min(settings.window / 12).min(replaced / 4)
}

/// What could be quoted, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotes<'a>(Vec<Said<'a>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Said<'a> {
    by: Speaker,
    text: Cow<'a, str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    User,
    Assistant,
}

impl<'a> Quotes<'a> {
    /// From messages, after what an earlier summary quoted.
    pub fn of(messages: &'a [Message], earlier: Option<&'a str>) -> Self {
        let mut all = earlier.map(recorded).unwrap_or_default();
        all.extend(messages.iter().filter_map(|message| match message {
            _ if is_request(message) => Some(Said { by: Speaker::User, text: requested(message) }),
            _ if is_reply(message) => Some(Said { by: Speaker::Assistant, text: said(message) }),
            _ => None,
        }));
        Self(all)
    }

    /// The same where the last thing the user said is quoted elsewhere, as what it is.
    pub fn without_last_request(mut self) -> Self {
        if let Some(last) = self.0.iter().rposition(|said| said.by == Speaker::User) {
            self.0.remove(last);
        }
        self
    }

    /// What the user said.
    pub fn requests(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|said| said.by == Speaker::User).map(|said| &*said.text)
    }

    /// As a section: what `summary` does not say itself, within so many tokens.
    pub fn section(&self, summary: &str, tokens_max: u64) -> Option<String> {
        let tokens_max = tokens_max.saturating_sub(FRAME);
        let mut room = Room { left: tokens_max - tokens_max * SHARE_REPLIES / 100, picked: Vec::new() };
        self.pick_requests(summary, &mut room);
        room.left += tokens_max * SHARE_REPLIES / 100;
        self.pick_replies(summary, &mut room);
        let mut picked = room.picked;
        picked.sort_by_key(|pick| pick.place);
        // From the first on that it does not: without the later ones an earlier one would have the last word.
        let lines: Vec<_> = picked.iter().skip_while(|pick| pick.is_told).map(Pick::line).collect();
        (!lines.is_empty()).then(|| format!("{HEADING}\n{INTRODUCTION}\n{}", lines.join("\n")))
    }

    fn pick_requests(&self, summary: &str, room: &mut Room) {
        let summary = one_line(summary, usize::MAX);
        for place in self.ranked() {
            let text = tidied(&self.0[place].text);
            if text.is_empty() {
                continue;
            }
            let is_told = summary.contains(&text);
            let need = text_tokens(&text).min(REQUEST_TOKENS_MAX);
            if !room.takes(Pick { place, by: Speaker::User, text, need, given: 0, is_told }) {
                break;
            }
        }
        room.share_out_from(0);
    }

    /// Places of what the user said that is worth quoting, the best first. Of what was said twice, the newer.
    fn ranked(&self) -> Vec<usize> {
        let mut times: HashMap<&str, u32> = HashMap::new();
        self.requests().for_each(|text| *times.entry(text.trim()).or_default() += 1);
        let mut places: Vec<(bool, usize)> = Vec::new();
        for (place, said) in self.0.iter().enumerate().rev() {
            let text = said.text.trim();
            let Some(times) = (said.by == Speaker::User).then(|| times.remove(text)).flatten() else {
                continue;
            };
            let (definite, tokens) = (is_definite(text), text_tokens(text));
            if definite || tokens > if times > 1 { REPEATED_TOKENS } else { TRIVIAL_TOKENS } {
                places.push((definite || tokens >= LONG_TOKENS, place));
            }
        }
        places.sort_by_key(|(definite, _)| Reverse(*definite)); // stable: the newest stay first
        places.into_iter().map(|(_, place)| place).collect()
    }

    /// The newest first: of each the sentences with a name that occurs nowhere else.
    fn pick_replies(&self, summary: &str, room: &mut Room) {
        let quoted: Vec<String> = room.picked.iter().map(Pick::line).collect();
        let quoted = quoted.join("\n");
        let mut known: HashSet<String> = words(summary).chain(words(&quoted)).map(str::to_owned).collect();
        let replies = self.0.iter().enumerate().rev().filter(|(_, said)| said.by == Speaker::Assistant);
        let already = room.picked.len();
        for (place, said) in replies.take(REPLIES_MAX).filter(|(_, said)| may_name(&said.text)) {
            let text = telling(&tidied_lines(&said.text), &mut known);
            let need = text_tokens(&text).min(REPLY_TOKENS_MAX);
            let pick = Pick { place, by: Speaker::Assistant, text, need, given: 0, is_told: false };
            if !pick.text.is_empty() && !room.takes(pick) {
                break;
            }
        }
        room.share_out_from(already);
    }
}

/// What has been picked, and how many tokens are left.
struct Room {
    left: u64,
    picked: Vec<Pick>,
}

struct Pick {
    place: usize,
    by: Speaker,
    text: String,
    /// What it weighs as a whole, and what there is room for.
    need: u64,
    given: u64,
    /// The summary quotes it itself.
    is_told: bool,
}

impl Room {
    /// Takes it in its short form, if that fits.
    fn takes(&mut self, mut pick: Pick) -> bool {
        pick.given = pick.need.min(EACH_TOKENS_MIN);
        match self.left.checked_sub(pick.given + LINE) {
            Some(rest) => {
                self.left = rest;
                self.picked.push(pick);
                true
            }
            None => false,
        }
    }

    /// From this pick on, those that were picked first get their whole as long as there is room.
    fn share_out_from(&mut self, first: usize) {
        for pick in &mut self.picked[first..] {
            let more = (pick.need - pick.given).min(self.left);
            pick.given += more;
            self.left -= more;
        }
    }
}

impl Pick {
    fn line(&self) -> String {
        let by = match self.by {
            Speaker::User => USER,
            Speaker::Assistant => REPLY,
        };
        format!("{by}{}", ends_within_tokens(&self.text, self.given))
    }
}

/// The sentences of a reply in which something is named that is not known yet, and is from then on.
fn telling(text: &str, known: &mut HashSet<String>) -> String {
    let mut told: Vec<&str> = Vec::new();
    for sentence in sentences(text) {
        let found = Found::in_text(sentence);
        let mut names = found.all().filter(|name| !name.contains(' '));
        if names.any(|name| !known.contains(name)) {
            known.extend(words(sentence).map(str::to_owned));
            told.push(sentence.trim());
        }
    }
    one_line(&told.join(" "), usize::MAX)
}

/// Without secrets, thoughts and anything that could end the message it will stand in.
fn tidied_lines(text: &str) -> String {
    let (head, tail) = SEARCHED;
    let text = both_ends(text, head + tail, head, tail);
    redacted(&without_marks(&without_media(&without_thinking(&text))))
}

fn tidied(text: &str) -> String {
    one_line(&tidied_lines(text), usize::MAX)
}

/// What an earlier summary quotes.
fn recorded(body: &str) -> Vec<Said<'_>> {
    let lines = section(body, HEADING).unwrap_or_default().lines();
    let kinds = [(USER, Speaker::User), (REPLY, Speaker::Assistant)];
    let read =
        lines.filter_map(|line| kinds.iter().find_map(|(label, by)| Some((*by, line.strip_prefix(label)?))));
    let digested = super::digest::quoted(body).map(|text| (Speaker::User, text));
    let said = digested.chain(read).map(|(by, text)| Said { by, text: Cow::Borrowed(text) });
    let last = recorded_request(body).map(|text| Said { by: Speaker::User, text: Cow::Owned(text) });
    said.chain(last).collect()
}
