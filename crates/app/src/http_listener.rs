//! The listener of one HTTP surface: where it listens, and what to do if it cannot.

use crate::descriptors;
use anyhow::{Context, bail};
use std::io::ErrorKind;
use std::net::SocketAddr;
use throughline_home::config::unresolved;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A listener that serves until it is closed.
pub struct HttpListener {
    pub address: SocketAddr,
    server: JoinHandle<()>,
    close: oneshot::Sender<()>,
}

impl HttpListener {
    pub fn serve(socket: TcpListener, router: throughline_server::Router) -> anyhow::Result<Self> {
        let address = socket.local_addr().context("the API has no address")?;
        let (close, closed) = oneshot::channel();
        let limits = descriptors::listener_limits();
        let server = tokio::spawn(throughline_server::serve(socket, router, limits, async move {
            let _ = closed.await;
        }));
        Ok(Self { address, server, close })
    }

    /// Takes no more requests. The task ends when the open ones have.
    pub fn close(self) -> JoinHandle<()> {
        let _ = self.close.send(());
        self.server
    }
}

pub async fn bind(host: &str, port: u16) -> anyhow::Result<TcpListener> {
    let name = host.trim_matches(['[', ']']);
    let addresses: Vec<SocketAddr> = match tokio::net::lookup_host((name, port)).await {
        Ok(addresses) => addresses.collect(),
        Err(error) => bail!("the API cannot listen on {host}:{port}: {}", unresolved(host, &error)),
    };
    TcpListener::bind(&addresses[..]).await.map_err(|error| unheard(host, port, &error))
}

/// Why the API cannot listen there, and what to do about it.
fn unheard(host: &str, port: u16, error: &std::io::Error) -> anyhow::Error {
    let of_the_port = port_advice(port, error, "--port or API_SERVER_PORT, 8642 for example");
    let advice = of_the_port.unwrap_or_else(|| match error.kind() {
        ErrorKind::AddrNotAvailable => {
            "This machine does not have that address. Set --host or API_SERVER_HOST to 127.0.0.1, or to an address of this \
             machine"
                .to_owned()
        }
        _ => "Choose another address with --host and --port, or with API_SERVER_HOST and API_SERVER_PORT".to_owned(),
    });
    anyhow::anyhow!("the API cannot listen on {host}:{port} ({error}). {advice}")
}

/// What to do about a port that a program cannot listen on. `option` says how another one is chosen.
pub fn port_advice(port: u16, error: &std::io::Error, option: &str) -> Option<String> {
    match error.kind() {
        ErrorKind::PermissionDenied if port < 1024 => Some(format!(
            "Ports below 1024 need rights that this user does not have. Choose another with {option}, and let a proxy listen \
             on this one"
        )),
        ErrorKind::AddrInUse => {
            Some(format!("Another program listens there. Stop it, or choose another port with {option}"))
        }
        _ => None,
    }
}
