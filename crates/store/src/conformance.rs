//! What any implementation of the store's port must do, as tests that any of them can run.
//!
//! A [`World`] drives the real session machine and keeps its own plain books of what was committed.
//! After every batch the store must tell the same story: every session exactly as the machine left
//! it, every row, outcome, key, route and reply. The books are what the port promises, not how
//! tables are made.
//!
//! A failure panics with what differs, as an assertion does.

mod past;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::chain::{self, Amount, Cut, Exceeded, Share, Shared, Spent};
use throughline_core::command::{Command, DeferredCommand};
use throughline_core::compression::{Extent, Kind as Replaced, Operation, Plan, Replacement, Stage};
use throughline_core::guard::Limits;
use throughline_core::home_status::Running;
use throughline_core::id::{Boot, ChatKey, Generation, RowId, Seq, SessionId, TurnId};
use throughline_core::input::{
    AGENT_PLATFORM, Birth, Chat, DedupeKey, Destination, INLINE_BYTES_MAX, Input, Kind, Request, Root,
    Sender, Task, Trace,
};
use throughline_core::lifecycle::Reason;
use throughline_core::memory::{Filing, Naming, Place, Progress, RetentionChange, Scope as Whose};
use throughline_core::message::{Assistant, Body, Content, JsonText, Message, ToolCall, ToolResult};
use throughline_core::port::{
    Anchor, CallId, Commit, Committed, DeliveryChange, DraftChange, Order, Pending, Scope, SessionFilter,
    Store, StoreError,
};
use throughline_core::prompt::{Digest, Head, Mark};
use throughline_core::route::Thread;
use throughline_core::session::Kept as KeptTurn;
use throughline_core::session::compress::{End, NoSummary};
use throughline_core::session::lifecycle::{ATTEMPTS_MAX, Handing, Noticed};
use throughline_core::session::review::{Intervals, Report};
use throughline_core::session::{
    Act, Approver, BusyInput, Event, Failure, FailureKind, Finalisation, Job, Outcome, Phase, Rules, Session,
};
use throughline_core::time::Time;
use throughline_core::tool::{Elicitation, Grant, Letter, Question, Verdict};
use throughline_core::turn::{Answer, Slot, Usage};

/// One home for a store, which can be opened again, and by two at once.
pub trait Site {
    fn open(&self) -> Box<dyn Store>;

    /// What comes back of a message. Homes of old schemas have no place for some of its fields.
    fn kept(&self, message: &Message) -> Message {
        message.clone()
    }
}

/// Makes an empty home of its own for each test.
pub type Sites<'a> = &'a dyn Fn() -> Box<dyn Site>;

/// Every test there is.
pub fn suite(sites: Sites<'_>) {
    a_turn_is_two_commits_and_every_commit_can_be_loaded(sites);
    p7_the_same_message_is_accepted_once(sites);
    p3_a_late_owner_is_refused(sites);
    a_refused_commit_leaves_its_neighbours_standing(sites);
    p8_what_waits_moves_to_the_next_session(sites);
    p8_long_texts_wait_on_disk_and_move_whole(sites);
    an_input_without_its_texts_is_refused(sites);
    p20_a_conversation_ends_by_itself_and_the_next_knows_of_it(sites);
    p20_every_commit_of_a_hand_over_can_be_the_last(sites);
    p20_what_was_set_aside_is_found_by_name(sites);
    what_is_held_is_found_with_its_age(sites);
    p22_a_review_is_about_the_view_it_fell_due_on(sites);
    p22_a_review_that_is_over_stays_over(sites);
    p9_an_open_group_survives_and_closes_whole(sites);
    p9_questions_and_grants_wait_through_a_restart(sites);
    p9_every_commit_of_a_turn_with_calls_can_be_the_last(sites);
    p4_a_stopped_turn_leaves_nothing_open_and_loses_nothing(sites);
    p4_a_silenced_session_stays_silent_through_a_restart(sites);
    a_turn_that_uses_up_its_budget_is_known_to_have(sites);
    calls_that_lead_nowhere_are_counted_through_a_restart(sites);
    a_chain_between_agents_is_counted_and_cut_with_one_notice(sites);
    what_a_result_sends_leaves_with_it(sites);
    a_session_that_works_for_another_is_found_by_it_and_not_listed(sites);
    p10_a_delivered_reply_stays_delivered(sites);
    p10_a_preview_is_known_until_its_reply_takes_its_place(sites);
    a_failed_turn_is_tried_again_as_the_same_turn(sites);
    a_clients_own_history_finds_where_it_goes_on(sites);
    an_implicit_key_finds_the_newest_request(sites);
    a_session_keeps_its_prompt_and_its_owner(sites);
    starts_are_counted_and_cursors_kept(sites);
    p31_search_shows_only_the_callers_own(sites);
    p31_a_person_sees_their_own_sessions_and_those_of_their_chat(sites);
    what_was_said_around_a_row_can_be_read(sites);
    p30_a_message_can_be_followed(sites);
    p26_a_turn_is_kept_until_its_provider_has_it(sites);
    p26_of_what_is_kept_the_last_rows_stay(sites);
    p26_nothing_stays_buffered_over_a_stop(sites);
    p24_nothing_stays_buffered_when_its_conversation_ends_by_itself(sites);
    p24_what_is_due_is_not_handed_over_before_what_is_older_in_its_document(sites);
    p26_a_long_backlog_of_one_document_hides_no_other(sites);
    p27_a_name_stays_and_two_chats_never_share_one(sites);
    p30_calls_questions_and_stops_can_be_followed(sites);
    past::p4_what_is_taken_back_is_kept_and_can_be_brought_back(sites);
    past::p4_a_message_is_asked_again_and_stands_there_once(sites);
    past::p4_a_copy_goes_on_and_the_original_stays(sites);
    past::p4_a_switch_is_refused_where_something_has_changed(sites);
}

// ------------------------------------------------------------------------------------ the world

/// One thing that may happen. Numbers are taken modulo what there is, so that any list is a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// A message in one of the chats, or a request to one of the API sessions.
    Says {
        place: u8,
        text: String,
    },
    /// The same message once more.
    SaysAgain {
        place: u8,
    },
    Orders {
        place: u8,
        what: u8,
    },
    Answers {
        place: u8,
        text: String,
        tokens: u16,
    },
    CallsTools {
        place: u8,
        calls: u8,
    },
    Returns {
        place: u8,
        index: u8,
    },
    /// A result that wants this many letters sent.
    Sends {
        place: u8,
        index: u8,
        letters: u8,
    },
    /// A call asks a person.
    Asks {
        place: u8,
        index: u8,
        kind: u8,
    },
    /// A person, or time, answers what a call asked.
    Decides {
        place: u8,
        index: u8,
        verdict: u8,
    },
    /// A message that another agent wrote because of a human's.
    Hears {
        place: u8,
        origin: u8,
        hops: u8,
    },
    Halts {
        place: u8,
    },
    Releases {
        place: u8,
    },
    /// An answer to a step that is over.
    Echoes {
        place: u8,
    },
    Fails {
        place: u8,
        kind: u8,
    },
    Retries {
        place: u8,
    },
    /// The owner of the session is loaded again.
    Reloads {
        place: u8,
    },
    /// Of reviews that are due, one: done, or failed.
    Reviews {
        place: u8,
        how: u8,
    },
    /// And calls whose bit is set may simply be run again.
    Resumes {
        place: u8,
        repeatable: u8,
    },
    /// Somebody commits with the generation of an earlier owner.
    Trespasses {
        place: u8,
    },
    /// Somebody looks whether there is something to compress.
    Surveys {
        place: u8,
        how: u8,
    },
    /// An engine is done with what was asked of it.
    Summarises {
        place: u8,
        how: u8,
    },
    /// Those who ordered a compression hear what it did.
    Reports {
        place: u8,
    },
    /// One of the snapshots becomes the view again.
    Restores {
        place: u8,
        which: u8,
    },
    /// Somebody orders what has to be looked up first.
    DeferredCommands {
        place: u8,
        what: u8,
    },
    /// And somebody has.
    Finds {
        place: u8,
        how: u8,
    },
    Finalises {
        place: u8,
    },
    /// Something becomes of the hooks of a hand-over.
    HandsOver {
        place: u8,
        how: u8,
    },
    /// The time of a conversation has come, or so somebody thinks.
    Expires {
        place: u8,
        how: u8,
    },
    /// A person takes up again what had ended.
    Revives {
        place: u8,
    },
    Delivers {
        reply: u8,
        change: u8,
    },
    Written {
        place: u8,
    },
    Tends,
    Reopens,
    /// From here on this many commits share a batch.
    Batches {
        size: u8,
    },
}

/// What a review is about: the rows, the prompt, and how far the last request went.
type Reviewed = (Vec<Shown>, Option<Arc<str>>, Option<Mark>);

/// What the books say about one session.
#[derive(Clone, Debug)]
struct Book {
    state: Session,
    expect: Generation,
    born: bool,
    /// All that was ever said, and the row that each became.
    transcript: Vec<Message>,
    rows: Vec<RowId>,
    /// What took the place of some of it.
    summaries: Vec<Message>,
    /// What is live, in order, and where it stands.
    view: Vec<Shown>,
    live: Vec<RowId>,
    kept: Vec<Kept>,
    /// What was taken back, and is not live again.
    taken_back: BTreeSet<usize>,
    last_prompt: Option<Mark>,
    answers: BTreeMap<TurnId, Answer>,
    outcomes: BTreeMap<Seq, Outcome>,
    prompt: Option<(Arc<str>, Option<Digest>)>,
    principal: Option<String>,
    user: Option<String>,
    parent: Option<SessionId>,
    in_chat: bool,
    /// The view that each review fell due on, the prompt then, and what was asked.
    reviews: BTreeMap<u64, Reviewed>,
    /// The client's view after each turn.
    tips: Vec<(Digest, TurnId, usize)>,
}

impl Book {
    fn new(id: SessionId) -> Self {
        Self {
            state: Session::new(id),
            expect: Generation(0),
            born: false,
            transcript: Vec::new(),
            rows: Vec::new(),
            summaries: Vec::new(),
            view: Vec::new(),
            live: Vec::new(),
            kept: Vec::new(),
            taken_back: BTreeSet::new(),
            last_prompt: None,
            answers: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            prompt: None,
            principal: None,
            user: None,
            parent: None,
            in_chat: false,
            reviews: BTreeMap::new(),
            tips: Vec::new(),
        }
    }

    fn says(&mut self, message: Message, row: RowId) {
        self.view.push(Shown::Said(self.transcript.len()));
        self.live.push(row);
        self.transcript.push(message);
        self.rows.push(row);
    }

    fn shown(&self, view: &[Shown]) -> Vec<Message> {
        let message = |shown: &Shown| match shown {
            Shown::Said(nth) => self.transcript[*nth].clone(),
            Shown::Summary(nth) => self.summaries[*nth].clone(),
        };
        view.iter().map(message).collect()
    }

    /// How many rows of the view are not above this one.
    fn upto(&self, row: RowId) -> usize {
        self.live.partition_point(|live| *live <= row)
    }

    fn promotes(&mut self, replacement: &Replacement, snapshot: &str) {
        let after = replacement.after.map_or(0, |row| self.upto(row));
        let cut = self.upto(replacement.cut);
        assert_eq!(cut - after, replacement.replaced, "the machine knows its rows");
        // Whatever stands behind an older summary is as it was said.
        let last_summary = self.view.iter().rposition(|shown| matches!(shown, Shown::Summary(_)));
        let end = cut.max(last_summary.map_or(0, |nth| nth + 1));
        self.keep(snapshot, end);
        let tail = self.view.split_off(cut);
        let tail_rows = self.live.split_off(cut);
        // It is no later than what it stands for.
        let latest = self.shown(&self.view[cut - 1..cut])[0].at;
        self.view.truncate(after);
        self.live.truncate(after);
        for message in &replacement.rows {
            self.view.push(Shown::Summary(self.summaries.len()));
            self.live.push(RowId(0));
            self.summaries.push(Message { at: message.at.min(latest), ..message.clone() });
        }
        self.view.extend(tail);
        self.live.extend(tail_rows);
    }

    fn keep(&mut self, name: &str, end: usize) {
        let said = match self.view.get(end) {
            Some(Shown::Said(nth)) => *nth,
            _ => self.transcript.len(),
        };
        self.kept.push(Kept { name: name.to_owned(), view: self.view[..end].to_vec(), said });
    }

    fn restores(&mut self, snapshot: &str, kept_as: &str) {
        let kept =
            self.kept.iter().find(|kept| kept.name == snapshot).expect("a snapshot that is there").clone();
        self.keep(kept_as, self.view.len());
        let since = (kept.said..self.transcript.len()).filter(|nth| !self.taken_back.contains(nth));
        let since: Vec<_> = since.map(Shown::Said).filter(|shown| !kept.view.contains(shown)).collect();
        self.view = kept.view;
        self.view.extend(since);
        for shown in &self.view {
            if let Shown::Said(nth) = shown {
                self.taken_back.remove(nth);
            }
        }
        self.live = vec![RowId(0); self.view.len()];
    }

    fn turn(&self) -> Option<(TurnId, u32)> {
        match &self.state.phase {
            Phase::Turn(turn) => Some((turn.id, turn.step)),
            Phase::Idle | Phase::Closed(_) => None,
        }
    }
}

/// What stands in a view: something that was said, or something that stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Said(usize),
    Summary(usize),
}

/// A view that was, as far as a compression changed it, and how much had been said by then.
#[derive(Clone, Debug)]
struct Kept {
    name: String,
    view: Vec<Shown>,
    said: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Sent {
    key: String,
    text: String,
    destination: Destination,
    trace: Trace,
    session: SessionId,
    attempts: u32,
    attempting: Option<Boot>,
    /// Since when it is unknown whether it arrived.
    attempted: Option<Time>,
    marked: bool,
    not_before: Time,
    over: bool,
}

/// What a commit is expected to meet.
#[derive(Clone, Debug, PartialEq)]
enum Expected {
    Accepted,
    Duplicate(SessionId, Seq),
    Fenced,
}

struct Planned {
    session: SessionId,
    expected: Expected,
    next: Session,
    acts: Vec<Act>,
    expect: Generation,
    answer: Option<Answer>,
}

/// Chats 0 and 1, API sessions 2 and 3, and a session that works for that of place 2.
const PLACES: usize = 5;
const CHILD: usize = 4;
const PARENT: usize = 2;

pub struct World {
    site: Box<dyn Site>,
    store: Box<dyn Store>,
    rules: Rules,
    now: Time,
    number: u64,
    books: BTreeMap<SessionId, Book>,
    places: Vec<SessionId>,
    seen: BTreeMap<DedupeKey, (SessionId, Seq)>,
    /// What each input was when it came in.
    words: BTreeMap<DedupeKey, Kind>,
    implicit: BTreeMap<Digest, (SessionId, Seq, Time, bool)>,
    replies: Vec<Sent>,
    /// Turns that are to be remembered: key, session, and whether they are due.
    kept: Vec<(String, SessionId, bool)>,
    notes: BTreeMap<String, u64>,
    batch: usize,
    planned: Vec<Planned>,
    boot: Boot,
    /// What each origin has spent, and whether it was cut.
    spent: BTreeMap<Arc<str>, (Spent, Option<Exceeded>)>,
}

impl World {
    pub fn new(site: Box<dyn Site>, rules: Rules) -> Self {
        let mut store = site.open();
        let now = Time(1_700_000_000_000_000);
        let boot = store.boot(now).expect("a fresh store counts its start");
        let places: Vec<SessionId> = (0..PLACES).map(|place| id(&format!("s{place}"))).collect();
        let books = places.iter().map(|id| (id.clone(), Book::new(id.clone()))).collect();
        Self {
            site,
            store,
            rules,
            now,
            number: 0,
            books,
            places,
            seen: BTreeMap::new(),
            words: BTreeMap::new(),
            implicit: BTreeMap::new(),
            replies: Vec::new(),
            kept: Vec::new(),
            notes: BTreeMap::new(),
            batch: 1,
            planned: Vec::new(),
            boot,
            spent: BTreeMap::new(),
        }
    }

