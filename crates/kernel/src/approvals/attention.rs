//! The attention list of a person: questions, requests, votes, dead letters, paused runs, stopped agents; and the
//! actions on them.
//!
//! An item holds facts. The interface that shows it words the next step.

use std::path::PathBuf;

use agent_worker_protocol::{
    AgentName, ApprovalId, DeliveryState, EffectKey, InstanceRef, PauseCause, Permission, Proposal,
    ProposalId, QuestionId, Receipt, RunId, RunState, Sender, Seq, WorkflowId,
    api::{
        ApprovalView, AttentionItem, AttentionKind, DeadLetter, DeadReply, DeadRequest, ListPage,
        QuestionView, ResumeRequest,
    },
};
use agent_worker_store::{Instance, MessageOrder, MessageQuery, ProposalQuery, RunRow};

use crate::{
    access::{instance_resolution::InstanceSelector, target::InstanceChoice},
    documents::document_files::CONFLICT_SUFFIX,
    error::{Error, Result},
    kernel::{Kernel, Principal},
    views::{ListingScope, page::PageRequest},
};

/// The action on dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterAction {
    /// Deliver again, with a new count of attempts.
    Redrive,
    /// Drop the delivery.
    Drop,
}

/// One thing that needs a person.
#[derive(Clone, Debug)]
pub struct Attention {
    /// The instance it is in.
    pub instance: InstanceRef,
    /// The folder of the instance's file.
    pub project: PathBuf,
    /// The live run of the instance.
    pub run: RunId,
    /// The agent it is about.
    pub agent: Option<AgentName>,
    /// A sentence that says what happened.
    pub what: String,
    /// The step that a person takes.
    pub need: AttentionNeed,
}

/// The step that a person takes, with its facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttentionNeed {
    /// A paused run is resumed with these limits.
    Resume(ResumeRequest),
    /// A run is paused until one of its questions is answered.
    AnyAnswer,
    /// A run is paused until one of its requests is approved or denied.
    AnyApproval,
    /// The question is answered.
    Answer(QuestionId),
    /// The request is approved or denied.
    Approval(ApprovalId),
    /// A vote is given on the proposal.
    Vote(ProposalId),
    /// The dead letter of this message is tried again.
    Redrive(Seq),
    /// The agent is resumed.
    ResumeAgent,
    /// The text in this file is merged by hand.
    MergeFile(String),
}

/// Lists everything that needs the user, and resolves dead letters.
#[derive(Clone, Copy)]
pub struct PendingAttention<'k>(pub(crate) &'k Kernel);

impl AttentionNeed {
    /// The kind under which it is listed.
    pub fn kind(&self) -> AttentionKind {
        match self {
            Self::Resume(_) | Self::AnyAnswer | Self::AnyApproval => AttentionKind::Paused,
            Self::Answer(_) => AttentionKind::Question,
            Self::Approval(_) => AttentionKind::Approval,
            Self::Vote(_) => AttentionKind::Vote,
            Self::Redrive(_) => AttentionKind::DeadLetter,
            Self::ResumeAgent => AttentionKind::AgentStopped,
            Self::MergeFile(_) => AttentionKind::DocumentConflict,
        }
    }
}

/// The place of an item in the list of its instance: its kind, its number, then its agent or file.
type AttentionPlace = (u8, i64, String);

impl Attention {
    fn place(&self) -> AttentionPlace {
        let agent = self.agent.as_ref().map(AgentName::folded).unwrap_or_default();
        match &self.need {
            AttentionNeed::Resume(_) | AttentionNeed::AnyAnswer | AttentionNeed::AnyApproval => {
                (0, 0, agent)
            }
            AttentionNeed::Redrive(seq) => (1, seq.get(), agent),
            AttentionNeed::Answer(id) => (2, id.get(), agent),
            AttentionNeed::Approval(id) => (3, id.get(), agent),
            AttentionNeed::Vote(id) => (4, id.get(), agent),
            AttentionNeed::MergeFile(file) => (5, 0, file.clone()),
            AttentionNeed::ResumeAgent => (6, 0, agent),
        }
    }

    /// The item as it is listed; `words` makes the hint of the interface that lists it.
    pub fn into_item(self, words: impl FnOnce(&Self) -> String) -> AttentionItem {
        let hint = words(&self);
        let Self { instance, project, run, agent, what, need } = self;
        AttentionItem { kind: need.kind(), instance, project, run, agent, what, hint }
    }
}

