//! What a repair begins with, and what it can be undone with.
//!
//! `backups/doctor-<time>/` below the home, for its owner alone: the database as SQLite copies it, the
//! files that a repair may change, and a manifest that says what they held. A directory without its manifest is one
//! that was never finished, and is not used. After a repair `repaired.json` says where the home stood then, so that an
//! undo can tell what has come in since.

use crate::progress::Progress;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use throughline_core::Time;
use throughline_home::home::{Home, private_directory, private_file, sync_directory};
use throughline_store::doctor::Holds;

const DIRECTORY: &str = "backups";
const DATABASE: &str = "state.db";
const MANIFEST: &str = "manifest.json";
const REPAIRED: &str = "repaired.json";
/// Its presence says that the backup was put back.
const UNDONE: &str = "undone.json";
/// Beside the database, what a repair may change.
const FILES: [&str; 1] = ["sessions/sessions.json"];

/// Why a backup was made. Only those before a repair are undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Repair,
    Undo,
}

#[derive(Debug)]
pub struct Backup {
    pub path: PathBuf,
    pub holds: Holds,
}

impl Backup {
    /// Copies and verifies. The home must be this process's. What could not be finished is removed again.
    pub fn make(home: &Home, before: Before, now: Time) -> anyhow::Result<Self> {
        let name = match before {
            Before::Repair => format!("doctor-{}", now.compact()),
            Before::Undo => format!("undo-{}", now.compact()),
        };
        remove_unfinished(&home.path().join(DIRECTORY));
        let path = home.path().join(DIRECTORY).join(name);
        let made = Self::make_in(path.clone(), home, before, now);
        if made.is_err() {
            let _ = fs::remove_dir_all(&path);
        }
        made
    }

    fn make_in(path: PathBuf, home: &Home, before: Before, now: Time) -> anyhow::Result<Self> {
        let doing = || format!("could not make a backup in {}", path.display());
        private_directory().create(&path).with_context(doing)?;
        let mut progress = Progress::new("copying the database", 0);
        // Made first, so that it is private from its first byte on.
        let database = path.join(DATABASE);
        private_file().write(true).create_new(true).open(&database).with_context(doing)?;
        let store = throughline_store::Home::at(home.path());
        let holds = store
            .copy_to(&database, &mut |label, done, total| progress.reach(label, done, total))
            .with_context(doing)?;
        File::options().write(true).open(&database).and_then(|file| file.sync_all()).with_context(doing)?;
        let mut files = vec![described(&path, DATABASE).with_context(doing)?];
        for name in FILES {
            let Ok(bytes) = fs::read(home.path().join(name)) else { continue };
            let copy = path.join(flat(name));
            write(&copy, &bytes).with_context(doing)?;
            files.push(described(&path, &flat(name)).with_context(doing)?);
        }
        let manifest = json!({
            "kind": match before { Before::Repair => "doctor", Before::Undo => "undo" },
            "throughline": env!("CARGO_PKG_VERSION"),
            "at": now.compact(),
            "sessions": holds.sessions,
            "messages": holds.messages,
            "last_row": holds.last_row,
            "files": files,
        });
        write(&path.join(MANIFEST), format!("{manifest:#}\n").as_bytes()).with_context(doing)?;
        sync_directory(&path).with_context(doing)?;
        Ok(Self { path, holds })
    }

    /// The newest one that a repair began with and that was not put back yet.
    pub fn newest(home: &Home) -> anyhow::Result<Self> {
        let directory = home.path().join(DIRECTORY);
        let mut paths: Vec<PathBuf> = match fs::read_dir(&directory) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("could not read {}", directory.display()));
            }
        };
        paths.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("doctor-") && path.join(MANIFEST).exists() && !path.join(UNDONE).exists()
        });
        paths.sort();
        let Some(path) = paths.pop() else {
            bail!(
                "{} has no repair that could be undone: there is no backup in {DIRECTORY}",
                home.path().display()
            );
        };
        let manifest = read(&path.join(MANIFEST))?;
        for file in manifest["files"].as_array().into_iter().flatten() {
            let name = file["name"].as_str().unwrap_or_default();
            if described(&path, name).ok().as_ref() != Some(file) {
                bail!("{} is not as it was written; it was not used", path.join(name).display());
            }
        }
        let count = |name: &str| manifest[name].as_i64().unwrap_or(0);
        let holds =
            Holds { sessions: count("sessions"), messages: count("messages"), last_row: count("last_row") };
        Ok(Self { path, holds })
    }

    /// Where the home stood when the repair was over.
    pub fn repaired(&self, home: &Home) -> anyhow::Result<()> {
        let holds = throughline_store::Home::at(home.path()).holds()?;
        let text = json!({"messages": holds.messages, "last_row": holds.last_row}).to_string();
        let path = self.path.join(REPAIRED);
        write(&path, text.as_bytes()).with_context(|| format!("could not write {}", path.display()))
    }

    /// How many messages came in since the repair.
    pub fn messages_since(&self, home: &Home) -> anyhow::Result<i64> {
        let repaired = read(&self.path.join(REPAIRED)).ok();
        let last = repaired.and_then(|value| value["last_row"].as_i64()).unwrap_or(self.holds.last_row);
        Ok(throughline_store::Home::at(home.path()).messages_after(last)?)
    }

    /// The home is as it was, whole or not at all; what it was until now is kept.
    pub fn put_back(&self, home: &Home, now: Time) -> anyhow::Result<Backup> {
        let kept = Self::make(home, Before::Undo, now)?;
        let mut progress = Progress::new("putting the database back", 0);
        // The database first: what the files lead to since the repair was there before it, too. A process that is killed in
        // between runs the undo again, and this backup is still the newest that was not put back.
        let store = throughline_store::Home::at(home.path());
        store.put_back(&self.path.join(DATABASE), &mut |label, done, total| {
            progress.reach(label, done, total)
        })?;
        for name in FILES {
            let (copy, place) = (self.path.join(flat(name)), home.path().join(name));
            let put = match fs::read(&copy) {
                Ok(bytes) => replace(&place, &bytes),
                Err(_) => match fs::remove_file(&place) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                },
            };
            put.with_context(|| {
                format!("could not put {} back; the database is: run --undo again", place.display())
            })?;
        }
        let path = self.path.join(UNDONE);
        write(&path, b"{}\n").with_context(|| format!("could not write {}", path.display()))?;
        Ok(kept)
    }
}

/// What was interrupted is as large as a database, and of no use. The home is this process's: no other writes one.
fn remove_unfinished(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_ours =
            name.to_str().is_some_and(|name| name.starts_with("doctor-") || name.starts_with("undo-"));
        if is_ours && path.is_dir() && !path.join(MANIFEST).exists() {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// `sessions/sessions.json` as one name.
fn flat(name: &str) -> String {
    name.replace('/', "-")
}

fn described(directory: &Path, name: &str) -> io::Result<Value> {
    let mut file = File::open(directory.join(name))?;
    let mut hash = Sha256::new();
    let mut size = 0;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => {
                hash.update(&buffer[..count]);
                size += count as u64;
            }
        }
    }
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(json!({"name": name, "bytes": size, "sha256": digest}))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private_file().write(true).create(true).truncate(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_directory(directory)
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not as it was written", path.display()))
}
