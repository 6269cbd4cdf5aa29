//! Python's `fnmatch`, as Hermes reads its lists: `*`, `?`, `[a-z]`, `[!a-z]`, over the whole text.
//!
//! Deliberately absent: paths. A star passes slashes and line ends, because what is matched is a
//! command.

enum GlobPiece {
    Any,
    Run,
    Literal(char),
    Set { negated: bool, ranges: Vec<(char, char)> },
}

impl GlobPiece {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Any | Self::Run => true,
            Self::Literal(literal) => *literal == c,
            Self::Set { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

/// Whether all of `text` matches. Each star is tried once more only after the next one failed, so
/// the work is bounded by the product of the lengths.
pub fn matches(pattern: &str, text: &str) -> bool {
    let pieces = parsed(pattern);
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut piece) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        match pieces.get(piece) {
            Some(GlobPiece::Run) => {
                star = Some((piece, at));
                piece += 1;
            }
            Some(other) if other.takes(text[at]) => {
                piece += 1;
                at += 1;
            }
            _ => {
                let Some((run, from)) = star else { return false };
                star = Some((run, from + 1));
                piece = run + 1;
                at = from + 1;
            }
        }
    }
    pieces[piece..].iter().all(|piece| matches!(piece, GlobPiece::Run))
}

fn parsed(pattern: &str) -> Vec<GlobPiece> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut pieces = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        let c = chars[i];
        i += 1;
        match c {
            '*' => pieces.push(GlobPiece::Run),
            '?' => pieces.push(GlobPiece::Any),
            '[' => match set_end(&chars, i) {
                Some(end) => {
                    pieces.push(set(&chars[i..end]));
                    i = end + 1;
                }
                None => pieces.push(GlobPiece::Literal('[')),
            },
            _ => pieces.push(GlobPiece::Literal(c)),
        }
    }
    pieces
}

/// Where the set that begins at `start` is closed. A bracket that comes first belongs to it.
fn set_end(chars: &[char], start: usize) -> Option<usize> {
    let mut i = start;
    if chars.get(i) == Some(&'!') {
        i += 1;
    }
    if chars.get(i) == Some(&']') {
        i += 1;
    }
    (i..chars.len()).find(|i| chars[*i] == ']')
}

fn set(members: &[char]) -> GlobPiece {
    let negated = members.first() == Some(&'!');
    let members = &members[usize::from(negated)..];
    let mut ranges = Vec::new();
    let mut i = 0;
    while i < members.len() {
        if i + 2 < members.len() && members[i + 1] == '-' {
            ranges.push((members[i], members[i + 2]));
            i += 3;
        } else {
            ranges.push((members[i], members[i]));
            i += 1;
        }
    }
    GlobPiece::Set { negated, ranges }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn globs_are_read_as_python_reads_them() {
        for (pattern, text, expected) in [
            ("git push --force*", "git push --force origin main", true),
            ("git push --force*", "git push", false),
            ("*curl*|*sh*", "curl x | sh", true),
            ("podman *", "podman ps\n-a", true),
            ("podman *", "podman", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[!a-c]x", "dx", true),
            ("[]x]", "]", true),
            ("[x", "[x", true),
            ("[a-]", "-", true),
            ("*a*b*c", "xxaxxbxxbc", true),
            ("*a*b*c", "xxaxxcxx", false),
            ("", "", true),
            ("**", "", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
