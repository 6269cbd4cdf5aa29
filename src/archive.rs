//! A home in one file: a tar compressed with gzip, piece by piece, and sealed if its owner wishes.
//!
//! - everyone's tools open it: `tar xzf`, and `age -d` before that if it is sealed
//! - its last entry is a list of all others with their digests; an archive without it is not whole
//! - names lead nowhere but into the directory that it is unpacked into
//!
//! Deliberately absent: which files of a home belong in it (`survey`), and how a database is copied (`store`).

pub mod piece;
pub mod seal;
pub mod survey;

use crate::progress::Progress;
use anyhow::{Context, bail};
use flate2::read::MultiGzDecoder;
use piece::{Begin, Earlier, Pieces};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Component, Path};
use throughline_core::redact::Secret;

/// The list of everything, and the directory in the archive that all the rest is below.
const LIST: &str = "manifest.json";
const TOP: &str = "home";
const FORMAT: &str = "throughline-backup";
const VERSION: u64 = 1;
/// A list of a million files is shorter.
const LIST_BYTES_MAX: u64 = 256 << 20;

/// Something in a home, by its path below it, with `/` between names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub path: String,
    /// Who may do what, as Unix has it.
    pub mode: u32,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    File { bytes: u64, digest: String },
    Link { to: String },
    Directory,
}

/// A database in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    pub path: String,
    pub rows: BTreeMap<String, u64>,
    pub damage: Vec<String>,
}

/// What an archive says that it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// When it was begun, as people write it.
    pub at: String,
    pub entries: Vec<Entry>,
    pub databases: Vec<Database>,
}

impl Manifest {
    pub fn files(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })).count()
    }

    pub fn bytes(&self) -> u64 {
        let bytes = |entry: &Entry| if let Kind::File { bytes, .. } = entry.kind { bytes } else { 0 };
        self.entries.iter().map(bytes).sum()
    }

    /// What tells this archive from any other.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(self.in_json().to_string()))
    }

    fn in_json(&self) -> Value {
        let entries = self.entries.iter().map(|entry| {
            let mut about = Map::new();
            about.insert("path".into(), json!(entry.path));
            about.insert("mode".into(), json!(format!("{:o}", entry.mode)));
            match &entry.kind {
                Kind::File { bytes, digest } => {
                    about.insert("bytes".into(), json!(bytes));
                    about.insert("sha256".into(), json!(digest));
                }
                Kind::Link { to } => drop(about.insert("link".into(), json!(to))),
                Kind::Directory => {}
            }
            Value::Object(about)
        });
        let databases = self
            .databases
            .iter()
            .map(|database| json!({"path": database.path, "rows": database.rows, "damage": database.damage}));
        json!({
            "format": FORMAT,
            "version": VERSION,
            "made_by": env!("CARGO_PKG_VERSION"),
            "at": self.at,
            "databases": databases.collect::<Vec<_>>(),
            "entries": entries.collect::<Vec<_>>(),
        })
    }

    fn parse(text: &[u8]) -> anyhow::Result<Self> {
        let list: Value = serde_json::from_slice(text).context("its list of files cannot be read")?;
        if list["format"] != FORMAT {
            bail!("it is no backup of a home");
        }
        if list["version"] != VERSION {
            bail!("it was made by a newer Throughline; use that one");
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let entry = |about: &Value| -> Option<Entry> {
            let kind = match (about["bytes"].as_u64(), text(&about["link"])) {
                (Some(bytes), _) => Kind::File { bytes, digest: text(&about["sha256"])? },
                (None, Some(to)) => Kind::Link { to },
                (None, None) => Kind::Directory,
            };
            let mode = u32::from_str_radix(about["mode"].as_str()?, 8).ok()? & 0o777;
            Some(Entry { path: text(&about["path"])?, mode, kind })
        };
        let database = |about: &Value| -> Option<Database> {
            let rows = about["rows"].as_object()?.iter();
            let damage = about["damage"].as_array()?.iter().filter_map(text).collect();
            let rows =
                rows.map(|(table, rows)| Some((table.clone(), rows.as_u64()?))).collect::<Option<_>>()?;
            Some(Database { path: text(&about["path"])?, rows, damage })
        };
        let all = |name: &str| list[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let read = || -> Option<Manifest> {
            Some(Manifest {
                at: text(&list["at"])?,
                entries: all("entries").iter().map(entry).collect::<Option<_>>()?,
                databases: all("databases").iter().map(database).collect::<Option<_>>()?,
            })
        };
        let manifest = read().context("its list of files lacks something")?;
        manifest.entries.iter().try_for_each(|entry| harmless(&entry.path))?;
        Ok(manifest)
    }
}

/// A path in an archive leads into the directory where it is unpacked, or nothing is unpacked.
fn harmless(path: &str) -> anyhow::Result<()> {
    let is_plain = |component: Component<'_>| matches!(component, Component::Normal(_));
    let is_ours =
        !path.is_empty() && !path.contains(['\0', '\\']) && Path::new(path).components().all(is_plain);
    if !is_ours {
        bail!("it holds the path {path:?}, which leads out of the directory that it is restored to");
    }
    Ok(())
}

// --------------------------------------------------------------------------------------- writing

/// Where an archive goes.
enum Sink {
    Plain(BufWriter<File>),
    Sealed(Box<seal::Sealer<BufWriter<File>>>),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Plain(file) => file.write(bytes),
            Sink::Sealed(sealer) => sealer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Plain(file) => file.flush(),
            Sink::Sealed(sealer) => sealer.flush(),
        }
    }
}

