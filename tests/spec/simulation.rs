//! The gateway in a world that crashes. `cargo run -p throughline-sim` plays many more of these.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use throughline_core::session::BusyInput;
use throughline_sim::disk::Image;
use throughline_sim::plan::{BURST, ForgettingPlan, Forgotten, Trouble};
use throughline_sim::{
    Crash, Mutant, Plan, Report, World, audited, crash_after, forget_struck_at, play, template,
};

/// Plays a fixed plan with a crash between every two of its commits. Returns how many there were.
fn crash_everywhere(plan: &Plan) -> u64 {
    let template = template();
    let mut points = 0;
    for nth in 1.. {
        let Some(report) = crash_after(nth, plan, &template, None) else { break }; // every commit has had its turn
        assert_eq!(report.wrong, [""; 0], "crash after commit {nth}");
        points = nth;
    }
    points
}

/// Three calls that count and one that ends the process, side by side in one turn; a call that needs a
/// yes; a letter; a task for another session.
#[test]
fn p7_p8_p9_p10_a_crash_after_any_commit_loses_doubles_and_reorders_nothing() {
    let points = crash_everywhere(&Plan::script());
    assert!(points > 70, "the script makes more commits than {points}");
}

#[test]
fn p4_p9_p31_stops_questions_and_calls_that_kill_survive_a_crash_after_any_commit() {
    let points = crash_everywhere(&Plan::orders());
    assert!(points > 50, "the orders make more commits than {points}");
}

/// A client with a tool of its own, which once goes on without bringing what it was asked for.
#[test]
fn p9_calls_left_to_a_client_are_answered_once_through_a_crash_after_any_commit() {
    let points = crash_everywhere(&Plan::client_tools());
    assert!(points > 20, "the client tools make more commits than {points}");
    let report = World::new(5, Plan::client_tools(), &template(), None).play();
    for what in ["calls that clients ran", "calls that clients left behind"] {
        assert!(report.tally[what] > 0, "{what}: {:?}", report.tally);
    }
    let (plan, template) = (Plan::client_tools(), template());
    let crashed = |nth| crash_after(nth, &plan, &template, Some(Mutant::ForgetLeave));
    let is_caught = |report: Report| !report.wrong.is_empty();
    assert!(
        (1..=points).filter_map(crashed).any(is_caught),
        "no judge noticed that it was forgotten whose call it is"
    );
}

/// Calls that ask a person while they run: nothing that was answered before a crash is answered again after it.
#[test]
fn p9_p31_what_a_server_asks_is_answered_once_through_a_crash_after_any_commit() {
    let points = crash_everywhere(&Plan::interview());
    assert!(points > 30, "the interview makes more commits than {points}");
    let answered: usize = (0..5)
        .map(|seed| World::new(seed, Plan::interview(), &template(), None).play())
        .inspect(|report| assert_eq!(report.wrong, [""; 0]))
        .filter_map(|report| report.tally.get("questions of servers answered").copied())
        .sum();
    assert!(answered > 5, "{answered} answers");
}

/// What programs may not decide. The owner says yes, no or nothing, in private; another person, who knows the codes, says yes.
#[test]
fn p31_the_owner_alone_answers_what_programs_ask_through_a_crash_after_any_commit() {
    let points = crash_everywhere(&Plan::owned());
    assert!(points > 40, "the owner's plan makes more commits than {points}");
    let template = template();
    let mut tally = BTreeMap::new();
    for seed in 0..10 {
        let report = World::new(seed, Plan::owned(), &template, None).play();
        assert_eq!(report.wrong, [""; 0], "seed {seed}");
        report.tally.into_iter().for_each(|(what, times)| *tally.entry(what).or_insert(0) += times);
    }
    for what in [
        "calls of programs that the owner allowed",
        "calls of programs that the owner refused",
        "calls of programs without an answer of the owner",
        "answers of other people",
    ] {
        assert!(tally.get(what).is_some_and(|times| *times > 2), "{what}: {tally:?}");
    }
    for mutant in [Mutant::AnyPersonAnswers, Mutant::AskAnotherPerson] {
        let mut reports = (0..10).map(|seed| World::new(seed, Plan::owned(), &template, Some(mutant)).play());
        assert!(reports.any(|report| !report.wrong.is_empty()), "no judge noticed {mutant:?}");
    }
}

