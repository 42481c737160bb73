//! The process at the other end of a Unix socket.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::system;

/// The process that connected to a Unix socket, by a descriptor that means no other process, also after its pid was
/// given to another.
#[derive(Debug)]
pub struct SocketPeer {
    /// None where the kernel offers no such descriptor (Linux before 6.5, macOS).
    pidfd: Option<OwnedFd>,
}

impl SocketPeer {
    /// Returns the process that connected to `socket`. An error means that it has ended and is not known any more.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        Ok(Self { pidfd: system::peer_descriptor(socket)? })
    }

    /// Returns true if the process is known to have ended. Facts that were read by its pid before this call are not
    /// about another process if it returns false and the kernel offers the descriptor.
    pub fn has_ended(&self) -> io::Result<bool> {
        let Some(pidfd) = &self.pidfd else { return Ok(false) };
        let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
        Ok(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
    }
}
