//! Secrets that are known by their form, wherever they stand.

use super::{MARK, Purpose, Rewriting, run_end};
use std::borrow::Cow;

/// Which characters a key is made of.
#[derive(Clone, Copy)]
enum Body {
    Letters,
    Dashed,
    Underscored,
    Both,
    Capitals,
    Padded,
    Dotted,
}

impl Body {
    const fn holds(self, byte: u8) -> bool {
        byte.is_ascii_digit()
            || byte.is_ascii_uppercase()
            || (byte.is_ascii_lowercase() && !matches!(self, Body::Capitals))
            || match self {
                Body::Letters | Body::Capitals => false,
                Body::Dashed => byte == b'-',
                Body::Underscored => byte == b'_',
                Body::Both => matches!(byte, b'-' | b'_'),
                Body::Padded => matches!(byte, b'-' | b'_' | b'='),
                Body::Dotted => matches!(byte, b'-' | b'_' | b'.'),
            }
    }
}

/// How the keys of providers begin, what follows, and how much of it at least. Those that begin
/// alike stand with the longer one first.
const PREFIXES: [(&str, Body, usize); 62] = [
    ("sk-", Body::Both, 10),
    ("tl-", Body::Both, 12),
    ("ghp_", Body::Letters, 10),
    ("github_pat_", Body::Underscored, 10),
    ("gho_", Body::Letters, 10),
    ("ghu_", Body::Letters, 10),
    ("ghs_", Body::Letters, 10),
    ("ghr_", Body::Letters, 10),
    ("glpat-", Body::Both, 10),
    ("xapp-", Body::Dashed, 12),
    ("xoxb-", Body::Dashed, 10),
    ("xoxa-", Body::Dashed, 10),
    ("xoxp-", Body::Dashed, 10),
    ("xoxr-", Body::Dashed, 10),
    ("xoxs-", Body::Dashed, 10),
    ("xoxe-", Body::Dashed, 10),
    ("AIza", Body::Both, 30),
    ("ya29.", Body::Both, 20),
    ("pplx-", Body::Letters, 10),
    ("fal_", Body::Both, 10),
    ("fc-", Body::Letters, 10),
    ("bb_live_", Body::Both, 10),
    ("gAAAA", Body::Padded, 20),
    ("AKIA", Body::Capitals, 16),
    ("ASIA", Body::Capitals, 16),
    ("sk_live_", Body::Letters, 10),
    ("sk_test_", Body::Letters, 10),
    ("rk_live_", Body::Letters, 10),
    ("rk_test_", Body::Letters, 10),
    ("whsec_", Body::Letters, 10),
    ("SG.", Body::Dotted, 10),
    ("hf_", Body::Letters, 10),
    ("r8_", Body::Letters, 10),
    ("npm_", Body::Letters, 10),
    ("pypi-", Body::Both, 10),
    ("dop_v1_", Body::Letters, 10),
    ("doo_v1_", Body::Letters, 10),
    ("am_", Body::Both, 10),
    ("sk_", Body::Underscored, 10),
    ("tvly-", Body::Letters, 10),
    ("exa_", Body::Letters, 10),
    ("gsk_", Body::Letters, 10),
    ("syt_", Body::Letters, 10),
    ("retaindb_", Body::Letters, 10),
    ("hsk-", Body::Letters, 10),
    ("mem0_", Body::Letters, 10),
    ("brv_", Body::Letters, 10),
    ("xai-", Body::Letters, 30),
    ("ntn_", Body::Letters, 10),
    ("fw-", Body::Letters, 30),
    ("fw_", Body::Letters, 30),
    ("fpk_", Body::Letters, 30),
    ("shpat_", Body::Letters, 20),
    ("dckr_pat_", Body::Both, 20),
    ("lin_api_", Body::Letters, 20),
    ("hvs.", Body::Both, 20),
    ("AGE-SECRET-KEY-1", Body::Capitals, 20),
    ("sbp_", Body::Letters, 20),
    ("vercel_", Body::Letters, 20),
    ("figd_", Body::Both, 20),
    ("nvapi-", Body::Both, 20),
    (SIGNED, Body::Both, 10),
];

