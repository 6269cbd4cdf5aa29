//! Carries out deferred_commands: looks up what the machine has to know before it decides, and does what lies outside of
//! a conversation.
//!
//! All it finds it reports by mail; it writes nothing itself. A deferred command that a crash cut short is begun
//! again, so what it does elsewhere happens under a key of its own. The module asks [`HostCommands`] for what
//! only the program around the gateway can do. People see only what is theirs: the rest is not there.

use crate::agent::Home;
use crate::ingress::Ingress;
use crate::owner;
use crate::scope;
use crate::turn::JobContext;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::command::{ALL, DeferredCommand, Entry, Found, Past, not_done};
use throughline_core::input::{BACKGROUND, Birth, DedupeKey, Kind, Request, Trace};
use throughline_core::memory::{Naming, Scope as Whose};
use throughline_core::message::Body;
use throughline_core::port::{
    AgentApi as _, Assignment, Health, HostCommands, Model, Models, Promise, Read, Refusal, Resumable, Scope,
    SessionFilter, SessionSummary, StoreError, Submission, Titling,
};
use throughline_core::redact::redacted;
use throughline_core::route::Target;
use throughline_core::session::compress::thousands;
use throughline_core::session::{Event, Preferences};
use throughline_core::{Content, Seq, SessionId, Time};
use tokio::time::{sleep, timeout};

/// A deferred command that takes longer has come to nothing: no order waits behind it for ever.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two tries on a store, or an ingress, that cannot be used right now.
const PAUSE: Duration = Duration::from_secs(1);
/// As many conversations fit on a telephone.
const LISTED_MAX: usize = 10;
/// Where sessions come from that people held at the machine itself.
const TERMINAL: &str = "cli";
const COMMANDS_PER_PAGE: usize = 40;
/// What shows how the machine is set up, or writes to it: not for everybody who may write to the agent.
const FOR_OWNERS: [&str; 6] = ["config", "debug", "platforms", "plugins", "save", "toolsets"];
/// What a model may be asked to think; others are refused before a provider refuses them in every turn.
const LEVELS: [&str; 8] = ["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"];

/// One deferred command, and what is known about the session that it is for.
#[derive(Clone)]
pub(crate) struct Order {
    pub seq: Seq,
    pub session: SessionId,
    pub deferred: DeferredCommand,
    pub asked: Assignment,
    /// What the context of the session weighs.
    pub context: u64,
}

pub(crate) async fn carry_out(context: JobContext, order: Order) {
    let seq = order.seq;
    let name = order.deferred.name().to_owned();
    let looking = timeout(PATIENCE, order.found(&context.home));
    let found = match AssertUnwindSafe(looking).catch_unwind().await {
        Ok(Ok(found)) => found,
        Ok(Err(_)) => Found::Said(format!("/{name} took too long and was given up. Try again later.")),
        Err(_) => {
            tracing::error!(name, "a deferred command panicked");
            Found::Said(format!("/{name} failed inside the gateway. This is a bug; its log has more."))
        }
    };
    context.report(Event::Ordered { seq, found });
}

impl Order {
    /// Waits for a busy store, and reports a broken one.
    async fn found(&self, home: &Arc<Home>) -> Found {
        loop {
            match self.look(home).await {
                Ok(found) => return found,
                Err(StoreError::Busy | StoreError::Unwritable(_)) => sleep(PAUSE).await,
                Err(error) => {
                    tracing::error!(error = error.in_full(), "a deferred command could not read the store");
                    return Found::Said(
                        "The store could not be read; the log has more. Try again later.".into(),
                    );
                }
            }
        }
    }

