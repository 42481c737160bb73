//! A run with all rows from which its view is derived, in one transaction.
//!
//! Invariant: the snapshot has the effects of every event up to its position and of none after it. A client that
//! shows the snapshot and then applies the events after that position shows the stored state.

use agent_worker_protocol::RunId;

use super::{
    agents, approvals, events, last_failures, proposal_rows, questions, run_results, runs,
};
use crate::{
    db::{Connection, OptionalExtension},
    error::Result,
    model::{ApprovalQuery, QuestionQuery, RunSnapshot},
};

/// Reads the snapshot of a run. Must run in a transaction; every read method of the store does.
pub(crate) fn get(db: &Connection, id: RunId) -> Result<RunSnapshot> {
    let run = runs::get(db, id)?;
    let workflow = run.workflow;
    let agents = if is_newest(db, id)? { agents::list(db, workflow)? } else { Vec::new() };
    Ok(RunSnapshot {
        position: events::last_position(db, workflow)?,
        failures: runs::failures(db, id)?,
        last_failures: last_failures::list(db, id)?,
        unheard: events::unheard(db, workflow, id)?,
        agents,
        proposals: proposal_rows::count_active(db, workflow)?,
        questions: questions::list(db, workflow, QuestionQuery::Open)?,
        approvals: approvals::list(db, workflow, ApprovalQuery::Open)?,
        answers: run_results::answers(db, id)?,
        verdict: run_results::verdict(db, id)?,
        run,
    })
}

/// Returns true if the run is the newest of its instance, to which the agents' rows belong.
fn is_newest(db: &Connection, run: RunId) -> Result<bool> {
    let newest = db
        .prepare_cached(
            "SELECT r.id = w.last_run FROM run r JOIN workflow w ON w.id = r.workflow WHERE r.uuid = ?1",
        )?
        .query_row([run.get().as_bytes()], |row| row.get(0))
        .optional()?;
    Ok(newest.unwrap_or(false))
}
