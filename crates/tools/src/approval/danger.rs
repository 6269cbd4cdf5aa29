//! What a command would do, as far as its text shows: nothing known, something dangerous, or
//! something that never runs.
//!
//! A command is judged in every reading that a shell might give it: without escape sequences and
//! look-alike letters, with lines joined, quotes taken from its command words, and what `bash -c`
//! and its kind would run taken out. The first pattern that matches a reading names it.
//!
//! What differs from Hermes, and why:
//! - what never runs is also looked for where a separator stands before a quoted command word
//!   (`ls; "rm" -rf /`), which Hermes only holds for dangerous
//! - reading has a budget, beyond which a command is refused; some texts keep Hermes busy for minutes
//! - where the readings with one word replaced would add up to more than [`VARIANTS_BYTES_MAX`], one
//!   reading with all of them replaced takes their place
//! - a combining mark belongs to the word it stands in; Python sees the end of a word there

use super::flags::{self, CommandFinding};
use super::rules::{CommandRule, DANGEROUS_RULES, HARDLINE_RULES, translated};
use super::shell::{self, ReadingBudget, TextSpan};
use super::{CommandPlace, glob};
use icu_normalizer::ComposingNormalizerBorrowed;
use regex::{Captures, Regex};
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub const PARSER_LIMIT: &str = "command parser limit exceeded";
pub const MALFORMED: &str = "command parser limit or malformed executable payload";
pub const SUDO_GUESS: &str = "sudo password guessing via stdin (sudo -S)";

/// Hermes' ceilings on what it reads at all.
const COMMAND_CHARS_MAX: usize = 128_000;
const UNDIVIDED_CHARS_MAX: usize = 4_096;
const SEPARATORS_MAX: usize = 25_000;
/// Some eighty patterns run over every reading: more than this would take longer than a second.
const VARIANTS_BYTES_MAX: usize = 512 * 1024;

/// How to find a directory, and what it is called then.
type HomeFolds = Vec<(Regex, &'static str)>;

/// Knows what the home directories are called here.
pub struct DangerDetector {
    /// Compiled when the first command is read: an agent that runs none does not pay for it.
    folds: LazyLock<HomeFolds, Box<dyn FnOnce() -> HomeFolds + Send>>,
    temporary: PathBuf,
}

/// A command in all its readings.
pub struct CommandReading {
    /// Nothing more is known of it than that it is too much.
    limited: bool,
    malformed: bool,
    normalized: String,
    variants: Vec<String>,
    /// All command words plain, each at the beginning of a line.
    plain: String,
    findings: Vec<CommandFinding>,
}

impl DangerDetector {
    pub fn new(place: &CommandPlace) -> Self {
        let mut paths = Vec::new();
        // The agent's home may lie in the user's: it is folded first.
        for (path, name) in [(Some(place.home.as_path()), "~/.hermes"), (place.user_home.as_deref(), "~")] {
            let Some(path) = path else { continue };
            let mut names = vec![path.to_path_buf()];
            names.extend(path.canonicalize().ok().filter(|real| real != path));
            names.sort_by_key(|name| std::cmp::Reverse(name.as_os_str().len()));
            paths.extend(names.into_iter().map(|path| (path, name)));
        }
        let folds = move || paths.iter().filter_map(|(path, name)| Some((fold(path)?, *name))).collect();
        let temporary = place.temporary.canonicalize().unwrap_or_else(|_| place.temporary.clone());
        Self { folds: LazyLock::new(Box::new(folds)), temporary }
    }

    pub fn read(&self, command: &str) -> CommandReading {
        if exceeds_limits(command) {
            return CommandReading::unread();
        }
        let mut reading = CommandReading::unread();
        let budget = ReadingBudget::new();
        reading.normalized = self.normalized(command);
        let normalized: Vec<char> = reading.normalized.chars().collect();
        reading.findings = flags::findings(&normalized, &budget);
        let (searched, malformed) = without_search_patterns(&normalized, &budget);
        reading.malformed = malformed;
        let replacements = plain_words(&normalized, &budget);
        reading.plain = plain(&searched, &replacements, &budget);
        reading.variants = variants(&normalized, searched, &reading.findings, &replacements, &budget);
        reading.limited = budget.is_spent();
        reading
    }

    /// What no setting lets run.
    pub fn hardline(&self, reading: &CommandReading) -> Option<&'static str> {
        let plain = || HARDLINE_RULES.iter().find(|rule| rule.matches(&reading.plain));
        reading.hardline().or_else(|| plain().map(|rule| rule.name))
    }

    /// What a person must allow, by its name.
    pub fn dangerous(&self, command: &str, reading: &CommandReading) -> Option<Cow<'static, str>> {
        if reading.limited {
            return Some(Cow::Borrowed(PARSER_LIMIT));
        }
        if self.only_removes_own_script(command) {
            return None;
        }
        let named = reading.first_match(&DANGEROUS_RULES).map(Cow::Borrowed);
        named.or_else(|| reading.findings.first().map(|finding| finding.name.clone()))
    }

    /// A password given to `sudo` through its input is a guess.
    pub fn guesses_sudo_password(&self, reading: &CommandReading) -> bool {
        static PIPED: LazyLock<Regex> =
            LazyLock::new(|| expression(r"(?i)(?:^|[;&|`\n]|&&|\|\||\$\()\s*sudo\s+-S\b"));
        PIPED.is_match(&reading.normalized.to_lowercase())
    }

    /// The first of the user's rules that forbids it.
    pub fn denied<'a>(&self, reading: &CommandReading, rules: &'a [String]) -> Option<&'a str> {
        let rules: Vec<(&str, String)> =
            rules.iter().map(|rule| rule.trim()).filter(|rule| !rule.is_empty()).map(lowered).collect();
        reading.variants.iter().find_map(|variant| {
            let text = variant.trim_matches(shell::is_space);
            rules.iter().find(|(_, glob)| glob::matches(glob, text)).map(|(rule, _)| *rule)
        })
    }

    /// What Hermes tells its agents to clean up, `rm -f` of one script of theirs in the temporary
    /// directory, needs no person's leave.
    fn only_removes_own_script(&self, command: &str) -> bool {
        let chars: Vec<char> = command.chars().collect();
        let Some(words) = shell::split(&chars, false) else { return false };
        let [remove, force, operand] = words.as_slice() else { return false };
        if remove != "rm" || force != "-f" {
            return false;
        }
        let path = Path::new(operand);
        let real = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let name = shell::base_name(operand);
        path.as_os_str() == self.temporary.join(name).as_os_str()
            && real.parent() == Some(self.temporary.as_path())
            && is_own_script(name)
    }

    fn normalized(&self, command: &str) -> String {
        static JOINED: LazyLock<Regex> = LazyLock::new(|| expression(r"\\\r?\n"));
        static ESCAPED: LazyLock<Regex> = LazyLock::new(|| expression(r"\\([^\n])"));
        static SEPARATORS: LazyLock<Regex> = LazyLock::new(|| expression(r"\$\{IFS\b[^}]*\}|\$IFS\b"));
        let text = without_escape_sequences(command).replace('\0', "");
        let text = composed(&text);
        let mut text = JOINED.replace_all(&text, "").into_owned();
        for (home, name) in self.folds.iter() {
            let folded = home.replace_all(&text, |found: &Captures<'_>| {
                format!("{name}{}", found["tail"].replace('\\', "/"))
            });
            text = folded.into_owned();
        }
        let text = ESCAPED.replace_all(&text, "$1");
        let text = without_empty_quotes(&text);
        SEPARATORS.replace_all(&text, " ").into_owned()
    }
}

