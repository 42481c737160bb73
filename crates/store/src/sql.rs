//! The operations of the store: one file per noun, each operation a synchronous function on a connection or a write
//! transaction. All statements are here.
//!
//! Invariant: an operation that changes an instance's rows locks the instance's own row first and saves it last
//! (`locked_instance.rs`).
//!
//! The statements are written for SQLite and PostgreSQL. They use only features of both: `ON CONFLICT`, `CASE`,
//! `RETURNING`, `CAST` around a parameter without another indication of its type, no bare columns next to an
//! aggregate, names for subqueries. Four things are left to an engine:
//! - removed when a statement is prepared: `INDEXED BY`, `NOT INDEXED`, `CROSS` before `JOIN … ON`, and the order
//!   inside the recursion of `messages.rs`;
//! - functions that its schema defines: `min` and `max` of two numbers, `json_each`, `json_extract`, `row_checksum`,
//!   `message_hash`, and the collation `NOCASE`;
//! - the columns that hold an id or, if the row is damaged, its key as text (`checksum.rs`);
//! - features of SQLite only: the search index (`search.rs`), `PRAGMA integrity_check` (`integrity.rs`) and the
//!   numbers of team databases (`team_databases.rs`).

pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod attempts;
mod author;
pub(crate) mod binding;
pub(crate) mod checksum;
mod columns;
pub(crate) mod deliveries;
mod delivery_states;
pub(crate) mod documents;
pub(crate) mod effects;
pub(crate) mod events;
pub(crate) mod feedback;
pub(crate) mod file_imports;
pub(crate) mod file_states;
pub(crate) mod grants;
pub(crate) mod hashed_message;
pub(crate) mod inbox;
pub(crate) mod instances;
pub(crate) mod integrity;
pub(crate) mod last_failures;
pub(crate) mod limit_use;
mod locked_instance;
pub(crate) mod members;
pub(crate) mod messages;
mod notices;
pub(crate) mod proposal_rows;
pub(crate) mod proposals;
#[cfg(test)]
mod query_plans;
pub(crate) mod questions;
pub(crate) mod resources;
mod revisions;
pub(crate) mod roles;
pub(crate) mod run_results;
pub(crate) mod run_settlement;
pub(crate) mod run_snapshot;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod spend;
pub(crate) mod spend_slots;
pub(crate) mod suggestions;
pub(crate) mod tasks;
pub(crate) mod team_databases;
pub(crate) mod tokens;
pub(crate) mod transaction;
pub(crate) mod turn_history;
