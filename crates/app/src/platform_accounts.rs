//! The chat platforms of one agent: which are on, whose bots they are, and their way in. No logic.
//!
//! - what is written and cannot be is off, by name; the others are not affected
//! - the offline model answers on no platform
//! - a bot is one agent's: its token is taken before anything is connected
//!
//! Deliberately absent: protocols (`throughline_platforms`), and what the settings mean (`hermes`).

use crate::token::{TokenLock, Tokens};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::Time;
use throughline_core::command;
use throughline_core::port::{AgentApi, Platform};
use throughline_core::redact::Secret;
use throughline_core::session::BusyInput;
use throughline_gateway::{Agents, HomeChannels};
use throughline_hermes::config::platforms::{Platform as Described, Platforms, ReplyMode};
use throughline_hermes::lock::Token;
use throughline_hermes::profile::{self, ProfileRoute, ProfileRoutes};
use throughline_home::config::{Environment, Overrides, Settings};
use throughline_home::home::{ChosenBy, Home};
use throughline_platforms::discord::{self, Discord};
use throughline_platforms::slack::{self, Slack};
use throughline_platforms::telegram::{self, Telegram};
use throughline_platforms::webhook::{self, Webhook};
use throughline_platforms::{
    self as platforms, AccountIntake, Adapter, ListenEnded, Live, Neighbour, Neighbours, Pairings,
    StopSignal, media,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Hermes listens there for Telegram's webhook.
const TELEGRAM_WEBHOOK: ([u8; 4], u16) = ([0, 0, 0, 0], 8443);

const GATHERED_MAX: Duration = Duration::from_secs(30);

/// Accounts that are ready to connect.
#[derive(Default)]
pub struct PlatformAccounts {
    accounts: Vec<Account>,
    /// What is written and off, and why.
    pub off: Vec<String>,
}

struct Account {
    adapter: Arc<dyn Adapter>,
    settings: platforms::AccountSettings,
    /// Set where commands are shown in a menu that must be published.
    menu: Option<Telegram>,
    /// What of it is off although it is on itself, and why.
    off: Vec<String>,
    _tokens: Vec<TokenLock>,
}

/// Accounts that listen.
pub struct Listening {
    rope: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// What the accounts of one agent are made from.
pub struct AccountPlace<'a> {
    pub agent: &'a str,
    pub home: &'a Home,
    pub homes: &'a [PathBuf],
    pub tokens: &'a Arc<Tokens>,
    pub now: Time,
}

impl PlatformAccounts {
    /// Takes the tokens of all that are on. `is_real`: there is a model that may answer people.
    pub fn of(place: &AccountPlace<'_>, settings: &Settings, is_real: bool) -> Self {
        let mut chats = Self::default();
        for described in settings.platforms.all.iter().filter(|platform| platform.enabled) {
            let name = described.name.as_str();
            if name == "api_server" {
                continue; // the gateway's own door
            }
            if !is_real {
                chats.off.push(format!(
                    "{name}: the offline model answers on no chat platform; set `model` in config.yaml"
                ));
                continue;
            }
            match account(place, settings, described) {
                Ok(account) => {
                    chats.off.extend(account.off.iter().map(|why| format!("{name}: {why}")));
                    chats.accounts.push(account);
                }
                Err(why) => chats.off.push(format!("{name}: {why}")),
            }
        }
        chats
    }

    /// Rules that lead to a profile which this process does not run: what they catch is refused.
    pub fn leads_nowhere(&self, neighbours: &Neighbours) -> Vec<String> {
        let connected =
            |platform: &str| self.accounts.iter().any(|account| account.adapter.name() == platform);
        let lost = neighbours.routes.iter().filter(|route| {
            connected(&route.platform)
                && route.profile != neighbours.profile
                && matches!((neighbours.find)(&route.profile), Neighbour::Elsewhere)
        });
        lost.map(|route| {
            let ProfileRoute { name, platform, profile, .. } = route;
            format!(
                "{platform}: what the rule {name:?} of profile_routes catches is refused; the profile {profile} does not \
                 run in this process; start it with --all-profiles"
            )
        })
        .collect()
    }

    pub fn platforms(&self) -> impl Iterator<Item = Arc<dyn Platform>> + '_ {
        self.accounts.iter().map(|account| account.adapter.clone() as Arc<dyn Platform>)
    }

    /// Begins to take in what people write.
    pub fn listen(
        self,
        home: &Home,
        api: &Arc<dyn AgentApi>,
        busy: BusyInput,
        neighbours: &Neighbours,
    ) -> Listening {
        let (rope, stop) = StopSignal::new();
        let pairings = Arc::new(Pairings::of(home.path()));
        let mut tasks = Vec::new();
        for account in self.accounts {
            let Account { adapter, mut settings, menu, off: _, _tokens } = account;
            settings.neighbours = Some(neighbours.clone());
            if let Some(telegram) = menu {
                tasks.push(tokio::spawn(publish(telegram)));
            }
            let display = settings.platform.display.clone();
            let live = Live::new(api.clone(), adapter.clone(), display, busy);
            let intake =
                Arc::new(AccountIntake::new(api.clone(), adapter.clone(), settings, pairings.clone(), live));
            let stop = stop.clone();
            tasks.push(tokio::spawn(async move {
                let name = adapter.name().to_owned();
                intake.show_what_runs().await;
                if let ListenEnded::Refused(why) = adapter.listen(intake, stop).await {
                    tracing::error!(platform = name, why, "this platform is off until that is put right");
                }
                drop(_tokens);
            }));
        }
        Listening { rope, tasks }
    }
}

