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
mod deciding;
mod drawers;
mod ending;
mod exits;
mod explaining;
mod foreign;
mod helping;
mod hints;
mod judge;
mod life;
mod lifecycle;
mod limits;
mod load;
mod looking;
mod model_server;
mod processes;
mod programs;
mod proxy;
mod reading;
mod restart;
mod sharing;
mod shelf;
mod shortage;
mod shown;
mod steady;
mod strangers;
mod suspension;
mod terminal;
mod tracking;
mod transcript;
mod view;
mod voters;
mod world;
