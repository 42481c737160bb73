//! Signals a process, and waits for its end, through a descriptor that never refers to another process (pidfd).

use std::{os::fd::OwnedFd, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, Result},
    process::{PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};

use crate::process_tree::Process;

/// Sends a signal to a process; `SRCH` if it is gone.
pub(crate) fn signal_process(process: Process, signal: Signal) -> Result<()> {
    match open(process) {
        Ok(fd) => pidfd_send_signal(fd, signal),
        // A kernel without such descriptors: the closest approximation.
        Err(Errno::NOSYS) if process.is_alive() => kill_process(process.pid()?, signal),
        Err(Errno::NOSYS) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns true if the process ends within `wait`.
pub(crate) fn wait_ended(process: Process, wait: Duration) -> Result<bool> {
    let fd = open(process)?;
    let wait = Timespec::try_from(wait).map_err(|_| Errno::INVAL)?;
    Ok(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&wait))? > 0)
}

/// Opens a descriptor of the process and checks it afterwards, because an open descriptor always refers to the same
/// process.
fn open(process: Process) -> Result<OwnedFd> {
    let fd = pidfd_open(process.pid()?, PidfdFlags::empty())?;
    if process.is_alive() { Ok(fd) } else { Err(Errno::SRCH) }
}
