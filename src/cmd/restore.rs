//! `throughline restore`: a home from its backup, in a directory that has nothing else in it.
//!
//! - the whole archive is verified before anything is written
//! - a file is written under another name and renamed when its digest is right; one that is there already with the right
//!   digest is left alone, so an interrupted restore goes on where it stopped
//! - until the last file is there, a mark in the directory says so, and no gateway of ours starts on it
//!
//! Deliberately absent: merging into a home that is in use.

use crate::interrupt;
use crate::out::write_json;
use crate::passphrase;
use anyhow::{Context, bail};
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use throughline_home::config::Environment;
use throughline_home::home::RESTORE_MARK;
use throughline_home::home::{ChosenBy, Home, private_directory, private_file, sync_directory};
use throughline_upkeep::archive::survey::mode;
use throughline_upkeep::archive::{self, ArchiveEntry, ArchiveEntryKind, Manifest};
use throughline_upkeep::progress::size;

/// Bring a home back from its backup
#[derive(Debug, clap::Args)]
pub struct Restore {
    /// What `throughline backup` made
    backup: PathBuf,

    /// The directory that becomes the home; the one of --home if not given
    #[arg(long, value_name = "DIRECTORY")]
    to: Option<PathBuf>,

    /// Where the passphrase is, if it is not to be typed or in THROUGHLINE_PASSPHRASE
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// How a directory stands before a restore into it.
enum Target {
    Empty,
    /// An earlier restore began with this very backup.
    Begun,
}

/// What a restore did.
#[derive(Default)]
struct Done {
    written: usize,
    kept: usize,
    outside: Vec<String>,
}

impl Restore {
    pub fn run(
        self,
        home: impl FnOnce() -> anyhow::Result<Home>,
        environment: &Environment,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let home = match &self.to {
            Some(directory) => Home::new(directory, ChosenBy::CommandLine),
            None => home()?,
        };
        refuse_in_use(&home)?;
        let passphrase = match archive::is_sealed(&self.backup)? {
            true => Some(passphrase::known(self.passphrase_file.as_deref(), environment)?),
            false => None,
        };
        interrupt::explain(format!(
            "{} is not whole. Run the same command again: it goes on where this one stopped.",
            home.path().display()
        ));
        let looked = look(home.path(), None)?; // before an archive of gigabytes is read
        let manifest = archive::verify(&self.backup, passphrase.as_ref())?;
        let target = match looked {
            Target::Empty => Target::Empty,
            Target::Begun => look(home.path(), Some(&manifest))?,
        };
        refuse_without_room(home.path(), &manifest)?;
        begin(home.path(), &manifest)?;
        let _lock = home.hold()?;
        let mut done = Done::default();
        archive::unpack(&self.backup, passphrase.as_ref(), &manifest, |entry, contents| {
            match put(home.path(), entry, contents)? {
                true => done.written += 1,
                false => done.kept += 1,
            }
            Ok(())
        })
        .with_context(|| format!("{} is not whole yet; run the same restore again", home.path().display()))?;
        finish(home.path(), &manifest, &mut done)?;
        let went_on = matches!(target, Target::Begun);
        let path = home.path().display();
        if self.json {
            let told = json!({
                "home": path.to_string(),
                "backup_at": manifest.at,
                "files": manifest.files(),
                "written": done.written,
                "there_already": done.kept,
                "continued": went_on,
                "links_outside": done.outside,
            });
            write_json(&told, out)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (files, bytes, at) = (manifest.files(), size(manifest.bytes()), &manifest.at);
        if went_on {
            writeln!(out, "An earlier restore was interrupted; {} files were there already.", done.kept)?;
        }
        writeln!(out, "{path}: {files} files, {bytes}, as they were at {at}; every digest is right")?;
        for link in &done.outside {
            writeln!(out, "note  {link} leads out of the home, and may lead nowhere here")?;
        }
        writeln!(
            out,
            "Start it with `throughline --home {path}`. Where it came from must not run beside it."
        )?;
        Ok(ExitCode::SUCCESS)
    }
}

fn refuse_in_use(home: &Home) -> anyhow::Result<()> {
    home.refuse_other_than_directory()?;
    match home.owner() {
        Some(occupied) => bail!("{occupied}. Nothing was written"),
        None => Ok(()),
    }
}

/// Whether a restore may write here. Without a manifest, whether it is worth reading one.
fn look(directory: &Path, manifest: Option<&Manifest>) -> anyhow::Result<Target> {
    let shown = directory.display();
    let mark = directory.join(RESTORE_MARK);
    match fs::read_to_string(&mark) {
        Ok(text) if manifest.is_none_or(|manifest| text.trim() == manifest.digest()) => {
            return Ok(Target::Begun);
        }
        Ok(_) => bail!(
            "{shown} holds the beginning of a restore of another backup; give that one, or another directory. Nothing was written"
        ),
        Err(_) => {}
    }
    let is_empty = match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(|| format!("{shown} cannot be read")),
    };
    match is_empty {
        true => Ok(Target::Empty),
        false => bail!("{shown} is not empty; name a directory that is, with --to. Nothing was written"),
    }
}

/// What does not fit is refused before the disk is full, which others need, too.
#[cfg(unix)]
fn refuse_without_room(directory: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let there = directory.ancestors().find(|path| path.exists()).unwrap_or(directory);
    // A system that does not say how much is free is asked no more.
    let Ok(about) = rustix::fs::statvfs(there) else { return Ok(()) };
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let begun: u64 = manifest.entries.iter().map(|entry| there_already(directory, entry)).sum();
    let needed = manifest.bytes().saturating_sub(begun);
    if needed > free {
        bail!(
            "{} more are needed in {}, and {} are free; make room, or name another directory with --to. Nothing was written",
            size(needed),
            directory.display(),
            size(free)
        );
    }
    Ok(())
}

#[cfg(not(unix))]
fn refuse_without_room(_: &Path, _: &Manifest) -> anyhow::Result<()> {
    Ok(())
}

/// What an earlier restore wrote of this file.
#[cfg(unix)]
fn there_already(directory: &Path, entry: &ArchiveEntry) -> u64 {
    let ArchiveEntryKind::File { bytes, .. } = entry.kind else { return 0 };
    let about = fs::symlink_metadata(directory.join(&entry.path));
    about.map_or(0, |about| if about.is_file() { about.len().min(bytes) } else { 0 })
}

fn begin(directory: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let doing = || format!("could not write {}", directory.display());
    private_directory().create(directory).with_context(doing)?;
    let mark = directory.join(RESTORE_MARK);
    let mut file = private_file().write(true).create(true).truncate(true).open(&mark).with_context(doing)?;
    writeln!(file, "{}", manifest.digest()).and_then(|()| file.sync_all()).with_context(doing)?;
    sync_directory(directory).with_context(doing)
}

/// Whether the file had to be written.
fn put(directory: &Path, entry: &ArchiveEntry, contents: &mut dyn Read) -> anyhow::Result<bool> {
    let path = directory.join(&entry.path);
    let doing = || format!("could not write {}", path.display());
    let ArchiveEntryKind::File { digest, .. } = &entry.kind else { return Ok(false) };
    let is_there = fs::symlink_metadata(&path).is_ok_and(|about| about.is_file())
        && File::open(&path).and_then(archive::digest_of).is_ok_and(|found| found == *digest);
    if !is_there {
        let parent = path.parent().unwrap_or(directory);
        private_directory().create(parent).with_context(doing)?;
        let partial = path
            .with_file_name(format!("{}.partial", path.file_name().unwrap_or_default().to_string_lossy()));
        // Never through what lies there under that name: it may be a link.
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).with_context(doing),
            _ => {}
        }
        let mut file = private_file().write(true).create_new(true).open(&partial).with_context(doing)?;
        io::copy(contents, &mut file).and_then(|_| file.sync_all()).with_context(doing)?;
        drop(file);
        let written = File::open(&partial).and_then(archive::digest_of).with_context(doing)?;
        if written != *digest {
            bail!("{} reads otherwise than it was written; check its disk", partial.display());
        }
        fs::rename(&partial, &path).with_context(doing)?;
    }
    set_mode(&path, entry.mode).with_context(doing)?;
    Ok(!is_there)
}

