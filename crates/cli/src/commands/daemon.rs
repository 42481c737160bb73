//! `agent-worker daemon status`, `stop`, `restart` and `logs`. The daemon itself is another room's.

mod leftovers;

use std::{path::Path, time::Duration};

use agent_worker_host::LockFile;
use agent_worker_protocol::api::{Health, HealthDetail, HealthStatus, ShutdownMode};
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    clock,
    context::{Context, Format, Output},
    discovery::{self, Older},
    error::{CliError, Kind},
    line::{Line, Tone},
    tail,
    text::{count, lasted, one_line},
    verdict::Verdict,
};

/// Longer than a daemon gives its workers.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// What can be asked of a daemon that runs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Ask {
    /// Say whether a daemon runs, and how it is
    ///
    /// Exits 1 when none runs.
    #[command(after_help = "Example: agent-worker daemon status --json")]
    Status {
        #[command(flatten)]
        output: Output,
    },
    /// Stop the daemon and wait until it is gone
    ///
    /// It leases nothing more, gives its workers their time, then ends them. Where a daemon died and left workers, they
    /// are ended too. Runs go on with the next command that starts a daemon.
    #[command(after_help = "Example: agent-worker daemon stop --now")]
    Stop {
        /// Give the workers no time
        #[arg(long)]
        now: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Put this program's daemon in the place of the one that runs
    ///
    /// Its workers stay and are taken over in the middle of their turns. The new daemon has the settings this shell's
    /// `AGENT_WORKER_*` variables say.
    #[command(after_help = "Example: agent-worker daemon restart")]
    Restart {
        #[command(flatten)]
        output: Output,
    },
    /// Print the daemon's log
    #[command(visible_alias = "log", after_help = "Example: agent-worker daemon logs --follow")]
    Logs {
        /// The newest so many lines
        #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100)]
        number: usize,
        /// Go on printing what is written, until Ctrl-C
        #[arg(long, short, conflicts_with = "json")]
        follow: bool,
        #[command(flatten)]
        output: Output,
    },
}

impl Ask {
    /// How to answer.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Status { output }
            | Self::Stop { output, .. }
            | Self::Restart { output }
            | Self::Logs { output, .. } => output.format(),
        }
    }
}

/// What `daemon status --json` prints.
#[derive(Serialize)]
struct Status {
    running: bool,
    #[serde(flatten)]
    health: Option<Health>,
}

/// Runs the command.
pub(crate) async fn run(ask: Ask, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    match ask {
        Ask::Status { output } => status(output.format(), ctx).await,
        Ask::Stop { now, output } => {
            let mode = if now { ShutdownMode::Now } else { ShutdownMode::Drain };
            stop(mode, output.format(), ctx).await
        }
        Ask::Restart { output } => restart(output.format(), ctx).await,
        Ask::Logs { number, follow, output } => {
            let log = ctx.settings.home.join("logs").join("daemon.log");
            let until = if follow { tail::Until::Stopped } else { tail::Until::Read };
            match output.format() {
                Format::Json => {
                    let lines = tail::newest(&log, number)?;
                    ctx.console.json(&json!({ "log": log, "lines": lines }))?;
                }
                Format::Text => tail::print(&log, number, until, ctx.console)?,
            }
            Ok(Verdict::Done)
        }
    }
}

async fn status(format: Format, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let health = discovery::look(ctx.settings).await?.map(|found| found.health);
    let verdict = if health.is_some() { Verdict::Done } else { Verdict::Failed };
    match (format, health) {
        (Format::Json, health) => ctx.console.json(&Status { running: health.is_some(), health }),
        (Format::Text, None) => ctx.console.answer(&Line::plain("no daemon is running")),
        (Format::Text, Some(health)) => show(&health, ctx),
    }?;
    Ok(verdict)
}

