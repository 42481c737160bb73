//! `agent-worker runs`: what ran, and what became of it.

use std::{cmp::Reverse, time::Duration};

use agent_worker_protocol::{Target, api::RunView};

use super::ls;
use crate::{
    client::{Client, Reach, Scope},
    clock,
    context::{Context, Format, Output},
    error::CliError,
    table::Column::{Figure, Name, State, Text},
    text::lasted,
    verdict::Verdict,
    which, words,
};

/// List runs, newest first
///
/// Those of this folder, over or not, and the permanent one of the standalone agents; with --all those of every folder,
/// the newest hundred.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker runs @review:pr-123")]
pub(crate) struct Args {
    /// Only those of `@workflow` or `@workflow:tag`
    target: Option<Target>,
    /// Those of every folder
    #[arg(long, conflicts_with = "target")]
    all: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let format = args.output.format();
    let reach = if args.all { Reach::Everywhere } else { Reach::Here };
    let scope = ctx.scope(args.target, reach);
    let mut runs = match ctx.daemon_if_any().await? {
        Some(client) => meant(&client, &scope).await?,
        None if scope.target.is_some() => return Err(Context::nothing_yet()),
        None => Vec::new(),
    };
    runs.sort_by_key(|run| Reverse(run.started));
    match format {
        Format::Json => ctx.console.json(&runs)?,
        Format::Text if runs.is_empty() => {
            ctx.console.note("nothing has run here; look at other folders with --all")?;
        }
        Format::Text => show(&runs, reach, ctx)?,
    }
    Ok(Verdict::Done)
}

async fn meant(client: &Client, scope: &Scope) -> Result<Vec<RunView>, CliError> {
    which::somebody(client, scope).await?;
    if scope.target.is_some() || scope.reach == Reach::Everywhere {
        return Ok(client.runs(scope).await?);
    }
    let mut runs = Vec::new();
    for instance in which::here_and_global(client, scope).await? {
        runs.extend(client.runs(&which::of(&instance)).await?);
    }
    Ok(runs)
}

fn show(runs: &[RunView], reach: Reach, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let now = clock::now();
    let row = |run: &RunView| {
        [
            Target::instance(&run.instance).to_string(),
            run.mode.to_string(),
            words::ago(run.started, now),
            lasted(Duration::from_millis(run.lasted_ms)),
            run.turns.to_string(),
            run.messages.to_string(),
            words::run(run),
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
        Reach::Here => ctx.console.table(head, &rows),
        Reach::Everywhere => {
            let source = |run: &RunView| ls::source(&run.instance, &run.project, ctx.settings);
            let sources: Vec<_> = runs.iter().map(source).collect();
            let rows = rows.into_iter().zip(sources).map(|(row, source)| {
                let [instance, kind, begun, lasted, turns, messages, outcome] = row;
                [instance, source, kind, begun, lasted, turns, messages, outcome]
            });
            let rows: Vec<_> = rows.collect();
            let [instance, kind, begun, lasted, turns, messages, outcome] = head;
            let head = [instance, Text("SOURCE"), kind, begun, lasted, turns, messages, outcome];
            ctx.console.table(head, &rows)
        }
    }
}
