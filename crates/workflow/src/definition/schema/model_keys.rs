//! Keys of an agent about its model and the requests to it.

use agent_worker_backends::PROVIDERS;
use serde_json::{Value, json};

use super::nodes::{integer, list, mapping, one_of, text, text_matching};
use crate::agents;

const PROVIDER_PATTERN: &str = "^[A-Za-z0-9._-]+$";
const URL_PATTERN: &str = r"^https?://[^/\s?#@][^\s?#@]*$";
const SECRET_PATTERN: &str = r"^\$(\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Za-z_][A-Za-z0-9_]*)$";

pub(super) fn provider() -> Value {
    let settings = mapping(
        "Provider with an endpoint or a key of its own.",
        &["name"],
        [
            ("name", text_matching("Name of the provider.", PROVIDER_PATTERN)),
            ("base_url", text_matching("Address of the API.", URL_PATTERN)),
            ("api_key", text_matching("Variable with the key, as `$NAME`.", SECRET_PATTERN)),
            (
                "headers",
                json!({
                    "type": "object",
                    "description": "Further headers; a value that is `$NAME` comes from the environment.",
                    "additionalProperties": { "type": "string" },
                }),
            ),
        ],
    );
    let names = PROVIDERS.each_ref().map(|row| row.name);
    json!({
        "description": "Provider of the model, for `backend: api`.",
        "anyOf": [one_of("", &names), settings],
    })
}

pub(super) fn context_window() -> Value {
    let about = "Context window of the model in tokens, for `backend: api`, if the table of models lacks it.";
    integer(about, 1_000, 100_000_000)
}

pub(super) fn temperature() -> Value {
    json!({
        "description": "Randomness of the answers, for `backend: api`.",
        "type": "number", "minimum": 0, "maximum": 2,
    })
}

pub(super) fn extra() -> Value {
    let about = "Further fields of the body of each request, for `backend: api`.";
    json!({ "type": "object", "description": about })
}

pub(super) fn output_schema() -> Value {
    let file =
        text_matching("File with the schema, beneath this file's folder.", r"^[^\s]+\.json$");
    json!({
        "description": "JSON Schema (2020-12) of the agent's answers, or a file with it.",
        "anyOf": [{ "type": "object" }, file],
    })
}

pub(super) fn effort() -> Value {
    let words = ["low", "medium", "high", "xhigh", "max"];
    one_of(
        "Effort of the model's reasoning (claude, codex, api; opencode and gemini up to high).",
        &words,
    )
}

pub(super) fn fallback() -> Value {
    list("Models for a turn whose model is overloaded or used up.", &text("A model."))
}

pub(super) fn max_tokens() -> Value {
    let backends = agents::limiting_backends(|can| can.max_tokens).join(", ");
    let about = format!("Maximum number of tokens of one answer of the model ({backends}).");
    integer(&about, 1, 10_000_000)
}

pub(super) fn max_steps() -> Value {
    let backends = agents::limiting_backends(|can| can.max_steps).join(", ");
    let about =
        format!("Maximum number of model calls of one attempt ({backends}; 30 for `mock`).");
    integer(&about, 1, 10_000)
}

pub(super) fn mock_tools() -> Value {
    let any = |about: &str| json!({ "description": about });
    let error = || text("Reason of a failed call, instead of a result.");
    let result = || any("Result of the call: text, or a value that becomes JSON.");
    let when = json!({
        "description": "Arguments that a call must have; `*` in a text stands for any text.",
        "type": "object",
    });
    let one =
        mapping("One result.", &[], [("when", when), ("result", result()), ("error", error())]);
    let tool = mapping(
        "One tool.",
        &["name"],
        [
            ("name", text_matching("Name that the model calls.", r"^[^\s()*]{1,128}$")),
            ("description", text("Description for the model; optional for a built-in tool.")),
            ("schema", json!({ "description": "JSON Schema of the arguments.", "type": "object" })),
            ("result", result()),
            ("error", error()),
            ("results", list("Results; the first that matches is used.", &one)),
        ],
    );
    list("Tools with scripted results, for `backend: api` and `backend: mock`.", &tool)
}
