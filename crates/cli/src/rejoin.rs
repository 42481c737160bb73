//! Following a run that is there already, from where the caller left off: for `attach` and `resume`.

use agent_worker_protocol::api::{RunStarted, RunView};

use crate::{
    client::Client,
    context::{Context, Format, Output},
    ending::{self, ended},
    error::CliError,
    follow::{Follower, OnSignal, Seen, Until},
    memory::Memory,
    signals::Signals,
    verdict::Verdict,
    view::Detail,
};

/// How a run is followed.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct FollowArgs {
    /// Tell tool calls and attempts too
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    output: Output,
}

impl FollowArgs {
    /// How to answer.
    pub(crate) fn format(self) -> Format {
        self.output.format()
    }

    /// How much is told.
    pub(crate) fn detail(self) -> Detail {
        if self.verbose { Detail::Verbose } else { Detail::Usual }
    }
}

/// Follows `run` from its snapshot on. A signal only ends the following.
pub(crate) async fn rejoin(
    run: RunView,
    client: Client,
    args: FollowArgs,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    let agents = run.agents.iter().map(|agent| agent.name.clone()).collect();
    let started = RunStarted { run: run.run, instance: run.instance.clone(), agents };
    let mut signals = Signals::listen_or_fail()?;
    let follower = Follower {
        started: started.clone(),
        mode: run.mode,
        on_signal: OnSignal::Leave,
        until: Until::Over,
        seen: match Memory::of(ctx.settings).left_at(run.run) {
            Some(event) if !event.is_empty() => Seen::UpTo { event, run: Box::new(run) },
            Some(_) | None => Seen::Nothing,
        },
        detail: args.detail(),
        answers: ending::answers(args.format()),
        client,
    };
    ended(follower.follow(ctx, &mut signals).await?, &started, args.format(), ctx)
}
