//! Control groups, which macOS does not have.

use std::{io, path::PathBuf};

/// Returns the reason against control groups.
pub(crate) fn own_cgroup_folder() -> Result<PathBuf, String> {
    Err("macOS has no control groups and no subreaper, so a process that leaves its parents may count as you".to_owned())
}

/// Returns none: no process is in a control group.
pub(crate) fn cgroup_path(_pid: u32) -> io::Result<Option<String>> {
    Ok(None)
}
