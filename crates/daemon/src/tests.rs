//! The doors from outside: real sockets and a real store; only the workers do nothing.

mod bad_input;
mod callers;
mod events;
pub(crate) mod family;
mod house;
mod identity;
mod mcp;
mod messages;
