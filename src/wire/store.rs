//! Commands that work on what a home keeps.

use super::homes::{Held, existing, gateway_of, held};
use super::now;
use crate::cmd;
use crate::cmd::jobs::Retry;
use crate::cmd::memory::{Memory, MemoryOrder};
use crate::cmd::pairing::Pairing;
use crate::cmd::prune::Prune;
use crate::cmd::sessions::snapshots::Restore;
use crate::cmd::status::{StatusPlace, outside as outside_of};
use crate::out::Page;
use anyhow::bail;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_app::equip;
use throughline_home::config::Environment;
use throughline_platforms::Pairings;

/// What was said in the one home that is meant.
pub fn reader(
    homes: &[PathBuf],
    environment: &Environment,
) -> anyhow::Result<throughline_store::StoreReader> {
    let home = existing(homes, environment)?;
    Ok(throughline_store::Home::at(home.path()).reader()?)
}

/// On the files of a home, with or without a gateway.
pub fn pairing(
    command: Pairing,
    homes: &[PathBuf],
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = existing(homes, environment)?;
    command.run(&Pairings::of(home.path()), &home.variables(environment), now(), out)
}

/// On the files of a home, with or without a gateway: their lock keeps writers apart.
pub fn memory(
    command: Memory,
    homes: &[PathBuf],
    environment: &Environment,
    page: &Page,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let command = match command {
        Memory::Jobs(jobs) => {
            let store = reader(homes, environment)?;
            return jobs.run(&store, now(), out);
        }
        Memory::Retry(retry) => return retry_memory(&retry, homes, environment, out),
        command => command,
    };
    let home = existing(homes, environment)?;
    let settings = home.settings(environment)?;
    let memory = throughline_memory::Memory::new(equip::memory_settings(&home, &settings));
    if let Memory::Status(overview) = command {
        let written = equip::memory_outside(&home, &settings);
        let occupied = home.owner().map(|owner| owner.to_string());
        let not_carried = Vec::new();
        let place =
            StatusPlace { gateway: gateway_of(&home)?, name: String::new(), home, occupied, not_carried };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outside = runtime.block_on(outside_of(&place, written));
        overview.run(&memory, Some(&outside), page, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let order = MemoryOrder { source: "cli", now: now() };
    command.run(&memory, order, page, out)
}

/// By the home's gateway if one runs, else here.
fn retry_memory(
    command: &Retry,
    homes: &[PathBuf],
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = existing(homes, environment)?;
    match held(&home, environment)? {
        Held::There(gateway, runtime) => runtime.block_on(command.there(&gateway, out)),
        Held::Here(mut store, _ownership) => command.here(&mut store, now(), out),
    }
}

/// Looks beside a running gateway, and deletes without one.
pub fn prune(
    command: &Prune,
    homes: &[PathBuf],
    environment: &Environment,
    page: &Page,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = existing(homes, environment)?;
    let now = now();
    let reader = throughline_store::Home::at(home.path()).reader()?;
    let found = command.look(home.path(), &reader, now)?;
    if !command.deletes() {
        return command.tell(&found, page, out);
    }
    drop(reader);
    if let Some(occupied) = home.owner() {
        bail!("{occupied}. Nothing was deleted: a gateway owns what is in its home");
    }
    match held(&home, environment)? {
        Held::There(..) => {
            bail!("a gateway has just started in {}; nothing was deleted", home.path().display())
        }
        Held::Here(mut store, _ownership) => command.run(home.path(), found, &mut store, now, out),
    }
}

/// Looks beside a running gateway, and deletes without one.
pub fn forget(
    command: &cmd::forget::Forget,
    homes: &[PathBuf],
    environment: &Environment,
    page: &Page,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = existing(homes, environment)?;
    let reader = throughline_store::Home::at(home.path()).reader()?;
    if command.wants_receipts() {
        return command.show_receipts(&reader, page, out);
    }
    let settings = home.settings(environment)?;
    let memory = throughline_memory::Memory::new(equip::memory_settings(&home, &settings));
    let provider = equip::memory_outside(&home, &settings).unwrap_or_default();
    let agent = equip::agent_name(&home);
    let now = now();
    let site = cmd::forget::Site {
        home: home.path(),
        memory: &memory,
        provider: provider.as_deref(),
        agent: &agent,
        now,
    };
    let found = command.look(&site, &reader)?;
    drop(reader);
    match &found {
        Some(found) if !command.deletes() => return command.tell(found, out),
        _ => {}
    }
    if let Some(occupied) = home.owner() {
        bail!(
            "{occupied}. Nothing was deleted: a session in flight could write back what is forgotten. Stop the gateway, \
             run this again, and start it"
        );
    }
    match held(&home, environment)? {
        Held::There(..) => {
            bail!("a gateway has just started in {}; nothing was deleted", home.path().display())
        }
        Held::Here(mut store, _ownership) => {
            let code = command.run(found, &site, &mut store, out)?;
            // The lock tells how this process was started, and so who was forgotten.
            home.forget_command_line();
            Ok(code)
        }
    }
}

/// By the home's gateway if one runs, else here, while this process owns the home.
pub fn restore(
    command: &Restore,
    homes: &[PathBuf],
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = existing(homes, environment)?;
    let reader = throughline_store::Home::at(home.path()).reader()?;
    command.meant(&reader)?; // before anything else is looked at
    match held(&home, environment)? {
        Held::There(gateway, runtime) => runtime.block_on(command.there(&reader, &gateway, out)),
        Held::Here(mut store, _ownership) => {
            drop(reader);
            command.here(&mut store, now(), out)
        }
    }
}
