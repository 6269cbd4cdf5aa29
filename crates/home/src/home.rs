//! The directory that one agent lives in: which it is, that it is there, and that it is ours alone.
//!
//! - the home is what `--home` says, else `$THROUGHLINE_HOME`, `$HERMES_HOME`, `~/.throughline`
//! - one process owns a home for as long as it lives, by an exclusive lock on Hermes' own
//!   `gateway.lock`, with a record in Hermes' form: Hermes sees the home as taken, and we see its
//! - what a dead process left behind is no obstacle; `gateway.pid` goes with a clean exit
//! - a home is *fresh* if it held no conversation when we first prepared it: there was no `state.db`
//!   and no `sessions/sessions.json`. The file `.throughline` remembers that for later starts
//!
//! Deliberately absent: what settings mean, and the database.

use crate::config::Settings;
use anyhow::{Context, bail};
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use throughline_hermes::config::{Secret, provider};
use throughline_hermes::lock::{Process, Record, TITLE};
use throughline_hermes::profile;

/// What Hermes makes in every home, in its order.
const DIRECTORIES: [&str; 10] = [
    "cron",
    "sessions",
    "logs",
    "logs/curator",
    "memories",
    "pairing",
    "hooks",
    "image_cache",
    "audio_cache",
    "skills",
];

/// Where a home keeps what was said.
#[cfg(unix)]
const SPOKEN: [&str; 4] = ["state.db", "state.db-wal", "state.db-shm", "sessions/sessions.json"];

const LOCK_FILE: &str = "gateway.lock";
const PID_FILE: &str = "gateway.pid";
pub const STATE_FILE: &str = "gateway_state.json";
/// Hermes' list of the chats that can be written to.
pub const CHANNELS_FILE: &str = "channel_directory.json";
/// An unfinished restore leaves it; the restore that finishes removes it.
pub const RESTORE_MARK: &str = ".throughline-restore";
pub const KEY_FILE: &str = "throughline.key";
const ADDRESS_FILE: &str = "throughline.address";
/// Its presence says that the home was fresh when we came.
const BIRTH_FILE: &str = ".throughline";

/// Hermes refuses shorter ones, and so do we: the API runs an agent.
pub const KEY_LENGTH_MIN: usize = 16;

/// A lock may be held for a moment by a process that only looks whether it is held, and its file may be
/// deleted by a Hermes that found it stale. Both are over within a few of these.
const LOCK_ATTEMPTS: usize = 8;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub struct Home {
    path: PathBuf,
    pub chosen_by: ChosenBy,
    /// Of a command, which reads them once: see [`Home::settings`].
    pub(crate) settings: Arc<OnceLock<Arc<Settings>>>,
}

impl PartialEq for Home {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, self.chosen_by) == (&other.path, other.chosen_by)
    }
}

