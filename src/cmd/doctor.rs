//! `throughline doctor`: what is wrong with a home, and, if asked, how it is made right.
//!
//! - without `--repair` and `--undo` nothing is changed, and a gateway may run meanwhile
//! - a repair is shown before it is asked for, begins with a backup, and is one transaction each: it can be
//!   interrupted at any moment, and run again
//! - what was repaired is looked for again, by the same examination, and what that brings to light is repaired, too
//!
//! Deliberately absent: what is wrong, and how it is repaired (`store::doctor`), and what files say (`throughline_upkeep::doctor`).

use crate::cmd::audit::shown_by_logs;
use crate::cmd::mcp;
use crate::interrupt;
use crate::out::{Page, Tint, indented, one_line, visible, write_json};
use crate::wire;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_core::Time;
use throughline_gateway::{Clock, SystemClock};
use throughline_home::config::Environment;
use throughline_home::home::{self, Home, Occupied, Ownership};
use throughline_store::doctor::{Finding, FindingKind, Mended, Remedy, Severity, turn_of};
use throughline_upkeep::doctor::backup::{Backup, Before};
use throughline_upkeep::doctor::{examine, holders, transcript};
use throughline_upkeep::progress::Progress;

/// As opposed to a failure to look; as an audit's.
const WITH_FINDINGS: u8 = 2;
/// How many findings of one kind are shown to a person, and how many lines of evidence of each.
const SHOWN_MAX: usize = 20;
const LINES_MAX: usize = 8;
/// What a compression does leaves lines in a log; so many of each are evidence enough.
const LOGGED: [FindingKind; 4] = [
    FindingKind::RotatedChain,
    FindingKind::ForkedSiblings,
    FindingKind::TranscriptGap,
    FindingKind::ArchivedUnsummarised,
];
const LOG_LINES_MAX: usize = 4;
/// One repair can bring another to light: a chain that is one again may have a route to mend. More rounds than any
/// of them has needed.
const ROUNDS_MAX: usize = 5;

/// What Ctrl-C says before anything is repaired.
const NOTHING_CHANGED: &str = "Nothing was changed.";

/// Find what is wrong with a home; repair it on request
#[derive(Debug, clap::Args)]
pub struct Doctor {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Repair what can be repaired: backup first, shown before it is done
    #[arg(long, conflicts_with = "undo")]
    repair: bool,
    /// Only findings of this kind
    #[arg(long, value_name = "KIND")]
    only: Option<FindingKind>,
    /// Only findings about this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Put back what the last repair began with
    #[arg(long)]
    undo: bool,
}

