//! Runs worlds: every crash point of the script, then as many random seeds as asked for.

use clap::Parser;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
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
    for (name, plan) in Plan::fixed() {
        let mut points = 0;
        for nth in 1.. {
            let Some(report) = crash_after(nth, &plan, &template, arguments.mutant) else { break };
            points = nth;
            if !report.wrong.is_empty() {
                wrong += 1;
                println!("crash after commit {nth} of the {name}:");
                report.wrong.iter().take(5).for_each(|line| println!("  {line}"));
            }
        }
        println!("{points} crash points of the {name}, {wrong} with something wrong so far");
    }
    for what in Forgotten::ALL {
        let plan = Plan::forgetting(what);
        let mut points = 0;
        // A person is the hardest case; the others share its way.
        let every = if what == Forgotten::Person { 1 } else { 7 };
        for nth in (1..).step_by(every) {
            let Some(report) = forget_struck_at(nth, &plan, &template, arguments.mutant) else { break };
            points += 1;
            if !report.wrong.is_empty() {
                wrong += 1;
                println!("power failed in operation {nth} of forgetting a {what:?}:");
                report.wrong.iter().take(5).for_each(|line| println!("  {line}"));
            }
        }
        println!(
            "power failed in {points} operations of forgetting a {what:?}, {wrong} with something wrong so far"
        );
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

/// Every tenth world is played twice: the same seed must give the same trace.
fn run(
    next: &AtomicU64,
    end: u64,
    template: &throughline_sim::disk::Image,
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
