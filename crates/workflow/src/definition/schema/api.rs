//! Keys of an agent with the backend `api`.

use agent_worker_backends::PROVIDERS;
use serde_json::{Value, json};

use super::nodes::{mapping, one_of, text_matching};

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
