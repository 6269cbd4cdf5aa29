//! To write a plugin in Rust: implement [`Plugin`], and hand it to [`serve`].
//!
//! Calls run beside each other, each for its own scope. One that panics is answered as failed; one that
//! no caller waits for any more ends where it stands, unless it writes. What is not implemented is refused as
//! unknown, so it must not be declared either.
//!
//! ```no_run
//! use throughline_plugins::protocol::{Initialize, Initialized, Tool, ToolCall, ToolResult};
//! use throughline_plugins::sdk::{HostClient, Plugin, PluginAnswer, serve};
//!
//! struct Dice;
//!
//! impl Plugin for Dice {
//!     async fn begin(&self, _: Initialize, _: HostClient) -> PluginAnswer<Initialized> {
//!         let roll = Tool {
//!             name: "roll".into(),
//!             description: "Roll a die.".into(),
//!             parameters: serde_json::json!({"type": "object"}),
//!             toolset: None,
//!             repeatable: true, // again after a crash
//!             calls_tools: false,
//!         };
//!         Ok(Initialized { name: "dice".into(), tools: vec![roll], ..Initialized::default() })
//!     }
//!
//!     async fn tool(&self, _: ToolCall) -> PluginAnswer<ToolResult> {
//!         Ok(ToolResult { content: "4".into(), ..ToolResult::default() })
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     serve(Dice)
//! }
//! ```

use crate::json_rpc::{self, LineReader, RpcError, RpcIncoming};
use crate::protocol::*;
use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

/// How long the last calls may take once it is over.
const FAREWELL: Duration = Duration::from_secs(3);
/// Lines on their way to the host.
const OUTGOING_MAX: usize = 64;

/// Why a call did not work: a code of [`code`], and a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFailure {
    pub code: i64,
    pub message: String,
}

impl PluginFailure {
    /// It did not work. Of a retention: it has certainly not been kept.
    pub fn failed(message: impl Display) -> Self {
        Self { code: code::FAILED, message: message.to_string() }
    }

    /// Of a retention: it may have been kept.
    pub fn maybe_done(message: impl Display) -> Self {
        Self { code: code::MAYBE_DONE, message: message.to_string() }
    }

    /// Of a retention: never, as it is.
    pub fn refused(message: impl Display) -> Self {
        Self { code: code::REFUSED, message: message.to_string() }
    }

    /// There is nothing to compress.
    pub fn nothing() -> Self {
        Self { code: code::NOTHING, message: "there is nothing to compress".to_owned() }
    }

    fn unknown(method: &str) -> Self {
        Self { code: code::NO_SUCH_METHOD, message: format!("{method} is not known here") }
    }
}

impl From<io::Error> for PluginFailure {
    fn from(error: io::Error) -> Self {
        Self::failed(error)
    }
}

impl From<String> for PluginFailure {
    fn from(message: String) -> Self {
        Self::failed(message)
    }
}

pub type PluginAnswer<T> = Result<T, PluginFailure>;

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($asked:ty) -> $answer:ty = $method:expr;)*) => {$(
        $(#[$doc])*
        fn $name(&self, asked: $asked) -> impl Future<Output = PluginAnswer<$answer>> + Send {
            let _ = asked;
            async { Err(PluginFailure::unknown($method)) }
        }
    )*};
}

/// A plugin. Only what [`begin`](Plugin::begin) declares is ever called.
pub trait Plugin: Send + Sync + 'static {
    /// What it is and what it can do. `protocol` is filled in.
    fn begin(
        &self,
        asked: Initialize,
        host: HostClient,
    ) -> impl Future<Output = PluginAnswer<Initialized>> + Send;

    /// A session began, or goes on after a start.
    fn opened(&self, scope: Scope) -> impl Future<Output = ()> + Send {
        let _ = scope;
        async {}
    }

    /// A session is over: what was buffered for it goes out before this is answered.
    fn close(&self, asked: Close) -> impl Future<Output = PluginAnswer<()>> + Send {
        let _ = asked;
        async { Ok(()) }
    }

    methods! {
        should_compress(ShouldCompress) -> Verdict = method::SHOULD_COMPRESS;
        has_content(Compress) -> HasContent = method::HAS_CONTENT;
        /// The whole list as it shall be from now on.
        compress(Compress) -> Compressed = method::COMPRESS;
        /// A few words for `/status`.
        status(Scoped) -> Text = method::STATUS;
        recall(Recall) -> Text = method::RECALL;
        /// Done when it is kept: not queued, not accepted.
        retain(Retain) -> () = method::RETAIN;
        before_compression(BeforeCompression) -> Text = method::BEFORE_COMPRESSION;
        /// The built-in memory was changed.
        memory_written(MemoryWritten) -> () = method::MEMORY_WRITTEN;
        tool(ToolCall) -> ToolResult = method::TOOL;
        hook(HookRun) -> HookAnswer = method::HOOK;
        command(CommandRun) -> Text = method::COMMAND;
    }
}

