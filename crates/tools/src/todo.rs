//! The list of what is still to do.
