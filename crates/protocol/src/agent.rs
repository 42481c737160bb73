//! Who takes part: an agent's settings as the workflow file gives them and the worker gets them.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{approval::Permissions, backend::Backend, name::AgentName, span::Span};

/// One agent, checked and complete: every default is filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentSettings {
    /// Its name.
    pub name: AgentName,
    /// How its worker reaches a model.
    pub backend: Backend,
    /// The model, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Who it is told it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The most a model may write in one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// How often one attempt may ask its model.
    pub max_steps: u32,
    /// The longest an attempt may take.
    pub timeout: Span,
    /// The longest it may be silent.
    pub silence: Span,
    /// When failures are tried again.
    pub retry: RetryPolicy,
    /// Its working folder, if not the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Names of environment variables passed through to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Gates that must be open before it may call a tool, by the tool's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires: BTreeMap<String, String>,
    /// What it may do by itself, and what it asks for.
    #[serde(default, skip_serializing_if = "Permissions::is_default")]
    pub permissions: Permissions,
}

/// How often and how soon a failed activation is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RetryPolicy {
    /// After so many counted failures a delivery is dead.
    pub max_attempts: u32,
    /// The pause after the first failure.
    pub backoff: Span,
    /// How much longer each further pause is.
    pub multiplier: f64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 3, backoff: Span::from_secs(1), multiplier: 2.0 }
    }
}

/// Where a run stops by itself. Absent means no such limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// How many messages may lead to a message.
    pub hops: u32,
    /// How many turns a run may take.
    pub turns: Option<u32>,
    /// How long a run may last.
    pub wall: Option<Span>,
}
