//! A recording of one scenario: its requests and the replies.
//!
//! `finish` compares the recording with its golden; with `AW_RECORD=1` it writes the golden instead.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf};

use serde_json::{Map, Value, json};

use super::{
    http::{Ask, Reply},
    placeholders::Placeholders,
    typed,
};
use crate::{
    shell_transcript::shell,
    world::{World, wait_for},
};

/// Kinds that a worker reports itself: their order among the events of the daemon is not fixed.
const BY_WORKERS: [&str; 6] =
    ["attempt.running", "tool_call", "tool_result", "usage", "retry", "note"];

/// A world and its recording.
pub(crate) struct Tape {
    pub(crate) world: World,
    name: &'static str,
    names: Placeholders,
    entries: Map<String, Value>,
}

impl Tape {
    /// Starts a recording with one worker at a time, so that the order of events is fixed.
    pub(crate) fn new(name: &'static str) -> Self {
        let world = World::with(&[
            ("AGENT_WORKER_WORKERS", "1"),
            ("AGENT_WORKER_PROCESS_TRACKING", "tree"),
            ("AGENT_WORKER_KILL_GRACE", "100ms"),
            ("AW_BINARY", env!("CARGO_BIN_EXE_agent-worker")),
        ]);
        Self::of(name, world)
    }

    /// Starts a recording in an existing world.
    pub(crate) fn of(name: &'static str, world: World) -> Self {
        let folder = |path: PathBuf| path.to_string_lossy().into_owned();
        let folders = vec![
            (folder(world.project()), "<project>"),
            (folder(world.home()), "<home>"),
            (folder(world.home().parent().unwrap().to_owned()), "<root>"),
        ];
        Self { world, name, names: Placeholders::new(folders), entries: Map::new() }
    }

    /// Records a value under a unique label.
    pub(crate) fn note(&mut self, label: &str, value: &Value) {
        let (label, value) = (self.names.text(label), self.names.value(value));
        let before = self.entries.insert(label.clone(), value);
        assert!(before.is_none(), "{label} is recorded twice");
    }

    /// Runs a command with `--json` and records its exit code and output.
    pub(crate) fn cli(&mut self, line: &str) -> Value {
        self.cli_as(line, line)
    }

    /// Records a command under another label, for a command that is repeated.
    pub(crate) fn cli_as(&mut self, label: &str, line: &str) -> Value {
        let said = shell(&self.world, &format!("agent-worker {line} --json"));
        let printed = serde_json::from_str(&said.stdout)
            .unwrap_or_else(|error| panic!("{line}: {error}: {said:?}\n{}", self.world.log()));
        typed::check_keys(line, &said.stdout);
        self.note(&format!("$ {label}"), &json!({ "exit": said.code, "stdout": printed }));
        printed
    }

    /// Sends a request on the socket as the user, and records the reply.
    pub(crate) fn http(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let label = format!("{method} {path}");
        self.http_as(&label, method, path, body)
    }

    pub(crate) fn http_as(&mut self, label: &str, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let ask = Ask { method, path, body: &body, headers: &[] };
        self.reply(label, &ask.reply(&self.world))
    }

    pub(crate) fn get(&mut self, path: &str) -> Value {
        self.http("GET", path, &Value::Null)
    }

    /// Records a reply: its status, its type, and its body, parsed if it is JSON.
    pub(crate) fn reply(&mut self, label: &str, reply: &Reply) -> Value {
        let body = serde_json::from_str(&reply.body).unwrap_or_else(|_| json!(reply.body));
        if reply.content_type.as_deref().is_some_and(|kind| kind.contains("json")) {
            typed::check_keys(label, &reply.body);
            if let (Some(path), 200) = (label.strip_prefix("GET /"), reply.status) {
                typed::check_reply(path, &reply.body);
            }
        }
        let recorded = json!({ "status": reply.status, "type": reply.content_type, "body": body });
        self.note(label, &recorded);
        body
    }

