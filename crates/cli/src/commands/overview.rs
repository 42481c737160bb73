//! `agent-worker` without a command: the live agents, and the commands that a newcomer needs.

use crate::{
    client::daemon_client::{CommandScope, ScopeReach},
    commands::ls,
    error::CliError,
    input::context::CommandContext,
    output::{
        styled_line::{StyledLine, Tone},
        verdict::RunVerdict,
    },
};

const FIRST_COMMANDS: [(&str, &str); 4] = [
    ("agent-worker demo", "watch a team of scripted agents"),
    ("agent-worker init team.yaml", "write a first team"),
    ("agent-worker run team.yaml", "run it to its end"),
    ("agent-worker peek @team", "read its messages"),
];

/// Runs the command.
pub(crate) async fn run(ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    // All live agents, since every folder is below `/`.
    let scope =
        CommandScope { target: None, project: "/".into(), reach: ScopeReach::CurrentProject };
    let agents = match ctx.connect_if_history().await? {
        Some(client) => client.agents(&scope).await?,
        None => Vec::new(),
    };
    if agents.is_empty() {
        ctx.console.print_line(&StyledLine::plain("Nothing is running."))?;
    } else {
        ls::show(&agents, ctx)?;
    }
    ctx.console.print_line(&StyledLine::default())?;
    for (command, what) in FIRST_COMMANDS {
        let line = StyledLine::new(Tone::Strong, format!("  {command:<30}"));
        ctx.console.print_line(&line.with(Tone::Dim, what))?;
    }
    ctx.console.print_line(&StyledLine::default())?;
    ctx.console.print_line(&StyledLine::new(Tone::Dim, "All commands: agent-worker --help"))?;
    Ok(RunVerdict::Done)
}
