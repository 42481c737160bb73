//! Limits that the child sets for itself, so that it is harmless even if the interpreter is not.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum size of the private memory: the interpreter, the values that are read, and the result that is written.
const MAX_DATA_BYTES: u64 = 512 * 1024 * 1024;
/// Maximum size of the address space, with the program itself.
const MAX_ADDRESS_BYTES: u64 = 1024 * 1024 * 1024;
/// Size of the stack, of which the interpreter takes at most a part.
const STACK_BYTES: u64 = 8 * 1024 * 1024;
/// Processor time after which the system ends the process, if neither the interpreter nor the parent does.
const MAX_SECONDS_PER_EXPRESSION: u64 = 2;
/// Number of open files: the standard ones.
const MAX_FILES: u64 = 3;

/// Takes from this process everything that an expression does not need.
pub(super) fn restrict_process() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    for (resource, limit) in [
        (Resource::Data, MAX_DATA_BYTES),
        (Resource::As, MAX_ADDRESS_BYTES),
        (Resource::Stack, STACK_BYTES),
        (Resource::Nofile, MAX_FILES),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Nproc, 0),
    ] {
        lower(resource, limit).or_else(|error| {
            // Not every system has every limit.
            if cfg!(target_os = "linux") { Err(error) } else { Ok(()) }
        })?;
    }
    Ok(())
}

/// Ends this process if it needs much more processor time from now on than an expression may.
pub(super) fn restrict_processor_time() -> io::Result<()> {
    let used = super::engine::processor_time().as_secs();
    let maximum = getrlimit(Resource::Cpu).maximum;
    let wanted = used + MAX_SECONDS_PER_EXPRESSION;
    let current = Some(maximum.map_or(wanted, |maximum| maximum.min(wanted)));
    setrlimit(Resource::Cpu, Rlimit { current, maximum })?;
    Ok(())
}

fn lower(resource: Resource, limit: u64) -> io::Result<()> {
    let limit = getrlimit(resource).maximum.map_or(limit, |set| set.min(limit));
    setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
    Ok(())
}
