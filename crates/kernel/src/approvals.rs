//! Approval of calls. The attempt that asks waits; a person answers, and the answer is used once.

pub(crate) mod attention;
mod grants;
pub(crate) mod notices;
pub(crate) mod permissions;
pub(crate) mod presence;
pub(crate) mod questions;

use std::time::Duration;

use agent_worker_protocol::{
    ApprovalId, AttemptId, Consent, ConsentScope, EffectKey, OnAsk, Permission, PermissionAction,
    Sender,
    api::{ApprovalView, ConsentRequest, ListPage, PermitReply, PermitRequest},
};
use agent_worker_store::{
    Approval, ApprovalAnswer, ApprovalDecision, ApprovalQuery, ChangeCursor, Error as StoreError,
    Instance, NewApproval, WriteContext,
};
use tokio::time::Instant;

use crate::{
    access::instance_resolution::InstanceSelector,
    approvals::permissions::{PathContext, denial_reason, stance},
    error::{Error, Result},
    kernel::{AgentPrincipal, Kernel, Principal, RunContext},
    messaging::size_limits,
    views::{ListingScope, page::PageRequest},
};

/// Maximum size of arguments that are shown to a person.
const MAX_ARGUMENT_BYTES: usize = 1024 * 1024;
const MAX_REASON_BYTES: usize = 8 * 1024;
const MAX_CALL_NAME_BYTES: usize = 200;
/// Time for which a worker's request waits before the worker must ask again.
const APPROVAL_POLL_TIMEOUT: Duration = Duration::from_secs(40);
/// Grace period for a person to appear before the request counts as unattended.
const PRESENCE_GRACE: Duration = Duration::from_secs(5);
const NO_APPROVER: &str = "no person is present to approve it";

/// Decides requests for approval.
#[derive(Clone, Copy)]
pub struct Approvals<'k>(pub(crate) &'k Kernel);

impl Approvals<'_> {
    /// Decides whether a call of an attempt may happen, and waits for the decision.
    pub async fn permit_call(
        self,
        who: &Principal,
        attempt: AttemptId,
        request: PermitRequest,
    ) -> Result<PermitReply> {
        let agent = who.require_own_attempt(attempt)?;
        self.0.live_state.record_report(attempt);
        size_limits::check("the name of a call", request.call.len(), MAX_CALL_NAME_BYTES)?;
        let run_context = self.0.run_context(agent.run).await?;
        let settings = run_context.agent(&agent.fence.agent)?;
        let rules = &settings.permissions;
        let PermitRequest { call, tool, args } = request;
        let decide = |here: &PathContext<'_>| match stance(rules, &tool, &args, here) {
            PermissionAction::Deny => Err(denial_reason(rules, &tool, &args, here)),
            action => Ok(action),
        };
        let stance = self.0.in_path_context(&run_context, settings, decide);
        match stance {
            Err(why) => Ok(PermitReply::Deny { why }),
            Ok(PermissionAction::Allow) => Ok(PermitReply::Allow),
            Ok(PermissionAction::Ask | PermissionAction::Deny) => {
                size_limits::check(
                    "the call's arguments",
                    args.to_string().len(),
                    MAX_ARGUMENT_BYTES,
                )?;
                let new = NewApproval { call, tool, args, on_ask: rules.on_ask, grant: None };
                self.0.wait_for_approval(&run_context, agent, new).await
            }
        }
    }

    /// Approves or denies the request of an agent.
    pub async fn answer(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        id: ApprovalId,
        consent: Consent,
        request: ConsentRequest,
    ) -> Result<ApprovalView> {
        if let Principal::Agent(_) = who {
            return Err(Error::Forbidden("only a person may answer an approval request"));
        }
        who.require(Permission::Approve)?;
        let selector =
            InstanceSelector { target: request.target.clone(), project: request.project.clone() };
        let (instance, _) = self.0.live_instance(who, &selector).await?;
        let asked = self.0.store.approval_list(instance.id, ApprovalQuery::One(id)).await?.pop();
        let missing = || Error::missing(format!("approval request #{id}"), &instance.instance);
        let asked = asked.ok_or_else(missing)?;
        let decision = self.decision(&instance, &asked, consent, &request).await?;
        let reason = request.reason.filter(|reason| !reason.trim().is_empty());
        size_limits::check("a reason", reason.as_ref().map_or(0, String::len), MAX_REASON_BYTES)?;
        let (by, now) = (who.author_with_key(key)?, self.0.now());
        self.0.store.approval_answer(by, instance.id, id, decision, reason, now).await?;
        self.0.end_hold(who).await;
        let grant = match request.scope {
            ConsentScope::Call => None,
            ConsentScope::Run => self.given_grant(&instance, id).await?,
        };
        Ok(ApprovalView { answer: Some(consent), grant, ..approval_view(&instance, asked) })
    }

    /// Lists the open requests of agents.
    pub async fn list(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        scope: ListingScope,
        page: &PageRequest,
    ) -> Result<ListPage<ApprovalView>> {
        let mut page = page.start("approvals")?;
        for instance in self.0.instances_in_scope(who, selector, scope).await? {
            if page.is_complete() {
                break;
            }
            let open = self.0.approvals_of(&instance).await?;
            for request in open {
                page.push((instance.id, request.id), request);
            }
        }
        page.finish()
    }
}

