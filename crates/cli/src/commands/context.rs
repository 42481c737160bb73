//! `agent-worker context`: the channel and the inbox, for agents without MCP.
//!
//! The daemon identifies the caller by its process, never by `--agent`: in an agent's shell the caller is that agent,
//! elsewhere it is the user, who may read and may not act for an agent.

use agent_worker_protocol::{
    AgentName, Priority, Seq, Target,
    api::{InboxReply, Mail, SendRequest},
};

use crate::{
    client::{
        daemon_client::{CommandScope, DaemonClient, MessageFilter, RunSelection, ScopeReach},
        discovery,
    },
    commands::send,
    error::{CliError, CliErrorKind},
    input::{
        argument_values,
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
    },
    live::view::message_lines,
    output::{
        clock,
        styled_line::{StyledLine, Tone},
        text::{format_age, pluralize},
        verdict::RunVerdict,
    },
};

/// Use the channel and the inbox from an agent's shell
///
/// For an agent without MCP. In an agent's shell these commands act as that agent. Elsewhere they act as the user, who
/// may read an inbox but may not send or acknowledge for an agent.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker context inbox
  agent-worker context send \"@reviewer done, please review\"
  agent-worker context ack 12")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ContextCommand,
}

/// The addressed agent and the output format.
#[derive(Debug, clap::Args)]
struct ContextTarget {
    /// Agent [default: the agent of this shell]
    #[arg(long, value_name = "AGENT")]
    agent: Option<Target>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Subcommand)]
enum ContextCommand {
    /// Send a message to the channel as the agent of this shell
    #[command(after_help = "Example: agent-worker context send \"@reviewer done\"")]
    Send {
        /// Message text; `-` reads stdin [default: stdin]
        message: Option<String>,
        /// Additional recipients
        #[arg(long, value_name = "AGENT")]
        to: Vec<AgentName>,
        /// Recipients that are not woken
        #[arg(long, value_name = "AGENT")]
        cc: Vec<AgentName>,
        /// Number of the message this replies to
        #[arg(long, value_name = "NUMBER")]
        reply_to: Option<i64>,
        #[command(flatten)]
        whose: ContextTarget,
    },
    /// Print the newest messages of the channel
    #[command(after_help = "Example: agent-worker context read -n 50")]
    Read {
        /// Number of messages
        #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        number: u32,
        /// Only messages that contain this text
        #[arg(long, value_name = "TEXT")]
        find: Option<String>,
        #[command(flatten)]
        whose: ContextTarget,
    },
    /// List pending messages without acknowledging them
    #[command(after_help = "Example: agent-worker context inbox --agent coder@review")]
    Inbox {
        #[command(flatten)]
        whose: ContextTarget,
    },
    /// Acknowledge messages that `inbox` listed, once this turn succeeds
    #[command(after_help = "Example: agent-worker context ack 12")]
    Ack {
        /// Number of the last message to acknowledge
        until: i64,
        #[command(flatten)]
        whose: ContextTarget,
    },
}

impl Args {
    /// Returns the output format.
    pub(crate) fn format(&self) -> Format {
        self.command.context_target().output.format()
    }
}

