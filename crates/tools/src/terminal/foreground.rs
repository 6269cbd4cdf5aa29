//! One command in the foreground: started, read, waited for, and ended if it takes too long.

use super::output::{CapturedOutput, OutputCapture, Spool};
use super::process_group::{Abort, RunningChild, code_of};
use super::site::CommandSite;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, sleep, sleep_until};

/// A pipe's worth.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// How often it is looked whether the command has ended while its output stays open: a process it
/// left behind may hold the pipe.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// After the command's end its last output is read for this long without news, and no longer in all
/// than the second number.
const QUIET_LOOKS: u32 = 3;
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// What is to be run, and within which bounds.
pub struct ForegroundRun {
    pub command: Command,
    /// Written to its standard input; without it there is none.
    pub stdin: Option<String>,
    pub abort: Option<Abort>,
    pub timeout: Duration,
    pub output_max_chars: usize,
    /// Names the call to the spool.
    pub key: String,
    pub marker: String,
}

/// How it ended.
pub struct FinishedRun {
    pub code: i32,
    pub output: CapturedOutput,
}

/// Dropped before its end, the command is ended with all its family.
pub async fn run(
    site: Arc<dyn CommandSite>,
    spool: Arc<dyn Spool>,
    mut job: ForegroundRun,
) -> io::Result<FinishedRun> {
    let (reader, writer) = io::pipe()?;
    job.command.stdout(writer.try_clone()?).stderr(writer);
    job.command.stdin(if job.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    let (command, stdin, abort) = (job.command, job.stdin, job.abort);
    let started = tokio::task::spawn_blocking(move || start(&*site, command, stdin, abort));
    let mut running = started.await.map_err(io::Error::other)??;
    let mut receiver = Receiver::from_owned_fd(OwnedFd::from(reader))?;

    let mut capture = OutputCapture::new(job.output_max_chars);
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut deadline = Instant::now() + job.timeout;
    let mut status = None;
    let mut is_late = false;
    let mut quiet = 0;
    let mut looked = Instant::now();
    loop {
        tokio::select! {
            biased;
            () = sleep_until(deadline) => match status.is_some() || is_late {
                true => break,
                false => {
                    is_late = true;
                    running.end();
                    deadline = Instant::now() + DRAIN_MAX;
                }
            },
            read = receiver.read(&mut buffer) => match read {
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    quiet = 0;
                    capture = pushed(capture, &buffer[..count], &spool, &job.key).await;
                }
            },
            () = sleep(LOOK_EVERY) => quiet += 1,
        }
        if status.is_none() && !is_late && looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            status = running.try_wait()?;
            if status.is_some() {
                deadline = deadline.min(Instant::now() + DRAIN_MAX);
                quiet = 0;
            }
        }
        if status.is_some() && quiet >= QUIET_LOOKS {
            break;
        }
    }
    // Its output has ended before it: it may go on in silence until its time is up.
    if status.is_none() && !is_late {
        status = silent_end(&mut running, deadline).await?;
    }
    let (code, suffix) = match status {
        Some(status) => (code_of(status), String::new()),
        None => (124, format!("\n[Command timed out after {}s]", job.timeout.as_secs())),
    };
    let finish = move || capture.finish(&job.marker, &suffix, &*spool, &job.key);
    let output = tokio::task::spawn_blocking(finish).await.map_err(io::Error::other)?;
    Ok(FinishedRun { code, output })
}

/// Waits for the end of a command without output. None: its time was up, and it was ended.
async fn silent_end(running: &mut RunningChild, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_millis(1);
    loop {
        let status = running.try_wait()?;
        if status.is_some() {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            running.end();
            return Ok(None);
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn start(
    site: &dyn CommandSite,
    command: Command,
    stdin: Option<String>,
    abort: Option<Abort>,
) -> io::Result<RunningChild> {
    let mut running = RunningChild::new(site.spawn(command)?, abort);
    if let (Some(text), Some(mut pipe)) = (stdin, running.child().and_then(|child| child.stdin.take())) {
        // A few lines for sudo: they fit the pipe. Closed afterwards, so that nothing else waits.
        let _ = io::Write::write_all(&mut pipe, text.as_bytes());
    }
    Ok(running)
}

/// What goes to disk goes there on a thread that may wait for it.
async fn pushed(
    mut capture: OutputCapture,
    bytes: &[u8],
    spool: &Arc<dyn Spool>,
    key: &str,
) -> OutputCapture {
    if !capture.spills_with(bytes.len()) {
        capture.push(bytes, &**spool, key);
        return capture;
    }
    let (bytes, spool, key) = (bytes.to_vec(), spool.clone(), key.to_owned());
    let pushing = tokio::task::spawn_blocking(move || {
        capture.push(&bytes, &*spool, &key);
        capture
    });
    pushing.await.expect("pushing does not panic, and a blocking task is not cancelled once it runs")
}
