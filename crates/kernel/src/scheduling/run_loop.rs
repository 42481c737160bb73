//! One loop per live run: finds agents with mail, starts their turns, and detects the end of the run.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_protocol::{AgentName, Limits, RunId, RunState, sync};
use agent_worker_store::{ChangeCursor, Now, Retention, RunFacts, RunStep, StoreTime};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::Result,
    kernel::{Kernel, RunContext},
    procedure::{ProcedureState, RunTasks, TeamRest},
    scheduling::{
        counted_time::PollGaps,
        retry_policy::WorkerStopReason,
        run_step::{self, HumanPresence},
        shutdown::WorkerSelector,
        wall_limit::{self, WallStep},
    },
};

/// Retention of the rows of a `provider: memory` run after its end, for clients that watch it end.
const MEMORY_RUN_RETENTION: Duration = Duration::from_secs(10);

/// The agents of one run that have a turn, or wait for a free slot.
#[derive(Clone)]
pub(crate) struct BusyAgents {
    names: Arc<Mutex<HashSet<AgentName>>>,
    freed: Arc<Notify>,
    /// One permit for each worker that the run may have at once.
    pub(super) slots: Arc<Semaphore>,
}

impl BusyAgents {
    /// Creates an empty set for a run with this maximum number of workers.
    pub(crate) fn new(workers: usize) -> Self {
        let slots = Arc::new(Semaphore::new(workers));
        Self { names: Arc::default(), freed: Arc::default(), slots }
    }

    /// Marks an agent as busy; returns none if it already is.
    pub(super) fn try_enter(&self, agent: &AgentName) -> Option<BusyGuard> {
        let entered = self.lock_names().insert(agent.clone());
        entered.then(|| BusyGuard { busy: self.clone(), agent: agent.clone() })
    }

    fn is_empty(&self) -> bool {
        self.lock_names().is_empty()
    }

    /// Returns true if all of these agents are busy.
    fn contains_all(&self, team: &[AgentName]) -> bool {
        let names = self.lock_names();
        team.iter().all(|agent| names.contains(agent))
    }

    fn lock_names(&self) -> std::sync::MutexGuard<'_, HashSet<AgentName>> {
        sync::lock(&self.names)
    }
}

/// Marks an agent as busy until dropped.
pub(super) struct BusyGuard {
    busy: BusyAgents,
    agent: AgentName,
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.busy.lock_names().remove(&self.agent);
        self.busy.freed.notify_one();
    }
}

/// The next instants at which a limit acts on a run, as the last settlement computed them. They are unknown before the
/// first settlement, after a change of the limits, and the one of the wall limit while no time counts.
#[derive(Default)]
struct LimitTimer {
    wall: Option<(Limits, WallStep)>,
    /// Time at which a run that is paused at a limit of the last 24 hours continues.
    resume: Option<StoreTime>,
}

impl LimitTimer {
    /// Returns true if the run must be settled for a limit now.
    fn is_due(&self, limits: &Limits, now: StoreTime) -> bool {
        let is_wall_due = match self.wall {
            Some((of, WallStep::Due(at))) if of == *limits => at <= now,
            Some(_) | None => true,
        };
        limits.wall.is_some() && is_wall_due || self.resume.is_some_and(|at| at <= now)
    }

    /// Returns the instant to wait for, if it is in the future.
    fn instant(&self, now: StoreTime) -> Option<StoreTime> {
        let wall = match self.wall {
            Some((_, WallStep::Due(at))) => Some(at),
            Some((_, WallStep::Wait | WallStep::StopTurns)) | None => None,
        };
        wall.into_iter().chain(self.resume).filter(|at| *at > now).min()
    }
}

/// The instants that one settlement computes.
#[derive(Clone, Copy)]
struct LimitInstants {
    wall: WallStep,
    resume: Option<StoreTime>,
}

/// The state of a loop between two polls.
struct PollState {
    timer: LimitTimer,
    gaps: PollGaps,
    /// None if the file has no tasks.
    tasks: Option<Arc<RunTasks>>,
    procedure: ProcedureState,
    /// Ends the work of the tasks with the loop.
    stop: CancellationToken,
}

impl PollState {
    /// Completes when a task has changed.
    async fn task_changed(tasks: Option<&RunTasks>) {
        match tasks {
            Some(tasks) => tasks.changed.notified().await,
            None => std::future::pending().await,
        }
    }
}

