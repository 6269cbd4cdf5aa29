//! Orders that the shell has to look something up for, or do something outside of the conversation.
//!
//! Such an order waits in the inbox like everything else. While it is due the state implies a job, the shell
//! does what is needed, and what it found comes back as [`Found`]. Then the machine decides, and the
//! sender is told, once. A job that a crash cut short is begun again: all that it does outside happens
//! under the order's own key.

use crate::compression::estimate;
use crate::compression::summary::is_summary;
use crate::id::{RowId, Seq, SessionId, TurnId};
use crate::message::{Body, Message};
use crate::port::Spoken;
use crate::session::Preferences;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeferredCommand {
    /// End this conversation, and begin another under a title.
    New { successor: SessionId, title: String },
    /// Take back so many exchanges.
    Undo { turns: u32 },
    /// Ask the last message again.
    Retry,
    /// Go on in a copy.
    Branch { successor: SessionId, name: Option<String> },
    /// Go on with an earlier conversation. None: list them.
    Resume { wanted: Option<String>, everywhere: bool },
    /// None: show it.
    Title { wanted: Option<String> },
    /// A conversation of its own, whose answer is read here. Its id is fixed when the order comes in.
    Background { session: SessionId, text: String },
    /// Looked up, set or done by the host commands, by its name in [`super::ALL`] or by one that the user made.
    Other { name: String, argument: String },
}

/// Those of [`DeferredCommand::Other`] that change what the next turn is begun with: they wait for their turn.
const IN_TURN: [&str; 5] = ["model", "reasoning", "personality", "reload-mcp", "reload-skills"];

impl DeferredCommand {
    pub fn name(&self) -> &str {
        match self {
            DeferredCommand::New { .. } => "new",
            DeferredCommand::Undo { .. } => "undo",
            DeferredCommand::Retry => "retry",
            DeferredCommand::Branch { .. } => "branch",
            DeferredCommand::Resume { .. } => "resume",
            DeferredCommand::Title { .. } => "title",
            DeferredCommand::Background { .. } => "background",
            DeferredCommand::Other { name, .. } => name,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            DeferredCommand::New { title: text, .. } | DeferredCommand::Background { text, .. } => text.len(),
            DeferredCommand::Branch { name: text, .. }
            | DeferredCommand::Resume { wanted: text, .. }
            | DeferredCommand::Title { wanted: text } => text.as_ref().map_or(0, String::len),
            DeferredCommand::Other { argument, .. } => argument.len(),
            DeferredCommand::Undo { .. } | DeferredCommand::Retry => 0,
        }
    }

    pub(super) fn texts(&mut self) -> Vec<&mut String> {
        match self {
            DeferredCommand::New { title: text, .. } | DeferredCommand::Background { text, .. } => vec![text],
            DeferredCommand::Branch { name: text, .. }
            | DeferredCommand::Resume { wanted: text, .. }
            | DeferredCommand::Title { wanted: text } => text.iter_mut().collect(),
            // Its name is one of ours, or of the user's own: what is behind it can be long.
            DeferredCommand::Other { argument, .. } => vec![argument],
            DeferredCommand::Undo { .. } | DeferredCommand::Retry => Vec::new(),
        }
    }

    /// Harmless beside a turn: it passes what waits, but for the end of the conversation.
    pub fn is_beside(&self) -> bool {
        match self {
            DeferredCommand::New { .. }
            | DeferredCommand::Undo { .. }
            | DeferredCommand::Retry
            | DeferredCommand::Branch { .. } => false,
            DeferredCommand::Resume { wanted, .. } => wanted.is_none(),
            DeferredCommand::Title { .. } | DeferredCommand::Background { .. } => true,
            DeferredCommand::Other { name, argument } => {
                argument.is_empty() || !IN_TURN.contains(&name.as_str())
            }
        }
    }

    /// The chat leads elsewhere afterwards: what comes behind it goes along.
    pub fn ends(&self) -> bool {
        match self {
            DeferredCommand::New { .. } | DeferredCommand::Branch { .. } => true,
            DeferredCommand::Resume { wanted, .. } => wanted.is_some(),
            _ => false,
        }
    }
}

/// What came of a deferred command.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Nothing changes here.
    Said(String),
    /// The same, and the process is to start again once this is on disk.
    Restart(String),
    Preferred {
        preferences: Preferences,
        said: String,
    },
    /// A title as it can be stored, which no other session has. For `/new`: why there is none.
    Titled(Result<String, String>),
    /// The same, where the memory outside goes on under the name it has.
    TitledHere {
        title: String,
        elsewhere: String,
    },
    /// Exchanges that can be taken back.
    Past(Past),
    /// What a copy of this conversation is called, and how many rows it has.
    Copy {
        title: String,
        rows: usize,
        messages: usize,
    },
    /// An earlier conversation that the caller may go on with.
    Earlier {
        session: SessionId,
        title: Option<String>,
        messages: u64,
        /// What it had received when it was looked at.
        received: Seq,
    },
}

/// The end of a conversation that can be taken back.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// From this row on, so many rows.
    pub from: RowId,
    pub rows: usize,
    pub exchanges: u32,
    /// What people said in the first of these exchanges.
    pub said: Vec<Message>,
    /// Rows that stay.
    pub remaining: usize,
    /// What those weigh.
    pub context: u64,
    /// Fewer exchanges than were asked for, because a summary stands for those before.
    pub summarised: bool,
}

impl Past {
    /// The last exchanges of what is live, up to so many. An exchange begins with what people said in one turn
    /// (where that is known), and ends before the next. None: there is nothing that can be taken back; what a
    /// summary stands for cannot.
    pub fn of(live: &[(RowId, Message)], spoken: &Spoken, exchanges: u32, context: u64) -> Option<Self> {
        let stands_for_more =
            |row: &RowId, said: &Message| spoken.summaries.contains(row) || is_summary(said);
        let summary = live.iter().rposition(|(row, message)| stands_for_more(row, message));
        let begin = summary.map_or(0, |place| place + 1);
        let turn_of = |row: RowId| -> Option<TurnId> {
            spoken.turns.iter().find(|(known, _)| *known == row).map(|(_, turn)| *turn)
        };
        let mut firsts: Vec<usize> = Vec::new();
        let mut turn = None;
        for (place, (row, message)) in live.iter().enumerate().skip(begin) {
            if !matches!(message.body, Body::User(_)) {
                continue;
            }
            let own = turn_of(*row);
            let follows = place > begin && matches!(live[place - 1].1.body, Body::User(_));
            // Of what was said in one breath, only the first is known to be of its turn.
            let same = match own {
                Some(_) => own == turn,
                None => follows,
            };
            if !same {
                firsts.push(place);
            }
            turn = own.or(turn.filter(|_| same));
        }
        let wanted = exchanges.max(1) as usize;
        let nth = firsts.len().checked_sub(wanted.min(firsts.len())).filter(|_| !firsts.is_empty())?;
        let first = firsts[nth];
        let end = firsts.get(nth + 1).copied().unwrap_or(live.len());
        let said = live[first..end].iter().map(|(_, message)| message);
        let said = said.filter(|message| matches!(message.body, Body::User(_))).cloned().collect();
        let taken: u64 = live[first..].iter().map(|(_, message)| estimate(message)).sum();
        Some(Self {
            from: live[first].0,
            rows: live.len() - first,
            exchanges: (firsts.len() - nth) as u32,
            said,
            remaining: first,
            context: context.saturating_sub(taken),
            summarised: summary.is_some() && firsts.len() < wanted,
        })
    }
}
