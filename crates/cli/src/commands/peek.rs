//! `agent-worker peek`: read a channel.

use agent_worker_host::{DialError, EventStream};
use agent_worker_protocol::{EventKind, Message, Seq, Target};

use crate::{
    client::{Page, Reach, Runs, Watched},
    clock,
    context::{Context, Format, Output},
    error::{CliError, Kind},
    line::Tone,
    text,
    verdict::Verdict,
    view::message_lines,
};

/// Read what was said
///
/// Shows the channel of the run that goes on, else of the last one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker peek @review:pr-123 --follow")]
pub(crate) struct Args {
    /// Whose channel: `@workflow:tag`, or one of its agents
    target: Option<Target>,
    /// The newest so many
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    number: u32,
    /// Go on showing what is said, until the run ends; with --json one message per line
    #[arg(long, short, conflicts_with = "find")]
    follow: bool,
    /// Only messages with this text in them
    #[arg(long, value_name = "TEXT")]
    find: Option<String>,
    /// Those of earlier runs too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let Some(client) = ctx.daemon_if_any().await? else { return Err(Context::no_daemon()) };
    let scope = ctx.scope(args.target, Reach::Here);
    let runs = if args.all { Runs::All } else { Runs::Current };
    let page = Page { limit: args.number, search: args.find, runs };
    // Watched from before it is read, so that nothing falls between what was read and what follows.
    let from_now = None;
    let events = if args.follow {
        Some(client.events(&Watched::Scope(scope.clone()), from_now).await?)
    } else {
        None
    };
    let reply = client.messages(&scope, &page).await?;
    match (args.output.format(), args.follow) {
        (Format::Json, false) => ctx.console.json(&reply),
        (Format::Json, true) => reply.messages.iter().try_for_each(|said| ctx.console.json(said)),
        (Format::Text, _) if reply.messages.is_empty() => ctx.console.note("nothing was said yet"),
        (Format::Text, _) => reply.messages.iter().try_for_each(|said| show(said, ctx)),
    }?;
    if let Some(events) = events {
        let seen = reply.messages.last().map(|said| said.seq).unwrap_or_default();
        follow(events, seen, args.output.format(), ctx).await?;
    }
    Ok(Verdict::Done)
}

/// Shows what is said after `seen`, until a run ends.
async fn follow(
    mut events: EventStream,
    mut seen: Seq,
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<(), CliError> {
    let away =
        || CliError::new(Kind::Lost, "the daemon went away").hint("follow again: the same command");
    loop {
        let event = match events.next().await {
            Ok(Some((_, event))) => event,
            Ok(None) | Err(DialError::Lost { .. }) => return Err(away()),
            Err(other) => return Err(other.into()),
        };
        let message = match event.kind {
            EventKind::RunEnded => {
                ctx.console.note("the run is over")?;
                return Ok(());
            }
            EventKind::Message => serde_json::from_value::<Message>(event.data).ok(),
            _ => None,
        };
        let Some(message) = message.filter(|message| message.seq > seen) else { continue };
        seen = message.seq;
        match format {
            Format::Json => ctx.console.json(&message)?,
            Format::Text => show(&message, ctx)?,
        }
    }
}

fn show(message: &Message, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let age = format!("{:>4} ago ", text::age(clock::now().since(message.ts)));
    let mut lines = message_lines(message).into_iter();
    if let Some(first) = lines.next() {
        ctx.console.answer(&first.behind(Tone::Dim, age))?;
    }
    lines.try_for_each(|line| ctx.console.answer(&line))
}
