//! The parts of the system that would enforce a sandbox on macOS: there are none, so every function fails.

use std::path::PathBuf;

use agent_worker_protocol::{MemoryLimit, SandboxLevel, SandboxNetwork};

use rustix::net::RecvFlags;

use crate::{error::SandboxError, landlock_rules::LandlockRight};

/// Flags for receiving descriptors, which no sandbox sends here.
pub(crate) const RECEIVE_FLAGS: RecvFlags = RecvFlags::empty();
const NO_SANDBOX: &str = "this is macOS";

/// Returns the reason against a sandbox.
pub(crate) fn landlock_version() -> Result<u8, String> {
    Err(NO_SANDBOX.to_owned())
}

/// Fails: there is no sandbox.
pub(crate) fn restrict_thread(
    _rules: &[(PathBuf, LandlockRight)],
    _network: &SandboxNetwork,
    _level: SandboxLevel,
) -> Result<(), SandboxError> {
    Err(no_sandbox())
}

/// Fails: there is no sandbox.
pub(crate) fn restrict_calls(
    _network: &SandboxNetwork,
    _level: SandboxLevel,
) -> Result<(), SandboxError> {
    Err(no_sandbox())
}

/// Fails: there is no sandbox.
pub(crate) fn limit_resources(
    _level: SandboxLevel,
    _memory: MemoryLimit,
) -> Result<(), SandboxError> {
    Err(no_sandbox())
}

/// Fails: there is no sandbox.
pub(crate) fn drop_capabilities() -> Result<(), SandboxError> {
    Err(no_sandbox())
}

fn no_sandbox() -> SandboxError {
    SandboxError::NoLandlock { why: NO_SANDBOX.to_owned() }
}
