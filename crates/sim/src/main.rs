//! Runs worlds: as many random ones as asked for, and on request every crash point of the fixed plans, which the
//! specification tries as well, and every moment at which power may fail while something is forgotten.

use clap::Parser;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use throughline_sim::disk::Image;
use throughline_sim::plan::Forgotten;
use throughline_sim::{Mutant, Plan, Report, crash_after, forget_struck_at, play, tell, template};

/// Simulate the gateway through crashes and faults, and judge it from outside
#[derive(Parser)]
struct Arguments {
    /// How many random worlds
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Only this one, with every word of the verdict
    #[arg(long)]
    seed: Option<u64>,
    /// And everything that was seen in it
    #[arg(long, requires = "seed")]
    tell: bool,
    /// Before that, each fixed plan with a crash after each of its commits
    #[arg(long)]
    plans: bool,
    /// Before that, something is forgotten, and power fails in each operation on the disk
    #[arg(long)]
    forgetting: bool,
    /// Put this deliberate bug in, to see the judges find it
    #[arg(long, value_parser = mutant)]
    mutant: Option<Mutant>,
    /// How many worlds at a time
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    threads: usize,
}

fn mutant(text: &str) -> Result<Mutant, String> {
    let all = Mutant::ALL.iter().copied();
    all.clone().find(|mutant| format!("{mutant:?}").eq_ignore_ascii_case(text)).ok_or_else(|| {
        let names: Vec<_> = all.map(|mutant| format!("{mutant:?}")).collect();
        format!("one of {}", names.join(", "))
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let template = template();
    if let Some(seed) = arguments.seed {
        let play = if arguments.tell { tell } else { play };
        let report = play(seed, &template, arguments.mutant);
        report.story.iter().for_each(|line| println!("{line}"));
        println!("seed {seed}: {} lives, trace {:016x}", report.lives, report.trace);
        report.tally.iter().filter(|(_, n)| **n > 0).for_each(|(what, n)| println!("  {n} {what}"));
        report.wrong.iter().for_each(|wrong| println!("  {wrong}"));
        return if report.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let began = Instant::now();
    let mut wrong = 0;
    if arguments.plans {
        wrong += plans(&template, arguments.mutant);
    }
    if arguments.forgetting {
        wrong += forgetting(&template, arguments.mutant);
    }
    let next = AtomicU64::new(arguments.from);
    let end = arguments.from + arguments.seeds;
    let tally = Mutex::new(BTreeMap::new());
    let failed: Vec<(u64, Report)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.threads.max(1))
            .map(|_| scope.spawn(|| run(&next, end, &template, arguments.mutant, &tally)))
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker reports, it does not panic"))
            .collect()
    });
    for (seed, report) in failed.iter().take(10) {
        println!("seed {seed} ({} lives):", report.lives);
        report.wrong.iter().take(5).for_each(|line| println!("  {line}"));
        println!("  again: cargo run -p throughline-sim --profile ci -- --seed {seed}");
    }
    for (what, times) in tally.into_inner().expect("no worker panicked") {
        println!("{times:>8} {what}");
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{} worlds in {seconds:.1} s, {} with something wrong", arguments.seeds, failed.len());
    if wrong == 0 && failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many of their crash points had something wrong.
fn plans(template: &Image, mutant: Option<Mutant>) -> usize {
    let mut wrong = 0;
    for (name, plan) in Plan::fixed() {
        let reports = (1..).map_while(|nth| crash_after(nth, &plan, template, mutant));
        let points = reports.zip(1..).inspect(|(report, nth)| {
            wrong += usize::from(is_wrong(report, &format!("crash after commit {nth} of the {name}")));
        });
        let points = points.count();
        println!("{points} crash points of the {name}, {wrong} with something wrong so far");
    }
    wrong
}

/// How many operations left something wrong when power failed in them.
fn forgetting(template: &Image, mutant: Option<Mutant>) -> usize {
    let mut wrong = 0;
    for what in Forgotten::ALL {
        let plan = Plan::forgetting(what);
        // A person is the hardest case; the others share its way.
        let every = if what == Forgotten::Person { 1 } else { 7 };
        let operations = (1..).step_by(every);
        let reports =
            operations.map_while(|nth| Some((nth, forget_struck_at(nth, &plan, template, mutant)?)));
        let points = reports.inspect(|(nth, report)| {
            let title = format!("power failed in operation {nth} of forgetting a {what:?}");
            wrong += usize::from(is_wrong(report, &title));
        });
        let points = points.count();
        println!(
            "power failed in {points} operations of forgetting a {what:?}, {wrong} with something wrong so far"
        );
    }
    wrong
}

/// Prints what is wrong, if something is.
fn is_wrong(report: &Report, title: &str) -> bool {
    if report.wrong.is_empty() {
        return false;
    }
    println!("{title}:");
    report.wrong.iter().take(5).for_each(|line| println!("  {line}"));
    true
}

/// Every tenth world is played twice: the same seed must give the same trace.
fn run(
    next: &AtomicU64,
    end: u64,
    template: &Image,
    mutant: Option<Mutant>,
    tally: &Mutex<BTreeMap<&'static str, usize>>,
) -> Vec<(u64, Report)> {
    let mut failed = Vec::new();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return failed;
        }
        let mut report = play(seed, template, mutant);
        if seed.is_multiple_of(10) && play(seed, template, mutant).trace != report.trace {
            report.wrong.push("the same seed gave another trace".into());
        }
        let mut total = tally.lock().expect("no worker panics while it counts");
        report.tally.iter().for_each(|(what, times)| *total.entry(*what).or_default() += times);
        drop(total);
        if !report.wrong.is_empty() {
            failed.push((seed, report));
        }
    }
}
