//! Tests of the kernel: whole runs against the real store, with scripted workers and a virtual clock.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod agent_join;
mod answers;
mod approvals;
mod attention;
mod channel;
mod documents;
mod effects;
mod event_watch;
mod failures;
mod faults;
mod hold;
mod inboxes;
mod limits;
mod machine;
mod members;
mod memory_provider;
mod pages;
mod paused_clock_store;
mod principals;
mod proposals;
mod recovery;
mod run_ledger;
mod run_results;
mod run_resume;
mod run_stop;
mod runs;
mod scripted_worker;
mod setup;
mod simulation;
mod targets;
mod views;
mod vote_endings;
mod wall_clock;
mod wall_limit;
mod world;
