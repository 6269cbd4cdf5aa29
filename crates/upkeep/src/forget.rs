//! What a forgetting does outside of the database: files of the home that belong to a person, a chat or a session.
//!
//! The store's transaction records this work before any of it is done. Each part can be done twice, so the process that finds it
//! unfinished (`throughline forget` or the next start of the gateway) does it from the beginning.
//!
//! Deliberately absent: backups and exports. They are named, and their owner deletes them.

use anyhow::Context;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use throughline_core::port::{Store as _, StoreError};
use throughline_core::{SessionId, Time};
use throughline_hermes::file_policy;
use throughline_home::home::{CHANNELS_FILE, private_file};
use throughline_memory::{Memory, settings::directory_of};
use throughline_store::{ForgetPlan, ForgetSubject, Forgetting, StoreReader, StoreWriter};
use throughline_tools::todo::Todo;

/// Where media lie that people sent or tools made.
const MEDIA: [&str; 10] = [
    "image_cache",
    "audio_cache",
    "video_cache",
    "document_cache",
    "browser_screenshots",
    "cache/images",
    "cache/audio",
    "cache/documents",
    "cache/videos",
    "cache/screenshots",
];
/// Shorter names are words of other lines as well: they count only as the value of a field.
const WORD_CHARS_MIN: usize = 8;
/// Where copies lie that are out of reach, right below a home.
const COPIES: [&str; 3] = ["backups", "session-exports", "state-snapshots"];

/// What is to be done, as it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileWork {
    pub sessions: BTreeSet<SessionId>,
    /// Directories of notes about one person, chat or session, below `memories/people`.
    pub notes: BTreeSet<String>,
    /// Media that were named in what goes, below the home.
    pub media: BTreeSet<String>,
    /// Lines of logs with one of these go.
    pub words: BTreeSet<String>,
}

impl FileWork {
    /// What the plan means for files. The plan itself holds no text.
    pub fn of(home: &Path, plan: &ForgetPlan, store: &StoreReader) -> anyhow::Result<Self> {
        let mut work = Self::default();
        for found in &plan.sessions {
            work.sessions.insert(found.session.clone());
            work.words.insert(found.session.to_string());
            work.notes.insert(directory_of(&format!("{}\nsession\n{}", found.source, found.session)));
        }
        for (platform, chat) in &plan.places {
            work.notes.insert(directory_of(&format!("{platform}\nchat\n{chat}")));
        }
        work.words.extend(plan.chats.iter().cloned());
        if let ForgetSubject::Person { platform, user } = &plan.subject {
            work.notes.insert(directory_of(&format!("{platform}\nuser\n{user}")));
            work.words.insert(user.clone());
        }
        work.notes.retain(|name| people(home).join(name).exists());
        let names: Vec<(&str, BTreeSet<String>)> =
            MEDIA.iter().map(|directory| (*directory, names_in(&home.join(directory)))).collect();
        if names.iter().any(|(_, names)| !names.is_empty()) {
            store.texts_that_go(plan, &mut |text| work.media.extend(named_in(text, &names)))?;
        }
        Ok(work)
    }

    pub fn text(&self) -> String {
        json!({
            "sessions": self.sessions.iter().map(SessionId::as_str).collect::<Vec<_>>(),
            "notes": self.notes,
            "media": self.media,
            "words": self.words,
        })
        .to_string()
    }

    fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let list = |name: &str| -> Option<BTreeSet<String>> {
            value[name].as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let sessions = list("sessions")?.iter().map(|id| id.parse()).collect::<Result<_, _>>().ok()?;
        Some(Self { sessions, notes: list("notes")?, media: list("media")?, words: list("words")? })
    }

    /// How many of what would go.
    pub fn counts(&self, home: &Path, memory: &Memory) -> anyhow::Result<BTreeMap<&'static str, u64>> {
        let written = memory.written_by(&self.sessions).map_err(|error| anyhow::anyhow!("{error}"))?;
        let files: usize = self.sessions.iter().map(|session| files_of(home, session).len()).sum();
        let mut lines = 0;
        for log in logs(home) {
            lines += without_lines(&log, &self.words, &mut io::sink())?;
        }
        Ok(BTreeMap::from([
            ("session_files", files as u64),
            ("media_files", self.media.len() as u64),
            ("memory_entries", written.entries),
            ("memory_records", written.records),
            ("memory_pending", written.pending),
            ("memory_directories", self.notes.len() as u64),
            ("log_lines", lines),
        ]))
    }

    /// Does it, again if need be.
    fn carry_out(&self, home: &Path, memory: &Memory, store: &StoreReader) -> anyhow::Result<()> {
        for session in &self.sessions {
            for file in files_of(home, session) {
                remove(&file)?;
            }
        }
        for name in &self.notes {
            remove(&people(home).join(name))?;
        }
        for name in &self.media {
            let file = Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned();
            // What another conversation shows is not this person's alone.
            if !store.is_mentioned(&file)? {
                remove(&home.join(name))?;
            }
        }
        memory.erase(&self.sessions).map_err(|error| anyhow::anyhow!("{error}"))?;
        // Made from the routes when the gateway runs next.
        remove(&home.join(CHANNELS_FILE))?;
        for log in logs(home) {
            rewrite_log(&log, &self.words).with_context(|| format!("could not rewrite {}", log.display()))?;
        }
        Ok(())
    }
}

