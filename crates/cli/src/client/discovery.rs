//! Finds the daemon, or starts one: lock, probe, spawn, wait until ready, check the version.
//!
//! A daemon of another version is never restarted: it may hold work that the user paid for. No daemon is started from
//! inside an attempt: the daemon of an agent would not be the user's.

use std::{
    cmp::Ordering,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    process::Stdio,
    time::Duration,
};

use agent_worker_host::{DaemonSocket, DialError, LockFile, MAX_SOCKET_PATH_BYTES};
use agent_worker_protocol::{
    BASE_ENV,
    api::{Health, HealthStatus},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    client::daemon_client::DaemonClient,
    error::{CliError, CliErrorKind},
    input::settings::CliSettings,
    output::text,
};

/// The time limit of a health request.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(10);
/// The lock of the client that starts a daemon, and the time limit for other clients that wait for it: a restart holds
/// the lock from the old daemon's last second to the new one's first.
const START_LOCK: &str = "start.lock";
const START_LOCK_TIMEOUT: Duration = Duration::from_mins(1);
/// Time limit for a new daemon's start; it may first have to end the processes of its predecessor, which takes a kill
/// grace.
const DAEMON_START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a stopping daemon to release its home.
const DAEMON_EXIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit and poll interval for the next daemon when one hands over to another.
const SUCCESSOR_TIMEOUT: Duration = Duration::from_secs(3);
const SUCCESSOR_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Poll interval for a lock that another process holds.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Variable that overrides the reported version in a debug build.
const VERSION_OVERRIDE: &str = "AGENT_WORKER_VERSION_OVERRIDE";
/// The variable of [`BASE_ENV`] that a daemon does not get: it belongs to one login, and the daemon outlives that.
const LOGIN_VARIABLE: &str = "SSH_AUTH_SOCK";

/// The state of a daemon after `daemon stop`, and the command that ends the state.
pub(crate) const HELD_TEXT: &str = "the daemon was stopped, so no agent runs";
pub(crate) const START_HINT: &str = "to let the agents run again: agent-worker daemon start";

/// A running daemon and its health report.
pub(crate) struct DiscoveredDaemon {
    /// Client for this daemon.
    pub(crate) client: DaemonClient,
    /// Reply to the health request.
    pub(crate) health: Health,
}

/// Returns the running daemon, or `None`; starts nothing.
pub(crate) async fn find_daemon(
    settings: &CliSettings,
) -> Result<Option<DiscoveredDaemon>, CliError> {
    let deadline = Instant::now() + HEALTH_TIMEOUT;
    loop {
        let client = DaemonClient::new(DaemonSocket::at(settings.socket()));
        match timeout_at(deadline, client.health()).await {
            Ok(Ok(health)) => return Ok(Some(DiscoveredDaemon { client, health })),
            Ok(Err(DialError::Absent { .. })) => return Ok(None),
            // A dying daemon accepts connections until its socket is closed. A health request changes nothing, so it
            // can be repeated: to the same daemon, to the next one, or to none.
            Ok(Err(DialError::Lost { .. })) if !is_daemon_lock_held(settings)? => return Ok(None),
            Ok(Err(DialError::Lost { .. })) if Instant::now() < deadline => {
                sleep(LOCK_POLL_INTERVAL).await;
            }
            Ok(Err(other)) => return Err(other.into()),
            Err(_) => {
                return Err(CliError::new(
                    CliErrorKind::NoDaemon,
                    "a daemon is running but does not answer",
                )
                .with_hint(format!("its log is in {}", settings.home.join("logs").display())));
            }
        }
    }
}

/// Returns whether a daemon is alive: it holds the home's lock until it exits.
fn is_daemon_lock_held(settings: &CliSettings) -> Result<bool, CliError> {
    LockFile::is_held(&settings.home.join("daemon.lock")).map_err(|error| {
        CliError::with_source(CliErrorKind::BadHome, "could not read the daemon's lock", error)
    })
}

/// Connects to a daemon of this version and starts one if none runs.
pub(crate) async fn connect_or_start(settings: &CliSettings) -> Result<DaemonClient, CliError> {
    Ok(discover_or_start(settings).await?.client)
}