impl Eq for Home {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenBy {
    CommandLine,
    Variable(&'static str),
    /// Neither says anything.
    Default,
}

/// The homes to use: those given, else the one that the environment names, else `~/.throughline`.
pub fn choose(given: &[PathBuf], variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Vec<Home>> {
    if !given.is_empty() {
        return distinct(given.iter().map(|path| Home::new(path, ChosenBy::CommandLine)).collect());
    }
    for name in ["THROUGHLINE_HOME", "HERMES_HOME"] {
        let value = variable(name).filter(|value| !value.trim().is_empty());
        if let Some(value) = value {
            return Ok(vec![Home::new(Path::new(value.trim()), ChosenBy::Variable(name))]);
        }
    }
    let user = user_directory(variable).context(
        "cannot tell where to live: $HOME is not set; say it with `--home DIRECTORY` or $THROUGHLINE_HOME",
    )?;
    Ok(vec![Home::new(&user.join(".throughline"), ChosenBy::Default)])
}

/// Where Hermes lives by default.
pub fn hermes_directory(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let user = user_directory(variable)?;
    if cfg!(not(windows)) {
        return Some(user.join(".hermes"));
    }
    let local = variable("LOCALAPPDATA").filter(|path| !path.trim().is_empty()).map(PathBuf::from);
    Some(local.unwrap_or_else(|| user.join("AppData/Local")).join("hermes"))
}

/// `~/.hermes`, if it is there while no home was named: worth a word to its owner.
pub fn hermes_beside(home: &Home, variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let hermes = hermes_directory(variable)?;
    (home.chosen_by == ChosenBy::Default && hermes.is_dir()).then_some(hermes)
}

/// Where homes usually are: `~/.throughline`, `~/.hermes`, and the profiles below both.
pub fn usual(variable: &dyn Fn(&str) -> Option<String>) -> Vec<Home> {
    let Some(user) = user_directory(variable) else { return Vec::new() };
    let hermes = variable("HERMES_HOME").map(PathBuf::from).or_else(|| hermes_directory(variable));
    let roots = [Some(user.join(".throughline")), hermes].into_iter().flatten();
    let roots: Vec<Home> = roots.map(|root| Home::new(&root, ChosenBy::Default)).collect();
    let homes = roots.iter().flat_map(|root| profiles(root).unwrap_or_default());
    homes.map(|(_, home)| home).filter(|home| home.path().is_dir()).collect()
}

/// Every profile of a root by its name: the root itself, then those below it, in order. A home that
/// is itself a profile stands for the root it belongs to.
pub fn profiles(home: &Home) -> anyhow::Result<Vec<(String, Home)>> {
    let parent = home.path.parent().filter(|parent| parent.ends_with(profile::DIRECTORY));
    let root = parent.and_then(Path::parent).unwrap_or(&home.path);
    let mut found = vec![(profile::DEFAULT.to_owned(), Home::new(root, home.chosen_by))];
    let directory = root.join(profile::DIRECTORY);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error).with_context(|| format!("could not read {}", directory.display())),
    };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    for name in names.into_iter().filter(|name| profile::is_name(name) && name != profile::DEFAULT) {
        let path = directory.join(&name);
        if path.is_dir() {
            found.push((name, Home::new(&path, home.chosen_by)));
        }
    }
    Ok(found)
}

/// The homes that an order or a question is for, by name: those given, else all that people usually have.
pub fn meant(
    homes: &[PathBuf],
    all_profiles: bool,
    variable: &dyn Fn(&str) -> Option<String>,
) -> anyhow::Result<Vec<(String, Home)>> {
    let chosen = choose(homes, variable)?;
    chosen.iter().try_for_each(Home::refuse_mistyped)?;
    let others = if homes.is_empty() { usual(variable) } else { Vec::new() };
    let mut found: Vec<(String, Home)> = Vec::new();
    for home in chosen.into_iter().chain(others) {
        // A root whose gateway serves its profiles is all of them.
        let all = profiles(&home)?;
        let several = all_profiles || (all.len() > 1 && all[0].1 == home);
        let named = if several { all } else { vec![(home.name(), home)] };
        for (name, home) in named {
            if !found.iter().any(|(_, known)| known.path() == home.path()) {
                found.push((name, home));
            }
        }
    }
    // Two homes may have one name; what is shown of them is not the same then.
    let shared = |name: &str| found.iter().filter(|(other, _)| other == name).count() > 1;
    let homes: Vec<Home> =
        found.iter().filter(|(name, _)| shared(name)).map(|(_, home)| home.clone()).collect();
    let labels = self::labels(&homes);
    for (name, home) in &mut found {
        if let Some(nth) = homes.iter().position(|other| other.path() == home.path()) {
            name.clone_from(&labels[nth]);
        }
    }
    Ok(found)
}

/// What people call each of these homes: the last part of its path, and as many more as it takes to tell them apart.
/// Within one process a name is one home.
pub fn labels(homes: &[Home]) -> Vec<String> {
    let parts = |home: &Home| -> Vec<String> {
        let names = home.path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        });
        names.collect()
    };
    let parts: Vec<Vec<String>> = homes.iter().map(parts).collect();
    let mut lengths = vec![1; homes.len()];
    loop {
        let label = |(parts, length): (&Vec<String>, &usize)| match parts.is_empty() {
            true => "main".to_owned(),
            false => parts[parts.len().saturating_sub(*length)..].join("-"),
        };
        let mut labels: Vec<String> = parts.iter().zip(&lengths).map(label).collect();
        let is_shared = |nth: usize| labels.iter().filter(|label| **label == labels[nth]).count() > 1;
        let shared: Vec<usize> = (0..labels.len()).filter(|nth| is_shared(*nth)).collect();
        let longer: Vec<usize> =
            shared.iter().copied().filter(|nth| lengths[*nth] < parts[*nth].len()).collect();
        if longer.is_empty() {
            // Whole paths that read the same although they are not: the order tells them apart.
            shared.iter().enumerate().for_each(|(nth, at)| labels[*at] += &format!("-{}", nth + 1));
            return labels;
        }
        longer.into_iter().for_each(|nth| lengths[nth] += 1);
    }
}

