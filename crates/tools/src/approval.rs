//! Which commands a person must allow first.