impl CommandReading {
    /// A command of which nothing is known: it is not run.
    pub fn unread() -> Self {
        Self {
            limited: true,
            malformed: false,
            normalized: String::new(),
            variants: Vec::new(),
            plain: String::new(),
            findings: Vec::new(),
        }
    }

    /// What never runs, as Hermes sees it.
    pub fn hardline(&self) -> Option<&'static str> {
        if self.limited {
            return Some(PARSER_LIMIT);
        }
        if self.malformed {
            return Some(MALFORMED);
        }
        self.first_match(&HARDLINE_RULES)
    }

    fn first_match(&self, rules: &[CommandRule]) -> Option<&'static str> {
        let matching = |text: &String| rules.iter().find(|rule| rule.matches(text));
        self.variants.iter().find_map(matching).map(|rule| rule.name)
    }
}

/// The text in the letters it means: `ｒｍ` is `rm` (NFKC).
pub fn composed(text: &str) -> Cow<'_, str> {
    ComposingNormalizerBorrowed::new_nfkc().normalize(text)
}

fn lowered(rule: &str) -> (&str, String) {
    (rule, rule.to_lowercase())
}

fn expression(python: &str) -> Regex {
    Regex::new(&translated(python)).expect("the expression is in this file; tests use it")
}

fn exceeds_limits(command: &str) -> bool {
    let chars = command.chars().count();
    let separators = command.chars().filter(|c| matches!(c, ';' | '&' | '|' | '\n')).count();
    chars > COMMAND_CHARS_MAX
        || (chars > UNDIVIDED_CHARS_MAX && separators == 0)
        || separators >= SEPARATORS_MAX
}

fn is_own_script(name: &str) -> bool {
    ["hermes-verify-", "hermes-ad-hoc-"]
        .iter()
        .filter_map(|prefix| name.strip_prefix(prefix))
        .any(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)))
}

