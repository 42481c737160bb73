//! The adapters of the vendors' programs: one file each, named after its row in the registry.
//!
//! The registry names the files, so a new program is one row and one file. `cargo fmt` does not find files that a
//! macro names; `just fmt` and `scripts/test` list them.

use serde_json::Value;

use super::ProgramAdapter;

/// Creates the adapter of one process, which continues a conversation or begins one.
pub(super) type NewAdapter = fn(Option<&Value>) -> Box<dyn ProgramAdapter>;

macro_rules! adapters {
    ($($name:ident)*) => {
        $(pub(super) mod $name;)*

        /// Returns the adapter of a backend.
        pub(super) fn find_adapter(name: &str) -> Option<NewAdapter> {
            match name {
                $(stringify!($name) => Some($name::adapter),)*
                _ => None,
            }
        }
    };
}

agent_worker_backends::for_each_program!(adapters);
