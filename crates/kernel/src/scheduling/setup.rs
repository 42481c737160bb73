//! The start of a run: its setup commands, its kickoff, and the first wake.

use std::{path::Path, sync::Arc, time::Duration};

use agent_worker_protocol::{
    EventBody, Outcome, ProposalKind, ProposalOption, Role, Rule, RunId, RunMode, RunState, Sender,
    SetupRanData, TaskState, Terms, TieBreaker,
    api::{RunError, RunErrorCode},
};
use agent_worker_store::{
    Error as StoreError, HopContext, NewMessage, NewProposal, Now, RunStep, StoreTime, TaskEnd,
    TaskKey, WriteActor, WriteContext,
};
use agent_worker_workflow::{DocumentOwner, SetupStep, TaskFormat, TemplateScope};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::run_loop::BusyAgents;
use crate::{
    documents::document_files::RunFiles,
    error::{Error, Result},
    kernel::{Kernel, RunContext},
    messaging::{
        recipients::{RecipientSpec, resolve_recipients},
        size_limits::{self, MessageText},
    },
    procedure::setup_path,
    scheduling::{runner::ShellOutcome, step_command::failure_text},
    voting::{notices, proposals::default_electorate},
};

/// Time limit for the election of the documents' owner.
const ELECTION_DURATION: Duration = Duration::from_mins(10);

impl Kernel {
    /// Runs a run from its current state. `busy` are agents that already have a turn.
    pub(crate) fn spawn_run(&self, run_context: Arc<RunContext>, busy: BusyAgents) {
        let kernel = self.clone();
        let Some(stop) = self.scheduler.adopt_run(run_context.run) else { return };
        self.spawn_file_sync(&run_context);
        self.scheduler.tracker.spawn(async move {
            let settled = tokio::select! {
                // Check the stop first, so that a command that ends because of it reports nothing about an ended
                // run.
                biased;
                () = stop.cancelled() => return,
                settled = async {
                    kernel.wait_for_release(&run_context).await;
                    kernel.run_setup(&run_context, &stop).await
                } => settled,
            };
            if let Err(failure) = settled {
                kernel.fail_run(run_context.run, failure).await;
                kernel.cleanup_run(&run_context).await;
                return;
            }
            kernel.reconcile_run(&run_context, busy, stop).await;
        });
    }

    /// Starts the file sync of a run, from the current state of the files.
    pub(super) fn spawn_file_sync(&self, run_context: &RunContext) {
        let Some(files) = RunFiles::of(self, run_context) else { return };
        let (runner, closing) = (Arc::clone(&self.runner), self.scheduler.closing.clone());
        runner.files_mark_pending(run_context.run);
        self.scheduler.tracker.spawn(async move { runner.files_sync(files, closing).await });
    }

    /// Waits until the time limit of a run in its setup; forever if it has none. Time in which the daemon was suspended
    /// does not count.
    async fn wait_for_wall_limit(&self, run: RunId) {
        let interval = self.scheduler.options.sweep_interval.duration();
        let mut gaps = self.poll_gaps();
        loop {
            let now = self.now();
            let suspended = gaps.observe(now.store);
            let limit = self.setup_limit(run, suspended, now).await.unwrap_or_else(|error| {
                tracing::error!(%run, %error, "reading the time of a setup failed; retrying");
                None
            });
            match limit {
                Some(limit) if limit <= now.store => return,
                Some(limit) => tokio::time::sleep(interval.min(limit.since(now.store))).await,
                None => tokio::time::sleep(interval).await,
            }
        }
    }

    /// Returns the time limit of a run, after the time since `suspended` is taken out.
    async fn setup_limit(
        &self,
        run: RunId,
        suspended: Option<StoreTime>,
        now: Now,
    ) -> Result<Option<StoreTime>> {
        if let Some(suspended) = suspended {
            self.skip_time(run, suspended, now).await?;
        }
        let row = self.store.run_get(run).await?;
        Ok(row.limits.wall.and_then(|wall| row.clock.reaches(wall.duration())))
    }

    async fn run_setup(
        &self,
        run_context: &Arc<RunContext>,
        stop: &CancellationToken,
    ) -> Result<(), RunError> {
        let row = self.store.run_get(run_context.run).await;
        let row = row.map_err(|error| setup_failure(&error.into()))?;
        if row.state != RunState::Setup {
            return Ok(());
        }
        tokio::select! {
            biased;
            started = self.set_up_and_start(run_context, row.mode, stop) => started,
            () = self.wait_for_wall_limit(row.id) => Err(wall_limit_error()),
        }
    }

