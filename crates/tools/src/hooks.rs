//! Shell hooks: the user's own programs, told in JSON what happens, and asked whether a call may be.
//!
//! - a program gets its words, no shell: what is written is split as Python's `shlex` splits it
//! - one that may forbid a call and cannot be asked forbids it: not found, not to be run, out of time,
//!   killed. One that ran and said nothing has nothing against it
//! - those that hear of the end of a session run apart from this process (`detached`): they outlive
//!   it, and the next process finds out how they ended instead of beginning them a second time
//! - all others are told once at most, and no turn waits for them
//! - a program finds in its environment what Hermes would give it, and none of the gateway's own variables
//!
//! Elsewhere than on Unix no program is run (`unsupported`): there are no process groups to end them by,
//! and no `/bin/sh` to outlive this process in. One that may forbid a call forbids it there.
//!
//! Deliberately absent: who has agreed to which hook. Only those that may run are handed in.

#[cfg(unix)]
mod detached;
#[cfg(unix)]
mod once;
#[cfg(not(unix))]
mod unsupported;

#[cfg(unix)]
use detached::DetachedRuns;
use regex::Regex;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::message::Content;
use throughline_core::port::{Fact, Happening, Hooks, Occasion, Promise};
use throughline_core::tool::{Call, Done, Returned, Witness};
use throughline_hermes::config::hooks::{Hook, event_of};
use throughline_hermes::hook_facts;
#[cfg(not(unix))]
use unsupported::{self as once, DetachedRuns};

/// What a hook says when it forbids a call and gives no reason.
const FORBIDDEN: &str = "Blocked by shell hook.";
/// As much of a complaint as a log line holds.
const COMPLAINT_CHARS: usize = 400;

pub struct ShellHooks {
    hooks: Vec<Arc<HookProgram>>,
    surroundings: Arc<HookSurroundings>,
    apart: DetachedRuns,
}

/// Where hooks are run, and all that they find in their environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookSurroundings {
    pub directory: PathBuf,
    pub environment: BTreeMap<String, String>,
}

impl HookSurroundings {
    /// As Hermes has it: a hook inherits the gateway's variables with those of the home's `.env` over them, keys of
    /// providers among them. What is called `THROUGHLINE_…` is this gateway's own, the passphrase of a backup for one,
    /// and is not handed on. The home is this agent's, whichever the gateway was started with.
    pub fn as_hermes_has_it(
        directory: PathBuf,
        home: &Path,
        process: impl IntoIterator<Item = (String, String)>,
        dotenv: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let is_ours = |name: &str| name.to_ascii_uppercase().starts_with("THROUGHLINE_");
        let variables = process.into_iter().chain(dotenv).filter(|(name, _)| !is_ours(name));
        let mut environment: BTreeMap<String, String> = variables.collect();
        environment.insert("HERMES_HOME".to_owned(), home.display().to_string());
        Self { directory, environment }
    }
}

/// One hook, ready to be run.
struct HookProgram {
    name: String,
    hook: Hook,
    /// None: it hears of every tool.
    matcher: Option<HookMatcher>,
    /// Its words, or why it has none.
    words: Result<Vec<String>, String>,
}

/// How a run ended.
#[cfg_attr(not(unix), allow(dead_code))] // there, none begins
enum HookOutcome {
    /// It never began.
    NotAtAll(String),
    TooLong(Duration),
    /// A negative code is the signal that ended it.
    ToItsEnd {
        code: i32,
        answer: String,
        complaint: String,
    },
}

enum HookMatcher {
    Pattern(Regex),
    /// What is no expression is taken for a name, as in Hermes.
    Name(String),
}

impl HookMatcher {
    fn of(text: &str) -> Self {
        match Regex::new(&format!("^(?:{text})$")) {
            Ok(pattern) => HookMatcher::Pattern(pattern),
            Err(_) => {
                tracing::warn!(
                    matcher = text,
                    "a hook's matcher is no regular expression; taken for a tool's name"
                );
                HookMatcher::Name(text.to_owned())
            }
        }
    }

    fn matches(&self, tool: &str) -> bool {
        match self {
            HookMatcher::Pattern(pattern) => pattern.is_match(tool),
            HookMatcher::Name(name) => name == tool,
        }
    }
}

impl HookProgram {
    fn new(hook: Hook, user_home: Option<&Path>) -> Self {
        let words = words(&hook.command, user_home);
        let matcher = hook.matcher.as_deref().map(HookMatcher::of);
        Self { name: format!("{}: {}", hook.event, hook.command), hook, matcher, words }
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.hook.timeout_seconds)
    }

    fn hears_of(&self, tool: &str) -> bool {
        self.matcher.as_ref().is_none_or(|matcher| matcher.matches(tool))
    }
}

