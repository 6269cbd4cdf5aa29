//! The parts of a session's state that are mostly as at first. The others are columns.

use super::destination::StoredDestination;
use super::{
    Readable, StoredText, UnreadableColumn, borrowed, is_empty, is_false, is_zero, owned, parsed, written,
};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::collections::VecDeque;
use throughline_core::chain::Foreign;
use throughline_core::guard::Repeated;
use throughline_core::prompt::Digest;
use throughline_core::session::review::Reviews;
use throughline_core::session::{Personality, Phase, Preferences, SessionState, ToolProgress};
use throughline_core::time::Time;
use throughline_core::turn::Turn;

#[derive(Default, PartialEq, Serialize, Deserialize)]
struct StoredRest<'a> {
    #[serde(default, skip_serializing_if = "is_empty")]
    allowed: Cow<'a, [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<StoredDestination<'a>>,
    #[serde(default, skip_serializing_if = "is_false")]
    finalised: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    stateless: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign: Option<StoredForeign<'a>>,
    #[serde(default, skip_serializing_if = "is_empty")]
    untold: Cow<'a, [String]>,
    #[serde(default, skip_serializing_if = "is_zero")]
    announced: Cow<'a, VecDeque<String>>,
    #[serde(default, skip_serializing_if = "is_zero")]
    failed_step: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    reviews: StoredReviews,
    #[serde(default, skip_serializing_if = "is_zero")]
    preferences: StoredPreferences<'a>,
    #[serde(flatten)]
    turn: StoredTurn<'a>,
}

/// Of the turn that runs.
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct StoredTurn<'a> {
    #[serde(default, skip_serializing_if = "is_zero")]
    first_step: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    spent: u64,
    #[serde(default, skip_serializing_if = "is_false")]
    exhausted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeated: Option<StoredRepeated<'a>>,
    #[serde(default, skip_serializing_if = "is_zero")]
    said: StoredText<'a>,
    #[serde(default, skip_serializing_if = "is_false")]
    held: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    refused: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    promotions: u32,
}

/// `[heard, period, turns, last]`
#[derive(PartialEq, Serialize, Deserialize)]
struct StoredForeign<'a>(StoredText<'a>, u32, u32, i64);

/// `[calls, results, times]`
#[derive(PartialEq, Serialize, Deserialize)]
struct StoredRepeated<'a>(StoredText<'a>, StoredText<'a>, u32);

/// `[turns, steps, count]`
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct StoredReviews(#[serde(default)] u32, #[serde(default)] u32, #[serde(default)] u64);

/// What is not understood is not preferred: a later program may know more.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct StoredPreferences<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "understood")]
    model: Option<StoredText<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "understood")]
    reasoning: Option<StoredText<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "understood")]
    personality: Option<StoredPersonality<'a>>,
    #[serde(default, skip_serializing_if = "is_false", deserialize_with = "understood")]
    yolo: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "understood")]
    tools: Option<StoredText<'a>>,
}

/// `[name, prompt]`
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct StoredPersonality<'a>(StoredText<'a>, StoredText<'a>);

/// What most sessions never have, or have only while tools run. None if there is none of it.
pub(crate) fn rest_text(state: &SessionState) -> Option<String> {
    let stored = StoredRest::from(state);
    (stored != StoredRest::default()).then(|| written(&stored))
}

/// Puts it back where it was.
pub(crate) fn restore_rest(state: &mut SessionState, text: &str) -> Readable<()> {
    let stored = parsed::<StoredRest<'_>>(text)?;
    state.allowed = stored.allowed.into_owned();
    state.finalised = stored.finalised;
    state.stateless = stored.stateless;
    state.place = stored.place.map(Into::into);
    state.foreign = stored.foreign.map(Foreign::from).unwrap_or_default();
    state.untold = stored.untold.into_owned();
    state.announced = stored.announced.into_owned();
    state.failed_step = stored.failed_step;
    let StoredReviews(turns, steps, count) = stored.reviews;
    (state.reviews.turns, state.reviews.steps, state.reviews.count) = (turns, steps, count);
    state.preferences = stored.preferences.into();
    if let Phase::Turn(turn) = &mut state.phase {
        stored.turn.restore(turn)?;
    }
    Ok(())
}

