//! DOORS: how the world reaches the kernel, and how the kernel reaches processes.
//!
//! `http` and `mcp` are thin: parse, ask the kernel, answer. `peer` tells who is on the other end. `runner` starts,
//! finds and ends processes. `lifecycle` is the order in which a daemon begins and ends.
//! Not here: any decision about agents, messages or runs.

mod files;
mod home;
mod http;
mod impatient;
mod lifecycle;
mod log;
mod mcp;
mod pacing;
mod peer;
mod runner;
mod serve;
mod shutdown;
#[cfg(test)]
mod tests;

pub use agent_worker_kernel::Options;
pub use home::HomeError;
pub use lifecycle::{Error, Settings, StartedBy, serve};
pub use runner::Tracking;
