//! HTTP server side: a listener that no caller can block for the others.
//!
//! - the head of a request has a time limit, counted from when one could begin, so that an idle connection
//!   ends, too. A body has its own limits, in time and bytes, set by its reader
//! - the number of open connections is bounded. When all places are taken, a new connection takes the place
//!   of one that has shown nothing yet: first one without a whole head, then one that is being answered but is
//!   not trusted, then a trusted one that is idle. Within each of these the address with the most connections
//!   gives one up, its oldest
//! - a trusted connection that is being answered is never closed for another. The handler of a request says
//!   when it may be trusted ([`Visit::trust`]): the key or the signature was right
//!
//! Deliberately absent: what is asked and answered, and who may ask it.

use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

/// Until the machine has descriptors again.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long the head of a request may take, counted from when one could begin.
    pub head_patience: Duration,
    pub connections_max: usize,
}

impl Default for Limits {
    /// Senders of webhooks say everything at once, and few call at the same time.
    fn default() -> Self {
        Self { head_patience: Duration::from_secs(15), connections_max: 256 }
    }
}

/// The connection that a request came by. Every request carries it among its extensions.
#[derive(Clone)]
pub struct Visit {
    /// The address that the caller dialled.
    pub local: SocketAddr,
    pub peer: SocketAddr,
    number: u64,
    room: Arc<Connections>,
}

impl Visit {
    /// The caller has shown that it may: its connection is not closed for a stranger's while it is answered.
    pub fn trust(&self) {
        self.room.change(self.number, |place| place.is_trusted = true);
    }

    /// Whether the caller is on this machine: both ends are addresses of its own.
    pub fn is_local(&self) -> bool {
        self.peer.ip().is_loopback() || self.peer.ip() == self.local.ip()
    }
}

/// Everybody who is connected.
#[derive(Default)]
struct Connections {
    places: Mutex<BTreeMap<u64, ConnectionSlot>>,
    /// A connection ended, or may now be closed.
    changed: Notify,
}

struct ConnectionSlot {
    peer: IpAddr,
    /// Requests that are being answered.
    answering: usize,
    is_trusted: bool,
    task: Option<AbortHandle>,
}

/// Who gives up its place first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionRank {
    Silent,
    Unproven,
    Idle,
}

impl ConnectionSlot {
    fn rank(&self) -> Option<EvictionRank> {
        match (self.is_trusted, self.answering) {
            (false, 0) => Some(EvictionRank::Silent),
            (false, _) => Some(EvictionRank::Unproven),
            (true, 0) => Some(EvictionRank::Idle),
            (true, _) => None,
        }
    }
}

impl Connections {
    fn places(&self) -> MutexGuard<'_, BTreeMap<u64, ConnectionSlot>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut ConnectionSlot)) {
        if let Some(place) = self.places().get_mut(&number) {
            change(place);
        }
        self.changed.notify_waiters();
    }

    fn leave(&self, number: u64) {
        self.places().remove(&number);
        self.changed.notify_waiters();
    }

    /// Whether one more may come in, after another was closed if that had to be.
    fn makes_room(&self, connections_max: usize) -> bool {
        self.places().len() < connections_max || self.sends_one_away()
    }

    fn sends_one_away(&self) -> bool {
        let mut places = self.places();
        let Some(rank) = places.values().filter_map(ConnectionSlot::rank).min() else { return false };
        let mut counts: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
        for (number, place) in places.iter().filter(|(_, place)| place.rank() == Some(rank)) {
            counts.entry(place.peer).or_insert((0, *number)).0 += 1; // numbers rise: the first is the oldest
        }
        let most = counts.values().copied().max_by_key(|(count, oldest)| (*count, u64::MAX - oldest));
        let gone = most.and_then(|(_, oldest)| places.remove(&oldest));
        if let Some(task) = gone.and_then(|place| place.task) {
            task.abort();
        }
        true
    }
}

/// A connection is in its room until this is dropped.
struct Presence(Visit);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.room.leave(self.0.number);
    }
}

/// A request is being answered until this is dropped.
struct Answering(Visit);

