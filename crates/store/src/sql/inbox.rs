//! Inboxes: an agent's pending deliveries, those that an attempt was shown, and those that join its turn.

use agent_worker_protocol::{AgentName, AttemptId, Priority, Seq, WorkflowId};

use super::{
    attempts,
    author::FencedAttempt,
    checksum::RunIdCache,
    columns,
    delivery_states::{LAST_OPEN, PENDING, delivery_sql},
    locked_instance::LockedInstance,
    messages::{self, MESSAGE_COLUMN_COUNT},
    transaction::Tx,
};
use crate::{
    damage,
    db::{self, Connection, params},
    error::Result,
    model::{AttemptRow, Fence, InboxKey, ListRange, ShownMessage},
};

/// Maximum number of messages that are passed on to a running turn at once.
const MAX_NOW_MESSAGES: u32 = 20;

pub(crate) fn pending(
    db: &Connection,
    workflow: WorkflowId,
    agent: &AgentName,
    range: ListRange<InboxKey>,
) -> Result<Vec<ShownMessage>> {
    let mut mail = pending_messages(db, workflow, agent, PendingFilter::All, range)?;
    messages::fill_relations(db, workflow, mail.iter_mut().map(|shown| &mut shown.message))?;
    Ok(mail)
}

/// Reads the pending mail of an agent that also reaches its running turn.
pub(crate) fn pending_now(
    db: &Connection,
    workflow: WorkflowId,
    agent: &AgentName,
) -> Result<Vec<ShownMessage>> {
    pending_messages(db, workflow, agent, PendingFilter::Now, ListRange::first(MAX_NOW_MESSAGES))
}

/// Reads the oldest pending mail after `after` that does not reach the running turn, without its recipients.
pub(crate) fn pending_after(
    db: &Connection,
    workflow: WorkflowId,
    agent: &AgentName,
    after: Seq,
) -> Result<Vec<ShownMessage>> {
    let range = ListRange::first(MAX_NOW_MESSAGES);
    let mut mail = pending_messages(db, workflow, agent, PendingFilter::After(after), range)?;
    mail.sort_by_key(|shown| shown.message.seq);
    Ok(mail)
}

/// Selects some of an agent's pending deliveries.
#[derive(Clone, Copy)]
pub(crate) enum PendingFilter {
    All,
    One(Seq),
    /// Deliveries that need not be tried alone.
    NotAlone,
    /// Deliveries that also reach a running turn.
    Now,
    /// Other deliveries after this message.
    After(Seq),
}

/// Reads pending mail in the order of an inbox: waking first, urgent first, then by age. The recipients of the
/// messages are not filled in.
pub(crate) fn pending_messages(
    db: &Connection,
    workflow: WorkflowId,
    agent: &AgentName,
    which: PendingFilter,
    range: ListRange<InboxKey>,
) -> Result<Vec<ShownMessage>> {
    let seq = match which {
        PendingFilter::All | PendingFilter::NotAlone | PendingFilter::Now => None,
        PendingFilter::One(seq) | PendingFilter::After(seq) => Some(seq.get()),
    };
    let runs = RunIdCache::of(db);
    let mut statement = db.prepare_cached(&pending_sql(which))?;
    let after = range.after;
    let values = params![
        workflow.get(),
        agent.as_str(),
        seq,
        after.map(|key| key.wakes),
        after.map(|key| key.priority == Priority::High),
        after.map(|key| key.seq.get()),
    ];
    let mail = statement.query_map(values, |row| {
        Ok(ShownMessage {
            message: messages::read_message(row, &runs)?,
            wakes: row.get(MESSAGE_COLUMN_COUNT)?,
        })
    })?;
    match which {
        PendingFilter::All
        | PendingFilter::NotAlone
        | PendingFilter::Now
        | PendingFilter::After(_) => damage::take_intact(mail, range.limit),
        PendingFilter::One(_) => Ok(mail.collect::<db::Result<_>>()?),
    }
}

pub(crate) fn pending_sql(which: PendingFilter) -> String {
    let (index, condition) = match which {
        PendingFilter::All => ("INDEXED BY delivery_open", "CAST(?3 AS BIGINT) IS NULL"),
        PendingFilter::One(_) => ("NOT INDEXED", "d.seq = ?3"),
        PendingFilter::NotAlone => {
            ("INDEXED BY delivery_open", "d.alone = 0 AND CAST(?3 AS BIGINT) IS NULL")
        }
        PendingFilter::After(_) => ("INDEXED BY delivery_open", "d.now = 0 AND d.seq > ?3"),
        PendingFilter::Now => {
            ("INDEXED BY delivery_open", "d.now = 1 AND CAST(?3 AS BIGINT) IS NULL")
        }
    };
    format!(
        "SELECT {}, d.wakes FROM delivery d {index}
         JOIN message m ON m.workflow = d.workflow AND m.seq = d.seq
         WHERE d.workflow = ?1 AND d.state = {PENDING} AND d.state <= {LAST_OPEN} AND d.agent = ?2 AND {condition}
         AND (CAST(?6 AS BIGINT) IS NULL OR (-d.wakes, -d.prio, d.seq) > (-?4, -?5, ?6))
         ORDER BY d.wakes DESC, d.prio DESC, d.seq",
        messages::message_columns()
    )
}

