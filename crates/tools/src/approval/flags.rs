//! Options by which a program is made to run another one: `bash -c`, `python -e`, `sort
//! --compress-program`, and their kin; and what a search looks for, which no program runs.

use super::danger::MALFORMED;
use super::shell::{self, ReadingBudget, TextSpan};
use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

/// A way to run something that the text of a command shows.
pub struct CommandFinding {
    pub name: Cow<'static, str>,
    /// What would be run, where it is a command itself.
    pub payload: Option<String>,
}

impl CommandFinding {
    fn plain(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), payload: None }
    }
}

/// A language that takes its program as an argument.
struct Interpreter {
    names: &'static str,
    runs: &'static [&'static str],
    /// Options whose value is the next word, or the rest of theirs.
    with_value: &'static [&'static str],
    /// Options are whole words, in any case.
    is_powershell: bool,
}

const INTERPRETERS: [Interpreter; 6] = [
    Interpreter {
        names: r"py(?:\.exe)?|python[23]?(?:\.\d+)*(?:\.exe)?",
        runs: &["-c"],
        with_value: &["-W", "-X", "--check-hash-based-pycs"],
        is_powershell: false,
    },
    Interpreter {
        names: r"node(?:js)?(?:\.exe)?",
        runs: &["-e", "--eval", "-p", "--print"],
        with_value: &[
            "-C",
            "--conditions",
            "--cpu-prof-dir",
            "--diagnostic-dir",
            "--icu-data-dir",
            "--import",
            "--loader",
            "--openssl-config",
            "--require",
            "--title",
        ],
        is_powershell: false,
    },
    Interpreter {
        names: r"perl[0-9]*(?:\.\d+)*(?:\.exe)?",
        runs: &["-e", "--eval"],
        with_value: &["-0", "-F", "-I", "-M", "-m", "-x"],
        is_powershell: false,
    },
    Interpreter {
        names: r"ruby[0-9.]*(?:\.exe)?",
        runs: &["-e"],
        with_value: &["-C", "-E", "-F", "-I", "-K", "-r"],
        is_powershell: false,
    },
    Interpreter {
        names: r"php(?:\.exe)?",
        runs: &["-r"],
        with_value: &["-c", "-d", "-z"],
        is_powershell: false,
    },
    Interpreter {
        names: r"powershell(?:\.exe)?|pwsh(?:\.exe)?",
        runs: &["-command", "-c", "-file", "-f"],
        with_value: &[
            "-configurationname",
            "-custompipename",
            "-executionpolicy",
            "-inputformat",
            "-outputformat",
            "-settingsfile",
            "-version",
            "-windowstyle",
            "-workingdirectory",
        ],
        is_powershell: true,
    },
];

/// A program that only reads, but for the options in `runs`.
struct ReadingProgram {
    name: &'static str,
    runs: &'static [&'static str],
    long_with_value: &'static [&'static str],
    short_with_value: &'static str,
}

