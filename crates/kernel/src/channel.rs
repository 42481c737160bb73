//! Sending and reading: the same functions for the command line, the agents and every other client.

use std::path::PathBuf;

use agent_worker_protocol::{
    EffectKey, MessageKind, Priority, ResourceId, RunId, RunState, Seq, Target,
    api::{MessagesReply, ReceiptsReply, SendReply, SendRequest},
};
use agent_worker_store::{By, Error as StoreError, Instance, MessageQuery, NewMessage, Order};
use agent_worker_workflow::Provider;

use crate::{
    error::{Error, Result},
    kernel::{Card, Kernel, Principal},
    limits,
    recipients::{Address, Recipients, recipients},
    sizes::{self, Text},
    target,
};

/// What makes an inbox sort a message first. It never pre-empts anybody.
const URGENT: [&str; 4] = ["urgent", "asap", "blocked", "critical"];
const MOST_MESSAGES: u32 = 1000;

/// Which instance is meant, and from where it was asked.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// As typed. An agent needs none: its own instance.
    pub target: Option<Target>,
    /// The caller's folder.
    pub project: Option<PathBuf>,
}

/// What to read of a channel.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// After this message.
    pub since: Option<Seq>,
    /// At most so many: the first after `since`, else the newest.
    pub limit: Option<u32>,
    /// Containing this text.
    pub search: Option<String>,
    /// The whole log, not only the live or last run.
    pub all_runs: bool,
}

impl Kernel {
    /// Sends a message: works out whom it reaches, and answers when it is on disk.
    pub async fn send(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        request: SendRequest,
    ) -> Result<SendReply> {
        let by = who.by(key)?;
        if request.message.trim().is_empty() {
            return Err(Error::BadRequest("an empty message says nothing".into()));
        }
        let place = Place { target: request.target.clone(), project: request.project.clone() };
        let instance = self.instance_of(who, &place).await?;
        // A call that is repeated gets its first answer, also when the run has ended since.
        let repeated = instance.last.filter(|_| by.key.is_some());
        let no_run = || Error::NoRun(instance.instance.clone());
        let run = instance.live.or(repeated).ok_or_else(no_run)?;
        let card = self.card(run).await?;
        if let Some(answered) = request.reply_to {
            self.store.message_receipts(card.workflow, answered).await?;
        }
        let mut to = request.to.clone();
        to.extend(request.target.and_then(|target| target.agent));
        let address = Address {
            text: &request.message,
            data: &[],
            to: &to,
            cc: &request.cc,
            alone: request.alone,
        };
        let reached = recipients(&address, &who.sender()?, &card.team).map_err(Error::NoAgent)?;
        let hops = match who {
            Principal::Agent(attempt) => limits::hops(&attempt.shown, request.reply_to),
            Principal::User | Principal::Client(_) | Principal::Nobody => 0,
        };
        let text = Text::own(request.message);
        let message = self.message(&by, &card, text, &reached, hops, request.reply_to).await?;
        let pause = limits::hop_limit(hops, &card.limits);
        let now = self.clock.now();
        let once = match self.store.message_append(by, card.workflow, message, pause, now).await {
            Err(StoreError::NoRun) if !matches!(who, Principal::Agent(_)) => return Err(no_run()),
            other => other?,
        };
        Ok(SendReply {
            deduplicated: once.is_deduplicated(),
            seq: once.value(),
            instance: card.instance.clone(),
            paused: if reached.woken().is_empty() { None } else { self.paused(who, run).await? },
            woken: reached.woken(),
            cc: reached.cc(),
            unknown: reached.unknown,
        })
    }

    /// Why nobody will act on what somebody outside says. An agent's own run goes on while it speaks.
    async fn paused(&self, who: &Principal, run: RunId) -> Result<Option<String>> {
        if matches!(who, Principal::Agent(_)) {
            return Ok(None);
        }
        Ok(match self.store.run_get(run).await?.state {
            RunState::Paused { cause } => Some(cause.to_string()),
            RunState::Setup | RunState::Electing | RunState::Running | RunState::Ended { .. } => {
                None
            }
        })
    }

    /// Reads a channel.
    pub async fn messages(
        &self,
        who: &Principal,
        place: &Place,
        reading: Reading,
    ) -> Result<MessagesReply> {
        who.require_known()?;
        let instance = self.instance_of(who, place).await?;
        let run = if reading.all_runs { None } else { instance.live.or(instance.last) };
        let query = MessageQuery {
            run,
            // Whoever reads on from somewhere must not jump over anything.
            order: if reading.since.is_some() { Order::OldestFirst } else { Order::NewestFirst },
            after: reading.since.unwrap_or_default(),
            search: reading.search,
            limit: reading.limit.unwrap_or(50).min(MOST_MESSAGES),
        };
        let messages = self.store.message_list(instance.id, query).await?;
        Ok(MessagesReply { instance: instance.instance, messages })
    }

