//! `throughline pairing`: who asked to be let in, and who was.
//!
//! Works on Hermes' files, with or without a running gateway: it looks at them at each message.

use anyhow::{Context, bail};
use std::io::{self, Write};
use std::process::ExitCode;
use throughline_core::Time;
use throughline_hermes::pairing::{NoApproval, Person};
use throughline_platforms::Pairings;

#[derive(clap::Subcommand)]
pub enum Pairing {
    List(List),
    Approve(Approve),
    Revoke(Revoke),
    ClearPending(ClearPending),
}

/// Show who waits to be let in, and who was
#[derive(clap::Args)]
pub struct List {}

/// Let the person in who was given this code
#[derive(clap::Args)]
pub struct Approve {
    /// telegram, discord, slack …
    platform: String,
    code: String,
}

/// Take back that a person was let in
#[derive(clap::Args)]
pub struct Revoke {
    /// telegram, discord, slack …
    platform: String,
    /// The platform's id of the person, as `pairing list` shows it
    user: String,
}

/// Forget everybody who waits to be let in
#[derive(clap::Args)]
pub struct ClearPending {
    /// Everywhere, if not given
    platform: Option<String>,
}

impl Pairing {
    /// `variable` looks a name up in `.env` and the environment.
    pub fn run(
        self,
        pairings: &Pairings,
        variable: &dyn Fn(&str) -> Option<String>,
        now: Time,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        match self {
            Pairing::List(_) => list(pairings, now, out)?,
            Pairing::Approve(approve) => approve.run(pairings, now, out)?,
            Pairing::Revoke(revoke) => revoke.run(pairings, variable, out)?,
            Pairing::ClearPending(clear) => clear.run(pairings, out)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn list(pairings: &Pairings, now: Time, out: &mut dyn Write) -> io::Result<()> {
    let listings = pairings.list(now);
    let seconds = now.0 as f64 / 1e6;
    let minutes = |person: &Person| person.since.map_or(0, |since| ((seconds - since) / 60.0) as i64);
    let mut is_empty = true;
    for listing in &listings {
        for person in &listing.waiting {
            is_empty = false;
            let Person { id, name, hint, .. } = person;
            let named = if name.is_empty() { String::new() } else { format!(" ({name})") };
            writeln!(
                out,
                "{}  {id}{named}  waits since {} min, code {hint}…",
                listing.platform,
                minutes(person)
            )?;
        }
        for Person { id, name, .. } in &listing.known {
            is_empty = false;
            let named = if name.is_empty() { String::new() } else { format!(" ({name})") };
            writeln!(out, "{}  {id}{named}  was let in", listing.platform)?;
        }
    }
    match is_empty {
        true => writeln!(out, "No one waits, and no one was let in by a code."),
        false => Ok(()),
    }
}

impl Approve {
    fn run(self, pairings: &Pairings, now: Time, out: &mut dyn Write) -> anyhow::Result<()> {
        let platform = platform(&self.platform)?;
        let approved = pairings.approve(&platform, &self.code, now).with_context(unwritten)?;
        match approved {
            Ok(Person { id, name, .. }) => {
                let named = if name.is_empty() { String::new() } else { format!(" ({name})") };
                Ok(writeln!(out, "{id}{named} may write on {platform} from now on.")?)
            }
            Err(NoApproval::Unknown) => bail!(
                "no one on {platform} was given the code {}, or it is older than an hour; `throughline pairing list` \
                 shows who waits, and a person who writes again gets a new one",
                self.code
            ),
            Err(NoApproval::Closed { until }) => {
                let minutes = ((until - now.0 as f64 / 1e6) / 60.0).ceil() as i64;
                bail!("too many wrong codes: approvals on {platform} are closed for {minutes} more minutes")
            }
        }
    }
}

impl Revoke {
    fn run(
        self,
        pairings: &Pairings,
        variable: &dyn Fn(&str) -> Option<String>,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let platform = platform(&self.platform)?;
        if !pairings.revoke(&platform, &self.user).with_context(unwritten)? {
            bail!(
                "{} was not let in on {platform} by a code; `throughline pairing list` shows who was",
                self.user
            );
        }
        writeln!(out, "{} may no longer write on {platform} by a code.", self.user)?;
        // Hermes adds whom it lets in to a list that is there.
        for name in [format!("{}_ALLOWED_USERS", platform.to_uppercase()), "GATEWAY_ALLOWED_USERS".to_owned()]
        {
            let list = variable(&name).unwrap_or_default();
            if list.split(',').any(|entry| entry.trim() == self.user || entry.trim() == "*") {
                writeln!(out, "But {name} still allows it: take {} out of it, too.", self.user)?;
            }
        }
        Ok(())
    }
}

impl ClearPending {
    fn run(self, pairings: &Pairings, out: &mut dyn Write) -> anyhow::Result<()> {
        let platforms = match self.platform {
            Some(name) => vec![platform(&name)?],
            None => pairings.platforms().into_iter().collect(),
        };
        let mut forgotten = 0;
        for platform in platforms {
            forgotten += pairings.clear_pending(&platform).with_context(unwritten)?;
        }
        match forgotten {
            1 => writeln!(out, "1 request was forgotten.")?,
            many => writeln!(out, "{many} requests were forgotten.")?,
        }
        Ok(())
    }
}

/// It becomes part of a file's name.
fn platform(name: &str) -> anyhow::Result<String> {
    let name = name.trim().to_lowercase();
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match is_plain && !name.starts_with('_') {
        true => Ok(name),
        false => bail!("{name:?} is no platform; it is telegram, discord, slack …"),
    }
}

fn unwritten() -> &'static str {
    "the pairing files of the home cannot be written; nothing has changed"
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_800_000_000_000_000);

    fn run(home: &tempfile::TempDir, command: Pairing, allowed: &str) -> Result<String, String> {
        let variable = |name: &str| (name == "TELEGRAM_ALLOWED_USERS").then(|| allowed.to_owned());
        let mut out = Vec::new();
        match command.run(&Pairings::of(home.path()), &variable, NOW, &mut out) {
            Ok(_) => Ok(String::from_utf8(out).unwrap()),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    fn approve(code: &str) -> Pairing {
        Pairing::Approve(Approve { platform: "Telegram".into(), code: code.into() })
    }

    #[test]
    fn p31_somebody_is_let_in_by_a_code_and_sent_away_again() {
        let home = tempfile::tempdir().unwrap();
        let list = || run(&home, Pairing::List(List {}), "");
        assert_eq!(list().unwrap(), "No one waits, and no one was let in by a code.\n");
        let code = Pairings::of(home.path()).request("telegram", "42", "Ann", NOW).unwrap().unwrap();
        assert!(list().unwrap().starts_with("telegram  42 (Ann)  waits since 0 min, code "));
        assert!(!list().unwrap().contains(&code));
        assert!(run(&home, approve("WRONG"), "").unwrap_err().contains("no one on telegram was given"));
        assert_eq!(run(&home, approve(&code), "").unwrap(), "42 (Ann) may write on telegram from now on.\n");
        assert_eq!(list().unwrap(), "telegram  42 (Ann)  was let in\n");
        let revoke = || Pairing::Revoke(Revoke { platform: "telegram".into(), user: "42".into() });
        let told = run(&home, revoke(), "41, 42").unwrap();
        assert!(
            told.ends_with("But TELEGRAM_ALLOWED_USERS still allows it: take 42 out of it, too.\n"),
            "{told}"
        );
        assert!(run(&home, revoke(), "").is_err());
    }

    #[test]
    fn p31_five_wrong_codes_are_enough() {
        let home = tempfile::tempdir().unwrap();
        for _ in 0..5 {
            run(&home, approve("WRONG"), "").unwrap_err();
        }
        let told = run(&home, approve("WRONG"), "").unwrap_err();
        assert!(told.contains("closed for 60 more minutes"), "{told}");
    }

    #[test]
    fn those_who_wait_can_be_forgotten() {
        let home = tempfile::tempdir().unwrap();
        Pairings::of(home.path()).request("slack", "U1", "", NOW).unwrap().unwrap();
        let clear = |platform: Option<&str>| {
            Pairing::ClearPending(ClearPending { platform: platform.map(str::to_owned) })
        };
        assert!(run(&home, clear(Some("../x")), "").unwrap_err().contains("is no platform"));
        assert_eq!(run(&home, clear(Some("telegram")), "").unwrap(), "0 requests were forgotten.\n");
        assert_eq!(run(&home, clear(None), "").unwrap(), "1 request was forgotten.\n");
    }
}
