//! Finding the text that a patch means, though its white space may differ.

/// How a patch finds its place: content, old text, new text, and whether every place is meant.
/// Gives the new content and the number of places, or why there is none.
pub type Replace = fn(&str, &str, &str, bool) -> Result<(String, usize), String>;

/// Exactly, else line by line with white space compared as one blank.
pub fn replaced(content: &str, old: &str, new: &str, all: bool) -> Result<(String, usize), String> {
    if old.is_empty() {
        return Err("old_string cannot be empty".to_owned());
    }
    if old == new {
        return Err("old_string and new_string are identical".to_owned());
    }
    let exact: Vec<_> = content.match_indices(old).map(|(at, _)| (at, at + old.len())).collect();
    let is_exact = !exact.is_empty();
    let places = if is_exact { exact } else { loosely(content, old) };
    match places.len() {
        0 => Err("Could not find a match for old_string in the file".to_owned()),
        count if count > 1 && !all => Err(format!(
            "Found {count} matches for old_string. Provide more context to make it unique, or use replace_all=True."
        )),
        count => {
            let mut out = String::with_capacity(content.len() + new.len());
            let mut end = 0;
            for (from, to) in places {
                out.push_str(&content[end..from]);
                match is_exact {
                    true => out.push_str(new),
                    false => out.push_str(&indented(&content[from..to], old, new)),
                }
                end = to;
            }
            out.push_str(&content[end..]);
            Ok((out, count))
        }
    }
}

/// Where the lines of `old` stand, with any white space. Places do not overlap.
fn loosely(content: &str, old: &str) -> Vec<(usize, usize)> {
    let wanted: Vec<String> = old.trim_matches('\n').split('\n').map(plain).collect();
    if wanted.iter().all(String::is_empty) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    let mut at = 0;
    for line in content.split('\n') {
        lines.push((at, at + line.len(), plain(line)));
        at += line.len() + 1;
    }
    // Each line is looked at once, however often the block almost stands there (Knuth, Morris and Pratt): how much of it
    // still stands behind us once so much of it did not go on.
    let mut left = vec![0; wanted.len()];
    let go_on = |left: &[usize], mut stands: usize, line: &String| loop {
        match wanted[stands] == *line {
            true => return stands + 1,
            false if stands == 0 => return 0,
            false => stands = left[stands - 1],
        }
    };
    for at in 1..wanted.len() {
        left[at] = go_on(&left, left[at - 1], &wanted[at]);
    }
    let mut places = Vec::new();
    let mut stands = 0;
    for (at, (_, end, line)) in lines.iter().enumerate() {
        stands = go_on(&left, stands, line);
        if stands == wanted.len() {
            places.push((lines[at + 1 - stands].0, *end));
            stands = 0;
        }
    }
    places
}

fn plain(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `new` with the indentation that the file has where `old` has another.
fn indented(found: &str, old: &str, new: &str) -> String {
    let indent = |text: &str| {
        let line = text.split('\n').find(|line| !line.trim().is_empty()).unwrap_or_default();
        line[..line.len() - line.trim_start_matches([' ', '\t']).len()].to_owned()
    };
    let (theirs, ours) = (indent(found), indent(old));
    let lines = new.trim_matches('\n').split('\n').map(|line| match line.strip_prefix(&ours) {
        _ if line.trim().is_empty() || theirs == ours => line.to_owned(),
        Some(rest) => format!("{theirs}{rest}"),
        None => format!("{theirs}{}", line.trim_start_matches([' ', '\t'])),
    });
    lines.collect::<Vec<_>>().join("\n")
}
