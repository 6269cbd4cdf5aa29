//! The operator's silence of a home: ordered, lifted when a person writes, or ended by the operator.
//!
//! Orders are numbered, so that a session that hears of one late knows whether it is over. What is on disk is only whether
//! the home is silent now.

use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Silence {
    orders: Mutex<Orders>,
    /// Wakes in the order of waiting, which a watch would not: a simulation must not depend on luck.
    released: Notify,
}

#[derive(Clone, Copy, Default)]
struct Orders {
    given: u64,
    /// Up to this one they are over.
    lifted: u64,
    /// And up to this one the operator ended them, for every session.
    resumed: u64,
}

impl Silence {
    /// As a start finds it.
    pub fn found(ordered: bool) -> Self {
        let orders = Orders { given: u64::from(ordered), ..Orders::default() };
        Self { orders: Mutex::new(orders), released: Notify::new() }
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more order. Returns its number.
    pub fn order(&self) -> u64 {
        let mut orders = self.orders();
        orders.given += 1;
        orders.given
    }

    /// The number of the last order.
    pub fn given(&self) -> u64 {
        self.orders().given
    }

    pub fn is_on(&self) -> bool {
        let orders = self.orders();
        orders.lifted < orders.given
    }

    /// The orders up to this one are over. One that was given meanwhile stands.
    pub fn lift(&self, order: u64) {
        let mut orders = self.orders();
        orders.lifted = orders.lifted.max(order);
        drop(orders);
        self.released.notify_waiters();
    }

    /// The operator ended them, also for sessions that have not heard of them yet.
    pub fn resume(&self, order: u64) {
        let mut orders = self.orders();
        orders.resumed = orders.resumed.max(order);
    }

    pub fn is_resumed(&self, order: u64) -> bool {
        order <= self.orders().resumed
    }

    /// Returns when there is no silence, or no more.
    pub async fn over(&self) {
        loop {
            let released = self.released.notified();
            if !self.is_on() {
                return;
            }
            released.await;
        }
    }
}
