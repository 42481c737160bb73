//! The built-in tools of agents with direct access to a model.
//!
//! The tool host (`host.rs`) is a process of our own binary, one for each attempt, inside the agent's sandbox: file tools
//! and commands have exactly the rights of the sandbox. `fetch_url` runs in the worker. This crate decides no permission and
//! knows no daemon: the worker asks before each call.

mod background;
mod bash;
mod captured_output;
mod command_process;
mod edit_file;
mod fetch_url;
mod file_access;
mod file_walk;
mod host;
mod html_text;
mod image_format;
mod list_files;
mod messages;
mod read_file;
mod search_code;
mod tool_output;
mod write_file;

pub use fetch_url::PageFetcher;
pub use host::serve_tools;
pub use messages::{HostCall, HostReply, HostRequest};
pub use tool_output::{ToolImage, ToolOutput};
