//! JSON Schema of the workflow file, with which an editor completes keys and underlines misspelt ones.
//!
//! The reader is authoritative, not this schema: it checks more (references, mentions, shells) and reports it better.
//! A file that an editor accepts has the keys, the words and the ranges that the reader accepts; a test compares the
//! two. A key without a value is absent for the reader and a mistake here, because no author intends it.

mod model_keys;
mod nodes;
mod notify;
mod rule_keys;
mod tasks;

use agent_worker_backends::{ACP_AGENTS, BUILTIN_TOOLS};
use agent_worker_protocol::{Keyword as _, SHELL_TOOL, ToolName};
use serde_json::{Value, json};

use crate::{
    agents::backend,
    definition::{history, params::RESERVED_OPTIONS},
};

use self::nodes::{integer, list, mapping, one_of, span, text, text_matching};

/// Draft that the YAML support of every editor knows.
const SCHEMA_DRAFT_URL: &str = "http://json-schema.org/draft-07/schema#";
const AGENT_NAME_PATTERN: &str = "^[A-Za-z][A-Za-z0-9_-]{0,31}$";
const INSTANCE_NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";
const VARIABLE_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]{0,63}$";
const FILE_PATTERN: &str = r"^(\./)?[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$";
const FOLDER_PATTERN: &str = "^[^/]";
const DATABASE_PATTERN: &str = "^[^/](.*[^/])?$";
const BUILTIN_TOOL_PATTERN: &str = "^[A-Za-z_*]+$";
const AGENT_FILE_PATTERN: &str = r"^[^/~].*\.(md|toml)$";
const PROGRAM_PATTERN: &str = r"^[^\s]+$";

/// Returns the JSON Schema of a workflow file.
pub fn schema() -> Value {
    let mut schema = mapping(
        "A team of agents and its tasks, for agent-worker.",
        &[],
        [
            (
                "name",
                text_matching(
                    "Name of the workflow; by default the name of the file.",
                    INSTANCE_NAME_PATTERN,
                ),
            ),
            (
                "params",
                list("Values that the user may or must give: run FILE --NAME VALUE.", &param()),
            ),
            ("agents", agents()),
            ("context", context()),
            ("setup", list("Commands that run before any agent is woken, in order.", &step())),
            (
                "kickoff",
                text(
                    "The first message, from the user. It wakes the agents that it mentions as @name.",
                ),
            ),
            (
                "answers",
                one_of(
                    "Treatment of an agent's final answer: `deliver` wakes the agents to which it hands work, `record` \
                     only keeps it (deliver).",
                    &["deliver", "record"],
                ),
            ),
            (
                "finisher",
                text_matching(
                    "The agent that may set the verdict of a run, with the tool run_finish.",
                    AGENT_NAME_PATTERN,
                ),
            ),
            ("limits", limits()),
            ("notify", notify::settings(PROGRAM_PATTERN)),
            ("gates", gates()),
            ("history", one_of(history::HELP, &["full", "short", "off"])),
            ("tasks", tasks::tasks("The procedure of a run: tasks one after the other.")),
            ("finally", tasks::tasks("Tasks that run after all others, whatever became of them.")),
            ("output", text("Text of the result, with ${{ NAME }}; it needs `tasks`.")),
        ],
    );
    schema["anyOf"] = json!([{ "required": ["agents"] }, { "required": ["tasks"] }]);
    schema["dependencies"] = json!({ "finally": ["tasks"], "output": ["tasks"] });
    schema["definitions"] = tasks::definitions();
    schema["$schema"] = SCHEMA_DRAFT_URL.into();
    schema["title"] = "agent-worker workflow".into();
    schema
}

/// Words of the types of parameters.
const PARAM_TYPES: [&str; 7] = ["string", "text", "number", "boolean", "choice", "file", "json"];

fn param() -> Value {
    let mut param = mapping(
        "One parameter.",
        &["name"],
        [
            ("name", text_matching("For --NAME and ${{ params.NAME }}.", VARIABLE_PATTERN)),
            (
                "type",
                one_of(
                    "Type of the value; a number may be part of code in a command.",
                    &PARAM_TYPES,
                ),
            ),
            ("choices", list("Values of `type: choice`.", &text(""))),
            ("short", text_matching("Letter of the option: `t` for -t.", "^[A-Za-z]$")),
            ("description", text("Purpose of the parameter.")),
            ("required", json!({ "type": "boolean", "description": "Refuse a run without it." })),
            (
                "default",
                json!({ "description": "Value of a parameter that is not given, of its type." }),
            ),
        ],
    );
    param["properties"]["name"]["not"] = json!({ "enum": RESERVED_OPTIONS });
    let required = json!({ "required": { "const": true } });
    param["not"] = json!({ "properties": required, "required": ["required", "default"] });
    param
}