    /// Plays a story, comparing after every batch and once more after a restart.
    pub fn play(&mut self, story: &[Move]) {
        for step in story {
            self.take(step);
        }
        self.flush();
        self.reopen();
        self.compare_all();
        let broken = self.store.reader().check().expect("a store can be checked");
        assert_eq!(broken, [] as [String; 0], "after {story:?}");
    }

    /// Whoever wants a share gets one, as long as there is something left for its origin.
    fn share_out(&mut self) {
        for place in 0..PLACES as u8 {
            loop {
                self.flush_if_busy(place);
                let state = &self.book(place).state;
                let Some(Job::Share { seq }) = state.jobs().first().cloned() else { break };
                let Some(input) = state.waiting.iter().find(|input| input.seq == seq) else { break };
                let limits = &self.rules.limits.chain;
                let share = Share {
                    origin: input.trace.origin.clone(),
                    root: input.trace.root.clone(),
                    hops: input.trace.hops,
                    amount: Amount::Turn,
                    asker: Root { home: self.rules.home.clone(), session: state.id.clone() },
                    place: None,
                    hops_max: limits.hops_max,
                    turns_max: limits.turns_max,
                    calls_max: limits.calls_max,
                };
                let spent = self.spent.entry(share.origin.clone()).or_default();
                let announce = spent.1.is_none();
                let shared = match share.of(spent.0) {
                    Ok(left) => {
                        spent.0 = left;
                        Shared::Granted
                    }
                    Err(why) => {
                        spent.1.get_or_insert(why);
                        Shared::Refused(Cut { number: 0, why, announce })
                    }
                };
                self.happens(place, Event::Shared { seq, shared });
            }
        }
    }

    fn take(&mut self, step: &Move) {
        self.now = Time(self.now.0 + 1_001);
        self.share_out();
        match step {
            Move::Says { place, text } => self.says(*place, text),
            Move::SaysAgain { place } => self.says_again(*place),
            Move::Orders { place, what } => self.orders(*place, *what),
            Move::Answers { place, text, tokens } => self.answers(*place, text, *tokens),
            Move::CallsTools { place, calls } => self.calls(*place, *calls),
            Move::Returns { place, index } => self.returns(*place, *index, 0),
            Move::Sends { place, index, letters } => self.returns(*place, *index, letters % 3),
            Move::Asks { place, index, kind } => self.asks(*place, *index, *kind),
            Move::Decides { place, index, verdict } => self.decides(*place, *index, *verdict),
            Move::Hears { place, origin, hops } => self.hears(*place, *origin, *hops),
            Move::Halts { place } => self.happens(*place, Event::Halted),
            Move::Releases { place } => self.happens(*place, Event::Released),
            Move::Echoes { place } => self.echoes(*place),
            Move::Fails { place, kind } => self.fails(*place, *kind),
            Move::Retries { place } => self.retries(*place),
            Move::Reloads { place } => self.happens(*place, taken_up()),
            Move::Resumes { place, repeatable } => {
                let repeatable = (0..8).filter(|bit| repeatable & (1 << bit) != 0).collect();
                self.happens(*place, Event::Loaded { repeatable });
            }
            Move::Trespasses { place } => self.trespasses(*place),
            Move::Surveys { place, how } => self.surveys(*place, *how),
            Move::Summarises { place, how } => self.summarises(*place, *how),
            Move::Reports { place } => self.reports(*place),
            Move::Restores { place, which } => self.restores(*place, *which),
            Move::DeferredCommands { place, what } => self.deferred_commands(*place, *what),
            Move::Finds { place, how } => self.finds(*place, *how),
            Move::Finalises { place } => self.finalises(*place),
            Move::HandsOver { place, how } => self.hands_over(*place, *how),
            Move::Reviews { place, how } => self.reviews(*place, *how),
            Move::Expires { place, how } => {
                let reason = [Reason::Idle, Reason::Daily][usize::from(how % 2)];
                let noticed = [Noticed::Message, Noticed::Watch][usize::from(how / 2 % 2)];
                self.happens(*place, Event::Expired { reason, noticed });
            }
            Move::Revives { place } => self.revives(*place),
            Move::Delivers { reply, change } => self.delivers(*reply, *change),
            Move::Written { place } => self.written(*place),
            Move::Tends => {
                self.flush();
                let tended = self.store.tend(self.now).expect("a store can be tended");
                assert!(tended.foreign.is_empty() && !tended.routes, "nobody else writes here: {tended:?}");
            }
            Move::Reopens => self.reopen(),
            Move::Batches { size } => {
                self.flush();
                self.batch = 1 + usize::from(*size) % PLACES;
            }
        }
    }

    // ------------------------------------------------------------------------------------ moves

    fn at(&self, place: u8) -> usize {
        usize::from(place) % PLACES
    }

    fn is_chat(&self, place: u8) -> bool {
        self.at(place) < 2
    }

    fn book(&self, place: u8) -> &Book {
        &self.books[&self.places[self.at(place)]]
    }

    fn input(&mut self, place: u8, kind: Kind) -> Arc<Input> {
        self.number += 1;
        let number = self.number.to_string();
        let chat = format!("chat{}", self.at(place));
        let is_chat = self.is_chat(place);
        Arc::new(Input {
            seq: self.book(place).state.received.next(),
            at: self.now,
            key: DedupeKey::of(&["test", &chat, &number]),
            kind,
            reply_to: is_chat.then(|| Destination {
                platform: "test".into(),
                account: "bot".into(),
                chat,
                thread: None,
                reply_to: Some(number.clone()),
            }),
            sender: is_chat.then(|| Sender { id: "u".into(), name: Some("Ü".into()) }),
            platform_id: is_chat.then_some(number),
            trace: Trace::default(),
            left: None,
        })
    }

    /// The calls of the open group, if there is one.
    fn open_calls(&self, place: u8) -> Option<(TurnId, u32, Vec<ToolCall>)> {
        let Phase::Turn(turn) = &self.book(place).state.phase else { return None };
        Some((turn.id, turn.step, turn.group.as_ref()?.answer.calls.clone()))
    }

    fn asks(&mut self, place: u8, index: u8, kind: u8) {
        self.flush_if_busy(place);
        let Some((turn, step, calls)) = self.open_calls(place) else { return };
        let question = match kind % 4 {
            0 => Question::Approval {
                what: "rm -rf \"ünï\"".into(),
                why: "it deletes".into(),
                patterns: vec!["recursive delete".into()],
            },
            1 => Question::Approval { what: "reboot".into(), why: "it ends".into(), patterns: Vec::new() },
            2 => Question::Clarify { question: "Which one?".into(), choices: vec!["a".into(), "b".into()] },
            _ => {
                let asked = Elicitation {
                    server: "files".into(),
                    question: "Which \"ünï\"?".into(),
                    choices: vec!["a".into()],
                };
                Question::Elicitation { asked, number: u32::from(kind) + 1 }
            }
        };
        let (index, patience) = (usize::from(index) % calls.len(), Duration::from_secs(300));
        self.happens(
            place,
            Event::Asked { turn, step, index, question, patience, approver: Approver::Present },
        );
    }

    fn decides(&mut self, place: u8, index: u8, verdict: u8) {
        self.flush_if_busy(place);
        let Some((turn, step, calls)) = self.open_calls(place) else { return };
        let verdict = match verdict % 7 {
            0 => Verdict::Granted(Grant::Once),
            1 => Verdict::Granted(Grant::Session),
            2 => Verdict::Granted(Grant::Always),
            3 => Verdict::Denied { reason: None },
            4 => Verdict::Denied { reason: Some("not \"that\"".into()) },
            5 => Verdict::Said("2".into()),
            _ => Verdict::Expired,
        };
        let index = usize::from(index) % calls.len();
        self.happens(place, Event::Decided { turn, step, index, verdict });
    }

    fn hears(&mut self, place: u8, origin: u8, hops: u8) {
        self.flush_if_busy(place);
        let text = if hops >= 200 { long("..") } else { "..".to_owned() };
        let kind = match self.is_chat(place) {
            true => Kind::Chat(Content::text(&text)),
            false => Kind::Request(Request { content: Content::text(&text), ..Request::default() }),
        };
        let input = self.input(place, kind);
        let root = match origin % 3 {
            0 => None,
            1 => Some(Root { home: "me".into(), session: self.places[self.at(place)].clone() }),
            _ => Some(Root { home: "other".into(), session: id("elsewhere") }),
        };
        // Every fourth one is a bot of somebody else.
        let foreign = (origin % 4 == 3).then(|| if hops.is_multiple_of(2) { "" } else { "m\"7" }.into());
        let (origin, hops) = (format!("human|{origin}").into(), 1 + u32::from(hops % 5));
        let trace = Trace { origin, root, hops, foreign };
        let reply_to = input.reply_to.clone().map(|place| Destination { reply_to: None, ..place });
        self.receives(place, Arc::new(Input { trace, reply_to, ..Input::clone(&input) }));
    }

    fn says(&mut self, place: u8, text: &str) {
        self.flush_if_busy(place);
        let kind = match self.is_chat(place) {
            true => Kind::Chat(Content::text(text)),
            false => Kind::Request(self.request(place, text)),
        };
        let input = self.input(place, kind);
        self.receives(place, input);
    }

    /// A client's request: its words, its view of the conversation, and an implicit key.
    fn request(&self, place: u8, text: &str) -> Request {
        let content = Content::text(text);
        let book = self.book(place);
        let before = book.tips.last().map(|(digest, _, _)| *digest);
        let thread = match before {
            Some(digest) => throughline_core::route::resume(digest, "user", &content),
            None => Thread::begin("p", None).then("user", &content),
        };
        Request {
            content,
            body: Some(Digest::of(&[text.as_bytes()])),
            thread: Some(thread.digest()),
            implicit_key: Some(Digest::of(&[b"implicit", text.as_bytes()])),
            system: Some("Be brief.".into()),
            sampling: Some(JsonText::from_valid("{\"temperature\": 0.50}")),
            task: (self.at(place) == CHILD).then(|| Task {
                parent: self.places[PARENT].clone(),
                source: "cli".into(),
                depth: 1,
                steps_max: 3,
                tokens_max: None,
                toolsets: Some(vec!["files".into()]),
            }),
            ..Request::default()
        }
    }

    /// Nobody works for a session that is not there.
    fn may_begin(&self, place: u8) -> bool {
        self.at(place) != CHILD || self.books[&self.places[PARENT]].born || self.book(place).born
    }

    fn says_again(&mut self, place: u8) {
        self.flush_if_busy(place);
        let Some((key, known)) =
            self.seen.iter().next_back().map(|(key, known)| (key.clone(), known.clone()))
        else {
            return;
        };
        if matches!(self.book(place).state.phase, Phase::Closed(_)) || !self.may_begin(place) {
            return;
        }
        let seq = self.book(place).state.received.next();
        let kind = Kind::Chat(Content::text("again"));
        let input = Input { seq, at: self.now, key, kind, ..bare_input() };
        let planned = self.plan(place, Event::Received(Arc::new(input)), self.first_acts(place));
        self.enqueue(Planned { expected: Expected::Duplicate(known.0, known.1), ..planned });
    }

    fn orders(&mut self, place: u8, what: u8) {
        self.flush_if_busy(place);
        let command = match what % 20 {
            0 | 1 => Command::New { successor: id(&format!("n{}", self.number)) },
            2 => Command::Status,
            3 => Command::Unknown { name: "huh".into() },
            4 => Command::Stop,
            5 => Command::Steer { text: "rather left".into() },
            6 => Command::Queue { text: "and then right".into() },
            7 => Command::Approve { grant: Grant::Session, all: true },
            8 => Command::Approve { grant: Grant::Once, all: false },
            9 => Command::Deny { reason: Some("no".into()), all: false },
            10 => Command::Steer { text: String::new() },
            11 => Command::Compress { focus: None, keep: None, preview: false },
            12 => Command::Compress { focus: Some("the \"ünï\"".into()), keep: None, preview: false },
            13 => Command::Compress { focus: None, keep: Some(2), preview: false },
            14 => Command::Compress { focus: None, keep: None, preview: true },
            16 => Command::Steer { text: long("rather left") },
            17 => Command::Queue { text: long("and then right") },
            18 => {
                Command::Deferred(DeferredCommand::Other { name: "usage".into(), argument: long("of what") })
            }
            _ => Command::Notice { text: "read this".into() },
        };
        let input = self.input(place, Kind::Command(command));
        self.receives(place, input);
    }

    fn receives(&mut self, place: u8, input: Arc<Input>) {
        if matches!(self.book(place).state.phase, Phase::Closed(_)) || !self.may_begin(place) {
            return; // the shell routes it elsewhere
        }
        let first = self.first_acts(place);
        let planned = self.plan(place, Event::Received(input), first);
        self.enqueue(planned);
    }

    /// A session that has not been born is opened by its first input.
    fn first_acts(&self, place: u8) -> Vec<Act> {
        if self.book(place).born {
            return Vec::new();
        }
        let chat = self.is_chat(place).then(|| chat(self.at(place)));
        let imported = match self.at(place) {
            3 => vec![Message::user(Time(1_600_000_000_000_000), Content::text("from long ago"))],
            _ => Vec::new(),
        };
        let is_child = self.at(place) == CHILD;
        let source = match (&chat, is_child) {
            (Some(_), _) => "test",
            (None, false) => "api_server",
            (None, true) => "subagent",
        };
        let reset =
            chat.as_ref().and_then(|chat| self.store.reader().reset(&chat.key).expect("can be asked"));
        let birth = Birth {
            predecessor: reset.map(|reset| reset.session),
            source: source.into(),
            user: (!is_child).then(|| "u".to_owned()),
            parent: is_child.then(|| self.places[PARENT].clone()),
            principal: chat.is_none().then(|| "p".to_owned()),
            model: Some("model".into()),
            imported,
            chat,
            ..Birth::default()
        };
        let freeze = Act::Freeze { prompt: "You are a test.".into(), layer: Some(Digest::of(&[b"layer"])) };
        vec![freeze, Act::Open(Box::new(birth))]
    }

    fn answers(&mut self, place: u8, text: &str, tokens: u16) {
        self.flush_if_busy(place);
        let said =
            Assistant { content: Content::text(text), finish: Some("stop".into()), ..Assistant::default() };
        self.answers_with(place, said, tokens);
    }

    fn calls(&mut self, place: u8, calls: u8) {
        self.flush_if_busy(place);
        self.number += 1;
        let call = |nth: u8| ToolCall {
            id: format!("call_{}_{nth}", self.number),
            name: "look".into(),
            arguments: "{\"at\": \"it\"}".into(),
            extra: None,
        };
        let said = Assistant {
            content: Content::Nothing,
            calls: (0..=calls % 3).map(call).collect(),
            finish: Some("tool_calls".into()),
            ..Assistant::default()
        };
        self.answers_with(place, said, 10);
    }

