//! The doors from outside: real sockets and a real store; only the workers do nothing.

mod bad_input;
mod callers;
mod contract;
mod events;
mod everyone;
pub(crate) mod family;
mod following;
mod health;
pub(crate) mod house;
mod identity;
mod judge;
mod library;
mod mcp;
mod mcp_library;
mod mcp_streams;
mod members;
mod messages;
mod scopes;
mod visitors;
