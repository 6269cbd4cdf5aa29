//! Deliberate bugs, to see whether the judges would notice. Each tampers with what is committed, or
//! with what is said about it.

use std::sync::Arc;
use throughline_core::compression::Replacement;
use throughline_core::input::{DedupeKey, Input};
use throughline_core::lifecycle::Reason;
use throughline_core::memory::RetentionChange;
use throughline_core::port::{Commit, DraftChange, Trace};
use throughline_core::session::lifecycle::Run;
use throughline_core::session::{Act, Finalisation, Phase, Reply, Session};
use throughline_core::{Content, Generation, Message, RowId, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A reply's row is never written.
    DropOutboxRow,
    /// A commit is acknowledged one batch before it is written.
    AcknowledgeBeforeCommit,
    /// Every owner has the same generation.
    ReuseGeneration,
    /// Each reply is written under two keys.
    AnswerTwice,
    /// Messages that share a turn are written in the wrong order.
    Reorder,
    /// Every delivery of a message is a new message.
    ForgetDedupe,
    /// The WAL is not synced at a commit, as with `synchronous=NORMAL`.
    NoSync,
    /// An answered message is not marked as answered.
    ForgetSettled,
    /// What waits when a session ends is dropped.
    DropMoved,
    /// The route of a new chat is not written.
    ForgetRoute,
    /// The model's answer never enters the transcript.
    ForgetAnswer,
    /// Results of tools are never written.
    ForgetResults,
    /// Calls are run before they are on disk.
    RunBeforeCommit,
    /// All that ran when the process ended is run again.
    RepeatEverything,
    /// How often a turn was resumed is not written.
    ForgetResumes,
    /// That a call waits for a person is not written.
    ForgetAsk,
    /// That a person said yes is not written.
    ForgetGrant,
    /// That a call is the client's to run is not written.
    ForgetLeave,
    /// What a tool has sent is sent under two keys.
    SendTwice,
    /// What waits when a turn is stopped never enters the transcript.
    StopDropsWaiting,
    /// The operator's silence ends with the process.
    ForgetHalt,
    /// What an agent says to another counts as a human's words.
    ForgetChain,
    /// The ledger grants all that is asked for.
    ForgetBudget,
    /// A compression begins another conversation.
    RotateId,
    /// A summary takes the place of rows that were said after it was written, too.
    ArchiveLater,
    /// A session gets the summary of another one.
    ForeignSummary,
    /// What comes in when a summary takes effect never enters the transcript.
    DropTrigger,
    /// A summary takes effect twice: that it did is not written.
    ForgetPromotion,
    /// What is taken back stays where it was.
    ForgetRewind,
    /// What waits when a chat goes on elsewhere is dropped.
    DropSwitched,
    /// A chat that goes on elsewhere is told so, and does not.
    ForgetSwitch,
    /// That a hook has done its part is not written.
    FinaliseTwice,
    /// A hand-over in which a step failed counts as done.
    DropRetry,
    /// When a person last wrote is not written.
    ForgetActivity,
    /// A conversation ends by itself while a person is being answered.
    ExpireRunning,
    /// A reply is a second message beside its preview.
    SendAnew,
    /// That a preview will be posted is not written.
    ForgetDraft,
    /// A turn that is to be remembered is not written down.
    DropKept,
    /// That a turn is about to be handed over is not written.
    KeepTwice,
    /// A turn counts as remembered when it is sent, not when it is acknowledged.
    KeepEarly,
    /// That a review has fallen due is not written.
    DropReview,
    /// That a review is over is not written.
    ReviewTwice,
    /// A review leaves its question in the transcript.
    ReviewAloud,
    /// Files that were replaced are written to as if they were still there.
    MissReplacement,
    /// A message whose text waited on disk is said with the text of another one that waits.
    SwapTexts,
    /// A message whose text waited on disk is said without it.
    ForgetTexts,
    /// A question that was let go goes on beside the one that took its place.
    AskBeside,
    /// The model is asked a second time for what it has answered.
    AskTwice,
    /// What was noted about a conversation is not written.
    DropNotes,
    /// What is told of a message lacks the first answer of the model.
    TellLess,
    /// What is told of a message has a reply that no one saw.
    TellMore,
    /// A question to a person waits for a date, even if the clock jumps.
    WaitForDate,
    /// What is forgotten stays in the search index.
    KeepIndexed,
    /// What was deleted stays in free pages and in the log.
    SkipScrub,
    /// A forgetting that was interrupted is not finished by the next start.
    SkipResume,
    /// What a memory provider is to delete is not written.
    DropErasure,
    /// That a memory provider has deleted something is not written.
    EraseTwice,
    /// Other people of a chat are forgotten with the person who is to be.
    ForgetOthers,
    /// Every person may answer what is put to the owner.
    AnyPersonAnswers,
    /// What is to be put to the owner is put to another person.
    AskAnotherPerson,
    /// What the memory answers takes the place of the answer that the model still owes: it is asked beside.
    RecallForgetsQuestion,
}

