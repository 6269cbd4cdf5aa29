//! The digest of last resort: what can be said about a past without asking a model.
//!
//! It quotes and counts, and claims nothing that the transcript does not show: every message of the user at
//! least in short, what was done and how it ended, replies, open asks, paths and identifiers. It is bounded,
//! and the same past always gives the same digest. An earlier digest is continued, an earlier summary
//! carried along.

use super::boundary::{Boundary, is_reply};
use super::deeds::{Pairs, Status, described, said};
use super::identifiers::Found;
use super::quotes::{self, Quotes};
use super::summary::{Earlier, Record, is_request, is_summary, requested, without_sections};
use super::text::{both_ends, first, one_line, within_tokens, without_media, without_thinking};
use super::text_tokens;
use crate::message::{Body, Message};
use crate::redact::redacted;
use std::collections::{BTreeMap, HashSet};

/// By which a digest is told from a summary.
pub const FLAG: &str = "This digest was put together without a model";

const TASK: &str = "Historical Task Snapshot";
const SAID: &str = "User Messages";
const DONE: &str = "Completed Actions";
const REPLIES: &str = "Replies Given";
const ASKS: &str = "Historical Pending User Asks";
const FILES: &str = "Relevant Files";
const NAMES: &str = "Critical Context";
const EARLIER: &str = "Earlier Summary";

/// So much of one message is quoted at most: a pasted file is no reason to lose the rest.
const QUOTE_MAX: usize = 2_400;
/// So many characters of a message are worth their line. Below, it is counted and not quoted.
const QUOTE_MIN_TOKENS: u64 = 12;
const REPLY_MAX: usize = 240;
/// How far into a result names are looked for.
const RESULT_REACH: usize = 600;
const ASK_MAX: usize = 240;
const ASKS_MAX: usize = 16;

/// Shares of the whole in hundredths. What one does not use is left to the messages of the user, which get
/// the rest in any case.
const SHARE_EARLIER: u64 = 25;
const SHARE_DONE: u64 = 15;
const SHARE_REPLIES: u64 = 12;
const SHARE_ASKS: u64 = 8;
const SHARE_TASK: u64 = 6;
const SHARE_NAMES: u64 = 8;
const SHARE_FILES: u64 = 6;

/// What is known about a past, each list oldest first.
#[derive(Default)]
struct Findings {
    said: Vec<String>,
    done: Vec<String>,
    others: String,
    replies: Vec<String>,
    asks: Vec<String>,
    paths: Vec<String>,
    names: Vec<String>,
    earlier: Option<String>,
}

/// What stands for `boundary` in `messages`, within so many tokens.
pub fn body(messages: &[Message], boundary: Boundary, tokens_max: u64) -> String {
    let replaced = &messages[boundary.from..boundary.to];
    let pairs = Pairs::of(replaced);
    let mut findings = Findings::default();
    let summary = replaced.iter().rfind(|message| is_summary(message)).and_then(Earlier::of);
    let record =
        Record::of(messages, boundary, &pairs, summary.as_ref().map(|earlier| earlier.body.as_str()));
    if let Some(earlier) = &summary {
        findings.continue_from(&earlier.body);
    }
    findings.gather(replaced, &pairs);
    findings.done.extend(record.deeds.iter().map(|deed| deed.line.clone()));
    let after = &messages[boundary.to..];
    findings.asks.extend(open_asks(replaced, after));
    let introduction = format!(
        "{FLAG} from {} messages, because no summary could be had. It quotes, it does not interpret; the \
         messages themselves are kept in the snapshot of this session.",
        replaced.len()
    );
    let text = findings.text(&introduction, record.request.as_deref(), tokens_max);
    within_tokens(&text, tokens_max).into_owned()
}

/// What the user said, as far as a digest quotes it. Of anything else: nothing.
pub fn quoted(body: &str) -> impl Iterator<Item = &str> {
    let lines = body.contains(FLAG).then(|| section(body, SAID)).flatten().unwrap_or_default().lines();
    lines.filter_map(|line| line.strip_prefix("- "))
}

