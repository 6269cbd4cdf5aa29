//! The store on SQLite, against what any store must do.

use proptest::prelude::*;
use std::path::Path;
use tempfile::TempDir;
use throughline_core::port::Store;
use throughline_core::session::BusyInput;
use throughline_core::time::Time;
use throughline_store::conformance::{Move, Site, World, busy_rules, suite};
use throughline_store::{FileSystem, Home};

struct Directory(TempDir);

fn home(directory: &Path) -> Home {
    // Tests run wherever there is room for them; nothing here outlives the process.
    Home { filesystem: FileSystem::Trusted, ..Home::at(directory) }
}

impl Site for Directory {
    fn open(&self) -> Box<dyn Store> {
        Box::new(home(self.0.path()).writer(Time(0)).expect("a home in a fresh directory opens"))
    }
}

fn fresh() -> Box<dyn Site> {
    Box::new(Directory(tempfile::tempdir().expect("a temporary directory")))
}

#[test]
fn the_store_keeps_every_promise_of_its_port() {
    suite(&fresh);
}

fn a_move() -> impl Strategy<Value = Move> {
    let place = 0..4u8;
    let word = prop::sample::select(vec!["hi", "ünï — 漢字", "", "a \"quoted\" word", "line\nline"]);
    prop_oneof![
        6 => (place.clone(), word.clone()).prop_map(|(place, text)| Move::Says { place, text: text.into() }),
        6 => (place.clone(), word, 0..200u16)
            .prop_map(|(place, text, tokens)| Move::Answers { place, text: text.into(), tokens }),
        1 => place.clone().prop_map(|place| Move::SaysAgain { place }),
        2 => (place.clone(), any::<u8>()).prop_map(|(place, what)| Move::Orders { place, what }),
        3 => (place.clone(), any::<u8>()).prop_map(|(place, calls)| Move::CallsTools { place, calls }),
        5 => (place.clone(), any::<u8>()).prop_map(|(place, index)| Move::Returns { place, index }),
        1 => place.clone().prop_map(|place| Move::Echoes { place }),
        1 => (place.clone(), any::<u8>()).prop_map(|(place, kind)| Move::Fails { place, kind }),
        2 => place.clone().prop_map(|place| Move::Retries { place }),
        2 => place.clone().prop_map(|place| Move::Reloads { place }),
        1 => place.clone().prop_map(|place| Move::Trespasses { place }),
        2 => (place.clone(), any::<bool>()).prop_map(|(place, well)| Move::Summarises { place, well }),
        2 => place.clone().prop_map(|place| Move::Finalises { place }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(reply, change)| Move::Delivers { reply, change }),
        1 => place.clone().prop_map(|place| Move::Written { place }),
        1 => Just(Move::Tends),
        1 => Just(Move::Reopens),
        1 => any::<u8>().prop_map(|size| Move::Batches { size }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_what_is_loaded_is_what_the_machine_left(
        story in prop::collection::vec(a_move(), 1..60),
        busy in prop::sample::select(vec![BusyInput::Queue, BusyInput::Interrupt, BusyInput::Steer]),
    ) {
        World::new(fresh(), busy_rules(busy)).play(&story);
    }
}
