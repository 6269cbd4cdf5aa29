//! What bad input gets: a word that says what happened, to which file, and what to do next; an exit
//! code or a status to match; nothing lost, nothing overwritten, and no secret in any of it.

mod disk;
mod home;
mod model;
mod request;
mod settings;

use crate::gateway::{Ended, KEY};

/// What the gateway knows and must never say.
pub const MODEL_KEY: &str = "model-canary-93a7f0c2d84e51b6";

/// It refused to start, and these are its words, free of secrets.
fn refused(ended: &Ended) -> &str {
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    discreet(&ended.stdout);
    discreet(&ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    &ended.stderr
}

/// Says everything in `words`.
fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in:\n{text}");
    }
}

fn discreet(text: &str) {
    for secret in [KEY, MODEL_KEY] {
        assert!(!text.contains(secret), "a secret in:\n{text}");
    }
}
