//! Schema of `tasks:`. A list of tasks may contain lists, so both are definitions with names.

use serde_json::{Value, json};

use super::{
    AGENT_NAME_PATTERN, PROGRAM_PATTERN, VARIABLE_PATTERN,
    nodes::{integer, list, mapping, one_of, span, text, text_matching},
    step_env,
};

/// Returns the definitions to which [`tasks`] refers.
pub(super) fn definitions() -> Value {
    let mut tasks = list("", &json!({ "$ref": "#/definitions/task" }));
    tasks["minItems"] = 1.into();
    json!({ "tasks": tasks, "task": task() })
}

/// Returns the schema of a list of tasks.
pub(super) fn tasks(description: &str) -> Value {
    // A draft of this age ignores the keys next to a reference.
    json!({ "description": description, "allOf": [{ "$ref": "#/definitions/tasks" }] })
}

fn task() -> Value {
    let mut task = mapping(
        "One task, or a group of tasks.",
        &[],
        [
            ("name", text_matching("Name for `needs` and tasks.NAME.", VARIABLE_PATTERN)),
            ("as", text_matching("Name of the output, for ${{ NAME }}.", VARIABLE_PATTERN)),
            ("shell", text("Script of the task. A value inserted here is never code.")),
            ("send", text("Message to agents; the task is done with their answer.")),
            ("to", names("The agents that get the message.", &agent())),
            ("until", one_of("End of the task (answer).", &["answer", "idle"])),
            ("parallel", parallel()),
            ("then", tasks("Tasks one after the other.")),
            ("if", condition()),
            ("else", tasks("Tasks that run if the condition is false.")),
            ("needs", list("Tasks of the same list for which this one waits.", &name())),
            (
                "for_each",
                text("Array: the task runs once for each item, ${{ item }} at ${{ index }}."),
            ),
            ("max", integer("Maximum number of items at once (1).", 1, 100)),
            ("retry", retry()),
            ("timeout", span("Maximum duration of one attempt.")),
            (
                "continue_on_error",
                json!({ "type": "boolean", "description": "Let a failure of the task fail nothing else." }),
            ),
            ("format", one_of("Meaning of the output (text).", &["text", "json", "lines"])),
            ("cwd", text("Working folder, relative to the file (the folder of the command).")),
            ("env", step_env()),
            ("shell_program", text_matching("Interpreter of the script (bash).", PROGRAM_PATTERN)),
        ],
    );
    task["oneOf"] = json!([
        { "required": ["shell"] },
        { "required": ["send", "to"] },
        { "required": ["parallel"] },
        { "required": ["then"] },
    ]);
    task["dependencies"] = json!({ "else": ["if"], "max": ["for_each"] });
    task
}

fn agent() -> Value {
    text_matching("Name of an agent.", AGENT_NAME_PATTERN)
}

fn name() -> Value {
    text_matching("Name of a task.", VARIABLE_PATTERN)
}

fn names(description: &str, name: &Value) -> Value {
    let mut names = list("", name);
    names["minItems"] = 1.into();
    json!({ "description": description, "anyOf": [name, names] })
}

fn condition() -> Value {
    json!({
        "description": "Expression without which the task is skipped; it must be true or false.",
        "type": ["string", "boolean"],
    })
}

fn retry() -> Value {
    mapping(
        "Repetition of a task after a failure.",
        &["max_attempts"],
        [
            ("max_attempts", integer("Number of attempts together.", 1, 100)),
            ("backoff", span("Pause before the second attempt; it doubles each time (1s).")),
        ],
    )
}

fn parallel() -> Value {
    let block = mapping(
        "",
        &["tasks"],
        [
            ("tasks", tasks("Tasks that run at once.")),
            ("max", integer("Maximum number of tasks at once (all).", 1, 100)),
            (
                "fail_fast",
                json!({ "type": "boolean", "description": "Stop the other tasks after a failure." }),
            ),
        ],
    );
    json!({
        "description": "Tasks without an order but `needs`.",
        "anyOf": [{ "$ref": "#/definitions/tasks" }, block],
    })
}
