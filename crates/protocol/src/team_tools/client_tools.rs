//! Tools for the user and clients only: they start, end and change parts of a team.

use super::{
    ToolEffect, ToolSpec,
    schema::{
        ToolField,
        ToolFieldKind::{Flag, Number, ObjectsWithFields, Text, Texts},
        optional, required,
    },
};
use crate::{scope::Permission, tool::ToolName};

const RUN_FIELDS: &[ToolField] = &[
    required("run", Text),
    required("instance", Text),
    required("project", Text),
    required("state", Text),
    required("started", Text),
    optional("ended", Text),
    required("turns", Number),
    required("messages", Number),
    optional("hint", Text).about("the next step, from run_status"),
];
const AGENT_FIELDS: &[ToolField] = &[
    required("name", Text),
    required("instance", Text),
    required("state", Text),
    required("backend", Text),
    required("waiting", Number).about("unread waking mail"),
];
/// A run by its id; without it, the live, else the last, run of the target.
const RUN_FIELD: ToolField =
    optional("run", Text).about("its id; or name its instance with target");
const INSTANCE_FIELD: ToolField = required("instance", Text);
const APPROVAL_FIELDS: &[ToolField] = &[
    INSTANCE_FIELD,
    required("id", Number),
    required("agent", Text),
    required("tool", Text),
    optional("exact_pattern", Text).about("what `for: run` allows by default"),
    optional("answer", Text),
];
const GRANT_FIELDS: &[ToolField] = &[
    INSTANCE_FIELD,
    required("id", Number),
    required("agent", Text),
    required("pattern", Text),
    required("approval", Number),
    required("by", Text),
];
const QUESTION_FIELDS: &[ToolField] = &[
    INSTANCE_FIELD,
    required("id", Number),
    required("agent", Text),
    required("question", Text),
    optional("options", Texts),
];
const DEAD_LETTER_FIELDS: &[ToolField] = &[
    INSTANCE_FIELD,
    required("seq", Number),
    required("agent", Text),
    optional("why", Text),
    optional("live", Flag).about("it can be delivered again"),
];
const DEAD_LETTER_INPUT: &[ToolField] = &[
    optional("seq", Number).about("of the message; default all of the instance"),
    optional("agent", Text).about("recipient; default all"),
];
const RESOLVED_FIELDS: &[ToolField] = &[
    INSTANCE_FIELD,
    required(
        "receipts",
        ObjectsWithFields(&[
            required("seq", Number),
            required("agent", Text),
            required("state", Text),
        ]),
    ),
];
const PAGE_FIELDS: &[ToolField] = &[
    optional("limit", Number).about("default 100, at most 1000"),
    optional("after", Text).about("`next` of the page before"),
];
const NEXT_FIELD: ToolField = optional("next", Text).about("for `after`; null on the last page");
const STOPPED_FIELDS: &[ToolField] =
    &[required("agent", Text), required("instance", Text), required("processes", Number)];

