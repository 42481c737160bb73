//! `agent-worker logs`: what the worker of an agent's last turn printed.

use std::time::Duration;

use agent_worker_protocol::{AttemptId, EventKind, Target, api::LogReply};
use tokio::time::timeout;

use crate::{
    client::{Client, Reach, Scope, Watched},
    clock,
    context::{Context, Format, Output},
    error::{CliError, Kind},
    feed::{DAEMON_BACK, DAEMON_LOST, Feed, News},
    verdict::Verdict,
    words,
};

/// The interval of reads of the log while the run has no event.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Show what an agent's worker printed
///
/// That of its turn under way, else of its last one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker logs coder@review:pr-123 --follow")]
pub(crate) struct Args {
    /// Whose: `agent` or `agent@workflow:tag`
    target: Target,
    /// Go on showing what is printed, in later turns too, until the run ends
    #[arg(long, short, conflicts_with = "json")]
    follow: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    if args.target.agent.is_none() {
        let what = format!("{} is a whole instance, and logs are an agent's", args.target);
        return Err(CliError::new(Kind::Usage, what)
            .hint(format!("see who is there: agent-worker ls {}", args.target)));
    }
    let Some(client) = ctx.daemon_if_any().await? else { return Err(Context::nothing_yet()) };
    let scope = ctx.scope(Some(args.target.clone()), Reach::Here);
    let shown = match (args.follow, args.output.format()) {
        (true, _) => follow(client.clone(), &scope, ctx).await,
        (false, Format::Json) => match whole(&client, &scope).await {
            Ok(whole) => ctx.console.json(&whole),
            Err(error) => Err(error),
        },
        (false, Format::Text) => show(&client, &scope, ctx).await,
    };
    match shown {
        Ok(()) => Ok(Verdict::Done),
        Err(error) if is_not_found(&error) => {
            // Not there, or only not woken yet.
            let who = client.agent(&args.target, &scope).await?.view;
            let who = Target::agent(who.name, &who.instance);
            Err(CliError::new(error.kind(), format!("{who} has not had a turn yet"))
                .hint(format!("give it one: agent-worker send {who} \"…\"")))
        }
        Err(error) => Err(error),
    }
}

async fn show(client: &Client, scope: &Scope, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let mut printed = Printed::default();
    printed.catch_up(client, scope, ctx).await?;
    printed.end_line(ctx)?;
    match printed.next {
        0 => ctx.console.note("nothing was printed"),
        _ => Ok(()),
    }
}

/// The whole log as one reply.
async fn whole(client: &Client, scope: &Scope) -> Result<LogReply, CliError> {
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
async fn follow(mut client: Client, scope: &Scope, ctx: &mut Context<'_>) -> Result<(), CliError> {
    // Opened before the log is read, so that the end of the run is not missed.
    let watched = Watched::Scope(scope.clone());
    let mut feed = Feed::open_now(client.clone(), ctx.settings.clone(), watched).await?;
    let mut printed = Printed::default();
    let mut is_over = false;
    loop {
        match printed.catch_up(&client, scope, ctx).await {
            Ok(()) if is_over => {
                printed.end_line(ctx)?;
                return ctx.console.note("the run is over");
            }
            Ok(()) => {}
            // The agent has not had a turn yet.
            Err(error) if printed.attempt.is_none() && is_not_found(&error) && !is_over => {}
            // The feed finds the next daemon, or reports that there is none.
            Err(error) if matches!(error.kind(), Kind::Lost | Kind::NoDaemon) => {}
            Err(error) => return Err(error),
        }
        let Ok(news) = timeout(POLL_INTERVAL, feed.next()).await else { continue };
        match news? {
            News::Event(_, event) => is_over |= event.kind == EventKind::RunEnded,
            News::Lost => ctx.console.warn(DAEMON_LOST)?,
            News::Back(next) => {
                client = next;
                ctx.console.warn(DAEMON_BACK)?;
            }
            News::End => return Ok(()),
        }
    }
}

fn is_not_found(error: &CliError) -> bool {
    error.kind() == Kind::Refused(agent_worker_protocol::Code::NotFound)
}

/// The beginning of the log of the turn after this one, once there is one.
async fn later(
    client: &Client,
    scope: &Scope,
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

/// How much of which turn's log was printed.
#[derive(Default)]
struct Printed {
    attempt: Option<AttemptId>,
    next: u64,
    is_mid_line: bool,
}

impl Printed {
    /// Prints what is there and was not printed yet.
    async fn catch_up(
        &mut self,
        client: &Client,
        scope: &Scope,
        ctx: &mut Context<'_>,
    ) -> Result<(), CliError> {
        loop {
            let page = client.log(scope, self.attempt, self.next).await?;
            if self.attempt.is_none() {
                self.turn_to(&page, ctx)?;
            }
            if page.text.is_empty() {
                // A turn's log is read to its end before the next one's is begun.
                match later(client, scope, &page).await? {
                    Some(next) => self.turn_to(&next, ctx)?,
                    None => return Ok(()),
                }
                continue;
            }
            ctx.console.piece(&page.text)?;
            self.is_mid_line = !page.text.ends_with('\n');
            self.next = page.next;
        }
    }

    /// Begins with another turn's log.
    fn turn_to(&mut self, page: &LogReply, ctx: &mut Context<'_>) -> Result<(), CliError> {
        self.end_line(ctx)?;
        self.attempt = Some(page.attempt);
        self.next = 0;
        let begun = words::ago(page.started, clock::now());
        ctx.console.note(&format!("{}, a turn begun {begun}:", page.agent))
    }

    fn end_line(&mut self, ctx: &mut Context<'_>) -> Result<(), CliError> {
        if std::mem::take(&mut self.is_mid_line) { ctx.console.piece("\n") } else { Ok(()) }
    }
}
