//! Tasks of a run: their starts and ends.
//!
//! A task and the message that it sends are one transaction, so after a crash the message exists exactly if its task
//! has started. A final state never changes.

use agent_worker_protocol::{
    EventBody, Hash, Keyword as _, Millis, ResourceId, RunId, RunState, Sender, Seq, TaskEndedData,
    TaskPath, TaskStartedData, TaskState,
};

use super::{
    author::Author,
    checksum::TASK,
    columns::{self, RunNo},
    deliveries,
    events::EventEntry,
    locked_instance::LockedInstance,
    transaction::Tx,
};
use crate::{
    damage,
    db::{self, Connection, OptionalExtension, Row, params},
    error::{Error, Result},
    model::{NewTask, OutputContent, TaskEnd, TaskKey, TaskOutput, TaskResend, TaskRow},
    time::Now,
};

const WHICH: &str = "k.workflow = ?1 AND k.run = ?2 AND k.path = ?3 AND k.item = ?4";

/// Starts a task of a live run that is running, or starts it again. A task that has ended, or has sent its message,
/// stays as it is.
pub(crate) fn start(tx: &Tx<'_>, run: RunId, new: &NewTask, now: Now) -> Result<TaskRow> {
    let (mut locked, number) = lock_running_run(tx, run)?;
    let Some(found) = find(&locked, number, &new.key)? else {
        let message = match &new.message {
            Some(message) => {
                Some(locked.append_message(&Author::Other(Sender::User), message, now)?)
            }
            None => None,
        };
        let row = TaskRow {
            attempts: 1,
            items: new.items.clone(),
            message,
            started: Some(now.wall),
            ..empty_row(&new.key, TaskState::Running, new.condition)
        };
        insert(&locked, number, &row)?;
        record_start(&mut locked, &row, now)?;
        locked.save()?;
        return Ok(row);
    };
    if found.state.is_final() || found.message.is_some() {
        return Ok(found);
    }
    update(&locked, number, &new.key, "attempts = attempts + 1", &[])?;
    let row = TaskRow { attempts: found.attempts + 1, ..found };
    record_start(&mut locked, &row, now)?;
    locked.save()?;
    Ok(row)
}

/// Sends a new message of a running task. The previous one is needed no more.
pub(crate) fn resend(tx: &Tx<'_>, run: RunId, resend: &TaskResend, now: Now) -> Result<TaskRow> {
    let TaskResend { key, previous, message, why } = resend;
    let (mut locked, number) = lock_running_run(tx, run)?;
    let found = find(&locked, number, key)?.ok_or(Error::NotFound("task"))?;
    if found.state.is_final() || found.message != Some(*previous) {
        return Ok(found);
    }
    deliveries::drop_unanswered(&mut locked, *previous, why, now)?;
    let seq = locked.append_message(&Author::Other(Sender::User), message, now)?;
    let set = "message = ?5, attempts = attempts + 1";
    update(&locked, number, key, set, &[&seq.get()])?;
    let row = TaskRow { message: Some(seq), attempts: found.attempts + 1, ..found };
    record_start(&mut locked, &row, now)?;
    locked.save()?;
    Ok(row)
}

/// Ends a task of the live run. A task without a row gets one: it has not started and never will. A task that has ended
/// stays as it is.
pub(crate) fn finish(tx: &Tx<'_>, run: RunId, end: &TaskEnd, now: Now) -> Result<TaskRow> {
    if !end.state.is_final() {
        return Err(Error::InvalidValue("a task ends in a final state".to_owned()));
    }
    let (mut locked, number) = lock_live_run(tx, run)?;
    let found = find(&locked, number, &end.key)?;
    let row = TaskRow {
        state: end.state,
        output: end.output.clone(),
        exit_code: end.exit_code,
        error: end.error.clone(),
        stderr: end.stderr.clone(),
        ended: Some(now.wall),
        ..match &found {
            Some(found) if found.state.is_final() => return Ok(found.clone()),
            Some(found) => found.clone(),
            None => empty_row(&end.key, end.state, end.condition),
        }
    };
    if found.is_none() {
        insert(&locked, number, &row)?;
    } else {
        let (format, output, resource) = output_columns(&row);
        let set = "state = ?5, format = ?6, output = ?7, resource = ?8, exit_code = ?9, error = ?10, stderr = ?11,
            ended = ?12";
        let values: [&dyn db::ToValue; 8] = [
            &row.state.word(),
            &format,
            &output,
            &resource,
            &row.exit_code,
            &row.error,
            &row.stderr,
            &now.wall.get(),
        ];
        update(&locked, number, &end.key, set, &values)?;
    }
    record_end(&mut locked, &row, now)?;
    locked.save()?;
    Ok(row)
}

