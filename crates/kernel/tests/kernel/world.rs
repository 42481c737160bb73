//! The inside of one daemon: a kernel on a real store, with scripted workers and a virtual clock.
//!
//! Time passes only when no task has work, so the time of an event is exact and no test sleeps to be sure.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, mpsc::RecvTimeoutError},
    time::Duration,
};

use agent_worker_kernel::{
    ChannelQuery, Clock, Error, InstanceSelector, Kernel, KernelParts, Options, PageRequest,
    Principal, RandomSource, RecoverySummary, VirtualClock, WatchSubject,
};
use agent_worker_protocol::{
    Code, Event, EventKind, Message, Millis, Priority, Problem, Receipt, RunId, RunMode, Seq,
    Target,
    api::{RunRequest, RunStarted, RunStopped, RunView, SendReply, SendRequest},
};
use agent_worker_store::{Database, Now, Store};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::{
    machine::Machine,
    paused_clock_store::{InjectedFault, PausedClockStore},
};

/// Time limit of an expected event, by the virtual clock.
const VIRTUAL_TIMEOUT: Duration = Duration::from_hours(24);
/// Time limit of an expected event, by a real clock.
const REAL_TIMEOUT: Duration = Duration::from_mins(1);

/// The location of a test's rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    Memory,
    File,
}

pub(crate) struct KernelWorld {
    pub(crate) kernel: Kernel,
    pub(crate) machine: Machine,
    pub(crate) store: Arc<PausedClockStore>,
    sqlite: Database,
    disk: StoreLocation,
    folder: TempDir,
    pub(crate) clock: VirtualClock,
    began: Now,
    dice: RandomSource,
    options: Options,
}

/// Returns a workflow file with these agents and further content.
pub(crate) fn team(agents: &str, rest: &str) -> String {
    let agents = agents.split_whitespace().map(|name| format!("  {name}: {{ backend: mock }}\n"));
    format!("agents:\n{}{rest}\n", agents.collect::<String>())
}

/// Returns the selector of a typed target.
pub(crate) fn instance_selector(target: &str) -> InstanceSelector {
    InstanceSelector { target: Some(target.parse().unwrap()), project: None }
}

/// Returns the request to send a message to `target`.
pub(crate) fn send_request(target: Option<&str>, message: &str) -> SendRequest {
    let target: Option<Target> = target.map(|target| target.parse().unwrap());
    let message = message.to_owned();
    let (to, cc) = (Vec::new(), Vec::new());
    SendRequest {
        target,
        project: None,
        message,
        to,
        cc,
        reply_to: None,
        alone: false,
        now: false,
        priority: Priority::Normal,
        attachments: Vec::new(),
    }
}

impl KernelWorld {
    pub(crate) async fn new() -> Self {
        Self::with(StoreLocation::Memory, Options::default(), 1).await
    }

    pub(crate) async fn on_disk() -> Self {
        Self::with(StoreLocation::File, Options::default(), 1).await
    }

    pub(crate) async fn with(disk: StoreLocation, options: Options, seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = open(disk, &folder);
        let store = Arc::new(PausedClockStore::new(sqlite.clone()));
        let (clock, dice) = (VirtualClock::start(), RandomSource::seeded(seed << 32));
        let machine = Machine::new(clock.clone());
        let kernel = Kernel::new(parts(&store, &machine, &clock, &dice, options));
        kernel.recover().await.unwrap();
        machine.attach_kernel(kernel.clone());
        let began = clock.now();
        Self { kernel, machine, store, sqlite, disk, folder, clock, began, dice, options }
    }

    /// Stops the daemon; the workers continue without one.
    pub(crate) async fn stop_daemon(&self) {
        self.machine.detach_kernel();
        within(self.kernel.close()).await;
    }

    /// Drains the daemon, with this many seconds for its workers.
    pub(crate) async fn drain(&self, seconds: u64) {
        within(self.kernel.drain(Duration::from_secs(seconds))).await;
    }

