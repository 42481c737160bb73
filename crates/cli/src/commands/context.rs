//! `agent-worker context`: the channel and the inbox, for agents that cannot speak MCP.
//!
//! Who speaks is decided by the daemon from where the command runs, never by `--agent`: in an agent's shell it is that
//! agent, anywhere else it is the user, who may look and not speak in an agent's name.

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

/// The channel and the inbox, for an agent without MCP
///
/// In an agent's shell these speak as that agent. Anywhere else they are the user: an inbox can be looked into, and
/// nothing can be sent or acked in an agent's name.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker context inbox
  agent-worker context send \"@reviewer done, please look\"
  agent-worker context ack 12")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ContextCommand,
}

/// Whose, and how to answer.
#[derive(Debug, clap::Args)]
struct ContextTarget {
    /// Which agent; in its own shell it need not be named
    #[arg(long, value_name = "AGENT")]
    agent: Option<Target>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Subcommand)]
enum ContextCommand {
    /// Say something in the channel, as the agent whose shell this is
    #[command(after_help = "Example: agent-worker context send \"@reviewer done\"")]
    Send {
        /// What to say; `-` or nothing reads it from stdin
        message: Option<String>,
        /// Whom besides those it mentions
        #[arg(long, value_name = "AGENT")]
        to: Vec<AgentName>,
        /// Who reads it without being woken
        #[arg(long, value_name = "AGENT")]
        cc: Vec<AgentName>,
        /// The number of the message it answers
        #[arg(long, value_name = "NUMBER")]
        reply_to: Option<i64>,
        #[command(flatten)]
        whose: ContextTarget,
    },
    /// Read the channel
    #[command(after_help = "Example: agent-worker context read -n 50")]
    Read {
        /// The newest so many
        #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        number: u32,
        /// Only messages with this text in them
        #[arg(long, value_name = "TEXT")]
        find: Option<String>,
        #[command(flatten)]
        whose: ContextTarget,
    },
    /// Show what waits for the agent; looking acks nothing
    #[command(after_help = "Example: agent-worker context inbox --agent coder@review")]
    Inbox {
        #[command(flatten)]
        whose: ContextTarget,
    },
    /// Let mail that `inbox` showed be done when this turn succeeds
    #[command(after_help = "Example: agent-worker context ack 12")]
    Ack {
        /// Up to this message
        until: i64,
        #[command(flatten)]
        whose: ContextTarget,
    },
}

impl Args {
    /// How to answer.
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
                priority: Priority::Normal,
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
                limit: number,
                search: find,
                thread: None,
                runs: RunSelection::Current,
            };
            let scope = scope_for(us, agent, ctx);
            resolve_run::require_agent_exists(&client, &scope).await?;
            let reply = client.messages(&scope, &page).await?;
            let lines = reply.messages.iter().flat_map(message_lines).collect::<Vec<_>>();
            match format {
                Format::Json => ctx.console.print_json(&reply),
                Format::Text if lines.is_empty() => ctx.console.note("nothing was said yet"),
                Format::Text => ctx.console.print_lines(&lines),
            }
        }
        ContextCommand::Inbox { .. } => {
            let whose = (us == CliCaller::User && agent.is_none()).then(user_has_no_inbox_error);
            whose.map_or(Ok(()), Err)?;
            show_inbox(&client.inbox(&scope_for(us, agent, ctx)).await?, format, ctx)
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
        return ctx.console.note("nothing that `inbox` showed waits up to there");
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

/// Who the daemon takes us for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CliCaller {
    User,
    Agent,
}

/// The daemon, and who we are to it: what only the user may know of it, only the user is told.
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

/// An agent's own place needs no name; the user's is where they stand.
fn scope_for(us: CliCaller, agent: Option<Target>, ctx: &CommandContext<'_>) -> CommandScope {
    match us {
        CliCaller::User => ctx.scope(agent, ScopeReach::CurrentProject),
        CliCaller::Agent => CommandScope {
            target: agent,
            project: ctx.settings.cwd.clone(),
            reach: ScopeReach::CurrentProject,
        },
    }
}

/// What an agent does by itself.
#[derive(Clone, Copy)]
enum AgentOnlyAction {
    Send,
    Ack,
}

/// What an agent does, nobody does for it; and none does for another.
async fn require_own_shell(
    us: CliCaller,
    agent: Option<&Target>,
    deed: AgentOnlyAction,
    client: &DaemonClient,
    ctx: &CommandContext<'_>,
) -> Result<(), CliError> {
    match (us, agent) {
        (CliCaller::Agent, None) => Ok(()),
        // Its own inbox is the one it may look into.
        (CliCaller::Agent, Some(agent)) => {
            let scope = ctx.scope(Some(agent.clone()), ScopeReach::CurrentProject);
            client.inbox(&scope).await.map(drop).map_err(|_| {
                CliError::new(
                    CliErrorKind::Usage,
                    format!("this is not {agent}'s shell{}", deed.refusal_reason(agent)),
                )
                .with_hint("leave --agent out: in an agent's shell it is that agent")
            })
        }
        (CliCaller::User, Some(agent)) => Err(CliError::new(
            CliErrorKind::Usage,
            format!("you are the user here{}", deed.refusal_reason(agent)),
        )
        .with_hint(deed.user_alternative(&agent.to_string()))),
        (CliCaller::User, None) => {
            let what = "you are the user here, and this is for an agent's own shell";
            Err(CliError::new(CliErrorKind::Usage, what)
                .with_hint(deed.user_alternative("agent@workflow")))
        }
    }
}

impl AgentOnlyAction {
    fn refusal_reason(self, agent: &Target) -> String {
        match self {
            Self::Send => format!(", and only {agent} itself speaks as {agent}"),
            Self::Ack => format!(", and only {agent} itself acks its mail"),
        }
    }

    /// What the user can do.
    fn user_alternative(self, agent: &str) -> String {
        match self {
            Self::Send => format!("as yourself: agent-worker send {agent} \"…\""),
            Self::Ack => format!("look at it: agent-worker context inbox --agent {agent}"),
        }
    }
}

fn user_has_no_inbox_error() -> CliError {
    CliError::new(CliErrorKind::Usage, "you are the user here, and the user has no inbox")
        .with_hint("look into an agent's: agent-worker context inbox --agent agent@workflow")
}

fn show_inbox(
    reply: &InboxReply,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    match format {
        Format::Json => ctx.console.print_json(reply),
        Format::Text if reply.messages.is_empty() => {
            let target = Target::agent(reply.agent.clone(), &reply.instance);
            ctx.console.note(&format!("nothing waits for {target}"))
        }
        Format::Text => reply.messages.iter().try_for_each(|mail| show_mail(mail, ctx)),
    }
}

fn show_mail(mail: &Mail, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let since = format!("{:>4} ago ", format_age(clock::now().since(mail.message.ts)));
    let note = if mail.wakes { "" } else { " (only to read)" };
    let mut lines = message_lines(&mail.message).into_iter();
    if let Some(first) = lines.next() {
        ctx.console.print_line(&first.with_prefix(Tone::Dim, since).with(Tone::Dim, note))?;
    }
    lines.try_for_each(|line| ctx.console.print_line(&line))
}
