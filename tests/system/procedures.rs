//! Procedures (`tasks:`) on the real binary: the examples, kills and stops.

mod examples;
mod kills;
mod stops;
mod worlds;