    async fn look(&self, home: &Arc<Home>) -> Result<Found, StoreError> {
        match &self.deferred {
            DeferredCommand::Undo { turns } => {
                self.past(home, *turns, "There is nothing to take back.").await
            }
            DeferredCommand::Retry => self.past(home, 1, "There is no message to ask again.").await,
            DeferredCommand::New { successor, title } => self.title(home, successor, title).await,
            DeferredCommand::Title { wanted: Some(title) } => {
                match self.title(home, &self.session, title).await? {
                    Found::Titled(Ok(title)) => self.beside_memory(home, title).await,
                    found => Ok(found),
                }
            }
            DeferredCommand::Title { wanted: None } => self.show_title(home).await,
            DeferredCommand::Branch { name, .. } => self.copy(home, name.as_deref()).await,
            DeferredCommand::Resume { wanted: None, everywhere } => {
                let reach = self.reach(home, *everywhere).await?;
                self.list(home, reach).await
            }
            DeferredCommand::Resume { wanted: Some(wanted), everywhere } => {
                let reach = self.reach(home, *everywhere).await?;
                self.earlier(home, wanted, reach).await
            }
            DeferredCommand::Background { session, text } => Ok(self.background(home, session, text).await),
            DeferredCommand::Other { name, .. }
                if FOR_OWNERS.contains(&name.as_str()) && !self.is_owner(home).await? =>
            {
                Ok(Found::Said(format!(
                    "/{name} is about the machine, so it answers at the terminal (`throughline chat`), and in private to those \
                     whom allow_admin_from names."
                )))
            }
            DeferredCommand::Other { name, argument } => match not_done(name, argument) {
                Some(said) => Ok(Found::Said(said)),
                None => match home.host_commands.carry_out(&self.asked).await {
                    Some(found) => Ok(found),
                    None => self.other(home, name, argument).await,
                },
            },
        }
    }

    async fn past(&self, home: &Home, turns: u32, nothing: &str) -> Result<Found, StoreError> {
        let (id, context) = (self.session.clone(), self.context);
        let (past, live) = home
            .library
            .read(move |store| {
                let live = store.history(&id)?;
                let spoken = store.spoken(&id)?;
                Ok((Past::of(&live, &spoken, turns, context), live.len()))
            })
            .await?;
        Ok(match past {
            Some(past) => Found::Past(past),
            None if live > 0 => Found::Said(format!(
                "{nothing} A summary stands for what was said before. `throughline sessions snapshots {}` \
                 lists what it stands for, and `throughline sessions restore` brings it back.",
                self.session
            )),
            None => Found::Said(nothing.to_owned()),
        })
    }

    async fn title(&self, home: &Home, session: &SessionId, title: &str) -> Result<Found, StoreError> {
        let (id, wanted) = (session.clone(), title.to_owned());
        let titling = home.library.read(move |store| store.titling(&id, &wanted)).await?;
        Ok(Found::Titled(match titling {
            Titling::Free(title) => Ok(title),
            refused => Err(untitled(&refused)),
        }))
    }

    /// A name that the memory outside has given this conversation stays, even if it has another name here.
    async fn beside_memory(&self, home: &Home, title: String) -> Result<Found, StoreError> {
        let Some(memory) = &home.memory else { return Ok(Found::Titled(Ok(title))) };
        let scope = scope::of_session(home, &self.session).await?;
        let Some(elsewhere) = scope.document.clone() else { return Ok(Found::Titled(Ok(title))) };
        let Naming { name, otherwise } =
            memory.provider.naming(&Whose { title: Some(title.clone()), ..scope });
        Ok(match name == elsewhere || otherwise.as_ref() == Some(&elsewhere) {
            true => Found::Titled(Ok(title)),
            false => Found::TitledHere { title, elsewhere },
        })
    }

    async fn show_title(&self, home: &Home) -> Result<Found, StoreError> {
        let summary = self.summary(home).await?;
        let id = &self.session;
        Ok(Found::Said(match summary.and_then(|summary| summary.title) {
            Some(title) => {
                format!("This conversation is called \"{title}\" ({id}). /title <name> renames it.")
            }
            None => format!("This conversation has no title ({id}). /title <name> gives it one."),
        }))
    }

    async fn summary(&self, home: &Home) -> Result<Option<SessionSummary>, StoreError> {
        let id = self.session.clone();
        home.library.read(move |store| store.session(&id)).await
    }

    async fn copy(&self, home: &Home, name: Option<&str>) -> Result<Found, StoreError> {
        let (id, name) = (self.session.clone(), name.map(str::to_owned));
        home.library
            .read(move |store| {
                let live = store.history(&id)?;
                if live.is_empty() {
                    return Ok(Found::Said("There is no conversation yet that could be copied.".into()));
                }
                let title = match &name {
                    Some(name) => match store.titling(&id, name)? {
                        Titling::Free(title) => title,
                        Titling::Held { title, .. } => store.next_title(&title)?,
                        refused => return Ok(Found::Said(untitled(&refused))),
                    },
                    None => {
                        let base = store.session(&id)?.and_then(|summary| summary.title);
                        store.next_title(base.as_deref().unwrap_or("branch"))?
                    }
                };
                let said = live.iter().filter(|(_, message)| matches!(message.body, Body::User(_)));
                Ok(Found::Copy { title, messages: said.count(), rows: live.len() })
            })
            .await
    }

