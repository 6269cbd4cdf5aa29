//! Patches in the V4A format: several files in one text.

use regex::Regex;
use std::sync::LazyLock;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchOperation {
    Add { path: String, lines: Vec<String> },
    Update { path: String, hunks: Vec<Hunk> },
    Delete { path: String },
    Move { path: String, to: String },
}

impl PatchOperation {
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
    pub lines: Vec<(LineKind, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    Keep,
    Remove,
    Add,
}

impl Hunk {
    pub fn before(&self) -> Vec<&str> {
        self.marked(LineKind::Remove)
    }

    pub fn after(&self) -> Vec<&str> {
        self.marked(LineKind::Add)
    }

    pub fn changes_nothing(&self) -> bool {
        self.lines.iter().all(|(mark, _)| *mark == LineKind::Keep)
    }

    fn marked(&self, wanted: LineKind) -> Vec<&str> {
        let lines = self.lines.iter().filter(|(mark, _)| *mark == LineKind::Keep || *mark == wanted);
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
pub fn parse(patch: &str) -> Result<Vec<PatchOperation>, String> {
    let lines: Vec<&str> = patch.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let is = |line: &str, what: &str| {
        line.contains(&format!("*** {what} Patch")) || line.contains(&format!("***{what} Patch"))
    };
    let end = lines.iter().position(|line| is(line, "End")).unwrap_or(lines.len());
    let start = lines[..end].iter().rposition(|line| is(line, "Begin")).map_or(0, |at| at + 1);
    let mut reader = PatchReader::default();
    for line in &lines[start..end] {
        reader.line(line);
    }
    reader.close();
    let problems: Vec<String> = reader
        .operations
        .iter()
        .filter_map(|operation| match operation {
            PatchOperation::Update { path, hunks } if hunks.is_empty() => {
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
struct PatchReader {
    operations: Vec<PatchOperation>,
    open: Option<PatchOperation>,
    hunk: Hunk,
}

impl PatchReader {
    fn line(&mut self, line: &str) {
        if let Some(found) = HEADER.captures(line) {
            self.close();
            let path = found[2].trim().to_owned();
            match &found[1] {
                "Update" => self.open = Some(PatchOperation::Update { path, hunks: Vec::new() }),
                "Add" => self.open = Some(PatchOperation::Add { path, lines: Vec::new() }),
                _ => self.operations.push(PatchOperation::Delete { path }),
            }
        } else if let Some(found) = MOVE.captures(line) {
            self.close();
            let (path, to) = (found[1].trim().to_owned(), found[2].trim().to_owned());
            self.operations.push(PatchOperation::Move { path, to });
        } else if line.starts_with("@@") && self.open.is_some() {
            self.close_hunk();
            self.hunk.hint = HINT.captures(line).map(|found| found[1].to_owned());
        } else if !line.is_empty() && self.open.is_some() {
            let marked = match line.split_at(line.chars().next().map_or(0, char::len_utf8)) {
                ("+", rest) => Some((LineKind::Add, rest)),
                ("-", rest) => Some((LineKind::Remove, rest)),
                (" ", rest) => Some((LineKind::Keep, rest)),
                ("\\", _) => None, // "\ No newline at end of file"
                _ => Some((LineKind::Keep, line)),
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
            Some(PatchOperation::Update { hunks, .. }) => hunks.push(hunk),
            Some(PatchOperation::Add { lines, .. }) => {
                lines.extend(
                    hunk.lines.into_iter().filter(|(mark, _)| *mark == LineKind::Add).map(|(_, line)| line),
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
                PatchOperation::Update {
                    path: "a b.txt".into(),
                    hunks: vec![
                        Hunk {
                            hint: Some("fn x".into()),
                            lines: vec![
                                line(LineKind::Keep, "one"),
                                line(LineKind::Remove, "two"),
                                line(LineKind::Add, "zwei"),
                                line(LineKind::Keep, "bare"),
                            ],
                        },
                        Hunk { hint: None, lines: vec![line(LineKind::Add, "end")] },
                    ],
                },
                PatchOperation::Add {
                    path: "new.txt".into(),
                    lines: vec!["l1".into(), String::new(), "l2".into()]
                },
                PatchOperation::Delete { path: "old.txt".into() },
                PatchOperation::Move { path: "p".into(), to: "q/r".into() },
            ]
        );
        assert_eq!(parse("nonsense").unwrap(), []);
        assert_eq!(
            parse("*** Update File: x.txt\n*** End Patch").unwrap_err(),
            "Parse error: UPDATE 'x.txt': no hunks found"
        );
    }
}
