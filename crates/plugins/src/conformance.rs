//! Whether a plugin keeps to the protocol: a run that any command can be put through.
//!
//! What it declares is tried, with plain and with odd input; what it does not declare is not asked for. It
//! is told from the side of the host, so a plugin in any language can be checked, and ours are.
//!
//! An answer that comes later than its deadline is ignored: the run waits for it a while longer, and named.
//!
//! Tools that are not [repeatable](crate::protocol::Tool::repeatable) and commands are not run: what
//! they would do is unknown. Those of a context engine are, because they are about the conversation that it was
//! given. Hooks are run, and turns are kept: check a plugin with settings of its own. What was not tried is named.

use crate::json_rpc::RpcError;
use crate::log::PluginRedactor;
use crate::messages::{UnusableList, joined, to_wire};
use crate::process::{self, Begun, LaunchSpec, PluginProcess, Unanswered};
use crate::protocol::*;
use crate::scope::of_session;
use crate::settings::PluginSettings;
use futures_util::future::join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use throughline_core::message::{Assistant, Body, Content, ToolCall as Called, ToolResult as Returned};
use throughline_core::time::Time;
use throughline_core::{Message as Said, SessionId};
use tokio::time::Instant;

/// What came of one thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed(String),
    /// It does not declare this, which is its right.
    Absent,
    /// It is there, and the check lets it be: why.
    Untried(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub what: String,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What the plugin calls itself.
    pub name: String,
    pub version: String,
    pub findings: Vec<Finding>,
    /// What it says about itself, and what was seen that is no fault.
    pub notes: Vec<String>,
    /// The slowest answer, and to what.
    pub slowest: Option<(String, Duration)>,
}

impl Report {
    pub fn has_passed(&self) -> bool {
        !self.findings.iter().any(|finding| matches!(finding.outcome, Outcome::Failed(_)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            writeln!(formatter, "{} {}", self.name, self.version)?;
        }
        for Finding { what, outcome } in &self.findings {
            match outcome {
                Outcome::Passed => writeln!(formatter, "  ok      {what}")?,
                Outcome::Absent => writeln!(formatter, "  –       {what}")?,
                Outcome::Failed(why) => writeln!(formatter, "  FAILED  {what}: {why}")?,
                Outcome::Untried(why) => writeln!(formatter, "  not tried: {what} ({why})")?,
            }
        }
        for note in &self.notes {
            writeln!(formatter, "  note    {note}")?;
        }
        if let Some((method, time)) = &self.slowest {
            writeln!(formatter, "  slowest answer: {method}, {} ms", time.as_millis())?;
        }
        let failed = self.findings.iter().filter(|finding| matches!(finding.outcome, Outcome::Failed(_)));
        let untried = self.findings.iter().filter(|finding| matches!(finding.outcome, Outcome::Untried(_)));
        match failed.count() {
            0 if untried.count() > 0 => {
                write!(formatter, "It keeps to the protocol, as far as it was tried: see what was not.")
            }
            0 => write!(formatter, "It keeps to the protocol."),
            1 => write!(formatter, "One thing is wrong."),
            count => write!(formatter, "{count} things are wrong."),
        }
    }
}

/// Puts a plugin through its paces. The deadlines are those of `settings`; what has no answer after `patience` has
/// none.
pub async fn check(settings: PluginSettings, patience: Duration) -> Report {
    let report = Report::default();
    let mut check =
        ConformanceCheck { settings, patience, report, slowest: Mutex::default(), late: Mutex::default() };
    check.run().await;
    check.judge_deadlines();
    let slowest = check.slowest.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Report { slowest, ..check.report }
}

type Tried = Result<(), String>;

struct ConformanceCheck {
    settings: PluginSettings,
    patience: Duration,
    report: Report,
    slowest: Mutex<Option<(String, Duration)>>,
    /// What was answered after its deadline: how much time it had, and the most it took.
    late: Mutex<BTreeMap<String, (Duration, Duration)>>,
}

/// One process under check. With it the process ends.
struct CheckedProcess {
    link: Arc<PluginProcess>,
}

impl Drop for CheckedProcess {
    fn drop(&mut self) {
        self.link.die("the check is done with it");
    }
}

impl ConformanceCheck {
    fn found(&mut self, what: impl Into<String>, tried: Tried) {
        let outcome = match tried {
            Ok(()) => Outcome::Passed,
            Err(why) => Outcome::Failed(why),
        };
        self.report.findings.push(Finding { what: what.into(), outcome });
    }

