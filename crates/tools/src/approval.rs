//! Which commands a person must allow first.
//!
//! A command is judged before it runs, by Hermes' rules and in Hermes' order: what never runs (no way
//! back, a password guessed at `sudo -S`, the user's `approvals.deny`), what needs no leave
//! (`HERMES_YOLO_MODE`, `approvals.mode: off`, `command_allowlist`, nothing dangerous in it), and
//! what is dangerous: then a person is asked where the request came from, or no person is there and
//! it does not run.
//!
//! - a call that carries a grant has been answered; what never runs still does not
//! - in `smart` mode an assessor looks first. It may let a command pass, and it may warn a person;
//!   in every other case a person decides
//! - a setting that is not understood means that people are asked ([`AskMode::named`])
//!
//! What differs from Hermes: where no person can be asked and it is no schedule, Hermes lets dangerous
//! commands run; here they do not. A command whose name is put together when it runs (`$x$y -r DIR`) is
//! judged by what it comes to, and asked about where that is unknown; Hermes runs it. So is one that
//! writes a file which runs by itself ([`file_policy::runs_by_itself`]). What the detector does otherwise stands in the module `danger`.
//!
//! Deliberately absent: who is asked, how long ago, and whether the question survives a restart. That
//! is the gateway's; the answer comes back with the call. Hermes' external scanner (tirith) is absent
//! too: where the user made it mandatory, every command needs leave.

mod assessment;
mod danger;
mod flags;
mod glob;
mod judge;
#[cfg(test)]
mod linear;
mod rules;
mod script_reader;
mod settings;
mod shell;

use assessment::{Assessment, assessment_prompt};
use danger::{CommandReading, DangerDetector, SUDO_GUESS};
pub use judge::{CommandJudge, Judgement};
use script_reader::CommandNames;
pub use settings::{ApprovalSettings, AskMode, CommandPlace, Unattended, is_isolated, is_truthy, patience};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::port::Promise;
use throughline_core::redact::redacted;
use throughline_core::tool::{Call, Caller, EVERYTHING, Grant, Question};
use throughline_hermes::file_policy;

/// Python's `shlex.split`. None: a quote is not closed, or nothing follows a last backslash.
pub(crate) fn split(text: &[char]) -> Option<Vec<String>> {
    shell::split(text, false)
}

#[cfg(test)]
mod tests;

/// What the user has allowed for good: `command_allowlist`.
pub trait CommandAllowlist: Send + Sync {
    fn allows(&self) -> Vec<String>;
    fn add(&self, patterns: &[String]) -> Result<(), String>;
}

/// A model that is asked for one word about a command.
pub trait Assessor: Send + Sync {
    fn assess<'a>(&'a self, prompt: &'a str) -> Promise<'a, Result<String, String>>;
}

/// Hermes waits a minute for an answer.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Longer commands are read on a thread of their own: some eighty patterns look at each.
const INLINE_BYTES_MAX: usize = 2048;
/// A command that does not fit in a prompt this long is for people to judge.
const ASSESSED_CHARS_MAX: usize = 8_000;
/// As long as people would wait for the first token of one word.
const ASSESSOR_PATIENCE: Duration = Duration::from_secs(30);

const UNKNOWN_NAME: &str = "the name of a command is not known before it runs";
const RUNS_LATER: &str = "changes a file that is run later without anybody starting it";
const SCANNER_KEY: &str = "tirith:unknown";
const SCANNER_FINDING: &str = "Security scan: tirith path unavailable (fail-closed)";

/// Hermes' rules over commands.
pub struct CommandApprovals {
    settings: ApprovalSettings,
    detector: Arc<DangerDetector>,
    allowlist: Arc<dyn CommandAllowlist>,
    assessor: Option<Arc<dyn Assessor>>,
}

/// A command as it is written, and with the names filled in that it puts together.
struct CommandReadings {
    written: CommandReading,
    filled: Vec<(String, CommandReading)>,
    names: CommandNames,
}

impl CommandReadings {
    fn of(detector: &DangerDetector, command: &str) -> Self {
        let written = detector.read(command);
        let names = script_reader::names(command);
        let filled = names.filled.iter().map(|command| (command.clone(), detector.read(command)));
        Self { written, filled: filled.collect(), names }
    }

