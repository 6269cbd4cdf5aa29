//! All that an agent can do, as one.