    fn judge_deadlines(&mut self) {
        let late = std::mem::take(&mut *self.late.lock().unwrap_or_else(PoisonError::into_inner));
        if late.is_empty() {
            return self.found("every answer comes within its deadline", Ok(()));
        }
        for (method, (deadline, took)) in late {
            let what = format!("{method} is answered within its deadline of {} s", deadline.as_secs_f32());
            self.found(
                what,
                Err(format!("it took {:.1} s, and nobody would have waited for it", took.as_secs_f32())),
            );
        }
    }

    fn untried(&mut self, what: impl Into<String>, why: &str) {
        self.report.findings.push(Finding { what: what.into(), outcome: Outcome::Untried(why.to_owned()) });
    }

    /// Something that is not there. If the settings ask for it by name, it should be.
    fn missing(&mut self, what: &str, setting: &str, notes: &[String]) {
        match self.settings.settings[setting].as_str().filter(|name| !name.is_empty()) {
            Some(name) => {
                let said =
                    if notes.is_empty() { "it says nothing about it".to_owned() } else { notes.join(" ") };
                self.found(
                    format!("{what} named {name}"),
                    Err(format!("its settings ask for one, and it brings none: {said}")),
                );
            }
            None => self.absent(what),
        }
    }

    fn absent(&mut self, what: &str) {
        self.report.findings.push(Finding { what: what.to_owned(), outcome: Outcome::Absent });
    }

    async fn run(&mut self) {
        let begun = self.begun().await;
        let (life, abilities) = match begun {
            Ok((life, abilities)) => (life, abilities),
            Err(why) => return self.found("it starts and introduces itself", Err(why)),
        };
        self.report.name = abilities.name.clone();
        self.report.version = abilities.version.clone();
        self.report.notes = abilities.notes.clone();
        self.found("it starts and introduces itself", introduced(&abilities));
        let tried = self.versions().await;
        self.found("it answers an older and a newer host", tried);
        let tried = self.manners(&life).await;
        self.found("it passes over what it does not know, and refuses unknown methods with -32601", tried);
        match &abilities.engine {
            Some(engine) => self.engine(&life, engine).await,
            None => self.missing("a context engine", "engine", &abilities.notes),
        }
        match &abilities.provider {
            Some(provider) => self.provider(&life, provider).await,
            None => self.missing("a memory provider", "provider", &abilities.notes),
        }
        self.tools(&life, &abilities).await;
        self.hooks(&life, &abilities).await;
        if !abilities.commands.is_empty() {
            let names: Vec<String> =
                abilities.commands.iter().map(|command| format!("/{}", command.name)).collect();
            self.untried(format!("the commands {}", names.join(", ")), "nobody knows what they would do");
        }
        self.scopes(&life, &abilities).await;
        let tried = self.crowd(&life, &abilities).await;
        self.found("calls beside each other get each its own answer", tried);
        let tried = self.cancelled(&life, &abilities).await;
        self.found("a call that nobody waits for any more does no harm", tried);
        let tried = self.killed(life, &abilities).await;
        self.found("killed in the middle, it starts again in the same directory", tried);
        let tried = self.leaves(true).await;
        self.found("it ends when it is told to", tried);
        let tried = self.leaves(false).await;
        self.found("it ends when its input does", tried);
    }

    async fn life(&self) -> Result<CheckedProcess, String> {
        let cradle = LaunchSpec {
            settings: &self.settings,
            redactor: PluginRedactor::new(&self.settings),
            tally: Arc::default(),
            model: Some(Arc::new(|_| {
                Box::pin(async { Ok(ModelSaid { text: "A summary.".to_owned(), model: "check".to_owned() }) })
            })),
        };
        let Begun { link, life, .. } = process::begin(cradle).await.map_err(|error| error.to_string())?;
        let living = link.clone();
        tokio::spawn(async move {
            let why = life.await;
            living.bury(&why);
        });
        Ok(CheckedProcess { link })
    }

