//! What needs a person: questions, requests, dead letters, paused runs, agents that were stopped; and what a person does about them.

use agent_worker_protocol::{
    DeliveryState, EffectKey, PauseCause, Permission, Receipt, RunState, Target,
    api::{
        ApprovalView, AttentionItem, AttentionKind, DeadLetter, DeadReply, DeadRequest,
        QuestionView, ResumeRequest,
    },
};
use agent_worker_store::{Instance, MessageOrder, MessageQuery, RunRow};

use crate::{
    access::instance_resolution::InstanceSelector,
    documents::document_files::CONFLICT_SUFFIX,
    error::{Error, Result},
    kernel::{Kernel, Principal},
    views::ListingScope,
};

/// What to do with dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterAction {
    /// Try again, counts anew.
    Redrive,
    /// Give up.
    Drop,
}

impl Kernel {
    /// Lists the dead letters of the instances' live, else last, runs.
    pub async fn dead_letter_list(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
        scope: ListingScope,
    ) -> Result<Vec<DeadLetter>> {
        let mut letters = Vec::new();
        for instance in self.instances_in_scope(who, selector, scope).await? {
            for receipt in self.dead_letters_of(&instance).await? {
                letters.extend(self.dead_letter_view(&instance, receipt).await?);
            }
        }
        Ok(letters)
    }

    /// Tries dead letters again, or gives them up.
    pub async fn dead_letter_resolve(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        request: DeadRequest,
        action: DeadLetterAction,
    ) -> Result<DeadReply> {
        who.require(Permission::Letters)?;
        let selector =
            InstanceSelector { target: request.target.clone(), project: request.project.clone() };
        let instance = self.resolve_instance_for_write(who, &selector).await?;
        let wanted = |dead: &Receipt| {
            request.seq.is_none_or(|seq| seq == dead.seq)
                && request.agent.as_ref().is_none_or(|agent| *agent == dead.agent)
        };
        let mut dead = self.dead_letters_of(&instance).await?;
        dead.retain(wanted);
        if action == DeadLetterAction::Redrive && request.seq.is_none() {
            // What nobody can be given any more keeps the others from nothing.
            let team = self.store.agent_list(instance.id).await?;
            dead.retain(|letter| team.iter().any(|agent| agent.name == letter.agent));
        }
        if dead.is_empty() {
            return Err(Error::NoDeadLetter { instance: instance.instance, seq: request.seq });
        }
        let (id, now) = (instance.id, self.now());
        let mut receipts = Vec::new();
        for letter in dead {
            let key = key.clone().map(|key| EffectKey {
                key: format!("{}/{}/{}", key.key, letter.seq, letter.agent.folded()),
                ..key
            });
            let (by, agent, seq) = (who.author_with_key(key)?, letter.agent.clone(), letter.seq);
            match action {
                DeadLetterAction::Redrive => {
                    let redriven = self.store.delivery_redrive(by, id, agent, seq, now).await;
                    redriven.map_err(|error| match error {
                        agent_worker_store::Error::NoRun => Error::NoRun(instance.instance.clone()),
                        other => other.into(),
                    })?;
                }
                DeadLetterAction::Drop => {
                    let why = request.why.clone().unwrap_or_else(|| "dropped".to_owned());
                    self.store.delivery_drop(by, id, agent, seq, why, now).await?;
                }
            }
            let now = self.store.message_receipts(id, letter.seq).await?;
            receipts.extend(now.into_iter().find(|receipt| receipt.agent == letter.agent));
        }
        Ok(DeadReply { instance: instance.instance, receipts })
    }

