//! The way in, the same for every platform: who may speak, whether it is meant for the agent, which chat
//! it belongs to, and how the model reads it.
//!
//! - only people who may speak are heard; a stranger who writes to the agent alone gets a pairing code, once
//!   per message and once in ten minutes
//! - what is for another agent of the process is that agent's, and no other agent answers it (`addressee`)
//! - talk among others is left alone, but a human's word there gives bots a new budget
//! - what one of our agents says in a chat is recognised with what it follows from; what other bots say is counted
//!   in its chat, so that chains end
//! - a file that cannot be fetched is a note in the message: it never loses the message
//! - what is kept is on disk when it is said to be
//!
//! Deliberately absent: protocols, which adapters know, and any queue: what is not on disk is not here.

mod addressee;
mod mention_rules;
mod message_text;
mod received_files;

/// Nothing comes of it until a person lets its conversation go on: no typing is shown, and no sign says
/// that it was seen. A person who writes now lifts every silence, so only others are asked about.
async fn is_held(api: &Arc<dyn AgentApi>, incoming: &Incoming, session: &SessionId) -> bool {
    let lifts = !incoming.from_bot && api.now().since(incoming.at) <= BACKLOG_AFTER;
    match lifts {
        true => false,
        false => match api.read(Question::Backlog).await {
            Ok(Reading::Backlog(held)) => held.iter().any(|held| held.session == *session),
            _ => false, // a courtesy too many does no harm
        },
    }
}

#[cfg(test)]
mod tests;

use crate::adapter::Adapter;
use crate::incoming::{DirectDelivery, Incoming, Intake, IntakeOutcome, NotNow, Press};
use crate::live::{Followed, Live};
use crate::pairing::Pairings;
use addressee::{Addressee, AddresseeAbsent, Addressees};
pub use addressee::{Neighbour, Neighbours};
use mention_rules::Meant;
use received_files::ReceivedFiles;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_core::command::Command;
use throughline_core::input::{Birth, Chat, DedupeKey, Destination, Kind, Room, Sender, Trace};
use throughline_core::lifecycle::BACKLOG_AFTER;
use throughline_core::message::{Content, JsonText, Part};
use throughline_core::port::{
    AgentApi, CallId, Post, Promise, Question, Reading, Refusal, Running, SendError, Submission,
};
use throughline_core::route::Target;
use throughline_core::tool::{Grant, Verdict};
use throughline_core::{SessionId, Time, id::ChatKey};
use throughline_hermes::access::{Bots, Strangers, Who};
use throughline_hermes::config::platforms::{Platform, Platforms};
use throughline_hermes::key::{KeyRules, chat_key, is_shared};
use throughline_hermes::pairing::NoCode;
use throughline_hermes::source::Source;
use tokio::time::sleep;

/// A message that was written longer ago gets no code: its writer had one, or has given up. It is as long
/// as Hermes waits between two codes, so no message gets two.
const GREETED_WITHIN: Duration = Duration::from_secs(600);
/// A word to a stranger is tried so often; they can write again.
const GREETINGS_MAX: u32 = 4;
/// So many places are remembered by their last human message. Beyond that bots have less to spend.
const PLACES_MAX: usize = 4096;
/// A stranger who insists is counted once in this time.
const REFUSALS_COUNTED_EVERY: Duration = Duration::from_secs(600);

/// What one account needs to know.
#[derive(Clone)]
pub struct AccountSettings {
    /// Where files are kept that people send, and who was let in.
    pub home: PathBuf,
    pub platform: Platform,
    pub group_sessions_per_user: bool,
    pub thread_sessions_per_user: bool,
    /// Set where one gateway serves several profiles.
    pub profile: Option<String>,
    /// What a person may send, in bytes. None: as much as there is.
    pub media_bytes_max: Option<u64>,
    /// Other agents that messages may be for. None: all are for this one.
    pub neighbours: Option<Neighbours>,
}

impl AccountSettings {
    pub fn of(home: impl Into<PathBuf>, platforms: &Platforms, name: &str) -> Option<Self> {
        Some(Self {
            home: home.into(),
            platform: platforms.get(name)?.clone(),
            group_sessions_per_user: platforms.group_sessions_per_user,
            thread_sessions_per_user: platforms.thread_sessions_per_user,
            profile: None,
            media_bytes_max: platforms.media_bytes_max,
            neighbours: None,
        })
    }
}

