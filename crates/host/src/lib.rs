//! Interfaces of the machine: lock files, process trees, control groups, programs, peers of TCP connections, and the client
//! side of the daemon's socket.
//!
//! Every crate that runs as a process uses this one. Nothing here knows the concept of an agent.

mod atomic_file;
mod cgroup;
mod connection;
mod connection_limits;
mod daemon_socket;
mod damage;
mod event_stream;
mod hold_mark;
mod inherited_files;
mod keyed_limit;
mod lock;
mod mcp_client;
mod process_tree;
mod procfs;
mod program_search;
mod shortage;
mod socket_peer;
mod tcp_peer;
mod termination;

pub use atomic_file::{Durability, write_atomically};
pub use cgroup::{Cgroup, CgroupRoot, group_marks};
pub use connection_limits::{ConnectionLimits, ConnectionPlace, TOKEN_TIMEOUT};
pub use daemon_socket::{DaemonSocket, DialError};
pub use damage::observe_damage;
pub use event_stream::EventStream;
pub use hold_mark::HoldMark;
pub use inherited_files::close_inherited_files_on_exec;
pub use keyed_limit::{KeyedLimit, KeyedPlace};
pub use lock::LockFile;
pub use mcp_client::{McpAction, McpReply, McpReplyBody};
pub use process_tree::{
    ATTEMPT_MARKER, Process, attempt_marks, children, dead_children, descendants,
    environment_value, is_inside_attempt, marked_processes, own_descendants, own_marks,
    process_chain, reap,
};
pub use procfs::process_name;
pub use program_search::{ProgramDefect, find_program};
pub use shortage::{EXIT_SHORTAGE, is_shortage};
pub use socket_peer::SocketPeer;
pub use tcp_peer::{
    PeerSocket, PortHolder, SocketHolders, TcpPeer, holders_among, port_holder, socket_holders,
    tcp_peer,
};
pub use termination::{end_processes, end_processes_off_thread, run_blocking};