impl Kernel {
    /// Requests an approval from a person, and waits for the answer up to a timeout. A grant in force is an answer.
    async fn wait_for_approval(
        &self,
        run_context: &RunContext,
        agent: &AgentPrincipal,
        new: NewApproval,
    ) -> Result<PermitReply> {
        // Register the wait before the store records the request: a loop that reads the run must know of it.
        let _asking = self.approval_waits.enter(run_context.run);
        let _held = self.live_state.begin_human_wait(agent.attempt);
        let mut presence_changes = self.viewers.subscribe();
        let mut seen = ChangeCursor::default();
        let (began, on_ask) = (Instant::now(), new.on_ask);
        loop {
            let grant = self.covering_grant(run_context, agent, &new).await?;
            let asked = NewApproval { grant, ..new.clone() };
            let approval = self.store.approval_ask(agent.fence.clone(), asked, self.now()).await?;
            if let Some(answer) = approval.answer {
                return Ok(permit_reply(answer, on_ask));
            }
            let mut alone = None;
            loop {
                let is_alone = on_ask != OnAsk::Wait && !self.viewers.is_present(run_context.run);
                alone = alone.or(Some(Instant::now())).filter(|_| is_alone);
                let given_up =
                    alone.map_or(began + APPROVAL_POLL_TIMEOUT, |since| since + PRESENCE_GRACE);
                tokio::select! {
                    change = self.store.change_wait(run_context.workflow, seen) => seen = change,
                    // The kernel owns the sender, so the channel does not close.
                    _ = presence_changes.changed() => continue,
                    () = tokio::time::sleep_until(given_up) => match alone {
                        Some(_) => self.deny_unattended(run_context, approval.id).await?,
                        None => return Ok(PermitReply::Open { approval: approval.id }),
                    }
                }
                let open =
                    self.store.approval_list(run_context.workflow, ApprovalQuery::Open).await?;
                if !open.iter().any(|open| open.id == approval.id)
                    || self.covering_grant(run_context, agent, &new).await?.is_some()
                {
                    break;
                }
            }
        }
    }

    /// Denies a request that no person can approve, unless an answer came first.
    async fn deny_unattended(&self, run_context: &RunContext, id: ApprovalId) -> Result<()> {
        let (deny, reason) = (ApprovalDecision::Deny, Some(NO_APPROVER.to_owned()));
        let (by, now) = (WriteContext::system(), self.now());
        match self.store.approval_answer(by, run_context.workflow, id, deny, reason, now).await {
            Ok(_) | Err(StoreError::ApprovalAnswered(..)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the open requests of an instance.
    pub(crate) async fn approvals_of(&self, instance: &Instance) -> Result<Vec<ApprovalView>> {
        let open = self.store.approval_list(instance.id, ApprovalQuery::Open).await?;
        let mut views = Vec::new();
        for approval in open {
            let exact_pattern = self.exact_pattern_of(&approval).await;
            views.push(ApprovalView { exact_pattern, ..approval_view(instance, approval) });
        }
        Ok(views)
    }
}

fn permit_reply(answer: ApprovalAnswer, on_ask: OnAsk) -> PermitReply {
    let ApprovalAnswer { consent, reason, by } = answer;
    match (consent, by, on_ask) {
        (Consent::Approved, _, _) => PermitReply::Allow,
        (Consent::Denied, Sender::System, OnAsk::Fail) => {
            PermitReply::Fail { why: NO_APPROVER.to_owned() }
        }
        (Consent::Denied, by, _) => {
            let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            PermitReply::Deny { why: format!("denied by {by}{why}") }
        }
    }
}

fn approval_view(instance: &Instance, approval: Approval) -> ApprovalView {
    let Approval { id, run, agent, attempt: _, tool, args, asked, answer } = approval;
    let answer = answer.map(|answer| answer.consent);
    let (instance, project) = (instance.instance.clone(), instance.project.clone().into());
    ApprovalView {
        instance,
        project,
        id,
        run,
        agent,
        tool,
        args,
        asked,
        answer,
        exact_pattern: None,
        grant: None,
    }
}
