//! `agent-worker restart`: stops a run and starts it again.

use agent_worker_protocol::{RunMode, Target, api::RunView};

use crate::{
    client::{
        attach_run::FollowArgs,
        daemon_client::ScopeReach,
        launch::{
            ExistingRunPolicy, LaunchPlan, STDIN_SOURCE, UnusablePrograms, check_programs,
            start_run,
        },
        local_state::LocalState,
    },
    error::{CliError, CliErrorKind},
    input::{
        config_file::ConfigFile,
        context::{CommandContext, Format},
        resolve_run::{self, EndedNote},
        signals::InterruptSignals,
        target_args::{TargetArgs, TargetEffect},
    },
    live::{
        bell::BellSetting,
        follower::{FollowUntil, Follower, InputLinePolicy, OnSignal, ResumePoint},
    },
    output::{
        exit_report::{self, finish_follow},
        restart_method::RestartMethod,
        verdict::RunVerdict,
    },
};

/// Stop a run and start it again
///
/// The new run uses the current version of the same file, with the same parameters, tag and mode, and your environment.
/// An ended run is started again too. The command follows the run; Ctrl-C only stops following.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: agent-worker restart @review:pr-123 --detach

Exit codes: those of `agent-worker run`.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Return early: for `run` once the run exists, for `start` once its agents are awake
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    follow: FollowArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.follow.format();
    exit_report::print_error_in_envelope(restart(args, ctx).await, format, ctx)
}

async fn restart(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let selected = args.target.or_selected(TargetEffect::Change, ctx)?;
    if let Some(target @ Target { agent: Some(agent), .. }) = &selected {
        let what = format!("`{agent}` is an agent, and `restart` restarts whole runs");
        return Err(CliError::new(CliErrorKind::Usage, what).with_hint(format!(
            "end its turn and resume it: agent-worker stop {target}, then agent-worker resume {target}"
        )));
    }
    let client = ctx.connect_existing().await?;
    let (scope, format) = (ctx.scope(selected, ScopeReach::CurrentProject), args.follow.format());
    let note = match format {
        Format::Text => EndedNote::Restarting,
        Format::Json => EndedNote::Omitted,
    };
    let last = resolve_run::resolve_run_with_note(&client, &scope, note, ctx).await?;
    let mode = last.mode;
    let config = ConfigFile::read(ctx.settings)?;
    let bell = BellSetting::of(&config);
    let request = {
        let (plan, workflow) = plan_from_last_run(last, config)?;
        let request = plan.request(&workflow, ctx)?;
        check_programs(&workflow, &request, UnusablePrograms::Allow, ctx)?;
        request
    };
    let mut signals = InterruptSignals::listen_or_fail()?;
    let started = start_run(&client, &request, &mut signals).await?;
    if args.detach && mode == RunMode::Run {
        // No event of the run was shown.
        LocalState::open(ctx.settings).save_last_shown_event(started.run, "").ok();
        return exit_report::print_detached_run(&started, format, ctx);
    }
    let follower = Follower {
        started: started.clone(),
        mode,
        on_signal: OnSignal::Leave,
        until: if args.detach { FollowUntil::Running } else { FollowUntil::Ended },
        resume_point: ResumePoint::Start,
        detail: args.follow.detail(),
        input: if args.detach { InputLinePolicy::Absent } else { InputLinePolicy::Offered },
        answer_destination: exit_report::answer_destination(format),
        bell,
        client,
    };
    finish_follow(follower.follow(ctx, &mut signals).await?, &started, format, ctx)
}

/// Plans the same run again; the file must still have the workflow name of that instance, or another one would start.
fn plan_from_last_run(
    last: RunView,
    config: ConfigFile,
) -> Result<(LaunchPlan, agent_worker_workflow::Workflow), CliError> {
    let target = Target::instance(&last.instance);
    let Some(file) = last.file else {
        let (what, hint) = if last.memory {
            let what = format!("{target} has ended, and its data was in memory only");
            (what, "start it again with the command that started it".to_owned())
        } else {
            let what = format!("{target} was not started from a file");
            (what, RestartMethod::NewAgents(last.instance).hint())
        };
        return Err(CliError::new(CliErrorKind::Failed, what).with_hint(hint));
    };
    if file.file_name().is_some_and(|name| name == STDIN_SOURCE) {
        let what = format!("the workflow of {target} came from stdin");
        let hint = "start it again with the command that started it";
        return Err(CliError::new(CliErrorKind::Failed, what).with_hint(hint));
    }
    let workflow = agent_worker_workflow::load_with(&file, &config.content.defaults)?;
    if workflow.name != last.instance.name {
        let what = format!("the workflow in {} is now called `{}`", file.display(), workflow.name);
        return Err(CliError::new(CliErrorKind::BadFile, what).with_hint(format!(
            "end the old run with `agent-worker stop {target}`, then run the file"
        )));
    }
    let tag = Some(last.instance.tag);
    let plan = LaunchPlan {
        file,
        source: None,
        cwd: last.cwd,
        tag,
        mode: last.mode,
        params: last.params,
        existing_run: ExistingRunPolicy::Replace,
        config,
    };
    Ok((plan, workflow))
}
