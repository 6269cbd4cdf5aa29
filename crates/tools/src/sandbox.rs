//! What a local process may touch.
