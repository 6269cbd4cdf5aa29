//! A home in one file: a tar compressed with gzip, piece by piece, and sealed if its owner wishes.
//!
//! - everyone's tools open it: `tar xzf`, and `age -d` before that if it is sealed
//! - its last entry is a list of all others with their digests; an archive without it is not whole
//! - names lead nowhere but into the directory that it is unpacked into: no absolute path, no `..`, nothing below
//!   something that is a file or a link, no name twice, and no kinds but files, directories and links. An archive
//!   that breaks one of these is refused whole, before anything of it is written
//!
//! Deliberately absent: which files of a home belong in it (`survey`), and how a database is copied (`store`).

pub mod piece;
pub mod seal;
pub mod survey;
pub mod tree;

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
use throughline_home::home::RESTORE_MARK;

/// The list of everything, and the directory in the archive that all the rest is below.
const LIST: &str = "manifest.json";
const TOP: &str = "home";
const FORMAT: &str = "throughline-backup";
const VERSION: u64 = 1;
/// A list of a million files is shorter.
const LIST_BYTES_MAX: u64 = 256 << 20;
/// More than the list has room for.
const ENTRIES_MAX: usize = 4_000_000;
/// As long as a path may be on any system, several times over.
const NAME_BYTES_MAX: u64 = 64 << 10;

/// Something in a home, by its path below it, with `/` between names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveEntry {
    pub path: String,
    /// Who may do what, as Unix has it.
    pub mode: u32,
    pub kind: ArchiveEntryKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveEntryKind {
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
    pub entries: Vec<ArchiveEntry>,
    pub databases: Vec<Database>,
}

