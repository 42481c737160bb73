//! `agent-worker down`: stops what `up` started, by a short name.

use agent_worker_host::DialError;
use agent_worker_protocol::{Code, Tag, Target, api::InstanceView};

use super::stop::{StopPlan, StopTarget, print_nothing_stopped};
use crate::{
    client::daemon_client::{DaemonClient, ScopeReach, StopGrace},
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, OutputArgs},
        resolve_run,
        target_args::{TargetEffect, same_target},
    },
    output::verdict::RunVerdict,
};

/// Stop what `up` started
///
/// Without an argument: the target selected with `use`, else the only run of this folder. `down pr-123`: the run with that tag. `down coder` or `down
/// coder@pr-123`: that agent. Returns when the processes have ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker down pr-123")]
pub(crate) struct Args {
    /// Tag of a run, or target as for `stop` [default: the target selected with `use`, else the only run of this folder]
    #[arg(value_name = "TAG|TARGET")]
    target: Option<String>,
    /// Same as TARGET
    #[arg(long = "target", visible_alias = "to", short = 't', value_name = "TARGET")]
    target_option: Option<String>,
    /// Stop every run of every folder
    #[arg(long, conflicts_with_all = ["target", "target_option"])]
    all: bool,
    /// End the processes without a grace period
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    let what = same_target(args.target, args.target_option)?;
    let client = match (ctx.connect_if_history().await?, &what) {
        (Some(client), _) => client,
        (None, Some(_)) => return Err(CommandContext::no_history_error()),
        (None, None) => return print_nothing_stopped(format, ctx),
    };
    let meant = match &what {
        _ if args.all => StopTarget::Everything,
        None => StopTarget::new(ctx.selected_target(TargetEffect::Change)?, ctx),
        Some(word) => resolve_stop_target(word, &client, ctx).await?,
    };
    let grace = if args.now { StopGrace::Immediate } else { StopGrace::Default };
    StopPlan { target: meant, grace, format }.execute(&client, ctx).await
}

/// Resolves a word: the tag of a live run, else a target.
async fn resolve_stop_target(
    word: &str,
    client: &DaemonClient,
    ctx: &CommandContext<'_>,
) -> Result<StopTarget, CliError> {
    let target = word.parse::<Target>();
    let tagged = match word.parse::<Tag>() {
        Ok(tag) => live_instances_with_tag(&tag, client, ctx).await?,
        Err(_) => Vec::new(),
    };
    match (tagged.as_slice(), target) {
        ([], Ok(target)) => Ok(StopTarget::new(Some(target), ctx)),
        ([], Err(bad)) => Err(CliError::with_source(
            CliErrorKind::Usage,
            format!("`{word}` matches nothing"),
            bad,
        )
        .with_hint("list the live agents: agent-worker ls")),
        ([one], Ok(target)) if target_exists(&target, client, ctx).await? => {
            let instance = Target::instance(&one.instance);
            Err(CliError::new(
                CliErrorKind::Refused(Code::Conflict),
                format!("`{word}` is ambiguous: an agent, and the tag of {instance}"),
            )
            .with_hint(format!(
                "name one: agent-worker down {instance}, or the agent with its workflow"
            )))
        }
        ([one], _) => Ok(StopTarget::Runs(resolve_run::instance_scope(one))),
        (several, _) => {
            let names: Vec<_> =
                several.iter().map(|one| Target::instance(&one.instance).to_string()).collect();
            let what = format!("several runs match: {}", names.join(", "));
            Err(CliError::new(CliErrorKind::Refused(Code::Conflict), what)
                .with_hint(format!("name one: agent-worker down {}", names[0])))
        }
    }
}

/// Returns the instances with this tag and a live run: those of this folder, else those of any folder.
async fn live_instances_with_tag(
    tag: &Tag,
    client: &DaemonClient,
    ctx: &CommandContext<'_>,
) -> Result<Vec<InstanceView>, CliError> {
    let is_meant = |one: &InstanceView| {
        one.instance.tag == *tag && one.live.is_some() && !one.instance.is_global()
    };
    for reach in [ScopeReach::CurrentProject, ScopeReach::AllProjects] {
        let mut found = client.instances(&ctx.scope(None, reach)).await?;
        found.retain(is_meant);
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Returns whether an agent of that name exists.
async fn target_exists(
    target: &Target,
    client: &DaemonClient,
    ctx: &CommandContext<'_>,
) -> Result<bool, CliError> {
    match client.agents(&ctx.scope(Some(target.clone()), ScopeReach::CurrentProject)).await {
        Ok(agents) => Ok(!agents.is_empty()),
        Err(DialError::Refused(problem)) if problem.code == Code::NotFound => Ok(false),
        // Several agents match.
        Err(DialError::Refused(problem)) if problem.code == Code::Conflict => Ok(true),
        Err(error) => Err(error.into()),
    }
}
