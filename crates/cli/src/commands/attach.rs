//! `agent-worker attach`: follow a run again, from where one left off.

use agent_worker_protocol::{Code, RunMode, RunState, Target, api::RunView};

use crate::{
    client::Reach,
    context::{Context, Format},
    ending,
    error::{CliError, Kind},
    memory::Memory,
    rejoin::{FollowArgs, rejoin},
    verdict::Verdict,
    which, words,
};

/// Follow a run again, from where you left off
///
/// Shows what was said since you stopped following it, or everything if you never did, then goes on as `run` does.
/// Ctrl-C only stops following.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: agent-worker attach @review:pr-123

Exits as the run does: see `agent-worker run --help`; 0 when you leave before its end.")]
pub(crate) struct Args {
    /// Which: `@workflow`, `@workflow:tag` or one of its agents; without it, the only run of this folder
    target: Option<Target>,
    #[command(flatten)]
    follow: FollowArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let format = args.follow.format();
    ending::in_an_envelope(attached(args, ctx).await, format, ctx)
}

async fn attached(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let Some(client) = ctx.daemon_if_any().await? else { return Err(Context::nothing_yet()) };
    let scope = ctx.scope(args.target, Reach::Here);
    let run = which::run(&client, &scope).await?;
    let was_left = Memory::of(ctx.settings).left_at(run.run).is_some();
    if !run.state.is_live() && !was_left {
        return Err(over(&run));
    }
    if let (Format::Text, Some(words)) = (args.follow.format(), greeting(&run)) {
        ctx.console.note(&words)?;
    }
    rejoin(run, client, args.follow, ctx).await
}

/// What a person sees first where nothing may be said for a while. What is over, or waits, says so at once.
fn greeting(run: &RunView) -> Option<String> {
    let target = Target::instance(&run.instance);
    match (&run.state, run.mode) {
        (RunState::Ended { .. }, _) | (RunState::Paused { .. }, RunMode::Run) => None,
        (RunState::Paused { .. }, RunMode::Start) => {
            Some(format!("{target} is {}; agent-worker resume {target} lets it go on", run.state))
        }
        (RunState::Setup | RunState::Electing | RunState::Running, _) => {
            Some(format!("following {target}; Ctrl-C leaves it as it is"))
        }
    }
}

fn over(run: &RunView) -> CliError {
    let target = Target::instance(&run.instance);
    let what = format!("{target} is over: {}", words::run(run));
    CliError::new(Kind::Refused(Code::RunEnded), what).hint(format!(
        "read it: agent-worker peek {target}; begin again: agent-worker restart {target}"
    ))
}
