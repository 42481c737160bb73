//! `agent-worker` alone: what is running, and the three commands a newcomer needs.

use crate::{
    client::{Reach, Scope},
    commands::ls,
    context::Context,
    error::CliError,
    line::{Line, Tone},
    verdict::Verdict,
};

const FIRST_COMMANDS: [(&str, &str); 3] = [
    ("agent-worker init team.yaml", "write a first team"),
    ("agent-worker run team.yaml", "run it to its end"),
    ("agent-worker peek @team", "read what was said"),
];

/// Runs the command.
pub(crate) async fn run(ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    // What is live, seen from the folder above all.
    let scope = Scope { target: None, project: "/".into(), reach: Reach::Here };
    let agents = match ctx.daemon_if_any().await? {
        Some(client) => client.agents(&scope).await?,
        None => Vec::new(),
    };
    if agents.is_empty() {
        ctx.console.answer(&Line::plain("Nothing is running."))?;
    } else {
        ls::show(&agents, ctx)?;
    }
    ctx.console.answer(&Line::default())?;
    for (command, what) in FIRST_COMMANDS {
        let line = Line::of(Tone::Strong, format!("  {command:<30}"));
        ctx.console.answer(&line.and(Tone::Dim, what))?;
    }
    ctx.console.answer(&Line::default())?;
    ctx.console.answer(&Line::of(Tone::Dim, "All commands: agent-worker --help"))?;
    Ok(Verdict::Done)
}
