//! SCRIPT: the YAML file. It is loaded with line and column, checked to the end, and filled in.
//!
//! [`load()`] turns a file into a [`Workflow`]: every name known, every default filled in, every
//! reference placed. After that only values are missing: a [`Scope`] has them, a [`Template`]
//! becomes text, a [`ShellTemplate`] becomes a script in which no value is ever code. [`mentions()`]
//! reads whom a text is for.
//!
//! Not here: running anything, the environment, the network. The only I/O is reading the file the
//! caller names and the prompt files beneath its folder.

mod agents;
mod backend;
mod complaint;
mod context;
mod error;
mod fields;
mod file;
mod layout;
mod limits;
mod load;
mod mention;
mod mock;
mod params;
mod permissions;
mod prompt;
mod reference;
mod report;
mod schema;
mod scope;
mod setup;
mod shell;
mod silence;
mod standalone;
mod suggest;
mod template;
mod tree;
mod workflow;

pub use backend::choice as backend_choice;
pub use context::{Context, DocumentOwner, Documents, Provider};
pub use error::{Error, Paint};
pub use layout::Layout;
pub use limits::LimitSettings;
pub use load::{load, parse};
pub use mention::{Mentions, mentions};
pub use params::{Param, SWITCHES};
pub use reference::Reference;
pub use report::{Mistake, Report};
pub use schema::schema;
pub use scope::Scope;
pub use setup::SetupStep;
pub use shell::{Prepared, ShellTemplate, ValueFile};
pub use silence::Silence;
pub use standalone::{BadDraft, Draft, script};
pub use suggest::nearest;
pub use template::{Rendered, Template};
pub use workflow::Workflow;