impl Doctor {
    pub fn run(
        self,
        homes: &[PathBuf],
        environment: &Environment,
        page: &Page,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let homes = home::choose(homes, &|name| environment.get(name))?;
        if (self.repair || self.undo) && homes.len() > 1 {
            bail!("one home at a time is repaired: give one with --home");
        }
        let mut found = Vec::new();
        let mut told = Vec::new();
        for home in &homes {
            home.refuse_absent()?;
            if !home.path().join("state.db").exists() {
                bail!("{} has no state.db: there is nothing to examine", home.path().display());
            }
            if let Some(session) = &self.session
                && !is_known(home, session)?
            {
                bail!(
                    "{} has no session {session}; `throughline sessions` lists those it has",
                    home.path().display()
                );
            }
            if self.undo {
                return self.undo(home, out);
            }
            if self.repair {
                return self.repair(home, page, out);
            }
            let findings = self.findings(home, home.owner().is_some())?;
            let servers = wire::running_servers(home, environment);
            match self.json {
                true => {
                    let mut shown = in_json(home, &findings);
                    shown["mcp_servers"] = servers.unwrap_or_default();
                    told.push(shown);
                }
                false => {
                    let servers =
                        servers.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                    tell(home, &findings, servers, page, out)?;
                    for server in servers {
                        writeln!(out, "{}", mcp::line(server, now()))?;
                    }
                }
            }
            found.extend(findings);
        }
        if self.json {
            let value = if told.len() == 1 { told.remove(0) } else { json!({ "homes": told }) };
            write_json(&value, out)?;
        } else if found.iter().any(Finding::is_repairable) {
            writeln!(
                out,
                "\n`throughline doctor --repair` repairs what it can; it makes a backup and asks first."
            )?;
        }
        Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(WITH_FINDINGS) })
    }

    fn findings(&self, home: &Home, is_running: bool) -> anyhow::Result<Vec<Finding>> {
        let mut found = examine(home, &Environment::of_this_process(), is_running, now())
            .with_context(|| format!("{} could not be examined", home.path().display()))?;
        add_log_lines(home, &mut found)?;
        found.retain(|finding| {
            self.only.is_none_or(|kind| finding.kind == kind)
                && self.session.as_ref().is_none_or(|id| finding.sessions.contains(id))
        });
        Ok(found)
    }

    fn repair(&self, home: &Home, page: &Page, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let _owned = claim(home)?;
        interrupt::explain(NOTHING_CHANGED);
        let mut findings = self.findings(home, false)?;
        if findings.iter().any(|finding| finding.kind == FindingKind::Integrity) {
            tell(home, &findings, &[], page, out)?;
            bail!("{} is damaged: nothing was repaired", home.path().join("state.db").display());
        }
        let others: Vec<Finding> =
            findings.iter().filter(|finding| !finding.is_repairable()).cloned().collect();
        findings.retain(Finding::is_repairable);
        if findings.is_empty() {
            match self.json {
                true => write_json(&in_json(home, &others), out)?,
                false => writeln!(out, "{}: there is nothing to repair", home.path().display())?,
            }
            return Ok(if others.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(WITH_FINDINGS) });
        }
        findings.sort_by_key(|finding| turn_of(finding.kind));
        let told: &mut dyn Write = if self.json { &mut io::sink() } else { &mut *out };
        writeln!(told, "The plan:")?;
        for finding in &findings {
            writeln!(told, "  {:<24} {}", finding.kind.name(), one_line(does(finding)))?;
        }
        told.flush()?;
        if !self.is_wanted(&format!("Repair {} findings?", findings.len()))? {
            writeln!(told, "Nothing was changed.")?;
            return Ok(ExitCode::from(WITH_FINDINGS));
        }
        let backup = Backup::make(home, Before::Repair, now())?;
        writeln!(
            told,
            "\nBackup of {} messages in {} sessions: {}\n",
            backup.holds.messages,
            backup.holds.sessions,
            backup.path.display()
        )?;
        told.flush()?;
        interrupt::explain(format!(
            "Each repair is done or not begun, and no message is lost. `throughline doctor --repair --home {home}` goes on, \
             `throughline doctor --undo --home {home}` puts the backup back.",
            home = home.path().display()
        ));
        let mut tried = Vec::new();
        let mut after = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let round = mend_all(home, &findings, page, told)?;
            let has_changed = round.iter().any(|repair| repair.outcome == Outcome::Done);
            tried.extend(round);
            // By the same examination: what was repaired must not be there any more.
            after = self.findings(home, false)?;
            findings = after.iter().filter(|finding| finding.is_repairable()).cloned().collect();
            findings.sort_by_key(|finding| turn_of(finding.kind));
            if findings.is_empty() || !has_changed {
                break;
            }
        }
        backup.repaired(home)?;
        let (repaired, still) = (tried.iter().filter(|repair| repair.is_over()).count(), findings.len());
        let reported = after.len() - still;
        if self.json {
            let told: Vec<Value> = tried.iter().map(Repair::in_json).collect();
            let mut value = in_json(home, &after);
            value["repairs"] = told.into();
            value["backup"] = json!(backup.path);
            write_json(&value, out)?;
        } else {
            for finding in &findings {
                let remark = page.paint(Tint::Yellow, "is still there");
                writeln!(out, "  {:<24} {remark}", finding.kind.name())?;
            }
            writeln!(
                out,
                "\n{repaired} of {} repaired; {reported} others are reported only. `throughline doctor --undo` puts the backup \
                 back.",
                repaired + still,
            )?;
        }
        Ok(if after.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(WITH_FINDINGS) })
    }

    fn undo(&self, home: &Home, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let _owned = claim(home)?;
        interrupt::explain(NOTHING_CHANGED);
        let backup = Backup::newest(home)?;
        let since = backup.messages_since(home)?;
        if since > 0 && !self.yes {
            bail!(
                "{since} messages came in since the repair, and the backup does not have them. Say --yes to put it back all \
                 the same: they stay readable in a backup of the present state, which is made first"
            );
        }
        writeln!(
            out,
            "{} goes back to {} messages in {} sessions: {}",
            home.path().display(),
            backup.holds.messages,
            backup.holds.sessions,
            backup.path.display()
        )?;
        out.flush()?;
        if !self.is_wanted("Put it back?")? {
            writeln!(out, "Nothing was changed.")?;
            return Ok(ExitCode::SUCCESS);
        }
        interrupt::explain(format!(
            "{home} is as it was or as in the backup. `throughline doctor --undo --home {home}` goes on.",
            home = home.path().display()
        ));
        let kept = backup.put_back(home, now())?;
        writeln!(out, "Done. What was there until now is kept in {}.", kept.path.display())?;
        Ok(ExitCode::SUCCESS)
    }

    /// A person at the terminal is asked; a program has to say it.
    fn is_wanted(&self, question: &str) -> anyhow::Result<bool> {
        if self.yes {
            return Ok(true);
        }
        if !io::stdin().is_terminal() {
            bail!(
                "there is no terminal to ask at, so nothing was changed; say --yes to go on without a question"
            );
        }
        write!(io::stderr(), "{question} [y/N] ")?;
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }
}

