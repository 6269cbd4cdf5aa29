//! What an agent is told about the machine its tools act on.

use std::path::Path;

/// Backends on which tools act on another machine than this one, and what that is.
fn elsewhere(backend: &str) -> Option<&'static str> {
    match backend {
        "docker" => Some("a Docker container (Linux)"),
        "singularity" => Some("a Singularity container (Linux)"),
        "modal" | "managed_modal" => Some("a Modal sandbox (Linux)"),
        "daytona" => Some("a Daytona workspace (Linux)"),
        "ssh" => Some("a remote host reached over SSH (likely Linux)"),
        _ => None,
    }
}

const WSL: &str = "This is WSL: drives of the Windows host are under /mnt (/mnt/c is C:), the user's files mostly in \
/mnt/c/Users/<name>/. Translate Windows paths accordingly.";

pub fn hint(backend: &str, user_home: Option<&Path>, workspace: Option<&Path>) -> String {
    let backend = backend.trim().to_lowercase();
    if let Some(place) = elsewhere(&backend) {
        return format!(
            "Terminal backend: {backend}. terminal, read_file, write_file, patch and search_files act inside {place}, not on \
             the machine this agent runs on. Its user, home and working directory are not known here; `uname -a && whoami && \
             pwd` tells them."
        );
    }
    let is_wsl = head("/proc/version").to_lowercase().contains("microsoft");
    let mut lines = vec![match (is_wsl, std::env::consts::OS) {
        (true, _) => "Host: WSL (Windows Subsystem for Linux)".to_owned(),
        (_, "linux") => format!("Host: Linux ({})", head("/proc/sys/kernel/osrelease").trim()),
        (_, "macos") => "Host: macOS".to_owned(),
        (_, "windows") => "Host: Windows".to_owned(),
        (_, other) => format!("Host: {other}"),
    }];
    lines.extend(user_home.map(|home| format!("User home directory: {}", home.display())));
    lines.extend(workspace.map(|dir| format!("Current working directory: {}", dir.display())));
    let host = lines.join("\n");
    if is_wsl { format!("{host}\n\n{WSL}") } else { host }
}

fn head(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
