//! What must never leave: keys, tokens and passwords, wherever a log line, an error, a question or a
//! summary would carry them.
//!
//! [`redacted`] is for everything that is logged, put into an error, summarised or sent to a
//! summariser. What a tool shows to the model is treated more gently ([`Purpose`]), because there the text is
//! source code and configuration more often than not.
//!
//! - a secret is known by its form (a provider's prefix, a signed token, a key block), by its place
//!   (after `Authorization:`, in a URL), or by its name (`API_KEY=`, `"password":`)
//! - what is cut leaves [`MARK`], and what is marked is not cut again: redacting twice is redacting once
//! - the work grows with the length of the text and with nothing else
//!
//! Deliberately absent: regular expressions, and any guess at what is random. A digest, an id or a
//! number is no secret as long as nothing says so.

mod fields;
#[cfg(test)]
mod tests;
mod tokens;
mod urls;

use std::borrow::Cow;
use std::fmt;

/// A text that only code which asks for it by name can see: elsewhere it shows only its length.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "set, {} characters", self.0.chars().count())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Secret({self})")
    }
}

/// What stands where a secret stood.
pub const MARK: &str = "…";

/// Who will read the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A log, an error, a question to a person, a summary, a summariser.
    Log,
    /// The model, as the output of a command. Named values stay: `MAX_TOKENS=100` is code.
    Output,
    /// The model, as the output of a command that lists its environment.
    Environment,
    /// The model, as the content of a file. What is cut cannot be taken for a short key and written
    /// back as one.
    File,
}

impl Purpose {
    fn names_count(self) -> bool {
        matches!(self, Self::Log | Self::Environment)
    }
}

/// `text` without its secrets, for everything that is logged, summarised or sent to a summariser.
pub fn redacted(text: &str) -> String {
    redacted_for(Purpose::Log, text)
}

/// Whether a key, a token or a password stands in the text. A phone number is private, and no secret.
pub fn holds_secret(text: &str) -> bool {
    let signs = Signs { number: false, ..Signs::of(text) };
    applied(Purpose::Log, text, &signs) != text
}

/// How often a text is gone over until nothing changes. What one rule cuts can bring something before
/// another; twice has been enough so far.
const ROUNDS_MAX: usize = 6;

/// `text` without its secrets, as its reader needs it.
pub fn redacted_for(purpose: Purpose, text: &str) -> String {
    let mut text = Cow::Borrowed(text);
    for _ in 0..ROUNDS_MAX {
        match round(purpose, &text) {
            Cow::Owned(next) if next != *text => text = Cow::Owned(next),
            _ => break,
        }
    }
    text.into_owned()
}

fn round(purpose: Purpose, text: &str) -> Cow<'_, str> {
    applied(purpose, text, &Signs::of(text))
}

/// Every rule of which there is a sign. What a rule leaves may bear signs that were not there before; then the text
/// has changed, and is gone over again.
fn applied<'a>(purpose: Purpose, text: &'a str, signs: &Signs) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    let mut apply = |is_due: bool, rule: &dyn Fn(&str) -> Cow<'_, str>| {
        if is_due && let Cow::Owned(without) = rule(&text) {
            text = Cow::Owned(without);
        }
    };
    apply(signs.block, &tokens::without_key_blocks);
    apply(signs.key, &|text| tokens::without_tokens(text, purpose));
    apply(signs.header, &fields::without_headers);
    if purpose.names_count() {
        apply(signs.value, &fields::without_assignments);
        apply(signs.setting, &fields::without_quoted_fields);
        apply(signs.setting, &fields::without_settings);
    }
    apply(signs.user, &|text| urls::without_credentials(text, purpose));
    if purpose == Purpose::Log {
        apply(signs.parameter, &urls::without_parameters);
        apply(signs.number, &tokens::without_phone_numbers);
    }
    apply(signs.pair, &urls::without_form_fields);
    text
}

