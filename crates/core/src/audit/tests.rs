use super::*;
use proptest::prelude::*;

const A: &str = "20260528_093510_66bfaec7";
const B: &str = "20260528_155201_68dc5996";

/// A log that is written line by line, a second apart.
#[derive(Clone, Default)]
struct Log(Vec<Entry>);

impl Log {
    fn add(&mut self, news: News) -> &mut Self {
        let line = self.0.len() as u64 + 1;
        let place = Place { file: 0, line };
        self.0.push(Entry { place, at: Some(Time(line as i64 * 1_000_000)), news });
        self
    }

    fn began(&mut self) -> &mut Self {
        self.add(News::Began)
    }

    fn says(&mut self, session: &str, operation: &str, step: Step) -> &mut Self {
        let operation = (!operation.is_empty()).then(|| operation.to_owned());
        let (context, session) = (Some(session.to_owned()), session.to_owned());
        self.add(News::Compression(Report { agent: None, context, session, operation, step }))
    }

    fn started(&mut self, session: &str, operation: &str) -> &mut Self {
        self.says(session, operation, Step::Started { messages: Some(100), tokens: Some(50_000) })
    }

    fn started_with(&mut self, session: &str, operation: &str, messages: u64, tokens: u64) -> &mut Self {
        self.says(session, operation, Step::Started { messages: Some(messages), tokens: Some(tokens) })
    }

    fn done(&mut self, session: &str, operation: &str) -> &mut Self {
        let snapshot = format!("{session}.snapshot.20260528T0935{:04}Z", self.0.len());
        self.says(
            session,
            operation,
            Step::Done { messages: Some(100), left: None, snapshot: Some(snapshot) },
        )
    }

    /// By somebody who names no operations and makes no snapshots.
    fn unnamed(&mut self, context: &str, session: &str, step: Step) -> &mut Self {
        let (context, session) = (Some(context).filter(|context| !context.is_empty()), session.to_owned());
        let context = context.map(str::to_owned);
        self.add(News::Compression(Report { agent: None, context, session, operation: None, step }))
    }

