//! `agent-worker attach`: follows a run again, from the last shown event on.

use agent_worker_protocol::{Code, RunMode, RunState, Target, api::RunView};

use crate::{
    client::{
        attach_run::{FollowArgs, follow_existing_run},
        daemon_client::ScopeReach,
        local_state::LocalState,
    },
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format},
        resolve_run::{self, EndedNote},
        target_args::{TargetArgs, TargetEffect},
    },
    output::{exit_report, restart_method::RestartMethod, state_text, verdict::RunVerdict},
};

/// Follow a run again from where you left off
///
/// The command prints the messages since you stopped following, or all messages if you never did, then continues like
/// `run`. Ctrl-C only stops following.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: agent-worker attach @review:pr-123

Exit codes: those of `agent-worker run`; 0 if you leave before the end of the run.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    follow: FollowArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.follow.format();
    let attached = Box::pin(attach(args, ctx)).await;
    exit_report::print_error_in_envelope(attached, format, ctx)
}

async fn attach(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let target = args.target.or_selected(TargetEffect::Read, ctx)?;
    let scope = ctx.scope(target, ScopeReach::CurrentProject);
    let run = resolve_run::resolve_run_with_note(&client, &scope, EndedNote::Omitted, ctx).await?;
    let was_left = LocalState::open(ctx.settings).last_shown_event(run.run).is_some();
    if !run.state.is_live() && !was_left {
        return Err(run_ended_error(&run));
    }
    if let (Format::Text, Some(words)) = (args.follow.format(), follow_notice(&run)) {
        ctx.console.note(&words)?;
    }
    Box::pin(follow_existing_run(run, client, args.follow, ctx)).await
}

/// Returns the notice for a run that may print nothing for a while; an ended or paused run prints its state at once.
fn follow_notice(run: &RunView) -> Option<String> {
    let target = Target::instance(&run.instance);
    match (&run.state, run.mode) {
        (RunState::Ended { .. }, _) | (RunState::Paused { .. }, RunMode::Run) => None,
        (RunState::Paused { .. }, RunMode::Start) => {
            Some(format!("{target} is {}; continue it: agent-worker resume {target}", run.state))
        }
        (RunState::Setup | RunState::Electing | RunState::Running, _) => {
            Some(format!("following {target}; Ctrl-C detaches and leaves the run as it is"))
        }
    }
}

fn run_ended_error(run: &RunView) -> CliError {
    let target = Target::instance(&run.instance);
    let what = format!("{target} has ended: {}", state_text::run_state_text(run));
    let restart = RestartMethod::of(run).hint();
    let hint = if run.memory {
        restart
    } else {
        format!("read its messages: agent-worker peek {target}; {restart}")
    };
    CliError::new(CliErrorKind::Refused(Code::RunEnded), what).with_hint(hint)
}
