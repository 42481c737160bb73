//! The simulated machine of the workers: it outlives every kernel, as processes outlive a daemon.

mod runner;

use std::{
    collections::{BTreeMap, HashMap},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use agent_worker_kernel::{
    Kernel, ShellCommand, ShellOutcome, TaskCommandEnd, TaskProcess, VirtualClock,
};
use agent_worker_protocol::{AgentName, AttemptId, InstanceRef, NumberedEvent, RunId, WorkerJob};
use agent_worker_store::Now;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::scripted_worker::{ScriptEnd, ScriptedWorker};

type ScriptFn<In, Out> = Arc<dyn Fn(In) -> Pin<Box<dyn Future<Output = Out> + Send>> + Send + Sync>;
type WorkerScript = ScriptFn<ScriptedWorker, ScriptEnd>;
type ShellScript = ScriptFn<ShellCommand, ShellOutcome>;

/// A cloneable handle to everything outside of the kernel.
#[derive(Clone)]
pub(crate) struct Machine {
    clock: VirtualClock,
    daemon: watch::Sender<Option<Kernel>>,
    tracker: TaskTracker,
    state: Arc<Mutex<MachineState>>,
}

#[derive(Default)]
struct MachineState {
    scripts: HashMap<AgentName, WorkerScript>,
    shell: Option<ShellScript>,
    commands: Vec<ShellCommand>,
    shells: Vec<(RunId, Arc<ProcessLife>)>,
    erased: Vec<RunId>,
    exit_delay: Duration,
    is_held: bool,
    environments: HashMap<RunId, BTreeMap<String, String>>,
    processes: HashMap<AttemptId, Arc<SimulatedProcess>>,
    tasks: HashMap<TaskProcess, SimulatedTask>,
    turns: Vec<StartedTurn>,
    peak: PeakConcurrency,
}

/// One simulated worker process.
pub(crate) struct SimulatedProcess {
    agent: AgentName,
    instance: InstanceRef,
    pub(crate) journal: Mutex<Vec<NumberedEvent>>,
    life: ProcessLife,
}

/// One simulated process of a task's command.
#[derive(Clone)]
struct SimulatedTask {
    halt: CancellationToken,
    end: watch::Receiver<Option<TaskCommandEnd>>,
}

/// Life and end of a process.
#[derive(Default)]
struct ProcessLife {
    kill: CancellationToken,
    gone: CancellationToken,
}

/// One attempt as observed at its start.
#[derive(Clone, Debug)]
pub(crate) struct StartedTurn {
    pub(crate) agent: AgentName,
    pub(crate) number: u32,
    pub(crate) woken_by: String,
    pub(crate) prompt: String,
    pub(crate) began: Now,
}

/// Maximum numbers of processes at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeakConcurrency {
    pub(crate) on_the_machine: usize,
    pub(crate) in_one_instance: usize,
    pub(crate) of_one_agent: usize,
    pub(crate) shells: usize,
}

impl Machine {
    pub(crate) fn new(clock: VirtualClock) -> Self {
        let (daemon, _) = watch::channel(None);
        Self { clock, daemon, tracker: TaskTracker::new(), state: Arc::default() }
    }

    /// Sets the script of an agent for all its attempts. Without one an attempt ends ok at once without a text.
    pub(crate) fn set_worker_script<F, S>(&self, agent: &str, script: S)
    where
        S: Fn(ScriptedWorker) -> F + Send + Sync + 'static,
        F: Future<Output = ScriptEnd> + Send + 'static,
    {
        let script: WorkerScript = Arc::new(move |worker| Box::pin(script(worker)));
        self.state().scripts.insert(agent.parse().unwrap(), script);
    }

    /// Sets the mark of a stop by the user.
    pub(crate) fn hold_next_daemon(&self) {
        self.state().is_held = true;
    }

    /// Sets the behaviour of shell commands. Without it they print nothing and succeed.
    pub(crate) fn set_shell_script<F, S>(&self, shell: S)
    where
        S: Fn(ShellCommand) -> F + Send + Sync + 'static,
        F: Future<Output = ShellOutcome> + Send + 'static,
    {
        let shell: ShellScript = Arc::new(move |command| Box::pin(shell(command)));
        self.state().shell = Some(shell);
    }

    /// Attaches a kernel that workers can reach.
    pub(crate) fn attach_kernel(&self, kernel: Kernel) {
        self.daemon.send_replace(Some(kernel));
    }

    /// Detaches the kernel: workers reach none for now.
    pub(crate) fn detach_kernel(&self) {
        self.daemon.send_replace(None);
    }

    pub(crate) fn has_kernel(&self) -> bool {
        self.daemon.borrow().is_some()
    }

    /// Returns the kernel, once there is one.
    pub(crate) async fn daemon(&self) -> Kernel {
        let mut daemon = self.daemon.subscribe();
        let kernel = daemon.wait_for(Option::is_some).await.unwrap().clone();
        kernel.unwrap()
    }

