//! Throughline: parse, dispatch, exit code.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod chat;
mod client;
mod cmd;
mod interrupt;
mod out;
mod passphrase;
mod signal;
mod span;
mod wire;

use clap::Parser;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_app::ledger;
use throughline_home::config::Environment;

/// Of hundreds of agents at rest most would be free memory that the system's allocator keeps, scattered over threads.
/// This one gives it back; `.cargo/config.toml` says how soon. SQLite's memory is in it, too.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A gateway for long-lived AI agents that never loses the thread
#[derive(Parser)]
#[command(name = "throughline", version, args_conflicts_with_subcommands = false)]
struct Arguments {
    /// The home of an agent: $THROUGHLINE_HOME, $HERMES_HOME or ~/.throughline if not given. The
    /// gateway takes several, one agent each
    #[arg(long = "home", value_name = "DIRECTORY", global = true)]
    homes: Vec<PathBuf>,
    /// Every profile of the home that is given: the root itself and those below `profiles/`
    #[arg(long, global = true)]
    all_profiles: bool,
    #[command(flatten)]
    run: cmd::run::Run,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    Run(cmd::run::Run),
    Status(cmd::status::Status),
    Restart(cmd::restart::Restart),
    #[command(subcommand)]
    Service(cmd::service::Service),
    Chat(cmd::chat::Chat),
    /// What was said
    #[command(subcommand)]
    Sessions(cmd::sessions::Sessions),
    Why(cmd::why::Why),
    Audit(cmd::audit::Audit),
    Adopt(cmd::adopt::Adopt),
    Doctor(cmd::doctor::Doctor),
    Backup(cmd::backup::Backup),
    Restore(cmd::restore::Restore),
    Prune(cmd::prune::Prune),
    Forget(cmd::forget::Forget),
    /// What is remembered, where it comes from, and what is gone
    #[command(subcommand)]
    Memory(cmd::memory::Memory),
    /// What is configured, and by what
    #[command(subcommand)]
    Config(cmd::config::Config),
    /// Who may write to an agent by a code
    #[command(subcommand)]
    Pairing(cmd::pairing::Pairing),
    Stop(cmd::stop::Stop),
    Resume(cmd::stop::Resume),
    /// Programs of others that work for an agent
    #[command(subcommand)]
    Plugin(cmd::plugin::Plugin),
    /// The Model Context Protocol
    #[command(subcommand)]
    Mcp(cmd::mcp::Mcp),
    /// Measure what is left of conversations
    #[command(subcommand)]
    Eval(cmd::eval::Eval),
}

fn main() -> ExitCode {
    throughline_net::install_tls();
    signal::outlive_file_limit();
    out::redact_panics();
    let arguments = Arguments::parse();
    let environment = Environment::of_this_process();
    let (homes, all_profiles) = (&arguments.homes, arguments.all_profiles);
    let page = out::Page::of(&io::stdout());
    let mut out = io::BufWriter::new(io::stdout());
    let result = match arguments.command {
        None => arguments.run.run(homes, all_profiles, &environment, &mut out),
        Some(Command::Run(run)) => run.run(homes, all_profiles, &environment, &mut out),
        Some(Command::Status(command)) => {
            wire::look(homes, all_profiles, &environment, async |places, now| {
                command.run(places, now, &page, &mut out).await
            })
        }
        Some(Command::Restart(command)) => wire::order(homes, all_profiles, &environment, async |gateways| {
            command.run(gateways, &mut out).await
        }),
        Some(Command::Service(command)) => wire::only(homes, &environment)
            .and_then(|home| command.run(&home, all_profiles, &|name| environment.get(name), &mut out)),
        Some(Command::Chat(command)) => wire::chat(command, homes, &environment),
        Some(Command::Sessions(cmd::sessions::Sessions::Restore(command))) => {
            wire::restore(&command, homes, &environment, &mut out)
        }
        Some(Command::Sessions(command)) => {
            wire::reader(homes, &environment).and_then(|store| command.run(&store, &page, &mut out))
        }
        Some(Command::Why(command)) => {
            wire::reader(homes, &environment).and_then(|store| command.run(&store, &page, &mut out))
        }
        Some(Command::Adopt(command)) => command.run(&environment, wire::now(), &page, &mut out),
        Some(Command::Audit(command)) => command.run(homes, &environment, &page, &mut out),
        Some(Command::Doctor(command)) => command.run(homes, &environment, &page, &mut out),
        Some(Command::Backup(command)) => wire::existing(homes, &environment)
            .and_then(|home| command.run(&home, all_profiles, &environment, &mut out)),
        Some(Command::Restore(command)) => {
            command.run(|| wire::only(homes, &environment), &environment, &mut out)
        }
        Some(Command::Prune(command)) => wire::prune(&command, homes, &environment, &page, &mut out),
        Some(Command::Forget(command)) => wire::forget(&command, homes, &environment, &page, &mut out),
        Some(Command::Memory(command)) => wire::memory(command, homes, &environment, &page, &mut out),
        Some(Command::Config(command)) => command.run(homes, &environment, &mut out),
        Some(Command::Pairing(command)) => wire::pairing(command, homes, &environment, &mut out),
        Some(Command::Stop(command)) => wire::order(homes, all_profiles, &environment, async |gateways| {
            command.run(gateways, ledger::existing(&environment), &mut out).await
        }),
        Some(Command::Resume(command)) => wire::order(homes, all_profiles, &environment, async |gateways| {
            command.run(gateways, ledger::existing(&environment), &mut out).await
        }),
        Some(Command::Plugin(command)) => wire::plugin(command, homes, &environment, &page, &mut out),
        Some(Command::Mcp(command)) => wire::mcp(command, homes, &environment, &page, &mut out),
        Some(Command::Eval(command)) => wire::evaluate(command, homes, &environment, &mut out),
    };
    let flushed = out.flush().map_err(anyhow::Error::from);
    match result.and_then(|code| flushed.map(|()| code)) {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(out::RedactedStderr::default(), "throughline: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `throughline … | head` is no failure.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