    fn all(&self) -> impl Iterator<Item = &CommandReading> {
        std::iter::once(&self.written).chain(self.filled.iter().map(|(_, reading)| reading))
    }
}

/// What another program wants a person to allow.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalRequest<'a> {
    pub what: &'a str,
    pub why: &'a str,
    /// What a lasting yes would cover. Empty: only this once.
    pub patterns: &'a [String],
}

/// One reason why a command needs leave.
struct CommandWarning {
    key: String,
    why: String,
    /// A lasting yes may cover it.
    can_last: bool,
}

impl CommandApprovals {
    /// Without an assessor, `smart` asks people at once.
    pub fn new(
        settings: ApprovalSettings,
        allowlist: Arc<dyn CommandAllowlist>,
        assessor: Option<Arc<dyn Assessor>>,
    ) -> Self {
        let detector = Arc::new(DangerDetector::new(&settings.place));
        Self { settings, detector, allowlist, assessor }
    }

    async fn decide(&self, call: &Call, command: &str) -> Judgement {
        if self.settings.isolated {
            return Judgement::Run { note: None };
        }
        let readings = self.read(command).await;
        if let Some(message) = readings.all().find_map(|reading| self.forbidden(reading)) {
            return Judgement::Block(blocked(&message));
        }
        if self.needs_no_leave(command) || call.caller.allowed.iter().any(|it| it == EVERYTHING) {
            return Judgement::Run { note: None };
        }
        let warnings = self.warnings(&call.caller, command, &readings);
        if let Some(grant) = call.grant {
            return self.granted(grant, &warnings);
        }
        if warnings.is_empty() {
            return Judgement::Run { note: None };
        }
        let why = joined(&warnings);
        if let Some(judgement) = self.without_people(&call.caller, &warnings) {
            return judgement;
        }
        let assessment = match self.settings.mode {
            AskMode::Smart => self.assess(command, &why).await,
            AskMode::Manual | AskMode::Off => Assessment::Escalate,
        };
        match assessment {
            Assessment::Approve => {
                let note = format!("Command was flagged ({why}) and auto-approved by smart approval.");
                Judgement::Run { note: Some(note) }
            }
            // A person may overrule it, for this once.
            Assessment::Deny => self.ask(command, &why, Vec::new()),
            Assessment::Escalate => {
                self.ask(command, &why, warnings.into_iter().map(|warning| warning.key).collect())
            }
        }
    }

    /// What becomes of a call of another program, which has found by itself that a person must allow it.
    pub fn leave(&self, call: &Call, asked: &ApprovalRequest<'_>) -> Judgement {
        let allowed = &call.caller.allowed;
        if self.settings.yolo
            || self.settings.mode == AskMode::Off
            || allowed.iter().any(|entry| entry == EVERYTHING)
        {
            return Judgement::Run { note: None };
        }
        let why = asked.why.to_owned();
        let mut warnings: Vec<CommandWarning> = match asked.patterns {
            [] => vec![CommandWarning { key: String::new(), why, can_last: false }],
            patterns => {
                let warning =
                    |key: &String| CommandWarning { key: key.clone(), why: why.clone(), can_last: true };
                patterns.iter().map(warning).collect()
            }
        };
        let listed = self.allowlist.allows();
        warnings.retain(|warning| {
            !warning.can_last || !listed.iter().chain(allowed).any(|it| *it == warning.key)
        });
        if warnings.is_empty() {
            return Judgement::Run { note: None };
        }
        if let Some(grant) = call.grant {
            return self.granted(grant, &warnings);
        }
        self.without_people(&call.caller, &warnings)
            .unwrap_or_else(|| self.ask(asked.what, asked.why, asked.patterns.to_vec()))
    }

    async fn read(&self, command: &str) -> CommandReadings {
        if command.len() <= INLINE_BYTES_MAX {
            return CommandReadings::of(&self.detector, command);
        }
        let (detector, text) = (self.detector.clone(), command.to_owned());
        let read = tokio::task::spawn_blocking(move || CommandReadings::of(&detector, &text)).await;
        read.unwrap_or_else(|_| CommandReadings {
            written: CommandReading::unread(),
            filled: Vec::new(),
            names: CommandNames::default(),
        })
    }