/// The way back to the host.
#[derive(Clone)]
pub struct HostClient {
    outgoing: mpsc::Sender<Vec<u8>>,
    waiting: WaitingCalls,
    next: Arc<AtomicU64>,
}

type WaitingCalls = Arc<Mutex<HashMap<u64, oneshot::Sender<Result<Box<RawValue>, RpcError>>>>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HostClient {
    /// Has the user's summariser answer. Only where [`Initialize::offers`] has it.
    pub async fn ask_model(&self, question: AskModel) -> PluginAnswer<ModelSaid> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let line = json_rpc::request(id, method::ASK_MODEL, &question).map_err(PluginFailure::failed)?;
        let (tell, told) = oneshot::channel();
        locked(&self.waiting).insert(id, tell);
        let gone = || PluginFailure::failed("the host is gone");
        self.outgoing.send(line).await.map_err(|_| gone())?;
        let said = told.await.map_err(|_| gone())?;
        let said = said.map_err(|fault| PluginFailure { code: fault.code, message: fault.message })?;
        serde_json::from_str(said.get()).map_err(PluginFailure::failed)
    }

    /// One line for the plugin's log.
    pub async fn log(&self, level: &str, message: impl Display) {
        let said = Log { level: level.to_owned(), message: message.to_string() };
        if let Ok(line) = json_rpc::notification(method::LOG, &said) {
            let _ = self.outgoing.send(line).await;
        }
    }
}

