//! Command names that a text does not show (`x=r; y=m; $x$y -r DIR`), and the files that it writes.
//!
//! The rules look for names of commands. A name that is put together when the command runs is seen by
//! none of them. So names are read here as a shell would: what was set to plain text before, in the
//! same command and on every way to it, is filled in and judged by the rules; a name that stays unknown
//! is something to ask about. Arguments may hold anything.
//!
//! This is no shell, either: it reads on the careful side. What it takes for a name and is none costs a
//! question, and no more. Reading has a budget, beyond which a name is unknown, too.

mod word;

use std::cell::Cell;
use std::collections::BTreeMap;
use word::{ScriptWord, is_plain, is_wrapper};

/// What the names of a command come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CommandNames {
    /// Commands with their names filled in, where they were not plain text: `rm -r DIR`.
    pub filled: Vec<String>,
    /// The first name that is not known, as it is written.
    pub unknown: Option<String>,
    /// Files and directories that are written to, as far as they are named; `~` for the user's own.
    pub written: Vec<String>,
}

/// Deeper nests of substitutions are no ordinary command.
const DEPTH_MAX: usize = 16;
/// Filled-in commands to judge; more of them are asked about.
const FILLED_MAX: usize = 32;
/// Characters looked at. An ordinary command takes a few thousand; this is some tens of milliseconds.
const BUDGET: usize = 4_000_000;
/// What a value may grow to by being put together.
const VALUE_CHARS_MAX: usize = 256;

/// After these the name of a command follows.
const KEYWORDS: [&str; 11] =
    ["if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "coproc"];
const BLOCK_STARTS: [&str; 6] = ["if", "while", "until", "for", "select", "case"];
const BLOCK_ENDS: [&str; 3] = ["fi", "done", "esac"];
/// Programs that run the program named after their options, with the options that take a word.
const WRAPPERS: [(&str, &[&str]); 17] = [
    ("sudo", &["-u", "-g", "-h", "-p", "-C", "-c", "--user", "--group", "--host", "--prompt"]),
    ("doas", &["-u", "-C"]),
    ("env", &["-u", "--unset", "-C", "--chdir"]),
    ("exec", &["-a"]),
    ("nohup", &[]),
    ("setsid", &[]),
    ("command", &[]),
    ("builtin", &[]),
    ("nice", &["-n"]),
    ("ionice", &["-c", "-n"]),
    ("stdbuf", &["-i", "-o", "-e"]),
    ("timeout", &["-s", "-k", "--signal", "--kill-after"]),
    ("xargs", &["-n", "-I", "-P", "-L", "-s", "-d", "-E", "-a"]),
    ("busybox", &[]),
    ("chronic", &[]),
    ("unbuffer", &[]),
    ("watch", &["-n"]),
];

/// Commands that set variables to what the text does not show.
const SETTERS: [&str; 9] = ["read", "mapfile", "readarray", "getopts", "unset", "let", "eval", "source", "."];
/// Commands whose arguments are assignments.
const DECLARERS: [&str; 5] = ["export", "declare", "typeset", "local", "readonly"];
/// Commands that write what their arguments name: all of them, or the last.
const WRITERS: [&str; 3] = ["tee", "touch", "truncate"];
const COPIERS: [&str; 5] = ["cp", "mv", "ln", "install", "rsync"];
/// Files to look at; a command that writes more of them has many words, and one will do to ask.
const WRITTEN_MAX: usize = 256;
/// Where crontabs lie: `crontab` writes one.
const CRONTABS: &str = "/var/spool/cron";
/// What `find` runs.
const EXECUTING: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// The names in a command's text, as it is given to the shell.
pub fn names(command: &str) -> CommandNames {
    let text: Vec<char> = command.chars().collect();
    let mut reader = ScriptReader {
        text: &text,
        at: 0,
        budget: Cell::new(BUDGET),
        depth: 0,
        blocks: 0,
        cases: 0,
        variables: BTreeMap::from([("HOME".to_owned(), Some("~".to_owned()))]),
        here: Vec::new(),
        names: CommandNames::default(),
    };
    reader.commands(None);
    if reader.budget.get() == 0 {
        reader.give_up();
    }
    reader.names
}

struct ScriptReader<'a> {
    text: &'a [char],
    at: usize,
    budget: Cell<usize>,
    depth: usize,
    /// `if`, `while` and their like that are open: what is set within may not be.
    blocks: usize,
    cases: usize,
    /// What is surely set. None: to something unknown.
    variables: BTreeMap<String, Option<String>>,
    /// Here-documents whose text follows the line: what ends each, and whether it is read as it stands.
    here: Vec<(String, bool)>,
    names: CommandNames,
}

