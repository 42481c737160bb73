//! The tools that an agent sees: this program, called by an agent's shell, lists them as that agent.
//!
//! The daemon identifies the caller by its process, so no token is needed.

use std::{
    env,
    io::{self, Write as _},
    path::PathBuf,
};

use agent_worker_protocol::{Event, EventBody, EventKind, MessageKind};
use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::{
    bench_env::BenchEnv,
    mcp::{McpClient, McpRequest},
    table::{Figure, Table, Unit},
};

/// Flag with which the agent's shell calls this program.
pub(crate) const COUNT_TOOLS_FLAG: &str = "--count-tools";
const MAX_TOOL_LIST_BYTES: f64 = 8.0 * 1024.0;

/// Prints the size of the caller's tool list, measured as compact JSON.
pub(crate) async fn count_tools(socket: PathBuf) -> anyhow::Result<()> {
    let mut client = McpClient::connect(&socket).await?;
    let result: Value = client.request(&McpRequest::list()).await?;
    let tools = result["tools"].as_array().context("no tools")?;
    let shown = tools.iter().any(|tool| tool["name"] == "inbox_check");
    anyhow::ensure!(shown, "an agent would be shown its inbox; this was somebody else");
    writeln!(io::stdout(), "{}", result["tools"].to_string().len())?;
    Ok(())
}

/// Measures the size of an agent's tool list.
pub(crate) async fn figures(table: &mut Table) -> anyhow::Result<()> {
    let bench_env = BenchEnv::with_daemon()?;
    let exe = env::current_exe()?;
    let socket = bench_env.socket();
    let yaml = format!(
        "name: team\nagents:\n  counter:\n    backend: mock\n    mock:\n      - run: \"'{}' {COUNT_TOOLS_FLAG} '{}'\"\nkickoff: \"@counter count\"\n",
        exe.display(),
        socket.display()
    );
    let run = bench_env.team(&yaml)?;
    let mut events =
        bench_env.connect().events(&format!("/events?run={run}&after=0"), None).await?;
    while let Some((_, event)) = events.next().await? {
        if let Some(answer) = answer_body(&event) {
            let bytes: f64 = answer.parse().with_context(|| answer.to_owned())?;
            let figure = Figure::new("tools/list of an agent", Unit::Bytes, bytes);
            table.add(&figure.at_most(MAX_TOOL_LIST_BYTES))?;
            return Ok(());
        }
        if event.kind() == Some(EventKind::AttemptEnded) && event.cause.as_deref() != Some("ok") {
            bail!("the agent that counts its tools failed: {event:?}");
        }
    }
    bail!("the agent that counts its tools said nothing")
}

fn answer_body(event: &Event) -> Option<&str> {
    match &event.body {
        EventBody::Message(message) if message.kind == MessageKind::Answer => Some(&message.body),
        _ => None,
    }
}