    /// Returns every attempt that started, in order.
    pub(crate) fn turns(&self) -> Vec<StartedTurn> {
        self.state().turns.clone()
    }

    /// Returns every attempt of one agent, in order.
    pub(crate) fn turns_of(&self, agent: &str) -> Vec<StartedTurn> {
        let agent: AgentName = agent.parse().unwrap();
        self.turns().into_iter().filter(|turn| turn.agent == agent).collect()
    }

    /// Returns every shell command that ran, in order.
    pub(crate) fn commands(&self) -> Vec<ShellCommand> {
        self.state().commands.clone()
    }

    pub(crate) fn peak_concurrency(&self) -> PeakConcurrency {
        self.state().peak
    }

    /// Returns the number of live workers.
    pub(crate) fn live_worker_count(&self) -> usize {
        self.state().processes.values().filter(|process| process.is_alive()).count()
    }

    /// Kills every worker without a final report, and waits until all are gone.
    pub(crate) async fn kill_all(&self) {
        let processes: Vec<_> = self.state().processes.values().cloned().collect();
        for process in processes {
            process.life.end().await;
        }
    }

    /// Waits until every worker has exited on its own.
    pub(crate) async fn wait_until_empty(&self) {
        let processes: Vec<_> = self.state().processes.values().cloned().collect();
        for process in processes {
            process.life.gone.cancelled().await;
        }
    }

    /// Waits until the workers of an agent have exited on their own.
    pub(crate) async fn wait_until_left(&self, agent: &str) {
        let processes: Vec<_> = self.state().processes.values().cloned().collect();
        for process in processes.into_iter().filter(|process| process.agent.to_string() == agent) {
            process.life.gone.cancelled().await;
        }
    }

    /// Returns the number of live shell commands.
    pub(crate) fn shells(&self) -> usize {
        self.state().shells.iter().filter(|(_, life)| life.is_alive()).count()
    }

    /// Sets the delay with which workers exit after a stop.
    pub(crate) fn set_exit_delay(&self, time: Duration) {
        self.state().exit_delay = time;
    }

    /// Returns the runs whose logs were deleted.
    pub(crate) fn erased_runs(&self) -> Vec<RunId> {
        self.state().erased.clone()
    }

    /// Returns the stored environment of a run.
    pub(crate) fn environment(&self, run: RunId) -> BTreeMap<String, String> {
        self.state().environments.get(&run).cloned().unwrap_or_default()
    }

    /// Removes the stored environment of every run.
    pub(crate) fn lose_environments(&self) {
        self.state().environments.clear();
    }

    /// Returns true if a run's environment is still stored.
    pub(crate) fn keeps_environment(&self, run: RunId) -> bool {
        self.state().environments.contains_key(&run)
    }

    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    fn state(&self) -> MutexGuard<'_, MachineState> {
        self.state.lock().unwrap()
    }
}

impl MachineState {
    fn begin_process(
        &mut self,
        job: &WorkerJob,
        process: &Arc<SimulatedProcess>,
        began: Now,
    ) -> (Option<WorkerScript>, usize) {
        self.processes.insert(job.attempt, Arc::clone(process));
        self.turns.push(StartedTurn {
            agent: job.agent.clone(),
            number: job.number,
            woken_by: job.woken_by.clone(),
            prompt: job.prompt.clone(),
            began,
        });
        let alive: Vec<_> = self.processes.values().filter(|one| one.is_alive()).collect();
        let here = alive.iter().filter(|one| one.instance == process.instance);
        let same = here.clone().filter(|one| one.agent == process.agent).count();
        let PeakConcurrency { on_the_machine, in_one_instance, of_one_agent, shells } = self.peak;
        self.peak = PeakConcurrency {
            on_the_machine: on_the_machine.max(alive.len()),
            in_one_instance: in_one_instance.max(here.count()),
            of_one_agent: of_one_agent.max(same),
            shells,
        };
        let nth = self.turns.iter().filter(|turn| turn.agent == job.agent).count();
        (self.scripts.get(&job.agent).cloned(), nth)
    }

    fn begin_shell(&mut self, run: RunId, life: &Arc<ProcessLife>) {
        self.shells.push((run, Arc::clone(life)));
        let alive = self.shells.iter().filter(|(_, life)| life.is_alive()).count();
        self.peak.shells = self.peak.shells.max(alive);
    }
}

impl SimulatedProcess {
    fn is_alive(&self) -> bool {
        self.life.is_alive()
    }
}

impl ProcessLife {
    fn is_alive(&self) -> bool {
        !self.gone.is_cancelled()
    }

    /// Kills the process and waits until it is gone.
    async fn end(&self) {
        self.kill.cancel();
        self.gone.cancelled().await;
    }
}
