//! Creation of runs: reads, checks and copies the file, and finds or creates the instance.

pub(crate) mod agent_join;
pub(crate) mod file_paths;
pub(crate) mod instances;
pub(crate) mod members;
pub(crate) mod mock_script;
mod notify_files;
mod run_paths;
pub(crate) mod team_parts;
mod verdict;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use agent_worker_protocol::{
    AgentName, EffectKey, InstanceRef, Limits, Permission, Role, RunDefaults, RunId, RunState,
    SpendLimits, WorkflowId,
    api::{ResumeRequest, RunRequest, RunStarted, RunView},
};
use agent_worker_store::{Error as StoreError, NewAgent, NewRun, Retention, RunQuery};
use agent_worker_workflow::{DocumentOwner, Provider, Workflow};

use crate::{
    access::client_env,
    approvals::notices::{NotifyPlan, require_own_defaults},
    error::{Error, Result},
    kernel::{Kernel, Principal, RunScript},
    runs::run_paths::{RunFile, RunFileRequest},
    scheduling::run_step,
};

/// Starts, pauses, stops and shows runs.
#[derive(Clone, Copy)]
pub struct Runs<'k>(pub(crate) &'k Kernel);

impl Runs<'_> {
    /// Creates a durable run and starts its setup. Completes even if the caller disconnects.
    pub async fn create(self, who: &Principal, request: RunRequest) -> Result<RunStarted> {
        who.require(Permission::Run)?;
        let (kernel, who) = (self.0.clone(), who.clone());
        self.0
            .scheduler
            .run_to_completion(async move { kernel.create_run(&who, request).await })
            .await
    }

    /// Pauses a run: no further attempt is leased until it is resumed; live turns finish.
    pub async fn pause(self, who: &Principal, run: RunId) -> Result<RunView> {
        who.require(Permission::Run)?;
        let row = self.0.require_run(who, run).await?;
        self.0.store.run_settle(run, Box::new(run_step::pause_step), self.0.now()).await?;
        // A caller that may pause the run gets its view, whatever its other permissions.
        let view = self.0.current_run_view(run).await?;
        match view.state {
            RunState::Paused { .. } => Ok(view),
            RunState::Ended { .. } => Err(Error::RunEnded(row.instance)),
            RunState::Setup | RunState::Electing | RunState::Running => {
                Err(Error::NotRunning(row.instance))
            }
        }
    }

    /// Resumes a paused run, with the limits of `request`. Completes even if the caller disconnects.
    pub async fn resume(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        run: RunId,
        request: ResumeRequest,
    ) -> Result<RunView> {
        who.require(Permission::Run)?;
        if request != ResumeRequest::default() {
            who.require(Permission::Limits)?;
        }
        let (kernel, who) = (self.0.clone(), who.clone());
        self.0
            .scheduler
            .run_to_completion(async move { kernel.resume_run(&who, key, run, request).await })
            .await
    }
}

