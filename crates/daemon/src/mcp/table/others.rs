//! What only the user and clients are shown: the tools that begin, end and change something for a team.

use agent_worker_protocol::{Permission, ToolName};

use super::{
    super::schema::{
        Field,
        Kind::{List, Number, Text, Texts},
        needed, optional,
    },
    Effect, Spec,
};

const RUN: &[Field] = &[
    needed("run", Text),
    needed("instance", Text),
    needed("project", Text),
    needed("state", Text),
    needed("started", Text),
    optional("ended", Text),
    needed("turns", Number),
    needed("messages", Number),
];
const AGENT: &[Field] = &[
    needed("name", Text),
    needed("instance", Text),
    needed("state", Text),
    needed("backend", Text),
    needed("waiting", Number).about("unread waking mail"),
];
const STOPPED: &[Field] =
    &[needed("agent", Text), needed("instance", Text), needed("processes", Number)];

/// Every tool that is not for agents, in the order they are listed.
pub(in crate::mcp) static SPECS: [Spec; 11] = [
    Spec {
        name: ToolName::WorkflowList,
        needs: Permission::Read,
        about: "List instances of workflows, and which have a live run.",
        effect: Effect::Reads,
        takes: &[],
        gives: &[needed(
            "workflows",
            List(&[
                needed("instance", Text),
                needed("project", Text),
                optional("live", Text).about("its live run"),
                optional("last", Text).about("its last run"),
            ]),
        )],
    },
    Spec {
        name: ToolName::RunList,
        needs: Permission::Read,
        about: "List runs: live ones first, then newest first.",
        effect: Effect::Reads,
        takes: &[],
        gives: &[needed("runs", List(RUN))],
    },
    Spec {
        name: ToolName::RunStatus,
        needs: Permission::Read,
        about: "Tell how a run stands.",
        effect: Effect::Reads,
        takes: &[needed("run", Text)],
        gives: RUN,
    },
    Spec {
        name: ToolName::RunStart,
        needs: Permission::Run,
        about: "Start a run of a workflow file. Answers when it exists; its commands run as the user.",
        effect: Effect::Starts,
        takes: &[
            needed("file", Text).about("absolute path of the YAML file"),
            optional("tag", Text).about("default main"),
            optional("cwd", Text).about("where its commands run; default the file's folder"),
            optional("params", Texts).about("NAME=VALUE each"),
            optional("env", Texts).about("NAME=VALUE each; its commands get no other"),
        ],
        gives: &[needed("run", Text), needed("instance", Text), needed("agents", Texts)],
    },
    Spec {
        name: ToolName::RunStop,
        needs: Permission::Run,
        about: "End a run and every process of it.",
        effect: Effect::Ends,
        takes: &[needed("run", Text)],
        gives: &[
            needed("run", Text),
            needed("instance", Text),
            needed("attempts", Number),
            needed("processes", Number),
        ],
    },
    Spec {
        name: ToolName::RunResume,
        needs: Permission::Run,
        about: "Let a paused run go on. To give it more needs `limits`.",
        effect: Effect::Writes,
        takes: &[
            needed("run", Text),
            optional("turns", Number),
            optional("hops", Number),
            optional("wall", Text).about("from its beginning, such as 2h"),
        ],
        gives: RUN,
    },
    Spec {
        name: ToolName::AgentShow,
        needs: Permission::Read,
        about: "Explain an agent: what it does, what waits for it, how its last attempts went.",
        effect: Effect::Reads,
        takes: &[],
        gives: AGENT,
    },
    Spec {
        name: ToolName::AgentNew,
        needs: Permission::Agents,
        about: "Let an agent join the live run of an instance; without a target, stand alone.",
        effect: Effect::Writes,
        takes: &[
            optional("name", Text),
            optional("backend", Text),
            optional("model", Text),
            optional("system", Text).about("who it is told it is"),
            optional("cwd", Text).about("where it works"),
            optional("env", Texts).about("NAME=VALUE each, kept if it stands alone"),
        ],
        gives: AGENT,
    },
    Spec {
        name: ToolName::AgentStop,
        needs: Permission::Agents,
        about: "Wake an agent no more, and end its worker.",
        effect: Effect::Ends,
        takes: &[],
        gives: STOPPED,
    },
    Spec {
        name: ToolName::AgentResume,
        needs: Permission::Agents,
        about: "Wake a stopped agent again.",
        effect: Effect::Writes,
        takes: &[],
        gives: AGENT,
    },
    Spec {
        name: ToolName::AgentRemove,
        needs: Permission::Agents,
        about: "Take an agent out of its run, its open mail with it.",
        effect: Effect::Ends,
        takes: &[],
        gives: STOPPED,
    },
];
