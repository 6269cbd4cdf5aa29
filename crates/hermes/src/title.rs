//! Titles of sessions: cleaned, at most a hundred characters, and each held by one session only.

/// In characters, as Hermes counts them.
pub const LENGTH_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the title has {length} characters; at most {LENGTH_MAX} fit")]
pub struct TitleTooLong {
    pub length: usize,
}

/// Without control characters, invisible ones and doubled spaces. None if nothing is left.
pub fn clean(title: &str) -> Result<Option<String>, TitleTooLong> {
    let visible: String = title.chars().filter(|c| !is_dropped(*c)).collect();
    let words: Vec<_> = visible.split_whitespace().collect();
    let cleaned = words.join(" ");
    match cleaned.chars().count() {
        0 => Ok(None),
        length if length > LENGTH_MAX => Err(TitleTooLong { length }),
        _ => Ok(Some(cleaned)),
    }
}

/// The title without its number: `X` of `X #3`.
pub fn base(title: &str) -> &str {
    numbered(title).map_or(title, |(base, _)| base)
}

/// The pattern for `LIKE … ESCAPE '\'` that finds the numbered titles of `base`.
pub fn numbered_pattern(base: &str) -> String {
    format!("{} #%", base.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_"))
}

/// The next free title of a lineage. `held` are the titles that exist among [`base`] and what
/// [`numbered_pattern`] finds: none, and it is the base itself; else the highest number plus one.
pub fn next<'a>(title: &str, held: impl IntoIterator<Item = &'a str>) -> String {
    let base = base(title);
    // The one without a number counts as the first.
    let highest = held.into_iter().map(|held| numbered(held).map_or(1, |(_, number)| number.max(1))).max();
    match highest {
        None => base.to_owned(),
        Some(highest) => format!("{base} #{}", highest.saturating_add(1)),
    }
}

/// A title that ends in ` #` and digits, divided there.
fn numbered(title: &str) -> Option<(&str, u64)> {
    let (base, digits) = title.rsplit_once(" #")?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((base, digits.parse().ok().filter(|_| is_number)?))
}

/// What a reader cannot see or what turns text around. White space is dealt with as such.
fn is_dropped(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffc}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::python;

    #[test]
    fn titles_are_cleaned() {
        for (title, cleaned) in [
            ("  a \t b\n\nc ", Some("a b c")),
            ("a\u{0}b\u{7f}c\u{200b}d\u{202e}e\u{feff}f\u{fffc}", Some("abcdef")),
            ("a\u{a0}\u{3000}b\u{85}", Some("a b")),
            ("a\u{c}b", Some("ab")),
            (" \u{200b} ", None),
            ("", None),
        ] {
            assert_eq!(clean(title), Ok(cleaned.map(str::to_owned)), "{title:?}");
        }
        assert_eq!(clean(&"é".repeat(100)), Ok(Some("é".repeat(100))));
        assert_eq!(clean(&"é".repeat(101)), Err(TitleTooLong { length: 101 }));
    }

    #[test]
    fn every_character_is_judged_as_by_python() {
        let script = "import re,sys\n\
            for c in map(chr, [*range(0xd800), *range(0xe000, 0x11000)]):\n \
             c = re.sub(r'[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]', '', 'x' + c + 'y')\n \
             c = re.sub(r'[\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\ufffc\\ufff9-\\ufffb]', '', c)\n \
             print(re.sub(r'\\s+', ' ', c).strip())";
        let answers = python(script, "");
        let chars = ('\0'..'\u{11000}').zip(answers.split('\n'));
        for (c, theirs) in chars.clone() {
            assert_eq!(clean(&format!("x{c}y")).unwrap().unwrap(), theirs, "{c:?}");
        }
        assert_eq!(chars.count(), 0x11000 - 0x800);
    }

    #[test]
    fn a_title_taken_gets_the_next_number() {
        for (title, held, next_title) in [
            ("X", vec![], "X"),
            ("X #7", vec![], "X"),
            ("X", vec!["X"], "X #2"),
            ("X #2", vec!["X", "X #2"], "X #3"),
            ("X", vec!["X #9", "X #10"], "X #11"),
            ("X", vec!["X #beta"], "X #2"),
            ("X", vec!["X #0"], "X #2"),
            ("X #2 #3", vec!["X #2"], "X #2 #3"),
            ("X#2", vec!["X#2"], "X#2 #2"),
            ("C #", vec!["C #"], "C # #2"),
        ] {
            assert_eq!(next(title, held.iter().copied()), next_title, "{title:?} {held:?}");
        }
    }

    #[test]
    fn wildcards_in_a_title_mean_themselves() {
        assert_eq!(numbered_pattern("50%_a\\b"), "50\\%\\_a\\\\b #%");
        assert_eq!(base("50% #12"), "50%");
        assert_eq!(base("50% #x"), "50% #x");
    }
}