    fn answers_with(&mut self, place: u8, said: Assistant, tokens: u16) {
        let Some((turn, step)) = self.book(place).turn() else { return };
        let silent =
            matches!(&self.book(place).state.phase, Phase::Turn(turn) if turn.group.is_some() || turn.held);
        if silent {
            return; // no model is asked while its tools run, or while a compression is waited for
        }
        self.number += 1;
        let usage = Usage { input: tokens.into(), output: 7, cache_read: 3, cache_write: 2, reasoning: 1 };
        let head = Head { model: u64::MAX, tools: self.number, system: 1 << 63 };
        let prompt = Mark { chain: Digest::of(&[&self.number.to_le_bytes()]), messages: 3, head };
        let full = tokens >= 100;
        let answer = Answer { said, usage, model: "model-1".into() };
        let event = Event::Answered { turn, step, answer: answer.clone(), prompt, full };
        let planned = self.plan(place, event, Vec::new());
        self.enqueue(Planned { answer: Some(answer), ..planned });
    }

    fn returns(&mut self, place: u8, index: u8, letters: u8) {
        self.flush_if_busy(place);
        let Some((turn, step, calls)) = self.open_calls(place) else { return };
        let index = usize::from(index) % calls.len();
        let call = &calls[index];
        let result = ToolResult {
            call_id: call.id.clone(),
            name: Some(call.name.clone()),
            content: Content::text("found"),
        };
        let sends =
            (0..letters).map(|number| Letter { destination: elsewhere(), text: format!("letter {number}") });
        let sends = sends.collect();
        self.happens(place, Event::Called { turn, step, index, result, sends });
    }

    fn echoes(&mut self, place: u8) {
        let turn = TurnId(Seq(1_000_000));
        let answer = Answer::default();
        let prompt = Mark { chain: Digest::of(&[b"echo"]), messages: 0, head: Head::default() };
        if self.book(place).born {
            self.happens(place, Event::Answered { turn, step: 0, answer, prompt, full: false });
        }
    }

    fn fails(&mut self, place: u8, kind: u8) {
        self.flush_if_busy(place);
        let Some((turn, step)) = self.book(place).turn() else { return };
        let kind = match kind % 4 {
            0 => FailureKind::Wait { after_seconds: Some(3) },
            1 => FailureKind::Broken,
            2 => FailureKind::Unreachable,
            _ => FailureKind::Credentials,
        };
        let failure = Failure { kind, message: "it did not work".into() };
        self.happens(place, Event::Failed { turn, step, failure });
    }

    fn retries(&mut self, place: u8) {
        self.flush_if_busy(place);
        let Some(turn) = self.book(place).state.failed else { return };
        let session = self.places[self.at(place)].clone();
        let inputs = self.store.reader().turn_inputs(&session, turn).expect("a turn's inputs can be read");
        assert_eq!(inputs.first().map(|input| TurnId(input.seq)), Some(turn));
        self.happens(place, Event::Retried { inputs, began: self.now });
    }

    fn trespasses(&mut self, place: u8) {
        self.flush_if_busy(place);
        if !self.book(place).born {
            return;
        }
        let planned = self.plan(place, taken_up(), Vec::new());
        let expect = Generation(planned.expect.0 + 1);
        self.enqueue(Planned { expected: Expected::Fenced, expect, ..planned });
    }

    fn surveys(&mut self, place: u8, how: u8) {
        self.flush_if_busy(place);
        let book = self.book(place);
        let Some(asked) = book.state.survey().filter(|_| book.born) else { return };
        let nth = usize::from(how) % (book.live.len() + 1);
        let found = book.live.get(nth).map(|cut| Extent {
            cut: *cut,
            messages: book.live.len(),
            tokens: 1_000,
            plan: how.is_multiple_of(2).then_some(Plan { keep_first: 0, replaced: nth + 1, keep_last: 1 }),
            engine_is_idle: false,
        });
        self.happens(place, Event::Surveyed { asked, found: found.into() });
    }

    fn summarises(&mut self, place: u8, how: u8) {
        self.flush_if_busy(place);
        let book = self.book(place);
        let Some(operation) = &book.state.compression else { return };
        let number = operation.number;
        let cut = book.upto(operation.cut);
        let replace = |kind, first: usize, rows: usize, after_tokens| {
            let first = first.min(cut.saturating_sub(1));
            let said = |nth| {
                let text = Content::text(format!("[SUMMARY {number} {kind}, part {nth} — ünï]"));
                match nth {
                    0 => Message::user(self.now, text),
                    _ => Message::new(
                        self.now,
                        Body::Assistant(Assistant { content: text, ..Assistant::default() }),
                    ),
                }
            };
            Arc::new(Replacement {
                after: first.checked_sub(1).map(|nth| book.live[nth]),
                cut: operation.cut,
                replaced: cut - first,
                rows: (0..rows.min(cut - first)).map(said).collect(),
                kind,
                before: 2_000,
                after_tokens,
                model: "summariser".into(),
                remark: how.is_multiple_of(2).then(|| "Without \"focus\".".to_owned()),
            })
        };
        let summary = match how % 8 {
            0 => Err(NoSummary { end: End::Failed, reason: "no answer.".into() }),
            1 => Ok(replace(Replaced::Summary, 0, 1, 1_999)), // not worth it
            2 => Ok(replace(Replaced::Summary, 1, 2, 10)),
            3 => Ok(replace(Replaced::Summary, 0, 3, 10)),
            _ => Ok(replace(Replaced::Summary, usize::from(how / 8) % 3, 1, 10)),
        };
        let digest = how.is_multiple_of(3).then(|| replace(Replaced::Digest, 0, 1, 100));
        self.happens(place, Event::Summarised { operation: number, summary, digest });
    }

    fn reports(&mut self, place: u8) {
        self.flush_if_busy(place);
        let state = &self.book(place).state;
        let Some(Operation { number, stage: Stage::Promoted, .. }) = &state.compression else { return };
        let operation = *number;
        let promoted = self
            .store
            .reader()
            .promoted(&state.id, operation)
            .expect("can be asked")
            .expect("it is in place");
        self.happens(place, Event::Reported { operation, promoted });
    }

    fn restores(&mut self, place: u8, which: u8) {
        self.flush_if_busy(place);
        let book = self.book(place);
        let Some(kept) = book.kept.get(usize::from(which) % book.kept.len().max(1)) else { return };
        let snapshot = kept.name.clone();
        self.happens(place, Event::Restored { snapshot, context: 0 });
    }

    /// Of sessions that have ended in this place, the first whose hand-over is under way.
    fn finalises(&mut self, place: u8) {
        self.flush();
        let closed = self.books.values().filter_map(|book| match book.state.phase {
            Phase::Closed(stage) if stage != Finalisation::Done => Some((book.state.id.clone(), stage)),
            _ => None,
        });
        let closed: Vec<_> = closed.collect();
        if let Some((session, stage)) = closed.get(usize::from(place) % closed.len().max(1)) {
            let planned = self.plan_for(session, Event::Finalised(*stage), Vec::new());
            self.enqueue(planned);
        }
    }

    /// Of hand-overs that are under way, one.
    fn hands_over(&mut self, place: u8, how: u8) {
        self.flush();
        let closed = self.books.values().filter(|book| matches!(book.state.phase, Phase::Closed(_)));
        let closed: Vec<_> = closed.map(|book| book.state.clone()).collect();
        let Some(state) = closed.get(usize::from(place) % closed.len().max(1)) else { return };
        let hook = ["on_session_finalize: ünï", "on_session_finalize: b", "on_session_reset: b"]
            [usize::from(how / 8) % 3]
            .to_owned();
        let running = state.handover.running.clone().unwrap_or(hook.clone());
        let Phase::Closed(stage) = state.phase else { return };
        let event = match how % 8 {
            0 | 1 => Event::Handing(Handing::Began { hook }),
            2 => Event::Handing(Handing::Done { hook: running }),
            3 => Event::Released,
            4 => taken_up(),
            _ => Event::Handing(Handing::Failed { stage, step: running, why: "exit \"1\"".into() }),
        };
        let planned = self.plan_for(&state.id.clone(), event, Vec::new());
        self.enqueue(planned);
    }

    fn reviews(&mut self, place: u8, how: u8) {
        self.flush();
        let due = self.books.values().filter_map(|book| {
            let review = book.state.reviews.pending.front()?;
            Some((book.state.id.clone(), review.number))
        });
        let due: Vec<_> = due.collect();
        let Some((session, number)) = due.get(usize::from(place) % due.len().max(1)).cloned() else { return };
        let told: Vec<String> = (0..how % 3).map(|nth| format!("Memory \"ünï\" {nth}")).collect();
        let report = Report { changes: told.clone(), told, asked: 2, model: "m".into(), ..Report::default() };
        let result = if how % 4 == 3 { Err("no answer.".to_owned()) } else { Ok(report) };
        let planned = self.plan_for(&session, Event::Reviewed { number, result }, Vec::new());
        self.enqueue(planned);
    }

    /// Of sessions that have ended, one. Where its chat leads by then is another's business.
    fn revives(&mut self, place: u8) {
        self.flush();
        let closed = self.books.values().filter(|book| matches!(book.state.phase, Phase::Closed(_)));
        let closed: Vec<_> = closed.map(|book| book.state.id.clone()).collect();
        let api = |id: &&SessionId| !self.books[*id].in_chat;
        let closed: Vec<_> = closed.iter().filter(api).cloned().collect();
        if let Some(session) = closed.get(usize::from(place) % closed.len().max(1)) {
            let planned = self.plan_for(session, Event::Reopened, Vec::new());
            self.enqueue(planned);
        }
    }

    fn happens(&mut self, place: u8, event: Event) {
        self.flush_if_busy(place);
        if !self.book(place).born {
            return;
        }
        let planned = self.plan(place, event, Vec::new());
        self.enqueue(planned);
    }

    fn delivers(&mut self, reply: u8, change: u8) {
        self.flush();
        let waiting: Vec<usize> = (0..self.replies.len()).filter(|nth| !self.replies[*nth].over).collect();
        let Some(nth) = waiting.get(usize::from(reply) % waiting.len().max(1)) else { return };
        let (now, boot) = (self.now, self.boot);
        let sent = &mut self.replies[*nth];
        let change = match change % 4 {
            0 => {
                sent.attempts += 1;
                sent.attempting = Some(boot);
                sent.attempted = sent.attempted.or(Some(now));
                sent.marked |= change & 4 != 0;
                DeliveryChange::Attempting { marked: change & 4 != 0 }
            }
            1 => {
                sent.over = true;
                DeliveryChange::Delivered { platform_id: Some("77".into()) }
            }
            2 => {
                // Half of the time an earlier attempt may have arrived.
                let unknown_since = sent.attempted.filter(|_| change & 4 != 0);
                (sent.attempting, sent.attempted) = (unknown_since.map(|_| boot), unknown_since);
                sent.not_before = Time(now.0 + 5);
                DeliveryChange::Postponed { until: Time(now.0 + 5), error: "later".into(), unknown_since }
            }
            _ => {
                sent.over = true;
                DeliveryChange::Refused { error: "never".into() }
            }
        };
        let commit = Commit::Delivery { key: sent.key.clone(), boot, change, at: now };
        one(self.store.as_mut(), commit).expect("a waiting reply can change");
        self.compare_replies();
    }

    fn written(&mut self, place: u8) {
        self.flush();
        let session = self.places[self.at(place)].clone();
        let newest =
            self.implicit.values_mut().filter(|known| known.0 == session).max_by_key(|known| known.1);
        let Some(newest) = newest else { return };
        newest.3 = true;
        let commit = Commit::Written { session, seq: newest.1 };
        one(self.store.as_mut(), commit).expect("an answer can be marked as written");
        self.compare_keys();
    }

    fn reopen(&mut self) {
        self.flush();
        self.store.close(self.now).expect("a store can be closed");
        self.store = self.site.open();
        let boot = self.store.boot(self.now).expect("a start can be counted");
        assert!(boot > self.boot, "every start has a higher number");
        self.boot = boot;
        self.compare_all();
    }

    // --------------------------------------------------------------------------------- batching

    fn plan(&self, place: u8, event: Event, first: Vec<Act>) -> Planned {
        let session = self.places[self.at(place)].clone();
        self.plan_for(&session, event, first)
    }

    fn plan_for(&self, session: &SessionId, event: Event, first: Vec<Act>) -> Planned {
        let book = &self.books[session];
        let (mut next, mut acts) = book.state.step(event, self.now, &self.rules);
        self.read_texts(&mut next, &mut acts);
        acts.iter_mut().for_each(|act| file(&book.state.id, act));
        Planned {
            session: session.clone(),
            expected: Expected::Accepted,
            next,
            acts: first.into_iter().chain(acts).collect(),
            expect: book.expect,
            answer: None,
        }
    }

    /// What a step takes up is committed whole, as any shell does it.
    fn read_texts(&self, next: &mut Session, acts: &mut Vec<Act>) {
        let mut read = BTreeMap::new();
        for seq in next.unread(acts) {
            let accepted = acts.iter().find_map(|act| match act {
                Act::Accept(input) if input.seq == seq => Some(input.clone()),
                _ => None,
            });
            let stored = || self.store.reader().input(&next.id, seq).expect("an input can be read");
            read.insert(seq, accepted.or_else(stored).expect("what waits is there"));
        }
        next.take_in_whole(&read, self.now, &self.rules, acts);
    }

    /// A session's next commit follows from its last: they cannot share a batch.
    fn flush_if_busy(&mut self, place: u8) {
        let session = &self.places[self.at(place)];
        if self.planned.iter().any(|planned| planned.session == *session) {
            self.flush();
        }
    }