/// Every tool that agents do not see, in the order of the list.
pub static CLIENT_TOOL_SPECS: [ToolSpec; 21] = [
    ToolSpec {
        name: ToolName::WorkflowList,
        permission: Permission::Read,
        description: "List instances of workflows, and which have a live run.",
        effect: ToolEffect::Reads,
        input: PAGE_FIELDS,
        output: &[
            required(
                "workflows",
                ObjectsWithFields(&[
                    required("instance", Text),
                    required("project", Text),
                    optional("live", Text).about("its live run"),
                    optional("last", Text).about("its last run"),
                ]),
            ),
            NEXT_FIELD,
        ],
    },
    ToolSpec {
        name: ToolName::RunList,
        permission: Permission::Read,
        description: "List runs: live ones first, then newest first.",
        effect: ToolEffect::Reads,
        input: PAGE_FIELDS,
        output: &[required("runs", ObjectsWithFields(RUN_FIELDS)), NEXT_FIELD],
    },
    ToolSpec {
        name: ToolName::RunStatus,
        permission: Permission::Read,
        description: "Show the state of a run.",
        effect: ToolEffect::Reads,
        input: &[RUN_FIELD],
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
            optional("mode", Text)
                .about("run (default): ends by itself; start: stays until it is stopped"),
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
        input: &[RUN_FIELD],
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
            RUN_FIELD,
            optional("turns", Number),
            optional("hops", Number),
            optional("wall", Text).about("time in which the run can work, such as 3h"),
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
            optional("command", Texts).about("its program and arguments; only for the user"),
            optional("agent", Text).about("the ACP agent of backend acp"),
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
        name: ToolName::AgentInterrupt,
        permission: Permission::Agents,
        description: "End the current turn of an agent. Its messages start the next one.",
        effect: ToolEffect::Writes,
        input: &[],
        output: &[
            required("agent", Text),
            required("instance", Text),
            optional("attempt", Text).about("absent if no turn was running"),
            required("processes", Number),
        ],
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
    ToolSpec {
        name: ToolName::ApprovalList,
        permission: Permission::Read,
        description: "List the calls that agents want to make and a person must approve.",
        effect: ToolEffect::Reads,
        input: PAGE_FIELDS,
        output: &[required("items", ObjectsWithFields(APPROVAL_FIELDS)), NEXT_FIELD],
    },
    ToolSpec {
        name: ToolName::ApprovalAnswer,
        permission: Permission::Approve,
        description: "Approve exactly this call, once or for the rest of the run, or deny it.",
        effect: ToolEffect::Writes,
        input: &[
            required("approval", Number).about("id that approval_list shows"),
            required("allow", Flag),
            optional("reason", Text).about("the agent reads it after a denial"),
            optional("for", Text).about("call|run; run also allows later calls; default call"),
            optional("pattern", Text).about(
                "with run: the calls to allow, as Bash(git diff*); default exactly this one",
            ),
        ],
        output: APPROVAL_FIELDS,
    },
    ToolSpec {
        name: ToolName::GrantList,
        permission: Permission::Read,
        description: "List the calls that agents may make without asking until their run ends.",
        effect: ToolEffect::Reads,
        input: PAGE_FIELDS,
        output: &[required("items", ObjectsWithFields(GRANT_FIELDS)), NEXT_FIELD],
    },
    ToolSpec {
        name: ToolName::GrantRevoke,
        permission: Permission::Approve,
        description: "Revoke a grant: its agent asks again.",
        effect: ToolEffect::Writes,
        input: &[required("grant", Number).about("id that grant_list shows")],
        output: GRANT_FIELDS,
    },
    ToolSpec {
        name: ToolName::QuestionList,
        permission: Permission::Read,
        description: "List the open questions of agents to a person.",
        effect: ToolEffect::Reads,
        input: PAGE_FIELDS,
        output: &[required("items", ObjectsWithFields(QUESTION_FIELDS)), NEXT_FIELD],
    },
    ToolSpec {
        name: ToolName::QuestionAnswer,
        permission: Permission::Approve,
        description: "Answer a question; the answer wakes the agent that asked.",
        effect: ToolEffect::Writes,
        input: &[
            required("question", Number).about("id that question_list shows"),
            required("answer", Text),
        ],
        output: &[required("seq", Number), INSTANCE_FIELD, required("woken", Texts)],
    },
    ToolSpec {
        name: ToolName::DeadList,
        permission: Permission::Read,
        description: "List the dead letters: messages that an agent failed to act on.",
        effect: ToolEffect::Reads,
        input: PAGE_FIELDS,
        output: &[required("items", ObjectsWithFields(DEAD_LETTER_FIELDS)), NEXT_FIELD],
    },
    ToolSpec {
        name: ToolName::DeadRedrive,
        permission: Permission::Letters,
        description: "Deliver dead letters again, with a full set of attempts.",
        effect: ToolEffect::Writes,
        input: DEAD_LETTER_INPUT,
        output: RESOLVED_FIELDS,
    },
    ToolSpec {
        name: ToolName::DeadDrop,
        permission: Permission::Letters,
        description: "Drop dead letters.",
        effect: ToolEffect::Ends,
        input: &[
            optional("seq", Number).about("of the message; default all of the instance"),
            optional("agent", Text).about("recipient; default all"),
            optional("why", Text),
        ],
        output: RESOLVED_FIELDS,
    },
];