    /// What this caller may see of the home.
    fn scope(&self) -> Scope {
        let Assignment { source, principal, user, place, .. } = &self.asked;
        if source == TERMINAL {
            return Scope::Owner;
        }
        if let Some(principal) = principal {
            return Scope::Principal(principal.clone());
        }
        // Between two no third person reads along: all that is theirs on this platform can be shown.
        let chat = place.as_ref().map(|place| place.chat.clone()).filter(|_| !self.asked.is_private);
        Scope::Person { source: source.clone(), user: user.clone(), chat }
    }

    /// At the terminal, or one whom the operator named as administrator, in a private chat.
    async fn is_owner(&self, home: &Home) -> Result<bool, StoreError> {
        Ok(match self.scope() {
            Scope::Owner => true,
            Scope::Person { source, user: Some(user), chat: None } => {
                home.administrators.iter().any(|(platform, known)| *platform == source && *known == user)
            }
            Scope::Person { .. } | Scope::Principal(_) => false,
        })
    }

    /// An owner, where no other person reads along: the one whom [`owner::chat`] asks.
    async fn may_answer(&self, home: &Home) -> Result<bool, StoreError> {
        Ok(match self.scope() {
            Scope::Owner => true,
            Scope::Person { source, user: Some(user), chat: None } => {
                (home.owners)().contains(&(source, user))
            }
            Scope::Person { .. } | Scope::Principal(_) => false,
        })
    }

    /// As far as `/resume` reaches. Hermes' `--all` shows an administrator all that anyone said; here no one is
    /// shown what another person said, so it adds what was said at the terminal, to the administrators whom
    /// `allow_admin_from` names and in private chats. Everybody else hears that it adds nothing.
    async fn reach(&self, home: &Home, everywhere: bool) -> Result<Reach, StoreError> {
        let scope = self.scope();
        let administrates = |source: &str, user: &str| {
            home.administrators.iter().any(|(platform, known)| platform == source && known == user)
        };
        let (terminal, remark) = match &scope {
            _ if !everywhere => (false, None),
            Scope::Owner => (false, None), // that is everything
            Scope::Person { chat: Some(_), .. } => (
                false,
                Some(
                    "--all adds nothing where others read along. Write to me directly: there /resume lists all \
                      that is yours.",
                ),
            ),
            Scope::Person { source, user: Some(user), chat: None } if administrates(source, user) => {
                (true, None)
            }
            Scope::Person { .. } | Scope::Principal(_) => (
                false,
                Some(
                    "--all adds nothing for you: what others said is theirs, and what was said at the terminal \
                      is for those whom allow_admin_from names.",
                ),
            ),
        };
        let own = SessionFilter { scope: Some(scope), ..SessionFilter::default() };
        let at_the_terminal = SessionFilter { source: Some(TERMINAL.into()), ..SessionFilter::default() };
        Ok(Reach {
            filters: std::iter::once(own).chain(terminal.then_some(at_the_terminal)).collect(),
            remark,
        })
    }

    async fn titled(&self, home: &Home, reach: &Reach) -> Result<Vec<SessionSummary>, StoreError> {
        let filters: Vec<SessionFilter> = reach
            .filters
            .iter()
            .map(|filter| SessionFilter { without_helpers: true, limit: 200, ..filter.clone() })
            .collect();
        let id = self.session.clone();
        let mut found = home.library.read(move |store| sessions(store, &filters)).await?;
        found.retain(|summary| summary.title.is_some() && summary.id != id);
        found.sort_by_key(|summary| std::cmp::Reverse(summary.last_active));
        found.truncate(LISTED_MAX);
        Ok(found)
    }

    async fn list(&self, home: &Home, reach: Reach) -> Result<Found, StoreError> {
        let found = self.titled(home, &reach).await?;
        if found.is_empty() {
            let said = "No earlier conversation of yours has a title. /title names one, /sessions lists all.";
            return Ok(Found::Said(reach.told(said.into())));
        }
        let now = home.clock.now();
        let lines = found.iter().enumerate().map(|(nth, summary)| line(nth + 1, summary, now));
        let lines: Vec<String> = lines.collect();
        let again = if reach.filters.len() > 1 { " --all" } else { "" };
        let said = format!("{}\n/resume <number>, <title> or <id>{again} goes on with it.", lines.join("\n"));
        Ok(Found::Said(reach.told(said)))
    }

