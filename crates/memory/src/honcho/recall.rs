//! What is shown of Honcho before a turn.
//!
//! Two layers. The first is read now: the session's summary, and what is known of the person. The
//! second is Honcho's reasoning, which takes seconds: it is asked beside this turn and shown in the
//! next one, to the conversation, the generation and the person that it was asked for and no other.
//!
//! Which turn it is (`injectionFrequency`, `contextCadence`, `dialecticCadence`) is counted here, per
//! conversation, generation and person: a restart counts from the beginning and so shows the first layer
//! once more. What could not be read in one turn is read in the next; between two readings the first
//! layer is shown as it was read.
//!
//! Deliberately absent: waiting for the second layer (`firstTurnDialecticWait`), and a deadline of its
//! own for the first (`firstTurnBaseWait`): the caller knows how long a turn may wait.

use super::api::HonchoFailure;
use super::dialectic::{ReasoningStart, shortened};
use super::provider::{HonchoShared, ScopePlace, locked};
use super::scrub::scrubbed;
use super::settings::{Injection, RecallMode};
use crate::python_text::head;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use throughline_core::id::{Generation, SessionId};
use throughline_core::memory::{MemoryError, Scope};
use tokio::task::JoinHandle;

/// Conversations whose turns are counted: more than talk at one time.
const TALKS_MAX: usize = 256;
/// Reasonings that run at one time. Each is a model's work at the server's side.
const REFLECTIONS_MAX: usize = 4;
/// Where the user sets no budget: what a long conversation's summary and profile come to.
const CHARS_MAX: usize = 24_000;
const CHARS_PER_TOKEN: usize = 4;
/// A question is searched by its beginning; addresses have an end.
const SEARCH_CHARS_MAX: usize = 1000;
const CONTEXT_TOKENS_MAX: usize = 100_000;
/// A reasoning is shown for so many cadences, then it is about something else.
const STALE_AFTER: u64 = 2;
/// A server that has nothing to say is asked less and less often, down to this share.
const RARER_MAX: u64 = 8;
/// Said often, and about nothing.
const TRIVIAL: [&str; 26] = [
    "yes",
    "no",
    "ok",
    "okay",
    "sure",
    "thanks",
    "thank you",
    "y",
    "n",
    "yep",
    "nope",
    "yeah",
    "nah",
    "continue",
    "go ahead",
    "do it",
    "proceed",
    "got it",
    "cool",
    "nice",
    "great",
    "done",
    "next",
    "lgtm",
    "k",
    "",
];

/// Whose reasoning it is. It is shown in no other scope.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReasoningScope {
    session: SessionId,
    generation: Generation,
    place: String,
    person: String,
}

#[derive(Default)]
struct ConversationReasoning {
    turn: u64,
    base: Option<(u64, String)>,
    reflected: Option<u64>,
    empty: u64,
    reflection: Option<Reflection>,
}

/// A question that runs beside a turn, or its answer. It ends with the conversation that would have shown it.
struct Reflection {
    turn: u64,
    answer: Arc<Mutex<Option<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Reflection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Default)]
pub struct ConversationReasonings(Mutex<VecDeque<(ReasoningScope, ConversationReasoning)>>);

impl ConversationReasonings {
    fn with<T>(&self, whose: &ReasoningScope, act: impl FnOnce(&mut ConversationReasoning) -> T) -> T {
        let mut talks = locked(&self.0);
        let known = talks.iter().position(|(other, _)| other == whose);
        let mut talk = known
            .and_then(|at| talks.remove(at))
            .map_or_else(ConversationReasoning::default, |(_, talk)| talk);
        let result = act(&mut talk);
        // An earlier generation of the same conversation is over.
        talks.retain(|(other, _)| other.session != whose.session || other.generation == whose.generation);
        talks.push_back((whose.clone(), talk));
        if talks.len() > TALKS_MAX {
            talks.pop_front();
        }
        result
    }

    fn running(&self) -> usize {
        let talks = locked(&self.0);
        talks
            .iter()
            .filter(|(_, talk)| talk.reflection.as_ref().is_some_and(|one| !one.task.is_finished()))
            .count()
    }
}

