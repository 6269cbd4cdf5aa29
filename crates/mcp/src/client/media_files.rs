//! Files out of results: pictures, sounds and documents that came as base64, put where Hermes puts
//! them (`cache/images` and its kin), so that everything that knows those paths finds them.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use throughline_private_files as private_files;

/// The largest file that a single block of a result may become.
pub const FILE_LENGTH_MAX: usize = 50 * 1024 * 1024;

/// Names tried before the directory counts as unwritable: 48 random bits do not meet three times.
const NAMES_MAX: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    Image,
    Audio,
    Document,
}

impl MediaKind {
    /// Today's directory, and that of older homes, which is used where it exists.
    fn directories(self) -> (&'static str, &'static str) {
        match self {
            MediaKind::Image => ("cache/images", "image_cache"),
            MediaKind::Audio => ("cache/audio", "audio_cache"),
            MediaKind::Document => ("cache/documents", "document_cache"),
        }
    }
}

/// As lenient as Hermes: what is no base64 character is passed over, padding may be missing.
pub fn decoded(text: &str) -> Option<Vec<u8>> {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let bytes: Vec<u8> = text.bytes().filter(is_base64).collect();
    GeneralPurpose::new(&STANDARD, config).decode(bytes).ok()
}

/// Writes a file that did not exist before. `suffix` ends its name: an extension or a whole name.
pub fn kept(home: &Path, kind: MediaKind, suffix: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let (today, before) = kind.directories();
    let directory = match home.join(before) {
        older if older.is_dir() => older,
        _ => home.join(today),
    };
    fs::create_dir_all(&directory)?;
    for _ in 0..NAMES_MAX {
        let unique = format!("{:012x}", RandomState::new().build_hasher().finish() & 0xffff_ffff_ffff);
        let name = match kind {
            MediaKind::Image => format!("img_{unique}{suffix}"),
            MediaKind::Audio => format!("audio_{unique}{suffix}"),
            MediaKind::Document => format!("doc_{unique}_{suffix}"),
        };
        let path = directory.join(name);
        match private_files::file_options().write(true).create_new(true).open(&path) {
            Ok(mut file) => return file.write_all(bytes).map(|()| path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// By its first bytes: an error page that calls itself a picture is none.
pub fn is_image(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x89PNG\r\n\x1a\n")
        || bytes.starts_with(b"\xff\xd8\xff")
        || bytes.starts_with(b"GIF87a")
        || bytes.starts_with(b"GIF89a")
        || bytes.starts_with(b"BM") && bytes.len() >= 4
        || bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP")
}

pub fn image_extension(kind: &str) -> &'static str {
    match kind {
        "image/jpeg" | "image/jpg" => ".jpg",
        "image/gif" => ".gif",
        "image/webp" => ".webp",
        "image/bmp" => ".bmp",
        _ => ".png",
    }
}

pub fn audio_extension(kind: &str) -> &'static str {
    match kind {
        "audio/wav" | "audio/x-wav" | "audio/wave" => ".wav",
        "audio/mpeg" => ".mp3",
        "audio/mp4" => ".m4a",
        "audio/aac" => ".aac",
        "audio/flac" => ".flac",
        _ => ".ogg",
    }
}

/// A name for a file out of the last part of an address that a server made up: a hint, and no path.
pub fn document_name(uri: &str, kind: &str) -> String {
    /// File systems take 255 bytes, of which our own beginning needs some.
    const LENGTH_MAX: usize = 150;
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let path =
        path.split_once("://").map_or(path, |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
    let last = percent_decoded(path.trim_end_matches('/').rsplit('/').next().unwrap_or_default());
    // Decoding may have brought slashes back.
    let last = last.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = last.chars().filter(|c| !c.is_control()).collect();
    let name = name.trim();
    if name.is_empty() || name == "." || name == ".." {
        return format!("resource{}", document_extension(kind));
    }
    if name.len() <= LENGTH_MAX {
        return name.to_owned();
    }
    let taken = |length: usize| &name[..name.floor_char_boundary(length)];
    match name.rsplit_once('.') {
        Some((_, extension)) if (1..=12).contains(&extension.len()) => {
            format!("{}.{extension}", taken(LENGTH_MAX - extension.len() - 1))
        }
        _ => taken(LENGTH_MAX).to_owned(),
    }
}

fn document_extension(kind: &str) -> &'static str {
    match kind {
        "application/pdf" => ".pdf",
        "application/json" => ".json",
        "application/zip" => ".zip",
        "application/gzip" => ".gz",
        "text/plain" => ".txt",
        "text/csv" => ".csv",
        "text/html" => ".html",
        "image/png" => ".png",
        "image/jpeg" => ".jpg",
        _ => ".bin",
    }
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.filter(|_| bytes[at] == b'%').and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_hints_and_never_paths() {
        for (uri, kind, expected) in [
            ("file:///a/b/report.pdf", "application/pdf", "report.pdf"),
            ("https://host/x%20y.csv?q=/z", "", "x y.csv"),
            ("demo://x/..", "text/plain", "resource.txt"),
            ("demo://x/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "", "passwd"),
            ("https://host", "application/zip", "resource.zip"),
            ("", "", "resource.bin"),
        ] {
            assert_eq!(document_name(uri, kind), expected, "{uri}");
        }
    }

    proptest! {
        #[test]
        fn p31_no_address_leads_out_of_the_cache(uri in ".{0,300}") {
            let name = document_name(&uri, "");
            prop_assert!(!name.contains('/') && !name.contains('\0') && !name.is_empty() && name != "..");
            prop_assert!(name.len() <= 150);
        }
    }

    #[test]
    fn an_older_home_keeps_its_directory() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("image_cache")).unwrap();
        let path = kept(home.path(), MediaKind::Image, ".png", b"x").unwrap();
        assert_eq!(path.parent().unwrap(), home.path().join("image_cache"));
        let path = kept(home.path(), MediaKind::Document, "a.txt", b"x").unwrap();
        assert_eq!(path.parent().unwrap(), home.path().join("cache/documents"));
    }

    #[test]
    fn base64_is_read_as_leniently_as_hermes_reads_it() {
        assert_eq!(decoded("aGVs\nbG8").as_deref(), Some(&b"hello"[..]));
        assert_eq!(decoded("aGVsbG8=").as_deref(), Some(&b"hello"[..]));
        assert_eq!(decoded("a"), None);
    }
}
