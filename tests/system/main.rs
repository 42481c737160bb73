//! The whole system from outside: the real binary, a real daemon, real processes, killed for real.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the report")]

mod commands;
mod crash;
mod judge;
mod lifecycle;
mod limits;
mod processes;
mod restart;
mod world;
