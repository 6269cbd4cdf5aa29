//! The machine and its deferred_commands, as tables of what happened.

use crate::command::Found;
use crate::command::{DeferredCommand, Past};
use crate::id::RowId;
use crate::port::Spoken;
use crate::prompt::{Digest, Head, Mark};
use crate::session::*;

const NOW: Time = Time(1_000_000);

fn place() -> Destination {
    Destination { platform: "p".into(), account: "a".into(), chat: "c".into(), thread: None, reply_to: None }
}

fn input(seq: u64, kind: Kind) -> Arc<Input> {
    Arc::new(Input {
        seq: Seq(seq),
        at: NOW,
        key: crate::input::DedupeKey::of(&[&seq.to_string()]),
        kind,
        reply_to: Some(place()),
        sender: None,
        platform_id: None,
        trace: Trace::default(),
        left: None,
    })
}

fn mark() -> Mark {
    Mark { chain: Digest([0; 32]), messages: 0, head: Head { model: 0, tools: 0, system: 0 } }
}

fn session(name: &str) -> SessionId {
    name.parse().expect("a plain id")
}

/// A session, and every act so far.
struct Told {
    session: SessionState,
    acts: Vec<Act>,
}

impl Told {
    fn new() -> Self {
        let mut session = SessionState::new(session("s"));
        session.know_prompt(Some(super::super::tests::prompt()));
        Self { session, acts: Vec::new() }
    }

    fn happens(&mut self, event: Event) -> Vec<Act> {
        let (next, acts) = self.session.step(event, NOW, &Rules::default());
        self.session = next;
        self.acts.extend(acts.clone());
        acts
    }

    fn receives(&mut self, kind: Kind) -> Vec<Act> {
        let seq = self.session.received.next();
        self.happens(Event::Received(input(seq.0, kind)))
    }

    fn says(&mut self, text: &str) -> Vec<Act> {
        self.receives(Kind::Chat(Content::text(text)))
    }

    fn orders(&mut self, text: &str) -> Vec<Act> {
        let command = Command::parse(text, |_| session("t")).expect("an order");
        self.receives(Kind::Command(command))
    }

    fn answers(&mut self, text: &str) -> Vec<Act> {
        let Phase::Turn(turn) = &self.session.phase else { panic!("nobody is asked: {text}") };
        let (turn, step) = (turn.id, turn.step);
        let said = crate::message::Assistant { content: Content::text(text), ..Default::default() };
        let answer = Answer { said, usage: Default::default(), model: "m".into() };
        self.happens(Event::Answered { turn, step, answer, prompt: mark(), full: false })
    }

    fn finds(&mut self, seq: u64, found: Found) -> Vec<Act> {
        self.happens(Event::Ordered { seq: Seq(seq), found })
    }

    fn due(&self) -> Vec<u64> {
        let orders = self.session.jobs().into_iter().filter_map(|job| match job {
            Job::Order { seq } => Some(seq.0),
            _ => None,
        });
        orders.collect()
    }

    /// What became of an order, in words.
    fn said(&self, seq: u64) -> Option<&str> {
        self.acts.iter().find_map(|act| match act {
            Act::Settle { seq: settled, outcome: Outcome::Done { said, .. } } if settled.0 == seq => {
                Some(said.as_str())
            }
            _ => None,
        })
    }
}

fn row(number: u64, role: &str, text: &str) -> (RowId, Message) {
    let content = Content::text(text);
    let body = match role {
        "user" => Body::User(content),
        _ => Body::Assistant(crate::message::Assistant { content, ..Default::default() }),
    };
    (RowId(number), Message::new(NOW, body))
}

fn last_exchange() -> Past {
    let live = [row(2, "user", "one"), row(4, "assistant", "re one")];
    Past::of(&live, &Spoken::default(), 1, 100).expect("there is one")
}

#[test]
fn p4_an_exchange_is_what_was_said_in_one_turn() {
    let live = [
        row(2, "user", "one"),
        row(4, "assistant", "re one"),
        row(6, "user", "two"),
        row(8, "user", "and three"),
        row(10, "assistant", "re both"),
    ];
    let turn = |seq| TurnId(Seq(seq));
    let spoken = Spoken {
        turns: vec![(RowId(2), turn(1)), (RowId(6), turn(2)), (RowId(8), turn(2))],
        summaries: Vec::new(),
    };
    for (wanted, from, rows, exchanges, said) in
        [(1, 6, 3, 1, vec!["two", "and three"]), (2, 2, 5, 2, vec!["one"]), (9, 2, 5, 2, vec!["one"])]
    {
        let past = Past::of(&live, &spoken, wanted, 1_000).expect("there is something");
        let texts: Vec<String> = past.said.iter().map(|said| said.content().plain()).collect();
        assert_eq!(
            (past.from, past.rows, past.exchanges, texts.iter().map(String::as_str).collect()),
            (RowId(from), rows, exchanges, said)
        );
        assert_eq!((past.remaining, past.summarised), (5 - rows, false));
    }
    // Where nobody knows the turns, what was said in one breath belongs together.
    assert_eq!(Past::of(&live, &Spoken::default(), 1, 0).map(|past| past.from), Some(RowId(6)));
}

