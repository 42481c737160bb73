//! Resolves a target as typed to one instance, with as few store queries as possible.

use std::path::PathBuf;

use agent_worker_protocol::{InstanceRef, RunId, Tag, Target, has_parent_component};
use agent_worker_store::{Instance, InstanceQuery};
use agent_worker_workflow::Provider;

use crate::{
    access::target::{self, InstanceChoice},
    error::{Error, Result},
    kernel::{Kernel, Principal},
};

/// Former name of the default tag; accepted for the default tag if no instance has it.
const LEGACY_DEFAULT_TAG: &str = "default";

/// Selects an instance, together with the caller's folder.
#[derive(Clone, Debug, Default)]
pub struct InstanceSelector {
    /// The target as typed. An agent needs none and gets its own instance.
    pub target: Option<Target>,
    /// Folder of the caller.
    pub project: Option<PathBuf>,
}

impl InstanceSelector {
    /// Returns true if it selects nothing in particular.
    pub(crate) fn is_empty(&self) -> bool {
        self.target.is_none() && self.project.is_none()
    }

    /// Returns the caller's folder; refuses a relative path and one with a `..`, which no project's path is.
    pub(crate) fn plain_project(&self) -> Result<Option<String>> {
        match &self.project {
            Some(path) if !path.is_absolute() => {
                Err(Error::BadRequest("`project` must be an absolute path".into()))
            }
            Some(path) if has_parent_component(path) => {
                Err(Error::BadRequest("`project` must be a path without `..`".into()))
            }
            project => Ok(project.as_ref().map(|path| path.to_string_lossy().into_owned())),
        }
    }
}

impl Kernel {
    /// Returns the instance for a write, and its live run.
    pub(crate) async fn live_instance(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
    ) -> Result<(Instance, RunId)> {
        let choice = InstanceChoice::Nearest;
        let instance = self.resolve_instance_for_write(who, selector, choice).await?;
        match instance.live {
            Some(run) => Ok((instance, run)),
            None => Err(Error::NoRun(instance.instance)),
        }
    }

    /// Returns the instance that a caller reads, live or not.
    pub(crate) async fn resolve_instance(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
    ) -> Result<Instance> {
        self.choose_instance(who, selector, InstanceChoice::Nearest).await
    }

    /// Returns the same for an operation that concerns an agent alone, which it also has in a team that shares nothing.
    pub(crate) async fn resolve_own_instance(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
    ) -> Result<Instance> {
        match who {
            Principal::Agent(attempt) => self.agent_instance(attempt.run, selector).await,
            Principal::User | Principal::Client(_) | Principal::Anonymous => {
                self.resolve_instance(who, selector).await
            }
        }
    }

    /// Returns the instance that a caller selects.
    pub(crate) async fn choose_instance(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
        choice: InstanceChoice,
    ) -> Result<Instance> {
        if let Principal::Agent(attempt) = who {
            let run_context = self.run_context(attempt.run).await?;
            if run_context.script.workflow.context.provider == Provider::Off {
                return Err(Error::Forbidden("this workflow shares nothing (`context: false`)"));
            }
            return self.agent_instance(attempt.run, selector).await;
        }
        let project = selector.plain_project()?;
        if let Some(target) = &selector.target {
            let mut candidates = self.target_candidates(target).await?;
            who.retain_reachable(&mut candidates);
            if candidates.is_empty() {
                return Err(self.unknown_target(who, target, project.as_deref()).await?);
            }
            return target::choose_instance(target, project.as_deref(), choice, candidates);
        }
        // Standalone agents belong to no team; callers select them by name.
        let team = |one: &Instance| {
            !one.instance.is_global() && who.can_reach(&one.project, &one.instance)
        };
        let mut known = self.store.instance_list(InstanceQuery::Live).await?;
        known.retain(team);
        if !known.iter().any(|one| target::is_near(one, project.as_deref())) {
            known = self.store.instance_list(InstanceQuery::All).await?;
            known.retain(team);
        }
        target::only_instance(project.as_deref(), choice, known)
    }

    /// Returns the instance for a write; without a target it is never one of another folder.
    pub(crate) async fn resolve_instance_for_write(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
        choice: InstanceChoice,
    ) -> Result<Instance> {
        let instance = self.choose_instance(who, selector, choice).await?;
        let Some(project) = &selector.project else { return Ok(instance) };
        let named = selector.target.is_some() || matches!(who, Principal::Agent(_));
        if named || target::is_near(&instance, Some(&project.to_string_lossy())) {
            return Ok(instance);
        }
        Err(target::no_instance_here())
    }

    /// Returns the instance that a target names near the caller's folder. One of another folder is none: the caller creates
    /// its own.
    pub(crate) async fn resolve_instance_here(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
    ) -> Result<Instance> {
        let choice = InstanceChoice::Nearest;
        let (Some(target), Some(project), Principal::User | Principal::Client(_)) =
            (&selector.target, selector.plain_project()?, who)
        else {
            return self.resolve_instance_for_write(who, selector, choice).await;
        };
        let mut candidates = self.target_candidates(target).await?;
        who.retain_reachable(&mut candidates);
        candidates.retain(|one| target::is_near(one, Some(&project)));
        target::choose_instance(target, Some(&project), choice, candidates)
    }

    /// Returns the candidates of a target, with the narrowest query that finds any.
    async fn target_candidates(&self, target: &Target) -> Result<Vec<Instance>> {
        let list = |which| self.store.instance_list(which);
        let Some(name) = &target.workflow else {
            let Some(agent) = &target.agent else { return Ok(Vec::new()) };
            return Ok(list(InstanceQuery::WithAgent(agent.clone())).await?);
        };
        let named = |tag: &Tag| InstanceRef { name: name.clone(), tag: tag.clone() };
        let tag = target.tag.clone().unwrap_or_default();
        let exactly = list(InstanceQuery::Named(named(&tag))).await?;
        if !exactly.is_empty() {
            return Ok(exactly);
        }
        if tag.as_str() == LEGACY_DEFAULT_TAG {
            return Ok(list(InstanceQuery::Named(named(&Tag::default()))).await?);
        }
        // `alice@pr-123`: before workflows had names, this position held the tag.
        match name.as_str().parse() {
            Ok(tag)
                if target.tag.is_none()
                    && list(InstanceQuery::OfWorkflow(name.clone())).await?.is_empty() =>
            {
                let mut tagged = list(InstanceQuery::Tagged(tag)).await?;
                if tagged.is_empty() && name.as_str() == LEGACY_DEFAULT_TAG {
                    tagged = list(InstanceQuery::Tagged(Tag::default())).await?;
                }
                tagged.retain(|one| !one.instance.is_global());
                Ok(tagged)
            }
            Ok(_) | Err(_) => Ok(Vec::new()),
        }
    }

    async fn agent_instance(&self, run: RunId, selector: &InstanceSelector) -> Result<Instance> {
        let run_context = self.run_context(run).await?;
        let elsewhere = selector.target.as_ref().is_some_and(|target| {
            target.workflow.as_ref().is_some_and(|name| *name != run_context.instance.name)
                || target.tag.as_ref().is_some_and(|tag| *tag != run_context.instance.tag)
        });
        if elsewhere {
            return Err(Error::Forbidden("an agent may send and read only in its own instance"));
        }
        Ok(Instance {
            id: run_context.workflow,
            project: run_context.project.clone(),
            instance: run_context.instance.clone(),
            live: Some(run),
            last: Some(run),
        })
    }
}
