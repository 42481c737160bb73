//! Instances, runs, agents and the event log.

use std::path::PathBuf;

use agent_worker_protocol::{
    AgentName, Event, EventBody, InstanceRef, Limits, Position, Receipt, Role, RunId, Seq,
    WorkflowId, api::TeamVerdict,
};
use async_trait::async_trait;

use super::store_methods;
use crate::{
    database::Database,
    error::{Error, Result},
    model::{
        AgentRow, EventQuery, Instance, InstanceQuery, LimitUse, NewAgent, NewMessage, NewRun,
        NewVerdict, Once, ReadyAgent, RunBlockers, RunClockSwitch, RunQuery, RunRow, RunRule,
        RunSnapshot, RunStep, WriteContext,
    },
    multi_store::MultiStore,
    sql::{
        agents, events, hashed_message, instances, limit_use, members, roles, run_results,
        run_settlement, run_snapshot, runs, team_databases,
    },
    time::Now,
};

/// Instances, their runs, the agents of a run and the event log.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Finds the instance of (project, name, tag), and creates it if it is missing.
    async fn instance_open(&self, project: String, instance: InstanceRef) -> Result<WorkflowId>;
    /// Does the same in a database of the team's own, if the store supports several.
    async fn instance_open_in(
        &self,
        _database: PathBuf,
        _project: String,
        _instance: InstanceRef,
    ) -> Result<WorkflowId> {
        Err(Error::SingleDatabaseOnly)
    }
    /// Lists instances, oldest first.
    async fn instance_list(&self, which: InstanceQuery) -> Result<Vec<Instance>>;
    /// Recomputes the hashes and finds gaps; returns the last seq, or an error with the first message that does not
    /// match.
    async fn instance_verify(&self, workflow: WorkflowId) -> Result<Seq>;
    /// Hides the present messages of a channel; returns the last hidden message. Nothing is deleted.
    async fn instance_clear(&self, by: WriteContext, workflow: WorkflowId, now: Now)
    -> Result<Seq>;
    /// Deletes an instance with everything in it. Refused while a run is live.
    async fn instance_remove(&self, workflow: WorkflowId) -> Result<()>;
    /// Deletes the content of an instance with [`crate::Retention::WhileLive`]; its runs stay as rows without
    /// content. Refused while one is live.
    async fn instance_forget(&self, workflow: WorkflowId) -> Result<()>;
    /// Creates a run in state `setup`, with its agents; refused while another is live.
    async fn run_create(&self, workflow: WorkflowId, new: NewRun, now: Now) -> Result<()>;
    /// Starts a run that is in `setup`, and writes its kickoff in the same transaction.
    async fn run_start(&self, run: RunId, kickoff: Option<NewMessage>, now: Now) -> Result<()>;
    /// Passes the facts about a run to `decide` and applies its step. A run that has ended stays as it is.
    async fn run_settle(&self, run: RunId, decide: RunRule, now: Now) -> Result<RunStep>;
    /// Stops the time that counts for the wall limit of a live run, or starts that of a run that can work. The next
    /// settlement decides again.
    async fn run_clock_switch(&self, run: RunId, switch: RunClockSwitch, now: Now) -> Result<()>;
    /// Continues a paused run, within these limits from now on.
    async fn run_resume(
        &self,
        by: WriteContext,
        run: RunId,
        limits: Limits,
        now: Now,
    ) -> Result<()>;
    /// Sets the verdict of the live run, as its coordinator or its finisher.
    async fn verdict_set(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        new: NewVerdict,
        now: Now,
    ) -> Result<Once<TeamVerdict>>;
    /// Reads the row of a run.
    async fn run_get(&self, run: RunId) -> Result<RunRow>;
    /// Reads a run with all rows from which its view is derived, at one position of the event log.
    async fn run_snapshot(&self, run: RunId) -> Result<RunSnapshot>;
    /// Reads what counts for the limits of a run.
    async fn run_limit_use(&self, run: RunId, now: Now) -> Result<LimitUse>;
    /// Returns the reasons that keep messages of a run from being acted upon.
    async fn run_blockers(&self, run: RunId) -> Result<RunBlockers>;
    /// Lists runs, newest first.
    async fn run_list(&self, which: RunQuery) -> Result<Vec<RunRow>>;
    /// Lists the deliveries of a run that are dead or dropped.
    async fn run_failures(&self, run: RunId) -> Result<Vec<Receipt>>;
    /// Lists the roles of a run with their holders.
    async fn run_roles(&self, run: RunId) -> Result<Vec<(Role, AgentName)>>;
    /// Lists the agents of an instance's live, else last, run.
    async fn agent_list(&self, workflow: WorkflowId) -> Result<Vec<AgentRow>>;
    /// Adds an agent to a live run; a name can be used once in a run. Returns the name; a repeated key returns the
    /// earlier name.
    async fn agent_add(
        &self,
        by: WriteContext,
        run: RunId,
        agent: NewAgent,
        now: Now,
    ) -> Result<AgentName>;
    /// Stops an agent in the live run. A live attempt of the agent continues until its worker is ended.
    async fn agent_stop(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        agent: AgentName,
        why: String,
        now: Now,
    ) -> Result<()>;
    /// Resumes a stopped agent, and ends the wait of one that waits.
    async fn agent_resume(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        agent: AgentName,
        now: Now,
    ) -> Result<()>;
    /// Replaces the settings of an agent with a script of its own.
    async fn agent_mock_set(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        agent: NewAgent,
        now: Now,
    ) -> Result<()>;
    /// Removes an agent from the live run and drops its open mail. Refused while an attempt of it is live.
    async fn agent_remove(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        agent: AgentName,
        now: Now,
    ) -> Result<()>;
    /// Lists agents that have waking mail and no live attempt, in an instance whose run is running.
    async fn agent_ready(&self, workflow: WorkflowId) -> Result<Vec<ReadyAgent>>;
    /// Appends an event of a live run that has no row of its own; a run has no events after its end.
    async fn event_append(
        &self,
        run: RunId,
        body: EventBody,
        cause: Option<String>,
        now: Now,
    ) -> Result<()>;
    /// Reads an instance's events, with the text of the messages they refer to.
    async fn event_list(&self, query: EventQuery) -> Result<Vec<Event>>;
    /// Returns the position of an instance's newest event.
    async fn event_last(&self, workflow: WorkflowId) -> Result<Position>;
}