impl Findings {
    fn gather(&mut self, replaced: &[Message], pairs: &Pairs) {
        let mut found = Found::default(); // in what people and the model said
        let mut seen = Found::default(); // in what tools were given and gave
        let mut tools: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for (at, message) in replaced.iter().enumerate() {
            match &message.body {
                Body::Result(_) => {
                    let Some(call) = pairs.call(replaced, at) else { continue };
                    let (calls, failed) = tools.entry(one_line(&call.name, 64)).or_default();
                    *calls += 1;
                    let text = said(message);
                    *failed += usize::from(!is_good(&Status::of(&text)));
                    seen.add(&described(call));
                    seen.add(&redacted(first(&text, RESULT_REACH)));
                }
                _ if is_request(message) => {
                    let text = quote(&requested(message), QUOTE_MAX);
                    found.add(&text);
                    self.said.push(if text.is_empty() { "[image]".to_owned() } else { text });
                }
                _ if is_reply(message) => {
                    let text = quote(&said(message), QUOTE_MAX);
                    found.add(&text);
                    self.replies.push(one_line(&text, REPLY_MAX));
                }
                _ => {}
            }
        }
        // The newest of a list are kept where there is no room for all: what was said goes last.
        merge(&mut self.paths, seen.paths);
        merge(&mut self.names, seen.names);
        merge(&mut self.paths, found.paths);
        merge(&mut self.names, found.names);
        let tools = tools.iter().map(|(name, (calls, failed))| match failed {
            0 => format!("{name} ×{calls}"),
            _ => format!("{name} ×{calls} ({failed} failed)"),
        });
        self.others = tools.collect::<Vec<_>>().join(", ");
    }

    /// What an earlier digest listed is listed again; a summary is carried along as it is.
    fn continue_from(&mut self, body: &str) {
        if !body.contains(FLAG) {
            self.said = Quotes::of(&[], Some(body)).requests().map(str::to_owned).collect();
            self.earlier = Some(redacted(&without_sections(body, &[quotes::HEADING])));
            return;
        }
        self.said = items(body, SAID);
        self.done = items(body, DONE);
        self.replies = items(body, REPLIES);
        self.paths = items(body, FILES);
        self.names = items(body, NAMES);
        self.earlier = section(body, EARLIER).map(str::to_owned);
    }

    fn text(&self, introduction: &str, request: Option<&str>, tokens_max: u64) -> String {
        let share = |hundredths: u64| tokens_max * hundredths / 100;
        let task = request.or(self.said.last().map(String::as_str)).unwrap_or("None.");
        let task = within_tokens(task, share(SHARE_TASK)).into_owned();
        let mut done = newest_within(&self.done, share(SHARE_DONE));
        if !self.others.is_empty() {
            done.push_str(&format!("All calls: {}\n", within_tokens(&self.others, share(SHARE_DONE) / 4)));
        }
        let replies = all_in_short(&self.replies, share(SHARE_REPLIES));
        let asks = newest_within(&self.asks, share(SHARE_ASKS));
        let paths = newest_within(&self.paths, share(SHARE_FILES));
        let names = newest_within(&self.names, share(SHARE_NAMES));
        let earlier = self.earlier.as_deref().unwrap_or_default();
        let earlier = within_tokens(earlier.trim(), share(SHARE_EARLIER)).into_owned();
        let sections = [
            (DONE, done),
            (REPLIES, replies),
            (ASKS, asks),
            (FILES, paths),
            (NAMES, names),
            (EARLIER, earlier),
        ];
        let rest: String = sections.iter().map(|(heading, text)| headed(heading, text)).collect();
        let start = format!("{introduction}\n\n{}", headed(TASK, &task));
        let used = text_tokens(&start) + text_tokens(&rest) + text_tokens(SAID) + 4;
        let said = all_in_short(&self.said, tokens_max.saturating_sub(used));
        format!("{start}{}{}", headed(SAID, &said), rest.trim_end())
    }
}

fn is_good(status: &Status) -> bool {
    matches!(status, Status::Ok | Status::Exit(0))
}

fn headed(heading: &str, text: &str) -> String {
    match text.trim().is_empty() {
        true => String::new(),
        false => format!("## {heading}\n{}\n\n", text.trim()),
    }
}

/// On one line and without secrets, thoughts and directives.
fn quote(text: &str, most: usize) -> String {
    let text = both_ends(text, 64_000, 48_000, 16_000); // enough to find secrets in what is shown
    let text = redacted(&without_media(&without_thinking(&text)));
    one_line(&text, most).trim_start_matches("- ").to_owned()
}

