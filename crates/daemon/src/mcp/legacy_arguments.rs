//! Spellings of older designs in a tool call, converted to the current ones before the arguments are parsed.
//!
//! `tools/call` accepts them, and `tools/list` does not contain them. Invariant: a call that gives the old and the current
//! spelling with different values is refused, so no value is ignored.

use agent_worker_protocol::{Span, ToolName};
use serde_json::{Number, Value};

use super::{
    call::McpFailure,
    rpc::JsonObject,
    tools::{number_fields, number_list_fields},
};

/// Older name of the tool that lists the messages for the caller.
const MENTIONS_TOOL: &str = "channel_mentions";

/// Converts the arguments of a call of `tool` by the name `called`, and returns the tool that the call means.
pub(super) fn to_current(
    called: &str,
    tool: ToolName,
    args: &mut JsonObject,
) -> Result<ToolName, McpFailure> {
    let tool = match called {
        MENTIONS_TOOL => mentions_tool(args)?,
        _ => tool,
    };
    if tool == ToolName::ProposalCreate {
        convert_proposal(args)?;
    }
    convert_numbers(tool, args);
    Ok(tool)
}

/// Returns the tool for `channel_mentions{unread_only}`: the inbox, or the part of the channel that mentions the caller.
fn mentions_tool(args: &mut JsonObject) -> Result<ToolName, McpFailure> {
    match args.remove("unread_only") {
        Some(Value::Bool(true)) => Ok(ToolName::InboxCheck),
        None | Some(Value::Null | Value::Bool(false)) => {
            args.insert("mentions_only".to_owned(), true.into());
            Ok(ToolName::ChannelRead)
        }
        Some(_) => Err(McpFailure::Malformed("`unread_only` must be true or false".into())),
    }
}

/// Converts `type`, `resolution`, `tieBreaker` and `timeoutSeconds`. A quorum in `resolution` closes the vote when it is
/// reached, unless the call says otherwise.
fn convert_proposal(args: &mut JsonObject) -> Result<(), McpFailure> {
    rename(args, "type", "kind")?;
    rename(args, "tieBreaker", "tie_breaker")?;
    if let Some(seconds) = take(args, "timeoutSeconds") {
        let text = seconds.as_str().map_or_else(|| seconds.to_string(), str::to_owned);
        set(args, "timeoutSeconds", "deadline", format!("{text}s").into())?;
    }
    let mut resolution = match take(args, "resolution") {
        None => return Ok(()),
        Some(Value::Object(resolution)) => resolution,
        Some(_) => return Err(McpFailure::Malformed("`resolution` must be an object".into())),
    };
    for (old, new) in [("type", "rule"), ("quorum", "quorum"), ("tieBreaker", "tie_breaker")] {
        let Some(value) = take(&mut resolution, old) else { continue };
        if old == "quorum" {
            args.entry("close_at_quorum").or_insert(true.into());
        }
        set(args, &format!("resolution.{old}"), new, value)?;
    }
    match resolution.keys().next() {
        None => Ok(()),
        Some(key) => Err(McpFailure::Malformed(format!("unknown field `resolution.{key}`"))),
    }
}

/// Converts whole numbers that are written as texts.
fn convert_numbers(tool: ToolName, args: &mut JsonObject) {
    for name in number_fields(tool) {
        if let Some(value) = args.get_mut(name) {
            convert_number(value);
        }
    }
    for name in number_list_fields(tool) {
        if let Some(Value::Array(values)) = args.get_mut(name) {
            values.iter_mut().for_each(convert_number);
        }
    }
}

fn convert_number(value: &mut Value) {
    if let Some(number) = value.as_str().and_then(|text| text.trim().parse::<i64>().ok()) {
        *value = Value::Number(Number::from(number));
    }
}

fn rename(args: &mut JsonObject, old: &str, new: &str) -> Result<(), McpFailure> {
    match take(args, old) {
        None => Ok(()),
        Some(value) => set(args, old, new, value),
    }
}

/// Removes a value; a null counts as none.
fn take(args: &mut JsonObject, name: &str) -> Option<Value> {
    args.remove(name).filter(|value| !value.is_null())
}