/// Returns the running daemon of this version with its health, and starts one if none runs.
pub(crate) async fn discover_or_start(
    settings: &CliSettings,
) -> Result<DiscoveredDaemon, CliError> {
    prepare_private_home(settings)?;
    let found = match find_daemon(settings).await? {
        Some(found) => found,
        None if settings.is_inside_attempt() => return Err(agent_cannot_start_daemon_error()),
        None => StartLock::acquire(settings).await?.find_or_start(settings).await?,
    };
    require_same_version(settings, found)
}

fn agent_cannot_start_daemon_error() -> CliError {
    CliError::new(CliErrorKind::NoDaemon, "no daemon is running, and an agent cannot start one")
        .with_hint("the user can start it: agent-worker daemon start")
}

fn require_same_version(
    settings: &CliSettings,
    found: DiscoveredDaemon,
) -> Result<DiscoveredDaemon, CliError> {
    match version_mismatch(settings, &found.health) {
        None => Ok(found),
        Some(other) => {
            Err(CliError::new(CliErrorKind::OtherVersion, other.message).with_hint(other.hint))
        }
    }
}

impl DiscoveredDaemon {
    /// Returns whether the daemon starts no work, because its user stopped the last one.
    pub(crate) fn is_held(&self) -> bool {
        self.health.status == HealthStatus::Held
    }

    /// Returns whether the daemon is about to exit.
    pub(crate) fn is_stopping(&self) -> bool {
        self.health.status == HealthStatus::Draining
    }
}

/// Waits for the successor of a daemon that stopped in good order; none is started, since that would undo the user's
/// stop. The successor may be held.
pub(crate) async fn wait_for_successor(
    settings: &CliSettings,
) -> Result<DiscoveredDaemon, CliError> {
    let mut deadline = Instant::now() + SUCCESSOR_TIMEOUT;
    while Instant::now() < deadline {
        if let Ok(Some(found)) = find_daemon(settings).await
            && !found.is_stopping()
        {
            return Ok(found);
        }
        // A client that restarts the daemon holds this lock until the next one is ready or has failed.
        if LockFile::is_held(&settings.home.join(START_LOCK)).unwrap_or(false) {
            deadline = Instant::now() + SUCCESSOR_TIMEOUT;
        }
        sleep(SUCCESSOR_POLL_INTERVAL).await;
    }
    Err(CliError::new(CliErrorKind::DaemonStopped, "the daemon was stopped before the run ended")
        .with_hint("the run continues after `agent-worker daemon start`"))
}

/// A daemon of another version.
pub(crate) struct VersionMismatch {
    /// Message with both versions.
    pub(crate) message: String,
    /// Hint about the next step.
    pub(crate) hint: &'static str,
    /// Side with the older version.
    pub(crate) older: OlderSide,
}

/// The side with the older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OlderSide {
    /// The daemon is older.
    Daemon,
    /// This command is older.
    Command,
}

/// Returns the mismatch if the daemon has another version.
pub(crate) fn version_mismatch(settings: &CliSettings, health: &Health) -> Option<VersionMismatch> {
    let ours = cli_version(settings);
    let older = match version_numbers(&health.version).cmp(&version_numbers(ours)) {
        _ if health.version == ours => return None,
        Ordering::Less => OlderSide::Daemon,
        Ordering::Equal | Ordering::Greater => OlderSide::Command,
    };
    let hint = match older {
        OlderSide::Daemon => {
            "restart the daemon with this version (its workers keep running): agent-worker daemon restart"
        }
        OlderSide::Command => {
            "this command is older than the daemon: use the program that the daemon was started from"
        }
    };
    let theirs = text::one_line(&health.version);
    let what = format!("the daemon is version {theirs}, this command is {ours}");
    Some(VersionMismatch { message: what, hint, older })
}

/// Returns the version that this command reports.
pub(crate) fn cli_version(settings: &CliSettings) -> &str {
    let version = settings.env.get(VERSION_OVERRIDE).filter(|_| cfg!(debug_assertions));
    version.map_or(VERSION, String::as_str)
}

