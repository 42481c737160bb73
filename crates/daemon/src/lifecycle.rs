//! A daemon's life: one owner of the home, everything found again, doors open, and a quiet end.
//!
//! Invariant: the lock is taken before anything is read and let go after everything is closed.
//! Invariant: no door opens before the work of the daemon before is taken over.

use std::{
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agent_worker_host::{Durability, LockFile, Process, write_atomically};
use agent_worker_kernel::{Clock, Kernel, KernelParts, Options, RandomSource};
use agent_worker_protocol::{Millis, Span, api::ShutdownMode};
use agent_worker_store::{MultiStore, Store};
use serde::Serialize;
use tokio::{
    net::{TcpListener, UnixListener},
    signal::unix::{SignalKind, signal},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    home::{DaemonHome, HomeError},
    http::{AppState, HealthFacts, HttpService, Revocations},
    listeners::Listeners,
    log,
    runner::{Cgroups, ProcessRunner, Tracking},
    shutdown::Shutdown,
};

/// How long answers that are under way have when everything else is over.
const RESPONSE_DRAIN_TIMEOUT: Duration = Duration::from_millis(300);

/// How long the lock of a dead daemon may outlive it.
const LOCK_RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What a daemon is told at its start.
#[derive(Clone, Debug)]
pub struct DaemonSettings {
    /// Its home.
    pub home: PathBuf,
    /// The port for clients; another free one when it is taken.
    pub port: u16,
    /// How much runs at once, and how patient it is.
    pub options: Options,
    /// How long workers have when it is asked to stop.
    pub drain_grace: Span,
    /// How the processes of attempts are tracked.
    pub tracking: Tracking,
    /// Who started it.
    pub started_by: StartedBy,
    /// The program's version.
    pub version: String,
    /// Whether the MCP door has what the protocol's conformance suite asks for.
    #[cfg(debug_assertions)]
    pub fixtures: bool,
}

/// Who started the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartedBy {
    /// A person, who watches it.
    Person,
    /// A command that waits for `ready` on stdout and then goes its own way.
    Command,
}

/// Why a daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Another one has it.
    #[error("a daemon is already running in {home} (pid {pid})")]
    AlreadyRunning {
        /// Whose home.
        home: PathBuf,
        /// Its process.
        pid: u32,
    },
    /// No daemon has it, and it is not free.
    #[error(
        "{lock} is held by a process that is no daemon; `fuser {lock}` tells which one has to end first"
    )]
    LockHeld {
        /// The lock.
        lock: PathBuf,
    },
    /// The store cannot be opened.
    #[error("the store cannot be opened")]
    Store(#[from] agent_worker_store::Error),
    /// What was left unfinished could not be taken over.
    #[error("what was left unfinished could not be taken over")]
    Recovery(#[from] agent_worker_kernel::Error),
    /// The machine refused something.
    #[error("{doing} failed")]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// Why it failed.
        #[source]
        error: io::Error,
    },
}

/// What `daemon.json` says, for people and for tools that look for the port.
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
    let lock = lock_home(&home).await?;
    log::init_logging(&home, settings.started_by).map_err(io_error("starting the log"))?;
    become_daemon(settings.started_by);
    let shutdown = Shutdown::default();
    let store = MultiStore::open(home.root()).await?;
    let result = run_daemon(&settings, &home, &store, &shutdown).await;
    store.close().await;
    drop(lock);
    result
}

/// Takes the home, unless a living daemon has it.
///
/// The lock of a daemon that was killed while it started a process is held for a moment longer, by that process on its
/// way to becoming another program; that is no owner, and is waited for.
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

async fn run_daemon(
    settings: &DaemonSettings,
    home: &DaemonHome,
    store: &MultiStore,
    shutdown: &Shutdown,
) -> Result<(), Error> {
    let groups = Cgroups::open(home, settings.tracking);
    let kill_grace = settings.options.kill_grace.duration();
    let kernel = Kernel::new(KernelParts {
        store: Arc::new(store.clone()) as Arc<dyn Store>,
        runner: Arc::new(ProcessRunner::new(home.clone(), kill_grace, groups.clone())),
        clock: Clock::Store,
        random: RandomSource::System,
        options: settings.options,
    });
    let signals = catch_signals().map_err(io_error("catching signals"))?;
    match kernel.recover().await {
        Ok(recovered) => tracing::info!(?recovered, version = settings.version, "ready"),
        // Everything can be read, and workers that live find a daemon; nothing new begins before the disk takes writes.
        Err(error) if error.is_disk_fault() => {
            tracing::error!(%error, version = settings.version, "ready, but the disk takes no writes");
            kernel.recover_in_background();
        }
        Err(error) => return Err(error.into()),
    }
    let tracker = TaskTracker::new();
    let closing = CancellationToken::new();
    tracker.spawn(handle_signals(signals, shutdown.clone(), closing.clone()));
    start_listeners(settings, home, &kernel, shutdown, &tracker, &closing).await?;
    wait_and_drain(&kernel, settings.drain_grace.duration(), shutdown).await;
    // The socket goes first: whoever comes now finds nobody, and starts the next one.
    for path in [home.socket(), home.info_file()] {
        if let Err(error) = remove_if_exists(&path) {
            tracing::error!(path = %path.display(), %error, "could not be removed");
        }
    }
    shutdown.close_streams();
    closing.cancel();
    tracker.close();
    let _ = tokio::time::timeout(RESPONSE_DRAIN_TIMEOUT, tracker.wait()).await;
    tracing::info!("gone");
    Ok(())
}

