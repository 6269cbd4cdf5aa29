//! Tools that act on the gateway itself.

use crate::agent::Home;
use std::sync::{Arc, OnceLock, Weak};

#[derive(Default)]
pub struct Hands {
    home: OnceLock<Weak<Home>>,
}

impl Hands {
    pub(crate) fn belong_to(&self, home: &Arc<Home>) {
        let _ = self.home.set(Arc::downgrade(home));
    }
}
