//! The whole system from outside: the real binary, a real daemon, real processes, killed for real.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the report")]

mod acting;
mod agents;
mod api;
mod approving;
mod bridge;
mod changes;
mod clients;
mod commands;
mod conformance;
mod crash;
mod damage;
mod deciding;
mod disks;
mod drawers;
mod ending;
mod exits;
mod explaining;
mod file_kills;
mod foreign;
mod helping;
mod hints;
mod judge;
mod life;
mod lifecycle;
mod limits;
mod looking;
mod model_server;
mod processes;
mod programs;
mod proxy;
mod reading;
mod restart;
mod sharing;
mod shelf;
mod shown;
mod steady;
mod strangers;
mod succession;
mod terminal;
mod transcript;
mod view;
mod voters;
mod wall_clock;
mod world;
