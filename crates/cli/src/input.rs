//! Everything that the user supplies: arguments, settings, parameters, context and signals.

pub(crate) mod argument_values;
pub(crate) mod attached_files;
pub(crate) mod command_groups;
pub(crate) mod completion;
pub(crate) mod config_file;
pub(crate) mod context;
pub(crate) mod grant;
pub(crate) mod invocation;
pub(crate) mod param_values;
pub(crate) mod params;
pub(crate) mod resolve_run;
pub(crate) mod settings;
pub(crate) mod signals;
pub(crate) mod target_args;
