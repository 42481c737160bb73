//! An MCP message, with the fields that the bridge needs for forwarding.

use agent_worker_protocol::{
    ToolName,
    mcp_wire::{
        IDEMPOTENCY_KEY_ARGUMENT, INVALID_REQUEST, META_REVISION, McpRpcErrorBody,
        McpRpcErrorReply, PARSE_ERROR, SERVER_ERROR, STREAM_CAPABILITY,
    },
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// A message from stdin.
#[derive(Clone, Debug)]
pub(super) struct BridgeMessage(Map<String, Value>);

impl BridgeMessage {
    /// Parses a line; the error is the response to an invalid one.
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let null = Value::Null;
        match serde_json::from_str(line) {
            Ok(Value::Object(message)) => Ok(Self(message).with_bridge_fields()),
            Ok(_) => {
                Err(error_json(&null, INVALID_REQUEST, "a message must be one JSON object", &null))
            }
            Err(why) => Err(error_json(
                &null,
                PARSE_ERROR,
                &format!("the line is not valid JSON: {why}"),
                &null,
            )),
        }
    }

    /// Adds the fields of the bridge: a key to a tool call that takes one, so that it can be repeated, and the stream
    /// capability to `initialize`.
    fn with_bridge_fields(mut self) -> Self {
        match self.method() {
            Some("tools/call") if self.is_repeatable() => {
                if let Some(args) = self.object_param_mut("arguments") {
                    args.entry(IDEMPOTENCY_KEY_ARGUMENT)
                        .or_insert_with(|| Uuid::now_v7().to_string().into());
                }
            }
            Some("initialize") => {
                let capabilities = self.object_param_mut("capabilities");
                let more = capabilities.map(|all| all.entry("experimental").or_insert(json!({})));
                if let Some(Value::Object(more)) = more {
                    more.entry(STREAM_CAPABILITY).or_insert(json!({}));
                }
            }
            Some(_) | None => {}
        }
        self
    }

    /// Returns a parameter that is an object, created if it is missing.
    fn object_param_mut(&mut self, name: &str) -> Option<&mut Map<String, Value>> {
        let params = self.0.entry("params").or_insert(json!({})).as_object_mut()?;
        params.entry(name).or_insert(json!({})).as_object_mut()
    }

    pub(super) fn method(&self) -> Option<&str> {
        self.0.get("method").and_then(Value::as_str)
    }

    fn param(&self, name: &str) -> Option<&str> {
        self.0.get("params")?.get(name)?.as_str()
    }

    /// Returns false for a request that must not reach a daemon twice: each call of `run_start` starts a run.
    pub(super) fn is_repeatable(&self) -> bool {
        self.method() != Some("tools/call") || self.param("name") != Some(ToolName::RunStart.into())
    }

    /// Returns the id of a request; `None` for a message without a response.
    pub(super) fn id(&self) -> Option<String> {
        self.method()?;
        self.0.get("id").filter(|id| !id.is_null()).map(Value::to_string)
    }

    /// Returns the id of the request that this message cancels.
    pub(super) fn cancelled_request_id(&self) -> Option<String> {
        let takes_back = self.method() == Some("notifications/cancelled");
        let id = self.0.get("params")?.get("requestId")?;
        takes_back.then(|| id.to_string())
    }

    /// Returns whether the message starts a session of an older revision.
    pub(super) fn is_initialize(&self) -> bool {
        self.method() == Some("initialize")
    }

    /// Returns whether the response is a stream of future changes.
    pub(super) fn is_subscription_stream(&self) -> bool {
        self.method() == Some("subscriptions/listen")
    }

    /// Returns the resource whose subscription the message starts (`true`) or ends, in older revisions.
    pub(super) fn subscription_change(&self) -> Option<(&str, bool)> {
        match self.method() {
            Some("resources/subscribe") => Some((self.param("uri")?, true)),
            Some("resources/unsubscribe") => Some((self.param("uri")?, false)),
            Some(_) | None => None,
        }
    }

    /// Returns the protocol revision that the message states, since 2026-07-28.
    pub(super) fn protocol_version(&self) -> Option<&str> {
        self.0.get("params")?.get("_meta")?.get(META_REVISION)?.as_str()
    }

    /// Returns the name or URI that a header must repeat.
    pub(super) fn header_name(&self) -> Option<&str> {
        match self.method() {
            Some("resources/read") => self.param("uri"),
            Some("tools/call" | "prompts/get") => self.param("name"),
            Some(_) | None => None,
        }
    }

    pub(super) fn to_json(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }

    /// Returns the error response for a request without an answer.
    pub(super) fn error_response(&self, why: &str, data: &Value) -> String {
        error_json(self.0.get("id").unwrap_or(&Value::Null), SERVER_ERROR, why, data)
    }

    /// Returns whether `line` is the response to this message.
    pub(super) fn is_answered_by(&self, line: &str) -> bool {
        let Ok(Value::Object(line)) = serde_json::from_str(line) else { return false };
        !line.contains_key("method") && line.get("id") == self.0.get("id")
    }
}