/// An archive that is being written.
pub struct Writer {
    tar: tar::Builder<Pieces<Sink>>,
    manifest: Manifest,
}

/// What an entry is called, who may do what with it, and when it was last changed, in seconds since 1970. The time goes
/// into the tar for whoever opens it with other tools; a time of writing would make every archive another stream.
#[derive(Clone, Copy)]
pub struct Label<'a> {
    pub path: &'a str,
    pub mode: u32,
    pub modified: u64,
}

/// What became of an archive.
pub struct Written {
    pub manifest: Manifest,
    /// Bytes of the archive that were taken from an earlier one.
    pub reused: u64,
}

impl Writer {
    /// `earlier`: what is left of one that was interrupted.
    pub fn new(
        file: File,
        passphrase: Option<&Secret>,
        at: String,
        earlier: Option<Earlier>,
    ) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 18, file);
        let sink = match passphrase {
            None => Sink::Plain(file),
            Some(passphrase) => Sink::Sealed(Box::new(seal::Sealer::new(file, passphrase)?)),
        };
        let tar = tar::Builder::new(Pieces::new(sink, earlier));
        Ok(Self { tar, manifest: Manifest { at, ..Manifest::default() } })
    }

    /// Exactly `bytes` of what is read; fewer are an error.
    pub fn file(&mut self, label: Label<'_>, bytes: u64, from: impl Read) -> io::Result<()> {
        let Label { path, mode, .. } = label;
        self.tar.get_mut().begin(&Begin::File { path, bytes })?;
        let mut digested = Digested { from: from.take(bytes), digest: Sha256::new(), read: 0 };
        let mut header = header(tar::EntryType::Regular, label, bytes);
        self.tar.append_data(&mut header, format!("{TOP}/{path}"), &mut digested)?;
        if digested.read != bytes {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter while it was read"));
        }
        let digest = hex(&digested.digest.finalize());
        self.manifest.entries.push(Entry { path: path.into(), mode, kind: Kind::File { bytes, digest } });
        Ok(())
    }

    pub fn link(&mut self, label: Label<'_>, to: &str) -> io::Result<()> {
        let (path, mode) = (label.path, 0o777);
        self.tar.get_mut().begin(&Begin::Other { path })?;
        let mut header = header(tar::EntryType::Symlink, Label { mode, ..label }, 0);
        self.tar.append_link(&mut header, format!("{TOP}/{path}"), to)?;
        let kind = Kind::Link { to: to.to_owned() };
        self.manifest.entries.push(Entry { path: path.into(), mode, kind });
        Ok(())
    }

    pub fn directory(&mut self, label: Label<'_>) -> io::Result<()> {
        let Label { path, mode, .. } = label;
        self.tar.get_mut().begin(&Begin::Other { path })?;
        let mut header = header(tar::EntryType::Directory, label, 0);
        self.tar.append_data(&mut header, format!("{TOP}/{path}/"), io::empty())?;
        self.manifest.entries.push(Entry { path: path.into(), mode, kind: Kind::Directory });
        Ok(())
    }

    pub fn database(&mut self, database: Database) {
        self.manifest.databases.push(database);
    }

    /// On disk when this returns.
    pub fn finish(mut self, now: u64) -> io::Result<Written> {
        let list = serde_json::to_vec_pretty(&self.manifest.in_json()).map_err(io::Error::other)?;
        let label = Label { path: LIST, mode: 0o600, modified: now };
        self.tar.get_mut().begin(&Begin::File { path: LIST, bytes: list.len() as u64 })?;
        let mut header = header(tar::EntryType::Regular, label, list.len() as u64);
        self.tar.append_data(&mut header, LIST, &list[..])?;
        let pieces = self.tar.into_inner()?;
        let reused = pieces.reused();
        let file = match pieces.finish()? {
            Sink::Plain(file) => file,
            Sink::Sealed(sealer) => sealer.finish()?,
        };
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(Written { manifest: self.manifest, reused })
    }
}

