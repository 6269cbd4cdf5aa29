//! How a person or a supervisor asks the process to stop, on each system, and what must not stop it.

use anyhow::Context;

/// A write beyond the limit on the size of files (`ulimit -f`, `LimitFSIZE`) is to fail, as on a full disk, and not to
/// kill. A handler that does nothing, because an ignored signal would be ignored by every command of an agent, too.
#[cfg(unix)]
#[allow(unsafe_code)]
pub fn outlive_file_limit() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler calls nothing, and no other thread runs yet.
    unsafe { libc::signal(libc::SIGXFSZ, nothing as *const () as libc::sighandler_t) };
}

/// There is no such limit here.
#[cfg(not(unix))]
pub fn outlive_file_limit() {}

/// Every way to be asked.
pub struct Stop {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
    #[cfg(windows)]
    events: windows::Events,
}

impl Stop {
    #[cfg(unix)]
    pub fn listen() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).context("could not listen for signals");
        Ok(Self { signals: [listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?] })
    }

    /// Ctrl-C, SIGTERM; on Windows Ctrl-C, Ctrl-Break, a closed console, log-off and shutdown. A service's
    /// stop reaches no console: the service wrapper turns it into one of these.
    #[cfg(unix)]
    pub async fn asked(&mut self) {
        let [interrupt, terminate] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }

    #[cfg(windows)]
    pub fn listen() -> anyhow::Result<Self> {
        Ok(Self { events: windows::Events::listen().context("could not listen for console events")? })
    }

    #[cfg(windows)]
    pub async fn asked(&mut self) {
        self.events.any().await;
    }
}

/// Windows ends the process a few seconds after it was told of a closed console or a shutdown: what
/// has not ended by then is on disk, as after a kill, and goes on at the next start.
#[cfg(windows)]
mod windows {
    use tokio::signal::windows::{CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown};

    pub struct Events {
        c: CtrlC,
        r#break: CtrlBreak,
        close: CtrlClose,
        logoff: CtrlLogoff,
        shutdown: CtrlShutdown,
    }

    impl Events {
        pub fn listen() -> std::io::Result<Self> {
            use tokio::signal::windows as signal;
            Ok(Self {
                c: signal::ctrl_c()?,
                r#break: signal::ctrl_break()?,
                close: signal::ctrl_close()?,
                logoff: signal::ctrl_logoff()?,
                shutdown: signal::ctrl_shutdown()?,
            })
        }

        pub async fn any(&mut self) {
            tokio::select! {
                _ = self.c.recv() => {}
                _ = self.r#break.recv() => {}
                _ = self.close.recv() => {}
                _ = self.logoff.recv() => {}
                _ = self.shutdown.recv() => {}
            }
        }
    }
}
