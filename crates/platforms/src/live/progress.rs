//! Lines about tools: one per call, in one message that grows.

use serde_json::Value;
use std::collections::BTreeSet;
use throughline_core::redact::redacted;
use throughline_hermes::config::platforms::ToolProgress;

/// A message that grows beyond this is left, and another one begun. Below what any platform takes.
const CHARS_MAX: usize = 1500;
/// Of an argument, unless it is configured.
const PREVIEW_CHARS: usize = 40;

/// Arguments that say best what a call is about, the best first.
const TELLING: [&str; 14] = [
    "command",
    "path",
    "file_path",
    "query",
    "pattern",
    "url",
    "goal",
    "prompt",
    "question",
    "name",
    "target",
    "action",
    "code",
    "message",
];

pub(super) struct ProgressLines {
    mode: ToolProgress,
    preview_chars: usize,
    known: BTreeSet<String>,
    last_tool: Option<String>,
    /// Each with how often it came in a row.
    lines: Vec<(String, u32)>,
    /// The message they stand in.
    id: Option<String>,
    all: Vec<String>,
    is_news: bool,
}

/// What is to be posted, or to stand in a message from now on.
pub(super) struct ProgressUpdate {
    pub id: Option<String>,
    pub text: String,
}

impl ProgressLines {
    pub fn new(mode: ToolProgress, preview_chars: usize) -> Self {
        Self {
            mode,
            preview_chars,
            known: BTreeSet::new(),
            last_tool: None,
            lines: Vec::new(),
            id: None,
            all: Vec::new(),
            is_news: false,
        }
    }

    /// From now on so much is shown.
    pub fn show(&mut self, mode: ToolProgress) {
        self.mode = mode;
    }

    pub fn add(&mut self, call: &str, tool: &str, arguments: &str) {
        let same_tool = self.last_tool.as_deref() == Some(tool);
        let off = self.mode == ToolProgress::Off || (self.mode == ToolProgress::New && same_tool);
        if off || !self.known.insert(call.to_owned()) {
            return;
        }
        self.last_tool = Some(tool.to_owned());
        let line = line(self.mode, self.preview_chars, tool, arguments);
        match self.lines.last_mut() {
            Some((last, times)) if *last == line => *times += 1,
            _ => {
                let length: usize = self.lines.iter().map(|(line, _)| line.chars().count() + 1).sum();
                if length + line.chars().count() > CHARS_MAX {
                    self.break_off();
                }
                self.lines.push((line, 1));
            }
        }
        self.is_news = true;
    }

    pub fn has_news(&self) -> bool {
        self.is_news
    }

    /// What has to be shown. `apart`: each line is a message of its own.
    pub fn news(&mut self, apart: bool) -> Vec<ProgressUpdate> {
        self.is_news = false;
        let text = |(line, times): &(String, u32)| match times {
            1 => line.clone(),
            times => format!("{line} (×{times})"),
        };
        match apart {
            true => std::mem::take(&mut self.lines)
                .iter()
                .map(|line| ProgressUpdate { id: None, text: text(line) })
                .collect(),
            false => {
                let text = self.lines.iter().map(text).collect::<Vec<_>>().join("\n");
                vec![ProgressUpdate { id: self.id.clone(), text }]
            }
        }
    }

    pub fn is_posted(&mut self, id: String) {
        self.all.push(id.clone());
        self.id = Some(id);
    }

    /// It could not be shown yet.
    pub fn again(&mut self) {
        self.is_news = true;
    }

    /// The message cannot be changed any more: what comes is another one.
    pub fn give_up(&mut self) {
        self.break_off();
    }

    pub fn break_off(&mut self) {
        self.lines.clear();
        self.id = None;
        self.is_news = false;
    }

    pub fn posted(&mut self) -> Vec<String> {
        std::mem::take(&mut self.all)
    }

    /// The turn is over. Calls stay known: a person who shared it hears of them once more.
    pub fn end(&mut self) {
        self.break_off();
        self.all.clear();
        self.last_tool = None;
    }
}

fn line(mode: ToolProgress, preview_chars: usize, tool: &str, arguments: &str) -> String {
    let sign = sign(tool);
    let parsed: Value = serde_json::from_str(arguments).unwrap_or(Value::Null);
    if mode == ToolProgress::Verbose {
        let arguments = redacted(arguments);
        return match parsed.as_object() {
            Some(fields) if !fields.is_empty() => {
                let shown = if preview_chars > PREVIEW_CHARS {
                    cut(&arguments, preview_chars)
                } else {
                    cut(&arguments, CHARS_MAX / 2)
                };
                format!("{sign} {tool}\n{shown}")
            }
            _ => format!("{sign} {tool}..."),
        };
    }
    let telling = TELLING.iter().find_map(|key| parsed.get(*key)?.as_str());
    let telling = telling.or_else(|| parsed.as_object()?.values().find_map(Value::as_str));
    match telling.and_then(|text| text.lines().find(|line| !line.trim().is_empty())) {
        Some(text) => {
            let chars = if preview_chars == 0 { PREVIEW_CHARS } else { preview_chars };
            format!("{sign} {tool}: \"{}\"", cut(redacted(text).trim(), chars))
        }
        None => format!("{sign} {tool}..."),
    }
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars.max(4)) {
        None => text.to_owned(),
        Some(_) => text.chars().take(chars.max(4) - 3).chain("...".chars()).collect(),
    }
}

fn sign(tool: &str) -> &'static str {
    match tool {
        "terminal" | "process" => "💻",
        "read_file" => "📖",
        "write_file" => "✍️",
        "patch" => "🔧",
        "search_files" => "🔎",
        "web_search" => "🔍",
        "web_extract" => "📄",
        "memory" | "session_search" => "🧠",
        "todo" => "📋",
        "delegate_task" => "🔀",
        "send_message" => "📨",
        "clarify" => "❓",
        _ if tool.starts_with("skill") => "📚",
        _ if tool.starts_with("browser") => "🌐",
        _ => "⚙️",
    }
}