/// The state of a run after a settlement.
#[derive(PartialEq, Eq)]
enum RunSettled {
    Live,
    Ended,
}

/// The result of one read of a run.
enum PollOutcome {
    /// Read again after a change, or at this time.
    PollAgainAt(Instant),
    /// The run has ended.
    RunEnded,
}

impl Kernel {
    /// Runs the loop of a run until the run ends, the daemon stops, or `stop` is cancelled.
    pub(super) async fn reconcile_run(
        &self,
        run_context: &Arc<RunContext>,
        busy: BusyAgents,
        stop: CancellationToken,
    ) {
        let mut seen = ChangeCursor::default();
        let mut next = Instant::now();
        let mut people = self.viewers.subscribe();
        let tasks = RunTasks::of(&run_context.script.workflow).map(Arc::new);
        let mut state = PollState {
            timer: LimitTimer::default(),
            gaps: self.poll_gaps(),
            procedure: tasks.as_ref().map_or(ProcedureState::Absent, |_| ProcedureState::OPEN),
            tasks: tasks.clone(),
            stop: stop.clone(),
        };
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = PollState::task_changed(tasks.as_deref()) => {}
                change = self.store.change_wait(run_context.workflow, seen) => seen = change,
                () = busy.freed.notified() => {}
                // The kernel owns the sender, so the channel does not close.
                _ = people.changed() => {}
                () = tokio::time::sleep_until(next) => {}
            }
            match self.poll_run_once(run_context.run, &busy, &mut state).await {
                Ok(PollOutcome::PollAgainAt(instant)) => next = instant,
                Ok(PollOutcome::RunEnded) => break,
                Err(error) => {
                    tracing::error!(run = %run_context.run, %error, "polling a run failed; retrying");
                    next = Instant::now() + self.scheduler.options.sweep_interval.duration();
                }
            }
        }
        self.cleanup_run(run_context).await;
    }

    async fn poll_run_once(
        &self,
        run: RunId,
        busy: &BusyAgents,
        state: &mut PollState,
    ) -> Result<PollOutcome> {
        let run_context = &self.run_context(run).await?;
        let now = self.now();
        self.report_clock_jump(now).await?;
        if let Some(suspended) = state.gaps.observe(now.store) {
            self.skip_time(run, suspended, now).await?;
        }
        let mut next = now.store.plus(self.scheduler.options.sweep_interval.duration());
        if self.scheduler.is_draining() {
            // Nothing starts any more. The live turns still have the time of their run.
            if state.timer.is_due(&run_context.limits, now.store) {
                self.settle_run(run_context, state, now).await?;
            }
            let next = state.timer.instant(now.store).map_or(next, |due| next.min(due));
            return Ok(PollOutcome::PollAgainAt(tokio_instant(now, next)));
        }
        // A proposal that is overdue after that is damaged and stays open: the sweep handles it early enough.
        if let Some(due) =
            self.settle_proposals(run_context, now).await?.filter(|due| *due > now.store)
        {
            next = next.min(due);
        }
        // At the wall limit no turn starts: the settlement comes first.
        let limit_due = state.timer.is_due(&run_context.limits, now.store);
        if limit_due && self.settle_run(run_context, state, now).await? == RunSettled::Ended {
            return Ok(PollOutcome::RunEnded);
        }
        // Agents without a worker wait for a slot: if their run is paused, no time counts.
        let all_wait_for_slots = !busy.is_empty() && !self.scheduler.has_worker_in(run_context.run);
        if let Some(due) = self.start_ready_turns(run_context, busy, now).await? {
            next = next.min(due);
        }
        if let Some(tasks) = &state.tasks {
            state.procedure = self.advance_procedure(run_context, tasks, &state.stop).await?;
        }
        // While an agent is busy, the run cannot have ended; only all agents may wait for a person.
        let may_change = busy.is_empty()
            || all_wait_for_slots
            || self.approval_waits.is_present(run_context.run);
        if !limit_due
            && may_change
            && self.settle_run(run_context, state, now).await? == RunSettled::Ended
        {
            return Ok(PollOutcome::RunEnded);
        }
        let next = state.timer.instant(now.store).map_or(next, |due| next.min(due));
        Ok(PollOutcome::PollAgainAt(tokio_instant(now, next)))
    }

    /// Starts the turns of agents with mail; returns the next instant at which one becomes due.
    async fn start_ready_turns(
        &self,
        run_context: &Arc<RunContext>,
        busy: &BusyAgents,
        now: Now,
    ) -> Result<Option<StoreTime>> {
        // While all agents are busy, no agent can be woken, however many messages arrive.
        if busy.contains_all(&run_context.team) {
            return Ok(None);
        }
        let mut next: Option<StoreTime> = None;
        for ready in self.store.agent_ready(run_context.workflow).await? {
            match ready.not_before {
                Some(at) if at > now.store => next = Some(next.map_or(at, |next| next.min(at))),
                Some(_) | None => {
                    if let Some(place) = busy.try_enter(&ready.name) {
                        self.spawn_turn(run_context, ready.name, Arc::clone(&busy.slots), place);
                    }
                }
            }
        }
        Ok(next)
    }

    /// Decides about a run, and stops its live turns and commands if the grace period after its wall limit is over. A stopping daemon
    /// only enforces that limit.
    async fn settle_run(
        &self,
        run_context: &RunContext,
        state: &mut PollState,
        now: Now,
    ) -> Result<RunSettled> {
        let is_there = self.viewers.is_present(run_context.run);
        let person = if is_there { HumanPresence::Present } else { HumanPresence::Absent };
        let draining = self.scheduler.is_draining();
        let unknown = LimitInstants { wall: WallStep::Wait, resume: None };
        let found = Arc::new(Mutex::new((unknown, false)));
        let cell = Arc::clone(&found);
        let procedure = state.procedure.clone();
        let number = state.tasks.as_ref().map(|tasks| tasks.begin_settlement());
        let decide = Box::new(move |facts: &RunFacts| {
            let is_idle = facts.is_idle() && facts.state == RunState::Running;
            let instants = LimitInstants {
                wall: wall_limit::wall_step(facts, &procedure, now.store),
                resume: run_step::resume_at(facts, now),
            };
            *sync::lock(&cell) = (instants, is_idle);
            let step = run_step::decide_run_step(facts, &procedure, person, now);
            if draining { run_step::draining_step(step) } else { step }
        });
        let settled = self.store.run_settle(run_context.run, decide, now).await?;
        let (instants, is_idle) = *sync::lock(&found);
        if let (Some(tasks), Some(number)) = (&state.tasks, number) {
            tasks.end_settlement(TeamRest { number, is_idle });
        }
        // After a change of the state the COMMIT wakes this loop, and the next settlement computes the instant.
        let is_known = settled == RunStep::Stay;
        state.timer.wall = is_known.then_some((run_context.limits, instants.wall));
        state.timer.resume = instants.resume.filter(|_| is_known);
        if instants.wall == WallStep::StopTurns {
            self.request_stops(&WorkerSelector::Run(run_context.run), &WorkerStopReason::WallLimit);
            state.tasks.iter().for_each(|tasks| tasks.interrupt());
        }
        Ok(match settled {
            RunStep::End { .. } => RunSettled::Ended,
            RunStep::Stay | RunStep::Pause(_) | RunStep::Resume => RunSettled::Live,
        })
    }

    /// Removes leftovers of an ended run.
    pub(super) async fn cleanup_run(&self, run_context: &Arc<RunContext>) {
        self.scheduler.release_run(run_context.run);
        self.runner.run_close(run_context.run).await;
        self.run_context_evict(run_context.run);
        match self.store.run_get(run_context.run).await.map(|row| row.retention) {
            Ok(Retention::WhileLive) => {
                tokio::select! {
                    () = tokio::time::sleep(MEMORY_RUN_RETENTION) => {}
                    () = self.scheduler.closing.cancelled() => {}
                }
                self.forget_instance(run_context).await;
            }
            Ok(Retention::Always) => {}
            Err(error) => {
                tracing::error!(run = %run_context.run, %error, "reading an ended run failed");
            }
        }
    }

    async fn forget_instance(&self, run_context: &RunContext) {
        match self.store.instance_forget(run_context.workflow).await {
            // The next run of the instance has started and deletes the rows at its own end.
            Ok(()) | Err(agent_worker_store::Error::RunLive(_)) => {}
            Err(error) => {
                tracing::error!(run = %run_context.run, %error, "could not delete the data of an ended run");
            }
        }
    }
}

/// Returns the instant of tokio's clock that corresponds to the store time `at`.
fn tokio_instant(now: Now, at: StoreTime) -> Instant {
    Instant::now() + at.since(now.store)
}
