//! Tests of the crate through its public interface: files in, workflows and messages out, scripts run by real shells.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the report")]

mod agent_files;
mod agreement;
mod attacks;
mod budgets;
mod builtin_tools;
mod canaries;
mod files;
mod messages;
mod mistakes;
mod mock_tools;
mod numbers;
mod params;
mod permissions;
mod positions;
mod rewrites;
mod sandbox;
mod schema;
mod section_mistakes;
mod sections;
mod shell;
mod task_values;
mod tasks;
mod values;

use std::path::Path;

use agent_worker_workflow::{Error, Workflow, parse};

/// Smallest valid workflow: one agent.
const AGENTS: &str = "agents:\n  a: { backend: mock }\n";

/// Parses a file called `team.yaml`.
fn read(text: &str) -> Result<Workflow, Error> {
    parse(text, Path::new("team.yaml"))
}

/// Parses sections together with one agent.
fn read_with_agent(sections: &str) -> Result<Workflow, Error> {
    read(&format!("{AGENTS}{sections}"))
}
