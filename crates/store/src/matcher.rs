//! Whether a text matches, told without the index, where that is certain.
//!
//! To ask the index about one row costs as much as to read fifty. Plain ASCII has no letters with
//! several forms, so there the index's own rules are simple enough to follow exactly; for any other
//! text the index must be asked.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextIndex {
    Words,
    Trigrams,
}

impl TextIndex {
    pub fn table(self) -> &'static str {
        match self {
            TextIndex::Words => "messages_fts",
            TextIndex::Trigrams => "messages_fts_trigram",
        }
    }

    /// The query in the index's language: every term in quotes, so that none of it is syntax.
    pub fn query(terms: &[String]) -> String {
        let quoted = terms.iter().map(|term| format!("\"{}\"", term.replace('"', "\"\"")));
        quoted.collect::<Vec<_>>().join(" ")
    }

    /// What the index would say about a row of this text; None where only the index knows.
    pub fn matches(self, text: &str, terms: &[String]) -> Option<bool> {
        let is_plain = |text: &str| text.is_ascii() && !text.contains('\0');
        if !is_plain(text) || !terms.iter().all(|term| is_plain(term)) {
            return None;
        }
        let text = text.to_ascii_lowercase();
        let mut terms = terms.iter().map(|term| term.to_ascii_lowercase());
        Some(match self {
            TextIndex::Trigrams => terms.all(|term| text.contains(&term)),
            TextIndex::Words => {
                let words: Vec<&str> = words(&text).collect();
                terms.all(|term| has_phrase(&words, &term))
            }
        })
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

/// The words of a phrase must follow each other. Each word of the text is looked at once, however often the phrase
/// almost stands there (Knuth, Morris and Pratt).
fn has_phrase(text: &[&str], phrase: &str) -> bool {
    let phrase: Vec<&str> = words(phrase).collect();
    if phrase.is_empty() {
        return false;
    }
    // How much of the phrase still stands behind us once this much of it did not go on.
    let mut left = vec![0; phrase.len()];
    let go_on = |left: &[usize], mut stands: usize, word: &str| loop {
        match phrase[stands] == word {
            true => return stands + 1,
            false if stands == 0 => return 0,
            false => stands = left[stands - 1],
        }
    };
    for at in 1..phrase.len() {
        left[at] = go_on(&left, left[at - 1], phrase[at]);
    }
    let mut stands = 0;
    text.iter().any(|word| {
        stands = go_on(&left, stands, word);
        stands == phrase.len()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rusqlite::Connection;

    fn index(text: &str) -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE VIRTUAL TABLE messages_fts USING fts5(content);
             CREATE VIRTUAL TABLE messages_fts_trigram USING fts5(content, tokenize='trigram');",
        )
        .unwrap();
        for table in ["messages_fts", "messages_fts_trigram"] {
            conn.execute(&format!("INSERT INTO {table} VALUES (?1)"), [text]).unwrap();
        }
        conn
    }

    proptest! {
        #[test]
        fn the_matcher_says_what_the_index_says(
            text in "[a-cA-C0-1 .,_-]{0,24}",
            terms in prop::collection::vec("[a-cA-C0-1][a-cA-C0-1 ._-]{2,4}", 1..3),
        ) {
            let conn = index(&text);
            for index in [TextIndex::Words, TextIndex::Trigrams] {
                let table = index.table();
                let sql = format!("SELECT count(*) FROM {table} WHERE {table} MATCH ?1");
                let found: i64 = conn.query_row(&sql, [TextIndex::query(&terms)], |row| row.get(0)).unwrap();
                prop_assert_eq!(index.matches(&text, &terms), Some(found == 1), "{:?}", index);
            }
        }
    }

    #[test]
    fn what_has_several_forms_is_left_to_the_index() {
        let term = |text: &str| [text.to_owned()];
        assert_eq!(TextIndex::Words.matches("café", &term("cafe")), None);
        assert_eq!(TextIndex::Words.matches("cafe", &term("café")), None);
        assert_eq!(TextIndex::Words.matches("\0json:[]", &term("json")), None);
        assert_eq!(TextIndex::Words.matches("a cafe", &term("Cafe")), Some(true));
    }
}