impl Mutant {
    pub const ALL: [Mutant; 61] = [
        Mutant::DropOutboxRow,
        Mutant::AcknowledgeBeforeCommit,
        Mutant::ReuseGeneration,
        Mutant::AnswerTwice,
        Mutant::Reorder,
        Mutant::ForgetDedupe,
        Mutant::NoSync,
        Mutant::ForgetSettled,
        Mutant::DropMoved,
        Mutant::ForgetRoute,
        Mutant::ForgetAnswer,
        Mutant::ForgetResults,
        Mutant::RunBeforeCommit,
        Mutant::RepeatEverything,
        Mutant::ForgetResumes,
        Mutant::ForgetAsk,
        Mutant::ForgetGrant,
        Mutant::ForgetLeave,
        Mutant::SendTwice,
        Mutant::StopDropsWaiting,
        Mutant::ForgetHalt,
        Mutant::ForgetChain,
        Mutant::ForgetBudget,
        Mutant::RotateId,
        Mutant::ArchiveLater,
        Mutant::ForeignSummary,
        Mutant::DropTrigger,
        Mutant::ForgetPromotion,
        Mutant::ForgetRewind,
        Mutant::DropSwitched,
        Mutant::ForgetSwitch,
        Mutant::FinaliseTwice,
        Mutant::DropRetry,
        Mutant::ForgetActivity,
        Mutant::ExpireRunning,
        Mutant::SendAnew,
        Mutant::ForgetDraft,
        Mutant::DropKept,
        Mutant::KeepTwice,
        Mutant::KeepEarly,
        Mutant::DropReview,
        Mutant::ReviewTwice,
        Mutant::ReviewAloud,
        Mutant::MissReplacement,
        Mutant::SwapTexts,
        Mutant::ForgetTexts,
        Mutant::AskBeside,
        Mutant::AskTwice,
        Mutant::DropNotes,
        Mutant::TellLess,
        Mutant::TellMore,
        Mutant::WaitForDate,
        Mutant::KeepIndexed,
        Mutant::SkipScrub,
        Mutant::SkipResume,
        Mutant::DropErasure,
        Mutant::EraseTwice,
        Mutant::ForgetOthers,
        Mutant::AnyPersonAnswers,
        Mutant::AskAnotherPerson,
        Mutant::RecallForgetsQuestion,
    ];

