//! `agent-worker validate`: check a workflow file without running anything.

use std::path::PathBuf;

use agent_worker_protocol::{AgentName, WorkflowName, api::ReportError};
use agent_worker_workflow::{self as workflow, Mistake, Param, Workflow};
use serde::Serialize;

use crate::{
    context::{Context, Format, Output},
    error::CliError,
    line::{Line, Tone},
    params,
    text::count,
    verdict::Verdict,
};

/// Check a workflow file without running anything
///
/// Lists its agents and parameters, or everything that is wrong with it. Needs no daemon. Exits 2 when the file is
/// not valid; a warning changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker validate review.yaml")]
pub(crate) struct Args {
    /// The workflow file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    pub(super) output: Output,
}

/// What `validate --json` prints.
#[derive(Debug, Default, Serialize)]
struct Checked {
    valid: bool,
    workflow: Option<WorkflowName>,
    agents: Vec<AgentName>,
    params: Vec<Param>,
    warnings: Vec<Warning>,
    /// Each with its place, in the order of the file.
    mistakes: Vec<Mistake>,
    /// The first of them, or what kept the file from being read.
    error: Option<ReportError>,
}

/// What is valid and yet not what anybody wants.
#[derive(Debug, Serialize)]
struct Warning {
    message: String,
    hint: String,
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let file = ctx.settings.cwd.join(&args.file);
    let loaded = agent_worker_workflow::load(&file).map_err(CliError::from);
    match (loaded, args.output.format()) {
        (Ok(workflow), Format::Json) => ctx.console.json(&Checked::valid(workflow))?,
        (Ok(workflow), Format::Text) => show(&workflow, ctx)?,
        (Err(error), Format::Text) => return Err(error),
        (Err(error), Format::Json) => {
            ctx.console.json(&Checked::invalid(&error))?;
            return Ok(error.verdict());
        }
    }
    Ok(Verdict::Done)
}

impl Checked {
    fn valid(workflow: Workflow) -> Self {
        Self {
            valid: true,
            warnings: warnings(&workflow),
            workflow: Some(workflow.name),
            agents: workflow.agents.into_iter().map(|agent| agent.name).collect(),
            params: workflow.params,
            ..Self::default()
        }
    }

    fn invalid(error: &CliError) -> Self {
        let mistakes = error.bad_file().map(workflow::Error::mistakes).unwrap_or_default();
        Self { mistakes, error: Some(error.body()), ..Self::default() }
    }
}

fn warnings(workflow: &Workflow) -> Vec<Warning> {
    let silence = workflow.silence().map(|silence| Warning {
        message: silence.why,
        hint: format!(
            "{}; as it is, `run` refuses the file and `start` waits for a message",
            silence.hint
        ),
    });
    let strangers = workflow.strangers().into_iter();
    let strangers = strangers.map(|one| Warning { message: one.why, hint: one.hint });
    silence.into_iter().chain(strangers).collect()
}

fn show(workflow: &Workflow, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let agents = count(workflow.agents.len(), "agent");
    let head = Line::of(Tone::Good, "valid").and(Tone::Plain, format!(": {}", workflow.name));
    ctx.console.answer(&head.and(Tone::Dim, format!(" ({agents})")))?;
    for agent in &workflow.agents {
        let backend = agent.backend.word();
        let line = Line::plain(format!("  {}", agent.name));
        ctx.console.answer(&line.and(Tone::Dim, format!("  {backend}")))?;
    }
    for param in &workflow.params {
        let line = Line::plain(format!("  --{} VALUE", param.name));
        ctx.console.answer(&line.and(Tone::Dim, format!("  {}", params::explained(param))))?;
    }
    for warning in warnings(workflow) {
        ctx.console.warn(&warning.message)?;
        ctx.console.hint(&warning.hint)?;
    }
    Ok(())
}
