//! The last resort of a shutdown: ends the process if the shutdown takes too long.
//!
//! A separate thread of the system waits, because a blocked disk or pipe can stop every task of the runtime. The store
//! survives the end of the process at any point.

use std::{
    process,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

/// Exit status of a process that the deadline ended.
const EXIT_FORCED: i32 = 1;

/// Ends the process after a deadline, unless this value is dropped before.
#[derive(Default)]
pub(crate) struct ExitDeadline {
    armed: Vec<Sender<()>>,
}

impl ExitDeadline {
    /// Ends the process after `limit`. An earlier deadline stays.
    pub(crate) fn arm(&mut self, limit: Duration) {
        let (sender, receiver) = channel();
        self.armed.push(sender);
        thread::spawn(move || {
            if has_expired(&receiver, limit) {
                tracing::error!("the shutdown did not finish in time; exiting");
                process::exit(EXIT_FORCED);
            }
        });
    }
}

/// Waits for the limit; returns false if the deadline was dropped before.
fn has_expired(receiver: &Receiver<()>, limit: Duration) -> bool {
    receiver.recv_timeout(limit) == Err(RecvTimeoutError::Timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_is_dropped_in_time_never_expires() {
        let (sender, receiver) = channel();
        assert!(has_expired(&receiver, Duration::ZERO));
        drop(sender);
        assert!(!has_expired(&receiver, Duration::MAX));
    }
}
