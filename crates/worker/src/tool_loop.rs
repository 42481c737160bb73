//! Ask the model, call its tools, tell it what they answered, ask again, until it calls none.

use agent_worker_protocol::{FailureClass, Usage, WorkerEvent};

use crate::{
    event_reporter::EventReporter,
    model::{ModelConversation, StepModel, ToolExchange, TurnFailure},
    toolbox::Toolbox,
};

/// Runs a model to its last word, asking it at most `max_steps` times.
pub(crate) async fn tool_loop(
    model: &mut dyn StepModel,
    tools: &Toolbox,
    mut conversation: ModelConversation,
    max_steps: u32,
    report: &EventReporter,
) -> Result<String, TurnFailure> {
    for _ in 0..max_steps {
        let step = model.step(&conversation, report).await?;
        if step.usage != Usage::default() {
            report.record(WorkerEvent::Usage(step.usage));
        }
        if step.calls.is_empty() {
            return Ok(step.text);
        }
        let mut results = Vec::with_capacity(step.calls.len());
        for call in &step.calls {
            results.push(tools.call(call, report).await);
        }
        conversation.exchanges.push(ToolExchange { text: step.text, calls: step.calls, results });
    }
    let why = format!("its model was asked {max_steps} times (max_steps) and still called tools");
    Err(TurnFailure::new(FailureClass::Fatal, why))
}
