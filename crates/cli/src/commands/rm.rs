//! `agent-worker rm`: deletes an instance with its runs and messages, after a confirmation.

use std::{io::IsTerminal as _, path::Path};

use agent_worker_protocol::{
    AgentState, Code, Target,
    api::{AgentView, InstanceRemoved, InstanceRequest, InstanceView, RunView},
    is_ancestor_or_descendant,
};
use serde::Serialize;

use crate::{
    client::{
        daemon_client::{DaemonClient, ScopeReach, StopGrace},
        local_state::LocalState,
    },
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
        target_args::TargetArgs,
    },
    output::{
        report,
        styled_line::{StyledLine, Tone},
        text::{one_line, pluralize},
        verdict::RunVerdict,
    },
};

/// Delete an instance permanently
///
/// Deletes its runs, messages, documents and logs. Keeps its workflow file, and the files in .workflow/ or its `dir`.
/// The command asks for confirmation at a terminal; without a terminal it needs --yes. It always needs a typed target.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("target", |arg| arg.help("Instance to delete: `@workflow` or `@workflow:tag`; always required")),
    after_help = "Example: agent-worker rm @review:pr-123 --force --yes"
)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Stop its live run first
    #[arg(long, short)]
    force: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The document that `rm --json` prints.
#[derive(Serialize)]
struct RemovalReport {
    #[serde(flatten)]
    removed: InstanceRemoved,
    runs: usize,
    messages: u64,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let target = args.target.clone().required("agent-worker rm @workflow:tag")?;
    if let Some(agent) = &target.agent {
        let what = format!("`{agent}` is an agent, and `rm` deletes whole instances");
        return Err(CliError::new(CliErrorKind::Usage, what)
            .with_hint(format!("remove it from its run: agent-worker agent end {target}")));
    }
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let instance = exact_instance(&client, target, ctx).await?;
    if instance.instance.is_global() {
        return Err(permanent_instance_error());
    }
    let runs = runs_of(&client, &instance, ctx).await?;
    refuse_live_run(&args, &runs)?;
    if !args.yes && confirm(&instance, &runs, &client, ctx).await? == Confirmation::No {
        return Err(CliError::new(CliErrorKind::Failed, "nothing was deleted"));
    }
    stop_live_runs(&args, &runs, &client, ctx).await?;
    let target = Some(Target::instance(&instance.instance));
    let request = InstanceRequest { target, project: Some(instance.project) };
    let removed = client.instance_remove(&request).await?;
    let memory = LocalState::open(ctx.settings);
    for run in &runs {
        // No command needs the position in a deleted run.
        memory.remove_position(run.run).ok();
    }
    let gone = RemovalReport { removed, runs: runs.len(), messages: message_count(&runs) };
    match args.output.format() {
        Format::Json => ctx.console.print_json(&gone)?,
        Format::Text => ctx.console.print_line(&removal_line(&gone))?,
    }
    Ok(RunVerdict::Done)
}

/// Returns the one instance that a target names, live or not: that of this folder, else the only one of a folder above or
/// below it, else the only one anywhere.
async fn exact_instance(
    client: &DaemonClient,
    target: Target,
    ctx: &CommandContext<'_>,
) -> Result<InstanceView, CliError> {
    let typed = target.to_string();
    let here = ctx.scope(Some(target.clone()), ScopeReach::CurrentProject);
    let found = client.instances(&here).await?.into_iter().next();
    let found = found.ok_or_else(|| {
        let what = format!("there is no instance `{typed}`");
        CliError::new(CliErrorKind::Refused(Code::NotFound), what)
    })?;
    let everywhere = ctx.scope(None, ScopeReach::AllProjects);
    let mut namesakes = client.instances(&everywhere).await?;
    // `@pr-1` may be the tag of several workflows.
    let by_tag = target.workflow.as_ref() != Some(&found.instance.name);
    namesakes.retain(|one| {
        one.instance == found.instance || (by_tag && one.instance.tag == found.instance.tag)
    });
    choose_namesake(namesakes, &ctx.settings.cwd).map_err(|several| {
        let names = several.iter().map(|one| {
            format!("`{}` in {}", Target::instance(&one.instance), one.project.display())
        });
        let names = names.collect::<Vec<_>>().join(", ");
        let what = one_line(&format!("several runs match `{typed}`: {names}"));
        CliError::new(CliErrorKind::Refused(Code::Conflict), what)
            .with_hint("change to the folder of the one you mean")
    })
}

/// Returns the only instance of the nearest folder, or all of them.
fn choose_namesake(
    namesakes: Vec<InstanceView>,
    cwd: &Path,
) -> Result<InstanceView, Vec<InstanceView>> {
    let is_own = |one: &InstanceView| one.project == cwd;
    let is_near = |one: &InstanceView| is_ancestor_or_descendant(&one.project, cwd);
    let circles: [&dyn Fn(&InstanceView) -> bool; 3] = [&is_own, &is_near, &|_| true];
    let circle = circles.into_iter().find(|circle| namesakes.iter().any(circle));
    let mut nearest = namesakes;
    nearest.retain(|one| circle.is_some_and(|circle| circle(one)));
    match nearest.pop() {
        Some(one) if nearest.is_empty() => Ok(one),
        last => {
            nearest.extend(last);
            Err(nearest)
        }
    }
}

