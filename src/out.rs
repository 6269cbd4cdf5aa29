//! What people read on a terminal, and programs through a pipe.
//!
//! - a reader that goes away (`| head`) ends a command quietly; any other failure to write is an error
//! - control characters in what others said are shown, never obeyed
//! - colours only on a terminal, and never against `NO_COLOR`
//! - a table keeps its columns with wide characters, and keeps within the terminal
//!
//! Deliberately absent: `println!`, which ends the process when its reader has gone.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value;
use std::borrow::Cow;
use std::env;
use std::fmt;
use std::io::{self, IsTerminal, Write};
#[cfg(unix)]
use std::os::fd::AsFd as AsStream;
#[cfg(windows)]
use std::os::windows::io::AsHandle as AsStream;
use std::process::ExitCode;
use throughline_core::Time;
use throughline_core::redact::redacted;
pub use throughline_home::text::{one_line, visible};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Of a terminal that does not say how wide it is.
const WIDTH_USUAL: usize = 80;

/// What output is written on: how wide, in which colours, in whose time.
#[derive(Clone, Debug)]
pub struct Page {
    /// Columns of the terminal. None: it is no terminal, and nothing is cut.
    pub width: Option<usize>,
    pub has_colour: bool,
    pub zone: TimeZone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tint {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Page {
    /// For what goes to a program or a file.
    pub fn plain() -> Self {
        Self { width: None, has_colour: false, zone: TimeZone::system() }
    }

    pub fn of(stream: &(impl IsTerminal + AsStream)) -> Self {
        if !stream.is_terminal() {
            return Self::plain();
        }
        let width = terminal_size::terminal_size_of(stream).map_or(WIDTH_USUAL, |(width, _)| width.0.into());
        Self { width: Some(width), has_colour: wants_colour(), ..Self::plain() }
    }

    pub fn paint<'a>(&self, tint: Tint, text: &'a str) -> Cow<'a, str> {
        let code = match tint {
            Tint::Bold => "1",
            Tint::Dim => "2",
            Tint::Red => "31",
            Tint::Green => "32",
            Tint::Yellow => "33",
            Tint::Cyan => "36",
        };
        match self.has_colour && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m").into(),
            false => text.into(),
        }
    }

    /// `2026-05-28`
    pub fn day(&self, time: Time) -> String {
        self.local(time).strftime("%Y-%m-%d").to_string()
    }

    /// `2026-05-28 09:35`
    pub fn minute(&self, time: Time) -> String {
        self.local(time).strftime("%Y-%m-%d %H:%M").to_string()
    }

    /// `2026-05-28 09:35:10`
    pub fn second(&self, time: Time) -> String {
        self.local(time).strftime("%Y-%m-%d %H:%M:%S").to_string()
    }

    /// `09:35:10`
    pub fn clock(&self, time: Time) -> String {
        self.local(time).strftime("%H:%M:%S").to_string()
    }

    /// `09:35:10.123`
    pub fn clock_ms(&self, time: Time) -> String {
        self.local(time).strftime("%H:%M:%S.%3f").to_string()
    }

    /// What the clock on the wall shows. Times that no calendar has are taken for its ends.
    fn local(&self, time: Time) -> DateTime {
        let end = if time.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
        self.zone.to_datetime(Timestamp::from_microsecond(time.0).unwrap_or(end))
    }
}

/// As <https://no-color.org> has it: set and not empty means no.
fn wants_colour() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

// ------------------------------------------------------------------------------------------ text

/// The beginning of `text` that fits into `columns`, and an ellipsis if something is missing.
pub fn fitted(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return text.into();
    }
    let mut room = columns.saturating_sub(1);
    let mut kept = String::new();
    for c in text.chars() {
        let width = c.width().unwrap_or(0);
        if width > room {
            break;
        }
        room -= width;
        kept.push(c);
    }
    kept.push('…');
    kept.into()
}

/// `text` with `indent` before every line that is not empty.
pub fn indented(text: &str, indent: &str) -> String {
    let lines = text.lines().map(|line| match line.is_empty() {
        true => "\n".to_owned(),
        false => format!("{indent}{line}\n"),
    });
    lines.collect()
}

// ----------------------------------------------------------------------------------------- table

/// Rows under a heading, each column as wide as its widest cell. Where the page is too narrow, the
/// flexible column gives way.
pub struct Table<const N: usize> {
    columns: [Column; N],
    rows: Vec<[String; N]>,
}

#[derive(Clone, Copy)]
pub struct Column {
    heading: &'static str,
    kind: ColumnKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    Text,
    Number,
    Flexible,
}

/// Narrower than this, a cut text says nothing.
const FLEXIBLE_MIN: usize = 12;
const GAP: &str = "  ";

impl Column {
    pub fn text(heading: &'static str) -> Self {
        Self { heading, kind: ColumnKind::Text }
    }

