//! A summariser that needs no model: it copies sentences out of what it is shown.
//!
//! It reads the request as a model would get it, finds who said what by the labels in front, picks
//! the sentences that look as if they mattered (numbers, names, paths, decisions, things done, things
//! asked), and files them under the headings that the request asks for, within the length it asks for.
//!
//! It is imperfect on purpose, always in the same way: one sentence in three escapes it, whichever
//! engine asks, and it breaks off long ones. So engines differ by what they show it, and by what they
//! make sure of beside it. Which third that is depends on its mood; a comparison that is not to hang
//! on single sentences takes several.
//!
//! - the same request always gives the same summary
//! - it knows no engine: any text with speakers in brackets and `##` headings will do

use std::cmp::Reverse;
use throughline_core::compression::text_tokens;
use throughline_core::port::{ModelError, Promise, Summariser, Written};

/// What it can read and write: as much as models can that one would use for this.
const WINDOW: u64 = 128_000;
/// Length of a summary when the request does not wish for any, in tokens.
const LENGTH_USUAL: u64 = 2_000;
/// And at most.
const LENGTH_MAX: u64 = 4_000;
/// One sentence in so many escapes it.
const ESCAPES: u64 = 3;
/// Of a line of an earlier summary fewer do: it has been chosen once.
const ESCAPES_AGAIN: u64 = 9;
/// A sentence is broken off here, in characters.
const SENTENCE_MAX: usize = 260;
/// So much of a tool's result it reads, in characters.
const RESULT_READ: usize = 400;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptedSummariser {
    /// Another one forgets other sentences.
    pub mood: u64,
}

/// So many moods are enough that a category differs by engines rather than by luck.
pub const MOODS: u64 = 5;

impl Summariser for ScriptedSummariser {
    fn name(&self) -> &str {
        "scripted"
    }

    fn window(&self) -> u64 {
        WINDOW
    }

