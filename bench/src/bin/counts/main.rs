//! How many instructions the hot paths take, counted by valgrind: a figure that a busy machine does not change.
//!
//! `measure` runs each path in a process of its own, once without and once with its operations. The difference, divided
//! by their number, is the cost of one: start and preparation cancel out. `check` compares that with `bench/counts.txt`,
//! `update` writes it there.
//!
//! What this cannot see: the kernel (an fsync costs nothing here), caches, and the allocator of the binary (this uses the
//! system's). Valgrind offers no SHA instructions, so a digest takes many times what it takes on most machines: where that
//! matters, digests are counted apart. Counts of another compiler, C library or processor are not comparable.

mod hot_paths;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Parser, Subcommand};
use hot_paths::{Counted, HOT_PATHS, HotPath};
use std::io::ErrorKind;
use std::process::{Command, ExitCode};

/// What every digest spends its time in.
const DIGEST_FUNCTION: &str = "sha2::sha256::compress256";

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/counts.txt");

/// Count the instructions of hot paths
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    order: Order,
}

#[derive(Subcommand)]
enum Order {
    /// Print what each path takes
    Measure {
        /// How often each is counted
        #[arg(long, default_value_t = 1)]
        runs: usize,
    },
    /// Compare with bench/counts.txt, and fail if a path takes more
    Check {
        /// How many percent more a path may take
        #[arg(long, default_value_t = 3.0)]
        tolerance: f64,
    },
    /// Write bench/counts.txt
    Update,
    /// Run one path, to be counted
    #[command(hide = true)]
    Run { path: String, times: usize },
}

fn main() -> Result<ExitCode> {
    ensure!(!cfg!(debug_assertions), "these counts mean nothing: build with `--profile counts`");
    match Arguments::parse().order {
        Order::Measure { runs } => measure(runs.max(1)).map(|()| ExitCode::SUCCESS),
        Order::Check { tolerance } => check(tolerance),
        Order::Update => update().map(|()| ExitCode::SUCCESS),
        Order::Run { path, times } => {
            let path = HOT_PATHS.iter().find(|it| it.name == path);
            (path.context("there is no such path")?.run)(times).map(|()| ExitCode::SUCCESS)
        }
    }
}

fn measure(runs: usize) -> Result<()> {
    println!("{:15} {:>12} {:>9}  instructions per operation", "path", "median", "spread");
    for path in &HOT_PATHS {
        let mut counts = (0..runs).map(|_| count(path)).collect::<Result<Vec<u64>>>()?;
        counts.sort_unstable();
        let (least, median, most) = (counts[0], counts[runs / 2], counts[runs - 1]);
        let spread = percent(least, most);
        println!("{:15} {median:>12} {spread:>8.3}%  {counts:?}", path.name);
    }
    Ok(())
}

fn check(tolerance: f64) -> Result<ExitCode> {
    let text = std::fs::read_to_string(FILE).with_context(|| format!("could not read {FILE}"))?;
    let mut outcome = ExitCode::SUCCESS;
    for path in &HOT_PATHS {
        let (before, now) = (recorded(&text, path.name)?, count(path)?);
        let change = percent(before, now);
        let verdict = match () {
            () if change > tolerance => {
                outcome = ExitCode::FAILURE;
                "TOO MANY"
            }
            () if change < -tolerance => "fewer: record it with `counts -- update`",
            () => "ok",
        };
        println!("{:15} {before:>12} -> {now:>12} {change:>+8.2}%  {verdict}", path.name);
    }
    Ok(outcome)
}

fn update() -> Result<()> {
    let mut text = String::from(
        "# Instructions per operation of hot paths, as `cargo run -p throughline-bench --bin counts --profile counts -- update` counts them.\n",
    );
    for path in &HOT_PATHS {
        text.push_str(&format!("{} {}\n", path.name, count(path)?));
    }
    print!("{text}");
    std::fs::write(FILE, text).with_context(|| format!("could not write {FILE}"))
}

fn recorded(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let line = line.with_context(|| format!("{FILE} has no count of {name}: run `counts -- update`"))?;
    line.trim().parse().with_context(|| format!("the count of {name} in {FILE} is no number"))
}

fn percent(before: u64, now: u64) -> f64 {
    (now as f64 / before as f64 - 1.0) * 100.0
}

/// Instructions of one operation.
fn count(path: &HotPath) -> Result<u64> {
    let (without, with) = (instructions(path, 0)?, instructions(path, path.operations)?);
    let count = with.saturating_sub(without) / path.operations as u64;
    ensure!(count > 0, "nothing was counted of {}: is there still a function {DIGEST_FUNCTION}?", path.name);
    Ok(count)
}

/// Instructions of a whole process.
fn instructions(path: &HotPath, times: usize) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    // The size of the environment moves memory, and changes counts by up to half a percent.
    let kept = ["PATH", "TMPDIR"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    valgrind.env_clear().envs(kept);
    if path.counted != Counted::All {
        // The function turns counting on or off as it begins, and back as it ends. This option also has counting begin
        // off, so the other one comes after it.
        let at_start = if path.counted == Counted::Digests { "no" } else { "yes" };
        valgrind
            .arg(format!("--toggle-collect={DIGEST_FUNCTION}"))
            .arg(format!("--collect-atstart={at_start}"));
    }
    valgrind.arg(std::env::current_exe()?).args(["run", path.name, &times.to_string()]);
    let output = valgrind.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            anyhow!("valgrind is not installed: `apt-get install valgrind`, or the same of your system")
        }
        _ => anyhow!("could not run valgrind: {error}"),
    })?;
    let report = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed under valgrind:\n{report}", path.name);
    let collected = report.lines().find_map(|line| line.split_once("Collected :"));
    let (_, collected) = collected.with_context(|| format!("valgrind counted nothing:\n{report}"))?;
    collected.trim().parse().context("valgrind's count is no number")
}
