//! Workers and shell commands as tasks of the machine: if the kernel drops its future, the process continues.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_expressions::{
    EvaluationError, EvaluationRequest, ExpressionValue, NamedValue, ValueContent,
};
use agent_worker_kernel::{
    AttemptPaths, EventTail, ProcessMark, Runner, ShellCommand, ShellOutcome, TaskCommandEnd,
    TaskProcess, WorkerExit, WorkerLiveness,
};
use agent_worker_protocol::{AttemptId, RunId, Span, WorkerEvent, WorkerJob};
use async_trait::async_trait;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{Machine, ProcessLife, ShellScript, SimulatedProcess, SimulatedTask, WorkerScript};
use crate::scripted_worker::{ScriptEnd, ScriptedWorker};

/// Time until the exit of a process is noticed.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(10);

#[async_trait]
impl Runner for Machine {
    async fn run_open(&self, run: RunId, env: BTreeMap<String, String>) -> io::Result<()> {
        self.state().environments.insert(run, env);
        Ok(())
    }

    async fn run_env(&self, run: RunId) -> io::Result<BTreeMap<String, String>> {
        self.state().environments.get(&run).cloned().ok_or(io::ErrorKind::NotFound.into())
    }

    async fn run_close(&self, run: RunId) -> u32 {
        self.state().environments.remove(&run);
        self.end_shells(run).await
    }

    async fn run_log_list(&self) -> io::Result<Vec<RunId>> {
        Ok(Vec::new())
    }

    async fn run_log_erase(&self, run: RunId) -> io::Result<()> {
        self.state().erased.push(run);
        Ok(())
    }

    fn hold_is_set(&self) -> bool {
        self.state().is_held
    }

    async fn hold_clear(&self) -> io::Result<()> {
        self.state().is_held = false;
        Ok(())
    }

    fn attempt_paths(&self, _run: RunId, attempt: AttemptId) -> AttemptPaths {
        AttemptPaths { folder: format!("/attempts/{attempt}").into(), socket: "/socket".into() }
    }

    async fn attempt_run(
        &self,
        _run: RunId,
        job: WorkerJob,
        stop: CancellationToken,
    ) -> WorkerExit {
        let process = self.spawn(job);
        self.wait(&process, &stop).await
    }

    async fn attempt_probe(&self, _run: RunId, attempt: AttemptId) -> WorkerLiveness {
        match self.state().processes.get(&attempt) {
            Some(process) if process.is_alive() => WorkerLiveness::Alive,
            Some(_) | None => WorkerLiveness::Gone,
        }
    }

    async fn attempt_adopt(
        &self,
        _run: RunId,
        attempt: AttemptId,
        stop: CancellationToken,
    ) -> WorkerExit {
        let process = self.state().processes.get(&attempt).cloned();
        self.wait(&process.unwrap(), &stop).await
    }

    async fn attempt_events(
        &self,
        _run: RunId,
        attempt: AttemptId,
        after: i64,
    ) -> io::Result<EventTail> {
        let process = self.state().processes.get(&attempt).cloned();
        let events = process.map(|process| process.written_after(after)).unwrap_or_default();
        Ok(EventTail { events, damaged: None })
    }

    async fn attempt_log(
        &self,
        _: RunId,
        attempt: AttemptId,
        after: u64,
        most: usize,
    ) -> io::Result<Vec<u8>> {
        let printed = format!("printed by {attempt}\n");
        let after = usize::try_from(after).unwrap();
        Ok(printed.bytes().skip(after).take(most).collect())
    }

    async fn process_marks(&self) -> Vec<ProcessMark> {
        Vec::new()
    }

    async fn attempt_sweep(&self, attempt: AttemptId) -> u32 {
        self.end_shells(RunId::new(attempt.get())).await
    }

    async fn shell_run(
        &self,
        command: ShellCommand,
        stop: CancellationToken,
    ) -> io::Result<ShellOutcome> {
        let shell = self.state().shell.clone();
        self.state().commands.push(command.clone());
        let Some(shell) = shell else {
            return Ok(ShellOutcome { status: Some(0), ..ShellOutcome::default() });
        };
        let (life, mut end) = self.spawn_shell(command, shell);
        tokio::select! {
            () = life.gone.cancelled() => {}
            () = stop.cancelled() => life.end().await,
        }
        // Without output if a signal ended the command.
        Ok(end.try_recv().unwrap_or_default())
    }

