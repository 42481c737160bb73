//! The verdict on a command, as a word for programs and as an exit code.

pub(crate) use agent_worker_protocol::api::RunVerdict;