const READERS: [ReadingProgram; 4] = [
    ReadingProgram {
        name: "sort",
        runs: &["--compress-program"],
        long_with_value: &[
            "--batch-size",
            "--buffer-size",
            "--compress-program",
            "--field-separator",
            "--files0-from",
            "--key",
            "--output",
            "--parallel",
            "--random-source",
            "--sort",
            "--temporary-directory",
        ],
        short_with_value: "koStT",
    },
    ReadingProgram {
        name: "rg",
        runs: &["--pre", "--hostname-bin"],
        long_with_value: &[
            "--after-context",
            "--before-context",
            "--color",
            "--colors",
            "--context",
            "--context-separator",
            "--dfa-size-limit",
            "--encoding",
            "--engine",
            "--field-context-separator",
            "--field-match-separator",
            "--file",
            "--generate",
            "--glob",
            "--hostname-bin",
            "--hyperlink-format",
            "--iglob",
            "--ignore-file",
            "--max-columns",
            "--max-count",
            "--max-depth",
            "--max-filesize",
            "--path-separator",
            "--pre",
            "--pre-glob",
            "--regex-size-limit",
            "--regexp",
            "--replace",
            "--sort",
            "--sortr",
            "--threads",
            "--type",
            "--type-add",
            "--type-clear",
            "--type-not",
        ],
        short_with_value: "efEmjgdtTABCMr",
    },
    ReadingProgram {
        name: "ag",
        runs: &["--pager"],
        long_with_value: &[
            "--ackmate-dir-filter",
            "--color-line-number",
            "--color-match",
            "--color-path",
            "--depth",
            "--filename-pattern",
            "--file-search-regex",
            "--ignore",
            "--ignore-dir",
            "--max-count",
            "--pager",
            "--path-to-ignore",
            "--width",
            "--workers",
        ],
        short_with_value: "gGmpW",
    },
    ReadingProgram {
        name: "man",
        runs: &["--pager", "--html", "-P", "-H"],
        long_with_value: &[
            "--config-file",
            "--encoding",
            "--extension",
            "--locale",
            "--manpath",
            "--pager",
            "--preprocessor",
            "--prompt",
            "--recode",
            "--sections",
            "--systems",
        ],
        short_with_value: "CRLmMSserEPp",
    },
];

const SHELLS: [&str; 4] = ["bash", "sh", "zsh", "ksh"];
const SHELL_OPTIONS_WITH_VALUE: [&str; 6] = ["-O", "+O", "-o", "+o", "--init-file", "--rcfile"];
const SHELL_SHORT_OPTIONS: &str = "ilrsDcabefhkmnptuvxBCEHPTOo";

const SEARCH_LONG_WITH_VALUE: [&str; 14] = [
    "--after-context",
    "--before-context",
    "--binary-files",
    "--context",
    "--directories",
    "--devices",
    "--exclude",
    "--exclude-dir",
    "--exclude-from",
    "--include",
    "--label",
    "--max-count",
    "--regexp",
    "--file",
];
const SEARCH_SHORT_WITH_VALUE: &str = "ABCDdefm";

/// Every such way in the text, in order.
pub fn findings(text: &[char], budget: &ReadingBudget) -> Vec<CommandFinding> {
    let mut found = Vec::new();
    for (from, to) in shell::segments(text, budget) {
        let segment = &text[from..to];
        for (start, end) in shell::command_words(segment, budget) {
            if budget.is_spent() {
                return found;
            }
            let program = shell::plain_word(&segment[start..end], budget);
            budget.spend(segment.len() - start);
            found.extend(finding(&program, &segment[start..]));
        }
    }
    found
}

fn finding(program: &str, segment: &[char]) -> Vec<CommandFinding> {
    let name = shell::base_name(program).to_lowercase();
    let interpreter = interpreter(&name);
    let reader = READERS.iter().find(|reader| reader.name == name);
    let Some(words) = shell::split(segment, true) else {
        let could_run = interpreter.is_some() || reader.is_some();
        return could_run.then(|| CommandFinding::plain(MALFORMED)).into_iter().collect();
    };
    let Some((_, arguments)) = words.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    if let Some(interpreter) = interpreter {
        if runs_argument(interpreter, arguments) {
            return vec![CommandFinding::plain("script execution via -e/-c flag")];
        }
        if arguments.iter().any(|word| word.starts_with("<<")) {
            return vec![CommandFinding::plain("script execution via heredoc")];
        }
    }
    if SHELLS.contains(&name.as_str())
        && let Some(payload) = shell_payload(arguments)
    {
        found.push(CommandFinding { name: Cow::Borrowed("shell command via -c/-lc flag"), payload });
    }
    if let Some(reader) = reader
        && let Some((option, payload)) = reader_payload(reader, arguments)
    {
        let name = format!("arbitrary program execution via {} {option}", reader.name);
        found.push(CommandFinding { name: Cow::Owned(name), payload: Some(payload) });
    }
    found
}