    /// Stops a run as the user.
    pub(crate) async fn stop(&self, run: RunId) -> Result<RunStopped, Error> {
        within(self.kernel.runs().stop(&Principal::User, run)).await
    }

    /// Starts the next daemon on the state of the previous one.
    pub(crate) async fn restart_daemon(&mut self) -> RecoverySummary {
        self.replace_kernel().await;
        let recovered = self.kernel.recover().await.unwrap();
        self.machine.attach_kernel(self.kernel.clone());
        recovered
    }

    /// Starts the next daemon while the disk is full for the next call of `method`; it takes over later.
    pub(crate) async fn restart_on_full_disk(&mut self, method: &'static str) {
        self.replace_kernel().await;
        self.store.inject_fault(method, InjectedFault::Full);
        let refused = self.kernel.recover().await.unwrap_err();
        assert!(refused.is_disk_fault(), "{method}: {refused}");
        self.kernel.recover_in_background();
        self.machine.attach_kernel(self.kernel.clone());
    }

    async fn replace_kernel(&mut self) {
        if self.disk == StoreLocation::File {
            // The clock stands still meanwhile: a machine under load takes long for this.
            self.store.close().await;
            self.sqlite = open(self.disk, &self.folder);
            self.store = Arc::new(PausedClockStore::new(self.sqlite.clone()));
        }
        let parts = parts(&self.store, &self.machine, &self.clock, &self.dice, self.options);
        self.kernel = Kernel::new(parts);
    }

    /// Starts a run of this file like `agent-worker run`.
    pub(crate) async fn run(&self, file: &str) -> RunId {
        self.begin_run(RunMode::Run, "team", file).await.unwrap().run
    }

    /// Starts a run of this file like `agent-worker start`.
    pub(crate) async fn start(&self, file: &str) -> RunId {
        self.begin_run(RunMode::Start, "team", file).await.unwrap().run
    }

    /// Starts a run with a name for the workflow.
    pub(crate) async fn begin_run(
        &self,
        mode: RunMode,
        name: &str,
        file: &str,
    ) -> Result<RunStarted, Error> {
        self.kernel.runs().create(&Principal::User, self.run_request(mode, name, file)).await
    }

