//! The command line: arguments, output and one file per command.
//!
//! [`parse`] reads the arguments and [`run`] executes a command: it finds or starts the daemon, sends its requests and
//! prints the answer. Answers go to stdout, messages to stderr; with `--json` stdout is one document in every case. The
//! daemon owns all durable state; this crate decides nothing about it. Only `main` ends the process.

mod client;
mod commands;
mod dispatch;
mod error;
mod input;
mod live;
mod output;
mod programs;
mod top;

pub use commands::sandbox::{SandboxArgs, exec_sandboxed, run_sandbox};
pub use dispatch::run;
pub use input::invocation::{
    CliCommand, CliInvocation, DaemonFlags, ProcessTrackingFlag, SandboxExecArgs, parse,
};
pub use input::settings::CliSettings;
pub use output::console::Console;
