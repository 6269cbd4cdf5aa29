//! What host and plugin say to each other.
//!
//! One JSON-RPC 2.0 message a line. The host asks; a plugin answers, and may in between ask what the host
//! [offered](Initialize::offers) or [log](Log). Both sides ignore fields they do not know, and neither
//! calls what the other has not declared: so an older plugin works under a newer host, and the reverse.
//!
//! `docs/plugins.md` tells the same as a story; the schemas beside it are made from these types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The version that this host speaks.
pub const VERSION: u32 = 1;
/// The oldest that it still understands.
pub const VERSION_MIN: u32 = 1;

/// No message is longer, in bytes: a plugin that sends more is ended.
pub const LINE_MAX: usize = 32 << 20;

/// The methods, by name.
pub mod method {
    // asked by the host
    pub const INITIALIZE: &str = "initialize";
    pub const PING: &str = "ping";
    pub const SHUTDOWN: &str = "shutdown";
    pub const SHOULD_COMPRESS: &str = "engine/should_compress";
    pub const HAS_CONTENT: &str = "engine/has_content";
    pub const COMPRESS: &str = "engine/compress";
    pub const STATUS: &str = "engine/status";
    pub const RECALL: &str = "provider/recall";
    pub const RETAIN: &str = "provider/retain";
    pub const BEFORE_COMPRESSION: &str = "provider/before_compression";
    pub const MEMORY_WRITTEN: &str = "provider/memory_written";
    /// A scope is over: it ended, or another one goes on in its chat.
    pub const CLOSE: &str = "scope/close";
    pub const TOOL: &str = "tool/call";
    pub const HOOK: &str = "hook/run";
    pub const COMMAND: &str = "command/run";
    // told by the host
    /// A session began. One that goes on after a start of the gateway is not told again.
    pub const OPENED: &str = "scope/opened";
    pub const CANCEL: &str = "cancel";
    // told or asked by the plugin
    pub const LOG: &str = "log";
    pub const ASK_MODEL: &str = "model/ask";
}

/// What an error means to the host. Other codes are as bad as [`FAILED`](code::FAILED).
pub mod code {
    /// The parameters were understood and are not known here: the call is repeated once without options.
    pub const UNKNOWN_PARAMETERS: i64 = -32602;
    pub const NO_SUCH_METHOD: i64 = -32601;
    /// It did not work. Of a retention: it has certainly not been kept, and is tried again.
    pub const FAILED: i64 = -32000;
    /// Of a retention: it may have been kept. It is tried again, marked as tried.
    pub const MAYBE_DONE: i64 = -32001;
    /// Of a retention: never, as it is.
    pub const REFUSED: i64 = -32002;
    /// There is nothing to compress.
    pub const NOTHING: i64 = -32003;
}

// ------------------------------------------------------------------------------------ hand-shake

/// `initialize`: the first thing that is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Initialize {
    /// The newest version that the host speaks. The plugin answers with the one that is spoken.
    pub protocol: u32,
    pub host: Program,
    /// Which agent it works for; another agent has a process of its own.
    pub agent: String,
    /// The agent's home.
    pub home: String,
    /// Where the plugin may write. It exists, and no other plugin uses it.
    pub directory: String,
    /// What the user wrote for this plugin.
    #[serde(default)]
    pub settings: Value,
    /// Methods that the plugin may call on the host.
    #[serde(default)]
    pub offers: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    pub name: String,
    pub version: String,
}