/// What Hermes' compressions did to a conversation stands in its logs, too.
fn add_log_lines(home: &Home, found: &mut [Finding]) -> anyhow::Result<()> {
    let is_told = |finding: &&mut Finding| LOGGED.contains(&finding.kind);
    if !found.iter_mut().any(|finding| is_told(&finding)) {
        return Ok(());
    }
    let shown = shown_by_logs(home.path())?;
    for finding in found.iter_mut().filter(is_told) {
        let about =
            shown.iter().filter(|(of, _)| of.iter().any(|session| finding.sessions.contains(session)));
        let lines: Vec<&String> = about.map(|(_, text)| text).collect();
        finding.evidence.extend(lines.iter().take(LOG_LINES_MAX).map(|text| (*text).clone()));
        if let more @ 1.. = lines.len().saturating_sub(LOG_LINES_MAX) {
            finding.evidence.push(format!("and {more} more in the logs; `throughline audit` names them"));
        }
    }
    Ok(())
}

/// What became of one finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// It was gone already, by an earlier repair.
    Gone,
    Left,
    Failed,
}

struct Repair {
    kind: FindingKind,
    sessions: Vec<String>,
    outcome: Outcome,
    says: String,
}

impl Repair {
    fn is_over(&self) -> bool {
        matches!(self.outcome, Outcome::Done | Outcome::Gone)
    }

    fn in_json(&self) -> Value {
        let outcome = match self.outcome {
            Outcome::Done => "done",
            Outcome::Gone => "gone",
            Outcome::Left => "left",
            Outcome::Failed => "failed",
        };
        json!({"kind": self.kind.name(), "sessions": self.sessions, "outcome": outcome, "says": self.says})
    }
}

/// One transaction each.
fn mend_all(
    home: &Home,
    findings: &[Finding],
    page: &Page,
    out: &mut dyn Write,
) -> anyhow::Result<Vec<Repair>> {
    let store = throughline_store::Home::at(home.path());
    let mut surgeon = store.surgeon(now())?;
    let mut progress = Progress::new("repairing", findings.len() as u64);
    let mut tried = Vec::new();
    for (nth, finding) in (0..).zip(findings) {
        progress.reach("repairing", nth, findings.len() as u64);
        let file = (finding.kind == FindingKind::TranscriptGap).then(|| transcript(home, finding)).flatten();
        let (outcome, tint, word, says) = match surgeon.mend(finding, file.as_ref(), now()) {
            Ok(Mended::Done(what)) => (Outcome::Done, Tint::Green, "done: ", one_line(&what)),
            Ok(Mended::Unneeded) => (Outcome::Gone, Tint::Dim, "", "was gone already".to_owned()),
            Ok(Mended::Left(why)) => (Outcome::Left, Tint::Yellow, "left: ", one_line(&why)),
            Err(error) => {
                let word = "failed, and nothing of it was changed: ";
                (Outcome::Failed, Tint::Red, word, error.in_full())
            }
        };
        writeln!(out, "  {:<24} {}{says}", finding.kind.name(), page.paint(tint, word))?;
        out.flush()?;
        tried.push(Repair { kind: finding.kind, sessions: finding.sessions.clone(), outcome, says });
    }
    // What was done is done: a file that cannot be written now is written when the home is opened next.
    if let Err(error) = surgeon.finish() {
        let file = home.path().join("sessions/sessions.json");
        let error = error.in_full();
        writeln!(
            out,
            "  {} does not say it yet; the next start of the gateway writes it: {error}",
            file.display()
        )?;
    }
    Ok(tried)
}

