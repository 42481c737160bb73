//! Messages to a running turn: its worker waits for them here, and answers for its program.
//!
//! The store has the messages, so that a worker of a restarted daemon gets them too. Only the answers are in memory: a
//! sender waits for them. A message that the model has got is an event of the worker (`WorkerEvent::Joined`).

use std::{collections::BTreeMap, time::Duration};

use agent_worker_protocol::{
    AttemptId, MailNotice, Sender, Seq, TurnMessage, TurnMessagesReply, TurnMessagesRequest,
};
use agent_worker_store::{ChangeCursor, ShownMessage};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until},
};

use crate::{
    error::Result,
    kernel::{AgentPrincipal, Kernel, Principal},
    messaging::size_limits,
    scheduling::{attempts::Attempts, prompt},
};

/// Time in which a program must accept a message; after it the message interrupts the turn.
pub(crate) const JOIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which a worker's request waits before the worker must ask again.
const POLL_TIMEOUT: Duration = Duration::from_secs(40);
/// Minimum time between two reads of the inbox for one worker: every change of the instance wakes the worker's request.
const MAIL_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of answers in a request, and of those that are kept.
const MAX_ANSWERS: usize = 100;

/// The answer of a program to an offered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageAnswer {
    /// The program has the message and passes it to the model with the next step.
    Accepted,
    /// The program does not take it.
    Refused,
}

/// The answers of one worker, and the signal of a new message for it.
#[derive(Default)]
pub(crate) struct MessageAnswers {
    arrived: Notify,
    answers: watch::Sender<BTreeMap<Seq, MessageAnswer>>,
}

impl MessageAnswers {
    /// Signals that the store has a message for the turn.
    pub(crate) fn announce(&self) {
        self.arrived.notify_one();
    }

    fn record(&self, seqs: &[Seq], answer: MessageAnswer) {
        self.answers.send_modify(|answers| {
            answers.extend(seqs.iter().map(|seq| (*seq, answer)));
            while answers.len() > MAX_ANSWERS {
                answers.pop_first();
            }
        });
    }

    /// Waits for the answer to a message.
    pub(crate) async fn wait_answer(&self, seq: Seq) -> MessageAnswer {
        let mut answers = self.answers.subscribe();
        loop {
            if let Some(answer) = answers.borrow_and_update().get(&seq) {
                return *answer;
            }
            // The sender is a field of `self`, so the channel cannot close.
            let _ = answers.changed().await;
        }
    }
}

impl Attempts<'_> {
    /// Records the answers of a worker to earlier messages, and waits for the next messages to its turn.
    pub async fn messages(
        self,
        who: &Principal,
        attempt: AttemptId,
        request: TurnMessagesRequest,
    ) -> Result<TurnMessagesReply> {
        let agent = who.require_own_attempt(attempt)?;
        let TurnMessagesRequest { after, accepted, refused, mail_after } = request;
        let count = accepted.len() + refused.len();
        size_limits::check("the list of answers", count, MAX_ANSWERS)?;
        let worker = self.0.scheduler.worker(attempt);
        if let Some(worker) = &worker {
            worker.messages.record(&accepted, MessageAnswer::Accepted);
            worker.messages.record(&refused, MessageAnswer::Refused);
        }
        let deadline = Instant::now() + POLL_TIMEOUT;
        let mut seen = ChangeCursor::default();
        loop {
            let messages = self.0.messages_for_turn(agent, after).await?;
            let mail = match mail_after {
                Some(after) => self.0.mail_during_turn(agent, after).await?,
                None => Vec::new(),
            };
            if !messages.is_empty() || !mail.is_empty() {
                return Ok(TurnMessagesReply { messages, mail });
            }
            let arrived = async {
                match &worker {
                    Some(worker) => worker.messages.arrived.notified().await,
                    None => std::future::pending().await,
                }
            };
            let changed = async {
                match mail_after {
                    Some(_) => {
                        sleep(MAIL_INTERVAL).await;
                        self.0.store.change_wait(agent.fence.workflow, seen).await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = arrived => {}
                now = changed => seen = now,
                () = sleep_until(deadline) => return Ok(TurnMessagesReply::default()),
            }
        }
    }
}

impl Kernel {
    /// Returns the mail that has arrived after the messages of the turn and after `after`, the oldest first.
    async fn mail_during_turn(
        &self,
        agent: &AgentPrincipal,
        after: Seq,
    ) -> Result<Vec<MailNotice>> {
        let shown = self.store.attempt_get(agent.attempt).await?.shown;
        let last = shown.iter().map(|(seq, _)| *seq).max();
        let after = if after == Seq::default() { last.unwrap_or(after) } else { after };
        let (workflow, name) = (agent.fence.workflow, agent.fence.agent.clone());
        let mut mail = self.store.inbox_after(workflow, name, after).await?;
        mail.retain(|it| !shown.iter().any(|(seq, _)| *seq == it.message.seq));
        let notice = |it: ShownMessage| MailNotice {
            seq: it.message.seq,
            from: match &it.message.from {
                Sender::Agent(name) => format!("@{name}"),
                sender @ (Sender::User | Sender::System | Sender::Client(_)) => sender.to_string(),
            },
        };
        Ok(mail.into_iter().map(notice).collect())
    }

    async fn messages_for_turn(
        &self,
        agent: &AgentPrincipal,
        after: Seq,
    ) -> Result<Vec<TurnMessage>> {
        let pending = self.store.inbox_now(agent.fence.workflow, agent.fence.agent.clone()).await?;
        let mut messages: Vec<_> = pending.into_iter().map(|shown| shown.message).collect();
        messages.retain(|message| message.seq > after && message.attachments.is_empty());
        messages.sort_by_key(|message| message.seq);
        let message = |message| TurnMessage {
            text: prompt::turn_message(agent.attempt, &message),
            seq: message.seq,
        };
        Ok(messages.into_iter().map(message).collect())
    }
}
