//! `agent-worker ps`: the wide table of who is there.

use agent_worker_protocol::{Target, api::AgentView};

use crate::{
    client::Reach,
    clock,
    context::{Context, Format, Output},
    error::CliError,
    table::Column::{Figure, Name, State},
    text,
    verdict::Verdict,
    words,
};

/// List agents with their workflow and instance
///
/// Shows standalone agents and the runs of this folder that go on; with --all every folder, and runs that are over too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker ps --all")]
pub(crate) struct Args {
    /// Only these: `agent`, `agent@workflow:tag` or `@workflow:tag`
    target: Option<Target>,
    /// Those of every folder
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let reach = if args.all { Reach::Everywhere } else { Reach::Here };
    let scope = ctx.scope(args.target, reach);
    let agents = match ctx.daemon_if_any().await? {
        Some(client) => client.agents(&scope).await?,
        None if scope.target.is_some() => return Err(Context::nothing_yet()),
        None => Vec::new(),
    };
    match args.output.format() {
        Format::Json => ctx.console.json(&agents)?,
        Format::Text if agents.is_empty() => ctx
            .console
            .note("nobody is here; start a team with `agent-worker run`, or look with --all")?,
        Format::Text => show(&agents, ctx)?,
    }
    Ok(Verdict::Done)
}

fn show(agents: &[AgentView], ctx: &mut Context<'_>) -> Result<(), CliError> {
    let now = clock::now();
    let row = |agent: &AgentView| {
        [
            agent.instance.name.to_string(),
            agent.instance.tag.to_string(),
            agent.name.to_string(),
            words::agent(&agent.state, now),
            agent.messages.to_string(),
            text::age(now.since(agent.started)),
        ]
    };
    let rows: Vec<_> = agents.iter().map(row).collect();
    ctx.console.table(
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
