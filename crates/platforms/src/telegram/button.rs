//! What a button under a question carries.
//!
//! Telegram keeps at most 64 bytes with a button. The name of a call nearly always fits, so a button
//! works after any restart without a note of ours. A name that does not fit is carried as a digest,
//! which is compared with the questions that still wait.

use sha2::{Digest, Sha256};
use throughline_core::port::CallId;
use throughline_core::tool::{Grant, Verdict};

/// Telegram's bound.
const LENGTH_MAX: usize = 64;

/// Which question a button belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QuestionReference {
    Call(CallId),
    Digest(String),
}

impl QuestionReference {
    pub fn is(&self, call: &CallId) -> bool {
        match self {
            QuestionReference::Call(named) => named == call,
            QuestionReference::Digest(digest) => *digest == digest_of(call),
        }
    }
}

pub(crate) fn digest_of(call: &CallId) -> String {
    let digest = Sha256::digest(call.to_string().as_bytes());
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn data(call: &CallId, verdict: &Verdict) -> String {
    let answer = match verdict {
        Verdict::Granted(Grant::Once) => "o",
        Verdict::Granted(Grant::Session) => "s",
        Verdict::Granted(Grant::Always) => "a",
        Verdict::Denied { .. } | Verdict::Expired | Verdict::Unattended => "d",
        Verdict::Said(number) => number,
    };
    let whole = format!("{answer}:{call}");
    match whole.len() <= LENGTH_MAX {
        true => whole,
        false => format!("{answer}#{}", digest_of(call)),
    }
}

/// None: no button of ours.
pub(crate) fn read(data: &str) -> Option<(QuestionReference, Verdict)> {
    let place = data.find([':', '#'])?;
    let (answer, rest) = (&data[..place], &data[place + 1..]);
    let verdict = match answer {
        "o" => Verdict::Granted(Grant::Once),
        "s" => Verdict::Granted(Grant::Session),
        "a" => Verdict::Granted(Grant::Always),
        "d" => Verdict::Denied { reason: None },
        number => Verdict::Said(number.parse::<u8>().ok()?.to_string()),
    };
    let reference = match data[place..].starts_with(':') {
        true => QuestionReference::Call(rest.parse().ok()?),
        false => QuestionReference::Digest(rest.to_owned()),
    };
    Some((reference, verdict))
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_core::id::{Seq, TurnId};

    fn call(session: &str) -> CallId {
        CallId { session: session.parse().unwrap(), turn: TurnId(Seq(12)), step: 3, index: 0, question: 0 }
    }

    #[test]
    fn a_button_finds_its_call_whatever_the_length_of_its_name() {
        for session in ["20260528_093510_66bfaec7", &"x".repeat(200)] {
            for verdict in [
                Verdict::Granted(Grant::Once),
                Verdict::Granted(Grant::Session),
                Verdict::Granted(Grant::Always),
                Verdict::Denied { reason: None },
                Verdict::Said("17".to_owned()),
            ] {
                let data = data(&call(session), &verdict);
                assert!(data.len() <= LENGTH_MAX, "{data}");
                let (reference, read) = read(&data).unwrap();
                assert_eq!(read, verdict);
                assert!(reference.is(&call(session)));
                assert!(!reference.is(&call("another")));
            }
        }
    }

    #[test]
    fn what_is_no_button_of_ours_is_none() {
        for data in ["", "o", "o:", "o:nothing", "x:a/1/2/3", "mp:model", "300:a/1/2/3", "o:a/1/2/x"] {
            assert_eq!(read(data), None, "{data}");
        }
    }
}
