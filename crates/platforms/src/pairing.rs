//! Hermes' pairing files in a home: read by all, written by one at a time.
//!
//! - `pairing/` is used if something is in it, else `platforms/pairing/`; people in the other one count, too
//! - a file is replaced as a whole, and only its owner may read it
//! - a lock beside the files keeps this program's processes apart; Hermes knows none, and neither
//!   program writes more than a person causes
//!
//! Deliberately absent: what the files say, which is `throughline_hermes::pairing`'s.

use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use throughline_core::Time;
use throughline_hermes::pairing::{
    self, Chance, LIMITS_FILE, NoApproval, NoCode, PairingBook, Person, approved_file, pending_file,
};
use throughline_private_files as private_files;

/// No file of Hermes': it looks at `*-pending.json` and `*-approved.json` only.
const LOCK_FILE: &str = ".throughline.lock";

/// The pairing files of one home.
pub struct Pairings {
    home: PathBuf,
    /// One of this process at a time.
    alone: Mutex<()>,
}

/// What happened on one platform: who asked, and who is known.
#[derive(Clone, Debug, PartialEq)]
pub struct PairingList {
    pub platform: String,
    pub waiting: Vec<Person>,
    pub known: Vec<Person>,
}

impl Pairings {
    pub fn of(home: &Path) -> Self {
        Self { home: home.to_owned(), alone: Mutex::default() }
    }

    /// Whether this person was let in. A file that cannot be read lets no one in.
    pub fn is_approved(&self, platform: &str, user: &str) -> bool {
        let book = PairingBook { approved: self.read(&approved_file(platform)), ..PairingBook::default() };
        book.is_approved(user)
    }

    /// Everybody who was let in there.
    pub fn approved(&self, platform: &str) -> Vec<Person> {
        self.book(platform).known()
    }

    pub fn request(
        &self,
        platform: &str,
        user: &str,
        name: &str,
        now: Time,
    ) -> io::Result<Result<String, NoCode>> {
        let chance = chance()?;
        self.change(platform, |book| book.request(user, name, seconds(now), chance))
    }

    pub fn approve(&self, platform: &str, code: &str, now: Time) -> io::Result<Result<Person, NoApproval>> {
        self.change(platform, |book| book.approve(code, seconds(now)))
    }

    pub fn revoke(&self, platform: &str, user: &str) -> io::Result<bool> {
        self.change(platform, |book| book.revoke(user))
    }

    pub fn clear_pending(&self, platform: &str) -> io::Result<usize> {
        self.change(platform, PairingBook::clear_pending)
    }

    /// Every platform that there are files of.
    pub fn list(&self, now: Time) -> Vec<PairingList> {
        let platforms = self.platforms().into_iter().map(|platform| {
            let book = self.book(&platform);
            PairingList { waiting: book.waiting(seconds(now)), known: book.known(), platform }
        });
        platforms.collect()
    }

    pub fn platforms(&self) -> BTreeSet<String> {
        let files =
            self.directories().into_iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten();
        let names = files.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
        names.filter_map(|name| pairing::platform_of(&name).map(str::to_owned)).collect()
    }

    /// The one that is written to, and the other.
    fn directories(&self) -> [PathBuf; 2] {
        let (old, new) = (self.home.join("pairing"), self.home.join("platforms").join("pairing"));
        match holds_anything(&old) {
            true => [old, new],
            false => [new, old],
        }
    }

    fn book(&self, platform: &str) -> PairingBook {
        PairingBook {
            platform: platform.to_owned(),
            pending: self.read(&pending_file(platform)),
            approved: self.read(&approved_file(platform)),
            limits: self.read(LIMITS_FILE),
        }
    }

    /// What both places say; the one that is written to has the last word.
    fn read(&self, file: &str) -> Map<String, Value> {
        let [used, other] = self.directories();
        let mut entries = parsed(&other.join(file));
        entries.extend(parsed(&used.join(file)));
        entries
    }

    fn change<T>(&self, platform: &str, work: impl FnOnce(&mut PairingBook) -> T) -> io::Result<T> {
        let [directory, _] = self.directories();
        private_files::create_directory(&directory)?;
        let _alone = self.locked();
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(directory.join(LOCK_FILE))?;
        lock.lock()?; // given back when it is closed
        let before = self.book(platform);
        let mut book = before.clone();
        let done = work(&mut book);
        for (file, then, now) in [
            (pending_file(platform), &before.pending, &book.pending),
            (approved_file(platform), &before.approved, &book.approved),
            (LIMITS_FILE.to_owned(), &before.limits, &book.limits),
        ] {
            if then != now {
                replace(&directory, &file, &pairing::text(now))?;
            }
        }
        // Who was taken away here must not come back from there.
        self.forget_elsewhere(platform, &book)?;
        Ok(done)
    }