impl ConversationReasoning {
    fn base_due(&self, injection: Injection, cadence: u64) -> bool {
        match (&self.base, injection) {
            (None, _) => true,
            (Some(_), Injection::FirstTurn) => false,
            (Some((at, _)), Injection::EveryTurn) => self.turn - at >= cadence,
        }
    }

    fn reflection_due(&self, cadence: u64) -> bool {
        let spaced = (cadence + self.empty).min(cadence * RARER_MAX);
        let is_time = self.reflected.is_none_or(|at| self.turn.saturating_sub(at) >= spaced);
        is_time && self.reflection.is_none()
    }

    /// The answer, once, if it is there and still about this.
    fn take_reflection(&mut self, cadence: u64) -> Option<String> {
        let reflection = self.reflection.take_if(|one| one.task.is_finished())?;
        let answer = locked(&reflection.answer).take().unwrap_or_default();
        self.reflected = Some(reflection.turn);
        self.empty = if answer.trim().is_empty() { self.empty + 1 } else { 0 };
        let is_stale = self.turn - reflection.turn > cadence * STALE_AFTER;
        (!answer.trim().is_empty() && !is_stale).then_some(answer)
    }
}

pub async fn recall(shared: &Arc<HonchoShared>, scope: &Scope, query: &str) -> Result<String, MemoryError> {
    let settings = &shared.settings;
    if settings.recall_mode == RecallMode::Tools {
        return Ok(String::new());
    }
    let seat = shared.seat(scope);
    let whose = ReasoningScope {
        session: scope.session.clone(),
        generation: scope.generation,
        place: seat.session.clone(),
        person: seat.peers.user.clone(),
    };
    let cadence = settings.dialectic_cadence;
    let (turn, is_due, known) = shared.talks.with(&whose, |talk| {
        talk.turn += 1;
        let known = talk.base.clone().map(|(_, text)| text);
        (talk.turn, talk.base_due(settings.injection, settings.context_cadence), known)
    });
    if is_trivial(query) {
        let answer = shared.talks.with(&whose, |talk| talk.take_reflection(cadence));
        return Ok(fitted(shared, &answer.unwrap_or_default()));
    }
    let is_shown = settings.injection == Injection::EveryTurn || is_due;
    let start = if known.as_ref().is_some_and(|text| !text.is_empty()) {
        ReasoningStart::Warm
    } else {
        ReasoningStart::Cold
    };
    let earlier = shared.talks.with(&whose, |talk| talk.take_reflection(cadence));
    reflect_beside(shared, &whose, &seat, query, start);
    let base = match is_due {
        true => {
            let text = base(shared, &seat, query).await.map_err(|failure| failure.of_read("a question"))?;
            shared.talks.with(&whose, |talk| talk.base = Some((turn, text.clone())));
            text
        }
        false => known.unwrap_or_default(),
    };
    let answer = earlier.or_else(|| shared.talks.with(&whose, |talk| talk.take_reflection(cadence)));
    let layers = [Some(base).filter(|_| is_shown), answer];
    let text =
        layers.into_iter().flatten().filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n\n");
    Ok(fitted(shared, &text))
}

/// Starts the next reasoning, if it is time and there is room.
fn reflect_beside(
    shared: &Arc<HonchoShared>,
    whose: &ReasoningScope,
    seat: &ScopePlace,
    query: &str,
    start: ReasoningStart,
) {
    let has_room = shared.talks.running() < REFLECTIONS_MAX;
    shared.talks.with(whose, |talk| {
        if !has_room || !talk.reflection_due(shared.settings.dialectic_cadence) {
            return;
        }
        let answer = Arc::new(Mutex::new(None));
        let (slot, peers, query) = (Arc::clone(&answer), seat.peers.clone(), query.to_owned());
        let shared = Arc::clone(shared);
        let task = tokio::spawn(async move {
            match shared.reflect(&peers, &query, start).await {
                Ok(text) => *locked(&slot) = Some(text),
                Err(failure) => {
                    tracing::debug!(reason = failure.sentence("a question"), "Honcho did not reflect")
                }
            }
        });
        talk.reflection = Some(Reflection { turn: talk.turn, answer, task });
    });
}