/// Finishes what was begun. The caller owns the home. Returns how many forgettings there were.
pub fn finish(home: &Path, memory: &Memory, store: &mut StoreWriter, now: Time) -> anyhow::Result<usize> {
    let open = carry_out_all(home, memory, store)?;
    scrub(&open, store, now).context(
        "what was deleted is still in free parts of state.db or in its log. Close every program that has it open, and \
         run `throughline forget --resume`",
    )?;
    Ok(open.len())
}

/// Deletes what is still there outside of the database. What is left to do then is [`scrub`].
fn carry_out_all(home: &Path, memory: &Memory, store: &mut StoreWriter) -> anyhow::Result<Vec<Forgetting>> {
    let open = store.as_reader().unfinished_forgettings()?;
    for forgetting in &open {
        if let Some(text) = &forgetting.work {
            let work = FileWork::read(text)
                .context("the record of a forgetting cannot be read; restore a backup")?;
            work.carry_out(home, memory, store.as_reader())?;
            store.forgotten_outside(forgetting.number)?;
        }
    }
    Ok(open)
}

/// Before an agent starts in a home that this process owns: finishes a forgetting that a crash cut short.
pub fn finish_interrupted(
    home: &Path,
    memory: &Memory,
    store: &throughline_store::Home,
    now: Time,
) -> anyhow::Result<()> {
    let Ok(reader) = store.reader() else { return Ok(()) }; // what is wrong with it is told when it is opened
    if reader.unfinished_forgettings()?.is_empty() {
        return Ok(());
    }
    drop(reader);
    let mut writer = store.writer(now)?;
    let open = carry_out_all(home, memory, &mut writer)?;
    match scrub(&open, &mut writer, now) {
        Ok(()) => tracing::info!(finished = open.len(), "finished a forgetting that was interrupted"),
        // A program that only reads keeps no gateway from starting: the next start tries again.
        Err(StoreError::Busy) => tracing::warn!(
            "what was forgotten is deleted, but still in free parts of state.db: another program has it open. Close \
             it and start the gateway again, or run `throughline forget --resume` while it is stopped"
        ),
        Err(error) => return Err(error.into()),
    }
    writer.close(now)?;
    Ok(())
}

/// Takes what was deleted out of the database's free parts as well: then it is forgotten.
fn scrub(open: &[Forgetting], store: &mut StoreWriter, now: Time) -> Result<(), StoreError> {
    if !open.is_empty() {
        store.scrub(now)?;
    }
    open.iter().try_for_each(|forgetting| store.forgotten(forgetting.number, now))
}

/// What is out of reach, in sentences.
pub fn out_of_reach(home: &Path, plan: &ForgetPlan) -> Vec<String> {
    let mut told = Vec::new();
    let mut copies: Vec<String> = COPIES
        .iter()
        .filter(|name| !names_in(&home.join(name)).is_empty())
        .map(|name| format!("{name}/"))
        .collect();
    for name in names_in(home) {
        let is_database = name.contains(".db") && !name.starts_with("state.db-") && name != "state.db";
        let is_archive = name.contains(".tar.gz") || name.contains(".bak");
        let is_history = name == "throughline.history" || name == ".hermes_history";
        if is_database || is_archive || is_history {
            copies.push(name);
        }
    }
    copies.extend(
        names_in(&home.join("memories"))
            .into_iter()
            .filter(|name| name.contains(".bak."))
            .map(|name| format!("memories/{name}")),
    );
    if !copies.is_empty() {
        told.push(format!(
            "Copies in this home that are not read: {}. Delete them if they are about it.",
            copies.join(", ")
        ));
    }
    told.push("Backups, exports and copies outside of this home.".to_owned());
    told.push(
        "Quotes: what other people or the agent said about it in conversations that stay, and entries of MEMORY.md and \
         USER.md without a recorded origin."
            .to_owned(),
    );
    if plan.summaries > 0 {
        told.push(format!(
            "{} summaries in place in shared conversations that may retell it. \
             `throughline forget chat` removes such a conversation whole.",
            plan.summaries
        ));
    }
    if !plan.branches.is_empty() {
        told.push(format!(
            "Copies of the conversation that people branched off: {}. Forget each of them, too.",
            plan.branches.join(", ")
        ));
    }
    told.push(
        "The chat platform, the model's provider, what a memory provider concluded by itself, files that the agent \
         wrote for its work, and the standard error that a supervisor collects."
            .to_owned(),
    );
    if let ForgetSubject::Person { .. } = plan.subject {
        told.push(
            "Rows that Hermes wrote in shared conversations, which name no sender; and the permission to write \
             (`throughline pairing`)."
                .to_owned(),
        );
    }
    told
}

