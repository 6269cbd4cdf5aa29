//! The prompt as a chain of segments: tools, system, then each message.
//!
//! A segment is the exact bytes a model's adapter made of one piece, without cache markers. The
//! chain of their hashes is stored with each step, so that a request which does not begin with
//! the bytes of the one before it is noticed, and named.

use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Of several fields, so joined that no two lists of fields have one digest.
    pub fn of(fields: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for field in fields {
            hasher.update((field.len() as u64).to_le_bytes());
            hasher.update(field);
        }
        Self(hasher.finalize().into())
    }

    /// The digest of everything so far and then `bytes`.
    #[must_use]
    pub fn then(&self, bytes: &[u8]) -> Self {
        Self::of(&[&self.0, bytes])
    }

    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    pub fn to_hex(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:02x}{:02x}{:02x}{:02x}…", self.0[0], self.0[1], self.0[2], self.0[3])
    }
}

/// One encoded piece of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub role: SegmentRole,
    pub bytes: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentRole {
    Tools,
    System,
    User,
    Assistant,
    Result,
}

/// What is sent: built anew for each request from segments that never change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    pub tools: Option<Segment>,
    pub system: Option<Segment>,
    pub messages: Vec<Segment>,
}

impl Prompt {
    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.tools.iter().chain(&self.system).chain(&self.messages)
    }

    /// The chain over all of it, and how many messages it covers.
    pub fn mark(&self) -> Mark {
        let start = Digest::of(&[b"prompt"]);
        let chain = self.segments().fold(start, |chain, segment| chain.then(segment.bytes.as_bytes()));
        Mark { chain, messages: self.messages.len() }
    }

    /// Whether this prompt begins with everything `earlier` covered.
    pub fn continues(&self, earlier: &Mark) -> bool {
        if self.messages.len() < earlier.messages {
            return false;
        }
        let fixed = self.tools.iter().chain(&self.system);
        let start = Digest::of(&[b"prompt"]);
        let chain = fixed
            .chain(&self.messages[..earlier.messages])
            .fold(start, |chain, segment| chain.then(segment.bytes.as_bytes()));
        chain == earlier.chain
    }
}

/// How far a prompt went and what it was: stored with each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub chain: Digest,
    pub messages: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prompt(system: &str, messages: &[String]) -> Prompt {
        let segment = |role, bytes: &str| Segment { role, bytes: bytes.into() };
        Prompt {
            tools: None,
            system: Some(segment(SegmentRole::System, system)),
            messages: messages.iter().map(|text| segment(SegmentRole::User, text)).collect(),
        }
    }

    proptest! {
        #[test]
        fn appending_keeps_the_prefix(old in prop::collection::vec(".{0,8}", 0..6), new in prop::collection::vec(".{0,8}", 0..6)) {
            let mark = prompt("s", &old).mark();
            let longer: Vec<_> = old.iter().chain(&new).cloned().collect();
            prop_assert!(prompt("s", &longer).continues(&mark));
        }

        #[test]
        fn changing_anything_before_the_mark_is_noticed(old in prop::collection::vec(".{0,8}", 1..6), at in 0usize..6) {
            let mark = prompt("s", &old).mark();
            prop_assert!(!prompt("t", &old).continues(&mark));
            prop_assert!(!prompt("s", &old[1..]).continues(&mark));
            let mut edited = old.clone();
            let at = at % old.len();
            edited[at].push('x');
            prop_assert!(!prompt("s", &edited).continues(&mark));
        }
    }

    #[test]
    fn hex_goes_both_ways() {
        let digest = Digest::of(&[b"a", b"b"]);
        assert_eq!(Digest::from_hex(&digest.to_hex()), Some(digest));
        assert_eq!(Digest::from_hex("zz"), None);
        assert_ne!(Digest::of(&[b"ab"]), digest);
    }
}
