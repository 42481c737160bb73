//! The tool calls of the design documents, by an agent through MCP, in the spelling of the documents.

use serde_json::{Value, json};

use crate::world::World;

/// Calls in an order in which each has its object: document and line, tool, arguments.
fn calls() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("001:409", "channel_send", json!({ "message": "Starting." })),
        ("000:366", "channel_read", json!({ "since": "2026-01-01T00:00:00Z", "limit": 5 })),
        ("001:425", "channel_read", json!({ "limit": "5" })),
        ("000:382", "channel_peek", json!({ "limit": 5 })),
        ("000:390", "channel_mentions", json!({ "unread_only": true })),
        ("000:390", "channel_mentions", json!({})),
        ("001:432", "inbox_check", json!({})),
        ("001:438", "inbox_ack", json!({ "until": "2999-01-01T00:00:00Z" })),
        ("001:525", "workflow_agents", json!({})),
        (
            "001:529",
            "proposal_create",
            json!({
                "type": "decision",
                "title": "Which library?",
                "description": "For the client.",
                "options": [{ "id": "a", "label": "A" }, { "id": "b", "label": "B" }],
                "resolution": { "type": "plurality", "quorum": 1, "tieBreaker": "first" },
                "binding": false,
                "timeoutSeconds": 60,
            }),
        ),
        ("001:545", "vote", json!({ "proposal": "1", "choice": "a", "reason": "smaller" })),
        ("001:553", "proposal_status", json!({ "proposal": "1" })),
        ("001:553", "proposal_status", json!({})),
        ("001:529", "proposal_create", json!({ "type": "approval", "title": "Ship it?" })),
        ("001:559", "proposal_cancel", json!({ "proposal": "2" })),
    ]
}

#[test]
fn every_tool_call_of_the_design_documents_succeeds() {
    let world = World::new();
    let rules: Vec<Value> =
        calls().into_iter().map(|(_, tool, args)| json!({ "tool": tool, "args": args })).collect();
    let mock = json!([{ "calls": rules, "say": "Done." }]);
    let team = format!(
        "name: calls\nagents:\n  coder: {{ backend: mock, mock: {mock} }}\nkickoff: '@coder go'\n"
    );
    world.file("calls.yaml", &team);
    let (code, report) = world.envelope(&["run", "calls.yaml", "--json"]);
    assert_eq!(code, 0, "{report}");
    let run = report["run"].as_str().unwrap();
    let (status, events) = world.as_user("GET", &format!("/events?run={run}&until=rest"), "");
    assert_eq!(status, 200, "{events}");
    let results = events.lines().filter_map(|line| line.strip_prefix("data:"));
    let results = results.filter_map(|line| serde_json::from_str::<Value>(line.trim()).ok());
    let results: Vec<Value> = results.filter(|event| event["kind"] == "tool_result").collect();
    assert_eq!(results.len(), calls().len(), "{events}");
    for ((row, tool, _), result) in calls().iter().zip(&results) {
        assert_eq!(result["data"]["ok"], true, "{row} {tool}: {result}");
    }
    assert!(results[10]["data"]["summary"].to_string().contains("resolved"), "{}", results[10]);
}
