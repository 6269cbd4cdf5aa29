//! `throughline config`: what is configured, and by what.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_app::equip::plugins;
use throughline_hermes::config::support::{self, Set};
use throughline_home::config::{Environment, Overrides, Report, Row, Written, becomes, in_a_line};
use throughline_home::home::{self, Home};

/// Settings that a gateway would not start with.
const WITH_ERRORS: u8 = 2;

#[derive(clap::Subcommand)]
pub enum Config {
    Check(Check),
}

/// Print every effective value and where it came from, and what becomes of each key that is set
#[derive(clap::Args)]
pub struct Check {
    /// Also every other key of Hermes', and what becomes of it
    #[arg(long)]
    all: bool,
}

impl Config {
    pub fn run(
        self,
        homes: &[PathBuf],
        environment: &Environment,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        match self {
            Config::Check(check) => check.run(homes, environment, out),
        }
    }
}

impl Check {
    /// Looks only: nothing is created, nothing is locked.
    pub fn run(
        self,
        homes: &[PathBuf],
        environment: &Environment,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let homes = home::choose(homes, &|name| environment.get(name))?;
        homes.iter().try_for_each(Home::refuse_absent)?;
        let mut is_good = true;
        for (nth, home) in homes.iter().enumerate() {
            if nth > 0 {
                writeln!(out)?;
            }
            let (mut report, keys) = match Written::read(home, environment, Overrides::default())? {
                Ok(written) => (written.report(), written.set_keys()),
                Err(report) => (report, Vec::new()),
            };
            let (rows, off) = match &report.settings {
                Some(settings) => plugins::configured(home, settings),
                None => Default::default(),
            };
            report.rows.extend(rows.into_iter().map(|[name, value, origin]| Row { name, value, origin }));
            print_values(&report, out)?;
            for words in off {
                writeln!(out, "off: {words}")?;
            }
            print_keys(&keys, out)?;
            if let Some(line) = report.settings.as_ref().and_then(|settings| in_a_line(&settings.not_carried))
            {
                writeln!(out, "\nnot carried: {line}")?;
            }
            if self.all && nth + 1 == homes.len() {
                writeln!(out, "\nWhat becomes of every key of Hermes:")?;
                for key in support::table() {
                    writeln!(out, "{}  {}", key.path, becomes(key))?;
                }
            }
            print_remarks(&report, out)?;
            note(home, environment, out)?;
            is_good &= report.errors.is_empty();
        }
        Ok(match is_good {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(WITH_ERRORS),
        })
    }
}

fn print_values(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let width = |cell: fn(&throughline_home::config::Row) -> &str| {
        report.rows.iter().map(|row| cell(row).chars().count()).max().unwrap_or_default()
    };
    let (names, values) = (width(|row| &row.name), width(|row| &row.value));
    for row in &report.rows {
        writeln!(out, "{:names$}  {:values$}  {}", row.name, row.value, row.origin)?;
    }
    Ok(())
}

fn print_remarks(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for (kind, remarks) in [("warning", &report.warnings), ("error", &report.errors)] {
        if !remarks.is_empty() && !report.rows.is_empty() {
            writeln!(out)?;
        }
        for remark in remarks {
            writeln!(out, "{kind}: {remark}")?;
        }
    }
    Ok(())
}

/// What becomes of the keys that say something else than Hermes' default, and of those that are not simply honoured.
fn print_keys(keys: &[Set], out: &mut dyn Write) -> io::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let width = keys.iter().map(|set| set.path.chars().count()).max().unwrap_or_default();
    writeln!(out, "\nWhat becomes of what config.yaml sets:")?;
    for set in keys {
        writeln!(out, "{:width$}  line {}: {}", set.path, set.place.line, becomes(set.key))?;
    }
    Ok(())
}

fn note(home: &Home, environment: &Environment, out: &mut dyn Write) -> io::Result<()> {
    if let Some(hermes) = home::hermes_beside(home, &|name| environment.get(name)) {
        let hermes = hermes.display();
        writeln!(out, "\nnote: {hermes} is there as well; use it with `--home {hermes}` or $HERMES_HOME")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
