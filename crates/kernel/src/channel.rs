//! Sending and reading: the same functions for the command line, the agents and every other client.

use agent_worker_protocol::{
    AgentName, EffectKey, Message, MessageKind, Permission, Priority, Receipt, ResourceId, Role,
    RunId, RunState, Sender, Seq, ToolName,
    api::{MessagesReply, ReceiptsReply, SendReply, SendRequest},
};
use agent_worker_store::{
    By, Error as StoreError, Hindrances, Instance, MessageQuery, NewMessage, Order,
};

use crate::{
    error::{Error, Result},
    kernel::{Card, Kernel, Principal},
    limits,
    place::Place,
    recipients::{Address, Recipients, recipients},
    sizes::{self, Text},
};

/// What makes an inbox sort a message first. It never pre-empts anybody.
const URGENT: [&str; 4] = ["urgent", "asap", "blocked", "critical"];
const MOST_MESSAGES: u32 = 1000;

/// Why a message that was sent is not acted upon for now.
#[derive(Default)]
pub(crate) struct Hindered {
    pub(crate) paused: Option<String>,
    pub(crate) stopped: Vec<AgentName>,
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
    /// This message and everything that replies to it, in whichever run.
    pub thread: Option<Seq>,
    /// The whole log, not only the live or last run.
    pub all_runs: bool,
    /// Whether to tell where those stand that are the reader's own; the user's are all.
    pub receipts: bool,
}

impl Kernel {
    /// Sends a message: works out whom it reaches, and answers when it is on disk.
    pub async fn send(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        request: SendRequest,
    ) -> Result<SendReply> {
        who.require(Permission::Send)?;
        let by = who.by(key)?;
        self.pass_gate(who, ToolName::ChannelSend).await?;
        if request.message.trim().is_empty() {
            return Err(Error::BadRequest("an empty message says nothing".into()));
        }
        let place = Place { target: request.target.clone(), project: request.project.clone() };
        let instance = self.instance_here(who, &place).await?;
        // A call that is repeated gets its first answer, also when the run has ended since.
        let repeated = instance.last.filter(|_| by.key.is_some());
        let no_run = || Error::NoRun(instance.instance.clone());
        let run = instance.live.or(repeated).ok_or_else(no_run)?;
        let card = match self.card(run).await {
            // Over, and forgotten since.
            Err(_) if instance.live.is_none() => return Err(no_run()),
            card => card?,
        };
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
        let reached = self.reached(&address, &who.sender()?, &card).await?;
        let hops = match who {
            Principal::Agent(attempt) => limits::hops(&attempt.shown, request.reply_to),
            Principal::User | Principal::Client(_) | Principal::Nobody => 0,
        };
        let text = Text::own(request.message);
        let mut message = self.message(&by, &card, text, &reached, hops, request.reply_to).await?;
        message.priority = message.priority.max(request.priority);
        let pause = limits::hop_limit(hops, &card.limits);
        if let Some(cause) = pause.clone().filter(|_| card.instance.is_global()) {
            // Standalone agents have one run: it does not pause for what two of them do.
            return Err(Error::TooFar(cause));
        }
        let now = self.now();
        let once = match self.store.message_append(by, card.workflow, message, pause, now).await {
            Err(StoreError::NoRun) if !matches!(who, Principal::Agent(_)) => return Err(no_run()),
            other => other?,
        };
        self.scheduler.indexer.heard();
        let woken = reached.woken();
        let hindered = self.hindered(who, run, &woken).await?;
        Ok(SendReply {
            deduplicated: once.is_deduplicated(),
            seq: once.value(),
            instance: card.instance.clone(),
            paused: hindered.paused,
            stopped: hindered.stopped,
            woken,
            cc: reached.cc(),
            unknown: reached.unknown,
        })
    }

    /// Whom a message reaches: those it names, else the coordinator if the team has one.
    async fn reached(
        &self,
        address: &Address<'_>,
        sender: &Sender,
        card: &Card,
    ) -> Result<Recipients> {
        let mut reached = recipients(address, sender, &card.team).map_err(Error::NoAgent)?;
        if reached.list.is_empty() {
            let roles = self.store.run_roles(card.run).await?;
            let coordinator = roles.into_iter().find(|(role, _)| *role == Role::Coordinator);
            reached.give_to(coordinator.map(|(_, agent)| agent), sender);
        }
        Ok(reached)
    }

