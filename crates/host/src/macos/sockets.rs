//! The peers of connections: macOS has no query for one TCP socket, and no descriptor of a peer's process.

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
};

use crate::tcp_peer::{PeerSocket, SocketEntry, SocketHolders};

/// Returns none: a process is known by its pid alone.
pub(crate) fn peer_descriptor(_socket: &impl AsFd) -> io::Result<Option<OwnedFd>> {
    Ok(None)
}

/// Fails: the table of sockets is not read, so every TCP peer is unknown.
pub(crate) fn find_socket(
    _own: SocketAddr,
    _remote: SocketAddr,
) -> io::Result<Option<SocketEntry>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns no process.
pub fn socket_holders(_socket: PeerSocket) -> SocketHolders {
    SocketHolders::default()
}

/// Returns no process.
pub fn holders_among(_socket: PeerSocket, _pids: impl IntoIterator<Item = u32>) -> SocketHolders {
    SocketHolders::default()
}