fn interpreter(name: &str) -> Option<&'static Interpreter> {
    static NAMES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        let whole = |interpreter: &Interpreter| format!(r"\A(?:{})\z", interpreter.names);
        let compiled = |text: String| Regex::new(&text).expect("the names above are expressions");
        INTERPRETERS.iter().map(whole).map(compiled).collect()
    });
    NAMES.iter().position(|names| names.is_match(name)).map(|at| &INTERPRETERS[at])
}

fn option_and_value(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((option, value)) => (option, Some(value)),
        None => (word, None),
    }
}

fn runs_argument(interpreter: &Interpreter, arguments: &[String]) -> bool {
    let mut skip = false;
    for word in arguments {
        if std::mem::take(&mut skip) {
            continue;
        }
        if word == "--" || (!interpreter.is_powershell && !word.starts_with('-')) {
            return false;
        }
        let (option, value) = option_and_value(word);
        let name = if interpreter.is_powershell { option.to_lowercase() } else { option.to_owned() };
        if interpreter.runs.contains(&name.as_str()) {
            return true;
        }
        if !interpreter.is_powershell && bundles_running_option(interpreter, option) {
            return true;
        }
        skip = value.is_none() && interpreter.with_value.contains(&name.as_str());
    }
    false
}

/// `-Sc` is `-S -c`; `-Wonce` is one option and its value.
fn bundles_running_option(interpreter: &Interpreter, option: &str) -> bool {
    let carries_value = interpreter
        .with_value
        .iter()
        .any(|short| !short.starts_with("--") && option.starts_with(short) && option.len() > short.len());
    !option.starts_with("--")
        && option.chars().count() > 2
        && !carries_value
        && option.chars().skip(1).any(|c| interpreter.runs.contains(&format!("-{c}").as_str()))
}

/// None: there is no `-c`. Some(None): there is, with nothing behind it.
fn shell_payload(arguments: &[String]) -> Option<Option<String>> {
    let mut i = 0;
    while let Some(word) = arguments.get(i) {
        if word == "--" || !word.starts_with(['-', '+']) {
            return None;
        }
        if SHELL_OPTIONS_WITH_VALUE.contains(&word.as_str()) {
            i += 2;
            continue;
        }
        let letters = &word[1..];
        if word.starts_with("--") || !letters.chars().all(|c| SHELL_SHORT_OPTIONS.contains(c)) {
            i += 1;
            continue;
        }
        // These two take the next word, wherever they stand in the bundle.
        let takes_word = usize::from(letters.contains(['O', 'o']));
        if letters.contains('c') {
            return Some(arguments.get(i + 1 + takes_word).cloned());
        }
        i += 1 + takes_word;
    }
    None
}

fn reader_payload(reader: &ReadingProgram, arguments: &[String]) -> Option<(String, String)> {
    let mut i = 0;
    while let Some(word) = arguments.get(i) {
        if word == "--" {
            return None;
        }
        let (option, value) = option_and_value(word);
        let mut running =
            reader.runs.contains(&option).then(|| (option.to_owned(), value.map(str::to_owned)));
        if reader.name == "man" && word.starts_with(['-']) && word.len() > 2 {
            let attached = word.strip_prefix("-P").or_else(|| word.strip_prefix("-H"));
            if let Some(attached) = attached {
                running = Some((word[..2].to_owned(), Some(attached.to_owned())));
            }
        }
        if let Some((option, value)) = running {
            let payload = value.or_else(|| arguments.get(i + 1).cloned());
            match payload {
                Some(payload) if !payload.is_empty() => return Some((option, payload)),
                // It was given nothing to run, and took the next word for that.
                Some(_) if !word.contains('=') => i += 2,
                _ => i += 1,
            }
            continue;
        }
        if value.is_none() && reader.long_with_value.contains(&option) {
            i += 2;
            continue;
        }
        i += 1 + usize::from(takes_next_word(reader, word));
    }
    None
}

