//! The caller's wish to stop: SIGINT, SIGTERM, SIGHUP. The first is heard, the second is obeyed at once.

use std::{future::Future, io, pin::pin};

use tokio::signal::unix::{self, SignalKind, signal};

use crate::error::{CliError, Kind};

/// Listens from when it is made; a signal that comes while nobody waits is not lost.
pub(crate) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
    heard: u32,
}

impl Signals {
    /// Starts listening. From now on these signals end nothing by themselves.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            heard: 0,
        })
    }

    /// Starts listening, or says why that is not possible.
    pub(crate) fn listen_or_fail() -> Result<Self, CliError> {
        Self::listen()
            .map_err(|error| CliError::because(Kind::Failed, "could not listen for signals", error))
    }

    /// Waits for the first signal; returns at once if it was already heard.
    pub(crate) async fn first(&mut self) {
        if self.heard == 0 {
            self.arrival().await;
        }
    }

    /// Carries `work` through the first signal; `None` when the second cut it short.
    pub(crate) async fn carry<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        while self.heard < 2 {
            tokio::select! {
                done = &mut work => return Some(done),
                () = self.arrival() => {}
            }
        }
        None
    }

    async fn arrival(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
        self.heard += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use rustix::process::{Signal, getpid, kill_process};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_first_signal_is_carried_through_and_the_second_is_obeyed() {
        let patience = Duration::from_secs(10);
        let mut signals = Signals::listen().unwrap();
        kill_process(getpid(), Signal::TERM).unwrap();
        timeout(patience, signals.first()).await.unwrap();
        timeout(patience, signals.first()).await.expect("a signal that was heard stays heard");
        assert_eq!(signals.carry(async { 42 }).await, Some(42));
        kill_process(getpid(), Signal::HUP).unwrap();
        assert_eq!(timeout(patience, signals.carry(pending::<()>())).await.unwrap(), None);
    }
}
