//! Which bank of the server a scope belongs to, and who else is in it.

use crate::person_name;
use std::borrow::Cow;
use throughline_core::memory::Scope;

/// What Hermes calls the workspace of all its agents.
const WORKSPACE: &str = "hermes";
/// What the server accepts, in bytes.
pub(super) const LENGTH_MAX: usize = 192;

/// The bank as the user configures it: a name, or a template that gives one for each scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bank {
    name: String,
    template: Option<Vec<TemplatePiece>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePiece {
    Text(String),
    Field(TemplateField),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TemplateField {
    Profile,
    Workspace,
    Platform,
    User,
    Session,
}

/// Whether what lies in a bank may be another person's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BankSharing {
    /// The template gives each user a bank.
    Own,
    Shared,
}

impl Bank {
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), template: None }
    }

    /// `name` is used where the template gives nothing. The error says what is wrong with the template.
    pub fn templated(name: &str, template: &str) -> Result<Self, String> {
        Ok(Self { name: name.to_owned(), template: Some(pieces(template)?) })
    }

    pub fn of(&self, scope: &Scope) -> String {
        let Some(pieces) = &self.template else { return self.name.clone() };
        let rendered: String = pieces
            .iter()
            .map(|piece| match piece {
                TemplatePiece::Text(text) => text.clone(),
                TemplatePiece::Field(field) => sanitised(&field.of(scope)),
            })
            .collect();
        let collapsed = collapsed(&collapsed(&rendered, '-'), '_');
        let bank = collapsed.trim_matches(['-', '_']);
        match is_usable(bank) {
            true => bank.to_owned(),
            false => self.name.clone(),
        }
    }

    /// A template separates users whose id survives it unchanged: letters and digits, as all chat platforms
    /// give them. Others (`bob@example.com`) may meet someone who is spelled alike.
    pub fn sharing(&self, scope: &Scope) -> BankSharing {
        let by_user = self
            .template
            .as_ref()
            .is_some_and(|pieces| pieces.contains(&TemplatePiece::Field(TemplateField::User)));
        let user = person_name::of(scope).unwrap_or_default();
        match by_user && !user.is_empty() && user.chars().all(char::is_alphanumeric) {
            true => BankSharing::Own,
            false => BankSharing::Shared,
        }
    }
}

/// A name that can stand in a path: the server takes any other.
pub(super) fn is_usable(bank: &str) -> bool {
    !matches!(bank, "" | "." | "..")
}

impl TemplateField {
    fn of(self, scope: &Scope) -> Cow<'_, str> {
        match self {
            Self::Profile => Cow::Borrowed(&scope.agent),
            Self::Workspace => Cow::Borrowed(WORKSPACE),
            Self::Platform => Cow::Borrowed(&scope.platform),
            Self::User => Cow::Owned(person_name::of(scope).unwrap_or_default()),
            Self::Session => Cow::Borrowed(scope.session.as_str()),
        }
    }
}

/// Reads a template as Python's `str.format` does, as far as plain names go.
fn pieces(template: &str) -> Result<Vec<TemplatePiece>, String> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let (brace, after) = rest[at..].split_at(1);
        if let Some(after) = after.strip_prefix(brace) {
            text.push_str(brace); // doubled: meant as it is
            rest = after;
            continue;
        }
        let Some((name, after)) = after.split_once('}').filter(|_| brace == "{") else {
            return Err("it has a brace without its partner".to_owned());
        };
        let field = match name {
            "profile" => TemplateField::Profile,
            "workspace" => TemplateField::Workspace,
            "platform" => TemplateField::Platform,
            "user" => TemplateField::User,
            "session" => TemplateField::Session,
            _ => return Err(format!("{{{name}}} is not known there")),
        };
        if !text.is_empty() {
            pieces.push(TemplatePiece::Text(std::mem::take(&mut text)));
        }
        pieces.push(TemplatePiece::Field(field));
        rest = after;
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(TemplatePiece::Text(text));
    }
    Ok(pieces)
}

/// Letters, digits, `-` and `_`; each run of anything else is one `-`; none at the ends.
fn sanitised(value: &str) -> String {
    let mut out = String::new();
    let mut replaced = false;
    for character in value.chars() {
        match character.is_alphanumeric() || matches!(character, '-' | '_') {
            true => out.push(character),
            false if !replaced => out.push('-'),
            false => {}
        }
        replaced = !(character.is_alphanumeric() || matches!(character, '-' | '_'));
    }
    out.trim_matches(['-', '_']).to_owned()
}

fn collapsed(text: &str, run: char) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if !(character == run && out.ends_with(run)) {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod linear {
    //! The name of a person, and what a user wrote, is foreign text: each function of it is linear.

    use super::*;
    use throughline_complexity::assert_linear;

    #[test]
    fn p31_text_functions_are_linear() {
        assert_linear(&[
            ("hindsight::bank::pieces", |text| _ = pieces(text).is_ok()),
            ("hindsight::bank::sanitised", |text| _ = sanitised(text)),
            ("hindsight::bank::collapsed", |text| _ = collapsed(text, '-')),
        ]);
    }
}