    fn introduction(&self, protocol: u32) -> Value {
        let directory =
            self.settings.directory.canonicalize().unwrap_or_else(|_| self.settings.directory.clone());
        json!({
            "protocol": protocol,
            "host": {"name": "throughline plugin check", "version": env!("CARGO_PKG_VERSION"), "later": [1]},
            "agent": self.settings.agent,
            "home": self.settings.home,
            "directory": directory,
            "settings": self.settings.settings,
            "offers": [method::ASK_MODEL, "later/offer"],
            "later": {"a field": "of a later version"},
        })
    }

    async fn begun(&self) -> Result<(CheckedProcess, Initialized), String> {
        let life = self.life().await?;
        let introduction = self.introduction(VERSION);
        let said = self.ask(&life, method::INITIALIZE, &introduction, self.settings.deadlines.start);
        let abilities = read(said.await?)?;
        Ok((life, abilities))
    }

    /// What it answers, or why that is none.
    async fn raw<P: Serialize>(
        &self,
        life: &CheckedProcess,
        method: &str,
        params: &P,
        time: Duration,
    ) -> Result<Result<Box<RawValue>, RpcError>, String> {
        let began = Instant::now();
        let answer = life.link.ask(method, params, began + self.patience).await;
        let took = began.elapsed();
        if took > time && matches!(answer, Ok(_) | Err(Unanswered::Fault(_))) {
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            let known = late.entry(method.to_owned()).or_insert((time, took));
            known.1 = known.1.max(took);
        }
        let mut slowest = self.slowest.lock().unwrap_or_else(PoisonError::into_inner);
        if method != method::INITIALIZE && slowest.as_ref().is_none_or(|(_, longest)| took > *longest) {
            *slowest = Some((method.to_owned(), took));
        }
        drop(slowest);
        match answer {
            Ok(said) => Ok(Ok(said)),
            Err(Unanswered::Fault(fault)) => Ok(Err(fault)),
            Err(Unanswered::TooLong) => Err(format!("{method}: the question is too long")),
            Err(Unanswered::Late { .. }) => {
                Err(format!("{method} was not answered within {} s", self.patience.as_secs_f32()))
            }
            Err(Unanswered::Lost { why, .. }) => Err(format!("{method}: {why}")),
        }
    }

    async fn ask<P: Serialize>(
        &self,
        life: &CheckedProcess,
        method: &str,
        params: &P,
        time: Duration,
    ) -> Result<Box<RawValue>, String> {
        let said = self.raw(life, method, params, time).await?;
        said.map_err(|fault| format!("{method} failed ({}): {}", fault.code, fault.message))
    }

    async fn ping(&self, life: &CheckedProcess) -> Tried {
        let said = self.ask(life, method::PING, &json!({"later": true}), self.settings.deadlines.ping).await;
        said.map(drop)
    }

    async fn versions(&self) -> Tried {
        for offered in [VERSION_MIN - 1, VERSION + 98] {
            let life = self.life().await?;
            let time = self.settings.deadlines.start;
            match self.raw(&life, method::INITIALIZE, &self.introduction(offered), time).await? {
                Err(_) if offered < VERSION_MIN => {}
                Err(fault) => return Err(format!("it refused version {offered}: {}", fault.message)),
                Ok(said) => {
                    let spoken = read::<Initialized>(said)?.protocol;
                    if offered > VERSION && !(VERSION_MIN..=VERSION).contains(&spoken) {
                        return Err(format!("offered version {offered}, it wants to speak {spoken}"));
                    }
                }
            }
        }
        Ok(())
    }