/// In a bundle, the first option with a value takes the rest of the word, or the next one.
fn takes_next_word(reader: &ReadingProgram, word: &str) -> bool {
    if !word.starts_with('-') || word.starts_with("--") {
        return false;
    }
    let letters: Vec<char> = word.chars().skip(1).collect();
    let first = letters.iter().position(|c| reader.short_with_value.contains(*c));
    first.is_some_and(|at| at + 1 == letters.len())
}

/// Where the text holds patterns of `grep -P` that the shell does not look at. None: a search that
/// cannot be read.
pub fn search_patterns(text: &[char], budget: &ReadingBudget) -> Option<Vec<TextSpan>> {
    let mut spans = Vec::new();
    for (from, to) in shell::segments(text, budget) {
        let segment = &text[from..to];
        for (start, end) in shell::command_words(segment, budget) {
            if budget.is_spent() {
                return Some(spans);
            }
            let program = shell::plain_word(&segment[start..end], budget);
            if !matches!(shell::base_name(&program).to_lowercase().as_str(), "grep" | "egrep") {
                continue;
            }
            let tokens = shell::placed_words(segment, start, budget)?;
            let arguments = tokens.get(1..).unwrap_or_default();
            let SearchProgram { is_perl, patterns } = match search(arguments)? {
                Some(search) => search,
                // Nothing is searched for. Hermes stops looking here, and so what was found is void.
                None => return Some(Vec::new()),
            };
            if is_perl {
                let inert = patterns.iter().map(|at| &arguments[*at]).filter(|token| token.inert);
                spans.extend(inert.map(|token| (from + token.span.0, from + token.span.1)));
            }
        }
    }
    Some(spans)
}

struct SearchProgram {
    is_perl: bool,
    /// Positions of the arguments that hold them.
    patterns: Vec<usize>,
}

/// None: it cannot be read. Some(None): it looks for nothing.
fn search(arguments: &[shell::ShellToken]) -> Option<Option<SearchProgram>> {
    let mut search = SearchProgram { is_perl: false, patterns: Vec::new() };
    let (mut explicit, mut options) = (false, true);
    let mut operand = None;
    let mut i = 0;
    while let Some(token) = arguments.get(i) {
        let word = token.value.as_str();
        if options && word == "--" {
            options = false;
        } else if options && word.starts_with("--") {
            let (option, value) = option_and_value(word);
            search.is_perl |= option == "--perl-regexp";
            explicit |= matches!(option, "--regexp" | "--file");
            let takes_next = value.is_none() && SEARCH_LONG_WITH_VALUE.contains(&option);
            if takes_next && i + 1 >= arguments.len() {
                return None;
            }
            if option == "--regexp" {
                search.patterns.push(i + usize::from(takes_next));
            }
            i += usize::from(takes_next);
        } else if options && word.starts_with('-') && word != "-" {
            let letters: Vec<char> = word.chars().skip(1).collect();
            let with_value = letters.iter().position(|c| SEARCH_SHORT_WITH_VALUE.contains(*c));
            let read = &letters[..with_value.map_or(letters.len(), |at| at + 1)];
            search.is_perl |= read.contains(&'P');
            explicit |= read.iter().any(|c| matches!(c, 'e' | 'f'));
            if let Some(at) = with_value {
                let takes_next = at + 1 == letters.len();
                if takes_next && i + 1 >= arguments.len() {
                    return None;
                }
                if letters[at] == 'e' {
                    search.patterns.push(i + usize::from(takes_next));
                }
                i += usize::from(takes_next);
            }
        } else if operand.is_none() {
            operand = Some(i);
        }
        i += 1;
    }
    if !explicit {
        match operand {
            Some(operand) => search.patterns.push(operand),
            None if search.is_perl => return None,
            None => return Some(None),
        }
    }
    Some(Some(search))
}
