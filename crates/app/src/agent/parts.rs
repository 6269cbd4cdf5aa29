//! What an agent's settings mean to the gateway: its parts, its rules and its limits.

use super::ProcessShared;
use crate::equip::{self, Equipment};
use crate::ledger::{self, SharedLedger};
use jiff::tz::TimeZone;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::guard::Limits;
use throughline_core::port::{Model, Platform, Read, Store, StoreError};
use throughline_core::session::Rules;
use throughline_core::session::review::Intervals;
use throughline_gateway::{
    Clock, Compressor, Lifecycle, Mint, NoClerk, Notice, Notices, OneModel, Options, Parts, Reviewer,
    SystemClock,
};
use throughline_hermes::{id, local};
use throughline_home::Home;
use throughline_home::config::{ModelChoice, Review, Settings};

pub fn parts(
    store: &throughline_store::Home,
    model: Arc<dyn Model>,
    settings: &Settings,
    equipment: &Equipment,
    compressor: Compressor,
    platforms: Vec<Arc<dyn Platform>>,
    ledger: Arc<SharedLedger>,
) -> Parts {
    let clock = Arc::new(SystemClock::new());
    let (writing, reading, time) = (store.clone(), store.clone(), clock.clone());
    let opened = std::sync::OnceLock::new();
    Parts {
        clock,
        model,
        tools: equipment.tools.clone(),
        gateway_tools: equipment.gateway_tools.clone(),
        prompts: equipment.prompts.clone(),
        compressor,
        memory: equipment.outside.clone(),
        reviewer: Reviewer::default(),
        hooks: equipment.hooks.clone(),
        platforms,
        host_commands: Arc::new(NoClerk),
        models: Arc::new(OneModel),
        ledger,
        mint: mint(settings),
        open: Box::new(move || {
            let writer = match opened.get() {
                None => writing.writer(time.now()),
                Some(file) => writing.writer_of(*file, time.now()),
            };
            let writer = writer.map_err(|error| broken("open the store", error))?;
            if let Some(file) = writer.file() {
                opened.get_or_init(|| file);
            }
            Ok(Box::new(writer) as Box<dyn Store>)
        }),
        readers: Some(Box::new(move || {
            let reader = reading.reader().map_err(|error| broken("open a reader of the store", error))?;
            Ok(Box::new(reader) as Box<dyn Read>)
        })),
    }
}

pub fn options(
    name: &str,
    home: &Home,
    settings: &Settings,
    hard_tokens: Option<u64>,
    shared: &ProcessShared,
) -> Options {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let limits = Limits {
        steps_max: small(settings.steps_max.value),
        turn_tokens_max: settings.turn_tokens_max.as_ref().map(|max| max.value),
        chain: settings.chain.clone(),
    };
    Options {
        defect: None,
        rules: Rules {
            busy: settings.busy_input.value,
            hard_tokens,
            limits,
            agent: name.into(),
            home: ledger::name_of(home.path()).into(),
            review: intervals(settings),
            ..Rules::default()
        },
        reasoning: settings.reasoning_effort.as_ref().map(|effort| effort.value.clone()),
        recollects: settings.recollects.value && !matches!(settings.model, ModelChoice::Rehearsal),
        administrators: administrators(settings),
        owners: equip::people::owners(home, settings),
        lifecycle: lifecycle(settings),
        writer_thread: true,
        cached: shared.cached.clone(),
    }
}

/// Hermes' `allow_admin_from`, of every platform. Where no user is named, there is none.
fn administrators(settings: &Settings) -> Vec<(String, String)> {
    let named = settings.platforms.all.iter().flat_map(|platform| {
        platform.access.orders.direct.admins.iter().map(|user| (platform.name.clone(), user.clone()))
    });
    named.collect()
}

/// When conversations are looked back at. The offline model has no use for it.
fn intervals(settings: &Settings) -> Intervals {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    match settings.model {
        ModelChoice::Rehearsal => Intervals::default(),
        ModelChoice::OpenAi(_) | ModelChoice::Anthropic(_) => {
            let Review { turns, steps, .. } = &settings.review;
            Intervals { turns: small(turns.value), steps: small(steps.value) }
        }
    }
}

pub fn reviewer(settings: &Settings, model: Option<Arc<dyn Model>>, equipment: &Equipment) -> Reviewer {
    let notice = |word: &str| match word {
        "off" => Notice::Off,
        "verbose" => Notice::Verbose,
        _ => Notice::On,
    };
    let Review { notices, notices_of, .. } = &settings.review;
    let of_platforms = notices_of.iter().map(|(platform, word)| (platform.clone(), notice(word))).collect();
    let notices = Notices { usual: notice(&notices.value), of_platforms };
    Reviewer::new(model, notices, equipment.fills.clone())
}

/// When conversations end by themselves, by the clock on the wall.
fn lifecycle(settings: &Settings) -> Lifecycle {
    let zone = zone(settings);
    let struck = Arc::new(move |now, hour| local::last_struck(now, hour, &zone));
    // Without any pause the gateway would do nothing else.
    let watch = Duration::from_secs(settings.expiry_watch.value.max(1));
    Lifecycle { watch, ..Lifecycle::new(settings.session_reset.policies.clone(), struck) }
}

fn zone(settings: &Settings) -> TimeZone {
    let named = settings.timezone.as_ref().and_then(|zone| TimeZone::get(&zone.value).ok());
    named.unwrap_or_else(local::system_zone)
}

/// Ids as Hermes makes them: by the clock on the wall, and told apart by where a session comes from.
fn mint(settings: &Settings) -> Mint {
    let zone = zone(settings);
    Arc::new(move |now, chance, source| {
        let [a, b, c, d, ..] = chance.to_le_bytes();
        match source {
            "api_server" => id::api_id(now, [a, b, c, d]),
            "cli" | "branch" => id::child_id(now, &zone, [a, b, c]),
            "background" => id::background_id(now, &zone, [a, b, c]),
            _ => id::gateway_id(now, &zone, [a, b, c, d]),
        }
    })
}

pub fn broken(doing: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Broken { doing, source: Box::new(error) }
}

/// What a person should read: the cause, where the outer words only say that there is one.
pub fn because(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Broken { source, .. } => anyhow::Error::from_boxed(source),
        error => error.into(),
    }
}
