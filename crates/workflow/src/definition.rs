//! The workflow as a whole: loading a file and checking each of its sections.

pub(crate) mod agent_problems;
pub(crate) mod answers;
pub(crate) mod context;
pub(crate) mod env_mentions;
pub(crate) mod gates;
pub(crate) mod history;
pub(crate) mod layout;
pub(crate) mod limits;
pub(crate) mod load;
pub(crate) mod nearby_file;
pub(crate) mod notify;
pub(crate) mod param_value;
pub(crate) mod params;
pub(crate) mod params_file;
pub(crate) mod schema;
pub(crate) mod setup;
pub(crate) mod tasks;
pub(crate) mod unset_env;
pub(crate) mod user_config;
pub(crate) mod workflow;
