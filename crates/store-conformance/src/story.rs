//! What can happen in a story.

/// One thing that may happen. Numbers are taken modulo what there is, so that any list is a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoryMove {
    /// A message in one of the chats, or a request to one of the API sessions.
    Says {
        place: u8,
        text: String,
    },
    /// The same message once more.
    SaysAgain {
        place: u8,
    },
    Orders {
        place: u8,
        what: u8,
    },
    Answers {
        place: u8,
        text: String,
        tokens: u16,
    },
    CallsTools {
        place: u8,
        calls: u8,
    },
    Returns {
        place: u8,
        index: u8,
    },
    /// A result that wants this many letters sent.
    Sends {
        place: u8,
        index: u8,
        letters: u8,
    },
    /// A call asks a person.
    Asks {
        place: u8,
        index: u8,
        kind: u8,
    },
    /// A person, or time, answers what a call asked.
    Decides {
        place: u8,
        index: u8,
        verdict: u8,
    },
    /// A message that another agent wrote because of a human's.
    Hears {
        place: u8,
        origin: u8,
        hops: u8,
    },
    Halts {
        place: u8,
    },
    Releases {
        place: u8,
    },
    /// An answer to a step that is over.
    Echoes {
        place: u8,
    },
    Fails {
        place: u8,
        kind: u8,
    },
    Retries {
        place: u8,
    },
    /// The owner of the session is loaded again.
    Reloads {
        place: u8,
    },
    /// Of reviews that are due, one: done, or failed.
    Reviews {
        place: u8,
        how: u8,
    },
    /// And calls whose bit is set may simply be run again.
    Resumes {
        place: u8,
        repeatable: u8,
    },
    /// An earlier owner commits with its old generation.
    Trespasses {
        place: u8,
    },
    /// The gateway surveys what there is to compress.
    Surveys {
        place: u8,
        how: u8,
    },
    /// An engine is done with what was asked of it.
    Summarises {
        place: u8,
        how: u8,
    },
    /// Those who ordered a compression hear what it did.
    Reports {
        place: u8,
    },
    /// One of the snapshots becomes the view again.
    Restores {
        place: u8,
        which: u8,
    },
    /// A person orders what has to be looked up first.
    DeferredCommands {
        place: u8,
        what: u8,
    },
    /// And the look-up has a result.
    Finds {
        place: u8,
        how: u8,
    },
    Finalises {
        place: u8,
    },
    /// Something becomes of the hooks of a hand-over.
    HandsOver {
        place: u8,
        how: u8,
    },
    /// The time of a conversation has come, or so the gateway thinks.
    Expires {
        place: u8,
        how: u8,
    },
    /// A person takes up again what had ended.
    Revives {
        place: u8,
    },
    Delivers {
        reply: u8,
        change: u8,
    },
    Written {
        place: u8,
    },
    Tends,
    Reopens,
    /// From here on this many commits share a batch.
    Batches {
        size: u8,
    },
}
