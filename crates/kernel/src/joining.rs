//! How an agent joins a run that lives: a team's, or the one where standalone agents are.

use std::{
    collections::{BTreeMap, HashSet},
    io::ErrorKind,
    path::PathBuf,
};

use agent_worker_protocol::{
    AgentName, AgentSettings, EffectKey, InstanceRef, Limits, Permission, RunId, RunMode, Tag,
    Target,
    api::{AgentRequest, AgentView},
};
use agent_worker_store::{AgentRow, Error as StoreError, Keep, NewAgent, NewRun, RunQuery};
use agent_worker_workflow::{BadDraft, Draft, LimitSettings, Workflow};

use crate::{
    error::{Error, Result},
    kernel::{Kernel, Principal, Script},
    place::Place,
    scheduler::tend::Busy,
};

/// Where standalone agents live. Every folder lies beneath it, so they are near to everybody.
const EVERYWHERE: &str = "/";
const GLOBAL: &str = "global";
/// So many agents are called by a number.
const MOST_NUMBERS: usize = 10_000;

/// What an agent joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joins {
    /// A team.
    Team,
    /// Nobody.
    Alone,
}

impl Kernel {
    /// Lets an agent join an instance's live run; without a target, as a standalone one. Carried out even if whoever
    /// asked goes away.
    pub async fn agent_new(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        request: AgentRequest,
    ) -> Result<AgentView> {
        who.require(Permission::Agents)?;
        let (kernel, who) = (self.clone(), who.clone());
        self.scheduler.carry(async move { kernel.join(&who, key, request).await }).await
    }