#[test]
fn p6_silence_holds_through_a_crash_after_any_commit_until_it_is_lifted() {
    let points = crash_everywhere(&Plan::silence());
    assert!(points > 60, "the silence makes more commits than {points}");
}

#[test]
fn p6_p8_a_message_into_the_silence_is_answered_through_a_crash_after_any_commit() {
    let points = crash_everywhere(&Plan::voice());
    assert!(points > 5, "the voice makes more commits than {points}");
}

#[test]
fn p6_agents_that_answer_each_other_stop_with_one_notice_and_the_next_line_is_answered() {
    let points = crash_everywhere(&Plan::chatter());
    assert!(points > 40, "the chatter makes more commits than {points}");
    let (template, seed) = (template(), 7);
    let report = World::new(seed, Plan::chatter(), &template, None).play();
    assert_eq!(report.wrong, [""; 0]);
    assert!(report.tally["chains cut"] > 0, "one notice for each chain, says the judge");
}

#[test]
fn p20_ends_are_handed_over_once_through_a_crash_after_any_commit() {
    let points = crash_everywhere(&Plan::seasons());
    assert!(points > 60, "the seasons make more commits than {points}");
    let report = World::new(3, Plan::seasons(), &template(), None).play();
    for what in ["resets", "hand-overs", "hooks without luck"] {
        assert!(report.tally[what] > 0, "{what}: {:?}", report.tally);
    }
}

#[test]
fn p4_what_people_do_to_the_past_survives_a_crash_after_any_commit() {
    let points = crash_everywhere(&Plan::past());
    assert!(points >= 40, "the script has become shorter: {points} commits");
}

/// What fell due is over once, was about what the turn had been asked, byte by byte, and delayed no turn.
#[test]
fn p22_reviews_survive_a_crash_after_any_commit_and_no_turn_waits_for_them() {
    let points = crash_everywhere(&Plan::retrospect());
    assert!(points > 40, "the script has become shorter: {points} commits");
    let report = World::new(5, Plan::retrospect(), &template(), None).play();
    assert!(report.tally["reviews done"] >= 4, "{:?}", report.tally);
}

/// Long lines wait with their texts on disk: they are read when their turn begins, and copied where they move on to the
/// next session.
#[test]
fn p8_long_messages_wait_on_disk_through_a_crash_after_any_commit() {
    let points = crash_everywhere(&Plan::backlog());
    assert!(points > 15, "the backlog makes more commits than {points}");
    let report = World::new(3, Plan::backlog(), &template(), None).play();
    assert_eq!(report.wrong, [""; 0]);
    assert!(report.tally["messages that waited on disk"] > 0, "{:?}", report.tally);
}

/// Each picture of an album is a message, and the agent is reminded of something while they come in. The model hears of
/// all of them at once, and is asked once.
#[test]
fn p8_p9_an_album_is_one_question_through_a_crash_after_any_commit() {
    let points = crash_everywhere(&Plan::albums());
    assert!(points > 40, "the albums make more commits than {points}");
    let report = World::new(3, Plan::albums(), &template(), None).play();
    assert_eq!(report.wrong, [""; 0]);
    assert_eq!(report.tally["albums"], 3, "{:?}", report.tally);
}

/// The gateway is stopped, a person, a chat or a session is forgotten, and power fails in the middle of any operation on
/// the disk. The next start finishes it: of what was forgotten no byte is left, and of everything else nothing is gone.
#[test]
fn p31_p35_what_is_forgotten_is_gone_and_nothing_else_whenever_power_fails() {
    let template = template();
    for what in Forgotten::ALL {
        let plan = Plan::forgetting(what);
        let whole = World::new(1, plan.clone(), &template, None).play();
        assert_eq!(whole.wrong, [""; 0], "{what:?}");
        assert!(
            whole.tally["words forgotten"] > 2 && whole.tally["words of others"] > 2,
            "{:?}",
            whole.tally
        );
        // `throughline-sim --forgetting`, which the checks run, plays all of them.
        let every = if what == Forgotten::Person { 9 } else { 23 };
        let struck =
            (1..).step_by(every).map_while(|nth| Some((nth, forget_struck_at(nth, &plan, &template, None)?)));
        let points = struck
            .inspect(|(nth, report)| assert_eq!(report.wrong, [""; 0], "{what:?}, operation {nth}"))
            .count();
        assert!(
            points * every > 100,
            "forgetting a {what:?} makes more operations than {points} times {every}"
        );
    }
}