/// The first layer. It fails if what is known of the person cannot be read.
async fn base(shared: &HonchoShared, seat: &ScopePlace, query: &str) -> Result<String, HonchoFailure> {
    let summary = async {
        match seat.is_own {
            true => shared.session_context(seat, None).await,
            false => Ok(Value::Null),
        }
    };
    let own = async {
        match shared.is_alone() {
            true => shared.peer_context(&seat.peers.agent, Some(&seat.peers.agent), None).await,
            false => Ok(Value::Null),
        }
    };
    let (observer, target) = shared.observer(&seat.peers, &seat.peers.user);
    let target = target.unwrap_or(observer);
    let person = shared.peer_context(observer, Some(target), Some(head(query, SEARCH_CHARS_MAX)));
    let (summary, person, own) = tokio::join!(summary, person, own);
    // Without the person there is nothing to go by; without the rest there is less.
    let (summary, person, own) = (summary.unwrap_or_default(), person?, own.unwrap_or_default());
    let sections = [
        ("Session Summary", summary["summary"]["content"].as_str().unwrap_or_default().to_owned()),
        ("User Representation", representation(&person)),
        ("User Peer Card", card(&person["peer_card"]).join("\n")),
        ("AI Self-Representation", representation(&own)),
        ("AI Identity Card", card(&own["peer_card"]).join("\n")),
    ];
    let shown = sections.into_iter().filter(|(_, text)| !text.trim().is_empty());
    Ok(shown.map(|(title, text)| format!("## {title}\n{text}")).collect::<Vec<_>>().join("\n\n"))
}

impl HonchoShared {
    /// Who has watched a peer, and the peer, unless they are asked about themselves alone.
    pub fn observer<'a>(
        &self,
        peers: &'a super::peer::SessionPeers,
        target: &'a str,
    ) -> (&'a str, Option<&'a str>) {
        match (target == peers.agent, self.settings.observation.agent.observe_others) {
            (true, _) => (target, Some(target)),
            (false, true) => (&peers.agent, Some(target)),
            (false, false) => (target, None),
        }
    }

    /// What is known of `target` as `observer` sees them. Without such a peer: nothing.
    pub async fn peer_context(
        &self,
        observer: &str,
        target: Option<&str>,
        search: Option<&str>,
    ) -> Result<Value, HonchoFailure> {
        let search = search.map(str::trim).filter(|search| !search.is_empty());
        let query: Vec<(&str, &str)> = [("target", target), ("search_query", search)]
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect();
        nothing_if_missing(self.wire.get(format!("peers/{observer}/context"), &query).await)
    }

    /// The session as it stands, with what is known of a peer if one is named.
    pub async fn session_context(
        &self,
        seat: &ScopePlace,
        peer: Option<(&str, &str)>,
    ) -> Result<Value, HonchoFailure> {
        let tokens = self.settings.context_tokens.map(|tokens| tokens.min(CONTEXT_TOKENS_MAX).to_string());
        let mut query = vec![("summary", "true")];
        query.extend(tokens.as_deref().map(|tokens| ("tokens", tokens)));
        if let Some((perspective, target)) = peer {
            query.extend([("peer_target", target), ("peer_perspective", perspective)]);
        }
        nothing_if_missing(self.wire.get(format!("sessions/{}/context", seat.session), &query).await)
    }
}

pub fn nothing_if_missing(answer: Result<Value, HonchoFailure>) -> Result<Value, HonchoFailure> {
    match answer {
        Err(failure) if failure.is_missing() => Ok(Value::Null),
        answer => answer,
    }
}

pub fn representation(context: &Value) -> String {
    let fields = [&context["representation"], &context["peer_representation"]];
    fields.iter().find_map(|field| field.as_str()).unwrap_or_default().to_owned()
}

pub fn card(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
            .filter(|item| !item.is_empty())
            .collect(),
        Value::String(text) if !text.is_empty() => vec![text.clone()],
        _ => Vec::new(),
    }
}

fn fitted(shared: &HonchoShared, text: &str) -> String {
    let budget =
        shared.settings.context_tokens.map_or(CHARS_MAX, |tokens| tokens.saturating_mul(CHARS_PER_TOKEN));
    shortened(scrubbed(text).trim(), budget)
}

fn is_trivial(query: &str) -> bool {
    let query = query.trim();
    query.starts_with('/') || TRIVIAL.iter().any(|word| query.eq_ignore_ascii_case(word))
}