/// Stands at the door of one account.
pub struct AccountIntake {
    api: Arc<dyn AgentApi>,
    adapter: Arc<dyn Adapter>,
    settings: AccountSettings,
    pairings: Arc<Pairings>,
    addressees: Addressees,
    meant: Meant,
    /// By place, the key of the last human message in it.
    humans: Mutex<BTreeMap<String, String>>,
    /// When a stranger was last counted.
    refused: Mutex<BTreeMap<String, Time>>,
    /// The roles that people had when they last wrote: a button does not tell.
    roles: Mutex<BTreeMap<String, Vec<String>>>,
}

impl AccountIntake {
    pub fn new(
        api: Arc<dyn AgentApi>,
        adapter: Arc<dyn Adapter>,
        settings: AccountSettings,
        pairings: Arc<Pairings>,
        live: Arc<Live>,
    ) -> Self {
        let meant = Meant::of(&settings.platform.mentions);
        api.introduce(adapter.name(), adapter.account());
        let bytes_max = settings.media_bytes_max;
        let shelf = Arc::new(ReceivedFiles::of(&settings.home, bytes_max));
        let own = Addressee { profile: None, api: api.clone(), live, shelf };
        let addressees = Addressees::new(own, settings.neighbours.clone(), bytes_max);
        let (humans, refused, roles) = Default::default();
        Self { api, adapter, settings, pairings, addressees, meant, humans, refused, roles }
    }

    fn rules<'a>(&'a self, addressee: &'a Addressee) -> KeyRules<'a> {
        KeyRules {
            group_sessions_per_user: self.settings.group_sessions_per_user,
            thread_sessions_per_user: self.settings.thread_sessions_per_user,
            profile: addressee.profile.as_deref().or(self.settings.profile.as_deref()),
            ..KeyRules::default()
        }
    }

    fn admits(&self, source: &Source, is_bot: bool, roles: &[String]) -> bool {
        let is_paired = |user: &str| self.pairings.is_approved(&source.platform, user);
        self.settings.platform.access.admits(Who { source, is_bot, roles }, &is_paired)
    }

    async fn take_in(&self, incoming: Incoming) -> Result<IntakeOutcome, NotNow> {
        let key = self.key(&incoming);
        let place = place(&incoming.reply_to);
        if !incoming.from_bot {
            self.heard(&place, key.as_str());
        }
        self.remember_roles(&incoming);
        let bots = self.settings.platform.access.bots;
        let unwanted_bot = incoming.from_bot
            && match bots {
                Bots::None => true,
                Bots::Mentions => !incoming.mentioned,
                Bots::All => false,
            };
        if unwanted_bot || !self.meant.is_for_us(&incoming) || incoming.is_empty() {
            return Ok(IntakeOutcome::Ignored);
        }
        if !self.admits(&incoming.source, incoming.from_bot, &incoming.roles) {
            self.turn_away(&incoming).await;
            return Ok(IntakeOutcome::Ignored);
        }
        // What Telegram's Start button sends: a platform's ping, and no person's words. Hermes is silent, too.
        if message_text::command(&incoming).is_some_and(|command| command.eq_ignore_ascii_case("start")) {
            return Ok(IntakeOutcome::Ignored);
        }
        let addressee = match self.addressees.of(&incoming.source) {
            Ok(addressee) => addressee,
            Err(absent) => return self.miss(&incoming, absent).await,
        };
        let Ok(chat_key) = chat_key(&incoming.source, &self.rules(&addressee)) else {
            let detail = format!("{}: its ids make no chat key", incoming.source.platform);
            self.api.note(None, "message_without_chat", detail);
            return Ok(IntakeOutcome::Ignored);
        };
        if let Some(command) = message_text::command(&incoming)
            && !self.settings.platform.access.orders.permits(&incoming.source, command)
        {
            self.say(&incoming.reply_to, message_text::no_such_right(command)).await;
            return Ok(IntakeOutcome::Ignored);
        }
        let incoming = match addressee.profile {
            Some(_) => Incoming { reply_to: incoming.reply_to.lent_by(self.addressees.name()), ..incoming },
            None => incoming,
        };
        let content = self.content(&incoming, &addressee).await;
        let trace = match incoming.from_bot {
            true => self.trace_of_bot(&incoming, &addressee, &place).await,
            false => Trace { origin: shared_origin(&incoming), ..Trace::default() },
        };
        let submission = self.submission(&incoming, chat_key, key, content, trace);
        let receipt = match addressee.api.submit(submission).await {
            Ok(receipt) => receipt,
            Err(refusal) if passes(&refusal) => return Err(NotNow(refusal.to_string())),
            Err(refusal) => {
                // Nothing that waiting would change: it must not hold up what comes after it.
                self.api.note(None, "message_refused", format!("{}: {refusal}", incoming.source.platform));
                return Ok(IntakeOutcome::Ignored);
            }
        };
        if !receipt.duplicate && !is_held(&addressee.api, &incoming, &receipt.session).await {
            let message = incoming.source.message_id.clone().or_else(|| incoming.reply_to.reply_to.clone());
            addressee.live.follow(Followed::new(receipt, incoming.reply_to, message));
        }
        Ok(IntakeOutcome::Kept)
    }

