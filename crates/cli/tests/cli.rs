//! Tests of commands and their output, against a daemon with scripted replies.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the report")]

#[path = "cli/discovery.rs"]
mod discovery;
#[path = "cli/fake_daemon.rs"]
mod fake_daemon;
#[path = "cli/inspection_commands.rs"]
mod inspection_commands;
#[path = "cli/run.rs"]
mod run;
#[path = "cli/sample_responses.rs"]
mod sample_responses;
#[path = "cli/send.rs"]
mod send;