impl Kernel {
    async fn create_run(&self, who: &Principal, request: RunRequest) -> Result<RunStarted> {
        if self.is_draining() {
            return Err(Error::Draining);
        }
        let asked_file = request.file.display().to_string();
        let defaults = Arc::new(require_own_defaults(who, request.defaults)?);
        let (source, cwd) = (request.source, request.cwd);
        let file = RunFileRequest { file: request.file, source, cwd };
        let file = open_file(who, file, Arc::clone(&defaults)).await?;
        let project = file.folder.to_string_lossy().into_owned();
        let tag = request.tag.unwrap_or_default();
        let instance = InstanceRef { name: file.workflow.name.clone(), tag: tag.clone() };
        if !who.can_reach(&project, &instance) {
            return Err(Error::NoInstance(format!("workflow file {asked_file} in your scope")));
        }
        let declares = |name: &str| file.workflow.declares_env(name);
        let env = client_env::requested_env(who, request.env, &self.base_env, declares)?;
        let (file, env) = require_env(file, env).await?;
        let RunFile { workflow, path, folder, cwd, .. } = file;
        // Report invalid parameters now, before the run exists.
        workflow.scope(&request.params, &env, &tag, &folder)?;
        let notify = NotifyPlan::of_run(&workflow, &defaults, &folder, &env);
        let (workflow, cwd, notify_files) =
            find_notify_files(notify.clone(), workflow, cwd).await?;
        let database = workflow.context.layout.database(&workflow.name, &tag);
        let database = database.map(|names| folder.join(names.iter().collect::<PathBuf>()));
        let id = match database {
            Some(file) => self.store.instance_open_in(file, project, instance.clone()).await?,
            None => self.store.instance_open(project, instance.clone()).await?,
        };
        if request.replace {
            self.stop_live_run(who, id).await?;
        }
        let (mode, now) = (request.mode, self.now());
        let run = self.random.new_run_id(now.wall)?;
        let agents = workflow.agents.iter().map(|agent| agent.name.clone()).collect();
        let (file, params) = (Some(path), request.params);
        let script = RunScript { file, workflow, tag, params, cwd, notify_files };
        let new = new_run(run, mode, &script)?;
        self.runner.run_open(run, env).await.map_err(Error::RunFolder)?;
        if let Some(plan) = notify {
            self.runner.notify_open(run, plan).await.map_err(Error::RunFolder)?;
        }
        if let Err(error) = self.store.run_create(id, new, now).await {
            self.runner.notify_close(run).await;
            self.runner.run_close(run).await;
            return Err(match error {
                StoreError::RunLive(_) => self.already_running_error(id, instance).await?,
                other => other.into(),
            });
        }
        self.runner.notify_start(run);
        self.end_hold(who).await;
        let run_context = self.run_context(run).await?;
        let busy = self.scheduler.no_busy_agents(&run_context);
        self.spawn_run(run_context, busy);
        Ok(RunStarted { run, instance, agents })
    }

    /// Returns the error for an instance that has a live run, with the state of that run.
    pub(crate) async fn already_running_error(
        &self,
        workflow: WorkflowId,
        instance: InstanceRef,
    ) -> Result<Error> {
        let newest = self.store.run_list(RunQuery::OfInstance(workflow, 1)).await?;
        let is_paused = newest.iter().any(|run| matches!(run.state, RunState::Paused { .. }));
        let kind = if is_paused { Error::AlreadyPaused } else { Error::AlreadyRunning };
        Ok(kind(instance))
    }

