//! How many files and sockets this process may have open, and how many of them strangers may hold.

use throughline_server::{CONNECTIONS_MAX, HEAD_PATIENCE, Limits};

/// A listener of the API leaves half of all descriptors to the stores, the models and the tools.
pub fn listener_limits() -> Limits {
    let half = usize::try_from(limit() / 2).unwrap_or(usize::MAX);
    Limits { head_patience: HEAD_PATIENCE, connections_max: half.clamp(16, CONNECTIONS_MAX) }
}

/// Every client and every reader of the store is a descriptor; the usual 1,024 are soon gone.
#[cfg(unix)]
#[allow(unsafe_code)]
pub fn raise_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls only read or write the one struct we pass.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

#[cfg(unix)]
#[allow(unsafe_code)]
fn limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call only writes the one struct we pass.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

#[cfg(not(unix))]
pub fn raise_limit() {}

#[cfg(not(unix))]
fn limit() -> u64 {
    u64::MAX
}