/// A run of this length with letters and digits in it is a key even where `_` or `-` touches it.
const RANDOM_LENGTH_MIN: usize = 20;

/// As much as is looked at to tell whether a key begins: each `sk-` of a long chain may be a beginning.
const WINDOW: usize = 256;

/// No key is shorter than this with its prefix, and every byte of both is one of these.
const LENGTH_MIN: usize = 13;

const fn is_key_byte(byte: u8) -> bool {
    Body::Padded.holds(byte) || Body::Dotted.holds(byte)
}

/// The beginning of a signed token, wherever it stands.
const SIGNED: &str = "eyJ";

pub fn is_prefix(text: &str) -> bool {
    PREFIXES.iter().any(|(prefix, ..)| *prefix == text)
}

/// Where bytes of keys stand in a row that is long enough for one. Most words are too short, and are not even read: of
/// every so many bytes one is looked at, and its neighbours only where it could be part of a key.
pub fn long_runs(bytes: &[u8]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let is_key = |at: usize| bytes.get(at).is_some_and(|byte| IS_KEY[usize::from(*byte)]);
    let mut from = 0; // nothing of a key stands before it
    std::iter::from_fn(move || {
        loop {
            let probe = from + LENGTH_MIN - 1;
            if probe >= bytes.len() {
                return None;
            }
            if !is_key(probe) {
                from = probe + 1;
                continue;
            }
            let start = (from..probe).rev().take_while(|at| is_key(*at)).last().unwrap_or(probe);
            let end = (probe..).find(|at| !is_key(*at)).unwrap_or(bytes.len());
            from = end + 1;
            if end - start >= LENGTH_MIN {
                return Some(start..end);
            }
        }
    })
}

const IS_KEY: [bool; 256] = {
    let mut is_key = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        is_key[byte] = is_key_byte(byte as u8);
        byte += 1;
    }
    is_key
};

pub fn without_tokens(text: &str, purpose: Purpose) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut rewriting = Rewriting::of(text);
    for run in long_runs(bytes) {
        let colon = run.start.checked_sub(1).filter(|before| bytes[*before] == b':');
        let mut at = run.start;
        if let Some(end) = colon.and_then(|colon| bot_token_end(text, colon)) {
            rewriting.replace(run.start, end, MARK);
            at = end;
        }
        while at < run.end {
            let touched = at > 0 && bytes[at - 1].is_ascii_alphanumeric();
            at = match bytes[at].is_ascii_alphanumeric() {
                false => at + 1,
                true => match (!touched).then(|| token_at(text, at)).flatten() {
                    Some((label, end)) => {
                        let mark = match purpose {
                            Purpose::File => format!("«redacted:{label}{MARK}»"),
                            _ => format!("{label}{MARK}"),
                        };
                        rewriting.replace(at, end, &mark);
                        end
                    }
                    None => run_end(text, at, |byte| byte.is_ascii_alphanumeric()), // no key begins within a word
                },
            };
        }
    }
    rewriting.done()
}

/// The prefix of the key that begins here, and where it ends.
fn token_at(text: &str, at: usize) -> Option<(&'static str, usize)> {
    let rest = &text[at..];
    let may_be_long =
        rest.as_bytes().get(..LENGTH_MIN).is_some_and(|start| start.iter().all(|byte| is_key_byte(*byte)));
    if !may_be_long {
        return None; // most words: the list of prefixes is long
    }
    let begin = rest.as_bytes()[0];
    PREFIXES.iter().find_map(|(prefix, body, least)| {
        if prefix.as_bytes()[0] != begin || !rest.starts_with(prefix) {
            return None;
        }
        let from = at + prefix.len();
        let window = &text.as_bytes()[from..text.len().min(from + WINDOW)];
        let near = window.iter().position(|byte| !body.holds(*byte)).unwrap_or(window.len());
        let is_long = near >= *least;
        let is_alone = !touches(text.as_bytes().get(from + near)) || near == WINDOW;
        let is_alone = is_alone && (at == 0 || !touches(text.as_bytes().get(at - 1)));
        if !is_long || !(is_alone || is_random(&window[..near]) || *prefix == SIGNED) {
            return None;
        }
        let end = run_end(text, from, |byte| body.holds(byte));
        // The last stop of a sentence is not the key's.
        let end = from + text[from..end].trim_end_matches('.').len();
        Some((*prefix, if *prefix == SIGNED { signed_end(text, end) } else { end }))
    })
}