/// Sets the value of `new` that the call gave as `old`.
fn set(args: &mut JsonObject, old: &str, new: &str, value: Value) -> Result<(), McpFailure> {
    match args.insert(new.to_owned(), value) {
        Some(given)
            if !given.is_null() && args.get(new).is_none_or(|value| !is_same(&given, value)) =>
        {
            Err(McpFailure::Malformed(format!("`{old}` and `{new}` differ; give one of them")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns true if two spellings have the same value: equal JSON, equal numbers or equal lengths of time.
fn is_same(one: &Value, other: &Value) -> bool {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (one, other) = (text(one), text(other));
    let spans = (one.parse::<Span>().ok(), other.parse::<Span>().ok());
    one == other || matches!(spans, (Some(one), Some(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn converted(called: &str, args: Value) -> Result<(ToolName, Value), String> {
        let Value::Object(mut args) = args else { panic!("{args}") };
        match to_current(called, ToolName::find(called).unwrap(), &mut args) {
            Ok(tool) => Ok((tool, Value::Object(args))),
            Err(McpFailure::Malformed(message)) => Err(message),
            Err(McpFailure::Refused(problem)) => panic!("{problem:?}"),
        }
    }

    #[test]
    fn old_spellings_mean_the_current_ones() {
        for (called, old, tool, current) in [
            ("vote", json!({"proposal": "2"}), ToolName::Vote, json!({"proposal": 2})),
            ("channel_read", json!({"limit": "5"}), ToolName::ChannelRead, json!({"limit": 5})),
            (
                "inbox_ack",
                json!({"until": "2026-01-01T00:00:00Z"}),
                ToolName::InboxAck,
                json!({"until": "2026-01-01T00:00:00Z"}),
            ),
            (
                "resource_read",
                json!({"id": "12", "range": ["0", 9]}),
                ToolName::ResourceRead,
                json!({"id": "12", "range": [0, 9]}),
            ),
            ("channel_mentions", json!({"unread_only": true}), ToolName::InboxCheck, json!({})),
            (
                "channel_mentions",
                json!({"limit": "5"}),
                ToolName::ChannelRead,
                json!({"limit": 5, "mentions_only": true}),
            ),
            (
                "proposal_create",
                json!({
                    "title": "t", "type": "election", "timeoutSeconds": 60,
                    "resolution": {"type": "majority", "quorum": "2", "tieBreaker": "creator-decides"},
                }),
                ToolName::ProposalCreate,
                json!({
                    "title": "t", "kind": "election", "deadline": "60s", "rule": "majority", "quorum": 2,
                    "close_at_quorum": true, "tie_breaker": "creator-decides",
                }),
            ),
            (
                "proposal_create",
                json!({"title": "t", "resolution": {"quorum": 2}, "close_at_quorum": false}),
                ToolName::ProposalCreate,
                json!({"title": "t", "quorum": 2, "close_at_quorum": false}),
            ),
        ] {
            assert_eq!(converted(called, old.clone()), Ok((tool, current)), "{called} {old}");
        }
    }

    #[test]
    fn two_spellings_with_different_values_are_refused() {
        let same = json!({"title": "t", "type": "decision", "kind": "decision"});
        assert!(converted("proposal_create", same).is_ok());
        for same in [
            json!({"timeoutSeconds": 60, "deadline": "1m"}),
            json!({"timeoutSeconds": "60", "deadline": "60s"}),
            json!({"quorum": "2", "resolution": {"quorum": 2}}),
        ] {
            assert!(converted("proposal_create", same.clone()).is_ok(), "{same}");
        }
        for (args, expected) in [
            (
                json!({"type": "decision", "kind": "election"}),
                "`type` and `kind` differ; give one of them",
            ),
            (
                json!({"rule": "majority", "resolution": {"type": "plurality"}}),
                "`resolution.type` and `rule` differ; give one of them",
            ),
            (
                json!({"deadline": "1m", "timeoutSeconds": 61}),
                "`timeoutSeconds` and `deadline` differ; give one of them",
            ),
            (json!({"resolution": {"rule": "x"}}), "unknown field `resolution.rule`"),
            (json!({"resolution": "majority"}), "`resolution` must be an object"),
        ] {
            assert_eq!(converted("proposal_create", args.clone()), Err(expected.into()), "{args}");
        }
    }
}
