//! Commands that talk to the gateway of a home, or run an agent of their own while they last.

use super::homes::{endpoint, existing, only, published};
use crate::client;
use crate::cmd;
use crate::cmd::chat::Chat;
use crate::cmd::eval::{Eval, Surroundings};
use crate::cmd::mcp::Mcp;
use crate::cmd::memory::InChat;
use crate::cmd::plugin::{KnownPlugins, Plugin};
use crate::out::Page;
use anyhow::{Context, bail};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use throughline_app::agent::{self, ApiListener, ProcessShared, Running, Upkeep};
use throughline_app::equip::plugins::{PluginPlace, Plugins};
use throughline_app::equip::{self, compressor};
use throughline_app::models::{http, model};
use throughline_core::port::{Promise, Summariser};
use throughline_home::config::{Environment, Settings};
use throughline_home::home::{self, Home};
use throughline_plugins::Host;
use throughline_upkeep::forget;

/// What agents have done by the upkeep of homes.
pub fn upkeep() -> Upkeep {
    Upkeep { finish_forgetting: forget::finish_interrupted }
}

/// A chat with the home's gateway; with one of its own, for as long as it lasts, if there is none.
pub fn chat(command: Chat, homes: &[PathBuf], environment: &Environment) -> anyhow::Result<ExitCode> {
    let home = only(homes, environment)?;
    home.refuse_mistyped()?;
    if home.owner().is_none() {
        home::take_title().context("could not start again under the name that Hermes knows")?;
    }
    let settings = home.settings(environment)?;
    let configured = published(&home, &settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        let mut own = None;
        let begin = async || {
            let running = start_for_a_command(&home, &settings, environment).await?;
            let endpoint = endpoint(&home, &running.address, &running.key);
            own = Some(running);
            Ok(endpoint)
        };
        let code = command.run(home.path(), configured, begin).await;
        if let Some(running) = own {
            // Ctrl-C does not wait for a slow turn: it goes on at the next start.
            tokio::select! {
                stopped = running.stop() => stopped.map(|_| ())?,
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        code
    });
    runtime.shutdown_background();
    code
}

/// Looks at the MCP servers of a home, or speaks for its gateway: for one of its own if none runs.
pub fn mcp(
    command: Mcp,
    homes: &[PathBuf],
    environment: &Environment,
    page: &Page,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = existing(homes, environment)?;
    let serve = match command {
        Mcp::Serve(serve) => serve,
        command => return mcp_servers(command, &home, environment, page, out),
    };
    if home.owner().is_none() {
        home::take_title().context("could not start again under the name that Hermes knows")?;
    }
    let settings = home.settings(environment)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        let (endpoint, own) = match published(&home, &settings)?.filter(|_| home.owner().is_some()) {
            Some(endpoint) => (endpoint, None),
            None => {
                let running = start_for_a_command(&home, &settings, environment).await?;
                (endpoint(&home, &running.address, &running.key), Some(running))
            }
        };
        let key = endpoint.key.clone();
        let code = serve.run(client::Client::new(endpoint)?, &key).await;
        if let Some(running) = own {
            running.stop().await?;
        }
        code
    });
    runtime.shutdown_background();
    code
}

/// What a home's settings say of MCP servers, and what a running gateway says.
fn mcp_servers(
    command: Mcp,
    home: &Home,
    environment: &Environment,
    page: &Page,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let settings = home.settings(environment)?;
    let servers = equip::servers::settings(&settings.tools);
    let surroundings = equip::servers::surroundings(home.path(), &settings);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let code = match command {
        Mcp::List(list) => list.run(&servers, running_servers(home, environment), page, out),
        Mcp::Test(test) => cmd::mcp::named(servers, test.name())
            .and_then(|server| runtime.block_on(test.run(server, surroundings, out))),
        Mcp::Login(login) => cmd::mcp::named(servers, login.name())
            .and_then(|server| runtime.block_on(login.run(server, surroundings, out))),
        Mcp::Serve(_) => unreachable!("taken care of by the caller"),
    };
    runtime.shutdown_background();
    code
}

/// How the MCP servers of a home are doing. None: no gateway runs that could say so.
pub fn running_servers(home: &Home, environment: &Environment) -> Option<serde_json::Value> {
    home.owner()?;
    let settings = home.settings(environment).ok()?;
    let endpoint = published(home, &settings).ok()??;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let mut standing = runtime.block_on(client::Client::new(endpoint).ok()?.home_status()).ok()?;
    Some(standing["mcp_servers"].take())
}

