//! `agent-worker stats`: prints the activity, cost and latencies of agents.

use std::time::Duration;

use agent_worker_protocol::{
    Target,
    api::{ActivityStats, DurationPercentiles, StatsView},
};

use crate::{
    client::daemon_client::ScopeReach,
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
        target_args::{LIST_TARGET_HELP, TargetArgs},
    },
    output::{
        state_text,
        styled_line::{StyledLine, Tone},
        table::Column::{Figure, Name},
        text::{format_elapsed, one_line},
        verdict::RunVerdict,
    },
};

/// Show turns, messages, tokens, cost and latencies
///
/// Shows the live run, else the last one. Times are p50 / p95. Times and failures cover the newest thousand turns.
#[derive(Debug, clap::Args)]
#[command(mut_arg("target", |arg| arg.help(LIST_TARGET_HELP)), after_help = "Example: agent-worker stats @review:pr-123")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Include every folder and ended runs
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    let reach = if args.all { ScopeReach::AllProjects } else { ScopeReach::CurrentProject };
    let target = args.target.for_list(reach, ctx)?;
    let only = target.as_ref().and_then(|target| target.agent.clone());
    let scope = ctx.scope(target, reach);
    let mut stats = match ctx.connect_if_history().await? {
        Some(client) => {
            if only.is_some() {
                // An unknown agent is an error, not an agent without figures.
                client.agents(&scope).await?;
            }
            let live = client.stats(&scope).await?;
            if live.is_empty() && reach == ScopeReach::CurrentProject {
                let scope = resolve_run::readable_scope(&client, &scope, format, ctx).await?;
                client.stats(&scope).await?
            } else {
                live
            }
        }
        None if scope.target.is_some() => return Err(CommandContext::no_history_error()),
        None => Vec::new(),
    };
    for run in &mut stats {
        run.agents.retain(|agent| only.as_ref().is_none_or(|only| *only == agent.name));
    }
    match format {
        Format::Json => ctx.console.print_json_list(&stats)?,
        Format::Text if stats.is_empty() => {
            ctx.console.note("no live runs here; name an ended run, or use --all")?;
        }
        Format::Text => stats.iter().try_for_each(|run| show(run, ctx))?,
    }
    Ok(RunVerdict::Done)
}

fn show(run: &StatsView, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let target = Target::instance(&run.instance).to_string();
    let state = one_line(&run.state.to_string());
    let time = format_elapsed(Duration::from_millis(run.lasted_ms));
    let head =
        StyledLine::new(Tone::Strong, target).with(Tone::Plain, format!("  {state} · {time}"));
    ctx.console.print_line(&head)?;
    let mut rows: Vec<_> =
        run.agents.iter().map(|agent| row(agent.name.as_str(), &agent.stats)).collect();
    if run.agents.len() > 1 {
        rows.push(row("(all)", &run.total));
    }
    let head = [
        Name("AGENT"),
        Figure("TURNS"),
        Figure("FAILED"),
        Figure("MESSAGES"),
        Figure("TOKENS IN"),
        Figure("OUT"),
        Figure("COST"),
        Figure("TOOK"),
        Figure("WAITED"),
    ];
    ctx.console.print_table(head, &rows)
}

fn row(who: &str, stats: &ActivityStats) -> [String; 9] {
    let usage = &stats.usage;
    [
        who.to_owned(),
        stats.turns.to_string(),
        stats.failed.to_string(),
        stats.messages.to_string(),
        usage.input_tokens.to_string(),
        usage.output_tokens.to_string(),
        state_text::cost_text(usage).unwrap_or_else(|| "-".to_owned()),
        stats.took.map_or_else(|| "-".to_owned(), percentiles_text),
        stats.waited.map_or_else(|| "-".to_owned(), percentiles_text),
    ]
}

fn percentiles_text(spread: DurationPercentiles) -> String {
    let time = |millis| format_elapsed(Duration::from_millis(millis));
    format!("{} / {}", time(spread.p50_ms), time(spread.p95_ms))
}
