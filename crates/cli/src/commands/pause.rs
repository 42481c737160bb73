//! `agent-worker pause`: start no more turns of a run.

use agent_worker_protocol::Target;

use crate::{
    client::Reach,
    context::{Context, Format, Output},
    error::{CliError, Kind},
    line::{Line, Tone},
    text::one_line,
    verdict::Verdict,
    which,
};

/// Start no more turns of a run until `resume`
///
/// Turns that are under way finish; mail waits. Whoever follows a `run` is told and leaves with exit code 5.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker pause @review:pr-123")]
pub(crate) struct Args {
    /// Which: `@workflow` or `@workflow:tag`; without it, the only run of this folder
    target: Option<Target>,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    if let Some(agent) = args.target.as_ref().filter(|target| target.agent.is_some()) {
        return Err(CliError::new(Kind::Usage, format!("{agent} is an agent; a run is paused"))
            .hint(format!("wake it no more: agent-worker stop {agent}")));
    }
    let client = ctx.daemon_of_something().await?;
    let scope = ctx.scope(args.target, Reach::Here);
    let run = which::run(&client, &scope).await?.run;
    let run = client.run_pause(run).await?;
    match args.output.format() {
        Format::Json => ctx.console.json(&run)?,
        Format::Text => {
            let target = Target::instance(&run.instance);
            let state = one_line(&run.state.to_string());
            let line = Line::of(Tone::Strong, target.to_string());
            ctx.console.answer(&line.and(Tone::Plain, format!(" is {state}")))?;
            ctx.console.hint(&format!("let it go on: agent-worker resume {target}"))?;
        }
    }
    Ok(Verdict::Done)
}
