//! Joining of agents to a live run: of a workflow file, or a run without a file, such as that of the standalone agents.

use crate::runs::members::Agents;
use std::{
    collections::{BTreeMap, HashSet},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use agent_worker_protocol::{
    AgentName, AgentSettings, EffectKey, InstanceRef, Limits, Permission, RunId, RunMode, Tag,
    Target,
    api::{AgentRequest, AgentView},
};
use agent_worker_store::{
    AgentRow, Error as StoreError, Instance, NewAgent, NewRun, Retention, RunQuery,
};
use agent_worker_workflow::{AgentDraft, AgentDraftError, LimitSettings, Workflow};

use crate::{
    access::{client_env, instance_resolution::InstanceSelector, target::InstanceChoice},
    error::{Error, Result},
    kernel::{Kernel, Principal, RunContext, RunScript},
    runs::run_paths::{require_plain_path, resolve_cwd},
};

/// Project of standalone agents: the root of all folders, so that they are near to every caller.
const GLOBAL_PROJECT: &str = "/";
const GLOBAL_WORKFLOW: &str = "global";
/// Maximum number of agents with a numbered name.
const MAX_NUMBERED_AGENTS: usize = 10_000;

/// The kind of run that an agent joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JoinTarget {
    /// The run of a workflow file. Its agents have the environment of the run.
    Team,
    /// A run without a file. Each of its agents has its own environment and folder.
    Standalone,
}

/// The run that an agent joins.
enum JoinPlace {
    Live(RunId),
    /// The live run without a file of an instance; created at first use.
    WithoutFile {
        project: String,
        instance: InstanceRef,
    },
}

impl Agents<'_> {
    /// Adds an agent to an instance's live run; without a target, as a standalone agent. Completes even if the
    /// caller disconnects.
    pub async fn create(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        request: AgentRequest,
    ) -> Result<AgentView> {
        who.require(Permission::Agents)?;
        let (kernel, who) = (self.0.clone(), who.clone());
        self.0
            .scheduler
            .run_to_completion(async move { kernel.join_agent(&who, key, request).await })
            .await
    }
}