    fn forget_elsewhere(&self, platform: &str, book: &PairingBook) -> io::Result<()> {
        let [_, other] = self.directories();
        for (file, now) in
            [(pending_file(platform), &book.pending), (approved_file(platform), &book.approved)]
        {
            let there = parsed(&other.join(&file));
            let left: Map<String, Value> = there
                .iter()
                .filter(|(key, _)| now.contains_key(*key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            if left.len() < there.len() {
                replace(&other, &file, &pairing::text(&left))?;
            }
        }
        Ok(())
    }

    fn locked(&self) -> MutexGuard<'_, ()> {
        self.alone.lock().expect("nothing panics while it holds the pairing files")
    }
}

fn seconds(time: Time) -> f64 {
    time.0 as f64 / 1e6
}

fn holds_anything(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
}

fn parsed(path: &Path) -> Map<String, Value> {
    match fs::read_to_string(path) {
        Ok(text) => pairing::parse(&text),
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "a pairing file cannot be read: nobody in it is let in");
            }
            Map::new()
        }
    }
}

/// A reader sees the old file or the new one, also after a crash.
fn replace(directory: &Path, file: &str, text: &str) -> io::Result<()> {
    let draft = directory.join(format!(".{file}.{}.tmp", std::process::id()));
    let written = write_new(&draft, text).and_then(|()| fs::rename(&draft, directory.join(file)));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
        return written;
    }
    private_files::sync_directory(directory)
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = private_files::file_options().create(true).truncate(true).write(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn chance() -> io::Result<Chance> {
    let mut chance = Chance { code: [0; 8], salt: [0; 16], id: [0; 8] };
    let random = rustls::crypto::ring::default_provider().secure_random;
    for bytes in [&mut chance.code[..], &mut chance.salt, &mut chance.id] {
        random.fill(bytes).map_err(|_| io::Error::other("the machine gives no randomness"))?;
    }
    Ok(chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_800_000_000_000_000);

    #[test]
    fn p31_a_code_is_asked_for_and_approved_over_files() {
        let home = tempfile::tempdir().unwrap();
        let pairings = Pairings::of(home.path());
        assert_eq!(pairings.list(NOW), []);
        let code = pairings.request("telegram", "42", "Ünal", NOW).unwrap().unwrap();
        assert_eq!(code.len(), 8);
        assert_eq!(pairings.request("telegram", "42", "", NOW).unwrap(), Err(NoCode::TooSoon));
        let other = Pairings::of(home.path()); // another process
        assert_eq!(other.approve("telegram", "XXXXXXXX", NOW).unwrap(), Err(NoApproval::Unknown));
        assert_eq!(other.approve("telegram", &code.to_lowercase(), NOW).unwrap().unwrap().id, "42");
        assert!(pairings.is_approved("telegram", "42") && !pairings.is_approved("slack", "42"));
        assert!(pairings.revoke("telegram", "42").unwrap() && !pairings.is_approved("telegram", "42"));
    }

    #[test]
    fn p31_only_the_owner_may_read_the_files() {
        let home = tempfile::tempdir().unwrap();
        Pairings::of(home.path()).request("slack", "U1", "", NOW).unwrap().unwrap();
        let directory = home.path().join("platforms/pairing");
        #[cfg(unix)]
        for (path, mode) in [
            (directory.clone(), 0o700),
            (directory.join("slack-pending.json"), 0o600),
            (directory.join(LIMITS_FILE), 0o600),
        ] {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
        }
    }

    #[test]
    fn people_in_either_place_are_known_and_go_from_both() {
        let home = tempfile::tempdir().unwrap();
        let (old, new) = (home.path().join("pairing"), home.path().join("platforms/pairing"));
        fs::create_dir_all(&old).unwrap();
        fs::create_dir_all(&new).unwrap();
        fs::write(old.join("slack-approved.json"), r#"{"U1": {"user_name": "a", "approved_at": 1.0}}"#)
            .unwrap();
        fs::write(new.join("slack-approved.json"), r#"{"U2": {"user_name": "b", "approved_at": 1.0}}"#)
            .unwrap();
        let pairings = Pairings::of(home.path());
        assert!(pairings.is_approved("slack", "U1") && pairings.is_approved("slack", "U2"));
        assert!(pairings.revoke("slack", "U2").unwrap());
        assert!(pairings.is_approved("slack", "U1") && !pairings.is_approved("slack", "U2"));
    }
}
