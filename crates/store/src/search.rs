//! Finding what was said.
//!
//! A query is words and "phrases"; nothing a user types is an error. Hermes' word index answers
//! first. Its trigram index answers for scripts without spaces and for parts of words, and a scan
//! for what is too short for that. Of the newest thousand hits the best are shown, newest first.
//! Rows that a summary stands for are found; rows that the user took back are not. Hits in a
//! snapshot belong to its session. What a caller may not see is left out before anything is ranked.
//! A query has 64 words and phrases at most; further ones do not count.

use crate::fault::StoreFault;
use crate::lineage::{HELPER, UNFINDABLE, owner};
use crate::list::LIMIT_DEFAULT;
use crate::matcher::TextIndex;
use crate::read::{StoreReader, text, unsigned};
use rusqlite::{OptionalExtension, Row, params, params_from_iter};
use std::collections::HashSet;
use throughline_core::id::{RowId, SNAPSHOT_INFIX, SessionId};
use throughline_core::port::{Hit, Order, SessionFilter};
use throughline_core::time::Time;

/// Ranking more than this costs time and changes little: older hits rarely win.
const CANDIDATES_MAX: usize = 1_000;
/// A caller with fewer rows than this has them read one by one, rather than everybody's hits.
const SMALL_SCOPE_ROWS: usize = 5_000;
/// From here on it is cheaper to go through all hits than to ask about each row.
const PROBES_MAX: usize = 400;
/// How far back a scan looks. A longer word finds what lies further back.
const SCAN_ROWS: usize = 100_000;
const QUERY_CHARS_MAX: usize = 2_048;
/// Words and phrases of one query. Each is looked for in every candidate, and is a condition of SQL.
const TERMS_MAX: usize = 64;
/// SQLite compares each match in a row with each other to choose a passage. Of a longer text the first match is shown.
const CHOSEN_PASSAGE_BYTES_MAX: usize = 8 << 10;
const SELECTED: &str =
    "SELECT m.id, m.session_id, m.role, m.timestamp, s.source, m.content, m.tool_name, m.tool_calls";
const SNIPPET_TOKENS: usize = 40;
const SNIPPET_CHARS: usize = 80;

/// A row that matches, with what ranks it.
struct SearchCandidate {
    id: i64,
    session: SessionId,
    role: String,
    at: Time,
    text: String,
    index: Option<TextIndex>,
    /// Its source is one of those that come last.
    demoted: bool,
}

/// Which rows may be shown.
struct Scope<'a> {
    sessions: Option<HashSet<String>>,
    excluded: HashSet<String>,
    /// The rows of a snapshot, if nothing else is looked for.
    rows: Option<HashSet<i64>>,
    filter: &'a SessionFilter,
    /// As a condition on `m` and `s`.
    findable: String,
}

impl Scope<'_> {
    fn has(&self, session: &str, source: &str, role: &str) -> bool {
        let SessionFilter { source: wanted, roles, .. } = self.filter;
        self.sessions.as_ref().is_none_or(|sessions| sessions.contains(owner(session)))
            && !self.excluded.contains(owner(session))
            && wanted.as_deref().is_none_or(|wanted| wanted == source)
            && (roles.is_empty() || roles.iter().any(|wanted| wanted == role))
    }

    /// In which direction rows are gone through, if not all of them can be.
    fn direction(&self) -> &'static str {
        match self.filter.order {
            Order::Oldest => "ASC",
            Order::Recent | Order::Best | Order::Newest => "DESC",
        }
    }
}

impl StoreReader {
    pub(crate) fn find(&self, query: &str, filter: &SessionFilter) -> Result<Vec<Hit>, StoreFault> {
        let SearchQuery { terms, in_parts } = SearchQuery::parse(query);
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let scope = self.scope(filter)?;
        let mut found = self.candidates(&terms, in_parts, &scope)?;
        found.extend(self.not_yet_indexed(&terms, &scope, &found)?);
        match filter.order {
            Order::Oldest => found.sort_by_key(|candidate| candidate.id),
            _ => found.sort_by_key(|candidate| std::cmp::Reverse(candidate.id)),
        }
        found.truncate(CANDIDATES_MAX);
        let limit = if filter.limit == 0 { LIMIT_DEFAULT } else { filter.limit };
        let mut found = in_order(ranked(found, &terms), filter.order);
        if filter.one_each {
            found = self.one_of_each(found, filter.offset.saturating_add(limit))?;
        }
        let mut page: Vec<_> = found.into_iter().skip(filter.offset).take(limit).collect();
        if filter.order == Order::Recent {
            page.sort_by_key(|candidate| (candidate.demoted, std::cmp::Reverse(candidate.id)));
        }
        page.into_iter().map(|candidate| self.hit(candidate, &terms)).collect()
    }

