//! Agents: their list, the state of each with its explanation, joining and leaving.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    api::tools::AgentMockTool,
    id::{AttemptId, ResourceId, RunId, Seq},
    message::{Message, Usage},
    mock::MockRule,
    name::AgentName,
    state::{AgentState, AttemptEnd, FailureClass, RunState},
    target::{InstanceRef, Target},
    time::Millis,
};

/// One agent; `GET /agents` returns a list of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentView {
    pub name: AgentName,
    /// Instance that the agent belongs to.
    pub instance: InstanceRef,
    /// Folder of the workflow file.
    pub project: PathBuf,
    /// Kind of backend, such as `mock`.
    pub backend: String,
    /// Model, as written in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Current state of the agent.
    #[serde(flatten)]
    pub state: AgentState,
    /// Number of pending waking messages, without those that the live attempt works on.
    pub waiting: u32,
    /// Turns of the agent in this run.
    pub turns: u32,
    /// Messages of the agent in this run.
    pub messages: u32,
    /// Usage of the agent in this run.
    pub usage: Usage,
    /// Start of the agent's run.
    pub started: Millis,
    /// Last failure of the agent in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
}

/// Last failed attempt of an agent in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastFailure {
    /// Class of the failure.
    pub class: FailureClass,
    /// Message of the backend, as it was reported.
    pub message: String,
    /// End of the attempt.
    pub at: Millis,
    /// Id of the attempt.
    pub attempt: AttemptId,
    /// True if a later attempt of the agent in the same run ended ok.
    pub recovered: bool,
}

/// Last failure of one agent of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentFailure {
    pub agent: AgentName,
    #[serde(flatten)]
    pub failure: LastFailure,
}

impl AgentFailure {
    /// Returns the end of the failed attempt.
    pub fn end(&self) -> AttemptEnd {
        let LastFailure { class, message, .. } = &self.failure;
        AttemptEnd::Failed { class: *class, why: message.clone() }
    }
}

impl fmt::Display for AgentFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.agent, self.end())
    }
}

/// Body of `POST /agents`: lets an agent join an instance; without a target, as a standalone agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentRequest {
    /// Name of the agent; absent: the first free one of `a0`, `a1`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<AgentName>,
    /// Backend through which its worker reaches a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// System prompt of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "system_prompt")]
    pub system: Option<String>,
    /// The script of a `mock` agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mock: Vec<MockRule>,
    /// Known agent of the backend `acp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Program of the agent and its arguments; only the user may give it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Instance that the agent joins; absent: `global`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// True to create the instance if it does not exist; only the user may do so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create_instance: bool,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// The folder of the caller's connection: it ranks instances after `project`, and is no working folder. No body has
    /// it.
    #[serde(skip)]
    pub connection_folder: Option<PathBuf>,
    /// Working folder; absent: the folder of the run, or of the caller for a standalone agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Variables of the caller's environment that the backend needs. The daemon keeps them only for standalone
    /// agents, until they leave.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// Reply of `GET /agents/{target}`: one agent with the facts that explain its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentDetail {
    /// Identity and current state of the agent.
    #[serde(flatten)]
    pub view: AgentView,
    /// Time since which the agent is in this state, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_since: Option<Millis>,
    /// Run that the agent takes part in.
    pub run: RunId,
    /// State of that run.
    pub run_state: RunState,
    /// System prompt of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Conversation that the agent's next turn continues, if its program has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<AgentSession>,
    /// Resources with the conversation that the next turn of an agent with direct access to a model continues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conversation: Vec<ResourceId>,
    /// Mock tools of the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mock_tools: Vec<AgentMockTool>,
    /// First twenty pending messages, in the order of the inbox.
    pub inbox: Vec<Mail>,
    /// Last attempts of the agent, newest first.
    pub attempts: Vec<AttemptView>,
    /// Condition that would wake the agent, in words.
    pub wakes_when: String,
}

/// Conversation of an agent in its own program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentSession {
    /// Id that the program gave it.
    pub id: String,
    /// Shell command that opens it in the program, if the program can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
}

/// Pending message of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mail {
    /// True if the message starts a turn; false if the agent only reads it along with others.
    pub wakes: bool,
    #[serde(flatten)]
    pub message: Message,
}

/// One attempt of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// Id of the attempt.
    pub attempt: AttemptId,
    /// Number of the try within its activation, from 1.
    pub number: u32,
    /// Message that the activation is named after.
    pub oldest: Seq,
    /// Start of the attempt.
    pub started: Millis,
    /// Result of an ended attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<AttemptEnd>,
    /// End of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// Usage of the attempt.
    pub usage: Usage,
    /// Conversation of the attempt, if its program has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<AgentSession>,
}

/// Reply of `POST /agents/{target}/stop` and `DELETE /agents/{target}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStopped {
    pub agent: AgentName,
    pub instance: InstanceRef,
    /// Number of processes that the daemon ended.
    pub processes: u32,
}

/// Reply of `POST /agents/{target}/interrupt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentInterrupted {
    pub agent: AgentName,
    pub instance: InstanceRef,
    /// Attempt that was running; absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
    /// End of that attempt, which may have ended by itself first; absent if it is still ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<AttemptEnd>,
    /// Number of processes that the daemon ended.
    pub processes: u32,
}

/// Reply of `GET /logs`: output of an agent's workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogReply {
    /// Attempt that printed the text.
    pub attempt: AttemptId,
    pub agent: AgentName,
    /// Start of the attempt.
    pub started: Millis,
    /// True if the attempt is over, so that no more text follows.
    pub ended: bool,
    /// Text from `after` on, with replacements for bytes that are not UTF-8.
    pub text: String,
    /// Offset from which to continue reading.
    pub next: u64,
}
