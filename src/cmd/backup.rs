//! `throughline backup`: a home in one file, while it is being used, and proven before it gets its name.
//!
//! - databases are copied as they are at one moment; no writer waits for it
//! - the file is written under another name, read back to its end, and renamed when all of it is right
//! - an interrupted backup leaves a `.partial` beside its target and copies of databases in the home. The next one reads
//!   the home again, as it is now, and compresses only what is not in the `.partial` already, byte for byte
//! - an encrypted one begins anew: to go on under the same key would seal two contents with the same numbers
//!
//! Deliberately absent: logs, caches, and what else `archive::survey` leaves out.

use crate::interrupt;
use crate::out::write_json;
use crate::passphrase;
use anyhow::{Context, bail};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use throughline_core::redact::Secret;
use throughline_hermes::profile;
use throughline_home::config::Environment;
use throughline_home::home::{self, Home, private_directory, private_file, sync_directory};
use throughline_upkeep::archive::piece::Earlier;
use throughline_upkeep::archive::survey::{self, Profiles, STAGE, Survey};
use throughline_upkeep::archive::tree::Tree;
use throughline_upkeep::archive::{self, Database, Label, Manifest, WrittenArchive};
use throughline_upkeep::progress::{Progress, size};

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
pub struct BackupOrder<'a> {
    pub home: &'a Home,
    pub profiles: Profiles,
    pub to: PathBuf,
    pub passphrase: Option<Secret>,
    pub replaces: bool,
}

