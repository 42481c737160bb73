//! The lifecycle of a daemon: one owner of the home, recovery, listeners, and an orderly shutdown.
//!
//! Invariant: the daemon takes the lock before it reads anything and releases it after everything is closed.
//! Invariant: no listener opens before the work of the previous daemon is taken over.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agent_worker_host::{
    Durability, LockFile, Process, adopt_orphans, own_marks, port_holder, run_blocking,
    write_atomically,
};
use agent_worker_kernel::{Clock, Kernel, KernelParts, Options, Principal, RandomSource};
use agent_worker_protocol::{BASE_ENV, Millis, SecretFilter, Span, api::ShutdownMode};
use agent_worker_store::{MultiStore, Store};
use serde::Serialize;
use tokio::{
    net::{TcpListener, UnixListener},
    signal::unix::{SignalKind, signal},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    exit_deadline::ExitDeadline,
    home::{DaemonHome, HomeError},
    http::{AppState, HealthFacts, HttpService, Revocations, StreamCounts},
    listeners::Listeners,
    log,
    mcp::McpFixtures,
    notify::Notifier,
    peer::Callers,
    runner::{Cgroups, ProcessRunner, Tracking},
    shutdown::Shutdown,
};

/// Port for clients that the daemon prefers if none is requested.
const DEFAULT_PORT: u16 = 5099;

/// Time for responses in progress after everything else has stopped.
const RESPONSE_DRAIN_TIMEOUT: Duration = Duration::from_millis(300);

/// Time for the store to finish its writes and close its files.
const STORE_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time of a shutdown after the grace periods. After it the process ends whatever its threads do.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time for which the lock of a dead daemon may outlive it.
const LOCK_RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The settings of a daemon.
#[derive(Clone)]
pub struct DaemonSettings {
    /// Home folder of the daemon.
    pub home: PathBuf,
    /// TCP port for clients. A requested port must be free; without one, the daemon prefers 5099 and takes
    /// another free one if that is in use.
    pub port: Option<u16>,
    /// Other users of the machine who may connect to the port.
    pub allowed_uids: Vec<u32>,
    /// Limits of concurrency and timeouts of the kernel.
    pub options: Options,
    /// Grace period for workers at shutdown.
    pub drain_grace: Span,
    /// The way in which processes of attempts are tracked.
    pub tracking: Tracking,
    /// The origin of the daemon's start.
    pub started_by: StartedBy,
    /// Version of the program.
    pub version: String,
    /// Environment of the daemon: that of the command that started it.
    pub env: BTreeMap<String, String>,
    /// The fixtures that `/mcp` offers to a test suite; none in the product.
    pub fixtures: Option<Arc<dyn McpFixtures>>,
}

/// The origin of a daemon's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartedBy {
    /// A person started the daemon and watches it.
    Person,
    /// A command started the daemon, waits for `ready` on stdout and then continues on its own.
    Command,
}

/// The reason why a daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The home folder cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Another daemon runs in the home folder.
    #[error("a daemon is already running in {home} (pid {pid})")]
    AlreadyRunning {
        /// Path of the home folder.
        home: PathBuf,
        /// Pid of the running daemon.
        pid: u32,
    },
    /// A process of an agent or a setup command tried to be the daemon of its own home.
    #[error(
        "this process belongs to an agent or a setup command, which cannot be the daemon of its own team; start the daemon from your shell"
    )]
    StartedByAgent,
    /// A process that is not a daemon holds the lock.
    #[error(
        "{lock} is held by a process that is not a daemon; find that process with `fuser {lock}` and end it first"
    )]
    LockHeld {
        /// Path of the lock file.
        lock: PathBuf,
    },
    /// The requested port is not available.
    #[error("{0}; choose another one with --port or AGENT_WORKER_PORT")]
    Port(String),
    /// Opening the store failed.
    #[error("the store cannot be opened")]
    Store(#[from] agent_worker_store::Error),
    /// Recovery of unfinished work failed.
    #[error("recovery of unfinished work failed")]
    Recovery(#[from] agent_worker_kernel::Error),
    /// The operating system refused an operation.
    #[error("{doing} failed")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// Cause of the failure.
        #[source]
        error: io::Error,
    },
}