/// What the plugin is. What is left out is never asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Initialized {
    pub protocol: u32,
    pub name: String,
    #[serde(default)]
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineAbility>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderAbility>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Command>,
    /// What the plugin would have brought along and cannot, in sentences that the user is shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineAbility {
    /// As `context.engine` names it.
    pub name: String,
    /// Of `focus`, `force`, `memory_context`, `keep_last`. Others are not offered to it.
    #[serde(default)]
    pub options: Vec<String>,
    /// Of `should_compress`, `has_content`, `status`, `scope`. `compress` is a matter of course. Without
    /// `should_compress` the user's thresholds decide.
    #[serde(default)]
    pub methods: Vec<String>,
    #[serde(default)]
    pub tools: Vec<Tool>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderAbility {
    /// As `memory.provider` names it.
    pub name: String,
    /// Of `recall`, `retain`, `before_compression`, `memory_written`, `scope`.
    #[serde(default)]
    pub methods: Vec<String>,
    /// After how many turns of a session they are handed over. 0 is as good as 1.
    #[serde(default)]
    pub every: u64,
    #[serde(default)]
    pub documents: Documents,
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// Fixed words for the system prompt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt: String,
}

/// What turns are kept together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Documents {
    #[default]
    Session,
    /// Those of a chat, across `/new`.
    Chat,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments.
    #[serde(default)]
    pub parameters: Value,
    /// The group by which users switch it on and off. Without one: the plugin's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset: Option<String>,
    /// Running a call twice is running it once.
    #[serde(default)]
    pub repeatable: bool,
    /// What it runs can call other tools by itself, out of the host's sight. It is not run while a guard is set over
    /// tools that would not hear of those calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub calls_tools: bool,
}

/// The event whose hooks may forbid a call.
pub const GUARD: &str = "pre_tool_call";

/// An occasion the plugin wants to know of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hook {
    /// `pre_tool_call`, `on_session_finalize`, `agent:end` …, as Hermes calls it; `command:*` is any of them.
    pub event: String,
    /// Who wants to know; the same across restarts.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Command {
    /// Without the slash.
    pub name: String,
    #[serde(default)]
    pub description: String,
}

// ----------------------------------------------------------------------------------------- scope

/// On whose behalf. In every call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scope {
    /// One for life: compression and restarts do not change it.
    pub session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The gateway's key of the chat: the same across `/new`, `/compress` and restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_key: Option<String>,
    /// Rises whenever the session's past is rewritten.
    #[serde(default)]
    pub generation: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default)]
    pub platform: String,
    #[serde(default)]
    pub chat: Chat,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
}

/// In the platform's own terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chat {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `dm`, `group` …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

/// `scope/opened`, and a question that needs nothing but a scope (`engine/status`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scoped {
    pub scope: Scope,
}

/// `scope/close`. What was buffered for the scope goes out under it; the answer says that it has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Close {
    pub scope: Scope,
    /// The same however often it is told, and no other end's.
    #[serde(default)]
    pub key: String,
    /// Which of a plugin's abilities is told: its engine or its provider, each once. None: both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// `new`: another begins in its chat. `resume`: an earlier one goes on there. `branch`: a copy of it does. `expired`:
    /// its time had come. `undo`: it goes on itself, and its latest turns were taken back; what is kept in mind of them no
    /// longer holds. Empty where only the end is known; a later host may say more.
    #[serde(default)]
    pub reason: String,
    /// The session that goes on in its place, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// All that was said in it, to a provider: also what summaries stand for by now, and without those.
    #[serde(default)]
    pub messages: Vec<Message>,
}

/// Which of its abilities a plugin is told something for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Engine,
    Provider,
}

/// A message as Hermes and the OpenAI API write it: `role`, `content`, `tool_calls`, `tool_call_id` …
pub type Message = BTreeMap<String, Value>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

// ---------------------------------------------------------------------------------------- engine

/// `engine/should_compress`, after each answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShouldCompress {
    pub scope: Scope,
    pub usage: Usage,
    /// The model's window, in tokens.
    #[serde(default)]
    pub window: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    /// What the next request is expected to weigh.
    #[serde(default)]
    pub expected_tokens: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    pub compress: bool,
}

/// `engine/compress`, and `engine/has_content` likewise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compress {
    pub scope: Scope,
    /// All that may be replaced, oldest first. No tool call in it is without its result.
    pub messages: Vec<Message>,
    /// What the whole context weighs.
    #[serde(default)]
    pub tokens: u64,
    #[serde(default)]
    pub window: u64,
    /// Only what the engine has declared.
    #[serde(default)]
    pub options: Options,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Options {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub memory_context: String,
    /// So many messages at the end are to stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_last: Option<usize>,
}