    fn enqueue(&mut self, planned: Planned) {
        self.planned.push(planned);
        if self.planned.len() >= self.batch {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let planned = std::mem::take(&mut self.planned);
        if planned.is_empty() {
            return;
        }
        let commits: Vec<Commit> = planned
            .iter()
            .map(|planned| Commit::Session {
                expect: planned.expect,
                state: Box::new(planned.next.clone()),
                acts: planned.acts.clone(),
                at: self.now,
            })
            .collect();
        let results = self.store.commit(&commits);
        assert_eq!(results.len(), planned.len(), "one result for each commit");
        let mut touched = BTreeSet::new();
        for (planned, result) in planned.into_iter().zip(results) {
            let session = planned.session.clone();
            match (&planned.expected, result) {
                (Expected::Accepted, Ok(committed)) => self.apply(planned, &committed, &mut touched),
                (
                    Expected::Duplicate(session, seq),
                    Err(StoreError::Duplicate { session: s, seq: n, .. }),
                ) => {
                    assert_eq!((session, seq), (&s, &n), "a duplicate is led to the first");
                }
                (Expected::Fenced, Err(StoreError::Fenced { .. })) => {}
                (expected, result) => panic!("{session}: expected {expected:?}, got {result:?}"),
            }
            touched.insert(session);
        }
        touched.iter().for_each(|session| self.compare(session));
        touched.iter().for_each(|session| self.learn(session));
        self.compare_keys();
        self.compare_replies();
        self.compare_unfinished();
        self.compare_asks();
        self.compare_kept();
    }

    /// The books follow what the port says each act does.
    fn apply(&mut self, planned: Planned, committed: &Committed, touched: &mut BTreeSet<SessionId>) {
        let id = planned.session.clone();
        let mut rows = committed.rows.iter();
        let mut book = self.books.remove(&id).expect("every session has a book");
        book.born = true;
        book.expect = planned.next.generation;
        for act in &planned.acts {
            match act {
                Act::Open(birth) => {
                    // Imported rows come before all others; their numbers are the store's own business.
                    birth.imported.iter().for_each(|message| book.says(message.clone(), RowId(0)));
                    book.principal.clone_from(&birth.principal);
                    book.user.clone_from(&birth.user);
                    book.parent.clone_from(&birth.parent);
                    book.in_chat = birth.chat.is_some();
                }
                Act::Accept(input) => {
                    self.words.insert(input.key.clone(), input.kind.clone());
                    self.note_seen(&id, input);
                }
                Act::Say(input) => panic!("{id}: the store took input {} without its texts", input.seq),
                Act::Append(message) => {
                    book.says(message.clone(), *rows.next().expect("a row for each message"));
                }
                Act::Step(step) => {
                    book.last_prompt = Some(step.prompt);
                    if let (None, Some(answer)) = (&step.open, &planned.answer) {
                        book.answers.insert(step.turn, answer.clone());
                    }
                }
                Act::Settle { seq, outcome } => {
                    book.outcomes.insert(*seq, outcome.clone());
                }
                Act::Begin { inputs, .. } => inputs.iter().for_each(|seq| {
                    book.outcomes.remove(seq);
                }),
                Act::Tip { turn, thread } => book.tips.push((*thread, *turn, book.transcript.len())),
                Act::Deliver(reply) => self.note_reply(&id, reply),
                Act::Freeze { prompt, layer } => book.prompt = Some((prompt.clone(), *layer)),
                Act::Close { successor, moved, .. } => {
                    self.succeed(&id, &book, successor, moved);
                    touched.insert(successor.clone());
                }
                Act::Rewind { rows, kept_as, .. } => book.rewinds(*rows, kept_as),
                Act::Title { session, title } => {
                    let found =
                        self.store.reader().session(session).expect("can be asked").expect("it is there");
                    assert_eq!(found.title.as_ref(), Some(title), "what {session} is called");
                }
                Act::Switch { .. } => {
                    touched.insert(self.switches(&id, &book, act));
                }
                Act::Expire { reason, had_activity, .. } => {
                    let place = self.places.iter().position(|place| *place == id);
                    let place = place.expect("only what is open expires");
                    if book.in_chat {
                        let reset = self.store.reader().reset(&chat(place).key).expect("can be asked");
                        let reset = reset.expect("it is known how it ended");
                        let known = (&reset.session, reset.reason, reset.had_activity);
                        assert_eq!(known, (&id, *reason, *had_activity));
                        assert_eq!(self.store.reader().route(&chat(place).key).expect("can be asked"), None);
                    }
                    self.number += 1;
                    let next = self::id(&format!("e{}", self.number));
                    self.books.insert(next.clone(), Book::new(next.clone()));
                    self.places[place] = next;
                }
                Act::Reopen | Act::Hook { .. } | Act::Leave { .. } | Act::Named => {}
                Act::Review(review) => {
                    let view = book.view.clone();
                    let prompt = book.prompt.as_ref().map(|(prompt, _)| prompt.clone());
                    book.reviews.entry(review.number).or_insert((view, prompt, book.last_prompt));
                }
                Act::Reviewed { .. } => {}
                Act::Restart { .. } => *self.notes.entry("restart_ordered".to_owned()).or_default() += 1,
                Act::Note { name, .. } => *self.notes.entry((*name).to_owned()).or_default() += 1,
                Act::Promote { replacement, snapshot, operation } => {
                    let before = book.view.len();
                    book.promotes(replacement, snapshot);
                    let promoted = committed.promoted.as_ref().expect("a promotion is counted");
                    let counted = (promoted.messages_before, promoted.messages_after);
                    assert_eq!(counted, (before, book.view.len()), "{id}: messages before and after");
                    assert_eq!((&promoted.snapshot, promoted.kind), (snapshot, replacement.kind));
                    let known = self.store.reader().promoted(&id, operation.number).expect("can be asked");
                    assert_eq!(known.as_ref(), Some(promoted), "{id}: what was counted is kept");
                }
                Act::Restore { snapshot, kept_as } => {
                    let before = book.view.len();
                    book.restores(snapshot, kept_as);
                    let promoted = committed.promoted.as_ref().expect("a restore is counted");
                    let counted = (promoted.messages_before, promoted.messages_after);
                    assert_eq!(counted, (before, book.view.len()), "{id}: messages before and after");
                }
                Act::Abandon { end, .. } => {
                    *self.notes.entry(format!("compression_{}", end.as_str())).or_default() += 1;
                }
                Act::Retain(kept) => {
                    self.kept.push((format!("{id}/{}", kept.turn), id.clone(), false));
                    let waits = |(_, session, due): &&(String, SessionId, bool)| *session == id && !*due;
                    if self.kept.iter().filter(waits).count() >= EVERY {
                        hand_over(&mut self.kept, &id);
                    }
                }
                Act::HandOver => hand_over(&mut self.kept, &id),
                Act::Recall { .. }
                | Act::Result { .. }
                | Act::Ask { .. }
                | Act::Grant { .. }
                | Act::Resume { .. }
                | Act::Compress(_) => {}
            }
        }
        assert_eq!(rows.next(), None, "no more rows than messages");
        book.state = planned.next;
        self.books.insert(id, book);
    }

    /// Where a summary stands is the store's own business.
    fn learn(&mut self, id: &SessionId) {
        let history = self.store.reader().history(id).expect("a transcript can be read");
        let book = self.books.get_mut(id).expect("every session has a book");
        book.live = history.iter().map(|(row, _)| *row).collect();
        for (shown, row) in book.view.iter().zip(&book.live) {
            if let Shown::Said(nth) = shown {
                book.rows[*nth] = *row;
            }
        }
    }

    fn note_seen(&mut self, session: &SessionId, input: &Input) {
        self.seen.insert(input.key.clone(), (session.clone(), input.seq));
        if let Kind::Request(Request { implicit_key: Some(key), .. }) = &input.kind {
            self.implicit.insert(*key, (session.clone(), input.seq, input.at, false));
        }
    }

    fn note_reply(&mut self, session: &SessionId, reply: &throughline_core::session::Reply) {
        if self.replies.iter().all(|sent| sent.key != reply.key) {
            self.replies.push(Sent {
                key: reply.key.clone(),
                text: reply.text.clone(),
                destination: reply.destination.clone(),
                trace: reply.trace.clone(),
                session: session.clone(),
                attempts: 0,
                attempting: None,
                attempted: None,
                marked: false,
                not_before: self.now,
                over: false,
            });
        }
    }

    fn succeed(&mut self, from: &SessionId, old: &Book, successor: &SessionId, moved: &[Arc<Input>]) {
        let mut next = Book::new(successor.clone());
        next.born = true;
        next.principal.clone_from(&old.principal);
        next.user.clone_from(&old.user);
        next.parent.clone_from(&old.parent);
        next.state.received = Seq(moved.len() as u64);
        next.state.active = self.now;
        next.in_chat = old.in_chat;
        self.arrive(from, &mut next, moved, 1);
        self.books.insert(successor.clone(), next);
        for place in &mut self.places {
            if place == from {
                place.clone_from(successor);
            }
        }
    }

    /// What waited elsewhere waits here, from this number on.
    fn arrive(&mut self, from: &SessionId, next: &mut Book, moved: &[Arc<Input>], first: u64) {
        let to = next.state.id.clone();
        for (input, seq) in moved.iter().zip(first..) {
            let mut input = Input::clone(input);
            input.seq = Seq(seq);
            self.seen.insert(input.key.clone(), (to.clone(), input.seq));
            if let Kind::Request(Request { implicit_key: Some(key), .. }) = &input.kind
                && let Some(known) = self.implicit.get_mut(key)
                && known.0 == *from
                && known.2 == input.at
            {
                *known = (to.clone(), input.seq, input.at, false);
            }
            next.state.waiting.push_back(Arc::new(input));
        }
    }

    // -------------------------------------------------------------------------------- comparing

    fn compare_all(&self) {
        self.books.keys().for_each(|session| self.compare(session));
        self.compare_keys();
        self.compare_replies();
        self.compare_unfinished();
        self.compare_asks();
        self.compare_standing();
        let counted: BTreeMap<_, _> =
            self.store.reader().counts().expect("events can be counted").into_iter().collect();
        for (name, count) in &self.notes {
            assert_eq!(counted.get(name), Some(count), "how often {name} happened");
        }
    }

    fn compare(&self, id: &SessionId) {
        let book = &self.books[id];
        let loaded = self.store.reader().load(id).expect("a session can be loaded");
        let Some(loaded) = loaded else {
            assert!(!book.born, "{id} is there");
            return;
        };
        assert_eq!(loaded.session, book.state, "{id} is as the machine left it");
        assert_eq!(loaded.last_prompt, book.last_prompt, "{id}: what the last step asked");
        assert_eq!(loaded.principal, book.principal, "{id}: whose it is");
        assert_eq!(loaded.user, book.user, "{id}: who writes there");
        assert_eq!(loaded.adopted, 0, "{id}: nobody else writes here");
        let is_closed = matches!(book.state.phase, Phase::Closed(_));
        assert_eq!(loaded.ended.is_some(), is_closed, "{id}: ended {:?}", loaded.ended);
        if let Some((prompt, layer)) = &book.prompt {
            assert_eq!((loaded.system_prompt.as_ref(), &loaded.layer), (Some(prompt), layer), "{id}");
        }
        if let Some(operation) = &book.state.compression
            && operation.stage != Stage::Promoted
        {
            assert!(
                self.store.reader().intact(id, operation).expect("can be asked"),
                "{id}: nobody else was here"
            );
        }
        self.compare_waiting(id, book);
        self.compare_transcript(id, book);
        self.compare_snapshots(id, book);
        self.compare_reviews(id, book);
        for seq in (1..=book.state.received.0).map(Seq) {
            self.compare_outcome(id, book, seq);
        }
        self.compare_tips(id, book);
    }

    /// Whatever waits can be read as it came in, also what waits without its texts.
    fn compare_waiting(&self, id: &SessionId, book: &Book) {
        for waiting in &book.state.waiting {
            let found = self
                .store
                .reader()
                .input(id, waiting.seq)
                .expect("an input can be read")
                .expect("it is there");
            let kind = self.words[&waiting.key].clone();
            let whole = Input { kind, left: None, ..Input::clone(waiting) };
            assert_eq!(*found, whole, "{id}: input {} as it came in", waiting.seq);
        }
        assert_eq!(
            self.store.reader().input(id, book.state.received.next()).expect("can be asked"),
            None,
            "{id}"
        );
    }

    fn compare_transcript(&self, id: &SessionId, book: &Book) {
        let history = self.store.reader().history(id).expect("a transcript can be read");
        let said: Vec<Message> = history.iter().map(|(_, message)| message.clone()).collect();
        assert_eq!(said, self.kept(book.shown(&book.view)), "{id}: the transcript");
        assert!(history.is_sorted_by(|(a, _), (b, _)| a < b), "{id}: rows rise");
        for ((row, _), shown) in history.iter().zip(&book.view) {
            if let Shown::Said(nth) = shown
                && book.rows[*nth].0 > 0
            {
                assert_eq!(*row, book.rows[*nth], "{id}: rows are where the commit said");
            }
        }
    }

    fn kept(&self, messages: Vec<Message>) -> Vec<Message> {
        messages.iter().map(|message| self.site.kept(message)).collect()
    }

    /// Every view that was can be read as it was.
    fn compare_snapshots(&self, id: &SessionId, book: &Book) {
        let listed = self.store.reader().snapshots(id).expect("snapshots can be listed");
        let names: Vec<&str> = listed.iter().map(|found| found.name.as_str()).collect();
        let expected: Vec<&str> = book.kept.iter().map(|kept| kept.name.as_str()).collect();
        assert_eq!(names, expected, "{id}: its snapshots, in order");
        for (kept, summary) in book.kept.iter().zip(&listed) {
            let found = self.store.reader().snapshot(&kept.name).expect("can be read").expect("is there");
            assert_eq!((&found.summary, &summary.session), (summary, id), "{}", kept.name);
            assert_eq!(summary.messages, kept.view.len(), "{}", kept.name);
            let rows: Vec<Message> = found.rows.into_iter().map(|(_, message)| message).collect();
            assert_eq!(rows, self.kept(book.shown(&kept.view)), "{}: as it was", kept.name);
        }
    }

    /// A review that is due can be run on the view it fell due on, whatever has happened since.
    fn compare_reviews(&self, id: &SessionId, book: &Book) {
        let open = self.store.reader().reviews().expect("reviews can be listed");
        for (number, (view, prompt, asked)) in &book.reviews {
            let found = self.store.reader().review(id, *number).expect("a review can be read");
            let Some(due) = book.state.reviews.pending.iter().find(|review| review.number == *number) else {
                assert_eq!(found, None, "{id}: review {number} is over");
                continue;
            };
            let found = found.expect("it is due");
            assert_eq!(found.messages, self.kept(book.shown(view)), "{id}: what review {number} is about");
            assert_eq!((found.gone, found.asked), (0, *asked), "{id}: review {number}");
            if prompt.is_some() {
                assert_eq!(&found.system_prompt, prompt, "{id}: review {number}");
            }
            let listed = open.iter().find(|record| (&record.session, record.number) == (id, *number));
            let listed = listed.map(|record| (record.subject, record.due, record.tries, &record.parked));
            assert_eq!(listed, Some((due.subject, due.due, due.tries, &None)), "{id}: review {number}");
        }
    }

    fn compare_outcome(&self, id: &SessionId, book: &Book, seq: Seq) {
        let settled = self.store.reader().outcome(id, seq).expect("an outcome can be read");
        let outcome = settled.as_ref().map(|settled| &settled.outcome);
        assert_eq!(outcome, book.outcomes.get(&seq), "{id}/{seq}: what became of it");
        let answer = settled.and_then(|settled| settled.answer);
        let known = match book.outcomes.get(&seq) {
            Some(Outcome::Answered(turn)) => book.answers.get(turn).cloned(),
            _ => None,
        };
        assert_eq!(answer, known, "{id}/{seq}: its answer");
    }

    fn compare_tips(&self, id: &SessionId, book: &Book) {
        for (digest, turn, length) in &book.tips {
            let matches = self.store.reader().thread("p", digest).expect("a thread can be looked up");
            let theirs: Vec<_> =
                matches.iter().filter(|found| found.session == *id && found.turn == *turn).collect();
            let orders = |input: &Arc<Input>| matches!(&input.kind, Kind::Command(Command::Compress { .. }));
            let is_tip = book.state.waiting.iter().all(orders)
                && book.state.phase == Phase::Idle
                && *length == book.transcript.len();
            assert_eq!(theirs.len(), 1, "{id}: turn {turn} is found by its client's history");
            assert_eq!(theirs[0].is_tip, is_tip, "{id}: whether turn {turn} is the last word");
            assert_eq!(self.store.reader().thread("somebody else", digest).expect("can be looked up"), []);
        }
    }

    fn compare_keys(&self) {
        for (key, (session, seq)) in &self.seen {
            let seen =
                self.store.reader().seen(key).expect("a key can be looked up").expect("it was accepted");
            assert_eq!((&seen.session, &seen.seq), (session, seq), "where {key} is");
        }
        for (key, (session, seq, at, written)) in &self.implicit {
            let found =
                self.store.reader().implicit(key).expect("words can be looked up").expect("they were said");
            assert_eq!((&found.session, found.seq, found.at), (session, *seq, *at), "who said them last");
            assert_eq!(found.written, *written, "whether the answer arrived");
        }
        for place in 0..2 {
            let led = self.store.reader().route(&chat(place).key).expect("a route can be looked up");
            let expected = self.books[&self.places[place]].born.then(|| self.places[place].clone());
            assert_eq!(led, expected, "where chat {place} leads");
        }
    }

    fn compare_replies(&self) {
        let stored = self.store.reader().undelivered().expect("replies can be read");
        let stored: Vec<Sent> = stored
            .into_iter()
            .map(|outgoing| Sent {
                key: outgoing.key,
                text: outgoing.text,
                destination: outgoing.destination,
                trace: outgoing.trace,
                session: outgoing.session,
                attempts: outgoing.attempts,
                attempting: outgoing.attempting,
                attempted: outgoing.attempted,
                marked: outgoing.marked,
                not_before: outgoing.not_before,
                over: false,
            })
            .collect();
        let expected: Vec<Sent> = self.replies.iter().filter(|sent| !sent.over).cloned().collect();
        assert_eq!(stored, expected, "replies that have not left, in order");
    }

    fn compare_unfinished(&self) {
        let stored: BTreeSet<_> =
            self.store.reader().unfinished().expect("can be asked").into_iter().collect();
        let busy = self.books.values().filter(|book| book.born && !book.state.is_quiet());
        let expected: BTreeSet<_> = busy.map(|book| book.state.id.clone()).collect();
        assert_eq!(stored, expected, "what a start has to take up");
        let stored: BTreeSet<_> = self.store.reader().halted().expect("can be asked").into_iter().collect();
        let silenced = self.books.values().filter(|book| book.born && book.state.halted);
        let expected: BTreeSet<_> = silenced.map(|book| book.state.id.clone()).collect();
        assert_eq!(stored, expected, "what is silenced");
    }

    fn compare_standing(&self) {
        let status = self.store.reader().home_status().expect("can be asked");
        let born: Vec<&Session> =
            self.books.values().filter(|book| book.born).map(|book| &book.state).collect();
        let held = |state: &Session| state.compression.as_ref().map_or(0, |operation| operation.orders.len());
        let waiting: usize = born.iter().map(|state| state.waiting.len() + held(state)).sum();
        assert_eq!(status.waiting, waiting as u64, "messages that wait");
        let first = born.iter().flat_map(|state| state.waiting.iter().map(|input| input.at)).min();
        if let (Some(first), Some(oldest)) = (first, &status.oldest_waiting) {
            assert!(oldest.since <= first, "{oldest:?} is the oldest, and one waits since {first}");
        }
        let mut running: Vec<_> = born
            .iter()
            .filter_map(|state| {
                let Phase::Turn(turn) = &state.phase else { return None };
                let slots = turn.group.iter().flat_map(|group| group.slots.iter().zip(&group.answer.calls));
                let open: Vec<_> = slots.filter(|(slot, _)| !matches!(slot, Slot::Done(_))).collect();
                Some(Running {
                    session: state.id.clone(),
                    source: String::new(), // not the machine's business
                    since: turn.began,
                    step: turn.step,
                    asking: open.iter().any(|(slot, _)| matches!(slot, Slot::Asking(_))),
                    tools: open.iter().map(|(_, call)| call.name.clone()).collect(),
                })
            })
            .collect();
        running.sort_by_key(|turn| (turn.since, turn.session.clone()));
        let told: Vec<_> =
            status.running.into_iter().map(|turn| Running { source: String::new(), ..turn }).collect();
        assert_eq!(told, running, "turns that run");
        let pending = self.replies.iter().filter(|sent| !sent.over);
        assert_eq!(status.undelivered, pending.clone().count() as u64, "replies that have not left");
        let oldest = status.oldest_undelivered.map(|reply| reply.key);
        assert_eq!(oldest.as_deref(), pending.map(|sent| sent.key.as_str()).next());
        let halted = born.iter().filter(|state| state.halted).count();
        assert_eq!(status.halted_sessions, halted as u64, "silenced");
    }

    fn compare_kept(&self) {
        let unkept = self.store.reader().unkept().expect("can be asked");
        let stored: Vec<_> = unkept
            .iter()
            .map(|it| {
                let due = it.progress == Progress::Due;
                (it.retention.key.clone(), it.retention.scope.session.clone(), due)
            })
            .collect();
        assert_eq!(stored, self.kept, "what nobody remembers yet");
        let due = self.store.reader().retentions(PROVIDER).expect("can be asked");
        let expected: Vec<_> = self.kept.iter().filter(|it| it.2).map(|it| it.0.clone()).take(1000).collect();
        assert_eq!(due.iter().map(|it| it.retention.key.clone()).collect::<Vec<_>>(), expected);
    }

    fn compare_asks(&self) {
        let mut expected = Vec::new();
        for book in self.books.values() {
            let Phase::Turn(turn) = &book.state.phase else { continue };
            let Some(group) = &turn.group else { continue };
            for (index, slot) in group.slots.iter().enumerate() {
                if let Slot::Asking(ask) = slot {
                    let session = book.state.id.clone();
                    let question = ask.question.number();
                    let call = CallId { session, turn: turn.id, step: turn.step, index, question };
                    let tool = group.answer.calls[index].name.clone();
                    expected.push(Pending { call, tool, ask: ask.clone() });
                }
            }
        }
        expected.sort_by_key(|pending| (pending.ask.asked, pending.call.clone()));
        assert_eq!(self.store.reader().asks().expect("can be asked"), expected, "what waits for a person");
        for parent in self.books.keys() {
            let stored: BTreeSet<_> =
                self.store.reader().children(parent).expect("can be asked").into_iter().collect();
            let theirs = self.books.values().filter(|book| book.parent.as_ref() == Some(parent));
            let theirs: BTreeSet<_> = theirs.map(|book| book.state.id.clone()).collect();
            assert_eq!(stored, theirs, "who works for {parent}");
        }
    }
}

// ------------------------------------------------------------------------------- single promises

fn id(text: &str) -> SessionId {
    text.parse().expect("a plain id")
}

fn taken_up() -> Event {
    Event::Loaded { repeatable: Vec::new() }
}

/// Where letters go.
fn elsewhere() -> Destination {
    Destination {
        platform: AGENT_PLATFORM.into(),
        account: "other".into(),
        chat: "elsewhere".into(),
        thread: Some("thread".into()),
        reply_to: None,
    }
}

/// An input with nothing in it.
fn bare_input() -> Input {
    Input {
        seq: Seq(1),
        at: Time(0),
        key: DedupeKey::of(&[]),
        kind: Kind::Chat(Content::Nothing),
        reply_to: None,
        sender: None,
        platform_id: None,
        trace: Trace::default(),
        left: None,
    }
}

fn chat(place: usize) -> Chat {
    let key: ChatKey = format!("agent:main:test:dm:{place}").parse().expect("a plain key");
    let origin = format!("{{\"platform\": \"test\", \"chat_id\": \"{place}\", \"user_id\": \"u\"}}");
    Chat {
        key,
        platform: "test".into(),
        chat_type: "dm".into(),
        display_name: Some(format!("Chat {place}")),
        origin: Some(JsonText::from_valid(origin)),
    }
}

fn one(store: &mut dyn Store, commit: Commit) -> Result<Committed, StoreError> {
    let mut results = store.commit(&[commit]);
    assert_eq!(results.len(), 1, "one result for one commit");
    results.remove(0)
}

fn world(sites: Sites<'_>) -> World {
    World::new(sites(), Rules::default())
}

fn says(place: u8, text: &str) -> Move {
    Move::Says { place, text: text.into() }
}

fn answers(place: u8, text: &str) -> Move {
    Move::Answers { place, text: text.into(), tokens: 10 }
}

fn a_turn_is_two_commits_and_every_commit_can_be_loaded(sites: Sites<'_>) {
    for place in 0..PLACES as u8 {
        world(sites).play(&[says(place, "hi"), answers(place, "hello"), says(place, "more"), Move::Reopens]);
    }
}

fn p7_the_same_message_is_accepted_once(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "hi"), Move::SaysAgain { place: 0 }, answers(0, "hello")]);
    world.play(&[Move::Reopens, Move::SaysAgain { place: 0 }, Move::SaysAgain { place: 1 }]);
    // A client's key: the same body is the same request, another body is told apart.
    one(world.store.as_mut(), keyed_request("b0", b"one")).expect("the first is accepted");
    for (body, same) in [(b"one", true), (b"two", false)] {
        match one(world.store.as_mut(), keyed_request("b1", body)) {
            Err(StoreError::Duplicate { session, seq, same_body }) => {
                assert_eq!((session, seq, same_body), (id("b0"), Seq(1), same));
            }
            result => panic!("a known key was not refused: {result:?}"),
        }
    }
    assert_eq!(world.store.reader().load(&id("b1")).expect("can be asked"), None, "nothing was begun");
}

