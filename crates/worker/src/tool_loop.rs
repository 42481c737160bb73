//! Ask the model, call its tools, tell it what they answered, ask again, until it calls none.

use agent_worker_protocol::{FailureClass, Usage, WorkerEvent};
use serde_json::Value;

use crate::{
    model::{Call, Conversation, Exchange, Failure, Model, ToolResult},
    report::Report,
    text::start,
    toolbox::Toolbox,
};

/// How much of a string among a call's arguments, of all of them, and of a result an event shows.
const STRING_SHOWN: usize = 1_000;
const ARGS_SHOWN: usize = 16_000;
const RESULT_SHOWN: usize = 500;

/// Runs a model to its last word, asking it at most `max_steps` times.
pub(crate) async fn tool_loop(
    model: &mut dyn Model,
    tools: &mut Toolbox,
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
            results.push(carry_out(call, tools, report).await);
        }
        conversation.exchanges.push(Exchange { text: step.text, calls: step.calls, results });
    }
    let why = format!("its model was asked {max_steps} times (max_steps) and still called tools");
    Err(Failure::new(FailureClass::Fatal, why))
}

/// One call, with an event before and after.
async fn carry_out(call: &Call, tools: &mut Toolbox, report: &Report) -> ToolResult {
    let Call { id, tool, args } = call;
    report.record(WorkerEvent::ToolCall {
        id: id.clone(),
        tool: tool.clone(),
        args: shown(Value::Object(args.clone())),
    });
    let result = tools.call(call, report).await;
    report.record(WorkerEvent::ToolResult {
        id: id.clone(),
        tool: tool.clone(),
        ok: result.is_done(),
        summary: start(result.text(), RESULT_SHOWN),
    });
    result
}

/// Arguments as an event shows them: whole where they are short. A document's text is in its document.
fn shown(args: Value) -> Value {
    let args = shorten(args);
    let text = args.to_string();
    if text.len() <= ARGS_SHOWN { args } else { Value::String(start(&text, ARGS_SHOWN)) }
}

fn shorten(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(start(&text, STRING_SHOWN)),
        Value::Array(items) => items.into_iter().map(shorten).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, shorten(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_shows_short_arguments_whole_and_long_ones_cut() {
        let short = json!({"message": "hello", "to": ["a"], "n": 1});
        assert_eq!(shown(short.clone()), short);
        let long = shown(json!({"content": "é".repeat(2_000), "n": [1]}));
        assert_eq!(long, json!({"content": format!("{}…", "é".repeat(500)), "n": [1]}));
        let many = shown(json!({"items": vec!["word"; 10_000]}));
        assert!(many.as_str().is_some_and(|text| text.len() < ARGS_SHOWN + 10));
    }
}