impl Manifest {
    pub fn files(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.kind, ArchiveEntryKind::File { .. })).count()
    }

    pub fn bytes(&self) -> u64 {
        let bytes = |entry: &ArchiveEntry| {
            if let ArchiveEntryKind::File { bytes, .. } = entry.kind { bytes } else { 0 }
        };
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
                ArchiveEntryKind::File { bytes, digest } => {
                    about.insert("bytes".into(), json!(bytes));
                    about.insert("sha256".into(), json!(digest));
                }
                ArchiveEntryKind::Link { to } => drop(about.insert("link".into(), json!(to))),
                ArchiveEntryKind::Directory => {}
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
        let entry = |about: &Value| -> Option<ArchiveEntry> {
            let kind = match (about["bytes"].as_u64(), text(&about["link"])) {
                (Some(bytes), _) => ArchiveEntryKind::File { bytes, digest: text(&about["sha256"])? },
                (None, Some(to)) => ArchiveEntryKind::Link { to },
                (None, None) => ArchiveEntryKind::Directory,
            };
            let mode = u32::from_str_radix(about["mode"].as_str()?, 8).ok()? & 0o777;
            Some(ArchiveEntry { path: text(&about["path"])?, mode, kind })
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

/// A path in an archive leads into the directory where it is unpacked, or nothing is unpacked. It is written in
/// one way only: the same place under another spelling would be a place twice.
fn harmless(path: &str) -> anyhow::Result<()> {
    let is_plain = |component: Component<'_>| matches!(component, Component::Normal(_));
    let is_ours =
        !path.is_empty() && !path.contains(['\0', '\\']) && Path::new(path).components().all(is_plain);
    if !is_ours || path.split('/').any(|name| matches!(name, "" | "." | "..")) {
        bail!("it holds the path {path:?}, which leads out of the directory that it is restored to");
    }
    Ok(())
}

/// Whether what is listed is a tree: each path once, and only directories have something below them. What is
/// written below a link would be written wherever the link leads.
fn refuse_traps(entries: &[ArchiveEntry]) -> anyhow::Result<()> {
    // On some systems `A` and `a` are one name: there a link must not stand in for a directory that is spelled otherwise.
    let folded = |path: &str| path.to_lowercase();
    let mut kinds: BTreeMap<String, (&str, &ArchiveEntryKind)> = BTreeMap::new();
    let mut spelled: BTreeMap<&str, &ArchiveEntryKind> = BTreeMap::new();
    for ArchiveEntry { path, kind, .. } in entries {
        if spelled.insert(path, kind).is_some() {
            bail!("it lists {path:?} twice");
        }
        if path == RESTORE_MARK {
            bail!("it holds {path:?}, which a restore needs for itself");
        }
        let is_link = |kind: &ArchiveEntryKind| matches!(kind, ArchiveEntryKind::Link { .. });
        if let Some((other, before)) = kinds.insert(folded(path), (path, kind))
            && (is_link(kind) || is_link(before) || CASE_IS_ONE)
        {
            bail!("it holds {other:?} and {path:?}, which are one name where capitals do not count");
        }
    }
    for ArchiveEntry { path, .. } in entries {
        for (at, _) in path.match_indices('/') {
            let above = &path[..at];
            let folded =
                kinds.get(&folded(above)).filter(|(_, kind)| matches!(kind, ArchiveEntryKind::Link { .. }));
            let found = spelled.get(above).copied().or(folded.map(|(_, kind)| *kind));
            match found {
                Some(ArchiveEntryKind::Link { .. }) => {
                    bail!("it holds {path:?} below {above:?}, which is a link and may lead anywhere")
                }
                Some(ArchiveEntryKind::File { .. }) => {
                    bail!("it holds {path:?} below {above:?}, which is a file")
                }
                Some(ArchiveEntryKind::Directory) | None => {}
            }
        }
    }
    Ok(())
}

/// Where names that differ in capitals alone are usually one.
const CASE_IS_ONE: bool = cfg!(any(windows, target_os = "macos"));

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
/// into the tar for people who open it with other tools; a time of writing would make every archive another stream.
#[derive(Clone, Copy)]
pub struct Label<'a> {
    pub path: &'a str,
    pub mode: u32,
    pub modified: u64,
}

/// What became of an archive.
pub struct WrittenArchive {
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
        self.manifest.entries.push(ArchiveEntry {
            path: path.into(),
            mode,
            kind: ArchiveEntryKind::File { bytes, digest },
        });
        Ok(())
    }

    pub fn link(&mut self, label: Label<'_>, to: &str) -> io::Result<()> {
        let (path, mode) = (label.path, 0o777);
        self.tar.get_mut().begin(&Begin::Other { path })?;
        let mut header = header(tar::EntryType::Symlink, Label { mode, ..label }, 0);
        self.tar.append_link(&mut header, format!("{TOP}/{path}"), to)?;
        let kind = ArchiveEntryKind::Link { to: to.to_owned() };
        self.manifest.entries.push(ArchiveEntry { path: path.into(), mode, kind });
        Ok(())
    }

    pub fn directory(&mut self, label: Label<'_>) -> io::Result<()> {
        let Label { path, mode, .. } = label;
        self.tar.get_mut().begin(&Begin::Other { path })?;
        let mut header = header(tar::EntryType::Directory, label, 0);
        self.tar.append_data(&mut header, format!("{TOP}/{path}/"), io::empty())?;
        self.manifest.entries.push(ArchiveEntry {
            path: path.into(),
            mode,
            kind: ArchiveEntryKind::Directory,
        });
        Ok(())
    }

    pub fn database(&mut self, database: Database) {
        self.manifest.databases.push(database);
    }

    /// On disk when this returns.
    pub fn finish(mut self, now: u64) -> io::Result<WrittenArchive> {
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
        Ok(WrittenArchive { manifest: self.manifest, reused })
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
        let mut found: BTreeMap<String, ArchiveEntryKind> = BTreeMap::new();
        let mut list = None;
        each(&mut contents.tar, |path, entry| {
            if list.is_some() {
                bail!("something follows its list of files: {path:?}");
            }
            if path == LIST {
                let mut text = Vec::new();
                entry.take(LIST_BYTES_MAX).read_to_end(&mut text)?;
                list = Some(Manifest::parse(&text)?);
                return Ok(Go::On);
            }
            let below = below_top(&path)?;
            let kind = kind_of(entry, below)?;
            if found.insert(below.to_owned(), kind).is_some() {
                bail!("it holds {below:?} twice");
            }
            if found.len() > ENTRIES_MAX {
                bail!("it holds more than {ENTRIES_MAX} files");
            }
            Ok(Go::On)
        })?;
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
        refuse_traps(&manifest.entries)?;
        let files: BTreeSet<&str> = manifest.entries.iter().map(|entry| entry.path.as_str()).collect();
        if let Some(lost) = manifest.databases.iter().find(|database| !files.contains(database.path.as_str()))
        {
            bail!("it lacks {}", lost.path);
        }
        Ok(manifest)
    };
    read().with_context(|| format!("{} cannot be used", path.display()))
}