/// What is named again moves to the end.
fn merge(list: &mut Vec<String>, more: Vec<String>) {
    let again: HashSet<&String> = more.iter().collect();
    list.retain(|item| !again.contains(item));
    list.extend(more);
}

fn section<'a>(body: &'a str, heading: &str) -> Option<&'a str> {
    let start = format!("## {heading}\n");
    let (_, after) = body.split_once(&start)?;
    // The earlier summary comes last, and has headings of its own.
    let end = if heading == EARLIER { None } else { after.find("\n## ") };
    Some(after[..end.unwrap_or(after.len())].trim())
}

fn items(body: &str, heading: &str) -> Vec<String> {
    let lines = section(body, heading).unwrap_or_default().lines();
    lines.filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
}

/// A line each for as many of the newest as fit; the others are counted.
fn newest_within(items: &[String], tokens: u64) -> String {
    let mut lines = Vec::new();
    let mut left = tokens.saturating_sub(12); // for the line that counts
    for item in items.iter().rev() {
        let line = format!("- {item}\n");
        let Some(rest) = left.checked_sub(text_tokens(&line)) else { break };
        left = rest;
        lines.push(line);
    }
    let counted = match items.len() - lines.len() {
        0 => String::new(),
        missing => format!("({missing} older left out)\n"),
    };
    lines.push(counted);
    lines.iter().rev().map(String::as_str).collect()
}

/// Every item, the oldest shortened first. Where even short ones are too many, the oldest are counted.
fn all_in_short(items: &[String], tokens: u64) -> String {
    const LINE: u64 = 2; // a dash and a line's end, rounded up
    let needs: Vec<u64> = items.iter().map(|item| text_tokens(item) + LINE).collect();
    let short = |need: &u64| (*need).min(QUOTE_MIN_TOKENS + LINE);
    let mut reserved: u64 = needs.iter().map(short).sum();
    let mut left = tokens;
    let mut dropped = 0;
    if reserved > left {
        left = left.saturating_sub(14); // for the line that counts
        while reserved > left && dropped < items.len() {
            reserved -= short(&needs[dropped]);
            dropped += 1;
        }
    }
    let mut lines = Vec::new();
    for (item, need) in items.iter().zip(&needs).skip(dropped).rev() {
        reserved -= short(need);
        let room = left.saturating_sub(reserved);
        let line = format!("- {}\n", within_tokens(item, room.saturating_sub(LINE).min(*need)));
        left = left.saturating_sub(text_tokens(&line));
        lines.push(line);
    }
    if dropped > 0 {
        lines.push(format!("({dropped} older left out)\n"));
    }
    lines.iter().rev().map(String::as_str).collect()
}

/// Words with which people put something off.
const PUT_OFF: [&str; 16] = [
    "todo",
    "to-do",
    "remind me",
    "don't forget",
    "do not forget",
    "still need",
    "later ",
    "follow up",
    "open question",
    "noch offen",
    "später",
    "erinner",
    "vergiss nicht",
    "recuérda",
    "n'oublie",
    "plus tard",
];

/// What was asked and not answered, and what was put off.
fn open_asks(replaced: &[Message], after: &[Message]) -> Vec<String> {
    let mut asks = Vec::new();
    let mut open = Vec::new();
    for message in replaced {
        if is_request(message) {
            let text = requested(message);
            asks.extend(put_off(&text));
            open.push(text);
        } else if is_reply(message) {
            open.clear();
        }
    }
    let answered =
        after.iter().find(|message| is_reply(message) || is_request(message)).is_some_and(is_reply);
    if !answered {
        asks.extend(open.iter().map(|text| quote(text, ASK_MAX)));
    }
    asks.retain(|ask| !ask.is_empty());
    asks.dedup();
    let surplus = asks.len().saturating_sub(ASKS_MAX);
    asks.drain(..surplus);
    asks
}

fn put_off(text: &str) -> Vec<String> {
    let text = both_ends(text, 16_000, 12_000, 4_000);
    let puts_off = |text: &str| {
        let lower = text.to_lowercase();
        PUT_OFF.iter().any(|words| lower.contains(words))
    };
    if !puts_off(&text) {
        return Vec::new(); // most messages
    }
    let sentences = text.split_inclusive(['.', '!', '?', '\n']);
    sentences.filter(|sentence| puts_off(sentence)).map(|sentence| quote(sentence, ASK_MAX)).collect()
}