/// A backup that was read back and found right.
pub struct FinishedBackup {
    pub path: PathBuf,
    pub bytes: u64,
    pub manifest: Manifest,
    /// Of the bytes, those that an interrupted backup had finished. None: there was none.
    pub reused: Option<u64>,
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
        let goes_on = match is_sealed {
            true => "Run the same command again; an encrypted backup begins anew.",
            false => "Run the same command again: it goes on where this one stopped.",
        };
        interrupt::explain(format!("{} was not made. {goes_on}", to.display()));
        let kept = make(&BackupOrder { home: &root, profiles, to, passphrase, replaces: self.force })?;
        match self.json {
            true => write_json(&kept.in_json(is_sealed), out)?,
            false => kept.tell(is_sealed, out)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// `throughline-main-20260528T093510Z.tar.gz`, if no file is named.
fn target(given: Option<PathBuf>, home: &Home, is_sealed: bool) -> PathBuf {
    let stamp = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let agent = home.name();
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
pub fn make(order: &BackupOrder<'_>) -> anyhow::Result<FinishedBackup> {
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
    let stage = BackupStage::of(home)?;
    let partial = beside(&to, PARTIAL);
    let doing = || format!("could not write {}", partial.display());
    let earlier = leftover(&to, order.passphrase.is_some())?;
    let file = private_file().write(true).create_new(true).open(&partial).with_context(doing)?;
    // Until it has its name: a process that finds it unlocked knows that none writes it any more.
    file.try_lock().with_context(doing)?;
    let except = [to.clone(), partial.clone(), beside(&to, EARLIER)];
    let listed = Tree::of(home)
        .and_then(|tree| Survey::of(home, &tree, order.profiles, &except).map(|survey| (tree, survey)));
    let (tree, mut survey) = listed.with_context(|| format!("{} cannot be read", home.display()))?;
    notes.append(&mut survey.unread);
    let at = Timestamp::now();
    let now = u64::try_from(at.as_second()).unwrap_or(0);
    let (was_left, pieces) = match earlier {
        Leftover::None => (stage.was_left, None),
        Leftover::Useless => (true, None),
        Leftover::Pieces(earlier) => (true, Some(earlier)),
    };
    let mut archive =
        archive::Writer::new(file, order.passphrase.as_ref(), at.to_string(), pieces).with_context(doing)?;
    write(&mut archive, &tree, &survey, &stage, &mut notes)?;
    let WrittenArchive { manifest: written, reused } = archive.finish(now).with_context(doing)?;
    drop(stage);
    let manifest = archive::verify(&partial, order.passphrase.as_ref())?;
    if manifest != written {
        bail!("{} reads otherwise than it was written; check its disk", partial.display());
    }
    if to.exists() && !order.replaces {
        bail!(in_the_way());
    }
    fs::rename(&partial, &to).with_context(|| format!("could not rename {}", partial.display()))?;
    let _ = fs::remove_file(beside(&to, EARLIER));
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
    if was_left {
        notes.push(match (reused, order.passphrase.is_some()) {
            (_, true) => "an earlier backup was interrupted; an encrypted one begins anew".to_owned(),
            (0, false) => {
                "an earlier backup was interrupted and left nothing for this one, which began anew".to_owned()
            }
            (_, false) => format!(
                "an earlier backup was interrupted; this one went on with it, and {} of {} had been finished",
                size(reused),
                size(bytes)
            ),
        });
    }
    let reused = was_left.then_some(reused);
    Ok(FinishedBackup { path: to, bytes, manifest, reused, notes, left_out: survey.left_out })
}

/// What a file is called while it is written, and what one is called that was interrupted, while the next takes it up.
const PARTIAL: &str = ".partial";
const EARLIER: &str = ".partial.earlier";

fn beside(to: &Path, ending: &str) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// What an interrupted backup left where this one goes.
enum Leftover {
    None,
    /// Nothing that this one could go on with; it is gone.
    Useless,
    Pieces(Earlier),
}

/// The longest of what was left is set aside to be used, and the rest goes. Backups whose names tell only their time are
/// each called otherwise, and still one goes on with what another left.
fn leftover(to: &Path, is_sealed: bool) -> anyhow::Result<Leftover> {
    let own = beside(to, PARTIAL);
    let busy = || format!("{} is being written by another backup; wait until it is over", own.display());
    let mut left = Vec::new();
    for path in leftovers(to) {
        let Ok(file) = File::open(&path) else { continue };
        match file.try_lock() {
            Ok(()) => left.push((file.metadata().map_or(0, |about| about.len()), path)),
            Err(_) if path == own => bail!(busy()),
            Err(_) => {}
        }
    }
    if left.is_empty() {
        return Ok(Leftover::None);
    }
    left.sort();
    let longest = if is_sealed { None } else { left.pop() };
    let earlier = beside(to, EARLIER);
    for (_, path) in left {
        fs::remove_file(&path).with_context(|| format!("could not remove {}", path.display()))?;
    }
    let Some((_, longest)) = longest else { return Ok(Leftover::Useless) };
    let doing = || format!("could not go on with {}", longest.display());
    fs::rename(&longest, &earlier).with_context(doing)?;
    let pieces = File::open(&earlier).and_then(Earlier::in_file).with_context(doing)?;
    Ok(Leftover::Pieces(pieces))
}

/// Everything that a backup to this place may have left, whether or not a process still writes it.
fn leftovers(to: &Path) -> Vec<PathBuf> {
    let mut found = vec![beside(to, PARTIAL), beside(to, EARLIER)];
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    if let (Some(directory), Some(own)) = (to.parent(), name(to))
        && let Some(wanted) = without_stamp(&own)
    {
        let is_sibling = |name: &str| {
            let of = name.strip_suffix(EARLIER).or_else(|| name.strip_suffix(PARTIAL));
            of.and_then(without_stamp).is_some_and(|other| other == wanted)
        };
        let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
        found.extend(entries.filter(|path| name(path).is_some_and(|name| is_sibling(&name))));
    }
    found.sort();
    found.dedup();
    found.retain(|path| path.is_file());
    found
}

/// What stands before and after the time in `throughline-main-20260528T093510Z.tar.gz`.
fn without_stamp(name: &str) -> Option<(&str, &str)> {
    let (stem, ending) = name.split_once(".tar.gz")?;
    let (before, stamp) = stem.rsplit_once('-')?;
    let (day, time) = stamp.strip_suffix('Z')?.split_once('T')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (day.len() == 8 && time.len() >= 6 && is_number(day) && is_number(time)).then_some((before, ending))
}

/// Everything is opened through the tree: what was replaced since the survey is noted, and what it leads to is not read.
fn write(
    archive: &mut archive::Writer,
    tree: &Tree,
    survey: &Survey,
    stage: &BackupStage,
    notes: &mut Vec<String>,
) -> anyhow::Result<()> {
    let mut progress = Progress::bytes("archive", survey.bytes());
    for found in &survey.found {
        let path = found.path.as_str();
        let label = Label { path, mode: found.mode, modified: found.modified };
        let doing = || format!("could not keep {}", found.place.display());
        match found.kind {
            survey::HomeEntryKind::Directory if tree.is_directory(path) => {
                archive.directory(label).with_context(doing)?
            }
            survey::HomeEntryKind::Directory => {
                notes.push(format!("{}: it is no directory any more", found.place.display()));
            }
            survey::HomeEntryKind::Link => match tree.link(path) {
                Ok(to) => match to.to_str() {
                    Some(to) => archive.link(label, to).with_context(doing)?,
                    None => {
                        notes.push(format!("{}: it leads to a name that is no text", found.place.display()))
                    }
                },
                Err(error) if error.kind() == ErrorKind::NotFound => {} // gone meanwhile
                Err(error) => notes.push(format!("{}: {error}", found.place.display())),
            },
            survey::HomeEntryKind::Database => {
                let mut leave_out = |why: String| match is_transcript(path) {
                    // Without it a backup is none.
                    true => bail!("{} could not be kept: {why}", found.place.display()),
                    false => {
                        notes.push(format!("{}: {why}", found.place.display()));
                        Ok(())
                    }
                };
                // Held until the copy is made: no other file can have its number meanwhile.
                let held = match tree.file(path) {
                    Ok(held) => held,
                    Err(error) => {
                        leave_out(error.to_string())?;
                        continue;
                    }
                };
                let copy = stage.file();
                let mut copying = Progress::bytes(&format!("copy {path}"), found.bytes);
                let copied = throughline_store::copy(&tree.place(path), &copy, &mut |done, total| {
                    copying.stands_at(done, total);
                });
                drop(copying);
                // SQLite opens by name, though through no link. What it opened must be what is held.
                if !tree.file(path).is_ok_and(|again| is_same(&held, &again)) {
                    leave_out("it was replaced during the backup; make another one".to_owned())?;
                    continue;
                }
                let copied = match copied {
                    Err(error) if error.is_damage() => {
                        // No database any more, but perhaps all there is of it.
                        let bytes = held.metadata().with_context(doing)?.len();
                        archive.file(label, bytes, held).with_context(doing)?;
                        notes.push(format!(
                            "{path} is too damaged to be opened; it was kept as it is, byte for byte"
                        ));
                        continue;
                    }
                    copied => copied?,
                };
                let file = File::open(&copy).with_context(doing)?;
                archive.file(label, copied.bytes, file).with_context(doing)?;
                let _ = fs::remove_file(&copy);
                let (rows, damage) = (copied.rows, copied.damage);
                archive.database(Database { path: path.to_owned(), rows, damage });
            }
            survey::HomeEntryKind::File => match tree.file(path).and_then(read) {
                Ok(Text::Whole(bytes)) => {
                    archive.file(label, bytes.len() as u64, &bytes[..]).with_context(doing)?;
                }
                Ok(Text::Long(file, bytes)) => archive.file(label, bytes, file).with_context(doing)?,
                Err(error) if error.kind() == ErrorKind::NotFound => {} // gone meanwhile
                Err(error) => notes.push(format!("{}: {error}", found.place.display())),
            },
        }
        progress.advance(found.bytes);
    }
    Ok(())
}

/// Whether what was said in a home, or in one of its profiles, lies there.
fn is_transcript(path: &str) -> bool {
    let names: Vec<&str> = path.split('/').collect();
    matches!(names[..], ["state.db"] | [profile::DIRECTORY, _, "state.db"])
}

/// Whether two handles are of one file.
#[cfg(unix)]
fn is_same(one: &File, other: &File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let id = |file: &File| file.metadata().map(|about| (about.dev(), about.ino())).ok();
    id(one).is_some_and(|one| Some(one) == id(other))
}

/// A file that is open there cannot be replaced.
#[cfg(not(unix))]
fn is_same(_one: &File, _other: &File) -> bool {
    true
}

enum Text {
    Whole(Vec<u8>),
    Long(File, u64),
}

fn read(mut file: File) -> io::Result<Text> {
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
struct BackupStage {
    path: PathBuf,
    was_left: bool,
    _lock: File,
}

impl BackupStage {
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

impl Drop for BackupStage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl FinishedBackup {
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
            "continued": self.reused.is_some(),
            "reused_bytes": self.reused.unwrap_or(0),
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
    fn the_longest_that_was_left_here_is_gone_on_with_and_what_is_being_written_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let [short, long, busy, other] = [
            path("throughline-main-20260527T093510Z.tar.gz.partial"),
            path("throughline-main-20260526T093510Z.tar.gz.partial.earlier"),
            path("throughline-main-20260527T093511Z.tar.gz.partial"),
            path("throughline-work-20260527T093510Z.tar.gz.partial"),
        ];
        for (file, text) in [(&short, "half"), (&long, "three quarters"), (&busy, "x"), (&other, "x")] {
            fs::write(file, text).unwrap();
        }
        let writing = File::open(&busy).unwrap();
        writing.try_lock().unwrap();
        let to = path("throughline-main-20260528T093510Z.tar.gz");
        assert!(matches!(leftover(&to, false).unwrap(), Leftover::Pieces(_)));
        assert_eq!(fs::read_to_string(beside(&to, EARLIER)).unwrap(), "three quarters");
        assert!(!short.exists() && !long.exists() && busy.exists() && other.exists());
        assert!(matches!(leftover(&to, true).unwrap(), Leftover::Useless), "an encrypted one begins anew");
        assert!(!beside(&to, EARLIER).exists() && busy.exists());
        assert!(matches!(leftover(&to, false).unwrap(), Leftover::None));
        let own = path("throughline-main-20260527T093511Z.tar.gz");
        assert!(leftover(&own, false).is_err(), "a process writes it");
    }

    #[cfg(unix)]
    #[test]
    fn p31_what_is_swapped_for_a_link_during_a_backup_puts_no_foreign_file_into_it() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let (home, foreign) = (directory.path().join("home"), directory.path().join("foreign"));
        for path in [&home, &foreign] {
            fs::create_dir_all(path.join("notes")).unwrap();
            fs::write(path.join("notes/kept.md"), "x".repeat(100)).unwrap();
            symlink("nowhere", path.join("notes/link")).unwrap();
            fs::create_dir_all(path.join("notes/deeper")).unwrap();
        }
        let database = |path: &Path, text: &str| {
            let database = rusqlite::Connection::open(path).unwrap();
            database.execute_batch(&format!("CREATE TABLE t (x); INSERT INTO t VALUES ('{text}')")).unwrap();
        };
        for name in ["same.md", "secret.md", "waits.md"] {
            fs::write(home.join(name), "own words").unwrap();
        }
        fs::write(foreign.join("secret.md"), "FOREIGN SECRET").unwrap();
        fs::write(foreign.join("notes/kept.md"), "FOREIGN NOTE").unwrap();
        database(&home.join("own.db"), "own row");
        database(&foreign.join("theirs.db"), "FOREIGN ROW");

        let tree = Tree::of(&home).unwrap();
        let survey = Survey::of(&home, &tree, Profiles::Left, &[]).unwrap();
        // An agent is quick.
        fs::remove_file(home.join("secret.md")).unwrap();
        symlink(foreign.join("secret.md"), home.join("secret.md")).unwrap();
        fs::rename(home.join("notes"), home.join("moved")).unwrap();
        symlink(foreign.join("notes"), home.join("notes")).unwrap();
        fs::remove_file(home.join("own.db")).unwrap();
        symlink(foreign.join("theirs.db"), home.join("own.db")).unwrap();
        fs::remove_file(home.join("waits.md")).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(home.join("waits.md")).status().unwrap();
        assert!(fifo.success());

        let stage = BackupStage::of(&home).unwrap();
        let to = directory.path().join("kept.tar.gz");
        let mut archive = archive::Writer::new(File::create(&to).unwrap(), None, "now".into(), None).unwrap();
        let mut notes = Vec::new();
        write(&mut archive, &tree, &survey, &stage, &mut notes).unwrap();
        let manifest = archive.finish(0).unwrap().manifest;
        let kept: Vec<&str> = manifest.entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(kept, ["same.md"], "{notes:?}");
        for name in ["secret.md", "own.db", "waits.md", "notes/kept.md", "notes/link", "notes/deeper"] {
            let named = notes.iter().any(|note| note.contains(&home.join(name).display().to_string()));
            assert!(named, "{name}: {notes:?}");
        }
    }
}
