//! One attempt, from its lease to its end.

use std::{collections::BTreeMap, sync::Arc};

use agent_worker_backends::takes_variable;
use agent_worker_protocol::{
    AgentName, AgentSettings, AttemptEnd, AttemptId, BASE_ENV, Backend, JobLimits, JobSandbox,
    SpendLimits, WorkerJob,
};
use agent_worker_store::{
    AttemptRow, Error as StoreError, Lease, LeaseOutcome, NewAttempt, SessionAfterFailure,
};
use tokio::{sync::Semaphore, time::Instant};

use super::{
    run_loop::BusyGuard,
    watchdog::{LifeSigns, WorkerWatchdog},
    worker_handle::WorkerHandle,
};
use crate::{
    access::tokens,
    error::{Error, Result},
    kernel::{Kernel, RunContext},
    messaging::attachments::job_attachments,
    runs::agent_join,
    scheduling::{
        batch, prompt, retry_policy,
        retry_policy::{AttemptEvidence, RetryRecord, WorkerStopReason},
        runner::{EventTail, WorkerExit},
    },
};

impl Kernel {
    /// Waits for a free slot, then leases and runs one attempt of `agent`.
    pub(super) fn spawn_turn(
        &self,
        run_context: &Arc<RunContext>,
        agent: AgentName,
        slots: Arc<Semaphore>,
        place: BusyGuard,
    ) {
        let (kernel, run_context) = (self.clone(), Arc::clone(run_context));
        self.scheduler.tracker.spawn(async move {
            let closing = kernel.scheduler.closing.clone();
            let turn = async {
                if let Err(error) = kernel.run_turn(&run_context, &agent, &slots).await {
                    tracing::error!(%agent, run = %run_context.run, %error, "a turn could not be started");
                    // The sweep tries again; an immediate retry would not help.
                    tokio::time::sleep(kernel.scheduler.options.sweep_interval.duration()).await;
                }
            };
            tokio::select! {
                () = closing.cancelled() => {}
                () = turn => {}
            }
            drop(place);
        });
    }

    async fn run_turn(
        &self,
        run_context: &Arc<RunContext>,
        agent: &AgentName,
        slots: &Semaphore,
    ) -> Result<()> {
        // A worker of an earlier run of the same agent may still be exiting.
        while let Some(leaving) = self.scheduler.worker_of(run_context.workflow, agent) {
            leaving.wait_stopped().await;
        }
        let _own = slots.acquire().await;
        let _any = self.scheduler.worker_slots.acquire().await;
        // The members may have changed since the ready list was read: read the context again before the lease.
        let run_context = &self.run_context(run_context.run).await?;
        let now = self.now().wall;
        let (id, token) =
            (self.random.new_attempt_id(now)?, tokens::new_attempt_token(&self.random)?);
        let worker =
            self.scheduler.register_worker(id, WorkerHandle::new(run_context, agent.clone()));
        // Check with the handle registered: a drain that starts later finds it.
        let ended = if self.scheduler.is_draining() {
            Ok(0)
        } else {
            self.lease_and_run(run_context, agent, id, token, &worker).await
        };
        self.scheduler.unregister_worker(id);
        self.live_state.forget_attempt(id);
        worker.mark_stopped(*ended.as_ref().unwrap_or(&0));
        ended.map(drop)
    }