    async fn manners(&self, life: &CheckedProcess) -> Tried {
        self.ping(life).await?;
        match self.raw(life, "later/method", &json!({}), self.settings.deadlines.ping).await? {
            Ok(_) => return Err("it answered a method that there is not".to_owned()),
            Err(RpcError { code: code::NO_SUCH_METHOD, .. }) => {}
            Err(fault) => return Err(format!("an unknown method is refused with {}", fault.code)),
        }
        life.link.tell("later/word", &json!({"x": 1}));
        for odd in
            ["this is no message\n", "\n", "[]\n", "{\"jsonrpc\":\"2.0\"}\n", "{\"jsonrpc\":\"2.0\",\n"]
        {
            life.link.write(odd.as_bytes().to_vec()).await;
        }
        life.link.write(vec![0xff, 0xfe, b'\n']).await;
        self.ping(life).await.map_err(|why| format!("after lines that are no message: {why}"))
    }

    async fn engine(&mut self, life: &CheckedProcess, engine: &EngineAbility) {
        let plain = conversation(24);
        let tried = self.compress(life, &plain, Options::default(), true).await;
        self.found("engine/compress returns a conversation that can be sent", tried);
        for option in &engine.options {
            let options = match option.as_str() {
                "focus" => Options { focus: Some("the second topic".to_owned()), ..Options::default() },
                "force" => Options { force: true, ..Options::default() },
                "memory_context" => {
                    Options { memory_context: "Remember the key.".to_owned(), ..Options::default() }
                }
                "keep_last" => Options { keep_last: Some(4), ..Options::default() },
                other => {
                    self.found(format!("the option {other}"), Err("there is no such option".to_owned()));
                    continue;
                }
            };
            let tried = self.compress(life, &plain, options, true).await;
            self.found(format!("engine/compress takes the option {option} that it declares"), tried);
        }
        let mut tried = Ok(());
        for (what, odd) in oddities() {
            let done = self.compress(life, &odd, Options::default(), false).await;
            tried = tried.and(done.map_err(|why| format!("{what}: {why}")));
        }
        self.found("engine/compress survives odd conversations", tried);
        let question = self.question(&plain, Options::default());
        for name in ["should_compress", "has_content", "status"] {
            if !engine.methods.iter().any(|known| known == name) {
                self.absent(&format!("engine/{name}"));
                continue;
            }
            let deadlines = self.settings.deadlines;
            let scope = scope();
            let tried = match name {
                "should_compress" => {
                    let usage =
                        Usage { prompt_tokens: 90_000, completion_tokens: 500, expected_tokens: 91_000 };
                    let asked = ShouldCompress { scope, usage, window: 100_000 };
                    self.ask(life, method::SHOULD_COMPRESS, &asked, deadlines.decide)
                        .await
                        .and_then(read::<Verdict>)
                        .map(drop)
                }
                "has_content" => {
                    let asked = self.ask(life, method::HAS_CONTENT, &question, deadlines.look).await;
                    asked.and_then(read::<HasContent>).map(drop)
                }
                _ => {
                    let asked = self.ask(life, method::STATUS, &Scoped { scope }, deadlines.look).await;
                    asked.and_then(read::<Option<Text>>).map(drop)
                }
            };
            self.found(format!("engine/{name}"), tried);
        }
    }

    fn question(&self, messages: &[Said], options: Options) -> Compress {
        let messages = to_wire(messages).unwrap_or_default();
        Compress { scope: scope(), messages, tokens: 90_000, window: 100_000, options }
    }

    /// `plain`: it must work, rather than only be answered.
    async fn compress(
        &self,
        life: &CheckedProcess,
        messages: &[Said],
        options: Options,
        plain: bool,
    ) -> Tried {
        let question = self.question(messages, options);
        let said = self.raw(life, method::COMPRESS, &question, self.settings.deadlines.compress).await?;
        let said = match said {
            Ok(said) => read::<Compressed>(said)?,
            Err(RpcError { code: code::NOTHING, .. }) => return Ok(()),
            Err(_) if !plain => return Ok(()),
            Err(fault) => return Err(format!("error {}: {}", fault.code, fault.message)),
        };
        match joined(messages, &question.messages, &said.messages) {
            Ok(_) | Err(UnusableList::Same) => Ok(()),
            Err(UnusableList::Malformed(_)) if messages.is_empty() => Ok(()), // there was nothing to be made of it
            Err(UnusableList::Malformed(why)) => Err(why),
        }
    }

