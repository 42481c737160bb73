//! The sandbox of an agent's tools and programs, on Linux.
//!
//! A `SandboxPolicy` is an allow-list of paths, computed by a pure function from the facts of the machine. Two levels
//! enforce it: `full` with bubblewrap, Landlock and seccomp, `basic` with Landlock and seccomp alone. A process with one
//! thread applies it to itself and then becomes the program, because Landlock binds only the calling thread. This crate
//! starts no long-lived process and knows nothing of a team.

mod bubblewrap;
mod error;
mod facts;
mod gateway;
mod git_layout;
mod guard;
mod landlock_rules;
mod launch;
mod level;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
mod memory_watch;
mod path_table;
mod placeholders;
mod policy;
mod proxy_variables;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
use macos as system;

pub use error::SandboxError;
pub use facts::SandboxRequest;
pub use guard::SandboxGuard;
pub use launch::{SandboxLaunch, SandboxStart, exec_in_sandbox};
pub use level::{SandboxSupport, sandbox_gaps, sandbox_parts};
pub use memory_watch::MemoryExcess;