impl Answering {
    fn begin(visit: &Visit) -> Self {
        visit.room.change(visit.number, |place| place.answering += 1);
        Self(visit.clone())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.room.change(self.0.number, |place| place.answering = place.answering.saturating_sub(1));
    }
}

/// An answer's body, which ends when its last byte was taken to be sent.
struct CountedBody<B> {
    body: B,
    _answering: Answering,
}

impl<B: Body + Unpin> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Answers until `stop` resolves, and then finishes what is being answered. Dropping it closes everything.
pub async fn serve<S, B>(listener: TcpListener, service: S, limits: Limits, stop: impl Future<Output = ()>)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let room = Arc::new(Connections::default());
    let (ring, stopping) = watch::channel(false);
    let mut open = JoinSet::new();
    let mut stop = pin!(stop);
    let mut number = 0;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.as_mut() => break,
            accepted = accept(&listener, &room, limits.connections_max) => accepted,
        };
        while open.try_join_next().is_some() {}
        let Some((stream, visit)) = accepted.and_then(|stream| {
            number += 1;
            // A caller that is gone already has no address.
            let (local, peer) = (canonical(stream.local_addr().ok()?), canonical(stream.peer_addr().ok()?));
            Some((stream, Visit { local, peer, number, room: room.clone() }))
        }) else {
            continue;
        };
        // Small pieces of a stream matter, too: none waits for the next to fill a packet.
        let _ = stream.set_nodelay(true);
        let place = ConnectionSlot { peer: visit.peer.ip(), answering: 0, is_trusted: false, task: None };
        room.places().insert(number, place);
        let presence = Presence(visit);
        let task = open.spawn(answer(stream, service.clone(), limits, stopping.clone(), presence));
        room.change(number, |place| place.task = Some(task));
    }
    drop(listener);
    let _ = ring.send(true);
    while open.join_next().await.is_some() {}
}

/// The next connection, once there is a place for it. None: there is none to be had now.
async fn accept(listener: &TcpListener, room: &Connections, connections_max: usize) -> Option<TcpStream> {
    let stream = match listener.accept().await {
        Ok((stream, _)) => stream,
        Err(error) => {
            tracing::warn!(
                %error,
                "a connection could not be accepted; it is tried again. If too many files are open, let the process open \
                 more (ulimit -n, or LimitNOFILE= in its service), or close connections"
            );
            room.sends_one_away(); // most often no descriptor is free
            sleep(PAUSE).await;
            return None;
        }
    };
    loop {
        let mut changed = pin!(room.changed.notified());
        changed.as_mut().enable(); // before looking, so that nothing that happens meanwhile is missed
        if room.makes_room(connections_max) {
            return Some(stream);
        }
        changed.await;
    }
}

/// IPv4 by way of an IPv6 listener is the same address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

