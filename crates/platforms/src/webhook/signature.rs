//! Whether a delivery comes from a sender that has the secret. Pure.
//!
//! Which scheme it is follows from the headers, and a scheme that is named is binding: a request that
//! carries half of a stronger signature is not judged by a weaker one. Comparisons take the same time
//! with any input.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use http::HeaderMap;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use throughline_core::redact::Secret;

/// How far the sender's clock, and the mail in between, may be off, in seconds.
pub const TOLERANCE: i64 = 300;
const SVIX_PREFIX: &str = "whsec_";

/// How a delivery was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    GitHub,
    GitLab,
    Svix,
    /// Over timestamp and body.
    Generic,
    /// Over the body alone: a third party that saw it once can send it again.
    Bare,
}

/// The scheme by which `body` is signed, if it is signed as it must be. `now` in Unix seconds.
pub fn verified(headers: &HeaderMap, body: &[u8], secret: &Secret, now: i64) -> Option<Scheme> {
    let header = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Some(value).filter(|value| !value.is_empty())
    };
    // A header that is there but unreadable is a signature that is wrong, not one that is absent.
    let named = |name: &str| headers.get(name).is_some_and(|value| !value.is_empty());
    let secret = secret.expose();
    if secret.is_empty() {
        return None;
    }
    if named("svix-id") || named("svix-timestamp") || named("svix-signature") {
        let (id, sent, signatures) =
            (header("svix-id")?, header("svix-timestamp")?, header("svix-signature")?);
        return is_svix(&Svix { id, sent, signatures }, body, secret, now).then_some(Scheme::Svix);
    }
    if named("x-hub-signature-256") {
        let signature = header("x-hub-signature-256")?.strip_prefix("sha256=")?;
        return is_hex_of(signature, secret.as_bytes(), &[body]).then_some(Scheme::GitHub);
    }
    if named("x-gitlab-token") {
        let token = headers.get("x-gitlab-token")?.as_bytes();
        return is_equal(token, secret.as_bytes()).then_some(Scheme::GitLab);
    }
    if named("x-webhook-signature-v2") {
        let (signature, sent) = (header("x-webhook-signature-v2")?, header("x-webhook-timestamp")?);
        let fresh = is_fresh(sent, now);
        let right = is_hex_of(signature, secret.as_bytes(), &[sent.as_bytes(), b".", body]);
        return (fresh && right).then_some(Scheme::Generic);
    }
    let signature = header("x-webhook-signature")?;
    is_hex_of(signature, secret.as_bytes(), &[body]).then_some(Scheme::Bare)
}

struct Svix<'a> {
    id: &'a str,
    sent: &'a str,
    signatures: &'a str,
}

fn is_svix(headers: &Svix<'_>, body: &[u8], secret: &str, now: i64) -> bool {
    let key = match secret.strip_prefix(SVIX_PREFIX) {
        Some(encoded) => match STANDARD.decode(encoded) {
            Ok(key) => key,
            Err(_) => return false,
        },
        // Some senders speak like Svix and hand out a plain secret.
        None => secret.as_bytes().to_vec(),
    };
    let signed = [headers.id.as_bytes(), b".", headers.sent.as_bytes(), b".", body];
    // While a secret is being replaced there are several signatures.
    let candidates = headers.signatures.split_whitespace().filter_map(|part| part.strip_prefix("v1,"));
    let right = candidates.fold(false, |right, candidate| {
        let bytes = STANDARD.decode(candidate).unwrap_or_default();
        is_mac_of(&bytes, &key, &signed) | right
    });
    right && is_fresh(headers.sent, now)
}

fn is_fresh(sent: &str, now: i64) -> bool {
    sent.parse::<i64>().is_ok_and(|sent| now.abs_diff(sent) <= TOLERANCE.unsigned_abs())
}

fn is_hex_of(signature: &str, key: &[u8], signed: &[&[u8]]) -> bool {
    let bytes = unhex(signature).unwrap_or_default();
    is_mac_of(&bytes, key, signed)
}

fn is_mac_of(signature: &[u8], key: &[u8], signed: &[&[u8]]) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    signed.iter().for_each(|piece| mac.update(piece));
    mac.verify_slice(signature).is_ok()
}

