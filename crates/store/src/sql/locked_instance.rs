//! The instance's row: locked first, saved last. It holds the order of messages and events and the live run.

use agent_worker_protocol::{
    AgentName, Attachment, EventBody, PauseCause, RunId, RunPausedData, RunState, Sender, Seq,
    WorkflowId,
};

use super::{
    author::Author,
    columns::{self, RunNo},
    delivery_states::delivery_sql,
    events::{EventEntry, StoredBody},
    hashed_message::{HashedMessage, MessageKey},
    transaction::Tx,
};
use crate::{
    db::{OptionalExtension, params},
    error::{Error, Result},
    model::{NewMessage, Recipient, Wake},
    time::Now,
};

/// Lets the open deliveries of an agent share a turn, except those that failed before.
pub(crate) const JOIN_OTHERS_SQL: &str = delivery_sql!("UPDATE delivery INDEXED BY delivery_open SET alone = 0
    WHERE workflow = ?1 AND state IN " UNFINISHED " AND state <= " LAST_OPEN " AND agent = ?2 AND alone = 1 AND failures = 0");

/// One instance during a write that has locked it.
pub(crate) struct LockedInstance<'a> {
    pub(crate) tx: &'a Tx<'a>,
    pub(crate) workflow: WorkflowId,
    live: Option<LiveRun>,
    last_run: Option<i64>,
    last_seq: i64,
    last_event: i64,
    /// True if more changed than messages.
    runs_changed: bool,
}

/// The live run of the instance.
#[derive(Clone)]
pub(crate) struct LiveRun {
    pub(crate) number: RunNo,
    pub(crate) id: RunId,
    pub(crate) state: RunState,
}

impl<'a> LockedInstance<'a> {
    /// Locks the row, then reads it in a statement of its own. A statement that locks and reads at once may return
    /// rows of other tables as they were before the lock was granted.
    pub(crate) fn lock(tx: &'a Tx<'a>, workflow: WorkflowId) -> Result<Self> {
        tx.lock_instance(workflow);
        let sql = "SELECT w.last_run, w.last_seq, w.last_event, w.live_run, r.uuid, r.state, r.detail
            FROM workflow w LEFT JOIN run r ON r.workflow = w.id AND r.id = w.live_run WHERE w.id = ?1";
        tx.prepare_cached(sql)?
            .query_row([workflow.get()], |row| {
                let live = match row.get(3)? {
                    Some(number) => Some(LiveRun {
                        number: RunNo(number),
                        id: columns::run_id(row, 4)?,
                        state: columns::run_state(row, 5)?,
                    }),
                    None => None,
                };
                let (last_run, last_seq, last_event) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(Self { tx, workflow, live, last_run, last_seq, last_event, runs_changed: false })
            })
            .optional()?
            .ok_or(Error::NotFound("instance"))
    }

