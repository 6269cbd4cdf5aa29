//! From what was written to what is meant, setting by setting.

use super::*;
use crate::home::{ChosenBy, KEY_LENGTH_MIN};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use throughline_core::chain;
use throughline_hermes::config::{By, ChainPlatform, Notice, context_window, provider, split_origins};
use throughline_hermes::file_policy;

const HOST: &str = "127.0.0.1";
const PORT: u16 = 8642;

/// Hermes' own limit: room for a long conversation with its tool results.
const BODY_LIMIT_BYTES: u64 = 10_000_000;
const BODY_LIMIT_BYTES_MIN: u64 = 1024;

/// Hermes' own. Less than a few lines would be put aside all the time.
const LOG_MEGABYTES: f64 = 5.0;
const LOG_BYTES_MIN: u64 = 4096;
const LOG_BACKUPS: u64 = 3;
const LOG_BACKUPS_MAX: u64 = 100;

/// How long bots of others are left unheard once they have used up what their chat grants them.
const CHAIN_QUIET_MINUTES: u64 = 60;
const EXPIRY_WATCH_SECONDS: u64 = 60;
/// A turn should not wait longer than this for a reminder.
const RECALL_PATIENCE_MS: u64 = 300;

/// Hermes' own: below it a context is cheap enough to be left alone.
const COMPRESSION_FLOOR: u64 = 64_000;
/// A system prompt alone takes more.
const WINDOW_MIN: u64 = 1_000;
/// Hermes' own patience with the model that writes a summary.
const SUMMARY_SECONDS: f64 = 120.0;
/// After how many turns, or steps with calls, a conversation is reviewed (Hermes').
const REVIEW_INTERVAL: u64 = 10;

/// Long enough for most turns to end, short enough for the 90 s that a service manager grants.
/// Hermes' own default is none at all; a turn that is cut off here goes on at the next start.
const DRAIN: Duration = Duration::from_secs(30);
const DRAIN_MAX: Duration = Duration::from_secs(24 * 3600);

