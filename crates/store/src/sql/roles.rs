//! Roles of a run and their holders.

use agent_worker_protocol::{AgentName, Keyword as _, Role, RunId};

use super::{author::Author, columns, locked_instance::LockedInstance};
use crate::{
    db::{self, Connection, OptionalExtension, params},
    error::{Error, Result},
};

/// Assigns a role of the live run to one of its agents and takes it from the present holder.
pub(crate) fn assign_role(
    locked: &LockedInstance<'_>,
    role: Role,
    agent: &AgentName,
) -> Result<()> {
    let (run, agent) = (locked.live_run()?.number, locked.find_agent(agent)?);
    locked
        .tx
        .prepare_cached(
            "INSERT INTO role (workflow, run, role, agent) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (workflow, run, role) DO UPDATE SET agent = excluded.agent",
        )?
        .execute(params![locked.workflow.get(), run.0, role.word(), agent.as_str()])?;
    Ok(())
}

/// Takes every role of the live run from an agent that leaves it.
pub(crate) fn remove_roles(locked: &LockedInstance<'_>, agent: &AgentName) -> Result<()> {
    locked
        .tx
        .prepare_cached("DELETE FROM role WHERE workflow = ?1 AND run = ?2 AND agent = ?3")?
        .execute(params![locked.workflow.get(), locked.live_run()?.number.0, agent.as_str()])?;
    Ok(())
}

/// Allows an agent to write documents if they have no owner, or if it is the owner. Authors that are no agents may
/// always write.
pub(crate) fn require_document_writer(locked: &LockedInstance<'_>, author: &Author) -> Result<()> {
    let Author::Attempt(writer) = author else { return Ok(()) };
    match holder(locked, Role::DocumentOwner)? {
        Some(owner) if owner != writer.agent => Err(Error::NotOwner(owner)),
        Some(_) | None => Ok(()),
    }
}

/// Returns the holder of a role in the live run.
pub(crate) fn holder(locked: &LockedInstance<'_>, role: Role) -> Result<Option<AgentName>> {
    let run = locked.live_run()?.number;
    Ok(locked
        .tx
        .prepare_cached("SELECT agent FROM role WHERE workflow = ?1 AND run = ?2 AND role = ?3")?
        .query_row(params![locked.workflow.get(), run.0, role.word()], |row| columns::parse(row, 0))
        .optional()?)
}

/// Lists the roles of a run with their holders.
pub(crate) fn list(db: &Connection, run: RunId) -> Result<Vec<(Role, AgentName)>> {
    let sql =
        "SELECT o.role, o.agent FROM role o JOIN run r ON r.workflow = o.workflow AND r.id = o.run
        WHERE r.uuid = ?1 ORDER BY o.role";
    let roles = db
        .prepare_cached(sql)?
        .query_map([run.get().as_bytes()], |row| {
            Ok((columns::word(row, 0)?, columns::parse(row, 1)?))
        })?
        .collect::<db::Result<_>>()?;
    Ok(roles)
}