    /// Locks the row of a run's instance; returns also the run's number.
    pub(crate) fn lock_run(tx: &'a Tx<'a>, run: RunId) -> Result<(Self, RunNo)> {
        let (workflow, number) = tx
            .prepare_cached("SELECT workflow, id FROM run WHERE uuid = ?1")?
            .query_row([run.get().as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?
            .ok_or(Error::NotFound("run"))?;
        Ok((Self::lock(tx, WorkflowId::new(workflow))?, RunNo(number)))
    }

    /// Returns the live run, or an error.
    pub(crate) fn live_run(&self) -> Result<&LiveRun> {
        self.live.as_ref().ok_or(Error::NoRun)
    }

    /// Returns the live run, if there is one.
    pub(crate) fn live_run_if_any(&self) -> Option<&LiveRun> {
        self.live.as_ref()
    }

    /// Makes a new run, inserted by `insert`, the live one.
    pub(crate) fn start_run(
        &mut self,
        id: RunId,
        insert: impl FnOnce(RunNo, Seq) -> Result<()>,
    ) -> Result<RunNo> {
        let number = RunNo(self.last_run.unwrap_or(0) + 1);
        insert(number, Seq::new(self.last_seq))?;
        self.last_run = Some(number.0);
        self.live = Some(LiveRun { number, id, state: RunState::Setup });
        self.runs_changed = true;
        Ok(number)
    }

    /// Sets the state of the live run; after an end the instance has no live run. A pause stops the time that counts
    /// for the wall limit; at a limit that refuses work the next settlement decides, because live attempts may work.
    pub(crate) fn set_run_state(&mut self, state: RunState, now: Now) -> Result<()> {
        let number = self.live_run()?.number;
        let (word, detail) = columns::state_columns(&state)?;
        let over = !state.is_live();
        if state.can_work() {
            self.start_clock(now)?;
        } else if !state.refuses_work() {
            self.stop_clock(now)?;
        }
        self.tx
            .prepare_cached(
                "UPDATE run SET state = ?3, detail = ?4, ended = ?5, last_seq = ?6, since = ?7, store_ended = ?8,
                 store_since = ?9 WHERE workflow = ?1 AND id = ?2",
            )?
            .execute(params![
                self.workflow.get(),
                number.0,
                word,
                detail,
                over.then_some(now.wall.get()),
                over.then_some(self.last_seq),
                now.wall.get(),
                over.then_some(now.store.get()),
                now.store.get()
            ])?;
        self.live = self.live.take().filter(|_| !over).map(|live| LiveRun { state, ..live });
        self.runs_changed = true;
        Ok(())
    }

    /// Starts the time that counts for the wall limit of the live run, unless it counts already.
    pub(crate) fn start_clock(&self, now: Now) -> Result<()> {
        let sql = "UPDATE run SET counting_since = ?3
            WHERE workflow = ?1 AND id = ?2 AND counting_since IS NULL";
        self.update_clock(sql, now)
    }

    /// Stops the time that counts for the wall limit of the live run, and keeps the time so far.
    pub(crate) fn stop_clock(&self, now: Now) -> Result<()> {
        let sql = "UPDATE run SET counted_ms = counted_ms + max(0, ?3 - counting_since), counting_since = NULL
            WHERE workflow = ?1 AND id = ?2 AND counting_since IS NOT NULL";
        self.update_clock(sql, now)
    }

    fn update_clock(&self, sql: &str, now: Now) -> Result<()> {
        let number = self.live_run()?.number;
        let values = [self.workflow.get(), number.0, now.store.get()];
        self.tx.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    /// Pauses the live run and appends the event.
    pub(crate) fn pause_run(&mut self, cause: PauseCause, by: &Sender, now: Now) -> Result<()> {
        let body = EventBody::RunPaused(RunPausedData { cause: cause.clone() });
        let entry = EventEntry::new(body).by(by).cause(cause.to_string());
        self.set_run_state(RunState::Paused { cause }, now)?;
        self.append_event(&entry, now)
    }

    /// Pauses the live run for this cause, if there is one and its agents are woken.
    pub(crate) fn pause_run_if(
        &mut self,
        cause: Option<&PauseCause>,
        by: &Sender,
        now: Now,
    ) -> Result<()> {
        match cause {
            Some(cause) if self.live_run()?.state.wakes_agents() => {
                self.pause_run(cause.clone(), by, now)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Adds a message to the live run, with its deliveries and its event.
    pub(crate) fn append_message(
        &mut self,
        author: &Author,
        new: &NewMessage,
        now: Now,
    ) -> Result<Seq> {
        self.append_message_with_files(author, new, &[], now)
    }

    /// Adds a message whose files are stored as resources.
    pub(crate) fn append_message_with_files(
        &mut self,
        author: &Author,
        new: &NewMessage,
        files: &[Attachment],
        now: Now,
    ) -> Result<Seq> {
        let run = self.live_run()?.number;
        self.last_seq += 1;
        let seq = Seq::new(self.last_seq);
        let sender = author.sender();
        let key = MessageKey { workflow: self.workflow, seq, run };
        HashedMessage::new(key, &sender, new, files, now.wall)?.insert(self.tx)?;
        for recipient in &new.recipients {
            self.insert_delivery(seq, run, recipient, columns::priority_number(new.priority))?;
        }
        if let Sender::Agent(name) = &sender {
            self.tx
                .prepare_cached(
                    "UPDATE agent SET messages = messages + 1 WHERE workflow = ?1 AND name = ?2",
                )?
                .execute(params![self.workflow.get(), name.as_str()])?;
        }
        let entry = EventEntry::new(StoredBody::Message(seq)).by(&sender).attempt(author.attempt());
        self.append_event(&entry, now)?;
        Ok(seq)
    }

    /// Adds one delivery, its agent spelt as the run spells it. An agent that is named twice gets one delivery, with
    /// the stronger wake mode.
    fn insert_delivery(&self, seq: Seq, run: RunNo, to: &Recipient, prio: i64) -> Result<()> {
        let (wakes, alone, now) =
            (to.wake != Wake::No, to.wake == Wake::Alone, to.wake == Wake::Now);
        let delivered = self
            .tx
            .prepare_cached(
                "INSERT INTO delivery (workflow, seq, agent, run, wakes, alone, prio, now)
                 SELECT ?1, ?2, name, ?4, ?5, ?6, ?7, ?8 FROM agent WHERE workflow = ?1 AND name = ?3 AND run = ?4
                 ON CONFLICT (workflow, seq, agent) DO UPDATE
                 SET wakes = max(delivery.wakes, excluded.wakes), alone = max(delivery.alone, excluded.alone),
                 now = max(delivery.now, excluded.now)",
            )?
            .execute_counted(params![
                self.workflow.get(),
                seq.get(),
                to.agent.as_str(),
                run.0,
                wakes,
                alone,
                prio,
                now
            ])?;
        if delivered == 0 {
            return Err(Error::NotFound("agent"));
        }
        if to.wake == Wake::Now {
            self.tx
                .prepare_cached(JOIN_OTHERS_SQL)?
                .execute(params![self.workflow.get(), to.agent.as_str()])?;
        }
        Ok(())
    }

    /// Adds an event, of the live run unless the entry names another.
    pub(crate) fn append_event(&mut self, entry: &EventEntry<'_>, now: Now) -> Result<()> {
        self.last_event += 1;
        self.runs_changed |= !entry.is_message();
        let live = self.live.as_ref().map(|live| live.number);
        entry.insert(self.tx, self.workflow, self.last_event, live, now)
    }

    /// Returns the seq of the last message.
    pub(crate) fn last_seq(&self) -> Seq {
        Seq::new(self.last_seq)
    }

    /// Returns the position of the last event.
    pub(crate) fn last_event(&self) -> i64 {
        self.last_event
    }

    /// Returns the name of an agent of the live run, as the run spells it.
    pub(crate) fn find_agent(&self, name: &AgentName) -> Result<AgentName> {
        let run = self.live_run()?.number;
        self.tx
            .prepare_cached(
                "SELECT name FROM agent WHERE workflow = ?1 AND name = ?2 AND run = ?3",
            )?
            .query_row(params![self.workflow.get(), name.as_str(), run.0], |row| {
                columns::parse(row, 0)
            })
            .optional()?
            .ok_or(Error::NotFound("agent"))
    }

    /// Returns true if an agent takes part in the live run.
    pub(crate) fn has_agent(&self, name: &AgentName) -> Result<bool> {
        match self.find_agent(name) {
            Ok(_) => Ok(true),
            Err(Error::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the next number from a counter of the instance's row.
    pub(crate) fn next_number(&self, column: &'static str) -> Result<i64> {
        let sql =
            format!("UPDATE workflow SET {column} = {column} + 1 WHERE id = ?1 RETURNING {column}");
        Ok(self.tx.prepare_cached(&sql)?.query_row([self.workflow.get()], |row| row.get(0))?)
    }

    /// Saves the row; the tasks that wait for this instance are woken after the COMMIT.
    pub(crate) fn save(self) -> Result<()> {
        self.tx
            .prepare_cached(
                "UPDATE workflow SET live_run = ?2, last_run = ?3, last_seq = ?4, last_event = ?5 WHERE id = ?1",
            )?
            .execute(params![
                self.workflow.get(),
                self.live.as_ref().map(|live| live.number.0),
                self.last_run,
                self.last_seq,
                self.last_event
            ])?;
        self.tx.mark_changed(self.workflow);
        if self.runs_changed {
            self.tx.mark_runs_changed();
        }
        Ok(())
    }
}
