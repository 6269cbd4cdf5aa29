//! What each server offered last time, in `throughline/mcp/` of the home: a server that is slow or
//! down at the start offers the same again, so that the prompts of running sessions do not change.
//! Losing these files costs exactly that, and nothing else.

use super::offer::ServerListing;
use super::tool_names::{digest, sanitised};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use throughline_private_files as private_files;

/// As much as a server can say in one message. A larger file is none of ours.
const FILE_LENGTH_MAX: u64 = 16 * 1024 * 1024;

#[derive(Serialize, Deserialize)]
struct ListingFile {
    /// Whose it is: a file may have been copied, and another's tools must not appear.
    server: String,
    #[serde(flatten)]
    listing: ServerListing,
}

fn path(home: &Path, server: &str) -> PathBuf {
    // Two servers that are written alike have two files: they would take each other's place at every start.
    let name = match sanitised(server) {
        name if name == server => name,
        name => format!("{name}-{}", digest(&[server])),
    };
    home.join("throughline/mcp").join(format!("{name}.json"))
}

pub fn recall(home: &Path, server: &str) -> Option<ServerListing> {
    let mut text = String::new();
    let file = fs::File::open(path(home, server)).ok()?;
    file.take(FILE_LENGTH_MAX).read_to_string(&mut text).ok()?;
    let file: ListingFile = serde_json::from_str(&text).ok()?;
    (file.server == server).then_some(file.listing)
}

/// Whole or not at all: a crash in between leaves the list of before.
pub fn remember(home: &Path, server: &str, listing: &ServerListing) -> io::Result<()> {
    let path = path(home, server);
    let file = ListingFile { server: server.to_owned(), listing: listing.clone() };
    let text = serde_json::to_string_pretty(&file)?;
    if fs::read_to_string(&path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let beside = path.with_extension("json.new");
    let mut out = private_files::file_options().write(true).create(true).truncate(true).open(&beside)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    fs::rename(&beside, &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_recalled_for_the_server_that_gave_it() {
        let home = tempfile::tempdir().unwrap();
        let listing = ServerListing { resources: true, ..ServerListing::default() };
        remember(home.path(), "a-b", &listing).unwrap();
        assert_eq!(recall(home.path(), "a-b"), Some(listing));
        assert_eq!(recall(home.path(), "a.b"), None);
        remember(home.path(), "a.b", &ServerListing::default()).unwrap();
        assert_eq!(recall(home.path(), "a-b").map(|listing| listing.resources), Some(true));
        fs::write(path(home.path(), "a-b"), "{ torn").unwrap();
        assert_eq!(recall(home.path(), "a-b"), None);
    }
}