    fn scope<'a>(&self, filter: &'a SessionFilter) -> Result<Scope<'a>, StoreFault> {
        let mut sessions = self.visible(filter.scope.as_ref())?;
        let mut only = |these: HashSet<String>| {
            sessions = Some(match sessions.take() {
                Some(those) => &those & &these,
                None => these,
            });
        };
        if let Some(principal) = &filter.principal {
            only(self.of_principal(principal)?);
        }
        if let Some(session) = &filter.session {
            only(HashSet::from([session.to_string()]));
        }
        let excluded = match &filter.exclude {
            Some(session) => self.relatives(session)?,
            None => HashSet::new(),
        };
        // A search that names a snapshot finds what stands there, taken back or not.
        let findable = if filter.snapshot.is_some() { "TRUE" } else { self.variants.findable };
        let findable = match filter.without_helpers {
            true => format!("{findable} AND NOT {HELPER}"),
            false => findable.to_owned(),
        };
        let findable = match filter.without_stateless {
            true => format!("{findable} AND NOT {UNFINDABLE}"),
            false => findable,
        };
        let rows = match &filter.snapshot {
            Some(name) => Some(self.rows_in(name)?.unwrap_or_default().into_iter().collect()),
            None => None,
        };
        Ok(Scope { sessions, excluded, rows, filter, findable })
    }

    /// Of each conversation the first, until there are enough.
    fn one_of_each(
        &self,
        found: Vec<SearchCandidate>,
        enough: usize,
    ) -> Result<Vec<SearchCandidate>, StoreFault> {
        let mut seen = HashSet::new();
        let mut firsts = Vec::new();
        for candidate in found {
            if firsts.len() == enough {
                break;
            }
            if seen.insert(self.root_of(candidate.session.as_str())?) {
                firsts.push(candidate);
            }
        }
        Ok(firsts)
    }

    fn candidates(
        &self,
        terms: &[String],
        in_parts: bool,
        scope: &Scope<'_>,
    ) -> Result<Vec<SearchCandidate>, StoreFault> {
        let can = &self.variants.can;
        if can.has_word_index && !in_parts {
            let found = self.indexed(TextIndex::Words, terms, scope)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        match can.has_trigram_index && terms.iter().all(|term| term.chars().count() >= 3) {
            true => self.indexed(TextIndex::Trigrams, terms, scope),
            false => self.scanned(terms, scope),
        }
    }

    fn indexed(
        &self,
        index: TextIndex,
        terms: &[String],
        scope: &Scope<'_>,
    ) -> Result<Vec<SearchCandidate>, StoreFault> {
        match self.small_scope(scope)? {
            Some(rows) => self.sifted(index, terms, &rows, scope),
            None => self.streamed(index, &TextIndex::query(terms), scope),
        }
    }

    /// All rows of the scope, newest first, if they are few.
    fn small_scope(&self, scope: &Scope<'_>) -> Result<Option<Vec<i64>>, StoreFault> {
        if let Some(rows) = &scope.rows {
            let mut rows: Vec<i64> = rows.iter().copied().collect();
            rows.sort_unstable_by_key(|row| std::cmp::Reverse(*row));
            return Ok(Some(rows));
        }
        let Some(sessions) = &scope.sessions else { return Ok(None) };
        let mut rows: Vec<i64> = Vec::new();
        // A snapshot's rows lie under its name, which begins with its session's.
        let sql = "SELECT id FROM messages WHERE session_id = ?1
                   UNION ALL SELECT id FROM messages WHERE session_id > ?2 AND session_id < ?3";
        let mut statement = self.conn.prepare_cached(sql)?;
        for session in sessions {
            let below = format!("{session}{SNAPSHOT_INFIX}");
            let above = format!("{below}\u{10ffff}");
            let mut found = statement.query([session, &below, &above])?;
            while let Some(row) = found.next()? {
                rows.push(row.get(0)?);
                if rows.len() > SMALL_SCOPE_ROWS {
                    return Ok(None);
                }
            }
        }
        rows.sort_unstable_by_key(|row| std::cmp::Reverse(*row));
        Ok(Some(rows))
    }

    /// Reads the rows themselves, and asks the index only about those of which it alone is certain.
    fn sifted(
        &self,
        index: TextIndex,
        terms: &[String],
        rows: &[i64],
        scope: &Scope<'_>,
    ) -> Result<Vec<SearchCandidate>, StoreFault> {
        let of_session = self.variants.of_session;
        let sql = format!("{SELECTED} FROM messages m {of_session} WHERE m.id = ?1 AND {}", scope.findable);
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut found = Vec::new();
        let mut doubtful = Vec::new();
        for row in rows {
            let mut rows = statement.query([row])?;
            let Some(row) = rows.next()? else { continue };
            let Some(candidate) = candidate(row, Some(index), scope)? else { continue };
            match index.matches(&candidate.text, terms) {
                Some(true) => found.push(candidate),
                Some(false) => {}
                None => doubtful.push(candidate),
            }
        }
        let ids: Vec<i64> = doubtful.iter().map(|candidate| candidate.id).collect();
        let matching = self.matching(index, &TextIndex::query(terms), &ids)?;
        found.extend(doubtful.into_iter().filter(|candidate| matching.contains(&candidate.id)));
        Ok(found)
    }

    /// Those of these rows, given newest first, that the index has for this query.
    fn matching(&self, index: TextIndex, query: &str, rows: &[i64]) -> Result<HashSet<i64>, StoreFault> {
        let table = index.table();
        let mut matching = HashSet::new();
        if rows.len() <= PROBES_MAX {
            let sql = format!("SELECT 1 FROM {table} WHERE {table} MATCH ?1 AND rowid = ?2");
            let mut probe = self.conn.prepare_cached(&sql)?;
            for row in rows {
                if probe.exists(params![query, row])? {
                    matching.insert(*row);
                }
            }
            return Ok(matching);
        }
        let (newest, oldest) = (rows[0], rows[rows.len() - 1]);
        let wanted: HashSet<i64> = rows.iter().copied().collect();
        let sql = format!("SELECT rowid FROM {table} WHERE {table} MATCH ?1 AND rowid BETWEEN ?2 AND ?3");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut hits = statement.query(params![query, oldest, newest])?;
        while let Some(hit) = hits.next()? {
            matching.extend(Some(hit.get(0)?).filter(|row| wanted.contains(row)));
        }
        Ok(matching)
    }

    fn streamed(
        &self,
        index: TextIndex,
        query: &str,
        scope: &Scope<'_>,
    ) -> Result<Vec<SearchCandidate>, StoreFault> {
        let (table, of_session) = (index.table(), self.variants.of_session);
        let sql = format!(
            "{SELECTED} FROM {table} CROSS JOIN messages m ON m.id = {table}.rowid {of_session}
             WHERE {table} MATCH ?1 AND {} ORDER BY {table}.rowid {}",
            scope.findable,
            scope.direction()
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([query])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.extend(candidate(row, Some(index), scope)?);
            if found.len() == CANDIDATES_MAX {
                break;
            }
        }
        Ok(found)
    }

    /// For words too short for an index of three letters.
    fn scanned(&self, terms: &[String], scope: &Scope<'_>) -> Result<Vec<SearchCandidate>, StoreFault> {
        let sql = format!("SELECT id FROM messages ORDER BY id DESC LIMIT 1 OFFSET {SCAN_ROWS}");
        let oldest: Option<i64> =
            self.conn.prepare_cached(&sql)?.query_row([], |row| row.get(0)).optional()?;
        let from = format!("messages m {} WHERE m.id > {}", self.variants.of_session, oldest.unwrap_or(0));
        self.likened(&from, terms, scope)
    }

    /// What a writer beside us has committed and not indexed yet.
    fn not_yet_indexed(
        &self,
        terms: &[String],
        scope: &Scope<'_>,
        found: &[SearchCandidate],
    ) -> Result<Vec<SearchCandidate>, StoreFault> {
        let known: HashSet<i64> = found.iter().map(|candidate| candidate.id).collect();
        let of_session = self.variants.of_session;
        let from = format!("tl_unindexed u CROSS JOIN messages m ON m.id = u.id {of_session} WHERE TRUE");
        let mut fresh = self.likened(&from, terms, scope)?;
        fresh.retain(|candidate| !known.contains(&candidate.id));
        Ok(fresh)
    }

    fn likened(
        &self,
        from: &str,
        terms: &[String],
        scope: &Scope<'_>,
    ) -> Result<Vec<SearchCandidate>, StoreFault> {
        let one = "(m.content LIKE ? ESCAPE '\\' OR m.tool_name LIKE ? ESCAPE '\\' OR m.tool_calls LIKE ? ESCAPE '\\')";
        let all = vec![one; terms.len()].join(" AND ");
        let (findable, direction) = (&scope.findable, scope.direction());
        let sql = format!("{SELECTED} FROM {from} AND {findable} AND {all} ORDER BY m.id {direction}");
        let patterns = terms.iter().flat_map(|term| std::iter::repeat_n(like_pattern(term), 3));
        let mut statement = self.conn.prepare(&sql)?; // its text depends on the query: not worth keeping
        let mut rows = statement.query(params_from_iter(patterns))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.extend(candidate(row, None, scope)?);
            if found.len() == CANDIDATES_MAX {
                break;
            }
        }
        Ok(found)
    }

    fn hit(&self, candidate: SearchCandidate, terms: &[String]) -> Result<Hit, StoreFault> {
        let marked = match candidate.index {
            Some(index) if candidate.text.len() <= CHOSEN_PASSAGE_BYTES_MAX => {
                self.marked(index, candidate.id, terms)?
            }
            _ => None,
        };
        let snippet = marked.unwrap_or_else(|| excerpt(&candidate.text, terms));
        let title = self
            .conn
            .prepare_cached("SELECT title FROM sessions WHERE id = ?1")?
            .query_row([candidate.session.as_str()], |row| row.get(0))
            .optional()?
            .flatten();
        Ok(Hit {
            session: candidate.session,
            row: RowId(candidate.id as u64),
            role: candidate.role,
            at: candidate.at,
            snippet: snippet.replace("\0json:", "").trim().to_owned(),
            title,
        })
    }

    /// The index knows best what it matched: other forms of a letter, say.
    fn marked(&self, index: TextIndex, row: i64, terms: &[String]) -> Result<Option<String>, StoreFault> {
        let table = index.table();
        let sql = format!(
            "SELECT snippet({table}, 0, '>>>', '<<<', '...', {SNIPPET_TOKENS}) FROM {table}
             WHERE {table} MATCH ?1 AND rowid = ?2"
        );
        let query = TextIndex::query(terms);
        let found =
            self.conn.prepare_cached(&sql)?.query_row(params![query, row], |row| text(row, 0)).optional()?;
        Ok(found.flatten())
    }
}