fn user_directory(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    variable("HOME").filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn distinct(homes: Vec<Home>) -> anyhow::Result<Vec<Home>> {
    let real = |home: &Home| fs::canonicalize(&home.path).unwrap_or_else(|_| home.path.clone());
    for (nth, home) in homes.iter().enumerate() {
        if homes[..nth].iter().any(|other| real(other) == real(home)) {
            bail!("{} is given twice as a home; give it once", home.path.display());
        }
    }
    Ok(homes)
}

impl Home {
    pub fn new(path: &Path, chosen_by: ChosenBy) -> Self {
        // Absolute, so that a later change of directory changes nothing.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { path, chosen_by, settings: Arc::default() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the agent of this home is called among those of its process.
    pub fn name(&self) -> String {
        self.path.file_name().map_or("main".into(), |name| name.to_string_lossy().into_owned())
    }

    /// Which home this is, however its path is written: what an agent is told from others by. Names are for people.
    pub fn identity(&self) -> String {
        let real = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        real.to_string_lossy().into_owned()
    }

    /// Whether all conversations here are ours. See the module's page.
    pub fn is_fresh(&self) -> bool {
        self.path.join(BIRTH_FILE).exists() || !self.has_history()
    }

    fn has_history(&self) -> bool {
        self.path.join("state.db").exists() || self.path.join("sessions/sessions.json").exists()
    }

    /// For a command that may begin a home: one that is named on the command line and is not there was mistyped.
    pub fn refuse_mistyped(&self) -> anyhow::Result<()> {
        match self.chosen_by {
            ChosenBy::CommandLine => self.refuse_absent(),
            ChosenBy::Variable(_) | ChosenBy::Default => self.refuse_other_than_directory(),
        }
    }

    /// For a command that only looks into a home or works on what is there: without a home it has no answer.
    pub fn refuse_absent(&self) -> anyhow::Result<()> {
        if !self.path.exists() {
            let shown = self.path.display();
            let check = match self.chosen_by {
                ChosenBy::CommandLine => "check --home".to_owned(),
                ChosenBy::Variable(name) => format!("check ${name}"),
                ChosenBy::Default => "name another with --home".to_owned(),
            };
            bail!(
                "there is no home at {shown}; {check}, or begin an agent there with `throughline --home {shown}`"
            );
        }
        self.refuse_other_than_directory()
    }

    pub fn refuse_other_than_directory(&self) -> anyhow::Result<()> {
        if self.path.exists() && !self.path.is_dir() {
            bail!("{} is not a directory; a home is one", self.path.display());
        }
        Ok(())
    }

    /// Makes what is missing, readable for its owner alone. What is there stays as it is.
    pub fn prepare(&self) -> anyhow::Result<()> {
        let shown = self.path.display();
        let in_profiles = self.path.parent().is_some_and(|parent| parent.ends_with("profiles"));
        if in_profiles && !self.path.exists() {
            bail!("the profile {shown} does not exist; create it with `hermes profile create`");
        }
        self.refuse_other_than_directory()?;
        if self.path.join(RESTORE_MARK).exists() {
            bail!("{shown} is only half restored; run the same `throughline restore` again, and it goes on");
        }
        let is_fresh = !self.path.join(BIRTH_FILE).exists() && !self.has_history();
        let builder = private_directory();
        for name in [""].iter().chain(&DIRECTORIES) {
            let path = self.path.join(name);
            builder
                .create(&path)
                .with_context(|| format!("could not make the directory {}", path.display()))?;
        }
        if is_fresh {
            let note = "This home began with Throughline. Delete this file, and it is treated as one that Hermes had.\n";
            replace(&self.path.join(BIRTH_FILE), note)
                .with_context(|| format!("could not write {shown}/{BIRTH_FILE}"))?;
        }
        Ok(())
    }

    /// Keeps other users of the machine out of a home that was there before us, and away from what was said in it.
    /// As Hermes: not where the system manages the home, and with the mode that the operator chose. One that
    /// belongs to another user stays as it is; `throughline doctor` names it.
    #[cfg(unix)]
    pub fn close_to_others(&self, variable: impl Fn(&str) -> Option<String>) {
        use std::os::unix::fs::PermissionsExt as _;
        let is_set = |name: &str| variable(name).is_some_and(|text| !text.trim().is_empty());
        if is_set("HERMES_MANAGED") || self.path.join(".managed").exists() {
            return;
        }
        let chosen = variable("HERMES_HOME_MODE");
        let chosen =
            chosen.and_then(|text| u32::from_str_radix(text.trim().trim_start_matches("0o"), 8).ok());
        let tighten = |path: &Path, mode: u32| {
            // Only takes away: what its owner may not write stays so.
            let Ok(there) = fs::metadata(path).map(|data| data.permissions().mode() & 0o7777) else { return };
            if there & mode != there
                && let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(there & mode))
            {
                tracing::warn!(path = %path.display(), %error, "others may be able to look into this");
            }
        };
        tighten(&self.path, chosen.unwrap_or(0o700));
        if !is_set("HERMES_SKIP_CHMOD") {
            SPOKEN.iter().for_each(|name| tighten(&self.path.join(name), 0o600));
        }
    }

    /// The user's profile sees to that.
    #[cfg(not(unix))]
    pub fn close_to_others(&self, _: impl Fn(&str) -> Option<String>) {}

    // ------------------------------------------------------------------------------------- the lock

    /// Takes the home for the life of this process. [`Occupied`] if another has it.
    pub fn own(&self, version: &str) -> anyhow::Result<Ownership> {
        let lock = self.lock()?;
        if let Some(owner) = self.gateway_without_a_lock() {
            return Err(self.occupied(Some(owner)).into());
        }
        let record = own_record(version).emit();
        write_record(&lock, &record).with_context(|| format!("could not write {}", self.file(LOCK_FILE)))?;
        replace_lightly(&self.path.join(PID_FILE), &record)
            .with_context(|| format!("could not write {}", self.file(PID_FILE)))?;
        Ok(Ownership { pid_file: self.path.join(PID_FILE), _lock: lock })
    }

    /// Keeps a gateway from starting here for as long as the file is open, without being one.
    pub fn hold(&self) -> anyhow::Result<File> {
        self.lock()
    }

    /// Which process has this home now, if one does.
    pub fn owner(&self) -> Option<Occupied> {
        let lock = File::open(self.path.join(LOCK_FILE)).ok()?;
        match lock.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(self.occupied(read_record(&lock))),
            _ => self.gateway_without_a_lock().map(|record| self.occupied(Some(record))),
        }
    }

    fn lock(&self) -> anyhow::Result<File> {
        let path = self.path.join(LOCK_FILE);
        let shown = path.display();
        let mut occupied = None;
        for _ in 0..LOCK_ATTEMPTS {
            let mut options = private_file();
            options.read(true).write(true).create(true).truncate(false);
            let lock = options.open(&path).with_context(|| format!("could not open {shown}"))?;
            match lock.try_lock() {
                Ok(()) if is_at(&lock, &path) => return Ok(lock),
                Ok(()) => {} // deleted meanwhile: what we hold is no longer the home's lock
                Err(TryLockError::WouldBlock) => occupied = Some(self.occupied(read_record(&lock))),
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| {
                        format!("could not lock {shown}; does its file system know locks?")
                    });
                }
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        match occupied {
            Some(occupied) => Err(occupied.into()),
            None => bail!("could not lock {shown}: something keeps deleting it"),
        }
    }

    /// A gateway that runs although its lock is gone, by its own files.
    fn gateway_without_a_lock(&self) -> Option<Record> {
        let read = |name: &str| Record::parse(&fs::read_to_string(self.path.join(name)).ok()?);
        let alive = |record: &Record| process(record.pid).filter(|_| record.pid != std::process::id());
        read(PID_FILE).filter(|record| record.is_running(alive(record).as_ref())).or_else(|| {
            read(STATE_FILE).filter(|record| record.is_running_by_its_state(alive(record).as_ref()))
        })
    }

    fn occupied(&self, owner: Option<Record>) -> Occupied {
        Occupied { home: self.path.clone(), owner }
    }

    fn file(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    // -------------------------------------------------------------------------------------- the key

    pub fn key_file(&self) -> PathBuf {
        self.path.join(KEY_FILE)
    }

    /// The key of this home's API, if it has been made.
    pub fn key(&self) -> anyhow::Result<Option<Secret>> {
        let path = self.key_file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("could not read {}", path.display())),
        };
        let key = text.trim();
        if !provider::is_usable_secret(key, KEY_LENGTH_MIN) || !key.chars().all(|c| c.is_ascii_graphic()) {
            bail!(
                "{} does not hold a usable key of {KEY_LENGTH_MIN} characters or more; delete it, and a new one is made",
                path.display()
            );
        }
        Ok(Some(Secret::new(key)))
    }

    /// The key of this home's API; made now if there is none. Its file is for its owner alone.
    pub fn key_or_new(&self) -> anyhow::Result<Secret> {
        let path = self.key_file();
        let doing = || format!("could not write {}", path.display());
        if let Some(key) = self.key()? {
            make_private(&path).with_context(doing)?;
            return Ok(key);
        }
        let key = new_key().context(NO_KEY)?;
        replace(&path, &format!("{key}\n")).with_context(doing)?;
        Ok(Secret::new(key))
    }
}

