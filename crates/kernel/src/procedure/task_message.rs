//! The message of a task: written once, with the start of the task; then the task waits for the answers. With `retry`, a
//! new message takes the place of one that became a dead letter or got no answer in time.

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use agent_worker_protocol::{AgentName, DeliveryState, Receipt, Sender, Seq, Span, TaskState};
use agent_worker_store::{
    ChangeCursor, Error as StoreError, NewMessage, TaskOutput, TaskResend, TaskRow, WriteActor,
    WriteContext,
};
use agent_worker_workflow::{MessageTask, SendEnd, TaskDefinition, TaskFormat};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    task_error::TaskError,
    task_run::{TaskResult, TaskRun},
};
use crate::{
    messaging::{
        recipients::{RecipientSpec, resolve_recipients},
        size_limits::{self, MessageText},
    },
    scheduling::retry_policy::WorkerStopReason,
};

/// Maximum number of turns that are ended for one message.
const MAX_WITHDRAWALS: usize = 10;

/// End of the wait for the recipients of a message.
enum MessageEnd {
    Answered,
    Failed(String),
    /// An agent gave the message up.
    Dead(String),
    TimedOut,
    Stopped,
}

impl TaskRun {
    /// Sends the message of a task, and waits for its end.
    pub(super) async fn run_message(
        &self,
        task: &TaskDefinition,
        message: &MessageTask,
    ) -> Result<TaskResult, TaskError> {
        let agents = agent_names(message)?;
        let mut sent = if let Some(row) = self.row() {
            row
        } else {
            let new = self.prepare_task_message(task, message, &agents).await?;
            self.start(Some(new)).await?
        };
        loop {
            let seq = match sent.message {
                Some(seq) if sent.state == TaskState::Running => seq,
                Some(_) | None => return Err(TaskError::Abandoned),
            };
            let why = match self.wait_for_recipients(task, message.until, seq, &agents).await? {
                MessageEnd::Answered => {
                    let output = self.answers(message, seq, &agents).await?;
                    return Ok(TaskResult { output, ..TaskResult::default() });
                }
                MessageEnd::Failed(why) => return Ok(TaskResult::failed(why)),
                MessageEnd::Dead(why) => why,
                MessageEnd::TimedOut => {
                    let limit = task.timeout.map(|limit| limit.to_string()).unwrap_or_default();
                    self.withdraw(seq, &agents, "timed out").await?;
                    format!("no answer after {limit} (`timeout`)")
                }
                // The end of a run drops its messages itself.
                MessageEnd::Stopped if self.is_interrupted() => return Err(TaskError::Abandoned),
                MessageEnd::Stopped => {
                    self.withdraw(seq, &agents, "was stopped").await?;
                    return Ok(TaskResult::stopped("stopped before the answer"));
                }
            };
            if let Some(result) = self.unless_retried(task, TaskResult::failed(&*why)).await {
                if result.is_stopped && !self.is_interrupted() {
                    self.withdraw(seq, &agents, "was stopped").await?;
                }
                return Ok(result);
            }
            self.withdraw(seq, &agents, "sends its message again").await?;
            let new = self.prepare_task_message(task, message, &agents).await?;
            sent = self.resend(seq, new, why).await?;
        }
    }

    /// Sends a new message in the place of the last one.
    async fn resend(
        &self,
        previous: Seq,
        message: NewMessage,
        why: String,
    ) -> Result<TaskRow, TaskError> {
        let resend = TaskResend { key: self.key.clone(), previous, message, why };
        let now = self.kernel.now();
        let row = self.kernel.store.task_resend(self.run_context.run, resend, now).await?;
        self.tasks.put_row(row.clone());
        Ok(row)
    }

    async fn prepare_task_message(
        &self,
        task: &TaskDefinition,
        message: &MessageTask,
        agents: &[AgentName],
    ) -> Result<NewMessage, TaskError> {
        let scope = self.scope(task).await?;
        let rendered = message.text.render(&scope)?;
        let (body, data) = (rendered.text, rendered.data);
        // An agent may have left, or joined, since the run began.
        let current = self.kernel.run_context(self.run_context.run).await?;
        let address = RecipientSpec {
            text: &body,
            data: &data,
            to: agents,
            alone: true,
            ..RecipientSpec::default()
        };
        let reached = resolve_recipients(&address, &Sender::User, &current.team);
        let reached = reached.map_err(|unknown| {
            TaskError::Failed(format!("there is no agent `{}` any more", unknown.name))
        })?;
        let (by, text) = (WriteContext::new(WriteActor::User), MessageText { body, data });
        let new = self.kernel.prepare_message(&by, &current, text, &reached, 0, None).await;
        new.map_err(|error| TaskError::Failed(error.to_string()))
    }

