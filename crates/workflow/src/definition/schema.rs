//! JSON Schema of the workflow file, with which an editor completes keys and underlines misspelt ones.
//!
//! The reader is authoritative, not this schema: it checks more (references, mentions, shells) and reports it better.
//! A file that an editor accepts has the keys, the words and the ranges that the reader accepts; a test compares the
//! two. A key without a value is absent for the reader and a mistake here, because no author intends it.

use agent_worker_backends::ACP_AGENTS;
use agent_worker_protocol::{SHELL_TOOL, ToolName};
use serde_json::{Map, Value, json};

use crate::{agents::backend, definition::params::RESERVED_OPTIONS};

/// Draft that the YAML support of every editor knows.
const SCHEMA_DRAFT_URL: &str = "http://json-schema.org/draft-07/schema#";
const AGENT_NAME_PATTERN: &str = "^[A-Za-z][A-Za-z0-9_-]{0,31}$";
const INSTANCE_NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";
const VARIABLE_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]{0,63}$";
const SPAN_PATTERN: &str = "^[0-9]+(ms|s|m|h|d)$";
const FILE_PATTERN: &str = r"^(\./)?[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$";
const FOLDER_PATTERN: &str = "^[^/]";
const DATABASE_PATTERN: &str = "^[^/](.*[^/])?$";
const TOOL_PATTERN: &str = r"^[A-Za-z0-9_.-]+(\([^~*)][^*]*\*?\))?$";
const PROGRAM_PATTERN: &str = r"^[^\s]+$";

/// Returns the JSON Schema of a workflow file.
pub fn schema() -> Value {
    let mut schema = mapping(
        "A team of agents, for agent-worker.",
        &["agents"],
        [
            (
                "name",
                text_matching(
                    "What the workflow is called; by default as its file.",
                    INSTANCE_NAME_PATTERN,
                ),
            ),
            ("params", list("What the user may or must give: run FILE --NAME VALUE.", &param())),
            ("agents", agents()),
            ("context", context()),
            ("setup", list("Commands that run before anybody is woken, in order.", &step())),
            ("kickoff", text("The first message, from the user. It wakes whom it names as @name.")),
            ("limits", limits()),
        ],
    );
    if let Value::Object(fields) = &mut schema {
        fields.insert("$schema".into(), SCHEMA_DRAFT_URL.into());
        fields.insert("title".into(), "agent-worker workflow".into());
    }
    schema
}

fn param() -> Value {
    let mut param = mapping(
        "One parameter.",
        &["name"],
        [
            ("name", text_matching("For --NAME and ${{ params.NAME }}.", VARIABLE_PATTERN)),
            ("description", text("What it is for.")),
            ("required", json!({ "type": "boolean", "description": "Refuse a run without it." })),
            ("default", text("Its value when it is not given.")),
        ],
    );
    param["properties"]["name"]["not"] = json!({ "enum": RESERVED_OPTIONS });
    let required = json!({ "required": { "const": true } });
    param["not"] = json!({ "properties": required, "required": ["required", "default"] });
    param
}

fn agents() -> Value {
    json!({
        "description": "Who takes part, by name.",
        "type": "object",
        "minProperties": 1,
        "propertyNames": {
            "pattern": AGENT_NAME_PATTERN,
            "not": { "pattern": "^([Aa][Ll][Ll]|[Uu][Ss][Ee][Rr]|[Ss][Yy][Ss][Tt][Ee][Mm]|\
                                 [Gg][Ll][Oo][Bb][Aa][Ll]|[Nn][Oo][Bb][Oo][Dd][Yy])$" },
        },
        "additionalProperties": agent(),
    })
}

