//! Servers whose tools the agent may use.
