//! The descriptor of the process at the other end of a Unix socket.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use nix::{
    errno::Errno,
    sys::socket::{getsockopt, sockopt::PeerPidfd},
};

/// Returns the descriptor; none if the kernel offers none (Linux before 6.5).
pub(crate) fn peer_descriptor(socket: &impl AsFd) -> io::Result<Option<OwnedFd>> {
    match getsockopt(socket, PeerPidfd) {
        Ok(pidfd) => Ok(Some(pidfd)),
        Err(Errno::ENOPROTOOPT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
