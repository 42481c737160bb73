//! `agent-worker agent`: the commands about agents under one name.

use agent_worker_protocol::{Target, api::AgentStopped};

use crate::{
    client::daemon_client::ScopeReach,
    commands::{ls, new, status, use_agent},
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        target_args::TargetArgs,
    },
    output::{styled_line::StyledLine, verdict::RunVerdict},
};

/// Add, inspect, select and remove agents
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker agent end parrot")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AgentCommand {
    New(Box<new::Args>),
    #[command(after_help = "Example: agent-worker agent ls @review:pr-123")]
    Ls(ls::Args),
    Status(status::Args),
    Use(use_agent::Args),
    End(AgentEndArgs),
}

/// Remove an agent from its run
///
/// Ends the processes of its worker and drops its pending messages. Messages that it sent are kept.
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "rm",
    mut_arg("target", |arg| arg.help("Agent to remove: `agent` or `agent@workflow:tag`; always required")),
    after_help = "Example: agent-worker agent end parrot"
)]
pub(super) struct AgentEndArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl Args {
    /// Returns the output format.
    pub(crate) fn format(&self) -> Format {
        match &self.command {
            AgentCommand::New(args) => args.output.format(),
            AgentCommand::Ls(args) => args.output.format(),
            AgentCommand::Status(args) => args.output.format(),
            AgentCommand::Use(args) => args.output.format(),
            AgentCommand::End(args) => args.output.format(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    match args.command {
        AgentCommand::New(args) => new::run(*args, ctx).await,
        AgentCommand::Ls(args) => ls::run(args, ctx).await,
        AgentCommand::Status(args) => status::run(args, ctx).await,
        AgentCommand::Use(args) => use_agent::run(args, ctx).await,
        AgentCommand::End(args) => end_agent(args, ctx).await,
    }
}

/// Removes an agent from its run and prints the result.
pub(super) async fn end_agent(
    args: AgentEndArgs,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let target = args.target.required("agent-worker agent end agent@workflow")?;
    if target.agent.is_none() {
        let what = format!("`{target}` is a team, and `end` removes one agent");
        return Err(CliError::new(CliErrorKind::Usage, what).with_hint(
            "name an agent: agent-worker agent end agent@workflow; to end a whole run, use `stop`",
        ));
    }
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let scope = ctx.scope(Some(target.clone()), ScopeReach::CurrentProject);
    let gone = client.agent_remove(&target, &scope).await?;
    match args.output.format() {
        Format::Json => ctx.console.print_json(&gone)?,
        Format::Text => ctx.console.print_line(&agent_ended_line(&gone))?,
    }
    Ok(RunVerdict::Done)
}

fn agent_ended_line(gone: &AgentStopped) -> StyledLine {
    let target = Target::agent(gone.agent.clone(), &gone.instance);
    let processes = match gone.processes {
        0 => String::new(),
        1 => " and ended 1 process".to_owned(),
        ended => format!(" and ended {ended} processes"),
    };
    StyledLine::plain(format!("removed {target}{processes}"))
}
