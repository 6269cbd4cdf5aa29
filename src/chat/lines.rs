//! Where lines come from: a keyboard with editing and history, or standard input that is no terminal.
//!
//! - reading a line blocks, so it happens on a thread of its own, and only when a line is asked for:
//!   what is typed meanwhile waits in the terminal
//! - an answer to a question is read below the line editor ([`super::terminal`]): nothing that was typed
//!   before the question was shown can answer it, neither in the terminal nor in the editor's buffer
//! - what is typed and not sent is found in the history
//! - standard input that is no terminal is one message

use super::terminal;
use crate::out::{Page, Tint};
use anyhow::{Context as _, anyhow};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{ColorMode, Config, Context, Editor, Helper};
use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use throughline_core::port::Promise;
use throughline_home::home::private_file;
use tokio::sync::oneshot;

const PROMPT: &str = "› ";
/// As many lines as people look back on; some hundred kilobytes.
const HISTORY_LINES_MAX: usize = 1_000;
/// What the gateway takes in one message: a longer one would only be refused by it.
const MESSAGE_BYTES_MAX: u64 = 10_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    Line(String),
    /// Ctrl-C with something on the line: it is found in the history.
    Cleared,
    /// Ctrl-D, Ctrl-C on an empty line, or the end of the input.
    End,
}

pub trait Lines: Send {
    /// The next line for the agent. Dropping the promise loses no line: the next one gets it.
    fn next(&mut self) -> Promise<'_, anyhow::Result<Typed>>;

    /// Nothing that has been typed so far is an answer. Whether there was anything: it is in the history
    /// when the next line is edited.
    fn set_aside(&mut self) -> anyhow::Result<bool>;

    /// A line for the one who asks, typed after [`Lines::set_aside`]. Dropping the promise loses nothing.
    fn answer(&mut self) -> Promise<'_, anyhow::Result<Typed>>;
}

/// A source that blocks, on its thread.
pub struct Threaded {
    wanted: mpsc::Sender<Wish>,
    /// A line that was asked for and not waited for. The next one who asks gets it.
    coming: Option<oneshot::Receiver<anyhow::Result<Typed>>>,
    /// What was typed and set aside since a line was asked for.
    set_aside: Vec<String>,
}

/// A line is wanted.
struct Wish {
    /// What was typed before, for the history.
    remember: Vec<String>,
    granted: oneshot::Sender<anyhow::Result<Typed>>,
}

impl Threaded {
    /// `open` runs on the thread, when the first line is wanted.
    fn new<Source>(open: impl FnOnce() -> anyhow::Result<Source> + Send + 'static) -> anyhow::Result<Self>
    where
        Source: FnMut(Vec<String>) -> anyhow::Result<Typed>,
    {
        let (wanted, wishes) = mpsc::channel::<Wish>();
        let work = move || {
            let Ok(first) = wishes.recv() else { return };
            match open() {
                Err(error) => drop(first.granted.send(Err(error))),
                Ok(mut source) => {
                    for Wish { remember, granted } in std::iter::once(first).chain(wishes) {
                        let _ = granted.send(source(remember)); // no reader waits any more: the chat is over
                    }
                }
            }
        };
        std::thread::Builder::new().name("lines".into()).spawn(work)?;
        Ok(Self { wanted, coming: None, set_aside: Vec::new() })
    }

    /// The terminal, with editing. Lines are remembered in `history`.
    pub fn keyboard(history: PathBuf, page: &Page) -> anyhow::Result<Self> {
        let page = page.clone();
        Self::new(move || {
            let mut keyboard = Keyboard::open(history, page)?;
            Ok(move |remember| keyboard.line(remember))
        })
    }

    /// The standard input as it comes: one message of any lines.
    pub fn pipe() -> anyhow::Result<Self> {
        Self::new(|| {
            let mut is_read = false;
            Ok(move |_| match std::mem::replace(&mut is_read, true) {
                true => Ok(Typed::End),
                false => whole(&mut io::stdin().lock()),
            })
        })
    }
}

impl Lines for Threaded {
    fn next(&mut self) -> Promise<'_, anyhow::Result<Typed>> {
        Box::pin(async move {
            if self.coming.is_none() {
                let (granted, coming) = oneshot::channel();
                let remember = std::mem::take(&mut self.set_aside);
                let wish = Wish { remember, granted };
                self.wanted.send(wish).map_err(|_| anyhow!("the input can no longer be read"))?;
                self.coming = Some(coming);
            }
            let coming = self.coming.as_mut().expect("just asked for");
            let typed = coming.await.map_err(|_| anyhow!("the input can no longer be read"));
            self.coming = None;
            typed?
        })
    }

    fn set_aside(&mut self) -> anyhow::Result<bool> {
        let typed = terminal::typed_so_far().context("the terminal can no longer be read")?;
        let shown = |c: &char| !c.is_control() || *c == '\t';
        let lines = typed.split(['\n', '\r']).map(|line| line.chars().filter(shown).collect::<String>());
        let lines: Vec<String> = lines.filter(|line| !line.trim().is_empty()).collect();
        let was_typed = !lines.is_empty();
        self.set_aside.extend(lines);
        Ok(was_typed)
    }

    fn answer(&mut self) -> Promise<'_, anyhow::Result<Typed>> {
        Box::pin(async {
            let line = terminal::line().await.context("the terminal can no longer be read")?;
            Ok(line.map_or(Typed::End, Typed::Line))
        })
    }
}

