//! Actions of a person on an agent of a live run: stop, interrupt, resume, remove.

use std::collections::BTreeMap;

use agent_worker_protocol::{
    AgentName, Permission, RunId,
    api::{AgentInterrupted, AgentStopped, AgentView},
};
use agent_worker_store::{Error as StoreError, Instance};

use crate::{
    access::{
        instance_resolution::InstanceSelector, target::InstanceChoice,
        target_suggestion::unknown_member,
    },
    error::{Error, Result},
    kernel::{Kernel, Principal},
    scheduling::retry_policy::WorkerStopReason,
    scheduling::shutdown::WorkerSelector,
};

/// Selects whether processes get their grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopUrgency {
    Graceful,
    Immediate,
}

/// Adds, stops, resumes and shows agents.
#[derive(Clone, Copy)]
pub struct Agents<'k>(pub(crate) &'k Kernel);

impl Agents<'_> {
    /// Stops an agent and ends its worker; returns after every process of the agent has ended. Completes even if
    /// the caller disconnects.
    pub async fn stop(self, who: &Principal, selector: &InstanceSelector) -> Result<AgentStopped> {
        self.0.stop_agent(who, selector, StopUrgency::Graceful).await
    }

    /// Stops an agent immediately: its processes get no grace period, even if they are already being ended.
    pub async fn stop_now(
        self,
        who: &Principal,
        selector: &InstanceSelector,
    ) -> Result<AgentStopped> {
        self.0.stop_agent(who, selector, StopUrgency::Immediate).await
    }

    /// Ends the current turn of an agent. Its messages are pending again without blame and start its next turn.
    /// Completes even if the caller disconnects.
    pub async fn interrupt(
        self,
        who: &Principal,
        selector: &InstanceSelector,
    ) -> Result<AgentInterrupted> {
        who.require(Permission::Agents)?;
        let (kernel, who, selector) = (self.0.clone(), who.clone(), selector.clone());
        self.0
            .scheduler
            .run_to_completion(async move { kernel.interrupt_agent(&who, &selector).await })
            .await
    }

    /// Removes an agent from its run, with its processes and its pending deliveries.
    pub async fn remove(
        self,
        who: &Principal,
        selector: &InstanceSelector,
    ) -> Result<AgentStopped> {
        who.require(Permission::Agents)?;
        let (kernel, who, selector) = (self.0.clone(), who.clone(), selector.clone());
        self.0
            .scheduler
            .run_to_completion(async move { kernel.remove_agent(&who, &selector).await })
            .await
    }

    /// Resumes a stopped agent; ends the backoff of a waiting one.
    pub async fn resume(self, who: &Principal, selector: &InstanceSelector) -> Result<AgentView> {
        who.require(Permission::Agents)?;
        let (instance, run, agent) = self.0.resolve_member(who, selector).await?;
        let now = self.0.now();
        self.0
            .store
            .agent_resume(who.author_with_key(None)?, instance.id, agent.clone(), now)
            .await?;
        self.0.end_hold(who).await;
        self.0.agent_view(run, &agent).await
    }
}

impl Kernel {
    async fn stop_agent(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
        haste: StopUrgency,
    ) -> Result<AgentStopped> {
        who.require(Permission::Agents)?;
        let (kernel, who, selector) = (self.clone(), who.clone(), selector.clone());
        self.scheduler
            .run_to_completion(async move {
                let (instance, _, agent) = kernel.resolve_member(&who, &selector).await?;
                kernel.end_agent(&who, &instance, &agent, haste).await
            })
            .await
    }

    async fn interrupt_agent(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
    ) -> Result<AgentInterrupted> {
        let (instance, run, agent) = self.resolve_member(who, selector).await?;
        let by = who.sender()?.to_string();
        let running = self.scheduler.attempt_of(run, &agent);
        let instance = instance.instance;
        let mut reply =
            AgentInterrupted { agent, instance, attempt: None, ended: None, processes: 0 };
        let Some((attempt, worker)) = running else { return Ok(reply) };
        worker.request_stop(WorkerStopReason::Interrupted(by));
        reply.processes = self.wait_worker_stopped(&worker).await;
        match self.store.attempt_get(attempt).await {
            Ok(row) => (reply.attempt, reply.ended) = (Some(attempt), row.ended),
            // The worker's lease had found no work.
            Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(reply)
    }

    async fn remove_agent(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
    ) -> Result<AgentStopped> {
        let (instance, run, agent) = self.resolve_member(who, selector).await?;
        let has_own_env = self.run_context(run).await?.script.file.is_none();
        let stopped = self.end_agent(who, &instance, &agent, StopUrgency::Graceful).await?;
        let _alone = self.membership_lock.acquire().await;
        let now = self.now();
        let gone = self
            .store
            .agent_remove(who.author_with_key(None)?, instance.id, agent.clone(), now)
            .await;
        self.run_context_evict(run);
        match gone {
            Ok(()) if has_own_env => {
                if let Err(error) = self.agent_env_save(run, &agent, BTreeMap::new()).await {
                    tracing::error!(%agent, %error, "could not delete the environment of an agent that left");
                }
            }
            // Or the agent was the last one with work, and its run has ended.
            Ok(()) | Err(StoreError::NoRun) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(stopped)
    }

    /// Returns the agent of a target, with its instance and its live run.
    pub(crate) async fn resolve_member(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
    ) -> Result<(Instance, RunId, AgentName)> {
        let (instance, agent) = self.resolve_agent(who, selector, InstanceChoice::Nearest).await?;
        match instance.live {
            Some(run) => Ok((instance, run, agent)),
            None => Err(Error::NoRun(instance.instance)),
        }
    }

    /// Returns the agent of a target, and its instance.
    pub(crate) async fn resolve_agent(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
        choice: InstanceChoice,
    ) -> Result<(Instance, AgentName)> {
        let named = selector.target.as_ref().and_then(|target| target.agent.clone());
        let agent = named.ok_or_else(|| {
            Error::BadRequest("name an agent: agent or agent@workflow:tag".into())
        })?;
        let instance = self.choose_instance(who, selector, choice).await?;
        let rows = self.store.agent_list(instance.id).await?;
        match rows.iter().find(|row| row.name == agent) {
            Some(row) => Ok((instance, row.name.clone())),
            None => {
                Err(unknown_member(&agent, &instance.instance, rows.iter().map(|row| &row.name)))
            }
        }
    }

    async fn end_agent(
        &self,
        who: &Principal,
        instance: &Instance,
        agent: &AgentName,
        haste: StopUrgency,
    ) -> Result<AgentStopped> {
        let (by, now) = (who.author_with_key(None)?, self.now());
        let why = format!("stopped by {}", who.display_name());
        self.store.agent_stop(by, instance.id, agent.clone(), why, now).await?;
        // The handle of every earlier lease is registered by now, and no further attempt is leased.
        let whose = WorkerSelector::Agent(instance.id, agent.clone());
        if haste == StopUrgency::Immediate {
            self.skip_workers_grace(&whose);
        }
        let (_, processes) = self.end_workers(&whose, WorkerStopReason::Stopped).await;
        let (agent, instance) = (agent.clone(), instance.instance.clone());
        Ok(AgentStopped { agent, instance, processes })
    }
}
