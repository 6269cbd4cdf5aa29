//! The terminal: where commands run, who judges them, and what they may touch.

use super::allowlist::Allowed;
use super::assessor::Asking;
use super::{EquipmentPlace, backend_name, count, given};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::port::Model;
use throughline_core::tool::Call;
use throughline_hermes::config::Given;
use throughline_hermes::config::tools::ApprovalMode;
use throughline_home::config::Settings;
use throughline_plugins::protocol::Consent;
use throughline_plugins::tools::{Judge, Leave};
use throughline_tools::approval::{
    self, ApprovalRequest, AskMode, Assessor, CommandApprovals, Judgement, Unattended,
};
use throughline_tools::sandbox::{self, Confine};
use throughline_tools::terminal::{
    DockerSettings, HomeMode, NoticeSink, SshSettings, TerminalBackend, TerminalKit, TerminalSettings,
};

/// Who decides what a person must allow first: commands, and what plugins ask about.
pub fn judge(
    place: &EquipmentPlace<'_>,
    settings: &Settings,
    model: &Arc<dyn Model>,
) -> Arc<CommandApprovals> {
    Arc::new(CommandApprovals::new(
        approvals(place, settings),
        Arc::new(Allowed::of(place.home, settings.tools.approvals.allowlist.clone())),
        model.is_real().then(|| Arc::new(Asking(model.clone())) as Arc<dyn Assessor>),
    ))
}

pub fn terminal(
    place: &EquipmentPlace<'_>,
    settings: &Settings,
    judge: Arc<CommandApprovals>,
    confine: Arc<dyn Confine>,
    notices: NoticeSink,
) -> TerminalKit {
    TerminalKit::new(terminal_settings(place, settings), judge, confine, notices)
}

/// The same for calls of plugins that ask.
pub fn leave(judge: Arc<CommandApprovals>) -> Judge {
    Arc::new(move |call: &Call, asked: &Consent| {
        let asked = ApprovalRequest { what: &asked.what, why: &asked.why, patterns: &asked.patterns };
        match judge.leave(call, &asked) {
            Judgement::Run { .. } => Leave::Given,
            Judgement::Ask { question, patience } => Leave::Ask { question, patience },
            Judgement::Block(words) => Leave::Refused(words),
        }
    })
}

/// What local commands may touch: those of the terminal, and those of skills.
pub fn confine(place: &EquipmentPlace<'_>, settings: &Settings, off: &mut Vec<String>) -> Arc<dyn Confine> {
    if !settings.landlock.value {
        off.push("landlock: `throughline.landlock` is false, so local commands run as you do".into());
    }
    let (confine, note) = sandbox::confine(&sandbox::SandboxSettings {
        enabled: settings.landlock.value,
        home: place.home.to_owned(),
        others: place.homes.to_vec(),
        workspace: Some(place.workspace.to_owned()),
        opened: settings.open_in_home.clone(),
    });
    off.extend(note.map(|note| format!("landlock: {note}")));
    confine
}

fn approvals(place: &EquipmentPlace<'_>, settings: &Settings) -> approval::ApprovalSettings {
    let written = &settings.tools.approvals;
    let usual = approval::ApprovalSettings::new(approval::CommandPlace {
        home: place.home.to_owned(),
        user_home: place.user_home.map(Path::to_owned),
        temporary: std::env::temp_dir(),
    });
    let mode = match given(&written.mode) {
        None => usual.mode,
        Some(ApprovalMode::Manual) => AskMode::Manual,
        Some(ApprovalMode::Smart) => AskMode::Smart,
        Some(ApprovalMode::Off) => AskMode::Off,
    };
    let unattended = match given(&written.cron_approves) {
        Some(true) => Unattended::Approve,
        Some(false) | None => Unattended::Deny,
    };
    approval::ApprovalSettings {
        mode,
        deny: written.deny.clone(),
        patience: given(&written.timeout).map_or(usual.patience, Duration::from_secs),
        unattended,
        tasks_are_trusted: given(&settings.tools.delegation.subagent_auto_approve).unwrap_or(false),
        yolo: settings.environment.get("HERMES_YOLO_MODE").is_some_and(|value| approval::is_truthy(&value)),
        has_sudo_password: settings.secrets.contains_key("SUDO_PASSWORD"),
        scanner_required: given(&settings.tools.security.tirith_enabled).unwrap_or(true)
            && given(&settings.tools.security.tirith_fail_open) == Some(false),
        isolated: approval::is_isolated(
            backend_name(settings),
            given(&settings.tools.terminal.docker.mount_cwd_to_workspace).unwrap_or(false),
            settings.tools.terminal.docker.volumes.iter().map(String::as_str),
        ),
        ..usual
    }
}