    /// Right-aligned.
    pub fn number(heading: &'static str) -> Self {
        Self { heading, kind: ColumnKind::Number }
    }

    /// May be cut.
    pub fn flexible(heading: &'static str) -> Self {
        Self { heading, kind: ColumnKind::Flexible }
    }
}

impl<const N: usize> Table<N> {
    pub fn new(columns: [Column; N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| one_line(&cell)));
    }

    pub fn write(&self, page: &Page, out: &mut dyn Write) -> io::Result<()> {
        let widths = self.widths(page);
        let headings = self.columns.map(|column| column.heading.to_owned());
        writeln!(out, "{}", page.paint(Tint::Dim, &self.line(&headings, &widths)))?;
        for row in &self.rows {
            writeln!(out, "{}", self.line(row, &widths))?;
        }
        Ok(())
    }

    fn widths(&self, page: &Page) -> [usize; N] {
        let mut widths = self.columns.map(|column| column.heading.width());
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let flexible = self.columns.iter().position(|column| column.kind == ColumnKind::Flexible);
        if let (Some(flexible), Some(room)) = (flexible, page.width) {
            let whole = widths.iter().sum::<usize>() + GAP.len() * (N - 1);
            let excess = whole.saturating_sub(room);
            let narrow = widths[flexible].saturating_sub(excess).max(FLEXIBLE_MIN);
            widths[flexible] = widths[flexible].min(narrow);
        }
        widths
    }

    fn line(&self, cells: &[String; N], widths: &[usize; N]) -> String {
        let mut line = String::new();
        for (i, (column, (cell, width))) in self.columns.iter().zip(cells.iter().zip(widths)).enumerate() {
            if i > 0 {
                line.push_str(GAP);
            }
            let cell = fitted(cell, *width);
            let padding = " ".repeat(width.saturating_sub(cell.width()));
            match column.kind {
                ColumnKind::Number => line.extend([padding.as_str(), &cell]),
                ColumnKind::Text | ColumnKind::Flexible => line.extend([&cell, padding.as_str()]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

// ---------------------------------------------------------------------------------------- writer

/// The end of a command whose reader went away is an ordinary one.
pub fn unless_reader_gone(ended: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    let is_gone = |error: &(dyn std::error::Error + 'static)| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.is_some_and(|inner| inner.is::<ReaderGone>())
    };
    match ended {
        Err(error) if error.chain().any(is_gone) => Ok(ExitCode::SUCCESS),
        ended => ended,
    }
}

/// One JSON document and a line break.
pub fn write_json(value: &Value, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
    writeln!(out)
}

/// Tells a reader that went away from a disk that is full.
pub struct Checked<W>(pub W);

#[derive(Debug)]
struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the reader of the output has gone")
    }
}

impl std::error::Error for ReaderGone {}

fn told_apart(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, ReaderGone),
        _ => error,
    }
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(told_apart)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(told_apart)
    }
}

/// The standard error, without secrets. Whole lines are redacted: what is written in pieces is one text.
#[derive(Default)]
pub struct RedactedStderr {
    line: Vec<u8>,
}

/// A line without an end is shown in parts of this length.
const LINE_BYTES_MAX: usize = 1 << 20;

impl RedactedStderr {
    fn show(&mut self, through: usize) -> io::Result<()> {
        let rest = self.line.split_off(through);
        let text = redacted(&String::from_utf8_lossy(&std::mem::replace(&mut self.line, rest)));
        io::stderr().lock().write_all(text.as_bytes())
    }
}

impl Write for RedactedStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        match self.line.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => self.show(end + 1)?,
            None if self.line.len() > LINE_BYTES_MAX => self.show(self.line.len())?,
            None => {}
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.show(self.line.len())?;
        io::stderr().flush()
    }
}

impl Drop for RedactedStderr {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            let _ = self.flush();
        }
    }
}

