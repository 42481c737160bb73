//! `agent-worker doctor`: everything that must be in order, looked at; what is not, with what to do about it.

mod looks;

use agent_worker_host::DialError;
use agent_worker_protocol::{
    Code,
    api::{Health, HealthStatus, ProcessTracking},
};
use serde::Serialize;

use super::backends::{self, Backend};
use crate::{
    client::Client,
    context::{Context, Format, Output},
    discovery::{self, Found},
    error::CliError,
    line::{Line, Tone},
    text::{count, harmless, one_line, wrapped},
    verdict::Verdict,
};

/// What keeps an agent from being its user, and what does not.
const RAIL: &str = "agents run as you and are not sandboxed: what keeps one from acting as you is a rail, not a wall; \
                    SECURITY.md has the whole of it";

/// Where what was found begins.
const MARGIN: usize = 15;

/// Look whether everything is in order
///
/// The home and who can look into it, the disk, the daemon, its store from end to end, the port, each backend. Exits 1
/// when something is broken, and says what to do about it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker doctor --json")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) output: Output,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    about: &'static str,
    state: State,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// In order.
    Ok,
    /// Worth knowing; nothing is wrong.
    Note,
    /// Something does not work, or is not safe.
    Broken,
}

/// What `doctor --json` prints.
#[derive(Serialize)]
struct Report {
    ok: bool,
    findings: Vec<Finding>,
    backends: Vec<Backend>,
}

/// Runs the command.
pub(crate) async fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let mut findings = looks::home(ctx.settings);
    findings.extend(looks::disk(ctx.settings));
    findings.extend(daemon(ctx).await);
    findings.push(Finding::note("agents", RAIL));
    let ok = findings.iter().all(|finding| finding.state != State::Broken);
    let backends = backends::found(ctx.settings).await;
    match args.output.format() {
        Format::Json => ctx.console.json(&Report { ok, findings, backends })?,
        Format::Text => {
            findings.iter().try_for_each(|finding| show(finding, ctx))?;
            backends.iter().try_for_each(|backend| show(&about(backend), ctx))?;
        }
    }
    Ok(if ok { Verdict::Done } else { Verdict::Failed })
}

impl Finding {
    fn of(about: &'static str, state: State, message: impl Into<String>) -> Self {
        Self { about, state, message: message.into(), hint: None }
    }
    fn ok(about: &'static str, message: impl Into<String>) -> Self {
        Self::of(about, State::Ok, message)
    }
    fn note(about: &'static str, message: impl Into<String>) -> Self {
        Self::of(about, State::Note, message)
    }
    fn broken(about: &'static str, message: impl Into<String>) -> Self {
        Self::of(about, State::Broken, message)
    }
    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
    fn failed(about: &'static str, error: &CliError) -> Self {
        let body = error.body();
        Self { hint: body.hint, ..Self::broken(about, body.message) }
    }
}

/// The daemon, its store and its port. Where one has been, one is started: only it can look through its store.
async fn daemon(ctx: &Context<'_>) -> Vec<Finding> {
    let found = match discovery::look(ctx.settings).await {
        Ok(None) if ctx.settings.has_history() => started(ctx).await.map(Some),
        other => other,
    };
    let Found { client, health } = match found {
        Ok(Some(found)) => found,
        Ok(None) => {
            return vec![Finding::ok(
                "daemon",
                "none yet; the first command that needs one starts it",
            )];
        }
        Err(error) => return vec![Finding::failed("daemon", &error)],
    };
    let mut findings = vec![how_it_is(&health)];
    if let Some(other) = discovery::mismatch(ctx.settings, &health) {
        findings.push(Finding::broken("version", other.what).hint(other.hint));
    }
    findings.push(store(&client).await);
    let tracking = health.detail.as_ref().and_then(|detail| detail.tracking.as_ref());
    findings.extend(tracking.map(processes));
    findings.extend(health.detail.as_ref().map(|detail| {
        match &detail.address {
            Some(address) => Finding::ok("port", format!("clients with a token at {address}")),
            None => Finding::note("port", "none was free: clients with a token cannot come")
                .hint("free one, then: agent-worker daemon restart"),
        }
    }));
    findings
}

