//! Agents: who is there, what each is doing and why, how one joins and leaves.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    id::{AttemptId, RunId, Seq},
    message::{Message, Usage},
    mock::MockRule,
    name::AgentName,
    state::{AgentState, AttemptEnd, RunState},
    target::{InstanceRef, Target},
    time::Millis,
};

/// `GET /agents`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentView {
    /// Its name.
    pub name: AgentName,
    /// Its instance.
    pub instance: InstanceRef,
    /// The folder its file lies in.
    pub project: PathBuf,
    /// `mock`, …
    pub backend: String,
    /// The model, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it is doing.
    #[serde(flatten)]
    pub state: AgentState,
    /// Waking mail that waits. What is being worked on waits no more.
    pub waiting: u32,
    /// Turns it took in this run.
    pub turns: u32,
    /// Messages it wrote in this run.
    pub messages: u32,
    /// What it used in this run.
    pub usage: Usage,
    /// When its run began.
    pub started: Millis,
}

/// `POST /agents`: lets an agent join; without a target, as a standalone one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentRequest {
    /// Its name; absent: the first of `a0`, `a1`, … that is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<AgentName>,
    /// How its worker reaches a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Who it is told it is.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "system_prompt")]
    pub system: Option<String>,
    /// The script of a `mock` agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mock: Vec<MockRule>,
    /// Which instance it joins; absent: `global`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Where it works; absent: its run's folder, for a standalone agent the caller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The caller's environment, as far as the backend needs it. Kept only for standalone agents, until they leave.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// `GET /agents/{target}`: one agent, with what explains its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentDetail {
    /// Who, and what it is doing.
    #[serde(flatten)]
    pub view: AgentView,
    /// Since when it does that, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_since: Option<Millis>,
    /// Its run.
    pub run: RunId,
    /// Where that stands.
    pub run_state: RunState,
    /// Who it is told it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// What waits for it, in the order of its inbox; the first twenty.
    pub inbox: Vec<Mail>,
    /// Its last attempts, newest first.
    pub attempts: Vec<AttemptView>,
    /// What would wake it, in words.
    pub wakes_when: String,
}

/// A message that waits for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mail {
    /// Whether it starts a turn, or is only read along.
    pub wakes: bool,
    /// The message.
    #[serde(flatten)]
    pub message: Message,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// Which.
    pub attempt: AttemptId,
    /// Which try it is, from 1.
    pub number: u32,
    /// The message its activation is named after.
    pub oldest: Seq,
    /// When it began.
    pub started: Millis,
    /// How it ended, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<AttemptEnd>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// What it used.
    pub usage: Usage,
}

/// `POST /agents/{target}/stop`, `DELETE /agents/{target}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStopped {
    /// Who.
    pub agent: AgentName,
    /// Where.
    pub instance: InstanceRef,
    /// Processes that were ended.
    pub processes: u32,
}

/// `GET /logs`: what an agent's workers printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogReply {
    /// Of which attempt.
    pub attempt: AttemptId,
    /// Whose.
    pub agent: AgentName,
    /// When it began.
    pub started: Millis,
    /// Whether it is over: no more will come.
    pub ended: bool,
    /// The text from `after` on; what is not UTF-8 is replaced.
    pub text: String,
    /// Where to read on.
    pub next: u64,
}
