//! What a plugin may touch, kept by the kernel where there is one that can.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod unsupported;

#[cfg(target_os = "linux")]
pub use linux::{is_available, spawn};
use std::path::{Path, PathBuf};
#[cfg(not(target_os = "linux"))]
pub use unsupported::{is_available, spawn};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Where it may write. None: wherever the user may.
    pub writable: Option<Vec<PathBuf>>,
    /// No file in these can be opened …
    pub closed: Vec<PathBuf>,
    /// … but for what lies in these.
    pub kept: Vec<PathBuf>,
}

impl Bounds {
    pub fn are_any(&self) -> bool {
        self.writable.is_some() || !self.closed.is_empty()
    }
}

/// Of other homes those that can be closed to a process that has one of its own, and those that cannot: a grant for
/// a directory holds for all that lies in it.
pub fn closable(own: &Path, others: &[PathBuf]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let own = own.canonicalize().unwrap_or_else(|_| own.to_owned());
    let mut others: Vec<PathBuf> = others.iter().filter_map(|other| other.canonicalize().ok()).collect();
    others.retain(|other| *other != own);
    others.sort();
    others.dedup();
    others.into_iter().partition(|other| !other.starts_with(&own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p31_a_home_inside_ones_own_is_named_as_one_that_stays_open() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let [root, a, b, other] = ["root", "root/profiles/a", "root/profiles/b", "other"].map(|name| {
            std::fs::create_dir_all(place.join(name)).unwrap();
            place.join(name)
        });
        let all = [root.clone(), a.clone(), b.clone(), other.clone(), b.clone(), place.join("gone")];
        assert_eq!(closable(&root, &all), (vec![other.clone()], vec![a.clone(), b.clone()]));
        assert_eq!(closable(&a, &all), (vec![other, root, b], vec![]));
    }
}