    /// What no setting, list or person lets run.
    fn forbidden(&self, reading: &CommandReading) -> Option<String> {
        if let Some(what) = self.detector.hardline(reading) {
            return Some(format!(
                "BLOCKED (hardline): {what}. This command is on the unconditional blocklist and cannot be \
                 executed via the agent — not even with --yolo, /yolo, approvals.mode=off, or cron approve \
                 mode. If you genuinely need to run it, run it yourself in a terminal outside the agent."
            ));
        }
        if !self.settings.has_sudo_password && self.detector.guesses_sudo_password(reading) {
            return Some(format!(
                "BLOCKED: {SUDO_GUESS}. Do not pipe passwords to 'sudo -S' — this is a brute-force attack \
                 vector. Set SUDO_PASSWORD in your .env file if the agent needs passwordless sudo, or run \
                 the sudo command manually in your own terminal."
            ));
        }
        let rule = self.detector.denied(reading, &self.settings.deny)?;
        Some(format!(
            "BLOCKED: this command matches the user-defined deny rule '{rule}' (approvals.deny in \
             config.yaml). It cannot be executed via the agent — not even with --yolo, /yolo, or \
             approvals.mode=off. Do NOT retry or rephrase this command; the user has explicitly forbidden \
             it."
        ))
    }

    fn needs_no_leave(&self, command: &str) -> bool {
        self.settings.yolo || self.settings.mode == AskMode::Off || self.is_listed(command)
    }

    /// `command_allowlist` may hold commands themselves, or patterns of them. Neither covers more
    /// than one command.
    fn is_listed(&self, command: &str) -> bool {
        let command = command.trim_matches(shell::is_space);
        let is_compound = command.contains(['\n', '&', '|', ';', '<', '>', '`']) || command.contains("$(");
        if command.is_empty() || is_compound {
            return false;
        }
        self.allowlist.allows().iter().map(|entry| entry.trim()).any(|entry| {
            entry == command || (entry.contains(['*', '?', '[']) && glob::matches(entry, command))
        })
    }

    /// Why it needs leave, but for what this session or the user has allowed before.
    fn warnings(&self, caller: &Caller, command: &str, readings: &CommandReadings) -> Vec<CommandWarning> {
        let mut warnings = Vec::new();
        if self.settings.scanner_required {
            let (key, why) = (SCANNER_KEY.to_owned(), SCANNER_FINDING.to_owned());
            warnings.push(CommandWarning { key, why, can_last: false });
        }
        let written = self.detector.dangerous(command, &readings.written);
        let filled = || {
            let mut filled = readings.filled.iter();
            filled.find_map(|(command, reading)| self.detector.dangerous(command, reading))
        };
        if let Some(name) = written.or_else(filled) {
            warnings.push(CommandWarning { key: name.to_string(), why: name.to_string(), can_last: true });
        }
        if let Some(path) = readings.names.written.iter().find(|path| self.runs_later(path))
            && warnings.is_empty()
        {
            let why = format!("{RUNS_LATER}: {path}");
            warnings.push(CommandWarning { key: RUNS_LATER.to_owned(), why, can_last: false });
        }
        if let Some(unknown) = &readings.names.unknown {
            let why = format!("{UNKNOWN_NAME}: {unknown}");
            warnings.push(CommandWarning { key: UNKNOWN_NAME.to_owned(), why, can_last: false });
        }
        let listed = self.allowlist.allows();
        warnings.retain(|warning| {
            let names = rules::names_of(&warning.key);
            !listed.iter().chain(&caller.allowed).any(|entry| names.contains(&entry.as_str()))
        });
        warnings
    }

    /// Whether what stands in this file is run by itself. A relative path may be meant from anywhere.
    fn runs_later(&self, path: &str) -> bool {
        let path = Path::new(path);
        let user = self.settings.place.user_home.as_deref();
        let below = path.strip_prefix("~").ok().or_else(|| path.strip_prefix(user?).ok());
        let below = below.or_else(|| path.is_relative().then_some(path));
        file_policy::runs_by_itself(path, below)
    }

