//! Script of a `mock` agent, which replaces the calls of a model.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::span::Span;

/// One rule of the script. The worker executes the first rule whose `on` occurs in the waking messages, in this
/// order: sleep, calls, run, fail or say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MockRule {
    /// Text that must occur in the waking messages; absent: the rule always applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// Delay before the first action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleep: Option<Span>,
    /// Tool calls of the agent, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<MockCall>,
    /// Shell command that the agent runs as a child process of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Final text of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub say: Option<String>,
    /// Failure with which the attempt ends, after its calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<MockFailure>,
    /// Limits the failure to attempts 1 to n; absent: every attempt fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
}

/// One scripted tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MockCall {
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call.
    #[serde(default)]
    pub args: BTreeMap<String, Value>,
}

/// Failure that a script simulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MockFailure {
    /// Fails as an overloaded model does.
    Transient,
    /// Fails as a provider with a rate limit does, with a retry after one second.
    RateLimited,
    /// Fails as a refused request does.
    Fatal,
    /// Kills the worker process.
    Crash,
    /// Makes the worker hang silently, without an end.
    Hang,
    /// Makes the worker exit with this status without a report.
    Exit(u8),
}
