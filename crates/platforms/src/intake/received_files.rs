//! Files that people send: fetched, kept where Hermes keeps them, and named in the message.
//!
//! A file's name is made of the message's key, so the same message brings the same file. What cannot
//! be had is a note. Deliberately absent: what is in a sound or a video.

use crate::adapter::Adapter;
use crate::incoming::{Attachment, Incoming, Media};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use throughline_private_files as private_files;
use tokio::time::{Instant, timeout_at};

/// The bound where none is configured: memory has an end.
const BYTES_MAX: u64 = 1 << 30;
/// Providers take pictures up to this size; a larger one is named, and can be looked at by tools.
const PICTURE_BYTES_MAX: usize = 5 << 20;
/// A text of this size can be read with the message.
const TEXT_BYTES_MAX: usize = 100 << 10;
/// All files of a message together: what comes behind it on this account waits so long.
const FETCHED_WITHIN: Duration = Duration::from_secs(20);
/// File systems take 255 bytes; this leaves room for what stands before a name.
const NAME_CHARS_MAX: usize = 80;

const TEXT_ENDINGS: [&str; 11] =
    ["txt", "md", "csv", "log", "json", "xml", "yaml", "yml", "toml", "ini", "cfg"];

pub(super) struct ReceivedFiles {
    home: PathBuf,
    bytes_max: u64,
}

/// What became of one file.
pub(super) struct ReceivedFile {
    /// What the model is told about it.
    pub note: String,
    /// A picture, as a `data:` address.
    pub image: Option<String>,
}

impl ReceivedFiles {
    pub fn of(home: &Path, bytes_max: Option<u64>) -> Self {
        Self { home: home.to_owned(), bytes_max: bytes_max.unwrap_or(BYTES_MAX).min(BYTES_MAX) }
    }

    pub async fn keep(&self, adapter: &dyn Adapter, incoming: &Incoming, key: &str) -> Vec<ReceivedFile> {
        let mut kept = Vec::new();
        let until = Instant::now() + FETCHED_WITHIN;
        for (place, attachment) in incoming.attachments.iter().enumerate() {
            let name = shown_name(attachment);
            kept.push(match self.fetched(adapter, attachment, until).await {
                Ok(bytes) => self.put(attachment, &name, &format!("{key}/{place}"), bytes).await,
                Err(why) => ReceivedFile { note: lost(attachment, &name, &why), image: None },
            });
        }
        kept
    }

    async fn fetched(
        &self,
        adapter: &dyn Adapter,
        attachment: &Attachment,
        until: Instant,
    ) -> Result<Vec<u8>, String> {
        if attachment.bytes.is_some_and(|bytes| bytes > self.bytes_max) {
            return Err(format!("it is larger than {} MB", self.bytes_max >> 20));
        }
        let limit = usize::try_from(self.bytes_max).unwrap_or(usize::MAX);
        match timeout_at(until, adapter.fetch(attachment, limit)).await {
            Ok(Ok(bytes)) if bytes.len() as u64 > self.bytes_max => {
                Err(format!("it is larger than {} MB", self.bytes_max >> 20))
            }
            Ok(fetched) => fetched,
            Err(_) => Err("it did not arrive in time".to_owned()),
        }
    }

    async fn put(&self, attachment: &Attachment, name: &str, key: &str, bytes: Vec<u8>) -> ReceivedFile {
        let directory = self.directory(attachment.media);
        let kept_as = file_name(attachment, name, key);
        let path = directory.join(&kept_as);
        let image = picture(attachment, &bytes);
        let text = readable(attachment, name, &bytes);
        let written = {
            let home = self.home.clone();
            tokio::task::spawn_blocking(move || write(&home, &directory, &kept_as, &bytes)).await
        };
        match written.map_err(io::Error::other).and_then(|written| written) {
            Ok(()) => ReceivedFile { note: note(attachment, name, &path, text.as_deref()), image },
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a file that somebody sent cannot be kept");
                let note = text.map_or_else(
                    || lost(attachment, name, "it could not be saved"),
                    |text| format!("[Content of {name}]:\n{text}"),
                );
                ReceivedFile { note, image }
            }
        }
    }

    /// As Hermes finds it: the old place where something is in it, else the new one.
    fn directory(&self, media: Media) -> PathBuf {
        let (new, old) = match media {
            Media::Image => ("cache/images", "image_cache"),
            Media::Voice | Media::Audio => ("cache/audio", "audio_cache"),
            Media::Video => ("cache/videos", "video_cache"),
            Media::Document => ("cache/documents", "document_cache"),
        };
        let old = self.home.join(old);
        let in_use = fs::read_dir(&old).is_ok_and(|mut entries| entries.next().is_some());
        if in_use { old } else { self.home.join(new) }
    }
}

