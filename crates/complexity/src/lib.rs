//! Whether a function of foreign text is linear: doubling the text costs at most [`DOUBLED_MAX`] times as much.
//!
//! Each function that reads what a stranger wrote is in a table of its crate, one line each: its name, and a call. Every function
//! is tried with every text of `shapes`, on a thread with the stack of the gateway's own workers: a function that calls
//! itself for every bracket does not survive it, and the thread's name says which it was.
//!
//! What is measured is the processor's time of that one thread, the least of several runs. Counting instructions would be
//! steadier, but the counters of the processor are not to be had in most virtual machines, and an emulator that
//! counts is so slow that texts must be short: a search for the next bracket in what is left of a text runs at thirty bytes
//! per step, and its square shows only after a hundred thousand. So a text is chosen that is long enough to keep a linear
//! function busy for a while, and compared with an eighth of it. Three doublings are judged together: a linear function
//! costs 8 times as much, one with a logarithm 10 times, a quadratic one 64 times; the bound lies at 15. What a function costs
//! without any text is taken off both. A machine that does other things as well makes single runs look dear: a suspicion is
//! measured again, and only the least of all runs counts. A tree of small values costs more for each of them once it
//! outgrows the cache, and a linear function looks steeper there: so a suspicion must hold for two doublings more.
//! Nothing but a power of the length exceeds the bound each time.
//!
//! Deliberately absent: a bound on the time itself. It would be one on the machine.

mod shapes;

use shapes::LaboriousText;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What twice the text may cost. A sort or a tree needs a little more than two.
pub const DOUBLED_MAX: f64 = 2.5;

/// How often a length is doubled between the two that are compared.
const DOUBLINGS: u32 = 3;
const LENGTH_MIN: usize = 2 << 10;
/// No text is longer here, however quick the function is.
const LENGTH_MAX: usize = 128 << 10;
/// The same for what is counted.
const COUNT_MIN: usize = 128;
const COUNT_MAX: usize = 16 << 10;
/// Lengths are doubled until a run takes this long: by then the square of one outweighs all else that is done.
const LONG_ENOUGH: Duration = Duration::from_millis(1);
/// And until it takes so many times what the function costs without any text.
const FIXED_PARTS: u32 = 16;
/// What touches each byte for less than this is taken for free: fresh memory for a copy of a long text costs as much,
/// and that of a short one nothing. A look at the whole text for each of its bytes costs thousands of times as much.
const FREE_PER_BYTE: Duration = Duration::from_nanos(12);
/// How often a suspicion is measured again before it counts.
const ATTEMPTS: usize = 8;
/// How many doublings further a suspicion must hold as well.
const FURTHER_DOUBLINGS: u32 = 2;
/// What takes this long is not tried with anything longer.
const TOO_LONG: Duration = Duration::from_secs(1);
/// So many texts show what is wrong with a function; trying the others would take minutes.
const FAULTS_MAX: usize = 4;
/// That of a worker of the runtime.
const STACK_BYTES: usize = 2 << 20;

/// Reads a text, and throws away what comes of it.
pub type ForeignTextReader = fn(&str);

/// Every function of the table is linear on every input. The ones that are not are named, with what they read.
#[track_caller]
pub fn assert_linear(table: &[(&'static str, ForeignTextReader)]) {
    let shapes = shapes::all();
    let chosen = std::env::var("THROUGHLINE_COMPLEXITY").unwrap_or_default(); // a part of a name, to look at one
    let table: Vec<_> = table.iter().filter(|(name, _)| name.contains(&chosen)).collect();
    let next = AtomicUsize::new(0);
    let (found, faults) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let found = found.clone();
            scope.spawn(|| {
                let found = found; // one sender per thread
                while let Some((name, read)) = table.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let fixed = (0..3).map(|_| cost(|| read(""))).min().unwrap_or_default();
                    let faults = shapes.iter().filter_map(|shape| judged(name, *read, fixed, shape));
                    faults.take(FAULTS_MAX).for_each(|fault| _ = found.send((*name, fault)));
                }
            });
        }
    });
    drop(found);
    let mut by_name: BTreeMap<_, Vec<_>> = BTreeMap::new();
    faults.into_iter().for_each(|(name, fault)| by_name.entry(name).or_default().push(fault));
    let lines: Vec<_> = by_name
        .into_iter()
        .map(|(name, mut faults)| {
            faults.sort_by(|one, other| other.0.total_cmp(&one.0));
            let told = faults.iter().map(|(_, words)| format!("\n    {words}"));
            format!("{name}:{}", told.collect::<String>())
        })
        .collect();
    assert!(
        lines.is_empty(),
        "these cost more than {DOUBLED_MAX} times as much for twice the text:\n{}",
        lines.join("\n")
    );
}