impl Written {
    /// What all of it means, row by row, with every warning and every error.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        self.remarks(&mut report);
        let chosen_by = match self.home.chosen_by {
            ChosenBy::CommandLine => Origin::CommandLine,
            ChosenBy::Variable(_) => Origin::Environment,
            ChosenBy::Default => Origin::Default,
        };
        report.row("home", self.home.path().display(), &chosen_by);
        let model = self.model(&mut report);
        let api = self.api(&mut report);
        let busy_input = self.busy_input(&mut report);
        let drain = self.drain(&mut report);
        let steps_max = or_default(self.config.settings.agent.max_turns, 90);
        report.sourced("agent.max_turns", &steps_max);
        let reasoning_effort = self.reasoning_effort(&mut report);
        let turn_tokens_max = self.config.own.turn_tokens_max.map(Sourced::from);
        match &turn_tokens_max {
            Some(max) => report.sourced("throughline.turn_tokens_max", max),
            None => report.row("throughline.turn_tokens_max", "no limit", &Origin::Default),
        }
        let chain = self.chain(&mut report);
        let landlock = or_default(self.config.own.landlock, true);
        report.sourced("throughline.landlock", &landlock);
        let open_in_home = self.open_in_home(&mut report);
        let recollects = or_default(self.config.own.recall, true);
        report.sourced("throughline.recall", &recollects);
        let per_person = match self.home.is_fresh() {
            true => Sourced::new(true, Origin::Because("the home is new".to_owned())),
            false => Sourced::new(false, Origin::Because("as Hermes, whose home it was".to_owned())),
        };
        let memory_per_person = self.config.own.memory_per_person.map_or(per_person, Sourced::from);
        report.sourced("throughline.memory_per_person", &memory_per_person);
        let recall_patience = or_default(self.config.own.recall_patience_ms, RECALL_PATIENCE_MS);
        report.sourced("throughline.recall_patience_ms", &recall_patience);
        let expiry_watch = or_default(self.config.own.expiry_watch_seconds, EXPIRY_WATCH_SECONDS);
        report.sourced("throughline.expiry_watch_seconds", &expiry_watch);
        self.tools(&mut report);
        let compression = self.compression(model.as_ref(), &mut report);
        let review = self.review(&mut report);
        let session_reset = self.session_reset(&mut report);
        let timezone = self.timezone(&mut report);
        let log_level = self.log_level(&mut report);
        let logs = self.logs(&mut report);
        let multiplex_profiles = self.multiplex_profiles(&mut report);
        let allow_unsafe_filesystem = or_default(self.config.own.allow_unsafe_filesystem, false);
        report.sourced("throughline.allow_unsafe_filesystem", &allow_unsafe_filesystem);
        if let (Some(model), Some(api), true) = (model, api, report.errors.is_empty()) {
            let platforms = self.platforms(&mut report);
            report.settings = Some(Settings {
                model,
                api,
                busy_input,
                drain,
                steps_max,
                reasoning_effort,
                turn_tokens_max,
                chain,
                landlock,
                open_in_home,
                recollects,
                recall_patience,
                expiry_watch,
                tools: self.config.tools.clone(),
                secrets: self.secrets(),
                environment: self.environment.clone(),
                overrides: self.overrides.clone(),
                compression,
                review,
                session_reset,
                hooks: self.config.hooks.clone(),
                plugins: self.config.plugins.clone(),
                not_carried: self.not_carried(&platforms),
                memory_per_person,
                platforms,
                timezone,
                log_level,
                logs,
                multiplex_profiles,
                profile_routes: self.config.settings.profile_routes.clone(),
                media_delivery: self.config.settings.media_delivery.clone(),
                allow_unsafe_filesystem,
            });
        }
        report.locate(self.home.path())
    }

    fn platforms(&self, report: &mut Report) -> Platforms {
        let variable = |name: &str| self.variable(name).map(|found| found.value.expose().to_owned());
        let (platforms, notices) = Platforms::read(&self.config.root, self.legacy.as_deref(), &variable);
        for notice in notices {
            report.warn(&Origin::Config { line: notice.place.line }, notice.text);
        }
        platforms
    }

    fn tools(&self, report: &mut Report) {
        for row in self.config.tools.rows() {
            let origin = match row.by {
                None => Origin::Default,
                Some(By::File(place)) => Origin::Config { line: place.line },
                Some(By::Variable(name)) => {
                    self.variable(name).map_or(Origin::Environment, |variable| variable.origin)
                }
            };
            report.row(&row.name, row.value, &origin);
        }
    }

    fn secrets(&self) -> BTreeMap<String, Secret> {
        let variables = self.dotenv.variables.iter();
        variables.map(|variable| (variable.name.clone(), variable.value.clone())).collect()
    }

    fn remarks(&self, report: &mut Report) {
        let warning = |place, notice: &Notice| Remark { place, text: notice.text.clone(), excerpt: None };
        let config = self.config.warnings.iter();
        report
            .warnings
            .extend(config.map(|notice| warning(Some(place_in(CONFIG_FILE, notice.place)), notice)));
        let dotenv = self.dotenv.warnings.iter();
        report
            .warnings
            .extend(dotenv.map(|notice| warning(Some(format!("{ENV_FILE}:{}", notice.place.line)), notice)));
        report.warnings.extend(self.neighbours.iter().cloned());
        report.errors.extend(self.config.errors.iter().map(|notice| self.at(notice.place, &notice.text)));
    }

    fn api(&self, report: &mut Report) -> Option<Api> {
        let written = &self.config.settings.api_server;
        let flag = self.overrides.host.clone().map(|host| Sourced::new(host, Origin::CommandLine));
        let variable =
            self.variable("API_SERVER_HOST").map(|host| host.map(|host| host.expose().trim().to_owned()));
        let host = flag
            .or(variable)
            .or_else(|| written.host.clone().map(Sourced::from))
            .unwrap_or_else(|| Sourced::new(HOST.to_owned(), Origin::Default));
        let key = self.variable("API_SERVER_KEY").or_else(|| written.key.clone().map(Sourced::from));
        let body_limit_bytes = or_default(self.config.own.body_limit_bytes, BODY_LIMIT_BYTES);
        let stop_on_disconnect = or_default(self.config.own.stop_on_disconnect, false);
        let cors_origins = written.cors_origins.clone().map(Sourced::from).or_else(|| {
            let variable = self.variable("API_SERVER_CORS_ORIGINS")?;
            Some(variable.map(|origins| split_origins(origins.expose())))
        });
        let cors_origins = cors_origins.unwrap_or_else(|| Sourced::new(Vec::new(), Origin::Default));
        let port = self.port(report);
        report.sourced("api_server.host", &host);
        if let Some(port) = &port {
            report.sourced("api_server.port", port);
        }
        self.key_row(key.as_ref(), report);
        report.sourced("throughline.body_limit_bytes", &body_limit_bytes);
        report.sourced("throughline.stop_on_disconnect", &stop_on_disconnect);
        let origins = match cors_origins.value.as_slice() {
            [] => "no web pages".to_owned(),
            origins => origins.join(", "),
        };
        report.row("api_server.cors_origins", &origins, &cors_origins.origin);
        check_key(&host, key.as_ref(), report);
        if body_limit_bytes.value < BODY_LIMIT_BYTES_MIN {
            let text = format!("`throughline.body_limit_bytes` is at least {BODY_LIMIT_BYTES_MIN}");
            report.refuse(&body_limit_bytes.origin, text);
        }
        port.map(|port| Api { host, port, key, body_limit_bytes, cors_origins, stop_on_disconnect })
    }

    fn port(&self, report: &mut Report) -> Option<Sourced<u16>> {
        let flag = self.overrides.port.map(|port| Sourced::new(Some(u64::from(port)), Origin::CommandLine));
        let variable =
            self.variable("API_SERVER_PORT").map(|port| port.map(|text| text.expose().trim().parse().ok()));
        let config = self.config.settings.api_server.port.map(|port| Sourced::from(port).map(Some));
        let port = flag
            .or(variable)
            .or(config)
            .unwrap_or_else(|| Sourced::new(Some(u64::from(PORT)), Origin::Default));
        match port.value.and_then(|port| u16::try_from(port).ok()) {
            Some(number) => Some(Sourced::new(number, port.origin)),
            None => {
                report.refuse(&port.origin, "the API's port (API_SERVER_PORT) is a number from 0 to 65535");
                None
            }
        }
    }

    fn key_row(&self, key: Option<&Sourced<Secret>>, report: &mut Report) {
        match (key, self.home.key()) {
            (Some(key), _) => report.sourced("api_server.key", key),
            (None, Ok(Some(key))) => report.row("api_server.key", key, &Origin::KeyFile),
            (None, Ok(None)) => report.row("api_server.key", "made at the first start", &Origin::KeyFile),
            (None, Err(error)) => report.refuse(&Origin::KeyFile, format!("{error:#}")),
        }
    }

    /// What one human message may cause among agents.
    fn chain(&self, report: &mut Report) -> chain::Limits {
        let own = &self.config.own;
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let usual = chain::Limits::default();
        let mut limit = |name: &str, written, usual: u64| {
            let limit = or_default(written, usual);
            report.sourced(name, &limit);
            limit.value
        };
        let hops_max = limit("throughline.hops_max", own.hops_max, usual.hops_max.into());
        let turns_max = limit("throughline.chain_turns_max", own.chain_turns_max, usual.turns_max.into());
        let calls_max = limit("throughline.chain_calls_max", own.chain_calls_max, usual.calls_max.into());
        let quiet = limit("throughline.chain_quiet_minutes", own.chain_quiet_minutes, CHAIN_QUIET_MINUTES);
        let mut platforms = Vec::new();
        for ChainPlatform { platform, turns_max, calls_max } in &own.chain_platforms {
            for (name, written) in [("turns_max", turns_max), ("calls_max", calls_max)] {
                if let Some(written) = written {
                    limit(&format!("throughline.chain_platforms.{platform}.{name}"), Some(*written), 0);
                }
            }
            platforms.push(chain::PlatformLimits {
                platform: platform.clone(),
                turns_max: turns_max.map(|turns| small(turns.value)),
                calls_max: calls_max.map(|calls| small(calls.value)),
            });
        }
        chain::Limits {
            hops_max: small(hops_max),
            turns_max: small(turns_max),
            calls_max: small(calls_max),
            quiet: Duration::from_secs(quiet.saturating_mul(60)),
            platforms,
        }
    }

    /// An unknown level is none, as in Hermes, and is told of.
    fn reasoning_effort(&self, report: &mut Report) -> Option<Sourced<String>> {
        let effort = Sourced::from(self.config.settings.agent.reasoning_effort.clone()?);
        if !EFFORTS.contains(&effort.value.as_str()) {
            let text = format!(
                "`agent.reasoning_effort` is {:?}, which is no level, so the model decides; levels are {}",
                effort.value,
                EFFORTS.join(", ")
            );
            report.warn(&effort.origin, text);
            return None;
        }
        report.sourced("agent.reasoning_effort", &effort);
        Some(effort)
    }

    fn busy_input(&self, report: &mut Report) -> Sourced<BusyInput> {
        let variable = self.variable("HERMES_GATEWAY_BUSY_INPUT_MODE").map(|mode| {
            mode.map(|mode| match mode.expose().trim().to_lowercase().as_str() {
                "queue" => BusyInput::Queue,
                "steer" => BusyInput::Steer,
                _ => BusyInput::Interrupt,
            })
        });
        let (usual, because) = match self.home.is_fresh() {
            true => (BusyInput::Queue, "the home is new"),
            false => (BusyInput::Interrupt, "as Hermes, whose home it was"),
        };
        let busy = self.config.settings.busy_input_mode.map(Sourced::from).or(variable);
        let busy = busy.unwrap_or_else(|| Sourced::new(usual, Origin::Because(because.to_owned())));
        let word = match busy.value {
            BusyInput::Queue => "queue",
            BusyInput::Steer => "steer",
            BusyInput::Interrupt => "interrupt",
        };
        report.row("display.busy_input_mode", word, &busy.origin);
        busy
    }

    fn drain(&self, report: &mut Report) -> Sourced<Duration> {
        let config = self.config.settings.agent.restart_drain_timeout.map(Sourced::from);
        let variable = self.variable("HERMES_RESTART_DRAIN_TIMEOUT").and_then(|text| {
            let seconds = text.value.expose().trim().parse().ok();
            let seconds = seconds.filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
            if seconds.is_none() {
                report.warn(
                    &text.origin,
                    "HERMES_RESTART_DRAIN_TIMEOUT is not a number of seconds, and is not used",
                );
            }
            seconds.map(|seconds| Sourced::new(seconds, text.origin))
        });
        let drain = match config.or(variable) {
            Some(seconds) => {
                seconds.map(|seconds| Duration::from_secs_f64(seconds.min(DRAIN_MAX.as_secs_f64())))
            }
            None => Sourced::new(DRAIN, Origin::Default),
        };
        report.row(
            "agent.restart_drain_timeout",
            format_args!("{} s", drain.value.as_secs_f64()),
            &drain.origin,
        );
        drain
    }

    fn compression(&self, model: Option<&ModelChoice>, report: &mut Report) -> Compression {
        let written = &self.config.settings.compression;
        let part = |name: &'static str, written: Option<At<f64>>, default, report: &mut Report| {
            let value = or_default(written, default);
            if value.value > 0.0 && value.value <= 1.0 {
                return value;
            }
            report.warn(
                &value.origin,
                format!("`{name}` is a part of the window, above 0 and up to 1; {default} is used"),
            );
            Sourced::new(default, Origin::Default)
        };
        let compression = Compression {
            enabled: or_default(written.enabled, true),
            window: self.window(model, report),
            threshold: part("compression.threshold", written.threshold, 0.5, report),
            target_ratio: part("compression.target_ratio", written.target_ratio, 0.2, report),
            protect_first: or_default(written.protect_first_n, 3),
            protect_last: or_default(written.protect_last_n, 20),
            floor: or_default(self.config.own.compression_floor, COMPRESSION_FLOOR),
            summariser: self.summariser(report),
            timeout: self.summary_timeout(report),
        };
        report.sourced("compression.enabled", &compression.enabled);
        report.sourced("compression.threshold", &compression.threshold);
        report.sourced("compression.target_ratio", &compression.target_ratio);
        report.sourced("compression.protect_first_n", &compression.protect_first);
        report.sourced("compression.protect_last_n", &compression.protect_last);
        report.sourced("throughline.compression_floor", &compression.floor);
        let limits = compression.shares(model).thresholds();
        let effective = format!("from {} tokens on; a request waits at {}", limits.soft, limits.hard);
        report.row("compression (effective)", effective, &compression.window.origin);
        let writes = match &compression.summariser {
            Some(ModelChoice::OpenAi(endpoint) | ModelChoice::Anthropic(endpoint)) => &endpoint.model.value,
            Some(ModelChoice::Rehearsal) | None => "the model that answers",
        };
        let origin = written.auxiliary.model.as_ref().map(|model| Origin::Config { line: model.place.line });
        report.row("auxiliary.compression.model", writes, &origin.unwrap_or(Origin::Default));
        let seconds = format_args!("{} s", compression.timeout.value.as_secs_f64());
        report.row("auxiliary.compression.timeout", seconds, &compression.timeout.origin);
        compression
    }

    /// What the user says, else what is assumed of a model of that name.
    fn window(&self, model: Option<&ModelChoice>, report: &mut Report) -> Sourced<u64> {
        let (said, name) = match model {
            Some(ModelChoice::OpenAi(endpoint) | ModelChoice::Anthropic(endpoint)) => {
                (endpoint.context_length.clone(), endpoint.model.value.as_str())
            }
            Some(ModelChoice::Rehearsal) | None => {
                (self.config.settings.model.context_length.map(Sourced::from), "")
            }
        };
        let assumed = || {
            Sourced::new(
                context_window::assumed(name),
                Origin::Because("by the name of the model".to_owned()),
            )
        };
        match said {
            Some(said) if said.value >= WINDOW_MIN => said,
            Some(said) => {
                report.warn(
                    &said.origin,
                    format!("`context_length` is a number of tokens, at least {WINDOW_MIN}; what is usual for the model is used"),
                );
                assumed()
            }
            None => assumed(),
        }
    }

    fn summary_timeout(&self, report: &mut Report) -> Sourced<Duration> {
        let seconds = or_default(self.config.settings.compression.auxiliary.timeout, SUMMARY_SECONDS);
        if (1.0..=3600.0).contains(&seconds.value) {
            return seconds.map(Duration::from_secs_f64);
        }
        report.warn(
            &seconds.origin,
            format!("`auxiliary.compression.timeout` is a number of seconds from 1 to 3600; {SUMMARY_SECONDS} is used"),
        );
        Sourced::new(Duration::from_secs_f64(SUMMARY_SECONDS), Origin::Default)
    }

    fn review(&self, report: &mut Report) -> Review {
        let written = &self.config.settings.review;
        let review = Review {
            turns: or_default(written.turns, REVIEW_INTERVAL),
            steps: or_default(written.steps, REVIEW_INTERVAL),
            notices: or_default(written.notices.clone(), "on".to_owned()),
            notices_of: written
                .notices_of
                .iter()
                .map(|(name, at)| (name.clone(), at.value.clone()))
                .collect(),
            reviewer: self.reviewer(report),
        };
        report.sourced("memory.nudge_interval", &review.turns);
        report.sourced("skills.creation_nudge_interval", &review.steps);
        report.sourced("display.memory_notifications", &review.notices);
        let looks = match &review.reviewer {
            Some(ModelChoice::OpenAi(endpoint) | ModelChoice::Anthropic(endpoint)) => &endpoint.model.value,
            Some(ModelChoice::Rehearsal) | None => "the model that answers",
        };
        let origin = written.auxiliary.model.as_ref().map(|model| Origin::Config { line: model.place.line });
        report.row("auxiliary.background_review.model", looks, &origin.unwrap_or(Origin::Default));
        review
    }

    /// When conversations end by themselves; nothing else is judged.
    pub fn policies(&self) -> Policies {
        policies(&self.resets())
    }

    fn resets(&self) -> throughline_hermes::config::SessionReset {
        let legacy = self.legacy.as_deref().map(throughline_hermes::config::legacy_resets);
        self.config.settings.session_reset.clone().with(legacy.unwrap_or_default())
    }

    fn session_reset(&self, report: &mut Report) -> SessionReset {
        let written = &self.resets();
        let mode = match &written.mode {
            None => Sourced::new(ResetMode::Never, Origin::Default),
            Some(at) => {
                Sourced::from(at.clone()).map(|word| ResetMode::named(&word).unwrap_or(ResetMode::Never))
            }
        };
        if let Some(at) = written.mode.as_ref().filter(|at| ResetMode::named(&at.value).is_none()) {
            let origin = Origin::Config { line: at.place.line };
            report.warn(&origin, "`session_reset.mode` is `none`, `daily`, `idle` or `both`; `none` is used");
        }
        let mut at_hour = or_default(written.at_hour, 4);
        if at_hour.value > 23 {
            report.warn(&at_hour.origin, "`session_reset.at_hour` is an hour from 0 to 23; 4 is used");
            at_hour = Sourced::new(4, Origin::Default);
        }
        let policies = policies(written);
        let reset =
            SessionReset { mode, at_hour, idle_minutes: or_default(written.idle_minutes, 1440), policies };
        report.row("session_reset.mode", reset.mode.value.word(), &reset.mode.origin);
        report.sourced("session_reset.at_hour", &reset.at_hour);
        report.sourced("session_reset.idle_minutes", &reset.idle_minutes);
        reset
    }

    fn timezone(&self, report: &mut Report) -> Option<Sourced<String>> {
        let variable =
            self.variable("HERMES_TIMEZONE").map(|zone| zone.map(|zone| zone.expose().trim().to_owned()));
        let written = self.config.settings.timezone.clone().map(Sourced::from).or(variable);
        let known = written.filter(|zone| {
            let known = jiff::tz::TimeZone::get(&zone.value).is_ok();
            if !known {
                report.warn(&zone.origin, "this time zone is not known; the machine's own is used");
            }
            known
        });
        match &known {
            Some(zone) => report.sourced("timezone", zone),
            None => report.row("timezone", "the machine's", &Origin::Default),
        }
        known
    }

    /// Only names that [`file_policy`] does not know can be opened.
    fn open_in_home(&self, report: &mut Report) -> Vec<String> {
        let Some(written) = self.config.own.open_in_home.clone().map(Sourced::from) else {
            return Vec::new();
        };
        let (opened, others): (Vec<String>, Vec<String>) = written.value.into_iter().partition(|name| {
            let is_name = Path::new(name).components().count() == 1 && !name.contains(['/', '\\']);
            is_name && file_policy::kind(Path::new(name)) == file_policy::Kind::Unknown
        });
        for name in others {
            let why = format!(
                "throughline.open_in_home cannot open '{name}': it takes names right below the home that the gateway \
                 does not use itself"
            );
            report.warn(&written.origin, why);
        }
        report.row("throughline.open_in_home", opened.join(", "), &written.origin);
        opened
    }

    fn multiplex_profiles(&self, report: &mut Report) -> Sourced<bool> {
        let variable = self.variable("GATEWAY_MULTIPLEX_PROFILES").and_then(|text| {
            let known = match text.value.expose().trim().to_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Some(true),
                "0" | "false" | "no" | "off" => Some(false),
                _ => None,
            };
            known.map(|known| Sourced::new(known, text.origin))
        });
        let written = self.config.settings.multiplex_profiles.map(Sourced::from);
        let multiplex = variable.or(written).unwrap_or_else(|| Sourced::new(false, Origin::Default));
        report.sourced("gateway.multiplex_profiles", &multiplex);
        multiplex
    }

    /// Hermes takes nothing and zero for its own defaults.
    fn logs(&self, report: &mut Report) -> Logs {
        let written = &self.config.settings.logs;
        let level = match self.config.settings.log_level.as_ref().map(|at| at.value.to_uppercase()).as_deref()
        {
            Some("DEBUG") => Level::Debug,
            Some("WARNING" | "WARN") => Level::Warning,
            Some("ERROR" | "CRITICAL") => Level::Error,
            _ => Level::Info,
        };
        let given = |at: Option<At<f64>>| at.filter(|at| at.value > 0.0);
        let megabytes = or_default(given(written.max_size_mb), LOG_MEGABYTES);
        let backups = or_default(written.backup_count.filter(|at| at.value > 0), LOG_BACKUPS);
        report.sourced("logging.max_size_mb", &megabytes);
        report.sourced("logging.backup_count", &backups);
        let bytes_max = (megabytes.value * f64::from(1 << 20)) as u64;
        Logs { level, bytes_max: bytes_max.max(LOG_BYTES_MIN), backups: backups.value.min(LOG_BACKUPS_MAX) }
    }

    fn log_level(&self, report: &mut Report) -> Sourced<String> {
        let flag = self.overrides.log_level.clone().map(|level| Sourced::new(level, Origin::CommandLine));
        let variable =
            self.variable("THROUGHLINE_LOG").map(|level| level.map(|level| level.expose().to_owned()));
        let own = self.config.own.log_level.clone().map(Sourced::from);
        // Hermes' own words for levels; one that we do not know is Hermes' business.
        let hermes = self.config.settings.log_level.clone().map(Sourced::from);
        let hermes = hermes.and_then(|level| {
            let known = match level.value.to_uppercase().as_str() {
                "DEBUG" => Some("debug"),
                "INFO" => Some("info"),
                "WARNING" | "WARN" => Some("warn"),
                "ERROR" | "CRITICAL" => Some("error"),
                _ => None,
            };
            known.map(|known| Sourced::new(known.to_owned(), level.origin))
        });
        let level = flag.or(variable).or(own).or(hermes);
        let level = level.unwrap_or_else(|| Sourced::new("info".to_owned(), Origin::Default));
        if tracing_subscriber::EnvFilter::try_new(&level.value).is_err() {
            report.refuse(&level.origin, "a log level is `error`, `warn`, `info`, `debug` or `trace`");
        }
        report.sourced("throughline.log_level", &level);
        level
    }
}