fn header(kind: tar::EntryType, label: Label<'_>, bytes: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(label.mode);
    header.set_size(bytes);
    header.set_mtime(label.modified);
    header
}

struct Digested<R> {
    from: R,
    digest: Sha256,
    read: u64,
}

impl<R: Read> Read for Digested<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.digest.update(&into[..read]);
        self.read += read as u64;
        Ok(read)
    }
}

/// The digest of everything that is read.
pub fn digest_of(mut from: impl Read) -> io::Result<String> {
    let mut digested = Digested { from: &mut from, digest: Sha256::new(), read: 0 };
    io::copy(&mut digested, &mut io::sink())?;
    Ok(hex(&digested.digest.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |text, byte| format!("{text}{byte:02x}"))
}

// --------------------------------------------------------------------------------------- reading

/// Whether a file has to be opened with a passphrase first.
pub fn is_sealed(path: &Path) -> anyhow::Result<bool> {
    let mut start = Vec::new();
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    file.take(seal::MAGIC.len() as u64)
        .read_to_end(&mut start)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(start == seal::MAGIC)
}

/// What is in an archive that is being read: an entry and its contents, in the archive's order.
struct Contents<R: Read> {
    tar: tar::Archive<R>,
}

struct Counted<R> {
    from: R,
    progress: Progress,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.progress.advance(read as u64);
        Ok(read)
    }
}

fn contents(
    path: &Path,
    passphrase: Option<&Secret>,
    doing: &str,
) -> anyhow::Result<Contents<Box<dyn Read>>> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let counted = Counted { from: file, progress: Progress::bytes(doing, bytes) };
    let mut text = BufReader::with_capacity(1 << 18, counted);
    let start = text.fill_buf()?;
    let plain: Box<dyn Read> = match (start.starts_with(seal::MAGIC), passphrase) {
        (true, None) => bail!("it is encrypted: its passphrase is needed"),
        (true, Some(passphrase)) => Box::new(seal::Opener::new(text, passphrase)?),
        (false, _) if !start.starts_with(&[0x1f, 0x8b]) => bail!("it is no backup: neither gzip nor age"),
        (false, _) => Box::new(text),
    };
    Ok(Contents { tar: tar::Archive::new(Box::new(MultiGzDecoder::new(plain))) })
}

