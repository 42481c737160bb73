//! Permission requests of an agent, and the answers to them.

use agent_worker_protocol::api::PermitRequest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::AcpToolCall;

/// Parameters of a request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AcpPermitParams {
    pub(super) tool_call: Box<AcpToolCall>,
    pub(super) options: Vec<AcpPermitOption>,
}

/// An answer that the agent accepts.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AcpPermitOption {
    option_id: Value,
    kind: String,
}

/// A permission request of the agent, with the options for its answer.
#[derive(Debug, PartialEq)]
pub(super) struct AcpPermitQuestion {
    pub(super) id: Value,
    /// The agent's own id of the call.
    pub(super) call_id: String,
    pub(super) request: PermitRequest,
    allow_option: Option<Value>,
    reject_option: Option<Value>,
}

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcpPermitDecision {
    AllowOnce,
    Reject,
}

impl AcpPermitQuestion {
    /// Selects the options for the answer. Never selects an option that also allows later calls. An option that also
    /// rejects later calls is still a rejection.
    pub(super) fn new(id: Value, request: PermitRequest, options: &[AcpPermitOption]) -> Self {
        let option = |kind: &str| {
            options.iter().find(|option| option.kind == kind).map(|it| it.option_id.clone())
        };
        let reject_option = option("reject_once").or_else(|| option("reject_always"));
        let call_id = request.call.clone();
        Self { id, call_id, request, allow_option: option("allow_once"), reject_option }
    }

    /// Builds the answer: allows this one call, or rejects it.
    pub(super) fn response(self, permit: AcpPermitDecision) -> Value {
        let choice = match permit {
            AcpPermitDecision::AllowOnce => self.allow_option.or(self.reject_option),
            AcpPermitDecision::Reject => self.reject_option,
        };
        let outcome = match choice {
            Some(option) => json!({"outcome": "selected", "optionId": option}),
            None => json!({"outcome": "cancelled"}),
        };
        json!({"jsonrpc": "2.0", "id": self.id, "result": {"outcome": outcome}})
    }
}
