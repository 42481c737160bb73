//! This process: its program, and the orphans below it.

use std::{io, path::PathBuf};

use rustix::process::{getpid, set_child_subreaper};

use crate::process_tree::Process;

/// Returns a path of the running program that is valid even after the file was replaced or moved.
pub fn own_program() -> PathBuf {
    "/proc/self/exe".into()
}

/// Makes this process the parent of every process below it that loses its own parent (subreaper), so that none leaves the
/// tree.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Returns the living processes below this one that have left its tree: none, because this process adopts them.
pub(crate) fn lost_descendants() -> Vec<Process> {
    Vec::new()
}
