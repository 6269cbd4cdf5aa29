//! How full the two stores are, entry by entry: what a review is told before it adds anything.

use crate::memory_text::{MemoryText, joined};
use crate::python_text::{chars, preview};
use crate::target::MemoryTarget;
use crate::tool::Memory;
use throughline_core::tool::Caller;

/// Enough of an entry to know which one is meant.
const PREVIEW_CHARS: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSize {
    /// As the tool calls it.
    pub target: &'static str,
    /// With separators, as the limit counts them.
    pub chars: usize,
    pub chars_max: usize,
    /// Each entry by its beginning, and its characters.
    pub entries: Vec<(String, usize)>,
}

impl Memory {
    /// Of the stores that are switched on. Reads the files now; one that cannot be read is left out:
    /// the tool says why when it is called.
    pub fn sizes(&self) -> Vec<StoreSize> {
        self.sizes_of(&|_| true)
    }

    /// The same, of what is this caller's to know.
    pub fn sizes_for(&self, caller: &Caller) -> Vec<StoreSize> {
        self.of(caller).sizes_of(&|target| self.is_open_to(target, caller))
    }

    fn sizes_of(&self, is_open: &dyn Fn(MemoryTarget) -> bool) -> Vec<StoreSize> {
        let settings = self.settings();
        let enabled =
            MemoryTarget::ALL.into_iter().filter(|target| target.is_enabled(settings) && is_open(*target));
        let sizes = enabled.filter_map(|target| {
            let text = target.file(settings).read().ok()?.unwrap_or_default();
            let document = MemoryText::parse(&text);
            let entries = document.entries();
            Some(StoreSize {
                target: target.name(),
                chars: chars(&joined(entries)),
                chars_max: target.limit(settings),
                entries: entries.iter().map(|entry| (preview(entry, PREVIEW_CHARS), chars(entry))).collect(),
            })
        });
        sizes.collect()
    }
}