/// Reads an archive to its end, and proves that everything that it lists is in it, unchanged, and nothing else.
/// Nothing is written.
pub fn verify(path: &Path, passphrase: Option<&Secret>) -> anyhow::Result<Manifest> {
    let read = || -> anyhow::Result<Manifest> {
        let mut contents = contents(path, passphrase, "verify")?;
        let mut found: BTreeMap<String, Kind> = BTreeMap::new();
        let mut list = None;
        for entry in contents.tar.entries()? {
            let mut entry = entry?;
            let path = name_of(&entry)?;
            if list.is_some() {
                bail!("something follows its list of files: {path:?}");
            }
            if path == LIST {
                let mut text = Vec::new();
                (&mut entry).take(LIST_BYTES_MAX).read_to_end(&mut text)?;
                list = Some(Manifest::parse(&text)?);
                continue;
            }
            let below = below_top(&path)?;
            let kind = kind_of(&mut entry, below)?;
            if found.insert(below.to_owned(), kind).is_some() {
                bail!("it holds {below:?} twice");
            }
        }
        // The checksum of everything stands at the very end.
        io::copy(&mut contents.tar.into_inner(), &mut io::sink())?;
        let Some(manifest) = list else { bail!("it has no list of its files: it is not whole") };
        for entry in &manifest.entries {
            match found.remove(&entry.path) {
                None => bail!("it lacks {}", entry.path),
                Some(kind) if kind != entry.kind => bail!("{} in it is not what was put there", entry.path),
                Some(_) => {}
            }
        }
        if let Some((extra, _)) = found.pop_first() {
            bail!("it holds {extra:?}, which is not on its list");
        }
        let files: BTreeSet<&str> = manifest.entries.iter().map(|entry| entry.path.as_str()).collect();
        if let Some(lost) = manifest.databases.iter().find(|database| !files.contains(database.path.as_str()))
        {
            bail!("it lacks {}", lost.path);
        }
        Ok(manifest)
    };
    read().with_context(|| format!("{} cannot be used", path.display()))
}

/// Hands out every file of an archive that was verified, with what is known about it.
pub fn unpack(
    path: &Path,
    passphrase: Option<&Secret>,
    manifest: &Manifest,
    mut take: impl FnMut(&Entry, &mut dyn Read) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let entries: BTreeMap<&str, &Entry> =
        manifest.entries.iter().map(|entry| (entry.path.as_str(), entry)).collect();
    let mut contents = contents(path, passphrase, "restore")?;
    for entry in contents.tar.entries()? {
        let mut entry = entry?;
        let path = name_of(&entry)?;
        if path == LIST {
            break;
        }
        let known = entries.get(below_top(&path)?).with_context(|| format!("{path} changed meanwhile"))?;
        if matches!(known.kind, Kind::File { .. }) {
            take(known, &mut entry)?;
        }
    }
    Ok(())
}

fn name_of(entry: &tar::Entry<'_, impl Read>) -> anyhow::Result<String> {
    let bytes = entry.path_bytes();
    let name = std::str::from_utf8(&bytes).context("it holds a name that is no text")?;
    let name = name.strip_suffix('/').unwrap_or(name);
    harmless(name)?;
    Ok(name.to_owned())
}

fn below_top(path: &str) -> anyhow::Result<&str> {
    let below = path.strip_prefix(TOP).and_then(|rest| rest.strip_prefix('/'));
    below.with_context(|| format!("it holds {path:?}, which is no part of a home"))
}

fn kind_of(entry: &mut tar::Entry<'_, impl Read>, path: &str) -> anyhow::Result<Kind> {
    match entry.header().entry_type() {
        tar::EntryType::Regular => {
            let bytes = entry.size();
            Ok(Kind::File { bytes, digest: digest_of(entry)? })
        }
        tar::EntryType::Directory => Ok(Kind::Directory),
        tar::EntryType::Symlink => {
            let to = entry.link_name_bytes().context("a link in it leads nowhere")?;
            Ok(Kind::Link { to: String::from_utf8_lossy(&to).into_owned() })
        }
        _ => bail!("{path:?} in it is neither a file nor a directory nor a link"),
    }
}