    async fn provider(&mut self, life: &CheckedProcess, provider: &ProviderAbility) {
        let has = |name: &str| provider.methods.iter().any(|known| known == name);
        let deadlines = self.settings.deadlines;
        match has("recall") {
            true => {
                let mut tried = Ok(());
                for query in
                    ["what do I like?".to_owned(), String::new(), ODD.to_owned(), "x".repeat(200_000)]
                {
                    let asked = Recall { scope: scope(), query };
                    let said = self.ask(life, method::RECALL, &asked, deadlines.recall).await;
                    tried = tried.and(said.and_then(read::<Option<Text>>).map(drop));
                }
                self.found("provider/recall", tried);
            }
            false => self.absent("provider/recall"),
        }
        match has("retain") {
            true => {
                let mut tried = Ok(());
                for (turn, tried_before) in [(1, false), (1, true), (2, false)] {
                    let said =
                        self.ask(life, method::RETAIN, &turn_of(turn, tried_before), deadlines.retain).await;
                    tried = tried.and(said.map(drop));
                }
                self.found("provider/retain, and the same turn once more", tried);
            }
            false => self.absent("provider/retain"),
        }
        match has("before_compression") {
            true => {
                let messages = to_wire(&conversation(6)).unwrap_or_default();
                let asked = BeforeCompression { scope: scope(), messages };
                let said =
                    self.ask(life, method::BEFORE_COMPRESSION, &asked, deadlines.before_compression).await;
                self.found("provider/before_compression", said.and_then(read::<Option<Text>>).map(drop));
            }
            false => self.absent("provider/before_compression"),
        }
        match has("memory_written") {
            true => {
                let mut tried = Ok(());
                for action in ["add", "replace", "remove", ODD] {
                    let (key, target) = (format!("s/1/0/0/{action}"), "memory".to_owned());
                    let (action, content, old_text) =
                        (action.to_owned(), ODD.to_owned(), Some("tea".to_owned()));
                    let asked = MemoryWritten { scope: scope(), key, action, target, content, old_text };
                    let said = self.ask(life, method::MEMORY_WRITTEN, &asked, deadlines.hook).await;
                    tried = tried.and(said.map(drop));
                }
                self.found("provider/memory_written", tried);
            }
            false => self.absent("provider/memory_written"),
        }
    }

    async fn tools(&mut self, life: &CheckedProcess, abilities: &Initialized) {
        let engine = abilities.engine.iter().flat_map(|engine| &engine.tools);
        let provider = abilities.provider.iter().flat_map(|provider| &provider.tools);
        let tools: Vec<&Tool> = abilities.tools.iter().chain(engine).chain(provider).collect();
        if tools.is_empty() {
            return self.absent("tools");
        }
        let mut tried = Ok(());
        for tool in &tools {
            if tool.name.is_empty() || !(tool.parameters.is_object() || tool.parameters.is_null()) {
                tried = tried.and(Err(format!("the tool {:?} has no name, or no schema", tool.name)));
            }
        }
        self.found("its tools have names and schemas", tried);
        let mut tried = Ok(());
        let repeatable = tools.iter().filter(|tool| tool.repeatable).map(|tool| tool.name.as_str());
        let names: Vec<&str> = repeatable.chain(["no_such_tool"]).collect();
        for name in names {
            for arguments in [json!({}), json!("not an object")] {
                let call = ToolCall {
                    scope: scope(),
                    key: format!("check/{name}"),
                    name: name.to_owned(),
                    arguments,
                    consent: false,
                };
                let said = self.raw(life, method::TOOL, &call, self.settings.deadlines.tool).await;
                let done =
                    said.and_then(|said| said.map_or(Ok(()), |said| read::<ToolResult>(said).map(drop)));
                tried = tried.and(done);
            }
        }
        self.found("tool/call answers, also to a name it does not know", tried);
        self.engine_tools(life, abilities).await;
        let of_engine = |tool: &Tool| {
            abilities.engine.iter().flat_map(|engine| &engine.tools).any(|own| own.name == tool.name)
        };
        let left: Vec<&str> = tools
            .iter()
            .filter(|tool| !tool.repeatable && !of_engine(tool))
            .map(|tool| tool.name.as_str())
            .collect();
        if !left.is_empty() {
            self.untried(
                format!("the tools {}", left.join(", ")),
                "they are not declared as `repeatable`, so they may change something",
            );
        }
    }

