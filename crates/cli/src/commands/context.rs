//! `agent-worker context`: the channel and the inbox, for agents that cannot speak MCP.
//!
//! Who speaks is decided by the daemon from where the command runs, never by `--agent`: in an agent's shell it is that
//! agent, anywhere else it is the user, who may look and not speak in an agent's name.

use agent_worker_protocol::{
    AgentName, Priority, Seq, Target,
    api::{InboxReply, Mail, SendRequest},
};

use crate::{
    client::{Client, Page, Reach, Runs, Scope},
    clock,
    commands::send,
    context::{Context, Format, Output},
    discovery,
    error::{CliError, Kind},
    given,
    line::{Line, Tone},
    text::{age, count},
    verdict::Verdict,
    view::message_lines,
    which,
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
    ask: Ask,
}

/// Whose, and how to answer.
#[derive(Debug, clap::Args)]
struct Whose {
    /// Which agent; in its own shell it need not be named
    #[arg(long, value_name = "AGENT")]
    agent: Option<Target>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum Ask {
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
        whose: Whose,
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
        whose: Whose,
    },
    /// Show what waits for the agent; looking acks nothing
    #[command(after_help = "Example: agent-worker context inbox --agent coder@review")]
    Inbox {
        #[command(flatten)]
        whose: Whose,
    },
    /// Let mail that `inbox` showed be done when this turn succeeds
    #[command(after_help = "Example: agent-worker context ack 12")]
    Ack {
        /// Up to this message
        until: i64,
        #[command(flatten)]
        whose: Whose,
    },
}

impl Args {
    /// How to answer.
    pub(crate) fn format(&self) -> Format {
        self.ask.whose().output.format()
    }
}