    fn report(&mut self, line: usize) -> &mut Report {
        match &mut self.0[line - 1].news {
            News::Compression(report) => report,
            News::Began => panic!("line {line} is not about compression"),
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let mut audit = Audit::default();
        let mut findings: Vec<Finding> = self.0.iter().flat_map(|entry| audit.read(entry)).collect();
        findings.extend(audit.finish().0);
        findings
    }

    /// Kinds, and the lines that show them.
    fn found(&self) -> Vec<(Kind, Vec<u64>)> {
        let lines = |finding: &Finding| finding.places.iter().map(|place| place.line).collect();
        self.findings().iter().map(|finding| (finding.kind, lines(finding))).collect()
    }
}

fn start(messages: u64) -> Step {
    Step::Started { messages: Some(messages), tokens: Some(50_000) }
}

fn done(messages: u64) -> Step {
    Step::Done { messages: Some(messages), left: None, snapshot: None }
}

fn clean() -> Log {
    let mut log = Log::default();
    log.began().started(A, "a1").started(B, "b1").done(A, "a1").done(B, "b1");
    log.started(A, "a2").says(A, "a2", Step::Failed).started(A, "a3").done(A, "a3");
    log.says(B, "b2", Step::Skipped)
        .started(B, "b2")
        .says(B, "b2", Step::Stale)
        .started(B, "b3")
        .done(B, "b3");
    log
}

#[test]
fn p13_sessions_that_take_turns_beside_each_other_are_clean() {
    assert_eq!(clean().found(), []);
}

#[test]
fn p13_a_mutant_of_a_clean_log_is_caught() {
    type Mutation = fn(&mut Log);
    let mutants: [(&str, Mutation, Kind, &[u64]); 10] = [
        ("the id rotates", |log| log.report(4).session = "new".into(), Kind::IdChanged, &[2, 4]),
        (
            "the id rotates, and nothing tells whose it was",
            |log| {
                let report = log.report(4);
                (report.session, report.operation) = ("new".into(), Some("n1".into()));
                report.context = Some("new".into());
            },
            Kind::IdChanged,
            &[4],
        ),
        (
            "another session is compressed",
            |log| log.report(4).context = Some(B.into()),
            Kind::ForeignContext,
            &[4],
        ),
        (
            "a start names another context",
            |log| log.report(2).context = Some(B.into()),
            Kind::ForeignContext,
            &[2],
        ),
        ("a start names no context", |log| log.report(2).context = None, Kind::ForeignContext, &[2]),
        ("a done is dropped", |log| drop(log.0.remove(3)), Kind::Unpaired, &[2, 6]),
        ("a start is dropped", |log| drop(log.0.remove(7)), Kind::Unpaired, &[9]),
        ("one begins before the last has ended", |log| log.0.swap(3, 5), Kind::Overlap, &[2, 4, 6]),
        ("one is done twice", |log| log.0.insert(8, log.0[3].clone()), Kind::Unpaired, &[4, 4]),
        (
            "the snapshot is another session's",
            |log| {
                let snapshot = Some(format!("{B}.snapshot.20260528T093510000000Z"));
                log.report(4).step = Step::Done { messages: Some(100), left: None, snapshot };
            },
            Kind::ForeignSnapshot,
            &[4],
        ),
    ];
    for (name, mutate, kind, lines) in mutants {
        let mut log = clean();
        mutate(&mut log);
        let found = log.found();
        assert!(found.iter().any(|(found, at)| *found == kind && at == lines), "{name}: {found:?}");
    }
}

#[test]
fn p13_a_crash_is_no_violation() {
    type Story = fn(&mut Log);
    let crashes: [Story; 6] = [
        // taken up again, as the same operation, as often as processes end
        |log| {
            log.started(A, "1")
                .began()
                .started(A, "1")
                .began()
                .started(A, "1")
                .began()
                .started(A, "1")
                .done(A, "1");
        },
        // ready before the crash, and in place before anybody said so once more
        |log| {
            log.started(A, "1").began().done(A, "1").started(A, "2");
        },
        // the line of its end was lost in the crash
        |log| {
            log.started(A, "1").began().started(A, "2").done(A, "2");
        },
        // the line of its beginning was
        |log| {
            log.began().started(A, "1").done(A, "1").started(A, "2").done(A, "2");
        },
        // its actor was rested and woken, or fell over
        |log| {
            log.started(A, "1").started(A, "1").started(A, "1").started(A, "1").started(A, "1").done(A, "1");
        },
        // in flight when the log ends
        |log| {
            log.started(A, "1").began().started(A, "1").started(B, "1b");
        },
    ];
    for (nth, crash) in crashes.into_iter().enumerate() {
        let mut log = Log::default();
        crash(log.began());
        assert_eq!(log.found(), [], "crash {nth}");
    }
}

#[test]
fn an_operation_counts_once_however_often_it_is_taken_up() {
    let mut log = Log::default();
    log.began().started(A, "1").began().started(A, "1").started(B, "2").done(A, "1");
    let mut audit = Audit::default();
    log.0.iter().for_each(|entry| assert_eq!(audit.read(entry), []));
    let (_, tally) = audit.finish();
    assert_eq!(tally, Tally { started: 2, done: 1, open: 1, processes: 2, ..Tally::default() });
}

#[test]
fn p13_a_crash_excuses_nothing_else() {
    let mut log = Log::default();
    log.began().started(A, "1").started(A, "2").began().started(A, "2").done(A, "2").done(A, "1");
    assert_eq!(log.found(), [(Kind::Unpaired, vec![2, 3]), (Kind::Unpaired, vec![7])]);

    let mut log = Log::default();
    log.began().started(A, "1").done(A, "1").began().started(A, "1");
    assert_eq!(log.found(), [(Kind::Unpaired, vec![3, 5])], "what is done is committed");

    let mut log = Log::default();
    log.began().started(A, "1").done(A, "1").began().done(A, "2").began().done(B, "3");
    assert_eq!(log.found(), [(Kind::Unpaired, vec![5]), (Kind::IdChanged, vec![7])], "nobody said it began");

    let mut log = Log::default();
    log.began().started(A, "1").began().done(B, "1");
    assert_eq!(log.found(), [(Kind::IdChanged, vec![2, 4])]);
}

#[test]
fn a_log_may_begin_anywhere() {
    for nth in 0..clean().0.len() {
        let log = Log(clean().0.split_off(nth));
        assert_eq!(log.found(), [], "without its first {nth} lines");
    }
}

#[test]
fn sessions_of_the_same_name_are_told_apart_by_their_agent() {
    let mut log = Log::default();
    log.began().started(A, "1").started(A, "1").done(A, "1").done(A, "1");
    assert_eq!(log.found(), [(Kind::Unpaired, vec![4, 5])]);
    for (line, agent) in [(2, "ada"), (3, "bob"), (4, "ada"), (5, "bob")] {
        log.report(line).agent = Some(agent.into());
    }
    let Step::Done { snapshot, .. } = &mut log.report(5).step else { panic!() };
    *snapshot = Some(format!("{A}.snapshot.20260528T093500000000Z"));
    assert_eq!(log.found(), []);
}

#[test]
fn snapshots_only_become_later() {
    let mut log = Log::default();
    log.began().started(A, "1").done(A, "1").started(A, "2").done(A, "2");
    let Step::Done { snapshot, .. } = log.report(3).step.clone() else { panic!() };
    log.report(5).step = Step::Done { messages: Some(100), left: None, snapshot };
    assert_eq!(log.found(), [(Kind::ForeignSnapshot, vec![5])]);
}

#[test]
fn a_context_that_is_full_again_at_once_with_half_the_messages_is_a_discontinuity() {
    for (messages, tokens, later, is_one) in [
        (39, 143_661, 43, true),
        (77, 131_000, 120, true),
        (78, 143_661, 43, false),  // as many messages: it simply grew
        (39, 130_000, 43, false),  // not full yet
        (39, 143_661, 121, false), // later
    ] {
        let mut log = Log::default();
        log.began().started_with(A, "1", 156, 145_003).done(A, "1").started_with(A, "2", messages, tokens);
        log.0[3].at = log.0[2].at.map(|at| at.plus(Duration::from_secs(later)));
        let expected = if is_one { vec![(Kind::Discontinuity, vec![3, 4])] } else { vec![] };
        assert_eq!(log.found(), expected, "{messages} messages, {tokens} tokens after {later} s");
    }
}

// ------------------------------------------------------------------- writers without operations

#[test]
fn p13_without_names_a_changed_id_is_found_by_context_or_size() {
    let mut log = Log::default();
    log.unnamed(A, A, start(194)).unnamed(A, "new", done(194));
    assert_eq!(log.found(), [(Kind::IdChanged, vec![1, 2])]);
    assert_eq!(log.findings()[0].sessions, [A, "new"]);

    // a second pass in the same turn goes on in the old context: the same fault, not another one
    log.unnamed(A, "new", start(120)).unnamed(A, "newer", done(120));
    assert_eq!(log.found(), [(Kind::IdChanged, vec![1, 2]), (Kind::IdChanged, vec![3, 4])]);

    // no context at all
    let mut log = Log::default();
    log.unnamed("", A, start(194)).unnamed("", "new", done(194));
    assert_eq!(log.found(), [(Kind::IdChanged, vec![1, 2])]);

    // its beginning is not in the log
    let mut log = Log::default();
    log.unnamed(A, "new", done(194));
    assert_eq!(log.found(), [(Kind::IdChanged, vec![1])]);
    let mut log = Log::default();
    log.unnamed(A, A, done(194));
    assert_eq!(log.found(), [], "begun before the log");
}

#[test]
fn p13_without_names_a_foreign_context_counts_once_for_an_operation() {
    let mut log = Log::default();
    log.unnamed(A, B, start(39)).unnamed(A, B, done(39)).unnamed(A, A, start(194)).unnamed(A, A, done(194));
    assert_eq!(log.found(), [(Kind::ForeignContext, vec![1])]);
    let mut log = Log::default();
    log.unnamed("", B, start(39)).unnamed("", B, done(39));
    assert_eq!(log.found(), [], "no context names nobody");
}

#[test]
fn p13_without_names_an_overlap_needs_both_ends() {
    let mut log = Log::default();
    log.unnamed(A, A, start(50)).unnamed(A, A, start(52)).unnamed(A, A, done(50)).unnamed(A, A, done(52));
    assert_eq!(log.found(), [(Kind::Overlap, vec![1, 2, 3, 4])]);
    let mut log = Log::default();
    log.unnamed(A, A, start(50)).unnamed(A, A, start(52)).unnamed(A, A, done(52)).unnamed(A, A, done(50));
    assert_eq!(log.found(), [(Kind::Overlap, vec![1, 2, 4])]);
    // a failure has no line of its own
    let mut log = Log::default();
    log.unnamed(A, A, start(50)).unnamed(A, A, start(50)).unnamed(A, A, done(50));
    log.unnamed(A, A, start(50)).unnamed(A, A, done(50));
    assert_eq!(log.found(), []);
    // the second one kept out of the way
    let mut log = Log::default();
    log.unnamed(A, A, start(50)).unnamed(A, A, start(52)).unnamed(A, A, Step::Skipped).unnamed(
        A,
        A,
        done(50),
    );
    assert_eq!(log.found(), []);
}

#[test]
fn without_names_what_failed_long_ago_is_not_paired_with_today() {
    let mut log = Log::default();
    log.unnamed(A, A, start(50)).unnamed(A, "new", done(50));
    log.0[1].at = Some(Time(3_600_000_000));
    assert_eq!(log.found(), [(Kind::IdChanged, vec![2])], "a new id, but not the old start");
}

// ------------------------------------------------------------------------------------ properties

/// What real writers do: one compression at a time in each session, any number of sessions, crashes that
/// cost the last line, in any order.
#[derive(Clone, Debug)]
enum Move {
    Start(usize),
    Again(usize),
    End(usize, u8),
    Crash { is_line_lost: bool },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => (0..4usize).prop_map(Move::Start),
        1 => (0..4usize).prop_map(Move::Again),
        4 => (0..4usize, 0..4u8).prop_map(|(session, how)| Move::End(session, how)),
        1 => any::<bool>().prop_map(|is_line_lost| Move::Crash { is_line_lost }),
    ];
    prop::collection::vec(one, 0..120)
}

