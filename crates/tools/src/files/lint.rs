//! Whether structured text can still be read.
//!
//! Only what needs no other program: JSON and YAML. A file of data that does not parse is broken, so
//! it is not written at all. Deliberately absent: compilers and linters, which would run what lies in
//! a project.

use super::text::extension;
use serde_json::{Value, json};
use std::path::Path;

/// What a check says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LintResult {
    Fine,
    Broken(String),
    /// No check is known for this kind of file.
    Unknown(String),
}

impl LintResult {
    pub fn told(&self) -> Value {
        match self {
            Self::Fine => json!({"status": "ok", "output": ""}),
            Self::Broken(why) => json!({"status": "error", "output": why}),
            Self::Unknown(why) => json!({"status": "skipped", "message": why}),
        }
    }
}

pub fn check(path: &Path, text: &str) -> LintResult {
    match extension(path).as_str() {
        "json" => json_check(text),
        "yaml" | "yml" => yaml_check(text),
        extension @ ("py" | "toml") => {
            LintResult::Unknown(format!("No linter available for .{extension} (missing dependency)"))
        }
        "" => LintResult::Unknown("No linter for  files".to_owned()),
        extension => LintResult::Unknown(format!("No linter for .{extension} files")),
    }
}

fn json_check(text: &str) -> LintResult {
    let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) else { return LintResult::Fine };
    // Python takes a little more for JSON than JSON is, and its files are read by Python.
    if throughline_hermes::json::read(text).is_some() {
        return LintResult::Fine;
    }
    let (line, column) = (error.line(), error.column());
    let what = error.to_string();
    let what = what.split(" at line ").next().unwrap_or_default();
    LintResult::Broken(format!("JSONDecodeError: {what} (line {line}, column {column})"))
}

/// Syntax alone: several documents and tags that only their reader knows are no mistakes.
fn yaml_check(text: &str) -> LintResult {
    for event in serde_saphyr::granit_parser::Parser::new_from_str(text) {
        if let Err(error) = event {
            return LintResult::Broken(format!("YAMLError: {error}"));
        }
    }
    LintResult::Fine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_parses_is_fine_and_what_does_not_is_named() {
        let check = |name: &str, text: &str| check(Path::new(name), text);
        assert_eq!(check("a.json", r#"{"a": 1}"#), LintResult::Fine);
        assert_eq!(check("a.json", "[NaN]"), LintResult::Fine);
        assert!(
            matches!(check("a.json", r#"{"a": "#), LintResult::Broken(why) if why.starts_with("JSONDecodeError: ") && why.contains("line 1"))
        );
        assert_eq!(check("a.yaml", "a: 1\n---\nb: !Sub x\n---\nc: [1, 2]\n"), LintResult::Fine);
        assert_eq!(check("a.yaml", "a: 1\na: 2\n"), LintResult::Fine);
        assert!(matches!(check("a.yml", "a: [1"), LintResult::Broken(_)));
        assert!(matches!(check("a.yml", "a: 'x\n"), LintResult::Broken(_)));
        assert_eq!(check("a.txt", "{"), LintResult::Unknown("No linter for .txt files".into()));
    }
}
