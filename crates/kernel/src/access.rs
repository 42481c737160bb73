//! Callers and targets: tokens, scopes, and the instance that a request names.

pub(crate) mod client_env;
pub(crate) mod instance_resolution;
pub(crate) mod scope;
pub(crate) mod target;
pub(crate) mod target_suggestion;
pub(crate) mod tokens;
