//! Who has which role in a run.

use agent_worker_protocol::{AgentName, Role, RunId};
use rusqlite::{Connection, OptionalExtension, params};

use super::{author::Author, columns, head::Head};
use crate::error::{Error, Result};

/// Gives a role of the live run to one of its agents, taking it from whoever had it.
pub(super) fn give(head: &Head<'_>, role: Role, agent: &AgentName) -> Result<()> {
    let (run, agent) = (head.live()?.number, head.agent(agent)?);
    head.tx
        .prepare_cached(
            "INSERT OR REPLACE INTO role (workflow, run, role, agent) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![head.workflow.get(), run.0, role.word(), agent.as_str()])?;
    Ok(())
}

/// Takes every role of the live run from an agent that leaves it.
pub(super) fn leave(head: &Head<'_>, agent: &AgentName) -> Result<()> {
    head.tx
        .prepare_cached("DELETE FROM role WHERE workflow = ?1 AND run = ?2 AND agent = ?3")?
        .execute(params![head.workflow.get(), head.live()?.number.0, agent.as_str()])?;
    Ok(())
}

/// Lets an agent write documents if nobody owns them, or it does. Who is no agent owns everything.
pub(super) fn may_write(head: &Head<'_>, author: &Author) -> Result<()> {
    let Author::Attempt(writer) = author else { return Ok(()) };
    match holder(head, Role::DocumentOwner)? {
        Some(owner) if owner != writer.agent => Err(Error::NotOwner(owner)),
        Some(_) | None => Ok(()),
    }
}

/// Who has a role of the live run.
pub(super) fn holder(head: &Head<'_>, role: Role) -> Result<Option<AgentName>> {
    let run = head.live()?.number;
    Ok(head
        .tx
        .prepare_cached("SELECT agent FROM role WHERE workflow = ?1 AND run = ?2 AND role = ?3")?
        .query_row(params![head.workflow.get(), run.0, role.word()], |row| columns::parsed(row, 0))
        .optional()?)
}

/// The roles of a run, and who has them.
pub(super) fn list(db: &Connection, run: RunId) -> Result<Vec<(Role, AgentName)>> {
    let sql =
        "SELECT o.role, o.agent FROM role o JOIN run r ON r.workflow = o.workflow AND r.id = o.run
        WHERE r.uuid = ?1 ORDER BY o.role";
    let roles = db
        .prepare_cached(sql)?
        .query_map([run.get().as_bytes()], |row| {
            Ok((columns::word(row, 0, Role::from_word)?, columns::parsed(row, 1)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(roles)
}
