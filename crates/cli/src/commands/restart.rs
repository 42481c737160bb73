//! `agent-worker restart`: stop a run and begin it again.

use agent_worker_protocol::{RunMode, Target, api::RunView};

use crate::{
    client::Reach,
    context::Context,
    ending::{self, ended},
    error::{CliError, Kind},
    follow::{Follower, OnSignal, Seen, Until},
    launch::{Other, Plan, begin},
    memory::Memory,
    rejoin::FollowArgs,
    signals::Signals,
    verdict::Verdict,
    which,
};

/// Stop a run and begin it again
///
/// With the same file, as it is now, and the same parameters, tag and kind; the environment is yours. A run that is over
/// is begun again too. Then follows it; Ctrl-C only stops following.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: agent-worker restart @review:pr-123 --detach

Exits as the run does: see `agent-worker run --help`.")]
pub(crate) struct Args {
    /// Which: `@workflow` or `@workflow:tag`; without it, the only run of this folder
    target: Option<Target>,
    /// Return while it goes on: a `run` once it exists, a `start` once its agents are awake
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    follow: FollowArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let format = args.follow.format();
    ending::in_an_envelope(restarted(args, ctx).await, format, ctx)
}

async fn restarted(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    if let Some(target @ Target { agent: Some(agent), .. }) = &args.target {
        let what = format!("`{agent}` is an agent, and `restart` begins whole runs again");
        return Err(CliError::new(Kind::Usage, what).hint(format!(
            "end its turn and wake it again: agent-worker stop {target}, then agent-worker resume {target}"
        )));
    }
    let client = ctx.daemon_of_something().await?;
    let last = which::run(&client, &ctx.scope(args.target.clone(), Reach::Here)).await?;
    let (mode, format) = (last.mode, args.follow.format());
    let request = {
        let (plan, workflow) = again(last)?;
        plan.request(&workflow, ctx)?
    };
    let mut signals = Signals::listen_or_fail()?;
    let started = begin(&client, &request, &mut signals).await?;
    if args.detach && mode == RunMode::Run {
        // Nothing of it was shown.
        Memory::of(ctx.settings).leave(started.run, "").ok();
        return ending::left(&started, format, ctx);
    }
    let follower = Follower {
        started: started.clone(),
        mode,
        on_signal: OnSignal::Leave,
        until: if args.detach { Until::Running } else { Until::Over },
        seen: Seen::Nothing,
        detail: args.follow.detail(),
        answers: ending::answers(format),
        client,
    };
    ended(follower.follow(ctx, &mut signals).await?, &started, format, ctx)
}

/// The same run once more. Its file must still be the file of that instance, or another one would be begun.
fn again(last: RunView) -> Result<(Plan, agent_worker_workflow::Workflow), CliError> {
    let target = Target::instance(&last.instance);
    let Some(file) = last.file else {
        return Err(CliError::new(Kind::Usage, format!("{target} comes from no file"))
            .hint("`restart` is for what `run`, `start` and `up` began"));
    };
    let workflow = agent_worker_workflow::load(&file)?;
    if workflow.name != last.instance.name {
        let what = format!("{} is called `{}` by now", file.display(), workflow.name);
        return Err(CliError::new(Kind::BadFile, what).hint(format!(
            "end the old one with `agent-worker stop {target}`, and run the file anew"
        )));
    }
    let tag = Some(last.instance.tag);
    let plan = Plan {
        file,
        cwd: last.cwd,
        tag,
        mode: last.mode,
        params: last.params,
        other: Other::IsStopped,
    };
    Ok((plan, workflow))
}