    /// Runs the setup commands, then writes the kickoff or starts the election before it.
    async fn set_up_and_start(
        &self,
        run_context: &Arc<RunContext>,
        mode: RunMode,
        stop: &CancellationToken,
    ) -> Result<(), RunError> {
        let mut scope =
            self.template_scope(run_context).await.map_err(|error| setup_failure(&error))?;
        let mut outputs = Vec::new();
        for (nth, step) in run_context.script.workflow.setup.iter().enumerate() {
            let output = self.run_setup_step(run_context, step, &mut scope, stop).await?;
            if let Some(output) = output {
                let stored = self.setup_output(run_context, nth, output).await;
                outputs.push(stored.map_err(|error| setup_failure(&error))?);
            }
        }
        if !run_context.script.workflow.tasks.is_empty() {
            let stored = self.store.task_setup(run_context.run, outputs, self.now()).await;
            stored.map_err(|error| setup_failure(&error.into()))?;
        }
        // An agent may have joined meanwhile.
        let run_context =
            &self.run_context(run_context.run).await.map_err(|error| setup_failure(&error))?;
        let kickoff = self.kickoff_message(run_context, &scope, mode).await?;
        let now = self.now();
        let started = match election_proposal(run_context) {
            Some(election) => self.store.run_elect(run_context.run, election, kickoff, now).await,
            None => self.store.run_start(run_context.run, kickoff, now).await,
        };
        started.map_err(|error| setup_failure(&error.into()))
    }

    /// Returns the values of a run that no command makes.
    pub(crate) async fn template_scope(&self, run_context: &RunContext) -> Result<TemplateScope> {
        let env = self.runner.run_env(run_context.run).await.map_err(Error::RunFolder)?;
        let script = &run_context.script;
        let folder = script.file.as_deref().and_then(Path::parent).unwrap_or(&script.cwd);
        Ok(script.workflow.scope(&script.params, &env, &script.tag, folder)?)
    }

    async fn run_setup_step(
        &self,
        run_context: &RunContext,
        step: &SetupStep,
        scope: &mut TemplateScope,
        halt: &CancellationToken,
    ) -> Result<Option<String>, RunError> {
        let began = Instant::now();
        let failed = |message| RunError { code: RunErrorCode::SetupFailed, message };
        let line = step.line;
        let prepared = self.step_command(run_context, step, scope).await;
        let (command, secrets) = prepared.map_err(|why| failed(format!("line {line}: {why}")))?;
        let end = self.runner.shell_run(command, halt.clone()).await;
        let end = end.map_err(|error| {
            failed(format!("the setup command on line {line} could not be started: {error}"))
        })?;
        self.record_setup_step(run_context.run, step, &end, began.elapsed()).await;
        if end.status != Some(0) {
            let command = format!("the setup command on line {line}");
            return Err(failed(failure_text(&command, &end, &secrets)));
        }
        size_limits::check(
            "the output of a setup command",
            end.stdout.len(),
            size_limits::MAX_RESOURCE_BYTES,
        )
        .map_err(|error| failed(format!("line {line}: {error}")))?;
        let Some(name) = &step.name else { return Ok(None) };
        let value = String::from_utf8_lossy(&end.stdout).trim_end_matches('\n').to_owned();
        scope.insert_output(name.clone(), value.clone());
        Ok(Some(value))
    }

    /// Stores an output for the tasks, which read it also after a restart of the daemon.
    async fn setup_output(
        &self,
        run_context: &RunContext,
        nth: usize,
        output: String,
    ) -> Result<TaskEnd> {
        let output = self.task_output(run_context, output, TaskFormat::Text).await;
        let output = output.map_err(|error| Error::BadRequest(error.to_string()))?;
        Ok(TaskEnd {
            key: TaskKey::of(setup_path(nth)),
            state: TaskState::Done,
            condition: None,
            output: Some(output),
            exit_code: Some(0),
            error: None,
            stderr: None,
        })
    }