/// Content of `daemon.json`, for people and for tools that need the port.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DaemonInfoFile {
    pid: u32,
    start_time: Option<u64>,
    host: Option<String>,
    port: Option<u16>,
    started_at: Millis,
    version: String,
}

/// Runs a daemon until it is asked to stop.
pub async fn serve(settings: DaemonSettings) -> Result<(), Error> {
    let home = DaemonHome::open(&settings.home)?;
    refuse_own_agents(&home)?;
    let lock = lock_home(&home).await?;
    log::init_logging(&home, settings.started_by).map_err(io_error("starting the log"))?;
    become_daemon(settings.started_by);
    let shutdown = Shutdown::default();
    let store = MultiStore::open(home.root()).await?;
    let mut exit_deadline = ExitDeadline::default();
    let result = run_daemon(&settings, &home, &store, &shutdown, &mut exit_deadline).await;
    if tokio::time::timeout(STORE_CLOSE_TIMEOUT, store.close()).await.is_err() {
        tracing::error!("the store did not close in time; the next daemon recovers it");
        // The end of the process releases the lock: until then a thread may still write.
        std::mem::forget(lock);
        return result;
    }
    drop(lock);
    result
}

/// Refuses to be the daemon of a home for a process that an agent or a setup command of this home started.
fn refuse_own_agents(home: &DaemonHome) -> Result<(), Error> {
    let runs = || std::fs::read_dir(home.runs()).into_iter().flatten().flatten();
    // A mark names an attempt, or the run of a setup command.
    let is_ours = |mark: &String| {
        runs().any(|run| run.file_name() == mark.as_str() || run.path().join(mark).exists())
    };
    match own_marks().unwrap_or_default().iter().find(|mark| !mark.is_empty() && is_ours(mark)) {
        Some(_) => Err(Error::StartedByAgent),
        None => Ok(()),
    }
}

/// Takes the lock of the home, unless a living daemon holds it.
///
/// If a daemon was killed while it started a process, that process holds the lock for a moment longer, until it
/// becomes another program; such a process is not an owner, so this function waits for it.
async fn lock_home(home: &DaemonHome) -> Result<LockFile, Error> {
    let deadline = Instant::now() + LOCK_RELEASE_TIMEOUT;
    loop {
        if let Some(lock) =
            LockFile::try_acquire(&home.lock()).map_err(io_error("locking the home"))?
        {
            return Ok(lock);
        }
        let owner = LockFile::holder(&home.lock()).ok().flatten();
        if let Some(pid) = owner.filter(|pid| Process::of(*pid).is_some()) {
            return Err(Error::AlreadyRunning { home: home.root().to_owned(), pid });
        }
        if Instant::now() >= deadline {
            return Err(Error::LockHeld { lock: home.lock() });
        }
        tokio::time::sleep(LOCK_POLL_INTERVAL).await;
    }
}

/// Returns the variables that the commands of clients get. They stay in memory, and each run keeps its copy in its
/// private folder.
fn base_env(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut base = env.clone();
    base.retain(|name, _| BASE_ENV.contains(&name.as_str()));
    base
}

