//! `agent-worker doctor`: checks the installation, and prints a hint for each problem.

mod config_checks;
mod home_checks;

use agent_worker_host::DialError;
use agent_worker_protocol::{
    Code, Keyword as _, SandboxNetwork,
    api::{Health, HealthStatus, ProcessTracking},
};
use agent_worker_sandbox::{SandboxSupport, sandbox_gaps, sandbox_parts};
use serde::Serialize;

use super::backends::{BackendDetail, BackendStatus, detect_backends, print_backends};
use crate::{
    client::{
        daemon_client::DaemonClient,
        discovery::{self, DiscoveredDaemon, HELD_TEXT, START_HINT},
    },
    error::CliError,
    input::context::{CommandContext, Format, OutputArgs},
    output::{
        styled_line::{StyledLine, Tone},
        text::{one_line, pluralize, sanitize_for_display, wrap_words},
        verdict::RunVerdict,
    },
};

/// The notice about the limits of the separation between an agent and its user.
const SANDBOX_NOTICE: &str = "agents with `sandbox: off` (the default of programs) run as you: the separation from you is a guard rail, not a security boundary; \
                    see SECURITY.md";

/// Column at which the text of a finding starts.
const LABEL_WIDTH: usize = 15;

/// Check the home, the daemon, its store and the backends
///
/// Checks the home and its permissions, the disk, the daemon, its whole store, the port and each backend. Exits with 1
/// if something is broken, and prints how to fix it. The table of the backends is that of `backends`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker doctor --json")]
pub(crate) struct Args {
    /// Show the capabilities of the backends too
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct DoctorFinding {
    about: &'static str,
    state: FindingState,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum FindingState {
    /// No problem was found.
    Ok,
    /// Information without a problem.
    Note,
    /// Something does not work, or is not safe.
    Broken,
}

/// The document that `doctor --json` prints.
#[derive(Serialize)]
struct DoctorReport {
    ok: bool,
    findings: Vec<DoctorFinding>,
    backends: Vec<BackendStatus>,
}

/// Runs the command.
pub(crate) async fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let mut findings = home_checks::check_home(ctx.settings);
    findings.extend(home_checks::check_disk(ctx.settings));
    findings.extend(config_checks::check_config(ctx.settings));
    findings.extend(config_checks::check_notifications(ctx.settings));
    findings.extend(check_daemon(ctx).await);
    findings.push(DoctorFinding::note("agents", SANDBOX_NOTICE));
    findings.push(sandbox_finding(&SandboxSupport::detect()));
    let ok = findings.iter().all(|finding| finding.state != FindingState::Broken);
    let backends = detect_backends(ctx.settings).await;
    match args.output.format() {
        Format::Json => ctx.console.print_json(&DoctorReport { ok, findings, backends })?,
        Format::Text => {
            findings.iter().try_for_each(|finding| show(finding, ctx))?;
            ctx.console.print_line(&StyledLine::default())?;
            let detail = if args.verbose { BackendDetail::Full } else { BackendDetail::Table };
            print_backends(&backends, detail, ctx.console)?;
        }
    }
    Ok(if ok { RunVerdict::Done } else { RunVerdict::Failed })
}

impl DoctorFinding {
    fn new(about: &'static str, state: FindingState, message: impl Into<String>) -> Self {
        Self { about, state, message: message.into(), hint: None }
    }
    fn ok(about: &'static str, message: impl Into<String>) -> Self {
        Self::new(about, FindingState::Ok, message)
    }
    fn note(about: &'static str, message: impl Into<String>) -> Self {
        Self::new(about, FindingState::Note, message)
    }
    fn broken(about: &'static str, message: impl Into<String>) -> Self {
        Self::new(about, FindingState::Broken, message)
    }
    fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
    fn failed(about: &'static str, error: &CliError) -> Self {
        let body = error.to_report_error();
        Self { hint: body.hint, ..Self::broken(about, body.message) }
    }
}

/// Checks the daemon, its store and its port. In a home with history a daemon is started, since only a daemon can check
/// its store.
async fn check_daemon(ctx: &CommandContext<'_>) -> Vec<DoctorFinding> {
    let found = match discovery::find_daemon(ctx.settings).await {
        Ok(None) if ctx.settings.has_history() => find_or_start_daemon(ctx).await.map(Some),
        other => other,
    };
    let DiscoveredDaemon { client, health } = match found {
        Ok(Some(found)) => found,
        Ok(None) => {
            let daemon = DoctorFinding::ok(
                "daemon",
                "not running; the first command that needs a daemon starts it",
            );
            return std::iter::once(daemon).chain(home_checks::check_port(ctx.settings)).collect();
        }
        Err(error) => return vec![DoctorFinding::failed("daemon", &error)],
    };
    let mut findings = vec![health_finding(&health)];
    if let Some(other) = discovery::version_mismatch(ctx.settings, &health) {
        findings.push(DoctorFinding::broken("version", other.message).with_hint(other.hint));
    }
    findings.push(check_store(&client).await);
    let tracking = health.detail.as_ref().and_then(|detail| detail.tracking.as_ref());
    findings.extend(tracking.map(tracking_finding));
    let conflict = health.detail.as_ref().and_then(|detail| detail.port_conflict.as_deref());
    findings.extend(conflict.map(|conflict| DoctorFinding::note("port", one_line(conflict))));
    findings.extend(health.detail.as_ref().map(|detail| {
        match &detail.address {
            Some(address) => {
                DoctorFinding::ok("port", format!("clients with a token connect at {address}"))
            }
            None => {
                DoctorFinding::note("port", "no port was free: clients with a token cannot connect")
                    .with_hint("free a port, then: agent-worker daemon restart")
            }
        }
    }));
    findings
}

/// The sandbox that agents with `sandbox` get on this machine.
fn sandbox_finding(support: &SandboxSupport) -> DoctorFinding {
    let Some(level) = support.best_level() else {
        let why = one_line(support.missing.as_deref().unwrap_or_default());
        let hint =
            "agents with `sandbox: on`, and those of `api` without `sandbox: off`, fail here";
        return DoctorFinding::note("sandbox", format!("not possible: {why}")).with_hint(hint);
    };
    let message = format!("{}: {}", level.word(), sandbox_parts(level));
    match &support.missing {
        None => DoctorFinding::ok("sandbox", message),
        Some(why) => {
            let open = sandbox_gaps(level, &SandboxNetwork::Off).join("; ");
            let message = format!("{message}; open: {open}");
            DoctorFinding::note("sandbox", message).with_hint(one_line(why))
        }
    }
}

/// The method by which the daemon attributes a process to an attempt.
fn tracking_finding(tracking: &ProcessTracking) -> DoctorFinding {
    match tracking {
        ProcessTracking::Cgroup { path } => {
            let path = one_line(&path.to_string_lossy());
            DoctorFinding::ok("process", format!("each attempt has its own cgroup in {path}"))
        }
        ProcessTracking::Tree { why } => {
            let message = format!("attempts are tracked by their process tree: {}", one_line(why));
            DoctorFinding::note("process", message)
        }
    }
}

async fn find_or_start_daemon(ctx: &CommandContext<'_>) -> Result<DiscoveredDaemon, CliError> {
    let client = ctx.connect_or_start().await?;
    let health = client.health().await?;
    Ok(DiscoveredDaemon { client, health })
}

/// The next step for a store that refuses writes.
fn store_hint(health: &Health) -> String {
    let rescued = health.detail.as_ref().map_or(&[][..], |detail| detail.rescued.as_slice());
    if rescued.is_empty() {
        return "free space or repair the disk; the daemon retries writes without a restart"
            .to_owned();
    }
    let copies: Vec<String> = rescued.iter().map(|path| path.display().to_string()).collect();
    format!(
        "stop the daemon (agent-worker daemon stop), then replace its database with the copy, or move the copy to \
         another folder to continue without it: {}",
        copies.join(", ")
    )
}

fn health_finding(health: &Health) -> DoctorFinding {
    let version = one_line(&health.version);
    let trouble = health.detail.as_ref().and_then(|detail| detail.trouble.as_deref());
    match health.status {
        HealthStatus::Ok => {
            DoctorFinding::ok("daemon", format!("version {version}, accepts writes"))
        }
        HealthStatus::Held => {
            DoctorFinding::note("daemon", format!("version {version}, {HELD_TEXT}"))
                .with_hint(START_HINT.to_owned())
        }
        HealthStatus::Draining => {
            DoctorFinding::note("daemon", format!("version {version}, stopping"))
        }
        HealthStatus::Degraded => {
            let why = one_line(trouble.unwrap_or("no reason given"));
            DoctorFinding::broken(
                "daemon",
                format!("the database of a team accepts no writes: {why}"),
            )
            .with_hint(store_hint(health))
        }
        HealthStatus::ReadOnly => {
            let why = one_line(trouble.unwrap_or("no reason given"));
            DoctorFinding::broken("daemon", format!("the store accepts no writes: {why}"))
                .with_hint(store_hint(health))
        }
    }
}

async fn check_store(client: &DaemonClient) -> DoctorFinding {
    match client.store_report().await {
        Ok(report) if report.problems.is_empty() => {
            let messages =
                pluralize(usize::try_from(report.messages).unwrap_or(usize::MAX), "message");
            let instances = pluralize(report.instances as usize, "instance");
            let all = format!("{instances}, {messages}, no damage found");
            match report.unhashed {
                0 => DoctorFinding::ok("store", all),
                1 => DoctorFinding::ok(
                    "store",
                    format!("{all}; 1 row written by an earlier version has no checksum"),
                ),
                rows => DoctorFinding::ok(
                    "store",
                    format!("{all}; {rows} rows written by an earlier version have no checksum"),
                ),
            }
        }
        Ok(report) => {
            let problems: Vec<String> = report.problems.iter().map(|one| one_line(one)).collect();
            DoctorFinding::broken("store", problems.join("; ")).with_hint(
                "first make a copy of agent-worker.db; `agent-worker export` saves the data that is still readable",
            )
        }
        Err(DialError::Refused(problem)) if problem.code == Code::Forbidden => {
            DoctorFinding::note("store", "only the user may check the store")
        }
        Err(error) => DoctorFinding::failed("store", &CliError::from(error)),
    }
}

fn show(finding: &DoctorFinding, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let (tone, word) = match finding.state {
        FindingState::Ok => (Tone::Good, "ok"),
        FindingState::Note => (Tone::Dim, "note"),
        FindingState::Broken => (Tone::Bad, "broken"),
    };
    let columns =
        ctx.console.stdout_width().map_or(usize::MAX, |width| width.saturating_sub(LABEL_WIDTH));
    let mut message = wrap_words(&sanitize_for_display(&finding.message), columns).into_iter();
    let first = StyledLine::new(tone, format!("{word:<7}"))
        .with(Tone::Strong, format!("{:<8}", finding.about))
        .with(Tone::Plain, message.next().unwrap_or_default());
    ctx.console.print_line(&first)?;
    let beneath = |tone, text: String| StyledLine::new(tone, format!("{:LABEL_WIDTH$}{text}", ""));
    let hint = finding.hint.iter().flat_map(|hint| wrap_words(&format!("hint: {hint}"), columns));
    let rest = message.map(|text| beneath(Tone::Plain, text));
    ctx.console
        .print_lines(&rest.chain(hint.map(|text| beneath(Tone::Dim, text))).collect::<Vec<_>>())
}
