//! This process: its program, and the orphans below it.

use std::{env, io, path::PathBuf};

use super::environments::environment;
use crate::process_tree::{ATTEMPT_MARKER, Process, TASK_MARKER, marked_processes, task_processes};

/// Returns the absolute path of the running program. After the file was replaced, the path means the new file.
pub fn own_program() -> PathBuf {
    let found = env::current_exe().and_then(|path| path.canonicalize());
    found.unwrap_or_else(|_| "agent-worker".into())
}

/// Does nothing: macOS has no subreaper. An orphan becomes a child of the first process of the system.
#[expect(clippy::unnecessary_wraps, reason = "the function can fail on Linux")]
pub fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// Returns the living processes with the mark of this process's attempt or task, without this process. They include the
/// orphans whose environment macOS shows.
pub(crate) fn lost_descendants() -> Vec<Process> {
    let own = std::process::id();
    let marks = environment(own, ATTEMPT_MARKER).unwrap_or_default();
    let tasks = environment(own, TASK_MARKER).unwrap_or_default();
    // The commands of a run have one mark.
    let processes_of = |mark: &String| match tasks.first() {
        Some(task) => task_processes(mark, task),
        None => marked_processes(mark),
    };
    let marked = marks.iter().flat_map(processes_of);
    marked.filter(|process| process.pid != own).collect()
}