/// The same for what is not a text: `prepared` makes something of a size, and what it returns is measured.
#[track_caller]
pub fn assert_linear_in_count<Run: FnOnce()>(name: &str, prepared: impl Fn(usize) -> Run + Sync) {
    let fault = on_a_small_stack(name.to_owned(), || {
        cost(prepared(COUNT_MIN)); // what is only made once is made here
        growth(COUNT_MIN, COUNT_MAX, Duration::ZERO, |size| cost(prepared(size)))
    });
    if let Err((per_doubling, words)) = fault {
        panic!("{name} costs {per_doubling:.1} times as much for twice as many: {words}");
    }
}

fn judged(
    name: &str,
    read: ForeignTextReader,
    fixed: Duration,
    shape: &LaboriousText,
) -> Option<(f64, String)> {
    let measured = on_a_small_stack(format!("{name}: {}", shape.name()), || {
        growth(LENGTH_MIN, LENGTH_MAX, fixed, |length| {
            let text = shape.text(length);
            cost(|| read(&text))
        })
    });
    measured.err().map(|(per_doubling, words)| (per_doubling, format!("{}: {words}", shape.name())))
}

/// A thread that runs out of stack says its name, and ends the process.
fn on_a_small_stack<T: Send>(name: String, run: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let name: String = name.chars().filter(|character| *character != '\0').collect();
        let builder = thread::Builder::new().name(name.clone()).stack_size(STACK_BYTES);
        let running = builder.spawn_scoped(scope, run).expect("a thread starts");
        running.join().unwrap_or_else(|_| panic!("{name}: it panicked"))
    })
}

/// Err with what one doubling costs, and the measurements in words. `fixed` is what it costs without anything to read.
fn growth(
    least: usize,
    most: usize,
    fixed: Duration,
    cost: impl Fn(usize) -> Duration,
) -> Result<(), (f64, String)> {
    let least_cost = cost(least);
    let long_enough = LONG_ENOUGH.max(fixed * FIXED_PARTS);
    // Where a linear function would take long enough; and further, if it does not.
    let mut large = least << DOUBLINGS;
    let mut expected = least_cost.saturating_sub(fixed) * (1 << DOUBLINGS);
    while large < most && expected < long_enough {
        (large, expected) = (large * 2, expected * 2);
    }
    let mut of_large = cost(large);
    while large < most && of_large < long_enough {
        large *= 2;
        of_large = cost(large);
    }
    let small = large >> DOUBLINGS;
    let free = FREE_PER_BYTE.saturating_mul(u32::try_from(small).unwrap_or(u32::MAX));
    let mut attempts = 0;
    loop {
        // Other work of the machine can make one of them look dear: the least of several runs is what it costs.
        let of_small = (0..3).map(|_| cost(small)).min().unwrap_or_default();
        // A text that is refused at once may cost less than none at all: only a part is taken off in any case.
        let fixed = fixed.min(of_small / 4);
        let ratio =
            (of_large - fixed.min(of_large)).as_secs_f64() / (of_small - fixed).max(free).as_secs_f64();
        let per_doubling = ratio.powf(1.0 / f64::from(DOUBLINGS));
        if per_doubling <= DOUBLED_MAX {
            return Ok(());
        }
        if attempts == ATTEMPTS {
            if of_large < TOO_LONG && !grows_further(large, of_large, &cost) {
                return Ok(());
            }
            let words = format!(
                "{per_doubling:.2} per doubling ({of_small:?} for {small}, {of_large:?} for {large})"
            );
            return Err((per_doubling, words));
        }
        attempts += 1;
        of_large = of_large.min(cost(large));
    }
}

/// Whether texts that are longer still cost too much as well, measured as often as it takes to see that they do not.
fn grows_further(large: usize, of_large: Duration, cost: &impl Fn(usize) -> Duration) -> bool {
    let bound = of_large.mul_f64(DOUBLED_MAX.powf(f64::from(FURTHER_DOUBLINGS)));
    (0..ATTEMPTS).all(|_| cost(large << FURTHER_DOUBLINGS) > bound)
}