impl Home {
    /// A key that was given by other means, in the file where local clients look for it.
    pub fn keep_key(&self, key: Secret) -> anyhow::Result<Secret> {
        let path = self.key_file();
        let known = fs::read_to_string(&path).is_ok_and(|text| text.trim() == key.expose());
        if !known {
            replace(&path, &format!("{}\n", key.expose()))
                .with_context(|| format!("could not write {}", path.display()))?;
        }
        Ok(key)
    }

    /// Where this home's API answers, for local clients: flags of the gateway are not in any file.
    pub fn publish_address(&self, address: &Address) -> anyhow::Result<()> {
        let path = self.path.join(ADDRESS_FILE);
        replace_lightly(&path, &format!("{address}\n"))
            .with_context(|| format!("could not write {}", path.display()))
    }

    pub fn withdraw_address(&self) {
        let _ = fs::remove_file(self.path.join(ADDRESS_FILE));
    }

    /// Where a gateway of this home said that it answers. It may be gone.
    pub fn address(&self) -> Option<Address> {
        fs::read_to_string(self.path.join(ADDRESS_FILE)).ok()?.trim().parse().ok()
    }
}

/// Where an API answers: a listener, and the path on it, which is empty where it is the agent's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub socket: SocketAddr,
    pub path: String,
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.socket, self.path)
    }
}

