//! `throughline backup`: a home in one file, while it is being used, and proven before it gets its name.
//!
//! - databases are copied as they are at one moment; nobody who writes waits for it
//! - the file is written under another name, read back to its end, and renamed when all of it is right
//! - an interrupted backup leaves a `.partial` beside its target and copies of databases in the home; the next one
//!   throws both away and begins anew, since the home has gone on meanwhile
//!
//! Deliberately absent: logs, caches, and whatever else `archive::survey` leaves out.

use crate::archive::survey::{self, Profiles, STAGE, Survey};
use crate::archive::{self, Database, Manifest};
use crate::config::Environment;
use crate::home::{self, Home, private_directory, private_file, sync_directory};
use crate::out::write_json;
use crate::passphrase;
use crate::progress::{Progress, size};
use anyhow::{Context, bail};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use throughline_core::redact::Secret;

/// A smaller file is read before anything is said about its length: it may change any moment.
const READ_AT_ONCE: u64 = 64 << 20;
/// How much of what was left out is named to a person.
const LEFT_OUT_MAX: usize = 20;

/// Keep a home in one file, beside a running gateway or without one
#[derive(Debug, clap::Args)]
pub struct Backup {
    /// The file, or a directory to put it into; the current directory if not given
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,

    /// Encrypt it with a passphrase, in age's format
    #[arg(long)]
    encrypt: bool,

    /// Where the passphrase is, if it is not to be typed or in THROUGHLINE_PASSPHRASE
    #[arg(long, value_name = "FILE", requires = "encrypt")]
    passphrase_file: Option<PathBuf>,

    /// Replace the file if it is there
    #[arg(long)]
    force: bool,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What is to be kept, and where.
pub struct Order<'a> {
    pub home: &'a Home,
    pub profiles: Profiles,
    pub to: PathBuf,
    pub passphrase: Option<Secret>,
    pub replaces: bool,
}

/// A backup that was read back and found right.
pub struct Kept {
    pub path: PathBuf,
    pub bytes: u64,
    pub manifest: Manifest,
    /// What could not be taken along, and what was found on the way.
    pub notes: Vec<String>,
    /// What a backup leaves out on purpose.
    pub left_out: Vec<String>,
}

impl Backup {
    pub fn run(
        self,
        home: &Home,
        all_profiles: bool,
        environment: &Environment,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let root = match all_profiles {
            true => home::profiles(home)?.swap_remove(0).1,
            false => home.clone(),
        };
        let profiles = if all_profiles { Profiles::Taken } else { Profiles::Left };
        let passphrase = match self.encrypt {
            true => Some(passphrase::new(self.passphrase_file.as_deref(), environment)?),
            false => None,
        };
        let to = target(self.to, &root, self.encrypt);
        let is_sealed = self.encrypt;
        let kept = make(&Order { home: &root, profiles, to, passphrase, replaces: self.force })?;
        match self.json {
            true => write_json(&kept.in_json(is_sealed), out)?,
            false => kept.tell(is_sealed, out)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// `throughline-main-20260528T093510Z.tar.gz`, if nobody names a file.
fn target(given: Option<PathBuf>, home: &Home, is_sealed: bool) -> PathBuf {
    let stamp = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let agent = crate::wire::name(home);
    let agent = agent.trim_start_matches('.');
    let ending = if is_sealed { "tar.gz.age" } else { "tar.gz" };
    let name = format!("throughline-{agent}-{stamp}.{ending}");
    match given {
        None => PathBuf::from(name),
        Some(directory) if directory.is_dir() => directory.join(name),
        Some(file) => file,
    }
}

/// Makes a backup and proves it.
pub fn make(order: &Order<'_>) -> anyhow::Result<Kept> {
    let home = order.home.path();
    if !home.is_dir() {
        bail!("there is no home at {}; name one with --home", home.display());
    }
    let to = std::path::absolute(&order.to).with_context(|| format!("{}", order.to.display()))?;
    let in_the_way =
        || format!("{} is there already; name another file, or replace it with --force", to.display());
    if to.exists() && (!order.replaces || !to.is_file()) {
        bail!(in_the_way());
    }
    let mut notes = Vec::new();
    let stage = Stage::of(home)?;
    let partial = PathBuf::from(format!("{}.partial", to.display()));
    if stage.was_left || partial.exists() {
        notes.push(
            "an earlier backup was interrupted; what it left was thrown away, and this one began anew".into(),
        );
    }
    let doing = || format!("could not write {}", partial.display());
    let mut file = private_file();
    // Anew with the rights of a new file, whoever made the last one.
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).with_context(doing),
        _ => {}
    }
    let file = file.write(true).create_new(true).open(&partial).with_context(doing)?;
    // Until it has its name: whoever finds it unlocked knows that nobody writes it any more.
    file.try_lock().with_context(doing)?;
    if remove_leftovers(&to, &partial) {
        notes.push(
            "an earlier backup here was interrupted; what it left under its own name was thrown away".into(),
        );
    }
    let mut survey = Survey::of(home, order.profiles, &[to.clone(), partial.clone()])
        .with_context(|| format!("{} cannot be read", home.display()))?;
    notes.append(&mut survey.unread);
    let at = Timestamp::now();
    let now = u64::try_from(at.as_second()).unwrap_or(0);
    let mut archive =
        archive::Writer::new(file, order.passphrase.as_ref(), at.to_string(), now).with_context(doing)?;
    write(&mut archive, &survey, &stage, &mut notes)?;
    let written = archive.finish().with_context(doing)?;
    drop(stage);
    let manifest = archive::verify(&partial, order.passphrase.as_ref())?;
    if manifest != written {
        bail!("{} reads otherwise than it was written; check its disk", partial.display());
    }
    if to.exists() && !order.replaces {
        bail!(in_the_way());
    }
    fs::rename(&partial, &to).with_context(|| format!("could not rename {}", partial.display()))?;
    let directory = to.parent().unwrap_or(Path::new("."));
    sync_directory(directory).with_context(|| format!("could not write {}", directory.display()))?;
    for database in &manifest.databases {
        if let Some(damage) = database.damage.first() {
            let (path, count) = (&database.path, database.damage.len());
            notes.push(format!(
                "{path} is damaged in the home, and so it is in the backup ({count} findings; the first: {damage})"
            ));
        }
    }
    let bytes = fs::metadata(&to).map_or(0, |about| about.len());
    Ok(Kept { path: to, bytes, manifest, notes, left_out: survey.left_out })
}

/// Backups whose names tell only their time are each called otherwise, so none would find what another left. Whether
/// something was thrown away.
fn remove_leftovers(to: &Path, own: &Path) -> bool {
    let (Some(directory), Some(name)) = (to.parent(), to.file_name().and_then(|name| name.to_str())) else {
        return false;
    };
    let Some(wanted) = without_stamp(name) else { return false };
    let mut has_removed = false;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_leftover = entry
            .file_name()
            .to_str()
            .and_then(|name| name.strip_suffix(".partial"))
            .is_some_and(|name| without_stamp(name).is_some_and(|other| other == wanted));
        if !is_leftover || path == own || !path.is_file() {
            continue;
        }
        if File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            has_removed |= fs::remove_file(&path).is_ok();
        }
    }
    has_removed
}