/// Power fails twice before it is done, and the gateway ends again while the memory provider deletes its part.
#[test]
fn p26_p31_what_a_provider_is_to_delete_is_deleted_through_crashes() {
    let template = template();
    for seed in 0..30 {
        let what = Forgotten::ALL[seed as usize % 3];
        let mut plan = Plan::forgetting(what);
        plan.forgetting = plan.forgetting.map(|forgetting| ForgettingPlan {
            strikes: vec![1 + 7 * seed, 1 + 3 * seed],
            crashes: vec![Crash::AfterCommit(2 + seed / 2), Crash::AfterCommit(3 + seed / 3)],
            ..forgetting
        });
        let report = World::new(seed, plan, &template, None).play();
        assert_eq!(report.wrong, [""; 0], "seed {seed}");
        assert!(report.crashes > 0, "seed {seed}");
    }
}

/// Set forward, set back, and wrong at each start: conversations end all the same, questions are not waited for until a
/// date that lies years ahead, and nothing is lost or doubled.
#[test]
fn p7_p8_p10_p20_a_clock_that_jumps_costs_nothing_through_a_crash_after_any_commit() {
    let points = crash_everywhere(&Plan::clock());
    assert!(points > 60, "the clock makes more commits than {points}");
    let template = template();
    let mut resets = 0;
    for seed in 0..20 {
        let report = World::new(seed, Plan::clock(), &template, None).play();
        assert_eq!(report.wrong, [""; 0], "seed {seed}");
        resets += report.tally["resets"];
    }
    assert!(resets > 20, "a conversation ends although its clock was set back: {resets}");
}

/// "Later" says of one attempt that it was not shown, not of those before it.
#[test]
fn p10_a_reply_that_was_shown_says_so_when_it_comes_again_also_after_later_answers() {
    let template = template();
    let mut marked = 0;
    for seed in 0..30 {
        let report = World::new(seed, Plan::trouble(), &template, None).play();
        assert_eq!(report.wrong, [""; 0], "seed {seed}");
        marked += report.tally["replies marked"];
    }
    assert!(marked > 20, "a preview that was taken away is rare: {marked}");
    let points = crash_everywhere(&Plan::trouble());
    assert!(points > 5, "the trouble makes more commits than {points}");
}

#[test]
fn p10_a_platform_that_is_out_for_an_hour_and_a_half_costs_no_reply() {
    let mut plan = Plan::trouble();
    plan.platforms.troubles = vec![Trouble::Later; 14];
    let report = World::new(5, plan, &template(), None).play();
    assert_eq!(report.wrong, [""; 0]);
}

#[test]
fn p10_p24_p26_what_was_kept_back_is_handed_over_once_through_a_crash_after_any_commit() {
    let points = crash_everywhere(&Plan::harvest());
    assert!(points > 60, "the harvest makes more commits than {points}");
}

#[test]
fn p24_every_end_and_every_expiry_hands_over_what_was_buffered() {
    let template = template();
    for seed in 0..30 {
        let report = World::new(seed, Plan::harvest(), &template, None).play();
        assert_eq!(report.wrong, [""; 0], "seed {seed}");
        let tally = &report.tally;
        assert!(tally["hand-overs"] > 0 && tally["turns remembered outside"] >= 7, "seed {seed}: {tally:?}");
    }
}

#[test]
fn power_may_fail_at_any_moment() {
    let template = template();
    let mut tally = BTreeMap::new();
    for seed in 0..200 {
        let report = play(seed, &template, None);
        assert_eq!(
            report.wrong, [""; 0],
            "again: cargo run -p throughline-sim --profile ci -- --seed {seed}"
        );
        report.tally.into_iter().for_each(|(what, times)| *tally.entry(what).or_insert(0) += times);
    }
    let never: Vec<_> = tally.iter().filter(|(_, times)| **times == 0).collect();
    assert!(never.is_empty(), "what never happens proves nothing: {never:?}");
}

/// The database is replaced at a moment that differs from seed to seed.
fn replaced_under(seed: u64, template: &Image, mutant: Option<Mutant>) -> Report {
    let mut plan = Plan::replaced();
    plan.disk.replaced = Some(Duration::from_millis(100 + 150 * seed));
    World::new(seed, plan, template, mutant).play()
}

