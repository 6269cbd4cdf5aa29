//! The provider: what is kept, and how often.
//!
//! A turn goes over in one request, which the server takes whole or not at all. It has no key by which
//! it would recognise a repetition, so each message carries the turn's in its metadata. What may have
//! arrived is looked for by it, and sent again only if it is not there; then it says so (`resent`),
//! because one hole remains: a request that the server has still not worked off when it is asked.
//!
//! Who watches whom counts for what is said afterwards, so a session's peers are introduced before a turn. But a
//! session begins with its first message and with nothing else: that one goes first, and the peers behind it.

use super::api::{HonchoApi, HonchoFailure, HonchoRequest, RequestEffect};
use super::migration::FileUpload;
use super::migration_ledger::{MigratedFile, MigrationLedger, MigrationStatus};
use super::peer::{SessionPeers, peers};
use super::recall::ConversationReasonings;
use super::scrub::unfenced;
use super::session_name;
use super::settings::{HonchoSettings, PeerObservation, WriteFrequency};
use super::turn_messages::{TurnMessage, parts, split};
use super::{Audience, HonchoSurroundings, tools};
use reqwest::Method;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use throughline_core::memory::{Erasure, MemoryError, Naming, Provider, Retention, Scope, Wanted};
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
    pub(super) shared: Arc<HonchoShared>,
}

pub(super) struct HonchoShared {
    pub settings: HonchoSettings,
    pub surroundings: HonchoSurroundings,
    pub wire: HonchoApi,
    pub talks: ConversationReasonings,
    /// Sessions and people that have been introduced.
    introduced: Mutex<VecDeque<(String, String)>>,
    /// When something was last sent whose arrival is unknown.
    doubts: Mutex<VecDeque<(String, Instant)>>,
    born: Instant,
    settling: Duration,
}

/// Where a scope's words lie, and who speaks there.
pub(super) struct ScopePlace {
    /// The session.
    pub session: String,
    pub peers: SessionPeers,
    /// Whether the session is this conversation's beyond doubt. A name that nothing was written to
    /// yet may turn out to be another conversation's.
    pub is_own: bool,
}

