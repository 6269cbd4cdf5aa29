//! Puts the parts together for each command: homes, stores, models, listeners. No logic.

mod gateway;
mod homes;
mod store;

pub use gateway::{chat, evaluate, mcp, plugin, running_servers, upkeep};
pub use homes::{existing, gateway_of, look, only, order};
pub use store::{forget, memory, pairing, prune, reader, restore};

use throughline_core::Time;
use throughline_gateway::{Clock, SystemClock};

pub fn now() -> Time {
    SystemClock::new().now()
}