/// Reads an attempt's inbox and records the shown messages: on the deliveries, so that the attempt may ack them, and
/// on the attempt, whose journal is given to every later attempt that is shown the same messages.
pub(crate) fn show(
    tx: &Tx<'_>,
    fence: &Fence,
    range: ListRange<InboxKey>,
) -> Result<Vec<ShownMessage>> {
    let locked = LockedInstance::lock(tx, fence.workflow)?;
    let live = FencedAttempt::check_fence(tx, fence)?;
    let mail = pending(tx, fence.workflow, &live.agent, range)?;
    let mut mark = tx.prepare_cached(
        "UPDATE delivery SET shown = ?4, first_epoch = coalesce(first_epoch, ?4)
         WHERE workflow = ?1 AND seq = ?2 AND agent = ?3",
    )?;
    for shown in &mail {
        mark.execute(params![
            fence.workflow.get(),
            shown.message.seq.get(),
            live.agent.as_str(),
            fence.epoch.get()
        ])?;
    }
    let shown = mail.iter().map(|shown| (shown.message.seq, shown.message.hops));
    record_shown(tx, live.id, shown.collect())?;
    locked.save()?;
    Ok(mail)
}

/// Adds messages with their hops to the list of those that an attempt was shown.
fn record_shown(tx: &Tx<'_>, attempt: AttemptId, messages: Vec<(Seq, u32)>) -> Result<()> {
    let mut list = attempts::get(tx, attempt)?.shown;
    for entry in messages {
        if !list.contains(&entry) {
            list.push(entry);
        }
    }
    attempts::update_attempt(tx, attempt, || {
        tx.prepare_cached("UPDATE attempt SET shown = ?2 WHERE id = ?1")?
            .execute(params![attempt.get().as_bytes(), serde_json::to_string(&list)?])?;
        Ok(())
    })
}

/// Leases one pending delivery to the live attempt of its agent.
pub(crate) const JOIN_SQL: &str = delivery_sql!("UPDATE delivery SET state = " LEASED ", epoch = ?4, joined = 1, shown = ?4,
        first_epoch = coalesce(first_epoch, ?4) WHERE workflow = ?1 AND seq = ?2 AND agent = ?3 AND state = " PENDING);

/// Adds a message to the turn of a live attempt whose program has given it to the model: acted if the attempt succeeds,
/// pending again if not. Returns false if the message was not pending.
pub(crate) fn join(locked: &LockedInstance<'_>, attempt: &AttemptRow, seq: Seq) -> Result<bool> {
    let Fence { workflow, agent, epoch } = &attempt.fence;
    let values = params![workflow.get(), seq.get(), agent.as_str(), epoch.get()];
    if locked.tx.prepare_cached(JOIN_SQL)?.execute_counted(values)? == 0 {
        return Ok(false);
    }
    let message = messages::by_seq(locked.tx, *workflow, &[seq.get()])?;
    let shown = message.into_iter().map(|message| (message.seq, message.hops)).collect();
    record_shown(locked.tx, attempt.id, shown)?;
    Ok(true)
}

pub(crate) const ACK_SQL: &str = delivery_sql!("UPDATE delivery INDEXED BY delivery_open SET state = " LEASED ", epoch = ?3, joined = 1
        WHERE workflow = ?1 AND state = " PENDING " AND state <= " LAST_OPEN " AND agent = ?2 AND shown = ?3 AND seq <= ?4
        RETURNING seq");

/// Leases shown mail to the attempt that was shown it: acted if the attempt succeeds, pending again if not.
pub(crate) fn ack(tx: &Tx<'_>, fence: &Fence, until: Seq) -> Result<Vec<Seq>> {
    let locked = LockedInstance::lock(tx, fence.workflow)?;
    let live = FencedAttempt::check_fence(tx, fence)?;
    let mut joined = tx
        .prepare_cached(ACK_SQL)?
        .query_map(
            params![fence.workflow.get(), live.agent.as_str(), fence.epoch.get(), until.get()],
            |row| columns::seq(row, 0),
        )?
        .collect::<db::Result<Vec<_>>>()?;
    joined.sort();
    locked.save()?;
    Ok(joined)
}