    /// What keeps those who are woken from acting for now. An agent's own run goes on while it speaks.
    pub(crate) async fn hindered(
        &self,
        who: &Principal,
        run: RunId,
        woken: &[AgentName],
    ) -> Result<Hindered> {
        if woken.is_empty() {
            return Ok(Hindered::default());
        }
        let Hindrances { state, mut stopped } = self.store.run_hindrances(run).await?;
        stopped.retain(|agent| woken.contains(agent));
        let paused = match (state, who) {
            (RunState::Paused { cause }, Principal::User | Principal::Client(_)) => {
                Some(cause.to_string())
            }
            _ => None,
        };
        Ok(Hindered { paused, stopped })
    }

    /// Reads a channel.
    pub async fn messages(
        &self,
        who: &Principal,
        place: &Place,
        reading: Reading,
    ) -> Result<MessagesReply> {
        who.require(Permission::Read)?;
        let instance = self.instance_of(who, place).await?;
        let receipts = reading.receipts;
        let messages = self.read(&instance, reading).await?;
        let mut reply = MessagesReply { instance: instance.instance, messages, receipts: vec![] };
        if receipts {
            for message in reply.messages.iter().filter(|message| is_own(who, message)) {
                let receipts = self.store.message_receipts(instance.id, message.seq).await?;
                // An answer is a message of its own, and a list of many has no room for them.
                let brief = |receipt| Receipt { answer: None, ..receipt };
                reply.receipts.extend(receipts.into_iter().map(brief));
            }
        }
        Ok(reply)
    }

    async fn read(&self, instance: &Instance, reading: Reading) -> Result<Vec<Message>> {
        let limit = reading.limit.unwrap_or(50).min(MOST_MESSAGES);
        if let Some(seq) = reading.thread {
            if reading.search.is_some() {
                return Err(Error::BadRequest("a thread is read, not searched".into()));
            }
            let after = reading.since.unwrap_or_default();
            return Ok(self.store.message_thread(instance.id, seq, after, limit).await?);
        }
        let run = if reading.all_runs { None } else { instance.live.or(instance.last) };
        let query = MessageQuery {
            run,
            // Whoever reads on from somewhere must not jump over anything.
            order: if reading.since.is_some() { Order::OldestFirst } else { Order::NewestFirst },
            after: reading.since.unwrap_or_default(),
            search: reading.search,
            limit,
        };
        let newest_first = query.search.is_some() && query.order == Order::NewestFirst;
        let mut messages = self.store.message_list(instance.id, query).await?;
        if newest_first {
            messages.reverse();
        }
        Ok(messages)
    }

    /// Tells where each delivery of a message stands: its sender, or the user.
    pub async fn receipts(
        &self,
        who: &Principal,
        place: &Place,
        seq: Seq,
    ) -> Result<ReceiptsReply> {
        who.require(Permission::Read)?;
        let instance = self.instance_of(who, place).await?;
        let receipts = self.store.message_receipts(instance.id, seq).await?;
        let (after, order) = (Seq::new(seq.get() - 1), Order::OldestFirst);
        let query = MessageQuery { run: None, after, search: None, order, limit: 1 };
        let message = self.store.message_list(instance.id, query).await?;
        if !message.iter().all(|message| is_own(who, message)) {
            return Err(Error::Forbidden("where a message stands is told to whoever sent it"));
        }
        Ok(ReceiptsReply { receipts })
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
        let now = self.now();
        Ok(self
            .store
            .resource_put(by, card.workflow, "text/plain".into(), content, now.wall)
            .await?)
    }
}

/// Whether somebody is told where a message stands.
fn is_own(who: &Principal, message: &Message) -> bool {
    match who {
        Principal::User => true,
        Principal::Agent(_) | Principal::Client(_) | Principal::Nobody => {
            who.sender().is_ok_and(|sender| sender == message.from)
        }
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
