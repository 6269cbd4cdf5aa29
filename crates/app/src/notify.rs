//! A word to systemd: ready, stopping, still alive. Silent where no supervisor listens.

#[cfg(unix)]
use std::io;
use std::time::Duration;

/// Where the service manager listens, if there is one.
pub struct Notify {
    #[cfg(unix)]
    socket: Option<std::os::unix::net::UnixDatagram>,
    /// How often it wants to hear from us.
    pub watchdog: Option<Duration>,
}

/// What there is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceNews {
    Ready,
    Stopping,
    Alive,
    /// One line for `systemctl status`.
    Status(String),
}

impl Notify {
    /// By `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`, as systemd sets them.
    pub fn new(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let usec = variable("WATCHDOG_USEC").and_then(|text| text.trim().parse().ok());
        let ours = variable("WATCHDOG_PID").is_none_or(|pid| pid.trim() == std::process::id().to_string());
        let watchdog = usec.filter(|usec| *usec > 0 && ours).map(Duration::from_micros);
        Self {
            #[cfg(unix)]
            socket: variable("NOTIFY_SOCKET")
                .filter(|path| !path.is_empty())
                .and_then(|path| connect(&path).ok()),
            watchdog,
        }
    }

    /// Never waits, never fails: a supervisor that restarts us for silence does so for a reason.
    pub fn say(&self, news: &ServiceNews) {
        let text = match news {
            ServiceNews::Ready => "READY=1".to_owned(),
            ServiceNews::Stopping => "STOPPING=1".to_owned(),
            ServiceNews::Alive => "WATCHDOG=1".to_owned(),
            ServiceNews::Status(line) => format!("STATUS={}", line.replace(['\n', '\r'], " ")),
        };
        #[cfg(unix)]
        if let Some(socket) = &self.socket {
            let _ = socket.send(text.as_bytes());
        }
        #[cfg(not(unix))]
        let _ = text;
    }
}

/// A path, or a name that only the kernel knows, which begins with `@`.
#[cfg(unix)]
fn connect(path: &str) -> io::Result<std::os::unix::net::UnixDatagram> {
    use std::os::unix::net::UnixDatagram;
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match path.strip_prefix('@') {
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            socket.connect_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)?;
        }
        #[cfg(not(target_os = "linux"))]
        Some(_) => return Err(io::ErrorKind::Unsupported.into()),
        None => socket.connect(path)?,
    }
    Ok(socket)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    #[test]
    fn systemd_hears_it_at_a_path_and_at_an_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("throughline-test-{}", std::process::id());
        let listeners = [
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
            (
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
                format!("@{name}"),
            ),
        ];
        for (listener, address) in listeners {
            let variable = |name: &str| match name {
                "NOTIFY_SOCKET" => Some(address.clone()),
                "WATCHDOG_USEC" => Some("30000000".to_owned()),
                _ => None,
            };
            let notify = Notify::new(&variable);
            assert_eq!(notify.watchdog, Some(Duration::from_secs(30)));
            notify.say(&ServiceNews::Ready);
            notify.say(&ServiceNews::Status("two\nlines".into()));
            let mut heard = [0; 64];
            let mut next = || {
                let length = listener.recv(&mut heard).unwrap();
                String::from_utf8_lossy(&heard[..length]).into_owned()
            };
            assert_eq!((next(), next()), ("READY=1".to_owned(), "STATUS=two lines".to_owned()));
        }
    }

    #[test]
    fn where_nobody_listens_nothing_happens() {
        Notify::new(&|_| None).say(&ServiceNews::Ready);
        let gone = |name: &str| (name == "NOTIFY_SOCKET").then(|| "/nowhere/at/all".to_owned());
        Notify::new(&gone).say(&ServiceNews::Alive);
        let other = |name: &str| match name {
            "WATCHDOG_USEC" => Some("1000".to_owned()),
            "WATCHDOG_PID" => Some("1".to_owned()),
            _ => None,
        };
        assert_eq!(Notify::new(&other).watchdog, None, "it is meant for another process");
    }
}
