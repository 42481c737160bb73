//! `agent-worker validate`: checks a workflow file without running it.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use agent_worker_protocol::{AgentName, WorkflowName, api::ReportError};
use agent_worker_workflow::{self as workflow, AgentProblem, Mistake, Param, Workflow};
use serde::Serialize;

use crate::{
    client::launch::{file_of_source, load_source, load_workflow, read_source},
    error::CliError,
    input::{
        config_file::ConfigFile,
        context::{CommandContext, Format, OutputArgs},
        params,
    },
    output::{
        styled_line::{StyledLine, Tone},
        text::pluralize,
        verdict::RunVerdict,
    },
    programs::check::check_team,
};

/// Check a workflow file without running it
///
/// The command lists the agents and parameters of the file, or all of its mistakes. It needs no daemon. It exits with 2 if
/// the file is invalid; a warning does not change the exit code.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker validate review.yaml")]
pub(crate) struct Args {
    /// Path of the workflow file, or of a folder with a `workflow.yaml`; `-` reads stdin
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
    // Without the `.` of `./review.yaml`.
    let file = file_of_source(ctx.settings.cwd.join(&args.file));
    let file: PathBuf = file.components().collect();
    let config = ConfigFile::read(ctx.settings)?;
    let loaded = match read_source(&args.file)? {
        Some(text) => load_source(&text, &file, &config),
        None => load_workflow(&file, &args.file, &config),
    };
    match (loaded, args.output.format()) {
        (Ok(workflow), Format::Json) => {
            let warnings = warnings(&workflow, &file, ctx);
            ctx.console.print_json(&ValidationReport::valid(workflow, warnings))?;
        }
        (Ok(workflow), Format::Text) => show(&workflow, &file, ctx)?,
        (Err(error), Format::Text) => return Err(error),
        (Err(error), Format::Json) => {
            ctx.console.print_json(&ValidationReport::invalid(&error))?;
            return Ok(error.verdict());
        }
    }
    Ok(RunVerdict::Done)
}

impl ValidationReport {
    fn valid(workflow: Workflow, warnings: Vec<Warning>) -> Self {
        Self {
            valid: true,
            warnings,
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

fn warnings(workflow: &Workflow, file: &Path, ctx: &CommandContext<'_>) -> Vec<Warning> {
    let silence = workflow.kickoff_problem().map(|silence| Warning {
        message: silence.why,
        hint: format!(
            "{}; as it is, `run` refuses the file and `start` waits for a message",
            silence.hint
        ),
    });
    let unknown = workflow.unknown_mentions().into_iter();
    let unknown = unknown.map(|one| Warning { message: one.why, hint: one.hint });
    let folder = file.parent().unwrap_or(&ctx.settings.cwd);
    let unusable = check_team(workflow, folder, &ctx.settings.cwd, ctx.settings);
    let unusable = located_problems(file, unusable.into_iter().map(|(problem, _)| problem));
    let unset = unset_variables(workflow, file, ctx);
    let ignored = workflow.warnings.iter().cloned().map(|one| located_warning(file, one));
    silence.into_iter().chain(unknown).chain(ignored).chain(unset).chain(unusable).collect()
}

fn located_warning(file: &Path, one: Mistake) -> Warning {
    let Mistake { line, column, message, hint } = one;
    let message = format!("{}:{line}:{column}: {message}", file.display());
    Warning { message, hint: hint.unwrap_or_default() }
}

/// Returns the warnings about programs that are missing or logged out here. The file may run elsewhere, so it stays valid.
fn located_problems(file: &Path, problems: impl Iterator<Item = AgentProblem>) -> Vec<Warning> {
    let opened = File::open(file).ok();
    let error = opened.and_then(|opened| workflow::locate_agent_problems(opened, file, problems));
    let mistakes = error.map(|error| error.mistakes()).unwrap_or_default();
    mistakes.into_iter().map(|mistake| located_warning(file, mistake)).collect()
}

/// Warns about variables that this shell does not have. The file may run in another shell, so it stays valid.
fn unset_variables(workflow: &Workflow, file: &Path, ctx: &CommandContext<'_>) -> Vec<Warning> {
    let opened = File::open(file).ok();
    let env = &ctx.settings.env;
    let error = opened.and_then(|opened| workflow::unset_env(opened, file, workflow, env));
    let mistakes = error.map(|error| error.mistakes()).unwrap_or_default();
    mistakes.into_iter().map(|mistake| located_warning(file, mistake)).collect()
}

fn show(workflow: &Workflow, file: &Path, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let tasks = workflow.tasks.walk().count();
    let content = match (workflow.agents.len(), tasks) {
        (agents, 0) => pluralize(agents, "agent"),
        (0, tasks) => pluralize(tasks, "task"),
        (agents, tasks) => {
            format!("{}, {}", pluralize(agents, "agent"), pluralize(tasks, "task"))
        }
    };
    let head =
        StyledLine::new(Tone::Good, "valid").with(Tone::Plain, format!(": {}", workflow.name));
    ctx.console.print_line(&head.with(Tone::Dim, format!(" ({content})")))?;
    let agents = workflow.agents.iter();
    let agents = agents.map(|agent| (agent.name.to_string(), agent.backend.word().to_owned()));
    print_columns(&agents.collect::<Vec<_>>(), ctx)?;
    let params = workflow.params.iter();
    let params = params.map(|param| (params::param_usage(param), params::param_help(param)));
    print_columns(&params.collect::<Vec<_>>(), ctx)?;
    for warning in warnings(workflow, file, ctx) {
        ctx.console.warn(&warning.message)?;
        ctx.console.hint(&warning.hint)?;
    }
    Ok(())
}

/// Prints indented rows with an aligned second column.
fn print_columns(rows: &[(String, String)], ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    rows.iter().try_for_each(|(name, about)| {
        let line = StyledLine::plain(format!("  {name:width$}"));
        ctx.console.print_line(&line.with(Tone::Dim, format!("  {about}")))
    })
}
