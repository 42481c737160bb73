//! Which run a command means: the target's, or the only one of the caller's folder.

use agent_worker_protocol::{
    Code, Target,
    api::{InstanceView, RunView},
    is_near,
};

use crate::{
    client::{Client, Reach, Scope},
    error::{CliError, Kind},
};

/// Refuses a target that names nobody: what is asked of its whole team would be answered all the same.
pub(crate) async fn somebody(client: &Client, scope: &Scope) -> Result<(), CliError> {
    match &scope.target {
        Some(Target { agent: Some(_), .. }) => Ok(client.agents(scope).await.map(drop)?),
        Some(Target { agent: None, .. }) | None => Ok(()),
    }
}

/// The run that goes on, else the last one, of the instance that is meant.
pub(crate) async fn run(client: &Client, scope: &Scope) -> Result<RunView, CliError> {
    let scope = match &scope.target {
        Some(_) => {
            somebody(client, scope).await?;
            scope.clone()
        }
        None => only(client, scope).await?,
    };
    // Those that go on come first, then the newest.
    let newest = client.runs(&scope).await?.into_iter().next();
    newest.ok_or_else(|| {
        let what = scope.target.as_ref().map_or_else(String::new, |target| format!(" of {target}"));
        CliError::new(Kind::Refused(Code::NoRun), format!("there is no run{what}"))
            .hint("`agent-worker run FILE` begins one")
    })
}

/// The only instance of the caller's folder: of those that live, else of all.
pub(crate) async fn only(client: &Client, scope: &Scope) -> Result<Scope, CliError> {
    let instances = here(client, scope).await?;
    let live: Vec<_> = instances.iter().filter(|one| one.live.is_some()).cloned().collect();
    let meant = if live.is_empty() { instances } else { live };
    match meant.as_slice() {
        [one] => Ok(of(one)),
        [] => Err(CliError::new(Kind::Refused(Code::NotFound), "nothing has run in this folder")
            .hint("other folders' runs: agent-worker ls --all")),
        several => {
            let names: Vec<_> =
                several.iter().map(|one| Target::instance(&one.instance).to_string()).collect();
            let what = format!("which one? {}", names.join(", "));
            Err(CliError::new(Kind::Refused(Code::Conflict), what)
                .hint(format!("name it, such as {}", names[0])))
        }
    }
}

/// Every instance of the caller's folder, live or not.
pub(crate) async fn here(client: &Client, scope: &Scope) -> Result<Vec<InstanceView>, CliError> {
    let mut instances = here_and_global(client, scope).await?;
    instances.retain(|one| !one.instance.is_global());
    Ok(instances)
}

/// The same, and that of the standalone agents, who are near to everybody.
pub(crate) async fn here_and_global(
    client: &Client,
    scope: &Scope,
) -> Result<Vec<InstanceView>, CliError> {
    let everywhere = Scope { target: None, reach: Reach::Everywhere, ..scope.clone() };
    let mut instances = client.instances(&everywhere).await?;
    instances.retain(|one| is_near(&one.project, &scope.project));
    Ok(instances)
}

/// How to ask for one instance, whatever other folders have of that name.
pub(crate) fn of(instance: &InstanceView) -> Scope {
    Scope::instance(&instance.instance, instance.project.clone())
}