    async fn task_run(
        &self,
        process: TaskProcess,
        command: ShellCommand,
        timeout: Option<Span>,
        stop: CancellationToken,
    ) -> io::Result<Option<TaskCommandEnd>> {
        let (said, end) = watch::channel(None);
        let task = SimulatedTask { halt: CancellationToken::new(), end };
        self.state().tasks.insert(process.clone(), task.clone());
        let (machine, halt) = (self.clone(), task.halt);
        self.tracker.spawn(async move {
            let began = tokio::time::Instant::now();
            let timed_out = halt.child_token();
            let limit = async {
                match timeout {
                    Some(timeout) => tokio::time::sleep(timeout.duration()).await,
                    None => std::future::pending().await,
                }
                timed_out.cancel();
                std::future::pending::<()>().await;
            };
            let outcome = tokio::select! {
                outcome = machine.shell_run(command, timed_out.clone()) => outcome.unwrap(),
                () = limit => unreachable!(),
            };
            let stopped = halt.is_cancelled();
            let timed_out = timed_out.is_cancelled() && !stopped;
            let ms = u64::try_from(began.elapsed().as_millis()).unwrap();
            said.send_replace(Some(TaskCommandEnd { outcome, timed_out, stopped, ms }));
        });
        Ok(self.task_adopt(process, stop).await)
    }

    async fn task_adopt(
        &self,
        process: TaskProcess,
        stop: CancellationToken,
    ) -> Option<TaskCommandEnd> {
        let mut task = self.state().tasks.get(&process).cloned()?;
        tokio::select! {
            ended = task.end.wait_for(Option::is_some) => return ended.ok()?.clone(),
            () = stop.cancelled() => task.halt.cancel(),
        }
        task.end.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Knows `true`, `false`, arrays in JSON, and the names of values.
    async fn expression_evaluate(
        &self,
        _run: RunId,
        request: EvaluationRequest<'_>,
    ) -> Result<ExpressionValue, EvaluationError> {
        let source = request.expression.source().trim();
        let value = request.values.iter().find(|value| value.path.join(".") == source);
        Ok(match (source, value) {
            ("true" | "always()", _) => ExpressionValue::Boolean(true),
            ("false", _) => ExpressionValue::Boolean(false),
            ("failure()", _) => ExpressionValue::Boolean(request.has_failed),
            (array, _) if array.starts_with('[') => ExpressionValue::Array(array.to_owned()),
            (_, Some(NamedValue { content: ValueContent::Text(text), .. })) => {
                ExpressionValue::Text((*text).to_owned())
            }
            (other, _) => panic!("the machine cannot evaluate `{other}`"),
        })
    }
}

impl Machine {
    fn spawn(&self, job: WorkerJob) -> Arc<SimulatedProcess> {
        let process = Arc::new(SimulatedProcess {
            agent: job.agent.clone(),
            instance: job.instance.clone(),
            journal: Mutex::default(),
            life: ProcessLife::default(),
        });
        let (script, nth) = self.state().begin_process(&job, &process, self.now());
        let worker = ScriptedWorker::new(job, nth, self.clone(), Arc::clone(&process));
        let kill = process.life.kill.clone();
        // Also if a script panics: a worker that does not exist must not be waited for.
        let gone = process.life.gone.clone().drop_guard();
        let machine = self.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = machine.wait_until_killed(&kill) => {}
                () = live_process(worker, script) => {}
            }
            drop(gone);
        });
        process
    }

    /// Completes when a worker that was asked to stop exits.
    async fn wait_until_killed(&self, kill: &CancellationToken) {
        kill.cancelled().await;
        let stubborn = self.state().exit_delay;
        tokio::time::sleep(stubborn).await;
    }

    fn spawn_shell(
        &self,
        command: ShellCommand,
        shell: ShellScript,
    ) -> (Arc<ProcessLife>, oneshot::Receiver<ShellOutcome>) {
        let (say, end) = oneshot::channel();
        let life = Arc::new(ProcessLife::default());
        self.state().begin_shell(command.run, &life);
        let kill = life.kill.clone();
        let gone = life.gone.clone().drop_guard();
        self.tracker.spawn(async move {
            tokio::select! {
                () = kill.cancelled() => {}
                end = shell(command) => drop(say.send(end)),
            }
            drop(gone);
        });
        (life, end)
    }

    /// Ends the live shell commands of a run, and checks once more, as for real processes.
    async fn end_shells(&self, run: RunId) -> u32 {
        let shells = self.state().shells.clone();
        let mut ended = 0;
        for (_, life) in shells.iter().filter(|(of, life)| *of == run && life.is_alive()) {
            life.end().await;
            ended += 1;
            tokio::time::sleep(EXIT_POLL_INTERVAL).await;
        }
        ended
    }

    async fn wait(&self, process: &SimulatedProcess, stop: &CancellationToken) -> WorkerExit {
        let ended = tokio::select! {
            () = process.life.gone.cancelled() => 0,
            () = stop.cancelled() => {
                process.life.end().await;
                1
            }
        };
        let status = Some("exit status: 0".into());
        WorkerExit { seen_alive: true, status, processes_ended: ended, ..WorkerExit::default() }
    }
}

/// Runs a worker that is not killed from its start to its end.
async fn live_process(worker: ScriptedWorker, script: Option<WorkerScript>) {
    if worker.post_event(WorkerEvent::Started { pid: 1, sandbox: None }).await.is_err() {
        return;
    }
    let end = match script {
        Some(script) => script(worker.clone()).await,
        None => ScriptEnd::quiet(),
    };
    match end {
        ScriptEnd::Says(finished) => worker.finish(finished).await,
        ScriptEnd::Crashes => {}
    }
}