fn show(health: &Health, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let word = match health.status {
        HealthStatus::Ok => Line::of(Tone::Good, "ok"),
        HealthStatus::Draining => Line::of(Tone::Warn, "stopping"),
        HealthStatus::ReadOnly => Line::of(Tone::Bad, "read only: the store takes no writes"),
    };
    ctx.console
        .answer(&word.and(Tone::Plain, format!(" · version {}", one_line(&health.version))))?;
    if let Some(detail) = &health.detail {
        let up = lasted(clock::now().since(detail.started));
        let runs = count(detail.live_runs as usize, "run");
        let workers = count(detail.workers as usize, "worker");
        let lines = [
            format!("pid {}, up {up}, {runs}, {workers}", detail.pid),
            format!("home {}", detail.home.display()),
            format!(
                "clients at {}",
                detail.address.as_deref().unwrap_or("no address: no port was free")
            ),
        ];
        for line in lines {
            ctx.console.answer(&Line::plain(format!("  {}", one_line(&line))))?;
        }
        for row in &detail.damaged {
            ctx.console.answer(&Line::of(Tone::Bad, format!("  {}", one_line(row))))?;
        }
        if let Some(trouble) = &detail.trouble {
            ctx.console.answer(&Line::of(Tone::Bad, format!("  {}", one_line(trouble))))?;
        }
    }
    match discovery::mismatch(ctx.settings, health) {
        Some(other) => {
            ctx.console.warn(&other.what)?;
            ctx.console.hint(other.hint)
        }
        None => Ok(()),
    }
}

async fn stop(
    mode: ShutdownMode,
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    let Some(found) = discovery::look(ctx.settings).await? else {
        return leftovers::end(format, ctx).await;
    };
    found.client.shutdown(mode).await?;
    until_gone(ctx).await?;
    match format {
        Format::Json => ctx.console.json(&json!({ "stopped": true, "ended": 0 })),
        Format::Text => ctx.console.note("the daemon is stopped"),
    }?;
    Ok(Verdict::Done)
}

async fn restart(format: Format, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let before = discovery::look(ctx.settings).await?;
    if let Some(found) = &before {
        if let Some(other) = discovery::mismatch(ctx.settings, &found.health)
            && other.older == Older::Command
        {
            return Err(CliError::new(Kind::OtherVersion, other.what).hint(other.hint));
        }
        found.client.shutdown(ShutdownMode::Handover).await?;
        until_gone(ctx).await?;
    }
    let client = discovery::open(ctx.settings).await?;
    let health = client.health().await?;
    match format {
        Format::Json => ctx.console.json(&Status { running: true, health: Some(health) })?,
        Format::Text => {
            let was = if before.is_some() { "restarted" } else { "no daemon was running; started" };
            let kept = health.detail.as_ref().map(kept).unwrap_or_default();
            ctx.console.note(&format!("{was}: version {}{kept}", one_line(&health.version)))?;
        }
    }
    Ok(Verdict::Done)
}

/// What goes on beneath a new daemon.
fn kept(detail: &HealthDetail) -> String {
    let (runs, workers) = (detail.live_runs as usize, detail.workers as usize);
    let pid = detail.pid;
    match (runs, workers) {
        (0, 0) => format!(", pid {pid}"),
        _ => format!(", pid {pid}; {} and {} go on", count(runs, "run"), count(workers, "worker")),
    }
}

/// A daemon that left has let go of its lock: that, and not its silence, is the end.
async fn until_gone(ctx: &Context<'_>) -> Result<(), CliError> {
    let lock: &Path = &ctx.settings.home.join("daemon.lock");
    let deadline = Instant::now() + PATIENCE;
    loop {
        match LockFile::is_held(lock) {
            Ok(false) => return Ok(()),
            Ok(true) if Instant::now() < deadline => sleep(PAUSE).await,
            Ok(true) => {
                return Err(CliError::new(Kind::Failed, "the daemon is still stopping")
                    .hint("give its workers no time: agent-worker daemon stop --now"));
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
