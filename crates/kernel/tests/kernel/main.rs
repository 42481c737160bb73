//! The kernel's room: whole runs against the real store, with scripted workers and a virtual clock.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod effects;
mod failures;
mod forgetting;
mod inboxes;
mod ledger;
mod limits;
mod machine;
mod patient;
mod principals;
mod recovery;
mod runs;
mod setup;
mod simulation;
mod stopping;
mod watching;
mod worker;
mod world;