fn candidate(
    row: &Row<'_>,
    index: Option<TextIndex>,
    scope: &Scope<'_>,
) -> Result<Option<SearchCandidate>, StoreFault> {
    let session: String = row.get(1)?;
    let role: String = row.get(2)?;
    let source: String = row.get(4)?;
    let is_elsewhere = match &scope.rows {
        Some(rows) => !rows.contains(&row.get(0)?),
        None => false,
    };
    if is_elsewhere || !scope.has(&session, &source, &role) {
        return Ok(None);
    }
    let Ok(session) = owner(&session).parse() else { return Ok(None) };
    let parts = [text(row, 5)?, text(row, 6)?, text(row, 7)?];
    Ok(Some(SearchCandidate {
        id: unsigned(row, 0)? as i64,
        session,
        role,
        at: Time::from_seconds(row.get(3)?),
        text: parts.into_iter().flatten().collect::<Vec<_>>().join(" "),
        index,
        demoted: scope.filter.demoted.contains(&source),
    }))
}

/// From the best to the last, those that come last at the end.
fn in_order(mut ranked: Vec<SearchCandidate>, order: Order) -> Vec<SearchCandidate> {
    match order {
        Order::Recent | Order::Best => {}
        Order::Newest => ranked.sort_by_key(|candidate| std::cmp::Reverse(candidate.at)),
        Order::Oldest => ranked.sort_by_key(|candidate| candidate.at),
    }
    ranked.sort_by_key(|candidate| candidate.demoted);
    ranked
}

