//! The system prompt, assembled once per session.
