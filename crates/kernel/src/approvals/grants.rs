//! Grants: the calls that a person allows an agent for the rest of its run.
//!
//! A grant decides only about calls that would ask: after the rules of the file, so that `deny` has priority. A call
//! with shell syntax or with a path outside of the agent's folder always asks.

use agent_worker_protocol::{
    AgentSettings, ApprovalId, Consent, ConsentScope, EffectKey, GrantId, Permission, ToolPattern,
    api::{ConsentRequest, GivenGrant, GrantView, ListPage, RevokeRequest},
};
use agent_worker_store::{
    Approval, ApprovalDecision, ApprovalQuery, Error as StoreError, GrantQuery, Instance,
    NewApproval, NewGrant, PermissionGrant,
};

use crate::{
    access::instance_resolution::InstanceSelector,
    approvals::{
        Approvals,
        permissions::{
            Call, PathContext, anchored_pattern, exact_pattern, grant_covers, once_only,
        },
    },
    error::{Error, Result},
    kernel::{AgentPrincipal, Kernel, Principal, RunContext},
    views::{ListingScope, page::PageRequest},
};

impl Approvals<'_> {
    /// Lists the grants in force.
    pub async fn grants(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        scope: ListingScope,
        page: &PageRequest,
    ) -> Result<ListPage<GrantView>> {
        let mut page = page.start("grants")?;
        for instance in self.0.instances_in_scope(who, selector, scope).await? {
            if page.is_complete() {
                break;
            }
            for grant in self.0.store.grant_list(instance.id, GrantQuery::InForce).await? {
                page.push((instance.id, grant.id), grant_view(&instance, grant));
            }
        }
        page.finish()
    }

    /// Revokes a grant: its agent asks again. Calls that it allowed before are not affected.
    pub async fn revoke_grant(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        id: GrantId,
        request: RevokeRequest,
    ) -> Result<GrantView> {
        if let Principal::Agent(_) = who {
            return Err(Error::Forbidden("only a person may revoke a grant"));
        }
        who.require(Permission::Approve)?;
        let selector = InstanceSelector { target: request.target, project: request.project };
        let (instance, _) = self.0.live_instance(who, &selector).await?;
        let mut found = self.0.store.grant_list(instance.id, GrantQuery::One(id)).await?;
        let missing = || Error::missing(format!("grant #{id} in force"), &instance.instance);
        let grant = found.pop().ok_or_else(missing)?;
        let (by, now) = (who.author_with_key(key)?, self.0.now());
        match self.0.store.grant_revoke(by, instance.id, id, now).await {
            Ok(_) => Ok(grant_view(&instance, grant)),
            Err(StoreError::NotFound(_)) => Err(missing()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the decision that a request for an answer makes.
    pub(super) async fn decision(
        self,
        instance: &Instance,
        asked: &Approval,
        consent: Consent,
        request: &ConsentRequest,
    ) -> Result<ApprovalDecision> {
        match (consent, request.scope, &request.pattern) {
            (Consent::Approved, ConsentScope::Call, None) => Ok(ApprovalDecision::ApproveCall),
            (Consent::Denied, ConsentScope::Call, None) => Ok(ApprovalDecision::Deny),
            (Consent::Approved | Consent::Denied, ConsentScope::Call, Some(_)) => Err(
                Error::BadRequest("a pattern has a meaning only in an approval for the run".into()),
            ),
            (Consent::Denied, ConsentScope::Run, _) => Err(Error::BadRequest(
                "a request is denied for one call; a `deny` rule of the workflow file denies more"
                    .into(),
            )),
            // The store has the answer: a repeated request returns it, another one is refused.
            (Consent::Approved, ConsentScope::Run, _) if asked.answer.is_some() => {
                Ok(ApprovalDecision::ApproveCall)
            }
            (Consent::Approved, ConsentScope::Run, pattern) => {
                let grant = self.0.new_grant(instance, asked, pattern.as_ref()).await?;
                Ok(ApprovalDecision::ApproveForRun(grant))
            }
        }
    }

    /// Returns the grant that the answer to a request made, if it is in force.
    pub(super) async fn given_grant(
        self,
        instance: &Instance,
        id: ApprovalId,
    ) -> Result<Option<GivenGrant>> {
        let grants = self.0.store.grant_list(instance.id, GrantQuery::InForce).await?;
        let given = grants.into_iter().find(|grant| grant.approval == id);
        Ok(given.map(|PermissionGrant { id, pattern, .. }| GivenGrant { id, pattern }))
    }
}

impl Kernel {
    /// Returns the grant that an approval for the run makes.
    async fn new_grant(
        &self,
        instance: &Instance,
        asked: &Approval,
        wanted: Option<&ToolPattern>,
    ) -> Result<NewGrant> {
        let run_context = self.run_context(asked.run).await?;
        let settings = run_context.agent(&asked.agent)?;
        let cause =
            self.in_path_context(&run_context, settings, |here| once_only(call_of(asked), here));
        if let Some(cause) = cause {
            return Err(Error::OnceOnly { approval: asked.id, cause });
        }
        let pattern = self.in_path_context(&run_context, settings, |here| match wanted {
            None => exact_pattern(call_of(asked), here).ok_or_else(|| Error::NoExactPattern {
                approval: asked.id,
                tool: asked.tool.clone(),
            }),
            Some(wanted) => anchored_pattern(wanted, call_of(asked), here).ok_or_else(|| {
                let message =
                    format!("`{wanted}` does not cover the call of request #{}", asked.id);
                Error::BadRequest(message)
            }),
        })?;
        let mut open = self.store.approval_list(instance.id, ApprovalQuery::Open).await?;
        open.retain(|other| {
            other.id != asked.id && other.agent == asked.agent && other.run == asked.run
        });
        let covers = self.in_path_context(&run_context, settings, |here| {
            let is_covered = |other: &&Approval| grant_covers(&pattern, call_of(other), here);
            open.iter().filter(is_covered).map(|other| other.id).collect()
        });
        Ok(NewGrant { pattern, covers })
    }

    /// Returns a grant in force that covers a call of an agent.
    pub(super) async fn covering_grant(
        &self,
        run_context: &RunContext,
        agent: &AgentPrincipal,
        new: &NewApproval,
    ) -> Result<Option<GrantId>> {
        let mut grants = self.store.grant_list(run_context.workflow, GrantQuery::InForce).await?;
        grants.retain(|grant| grant.agent == agent.fence.agent && grant.run == run_context.run);
        if grants.is_empty() {
            return Ok(None);
        }
        let settings = run_context.agent(&agent.fence.agent)?;
        let call = Call { tool: &new.tool, args: &new.args };
        Ok(self.in_path_context(run_context, settings, |here| {
            grants.iter().find(|grant| grant_covers(&grant.pattern, call, here)).map(|it| it.id)
        }))
    }

    /// Returns the pattern that names exactly the call of a request, for its agent's working folder.
    pub(super) async fn exact_pattern_of(&self, asked: &Approval) -> Option<ToolPattern> {
        let run_context = self.run_context(asked.run).await.ok()?;
        let settings = run_context.agent(&asked.agent).ok()?;
        self.in_path_context(&run_context, settings, |here| exact_pattern(call_of(asked), here))
    }

    /// Calls a pure function with the location of an agent.
    pub(super) fn in_path_context<T>(
        &self,
        run_context: &RunContext,
        settings: &AgentSettings,
        function: impl FnOnce(&PathContext<'_>) -> T,
    ) -> T {
        function(&PathContext {
            cwd: &run_context.cwd_of(settings),
            workflow_file: run_context.script.file.as_deref(),
            resolve_link: &|path| self.runner.link_target(path),
        })
    }
}

fn call_of(asked: &Approval) -> Call<'_> {
    Call { tool: &asked.tool, args: &asked.args }
}

fn grant_view(instance: &Instance, grant: PermissionGrant) -> GrantView {
    let PermissionGrant { id, run, agent, pattern, approval, by, granted } = grant;
    let (instance, project) = (instance.instance.clone(), instance.project.clone().into());
    let by = by.to_string();
    GrantView { instance, project, id, run, agent, pattern, approval, by, granted }
}
