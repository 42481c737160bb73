//! Tests of the wire shapes with recorded streams and written requests, and of the client with a local server.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod client;
mod failures;
mod requests;
mod streams;
