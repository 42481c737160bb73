//! `agent-worker ps`: lists agents in a wide table.

use agent_worker_protocol::api::AgentView;

use crate::{
    client::daemon_client::ScopeReach,
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        target_args::{LIST_TARGET_HELP, TargetArgs},
    },
    output::{
        clock, state_text,
        table::Column::{Figure, Name, State},
        text,
        verdict::RunVerdict,
    },
};

/// List agents with their workflow and instance
///
/// Lists standalone agents and the live runs of this folder; with --all every folder and ended runs.
#[derive(Debug, clap::Args)]
#[command(mut_arg("target", |arg| arg.help(LIST_TARGET_HELP)), after_help = "Example: agent-worker ps --all")]
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
    let reach = if args.all { ScopeReach::AllProjects } else { ScopeReach::CurrentProject };
    let target = args.target.for_list(reach, ctx)?;
    let scope = ctx.scope(target, reach);
    let agents = match ctx.connect_if_history().await? {
        Some(client) => client.agents(&scope).await?,
        None if scope.target.is_some() => return Err(CommandContext::no_history_error()),
        None => Vec::new(),
    };
    match args.output.format() {
        Format::Json => ctx.console.print_json_list(&agents)?,
        Format::Text if agents.is_empty() => ctx
            .console
            .note("no live agents here; start a team with `agent-worker run`, or use --all")?,
        Format::Text => show(&agents, ctx)?,
    }
    Ok(RunVerdict::Done)
}

fn show(agents: &[AgentView], ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let now = clock::now();
    let row = |agent: &AgentView| {
        [
            agent.instance.name.to_string(),
            agent.instance.tag.to_string(),
            agent.name.to_string(),
            state_text::agent_state_text(&agent.state, now),
            agent.messages.to_string(),
            text::format_age(now.since(agent.started)),
        ]
    };
    let rows: Vec<_> = agents.iter().map(row).collect();
    ctx.console.print_table(
        [
            Name("WORKFLOW"),
            Name("INSTANCE"),
            Name("AGENT"),
            State("STATUS"),
            Figure("MESSAGES"),
            Figure("AGE"),
        ],
        &rows,
    )
}
