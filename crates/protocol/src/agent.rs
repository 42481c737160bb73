//! Settings of an agent, as the workflow file gives them and the worker gets them, and the limits of a run.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    approval::Permissions, backend::Backend, mock_tool::MockTool, name::AgentName,
    sandbox::SandboxSettings, span::Span,
};

/// Checked settings of one agent, with every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentSettings {
    /// Name of the agent.
    pub name: AgentName,
    /// Backend through which its worker reaches a model.
    pub backend: Backend,
    /// Model, as written in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// System prompt of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Maximum number of tokens that a model may write in one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Maximum number of model calls in one attempt. Earlier versions stored a default as `max_steps` for every backend.
    #[serde(default, rename = "step_limit", skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// JSON Schema of the answers; absent: any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Effort of the model's reasoning; absent: the program's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Models for a turn whose model is overloaded or used up, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    /// Maximum duration of an attempt.
    pub timeout: Span,
    /// Maximum time without output.
    pub silence: Span,
    /// Retries after a failure.
    pub retry: RetryPolicy,
    /// Working folder of the agent, if it differs from the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Names of environment variables passed through to the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Gates that must be open before the agent may call a tool, by the tool's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires: BTreeMap<String, String>,
    /// Rules for calls without and with an approval.
    #[serde(default, skip_serializing_if = "Permissions::is_default")]
    pub permissions: Permissions,
    /// Sandbox of the agent's program.
    #[serde(default, skip_serializing_if = "SandboxSettings::is_off")]
    pub sandbox: SandboxSettings,
    /// Tools with scripted results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mock_tools: Vec<MockTool>,
}

/// Effort of a model's reasoning, from the least to the most.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Effort {
    /// Short reasoning, for simple work.
    Low,
    /// The usual effort of most programs.
    Medium,
    /// Long reasoning, for hard work.
    High,
    /// More reasoning than `High`.
    Xhigh,
    /// As much as the model can.
    Max,
}

/// Number and delay of the retries of a failed activation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RetryPolicy {
    /// Number of counted failures after which a delivery is dead.
    pub max_attempts: u32,
    /// Delay after the first failure.
    pub backoff: Span,
    /// Factor by which each further delay grows.
    pub multiplier: f64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 3, backoff: Span::from_secs(1), multiplier: 2.0 }
    }
}

/// Limits at which a run pauses by itself; an absent value means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Maximum number of messages in the chain that leads to a message.
    pub hops: u32,
    /// Maximum number of turns of a run.
    pub turns: Option<u32>,
    /// Maximum time in which a run can work; pauses and the time in which only answers of a person are missing do
    /// not count.
    pub wall: Option<Span>,
    /// Time for which live turns may continue after the wall limit.
    #[serde(default = "default_wall_grace")]
    pub wall_grace: Span,
    /// Maximum cost and tokens of a run.
    #[serde(flatten)]
    pub spend: SpendLimits,
}

/// Limits of the models' work; an absent value means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpendLimits {
    /// Maximum cost of all agents, in millionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Maximum number of tokens of all agents, input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl SpendLimits {
    /// Neither limit is set.
    pub const NONE: Self = Self { cost_micros: None, tokens: None };
}

impl Limits {
    /// The grace period of a workflow file that names none.
    pub const WALL_GRACE: Span = Span::from_secs(30);
}

fn default_wall_grace() -> Span {
    Limits::WALL_GRACE
}