async fn answer<S, B>(
    stream: TcpStream,
    service: S,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
    presence: Presence,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + Sync + 'static,
    S::Future: Send,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let visit = presence.0.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let answering = Answering::begin(&visit);
        request.extensions_mut().insert(visit.clone());
        let answer = service.call(request);
        async move {
            let answer = answer.await?;
            Ok::<_, Infallible>(answer.map(|body| CountedBody { body, _answering: answering }))
        }
    });
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(limits.head_patience);
    let mut connection = pin!(protocol.serve_connection(TokioIo::new(stream), service));
    // How it ends is the caller's affair: what was taken in was answered.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(|stopping| *stopping) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    struct TextBody(Option<Bytes>);

    impl Body for TextBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
        }
    }

    const LONG: Duration = Duration::from_secs(20);

    /// Answers at `/`; at `/key` it trusts; at `/slow` it trusts and waits for the gate.
    async fn started(limits: Limits, gate: &Arc<Semaphore>) -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gate = gate.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let gate = gate.clone();
            async move {
                let visit = request.extensions().get::<Visit>().unwrap();
                if request.uri().path() != "/" {
                    visit.trust();
                }
                if request.uri().path() == "/slow" {
                    gate.acquire().await.unwrap().forget();
                }
                Ok::<_, Infallible>(Response::new(TextBody(Some(Bytes::from(visit.local.to_string())))))
            }
        });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::new(service), limits, std::future::pending()));
        (address, serving)
    }

    async fn says(address: SocketAddr, words: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        stream
    }

    async fn hears(stream: &mut TcpStream, words: &str) -> String {
        let mut text = String::new();
        let mut buffer = [0; 1024];
        while !text.contains(words) {
            let read = timeout(LONG, stream.read(&mut buffer)).await.expect("it answers").unwrap_or(0);
            if read == 0 {
                return text;
            }
            text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
        text
    }

    async fn asks(address: SocketAddr) -> String {
        hears(&mut says(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await, "127.0.0.1").await
    }

    async fn is_closed(stream: &mut TcpStream) -> bool {
        let read = timeout(LONG, stream.read(&mut [0; 16])).await;
        matches!(read, Ok(Ok(0) | Err(_)))
    }

    #[tokio::test]
    async fn p31_half_sent_requests_lock_nobody_out() {
        let limits = Limits { head_patience: Duration::from_secs(3600), connections_max: 4 };
        let (address, _serving) = started(limits, &Arc::new(Semaphore::new(0))).await;
        let mut held = Vec::new();
        for _ in 0..20 {
            held.push(says(address, "GET / HTTP/1.1\r\nhost:").await);
            assert!(asks(address).await.contains("200 OK"), "after {} half-sent requests", held.len());
        }
        assert!(is_closed(&mut held[0]).await, "the oldest gave up its place");
    }

    #[tokio::test]
    async fn p31_what_is_trusted_and_answered_stays_and_what_is_idle_goes_last() {
        let gate = Arc::new(Semaphore::new(0));
        let limits = Limits { head_patience: Duration::from_secs(3600), connections_max: 3 };
        let (address, _serving) = started(limits, &gate).await;
        let mut slow = says(address, "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut idle = says(address, "GET /key HTTP/1.1\r\nhost: x\r\n\r\n").await;
        hears(&mut idle, "127.0.0.1").await;
        let mut silent = says(address, "GET ").await;
        assert!(asks(address).await.contains("200 OK"));
        assert!(is_closed(&mut silent).await);
        // The one that asked is gone or silent itself; the one with the key is still there.
        idle.write_all(b"GET /key HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        assert!(hears(&mut idle, "127.0.0.1").await.contains("200 OK"));
        for _ in 0..5 {
            assert!(asks(address).await.contains("200 OK"));
        }
        gate.add_permits(1);
        assert!(hears(&mut slow, "127.0.0.1").await.contains("200 OK"), "it was answered to the end");
    }

    #[tokio::test]
    async fn where_everybody_is_trusted_and_busy_a_new_one_waits_for_a_place() {
        let gate = Arc::new(Semaphore::new(0));
        let limits = Limits { head_patience: LONG, connections_max: 1 };
        let (address, _serving) = started(limits, &gate).await;
        let mut slow = says(address, "GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
        let (text, _) = tokio::join!(asks(address), async {
            gate.add_permits(1);
            hears(&mut slow, "127.0.0.1").await
        });
        assert!(text.contains("200 OK"), "{text}");
    }

    #[tokio::test]
    async fn a_head_that_does_not_come_ends_the_connection() {
        let limits = Limits { head_patience: Duration::from_millis(50), connections_max: 4 };
        let (address, _serving) = started(limits, &Arc::new(Semaphore::new(0))).await;
        for words in ["", "GET / HTTP/1.1\r\nhost:"] {
            assert!(is_closed(&mut says(address, words).await).await, "{words:?}");
        }
    }

    #[test]
    fn p31_the_address_with_the_most_connections_gives_one_up() {
        let room = Connections::default();
        let place = |last: u8| ConnectionSlot {
            peer: IpAddr::from([10, 0, 0, last]),
            answering: 0,
            is_trusted: false,
            task: None,
        };
        room.places().extend([(1, place(1)), (2, place(9)), (3, place(9)), (4, place(2))]);
        let mut gone = Vec::new();
        for _ in 0..4 {
            let before: Vec<u64> = room.places().keys().copied().collect();
            assert!(room.sends_one_away());
            gone.extend(before.into_iter().filter(|number| !room.places().contains_key(number)));
        }
        assert_eq!(gone, [2, 1, 3, 4], "one of the many first, then by age");
        assert!(!room.sends_one_away());
    }
}
