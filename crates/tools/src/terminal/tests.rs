//! Real processes, as the model would start them.

mod background;
mod other_sites;

use super::process_group::ProcessIdentity;
use super::settings::{TerminalBackend, TerminalSettings};
use super::*;
use crate::sandbox::Unconfined;
use std::fs::File;
use std::process::Stdio;
use std::sync::mpsc;
use throughline_core::message::Content;
use throughline_core::redact::Secret;
use throughline_core::tool::{Done, Question};

/// Allows everything, except what asks or is blocked by its first word.
struct TestRules;

impl CommandJudge for TestRules {
    fn judge<'a>(&'a self, call: &'a Call, command: &'a str) -> Promise<'a, Judgement> {
        let question = Question::Approval { what: command.to_owned(), why: "asks".into(), patterns: vec![] };
        let judgement = match command.split_whitespace().next() {
            Some("asks") if call.grant.is_none() => {
                Judgement::Ask { question, patience: Duration::from_secs(60) }
            }
            Some("blocked") => Judgement::Block("{\"error\": \"no\"}".to_owned()),
            Some("noted") => Judgement::Run { note: Some("approved by the user".to_owned()) },
            _ => Judgement::Run { note: None },
        };
        Box::pin(async move { judgement })
    }
}

/// A home, and the terminal on it.
struct TerminalFixture {
    home: TempDir,
    /// Where the shell finds its profile: that of the user who runs the tests is none of them, and a shell that is
    /// killed in it may leave something behind.
    user: TempDir,
    work: TempDir,
    heard: mpsc::Receiver<ProcessNotice>,
    notices: NoticeSink,
    settings: TerminalSettings,
}

impl TerminalFixture {
    fn new() -> Self {
        let (tell, heard) = mpsc::channel();
        let tell = Mutex::new(tell);
        let home = tempfile::tempdir().unwrap();
        let user = tempfile::tempdir().unwrap();
        let work = tempfile::tempdir().unwrap();
        let mut settings = TerminalSettings::of_home(home.path());
        settings.cwd = work.path().canonicalize().unwrap().to_str().unwrap().to_owned();
        settings.auto_source_bashrc = false;
        settings.inherited.retain(|(name, _)| name != "HOME");
        settings.inherited.push(("HOME".into(), user.path().into()));
        let notices: NoticeSink = Arc::new(move |notice| drop(tell.lock().unwrap().send(notice)));
        Self { home, user, work, heard, notices, settings }
    }