#[test]
fn p4_what_a_summary_stands_for_is_not_taken_back() {
    let live = [row(3, "user", "a summary"), row(6, "user", "two"), row(8, "assistant", "re two")];
    let spoken = Spoken { turns: Vec::new(), summaries: vec![RowId(3)] };
    let past = Past::of(&live, &spoken, 3, 0).expect("what was said since");
    assert_eq!((past.from, past.rows, past.exchanges, past.summarised), (RowId(6), 2, 1, true));
    assert_eq!(Past::of(&live[..1], &spoken, 1, 0), None);
    assert_eq!(Past::of(&[], &Spoken::default(), 1, 0), None);
}

#[test]
fn p4_an_errand_waits_for_its_turn_and_nothing_passes_it() {
    let mut told = Told::new();
    told.says("one");
    let acts = told.orders("/undo");
    assert!(
        acts.iter().any(|act| matches!(act, Act::Deliver(reply) if reply.key == "s/2/waits")),
        "whoever orders it is told that it waits"
    );
    told.says("two");
    assert_eq!(told.due(), [0; 0], "a turn runs");
    told.answers("re one");
    assert_eq!((told.due(), told.session.phase.clone()), (vec![2], Phase::Idle), "nothing passes it");
    let acts = told.finds(2, Found::Past(last_exchange()));
    assert!(acts.iter().any(|act| matches!(act, Act::Rewind { from: RowId(2), rows: 2, .. })));
    let said = told.said(2).expect("it is settled");
    assert!(
        said.ends_with("\n\none") && said.contains("2 rows; 0 remain") && said.contains("s.snapshot."),
        "{said}"
    );
    assert!(
        matches!(&told.session.phase, Phase::Turn(turn) if turn.id == TurnId(Seq(3))),
        "what waits goes on"
    );
    let two = crate::compression::estimate(&row(1, "user", "two").1);
    assert_eq!(told.session.upkeep.context, last_exchange().context + two);
}

#[test]
fn p4_what_is_harmless_is_answered_beside_a_turn() {
    let mut told = Told::new();
    told.says("one");
    told.orders("/usage");
    told.orders("/title the move");
    told.says("two");
    assert_eq!(told.due(), [2, 3]);
    told.finds(3, Found::Titled(Ok("the move".into())));
    told.finds(2, Found::Said("much".into()));
    assert!(
        matches!(&told.session.phase, Phase::Turn(turn) if turn.id == TurnId(Seq(1))),
        "the turn goes on"
    );
    assert_eq!((told.said(2), told.due()), (Some("much"), vec![]));
    let titled = |act: &Act| matches!(act, Act::Title { session, title } if session.as_str() == "s" && title == "the move");
    assert!(told.acts.iter().any(titled));
    let acts = told.finds(2, Found::Said("again".into()));
    assert!(matches!(&acts[..], [Act::Note { name: "late_result_dropped", .. }]), "an echo changes nothing");
    told.answers("re one");
    assert_eq!(told.session.answered, Seq(3));
}

#[test]
fn p27_a_later_title_says_that_the_memory_outside_keeps_its_name() {
    let mut told = Told::new();
    told.orders("/title the move");
    told.finds(1, Found::TitledHere { title: "the move".into(), elsewhere: "chat-42".into() });
    let titled = |act: &Act| matches!(act, Act::Title { title, .. } if title == "the move");
    assert!(told.acts.iter().any(titled));
    let said = told.said(1).expect("it was said");
    assert!(
        said.contains("called \"the move\" now") && said.contains("keeps the name \"chat-42\""),
        "{said}"
    );
}

#[test]
fn p4_what_was_ordered_before_the_end_is_carried_out_before_it() {
    let mut told = Told::new();
    told.orders("/title the move");
    told.orders("/new");
    assert_eq!((told.due(), told.session.phase.clone()), (vec![1], Phase::Idle), "the end waits for it");
    told.finds(1, Found::Titled(Err("it is taken".into())));
    assert!(matches!(told.session.phase, Phase::Closed(_)));
    assert_eq!(told.said(1), Some("it is taken"));
}

