//! `agent-worker pause`: starts no more turns of a run.

use agent_worker_protocol::Target;

use crate::{
    client::daemon_client::ScopeReach,
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        resolve_run::{self, EndedNote},
        target_args::{TargetArgs, TargetEffect},
    },
    output::{
        styled_line::{StyledLine, Tone},
        text::one_line,
        verdict::RunVerdict,
    },
};

/// Pause a run until `resume`
///
/// Turns in progress finish, and messages stay pending. A command that follows a `run` exits with code 5.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker pause @review:pr-123")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let target = args.target.or_selected(TargetEffect::Change, ctx)?;
    if let Some(agent) = target.as_ref().filter(|target| target.agent.is_some()) {
        return Err(CliError::new(
            CliErrorKind::Usage,
            format!("{agent} is an agent, and only a run can be paused"),
        )
        .with_hint(format!("stop the agent: agent-worker stop {agent}")));
    }
    let client = ctx.connect_existing().await?;
    let scope = ctx.scope(target, ScopeReach::CurrentProject);
    let format = args.output.format();
    let run =
        resolve_run::resolve_run_with_note(&client, &scope, EndedNote::Omitted, ctx).await?.run;
    let run = client.run_pause(run).await?;
    match format {
        Format::Json => ctx.console.print_json(&run)?,
        Format::Text => {
            let target = Target::instance(&run.instance);
            let state = one_line(&run.state.to_string());
            let line = StyledLine::new(Tone::Strong, target.to_string());
            ctx.console.print_line(&line.with(Tone::Plain, format!(" is {state}")))?;
            ctx.console.hint(&format!("continue it: agent-worker resume {target}"))?;
        }
    }
    Ok(RunVerdict::Done)
}
