//! Processes by name and by family, and how they end.
//!
//! A number names a process only until the kernel gives it to another one. So a process that may
//! have ended is known by its number and its start time, and a process with the number but without
//! the start is a stranger: a stranger is never signalled. A child that was not yet waited for keeps its
//! number, which is why [`RunningChild`] may signal its group.
//!
//! Everything that waits here blocks: it runs on threads of its own.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Between SIGTERM and SIGKILL for a command in the foreground, as in Hermes.
pub const FOREGROUND_GRACE: Duration = Duration::from_secs(1);

/// How often a dying family is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process that the kernel cannot confuse with a later one of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// In kernel ticks since boot (`/proc/<pid>/stat`, field 22). None where there is no `/proc`.
    pub start: Option<u64>,
}

impl ProcessIdentity {
    pub fn of(pid: u32) -> Self {
        Self { pid, start: Stat::of(pid).map(|stat| stat.start) }
    }

    /// It runs, and is the one that was meant. A zombie has ended.
    pub fn is_alive(self) -> bool {
        match Stat::of(self.pid) {
            Some(stat) => {
                stat.state != 'Z' && stat.state != 'X' && self.start.is_none_or(|start| start == stat.start)
            }
            None => false,
        }
    }

    fn signal(self, signal: Signal) {
        if self.is_alive()
            && let Some(pid) = pid_of(self.pid)
        {
            let _ = kill_process(pid, signal); // gone meanwhile: what was wanted
        }
    }
}

/// What `/proc/<pid>/stat` says of a process.
struct Stat {
    pid: u32,
    state: char,
    parent: u32,
    group: u32,
    session: u32,
    start: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(pid, &std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name stands in brackets and may hold anything, brackets and blanks too: fields count
    /// from the last bracket.
    fn parse(pid: u32, text: &str) -> Option<Self> {
        let fields = text[text.rfind(')')? + 1..].split_ascii_whitespace().collect::<Vec<_>>();
        Some(Self {
            pid,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }

    fn all() -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        entries.flatten().filter_map(|entry| Self::of(entry.file_name().to_str()?.parse().ok()?)).collect()
    }
}

/// The process, all its descendants, and all processes in the session or group it leads: a grandchild
/// whose parent died is still in the session, one that began its own session is still a descendant.
fn family(root: ProcessIdentity) -> Vec<ProcessIdentity> {
    let all = Stat::all();
    let mut members = vec![root.pid];
    let mut next = 0;
    while next < members.len() {
        let parent = members[next];
        let kin = all.iter().filter(|stat| {
            stat.parent == parent || (parent == root.pid && (stat.session == parent || stat.group == parent))
        });
        let fresh = kin.map(|stat| stat.pid).filter(|pid| !members.contains(pid)).collect::<Vec<_>>();
        members.extend(fresh);
        next += 1;
    }
    let known = all.iter().filter(|stat| members.contains(&stat.pid));
    known.map(|stat| ProcessIdentity { pid: stat.pid, start: Some(stat.start) }).collect()
}

/// Ends a process and its family: SIGTERM, and SIGKILL for those left after the grace.
/// A number that has passed to a stranger is left alone. Without grace there is no SIGKILL.
pub fn end(root: ProcessIdentity, grace: Duration) {
    if root.start.is_some() && !root.is_alive() && !leads_anyone(root) {
        return;
    }
    let members = family(root);
    members.iter().for_each(|member| member.signal(Signal::TERM));
    if members.is_empty() {
        signal_group(root.pid, Signal::TERM); // no /proc: the group is all that is known
    }
    if grace.is_zero() {
        return;
    }
    let deadline = Instant::now() + grace;
    while Instant::now() < deadline && members.iter().any(|member| member.is_alive()) {
        thread::sleep(LOOK_EVERY);
    }
    // A process born meanwhile is family, too.
    let mut left = family(root);
    left.extend(members);
    left.iter().for_each(|member| member.signal(Signal::KILL));
    if left.is_empty() {
        signal_group(root.pid, Signal::KILL);
    }
}

/// A dead leader's number is kept while anyone is in its group or session, so it is still no
/// stranger's; but a new process of that number leads its own.
fn leads_anyone(root: ProcessIdentity) -> bool {
    let all = Stat::all();
    let taken = all.iter().any(|stat| stat.pid == root.pid && Some(stat.start) != root.start);
    !taken && all.iter().any(|stat| stat.session == root.pid || stat.group == root.pid)
}

fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

fn signal_group(pid: u32, signal: Signal) {
    if let Some(pid) = pid_of(pid) {
        let _ = kill_process_group(pid, signal); // no such group: it has ended
    }
}

/// What else must be told to stop when a process here stands for one elsewhere.
pub type Abort = Box<dyn FnOnce() + Send>;

/// A child that does not outlive the call that waits for it: dropped before its end, it is ended with
/// its whole family by a thread of its own, for which no call waits.
pub struct RunningChild {
    child: Option<Child>,
    identity: ProcessIdentity,
    abort: Option<Abort>,
}

impl RunningChild {
    pub fn new(child: Child, abort: Option<Abort>) -> Self {
        let identity = ProcessIdentity::of(child.id());
        Self { child: Some(child), identity, abort }
    }

    pub fn child(&mut self) -> Option<&mut Child> {
        self.child.as_mut()
    }

    /// Once it has ended it is no longer ours to end.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let status = child.try_wait()?;
        if status.is_some() {
            self.child = None;
        }
        Ok(status)
    }

    /// Lets the process go its own way: the caller that takes the child waits for it.
    pub fn release(mut self) -> (Option<Child>, ProcessIdentity) {
        (self.child.take(), self.identity)
    }

    /// Begins its end and returns at once.
    pub fn end(&mut self) {
        let Some(child) = self.child.take() else { return };
        let (identity, abort) = (self.identity, self.abort.take());
        let ending = thread::Builder::new().name("terminal-end".into());
        let spawned = ending.spawn(move || {
            let mut child = child;
            let elsewhere = abort.and_then(|abort| thread::Builder::new().spawn(abort).ok());
            end(identity, FOREGROUND_GRACE);
            // In uninterruptible sleep this waits, and only this: a zombie would keep the number.
            let _ = child.wait();
            if let Some(thread) = elsewhere {
                let _ = thread.join();
            }
        });
        if spawned.is_err() {
            signal_group(identity.pid, Signal::KILL); // no thread to be had: no grace either
        }
    }
}

impl Drop for RunningChild {
    fn drop(&mut self) {
        self.end();
    }
}

/// As Python's `returncode`: negative for a signal.
pub fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or(status.signal().map(|signal| -signal)).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let text = "7 (a) b) c) S 3 5 6 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 2";
        let stat = Stat::parse(7, text).unwrap();
        assert_eq!((stat.state, stat.parent, stat.group, stat.session, stat.start), ('S', 3, 5, 6, 987_654));
    }

    #[test]
    fn p31_a_stranger_with_a_reused_pid_is_never_killed() {
        let mut stranger = Command::new("sleep").arg("30").process_group(0).spawn().unwrap();
        let real = ProcessIdentity::of(stranger.id());
        let ours = ProcessIdentity { start: real.start.map(|start| start - 1), ..real };
        assert!(!ours.is_alive());
        end(ours, Duration::from_millis(50));
        thread::sleep(Duration::from_millis(50));
        assert!(stranger.try_wait().unwrap().is_none(), "the stranger must live");
        end(real, Duration::from_millis(500));
        assert!(!stranger.wait().unwrap().success());
    }
}
