//! The provider: what is kept, and how often.
//!
//! A turn goes over in one request, which the server takes whole or not at all. It has no key by which
//! it would recognise a repetition, so each message carries the turn's in its metadata. What may have
//! arrived is looked for by it, and sent again only if it is not there; then it says so (`resent`),
//! because one hole remains: a request that the server has still not worked off when it is asked.
//!
//! A session's peers are introduced with the request before its first message, in the same handing over:
//! who watches whom counts for what is said afterwards.

use super::fence::unfenced;
use super::migration::{Already, LocalFile, Upload};
use super::name;
use super::parts::{Part, parts, split};
use super::peer::{Peers, peers};
use super::recall::Talks;
use super::settings::{Settings, Watch, WriteFrequency};
use super::wire::{Effect, Failure, Request, Wire};
use super::{Company, Surroundings, tools};
use reqwest::Method;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use throughline_core::memory::{MemoryError, Naming, Provider, Retention, Scope, Wanted};
use throughline_core::port::Promise;
use throughline_core::time::Time;
use throughline_core::tool::Spec;
use tokio::time::{Instant, sleep};

/// What the server takes at once.
const BATCH_MAX: usize = 100;
/// Of a listing: what it gives at once, and how far it is followed. A turn has few parts; copies of
/// one would have to be many to come to this.
const PAGE: &str = "100";
const PAGES_MAX: u64 = 50;
/// The server lets a write wait 5 s for another one to the same session; beyond that it fails.
const SETTLING: Duration = Duration::from_secs(10);
/// Sessions and turns that are remembered beside their rows. Who falls out costs one more request.
const REMEMBERED_MAX: usize = 1024;
/// Turns that go out only because the session is left: no session has as many.
const NEVER: u64 = u32::MAX as u64;

/// Honcho, for one agent. Clones share it.
#[derive(Clone)]
pub struct Honcho {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub settings: Settings,
    pub surroundings: Surroundings,
    pub wire: Wire,
    pub talks: Talks,
    /// Sessions and people that have been introduced.
    introduced: Mutex<VecDeque<(String, String)>>,
    /// When something was last sent of which nobody knows whether it arrived.
    doubts: Mutex<VecDeque<(String, Instant)>>,
    born: Instant,
    settling: Duration,
}

/// Where a scope's words lie, and who speaks there.
pub(super) struct Seat {
    /// The session.
    pub session: String,
    pub peers: Peers,
    /// Whether the session is this conversation's beyond doubt. A name that nothing was written to
    /// yet may turn out to be somebody else's.
    pub is_own: bool,
}

impl Honcho {
    pub fn new(settings: Settings, surroundings: Surroundings) -> Self {
        let wire = Wire::new(&settings);
        Self {
            shared: Arc::new(Shared {
                settings,
                surroundings,
                wire,
                talks: Talks::default(),
                introduced: Mutex::default(),
                doubts: Mutex::default(),
                born: Instant::now(),
                settling: SETTLING,
            }),
        }
    }

    /// How long a server may take to work off what it got. Before that, nothing is sent again.
    pub fn settling(self, settling: Duration) -> Self {
        let shared = Arc::try_unwrap(self.shared);
        let shared = shared.ok().expect("it is set before the provider is shared");
        Self { shared: Arc::new(Shared { settling, ..shared }) }
    }

    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Brings the owner's memory files to Honcho: see [`migration`](super::migration). `document` is
    /// where the turns of the scope go. Gives the names of the files that are there now.
    pub async fn migrate(
        &self,
        scope: &Scope,
        document: &str,
        files: &[LocalFile],
        already: &Already,
    ) -> Result<Vec<String>, MemoryError> {
        let shared = &self.shared;
        let session = name::valid(document);
        let peers = peers(&shared.settings, scope, &session);
        let mut done = Vec::new();
        for upload in super::migration::uploads(&peers, files) {
            if !already.done.contains(&upload.file) {
                shared.bring(&session, &peers, &upload, already.begun).await?;
            }
            done.push(upload.file);
        }
        Ok(done)
    }
}

