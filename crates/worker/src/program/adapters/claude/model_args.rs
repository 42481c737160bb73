//! Arguments about the model: its name, its effort, its limits and the schema of its answer.

use agent_worker_protocol::Keyword as _;
use serde_json::Value;

use crate::program::{ProgramInvocation, ProgramTurn};
use crate::turn::TurnContext;

/// Keywords that the API refuses at the top of a tool's schema. The program makes a tool of the schema.
const REFUSED_AT_TOP: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// Adds the arguments.
pub(super) fn add_model_args(turn: &ProgramTurn<'_>, invocation: &mut ProgramInvocation) {
    let TurnContext { request, limits, .. } = turn.context;
    if let Some(effort) = request.effort {
        invocation.args(["--effort", effort.word()]);
    }
    if let Some(steps) = limits.max_steps {
        invocation.args(["--max-turns", &steps.to_string()]);
    }
    if let Some(tokens) = limits.max_tokens {
        invocation.env("CLAUDE_CODE_MAX_OUTPUT_TOKENS", &tokens.to_string());
    }
    let schema = turn.context.answer_schema.as_ref().map(|answers| answers.schema());
    if let Some(schema) = schema.filter(|schema| is_schema_of_a_tool(schema)) {
        invocation.args(["--json-schema", &schema.to_string()]);
    }
    if let Some(model) = &turn.model {
        invocation.args(["--model", model]);
    }
}

/// Returns true if the arguments of a tool can have the schema.
fn is_schema_of_a_tool(schema: &Value) -> bool {
    schema["type"] == "object" && REFUSED_AT_TOP.iter().all(|name| schema.get(name).is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_plain_object_can_be_the_schema_of_a_tool() {
        for (schema, expected) in [
            (json!({"type": "object"}), true),
            (json!({"type": "object", "properties": {"a": {"anyOf": []}}}), true),
            (json!({"type": "object", "oneOf": []}), false),
            (json!({"type": "array"}), false),
            (json!({}), false),
        ] {
            assert_eq!(is_schema_of_a_tool(&schema), expected, "{schema}");
        }
    }
}
