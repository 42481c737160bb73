//! Workers as tasks of the machine: the kernel's future for one may be dropped, the worker goes on.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
};

use agent_worker_kernel::{AttemptPlace, Departure, Runner, ShellCommand, ShellEnd, Sighting};
use agent_worker_protocol::{AttemptId, NumberedEvent, RunId, WorkerEvent, WorkerJob};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{Machine, Process, Script};
use crate::worker::{End, Worker};

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
        0
    }

    async fn run_leftovers(&self) -> io::Result<Vec<RunId>> {
        Ok(Vec::new())
    }

    async fn run_erase(&self, _run: RunId) -> io::Result<()> {
        Ok(())
    }

    fn place(&self, _run: RunId, attempt: AttemptId) -> AttemptPlace {
        AttemptPlace { folder: format!("/attempts/{attempt}").into(), socket: "/socket".into() }
    }

    async fn attempt(&self, _run: RunId, job: WorkerJob, stop: CancellationToken) -> Departure {
        let process = self.spawn(job);
        self.wait(&process, &stop).await
    }

    async fn attempt_look(&self, _run: RunId, attempt: AttemptId) -> Sighting {
        match self.state().processes.get(&attempt) {
            Some(process) if process.is_alive() => Sighting::Alive,
            Some(_) | None => Sighting::Gone,
        }
    }

    async fn attempt_adopt(
        &self,
        _run: RunId,
        attempt: AttemptId,
        stop: CancellationToken,
    ) -> Departure {
        let process = self.state().processes.get(&attempt).cloned();
        self.wait(&process.unwrap(), &stop).await
    }

    async fn attempt_events(
        &self,
        _run: RunId,
        attempt: AttemptId,
        after: i64,
    ) -> io::Result<Vec<NumberedEvent>> {
        let process = self.state().processes.get(&attempt).cloned();
        Ok(process.map(|process| process.written_after(after)).unwrap_or_default())
    }

    async fn marks(&self) -> Vec<AttemptId> {
        Vec::new()
    }
    async fn attempt_sweep(&self, _attempt: AttemptId) -> u32 {
        0
    }

    async fn shell(&self, command: ShellCommand, stop: CancellationToken) -> io::Result<ShellEnd> {
        let shell = self.state().shell.clone();
        self.state().commands.push(command.clone());
        let Some(shell) = shell else {
            return Ok(ShellEnd { status: Some(0), ..ShellEnd::default() });
        };
        tokio::select! {
            end = shell(command) => Ok(end),
            () = stop.cancelled() => Ok(ShellEnd::default()),
        }
    }
}

impl Machine {
    fn spawn(&self, job: WorkerJob) -> Arc<Process> {
        let process = Arc::new(Process {
            agent: job.agent.clone(),
            instance: job.instance.clone(),
            journal: Mutex::default(),
            kill: CancellationToken::new(),
            gone: CancellationToken::new(),
        });
        let (script, nth) = self.state().begin(&job, &process, self.now());
        let worker = Worker::new(job, nth, self.clone(), Arc::clone(&process));
        let kill = process.kill.clone();
        // Also when a script panics: a worker that is not there must not be waited for.
        let gone = process.gone.clone().drop_guard();
        self.tracker.spawn(async move {
            tokio::select! {
                () = kill.cancelled() => {}
                () = live(worker, script) => {}
            }
            drop(gone);
        });
        process
    }

    async fn wait(&self, process: &Process, stop: &CancellationToken) -> Departure {
        let ended = tokio::select! {
            () = process.gone.cancelled() => 0,
            () = stop.cancelled() => {
                process.kill.cancel();
                process.gone.cancelled().await;
                1
            }
        };
        Departure { seen_alive: true, status: Some("exit status: 0".into()), ended }
    }
}

/// The whole life of a worker that nobody kills.
async fn live(worker: Worker, script: Option<Script>) {
    if worker.tell(WorkerEvent::Started { pid: 1 }).await.is_err() {
        return;
    }
    let end = match script {
        Some(script) => script(worker.clone()).await,
        None => End::quiet(),
    };
    match end {
        End::Says(finished) => worker.finish(finished).await,
        End::Crashes => {}
    }
}
