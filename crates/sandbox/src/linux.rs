//! The parts of the system that enforce a sandbox on Linux. `macos` has functions of the same names.

use rustix::net::RecvFlags;

mod landlock_ruleset;
mod process_limits;
mod system_calls;

pub(crate) use landlock_ruleset::{landlock_version, restrict_thread};
pub(crate) use process_limits::{drop_capabilities, limit_resources};
pub(crate) use system_calls::restrict_calls;

/// Flags for receiving descriptors: no program that this process starts inherits them.
pub(crate) const RECEIVE_FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
