//! `agent-worker validate`: checks a workflow file without running it.

use std::path::PathBuf;

use agent_worker_protocol::{AgentName, WorkflowName, api::ReportError};
use agent_worker_workflow::{self as workflow, Mistake, Param, Workflow};
use serde::Serialize;

use crate::{
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        params,
    },
    output::{
        styled_line::{StyledLine, Tone},
        text::pluralize,
        verdict::RunVerdict,
    },
};

/// Check a workflow file without running it
///
/// Lists its agents and parameters, or all of its mistakes. Needs no daemon. Exits with 2 if the file is invalid; a
/// warning does not change the exit code.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker validate review.yaml")]
pub(crate) struct Args {
    /// Path of the workflow file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The document that `validate --json` prints.
#[derive(Debug, Default, Serialize)]
struct ValidationReport {
    valid: bool,
    workflow: Option<WorkflowName>,
    agents: Vec<AgentName>,
    params: Vec<Param>,
    warnings: Vec<Warning>,
    /// Mistakes with their positions, in the order of the file.
    mistakes: Vec<Mistake>,
    /// First mistake, or the reason why the file could not be read.
    error: Option<ReportError>,
}

/// A valid but probably unintended property of a workflow.
#[derive(Debug, Serialize)]
struct Warning {
    message: String,
    hint: String,
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let file = ctx.settings.cwd.join(&args.file);
    let loaded = agent_worker_workflow::load(&file).map_err(CliError::from);
    match (loaded, args.output.format()) {
        (Ok(workflow), Format::Json) => {
            ctx.console.print_json(&ValidationReport::valid(workflow))?;
        }
        (Ok(workflow), Format::Text) => show(&workflow, ctx)?,
        (Err(error), Format::Text) => return Err(error),
        (Err(error), Format::Json) => {
            ctx.console.print_json(&ValidationReport::invalid(&error))?;
            return Ok(error.verdict());
        }
    }
    Ok(RunVerdict::Done)
}

impl ValidationReport {
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
        let mistakes = error.workflow_error().map(workflow::Error::mistakes).unwrap_or_default();
        Self { mistakes, error: Some(error.to_report_error()), ..Self::default() }
    }
}

fn warnings(workflow: &Workflow) -> Vec<Warning> {
    let silence = workflow.kickoff_problem().map(|silence| Warning {
        message: silence.why,
        hint: format!(
            "{}; as it is, `run` refuses the file and `start` waits for a message",
            silence.hint
        ),
    });
    let unknown = workflow.unknown_mentions().into_iter();
    let unknown = unknown.map(|one| Warning { message: one.why, hint: one.hint });
    silence.into_iter().chain(unknown).collect()
}

fn show(workflow: &Workflow, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let agents = pluralize(workflow.agents.len(), "agent");
    let head =
        StyledLine::new(Tone::Good, "valid").with(Tone::Plain, format!(": {}", workflow.name));
    ctx.console.print_line(&head.with(Tone::Dim, format!(" ({agents})")))?;
    for agent in &workflow.agents {
        let backend = agent.backend.word();
        let line = StyledLine::plain(format!("  {}", agent.name));
        ctx.console.print_line(&line.with(Tone::Dim, format!("  {backend}")))?;
    }
    for param in &workflow.params {
        let line = StyledLine::plain(format!("  --{} VALUE", param.name));
        ctx.console
            .print_line(&line.with(Tone::Dim, format!("  {}", params::param_help(param))))?;
    }
    for warning in warnings(workflow) {
        ctx.console.warn(&warning.message)?;
        ctx.console.hint(&warning.hint)?;
    }
    Ok(())
}