impl ResetMode {
    fn named(word: &str) -> Option<Self> {
        match word.to_lowercase().as_str() {
            "none" => Some(Self::Never),
            "daily" => Some(Self::Daily),
            "idle" => Some(Self::Idle),
            "both" => Some(Self::Both),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Never => "none",
            Self::Daily => "daily",
            Self::Idle => "idle",
            Self::Both => "both",
        }
    }
}

fn or_default<T>(written: Option<At<T>>, default: T) -> Sourced<T> {
    written.map_or_else(|| Sourced::new(default, Origin::Default), Sourced::from)
}

/// Never open without a key that the user chose, never with one that can be guessed.
fn check_key(host: &Sourced<String>, key: Option<&Sourced<Secret>>, report: &mut Report) {
    match key {
        None if !is_loopback(&host.value) => report.refuse(
            &host.origin,
            match resolved(&host.value) {
                // A key would not help: there is no such place.
                Err(error) => format!("the API cannot listen: {}", unresolved(&host.value, &error)),
                Ok(()) => format!(
                    "the API would listen on {}, where others reach it, without a key of your choice; set \
                     API_SERVER_KEY in {ENV_FILE}, or listen on {HOST}",
                    host.value
                ),
            },
        ),
        Some(key) if !provider::is_usable_secret(key.value.expose(), KEY_LENGTH_MIN) => report.refuse(
            &key.origin,
            format!(
                "API_SERVER_KEY is too short, and a stranger who guesses it runs your agent; take {KEY_LENGTH_MIN} random \
                 characters or more, or leave it out and a key is made for this home"
            ),
        ),
        Some(key) if !key.value.expose().chars().all(|c| c.is_ascii_graphic()) => {
            report.refuse(&key.origin, "API_SERVER_KEY holds characters that no HTTP header carries");
        }
        _ => {}
    }
}