    /// They are about the conversation that the engine was given a moment ago. One that refuses what was made up here
    /// is no fault: the model reads such answers, too.
    async fn engine_tools(&mut self, life: &CheckedProcess, abilities: &Initialized) {
        let tools: Vec<&Tool> = abilities.engine.iter().flat_map(|engine| &engine.tools).collect();
        if tools.is_empty() {
            return;
        }
        let mut tried = Ok(());
        for tool in tools {
            let call = ToolCall {
                scope: scope(),
                key: format!("check/engine/{}", tool.name),
                name: tool.name.clone(),
                arguments: made_up(&tool.parameters),
                consent: false,
            };
            match self.raw(life, method::TOOL, &call, self.settings.deadlines.tool).await {
                Ok(Ok(said)) => tried = tried.and(read::<ToolResult>(said).map(drop)),
                Ok(Err(fault)) => {
                    let arguments = &call.arguments;
                    self.report.notes.push(format!(
                        "The engine's tool {} answered {arguments} with an error: {}",
                        tool.name, fault.message
                    ));
                }
                Err(why) => tried = tried.and(Err(format!("{}: {why}", tool.name))),
            }
        }
        self.found("tool/call answers for each tool of the context engine", tried);
    }

    async fn hooks(&mut self, life: &CheckedProcess, abilities: &Initialized) {
        if abilities.hooks.is_empty() {
            return self.absent("hooks");
        }
        let mut tried = Ok(());
        for hook in &abilities.hooks {
            let facts = [
                ("tool_name".to_owned(), json!("no_such_tool")),
                ("args".to_owned(), json!({})),
                ("session_id".to_owned(), json!("check")),
            ];
            let run = HookRun {
                scope: scope(),
                event: hook.event.clone(),
                name: hook.name.clone(),
                key: format!("check/{}/{}", hook.event, hook.name),
                facts: facts.into(),
            };
            let said = self.ask(life, method::HOOK, &run, self.settings.deadlines.hook).await;
            tried = tried.and(said.and_then(read::<Option<HookAnswer>>).map(drop));
        }
        self.found("hook/run", tried);
    }

    async fn scopes(&mut self, life: &CheckedProcess, abilities: &Initialized) {
        let engine = abilities.engine.iter().flat_map(|engine| &engine.methods);
        let provider = abilities.provider.iter().flat_map(|provider| &provider.methods);
        if !engine.chain(provider).any(|method| method == "scope") {
            return self.absent("scope/opened and scope/close");
        }
        life.link.tell(method::OPENED, &Scoped { scope: scope() });
        let close = Close {
            part: None,
            key: "check/1".into(),
            scope: scope(),
            reason: "new".to_owned(),
            next: Some("check-next".to_owned()),
            messages: to_wire(&conversation(4)).unwrap_or_default(),
        };
        let mut tried = self.ask(life, method::CLOSE, &close, self.settings.deadlines.close).await.map(drop);
        let again = self.ask(life, method::CLOSE, &close, self.settings.deadlines.close).await.map(drop);
        tried = tried.and(again.map_err(|why| format!("closed a second time: {why}")));
        self.found("scope/opened and scope/close", tried);
    }

    async fn crowd(&self, life: &CheckedProcess, abilities: &Initialized) -> Tried {
        let known = self.known(abilities);
        let calls = (0..24).map(|number| {
            let known = known.clone();
            async move {
                match (number % 3, known) {
                    (0, Some((method, params, time))) => {
                        self.raw(life, method, &params, time).await.map(drop)
                    }
                    (1, _) => {
                        let said = self
                            .raw(life, "later/method", &json!({}), self.settings.deadlines.ping * 4)
                            .await?;
                        let wrong = |_| Err("an unknown method got another call's answer".to_owned());
                        said.map_or(Ok(()), wrong)
                    }
                    _ => {
                        let said =
                            self.ask(life, method::PING, &json!({}), self.settings.deadlines.ping * 4).await;
                        said.map(drop)
                    }
                }
            }
        });
        join_all(calls).await.into_iter().collect()
    }