/// What stands before and after the time in `throughline-main-20260528T093510Z.tar.gz`.
fn without_stamp(name: &str) -> Option<(&str, &str)> {
    let (stem, ending) = name.split_once(".tar.gz")?;
    let (before, stamp) = stem.rsplit_once('-')?;
    let (day, time) = stamp.strip_suffix('Z')?.split_once('T')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (day.len() == 8 && time.len() >= 6 && is_number(day) && is_number(time)).then_some((before, ending))
}

fn write(
    archive: &mut archive::Writer,
    survey: &Survey,
    stage: &Stage,
    notes: &mut Vec<String>,
) -> anyhow::Result<()> {
    let mut progress = Progress::bytes("archive", survey.bytes());
    for found in &survey.found {
        let (path, mode) = (found.path.as_str(), found.mode);
        let doing = || format!("could not keep {}", found.place.display());
        match found.kind {
            survey::Kind::Directory => archive.directory(path, mode).with_context(doing)?,
            survey::Kind::Link => match fs::read_link(&found.place).map(PathBuf::into_os_string) {
                Ok(to) => match to.to_str() {
                    Some(to) => archive.link(path, to).with_context(doing)?,
                    None => {
                        notes.push(format!("{}: it leads to a name that is no text", found.place.display()))
                    }
                },
                Err(error) => notes.push(format!("{}: {error}", found.place.display())),
            },
            survey::Kind::Database => {
                let copy = stage.file();
                let mut copying = Progress::bytes(&format!("copy {path}"), found.bytes);
                let copied = throughline_store::copy(&found.place, &copy, &mut |done, total| {
                    copying.stands_at(done, total);
                });
                drop(copying);
                let copied = match copied {
                    Err(error) if error.is_damage() => {
                        // No database any more, but perhaps all there is of it.
                        let (file, bytes) = File::open(&found.place)
                            .and_then(|file| file.metadata().map(|about| (file, about.len())))
                            .with_context(doing)?;
                        archive.file(path, mode, bytes, file).with_context(doing)?;
                        notes.push(format!(
                            "{path} is too damaged to be opened; it was kept as it is, byte for byte"
                        ));
                        continue;
                    }
                    copied => copied?,
                };
                let file = File::open(&copy).with_context(doing)?;
                archive.file(path, mode, copied.bytes, file).with_context(doing)?;
                let _ = fs::remove_file(&copy);
                let (rows, damage) = (copied.rows, copied.damage);
                archive.database(Database { path: path.to_owned(), rows, damage });
            }
            survey::Kind::File => match read(&found.place) {
                Ok(Text::Whole(bytes)) => {
                    archive.file(path, mode, bytes.len() as u64, &bytes[..]).with_context(doing)?;
                }
                Ok(Text::Long(file, bytes)) => archive.file(path, mode, bytes, file).with_context(doing)?,
                Err(error) if error.kind() == ErrorKind::NotFound => {} // gone meanwhile
                Err(error) => notes.push(format!("{}: {error}", found.place.display())),
            },
        }
        progress.advance(found.bytes);
    }
    Ok(())
}

