//! The cryptography that every encrypted connection of this process uses.
//!
//! The TLS library takes it from one place in the process and panics where nothing was put there. `main` calls
//! [`install_tls`] before anything else, and each function that builds a client calls it, too: so no test has to do
//! what the program must do, and no order of calls matters.

/// Installs the provider once. Later calls change nothing.
pub fn install_tls() {
    // An error says that a provider is installed already; only this function installs one.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
