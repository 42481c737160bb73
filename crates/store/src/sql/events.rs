//! The event log: one entry per operation, naming rows; the rows it names are joined when it is read.
//!
//! An event is written as a [`StoredBody`], which names its message by number, and read as an `EventBody`, which holds the
//! message. A row whose kind or data another version wrote is read as `EventBody::Other`.

use agent_worker_protocol::{
    AgentName, AttemptId, Event, EventBody, EventKind, InstanceRef, MentionUnheardData, Millis,
    Position, RunId, Sender, Seq, WorkflowId, api::UnheardMention,
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

/// The body of an event as its row stores it.
#[derive(Clone, Debug)]
pub(crate) enum StoredBody {
    /// Names a message of the channel, which is joined when the event is read.
    Message(Seq),
    /// Holds the body itself.
    Inline(EventBody),
}

impl From<EventBody> for StoredBody {
    fn from(body: EventBody) -> Self {
        match body {
            EventBody::Message(message) => Self::Message(message.seq),
            body => Self::Inline(body),
        }
    }
}

impl StoredBody {
    fn kind_word(&self) -> &str {
        match self {
            Self::Message(_) => EventKind::Message.word(),
            Self::Inline(body) => body.kind_word(),
        }
    }

    /// The message that the event is about.
    fn seq(&self) -> Option<Seq> {
        match self {
            Self::Message(seq) => Some(*seq),
            Self::Inline(
                EventBody::DeliveryDead(delivery)
                | EventBody::DeliveryDropped(delivery)
                | EventBody::DeliveryPending(delivery),
            ) => Some(delivery.seq),
            Self::Inline(EventBody::MentionUnheard(mention)) => Some(mention.seq),
            Self::Inline(_) => None,
        }
    }

    /// The text of the data column.
    fn data_text(&self) -> Option<String> {
        match self {
            Self::Message(_) => None,
            Self::Inline(body) => Some(body.data()).filter(|data| !data.is_null()),
        }
        .map(|data| data.to_string())
    }
}

/// An event to be written.
pub(crate) struct EventEntry<'a> {
    body: StoredBody,
    run: Option<RunNo>,
    agent: Option<&'a AgentName>,
    attempt: Option<AttemptId>,
    cause: Option<String>,
    by: Option<String>,
    next: Option<Millis>,
}

impl<'a> EventEntry<'a> {
    /// True if the event is a message of the channel.
    pub(crate) fn is_message(&self) -> bool {
        matches!(self.body, StoredBody::Message(_))
    }

    pub(crate) fn new(body: impl Into<StoredBody>) -> Self {
        Self {
            body: body.into(),
            run: None,
            agent: None,
            attempt: None,
            cause: None,
            by: None,
            next: None,
        }
    }
    /// Sets a run other than the live one.
    pub(crate) fn run(self, run: RunNo) -> Self {
        Self { run: Some(run), ..self }
    }
    pub(crate) fn agent(self, agent: &'a AgentName) -> Self {
        Self { agent: Some(agent), ..self }
    }
    pub(crate) fn attempt(self, attempt: impl Into<Option<AttemptId>>) -> Self {
        Self { attempt: attempt.into(), ..self }
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

    pub(crate) fn insert(
        &self,
        tx: &Tx<'_>,
        workflow: WorkflowId,
        position: i64,
        live: Option<RunNo>,
        now: Now,
    ) -> Result<()> {
        tx.prepare_cached(
            "INSERT INTO event (workflow, position, run, kind, agent, attempt, seq, cause, whose, next, data, at, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
             row_checksum('event', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12))",
        )?
        .execute(params![
            workflow.get(),
            position,
            self.run.or(live).map(|run| run.0),
            self.body.kind_word(),
            self.agent.map(AgentName::as_str),
            self.attempt.map(|attempt| *attempt.get().as_bytes()),
            self.body.seq().map(Seq::get),
            self.cause,
            self.by,
            self.next.map(Millis::get),
            self.body.data_text(),
            now.wall.get()
        ])?;
        Ok(())
    }
}

pub(crate) fn append(
    tx: &Tx<'_>,
    run: RunId,
    body: EventBody,
    cause: Option<String>,
    now: Now,
) -> Result<()> {
    let (mut locked, number) = LockedInstance::lock_run(tx, run)?;
    if locked.live_run()?.number != number {
        return Err(Error::NoRun);
    }
    locked.append_event(&EventEntry::new(body).run(number).cause(cause), now)?;
    locked.save()
}