impl Ask {
    fn whose(&self) -> &Whose {
        match self {
            Self::Send { whose, .. }
            | Self::Read { whose, .. }
            | Self::Inbox { whose }
            | Self::Ack { whose, .. } => whose,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let format = args.format();
    let agent = args.ask.whose().agent.clone();
    let (client, us) = here(ctx).await?;
    match args.ask {
        Ask::Send { message, to, cc, reply_to, .. } => {
            itself(us, agent.as_ref(), Deed::Speaks, &client, ctx).await?;
            let request = SendRequest {
                target: None,
                project: None,
                message: given::text_or_stdin(message)?,
                to,
                cc,
                reply_to: reply_to.map(Seq::new),
                alone: false,
                priority: Priority::Normal,
            };
            let reply = send::sent(&request, ctx).await?;
            send::warn_of_nobody(&reply, ctx)?;
            match format {
                Format::Json => ctx.console.json(&reply),
                Format::Text => ctx.console.answer(&send::place(&reply)),
            }
        }
        Ask::Read { number, find, .. } => {
            let page = Page { limit: number, search: find, thread: None, runs: Runs::Current };
            let scope = asked(us, agent, ctx);
            which::somebody(&client, &scope).await?;
            let reply = client.messages(&scope, &page).await?;
            let lines = reply.messages.iter().flat_map(message_lines).collect::<Vec<_>>();
            match format {
                Format::Json => ctx.console.json(&reply),
                Format::Text if lines.is_empty() => ctx.console.note("nothing was said yet"),
                Format::Text => ctx.console.answer_all(&lines),
            }
        }
        Ask::Inbox { .. } => {
            let whose = (us == Us::User && agent.is_none()).then(nobody_named);
            whose.map_or(Ok(()), Err)?;
            show_inbox(&client.inbox(&asked(us, agent, ctx)).await?, format, ctx)
        }
        Ask::Ack { until, .. } => {
            itself(us, agent.as_ref(), Deed::Acks, &client, ctx).await?;
            let reply = client.inbox_ack(Seq::new(until)).await?;
            match format {
                Format::Json => ctx.console.json(&reply),
                Format::Text if reply.with_this_turn.is_empty() => {
                    ctx.console.note("nothing that `inbox` showed waits up to there")
                }
                Format::Text => ctx.console.answer(&Line::plain(format!(
                    "{} done when this turn succeeds",
                    count(reply.with_this_turn.len(), "message")
                ))),
            }
        }
    }?;
    Ok(Verdict::Done)
}

/// Fails unless this is that agent's own shell.
pub(super) async fn require_agent(agent: &Target, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let (client, us) = here(ctx).await?;
    itself(us, Some(agent), Deed::Speaks, &client, ctx).await
}

/// Who the daemon takes us for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Us {
    User,
    Agent,
}

/// The daemon, and who we are to it: what only the user may know of it, only the user is told.
async fn here(ctx: &mut Context<'_>) -> Result<(Client, Us), CliError> {
    let client = ctx.daemon_if_any().await?.ok_or_else(Context::nothing_yet)?;
    let health = match discovery::look(ctx.settings).await? {
        Some(found) => found.health,
        None => return Err(Context::nothing_yet()),
    };
    Ok((client, if health.detail.is_some() { Us::User } else { Us::Agent }))
}

/// An agent's own place needs no name; the user's is where they stand.
fn asked(us: Us, agent: Option<Target>, ctx: &Context<'_>) -> Scope {
    match us {
        Us::User => ctx.scope(agent, Reach::Here),
        Us::Agent => Scope { target: agent, project: ctx.settings.cwd.clone(), reach: Reach::Here },
    }
}

/// What an agent does by itself.
#[derive(Clone, Copy)]
enum Deed {
    Speaks,
    Acks,
}

/// What an agent does, nobody does for it; and none does for another.
async fn itself(
    us: Us,
    agent: Option<&Target>,
    deed: Deed,
    client: &Client,
    ctx: &Context<'_>,
) -> Result<(), CliError> {
    match (us, agent) {
        (Us::Agent, None) => Ok(()),
        // Its own inbox is the one it may look into.
        (Us::Agent, Some(agent)) => {
            let scope = ctx.scope(Some(agent.clone()), Reach::Here);
            client.inbox(&scope).await.map(drop).map_err(|_| {
                CliError::new(Kind::Usage, format!("this is not {agent}'s shell{}", deed.of(agent)))
                    .hint("leave --agent out: in an agent's shell it is that agent")
            })
        }
        (Us::User, Some(agent)) => {
            Err(CliError::new(Kind::Usage, format!("you are the user here{}", deed.of(agent)))
                .hint(deed.instead(&agent.to_string())))
        }
        (Us::User, None) => {
            let what = "you are the user here, and this is for an agent's own shell";
            Err(CliError::new(Kind::Usage, what).hint(deed.instead("agent@workflow")))
        }
    }
}

impl Deed {
    fn of(self, agent: &Target) -> String {
        match self {
            Self::Speaks => format!(", and only {agent} itself speaks as {agent}"),
            Self::Acks => format!(", and only {agent} itself acks its mail"),
        }
    }

    /// What the user can do.
    fn instead(self, agent: &str) -> String {
        match self {
            Self::Speaks => format!("as yourself: agent-worker send {agent} \"…\""),
            Self::Acks => format!("look at it: agent-worker context inbox --agent {agent}"),
        }
    }
}

fn nobody_named() -> CliError {
    CliError::new(Kind::Usage, "you are the user here, and the user has no inbox")
        .hint("look into an agent's: agent-worker context inbox --agent agent@workflow")
}

fn show_inbox(reply: &InboxReply, format: Format, ctx: &mut Context<'_>) -> Result<(), CliError> {
    match format {
        Format::Json => ctx.console.json(reply),
        Format::Text if reply.messages.is_empty() => {
            let target = Target::agent(reply.agent.clone(), &reply.instance);
            ctx.console.note(&format!("nothing waits for {target}"))
        }
        Format::Text => reply.messages.iter().try_for_each(|mail| show_mail(mail, ctx)),
    }
}

fn show_mail(mail: &Mail, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let since = format!("{:>4} ago ", age(clock::now().since(mail.message.ts)));
    let note = if mail.wakes { "" } else { " (only to read)" };
    let mut lines = message_lines(&mail.message).into_iter();
    if let Some(first) = lines.next() {
        ctx.console.answer(&first.behind(Tone::Dim, since).and(Tone::Dim, note))?;
    }
    lines.try_for_each(|line| ctx.console.answer(&line))
}
