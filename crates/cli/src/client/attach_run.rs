//! Follows an existing run from the position the caller left it at, for `attach` and `resume`.

use agent_worker_protocol::api::{RunStarted, RunView};

use crate::{
    client::{daemon_client::DaemonClient, local_state::LocalState},
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        signals::InterruptSignals,
    },
    live::{
        bell::BellSetting,
        follower::{FollowUntil, Follower, InputLinePolicy, OnSignal, ResumePoint},
        view::Verbosity,
    },
    output::{
        exit_report::{self, finish_follow},
        verdict::RunVerdict,
    },
};

/// Options for following a run.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct FollowArgs {
    /// Show tool calls and attempts too
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl FollowArgs {
    /// Returns the output format.
    pub(crate) fn format(self) -> Format {
        self.output.format()
    }

    /// Returns the level of detail.
    pub(crate) fn detail(self) -> Verbosity {
        if self.verbose { Verbosity::Verbose } else { Verbosity::Normal }
    }
}

/// Follows `run` from its snapshot on; a signal only ends the following.
pub(crate) async fn follow_existing_run(
    run: RunView,
    client: DaemonClient,
    args: FollowArgs,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let agents = run.agents.iter().map(|agent| agent.name.clone()).collect();
    let started = RunStarted { run: run.run, instance: run.instance.clone(), agents };
    let mut signals = InterruptSignals::listen_or_fail()?;
    let follower = Follower {
        started: started.clone(),
        mode: run.mode,
        on_signal: OnSignal::Leave,
        until: FollowUntil::Ended,
        resume_point: match LocalState::open(ctx.settings).last_shown_event(run.run) {
            Some(event) if !event.is_empty() => ResumePoint::After { event, run: Box::new(run) },
            Some(_) | None => ResumePoint::Start,
        },
        detail: args.detail(),
        input: InputLinePolicy::Offered,
        answer_destination: exit_report::answer_destination(args.format()),
        bell: BellSetting::read_or_warn(ctx)?,
        client,
    };
    finish_follow(follower.follow(ctx, &mut signals).await?, &started, args.format(), ctx)
}