    fn terminal(&self) -> TerminalKit {
        TerminalKit::new(
            self.settings.clone(),
            Arc::new(TestRules),
            Arc::new(Unconfined),
            self.notices.clone(),
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.path().canonicalize().unwrap().join(name)
    }
}

fn call(name: &str, session: &str, arguments: Value) -> Call {
    let caller = Caller::in_private(session.parse().unwrap(), "cli");
    let key = format!("{session}/1/1/1");
    Call { key, name: name.to_owned(), arguments: arguments.to_string(), caller, grant: None }
}

async fn result(terminal: &TerminalKit, call: Call) -> Value {
    match terminal.call(&call).await {
        Returned::Done(Done { content: Content::Text(text), .. }) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn shell(terminal: &TerminalKit, arguments: Value) -> Value {
    result(terminal, call("terminal", "s1", arguments)).await
}

async fn sh(terminal: &TerminalKit, command: &str) -> Value {
    shell(terminal, json!({"command": command})).await
}

fn is_alive(pid: u32) -> bool {
    ProcessIdentity::of(pid).is_alive()
}

impl TerminalFixture {
    /// The next notice, within ten seconds.
    async fn hear(&self) -> ProcessNotice {
        let mut heard = None;
        until("a notice", || {
            heard = self.heard.try_recv().ok();
            heard.is_some()
        })
        .await;
        heard.unwrap()
    }
}

/// Waits until it holds, within ten seconds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never: {what}");
}

fn pid_in(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[tokio::test]
async fn a_command_returns_what_hermes_returns_to_the_byte() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    let call = call("terminal", "s1", json!({"command": "echo hällo; echo err >&2; exit 3"}));
    let returned = terminal.call(&call).await;
    assert_eq!(returned, Returned::text("{\"output\": \"hällo\\nerr\", \"exit_code\": 3, \"error\": null}"));
    let grep = sh(&terminal, "grep nothing /dev/null").await;
    assert_eq!(
        grep,
        json!({"output": "", "exit_code": 1, "error": null, "exit_code_meaning": "No matches found (not an error)"})
    );
    let red = sh(&terminal, r"printf '\033[31mred\033[0m no newline'").await;
    assert_eq!(red["output"], "red no newline");
}

#[tokio::test]
async fn directory_and_exports_persist_within_a_session_and_not_beyond() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    sh(&terminal, "mkdir -p 'a b/c' && cd 'a b' && export KEPT=\"it's 1\" && hello() { echo fn; }").await;
    let out = sh(&terminal, "pwd; echo $KEPT").await;
    assert_eq!(out["output"], format!("{}\nit's 1", world.path("a b").display()));
    let other = result(&terminal, call("terminal", "s2", json!({"command": "pwd; echo [$KEPT]"}))).await;
    assert_eq!(
        other["output"],
        format!("{}\n[]", world.path("").display().to_string().trim_end_matches('/'))
    );

    let named = shell(&terminal, json!({"command": "pwd", "workdir": world.path("a b/c")})).await;
    assert_eq!(named["output"], world.path("a b/c").to_str().unwrap());
    let after = sh(&terminal, "pwd").await;
    assert_eq!(
        after["output"],
        world.path("a b").to_str().unwrap(),
        "a directory for one command is for one command"
    );

    let missing = shell(&terminal, json!({"command": "echo never", "workdir": "/no/such/place"})).await;
    assert_eq!(missing["exit_code"], 126);
    sh(&terminal, "rm -rf ../'a b'").await;
    let recovered = sh(&terminal, "pwd").await;
    assert_eq!(
        (recovered["exit_code"].as_i64(), recovered["output"].as_str()),
        (Some(0), world.path("").to_str().map(|p| p.trim_end_matches('/')))
    );
}

#[tokio::test]
async fn p31_secrets_do_not_reach_a_command() {
    let mut world = TerminalFixture::new();
    for (name, value) in [
        ("OPENAI_API_KEY", "k1"),
        ("TELEGRAM_BOT_TOKEN", "k2"),
        ("AUXILIARY_VISION_API_KEY", "k3"),
        ("FROM_DOTENV", "k4"),
        ("HERMES_SESSION_CHAT_ID", "k5"),
        ("VISIBLE", "yes"),
    ] {
        world.settings.inherited.push((name.into(), value.into()));
    }
    for name in ["FROM_DOTENV", "PASSED_BY_CONFIG", "PASSED_BY_SKILL", "OPENAI_API_KEY"] {
        world.settings.dotenv.insert(name.into(), Secret::new(format!("value-of-{name}")));
    }
    world.settings.env_passthrough = vec!["PASSED_BY_CONFIG".into(), "OPENAI_API_KEY".into()];
    let terminal = world.terminal();
    let session = "s1".parse().unwrap();
    let refused = terminal.pass_variables(&session, ["PASSED_BY_SKILL".into(), "ANTHROPIC_TOKEN".into()]);
    assert_eq!(refused, ["ANTHROPIC_TOKEN"]);
    let foreground = sh(&terminal, "env").await["output"].as_str().unwrap().to_owned();
    let started = shell(
        &terminal,
        json!({"command": "env | grep -E '=k[0-9]$|value-of|VISIBLE|SESSION_ID'", "background": true}),
    )
    .await;
    let waited = result(
        &terminal,
        call("process", "s1", json!({"action": "wait", "session_id": started["session_id"]})),
    )
    .await;
    for environment in [foreground.as_str(), waited["output"].as_str().unwrap()] {
        for secret in ["k1", "k2", "k3", "k4", "k5", "value-of-OPENAI_API_KEY", "value-of-FROM_DOTENV"] {
            assert!(
                !environment.lines().any(|line| line.ends_with(&format!("={secret}"))),
                "{secret}: {environment}"
            );
        }
        for line in [
            "VISIBLE=yes",
            "PASSED_BY_CONFIG=value-of-PASSED_BY_CONFIG",
            "PASSED_BY_SKILL=value-of-PASSED_BY_SKILL",
            "HERMES_SESSION_ID=s1",
        ] {
            assert!(environment.lines().any(|found| found == line), "{line}: {environment}");
        }
    }
}

#[tokio::test]
async fn nothing_waits_for_input() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    let out =
        sh(&terminal, "cat; read -r line || echo closed; (exec 3</dev/tty) 2>/dev/null || echo no tty").await;
    assert_eq!(out["output"], "closed\nno tty");
}

