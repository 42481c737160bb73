//! DECISIONS: what happens next, and the loops that do it.
//!
//! Pure functions decide (`recipients`, `limits`, `idle`, `policy`, `tally`, `target`), dull loops carry it out
//! (`scheduler`), and [`Kernel`] is the one object behind every door.
//! Not here: HTTP, MCP, SQL, processes. Time and chance are parameters.

mod approvals;
mod attempts;
mod attendance;
mod attention;
mod channel;
mod clock;
mod detail;
mod documents;
mod error;
mod events;
mod file_merge;
mod idle;
mod inbox;
mod instances;
mod joining;
mod kernel;
mod limits;
mod lines;
mod live;
mod members;
mod merge;
mod permissions;
mod place;
mod policy;
mod prompt;
mod proposals;
mod questions;
mod recipients;
mod resources;
mod runner;
mod runs;
mod scheduler;
mod scope;
mod shelf;
mod sizes;
mod stats;
mod suggestions;
mod tally;
mod target;
mod terms;
mod tokens;
mod transcript;
mod views;
mod wall_clock;

pub use agent_worker_store::{
    Base, Change, ExchangeMode, FileIntent, FileSlot, FileState, PendingAside,
};
pub use attention::Burial;
pub use channel::Reading;
pub use clock::{Clock, Dice, VirtualClock};
pub use documents::DECISIONS;
pub use error::Error;
pub use events::{Feed, Watched};
pub use file_merge::FoundText;
pub use inbox::{Acked, Inbox};
pub use kernel::{Kernel, Parts, Principal};
pub use place::Place;
pub use proposals::Ballots;
pub use runner::{
    Departure, EventTail, Mark, Origin, Place as AttemptPlace, Runner, ShellCommand, ShellEnd,
    Sighting,
};
pub use scheduler::{Options, Recovered};
pub use shelf::{CONFLICT, Files, Shelf, Stage};
pub use transcript::{Stretch, Transcript};
pub use views::{Breadth, Tally};
