//! The parts of this crate for Linux. `macos` has functions of the same names.

mod cgroup_mounts;
mod file_watch;
mod folder_queue;
mod own_process;
mod peer_descriptor;
mod process_descriptor;
mod procfs;
mod tcp_sockets;

pub use file_watch::InotifyFileWatch as FileWatch;
pub use folder_queue::InotifyFolders as FolderQueue;
pub use own_process::{adopt_orphans, own_program};
pub use procfs::process_name;
pub use tcp_sockets::{holders_among, socket_holders};

pub(crate) use cgroup_mounts::own_cgroup_folder;
pub(crate) use own_process::lost_descendants;
pub(crate) use peer_descriptor::peer_descriptor;
pub(crate) use process_descriptor::{signal_process, wait_ended};
pub(crate) use procfs::{
    all_processes, cgroup_path, environment, environment_values, proportional_memory,
    resident_memory, stat,
};
pub(crate) use tcp_sockets::find_socket;