    /// Leases an attempt and runs it, if there is any work. Returns the number of processes that had to be ended.
    async fn lease_and_run(
        &self,
        run_context: &Arc<RunContext>,
        agent: &AgentName,
        id: AttemptId,
        token: String,
        worker: &WorkerHandle,
    ) -> Result<u32> {
        let new = NewAttempt { id, token: tokens::token_hash(&token) };
        let (rule, now) = (batch::LEASE_RULE, self.now());
        match self.store.attempt_lease(run_context.workflow, agent.clone(), new, rule, now).await {
            Ok(LeaseOutcome::Attempt(lease)) => {
                self.run_attempt(run_context, &lease, token, worker).await
            }
            Ok(LeaseOutcome::NotReady | LeaseOutcome::Paused(_) | LeaseOutcome::Stopped(_)) => {
                Ok(0)
            }
            // The lease may have been committed; then it is an attempt whose worker never started.
            Err(StoreError::OutcomeUnknown(_)) => {
                self.settle_attempt(run_context, id, &WorkerExit::default(), worker.stop_reason())
                    .await;
                Ok(0)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Runs the worker of a leased attempt and settles the attempt. Returns the number of processes that had to be
    /// ended.
    async fn run_attempt(
        &self,
        run_context: &Arc<RunContext>,
        lease: &Lease,
        token: String,
        worker: &WorkerHandle,
    ) -> Result<u32> {
        let exit = match self.worker_job(run_context, lease, token).await {
            Ok(job) => {
                let running = self.runner.attempt_run(run_context.run, job, worker.stop.clone());
                let settings = run_context.agent(&lease.fence.agent)?;
                self.watch_worker(lease.id, settings, worker, running).await
            }
            Err(Error::RunFolder(error)) if self.runner.is_shortage(&error) => {
                tracing::warn!(attempt = %lease.id, %error, "a worker could not be prepared");
                WorkerExit::not_started(error.to_string())
            }
            Err(error) => {
                tracing::error!(attempt = %lease.id, %error, "a worker could not be prepared");
                // Equivalent to a worker that exits at once: it counts, and the next try is delayed.
                let status = Some("it could not be prepared".into());
                WorkerExit { seen_alive: true, status, ..WorkerExit::default() }
            }
        };
        self.settle_attempt(run_context, lease.id, &exit, worker.stop_reason()).await;
        Ok(exit.processes_ended)
    }

    /// Waits for a worker, and ends it when it exceeds its own time limits.
    pub(super) async fn watch_worker(
        &self,
        id: AttemptId,
        settings: &AgentSettings,
        worker: &WorkerHandle,
        running: impl Future<Output = WorkerExit>,
    ) -> WorkerExit {
        let mut watchdog = WorkerWatchdog::new(self.job_limits(settings), Instant::now());
        tokio::pin!(running);
        let mut next = Instant::now();
        let exit = loop {
            tokio::select! {
                exit = &mut running => break exit,
                () = tokio::time::sleep_until(next) => {}
            }
            let signs = LifeSigns {
                last_report: self.live_state.last_report(id),
                human_wait_time: self.live_state.human_wait_time(id),
            };
            match watchdog.check(signs, Instant::now()) {
                Ok(later) => next = later,
                Err(why) => {
                    worker.request_stop(WorkerStopReason::Overdue(why));
                    break running.await;
                }
            }
        };
        watchdog.observe(Instant::now());
        WorkerExit { daemon_suspended: watchdog.was_suspended(), ..exit }
    }

    fn job_limits(&self, settings: &AgentSettings) -> JobLimits {
        let options = &self.scheduler.options;
        JobLimits {
            wall: settings.timeout,
            silence: settings.silence,
            orphan_grace: options.orphan_grace,
            kill_grace: options.kill_grace,
            spend: SpendLimits::NONE,
        }
    }

    async fn worker_job(
        &self,
        run_context: &RunContext,
        lease: &Lease,
        token: String,
    ) -> Result<WorkerJob> {
        let settings = run_context.agent(&lease.fence.agent)?;
        let place = self.runner.attempt_paths(run_context.run, lease.id);
        let env = self.runner.run_env(run_context.run).await.map_err(Error::RunFolder)?;
        let own = settings.system_prompt.as_deref();
        let parts = self.team_parts_of(run_context, &lease.fence.agent).await?;
        let decisions = self.recent_decisions(run_context).await?;
        let prompt = prompt::prompt(lease, &decisions, &place.folder);
        let (team, instance) = (&run_context.team, &run_context.instance);
        let system_prompt = prompt::system_prompt(&lease.fence.agent, instance, team, parts, own);
        let output_schema = settings.output_schema.as_ref();
        let attachments = job_attachments(&lease.messages, &place.folder);
        Ok(WorkerJob {
            attempt: lease.id,
            activation: format!("{}/{}/{}", lease.run, lease.fence.agent, lease.oldest),
            number: prompt::try_number(lease),
            agent: lease.fence.agent.clone(),
            instance: run_context.instance.clone(),
            socket: place.socket,
            token,
            keep: place.folder.with_file_name(format!("agent-{}", lease.fence.agent)),
            folder: place.folder,
            cwd: run_context.cwd_of(settings),
            env: worker_env(env, settings),
            system_prompt: prompt::with_output_schema(system_prompt, output_schema),
            prompt,
            woken_by: prompt::woken_by(lease),
            backend: run_context.backend_of(settings),
            model: settings.model.clone(),
            fallback: settings.fallback.clone(),
            session: lease.session.clone(),
            permissions: settings.permissions.clone(),
            sandbox: job_sandbox(run_context, settings),
            mock_tools: settings.mock_tools.clone(),
            max_steps: settings.max_steps,
            max_tokens: settings.max_tokens,
            output_schema: settings.output_schema.clone(),
            effort: settings.effort,
            history: run_context.script.workflow.history,
            team: run_context.team.clone(),
            attachments,
            limits: JobLimits { spend: run_context.limits.spend, ..self.job_limits(settings) },
        })
    }

    /// Settles an attempt whose worker is gone. Retries until the store accepts it; until then the agent runs
    /// nothing else.
    pub(super) async fn settle_attempt(
        &self,
        run_context: &RunContext,
        id: AttemptId,
        exit: &WorkerExit,
        stop_reason: Option<&WorkerStopReason>,
    ) {
        loop {
            match self.try_settle_attempt(run_context, id, exit, stop_reason).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::error!(attempt = %id, %error, "settling an attempt failed; retrying");
                    tokio::time::sleep(self.scheduler.options.sweep_interval.duration()).await;
                }
            }
        }
    }

    pub(super) async fn try_settle_attempt(
        &self,
        run_context: &RunContext,
        id: AttemptId,
        exit: &WorkerExit,
        stop_reason: Option<&WorkerStopReason>,
    ) -> Result<()> {
        // A worker that was never started has written nothing, and reading its files may need the missing resource.
        let row = if exit.start_failure.is_some() && !exit.seen_alive {
            self.store.attempt_get(id).await.map(|row| (row, None)).map_err(Error::from)
        } else {
            self.store_unposted_events(run_context, id).await
        };
        let (row, damaged) = match row {
            Ok((row, damaged)) if row.ended.is_none() => (row, damaged),
            // Already settled, never committed, or deleted with its run.
            Ok(_) | Err(Error::Store(StoreError::NotFound(_))) => return Ok(()),
            // A retry would not help. The agent keeps its attempt until the run is stopped.
            Err(Error::Store(StoreError::Damaged(row))) => {
                tracing::error!(attempt = %id, %row, "cannot settle an attempt: a stored row is damaged");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let seen_alive = exit.seen_alive || self.live_state.last_report(id).is_some();
        let exit = WorkerExit { seen_alive, ..exit.clone() };
        let evidence = AttemptEvidence {
            finished: row.finished.as_ref(),
            retry_at: row.retry_at,
            started: row.last_no > 0,
            damaged: damaged.as_deref(),
            exit: &exit,
            stop_reason,
        };
        let settings = run_context.agent(&row.fence.agent)?;
        let retry = settings.retry;
        let (number, setbacks, now) = (row.number, row.setbacks, self.now());
        let shortage = self.scheduler.record_start(evidence.start_failure());
        let record =
            RetryRecord { number, setbacks, retry, now: now.store, shortage_time: shortage };
        let mut settlement =
            retry_policy::settlement(retry_policy::attempt_end(&evidence), &evidence, &record);
        if let Backend::Api(_) = settings.backend {
            // A failed attempt has left the stored conversation as it was.
            settlement.session = SessionAfterFailure::Kept;
        }
        if settlement.end == AttemptEnd::Ok {
            settlement.answer = self.answer_draft(run_context, &row).await?;
        }
        match self.store.attempt_finish(row.fence.clone(), settlement, now).await {
            // The run was stopped meanwhile.
            Ok(_) | Err(StoreError::Fenced) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores the events that the worker wrote to its file and could not post. Returns the attempt, and the
    /// location of damage in that file.
    async fn store_unposted_events(
        &self,
        run_context: &RunContext,
        id: AttemptId,
    ) -> Result<(AttemptRow, Option<String>)> {
        let row = self.store.attempt_get(id).await?;
        if row.ended.is_some() || row.finished.is_some() {
            return Ok((row, None));
        }
        let tail = match self.runner.attempt_events(run_context.run, id, row.last_no).await {
            Ok(tail) => tail,
            // The events exist and can be read later: settling without them would be wrong.
            Err(error) if self.runner.is_shortage(&error) => return Err(Error::RunFolder(error)),
            Err(error) => {
                // A later try would fail as well: the attempt is settled without its events.
                tracing::error!(attempt = %id, %error, "cannot read a worker's events");
                EventTail::default()
            }
        };
        if let Some(damaged) = &tail.damaged {
            tracing::error!(attempt = %id, damaged, "a worker's events.jsonl is damaged");
        }
        if tail.events.is_empty() {
            return Ok((row, tail.damaged));
        }
        match self.store_file_events(id, tail.events).await {
            Ok(()) | Err(StoreError::Fenced | StoreError::InvalidValue(_)) => {
                Ok((self.store.attempt_get(id).await?, tail.damaged))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the sandbox of an agent's program, with the files that it cannot change: the workflow file, and those of the
/// command that notifies the user.
fn job_sandbox(run_context: &RunContext, settings: &AgentSettings) -> Option<JobSandbox> {
    let read_only = run_context.script.file.iter().cloned().collect();
    let outside = run_context.script.notify_files.clone();
    (!settings.sandbox.is_off()).then(|| JobSandbox {
        settings: settings.sandbox.clone(),
        read_only,
        outside,
    })
}

fn worker_env(env: BTreeMap<String, String>, settings: &AgentSettings) -> BTreeMap<String, String> {
    let mut env = agent_join::agent_env(env, &settings.name);
    let all = env.clone();
    env.retain(|name, _| {
        BASE_ENV.contains(&name.as_str())
            || takes_variable(&settings.backend, name, &all)
            || settings.env.contains(name)
    });
    env
}
