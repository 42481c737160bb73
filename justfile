# One-liners for the day. `just` lists them.

_default:
    @just --list

# Everything that must hold before a change lands.
test:
    scripts/test

# The fast part: lints and tests of what changed.
check:
    cargo clippy --workspace --all-targets -- -D warnings
    cargo nextest run --workspace

# Figures, as a table.
bench:
    scripts/bench

# The long versions of the crash tests.
nightly:
    scripts/nightly

fmt:
    cargo fmt --all
    cargo fmt --all -- crates/worker/src/program/adapters/*.rs
