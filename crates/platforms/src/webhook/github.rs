//! A comment on a pull request, through GitHub's own command line, which has the user's login.

use crate::SendError;
use std::fmt;
use std::path::Path;
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;
use throughline_core::redact::redacted;
use throughline_net::excerpt;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

const PREFIX: &str = "github_comment:";
const PATIENCE: Duration = Duration::from_secs(30);

/// One pull request. Parsed, so that nothing in it can be an option of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PullRequest {
    repository: String,
    number: u64,
}

impl PullRequest {
    pub fn new(repository: Option<&str>, number: Option<&str>) -> Result<Self, String> {
        let (Some(repository), Some(number)) = (repository, number) else {
            return Err("deliver_extra names no repo and pr_number".to_owned());
        };
        let fits = |part: &str| {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
            !part.is_empty() && !part.starts_with('-') && part.chars().all(plain)
        };
        let named = repository.split_once('/').is_some_and(|(owner, name)| fits(owner) && fits(name));
        match (named, number.parse::<u64>()) {
            (true, Ok(number)) if number > 0 => Ok(Self { repository: repository.to_owned(), number }),
            (true, _) => Err("pr_number is not the number of a pull request".to_owned()),
            (false, _) => Err("repo is not of the form owner/name".to_owned()),
        }
    }

    pub async fn comment(&self, program: &Path, text: &str) -> Result<(), SendError> {
        let place = format!("{}#{}", self.repository, self.number);
        let mut command = Command::new(program);
        command
            .args(["pr", "comment", &self.number.to_string(), "--repo", &self.repository, "--body-file", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| SendError::Never {
            message: format!("the comment on {place} cannot be written: gh does not start ({error}). Install the GitHub CLI and log in with gh auth login"),
        })?;
        let mut stdin = child.stdin.take();
        let running = async {
            if let Some(stdin) = &mut stdin {
                let _ = stdin.write_all(text.as_bytes()).await;
            }
            drop(stdin.take());
            child.wait_with_output().await
        };
        let unknown =
            |words: String| SendError::Unknown { message: format!("the comment on {place}: {words}") };
        match timeout(PATIENCE, running).await {
            Err(_) => Err(unknown("gh did not end in time".to_owned())),
            Ok(Err(error)) => Err(unknown(format!("gh broke off ({error})"))),
            Ok(Ok(output)) if output.status.success() => Ok(()),
            Ok(Ok(output)) => {
                let said = excerpt(&redacted(&String::from_utf8_lossy(&output.stderr)));
                Err(self.judged(&said))
            }
        }
    }

    /// What gh says when it fails, by what can be done about it.
    fn judged(&self, said: &str) -> SendError {
        let place = format!("{}#{}", self.repository, self.number);
        let lower = said.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let message = format!("gh refused the comment on {place}: {said}");
        match () {
            () if has(&["rate limit", "http 429", "secondary rate"]) => {
                SendError::Later { after: Some(Duration::from_secs(60)), message }
            }
            () if has(&["error connecting", "no such host", "connection refused"]) => {
                SendError::Later { after: None, message }
            }
            () if has(&["http 5", "timeout", "timed out", "reset"]) => SendError::Unknown { message },
            () => SendError::Never { message },
        }
    }
}

impl fmt::Display for PullRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}#{}", self.repository, self.number)
    }
}

impl FromStr for PullRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix(PREFIX).ok_or("it is no pull request")?;
        let (repository, number) = rest.rsplit_once('#').ok_or("it has no number")?;
        Self::new(Some(repository), Some(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_pull_request_and_never_an_option() {
        let target = PullRequest::new(Some("owner/name.rs"), Some("7")).unwrap();
        assert_eq!(target.to_string().parse(), Ok(target));
        for (repository, number) in [
            (Some("owner"), Some("7")),
            (Some("--repo/x"), Some("7")),
            (Some("a/b/c"), Some("7")),
            (Some("a/b c"), Some("7")),
            (Some("a/b"), Some("0")),
            (Some("a/b"), Some("-1")),
            (Some("a/b"), Some("{number}")),
            (Some("a/b"), None),
            (None, Some("7")),
        ] {
            assert!(PullRequest::new(repository, number).is_err(), "{repository:?} {number:?}");
        }
        assert!("webhook:ci:1".parse::<PullRequest>().is_err());
    }

    #[test]
    fn what_gh_says_is_told_apart() {
        let target = PullRequest::new(Some("a/b"), Some("1")).unwrap();
        assert!(matches!(target.judged("HTTP 502: Bad Gateway"), SendError::Unknown { .. }));
        assert!(matches!(target.judged("API rate limit exceeded"), SendError::Later { .. }));
        assert!(matches!(
            target.judged("GraphQL: Could not resolve to a PullRequest"),
            SendError::Never { .. }
        ));
    }
}
