//! The worker as a real process, against a scripted daemon on a real socket.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the report")]

mod acp;
mod daemon;
mod ending;
mod failing;
mod labour;
mod process;
mod programs;
mod reporting;
mod rmcp_server;
mod tools;