impl PendingAttention<'_> {
    /// Lists the dead letters of the instances' live, else last, runs.
    pub async fn dead_letters(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        scope: ListingScope,
        page: &PageRequest,
    ) -> Result<ListPage<DeadLetter>> {
        let mut page = page.start::<(WorkflowId, Seq, String), (Instance, Receipt)>("dead")?;
        for instance in self.0.instances_in_scope(who, selector, scope).await? {
            if page.is_complete() {
                break;
            }
            let place = |letter: &Receipt| (instance.id, letter.seq, letter.agent.folded());
            let mut letters = self.0.dead_letters_of(&instance).await?;
            letters.sort_by_key(place);
            for one in letters {
                page.push(place(&one), (instance.clone(), one));
            }
        }
        let ListPage { items, next } = page.finish()?;
        let mut letters = Vec::new();
        for (instance, receipt) in items {
            letters.extend(self.0.dead_letter_view(&instance, receipt).await?);
        }
        Ok(ListPage { items: letters, next })
    }

    /// Delivers dead letters again, or drops them.
    pub async fn resolve_dead_letter(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        request: DeadRequest,
        action: DeadLetterAction,
    ) -> Result<DeadReply> {
        who.require(Permission::Letters)?;
        let selector =
            InstanceSelector { target: request.target.clone(), project: request.project.clone() };
        let choice = match action {
            DeadLetterAction::Redrive => InstanceChoice::Nearest,
            DeadLetterAction::Drop => InstanceChoice::Exact,
        };
        let instance = self.0.resolve_instance_for_write(who, &selector, choice).await?;
        let wanted = |dead: &Receipt| {
            request.seq.is_none_or(|seq| seq == dead.seq)
                && request.agent.as_ref().is_none_or(|agent| *agent == dead.agent)
        };
        let mut dead = self.0.dead_letters_of(&instance).await?;
        dead.retain(wanted);
        if action == DeadLetterAction::Redrive && request.seq.is_none() {
            // A letter without a recipient does not prevent the redelivery of the others.
            let team = self.0.store.agent_list(instance.id).await?;
            dead.retain(|letter| team.iter().any(|agent| agent.name == letter.agent));
        }
        if dead.is_empty() {
            return Err(Error::NoDeadLetter { instance: instance.instance, seq: request.seq });
        }
        let (id, now) = (instance.id, self.0.now());
        let mut receipts = Vec::new();
        for letter in dead {
            let key = key.clone().map(|key| EffectKey {
                key: format!("{}/{}/{}", key.key, letter.seq, letter.agent.folded()),
                ..key
            });
            let (by, agent, seq) = (who.author_with_key(key)?, letter.agent.clone(), letter.seq);
            match action {
                DeadLetterAction::Redrive => {
                    let redriven = self.0.store.delivery_redrive(by, id, agent, seq, now).await;
                    redriven.map_err(|error| match error {
                        agent_worker_store::Error::NoRun => Error::NoRun(instance.instance.clone()),
                        other => other.into(),
                    })?;
                    self.0.end_hold(who).await;
                }
                DeadLetterAction::Drop => {
                    let why = request.why.clone().unwrap_or_else(|| "dropped".to_owned());
                    self.0.store.delivery_drop(by, id, agent, seq, why, now).await?;
                }
            }
            let now = self.0.store.message_receipts(id, letter.seq).await?;
            receipts.extend(now.into_iter().find(|receipt| receipt.agent == letter.agent));
        }
        Ok(DeadReply { instance: instance.instance, receipts })
    }

    /// Lists the items that need a person in live runs.
    pub async fn list(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        scope: ListingScope,
        page: &PageRequest,
    ) -> Result<ListPage<Attention>> {
        let mut page = page.start::<(WorkflowId, AttentionPlace), Attention>("attention")?;
        for instance in self.0.instances_in_scope(who, selector, scope).await? {
            if page.is_complete() {
                break;
            }
            let Some(run) = instance.live else { continue };
            let mut items = self.0.attention_of(&instance, run).await?;
            items.sort_by_key(Attention::place);
            for item in items {
                page.push((instance.id, item.place()), item);
            }
        }
        page.finish()
    }
}

