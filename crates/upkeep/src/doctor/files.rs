//! What is wrong with the files of a home: memory, logs, permissions, the write-ahead log.
//!
//! - memory is a person's words: what is found in it is reported, and left to the agent and its owner
//! - a secret that is found is never shown: the line it stands in is

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use throughline_core::redact::{holds_secret, redacted};
use throughline_hermes::config::Config;
use throughline_store::doctor::{Finding, FindingKind, Remedy};

/// Hermes' files and their limits, in characters.
const MEMORY: [(&str, usize); 2] = [("memories/MEMORY.md", 2_200), ("memories/USER.md", 1_375)];
const DELIMITER: &str = "\n§\n";
/// What agents wrote down when messages had been lost. Lower case.
const CLAIMS: [&str; 14] = [
    "parallel self",
    "parallel selves",
    "parallel session",
    "parallel instance",
    "another instance of me",
    "other instance of me",
    "amnesia",
    "no record of",
    "no memory of",
    "lost my memory",
    "messages are missing",
    "messages went missing",
    "missing messages",
    "memory was wiped",
];
/// A log that was never folded back.
const LOG_BYTES: u64 = 256 << 20;
/// How much of a log is looked through, from its beginning; and how many lines are named.
const SEARCHED_BYTES: u64 = 64 << 20;
const LINES_MAX: usize = 20;
const LINE_MAX: usize = 16 << 10;

pub fn examine(home: &Path) -> Vec<Finding> {
    let mut found = Vec::new();
    let limits = limits(home);
    for ((name, _), limit) in MEMORY.iter().zip(limits) {
        if let Ok(text) = fs::read_to_string(home.join(name)) {
            found.extend(memory(name, &text, limit));
        }
    }
    found.extend(drifted(home));
    found.extend(logs(home));
    found.extend(permissions(home));
    found.extend(large_log(home));
    found.extend(honcho(home));
    found
}

fn finding(kind: FindingKind, subject: &str, evidence: Vec<String>, advice: &str) -> Finding {
    let remedy = Remedy::Advice(advice.to_owned());
    Finding { kind, sessions: vec![subject.to_owned()], rows: Vec::new(), evidence, remedy }
}

// ---------------------------------------------------------------------------------------- memory

/// As configured, else Hermes' own.
fn limits(home: &Path) -> [usize; 2] {
    let text = fs::read_to_string(home.join("config.yaml")).unwrap_or_default();
    // A file that cannot be read says nothing; `throughline config` says what is wrong with it.
    let memory = Config::parse(&text, &|_| None).map(|config| config.tools.memory).unwrap_or_default();
    let given = [memory.memory_char_limit, memory.user_char_limit];
    let mut limits = MEMORY.map(|(_, usual)| usual);
    for (limit, given) in limits.iter_mut().zip(given) {
        let given = given.and_then(|given| usize::try_from(given.value).ok());
        *limit = given.unwrap_or(*limit);
    }
    limits
}

pub fn memory(name: &str, text: &str, limit: usize) -> Vec<Finding> {
    let mut found = Vec::new();
    let entries: Vec<&str> = text.split(DELIMITER).map(str::trim).filter(|entry| !entry.is_empty()).collect();
    let length = entries.join(DELIMITER).chars().count();
    if length > limit {
        found.push(finding(
            FindingKind::MemoryOverLimit,
            name,
            vec![format!("{name} holds {length} characters; its limit is {limit}")],
            "the agent can add nothing until it is shorter: let it consolidate its memory, or edit the file",
        ));
    }
    let mut known = HashSet::new();
    let twice: Vec<&&str> = entries.iter().filter(|entry| !known.insert(**entry)).collect();
    if !twice.is_empty() {
        let shown = twice.iter().map(|entry| format!("twice in {name}: {}", beginning(entry)));
        found.push(finding(
            FindingKind::MemoryDuplicated,
            name,
            shown.collect(),
            "remove one of each; Hermes does so by itself the next time the agent changes that file",
        ));
    }
    let claims: Vec<String> = entries
        .iter()
        .filter(|entry| CLAIMS.iter().any(|claim| entry.to_lowercase().contains(claim)))
        .map(|entry| format!("in {name}: {}", beginning(entry)))
        .collect();
    if !claims.is_empty() {
        found.push(finding(
            FindingKind::MemoryClaim,
            name,
            claims,
            "written when messages had been lost, most likely. It is never deleted by itself: read it, and tell the agent \
             to forget it if it is no longer true",
        ));
    }
    found
}

fn beginning(entry: &str) -> String {
    let line = entry.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = redacted(&line).chars().take(100).collect();
    if cut.len() < line.len() { format!("{cut}…") } else { cut }
}

/// Hermes 0.19 keeps the older text when it finds a file changed by another program.
fn drifted(home: &Path) -> Option<Finding> {
    let mut names: Vec<String> = fs::read_dir(home.join("memories"))
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.contains(".md.bak."))
        .map(|name| format!("memories/{name}"))
        .collect();
    names.sort();
    (!names.is_empty()).then(|| {
        finding(
            FindingKind::MemoryDrifted,
            "memories",
            names,
            "compare them with the files beside them; delete them when nothing in them is missed",
        )
    })
}