    /// What the store is told instead. `nonce` never repeats.
    pub fn tamper(self, commit: &Commit, nonce: u64) -> Commit {
        let mut commit = commit.clone();
        if let (Mutant::ForgetHalt, Commit::Silence { ordered }) = (self, &mut commit) {
            *ordered = false;
        }
        if let (Mutant::ForgetDraft, Commit::Draft { change, .. }) = (self, &mut commit) {
            *change = DraftChange::Left;
        }
        if let Commit::Retention { change, .. } = &mut commit
            && *change == RetentionChange::Attempting
        {
            let forgotten =
                RetentionChange::Postponed { until: Time(0), error: String::new(), arrived: false };
            match self {
                Mutant::KeepTwice => *change = forgotten,
                Mutant::KeepEarly => *change = RetentionChange::Kept,
                _ => {}
            }
        }
        if let (Mutant::EraseTwice, Commit::Retention { key, change, .. }) = (self, &mut commit)
            && *change == RetentionChange::Kept
            && key.contains("/erase/")
        {
            *change = RetentionChange::Postponed { until: Time(0), error: String::new(), arrived: true };
        }
        let Commit::Session { expect, state: session, acts, .. } = &mut commit else { return commit };
        let state = &mut (**session).clone().into_state();
        match self {
            Mutant::DropOutboxRow => acts.retain(|act| !matches!(act, Act::Deliver(_))),
            Mutant::ReuseGeneration => {
                expect.0 = expect.0.min(1);
                state.generation = Generation(1);
            }
            Mutant::AnswerTwice => {
                let twice: Vec<_> = acts.iter().filter_map(again).collect();
                acts.extend(twice);
            }
            Mutant::Reorder => swap_first_two_lines(acts),
            Mutant::ForgetDedupe => acts.iter_mut().for_each(|act| rename(act, nonce)),
            Mutant::ForgetSettled => acts.retain(|act| !matches!(act, Act::Settle { .. })),
            Mutant::DropMoved => {
                for act in acts {
                    if let Act::Close { moved, .. } = act {
                        moved.clear();
                    }
                }
            }
            Mutant::ForgetRoute => {
                for act in acts {
                    if let Act::Open(birth) = act {
                        birth.chat = None;
                    }
                }
            }
            Mutant::ForgetAnswer => {
                acts.retain(|act| !matches!(act, Act::Append(message) if message.role() == "assistant"))
            }
            Mutant::ForgetResults => acts.retain(|act| match act {
                Act::Result { .. } => false,
                Act::Append(message) => message.role() != "tool",
                _ => true,
            }),
            Mutant::ForgetResumes => {
                if let Phase::Turn(turn) = &mut state.phase {
                    turn.resumes = 0;
                }
            }
            Mutant::DropKept => acts.retain(|act| !matches!(act, Act::Retain(_))),
            Mutant::ForgetAsk => acts.retain(|act| !matches!(act, Act::Ask { .. })),
            Mutant::ForgetGrant => acts.retain(|act| !matches!(act, Act::Grant { .. })),
            Mutant::ForgetLeave => acts.retain(|act| !matches!(act, Act::Leave { .. })),
            Mutant::SendTwice => {
                let letters = acts.iter().filter(|act| is_letter(act));
                let twice: Vec<_> = letters.filter_map(again).collect();
                acts.extend(twice);
            }
            Mutant::StopDropsWaiting => drop_what_follows_a_stop(acts),
            Mutant::ForgetHalt => state.halted = false,
            Mutant::RotateId if promotes(acts) => {
                let successor = format!("{}_{nonce}", state.id).parse().expect("a plain id, and longer");
                acts.push(Act::Close { reason: "compression", successor, moved: Vec::new() });
            }
            Mutant::ForeignSummary => {
                for act in acts {
                    if let Act::Promote { replacement, .. } = act {
                        let mut other = Replacement::clone(replacement);
                        other.rows = vec![Message::user(other.rows[0].at, Content::text("summary-0"))];
                        *replacement = Arc::new(other);
                    }
                }
            }
            Mutant::DropTrigger if promotes(acts) => {
                acts.retain(|act| !matches!(act, Act::Append(message) if message.role() == "user"));
            }
            Mutant::ForgetPromotion => acts.retain(|act| !matches!(act, Act::Promote { .. })),
            Mutant::ForgetRewind => acts.retain(|act| !matches!(act, Act::Rewind { .. })),
            Mutant::DropSwitched => {
                for act in acts {
                    if let Act::Switch { moved, .. } = act {
                        moved.clear();
                    }
                }
            }
            Mutant::ForgetSwitch => acts.retain(|act| !matches!(act, Act::Switch { .. })),
            Mutant::FinaliseTwice => acts.retain(|act| !matches!(act, Act::Hook { run: Run::Done, .. })),
            Mutant::DropRetry if state.handover.attempts > 0 => {
                if let Phase::Closed(stage) = &mut state.phase {
                    *stage = Finalisation::Done;
                }
            }
            Mutant::DropReview => acts.retain(|act| !matches!(act, Act::Review(_))),
            Mutant::ReviewTwice => acts.retain(|act| !matches!(act, Act::Reviewed { .. })),
            Mutant::ReviewAloud => {
                if acts.iter().any(|act| matches!(act, Act::Reviewed { .. })) {
                    acts.push(Act::Append(Message::user(
                        state.active,
                        Content::text("[Review] of all this"),
                    )));
                }
            }
            Mutant::DropNotes => acts.retain(|act| !matches!(act, Act::Note { .. })),
            Mutant::WaitForDate => {
                for act in acts {
                    if let Act::Ask { ask, .. } = act {
                        ask.asked = Time(0);
                    }
                }
            }
            Mutant::ForgetActivity => state.active = state.active.min(Time(1)),
            Mutant::ExpireRunning if matches!(state.phase, Phase::Turn(_)) && nonce.is_multiple_of(7) => {
                state.phase = Phase::Closed(Finalisation::Claimed);
                let (reason, end_reason) = (Reason::Idle, "idle");
                acts.push(Act::Expire { reason, end_reason, had_activity: true });
            }
            Mutant::RotateId
            | Mutant::DropTrigger
            | Mutant::DropRetry
            | Mutant::ExpireRunning
            | Mutant::ArchiveLater
            | Mutant::AcknowledgeBeforeCommit
            | Mutant::NoSync
            | Mutant::RunBeforeCommit
            | Mutant::RepeatEverything
            | Mutant::SendAnew
            | Mutant::ForgetDraft
            | Mutant::KeepTwice
            | Mutant::KeepEarly
            | Mutant::MissReplacement
            | Mutant::SwapTexts
            | Mutant::ForgetTexts
            | Mutant::AskBeside
            | Mutant::AskTwice
            | Mutant::TellLess
            | Mutant::TellMore
            | Mutant::KeepIndexed
            | Mutant::SkipScrub
            | Mutant::SkipResume
            | Mutant::DropErasure
            | Mutant::EraseTwice
            | Mutant::ForgetOthers
            | Mutant::AnyPersonAnswers
            | Mutant::AskAnotherPerson
            | Mutant::RecallForgetsQuestion
            | Mutant::ForgetChain
            | Mutant::ForgetBudget => {}
        }
        **session = Session::restored(state.clone());
        commit
    }
}

