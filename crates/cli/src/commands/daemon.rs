//! `agent-worker daemon status`, `start`, `stop`, `restart`, `logs`, `install` and `uninstall`. The daemon itself is in another crate.

mod leftovers;
mod service;

use std::time::Duration;

use agent_worker_host::{HoldMark, LockFile, Process};
use agent_worker_protocol::api::{Health, HealthDetail, HealthStatus, ShutdownMode};
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::service::Doing;
use crate::{
    client::discovery::{self, HELD_TEXT, OlderSide, START_HINT},
    error::{CliError, CliErrorKind},
    input::context::{CommandContext, Format, OutputArgs},
    live::tail,
    output::{
        clock,
        styled_line::{StyledLine, Tone},
        text::{format_elapsed, one_line, pluralize},
        verdict::RunVerdict,
    },
};

/// Time limit for a stop, longer than the grace period of the workers.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The commands for a running daemon.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum DaemonCommand {
    /// Show whether a daemon is running, and its health
    ///
    /// Exits with 1 if no daemon is running.
    #[command(after_help = "Example: agent-worker daemon status --json")]
    Status {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Start the daemon, or let a held one work
    ///
    /// After `daemon stop`, a command that only reads starts a daemon that is held: it answers and starts no work. This
    /// command ends the hold, and the runs continue. So does a command that gives the agents work, such as `run` or `send`.
    #[command(after_help = "Example: agent-worker daemon start")]
    Start {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Stop the daemon and wait until it has exited
    ///
    /// The daemon leases no more messages, gives its workers a grace period, then ends them. Workers that a dead daemon
    /// left behind are ended too. No agent runs until `agent-worker daemon start` or a command that gives the agents work,
    /// such as `run` or `send`.
    #[command(after_help = "Example: agent-worker daemon stop --now")]
    Stop {
        /// End the workers without a grace period
        #[arg(long)]
        now: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Replace the running daemon with one of this version
    ///
    /// Workers keep running, and the new daemon adopts them in the middle of their turns. The new daemon takes its
    /// settings from the `AGENT_WORKER_*` variables of this shell; a service (`daemon install`) from its unit.
    #[command(after_help = "Example: agent-worker daemon restart")]
    Restart {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Print the daemon's log
    #[command(visible_alias = "log", after_help = "Example: agent-worker daemon logs --follow")]
    Logs {
        /// Number of lines
        #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100)]
        number: usize,
        /// Print new lines until Ctrl-C
        #[arg(long, short, conflicts_with = "json")]
        follow: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Install the daemon as a service of your systemd and start it
    ///
    /// The service restarts a daemon that crashed, and starts it when you log in. The command writes
    /// ~/.config/systemd/user/agent-worker.service with the `AGENT_WORKER_*` variables of this shell. A running daemon hands its
    /// workers over to the service.
    #[command(after_help = "Example: agent-worker daemon install --print")]
    Install {
        /// Print the unit and the steps, and do nothing
        #[arg(long)]
        print: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Stop the service of `install` and remove it
    ///
    /// All data stays.
    #[command(after_help = "Example: agent-worker daemon uninstall")]
    Uninstall {
        /// Print the steps, and do nothing
        #[arg(long)]
        print: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
}

impl DaemonCommand {
    /// Returns the output format.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Status { output }
            | Self::Start { output }
            | Self::Stop { output, .. }
            | Self::Restart { output }
            | Self::Install { output, .. }
            | Self::Uninstall { output, .. }
            | Self::Logs { output, .. } => output.format(),
        }
    }
}

/// The document that `daemon status --json` prints.
#[derive(Serialize)]
struct DaemonStatusReport {
    running: bool,
    /// True if no daemon runs and the next one will be held.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    held: bool,
    #[serde(flatten)]
    health: Option<Health>,
}

impl DaemonStatusReport {
    fn of_running(health: Health) -> Self {
        Self { running: true, held: false, health: Some(health) }
    }
}

/// Runs the command.
pub(crate) async fn run(
    ask: DaemonCommand,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    match ask {
        DaemonCommand::Status { output } => status(output.format(), ctx).await,
        DaemonCommand::Start { output } => start(output.format(), ctx).await,
        DaemonCommand::Stop { now, output } => {
            let mode = if now { ShutdownMode::Now } else { ShutdownMode::Drain };
            stop(mode, output.format(), ctx).await
        }
        DaemonCommand::Restart { output } => restart(output.format(), ctx).await,
        DaemonCommand::Install { print, output } => {
            let doing = if print { Doing::Print } else { Doing::Everything };
            service::install(doing, output.format(), ctx).await?;
            Ok(RunVerdict::Done)
        }
        DaemonCommand::Uninstall { print, output } => {
            let doing = if print { Doing::Print } else { Doing::Everything };
            service::uninstall(doing, output.format(), ctx).await?;
            Ok(RunVerdict::Done)
        }
        DaemonCommand::Logs { number, follow, output } => {
            let log = ctx.settings.home.join("logs").join("daemon.log");
            let until = if follow { tail::TailMode::Follow } else { tail::TailMode::Existing };
            match output.format() {
                Format::Json => {
                    let lines = tail::newest_lines(&log, number)?;
                    ctx.console.print_json(&json!({ "log": log, "lines": lines }))?;
                }
                Format::Text => tail::print_tail(&log, number, until, ctx.console)?,
            }
            Ok(RunVerdict::Done)
        }
    }
}

async fn status(format: Format, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let health = discovery::find_daemon(ctx.settings).await?.map(|found| found.health);
    let verdict = if health.is_some() { RunVerdict::Done } else { RunVerdict::Failed };
    let held = health.is_none() && HoldMark::of_home(&ctx.settings.home).is_set();
    match (format, health) {
        (Format::Json, health) => {
            let running = health.is_some();
            ctx.console.print_json(&DaemonStatusReport { running, held, health })
        }
        (Format::Text, None) => {
            ctx.console.print_line(&StyledLine::plain("no daemon is running"))?;
            if held { ctx.note_hold() } else { Ok(()) }
        }
        (Format::Text, Some(health)) => show(&health, ctx),
    }?;
    Ok(verdict)
}

fn show(health: &Health, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let word = match health.status {
        HealthStatus::Ok => StyledLine::new(Tone::Good, "ok"),
        HealthStatus::Held => StyledLine::new(Tone::Warn, format!("held: {HELD_TEXT}")),
        HealthStatus::Draining => StyledLine::new(Tone::Warn, "stopping"),
        HealthStatus::Degraded => {
            StyledLine::new(Tone::Warn, "degraded: the database of a team accepts no writes")
        }
        HealthStatus::ReadOnly => {
            StyledLine::new(Tone::Bad, "read only: the store accepts no writes")
        }
    };
    ctx.console
        .print_line(&word.with(Tone::Plain, format!(" · version {}", one_line(&health.version))))?;
    if let Some(detail) = &health.detail {
        let up = format_elapsed(clock::now().since(detail.started));
        let runs = pluralize(detail.live_runs as usize, "run");
        let workers = pluralize(detail.workers as usize, "worker");
        let lines = [
            format!("pid {}, up {up}, {runs}, {workers}", detail.pid),
            format!("home {}", detail.home.display()),
            format!(
                "clients at {}",
                detail.address.as_deref().unwrap_or("no address: no port was free")
            ),
        ];
        for line in lines {
            ctx.console.print_line(&StyledLine::plain(format!("  {}", one_line(&line))))?;
        }
        if let Some(conflict) = &detail.port_conflict {
            let line = StyledLine::new(Tone::Warn, format!("  {}", one_line(conflict)));
            ctx.console
                .print_line(&line.with(Tone::Plain, "; clients must use the address above"))?;
            ctx.console.hint(
                "free the port and run `agent-worker daemon restart`, or choose one: AGENT_WORKER_PORT=5100",
            )?;
        }
        for row in &detail.damaged {
            ctx.console.print_line(&StyledLine::new(Tone::Bad, format!("  {}", one_line(row))))?;
        }
        if let Some(trouble) = &detail.trouble {
            ctx.console
                .print_line(&StyledLine::new(Tone::Bad, format!("  {}", one_line(trouble))))?;
        }
    }
    if health.status == HealthStatus::Held {
        ctx.console.hint(START_HINT)?;
    }
    match discovery::version_mismatch(ctx.settings, health) {
        Some(other) => {
            ctx.console.warn(&other.message)?;
            ctx.console.hint(other.hint)
        }
        None => Ok(()),
    }
}

async fn start(format: Format, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let mut running = discovery::find_daemon(ctx.settings).await?;
    if let Some(stopping) = running.as_ref().filter(|found| found.is_stopping()) {
        if format == Format::Text {
            ctx.console.note("the daemon is stopping; waiting for its end")?;
        }
        wait_until_gone(process_of(&stopping.health), ctx).await.map_err(|error| {
            error.with_hint("wait until it has exited, then: agent-worker daemon start")
        })?;
        running = discovery::find_daemon(ctx.settings).await?;
    }
    let was_running = running.is_some();
    let found = discovery::discover_or_start(ctx.settings).await?;
    let was_held = found.is_held();
    if was_held {
        found.client.release().await?;
    }
    let health = found.client.health().await?;
    match format {
        Format::Json => {
            ctx.console.print_json(&DaemonStatusReport::of_running(health))?;
        }
        Format::Text => {
            let change = match (was_running, was_held) {
                (true, false) => "the daemon is already running",
                (true, true) => "the hold has ended; runs continue",
                (false, _) => "the daemon is started",
            };
            let kept = health.detail.as_ref().map(kept_workers_text).unwrap_or_default();
            ctx.console.note(&format!("{change}: version {}{kept}", one_line(&health.version)))?;
        }
    }
    Ok(RunVerdict::Done)
}

/// Stops the daemon of the home and ends what a dead one left.
pub(super) async fn stop(
    mode: ShutdownMode,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let deadline = Instant::now() + STOP_TIMEOUT;
    let found = loop {
        if let Some(found) = discovery::find_daemon(ctx.settings).await? {
            break found;
        }
        if let Some(verdict) = leftovers::stop_leftovers(format, ctx).await? {
            return Ok(verdict);
        }
        if Instant::now() >= deadline {
            let what = "a daemon has this home and does not answer";
            return Err(CliError::new(CliErrorKind::Failed, what)
                .with_hint("find its process: fuser ~/.agent-worker/daemon.lock"));
        }
        sleep(STOP_POLL_INTERVAL).await;
    };
    let daemon = process_of(&found.health);
    found.client.shutdown(mode).await?;
    wait_until_gone(daemon, ctx).await.map_err(|error| {
        error.with_hint("end its workers without a grace period: agent-worker daemon stop --now")
    })?;
    // Another client may have started the next daemon already.
    let successor = discovery::find_daemon(ctx.settings).await?.and_then(|next| next.health.detail);
    let successor = successor.map(|detail| detail.pid);
    match (format, successor) {
        (Format::Json, _) => {
            ctx.console.print_json(&json!({ "stopped": true, "ended": 0, "successor": successor }))
        }
        (Format::Text, None) => {
            ctx.console.note("the daemon is stopped")?;
            ctx.console.hint(START_HINT)
        }
        (Format::Text, Some(pid)) => ctx.console.note(&format!(
            "the daemon is stopped; another client has started a new one (pid {pid})"
        )),
    }?;
    Ok(RunVerdict::Done)
}

async fn restart(format: Format, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    // No other client starts a daemon meanwhile, so that the new one has the settings of this shell.
    let starting = discovery::StartLock::acquire(ctx.settings).await?;
    let before = discovery::find_daemon(ctx.settings).await?;
    let mut is_service = false;
    if let Some(found) = &before {
        if let Some(other) = discovery::version_mismatch(ctx.settings, &found.health)
            && other.older == OlderSide::Command
        {
            return Err(
                CliError::new(CliErrorKind::OtherVersion, other.message).with_hint(other.hint)
            );
        }
        let daemon = process_of(&found.health);
        is_service = daemon.is_some_and(|daemon| service::is_service(daemon.pid));
        found.client.shutdown(ShutdownMode::Handover).await?;
        wait_until_gone(daemon, ctx).await.map_err(|error| {
            error.with_hint("its workers keep running; try again: agent-worker daemon restart")
        })?;
    }
    let health = if is_service {
        // The lock is held: no other client starts a daemon outside of the service.
        let found = service::start_service(ctx.settings).await?;
        drop(starting);
        found.health
    } else {
        starting.find_or_start(ctx.settings).await?.health
    };
    match format {
        Format::Json => {
            ctx.console.print_json(&DaemonStatusReport::of_running(health))?;
        }
        Format::Text => {
            let was = if before.is_some() { "restarted" } else { "no daemon was running; started" };
            let version = one_line(&health.version);
            if health.status == HealthStatus::Held {
                let pid = health.detail.as_ref().map(|detail| format!(", pid {}", detail.pid));
                let pid = pid.unwrap_or_default();
                ctx.console.note(&format!("{was}: version {version}{pid}; held: {HELD_TEXT}"))?;
                ctx.console.hint(START_HINT)?;
            } else {
                let kept = health.detail.as_ref().map(kept_workers_text).unwrap_or_default();
                ctx.console.note(&format!("{was}: version {version}{kept}"))?;
            }
        }
    }
    Ok(RunVerdict::Done)
}

/// Describes the runs and workers that continue under a new daemon.
fn kept_workers_text(detail: &HealthDetail) -> String {
    let (runs, workers) = (detail.live_runs as usize, detail.workers as usize);
    let pid = detail.pid;
    match (runs, workers) {
        (0, 0) => format!(", pid {pid}"),
        _ => format!(
            ", pid {pid}; {} and {} continue",
            pluralize(runs, "run"),
            pluralize(workers, "worker")
        ),
    }
}

/// Returns the process of the daemon that answered; a daemon of an earlier version reports only its pid.
pub(super) fn process_of(health: &Health) -> Option<Process> {
    let detail = health.detail.as_ref()?;
    match detail.start_time {
        Some(start_time) => Some(Process { pid: detail.pid, start_time }),
        None => Process::of(detail.pid),
    }
}

/// Waits until `daemon` has exited or released its lock. A lock that is held after its exit is its successor's.
async fn wait_until_gone(
    daemon: Option<Process>,
    ctx: &CommandContext<'_>,
) -> Result<(), CliError> {
    let lock = ctx.settings.home.join("daemon.lock");
    let deadline = Instant::now() + STOP_TIMEOUT;
    while let Some(daemon) = daemon.filter(|daemon| daemon.is_alive()) {
        match LockFile::is_held(&lock) {
            Ok(false) => break,
            Ok(true) if Instant::now() < deadline => sleep(STOP_POLL_INTERVAL).await,
            Ok(true) => {
                let what = format!("the daemon (pid {}) is still stopping", daemon.pid);
                return Err(CliError::new(CliErrorKind::Failed, what));
            }
            Err(error) => {
                return Err(CliError::with_source(
                    CliErrorKind::BadHome,
                    "could not read the daemon's lock",
                    error,
                ));
            }
        }
    }
    Ok(())
}
