//! `agent-worker interrupt`: ends the current turn of an agent and keeps its messages.

use agent_worker_protocol::{AttemptEnd, Target, api::AgentInterrupted};

use crate::{
    client::daemon_client::ScopeReach,
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        target_args::{TargetArgs, TargetEffect},
    },
    output::{
        styled_line::{StyledLine, Tone},
        text::one_line,
        verdict::RunVerdict,
    },
};

/// End the current turn of an agent and keep its messages
///
/// The messages of the turn are pending again, and no failure is counted. The agent starts its next turn with them and
/// with newer messages, unless its run is paused. Returns when the processes of the turn have ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker interrupt coder@review:pr-123")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let target = args.target.or_selected(TargetEffect::Change, ctx)?;
    let Some(target) = target.filter(|target| target.agent.is_some()) else {
        return Err(CliError::new(CliErrorKind::Usage, "`interrupt` needs the name of an agent")
            .with_hint("name one: agent-worker interrupt agent@workflow:tag"));
    };
    let client = ctx.connect_existing().await?;
    let scope = ctx.scope(None, ScopeReach::CurrentProject);
    let reply = client.agent_interrupt(&target, &scope).await?;
    match args.output.format() {
        Format::Json => ctx.console.print_json(&reply)?,
        Format::Text if reply.attempt.is_none() => {
            let who = Target::agent(reply.agent, &reply.instance);
            ctx.console.note(&format!("nothing was running: {who} has no turn"))?;
        }
        Format::Text => ctx.console.print_line(&ended_line(&reply))?,
    }
    Ok(RunVerdict::Done)
}

/// Describes the end of the turn.
fn ended_line(reply: &AgentInterrupted) -> StyledLine {
    let who = Target::agent(reply.agent.clone(), &reply.instance);
    match &reply.ended {
        Some(AttemptEnd::Interrupted { .. }) => {
            StyledLine::new(Tone::Strong, format!("interrupted {who}"))
                .with(Tone::Plain, ": its messages start the next turn")
        }
        Some(end) => {
            let end = one_line(&end.to_string());
            StyledLine::plain(format!("the turn of {who} had ended by itself: {end}"))
        }
        None => StyledLine::plain(format!("the turn of {who} is still ending")),
    }
}