impl Mutant {
    /// What is logged instead of this line, after these.
    pub fn misreport(self, line: &str, before: &[String]) -> String {
        let Some(id) = session_of(line) else { return line.to_owned() };
        let renamed = |other: &str| line.replace(&format!("[{id}]"), &format!("[{other}]"));
        match self {
            // A session that begins another conversation ends under its name.
            Mutant::RotateId if line.contains(" compression done: ") => {
                let successor = format!("{id}_after");
                renamed(&successor).replace(&format!("session={id} "), &format!("session={successor} "))
            }
            // The agent mixes up sessions and writes with the other one in mind.
            Mutant::ForeignSummary => match before.iter().find_map(|line| session_of(line)) {
                Some(other) => renamed(other),
                None => line.to_owned(),
            },
            _ => line.to_owned(),
        }
    }
}

impl Mutant {
    /// What is told of a message instead.
    pub fn retell(self, mut told: Vec<Trace>) -> Vec<Trace> {
        match self {
            Mutant::TellLess => {
                if let Some(place) = told.iter().position(|trace| trace.name == "answered_by_model") {
                    told.remove(place);
                }
            }
            Mutant::TellMore => {
                if let Some(written) = told.iter().find(|trace| trace.name == "reply_written").cloned() {
                    let detail =
                        format!("{}/again to keyed 0", written.detail.split(' ').next().unwrap_or_default());
                    told.push(Trace { detail, ..written.clone() });
                    told.push(Trace {
                        name: "reply_delivered".into(),
                        detail: "attempt 1".into(),
                        ..written
                    });
                }
            }
            _ => {}
        }
        told
    }
}

/// The session that a line about a compression names.
fn session_of(line: &str) -> Option<&str> {
    line.split_once(" session=")?.1.split(' ').next()
}

fn promotes(acts: &[Act]) -> bool {
    acts.iter().any(|act| matches!(act, Act::Promote { .. }))
}

/// Everything that is there now, whether the summary knows of it or not.
pub fn archive_all(commit: &mut Commit, live: &[RowId]) {
    let Commit::Session { acts, .. } = commit else { return };
    for act in acts {
        if let (Act::Promote { replacement, .. }, Some(last)) = (act, live.last()) {
            let replaced = live.iter().filter(|row| replacement.after.is_none_or(|after| **row > after));
            let later =
                Replacement { cut: *last, replaced: replaced.count(), ..Replacement::clone(replacement) };
            *replacement = Arc::new(later);
        }
    }
}

fn again(act: &Act) -> Option<Act> {
    match act {
        Act::Deliver(reply) => {
            Some(Act::Deliver(Reply { key: format!("{}/again", reply.key), ..reply.clone() }))
        }
        _ => None,
    }
}

/// What a call has sent: `session/turn/step/position/number`.
fn is_letter(act: &Act) -> bool {
    matches!(act, Act::Deliver(reply) if reply.key.split('/').skip(1).filter(|part| part.parse::<u32>().is_ok()).count() == 4)
}

fn drop_what_follows_a_stop(acts: &mut Vec<Act>) {
    let stopped = acts.iter().position(|act| matches!(act, Act::Note { name: "turn_stopped", .. }));
    if let Some(stopped) = stopped {
        let mut place = 0;
        acts.retain(|act| {
            place += 1;
            place <= stopped || !matches!(act, Act::Append(message) if message.role() == "user")
        });
    }
}

fn swap_first_two_lines(acts: &mut [Act]) {
    let lines: Vec<_> = acts
        .iter()
        .enumerate()
        .filter(|(_, act)| matches!(act, Act::Append(message) if message.role() == "user"))
        .map(|(place, _)| place)
        .collect();
    if let [first, second, ..] = lines.as_slice() {
        acts.swap(*first, *second);
    }
}

fn rename(act: &mut Act, nonce: u64) {
    if let Act::Accept(input) = act {
        let key = DedupeKey::of(&[input.key.as_str(), &nonce.to_string()]);
        *input = Arc::new(Input { key, ..Input::clone(input) });
    }
}
