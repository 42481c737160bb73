//! One tool call: its arguments and its result.

use std::{collections::BTreeMap, path::PathBuf};

use agent_worker_kernel::{self as kernel, InstanceSelector};
use agent_worker_protocol::{
    Code, EffectKey, Problem, Target, ToolName,
    mcp_wire::{IDEMPOTENCY_KEY_ARGUMENT, PROJECT_HEADER},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{legacy_arguments, rpc::JsonObject};
use crate::{
    http::{client_problem, effect_key},
    input,
};

const TARGET_FIELD: &str = "target";
const PROJECT_FIELD: &str = "project";

/// The parts of a call that all tools share.
#[derive(Debug)]
pub(super) struct McpToolCall {
    /// The idempotency key, if the caller sent one.
    pub(super) key: Option<EffectKey>,
    /// The instance; an agent may omit it. Its folder is that of the call, else that of the connection.
    pub(super) place: InstanceSelector,
    /// The folder that the call itself names.
    pub(super) project: Option<PathBuf>,
    args: JsonObject,
}

/// The result of a tool.
pub(super) type McpToolResult = Result<Value, McpFailure>;

/// The reason why a call has no result.
#[derive(Debug)]
pub(super) enum McpFailure {
    /// The call is invalid; reported as an error of the protocol.
    Malformed(String),
    /// The call is valid and was refused; reported as the tool's result, which a model reads.
    Refused(Problem),
}

impl McpToolCall {
    /// Parses the arguments that every tool takes; `folder` is the folder of the caller's connection. The key covers
    /// exactly these arguments, including the target.
    pub(super) fn new(
        tool: &str,
        mut args: JsonObject,
        folder: Option<PathBuf>,
    ) -> Result<Self, McpFailure> {
        let key = match args.remove(IDEMPOTENCY_KEY_ARGUMENT) {
            None | Some(Value::Null) => None,
            Some(Value::String(key)) => {
                let whole = Value::Object(args);
                let key = effect_key(key, tool, &whole).map_err(|bad| malformed(bad.message))?;
                args = object(whole);
                Some(key)
            }
            Some(_) => {
                return Err(malformed(format!("`{IDEMPOTENCY_KEY_ARGUMENT}` must be a string")));
            }
        };
        let target: Option<Target> = take_field(&mut args, TARGET_FIELD)?;
        let project: Option<PathBuf> = take_field(&mut args, PROJECT_FIELD)?;
        for (name, path) in [(PROJECT_FIELD, &project), (PROJECT_HEADER, &folder)] {
            if path.as_ref().is_some_and(|path| !path.is_absolute()) {
                let message = format!("`{name}` must be an absolute path");
                return Err(McpFailure::Refused(Problem::new(Code::BadRequest, message)));
            }
        }
        let place = InstanceSelector { target, project: project.clone().or(folder) };
        Ok(Self { key, place, project, args })
    }

    /// Returns the selection of a list over several instances. Without a target only a folder that the call itself
    /// names narrows the list.
    pub(super) fn list_place(&self) -> InstanceSelector {
        match &self.place.target {
            Some(_) => self.place.clone(),
            None => InstanceSelector { target: None, project: self.project.clone() },
        }
    }

    /// Converts arguments in older spellings; returns the tool that the call means.
    pub(super) fn modernize(
        &mut self,
        called: &str,
        tool: ToolName,
    ) -> Result<ToolName, McpFailure> {
        legacy_arguments::to_current(called, tool, &mut self.args)
    }

    /// Parses the arguments of this tool.
    pub(super) fn args<T: DeserializeOwned>(&mut self) -> Result<T, McpFailure> {
        let args = Value::Object(std::mem::take(&mut self.args));
        input::from_value(args, &[TARGET_FIELD, PROJECT_FIELD]).map_err(malformed)
    }
}

/// Parses texts of the form `NAME=VALUE`.
pub(super) fn pairs(texts: &[String]) -> Result<BTreeMap<String, String>, McpFailure> {
    let pair = |text: &String| {
        let parted = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let message = || format!("`{text}` does not have the form NAME=VALUE");
        parted.ok_or_else(|| McpFailure::Refused(Problem::new(Code::BadRequest, message())))
    };
    texts.iter().map(pair).collect()
}

/// Converts a result of the kernel to the result of a tool.
pub(super) fn to_tool_result<T: Serialize>(answer: Result<T, kernel::Error>) -> McpToolResult {
    let answer = answer.map_err(kernel_refusal)?;
    serde_json::to_value(answer).map_err(|error| {
        tracing::error!(%error, "could not serialize a tool result as JSON");
        McpFailure::Refused(Problem::new(Code::Internal, "the result could not be serialized"))
    })
}

/// Converts an error of the kernel to a refusal.
#[expect(clippy::needless_pass_by_value, reason = "used as a function in `map_err`")]
pub(super) fn kernel_refusal(error: kernel::Error) -> McpFailure {
    McpFailure::Refused(client_problem(&error))
}

fn malformed(message: impl Into<String>) -> McpFailure {
    McpFailure::Malformed(message.into())
}

/// Removes a field that every tool takes; a null counts as none.
fn take_field<T: DeserializeOwned>(
    args: &mut JsonObject,
    name: &str,
) -> Result<Option<T>, McpFailure> {
    let Some(value) = args.remove(name) else { return Ok(None) };
    let mut field: BTreeMap<String, Option<T>> =
        input::from_value(json!({ name: value }), &[]).map_err(malformed)?;
    Ok(field.remove(name).flatten())
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}
