//! Files as text: what counts as text, where its lines end, and how it is put back.

use crate::paths::HeldDirectory;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

pub const BOM: char = '\u{feff}';

/// Names of files that are not text, even if their bytes look like it.
const BINARY_EXTENSIONS: [&str; 86] = [
    "png", "jpg", "jpeg", "gif", "bmp", "ico", "webp", "tiff", "tif", "mp4", "mov", "avi", "mkv", "webm",
    "wmv", "flv", "m4v", "mpeg", "mpg", "mp3", "wav", "ogg", "flac", "aac", "m4a", "wma", "aiff", "opus",
    "zip", "tar", "gz", "bz2", "7z", "rar", "xz", "z", "tgz", "iso", "exe", "dll", "so", "dylib", "bin", "o",
    "a", "obj", "lib", "app", "msi", "deb", "rpm", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods",
    "odp", "ttf", "otf", "woff", "woff2", "eot", "pyc", "pyo", "class", "jar", "war", "ear", "node", "wasm",
    "rlib", "sqlite", "sqlite3", "db", "mdb", "idx", "psd", "ai", "eps", "sketch", "fig", "xd", "blend",
];
const MORE_BINARY_EXTENSIONS: [&str; 7] = ["3ds", "max", "swf", "fla", "lockb", "dat", "data"];

/// The beginning by which text is told from other bytes.
pub const SAMPLE_BYTES: usize = 1000;

/// The extension, if it is one of a binary format.
pub fn binary_extension(path: &Path) -> Option<String> {
    let extension = extension(path);
    let known = |list: &[&str]| list.contains(&extension.as_str());
    (known(&BINARY_EXTENSIONS) || known(&MORE_BINARY_EXTENSIONS)).then(|| format!(".{extension}"))
}

/// In lower case, without its dot.
pub fn extension(path: &Path) -> String {
    path.extension().and_then(OsStr::to_str).unwrap_or_default().to_lowercase()
}

/// Bytes of which almost a third are no characters.
pub fn looks_binary(sample: &[u8]) -> bool {
    let sample = String::from_utf8_lossy(&sample[..sample.len().min(SAMPLE_BYTES)]);
    let odd = sample.chars().filter(|c| u32::from(*c) < 32 && !matches!(c, '\n' | '\r' | '\t')).count();
    !sample.is_empty() && odd as f64 / sample.chars().count() as f64 > 0.30
}

/// The text without a mark at its start that is no part of it.
pub fn without_bom(text: &str) -> &str {
    text.strip_prefix(BOM).unwrap_or(text)
}

/// How the lines of a file end, as far as its beginning tells.
pub fn has_crlf(text: &str) -> bool {
    let mut end = text.len().min(4096);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].contains("\r\n")
}

/// Every line ended alike.
pub fn with_ends(text: &str, crlf: bool) -> Cow<'_, str> {
    if !crlf && !text.contains('\r') {
        return Cow::Borrowed(text);
    }
    let plain = text.replace("\r\n", "\n").replace('\r', "\n");
    Cow::Owned(if crlf { plain.replace('\n', "\r\n") } else { plain })
}

/// Python's `splitlines(keepends=True)`.
pub fn lines_with_ends(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut start = 0;
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        if !is_line_end(c) {
            continue;
        }
        let mut end = at + c.len_utf8();
        if c == '\r' && rest.next_if(|(_, next)| *next == '\n').is_some() {
            end += 1;
        }
        lines.push(&text[start..end]);
        start = end;
    }
    if start < text.len() {
        lines.push(&text[start..]);
    }
    lines
}

/// Python's `splitlines()`.
pub fn lines(text: &str) -> Vec<&str> {
    lines_with_ends(text).into_iter().map(|line| line.trim_end_matches(is_line_end)).collect()
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// `repr(text)` of a text without odd characters.
pub fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    match text.contains('\'') && !text.contains('"') {
        true => format!("\"{text}\""),
        false => format!("'{}'", text.replace('\'', "\\'")),
    }
}

/// Puts `bytes` in the place of the file called `name`, whole or not at all: also after a power cut
/// there is the old file or the new one. An old one's mode stays.
pub fn replace(held: &HeldDirectory, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    let directory = held.path();
    let place = directory.join(name);
    let before = match fs::symlink_metadata(&place) {
        Ok(facts) if facts.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(facts) if !facts.is_file() => return Err(io::Error::other("it is no regular file")),
        Ok(facts) => Some(facts.permissions()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".hermes-tmp.");
    #[cfg(unix)]
    {
        // What `open` would ask for: the user's mask takes its share.
        let usual = || std::os::unix::fs::PermissionsExt::from_mode(0o666);
        builder.permissions(before.clone().unwrap_or_else(usual));
    }
    let mut file = builder.tempfile_in(&directory)?;
    file.write_all(bytes)?;
    if let Some(permissions) = before {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    file.persist(&place).map_err(|error| error.error)?;
    held.sync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_those_of_python() {
        assert_eq!(lines_with_ends("a\nb\r\nc\rd\u{2028}e"), ["a\n", "b\r\n", "c\r", "d\u{2028}", "e"]);
        assert_eq!(lines("a\n\nb\n"), ["a", "", "b"]);
        assert_eq!(lines(""), Vec::<&str>::new());
    }

    #[test]
    fn text_is_told_from_other_bytes() {
        assert!(!looks_binary(b""));
        assert!(!looks_binary("tabs\tand\r\nümlaute".as_bytes()));
        assert!(!looks_binary(b"caf\xe9 in latin-1\n"), "odd bytes are replaced, not refused");
        assert!(looks_binary(b"ab\x00\x00\x01\x02cd"));
        assert_eq!(binary_extension(Path::new("x/Photo.JPG")).unwrap(), ".jpg");
        assert_eq!(binary_extension(Path::new("x.pdf")), None);
    }

    #[test]
    fn quoting_is_that_of_python() {
        assert_eq!(quoted("a.txt"), "'a.txt'");
        assert_eq!(quoted("it's"), "\"it's\"");
        assert_eq!(quoted("it's \"so\""), "'it\\'s \"so\"'");
    }

    proptest! {
        #[test]
        fn ends_are_changed_once(text in "[a\r\n]{0,30}", crlf in any::<bool>()) {
            let once = with_ends(&text, crlf).into_owned();
            prop_assert_eq!(with_ends(&once, crlf), once.clone());
            prop_assert_eq!(once.replace("\r\n", "").contains('\r'), false);
        }

        #[test]
        fn no_line_is_lost(text in ".{0,60}") {
            prop_assert_eq!(lines_with_ends(&text).concat(), text);
        }
    }
}