/// As Hermes splits it: a tilde in front is the user's directory.
fn words(command: &str, user_home: Option<&Path>) -> Result<Vec<String>, String> {
    let expanded = match (command.strip_prefix('~'), user_home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            format!("{}{rest}", home.display())
        }
        _ => command.to_owned(),
    };
    let letters: Vec<char> = expanded.chars().collect();
    match crate::approval::split(&letters) {
        None => Err("the command cannot be read: a quote is not closed".to_owned()),
        Some(words) if words.is_empty() => Err("the command is empty".to_owned()),
        Some(words) => Ok(words),
    }
}

impl ShellHooks {
    /// `runs` is where runs that outlive a process are kept.
    pub fn new(
        hooks: Vec<Hook>,
        surroundings: HookSurroundings,
        runs: PathBuf,
        user_home: Option<&Path>,
    ) -> Self {
        let mut programs: Vec<Arc<HookProgram>> = Vec::new();
        for hook in hooks {
            let program = HookProgram::new(hook, user_home);
            let same = |known: &Arc<HookProgram>| {
                known.name == program.name && known.hook.matcher == program.hook.matcher
            };
            if !programs.iter().any(same) {
                programs.push(Arc::new(program));
            }
        }
        let surroundings = Arc::new(surroundings);
        Self { hooks: programs, apart: DetachedRuns::new(runs, surroundings.clone()), surroundings }
    }

    /// Whether one of them may forbid a call.
    pub fn is_guard(&self) -> bool {
        self.hooks.iter().any(|program| program.hook.is_before_a_call())
    }

    fn of_call<'a>(
        &'a self,
        call: &'a Call,
        wants: fn(&Hook) -> bool,
    ) -> impl Iterator<Item = &'a Arc<HookProgram>> + 'a {
        self.hooks.iter().filter(move |program| wants(&program.hook) && program.hears_of(&call.name))
    }

    fn call_payload(&self, event: &str, call: &Call, mut extra: Map<String, Value>) -> String {
        let input: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let turn = call.key.rsplit('/').nth(2).unwrap_or_default();
        for (name, value) in [("task_id", ""), ("tool_call_id", call.key.as_str()), ("turn_id", turn)] {
            extra.insert(name.into(), json!(value));
        }
        let input = Some(input).filter(Value::is_object);
        self.payload(event, Some(&call.name), input, call.caller.session.as_str(), extra)
    }

    fn payload(
        &self,
        event: &str,
        tool: Option<&str>,
        input: Option<Value>,
        session: &str,
        extra: Map<String, Value>,
    ) -> String {
        json!({
            "hook_event_name": event,
            "tool_name": tool,
            "tool_input": input,
            "session_id": session,
            "cwd": self.surroundings.directory.to_string_lossy(),
            "extra": extra,
        })
        .to_string()
    }

    fn happened(&self, happening: &Happening) -> String {
        let facts = hook_facts::fields(&happening.facts).map(|(name, fact)| (name.to_owned(), value(fact)));
        let event = event_of(happening.occasion);
        self.payload(event, None, None, happening.session.as_str(), facts.collect())
    }

    fn of_occasion(&self, occasion: Occasion) -> impl Iterator<Item = &Arc<HookProgram>> {
        self.hooks.iter().filter(move |program| program.hook.occasion() == Some(occasion))
    }

    async fn ran(&self, program: &Arc<HookProgram>, input: String) -> HookOutcome {
        let (program, surroundings) = (program.clone(), self.surroundings.clone());
        let running = tokio::task::spawn_blocking(move || match &program.words {
            Ok(words) => once::run(words, &surroundings, &input, program.timeout()),
            Err(why) => HookOutcome::NotAtAll(why.clone()),
        });
        running.await.unwrap_or_else(|_| HookOutcome::NotAtAll("it failed inside the gateway".to_owned()))
    }

    /// No turn waits for it.
    fn told(&self, program: Arc<HookProgram>, input: String) {
        let surroundings = self.surroundings.clone();
        tokio::task::spawn_blocking(move || {
            let ran = match &program.words {
                Ok(words) => once::run(words, &surroundings, &input, program.timeout()),
                Err(why) => HookOutcome::NotAtAll(why.clone()),
            };
            if let Some(complaint) = complaint(&ran) {
                tracing::warn!(
                    hook = program.name,
                    complaint,
                    "a hook that was told something came to nothing"
                );
            }
        });
    }
}

fn value(fact: &Fact) -> Value {
    match fact {
        Fact::Text(text) => json!(text),
        Fact::Number(number) => json!(number),
        Fact::Flag(flag) => json!(flag),
        Fact::Names(names) => json!(names),
        Fact::Nothing => Value::Null,
    }
}