/// A command between two separators.
#[derive(Default)]
struct SimpleCommand {
    /// Assignments in front: they hold for the shell only if no command follows.
    assigned: Vec<(String, Option<String>)>,
    words: Vec<ScriptWord>,
    /// How the name is found.
    state: NameSearch,
    /// It runs in any case: nothing before it decides.
    is_certain: bool,
}

#[derive(Default, PartialEq, Eq)]
enum NameSearch {
    #[default]
    Name,
    /// Behind a wrapper: its options may take words.
    Wrapped {
        with_word: &'static [&'static str],
        skips: bool,
        plain: usize,
    },
    /// `for NAME`, `case WORD`: no command.
    Header,
    /// Between `[[` and `]]`.
    Test,
    Arguments,
}

impl ScriptReader<'_> {
    /// None at the end of the text, and of the budget.
    fn peek(&self, ahead: usize) -> Option<char> {
        let left = self.budget.get().checked_sub(1)?;
        self.budget.set(left);
        self.text.get(self.at + ahead).copied()
    }

    fn give_up(&mut self) {
        self.names.unknown.get_or_insert_with(|| "a nest of commands".to_owned());
        self.at = self.text.len();
    }

    fn starts(&self, what: &str) -> bool {
        what.chars().enumerate().all(|(i, c)| self.peek(i) == Some(c))
    }

    fn is_certain(&self) -> bool {
        self.depth == 0 && self.blocks == 0
    }

    /// Reads commands up to `end`, or to the end of the text.
    fn commands(&mut self, end: Option<char>) {
        let mut simple = SimpleCommand { is_certain: self.is_certain(), ..SimpleCommand::default() };
        let cases = self.cases;
        while let Some(c) = self.peek(0) {
            // A bracket within a `case` ends a pattern.
            if Some(c) == end && self.cases == cases {
                break;
            }
            match c {
                ' ' | '\t' | '\r' => self.at += 1,
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                '#' => self.skip_line(),
                '\n' => {
                    self.finish(&mut simple, true);
                    self.at += 1;
                    self.here_documents();
                }
                ';' => {
                    self.at += 1;
                    self.finish(&mut simple, true);
                }
                '&' if self.peek(1) == Some('>') => self.redirection(),
                '&' | '|' => {
                    let doubled = self.peek(1) == Some(c);
                    self.at += 1 + usize::from(doubled);
                    if simple.state != NameSearch::Test {
                        // A part of a pipe, or in the background: it has a shell of its own.
                        if !doubled {
                            simple.is_certain = false;
                        }
                        self.finish(&mut simple, false);
                    }
                }
                '(' | ')' if simple.state == NameSearch::Test => self.at += 1,
                '(' if self.peek(1) == Some('(') && self.arithmetic(2) => {
                    self.variables.clear(); // `((x = 1))`
                    self.finish(&mut simple, false);
                }
                '(' => {
                    self.at += 1;
                    // `name()`: what is defined runs under its name, which is known.
                    self.finish(&mut simple, false);
                    self.nested(Some(')'));
                }
                ')' => {
                    // Of a `case`, or of nothing.
                    self.at += 1;
                    simple = SimpleCommand::default();
                }
                '<' | '>' => self.redirection(),
                _ => {
                    let word = self.word(end);
                    self.take(word, &mut simple);
                }
            }
        }
        self.finish(&mut simple, true);
        self.cases = cases;
    }

    /// Reads past `((…))`, of which `opening` characters are the beginning; what is substituted in it is
    /// run. False: it is no arithmetic but brackets within brackets, and nothing has been read.
    fn arithmetic(&mut self, opening: usize) -> bool {
        let start = self.at;
        if self.depth >= DEPTH_MAX {
            self.give_up();
            return true;
        }
        self.depth += 1;
        self.at += opening;
        let (mut open, mut ignored) = (1, ScriptWord::default());
        while let Some(c) = self.peek(0) {
            match c {
                '$' => self.expansion(&mut ignored),
                '`' => self.backticks(&mut ignored),
                '(' | ')' => {
                    open = if c == '(' { open + 1 } else { open - 1 };
                    self.at += 1;
                }
                _ => self.at += 1,
            }
            if open == 0 {
                break;
            }
        }
        self.depth -= 1;
        let is_arithmetic = open == 0 && self.peek(0) == Some(')');
        self.at = if is_arithmetic { self.at + 1 } else { start };
        is_arithmetic
    }

    /// Reads what is within brackets, and what follows them.
    fn nested(&mut self, end: Option<char>) {
        if self.depth >= DEPTH_MAX {
            self.give_up();
            return;
        }
        self.depth += 1;
        self.commands(end);
        self.depth -= 1;
        if end.is_some() && self.peek(0) == end {
            self.at += 1;
        }
    }

    /// Takes up one word of a command.
    fn take(&mut self, word: ScriptWord, simple: &mut SimpleCommand) {
        let value = word.value.clone();
        let plain = value.as_deref().unwrap_or_default().to_owned();
        match &mut simple.state {
            NameSearch::Header if plain == "{" => *simple = SimpleCommand::default(), // `function f {`
            NameSearch::Header | NameSearch::Arguments => simple.words.push(word),
            NameSearch::Test => {
                if plain == "]]" {
                    simple.state = NameSearch::Arguments;
                }
            }
            NameSearch::Wrapped { with_word, skips, plain: leading } => {
                if *skips {
                    *skips = false;
                } else if plain.starts_with('-') {
                    *skips = with_word.contains(&plain.as_str());
                } else if word.assigns.is_some() {
                    // `env A=b name`
                } else if *leading > 0 {
                    *leading -= 1;
                } else {
                    self.name(word, simple);
                }
            }
            NameSearch::Name => match &word.assigns {
                Some((name, appends)) => {
                    let before = self.variables.get(name).cloned().flatten();
                    let set = match (appends, before, value) {
                        (false, _, value) => value,
                        (true, Some(before), Some(value)) => Some(before + &value),
                        (true, ..) => None,
                    };
                    let set = set.filter(|set| set.chars().count() <= VALUE_CHARS_MAX);
                    simple.assigned.push((name.clone(), set));
                }
                None => self.name(word, simple),
            },
        }
    }

    /// A word that stands where the name of a command does.
    fn name(&mut self, word: ScriptWord, simple: &mut SimpleCommand) {
        let value = word.value.clone().unwrap_or_default();
        // `2>file name`
        if matches!(self.peek(0), Some('<' | '>'))
            && value.chars().all(|c| c.is_ascii_digit())
            && !value.is_empty()
        {
            return;
        }
        // A pattern of a `case` is no command.
        let next = (self.at..self.text.len()).map(|i| self.text[i]).find(|c| !matches!(c, ' ' | '\t'));
        if self.cases > 0 && matches!(next, Some(')' | '|')) && !matches!(value.as_str(), "esac") {
            return;
        }
        if !word.is_filled && word.value.is_some() {
            self.blocks += usize::from(BLOCK_STARTS.contains(&value.as_str()));
            if BLOCK_ENDS.contains(&value.as_str()) {
                self.blocks = self.blocks.saturating_sub(1);
            }
            match value.as_str() {
                "case" => {
                    self.cases += 1;
                    simple.state = NameSearch::Header;
                }
                "esac" => {
                    self.cases = self.cases.saturating_sub(1);
                    simple.state = NameSearch::Arguments;
                }
                "for" | "select" | "function" => simple.state = NameSearch::Header,
                "[[" => simple.state = NameSearch::Test,
                keyword if KEYWORDS.contains(&keyword) => {
                    simple.is_certain &= !matches!(keyword, "coproc");
                    return;
                }
                _ => {}
            }
            if simple.state == NameSearch::Header || simple.state == NameSearch::Test {
                simple.words.push(word);
                return;
            }
        }
        let base = value.rsplit('/').next().unwrap_or_default().to_owned();
        if let Some((_, with_word)) = WRAPPERS.iter().find(|(name, _)| *name == base)
            && word.value.is_some()
        {
            let plain = usize::from(base == "timeout");
            simple.words.push(word);
            simple.state = NameSearch::Wrapped { with_word, skips: false, plain };
            return;
        }
        simple.state = NameSearch::Arguments;
        simple.words.push(word);
    }

    /// The command is read: judges its name, and lets its assignments hold.
    fn finish(&mut self, simple: &mut SimpleCommand, next_is_certain: bool) {
        let done = std::mem::replace(
            simple,
            SimpleCommand { is_certain: next_is_certain && self.is_certain(), ..SimpleCommand::default() },
        );
        let certain = done.is_certain && self.is_certain();
        if done.words.is_empty() {
            for (name, value) in done.assigned {
                self.set(name, value, certain);
            }
            return;
        }
        let header = done.words[0].value.as_deref().unwrap_or_default();
        if done.state == NameSearch::Header {
            if matches!(header, "for" | "select")
                && let Some(name) = done.words.get(1)
            {
                self.variables.insert(name.raw.clone(), None);
            }
            // `case WORD in` is followed by a pattern, `for NAME in …` by nothing that runs.
            return;
        }
        if SETTERS.contains(&header) || (header == "printf" && done.words.iter().any(|word| word.raw == "-v"))
        {
            self.variables.clear();
        }
        if DECLARERS.contains(&header) {
            for word in &done.words[1..] {
                if let Some((name, appends)) = &word.assigns {
                    let value = word.value.clone().filter(|_| !appends);
                    self.set(name.clone(), value, certain);
                }
            }
        }
        self.judge(&done.words);
        self.write(&done.words);
        if header == "find" {
            for (at, word) in done.words.iter().enumerate() {
                if EXECUTING.contains(&word.raw.as_str()) {
                    self.judge(&done.words[at + 1..]);
                }
            }
        }
    }

    /// The first of these words that is no wrapper names a command: known, or not.
    fn judge(&mut self, words: &[ScriptWord]) {
        let Some(at) = words.iter().position(|word| !is_wrapper(word)) else { return };
        let word = &words[at];
        let Some(value) = &word.value else {
            // `$HOME/bin/tool`: the rules know tools by their last name.
            let last = word.raw.rsplit('/').next().unwrap_or_default().trim_end_matches(['"', '\'']);
            let is_told = word.raw.contains('/') && !last.is_empty() && last.chars().all(is_plain);
            match is_told {
                true => self.fill(last, &words[at + 1..]),
                false => {
                    self.names
                        .unknown
                        .get_or_insert_with(|| word.raw.chars().take(VALUE_CHARS_MAX).collect());
                }
            }
            return;
        };
        if word.is_filled {
            self.fill(value, &words[at + 1..]);
        }
    }

    /// What a command writes, by the names of its arguments.
    fn write(&mut self, words: &[ScriptWord]) {
        let told = |word: &ScriptWord| word.value.clone().unwrap_or_else(|| word.raw.clone());
        let Some(at) = words.iter().position(|word| !is_wrapper(word)) else { return };
        let name = told(&words[at]);
        let name = name.rsplit('/').next().unwrap_or_default();
        let (options, arguments): (Vec<String>, Vec<String>) =
            words[at + 1..].iter().map(told).partition(|word| word.starts_with('-') && word.len() > 1);
        let written: Vec<String> = match name {
            _ if WRITERS.contains(&name) => arguments,
            _ if COPIERS.contains(&name) => {
                let named = options.iter().filter_map(|option| option.strip_prefix("--target-directory="));
                let mut written: Vec<String> = named.map(str::to_owned).collect();
                let named = options.iter().any(|option| option == "-t").then(|| arguments.first()).flatten();
                written.extend(named.cloned());
                if let Some((to, from)) = arguments.split_last() {
                    // Into a directory, each under its own name.
                    let base =
                        |from: &String| from.trim_end_matches('/').rsplit('/').next().map(str::to_owned);
                    let within = from
                        .iter()
                        .filter_map(base)
                        .map(|base| format!("{}/{base}", to.trim_end_matches('/')));
                    written.extend(within);
                    written.push(to.clone());
                }
                written
            }
            "sed"
                if options
                    .iter()
                    .any(|option| option.starts_with("-i") || option.starts_with("--in-place")) =>
            {
                arguments
            }
            "dd" => {
                let to = |word: &&ScriptWord| word.assigns.as_ref().is_some_and(|(name, _)| name == "of");
                words.iter().filter(to).map(told).collect()
            }
            "crontab" if !options.iter().any(|option| option == "-l") => vec![CRONTABS.to_owned()],
            _ => Vec::new(),
        };
        let room = WRITTEN_MAX.saturating_sub(self.names.written.len());
        self.names.written.extend(written.into_iter().take(room));
    }

    fn fill(&mut self, name: &str, arguments: &[ScriptWord]) {
        // The rules know tools by their last name.
        let name = name.rsplit('/').next().unwrap_or(name);
        if self.names.filled.len() >= FILLED_MAX {
            self.names.unknown.get_or_insert_with(|| name.to_owned());
            return;
        }
        let told = |word: &'_ ScriptWord| match &word.value {
            Some(value) if word.assigns.is_none() => value.clone(),
            _ => word.raw.clone(),
        };
        let arguments: Vec<String> = arguments.iter().map(told).collect();
        let arguments = arguments.iter().map(String::as_str);
        let command: Vec<&str> = std::iter::once(name).chain(arguments).collect();
        self.names.filled.push(command.join(" "));
    }

    /// What is set in two ways, or perhaps not at all, is unknown.
    fn set(&mut self, name: String, value: Option<String>, is_certain: bool) {
        let value = value.filter(|_| is_certain);
        self.variables.insert(name, value);
    }

    // --------------------------------------------------------------------------------- what is skipped

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    /// `>file`, `2>&1`, `<<EOF`, `<(command)`.
    fn redirection(&mut self) {
        let is_here = self.starts("<<") && !self.starts("<<<");
        let is_output = matches!(self.peek(0), Some('>' | '&')) || self.starts("<>");
        while self.peek(0).is_some_and(|c| matches!(c, '<' | '>' | '&' | '|')) {
            self.at += 1;
            if self.peek(0) == Some('(') {
                self.at += 1;
                self.nested(Some(')'));
                return;
            }
        }
        if is_here && self.peek(0) == Some('-') {
            self.at += 1;
        }
        while self.peek(0).is_some_and(|c| matches!(c, ' ' | '\t')) {
            self.at += 1;
        }
        if self.peek(0).is_none_or(|c| matches!(c, '\n' | ';' | ')' | '(')) {
            return;
        }
        let word = self.word(None);
        if is_output && self.names.written.len() < WRITTEN_MAX {
            self.names.written.push(word.value.clone().unwrap_or_else(|| word.raw.clone()));
        }
        if is_here {
            let is_quoted = word.raw.contains(['\'', '"', '\\']);
            self.here.push((word.value.unwrap_or(word.raw), is_quoted));
        }
    }

    /// The lines of here-documents are text; what is substituted in them is run.
    fn here_documents(&mut self) {
        for (end, is_quoted) in std::mem::take(&mut self.here) {
            while self.at < self.text.len() {
                let line_end =
                    (self.at..self.text.len()).find(|i| self.text[*i] == '\n').unwrap_or(self.text.len());
                let line: String = self.text[self.at..line_end].iter().collect();
                if line.trim_start_matches('\t') == end {
                    self.at = (line_end + 1).min(self.text.len());
                    break;
                }
                let mut ignored = ScriptWord::default();
                while self.at < line_end {
                    match self.text[self.at] {
                        '\\' => self.at += 2,
                        '$' if !is_quoted => self.expansion(&mut ignored),
                        '`' if !is_quoted => self.backticks(&mut ignored),
                        _ => self.at += 1,
                    }
                }
                if self.at <= line_end {
                    self.at = (line_end + 1).min(self.text.len());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
