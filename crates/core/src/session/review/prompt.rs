//! What the model is asked at the end of a conversation that it looks back at.

use super::Subject;

/// A store from which something has to go before much can be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// As the tool calls it.
    pub target: String,
    pub chars: usize,
    pub chars_max: usize,
    /// Each entry by its beginning, and how many characters it has.
    pub entries: Vec<(String, usize)>,
}

impl Fill {
    /// Above nine tenths, the review is asked to make room.
    pub fn is_nearly_full(&self) -> bool {
        self.chars * 10 > self.chars_max * 9
    }
}

/// Entries that are listed. A store of a few thousand characters rarely has more.
const ENTRIES_MAX: usize = 64;

const OPENING: &str = "[Review] Nobody is talking to you now: your reply was delivered, and the conversation \
above goes on without this message. Look back at it and keep what later conversations will need.";

const MEMORY: &str = "With the memory tool, save what will still be true in a month: who the user is, how they \
want to be answered, what they corrected, their conventions, tools and surroundings. Prefer their own words. \
One call with 'operations' is best. Do not save the progress of tasks, results that can be found again, or \
what is in memory already.";

const SKILLS: &str = "With the skill tools, keep a way of working that took trial and error here and will be \
needed again: look at the skills there are, improve the one that fits, and begin a new one only for a whole \
class of tasks. Put the user's corrections of how a task is done where that task is described. Do not record \
that something failed or was not installed; record what made it work.";

const LIMITS: &str = "Never record claims about missing messages, lost or truncated context, gaps in your own \
memory, or other instances of yourself: what you cannot see here is no fact about the user. Only memory and \
skill tools run now; anything else is refused. If nothing is worth keeping, say so in one word and stop: that \
is a good outcome.";

/// The one message that a review adds to the conversation it is about.
pub fn prompt(subject: Subject, fills: &[Fill]) -> String {
    let mut parts = vec![OPENING.to_owned()];
    if subject.includes_memory() {
        parts.push(MEMORY.to_owned());
        parts.extend(fills.iter().filter(|fill| fill.is_nearly_full()).map(consolidate));
    }
    if subject.includes_skills() {
        parts.push(SKILLS.to_owned());
    }
    parts.push(LIMITS.to_owned());
    parts.join("\n\n")
}

fn consolidate(fill: &Fill) -> String {
    let Fill { target, chars, chars_max, entries } = fill;
    let percent = chars * 100 / (*chars_max).max(1);
    let mut text = format!(
        "The store '{target}' is nearly full: {chars} of {chars_max} characters ({percent} %). Consolidate it \
         first: in one call, merge entries that say the same, shorten long ones and remove what no longer \
         holds, and add what is new. Its entries and their sizes:"
    );
    for (beginning, chars) in entries.iter().take(ENTRIES_MAX) {
        text.push_str(&format!("\n- {chars} characters: {beginning}"));
    }
    match entries.len().checked_sub(ENTRIES_MAX) {
        None | Some(0) => {}
        Some(more) => text.push_str(&format!("\n- and {more} more")),
    }
    text
}
