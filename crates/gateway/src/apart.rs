//! Work on long texts, apart from the workers of the runtime: every session and every listener shares those.

/// Up to this many bytes a text is worked on where it is, which takes less than a millisecond.
const LONG: usize = 256 << 10;

/// Does `work` on a text of so many bytes.
pub async fn apart<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if bytes <= LONG {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await, // the runtime ends, and nobody waits for this any more
        },
    }
}
