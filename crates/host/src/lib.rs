//! Interfaces of the machine: lock files, process trees, control groups, programs, peers of TCP connections, and the client
//! side of the daemon's socket.
//!
//! Every crate that runs as a process uses this one. Nothing here knows the concept of an agent.

mod atomic_file;
mod cgroup;
mod command_folder;
mod connection;
mod connection_limits;
mod daemon_socket;
mod damage;
mod event_stream;
mod folder_change;
mod hold_mark;
mod inherited_files;
mod keyed_limit;
#[cfg(any(target_os = "macos", test))]
mod kinfo;
#[cfg(target_os = "linux")]
mod linux;
mod lock;
#[cfg(target_os = "macos")]
mod macos;
mod mcp_client;
mod process_memory;
mod process_tree;
mod program_search;
#[cfg(any(target_os = "macos", test))]
mod ps_output;
mod public_address;
mod shortage;
mod socket_path;
mod socket_peer;
mod tcp_peer;
mod termination;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
use macos as system;

pub use atomic_file::{Durability, write_atomically};
pub use cgroup::{Cgroup, CgroupRoot, group_marks};
pub use command_folder::CommandFolder;
pub use connection_limits::{ConnectionLimits, ConnectionPlace, TOKEN_TIMEOUT};
pub use daemon_socket::{DaemonSocket, DialError};
pub use damage::observe_damage;
pub use event_stream::EventStream;
pub use folder_change::FolderChange;
pub use hold_mark::HoldMark;
pub use inherited_files::close_inherited_files_on_exec;
pub use keyed_limit::{KeyedLimit, KeyedPlace};
pub use lock::LockFile;
pub use mcp_client::{McpAction, McpReply, McpReplyBody};
pub use process_memory::tree_memory;
pub use process_tree::{
    ATTEMPT_MARKER, Process, TASK_MARKER, attempt_marks, children, dead_children, descendants,
    environment_value, is_inside_attempt, marked_processes, own_descendants, own_marks,
    process_chain, reap, task_processes,
};
pub use program_search::{ProgramDefect, find_program};
pub use public_address::{is_public, is_remote};
pub use shortage::{EXIT_SHORTAGE, is_shortage};
pub use socket_path::MAX_SOCKET_PATH_BYTES;
pub use socket_peer::SocketPeer;
pub use system::{
    FileWatch, FolderQueue, adopt_orphans, holders_among, own_program, process_name, socket_holders,
};
pub use tcp_peer::{PeerSocket, PortHolder, SocketHolders, TcpPeer, port_holder, tcp_peer};
pub use termination::{end_processes, end_processes_off_thread, run_blocking};
