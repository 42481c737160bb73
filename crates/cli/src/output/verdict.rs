//! How a command ended, as a word for programs and as an exit code.

pub(crate) use agent_worker_protocol::api::RunVerdict;
