//! A first pass without a model: what a summariser need not read is cut down before it is asked.
//!
//! Old results of tools become a line each, with how the call ended and the little of it that names
//! something; a result that came again becomes a reference to the newest; pictures become a word. Only what the
//! summariser is shown is shaped here: no row ever changes.

use super::arguments;
use super::deeds::{Pairs, Status, described_as, said};
use super::identifiers::Found;
use super::summary::{Earlier, is_summary};
use super::text::{both_ends, first, one_line, size, without_media, without_thinking};
use crate::message::{Body, Content, Message, Part, ToolCall};
use crate::redact::redacted;
use std::borrow::Cow;
use std::collections::HashMap;

/// A result up to this length says more than a line about it would.
const RESULT_MAX: usize = 200;
/// Arguments up to this length are shown as they are; in longer ones each text is cut.
const ARGUMENTS_LONG: usize = 500;
const ARGUMENT_TEXT_MAX: usize = 200;
/// What a summariser sees at most: of a message, and of the arguments of one call.
const MESSAGE_MAX: usize = 6_000;
const MESSAGE_HEAD: usize = 4_000;
const MESSAGE_TAIL: usize = 1_500;
const ARGUMENTS_MAX: usize = 1_500;
const ARGUMENTS_HEAD: usize = 1_200;
/// So much of an enormous text is searched for secrets: what is shown, and far enough around it that no
/// secret is cut in two.
const SEARCHED_HEAD: usize = 48_000;
const SEARCHED_TAIL: usize = 16_000;
/// So much of a result is kept with the line about it, and searched for secrets before that.
const EXCERPT_MAX: usize = 80;
const EXCERPT_REACH: usize = 400;

/// These messages as a summariser is shown them, a text each. Results from `recent` on are shown in full.
/// Messages that say nothing are left out, and so is the last summary among them: it is not a turn.
pub fn shown(messages: &[Message], pairs: &Pairs, recent: usize) -> Vec<String> {
    let newest = newest_of_each(messages);
    let summary = messages.iter().rposition(is_summary);
    let mut given: Vec<String> = Vec::new(); // to the calls of the last answer that had any
    let mut texts = Vec::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        if !message.calls().is_empty() {
            given = message.calls().iter().map(arguments_shown).collect();
        }
        texts.extend(match &message.body {
            Body::User(_) | Body::Assistant(_) if is_summary(message) => {
                earlier(message, summary == Some(at))
            }
            Body::Result(result) => {
                let text = said(message);
                let shown = match newest.get(&*text) {
                    Some(newer) if *newer != at => same_again(&text),
                    _ if at < recent && text.len() > RESULT_MAX => {
                        let call = pairs.call(messages, at);
                        let name = call.map(|call| call.name.as_str()).or(result.name.as_deref());
                        let given =
                            pairs.place(at).and_then(|place| given.get(place).filter(|_| given.len() > 1));
                        line(name.unwrap_or("tool"), given.map(String::as_str), &text)
                    }
                    _ => bounded(&text, Tidy::Plain),
                };
                Some(format!("[TOOL RESULT {}]: {shown}", one_line(&result.call_id, 80)))
            }
            Body::Assistant(_) => spoken("ASSISTANT", message, &given, Tidy::Thoughts),
            Body::User(_) if message.observed => spoken("OVERHEARD", message, &[], Tidy::Plain),
            Body::User(_) => spoken("USER", message, &[], Tidy::Plain),
            Body::System(_) => spoken("SYSTEM", message, &[], Tidy::Plain),
            Body::Other { .. } => None,
        });
    }
    texts
}

fn same_again(text: &str) -> String {
    format!("[same output as the newer result below, {}; {}]", size(text), Status::of(text))
}

/// What else was said in the message of a summary; and the summary, if a newer one follows.
fn earlier(message: &Message, is_last: bool) -> Option<String> {
    let earlier = Earlier::of(message)?;
    let mut texts = Vec::new();
    if !is_last {
        texts.push(format!("[EARLIER SUMMARY]: {}", bounded(&earlier.body, Tidy::Plain)));
    }
    if let Some(said) = earlier.beside {
        texts.push(format!("[{}]: {}", message.role().to_uppercase(), bounded(&said, Tidy::Plain)));
    }
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Where each longer result was seen last.
fn newest_of_each(messages: &[Message]) -> HashMap<Cow<'_, str>, usize> {
    let results = messages.iter().enumerate().filter(|(_, message)| matches!(message.body, Body::Result(_)));
    let long = results.map(|(at, message)| (said(message), at)).filter(|(text, _)| text.len() >= RESULT_MAX);
    long.collect()
}

/// How a call ended, how much came of it, and how that begins if it names something or went wrong. What a call
/// was given stands right above, with the call, and is said again only where it could be another one's.
fn line(name: &str, given: Option<&str>, text: &str) -> String {
    let what = given.map_or_else(|| one_line(name, 64), |given| described_as(name, given));
    let status = Status::of(text);
    let mut line = format!("[{what}] -> {status}, {}", size(text));
    let head = one_line(&redacted(first(text, EXCERPT_REACH)), EXCERPT_MAX);
    if matches!(status, Status::Exit(code) if code != 0) || !Found::in_text(&head).is_empty() {
        line.push_str(&format!("; begins: {head}"));
    }
    line
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tidy {
    Plain,
    /// Without what a model thought aloud.
    Thoughts,
}

fn spoken(who: &str, message: &Message, given: &[String], tidy: Tidy) -> Option<String> {
    let mut text = bounded(&with_pictures(message), tidy);
    if !message.calls().is_empty() {
        let calls = message.calls().iter().zip(given);
        let calls: Vec<_> =
            calls.map(|(call, given)| format!("  {}({given})", one_line(&call.name, 64))).collect();
        text.push_str(&format!("\n[Tool calls:\n{}\n]", calls.join("\n")));
    }
    (!text.trim().is_empty()).then(|| format!("[{who}]: {}", text.trim()))
}

/// Pictures by their address where it can be visited again, else as a word.
fn with_pictures(message: &Message) -> Cow<'_, str> {
    let Content::Parts(parts) = message.content() else { return said(message) };
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Image { url, .. } if url.starts_with("http") => format!("[image: {}]", one_line(url, 300)),
        Part::Image { .. } => "[image]".to_owned(),
        Part::Opaque(_) => "[attachment]".to_owned(),
    });
    Cow::Owned(texts.collect::<Vec<_>>().join("\n"))
}

fn bounded(text: &str, tidy: Tidy) -> String {
    let text = both_ends(text, SEARCHED_HEAD + SEARCHED_TAIL, SEARCHED_HEAD, SEARCHED_TAIL);
    let text = match tidy {
        Tidy::Plain => Cow::Borrowed(&*text),
        Tidy::Thoughts => without_thinking(&text),
    };
    let text = redacted(&without_media(&text));
    both_ends(&text, MESSAGE_MAX, MESSAGE_HEAD, MESSAGE_TAIL).into_owned()
}

fn arguments_shown(call: &ToolCall) -> String {
    let given = match call.arguments.len() > ARGUMENTS_LONG {
        true => Cow::Owned(arguments::shortened(&call.arguments, ARGUMENT_TEXT_MAX)),
        false => Cow::Borrowed(call.arguments.as_str()),
    };
    let given = redacted(first(&given, SEARCHED_HEAD));
    both_ends(&given, ARGUMENTS_MAX, ARGUMENTS_HEAD, 0).into_owned()
}