impl Provider for Honcho {
    fn name(&self) -> &str {
        "honcho"
    }

    fn naming(&self, scope: &Scope) -> Naming {
        name::naming(&self.shared.settings, &self.shared.surroundings, scope)
    }

    fn every(&self) -> Option<u64> {
        let settings = &self.shared.settings;
        settings.save_messages.then_some(match settings.write_frequency {
            WriteFrequency::Turn => 1,
            WriteFrequency::Turns(turns) => turns,
            WriteFrequency::Session => NEVER,
        })
    }

    fn recall<'a>(&'a self, scope: &'a Scope, query: &'a str) -> Promise<'a, Result<String, MemoryError>> {
        Box::pin(super::recall::recall(&self.shared, scope, query))
    }

    fn retain<'a>(&'a self, retention: &'a Retention) -> Promise<'a, Result<(), MemoryError>> {
        Box::pin(self.shared.retain(retention))
    }

    fn tools(&self) -> Vec<Spec> {
        tools::specs(&self.shared.settings)
    }

    fn call<'a>(&'a self, scope: &'a Scope, wanted: Wanted<'a>) -> Promise<'a, String> {
        Box::pin(tools::call(&self.shared, scope, wanted.name, wanted.arguments))
    }
}

impl Shared {
    pub fn seat(&self, scope: &Scope) -> Seat {
        let (name, is_own) = match &scope.document {
            Some(document) => (document.clone(), true),
            None => {
                let naming = name::naming(&self.settings, &self.surroundings, scope);
                (naming.name, naming.otherwise.is_none())
            }
        };
        // What several people share is nobody's to be shown. Where nobody is named it is the owner who asks.
        let is_owner = scope.chat.is_none() && scope.user.is_none();
        let is_own = is_own && (self.is_alone() || is_owner || name::is_own(&self.settings, scope, &name));
        let session = name::valid(&name);
        let peers = peers(&self.settings, scope, &session);
        Seat { session, peers, is_own }
    }

    /// Whether whoever speaks is the only one whom Honcho knows here.
    pub fn is_alone(&self) -> bool {
        let is_pinned = self.settings.pin_user_peer && self.settings.peer_name.is_some();
        self.surroundings.company == Company::One || is_pinned
    }

    /// Whether everything that Honcho knows may be shown to whoever asks for it by name.
    pub fn is_open_to(&self, scope: &Scope) -> bool {
        let is_terminal = scope.platform == "cli" && scope.user.is_none() && scope.chat.is_none();
        self.is_alone() || is_terminal
    }

    async fn retain(&self, retention: &Retention) -> Result<(), MemoryError> {
        let session = name::valid(&retention.document);
        let peers = peers(&self.settings, &retention.scope, &session);
        let parts = parts(retention, &peers, self.settings.message_max_chars);
        let missing = match retention.tried {
            false => parts,
            true => {
                let sign = json!({"turn_id": retention.key});
                let found = self.settled(&session, &retention.key, sign, parts.len()).await?;
                absent(parts, &found)
            }
        };
        let message = |part: &Part| {
            let mut metadata = json!({"turn_id": retention.key, "part": part.number});
            if retention.tried {
                metadata["resent"] = Value::Bool(true);
            }
            json!({"content": part.content, "peer_id": part.peer, "metadata": metadata, "created_at": iso(retention.at)})
        };
        let messages: Vec<Value> = missing.iter().map(message).collect();
        self.send(&session, &peers, &retention.key, messages, retention.tried).await
    }

