//! Ask the model, call its tools, tell it what they answered, ask again, until it calls none.

use agent_worker_protocol::{FailureClass, Usage, WorkerEvent};

use crate::{
    model::{Conversation, Exchange, Failure, Model},
    report::Report,
    toolbox::Toolbox,
};

/// Runs a model to its last word, asking it at most `max_steps` times.
pub(crate) async fn tool_loop(
    model: &mut dyn Model,
    tools: &Toolbox,
    mut conversation: Conversation,
    max_steps: u32,
    report: &Report,
) -> Result<String, Failure> {
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
        conversation.exchanges.push(Exchange { text: step.text, calls: step.calls, results });
    }
    let why = format!("its model was asked {max_steps} times (max_steps) and still called tools");
    Err(Failure::new(FailureClass::Fatal, why))
}