/// Finds a directory where something beneath it is named, with either kind of slash. None for one
/// that lies so high that half the disk would be called home.
fn fold(path: &Path) -> Option<Regex> {
    let path = path.to_str()?;
    let parts: Vec<String> =
        path.split(['/', '\\']).filter(|part| !part.is_empty()).map(regex::escape).collect();
    if parts.len() < 2 {
        return None;
    }
    let body = parts.join(r"[/\\]+");
    let tail = translated(r#"(?P<tail>(?:[/\\][^/\\\s'"`;|&<>()]*)+)"#);
    Regex::new(&format!(r"[/\\]*{body}{tail}")).ok()
}

/// Takes out what a terminal would act on rather than show (ECMA-48).
fn without_escape_sequences(text: &str) -> Cow<'_, str> {
    static SEQUENCES: LazyLock<Regex> = LazyLock::new(|| {
        expression(concat!(
            r"(?s)\x1b(?:\[[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]",
            r"|\].*?(?:\x07|\x1b\\)",
            r"|[PX^_].*?(?:\x1b\\)",
            r"|[\x20-\x2f]+[\x30-\x7e]",
            r"|[\x30-\x7e])",
            r"|\x9b[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]",
            r"|\x9d.*?(?:\x07|\x9c)",
            r"|[\x80-\x9f]",
        ))
    });
    SEQUENCES.replace_all(text, "")
}

fn without_empty_quotes(text: &str) -> String {
    static EMPTY: LazyLock<Regex> = LazyLock::new(|| expression(r#"''|"""#));
    EMPTY.replace_all(text, "").into_owned()
}

/// Every reading, in Hermes' order, in small letters.
fn variants(
    normalized: &[char],
    searched: Vec<char>,
    findings: &[CommandFinding],
    replacements: &[WordReplacement],
    budget: &ReadingBudget,
) -> Vec<String> {
    let mut variants = CommandVariants::default();
    variants.add(&searched);
    // What would be run is read like a command, and may itself run something.
    let mut pending: Vec<Vec<Vec<char>>> = vec![payloads(findings)];
    while let Some(payloads_of_one) = pending.pop() {
        for payload in payloads_of_one {
            if budget.is_spent() {
                return variants.texts;
            }
            if !variants.add(&payload) {
                continue;
            }
            let marked = shell::with_starts_marked(&payload, budget);
            variants.add(&marked);
            budget.spend(payload.len());
            pending.push(payloads(&flags::findings(&payload, budget)));
        }
    }
    let marked = shell::with_starts_marked(&searched, budget);
    variants.add(&marked);
    if replacements.len().saturating_mul(normalized.len()) > VARIANTS_BYTES_MAX {
        variants.add(&replaced(normalized, replacements));
        return variants.texts;
    }
    for replacement in replacements {
        variants.add(&replaced(normalized, std::slice::from_ref(replacement)));
    }
    variants.texts
}

fn payloads(findings: &[CommandFinding]) -> Vec<Vec<char>> {
    let texts = findings.iter().filter_map(|finding| finding.payload.as_deref());
    texts.filter(|text| !text.is_empty()).map(|text| text.chars().collect()).collect()
}

#[derive(Default)]
struct CommandVariants {
    seen: HashSet<String>,
    texts: Vec<String>,
}

impl CommandVariants {
    /// Whether it is new.
    fn add(&mut self, chars: &[char]) -> bool {
        let text = shell::text_of(chars);
        let lower = text.to_lowercase();
        let is_new = self.seen.insert(text);
        if is_new {
            self.texts.push(lower);
        }
        is_new
    }
}

/// A command word, and how it reads without its quotes.
type WordReplacement = (TextSpan, Vec<char>);

fn plain_words(normalized: &[char], budget: &ReadingBudget) -> Vec<WordReplacement> {
    let mut replacements = Vec::new();
    for (start, end) in shell::command_words(normalized, budget) {
        let written = &normalized[start..end];
        let plain: Vec<char> = shell::plain_word(written, budget).chars().collect();
        if !plain.is_empty() && plain != written {
            replacements.push(((start, end), plain));
        }
    }
    replacements
}

/// Empty where there is nothing to replace: the marked reading is the same then.
fn plain(text: &[char], replacements: &[WordReplacement], budget: &ReadingBudget) -> String {
    if replacements.is_empty() {
        return String::new();
    }
    let plain = replaced(text, replacements);
    shell::text_of(&shell::with_starts_marked(&plain, budget)).to_lowercase()
}

/// Where words lie within words (`a$(b)`), the outer one is replaced.
fn replaced(text: &[char], replacements: &[WordReplacement]) -> Vec<char> {
    let mut out = Vec::with_capacity(text.len());
    let mut previous = 0;
    for ((start, end), plain) in replacements {
        if *start >= previous {
            out.extend_from_slice(&text[previous..*start]);
            out.extend_from_slice(plain);
            previous = *end;
        }
    }
    out.extend_from_slice(&text[previous..]);
    out
}

/// The text with what `grep -P '…'` looks for blanked out: a pattern is not a command. The flag says
/// that a search could not be read; then nothing is blanked.
fn without_search_patterns(text: &[char], budget: &ReadingBudget) -> (Vec<char>, bool) {
    let Some(spans) = flags::search_patterns(text, budget) else { return (text.to_vec(), true) };
    let mut out = text.to_vec();
    for (start, end) in spans {
        out[start..end].fill(' ');
    }
    (out, false)
}
