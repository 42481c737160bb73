//! Finding the daemon, and starting one when there is none: lock, probe, spawn, wait until ready, check its version.
//!
//! Never restarts a daemon of another version: it may hold work somebody paid for. Never starts one from
//! inside an attempt: an agent's daemon would not be the user's.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    process::Stdio,
    time::Duration,
};

use agent_worker_host::{Daemon, DialError, LockFile};
use agent_worker_protocol::api::Health;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use crate::{
    client::Client,
    error::{CliError, Kind},
    settings::Settings,
    text,
};

/// How long a daemon may take to answer or to be ready, and a starter to let go of the lock.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a new daemon may take: it may first have to end what the one before left, which takes a kill grace.
const BIRTH: Duration = Duration::from_secs(30);
/// How long a daemon that is stopping may take to let go of its home.
const FAREWELL: Duration = Duration::from_secs(30);
/// How often somebody else's lock is looked at.
const LOCK_PAUSE: Duration = Duration::from_millis(20);
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What a daemon gets of its starter's environment, besides `AGENT_WORKER_*`.
const INHERITED: [&str; 5] = ["PATH", "HOME", "USER", "LANG", "TZ"];

/// A daemon that was found, and what it says of itself.
pub(crate) struct Found {
    /// The way to it.
    pub(crate) client: Client,
    /// What it answered.
    pub(crate) health: Health,
}

/// Looks for a daemon; `None` when there is none. Starts nothing.
pub(crate) async fn look(settings: &Settings) -> Result<Option<Found>, CliError> {
    let client = Client::new(Daemon::at(settings.socket()));
    match timeout(PATIENCE, client.health()).await {
        Ok(Ok(health)) => Ok(Some(Found { client, health })),
        Ok(Err(DialError::Absent { .. })) => Ok(None),
        Ok(Err(other)) => Err(other.into()),
        Err(_) => Err(CliError::new(Kind::NoDaemon, "a daemon is there and does not answer")
            .hint(format!("its log is in {}", settings.home.join("logs").display()))),
    }
}

/// A daemon of our own version, started if there is none.
pub(crate) async fn open(settings: &Settings) -> Result<Client, CliError> {
    home_is_ours(settings)?;
    let found = match look(settings).await? {
        Some(found) => found,
        None if settings.inside_attempt => {
            return Err(CliError::new(
                Kind::NoDaemon,
                "no daemon is running, and an agent starts none",
            )
            .hint("whoever runs this agent starts it: agent-worker daemon"));
        }
        None => start(settings).await?,
    };
    match mismatch(&found.health) {
        None => Ok(found.client),
        Some(what) => Err(CliError::new(Kind::OtherVersion, what)
            .hint("stop it when its runs may end: agent-worker daemon stop; the next command starts this version")),
    }
}

/// What to say of a daemon of another version.
pub(crate) fn mismatch(health: &Health) -> Option<String> {
    (health.version != VERSION).then(|| {
        let version = text::one_line(&health.version);
        format!("the daemon is version {version}, this command is {VERSION}")
    })
}

async fn start(settings: &Settings) -> Result<Found, CliError> {
    let _lock = starter(settings).await?;
    if let Some(found) = look_until_the_home_is_free(settings).await? {
        return Ok(found);
    }
    let failed = |what: &str, error: io::Error| CliError::because(Kind::NoDaemon, what, error);
    let log = settings.home.join("logs").join("daemon.stderr");
    let stderr = log.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| File::create(&log));
    let stderr = stderr.map_err(|error| failed("could not make the daemon's log", error))?;
    let child = spawn(settings, stderr);
    let child = child.map_err(|error| failed("could not start the daemon", error))?;
    match timeout(BIRTH, readiness(child)).await {
        Ok(Ok(Readiness::Ready)) => {}
        Ok(Ok(Readiness::Ended(how))) => {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let said = text::harmless(said.trim_end());
            return Err(CliError::new(
                Kind::NoDaemon,
                format!("the daemon did not start ({how}):\n{said}"),
            )
            .hint("see what it says by itself: agent-worker daemon"));
        }
        Ok(Err(error)) => return Err(failed("could not wait for the daemon", error)),
        Err(_) => {
            let seconds = BIRTH.as_secs();
            return Err(CliError::new(
                Kind::NoDaemon,
                format!("the daemon was not ready within {seconds} s"),
            )
            .hint(format!("its log is in {}", settings.home.join("logs").display())));
        }
    }
    look(settings).await?.ok_or_else(|| {
        CliError::new(Kind::NoDaemon, "the daemon said it was ready and then did not answer")
    })
}

/// The right to start a daemon: one starter at a time.
async fn starter(settings: &Settings) -> Result<LockFile, CliError> {
    let path = settings.home.join("start.lock");
    let deadline = Instant::now() + PATIENCE;
    loop {
        match LockFile::try_acquire(&path) {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) if Instant::now() < deadline => sleep(LOCK_PAUSE).await,
            Ok(None) => {
                return Err(CliError::new(
                    Kind::NoDaemon,
                    "somebody else is starting a daemon and does not finish",
                )
                .hint(format!("{} is held by it", path.display())));
            }
            Err(error) => {
                return Err(CliError::because(
                    Kind::BadHome,
                    "could not lock the daemon's home",
                    error,
                ));
            }
        }
    }
}

/// Looks again: another starter may have been faster, and a daemon that leaves holds its lock to the last.
async fn look_until_the_home_is_free(settings: &Settings) -> Result<Option<Found>, CliError> {
    let path = settings.home.join("daemon.lock");
    let deadline = Instant::now() + FAREWELL;
    loop {
        if let Some(found) = look(settings).await? {
            return Ok(Some(found));
        }
        match LockFile::is_held(&path) {
            Ok(false) => return Ok(None),
            Ok(true) if Instant::now() < deadline => sleep(LOCK_PAUSE).await,
            Ok(true) => {
                return Err(CliError::new(
                    Kind::NoDaemon,
                    "a daemon holds the home and does not answer",
                )
                .hint(format!("its log is in {}", settings.home.join("logs").display())));
            }
            Err(error) => {
                return Err(CliError::because(
                    Kind::BadHome,
                    "could not look at the daemon's lock",
                    error,
                ));
            }
        }
    }
}

/// Its own process group, so that a Ctrl-C meant for us does not reach it; no pipe but the one it says `ready` on.
fn spawn(settings: &Settings, stderr: File) -> io::Result<Child> {
    let env =
        settings.env_only(|name| INHERITED.contains(&name) || name.starts_with("AGENT_WORKER_"));
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
    Ended(String),
}

async fn readiness(mut child: Child) -> io::Result<Readiness> {
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("it has no stdout"))?;
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        if line == "ready" {
            return Ok(Readiness::Ready);
        }
    }
    Ok(Readiness::Ended(child.wait().await?.to_string()))
}

/// Makes the home if it is missing; refuses one that others own or can look into.
fn home_is_ours(settings: &Settings) -> Result<(), CliError> {
    let home = settings.home.display();
    let bad = |what: &str, error: io::Error| {
        CliError::because(Kind::BadHome, format!("{what} {home}"), error)
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
            Kind::BadHome,
            format!("the home {home} belongs to somebody else (uid {owner}, you are {us})"),
        )
        .hint("set AGENT_WORKER_HOME to a folder of your own"));
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(CliError::new(
            Kind::BadHome,
            format!("others can look into the home {home} (mode {mode:o})"),
        )
        .hint(format!("close it: chmod 700 {home}")));
    }
    Ok(())
}
