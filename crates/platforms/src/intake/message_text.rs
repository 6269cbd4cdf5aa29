//! What the model reads of a message, and what people are told at the door.
//!
//! The marks (`[Replying to: …]`, `[name] …`) are Hermes': transcripts of both look alike. What a person
//! chose for a name is made one line here.

use super::reach;
use super::received_files::ReceivedFile;
use crate::incoming::Incoming;
use throughline_core::tool::Verdict;

/// As much of a quoted message is shown.
const QUOTED_CHARS_MAX: usize = 500;
const NAME_CHARS_MAX: usize = 240;

pub(super) const TOO_MANY_CODES: &str =
    "I do not know you yet, and too many people are waiting to be let in. Please try again later.";

pub(super) fn pairing(platform: &str, code: &str) -> String {
    format!(
        "I do not know you yet. Your pairing code is `{code}`, for one hour.\n\n\
         Whoever runs me can let you in with:\n`throughline pairing approve {platform} {code}`"
    )
}

pub(super) fn no_such_right(command: &str) -> String {
    format!("You may not use /{command} here. /help and /whoami are always there.")
}

pub(super) fn nobody_there(profile: &str) -> String {
    format!(
        "This is for the agent {profile}, which does not run here now, and nobody else may answer it. Your message was \
         not kept: write again once it runs. Whoever runs me finds more in the log."
    )
}

pub(super) fn decided(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Granted(grant) => reach(*grant).to_owned(),
        Verdict::Denied { .. } => "Refused.".to_owned(),
        Verdict::Said(said) => format!("Answered: {}", head(said, 80)),
        Verdict::Expired | Verdict::Unattended => "Too late.".to_owned(),
    }
}

/// The name of the order, if it is one.
pub(super) fn command(incoming: &Incoming) -> Option<&str> {
    let rest = incoming.text.trim_start().strip_prefix('/')?;
    let name = rest.split(|c: char| c.is_whitespace() || c == '@').next()?;
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    is_name.then_some(name)
}

/// The words of a message with all that came along.
pub(super) fn shaped(incoming: &Incoming, is_shared: bool, files: &[ReceivedFile]) -> String {
    let mut text = incoming.text.clone();
    if incoming.edited {
        text = format!("[Edited] {text}");
    }
    if let (true, Some(name)) = (is_shared, incoming.source.user_name.as_deref()) {
        text = format!("[{}] {text}", one_line(name));
    }
    if let Some(context) = &incoming.context {
        text = format!("{context}\n\n[New message]\n{text}");
    }
    for file in files {
        text = match text.is_empty() {
            true => file.note.clone(),
            false => format!("{}\n\n{text}", file.note),
        };
    }
    let quoted = incoming.quoted.as_ref().and_then(|quoted| Some((quoted, quoted.text.as_deref()?)));
    if let Some((quoted, said)) = quoted.filter(|(_, said)| !said.is_empty()) {
        let said = head(said, QUOTED_CHARS_MAX);
        text = match quoted.ours {
            true => format!("[Replying to your previous message: \"{said}\"]\n\n{text}"),
            false => format!("[Replying to: \"{said}\"]\n\n{text}"),
        };
    }
    text
}

/// A name must not look like anything but a name.
fn one_line(name: &str) -> String {
    let spaced: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = spaced.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.chars().count() > NAME_CHARS_MAX {
        true => format!("{}...", head(&line, NAME_CHARS_MAX - 3)),
        false => line,
    }
}

fn head(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}
