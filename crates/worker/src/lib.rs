//! The worker: the process that carries out one attempt, as f(prompt, tools) → result, or one command of a task.
//!
//! A worker of an attempt is an ordinary client of the daemon: it reports events over the socket, calls tools over MCP, and
//! continues for a while without a daemon. The daemon decides if the work counts.

mod api_backend;
mod api_compaction;
mod api_conversation;
mod api_model;
mod api_tools;
mod approval_gate;
mod attachments;
mod attempt;
mod attempt_sandbox;
mod backend;
mod builtin_tools;
mod child_env;
mod clocks;
mod compaction;
mod event_reporter;
mod journal;
mod mcp_client;
mod mock;
mod mock_tools;
mod model;
mod model_retries;
mod model_spend;
mod post_schedule;
mod pricing;
mod program;
mod shell;
mod structured_answer;
mod task_command;
mod tool_host;
mod tool_loop;
mod tool_server;
mod tool_set;
mod truncation;
mod turn;
mod turn_history;
mod turn_messages;
mod user_question;
mod worker_log;

pub use attempt::{Error, run_worker};