impl Kernel {
    async fn join_agent(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        mut request: AgentRequest,
    ) -> Result<AgentView> {
        if self.is_draining() {
            return Err(Error::Draining);
        }
        if !request.command.is_empty() && !matches!(who, Principal::User) {
            return Err(Error::Forbidden("only the user may name the program of an agent"));
        }
        let place = self.join_place(who, &request).await?;
        let joins = match &place {
            JoinPlace::WithoutFile { .. } => JoinTarget::Standalone,
            JoinPlace::Live(run) => self.join_target(*run).await?,
        };
        // Report invalid settings now, before anything is created for the agent.
        let mut settings = requested_settings(&request, joins)?;
        if joins == JoinTarget::Standalone {
            let env = std::mem::take(&mut request.env);
            let undeclared = |_: &str| false;
            request.env = client_env::requested_env(who, env, &self.base_env, undeclared)?;
        }
        let _alone = self.membership_lock.acquire().await;
        let run = match place {
            JoinPlace::Live(run) => run,
            JoinPlace::WithoutFile { project, instance } => {
                self.run_without_file(who, project, instance).await?
            }
        };
        let run_context = self.run_context(run).await?;
        if let Some(cwd) = settings.cwd.take() {
            settings.cwd = Some(allowed_cwd(who, &run_context, cwd).await?);
        }
        let team = self.store.agent_list(run_context.workflow).await?;
        let name = match request.name {
            Some(name) => name,
            None => free_name(&team)?,
        };
        // If the agent exists, possibly from a call with the same key, its environment stays unchanged.
        if joins == JoinTarget::Standalone && !team.iter().any(|agent| agent.name == name) {
            self.agent_env_save(run, &name, request.env).await?;
        }
        let settings = serde_json::to_string(&AgentSettings { name: name.clone(), ..settings })
            .map_err(|error| StoreError::InvalidValue(format!("agent: {error}")))?;
        let new = NewAgent { name: name.clone(), settings };
        let added = self.store.agent_add(who.author_with_key(key)?, run, new, self.now()).await;
        // Evict in any case: the agent may have been added.
        self.run_context_evict(run);
        match added {
            Ok(made) => {
                if joins == JoinTarget::Standalone && made != name {
                    // A repeated call with its key returns the agent of the first call: no agent has this name.
                    self.agent_env_save(run, &name, BTreeMap::new()).await?;
                }
                self.end_hold(who).await;
                self.agent_view(run, &made).await
            }
            Err(StoreError::Exists(_)) => {
                Err(Error::AgentExists(Target::agent(name, &run_context.instance)))
            }
            Err(StoreError::NoRun) => {
                // The run ended meanwhile: remove everything of it.
                self.runner.run_close(run).await;
                Err(Error::NoRun(run_context.instance.clone()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Saves a standalone agent's environment with those of the others; an empty one removes it.
    pub(crate) async fn agent_env_save(
        &self,
        run: RunId,
        agent: &AgentName,
        own: BTreeMap<String, String>,
    ) -> Result<()> {
        let mut env = match self.runner.run_env(run).await {
            // The environment is removed with its run: then the store refuses, with the reason.
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            env => env.map_err(Error::RunFolder)?,
        };
        let prefix = agent_env_prefix(agent);
        env.retain(|name, _| !name.starts_with(&prefix));
        env.extend(own.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)));
        self.runner.run_open(run, env).await.map_err(Error::RunFolder)
    }

    /// Finds the run that an agent joins; creates nothing.
    async fn join_place(&self, who: &Principal, request: &AgentRequest) -> Result<JoinPlace> {
        let Some(instance) = joined_instance(request.target.as_ref())? else {
            let name =
                GLOBAL_WORKFLOW.parse().map_err(|bad| Error::BadRequest(format!("{bad}")))?;
            let instance = InstanceRef { name, tag: Tag::default() };
            return Ok(JoinPlace::WithoutFile { project: GLOBAL_PROJECT.to_owned(), instance });
        };
        let project = request.project.clone().or_else(|| request.connection_folder.clone());
        let target = request.target.clone();
        let selector = InstanceSelector { target, project };
        let found = if request.create_instance {
            self.resolve_instance_here(who, &selector).await
        } else {
            let choice = InstanceChoice::Nearest;
            self.resolve_instance_for_write(who, &selector, choice).await
        };
        if let Ok(Instance { live: Some(run), .. }) = found {
            return Ok(JoinPlace::Live(run));
        }
        if !request.create_instance {
            return Err(found.map_or_else(|error| error, |found| Error::NoRun(found.instance)));
        }
        if !matches!(who, Principal::User) {
            return Err(Error::Forbidden("only the user may create an instance without a file"));
        }
        match found {
            Err(Error::NoInstance(_) | Error::UnknownTarget { .. }) => {
                let project = selector.plain_project()?.unwrap_or(GLOBAL_PROJECT.to_owned());
                Ok(JoinPlace::WithoutFile { project, instance })
            }
            Err(error) => Err(error),
            Ok(Instance { project, instance, last, .. }) => match last {
                // An instance of a workflow file is started from its file.
                Some(run) if self.join_target(run).await? == JoinTarget::Team => {
                    Err(Error::NoRun(instance))
                }
                Some(_) | None => Ok(JoinPlace::WithoutFile { project, instance }),
            },
        }
    }

    /// Returns the kind of a run.
    async fn join_target(&self, run: RunId) -> Result<JoinTarget> {
        let is_of_file = self.run_context(run).await?.script.file.is_some();
        Ok(if is_of_file { JoinTarget::Team } else { JoinTarget::Standalone })
    }

    /// Returns the live run without a file of an instance; creates both at first use.
    async fn run_without_file(
        &self,
        who: &Principal,
        project: String,
        instance: InstanceRef,
    ) -> Result<RunId> {
        if !who.can_reach(&project, &instance) {
            return Err(Error::NoInstance(format!("@{instance} in your scope")));
        }
        let id = self.store.instance_open(project.clone(), instance.clone()).await?;
        let newest = self.store.run_list(RunQuery::OfInstance(id, 1)).await?;
        if let Some(live) = newest.into_iter().find(|run| run.state.is_live()) {
            return Ok(live.id);
        }
        let now = self.now();
        let run = self.random.new_run_id(now.wall)?;
        let script = RunScript {
            file: None,
            workflow: Workflow::standalone(instance.name),
            tag: instance.tag,
            params: BTreeMap::new(),
            cwd: PathBuf::from(project),
            notify_files: Vec::new(),
        };
        let limits: Limits = LimitSettings::default().for_mode(RunMode::Start);
        let script = serde_json::to_string(&script)
            .map_err(|error| StoreError::InvalidValue(format!("run script: {error}")))?;
        let (mode, keep) = (RunMode::Start, Retention::Always);
        let (agents, roles) = (Vec::new(), Vec::new());
        let new = NewRun { id: run, mode, limits, script, agents, roles, retention: keep };
        self.runner.run_open(run, BTreeMap::new()).await.map_err(Error::RunFolder)?;
        if let Err(error) = self.store.run_create(id, new, now).await {
            self.runner.run_close(run).await;
            return Err(error.into());
        }
        let run_context = self.run_context(run).await?;
        let busy = self.scheduler.no_busy_agents(&run_context);
        self.spawn_run(run_context, busy);
        Ok(run)
    }
}

/// Returns the working folder of a new agent, if the caller may choose it.
async fn allowed_cwd(who: &Principal, run_context: &RunContext, cwd: PathBuf) -> Result<PathBuf> {
    require_plain_path("cwd", &run_context.script.cwd.join(&cwd))?;
    let Principal::Client(_) = who else { return Ok(cwd) };
    let (who, run_cwd) = (who.clone(), run_context.script.cwd.clone());
    let project = PathBuf::from(&run_context.project);
    let resolve = move || {
        let own = [&*project, &*run_cwd];
        // The agents of `@global` have no folder of their own.
        let own = if project == Path::new(GLOBAL_PROJECT) { &[][..] } else { &own[..] };
        resolve_cwd(&who, &run_cwd.join(cwd), own)
    };
    let interrupted = |_| Error::BadRequest("reading the folder was interrupted".into());
    tokio::task::spawn_blocking(resolve).await.map_err(interrupted)?
}

/// Returns the environment of an agent's worker: the run's values, overridden by those of the agent.
pub(crate) fn agent_env(
    mut env: BTreeMap<String, String>,
    agent: &AgentName,
) -> BTreeMap<String, String> {
    let prefix = agent_env_prefix(agent);
    let its = |(name, value): (&String, &String)| {
        Some((name.strip_prefix(&prefix)?.to_owned(), value.clone()))
    };
    let own: Vec<(String, String)> = env.iter().filter_map(its).collect();
    env.retain(|name, _| !name.contains('/'));
    env.extend(own);
    env
}

/// Returns the prefix of an agent's own variables among those of its run.
fn agent_env_prefix(agent: &AgentName) -> String {
    format!("{}/", agent.folded())
}

/// Returns the instance that a target names; none for the standalone agents.
fn joined_instance(target: Option<&Target>) -> Result<Option<InstanceRef>> {
    let Some(Target { agent, workflow, tag }) = target else { return Ok(None) };
    match (agent, workflow) {
        (None, Some(name)) => {
            let tag = tag.clone().unwrap_or_default();
            Ok(Some(InstanceRef { name: name.clone(), tag }).filter(|one| !one.is_global()))
        }
        (Some(_), _) | (None, None) => Err(Error::BadRequest(
            "the target must be the instance to join, @workflow or @workflow:tag; give the name of the agent as `name`"
                .into(),
        )),
    }
}

/// Returns the settings of the requested agent; without a name, with the first numbered name.
fn requested_settings(request: &AgentRequest, joins: JoinTarget) -> Result<AgentSettings> {
    let name = match &request.name {
        Some(name) => name.clone(),
        None => numbered_name(0)?,
    };
    let cwd = match (joins, &request.cwd) {
        (JoinTarget::Standalone, None) => request.project.clone(),
        (_, cwd) => cwd.clone(),
    };
    if joins == JoinTarget::Standalone && cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
        return Err(Error::BadRequest("`cwd` must be an absolute path".into()));
    }
    let draft = AgentDraft {
        name,
        backend: request.backend.clone(),
        model: request.model.clone(),
        system_prompt: request.system.clone(),
        mock: request.mock.clone(),
        agent: request.agent.clone(),
        command: request.command.clone(),
        cwd,
    };
    draft
        .into_settings()
        .map_err(|AgentDraftError { message, hint }| Error::BadAgent { message, correction: hint })
}

fn free_name(team: &[AgentRow]) -> Result<AgentName> {
    let taken: HashSet<&AgentName> = team.iter().map(|agent| &agent.name).collect();
    let numbers = (0..MAX_NUMBERED_AGENTS).map(numbered_name);
    let mut free = numbers.filter(|name| name.as_ref().is_ok_and(|name| !taken.contains(name)));
    free.next().unwrap_or_else(|| {
        Err(Error::BadRequest("no generated name is free; give the agent a name".into()))
    })
}

fn numbered_name(number: usize) -> Result<AgentName> {
    format!("a{number}").parse().map_err(|bad| Error::BadRequest(format!("{bad}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_gets_its_own_values_before_its_runs_and_no_values_of_others() {
        let env = [("PATH", "/run"), ("a0/PATH", "/zero"), ("a1/HOME", "/one"), ("TZ", "UTC")];
        let env: BTreeMap<String, String> =
            env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        for (agent, expected) in [
            ("A0", "PATH=/zero TZ=UTC"),
            ("a1", "HOME=/one PATH=/run TZ=UTC"),
            ("a", "PATH=/run TZ=UTC"),
        ] {
            let own = agent_env(env.clone(), &agent.parse().unwrap());
            let own: Vec<_> = own.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(own.join(" "), expected, "{agent}");
        }
    }

    #[test]
    fn a_target_names_a_team_and_global_is_none() {
        for (target, expected) in [
            (None, Some(None)),
            (Some("@global"), Some(None)),
            (Some("@global:main"), Some(None)),
            (Some("@review"), Some(Some("review"))),
            (Some("@review:pr-1"), Some(Some("review:pr-1"))),
            (Some("coder"), None),
            (Some("coder@review"), None),
        ] {
            let target: Option<Target> = target.map(|target| target.parse().unwrap());
            let joined = joined_instance(target.as_ref()).ok();
            let joined = joined.map(|instance| instance.map(|instance| instance.to_string()));
            let expected = expected.map(|instance| instance.map(str::to_owned));
            assert_eq!(joined, expected, "{target:?}");
        }
    }
}
