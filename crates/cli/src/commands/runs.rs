//! `agent-worker runs`: lists runs and their outcomes.

use std::time::Duration;

use agent_worker_protocol::{Target, api::RunView};

use super::ls;
use crate::{
    client::daemon_client::{CommandScope, DaemonClient, ScopeReach},
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
        target_args::{LIST_TARGET_HELP, TargetArgs},
    },
    output::{
        clock, state_text,
        table::Column::{Figure, Name, State, Text},
        text::format_elapsed,
        verdict::RunVerdict,
    },
};

/// List runs: live runs first, then the newest
///
/// The list has the live and ended runs of this folder and the permanent run of the standalone agents; with --all those
/// of every folder.
#[derive(Debug, clap::Args)]
#[command(mut_arg("target", |arg| arg.help(LIST_TARGET_HELP)), after_help = "Example: agent-worker runs @review:pr-123")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// List the runs of every folder
    #[arg(long, conflicts_with_all = ["target", "target_option"])]
    all: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    let reach = if args.all { ScopeReach::AllProjects } else { ScopeReach::CurrentProject };
    let target = args.target.for_list(reach, ctx)?;
    let scope = ctx.scope(target, reach);
    let runs = match ctx.connect_if_history().await? {
        Some(client) => fetch_runs(&client, &scope).await?,
        None if scope.target.is_some() => return Err(CommandContext::no_history_error()),
        None => Vec::new(),
    };
    match format {
        Format::Json => ctx.console.print_json_list(&runs)?,
        Format::Text if runs.is_empty() => {
            ctx.console.note("no runs in this folder; --all lists the runs of every folder")?;
        }
        Format::Text => show(&runs, reach, ctx)?,
    }
    Ok(RunVerdict::Done)
}

async fn fetch_runs(client: &DaemonClient, scope: &CommandScope) -> Result<Vec<RunView>, CliError> {
    resolve_run::require_agent_exists(client, scope).await?;
    Ok(client.runs(scope).await?)
}

fn show(runs: &[RunView], reach: ScopeReach, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let now = clock::now();
    let row = |run: &RunView| {
        [
            Target::instance(&run.instance).to_string(),
            run.mode.to_string(),
            state_text::time_ago(run.started, now),
            format_elapsed(Duration::from_millis(run.lasted_ms)),
            run.turns.to_string(),
            run.messages.to_string(),
            state_text::run_state_text(run),
        ]
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    let head = [
        Name("INSTANCE"),
        Text("KIND"),
        Text("BEGUN"),
        Figure("LASTED"),
        Figure("TURNS"),
        Figure("MESSAGES"),
        State("OUTCOME"),
    ];
    match reach {
        ScopeReach::CurrentProject => ctx.console.print_table(head, &rows),
        ScopeReach::AllProjects => {
            let source =
                |run: &RunView| ls::source_folder(&run.instance, &run.project, ctx.settings);
            let sources: Vec<_> = runs.iter().map(source).collect();
            let rows = rows.into_iter().zip(sources).map(|(row, source)| {
                let [instance, kind, begun, lasted, turns, messages, outcome] = row;
                [instance, source, kind, begun, lasted, turns, messages, outcome]
            });
            let rows: Vec<_> = rows.collect();
            let [instance, kind, begun, lasted, turns, messages, outcome] = head;
            let head = [instance, Text("SOURCE"), kind, begun, lasted, turns, messages, outcome];
            ctx.console.print_table(head, &rows)
        }
    }
}
