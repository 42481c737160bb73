//! Processes that a dead daemon left behind: workers, which continue for a while by themselves, and their children.
//!
//! They are identified by their mark, which is the name of their folder in the home, or by their control group. Only a
//! daemon can end them, since only it knows what to record about them: one is started, and stopped at once.

use std::{collections::BTreeSet, fs, path::Path};

use agent_worker_host::{
    CgroupRoot, HoldMark, LockFile, Process, attempt_marks, marked_processes, run_blocking,
};
use agent_worker_protocol::api::ShutdownMode;
use serde_json::json;

use super::{process_of, wait_until_gone};
use crate::{
    client::discovery::{self, START_HINT},
    error::{CliError, CliErrorKind},
    input::context::{CommandContext, Format},
    output::verdict::RunVerdict,
};

/// Ends the processes that a dead daemon left, and prints the result. Returns none, and does nothing, if a daemon is
/// starting.
pub(super) async fn stop_leftovers(
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<Option<RunVerdict>, CliError> {
    let left = find_leftovers(&ctx.settings.home).await;
    let mut alive: Vec<Process> = Vec::new();
    // The daemon that ends them must not start work.
    if ctx.settings.has_history() && !hold_next_daemon(&ctx.settings.home)? {
        return Ok(None);
    }
    if !left.is_empty() {
        if format == Format::Text {
            let found = process_count_text(left.len());
            ctx.console
                .note(&format!("no daemon is running, but a daemon that died left {found}"))?;
        }
        let client = discovery::connect_or_start(ctx.settings).await?;
        let daemon = process_of(&client.health().await?);
        client.shutdown(ShutdownMode::Now).await?;
        wait_until_gone(daemon, ctx).await?;
        alive.extend(left.iter().filter(|process| process.is_alive()).copied());
    }
    let ended = left.len() - alive.len();
    match format {
        Format::Json => ctx.console.print_json(&json!({ "stopped": false, "ended": ended }))?,
        Format::Text if left.is_empty() => {
            ctx.console.note("no daemon is running")?;
            if ctx.settings.has_history() {
                ctx.console.hint(START_HINT)?;
            }
        }
        Format::Text => ctx.console.note(&format!("ended {}", process_count_text(ended)))?,
    }
    if alive.is_empty() {
        return Ok(Some(RunVerdict::Done));
    }
    let pids: Vec<String> = alive.iter().map(|process| process.pid.to_string()).collect();
    let what = format!("{} still running: {}", process_count_text(alive.len()), pids.join(", "));
    Err(CliError::new(CliErrorKind::Failed, what)
        .with_hint("background processes of a setup command stay until their run ends: agent-worker stop --all"))
}

/// Sets the mark `held`, unless a daemon has the home: one that is starting may have looked for the mark already.
fn hold_next_daemon(home: &Path) -> Result<bool, CliError> {
    let (lock, mark) = (home.join("daemon.lock"), HoldMark::of_home(home));
    let set = LockFile::while_free(&lock, || mark.set()).map_err(|error| {
        CliError::with_source(CliErrorKind::BadHome, "could not mark the home as held", error)
    })?;
    Ok(set.is_some())
}

fn process_count_text(number: usize) -> String {
    if number == 1 { "1 process".to_owned() } else { format!("{number} processes") }
}

/// Returns every living process of a run or an attempt of this home.
async fn find_leftovers(home: &Path) -> BTreeSet<Process> {
    let (runs, home) = (home.join("runs"), home.to_owned());
    let look = move || {
        let ours = folder_entries(&runs);
        let ours: BTreeSet<String> = ours
            .iter()
            .flat_map(|run| folder_entries(&runs.join(run)))
            .chain(ours.clone())
            .collect();
        let living = attempt_marks().into_iter().filter(|mark| ours.contains(mark));
        let carried = living.flat_map(|mark| marked_processes(&mark));
        let grouped = CgroupRoot::load_list(&home).into_iter().flat_map(|root| root.processes());
        carried.chain(grouped).collect()
    };
    run_blocking(look).await.unwrap_or_default()
}

/// Returns the names in a folder; none if the folder is missing.
fn folder_entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_is_starting_is_not_held_behind_its_back() {
        let home = tempfile::tempdir().unwrap();
        let mark = HoldMark::of_home(home.path());
        let starting = LockFile::try_acquire(&home.path().join("daemon.lock")).unwrap();
        assert!(!hold_next_daemon(home.path()).unwrap());
        assert!(!mark.is_set());
        drop(starting);
        assert!(hold_next_daemon(home.path()).unwrap());
        assert!(mark.is_set());
    }
}
