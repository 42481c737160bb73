//! The kernel's room: whole runs against the real store, with scripted workers and a virtual clock.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod approvals;
mod attention;
mod channel;
mod documents;
mod effects;
mod failures;
mod faults;
mod forgetting;
mod inboxes;
mod joining;
mod ledger;
mod limits;
mod machine;
mod members;
mod patient;
mod principals;
mod proposals;
mod recovery;
mod resuming;
mod runs;
mod setup;
mod simulation;
mod stopping;
mod targets;
mod views;
mod wall_clock;
mod watching;
mod worker;
mod world;
