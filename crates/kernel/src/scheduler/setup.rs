//! The beginning of a run: its setup commands, its kickoff, and the first wake.

use std::{path::Path, sync::Arc, time::Duration};

use agent_worker_protocol::{
    EventKind, Outcome, ProposalKind, ProposalOption, Role, Rule, RunId, RunMode, RunState, Sender,
    Terms, TieBreaker,
    api::{RunError, RunErrorCode},
};
use agent_worker_store::{By, Error as StoreError, NewMessage, NewProposal, RunStep, Said, Who};
use agent_worker_workflow::{DocumentOwner, Scope, SetupStep};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::tend::Busy;
use crate::{
    error::{Error, Result},
    kernel::{Card, Kernel},
    proposals::everybody,
    recipients::{Address, recipients},
    runner::{ShellCommand, ShellEnd},
    shelf::Files,
    sizes::{self, Text},
};

/// How much of a failing command's complaint is shown.
const COMPLAINT: usize = 2000;
/// How long the agents may take to elect who owns the documents.
const ELECTION: Duration = Duration::from_mins(10);

impl Kernel {
    /// Cares for a run from wherever it stands. `busy` are agents that already have a turn.
    pub(crate) fn begin_run(&self, card: Arc<Card>, busy: Busy) {
        let kernel = self.clone();
        let Some(stop) = self.scheduler.adopt_run(card.run) else { return };
        self.begin_files(&card);
        self.scheduler.tracker.spawn(async move {
            let settled = tokio::select! {
                // First, so that a command that ends because of the stop tells nothing of a run that is over.
                biased;
                () = stop.cancelled() => return,
                settled = kernel.set_up(&card, &stop) => settled,
                () = kernel.time_up(&card) => Err(time_up()),
            };
            if let Err(failure) = settled {
                kernel.fail_run(card.run, failure).await;
                kernel.farewell(&card).await;
                return;
            }
            kernel.tend(&card, busy, stop).await;
        });
    }

    /// Lets files follow a run, from wherever they are.
    pub(super) fn begin_files(&self, card: &Card) {
        let Some(files) = Files::of(self, card) else { return };
        let (runner, closing) = (Arc::clone(&self.runner), self.scheduler.closing.clone());
        runner.files_due(card.run);
        self.scheduler.tracker.spawn(async move { runner.files(files, closing).await });
    }

    /// Waits until a run's time is up; for ever, if it has as long as it likes.
    async fn time_up(&self, card: &Card) {
        match card.limits.wall {
            Some(wall) => {
                let left = card.started.plus(wall.duration()).since(self.now().store);
                tokio::time::sleep(left).await;
            }
            None => std::future::pending().await,
        }
    }

    async fn set_up(&self, card: &Arc<Card>, stop: &CancellationToken) -> Result<(), RunError> {
        let broken = |error: Error| RunError {
            code: RunErrorCode::SetupFailed,
            message: agent_worker_protocol::Problem::from(&error).message,
        };
        let row = self.store.run_get(card.run).await.map_err(|error| broken(error.into()))?;
        if row.state != RunState::Setup {
            return Ok(());
        }
        let mut scope = self.scope(card).await.map_err(broken)?;
        for step in &card.script.workflow.setup {
            self.set_up_step(card, step, &mut scope, stop).await?;
        }
        // Somebody may have joined meanwhile.
        let card = &self.card(card.run).await.map_err(broken)?;
        let kickoff = self.kickoff(card, &scope, row.mode).await?;
        let now = self.now();
        let started = match election(card) {
            Some(election) => self.store.run_elect(card.run, election, kickoff, now).await,
            None => self.store.run_start(card.run, kickoff, now).await,
        };
        started.map_err(|error| broken(error.into()))
    }

    async fn scope(&self, card: &Card) -> Result<Scope> {
        let env = self.runner.run_env(card.run).await.map_err(Error::Folder)?;
        let script = &card.script;
        let folder = script.file.as_deref().and_then(Path::parent).unwrap_or(&script.cwd);
        Ok(script.workflow.scope(&script.params, &env, &script.tag, folder)?)
    }

