//! The machine fails while the gateway runs: the clock jumps, the disk takes nothing or lies, descriptors run out,
//! rights are missing, a conversation is a million messages long.
//!
//! The clock and the disk are those of a small library between the gateway and the C library (`faults/shim.c`), which a
//! test commands while the gateway runs. libfaketime cannot do it: see there.

mod clock;
mod descriptors;
mod disk;
mod history;
mod unprivileged;

use crate::gateway::{Gateway, Launch, Place};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// For seeing that nothing spins: what the gateway computes in this time is counted, not waited for.
const WINDOW: Duration = Duration::from_millis(1500);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        sleep(Duration::from_millis(5));
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().unwrap().stdout == b"0\n"
}

/// A number in what the shim and the test share, by its place there: see `struct control`.
#[derive(Clone, Copy)]
enum Control {
    ShiftSeconds = 0,
    SyncsFail = 1,
    ReadOnly = 2,
    Failed = 3,
    DatabaseSyncs = 4,
}

struct Shim {
    library: PathBuf,
    shared: PathBuf,
    control: File,
}

impl Shim {
    fn in_place(place: &Place) -> Self {
        let source = place.write("shim.c", include_str!("faults/shim.c"));
        let library = place.file("shim.so");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
        let compiled = compiler.output().unwrap_or_else(|error| panic!("this test needs cc: {error}"));
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let shared = place.write("control", vec![0; 4096]);
        let control = OpenOptions::new().read(true).write(true).open(&shared).unwrap();
        Self { library, shared, control }
    }

    fn under(&self, launch: Launch) -> Launch {
        launch.env("LD_PRELOAD", &self.library).env("TL_FAULTS", &self.shared)
    }

    fn set(&self, what: Control, value: i64) {
        self.control.write_all_at(&value.to_ne_bytes(), 8 * what as u64).unwrap();
    }

    fn get(&self, what: Control) -> i64 {
        let mut bytes = [0; 8];
        self.control.read_exact_at(&mut bytes, 8 * what as u64).unwrap();
        i64::from_ne_bytes(bytes)
    }
}

/// What a gateway has computed so far, in all of its threads.
fn cpu_time(gateway: &Gateway) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", gateway.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().map(|nth| fields[*nth].parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10) // a hundred to a second, on every Linux
}

/// It has something to wait for, and does not spin meanwhile.
fn assert_at_rest(gateway: &Gateway, when: &str) {
    let before = cpu_time(gateway);
    sleep(WINDOW);
    let spent = cpu_time(gateway) - before;
    assert!(spent < WINDOW / 3, "{when}: {spent:?} of {WINDOW:?} computed");
}
