//! MANNERS: what a person types and reads.
//!
//! [`parse`] reads the words, [`run`] carries a command out: it finds or starts the daemon, asks it, and shows
//! the answer. Answers go to stdout, talk to stderr; with `--json` stdout is one document in every case.
//! Nothing is decided here that must be true: the daemon owns that. Only `main` ends the process.

mod bridge;
mod clerk;
mod client;
mod client_token;
mod clock;
mod commands;
mod consent;
mod console;
mod context;
mod discovery;
mod ending;
mod error;
mod fate;
mod feed;
mod follow;
mod given;
mod grant;
mod invocation;
mod keys;
mod launch;
mod line;
mod memory;
mod params;
mod perform;
mod rejoin;
mod report;
#[cfg(test)]
mod samples;
mod screen;
mod settings;
mod signals;
mod table;
mod tail;
mod text;
mod verdict;
mod view;
mod which;
mod words;

pub use console::Console;
pub use invocation::{Command, DaemonFlags, Invocation, ProcessTrackingFlag, parse};
pub use perform::run;
pub use settings::Settings;