/// The first request of a session, under one and the same idempotency key.
fn keyed_request(session: &str, body: &[u8]) -> Commit {
    let at = Time(1_700_000_000_000_000);
    let request =
        Request { content: Content::text("x"), body: Some(Digest::of(&[body])), ..Request::default() };
    let key = DedupeKey::of(&["idempotency"]);
    let input = Input { at, key, kind: Kind::Request(request), ..bare_input() };
    let event = Event::Received(Arc::new(input));
    let (state, mut acts) = Session::new(id(session)).step(event, at, &Rules::default());
    acts.insert(0, Act::Open(Box::new(Birth { source: "api_server".into(), ..Birth::default() })));
    Commit::Session { expect: Generation(0), state: Box::new(state), acts, at }
}

fn p3_a_late_owner_is_refused(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[
        says(0, "hi"),
        Move::Reloads { place: 0 },
        Move::Trespasses { place: 0 },
        answers(0, "hello"),
    ]);
    // Two stores on one home: whoever loads later owns the session.
    world.take(&says(0, "and then?"));
    let session = world.places[0].clone();
    let mut second = world.site.open();
    let loaded = second.reader().load(&session).expect("can be loaded").expect("is there").session;
    let (state, acts) = loaded.step(taken_up(), world.now, &world.rules);
    let current = state.generation;
    let owned = Commit::Session { expect: loaded.generation, state: Box::new(state), acts, at: world.now };
    one(second.as_mut(), owned).expect("the newer owner is accepted");
    let planned = world.plan(0, taken_up(), Vec::new());
    let late = Commit::Session {
        expect: planned.expect,
        state: Box::new(planned.next),
        acts: planned.acts,
        at: world.now,
    };
    match one(world.store.as_mut(), late) {
        Err(StoreError::Fenced { session: fenced, current: found }) => {
            assert_eq!((fenced, found), (session, current));
        }
        result => panic!("a late owner was not refused: {result:?}"),
    }
}

fn a_refused_commit_leaves_its_neighbours_standing(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "hi")]);
    world.play(&[
        Move::Batches { size: 3 },
        says(1, "left neighbour"),
        Move::SaysAgain { place: 2 },
        Move::Trespasses { place: 0 },
        says(3, "right neighbour"),
    ]);
    assert_eq!(
        world.store.reader().load(&id("s2")).expect("can be asked"),
        None,
        "the refused one left nothing"
    );
}

fn p8_what_waits_moves_to_the_next_session(sites: Sites<'_>) {
    let new = |place| Move::Orders { place, what: 0 };
    for place in [0, 2] {
        let mut world = world(sites);
        world.play(&[
            says(place, "one"),
            says(place, "two"),
            new(place),
            says(place, "three"),
            says(place, "four"),
        ]);
        world.play(&[answers(place, "first"), answers(place, "second"), answers(place, "third")]);
        assert_ne!(world.places[usize::from(place)], id(&format!("s{place}")), "the place has moved on");
        let finalises = vec![Move::Finalises { place: 0 }; 6];
        world.play(&finalises);
        world.play(&[Move::Reloads { place }, answers(place, "a"), answers(place, "b"), new(place)]);
    }
}

/// More than is kept in memory, and told apart from any other by its beginning and its end.
fn long(name: &str) -> String {
    format!("{name} {} {name}", "ü\n".repeat(INLINE_BYTES_MAX / 2))
}

fn p8_long_texts_wait_on_disk_and_move_whole(sites: Sites<'_>) {
    let says = |place, name| says(place, &long(name));
    let light = |world: &World, place: u8| {
        world.book(place).state.waiting.iter().filter(|input| input.left.is_some()).count()
    };
    for place in [0, 2] {
        let mut world = world(sites);
        world.play(&[says(place, "one"), says(place, "two"), Move::Orders { place, what: 17 }]);
        assert_eq!(light(&world, place), 2, "they wait without their texts");
        world.play(&[Move::Orders { place, what: 0 }, says(place, "three"), says(place, "four")]);
        world.play(&[Move::Reloads { place }, answers(place, "first"), answers(place, "second")]);
        world.play(&[Move::Reopens, answers(place, "third")]);
        assert_ne!(world.places[usize::from(place)], id(&format!("s{place}")), "the place has moved on");
        world.play(&[answers(place, "a"), Move::Reloads { place }, answers(place, "b"), answers(place, "c")]);
        let mut said: Vec<String> = Vec::new();
        for session in world.books.keys().filter(|id| world.books[*id].born) {
            let rows = world.store.reader().history(session).expect("can be read");
            said.extend(rows.into_iter().map(|(_, message)| message.content().plain()));
        }
        for name in ["one", "two", "three", "four", "and then right"] {
            let times = said.iter().filter(|said| **said == long(name)).count();
            assert_eq!(times, 1, "place {place}: what begins with {name:?} was said once, and whole");
        }
    }
    // What comes in with the very commit that moves it.
    let mut world = world(sites);
    world.play(&[
        says(0, "one"),
        Move::Halts { place: 0 },
        Move::Orders { place: 0, what: 0 },
        says(0, "two"),
    ]);
    world.play(&[answers(0, "first"), says(0, "three"), answers(0, "second")]);
}

fn an_input_without_its_texts_is_refused(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(2, &long("one")), says(2, &long("two"))]);
    let book = world.book(2);
    let Phase::Turn(turn) = &book.state.phase else { panic!("the first is being answered") };
    let failure = Failure { kind: FailureKind::Broken, message: "it did not work".into() };
    let event = Event::Failed { turn: turn.id, step: turn.step, failure };
    let (state, acts) = book.state.step(event, world.now, &world.rules);
    assert!(!state.unread(&acts).is_empty(), "the second begins");
    let commit = Commit::Session { expect: book.expect, state: Box::new(state), acts, at: world.now };
    one(world.store.as_mut(), commit).expect_err("a turn is about words");
    world.compare_all();
    world.play(&[answers(2, "first"), answers(2, "second")]);
}

fn p20_a_conversation_ends_by_itself_and_the_next_knows_of_it(sites: Sites<'_>) {
    for how in 0..4 {
        let mut world = world(sites);
        let expires = Move::Expires { place: 0, how };
        world.play(&[says(0, "one"), expires.clone()]); // not while a turn runs
        assert_eq!(world.places[0], id("s0"));
        world.play(&[answers(0, "first")]);
        let resting = world.store.reader().resting(Time(i64::MAX)).expect("can be asked");
        let found: Vec<_> = resting.iter().map(|it| (it.session.as_str(), it.platform.as_str())).collect();
        assert_eq!(found, [("s0", "test")]);
        assert_eq!(
            world.store.reader().resting(resting[0].active).expect("can be asked"),
            [],
            "not before its time"
        );
        world.play(&[expires, Move::Reopens]);
        assert_ne!(world.places[0], id("s0"), "the place has moved on");
        world.play(&[says(0, "two"), answers(0, "second")]);
        assert_eq!(
            world.store.reader().reset(&chat(0).key).expect("can be asked"),
            None,
            "another has begun there"
        );
        world.play(&vec![Move::Finalises { place: 0 }; 6]);
        world.play(&[Move::Revives { place: 0 }, Move::Reloads { place: 0 }]);
    }
}

fn p20_every_commit_of_a_hand_over_can_be_the_last(sites: Sites<'_>) {
    let does = |how| Move::HandsOver { place: 0, how };
    let story = [
        Move::Finalises { place: 0 },
        does(0), // begins the first
        does(5), // which fails
        does(0),
        does(2), // and is done
        does(8), // begins the second
        does(4), // the process ends
        does(2), // and it is done all the same
        does(8), // an echo
        Move::Finalises { place: 0 },
        Move::Finalises { place: 0 },
        Move::Finalises { place: 0 },
    ];
    for place in [0, 2] {
        let mut world = world(sites);
        world.play(&[says(place, "one"), answers(place, "first"), Move::Orders { place, what: 0 }]);
        for step in &story {
            world.play(&[step.clone(), Move::Reopens]);
        }
        let ended = &world.books[&id(&format!("s{place}"))].state;
        assert_eq!((&ended.phase, ended.handover.done.len()), (&Phase::Closed(Finalisation::Done), 2));
    }
}

