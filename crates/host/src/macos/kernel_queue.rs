//! Registrations with the kernel's event queue (kqueue).

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::{
    errno::Errno,
    libc::timespec,
    sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue},
};

/// Events of an open file or folder: its content or entries change, or it loses its name.
const FILE_EVENTS: FilterFlag = FilterFlag::NOTE_WRITE
    .union(FilterFlag::NOTE_EXTEND)
    .union(FilterFlag::NOTE_DELETE)
    .union(FilterFlag::NOTE_RENAME);
/// Room for the events of one read; the rest stays in the queue.
const MAX_EVENTS: usize = 64;

/// Registers an open file or folder. Closing it ends the registration.
pub(super) fn register_file(queue: &Kqueue, file: BorrowedFd<'_>) -> nix::Result<()> {
    let number = usize::try_from(file.as_raw_fd()).map_err(|_| Errno::EBADF)?;
    let flags = EvFlags::EV_ADD | EvFlags::EV_CLEAR;
    let change = KEvent::new(number, EventFilter::EVFILT_VNODE, flags, FILE_EVENTS, 0, 0);
    queue.kevent(&[change], &mut [], Some(NO_WAIT)).map(drop)
}

/// Registers the end of a process.
pub(super) fn register_process(queue: &Kqueue, pid: u32) -> nix::Result<()> {
    let number = usize::try_from(pid).map_err(|_| Errno::ESRCH)?;
    let flags = EvFlags::EV_ADD | EvFlags::EV_ONESHOT;
    let change = KEvent::new(number, EventFilter::EVFILT_PROC, flags, FilterFlag::NOTE_EXIT, 0, 0);
    queue.kevent(&[change], &mut [], Some(NO_WAIT)).map(drop)
}

/// Returns the next events, after at most `wait`; without it, waits for one.
pub(super) fn next_events(queue: &Kqueue, wait: Option<timespec>) -> nix::Result<Vec<KEvent>> {
    let empty =
        KEvent::new(0, EventFilter::EVFILT_VNODE, EvFlags::empty(), FilterFlag::empty(), 0, 0);
    let mut events = [empty; MAX_EVENTS];
    let count = queue.kevent(&[], &mut events, wait)?;
    Ok(events.into_iter().take(count).collect())
}

/// A wait that ends at once.
pub(super) const NO_WAIT: timespec = timespec { tv_sec: 0, tv_nsec: 0 };
