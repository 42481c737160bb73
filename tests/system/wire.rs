//! The current wire format: every event, reply and `--json` output of fixed scenarios, compared with
//! `tests/goldens`.
//!
//! Each scenario drives the real binary with scripted agents, one worker at a time, and has one golden. Values that
//! differ between runs are placeholders (`placeholders.rs`); texts for people are excluded. `AW_RECORD=1` rewrites
//! the goldens, which is right only for an intended change of the wire format.

mod failures;
pub(crate) mod http;
mod people;
mod placeholders;
mod problems;
mod programs;
pub(crate) mod tape;
mod teams;
mod tools;
mod typed;
mod views;

use std::{collections::BTreeSet, fs};

use serde_json::Value;

use tape::golden;

const GOLDENS: [&str; 13] = [
    "approvals",
    "client",
    "council",
    "failures",
    "files",
    "handoff",
    "limits",
    "problems",
    "programs",
    "questions",
    "team",
    "tools",
    "votes",
];

/// Kinds of events that no scenario here has, with the reason.
const NOT_RECORDED: [(&str, &str); 11] = [
    ("agent.mock_changed", "no scenario changes the script of an agent"),
    ("delivery.joined", "only a vendor's program takes a message during its turn"),
    ("heartbeat", "live only, and sent by time"),
    ("note", "only an agent with direct access to a model reports one"),
    ("notification.failed", "needs a channel that fails"),
    ("row.damaged", "needs a damaged database"),
    ("clock.jumped", "needs a wall clock that is set"),
    ("permission.used", "no scenario has an agent that makes the same call twice"),
    ("run.verdict", "no scenario has an agent that may set one"),
    ("task.ended", "no scenario has tasks; the tests of procedures read it"),
    ("task.started", "no scenario has tasks; the tests of procedures read it"),
];

fn read(name: &str) -> Value {
    let text = fs::read_to_string(golden(&format!("goldens/{name}"))).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn openapi() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Collects the kinds of all events in a golden.
fn kinds(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|one| kinds(one, found)),
        Value::Object(fields) => {
            let is_event = fields.contains_key("ts") && fields.contains_key("instance");
            found.extend(
                fields.get("kind").filter(|_| is_event).and_then(Value::as_str).map(str::to_owned),
            );
            fields.values().for_each(|one| kinds(one, found));
        }
        _ => {}
    }
}

#[test]
fn every_kind_of_event_is_in_a_golden_or_named_as_one_that_is_not() {
    let mut found = BTreeSet::new();
    for name in GOLDENS {
        kinds(&read(name), &mut found);
    }
    let missing = NOT_RECORDED.map(|(kind, _)| kind.to_owned());
    for kind in &missing {
        assert!(!found.contains(kind), "{kind} is in a golden after all");
    }
    found.extend(missing);
    let all: BTreeSet<String> = KINDS.iter().map(|kind| (*kind).to_owned()).collect();
    assert_eq!(found, all);
    // The list in the API description is the complete list.
    let kinds = openapi()["components"]["schemas"]["Event"]["properties"]["kind"].clone();
    let kinds = kinds["anyOf"][0]["enum"].as_array().unwrap().iter();
    let described: BTreeSet<String> = kinds.map(|kind| kind.as_str().unwrap().to_owned()).collect();
    assert_eq!(described, all);
}

#[test]
fn every_route_that_reads_is_in_a_golden() {
    let asked: Vec<String> = GOLDENS
        .iter()
        .flat_map(|name| read(name).as_object().unwrap().keys().cloned().collect::<Vec<_>>())
        .filter_map(|label| Some(label.strip_prefix("GET ")?.split('?').next()?.to_owned()))
        .collect();
    for (path, item) in openapi()["paths"].as_object().unwrap() {
        let (start, rest) = path.split_once('{').unwrap_or((path, ""));
        let end = rest.split_once('}').map_or("", |(_, end)| end);
        let fits = |one: &String| match rest {
            "" => one == start,
            _ => one.len() > start.len() && one.starts_with(start) && one.ends_with(end),
        };
        assert!(item["get"].is_null() || asked.iter().any(fits), "GET {path} is not recorded");
    }
}

const KINDS: [&str; 51] = [
    "agent.added",
    "agent.mock_changed",
    "agent.removed",
    "agent.resumed",
    "agent.stopped",
    "approval.answered",
    "approval.open",
    "attempt.ended",
    "attempt.running",
    "attempt.starting",
    "ballot.cast",
    "channel.cleared",
    "clock.jumped",
    "delivery.dead",
    "delivery.dropped",
    "delivery.joined",
    "delivery.pending",
    "document.conflict",
    "document.written",
    "heartbeat",
    "mention.unheard",
    "message",
    "note",
    "notification.failed",
    "permission.granted",
    "permission.revoked",
    "permission.used",
    "proposal.active",
    "proposal.cancelled",
    "proposal.expired",
    "proposal.resolved",
    "question.answered",
    "question.open",
    "retry",
    "row.damaged",
    "run.electing",
    "run.ended",
    "run.paused",
    "run.running",
    "run.setup",
    "run.verdict",
    "setup.ran",
    "suggestion.accepted",
    "suggestion.open",
    "suggestion.rejected",
    "task.ended",
    "task.started",
    "text",
    "tool_call",
    "tool_result",
    "usage",
];
