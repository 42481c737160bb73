//! Tests of the crate through its public interface, with real processes and real sockets.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod daemon_socket;
mod process_tree;
