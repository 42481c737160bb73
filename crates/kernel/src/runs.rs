//! How a run begins: the file is read, checked and copied, its instance is found or made.

use std::path::{Path, PathBuf};

use agent_worker_protocol::{
    EffectKey, InstanceRef, Limits, Permission, Role, RunId, RunState, WorkflowId,
    api::{ResumeRequest, RunRequest, RunStarted, RunView},
};
use agent_worker_store::{Error as StoreError, Keep, NewAgent, NewRun, RunQuery};
use agent_worker_workflow::{DocumentOwner, Provider, Workflow};

use crate::{
    error::{Error, Result},
    idle,
    kernel::{Kernel, Principal, Script},
    limits,
    scheduler::tend::Busy,
};

impl Kernel {
    /// Makes a run and begins its setup. From here on it is durable. Carried out even if whoever asked goes away.
    pub async fn run_new(&self, who: &Principal, request: RunRequest) -> Result<RunStarted> {
        who.require(Permission::Run)?;
        let (kernel, who) = (self.clone(), who.clone());
        self.scheduler.carry(async move { kernel.make_run(&who, request).await }).await
    }

    async fn make_run(&self, who: &Principal, request: RunRequest) -> Result<RunStarted> {
        if self.is_draining() {
            return Err(Error::Draining);
        }
        if !request.file.is_absolute() || !request.cwd.is_absolute() {
            return Err(Error::BadRequest("`file` and `cwd` must be absolute paths".into()));
        }
        let folder = request.file.parent().unwrap_or(Path::new("/"));
        let project = folder.to_string_lossy().into_owned();
        let workflow = match read(&request.file).await {
            Ok(workflow) => workflow,
            // What a file says is told only to those whose it is.
            Err(_) if !who.reaches_all_of(&project) => return Err(no_file(&request.file)),
            Err(error) => return Err(error),
        };
        let tag = request.tag.unwrap_or_default();
        let instance = InstanceRef { name: workflow.name.clone(), tag: tag.clone() };
        if !who.reaches(&project, &instance) {
            return Err(no_file(&request.file));
        }
        // Wrong parameters are told now, not after the run exists.
        workflow.scope(&request.params, &request.env, &tag, folder)?;
        let database = workflow.context.layout.database(&workflow.name, &tag);
        let database = database.map(|names| folder.join(names.iter().collect::<PathBuf>()));
        let id = match database {
            Some(file) => self.store.instance_open_in(file, project, instance.clone()).await?,
            None => self.store.instance_open(project, instance.clone()).await?,
        };
        if request.replace {
            self.stop_live(who, id).await?;
        }
        let (mode, now) = (request.mode, self.now());
        let run = self.dice.run(now.wall)?;
        let agents = workflow.agents.iter().map(|agent| agent.name.clone()).collect();
        let file = Some(request.file);
        let script = Script { file, workflow, tag, params: request.params, cwd: request.cwd };
        let new = new_run(run, mode, &script)?;
        self.runner.run_open(run, request.env).await.map_err(Error::Folder)?;
        if let Err(error) = self.store.run_create(id, new, now).await {
            self.runner.run_close(run).await;
            return Err(match error {
                StoreError::RunLive(_) => Error::Running(instance),
                other => other.into(),
            });
        }
        let card = self.card(run).await?;
        self.begin_run(card, Busy::new(self.scheduler.options.workers_per_instance));
        Ok(RunStarted { run, instance, agents })
    }

    /// Ends whatever run holds an instance.
    async fn stop_live(&self, who: &Principal, workflow: WorkflowId) -> Result<()> {
        let newest = self.store.run_list(RunQuery::Of(workflow, 1)).await?;
        let Some(live) = newest.into_iter().find(|run| run.state.is_live()) else { return Ok(()) };
        match self.end_run(who, live.id).await {
            // It ended by itself meanwhile.
            Ok(_) | Err(Error::Store(StoreError::NoRun)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Leases nothing more in a run until it is resumed; live turns finish.
    pub async fn run_pause(&self, who: &Principal, run: RunId) -> Result<RunView> {
        who.require(Permission::Run)?;
        let row = self.run_known(who, run).await?;
        self.store.run_settle(run, Box::new(idle::pause), self.now()).await?;
        // Who may pause it is told how it stands then, whatever else they may.
        let view = self.view(run).await?;
        match view.state {
            RunState::Paused { .. } => Ok(view),
            RunState::Ended { .. } => Err(Error::NoRun(row.instance)),
            RunState::Setup | RunState::Electing | RunState::Running => {
                Err(Error::NotRunning(row.instance))
            }
        }
    }

    /// Lets a paused run go on, with what `request` gives it more of. Carried out even if whoever asked goes away.
    pub async fn run_resume(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        run: RunId,
        request: ResumeRequest,
    ) -> Result<RunView> {
        who.require(Permission::Run)?;
        if request != ResumeRequest::default() {
            who.require(Permission::Limits)?;
        }
        let (kernel, who) = (self.clone(), who.clone());
        self.scheduler.carry(async move { kernel.go_on(&who, key, run, request).await }).await
    }

    async fn go_on(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        run: RunId,
        request: ResumeRequest,
    ) -> Result<RunView> {
        let row = self.run_known(who, run).await?;
        let limits = Limits {
            hops: request.hops.unwrap_or(row.limits.hops),
            turns: request.turns.or(row.limits.turns),
            wall: request.wall.or(row.limits.wall),
        };
        let now = self.now();
        match &row.state {
            RunState::Paused { cause } => {
                let agents = self.store.agent_list(row.workflow).await?;
                let today = self.turns_today(&row).await?;
                if let Some(needs) = limits::still_limited(&row, &agents, today, &limits, now.store)
                {
                    let (instance, cause, mode) = (row.instance, cause.clone(), row.mode);
                    return Err(Error::StillLimited { instance, cause, mode, needs });
                }
            }
            // It may be this very call that let it go on: the store knows its key.
            _ if key.is_some() => {}
            RunState::Setup | RunState::Electing | RunState::Running | RunState::Ended { .. } => {
                return Err(Error::NotPaused(row.instance));
            }
        }
        let resumed = self.store.run_resume(who.by(key)?, run, limits, now).await;
        self.card_drop(run);
        match resumed {
            Ok(()) => self.view(run).await,
            Err(StoreError::WrongRunState(_) | StoreError::NoRun) => {
                Err(Error::NotPaused(row.instance))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn no_file(file: &Path) -> Error {
    Error::NoInstance(format!("workflow file {} for you", file.display()))
}

async fn read(file: &Path) -> Result<Workflow> {
    let file = file.to_owned();
    let loaded = tokio::task::spawn_blocking(move || agent_worker_workflow::load(&file)).await;
    match loaded {
        Ok(workflow) => Ok(workflow?),
        Err(_) => Err(Error::BadRequest("reading the file was cut short".into())),
    }
}

fn new_run(
    id: agent_worker_protocol::RunId,
    mode: agent_worker_protocol::RunMode,
    script: &Script,
) -> Result<NewRun> {
    let json = |error: serde_json::Error| {
        Error::Store(agent_worker_store::Error::Garbled(format!("run script: {error}")))
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
        roles: match &workflow.context.document_owner {
            DocumentOwner::Agent(name) => vec![(Role::DocumentOwner, name.clone())],
            DocumentOwner::Everybody | DocumentOwner::Elect => Vec::new(),
        },
        keep: match workflow.context.provider {
            Provider::Memory => Keep::WhileLive,
            Provider::Sqlite | Provider::File | Provider::Off => Keep::Always,
        },
        script: serde_json::to_string(script).map_err(json)?,
    })
}