    async fn earlier(&self, home: &Home, wanted: &str, reach: Reach) -> Result<Found, StoreError> {
        let unknown = Found::Said(reach.told(format!(
            "No conversation of yours is called \"{wanted}\". /resume lists those with a title, /sessions all."
        )));
        let Some(id) = self.meant(home, wanted, &reach).await? else { return Ok(unknown) };
        let found = home.library.read(move |store| store.resumable(&id)).await?;
        let Some(Resumable { session, title, messages, received, busy, chat, helper }) = found else {
            return Ok(unknown);
        };
        Ok(match () {
            () if session == self.session => Found::Said("You are there already.".into()),
            () if helper => unknown,
            () if chat.is_some() => Found::Said(format!(
                "{session} goes on in another chat. Write there, or /new there to end it first."
            )),
            () if busy => {
                Found::Said(format!("Something is still being done in {session}. Try again in a moment."))
            }
            () => Found::Earlier { session, title, messages, received },
        })
    }

    /// A number of the list, an id, or a title: of a lineage the newest.
    async fn meant(&self, home: &Home, wanted: &str, reach: &Reach) -> Result<Option<SessionId>, StoreError> {
        if let Ok(number) = wanted.parse::<usize>() {
            let found = self.titled(home, reach).await?;
            return Ok(number
                .checked_sub(1)
                .and_then(|nth| found.get(nth))
                .map(|summary| summary.id.clone()));
        }
        let each = |change: &dyn Fn(SessionFilter) -> SessionFilter| -> Vec<SessionFilter> {
            reach.filters.iter().cloned().map(change).collect()
        };
        let by_id = wanted
            .parse::<SessionId>()
            .ok()
            .map(|id| each(&|filter| SessionFilter { session: Some(id.clone()), ..filter }));
        let by_title = each(&|filter| SessionFilter { title: Some(wanted.to_owned()), ..filter });
        let wanted = wanted.to_owned();
        home.library
            .read(move |store| {
                if let Some(filters) = by_id
                    && let Some(found) = sessions(store, &filters)?.into_iter().next()
                {
                    return Ok(Some(found.id));
                }
                let found = sessions(store, &by_title)?;
                let exact = |summary: &&SessionSummary| summary.title.as_deref() == Some(&wanted);
                let numbered = found.iter().filter(|summary| !exact(summary));
                let newest = numbered.max_by_key(|summary| summary.started);
                Ok(newest.or_else(|| found.iter().find(exact)).map(|summary| summary.id.clone()))
            })
            .await
    }

    /// A session of its own, whose answer is read here.
    async fn background(&self, home: &Arc<Home>, session: &SessionId, text: &str) -> Found {
        let ingress = Ingress(home.clone());
        let Assignment { source, user, principal, place, key, .. } = &self.asked;
        let submission = Submission {
            target: Target::Session(session.clone()),
            birth: Birth {
                source: source.clone(),
                user: user.clone(),
                principal: principal.clone(),
                ..Birth::default()
            },
            at: ingress.now(),
            key: DedupeKey::of(&[BACKGROUND, key]),
            kind: Kind::Request(Request { content: Content::text(text), ..Request::default() }),
            reply_to: place.clone(),
            sender: None,
            platform_id: None,
            trace: Trace::default(),
            may_be_retry: false,
            can_answer: true,
            gathers: None,
        };
        loop {
            match ingress.submit(submission.clone()).await {
                Ok(_) if place.is_some() => {
                    return Found::Said(format!(
                        "It is being done beside this conversation, as {session}. The answer comes here; \
                         /agents shows how far it is."
                    ));
                }
                Ok(_) => {
                    return Found::Said(format!(
                        "It is being done beside this conversation, as {session}: /resume {session} shows the answer."
                    ));
                }
                Err(Refusal::Unwritable(_)) => sleep(PAUSE).await,
                Err(refusal) => return Found::Said(format!("It could not be begun: {refusal}.")),
            }
        }
    }

