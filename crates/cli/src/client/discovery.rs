//! Finding the daemon, and starting one when there is none: lock, probe, spawn, wait until ready, check its version.
//!
//! Never restarts a daemon of another version: it may hold work somebody paid for. Never starts one from
//! inside an attempt: an agent's daemon would not be the user's.

use std::{
    cmp::Ordering,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    process::Stdio,
    time::Duration,
};

use agent_worker_host::{DaemonSocket, DialError, LockFile};
use agent_worker_protocol::{BASE_ENV, api::Health};
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
/// The lock of the client that starts a daemon, and how long another client waits for it: a restart holds it from the old
/// daemon's last second to the new one's first.
const START_LOCK: &str = "start.lock";
const START_LOCK_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a new daemon may take: it may first have to end what the one before left, which takes a kill grace.
const DAEMON_START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a daemon that is stopping may take to let go of its home.
const DAEMON_EXIT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the next daemon may take where one hands over to another, and how often it is looked for.
const SUCCESSOR_TIMEOUT: Duration = Duration::from_secs(3);
const SUCCESSOR_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How often somebody else's lock is looked at.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The longest path a socket can have.
pub(crate) const MAX_SOCKET_PATH_LEN: usize = 107;
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// In a program made for trying things out, the version it says it is.
const VERSION_OVERRIDE: &str = "AGENT_WORKER_VERSION_OVERRIDE";
/// The variable of [`BASE_ENV`] that a daemon does not get: it belongs to one login, and the daemon outlives that.
const LOGIN_VARIABLE: &str = "SSH_AUTH_SOCK";

/// A daemon that was found, and what it says of itself.
pub(crate) struct DiscoveredDaemon {
    /// The way to it.
    pub(crate) client: DaemonClient,
    /// What it answered.
    pub(crate) health: Health,
}

/// Looks for a daemon; `None` when there is none. Starts nothing.
pub(crate) async fn find_daemon(
    settings: &CliSettings,
) -> Result<Option<DiscoveredDaemon>, CliError> {
    let deadline = Instant::now() + HEALTH_TIMEOUT;
    loop {
        let client = DaemonClient::new(DaemonSocket::at(settings.socket()));
        match timeout_at(deadline, client.health()).await {
            Ok(Ok(health)) => return Ok(Some(DiscoveredDaemon { client, health })),
            Ok(Err(DialError::Absent { .. })) => return Ok(None),
            // One that dies lets callers in until its socket is closed. Nothing was asked of it but how it is, so it can
            // be asked again: it, the next one, or nobody.
            Ok(Err(DialError::Lost { .. })) if !is_daemon_lock_held(settings)? => return Ok(None),
            Ok(Err(DialError::Lost { .. })) if Instant::now() < deadline => {
                sleep(LOCK_POLL_INTERVAL).await;
            }
            Ok(Err(other)) => return Err(other.into()),
            Err(_) => {
                return Err(CliError::new(
                    CliErrorKind::NoDaemon,
                    "a daemon is there and does not answer",
                )
                .with_hint(format!("its log is in {}", settings.home.join("logs").display())));
            }
        }
    }
}

/// Whether a daemon lives: it has the home's lock until it is gone.
fn is_daemon_lock_held(settings: &CliSettings) -> Result<bool, CliError> {
    LockFile::is_held(&settings.home.join("daemon.lock")).map_err(|error| {
        CliError::with_source(CliErrorKind::BadHome, "could not look at the daemon's lock", error)
    })
}

/// A daemon of our own version, started if there is none.
pub(crate) async fn connect_or_start(settings: &CliSettings) -> Result<DaemonClient, CliError> {
    prepare_private_home(settings)?;
    let found = match find_daemon(settings).await? {
        Some(found) => found,
        None if settings.is_inside_attempt() => return Err(agent_cannot_start_daemon_error()),
        None => StartLock::acquire(settings).await?.find_or_start(settings).await?,
    };
    Ok(require_same_version(settings, found)?.client)
}

fn agent_cannot_start_daemon_error() -> CliError {
    CliError::new(CliErrorKind::NoDaemon, "no daemon is running, and an agent starts none")
        .with_hint("the user starts it: agent-worker daemon")
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

/// The daemon after one that left in good order: handed over to, or none. Starting one would undo what somebody did.
pub(crate) async fn wait_for_successor(settings: &CliSettings) -> Result<DaemonClient, CliError> {
    let mut deadline = Instant::now() + SUCCESSOR_TIMEOUT;
    while Instant::now() < deadline {
        if let Ok(Some(found)) = find_daemon(settings).await {
            return Ok(found.client);
        }
        // A client that restarts the daemon holds this lock until the next one is ready or has failed.
        if LockFile::is_held(&settings.home.join(START_LOCK)).unwrap_or(false) {
            deadline = Instant::now() + SUCCESSOR_TIMEOUT;
        }
        sleep(SUCCESSOR_POLL_INTERVAL).await;
    }
    Err(CliError::new(
        CliErrorKind::DaemonStopped,
        "the daemon was stopped before the run was over",
    )
    .with_hint(
        "the run goes on with the next command that starts a daemon, such as `agent-worker ls`",
    ))
}

/// A daemon of another version.
pub(crate) struct VersionMismatch {
    /// Both versions.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: &'static str,
    /// Which of the two is the older.
    pub(crate) older: OlderSide,
}

/// Which of the two is the older.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OlderSide {
    /// The daemon.
    Daemon,
    /// This command.
    Command,
}

