//! Chat platforms for tests: local servers that speak the public protocols of the real ones, remember
//! what they were told, and fail on request.
//!
//! Each is written from its platform's documentation and knows nothing of the gateway. A server is
//! started on a free port of loopback and ends with its handle.

pub mod discord;
pub mod honcho;
pub mod slack;
pub mod telegram;

pub use honcho::HonchoServer;
pub use telegram::TelegramServer;
