//! Tests of the interfaces from outside: real sockets and a real store; only the workers do nothing.

mod agents;
mod bad_input;
mod callers;
mod connections;
mod documents;
mod events;
pub(crate) mod fixture;
mod health;
mod identity;
mod library_comparison;
mod lists;
mod mcp;
mod mcp_resources;
mod mcp_streams;
mod mcp_targets;
mod messages;
mod openapi_contract;
mod permission_table;
pub(crate) mod process_family;
mod request_bodies;
mod route_access;
mod run_streams;
mod scopes;