async fn run_daemon(
    settings: &DaemonSettings,
    home: &DaemonHome,
    store: &MultiStore,
    shutdown: &Shutdown,
    exit_deadline: &mut ExitDeadline,
) -> Result<(), Error> {
    let groups = Cgroups::open(home, settings.tracking);
    let kill_grace = settings.options.kill_grace.duration();
    let runner = ProcessRunner::new(home.clone(), kill_grace, groups.clone());
    let workers = runner.workers();
    if let Err(error) = runner.record_left_processes().await {
        tracing::error!(%error, "could not read which processes the commands of tasks left");
    }
    let notify_runner = runner.clone();
    let kernel = Kernel::new(KernelParts {
        store: Arc::new(store.clone()) as Arc<dyn Store>,
        runner: Arc::new(runner),
        clock: Clock::Store,
        random: RandomSource::System,
        options: settings.options,
        base_env: base_env(&settings.env),
        secrets: SecretFilter::from_env(&settings.env),
    });
    let signals = catch_signals().map_err(io_error("catching signals"))?;
    match kernel.recover().await {
        Ok(recovered) => tracing::info!(?recovered, version = settings.version, "ready"),
        // Reads work, and live workers find a daemon; nothing new starts before the disk accepts writes.
        Err(error) if error.is_disk_fault() => {
            tracing::error!(%error, version = settings.version, "ready, but the disk accepts no writes");
            kernel.recover_in_background();
        }
        Err(error) => return Err(error.into()),
    }
    if settings.started_by == StartedBy::Person {
        // A person who starts the daemon wants its work to continue. The recovery needs the hold: its time does not count.
        kernel.health().release_hold(&Principal::User).await?;
    }
    let tracker = TaskTracker::new();
    let closing = CancellationToken::new();
    tracker.spawn(handle_signals(signals, shutdown.clone(), closing.clone()));
    let notify_queue = notify_runner.notify_queue();
    Notifier::new(kernel.clone(), notify_runner, tracker.clone(), closing.clone())
        .start(&notify_queue);
    let callers = Callers { kernel: kernel.clone(), workers };
    start_listeners(settings, home, &callers, shutdown, &tracker, &closing).await?;
    wait_and_drain(&kernel, settings, shutdown, exit_deadline).await;
    // Remove the socket first: a client that connects now finds no daemon and starts the next one.
    for path in [home.socket(), home.info_file()] {
        if let Err(error) = remove_if_exists(&path) {
            tracing::error!(path = %path.display(), %error, "could not remove a file");
        }
    }
    shutdown.close_streams();
    closing.cancel();
    tracker.close();
    let _ = tokio::time::timeout(RESPONSE_DRAIN_TIMEOUT, tracker.wait()).await;
    tracing::info!("stopped");
    Ok(())
}

async fn start_listeners(
    settings: &DaemonSettings,
    home: &DaemonHome,
    callers: &Callers,
    shutdown: &Shutdown,
    tracker: &TaskTracker,
    closing: &CancellationToken,
) -> Result<(), Error> {
    let kernel = &callers.kernel;
    let (tcp, port_conflict) = bind_port(settings.port).await?;
    let address = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
    // We hold the lock, so an existing socket belongs to a dead daemon. Remove both files first: this frees disk
    // space for the new socket, and a stale `daemon.json` that cannot be rewritten would name a dead process.
    remove_if_exists(&home.socket()).map_err(io_error("removing a dead daemon's socket"))?;
    remove_if_exists(&home.info_file())
        .map_err(io_error("removing a dead daemon's daemon.json"))?;
    let unix = UnixListener::bind(home.socket()).map_err(io_error("opening the socket"))?;
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(home.socket(), private)
        .map_err(io_error("restricting the socket to its owner"))?;
    let started = kernel.now().wall;
    let health = HealthFacts {
        pid: std::process::id(),
        home: home.root().to_owned(),
        address,
        started,
        version: settings.version.clone(),
        port_conflict,
    };
    let app_state = AppState {
        kernel: kernel.clone(),
        callers: callers.clone(),
        shutdown: shutdown.clone(),
        revocations: Revocations::default(),
        streams: StreamCounts::default(),
        health,
        hold_mark: home.hold_mark(),
        tasks: tracker.clone(),
        fixtures: settings.fixtures.clone(),
    };
    let listeners = Listeners {
        service: HttpService::new(app_state),
        callers: callers.clone(),
        tracker: tracker.clone(),
        closing: closing.clone(),
        allowed_uids: settings.allowed_uids.clone().into(),
    };
    listeners.serve_socket(unix);
    if let Some(tcp) = tcp {
        listeners.serve_port(tcp);
    }
    if let Err(error) = write_info_file(home, address, started, &settings.version) {
        tracing::error!(%error, "could not write daemon.json; clients find the daemon by its socket");
    }
    if settings.started_by == StartedBy::Command {
        // The command that waited may have given up; the daemon is ready all the same.
        if let Err(error) = announce_ready() {
            tracing::warn!(%error, "could not report `ready` to the starting command");
        }
    }
    Ok(())
}