impl Options {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The whole list as it shall be from now on. What it has in common with the old one at both ends stays
/// as it is; a list that differs in nothing, or tears a tool call from its result, changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compressed {
    pub messages: Vec<Message>,
    /// Which model wrote it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Something the user should know, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HasContent {
    pub has_content: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Text {
    #[serde(default)]
    pub text: String,
}

// -------------------------------------------------------------------------------------- provider

/// `provider/recall`: what bears on a question. It creates nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recall {
    pub scope: Scope,
    pub query: String,
}

/// `provider/retain`: one turn. An answer means that it is kept: not queued, not accepted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Retain {
    pub scope: Scope,
    /// The same however often it is tried, and no other turn's.
    pub key: String,
    pub document: String,
    pub turn: u64,
    /// The how-manieth kept turn of the session, from 1.
    pub index: u64,
    #[serde(default)]
    pub message_count: u64,
    /// Seconds since 1970.
    pub at: f64,
    pub said: Vec<String>,
    pub replied: String,
    /// An earlier try may have arrived: a plugin that cannot recognise a key looks first.
    #[serde(default)]
    pub tried: bool,
}

/// `provider/before_compression`: these are about to be summarised. The answer is shown to the summariser.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BeforeCompression {
    pub scope: Scope,
    pub messages: Vec<Message>,
}

/// `provider/memory_written`: the built-in memory was changed. Told once at most: what matters is in the files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryWritten {
    pub scope: Scope,
    /// No other change's.
    pub key: String,
    /// `add`, `replace` or `remove`.
    pub action: String,
    /// `memory` or `user`.
    pub target: String,
    /// The entry; empty where one was removed.
    #[serde(default)]
    pub content: String,
    /// What the entry that was replaced or removed was found by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_text: Option<String>,
}

// ------------------------------------------------------------------------ tools, hooks, commands

/// `tool/call`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    pub scope: Scope,
    /// The same however often it is tried, and no other call's.
    pub key: String,
    pub name: String,
    /// An object; anything else the model wrote comes as a string.
    pub arguments: Value,
    /// A person, or a rule of theirs, has agreed to what this call [asked](ToolResult::ask) for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub consent: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// A text, or a list of parts as the OpenAI API writes them. Beside a question: what the model reads where no person
    /// can be asked.
    pub content: Value,
    /// A person must agree first, and nothing was done yet. If one does, the call is made again with `consent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Consent>,
}

/// What a person is asked to agree to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Consent {
    /// What would be done.
    pub what: String,
    #[serde(default)]
    pub why: String,
    /// What a lasting yes would cover, by names that stay. Empty: only this once.
    #[serde(default)]
    pub patterns: Vec<String>,
}

/// `hook/run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookRun {
    pub scope: Scope,
    pub event: String,
    /// Of [`Hook::name`].
    pub name: String,
    /// The same however often it is told.
    pub key: String,
    /// What Hermes tells on this occasion, by its names.
    pub facts: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookAnswer {
    /// The tool is not to be called; the model is told why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
}

/// `command/run`: a person wrote `/name arguments`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandRun {
    pub scope: Scope,
    pub name: String,
    #[serde(default)]
    pub arguments: String,
}

// ------------------------------------------------------------------------- from plugin to host

/// `log`: one line for the plugin's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    /// `debug`, `info`, `warning`, `error`.
    #[serde(default)]
    pub level: String,
    pub message: String,
}

/// `model/ask`: the user's summariser reads one message and answers with a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskModel {
    pub prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelSaid {
    pub text: String,
    #[serde(default)]
    pub model: String,
}

/// `cancel`: the host does not wait for this answer any more. An answer that comes all the same is ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cancel {
    pub id: u64,
}