/// GatewayTools out every file of an archive that was verified, with what is known about it.
pub fn unpack(
    path: &Path,
    passphrase: Option<&Secret>,
    manifest: &Manifest,
    mut take: impl FnMut(&ArchiveEntry, &mut dyn Read) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let entries: BTreeMap<&str, &ArchiveEntry> =
        manifest.entries.iter().map(|entry| (entry.path.as_str(), entry)).collect();
    let mut contents = contents(path, passphrase, "restore")?;
    each(&mut contents.tar, |path, entry| {
        if path == LIST {
            return Ok(Go::Stop);
        }
        let known = entries.get(below_top(&path)?).with_context(|| format!("{path} changed meanwhile"))?;
        if matches!(known.kind, ArchiveEntryKind::File { .. }) {
            take(known, entry)?;
        }
        Ok(Go::On)
    })
}

enum Go {
    On,
    Stop,
}

/// Every entry with its name, in order. A name that is longer than a header has room for is an entry of its own, which
/// is read here: the library would take in one of any length.
fn each<R: Read>(
    tar: &mut tar::Archive<R>,
    mut take: impl FnMut(String, &mut Named<'_, R>) -> anyhow::Result<Go>,
) -> anyhow::Result<()> {
    let (mut name, mut link) = (None, None);
    for entry in tar.entries()?.raw(true) {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        if kind.is_gnu_longname() || kind.is_gnu_longlink() {
            if entry.size() > NAME_BYTES_MAX {
                bail!("it holds a name of {} bytes", entry.size());
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            if bytes.last() == Some(&0) {
                bytes.pop();
            }
            *(if kind.is_gnu_longname() { &mut name } else { &mut link }) = Some(bytes);
            continue;
        }
        let named = name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let named = String::from_utf8(named).ok().context("it holds a name that is no text")?;
        let named = named.strip_suffix('/').unwrap_or(&named);
        harmless(named)?;
        let mut entry = Named { link: link.take(), entry };
        if let Go::Stop = take(named.to_owned(), &mut entry)? {
            break;
        }
    }
    Ok(())
}

/// An entry, and where it leads if its header has no room for that.
struct Named<'a, R: Read> {
    entry: tar::Entry<'a, R>,
    link: Option<Vec<u8>>,
}

impl<R: Read> Read for Named<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.entry.read(into)
    }
}

fn below_top(path: &str) -> anyhow::Result<&str> {
    let below = path.strip_prefix(TOP).and_then(|rest| rest.strip_prefix('/'));
    below.with_context(|| format!("it holds {path:?}, which is no part of a home"))
}