/// What a user typed, as words and phrases.
struct SearchQuery {
    terms: Vec<String>,
    /// Written with a star, or in a script without spaces: a part of a word is enough. The word
    /// index could do that for beginnings, but on a large home it takes minutes.
    in_parts: bool,
}

impl SearchQuery {
    fn parse(text: &str) -> Self {
        let text: String = text.chars().take(QUERY_CHARS_MAX).filter(|c| *c != '\0').collect();
        let mut in_parts = text.chars().any(is_cjk);
        let mut terms = Vec::new();
        // Outside quotes are words, inside is a phrase; a quote that is never closed opens one, too.
        for (nth, piece) in text.split('"').enumerate() {
            match nth % 2 {
                0 => terms.extend(piece.split_whitespace().map(|word| {
                    in_parts |= word.ends_with('*');
                    word.trim_end_matches('*').to_owned()
                })),
                _ => terms.push(piece.trim().to_owned()),
            }
        }
        let mut seen = HashSet::new();
        terms.retain(|term| term.chars().any(char::is_alphanumeric) && seen.insert(term.clone()));
        terms.truncate(TERMS_MAX);
        Self { terms, in_parts }
    }
}

fn like_pattern(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{escaped}%")
}

fn is_cjk(c: char) -> bool {
    matches!(u32::from(c),
        0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x20000..=0x2ffff)
}

