//! Output too long for a conversation.
