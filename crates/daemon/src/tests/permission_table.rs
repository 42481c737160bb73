//! The table of permissions: every route and every tool, called with a token of each single permission. The result is
//! compared with the declared permission, and with `permission_table.txt`, so that a change of rights is a change of
//! that file. `AW_RECORD=1` rewrites it.

use std::{fmt::Write as _, fs, path::Path};

use agent_worker_protocol::{Keyword as _, Permission, ToolName};
use serde_json::Value;

use super::{
    fixture::{DaemonFixture, TestRequest},
    openapi_contract::{operations, who_may},
    route_access::valid_request,
    scopes::{call, calls_on_team, listed},
};
use crate::mcp::tool_permission;

const FILE: &str = "src/tests/permission_table.txt";
const HEADER: &str = "\
Routes and tools, each called with tokens of one permission, and with a token of all.
yes: allowed. -: refused, because the token lacks a permission or clients may never do it.
x: the permission suffices, and the object or the kind of caller does not.
AW_RECORD=1 rewrites this file.
";
/// Routes that also show the run, so that one permission does not suffice.
const READS_TOO: [&str; 2] = ["/run", "/serve"];

/// The result of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Allowed,
    Refused,
    /// The permission suffices, and the request was refused for another reason.
    OtherRefusal,
}

impl Cell {
    fn of(problem: &Value) -> Self {
        let message = problem["message"].as_str().unwrap_or_default();
        let never = ["token allows", "only the user may", "only an agent may"];
        match problem["code"].as_str() {
            Some("forbidden") if never.iter().any(|part| message.contains(part)) => Self::Refused,
            Some("forbidden") => Self::OtherRefusal,
            Some("unauthorized") => panic!("{problem}"),
            Some(_) | None => Self::Allowed,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "yes",
            Self::Refused => "-",
            Self::OtherRefusal => "x",
        }
    }
}

/// Returns each permission alone, and all together at the end.
fn grants() -> Vec<(String, Vec<Permission>)> {
    let single = Permission::ALL.iter().map(|one| (one.word().to_owned(), vec![*one]));
    single.chain([("all".to_owned(), Permission::ALL.to_vec())]).collect()
}

fn add_row(table: &mut String, name: &str, words: impl IntoIterator<Item = impl AsRef<str>>) {
    let mut row = format!("{name:<34}");
    for word in words {
        write!(row, "{:<10}", word.as_ref()).unwrap();
    }
    writeln!(table, "{}", row.trim_end()).unwrap();
}

/// Returns true if the document allows the route to a client with this permission alone.
fn is_declared(method: &str, path: &str, what: Permission) -> bool {
    match who_may(method, path) {
        "Open to every caller." | "Open to every identified caller." => true,
        sentence => {
            let given = sentence.strip_prefix("A client's token must allow ").unwrap_or_default();
            given.contains(&format!("`{what}`")) && !READS_TOO.contains(&path)
        }
    }
}

/// Returns a request that reaches the check of the permission and needs no object of the caller.
fn probe(fixture: &DaemonFixture, method: &str, path: &str) -> TestRequest {
    match path {
        // A client may read only the receipts of its own messages.
        "/messages/{seq}/receipts" => TestRequest::get("/messages/999/receipts?target=@team"),
        _ => valid_request(fixture, method, path).0,
    }
}

async fn route_rows(table: &mut String) {
    for (method, path) in operations() {
        let fixture = DaemonFixture::open().await;
        let mut words = Vec::new();
        for (name, allow) in grants() {
            let token = fixture.token_for(&name, &allow, &[]).await;
            let answer = fixture.over_tcp(probe(&fixture, &method, &path).token(&token)).await;
            let problem = if answer.status >= 400 { answer.json() } else { Value::Null };
            let cell = Cell::of(&problem);
            if let [what] = allow[..] {
                let declared = is_declared(&method, &path, what);
                assert_eq!(cell != Cell::Refused, declared, "{what}: {method} {path}: {answer:?}");
            }
            words.push(cell.word());
        }
        add_row(table, &format!("{method} {path}"), words);
    }
}

async fn tool_rows(table: &mut String) {
    let mut columns = Vec::new();
    for (name, allow) in grants() {
        let fixture = DaemonFixture::open().await;
        let token = fixture.token_for(&name, &allow, &[]).await;
        let listed = listed(&fixture, &token).await;
        let mut column = Vec::new();
        for (tool, args) in calls_on_team(&fixture).await {
            let answer = call(&fixture, &token, tool, args).await;
            let cell = Cell::of(&answer);
            let is_listed = listed.iter().any(|one| one == tool);
            assert!(
                cell == Cell::Refused || is_listed || is_for_agents(tool),
                "{name}: {tool}: {answer}"
            );
            if let ([what], false) = (&allow[..], is_for_agents(tool)) {
                let declared = tool_permission(tool.parse().unwrap()) == Some(*what)
                    || tool == ToolName::ProposalCancel.word() && *what == Permission::Approve;
                // A tool may need a second permission, such as `read` to return the text that was written.
                let other = !answer["message"].to_string().contains(&format!("`{what}`"));
                let refused = cell == Cell::Refused;
                assert!(refused != declared || declared && other, "{what}: {tool}: {answer}");
                assert_eq!(is_listed, declared, "{what}: {tool} is in the list");
            }
            column.push(cell.word());
        }
        columns.push(column);
    }
    for (row, tool) in ToolName::ALL.iter().enumerate() {
        add_row(table, tool.word(), columns.iter().map(|column| column[row]));
    }
}

/// Returns true for a tool that the list of clients does not have.
fn is_for_agents(tool: &str) -> bool {
    ["inbox_check", "inbox_ack", "ask_human", "feedback_submit", "run_finish"].contains(&tool)
}

#[expect(
    clippy::disallowed_methods,
    reason = "rewriting the table is a setting of the test itself"
)]
fn is_recording() -> bool {
    std::env::var_os("AW_RECORD").is_some()
}

#[tokio::test]
async fn every_route_and_tool_allows_what_the_committed_table_says() {
    let mut table = format!("{HEADER}\n");
    let names: Vec<_> = grants().into_iter().map(|(name, _)| name).collect();
    add_row(&mut table, "route", &names);
    route_rows(&mut table).await;
    table.push('\n');
    add_row(&mut table, "tool", &names);
    tool_rows(&mut table).await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if is_recording() {
        fs::write(&file, &table).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    let changed = |(now, before): &(&str, &str)| now != before;
    let first = table.lines().zip(committed.lines()).find(changed);
    assert!(table == committed, "the table changed; record it with AW_RECORD=1: {first:?}");
}