#[test]
fn p7_a_database_that_is_replaced_under_the_gateway_loses_nothing_that_was_acknowledged() {
    let template = template();
    for seed in 0..20 {
        let report = replaced_under(seed, &template, None);
        assert_eq!(report.wrong, [""; 0], "seed {seed}");
        assert!(report.lives > 1, "seed {seed}: no judge noticed");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let template = template();
    for seed in 0..20 {
        assert_eq!(play(seed, &template, None).trace, play(seed, &template, None).trace, "seed {seed}");
    }
}

/// A judge that would not notice is no judge.
fn is_caught(mutant: Mutant, template: &Image) -> bool {
    let is_wrong = |report: Report| !report.wrong.is_empty();
    // Most need no crash to be seen.
    let at_once = |(_, plan): (&str, Plan)| is_wrong(World::new(1, plan, template, Some(mutant)).play());
    let by_chance = |worlds: u64| (0..worlds).map(|seed| play(seed, template, Some(mutant))).any(is_wrong);
    let replaced = || (0..20).any(|seed| is_wrong(replaced_under(seed, template, Some(mutant))));
    let forgetting = || {
        let plan = Plan::forgetting(Forgotten::Person);
        let mut struck =
            (1..200).step_by(9).map_while(|nth| forget_struck_at(nth, &plan, template, Some(mutant)));
        struck.any(is_wrong)
    };
    let crashed = |every: usize| {
        let crash = |plan: &Plan| {
            let mut reports =
                (1..200).step_by(every).map_while(|nth| crash_after(nth, plan, template, Some(mutant)));
            reports.any(is_wrong)
        };
        Plan::fixed().iter().any(|(_, plan)| crash(plan))
    };
    Plan::fixed().into_iter().any(at_once)
        || by_chance(20)
        || replaced()
        || forgetting()
        || crashed(7)
        || crashed(1)
        || by_chance(300)
}

/// Tests run beside each other: each takes every fourth of them.
fn every_fourth_bug_is_caught(first: usize) {
    let template = template();
    for mutant in Mutant::ALL.into_iter().skip(first).step_by(4) {
        assert!(is_caught(mutant, &template), "no judge noticed {mutant:?}");
    }
}

#[test]
fn every_deliberate_bug_is_caught_1() {
    every_fourth_bug_is_caught(0);
}

#[test]
fn every_deliberate_bug_is_caught_2() {
    every_fourth_bug_is_caught(1);
}

#[test]
fn every_deliberate_bug_is_caught_3() {
    every_fourth_bug_is_caught(2);
}

#[test]
fn every_deliberate_bug_is_caught_4() {
    every_fourth_bug_is_caught(3);
}

/// The sessions that compressions were logged for.
fn compressed_sessions(report: &Report) -> BTreeSet<&str> {
    let done = report.log.iter().filter(|line| line.contains(" compression done: "));
    done.filter_map(|line| line.split_once(" session=")?.1.split(' ').next()).collect()
}

/// Five sessions at once on random schedules, every second time through crashes. What is asked, kept and
/// snapshotted is judged in every world, and its log is audited: no line of one session's operation names
/// another, and none starts before the last has ended.
#[test]
fn no_cross_session_aliasing() {
    let template = template();
    for seed in 0..60 {
        let crashes = match seed % 4 {
            1 => vec![Crash::AfterCommit(10 + seed), Crash::At(Duration::from_millis(300 + 37 * seed))],
            3 => vec![Crash::AtOperation(40 + 5 * seed), Crash::AfterCommit(20 + seed / 2)],
            _ => Vec::new(),
        };
        let planned = crashes.len();
        let report = World::new(seed, Plan { crashes, ..Plan::crowd() }, &template, None).play();
        assert_eq!(report.wrong, [""; 0], "seed {seed}");
        assert_eq!(report.crashes, planned, "seed {seed}");
        assert_eq!(compressed_sessions(&report).len(), 5, "seed {seed}: {:#?}", report.log);
    }
}

/// The first request after the promotion carries all that came in while the summary was written: in order,
/// once, each its own message, and no model was asked about any of it before.
fn the_burst_is_one_request(plan: &Plan, report: &Report, context: &str) {
    assert_eq!(report.wrong, [""; 0], "{context}");
    let place = report.asked.iter().position(|asked| asked.sent != asked.prompt);
    let place = place.unwrap_or_else(|| panic!("{context}: nothing was compressed"));
    let (earlier, first) = (&report.asked[..place], &report.asked[place]);
    let summarised = report.compressing.iter().filter(|summary| summary.began < first.at);
    let known = |line: &String| {
        let mut seen = earlier.iter().map(|asked| &asked.prompt);
        seen.any(|rows| rows.contains(line)) || summarised.clone().any(|past| past.rows.contains(line))
    };
    let lines = plan.chats[0].lines.iter().map(|line| format!("user:{}", line.text));
    let new: Vec<_> = lines.skip_while(known).collect();
    // A message that interrupts is in the conversation at once, and after a crash perhaps in what is summarised.
    let least = if plan.busy == BusyInput::Queue { BURST } else { BURST / 2 };
    assert!(new.len() >= least, "{context}: only {} came in meanwhile", new.len());
    assert!(first.sent.ends_with(&new), "{context}: {new:?} in {:?}", first.sent);
}

#[test]
fn post_compression_delivery() {
    let template = template();
    for busy in [BusyInput::Queue, BusyInput::Interrupt] {
        let plan = Plan { busy, ..Plan::burst() };
        let report = World::new(1, plan.clone(), &template, None).play();
        the_burst_is_one_request(&plan, &report, &format!("{busy:?}"));
        let summary = &report.compressing[0];
        let took = summary.ended.expect("it ended") - summary.began;
        assert!(took >= Duration::from_secs(30), "{busy:?}: it took {took:?}");
        let mut commits = 0;
        for nth in (1..).step_by(if busy == BusyInput::Queue { 1 } else { 7 }) {
            let Some(report) = crash_after(nth, &plan, &template, None) else { break };
            the_burst_is_one_request(&plan, &report, &format!("{busy:?}, crash after commit {nth}"));
            commits = nth;
        }
        assert!(
            commits > BURST as u64,
            "{busy:?}: every message is committed, and more than {commits} times"
        );
        // During the summariser, and before, in and after promotion, wherever things stand.
        let end = report.compressing[0].ended.expect("it ended").as_millis() as u64;
        for at in (0..end).step_by(1900).chain((end - 40..end + 400).step_by(17)) {
            let crashes = vec![Crash::At(Duration::from_millis(at))];
            let plan = Plan { crashes, ..plan.clone() };
            let report = World::new(1, plan.clone(), &template, None).play();
            the_burst_is_one_request(&plan, &report, &format!("{busy:?}, crash at {at} ms"));
        }
    }
}

/// Thirteen agents, a home each, in one process.
#[test]
fn multi_agent_host() {
    let template = template();
    let mut writers: BTreeSet<usize> = BTreeSet::new();
    let mut cut = 0;
    for seed in 0..12 {
        let crashes = match seed % 3 {
            1 => vec![Crash::At(Duration::from_millis(1500 + 400 * seed))],
            2 => vec![Crash::AfterCommit(30 + 20 * seed), Crash::AtOperation(200 + 10 * seed)],
            _ => Vec::new(),
        };
        let plan = Plan { crashes, ..Plan::host() };
        let report = World::new(seed, plan.clone(), &template, None).play();
        assert_eq!(report.wrong, [""; 0], "seed {seed}");
        let mut first: BTreeMap<usize, Duration> = BTreeMap::new();
        for asked in &report.compressing {
            first.entry(asked.agent).or_insert(asked.began);
        }
        assert_eq!(first.len(), plan.agents, "seed {seed}: all of them are compressed");
        let (Some(begin), Some(end)) = (first.values().min(), first.values().max()) else { unreachable!() };
        assert!(*end - *begin < Duration::from_secs(60), "seed {seed}: from {begin:?} to {end:?}");
        // A chain that is cut early, or a crash, may leave some of them without an agent to write to.
        let here: BTreeSet<_> = report.letters.iter().map(|letter| letter.from.0).collect();
        assert!(here.len() > plan.agents / 2, "seed {seed}: most of them write");
        writers.extend(here);
        cut += report.tally["chains cut"];
    }
    assert_eq!(writers.len(), Plan::host().agents, "all of them write");
    assert!(cut > 0, "no chain was cut");
}

/// Thirteen agents for an hour, through seven ends of the process: a chat has another session when its people
/// say so, and never otherwise. So do agents that write to each other: they have one each way.
#[test]
fn p1_p2_in_an_hour_of_thirteen_agents_a_chat_has_as_many_ids_as_resets_and_one() {
    let template = template();
    for seed in 0..2 {
        let plan = Plan::hour();
        let report = World::new(seed, plan.clone(), &template, None).play();
        assert_eq!(report.wrong, [""; 0], "seed {seed}");
        assert_eq!(report.crashes, plan.crashes.len(), "seed {seed}");
        let end = report.asked.last().expect("a model was asked").at;
        assert!(end > Duration::from_secs(3600), "seed {seed}: it was over after {end:?}");
        assert_eq!(report.resets.len(), 13);
        assert!(report.resets.values().all(|resets| *resets >= 4), "{:?}", report.resets);
        assert!(report.ids.len() > 13, "agents write to each other: {:?}", report.ids);
        for (chat, ids) in &report.ids {
            let resets = report.resets.get(chat).copied().unwrap_or(0);
            assert_eq!(*ids, resets + 1, "seed {seed}: {chat:?}");
        }
    }
}

/// What a mutant's worlds look like to the judges, and their logs and stores to the auditor alone.
fn caught(mutant: Mutant, template: &Image) -> (bool, bool) {
    let mut by = (false, false);
    for nth in 1..200 {
        let Some(report) = crash_after(nth, &Plan::squeeze(), template, Some(mutant)) else { break };
        let in_the_store = |wrong: &&String| wrong.starts_with("check: ");
        by.1 |= !audited(&report.log).is_empty() || report.wrong.iter().any(|wrong| in_the_store(&wrong));
        by.0 |= report.wrong.iter().any(|wrong| !wrong.starts_with("audit: ") && !in_the_store(&wrong));
        if by == (true, true) {
            break;
        }
    }
    by
}

#[test]
fn the_old_behaviour_is_caught() {
    let template = template();
    let honest = World::new(1, Plan::squeeze(), &template, None).play();
    assert!(honest.log.iter().any(|line| line.contains(" compression done: ")), "there is a log to audit");
    assert_eq!(audited(&honest.log), [""; 0]);
    for mutant in [Mutant::RotateId, Mutant::ForeignSummary, Mutant::ArchiveLater, Mutant::DropTrigger] {
        let (by_judges, by_audit) = caught(mutant, &template);
        assert!(by_judges, "no judge noticed {mutant:?}");
        assert!(by_audit, "the auditor did not notice {mutant:?}");
    }
}

/// Requests on a session that is being compressed are answered before that ends, no request waits for
/// a summary or a memory provider, and what was said meanwhile is in every later prompt.
#[test]
fn concurrent_turns_during_a_compression() {
    let template = template();
    for seed in 0..10 {
        let crashes = match seed % 2 {
            1 => vec![Crash::At(Duration::from_secs(5 + seed)), Crash::AfterCommit(40 + seed)],
            _ => Vec::new(),
        };
        let report = World::new(seed, Plan { crashes, ..Plan::aside() }, &template, None).play();
        assert_eq!(report.wrong, [""; 0], "seed {seed}");
        let sessions: BTreeSet<_> = report.compressing.iter().map(|asked| &asked.session).collect();
        assert_eq!(sessions.len(), 2, "seed {seed}: the chat's and the client's");
        for session in sessions {
            let mine: Vec<_> = report.asked.iter().filter(|asked| asked.session == *session).collect();
            let during = |asked: &throughline_sim::records::Question| {
                report.compressing.iter().any(|summary| {
                    let (Some(answered), Some(ended)) = (asked.answered, summary.ended) else { return false };
                    summary.session == *session && summary.began < asked.at && answered < ended
                })
            };
            let answered: Vec<_> = (0..mine.len()).filter(|place| during(mine[*place])).collect();
            assert!(
                answered.len() >= 3,
                "seed {seed}: {session} was asked {} times meanwhile",
                answered.len()
            );
            for place in answered {
                let Some(answer) = &mine[place].answer else { continue };
                let said = [mine[place].prompt.clone(), vec![format!("assistant:{answer}|")]].concat();
                let heard = mine[place + 1..].iter().filter(|later| later.life == mine[place].life);
                for later in heard {
                    assert!(
                        later.prompt.starts_with(&said),
                        "seed {seed}: {:?} after {said:?}",
                        later.prompt
                    );
                }
            }
        }
        let told = report.tally["compressions a provider had no word for in time"];
        assert!(told > 0, "seed {seed}: a provider was too slow");
    }
}
