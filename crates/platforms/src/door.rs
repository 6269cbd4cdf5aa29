//! A door to the outside, for platforms that call us: HTTP that nobody can block.
//!
//! Whoever opens a connection and says nothing, or a letter a minute, is hung up on; so many connections are
//! open at a time, and whoever comes then waits until one is free, which the first rule sees to. A body has its own
//! bound, in time and bytes, with whoever reads it.

use crate::adapter::Stop;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Until the machine has descriptors again.
const BREATH: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long the head of a request may take, counted from when one could begin: what is idle goes, too.
    pub head_patience: Duration,
    pub connections_max: usize,
}

impl Default for Limits {
    /// Senders of webhooks say all they have to say in one breath, and few speak at once.
    fn default() -> Self {
        Self { head_patience: Duration::from_secs(15), connections_max: 256 }
    }
}

/// Answers until the bell rings, and then what is being answered.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, mut stop: Stop) {
    let room = Arc::new(Semaphore::new(limits.connections_max));
    let mut open = JoinSet::new();
    loop {
        let next = async {
            let place = room.clone().acquire_owned().await.ok()?;
            Some((place, listener.accept().await))
        };
        let accepted = tokio::select! {
            biased;
            () = stop.rung() => break,
            accepted = next => accepted,
        };
        while open.try_join_next().is_some() {}
        match accepted {
            Some((place, Ok((stream, _)))) => {
                open.spawn(answer(stream, router.clone(), limits, stop.clone(), place));
            }
            Some((_, Err(error))) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(BREATH).await;
            }
            None => break,
        }
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

async fn answer(stream: TcpStream, router: Router, limits: Limits, mut stop: Stop, _: OwnedSemaphorePermit) {
    let service = TowerToHyperService::new(router);
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(limits.head_patience);
    let mut connection = pin!(protocol.serve_connection(TokioIo::new(stream), service));
    // How it ends is the sender's affair: what was taken in was answered.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.rung() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