#[tokio::test]
async fn a_timeout_ends_the_whole_family_and_says_so() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    let (child, escaped) = (world.path("child"), world.path("escaped"));
    let command = format!(
        "echo begun; bash -c 'sleep 300 & echo $! > {}; setsid sleep 300 & echo $! > {}; wait'; true",
        child.display(),
        escaped.display()
    );
    let begun = Instant::now();
    let out = shell(&terminal, json!({"command": command, "timeout": 1})).await;
    assert_eq!(
        out,
        json!({"output": "begun\n\n[Command timed out after 1s]", "exit_code": 124, "error": null})
    );
    assert!(begun.elapsed() < Duration::from_secs(6));
    let pids = [child, escaped].map(|path| pid_in(&path).unwrap());
    until("grandchildren are gone", || !pids.iter().any(|pid| is_alive(*pid))).await;
    let silent = shell(&terminal, json!({"command": "sleep 30", "timeout": 1})).await;
    assert_eq!(
        (silent["output"].as_str(), silent["exit_code"].as_i64()),
        (Some("[Command timed out after 1s]"), Some(124))
    );
}

#[tokio::test]
async fn a_dropped_call_ends_its_command_at_once_even_one_that_ignores_sigterm() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    sh(&terminal, "true").await;
    let (shell_pid, child) = (world.path("shell"), world.path("child"));
    let command = format!(
        "trap '' TERM; echo $$ > {}; sleep 300 & echo $! > {}; wait; sleep 300",
        shell_pid.display(),
        child.display()
    );
    let call = call("terminal", "s1", json!({"command": format!("bash -c {}", quoted(&command))}));
    let started = tokio::time::timeout(Duration::from_millis(800), terminal.call(&call)).await;
    assert!(started.is_err(), "it hangs");
    // Dropped here: that took no time, and the processes follow after the grace.
    let pids = [pid_in(&shell_pid).unwrap(), pid_in(&child).unwrap()];
    until("all ended", || !pids.iter().any(|pid| is_alive(*pid))).await;
    assert_eq!(sh(&terminal, "echo free").await["output"], "free");
}