fn terminal_settings(place: &EquipmentPlace<'_>, settings: &Settings) -> TerminalSettings {
    let written = &settings.tools.terminal;
    let usual = TerminalSettings::of_home(place.home);
    let seconds = |written: &Option<Given<u64>>| given(written).map(Duration::from_secs);
    TerminalSettings {
        profile: profile(place.home),
        backend: TerminalBackend::named(backend_name(settings)),
        cwd: match backend_name(settings) {
            "local" => place.workspace.display().to_string(),
            _ => given(&written.cwd).unwrap_or_default(),
        },
        timeout: seconds(&written.timeout).unwrap_or(usual.timeout),
        lifetime: seconds(&written.lifetime_seconds).unwrap_or(usual.lifetime),
        term_grace: given(&written.daemon_term_grace_seconds)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .unwrap_or(usual.term_grace),
        output_max_chars: count(&settings.tools.output.max_bytes).unwrap_or(usual.output_max_chars),
        env_passthrough: written.env_passthrough.clone(),
        home_mode: match given(&written.home_mode).as_deref() {
            Some("profile") => HomeMode::Profile,
            _ => HomeMode::Real,
        },
        shell_init_files: written.shell_init_files.clone(),
        auto_source_bashrc: given(&written.auto_source_bashrc).unwrap_or(usual.auto_source_bashrc),
        redact_secrets: given(&settings.tools.security.redact_secrets).unwrap_or(usual.redact_secrets),
        sudo_password: settings.secrets.get("SUDO_PASSWORD").cloned(),
        dotenv: settings.secrets.clone(),
        docker: docker(settings),
        ssh: ssh(settings),
        ..usual
    }
}

fn docker(settings: &Settings) -> DockerSettings {
    let (written, usual) = (&settings.tools.terminal.docker, DockerSettings::default());
    DockerSettings {
        image: given(&written.image).unwrap_or(usual.image),
        volumes: written.volumes.clone(),
        forward_env: written.forward_env.clone(),
        env: written.env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect(),
        extra_args: written.extra_args.clone(),
        network: given(&written.network).unwrap_or(usual.network),
        run_as_host_user: given(&written.run_as_host_user).unwrap_or(usual.run_as_host_user),
        mount_cwd_to_workspace: given(&written.mount_cwd_to_workspace)
            .unwrap_or(usual.mount_cwd_to_workspace),
        persist_across_processes: given(&written.persist_across_processes)
            .unwrap_or(usual.persist_across_processes),
        orphan_reaper: given(&written.orphan_reaper).unwrap_or(usual.orphan_reaper),
        cpu: given(&written.cpu).unwrap_or(usual.cpu),
        memory_mb: given(&written.memory).unwrap_or(usual.memory_mb),
        disk_mb: given(&written.disk).unwrap_or(usual.disk_mb),
        persistent: given(&written.persistent).unwrap_or(usual.persistent),
        credential_files: settings.tools.terminal.credential_files.clone(),
        binary: settings.environment.get("HERMES_DOCKER_BINARY").map(PathBuf::from),
    }
}

fn ssh(settings: &Settings) -> SshSettings {
    let (written, usual) = (&settings.tools.terminal.ssh, SshSettings::default());
    SshSettings {
        host: given(&written.host).unwrap_or(usual.host),
        user: given(&written.user).unwrap_or(usual.user),
        port: given(&written.port).and_then(|port| u16::try_from(port).ok()).unwrap_or(usual.port),
        key: given(&written.key).unwrap_or(usual.key),
    }
}

/// `<root>/profiles/<name>`, or the root itself.
fn profile(home: &Path) -> String {
    let in_profiles = home.parent().is_some_and(|parent| parent.ends_with("profiles"));
    let name = home.file_name().filter(|_| in_profiles);
    name.map_or_else(|| "default".to_owned(), |name| name.to_string_lossy().into_owned())
}