async fn start_listeners(
    settings: &DaemonSettings,
    home: &DaemonHome,
    kernel: &Kernel,
    shutdown: &Shutdown,
    tracker: &TaskTracker,
    closing: &CancellationToken,
) -> Result<(), Error> {
    let tcp = bind_port(settings.port).await;
    let address = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
    // We hold the lock, so a socket that is there is a dead daemon's. Both files go first: they make room for the new
    // socket, and a card that cannot be written again would name a dead process.
    remove_if_exists(&home.socket()).map_err(io_error("removing a dead daemon's socket"))?;
    remove_if_exists(&home.info_file())
        .map_err(io_error("removing a dead daemon's daemon.json"))?;
    let unix = UnixListener::bind(home.socket()).map_err(io_error("opening the socket"))?;
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(home.socket(), private)
        .map_err(io_error("closing the socket to others"))?;
    let started = kernel.now().wall;
    let health = HealthFacts {
        pid: std::process::id(),
        home: home.root().to_owned(),
        address,
        started,
        version: settings.version.clone(),
    };
    let doors = AppState {
        kernel: kernel.clone(),
        shutdown: shutdown.clone(),
        revocations: Revocations::default(),
        health,
        tasks: tracker.clone(),
        #[cfg(debug_assertions)]
        fixtures: settings.fixtures,
    };
    let listeners = Listeners {
        service: HttpService::new(doors),
        kernel: kernel.clone(),
        tracker: tracker.clone(),
        closing: closing.clone(),
    };
    listeners.serve_socket(unix);
    if let Some(tcp) = tcp {
        listeners.serve_port(tcp);
    }
    if let Err(error) = write_info_file(home, address, started, &settings.version) {
        tracing::error!(%error, "daemon.json cannot be written; the daemon is found by its socket");
    }
    if settings.started_by == StartedBy::Command {
        // Whoever waited for it may have given up; it is ready all the same.
        if let Err(error) = announce_ready() {
            tracing::warn!(%error, "nobody heard that it is ready");
        }
    }
    Ok(())
}

/// Loopback only. A port that is taken gives way to any free one; none at all is not worth failing for.
async fn bind_port(port: u16) -> Option<TcpListener> {
    for port in [port, 0] {
        match TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await {
            Ok(listener) => return Some(listener),
            Err(error) => tracing::warn!(port, %error, "this port cannot be had"),
        }
    }
    None
}

async fn wait_and_drain(kernel: &Kernel, drain_grace: Duration, shutdown: &Shutdown) {
    match shutdown.wait_for_request().await {
        ShutdownMode::Handover => kernel.close().await,
        ShutdownMode::Now => kernel.drain_now().await,
        ShutdownMode::Drain => {
            let urgent = async {
                shutdown.wait_for_now().await;
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

/// The first signal drains, the second stops now.
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

/// Leaves the terminal of whoever started it, and takes in the orphans of its trees.
fn become_daemon(started_by: StartedBy) {
    if started_by == StartedBy::Command
        && let Err(error) = rustix::process::setsid()
    {
        tracing::warn!(%error, "staying in the session of whoever started it");
    }
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "orphans of workers will not be seen");
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

/// Removes a file that may not be there.
fn remove_if_exists(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Says `ready` and lets go of stdout and stderr, heard or not, so that a pipe's reader is not kept waiting for more.
fn announce_ready() -> io::Result<()> {
    let mut stdout = io::stdout();
    let heard = stdout.write_all(b"ready\n").and_then(|()| stdout.flush());
    let nowhere = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    heard
}

fn io_error(doing: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::Io { doing, error }
}

#[cfg(test)]
mod tests;