fn write(home: &Path, directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    private_files::create_directory(directory)?;
    crate::media::keep(home, directory, name, bytes)
}

/// A name without anything that a file system or a reader could take for something else.
fn shown_name(attachment: &Attachment) -> String {
    let name = attachment.name.as_deref().unwrap_or_default();
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ' ');
    let name: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let name = name.trim().trim_start_matches('.');
    let skipped = name.chars().count().saturating_sub(NAME_CHARS_MAX); // the ending is at the end
    let name: String = name.chars().skip(skipped).collect();
    match name.is_empty() {
        true => format!("{}{}", word(attachment.media), ending(attachment)),
        false => name,
    }
}

fn word(media: Media) -> &'static str {
    match media {
        Media::Image => "image",
        Media::Voice => "voice",
        Media::Audio => "audio",
        Media::Video => "video",
        Media::Document => "document",
    }
}

fn file_name(attachment: &Attachment, name: &str, key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    let unique: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    match attachment.media {
        Media::Image => format!("img_{unique}{}", ending(attachment)),
        Media::Voice => format!("audio_{unique}{}", ending(attachment)),
        Media::Audio => format!("audio_{unique}_{name}"),
        Media::Video => format!("video_{unique}_{name}"),
        Media::Document => format!("doc_{unique}_{name}"),
    }
}

fn extension(attachment: &Attachment) -> Option<String> {
    let name = attachment.name.as_deref()?;
    let (_, ending) = name.rsplit_once('.')?;
    let plain = (1..=8).contains(&ending.len()) && ending.chars().all(|c| c.is_ascii_alphanumeric());
    plain.then(|| ending.to_lowercase())
}

fn ending(attachment: &Attachment) -> String {
    let by_mime = match attachment.mime.as_deref().unwrap_or_default() {
        "image/png" => "png",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "audio/mpeg" => "mp3",
        "audio/mp4" | "audio/x-m4a" => "m4a",
        "audio/wav" | "audio/x-wav" => "wav",
        "video/mp4" => "mp4",
        "video/quicktime" => "mov",
        "video/webm" => "webm",
        "application/pdf" => "pdf",
        _ => match attachment.media {
            Media::Image => "jpg",
            Media::Voice | Media::Audio => "ogg",
            Media::Video => "mp4",
            Media::Document => "bin",
        },
    };
    format!(".{}", extension(attachment).unwrap_or_else(|| by_mime.to_owned()))
}

/// By its first bytes, not by its name: a provider refuses what is something else.
fn picture(attachment: &Attachment, bytes: &[u8]) -> Option<String> {
    if attachment.media != Media::Image || bytes.len() > PICTURE_BYTES_MAX {
        return None;
    }
    let mime = match bytes {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return None,
    };
    Some(format!("data:{mime};base64,{}", STANDARD.encode(bytes)))
}

fn readable(attachment: &Attachment, name: &str, bytes: &[u8]) -> Option<String> {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_lowercase()).unwrap_or_default();
    let is_text = attachment.mime.as_deref().is_some_and(|mime| mime.starts_with("text/"))
        || TEXT_ENDINGS.contains(&ending.as_str());
    let readable = attachment.media == Media::Document && is_text && bytes.len() <= TEXT_BYTES_MAX;
    readable.then(|| str::from_utf8(bytes).ok().map(str::to_owned)).flatten()
}

fn note(attachment: &Attachment, name: &str, path: &Path, text: Option<&str>) -> String {
    let path = path.display();
    match (attachment.media, text) {
        (Media::Image, _) => format!("[Image attached at: {path}]"),
        (Media::Voice, _) => format!("[The user sent a voice message: {path}]"),
        (Media::Audio, _) => format!(
            "[The user sent an audio file attachment: '{name}'. It is saved at: {path}. What it says is not \
             in this message: transcribe it if that matters.]"
        ),
        (Media::Video, _) => format!(
            "[The user sent a video attachment: '{name}'. It is saved at: {path}. What it shows is not in \
             this message: look into it with your tools if that matters.]"
        ),
        (Media::Document, Some(text)) => format!(
            "[The user sent a text document: '{name}'. Its content has been included below. The file is \
             also saved at: {path}]\n\n[Content of {name}]:\n{text}"
        ),
        (Media::Document, None) => format!(
            "[The user sent a document: '{name}'. It is saved at: {path}. Its text is not in this message: \
             extract it with your tools before you answer.]"
        ),
    }
}

fn lost(attachment: &Attachment, name: &str, why: &str) -> String {
    let article = match attachment.media {
        Media::Image | Media::Audio => "an",
        Media::Voice | Media::Video | Media::Document => "a",
    };
    format!(
        "[The user sent {article} {} ('{name}') that could not be fetched: {why}]",
        word(attachment.media)
    )
}
