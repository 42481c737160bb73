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
        description: "Tell how a run stands.",
        effect: ToolEffect::Reads,
        input: &[required("run", Text)],
        output: RUN_FIELDS,
    },
    ToolSpec {
        name: ToolName::RunStart,
        permission: Permission::Run,
        description: "Start a run of a workflow file. Answers when it exists; its commands run as the user.",
        effect: ToolEffect::Starts,
        input: &[
            required("file", Text).about("absolute path of the YAML file"),
            optional("tag", Text).about("default main"),
            optional("cwd", Text).about("where its commands run; default the file's folder"),
            optional("params", Texts).about("NAME=VALUE each"),
            optional("env", Texts).about("NAME=VALUE each; its commands get no other"),
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
        description: "Let a paused run go on. To give it more needs `limits`.",
        effect: ToolEffect::Writes,
        input: &[
            required("run", Text),
            optional("turns", Number),
            optional("hops", Number),
            optional("wall", Text).about("from its beginning, such as 2h"),
        ],
        output: RUN_FIELDS,
    },
    ToolSpec {
        name: ToolName::AgentShow,
        permission: Permission::Read,
        description: "Explain an agent: what it does, what waits for it, how its last attempts went.",
        effect: ToolEffect::Reads,
        input: &[],
        output: AGENT_FIELDS,
    },
    ToolSpec {
        name: ToolName::AgentNew,
        permission: Permission::Agents,
        description: "Let an agent join the live run of an instance; without a target, stand alone.",
        effect: ToolEffect::Writes,
        input: &[
            optional("name", Text),
            optional("backend", Text),
            optional("model", Text),
            optional("system", Text).about("who it is told it is"),
            optional("cwd", Text).about("where it works"),
            optional("env", Texts).about("NAME=VALUE each, kept if it stands alone"),
        ],
        output: AGENT_FIELDS,
    },
    ToolSpec {
        name: ToolName::AgentStop,
        permission: Permission::Agents,
        description: "Wake an agent no more, and end its worker.",
        effect: ToolEffect::Ends,
        input: &[],
        output: STOPPED_FIELDS,
    },
    ToolSpec {
        name: ToolName::AgentResume,
        permission: Permission::Agents,
        description: "Wake a stopped agent again.",
        effect: ToolEffect::Writes,
        input: &[],
        output: AGENT_FIELDS,
    },
    ToolSpec {
        name: ToolName::AgentRemove,
        permission: Permission::Agents,
        description: "Take an agent out of its run, its open mail with it.",
        effect: ToolEffect::Ends,
        input: &[],
        output: STOPPED_FIELDS,
    },
];
