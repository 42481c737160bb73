//! The parts of the system that enforce a sandbox on Linux. `macos` has functions of the same names.

mod landlock_ruleset;
mod process_limits;
mod system_calls;

pub(crate) use landlock_ruleset::{landlock_version, restrict_thread};
pub(crate) use process_limits::{drop_capabilities, limit_resources};
pub(crate) use system_calls::restrict_calls;