/// BM25 over the candidates themselves, best first; of equals the newest.
fn ranked(found: Vec<SearchCandidate>, terms: &[String]) -> Vec<SearchCandidate> {
    const SATURATION: f64 = 1.2;
    const LENGTH_WEIGHT: f64 = 0.75;
    let wanted: Vec<String> = terms.iter().map(|term| term.to_lowercase()).collect();
    let counts: Vec<Vec<f64>> = found
        .iter()
        .map(|candidate| {
            let text = candidate.text.to_lowercase();
            wanted.iter().map(|term| text.matches(term.as_str()).count() as f64).collect()
        })
        .collect();
    let total = found.len() as f64;
    let average = found.iter().map(|candidate| candidate.text.len() as f64).sum::<f64>() / total.max(1.0);
    let rarity: Vec<f64> = (0..wanted.len())
        .map(|term| counts.iter().filter(|counts| counts[term] > 0.0).count() as f64)
        .map(|having| ((total - having + 0.5) / (having + 0.5) + 1.0).ln())
        .collect();
    let mut scored: Vec<(f64, SearchCandidate)> = Vec::with_capacity(found.len());
    for (candidate, counts) in found.into_iter().zip(counts) {
        let length = candidate.text.len() as f64 / average.max(1.0);
        let damp = SATURATION * (1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length);
        let score = counts
            .iter()
            .enumerate()
            // The index may have matched another form of the word than the one that was typed.
            .map(|(term, count)| (term, count.max(1.0)))
            .map(|(term, count)| rarity[term] * count * (SATURATION + 1.0) / (count + damp))
            .sum();
        scored.push((score, candidate));
    }
    scored.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(y.id.cmp(&x.id)));
    scored.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The words around the first match, for rows that no index has.
fn excerpt(text: &str, terms: &[String]) -> String {
    let lower = text.to_lowercase();
    // Lowering may change lengths; only then is the place of the match unknown.
    let place = (lower.len() == text.len())
        .then(|| {
            let places = terms.iter().filter_map(|term| {
                let wanted = term.to_lowercase();
                lower.find(&wanted).map(|at| (at, at + wanted.len()))
            });
            places.min()
        })
        .flatten()
        .filter(|(start, end)| text.is_char_boundary(*start) && text.is_char_boundary(*end));
    let Some((start, end)) = place else { return text.chars().take(2 * SNIPPET_CHARS).collect() };
    let before: Vec<char> = text[..start].chars().rev().take(SNIPPET_CHARS).collect();
    let before: String = before.into_iter().rev().collect();
    let after: String = text[end..].chars().take(SNIPPET_CHARS).collect();
    let lead = if before.len() < start { "..." } else { "" };
    let tail = if after.len() < text.len() - end { "..." } else { "" };
    format!("{lead}{before}>>>{}<<<{after}{tail}", &text[start..end])
}

#[cfg(test)]
mod linear;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_phrases_and_stars_are_told_apart() {
        for (text, terms, in_parts) in [
            (
                r#"deploy "exact phrase" -- a.b ??? "open"#,
                vec!["deploy", "exact phrase", "a.b", "open"],
                false,
            ),
            ("deploy*", vec!["deploy"], true),
            ("漢字", vec!["漢字"], true),
            ("\0 ? \" --", vec![], false),
        ] {
            let query = SearchQuery::parse(text);
            assert_eq!(
                (query.terms, query.in_parts),
                (terms.iter().map(|&t| t.to_owned()).collect(), in_parts)
            );
        }
    }

    #[test]
    fn an_excerpt_marks_the_first_match() {
        assert_eq!(excerpt("say Hello world", &["hello".into()]), "say >>>Hello<<< world");
        let long = format!("{}needle{}", "x".repeat(500), "y".repeat(500));
        let cut = excerpt(&long, &["needle".into()]);
        assert!(cut.starts_with("...x") && cut.contains(">>>needle<<<") && cut.ends_with("y..."), "{cut}");
    }

    proptest! {
        #[test]
        fn an_excerpt_never_panics(text in any::<String>(), word in "\\PC{1,6}") {
            let _ = excerpt(&text, &[word]);
        }
    }
}
