//! `agent-worker validate`: check a workflow file without running anything.

use std::path::PathBuf;

use agent_worker_protocol::{AgentName, WorkflowName};
use agent_worker_workflow::Param;
use serde::Serialize;

use crate::{
    context::{Context, Format, Output},
    error::{CliError, ErrorBody},
    line::{Line, Tone},
    params,
    text::count,
    verdict::Verdict,
};

/// Check a workflow file without running anything
///
/// Lists its agents and parameters. Needs no daemon. Exits 2 when the file is not valid.
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
    error: Option<ErrorBody>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let file = ctx.settings.cwd.join(&args.file);
    let loaded = agent_worker_workflow::load(&file).map_err(CliError::from);
    let checked = loaded.and_then(|workflow| params::check(&workflow.params).map(|()| workflow));
    let workflow = match checked {
        Ok(workflow) => workflow,
        Err(error) => {
            if args.output.format() == Format::Text {
                return Err(error);
            }
            ctx.console.json(&Checked { error: Some(error.body()), ..Checked::default() })?;
            return Ok(error.verdict());
        }
    };
    let agents: Vec<AgentName> = workflow.agents.iter().map(|agent| agent.name.clone()).collect();
    if args.output.format() == Format::Json {
        let (workflow, params) = (Some(workflow.name), workflow.params);
        ctx.console.json(&Checked { valid: true, workflow, agents, params, error: None })?;
        return Ok(Verdict::Done);
    }
    let head = Line::of(Tone::Good, "valid").and(Tone::Plain, format!(": {}", workflow.name));
    ctx.console.answer(&head.and(Tone::Dim, format!(" ({})", count(agents.len(), "agent"))))?;
    for agent in &workflow.agents {
        let backend = agent.backend.word();
        ctx.console.answer(
            &Line::plain(format!("  {}", agent.name)).and(Tone::Dim, format!("  {backend}")),
        )?;
    }
    for param in &workflow.params {
        let need = match (&param.default, param.required) {
            (_, true) => "required".to_owned(),
            (Some(default), false) => format!("default {default}"),
            (None, false) => "optional".to_owned(),
        };
        ctx.console.answer(
            &Line::plain(format!("  --{} VALUE", param.name)).and(Tone::Dim, format!("  {need}")),
        )?;
    }
    Ok(Verdict::Done)
}
