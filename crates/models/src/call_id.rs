//! Ids for calls that came without one. Made from the request they answer: unique in a
//! conversation, which only grows, and the same if the same request is answered again.

use std::cell::LazyCell;
use throughline_core::prompt::{Digest, Prompt};

const DIGITS: usize = 24;

/// Names the calls of one answer, by their place in it. The request is read when the first of them needs a name, and once.
pub(crate) fn maker(session: &str, prompt: &Prompt) -> impl Fn(usize) -> String {
    let request = LazyCell::new(move || {
        let length = prompt.messages.len().to_le_bytes();
        let last = prompt.messages.last().map_or("", |segment| &segment.bytes);
        Digest::of(&[session.as_bytes(), &length, last.as_bytes()])
    });
    move |index| {
        let digest = Digest::of(&[&request.0, &index.to_le_bytes()]);
        format!("call_{}", &digest.to_hex()[..DIGITS])
    }
}