pub(crate) fn list(db: &Connection, query: &EventQuery) -> Result<Vec<Event>> {
    let instance = instances::instance_ref(db, query.workflow)?;
    let run = match query.run {
        // An id of no run, or of another instance's run, has no events here.
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

pub(super) fn find_run_number(
    db: &Connection,
    workflow: WorkflowId,
    run: RunId,
) -> Result<Option<RunNo>> {
    Ok(db
        .prepare_cached("SELECT id FROM run WHERE uuid = ?1 AND workflow = ?2")?
        .query_row(params![run.get().as_bytes(), workflow.get()], |row| row.get(0).map(RunNo))
        .optional()?)
}

fn read_event(row: &Row<'_>, instance: &InstanceRef) -> db::Result<Event> {
    EVENT.verify(row, 11)?;
    let kind: String = row.get(3)?;
    let data = columns::optional(row, 9, columns::json)?.unwrap_or(Value::Null);
    let (body, received) = EventBody::parse(&kind, data);
    Ok(Event {
        pos: Some(Position::new(row.get(0)?)),
        ts: columns::millis(row, 1)?,
        instance: instance.clone(),
        run: columns::optional(row, 2, checksum::run_id)?,
        agent: columns::optional(row, 4, columns::parse)?,
        attempt: columns::optional(row, 5, columns::attempt_id)?,
        cause: row.get(6)?,
        by: row.get(7)?,
        next: columns::optional(row, 8, columns::millis)?,
        body,
        received: received.map(Box::new),
    })
}

/// Replaces an event that is damaged, or whose run is: followers count positions and need an event at each. Its own
/// time is unknown: the replacement has the time of the event before it.
fn damaged_event(
    row: &DamagedRow,
    instance: &InstanceRef,
    (position, ts): (Position, Option<Millis>),
) -> Event {
    let ts = ts.unwrap_or(Millis::new(0));
    Event {
        pos: Some(position),
        cause: Some(row.to_string()),
        ..Event::new(ts, instance.clone(), EventBody::RowDamaged)
    }
}

/// The most mentions that [`unheard`] returns.
const MAX_UNHEARD: u32 = 100;

pub(crate) fn unheard_sql() -> String {
    format!(
        "SELECT e.agent, e.data, {}, e.position, e.cause FROM event e INDEXED BY event_unheard
         WHERE e.workflow = ?1 AND e.run = ?2 AND e.kind = 'mention.unheard' ORDER BY e.position DESC",
        EVENT.check
    )
}

/// Lists the newest unheard mentions of a run, oldest first. A row that cannot be read counts as damaged.
pub(crate) fn unheard(
    db: &Connection,
    workflow: WorkflowId,
    run: RunId,
) -> Result<Vec<UnheardMention>> {
    let Some(run) = find_run_number(db, workflow, run)? else { return Ok(Vec::new()) };
    let mut statement = db.prepare_cached(&unheard_sql())?;
    let rows = statement.query_map(params![workflow.get(), run.0], |row| {
        EVENT.verify(row, 2)?;
        let position: i64 = row.get(3)?;
        let unreadable = |_| EVENT.error(format!("{workflow} {position}").as_bytes());
        let MentionUnheardData { seq, agent } = columns::json(row, 1).map_err(unreadable)?;
        let from = columns::parse(row, 0).map_err(unreadable)?;
        Ok(UnheardMention { seq, from, agent, cause: row.get(4)? })
    })?;
    let mut mentions = damage::take_intact(rows, MAX_UNHEARD)?;
    mentions.reverse();
    Ok(mentions)
}

/// Adds the message itself to each event of kind `message`.
fn join_messages(
    db: &Connection,
    workflow: WorkflowId,
    events: &mut [(Event, Option<i64>)],
) -> Result<()> {
    let is_message = |event: &Event| event.kind() == Some(EventKind::Message);
    let seqs: Vec<_> =
        events.iter().filter(|(event, _)| is_message(event)).filter_map(|(_, seq)| *seq).collect();
    if seqs.is_empty() {
        return Ok(());
    }
    // Events and messages are both in the order in which they were written.
    let mut messages = messages::by_seq(db, workflow, &seqs)?.into_iter().peekable();
    for (event, seq) in events.iter_mut().filter(|(event, _)| is_message(event)) {
        match messages.next_if(|message| Some(message.seq.get()) == *seq) {
            Some(message) => {
                event.body = EventBody::Message(Box::new(message));
                event.received = None;
            }
            // Followers count positions, so the event stays and names the problem.
            None => event.cause = Some("its message is missing or damaged".to_owned()),
        }
    }
    Ok(())
}