    async fn wait_for_recipients(
        &self,
        task: &TaskDefinition,
        until: SendEnd,
        seq: Seq,
        agents: &[AgentName],
    ) -> Result<MessageEnd, TaskError> {
        let kernel = &self.kernel;
        let deadline = match task.timeout {
            Some(limit) => Some(self.answer_deadline(seq, limit).await?),
            None => None,
        };
        let mut team = self.tasks.team.subscribe();
        let mut seen = ChangeCursor::default();
        // Settlements with a higher number began after the message was written, and after all had acted on it.
        let (mut written_at, mut acted_at) = (None, None);
        loop {
            let number = self.tasks.settlements.load(Ordering::Relaxed);
            let written_at = *written_at.get_or_insert(number);
            let rest = *team.borrow_and_update();
            let receipts = kernel.store.message_receipts(self.run_context.workflow, seq).await?;
            let is_missing = |receipt: &&Receipt| {
                agents.contains(&receipt.agent) && receipt.state != DeliveryState::Acted
            };
            let missing: Vec<&Receipt> = receipts.iter().filter(is_missing).collect();
            if let Some(lost) = lost_message(&missing, deadline) {
                return Ok(lost);
            }
            if let Some(receipt) = missing.first() {
                // The team rests, and the message is not read.
                if rest.is_idle && rest.number > written_at {
                    let why = format!("the agent `{}` is stopped", receipt.agent);
                    return Ok(MessageEnd::Failed(why));
                }
            } else if until == SendEnd::Answer {
                return Ok(MessageEnd::Answered);
            } else if let Some(acted_at) = acted_at {
                if rest.is_idle && rest.number > acted_at {
                    return Ok(MessageEnd::Answered);
                }
            } else {
                acted_at = Some(self.tasks.settlements.load(Ordering::Relaxed));
                self.tasks.changed.notify_one();
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(MessageEnd::Stopped),
                change = kernel.store.change_wait(self.run_context.workflow, seen) => seen = change,
                _ = team.changed() => {}
                () = sleep_until(deadline) => return Ok(MessageEnd::TimedOut),
            }
        }
    }

    /// Returns the end of the time for the answers to a message.
    async fn answer_deadline(&self, seq: Seq, limit: Span) -> Result<Instant, TaskError> {
        let kernel = &self.kernel;
        let messages = kernel.store.message_get(self.run_context.workflow, vec![seq]).await?;
        let now = kernel.now().wall;
        let written = messages.first().map_or(now, |message| message.ts);
        let past = now.get().saturating_sub(written.get()).max(0);
        let past = Duration::from_millis(past.unsigned_abs());
        Ok(Instant::now() + limit.duration().saturating_sub(past))
    }

    /// Returns the answers: the text of one agent, or an object with the texts of all.
    async fn answers(
        &self,
        message: &MessageTask,
        seq: Seq,
        agents: &[AgentName],
    ) -> Result<Option<TaskOutput>, TaskError> {
        let mut texts = BTreeMap::new();
        for (agent, text) in self.answer_texts(seq).await? {
            texts.insert(agent, text);
        }
        let format = |agent: &AgentName| match (message.format, self.has_schema(agent)) {
            (TaskFormat::Text, true) => TaskFormat::Json,
            (format, _) => format,
        };
        if let [agent] = agents {
            let Some(text) = texts.remove(agent) else { return Ok(None) };
            let output = self.kernel.task_output(&self.run_context, text, format(agent)).await?;
            return Ok(Some(output));
        }
        let mut all = serde_json::Map::new();
        for agent in agents {
            let text = texts.remove(agent);
            let value = match (text, format(agent)) {
                (None, _) => Value::Null,
                (Some(text), TaskFormat::Text) => Value::String(text),
                (Some(text), TaskFormat::Lines) => text.lines().map(Value::from).collect(),
                (Some(text), TaskFormat::Json) => serde_json::from_str(&text).map_err(|error| {
                    TaskError::Failed(format!("the answer of {agent} is not JSON: {error}"))
                })?,
            };
            all.insert(agent.to_string(), value);
        }
        let text = Value::Object(all).to_string();
        Ok(Some(self.kernel.task_output(&self.run_context, text, TaskFormat::Json).await?))
    }

