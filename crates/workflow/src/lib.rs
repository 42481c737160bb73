//! The workflow file in YAML: loaded with line and column, checked to the end, and interpolated.
//!
//! [`load()`] turns a file into a [`Workflow`]: every name is known, every default is filled in, every reference is
//! placed. After that only values are missing: a [`TemplateScope`] has them, a [`Template`] becomes text, a
//! [`ShellTemplate`] becomes a script in which no value is ever code. [`mentions()`] reads the recipients of a text.
//!
//! This crate executes nothing and reads neither the environment nor the network. Its only I/O is reading the file
//! that the caller names, the prompt files and agent files beneath its folder, a file of parameters, and the names in that folder if the file is
//! missing.

mod agents;
mod definition;
mod diagnostics;
mod error;
mod mentions;
mod open_folder;
mod shell;
mod template;
mod yaml;

pub use agents::backend::{NO_DEFAULT as NO_DEFAULT_BACKEND, backend_choices as backend_choice};
pub use agents::mock_tools::{MockToolChange, change_mock_tools, changed_mock_tools};
pub use agents::standalone::{
    AgentDraft, AgentDraftError, check_mock_rules, parse_live_mock_script, parse_mock_script,
};
pub use agents::team_parts::TeamParts;
pub use agents::tool_list::{ToolFacts, agent_tools};
pub use definition::agent_problems::{AgentProblem, locate_agent_problems};
pub use definition::answers::AnswerHandling;
pub use definition::context::{DocumentOwner, Documents, Provider, WorkflowContext};
pub use definition::gates::GateSettings;
pub use definition::layout::Layout;
pub use definition::limits::LimitSettings;
pub use definition::load::{load, load_file, load_text, load_with, parse};
pub use definition::nearby_file::nearest_workflow_file;
pub use definition::notify::webhook_problem;
pub use definition::param_value::ParamProblem;
pub use definition::params::{Param, ParamType, RESERVED_LETTERS, RESERVED_OPTIONS};
pub use definition::params_file::{load_params_file, parse_params};
pub use definition::schema::schema;
pub use definition::setup::SetupStep;
pub use definition::tasks::{
    AskTask, ChildWorkflowTask, MessageTask, ParallelTasks, SendEnd, ShellTask, TaskAction,
    TaskDefinition, TaskFormat, TaskLoop, TaskProcedure, TaskRetry,
};
pub use definition::unset_env::unset_env;
pub use definition::user_config::UserConfig;
pub use definition::workflow::Workflow;
pub use diagnostics::report::{DiagnosticReport, Mistake};
pub use diagnostics::spelling::nearest;
pub use error::{Error, RenderStyle};
pub use mentions::answer::{AnswerAddressees, AnswerMentions};
pub use mentions::kickoff_check::KickoffProblem;
pub use mentions::{Mentions, mentions};
pub use open_folder::OpenFolder;
pub use shell::{PreparedScript, ShellTemplate, ValueFile};
pub use template::reference::{Reference, TaskFact};
pub use template::scope::{ScopeBinding, ScopeValue, TemplateScope};
pub use template::{Rendered, Template};
