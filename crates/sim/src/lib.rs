//! A seeded world around the real gateway, and the judges.
//!
//! [`World`] runs the real gateway on a simulated disk with paused time. [`judge`] compares what was
//! sent with what was seen from outside. [`Mutant`] proves that the judges would notice.

mod asking;
pub mod disk;
mod elicit;
mod engine;
mod forgetting;
mod hooks;
pub mod judge;
mod ledger;
mod log;
mod memory;
mod model;
pub mod mutant;
mod owner;
mod past;
mod people;
pub mod plan;
mod platforms;
pub mod records;
pub mod remember;
mod review;
pub mod seed;
mod story;
mod tools;
mod watched;
mod world;

pub use log::audited;
pub use mutant::Mutant;
pub use plan::{Crash, Plan};
pub use world::{Report, World};

use disk::{Disk, Image};
use forgetting::INTERRUPTED;
use plan::ForgettingPlan;

/// A home that was created and closed once: every world begins from a copy of it.
pub fn template() -> Image {
    let disk = Disk::new(0);
    let mut store =
        watched::open_on(&disk, None, throughline_core::Time(0)).expect("an empty disk takes a new home");
    store.close(throughline_core::Time(0)).expect("a new home closes");
    drop(store);
    disk.settle();
    disk.image()
}

/// The world of one seed.
pub fn play(seed: u64, template: &Image, mutant: Option<Mutant>) -> Report {
    let plan = Plan::draw(&mut seed::Seed::new(seed ^ 0x5eed));
    World::new(seed, plan, template, mutant).play()
}

/// The world of one seed, with everything that was seen in it.
pub fn tell(seed: u64, template: &Image, mutant: Option<Mutant>) -> Report {
    let plan = Plan::draw(&mut seed::Seed::new(seed ^ 0x5eed));
    World::new(seed, plan, template, mutant).telling().play()
}

/// A plan that has something forgotten, with power failing in the middle of the n-th operation of that on the disk. None:
/// that operation never came.
pub fn forget_struck_at(nth: u64, plan: &Plan, template: &Image, mutant: Option<Mutant>) -> Option<Report> {
    let forgetting = plan.forgetting.clone().map(|plan| ForgettingPlan { strikes: vec![nth], ..plan });
    let report = World::new(nth, Plan { forgetting, ..plan.clone() }, template, mutant).play();
    report.tally.get(INTERRUPTED).is_some_and(|times| *times > 0).then_some(report)
}

/// A fixed plan, with a crash after the n-th commit. None: that commit never came.
pub fn crash_after(nth: u64, plan: &Plan, template: &Image, mutant: Option<Mutant>) -> Option<Report> {
    let plan = Plan { crashes: vec![Crash::AfterCommit(nth)], ..plan.clone() };
    let report = World::new(nth, plan, template, mutant).play();
    (report.crashes > 0).then_some(report)
}