    fn has_schema(&self, agent: &AgentName) -> bool {
        let settings = self.run_context.agent(agent);
        settings.is_ok_and(|settings| settings.output_schema.is_some())
    }

    /// Returns the whole texts of the answers to a message.
    async fn answer_texts(&self, seq: Seq) -> Result<Vec<(AgentName, String)>, TaskError> {
        let (store, workflow) = (&self.kernel.store, self.run_context.workflow);
        let answers = store.message_answers(workflow, seq).await?;
        let seqs = answers.iter().map(|(_, answer)| *answer).collect();
        let messages = store.message_get(workflow, seqs).await?;
        let mut texts = Vec::new();
        for message in messages {
            let Some((agent, _)) = answers.iter().find(|(_, answer)| *answer == message.seq) else {
                continue;
            };
            let text = match message.resource {
                None => message.body,
                Some(id) => {
                    let all = 0..size_limits::MAX_RESOURCE_BYTES as u64;
                    let part = store.resource_get(workflow, id, all).await?;
                    String::from_utf8_lossy(&part.bytes).into_owned()
                }
            };
            texts.push((agent.clone(), text));
        }
        Ok(texts)
    }

    /// Drops what the recipients have not acted on, and ends the turns that were shown the message. Dead letters stay.
    async fn withdraw(&self, seq: Seq, agents: &[AgentName], why: &str) -> Result<(), TaskError> {
        let (kernel, workflow) = (&self.kernel, self.run_context.workflow);
        let why = &format!("the task `{}` {why}", self.key.path);
        for agent in agents {
            // The agent may begin a turn between the end of its turn and the drop.
            for _ in 0..MAX_WITHDRAWALS {
                let receipts = kernel.store.message_receipts(workflow, seq).await?;
                let receipt = receipts.iter().find(|receipt| receipt.agent == *agent);
                match receipt.map(|receipt| receipt.state) {
                    Some(DeliveryState::Leased) => {
                        if let Some(worker) = kernel.scheduler.worker_of(workflow, agent) {
                            worker.request_stop(WorkerStopReason::Interrupted(why.clone()));
                            worker.wait_stopped().await;
                        }
                    }
                    Some(DeliveryState::Pending) => {}
                    Some(DeliveryState::Acted | DeliveryState::Dead | DeliveryState::Dropped)
                    | None => break,
                }
                let (by, now) = (WriteContext::new(WriteActor::User), kernel.now());
                let (store, agent, why) = (&kernel.store, agent.clone(), why.clone());
                match store.delivery_drop(by, workflow, agent, seq, why, now).await {
                    Ok(()) => break,
                    Err(StoreError::WrongDeliveryState(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

fn agent_names(message: &MessageTask) -> Result<Vec<AgentName>, TaskError> {
    let parse = |name: &String| {
        name.parse().map_err(|error| TaskError::Failed(format!("`{name}`: {error}")))
    };
    message.to.iter().map(parse).collect()
}

/// Returns the end of a message that will not have all of its answers. Once its time is over, it is dropped because of that.
fn lost_message(missing: &[&Receipt], deadline: Option<Instant>) -> Option<MessageEnd> {
    let is = |state| move |receipt: &&&Receipt| receipt.state == state;
    if let Some(dead) = missing.iter().find(is(DeliveryState::Dead)) {
        return lost_text(dead).map(MessageEnd::Dead);
    }
    let dropped = missing.iter().find(is(DeliveryState::Dropped))?;
    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
        return Some(MessageEnd::TimedOut);
    }
    lost_text(dropped).map(MessageEnd::Failed)
}

/// Describes a delivery that will have no answer.
fn lost_text(receipt: &Receipt) -> Option<String> {
    let what = match receipt.state {
        DeliveryState::Dead => "gave the message up",
        DeliveryState::Dropped => "did not get the message",
        DeliveryState::Pending | DeliveryState::Leased | DeliveryState::Acted => return None,
    };
    let why = receipt.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    Some(format!("the agent `{}` {what}{why}", receipt.agent))
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
