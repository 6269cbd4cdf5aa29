//! With no memory provider a conversation that begins is reminded of earlier ones, by the words it begins
//! with. It sees what its caller may see, as the tool that searches does, and is told where to look for more.
//!
//! Deliberately absent: reminders in the middle of a conversation. A model that wants to know more searches.

use crate::agent::Home;
use crate::gateway_tools::search::when;
use std::collections::BTreeSet;
use throughline_core::SessionId;
use throughline_core::memory::MemoryError;
use throughline_core::port::{Hit, Order, Scope, SessionFilter};

/// Shorter words are in everything.
const WORD_CHARS_MIN: usize = 3;
/// Each is a search.
const WORDS_MAX: usize = 8;
/// One word in common is chance, unless it is in few conversations, or there is no more to go by.
const WORDS_ENOUGH: usize = 2;
const RARE_MAX: usize = 3;
/// Words that questions are made of, in the languages that are asked in most: they say nothing about what is asked.
const STOP_WORDS: &str = "\
    about after again all also and any are because been before but can could did does doing done for from get got had \
    has have having her here him his how into its just know let like may might more most much must not now one our out \
    over please said same say she should some such tell than that the their them then there these they this those too \
    was were what when where which while who whom why will with would yes you your \
    aber als auch auf aus bei bin bist das dass dein dem den der des die dir doch ein eine einem einen einer euch für \
    habe haben hast hat hatte ich ihm ihn ihr ihre ist kann mehr mein meine meinen meiner mich mir mit nach nicht noch \
    nur oder schon sein seine sich sie sind uns und von vor war waren warum was welche wem wen wenn wer werden wie wir \
    wird wurde zum zur \
    avec ces cette comment dans des elle est été est-ce ils les leur lui mais mes mon nous par pas pour pourquoi quand \
    que quel quelle qui sans ses son sont sur tes ton une vos votre vous \
    como con cuál cuando del donde dónde ella ellos era eres esta está este esto fue hay las los más mis muy nos para \
    pero por porque qué quién ser sin sobre soy son sus tus una unos";
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
        without_stateless: true,
        roles: vec!["user".into(), "assistant".into()],
        order: Order::Best,
        one_each: true,
        limit: CANDIDATES_MAX,
        ..SessionFilter::default()
    };
    let hits = home.library.read(move |store| {
        // The more of its words a conversation has, the more it is about the same.
        // A word that few conversations have says more about them than one that many have.
        let mut found: Vec<(Common, Hit)> = Vec::new();
        for word in &words {
            let hits = store.search(word, &filter)?;
            let share =
                Common { words: 1, rare: hits.len() <= RARE_MAX, weight: CANDIDATES_MAX / hits.len().max(1) };
            for hit in hits {
                match found.iter_mut().find(|(_, known)| known.session == hit.session) {
                    Some((common, _)) => common.add(share),
                    None => found.push((share, hit)),
                }
            }
        }
        let enough = words.len().min(WORDS_ENOUGH);
        found.retain(|(common, _)| common.rare || common.words >= enough);
        found.sort_by_key(|(common, hit)| std::cmp::Reverse((common.words, common.weight, hit.at)));
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

/// What a conversation has in common with what was said.
#[derive(Clone, Copy)]
struct Common {
    words: usize,
    /// One of them is in few conversations.
    rare: bool,
    weight: usize,
}

impl Common {
    fn add(&mut self, other: Common) {
        self.words += other.words;
        self.rare |= other.rare;
        self.weight += other.weight;
    }
}

/// Its words that say what it is about, the longer ones first. Of a script without spaces: pairs of characters.
fn words(said: &str) -> Vec<String> {
    let words = said.split(|c: char| !c.is_alphanumeric()).flat_map(|word| {
        let chars: Vec<char> = word.chars().collect();
        match chars.iter().any(|c| is_unspaced(*c)) {
            true => chars.windows(2).map(String::from_iter).collect(),
            false if chars.len() >= WORD_CHARS_MIN => vec![word.to_lowercase()],
            false => Vec::new(),
        }
    });
    let stop: BTreeSet<&str> = STOP_WORDS.split_whitespace().collect();
    let mut seen = BTreeSet::new();
    let mut words: Vec<String> =
        words.filter(|word| !stop.contains(word.as_str()) && seen.insert(word.clone())).collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
    words.truncate(WORDS_MAX);
    words
}

/// Chinese and Japanese characters; Korean has spaces, but endings that differ.
fn is_unspaced(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_say_what_it_is_about_are_searched_for_once_each() {
        assert_eq!(words("What did we say of the Harbour, the harbour tax?"), ["harbour", "tax"]);
        assert_eq!(words("What is my cat called?"), ["called", "cat"]);
        assert_eq!(words("Wie heißt meine Katze?"), ["heißt", "katze"]);
        assert_eq!(words("我的猫叫什么"), ["我的", "的猫", "猫叫", "叫什", "什么"]);
        assert_eq!(words("ok so?"), [""; 0]);
        assert_eq!(words("a \"b\" OR NEAR(x)"), ["near"]);
    }
}