/// Serves a plugin over standard input and output until the host is done with it.
pub fn serve(plugin: impl Plugin) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("the plugin could not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let served = runtime.block_on(serve_over(plugin, tokio::io::stdin(), tokio::io::stdout()));
    runtime.shutdown_background(); // the reader of standard input may still stand in it
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the plugin ended: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The same over any pair of pipes.
pub async fn serve_over<P: Plugin>(
    plugin: P,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (outgoing, lines) = mpsc::channel(OUTGOING_MAX);
    let writing = tokio::spawn(write(output, lines));
    let client =
        HostClient { outgoing: outgoing.clone(), waiting: WaitingCalls::default(), next: Arc::default() };
    let served = PluginServer { plugin: Arc::new(plugin), client, outgoing, running: HashMap::new() };
    let ended = served.run(LineReader::new(input, LINE_MAX)).await;
    let _ = tokio::time::timeout(FAREWELL, writing).await; // a thread of the plugin may still hold a way back
    ended
}

async fn write(mut output: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if output.write_all(&line).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}

struct PluginServer<P> {
    plugin: Arc<P>,
    client: HostClient,
    outgoing: mpsc::Sender<Vec<u8>>,
    /// Calls that may end where they stand, by their number.
    running: HashMap<u64, AbortHandle>,
}

impl<P: Plugin> PluginServer<P> {
    async fn run(mut self, mut lines: LineReader<impl AsyncRead + Unpin>) -> io::Result<()> {
        let mut tasks = JoinSet::new();
        let mut has_begun = false;
        loop {
            while tasks.try_join_next().is_some() {}
            let Some(line) = lines.next().await.map_err(io::Error::other)? else { return Ok(()) };
            match json_rpc::read(line) {
                Ok(RpcIncoming::Answer { id, said }) => {
                    if let Some(tell) = locked(&self.client.waiting).remove(&id) {
                        let _ = tell.send(said);
                    }
                }
                Ok(RpcIncoming::Told { method, params }) => self.told(&method, params, &mut tasks),
                Ok(RpcIncoming::Asked { id, method, params }) => match method.as_str() {
                    method::SHUTDOWN => {
                        self.running.drain().for_each(|(_, task)| task.abort());
                        let ended = async { while tasks.join_next().await.is_some() {} };
                        let _ = tokio::time::timeout(FAREWELL, ended).await; // what writes may finish
                        self.say(json_rpc::answer(&id, &Nothing {})).await;
                        return Ok(());
                    }
                    method::INITIALIZE => {
                        let said = self.begun(params).await;
                        has_begun |= said.is_ok();
                        self.say(lined(&id, said)).await;
                    }
                    _ if !has_begun => {
                        let fault =
                            RpcError { code: code::FAILED, message: "nothing was initialized".to_owned() };
                        self.say(json_rpc::fault(&id, &fault)).await;
                    }
                    _ => self.asked(id, method, params, &mut tasks),
                },
                Err(nonsense) => eprintln!("a line from the host was passed over: {nonsense}"),
            }
        }
    }

    async fn say(&self, line: serde_json::Result<Vec<u8>>) {
        if let Ok(line) = line {
            let _ = self.outgoing.send(line).await;
        }
    }

    async fn begun(&self, params: Option<Box<RawValue>>) -> Result<Box<RawValue>, RpcError> {
        let plugin = self.plugin.clone();
        let client = self.client.clone();
        reply(params, |asked: Initialize| async move {
            let offered = asked.protocol;
            if offered < VERSION_MIN {
                let message = format!("this plugin speaks version {VERSION_MIN} of the protocol or later");
                return Err(PluginFailure::failed(message));
            }
            let begun = plugin.begin(asked, client).await?;
            Ok(Initialized { protocol: offered.min(VERSION), ..begun })
        })
        .await
    }

    fn told(&mut self, method: &str, params: Option<Box<RawValue>>, tasks: &mut JoinSet<()>) {
        let text = params.as_deref().map_or("{}", RawValue::get);
        match method {
            method::CANCEL => {
                let running = serde_json::from_str(text).map(|Cancel { id }| self.running.remove(&id));
                if let Ok(Some(task)) = running {
                    task.abort();
                }
            }
            method::OPENED => {
                let plugin = self.plugin.clone();
                if let Ok(Scoped { scope }) = serde_json::from_str(text) {
                    tasks.spawn(async move { plugin.opened(scope).await });
                }
            }
            _ => {}
        }
    }

    fn asked(
        &mut self,
        id: Box<RawValue>,
        method: String,
        params: Option<Box<RawValue>>,
        tasks: &mut JoinSet<()>,
    ) {
        self.running.retain(|_, task| !task.is_finished());
        let number = id.get().parse::<u64>();
        let writes = [method::RETAIN, method::CLOSE, method::TOOL, method::HOOK, method::COMMAND];
        let may_be_cut = !writes.contains(&method.as_str());
        let (plugin, outgoing) = (self.plugin.clone(), self.outgoing.clone());
        let task = tasks.spawn(async move {
            let done = AssertUnwindSafe(answered(plugin.as_ref(), &method, params)).catch_unwind().await;
            let said = done.unwrap_or_else(|_| {
                Err(RpcError { code: code::FAILED, message: format!("the plugin fell over in {method}") })
            });
            if let Ok(line) = lined(&id, said) {
                let _ = outgoing.send(line).await;
            }
        });
        if let (true, Ok(number)) = (may_be_cut, number) {
            self.running.insert(number, task);
        }
    }
}

fn lined(id: &RawValue, said: Result<Box<RawValue>, RpcError>) -> serde_json::Result<Vec<u8>> {
    match said {
        Ok(said) => json_rpc::answer(id, &said),
        Err(fault) => json_rpc::fault(id, &fault),
    }
}

async fn answered<P: Plugin>(
    plugin: &P,
    method: &str,
    params: Option<Box<RawValue>>,
) -> Result<Box<RawValue>, RpcError> {
    match method {
        method::PING => reply(params, |_: Nothing| async { Ok(Nothing {}) }).await,
        method::SHOULD_COMPRESS => reply(params, |asked| plugin.should_compress(asked)).await,
        method::HAS_CONTENT => reply(params, |asked| plugin.has_content(asked)).await,
        method::COMPRESS => reply(params, |asked| plugin.compress(asked)).await,
        method::STATUS => reply(params, |asked| plugin.status(asked)).await,
        method::RECALL => reply(params, |asked| plugin.recall(asked)).await,
        method::RETAIN => reply(params, |asked| plugin.retain(asked)).await,
        method::BEFORE_COMPRESSION => reply(params, |asked| plugin.before_compression(asked)).await,
        method::MEMORY_WRITTEN => reply(params, |asked| plugin.memory_written(asked)).await,
        method::CLOSE => reply(params, |asked| plugin.close(asked)).await,
        method::TOOL => reply(params, |asked| plugin.tool(asked)).await,
        method::HOOK => reply(params, |asked| plugin.hook(asked)).await,
        method::COMMAND => reply(params, |asked| plugin.command(asked)).await,
        other => Err(RpcError { code: code::NO_SUCH_METHOD, message: format!("{other} is not known here") }),
    }
}

async fn reply<A: DeserializeOwned, T: Serialize, F: Future<Output = PluginAnswer<T>>>(
    params: Option<Box<RawValue>>,
    act: impl FnOnce(A) -> F,
) -> Result<Box<RawValue>, RpcError> {
    let asked = serde_json::from_str(params.as_deref().map_or("{}", RawValue::get))
        .map_err(|error| RpcError { code: code::UNKNOWN_PARAMETERS, message: error.to_string() })?;
    let said =
        act(asked).await.map_err(|failure| RpcError { code: failure.code, message: failure.message })?;
    serde_json::value::to_raw_value(&said)
        .map_err(|error| RpcError { code: code::FAILED, message: error.to_string() })
}

/// What a message says, where it is a text.
pub fn text_of(message: &Message) -> &str {
    message.get("content").and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// Who said it.
pub fn role_of(message: &Message) -> &str {
    message.get("role").and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// A message of its own making.
pub fn message(role: &str, text: impl Into<String>) -> Message {
    let field = |name: &str, value: String| (name.to_owned(), serde_json::Value::String(value));
    [field("role", role.to_owned()), field("content", text.into())].into()
}