    async fn record_setup_step(
        &self,
        run: RunId,
        step: &SetupStep,
        end: &ShellOutcome,
        took: Duration,
    ) {
        let body = EventBody::SetupRan(SetupRanData {
            line: step.line as u64,
            name: step.name.clone(),
            status: end.status,
            bytes: end.stdout.len() as u64,
            ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        let (cause, now) = (None, self.now());
        let told = self.store.event_append(run, body, cause, now).await;
        match told {
            // The run was stopped during its setup.
            Ok(()) | Err(StoreError::NoRun) => {}
            Err(error) => tracing::error!(%run, %error, "could not record a setup command"),
        }
    }

    /// Builds the first message of a run. A `run` that would wake no agent fails here, before anything else
    /// happens.
    async fn kickoff_message(
        &self,
        run_context: &RunContext,
        scope: &TemplateScope,
        mode: RunMode,
    ) -> Result<Option<NewMessage>, RunError> {
        let nobody = |message: String| RunError { code: RunErrorCode::NobodyWoken, message };
        let has_tasks = !run_context.script.workflow.tasks.is_empty();
        let Some(template) = &run_context.script.workflow.kickoff else {
            return match mode {
                RunMode::Start => Ok(None),
                // The tasks begin at once.
                RunMode::Run if has_tasks => Ok(None),
                RunMode::Run => Err(nobody("the file has no kickoff, so no agent is woken".into())),
            };
        };
        let bad = |message: String| RunError { code: RunErrorCode::BadFile, message };
        let rendered = template.render(scope).map_err(|error| bad(error.summary()))?;
        let (body, data) = (rendered.text, rendered.data);
        let address = RecipientSpec { text: &body, data: &data, ..RecipientSpec::default() };
        let reached = resolve_recipients(&address, &Sender::User, &run_context.team)
            .map_err(|unknown| bad(format!("there is no agent `{}`", unknown.name)))?;
        if mode == RunMode::Run && !has_tasks && reached.woken().is_empty() {
            let meant = reached.unknown.iter().map(|unknown| match &unknown.suggestion {
                Some(name) => {
                    format!("; `@{}` is not an agent, did you mean `@{name}`?", unknown.name)
                }
                None => format!("; `@{}` is not an agent", unknown.name),
            });
            let meant: String = meant.collect();
            return Err(nobody(format!("the kickoff mentions no agent, so none is woken{meant}")));
        }
        let by = WriteContext::new(WriteActor::User);
        let message = self
            .prepare_message(&by, run_context, MessageText { body, data }, &reached, 0, None)
            .await;
        message.map(Some).map_err(|error| bad(error.to_string()))
    }

    /// Ends a run that failed before its agents started.
    pub(super) async fn fail_run(&self, run: RunId, failure: RunError) {
        let decide = Box::new(move |_: &_| RunStep::End {
            outcome: Outcome::Failed,
            why: failure.message.clone(),
            error: Some(failure.clone()),
        });
        if let Err(error) = self.store.run_settle(run, decide, self.now()).await {
            tracing::error!(%run, %error, "could not end a failed run");
        }
    }
}

/// Returns the election of the documents' owner before the kickoff. Without a result in time, the file's first
/// agent wins.
fn election_proposal(run_context: &RunContext) -> Option<NewProposal> {
    match run_context.script.workflow.context.document_owner {
        DocumentOwner::Elect if run_context.team.len() > 1 => {}
        DocumentOwner::Elect | DocumentOwner::Everybody | DocumentOwner::Agent(_) => return None,
    }
    let terms = Terms {
        kind: ProposalKind::Election,
        title: "Who owns the team's documents?".to_owned(),
        description: None,
        options: run_context.team.iter().map(|name| ProposalOption::new(name.as_str())).collect(),
        rule: Rule::Plurality,
        quorum: None,
        close_at_quorum: false,
        tie_breaker: TieBreaker::First,
        binding: true,
        role: Some(Role::DocumentOwner),
        work: None,
        gate: None,
        electorate: default_electorate(&run_context.team),
        fallback: run_context.team.first().map(ToString::to_string),
    };
    Some(NewProposal {
        terms,
        voting_period: ELECTION_DURATION,
        recipients: notices::voters_to_wake,
        hop_context: HopContext::default(),
    })
}

fn setup_failure(error: &Error) -> RunError {
    let message = agent_worker_protocol::Problem::from(error).message;
    RunError { code: RunErrorCode::SetupFailed, message }
}

fn wall_limit_error() -> RunError {
    let message = "the setup took longer than the run's time limit (`limits: wall`)".to_owned();
    RunError { code: RunErrorCode::SetupFailed, message }
}