impl FromStr for Address {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (socket, path) = text.split_at(text.find('/').unwrap_or(text.len()));
        Ok(Self { socket: socket.parse()?, path: path.to_owned() })
    }
}

/// This process, as Hermes describes a gateway.
pub fn own_record(version: &str) -> Record {
    let pid = std::process::id();
    let start_time = process(pid).and_then(|process| process.start_time);
    let argv = std::env::args_os().map(|part| part.to_string_lossy().into_owned()).collect();
    Record::own(pid, argv, start_time, version)
}

/// This process owns the home until this is dropped.
#[derive(Debug)]
pub struct Ownership {
    pid_file: PathBuf,
    _lock: File,
}

impl Drop for Ownership {
    /// The lock goes with its file; the record of a process that is gone should go, too, but only
    /// if it is still this one's.
    fn drop(&mut self) {
        let ours = fs::read_to_string(&self.pid_file).ok().and_then(|text| Record::parse(&text));
        if ours.is_some_and(|record| record.pid == std::process::id()) {
            let _ = fs::remove_file(&self.pid_file);
        }
    }
}

/// Another process has the home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupied {
    pub home: PathBuf,
    pub owner: Option<Record>,
}

impl fmt::Display for Occupied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let home = self.home.display();
        match &self.owner {
            Some(Record { pid, throughline: Some(_), .. }) => {
                write!(
                    formatter,
                    "{home} is in use by another Throughline (pid {pid}); stop that one first, or use it"
                )
            }
            Some(Record { pid, .. }) => write!(
                formatter,
                "{home} is in use by a Hermes gateway (pid {pid}); stop it first: `hermes gateway stop`"
            ),
            None => write!(
                formatter,
                "{home} is in use by a process that does not say which; {LOCK_FILE} is locked"
            ),
        }
    }
}

