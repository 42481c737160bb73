//! Errors for an exhausted resource of the machine, after which a later try may succeed.

use std::io;

use rustix::io::Errno;

/// Exit status of a worker that could not start because of such an error (`EX_TEMPFAIL`).
pub const EXIT_SHORTAGE: u8 = 75;

/// Returns true if the machine lacks processes, memory, file descriptors or disk space.
pub fn is_shortage(error: &io::Error) -> bool {
    // `fork` reports the process limit as EAGAIN; none of the callers uses non-blocking I/O.
    const SHORTAGES: [Errno; 6] =
        [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::NOSPC, Errno::DQUOT];
    Errno::from_io_error(error).is_some_and(|errno| SHORTAGES.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_of_the_machine_is_distinguished_from_a_mistake() {
        for (errno, expected) in [
            (Errno::AGAIN, true),
            (Errno::NOMEM, true),
            (Errno::MFILE, true),
            (Errno::NFILE, true),
            (Errno::NOSPC, true),
            (Errno::DQUOT, true),
            (Errno::NOENT, false),
            (Errno::ACCESS, false),
            (Errno::NOEXEC, false),
        ] {
            assert_eq!(is_shortage(&errno.into()), expected, "{errno:?}");
        }
        assert!(!is_shortage(&io::Error::other("not the system's")));
    }
}