    /// Ends the live run of an instance, if there is one.
    async fn stop_live_run(&self, who: &Principal, workflow: WorkflowId) -> Result<()> {
        let newest = self.store.run_list(RunQuery::OfInstance(workflow, 1)).await?;
        let Some(live) = newest.into_iter().find(|run| run.state.is_live()) else { return Ok(()) };
        match self.end_run(who, live.id).await {
            // The run ended on its own meanwhile.
            Ok(_) | Err(Error::RunEnded(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn resume_run(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        run: RunId,
        request: ResumeRequest,
    ) -> Result<RunView> {
        let row = self.require_run(who, run).await?;
        let continues = request == ResumeRequest::default() && row.state.can_work();
        if self.scheduler.hold.is_held() && continues {
            self.end_hold(who).await;
            return self.current_run_view(run).await;
        }
        let limits = Limits {
            hops: request.hops.unwrap_or(row.limits.hops),
            turns: request.turns.or(row.limits.turns),
            wall: request.wall.or(row.limits.wall),
            wall_grace: row.limits.wall_grace,
            spend: SpendLimits {
                cost_micros: request.cost_micros.or(row.limits.spend.cost_micros),
                tokens: request.tokens.or(row.limits.spend.tokens),
            },
        };
        let now = self.now();
        match &row.state {
            RunState::Paused { cause } => {
                let outlook = self.limit_outlook(&row, &limits).await?;
                if !outlook.needs.is_empty() {
                    let cause = Box::new(outlook.cause(cause.clone()));
                    let (instance, mode, needs) = (row.instance, row.mode, Box::new(outlook.needs));
                    return Err(Error::StillLimited { instance, cause, mode, needs });
                }
            }
            // This very call may have resumed the run: the store knows its key.
            _ if key.is_some() => {}
            RunState::Ended { .. } => return Err(Error::RunEnded(row.instance)),
            RunState::Setup | RunState::Electing | RunState::Running => {
                return Err(Error::NotPaused(row.instance));
            }
        }
        let resumed = self.store.run_resume(who.author_with_key(key)?, run, limits, now).await;
        self.run_context_evict(run);
        match resumed {
            Ok(()) => {
                self.end_hold(who).await;
                self.current_run_view(run).await
            }
            Err(StoreError::NoRun) => Err(Error::RunEnded(row.instance)),
            Err(StoreError::WrongRunState(_)) => Err(Error::NotPaused(row.instance)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Refuses a file that uses variables which `env` lacks, with their places in the file.
async fn require_env(
    mut file: RunFile,
    env: BTreeMap<String, String>,
) -> Result<(RunFile, BTreeMap<String, String>)> {
    let check = move || match file.unset_env(&env) {
        Some(error) => Err(error.into()),
        None => Ok((file, env)),
    };
    tokio::task::spawn_blocking(check).await.map_err(interrupted_read)?
}

/// Returns the files of the command that notifies the user, and the workflow and the folder of the run.
async fn find_notify_files(
    plan: Option<NotifyPlan>,
    workflow: Workflow,
    cwd: PathBuf,
) -> Result<(Workflow, PathBuf, Vec<PathBuf>)> {
    let find = move || {
        let files = plan.map(|plan| notify_files::notify_files(&plan, &workflow, &cwd));
        Ok((workflow, cwd, files.transpose()?.unwrap_or_default()))
    };
    tokio::task::spawn_blocking(find).await.map_err(interrupted_read)?
}

fn interrupted_read(_: tokio::task::JoinError) -> Error {
    Error::BadRequest("reading the file was interrupted".into())
}

async fn open_file(
    who: &Principal,
    request: RunFileRequest,
    defaults: Arc<RunDefaults>,
) -> Result<RunFile> {
    let who = who.clone();
    let opened = move || run_paths::open_run_file(&who, &request, &defaults);
    tokio::task::spawn_blocking(opened).await.map_err(interrupted_read)?
}

fn new_run(
    id: agent_worker_protocol::RunId,
    mode: agent_worker_protocol::RunMode,
    script: &RunScript,
) -> Result<NewRun> {
    let json = |error: serde_json::Error| {
        Error::Store(agent_worker_store::Error::InvalidValue(format!("run script: {error}")))
    };
    let workflow = &script.workflow;
    let agents = workflow.agents.iter().map(|agent| {
        let settings = serde_json::to_string(agent).map_err(json)?;
        Ok(NewAgent { name: agent.name.clone(), settings })
    });
    Ok(NewRun {
        id,
        mode,
        limits: workflow.limits.for_mode(mode),
        agents: agents.collect::<Result<_>>()?,
        roles: initial_roles(workflow),
        retention: match workflow.context.provider {
            Provider::Memory => Retention::WhileLive,
            Provider::Sqlite | Provider::File | Provider::Off => Retention::Always,
        },
        script: serde_json::to_string(script).map_err(json)?,
    })
}

/// Returns the roles that the file assigns.
fn initial_roles(workflow: &Workflow) -> Vec<(Role, AgentName)> {
    let owner = match &workflow.context.document_owner {
        DocumentOwner::Agent(name) => Some((Role::DocumentOwner, name.clone())),
        DocumentOwner::Everybody | DocumentOwner::Elect => None,
    };
    let finisher = workflow.finisher.as_ref().map(|name| (Role::Finisher, name.clone()));
    owner.into_iter().chain(finisher).collect()
}
