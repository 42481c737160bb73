//! The worker as a real process, against a scripted daemon on a real socket.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the report")]

mod acp;
mod attachments;
mod failures;
mod missing_programs;
mod mock_rules;
mod process;
mod program_options;
mod programs;
mod reporting;
mod rmcp_server;
mod stub_daemon;
mod termination;
mod tools;