    /// Writes a workflow file and starts it in the background.
    pub(crate) fn start(&mut self, file: &str, text: &str) -> String {
        self.world.file(file, text);
        let started = self.cli(&format!("start --background {file}"));
        started["run"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned()
    }

    /// Waits until every run of the instance has begun, no agent works and no agent has pending messages.
    pub(crate) fn rest(&self, target: &str) {
        let list = |what: &str| {
            let path = format!("/{what}?target={target}&limit=1000");
            let reply = Ask { method: "GET", path: &path, ..Ask::default() }.reply(&self.world);
            let page = serde_json::from_str::<Value>(&reply.body).unwrap_or_default();
            page["items"].as_array().cloned().unwrap_or_default()
        };
        let begins = |run: &Value| run["state"] == "setup" || run["state"] == "electing";
        let works = |agent: &Value| {
            agent["waiting"] != 0 || agent["state"] == "running" || agent["state"] == "starting"
        };
        wait_for("everybody to be at rest", || {
            (!list("runs").iter().any(begins) && !list("agents").iter().any(works)).then_some(())
        });
    }

    /// Records every stored event of an instance and hides its channel, which is the last event.
    pub(crate) fn events(&mut self, target: &str) {
        self.cli(&format!("clear {target}"));
        let path = format!("/events?target={target}&after=0");
        let ask = Ask { method: "GET", path: &path, ..Ask::default() };
        let mut events = ask.events(&self.world, |event| event["kind"] == "channel.cleared");
        if target == "@global" {
            // The permanent run of this instance begins concurrently with the first agent that joins.
            events.sort_by_key(|event| match event["kind"].as_str() {
                Some("run.setup") => 0,
                Some("run.running") => 1,
                _ => 2,
            });
        }
        self.note_events(&format!("events of {target}"), events);
    }

    /// Records events in three lists, because their order is fixed only within each: events that the daemon stores,
    /// events that workers report, and live events. Excludes heartbeats, which depend on time, and changes of the
    /// machine's clock.
    pub(crate) fn note_events(&mut self, label: &str, events: Vec<Value>) {
        let counts =
            |event: &Value| event["kind"] != "heartbeat" && event["kind"] != "clock.jumped";
        let (stored, live): (Vec<_>, Vec<_>) =
            events.into_iter().filter(counts).partition(|event| event["pos"].is_number());
        let by_worker = |event: &Value| BY_WORKERS.iter().any(|kind| event["kind"] == *kind);
        let (theirs, ours): (Vec<_>, Vec<_>) = stored.into_iter().partition(by_worker);
        let lists = json!({
            "1 stored by the daemon": ours,
            "2 reported by workers": by_attempt(theirs),
            "3 live only": live,
        });
        self.note(label, &lists);
    }

    /// Compares the recording with its golden, or writes the golden if `AW_RECORD` is set.
    pub(crate) fn finish(self) {
        if is_set("AW_RECORD") { self.write() } else { self.check() }
    }

    /// Writes the golden file.
    pub(crate) fn write(self) {
        let recorded = Value::Object(self.entries);
        fs::write(golden(self.name), format!("{}\n", broken(&recorded, 0))).unwrap();
    }

    /// Compares the recording with its golden.
    pub(crate) fn check(self) {
        let path = golden(self.name);
        let recorded = Value::Object(self.entries);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let expected: Value = serde_json::from_str(&text).unwrap_or_default();
        let mut differences = Vec::new();
        compare("", &expected, &recorded, &mut differences);
        let shown = differences.iter().take(20).fold(String::new(), |mut shown, one| {
            let _ = writeln!(shown, "{one}");
            shown
        });
        assert!(
            differences.is_empty(),
            "{} differences from {}:\n{shown}",
            differences.len(),
            path.display()
        );
    }
}

/// Groups the events by attempt, in the order in which the attempts began.
fn by_attempt(events: Vec<Value>) -> Vec<Value> {
    let mut attempts: Vec<Vec<Value>> = Vec::new();
    for event in events {
        let known = attempts.iter_mut().find(|list| list[0]["attempt"] == event["attempt"]);
        match known {
            Some(list) => list.push(event),
            None => attempts.push(vec![event]),
        }
    }
    attempts.into_iter().flatten().collect()
}

/// Returns the path of a golden; its name is a path within `tests`.
pub(crate) fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(format!("{name}.json"))
}

/// Returns true if a variable of the tests themselves is `1`.
#[expect(clippy::disallowed_methods, reason = "whether to record is a setting of the test itself")]
pub(crate) fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value == "1")
}

/// Lists the differences of two values. A problem may have gained `details`.
fn compare(at: &str, expected: &Value, found: &Value, differences: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            let is_problem = found.contains_key("code") && found.contains_key("message");
            let keys: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
            for key in keys {
                match (expected.get(key), found.get(key)) {
                    (None, Some(_)) if is_problem && key == "details" => {}
                    (Some(one), Some(other)) => {
                        compare(&format!("{at}/{key}"), one, other, differences);
                    }
                    (one, other) => {
                        differences.push(difference(&format!("{at}/{key}"), one, other));
                    }
                }
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (n, (one, other)) in expected.iter().zip(found).enumerate() {
                compare(&format!("{at}/{n}"), one, other, differences);
            }
        }
        (expected, found) if expected == found => {}
        (expected, found) => differences.push(difference(at, Some(expected), Some(found))),
    }
}

fn difference(at: &str, expected: Option<&Value>, found: Option<&Value>) -> String {
    let shown = |value: Option<&Value>| {
        value.map_or_else(
            || "nothing".to_owned(),
            |value| value.to_string().chars().take(600).collect(),
        )
    };
    format!("{at}\n  expected {}\n  found    {}", shown(expected), shown(found))
}

/// Formats JSON with one line for each value that fits on a line.
fn broken(value: &Value, depth: usize) -> String {
    let short = value.to_string();
    let indent = " ".repeat(depth + 1);
    let parts: Vec<String> = match value {
        Value::Array(list) if short.len() > 140 => {
            list.iter().map(|one| format!("{indent}{}", broken(one, depth + 1))).collect()
        }
        Value::Object(fields) if short.len() > 140 || depth == 0 => fields
            .iter()
            .map(|(key, one)| format!("{indent}{}: {}", json!(key), broken(one, depth + 1)))
            .collect(),
        _ => return short,
    };
    let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
    format!("{open}\n{}\n{}{close}", parts.join(",\n"), " ".repeat(depth))
}