/// Returns the runs of exactly this instance; a target would also mean a live namesake of another folder.
async fn runs_of(
    client: &DaemonClient,
    instance: &InstanceView,
    ctx: &CommandContext<'_>,
) -> Result<Vec<RunView>, CliError> {
    let mut runs = client.runs(&ctx.scope(None, ScopeReach::AllProjects)).await?;
    runs.retain(|run| run.instance == instance.instance && run.project == instance.project);
    Ok(runs)
}

fn permanent_instance_error() -> CliError {
    let what = "@global holds the standalone agents and cannot be removed";
    CliError::new(CliErrorKind::Refused(Code::Conflict), what).with_hint(
        "`agent-worker agent end NAME` removes one agent, `agent-worker stop @global` stops all",
    )
}

/// The answer to the question whether to delete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Confirmation {
    Yes,
    No,
}

/// Returns whether there is a terminal to ask at.
fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Names what is deleted and asks at the terminal; the default is no. Without a terminal `--yes` is required.
async fn confirm(
    instance: &InstanceView,
    runs: &[RunView],
    client: &DaemonClient,
    ctx: &mut CommandContext<'_>,
) -> Result<Confirmation, CliError> {
    let target = Target::instance(&instance.instance);
    if !can_ask() {
        return Err(CliError::new(CliErrorKind::Usage, format!("deleting {target} needs --yes"))
            .with_hint(format!("there is no terminal to ask at: agent-worker rm {target} --yes")));
    }
    let project = one_line(&instance.project.to_string_lossy());
    let documents = client.documents(&resolve_run::instance_scope(instance)).await?.len();
    let documents = pluralize(documents, "document");
    let question = format!(
        "this deletes {}, {} and {documents} of {target} in {project}; project files stay. Continue? [y/N] ",
        pluralize(runs.len(), "run"),
        pluralize(usize::try_from(message_count(runs)).unwrap_or(usize::MAX), "message"),
    );
    ctx.console.eprint_chunk(&question)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|error| {
        CliError::with_source(CliErrorKind::Failed, "could not read the answer", error)
    })?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(Confirmation::Yes),
        _ => Ok(Confirmation::No),
    }
}

fn live_run(runs: &[RunView]) -> Option<&RunView> {
    let stopping = |agent: &AgentView| agent.state == AgentState::Stopping;
    runs.iter().find(|run| run.state.is_live() || run.agents.iter().any(stopping))
}

fn refuse_live_run(args: &Args, runs: &[RunView]) -> Result<(), CliError> {
    let Some(run) = live_run(runs).filter(|_| !args.force) else { return Ok(()) };
    let target = Target::instance(&run.instance);
    let what = format!("{target} has a live run: {}", one_line(&run.state.to_string()));
    Err(CliError::new(CliErrorKind::Refused(Code::Conflict), what).with_hint(format!(
        "stop it first: agent-worker stop {target}; or stop and remove it: agent-worker rm {target} --force{}",
        if can_ask() { "" } else { " --yes" }
    )))
}

async fn stop_live_runs(
    args: &Args,
    runs: &[RunView],
    client: &DaemonClient,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let Some(run) = live_run(runs) else { return Ok(()) };
    let stopped = client.run_stop(run.run, StopGrace::Default).await?;
    match args.output.format() {
        Format::Json => Ok(()),
        Format::Text => ctx.console.eprint_line(&report::run_stopped_line(&stopped)),
    }
}

fn message_count(runs: &[RunView]) -> u64 {
    runs.iter().map(|run| u64::from(run.messages)).sum()
}

fn removal_line(gone: &RemovalReport) -> StyledLine {
    let target = Target::instance(&gone.removed.instance);
    let project = one_line(&gone.removed.project.to_string_lossy());
    let messages = usize::try_from(gone.messages).unwrap_or(usize::MAX);
    let (runs, messages) = (pluralize(gone.runs, "run"), pluralize(messages, "message"));
    StyledLine::new(Tone::Strong, format!("removed {target}"))
        .with(Tone::Plain, format!(" of {project}: {runs} and {messages}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instance_of_this_folder_is_deleted_before_those_of_folders_around_it() {
        let view = |project: &str| InstanceView {
            instance: "w".parse().unwrap(),
            project: project.into(),
            live: None,
            last: None,
        };
        for (cwd, projects, expected) in [
            ("/a/b", &["/a", "/a/b"][..], Some("/a/b")),
            ("/a", &["/a", "/a/b"], Some("/a")),
            ("/a/b/c", &["/a", "/a/b"], None),
            ("/a/b/c", &["/a", "/z"], Some("/a")),
            ("/x", &["/a"], Some("/a")),
            ("/x", &["/a", "/b"], None),
        ] {
            let views = projects.iter().map(|project| view(project)).collect();
            let chosen = choose_namesake(views, Path::new(cwd)).ok();
            assert_eq!(chosen.map(|one| one.project), expected.map(Into::into), "{cwd}");
        }
    }
}
