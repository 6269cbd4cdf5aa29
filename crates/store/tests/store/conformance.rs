//! The store on SQLite, against what any store must do.

use crate::home::{schema_11, schema_16, writer};
use proptest::prelude::*;
use tempfile::TempDir;
use throughline_core::Message;
use throughline_core::port::Store;
use throughline_core::session::BusyInput;
use throughline_store_conformance::{StoreSite, StoreWorld, StoryMove, busy_rules, suite};

struct Fresh(TempDir);

impl StoreSite for Fresh {
    fn open(&self) -> Box<dyn Store> {
        Box::new(writer(self.0.path()))
    }
}

fn fresh() -> Box<dyn StoreSite> {
    Box::new(Fresh(tempfile::tempdir().expect("a temporary directory")))
}

/// A home that Hermes 0.14 made. It has no place for a platform's id of a message.
struct Old(TempDir);

impl StoreSite for Old {
    fn open(&self) -> Box<dyn Store> {
        Box::new(writer(self.0.path()))
    }

    fn kept(&self, message: &Message) -> Message {
        Message { platform_id: None, ..message.clone() }
    }
}

fn old() -> Box<dyn StoreSite> {
    Box::new(Old(schema_11()))
}

/// A home of a Hermes in between: rows can be taken back, but not compacted. It has no place for what
/// was sent to a model instead of what was said.
struct Between(TempDir);

impl StoreSite for Between {
    fn open(&self) -> Box<dyn Store> {
        Box::new(writer(self.0.path()))
    }

    fn kept(&self, message: &Message) -> Message {
        Message { sent_as: None, ..message.clone() }
    }
}

fn between() -> Box<dyn StoreSite> {
    Box::new(Between(schema_16()))
}

#[test]
fn p15_and_on_a_home_of_schema_16() {
    suite(&between);
}

#[test]
fn the_store_keeps_every_promise_of_its_port() {
    suite(&fresh);
}

#[test]
fn p15_and_on_a_home_of_schema_11() {
    suite(&old);
}

fn a_move() -> impl Strategy<Value = StoryMove> {
    let place = 0..5u8;
    let long = format!("{}漢", "ünï\n".repeat(300)); // waits on disk
    let words = ["hi", "ünï — 漢字", "", "a \"quoted\" word", "line\nline", &long, &long[2..]];
    let word = prop::sample::select(words.map(str::to_owned).to_vec());
    prop_oneof![
        6 => (place.clone(), word.clone()).prop_map(|(place, text)| StoryMove::Says { place, text }),
        6 => (place.clone(), word, 0..200u16)
            .prop_map(|(place, text, tokens)| StoryMove::Answers { place, text, tokens }),
        1 => place.clone().prop_map(|place| StoryMove::SaysAgain { place }),
        3 => (place.clone(), any::<u8>()).prop_map(|(place, what)| StoryMove::Orders { place, what }),
        3 => (place.clone(), any::<u8>()).prop_map(|(place, calls)| StoryMove::CallsTools { place, calls }),
        5 => (place.clone(), any::<u8>()).prop_map(|(place, index)| StoryMove::Returns { place, index }),
        3 => (place.clone(), any::<u8>(), any::<u8>())
            .prop_map(|(place, index, kind)| StoryMove::Asks { place, index, kind }),
        3 => (place.clone(), any::<u8>(), any::<u8>())
            .prop_map(|(place, index, verdict)| StoryMove::Decides { place, index, verdict }),
        2 => (place.clone(), any::<u8>(), any::<u8>())
            .prop_map(|(place, index, letters)| StoryMove::Sends { place, index, letters }),
        3 => (place.clone(), 0..6u8, any::<u8>())
            .prop_map(|(place, origin, hops)| StoryMove::Hears { place, origin, hops }),
        1 => place.clone().prop_map(|place| StoryMove::Halts { place }),
        1 => place.clone().prop_map(|place| StoryMove::Releases { place }),
        2 => (place.clone(), any::<u8>())
            .prop_map(|(place, repeatable)| StoryMove::Resumes { place, repeatable }),
        1 => place.clone().prop_map(|place| StoryMove::Echoes { place }),
        1 => (place.clone(), any::<u8>()).prop_map(|(place, kind)| StoryMove::Fails { place, kind }),
        2 => place.clone().prop_map(|place| StoryMove::Retries { place }),
        2 => place.clone().prop_map(|place| StoryMove::Reloads { place }),
        1 => place.clone().prop_map(|place| StoryMove::Trespasses { place }),
        4 => (place.clone(), any::<u8>()).prop_map(|(place, how)| StoryMove::Surveys { place, how }),
        4 => (place.clone(), any::<u8>()).prop_map(|(place, how)| StoryMove::Summarises { place, how }),
        2 => place.clone().prop_map(|place| StoryMove::Reports { place }),
        2 => (place.clone(), any::<u8>()).prop_map(|(place, which)| StoryMove::Restores { place, which }),
        2 => (place.clone(), any::<u8>()).prop_map(|(place, what)| StoryMove::DeferredCommands { place, what }),
        3 => (place.clone(), any::<u8>()).prop_map(|(place, how)| StoryMove::Finds { place, how }),
        2 => place.clone().prop_map(|place| StoryMove::Finalises { place }),
        4 => (place.clone(), any::<u8>()).prop_map(|(place, how)| StoryMove::HandsOver { place, how }),
        3 => (place.clone(), any::<u8>()).prop_map(|(place, how)| StoryMove::Reviews { place, how }),
        2 => (place.clone(), any::<u8>()).prop_map(|(place, how)| StoryMove::Expires { place, how }),
        1 => place.clone().prop_map(|place| StoryMove::Revives { place }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(reply, change)| StoryMove::Delivers { reply, change }),
        1 => place.clone().prop_map(|place| StoryMove::Written { place }),
        1 => Just(StoryMove::Tends),
        1 => Just(StoryMove::Reopens),
        1 => any::<u8>().prop_map(|size| StoryMove::Batches { size }),
    ]
}