impl Listening {
    /// Takes in nothing more. What was not acknowledged comes again at the next start.
    pub async fn stop(self) {
        let _ = self.rope.send(true);
        for task in self.tasks {
            let _ = task.await; // a panic was reported when it happened
        }
    }
}

/// The other agents, as the one called `name` sees them. Profiles are found by where their homes are.
pub fn neighbours(name: &str, home: &Home, agents: &Arc<Agents>, routes: &ProfileRoutes) -> Neighbours {
    let (root, profile) = seat(home.path());
    let agents = agents.clone();
    let find = move |profile: &str| {
        let home = profile_home(&root, profile);
        // Homes that are given one by one are called what their directories are.
        let directory = home.file_name().map(|name| name.to_string_lossy().into_owned());
        let names: Vec<String> = std::iter::once(profile.to_owned()).chain(directory).collect();
        match names.iter().find_map(|name| agents.api(name)) {
            Some(api) => Neighbour::Here { api, home },
            None if agents.names().iter().any(|known| names.contains(known)) => Neighbour::Away,
            None => Neighbour::Elsewhere,
        }
    };
    Neighbours { name: name.to_owned(), profile, routes: routes.clone(), find: Arc::new(find) }
}

/// The root that a home belongs to, and which profile of it this is.
fn seat(home: &Path) -> (PathBuf, String) {
    let above =
        home.parent().filter(|above| above.file_name().is_some_and(|name| name == profile::DIRECTORY));
    match (above.and_then(Path::parent), home.file_name()) {
        (Some(root), Some(name)) => (root.to_owned(), name.to_string_lossy().into_owned()),
        _ => (home.to_owned(), profile::DEFAULT.to_owned()),
    }
}

fn profile_home(root: &Path, profile: &str) -> PathBuf {
    match profile {
        profile::DEFAULT => root.to_owned(),
        profile => root.join(profile::DIRECTORY).join(profile),
    }
}

/// Menus are a courtesy; typing a command works without.
async fn publish(telegram: Telegram) {
    let commands: Vec<(String, String)> =
        command::ALL.iter().map(|entry| (entry.name.to_owned(), entry.does.to_owned())).collect();
    if let Err(error) = telegram.publish(&commands).await {
        tracing::debug!(%error, "the menu of commands was not published");
    }
}

