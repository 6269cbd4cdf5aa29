//! What a user can set about approvals, and where commands run.

use super::PATIENCE;
use std::path::PathBuf;
use std::time::Duration;

/// Whether dangerous commands are asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskMode {
    /// An assessor looks first.
    #[default]
    Smart,
    Manual,
    Off,
}

impl AskMode {
    /// Reads `approvals.mode`. What is not understood is manual, and the sentence says so. YAML reads
    /// a bare `off` as false.
    pub fn named(text: &str) -> (Self, Option<String>) {
        match text.trim().to_lowercase().as_str() {
            "smart" => (Self::Smart, None),
            "manual" | "" | "true" => (Self::Manual, None),
            "off" | "false" => (Self::Off, None),
            _ => {
                let problem = format!(
                    "approvals.mode is '{text}', which is none of manual, smart, off: every dangerous \
                     command is asked about (manual) until it is one of them"
                );
                (Self::Manual, Some(problem))
            }
        }
    }
}

/// What becomes of a dangerous command where no person can be asked: `approvals.cron_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unattended {
    #[default]
    Deny,
    Approve,
}

impl Unattended {
    pub fn named(text: &str) -> Self {
        match text.trim().to_lowercase().as_str() {
            "approve" | "off" | "allow" | "yes" => Self::Approve,
            _ => Self::Deny,
        }
    }
}

/// Reads `approvals.timeout`: whole seconds. What is no number is [`PATIENCE`]; less than nothing is
/// nothing.
pub fn patience(text: Option<&str>) -> Duration {
    match text.map(|text| text.trim().parse::<f64>()) {
        Some(Ok(seconds)) if seconds.is_finite() => Duration::from_secs(seconds.clamp(0.0, 1e9) as u64),
        _ => PATIENCE,
    }
}

/// Reads `HERMES_YOLO_MODE` and its like.
pub fn is_truthy(text: &str) -> bool {
    matches!(text.trim().to_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

/// Whether what runs in this backend is kept from the host, so that nothing need be asked. A
/// container that mounts a directory of the host is not.
pub fn is_isolated<'a>(
    backend: &str,
    mounts_directory: bool,
    volumes: impl IntoIterator<Item = &'a str>,
) -> bool {
    match backend {
        "docker" => !mounts_directory && !volumes.into_iter().any(names_host_path),
        "singularity" | "modal" | "daytona" => true,
        _ => false,
    }
}

fn names_host_path(volume: &str) -> bool {
    let volume = volume.trim();
    let bytes = volume.as_bytes();
    let has_drive = bytes.len() >= 3 && bytes[1] == b':' && matches!(bytes[2], b'/' | b'\\');
    ["/", "~", "./", "../"].iter().any(|start| volume.starts_with(start)) || has_drive
}

/// Where commands run, and which paths in them mean home.
#[derive(Clone, Debug)]
pub struct CommandPlace {
    /// The agent's home.
    pub home: PathBuf,
    pub user_home: Option<PathBuf>,
    /// Where temporary files go.
    pub temporary: PathBuf,
}

#[derive(Clone, Debug)]
pub struct ApprovalSettings {
    pub mode: AskMode,
    /// `approvals.deny`: patterns of commands that never run.
    pub deny: Vec<String>,
    /// `approvals.timeout`.
    pub patience: Duration,
    /// `approvals.cron_mode`.
    pub unattended: Unattended,
    /// `delegation.subagent_auto_approve`.
    pub tasks_are_trusted: bool,
    /// `HERMES_YOLO_MODE`, read once at the start, where no tool can set it.
    pub yolo: bool,
    /// `SUDO_PASSWORD` is set: `sudo -S` is how it is used.
    pub has_sudo_password: bool,
    /// The backend is kept from the host: [`is_isolated`].
    pub isolated: bool,
    /// `security.tirith_enabled` with `tirith_fail_open: false`: without the scanner, which is
    /// absent here, no command passes unseen.
    pub scanner_required: bool,
    pub place: CommandPlace,
}

impl ApprovalSettings {
    /// What holds where nothing is configured.
    pub fn new(place: CommandPlace) -> Self {
        Self {
            mode: AskMode::default(),
            deny: Vec::new(),
            patience: PATIENCE,
            unattended: Unattended::default(),
            tasks_are_trusted: false,
            yolo: false,
            has_sudo_password: false,
            isolated: false,
            scanner_required: false,
            place,
        }
    }
}
