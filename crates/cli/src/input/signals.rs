//! Signals that ask to stop: SIGINT, SIGTERM, SIGHUP. The first is handled gracefully, the second ends the command at
//! once. SIGQUIT ends it at once too; a command that changes the terminal's modes restores them first.

use std::{
    convert::Infallible,
    future::{Future, pending},
    io,
    pin::pin,
    process,
};

use tokio::signal::unix::{self, SignalKind, signal};

use crate::error::{CliError, CliErrorKind};

/// Exit status of a process that SIGQUIT ends, as a shell reports it.
const EXIT_QUIT: i32 = 128 + 3;

/// Listens from its creation on; a signal that arrives between two waits is not lost.
pub(crate) struct InterruptSignals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
    quit: Option<QuitSignal>,
    received: u32,
}

/// SIGQUIT, and the restore of the terminal before the end.
struct QuitSignal {
    signal: unix::Signal,
    restore: Box<dyn Fn() + Send>,
}

/// The origin of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalSource {
    /// Ctrl-C at the terminal.
    Keyboard,
    /// A request to end: SIGTERM, or SIGHUP of a closed terminal.
    System,
}

impl InterruptSignals {
    /// Starts listening; from now on these signals do not end the process by themselves.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: None,
            received: 0,
        })
    }

    /// Starts listening, or returns the reason as a [`CliError`].
    pub(crate) fn listen_or_fail() -> Result<Self, CliError> {
        Self::listen().map_err(listen_error)
    }

    /// From now on SIGQUIT calls `restore` before it ends the process.
    pub(crate) fn restore_on_quit(
        &mut self,
        restore: impl Fn() + Send + 'static,
    ) -> Result<(), CliError> {
        let signal = signal(SignalKind::quit()).map_err(listen_error)?;
        self.quit = Some(QuitSignal { signal, restore: Box::new(restore) });
        Ok(())
    }

    /// Waits for the first signal; returns at once if it has already arrived.
    pub(crate) async fn wait_for_first(&mut self) {
        if self.received == 0 {
            self.next_signal().await;
        }
    }

    /// Runs `work` through the first signal; returns `None` if the second one interrupts it.
    pub(crate) async fn run_until_second<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        while self.received < 2 {
            tokio::select! {
                done = &mut work => return Some(done),
                _ = self.next_signal() => {}
            }
        }
        None
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn next_signal(&mut self) -> SignalSource {
        let source = tokio::select! {
            _ = self.interrupt.recv() => SignalSource::Keyboard,
            _ = self.terminate.recv() => SignalSource::System,
            _ = self.hangup.recv() => SignalSource::System,
            never = exit_on_quit(&mut self.quit) => match never {},
        };
        self.received += 1;
        source
    }

    /// Waits for SIGQUIT, if the terminal is to be restored, and ends the process. Cancel safe.
    pub(crate) async fn exit_on_quit(&mut self) -> Infallible {
        exit_on_quit(&mut self.quit).await
    }
}

async fn exit_on_quit(quit: &mut Option<QuitSignal>) -> Infallible {
    let Some(QuitSignal { signal, restore }) = quit else { return pending().await };
    signal.recv().await;
    restore();
    process::exit(EXIT_QUIT)
}

fn listen_error(error: io::Error) -> CliError {
    CliError::with_source(CliErrorKind::Failed, "could not listen for signals", error)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_first_signal_is_carried_through_and_the_second_is_obeyed() {
        let deadline = Duration::from_secs(10);
        let mut signals = InterruptSignals::listen().unwrap();
        kill_process(getpid(), Signal::TERM).unwrap();
        timeout(deadline, signals.wait_for_first()).await.unwrap();
        timeout(deadline, signals.wait_for_first())
            .await
            .expect("a signal that was received stays known");
        assert_eq!(signals.run_until_second(async { 42 }).await, Some(42));
        kill_process(getpid(), Signal::HUP).unwrap();
        assert_eq!(
            timeout(deadline, signals.run_until_second(pending::<()>())).await.unwrap(),
            None
        );
    }
}
