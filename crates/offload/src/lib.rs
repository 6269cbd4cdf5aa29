//! Work on long texts, apart from the threads that serve requests.
//!
//! Every session and every listener of a process shares the few worker threads of its runtime. A megabyte that is
//! parsed, redacted or summarised on one of them makes all others wait, `/health` among them. Such work says how many bytes
//! it reads:
//!
//! - up to [`LONG`] it runs where it is: that takes about a millisecond, and handing it over is not free, either
//! - above, the worker hands all its other tasks to another thread first. The work still runs on the thread that asked
//!   for it: it may borrow, a panic takes its usual way, and log lines keep their span
//! - a runtime with a single thread has no other: there the work always runs where it is. So the simulator, whose worlds
//!   must repeat themselves exactly, sees no threads at all
//!
//! Deliberately absent: a bound on how much runs at once. The caller's own bounds hold (sessions, connections, bodies), and
//! what runs beside the workers shares the processor with them, as the operating system sees fit.

use std::future::poll_fn;
use std::pin::pin;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Up to this many bytes a text is worked on where it is.
pub const LONG: usize = 128 << 10;

/// Does `work`, which reads so many bytes.
pub fn run<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    match bytes > LONG && has_other_threads() {
        true => block_in_place(work),
        false => work(),
    }
}

/// The same for what waits in between: what `work` does between two waits reads so many bytes at most.
pub async fn drive<F: Future>(bytes: usize, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| run(bytes, || work.as_mut().poll(context))).await
}

fn has_other_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use std::time::Duration;
    use tokio::runtime::{Builder, Runtime};

    /// How long to wait for what must happen. Only a failure takes so long.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// As few workers as there can be: what holds it up holds up everything.
    fn one_worker() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap()
    }

    /// Does not end before another task has run.
    fn wait(other: &Receiver<()>) -> bool {
        other.recv_timeout(PATIENCE).is_ok()
    }

    fn other() -> (Sender<()>, Receiver<()>) {
        channel()
    }

    /// Runs `work` on the worker; the other task can only be sent for from there.
    fn on_the_worker<F: Future<Output = bool> + Send + 'static>(
        work: impl FnOnce(Receiver<()>) -> F + Send + 'static,
    ) -> bool {
        let (tell, other) = other();
        one_worker().block_on(async move {
            let working = tokio::spawn(async move {
                tokio::spawn(async move { tell.send(()) });
                work(other).await
            });
            working.await.unwrap()
        })
    }

    #[test]
    fn p31_other_tasks_go_on_during_long_work() {
        assert!(on_the_worker(|other| async move { run(LONG + 1, || wait(&other)) }));
    }

    #[test]
    fn p31_other_tasks_go_on_during_long_work_that_waits_in_between() {
        let worked = on_the_worker(|other| {
            drive(LONG + 1, async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                wait(&other)
            })
        });
        assert!(worked);
    }

    #[test]
    fn short_work_keeps_its_worker() {
        let heard = on_the_worker(|other| async move {
            run(LONG, || other.recv_timeout(Duration::from_millis(20)).is_ok())
        });
        assert!(!heard, "another task ran on the only worker during short work");
    }

    #[test]
    fn a_runtime_with_one_thread_does_everything_in_order() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let here = thread::current().id();
            let (tell, other) = other();
            tokio::spawn(async move { tell.send(()) });
            assert!(run(usize::MAX, || thread::current().id() == here && other.try_recv().is_err()));
            assert!(drive(usize::MAX, async { thread::current().id() == here }).await);
        });
    }

    #[test]
    fn outside_of_a_runtime_it_is_a_call() {
        assert_eq!(run(usize::MAX, || 7), 7);
    }

    #[test]
    #[should_panic(expected = "the work's own words")]
    fn a_panic_takes_its_usual_way() {
        on_the_worker(|_| async { run(LONG + 1, || panic!("the work's own words")) });
    }
}
