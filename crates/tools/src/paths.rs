//! Where tools may reach.
