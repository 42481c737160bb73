//! What a person does with an agent of a live run: stopping it, waking it again, taking it out.

use std::collections::BTreeMap;

use agent_worker_protocol::{
    AgentName, Permission, RunId,
    api::{AgentStopped, AgentView},
};
use agent_worker_store::{Error as StoreError, Instance};

use crate::{
    error::{Error, Result},
    kernel::{Kernel, Principal},
    place::Place,
    policy::Ordered,
    scheduler::shutdown::Whose,
};

/// Whether somebody wants to wait until processes have ended by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Haste {
    None,
    Great,
}

impl Kernel {
    /// Wakes an agent no more and ends its worker; answers when every process of it is gone. Carried out even if whoever
    /// asked goes away.
    pub async fn agent_stop(&self, who: &Principal, place: &Place) -> Result<AgentStopped> {
        self.stop_agent(who, place, Haste::None).await
    }

    /// The same for somebody who does not want to wait: its processes get no time to end by themselves, also where they are
    /// being ended already.
    pub async fn agent_stop_now(&self, who: &Principal, place: &Place) -> Result<AgentStopped> {
        self.stop_agent(who, place, Haste::Great).await
    }

    async fn stop_agent(
        &self,
        who: &Principal,
        place: &Place,
        haste: Haste,
    ) -> Result<AgentStopped> {
        who.require(Permission::Agents)?;
        let (kernel, who, place) = (self.clone(), who.clone(), place.clone());
        self.scheduler
            .carry(async move {
                let (instance, _, agent) = kernel.member(&who, &place).await?;
                kernel.end_agent(&who, &instance, &agent, haste).await
            })
            .await
    }

    /// Takes an agent out of its run, its processes and its open mail with it.
    pub async fn agent_remove(&self, who: &Principal, place: &Place) -> Result<AgentStopped> {
        who.require(Permission::Agents)?;
        let (kernel, who, place) = (self.clone(), who.clone(), place.clone());
        self.scheduler.carry(async move { kernel.take_out(&who, &place).await }).await
    }

    /// Wakes a stopped agent again; one that waits after a failure is tried at once.
    pub async fn agent_resume(&self, who: &Principal, place: &Place) -> Result<AgentView> {
        who.require(Permission::Agents)?;
        let (instance, run, agent) = self.member(who, place).await?;
        let now = self.now();
        self.store.agent_resume(who.by(None)?, instance.id, agent.clone(), now).await?;
        self.one_agent(run, &agent).await
    }

    async fn take_out(&self, who: &Principal, place: &Place) -> Result<AgentStopped> {
        let (instance, run, agent) = self.member(who, place).await?;
        let stopped = self.end_agent(who, &instance, &agent, Haste::None).await?;
        let _alone = self.roster.acquire().await;
        let now = self.now();
        let gone = self.store.agent_remove(who.by(None)?, instance.id, agent.clone(), now).await;
        self.card_drop(run);
        match gone {
            Ok(()) if instance.instance.is_global() => {
                if let Err(error) = self.env_keep(run, &agent, BTreeMap::new()).await {
                    tracing::error!(%agent, %error, "the environment of an agent that left is still kept");
                }
            }
            // Or it was the last who had anything to do, and its run is over.
            Ok(()) | Err(StoreError::NoRun) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(stopped)
    }

    /// The agent a target names, its instance and its live run.
    async fn member(&self, who: &Principal, place: &Place) -> Result<(Instance, RunId, AgentName)> {
        let (instance, agent) = self.agent_meant(who, place).await?;
        match instance.live {
            Some(run) => Ok((instance, run, agent)),
            None => Err(Error::NoRun(instance.instance)),
        }
    }

    /// The agent a target names, and its instance.
    pub(crate) async fn agent_meant(
        &self,
        who: &Principal,
        place: &Place,
    ) -> Result<(Instance, AgentName)> {
        let named = place.target.as_ref().and_then(|target| target.agent.clone());
        let agent = named.ok_or_else(|| {
            Error::BadRequest("name an agent: agent or agent@workflow:tag".into())
        })?;
        let instance = self.instance_of(who, place).await?;
        let rows = self.store.agent_list(instance.id).await?;
        match rows.into_iter().find(|row| row.name == agent) {
            Some(row) => Ok((instance, row.name)),
            None => Err(Error::NoInstance(format!("agent `{agent}` in @{}", instance.instance))),
        }
    }

    async fn end_agent(
        &self,
        who: &Principal,
        instance: &Instance,
        agent: &AgentName,
        haste: Haste,
    ) -> Result<AgentStopped> {
        let (by, now) = (who.by(None)?, self.now());
        let why = format!("stopped by {}", who.called());
        self.store.agent_stop(by, instance.id, agent.clone(), why, now).await?;
        // Whoever was leased before that has a leash by now; after it nobody is.
        let whose = Whose::Agent(instance.id, agent.clone());
        if haste == Haste::Great {
            self.hurry_workers(&whose);
        }
        let (_, processes) = self.end_workers(&whose, Ordered::Stopped).await;
        let (agent, instance) = (agent.clone(), instance.instance.clone());
        Ok(AgentStopped { agent, instance, processes })
    }
}
