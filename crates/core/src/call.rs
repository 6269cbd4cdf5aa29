//! The name of one call of a turn, and of a question that it asks.

use crate::id::{Seq, SessionId, TurnId};
use std::fmt;
use std::str::FromStr;

/// One call: `session/turn/step/position`; or one of the questions that it asks while it runs: `session/turn/step/position~number`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    pub session: SessionId,
    pub turn: TurnId,
    pub step: u32,
    pub index: usize,
    /// Zero: the call itself, and the one question that it may ask before it runs.
    pub question: u32,
}

impl CallId {
    /// A short name for people to type. It tells apart the few questions that wait at one time; who may answer is
    /// decided elsewhere.
    pub fn code(&self) -> String {
        let hashed = self
            .to_string()
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        format!("{hashed:08x}")
    }

    /// Whether a word that a person typed has the form of a code.
    pub fn is_code(word: &str) -> bool {
        word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}/{}/{}", self.session, self.turn, self.step, self.index)?;
        match self.question {
            0 => Ok(()),
            number => write!(formatter, "~{number}"),
        }
    }
}

impl FromStr for CallId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let not_one = || format!("{text:?} names no call; a call is named session/turn/step/position");
        let mut fields = text.rsplitn(4, '/');
        let (Some(index), Some(step), Some(turn), Some(session)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(not_one());
        };
        let (index, question) = index.split_once('~').unwrap_or((index, "0"));
        Ok(Self {
            session: session.parse().map_err(|_| not_one())?,
            turn: TurnId(Seq(turn.parse().map_err(|_| not_one())?)),
            step: step.parse().map_err(|_| not_one())?,
            index: index.parse().map_err(|_| not_one())?,
            question: question.parse().map_err(|_| not_one())?,
        })
    }
}
