//! One message of the protocol, as far as passing it on needs to know it.

use serde_json::{Map, Value, json};
use uuid::Uuid;

const KEY: &str = "idempotency_key";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// How a client of the older revisions says that it wants to be told things.
const STREAM: &str = "agent-worker/stream";
/// The errors of the protocol that are ours to tell.
const NO_JSON: i64 = -32700;
const NO_MESSAGE: i64 = -32600;
const NO_ANSWER: i64 = -32000;

/// A message that came in over stdin.
#[derive(Clone, Debug)]
pub(super) struct Message(Map<String, Value>);

impl Message {
    /// Reads a line. What is no message is answered with why.
    pub(super) fn read(line: &str) -> Result<Self, String> {
        let null = Value::Null;
        match serde_json::from_str(line) {
            Ok(Value::Object(message)) => Ok(Self(message).prepared()),
            Ok(_) => Err(error(&null, NO_MESSAGE, "a message is one JSON object", &null)),
            Err(why) => Err(error(&null, NO_JSON, &format!("this is no JSON: {why}"), &null)),
        }
    }

    /// As it is passed on: a tool call has a key, so that it can be said twice; whoever begins wants to be told.
    fn prepared(mut self) -> Self {
        match self.method() {
            Some("tools/call") => {
                if let Some(args) = self.object("arguments") {
                    args.entry(KEY).or_insert_with(|| Uuid::now_v7().to_string().into());
                }
            }
            Some("initialize") => {
                let capabilities = self.object("capabilities");
                let more = capabilities.map(|all| all.entry("experimental").or_insert(json!({})));
                if let Some(Value::Object(more)) = more {
                    more.entry(STREAM).or_insert(json!({}));
                }
            }
            Some(_) | None => {}
        }
        self
    }

    /// One of its parameters that is an object; made where there is none.
    fn object(&mut self, name: &str) -> Option<&mut Map<String, Value>> {
        let params = self.0.entry("params").or_insert(json!({})).as_object_mut()?;
        params.entry(name).or_insert(json!({})).as_object_mut()
    }

    pub(super) fn method(&self) -> Option<&str> {
        self.0.get("method").and_then(Value::as_str)
    }

    fn param(&self, name: &str) -> Option<&str> {
        self.0.get("params")?.get(name)?.as_str()
    }

    /// What it will be answered by; none for what is not answered.
    pub(super) fn id(&self) -> Option<String> {
        self.method()?;
        self.0.get("id").filter(|id| !id.is_null()).map(Value::to_string)
    }

    /// The request it takes back, if it does.
    pub(super) fn cancels(&self) -> Option<String> {
        let takes_back = self.method() == Some("notifications/cancelled");
        let id = self.0.get("params")?.get("requestId")?;
        takes_back.then(|| id.to_string())
    }

    /// Whether a client of the older revisions begins with it.
    pub(super) fn begins(&self) -> bool {
        self.method() == Some("initialize")
    }

    /// Whether its answer is whatever happens from now on.
    pub(super) fn is_endless(&self) -> bool {
        self.method() == Some("subscriptions/listen")
    }

    /// What it begins or ends to watch, in the older revisions.
    pub(super) fn watches(&self) -> Option<(&str, bool)> {
        match self.method() {
            Some("resources/subscribe") => Some((self.param("uri")?, true)),
            Some("resources/unsubscribe") => Some((self.param("uri")?, false)),
            Some(_) | None => None,
        }
    }

    /// The revision it says it is of, since 2026-07-28.
    pub(super) fn version(&self) -> Option<&str> {
        self.0.get("params")?.get("_meta")?.get(VERSION)?.as_str()
    }

    /// What it is about, where a header must say so too.
    pub(super) fn name(&self) -> Option<&str> {
        match self.method() {
            Some("resources/read") => self.param("uri"),
            Some("tools/call" | "prompts/get") => self.param("name"),
            Some(_) | None => None,
        }
    }

    pub(super) fn text(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }

    /// The answer when there is none.
    pub(super) fn unanswered(&self, why: &str, data: &Value) -> String {
        error(self.0.get("id").unwrap_or(&Value::Null), NO_ANSWER, why, data)
    }

    /// Whether `line` is the answer to it.
    pub(super) fn is_answered_by(&self, line: &str) -> bool {
        let Ok(Value::Object(line)) = serde_json::from_str(line) else { return false };
        !line.contains_key("method") && line.get("id") == self.0.get("id")
    }
}

fn error(id: &Value, code: i64, message: &str, data: &Value) -> String {
    let mut error = json!({"code": code, "message": message});
    if !data.is_null() {
        error["data"] = data.clone();
    }
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(value: &Value) -> Message {
        Message::read(&value.to_string()).unwrap()
    }

    #[test]
    fn a_tool_call_has_a_key_of_its_own_and_keeps_the_one_it_has() {
        let call = json!({"id": 1, "method": "tools/call", "params": {"name": "x", "arguments": {"a": 1}}});
        let (one, other) = (message(&call).text(), message(&call).text());
        assert!(one.contains(KEY) && one != other, "{one} {other}");
        let bare = json!({"id": 1, "method": "tools/call", "params": {"name": "x"}});
        assert!(message(&bare).text().contains(KEY));
        let mut keyed = call.clone();
        keyed["params"]["arguments"][KEY] = "mine".into();
        assert_eq!(message(&keyed).text(), keyed.to_string());
        let list = json!({"id": 1, "method": "tools/list"});
        assert_eq!(message(&list).text(), list.to_string());
    }

    #[test]
    fn whoever_begins_asks_to_be_told() {
        let begin =
            json!({"id": 0, "method": "initialize", "params": {"capabilities": {"roots": {}}}});
        let text = message(&begin).text();
        assert!(text.contains(STREAM) && text.contains("roots"), "{text}");
    }

    #[test]
    fn what_is_no_message_is_answered_with_why() {
        for (line, code) in [("{", NO_JSON), ("[]", NO_MESSAGE), ("1", NO_MESSAGE)] {
            let refusal: Value = serde_json::from_str(&Message::read(line).unwrap_err()).unwrap();
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
