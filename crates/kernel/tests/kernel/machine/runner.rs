//! Workers and shell commands as tasks of the machine: the kernel's future for one may be dropped, the process goes on.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_kernel::{
    AttemptPlace, Departure, EventTail, Mark, Runner, ShellCommand, ShellEnd, Sighting,
};
use agent_worker_protocol::{AttemptId, RunId, WorkerEvent, WorkerJob};
use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Life, Machine, Process, Script, Shell};
use crate::worker::{End, Worker};

/// How long it takes to see that a process is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

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

    async fn run_leftovers(&self) -> io::Result<Vec<RunId>> {
        Ok(Vec::new())
    }

    async fn run_erase(&self, run: RunId) -> io::Result<()> {
        self.state().erased.push(run);
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

    async fn marks(&self) -> Vec<Mark> {
        Vec::new()
    }

    async fn attempt_sweep(&self, attempt: AttemptId) -> u32 {
        self.end_shells(RunId::new(attempt.get())).await
    }

    async fn shell(&self, command: ShellCommand, stop: CancellationToken) -> io::Result<ShellEnd> {
        let shell = self.state().shell.clone();
        self.state().commands.push(command.clone());
        let Some(shell) = shell else {
            return Ok(ShellEnd { status: Some(0), ..ShellEnd::default() });
        };
        let (life, mut end) = self.spawn_shell(command, shell);
        tokio::select! {
            () = life.gone.cancelled() => {}
            () = stop.cancelled() => life.end().await,
        }
        // Without a word when a signal ended it.
        Ok(end.try_recv().unwrap_or_default())
    }
}

impl Machine {
    fn spawn(&self, job: WorkerJob) -> Arc<Process> {
        let process = Arc::new(Process {
            agent: job.agent.clone(),
            instance: job.instance.clone(),
            journal: Mutex::default(),
            life: Life::default(),
        });
        let (script, nth) = self.state().begin(&job, &process, self.now());
        let worker = Worker::new(job, nth, self.clone(), Arc::clone(&process));
        let kill = process.life.kill.clone();
        // Also when a script panics: a worker that is not there must not be waited for.
        let gone = process.life.gone.clone().drop_guard();
        let machine = self.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = machine.dies(&kill) => {}
                () = live(worker, script) => {}
            }
            drop(gone);
        });
        process
    }

    /// Returns when a worker that was told to end does.
    async fn dies(&self, kill: &CancellationToken) {
        kill.cancelled().await;
        let stubborn = self.state().stubborn;
        tokio::time::sleep(stubborn).await;
    }

    fn spawn_shell(
        &self,
        command: ShellCommand,
        shell: Shell,
    ) -> (Arc<Life>, oneshot::Receiver<ShellEnd>) {
        let (say, end) = oneshot::channel();
        let life = Arc::new(Life::default());
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

    /// Ends what lives of a run's shell commands, and looks once more, as one has to with processes.
    async fn end_shells(&self, run: RunId) -> u32 {
        let shells = self.state().shells.clone();
        let mut ended = 0;
        for (_, life) in shells.iter().filter(|(of, life)| *of == run && life.is_alive()) {
            life.end().await;
            ended += 1;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        ended
    }

    async fn wait(&self, process: &Process, stop: &CancellationToken) -> Departure {
        let ended = tokio::select! {
            () = process.life.gone.cancelled() => 0,
            () = stop.cancelled() => {
                process.life.end().await;
                1
            }
        };
        let status = Some("exit status: 0".into());
        Departure { seen_alive: true, status, ended, ..Departure::default() }
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