fn agent() -> Value {
    let rules = list("The script of a mock agent; the first rule that fits.", &rule());
    let words: Vec<_> = backend::backend_words().collect();
    let mut agent = mapping(
        "One agent.",
        &[],
        [
            ("backend", one_of("How its worker reaches a model.", &words)),
            (
                "agent",
                one_of(
                    "Which agent of the Agent Client Protocol, for `backend: acp`.",
                    &ACP_AGENTS.each_ref().map(|agent| agent.name),
                ),
            ),
            ("model", text("The model, for backends that ask one.")),
            (
                "system_prompt",
                text(
                    "Who it is: text, or one word ending in .md or .txt: a file beneath this one.",
                ),
            ),
            ("max_tokens", integer("The most one answer may have.", 1, 10_000_000)),
            ("max_steps", integer("How often one attempt may ask its model (30).", 1, 10_000)),
            ("timeout", span("The longest an attempt may take (30m).")),
            ("silence", span("The longest an attempt may be silent (5m).")),
            ("retry", retry()),
            ("cwd", text("Its working folder, relative to where the command was given.")),
            (
                "env",
                list(
                    "Names of variables passed through to it.",
                    &text_matching("", VARIABLE_PATTERN),
                ),
            ),
            ("requires", requires()),
            ("permissions", permissions()),
            ("command", command()),
            ("mode", one_of("Whose settings and login a program uses.", &["isolated", "login"])),
            ("session", one_of("What a turn knows of the last one.", &["continue", "fresh"])),
            ("mock", rules),
        ],
    );
    // An agent needs a backend, explicitly or derived from other keys.
    let known =
        json!({ "model": { "pattern": "^(claude|codex|gemini|opencode|cursor|mock)([/:]|$)" } });
    agent["anyOf"] = json!([
        { "required": ["backend"] },
        { "required": ["mock"] },
        { "required": ["command"] },
        { "required": ["model"], "properties": known },
    ]);
    agent["properties"]["model"]["examples"] = json!(["mock/any"]);
    agent
}

fn command() -> Value {
    let words = list("A program and its arguments.", &text("The program, or an argument."));
    json!({ "description": "The program, if it is not the usual one.", "anyOf": [text("Alone."), words] })
}

fn permissions() -> Value {
    let pattern =
        text_matching("`Tool`, `Tool(all of it)` or `Tool(its beginning*)`.", TOOL_PATTERN);
    mapping(
        "What it may do by itself: `deny` comes before `ask`, `ask` before `allow`.",
        &[],
        [
            ("default", one_of("What holds of the rest (ask).", &["allow", "ask", "deny"])),
            ("allow", list("What it does without asking.", &pattern)),
            ("ask", list("What it always asks for.", &pattern)),
            ("deny", list("What it never does.", &pattern)),
            ("on_ask", one_of("While nobody is there (wait).", &["wait", "deny", "fail"])),
        ],
    )
}

fn requires() -> Value {
    let gate = || text("The gate a vote opens.");
    let tools = ToolName::ALL.iter().filter(|tool| tool.writes());
    let tools = tools.map(|tool| (tool.word(), gate()));
    mapping("Gates that must be open before it may call a tool.", &[], tools)
}

fn retry() -> Value {
    mapping(
        "How a failed attempt is tried again.",
        &[],
        [
            ("max_attempts", integer("How often, counting the first (3).", 1, 100)),
            ("backoff", span("The first pause (1s).")),
            (
                "multiplier",
                json!({
                    "description": "What each pause is multiplied by (2).",
                    "type": "number", "minimum": 1, "maximum": 100,
                }),
            ),
        ],
    )
}

fn rule() -> Value {
    let fail = ["transient", "rate_limited", "fatal", "crash", "hang"];
    let exit = || integer("The status its worker exits with, without a word.", 0, 255);
    let mut rule = mapping(
        "One rule: sleep, calls, run, fail, say, in this order.",
        &[],
        [
            ("on", text("Text that must occur in what woke the agent; absent: always.")),
            ("sleep", span("How long before anything else happens.")),
            ("calls", list("The tools it calls, in order.", &call())),
            ("run", text("A shell command; its output is the answer if there is no `say`.")),
            ("say", text("Its final text.")),
            (
                "fail",
                json!({
                    "description": "How it fails.",
                    "anyOf": [{ "enum": fail }, mapping("", &["exit"], [("exit", exit())])],
                }),
            ),
            ("exit", exit()),
            ("times", integer("Only attempts 1 to n fail.", 1, 1_000)),
        ],
    );
    rule["not"] = json!({ "required": ["fail", "exit"] });
    rule
}

fn call() -> Value {
    let listed = ToolName::ALL.iter().map(|tool| tool.word());
    let older = ToolName::LEGACY_NAMES.map(|(word, _)| word);
    let tools: Vec<_> = listed.chain([SHELL_TOOL]).chain(older).collect();
    mapping(
        "One tool call.",
        &["tool"],
        [
            ("tool", one_of("Which.", &tools)),
            ("args", json!({ "description": "With what.", "type": "object" })),
        ],
    )
}