/// Stores the outputs of the setup commands as tasks that are done. A setup that runs again replaces them; a run that
/// has left its setup keeps what it has.
pub(crate) fn record_setup(tx: &Tx<'_>, run: RunId, ends: &[TaskEnd], now: Now) -> Result<()> {
    let (locked, number) = lock_live_run(tx, run)?;
    if locked.live_run()?.state != RunState::Setup {
        return Ok(());
    }
    tx.prepare_cached("DELETE FROM task WHERE workflow = ?1 AND run = ?2")?
        .execute(params![locked.workflow.get(), number.0])?;
    for end in ends {
        let row = TaskRow {
            attempts: 1,
            output: end.output.clone(),
            exit_code: end.exit_code,
            ended: Some(now.wall),
            ..empty_row(&end.key, end.state, None)
        };
        insert(&locked, number, &row)?;
    }
    locked.save()
}

pub(crate) const RUNNING_SQL: &str =
    "SELECT path, item FROM task WHERE workflow = ?1 AND run = ?2 AND state = 'running'";

/// Stops the running tasks of the live run, which ends.
pub(crate) fn stop_running(
    locked: &mut LockedInstance<'_>,
    run: RunNo,
    why: &str,
    now: Now,
) -> Result<()> {
    let running = locked
        .tx
        .prepare_cached(RUNNING_SQL)?
        .query_map(params![locked.workflow.get(), run.0], |row| {
            Ok(TaskKey { path: TaskPath::new(row.get::<String>(0)?), item: row.get(1)? })
        })?
        .collect::<db::Result<Vec<_>>>()?;
    for key in running {
        let set = "state = ?5, error = ?6, ended = ?7";
        let state = TaskState::Stopped;
        update(locked, run, &key, set, &[&state.word(), &why, &now.wall.get()])?;
        // A damaged row stays damaged, and does not keep its run from ending.
        match find(locked, run, &key) {
            Ok(row) => row.iter().try_for_each(|row| record_end(locked, row, now))?,
            Err(Error::Damaged(damaged)) => damage::report_skipped(damaged),
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

fn record_start(locked: &mut LockedInstance<'_>, row: &TaskRow, now: Now) -> Result<()> {
    let body = EventBody::TaskStarted(TaskStartedData {
        task: row.key.path.clone(),
        item: item_number(&row.key),
        attempt: row.attempts,
        message: row.message,
    });
    locked.append_event(&EventEntry::new(body), now)
}

fn record_end(locked: &mut LockedInstance<'_>, row: &TaskRow, now: Now) -> Result<()> {
    let ms = row.started.map(|started| now.wall.get().saturating_sub(started.get()));
    let body = EventBody::TaskEnded(TaskEndedData {
        task: row.key.path.clone(),
        item: item_number(&row.key),
        state: row.state,
        exit_code: row.exit_code,
        error: row.error.clone(),
        ms: ms.map(|ms| u64::try_from(ms).unwrap_or_default()),
    });
    locked.append_event(&EventEntry::new(body), now)
}

fn item_number(key: &TaskKey) -> Option<u32> {
    Some(key.item).filter(|item| *item > 0)
}

/// Lists the tasks of a run that have started or will not start.
pub(crate) fn list(db: &Connection, run: RunId) -> Result<Vec<TaskRow>> {
    let sql = select_sql("r.uuid = ?1 ORDER BY k.path, k.item");
    let mut statement = db.prepare_cached(&sql)?;
    damage::collect_intact(statement.query_map([run.get().as_bytes()], read_task)?)
}

fn lock_live_run<'a>(tx: &'a Tx<'a>, run: RunId) -> Result<(LockedInstance<'a>, RunNo)> {
    let (locked, number) = LockedInstance::lock_run(tx, run)?;
    match locked.live_run_if_any() {
        Some(live) if live.number == number => Ok((locked, number)),
        Some(_) | None => Err(Error::NoRun),
    }
}

fn lock_running_run<'a>(tx: &'a Tx<'a>, run: RunId) -> Result<(LockedInstance<'a>, RunNo)> {
    let (locked, number) = lock_live_run(tx, run)?;
    let state = &locked.live_run()?.state;
    if *state != RunState::Running {
        return Err(Error::WrongRunState(state.clone()));
    }
    Ok((locked, number))
}

fn empty_row(key: &TaskKey, state: TaskState, condition: Option<bool>) -> TaskRow {
    TaskRow {
        key: key.clone(),
        state,
        attempts: 0,
        condition,
        items: None,
        message: None,
        output: None,
        exit_code: None,
        error: None,
        stderr: None,
        started: None,
        ended: None,
    }
}

fn output_columns(row: &TaskRow) -> (Option<&'static str>, Option<&str>, Option<Hash>) {
    match &row.output {
        None => (None, None, None),
        Some(TaskOutput { format, content: OutputContent::Inline(text) }) => {
            (Some(format.word()), Some(text), None)
        }
        Some(TaskOutput { format, content: OutputContent::Resource(id) }) => {
            (Some(format.word()), None, Some(id.get()))
        }
    }
}

fn insert(locked: &LockedInstance<'_>, run: RunNo, row: &TaskRow) -> Result<()> {
    let (format, output, resource) = output_columns(row);
    locked
        .tx
        .prepare_cached(
            "INSERT INTO task (workflow, run, path, item, state, attempts, condition, items, message, format, output,
             resource, exit_code, error, stderr, started, ended, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
             row_checksum('task', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17))",
        )?
        .execute(params![
            locked.workflow.get(),
            run.0,
            row.key.path.as_str(),
            row.key.item,
            row.state.word(),
            row.attempts,
            row.condition,
            row.items,
            row.message.map(Seq::get),
            format,
            output,
            resource,
            row.exit_code,
            row.error,
            row.stderr,
            row.started.map(Millis::get),
            row.ended.map(Millis::get)
        ])?;
    Ok(())
}