fn account(place: &AccountPlace<'_>, settings: &Settings, described: &Described) -> Result<Account, String> {
    let intake = platforms::AccountSettings::of(place.home.path(), &settings.platforms, &described.name)
        .ok_or("it is not described anywhere")?;
    let told = Told { settings, described, media: media_rules(place, settings) };
    let take = |scope: &str, secret: &Secret| {
        let token = Token { scope, identity: secret.expose() };
        place.tokens.take(place.agent, token, &described.name, place.now)
    };
    let (mut menu, mut off) = (None, Vec::new());
    let (adapter, tokens): (Arc<dyn Adapter>, Vec<TokenLock>) = match described.name.as_str() {
        "telegram" => {
            let made = told.telegram()?;
            let lock = take("telegram-bot-token", &made.token)?;
            let telegram = Telegram::new(made)?;
            off.extend(topics(&described.extra).1);
            menu = Some(telegram.clone());
            (Arc::new(telegram), vec![lock])
        }
        "discord" => {
            let made = told.discord()?;
            let lock = take("discord-bot-token", &made.token)?;
            off.extend(described.access.names().map(|name| {
                format!(
                    "DISCORD_ALLOWED_USERS lets in the account with the user name {name}, and none that only shows that name, \
                     because every account can; an id is better still"
                )
            }));
            (Arc::new(Discord::new(made)), vec![lock])
        }
        "slack" => {
            let made = told.slack()?;
            let lock = take("slack-app-token", &made.app_token)?;
            (Arc::new(Slack::new(made)?), vec![lock])
        }
        "webhook" => {
            let webhook = Webhook::new(told.webhook(place)?);
            off.extend(webhook.off().iter().map(|(route, why)| format!("the route {route} is off: {why}")));
            (Arc::new(webhook), Vec::new())
        }
        other => {
            return Err(format!(
                "Throughline has no adapter for {other} yet; Hermes can go on serving it from another home"
            ));
        }
    };
    Ok(Account { adapter, settings: intake, menu, off, _tokens: tokens })
}

/// What is written about one platform.
struct Told<'a> {
    settings: &'a Settings,
    described: &'a Described,
    media: media::MediaRules,
}

