//! The initial environments of processes, as `ps` prints them.
//!
//! The system call for them (`KERN_PROCARGS2`) has no safe interface. macOS hides the environment of its own programs, such
//! as `/bin/sh`, while System Integrity Protection is on: such a process has no values.

use std::{
    io,
    process::{Command, Stdio},
    time::Instant,
};

use rustix::process::geteuid;

use super::process_table::{all_processes, record_of};
use crate::{
    process_tree::{Process, Stat},
    ps_output::{PsEntry, parse_ps},
};

/// The path is fixed: an agent may have changed the folders of `PATH`.
const PS_PROGRAM: &str = "/bin/ps";

/// Returns the initial values of the variable `name` in a process, up to the first blank of each.
///
/// The error `WouldBlock` means that the environment cannot be read now.
pub(crate) fn environment(pid: u32, name: &str) -> io::Result<Vec<String>> {
    let record = record_of(pid).ok_or(io::ErrorKind::NotFound)?;
    if record.uid != geteuid().as_raw() && !geteuid().is_root() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let entries = run_ps(&["-p", &pid.to_string()])?;
    match entries.into_iter().find(|entry| entry.pid == pid) {
        Some(entry) if entry.is_unreadable(&record.name) => Err(io::ErrorKind::WouldBlock.into()),
        Some(entry) => Ok(entry.values(name)),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Returns every living process that has the variable `name`, with each of its values.
pub(crate) fn environment_values(name: &str, _deadline: Instant) -> Vec<(Process, String)> {
    let entries = run_ps(&["-A"]).unwrap_or_default();
    let living: Vec<Stat> = all_processes().into_iter().filter(|stat| !stat.is_zombie).collect();
    let process_of = |pid| living.iter().find(|stat| stat.pid == pid).copied().map(Process::from);
    let with_values = entries.iter().map(|entry| (entry.pid, entry.values(name)));
    with_values
        .filter_map(|(pid, values)| Some((process_of(pid)?, values)))
        .flat_map(|(process, values)| values.into_iter().map(move |value| (process, value)))
        .collect()
}

fn run_ps(selection: &[&str]) -> io::Result<Vec<PsEntry>> {
    let mut command = Command::new(PS_PROGRAM);
    command.args(selection).args(["-E", "-ww", "-o", "pid=", "-o", "command="]);
    let output = command.env_clear().stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    Ok(parse_ps(&String::from_utf8_lossy(&output.stdout)))
}