fn p20_what_was_set_aside_is_found_by_name(sites: Sites<'_>) {
    let mut world = world(sites);
    let does = |how| Move::HandsOver { place: 0, how };
    world.play(&[says(0, "one"), answers(0, "first"), Move::Expires { place: 0, how: 2 }]);
    world.play(&[Move::Finalises { place: 0 }]);
    for _ in 0..ATTEMPTS_MAX {
        assert_eq!(world.store.reader().parked().expect("can be asked"), []);
        world.play(&[does(0), does(5)]);
    }
    let parked = world.store.reader().parked().expect("can be asked");
    let found: Vec<_> = parked.iter().map(|it| (it.session.as_str(), it.attempts, it.stage)).collect();
    assert_eq!(found, [("s0", ATTEMPTS_MAX, Finalisation::Hooks)]);
    assert!(parked[0].why.starts_with("on_session_finalize: ünï: exit"), "{}", parked[0].why);
    world.play(&[Move::Reopens, does(3)]);
    assert_eq!(world.store.reader().parked().expect("can be asked"), [], "somebody let it go on");
}

fn what_is_held_is_found_with_its_age(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "one"), answers(0, "first"), Move::Halts { place: 0 }]);
    world.play(&[Move::Hears { place: 0, origin: 0, hops: 0 }]);
    let held = world.store.reader().backlog().expect("can be asked");
    let found: Vec<_> = held.iter().map(|it| (it.session.as_str(), it.waiting, it.oldest)).collect();
    assert_eq!(found, [("s0", 1, world.now)]);
    world.play(&[Move::Releases { place: 0 }]);
    assert_eq!(world.store.reader().backlog().expect("can be asked"), []);
}

fn p9_an_open_group_survives_and_closes_whole(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[
        says(0, "look"),
        Move::CallsTools { place: 0, calls: 2 },
        Move::Returns { place: 0, index: 1 },
    ]);
    assert_eq!(world.books[&id("s0")].transcript.len(), 1, "an open group is not in the transcript");
    let result = ToolResult { call_id: "x".into(), name: None, content: Content::text("another") };
    let twice = Act::Result { turn: TurnId(Seq(1)), step: 0, index: 1, result };
    let state = Box::new(world.books[&id("s0")].state.clone());
    let commit = Commit::Session { expect: state.generation, state, acts: vec![twice], at: world.now };
    assert!(one(world.store.as_mut(), commit).is_err(), "a call that is done has its result");
    world.compare(&id("s0"));
    world.play(&[Move::Returns { place: 0, index: 0 }, Move::Returns { place: 0, index: 2 }]);
    assert_eq!(world.books[&id("s0")].transcript.len(), 5, "a closed one is, in call order");
    world.play(&[answers(0, "seen")]);
    // A restart gives up what nobody knows the end of.
    world.play(&[
        says(0, "again"),
        Move::CallsTools { place: 0, calls: 1 },
        Move::Returns { place: 0, index: 0 },
    ]);
    world.play(&[Move::Reloads { place: 0 }, answers(0, "one of two")]);
    let parked = [says(0, "crash"), Move::CallsTools { place: 0, calls: 0 }, Move::Reloads { place: 0 }];
    world.play(&parked);
    for _ in 0..3 {
        world.play(&[Move::CallsTools { place: 0, calls: 0 }, Move::Reloads { place: 0 }]);
    }
}

fn p9_questions_and_grants_wait_through_a_restart(sites: Sites<'_>) {
    let mut world = world(sites);
    let asks = |index, kind| Move::Asks { place: 0, index, kind };
    let decides = |index, verdict| Move::Decides { place: 0, index, verdict };
    world.play(&[says(0, "clean up"), Move::CallsTools { place: 0, calls: 2 }, asks(1, 0), asks(0, 2)]);
    let asked = world.store.reader().asks().expect("can be asked");
    assert_eq!(asked.iter().map(|pending| pending.call.index).collect::<Vec<_>>(), [1, 0], "oldest first");
    assert_eq!((asked[0].call.to_string().as_str(), asked[0].tool.as_str()), ("s0/1/0/1", "look"));
    // The third call was running; those that ask go on waiting, however often the process ends.
    world.play(&[Move::Reloads { place: 0 }, Move::Reopens, Move::Reloads { place: 0 }]);
    assert_eq!(world.store.reader().asks().expect("can be asked"), asked);
    world.play(&[decides(1, 1), Move::Reopens, decides(0, 5), Move::Resumes { place: 0, repeatable: 2 }]);
    assert_eq!(world.books[&id("s0")].state.allowed, ["recursive delete"]);
    assert_eq!(world.store.reader().asks().expect("can be asked"), []);
    // A granted call may ask once more, and be refused.
    world.play(&[asks(1, 1), decides(1, 6), answers(0, "as you wish")]);
    // The yes outlives the turn, and the message of a person answers what was asked in its place.
    world.play(&[says(0, "again"), Move::CallsTools { place: 0, calls: 1 }, asks(0, 2), asks(1, 1)]);
    world.play(&[says(0, "b"), Move::Orders { place: 0, what: 9 }, answers(0, "done"), Move::Reopens]);
    // What steers the turn came first, and joins after the answer that the call waited for.
    world.play(&[says(0, "which?"), Move::CallsTools { place: 0, calls: 0 }, asks(0, 2)]);
    world.play(&[Move::Orders { place: 0, what: 5 }, says(0, "that one"), Move::Reopens]);
    let Phase::Turn(turn) = &world.books[&id("s0")].state.phase else { panic!("it goes on") };
    let order: Vec<u64> = turn.inputs.iter().map(|input| input.seq.0 - turn.id.0.0).collect();
    assert_eq!(order, [0, 2, 1]);
    world.play(&[answers(0, "that one, on the left")]);
    assert_eq!(world.books[&id("s0")].state.allowed, ["recursive delete"]);
}

/// A turn with three calls, of which one asks, one is granted and one sends.
fn p9_every_commit_of_a_turn_with_calls_can_be_the_last(sites: Sites<'_>) {
    let story = [
        says(0, "do three things"),
        Move::CallsTools { place: 0, calls: 2 },
        Move::Asks { place: 0, index: 0, kind: 0 },
        Move::Sends { place: 0, index: 2, letters: 2 },
        says(0, "meanwhile"),
        Move::Orders { place: 0, what: 5 },
        Move::Decides { place: 0, index: 0, verdict: 0 },
        Move::Returns { place: 0, index: 0 },
        Move::Asks { place: 0, index: 1, kind: 2 },
        Move::Decides { place: 0, index: 1, verdict: 3 },
        Move::CallsTools { place: 0, calls: 0 },
        Move::Returns { place: 0, index: 0 },
        answers(0, "done"),
    ];
    for repeatable in [0, 0b111] {
        for last in 0..story.len() {
            let restart = [Move::Resumes { place: 0, repeatable }, Move::Reopens];
            let end = [answers(0, "and the rest"), answers(0, "and more")];
            world(sites).play(&[&story[..last], &restart, &story[last..], &end].concat());
        }
    }
}

fn p4_a_stopped_turn_leaves_nothing_open_and_loses_nothing(sites: Sites<'_>) {
    let order = |what| Move::Orders { place: 0, what };
    let mut world = world(sites);
    world.play(&[
        says(0, "look"),
        Move::CallsTools { place: 0, calls: 2 },
        Move::Returns { place: 0, index: 1 },
    ]);
    world.play(&[
        Move::Asks { place: 0, index: 0, kind: 1 },
        says(0, "waits"),
        order(6),
        order(4),
        Move::Reopens,
    ]);
    let book = &world.books[&id("s0")];
    assert!(matches!(book.outcomes[&Seq(1)], Outcome::Failed(_, Failure { kind: FailureKind::Stopped, .. })));
    assert_eq!(book.turn(), Some((TurnId(Seq(2)), 0)), "what waits is next");
    assert_eq!(world.store.reader().asks().expect("can be asked"), []);
    world.play(&[answers(0, "first"), order(5), answers(0, "second"), answers(0, "third")]);
    assert!(world.books[&id("s0")].state.is_quiet());
}

fn p22_a_review_is_about_the_view_it_fell_due_on(sites: Sites<'_>) {
    for place in [0, 2] {
        let mut world = World::new(sites(), busy_rules(BusyInput::Queue));
        let turn = [says(place, "hi"), answers(place, "hello"), Move::Reopens];
        (0..2).for_each(|_| world.play(&turn));
        let session = id(&format!("s{place}"));
        let due = |world: &World| world.books[&session].state.reviews.pending.len();
        assert_eq!(due(&world), 1);
        assert_eq!(
            world.store.reader().unfinished().expect("can be asked"),
            std::slice::from_ref(&session),
            "a start takes it up"
        );
        // What is summarised, taken back or ended is none of its business.
        let what: Vec<Move> = (0..31)
            .flat_map(|how| {
                let deferred = Move::DeferredCommands { place, what: how % 4 };
                [
                    Move::Surveys { place, how },
                    Move::Summarises { place, how: 8 * how + 4 },
                    says(place, "more"),
                    answers(place, "and more"),
                    Move::Reports { place },
                    deferred,
                    Move::Finds { place, how },
                    Move::Restores { place, which: how },
                    Move::Tends,
                ]
            })
            .collect();
        world.play(&what);
        world.play(&[Move::Orders { place, what: 0 }, Move::Reopens]);
        assert!(due(&world) > 0, "it is still due");
        world.play(&vec![Move::Reviews { place: 0, how: 1 }; 64]);
        assert_eq!(due(&world), 0);
        world.play(&[Move::Reopens]);
    }
}

fn p22_a_review_that_is_over_stays_over(sites: Sites<'_>) {
    let mut world = World::new(sites(), busy_rules(BusyInput::Queue));
    let turn = [says(0, "hi"), answers(0, "hello")];
    let reviews = |how| [Move::Reviews { place: 0, how }, Move::Reopens, Move::Reloads { place: 0 }];
    (0..2).for_each(|_| world.play(&turn));
    world.play(&reviews(2));
    assert_eq!(world.store.reader().reviews().expect("can be asked"), []);
    (0..2).for_each(|_| world.play(&turn));
    (0..3).for_each(|_| world.play(&reviews(3)));
    let open = world.store.reader().reviews().expect("can be asked");
    assert_eq!(
        open.iter().map(|it| (it.number, it.parked.as_deref())).collect::<Vec<_>>(),
        [(2, Some("no answer."))]
    );
    assert!(world.books[&id("s0")].state.is_quiet(), "what is set aside stays there");
    assert!(world.replies.iter().any(|sent| sent.key == "s0/review-1"));
}

fn p4_a_silenced_session_stays_silent_through_a_restart(sites: Sites<'_>) {
    let mut world = world(sites);
    let [halts, releases] = [Move::Halts { place: 0 }, Move::Releases { place: 0 }];
    let hears = |origin| Move::Hears { place: 0, origin, hops: 0 };
    world.play(&[says(0, "look"), Move::CallsTools { place: 0, calls: 1 }, hears(3), halts.clone()]);
    world.play(&[hears(6), Move::Reopens, Move::Reloads { place: 0 }]);
    assert_eq!(world.store.reader().unfinished().expect("can be asked"), [], "a start does not wake it");
    assert_eq!(world.store.reader().halted().expect("can be asked"), [id("s0")]);
    world.play(&[releases, Move::Reopens]);
    assert_eq!(world.store.reader().unfinished().expect("can be asked"), [id("s0")], "and then it goes on");
    // Or a person lifts it by writing.
    world.play(&[halts.clone(), says(0, "still there?"), answers(0, "yes"), answers(0, "both")]);
    world.play(&[Move::Halts { place: 2 }, says(2, "hi"), answers(2, "hello"), Move::Halts { place: 2 }]);
    assert_eq!(world.store.reader().halted().expect("can be asked"), [id("s2")]);
}

fn a_turn_that_uses_up_its_budget_is_known_to_have(sites: Sites<'_>) {
    let step = [Move::CallsTools { place: 0, calls: 0 }, Move::Returns { place: 0, index: 0 }, Move::Reopens];
    let mut world = World::new(sites(), busy_rules(BusyInput::Queue));
    world.play(&[says(0, "dig")]);
    (0..3).for_each(|_| world.play(&step));
    let Phase::Turn(turn) = &world.books[&id("s0")].state.phase else { panic!("it has not ended") };
    assert!(turn.spent > 0 && !turn.exhausted && turn.repeated.is_some());
    world.play(&[step[0].clone(), Move::Reopens]);
    let Phase::Turn(turn) = &world.books[&id("s0")].state.phase else { panic!("it may answer once more") };
    assert!(turn.exhausted && turn.group.is_none());
    world.play(&[step[0].clone(), Move::Reopens, says(0, "go on"), answers(0, "here")]);
    let outcome = &world.books[&id("s0")].outcomes[&Seq(1)];
    assert!(
        matches!(outcome, Outcome::Failed(_, Failure { kind: FailureKind::Exhausted, .. })),
        "{outcome:?}"
    );
    // A helper has the budget of its task.
    let child = CHILD as u8;
    let step = [Move::CallsTools { place: child, calls: 0 }, Move::Returns { place: child, index: 0 }];
    world.play(&[says(2, "delegate"), says(child, "do it")]);
    (0..3).for_each(|_| world.play(&step));
    world.play(&[answers(child, "that is all"), Move::Reopens]);
}

fn calls_that_lead_nowhere_are_counted_through_a_restart(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(2, "look")]);
    for _ in 0..5 {
        world.play(&[
            Move::CallsTools { place: 2, calls: 0 },
            Move::Returns { place: 2, index: 0 },
            Move::Reopens,
        ]);
    }
    world.play(&[Move::CallsTools { place: 2, calls: 0 }, Move::Reopens]);
    assert_eq!(world.notes.get("calls_repeated"), Some(&1));
    world.play(&[answers(2, "nothing there")]);
}

fn a_chain_between_agents_is_counted_and_cut_with_one_notice(sites: Sites<'_>) {
    let mut world = World::new(sites(), busy_rules(BusyInput::Queue));
    let hears = |place, origin| Move::Hears { place, origin, hops: 0 };
    // Origin 2 began elsewhere, origin 1 here.
    for origin in [2, 1] {
        for _ in 0..2 {
            world.play(&[hears(0, origin), answers(0, ".."), Move::Reopens]);
        }
        world.play(&[hears(0, origin), hears(0, origin), Move::Reloads { place: 0 }]);
    }
    world.play(&[says(0, "still there?"), answers(0, "yes")]);
    assert_eq!(world.notes.get("chain_cut"), Some(&4));
    let notices = |world: &World| world.replies.iter().filter(|sent| sent.key.contains("|cut/human")).count();
    assert_eq!(notices(&world), 2, "told once for each chain, where it was cut");
    let heard = world.books[&id("s0")].rows.len();
    assert_eq!(heard, 2 * (2 * 2 + 2) + 2, "a message that begins no turn is a row all the same");
    // Too many hops are too many for the first message, too; a person is answered all the same.
    world.play(&[Move::Hears { place: 1, origin: 2, hops: 3 }, says(0, "and I?"), answers(0, "yes")]);
    assert_eq!(notices(&world), 2, "by whichever session");
    assert_eq!(world.replies.last().map(|sent| sent.trace.hops), Some(1));
}

