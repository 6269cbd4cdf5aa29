//! Where an account's stream of events was left, as it is kept between two starts.
//!
//! Discord replays what came after a sequence number for as long as it remembers the session, which is
//! minutes. After a longer stop the session is a new one, and what was written meanwhile is read from the
//! channels: a [`MissedSpan`] says since when, and in which servers that is still to be done. It is kept with
//! the rest, so that a crash in the middle of catching up forgets nothing.

use super::payload::Id;
use serde::{Deserialize, Serialize};

/// The direct chats that are looked into after a long stop: those last written in.
const DIRECT_MAX: usize = 200;
/// Ids are made by many machines: what was written within this before the newest message we saw may
/// have been written after it. What comes twice is recognised.
const OVERLAP_MS: u64 = 60_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cursor {
    /// Which session to resume. None: there is none, or it is over.
    pub session: Option<GatewaySession>,
    /// The newest message that was taken, or when the first session began.
    pub newest: Option<Id>,
    /// Direct chats, the last written in at the end.
    pub direct: Vec<Id>,
    pub gap: Option<MissedSpan>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewaySession {
    pub id: String,
    pub resume_url: String,
    /// All up to this event has been taken.
    pub sequence: u64,
}

/// A time in which the bot was not connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedSpan {
    /// What was written after this may have been missed.
    pub after: Id,
    /// The servers that have not been looked into since.
    pub guilds: Vec<Id>,
    /// And whether the direct chats have been.
    pub direct: bool,
}

impl Cursor {
    /// What cannot be read is as good as none: a new session is begun.
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers are always JSON")
    }

    /// A new session begins. What was missed between the two is owed; an older debt stands.
    /// The very first session, at `now`, owes nothing: what was written before it was not for us.
    pub fn begin(&mut self, session: GatewaySession, guilds: Vec<Id>, now: Id) {
        self.session = Some(session);
        let after = match (&self.gap, self.newest) {
            (Some(gap), _) => Some(gap.after),
            (None, newest) => newest.map(|newest| newest.before(OVERLAP_MS)),
        };
        self.gap = after.map(|after| MissedSpan { after, guilds, direct: true });
        self.newest = self.newest.or(Some(now));
    }

    /// Everything up to this event has been taken.
    pub fn advance(&mut self, sequence: Option<u64>) {
        if let (Some(session), Some(sequence)) = (&mut self.session, sequence) {
            session.sequence = session.sequence.max(sequence);
        }
    }

    pub fn saw(&mut self, message: Id) {
        self.newest = self.newest.max(Some(message));
    }

    pub fn saw_direct(&mut self, channel: Id) {
        self.direct.retain(|known| *known != channel);
        self.direct.push(channel);
        let surplus = self.direct.len().saturating_sub(DIRECT_MAX);
        self.direct.drain(..surplus);
    }

    /// This server has been looked into, or is not ours any more.
    pub fn settle(&mut self, guild: Id) {
        if let Some(gap) = &mut self.gap {
            gap.guilds.retain(|owed| *owed != guild);
        }
        self.close();
    }

    pub fn settle_direct(&mut self) {
        if let Some(gap) = &mut self.gap {
            gap.direct = false;
        }
        self.close();
    }

    fn close(&mut self) {
        self.gap = self.gap.take().filter(|gap| gap.direct || !gap.guilds.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str) -> GatewaySession {
        GatewaySession { id: id.into(), resume_url: "wss://x".into(), sequence: 1 }
    }

    #[test]
    fn the_first_start_owes_nothing() {
        let mut cursor = Cursor::default();
        cursor.begin(session("a"), vec![Id(1)], Id(9 << 40));
        assert_eq!(cursor.gap, None);
        // But the second owes what was missed since, also if no message had come by then.
        cursor.begin(session("b"), vec![Id(1)], Id(10 << 40));
        assert_eq!(cursor.gap.unwrap().after, Id(9 << 40).before(OVERLAP_MS));
    }

    #[test]
    fn a_gap_lasts_until_every_server_was_looked_into_and_an_older_one_stands() {
        let mut cursor = Cursor::default();
        cursor.begin(session("a"), vec![], Id(0));
        cursor.saw(Id(9 << 40));
        cursor.begin(session("b"), vec![Id(1), Id(2)], Id(0));
        let after = cursor.gap.clone().unwrap().after;
        assert!(after < Id(9 << 40));
        cursor.saw(Id(10 << 40)); // something new came in meanwhile
        cursor.begin(session("c"), vec![Id(1), Id(2)], Id(0));
        assert_eq!(cursor.gap.as_ref().unwrap().after, after);
        cursor.settle_direct();
        cursor.settle(Id(1));
        assert_eq!(Cursor::parse(&cursor.text()), cursor);
        cursor.settle(Id(2));
        assert_eq!(cursor.gap, None);
    }

    #[test]
    fn what_cannot_be_read_begins_anew() {
        for text in ["", "{", "[]", "{\"session\": 7}", "null"] {
            assert_eq!(Cursor::parse(text), Cursor::default(), "{text:?}");
        }
    }

    #[test]
    fn events_out_of_order_never_turn_it_back() {
        let mut cursor = Cursor { session: Some(session("a")), ..Cursor::default() };
        for sequence in [5, 3, 5, 4] {
            cursor.advance(Some(sequence));
        }
        cursor.advance(None);
        assert_eq!(cursor.session.unwrap().sequence, 5);
        let mut cursor = Cursor::default();
        for message in [7, 3, 7] {
            cursor.saw(Id(message));
        }
        assert_eq!(cursor.newest, Some(Id(7)));
    }

    #[test]
    fn the_direct_chats_it_remembers_are_bounded() {
        let mut cursor = Cursor::default();
        for channel in 0..500 {
            cursor.saw_direct(Id(channel));
        }
        cursor.saw_direct(Id(400));
        assert_eq!(cursor.direct.len(), DIRECT_MAX);
        assert_eq!(cursor.direct.last(), Some(&Id(400)));
    }
}