fn played(moves: &[Move]) -> Log {
    let mut log = Log::default();
    log.began();
    let mut numbers = [0u64; 4];
    let mut in_flight = [false; 4];
    let mut announced = [false; 4]; // by this process
    for step in moves {
        match *step {
            Move::Start(nth) if !in_flight[nth] => {
                numbers[nth] += 1;
                (in_flight[nth], announced[nth]) = (true, true);
                log.started(&format!("s{nth}"), &format!("s{nth}-{}", numbers[nth]));
            }
            Move::Again(nth) if in_flight[nth] => {
                announced[nth] = true;
                log.started(&format!("s{nth}"), &format!("s{nth}-{}", numbers[nth]));
            }
            Move::End(nth, how) if in_flight[nth] => {
                let (session, operation) = (format!("s{nth}"), format!("s{nth}-{}", numbers[nth]));
                if !announced[nth] {
                    log.started(&session, &operation);
                }
                in_flight[nth] = false;
                match how {
                    0 => log.says(&session, &operation, Step::Failed),
                    1 => log.says(&session, &operation, Step::Stale),
                    _ => log.done(&session, &operation),
                };
            }
            Move::Crash { is_line_lost } => {
                let is_report = |entry: &Entry| entry.news != News::Began;
                if is_line_lost && log.0.last().is_some_and(is_report) {
                    log.0.pop();
                }
                log.began();
                announced = [false; 4];
            }
            _ => {}
        }
    }
    log
}