fn what_a_result_sends_leaves_with_it(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "tell them"), Move::CallsTools { place: 0, calls: 1 }]);
    world.play(&[
        Move::Sends { place: 0, index: 1, letters: 2 },
        Move::Sends { place: 0, index: 1, letters: 2 },
    ]);
    let keys: Vec<_> = world.replies.iter().map(|sent| sent.key.as_str()).collect();
    assert_eq!(keys, ["s0/1/0/1/0", "s0/1/0/1/1"], "once, however often the result comes");
    world.play(&[Move::Reloads { place: 0 }, Move::Reopens, answers(0, "told")]);
}

fn a_session_that_works_for_another_is_found_by_it_and_not_listed(sites: Sites<'_>) {
    let mut world = world(sites);
    let child = CHILD as u8;
    world.play(&[
        says(child, "nobody asked"),
        says(2, "otter"),
        says(child, "find the otter"),
        answers(child, "an otter"),
    ]);
    assert_eq!(world.store.reader().children(&id("s2")).expect("can be asked"), [id("s4")]);
    assert_eq!(world.store.reader().children(&id("s4")).expect("can be asked"), []);
    let listed = |filter: SessionFilter| -> Vec<String> {
        let found = world.store.reader().sessions(&filter).expect("can be listed");
        found.into_iter().map(|summary| summary.id.to_string()).collect()
    };
    assert_eq!(listed(SessionFilter::default()), ["s2"]);
    assert_eq!(listed(SessionFilter { session: Some(id("s4")), ..SessionFilter::default() }), ["s4"]);
    let find =
        |filter: SessionFilter| world.store.reader().search("otter", &filter).expect("can be searched").len();
    assert_eq!(find(SessionFilter::default()), 3);
    assert_eq!(find(SessionFilter { without_helpers: true, ..SessionFilter::default() }), 1);
    assert_eq!(
        find(SessionFilter { exclude: Some(id("s4")), ..SessionFilter::default() }),
        0,
        "one conversation"
    );
    // A new beginning does not make it anybody's chat.
    world.play(&[Move::Orders { place: child, what: 0 }, Move::Reopens]);
    assert_eq!(world.store.reader().sessions(&SessionFilter::default()).expect("can be listed").len(), 1);
}

fn p10_a_delivered_reply_stays_delivered(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "hi"), answers(0, "hello"), says(1, "ho"), answers(1, "yes")]);
    let deliver = |change| Move::Delivers { reply: 0, change };
    world.play(&[deliver(0), Move::Reopens, deliver(4), deliver(6), Move::Reopens, deliver(0)]);
    assert!(world.replies[0].attempted.is_some(), "what may have arrived stays so, whatever comes later");
    world.play(&[deliver(2), deliver(0), deliver(1)]);
    let key = world.replies[0].key.clone();
    let commit = |change| Commit::Delivery { key: key.clone(), boot: world.boot, change, at: world.now };
    let again = one(world.store.as_mut(), commit(DeliveryChange::Attempting { marked: false }));
    assert!(again.is_err(), "what is delivered is not attempted again");
    let late = DeliveryChange::Postponed { until: world.now, error: "late".into(), unknown_since: None };
    one(world.store.as_mut(), commit(late)).expect("a late word about it changes nothing");
    world.compare_replies();
    world.play(&[deliver(3)]);
    assert_eq!(world.store.reader().undelivered().expect("can be asked"), []);
}

fn p10_a_preview_is_known_until_its_reply_takes_its_place(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "hi")]);
    let (session, destination) = (world.places[0].clone(), elsewhere());
    let key = format!("{session}/1");
    let draft = |change| Commit::Draft { key: key.clone(), change, at: Time(5) };
    let intended =
        || draft(DraftChange::Intended { session: session.clone(), destination: destination.clone() });
    let posted = |id: &str| draft(DraftChange::Posted { id: id.into() });
    let known = |world: &World| world.store.reader().drafts().expect("can be asked");
    assert_eq!(known(&world), []);
    for (commit, then) in [
        (intended(), vec![(key.clone(), None)]),
        (posted("77"), vec![(key.clone(), Some("77".to_owned()))]),
        (draft(DraftChange::Left), vec![]),
        (posted("78"), vec![]), // late: nobody intends it any more
        (intended(), vec![(key.clone(), None)]),
        (posted("79"), vec![(key.clone(), Some("79".to_owned()))]),
    ] {
        one(world.store.as_mut(), commit.clone()).expect("a preview can change");
        assert_eq!(known(&world), then, "after {commit:?}");
    }
    world.play(&[answers(0, "hello"), Move::Reopens]);
    assert_eq!(known(&world), [(key.clone(), Some("79".to_owned()))], "after a start");
    let deliver = |change| Move::Delivers { reply: 0, change };
    world.play(&[deliver(0), deliver(2), deliver(0)]);
    assert_eq!(known(&world).len(), 1, "it is not there yet");
    world.play(&[deliver(1)]);
    assert_eq!(known(&world), [], "the reply is that message now");
}

fn a_failed_turn_is_tried_again_as_the_same_turn(sites: Sites<'_>) {
    let mut world = world(sites);
    let fails = |kind| Move::Fails { place: 2, kind };
    world.play(&[says(2, "hi"), fails(0), Move::Retries { place: 2 }, fails(1), Move::Reopens]);
    world.play(&[
        Move::Retries { place: 2 },
        Move::CallsTools { place: 2, calls: 0 },
        Move::Returns { place: 2, index: 0 },
    ]);
    world.play(&[
        fails(2),
        Move::Retries { place: 2 },
        answers(2, "at last"),
        says(2, "more"),
        answers(2, "yes"),
    ]);
    assert_eq!(
        world.books[&id("s2")].transcript.iter().filter(|message| message.role() == "user").count(),
        2
    );
    // A turn that failed with its tools open leaves none of them behind.
    world.play(&[
        says(0, "look"),
        Move::CallsTools { place: 0, calls: 1 },
        Move::Returns { place: 0, index: 0 },
    ]);
    world.play(&[
        Move::Fails { place: 0, kind: 0 },
        Move::Retries { place: 0 },
        Move::Reopens,
        answers(0, "done"),
    ]);
}

fn a_clients_own_history_finds_where_it_goes_on(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(2, "hi"), answers(2, "hello"), says(2, "more"), answers(2, "yes")]);
    world.play(&[says(2, "waiting")]);
    // Somebody else's conversation with the same words is found, too, and told apart.
    let mut other = World::new(sites(), Rules::default());
    other.play(&[says(2, "hi"), answers(2, "hello")]);
    let session = other.places[2].clone();
    let digest = other.books[&session].tips[0].0;
    assert_eq!(world.books[&id("s2")].tips[0].0, digest, "same principal, same words, same digest");
    let matches = world.store.reader().thread("p", &digest).expect("can be looked up");
    assert!(!matches[0].is_tip, "more has been said since");
}

fn an_implicit_key_finds_the_newest_request(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(2, "hi"), answers(2, "hello"), Move::Written { place: 2 }, says(2, "hi")]);
    world.play(&[answers(2, "hello again"), says(3, "hi"), Move::Written { place: 3 }]);
    assert_eq!(world.store.reader().implicit(&Digest::of(&[b"never said"])).expect("can be looked up"), None);
}

fn a_session_keeps_its_prompt_and_its_owner(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(3, "hi")]);
    let session = world.places[3].clone();
    let loaded = world.store.reader().load(&session).expect("can be loaded").expect("is there");
    assert_eq!(loaded.source, "api_server");
    assert_eq!(loaded.principal.as_deref(), Some("p"));
    let planned = world.plan(3, taken_up(), vec![Act::Freeze { prompt: "Another.".into(), layer: None }]);
    world.enqueue(planned);
    world.play(&[Move::Reopens]);
    let summary = world.store.reader().session(&session).expect("can be described").expect("is there");
    assert_eq!((summary.source.as_str(), summary.preview.as_str()), ("api_server", "from long ago"));
    assert_eq!(summary.messages, 2);
}

fn starts_are_counted_and_cursors_kept(sites: Sites<'_>) {
    let mut world = world(sites);
    assert_eq!(world.store.reader().cursor("telegram", "bot").expect("can be read"), None);
    for value in ["41", "42"] {
        let cursor =
            Commit::Cursor { platform: "telegram".into(), account: "bot".into(), value: value.into() };
        one(world.store.as_mut(), cursor).expect("a cursor can be written");
    }
    let note = Commit::Note { session: None, name: "odd", detail: "very".into(), at: world.now };
    one(world.store.as_mut(), note).expect("an event can be noted");
    world.play(&[Move::Reopens]);
    assert_eq!(world.store.reader().cursor("telegram", "bot").expect("can be read").as_deref(), Some("42"));
    assert_eq!(world.store.reader().cursor("telegram", "other").expect("can be read"), None);
    assert!(world.store.reader().counts().expect("can be counted").contains(&("odd".to_owned(), 1)));
}

fn p31_search_shows_only_the_callers_own(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "the otter in the chat"), says(2, "the otter of p"), answers(2, "an otter, yes")]);
    let find = |query: &str, filter: SessionFilter| -> Vec<String> {
        let hits = world
            .store
            .reader()
            .search(query, &SessionFilter { limit: 10, ..filter })
            .expect("can be searched");
        assert!(hits.iter().all(|hit| hit.snippet.contains(">>>")), "{hits:?}");
        hits.into_iter().map(|hit| hit.session.to_string()).collect()
    };
    assert_eq!(find("otter", SessionFilter::default()), ["s2", "s2", "s0"], "newest first");
    let mine = SessionFilter { principal: Some("p".into()), ..SessionFilter::default() };
    assert_eq!(find("otter", mine), ["s2", "s2"]);
    let theirs = SessionFilter { principal: Some("q".into()), ..SessionFilter::default() };
    assert_eq!(find("otter", theirs), [] as [&str; 0]);
    let one = SessionFilter { session: Some(id("s0")), ..SessionFilter::default() };
    assert_eq!(find("otter", one), ["s0"]);
    assert_eq!(find("\"otter of\"", SessionFilter::default()), ["s2"]);
    assert_eq!(find("ott* chat", SessionFilter::default()), ["s0"]);
    assert_eq!(find("tter", SessionFilter::default()).len(), 3, "a part of a word");
    for odd in ["", "   ", "\"", "AND OR NOT", "a:b (", "*", "'; DROP TABLE messages", "NEAR(", "\0"] {
        let _ =
            world.store.reader().search(odd, &SessionFilter::default()).expect("nothing typed is an error");
    }
}

fn p31_a_person_sees_their_own_sessions_and_those_of_their_chat(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "otter here"), says(1, "otter there"), says(2, "otter of p")]);
    let person = |user: &str, chat: Option<&str>| Scope::Person {
        source: "test".into(),
        user: Some(user.into()),
        chat: chat.map(str::to_owned),
    };
    let nobody = Scope::Person { source: "test".into(), user: None, chat: None };
    let elsewhere = Scope::Person { source: "other".into(), user: Some("u".into()), chat: None };
    for (scope, expected) in [
        (Scope::Owner, vec!["s0", "s1", "s2"]),
        (Scope::Principal("p".into()), vec!["s2"]),
        (Scope::Principal("q".into()), vec![]),
        (person("u", None), vec!["s0", "s1"]),
        (person("v", None), vec![]),
        (person("u", Some("1")), vec!["s1"]),
        (person("v", Some("1")), vec!["s1"]), // everybody there has read it
        (person("u", Some("7")), vec![]),
        (nobody, vec![]),
        (elsewhere, vec![]),
    ] {
        let filter = SessionFilter { scope: Some(scope.clone()), ..SessionFilter::default() };
        let hits = world.store.reader().search("otter", &filter).expect("can be searched");
        let mut found: Vec<_> = hits.iter().map(|hit| hit.session.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "search by {scope:?}");
        let listed = world.store.reader().sessions(&filter).expect("can be listed");
        let mut listed: Vec<_> = listed.iter().map(|summary| summary.id.as_str()).collect();
        listed.sort_unstable();
        assert_eq!(listed, expected, "list by {scope:?}");
        let anchor = Anchor {
            session: id("s0"),
            row: world.books[&id("s0")].rows[0],
            window: 1,
            ends: 0,
            scope: Some(scope.clone()),
        };
        let seen = world.store.reader().around(&anchor).expect("can be read").is_some();
        assert_eq!(seen, expected.contains(&"s0"), "a row by {scope:?}");
    }
}

fn what_was_said_around_a_row_can_be_read(sites: Sites<'_>) {
    let mut world = world(sites);
    for number in 0..4 {
        world.play(&[says(2, &format!("question {number}")), answers(2, &format!("answer {number}"))]);
    }
    world.play(&[says(0, "elsewhere")]);
    let rows = world.books[&id("s2")].rows.clone();
    let anchor =
        |session: &str, row: RowId, ends| Anchor { session: id(session), row, window: 1, ends, scope: None };
    let passage =
        world.store.reader().around(&anchor("s2", rows[3], 2)).expect("can be read").expect("is there");
    let ids = |rows: &[(RowId, Message)]| rows.iter().map(|(row, _)| *row).collect::<Vec<_>>();
    assert_eq!(ids(&passage.rows), rows[2..5]);
    assert_eq!((ids(&passage.first), ids(&passage.last)), (rows[..2].to_vec(), rows[6..].to_vec()));
    assert_eq!((passage.session, passage.root), (id("s2"), id("s2")));
    assert_eq!(passage.rows[1].1.content().plain(), "answer 1");
    let first =
        world.store.reader().around(&anchor("s2", rows[0], 2)).expect("can be read").expect("is there");
    assert_eq!((ids(&first.rows), ids(&first.first)), (rows[..2].to_vec(), vec![]));
    assert_eq!(
        world.store.reader().around(&anchor("s0", rows[3], 2)).expect("can be read"),
        None,
        "not in that one"
    );
    assert_eq!(world.store.reader().around(&anchor("s2", RowId(99_999), 2)).expect("can be read"), None);
    let order = |order, roles: &[&str]| -> Vec<RowId> {
        let roles = roles.iter().map(|&role| role.to_owned()).collect();
        let filter = SessionFilter { order, roles, limit: 3, ..SessionFilter::default() };
        world
            .store
            .reader()
            .search("question", &filter)
            .expect("can be searched")
            .iter()
            .map(|hit| hit.row)
            .collect()
    };
    assert_eq!(order(Order::Oldest, &[]), [rows[0], rows[2], rows[4]]);
    assert_eq!(order(Order::Newest, &["user"]), [rows[6], rows[4], rows[2]]);
    assert_eq!(order(Order::Best, &["assistant"]), []);
    let one = SessionFilter { one_each: true, order: Order::Best, ..SessionFilter::default() };
    assert_eq!(world.store.reader().search("question", &one).expect("can be searched").len(), 1);
}

