//! Procedures (`tasks:`) on the real binary: the examples.

mod examples;
mod worlds;