store_methods! {
    impl RunStore;
    both {
        read of_workflow(workflow) instance_verify(workflow: WorkflowId) -> Seq
            = move |db| hashed_message::verify(db, workflow);
        write of_workflow(workflow) instance_clear(by: WriteContext, workflow: WorkflowId, now: Now) -> Seq
            = move |tx| instances::clear_channel(tx, &by, workflow, now);
        write of_workflow(workflow) run_create(workflow: WorkflowId, new: NewRun, now: Now) -> ()
            = move |tx| runs::create(tx, workflow, &new, now);
        write of_run(run) run_start(run: RunId, kickoff: Option<NewMessage>, now: Now) -> ()
            = move |tx| runs::start(tx, run, kickoff.as_ref(), now);
        write of_run(run) run_settle(run: RunId, decide: RunRule, now: Now) -> RunStep
            = move |tx| run_settlement::settle_run(tx, run, &decide, now);
        write of_run(run) run_clock_switch(run: RunId, switch: RunClockSwitch, now: Now) -> ()
            = move |tx| run_settlement::switch_clock(tx, run, switch, now);
        write of_run(run) run_resume(by: WriteContext, run: RunId, limits: Limits, now: Now) -> ()
            = move |tx| runs::resume(tx, &by, run, &limits, now);
        write of_workflow(workflow) verdict_set(by: WriteContext, workflow: WorkflowId, new: NewVerdict, now: Now) -> Once<TeamVerdict>
            = move |tx| run_results::set_verdict(tx, &by, workflow, &new, now);
        read of_run(run) run_get(run: RunId) -> RunRow = move |db| runs::get(db, run);
        read of_run(run) run_snapshot(run: RunId) -> RunSnapshot = move |db| run_snapshot::get(db, run);
        read of_run(run) run_limit_use(run: RunId, now: Now) -> LimitUse = move |db| limit_use::limit_use(db, run, now);
        read of_run(run) run_failures(run: RunId) -> Vec<Receipt> = move |db| runs::failures(db, run);
        read of_run(run) run_roles(run: RunId) -> Vec<(Role, AgentName)> = move |db| roles::list(db, run);
        read of_workflow(workflow) agent_list(workflow: WorkflowId) -> Vec<AgentRow>
            = move |db| agents::list(db, workflow);
        write of_run(run) agent_add(by: WriteContext, run: RunId, agent: NewAgent, now: Now) -> AgentName
            = move |tx| members::add(tx, &by, run, &agent, now);
        write of_workflow(workflow) agent_stop(by: WriteContext, workflow: WorkflowId, agent: AgentName, why: String, now: Now) -> ()
            = move |tx| members::stop(tx, &by, workflow, &agent, &why, now);
        write of_workflow(workflow) agent_resume(by: WriteContext, workflow: WorkflowId, agent: AgentName, now: Now) -> ()
            = move |tx| members::resume(tx, &by, workflow, &agent, now);
        write of_workflow(workflow) agent_mock_set(by: WriteContext, workflow: WorkflowId, agent: NewAgent, now: Now) -> ()
            = move |tx| members::set_mock(tx, &by, workflow, &agent, now);
        write of_workflow(workflow) agent_remove(by: WriteContext, workflow: WorkflowId, agent: AgentName, now: Now) -> ()
            = move |tx| members::remove(tx, &by, workflow, &agent, now);
        read of_workflow(workflow) agent_ready(workflow: WorkflowId) -> Vec<ReadyAgent>
            = move |db| agents::ready(db, workflow);
        write of_run(run) event_append(run: RunId, body: EventBody, cause: Option<String>, now: Now) -> ()
            = move |tx| events::append(tx, run, body, cause, now);
        read of_workflow(query.workflow) event_list(query: EventQuery) -> Vec<Event>
            = move |db| events::list(db, &query);
        read of_workflow(workflow) event_last(workflow: WorkflowId) -> Position
            = move |db| events::last_position(db, workflow);
    }
    database {
        write instance_open(project: String, instance: InstanceRef) -> WorkflowId = move |tx| instances::open(tx, &project, &instance);
        read run_list(which: RunQuery) -> Vec<RunRow> = move |db| runs::list(db, which);
    }
    multi_store {
        of_workflow(workflow) instance_forget(workflow: WorkflowId) -> ();
        of_run(run) run_blockers(run: RunId) -> RunBlockers;
    }
    impl Database {
        async fn instance_list(&self, which: InstanceQuery) -> Result<Vec<Instance>> {
            match which {
                InstanceQuery::Named(ref name) => {
                    let load = || {
                        let which = which.clone();
                        self.read_inline(move |db| instances::list(db, &which))
                    };
                    self.changes.instances.get_or_load(name, load).await
                }
                InstanceQuery::All
                | InstanceQuery::Live
                | InstanceQuery::OfWorkflow(_)
                | InstanceQuery::Tagged(_)
                | InstanceQuery::WithAgent(_) => self.read(move |db| instances::list(db, &which)).await,
            }
        }
        async fn instance_remove(&self, workflow: WorkflowId) -> Result<()> {
            self.write(move |tx| instances::remove(tx, workflow)).await?;
            self.damage.remove_workflow(workflow);
            self.sweep_resources(workflow).await
        }
        async fn instance_forget(&self, workflow: WorkflowId) -> Result<()> {
            self.write(move |tx| instances::delete_unretained_runs(tx, workflow)).await?;
            self.damage.remove_workflow(workflow);
            self.sweep_resources(workflow).await
        }
        async fn run_blockers(&self, run: RunId) -> Result<RunBlockers> {
            let load = || self.read_inline(move |db| runs::run_blockers(db, run));
            self.changes.run_blockers.get_or_load(&run, load).await
        }
    }
    impl MultiStore {
        async fn instance_open(&self, project: String, instance: InstanceRef) -> Result<WorkflowId> {
            let _alone = self.0.open_lock.lock().await;
            self.refuse_other_database(&project, &instance, None).await?;
            self.0.home.instance_open(project, instance).await
        }
        async fn instance_open_in(
            &self,
            database: PathBuf,
            project: String,
            instance: InstanceRef,
        ) -> Result<WorkflowId> {
            let _alone = self.0.open_lock.lock().await;
            self.refuse_other_database(&project, &instance, Some(&database)).await?;
            let store = match self.find_open(&database) {
                Some(store) => store,
                None => self.open_database(database).await?,
            };
            store.instance_open(project, instance).await
        }
        async fn instance_list(&self, which: InstanceQuery) -> Result<Vec<Instance>> {
            let mut all = Vec::new();
            for store in self.all_stores() {
                all.extend(store.instance_list(which.clone()).await?);
            }
            Ok(all)
        }
        async fn instance_remove(&self, workflow: WorkflowId) -> Result<()> {
            let _alone = self.0.open_lock.lock().await;
            self.store_for(workflow)?.instance_remove(workflow).await?;
            self.remove_if_empty(workflow.get() >> team_databases::DATABASE_NUMBER_SHIFT).await
        }
        async fn run_list(&self, which: RunQuery) -> Result<Vec<RunRow>> {
            let most = match which {
                RunQuery::OfInstance(workflow, _) => return self.store_for(workflow)?.run_list(which).await,
                RunQuery::Ended(_, range) => usize::try_from(range.limit).unwrap_or(usize::MAX),
                RunQuery::Live | RunQuery::EndedSince(_) => usize::MAX,
            };
            let mut all = Vec::new();
            for store in self.all_stores() {
                all.extend(store.run_list(which.clone()).await?);
            }
            // Each database returns its own runs in this order already.
            all.sort_by_key(|run: &RunRow| std::cmp::Reverse((run.started, run.id)));
            all.truncate(most);
            Ok(all)
        }
    }
}