impl std::error::Error for Occupied {}

/// Begins this process anew, once, under a name by which Hermes knows a gateway.
///
/// Hermes 0.19 trusts a lock only if the command line of its owner looks like a gateway's. If not,
/// it deletes lock and record and takes the home: `hermes status` alone would open our door. So
/// a command that is going to own a home calls this first, before anything is open. The process keeps its
/// number. On success it does not return in a process that has no such name yet.
pub fn take_title() -> io::Result<()> {
    // Elsewhere Hermes goes by the record in the lock.
    if cfg!(not(unix)) {
        return Ok(());
    }
    match std::env::args_os().next().is_some_and(|name| name == TITLE) {
        true => Ok(()),
        false => Err(begin_anew()),
    }
}

/// The same program with the same arguments takes the place of this process, which must have put
/// everything down. Returns only why that could not be. A program that was replaced on disk
/// meanwhile is the new one.
pub fn begin_anew() -> io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let replaced = program.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(PathBuf::from);
    let program = replaced.filter(|path| path.exists()).unwrap_or(program);
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1));
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        command.arg0(TITLE).exec()
    }
    #[cfg(not(unix))]
    match command.spawn() {
        Ok(_) => std::process::exit(0), // it runs on under another number
        Err(error) => error,
    }
}

/// What the system knows about a process. None: it does not live, or only its name does.
pub fn process(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default().trim();
    if state.starts_with('Z') {
        return None;
    }
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command_line = String::from_utf8_lossy(&command_line).replace('\0', " ").trim().to_owned();
    Some(Process {
        // Counted as Hermes counts, by spaces from the left, so that both get the same number even
        // where a program's name has spaces in it.
        start_time: stat.split_whitespace().nth(21).and_then(|field| field.parse().ok()),
        command_line: Some(command_line).filter(|line| !line.is_empty()),
        is_stopped: state.starts_with(['T', 't']),
    })
}

/// What no other user of this machine may look into. On Windows the user's profile sees to that.
pub fn private_directory() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

impl Home {
    /// Empties the record in the lock, which this process holds: the next owner writes its own.
    pub fn forget_command_line(&self) {
        let _ = fs::write(self.path().join(LOCK_FILE), "");
    }
}

pub fn private_file() -> OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn make_private(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let _ = path;
    Ok(())
}

/// A file that is locked cannot be deleted on Windows.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(theirs)) => (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()),
        _ => false,
    }
}

fn read_record(mut file: &File) -> Option<Record> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Record::parse(&text)
}

fn write_record(mut file: &File, record: &str) -> io::Result<()> {
    file.rewind()?;
    file.set_len(0)?;
    // It speaks of a process that lives: no need to wait for the disk, which would outlive it.
    file.write_all(record.as_bytes())
}

/// Writes a small file whole or not at all, for its owner alone.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_directory(directory)
}

/// The names in a directory are on disk, too. Windows opens no directory as a file, and its file
/// systems keep names in a journal of their own.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(path)?.sync_all()?;
    let _ = path;
    Ok(())
}

/// The same for what is written often and matters only while the machine is up: it does not wait for the disk.
pub fn replace_lightly(path: &Path, text: &str) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map_err(|error| error.error).map(drop)
}

const NO_KEY: &str = "could not read random bytes for a key of the API; set API_SERVER_KEY in .env";

/// 32 random bytes, in a form that is known for a secret wherever it turns up.
fn new_key() -> io::Result<String> {
    let mut bytes = [0; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(bytes.iter().fold("tl-".to_owned(), |key, byte| format!("{key}{byte:02x}")))
}

#[cfg(test)]
mod tests;
