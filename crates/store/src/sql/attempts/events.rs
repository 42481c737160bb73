//! The events that a worker reports for its attempt: each number once, without a gap.

use agent_worker_protocol::{
    AttemptId, AttemptRunningData, DeliveryData, EventBody, Finished, Millis, NoteData,
    NumberedEvent, RetryData, Seq, ToolCallData, ToolResultData, Usage, WorkerEvent, WorkerOutcome,
};
use serde_json::Value;

use crate::{
    db::params,
    error::{Error, Result},
    model::AttemptRow,
    sql::{
        attempts,
        columns::{self, ADD_USAGE},
        events::EventEntry,
        inbox,
        locked_instance::LockedInstance,
        spend,
        transaction::Tx,
        turn_history::{self, PreparedEvent},
    },
    time::{Now, StoreTime},
};

pub(crate) fn store_events(
    tx: &Tx<'_>,
    id: AttemptId,
    events: &[PreparedEvent],
    now: Now,
) -> Result<i64> {
    let attempt = attempts::get(tx, id)?;
    let mut locked = LockedInstance::lock(tx, attempt.fence.workflow)?;
    if attempt.ended.is_some() {
        return Err(Error::Fenced);
    }
    let mut last = attempt.last_no;
    for prepared in events.iter().filter(|prepared| prepared.event.no > attempt.last_no) {
        let numbered = &prepared.event;
        if numbered.no != last + 1 {
            let gap = format!("event {} of attempt {id} does not follow event {last}", numbered.no);
            return Err(Error::InvalidValue(gap));
        }
        let before = locked.last_event();
        record_event(&mut locked, &attempt, numbered, now)?;
        let position = Some(locked.last_event()).filter(|position| *position > before);
        let position = position.filter(|_| numbered.event.is_in_history());
        turn_history::record(&locked, &attempt, prepared, position, now)?;
        last = numbered.no;
    }
    if last > attempt.last_no {
        tx.prepare_cached("UPDATE attempt SET last_no = ?2 WHERE id = ?1")?
            .execute(params![id.get().as_bytes(), last])?;
        locked.save()?;
    }
    Ok(last)
}

/// Records one event. Its time is the worker's, because it may arrive long after it happened, but never in the
/// future.
fn record_event(
    locked: &mut LockedInstance<'_>,
    attempt: &AttemptRow,
    numbered: &NumberedEvent,
    now: Now,
) -> Result<()> {
    let body = match numbered.event.clone() {
        WorkerEvent::Started { pid, sandbox } => {
            EventBody::AttemptRunning(AttemptRunningData { pid, sandbox })
        }
        // The history has them.
        WorkerEvent::Prompt { .. } | WorkerEvent::Words(_) => return Ok(()),
        WorkerEvent::ToolCall { id, tool, args, .. } => {
            EventBody::ToolCall(ToolCallData { id, tool, args })
        }
        WorkerEvent::ToolResult { id, tool, ok, summary, .. } => {
            EventBody::ToolResult(ToolResultData { id, tool, ok, summary })
        }
        WorkerEvent::Usage(usage) => {
            add_usage(locked, attempt, &usage)?;
            spend::settle_usage(locked, attempt, &usage, now)?;
            EventBody::Usage(usage)
        }
        WorkerEvent::Joined { seq } => {
            // A person may have dropped the message meanwhile.
            if !inbox::join(locked, attempt, seq)? {
                return Ok(());
            }
            EventBody::DeliveryJoined(DeliveryData { seq })
        }
        WorkerEvent::Retry { why } => EventBody::Retry(RetryData { why }),
        WorkerEvent::Note { text } => EventBody::Note(NoteData { text }),
        WorkerEvent::Session { session } => return save_session(locked, attempt, &session),
        // The log has an entry for this when the attempt is ended.
        WorkerEvent::Finished(finished) => {
            let retry = retry_at(&finished, numbered.ts, now);
            if let (Some(session), WorkerOutcome::Ok) = (&finished.session, &finished.outcome) {
                save_session(locked, attempt, session)?;
            }
            return record_finished(locked.tx, attempt.id, &finished, retry);
        }
    };
    let entry = EventEntry::new(body).agent(&attempt.fence.agent).attempt(attempt.id);
    locked.append_event(&entry, Now { wall: numbered.ts.min(now.wall), ..now })
}

fn record_finished(
    tx: &Tx<'_>,
    attempt: AttemptId,
    finished: &Finished,
    retry: Option<StoreTime>,
) -> Result<()> {
    attempts::update_attempt(tx, attempt, || {
        tx.prepare_cached("UPDATE attempt SET finished = ?2, store_retry = ?3 WHERE id = ?1")?
            .execute(params![
                attempt.get().as_bytes(),
                serde_json::to_string(finished)?,
                retry.map(StoreTime::get)
            ])?;
        Ok(())
    })
}

/// Converts the instant that a provider named, by the wall clock of the worker, which recorded it at `written`. The
/// daemon may receive it later, and the wall clock may have been set in between: the earlier of the two readings
/// counts.
fn retry_at(finished: &Finished, written: Millis, now: Now) -> Option<StoreTime> {
    let WorkerOutcome::Failed { retry_at: Some(at), .. } = finished.outcome else { return None };
    Some(now.store_at(at).min(now.store.plus(at.since(written))))
}

/// Saves the conversation for the detail of this turn, and for the agent's next one unless its messages were cleared.
fn save_session(locked: &LockedInstance<'_>, attempt: &AttemptRow, session: &Value) -> Result<()> {
    locked
        .tx
        .prepare_cached("UPDATE attempt SET session = ?2 WHERE id = ?1")?
        .execute(params![attempt.id.get().as_bytes(), session.to_string()])?;
    let (workflow, agent) = (attempt.fence.workflow.get(), attempt.fence.agent.as_str());
    // An attempt that was shown no message has nothing that a clear could hide.
    let newest = attempt.shown.iter().map(|(seq, _)| *seq).max();
    locked
        .tx
        .prepare_cached(
            "UPDATE agent SET session = ?3 WHERE workflow = ?1 AND name = ?2
             AND (SELECT cleared FROM workflow WHERE id = ?1) < ?4",
        )?
        .execute(params![
            workflow,
            agent,
            session.to_string(),
            newest.map_or(i64::MAX, Seq::get)
        ])?;
    Ok(())
}

/// Adds usage to the attempt, its agent and its run.
fn add_usage(locked: &LockedInstance<'_>, attempt: &AttemptRow, usage: &Usage) -> Result<()> {
    let (input, output, cost, how) = columns::usage_columns(usage);
    let (workflow, agent) = (attempt.fence.workflow.get(), attempt.fence.agent.as_str());
    locked
        .tx
        .prepare_cached(&format!("UPDATE attempt SET {ADD_USAGE} WHERE id = ?5"))?
        .execute(params![input, output, cost, how, attempt.id.get().as_bytes()])?;
    locked
        .tx
        .prepare_cached(&format!("UPDATE agent SET {ADD_USAGE} WHERE workflow = ?5 AND name = ?6"))?
        .execute(params![input, output, cost, how, workflow, agent])?;
    locked
        .tx
        .prepare_cached(&format!("UPDATE run SET {ADD_USAGE} WHERE uuid = ?5"))?
        .execute(params![input, output, cost, how, attempt.run.get().as_bytes()])?;
    Ok(())
}
