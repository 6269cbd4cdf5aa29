//! `command_allowlist` in `config.yaml`: what was allowed for good.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use throughline_hermes::config::edit;
use throughline_tools::approval::CommandAllowlist;

pub struct Allowed {
    file: PathBuf,
    entries: Mutex<Vec<String>>,
}

impl Allowed {
    pub fn of(home: &Path, entries: Vec<String>) -> Self {
        Self { file: home.join("config.yaml"), entries: Mutex::new(entries) }
    }

    /// The file as it is now, with more in it; everything else stays to the letter.
    fn write(&self, patterns: &[String]) -> Result<(), String> {
        let shown = self.file.display();
        let text = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("could not read {shown}: {error}")),
        };
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let text = edit::append(&text, "command_allowlist", &patterns).map_err(|error| error.to_string())?;
        let directory = self.file.parent().unwrap_or(Path::new("."));
        let written = tempfile::NamedTempFile::new_in(directory).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            if let Ok(before) = fs::metadata(&self.file) {
                file.as_file().set_permissions(before.permissions())?;
            }
            file.as_file().sync_all()?;
            file.persist(&self.file).map_err(|error| error.error)?;
            throughline_home::home::sync_directory(directory)
        });
        written.map_err(|error| format!("could not write {shown}: {error}"))
    }
}

impl CommandAllowlist for Allowed {
    fn allows(&self) -> Vec<String> {
        self.entries.lock().expect("nothing panics while it holds the list").clone()
    }

    fn add(&self, patterns: &[String]) -> Result<(), String> {
        let mut entries = self.entries.lock().expect("nothing panics while it holds the list");
        let new: Vec<String> =
            patterns.iter().filter(|pattern| !entries.contains(pattern)).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        self.write(&new)?;
        entries.extend(new);
        Ok(())
    }
}
