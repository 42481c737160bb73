//! The tools that agents are offered, and the change of their mock tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{mock::MockRule, mock_tool::MockTool, name::AgentName, target::InstanceRef};

/// The tools of one agent; `GET /agents/{target}/tools` returns a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentTools {
    pub agent: AgentName,
    /// Instance that the agent belongs to; absent for an agent of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceRef>,
    /// Kind of backend, such as `api`.
    pub backend: String,
    /// Tools of the team first, then built-in tools, then mock tools.
    pub tools: Vec<AgentTool>,
    /// Total size of the schemas that the model gets with every request, in bytes.
    pub schema_bytes: u32,
}

/// A tool of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentTool {
    /// Name in the workflow file and in events.
    pub name: String,
    /// Name in requests to the model, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_name: Option<String>,
    /// Origin of the tool.
    pub source: ToolSource,
    /// True for a mock tool that was changed in the live run and differs from the workflow file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
    /// Effect of a call.
    pub effect: AgentToolEffect,
    /// Size of the schema of its arguments in JSON, in bytes.
    pub schema_bytes: u32,
    /// Permission of its calls.
    pub permission: ToolPermission,
    /// Reason of the permission, in words.
    pub why: String,
}

/// Origin of a tool. Later versions may add origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolSource {
    /// The daemon carries the tool out.
    Team,
    /// The worker carries the tool out.
    #[serde(rename = "built-in")]
    BuiltIn,
    /// The workflow file or a person gives its results.
    Mock,
}

/// Effect of a tool: calls that read may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentToolEffect {
    /// Every call only reads.
    Reads,
    /// A call may change something.
    Changes,
}

/// Permission of the calls of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolPermission {
    /// No call needs an approval.
    Allowed,
    /// Every call needs an approval.
    Ask,
    /// Every call is refused.
    Denied,
    /// The arguments of a call decide.
    ByArguments,
    /// The agent does not get the tool.
    NotOffered,
}

impl ToolSource {
    /// Returns the word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Team => "team",
            Self::BuiltIn => "built-in",
            Self::Mock => "mock",
        }
    }
}

impl AgentToolEffect {
    /// Returns the word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Changes => "changes",
        }
    }
}

impl ToolPermission {
    /// Returns the words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Ask => "ask",
            Self::Denied => "denied",
            Self::ByArguments => "by arguments",
            Self::NotOffered => "not offered",
        }
    }
}

/// A mock tool of an agent, as the details of the agent name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentMockTool {
    /// Name that models call.
    pub name: String,
    /// True if the tool was changed in the live run and differs from the workflow file.
    pub changed: bool,
}

/// Body of `POST /agents/{target}/mock`; it has at least one of the keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MockRequest {
    /// The whole new script of a mock agent; an empty one does nothing. Absent: the script stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<MockRule>>,
    /// Mock tools to add, or to replace by their names. Without a description or a schema a tool keeps its own, or has that of the
    /// built-in tool of its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<MockTool>,
    /// Names of mock tools that become as in the workflow file again; those that the file does not have are removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clear: Vec<String>,
}

/// Reply of `POST /agents/{target}/mock`: the script and the mock tools of an agent from its next turn on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentMocks {
    pub agent: AgentName,
    /// Instance that the agent belongs to.
    pub instance: InstanceRef,
    /// Script of a mock agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<MockRule>,
    /// Mock tools of the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<MockTool>,
}