/// A panic is told on the standard error like everything else there: without secrets.
pub fn redact_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let trace = std::backtrace::Backtrace::capture(); // empty unless RUST_BACKTRACE asks for it
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        let mut stderr = RedactedStderr::default();
        let _ = writeln!(stderr, "thread {name}: {panic}");
        if let std::backtrace::BacktraceStatus::Captured = trace.status() {
            let _ = writeln!(stderr, "{trace}");
        }
    }));
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use anyhow::Context;
    use proptest::prelude::*;

    /// A page of this width in Central European summer time, which no machine's files decide.
    pub fn page(width: Option<usize>) -> Page {
        Page { width, has_colour: false, zone: TimeZone::posix("CEST-2").unwrap() }
    }

    const SECRET: &str = "sk-ant-api03-0123456789abcdefghij0123456789";

    #[test]
    fn p31_a_panic_tells_no_secret_on_standard_error() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "out::tests::child_that_panics", "--ignored", "--nocapture"]);
        let ended = child.env("PANICS", "1").env("RUST_BACKTRACE", "1").output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success());
        assert!(told.contains("panicked at") && told.contains("the key"), "{told}");
        assert!(!told.contains(SECRET) && !told.contains(&SECRET[13..]), "{told}");
    }

    #[test]
    #[ignore = "a part of the test above, in a process of its own"]
    fn child_that_panics() {
        if std::env::var_os("PANICS").is_some() {
            redact_panics();
            panic!("the key\n{SECRET}\nopens nothing");
        }
    }

    pub fn written(work: impl FnOnce(&mut dyn Write) -> anyhow::Result<ExitCode>) -> String {
        let mut out = Vec::new();
        work(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn table() -> Table<3> {
        let mut table = Table::new([Column::text("ID"), Column::flexible("TITLE"), Column::number("N")]);
        table.row(["a1".into(), "Tea,\nfor two".into(), "7".into()]);
        table.row(["b22".into(), "日本語のタイトル".into(), "1200".into()]);
        table.row(["c".into(), "\x1b[31mred\x07".into(), "3".into()]);
        table
    }

    #[test]
    fn a_table_is_aligned_with_wide_and_hostile_cells() {
        let shown = |width| {
            written(|out| {
                table().write(&page(width), out)?;
                Ok(ExitCode::SUCCESS)
            })
        };
        let whole = "\
ID   TITLE                N
a1   Tea, for two         7
b22  日本語のタイトル  1200
c    ␛[31mred␇            3
";
        assert_eq!(shown(None), whole);
        assert_eq!(shown(Some(27)), whole);
        let narrow = "\
ID   TITLE            N
a1   Tea, for two     7
b22  日本語のタ…   1200
c    ␛[31mred␇        3
";
        assert_eq!(shown(Some(23)), narrow);
        assert_eq!(shown(Some(5)), narrow, "the flexible column keeps a readable width");
    }

    #[test]
    fn colours_only_where_they_are_wanted() {
        let mut colourful = page(None);
        assert_eq!(colourful.paint(Tint::Red, "no"), "no");
        colourful.has_colour = true;
        assert_eq!(colourful.paint(Tint::Red, "no"), "\x1b[31mno\x1b[0m");
        assert_eq!(colourful.paint(Tint::Red, ""), "");
    }

    #[test]
    fn times_are_those_of_the_wall() {
        let time = Time(1_779_953_710_123_456);
        assert_eq!(page(None).second(time), "2026-05-28 09:35:10");
        assert_eq!(page(None).minute(time), "2026-05-28 09:35");
        assert_eq!(page(None).day(time), "2026-05-28");
        assert_eq!(page(None).clock_ms(time), "09:35:10.123");
        assert_eq!(page(None).clock(time), "09:35:10");
        assert!(page(None).day(Time(i64::MAX)).starts_with("9999-12-"));
    }

    #[test]
    fn lines_are_indented_and_empty_ones_stay_empty() {
        assert_eq!(indented("a\n\nb", "  "), "  a\n\n  b\n");
        assert_eq!(indented("", "  "), "");
    }

    struct Closed(io::ErrorKind);

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_goes_away_ends_a_command_quietly_and_a_full_disk_does_not() {
        let attempt = |kind| -> anyhow::Result<ExitCode> {
            write_json(&serde_json::json!([1]), &mut Checked(Closed(kind)))
                .context("could not write the list")?;
            Ok(ExitCode::SUCCESS)
        };
        assert!(unless_reader_gone(attempt(io::ErrorKind::BrokenPipe)).is_ok());
        assert!(unless_reader_gone(attempt(io::ErrorKind::StorageFull)).is_err());
        let elsewhere = io::Error::from(io::ErrorKind::BrokenPipe); // of a socket, say
        assert!(unless_reader_gone(Err(elsewhere.into())).is_err());
    }

    #[test]
    fn p31_text_functions_are_linear() {
        throughline_complexity::assert_linear(&[
            ("out::visible", |text| _ = visible(text).into_owned()),
            ("out::one_line", |text| _ = one_line(text)),
            ("out::fitted", |text| _ = fitted(text, text.len() / 2).into_owned()),
            ("out::indented", |text| _ = indented(text, "  ")),
        ]);
    }

    proptest! {
        #[test]
        fn p31_nothing_that_was_said_controls_the_terminal(text in "\\PC*|[\\x00-\\x9f]{0,20}") {
            let shown = visible(&text);
            prop_assert!(shown.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
        }

        #[test]
        fn what_is_fitted_fits(text in "\\PC{0,40}", columns in 1usize..30) {
            let shown = fitted(&text, columns);
            let sum: usize = shown.chars().map(|c| c.width().unwrap_or(0)).sum();
            prop_assert!(shown.width() <= columns || sum <= columns, "{shown:?}");
        }
    }
}
