//! `agent-worker resume`: let a paused run go on, or wake a stopped agent again.

use agent_worker_protocol::{
    Span, Target,
    api::{AgentView, ResumeRequest, RunStarted},
};
use uuid::Uuid;

use crate::{
    client::{
        attach_run::{FollowArgs, follow_existing_run},
        daemon_client::{CommandScope, DaemonClient, ScopeReach},
    },
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format},
        resolve_run,
    },
    output::{
        clock, exit_report, state_text,
        styled_line::{StyledLine, Tone},
        verdict::RunVerdict,
    },
};

/// Let a paused run go on, or wake a stopped agent again
///
/// A run that stopped at a limit needs a higher one. Then follows it as `attach` does; Ctrl-C only stops following. An
/// agent that waits after a failure is tried at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker resume @review:pr-123 --hops 100
  agent-worker resume coder@review

Exits as the run does: see `agent-worker run --help`.")]
pub(crate) struct Args {
    /// Which: `@workflow:tag`, or an agent; without it, the only run of this folder
    target: Option<Target>,
    /// How many messages may lead to a message
    #[arg(long, value_name = "COUNT")]
    hops: Option<u32>,
    /// How many turns it may take
    #[arg(long, value_name = "COUNT")]
    turns: Option<u32>,
    /// How long it may last, from its beginning
    #[arg(long, value_name = "TIME")]
    wall: Option<Span>,
    /// Return while it goes on
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    follow: FollowArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.follow.format();
    exit_report::print_error_in_envelope(resume(args, ctx).await, format, ctx)
}

async fn resume(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let client = ctx.connect_existing().await?;
    let scope = ctx.scope(args.target.clone(), ScopeReach::CurrentProject);
    let limits = ResumeRequest { hops: args.hops, turns: args.turns, wall: args.wall };
    if let Some(agent) = args.target.as_ref().filter(|target| target.agent.is_some()) {
        if limits != ResumeRequest::default() {
            return Err(CliError::new(CliErrorKind::Usage, "limits are a run's, not an agent's")
                .with_hint("resume the run: agent-worker resume @workflow:tag --turns COUNT"));
        }
        return resume_agent(&client, agent, &scope, args.follow.format(), ctx).await;
    }
    let run = resolve_run::resolve_run(&client, &scope).await?.run;
    let run = client.run_resume(&Uuid::now_v7().to_string(), run, &limits).await?;
    if args.detach {
        let agents = run.agents.iter().map(|agent| agent.name.clone()).collect();
        let started = RunStarted { run: run.run, instance: run.instance, agents };
        return exit_report::print_detached_run(&started, args.follow.format(), ctx);
    }
    follow_existing_run(run, client, args.follow, ctx).await
}

async fn resume_agent(
    client: &DaemonClient,
    target: &Target,
    scope: &CommandScope,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let agent: AgentView = client.agent_resume(target, scope).await?;
    match format {
        Format::Json => ctx.console.print_json(&agent)?,
        Format::Text => {
            let state = state_text::agent_state_text(&agent.state, clock::now());
            let who = Target::agent(agent.name, &agent.instance).to_string();
            let line = StyledLine::new(Tone::Strong, who).with(Tone::Plain, format!(" is {state}"));
            ctx.console.print_line(&line)?;
        }
    }
    Ok(RunVerdict::Done)
}