    async fn set_up_step(
        &self,
        card: &Card,
        step: &SetupStep,
        scope: &mut Scope,
        halt: &CancellationToken,
    ) -> Result<(), RunError> {
        let began = Instant::now();
        let failed = |message| RunError { code: RunErrorCode::SetupFailed, message };
        let line = step.line;
        let prepared = step.shell.prepare(scope).map_err(|error| failed(error.summary()))?;
        let env = self.runner.run_env(card.run).await;
        let env = env.map_err(|error| failed(format!("the run's environment is gone: {error}")))?;
        let (program, options) = step.interpreter();
        let command = ShellCommand {
            run: card.run,
            prepared,
            program: program.to_owned(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            cwd: step.cwd.as_ref().map_or(card.script.cwd.clone(), |cwd| card.script.cwd.join(cwd)),
            env,
        };
        let end = self.runner.shell(command, halt.clone()).await;
        let end = end.map_err(|error| {
            failed(format!("the setup command on line {line} could not be started: {error}"))
        })?;
        self.tell_setup(card.run, step, &end, began.elapsed()).await;
        if end.status != Some(0) {
            return Err(failed(complaint(line, &end)));
        }
        sizes::check("what a setup command printed", end.stdout.len(), sizes::RESOURCE)
            .map_err(|error| failed(format!("line {line}: {error}")))?;
        if let Some(name) = &step.name {
            let value = String::from_utf8_lossy(&end.stdout);
            scope.insert(name.clone(), value.trim_end_matches('\n').to_owned());
        }
        Ok(())
    }

    async fn tell_setup(&self, run: RunId, step: &SetupStep, end: &ShellEnd, took: Duration) {
        let data = json!({
            "line": step.line, "as": step.name, "status": end.status,
            "bytes": end.stdout.len(), "ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        let now = self.now();
        let told = self.store.event_append(run, EventKind::SetupRan, None, data, now).await;
        match told {
            // The run was stopped while its setup ran.
            Ok(()) | Err(StoreError::NoRun) => {}
            Err(error) => tracing::error!(%run, %error, "a setup command was not noted"),
        }
    }

    /// The first message of a run. A `run` that would wake nobody fails here, before anything else happens.
    async fn kickoff(
        &self,
        card: &Card,
        scope: &Scope,
        mode: RunMode,
    ) -> Result<Option<NewMessage>, RunError> {
        let nobody = |message: String| RunError { code: RunErrorCode::NobodyWoken, message };
        let Some(template) = &card.script.workflow.kickoff else {
            return match mode {
                RunMode::Start => Ok(None),
                RunMode::Run => Err(nobody("the file has no kickoff, so nobody is woken".into())),
            };
        };
        let bad = |message: String| RunError { code: RunErrorCode::BadFile, message };
        let rendered = template.render(scope).map_err(|error| bad(error.summary()))?;
        let (body, data) = (rendered.text, rendered.data);
        let address = Address { text: &body, data: &data, ..Address::default() };
        let reached = recipients(&address, &Sender::User, &card.team)
            .map_err(|unknown| bad(format!("there is no agent `{}`", unknown.name)))?;
        if mode == RunMode::Run && reached.woken().is_empty() {
            let meant = reached.unknown.iter().map(|unknown| match &unknown.suggestion {
                Some(name) => format!("; `@{}` is nobody, did you mean `@{name}`?", unknown.name),
                None => format!("; `@{}` is nobody", unknown.name),
            });
            let meant: String = meant.collect();
            return Err(nobody(format!(
                "the kickoff mentions no agent, so nobody is woken{meant}"
            )));
        }
        let by = By::new(Who::User);
        let message = self.message(&by, card, Text { body, data }, &reached, 0, None).await;
        message.map(Some).map_err(|error| bad(error.to_string()))
    }

    /// Ends a run that did not get as far as its agents.
    pub(super) async fn fail_run(&self, run: RunId, failure: RunError) {
        let decide = Box::new(move |_: &_| RunStep::End {
            outcome: Outcome::Failed,
            why: failure.message.clone(),
            error: Some(failure.clone()),
        });
        if let Err(error) = self.store.run_settle(run, decide, self.now()).await {
            tracing::error!(%run, %error, "a failed run could not be ended");
        }
    }
}

/// The vote that comes before the kickoff: who owns the documents. If nobody is elected in time, the file's first agent is.
fn election(card: &Card) -> Option<NewProposal> {
    match card.script.workflow.context.document_owner {
        DocumentOwner::Elect if card.team.len() > 1 => {}
        DocumentOwner::Elect | DocumentOwner::Everybody | DocumentOwner::Agent(_) => return None,
    }
    let terms = Terms {
        kind: ProposalKind::Election,
        title: "Who owns the team's documents?".to_owned(),
        description: None,
        options: card.team.iter().map(|name| ProposalOption::new(name.as_str())).collect(),
        rule: Rule::Plurality,
        quorum: None,
        tie_breaker: TieBreaker::First,
        binding: true,
        role: Some(Role::DocumentOwner),
        work: None,
        gate: None,
        electorate: everybody(&card.team),
        fallback: card.team.first().map(ToString::to_string),
    };
    Some(NewProposal { terms, lasts: ELECTION, said: Said::default() })
}

fn time_up() -> RunError {
    let message = "its setup took longer than the run may last (`limits: wall`)".to_owned();
    RunError { code: RunErrorCode::SetupFailed, message }
}

fn complaint(line: usize, end: &ShellEnd) -> String {
    let how = match end.status {
        Some(status) => format!("ended with status {status}"),
        None => "was ended by a signal".to_owned(),
    };
    let from = end.stderr.ceil_char_boundary(end.stderr.len().saturating_sub(COMPLAINT));
    let said = end.stderr[from..].trim();
    let said = if said.is_empty() { "it printed no error".to_owned() } else { said.to_owned() };
    format!("the setup command on line {line} {how}: {said}")
}