/// Mostly one session, and mostly compression.
fn a_move_of_compression() -> impl Strategy<Value = StoryMove> {
    let place = prop::sample::select(vec![0, 0, 0, 2, 3u8]);
    prop_oneof![
        4 => place.clone().prop_map(|place| StoryMove::Says { place, text: "hi".into() }),
        5 => (place.clone(), prop::sample::select(vec![10, 120, 300u16]))
            .prop_map(|(place, tokens)| StoryMove::Answers { place, text: "ho".into(), tokens }),
        2 => (place.clone(), 11..15u8).prop_map(|(place, what)| StoryMove::Orders { place, what }),
        1 => (place.clone(), prop::sample::select(vec![0, 4u8]))
            .prop_map(|(place, what)| StoryMove::Orders { place, what }),
        6 => (place.clone(), any::<u8>()).prop_map(|(place, how)| StoryMove::Surveys { place, how }),
        6 => (place.clone(), any::<u8>()).prop_map(|(place, how)| StoryMove::Summarises { place, how }),
        3 => place.clone().prop_map(|place| StoryMove::Reports { place }),
        1 => (place.clone(), any::<u8>()).prop_map(|(place, how)| StoryMove::Reviews { place, how }),
        3 => (place.clone(), any::<u8>()).prop_map(|(place, which)| StoryMove::Restores { place, which }),
        2 => (place.clone(), 0..4u8).prop_map(|(place, what)| StoryMove::DeferredCommands { place, what }),
        4 => (place.clone(), any::<u8>()).prop_map(|(place, how)| StoryMove::Finds { place, how }),
        1 => (place.clone(), any::<u8>()).prop_map(|(place, calls)| StoryMove::CallsTools { place, calls }),
        2 => (place.clone(), any::<u8>()).prop_map(|(place, index)| StoryMove::Returns { place, index }),
        1 => place.clone().prop_map(|place| StoryMove::Reloads { place }),
        1 => place.clone().prop_map(|place| StoryMove::Trespasses { place }),
        1 => place.prop_map(|place| StoryMove::Halts { place }),
        1 => Just(StoryMove::Tends),
        1 => Just(StoryMove::Reopens),
        1 => any::<u8>().prop_map(|size| StoryMove::Batches { size }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_what_is_loaded_is_what_the_machine_left(
        story in prop::collection::vec(a_move(), 1..50),
        busy in prop::sample::select(vec![BusyInput::Queue, BusyInput::Interrupt, BusyInput::Steer]),
    ) {
        StoreWorld::new(fresh(), busy_rules(busy)).play(&story);
        StoreWorld::new(old(), busy_rules(busy)).play(&story);
    }

    #[test]
    fn p11_however_it_is_compressed_what_is_loaded_is_what_the_machine_left(
        story in prop::collection::vec(a_move_of_compression(), 1..60),
    ) {
        for site in [fresh(), old(), between()] {
            StoreWorld::new(site, busy_rules(BusyInput::Queue)).play(&story);
        }
    }
}