/// What a text has in it that a secret could not do without, found in one look: most texts have nothing, and a long
/// past is mostly texts.
struct Signs {
    /// Five dashes in a row.
    block: bool,
    /// A run of key's bytes as long as the shortest key.
    key: bool,
    /// Part of a header's name.
    header: bool,
    /// What gives a name its value, in a shell, and in a file of settings.
    value: bool,
    setting: bool,
    /// What divides a user from a host.
    user: bool,
    /// What begins a parameter, and what gives it its value.
    parameter: bool,
    number: bool,
    /// What divides the fields of a form.
    pair: bool,
}

impl Signs {
    #[cfg(test)]
    const EVERY: Self = Self {
        block: true,
        key: true,
        header: true,
        value: true,
        setting: true,
        user: true,
        parameter: true,
        number: true,
        pair: true,
    };

    fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let has = |byte: u8| bytes.contains(&byte);
        let value = has(b'=');
        let divided = value && (has(b'&') || has(b'?') || has(b'#') || has(b';'));
        Self {
            block: has(b'-') && text.contains("-----"),
            key: tokens::long_runs(bytes).next().is_some(),
            header: fields::may_name_header(bytes),
            value,
            setting: has(b':'),
            user: has(b'@'),
            parameter: divided,
            number: has(b'+'),
            pair: divided,
        }
    }
}

/// Whether a command prints environment variables: its output is for [`Purpose::Environment`].
pub fn lists_environment(command: &str) -> bool {
    command.split(['|', ';', '&']).any(|part| {
        let first = part.split_whitespace().next().unwrap_or_default();
        let first = first.trim_matches(['"', '\'']);
        matches!(first, "env" | "printenv" | "set" | "export" | "declare")
    })
}

/// A text that is copied piece by piece, some pieces replaced.
struct Rewriting<'a> {
    text: &'a str,
    out: String,
    copied: usize,
    /// Up to here a rule has looked and let it stand.
    seen: usize,
}

impl<'a> Rewriting<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, out: String::new(), copied: 0, seen: 0 }
    }

    /// Pieces are replaced from left to right; one that begins in a replaced one is passed over.
    fn replace(&mut self, from: usize, to: usize, with: &str) {
        if from < self.copied {
            return;
        }
        self.out.push_str(&self.text[self.copied..from]);
        self.out.push_str(with);
        self.copied = to;
    }

    /// Leaves what ends here as it is. Beginnings within it need no look: that each looks at all that
    /// follows is how work comes to grow with the square of a text.
    fn keep(&mut self, to: usize) {
        self.seen = self.seen.max(to);
    }

    fn is_past(&self, at: usize) -> bool {
        at < self.copied.max(self.seen)
    }

    fn done(mut self) -> Cow<'a, str> {
        if self.copied == 0 {
            return Cow::Borrowed(self.text); // nothing was replaced: no piece is empty
        }
        self.out.push_str(&self.text[self.copied..]);
        Cow::Owned(self.out)
    }
}

/// The position after the run of bytes that `belongs`, all of which are ASCII or parts of letters.
fn run_end(text: &str, from: usize, belongs: impl Fn(u8) -> bool) -> usize {
    let bytes = &text.as_bytes()[from..];
    from + bytes.iter().position(|byte| !belongs(*byte)).unwrap_or(bytes.len())
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Whether nothing but a mark is left of it.
fn is_marked(value: &str) -> bool {
    let label = value.strip_prefix("«redacted:").and_then(|rest| rest.strip_suffix('»')).unwrap_or(value);
    value == MARK || label.strip_suffix(MARK).is_some_and(tokens::is_prefix)
}

/// A value that says where a secret is kept instead of being one.
fn is_reference(value: &str) -> bool {
    let lookups = ["os.getenv", "os.environ", "process.env", "$ENV{", "$(", "env::var"];
    let name = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let inner = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.or_else(|| value.strip_prefix('$'));
    lookups.iter().any(|lookup| value.starts_with(lookup)) || inner.is_some_and(name)
}