fn cost(run: impl FnOnce()) -> Duration {
    let begun = clock::now();
    run();
    clock::now().saturating_sub(begun)
}

#[cfg(unix)]
mod clock {
    use rustix::time::{ClockId, clock_gettime};
    use std::time::Duration;

    /// How long this thread has had a processor.
    pub fn now() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
    }
}

#[cfg(not(unix))]
mod clock {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

    pub fn now() -> Duration {
        BEGUN.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn what_is_linear_passes() {
        assert_linear(&[
            ("count", |text| _ = black_box(text.chars().filter(|letter| *letter == 'a').count())),
            ("sort", |text| {
                let mut words: Vec<_> = text.split(' ').collect();
                words.sort_unstable();
                black_box(words);
            }),
        ]);
    }

    #[test]
    #[should_panic(expected = "next_quote:")]
    fn a_search_for_what_never_comes_is_found_out() {
        assert_linear(&[("next_quote", |text| {
            text.match_indices('(').for_each(|(at, _)| _ = black_box(text[at..].find(')')));
        })]);
    }

    #[test]
    #[should_panic(expected = "after_a_while:")]
    fn a_square_is_found_out_beside_what_costs_the_same_for_every_text() {
        assert_linear(&[("after_a_while", |text| {
            (0..200_000_u64).for_each(|number| _ = black_box(number));
            text.match_indices('(').for_each(|(at, _)| _ = black_box(text[at..].find(')')));
        })]);
    }

    #[test]
    #[should_panic(expected = "for_a_mark:")]
    fn what_only_one_kind_of_text_provokes_is_found_out() {
        assert_linear(&[("for_a_mark", |text| {
            for (at, _) in text.match_indices("<think>") {
                _ = black_box(text[at..].matches("</think>").count());
            }
        })]);
    }

    /// A clock of our own: what a run costs is said, and no machine has a part in it.
    fn judge(cost: impl Fn(u64, usize) -> u64) -> bool {
        let run = std::cell::Cell::new(0);
        let measured = growth(LENGTH_MIN, LENGTH_MAX, Duration::from_micros(50), |length| {
            run.set(run.get() + 1);
            Duration::from_nanos(50_000 + cost(length as u64, run.get()))
        });
        measured.is_ok()
    }

    #[test]
    fn the_bound_lies_between_a_logarithm_and_a_power_of_one_and_a_half() {
        assert!(judge(|length, _| length * 40));
        assert!(judge(|length, _| length * 4 * u64::from(length.ilog2())));
        assert!(!judge(|length, _| length * length.isqrt()));
        assert!(!judge(|length, _| length * length / 32));
        assert!(!judge(|length, _| length * 20 + length * length / 32));
    }

    #[test]
    fn what_outgrows_the_cache_costs_more_and_is_linear_all_the_same() {
        // Three times as much for each byte of what no cache holds.
        assert!(judge(|length, _| length * 40 * if length < 30_000 { 1 } else { 3 }));
        assert!(judge(|length, _| length * if length < 10_000 { 40 } else { 120 }));
        assert!(!judge(|length, _| length * length / 32 * if length < 30_000 { 1 } else { 3 }));
    }

    #[test]
    fn a_machine_that_is_busy_now_and_then_makes_nothing_quadratic() {
        for quiet in 3..=8_usize {
            // Of eight runs, so many are as they should be, in no order; the others take a hundred times as long.
            let is_quiet = |run: usize| (run.wrapping_mul(0x9e37_79b9) >> 16) % 8 < quiet;
            assert!(judge(|length, run| length * 40 * if is_quiet(run) { 1 } else { 100 }), "{quiet}");
            assert!(judge(|length, run| length * 40 + if is_quiet(run) { 0 } else { 20_000_000 }), "{quiet}");
        }
    }

    #[test]
    #[should_panic(expected = "times as much for twice as many")]
    fn a_list_that_is_searched_for_each_of_its_items_is_found_out() {
        assert_linear_in_count("distinct", |count| {
            move || {
                let mut seen = Vec::new();
                (0..count).for_each(|number| match seen.contains(&number) {
                    true => {}
                    false => seen.push(number),
                });
                black_box(seen);
            }
        });
    }
}
