//! The columns of the registry.

use agent_worker_protocol::Effort;
use serde::{Serialize, Serializer};

use crate::{
    logins::LoginSpec, models::ModelNames, providers::EndpointSource, variables::CloudVariables,
};

/// The name under which a program sees the MCP server of its worker.
pub const TEAM_SERVER_NAME: &str = "team";

/// Kinds of tool calls in the Agent Client Protocol, which has no names of tools. The last stands for every other.
pub const ACP_TOOL_KINDS: [&str; 10] = [
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
];

/// One backend, on any machine.
#[derive(Debug)]
pub struct BackendSpec {
    /// The word in `backend:`.
    pub name: &'static str,
    /// Other words for it.
    pub aliases: &'static [&'static str],
    /// One line for people.
    pub description: &'static str,
    /// The way in which a worker runs it.
    pub kind: BackendKind,
    /// Names of its program, the usual one first. Empty if it needs none.
    pub programs: &'static [&'static str],
    /// A command that installs the program.
    pub install: Option<&'static str>,
    /// Variables with its key, endpoint and settings folder. They reach it without being named in a workflow file.
    pub variables: &'static [&'static str],
    /// The clouds through which it can reach its models.
    pub clouds: &'static [CloudVariables],
    /// Those of the variables that may hold a key.
    pub key_variables: &'static [&'static str],
    /// The places of its user's credentials, and the command that logs in.
    pub login: LoginSpec,
    /// The endpoint and key of its models.
    pub endpoint: EndpointSource,
    /// The form in which it takes the name of a model.
    pub model_names: ModelNames,
    /// The abilities of the backend.
    pub can: BackendCapabilities,
    /// The part of `permissions:` that it keeps.
    pub permissions: PermissionSupport,
    /// Arguments that the worker or a key of the workflow file sets, or that would break the turn.
    pub reserved_args: &'static [&'static str],
    /// Efforts of reasoning that it can select.
    pub efforts: &'static [Effort],
    /// The command that opens a conversation, without the id at its end.
    pub open_session: Option<&'static str>,
    /// Variables that locate the settings of an isolated program, and their folders below that of the agent.
    pub isolated_homes: &'static [(&'static str, &'static str)],
    /// The oldest version of its program that knows every option that its adapter passes.
    pub oldest_version: Option<&'static str>,
    /// The version of its program that the tests run.
    pub tested_version: Option<&'static str>,
    /// Aspects that no test covers, apart from other versions.
    pub unverified: &'static [&'static str],
}

/// The way in which a worker runs a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// A vendor's program, by its adapter in the worker.
    Program,
    /// A program that speaks the Agent Client Protocol.
    Acp,
    /// Any executable that speaks our own protocol.
    Command,
    /// The tool loop with a model behind the API of its provider.
    Api,
    /// The tool loop with a script instead of a model.
    Mock,
    /// Not in this version.
    Planned,
}

/// The abilities of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BackendCapabilities {
    /// Shows the text of the agent while it is written.
    pub stream: CapabilitySupport,
    /// Reports the cost of a turn.
    pub cost: CapabilitySupport,
    /// Continues the conversation of the previous turn.
    pub resume: CapabilitySupport,
    /// Asks for approval of a call and waits for the answer.
    pub approvals: CapabilitySupport,
    /// The effect of `send --now` on a running turn: the message joins it or interrupts it.
    pub mid_turn: CapabilitySupport,
    /// Ends a turn after `max_steps` model calls.
    pub max_steps: CapabilitySupport,
    /// Limits each answer of the model to `max_tokens`.
    pub max_tokens: CapabilitySupport,
    /// Selects the effort of the model's reasoning.
    pub effort: CapabilitySupport,
    /// Runs its whole program in a sandbox.
    pub sandbox: CapabilitySupport,
}

/// The degree of an ability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapabilitySupport {
    /// The ability is always available.
    Yes,
    /// With this restriction.
    Limited(&'static str),
    /// The ability is not available.
    No,
}

/// The part of `permissions:` that a backend keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionSupport {
    /// All of it: the backend asks for approval of single calls, and rules name tools.
    PerTool,
    /// All of it, but rules name kinds of calls.
    PerKind(&'static [&'static str]),
    /// `default` alone: the backend cannot ask for approval.
    DefaultOnly {
        /// The meaning of `default`, for people.
        hint: &'static str,
    },
    /// Nothing: the backend cannot ask for approval and has no setting for it.
    Unsupported,
}

impl BackendSpec {
    /// True if this version can use it.
    pub fn is_available(&self) -> bool {
        self.kind != BackendKind::Planned
    }

    /// Returns the name of a model as its program takes it; `None` where the program chooses.
    pub fn model_name(&self, written: Option<&str>) -> Option<String> {
        crate::models::model_name(self.name, self.model_names, written)
    }
}

impl BackendCapabilities {
    /// No ability at all; a message for a running turn interrupts it.
    pub const NONE: Self = Self {
        stream: CapabilitySupport::No,
        cost: CapabilitySupport::No,
        resume: CapabilitySupport::No,
        approvals: CapabilitySupport::No,
        mid_turn: CapabilitySupport::Limited("interrupts"),
        max_steps: CapabilitySupport::No,
        max_tokens: CapabilitySupport::No,
        effort: CapabilitySupport::No,
        sandbox: CapabilitySupport::No,
    };

    /// Returns each ability with its word.
    pub fn entries(self) -> [(&'static str, CapabilitySupport); 9] {
        let Self {
            stream,
            cost,
            resume,
            approvals,
            mid_turn,
            max_steps,
            max_tokens,
            effort,
            sandbox,
        } = self;
        [
            ("stream", stream),
            ("cost", cost),
            ("resume", resume),
            ("approvals", approvals),
            ("mid-turn", mid_turn),
            ("max_steps", max_steps),
            ("max_tokens", max_tokens),
            ("effort", effort),
            ("sandbox", sandbox),
        ]
    }
}

impl CapabilitySupport {
    /// A message for a running turn joins it: the program passes it to the model.
    pub(crate) const JOINS: Self = Self::Limited("joins");

    /// Returns `yes`, `no` or the restriction.
    pub fn text(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Limited(how) => how,
            Self::No => "no",
        }
    }
}

impl Serialize for CapabilitySupport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}
