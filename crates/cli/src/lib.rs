//! MANNERS: what a person types and reads.
//!
//! [`parse`] reads the words, [`run`] carries a command out: it finds or starts the daemon, asks it, and shows
//! the answer. Answers go to stdout, talk to stderr; with `--json` stdout is one document in every case.
//! Nothing is decided here that must be true: the daemon owns that. Only `main` ends the process.

mod client;
mod commands;
mod dispatch;
mod error;
mod input;
mod live;
mod output;

pub use dispatch::run;
pub use input::invocation::{CliCommand, CliInvocation, DaemonFlags, ProcessTrackingFlag, parse};
pub use input::settings::CliSettings;
pub use output::console::Console;
