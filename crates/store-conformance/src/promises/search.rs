//! Search and excerpts show each caller what is theirs.

use crate::StoreSites;
use crate::promises::{answers, says, world};
use crate::sample::id;
use throughline_core::id::RowId;
use throughline_core::message::Message;
use throughline_core::port::{Anchor, Order, Scope, SessionFilter};

pub(crate) fn p31_search_shows_only_the_callers_own(sites: StoreSites<'_>) {
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

pub(crate) fn p31_a_person_sees_their_own_sessions_and_those_of_their_chat(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "otter here"), says(1, "otter there"), says(2, "otter of p")]);
    let person = |user: &str, chat: Option<&str>| Scope::Person {
        source: "test".into(),
        user: Some(user.into()),
        chat: chat.map(str::to_owned),
    };
    let unknown = Scope::Person { source: "test".into(), user: None, chat: None };
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
        (unknown, vec![]),
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

pub(crate) fn what_was_said_around_a_row_can_be_read(sites: StoreSites<'_>) {
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