enum Text {
    Whole(Vec<u8>),
    Long(File, u64),
}

fn read(path: &Path) -> io::Result<Text> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    if bytes > READ_AT_ONCE {
        return Ok(Text::Long(file, bytes));
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(Text::Whole(text))
}

/// A directory in the home for copies of its databases: what is private stays where it was private.
/// It is gone when the backup is over.
struct Stage {
    path: PathBuf,
    was_left: bool,
    _lock: File,
}

impl Stage {
    fn of(home: &Path) -> anyhow::Result<Self> {
        let path = home.join(STAGE);
        let doing = || format!("could not write {}", path.display());
        let was_left = path.exists();
        private_directory().create(&path).with_context(doing)?;
        let lock = private_file()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join("lock"))
            .with_context(doing)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("another backup of {} is under way; wait until it is over", home.display())
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(doing),
        }
        let stage = Self { path, was_left, _lock: lock };
        stage.clear();
        Ok(stage)
    }

    fn file(&self) -> PathBuf {
        self.clear();
        self.path.join("copy.db")
    }

    fn clear(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if entry.file_name() != "lock" {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Kept {
    fn tell(&self, is_sealed: bool, out: &mut dyn Write) -> io::Result<()> {
        let (files, all) = (self.manifest.files(), size(self.manifest.bytes()));
        let path = self.path.display();
        writeln!(out, "{path}: {files} files, {all}, in {}; read back and verified", size(self.bytes))?;
        for database in &self.manifest.databases {
            let rows: u64 = database.rows.values().sum();
            writeln!(out, "  {}: {rows} rows in {} tables", database.path, database.rows.len())?;
        }
        for note in &self.notes {
            writeln!(out, "note  {}", crate::out::visible(note))?;
        }
        if !self.left_out.is_empty() {
            let named: Vec<&str> = self.left_out.iter().take(LEFT_OUT_MAX).map(String::as_str).collect();
            let more = self.left_out.len() - named.len();
            let more = if more > 0 { format!(" and {more} more (--json names all)") } else { String::new() };
            writeln!(out, "left out: {}{more}", crate::out::one_line(&named.join(", ")))?;
        }
        if !is_sealed {
            writeln!(out, "It holds the home's keys as they are. Keep it private, or use --encrypt.")?;
        }
        Ok(())
    }

    fn in_json(&self, is_sealed: bool) -> Value {
        json!({
            "archive": self.path.display().to_string(),
            "bytes": self.bytes,
            "encrypted": is_sealed,
            "verified": true,
            "at": self.manifest.at,
            "files": self.manifest.files(),
            "contents_bytes": self.manifest.bytes(),
            "databases": self.manifest.databases.iter().map(|database| json!({
                "path": database.path, "rows": database.rows, "damage": database.damage,
            })).collect::<Vec<_>>(),
            "notes": self.notes,
            "left_out": self.left_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_made_of_a_time_is_known_without_it() {
        let known = without_stamp("throughline-main-20260528T093510Z.tar.gz");
        assert_eq!(known, Some(("throughline-main", "")));
        assert_eq!(without_stamp("throughline-main-20260529T010000Z.tar.gz"), known);
        assert_ne!(without_stamp("throughline-work-20260528T093510Z.tar.gz"), known);
        assert_eq!(without_stamp("adopt-20260528T093510123456Z.tar.gz"), Some(("adopt", "")));
        assert_eq!(without_stamp("kept.tar.gz"), None);
        assert_eq!(without_stamp("my-holiday.tar.gz"), None);
    }

    #[test]
    fn what_an_interrupted_backup_left_under_its_own_name_goes_and_what_is_being_written_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let [left, busy, other] = [
            path("throughline-main-20260527T093510Z.tar.gz.partial"),
            path("throughline-main-20260527T093511Z.tar.gz.partial"),
            path("throughline-work-20260527T093510Z.tar.gz.partial"),
        ];
        for file in [&left, &busy, &other] {
            fs::write(file, "half").unwrap();
        }
        let writing = File::open(&busy).unwrap();
        writing.try_lock().unwrap();
        let to = path("throughline-main-20260528T093510Z.tar.gz");
        assert!(remove_leftovers(&to, &path("throughline-main-20260528T093510Z.tar.gz.partial")));
        assert!(!left.exists() && busy.exists() && other.exists());
    }
}