/// Sets columns of a row; the values of `set` begin with `?5`.
fn update(
    locked: &LockedInstance<'_>,
    run: RunNo,
    key: &TaskKey,
    set: &str,
    values: &[&dyn db::ToValue],
) -> Result<()> {
    let (workflow, path) = (locked.workflow.get(), key.path.as_str());
    let which: [&dyn db::ToValue; 4] = [&workflow, &run.0, &path, &key.item];
    TASK.update(locked.tx, WHICH, &which, || {
        let all: Vec<&dyn db::ToValue> = which.iter().chain(values).copied().collect();
        let sql = format!("UPDATE task AS k SET {set} WHERE {WHICH}");
        locked.tx.prepare_cached(&sql)?.execute(all.as_slice())?;
        Ok(())
    })
}

pub(crate) fn select_sql(condition: &str) -> String {
    format!(
        "SELECT k.path, k.item, k.state, k.attempts, k.condition, k.items, k.message, k.format, k.output, k.resource,
         k.exit_code, k.error, k.stderr, k.started, k.ended, {}
         FROM run r JOIN task k ON k.workflow = r.workflow AND k.run = r.id WHERE {condition}",
        TASK.check
    )
}

fn find(locked: &LockedInstance<'_>, run: RunNo, key: &TaskKey) -> Result<Option<TaskRow>> {
    let values = params![locked.workflow.get(), run.0, key.path.as_str(), key.item];
    Ok(locked.tx.prepare_cached(&select_sql(WHICH))?.query_row(values, read_task).optional()?)
}

fn read_task(row: &Row<'_>) -> db::Result<TaskRow> {
    TASK.verify(row, 15)?;
    let format = columns::optional(row, 7, columns::word)?;
    let inline: Option<String> = row.get(8)?;
    let resource = row.get::<Option<Hash>>(9)?.map(ResourceId::new);
    let content = match (inline, resource) {
        (Some(text), _) => Some(OutputContent::Inline(text)),
        (None, Some(id)) => Some(OutputContent::Resource(id)),
        (None, None) => None,
    };
    let output = format.zip(content).map(|(format, content)| TaskOutput { format, content });
    Ok(TaskRow {
        key: TaskKey { path: TaskPath::new(row.get::<String>(0)?), item: row.get(1)? },
        state: columns::word(row, 2)?,
        attempts: row.get(3)?,
        condition: row.get(4)?,
        items: row.get(5)?,
        message: columns::optional(row, 6, columns::seq)?,
        output,
        exit_code: columns::optional(row, 10, exit_code)?,
        error: row.get(11)?,
        stderr: row.get(12)?,
        started: columns::optional(row, 13, columns::millis)?,
        ended: columns::optional(row, 14, columns::millis)?,
    })
}

fn exit_code(row: &Row<'_>, column: usize) -> db::Result<i32> {
    i32::try_from(row.get::<i64>(column)?).map_err(db::Error::invalid_value)
}