    /// It is for an agent that is not there. No other agent answers it, and its sender hears so.
    async fn miss(&self, incoming: &Incoming, absent: AddresseeAbsent) -> Result<IntakeOutcome, NotNow> {
        let platform = &incoming.source.platform;
        match absent {
            AddresseeAbsent::Now { profile } => Err(NotNow(format!(
                "a message on {platform} is for the agent {profile}, which does not run yet"
            ))),
            // A program named it, and can deliver again; there is no person to tell in words.
            AddresseeAbsent::Gone { profile } if incoming.source.profile.is_some() => {
                Err(NotNow(format!("the profile {profile} does not run here")))
            }
            AddresseeAbsent::Gone { profile } => {
                tracing::error!(
                    platform,
                    profile,
                    chat = incoming.source.chat_id,
                    "profile_routes lead to a profile that does not run here; the message was refused"
                );
                let detail = format!("{platform}: it is for the profile {profile}, which does not run here");
                self.api.note(None, "message_refused", detail);
                self.say(&incoming.reply_to, message_text::nobody_there(&profile)).await;
                Ok(IntakeOutcome::Ignored)
            }
        }
    }

    /// A notice to the chat that its program speaks through: it lies in the outbox with the commit that
    /// accepts it. Access rules do not apply: its sender has shown that it may.
    async fn pass_on(&self, letter: DirectDelivery) -> Result<IntakeOutcome, NotNow> {
        let DirectDelivery { source, identity, place, text, at } = letter;
        let key = self.key_of(&source, &identity);
        // Only an agent's own bots are among its platforms: what leaves by another's lies in that one's outbox.
        let addressee = match place.platform == source.platform {
            true => self.addressees.own.clone(),
            false => self.addressees.of(&source).map_err(|absent| match absent {
                AddresseeAbsent::Now { profile } => NotNow(format!("the agent {profile} does not run yet")),
                AddresseeAbsent::Gone { profile } => {
                    NotNow(format!("the profile {profile} does not run here"))
                }
            })?,
        };
        let Ok(chat_key) = chat_key(&source, &self.rules(&addressee)) else {
            return Err(NotNow(format!("{}: its ids make no chat key", source.platform)));
        };
        let chat = described(&source, chat_key);
        let submission = Submission {
            target: Target::Chat(chat.clone()),
            birth: Birth { source: source.platform.clone(), chat: Some(chat), ..Birth::default() },
            at,
            key,
            kind: Kind::Command(Command::Notice { text }),
            reply_to: Some(place),
            sender: None,
            platform_id: identity.last().cloned(),
            trace: Trace::default(),
            may_be_retry: false,
            can_answer: true,
            gathers: None,
        };
        let kept = addressee.api.submit(submission).await;
        kept.map(|_| IntakeOutcome::Kept).map_err(|refusal| NotNow(refusal.to_string()))
    }

    fn key(&self, incoming: &Incoming) -> DedupeKey {
        self.key_of(&incoming.source, &incoming.identity)
    }

    fn key_of(&self, source: &Source, identity: &[String]) -> DedupeKey {
        let mut fields = vec![source.platform.as_str(), self.adapter.account()];
        fields.extend(identity.iter().map(String::as_str));
        DedupeKey::of(&fields)
    }

    fn submission(
        &self,
        incoming: &Incoming,
        key: ChatKey,
        dedupe: DedupeKey,
        content: Content,
        trace: Trace,
    ) -> Submission {
        let source = &incoming.source;
        let chat = described(source, key);
        let user = source.user_id.clone();
        let sender = user.clone().map(|id| Sender { id, name: source.user_name.clone() });
        Submission {
            target: Target::Chat(chat.clone()),
            birth: Birth {
                source: source.platform.clone(),
                user,
                chat: Some(chat),
                room: self.room(incoming),
                ..Birth::default()
            },
            at: incoming.at,
            key: dedupe,
            kind: Kind::Chat(content),
            reply_to: Some(incoming.reply_to.clone()),
            sender,
            platform_id: message_id(incoming),
            trace,
            may_be_retry: false,
            can_answer: true,
            gathers: incoming.gathers,
        }
    }

