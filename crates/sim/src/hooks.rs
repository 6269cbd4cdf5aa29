//! Hooks as programs of their own: what one has done stays done when the gateway ends, and a
//! gateway that asks again hears of it.

use crate::records::Hooked;
use crate::world::Outside;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::port::{Happening, Hooks, Occasion, Promise};

/// How long a run waits for a hook that hangs.
const PATIENCE: Duration = Duration::from_secs(5);
/// Fewer than what sets a hand-over aside.
const UNLUCKY_MAX: u32 = 3;

pub struct SimHooks(pub Arc<Outside>);

impl Hooks for SimHooks {
    fn names(&self, occasion: Occasion) -> Vec<String> {
        match occasion {
            Occasion::Finalised => (0..self.0.plan.lifecycle.hooks).map(|nth| format!("hook{nth}")).collect(),
            _ => Vec::new(),
        }
    }

    fn run<'a>(&'a self, name: &'a str, happening: &'a Happening) -> Promise<'a, Result<(), String>> {
        Box::pin(async move {
            let outside = &self.0;
            let plan = outside.plan.lifecycle.clone();
            outside.live_or_never().await;
            let run = (name.to_owned(), happening.key.clone());
            outside.write(|records| {
                records.saw(("hook", name, &happening.key));
                let known = |told: &&(throughline_core::SessionId, u64, String)| {
                    format!("{}/{}", told.0, told.1) == happening.key && told.2 == name
                };
                if records.told.iter().any(|told| known(&told)) {
                    records.wrong.push(format!("{name} was run for {} after it was done", happening.key));
                }
            });
            let is_done = outside.write(|records| {
                records.hooked.iter().any(|hooked| hooked.hook == name && hooked.key == happening.key)
            });
            if is_done {
                return Ok(()); // it left a mark
            }
            outside.pause(plan.latency_max).await;
            let fate = outside.draw(|seed| seed.below(100));
            let unlucky = outside.write(|records| records.unlucky.get(&run).copied().unwrap_or_default());
            let comes_to_nothing =
                fate < plan.failing_percent + plan.hanging_percent && unlucky < UNLUCKY_MAX;
            if comes_to_nothing {
                outside.write(|records| *records.unlucky.entry(run).or_default() += 1);
                return match fate < plan.failing_percent {
                    true => Err("exit code 1".into()),
                    false => {
                        outside.wait(PATIENCE).await;
                        Err("it took too long".into())
                    }
                };
            }
            let at = outside.now();
            outside.write(|records| {
                records.hooked.push(Hooked { hook: name.to_owned(), key: happening.key.clone(), at });
            });
            outside.pause(plan.latency_max).await; // the process may end before it hears of it
            Ok(())
        })
    }

    fn tell(&self, _: Happening) {}
}