    /// Writes the file and returns the request to run it; `name` may contain a folder.
    pub(crate) fn run_request(&self, mode: RunMode, name: &str, file: &str) -> RunRequest {
        let path = self.folder.path().join(format!("{name}.yaml"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, file).unwrap();
        RunRequest {
            source: None,
            file: path,
            cwd: self.folder.path().to_owned(),
            tag: None,
            mode,
            params: [].into(),
            env: [("PATH".to_owned(), "/bin".to_owned())].into(),
            replace: false,
            defaults: None,
        }
    }

    /// Returns the folder of the test's files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sends a message of the user to the team's channel.
    pub(crate) async fn send_to_team(&self, message: &str) -> SendReply {
        let request = send_request(Some("@team"), message);
        self.kernel.messages().send(&Principal::User, None, request).await.unwrap()
    }

    /// Returns every event of a run, from its first to its last.
    pub(crate) async fn events_of(&self, run: RunId) -> Vec<Event> {
        let watched = WatchSubject::Run(run);
        let mut feed = self.kernel.runs().watch(&Principal::User, watched, None).await.unwrap();
        let mut events = Vec::new();
        within(async {
            while let Some(event) = feed.next().await.unwrap() {
                events.push(event);
            }
        })
        .await;
        events
    }

    /// Waits for the end of a run.
    pub(crate) async fn wait_until_ended(&self, run: RunId) -> RunView {
        self.events_of(run).await;
        self.view(run).await
    }

    /// Waits for the first event of a run that is `wanted`.
    pub(crate) async fn wait_for_event(
        &self,
        run: RunId,
        wanted: impl Fn(&Event) -> bool,
    ) -> Event {
        let watched = WatchSubject::Run(run);
        let mut feed = self.kernel.runs().watch(&Principal::User, watched, None).await.unwrap();
        within(async {
            loop {
                let event = feed.next().await.unwrap().expect("the run ended without it");
                if wanted(&event) {
                    return event;
                }
            }
        })
        .await
    }

    /// Waits until a run is paused.
    pub(crate) async fn wait_until_paused(&self, run: RunId) -> Event {
        self.wait_for_event(run, |event| event.kind() == Some(EventKind::RunPaused)).await
    }

    /// Waits until an agent's worker has reported for the `nth` time, from 1.
    pub(crate) async fn wait_for_report(&self, run: RunId, agent: &str, nth: usize) -> Event {
        let seen = std::cell::Cell::new(0);
        self.wait_for_event(run, |event| {
            let its = event.agent.as_ref().is_some_and(|name| name.to_string() == agent);
            seen.set(
                seen.get() + usize::from(its && event.kind() == Some(EventKind::AttemptRunning)),
            );
            seen.get() == nth
        })
        .await
    }

    pub(crate) async fn view(&self, run: RunId) -> RunView {
        self.kernel.runs().view(&Principal::User, run).await.unwrap()
    }

    /// Returns all messages of the team's channel.
    pub(crate) async fn channel(&self) -> Vec<Message> {
        let reading =
            ChannelQuery { page: PageRequest::whole(), all_runs: true, ..ChannelQuery::default() };
        let place = instance_selector("@team");
        self.kernel.messages().list(&Principal::User, &place, reading).await.unwrap().items
    }

    /// Returns the receipts of one of the team's messages.
    pub(crate) async fn receipts(&self, seq: i64) -> Vec<Receipt> {
        let (place, seq) = (instance_selector("@team"), Seq::new(seq));
        self.kernel
            .messages()
            .receipts(&Principal::User, &place, seq, &PageRequest::whole())
            .await
            .unwrap()
            .items
    }

    /// Lets virtual time pass for all tasks.
    pub(crate) async fn pass_time(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    /// Returns the milliseconds of wall time between the start of the world and `instant`.
    pub(crate) fn wall_after(&self, instant: Millis) -> i64 {
        instant.get() - self.began.wall.get()
    }

    /// Returns the milliseconds of store time between the start of the world and `instant`.
    pub(crate) fn after(&self, instant: Now) -> i64 {
        instant.store.get() - self.began.store.get()
    }
}

/// Fails after a time limit: by the virtual clock, and by a real one for a kernel that never becomes idle.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    let (too_late, late) = oneshot::channel();
    let (_done, is_done) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if is_done.recv_timeout(REAL_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            let _ = too_late.send(());
        }
    });
    tokio::select! {
        done = tokio::time::timeout(VIRTUAL_TIMEOUT, work) => {
            done.expect("a day has passed and it did not happen")
        }
        Ok(()) = late => panic!("the kernel never rests"),
    }
}

/// Returns the problem of a failed call.
pub(crate) fn problem<T>(answer: Result<T, Error>) -> Problem {
    Problem::from(&answer.err().expect("it went well"))
}

/// Returns the code of a failed call, or none.
pub(crate) fn code<T>(answer: Result<T, Error>) -> Option<Code> {
    answer.err().map(|error| Problem::from(&error).code)
}

fn open(disk: StoreLocation, folder: &TempDir) -> Database {
    match disk {
        StoreLocation::Memory => Database::in_memory().unwrap(),
        StoreLocation::File => Database::open(folder.path()).unwrap(),
    }
}

fn parts(
    store: &Arc<PausedClockStore>,
    machine: &Machine,
    clock: &VirtualClock,
    dice: &RandomSource,
    options: Options,
) -> KernelParts {
    let store: Arc<dyn Store> = store.clone();
    let clock = Clock::Virtual(clock.clone());
    let (runner, random) = (Arc::new(machine.clone()), dice.clone());
    KernelParts {
        store,
        runner,
        clock,
        random,
        options,
        base_env: BTreeMap::new(),
        secrets: agent_worker_protocol::SecretFilter::default(),
    }
}
