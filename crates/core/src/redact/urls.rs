//! Secrets in addresses: `user:password@`, a bare token before `@`, and parameters that carry one.

use super::{MARK, Purpose, Rewriting, is_marked, is_reference, run_end};
use std::borrow::Cow;

/// Databases and brokers: what stands before `@` there is never meant to be followed.
const STORES: [&str; 8] =
    ["postgres", "postgresql", "mysql", "mongodb", "mongodb+srv", "redis", "rediss", "amqp"];

/// Names like `git` or `deploy` are shorter than a token.
const TOKEN_LENGTH_MIN: usize = 8;
/// No password is longer; nothing further off is looked at.
const USERINFO_LENGTH_MAX: usize = 512;
const PARAMETER_LENGTH_MAX: usize = 64;

const PARAMETERS: [&str; 17] = [
    "access_token",
    "refresh_token",
    "id_token",
    "token",
    "api_key",
    "apikey",
    "client_secret",
    "password",
    "auth",
    "jwt",
    "session",
    "secret",
    "key",
    "code",
    "signature",
    "x_amz_signature",
    "sig",
];
const FORM_FIELDS: [&str; 14] = [
    "access_token",
    "refresh_token",
    "id_token",
    "token",
    "api_key",
    "apikey",
    "client_secret",
    "password",
    "auth",
    "jwt",
    "secret",
    "key",
    "code",
    "signature",
];

/// What a reader of ordinary output may need, a callback or a link that was sent for following, stays
/// for [`Purpose::Output`] and its kin: there only stores and bare tokens are cut.
pub fn without_credentials(text: &str, purpose: Purpose) -> Cow<'_, str> {
    let mut rewriting = Rewriting::of(text);
    for (at, separator) in text.match_indices("://") {
        let start = at + separator.len();
        let is_store = is_store(&text[..at]);
        let Some(end) = userinfo_end(text, start, is_store) else { continue };
        let info = &text[start..end];
        let is_kept = |secret: &str| secret.is_empty() || is_marked(secret) || is_template(secret);
        match info.split_once(':') {
            Some((user, password)) if (is_store || purpose == Purpose::Log) && !is_kept(password) => {
                rewriting.replace(start + user.len() + 1, end, MARK);
            }
            None if info.len() >= TOKEN_LENGTH_MIN && !is_kept(info) => rewriting.replace(start, end, MARK),
            _ => {}
        }
    }
    rewriting.done()
}

/// A place for a secret: `{password}`, `$PASSWORD`, `<token>`.
fn is_template(text: &str) -> bool {
    let is_enclosed = |open, close| text.starts_with(open) && text.ends_with(close);
    is_enclosed('{', '}') || is_enclosed('<', '>') || is_reference(text)
}

fn is_store(before: &str) -> bool {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-');
    let length = before.as_bytes().iter().rev().take(16).take_while(is_part).count();
    STORES.contains(&before[before.len() - length..].to_ascii_lowercase().as_str())
}

/// Where the `@` of an address stands. A store's password may hold a slash.
fn userinfo_end(text: &str, start: usize, is_store: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let window = &bytes[start..bytes.len().min(start + USERINFO_LENGTH_MAX)];
    let is_end = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>');
    let word = window.iter().position(|byte| is_end(*byte)).unwrap_or(window.len());
    let authority = window[..word].iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(word);
    let last = window[..authority].iter().rposition(|byte| *byte == b'@');
    let last =
        last.or_else(|| is_store.then(|| window[..word].iter().position(|byte| *byte == b'@')).flatten());
    last.filter(|at| *at > 0).map(|at| start + at)
}

/// `?token=…`, `&code=…`, also in fragments and in addresses without a scheme.
pub fn without_parameters(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut rewriting = Rewriting::of(text);
    let signs =
        bytes.iter().copied().enumerate().filter(|(_, byte)| matches!(byte, b'?' | b'#' | b'&' | b';'));
    for (at, sign) in signs {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.~+%-".contains(&byte);
        let equals = run_end(text, at + 1, is_part);
        if rewriting.is_past(at) || bytes.get(equals) != Some(&b'=') || equals - at > PARAMETER_LENGTH_MAX {
            continue;
        }
        let name = parameter_name(&text[at + 1..equals]);
        let is_secret = PARAMETERS.contains(&name.as_str());
        // A semicolon divides statements more often than parameters.
        let is_plain_word =
            sign == b';' && matches!(name.as_str(), "key" | "code" | "session" | "auth" | "sig");
        if !is_secret || is_plain_word {
            continue;
        }
        let is_end = |byte: u8| byte.is_ascii_whitespace() || b"#&;\"'<>".contains(&byte);
        let end = run_end(text, equals + 1, |byte| !is_end(byte));
        let value = &text[equals + 1..end];
        if !value.is_empty() && !is_marked(value) {
            rewriting.replace(equals + 1, end, MARK);
        }
    }
    rewriting.done()
}

/// A name as a server would read it, however often it was encoded.
fn parameter_name(written: &str) -> String {
    let mut name = written.to_owned();
    for _ in 0..3 {
        let decoded = decoded(&name);
        if decoded == name {
            break;
        }
        name = decoded;
    }
    name.to_lowercase().replace('-', "_")
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(if bytes[at] == b'+' { b' ' } else { bytes[at] });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A text that is nothing but a submitted form.
pub fn without_form_fields(text: &str) -> Cow<'_, str> {
    let form = text.trim();
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    };
    let is_pair = |pair: &str| pair.split_once('=').is_some_and(|(name, _)| is_name(name));
    if !form.contains('&') || form.contains(char::is_whitespace) || !form.split('&').all(is_pair) {
        return Cow::Borrowed(text);
    }
    let begin = text.len() - text.trim_start().len();
    let mut rewriting = Rewriting::of(text);
    let mut at = begin;
    for pair in form.split('&') {
        if let Some((name, value)) = pair.split_once('=')
            && FORM_FIELDS.contains(&name.to_ascii_lowercase().as_str())
            && !value.is_empty()
            && !is_marked(value)
        {
            rewriting.replace(at + name.len() + 1, at + pair.len(), MARK);
        }
        at += pair.len() + 1;
    }
    rewriting.done()
}