impl ContextCommand {
    fn context_target(&self) -> &ContextTarget {
        match self {
            Self::Send { whose, .. }
            | Self::Read { whose, .. }
            | Self::Inbox { whose }
            | Self::Ack { whose, .. } => whose,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.format();
    let agent = args.command.context_target().agent.clone();
    let (client, us) = connect_as_caller(ctx).await?;
    match args.command {
        ContextCommand::Send { message, to, cc, reply_to, .. } => {
            require_own_shell(us, agent.as_ref(), AgentOnlyAction::Send, &client, ctx).await?;
            let request = SendRequest {
                target: None,
                project: None,
                message: argument_values::read_text_or_stdin(message)?,
                to,
                cc,
                reply_to: reply_to.map(Seq::new),
                alone: false,
                now: false,
                priority: Priority::Normal,
                attachments: Vec::new(),
            };
            let reply = send::send_message(&request, ctx).await?;
            send::warn_unknown_mentions(&reply, ctx)?;
            match format {
                Format::Json => ctx.console.print_json(&reply),
                Format::Text => ctx.console.print_line(&send::recipients_line(&reply)),
            }
        }
        ContextCommand::Read { number, find, .. } => {
            let page = MessageFilter {
                since: None,
                limit: number,
                search: find,
                thread: None,
                runs: RunSelection::Current,
            };
            let scope = readable_scope(&client, us, agent, format, ctx).await?;
            let reply = client.messages(&scope, &page).await?;
            let lines = reply.items.iter().flat_map(message_lines).collect::<Vec<_>>();
            match format {
                Format::Json => ctx.console.print_json(&reply),
                Format::Text if lines.is_empty() => ctx.console.note("no messages yet"),
                Format::Text => ctx.console.print_lines(&lines),
            }
        }
        ContextCommand::Inbox { .. } => {
            let whose = (us == CliCaller::User && agent.is_none()).then(user_has_no_inbox_error);
            whose.map_or(Ok(()), Err)?;
            let scope = readable_scope(&client, us, agent, format, ctx).await?;
            show_inbox(&client.inbox(&scope).await?, format, ctx)
        }
        ContextCommand::Ack { until, .. } => {
            require_own_shell(us, agent.as_ref(), AgentOnlyAction::Ack, &client, ctx).await?;
            let reply = client.inbox_ack(Seq::new(until)).await?;
            match format {
                Format::Json => ctx.console.print_json(&reply),
                Format::Text => show_acknowledged(reply.with_this_turn.len(), ctx),
            }
        }
    }?;
    Ok(RunVerdict::Done)
}

fn show_acknowledged(count: usize, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    if count == 0 {
        return ctx.console.note("`inbox` showed no pending message up to this number");
    }
    let line = format!("{} done when this turn succeeds", pluralize(count, "message"));
    ctx.console.print_line(&StyledLine::plain(line))
}

/// Fails unless this is that agent's own shell.
pub(super) async fn require_agent(
    agent: &Target,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let (client, us) = connect_as_caller(ctx).await?;
    require_own_shell(us, Some(agent), AgentOnlyAction::Send, &client, ctx).await
}

/// The caller as the daemon identifies it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CliCaller {
    User,
    Agent,
}

/// Connects and identifies the caller: the daemon returns its health details only to the user.
async fn connect_as_caller(
    ctx: &mut CommandContext<'_>,
) -> Result<(DaemonClient, CliCaller), CliError> {
    let client = ctx.connect_if_history().await?.ok_or_else(CommandContext::no_history_error)?;
    let health = match discovery::find_daemon(ctx.settings).await? {
        Some(found) => found.health,
        None => return Err(CommandContext::no_history_error()),
    };
    Ok((client, if health.detail.is_some() { CliCaller::User } else { CliCaller::Agent }))
}

/// Returns the scope that the caller reads; an agent needs no target for its own. For the user a note says that the run
/// has ended.
async fn readable_scope(
    client: &DaemonClient,
    us: CliCaller,
    agent: Option<Target>,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<CommandScope, CliError> {
    let scope = ctx.scope(agent, ScopeReach::CurrentProject);
    match us {
        CliCaller::User => resolve_run::readable_scope(client, &scope, format, ctx).await,
        CliCaller::Agent => {
            resolve_run::require_agent_exists(client, &scope).await?;
            Ok(scope)
        }
    }
}

/// An action that only an agent itself performs.
#[derive(Clone, Copy)]
enum AgentOnlyAction {
    Send,
    Ack,
}

/// Refuses an action for an agent by the user or by another agent.
async fn require_own_shell(
    us: CliCaller,
    agent: Option<&Target>,
    deed: AgentOnlyAction,
    client: &DaemonClient,
    ctx: &CommandContext<'_>,
) -> Result<(), CliError> {
    match (us, agent) {
        (CliCaller::Agent, None) => Ok(()),
        // An agent may read only its own inbox.
        (CliCaller::Agent, Some(agent)) => {
            let scope = ctx.scope(Some(agent.clone()), ScopeReach::CurrentProject);
            client.inbox_first(&scope).await.map(drop).map_err(|_| {
                CliError::new(
                    CliErrorKind::Usage,
                    format!("this is not {agent}'s shell{}", deed.refusal_reason(agent)),
                )
                .with_hint("omit --agent: in an agent's shell the default is that agent")
            })
        }
        (CliCaller::User, Some(agent)) => Err(CliError::new(
            CliErrorKind::Usage,
            format!("you are the user here{}", deed.refusal_reason(agent)),
        )
        .with_hint(deed.user_alternative(&agent.to_string()))),
        (CliCaller::User, None) => {
            let what = "you are the user here, and this command is for an agent's own shell";
            Err(CliError::new(CliErrorKind::Usage, what)
                .with_hint(deed.user_alternative("agent@workflow")))
        }
    }
}

impl AgentOnlyAction {
    fn refusal_reason(self, agent: &Target) -> String {
        match self {
            Self::Send => format!(", and only {agent} itself can send as {agent}"),
            Self::Ack => format!(", and only {agent} itself can acknowledge its messages"),
        }
    }

    /// Returns the user's alternative.
    fn user_alternative(self, agent: &str) -> String {
        match self {
            Self::Send => format!("send as yourself: agent-worker send {agent} \"…\""),
            Self::Ack => format!("read its inbox: agent-worker context inbox --agent {agent}"),
        }
    }
}

fn user_has_no_inbox_error() -> CliError {
    CliError::new(CliErrorKind::Usage, "you are the user here, and the user has no inbox")
        .with_hint("read an agent's inbox: agent-worker context inbox --agent agent@workflow")
}

fn show_inbox(
    reply: &InboxReply,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    match format {
        Format::Json => ctx.console.print_json(reply),
        Format::Text if reply.items.is_empty() => {
            let target = Target::agent(reply.agent.clone(), &reply.instance);
            ctx.console.note(&format!("no pending messages for {target}"))
        }
        Format::Text => reply.items.iter().try_for_each(|mail| show_mail(mail, ctx)),
    }
}

fn show_mail(mail: &Mail, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let since = format!("{:>4} ago ", format_age(clock::now().since(mail.message.ts)));
    let note = if mail.wakes { "" } else { " (cc only)" };
    let mut lines = message_lines(&mail.message).into_iter();
    if let Some(first) = lines.next() {
        ctx.console.print_line(&first.with_prefix(Tone::Dim, since).with(Tone::Dim, note))?;
    }
    lines.try_for_each(|line| ctx.console.print_line(&line))
}
