//! The command of a task: at least once. It is repeated if its worker died without a result, and, with `retry`, after a
//! failure. In the pause before that the row runs, and a later daemon reads the last result again.

use agent_worker_protocol::Span;
use agent_worker_workflow::{ShellTask, TaskDefinition};

use super::{
    task_error::TaskError,
    task_run::{TaskResult, TaskRun},
};
use crate::scheduling::{
    runner::{ShellCommand, ShellOutcome, TaskCommandEnd, TaskProcess},
    step_command::{StepSecrets, failure_text},
};

/// Maximum number of starts of a command whose workers die.
const MAX_STARTS: u32 = 10;
/// Size of the error output that a row keeps.
const MAX_STDERR_BYTES: usize = 32 * 1024;

impl TaskRun {
    /// Runs the command of a task to its end, or waits for the one that an earlier daemon started.
    pub(super) async fn run_command(
        &self,
        task: &TaskDefinition,
        shell: &ShellTask,
    ) -> Result<TaskResult, TaskError> {
        let (command, secrets) = self.prepare_command(task, shell).await?;
        if let Some(row) = self.row() {
            let adopted =
                self.kernel.runner.task_adopt(self.process(row.attempts), self.stop.clone());
            // A command that was stopped with its daemon runs again.
            if let Some(end) = adopted.await.filter(|end| !end.stopped) {
                let result = self.command_result(task, shell, end, &secrets).await?;
                if let Some(result) = self.unless_retried(task, result).await {
                    return Ok(result);
                }
            }
        }
        loop {
            if self.stop.is_cancelled() {
                return Ok(TaskResult::stopped("stopped before its command ran again"));
            }
            let row = self.start(None).await?;
            if row.state.is_final() {
                return Err(TaskError::Abandoned);
            }
            let (process, stop) = (self.process(row.attempts), self.stop.clone());
            let ran =
                self.kernel.runner.task_run(process, command.clone(), task.timeout, stop).await;
            let died = match ran {
                Ok(Some(end)) => {
                    let result = self.command_result(task, shell, end, &secrets).await?;
                    if let Some(result) = self.unless_retried(task, result).await {
                        return Ok(result);
                    }
                    continue;
                }
                Ok(None) => "its worker process died".to_owned(),
                Err(error) if !self.kernel.runner.is_shortage(&error) => {
                    let why = format!("the command could not be started: {error}");
                    return Err(TaskError::Failed(why));
                }
                Err(error) => {
                    tokio::time::sleep(START_INTERVAL.duration()).await;
                    format!("the command could not be started: {error}")
                }
            };
            let max_starts = task.retry.map_or(MAX_STARTS, |it| it.max_attempts.max(MAX_STARTS));
            if row.attempts >= max_starts {
                let why =
                    format!("the command was started {max_starts} times; the last time, {died}");
                return Err(TaskError::Failed(why));
            }
        }
    }

    fn process(&self, attempt: u32) -> TaskProcess {
        TaskProcess { run: self.run_context.run, key: self.key.clone(), attempt }
    }

    async fn prepare_command(
        &self,
        task: &TaskDefinition,
        shell: &ShellTask,
    ) -> Result<(ShellCommand, StepSecrets), TaskError> {
        let scope = self.scope(task).await?;
        let prepared = self.kernel.step_command(&self.run_context, &shell.command, &scope).await;
        prepared.map_err(TaskError::Failed)
    }

    async fn command_result(
        &self,
        task: &TaskDefinition,
        shell: &ShellTask,
        end: TaskCommandEnd,
        secrets: &StepSecrets,
    ) -> Result<TaskResult, TaskError> {
        let TaskCommandEnd { outcome, timed_out, stopped, ms: _ } = end;
        let error = match (&outcome, timed_out, stopped) {
            (_, _, true) => Some("the command was stopped".to_owned()),
            (_, true, false) => {
                let limit = task.timeout.unwrap_or(Span::from_millis(0));
                Some(format!("the command took longer than {limit} (`timeout`)"))
            }
            (ShellOutcome { status: Some(0), .. }, false, false) => None,
            (outcome, false, false) => Some(failure_text("the command", outcome, secrets)),
        };
        let stderr = secrets.redact(&outcome.stderr);
        let from = stderr.ceil_char_boundary(stderr.len().saturating_sub(MAX_STDERR_BYTES));
        let mut result = TaskResult {
            output: None,
            exit_code: outcome.status,
            error,
            stderr: Some(stderr[from..].to_owned()),
            is_stopped: stopped,
        };
        let has_name = task.output_name.is_some();
        let text = match String::from_utf8(outcome.stdout) {
            Ok(text) => text,
            Err(_) if has_name && result.error.is_none() => {
                result.error = Some("the output is not UTF-8 text".to_owned());
                return Ok(result);
            }
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        let text = text.trim_end_matches('\n').to_owned();
        match self.kernel.task_output(&self.run_context, text, shell.format).await {
            Ok(output) => result.output = Some(output),
            // The output of a command that failed need not have the format.
            Err(TaskError::Failed(why)) => {
                result.error.get_or_insert(why);
            }
            Err(other) => return Err(other),
        }
        Ok(result)
    }
}

/// Pause before another try to start a command, when the machine is short of something.
const START_INTERVAL: Span = Span::from_secs(1);