fn error_json(id: &Value, code: i32, message: &str, data: &Value) -> String {
    let data = (!data.is_null()).then(|| data.clone());
    let error = McpRpcErrorBody { data, ..McpRpcErrorBody::new(code, message) };
    serde_json::to_string(&McpRpcErrorReply::new(id, error)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(value: &Value) -> BridgeMessage {
        BridgeMessage::parse(&value.to_string()).unwrap()
    }

    #[test]
    fn a_tool_call_has_a_key_of_its_own_and_keeps_the_one_it_has() {
        let call = json!({"id": 1, "method": "tools/call", "params": {"name": "x", "arguments": {"a": 1}}});
        let (one, other) = (message(&call).to_json(), message(&call).to_json());
        assert!(one.contains(IDEMPOTENCY_KEY_ARGUMENT) && one != other, "{one} {other}");
        let bare = json!({"id": 1, "method": "tools/call", "params": {"name": "x"}});
        assert!(message(&bare).to_json().contains(IDEMPOTENCY_KEY_ARGUMENT));
        let mut keyed = call.clone();
        keyed["params"]["arguments"][IDEMPOTENCY_KEY_ARGUMENT] = "mine".into();
        assert_eq!(message(&keyed).to_json(), keyed.to_string());
        let list = json!({"id": 1, "method": "tools/list"});
        assert_eq!(message(&list).to_json(), list.to_string());
    }

    #[test]
    fn an_initialize_request_asks_for_the_stream_capability() {
        let begin =
            json!({"id": 0, "method": "initialize", "params": {"capabilities": {"roots": {}}}});
        let text = message(&begin).to_json();
        assert!(text.contains(STREAM_CAPABILITY) && text.contains("roots"), "{text}");
    }

    #[test]
    fn what_is_no_message_is_answered_with_why() {
        for (line, code) in [("{", PARSE_ERROR), ("[]", INVALID_REQUEST), ("1", INVALID_REQUEST)] {
            let refusal: Value =
                serde_json::from_str(&BridgeMessage::parse(line).unwrap_err()).unwrap();
            assert_eq!((&refusal["error"]["code"], &refusal["id"]), (&json!(code), &Value::Null));
        }
    }

    #[test]
    fn an_answer_is_known_by_its_id_and_by_having_no_method() {
        let list = message(&json!({"id": "a", "method": "tools/list"}));
        for (line, expected) in [
            (json!({"id": "a", "result": {}}), true),
            (json!({"id": "a", "error": {}}), true),
            (json!({"id": "b", "result": {}}), false),
            (json!({"id": "a", "method": "sampling/createMessage"}), false),
            (json!({"method": "notifications/message"}), false),
        ] {
            assert_eq!(list.is_answered_by(&line.to_string()), expected, "{line}");
        }
    }
}