/// Whether a host is an address, or a name that has one.
fn resolved(host: &str) -> io::Result<()> {
    let mut found = (host.trim_matches(['[', ']']), 0).to_socket_addrs()?;
    found.next().map(drop).ok_or_else(|| io::Error::other("the name has no address"))
}

/// What is wrong with a host that no address is known of, and what to do about it.
pub fn unresolved(host: &str, error: &io::Error) -> String {
    format!(
        "{host} is no address, and no name that has one ({error}). Set --host or API_SERVER_HOST to {HOST}, or to an \
         address of this machine"
    )
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What a conversation's end by itself comes to, where and when.
fn policies(written: &throughline_hermes::config::SessionReset) -> Policies {
    let named = |list: &[(String, throughline_hermes::config::SessionReset)]| {
        list.iter().map(|(name, written)| (name.clone(), policy(written))).collect()
    };
    Policies {
        common: policy(written),
        by_type: named(&written.by_type),
        by_platform: named(&written.by_platform),
    }
}

fn policy(written: &throughline_hermes::config::SessionReset) -> Policy {
    let usual = Policy::default();
    let minutes = |at: &At<u64>| Duration::from_secs(at.value.saturating_mul(60));
    let hours = |at: &At<u64>| Duration::from_secs(at.value.saturating_mul(3600));
    let hour = written.at_hour.and_then(|at| u8::try_from(at.value).ok()).filter(|hour| *hour < 24);
    let mode = written.mode.as_ref().and_then(|at| ResetMode::named(&at.value));
    Policy {
        mode: match mode.unwrap_or(ResetMode::Never) {
            ResetMode::Never => Mode::Never,
            ResetMode::Idle => Mode::Idle,
            ResetMode::Daily => Mode::Daily,
            ResetMode::Both => Mode::Both,
        },
        idle: written.idle_minutes.as_ref().map_or(usual.idle, minutes),
        at_hour: hour.unwrap_or(usual.at_hour),
        notify: written.notify.map_or(usual.notify, |at| at.value),
        quiet_platforms: match &written.notify_exclude_platforms {
            Some(at) => at.value.clone(),
            None => usual.quiet_platforms,
        },
        process_age_max: written.bg_process_max_age_hours.as_ref().map_or(usual.process_age_max, hours),
    }
}