    fn ask<'a>(&'a self, request: &'a str) -> Promise<'a, Result<Written, ModelError>> {
        Box::pin(async move { Ok(Written { text: self.summary(request), truncated: false }) })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentenceSpeaker {
    User,
    Agent,
    Tool,
    /// An earlier summary.
    Earlier,
}

#[derive(Debug)]
struct Sentence {
    speaker: SentenceSpeaker,
    text: String,
    weight: u64,
    /// In the order in which they were said.
    place: usize,
    /// Where an earlier summary had it.
    heading: Option<String>,
}

impl ScriptedSummariser {
    pub fn moods() -> impl Iterator<Item = Self> {
        (0..MOODS).map(|mood| Self { mood })
    }

    /// What it writes when asked like this.
    pub fn summary(self, request: &str) -> String {
        let material = Material::read(request);
        let mut sentences = material.sentences();
        let asked = sentences.iter().rev().find(|sentence| sentence.speaker == SentenceSpeaker::User);
        let asked = asked.map(|sentence| sentence.text.clone());
        sentences.retain(|sentence| !self.misses(sentence));
        let kept = within(sentences, material.length);
        filed(&kept, &material.headings, asked.as_deref())
    }

    /// Decided by the words alone: the same sentence escapes it for every engine.
    fn misses(self, sentence: &Sentence) -> bool {
        let letters = sentence.text.chars().filter(|c| c.is_alphanumeric());
        let start = 0xcbf2_9ce4_8422_2325 ^ self.mood.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = letters.fold(start, |hash: u64, letter| {
            (hash ^ u64::from(u32::from(letter))).wrapping_mul(0x0100_0000_01b3)
        });
        let hash = (hash ^ (hash >> 32)) >> 3;
        match sentence.speaker {
            SentenceSpeaker::Earlier => hash.is_multiple_of(ESCAPES_AGAIN),
            _ => hash.is_multiple_of(ESCAPES),
        }
    }
}

// --------------------------------------------------------------------------------------- reading

struct Material {
    headings: Vec<String>,
    /// By heading, from an earlier summary.
    earlier: Vec<(String, String)>,
    turns: Vec<(SentenceSpeaker, String)>,
    length: u64,
}

impl Material {
    fn read(request: &str) -> Self {
        let lines: Vec<&str> = request.lines().collect();
        let labels: Vec<usize> = (0..lines.len()).filter(|i| label(lines[*i]).is_some()).collect();
        let first = labels.first().copied().unwrap_or(lines.len());
        let last = labels.last().map_or(0, |last| last + 1);
        let template = template(&lines, last);
        let headings = lines[template..].iter().filter_map(|line| line.strip_prefix("## "));
        let headings: Vec<String> = headings.map(|heading| heading.trim().to_owned()).collect();
        Self {
            earlier: earlier(&lines[..first.min(template)], &headings),
            turns: turns(&lines[first.min(template)..template]),
            length: length(request),
            headings,
        }
    }

    fn sentences(&self) -> Vec<Sentence> {
        let mut sentences: Vec<Sentence> = Vec::new();
        let mut add = |speaker, text: &str, heading: Option<&String>| {
            let is_new = sentences.iter().all(|known| known.text != text);
            let weight = weight(speaker, text);
            if weight > 0 && is_new {
                let place = sentences.len();
                let heading = heading.cloned();
                sentences.push(Sentence { speaker, text: text.to_owned(), weight, place, heading });
            }
        };
        for (heading, line) in &self.earlier {
            add(SentenceSpeaker::Earlier, line, Some(heading));
        }
        for (speaker, text) in &self.turns {
            let read: String = match speaker {
                SentenceSpeaker::Tool => text.chars().take(RESULT_READ).collect(),
                _ => text.clone(),
            };
            for sentence in split(&read) {
                add(*speaker, &sentence, None);
            }
        }
        sentences
    }
}

/// Where the description of the summary begins: at the first of the last run of headings.
fn template(lines: &[&str], after: usize) -> usize {
    let is_heading = |i: &usize| lines[*i].starts_with("## ");
    (after..lines.len()).find(is_heading).unwrap_or(lines.len())
}

/// `[USER]: …`, `[TOOL RESULT call_1]: …`
fn label(line: &str) -> Option<(SentenceSpeaker, &str)> {
    let (name, rest) = line.strip_prefix('[')?.split_once("]:")?;
    let name = name.to_lowercase();
    let speaker = match name.split(' ').next().unwrap_or_default() {
        "user" => SentenceSpeaker::User,
        "assistant" => SentenceSpeaker::Agent,
        "tool" => SentenceSpeaker::Tool,
        _ => return None,
    };
    Some((speaker, rest.trim_start()))
}

fn turns(lines: &[&str]) -> Vec<(SentenceSpeaker, String)> {
    let mut turns: Vec<(SentenceSpeaker, String)> = Vec::new();
    for line in lines {
        match (label(line), turns.last_mut()) {
            (Some((speaker, rest)), _) => turns.push((speaker, rest.to_owned())),
            // What a tool was given is not what the agent said.
            (None, Some((SentenceSpeaker::Agent, _))) if line.starts_with("[Tool calls") => {
                turns.push((SentenceSpeaker::Tool, String::new()));
            }
            (None, Some((_, text))) => {
                text.push('\n');
                text.push_str(line);
            }
            (None, None) => {}
        }
    }
    turns
}

/// The lines below known headings in front of what was said.
fn earlier(lines: &[&str], headings: &[String]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut under: Option<&str> = None;
    for line in lines {
        match line.strip_prefix("## ") {
            Some(heading) => under = Some(heading.trim()),
            None if line.trim().is_empty() || is_caption(line) => {}
            None => {
                let known = under.and_then(|under| headings.iter().find(|heading| is_same(heading, under)));
                let text = line.trim().trim_start_matches(['-', '*', ' ']);
                let is_nothing = matches!(text, "None." | "None" | "(none)");
                if let (Some(heading), false) = (known, is_nothing) {
                    found.push((heading.clone(), text.to_owned()));
                }
            }
        }
    }
    found
}

/// `NEW TURNS:`, or a fence around what follows: capitals and signs.
fn is_caption(line: &str) -> bool {
    let is_loud = |c: char| c.is_ascii() && !c.is_ascii_lowercase() && !c.is_ascii_digit();
    line.chars().all(is_loud)
}

/// Headings changed their names over the years: `Pending User Asks`, `Historical Pending User Asks`.
fn is_same(one: &str, other: &str) -> bool {
    let bare = |text: &str| text.trim_start_matches("Historical ").to_lowercase();
    bare(one) == bare(other)
}

/// `Target ~2000 tokens`, in any wording.
fn length(request: &str) -> u64 {
    let words: Vec<&str> = request.split_whitespace().collect();
    let wished = words.windows(2).rev().find_map(|pair| {
        let number = pair[0].trim_start_matches(['~', '≈']).replace([',', '_'], "");
        (pair[1].starts_with("token")).then(|| number.parse().ok()).flatten()
    });
    wished.unwrap_or(LENGTH_USUAL).clamp(200, LENGTH_MAX)
}

fn split(text: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    for line in text.lines() {
        let mut sentence = String::new();
        let mut characters = line.trim().chars().peekable();
        while let Some(character) = characters.next() {
            sentence.push(character);
            let ends = match character {
                '。' | '！' | '？' => true,
                '.' | '!' | '?' => characters.peek().is_none_or(|next| next.is_whitespace()),
                _ => false,
            };
            if ends {
                sentences.push(std::mem::take(&mut sentence));
            }
        }
        sentences.push(sentence);
    }
    let trimmed =
        sentences.iter().map(|sentence| sentence.trim().chars().take(SENTENCE_MAX).collect::<String>());
    trimmed.filter(|sentence| sentence.chars().count() >= 8).collect()
}

// -------------------------------------------------------------------------------------- choosing

const DECISIONS: [&str; 15] = [
    "decide",
    "agreed",
    "go with",
    "instead",
    "we will",
    "because",
    "chose",
    "correction",
    "not the",
    "entschieden",
    "stattdessen",
    "sondern",
    "decid",
    "mejor",
    "にします",
];
const DEEDS: [&str; 22] = [
    "sent",
    "committed",
    "pushed",
    "merged",
    "wrote",
    "written",
    "created",
    "posted",
    "booked",
    "received",
    "deployed",
    "filed",
    "opened",
    "paid",
    "gesendet",
    "geschickt",
    "gebucht",
    "erhalten",
    "enviado",
    "recibido",
    "送信",
    "受信",
];
const RULES: [&str; 14] = [
    "always",
    "never",
    "from now on",
    "do not",
    "don't",
    "must",
    "prefer",
    "please use",
    "immer",
    "niemals",
    "nie ",
    "siempre",
    "必ず",
    "nunca",
];
const ASKS: [&str; 18] = [
    "still",
    "later",
    "remind",
    "todo",
    "to do",
    "open",
    "can you",
    "could you",
    "please",
    "need to",
    "noch",
    "bitte",
    "erinner",
    "falta",
    "pendiente",
    "por favor",
    "まだ",
    "ください",
];

fn has(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase();
    words.iter().any(|word| text.contains(word))
}

/// How much it looks as if it mattered. Nothing: it does not.
fn weight(speaker: SentenceSpeaker, text: &str) -> u64 {
    let words = || {
        text.split_whitespace().map(|word| word.trim_matches(['.', ',', '(', ')', '"', '\'', '`', ';', ':']))
    };
    let with_digits = words().filter(|word| word.chars().any(|c| c.is_ascii_digit())).count() as u64;
    let paths =
        words().filter(|word| word.len() > 4 && word.contains('/') && !word.contains("//")).count() as u64;
    let names =
        words().skip(1).filter(|word| word.chars().next().is_some_and(char::is_uppercase)).count() as u64;
    let shape = with_digits.min(3) + 2 * paths.min(2) + names.min(2);
    let sense =
        [&DECISIONS[..], &DEEDS, &RULES, &ASKS].iter().filter(|words| has(text, words)).count() as u64 * 2;
    match speaker {
        SentenceSpeaker::User => 2 + shape + sense,
        SentenceSpeaker::Agent if shape + sense > 1 => 1 + shape + sense,
        SentenceSpeaker::Tool if shape + sense > 2 => (shape + sense).min(4),
        SentenceSpeaker::Agent | SentenceSpeaker::Tool => 0,
        SentenceSpeaker::Earlier => 6 + shape + sense,
    }
}

/// The weightiest that fit, people's before those of tools, in the order in which they were said.
fn within(mut sentences: Vec<Sentence>, length: u64) -> Vec<Sentence> {
    let is_tool = |sentence: &Sentence| sentence.speaker == SentenceSpeaker::Tool;
    sentences.sort_by_key(|sentence| (is_tool(sentence), Reverse(sentence.weight), sentence.place));
    let mut used = 0;
    sentences.retain(|sentence| {
        let tokens = text_tokens(&sentence.text) + 4;
        let fits = used + tokens <= length;
        used += if fits { tokens } else { 0 };
        fits
    });
    sentences.sort_by_key(|sentence| sentence.place);
    sentences
}

// ---------------------------------------------------------------------------------------- filing

/// Which of the headings a sentence belongs under, by a word of the heading.
fn place(sentence: &Sentence) -> &'static str {
    let text = &sentence.text;
    match sentence.speaker {
        SentenceSpeaker::User if has(text, &RULES) => "constraints",
        SentenceSpeaker::Agent | SentenceSpeaker::Tool if has(text, &DEEDS) => "completed",
        _ if has(text, &DECISIONS) => "decisions",
        SentenceSpeaker::User if has(text, &ASKS) || text.ends_with(['?', '？']) => "pending",
        _ if text.split_whitespace().any(|word| word.matches('/').count() > 1) => "files",
        _ => "critical",
    }
}

fn filed(sentences: &[Sentence], headings: &[String], asked: Option<&str>) -> String {
    let is_under = |sentence: &&Sentence, heading: &String| match &sentence.heading {
        Some(earlier) => earlier == heading,
        None => heading.to_lowercase().contains(place(sentence)),
    };
    let mut text = String::new();
    for heading in headings {
        text.push_str(&format!("## {heading}\n"));
        let lower = heading.to_lowercase();
        let mut lines: Vec<String> = sentences
            .iter()
            .filter(|sentence| is_under(sentence, heading))
            .map(|sentence| match sentence.speaker {
                SentenceSpeaker::Tool => format!("- Tool result: {}", sentence.text),
                _ => format!("- {}", sentence.text),
            })
            .collect();
        if lower.contains("task") {
            lines.extend(asked.map(|asked| format!("User asked: {asked:?}")));
        }
        text.push_str(&if lines.is_empty() { "None.".to_owned() } else { lines.join("\n") });
        text.push_str("\n\n");
    }
    let homeless =
        sentences.iter().filter(|sentence| !headings.iter().any(|heading| is_under(sentence, heading)));
    for sentence in homeless {
        text.push_str(&format!("- {}\n", sentence.text));
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = "Summarise in the user's language.\n\n\
        PREVIOUS SUMMARY:\n## Active Task\nUser asked: 'go on'\n## Goal\n- Ship 2.4 by spring.\n## Pending User Asks\n- Find a venue for 40 people.\n\n\
        TURNS:\n[USER]: Please deploy build 881 to staging. Thanks!\n\n\
        [ASSISTANT]: Deployed build 881 to staging, receipt DEP-19.\n[Tool calls:\n  terminal({})\n]\n\n\
        [TOOL RESULT call_1]: exit 0, wrote /srv/app/current\n\n\
        Use this structure:\n## Historical Task Snapshot\n[what]\n## Goal\n[what]\n## Completed Actions\n[what]\n\
        ## Historical Pending User Asks\n[what]\n## Critical Context\n[what]\n\nTarget ~500 tokens.";

    #[test]
    fn it_reads_speakers_headings_length_and_an_earlier_summary() {
        let material = Material::read(REQUEST);
        assert_eq!(material.length, 500);
        assert_eq!(material.headings.len(), 5);
        assert_eq!(material.earlier.len(), 2);
        let speakers: Vec<SentenceSpeaker> = material.turns.iter().map(|turn| turn.0).collect();
        assert_eq!(
            speakers,
            [SentenceSpeaker::User, SentenceSpeaker::Agent, SentenceSpeaker::Tool, SentenceSpeaker::Tool]
        );
    }

    #[test]
    fn it_files_what_it_copies() {
        let text = ScriptedSummariser::default().summary(REQUEST);
        assert_eq!(text, ScriptedSummariser::default().summary(REQUEST));
        assert!(text.contains("## Historical Pending User Asks\n- Find a venue for 40 people."), "{text}");
        assert!(text.contains("DEP-19"), "{text}");
        assert!(!text.contains("[what]"), "{text}");
    }

    #[test]
    fn one_sentence_in_three_escapes_it() {
        let sentence = |number: usize| Sentence {
            speaker: SentenceSpeaker::User,
            text: format!("Parcel {number} is on shelf {}.", number * 7),
            weight: 1,
            place: 0,
            heading: None,
        };
        for scripted in ScriptedSummariser::moods() {
            let missed = (0..1000).filter(|number| scripted.misses(&sentence(*number))).count();
            assert!((280..390).contains(&missed), "{missed}");
        }
        let [one, other] = [0, 1].map(|mood| ScriptedSummariser { mood });
        assert!((0..1000).any(|number| one.misses(&sentence(number)) != other.misses(&sentence(number))));
    }
}
