//! The event log: one entry per operation, naming rows; what it points at is joined when it is read.

use agent_worker_protocol::{
    AgentName, AttemptId, Event, EventKind, InstanceRef, Millis, Position, RunId, Sender, Seq,
    WorkflowId,
};
use serde_json::Value;

use super::{
    checksum::{self, EVENT, RUN_ID},
    columns::{self, RunNo},
    instances,
    locked_instance::LockedInstance,
    messages,
    transaction::Tx,
};
use crate::{
    damage::{self, DamagedRow},
    db::{self, Connection, OptionalExtension, Row, params},
    error::{Error, Result},
    model::EventQuery,
    time::Now,
};

/// An event to be written.
pub(crate) struct EventEntry<'a> {
    kind: EventKind,
    run: Option<RunNo>,
    agent: Option<&'a AgentName>,
    attempt: Option<AttemptId>,
    seq: Option<Seq>,
    cause: Option<String>,
    by: Option<String>,
    next: Option<Millis>,
    data: Value,
}

impl<'a> EventEntry<'a> {
    pub(crate) fn kind(&self) -> EventKind {
        self.kind
    }

    pub(crate) fn new(kind: EventKind) -> Self {
        Self {
            kind,
            run: None,
            agent: None,
            attempt: None,
            seq: None,
            cause: None,
            by: None,
            next: None,
            data: Value::Null,
        }
    }
    /// Another run than the live one.
    pub(crate) fn run(self, run: RunNo) -> Self {
        Self { run: Some(run), ..self }
    }
    pub(crate) fn agent(self, agent: &'a AgentName) -> Self {
        Self { agent: Some(agent), ..self }
    }
    pub(crate) fn attempt(self, attempt: impl Into<Option<AttemptId>>) -> Self {
        Self { attempt: attempt.into(), ..self }
    }
    /// The message it is about.
    pub(crate) fn seq(self, seq: Seq) -> Self {
        Self { seq: Some(seq), ..self }
    }
    pub(crate) fn cause(self, cause: impl Into<Option<String>>) -> Self {
        Self { cause: cause.into(), ..self }
    }
    pub(crate) fn by(self, by: &Sender) -> Self {
        Self { by: Some(by.to_string()), ..self }
    }
    pub(crate) fn next(self, next: impl Into<Option<Millis>>) -> Self {
        Self { next: next.into(), ..self }
    }
    pub(crate) fn data(self, data: Value) -> Self {
        Self { data, ..self }
    }

    pub(crate) fn insert(
        &self,
        tx: &Tx<'_>,
        workflow: WorkflowId,
        position: i64,
        live: Option<RunNo>,
        now: Now,
    ) -> Result<()> {
        let data = if self.data.is_null() { None } else { Some(self.data.to_string()) };
        tx.prepare_cached(
            "INSERT INTO event (workflow, position, run, kind, agent, attempt, seq, cause, whose, next, data, at, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
             row_checksum('event', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12))",
        )?
        .execute(params![
            workflow.get(),
            position,
            self.run.or(live).map(|run| run.0),
            self.kind.word(),
            self.agent.map(AgentName::as_str),
            self.attempt.map(|attempt| *attempt.get().as_bytes()),
            self.seq.map(Seq::get),
            self.cause,
            self.by,
            self.next.map(Millis::get),
            data,
            now.wall.get()
        ])?;
        Ok(())
    }
}

pub(crate) fn append(
    tx: &Tx<'_>,
    run: RunId,
    kind: EventKind,
    cause: Option<String>,
    data: Value,
    now: Now,
) -> Result<()> {
    let (mut locked, number) = LockedInstance::lock_run(tx, run)?;
    if locked.live_run()?.number != number {
        return Err(Error::NoRun);
    }
    locked.append_event(&EventEntry::new(kind).run(number).cause(cause).data(data), now)?;
    locked.save()
}

