//! `agent-worker peek`: prints the messages of a channel.

use agent_worker_protocol::{EventBody, EventKind, Message, Millis, Seq, Span, Target};
use clap::builder::TypedValueParser as _;

use crate::{
    client::daemon_client::{
        DaemonClient, FeedSource, MessageFilter, MessagePosition, RunSelection, ScopeReach,
    },
    commands::receipts,
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
        target_args::{TargetArgs, TargetEffect},
    },
    live::{
        feed::{DAEMON_BACK, DAEMON_LOST, FeedUpdate, ReconnectingFeed},
        view::message_lines,
    },
    output::{clock, clock::ClockZone, styled_line::Tone, verdict::RunVerdict},
};

const DEFAULT_MESSAGE_LIMIT: u32 = 20;

/// Print the messages of a channel
///
/// The command prints the live run, else the last one; with --inbox the pending messages of an agent.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker peek @review:pr-123 --follow
  agent-worker peek @review:pr-123 --thread 12
  agent-worker peek @review:pr-123 --since 2026-01-31T10:00:00Z
  agent-worker peek coder@review --inbox")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Number of messages: the newest [default: 20], or the first with --since or --thread [default: all]
    #[arg(
        short = 'n',
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Filters"
    )]
    number: Option<u32>,
    /// Only messages after a message or a time, oldest first: `12`, `2026-01-31T10:00:00Z` or `10m` ago
    #[arg(
        long,
        value_name = "NUMBER|TIME",
        value_parser = parse_position,
        conflicts_with = "inbox",
        help_heading = "Filters"
    )]
    since: Option<MessagePosition>,
    /// Print new messages until the run ends; with --json one message per line
    #[arg(long, short, conflicts_with = "find")]
    follow: bool,
    /// Only messages that contain this text, ignoring case, newest first
    #[arg(long, value_name = "TEXT", help_heading = "Filters")]
    find: Option<String>,
    /// Only this message and all replies and answers to it, from any run
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = receipts::parse_seq,
        conflicts_with_all = ["follow", "find", "all"],
        help_heading = "Filters"
    )]
    thread: Option<Seq>,
    /// Include earlier runs
    #[arg(long, help_heading = "Filters")]
    all: bool,
    /// Only pending messages of the agent, which stay pending
    #[arg(long, conflicts_with_all = ["follow", "find", "thread", "all"], help_heading = "Filters")]
    inbox: bool,
    /// Show the times of messages in UTC instead of your time zone
    #[arg(
        long = "utc",
        action = clap::ArgAction::SetTrue,
        value_parser = clap::builder::BoolValueParser::new()
            .map(|utc| if utc { ClockZone::Utc } else { ClockZone::Local })
    )]
    zone: ClockZone,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    if args.follow && args.since.is_some() && args.number.is_some() {
        let message = "--number cannot be combined with --follow and --since, which print every message after that position";
        return Err(CliError::new(CliErrorKind::Usage, message));
    }
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let nothing = empty_reason(&args);
    let zone = args.zone;
    let target = args.target.or_selected(TargetEffect::Read, ctx)?;
    if args.inbox {
        return show_inbox(&client, target, (args.output.format(), zone), ctx).await;
    }
    let scope = ctx.scope(target, ScopeReach::CurrentProject);
    let format = args.output.format();
    let scope = resolve_run::readable_scope(&client, &scope, format, ctx).await?;
    let runs = if args.all { RunSelection::All } else { RunSelection::Current };
    let reads_from_first = args.thread.is_some() || args.since.is_some();
    let usual = if reads_from_first { u32::MAX } else { DEFAULT_MESSAGE_LIMIT };
    let limit = args.number.unwrap_or(usual);
    let page =
        MessageFilter { limit, since: args.since, search: args.find, thread: args.thread, runs };
    // Opened before the messages are read, so that no message falls between the two.
    let feed = if args.follow {
        let watched = FeedSource::Scope(scope.clone());
        Some(ReconnectingFeed::open_now(client.clone(), ctx.settings.clone(), watched).await?)
    } else {
        None
    };
    let reply = client.messages(&scope, &page).await?;
    match (args.output.format(), args.follow) {
        (Format::Json, false) => ctx.console.print_json(&reply),
        (Format::Json, true) => {
            reply.items.iter().try_for_each(|message| ctx.console.print_json(message))
        }
        (Format::Text, _) if reply.items.is_empty() => ctx.console.note(nothing),
        (Format::Text, _) => reply.items.iter().try_for_each(|message| show(message, zone, ctx)),
    }?;
    if let Some(feed) = feed {
        let seen = reply.items.last().map(|message| message.seq).unwrap_or_default();
        follow(feed, seen, (args.output.format(), zone), ctx).await?;
    }
    Ok(RunVerdict::Done)
}

/// Returns the reason for an empty list.
fn empty_reason(args: &Args) -> &'static str {
    let is_after = args.since.is_some();
    match (args.thread, &args.find) {
        (Some(_), _) if is_after => "no message of this thread after that position",
        (Some(_), _) => "no messages in this thread",
        (None, Some(_)) if is_after => "no message after that position contains this text",
        (None, Some(_)) => "no message contains this text",
        (None, None) if is_after && args.all => "no messages after that position",
        (None, None) if is_after => {
            "no messages in this run after that position; --all includes earlier runs"
        }
        (None, None) if args.all => "no messages yet",
        (None, None) => {
            "no messages in this run, or the channel was cleared; --all shows everything"
        }
    }
}