impl Kernel {
    /// Returns the items that need a person in one run.
    async fn attention_of(&self, instance: &Instance, run: RunId) -> Result<Vec<Attention>> {
        let mut items = Vec::new();
        let mut row = self.store.run_get(run).await?;
        let outlook = self.limit_outlook(&row, &row.limits).await?;
        row.state = outlook.state(row.state);
        let wanted = self.approvals_of(instance).await?;
        let asked = self.questions_of(instance).await?;
        let first = wanted.first().filter(|_| asked.is_empty());
        items.extend(paused_item(instance, &row, first, &outlook.needs));
        for dead in self.dead_letters_of(instance).await? {
            let what = dead.why.unwrap_or_else(|| "its attempts are used up".to_owned());
            let what = format!("#{} was not done: {what}", dead.seq);
            let need = AttentionNeed::Redrive(dead.seq);
            items.push(attention_item(instance, &row, Some(dead.agent), what, need));
        }
        items.extend(asked.into_iter().map(|question| question_item(instance, &row, question)));
        for wanted in wanted {
            let what = format!("wants #{}: {} {}", wanted.id, wanted.tool, wanted.args);
            let need = AttentionNeed::Approval(wanted.id);
            items.push(attention_item(instance, &row, Some(wanted.agent), what, need));
        }
        let open = self.store.proposal_list(instance.id, ProposalQuery::Active, self.now());
        for proposal in open.await? {
            items.extend(vote_item(instance, &row, &proposal));
        }
        for conflict in self.store.conflict_list(instance.id).await? {
            let (path, why) = (conflict.path, conflict.why);
            let what = format!("what was written into {path} is set aside: {why}");
            let need = AttentionNeed::MergeFile(format!("{path}{CONFLICT_SUFFIX}"));
            let nobody = None;
            items.push(attention_item(instance, &row, nobody, what, need));
        }
        for agent in self.store.agent_list(instance.id).await? {
            let Some(why) = agent.stopped else { continue };
            let (agent, need) = (Some(agent.name), AttentionNeed::ResumeAgent);
            items.push(attention_item(instance, &row, agent, why, need));
        }
        Ok(items)
    }

    async fn dead_letters_of(&self, instance: &Instance) -> Result<Vec<Receipt>> {
        let Some(run) = instance.live.or(instance.last) else { return Ok(Vec::new()) };
        let mut failures = self.store.run_failures(run).await?;
        failures.retain(|receipt| receipt.state == DeliveryState::Dead);
        Ok(failures)
    }

    async fn dead_letter_view(
        &self,
        instance: &Instance,
        receipt: Receipt,
    ) -> Result<Option<DeadLetter>> {
        let Some(run) = instance.live.or(instance.last) else { return Ok(None) };
        let after = agent_worker_protocol::Seq::new(receipt.seq.get() - 1);
        let order = MessageOrder::OldestFirst;
        let query = MessageQuery {
            run: None,
            after,
            before: None,
            search: None,
            to: None,
            order,
            limit: 1,
        };
        let message = self.store.message_list(instance.id, query).await?.pop();
        Ok(message.map(|message| DeadLetter {
            instance: instance.instance.clone(),
            project: instance.project.clone().into(),
            run,
            live: instance.live.is_some(),
            receipt,
            message,
        }))
    }
}

fn question_item(instance: &Instance, row: &RunRow, question: QuestionView) -> Attention {
    let options = match &question.options[..] {
        [] => String::new(),
        options => format!(" ({})", options.join(" | ")),
    };
    let what = format!("asks #{}: {}{options}", question.id, question.question);
    let need = AttentionNeed::Answer(question.id);
    attention_item(instance, row, Some(question.agent), what, need)
}

/// Returns the item of a proposal if the user is in its electorate and has not voted.
fn vote_item(instance: &Instance, row: &RunRow, proposal: &Proposal) -> Option<Attention> {
    if !proposal.missing_voters().contains(&&Sender::User) {
        return None;
    }
    let options: Vec<_> = proposal.terms.options.iter().map(|option| option.id.as_str()).collect();
    let (title, options) = (&proposal.terms.title, options.join(" | "));
    let what = format!("proposal #{} waits for your vote: {title} ({options})", proposal.id);
    Some(attention_item(instance, row, None, what, AttentionNeed::Vote(proposal.id)))
}

fn attention_item(
    instance: &Instance,
    run: &RunRow,
    agent: Option<AgentName>,
    what: String,
    need: AttentionNeed,
) -> Attention {
    let project = instance.project.clone().into();
    Attention { instance: instance.instance.clone(), project, run: run.id, agent, what, need }
}

/// Returns the item of a paused run; `wanted` is the first request, if nothing else needs a person.
fn paused_item(
    instance: &Instance,
    run: &RunRow,
    wanted: Option<&ApprovalView>,
    needs: &ResumeRequest,
) -> Option<Attention> {
    let RunState::Paused { cause } = &run.state else { return None };
    let need = match cause {
        PauseCause::Human if wanted.is_some() => AttentionNeed::AnyApproval,
        PauseCause::Human => AttentionNeed::AnyAnswer,
        PauseCause::Limit { .. } | PauseCause::Interrupted | PauseCause::User => {
            AttentionNeed::Resume(*needs)
        }
    };
    let nobody = None;
    Some(attention_item(instance, run, nobody, cause.to_string(), need))
}
