//! LABOUR: the process that carries out one attempt, as f(prompt, tools) → result.
//!
//! It is a client of the daemon like any other: it reports events over the socket, calls tools over
//! MCP, and goes on for a while when no daemon is there. Whether its work counts is not decided here.

mod approval_gate;
mod attempt;
mod backend;
mod child_env;
mod clocks;
mod event_reporter;
mod journal;
mod mcp_client;
mod mock;
mod model;
mod post_schedule;
mod pricing;
mod program;
mod shell;
mod tool_loop;
mod tool_server;
mod tool_set;
mod truncation;
mod turn;
mod worker_log;

pub use attempt::{Error, run_worker};
