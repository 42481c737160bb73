//! The script of a `mock` agent: what it does instead of asking a model.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::span::Span;

/// One rule. The first whose `on` occurs in what woke the agent is carried out: sleep, fail, calls, run, say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MockRule {
    /// Text that must occur in what woke the agent; absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// How long it takes before anything else happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleep: Option<Span>,
    /// The tools it calls, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<MockCall>,
    /// A shell command it runs, as a child process of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Its final text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub say: Option<String>,
    /// How it fails, after its calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<MockFailure>,
    /// Only attempts 1 to n fail; absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
}

/// One scripted tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MockCall {
    /// Which tool.
    pub tool: String,
    /// With what.
    #[serde(default)]
    pub args: BTreeMap<String, Value>,
}

/// A scripted failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MockFailure {
    /// As an overloaded model does.
    Transient,
    /// As a provider that says "in a second".
    RateLimited,
    /// As a refused request.
    Fatal,
    /// The worker is killed.
    Crash,
    /// The worker says nothing more and does not end.
    Hang,
    /// The worker exits with this status without a word.
    Exit(u8),
}
