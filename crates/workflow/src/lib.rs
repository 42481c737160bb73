//! SCRIPT: the YAML file. It is loaded with line and column, checked to the end, and filled in.
//!
//! [`load()`] turns a file into a [`Workflow`]: every name known, every default filled in, every
//! reference placed. After that only values are missing: a [`Scope`] has them, a [`Template`]
//! becomes text, a [`ShellTemplate`] becomes a script in which no value is ever code.
//!
//! Not here: running anything, the environment, the network. The only I/O is reading the file the
//! caller names and the prompt files beneath its folder.

mod agents;
mod context;
mod error;
mod fields;
mod file;
mod limits;
mod load;
mod mock;
mod params;
mod prompt;
mod reference;
mod scope;
mod setup;
mod shell;
mod suggest;
mod template;
mod tree;
mod workflow;

pub use context::{Context, Documents, Provider};
pub use error::{Error, Paint, Report};
pub use limits::LimitSettings;
pub use load::{load, parse};
pub use params::Param;
pub use reference::Reference;
pub use scope::Scope;
pub use setup::SetupStep;
pub use shell::{Prepared, ShellTemplate, ValueFile};
pub use template::{Rendered, Template};
pub use workflow::Workflow;
