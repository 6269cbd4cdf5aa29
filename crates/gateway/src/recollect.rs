//! With no memory provider a conversation that begins is reminded of earlier ones, by the words it begins
//! with. It sees what its caller may see, as the tool that searches does, and is told where to look for more.
//!
//! Deliberately absent: reminders in the middle of a conversation. Whoever wants to know more searches.

use crate::agent::Home;
use crate::hands::search::when;
use std::collections::BTreeSet;
use throughline_core::SessionId;
use throughline_core::memory::MemoryError;
use throughline_core::port::{Hit, Order, Scope, SessionFilter};

/// Shorter words are in everything.
const WORD_CHARS_MIN: usize = 4;
const WORDS_MAX: usize = 6;
/// One word in common is chance, unless there is no more to go by.
const WORDS_ENOUGH: usize = 2;
const CANDIDATES_MAX: usize = 10;
const HITS_MAX: usize = 3;

pub(crate) async fn recollect(
    home: &Home,
    session: SessionId,
    scope: Scope,
    said: &str,
) -> Result<String, MemoryError> {
    let words = words(said);
    let filter = SessionFilter {
        scope: Some(scope),
        exclude: Some(session),
        without_helpers: true,
        roles: vec!["user".into(), "assistant".into()],
        order: Order::Best,
        one_each: true,
        limit: CANDIDATES_MAX,
        ..SessionFilter::default()
    };
    let hits = home.library.read(move |store| {
        // The more of its words a conversation has, the more it is about the same.
        let mut found: Vec<(usize, Hit)> = Vec::new();
        for word in &words {
            for hit in store.search(word, &filter)? {
                match found.iter_mut().find(|(_, known)| known.session == hit.session) {
                    Some((words, _)) => *words += 1,
                    None => found.push((1, hit)),
                }
            }
        }
        let enough = words.len().min(WORDS_ENOUGH);
        found.retain(|(words, _)| *words >= enough);
        found.sort_by_key(|(words, hit)| std::cmp::Reverse((*words, hit.at)));
        found.truncate(HITS_MAX);
        Ok(found.into_iter().map(|(_, hit)| hit).collect::<Vec<_>>())
    });
    let hits = hits.await.map_err(|error| MemoryError::Later(error.to_string()))?;
    if hits.is_empty() {
        return Ok(String::new());
    }
    let mut text = "From earlier conversations; session_search finds the rest:".to_owned();
    for hit in hits {
        let snippet = hit.snippet.replace(">>>", "").replace("<<<", "");
        let snippet = snippet.split_whitespace().collect::<Vec<_>>().join(" ");
        let title = hit.title.map(|title| format!(" ({title})")).unwrap_or_default();
        text.push_str(&format!("\n- {}{title}, {}: {snippet}", when(hit.at), hit.role));
    }
    Ok(text)
}

/// Its longer words.
fn words(said: &str) -> Vec<String> {
    let words = said.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| word.chars().count() >= WORD_CHARS_MIN).map(str::to_lowercase);
    let mut seen = BTreeSet::new();
    let mut words: Vec<String> = words.filter(|word| seen.insert(word.clone())).collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
    words.truncate(WORDS_MAX);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_words_are_searched_for_once_each() {
        assert_eq!(words("What did we say of the Harbour, the harbour tax?"), ["harbour", "what"]);
        assert_eq!(words("ok so?"), [""; 0]);
        assert_eq!(words("a \"b\" OR NEAR(x)"), ["near"]);
    }
}