fn people(home: &Path) -> PathBuf {
    home.join("memories").join("people")
}

/// Files and directories that belong to one session, as far as they are there.
fn files_of(home: &Path, session: &SessionId) -> Vec<PathBuf> {
    let sessions = home.join("sessions");
    let dump = format!("request_dump_{session}_");
    let own = [format!("{session}.json"), format!("{session}.jsonl"), format!("session_{session}.json")];
    let mut files: Vec<PathBuf> = names_in(&sessions)
        .into_iter()
        .filter(|name| own.contains(name) || (name.starts_with(&dump) && name.ends_with(".json")))
        .map(|name| sessions.join(name))
        .collect();
    let todo = Todo::of_home(home).file_of(session);
    let results = home.join(file_policy::TOOL_RESULTS).join(file_policy::session_directory(session.as_str()));
    files.extend([todo, results].into_iter().filter(|path| path.symlink_metadata().is_ok()));
    files
}

fn names_in(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Files of these directories that a text names, as paths below the home.
fn named_in(text: &str, known: &[(&str, BTreeSet<String>)]) -> Vec<String> {
    let mut found = Vec::new();
    for (directory, names) in known.iter().filter(|(_, names)| !names.is_empty()) {
        let lengths: BTreeSet<usize> = names.iter().map(String::len).collect();
        let begin = format!("{directory}/");
        for (at, _) in text.match_indices(&begin) {
            let rest = &text[at + begin.len()..];
            let named = lengths.iter().rev().filter_map(|length| rest.get(..*length));
            found.extend(
                named.filter(|name| names.contains(*name)).take(1).map(|name| format!("{begin}{name}")),
            );
        }
    }
    found
}

fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("could not delete {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Every log, also those that were rotated away.
fn logs(home: &Path) -> Vec<PathBuf> {
    let directory = home.join("logs");
    let is_log = |name: &String| name.contains(".log") && !name.ends_with(".gz") && !name.ends_with(".tmp");
    let paths = names_in(&directory).into_iter().filter(is_log).map(|name| directory.join(name));
    paths.filter(|path| path.symlink_metadata().is_ok_and(|about| about.is_file())).collect()
}

/// Writes what stays, and returns how many lines do not.
fn without_lines(log: &Path, words: &BTreeSet<String>, out: &mut dyn Write) -> io::Result<u64> {
    let mut lines = BufReader::new(fs::File::open(log)?);
    let (mut line, mut gone) = (Vec::new(), 0);
    while lines.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        match words.iter().any(|word| has_word(&text, word)) {
            true => gone += 1,
            false => out.write_all(&line)?,
        }
        line.clear();
    }
    Ok(gone)
}

/// Not as a part of a longer word; a short one as `session=ann`.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric());
    let is_short = word.chars().count() < WORD_CHARS_MIN;
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].trim_end_matches('"').chars().next_back();
        let begins = if is_short { before == Some('=') } else { !is_part(before) };
        begins && !is_part(text[at + word.len()..].chars().next())
    })
}

fn rewrite_log(log: &Path, words: &BTreeSet<String>) -> io::Result<()> {
    if without_lines(log, words, &mut io::sink())? == 0 {
        return Ok(());
    }
    let mut name = log.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    let temporary = log.with_file_name(name);
    let mut file = private_file().create(true).write(true).truncate(true).open(&temporary)?;
    without_lines(log, words, &mut file)?;
    file.sync_all()?;
    fs::rename(temporary, log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_longest_name_and_a_word_stands_alone() {
        let names: BTreeSet<String> = ["a.png", "a.png.txt", "b c.pdf"].map(str::to_owned).into();
        let known = [("image_cache", names)];
        let found =
            named_in("see /h/image_cache/a.png.txt and image_cache/b c.pdf, image_cache/none", &known);
        assert_eq!(found, ["image_cache/a.png.txt", "image_cache/b c.pdf"]);
        assert!(has_word("user=12345 wrote", "12345") && !has_word("row 9123456", "12345"));
        assert!(has_word("session=\"test\" began", "test") && !has_word("a test began", "test"));
        assert!(has_word("of 20260101_1200_ab: gone", "20260101_1200_ab"));
    }

    #[test]
    fn work_is_read_as_it_was_recorded() {
        let work = FileWork {
            sessions: BTreeSet::from(["s".parse().unwrap()]),
            notes: BTreeSet::from(["n".to_owned()]),
            media: BTreeSet::from(["image_cache/a \"b\".png".to_owned()]),
            words: BTreeSet::from(["w".to_owned()]),
        };
        assert_eq!(FileWork::read(&work.text()), Some(work));
    }
}