fn kind_of<R: Read>(named: &mut Named<'_, R>, path: &str) -> anyhow::Result<ArchiveEntryKind> {
    match named.entry.header().entry_type() {
        tar::EntryType::Regular => {
            let bytes = named.entry.size();
            Ok(ArchiveEntryKind::File { bytes, digest: digest_of(named)? })
        }
        tar::EntryType::Directory => Ok(ArchiveEntryKind::Directory),
        tar::EntryType::Symlink => {
            let short = named.entry.link_name_bytes().map(|to| to.into_owned());
            let to = named.link.take().or(short).context("a link in it leads nowhere")?;
            Ok(ArchiveEntryKind::Link { to: String::from_utf8_lossy(&to).into_owned() })
        }
        _ => bail!("{path:?} in it is neither a file nor a directory nor a link"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: ArchiveEntryKind) -> ArchiveEntry {
        ArchiveEntry { path: path.to_owned(), mode: 0o600, kind }
    }

    fn file(path: &str) -> ArchiveEntry {
        entry(path, ArchiveEntryKind::File { bytes: 0, digest: hex(&Sha256::digest(b"")) })
    }

    fn link(path: &str) -> ArchiveEntry {
        entry(path, ArchiveEntryKind::Link { to: "/tmp".into() })
    }

    fn directory(path: &str) -> ArchiveEntry {
        entry(path, ArchiveEntryKind::Directory)
    }

    /// An archive of these, as only an attacker would write it: header by header, with a list that fits.
    fn archive(entries: &[ArchiveEntry], strange: Option<tar::EntryType>) -> anyhow::Result<Manifest> {
        let mut tar = tar::Builder::new(Vec::new());
        let mut put = |path: &str, kind: tar::EntryType, to: &str, bytes: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(bytes.len() as u64);
            header.set_mode(0o600);
            let old = header.as_old_mut();
            old.name[..path.len()].copy_from_slice(path.as_bytes());
            old.linkname[..to.len()].copy_from_slice(to.as_bytes());
            header.set_cksum();
            tar.append(&header, bytes).unwrap();
        };
        for entry in entries {
            let path = format!("{TOP}/{}", entry.path);
            match (&entry.kind, strange) {
                (ArchiveEntryKind::File { .. }, Some(strange)) => put(&path, strange, "elsewhere", b""),
                (ArchiveEntryKind::File { .. }, None) => put(&path, tar::EntryType::Regular, "", b""),
                (ArchiveEntryKind::Link { to }, _) => put(&path, tar::EntryType::Symlink, to, b""),
                (ArchiveEntryKind::Directory, _) => put(&path, tar::EntryType::Directory, "", b""),
            }
        }
        let manifest = Manifest { at: "now".into(), entries: entries.to_vec(), databases: Vec::new() };
        let list = serde_json::to_vec(&manifest.in_json()).unwrap();
        put(LIST, tar::EntryType::Regular, "", &list);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("backup.tar.gz");
        let mut gzip =
            flate2::write::GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::fast());
        gzip.write_all(&tar.into_inner().unwrap()).unwrap();
        gzip.finish().unwrap();
        verify(&path, None)
    }

    #[test]
    fn p31_an_archive_that_would_write_outside_its_directory_is_refused() {
        let plain = [directory("a"), file("a/b"), link("c"), file("d")];
        assert_eq!(archive(&plain, None).unwrap().entries, plain);
        for (trap, words) in [
            (vec![link("a"), file("a/b")], "below"),
            (vec![link("a"), directory("a/b")], "below"),
            (vec![link("a"), link("a/b")], "below"),
            (vec![file("a/b"), link("a")], "below"),
            (vec![link("a"), directory("a/b"), file("a/b/c")], "below"),
            (vec![link("A"), file("a/b")], "below"),
            (vec![link("A"), directory("a"), file("a/b")], "one name"),
            (vec![file("a"), file("a/b")], "below"),
            (vec![file("a"), file("a")], "twice"),
            (vec![file("a"), directory("a")], "twice"),
            (vec![file("../a")], "leads out"),
            (vec![file("a/../../b")], "leads out"),
            (vec![file("a/./b")], "leads out"),
            (vec![file("a//b")], "leads out"),
            (vec![file("/etc/a")], "leads out"),
            (vec![file(RESTORE_MARK)], "for itself"),
        ] {
            let error = format!("{:#}", archive(&trap, None).unwrap_err());
            assert!(error.contains(words), "{trap:?}: {error}");
        }
        use tar::EntryType;
        for strange in [EntryType::Link, EntryType::Char, EntryType::Block, EntryType::Fifo] {
            let error = format!("{:#}", archive(&[file("a")], Some(strange)).unwrap_err());
            assert!(error.contains("neither a file"), "{strange:?}: {error}");
        }
    }

    #[test]
    fn a_long_name_is_read_and_an_endless_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("backup.tar.gz");
        let long = format!("{}/{}", "d".repeat(120), "f".repeat(120));
        let mut writer = Writer::new(File::create(&path).unwrap(), None, "now".into(), None).unwrap();
        writer.file(Label { path: &long, mode: 0o600, modified: 0 }, 2, &b"hi"[..]).unwrap();
        writer.link(Label { path: "l", mode: 0o777, modified: 0 }, &long).unwrap();
        let written = writer.finish(0).unwrap().manifest;
        assert_eq!(verify(&path, None).unwrap(), written);
        let mut read = Vec::new();
        unpack(&path, None, &written, |entry, from| {
            let mut text = String::new();
            from.read_to_string(&mut text)?;
            read.push((entry.path.clone(), text));
            Ok(())
        })
        .unwrap();
        assert_eq!(read, [(long, "hi".to_owned())]);

        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::GNULongName);
        header.set_size(NAME_BYTES_MAX + 1);
        header.set_cksum();
        tar.append(&header, io::repeat(b'n').take(NAME_BYTES_MAX + 1)).unwrap();
        let mut gzip =
            flate2::write::GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::fast());
        gzip.write_all(&tar.into_inner().unwrap()).unwrap();
        gzip.finish().unwrap();
        assert!(format!("{:#}", verify(&path, None).unwrap_err()).contains("a name of"));
    }
}
