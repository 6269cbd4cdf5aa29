//! A server that the gateway starts as a process.
//!
//! It leads a process group (on Windows, a job), because what users write is often a launcher (`npx`, `uvx`) whose child
//! is the server: they end together, with the connection or with the gateway. A message longer than
//! [`MESSAGE_LENGTH_MAX`] ends the connection, not the memory of the gateway.

use super::environment::{self, ServerProgram};
use super::redact::ErrorRedactor;
use super::stderr_log::ServerLog;
use super::{MESSAGE_LENGTH_MAX, McpSurroundings};
#[cfg(windows)]
use process_wrap::tokio::JobObject;
#[cfg(unix)]
use process_wrap::tokio::ProcessGroup;
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use throughline_core::redact::Secret;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout, Command};

/// How long a server may take to leave once its input has ended.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why a connection ended, where its transport knows.
pub type DisconnectReason = Arc<Mutex<Option<String>>>;

pub struct ServerProcess {
    transport: AsyncRwTransport<RoleClient, BoundedLines<ChildStdout>, ChildStdin>,
    group: ServerProcessTree,
    obituary: DisconnectReason,
}

/// The command of a `stdio` entry, as the settings have it.
pub struct Ordered<'a> {
    pub server: &'a str,
    pub command: &'a str,
    pub args: &'a [String],
    pub env: &'a [(String, Secret)],
    pub cwd: Option<&'a Path>,
}

impl ServerProcess {
    pub fn start(
        ordered: &Ordered<'_>,
        surroundings: &McpSurroundings,
        log: &ServerLog,
        redactor: &ErrorRedactor,
        obituary: DisconnectReason,
    ) -> io::Result<Self> {
        let ServerProgram { path, environment } =
            environment::program(ordered.command, ordered.env, &surroundings.environment, &surroundings.home);
        let mut command = Command::new(path);
        command.args(ordered.args).env_clear().envs(environment);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = ordered.cwd {
            command.current_dir(cwd);
        }
        let mut wrapped = CommandWrap::from(command);
        #[cfg(unix)]
        wrapped.wrap(ProcessGroup::leader());
        #[cfg(windows)]
        wrapped.wrap(JobObject);
        wrapped.wrap(KillOnDrop);
        let mut child = wrapped.spawn()?;
        let taken = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let (Some(input), Some(output), Some(errors)) = taken else {
            return Err(io::Error::other("the process has no pipes"));
        };
        let now = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
        log.say(format!("\n===== [{now}] starting MCP server '{}' =====", ordered.server));
        tokio::spawn(log.clone().follow(ordered.server.to_owned(), redactor.clone(), errors));
        let output = BoundedLines { inner: output, line: 0, obituary: obituary.clone() };
        // The bound is ours: the library's own drops the line and lets the call wait for its time.
        let transport = AsyncRwTransport::new_client(output, input).with_max_line_length(usize::MAX);
        Ok(Self { transport, group: ServerProcessTree(child), obituary })
    }
}

impl Transport<RoleClient> for ServerProcess {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.transport.receive().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // One that floods will not read that its input has ended.
        let is_known = self.obituary.lock().is_ok_and(|reason| reason.is_some());
        if !is_known {
            let _ = tokio::time::timeout(FAREWELL, self.transport.close()).await;
            if let Ok(Ok(status)) = tokio::time::timeout(FAREWELL, self.group.leader_ended()).await {
                note(&self.obituary, format!("its process ended ({status})"));
            }
        }
        self.group.end();
        Ok(())
    }
}

pub fn note(obituary: &DisconnectReason, reason: String) {
    if let Ok(mut noted) = obituary.lock() {
        noted.get_or_insert(reason);
    }
}

struct ServerProcessTree(Box<dyn ChildWrapper>);

impl ServerProcessTree {
    async fn leader_ended(&mut self) -> io::Result<std::process::ExitStatus> {
        self.0.inner_mut().wait().await
    }

    fn end(&mut self) {
        let _ = self.0.start_kill(); // the whole group; an error says that none of it is left
    }
}

impl Drop for ServerProcessTree {
    fn drop(&mut self) {
        self.end();
    }
}

/// Fails once a line is longer than any message may be.
struct BoundedLines<R> {
    inner: R,
    line: usize,
    obituary: DisconnectReason,
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let read = &buffer.filled()[before..];
        self.line = match read.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => read.len() - end - 1,
            None => self.line + read.len(),
        };
        if self.line > MESSAGE_LENGTH_MAX {
            let reason = format!("it sent a message of more than {} MB", MESSAGE_LENGTH_MAX >> 20);
            note(&self.obituary, reason.clone());
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        Poll::Ready(Ok(()))
    }
}
