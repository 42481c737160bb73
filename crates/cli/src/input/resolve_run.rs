//! Resolves the run of a command: the target's run, or the only one in the caller's folder.

use agent_worker_protocol::{
    Code, Target,
    api::{InstanceView, RunView},
    is_ancestor_or_descendant,
};

use crate::{
    client::daemon_client::{CommandScope, DaemonClient, ScopeReach},
    error::{CliError, CliErrorKind},
    input::context::{CommandContext, Format},
    output::{clock, restart_method::RestartMethod, state_text},
};

/// Refuses a target with an unknown agent, since a request for the whole team would succeed anyway.
pub(crate) async fn require_agent_exists(
    client: &DaemonClient,
    scope: &CommandScope,
) -> Result<(), CliError> {
    match &scope.target {
        Some(Target { agent: Some(_), .. }) => Ok(client.agents(scope).await.map(drop)?),
        Some(Target { agent: None, .. }) | None => Ok(()),
    }
}

/// The note about a run that is used although it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedNote {
    /// The command prints the run.
    Showing,
    /// The command starts the run again.
    Restarting,
    /// The command needs a live run and fails without one.
    Omitted,
}

/// Returns the live run of the addressed instance, else its latest one; a note says that the command shows that one.
pub(crate) async fn resolve_run(
    client: &DaemonClient,
    scope: &CommandScope,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunView, CliError> {
    resolve_run_with_note(client, scope, EndedNote::shown_as(format), ctx).await
}

/// Returns the live run of the addressed instance, else its latest one, with this note.
pub(crate) async fn resolve_run_with_note(
    client: &DaemonClient,
    scope: &CommandScope,
    note: EndedNote,
    ctx: &mut CommandContext<'_>,
) -> Result<RunView, CliError> {
    let scope = match &scope.target {
        Some(_) => scope_with_note(client, scope, note, ctx).await?,
        None => match folder_instance(client, scope).await? {
            Some(instance) => {
                note_ended(client, &instance, note, ctx).await?;
                instance_scope(&instance)
            }
            None => {
                return Err(CliError::new(
                    CliErrorKind::Refused(Code::NotFound),
                    "nothing has run in this folder",
                )
                .with_hint("other folders' runs: agent-worker ls --all"));
            }
        },
    };
    // Live runs come first, then the newest.
    let newest = client.newest_run(&scope).await?;
    newest.ok_or_else(|| {
        let what = scope.target.as_ref().map_or_else(String::new, |target| format!(" of {target}"));
        CliError::new(CliErrorKind::Refused(Code::NoRun), format!("there is no run{what}"))
            .with_hint("`agent-worker run FILE` starts one")
    })
}

/// Returns the scope of the one instance that a command reads. If no run of it is live, and the target does not name
/// the instance, the newest is meant, and a note says so. Without any instance in this folder the daemon decides.
pub(crate) async fn readable_scope(
    client: &DaemonClient,
    scope: &CommandScope,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<CommandScope, CliError> {
    scope_with_note(client, scope, EndedNote::shown_as(format), ctx).await
}

async fn scope_with_note(
    client: &DaemonClient,
    scope: &CommandScope,
    note: EndedNote,
    ctx: &mut CommandContext<'_>,
) -> Result<CommandScope, CliError> {
    let Some(target) = &scope.target else {
        let Some(instance) = folder_instance(client, scope).await? else {
            return Ok(scope.clone());
        };
        note_ended(client, &instance, note, ctx).await?;
        return Ok(instance_scope(&instance));
    };
    require_agent_exists(client, scope).await?;
    let Some(instance) = client.instances(scope).await?.into_iter().next() else {
        return Ok(scope.clone());
    };
    let is_near = is_ancestor_or_descendant(&instance.project, &scope.project);
    if target.workflow.is_none() || !is_near {
        note_ended(client, &instance, note, ctx).await?;
    }
    let exact = Target { agent: target.agent.clone(), ..Target::instance(&instance.instance) };
    Ok(CommandScope { target: Some(exact), ..instance_scope(&instance) })
}

impl EndedNote {
    /// Returns the note of a command that prints a run.
    fn shown_as(format: Format) -> Self {
        match format {
            Format::Text => Self::Showing,
            Format::Json => Self::Omitted,
        }
    }
}

/// Says that an instance is used although it has no live run.
async fn note_ended(
    client: &DaemonClient,
    instance: &InstanceView,
    note: EndedNote,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let action = match note {
        EndedNote::Showing => "showing",
        EndedNote::Restarting => "restarting",
        EndedNote::Omitted => return Ok(()),
    };
    let (None, Some(last)) = (instance.live, instance.last) else { return Ok(()) };
    let ended = client.run(last).await?.ended;
    let when = ended.map(|ended| format!(" (ended {})", state_text::time_ago(ended, clock::now())));
    let target = Target::instance(&instance.instance);
    let when = when.unwrap_or_default();
    ctx.console.note(&format!("no live run; {action} the last one: {target}{when}"))
}

/// Returns the instance of the caller's folder: the only live one, else the one with the newest run. Run ids begin
/// with the time.
async fn folder_instance(
    client: &DaemonClient,
    scope: &CommandScope,
) -> Result<Option<InstanceView>, CliError> {
    let mut instances = instances_in_folder(client, scope).await?;
    let live: Vec<_> = instances.iter().filter(|one| one.live.is_some()).cloned().collect();
    match live.as_slice() {
        [] => {
            instances.sort_by_key(|one| one.last);
            Ok(instances.pop())
        }
        [one] => Ok(Some(one.clone())),
        several => {
            let names: Vec<_> =
                several.iter().map(|one| Target::instance(&one.instance).to_string()).collect();
            let what = format!("several runs match: {}", names.join(", "));
            Err(CliError::new(CliErrorKind::Refused(Code::Conflict), what)
                .with_hint(format!("name one, such as {}", names[0])))
        }
    }
}

/// Returns every instance of the caller's folder, live or not.
pub(crate) async fn instances_in_folder(
    client: &DaemonClient,
    scope: &CommandScope,
) -> Result<Vec<InstanceView>, CliError> {
    let mut instances = instances_in_folder_and_global(client, scope).await?;
    instances.retain(|one| !one.instance.is_global());
    Ok(instances)
}

/// Returns the instances of the caller's folder and that of the standalone agents, which belong to no folder.
pub(crate) async fn instances_in_folder_and_global(
    client: &DaemonClient,
    scope: &CommandScope,
) -> Result<Vec<InstanceView>, CliError> {
    let here = CommandScope { target: None, reach: ScopeReach::CurrentProject, ..scope.clone() };
    Ok(client.instances(&here).await?)
}

/// Returns the scope of exactly this instance, even if other folders have one of the same name.
pub(crate) fn instance_scope(instance: &InstanceView) -> CommandScope {
    CommandScope::for_instance(&instance.instance, instance.project.clone())
}

/// Corrects the hint of an error about an instance without a live run, because `restart` needs the file of the run.
pub(crate) async fn with_restart_hint(error: CliError, ctx: &CommandContext<'_>) -> CliError {
    let Some(instance) = error.instance_without_run().filter(|instance| !instance.is_global())
    else {
        return error;
    };
    let Ok(client) = ctx.connect_existing().await else { return error };
    let scope = CommandScope::for_instance(instance, ctx.settings.cwd.clone());
    match client.newest_run(&scope).await {
        Ok(Some(run)) => error.with_hint(RestartMethod::of(&run).hint()),
        Ok(None) => error.with_hint(RestartMethod::SameCommand.hint()),
        Err(_) => error,
    }
}
