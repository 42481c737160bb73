//! Procedures (`tasks:`) on the real binary: the examples, hostile values, kills and stops.

mod examples;
mod kills;
mod stops;
mod values;
mod worlds;