    /// Something it has declared that may be asked as often as one likes.
    fn known(&self, abilities: &Initialized) -> Option<(&'static str, Value, Duration)> {
        let deadlines = &self.settings.deadlines;
        let recalls = abilities
            .provider
            .as_ref()
            .is_some_and(|provider| provider.methods.iter().any(|known| known == "recall"));
        if recalls {
            let asked = json!(Recall { scope: scope(), query: "which?".to_owned() });
            return Some((method::RECALL, asked, deadlines.recall));
        }
        abilities.engine.as_ref()?;
        let question = json!(self.question(&conversation(24), Options::default()));
        Some((method::COMPRESS, question, deadlines.compress))
    }

    async fn cancelled(&self, life: &CheckedProcess, abilities: &Initialized) -> Tried {
        let known = self.known(abilities);
        let (method, params, _) = known.unwrap_or((method::PING, json!({}), Duration::ZERO));
        for _ in 0..3 {
            // Let go of at once: the link says `cancel`.
            let _ = life.link.ask(method, &params, Instant::now() + Duration::from_millis(1)).await;
        }
        life.link.tell(method::CANCEL, &Cancel { id: u64::MAX });
        let time = self.settings.deadlines.ping * 4;
        self.ask(life, method::PING, &json!({}), time).await.map(drop)
    }

    async fn killed(&self, life: CheckedProcess, abilities: &Initialized) -> Tried {
        let question = json!(self.question(&conversation(24), Options::default()));
        let turn = json!(turn_of(3, false));
        let provides = abilities
            .provider
            .as_ref()
            .is_some_and(|provider| provider.methods.iter().any(|known| known == "retain"));
        let (method, params) = match (provides, &abilities.engine) {
            (true, _) => (method::RETAIN, turn),
            (false, Some(_)) => (method::COMPRESS, question),
            (false, None) => (method::PING, json!({})),
        };
        let asking = life.link.ask(method, &params, Instant::now() + self.settings.deadlines.ping);
        tokio::select! {
            _ = asking => {}
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
        }
        life.link.die("killed by the check");
        life.link.buried().await;
        let (again, abilities_again) = self.begun().await?;
        if without_words(&abilities_again) != without_words(abilities) {
            return Err("it introduces itself differently the second time".to_owned());
        }
        self.ping(&again).await?;
        if method != method::PING {
            self.ask(&again, method, &params, self.settings.deadlines.compress).await?;
        }
        Ok(())
    }

