//! The figures of docs/benchmarks.md.
fn main() {}
