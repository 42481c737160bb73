//! HOST: the machine beneath us: lock files, process trees, and the daemon's socket from outside.
//!
//! Used by every room that is a process. Nothing here knows what an agent is.

mod cgroup;
mod damage;
mod dial;
mod ending;
mod event_stream;
mod line;
mod lock;
mod procfs;
mod shortage;
mod talk;
mod tree;

pub use cgroup::{Cgroup, CgroupRoot, group_marks};
pub use damage::observe_damage;
pub use dial::{Daemon, DialError};
pub use ending::{end, end_aside, walk};
pub use event_stream::EventStream;
pub use lock::LockFile;
pub use shortage::{EXIT_SHORTAGE, is_shortage};
pub use talk::{Heard, Saying, What};
pub use tree::{
    ATTEMPT_MARKER, Process, chain, children, dead_children, descendants, environment_value,
    in_attempt, marked, marks, own_descendants, reap,
};
