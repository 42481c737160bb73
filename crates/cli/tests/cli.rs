//! What a person types and what they see, against a daemon that says what it was told to say.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the report")]

#[path = "cli/discovery.rs"]
mod discovery;
#[path = "cli/fake.rs"]
mod fake;
#[path = "cli/look.rs"]
mod look;
#[path = "cli/run.rs"]
mod run;
#[path = "cli/send.rs"]
mod send;
#[path = "cli/stories.rs"]
mod stories;
