//! How a gateway shows a local client that it knows the home's key, before the client tells it anything.
//!
//! A port says nothing about who listens on it: after a crash any user of the machine can take it. So a client
//! sends a random nonce first, and the gateway answers with an HMAC under the home's key. Only then, and on the same
//! connection, does the client send its key and its request.
//!
//! - the proof is bound to the address that the client dialled: a listener on one port cannot pass the nonce on
//!   to the gateway on another and use its answer, because the gateway signs the address where it was reached
//! - it is bound to the home, so that two homes with one key are not taken for each other
//! - a nonce is new each time, so that an old answer proves nothing
//! - only callers on this machine get one: a caller on the network cannot collect proofs to guess a weak key with
//!
//! The answer does not tell the key, and it opens no route.

use crate::App;
use crate::auth::ApiKeyGuard;
use crate::error::ApiError;
use crate::request_body;
use axum::Json;
use axum::extract::{Request, State};
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::net::SocketAddr;
use std::sync::Arc;
use throughline_core::prompt::Digest;
use throughline_net::listener::Visit;

/// Where a gateway is asked for it, as segments of a path.
pub const PATH: [&str; 2] = ["api", "prove"];
pub const NONCE_LENGTH: usize = 32;
const BODY_BYTES_MAX: usize = 1024;

/// What a gateway is asked to sign.
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    pub nonce: &'a [u8; NONCE_LENGTH],
    /// The home's path, as the file system resolves it.
    pub home: &'a str,
    /// Where the gateway was reached.
    pub address: SocketAddr,
}

impl Challenge<'_> {
    fn signed(&self, key: &Digest) -> Hmac<Sha256> {
        let address = SocketAddr::new(self.address.ip().to_canonical(), self.address.port()).to_string();
        let said = Digest::of(&[b"gateway proof", self.nonce, self.home.as_bytes(), address.as_bytes()]);
        let mut mac = Hmac::new_from_slice(&key.0).expect("HMAC takes a key of any length");
        mac.update(&said.0);
        mac
    }

    pub(crate) fn proof(&self, key: &Digest) -> String {
        Digest(self.signed(key).finalize().into_bytes().into()).to_hex()
    }

    /// Whether `proof` was made with the key. Takes the same time, no matter what differs.
    pub fn is_met_by(&self, proof: &str, key: &str) -> bool {
        let mac = self.signed(&crate::auth::fingerprint(key.as_bytes()));
        Digest::from_hex(proof).is_some_and(|proof| mac.verify_slice(&proof.0).is_ok())
    }
}

/// What the gateway of `home` answers where it is reached at `address`.
pub fn proof_of(key: &str, home: &str, nonce: &[u8; NONCE_LENGTH], address: SocketAddr) -> String {
    ApiKeyGuard::new(key, home).proves(nonce, address)
}

pub(crate) async fn prove(State(app): State<Arc<App>>, request: Request) -> Result<Json<Value>, ApiError> {
    answer(&app.guard, request).await
}

pub(crate) async fn answer(guard: &ApiKeyGuard, request: Request) -> Result<Json<Value>, ApiError> {
    let (head, body) = request.into_parts();
    let visit = head.extensions.get::<Visit>().filter(|visit| visit.is_local());
    let Some(address) = visit.map(|visit| visit.local) else { return Err(ApiError::unauthorised(false)) };
    let request_body::RequestBody { bytes, room: _room } =
        request_body::read(&head.headers, body, BODY_BYTES_MAX).await?;
    let nonce = request_body::parse(&bytes)?.text("nonce")?.unwrap_or_default();
    let nonce = Digest::from_hex(&nonce).ok_or_else(|| {
        ApiError::invalid("nonce", format!("nonce must be {NONCE_LENGTH} random bytes in hexadecimal."))
    })?;
    Ok(Json(json!({"object": "throughline.proof", "proof": guard.proves(&nonce.0, address)})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p31_a_proof_is_for_one_nonce_one_home_one_address_and_one_key() {
        let nonce = [7; NONCE_LENGTH];
        let asked = Challenge { nonce: &nonce, home: "/h/one", address: "127.0.0.1:8642".parse().unwrap() };
        let proof = ApiKeyGuard::new("secret", "/h/one").proves(&nonce, asked.address);
        assert!(asked.is_met_by(&proof, "secret"));
        let mapped = Challenge { address: "[::ffff:127.0.0.1]:8642".parse().unwrap(), ..asked };
        assert!(mapped.is_met_by(&proof, "secret"), "one address, written otherwise");
        assert!(!asked.is_met_by(&proof, "secrets"));
        for other in [
            Challenge { nonce: &[8; NONCE_LENGTH], ..asked },
            Challenge { home: "/h/two", ..asked },
            Challenge { address: "127.0.0.1:8643".parse().unwrap(), ..asked },
            Challenge { address: "127.0.0.2:8642".parse().unwrap(), ..asked },
        ] {
            assert!(!other.is_met_by(&proof, "secret"), "{other:?}");
        }
        for wrong in ["", "00", "zz", &proof[2..], &format!("{proof}00")] {
            assert!(!asked.is_met_by(wrong, "secret"), "{wrong:?}");
        }
    }

    #[test]
    fn p31_a_guard_without_a_key_proves_nothing_that_could_be_known() {
        let (nonce, address) = ([7; NONCE_LENGTH], "127.0.0.1:8642".parse().unwrap());
        let proofs = [ApiKeyGuard::closed(), ApiKeyGuard::closed(), ApiKeyGuard::new("", "")]
            .map(|it| it.proves(&nonce, address));
        assert!(proofs[0] != proofs[1] && proofs[1] != proofs[2]);
        let asked = Challenge { nonce: &nonce, home: "", address };
        assert!(proofs.iter().all(|proof| !asked.is_met_by(proof, "")));
    }
}