// ------------------------------------------------------------------------------------------ logs

fn logs(home: &Path) -> Vec<Finding> {
    let Ok(entries) = fs::read_dir(home.join("logs")) else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    paths.iter().filter_map(|path| secrets(path)).collect()
}

fn secrets(path: &Path) -> Option<Finding> {
    let name = format!("logs/{}", path.file_name()?.to_str()?);
    if !name.contains(".log") {
        return None;
    }
    let mut read = 0;
    let mut count = 0;
    let mut evidence = Vec::new();
    for (number, line) in (1..).zip(BufReader::new(File::open(path).ok()?).split(b'\n')) {
        let line = line.ok()?;
        read += line.len() as u64;
        if read > SEARCHED_BYTES {
            evidence.push(format!("only the first {} MiB were looked through", SEARCHED_BYTES >> 20));
            break;
        }
        let text = String::from_utf8_lossy(&line[..line.len().min(LINE_MAX)]);
        if holds_secret(&text) {
            count += 1;
            if count <= LINES_MAX {
                evidence.push(format!("{name}, line {number}"));
            }
        }
    }
    if count == 0 {
        return None;
    }
    if count > LINES_MAX {
        evidence.push(format!("and {} more lines", count - LINES_MAX));
    }
    let advice = "change the key or password where it was issued, then delete the log; it is not shown here";
    Some(finding(FindingKind::SecretInLog, &name, evidence, advice))
}

// ----------------------------------------------------------------------------------- permissions

#[cfg(not(unix))]
fn permissions(_: &Path) -> Option<Finding> {
    None // the user's profile sees to that
}

#[cfg(unix)]
fn permissions(home: &Path) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt;
    let private = [
        ".env",
        "auth.json",
        "state.db",
        "config.yaml",
        "throughline.key",
        "honcho.json",
        "sessions/sessions.json",
    ];
    let mode = |path: &Path| Some(fs::metadata(path).ok()?.permissions().mode() & 0o777);
    // Where no other user can pass, nothing inside needs a lock of its own.
    if home.ancestors().any(|path| mode(path).is_some_and(|mode| mode & 0o001 == 0)) {
        return None;
    }
    let open: Vec<String> = private
        .iter()
        .filter_map(|name| {
            let mode = mode(&home.join(name))?;
            (mode & 0o004 != 0)
                .then(|| format!("{name} can be read by everybody on this machine (mode {mode:03o})"))
        })
        .collect();
    let advice = format!(
        "`chmod -R go-rwx {}`; nothing of Hermes or Throughline needs others to read it",
        home.display()
    );
    (!open.is_empty()).then(|| finding(FindingKind::UnsafePermissions, "files", open, &advice))
}

fn large_log(home: &Path) -> Option<Finding> {
    let size = fs::metadata(home.join("state.db-wal")).ok()?.len();
    (size > LOG_BYTES).then(|| {
        finding(
            FindingKind::LargeLog,
            "state.db-wal",
            vec![format!("state.db-wal has {} MiB", size >> 20)],
            "nothing is lost: it is folded back when the last program that uses the database ends in an orderly way",
        )
    })
}