/// What is configured, and what a gateway says that runs.
pub fn plugin(
    command: Plugin,
    homes: &[PathBuf],
    environment: &Environment,
    page: &Page,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let command = match command {
        Plugin::Check(check) => return plugin_check(check, homes, environment, out),
        Plugin::New(new) => return new.run(out),
        command => command,
    };
    let home = existing(homes, environment)?;
    if let Plugin::Logs(logs) = &command {
        return logs.run(&home, out);
    }
    let settings = home.settings(environment)?;
    match command {
        Plugin::Enable(enable) => enable.run(&home, &settings.plugins, out),
        Plugin::Disable(disable) => disable.run(&home, &settings.plugins, out),
        Plugin::List(list) => {
            let endpoint = published(&home, &settings)?.filter(|_| home.owner().is_some());
            let running = match endpoint {
                None => None,
                Some(endpoint) => {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                    let standing = runtime.block_on(client::Client::new(endpoint)?.home_status());
                    Some(standing.context("the running gateway does not say how its plugins are doing")?["plugins"].take())
                }
            };
            list.run(&KnownPlugins { plugins: settings.plugins.clone(), running }, page, out)
        }
        Plugin::Check(_) | Plugin::New(_) | Plugin::Logs(_) => unreachable!("taken care of above"),
    }
}

/// In a home of its own, so that it damages none: a copy of what the one that is meant has for its plugins.
fn plugin_check(
    check: cmd::plugin::Check,
    homes: &[PathBuf],
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let place = tempfile::tempdir().context("there is no place for the plugin to work in")?;
    if homes.is_empty() && check.name().is_none() {
        let empty = cmd::plugin::copied(&place.path().join("nowhere"), place.path())?;
        let checked = check.command(&empty, Vec::new());
        return check.run(checked, out);
    }
    let home = only(homes, environment)?;
    home.refuse_mistyped()?;
    let copy = cmd::plugin::copied(home.path(), place.path())?;
    let untried = format!("what it keeps in {}", home.path().display());
    let by_name = match check.name() {
        Some(name) => {
            let mut settings = Settings::clone(&*home.settings(environment)?);
            Plugins::checked(&home, &Home::new(&copy, home.chosen_by), &mut settings, name)?
        }
        None => None,
    };
    let checked = match by_name {
        Some((settings, [engine, provider])) => {
            cmd::plugin::Checked { settings, engine, provider, untried: Some(untried) }
        }
        None => {
            let checked = check.command(&copy, vec![home.path().to_owned()]);
            cmd::plugin::Checked { untried: Some(untried).filter(|_| home.path().is_dir()), ..checked }
        }
    };
    check.run(checked, out)
}

/// Runs an evaluation, with the model and the plugins of a home where they are asked for.
pub fn evaluate(
    command: Eval,
    homes: &[PathBuf],
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(command.run(&Evaluated { homes, environment }, out))
}

struct Evaluated<'a> {
    homes: &'a [PathBuf],
    environment: &'a Environment,
}

impl Evaluated<'_> {
    fn settings(&self) -> anyhow::Result<(Home, Arc<Settings>)> {
        let home = existing(self.homes, self.environment)?;
        let settings = home.settings(self.environment)?;
        Ok((home, settings))
    }
}

impl Surroundings for Evaluated<'_> {
    fn writer(&self) -> anyhow::Result<Arc<dyn Summariser>> {
        let (_, settings) = self.settings()?;
        let http = http();
        let main =
            model(&settings.model, self.environment, &http).context("the configured model cannot be used")?;
        let other = settings
            .compression
            .summariser
            .as_ref()
            .map(|choice| model(choice, self.environment, &http))
            .transpose();
        let other = other.context("the model of auxiliary.compression cannot be used")?;
        // The offline model rehearses gateways; what it says about a conversation measures nothing.
        if !other.as_ref().unwrap_or(&main).is_real() {
            bail!(
                "no model is configured that could be asked; set one in config.yaml, or use the scripted summariser"
            );
        }
        Ok(compressor::summarisers(&settings, &main, other).remove(0))
    }

    fn plugin<'a>(
        &'a self,
        engine: &'a str,
        writer: Arc<dyn Summariser>,
    ) -> Promise<'a, anyhow::Result<Host>> {
        Box::pin(async move {
            let (home, settings) = self.settings()?;
            let place = PluginPlace { home: &home, agent: "eval", homes: &[] };
            Plugins::with_engine(&place, &settings, engine, writer).await
        })
    }
}

/// One agent on a port that is free, for as long as a command needs it.
async fn start_for_a_command(
    home: &Home,
    settings: &Settings,
    environment: &Environment,
) -> anyhow::Result<Running> {
    let (name, shared) = (home.name(), ProcessShared::of_one(environment, upkeep(), Arc::new(InChat)));
    let claim = agent::claim(&name, home, settings, &shared)?;
    agent::start(&name, claim, settings, ApiListener::Own { port: Some(0) }, &shared).await
}
