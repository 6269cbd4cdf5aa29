//! Our own sessions, offered as a server.