impl Honcho {
    pub fn new(settings: HonchoSettings, surroundings: HonchoSurroundings) -> Self {
        let wire = HonchoApi::new(&settings);
        Self {
            shared: Arc::new(HonchoShared {
                settings,
                surroundings,
                wire,
                talks: ConversationReasonings::default(),
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
        Self { shared: Arc::new(HonchoShared { settling, ..shared }) }
    }

    pub fn settings(&self) -> &HonchoSettings {
        &self.shared.settings
    }

    /// Brings the owner's memory files to Honcho, each once to its peer: see [`migration`](mod@super::migration).
    /// `document` is where the turns of the scope go, and `read` gives the text of a file, if there is one. An error
    /// says why nothing else may go there yet; nothing of the scope has been sent then.
    pub async fn migrate(
        &self,
        scope: &Scope,
        document: &str,
        wanted: &[&str],
        read: &(dyn Fn(&str) -> Result<Option<String>, String> + Sync),
        ledger: &MigrationLedger,
    ) -> Result<(), MemoryError> {
        if wanted.is_empty() {
            return Ok(()); // a person who is not the owner does not wait for the owner's files
        }
        let shared = &self.shared;
        let peers = peers(&shared.settings, scope, &session_name::valid(document));
        let mut known = ledger.known.lock().await;
        for (file, peer) in super::migration::destinations(&peers, wanted) {
            let parcel = MigratedFile {
                server: shared.wire.host().to_owned(),
                workspace: shared.settings.workspace.clone(),
                peer: peer.to_owned(),
                file: file.to_owned(),
            };
            // What was begun elsewhere goes on there.
            let begun = match ledger.stand(&mut known, &parcel)? {
                Some(MigrationStatus::Over { .. }) => continue,
                Some(MigrationStatus::Begun { session }) => Some(session.clone()),
                None => None,
            };
            let text = match read(file) {
                Ok(text) => text,
                Err(why) => {
                    tracing::warn!(file, why, "a memory file is not brought to Honcho until it can be read");
                    continue;
                }
            };
            let Some(upload) = text.and_then(|text| super::migration::upload(&peers, file, &text)) else {
                ledger.write(
                    &mut known,
                    &parcel,
                    MigrationStatus::Over { how: "nothing to bring".to_owned() },
                )?;
                continue;
            };
            let session = begun.clone().unwrap_or_else(|| session_name::valid(document));
            if begun.is_none() {
                ledger.write(&mut known, &parcel, MigrationStatus::Begun { session: session.clone() })?;
            }
            let how = match shared.bring(&session, &peers, &upload, begun.is_some()).await {
                Ok(()) => "there".to_owned(),
                // A file that is not taken keeps no turn from being kept.
                Err(MemoryError::Refused(words)) => {
                    tracing::error!(file, words, "Honcho refused a memory file; it is not brought there");
                    format!("refused: {words}")
                }
                // Whether the file arrived is in the ledger; of a turn nothing was sent.
                Err(MemoryError::Unknown(words)) => return Err(MemoryError::Later(words)),
                Err(error) => return Err(error),
            };
            ledger.write(&mut known, &parcel, MigrationStatus::Over { how })?;
        }
        Ok(())
    }
}

impl Provider for Honcho {
    fn name(&self) -> &str {
        "honcho"
    }

    fn naming(&self, scope: &Scope) -> Naming {
        session_name::naming(&self.shared.settings, &self.shared.surroundings, scope)
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

    fn erase<'a>(&'a self, erasure: &'a Erasure) -> Promise<'a, Result<(), MemoryError>> {
        Box::pin(self.shared.erase(erasure))
    }

    fn prompt(&self) -> Option<String> {
        Some(tools::prompt(self.shared.settings.recall_mode).to_owned())
    }

    fn tools(&self) -> Vec<Spec> {
        tools::specs(&self.shared.settings)
    }

    fn call<'a>(&'a self, scope: &'a Scope, wanted: Wanted<'a>) -> Promise<'a, String> {
        Box::pin(tools::call(&self.shared, scope, wanted.name, wanted.arguments))
    }
}

impl HonchoShared {
    pub fn seat(&self, scope: &Scope) -> ScopePlace {
        let (name, is_own) = match &scope.document {
            Some(document) => (document.clone(), true),
            None => {
                let naming = session_name::naming(&self.settings, &self.surroundings, scope);
                let name = scope.meant.clone().unwrap_or(naming.name);
                (name, naming.otherwise.is_none())
            }
        };
        // What several people share is shown to none of them. Where the scope names no person, the owner asks.
        let is_owner = scope.chat.is_none() && scope.user.is_none();
        let is_own =
            is_own && (self.is_alone() || is_owner || session_name::is_own(&self.settings, scope, &name));
        let session = session_name::valid(&name);
        let peers = peers(&self.settings, scope, &session);
        ScopePlace { session, peers, is_own }
    }

    /// Whether the speaker is the only person whom Honcho knows here.
    pub fn is_alone(&self) -> bool {
        let is_pinned = self.settings.pin_user_peer && self.settings.peer_name.is_some();
        self.surroundings.audience == Audience::One || is_pinned
    }

    /// Whether everything that Honcho knows may be shown to a person who asks for it by name.
    pub fn is_open_to(&self, scope: &Scope) -> bool {
        let is_terminal = scope.platform == "cli" && scope.user.is_none() && scope.chat.is_none();
        self.is_alone() || is_terminal
    }

    /// The server deletes whole sessions, and no messages. What it concluded about a person is not part of a session.
    async fn erase(&self, erasure: &Erasure) -> Result<(), MemoryError> {
        let session = session_name::valid(&erasure.document);
        if !erasure.turns.is_empty() {
            return Err(MemoryError::Refused(format!(
                "Honcho at {} deletes whole sessions only, and its session {session} holds what others said, too. \
                 What was said in {} turns stays there.",
                self.wire.host(),
                erasure.turns.len()
            )));
        }
        let path = format!("sessions/{session}");
        let (method, effect) = (Method::DELETE, RequestEffect::Write);
        let asked = self.wire.ask(HonchoRequest { method, path, query: &[], body: None, effect }).await;
        match asked {
            Ok(_) | Err(HonchoFailure::Status { status: 404, .. }) => {
                locked(&self.introduced).retain(|(known, _)| *known != session);
                Ok(())
            }
            Err(failure) => Err(failure.of_write("the deletion of a session")),
        }
    }

    async fn retain(&self, retention: &Retention) -> Result<(), MemoryError> {
        let session = session_name::valid(&retention.document);
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
        let message = |part: &TurnMessage| {
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
        peers: &SessionPeers,
        upload: &FileUpload,
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

    /// Sends what is missing. The server has nothing of it when this is called.
    async fn send(
        &self,
        session: &str,
        peers: &SessionPeers,
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
        let is_new = self.is_new(session, peers).await.map_err(doubtful)?;
        if !is_new {
            self.introduce(session, peers).await.map_err(doubtful)?;
        }
        for (number, batch) in messages.chunks(BATCH_MAX).enumerate() {
            let outcome = self.post(session, batch).await.map_err(|failure| failure.of_write("a turn"));
            let outcome = match outcome {
                // What came before it is there.
                Err(MemoryError::Later(words) | MemoryError::Busy { words, .. }) if number > 0 => {
                    Err(MemoryError::Unknown(words))
                }
                outcome => outcome.map_err(doubtful),
            };
            if let Err(MemoryError::Unknown(_)) = &outcome {
                self.doubts(key);
            }
            outcome?;
        }
        if is_new && let Err(error) = self.introduce(session, peers).await {
            // What was said is there; they are introduced before the next turn.
            tracing::warn!(session, %error, "Honcho does not know yet who watches whom in a session");
        }
        Ok(())
    }

    /// Whether nothing lies there yet. What is known not to be new is not asked about.
    async fn is_new(&self, session: &str, peers: &SessionPeers) -> Result<bool, MemoryError> {
        if locked(&self.introduced).contains(&(session.to_owned(), peers.user.clone())) {
            return Ok(false);
        }
        let request = HonchoRequest {
            method: Method::POST,
            path: format!("sessions/{session}/messages/list"),
            query: &[("page", "1"), ("size", "1")],
            body: Some(json!({})),
            effect: RequestEffect::None,
        };
        match self.wire.ask(request).await {
            Ok(answer) => Ok(answer["items"].as_array().is_none_or(Vec::is_empty)),
            Err(failure) if failure.is_missing() => Ok(true),
            // Nothing was said yet, so nothing can have arrived.
            Err(failure) => Err(failure.of_read("the question whether a session has begun")),
        }
    }

    async fn post(&self, session: &str, batch: &[Value]) -> Result<(), HonchoFailure> {
        let path = format!("sessions/{session}/messages");
        let answer = self.wire.post(path, json!({"messages": batch}), RequestEffect::Write).await?;
        match answer.as_array().map(Vec::len) == Some(batch.len()) {
            true => Ok(()),
            // A success that shows nothing may come from another server.
            false => Err(HonchoFailure::Lost("the answer does not show what was kept".to_owned())),
        }
    }

    /// Says who watches whom, once for each person in a session.
    async fn introduce(&self, session: &str, peers: &SessionPeers) -> Result<(), MemoryError> {
        let pair = (session.to_owned(), peers.user.clone());
        if locked(&self.introduced).contains(&pair) {
            return Ok(());
        }
        let watch = |watch: PeerObservation| json!({"observe_me": watch.observe_me, "observe_others": watch.observe_others});
        let observation = self.settings.observation;
        let watches = [(&peers.user, watch(observation.user)), (&peers.agent, watch(observation.agent))];
        let watches: Map<String, Value> =
            watches.into_iter().map(|(peer, watch)| (peer.clone(), watch)).collect();
        let body = json!({"id": session, "peers": watches});
        match self.wire.post("sessions".to_owned(), body, RequestEffect::None).await {
            Ok(_) => {}
            // A session has room for so many observers; what is said is kept without them.
            Err(HonchoFailure::Status { status: 400 | 409 | 413 | 422, words }) => {
                tracing::warn!(session, words, "Honcho did not take the peers of a session");
            }
            // Nothing was said yet, so nothing can have arrived.
            Err(failure) => return Err(failure.of_read("a session's peers")),
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
        let unknown = |failure: HonchoFailure| match failure.of_read("the question whether a turn is there") {
            MemoryError::Later(words) => MemoryError::Unknown(words),
            busy => busy,
        };
        let found = self.listed(session, sign.clone()).await.map_err(unknown)?;
        let wait = self.unsettled_for(key);
        let is_whole = if parts <= BATCH_MAX { !found.is_empty() } else { found.len() >= parts };
        if is_whole || wait.is_zero() {
            return Ok(found);
        }
        sleep(wait).await;
        self.listed(session, sign).await.map_err(unknown)
    }

    /// Whether this arrived is unknown.
    pub fn doubts(&self, key: &str) {
        remember(&self.doubts, (key.to_owned(), Instant::now()), |(other, _)| other == key);
    }

    /// How long the server may still be at what was sent.
    fn unsettled_for(&self, key: &str) -> Duration {
        let doubt = locked(&self.doubts).iter().find(|(other, _)| other == key).map(|(_, at)| *at);
        // An earlier process sent everything before this one began.
        self.settling.saturating_sub(doubt.unwrap_or(self.born).elapsed())
    }

    pub async fn let_settle(&self, key: &str) {
        sleep(self.unsettled_for(key)).await;
    }

    /// The numbers of the parts that carry this sign. A message without a number is the first.
    async fn listed(&self, session: &str, sign: Value) -> Result<BTreeSet<u64>, HonchoFailure> {
        let mut found = BTreeSet::new();
        for page in 1..=PAGES_MAX {
            let number = page.to_string();
            let request = HonchoRequest {
                method: Method::POST,
                path: format!("sessions/{session}/messages/list"),
                query: &[("page", &number), ("size", PAGE)],
                body: Some(json!({"filters": {"metadata": sign}})),
                effect: RequestEffect::None,
            };
            let answer = match self.wire.ask(request).await {
                Err(failure) if failure.is_missing() => return Ok(found),
                answer => answer?,
            };
            let items = answer["items"]
                .as_array()
                .ok_or_else(|| HonchoFailure::Lost("the list cannot be read".to_owned()))?;
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
fn absent(parts: Vec<TurnMessage>, found: &BTreeSet<u64>) -> Vec<TurnMessage> {
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
        // Python has no years of five digits.
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
                .map(|number| TurnMessage { number, peer: "p".into(), content: "c".into() })
                .collect::<Vec<_>>()
        };
        assert_eq!(absent(parts(3), &BTreeSet::new()).len(), 3);
        assert_eq!(absent(parts(3), &BTreeSet::from([2])).len(), 0);
        let numbers: Vec<u64> =
            absent(parts(150), &(1..=100).collect()).iter().map(|part| part.number).collect();
        assert_eq!(numbers, (101..=150).collect::<Vec<_>>());
    }
}
