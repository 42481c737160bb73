//! The backend for models without a program: asks the model, calls its tools, returns their results to it, and
//! repeats this until the model calls no tool.
//!
//! Consecutive calls of a model that only read run in parallel; any other call runs alone, in the given order. A message that
//! joins the turn reaches the model with its next step; other mail is announced to it in one line. Invariant: a joined message is recorded after a step that had it.

use std::{collections::VecDeque, pin::pin};

use agent_worker_protocol::{
    FailureClass, Keyword as _, MailNotice, ToolName, TurnMessage, WorkerEvent,
};
use async_trait::async_trait;
use tokio::task::JoinSet;

use crate::{
    backend::AgentBackend,
    mock_tools::MockTools,
    model::{Model, ModelConversation, ModelToolCall, ToolExchange, ToolResult},
    shell::Shell,
    structured_answer::{rejection, repair_prompt},
    tool_set::{CallEffect, ToolSet},
    turn::{TurnAnswer, TurnContext, TurnFailure},
    turn_messages::{TurnMessages, mail_announcement},
};

/// Maximum number of model calls of a turn, if the workflow file sets none.
const DEFAULT_MAX_STEPS: u32 = 30;

/// Runs the turns of a model through its tools.
pub(crate) struct ToolLoop<M> {
    model: M,
    author: StepAuthor,
}

/// The author of the steps, which decides about tools and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepAuthor {
    /// The workflow file: it may run shell commands, its calls run in order, and a message interrupts the turn.
    Script,
    /// A language model: it has only the tools that it is offered, and a message joins the turn.
    Model,
}

/// Messages to the running turn, received and not yet with the model.
struct TurnMailbox {
    source: Option<TurnMessages>,
    waiting: VecDeque<TurnMessage>,
}

impl<M: Model> ToolLoop<M> {
    pub(crate) fn new(model: M, author: StepAuthor) -> Self {
        Self { model, author }
    }

    /// Returns the model after its turn.
    pub(crate) fn into_model(self) -> M {
        self.model
    }

    /// Runs the turn to its answer, without regard to its cancellation.
    pub(crate) async fn run(&mut self, turn: &TurnContext) -> Result<TurnAnswer, TurnFailure> {
        let tools = turn.tools.clone();
        let (tools, source) = match self.author {
            StepAuthor::Script => {
                let tools = tools.with_mocks(MockTools::without_rules(turn));
                (tools.with_shell(Shell::new(turn.child_env.clone())), None)
            }
            StepAuthor::Model => (tools, Some(turn.new_messages().with_mail())),
        };
        let mut mailbox = TurnMailbox { source, waiting: VecDeque::new() };
        let mut conversation = ModelConversation {
            system_prompt: turn.request.system_prompt.clone(),
            prompt: turn.request.prompt.clone(),
            exchanges: Vec::new(),
        };
        let (mut answers, mut sent) = (Vec::new(), Vec::new());
        let mut is_repaired = self.author == StepAuthor::Script;
        let max_steps = turn.limits.max_steps.unwrap_or(DEFAULT_MAX_STEPS);
        for _ in 0..max_steps {
            let step =
                mailbox.receive_during(self.model.step(&conversation, &turn.reporter)).await?;
            mailbox.record_joined(&mut sent);
            let is_last = step.calls.is_empty();
            if is_last && !step.text.is_empty() {
                answers.push(step.text);
            }
            if is_last && mailbox.waiting.is_empty() {
                let Some(schema) = &turn.answer_schema else {
                    return Ok(answers.join("\n\n").into());
                };
                let answer = answers.pop().unwrap_or_default();
                match schema.read(&answer) {
                    Err(why) if !is_repaired => {
                        let retried = format!("{}; asking once more", rejection(&why));
                        turn.reporter.record(WorkerEvent::Retry { why: retried });
                        conversation.exchanges.push(ToolExchange::of_message(repair_prompt(&why)));
                        is_repaired = true;
                        continue;
                    }
                    Ok(_) | Err(_) => return Ok(answer.into()),
                }
            }
            // A call of this tool reads the mail that has arrived so far.
            let reads_mail = step.calls.iter().any(|call| call.tool == ToolName::InboxCheck.word());
            let mut mail = mailbox.take_mail();
            if reads_mail {
                mail.clear();
            }
            let results = mailbox.receive_during(call_all(self.author, &tools, &step.calls)).await;
            mail.extend(mailbox.take_mail());
            sent.extend(mailbox.waiting.drain(..));
            let messages = sent.iter().map(|message| message.text.clone());
            let messages = messages.chain(mail_announcement(&mail)).collect();
            conversation.exchanges.push(ToolExchange { calls: step.calls, results, messages });
        }
        let steps = if max_steps == 1 { "step" } else { "steps" };
        let why = format!("the model still called tools after {max_steps} {steps} (max_steps)");
        Err(TurnFailure::new(FailureClass::Fatal, why))
    }
}

/// Carries out the calls of a step, and returns one result for each in the same order.
async fn call_all(author: StepAuthor, tools: &ToolSet, calls: &[ModelToolCall]) -> Vec<ToolResult> {
    let mut results = Vec::with_capacity(calls.len());
    let is_parallel = |first: &ModelToolCall, second: &ModelToolCall| {
        author == StepAuthor::Model && is_read(first) && is_read(second)
    };
    for group in calls.chunk_by(is_parallel) {
        match group {
            [only] => results.push(tools.call(only).await),
            group => results.extend(call_in_parallel(tools, group).await),
        }
    }
    results
}

fn is_read(call: &ModelToolCall) -> bool {
    ToolSet::effect(&call.tool) == CallEffect::Read
}

async fn call_in_parallel(tools: &ToolSet, calls: &[ModelToolCall]) -> Vec<ToolResult> {
    let mut running = JoinSet::new();
    for (place, call) in calls.iter().cloned().enumerate() {
        let tools = tools.clone();
        running.spawn(async move { (place, tools.call(&call).await) });
    }
    let mut results = vec![ToolResult::Failed("the call was cancelled".to_owned()); calls.len()];
    while let Some(done) = running.join_next().await {
        if let Ok((place, result)) = done {
            results[place] = result;
        }
    }
    results
}

impl TurnMailbox {
    /// Completes `work`, and receives messages meanwhile.
    async fn receive_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let Some(source) = &mut self.source else { return work.await };
        loop {
            tokio::select! {
                done = &mut work => return done,
                message = source.next() => {
                    source.accept(message.seq);
                    self.waiting.push_back(message);
                }
            }
        }
    }

    /// Takes the notices of mail that has arrived.
    fn take_mail(&mut self) -> Vec<MailNotice> {
        self.source.as_mut().map(TurnMessages::take_mail).unwrap_or_default()
    }

    /// Records that the model has got these messages.
    fn record_joined(&self, sent: &mut Vec<TurnMessage>) {
        for message in sent.drain(..) {
            if let Some(source) = &self.source {
                source.record_joined(message.seq);
            }
        }
    }
}

#[async_trait]
impl<M: Model> AgentBackend for ToolLoop<M> {
    async fn turn(&mut self, turn: TurnContext) -> Result<TurnAnswer, TurnFailure> {
        turn.until_cancelled(Box::pin(self.run(&turn))).await
    }
}
