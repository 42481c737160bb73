//! The registry of backends: names, programs, environment variables, endpoints, abilities, permissions and install hints,
//! the names and prices of models, and the built-in tools.
//!
//! The workflow parser, the scheduler, the worker and the command line look these up; none of them lists backends itself.
//! Data and lookups only: no I/O, no async. A new vendor's program is one row in `registry.rs` and one adapter in the
//! worker; a new agent of the Agent Client Protocol is one row in `acp_agents.rs`.

mod acp_agents;
mod builtin_tools;
mod logins;
mod models;
mod providers;
mod registry;
mod reserved_args;
mod settings_paths;
mod spec;
mod tool_names;
mod variables;

pub use acp_agents::{
    ACP_AGENTS, AcpAgentSpec, AcpModelSetting, AcpSessionSupport, AcpToolNaming, AcpUsageScope,
    find_acp_agent,
};
pub use builtin_tools::{
    BUILTIN_TOOLS, BuiltinEffect, BuiltinTool, BuiltinToolSpec, builtin_tool, find_builtin_tool,
    matching_builtin_tools, names_same_tool,
};
pub use logins::{CredentialHint, LoginAbsence, LoginSpec};
pub use models::{
    ApiModel, ModelNames, ModelPrice, PriceSource, api_model, context_window, find_price,
    model_name, model_names, model_prices, request_window,
};
pub use providers::{
    AnswerFormat, EndpointSource, EndpointVariables, KeyHeader, KeyNeed, PROVIDERS,
    ProviderErrorPhrase, ProviderSpec, UNLISTED_PROVIDER_PHRASES, WireShape, find_provider,
};
pub use registry::{
    BACKENDS, available_backends, backend_programs, find_backend, find_program_backend,
    install_command, joins_running_turns,
};
pub use settings_paths::settings_paths;
pub use spec::{
    ACP_TOOL_KINDS, BackendCapabilities, BackendKind, BackendSpec, CapabilitySupport,
    PermissionSupport, TEAM_SERVER_NAME,
};
pub use tool_names::request_tool_names;
pub use variables::{
    CloudVariables, NETWORK_VARIABLES, backend_variables, endpoint_variables, named_variable,
    selected_cloud, takes_variable,
};