    /// One memory file, once: it is looked for first, and Hermes may have brought it.
    async fn bring(
        &self,
        session: &str,
        peers: &Peers,
        upload: &Upload,
        tried: bool,
    ) -> Result<(), MemoryError> {
        let sign = json!({"source": "local_memory", "original_file": upload.file});
        let key = format!("{session}/{}", upload.file);
        let found = match tried {
            true => self.settled(session, &key, sign, 1).await?,
            false => self
                .listed(session, sign)
                .await
                .map_err(|failure| failure.of_read("the question about a memory file"))?,
        };
        if !found.is_empty() {
            return Ok(());
        }
        let pieces = split(&unfenced(&upload.content), self.settings.message_max_chars);
        let messages = pieces.iter().zip(1u64..).map(|(content, part)| {
            let metadata = json!({
                "source": "local_memory", "original_file": upload.file, "target_peer": upload.target, "part": part,
            });
            json!({"content": content, "peer_id": upload.peer, "metadata": metadata})
        });
        self.send(session, peers, &key, messages.collect(), tried).await
    }

    /// Sends what is missing. Whatever it is, nothing of it is there when this is called.
    async fn send(
        &self,
        session: &str,
        peers: &Peers,
        key: &str,
        messages: Vec<Value>,
        tried: bool,
    ) -> Result<(), MemoryError> {
        let doubtful = |error: MemoryError| match error {
            MemoryError::Later(words) if tried => MemoryError::Unknown(words),
            error => error,
        };
        if messages.is_empty() {
            return Ok(());
        }
        self.introduce(session, peers).await.map_err(doubtful)?;
        for (number, batch) in messages.chunks(BATCH_MAX).enumerate() {
            let outcome = self.post(session, batch).await.map_err(|failure| failure.of_write("a turn"));
            let outcome = match outcome {
                // What came before it is there.
                Err(MemoryError::Later(words)) if number > 0 => Err(MemoryError::Unknown(words)),
                outcome => outcome.map_err(doubtful),
            };
            if let Err(MemoryError::Unknown(_)) = &outcome {
                remember(&self.doubts, (key.to_owned(), Instant::now()), |(other, _)| other == key);
            }
            outcome?;
        }
        Ok(())
    }

    async fn post(&self, session: &str, batch: &[Value]) -> Result<(), Failure> {
        let path = format!("sessions/{session}/messages");
        let answer = self.wire.post(path, json!({"messages": batch}), Effect::Write).await?;
        match answer.as_array().map(Vec::len) == Some(batch.len()) {
            true => Ok(()),
            // A success that shows nothing may be anybody's.
            false => Err(Failure::Lost("the answer does not show what was kept".to_owned())),
        }
    }

    /// Says who watches whom, once for each person in a session.
    async fn introduce(&self, session: &str, peers: &Peers) -> Result<(), MemoryError> {
        let pair = (session.to_owned(), peers.user.clone());
        if locked(&self.introduced).contains(&pair) {
            return Ok(());
        }
        let watch =
            |watch: Watch| json!({"observe_me": watch.observe_me, "observe_others": watch.observe_others});
        let observation = self.settings.observation;
        let watches = [(&peers.user, watch(observation.user)), (&peers.agent, watch(observation.agent))];
        let watches: Map<String, Value> =
            watches.into_iter().map(|(peer, watch)| (peer.clone(), watch)).collect();
        let body = json!({"id": session, "peers": watches});
        match self.wire.post("sessions".to_owned(), body, Effect::None).await {
            Ok(_) => {}
            // A session has room for so many observers; what is said is kept without them.
            Err(Failure::Status { status: 400 | 409 | 413 | 422, words }) => {
                tracing::warn!(session, words, "Honcho did not take the peers of a session");
            }
            // Nothing was said yet, so nothing can have arrived.
            Err(failure) => return Err(MemoryError::Later(failure.sentence("a session's peers"))),
        }
        remember(&self.introduced, pair.clone(), |other| *other == pair);
        Ok(())
    }

    /// What is there of something of so many parts that may have been sent, asked when the server has
    /// had its time.
    async fn settled(
        &self,
        session: &str,
        key: &str,
        sign: Value,
        parts: usize,
    ) -> Result<BTreeSet<u64>, MemoryError> {
        let unknown =
            |failure: Failure| MemoryError::Unknown(failure.sentence("the question whether a turn is there"));
        let found = self.listed(session, sign.clone()).await.map_err(unknown)?;
        let doubt = locked(&self.doubts).iter().find(|(other, _)| other == key).map(|(_, at)| *at);
        // Whatever an earlier process sent, it sent before this one began.
        let wait = self.settling.saturating_sub(doubt.unwrap_or(self.born).elapsed());
        let is_whole = if parts <= BATCH_MAX { !found.is_empty() } else { found.len() >= parts };
        if is_whole || wait.is_zero() {
            return Ok(found);
        }
        sleep(wait).await;
        self.listed(session, sign).await.map_err(unknown)
    }

