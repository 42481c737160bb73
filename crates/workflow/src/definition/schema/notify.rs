//! JSON Schema of the section `notify:`.

use agent_worker_protocol::{Keyword as _, NotifyOccasion, NotifyWhen};
use serde_json::{Value, json};

use super::nodes::{list, mapping, one_of, text, text_matching};

const WEBHOOK_PATTERN: &str = "^(https?://[^/]|$)";

/// Returns the schema; `program` is the pattern of a program's name.
pub(super) fn settings(program: &str) -> Value {
    let words =
        list("A program and its arguments; no shell.", &text("The program, or an argument."));
    let occasions = NotifyOccasion::ALL.map(NotifyOccasion::word);
    let settings = mapping(
        "Channels that tell a person when the run needs them.",
        &[],
        [
            (
                "desktop",
                json!({ "type": "boolean", "description": "Show a notification on the desktop." }),
            ),
            (
                "command",
                json!({
                    "description": "The program that gets the notification as JSON on stdin.",
                    "anyOf": [text_matching("The program, without arguments.", program), words],
                }),
            ),
            (
                "webhook",
                text_matching("The URL that gets the notification as JSON.", WEBHOOK_PATTERN),
            ),
            (
                "when",
                one_of(
                    "Condition: no person follows the run at a terminal, or none (unwatched).",
                    &[NotifyWhen::Unwatched.word(), NotifyWhen::Always.word()],
                ),
            ),
            ("on", list("Occasions of the notifications (all).", &one_of("", &occasions))),
        ],
    );
    json!({
        "description": "Channels that tell a person when the run needs them; false: none.",
        "anyOf": [settings, { "const": false }],
    })
}
