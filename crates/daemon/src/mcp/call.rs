//! One tool call: what was given, and what comes back.

use std::collections::BTreeMap;

use agent_worker_kernel::{self as kernel, InstanceSelector};
use agent_worker_protocol::{Code, EffectKey, Problem, Target, mcp_wire::IDEMPOTENCY_KEY_ARGUMENT};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::rpc::JsonObject;
use crate::http::{client_problem, effect_key};

const TARGET_FIELD: &str = "target";

/// What a call carries, whichever tool it is for.
#[derive(Debug)]
pub(super) struct McpToolCall {
    /// What makes it happen once.
    pub(super) key: Option<EffectKey>,
    /// Which instance; an agent needs not say.
    pub(super) place: InstanceSelector,
    args: JsonObject,
}

/// What a tool answers.
pub(super) type McpToolResult = Result<Value, McpFailure>;

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum McpFailure {
    /// It makes no sense: told as an error of the protocol.
    Malformed(String),
    /// It made sense and was refused: told as the tool's own answer, which a model reads.
    Refused(Problem),
}

impl McpToolCall {
    /// Reads what every tool takes. The key belongs to exactly these arguments, the target included.
    pub(super) fn new(tool: &str, mut args: JsonObject) -> Result<Self, McpFailure> {
        let key = match args.remove(IDEMPOTENCY_KEY_ARGUMENT) {
            None | Some(Value::Null) => None,
            Some(Value::String(key)) => {
                let whole = Value::Object(args);
                let key = effect_key(key, tool, &whole).map_err(|bad| malformed(bad.message))?;
                args = object(whole);
                Some(key)
            }
            Some(_) => return Err(malformed(format!("`{IDEMPOTENCY_KEY_ARGUMENT}` is a text"))),
        };
        let target =
            args.remove(TARGET_FIELD).map(deserialize::<Option<Target>>).transpose()?.flatten();
        Ok(Self { key, place: InstanceSelector { target, ..InstanceSelector::default() }, args })
    }

    /// Reads what this tool takes.
    pub(super) fn args<T: DeserializeOwned>(&mut self) -> Result<T, McpFailure> {
        deserialize(Value::Object(std::mem::take(&mut self.args)))
    }
}

/// Reads `NAME=VALUE` each.
pub(super) fn pairs(texts: &[String]) -> Result<BTreeMap<String, String>, McpFailure> {
    let pair = |text: &String| {
        let parted = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let message = || format!("`{text}` is not NAME=VALUE");
        parted.ok_or_else(|| McpFailure::Refused(Problem::new(Code::BadRequest, message())))
    };
    texts.iter().map(pair).collect()
}

/// The kernel's answer, as a tool's.
pub(super) fn to_tool_result<T: Serialize>(answer: Result<T, kernel::Error>) -> McpToolResult {
    let answer = answer.map_err(kernel_refusal)?;
    serde_json::to_value(answer).map_err(|error| {
        tracing::error!(%error, "an answer could not be written as JSON");
        McpFailure::Refused(Problem::new(Code::Internal, "the answer could not be written"))
    })
}

/// What the kernel refused.
#[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
pub(super) fn kernel_refusal(error: kernel::Error) -> McpFailure {
    McpFailure::Refused(client_problem(&error))
}

fn malformed(message: impl Into<String>) -> McpFailure {
    McpFailure::Malformed(message.into())
}

fn deserialize<T: DeserializeOwned>(value: Value) -> Result<T, McpFailure> {
    serde_json::from_value(value).map_err(|error| malformed(error.to_string()))
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}