fn version_numbers(version: &str) -> Vec<u64> {
    let parts = version.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// The exclusive right to start a daemon in a home.
pub(crate) struct StartLock {
    _lock: LockFile,
}

impl StartLock {
    /// Waits until no other client holds the right.
    pub(crate) async fn acquire(settings: &CliSettings) -> Result<Self, CliError> {
        prepare_private_home(settings)?;
        let path = settings.home.join(START_LOCK);
        let deadline = Instant::now() + START_LOCK_TIMEOUT;
        loop {
            match LockFile::try_acquire(&path) {
                Ok(Some(lock)) => return Ok(Self { _lock: lock }),
                Ok(None) if Instant::now() < deadline => sleep(LOCK_POLL_INTERVAL).await,
                Ok(None) => {
                    return Err(CliError::new(
                        CliErrorKind::NoDaemon,
                        "timed out while another client starts a daemon",
                    )
                    .with_hint(format!("that client holds the lock {}", path.display())));
                }
                Err(error) => {
                    let home = settings.home.display();
                    let what = format!("could not write to the home {home}");
                    return Err(CliError::with_source(CliErrorKind::BadHome, what, error)
                        .with_hint(format!(
                            "chmod 700 {home}, or set AGENT_WORKER_HOME to another folder"
                        )));
                }
            }
        }
    }

    /// Returns the daemon that runs if it is of our version, or starts one.
    pub(crate) async fn find_or_start(
        self,
        settings: &CliSettings,
    ) -> Result<DiscoveredDaemon, CliError> {
        match find_or_wait_for_exit(settings).await? {
            Some(found) => require_same_version(settings, found),
            None if settings.is_inside_attempt() => Err(agent_cannot_start_daemon_error()),
            None => start_daemon(settings).await,
        }
    }
}

async fn start_daemon(settings: &CliSettings) -> Result<DiscoveredDaemon, CliError> {
    let failed =
        |what: &str, error: io::Error| CliError::with_source(CliErrorKind::NoDaemon, what, error);
    let log = settings.home.join("logs").join("daemon.stderr");
    let stderr = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(settings.home.join("logs"))
        .and_then(|()| create_private_file(&log));
    let stderr = match stderr {
        Ok(file) => Stdio::from(file),
        // A daemon can start on a full disk; only the error output of a failed start is lost.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Stdio::null(),
        Err(error) => return Err(failed("could not create the daemon's log", error)),
    };
    let child = spawn_daemon(settings, stderr);
    let child = child.map_err(|error| failed("could not start the daemon", error))?;
    match timeout(DAEMON_START_TIMEOUT, wait_until_ready(child)).await {
        Ok(Ok(Readiness::Ready)) => {}
        Ok(Ok(Readiness::Exited(how))) => {
            let other = wait_for_other_daemon(settings).await?;
            return other.ok_or_else(|| start_failure(&log, &how));
        }
        Ok(Err(error)) => return Err(failed("could not wait for the daemon", error)),
        Err(_) => {
            let seconds = DAEMON_START_TIMEOUT.as_secs();
            return Err(CliError::new(
                CliErrorKind::NoDaemon,
                format!("the daemon was not ready within {seconds} s"),
            )
            .with_hint(format!("its log is in {}", settings.home.join("logs").display())));
        }
    }
    find_daemon(settings).await?.ok_or_else(|| {
        CliError::new(
            CliErrorKind::NoDaemon,
            "the daemon reported that it was ready but does not answer",
        )
    })
}

/// Waits for the daemon that another process, such as a service manager, started at the same time. `None` if there is none.
async fn wait_for_other_daemon(
    settings: &CliSettings,
) -> Result<Option<DiscoveredDaemon>, CliError> {
    let deadline = Instant::now() + DAEMON_START_TIMEOUT;
    while is_daemon_lock_held(settings)? && Instant::now() < deadline {
        if let Some(found) = find_daemon(settings).await? {
            return Ok(Some(found));
        }
        sleep(LOCK_POLL_INTERVAL).await;
    }
    Ok(None)
}

/// Returns the error for a daemon that exited before it was ready, with its error output.
fn start_failure(log: &Path, how: &str) -> CliError {
    let output = fs::read_to_string(log).unwrap_or_default();
    let output = text::sanitize_for_display(output.trim_end());
    match output.strip_prefix("error: ").unwrap_or(&output) {
        "" => CliError::new(
            CliErrorKind::NoDaemon,
            format!("the daemon did not start ({how}) and printed nothing"),
        )
        .with_hint("run it in the foreground: agent-worker daemon"),
        output => CliError::new(
            CliErrorKind::NoDaemon,
            format!("the daemon did not start ({how}): {output}"),
        ),
    }
}

/// Probes again: another client may have started a daemon, and a stopping daemon holds its lock until it exits.
async fn find_or_wait_for_exit(
    settings: &CliSettings,
) -> Result<Option<DiscoveredDaemon>, CliError> {
    let deadline = Instant::now() + DAEMON_EXIT_TIMEOUT;
    loop {
        if let Some(found) = find_daemon(settings).await? {
            return Ok(Some(found));
        }
        if !is_daemon_lock_held(settings)? {
            return Ok(None);
        }
        if Instant::now() >= deadline {
            return Err(CliError::new(
                CliErrorKind::NoDaemon,
                "a daemon holds the lock of the home but does not answer",
            )
            .with_hint(format!("its log is in {}", settings.home.join("logs").display())));
        }
        sleep(LOCK_POLL_INTERVAL).await;
    }
}

fn create_private_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Spawns the daemon. The daemon starts its own session, so that a Ctrl-C for this command does not reach it; its only
/// pipe is the one for `ready`.
fn spawn_daemon(settings: &CliSettings, stderr: Stdio) -> io::Result<Child> {
    let env = settings.filtered_env(|name| {
        let is_inherited = BASE_ENV.contains(&name) && name != LOGIN_VARIABLE;
        is_inherited || name.starts_with("AGENT_WORKER_")
    });
    Command::new(&settings.exe)
        .arg0("agent-worker")
        .args(["daemon", "--announce"])
        .env_clear()
        .envs(env)
        .env("AGENT_WORKER_HOME", &settings.home)
        .current_dir(&settings.home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
}

enum Readiness {
    Ready,
    Exited(String),
}

async fn wait_until_ready(mut child: Child) -> io::Result<Readiness> {
    let stdout =
        child.stdout.take().ok_or_else(|| io::Error::other("the daemon process has no stdout"))?;
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        if line == "ready" {
            return Ok(Readiness::Ready);
        }
    }
    Ok(Readiness::Exited(child.wait().await?.to_string()))
}

/// Creates the home if it is missing; refuses one that others own or can access, or one with too long a path for a
/// socket.
fn prepare_private_home(settings: &CliSettings) -> Result<(), CliError> {
    let socket = settings.socket();
    if socket.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
        return Err(DialError::PathTooLong { socket }.into());
    }
    let home = settings.home.display();
    let bad = |what: &str, error: io::Error| {
        CliError::with_source(CliErrorKind::BadHome, format!("{what} {home}"), error)
    };
    match DirBuilder::new().recursive(true).mode(0o700).create(&settings.home) {
        Ok(()) => {}
        Err(error) => return Err(bad("could not create the home", error)),
    }
    let found = fs::metadata(&settings.home)
        .map_err(|error| bad("could not read the metadata of the home", error))?;
    let (owner, us) = (found.uid(), rustix::process::getuid().as_raw());
    if owner != us {
        return Err(CliError::new(
            CliErrorKind::BadHome,
            format!("the home {home} belongs to another user (uid {owner}, you are {us})"),
        )
        .with_hint("set AGENT_WORKER_HOME to a folder of your own"));
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(CliError::new(
            CliErrorKind::BadHome,
            format!("other users can access the home {home} (mode {mode:o})"),
        )
        .with_hint(format!("restrict it: chmod 700 {home}")));
    }
    Ok(())
}
