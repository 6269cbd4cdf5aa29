//! What is to be remembered is a row until its provider has it, under a name that stays.

use crate::StoreSites;
use crate::promises::{answers, says, world};
use crate::sample::id;
use crate::story::StoryMove;
use crate::world::retention::{PROVIDER, scope};
use crate::world::{StoreWorld, busy_rules};
use throughline_core::id::{Generation, Seq, TurnId};
use throughline_core::memory::{Filing, Naming, Progress, RetentionChange};
use throughline_core::port::Commit;
use throughline_core::session::{Act, BusyInput, Kept as KeptTurn, Session};

/// One session with one turn, which goes to a place called so.
pub(crate) fn keeps(world: &mut StoreWorld, session: &str, chat: &str, naming: Naming) {
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

pub(crate) fn changes(world: &mut StoreWorld, key: &str, change: RetentionChange) {
    let commit = Commit::Retention { key: key.into(), change, at: world.now };
    world.store.commit(&[commit]).remove(0).expect("it is committed");
}

/// P26: what is on its way stays a row until it is acknowledged, and an attempt leaves its trace first.
pub(crate) fn p26_a_turn_is_kept_until_its_provider_has_it(sites: StoreSites<'_>) {
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
pub(crate) fn p26_of_what_is_kept_the_last_rows_stay(sites: StoreSites<'_>) {
    let mut world = world(sites);
    keeps(&mut world, "k1", "agent:main:telegram:dm:1", Naming { name: "one".into(), otherwise: None });
    let again = |world: &mut StoreWorld, turn: u64| {
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
pub(crate) fn p27_a_name_stays_and_two_chats_never_share_one(sites: StoreSites<'_>) {
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
    // What belongs to one conversation is not for those that share a name; they meet under another. Before its
    // first turn a conversation is told the same.
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
pub(crate) fn p26_a_long_backlog_of_one_document_hides_no_other(sites: StoreSites<'_>) {
    let mut world = world(sites);
    let named = |name: &str| Naming { name: name.into(), otherwise: None };
    for number in 0..1100 {
        keeps(&mut world, &format!("long{number:04}"), "agent:main:telegram:dm:1", named("long"));
    }
    keeps(&mut world, "short1", "agent:main:telegram:dm:2", named("short"));
    keeps(&mut world, "short2", "agent:main:telegram:dm:2", named("short"));
    let firsts = |world: &StoreWorld| {
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

/// P24: a document that several sessions share is first in, first out, across its sessions.
pub(crate) fn p24_what_is_due_is_not_handed_over_before_what_is_older_in_its_document(sites: StoreSites<'_>) {
    let mut world = world(sites);
    let keeps = |world: &mut StoreWorld, session: &str, document: &str, every: u64| {
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
pub(crate) fn p26_nothing_stays_buffered_over_a_stop(sites: StoreSites<'_>) {
    let mut world = StoreWorld::new(sites(), busy_rules(BusyInput::Queue));
    world.play(&[says(0, "one"), answers(0, "first")]);
    assert_eq!(world.store.reader().retentions(PROVIDER).expect("can be asked"), [], "one of two");
    let commit = Commit::HandOver { at: world.now };
    world.store.commit(&[commit]).remove(0).expect("it is committed");
    let due = world.store.reader().retentions(PROVIDER).expect("can be asked");
    assert_eq!(due.iter().map(|pending| pending.retention.key.as_str()).collect::<Vec<_>>(), ["s0/1"]);
}

/// P24: what waits for more of its kind is due when its conversation expires, by a message or by the clock.
pub(crate) fn p24_nothing_stays_buffered_when_its_conversation_ends_by_itself(sites: StoreSites<'_>) {
    for how in 0..4 {
        let mut world = StoreWorld::new(sites(), busy_rules(BusyInput::Queue));
        world.play(&[says(0, "one"), answers(0, "first")]);
        assert_eq!(world.store.reader().retentions(PROVIDER).expect("can be asked"), [], "one of two");
        world.play(&[StoryMove::Expires { place: 0, how }]);
        assert_ne!(world.places[0], id("s0"), "the place has moved on");
        let due = world.store.reader().retentions(PROVIDER).expect("can be asked");
        let due: Vec<_> = due.iter().map(|pending| pending.retention.key.as_str()).collect();
        assert_eq!(due, ["s0/1"], "{how}");
    }
}
