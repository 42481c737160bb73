//! Resolves the run of a command: the target's run, or the only one in the caller's folder.

use agent_worker_protocol::{
    Code, Target,
    api::{InstanceView, RunView},
    is_ancestor_or_descendant,
};

use crate::{
    client::daemon_client::{CommandScope, DaemonClient, ScopeReach},
    error::{CliError, CliErrorKind},
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

/// Returns the live run of the addressed instance, else its latest one.
pub(crate) async fn resolve_run(
    client: &DaemonClient,
    scope: &CommandScope,
) -> Result<RunView, CliError> {
    let scope = match &scope.target {
        Some(_) => {
            require_agent_exists(client, scope).await?;
            scope.clone()
        }
        None => only_instance(client, scope).await?,
    };
    // Live runs come first, then the newest.
    let newest = client.runs(&scope).await?.into_iter().next();
    newest.ok_or_else(|| {
        let what = scope.target.as_ref().map_or_else(String::new, |target| format!(" of {target}"));
        CliError::new(CliErrorKind::Refused(Code::NoRun), format!("there is no run{what}"))
            .with_hint("`agent-worker run FILE` starts one")
    })
}

/// Returns the only instance of the caller's folder, among the live ones if there are any.
pub(crate) async fn only_instance(
    client: &DaemonClient,
    scope: &CommandScope,
) -> Result<CommandScope, CliError> {
    let instances = instances_in_folder(client, scope).await?;
    let live: Vec<_> = instances.iter().filter(|one| one.live.is_some()).cloned().collect();
    let meant = if live.is_empty() { instances } else { live };
    match meant.as_slice() {
        [one] => Ok(instance_scope(one)),
        [] => Err(CliError::new(
            CliErrorKind::Refused(Code::NotFound),
            "nothing has run in this folder",
        )
        .with_hint("other folders' runs: agent-worker ls --all")),
        several => {
            let names: Vec<_> =
                several.iter().map(|one| Target::instance(&one.instance).to_string()).collect();
            let what = format!("more than one instance matches: {}", names.join(", "));
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
    let everywhere = CommandScope { target: None, reach: ScopeReach::AllProjects, ..scope.clone() };
    let mut instances = client.instances(&everywhere).await?;
    instances.retain(|one| is_ancestor_or_descendant(&one.project, &scope.project));
    Ok(instances)
}

/// Returns the scope of exactly this instance, even if other folders have one of the same name.
pub(crate) fn instance_scope(instance: &InstanceView) -> CommandScope {
    CommandScope::for_instance(&instance.instance, instance.project.clone())
}
