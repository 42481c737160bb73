//! The backend for models without a program: asks the model, calls its tools, returns their results to it, and
//! repeats this until the model calls no tool.

use agent_worker_protocol::{FailureClass, Usage, WorkerEvent};
use async_trait::async_trait;

use crate::{
    backend::AgentBackend,
    model::{Model, ModelConversation, ToolExchange},
    shell::Shell,
    turn::{TurnAnswer, TurnContext, TurnFailure},
};

/// Maximum number of model calls of a turn, if the workflow file sets none.
const DEFAULT_MAX_STEPS: u32 = 30;

/// Runs the turns of a model through its tools.
pub(crate) struct ToolLoop<M> {
    model: M,
}

impl<M: Model> ToolLoop<M> {
    pub(crate) fn new(model: M) -> Self {
        Self { model }
    }

    async fn run(&mut self, turn: &TurnContext) -> Result<TurnAnswer, TurnFailure> {
        let tools = turn.tools.clone().with_shell(Shell::new(turn.child_env.clone()));
        let mut conversation = ModelConversation {
            system_prompt: turn.request.system_prompt.clone(),
            prompt: turn.request.prompt.clone(),
            exchanges: Vec::new(),
        };
        let max_steps = turn.limits.max_steps.unwrap_or(DEFAULT_MAX_STEPS);
        for _ in 0..max_steps {
            let step = self.model.step(&conversation, &turn.reporter).await?;
            if step.usage != Usage::default() {
                turn.reporter.record(WorkerEvent::Usage(step.usage));
            }
            if step.calls.is_empty() {
                return Ok(step.text.into());
            }
            let mut results = Vec::with_capacity(step.calls.len());
            for call in &step.calls {
                results.push(tools.call(call).await);
            }
            let exchange = ToolExchange { text: step.text, calls: step.calls, results };
            conversation.exchanges.push(exchange);
        }
        let steps = if max_steps == 1 { "step" } else { "steps" };
        let why = format!("the model still called tools after {max_steps} {steps} (max_steps)");
        Err(TurnFailure::new(FailureClass::Fatal, why))
    }
}

#[async_trait]
impl<M: Model> AgentBackend for ToolLoop<M> {
    async fn turn(&mut self, turn: TurnContext) -> Result<TurnAnswer, TurnFailure> {
        turn.until_cancelled(self.run(&turn)).await
    }
}
