//! Names that models write for tools, and the tools they mean.
//!
//! `TodoTool_tool`, `write file` or `terminal" parameter="command` can mean one tool only, and are
//! taken for it, as in Hermes. A name that merely resembles another is suggested and never run:
//! Hermes would run it.

/// How much of a name may differ for it to be worth a suggestion: Hermes' own measure.
const ALIKE_PERCENT: usize = 70;

/// The tool that this name spells in another way. None: there is none.
pub(super) fn repaired<'n, Names, All>(written: &str, names: All) -> Option<String>
where
    Names: Iterator<Item = &'n str>,
    All: Fn() -> Names,
{
    let known = |candidate: &str| names().any(|name| name == candidate);
    if known(written) {
        return Some(written.to_owned());
    }
    let written = before_markup(written);
    let mut candidates = spellings(written);
    // Twice, because some write the word twice.
    for _ in 0..2 {
        let shorter: Vec<String> = candidates.iter().filter_map(|name| without_suffix(name)).collect();
        candidates.extend(shorter.iter().flat_map(|name| spellings(name)));
    }
    candidates.into_iter().find(|candidate| !candidate.is_empty() && known(candidate))
}

/// The known name that is most like this one.
pub(super) fn nearest<'n>(written: &str, names: &[&'n str]) -> Option<&'n str> {
    let written = written.to_lowercase();
    let scored = names.iter().map(|name| (likeness(&written, name), *name));
    scored
        .filter(|(likeness, _)| *likeness >= ALIKE_PERCENT)
        .max_by_key(|(likeness, _)| *likeness)
        .map(|(_, name)| name)
}

/// Some providers let pieces of markup slip into names.
fn before_markup(name: &str) -> &str {
    let end = name.find(['"', '\'', '<', '>']).filter(|end| *end > 0);
    end.map_or(name, |end| &name[..end]).trim()
}

fn spellings(name: &str) -> Vec<String> {
    let lower = name.to_lowercase();
    vec![name.to_owned(), lower.replace(['-', ' '], "_"), snake(name), lower]
}

fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for (position, letter) in name.char_indices() {
        if position > 0 && letter.is_uppercase() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

fn without_suffix(name: &str) -> Option<String> {
    let lower = name.to_lowercase();
    let stem = ["_tool", "-tool", "tool"].into_iter().find_map(|suffix| {
        // Lower case may have another length in letters that no tool has.
        lower.ends_with(suffix).then(|| name.get(..name.len().checked_sub(suffix.len())?)).flatten()
    })?;
    Some(stem.trim_end_matches(['_', '-']).to_owned())
}

/// 100 for the same, less for every letter that must be changed.
fn likeness(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().take(100).collect(), other.chars().collect());
    let longest = one.len().max(other.len()).max(1);
    100 - 100 * distance(&one, &other).min(longest) / longest
}

fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, known) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != known);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] = ["todo", "patch", "write_file", "browser_click", "terminal", "mcp__a__Call"];

    #[test]
    fn another_spelling_is_the_tool_and_a_resemblance_is_not() {
        for (written, expected) in [
            ("todo", Some("todo")),
            ("Todo", Some("todo")),
            ("TodoTool_tool", Some("todo")),
            ("Patch_tool", Some("patch")),
            ("BrowserClick_tool", Some("browser_click")),
            ("WriteFile", Some("write_file")),
            ("write file", Some("write_file")),
            ("write-file", Some("write_file")),
            ("terminal\" parameter=\"command\" string=\"true", Some("terminal")),
            ("mcp__a__Call", Some("mcp__a__Call")),
            ("write_files", None),
            ("tool", None),
            ("", None),
            ("ÄTool", None),
            ("İtool", None),
        ] {
            assert_eq!(repaired(written, || NAMES.into_iter()).as_deref(), expected, "{written}");
        }
    }

    #[test]
    fn what_resembles_a_tool_is_suggested() {
        for (written, expected) in [
            ("write_files", Some("write_file")),
            ("terminl", Some("terminal")),
            ("search_web", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, &NAMES), expected, "{written}");
        }
    }
}