proptest! {
    #[test]
    fn p13_whatever_correct_writers_do_is_clean(moves in moves(), cut in 0..40usize) {
        let log = played(&moves);
        prop_assert_eq!(log.found(), []);
        let cut = cut.min(log.0.len());
        prop_assert_eq!(Log(log.0[cut..].to_vec()).found(), []);
    }

    #[test]
    fn p13_an_id_that_changes_is_always_found(moves in moves(), pick in any::<prop::sample::Index>()) {
        let mut log = played(&moves);
        let is_done = |entry: &Entry| matches!(&entry.news, News::Compression(Report { step: Step::Done { .. }, .. }));
        let lives: Vec<usize> = (1..=log.0.len()).filter(|line| is_done(&log.0[line - 1])).collect();
        prop_assume!(!lives.is_empty());
        let line = lives[pick.index(lives.len())];
        log.report(line).session = "another".into();
        prop_assert!(log.found().iter().any(|(kind, lines)| *kind == Kind::IdChanged && lines.contains(&(line as u64))));
    }

    #[test]
    fn nonsense_is_judged_without_a_panic(lines in prop::collection::vec((0..3u8, 0..4u8, 0..6u8, 0..5u8, any::<u64>()), 0..200)) {
        let mut log = Log::default();
        for (context, session, operation, step, number) in lines {
            if step == 4 && number % 7 == 0 {
                log.began();
                continue;
            }
            let step = match step {
                0 | 1 => Step::Started { messages: Some(number), tokens: Some(number) },
                2 => Step::Done { messages: Some(number), left: None, snapshot: Some(number.to_string()) },
                3 => Step::Skipped,
                _ => Step::Stale,
            };
            let operation = (operation > 0).then(|| operation.to_string());
            let (context, session) = ((context > 0).then(|| context.to_string()), session.to_string());
            log.add(News::Compression(Report { agent: None, context, session, operation, step }));
        }
        log.findings();
    }
}

#[test]
fn memory_is_bounded_and_what_was_forgotten_is_held_against_nobody() {
    let mut audit = Audit::default();
    audit.read(&Entry { place: Place::default(), at: None, news: News::Began });
    let mut log = Log::default();
    log.started(A, "first");
    for nth in 0..=SESSIONS_MAX {
        log.started(&format!("s{nth}"), &format!("o{nth}"));
    }
    log.done(A, "first");
    let findings: Vec<Finding> = log.0.iter().flat_map(|entry| audit.read(entry)).collect();
    assert_eq!(findings, []);
    assert!(audit.threads.len() <= SESSIONS_MAX && audit.operations.len() <= SESSIONS_MAX);
}
