//! LABOUR: the process that carries out one attempt, as f(prompt, tools) → result.
//!
//! It is a client of the daemon like any other: it reports events over the socket, calls tools over
//! MCP, and goes on for a while when no daemon is there. Whether its work counts is not decided here.

mod clocks;
mod door;
mod gate;
mod journal;
mod log;
mod mcp;
mod mock;
mod model;
mod models;
mod pace;
mod program;
mod report;
mod shell;
mod surroundings;
mod text;
mod tool_loop;
mod toolbox;
mod work;

pub use work::{Error, work};