    async fn join(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        mut request: AgentRequest,
    ) -> Result<AgentView> {
        if self.is_draining() {
            return Err(Error::Draining);
        }
        let joins = joins(request.target.as_ref())?;
        // What is wrong with it is told now, not after something was made for it.
        let settings = settings(&request, joins)?;
        let _alone = self.roster.acquire().await;
        let run = match joins {
            Joins::Team => {
                let (target, project) = (request.target.take(), request.project.take());
                self.instance(who, &Place { target, project }).await?.1
            }
            Joins::Alone => self.standalone_run(who).await?,
        };
        let card = self.card(run).await?;
        let team = self.store.agent_list(card.workflow).await?;
        let name = match request.name {
            Some(name) => name,
            None => free_name(&team)?,
        };
        // Of one that is there already, or may be, by the same key, nothing is touched.
        if joins == Joins::Alone && !team.iter().any(|agent| agent.name == name) {
            self.env_keep(run, &name, request.env).await?;
        }
        let settings = serde_json::to_string(&AgentSettings { name: name.clone(), ..settings })
            .map_err(|error| StoreError::Garbled(format!("agent: {error}")))?;
        let new = NewAgent { name: name.clone(), settings };
        let added = self.store.agent_add(who.by(key)?, run, new, self.now()).await;
        // Whatever the answer: it may be there.
        self.card_drop(run);
        match added {
            Ok(made) => {
                if joins == Joins::Alone && made != name {
                    // Repeated under its key, it is the one that was made then: nobody has this name.
                    self.env_keep(run, &name, BTreeMap::new()).await?;
                }
                self.one_agent(run, &made).await
            }
            Err(StoreError::Exists(_)) => {
                Err(Error::AgentThere(Target::agent(name, &card.instance)))
            }
            Err(StoreError::NoRun) => {
                // It ended meanwhile, and nothing of it may be left.
                self.runner.run_close(run).await;
                Err(Error::NoRun(card.instance.clone()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps a standalone agent's environment beside the others'; an empty one forgets it.
    pub(crate) async fn env_keep(
        &self,
        run: RunId,
        agent: &AgentName,
        own: BTreeMap<String, String>,
    ) -> Result<()> {
        let mut env = match self.runner.run_env(run).await {
            // It is forgotten with its run: then the store refuses, and says why.
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            env => env.map_err(Error::Folder)?,
        };
        let drawer = drawer(agent);
        env.retain(|name, _| !name.starts_with(&drawer));
        env.extend(own.into_iter().map(|(name, value)| (format!("{drawer}{name}"), value)));
        self.runner.run_open(run, env).await.map_err(Error::Folder)
    }

    /// The one permanent run of standalone agents, made when it is first needed.
    async fn standalone_run(&self, who: &Principal) -> Result<RunId> {
        let name = GLOBAL.parse().map_err(|bad| Error::BadRequest(format!("{bad}")))?;
        let instance = InstanceRef { name, tag: Tag::default() };
        if !who.reaches(EVERYWHERE, &instance) {
            return Err(Error::NoInstance("place for standalone agents".into()));
        }
        let id = self.store.instance_open(EVERYWHERE.to_owned(), instance.clone()).await?;
        let newest = self.store.run_list(RunQuery::Of(id, 1)).await?;
        if let Some(live) = newest.into_iter().find(|run| run.state.is_live()) {
            return Ok(live.id);
        }
        let now = self.now();
        let run = self.dice.run(now.wall)?;
        let script = Script {
            file: None,
            workflow: Workflow::standalone(instance.name),
            tag: instance.tag,
            params: BTreeMap::new(),
            cwd: PathBuf::from(EVERYWHERE),
        };
        let limits: Limits = LimitSettings::default().for_mode(RunMode::Start);
        let script = serde_json::to_string(&script)
            .map_err(|error| StoreError::Garbled(format!("run script: {error}")))?;
        let (mode, keep) = (RunMode::Start, Keep::Always);
        let (agents, roles) = (Vec::new(), Vec::new());
        let new = NewRun { id: run, mode, limits, script, agents, roles, keep };
        self.runner.run_open(run, BTreeMap::new()).await.map_err(Error::Folder)?;
        if let Err(error) = self.store.run_create(id, new, now).await {
            self.runner.run_close(run).await;
            return Err(error.into());
        }
        let card = self.card(run).await?;
        self.begin_run(card, Busy::new(self.scheduler.options.workers_per_instance));
        Ok(run)
    }
}

/// What an agent's worker gets of its run's environment: the run's own values, and over them those kept for the agent.
pub(crate) fn env_of(
    mut env: BTreeMap<String, String>,
    agent: &AgentName,
) -> BTreeMap<String, String> {
    let drawer = drawer(agent);
    let its = |(name, value): (&String, &String)| {
        Some((name.strip_prefix(&drawer)?.to_owned(), value.clone()))
    };
    let own: Vec<(String, String)> = env.iter().filter_map(its).collect();
    env.retain(|name, _| !name.contains('/'));
    env.extend(own);
    env
}

/// What the names of an agent's own values begin with, among those of its run.
fn drawer(agent: &AgentName) -> String {
    format!("{}/", agent.folded())
}

fn joins(target: Option<&Target>) -> Result<Joins> {
    let Some(Target { agent, workflow, tag }) = target else { return Ok(Joins::Alone) };
    match (agent, workflow) {
        (None, Some(name)) => {
            let tag = tag.clone().unwrap_or_default();
            let instance = InstanceRef { name: name.clone(), tag };
            Ok(if instance.is_global() { Joins::Alone } else { Joins::Team })
        }
        (Some(_), _) | (None, None) => Err(Error::BadRequest(
            "the target is what it joins, @workflow or @workflow:tag; its name goes by itself"
                .into(),
        )),
    }
}

/// The agent that is asked for; while it has no name, under that of the first.
fn settings(request: &AgentRequest, joins: Joins) -> Result<AgentSettings> {
    let name = match &request.name {
        Some(name) => name.clone(),
        None => numbered(0)?,
    };
    let cwd = match (joins, &request.cwd) {
        (Joins::Alone, None) => request.project.clone(),
        (_, cwd) => cwd.clone(),
    };
    if joins == Joins::Alone && cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
        return Err(Error::BadRequest("`cwd` must be an absolute path".into()));
    }
    let draft = Draft {
        name,
        backend: request.backend.clone(),
        model: request.model.clone(),
        system_prompt: request.system.clone(),
        mock: request.mock.clone(),
        cwd,
    };
    draft.settings().map_err(|BadDraft { message, hint }| Error::BadAgent { message, hint })
}

fn free_name(team: &[AgentRow]) -> Result<AgentName> {
    let taken: HashSet<&AgentName> = team.iter().map(|agent| &agent.name).collect();
    let numbers = (0..MOST_NUMBERS).map(numbered);
    let mut free = numbers.filter(|name| name.as_ref().is_ok_and(|name| !taken.contains(name)));
    free.next().unwrap_or_else(|| {
        Err(Error::BadRequest("there are too many agents; give it a name".into()))
    })
}

fn numbered(number: usize) -> Result<AgentName> {
    format!("a{number}").parse().map_err(|bad| Error::BadRequest(format!("{bad}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_gets_its_own_values_before_its_runs_and_nobody_elses() {
        let env = [("PATH", "/run"), ("a0/PATH", "/zero"), ("a1/HOME", "/one"), ("TZ", "UTC")];
        let env: BTreeMap<String, String> =
            env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        for (agent, expected) in [
            ("A0", "PATH=/zero TZ=UTC"),
            ("a1", "HOME=/one PATH=/run TZ=UTC"),
            ("a", "PATH=/run TZ=UTC"),
        ] {
            let own = env_of(env.clone(), &agent.parse().unwrap());
            let own: Vec<_> = own.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(own.join(" "), expected, "{agent}");
        }
    }

    #[test]
    fn a_target_names_a_team_and_global_is_none() {
        for (target, expected) in [
            (None, Some(Joins::Alone)),
            (Some("@global"), Some(Joins::Alone)),
            (Some("@global:main"), Some(Joins::Alone)),
            (Some("@review"), Some(Joins::Team)),
            (Some("@review:pr-1"), Some(Joins::Team)),
            (Some("coder"), None),
            (Some("coder@review"), None),
        ] {
            let target: Option<Target> = target.map(|target| target.parse().unwrap());
            assert_eq!(joins(target.as_ref()).ok(), expected, "{target:?}");
        }
    }
}