    /// What the place adds to the prompt of a session that begins in it.
    fn room(&self, incoming: &Incoming) -> Room {
        let Source { chat_id, thread_id, parent_chat_id, .. } = &incoming.source;
        let platform = &self.settings.platform;
        let places = [thread_id.as_deref(), Some(chat_id.as_str()), parent_chat_id.as_deref()];
        let mut skills: Vec<String> = places
            .iter()
            .flatten()
            .map(|id| platform.skills(id, None))
            .find(|skills| !skills.is_empty())
            .unwrap_or_default();
        for skill in &incoming.skills {
            if !skills.contains(skill) {
                skills.push(skill.clone());
            }
        }
        let prompt = places.iter().flatten().find_map(|id| platform.prompt(id, None));
        Room { prompt: prompt.map(str::to_owned), skills }
    }

    /// As the model reads it. An order is left as it was typed.
    async fn content(&self, incoming: &Incoming, addressee: &Addressee) -> Content {
        if message_text::command(incoming).is_some() && incoming.attachments.is_empty() && !incoming.from_bot
        {
            return Content::text(incoming.text.trim());
        }
        let kept = addressee.shelf.keep(self.adapter.as_ref(), incoming, self.key(incoming).as_str()).await;
        let shared = is_shared(&incoming.source, &self.rules(addressee));
        let text = message_text::shaped(incoming, shared, &kept);
        let images: Vec<Part> = kept
            .into_iter()
            .filter_map(|file| file.image)
            .map(|url| Part::Image { url, detail: None })
            .collect();
        match images.is_empty() {
            true => Content::text(text),
            false => Content::Parts(std::iter::once(Part::Text(text)).chain(images).collect()),
        }
    }

    /// Shows how those turns go on that were begun before a start, and people wait for at this account. Of
    /// other agents, those that run by then.
    pub async fn show_what_runs(&self) {
        for addressee in self.addressees.all() {
            let Ok(Reading::Running(running)) = addressee.api.read(Question::Running).await else {
                continue;
            };
            for Running { session, seq, place, platform_id } in running {
                let lender = addressee.profile.as_ref().map(|_| self.addressees.name());
                let ours = place.platform == self.adapter.name() && place.lender() == lender;
                if !ours {
                    continue;
                }
                if let Ok(receipt) = addressee.api.follow(session, seq).await {
                    let message = platform_id.or_else(|| place.reply_to.clone());
                    addressee.live.follow(Followed::new(receipt, place, message));
                }
            }
        }
    }

    // ----------------------------------------------------------------------------------- chains

    fn heard(&self, place: &str, key: &str) {
        let mut humans = self.humans.lock().expect("nothing panics while it holds the places");
        if humans.len() >= PLACES_MAX && !humans.contains_key(place) {
            humans.pop_first();
        }
        humans.insert(place.to_owned(), key.to_owned());
    }

    /// What a bot's words follow from, if it is one of our agents, in this process or another. Unknown is what
    /// other bots answer: of those only the last human message that was heard in the same place is told.
    async fn trace_of_bot(&self, incoming: &Incoming, addressee: &Addressee, place: &str) -> Trace {
        let post = Post {
            platform: incoming.source.platform.clone(),
            chat: incoming.reply_to.chat.clone(),
            message: message_id(incoming).unwrap_or_default(),
            author: incoming.source.user_id.clone().unwrap_or_default(),
        };
        if let Some(trace) = addressee.api.recognise(post).await {
            return trace;
        }
        let humans = self.humans.lock().expect("nothing panics while it holds the places");
        let heard = humans.get(place).map_or("", String::as_str).into();
        Trace { hops: 1, foreign: Some(heard), ..Trace::default() }
    }

    fn remember_roles(&self, incoming: &Incoming) {
        let Some(user) = &incoming.source.user_id else { return };
        let mut known = self.roles.lock().expect("nothing panics while it holds the roles");
        match incoming.roles.is_empty() {
            true => drop(known.remove(user)),
            false => {
                if known.len() >= PLACES_MAX && !known.contains_key(user) {
                    known.pop_first();
                }
                known.insert(user.clone(), incoming.roles.clone());
            }
        }
    }