/// All there is, to its end.
fn whole(input: &mut impl Read) -> anyhow::Result<Typed> {
    let mut bytes = Vec::new();
    let length = input.take(MESSAGE_BYTES_MAX + 1).read_to_end(&mut bytes);
    if length.context("the input can no longer be read")? as u64 > MESSAGE_BYTES_MAX {
        return Err(anyhow!(
            "standard input is longer than {MESSAGE_BYTES_MAX} bytes, and one message takes no more; send a part of it"
        ));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        anyhow!("standard input is not UTF-8; convert it first, with `iconv` for example, or name the file in the message")
    })?;
    Ok(Typed::Line(text.trim_end_matches(['\n', '\r']).to_owned()))
}

struct Keyboard {
    editor: Editor<Watch, FileHistory>,
    history: PathBuf,
}

impl Keyboard {
    fn open(history: PathBuf, page: Page) -> anyhow::Result<Self> {
        let colour = if page.has_colour { ColorMode::Enabled } else { ColorMode::Disabled };
        let config = Config::builder()
            .max_history_size(HISTORY_LINES_MAX)?
            .history_ignore_dups(true)?
            .auto_add_history(false)
            .bracketed_paste(true) // several pasted lines are one message
            .color_mode(colour)
            .build();
        let mut editor = Editor::with_config(config).context("the terminal cannot be used for editing")?;
        editor.set_helper(Some(Watch { line: RefCell::default(), page }));
        // Without a history there is still a chat: a home may be on a disk that cannot be written.
        if keep_private(&history).is_ok() {
            let _ = editor.load_history(&history);
        }
        Ok(Self { editor, history })
    }

    fn line(&mut self, earlier: Vec<String>) -> anyhow::Result<Typed> {
        earlier.iter().for_each(|line| self.remember(line));
        if let Some(watch) = self.editor.helper() {
            watch.line.take();
        }
        match self.editor.readline(PROMPT) {
            Ok(line) => {
                self.remember(&line);
                Ok(Typed::Line(line))
            }
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(ReadlineError::Interrupted) => {
                let line = self.editor.helper().map(|watch| watch.line.take()).unwrap_or_default();
                self.remember(&line);
                Ok(if line.is_empty() { Typed::End } else { Typed::Cleared })
            }
            Err(error) => Err(error).context("the terminal can no longer be read"),
        }
    }

    fn remember(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        let added = self.editor.add_history_entry(line);
        if added.is_ok_and(|is_new| is_new) && keep_private(&self.history).is_ok() {
            let _ = self.editor.append_history(&self.history);
        }
    }
}

/// The file is there, and only its owner can read it.
fn keep_private(path: &Path) -> io::Result<()> {
    let file = private_file().append(true).create(true).open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mut permissions = file.metadata()?.permissions();
        if permissions.mode() & 0o077 != 0 {
            permissions.set_mode(0o600);
            file.set_permissions(permissions)?;
        }
    }
    drop(file);
    Ok(())
}

/// Sees the line while it is edited: the editor does not say what was on it when Ctrl-C came.
struct Watch {
    line: RefCell<String>,
    page: Page,
}

impl Hinter for Watch {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        line.clone_into(&mut self.line.borrow_mut());
        None
    }
}

impl Highlighter for Watch {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        self.page.paint(Tint::Green, prompt)
    }
}

impl Completer for Watch {
    type Candidate = String;
}

impl Validator for Watch {}
impl Helper for Watch {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn standard_input_is_one_message() {
        let said = |text: &str| match whole(&mut text.as_bytes()).unwrap() {
            Typed::Line(text) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(said("one\r\n\nlast\n\n"), "one\r\n\nlast");
        assert_eq!(said(""), "");
    }

    #[test]
    fn input_that_is_no_text_or_too_long_is_named() {
        let error = whole(&mut b"\xff\xfe\n".as_slice()).unwrap_err().to_string();
        assert!(error.starts_with("standard input is not UTF-8; convert it first"), "{error}");
        let error = whole(&mut io::repeat(b'a')).unwrap_err().to_string();
        assert!(error.starts_with("standard input is longer than 10000000 bytes"), "{error}");
    }

    #[test]
    fn p31_the_history_is_private_even_if_it_was_not() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("throughline.history");
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        keep_private(&path).unwrap();
        assert_eq!(mode(), 0o600);
        std::fs::write(&path, "#V2\nkept\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        keep_private(&path).unwrap();
        assert_eq!(mode(), 0o600);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "#V2\nkept\n");
    }

    #[tokio::test]
    async fn lines_come_one_by_one_from_a_thread() {
        let mut left = 2;
        let mut lines = Threaded::new(move || {
            Ok(move |_| {
                left -= 1;
                Ok(if left >= 0 { Typed::Line(left.to_string()) } else { Typed::End })
            })
        })
        .unwrap();
        assert_eq!(lines.next().await.unwrap(), Typed::Line("1".into()));
        assert_eq!(lines.next().await.unwrap(), Typed::Line("0".into()));
        assert_eq!(lines.next().await.unwrap(), Typed::End);
    }

    #[tokio::test]
    async fn a_source_that_cannot_be_opened_says_so() {
        let open =
            || -> anyhow::Result<fn(Vec<String>) -> anyhow::Result<Typed>> { Err(anyhow!("no terminal")) };
        let mut lines = Threaded::new(open).unwrap();
        assert_eq!(lines.next().await.unwrap_err().to_string(), "no terminal");
    }
}
