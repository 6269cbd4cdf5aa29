//! Where commands run: on this machine, in a container, on another machine.
//!
//! Every command is a bash of its own. What makes a session of them is a script around each: it
//! takes up the variables that the last one exported, goes to the session's directory, and reports
//! at the end where it is. All of this blocks and belongs on threads that may.

mod docker;
mod local;
mod script;
mod ssh;

use super::environment::EnvironmentVariables;
use super::process_group::{Abort, RunningChild};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub use docker::DockerSite;
pub use local::{LocalSite, in_own_session};
pub use script::{SessionScript, quoted};
pub use ssh::SshSite;

/// How bash starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// Reads the user's profile.
    Login,
    Plain,
}

pub trait CommandSite: Send + Sync {
    /// Makes sure that a command can run. The sentence says why it cannot.
    fn ready(&self) -> Result<(), String>;

    /// A bash that runs the script; started in `directory` where that means something.
    fn command(
        &self,
        script: &str,
        shell: Shell,
        variables: &EnvironmentVariables,
        directory: &Path,
    ) -> Command;

    fn spawn(&self, command: Command) -> io::Result<Child>;

    /// Where a session's commands begin.
    fn first_directory(&self) -> String;

    /// Where the files of a session lie.
    fn scratch(&self) -> String;

    /// How a script that noted its number in `pid_file` is ended from outside. None: it is a process
    /// of this machine, and needs no telling.
    fn abort(&self, pid_file: &str) -> Option<Abort>;

    /// Held while something runs: a site in use is not given up.
    fn lease(&self) -> Option<Arc<()>> {
        None
    }

    fn is_local(&self) -> bool {
        false
    }
}

/// What a helper program said.
struct HelperOutput {
    is_ok: bool,
    out: String,
    err: String,
}

/// Runs a helper program within a time. Its output goes through files, because some (a master of
/// ssh) leave a process behind that would hold a pipe open.
fn ask(mut command: Command, patience: Duration) -> Result<HelperOutput, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error: io::Error| format!("{name} could not be run: {error}");
    let (out, err) = (tempfile::tempfile().map_err(failed)?, tempfile::tempfile().map_err(failed)?);
    command.stdin(Stdio::null());
    command.stdout(out.try_clone().map_err(failed)?).stderr(err.try_clone().map_err(failed)?);
    let mut running = RunningChild::new(command.spawn().map_err(failed)?, None);
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_millis(2);
    let status = loop {
        match running.try_wait().map_err(failed)? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                return Err(format!("{name} did not answer within {patience:?}"));
            }
            None => thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    };
    Ok(HelperOutput { is_ok: status.success(), out: read_back(out), err: read_back(err) })
}

/// More than a helper program has to say.
const ANSWER_MAX_BYTES: u64 = 64 * 1024;

fn read_back(mut file: std::fs::File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.take(ANSWER_MAX_BYTES).read_to_end(&mut bytes));
    read.map(|_| String::from_utf8_lossy(&bytes).trim().to_owned()).unwrap_or_default()
}

/// A program on the search path.
pub fn find_program(name: &str, path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    let path = path.map(ToOwned::to_owned).or_else(|| std::env::var_os("PATH"))?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| is_executable(program))
}

fn is_executable(program: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    program.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// The nearest directory above `path` that can be entered: a command may have deleted its own.
pub fn nearest_directory(path: &Path) -> PathBuf {
    let usable = path.ancestors().find(|path| path.is_absolute() && path.is_dir() && can_enter(path));
    usable.map_or_else(std::env::temp_dir, Path::to_path_buf)
}

fn can_enter(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
