//! Ids for calls that came without one. Made from the request they answer: unique in a
//! conversation, which only grows, and the same if the same request is answered again.

use throughline_core::prompt::{Digest, Prompt};

const DIGITS: usize = 24;

pub(crate) fn made(session: &str, prompt: &Prompt, index: usize) -> String {
    let length = prompt.messages.len().to_le_bytes();
    let last = prompt.messages.last().map_or("", |segment| &segment.bytes);
    let digest = Digest::of(&[session.as_bytes(), &length, last.as_bytes(), &index.to_le_bytes()]);
    format!("call_{}", &digest.to_hex()[..DIGITS])
}