/// Binds the requested loopback port, which must be free: a client that knows it would send its token to the program that
/// holds it. Without a request, binds the default port or any free one, and returns the holder of the default port; without
/// any port the daemon still starts.
async fn bind_port(requested: Option<u16>) -> Result<(Option<TcpListener>, Option<String>), Error> {
    let bind = async |port| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await;
    let port = requested.unwrap_or(DEFAULT_PORT);
    let error = match bind(port).await {
        Ok(listener) => return Ok((Some(listener), None)),
        Err(error) => error,
    };
    let holder = run_blocking(move || port_holder(port)).await.flatten();
    let conflict = match holder {
        Some(holder) => format!("port {port} is held by {holder}"),
        None => format!("port {port} cannot be opened: {error}"),
    };
    if requested.is_some() {
        return Err(Error::Port(conflict));
    }
    tracing::warn!(conflict, "the default port is not available");
    let other = bind(0).await.inspect_err(|error| tracing::warn!(%error, "no port is free"));
    Ok((other.ok(), Some(conflict)))
}

async fn wait_and_drain(
    kernel: &Kernel,
    settings: &DaemonSettings,
    shutdown: &Shutdown,
    exit_deadline: &mut ExitDeadline,
) {
    let drain_grace = settings.drain_grace.duration();
    let limit = settings.options.kill_grace.duration() + SHUTDOWN_TIMEOUT;
    match shutdown.wait_for_request().await {
        ShutdownMode::Handover => {
            exit_deadline.arm(limit);
            kernel.close().await;
        }
        ShutdownMode::Now => {
            exit_deadline.arm(limit);
            kernel.drain_now().await;
        }
        ShutdownMode::Drain => {
            exit_deadline.arm(drain_grace + limit);
            let urgent = async {
                shutdown.wait_for_now().await;
                exit_deadline.arm(limit);
                kernel.drain_now().await;
            };
            tokio::select! {
                () = kernel.drain(drain_grace) => {}
                () = urgent => {}
            }
        }
    }
}

struct DaemonSignals {
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
    hup: tokio::signal::unix::Signal,
}

fn catch_signals() -> io::Result<DaemonSignals> {
    Ok(DaemonSignals {
        term: signal(SignalKind::terminate())?,
        int: signal(SignalKind::interrupt())?,
        hup: signal(SignalKind::hangup())?,
    })
}

/// Handles signals: the first one drains, the second one stops now.
async fn handle_signals(
    mut signals: DaemonSignals,
    shutdown: Shutdown,
    closing: CancellationToken,
) {
    for mode in [ShutdownMode::Drain, ShutdownMode::Now] {
        tokio::select! {
            _ = signals.term.recv() => {}
            _ = signals.int.recv() => {}
            _ = signals.hup.recv() => {}
            () = closing.cancelled() => return,
        }
        shutdown.request(mode);
    }
}

/// Detaches from the terminal of the starting command, and becomes the subreaper of its process trees.
fn become_daemon(started_by: StartedBy) {
    if started_by == StartedBy::Command
        && let Err(error) = rustix::process::setsid()
    {
        tracing::warn!(%error, "setsid failed; staying in the session of the starting command");
    }
    if let Err(error) = adopt_orphans() {
        tracing::warn!(%error, "could not become a subreaper; orphans of workers will not be detected");
    }
}

fn write_info_file(
    home: &DaemonHome,
    address: Option<SocketAddr>,
    started_at: Millis,
    version: &str,
) -> io::Result<()> {
    let pid = std::process::id();
    let info = DaemonInfoFile {
        pid,
        start_time: Process::of(pid).map(|process| process.start_time),
        host: address.map(|address| address.ip().to_string()),
        port: address.map(|address| address.port()),
        started_at,
        version: version.to_owned(),
    };
    let content = serde_json::to_vec_pretty(&info)?;
    write_atomically(&home.info_file(), &content, Durability::Process)
}

/// Removes a file if it exists.
fn remove_if_exists(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes `ready` and closes stdout and stderr, also after an error, so that the reader of a pipe does not wait for
/// more.
fn announce_ready() -> io::Result<()> {
    let mut stdout = io::stdout();
    let written = stdout.write_all(b"ready\n").and_then(|()| stdout.flush());
    let nowhere = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    written
}

fn io_error(doing: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::Io { doing, error }
}

#[cfg(test)]
mod tests;