    fn remembered_roles(&self, source: &Source) -> Vec<String> {
        let known = self.roles.lock().expect("nothing panics while it holds the roles");
        source.user_id.as_ref().and_then(|user| known.get(user)).cloned().unwrap_or_default()
    }

    // -------------------------------------------------------------------------------- strangers

    async fn turn_away(&self, incoming: &Incoming) {
        let source = &incoming.source;
        let Some(user) = source.user_id.as_deref().filter(|user| !user.is_empty()) else { return };
        self.count_refusal(source, user);
        let greets = source.chat_type == "dm"
            && !incoming.from_bot
            && self.settings.platform.access.strangers == Strangers::Pair
            && self.api.now().since(incoming.at) < GREETED_WITHIN;
        if !greets {
            return;
        }
        let name = source.user_name.as_deref().unwrap_or_default();
        let text = match self.pairings.request(&source.platform, user, name, self.api.now()) {
            Ok(Ok(code)) => message_text::pairing(&source.platform, &code),
            Ok(Err(NoCode::TooMany)) => message_text::TOO_MANY_CODES.to_owned(),
            Ok(Err(NoCode::TooSoon)) => return,
            Err(error) => {
                tracing::error!(%error, "no pairing code could be given; look at the pairing directory of the home");
                return;
            }
        };
        self.say(&incoming.reply_to, text).await;
    }

    fn count_refusal(&self, source: &Source, user: &str) {
        let who = format!("{}:{user}", source.platform);
        let now = self.api.now();
        {
            let mut refused = self.refused.lock().expect("nothing panics while it holds the strangers");
            if refused.get(&who).is_some_and(|last| now.since(*last) < REFUSALS_COUNTED_EVERY) {
                return;
            }
            if refused.len() >= PLACES_MAX {
                refused.pop_first();
            }
            refused.insert(who.clone(), now);
        }
        tracing::info!(platform = source.platform, user, "somebody wrote who may not");
        self.api.note(None, "stranger_refused", who);
    }

    /// A word that is no reply of the agent's. Tried a few times, beside what comes next.
    async fn say(&self, place: &Destination, text: String) {
        let (adapter, place) = (self.adapter.clone(), place.clone());
        tokio::spawn(async move {
            for nth in 0..GREETINGS_MAX {
                match adapter.post(&place, &text).await {
                    Err(SendError::Later { after, .. }) => {
                        sleep(after.unwrap_or(Duration::from_secs(1 << nth)).min(Duration::from_secs(60)))
                            .await;
                    }
                    _ => return, // it is there, may be there, or never will be
                }
            }
        });
    }

    // ---------------------------------------------------------------------------------- buttons

    async fn pressed(&self, press: Press) -> Result<String, NotNow> {
        let Press { source, call, verdict } = press;
        let order = match verdict {
            Verdict::Denied { .. } => "deny",
            _ => "approve",
        };
        let roles = self.remembered_roles(&source);
        let may = self.admits(&source, false, &roles)
            && self.settings.platform.access.orders.permits(&source, order);
        let addressee = match self.addressees.of(&source) {
            Ok(addressee) => addressee,
            Err(AddresseeAbsent::Now { profile }) => {
                return Err(NotNow(format!("the agent {profile} does not run yet")));
            }
            Err(AddresseeAbsent::Gone { profile }) => return Ok(message_text::nobody_there(&profile)),
        };
        if !may || !self.is_here(&source, &call.session, &addressee).await {
            self.api.note(
                Some(call.session.clone()),
                "press_refused",
                format!("{}: {call}", source.platform),
            );
            return Ok("You may not answer this.".to_owned());
        }
        let said = message_text::decided(&verdict);
        match addressee.api.decide(call, verdict).await {
            Ok(()) => Ok(said),
            Err(refusal) if passes(&refusal) => Err(NotNow(refusal.to_string())),
            Err(_) => Ok("This was answered already, or is not asked any more.".to_owned()),
        }
    }

