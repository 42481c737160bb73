//! The interfaces around the kernel: clients reach the kernel through them, and the kernel reaches processes and
//! files.
//!
//! `http` and `mcp` are thin: parse, ask the kernel, answer. `peer` identifies the caller of a connection. `runner`
//! starts, finds and ends processes. `lifecycle` defines the order in which a daemon starts and stops.
//! Not here: any decision about agents, messages or runs.

mod backpressure;
mod exit_deadline;
mod files;
mod guarded_body;
mod hint;
mod home;
mod http;
mod input;
mod lifecycle;
mod listeners;
mod log;
mod mcp;
mod next_step;
mod notify;
mod peer;
mod runner;
mod shutdown;
#[cfg(test)]
mod tests;
mod write_timeout;

pub use agent_worker_kernel::Options;
pub use home::HomeError;
pub use lifecycle::{DaemonSettings, Error, StartedBy, serve};
pub use mcp::{FixtureReply, McpFixtures};
pub use runner::Tracking;
