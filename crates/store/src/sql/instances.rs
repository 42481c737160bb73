//! Instances: found or created, listed, deleted.

use agent_worker_protocol::{
    ChannelClearedData, EventBody, InstanceRef, RunId, Seq, Tag, WorkflowId,
};

use super::{
    columns::{self, RunNo},
    effects::once,
    events::EventEntry,
    locked_instance::LockedInstance,
    runs, search,
    transaction::Tx,
};
use crate::{
    db::{self, Connection, OptionalExtension, params},
    error::{Error, Result},
    model::{Instance, InstanceQuery, WriteContext},
    time::Now,
};

/// Returns the instance's id. Writers that open the same new instance at once get the same id: the second insert is
/// ignored and its id read.
pub(crate) fn open(tx: &Tx<'_>, project: &str, instance: &InstanceRef) -> Result<WorkflowId> {
    let key = [project, instance.name.as_str(), instance.tag.as_str()];
    if let Some(id) = find(tx, key)? {
        return Ok(id);
    }
    tx.mark_runs_changed();
    let sql =
        "INSERT INTO workflow (project, name, tag) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    tx.prepare_cached(sql)?.execute(key)?;
    find(tx, key)?.ok_or(Error::NotFound("instance"))
}

fn find(db: &Connection, key: [&str; 3]) -> Result<Option<WorkflowId>> {
    let found = db
        .prepare_cached("SELECT id FROM workflow WHERE project = ?1 AND name = ?2 AND tag = ?3")?
        .query_row(key, |row| row.get(0).map(WorkflowId::new))
        .optional()?;
    Ok(found)
}

/// Returns the query, with `?1` and `?2` for the searched values. A command that names its target must not scan all
/// instances.
pub(crate) fn list_sql(which: &InstanceQuery) -> String {
    let (from, condition) = match which {
        InstanceQuery::All => ("", "CAST(?1 AS TEXT) IS NULL AND CAST(?2 AS TEXT) IS NULL"),
        InstanceQuery::Live => (
            " INDEXED BY workflow_live",
            "w.live_run IS NOT NULL AND CAST(?1 AS TEXT) IS NULL AND CAST(?2 AS TEXT) IS NULL",
        ),
        InstanceQuery::Named(_) => ("", "w.name = ?1 AND w.tag = ?2"),
        InstanceQuery::OfWorkflow(_) => ("", "w.name = ?1 AND CAST(?2 AS TEXT) IS NULL"),
        InstanceQuery::Tagged(_) => ("", "w.tag = ?1 AND CAST(?2 AS TEXT) IS NULL"),
        InstanceQuery::WithAgent(_) => (
            " JOIN agent a INDEXED BY agent_name ON a.workflow = w.id AND a.run = w.last_run",
            "a.name = ?1 AND CAST(?2 AS TEXT) IS NULL",
        ),
    };
    format!(
        "SELECT w.id, w.project, w.name, w.tag, live.uuid, last.uuid FROM workflow w{from}
        LEFT JOIN run live ON live.workflow = w.id AND live.id = w.live_run
        LEFT JOIN run last ON last.workflow = w.id AND last.id = w.last_run WHERE {condition} ORDER BY w.id"
    )
}

pub(crate) fn list(db: &Connection, which: &InstanceQuery) -> Result<Vec<Instance>> {
    let (first, second) = match which {
        InstanceQuery::All | InstanceQuery::Live => (None, None),
        InstanceQuery::Named(instance) => (Some(instance.name.as_str()), Some(&instance.tag)),
        InstanceQuery::OfWorkflow(name) => (Some(name.as_str()), None),
        InstanceQuery::Tagged(tag) => (Some(tag.as_str()), None),
        InstanceQuery::WithAgent(agent) => (Some(agent.as_str()), None),
    };
    let instances = db
        .prepare_cached(&list_sql(which))?
        .query_map(params![first, second.map(Tag::as_str)], |row| {
            Ok(Instance {
                id: WorkflowId::new(row.get(0)?),
                project: row.get(1)?,
                instance: InstanceRef {
                    name: columns::parse(row, 2)?,
                    tag: columns::parse(row, 3)?,
                },
                live: columns::optional(row, 4, columns::run_id)?,
                last: columns::optional(row, 5, columns::run_id)?,
            })
        })?
        .collect::<db::Result<_>>()?;
    Ok(instances)
}

/// Returns the name and tag of an instance.
pub(crate) fn instance_ref(db: &Connection, workflow: WorkflowId) -> Result<InstanceRef> {
    db.prepare_cached("SELECT name, tag FROM workflow WHERE id = ?1")?
        .query_row([workflow.get()], |row| {
            Ok(InstanceRef { name: columns::parse(row, 0)?, tag: columns::parse(row, 1)? })
        })
        .optional()?
        .ok_or(Error::NotFound("instance"))
}

