//! `agent-worker chat`: a conversation with one agent, line by line.

mod conversation;
mod piped_lines;
mod session;

use std::io::IsTerminal as _;

use agent_worker_protocol::{
    Code, Message, Target,
    api::{AgentView, RunView},
};

use self::{conversation::Conversation, session::ChatSession};
use crate::{
    client::daemon_client::{
        CommandScope, DaemonClient, FeedSource, MessageFilter, RunSelection, ScopeReach,
    },
    commands::ask,
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        target_args::{TargetArgs, TargetEffect},
    },
    live::feed::ReconnectingFeed,
    output::{restart_method::RestartMethod, state_text, verdict::RunVerdict},
};

/// Number of earlier messages that a person sees.
const DEFAULT_HISTORY: u32 = 10;
/// Number of messages of the channel that are read to find those of the conversation.
const MAX_READ_MESSAGES: u32 = 500;

/// Talk with one agent
///
/// At a terminal the command shows the last messages between you and the agent, then its work and its answers while you
/// type. Ctrl-C stops waiting for an answer and leaves the agent at work; Ctrl-C again or Ctrl-D leaves. Without a
/// terminal it sends each line of stdin as a message and prints the answer before it sends the next.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("target", |arg| arg.help(
        "Agent: `agent` or `agent@workflow:tag` [default: the agent selected with `use`]"
    )),
    after_help = "\
Examples:
  agent-worker chat coder@review
  agent-worker chat coder@review --history 50
  printf 'what is open?\\nfix the first one\\n' | agent-worker chat coder@review

Exit codes without a terminal: those of `agent-worker ask`; no line is sent after one without an
answer. At a terminal: 0, and 130 if you leave before the answer to a message."
)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Number of earlier messages to show, at most 500 [default: 10, without a terminal 0]
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_READ_MESSAGES))
    )]
    history: Option<u32>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    let target = args.target.or_selected(TargetEffect::Change, ctx)?;
    let target = ask::require_single_agent(target, "chat")?;
    let client = ctx.connect_existing().await?;
    let agent = find_agent(&client, &target, ctx).await?;
    let instance = CommandScope::for_instance(&agent.instance, agent.project.clone());
    let is_interactive = format == Format::Text
        && ctx.console.drawable_size().is_some()
        && ctx.console.is_stdout_interactive()
        && std::io::stdin().is_terminal();
    let mut conversation = Conversation::new(agent.name.clone(), &agent.instance);
    if !is_interactive {
        live_run(&client, &instance).await?;
        let shown = read_history(&client, &instance, args.history.unwrap_or(0)).await?;
        if format == Format::Text {
            for message in conversation.history(&shown.messages, shown.limit) {
                ctx.console.print_lines(&message)?;
            }
        }
        return piped_lines::converse(&target, format, ctx).await;
    }
    // Opened before the run and the messages are read, so that no event falls between them.
    let watched = FeedSource::Scope(instance.clone());
    let feed = ReconnectingFeed::open_now(client.clone(), ctx.settings.clone(), watched).await?;
    let run = live_run(&client, &instance).await?;
    let limit = args.history.unwrap_or(DEFAULT_HISTORY);
    let history = read_history(&client, &instance, limit).await?;
    let lines = conversation.history(&history.messages, history.limit);
    ChatSession::new(conversation, &run, client, ctx).converse(feed, lines, ctx).await
}

/// Returns the agent, which must exist in a live run or among the standalone agents.
async fn find_agent(
    client: &DaemonClient,
    target: &Target,
    ctx: &CommandContext<'_>,
) -> Result<AgentView, CliError> {
    let scope = ctx.scope(Some(target.clone()), ScopeReach::CurrentProject);
    let mut agents = client.agents(&scope).await?;
    match (agents.pop(), agents.is_empty()) {
        (Some(agent), true) => Ok(agent),
        _ => Err(CliError::new(
            CliErrorKind::Refused(Code::NotFound),
            format!("there is no agent `{target}`"),
        )
        .with_hint("list the agents: agent-worker ls")),
    }
}

/// Returns the run of the instance, which must be live.
async fn live_run(client: &DaemonClient, instance: &CommandScope) -> Result<RunView, CliError> {
    let newest = client.newest_run(instance).await?;
    let Some(run) = newest else {
        return Err(CliError::new(CliErrorKind::Refused(Code::NoRun), "the agent has no run")
            .with_hint("list the agents: agent-worker ls"));
    };
    if run.state.is_live() {
        // The list of runs leaves out a part of the view.
        return Ok(client.run(run.run).await?);
    }
    let state = state_text::run_state_text(&run);
    let what = format!("{} has ended: {state}", Target::instance(&run.instance));
    Err(CliError::new(CliErrorKind::Refused(Code::NoRun), what)
        .with_hint(RestartMethod::of(&run).hint()))
}

/// The newest messages of a channel, and the number of those to show.
struct ChatHistory {
    messages: Vec<Message>,
    limit: usize,
}

async fn read_history(
    client: &DaemonClient,
    instance: &CommandScope,
    limit: u32,
) -> Result<ChatHistory, CliError> {
    let filter = MessageFilter {
        limit: MAX_READ_MESSAGES,
        since: None,
        search: None,
        thread: None,
        runs: RunSelection::Current,
    };
    let messages = match limit {
        0 => Vec::new(),
        _ => client.messages(instance, &filter).await?.items,
    };
    Ok(ChatHistory { messages, limit: limit as usize })
}
