//! `agent-worker resume`: continues a paused run, or wakes a stopped agent again.

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
        resolve_run::{self, EndedNote},
        target_args::{TargetArgs, TargetEffect},
    },
    output::{
        clock, exit_report, state_text,
        styled_line::{StyledLine, Tone},
        verdict::RunVerdict,
    },
};

/// Continue a paused run, or wake a stopped agent
///
/// A run that is paused at a limit needs a higher one. The command follows the run like `attach`; Ctrl-C only stops
/// following. An agent that waits for a retry starts at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker resume @review:pr-123 --hops 100
  agent-worker resume coder@review

Exit codes: those of `agent-worker run`.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Maximum length of a chain of messages
    #[arg(long, value_name = "COUNT", help_heading = "New limits")]
    hops: Option<u32>,
    /// Maximum number of turns
    #[arg(long, value_name = "COUNT", help_heading = "New limits")]
    turns: Option<u32>,
    /// Maximum working time
    #[arg(long, value_name = "TIME", help_heading = "New limits")]
    wall: Option<Span>,
    /// Maximum cost of the models
    #[arg(long, value_name = "DOLLARS", value_parser = dollars, help_heading = "New limits")]
    cost_usd: Option<u64>,
    /// Maximum number of tokens of the models
    #[arg(long, value_name = "COUNT", help_heading = "New limits")]
    tokens: Option<u64>,
    /// Return without following the run
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    follow: FollowArgs,
}

/// Reads dollars as millionths of a dollar.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
fn dollars(text: &str) -> Result<u64, String> {
    match text.trim_start_matches('$').parse::<f64>() {
        Ok(dollars) if (0.0..=1e6).contains(&dollars) => Ok((dollars * 1e6).round() as u64),
        Ok(_) | Err(_) => {
            Err("not a number of dollars up to 1000000, such as 25 or 0.5".to_owned())
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.follow.format();
    let resumed = match Box::pin(resume(args, ctx)).await {
        Err(error) => Err(resolve_run::with_restart_hint(error, ctx).await),
        resumed => resumed,
    };
    exit_report::print_error_in_envelope(resumed, format, ctx)
}

async fn resume(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let client = ctx.connect_existing().await?;
    let target = args.target.or_selected(TargetEffect::Change, ctx)?;
    let scope = ctx.scope(target.clone(), ScopeReach::CurrentProject);
    let limits = ResumeRequest {
        hops: args.hops,
        turns: args.turns,
        wall: args.wall,
        cost_micros: args.cost_usd,
        tokens: args.tokens,
    };
    if let Some(agent) = target.as_ref().filter(|target| target.agent.is_some()) {
        if limits != ResumeRequest::default() {
            return Err(CliError::new(
                CliErrorKind::Usage,
                "limits belong to a run, not to an agent",
            )
            .with_hint("resume the run: agent-worker resume @workflow:tag --turns COUNT"));
        }
        return resume_agent(&client, agent, &scope, args.follow.format(), ctx).await;
    }
    let run =
        resolve_run::resolve_run_with_note(&client, &scope, EndedNote::Omitted, ctx).await?.run;
    let run = client.run_resume(&Uuid::now_v7().to_string(), run, &limits).await?;
    if args.detach {
        let agents = run.agents.iter().map(|agent| agent.name.clone()).collect();
        let started = RunStarted { run: run.run, instance: run.instance, agents };
        return exit_report::print_detached_run(&started, args.follow.format(), ctx);
    }
    Box::pin(follow_existing_run(run, client, args.follow, ctx)).await
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
