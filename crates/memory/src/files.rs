//! MEMORY.md and USER.md.