/// What needs every file to be there: links, which nothing is written through, and the rights of directories.
fn finish(directory: &Path, manifest: &Manifest, done: &mut Done) -> anyhow::Result<()> {
    for entry in &manifest.entries {
        let path = directory.join(&entry.path);
        let doing = || format!("could not write {}", path.display());
        match &entry.kind {
            ArchiveEntryKind::File { .. } => {}
            ArchiveEntryKind::Directory => private_directory().create(&path).with_context(doing)?,
            ArchiveEntryKind::Link { to } => {
                if fs::read_link(&path).is_ok_and(|found| found == Path::new(to)) {
                    continue;
                }
                link(to, &path).with_context(doing)?;
                if Path::new(to).is_absolute() || to.split('/').any(|name| name == "..") {
                    done.outside.push(entry.path.clone());
                }
            }
        }
    }
    // From the inside out: what is read-only cannot be written into.
    for entry in manifest.entries.iter().rev().filter(|entry| entry.kind == ArchiveEntryKind::Directory) {
        let path = directory.join(&entry.path);
        let doing = || format!("could not write {}", path.display());
        sync_directory(&path).with_context(doing)?;
        set_mode(&path, entry.mode).with_context(doing)?;
    }
    let doing = || format!("could not write {}", directory.display());
    sync_directory(directory).with_context(doing)?;
    fs::remove_file(directory.join(RESTORE_MARK)).with_context(doing)?;
    sync_directory(directory).with_context(doing)
}

#[cfg(unix)]
fn set_mode(path: &Path, wanted: u32) -> io::Result<()> {
    let about = fs::symlink_metadata(path)?;
    if mode(&about) == wanted {
        return Ok(());
    }
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(wanted))
}

#[cfg(not(unix))]
fn set_mode(path: &Path, _: u32) -> io::Result<()> {
    fs::symlink_metadata(path).map(|about| drop(mode(&about)))
}

#[cfg(unix)]
fn link(to: &str, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, path)
}

#[cfg(not(unix))]
fn link(_: &str, _: &Path) -> io::Result<()> {
    Ok(()) // making one is a privilege there
}