    async fn other(&self, home: &Arc<Home>, name: &str, argument: &str) -> Result<Found, StoreError> {
        Ok(match name {
            "approve" | "deny" if self.may_answer(home).await? => {
                Found::Said(owner::answer(home, name, argument).await?)
            }
            "approve" | "deny" => Found::Said(
                "Only the owner of the agent answers questions of other conversations, in private. Without a code, /approve and \
                 /deny answer what is asked here."
                    .into(),
            ),
            "sessions" => self.sessions(home, argument).await?,
            "agents" => self.agents(home).await?,
            "usage" => self.usage(home).await?,
            "insights" => self.insights(home, argument).await?,
            "whoami" => Found::Said(self.whoami()),
            "platforms" => Found::Said(platforms(home)),
            "topic" => Found::Said(format!(
                "Each topic or thread of a chat has a conversation of its own; nothing has to be switched on for it. This one \
                 is {}.",
                self.session
            )),
            "profile" => Found::Said(format!("This is the agent {}.", home.rules.agent)),
            "commands" => Found::Said(commands(home.host_commands.names(&self.asked).await, argument)),
            "model" => self.model(home, argument),
            "reasoning" => self.reasoning(argument),
            "undo" => Found::Said(format!("{argument:?} is no number of exchanges: /undo, or /undo 3.")),
            "background" => Found::Said("Say what is to be done: /background <text>".into()),
            other => Found::Said(format!("/{other} is not to be had in this gateway.")),
        })
    }

    async fn sessions(&self, home: &Home, words: &str) -> Result<Found, StoreError> {
        let words = words.strip_prefix("search ").unwrap_or(words).trim().to_owned();
        let filter = SessionFilter {
            scope: Some(self.scope()),
            without_helpers: true,
            one_each: true,
            limit: LISTED_MAX,
            ..SessionFilter::default()
        };
        let now = home.clock.now();
        if words.is_empty() {
            let found = home.library.read(move |store| store.sessions(&filter)).await?;
            let lines = found.iter().enumerate().map(|(nth, summary)| line(nth + 1, summary, now));
            let lines: Vec<String> = lines.collect();
            return Ok(Found::Said(match lines.is_empty() {
                true => "There is no conversation of yours yet.".into(),
                false => format!("{}\n/resume <id or title> goes on with one.", lines.join("\n")),
            }));
        }
        let query = words.clone();
        let found = home.library.read(move |store| store.search(&query, &filter)).await?;
        let lines: Vec<String> = found
            .iter()
            .map(|hit| {
                let title = hit.title.as_deref().unwrap_or("without a title");
                let snippet = hit.snippet.split_whitespace().collect::<Vec<_>>().join(" ");
                format!("{title} ({}): {snippet}", hit.session)
            })
            .collect();
        Ok(Found::Said(match lines.is_empty() {
            true => format!("\"{words}\" was said in no conversation of yours."),
            false => format!("{}\n/resume <id> goes on with one.", lines.join("\n")),
        }))
    }

    async fn agents(&self, home: &Home) -> Result<Found, StoreError> {
        let scope = self.scope();
        let here = self.session.clone();
        let lines = home
            .library
            .read(move |store| {
                let children = store.children(&here)?;
                let mut lines = Vec::new();
                for session in store.unfinished()?.into_iter().filter(|session| *session != here) {
                    let filter = SessionFilter {
                        session: Some(session.clone()),
                        scope: Some(scope.clone()),
                        ..SessionFilter::default()
                    };
                    let seen = store.sessions(&filter)?.into_iter().next();
                    let mine = if children.contains(&session) { store.session(&session)? } else { None };
                    let Some(summary) = mine.or(seen) else { continue };
                    lines.push(format!("{session}: {}", summary.preview));
                }
                Ok(lines)
            })
            .await?;
        Ok(Found::Said(match lines.len() {
            0 => "Nothing runs beside this conversation.".into(),
            _ => format!("Running beside this conversation:\n{}", lines.join("\n")),
        }))
    }

    async fn usage(&self, home: &Home) -> Result<Found, StoreError> {
        let Some(summary) = self.summary(home).await? else {
            return Ok(Found::Said("Nothing was said here yet.".into()));
        };
        let usage = summary.usage;
        let model = self.asked.preferences.model.as_deref().unwrap_or_else(|| home.model.name());
        Ok(Found::Said(format!(
            "{} tokens read (and {} more from the provider's cache), {} written, in {} messages and {} calls of \
             tools. About {} tokens are in context. {model} answers.",
            thousands(usage.input),
            thousands(usage.cache_read),
            thousands(usage.output),
            summary.messages,
            summary.tool_calls,
            thousands(self.context),
        )))
    }