    /// Lists what waits for a person in runs that live.
    pub async fn attention(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
        scope: ListingScope,
    ) -> Result<Vec<AttentionItem>> {
        let mut items = Vec::new();
        for instance in self.instances_in_scope(who, selector, scope).await? {
            let Some(run) = instance.live else { continue };
            let row = self.store.run_get(run).await?;
            let wanted = self.approvals_of(&instance).await?;
            let asked = self.questions_of(&instance).await?;
            let first = wanted.first().filter(|_| asked.is_empty());
            items.extend(paused_item(&instance, &row, first, &self.resume_needs(&row).await?));
            for dead in self.dead_letters_of(&instance).await? {
                let what = dead.why.unwrap_or_else(|| "its attempts are used up".to_owned());
                let mut item = attention_item(&instance, &row, AttentionKind::DeadLetter);
                item.what = format!("#{} was not done: {what}", dead.seq);
                let target = Target::instance(&instance.instance);
                item.hint = format!("agent-worker dead redrive {} {target}", dead.seq);
                item.agent = Some(dead.agent);
                items.push(item);
            }
            items
                .extend(asked.into_iter().map(|question| question_item(&instance, &row, question)));
            for wanted in wanted {
                let mut item = attention_item(&instance, &row, AttentionKind::Approval);
                let target = Target::instance(&instance.instance);
                item.what = format!("wants #{}: {} {}", wanted.id, wanted.tool, wanted.args);
                item.hint = format!(
                    "agent-worker approve {0} --target {target}, or agent-worker deny {0} --target {target}",
                    wanted.id
                );
                item.agent = Some(wanted.agent);
                items.push(item);
            }
            for conflict in self.store.conflict_list(instance.id).await? {
                let mut item = attention_item(&instance, &row, AttentionKind::DocumentConflict);
                let (path, why) = (conflict.path, conflict.why);
                item.what = format!("what was written into {path} is set aside: {why}");
                item.hint =
                    format!("look at {path}{CONFLICT_SUFFIX}, write what is missing, delete it");
                items.push(item);
            }
            for agent in self.store.agent_list(instance.id).await? {
                let Some(why) = agent.stopped else { continue };
                let mut item = attention_item(&instance, &row, AttentionKind::AgentStopped);
                let target = Target::agent(agent.name.clone(), &instance.instance);
                item.what = why;
                item.hint = format!("agent-worker resume {target}");
                item.agent = Some(agent.name);
                items.push(item);
            }
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
        let query = MessageQuery { run: None, after, search: None, order, limit: 1 };
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

fn question_item(instance: &Instance, row: &RunRow, question: QuestionView) -> AttentionItem {
    let mut item = attention_item(instance, row, AttentionKind::Question);
    let target = Target::instance(&instance.instance);
    let options = match &question.options[..] {
        [] => String::new(),
        options => format!(" ({})", options.join(" | ")),
    };
    item.what = format!("asks #{}: {}{options}", question.id, question.question);
    item.hint = format!("agent-worker answer {} TEXT --target {target}", question.id);
    item.agent = Some(question.agent);
    item
}

fn attention_item(instance: &Instance, run: &RunRow, kind: AttentionKind) -> AttentionItem {
    AttentionItem {
        kind,
        instance: instance.instance.clone(),
        project: instance.project.clone().into(),
        run: run.id,
        agent: None,
        what: String::new(),
        hint: String::new(),
    }
}

/// `wanted` is the first request, where nothing else waits for a person.
fn paused_item(
    instance: &Instance,
    run: &RunRow,
    wanted: Option<&ApprovalView>,
    needs: &ResumeRequest,
) -> Option<AttentionItem> {
    let RunState::Paused { cause } = &run.state else { return None };
    let mut item = attention_item(instance, run, AttentionKind::Paused);
    item.what = cause.to_string();
    let target = Target::instance(&instance.instance);
    item.hint = match cause {
        PauseCause::Human if wanted.is_some() => format!("agent-worker pending --target {target}"),
        PauseCause::Human => format!("agent-worker answer NUMBER TEXT --target {target}"),
        PauseCause::Limit { .. } | PauseCause::Interrupted | PauseCause::User => {
            needs.to_command(&target)
        }
    };
    Some(item)
}
