//! What came of reading the settings: a table, and what should be said about it.

use super::{CONFIG_FILE, ENV_FILE, KEY_FILE, Origin, Settings, Sourced};
use std::fmt;
use std::path::Path;

const FILES: [&str; 3] = [CONFIG_FILE, ENV_FILE, KEY_FILE];

#[derive(Debug, Default)]
pub struct Report {
    pub rows: Vec<Row>,
    pub warnings: Vec<Remark>,
    pub errors: Vec<Remark>,
    /// There are settings if and only if there are no errors.
    pub settings: Option<Settings>,
}

/// One effective value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub name: String,
    /// As it may be shown: of a secret, its length.
    pub value: String,
    pub origin: String,
}

/// A warning or an error, and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The file, in full, with line and column as far as they are known; or where else it was said.
    pub place: Option<String>,
    pub text: String,
    /// The line itself, with a caret below it.
    pub excerpt: Option<String>,
}

impl Remark {
    pub(super) fn new(origin: &Origin, text: impl Into<String>) -> Self {
        let place = match origin {
            Origin::Default | Origin::Because(_) => None,
            origin => Some(origin.to_string()),
        };
        Self { place, text: text.into(), excerpt: None }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(formatter, "{place}: ")?;
        }
        formatter.write_str(&self.text)?;
        match &self.excerpt {
            Some(excerpt) => write!(formatter, "\n{excerpt}"),
            None => Ok(()),
        }
    }
}

impl Report {
    /// Nothing could be read at all.
    pub(super) fn refusal(error: Remark) -> Self {
        Self { errors: vec![error], ..Self::default() }
    }

    pub(super) fn row(&mut self, name: &str, value: impl fmt::Display, origin: &Origin) {
        self.rows.push(Row { name: name.to_owned(), value: value.to_string(), origin: origin.to_string() });
    }

    pub(super) fn sourced<T: fmt::Display>(&mut self, name: &str, value: &Sourced<T>) {
        self.row(name, &value.value, &value.origin);
    }

    pub(super) fn warn(&mut self, origin: &Origin, text: impl Into<String>) {
        self.warnings.push(Remark::new(origin, text));
    }

    pub(super) fn refuse(&mut self, origin: &Origin, text: impl Into<String>) {
        self.errors.push(Remark::new(origin, text));
    }

    /// Files are named by their place in a home; from here on, in full.
    pub(super) fn locate(mut self, home: &Path) -> Self {
        for remark in self.warnings.iter_mut().chain(&mut self.errors) {
            let place = remark.place.take();
            remark.place = place.map(|place| match FILES.iter().any(|file| place.starts_with(file)) {
                true => home.join(place).display().to_string(),
                false => place,
            });
        }
        self
    }

    /// The settings, or every error in one.
    pub fn into_settings(self) -> anyhow::Result<(Settings, Vec<Remark>)> {
        match self.settings {
            Some(settings) => Ok((settings, self.warnings)),
            None => {
                let errors: Vec<_> = self.errors.iter().map(ToString::to_string).collect();
                Err(anyhow::anyhow!("{}", errors.join("\n")))
            }
        }
    }
}