impl<'a> From<&'a SessionState> for StoredRest<'a> {
    fn from(state: &'a SessionState) -> Self {
        let Reviews { turns, steps, count, .. } = &state.reviews;
        let foreign = Some(&state.foreign).filter(|foreign| **foreign != Foreign::default());
        Self {
            allowed: state.allowed.as_slice().into(),
            place: state.place.as_ref().map(StoredDestination::from),
            finalised: state.finalised,
            stateless: state.stateless,
            foreign: foreign.map(StoredForeign::from),
            untold: state.untold.as_slice().into(),
            announced: Cow::Borrowed(&state.announced),
            failed_step: state.failed_step,
            reviews: StoredReviews(*turns, *steps, *count),
            preferences: (&state.preferences).into(),
            turn: match &state.phase {
                Phase::Turn(turn) => turn.into(),
                Phase::Idle | Phase::Closed(_) => StoredTurn::default(),
            },
        }
    }
}

impl<'a> From<&'a Turn> for StoredTurn<'a> {
    fn from(turn: &'a Turn) -> Self {
        let repeated =
            |it: Repeated| StoredRepeated(it.calls.to_hex().into(), it.results.to_hex().into(), it.times);
        Self {
            first_step: turn.first_step,
            spent: turn.spent,
            exhausted: turn.exhausted,
            repeated: turn.repeated.map(repeated),
            said: turn.said.as_str().into(),
            held: turn.held,
            refused: turn.refused,
            promotions: turn.promotions,
        }
    }
}

impl StoredTurn<'_> {
    fn restore(self, turn: &mut Turn) -> Readable<()> {
        turn.first_step = self.first_step;
        turn.spent = self.spent;
        turn.exhausted = self.exhausted;
        turn.repeated = self.repeated.map(Repeated::try_from).transpose()?;
        turn.said = self.said.into_owned();
        turn.held = self.held;
        turn.refused = self.refused;
        turn.promotions = self.promotions;
        Ok(())
    }
}

impl<'a> From<&'a Foreign> for StoredForeign<'a> {
    fn from(foreign: &'a Foreign) -> Self {
        let Foreign { heard, period, turns, last } = foreign;
        Self(Cow::Borrowed(heard), *period, *turns, last.0)
    }
}

impl From<StoredForeign<'_>> for Foreign {
    fn from(StoredForeign(heard, period, turns, last): StoredForeign<'_>) -> Self {
        Self { heard: heard.into(), period, turns, last: Time(last) }
    }
}

impl TryFrom<StoredRepeated<'_>> for Repeated {
    type Error = UnreadableColumn;

    fn try_from(StoredRepeated(calls, results, times): StoredRepeated<'_>) -> Readable<Self> {
        match (Digest::from_hex(&calls), Digest::from_hex(&results)) {
            (Some(calls), Some(results)) => Ok(Self { calls, results, times }),
            _ => Err(UnreadableColumn::Field("repeated".into())),
        }
    }
}

impl<'a> From<&'a Preferences> for StoredPreferences<'a> {
    fn from(preferences: &'a Preferences) -> Self {
        let Preferences { model, reasoning, personality, yolo, tools } = preferences;
        let personality = personality.as_ref();
        Self {
            model: borrowed(model),
            reasoning: borrowed(reasoning),
            personality: personality.map(|it| StoredPersonality((&it.name).into(), (&it.prompt).into())),
            yolo: *yolo,
            tools: tools.map(|level| level.as_str().into()),
        }
    }
}

impl From<StoredPreferences<'_>> for Preferences {
    fn from(stored: StoredPreferences<'_>) -> Self {
        let personality = |StoredPersonality(name, prompt): StoredPersonality<'_>| Personality {
            name: name.into_owned(),
            prompt: prompt.into_owned(),
        };
        Self {
            model: owned(stored.model),
            reasoning: owned(stored.reasoning),
            personality: stored.personality.map(personality),
            yolo: stored.yolo,
            tools: stored.tools.and_then(|name| ToolProgress::named(&name)),
        }
    }
}

fn understood<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + serde::de::DeserializeOwned,
{
    let value = serde_json::Value::deserialize(from)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}