    async fn insights(&self, home: &Home, days: &str) -> Result<Found, StoreError> {
        let days: u64 = days.trim().parse().unwrap_or(30).clamp(1, 3_650);
        let filter = SessionFilter { scope: Some(self.scope()), limit: 10_000, ..SessionFilter::default() };
        let now = home.clock.now();
        let mut found = home.library.read(move |store| store.sessions(&filter)).await?;
        found.retain(|summary| now.since(summary.last_active) <= Duration::from_secs(days * 86_400));
        let sum = |count: fn(&SessionSummary) -> u64| thousands(found.iter().map(count).sum());
        Ok(Found::Said(format!(
            "In {days} days: {} conversations, {} messages, {} calls of tools, {} tokens read and {} written.",
            found.len(),
            sum(|summary| summary.messages),
            sum(|summary| summary.tool_calls),
            sum(|summary| summary.usage.input + summary.usage.cache_read),
            sum(|summary| summary.usage.output),
        )))
    }

    fn whoami(&self) -> String {
        let Assignment { source, user, principal, place, .. } = &self.asked;
        let who = match (user, principal) {
            (Some(user), _) => format!("user {user}"),
            (None, Some(principal)) => format!("client {principal}"),
            (None, None) => "nobody in particular".to_owned(),
        };
        let chat = place.as_ref().map(|place| format!(", in chat {}", place.chat)).unwrap_or_default();
        format!("You are {who} on {source}{chat}. This conversation is {}.", self.session)
    }

    fn model(&self, home: &Home, argument: &str) -> Found {
        let preferences = &self.asked.preferences;
        let now = preferences.model.as_deref().unwrap_or_else(|| home.model.name());
        let name = argument.trim().trim_end_matches("--session").trim();
        if name.is_empty() {
            let names = home.models.names();
            let others = match names.is_empty() {
                true => String::new(),
                false => format!(" There are also: {}.", names.join(", ")),
            };
            return Found::Said(format!(
                "{now} answers here.{others} /model <name> chooses another for this conversation, \
                 /model default the configured one."
            ));
        }
        let chosen = match name {
            "default" | "reset" | "none" => None,
            name => match home.models.choose(name) {
                Ok(model) => Some((name.to_owned(), model)),
                Err(why) => return Found::Said(format!("{why} Nothing was changed: {now} answers here.")),
            },
        };
        let answers = chosen.as_ref().map_or_else(|| home.model.name(), |(_, model)| model.name());
        let said = format!(
            "{answers} answers here from the next message on. What its provider had cached of this \
             conversation is read anew once."
        );
        let model = chosen.as_ref().map(|(name, _)| name.clone());
        Found::Preferred { preferences: Preferences { model, ..preferences.clone() }, said }
    }

    fn reasoning(&self, argument: &str) -> Found {
        let preferences = &self.asked.preferences;
        let level = argument.trim().to_ascii_lowercase();
        let set = |reasoning: Option<String>, said: String| Found::Preferred {
            preferences: Preferences { reasoning, ..preferences.clone() },
            said,
        };
        match level.as_str() {
            "" => Found::Said(match &preferences.reasoning {
                Some(level) => format!("The model thinks at level {level} here. /reasoning reset goes back."),
                None => format!(
                    "The model thinks as configured. /reasoning <{}> changes it here.",
                    LEVELS.join("|")
                ),
            }),
            "reset" | "default" => set(None, "The model thinks as configured again.".into()),
            level if LEVELS.contains(&level) => set(
                Some(level.to_owned()),
                format!(
                    "The model thinks at level {level} in this conversation, where its provider knows that."
                ),
            ),
            other => Found::Said(format!(
                "{other:?} is no level: {}, or reset. Nothing was changed.",
                LEVELS.join(", ")
            )),
        }
    }
}

/// How each platform is, as Hermes lists them.
fn platforms(home: &Home) -> String {
    let line =
        |(name, platform): (&String, &Arc<dyn throughline_core::port::Platform>)| match platform.health() {
            Health::Up => format!("  ✓ {name}: connected"),
            Health::Starting => format!("  … {name}: not connected yet"),
            Health::Waiting(why) => format!("  ✗ {name}: tried again; {}", redacted(&why)),
            Health::Refused(why) => format!("  ✗ {name}: off; {}", redacted(&why)),
        };
    let shown = home.platforms.iter().filter(|(name, _)| *name != throughline_core::input::AGENT_PLATFORM);
    let lines: Vec<String> = shown.map(line).collect();
    match lines.is_empty() {
        true => "Gateway Status\n  No messaging platform is configured.".into(),
        false => format!("Gateway Status\n{}", lines.join("\n")),
    }
}

