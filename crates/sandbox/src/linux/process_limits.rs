//! Limits of memory and processes inside, and the capabilities that a program loses.

use agent_worker_protocol::{MemoryLimit, SandboxLevel};
use rustix::{
    process::{Resource, Rlimit, getrlimit, getuid, setrlimit},
    thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities},
};

use crate::error::SandboxError;

/// Maximum number of processes and threads inside.
const MAX_PROCESSES: u64 = 1024;

/// Limits the data of each process and, where the system counts them per sandbox, the number of processes.
pub(crate) fn limit_resources(
    level: SandboxLevel,
    memory: MemoryLimit,
) -> Result<(), SandboxError> {
    lower(Resource::Data, memory.bytes())?;
    // The system does not count the processes of root, and without a user namespace it counts all those of the user.
    if level == SandboxLevel::Full && !getuid().is_root() {
        lower(Resource::Nproc, MAX_PROCESSES)?;
    }
    Ok(())
}

fn lower(resource: Resource, limit: u64) -> Result<(), SandboxError> {
    let Rlimit { current, maximum } = getrlimit(resource);
    let at_most = |set: Option<u64>| Some(set.map_or(limit, |set| set.min(limit)));
    setrlimit(resource, Rlimit { current: at_most(current), maximum: at_most(maximum) })
        .map_err(SandboxError::during("set a limit of resources"))
}

/// Gives up all capabilities. Landlock forbids new privileges, so that a program started by root gets none back.
pub(crate) fn drop_capabilities() -> Result<(), SandboxError> {
    let failed = SandboxError::during::<rustix::io::Errno>("give up the capabilities");
    clear_ambient_capability_set().map_err(&failed)?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(&failed)
}
