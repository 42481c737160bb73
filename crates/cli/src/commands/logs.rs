//! `agent-worker logs`: prints the output of the worker of an agent's last turn.

use std::time::Duration;

use agent_worker_protocol::{AttemptId, EventKind, Target, api::LogReply};
use tokio::time::timeout;

use crate::{
    client::daemon_client::{CommandScope, DaemonClient, FeedSource, ScopeReach},
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
        target_args::{TargetArgs, TargetEffect},
    },
    live::feed::{DAEMON_BACK, DAEMON_LOST, FeedUpdate, ReconnectingFeed},
    output::{clock, state_text, verdict::RunVerdict},
};

/// The interval of reads of the log while the run has no event.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Show the output of an agent's worker
///
/// The command prints the output of the current turn, else of the last one.
#[derive(Debug, clap::Args)]
#[command(mut_arg("target", |arg| arg.help(
    "Target: `agent` or `agent@workflow:tag` [default: the target selected with `use`]"
)), after_help = "Example: agent-worker logs coder@review:pr-123 --follow")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Print new output, also of later turns, until the run ends
    #[arg(long, short, conflicts_with = "json")]
    follow: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let target = args.target.or_selected(TargetEffect::Read, ctx)?;
    let Some(target) = target else {
        return Err(CliError::new(CliErrorKind::Usage, "no agent is named")
            .with_hint("name one: agent-worker logs agent@workflow"));
    };
    if target.agent.is_none() {
        let what = format!("{target} is an instance, and each agent has its own log");
        return Err(CliError::new(CliErrorKind::Usage, what)
            .with_hint(format!("list its agents: agent-worker ls {target}")));
    }
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let scope = ctx.scope(Some(target.clone()), ScopeReach::CurrentProject);
    let format = args.output.format();
    let scope = resolve_run::readable_scope(&client, &scope, format, ctx).await?;
    let shown = match (args.follow, format) {
        (true, _) => follow(client.clone(), &scope, ctx).await,
        (false, Format::Json) => match read_whole_log(&client, &scope).await {
            Ok(whole) => ctx.console.print_json(&whole),
            Err(error) => Err(error),
        },
        (false, Format::Text) => show(&client, &scope, ctx).await,
    };
    match shown {
        Ok(()) => Ok(RunVerdict::Done),
        Err(error) if is_not_found(&error) => {
            // The agent does not exist, or has not been woken yet.
            let who = client.agent(scope.target.as_ref().unwrap_or(&target), &scope).await?.view;
            let who = Target::agent(who.name, &who.instance);
            Err(CliError::new(error.kind(), format!("{who} has not had a turn yet"))
                .with_hint(format!("send it a message: agent-worker send {who} \"…\"")))
        }
        Err(error) => Err(error),
    }
}

async fn show(
    client: &DaemonClient,
    scope: &CommandScope,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let mut printed = LogCursor::default();
    printed.print_new_output(client, scope, ctx).await?;
    printed.end_line(ctx)?;
    match printed.next {
        0 => ctx.console.note("no output"),
        _ => Ok(()),
    }
}

/// Returns the whole log as one reply.
async fn read_whole_log(client: &DaemonClient, scope: &CommandScope) -> Result<LogReply, CliError> {
    let mut whole = client.log(scope, None, 0).await?;
    loop {
        let more = client.log(scope, Some(whole.attempt), whole.next).await?;
        if more.text.is_empty() {
            return Ok(whole);
        }
        whole.text.push_str(&more.text);
        whole.next = more.next;
    }
}

/// Prints the log as it grows: after each event of the run, and at intervals, since a worker may print without an event.
async fn follow(
    mut client: DaemonClient,
    scope: &CommandScope,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    // Opened before the log is read, so that the end of the run is not missed.
    let watched = FeedSource::Scope(scope.clone());
    let mut feed =
        ReconnectingFeed::open_now(client.clone(), ctx.settings.clone(), watched).await?;
    let mut printed = LogCursor::default();
    let mut is_over = false;
    loop {
        match printed.print_new_output(&client, scope, ctx).await {
            Ok(()) if is_over => {
                printed.end_line(ctx)?;
                return ctx.console.note("the run has ended");
            }
            Ok(()) => {}
            // The agent has not had a turn yet.
            Err(error) if printed.attempt.is_none() && is_not_found(&error) && !is_over => {}
            // The feed finds the next daemon, or reports that there is none.
            Err(error)
                if matches!(
                    error.kind(),
                    CliErrorKind::ConnectionLost | CliErrorKind::NoDaemon
                ) => {}
            Err(error) => return Err(error),
        }
        let Ok(news) = timeout(POLL_INTERVAL, feed.next()).await else { continue };
        match news? {
            FeedUpdate::Event(_, event) => {
                is_over |= event.kind() == Some(EventKind::RunEnded);
            }
            FeedUpdate::Disconnected => ctx.console.warn(DAEMON_LOST)?,
            FeedUpdate::Reconnected(next) => {
                client = next;
                ctx.console.warn(DAEMON_BACK)?;
            }
            FeedUpdate::Held(next) => {
                client = next;
                ctx.note_hold()?;
            }
            FeedUpdate::End => return Ok(()),
        }
    }
}

fn is_not_found(error: &CliError) -> bool {
    error.kind() == CliErrorKind::Refused(agent_worker_protocol::Code::NotFound)
}

/// Returns the beginning of the next turn's log, if there is one.
async fn next_turn_log(
    client: &DaemonClient,
    scope: &CommandScope,
    read: &LogReply,
) -> Result<Option<LogReply>, CliError> {
    let (true, Some(who)) = (read.ended, &scope.target) else { return Ok(None) };
    let known = client.agent(who, scope).await?.attempts;
    let newer = known.iter().take_while(|attempt| attempt.attempt != read.attempt);
    match newer.last() {
        Some(next) => Ok(Some(client.log(scope, Some(next.attempt), 0).await?)),
        None => Ok(None),
    }
}

/// The printed part of one turn's log.
#[derive(Default)]
struct LogCursor {
    attempt: Option<AttemptId>,
    next: u64,
    is_mid_line: bool,
}

impl LogCursor {
    /// Prints the output that has not been printed yet.
    async fn print_new_output(
        &mut self,
        client: &DaemonClient,
        scope: &CommandScope,
        ctx: &mut CommandContext<'_>,
    ) -> Result<(), CliError> {
        loop {
            let page = client.log(scope, self.attempt, self.next).await?;
            if self.attempt.is_none() {
                self.switch_attempt(&page, ctx)?;
            }
            if page.text.is_empty() {
                // The log of a turn is read to its end before the next one is started.
                match next_turn_log(client, scope, &page).await? {
                    Some(next) => self.switch_attempt(&next, ctx)?,
                    None => return Ok(()),
                }
                continue;
            }
            ctx.console.print_chunk(&page.text)?;
            self.is_mid_line = !page.text.ends_with('\n');
            self.next = page.next;
        }
    }

    /// Switches to another turn's log.
    fn switch_attempt(
        &mut self,
        page: &LogReply,
        ctx: &mut CommandContext<'_>,
    ) -> Result<(), CliError> {
        self.end_line(ctx)?;
        self.attempt = Some(page.attempt);
        self.next = 0;
        let begun = state_text::time_ago(page.started, clock::now());
        ctx.console.note(&format!("{}, turn started {begun}:", page.agent))
    }

    fn end_line(&mut self, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
        if std::mem::take(&mut self.is_mid_line) { ctx.console.print_chunk("\n") } else { Ok(()) }
    }
}