pub(crate) fn list(db: &Connection, query: &EventQuery) -> Result<Vec<Event>> {
    let instance = instances::instance_ref(db, query.workflow)?;
    let run = match query.run {
        // An id of no run, or of another instance's, has no events here.
        Some(run) => match find_run_number(db, query.workflow, run)? {
            Some(number) => Some(number),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let mut found = Vec::new();
    let mut statement = db.prepare_cached(&list_sql(run))?;
    let values = params![query.workflow.get(), query.after.get(), run.map(|run| run.0)];
    let mut rows = statement.query(values)?;
    while found.len() < query.limit as usize
        && let Some(row) = rows.next()?
    {
        match read_event(&row, &instance).map_err(Error::from) {
            Ok(event) => found.push((event, row.get::<Option<i64>>(10)?)),
            Err(Error::Damaged(damaged)) => {
                let at = (
                    Position::new(row.get(0)?),
                    found.last().map(|(event, _): &(Event, _)| event.ts),
                );
                found.push((damaged_event(&damaged, &instance, at), None));
                damage::report_skipped(damaged);
            }
            Err(error) => return Err(error),
        }
    }
    join_messages(db, query.workflow, &mut found)?;
    Ok(found.into_iter().map(|(event, _)| event).collect())
}

pub(crate) fn list_sql(run: Option<RunNo>) -> String {
    let (index, which) = match run {
        Some(_) => ("INDEXED BY event_run", "e.run = ?3"),
        None => ("NOT INDEXED", "CAST(?3 AS BIGINT) IS NULL"),
    };
    format!(
        "SELECT e.position, e.at, CASE WHEN e.run IS NOT NULL THEN {RUN_ID} END, e.kind, e.agent, e.attempt, e.cause, e.whose, e.next, e.data, e.seq, {}
         FROM event e {index} LEFT JOIN run r ON r.workflow = e.workflow AND r.id = e.run
         WHERE e.workflow = ?1 AND e.position > ?2 AND {which} ORDER BY e.position",
        EVENT.check
    )
}

pub(crate) fn last_position(db: &Connection, workflow: WorkflowId) -> Result<Position> {
    db.prepare_cached("SELECT last_event FROM workflow WHERE id = ?1")?
        .query_row([workflow.get()], |row| row.get(0).map(Position::new))
        .optional()?
        .ok_or(Error::NotFound("instance"))
}

fn find_run_number(db: &Connection, workflow: WorkflowId, run: RunId) -> Result<Option<RunNo>> {
    Ok(db
        .prepare_cached("SELECT id FROM run WHERE uuid = ?1 AND workflow = ?2")?
        .query_row(params![run.get().as_bytes(), workflow.get()], |row| row.get(0).map(RunNo))
        .optional()?)
}

fn read_event(row: &Row<'_>, instance: &InstanceRef) -> db::Result<Event> {
    EVENT.verify(row, 11)?;
    Ok(Event {
        pos: Some(Position::new(row.get(0)?)),
        ts: columns::millis(row, 1)?,
        instance: instance.clone(),
        run: columns::optional(row, 2, checksum::run_id)?,
        kind: columns::word(row, 3, EventKind::from_word)?,
        agent: columns::optional(row, 4, columns::parse)?,
        attempt: columns::optional(row, 5, columns::attempt_id)?,
        cause: row.get(6)?,
        by: row.get(7)?,
        next: columns::optional(row, 8, columns::millis)?,
        data: columns::optional(row, 9, columns::json)?.unwrap_or(Value::Null),
    })
}

/// Stands in for an event that is damaged, or whose run is: followers go by positions and must learn of it. Its time is
/// not known: it is given that of the event before it.
fn damaged_event(
    row: &DamagedRow,
    instance: &InstanceRef,
    (position, ts): (Position, Option<Millis>),
) -> Event {
    Event {
        pos: Some(position),
        ts: ts.unwrap_or(Millis::new(0)),
        instance: instance.clone(),
        run: None,
        kind: EventKind::RowDamaged,
        agent: None,
        attempt: None,
        cause: Some(row.to_string()),
        by: None,
        next: None,
        data: Value::Null,
    }
}

/// Gives each event of kind `message` the message itself.
fn join_messages(
    db: &Connection,
    workflow: WorkflowId,
    events: &mut [(Event, Option<i64>)],
) -> Result<()> {
    let told = |event: &Event| event.kind == EventKind::Message;
    let seqs: Vec<_> =
        events.iter().filter(|(event, _)| told(event)).filter_map(|(_, seq)| *seq).collect();
    if seqs.is_empty() {
        return Ok(());
    }
    // Both are in the order in which they were written.
    let mut messages = messages::by_seq(db, workflow, &seqs)?.into_iter().peekable();
    for (event, seq) in events.iter_mut().filter(|(event, _)| told(event)) {
        match messages.next_if(|message| Some(message.seq.get()) == *seq) {
            Some(message) => event.data = serde_json::to_value(message)?,
            // Followers go by positions, so that the event stays and says what it lacks.
            None => event.cause = Some("its message is missing or damaged".to_owned()),
        }
    }
    Ok(())
}