    /// Whether a session belongs to the chat of a person who presses a button: what is asked elsewhere is not
    /// theirs to answer.
    async fn is_here(&self, source: &Source, session: &SessionId, addressee: &Addressee) -> bool {
        let known = addressee.api.read(Question::Session(session.clone())).await;
        let Ok(Reading::Session(Some(summary))) = known else { return false };
        let Some(chat) = summary.chat else { return true }; // it works for another one, or for no chat
        let rules = self.rules(addressee);
        let Ok(own) = chat_key(source, &rules) else { return false };
        let everyone = Source { user_id: None, user_id_alt: None, ..source.clone() };
        let Ok(whole) = chat_key(&everyone, &rules) else { return false };
        let of_a_member = source.chat_type != "dm" && chat.starts_with(&format!("{whole}:"));
        chat == own.as_str() || chat == whole.as_str() || of_a_member
    }
}

impl Incoming {
    fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.attachments.is_empty() && self.context.is_none()
    }
}

fn described(source: &Source, key: ChatKey) -> Chat {
    let origin = throughline_hermes::json::dumps(&source.to_json());
    Chat {
        key,
        platform: source.platform.clone(),
        chat_type: source.chat_type.clone(),
        display_name: source.chat_name.clone().or_else(|| source.user_name.clone()),
        origin: Some(JsonText::from_valid(origin)),
    }
}

/// As everybody in the chat knows it.
fn message_id(incoming: &Incoming) -> Option<String> {
    incoming.source.message_id.clone().or_else(|| incoming.identity.last().cloned())
}

/// One human message that several of our agents hear is one origin for all of them, where its id is the same for
/// every bot. Empty: it is this agent's alone.
fn shared_origin(incoming: &Incoming) -> Arc<str> {
    let Source { platform, chat_id, chat_type, .. } = &incoming.source;
    let same_for_all = match platform.as_str() {
        "discord" | "slack" => true,
        "telegram" => chat_id.starts_with("-100"), // in other chats each bot counts for itself
        _ => false,
    };
    match message_id(incoming).filter(|_| same_for_all && chat_type != "dm") {
        Some(message) => DedupeKey::of(&["message", platform, chat_id, &message]).as_str().into(),
        None => "".into(),
    }
}

/// Whether the same is worth trying in a moment.
fn passes(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Draining | Refusal::Unwritable(_) | Refusal::Internal(_))
}

fn place(destination: &Destination) -> String {
    let Destination { platform, account, chat, thread, .. } = destination;
    let thread = thread.as_deref().unwrap_or_default();
    DedupeKey::of(&["place", platform, account, chat, thread]).to_string()
}

impl Intake for AccountIntake {
    fn take(&self, incoming: Incoming) -> Promise<'_, Result<IntakeOutcome, NotNow>> {
        Box::pin(self.take_in(incoming))
    }

    fn press(&self, press: Press) -> Promise<'_, Result<String, NotNow>> {
        Box::pin(self.pressed(press))
    }

    fn deliver(&self, letter: DirectDelivery) -> Promise<'_, Result<IntakeOutcome, NotNow>> {
        Box::pin(self.pass_on(letter))
    }

    fn asking(&self) -> Promise<'_, Vec<CallId>> {
        Box::pin(async {
            let mut calls = Vec::new();
            for addressee in self.addressees.all() {
                // One that cannot be read asks nothing: the press is answered in words, and can be repeated.
                if let Ok(Reading::Asks(asks)) = addressee.api.read(Question::Asks).await {
                    calls.extend(asks.into_iter().map(|pending| pending.call));
                }
            }
            calls
        })
    }

    fn cursor<'a>(&'a self, platform: &'a str, account: &'a str) -> Promise<'a, Option<String>> {
        Box::pin(async move {
            match self.api.cursor(platform.to_owned(), account.to_owned()).await {
                Ok(cursor) => cursor,
                Err(error) => {
                    // From the beginning, then: what was taken before is known by its key.
                    tracing::warn!(
                        platform,
                        error = error.in_full(),
                        "where a platform was left cannot be read"
                    );
                    None
                }
            }
        })
    }

    fn keep<'a>(
        &'a self,
        platform: &'a str,
        account: &'a str,
        cursor: String,
    ) -> Promise<'a, Result<(), NotNow>> {
        Box::pin(async move {
            let kept = self.api.keep_cursor(platform.to_owned(), account.to_owned(), cursor).await;
            kept.map_err(|error| NotNow(error.in_full()))
        })
    }

    fn now(&self) -> Time {
        self.api.now()
    }
}

/// How far a yes reaches, for the person who pressed it.
pub(crate) fn reach(grant: Grant) -> &'static str {
    match grant {
        Grant::Once => "Allowed once.",
        Grant::Session => "Allowed for this session.",
        Grant::Always => "Allowed for good.",
    }
}
