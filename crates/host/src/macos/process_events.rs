//! Signals a process, and waits for its end.
//!
//! A signal goes to a pid. Between the check of the process and the signal, another process could get the pid; macOS has no
//! descriptor that prevents this.

use std::time::Duration;

use nix::{libc::timespec, sys::event::Kqueue};
use rustix::{
    io::{Errno, Result},
    process::{Signal, kill_process},
};

use super::kernel_queue::{next_events, register_process};
use crate::process_tree::Process;

/// Sends a signal to a process; `SRCH` if it is gone.
pub(crate) fn signal_process(process: Process, signal: Signal) -> Result<()> {
    if process.is_alive() { kill_process(process.pid()?, signal) } else { Err(Errno::SRCH) }
}

/// Returns true if the process ends within `wait`.
pub(crate) fn wait_ended(process: Process, wait: Duration) -> Result<bool> {
    let queue = Kqueue::new().map_err(to_rustix)?;
    register_process(&queue, process.pid).map_err(to_rustix)?;
    // The process may have ended before, and its pid may belong to another one.
    if !process.is_alive() {
        return Ok(true);
    }
    let seconds = i64::try_from(wait.as_secs()).map_err(|_| Errno::INVAL)?;
    let wait = timespec { tv_sec: seconds, tv_nsec: i64::from(wait.subsec_nanos()) };
    Ok(!next_events(&queue, Some(wait)).map_err(to_rustix)?.is_empty())
}

fn to_rustix(error: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(error as i32)
}