/// What is wrong with a run, if anything.
fn complaint(ran: &HookOutcome) -> Option<String> {
    match ran {
        HookOutcome::NotAtAll(why) => Some(why.clone()),
        HookOutcome::TooLong(time) => Some(format!("it took longer than {} seconds", time.as_secs())),
        HookOutcome::ToItsEnd { code: 0, .. } => None,
        HookOutcome::ToItsEnd { code, complaint, .. } => {
            let said: String = complaint.trim().chars().take(COMPLAINT_CHARS).collect();
            Some(format!("exit code {code}{}{said}", if said.is_empty() { "" } else { ": " }))
        }
    }
}

/// Why this run forbids the call.
fn forbidden(program: &HookProgram, ran: &HookOutcome) -> Option<String> {
    /// The shell's words for "not to be run" and "not there".
    const UNREACHED: [i32; 2] = [126, 127];
    let unasked = |why: String| {
        tracing::warn!(
            hook = program.name,
            why,
            "a hook that may forbid a call could not be asked: the call is not run"
        );
        Some(format!(
            "The hook `{}` decides about this tool and could not be asked ({why}), so the tool was not run.",
            program.hook.command
        ))
    };
    match ran {
        HookOutcome::ToItsEnd { code, answer, .. } if *code >= 0 && !UNREACHED.contains(code) => {
            if let Some(complaint) = complaint(ran) {
                tracing::warn!(
                    hook = program.name,
                    complaint,
                    "a hook had trouble; what it said counts all the same"
                );
            }
            decision(answer)
        }
        other => unasked(complaint(other).unwrap_or_default()),
    }
}

/// `{"action": "block", "message": …}` or `{"decision": "block", "reason": …}`.
fn decision(answer: &str) -> Option<String> {
    let said: Value = serde_json::from_str(answer.trim()).ok()?;
    let (first, second) = match (said["action"].as_str(), said["decision"].as_str()) {
        (Some("block"), _) => ("message", "reason"),
        (_, Some("block")) => ("reason", "message"),
        _ => return None,
    };
    let reason = [first, second].iter().find_map(|name| said[*name].as_str().filter(|text| !text.is_empty()));
    Some(reason.unwrap_or(FORBIDDEN).to_owned())
}

impl Witness for ShellHooks {
    fn forbids<'a>(&'a self, call: &'a Call) -> Promise<'a, Option<String>> {
        Box::pin(async move {
            for program in self.of_call(call, Hook::is_before_a_call) {
                let input = self.call_payload(&program.hook.event, call, Map::new());
                let ran = self.ran(program, input).await;
                if let Some(why) = forbidden(program, &ran) {
                    return Some(why);
                }
            }
            None
        })
    }

    fn called(&self, call: &Call, returned: &Returned, took: Duration, forbidden: Option<&str>) {
        let Returned::Done(Done { content, .. }) = returned else { return };
        let programs: Vec<_> = self.of_call(call, Hook::is_after_a_call).cloned().collect();
        if programs.is_empty() {
            return;
        }
        let text = match content {
            Content::Text(text) => text.clone(),
            other => other.plain(),
        };
        let mut extra = Map::new();
        extra.insert("result".into(), json!(text));
        extra.insert("status".into(), json!(if forbidden.is_some() { "blocked" } else { "ok" }));
        extra.insert("error_type".into(), json!(forbidden.map(|_| "plugin_block")));
        extra.insert("error_message".into(), json!(forbidden));
        extra.insert("duration_ms".into(), json!(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)));
        for program in programs {
            let input = self.call_payload(&program.hook.event, call, extra.clone());
            self.told(program, input);
        }
    }
}

impl Hooks for ShellHooks {
    fn names(&self, occasion: Occasion) -> Vec<String> {
        self.of_occasion(occasion).map(|program| program.name.clone()).collect()
    }

    fn run<'a>(&'a self, name: &'a str, happening: &'a Happening) -> Promise<'a, Result<(), String>> {
        Box::pin(async move {
            let Some(program) = self.of_occasion(happening.occasion).find(|program| program.name == name)
            else {
                return Ok(()); // the caller has gone
            };
            let words = program.words.as_ref().map_err(Clone::clone)?;
            let input = self.happened(happening);
            self.apart.run(name, &happening.key, words, &input, program.timeout()).await
        })
    }

    fn forget(&self, name: &str, happening: &Happening) {
        self.apart.forget(name, &happening.key);
    }

    fn tell(&self, happening: Happening) {
        for program in self.of_occasion(happening.occasion) {
            self.told(program.clone(), self.happened(&happening));
        }
    }
}

#[cfg(test)]
mod tests;
