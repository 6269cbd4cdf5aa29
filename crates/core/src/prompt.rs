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

/// A prompt as it grows: segments are only added, and the chain over them is kept at every length,
/// so that a long conversation costs no more to mark than a short one.
#[derive(Clone, Debug)]
pub struct Composition {
    tools: Option<Segment>,
    system: Option<Segment>,
    messages: Vec<Segment>,
    /// The digest over tools, system and the first n messages, for each n.
    chain: Vec<Digest>,
    head: Head,
    bytes: usize,
}

impl Composition {
    /// `model` is the name of the one that will be asked.
    pub fn new(model: &str, tools: Option<Segment>, system: Option<Segment>) -> Self {
        let mut composition = Self::headless();
        composition.begin(model, tools, system);
        composition
    }

    /// Messages before it is known what stands before them.
    pub fn headless() -> Self {
        Self {
            tools: None,
            system: None,
            messages: Vec::new(),
            chain: Vec::new(),
            head: Head::default(),
            bytes: 0,
        }
    }

    pub fn is_headless(&self) -> bool {
        self.chain.is_empty()
    }

    /// What stands before the messages, which are marked from here on.
    pub fn begin(&mut self, model: &str, tools: Option<Segment>, system: Option<Segment>) {
        let of = |segment: &Option<Segment>| segment.as_ref().map_or(0, |it| short(it.bytes.as_bytes()));
        self.head = Head { model: short(model.as_bytes()), tools: of(&tools), system: of(&system) };
        let fixed = tools.iter().chain(&system);
        self.bytes += fixed.clone().map(|segment| segment.bytes.len()).sum::<usize>();
        let start =
            fixed.fold(Digest::of(&[b"prompt"]), |chain, segment| chain.then(segment.bytes.as_bytes()));
        let chained = self.messages.iter().scan(start, |chain, segment| {
            *chain = chain.then(segment.bytes.as_bytes());
            Some(*chain)
        });
        self.chain = std::iter::once(start).chain(chained).collect();
        (self.tools, self.system) = (tools, system);
    }

    pub fn push(&mut self, segment: Segment) {
        if let Some(last) = self.chain.last() {
            self.chain.push(last.then(segment.bytes.as_bytes()));
        }
        self.bytes += segment.bytes.len();
        self.messages.push(segment);
    }

    /// The last message is sent in another form than it was said in. Only what has not been sent yet may
    /// be amended.
    pub fn amend(&mut self, segment: Segment) {
        if let Some(last) = self.messages.pop() {
            self.bytes -= last.bytes.len();
            self.chain.pop();
        }
        self.push(segment);
    }

    pub fn mark(&self) -> Mark {
        let chain = *self.chain.last().expect("a composition is begun before it is marked");
        Mark { chain, messages: self.messages.len(), head: self.head }
    }

    /// Whether this begins with everything `earlier` covered.
    pub fn continues(&self, earlier: &Mark) -> bool {
        self.breaks(earlier).is_none()
    }

    /// Why it does not, if it does not.
    pub fn breaks(&self, earlier: &Mark) -> Option<Break> {
        let (old, new) = (earlier.head, self.head);
        // A step written before heads were kept has only its chain.
        let known = old != Head::default();
        if known && old.model != new.model {
            return Some(Break::Model); // its cache knows nothing of ours, even if the bytes agree
        }
        if self.chain.get(earlier.messages) == Some(&earlier.chain) {
            return None;
        }
        Some(match () {
            () if known && old.tools != new.tools => Break::Tools,
            () if known && old.system != new.system => Break::System,
            () => Break::History,
        })
    }

    pub fn prompt(&self) -> Prompt {
        Prompt { tools: self.tools.clone(), system: self.system.clone(), messages: self.messages.clone() }
    }

    /// What it weighs in memory, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// How far a prompt went and what it was: stored with each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub chain: Digest,
    pub messages: usize,
    pub head: Head,
}

/// What stands before the messages, in short: enough to tell what has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub model: u64,
    pub tools: u64,
    pub system: u64,
}

/// Why a request does not begin with the bytes of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    Model,
    Tools,
    System,
    History,
}

impl fmt::Display for Break {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Break::Model => "another model is asked",
            Break::Tools => "the list of tools has changed",
            Break::System => "the system prompt has changed",
            Break::History => "what was said before has changed",
        })
    }
}

fn short(bytes: &[u8]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = Digest::of(&[bytes]).0;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn composed(system: &str, messages: &[String]) -> Composition {
        let segment = |role, bytes: &str| Segment { role, bytes: bytes.into() };
        let mut composition = Composition::new("m", None, Some(segment(SegmentRole::System, system)));
        messages.iter().for_each(|text| composition.push(segment(SegmentRole::User, text)));
        composition
    }

    #[test]
    fn what_stands_before_the_messages_may_be_known_last() {
        let segment = |role, bytes: &str| Segment { role, bytes: bytes.into() };
        let mut late = Composition::headless();
        ["a", "b"].iter().for_each(|text| late.push(segment(SegmentRole::User, text)));
        late.begin("m", None, Some(segment(SegmentRole::System, "s")));
        let early = composed("s", &["a".into(), "b".into()]);
        assert_eq!((late.mark(), late.prompt(), late.bytes()), (early.mark(), early.prompt(), early.bytes()));
    }

    proptest! {
        #[test]
        fn appending_keeps_the_prefix(old in prop::collection::vec(".{0,8}", 0..6), new in prop::collection::vec(".{0,8}", 0..6)) {
            let mark = composed("s", &old).mark();
            let longer: Vec<_> = old.iter().chain(&new).cloned().collect();
            prop_assert!(composed("s", &longer).continues(&mark));
        }

        #[test]
        fn changing_anything_before_the_mark_is_noticed(old in prop::collection::vec(".{0,8}", 1..6), at in 0usize..6) {
            let mark = composed("s", &old).mark();
            prop_assert!(!composed("t", &old).continues(&mark));
            prop_assert!(!composed("s", &old[1..]).continues(&mark));
            let mut edited = old.clone();
            let at = at % old.len();
            edited[at].push('x');
            prop_assert!(!composed("s", &edited).continues(&mark));
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