#[test]
fn p4_a_message_is_asked_again_without_being_said_twice() {
    let mut told = Told::new();
    told.says("one");
    told.answers("re one");
    told.orders("/retry");
    told.says("two");
    let acts = told.finds(2, Found::Past(last_exchange()));
    let rewound = acts.iter().position(|act| matches!(act, Act::Rewind { .. }));
    let said =
        acts.iter().position(|act| matches!(act, Act::Append(message) if message.content().plain() == "one"));
    assert!(rewound.is_some() && rewound < said, "first it is taken back: {acts:?}");
    assert!(acts.iter().any(|act| matches!(act, Act::Begin { inputs, .. } if *inputs == [Seq(2)])));
    assert_eq!(told.session.jobs(), [Job::Ask { turn: TurnId(Seq(2)), step: 0 }]);
    let acts = told.answers("once more");
    assert!(acts.contains(&Act::Settle { seq: Seq(2), outcome: Outcome::Answered(TurnId(Seq(2))) }));
    assert!(matches!(&told.session.phase, Phase::Turn(turn) if turn.id == TurnId(Seq(3))));
}

#[test]
fn p4_a_switch_takes_along_what_waits() {
    let copy = Found::Copy { title: "x #2".into(), rows: 2, messages: 2 };
    let earlier = Found::Earlier { session: session("t"), title: None, messages: 4, received: Seq(7) };
    for (order, found, received) in [("/branch", copy, 0), ("/resume old", earlier, 7)] {
        let mut told = Told::new();
        told.says("one");
        told.orders(order);
        told.says("two");
        told.says("three");
        told.answers("re one");
        assert_eq!(told.due(), [2], "{order}");
        let acts = told.finds(2, found);
        let Some(Act::Switch { to, moved, .. }) = acts.last() else { panic!("{order}: {acts:?}") };
        assert_eq!((to.as_str(), moved.len()), ("t", 2), "{order}");
        for (seq, there) in [(3, received + 1), (4, received + 2)] {
            let outcome = Outcome::Moved { session: session("t"), seq: Seq(there) };
            assert!(acts.contains(&Act::Settle { seq: Seq(seq), outcome }), "{order}: {acts:?}");
        }
        let said = told.said(2).expect("it is settled");
        assert!(
            said.contains("/resume s ") && said.ends_with("The 2 messages that wait go there."),
            "{said}"
        );
        assert!(matches!(told.session.phase, Phase::Closed(Finalisation::Claimed)));
        assert_eq!((told.session.answered, told.due()), (Seq(4), vec![]), "{order}");
    }
}

#[test]
fn p4_a_conversation_begins_under_a_title() {
    for (title, words) in
        [(Ok("x".to_owned()), "called \"x\""), (Err("it is taken".to_owned()), "it is taken")]
    {
        let mut told = Told::new();
        told.orders("/new x");
        let titled = title.is_ok();
        let acts = told.finds(1, Found::Titled(title));
        assert!(told.said(1).is_some_and(|said| said.contains(words)), "{acts:?}");
        let shown = |act: &Act| matches!(act, Act::Deliver(reply) if reply.text.contains(words));
        assert!(acts.iter().any(shown), "{acts:?}");
        let names_the_next = |act: &Act| matches!(act, Act::Title { session, .. } if session.as_str() == "t");
        assert_eq!(acts.iter().any(names_the_next), titled);
        assert!(acts.iter().any(|act| matches!(act, Act::Close { .. })));
    }
}

#[test]
fn what_is_preferred_is_part_of_the_state() {
    let mut told = Told::new();
    told.orders("/yolo");
    assert!(told.session.preferences.yolo);
    told.orders("/yolo");
    assert!(!told.session.preferences.yolo);
    told.orders("/verbose");
    assert_eq!(told.session.preferences.tools, Some(ToolProgress::Verbose));
    told.orders("/model fast");
    let preferences = Preferences { model: Some("fast".into()), ..told.session.preferences.clone() };
    told.finds(4, Found::Preferred { preferences: preferences.clone(), said: "fast answers".into() });
    assert_eq!((&told.session.preferences, told.said(4)), (&preferences, Some("fast answers")));
    assert!(matches!(DeferredCommand::Retry.name(), "retry"));
}

#[test]
fn what_is_known_from_elsewhere_is_answered_with_what_to_use() {
    let mut told = Told::new();
    told.orders("/kanban");
    assert!(
        told.said(1).is_some_and(
            |said| said.contains("no command /kanban") && said.contains("There is no board here")
        )
    );
    told.orders("/frobnicate");
    assert!(told.said(2).is_some_and(|said| said.contains("There is no command /frobnicate")));
}