    async fn leaves(&self, told: bool) -> Tried {
        let (life, _) = self.begun().await?;
        let grace = self.settings.deadlines.stop;
        if told {
            let said = self.raw(&life, method::SHUTDOWN, &json!({}), grace).await;
            if let Ok(Err(fault)) = said {
                return Err(format!("shutdown is refused ({})", fault.code));
            }
        }
        let began = Instant::now();
        life.link.leave(grace);
        life.link.buried().await;
        match began.elapsed() < grace {
            true => Ok(()),
            false => Err(format!("it was still there after {} s and had to be killed", grace.as_secs_f32())),
        }
    }
}

fn introduced(abilities: &Initialized) -> Tried {
    if abilities.protocol != VERSION {
        return Err(format!("offered version {VERSION}, it wants to speak {}", abilities.protocol));
    }
    if abilities.name.trim().is_empty() {
        return Err("it has no name".to_owned());
    }
    let engine = abilities.engine.iter().flat_map(|engine| &engine.methods);
    let provider = abilities.provider.iter().flat_map(|provider| &provider.methods);
    let known = [
        "should_compress",
        "has_content",
        "status",
        "scope",
        "recall",
        "retain",
        "before_compression",
        "memory_written",
        "compress",
    ];
    match engine.chain(provider).find(|method| !known.contains(&method.as_str())) {
        Some(unknown) => Err(format!("it declares the method {unknown:?}, which there is not")),
        None => Ok(()),
    }
}

/// Arguments that a schema takes: all that it requires, as plain as can be.
fn made_up(schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let filled = required.map(|name| {
        let field = &schema["properties"][name];
        let value = match (field["enum"].as_array().and_then(|values| values.first()), field["type"].as_str())
        {
            (Some(first), _) => first.clone(),
            (None, Some("integer" | "number")) => {
                field["minimum"].as_i64().map_or(json!(1), |least| json!(least))
            }
            (None, Some("boolean")) => json!(false),
            (None, Some("array")) => json!([]),
            (None, Some("object")) => json!({}),
            (None, _) => json!("Question"),
        };
        (name.to_owned(), value)
    });
    Value::Object(filled.collect())
}

#[expect(clippy::boxed_local, reason = "an answer comes in a box, and this is its end")]
fn read<T: DeserializeOwned>(said: Box<RawValue>) -> Result<T, String> {
    serde_json::from_str(said.get()).map_err(|error| format!("its answer is not what it should be: {error}"))
}

fn scope() -> Scope {
    let session: SessionId = "check".parse().expect("a plain word is an id");
    Scope {
        chat_key: Some("agent:main:telegram:dm:42".to_owned()),
        platform: "telegram".to_owned(),
        user: Some("42".to_owned()),
        user_name: Some("Ann Ünïcode".to_owned()),
        ..of_session(&session)
    }
}

const ODD: &str = "Ünïcode 🧵 \u{202e}rtl\u{202c} \u{0} \\ \" \u{feff} 漢字";

fn turn_of(turn: u64, tried: bool) -> Retain {
    Retain {
        scope: scope(),
        key: format!("check/{turn}"),
        document: "check".to_owned(),
        turn,
        index: turn,
        message_count: 2 * turn,
        at: 1_700_000_000.25,
        said: vec![format!("I like tea, {ODD}")],
        replied: "Noted.".to_owned(),
        tried,
    }
}

fn user(text: impl Into<String>) -> Said {
    Said::user(Time(1_700_000_000_250_000), Content::text(text))
}

fn assistant(text: &str, calls: &[&str]) -> Said {
    let call = |id: &&str| Called {
        id: (*id).to_owned(),
        name: "read_file".to_owned(),
        arguments: "{\"path\": \"a\"}".to_owned(),
        extra: None,
    };
    let calls = calls.iter().map(call).collect();
    let body = Assistant { content: Content::text(text), calls, ..Assistant::default() };
    Said::new(Time(1_700_000_001_000_000), Body::Assistant(body))
}

fn result(id: &str) -> Said {
    let result = Returned { call_id: id.to_owned(), name: None, content: Content::text("the file") };
    Said::new(Time(1_700_000_002_000_000), Body::Result(result))
}

/// So many exchanges, every third with a tool.
fn conversation(exchanges: usize) -> Vec<Said> {
    let mut messages = Vec::new();
    for number in 0..exchanges {
        messages.push(user(format!("Question {number}: {}", "tell me more about it. ".repeat(20))));
        if number % 3 == 0 {
            let id = format!("call_{number}");
            messages.push(assistant("", &[&id]));
            messages.push(result(&id));
        }
        messages.push(assistant(&format!("Answer {number}: {}", "there is much to say. ".repeat(20)), &[]));
    }
    messages
}

fn oddities() -> Vec<(&'static str, Vec<Said>)> {
    let mut unpaired = conversation(4);
    unpaired.push(result("nobody_called"));
    unpaired.push(assistant("", &["never_answered"]));
    vec![
        ("no messages", Vec::new()),
        ("one message", vec![user("hello")]),
        ("a message of a megabyte", vec![user("x".repeat(1 << 20)), assistant("ok", &[]), user("and?")]),
        ("every kind of letter", vec![user(ODD), assistant(ODD, &[]), user(ODD), assistant(ODD, &[])]),
        ("calls without results and results without calls", unpaired),
    ]
}

/// What a plugin can do. Its words for the prompt may count what it has been told meanwhile.
fn without_words(introduced: &Initialized) -> Initialized {
    let mut introduced = introduced.clone();
    if let Some(provider) = &mut introduced.provider {
        provider.prompt.clear();
    }
    introduced
}
