//! The last failure of each agent in a run. A row names the failed attempt, which holds class, message and time.

use agent_worker_protocol::{
    AgentName, AttemptEnd, RunId,
    api::{AgentFailure, LastFailure},
};

use super::{
    author::FencedAttempt,
    checksum::ATTEMPT,
    columns::{self, RunNo},
    locked_instance::LockedInstance,
};
use crate::{
    damage,
    db::{self, Connection, Row, params},
    error::Result,
};

/// Records the end of an attempt: a failure replaces the agent's last one, a success marks it as recovered.
pub(crate) fn record_end(
    locked: &LockedInstance<'_>,
    run: RunNo,
    attempt: &FencedAttempt,
    end: &AttemptEnd,
) -> Result<()> {
    let agent: &AgentName = &attempt.agent;
    match end {
        AttemptEnd::Failed { .. } => {
            locked
                .tx
                .prepare_cached(
                    "INSERT INTO last_failure (workflow, run, agent, epoch) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (workflow, run, agent) DO UPDATE SET epoch = excluded.epoch, recovered = 0",
                )?
                .execute(params![
                    locked.workflow.get(),
                    run.0,
                    agent.as_str(),
                    attempt.epoch.get()
                ])?;
        }
        AttemptEnd::Ok => {
            locked
                .tx
                .prepare_cached(
                    "UPDATE last_failure SET recovered = 1 WHERE workflow = ?1 AND run = ?2 AND agent = ?3",
                )?
                .execute(params![locked.workflow.get(), run.0, agent.as_str()])?;
        }
        AttemptEnd::Interrupted { .. } | AttemptEnd::Stopped => {}
    }
    Ok(())
}

pub(crate) fn list_sql() -> String {
    format!(
        "SELECT t.agent, t.how, t.ended, t.id, f.recovered, {}
        FROM run r CROSS JOIN last_failure f ON f.workflow = r.workflow AND f.run = r.id
        CROSS JOIN attempt t ON t.workflow = f.workflow AND t.agent = f.agent AND t.epoch = f.epoch
        AND t.run = f.run WHERE r.uuid = ?1 ORDER BY f.agent",
        ATTEMPT.check
    )
}

/// Lists the last failures of a run, one for each agent that failed, by name.
pub(crate) fn list(db: &Connection, run: RunId) -> Result<Vec<AgentFailure>> {
    let mut statement = db.prepare_cached(&list_sql())?;
    let failures = statement.query_map([run.get().as_bytes()], read_failure)?;
    Ok(damage::collect_intact(failures)?.into_iter().flatten().collect())
}

fn read_failure(row: &Row<'_>) -> db::Result<Option<AgentFailure>> {
    ATTEMPT.verify(row, 5)?;
    let AttemptEnd::Failed { class, why } = columns::json(row, 1)? else { return Ok(None) };
    let failure = LastFailure {
        class,
        message: why,
        at: columns::millis(row, 2)?,
        attempt: columns::attempt_id(row, 3)?,
        recovered: row.get(4)?,
    };
    Ok(Some(AgentFailure { agent: columns::parse(row, 0)?, failure }))
}
