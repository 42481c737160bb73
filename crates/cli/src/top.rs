//! The full screen of `agent-worker top`, in layers: `state` (runs, attention, channel, selection) and `keys` (their changes
//! by keys) and `view` (the screen) are pure; `requests`, `streams` and `terminal` do the I/O; `session` joins them.

mod entries;
mod keys;
mod requests;
mod session;
mod state;
mod streams;
mod terminal;
mod view;

pub(crate) use self::session::TopSession;