/// What to say of a daemon of another version.
pub(crate) fn version_mismatch(settings: &CliSettings, health: &Health) -> Option<VersionMismatch> {
    let ours = cli_version(settings);
    let older = match version_numbers(&health.version).cmp(&version_numbers(ours)) {
        _ if health.version == ours => return None,
        Ordering::Less => OlderSide::Daemon,
        Ordering::Equal | Ordering::Greater => OlderSide::Command,
    };
    let hint = match older {
        OlderSide::Daemon => {
            "put this version in its place, its workers stay: agent-worker daemon restart"
        }
        OlderSide::Command => {
            "this command is the older one: use the program the daemon was started from"
        }
    };
    let theirs = text::one_line(&health.version);
    let what = format!("the daemon is version {theirs}, this command is {ours}");
    Some(VersionMismatch { message: what, hint, older })
}

/// The version we say we are.
pub(crate) fn cli_version(settings: &CliSettings) -> &str {
    let said = settings.env.get(VERSION_OVERRIDE).filter(|_| cfg!(debug_assertions));
    said.map_or(VERSION, String::as_str)
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
                        "another client is starting a daemon and does not finish",
                    )
                    .with_hint(format!("that client holds {}", path.display())));
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
        // A daemon can start on a full disk; only its complaint, if it does not, has nowhere to go.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Stdio::null(),
        Err(error) => return Err(failed("could not make the daemon's log", error)),
    };
    let child = spawn_daemon(settings, stderr);
    let child = child.map_err(|error| failed("could not start the daemon", error))?;
    match timeout(DAEMON_START_TIMEOUT, wait_until_ready(child)).await {
        Ok(Ok(Readiness::Ready)) => {}
        Ok(Ok(Readiness::Exited(how))) => {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let said = text::sanitize_for_display(said.trim_end());
            return Err(CliError::new(
                CliErrorKind::NoDaemon,
                format!("the daemon did not start ({how}):\n{said}"),
            )
            .with_hint("see what it says by itself: agent-worker daemon"));
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
            "the daemon said it was ready and then did not answer",
        )
    })
}

/// Looks again: another starter may have been faster, and a daemon that leaves holds its lock to the last.
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
                "a daemon holds the home and does not answer",
            )
            .with_hint(format!("its log is in {}", settings.home.join("logs").display())));
        }
        sleep(LOCK_POLL_INTERVAL).await;
    }
}

fn create_private_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Its own process group, so that a Ctrl-C meant for us does not reach it; no pipe but the one it says `ready` on.
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
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("it has no stdout"))?;
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        if line == "ready" {
            return Ok(Readiness::Ready);
        }
    }
    Ok(Readiness::Exited(child.wait().await?.to_string()))
}

/// Makes the home if it is missing; refuses one that others own or can look into, or where no socket can be.
fn prepare_private_home(settings: &CliSettings) -> Result<(), CliError> {
    let socket = settings.socket();
    if socket.as_os_str().len() > MAX_SOCKET_PATH_LEN {
        return Err(DialError::PathTooLong { socket }.into());
    }
    let home = settings.home.display();
    let bad = |what: &str, error: io::Error| {
        CliError::with_source(CliErrorKind::BadHome, format!("{what} {home}"), error)
    };
    match DirBuilder::new().recursive(true).mode(0o700).create(&settings.home) {
        Ok(()) => {}
        Err(error) => return Err(bad("could not make the home", error)),
    }
    let found =
        fs::metadata(&settings.home).map_err(|error| bad("could not look at the home", error))?;
    let (owner, us) = (found.uid(), rustix::process::getuid().as_raw());
    if owner != us {
        return Err(CliError::new(
            CliErrorKind::BadHome,
            format!("the home {home} belongs to somebody else (uid {owner}, you are {us})"),
        )
        .with_hint("set AGENT_WORKER_HOME to a folder of your own"));
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(CliError::new(
            CliErrorKind::BadHome,
            format!("others can look into the home {home} (mode {mode:o})"),
        )
        .with_hint(format!("close it: chmod 700 {home}")));
    }
    Ok(())
}