/// Equal, without telling by the time it takes where the first difference is.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn check(pairs: &[(&str, &str)], body: &str, secret: &str, now: i64) -> Option<Scheme> {
        verified(&headers(pairs), body.as_bytes(), &Secret::new(secret), now)
    }

    /// From GitHub's documentation, "Testing the webhook payload validation".
    const GITHUB: (&str, &str, &str) = (
        "It's a Secret to Everybody",
        "Hello, World!",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    );
    /// From Svix' documentation, "How to verify webhooks".
    const SVIX: (&str, &str, &str, &str) = (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "{\"test\": 2432232314}",
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    );
    const SVIX_TIME: i64 = 1_614_265_330;

    #[test]
    fn the_published_examples_are_accepted() {
        let (secret, body, signature) = GITHUB;
        assert_eq!(check(&[("x-hub-signature-256", signature)], body, secret, 0), Some(Scheme::GitHub));
        let (secret, id, body, signature) = SVIX;
        let rotated = format!("v1,AAAA {signature}");
        for signature in [signature, rotated.as_str()] {
            let headers = [("svix-id", id), ("svix-timestamp", "1614265330"), ("svix-signature", signature)];
            assert_eq!(check(&headers, body, secret, SVIX_TIME + 299), Some(Scheme::Svix));
            assert_eq!(check(&headers, body, secret, SVIX_TIME + 301), None, "too old");
            assert_eq!(check(&headers, body, secret, SVIX_TIME - 301), None, "from the future");
        }
        assert_eq!(check(&[("x-gitlab-token", "tanuki")], "{}", "tanuki", 0), Some(Scheme::GitLab));
    }

    #[test]
    fn a_weaker_signature_does_not_stand_in_for_a_stronger_one() {
        let (secret, body, signature) = GITHUB;
        let bare = signature.trim_start_matches("sha256=");
        assert_eq!(check(&[("x-webhook-signature", bare)], body, secret, 0), Some(Scheme::Bare));
        for stronger in [
            ("x-webhook-signature-v2", "00"),
            ("x-hub-signature-256", "sha256=00"),
            ("x-hub-signature-256", bare),
            ("x-gitlab-token", "wrong"),
            ("svix-id", "msg_1"),
            ("svix-signature", "v1,AAAA"),
        ] {
            assert_eq!(
                check(&[("x-webhook-signature", bare), stronger], body, secret, 0),
                None,
                "{stronger:?}"
            );
        }
        assert_eq!(check(&[], body, secret, 0), None);
        assert_eq!(check(&[("x-gitlab-token", "")], body, "", 0), None, "no secret opens nothing");
        assert_eq!(check(&[("x-webhook-signature", "")], body, secret, 0), None);
    }

    fn sign(secret: &str, signed: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(signed);
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    proptest! {
        #[test]
        fn only_the_right_bytes_are_accepted(
            secret in "[ -~]{1,40}", body in prop::collection::vec(any::<u8>(), 0..200), now in 0_i64..4_000_000_000,
            skew in -300_i64..=300, flip in any::<prop::sample::Index>(),
        ) {
            let sent = (now + skew).to_string();
            let signature = sign(&secret, &[sent.as_bytes(), b".", &body].concat());
            let held = Secret::new(secret.clone());
            let with = |signature: &str, sent: &str, body: &[u8], secret: &Secret, now: i64| {
                let pairs = [("x-webhook-signature-v2", signature), ("x-webhook-timestamp", sent)];
                verified(&headers(&pairs), body, secret, now)
            };
            prop_assert_eq!(with(&signature, &sent, &body, &held, now), Some(Scheme::Generic));
            // One bit of anything is another thing.
            let mut other = body.clone();
            other.push(0);
            prop_assert_eq!(with(&signature, &sent, &other, &held, now), None);
            if !body.is_empty() {
                let at = flip.index(body.len());
                let mut other = body.clone();
                other[at] ^= 1;
                prop_assert_eq!(with(&signature, &sent, &other, &held, now), None);
            }
            prop_assert_eq!(with(&signature, &(now + skew + 1).to_string(), &body, &held, now), None);
            prop_assert_eq!(with(&signature, &sent, &body, &Secret::new(format!("{secret}x")), now), None);
            prop_assert_eq!(with(&signature[2..], &sent, &body, &held, now), None);
            let at = flip.index(signature.len());
            let letter = if &signature[at..=at] == "0" { "1" } else { "0" };
            let mut wrong = signature.clone();
            wrong.replace_range(at..=at, letter);
            prop_assert_eq!(with(&wrong, &sent, &body, &held, now), None);
            prop_assert_eq!(with(&signature, &sent, &body, &held, now + skew.signum().max(0) + 601), None);
        }

        #[test]
        fn no_header_is_too_strange_to_refuse(
            name in prop::sample::select(vec!["svix-signature", "svix-timestamp", "x-hub-signature-256", "x-gitlab-token", "x-webhook-signature", "x-webhook-signature-v2", "x-webhook-timestamp"]),
            value in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                let mut headers = HeaderMap::new();
                headers.insert(name, value);
                prop_assert_eq!(verified(&headers, b"{}", &Secret::new("a secret of some length that is not guessed"), 0), None);
            }
        }
    }
}