fn agents() -> Value {
    json!({
        "description": "The agents of the team, by name.",
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
    let rules = list("The script of a mock agent; the first rule that matches is used.", &rule());
    let words: Vec<_> = backend::backend_words().collect();
    let mut agent = mapping(
        "One agent.",
        &[],
        [
            ("use", agent_file()),
            ("backend", one_of("Connection of the agent's worker to a model.", &words)),
            (
                "agent",
                one_of(
                    "The agent of the Agent Client Protocol, for `backend: acp`.",
                    &ACP_AGENTS.each_ref().map(|agent| agent.name),
                ),
            ),
            ("model", text("The model, for backends that use one.")),
            ("fallback", model_keys::fallback()),
            ("system_prompt", system_prompt()),
            ("max_tokens", model_keys::max_tokens()),
            ("max_steps", model_keys::max_steps()),
            ("output_schema", model_keys::output_schema()),
            ("effort", model_keys::effort()),
            ("timeout", span("Maximum duration of an attempt (30m).")),
            ("silence", span("Maximum time for which an attempt may be silent (5m).")),
            ("retry", retry()),
            ("cwd", text("Working folder, relative to the file (the folder of the command).")),
            ("env", env()),
            ("requires", requires()),
            ("permissions", rule_keys::permissions()),
            ("sandbox", rule_keys::sandbox()),
            ("command", command()),
            ("args", list("Further arguments of a vendor's program.", &text("An argument."))),
            ("mode", one_of("Settings and login that a program uses.", &["isolated", "login"])),
            ("session", session()),
            ("provider", model_keys::provider()),
            ("context_window", model_keys::context_window()),
            ("temperature", model_keys::temperature()),
            ("extra", model_keys::extra()),
            ("tools", builtin_tools()),
            ("mock_tools", model_keys::mock_tools()),
            ("mock", rules),
        ],
    );
    // An agent needs a backend, explicitly or derived from other keys.
    let known = json!({ "model": { "pattern": format!("^({})$", backend::model_pattern()) } });
    agent["anyOf"] = json!([
        { "required": ["backend"] },
        { "required": ["use"] },
        { "required": ["mock"] },
        { "required": ["command"] },
        { "required": ["provider"] },
        { "required": ["model"], "properties": known },
    ]);
    agent["properties"]["model"]["examples"] = json!(["mock/any"]);
    agent
}

fn builtin_tools() -> Value {
    let names = BUILTIN_TOOLS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    let about = format!(
        "Built-in tools of the model, for `backend: api` (all but fetch_url): {names}. `*` stands for any text."
    );
    list(&about, &text_matching("", BUILTIN_TOOL_PATTERN))
}

fn session() -> Value {
    let about = "Whether a turn continues the session of the previous one.";
    one_of(about, &["continue", "fresh"])
}

fn env() -> Value {
    let about = "Names of environment variables passed to the agent.";
    list(about, &text_matching("", VARIABLE_PATTERN))
}

fn agent_file() -> Value {
    let mut file = text_matching(
        "Agent file of Claude Code, Codex, Gemini CLI or opencode, beneath this file's folder: fills the prompt, the tools \
         and the model.",
        AGENT_FILE_PATTERN,
    );
    file["examples"] = json!([".claude/agents/reviewer.md"]);
    file
}

fn system_prompt() -> Value {
    text(
        "System prompt: text, or one word ending in .md or .txt: a file beneath this file's folder.",
    )
}

fn command() -> Value {
    let words = list("A program and its arguments.", &text("The program, or an argument."));
    json!({ "description": "The program, if it is not the default one.", "anyOf": [text("The program, without arguments."), words] })
}

fn requires() -> Value {
    let gate = || text("Gate that a vote opens.");
    let tools = ToolName::ALL.iter().filter(|tool| tool.writes());
    let tools = tools.map(|tool| (tool.word(), gate()));
    mapping("Gates that must be open before the agent may call a tool.", &[], tools)
}

fn retry() -> Value {
    mapping(
        "Retries of a failed attempt.",
        &[],
        [
            (
                "max_attempts",
                integer("Maximum number of attempts, including the first (3).", 1, 100),
            ),
            ("backoff", span("Delay before the first retry (1s).")),
            (
                "multiplier",
                json!({
                    "description": "Factor by which each delay grows (2).",
                    "type": "number", "minimum": 1, "maximum": 100,
                }),
            ),
        ],
    )
}

fn rule() -> Value {
    let fail = ["transient", "rate_limited", "fatal", "crash", "hang"];
    let exit = || integer("Exit status of the worker, which exits without a report.", 0, 255);
    let mut rule = mapping(
        "One rule: sleep, calls, run, fail, say, in this order.",
        &[],
        [
            ("on", text("Text that must occur in the waking messages; absent: always.")),
            ("sleep", span("Delay before the first action.")),
            ("calls", list("Tool calls of the agent, in order.", &call())),
            ("run", text("A shell command; its output is the answer if there is no `say`.")),
            ("say", text("Final text of the attempt.")),
            (
                "fail",
                json!({
                    "description": "Kind of failure.",
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
            ("tool", one_of("Name of the tool.", &tools)),
            ("args", json!({ "description": "Arguments of the tool.", "type": "object" })),
        ],
    )
}

fn context() -> Value {
    let mut whole = mapping(
        "Channel and documents that the agents share.",
        &[],
        [
            (
                "provider",
                one_of(
                    "Storage of the channel and the documents; memory: until ten seconds after the run ends; \
                     file: also as readable files.",
                    &["sqlite", "memory", "file"],
                ),
            ),
            ("documents", one_of("Storage of the documents.", &["file", "store", "sqlite"])),
            (
                "documentOwner",
                text_matching(
                    "The only agent that writes documents; the others suggest changes.",
                    AGENT_NAME_PATTERN,
                ),
            ),
            ("config", config()),
            ("dir", text_matching("Like config.dir, in the legacy form.", FOLDER_PATTERN)),
            ("channel", named("The channel as a readable file.")),
            ("document", named("The default document; absent: no documents.")),
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
        "description": "Channel and documents that the agents share; false: none.",
        "anyOf": [whole, { "const": false }, { "type": "null" }],
    })
}

fn named(description: &str) -> Value {
    let named =
        mapping(description, &[], [("file", text_matching("Name of the file.", FILE_PATTERN))]);
    json!({ "anyOf": [named, { "type": "null" }] })
}

fn config() -> Value {
    mapping(
        "Folders and names of the files.",
        &[],
        [
            (
                "dir",
                text_matching(
                    "Folder of all these files, beneath the folder of this file.",
                    FOLDER_PATTERN,
                ),
            ),
            (
                "channel",
                text_matching("The channel (channel.md), with provider: file.", FILE_PATTERN),
            ),
            (
                "documentDir",
                text_matching("The folder of the documents in dir (documents/).", FOLDER_PATTERN),
            ),
            ("document", text_matching("The default document (notes.md).", FILE_PATTERN)),
            (
                "db",
                text_matching(
                    "A separate database of the team, beneath this file's folder.",
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
            ("shell", text("The script. A value inserted here is never code.")),
            ("as", text_matching("Name of the output, for ${{ NAME }}.", VARIABLE_PATTERN)),
            ("cwd", text("Working folder, relative to the file (the folder of the command).")),
            ("shell_program", text_matching("Interpreter of the script (bash).", PROGRAM_PATTERN)),
            ("env", step_env()),
        ],
    )
}

fn step_env() -> Value {
    json!({
        "description": "Variables that only this command gets. A value may contain ${{ NAME }}, also a secret env.NAME.",
        "type": "object",
        "propertyNames": { "pattern": VARIABLE_PATTERN },
        "additionalProperties": text("Value of the variable."),
    })
}

fn limits() -> Value {
    mapping(
        "Limits at which a run stops.",
        &[],
        [
            (
                "hops",
                integer(
                    "Maximum number of messages that may lead to a message (50).",
                    1,
                    1_000_000,
                ),
            ),
            ("turns", integer("Maximum number of turns (200; start: 500).", 1, 1_000_000)),
            ("wall", span("Maximum time in which the run can work (2h; start: no limit).")),
            ("wall_grace", span("Time for live turns after the wall limit (30s).")),
            ("workers", integer("Maximum number of agents that work at once (4).", 1, 1_000)),
            (
                "cost_usd",
                json!({
                    "description": "Maximum cost of the models in dollars (10; start: no limit).",
                    "type": "number", "minimum": 0.0001, "maximum": 1_000_000,
                }),
            ),
            ("tokens", integer("Maximum number of tokens of the models (no limit).", 1, u32::MAX)),
        ],
    )
}

fn gates() -> Value {
    let voter = text_matching("Name of an agent, or `user`.", AGENT_NAME_PATTERN);
    let mut electorate = list("Voters that decide; absent: every agent of the team.", &voter);
    electorate["minItems"] = 1.into();
    let gate = mapping(
        "Voters and rule of one gate.",
        &[],
        [
            ("electorate", electorate),
            ("rule", one_of("Rule of the vote (majority).", &["majority", "unanimous"])),
        ],
    );
    json!({
        "description": "Gates whose voters and rule no proposal can change, by the name of the gate.",
        "type": "object",
        "additionalProperties": gate,
    })
}
