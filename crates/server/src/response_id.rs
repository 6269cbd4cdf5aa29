//! The id of a response: it names the turn, and is signed with the API key.
//!
//! Nothing is stored for it. Because of the signature a client can neither make up an id nor
//! reach another turn by changing one; a new key makes old ids unknown, as it makes their
//! caller another one.

use crate::auth::ApiKeyGuard;
use std::fmt::Write;
use throughline_core::{Seq, SessionId};

/// Hexadecimal digits: 96 bits. A shortened digest cannot be carried on, either.
const SEAL_LENGTH: usize = 24;
const PREFIX: &str = "resp_";

/// The turn that a response's id stands for: what `throughline why` needs to find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseId {
    pub session: SessionId,
    pub seq: Seq,
}

impl ResponseId {
    /// `resp_`, the seal, the number of the input, `x`, and the session's name in hexadecimal:
    /// letters and digits only, as clients expect it of an id.
    pub(crate) fn issue(&self, guard: &ApiKeyGuard) -> String {
        let mut id = format!("{PREFIX}{}{}x", self.seal(guard), self.seq);
        for byte in self.session.as_str().bytes() {
            let _ = write!(id, "{byte:02x}"); // writing to a text cannot fail
        }
        id
    }

    /// What the id says, if it was issued here.
    pub(crate) fn check(id: &str, guard: &ApiKeyGuard) -> Option<Self> {
        let ticket = Self::read(id)?;
        (ticket.issue(guard) == id).then_some(ticket)
    }

    /// What the id says, checked by no key. For callers who may see everything anyway.
    pub fn read(id: &str) -> Option<Self> {
        let rest = id.strip_prefix(PREFIX)?.get(SEAL_LENGTH..)?;
        let (seq, name) = rest.split_once('x')?;
        Some(Self { session: from_hex(name)?.parse().ok()?, seq: Seq(seq.parse().ok()?) })
    }

    fn seal(&self, guard: &ApiKeyGuard) -> String {
        let mut seal = guard.seal(&[self.session.as_str().as_bytes(), &self.seq.0.to_le_bytes()]).to_hex();
        seal.truncate(SEAL_LENGTH);
        seal
    }
}

fn from_hex(text: &str) -> Option<String> {
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok();
    String::from_utf8(pairs.map(byte).collect::<Option<_>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn p31_an_id_is_good_only_as_it_was_issued() {
        let guard = ApiKeyGuard::new("key", "");
        let ticket = ResponseId { session: "api_1_ü".parse().unwrap(), seq: Seq(12) };
        let id = ticket.issue(&guard);
        assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{id}");
        assert_eq!(ResponseId::check(&id, &guard), Some(ticket.clone()));
        assert_eq!(ResponseId::check(&id, &ApiKeyGuard::new("other", "")), None);
        assert_eq!(ResponseId::read(&id), Some(ticket));
        for (i, _) in id.char_indices() {
            let mut forged = id.clone();
            let other = if &id[i..=i] == "7" { "8" } else { "7" };
            forged.replace_range(i..=i, other);
            assert_eq!(ResponseId::check(&forged, &guard), None, "{forged}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in ".*", hex in "resp_[0-9a-fx]{0,80}") {
            let _ = ResponseId::read(&text);
            let _ = ResponseId::check(&hex, &ApiKeyGuard::new("key", ""));
        }
    }
}
