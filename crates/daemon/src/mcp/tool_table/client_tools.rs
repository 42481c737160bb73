//! Tools for the user and clients only: they start, end and change parts of a team.

use agent_worker_protocol::{Permission, ToolName};

use super::{
    super::schema::{
        ToolField,
        ToolFieldKind::{Number, ObjectsWithFields, Text, Texts},
        optional, required,
    },
    ToolEffect, ToolSpec,
};

const RUN_FIELDS: &[ToolField] = &[
    required("run", Text),
    required("instance", Text),
    required("project", Text),
    required("state", Text),
    required("started", Text),
    optional("ended", Text),
    required("turns", Number),
    required("messages", Number),
];
const AGENT_FIELDS: &[ToolField] = &[
    required("name", Text),
    required("instance", Text),
    required("state", Text),
    required("backend", Text),
    required("waiting", Number).about("unread waking mail"),
];
const STOPPED_FIELDS: &[ToolField] =
    &[required("agent", Text), required("instance", Text), required("processes", Number)];

/// Every tool that agents do not see, in the order of the list.
pub(in crate::mcp) static CLIENT_TOOL_SPECS: [ToolSpec; 11] = [
    ToolSpec {
        name: ToolName::WorkflowList,
        permission: Permission::Read,
        description: "List instances of workflows, and which have a live run.",
        effect: ToolEffect::Reads,
        input: &[],
        output: &[required(
            "workflows",
            ObjectsWithFields(&[
                required("instance", Text),
                required("project", Text),
                optional("live", Text).about("its live run"),
                optional("last", Text).about("its last run"),
            ]),
        )],
    },
    ToolSpec {
        name: ToolName::RunList,
        permission: Permission::Read,
        description: "List runs: live ones first, then newest first.",
        effect: ToolEffect::Reads,
        input: &[],
        output: &[required("runs", ObjectsWithFields(RUN_FIELDS))],
    },
    ToolSpec {
        name: ToolName::RunStatus,
        permission: Permission::Read,
        description: "Show the state of a run.",
        effect: ToolEffect::Reads,
        input: &[required("run", Text)],
        output: RUN_FIELDS,
    },
    ToolSpec {
        name: ToolName::RunStart,
        permission: Permission::Run,
        description: "Start a run of a workflow file. Returns when it exists; its commands run as the user.",
        effect: ToolEffect::Starts,
        input: &[
            required("file", Text).about("absolute path of the YAML file"),
            optional("tag", Text).about("default main"),
            optional("cwd", Text).about("where its commands run; default the file's folder"),
            optional("params", Texts).about("NAME=VALUE each"),
            optional("env", Texts).about("NAME=VALUE each; its commands get no other variables"),
        ],
        output: &[required("run", Text), required("instance", Text), required("agents", Texts)],
    },
    ToolSpec {
        name: ToolName::RunStop,
        permission: Permission::Run,
        description: "End a run and every process of it.",
        effect: ToolEffect::Ends,
        input: &[required("run", Text)],
        output: &[
            required("run", Text),
            required("instance", Text),
            required("attempts", Number),
            required("processes", Number),
        ],
    },
    ToolSpec {
        name: ToolName::RunResume,
        permission: Permission::Run,
        description: "Resume a paused run. Raising its limits needs the permission `limits`.",
        effect: ToolEffect::Writes,
        input: &[
            required("run", Text),
            optional("turns", Number),
            optional("hops", Number),
            optional("wall", Text).about("from the start of the run, such as 2h"),
        ],
        output: RUN_FIELDS,
    },
    ToolSpec {
        name: ToolName::AgentShow,
        permission: Permission::Read,
        description: "Explain an agent: its state, its pending messages and its last attempts.",
        effect: ToolEffect::Reads,
        input: &[],
        output: AGENT_FIELDS,
    },
    ToolSpec {
        name: ToolName::AgentNew,
        permission: Permission::Agents,
        description: "Add an agent to the live run of an instance; without a target, a standalone agent.",
        effect: ToolEffect::Writes,
        input: &[
            optional("name", Text),
            optional("backend", Text),
            optional("model", Text),
            optional("system", Text).about("its system prompt"),
            optional("cwd", Text).about("its working folder"),
            optional("env", Texts).about("NAME=VALUE each; kept only for a standalone agent"),
        ],
        output: AGENT_FIELDS,
    },
    ToolSpec {
        name: ToolName::AgentStop,
        permission: Permission::Agents,
        description: "Stop an agent and end its worker.",
        effect: ToolEffect::Ends,
        input: &[],
        output: STOPPED_FIELDS,
    },
    ToolSpec {
        name: ToolName::AgentResume,
        permission: Permission::Agents,
        description: "Resume a stopped agent.",
        effect: ToolEffect::Writes,
        input: &[],
        output: AGENT_FIELDS,
    },
    ToolSpec {
        name: ToolName::AgentRemove,
        permission: Permission::Agents,
        description: "Remove an agent and its open mail from its run.",
        effect: ToolEffect::Ends,
        input: &[],
        output: STOPPED_FIELDS,
    },
];