fn touches(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn is_random(body: &[u8]) -> bool {
    body.len() >= RANDOM_LENGTH_MIN
        && body.iter().any(u8::is_ascii_digit)
        && body.iter().any(u8::is_ascii_alphabetic)
}

/// The end of a signed token, whose header ends at `from`: parts follow, each after a stop.
fn signed_end(text: &str, from: usize) -> usize {
    let mut end = from;
    for _ in 0..4 {
        if text.as_bytes().get(end) != Some(&b'.') {
            break;
        }
        let part = run_end(text, end + 1, |byte| Body::Padded.holds(byte));
        if part - end - 1 < 4 {
            break;
        }
        end = part;
    }
    end
}

/// `123456789:AA…`: eight digits or more, and thirty characters or more. `colon` is where it stands.
fn bot_token_end(text: &str, colon: usize) -> Option<usize> {
    let digits =
        text.as_bytes()[..colon].iter().rev().take(8).take_while(|byte| byte.is_ascii_digit()).count();
    let end = run_end(text, colon + 1, |byte| Body::Both.holds(byte));
    (digits == 8 && end - colon > 30).then_some(end)
}

/// Key blocks (`-----BEGIN … PRIVATE KEY-----`), also those that are cut off.
pub fn without_key_blocks(text: &str) -> Cow<'_, str> {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    let mut rewriting = Rewriting::of(text);
    let mut at = 0;
    let mut last_end = text.rfind(END);
    while let Some(found) = text[at..].find(BEGIN) {
        let start = at + found;
        let label = start + BEGIN.len();
        let dashes =
            run_end(text, label, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' ');
        at = label;
        if !text[dashes..].starts_with("-----") || !text[label..dashes].contains("PRIVATE KEY") {
            continue;
        }
        last_end = last_end.filter(|last| *last > dashes);
        let end = match last_end.and_then(|_| text[dashes..].find(END)) {
            Some(found) => {
                let label = dashes + found + END.len();
                let end = run_end(text, label, |byte| {
                    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
                });
                if text[end..].starts_with("-----") { end + 5 } else { end }
            }
            None => cut_block_end(text, dashes + 5),
        };
        rewriting.replace(start, end, "[REDACTED PRIVATE KEY]");
        at = end;
    }
    rewriting.done()
}

/// How far a key block reaches that has no end: as long as there is nothing but its letters.
fn cut_block_end(text: &str, from: usize) -> usize {
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\\');
    let mut end = from;
    let mut next = from;
    loop {
        next = run_end(text, next, |byte| byte.is_ascii_whitespace());
        let word = run_end(text, next, is_key);
        let is_line =
            word - next >= 16 || (word > next && end > from && text[next..word].contains(['=', '+', '/']));
        if !is_line {
            return end;
        }
        (end, next) = (word, word);
    }
}

/// `+` and seven to fifteen digits: the first and last few remain.
pub fn without_phone_numbers(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut rewriting = Rewriting::of(text);
    for (plus, _) in text.match_indices('+') {
        let end = run_end(text, plus + 1, |byte| byte.is_ascii_digit());
        let digits = end - plus - 1;
        let touched = plus > 0 && bytes[plus - 1].is_ascii_alphanumeric()
            || bytes.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric());
        if !(7..=15).contains(&digits) || touched || bytes[plus + 1] == b'0' {
            continue;
        }
        let kept = if digits <= 7 { 2 } else { 4 };
        rewriting.replace(plus + kept, end - kept, "****");
    }
    rewriting.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_passed_over_unseen_is_too_short_for_any_key() {
        for (prefix, _, least) in PREFIXES {
            assert!(prefix.len() + least >= LENGTH_MIN, "{prefix}");
            assert!(prefix.bytes().all(is_key_byte), "{prefix}");
        }
    }
}
