//! How a background process is started: on a terminal or a pipe, here or on another machine.

use super::output::token;
use super::process_group::{ProcessIdentity, RunningChild};
use super::process_registry::{ProcessRequest, StartedProcess};
use super::request::TerminalRequest;
use super::site::{CommandSite, Shell, find_program};
use super::{NO_NOTICES, RunPlace, SILENT, TerminalKit, advice, background_pid_file, pty, site, told};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use throughline_core::tool::{Call, Returned};
use throughline_private_files as private_files;
use tokio::net::unix::pipe::{OpenOptions as PipeOptions, Receiver};

impl TerminalKit {
    pub(super) async fn background(
        &self,
        place: RunPlace,
        call: &Call,
        request: TerminalRequest,
        note: Option<String>,
    ) -> Returned {
        let failed = |error: String| {
            let error = format!("Failed to start background process: {error}");
            told(json!({"output": "", "exit_code": -1, "error": error}))
        };
        if !self.registry.has_room() {
            return failed("too many are running; end some with process(action='kill') first".to_owned());
        }
        let needs_pipe = request.pty && advice::needs_pipe(&request.command);
        let wants_pty = request.pty && !needs_pipe && place.site.is_local();
        let started = match self.start(&place, &request.command, wants_pty).await {
            Ok(started) => started,
            Err(error) => return failed(error.to_string()),
        };
        let has_pty = started.input.is_some();
        let can_notify = !self.settings.sources_without_notices.contains(&call.caller.source);
        let wants_notice = request.notify_on_complete || !request.watch_patterns.is_empty();
        let notify = request.notify_on_complete && can_notify;
        let patterns = if notify || !can_notify { Vec::new() } else { request.watch_patterns.clone() };
        let wish = ProcessRequest {
            command: request.command.clone(),
            cwd: place.directory.clone(),
            notify_on_complete: notify,
            watch_patterns: patterns.clone(),
            trace: call.caller.trace.clone(),
        };
        let process = self.registry.add(&call.caller, started, wish).await;

        let mut result = json!({
            "output": "Background process started",
            "session_id": process.id,
            "pid": process.identity.pid,
            "exit_code": 0,
            "error": null,
        });
        if let Some(note) = note {
            result["approval"] = json!(note);
        }
        if needs_pipe {
            result["pty_note"] = json!(advice::PTY_REFUSED);
        } else if request.pty && !has_pty {
            result["pty_note"] =
                json!("No PTY was available: the process runs with pipes, and without standard input.");
        }
        if !wants_notice {
            result["hint"] = json!(SILENT);
        } else if !can_notify {
            result["notify_on_complete"] = json!(false);
            result["notify_unsupported"] = json!(NO_NOTICES);
        } else if notify && !request.watch_patterns.is_empty() {
            result["watch_patterns_ignored"] = json!(
                "watch_patterns ignored because notify_on_complete=True; these two flags produce duplicate \
                 notifications when combined"
            );
        }
        if notify {
            result["notify_on_complete"] = json!(true);
        }
        if !patterns.is_empty() {
            result["watch_patterns"] = json!(patterns);
        }
        told(result)
    }

    async fn start(&self, place: &RunPlace, command: &str, wants_pty: bool) -> io::Result<StartedProcess> {
        let id = format!("proc_{}", token());
        let setsid = find_program("setsid", None);
        if let (true, Some(setsid)) = (wants_pty, setsid) {
            match start_on_pty(place, &setsid, command, id.clone()).await {
                Ok(started) => return Ok(started),
                Err(error) => tracing::warn!(%error, "no pseudo-terminal: the process runs with pipes"),
            }
        }
        let mut prepared = match place.site.is_local() {
            true => place.local(command, site::in_own_session),
            false => {
                let pid_file = background_pid_file(&*place.site, &id);
                let script = place.state.script.background(
                    command,
                    &place.directory,
                    place.has_snapshot,
                    Some(&pid_file),
                );
                place.site.command(&script, Shell::Login, &place.variables, Path::new("/"))
            }
        };
        let (writer, receiver, pipe) = self.channel(&id)?;
        prepared.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let (child, identity) = spawned(&place.site, prepared).await?;
        let lease = place.site.lease();
        Ok(StartedProcess { id, child, identity, source: Some(receiver), input: None, pipe, lease })
    }

    /// A pipe with a name, which the process holds open at both ends: it does not break when this
    /// process ends, and the next one reads on. Where there can be none, an ordinary one.
    fn channel(&self, id: &str) -> io::Result<(OwnedFd, Receiver, Option<PathBuf>)> {
        let path = self.pipes.join(format!("{id}.fifo"));
        let named = || -> io::Result<(OwnedFd, Receiver)> {
            private_files::create_directory(&self.pipes)?;
            make_pipe(&path)?;
            let both: File = OpenOptions::new().read(true).write(true).open(&path)?;
            Ok((both.into(), PipeOptions::new().open_receiver(&path)?))
        };
        match named() {
            Ok((writer, receiver)) => Ok((writer, receiver, Some(path))),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "no named pipe: the process cannot be taken up after a restart");
                let (reader, writer) = io::pipe()?;
                Ok((writer.into(), Receiver::from_owned_fd(reader.into())?, None))
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn make_pipe(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, Mode, mkfifoat};
    Ok(mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?)
}

/// A pipe that its only user holds open at both ends is Linux's own.
#[cfg(not(target_os = "linux"))]
fn make_pipe(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

async fn start_on_pty(
    place: &RunPlace,
    setsid: &Path,
    command: &str,
    id: String,
) -> io::Result<StartedProcess> {
    let (screen, keyboard, slave) = pty::open()?;
    let mut prepared = place.local(command, |shell, _| {
        let mut prepared = Command::new(setsid);
        prepared.arg("--ctty").arg(shell);
        prepared
    });
    prepared.env("TERM", "xterm-256color");
    prepared.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
    let (child, identity) = spawned(&place.site, prepared).await?;
    Ok(StartedProcess {
        id,
        child,
        identity,
        source: Some(screen),
        input: Some(keyboard),
        pipe: None,
        lease: None,
    })
}

/// Given up meanwhile, the process is ended: no session would know of it.
async fn spawned(
    site: &Arc<dyn CommandSite>,
    command: Command,
) -> io::Result<(Option<std::process::Child>, ProcessIdentity)> {
    let site = site.clone();
    let starting =
        tokio::task::spawn_blocking(move || site.spawn(command).map(|child| RunningChild::new(child, None)));
    Ok(starting.await.map_err(io::Error::other)??.release())
}