/// Parses a position in a channel: a message's number, a time, or a duration before now.
fn parse_position(text: &str) -> Result<MessagePosition, String> {
    let number = text.strip_prefix('#').unwrap_or(text).parse().ok().filter(|seq| *seq >= 0);
    let time = || text.parse().ok();
    let ago = || {
        let millis = text.parse::<Span>().ok()?.duration().as_millis();
        let millis = i64::try_from(millis).unwrap_or(i64::MAX);
        Some(Millis::new(clock::now().get().saturating_sub(millis)))
    };
    let position = match number {
        Some(seq) => Some(MessagePosition::Seq(Seq::new(seq))),
        None => time().or_else(ago).map(MessagePosition::Time),
    };
    position.ok_or_else(|| {
        "expected a message's number, a time such as 2026-01-31T10:00:00Z, or a duration such as 10m"
            .into()
    })
}

/// Prints the pending messages of an agent.
async fn show_inbox(
    client: &DaemonClient,
    target: Option<Target>,
    (format, zone): (Format, ClockZone),
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let Some(target) = target.filter(|target| target.agent.is_some()) else {
        return Err(CliError::new(CliErrorKind::Usage, "an inbox belongs to an agent: name one")
            .with_hint("such as: agent-worker peek coder@review --inbox"));
    };
    let reply = client.inbox(&ctx.scope(Some(target), ScopeReach::CurrentProject)).await?;
    match format {
        Format::Json => ctx.console.print_json(&reply)?,
        Format::Text if reply.items.is_empty() => {
            let who = Target::agent(reply.agent, &reply.instance);
            ctx.console.note(&format!("no pending messages for {who}"))?;
        }
        Format::Text => reply.items.iter().try_for_each(|mail| show(&mail.message, zone, ctx))?,
    }
    Ok(RunVerdict::Done)
}

/// Prints messages after `seen` until a run ends.
async fn follow(
    mut feed: ReconnectingFeed,
    mut seen: Seq,
    (format, zone): (Format, ClockZone),
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    loop {
        let event = match feed.next().await? {
            FeedUpdate::Event(_, event) => event,
            FeedUpdate::Disconnected => {
                ctx.console.warn(DAEMON_LOST)?;
                continue;
            }
            FeedUpdate::Reconnected(_) => {
                ctx.console.warn(DAEMON_BACK)?;
                continue;
            }
            FeedUpdate::Held(_) => {
                ctx.note_hold()?;
                continue;
            }
            FeedUpdate::End => return Ok(()),
        };
        if event.kind() == Some(EventKind::RunEnded) {
            ctx.console.note("the run has ended")?;
            return Ok(());
        }
        let EventBody::Message(message) = event.body else { continue };
        if message.seq <= seen {
            continue;
        }
        seen = message.seq;
        match format {
            Format::Json => ctx.console.print_json(&message)?,
            Format::Text => show(&message, zone, ctx)?,
        }
    }
}

fn show(message: &Message, zone: ClockZone, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let time = format!("{} ", clock::format_message_time(message.ts, clock::now(), zone));
    let mut lines = message_lines(message).into_iter();
    if let Some(first) = lines.next() {
        ctx.console.print_line(&first.with_prefix(Tone::Dim, time))?;
    }
    lines.try_for_each(|line| ctx.console.print_line(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct PeekCommand {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_reason_for_an_empty_list_names_its_filters() {
        for (line, expected) in [
            ("peek", "no messages in this run, or the channel was cleared; --all shows everything"),
            ("peek --all", "no messages yet"),
            (
                "peek --since 6",
                "no messages in this run after that position; --all includes earlier runs",
            ),
            ("peek --all --since 6", "no messages after that position"),
            ("peek --find x", "no message contains this text"),
            ("peek --find x --since 6", "no message after that position contains this text"),
            ("peek --thread 1 --since 6", "no message of this thread after that position"),
        ] {
            let words = line.split(' ');
            let PeekCommand { args } = clap::Parser::try_parse_from(words).unwrap();
            assert_eq!(empty_reason(&args), expected, "{line}");
        }
    }

    #[test]
    fn a_position_is_a_number_a_time_or_a_duration_before_now() {
        let seq = |seq| Some(MessagePosition::Seq(Seq::new(seq)));
        for (text, expected) in [
            ("12", seq(12)),
            ("#12", seq(12)),
            ("0", seq(0)),
            ("1970-01-01T00:00:01Z", Some(MessagePosition::Time(Millis::new(1000)))),
            ("-1", None),
            ("yesterday", None),
        ] {
            assert_eq!(parse_position(text).ok(), expected, "{text}");
        }
        let Ok(MessagePosition::Time(ago)) = parse_position("10m") else { panic!("10m") };
        let elapsed = clock::now().since(ago).as_secs();
        assert!((600..660).contains(&elapsed), "{elapsed}");
    }
}
