//! `kill -9` at every moment that counts, not at moments that a clock picks.
//!
//! What a killed process leaves behind is decided by the last thing it did to a file, and by the last program it
//! started. So a first run tells how often each of those calls is made, and each further run is killed right before
//! one of them, by `strace`: between two of them nothing changes that a test could find.

use crate::gateway::{Launch, Place};
use crate::peers;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

/// What makes a commit last, gives a file its name, or starts another program. `write` is how files that are no
/// databases come about.
const EACH: &str =
    "fsync,fdatasync,ftruncate,rename,renameat,renameat2,unlink,unlinkat,mkdir,write,clone,clone3,vfork";
/// The pages of a database. There are hundreds of these, and what SQLite has not yet closed with a commit it leaves
/// out: every so manyth is enough, `THROUGHLINE_KILLS=all` takes each.
const PAGES: &str = "pwrite64";
const STRIDE: usize = 23;

/// Right before the nth call of this name.
#[derive(Clone, Debug)]
pub struct Moment {
    call: String,
    nth: usize,
}

/// Every moment at which this command changes something, in the order of their calls' names; it is run once for it.
/// None if programs of others are to be left out.
pub fn moments(launch: &Launch, place: &Place) -> Option<Vec<Moment>> {
    let strace = strace()?;
    let trace = place.file("trace");
    let words = [&strace, "-qq", "-o", trace.to_str().unwrap(), "-e", &format!("trace={EACH},{PAGES}")];
    let ended = launch.clone().through(&words).run();
    assert!(ended.status.code().is_some(), "{}{}", ended.stdout, ended.stderr);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in fs::read_to_string(trace).unwrap().lines() {
        let Some((call, _)) = line.split_once('(') else { continue };
        if call.chars().all(|letter| letter.is_ascii_alphanumeric()) {
            *counts.entry(call.to_owned()).or_default() += 1;
        }
    }
    let each = std::env::var("THROUGHLINE_KILLS").is_ok_and(|value| value == "all");
    let stride = |call: &str| if call == PAGES && !each { STRIDE } else { 1 };
    let moments: Vec<Moment> = counts
        .iter()
        .flat_map(|(call, count)| {
            (1..=*count).step_by(stride(call)).map(|nth| Moment { call: call.clone(), nth })
        })
        .collect();
    assert!(moments.iter().any(|moment| moment.call == "write"), "{counts:?}");
    Some(moments)
}

/// The moment of one call that everybody knows to be made often enough. None if programs of others are to be left out.
pub fn before(call: &str, nth: usize) -> Option<Moment> {
    strace().map(|_| Moment { call: call.to_owned(), nth })
}

impl Moment {
    /// Runs the command until then. A command that waits for others may get there on another way, or be through before.
    pub fn kills(&self, launch: &Launch) -> bool {
        let strace = strace().expect("it counted the moments");
        let inject = format!("inject={}:signal=KILL:when={}", self.call, self.nth);
        let trace = format!("trace={}", self.call);
        let ended =
            launch.clone().through(&[&strace, "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject]).run();
        ended.status.signal() == Some(9)
    }
}

fn strace() -> Option<String> {
    if peers::skips("strace") {
        return None;
    }
    let found = ["/usr/bin/strace", "/bin/strace", "/usr/local/bin/strace"].into_iter().map(PathBuf::from);
    let found = found.into_iter().find(|path| path.is_file());
    let found = found
        .expect("strace kills where it counts: install it (THROUGHLINE_PEERS=skip leaves these tests out)");
    Some(found.display().to_string())
}