/// The method by which the daemon attributes a process to an attempt.
fn processes(tracking: &ProcessTracking) -> Finding {
    match tracking {
        ProcessTracking::Cgroup { path } => {
            let path = one_line(&path.to_string_lossy());
            Finding::ok("process", format!("each attempt has its own cgroup in {path}"))
        }
        ProcessTracking::Tree { why } => {
            let message = format!("attempts are tracked by their process tree: {}", one_line(why));
            Finding::note("process", message)
        }
    }
}

async fn started(ctx: &Context<'_>) -> Result<Found, CliError> {
    let client = ctx.daemon().await?;
    let health = client.health().await?;
    Ok(Found { client, health })
}

/// The next step for a store that refuses writes.
fn hint_for(health: &Health) -> String {
    let rescued = health.detail.as_ref().map_or(&[][..], |detail| detail.rescued.as_slice());
    if rescued.is_empty() {
        return "free space or repair the disk; writes are tried again without a restart"
            .to_owned();
    }
    let copies: Vec<String> = rescued.iter().map(|path| path.display().to_string()).collect();
    format!(
        "stop the daemon (agent-worker daemon stop), then put the copy in the place of its database, or move it to \
         another folder to go on without it: {}",
        copies.join(", ")
    )
}

fn how_it_is(health: &Health) -> Finding {
    let version = one_line(&health.version);
    let trouble = health.detail.as_ref().and_then(|detail| detail.trouble.as_deref());
    match health.status {
        HealthStatus::Ok => Finding::ok("daemon", format!("version {version}, takes writes")),
        HealthStatus::Draining => {
            Finding::note("daemon", format!("version {version}, is stopping"))
        }
        HealthStatus::Degraded => {
            let why = one_line(trouble.unwrap_or("no reason given"));
            Finding::broken("daemon", format!("the database of a team takes no writes: {why}"))
                .hint(hint_for(health))
        }
        HealthStatus::ReadOnly => {
            let why = one_line(trouble.unwrap_or("no reason given"));
            Finding::broken("daemon", format!("its store takes no writes: {why}"))
                .hint(hint_for(health))
        }
    }
}

async fn store(client: &Client) -> Finding {
    match client.store_report().await {
        Ok(report) if report.problems.is_empty() => {
            let messages = count(usize::try_from(report.messages).unwrap_or(usize::MAX), "message");
            let instances = count(report.instances as usize, "instance");
            let all = format!("{instances}, {messages}, each as it was written");
            match report.unhashed {
                0 => Finding::ok("store", all),
                1 => Finding::ok(
                    "store",
                    format!("{all}; 1 row written by an earlier version has no checksum"),
                ),
                rows => Finding::ok(
                    "store",
                    format!("{all}; {rows} rows written by an earlier version have no checksum"),
                ),
            }
        }
        Ok(report) => {
            let problems: Vec<String> = report.problems.iter().map(|one| one_line(one)).collect();
            Finding::broken("store", problems.join("; ")).hint(
                "keep a copy of agent-worker.db before anything else; `agent-worker export` saves what can be read",
            )
        }
        Err(DialError::Refused(problem)) if problem.code == Code::Forbidden => {
            Finding::note("store", "only the user may look through it")
        }
        Err(error) => Finding::failed("store", &CliError::from(error)),
    }
}

fn about(backend: &Backend) -> Finding {
    let said = format!("{}: {}", backend.name, backend.said().join("; "));
    if backend.is_ready() { Finding::ok("backend", said) } else { Finding::note("backend", said) }
}

fn show(finding: &Finding, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let (tone, word) = match finding.state {
        State::Ok => (Tone::Good, "ok"),
        State::Note => (Tone::Dim, "note"),
        State::Broken => (Tone::Bad, "broken"),
    };
    let room = ctx.console.answer_width().map_or(usize::MAX, |width| width.saturating_sub(MARGIN));
    let mut message = wrapped(&harmless(&finding.message), room).into_iter();
    let first = Line::of(tone, format!("{word:<7}"))
        .and(Tone::Strong, format!("{:<8}", finding.about))
        .and(Tone::Plain, message.next().unwrap_or_default());
    ctx.console.answer(&first)?;
    let beneath = |tone, text: String| Line::of(tone, format!("{:MARGIN$}{text}", ""));
    let hint = finding.hint.iter().flat_map(|hint| wrapped(&format!("hint: {hint}"), room));
    let rest = message.map(|text| beneath(Tone::Plain, text));
    ctx.console
        .answer_all(&rest.chain(hint.map(|text| beneath(Tone::Dim, text))).collect::<Vec<_>>())
}