fn p30_calls_questions_and_stops_can_be_followed(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[
        says(0, "look"),
        Move::CallsTools { place: 0, calls: 2 },
        Move::Asks { place: 0, index: 0, kind: 0 },
    ]);
    world.play(&[
        Move::Asks { place: 0, index: 1, kind: 2 },
        Move::Decides { place: 0, index: 0, verdict: 0 },
    ]);
    let told = |world: &World| -> Vec<String> {
        let story = world.store.reader().trace("s0/1").expect("a message can be followed");
        story.iter().map(|trace| format!("{}: {}", trace.name, trace.detail)).collect()
    };
    let has = |story: &[String], parts: &[&str]| {
        assert!(
            story.iter().any(|line| parts.iter().all(|part| line.contains(part))),
            "{parts:?} in {story:#?}"
        );
    };
    let story = told(&world);
    has(&story, &["answered_by_model", "3 tool calls, 0 done"]);
    has(&story, &["call_asked", "1/0/0", "rm -rf"]);
    has(&story, &["call_granted", "1/0/0", "once"]);
    has(&story, &["call: 1/0/0 look", "granted once"]);
    has(&story, &["call: 1/0/1 look", "asks", "Which one?"]);
    has(&story, &["call: 1/0/2 look", "running"]);
    world.play(&[Move::Decides { place: 0, index: 1, verdict: 6 }, Move::Orders { place: 0, what: 4 }]);
    let story = told(&world);
    has(&story, &["call: 1/0/1 look", "did not respond in time"]);
    has(&story, &["call: 1/0/2 look", "stopped by the user"]);
    has(&story, &["turn_stopped"]);
    has(&story, &["failed", "Stopped."]);
    // What another agent said, and that it was not answered.
    world.play(&[Move::Hears { place: 1, origin: 2, hops: 4 }, Move::Halts { place: 1 }]);
    world.play(&[Move::Hears { place: 1, origin: 2, hops: 0 }]);
    let story: Vec<String> = [1, 2]
        .iter()
        .flat_map(|seq| world.store.reader().trace(&format!("s1/{seq}")).expect("can be followed"))
        .map(|trace| format!("{}: {}", trace.name, trace.detail))
        .collect();
    has(&story, &["received", "5 hops", "human|2"]);
    if world.rules.limits.chain.hops_max < 5 {
        has(&story, &["chain_cut"]);
    }
    has(&story, &["waiting", "silenced"]);
}

fn p30_a_message_can_be_followed(sites: Sites<'_>) {
    let mut world = world(sites);
    world.play(&[
        says(0, "one"),
        says(0, "two"),
        answers(0, "first"),
        Move::Delivers { reply: 0, change: 0 },
    ]);
    world.play(&[Move::Delivers { reply: 0, change: 1 }]);
    for name in ["s0/1", "1", "77"] {
        let story = world.store.reader().trace(name).expect("a message can be followed");
        let names: Vec<&str> = story.iter().map(|trace| trace.name.as_str()).collect();
        for expected in ["received", "turn_began", "answered_by_model", "answered", "reply_delivered"] {
            assert!(names.contains(&expected), "{name}: {expected} is missing from {names:?}");
        }
        assert!(story.is_sorted_by_key(|trace| trace.at));
    }
    let row = world.books[&id("s0")].rows[0].to_string();
    assert!(!world.store.reader().trace(&row).expect("a row can be followed").is_empty());
    assert_eq!(world.store.reader().trace("no such thing").expect("can be asked"), []);
}

const PROVIDER: &str = "elsewhere";
/// So many turns of a session are handed over together.
const EVERY: usize = 2;

/// Several sessions share each document.
fn document_of(session: &SessionId) -> String {
    let sum = session.as_str().bytes().map(u32::from).sum::<u32>();
    format!("document {}", sum % 2)
}

/// What is kept of a session is due, and before it whatever was kept earlier in the same document.
fn hand_over(kept: &mut [(String, SessionId, bool)], id: &SessionId) {
    let Some(last) = kept.iter().rposition(|(_, session, _)| session == id) else { return };
    for (_, session, due) in &mut kept[..=last] {
        *due |= document_of(session) == document_of(id);
    }
}

/// Whom a turn concerns, as the shell would find out.
fn file(session: &SessionId, act: &mut Act) {
    if let Act::Retain(kept) = act {
        let scope = scope(session, None);
        let naming = Naming { name: document_of(session), otherwise: None };
        kept.filing = Some(Filing { provider: PROVIDER.into(), scope, naming, every: EVERY as u64 });
    }
}

fn scope(session: &SessionId, chat: Option<&str>) -> Whose {
    Whose {
        agent: "me".into(),
        chat: chat.map(|chat| chat.parse().expect("a key")),
        session: session.clone(),
        generation: Generation(0),
        parent: None,
        platform: "telegram".into(),
        user: Some("42".into()),
        user_name: Some("Ann \"quoted\"".into()),
        place: Place { chat: Some("42".into()), kind: Some("dm".into()), ..Place::default() },
        title: None,
        document: None,
        meant: None,
    }
}

/// One session with one turn, which goes to a place called so.
fn keeps(world: &mut World, session: &str, chat: &str, naming: Naming) {
    let filing =
        Filing { provider: "named".into(), scope: scope(&id(session), Some(chat)), naming, every: 1 };
    let kept = KeptTurn {
        turn: TurnId(Seq(1)),
        said: vec!["hello".into(), "are you there?".into()],
        replied: "yes".into(),
        filing: Some(filing),
    };
    let acts = vec![Act::Open(Box::default()), Act::Retain(Box::new(kept))];
    let state = Box::new(Session::new(id(session)));
    let commit = Commit::Session { expect: Generation(0), state, acts, at: world.now };
    world.store.commit(&[commit]).remove(0).expect("it is committed");
}

fn changes(world: &mut World, key: &str, change: RetentionChange) {
    let commit = Commit::Retention { key: key.into(), change, at: world.now };
    world.store.commit(&[commit]).remove(0).expect("it is committed");
}

/// P26: what is on its way stays a row until it is acknowledged, and an attempt leaves its trace first.
fn p26_a_turn_is_kept_until_its_provider_has_it(sites: Sites<'_>) {
    let mut world = world(sites);
    let naming = Naming { name: "one".into(), otherwise: None };
    keeps(&mut world, "k1", "agent:main:telegram:dm:1", naming);
    let found = world.store.reader().retentions("named").expect("can be asked");
    let [pending] = &found[..] else { panic!("{found:?}") };
    let retention = &pending.retention;
    assert_eq!((retention.key.as_str(), retention.index, retention.tried), ("k1/1", 1, false));
    assert_eq!(retention.said, ["hello", "are you there?"]);
    assert_eq!((retention.replied.as_str(), retention.document.as_str()), ("yes", "one"));
    assert_eq!(retention.scope, scope(&id("k1"), Some("agent:main:telegram:dm:1")));
    assert_eq!(world.store.reader().retentions("another").expect("can be asked"), []);

    changes(&mut world, "k1/1", RetentionChange::Attempting);
    assert!(world.store.reader().retentions("named").expect("can be asked")[0].retention.tried);
    let until = world.now;
    let later = |arrived| RetentionChange::Postponed { until, error: "away".into(), arrived };
    changes(&mut world, "k1/1", later(false));
    let pending = &world.store.reader().retentions("named").expect("can be asked")[0];
    assert_eq!(
        (pending.retention.tried, pending.error.as_deref(), pending.attempts),
        (false, Some("away"), 1)
    );
    changes(&mut world, "k1/1", RetentionChange::Refused { error: "too large".into() });
    assert_eq!(world.store.reader().retentions("named").expect("can be asked"), []);
    assert_eq!(world.store.reader().unkept().expect("can be asked")[0].progress, Progress::Refused);
    changes(&mut world, "k1/1", RetentionChange::Retried);
    changes(&mut world, "k1/1", RetentionChange::Attempting);
    changes(&mut world, "k1/1", RetentionChange::Kept);
    assert_eq!(world.store.reader().unkept().expect("can be asked"), []);
    let again = Commit::Retention { key: "k1/1".into(), change: RetentionChange::Attempting, at: world.now };
    assert!(world.store.commit(&[again])[0].is_err(), "what is kept is not handed over again");
}

/// P26: of what its provider has, a session's last rows stay: they number the next, and recognise one again.
fn p26_of_what_is_kept_the_last_rows_stay(sites: Sites<'_>) {
    let mut world = world(sites);
    keeps(&mut world, "k1", "agent:main:telegram:dm:1", Naming { name: "one".into(), otherwise: None });
    let again = |world: &mut World, turn: u64| {
        let naming = Naming { name: "one".into(), otherwise: None };
        let scope = scope(&id("k1"), Some("agent:main:telegram:dm:1"));
        let filing = Some(Filing { provider: "named".into(), scope, naming, every: 1 });
        let kept =
            KeptTurn { turn: TurnId(Seq(turn)), said: vec!["hello".into()], replied: "yes".into(), filing };
        let state = Box::new(Session::new(id("k1")));
        let acts = vec![Act::Retain(Box::new(kept))];
        let commit = Commit::Session { expect: Generation(0), state, acts, at: world.now };
        world.store.commit(&[commit]).remove(0).expect("it is committed");
        world.store.reader().retentions("named").expect("can be asked")
    };
    for turn in 1..=40 {
        let due = again(&mut world, turn);
        assert_eq!((due.len(), due[0].retention.index), (1, turn), "numbers go on");
        let key = format!("k1/{turn}");
        changes(&mut world, &key, RetentionChange::Attempting);
        changes(&mut world, &key, RetentionChange::Kept);
    }
    assert_eq!(again(&mut world, 40), [], "the last is recognised");
    assert_eq!(again(&mut world, 1).len(), 1, "the first is forgotten here");
}

/// P27: a name is given once, to one conversation, and stays.
fn p27_a_name_stays_and_two_chats_never_share_one(sites: Sites<'_>) {
    let mut world = world(sites);
    let named = |name: &str, otherwise: Option<&str>| Naming {
        name: name.into(),
        otherwise: otherwise.map(str::to_owned),
    };
    let (first, second) = ("agent:main:telegram:dm:a:b", "agent:main:telegram:dm:a/b");
    keeps(&mut world, "k1", first, named("a-b", Some("a-b-1")));
    keeps(&mut world, "k2", second, named("a-b", Some("a-b-2")));
    keeps(&mut world, "k3", first, named("renamed", Some("renamed-1")));
    keeps(&mut world, "k4", "agent:main:telegram:dm:c", named("shared", None));
    keeps(&mut world, "k5", "agent:main:telegram:dm:d", named("shared", None));
    let found = world.store.reader().retentions("named").expect("can be asked");
    let documents: Vec<&str> = found.iter().map(|pending| pending.retention.document.as_str()).collect();
    assert_eq!(documents, ["a-b", "a-b-2", "a-b", "shared", "shared"]);
    // What is somebody's own is not for those who share a name; they meet under another. Whoever asks before
    // their first turn is told the same.
    for (naming, would_be) in [
        (named("a-b", None), "a-b-shared"),
        (named("shared", None), "shared"),
        (named("shared", Some("shared-1")), "shared-1"),
        (named("free", Some("free-1")), "free"),
    ] {
        assert_eq!(world.store.reader().name("named", &naming).expect("can be asked"), would_be);
        assert_eq!(world.store.reader().name("another", &naming).expect("can be asked"), naming.name);
    }
    keeps(&mut world, "k6", "agent:main:telegram:dm:e", named("a-b", None));
    keeps(&mut world, "k7", "agent:main:telegram:dm:f", named("a-b", None));
    keeps(&mut world, "k8", "agent:main:telegram:dm:g", named("shared", Some("shared-1")));
    let found = world.store.reader().retentions("named").expect("can be asked");
    let documents: Vec<&str> = found[5..].iter().map(|pending| pending.retention.document.as_str()).collect();
    assert_eq!(documents, ["a-b-shared", "a-b-shared", "shared-1"]);
}

/// P26: the first turn of each document is found, however many of another one wait before it.
fn p26_a_long_backlog_of_one_document_hides_no_other(sites: Sites<'_>) {
    let mut world = world(sites);
    let named = |name: &str| Naming { name: name.into(), otherwise: None };
    for number in 0..1100 {
        keeps(&mut world, &format!("long{number:04}"), "agent:main:telegram:dm:1", named("long"));
    }
    keeps(&mut world, "short1", "agent:main:telegram:dm:2", named("short"));
    keeps(&mut world, "short2", "agent:main:telegram:dm:2", named("short"));
    let firsts = |world: &World| {
        let due = world.store.reader().retentions("named").expect("can be asked");
        assert!(due.len() <= 1000, "a thousand at most");
        let first = |document: &str| {
            let mut of_it = due.iter().filter(|pending| pending.retention.document == document);
            of_it.next().map(|pending| pending.retention.key.clone())
        };
        (first("long"), first("short"))
    };
    let key = |name: &str| Some(format!("{name}/1"));
    assert_eq!(firsts(&world), (key("long0000"), key("short1")));
    changes(&mut world, "short1/1", RetentionChange::Attempting);
    changes(&mut world, "short1/1", RetentionChange::Kept);
    assert_eq!(firsts(&world), (key("long0000"), key("short2")));
}

/// P24: a document that several sessions share is first in, first out, whoever buffers.
fn p24_what_is_due_is_not_handed_over_before_what_is_older_in_its_document(sites: Sites<'_>) {
    let mut world = world(sites);
    let keeps = |world: &mut World, session: &str, document: &str, every: u64| {
        let naming = Naming { name: document.into(), otherwise: None };
        let filing = Filing { provider: "named".into(), scope: scope(&id(session), None), naming, every };
        let turn = TurnId(Seq(1));
        let kept = KeptTurn { turn, said: vec!["hello".into()], replied: "yes".into(), filing: Some(filing) };
        let acts = vec![Act::Open(Box::default()), Act::Retain(Box::new(kept))];
        let state = Box::new(Session::new(id(session)));
        let commit = Commit::Session { expect: Generation(0), state, acts, at: world.now };
        world.store.commit(&[commit]).remove(0).expect("it is committed");
    };
    keeps(&mut world, "older", "shared", 10);
    keeps(&mut world, "apart", "another", 10);
    keeps(&mut world, "due", "shared", 1);
    keeps(&mut world, "newer", "shared", 10);
    let due = world.store.reader().retentions("named").expect("can be asked");
    let due: Vec<_> = due.iter().map(|pending| pending.retention.key.as_str()).collect();
    assert_eq!(due, ["older/1", "due/1"], "and nothing else goes before its time");
}

/// P26: what waits for more of its kind is due when the gateway stops.
fn p26_nothing_stays_buffered_over_a_stop(sites: Sites<'_>) {
    let mut world = World::new(sites(), busy_rules(BusyInput::Queue));
    world.play(&[says(0, "one"), answers(0, "first")]);
    assert_eq!(world.store.reader().retentions(PROVIDER).expect("can be asked"), [], "one of two");
    let commit = Commit::HandOver { at: world.now };
    world.store.commit(&[commit]).remove(0).expect("it is committed");
    let due = world.store.reader().retentions(PROVIDER).expect("can be asked");
    assert_eq!(due.iter().map(|pending| pending.retention.key.as_str()).collect::<Vec<_>>(), ["s0/1"]);
}

/// P24: what waits for more of its kind is due when its conversation expires, whoever notices that.
fn p24_nothing_stays_buffered_when_its_conversation_ends_by_itself(sites: Sites<'_>) {
    for how in 0..4 {
        let mut world = World::new(sites(), busy_rules(BusyInput::Queue));
        world.play(&[says(0, "one"), answers(0, "first")]);
        assert_eq!(world.store.reader().retentions(PROVIDER).expect("can be asked"), [], "one of two");
        world.play(&[Move::Expires { place: 0, how }]);
        assert_ne!(world.places[0], id("s0"), "the place has moved on");
        let due = world.store.reader().retentions(PROVIDER).expect("can be asked");
        let due: Vec<_> = due.iter().map(|pending| pending.retention.key.as_str()).collect();
        assert_eq!(due, ["s0/1"], "{how}");
    }
}

/// A world with every rule switched to what makes most happen.
pub fn busy_rules(busy: BusyInput) -> Rules {
    let limits = Limits {
        steps_max: 4,
        turn_tokens_max: Some(400),
        chain: chain::Limits { hops_max: 3, turns_max: 2, calls_max: 9, ..chain::Limits::default() },
    };
    Rules {
        remembers: true,
        recalls: false,
        recollects: false,
        busy,
        hard_tokens: Some(250),
        limits,
        agent: "me".into(),
        home: "me".into(),
        baseline: None,
        review: Intervals { turns: 2, steps: 3 },
    }
}