impl Told<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.settings.variable(name).filter(|value| !value.trim().is_empty())
    }

    fn token(&self, variable: &str) -> Result<Secret, String> {
        let token = self.described.token.clone();
        token.ok_or_else(|| format!("it is switched on, and {variable} is not set; set it in .env"))
    }

    fn text(&self, key: &str) -> Option<String> {
        let value = self.described.extra.get(key)?;
        value.as_str().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn flag(&self, key: &str, otherwise: bool) -> bool {
        match self.described.extra.get(key) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(text)) => matches!(text.trim(), "true" | "1" | "yes" | "on"),
            _ => otherwise,
        }
    }

    /// A turn waits so long for the rest of what a person sent.
    fn seconds(&self, name: &str) -> Option<Duration> {
        let seconds: f64 = self.variable(name)?.trim().parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok().map(|length| length.min(GATHERED_MAX))
    }

    fn telegram(&self) -> Result<telegram::TelegramSettings, String> {
        let token = self.token("TELEGRAM_BOT_TOKEN")?;
        let mode = match self.variable("TELEGRAM_WEBHOOK_URL") {
            None => telegram::UpdateMode::Polling,
            Some(url) => {
                let (host, usual) = TELEGRAM_WEBHOOK;
                let port = self.number("TELEGRAM_WEBHOOK_PORT", self.variable("TELEGRAM_WEBHOOK_PORT"))?;
                telegram::UpdateMode::Webhook {
                    url,
                    listen: SocketAddr::from((host, port.unwrap_or(usual))),
                    secret: Secret::new(self.variable("TELEGRAM_WEBHOOK_SECRET").unwrap_or_default()),
                }
            }
        };
        let usual = telegram::TelegramTimeouts::default();
        let patience = telegram::TelegramTimeouts {
            album: self.seconds("HERMES_TELEGRAM_MEDIA_BATCH_DELAY_SECONDS").unwrap_or(usual.album),
            split: self.seconds("HERMES_TELEGRAM_TEXT_BATCH_SPLIT_DELAY_SECONDS").unwrap_or(usual.split),
            ..usual
        };
        Ok(telegram::TelegramSettings {
            patience,
            base_url: self.text("base_url"),
            base_file_url: self.text("base_file_url"),
            local_files: self.flag("local_mode", false),
            local_directory: self.text("local_files_dir").map(PathBuf::from),
            proxy: self.variable("TELEGRAM_PROXY"),
            mode,
            replies: match self.described.reply_to_mode {
                ReplyMode::Off => telegram::Replies::Off,
                ReplyMode::First => telegram::Replies::First,
                ReplyMode::All => telegram::Replies::All,
            },
            link_previews: !self.flag("disable_link_previews", false),
            exclusive_mentions: self.flag("exclusive_bot_mentions", true),
            topics: topics(&self.described.extra).0,
            media: self.media.clone(),
            ..telegram::TelegramSettings::new(token)
        })
    }

    fn discord(&self) -> Result<discord::DiscordSettings, String> {
        let token = self.token("DISCORD_BOT_TOKEN")?;
        // The file says `auto_thread`, the environment `DISCORD_AUTO_THREAD`: one set of names below here.
        let variable = |name: &str| {
            let key = name.strip_prefix("DISCORD_").unwrap_or(name).to_lowercase();
            let written = || match key.strip_prefix("allow_mention_") {
                Some(whom) => self.described.extra.get("allow_mentions")?.get(whom),
                None => None,
            };
            self.variable(name).or_else(|| written().or_else(|| self.described.extra.get(&key)).map(plain))
        };
        let commands = command::ALL.iter().map(|entry| discord::Slash {
            name: entry.name.to_owned(),
            description: entry.does.to_owned(),
            takes_text: !entry.arguments.is_empty(),
        });
        Ok(discord::DiscordSettings {
            rest_url: self.text("base_url"),
            gateway_url: self.text("gateway_url"),
            commands: commands.collect(),
            media: self.media.clone(),
            ..discord::DiscordSettings::told(token, variable)
        })
    }

    fn slack(&self) -> Result<slack::SlackSettings, String> {
        let bot = self.token("SLACK_BOT_TOKEN")?;
        let app = self.variable("SLACK_APP_TOKEN").or_else(|| self.text("app_token")).ok_or(
            "SLACK_APP_TOKEN is not set; make one with the scope connections:write and set it in .env",
        )?;
        let usual = slack::SlackOptions::default();
        let options = slack::SlackOptions {
            reply_in_thread: self.flag("reply_in_thread", usual.reply_in_thread),
            reply_broadcast: self.flag("reply_broadcast", usual.reply_broadcast),
            strict_mention: self.flag("strict_mention", usual.strict_mention),
            dm_top_level_threads_as_sessions: self
                .flag("dm_top_level_threads_as_sessions", usual.dm_top_level_threads_as_sessions),
            typing_status_text: self
                .described
                .display
                .typing_text
                .clone()
                .unwrap_or(usual.typing_status_text),
            commands: typed_commands(),
        };
        let made = slack::SlackSettings::new(bot.expose(), app);
        let base = self.text("base_url").unwrap_or_else(|| made.base.clone());
        Ok(slack::SlackSettings { base, options, media: self.media.clone(), ..made })
    }

    /// A number that is none is no reason to use another one.
    fn number<T: std::str::FromStr>(&self, what: &str, written: Option<String>) -> Result<Option<T>, String> {
        let Some(text) = written.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|_| format!("{what} is {text:?}, which is no number that it can be; put it right"))
    }

    fn webhook(&self, place: &AccountPlace<'_>) -> Result<webhook::WebhookSettings, String> {
        let made = webhook::WebhookSettings::new(place.home.path());
        // Where the environment switches it on, the environment also has the first word on these two.
        let is_on = self
            .variable("WEBHOOK_ENABLED")
            .is_some_and(|on| matches!(on.trim().to_lowercase().as_str(), "1" | "true" | "yes" | "on"));
        let by_variable = |name: &str| self.variable(name).filter(|_| is_on);
        let extra = |key: &str| self.described.extra.get(key).filter(|value| !value.is_null()).map(plain);
        let port = match by_variable("WEBHOOK_PORT") {
            Some(port) => self.number("WEBHOOK_PORT", Some(port))?,
            None => self.number("platforms.webhook.extra.port", extra("port"))?,
        };
        let rate_limit = self.number("platforms.webhook.extra.rate_limit", extra("rate_limit"))?;
        let body_max = self.number("platforms.webhook.extra.max_body_bytes", extra("max_body_bytes"))?;
        let secret = by_variable("WEBHOOK_SECRET").or_else(|| self.text("secret"));
        let (root, own) = seat(place.home.path());
        // Of one agent alone the prefix of a path says nothing, as in Hermes.
        let others = place.homes.iter().map(|home| seat(home)).filter(|(theirs, _)| *theirs == root);
        let mut profiles: BTreeSet<String> = others.map(|(_, profile)| profile).collect();
        profiles.remove(&own);
        if !profiles.is_empty() {
            profiles.insert(own.clone());
        }
        let home_channels = home_channels(place.home, self.settings);
        let (known, environment) = (self.settings.platforms.clone(), self.settings.environment.clone());
        Ok(webhook::WebhookSettings {
            host: self.text("host"),
            port: port.unwrap_or(made.port),
            rate_limit: rate_limit.unwrap_or(made.rate_limit),
            body_max: body_max.unwrap_or(made.body_max),
            secret: secret.or_else(|| self.variable("WEBHOOK_SECRET")).map(Secret::new),
            routes: self.described.extra.get("routes").cloned().unwrap_or(Value::Null),
            profiles,
            places: Arc::new(move |whose, platform| {
                let home = match whose {
                    webhook::DeliveryAccount::Profile(profile) if profile != own => {
                        let home = Home::new(&profile_home(&root, profile), ChosenBy::CommandLine);
                        channel_of(&read_platforms(&home, &environment)?, platform)?
                    }
                    webhook::DeliveryAccount::Profile(_) | webhook::DeliveryAccount::Own => {
                        channel_of(&known, platform)?;
                        home_channels(platform)
                    }
                };
                Some(webhook::WebhookPlace { account: String::new(), home })
            }),
            ..made
        })
    }
}

