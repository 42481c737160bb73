//! Grants: the calls that a person allows one agent for the rest of a run.
//!
//! The answer to a request makes a grant, in the same transaction. A grant is in force while its run is live and nobody
//! has revoked it. Invariant: a damaged grant is never in force, so that its agent asks again.

use agent_worker_protocol::{
    AgentName, ApprovalId, EventBody, GrantId, PermissionGrantData, Sender, ToolPattern, WorkflowId,
};

use super::{
    author::Author,
    checksum::{self, GRANT, RUN_ID},
    columns,
    effects::once,
    events::EventEntry,
    locked_instance::LockedInstance,
    transaction::Tx,
};
use crate::{
    damage,
    db::{self, Connection, Row, params},
    error::{Error, Result},
    model::{Approval, GrantQuery, Once, PermissionGrant, WriteContext},
    time::Now,
};

/// Makes a grant for the agent of a request, in the live run.
pub(crate) fn insert_grant(
    locked: &mut LockedInstance<'_>,
    asked: &Approval,
    pattern: &ToolPattern,
    sender: &Sender,
    now: Now,
) -> Result<GrantId> {
    let run = locked.live_run()?.number;
    let id = GrantId::new(locked.next_number("last_grant")?);
    locked
        .tx
        .prepare_cached(
            "INSERT INTO permission_grant (workflow, id, run, agent, pattern, approval, whose, granted, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,
             row_checksum('permission_grant', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL))",
        )?
        .execute(params![
            locked.workflow.get(),
            id.get(),
            run.0,
            asked.agent.as_str(),
            pattern.to_string(),
            asked.id.get(),
            sender.to_string(),
            now.wall.get()
        ])?;
    let data = PermissionGrantData { grant: id, pattern: pattern.clone() };
    let entry = EventEntry::new(EventBody::PermissionGranted(data));
    locked.append_event(&entry.agent(&asked.agent).by(sender), now)?;
    Ok(id)
}

/// Revokes a grant in force; an agent never does.
pub(crate) fn revoke(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    id: GrantId,
    now: Now,
) -> Result<Once<()>> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let Author::Other(sender) = author else { return Err(Error::Fenced) };
        locked.live_run()?;
        let grant = list(tx, workflow, GrantQuery::InForce)?.into_iter().find(|it| it.id == id);
        end_grant(locked, &grant.ok_or(Error::NotFound("grant"))?, sender, now)
    })
}

/// Revokes the grants of an agent that leaves its run: a later agent of the same name has none of them.
pub(crate) fn revoke_all_of(
    locked: &mut LockedInstance<'_>,
    agent: &AgentName,
    sender: &Sender,
    now: Now,
) -> Result<()> {
    let mut grants = list(locked.tx, locked.workflow, GrantQuery::InForce)?;
    grants.retain(|grant| grant.agent == *agent);
    grants.iter().try_for_each(|grant| end_grant(locked, grant, sender, now))
}

fn end_grant(
    locked: &mut LockedInstance<'_>,
    grant: &PermissionGrant,
    sender: &Sender,
    now: Now,
) -> Result<()> {
    let (tx, key) = (locked.tx, params![locked.workflow.get(), grant.id.get()]);
    GRANT.update(tx, "g.workflow = ?1 AND g.id = ?2", key, || {
        tx.prepare_cached(
            "UPDATE permission_grant SET revoked = ?3 WHERE workflow = ?1 AND id = ?2",
        )?
        .execute(params![locked.workflow.get(), grant.id.get(), now.wall.get()])?;
        Ok(())
    })?;
    let data = PermissionGrantData { grant: grant.id, pattern: grant.pattern.clone() };
    let entry = EventEntry::new(EventBody::PermissionRevoked(data));
    locked.append_event(&entry.agent(&grant.agent).by(sender), now)
}

/// Returns a grant of an agent if it is in force.
pub(crate) fn find_in_force(
    db: &Connection,
    workflow: WorkflowId,
    id: GrantId,
    agent: &AgentName,
) -> Result<Option<PermissionGrant>> {
    let is_it = |grant: &PermissionGrant| grant.id == id && grant.agent == *agent;
    Ok(list(db, workflow, GrantQuery::InForce)?.into_iter().find(is_it))
}

/// Lists grants of the live run, oldest first.
pub(crate) fn list(
    db: &Connection,
    workflow: WorkflowId,
    which: GrantQuery,
) -> Result<Vec<PermissionGrant>> {
    let mut statement = db.prepare_cached(&list_sql(which))?;
    let rows = match which {
        GrantQuery::InForce => statement.query_map([workflow.get()], read_grant)?,
        GrantQuery::One(id) => statement.query_map([workflow.get(), id.get()], read_grant)?,
    };
    damage::collect_intact(rows)
}

pub(crate) fn list_sql(which: GrantQuery) -> String {
    let columns = format!(
        "g.id, {RUN_ID}, g.agent, g.pattern, g.approval, g.whose, g.granted, {}",
        GRANT.check
    );
    let (index, condition) = match which {
        GrantQuery::InForce => ("INDEXED BY permission_grant_run", "g.revoked IS NULL"),
        GrantQuery::One(_) => ("", "g.id = ?2"),
    };
    format!(
        "SELECT {columns} FROM workflow w JOIN run r ON r.workflow = w.id AND r.id = w.live_run
        JOIN permission_grant g {index} ON g.workflow = r.workflow AND g.run = r.id
        WHERE w.id = ?1 AND {condition} ORDER BY g.id"
    )
}

fn read_grant(row: &Row<'_>) -> db::Result<PermissionGrant> {
    GRANT.verify(row, 7)?;
    Ok(PermissionGrant {
        id: GrantId::new(row.get(0)?),
        run: checksum::run_id(row, 1)?,
        agent: columns::parse(row, 2)?,
        pattern: columns::parse(row, 3)?,
        approval: ApprovalId::new(row.get(4)?),
        by: Sender::from(row.get::<String>(5)?),
        granted: columns::millis(row, 6)?,
    })
}
