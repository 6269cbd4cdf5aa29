//! Where lines come from: a keyboard with editing and history, or a pipe.
//!
//! Reading a line blocks, so it happens on a thread of its own, and only when a line is asked for:
//! what is typed meanwhile waits in the terminal.

use crate::home::private_file;
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
use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use throughline_core::port::Promise;
use tokio::sync::oneshot;

const PROMPT: &str = "› ";
/// As many lines as people look back on; some hundred kilobytes.
const HISTORY_LINES_MAX: usize = 1_000;
/// What the gateway takes in one message: a longer line would only be refused by it.
const LINE_BYTES_MAX: u64 = 10_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    Line(String),
    /// Ctrl-C with something on the line: it is thrown away.
    Cleared,
    /// Ctrl-D, Ctrl-C on an empty line, or the end of the pipe.
    End,
}

pub trait Lines: Send {
    /// Dropping the promise loses no line: the next one gets it.
    fn next(&mut self) -> Promise<'_, anyhow::Result<Typed>>;
}

/// A source that blocks, on its thread.
pub struct Threaded {
    wanted: mpsc::Sender<oneshot::Sender<anyhow::Result<Typed>>>,
    /// A line that somebody asked for and did not wait for. The next one who asks gets it.
    coming: Option<oneshot::Receiver<anyhow::Result<Typed>>>,
}

impl Threaded {
    /// `open` runs on the thread, when the first line is wanted.
    fn new<Source>(open: impl FnOnce() -> anyhow::Result<Source> + Send + 'static) -> anyhow::Result<Self>
    where
        Source: FnMut() -> anyhow::Result<Typed>,
    {
        let (wanted, wishes) = mpsc::channel::<oneshot::Sender<anyhow::Result<Typed>>>();
        let work = move || {
            let Ok(first) = wishes.recv() else { return };
            match open() {
                Err(error) => drop(first.send(Err(error))),
                Ok(mut source) => {
                    for wish in std::iter::once(first).chain(wishes) {
                        let _ = wish.send(source()); // nobody waits any more: the chat is over
                    }
                }
            }
        };
        std::thread::Builder::new().name("lines".into()).spawn(work)?;
        Ok(Self { wanted, coming: None })
    }

    /// The terminal, with editing. Lines are remembered in `history`.
    pub fn keyboard(history: PathBuf, page: &Page) -> anyhow::Result<Self> {
        let page = page.clone();
        Self::new(move || {
            let mut keyboard = Keyboard::open(history, page)?;
            Ok(move || keyboard.line())
        })
    }

    /// The standard input as it comes, a message a line.
    pub fn pipe() -> anyhow::Result<Self> {
        Self::new(|| {
            let mut number = 0;
            Ok(move || {
                number += 1;
                plain_line(&mut io::stdin().lock(), number)
            })
        })
    }
}

impl Lines for Threaded {
    fn next(&mut self) -> Promise<'_, anyhow::Result<Typed>> {
        Box::pin(async move {
            if self.coming.is_none() {
                let (wish, granted) = oneshot::channel();
                self.wanted.send(wish).map_err(|_| anyhow!("the input can no longer be read"))?;
                self.coming = Some(granted);
            }
            let coming = self.coming.as_mut().expect("just asked for");
            let typed = coming.await.map_err(|_| anyhow!("the input can no longer be read"));
            self.coming = None;
            typed?
        })
    }
}

fn plain_line(input: &mut impl BufRead, number: usize) -> anyhow::Result<Typed> {
    let mut bytes = Vec::new();
    let length = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
    match length.context("the input can no longer be read")? {
        0 => return Ok(Typed::End),
        length if length as u64 == LINE_BYTES_MAX => {
            return Err(anyhow!(
                "line {number} of the input is longer than {LINE_BYTES_MAX} bytes; send it in parts"
            ));
        }
        _ => {}
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        anyhow!("line {number} of the input is not UTF-8; convert it first, with `iconv` for example")
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
        editor.set_helper(Some(Watch { line_is_empty: Cell::new(true), page }));
        // Without a history there is still a chat: a home may be on a disk that cannot be written.
        if keep_private(&history).is_ok() {
            let _ = editor.load_history(&history);
        }
        Ok(Self { editor, history })
    }

    fn line(&mut self) -> anyhow::Result<Typed> {
        if let Some(watch) = self.editor.helper() {
            watch.line_is_empty.set(true);
        }
        match self.editor.readline(PROMPT) {
            Ok(line) => {
                self.remember(&line);
                Ok(Typed::Line(line))
            }
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(ReadlineError::Interrupted) => {
                let was_empty = self.editor.helper().is_some_and(|watch| watch.line_is_empty.get());
                Ok(if was_empty { Typed::End } else { Typed::Cleared })
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

/// The file is there, and nobody else can read it.
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
    line_is_empty: Cell<bool>,
    page: Page,
}

impl Hinter for Watch {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.line_is_empty.set(line.is_empty());
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
    fn a_pipe_gives_its_lines_and_then_ends() {
        let mut input = "one\r\n\nlast".as_bytes();
        let lines: Vec<_> = (1..=4).map(|number| plain_line(&mut input, number).unwrap()).collect();
        let line = |text: &str| Typed::Line(text.to_owned());
        assert_eq!(lines, [line("one"), line(""), line("last"), Typed::End]);
    }

    #[test]
    fn a_line_that_is_no_text_is_named() {
        let error = plain_line(&mut b"\xff\xfe\n".as_slice(), 7).unwrap_err().to_string();
        assert_eq!(error, "line 7 of the input is not UTF-8; convert it first, with `iconv` for example");
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
            Ok(move || {
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
        let open = || -> anyhow::Result<fn() -> anyhow::Result<Typed>> { Err(anyhow!("no terminal")) };
        let mut lines = Threaded::new(open).unwrap();
        assert_eq!(lines.next().await.unwrap_err().to_string(), "no terminal");
    }
}