#[tokio::test]
async fn a_process_left_behind_does_not_hold_the_result() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    let pid = world.path("pid");
    let begun = Instant::now();
    let out = sh(&terminal, &format!("bash -c 'sleep 60 & echo $! > {}'; echo done", pid.display())).await;
    assert_eq!((out["output"].as_str(), out["exit_code"].as_i64()), (Some("done"), Some(0)));
    assert!(begun.elapsed() < Duration::from_secs(10));
    process_group::end(ProcessIdentity::of(pid_in(&pid).unwrap()), Duration::from_secs(1));
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn two_hundred_megabytes_are_cut_kept_on_disk_and_never_in_memory() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    sh(&terminal, "true").await;
    let before = resident_kib();
    let out = sh(&terminal, "head -c 200000000 /dev/zero | tr '\\0' 'x'; echo; echo the end").await;
    let grown = resident_kib() - before;
    assert!(grown < 20 * 1024, "grew by {grown} KiB");
    let text = out["output"].as_str().unwrap();
    assert!(text.chars().count() <= 50_000 && text.starts_with("xxx") && text.ends_with("x\nthe end"));
    assert!(text.contains(" chars omitted out of 200,000,009 total] ..."), "{}", &text[19_900..20_200]);
    assert_eq!(out["full_output_bytes"], 200_000_009);
    let whole = PathBuf::from(out["full_output"].as_str().unwrap());
    assert!(whole.starts_with(world.home.path()) && whole.metadata().unwrap().len() == 200_000_009);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(whole.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn binary_output_is_shown_as_text_and_kept_as_it_is() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    let bytes = (0..=255u8).cycle().take(300_000).collect::<Vec<_>>();
    std::fs::write(world.path("blob"), &bytes).unwrap();
    let out = sh(&terminal, "cat blob").await;
    assert!(out["output"].as_str().unwrap().contains("OUTPUT TRUNCATED"));
    assert_eq!(std::fs::read(out["full_output"].as_str().unwrap()).unwrap(), bytes);
    let short = sh(&terminal, "printf '\\xff\\xfe ok'").await;
    assert_eq!(short["output"], "\u{fffd}\u{fffd} ok");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_with_hermes_words() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    let timeout = shell(&terminal, json!({"command": "true", "timeout": 601})).await;
    assert_eq!(
        timeout["error"],
        "Foreground timeout 601s exceeds the maximum of 600s. Use background=true with notify_on_complete=true for long-running commands."
    );
    let command = shell(&terminal, json!({"command": 3})).await;
    assert_eq!(
        command,
        json!({"output": "", "exit_code": -1, "error": "Invalid command: expected string, got int", "status": "error"})
    );
    assert_eq!(sh(&terminal, "npm start").await["status"], "error");
    assert_eq!(sh(&terminal, "hermes gateway restart").await["exit_code"], 1);
    let workdir = shell(&terminal, json!({"command": "true", "workdir": "/tmp;id"})).await;
    assert_eq!(workdir["status"], "blocked");
    let broken = Call { arguments: "{\"command\": \"ls".into(), ..call("terminal", "s1", json!({})) };
    assert!(
        result(&terminal, broken).await["error"].as_str().unwrap().starts_with("Invalid JSON arguments: ")
    );
}

#[tokio::test]
async fn the_judge_comes_first() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    let mut asks = call("terminal", "s1", json!({"command": "asks || echo ran > marker"}));
    assert!(matches!(terminal.call(&asks).await, Returned::Ask { .. }));
    assert!(!world.path("marker").exists());
    asks.grant = Some(throughline_core::tool::Grant::Once);
    terminal.call(&asks).await;
    assert!(world.path("marker").exists());
    assert_eq!(sh(&terminal, "blocked").await, json!({"error": "no"}));
    assert_eq!(sh(&terminal, "noted 2>/dev/null; true").await["approval"], "approved by the user");
}

#[tokio::test]
async fn p31_an_unknown_backend_switches_the_tools_off_by_name() {
    let mut world = TerminalFixture::new();
    for name in ["modal", "daytona", "singularity", "vercel_sandbox"] {
        world.settings.backend = TerminalBackend::named(name);
        let terminal = world.terminal();
        assert!(terminal.specs().is_empty());
        assert!(terminal.refusal().unwrap().contains(&format!("terminal.backend is '{name}'")));
        assert_eq!(sh(&terminal, "echo ran").await["status"], "disabled");
    }
    world.settings.backend = TerminalBackend::Local;
    let names =
        world.terminal().specs().into_iter().map(|spec| (spec.name, spec.repeatable)).collect::<Vec<_>>();
    assert_eq!(names, [("terminal".to_owned(), false), ("process".to_owned(), false)]);
}

#[tokio::test]
async fn sudo_gets_the_password_on_its_input_and_nobody_else_does() {
    let mut world = TerminalFixture::new();
    world.settings.sudo_password = Some(Secret::new("pa55word"));
    let bin = world.path("bin");
    std::fs::create_dir(&bin).unwrap();
    script_file(
        &bin.join("sudo"),
        "#!/bin/bash\nread -r password\n[ \"$password\" = pa55word ] && echo \"$*: $password\"\n",
    );
    let terminal = world.terminal();
    let out =
        sh(&terminal, &format!("PATH={}:$PATH; A=1 sudo id && sudo ls; cat; echo sudo", bin.display())).await;
    assert_eq!(out["output"], "-S -p  id: [REDACTED]\n-S -p  ls: [REDACTED]\nsudo");
    assert_eq!(
        sh(&terminal, "cat; env | grep -c pa55word").await["output"],
        "0",
        "a command without sudo has no input"
    );
}

pub(super) fn script_file(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
