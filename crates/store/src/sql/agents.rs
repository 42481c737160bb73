//! Agents: the participants of a run, and those of them that can be leased.

use agent_worker_protocol::WorkflowId;

use super::{columns, delivery_states::delivery_sql, instances};
use crate::{
    db::{self, Connection, Row},
    error::Result,
    model::{AgentRow, LiveAttempt, NotBefore, ReadyAgent},
};

pub(crate) const LIST_SQL: &str = delivery_sql!("SELECT a.name, a.settings, a.stopped, a.not_before, a.wait, a.why, a.live, a.live_since,
        (SELECT count(*) FROM delivery d INDEXED BY delivery_open
          WHERE d.workflow = ?1 AND d.state = " PENDING " AND d.state <= " LAST_OPEN " AND d.agent = a.name AND d.wakes = 1),
        a.turns, a.messages, a.since, a.input_tokens, a.output_tokens, a.cost_micros, a.cost_how, a.place, a.session
        FROM workflow w JOIN agent a ON a.workflow = w.id AND a.run = w.last_run WHERE w.id = ?1 ORDER BY a.place");

pub(crate) fn list(db: &Connection, workflow: WorkflowId) -> Result<Vec<AgentRow>> {
    instances::instance_ref(db, workflow)?;
    let agents = db
        .prepare_cached(LIST_SQL)?
        .query_map([workflow.get()], read_agent)?
        .collect::<db::Result<_>>()?;
    Ok(agents)
}

fn read_agent(row: &Row<'_>) -> db::Result<AgentRow> {
    let not_before = match columns::optional(row, 3, columns::store_time)? {
        Some(at) => Some(NotBefore { at, wait: columns::word(row, 4)?, why: row.get(5)? }),
        None => None,
    };
    let live = match columns::optional(row, 6, columns::attempt_id)? {
        Some(attempt) => Some(LiveAttempt { attempt, since: columns::millis(row, 7)? }),
        None => None,
    };
    Ok(AgentRow {
        name: columns::parse(row, 0)?,
        settings: row.get(1)?,
        stopped: row.get(2)?,
        not_before,
        live,
        waiting: row.get(8)?,
        turns: row.get(9)?,
        messages: row.get(10)?,
        since: columns::millis(row, 11)?,
        usage: columns::usage(row, 12)?,
        place: row.get(16)?,
        session: columns::optional(row, 17, columns::json)?,
    })
}

pub(crate) const READY_SQL: &str = delivery_sql!("SELECT name, not_before FROM (
          SELECT a.name, a.not_before, (
            SELECT d.seq FROM delivery d INDEXED BY delivery_open
            WHERE d.workflow = ?1 AND d.state = " PENDING " AND d.state <= " LAST_OPEN " AND d.agent = a.name AND d.wakes = 1
            ORDER BY d.prio DESC, d.seq LIMIT 1) AS next
          FROM workflow w JOIN run r ON r.workflow = w.id AND r.id = w.live_run AND r.state IN ('running', 'electing')
          JOIN agent a ON a.workflow = w.id AND a.run = w.live_run
          WHERE w.id = ?1 AND a.live IS NULL AND a.stopped IS NULL) AS waiting
        WHERE next IS NOT NULL ORDER BY next");

/// Lists the agents with waking mail and no live attempt; the longest waiting one comes first.
pub(crate) fn ready(db: &Connection, workflow: WorkflowId) -> Result<Vec<ReadyAgent>> {
    let agents = db
        .prepare_cached(READY_SQL)?
        .query_map([workflow.get()], |row| {
            Ok(ReadyAgent {
                name: columns::parse(row, 0)?,
                not_before: columns::optional(row, 1, columns::store_time)?,
            })
        })?
        .collect::<db::Result<_>>()?;
    Ok(agents)
}
