//! Which homes a command is for, and whether a gateway has them.

use super::now;
use crate::client;
use crate::cmd::status::StatusPlace;
use anyhow::bail;
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_core::Time;
use throughline_core::redact::Secret;
use throughline_home::config::{Environment, Settings};
use throughline_home::home::{self, Address, ChosenBy, Home, Ownership};

/// The one home that is meant, which is there.
pub fn existing(homes: &[PathBuf], environment: &Environment) -> anyhow::Result<Home> {
    let home = only(homes, environment)?;
    home.refuse_absent()?;
    Ok(home)
}

/// The one home that is meant, which need not be there yet.
pub fn only(homes: &[PathBuf], environment: &Environment) -> anyhow::Result<Home> {
    let mut homes = home::choose(homes, &|name| environment.get(name))?;
    match (homes.pop(), homes.is_empty()) {
        (Some(home), true) => Ok(home),
        _ => bail!("this command looks at one home; give --home once"),
    }
}

/// The gateways that run: of the homes that are given, or of those that people usually have.
pub fn gateways(
    homes: &[PathBuf],
    all_profiles: bool,
    environment: &Environment,
) -> anyhow::Result<Vec<client::Client>> {
    let mut found: Vec<client::Client> = Vec::new();
    for (_, home) in home::meant(homes, all_profiles, &|name| environment.get(name))? {
        let Some(client) = gateway_of(&home)? else { continue };
        // Two homes may have left the same address behind: one of them has its gateway there.
        if !found.iter().any(|known| (known.address(), known.home()) == (client.address(), client.home())) {
            found.push(client);
        }
    }
    Ok(found)
}

pub fn gateway_of(home: &Home) -> anyhow::Result<Option<client::Client>> {
    match (home.address(), home.key()) {
        (Some(address), Ok(Some(key))) => client::Client::new(endpoint(home, &address, &key)).map(Some),
        _ => Ok(None),
    }
}

/// Where a gateway of this home would answer. None: it has no key yet, so none has ever run.
pub fn published(home: &Home, settings: &Settings) -> anyhow::Result<Option<client::Endpoint>> {
    let api = &settings.api;
    let key = match &api.key {
        Some(key) => Some(key.value.clone()),
        None => home.key()?,
    };
    Ok(key.map(|key| match home.address() {
        Some(address) => endpoint(home, &address, &key),
        None => client::Endpoint::at(&api.host.value, api.port.value, key, home.identity()),
    }))
}

pub fn endpoint(home: &Home, address: &Address, key: &Secret) -> client::Endpoint {
    let (host, port) = (address.socket.ip().to_string(), address.socket.port());
    let mut endpoint = client::Endpoint::at(&host, port, key.clone(), home.identity());
    endpoint.url.push_str(&address.path);
    endpoint
}

/// A home that is about to be written to.
pub enum Held {
    There(client::Client, tokio::runtime::Runtime),
    Here(throughline_store::StoreWriter, Ownership),
}

pub fn held(home: &Home, environment: &Environment) -> anyhow::Result<Held> {
    let mut store = throughline_store::Home::at(home.path());
    let settings = home.settings(environment)?;
    if let Some(occupied) = home.owner() {
        let endpoint = published(home, &settings)?.filter(|_| home.address().is_some());
        let Some(endpoint) = endpoint else { bail!(occupied) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return Ok(Held::There(client::Client::new(endpoint)?, runtime));
    }
    let ownership = home.own(env!("CARGO_PKG_VERSION"))?;
    if settings.allow_unsafe_filesystem.value {
        store.filesystem = throughline_store::FileSystem::Trusted;
    }
    Ok(Held::Here(store.writer(now())?, ownership))
}

/// A question about every home that is meant, to its gateway or to its files.
pub fn look(
    homes: &[PathBuf],
    all_profiles: bool,
    environment: &Environment,
    look: impl AsyncFnOnce(Vec<StatusPlace>, Time) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let mut places = Vec::new();
    for (name, home) in home::meant(homes, all_profiles, &|name| environment.get(name))? {
        if home.chosen_by == ChosenBy::Default && !home.path().exists() {
            continue; // no agent was ever begun in the place that is looked at unasked
        }
        home.refuse_absent()?;
        let occupied = home.owner().map(|owner| owner.to_string());
        // A file that cannot be read is for `config check` and the start to say.
        let settings = home.settings(environment).ok();
        let not_carried = settings.map(|settings| settings.not_carried.clone()).unwrap_or_default();
        places.push(StatusPlace { gateway: gateway_of(&home)?, name, home, occupied, not_carried });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(look(places, now()))
}

/// An order to the gateways that run.
pub fn order(
    homes: &[PathBuf],
    all_profiles: bool,
    environment: &Environment,
    order: impl AsyncFnOnce(Vec<client::Client>) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let gateways = gateways(homes, all_profiles, environment)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(order(gateways))
}