    /// A person has said yes. What lasts is what they were asked about, which is what is found now.
    fn granted(&self, grant: Grant, warnings: &[CommandWarning]) -> Judgement {
        if warnings.is_empty() {
            return Judgement::Run { note: None };
        }
        let why = joined(warnings);
        let mut note = format!("Command required approval ({why}) and was approved by the user.");
        let lasting: Vec<String> =
            warnings.iter().filter(|warning| warning.can_last).map(|warning| warning.key.clone()).collect();
        if grant == Grant::Always
            && !lasting.is_empty()
            && let Err(problem) = self.allowlist.add(&lasting)
        {
            tracing::warn!(%problem, "could not add to command_allowlist");
            note.push_str(&format!(" It could not be added to command_allowlist: {problem}"));
        }
        Judgement::Run { note: Some(note) }
    }

    /// Decides where no person can be asked. None: one can.
    fn without_people(&self, caller: &Caller, warnings: &[CommandWarning]) -> Option<Judgement> {
        if caller.task.is_some() {
            return Some(match self.settings.tasks_are_trusted {
                true => {
                    let why = joined(warnings);
                    let note = format!("Command required approval ({why}) and was approved by the user.");
                    Judgement::Run { note: Some(note) }
                }
                false => Judgement::Block(blocked(&denied_in_terminal())),
            });
        }
        if is_attended(caller) {
            return None;
        }
        Some(match self.settings.unattended {
            Unattended::Approve => Judgement::Run { note: None },
            Unattended::Deny => Judgement::Block(blocked(&unattended(&caller.source, warnings))),
        })
    }

    async fn assess(&self, command: &str, why: &str) -> Assessment {
        let Some(assessor) = &self.assessor else { return Assessment::Escalate };
        let Some(prompt) = assessment_prompt(command, why) else { return Assessment::Escalate };
        match tokio::time::timeout(ASSESSOR_PATIENCE, assessor.assess(&prompt)).await {
            Ok(Ok(answer)) => match answer.trim().to_uppercase().as_str() {
                "APPROVE" => Assessment::Approve,
                "DENY" => Assessment::Deny,
                _ => Assessment::Escalate,
            },
            _ => Assessment::Escalate,
        }
    }

    fn ask(&self, command: &str, why: &str, patterns: Vec<String>) -> Judgement {
        let question = Question::Approval { what: redacted(command), why: redacted(why), patterns };
        Judgement::Ask { question, patience: self.settings.patience }
    }
}

impl CommandJudge for CommandApprovals {
    fn judge<'a>(&'a self, call: &'a Call, command: &'a str) -> Promise<'a, Judgement> {
        Box::pin(self.decide(call, command))
    }
}

fn joined(warnings: &[CommandWarning]) -> String {
    warnings.iter().map(|warning| warning.why.as_str()).collect::<Vec<_>>().join("; ")
}

/// Whether a person sees a question that this session asks. Scheduled work is sent to people, but
/// they do not sit in front of it.
fn is_attended(caller: &Caller) -> bool {
    match caller.source.as_str() {
        "cron" => false,
        "cli" | "api_server" => true,
        _ => caller.reply_to.is_some(),
    }
}

const HALT: &str = "The user has NOT consented to this action. Do NOT retry this command, do NOT rephrase it, \
                    and do NOT attempt the same outcome via a different command. Stop the current workflow \
                    and wait for the user to respond before taking any further destructive or irreversible \
                    action.";

fn denied_in_terminal() -> String {
    format!("BLOCKED: User denied this command. {HALT}")
}

fn unattended(source: &str, warnings: &[CommandWarning]) -> String {
    let who = match source {
        "cron" => "cron jobs run".to_owned(),
        other => format!("{other} sessions run"),
    };
    let what = match warnings.last() {
        Some(warning) if warning.can_last => format!("Command flagged as dangerous ({})", warning.why),
        _ => joined(warnings),
    };
    let place = if source == "cron" { "in cron jobs" } else { "where nobody can be asked" };
    format!(
        "BLOCKED: {what} but {who} without a user present to approve it. Find an alternative approach that \
         avoids this command. To allow dangerous commands {place}, set approvals.cron_mode: approve in \
         config.yaml."
    )
}

/// Hermes' result for a command that did not run, byte for byte.
fn blocked(message: &str) -> String {
    let message = serde_json::Value::String(message.to_owned());
    format!(r#"{{"output": "", "exit_code": -1, "error": {message}, "status": "blocked"}}"#)
}
