//! Session ids as Hermes forms them, from a time, a zone and a few random bytes.

use crate::local::civil;
use jiff::tz::TimeZone;
use throughline_core::Time;
use throughline_core::id::SessionId;

/// A conversation in a chat: `20260528_093510_66bfaec7`, by the clock on the wall.
pub fn gateway_id(now: Time, zone: &TimeZone, entropy: [u8; 4]) -> SessionId {
    id(format!("{}_{}", stamp(now, zone), hex(&entropy)))
}

/// A conversation in a terminal, or a branch of another: six digits instead of eight.
pub fn child_id(now: Time, zone: &TimeZone, entropy: [u8; 3]) -> SessionId {
    id(format!("{}_{}", stamp(now, zone), hex(&entropy)))
}

/// Something that is done beside a conversation: `bg_093510_66bfae`.
pub fn background_id(now: Time, zone: &TimeZone, entropy: [u8; 3]) -> SessionId {
    id(format!("bg_{}_{}", civil(now, zone).strftime("%H%M%S"), hex(&entropy)))
}

/// A conversation that an API client begins: `api_1763237820_66bfaec7`.
pub fn api_id(now: Time, entropy: [u8; 4]) -> SessionId {
    id(format!("api_{}_{}", now.whole_seconds(), hex(&entropy)))
}

/// One that is found again by a digest of how it began: `api-` and sixteen digits.
pub fn api_digest_id(digest: [u8; 8]) -> SessionId {
    id(format!("api-{}", hex(&digest)))
}

fn stamp(now: Time, zone: &TimeZone) -> String {
    civil(now, zone).strftime("%Y%m%d_%H%M%S").to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn id(text: String) -> SessionId {
    text.parse().expect("digits, letters, `_` and `-`, and fewer than sixty of them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_look_like_those_of_hermes() {
        let now = Time(1_763_237_820_999_999);
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for (id, text) in [
            (gateway_id(now, &zone, [0x66, 0xbf, 0xae, 0xc7]), "20251115_211700_66bfaec7"),
            (gateway_id(now, &TimeZone::UTC, [0, 0, 0, 1]), "20251115_201700_00000001"),
            (child_id(now, &zone, [0xbb, 0x86, 0xb1]), "20251115_211700_bb86b1"),
            (background_id(now, &zone, [0xbb, 0x86, 0xb1]), "bg_211700_bb86b1"),
            (api_id(now, [0, 1, 0xab, 0xcd]), "api_1763237820_0001abcd"),
            (api_digest_id([0, 1, 2, 3, 4, 5, 0xfe, 0xff]), "api-000102030405feff"),
        ] {
            assert_eq!(id.as_str(), text);
        }
    }

    proptest! {
        #[test]
        fn no_time_is_without_an_id(now in any::<i64>(), entropy in any::<[u8; 4]>()) {
            let zone = TimeZone::posix("JST-9").unwrap();
            prop_assert!(gateway_id(Time(now), &zone, entropy).as_str().ends_with(&hex(&entropy)));
            prop_assert!(api_id(Time(now), entropy).as_str().starts_with("api_"));
        }
    }
}
