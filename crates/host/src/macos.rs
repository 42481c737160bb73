//! The parts of this crate for macOS. `linux` has functions of the same names.
//!
//! This code is compiled and linked, and has never run. macOS has no control groups, no subreaper, and no descriptor that
//! keeps a pid from meaning another process; the functions say what they do instead.

mod control_groups;
mod environments;
mod file_watch;
mod folder_queue;
mod kernel_queue;
mod own_process;
mod process_events;
mod process_table;
mod sockets;

pub use file_watch::KqueueFileWatch as FileWatch;
pub use folder_queue::KqueueFolders as FolderQueue;
pub use own_process::{adopt_orphans, own_program};
pub use process_table::process_name;
pub use sockets::{holders_among, socket_holders};

pub(crate) use control_groups::{cgroup_path, own_cgroup_folder};
pub(crate) use environments::{environment, environment_values};
pub(crate) use own_process::lost_descendants;
pub(crate) use process_events::{signal_process, wait_ended};
pub(crate) use process_table::{all_processes, proportional_memory, resident_memory, stat};
pub(crate) use sockets::{find_socket, peer_descriptor};