/// Deletes the content of runs that are kept only while they are live; their resources' files are swept afterwards.
/// Other runs of the same instance keep their content; no number is ever used again.
pub(crate) fn delete_unretained_runs(tx: &Tx<'_>, workflow: WorkflowId) -> Result<()> {
    let locked = LockedInstance::lock(tx, workflow)?;
    if let Some(live) = locked.live_run_if_any() {
        return Err(Error::RunLive(live.id));
    }
    let runs = tx
        .prepare_cached(
            "SELECT id, after_seq, last_seq FROM run
             WHERE workflow = ?1 AND keep = 'while_live' AND forgotten = 0",
        )?
        .query_map([workflow.get()], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?
        .collect::<db::Result<Vec<[i64; 3]>>>()?;
    for [run, after, last] in runs {
        search::remove_from_index(tx, workflow, (after, last))?;
        tx.prepare_cached("UPDATE agent SET session = NULL WHERE workflow = ?1 AND run = ?2")?
            .execute([workflow.get(), run])?;
        for table in ["message", "delivery"] {
            let sql = format!("DELETE FROM {table} WHERE workflow = ?1 AND seq > ?2 AND seq <= ?3");
            tx.prepare_cached(&sql)?.execute([workflow.get(), after, last])?;
        }
        for table in [
            "attempt",
            "last_failure",
            "effect",
            "document",
            "resource",
            "event",
            "role",
            "gate",
            "question",
            "approval",
            "permission_grant",
            "suggestion",
            "answer",
            "verdict",
            "task",
            "spend_slot",
            "turn_entry",
            "turn_text",
        ] {
            let sql = format!("DELETE FROM {table} WHERE workflow = ?1 AND run = ?2");
            tx.prepare_cached(&sql)?.execute([workflow.get(), run])?;
        }
        tx.prepare_cached(
            "DELETE FROM ballot WHERE workflow = ?1 AND proposal IN (
              SELECT id FROM proposal WHERE workflow = ?1 AND run = ?2)",
        )?
        .execute([workflow.get(), run])?;
        tx.prepare_cached("DELETE FROM proposal WHERE workflow = ?1 AND run = ?2")?
            .execute([workflow.get(), run])?;
        runs::set_text_column(tx, (workflow, RunNo(run)), "script", Some(""))?;
        tx.prepare_cached("UPDATE run SET forgotten = 1 WHERE workflow = ?1 AND id = ?2")?
            .execute([workflow.get(), run])?;
    }
    tx.mark_runs_changed();
    locked.save()
}

/// Hides the present messages of the channel, and ends the conversations of the agents, which contain them.
pub(crate) fn clear_channel(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    now: Now,
) -> Result<Seq> {
    let cleared = once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let last = locked.last_seq();
        tx.prepare_cached("UPDATE workflow SET cleared = ?2 WHERE id = ?1")?
            .execute([workflow.get(), last.get()])?;
        tx.prepare_cached("UPDATE agent SET session = NULL WHERE workflow = ?1")?
            .execute([workflow.get()])?;
        let body = EventBody::ChannelCleared(ChannelClearedData { seq: last });
        locked.append_event(&EventEntry::new(body).by(&author.sender()), now)?;
        Ok(last)
    })?;
    Ok(cleared.value())
}

/// Deletes an instance; its resources' files are swept afterwards.
pub(crate) fn remove(tx: &Tx<'_>, workflow: WorkflowId) -> Result<()> {
    if let Some(live) = LockedInstance::lock(tx, workflow)?.live_run_if_any() {
        return Err(Error::RunLive(live.id));
    }
    search::remove_from_index(tx, workflow, (0, i64::MAX))?;
    for table in [
        "run",
        "agent",
        "message",
        "delivery",
        "attempt",
        "last_failure",
        "effect",
        "document",
        "resource",
        "event",
        "role",
        "proposal",
        "ballot",
        "gate",
        "question",
        "approval",
        "permission_grant",
        "document_seen",
        "suggestion",
        "file_base",
        "file_state",
        "taken",
        "conflict",
        "answer",
        "verdict",
        "task",
        "spend_slot",
        "turn_entry",
        "turn_text",
    ] {
        let sql = format!("DELETE FROM {table} WHERE workflow = ?1");
        tx.prepare_cached(&sql)?.execute([workflow.get()])?;
    }
    tx.prepare_cached("DELETE FROM workflow WHERE id = ?1")?.execute([workflow.get()])?;
    tx.mark_changed(workflow);
    tx.mark_runs_changed();
    Ok(())
}

/// Returns the range of a run's messages: after the first seq, up to and including the second. Cleared messages are
/// left out.
pub(crate) fn run_seq_range(
    db: &Connection,
    workflow: WorkflowId,
    run: RunId,
) -> Result<(i64, i64)> {
    let sql = "SELECT max(r.after_seq, w.cleared), coalesce(r.last_seq, w.last_seq) FROM run r
        JOIN workflow w ON w.id = r.workflow WHERE r.uuid = ?1 AND r.workflow = ?2";
    db.prepare_cached(sql)?
        .query_row(params![run.get().as_bytes(), workflow.get()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?
        .ok_or(Error::NotFound("run"))
}