/// What `/resume` looks at, and what is to be said about that.
struct Reach {
    filters: Vec<SessionFilter>,
    remark: Option<&'static str>,
}

impl Reach {
    fn told(&self, said: String) -> String {
        match self.remark {
            Some(remark) => format!("{said}\n{remark}"),
            None => said,
        }
    }
}

fn sessions(store: &dyn Read, filters: &[SessionFilter]) -> Result<Vec<SessionSummary>, StoreError> {
    let found: Result<Vec<_>, _> = filters.iter().map(|filter| store.sessions(filter)).collect();
    Ok(found?.into_iter().flatten().collect())
}

fn untitled(titling: &Titling) -> String {
    match titling {
        Titling::Free(title) => format!("\"{title}\" is free."),
        Titling::Empty => "Nothing of that title can be shown. Give it letters or digits.".into(),
        Titling::TooLong { characters, most } => {
            format!("The title has {characters} characters; at most {most} fit.")
        }
        Titling::Held { title, by } => format!("\"{title}\" is the title of {by} already. Choose another."),
    }
}

fn line(number: usize, summary: &SessionSummary, now: Time) -> String {
    let title = summary.title.as_deref().unwrap_or("without a title");
    let preview = match summary.preview.as_str() {
        "" => String::new(),
        preview => format!(": {preview}"),
    };
    let ago = ago(now.since(summary.last_active));
    format!("{number}. {title} ({}, {} messages, {ago}){preview}", summary.id, summary.messages)
}

fn ago(time: Duration) -> String {
    match time.as_secs() {
        0..=119 => "just now".into(),
        seconds @ 120..=7_199 => format!("{} minutes ago", seconds / 60),
        seconds @ 7_200..=172_799 => format!("{} hours ago", seconds / 3_600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
}

fn commands(own: Vec<(String, String)>, page: &str) -> String {
    let mut lines: Vec<String> = ALL.iter().map(Entry::line).collect();
    lines.extend(own.into_iter().map(|(name, does)| format!("/{name}: {does}")));
    let pages = lines.len().div_ceil(COMMANDS_PER_PAGE);
    let page = page.trim().parse().unwrap_or(1).clamp(1, pages);
    let shown = lines.iter().skip((page - 1) * COMMANDS_PER_PAGE).take(COMMANDS_PER_PAGE);
    let shown: Vec<&str> = shown.map(String::as_str).collect();
    match pages {
        1 => shown.join("\n"),
        _ => format!("{}\nPage {page} of {pages}; /commands <page> shows another.", shown.join("\n")),
    }
}

/// A program around the gateway that can do nothing.
pub struct NoClerk;

impl HostCommands for NoClerk {}

/// The configured model, and no other.
pub struct OneModel;

impl Models for OneModel {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn choose(&self, name: &str) -> Result<Arc<dyn Model>, String> {
        Err(format!("There is no model {name} here."))
    }
}

/// Stands for a model that was chosen once and can no longer be used: the sender is told why.
pub(crate) struct Gone {
    pub name: String,
    pub why: String,
    pub like: Arc<dyn Model>,
}

impl Model for Gone {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_real(&self) -> bool {
        true
    }

    fn encode(&self, message: &throughline_core::Message) -> throughline_core::prompt::Segment {
        self.like.encode(message)
    }

    fn encode_system(&self, text: &str) -> throughline_core::prompt::Segment {
        self.like.encode_system(text)
    }

    fn ask<'a>(
        &'a self,
        _: throughline_core::port::Asked,
        _: &'a (dyn Fn(throughline_core::port::Delta) + Send + Sync),
    ) -> Promise<'a, Result<throughline_core::turn::Answer, throughline_core::port::ModelError>> {
        let message = format!(
            "The model that was chosen for this conversation cannot be used any more. {} /model default goes back \
             to the configured one.",
            self.why
        );
        let kind = throughline_core::session::FailureKind::Refused;
        Box::pin(async move { Err(throughline_core::port::ModelError { kind, message }) })
    }
}