/// Every name by which people know a command, ours or Hermes': `!reset` is `/new`, and `!kanban` is told what to use
/// instead.
fn typed_commands() -> BTreeSet<String> {
    let ours = command::ALL
        .iter()
        .flat_map(|entry| std::iter::once(entry.name).chain(entry.aliases.iter().copied()));
    ours.chain(command::elsewhere()).map(str::to_owned).collect()
}

/// Hermes' `dm_topics` and `group_topics`: lists of chats with their topics, or topics by chat. And what of them is
/// off: Hermes begins a topic that has no number yet, and writes its number into the file.
fn topics(extra: &serde_json::Map<String, Value>) -> (Vec<telegram::NamedTopic>, Vec<String>) {
    let (mut topics, mut off) = (Vec::new(), Vec::new());
    for key in ["dm_topics", "group_topics"] {
        let chats: Vec<(String, &Value)> = match extra.get(key) {
            Some(Value::Array(chats)) => chats
                .iter()
                .filter_map(|chat| Some((plain(chat.get("chat_id")?), chat.get("topics")?)))
                .collect(),
            Some(Value::Object(chats)) => chats.iter().map(|(chat, topics)| (chat.clone(), topics)).collect(),
            _ => Vec::new(),
        };
        for (chat, listed) in chats {
            for topic in listed.as_array().into_iter().flatten() {
                let text = |name: &str| topic.get(name).and_then(Value::as_str).map(str::to_owned);
                let (name, skill) = (text("name"), text("skill"));
                match topic.get("thread_id").filter(|thread| !thread.is_null()).map(plain) {
                    Some(thread) => topics.push(telegram::NamedTopic { chat: chat.clone(), thread, name, skill }),
                    None => off.push(format!(
                        "the topic {:?} of chat {chat} in {key} has no thread_id, and Throughline begins no topics; \
                         begin it in Telegram and write its thread_id there",
                        name.unwrap_or_default()
                    )),
                }
            }
        }
    }
    (topics, off)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// Home channels as they are written at the time: `/sethome` changes them while the gateway runs. While the files
/// cannot be read, they are what they were at the start.
pub fn home_channels(home: &Home, settings: &Settings) -> HomeChannels {
    let (home, environment) = (home.clone(), settings.environment.clone());
    let at_start = settings.platforms.clone();
    Arc::new(move |platform| {
        let now = read_platforms(&home, &environment);
        let platforms = now.as_ref().unwrap_or(&at_start);
        let described = platforms.all.iter().find(|described| described.name == platform)?;
        described.home.as_ref().map(|home| (home.chat.clone(), home.thread.clone()))
    })
}

/// As a home's files describe them now. None: they cannot be read.
fn read_platforms(home: &Home, environment: &Environment) -> Option<Platforms> {
    let now = home.settings_now(environment, Overrides::default()).ok();
    now.map(|(settings, _)| settings.platforms)
}

/// The home channel of a platform that is on.
fn channel_of(platforms: &Platforms, name: &str) -> Option<Option<(String, Option<String>)>> {
    let described = platforms.all.iter().find(|known| known.name == name && known.enabled)?;
    Some(described.home.as_ref().map(|home| (home.chat.clone(), home.thread.clone())))
}

/// Files that a reply may send: not those of any agent's home, but for what it was sent or made there.
fn media_rules(place: &AccountPlace<'_>, settings: &Settings) -> media::MediaRules {
    let own = place.home.path();
    let user = settings.environment.get("HOME").map(PathBuf::from);
    let (root, _) = seat(own);
    let usual = user.iter().flat_map(|user| [".hermes", ".throughline"].map(|name| user.join(name)));
    let homes = place.homes.iter().cloned().chain([own.to_owned(), root]).chain(usual).collect();
    let written = &settings.media_delivery;
    let says = |name: &str| settings.variable(name).map(|text| text.trim().to_lowercase());
    let allowed = match written.allow_dirs.is_empty() {
        true => settings.variable("HERMES_MEDIA_ALLOW_DIRS").into_iter().collect(),
        false => written.allow_dirs.clone(),
    };
    let allowed: Vec<PathBuf> = allowed
        .iter()
        .flat_map(|text| std::env::split_paths(text).collect::<Vec<_>>())
        .flat_map(|path| path.to_string_lossy().split(',').map(str::to_owned).collect::<Vec<_>>())
        .map(|path| match (path.trim().strip_prefix("~/"), &user) {
            (Some(below), Some(user)) => user.join(below),
            _ => PathBuf::from(path.trim()),
        })
        .filter(|path| path.is_absolute())
        .collect();
    let is_strict = written.strict.unwrap_or_else(|| {
        matches!(says("HERMES_MEDIA_DELIVERY_STRICT").as_deref(), Some("1" | "true" | "yes" | "on"))
    });
    let trusts_recent = written.trust_recent.unwrap_or_else(|| {
        !matches!(says("HERMES_MEDIA_TRUST_RECENT_FILES").as_deref(), Some("0" | "false" | "no" | "off" | ""))
    });
    let seconds = written.recent_seconds.or_else(|| says("HERMES_MEDIA_TRUST_RECENT_SECONDS")?.parse().ok());
    let recent = seconds.map_or(media::RECENT, |seconds| {
        Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(media::RECENT)
    });
    media::MediaRules {
        user,
        homes,
        open: media::MediaRules::sendable(own).chain(allowed).collect(),
        trust: match (is_strict, trusts_recent) {
            (false, _) => media::Trust::Everything,
            (true, true) => media::Trust::Recent(recent),
            (true, false) => media::Trust::Recent(Duration::ZERO),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(home: &Home, config: &str) -> Settings {
        std::fs::write(home.path().join("config.yaml"), config).unwrap();
        home.settings_now(&Environment::default(), Overrides::default()).unwrap().0
    }

    #[test]
    fn p10_a_home_channel_that_is_set_while_the_gateway_runs_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path(), ChosenBy::CommandLine);
        std::fs::write(directory.path().join(".env"), "TELEGRAM_BOT_TOKEN=1:x\n").unwrap();
        let channels = home_channels(&home, &settings(&home, "model: rehearsal\n"));
        assert_eq!(channels("telegram"), None);
        let said = "TELEGRAM_BOT_TOKEN=1:x\nTELEGRAM_HOME_CHANNEL=42\nTELEGRAM_HOME_CHANNEL_THREAD_ID=7\n";
        std::fs::write(directory.path().join(".env"), said).unwrap();
        assert_eq!(channels("telegram"), Some(("42".to_owned(), Some("7".to_owned()))));
    }

    #[test]
    fn topics_are_read_in_both_of_hermes_forms_and_those_without_a_number_are_named() {
        let extra = serde_json::json!({
            "dm_topics": [{"chat_id": 42, "topics": [
                {"name": "Garden", "thread_id": 7, "skill": "plants"}, {"name": "New", "icon_color": 1},
            ]}, "rubbish", {"chat_id": 43}],
            "group_topics": {"-1001": [{"thread_id": "9", "name": "Ops"}]},
        });
        let Value::Object(extra) = extra else { panic!("a mapping") };
        let topic = |chat: &str, thread: &str, name: &str, skill: Option<&str>| telegram::NamedTopic {
            chat: chat.into(),
            thread: thread.into(),
            name: Some(name.into()),
            skill: skill.map(str::to_owned),
        };
        let (known, off) = topics(&extra);
        assert_eq!(known, [topic("42", "7", "Garden", Some("plants")), topic("-1001", "9", "Ops", None)]);
        assert_eq!(off.len(), 1);
        assert!(off[0].starts_with("the topic \"New\" of chat 42 in dm_topics has no thread_id"), "{off:?}");
        assert_eq!(topics(&serde_json::Map::new()), (Vec::new(), Vec::new()));
    }

    #[test]
    fn p31_whom_a_reply_may_mention_is_read_in_the_form_that_hermes_documents() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path(), ChosenBy::CommandLine);
        std::fs::write(directory.path().join(".env"), "DISCORD_BOT_TOKEN=a.b.c\n").unwrap();
        let mentions = |written: &str| {
            let settings = settings(&home, &format!("model: rehearsal\ndiscord: {{{written}}}\n"));
            let described = settings.platforms.get("discord").unwrap();
            let told = Told { settings: &settings, described, media: media::MediaRules::default() };
            let mentions = told.discord().unwrap().mentions;
            [mentions.everyone, mentions.roles, mentions.users, mentions.replied_user]
        };
        let [everyone, roles, users, replied] = mentions("");
        for (written, expected) in [
            (format!("allow_mentions: {{everyone: {}}}", !everyone), [!everyone, roles, users, replied]),
            (format!("allow_mentions: {{roles: {}}}", !roles), [everyone, !roles, users, replied]),
            (format!("allow_mentions: {{users: {}}}", !users), [everyone, roles, !users, replied]),
            (format!("allow_mentions: {{replied_user: {}}}", !replied), [everyone, roles, users, !replied]),
            (format!("allow_mention_users: {}", !users), [everyone, roles, !users, replied]),
        ] {
            assert_eq!(mentions(&written), expected, "{written}");
        }
    }

    #[test]
    fn a_webhook_listens_where_it_is_told_to_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path(), ChosenBy::CommandLine);
        let tokens = Arc::new(Tokens::new(&Environment::default()));
        let place = AccountPlace { agent: "main", home: &home, homes: &[], tokens: &tokens, now: Time(0) };
        let told = |extra: &str, variables: &str| {
            std::fs::write(directory.path().join(".env"), variables).unwrap();
            let config =
                format!("model: rehearsal\nplatforms: {{webhook: {{enabled: true, extra: {{{extra}}}}}}}\n");
            let settings = settings(&home, &config);
            let described = settings.platforms.get("webhook").unwrap();
            let told = Told { settings: &settings, described, media: media::MediaRules::default() };
            told.webhook(&place).map(|made| {
                let secret = made.secret.map(|secret| secret.expose().to_owned()).unwrap_or_default();
                (made.port, made.rate_limit, made.body_max, secret)
            })
        };
        let usual = webhook::WebhookSettings::new(directory.path());
        let (limit, body) = (usual.rate_limit, usual.body_max);
        assert_eq!(told("", ""), Ok((webhook::PORT, limit, body, String::new())));
        let written = "port: 9000, rate_limit: 5, max_body_bytes: '2000', secret: s";
        assert_eq!(told(written, ""), Ok((9000, 5, 2000, "s".to_owned())));
        let variables = "WEBHOOK_ENABLED=true\nWEBHOOK_PORT=9001\nWEBHOOK_SECRET=t\n";
        assert_eq!(told(written, variables), Ok((9001, 5, 2000, "t".to_owned())));
        for (extra, variables, named) in [
            ("port: banana", "", "platforms.webhook.extra.port is \"banana\""),
            ("port: 70000", "", "platforms.webhook.extra.port is \"70000\""),
            ("rate_limit: -1", "", "rate_limit is \"-1\""),
            ("max_body_bytes: a lot", "", "max_body_bytes is \"a lot\""),
            ("", "WEBHOOK_ENABLED=1\nWEBHOOK_PORT=x\n", "WEBHOOK_PORT is \"x\""),
        ] {
            let said = told(extra, variables).unwrap_err();
            assert!(said.contains(named), "{said}");
        }
    }

    #[test]
    fn what_slack_takes_for_an_order_has_every_name_that_people_know() {
        let known = typed_commands();
        for name in ["new", "reset", "bg", "kanban"] {
            assert!(known.contains(name), "{name}");
        }
        assert!(!known.contains("nice"));
    }

    #[test]
    fn p31_every_home_of_the_root_is_closed_and_the_operators_words_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profiles/coder");
        std::fs::create_dir_all(&path).unwrap();
        let home = Home::new(&path, ChosenBy::CommandLine);
        let tokens = Arc::new(Tokens::new(&Environment::default()));
        let place = AccountPlace { agent: "coder", home: &home, homes: &[], tokens: &tokens, now: Time(0) };
        let rules = media_rules(&place, &settings(&home, "model: rehearsal\n"));
        assert_eq!(rules.homes, [path.clone(), directory.path().to_owned()]);
        assert!(rules.open.contains(&path.join("workspace")) && !rules.open.contains(&path));
        assert_eq!(rules.trust, media::Trust::Everything);
        let strict = "model: rehearsal\ngateway:\n  strict: true\n  trust_recent_files_seconds: 5\n  \
                      media_delivery_allow_dirs: ['/srv/out,/srv/more', relative]\n";
        let rules = media_rules(&place, &settings(&home, strict));
        assert_eq!(rules.trust, media::Trust::Recent(Duration::from_secs(5)));
        assert!(rules.open.ends_with(&["/srv/out".into(), "/srv/more".into()]));
    }
}
