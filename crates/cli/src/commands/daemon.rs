//! `agent-worker daemon status` and `daemon stop`. The daemon itself is another room's.

use std::{path::Path, time::Duration};

use agent_worker_host::LockFile;
use agent_worker_protocol::api::{Health, HealthStatus, ShutdownMode};
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    clock,
    context::{Context, Format, Output},
    discovery,
    error::{CliError, Kind},
    line::{Line, Tone},
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
    /// It leases nothing more, gives its workers their time, then ends them.
    #[command(after_help = "Example: agent-worker daemon stop --now")]
    Stop {
        /// Give the workers no time
        #[arg(long)]
        now: bool,
        #[command(flatten)]
        output: Output,
    },
}

impl Ask {
    /// How to answer.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Status { output } | Self::Stop { output, .. } => output.format(),
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
        if let Some(trouble) = &detail.trouble {
            ctx.console.answer(&Line::of(Tone::Bad, format!("  {}", one_line(trouble))))?;
        }
    }
    match discovery::mismatch(health) {
        Some(what) => ctx.console.warn(&what),
        None => Ok(()),
    }
}

async fn stop(
    mode: ShutdownMode,
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    let found = discovery::look(ctx.settings).await?;
    if let Some(found) = &found {
        found.client.shutdown(mode).await?;
        until_gone(&ctx.settings.home.join("daemon.lock")).await?;
    }
    match (format, found) {
        (Format::Json, found) => ctx.console.json(&json!({ "stopped": found.is_some() })),
        (Format::Text, Some(_)) => ctx.console.note("the daemon is stopped"),
        (Format::Text, None) => ctx.console.note("no daemon is running"),
    }?;
    Ok(Verdict::Done)
}

/// A daemon that left has let go of its lock: that, and not its silence, is the end.
async fn until_gone(lock: &Path) -> Result<(), CliError> {
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
