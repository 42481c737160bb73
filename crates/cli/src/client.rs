//! The connection to the daemon: discovery, launch, HTTP requests and the MCP bridge.

pub(crate) mod attach_run;
pub(crate) mod bridge;
pub(crate) mod client_token;
pub(crate) mod daemon_client;
pub(crate) mod discovery;
pub(crate) mod launch;
pub(crate) mod local_state;
pub(crate) mod sent_message_status;