/// A repair has the home for itself.
fn claim(home: &Home) -> anyhow::Result<Ownership> {
    if home.owner().is_none() {
        home::take_title().context("could not start again under the name that Hermes knows")?;
    }
    let owned =
        home.own(env!("CARGO_PKG_VERSION")).map_err(|error| match error.downcast_ref::<Occupied>() {
            Some(occupied) => {
                let how = match &occupied.owner {
                    Some(record) if record.throughline.is_some() => {
                        "stop it where it was started (Ctrl-C, or its service)"
                    }
                    Some(_) => "stop it with `hermes gateway stop`",
                    None => "end that process",
                };
                anyhow::anyhow!("{occupied}. A repair needs the home for itself: {how}, then repair")
            }
            None => error,
        })?;
    let database = home.path().join("state.db");
    let holders = holders::of(&database);
    if !holders.is_empty() {
        let named: Vec<String> =
            holders.iter().map(|holder| format!("{} (pid {})", holder.program, holder.pid)).collect();
        bail!(
            "{} is open in {}, which would write back what it remembers of it. Nothing was changed: end it, then repair",
            database.display(),
            one_line(&named.join(", "))
        );
    }
    Ok(owned)
}

/// Whether there is such a session, or something is wrong with one of that name.
fn is_known(home: &Home, session: &str) -> anyhow::Result<bool> {
    let store = throughline_store::Home::at(home.path());
    if store.has_session(session)? {
        return Ok(true);
    }
    let found = examine(home, &Environment::of_this_process(), home.owner().is_some(), now())?;
    Ok(found.iter().any(|finding| finding.sessions.iter().any(|known| known == session)))
}

fn now() -> Time {
    SystemClock::new().now()
}

// --------------------------------------------------------------------------------------- telling

fn does(finding: &Finding) -> &str {
    match &finding.remedy {
        Remedy::Repair(text) | Remedy::Advice(text) => text,
    }
}

fn word(severity: Severity) -> (&'static str, Tint) {
    match severity {
        Severity::Grave => ("grave", Tint::Red),
        Severity::Serious => ("serious", Tint::Yellow),
        Severity::Minor => ("minor", Tint::Dim),
    }
}

/// `servers`: the MCP servers of the gateway that runs there.
fn tell(
    home: &Home,
    findings: &[Finding],
    servers: &[Value],
    page: &Page,
    out: &mut dyn Write,
) -> io::Result<()> {
    let away = away(servers).map(|away| format!("; {away}")).unwrap_or_default();
    let found = match findings.len() {
        0 if away.is_empty() => "nothing is wrong".to_owned(),
        0 => "nothing is wrong with what it holds".to_owned(),
        count => format!("{count} findings"),
    };
    writeln!(out, "{}: {found}{away}", home.path().display())?;
    for kind in FindingKind::ALL {
        let of_kind: Vec<&Finding> = findings.iter().filter(|finding| finding.kind == *kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        let (severity, tint) = word(kind.severity());
        writeln!(
            out,
            "\n{} ({}, {}): {}",
            page.paint(Tint::Bold, kind.name()),
            page.paint(tint, severity),
            of_kind.len(),
            kind.says()
        )?;
        for finding in of_kind.iter().take(SHOWN_MAX) {
            for line in finding.evidence.iter().take(LINES_MAX) {
                writeln!(out, "  {}", indented(&visible(line), "    ").trim())?;
            }
            if finding.evidence.len() > LINES_MAX {
                writeln!(out, "    and {} lines more", finding.evidence.len() - LINES_MAX)?;
            }
            if !finding.rows.is_empty() {
                let rows: Vec<String> = finding.rows.iter().take(10).map(i64::to_string).collect();
                let more = if finding.rows.len() > 10 { " …" } else { "" };
                writeln!(out, "    rows: {}{more}", rows.join(", "))?;
            }
            let what = if finding.is_repairable() { "a repair:" } else { "advice:" };
            writeln!(out, "    {} {}", page.paint(Tint::Cyan, what), visible(does(finding)))?;
        }
        if of_kind.len() > SHOWN_MAX {
            writeln!(out, "  and {} more; --json has them all", of_kind.len() - SHOWN_MAX)?;
        }
    }
    Ok(())
}

/// The MCP servers that need a person, by name. None: there is none.
fn away(servers: &[Value]) -> Option<String> {
    let names: Vec<String> = servers
        .iter()
        .filter(|server| mcp::needs_a_person(server))
        .map(|server| one_line(server["name"].as_str().unwrap_or_default()))
        .collect();
    match names.as_slice() {
        [] => None,
        [name] => Some(format!("the MCP server {name} is away")),
        names => Some(format!("{} MCP servers are away: {}", names.len(), names.join(", "))),
    }
}

fn in_json(home: &Home, findings: &[Finding]) -> Value {
    let told: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "kind": finding.kind.name(),
                "severity": word(finding.kind.severity()).0,
                "says": finding.kind.says(),
                "sessions": finding.sessions,
                "rows": finding.rows,
                "evidence": finding.evidence,
                "repairable": finding.is_repairable(),
                "remedy": does(finding),
            })
        })
        .collect();
    json!({"home": home.path(), "findings": told})
}
