//! The adapters of the vendors' programs: one file each, with the name of its row in the registry.
//!
//! The registry names the files, so that a new program is one row and one file. `cargo fmt` does not find the files by
//! that; `just fmt` and `scripts/test` name them.

use serde_json::Value;

use super::ProgramAdapter;

/// Makes the adapter of one process, which continues a conversation or begins one.
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