    /// Tells where each delivery of a message stands.
    pub async fn receipts(
        &self,
        who: &Principal,
        place: &Place,
        seq: Seq,
    ) -> Result<ReceiptsReply> {
        who.require_known()?;
        let instance = self.instance_of(who, place).await?;
        Ok(ReceiptsReply { receipts: self.store.message_receipts(instance.id, seq).await? })
    }

    /// A message ready for the store; what is too long for it is a resource first.
    pub(crate) async fn message(
        &self,
        by: &By,
        card: &Card,
        text: Text,
        reached: &Recipients,
        hops: u32,
        reply_to: Option<Seq>,
    ) -> Result<NewMessage> {
        let mut ids = Vec::new();
        for range in text.long_values() {
            ids.push(self.spill(by, card, &text.body[range]).await?);
        }
        let mut text = text.with_previews(&ids);
        let mut resource = None;
        if text.body.len() > sizes::INLINE {
            let id = self.spill(by, card, &text.body).await?;
            text = Text::own(sizes::preview(&text.body, id));
            resource = Some(id);
        }
        sizes::check("a message", text.body.len(), sizes::MESSAGE)?;
        let priority = priority(&text.body);
        let recipients = reached.list.clone();
        let (body, data) = (text.body, text.data);
        let kind = MessageKind::Message;
        Ok(NewMessage { kind, body, data, reply_to, hops, priority, resource, recipients })
    }

    async fn spill(&self, by: &By, card: &Card, text: &str) -> Result<ResourceId> {
        sizes::check("this text", text.len(), sizes::RESOURCE)?;
        let by = By::new(by.who.clone());
        let content = text.as_bytes().to_vec();
        let now = self.clock.now();
        Ok(self.store.resource_put(by, card.workflow, "text/plain".into(), content, now).await?)
    }

    /// The instance a caller means, and its live run.
    pub(crate) async fn instance(
        &self,
        who: &Principal,
        place: &Place,
    ) -> Result<(Instance, RunId)> {
        let instance = self.instance_of(who, place).await?;
        match instance.live {
            Some(run) => Ok((instance, run)),
            None => Err(Error::NoRun(instance.instance)),
        }
    }

    /// The instance a caller means, live or not.
    pub(crate) async fn instance_of(&self, who: &Principal, place: &Place) -> Result<Instance> {
        if let Principal::Agent(attempt) = who {
            return self.own_instance(attempt.run, place).await;
        }
        let instances = self.store.instance_list().await?;
        let project = place.project.as_ref().map(|path| path.to_string_lossy());
        let Some(target) = &place.target else {
            return target::only(project.as_deref(), &instances).cloned();
        };
        let mut holders = Vec::new();
        if let (Some(agent), None) = (&target.agent, &target.workflow) {
            for instance in &instances {
                let agents = self.store.agent_list(instance.id).await?;
                if agents.iter().any(|row| row.name == *agent) {
                    holders.push(instance.id);
                }
            }
        }
        let holds = |instance: &Instance| holders.contains(&instance.id);
        target::resolve(target, project.as_deref(), &instances, holds).cloned()
    }

    async fn own_instance(&self, run: RunId, place: &Place) -> Result<Instance> {
        let card = self.card(run).await?;
        if card.script.workflow.context.provider == Provider::Off {
            return Err(Error::Forbidden("this workflow shares nothing (`context: false`)"));
        }
        let elsewhere = place.target.as_ref().is_some_and(|target| {
            target.workflow.as_ref().is_some_and(|name| *name != card.instance.name)
                || target.tag.as_ref().is_some_and(|tag| *tag != card.instance.tag)
        });
        if elsewhere {
            return Err(Error::Forbidden("an agent speaks and reads in its own instance only"));
        }
        Ok(Instance {
            id: card.workflow,
            project: card.project.clone(),
            instance: card.instance.clone(),
            live: Some(run),
            last: Some(run),
        })
    }
}

fn priority(body: &str) -> Priority {
    let words = body.split(|c: char| !c.is_ascii_alphanumeric());
    let urgent = |word: &str| URGENT.iter().any(|urgent| urgent.eq_ignore_ascii_case(word));
    if words.into_iter().any(urgent) { Priority::High } else { Priority::Normal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_urgent_word_sorts_a_message_first() {
        for (body, expected) in [
            ("URGENT: the build", Priority::High),
            ("I am blocked.", Priority::High),
            ("unblocked", Priority::Normal),
            ("please look", Priority::Normal),
        ] {
            assert_eq!(priority(body), expected, "{body}");
        }
    }
}