/// A provider's sessions that would get other names (P27).
fn honcho(home: &Path) -> Option<Finding> {
    let text = fs::read_to_string(home.join("honcho.json")).ok()?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    let is_on = |value: &serde_json::Value| value["sessionPeerPrefix"].as_bool();
    // What a host says goes before the rest.
    let hosts = value["hosts"].as_object().into_iter().flatten();
    let mut on: Vec<String> = hosts
        .filter(|(_, host)| is_on(host) == Some(true))
        .map(|(name, _)| format!("hosts.{name}.sessionPeerPrefix is on; Hermes does not apply it to chats"))
        .collect();
    if is_on(&value) == Some(true) {
        on.push("sessionPeerPrefix is on; Hermes does not apply it to chats".to_owned());
    }
    (!on.is_empty()).then(|| {
        finding(
            FindingKind::ProviderRenamed,
            "honcho.json",
            on,
            "Throughline applies it, too, but only to chats that it has not written for yet: a name that is in use stays. \
             PlatformAccounts that Hermes has written for begin a session under the prefixed name unless the prefix is switched off",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(found: &[Finding]) -> Vec<FindingKind> {
        found.iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn memory_that_is_well_is_not_mentioned() {
        assert_eq!(memory("memories/MEMORY.md", "likes tea\n§\nlives in Ulm", 2_200), []);
    }

    #[test]
    fn limits_are_read_in_either_style_of_yaml() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(limits(home.path()), [2_200, 1_375], "Hermes' own");
        for text in [
            "memory: {memory_char_limit: 5000, user_char_limit: 90}\n",
            "memory:\n  memory_char_limit: 5000 # more\n  user_char_limit: 90\n",
            "\"memory\": {\"memory_char_limit\": 5000,\n  \"user_char_limit\": 90}\n",
        ] {
            fs::write(home.path().join("config.yaml"), text).unwrap();
            assert_eq!(limits(home.path()), [5_000, 90], "{text}");
        }
        let elsewhere = "notes:\n  memory_char_limit: 7\n";
        fs::write(home.path().join("config.yaml"), elsewhere).unwrap();
        assert_eq!(limits(home.path()), [2_200, 1_375], "of something else");
    }

    #[test]
    fn a_log_that_nobody_folds_back_is_named_with_its_size() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(large_log(home.path()), None, "there is none");
        let log = fs::File::create(home.path().join("state.db-wal")).unwrap();
        log.set_len(LOG_BYTES).unwrap();
        assert_eq!(large_log(home.path()), None);
        log.set_len(LOG_BYTES + (1 << 20)).unwrap();
        let found = large_log(home.path()).unwrap();
        assert_eq!(found.kind, FindingKind::LargeLog);
        assert!(found.evidence[0].contains(&format!("{} MiB", (LOG_BYTES >> 20) + 1)), "{found:?}");
    }

    #[test]
    fn a_prefix_of_one_host_renames_sessions_too() {
        let home = tempfile::tempdir().unwrap();
        let told = |text: &str| {
            fs::write(home.path().join("honcho.json"), text).unwrap();
            honcho(home.path()).map(|finding| finding.evidence.join("; ")).unwrap_or_default()
        };
        assert_eq!(told(r#"{"sessionPeerPrefix": false, "hosts": {"hermes": {"peerName": "ada"}}}"#), "");
        let on = told(
            r#"{"hosts": {"hermes": {"sessionPeerPrefix": true}, "other": {"sessionPeerPrefix": false}}}"#,
        );
        assert!(on.starts_with("hosts.hermes.sessionPeerPrefix is on") && !on.contains("other"), "{on}");
        assert!(told(r#"{"sessionPeerPrefix": true}"#).starts_with("sessionPeerPrefix is on"));
    }

    #[test]
    fn memory_over_its_limit_twice_or_about_lost_messages_is_reported_and_left() {
        let text = "likes tea\n§\nlikes tea\n§\nThere is a parallel self that answers on Telegram";
        let found = memory("memories/MEMORY.md", text, 40);
        assert_eq!(
            kinds(&found),
            [FindingKind::MemoryOverLimit, FindingKind::MemoryDuplicated, FindingKind::MemoryClaim]
        );
        assert!(found.iter().all(|finding| !finding.is_repairable()));
    }

    #[test]
    fn a_secret_in_a_log_is_found_and_not_shown() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("logs")).unwrap();
        let secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789";
        let text = format!("2026-05-28 INFO all is well\n2026-05-28 ERROR Authorization: Bearer {secret}\n");
        fs::write(home.path().join("logs/agent.log"), text).unwrap();
        let found = logs(home.path());
        assert_eq!(kinds(&found), [FindingKind::SecretInLog]);
        assert_eq!(found[0].evidence, ["logs/agent.log, line 2"]);
        assert!(!format!("{found:?}").contains(secret));
    }

    #[test]
    fn p31_a_secret_in_a_log_is_found_by_its_form_whatever_stands_around_it() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("logs")).unwrap();
        let lines = [
            "POST https://api.telegram.org/bot7000000001:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/getMe failed",
            "sent eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
            "asked with AIzaSyA1234567890abcdefghijklmnopqrstuv",
            "cloned with glpat-abcdefghij0123456789",
            "pulled with hf_abcdefghijklmnopqrstuvwxyz01234567",
            "connected to postgres://ada:correct-horse@db.example/agents",
        ];
        for line in lines {
            fs::write(home.path().join("logs/agent.log"), format!("INFO all is well\n{line}\n")).unwrap();
            let found = logs(home.path());
            assert_eq!(kinds(&found), [FindingKind::SecretInLog], "{line}");
            assert_eq!(found[0].evidence, ["logs/agent.log, line 2"]);
        }
        let harmless = "called +49 731 1234567 at 09:35, https://example.org/?page=2&size=10, 12 tokens used";
        fs::write(home.path().join("logs/agent.log"), harmless).unwrap();
        assert_eq!(logs(home.path()), []);
    }

    #[cfg(unix)]
    #[test]
    fn a_private_file_that_everybody_can_read_is_named() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let file = home.path().join(".env");
        fs::write(&file, "A=b\n").unwrap();
        set(&file, 0o644);
        set(home.path(), 0o700);
        assert_eq!(permissions(home.path()), None, "no other user gets there");
        set(home.path(), 0o755);
        assert_eq!(permissions(home.path()).unwrap().kind, FindingKind::UnsafePermissions);
        set(&file, 0o600);
        assert_eq!(permissions(home.path()), None);
    }
}
