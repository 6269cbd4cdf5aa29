//! A line of the user's settings, shown because something is wrong with it, without its secrets.

use super::tree::Place;

/// As wide as a narrow terminal, with room for the line number.
const WIDTH: usize = 72;

/// Words that name a secret when they stand before a colon or an equals sign.
const SECRET_NAMES: [&str; 6] = ["key", "token", "secret", "password", "authorization", "bearer"];

/// A longer run of letters and digits mixed is taken for a key, whichever name stands before it.
const KEY_LENGTH_MIN: usize = 16;

/// The line at `place` and a caret below its column:
///
/// ```text
///   4 | display: [
///     |          ^
/// ```
pub fn excerpt(text: &str, place: Place) -> String {
    let line: Vec<char> = masked(text.lines().nth(place.line - 1).unwrap_or_default()).chars().collect();
    let column = (place.column - 1).min(line.len());
    let start = column.saturating_sub(WIDTH * 2 / 3);
    let shown: String =
        line.iter().skip(start).take(WIDTH).map(|c| if c.is_control() { ' ' } else { *c }).collect();
    let number = place.line.to_string();
    let gutter = " ".repeat(number.len());
    let caret = " ".repeat(column - start);
    format!("  {number} | {}\n  {gutter} | {caret}^", shown.trim_end())
}

/// The line with stars in place of what may be a secret; every character keeps its column.
fn masked(line: &str) -> String {
    let named = line.match_indices([':', '=']).map(|(at, _)| at).find(|at| {
        let name = line[..*at].trim_end_matches(['"', '\'', ' ']);
        let end = |word: &&str| name.len().checked_sub(word.len()).and_then(|from| name.get(from..));
        SECRET_NAMES.iter().any(|word| end(word).is_some_and(|end| end.eq_ignore_ascii_case(word)))
    });
    if let Some(at) = named {
        let hidden: String =
            line[at + 1..].chars().map(|c| if c.is_whitespace() { c } else { '*' }).collect();
        return format!("{}{hidden}", &line[..=at]);
    }
    let mut out = String::with_capacity(line.len());
    for run in line.split_inclusive(|c: char| !is_key_char(c)) {
        let word = run.trim_end_matches(|c: char| !is_key_char(c));
        let mixed = word.chars().any(|c| c.is_ascii_digit()) && word.chars().any(|c| c.is_alphabetic());
        match word.len() >= KEY_LENGTH_MIN && mixed {
            true => {
                out.push_str(&"*".repeat(word.chars().count()));
                out.push_str(&run[word.len()..]);
            }
            false => out.push_str(run),
        }
    }
    out
}

fn is_key_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '+' | '=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_below_the_column() {
        let text = "model: x\ndisplay: [\n";
        assert_eq!(excerpt(text, Place { line: 2, column: 10 }), "  2 | display: [\n    |          ^");
        assert_eq!(excerpt(text, Place { line: 9, column: 1 }), "  9 | \n    | ^");
    }

    #[test]
    fn a_long_line_is_cut_around_the_column() {
        let text = format!("{}!{}", "a".repeat(300), "b".repeat(300));
        let shown = excerpt(&text, Place { line: 1, column: 301 });
        let (line, caret) = shown.split_once('\n').unwrap();
        assert!(line.len() < 90, "{line}");
        assert_eq!(line.find('!'), caret.find('^'));
    }

    #[test]
    fn p31_an_excerpt_shows_no_secret() {
        for line in [
            "  api_key: \"sk-abcdefgh",
            "API_SERVER_KEY=abcdefgh",
            "- token: abcdefgh extra",
            "x: sk-proj-abcdefgh12345678 oops: ]",
            "password : abcdefgh",
            "model: {default: m, api_key: abcdefgh, provider: x}",
            "{'Authorization': 'abcdefgh'",
        ] {
            let shown = excerpt(line, Place { line: 1, column: 3 });
            assert!(!shown.contains("abcdefgh"), "{shown}");
            assert_eq!(masked(line).chars().count(), line.chars().count());
        }
        assert_eq!(masked("model: claude-sonnet-4"), "model: claude-sonnet-4");
        assert_eq!(masked("base_url: http://localhost:11434/v1"), "base_url: http://localhost:11434/v1");
    }
}