    /// The numbers of the parts that carry this sign. A message without a number is the first.
    async fn listed(&self, session: &str, sign: Value) -> Result<BTreeSet<u64>, Failure> {
        let mut found = BTreeSet::new();
        for page in 1..=PAGES_MAX {
            let number = page.to_string();
            let request = Request {
                method: Method::POST,
                path: format!("sessions/{session}/messages/list"),
                query: &[("page", &number), ("size", PAGE)],
                body: Some(json!({"filters": {"metadata": sign}})),
                effect: Effect::None,
            };
            let answer = match self.wire.ask(request).await {
                Err(failure) if failure.is_missing() => return Ok(found),
                answer => answer?,
            };
            let items = answer["items"]
                .as_array()
                .ok_or_else(|| Failure::Lost("the list cannot be read".to_owned()))?;
            // A server that ignores the filter would make everything look kept.
            let is_marked = |item: &&Value| contains(&item["metadata"], &sign);
            found.extend(
                items.iter().filter(is_marked).map(|item| item["metadata"]["part"].as_u64().unwrap_or(1)),
            );
            if answer["pages"].as_u64().unwrap_or(0) <= page {
                break;
            }
        }
        Ok(found)
    }
}

/// What is not there. One request is taken whole or not at all, so a part of it stands for all.
fn absent(parts: Vec<Part>, found: &BTreeSet<u64>) -> Vec<Part> {
    match parts.len() <= BATCH_MAX && !found.is_empty() {
        true => Vec::new(),
        false => parts.into_iter().filter(|part| !found.contains(&part.number)).collect(),
    }
}

fn contains(metadata: &Value, sign: &Value) -> bool {
    sign.as_object().is_some_and(|sign| sign.iter().all(|(key, value)| metadata.get(key) == Some(value)))
}

/// `2026-05-28T09:35:10.000000Z`.
fn iso(time: Time) -> String {
    let compact = time.compact();
    match compact.len() {
        22 => format!(
            "{}-{}-{}T{}:{}:{}.{}Z",
            &compact[..4],
            &compact[4..6],
            &compact[6..8],
            &compact[9..11],
            &compact[11..13],
            &compact[13..15],
            &compact[15..21]
        ),
        // Years of five digits are nobody's.
        _ => "1970-01-01T00:00:00Z".to_owned(),
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Each change is one statement, so a panic elsewhere leaves nothing to mend.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remember<T>(list: &Mutex<VecDeque<T>>, item: T, is_same: impl Fn(&T) -> bool) {
    let mut list = locked(list);
    list.retain(|other| !is_same(other));
    list.push_back(item);
    if list.len() > REMEMBERED_MAX {
        list.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_the_server_reads_it() {
        assert_eq!(iso(Time(1_779_960_910_000_001)), "2026-05-28T09:35:10.000001Z");
        assert_eq!(iso(Time(0)), "1970-01-01T00:00:00.000000Z");
    }

    #[test]
    fn a_part_of_a_request_stands_for_all_of_it_and_of_many_requests_each_for_itself() {
        let parts = |count: u64| {
            (1..=count)
                .map(|number| Part { number, peer: "p".into(), content: "c".into() })
                .collect::<Vec<_>>()
        };
        assert_eq!(absent(parts(3), &BTreeSet::new()).len(), 3);
        assert_eq!(absent(parts(3), &BTreeSet::from([2])).len(), 0);
        let numbers: Vec<u64> =
            absent(parts(150), &(1..=100).collect()).iter().map(|part| part.number).collect();
        assert_eq!(numbers, (101..=150).collect::<Vec<_>>());
    }
}
