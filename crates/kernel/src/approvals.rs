//! What an agent asks for before it does it. The attempt that asks waits; a person answers, and the answer is used once.

use std::{path::PathBuf, time::Duration};

use agent_worker_protocol::{
    AgentSettings, ApprovalId, AttemptId, Consent, EffectKey, OnAsk, Permission, Sender, Stance,
    api::{ApprovalView, ConsentRequest, PermitReply, PermitRequest},
};
use agent_worker_store::{
    Approval, ApprovalAnswer, ApprovalQuery, AttemptRow, By, Change, Error as StoreError, Instance,
    NewApproval,
};
use tokio::time::Instant;

use crate::{
    error::{Error, Result},
    kernel::{Card, Kernel, Principal},
    permissions::{Here, stance},
    place::Place,
    sizes,
    views::Breadth,
};

/// The longest arguments that are shown to a person.
const ARGUMENTS: usize = 1024 * 1024;
const REASON: usize = 8 * 1024;
const CALL: usize = 200;
/// How long a worker's question is held before it has to be asked again.
const HOLD: Duration = Duration::from_secs(40);
/// How long somebody has to come before nobody is there.
const ARRIVAL: Duration = Duration::from_secs(5);
const NOBODY: &str = "nobody is there to approve it";

impl Kernel {
    /// Says whether a call of an attempt may happen, as soon as that is known.
    pub async fn permit(
        &self,
        who: &Principal,
        attempt: AttemptId,
        request: PermitRequest,
    ) -> Result<PermitReply> {
        let row = who.own_attempt(attempt)?;
        self.live.hear(attempt);
        sizes::check("the name of a call", request.call.len(), CALL)?;
        let card = self.card(row.run).await?;
        let settings = card.agent(&row.fence.agent)?;
        let rules = &settings.permissions;
        let cwd = card.cwd_of(settings);
        let PermitRequest { call, tool, args } = request;
        let stance = {
            let here = Here { cwd: &cwd, link: &|path| self.runner.link(path) };
            stance(rules, &tool, &args, &here)
        };
        match stance {
            Stance::Allow => Ok(PermitReply::Allow),
            Stance::Deny => Ok(PermitReply::Deny { why: format!("{tool} is not allowed here") }),
            Stance::Ask => {
                sizes::check("what is to be approved", args.to_string().len(), ARGUMENTS)?;
                let new = NewApproval { call, tool, args, on_ask: rules.on_ask };
                self.ask(&card, row, new).await
            }
        }
    }

    /// Asks a person, and waits a while for the answer.
    async fn ask(&self, card: &Card, row: &AttemptRow, new: NewApproval) -> Result<PermitReply> {
        // Whoever looks at the run has to know before the store does.
        let _asking = self.asking.enter(card.run);
        let _held = self.live.hold(row.id);
        let mut people = self.attendance.hear();
        let mut seen = Change::default();
        let (began, on_ask) = (Instant::now(), new.on_ask);
        let mut asked = self.store.approval_ask(row.fence.clone(), new.clone(), self.now());
        loop {
            let approval = asked.await?;
            if let Some(answer) = approval.answer {
                return Ok(reply(answer, on_ask));
            }
            let mut alone = None;
            loop {
                let is_alone = on_ask != OnAsk::Wait && !self.attendance.is_there(card.run);
                alone = alone.or(Some(Instant::now())).filter(|_| is_alone);
                let given_up = alone.map_or(began + HOLD, |since| since + ARRIVAL);
                tokio::select! {
                    change = self.store.change_wait(card.workflow, seen) => seen = change,
                    // The sender is the kernel's own, and lives as long.
                    _ = people.changed() => continue,
                    () = tokio::time::sleep_until(given_up) => match alone {
                        Some(_) => self.turn_down(card, approval.id).await?,
                        None => return Ok(PermitReply::Open { approval: approval.id }),
                    }
                }
                let open = self.store.approval_list(card.workflow, ApprovalQuery::Open).await?;
                if !open.iter().any(|open| open.id == approval.id) {
                    break;
                }
            }
            asked = self.store.approval_ask(row.fence.clone(), new.clone(), self.now());
        }
    }

    /// Denies what nobody is there to approve, unless somebody was quicker.
    async fn turn_down(&self, card: &Card, id: ApprovalId) -> Result<()> {
        let (consent, reason) = (Consent::Denied, Some(NOBODY.to_owned()));
        let (by, now) = (By::system(), self.now());
        match self.store.approval_answer(by, card.workflow, id, consent, reason, now).await {
            Ok(_) | Err(StoreError::Consented(..)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Approves or denies what an agent asks for.
    pub async fn approval_answer(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        id: ApprovalId,
        consent: Consent,
        request: ConsentRequest,
    ) -> Result<ApprovalView> {
        if let Principal::Agent(_) = who {
            return Err(Error::Forbidden("what an agent asks for is approved by a person"));
        }
        who.require(Permission::Approve)?;
        let place = Place { target: request.target, project: request.project };
        let (instance, _) = self.instance(who, &place).await?;
        let asked = self.store.approval_list(instance.id, ApprovalQuery::One(id)).await?.pop();
        let asked = asked.ok_or(Error::Store(StoreError::NotFound("approval")))?;
        let reason = request.reason.filter(|reason| !reason.trim().is_empty());
        sizes::check("a reason", reason.as_ref().map_or(0, String::len), REASON)?;
        let (by, now) = (who.by(key)?, self.now());
        self.store.approval_answer(by, instance.id, id, consent, reason, now).await?;
        Ok(ApprovalView { answer: Some(consent), ..view(&instance, asked) })
    }

    /// Lists what agents want to do and wait for.
    pub async fn approval_list(
        &self,
        who: &Principal,
        place: &Place,
        breadth: Breadth,
    ) -> Result<Vec<ApprovalView>> {
        let mut views = Vec::new();
        for instance in self.instances(who, place, breadth).await? {
            views.extend(self.approvals_of(&instance).await?);
        }
        Ok(views)
    }

    /// The open requests of an instance.
    pub(crate) async fn approvals_of(&self, instance: &Instance) -> Result<Vec<ApprovalView>> {
        let open = self.store.approval_list(instance.id, ApprovalQuery::Open).await?;
        Ok(open.into_iter().map(|approval| view(instance, approval)).collect())
    }
}

impl Card {
    /// Where one of its agents works.
    pub(crate) fn cwd_of(&self, settings: &AgentSettings) -> PathBuf {
        let own = settings.cwd.as_ref();
        own.map_or_else(|| self.script.cwd.clone(), |cwd| self.script.cwd.join(cwd))
    }
}

fn reply(answer: ApprovalAnswer, on_ask: OnAsk) -> PermitReply {
    let ApprovalAnswer { consent, reason, by } = answer;
    match (consent, by, on_ask) {
        (Consent::Approved, _, _) => PermitReply::Allow,
        (Consent::Denied, Sender::System, OnAsk::Fail) => {
            PermitReply::Fail { why: NOBODY.to_owned() }
        }
        (Consent::Denied, by, _) => {
            let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            PermitReply::Deny { why: format!("denied by {by}{why}") }
        }
    }
}

fn view(instance: &Instance, approval: Approval) -> ApprovalView {
    let Approval { id, run, agent, attempt: _, tool, args, asked, answer } = approval;
    let answer = answer.map(|answer| answer.consent);
    let instance = instance.instance.clone();
    ApprovalView { instance, id, run, agent, tool, args, asked, answer }
}
