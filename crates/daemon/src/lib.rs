//! DOORS: how the world reaches the kernel, and how the kernel reaches processes.
//!
//! `http` and `mcp` are thin: parse, ask the kernel, answer. `peer` tells who is on the other end. `runner` starts,
//! finds and ends processes. `lifecycle` is the order in which a daemon begins and ends.
//! Not here: any decision about agents, messages or runs.

mod backpressure;
mod files;
mod hint;
mod home;
mod http;
mod lifecycle;
mod listeners;
mod log;
mod mcp;
mod peer;
mod runner;
mod shutdown;
#[cfg(test)]
mod tests;
mod write_timeout;

pub use agent_worker_kernel::Options;
pub use home::HomeError;
pub use lifecycle::{DaemonSettings, Error, StartedBy, serve};
pub use runner::Tracking;
