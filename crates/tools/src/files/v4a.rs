//! Patches in the V4A format: several files in one text.

use regex::Regex;
use std::sync::LazyLock;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Add { path: String, lines: Vec<String> },
    Update { path: String, hunks: Vec<Hunk> },
    Delete { path: String },
    Move { path: String, to: String },
}

impl Operation {
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Add { .. } => "add",
            Self::Update { .. } => "update",
            Self::Delete { .. } => "delete",
            Self::Move { .. } => "move",
        }
    }

    pub fn paths(&self) -> Vec<&str> {
        match self {
            Self::Add { path, .. } | Self::Update { path, .. } | Self::Delete { path } => vec![path],
            Self::Move { path, to } => vec![path, to],
        }
    }
}

/// Lines that stand together in a file, and what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    pub hint: Option<String>,
    pub lines: Vec<(Mark, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Keep,
    Remove,
    Add,
}

impl Hunk {
    pub fn before(&self) -> Vec<&str> {
        self.marked(Mark::Remove)
    }

    pub fn after(&self) -> Vec<&str> {
        self.marked(Mark::Add)
    }

    pub fn changes_nothing(&self) -> bool {
        self.lines.iter().all(|(mark, _)| *mark == Mark::Keep)
    }

    fn marked(&self, wanted: Mark) -> Vec<&str> {
        let lines = self.lines.iter().filter(|(mark, _)| *mark == Mark::Keep || *mark == wanted);
        lines.map(|(_, line)| line.as_str()).collect()
    }
}

macro_rules! pattern {
    ($name:ident, $text:literal) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("a pattern that is tested below"));
    };
}

pattern!(HEADER, r"^\*\*\*\s*(Update|Add|Delete)\s+File:\s*(.+)$");
pattern!(MOVE, r"^\*\*\*\s*Move\s+File:\s*(.+?)\s*->\s*(.+)$");
pattern!(HINT, r"^@@\s*(.+?)\s*@@");

/// Reads a patch. A text without any operation is an empty patch.
pub fn parse(patch: &str) -> Result<Vec<Operation>, String> {
    let lines: Vec<&str> = patch.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let is = |line: &str, what: &str| {
        line.contains(&format!("*** {what} Patch")) || line.contains(&format!("***{what} Patch"))
    };
    let end = lines.iter().position(|line| is(line, "End")).unwrap_or(lines.len());
    let start = lines[..end].iter().rposition(|line| is(line, "Begin")).map_or(0, |at| at + 1);
    let mut reader = Reader::default();
    for line in &lines[start..end] {
        reader.line(line);
    }
    reader.close();
    let problems: Vec<String> = reader
        .operations
        .iter()
        .filter_map(|operation| match operation {
            Operation::Update { path, hunks } if hunks.is_empty() => {
                Some(format!("UPDATE {}: no hunks found", super::text::quoted(path)))
            }
            _ => None,
        })
        .collect();
    match problems.is_empty() {
        true => Ok(reader.operations),
        false => Err(format!("Parse error: {}", problems.join("; "))),
    }
}

#[derive(Default)]
struct Reader {
    operations: Vec<Operation>,
    open: Option<Operation>,
    hunk: Hunk,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if let Some(found) = HEADER.captures(line) {
            self.close();
            let path = found[2].trim().to_owned();
            match &found[1] {
                "Update" => self.open = Some(Operation::Update { path, hunks: Vec::new() }),
                "Add" => self.open = Some(Operation::Add { path, lines: Vec::new() }),
                _ => self.operations.push(Operation::Delete { path }),
            }
        } else if let Some(found) = MOVE.captures(line) {
            self.close();
            let (path, to) = (found[1].trim().to_owned(), found[2].trim().to_owned());
            self.operations.push(Operation::Move { path, to });
        } else if line.starts_with("@@") && self.open.is_some() {
            self.close_hunk();
            self.hunk.hint = HINT.captures(line).map(|found| found[1].to_owned());
        } else if !line.is_empty() && self.open.is_some() {
            let marked = match line.split_at(line.chars().next().map_or(0, char::len_utf8)) {
                ("+", rest) => Some((Mark::Add, rest)),
                ("-", rest) => Some((Mark::Remove, rest)),
                (" ", rest) => Some((Mark::Keep, rest)),
                ("\\", _) => None, // "\ No newline at end of file"
                _ => Some((Mark::Keep, line)),
            };
            self.hunk.lines.extend(marked.map(|(mark, text)| (mark, text.to_owned())));
        }
    }

    fn close_hunk(&mut self) {
        let hunk = std::mem::take(&mut self.hunk);
        if hunk.lines.is_empty() {
            return;
        }
        match &mut self.open {
            Some(Operation::Update { hunks, .. }) => hunks.push(hunk),
            Some(Operation::Add { lines, .. }) => {
                lines.extend(
                    hunk.lines.into_iter().filter(|(mark, _)| *mark == Mark::Add).map(|(_, line)| line),
                );
            }
            _ => {}
        }
    }

    fn close(&mut self) {
        self.close_hunk();
        self.operations.extend(self.open.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_read_as_hermes_reads_it() {
        let patch = "talk\n*** Begin Patch\n***Update File: a b.txt\n@@ fn x @@\n one\n-two\n+zwei\nbare\n@@\n+end\n\\ No newline\n\
                     *** Add File: new.txt\n+l1\n+\n+l2\n*** Delete File: old.txt\n*** Move File: p -> q/r\n*** End Patch\n+late";
        let line = |mark, text: &str| (mark, text.to_owned());
        assert_eq!(
            parse(patch).unwrap(),
            [
                Operation::Update {
                    path: "a b.txt".into(),
                    hunks: vec![
                        Hunk {
                            hint: Some("fn x".into()),
                            lines: vec![
                                line(Mark::Keep, "one"),
                                line(Mark::Remove, "two"),
                                line(Mark::Add, "zwei"),
                                line(Mark::Keep, "bare"),
                            ],
                        },
                        Hunk { hint: None, lines: vec![line(Mark::Add, "end")] },
                    ],
                },
                Operation::Add {
                    path: "new.txt".into(),
                    lines: vec!["l1".into(), String::new(), "l2".into()]
                },
                Operation::Delete { path: "old.txt".into() },
                Operation::Move { path: "p".into(), to: "q/r".into() },
            ]
        );
        assert_eq!(parse("nonsense").unwrap(), []);
        assert_eq!(
            parse("*** Update File: x.txt\n*** End Patch").unwrap_err(),
            "Parse error: UPDATE 'x.txt': no hunks found"
        );
    }
}
