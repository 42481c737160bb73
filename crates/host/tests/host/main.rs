//! The room from outside: real processes, real sockets.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod daemon_socket;
mod process_tree;