fn context() -> Value {
    let mut whole = mapping(
        "What the agents share.",
        &[],
        [
            (
                "provider",
                one_of(
                    "Where it is kept; memory: until ten seconds after the run ends; file: also as files to read.",
                    &["sqlite", "memory", "file"],
                ),
            ),
            ("documents", one_of("Where documents are kept.", &["file", "store", "sqlite"])),
            (
                "documentOwner",
                text_matching(
                    "The agent that alone writes documents; the others suggest.",
                    AGENT_NAME_PATTERN,
                ),
            ),
            ("config", config()),
            (
                "dir",
                text_matching("As config.dir, in the form of the first files.", FOLDER_PATTERN),
            ),
            ("channel", named("What is said, as a file to read.")),
            ("document", named("The document meant when none is named; absent: no documents.")),
        ],
    );
    // The legacy form excludes the other form.
    whole["dependencies"] = json!({
        "dir": ["channel"],
        "document": ["channel"],
        "channel": {
            "properties": { "provider": { "const": "file" } },
            "not": { "anyOf": [{ "required": ["config"] }, { "required": ["documents"] }] },
        },
    });
    json!({
        "description": "What the agents share; false: nothing.",
        "anyOf": [whole, { "const": false }, { "type": "null" }],
    })
}

fn named(description: &str) -> Value {
    let named =
        mapping(description, &[], [("file", text_matching("What it is called.", FILE_PATTERN))]);
    json!({ "anyOf": [named, { "type": "null" }] })
}

fn config() -> Value {
    mapping(
        "Where the files lie and what they are called.",
        &[],
        [
            ("dir", text_matching("The folder of them all, beneath this file's.", FOLDER_PATTERN)),
            (
                "channel",
                text_matching("What is said (channel.md), with provider: file.", FILE_PATTERN),
            ),
            (
                "documentDir",
                text_matching("The folder of the documents in dir (documents/).", FOLDER_PATTERN),
            ),
            (
                "document",
                text_matching("The document meant when none is named (notes.md).", FILE_PATTERN),
            ),
            (
                "db",
                text_matching(
                    "A database of the team's own, beneath this file's folder.",
                    DATABASE_PATTERN,
                ),
            ),
        ],
    )
}

fn step() -> Value {
    mapping(
        "One command.",
        &["shell"],
        [
            ("shell", text("What it runs. A value filled in here is never code.")),
            (
                "as",
                text_matching("By which name its output is known: ${{ NAME }}.", VARIABLE_PATTERN),
            ),
            ("cwd", text("Where it runs, relative to where the command was given.")),
            ("shell_program", text_matching("What runs it (bash).", PROGRAM_PATTERN)),
        ],
    )
}

fn limits() -> Value {
    mapping(
        "Where a run stops by itself.",
        &[],
        [
            ("hops", integer("How many messages may lead to a message (50).", 1, 1_000_000)),
            ("turns", integer("How many turns it may take (200; start: 500).", 1, 1_000_000)),
            ("wall", span("How long it may last (2h; start: no end).")),
        ],
    )
}

/// Creates the schema of a mapping with these keys and no others.
fn mapping<'a>(
    description: &str,
    required: &[&str],
    properties: impl IntoIterator<Item = (&'a str, Value)>,
) -> Value {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let mut mapping = with_description(description, json!({ "type": "object" }));
    mapping["properties"] = properties.into();
    mapping["additionalProperties"] = false.into();
    if !required.is_empty() {
        mapping["required"] = json!(required);
    }
    mapping
}

fn list(description: &str, items: &Value) -> Value {
    with_description(description, json!({ "type": "array", "items": items }))
}

fn text(description: &str) -> Value {
    with_description(description, json!({ "type": "string" }))
}

fn text_matching(description: &str, pattern: &str) -> Value {
    with_description(description, json!({ "type": "string", "pattern": pattern }))
}

fn span(description: &str) -> Value {
    let mut span = text_matching(description, SPAN_PATTERN);
    span["examples"] = json!(["30s", "5m"]);
    span
}

fn integer(description: &str, least: u32, most: u32) -> Value {
    with_description(description, json!({ "type": "integer", "minimum": least, "maximum": most }))
}

fn one_of(description: &str, words: &[&str]) -> Value {
    with_description(description, json!({ "enum": words }))
}

fn with_description(description: &str, mut schema: Value) -> Value {
    if !description.is_empty() {
        schema["description"] = description.into();
    }
    schema
}
